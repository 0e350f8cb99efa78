//! A second way into the database of the real binary: to see what is stored, and to be in its way.

use sqlx::{AnyConnection, Connection};

use super::process::Place;

/// The one lock there is to write, held until it is released or dropped.
pub struct Lock(AnyConnection);

impl Place {
    /// A connection of the test's own.
    pub async fn database(&self) -> AnyConnection {
        sqlx::any::install_default_drivers();
        let file = self.path().join("data/doorpost.db");
        AnyConnection::connect(&format!("sqlite:{}", file.display())).await.unwrap()
    }

    /// What a statement that counts comes to.
    pub async fn count(&self, statement: &'static str) -> i64 {
        sqlx::query_as::<_, (i64,)>(statement).fetch_one(&mut self.database().await).await.unwrap().0
    }

    /// Changes what is stored, as no request could.
    pub async fn change(&self, statement: &'static str) {
        sqlx::query(statement).execute(&mut self.database().await).await.unwrap();
    }

    /// The first column of every row.
    pub async fn texts(&self, statement: &'static str) -> Vec<String> {
        let rows = sqlx::query_as::<_, (String,)>(statement).fetch_all(&mut self.database().await).await.unwrap();
        rows.into_iter().map(|(text,)| text).collect()
    }

    /// Keeps everybody else from writing.
    pub async fn lock(&self) -> Lock {
        let mut connection = self.database().await;
        sqlx::query("BEGIN IMMEDIATE").execute(&mut connection).await.unwrap();
        Lock(connection)
    }
}

impl Lock {
    pub async fn release(mut self) {
        sqlx::query("ROLLBACK").execute(&mut self.0).await.unwrap();
    }
}
