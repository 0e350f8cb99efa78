//! Removes what is over, in small batches, so that no request waits for it.

use std::time::Duration;

use crate::app::App;
use crate::clock::Millis;
use crate::store::StoreError;

/// Rows removed in one statement at most.
const BATCH: i64 = 500;
/// How long a link that ended is still told apart from one that never was, and a mail that was set
/// aside is still there to look at.
const REMEMBERED: Duration = Duration::from_secs(24 * 3600);

/// Sweeps once.
pub async fn sweep(app: &App) -> Result<(), StoreError> {
    let now = app.clock.now();
    let long_ago = now - REMEMBERED.as_millis() as Millis;
    while app.store.sweep_links(long_ago, BATCH).await? == BATCH as u64 {}
    while app.store.sweep_outbox(long_ago, BATCH).await? == BATCH as u64 {}
    while app.store.sweep_sessions(now, app.config.session_idle, BATCH).await? == BATCH as u64 {}
    app.metrics.outbox_pending(app.store.pending().await?);
    Ok(())
}
