//! The time limits that a worker enforces on its attempt. Pure: instants in, verdict out.

use std::time::{SystemTime, UNIX_EPOCH};

use agent_worker_protocol::{FailureClass, JobLimits, Millis, WorkerOutcome};
use tokio::time::Instant;

/// The input of the time limits. All instants are monotonic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttemptClockReadings {
    /// Start of the worker, shifted by all time that does not count: waiting for people, suspension.
    pub(crate) began: Instant,
    /// Time of the last event, text or tool traffic; none while a tool call runs, which may be silent.
    pub(crate) last_activity: Option<Instant>,
    /// Time of the last reply of a daemon.
    pub(crate) last_reply: Instant,
    /// Current state of waiting for a person.
    pub(crate) approval_wait: WorkerApprovalWait,
}

/// State of waiting for the decision of a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerApprovalWait {
    Waiting,
    NotWaiting,
}

/// The time limit that has expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiry {
    Wall,
    Silence,
    Orphaned,
}

/// Returns the next time limit to expire, and its instant, which may be past. While the attempt waits for a person
/// only the daemon's absence counts.
pub(crate) fn next_expiry(times: AttemptClockReadings, limits: &JobLimits) -> (Instant, Expiry) {
    let wall = (times.began + limits.wall.duration(), Expiry::Wall);
    let silence =
        times.last_activity.map(|last| (last + limits.silence.duration(), Expiry::Silence));
    let orphaned = (times.last_reply + limits.orphan_grace.duration(), Expiry::Orphaned);
    if times.approval_wait == WorkerApprovalWait::Waiting {
        return orphaned;
    }
    [wall, orphaned].into_iter().chain(silence).min_by_key(|(at, _)| *at).unwrap_or(wall)
}

impl Expiry {
    /// Returns the outcome of the attempt.
    pub(crate) fn outcome(self, limits: &JobLimits) -> WorkerOutcome {
        let timeout =
            |why| WorkerOutcome::Failed { class: FailureClass::Timeout, why, retry_at: None };
        match self {
            Self::Wall => timeout(format!("the turn took longer than {}", limits.wall)),
            Self::Silence => timeout(format!("there was no activity for {}", limits.silence)),
            Self::Orphaned => {
                let why = format!("no daemon answered for {}", limits.orphan_grace);
                WorkerOutcome::Interrupted { why }
            }
        }
    }
}

/// Returns the wall-clock time, for events; never for a timer.
pub(crate) fn time_of_day() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::new(0).plus(since)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use agent_worker_protocol::Span;

    use super::*;

    #[test]
    fn the_first_clock_to_run_out_decides() {
        let limits = JobLimits {
            wall: Span::from_secs(100),
            silence: Span::from_secs(30),
            orphan_grace: Span::from_secs(60),
            kill_grace: Span::from_secs(10),
            spend: agent_worker_protocol::SpendLimits::NONE,
        };
        let began = Instant::now();
        let at = |secs| began + Duration::from_secs(secs);
        for (active, answered, expected) in [
            (0, 0, (at(30), Expiry::Silence)),
            (50, 0, (at(60), Expiry::Orphaned)),
            (50, 50, (at(80), Expiry::Silence)),
            (90, 90, (at(100), Expiry::Wall)),
        ] {
            let waiting = WorkerApprovalWait::NotWaiting;
            let times = AttemptClockReadings {
                began,
                last_activity: Some(at(active)),
                last_reply: at(answered),
                approval_wait: waiting,
            };
            assert_eq!(next_expiry(times, &limits), expected, "{active} {answered}");
            let in_call = AttemptClockReadings { last_activity: None, ..times };
            assert_ne!(next_expiry(in_call, &limits).1, Expiry::Silence);
            let times =
                AttemptClockReadings { approval_wait: WorkerApprovalWait::Waiting, ..times };
            assert_eq!(next_expiry(times, &limits), (at(answered + 60), Expiry::Orphaned));
        }
    }
}
