//! Accounts. Only a claim of mails and a link look here; a request for a link never does.

use sqlx::AnyConnection;
use uuid::Uuid;

use super::{Store, StoreError, in_time};
use crate::clock::Millis;

/// An account that may sign in.
#[derive(Clone, Debug)]
pub struct User {
    pub id: String,
    /// The stored address: mail goes here.
    pub email: String,
}

/// What is known of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Account {
    None,
    Active,
    Disabled,
}

impl Store {
    /// The account of a folded address.
    pub async fn account(&self, email: &str) -> Result<Account, StoreError> {
        let row = sqlx::query_as("SELECT disabled_at FROM users WHERE email = $1").bind(email);
        let row: Option<(Option<i64>,)> = in_time(row.fetch_optional(&self.read)).await?;
        Ok(match row {
            None => Account::None,
            Some((None,)) => Account::Active,
            Some((Some(_),)) => Account::Disabled,
        })
    }
}

/// Makes the account of a confirmed registration, unless there is one.
pub(super) async fn create(connection: &mut AnyConnection, email: &str, now: Millis) -> sqlx::Result<()> {
    sqlx::query("INSERT INTO users (id, email, created_at) VALUES ($1, $2, $3) ON CONFLICT (email) DO NOTHING")
        .bind(Uuid::now_v7().to_string())
        .bind(email)
        .bind(now)
        .execute(connection)
        .await
        .map(drop)
}

/// The account that may sign in with this address, read inside a transaction.
pub(super) async fn active(connection: &mut AnyConnection, email: &str) -> sqlx::Result<Option<User>> {
    let row: Option<(String, String)> =
        sqlx::query_as("SELECT id, email FROM users WHERE email = $1 AND disabled_at IS NULL")
            .bind(email)
            .fetch_optional(connection)
            .await?;
    Ok(row.map(|(id, email)| User { id, email }))
}
