//! What time it is, for display and for telling how long something took. The only place that asks.

use std::time::{SystemTime, UNIX_EPOCH};

use agent_worker_protocol::Millis;

/// Now.
pub(crate) fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::default().plus(since)
}
