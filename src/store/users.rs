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

/// What is wrong with a change that the operator wants.
#[derive(Debug)]
pub enum NoChange {
    NoAccount,
    Failed(StoreError),
}

impl Store {
    /// Puts an account into a group, or takes it out; whether that changed anything.
    pub async fn set_group(&self, email: &str, group: &str, within: bool) -> Result<bool, NoChange> {
        let failed = |e: sqlx::Error| NoChange::Failed(e.into());
        let id: Option<(String,)> = sqlx::query_as("SELECT id FROM users WHERE email = $1")
            .bind(email)
            .fetch_optional(&self.read)
            .await
            .map_err(failed)?;
        let (id,) = id.ok_or(NoChange::NoAccount)?;
        let change = if within {
            "INSERT INTO user_groups (user_id, name) VALUES ($1, $2) ON CONFLICT (user_id, name) DO NOTHING"
        } else {
            "DELETE FROM user_groups WHERE user_id = $1 AND name = $2"
        };
        let done = sqlx::query(change).bind(id).bind(group).execute(&self.write).await.map_err(failed)?;
        Ok(done.rows_affected() > 0)
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
