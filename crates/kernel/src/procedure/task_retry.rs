//! Repetition of a task after failures (`retry:`).

use std::time::Duration;

use agent_worker_workflow::{TaskDefinition, TaskRetry};

use super::task_run::{TaskResult, TaskRun};

/// Maximum pause before an attempt.
const MAX_BACKOFF: Duration = Duration::from_mins(10);

impl TaskRun {
    /// Returns the result of an attempt if it is that of the task; waits before the next attempt if there is one.
    pub(super) async fn unless_retried(
        &self,
        task: &TaskDefinition,
        result: TaskResult,
    ) -> Option<TaskResult> {
        if result.error.is_none() || result.is_stopped {
            return Some(result);
        }
        let attempts = self.row().map_or(0, |row| row.attempts);
        let Some(pause) = task.retry.and_then(|retry| pause_after(retry, attempts)) else {
            return Some(result);
        };
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Some(TaskResult::stopped("stopped before its next attempt")),
            () = tokio::time::sleep(pause) => None,
        }
    }
}

/// Returns the pause after the last of these attempts; none if it was the last one of all.
fn pause_after(retry: TaskRetry, attempts: u32) -> Option<Duration> {
    let doublings = attempts.saturating_sub(1).min(31);
    let pause = retry.backoff.duration().saturating_mul(1 << doublings);
    (attempts < retry.max_attempts).then(|| pause.min(MAX_BACKOFF))
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::Span;

    use super::*;

    #[test]
    fn the_pause_doubles_up_to_ten_minutes_until_the_attempts_are_used() {
        let retry = TaskRetry { max_attempts: 40, backoff: Span::from_secs(2) };
        let seconds = |attempts| Some(pause_after(retry, attempts)?.as_secs());
        for (attempts, expected) in [
            (1, Some(2)),
            (2, Some(4)),
            (9, Some(512)),
            (10, Some(600)),
            (39, Some(600)),
            (40, None),
            (41, None),
        ] {
            assert_eq!(seconds(attempts), expected, "{attempts}");
        }
    }
}
