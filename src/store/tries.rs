//! Tries: what is written down before a mail leaves. The link's hash, and the place it takes under the
//! daily limit, for a batch of mails in one transaction.

use std::collections::HashSet;

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
    /// Begins the tries of a batch in their order; one verdict each.
    pub async fn begin(&self, tries: &[Try<'_>], now: Millis) -> Result<Vec<Begun>, StoreError> {
        let mut transaction = self.write.begin().await?;
        let limited = tries.iter().any(|one| one.place.is_some());
        let sent = if limited { quota::lock_and_count(&mut transaction, now).await? } else { 0 };
        let (mut free, mut allowed) = (Vec::with_capacity(tries.len()), 0);
        for Try { place, .. } in tries {
            let goes = place.as_ref().is_none_or(|place| sent + allowed < place.ceiling);
            allowed += i64::from(goes);
            free.push(goes);
        }
        let links: Vec<_> = tries.iter().zip(&free).filter(|(_, free)| **free).map(|(one, _)| &one.link).collect();
        let minted: HashSet<_> = links::mint(&mut transaction, &links).await?.into_iter().collect();
        let mut verdicts = Vec::with_capacity(tries.len());
        for (Try { link, place }, free) in tries.iter().zip(free) {
            verdicts.push(match (free, minted.contains(&link.mail.id)) {
                (false, _) => Begun::Held,
                (true, false) => Begun::Lost,
                (true, true) => {
                    if let Some(place) = place {
                        quota::take(&mut transaction, place, now).await?;
                    }
                    Begun::Go
                }
            });
        }
        transaction.commit().await?;
        Ok(verdicts)
    }
}
