//! The mailbox in the browser: mails that would have been sent. Exists only without SMTP on a
//! loopback `BASE_URL`.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Mail;

/// How many mails are kept.
const KEPT: usize = 100;

/// The newest mails, newest first.
#[derive(Default)]
pub struct Mailbox(Mutex<VecDeque<Mail>>);

impl Mailbox {
    pub fn keep(&self, mail: Mail) {
        let mut mails = self.mails();
        mails.push_front(mail);
        mails.truncate(KEPT);
    }

    pub fn list(&self) -> Vec<Mail> {
        self.mails().iter().cloned().collect()
    }

    pub fn find(&self, id: &str) -> Option<Mail> {
        self.mails().iter().find(|mail| mail.id == id).cloned()
    }

    fn mails(&self) -> MutexGuard<'_, VecDeque<Mail>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
