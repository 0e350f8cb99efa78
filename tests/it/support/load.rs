//! Many people at once.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::task::JoinSet;

use super::http::Browser;

/// People who ask for an account, each for another address from another network, until they are
/// stopped or nobody answers.
pub struct Load {
    stopped: Arc<AtomicBool>,
    tasks: JoinSet<Vec<String>>,
}

impl Load {
    /// So many queues of people, one behind the other.
    pub fn start(address: SocketAddr, queues: usize) -> Self {
        Self::starting(address, queues, &[302])
    }

    /// The same where the server may be unable to serve for a while, and says so.
    pub fn through_gaps(address: SocketAddr, queues: usize) -> Self {
        Self::starting(address, queues, &[302, 503])
    }

    fn starting(address: SocketAddr, queues: usize, expected: &'static [u16]) -> Self {
        let stopped = Arc::new(AtomicBool::new(false));
        let tasks = (0..queues).map(|_| queue(address, stopped.clone(), expected)).collect();
        Self { stopped, tasks }
    }

    /// The addresses that were promised a mail, once everybody has gone.
    pub async fn promised(self) -> Vec<String> {
        self.stopped.store(true, Ordering::Relaxed);
        self.tasks.join_all().await.concat()
    }
}

async fn queue(address: SocketAddr, stopped: Arc<AtomicBool>, expected: &[u16]) -> Vec<String> {
    let mut promised = Vec::new();
    while !stopped.load(Ordering::Relaxed) {
        let (mut person, email) = newcomer(address);
        let Some(answer) = person.try_ask("/users/register", &email).await else { break };
        assert!(expected.contains(&answer.status), "{answer:?}");
        if answer.status == 302 {
            promised.push(email);
        }
    }
    promised
}

/// A browser in a network of its own, and an address.
pub fn newcomer(address: SocketAddr) -> (Browser, String) {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let network = format!("10.{}.{}.{}", number >> 16 & 255, number >> 8 & 255, number & 255);
    (Browser::new(address).from(&network), format!("person-{number}@example.org"))
}
