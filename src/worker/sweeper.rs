//! Looks at the queue, and removes what is over, in small batches, so that no request waits for it.

use std::time::Duration;

use crate::app::App;
use crate::clock::Millis;
use crate::store::StoreError;

/// Rows removed in one statement at most.
const BATCH: i64 = 500;
/// How long a link that ended is still told apart from one that never was, and a mail that was set
/// aside is still there to look at.
const REMEMBERED: Duration = Duration::from_secs(24 * 3600);
/// A mail that waits longer is late, and the pages say so.
const LATE: Millis = 60_000;

/// Sweeps once.
pub async fn sweep(app: &App) -> Result<(), StoreError> {
    let now = app.clock.now();
    let long_ago = now - REMEMBERED.as_millis() as Millis;
    while expire(app, now).await? == BATCH as u64 {}
    while app.store.sweep_links(long_ago, BATCH).await? == BATCH as u64 {}
    while app.store.sweep_outbox(long_ago, BATCH).await? == BATCH as u64 {}
    while app.store.sweep_places(now, BATCH).await? == BATCH as u64 {}
    while app.store.sweep_sessions(now, app.config.session_idle, BATCH).await? == BATCH as u64 {}
    Ok(())
}

/// Gives up the mails whose link would be too old, also while none may leave.
async fn expire(app: &App, now: Millis) -> Result<u64, StoreError> {
    let (held, expired) = app.store.expire(now, BATCH).await?;
    app.metrics.mails("expired", expired);
    if held + expired > 0 {
        tracing::warn!(held, expired, "mails given up: their links would be too old");
    }
    Ok(held + expired)
}

/// Looks whether mail is leaving, for the pages, `/ready` and the metrics.
pub async fn watch(app: &App) -> Result<(), StoreError> {
    let now = app.clock.now();
    let waiting = app.store.oldest().await?.map_or(0, |asked_at| (now - asked_at).max(0));
    app.health.late(waiting > LATE);
    app.metrics.outbox(app.store.pending().await?, Duration::from_millis(waiting as u64));
    if let Some(limit) = app.config.daily_limit {
        let left = (limit.mails - app.store.sent_in_a_day(now).await?).max(0);
        app.metrics.quota_remaining(left);
        app.health.spent(left == 0);
    }
    Ok(())
}
