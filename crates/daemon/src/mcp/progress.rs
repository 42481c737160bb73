//! Tells a client that asked for it that its call is still under way, so that neither it nor its model gives up.

use std::{pin::pin, time::Duration};

use rmcp::{RoleServer, model::ProgressNotificationParam, service::RequestContext};
use tokio::time::{Instant, interval_at};

/// How often.
const EVERY: Duration = Duration::from_secs(5);

/// The answer, and until it is there how many seconds it has taken.
pub(super) async fn telling<T>(
    context: &RequestContext<RoleServer>,
    answer: impl Future<Output = T>,
) -> T {
    let Some(token) = context.meta.get_progress_token() else { return answer.await };
    let begun = Instant::now();
    let mut again = interval_at(begun + EVERY, EVERY);
    let mut answer = pin!(answer);
    loop {
        tokio::select! {
            answer = &mut answer => return answer,
            _ = again.tick() => {
                let waited = begun.elapsed();
                let progress = ProgressNotificationParam::new(token.clone(), waited.as_secs_f64());
                let progress = progress.with_message(format!("waiting for {} s", waited.as_secs()));
                // Whoever does not hear it waits all the same.
                let _ = context.peer.notify_progress(progress).await;
            }
        }
    }
}
