//! Reports progress to a client that asked for it, so that neither the client nor its model gives up on the call.

use std::{pin::pin, time::Duration};

use rmcp::{RoleServer, model::ProgressNotificationParam, service::RequestContext};
use tokio::time::{Instant, interval_at};

/// Interval between two progress notifications.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// Awaits the answer and meanwhile reports the elapsed seconds.
pub(super) async fn with_progress<T>(
    context: &RequestContext<RoleServer>,
    answer: impl Future<Output = T>,
) -> T {
    let Some(token) = context.meta.get_progress_token() else { return answer.await };
    let report = |waited: Duration| {
        let progress = ProgressNotificationParam::new(token.clone(), waited.as_secs_f64());
        let progress = progress.with_message(format!("waiting for {} s", waited.as_secs()));
        let peer = context.peer.clone();
        async move {
            // A client that misses the notification still waits for the answer.
            let _ = peer.notify_progress(progress).await;
        }
    };
    report_periodically(answer, report).await
}

/// Awaits the answer and calls `report` with the elapsed time at each interval.
async fn report_periodically<T, F: Future<Output = ()>>(
    answer: impl Future<Output = T>,
    mut report: impl FnMut(Duration) -> F,
) -> T {
    let begun = Instant::now();
    let mut again = interval_at(begun + PROGRESS_INTERVAL, PROGRESS_INTERVAL);
    let mut answer = pin!(answer);
    loop {
        tokio::select! {
            answer = &mut answer => return answer,
            _ = again.tick() => report(begun.elapsed()).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_long_call_says_that_it_goes_on_and_a_short_one_nothing() {
        for (takes, expected) in [(0, vec![]), (4, vec![]), (12, vec![5, 10])] {
            let mut reported = Vec::new();
            let answer = tokio::time::sleep(Duration::from_secs(takes));
            let report = |waited: Duration| {
                reported.push(waited.as_secs());
                std::future::ready(())
            };
            report_periodically(answer, report).await;
            assert_eq!(reported, expected, "{takes} s");
        }
    }
}
