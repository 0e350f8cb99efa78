//! Tries: what is written down before a mail leaves. The link's hash, and the place it takes under the
//! daily limit, for a batch of mails in one transaction.

use super::links::{self, NewLink};
use super::quota::{self, Place};
use super::{Store, StoreError};
use crate::clock::Millis;

/// A mail about to leave.
#[derive(Debug)]
pub struct Try<'a> {
    pub link: NewLink<'a>,
    /// Only where there is a daily limit.
    pub place: Option<Place>,
}

/// Whether it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    Go,
    /// The daily limit leaves no place.
    Held,
    /// The lease was lost, or an earlier copy arrived after all and its link was used.
    Lost,
}

impl Store {
    /// Begins tries in their order; one verdict each.
    pub async fn begin(&self, tries: &[Try<'_>], now: Millis) -> Result<Vec<Begun>, StoreError> {
        let mut transaction = self.write.begin().await?;
        let limited = tries.iter().any(|one| one.place.is_some());
        let mut sent = if limited { quota::lock_and_count(&mut transaction, now).await? } else { 0 };
        let mut verdicts = Vec::with_capacity(tries.len());
        for Try { link, place } in tries {
            if place.as_ref().is_some_and(|place| sent >= place.ceiling) {
                verdicts.push(Begun::Held);
            } else if !links::mint(&mut transaction, link).await? {
                verdicts.push(Begun::Lost);
            } else {
                if let Some(place) = place {
                    quota::take(&mut transaction, place, now).await?;
                    sent += 1;
                }
                verdicts.push(Begun::Go);
            }
        }
        transaction.commit().await?;
        Ok(verdicts)
    }
}
