//! Tries: what is written down before mails leave. Their links' hashes, and the places they take under
//! the daily limit, for a batch in one transaction.

use std::collections::HashSet;

use sqlx::AnyConnection;

use super::commits::{Write, Written};
use super::links::{self, NewLink};
use super::quota::{self, Place};
use super::{Store, StoreError};
use crate::clock::Millis;

/// The mails of a batch, about to leave.
#[derive(Debug)]
pub struct Tries {
    /// Of one claim, which all of them share.
    pub lease: String,
    pub now: Millis,
    /// When the links end.
    pub expires_at: Millis,
    pub mails: Vec<Try>,
}

/// One of them.
#[derive(Debug)]
pub struct Try {
    pub link: NewLink,
    /// Only where there is a daily limit.
    pub place: Option<Place>,
}

/// Whether it may leave.
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
    pub async fn begin(&self, tries: Tries) -> Result<Vec<Begun>, StoreError> {
        match self.commits.write(Write::Begin(tries)).await? {
            Written::Begun(verdicts) => Ok(verdicts),
            _ => unreachable!("a beginning is answered with verdicts"),
        }
    }
}

impl Tries {
    pub(super) async fn begin(&self, connection: &mut AnyConnection) -> sqlx::Result<Vec<Begun>> {
        let free = self.free_places(connection).await?;
        let links = self.mails.iter().zip(&free).filter(|(_, free)| **free).map(|(one, _)| &one.link);
        let minted: HashSet<_> = links::mint(connection, self, links.collect()).await?.into_iter().collect();
        let mut verdicts = Vec::with_capacity(self.mails.len());
        for (Try { link, place }, free) in self.mails.iter().zip(free) {
            verdicts.push(match (free, minted.contains(&link.outbox_id)) {
                (false, _) => Begun::Held,
                (true, false) => Begun::Lost,
                (true, true) => {
                    if let Some(place) = place {
                        quota::take(connection, place, self.now).await?;
                    }
                    Begun::Go
                }
            });
        }
        Ok(verdicts)
    }

    /// For each mail whether the daily limit leaves it a place.
    async fn free_places(&self, connection: &mut AnyConnection) -> sqlx::Result<Vec<bool>> {
        let limited = self.mails.iter().any(|one| one.place.is_some());
        let mut sent = if limited { quota::lock_and_count(connection, self.now).await? } else { 0 };
        let mut free = |one: &Try| {
            let goes = one.place.as_ref().is_none_or(|place| sent < place.ceiling);
            sent += i64::from(goes);
            goes
        };
        Ok(self.mails.iter().map(&mut free).collect())
    }
}
