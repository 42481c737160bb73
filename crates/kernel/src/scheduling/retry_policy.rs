//! The meaning of an attempt's end: blame, retry time, dead letter. Pure.

use std::time::Duration;

use agent_worker_protocol::{
    AgentName, AttemptEnd, FailureClass, Finished, RetryPolicy, Seq, WorkerOutcome,
};
use agent_worker_store::{
    Blame, NotBefore, SessionAfterFailure, Settlement, StoreTime, WaitReason,
};

use crate::scheduling::{dead_letter_policy::delivery_verdict, runner::WorkerExit};

/// Number of consecutive uncounted failures after which a delivery is a dead letter.
const MAX_SETBACKS: u32 = 10;
const MAX_RETRY_DELAY: Duration = Duration::from_mins(5);
/// Maximum delay between two tries to start a worker on a machine that is short of a resource.
const MAX_SHORTAGE_RETRY_DELAY: Duration = Duration::from_secs(30);

/// The reason why the daemon ended a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WorkerStopReason {
    /// The worker exceeded its own time limits.
    Overdue(String),
    /// The daemon is stopping.
    Drain,
    /// The run reached its wall limit, and the grace period is over.
    WallLimit,
    /// The next call of the model could exceed a limit of the run.
    SpendLimit,
    /// The run has ended, or the agent was stopped; the end of the attempt has no consequence.
    Stopped,
    /// This person or client ended the turn; its messages stay pending.
    Interrupted(String),
}

/// The evidence about an attempt whose worker is gone.
#[derive(Clone, Debug)]
pub(crate) struct AttemptEvidence<'a> {
    /// The final report of the worker.
    pub(crate) finished: Option<&'a Finished>,
    /// Time at which the provider accepts requests again.
    pub(crate) retry_at: Option<StoreTime>,
    /// True if the worker ever reported.
    pub(crate) started: bool,
    /// Location of damage in its event file.
    pub(crate) damaged: Option<&'a str>,
    /// The exit of the worker.
    pub(crate) exit: &'a WorkerExit,
    /// The reason, if the daemon ended the worker.
    pub(crate) stop_reason: Option<&'a WorkerStopReason>,
}

/// The history of failures that determines the next delay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetryRecord {
    /// Number of this try, from 1.
    pub(crate) number: u32,
    /// Consecutive uncounted failures before this one.
    pub(crate) setbacks: u32,
    /// Retry settings of the agent.
    pub(crate) retry: RetryPolicy,
    /// The current time.
    pub(crate) now: StoreTime,
    /// Time for which the machine has been unable to start workers.
    pub(crate) shortage_time: Duration,
}

impl AttemptEvidence<'_> {
    /// Returns the reason why the worker or its program could not be started, if the machine was short of a
    /// resource.
    pub(crate) fn start_failure(&self) -> Option<&str> {
        match self.finished.map(|finished| &finished.outcome) {
            Some(WorkerOutcome::Unstarted { why }) => Some(why),
            Some(WorkerOutcome::Ok | WorkerOutcome::Failed { .. }) => None,
            Some(WorkerOutcome::Interrupted { .. }) | None => self.exit.start_failure.as_deref(),
        }
    }
}

/// Returns the end of an attempt: the worker's own report, or without one the observed exit.
pub(crate) fn attempt_end(evidence: &AttemptEvidence<'_>) -> AttemptEnd {
    let outcome = evidence.finished.map(|finished| &finished.outcome);
    match (outcome, evidence.stop_reason) {
        (Some(WorkerOutcome::Ok), _) => AttemptEnd::Ok,
        // The worker may have waited for a suspended daemon: that proves nothing.
        (Some(WorkerOutcome::Failed { class: FailureClass::Timeout, why, .. }), _)
            if evidence.exit.daemon_suspended =>
        {
            AttemptEnd::Interrupted { why: format!("{why}, while the daemon was suspended") }
        }
        (Some(WorkerOutcome::Failed { class, why, .. }), _) => {
            AttemptEnd::Failed { class: *class, why: why.clone() }
        }
        (_, Some(WorkerStopReason::Overdue(why))) => {
            AttemptEnd::Failed { class: FailureClass::Timeout, why: why.clone() }
        }
        (_, Some(WorkerStopReason::Drain)) => {
            AttemptEnd::Interrupted { why: "the daemon stopped".into() }
        }
        (_, Some(WorkerStopReason::WallLimit)) => {
            AttemptEnd::Interrupted { why: "the run reached its wall limit".into() }
        }
        (_, Some(WorkerStopReason::SpendLimit)) => {
            AttemptEnd::Interrupted { why: "the run reached its limit of cost or tokens".into() }
        }
        (_, Some(WorkerStopReason::Stopped)) => AttemptEnd::Stopped,
        (_, Some(WorkerStopReason::Interrupted(by))) => {
            AttemptEnd::Interrupted { why: format!("by {by}") }
        }
        (Some(WorkerOutcome::Interrupted { why } | WorkerOutcome::Unstarted { why }), None) => {
            AttemptEnd::Interrupted { why: why.clone() }
        }
        // The worker may have finished, with an unknown result.
        (None, None) if let Some(damaged) = evidence.damaged => AttemptEnd::Interrupted {
            why: format!("the worker's result is not trusted: {damaged}"),
        },
        (None, None) if let Some(why) = evidence.start_failure() => {
            AttemptEnd::Interrupted { why: format!("the worker could not be started: {why}") }
        }
        (None, None) if evidence.exit.seen_alive => {
            let status = evidence.exit.status.as_deref().unwrap_or("exit status unknown");
            let why = format!("the worker exited without a result ({status})");
            AttemptEnd::Failed { class: FailureClass::Crash, why }
        }
        (None, None) => {
            AttemptEnd::Interrupted { why: "the worker was gone when the daemon checked".into() }
        }
    }
}

/// Returns the consequences of an end for the deliveries and for the agent's next turn.
pub(crate) fn settlement(
    end: AttemptEnd,
    evidence: &AttemptEvidence<'_>,
    record: &RetryRecord,
) -> Settlement {
    let blame = blame(&end, evidence, record);
    let pause = |wait, at, why: &str| NotBefore { at, wait, why: why.to_owned() };
    let not_before = match (&end, blame) {
        // A delivery that is now dead needs no delay.
        (_, Blame::Counted { max: most }) if record.number >= most => None,
        (_, Blame::Uncounted { max: most }) if record.setbacks + 1 >= most => None,
        (AttemptEnd::Failed { class: FailureClass::RateLimited, why }, _) => {
            let soonest = record.now.plus(backoff(&record.retry, record.setbacks));
            Some(pause(
                WaitReason::RateLimited,
                evidence.retry_at.unwrap_or(soonest).max(soonest),
                why,
            ))
        }
        (AttemptEnd::Failed { why, .. }, Blame::Counted { .. }) => {
            let at = record.now.plus(backoff(&record.retry, record.number.saturating_sub(1)));
            Some(pause(WaitReason::BackOff, at, why))
        }
        (
            AttemptEnd::Failed { why, .. } | AttemptEnd::Interrupted { why },
            Blame::Uncounted { .. },
        ) => {
            let soonest = record.now.plus(backoff(&record.retry, record.setbacks));
            // An overloaded provider may also name a retry time.
            let at = evidence.retry_at.unwrap_or(soonest).max(soonest);
            Some(pause(WaitReason::BackOff, at, why))
        }
        (AttemptEnd::Interrupted { why }, Blame::None)
            if evidence.start_failure().is_some() && evidence.stop_reason.is_none() =>
        {
            // The delay equals the duration of the shortage, so that the delays grow.
            let soonest = backoff(&record.retry, 0);
            let wait = record.shortage_time.min(MAX_SHORTAGE_RETRY_DELAY).max(soonest);
            Some(pause(WaitReason::BackOff, record.now.plus(wait), why))
        }
        (
            AttemptEnd::Ok
            | AttemptEnd::Stopped
            | AttemptEnd::Failed { .. }
            | AttemptEnd::Interrupted { .. },
            _,
        ) => None,
    };
    let stop = match &end {
        AttemptEnd::Failed { class, why } if class.stops_agent() => Some(format!("{class}: {why}")),
        AttemptEnd::Ok
        | AttemptEnd::Failed { .. }
        | AttemptEnd::Interrupted { .. }
        | AttemptEnd::Stopped => None,
    };
    Settlement {
        end,
        blame,
        answer: None,
        not_before,
        stop,
        session: SessionAfterFailure::Dropped,
        delivery_rule: delivery_verdict,
        dead_letter_text: dead_letter_note,
    }
}

fn blame(end: &AttemptEnd, evidence: &AttemptEvidence<'_>, record: &RetryRecord) -> Blame {
    match end {
        AttemptEnd::Ok | AttemptEnd::Stopped => Blame::None,
        AttemptEnd::Failed { class, .. } if class.stops_agent() => Blame::None,
        AttemptEnd::Failed { class, .. } if class.is_counted() => {
            Blame::Counted { max: record.retry.max_attempts }
        }
        // The daemon stopped the worker, the worker never started or could not be started, or it gave up while no
        // daemon ran: that proves nothing.
        AttemptEnd::Interrupted { .. }
            if evidence.stop_reason.is_some()
                || evidence.start_failure().is_some()
                || evidence.exit.daemon_suspended
                || (!evidence.started && evidence.damaged.is_none())
                || (evidence.finished.is_some() && !evidence.exit.seen_alive) =>
        {
            Blame::None
        }
        AttemptEnd::Failed { .. } | AttemptEnd::Interrupted { .. } => {
            Blame::Uncounted { max: MAX_SETBACKS }
        }
    }
}

/// Returns the delay after `before` earlier failures.
fn backoff(retry: &RetryPolicy, before: u32) -> Duration {
    let factor = retry.multiplier.powi(i32::try_from(before).unwrap_or(i32::MAX));
    let pause = retry.backoff.duration().as_secs_f64() * factor;
    Duration::try_from_secs_f64(pause).map_or(MAX_RETRY_DELAY, |pause| pause.min(MAX_RETRY_DELAY))
}

fn dead_letter_note(agent: &AgentName, seq: Seq, why: &str) -> String {
    format!("Message {seq} for {agent} is a dead letter: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(class: FailureClass) -> Finished {
        let outcome = WorkerOutcome::Failed { class, why: "why".into(), retry_at: None };
        Finished { text: String::new(), outcome, session: None }
    }

    fn interrupted() -> Finished {
        let outcome = WorkerOutcome::Interrupted { why: "told to".into() };
        Finished { text: String::new(), outcome, session: None }
    }

    fn short() -> Finished {
        let outcome = WorkerOutcome::Unstarted { why: "could not start it: EAGAIN".into() };
        Finished { text: String::new(), outcome, session: None }
    }

    fn done() -> Finished {
        Finished { text: "done".into(), outcome: WorkerOutcome::Ok, session: None }
    }

    #[test]
    fn the_workers_last_word_counts_and_without_one_what_was_seen() {
        let status = Some("signal: 9".into());
        let seen = WorkerExit { seen_alive: true, status, ..WorkerExit::default() };
        let unseen = WorkerExit::default();
        let unstarted = WorkerExit::not_started("EAGAIN".into());
        let suspended = WorkerExit { daemon_suspended: true, ..seen.clone() };
        let overdue = WorkerStopReason::Overdue("31 min".into());
        let by_user = WorkerStopReason::Interrupted("user".into());
        for (finished, exit, stop_reason, expected) in [
            (Some(done()), &seen, None, "ok"),
            (Some(done()), &unseen, Some(&overdue), "ok"),
            (Some(failed(FailureClass::Fatal)), &seen, None, "failed (fatal): why"),
            (Some(interrupted()), &seen, None, "interrupted: told to"),
            (Some(interrupted()), &seen, Some(&overdue), "failed (timeout): 31 min"),
            (
                Some(interrupted()),
                &seen,
                Some(&WorkerStopReason::Drain),
                "interrupted: the daemon stopped",
            ),
            (
                None,
                &seen,
                Some(&WorkerStopReason::WallLimit),
                "interrupted: the run reached its wall limit",
            ),
            (None, &seen, Some(&WorkerStopReason::Stopped), "stopped"),
            (Some(interrupted()), &seen, Some(&by_user), "interrupted by user"),
            (Some(done()), &seen, Some(&by_user), "ok"),
            (None, &seen, None, "failed (crash): the worker exited without a result (signal: 9)"),
            (None, &unseen, None, "interrupted: the worker was gone when the daemon checked"),
            (None, &unstarted, None, "interrupted: the worker could not be started: EAGAIN"),
            (None, &unstarted, Some(&WorkerStopReason::Stopped), "stopped"),
            (Some(short()), &seen, None, "interrupted: could not start it: EAGAIN"),
            (
                Some(failed(FailureClass::Timeout)),
                &suspended,
                None,
                "interrupted: why, while the daemon was suspended",
            ),
            (Some(failed(FailureClass::Fatal)), &suspended, None, "failed (fatal): why"),
        ] {
            let finished = finished.as_ref();
            let evidence = AttemptEvidence {
                finished,
                retry_at: None,
                started: true,
                damaged: None,
                exit,
                stop_reason,
            };
            assert_eq!(attempt_end(&evidence).to_string(), expected, "{evidence:?}");
        }
    }

    #[test]
    fn an_attempt_whose_event_file_is_damaged_is_interrupted_and_tried_again() {
        let exit = WorkerExit {
            seen_alive: true,
            status: Some("exit status: 0".into()),
            ..WorkerExit::default()
        };
        let damaged = Some("line 2 of events.jsonl is damaged");
        // Also if the damage hides that the worker started: otherwise it would be retried forever without a delay.
        for started in [true, false] {
            let evidence = AttemptEvidence {
                retry_at: None,
                finished: None,
                started,
                damaged,
                exit: &exit,
                stop_reason: None,
            };
            let end = attempt_end(&evidence);
            let why =
                "the worker's result is not trusted: line 2 of events.jsonl is damaged".to_owned();
            assert_eq!(end, AttemptEnd::Interrupted { why });
            let settlement = settlement(end, &evidence, &record(1, 0, Duration::ZERO));
            assert!(matches!(settlement.blame, Blame::Uncounted { .. }), "{:?}", settlement.blame);
        }
    }

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum WorkerSeen {
        Alive,
        Never,
    }

    fn settled(
        finished: Option<&Finished>,
        seen: WorkerSeen,
        number: u32,
        setbacks: u32,
    ) -> String {
        settled_with(None, finished, seen, (number, setbacks))
    }

    fn settled_with(
        retry_at: Option<StoreTime>,
        finished: Option<&Finished>,
        seen: WorkerSeen,
        (number, setbacks): (u32, u32),
    ) -> String {
        let started = seen == WorkerSeen::Alive;
        let exit = WorkerExit { seen_alive: started, ..WorkerExit::default() };
        let exit = &exit;
        let evidence =
            AttemptEvidence { finished, retry_at, started, damaged: None, exit, stop_reason: None };
        let lasts = Duration::ZERO;
        settlement_text(&evidence, &record(number, setbacks, lasts))
    }

    fn record(number: u32, setbacks: u32, shortage: Duration) -> RetryRecord {
        RetryRecord {
            number,
            setbacks,
            retry: RetryPolicy::default(),
            now: StoreTime::new(0),
            shortage_time: shortage,
        }
    }

    fn settlement_text(evidence: &AttemptEvidence<'_>, record: &RetryRecord) -> String {
        let settlement = settlement(attempt_end(evidence), evidence, record);
        let blame = match settlement.blame {
            Blame::None => "none".to_owned(),
            Blame::Uncounted { max: most } => format!("uncounted {most}"),
            Blame::Counted { max: most } => format!("counted {most}"),
        };
        let wait = settlement.not_before.map(|wait| format!(" {:?} {}", wait.wait, wait.at.get()));
        let stop = settlement.stop.map(|why| format!(" stop {why}"));
        format!("{blame}{}{}", wait.unwrap_or_default(), stop.unwrap_or_default())
    }

    #[test]
    fn each_end_has_its_blame_its_pause_and_its_stop() {
        let alive = WorkerSeen::Alive;
        for (finished, seen, number, setbacks, expected) in [
            (Some(done()), alive, 1, 0, "none"),
            (Some(failed(FailureClass::Fatal)), alive, 1, 0, "counted 3 BackOff 1000"),
            (Some(failed(FailureClass::Fatal)), alive, 2, 0, "counted 3 BackOff 2000"),
            (Some(failed(FailureClass::Fatal)), alive, 3, 0, "counted 3"),
            (Some(failed(FailureClass::Permission)), alive, 1, 5, "counted 3 BackOff 1000"),
            (Some(failed(FailureClass::Transient)), alive, 1, 0, "uncounted 10 BackOff 1000"),
            (Some(failed(FailureClass::Transient)), alive, 1, 3, "uncounted 10 BackOff 8000"),
            (Some(failed(FailureClass::Transient)), alive, 1, 8, "uncounted 10 BackOff 256000"),
            (Some(failed(FailureClass::Transient)), alive, 1, 9, "uncounted 10"),
            (Some(failed(FailureClass::RateLimited)), alive, 1, 9, "uncounted 10"),
            (Some(failed(FailureClass::RateLimited)), alive, 1, 0, "uncounted 10 RateLimited 1000"),
            (
                Some(failed(FailureClass::MissingProgram)),
                alive,
                1,
                0,
                "none stop missing_program: why",
            ),
            (Some(failed(FailureClass::Auth)), alive, 1, 0, "none stop auth: why"),
            (Some(failed(FailureClass::Billing)), alive, 1, 0, "none stop billing: why"),
            (Some(interrupted()), alive, 1, 0, "uncounted 10 BackOff 1000"),
            (Some(interrupted()), WorkerSeen::Never, 1, 0, "none"),
            (None, alive, 1, 0, "counted 3 BackOff 1000"),
            (None, WorkerSeen::Never, 1, 0, "none"),
        ] {
            let shown = settled(finished.as_ref(), seen, number, setbacks);
            assert_eq!(shown, expected, "{finished:?} {number} {setbacks}");
        }
    }

    #[test]
    fn a_machine_that_cannot_start_a_worker_is_no_failure_however_long_that_lasts() {
        let exit = WorkerExit::not_started("EMFILE".into());
        let (stop_reason, started) = (None, false);
        for (lasts, expected) in [
            (0, "none BackOff 1000"),
            (5, "none BackOff 5000"),
            (31, "none BackOff 30000"),
            (9_000, "none BackOff 30000"),
        ] {
            let record = record(3, 9, Duration::from_secs(lasts));
            let evidence = AttemptEvidence {
                finished: None,
                retry_at: None,
                damaged: None,
                started,
                exit: &exit,
                stop_reason,
            };
            assert_eq!(settlement_text(&evidence, &record), expected, "{lasts}");
            let (short, seen) = (short(), WorkerExit { seen_alive: true, ..WorkerExit::default() });
            let evidence = AttemptEvidence {
                finished: Some(&short),
                retry_at: None,
                damaged: None,
                started: true,
                exit: &seen,
                stop_reason,
            };
            assert_eq!(settlement_text(&evidence, &record), expected, "{lasts}");
        }
    }

    #[test]
    fn an_attempt_that_was_cut_off_while_the_daemon_was_suspended_counts_as_no_failure() {
        let exit = WorkerExit { seen_alive: true, daemon_suspended: true, ..WorkerExit::default() };
        for finished in [interrupted(), failed(FailureClass::Timeout)] {
            let finished = Some(&finished);
            let evidence = AttemptEvidence {
                finished,
                retry_at: None,
                damaged: None,
                started: true,
                exit: &exit,
                stop_reason: None,
            };
            assert_eq!(
                settlement_text(&evidence, &record(2, 9, Duration::ZERO)),
                "none",
                "{finished:?}"
            );
        }
    }

    #[test]
    fn a_retry_does_not_start_before_the_named_time() {
        for (class, expected) in [
            (FailureClass::RateLimited, "uncounted 10 RateLimited 60000"),
            (FailureClass::Transient, "uncounted 10 BackOff 60000"),
        ] {
            let retry_at = Some(StoreTime::new(60_000));
            let settled = settled_with(retry_at, Some(&failed(class)), WorkerSeen::Alive, (1, 0));
            assert_eq!(settled, expected);
        }
    }
}
