//! Looks at the queue, and removes what is over, in small batches, so that no request waits for it.

use std::time::Duration;

use super::outcome::LONGEST;
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
    let lease = app.lease().as_millis() as Millis;
    let pulled = app.store.pull_back(now + lease.max(LONGEST), now + lease).await?;
    if pulled > 0 {
        tracing::warn!(
            mails = pulled,
            "the clock was set back; mails that waited for a time too far away wait no longer"
        );
    }
    while expire(app, now).await? == BATCH as u64 {}
    // Asked for, mailed in the last moment, opened in the last moment.
    let lives = 2 * app.config.link_lifetime.as_millis() as Millis;
    while app.store.sweep_requests(now - lives, BATCH).await? == BATCH as u64 {}
    while app.store.sweep_links(long_ago - lives, long_ago, BATCH).await? == BATCH as u64 {}
    while app.store.sweep_set_aside(long_ago, BATCH).await? == BATCH as u64 {}
    // Its requests are counted elsewhere meanwhile.
    if let Err(error) = app.throttle.sweep().await {
        tracing::warn!(%error, "shared counters can't be swept; trying again");
    }
    while app.store.sweep_places(now, BATCH).await? == BATCH as u64 {}
    while app.store.sweep_sessions(now, app.config.session_idle, BATCH).await? == BATCH as u64 {}
    app.metrics.sessions(app.store.count_all_sessions(now, app.config.session_idle).await?);
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
    let waiting = app.store.pending(now).await?;
    let since = |asked_at: Option<Millis>| Duration::from_millis(asked_at.map_or(0, |at| (now - at).max(0)) as u64);
    app.health.watch(waiting.free, since(waiting.oldest_due), app.clock.monotonic());
    app.metrics.outbox(waiting.mails, since(waiting.oldest));
    if let Some(limit) = app.config.daily_limit {
        let left = (limit.mails - app.store.sent_in_a_day(now).await?).max(0);
        app.metrics.quota_remaining(left);
        app.health.spent(left == 0);
    }
    Ok(())
}
