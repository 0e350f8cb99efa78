//! Sessions as the database last told them: a gateway asks for each picture on a page, and the answer is
//! the same for seconds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use moka::policy::EvictionPolicy;
use moka::sync::Cache;

use crate::app::App;
use crate::clock::Micros;
use crate::domain::token::SessionToken;
use crate::store::StoreError;
use crate::store::sessions::Session;

/// How long the database isn't asked again. Another replica ends a session within five seconds.
const FRESH: Micros = 4_000_000;
/// Sessions that are remembered at most.
const MOST: u64 = 100_000;

/// What is remembered of live sessions, by their tokens' bytes, which nobody can look at.
pub struct Sessions {
    known: Cache<SessionToken, Arc<Known>>,
    /// How often this process has ended any.
    ended: AtomicU64,
}

struct Known {
    session: Arc<Session>,
    asked_at: Micros,
    /// Of all that was ended before the database was asked.
    ended: u64,
}

impl Default for Sessions {
    fn default() -> Self {
        let known = Cache::builder().max_capacity(MOST).eviction_policy(EvictionPolicy::lru());
        Self { known: known.build(), ended: AtomicU64::new(0) }
    }
}

impl Sessions {
    /// The live session of a token.
    pub async fn look_up(&self, token: SessionToken, app: &App) -> Result<Option<Arc<Session>>, StoreError> {
        let (now, at) = (app.clock.now(), app.clock.monotonic());
        // Before the database is asked: what is ended meanwhile makes the answer stale.
        let ended = self.ended.load(Ordering::Acquire);
        if let Some(known) = self.known.get(&token)
            && known.ended == ended
            && at.saturating_sub(known.asked_at) < FRESH
            && known.session.expires_at > now
        {
            return Ok(Some(known.session.clone()));
        }
        let session = app.store.session(&token.hash(), now, app.config.session_idle).await?.map(Arc::new);
        match &session {
            Some(session) => {
                self.known.insert(token, Arc::new(Known { session: session.clone(), asked_at: at, ended }));
            }
            None => self.known.invalidate(&token),
        }
        Ok(session)
    }

    /// This process has ended a session: it is refused at once, and so all are asked for anew.
    pub fn ended(&self) {
        self.ended.fetch_add(1, Ordering::AcqRel);
    }
}
