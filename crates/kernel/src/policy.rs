//! What the end of an attempt means: whose fault it was, when to try again, when to give up. Pure.

use std::time::Duration;

use agent_worker_protocol::{
    AgentName, AttemptEnd, FailureClass, Finished, Retry, Seq, WorkerOutcome,
};
use agent_worker_store::{Blame, NotBefore, Settlement, StoreTime, Wait};

use crate::runner::Departure;

/// Uncounted failures in a row after which a delivery is dead all the same.
const MOST_SETBACKS: u32 = 10;
const LONGEST_PAUSE: Duration = Duration::from_mins(5);
/// The longest pause between two tries to start a worker on a machine that has run out of something.
const LONGEST_SHORTAGE_PAUSE: Duration = Duration::from_secs(30);

/// Why the daemon itself ended a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ordered {
    /// It outlived its own clocks.
    Overdue(String),
    /// The daemon is stopping.
    Drain,
    /// Its run is over, or somebody stopped the agent; nobody asks how it ended.
    Stopped,
}

/// What is known when a worker is gone.
#[derive(Clone, Debug)]
pub(crate) struct Remains<'a> {
    /// The worker's last word.
    pub(crate) finished: Option<&'a Finished>,
    /// When its provider can be asked again.
    pub(crate) retry_at: Option<StoreTime>,
    /// Whether it ever reported.
    pub(crate) started: bool,
    /// Where its event file is damaged.
    pub(crate) damaged: Option<&'a str>,
    /// How it left.
    pub(crate) departure: &'a Departure,
    /// Whether we ended it.
    pub(crate) ordered: Option<&'a Ordered>,
}

/// What the failures so far say about the next pause.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    /// Which try this was, from 1.
    pub(crate) number: u32,
    /// Uncounted failures in a row before this one.
    pub(crate) setbacks: u32,
    /// The agent's settings.
    pub(crate) retry: Retry,
    /// The current time.
    pub(crate) now: StoreTime,
    /// How long the machine has been unable to start workers.
    pub(crate) shortage: Duration,
}

impl Remains<'_> {
    /// Why the worker or its program could not be started, where the machine had run out of something.
    pub(crate) fn unstarted(&self) -> Option<&str> {
        match self.finished.map(|finished| &finished.outcome) {
            Some(WorkerOutcome::Unstarted { why }) => Some(why),
            Some(WorkerOutcome::Ok | WorkerOutcome::Failed { .. }) => None,
            Some(WorkerOutcome::Interrupted { .. }) | None => self.departure.unstarted.as_deref(),
        }
    }
}

/// Tells how an attempt ended. The worker's own word counts; without one, what was seen of it.
pub(crate) fn verdict(remains: &Remains<'_>) -> AttemptEnd {
    let outcome = remains.finished.map(|finished| &finished.outcome);
    match (outcome, remains.ordered) {
        (Some(WorkerOutcome::Ok), _) => AttemptEnd::Ok,
        // It may have waited for a daemon that did not run: that proves nothing.
        (Some(WorkerOutcome::Failed { class: FailureClass::Timeout, why, .. }), _)
            if remains.departure.daemon_suspended =>
        {
            AttemptEnd::Interrupted { why: format!("{why}, while the daemon was suspended") }
        }
        (Some(WorkerOutcome::Failed { class, why, .. }), _) => {
            AttemptEnd::Failed { class: *class, why: why.clone() }
        }
        (_, Some(Ordered::Overdue(why))) => {
            AttemptEnd::Failed { class: FailureClass::Timeout, why: why.clone() }
        }
        (_, Some(Ordered::Drain)) => AttemptEnd::Interrupted { why: "the daemon stopped".into() },
        (_, Some(Ordered::Stopped)) => AttemptEnd::Stopped,
        (Some(WorkerOutcome::Interrupted { why } | WorkerOutcome::Unstarted { why }), None) => {
            AttemptEnd::Interrupted { why: why.clone() }
        }
        // It may have finished: nobody knows how.
        (None, None) if let Some(damaged) = remains.damaged => {
            AttemptEnd::Interrupted { why: format!("its answer is not trusted: {damaged}") }
        }
        (None, None) if let Some(why) = remains.unstarted() => {
            AttemptEnd::Interrupted { why: format!("the worker could not be started: {why}") }
        }
        (None, None) if remains.departure.seen_alive => {
            let status = remains.departure.status.as_deref().unwrap_or("nobody saw how");
            let why = format!("the worker was gone without a word ({status})");
            AttemptEnd::Failed { class: FailureClass::Crash, why }
        }
        (None, None) => {
            AttemptEnd::Interrupted { why: "its worker was gone when the daemon looked".into() }
        }
    }
}

/// Tells what an end means for the deliveries and for the agent's next turn.
pub(crate) fn settlement(end: AttemptEnd, remains: &Remains<'_>, record: &Record) -> Settlement {
    let blame = blame(&end, remains, record);
    let pause = |wait, at, why: &str| NotBefore { at, wait, why: why.to_owned() };
    let not_before = match (&end, blame) {
        // What has just died need not be waited for.
        (_, Blame::Counted { most }) if record.number >= most => None,
        (_, Blame::Uncounted { most }) if record.setbacks + 1 >= most => None,
        (AttemptEnd::Failed { class: FailureClass::RateLimited, why }, _) => {
            let soonest = record.now.plus(backoff(&record.retry, record.setbacks));
            Some(pause(Wait::Park, remains.retry_at.unwrap_or(soonest).max(soonest), why))
        }
        (AttemptEnd::Failed { why, .. }, Blame::Counted { .. }) => {
            let at = record.now.plus(backoff(&record.retry, record.number.saturating_sub(1)));
            Some(pause(Wait::BackOff, at, why))
        }
        (
            AttemptEnd::Failed { why, .. } | AttemptEnd::Interrupted { why },
            Blame::Uncounted { .. },
        ) => {
            let soonest = record.now.plus(backoff(&record.retry, record.setbacks));
            // An overloaded provider may say when it can be asked again, too.
            let at = remains.retry_at.unwrap_or(soonest).max(soonest);
            Some(pause(Wait::BackOff, at, why))
        }
        (AttemptEnd::Interrupted { why }, Blame::None)
            if remains.unstarted().is_some() && remains.ordered.is_none() =>
        {
            // As long as the shortage has lasted: the pauses grow by themselves.
            let soonest = backoff(&record.retry, 0);
            let wait = record.shortage.min(LONGEST_SHORTAGE_PAUSE).max(soonest);
            Some(pause(Wait::BackOff, record.now.plus(wait), why))
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
        AttemptEnd::Failed { class: class @ (FailureClass::Auth | FailureClass::Billing), why } => {
            Some(format!("{class}: {why}"))
        }
        AttemptEnd::Ok
        | AttemptEnd::Failed { .. }
        | AttemptEnd::Interrupted { .. }
        | AttemptEnd::Stopped => None,
    };
    Settlement { end, blame, answer: None, not_before, stop, dead_note }
}

fn blame(end: &AttemptEnd, remains: &Remains<'_>, record: &Record) -> Blame {
    match end {
        AttemptEnd::Ok
        | AttemptEnd::Stopped
        | AttemptEnd::Failed { class: FailureClass::Auth | FailureClass::Billing, .. } => {
            Blame::None
        }
        AttemptEnd::Failed { class, .. } if class.counts() => {
            Blame::Counted { most: record.retry.max_attempts }
        }
        // The daemon stopped it, it never began, the machine could not start it, or it gave up while no daemon ran: that
        // proves nothing.
        AttemptEnd::Interrupted { .. }
            if remains.ordered.is_some()
                || remains.unstarted().is_some()
                || remains.departure.daemon_suspended
                || (!remains.started && remains.damaged.is_none())
                || (remains.finished.is_some() && !remains.departure.seen_alive) =>
        {
            Blame::None
        }
        AttemptEnd::Failed { .. } | AttemptEnd::Interrupted { .. } => {
            Blame::Uncounted { most: MOST_SETBACKS }
        }
    }
}

/// The pause after so many failures before this one.
fn backoff(retry: &Retry, before: u32) -> Duration {
    let factor = retry.multiplier.powi(i32::try_from(before).unwrap_or(i32::MAX));
    let pause = retry.backoff.duration().as_secs_f64() * factor;
    Duration::try_from_secs_f64(pause).map_or(LONGEST_PAUSE, |pause| pause.min(LONGEST_PAUSE))
}

fn dead_note(agent: &AgentName, seq: Seq, why: &str) -> String {
    format!("Message {seq} for {agent} is a dead letter: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(class: FailureClass) -> Finished {
        let outcome = WorkerOutcome::Failed { class, why: "why".into(), retry_at: None };
        Finished { text: String::new(), outcome }
    }

    fn interrupted() -> Finished {
        let outcome = WorkerOutcome::Interrupted { why: "told to".into() };
        Finished { text: String::new(), outcome }
    }

    fn short() -> Finished {
        let outcome = WorkerOutcome::Unstarted { why: "could not start it: EAGAIN".into() };
        Finished { text: String::new(), outcome }
    }

    fn done() -> Finished {
        Finished { text: "done".into(), outcome: WorkerOutcome::Ok }
    }

    #[test]
    fn the_workers_last_word_counts_and_without_one_what_was_seen() {
        let status = Some("signal: 9".into());
        let seen = Departure { seen_alive: true, status, ..Departure::default() };
        let unseen = Departure::default();
        let unstarted = Departure::unstarted("EAGAIN".into());
        let suspended = Departure { daemon_suspended: true, ..seen.clone() };
        let overdue = Ordered::Overdue("31 min".into());
        for (finished, departure, ordered, expected) in [
            (Some(done()), &seen, None, "ok"),
            (Some(done()), &unseen, Some(&overdue), "ok"),
            (Some(failed(FailureClass::Fatal)), &seen, None, "failed (fatal): why"),
            (Some(interrupted()), &seen, None, "interrupted: told to"),
            (Some(interrupted()), &seen, Some(&overdue), "failed (timeout): 31 min"),
            (Some(interrupted()), &seen, Some(&Ordered::Drain), "interrupted: the daemon stopped"),
            (None, &seen, Some(&Ordered::Stopped), "stopped"),
            (None, &seen, None, "failed (crash): the worker was gone without a word (signal: 9)"),
            (None, &unseen, None, "interrupted: its worker was gone when the daemon looked"),
            (None, &unstarted, None, "interrupted: the worker could not be started: EAGAIN"),
            (None, &unstarted, Some(&Ordered::Stopped), "stopped"),
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
            let remains = Remains {
                finished,
                retry_at: None,
                started: true,
                damaged: None,
                departure,
                ordered,
            };
            assert_eq!(verdict(&remains).to_string(), expected, "{remains:?}");
        }
    }

    #[test]
    fn an_attempt_whose_event_file_is_damaged_is_interrupted_and_tried_again() {
        let departure = Departure {
            seen_alive: true,
            status: Some("exit status: 0".into()),
            ..Departure::default()
        };
        let damaged = Some("line 2 of events.jsonl is damaged");
        // Also where the damage hides that the worker started: else it would be tried for ever, without a pause.
        for started in [true, false] {
            let remains = Remains {
                retry_at: None,
                finished: None,
                started,
                damaged,
                departure: &departure,
                ordered: None,
            };
            let end = verdict(&remains);
            let why = "its answer is not trusted: line 2 of events.jsonl is damaged".to_owned();
            assert_eq!(end, AttemptEnd::Interrupted { why });
            let settlement = settlement(end, &remains, &record(1, 0, Duration::ZERO));
            assert!(matches!(settlement.blame, Blame::Uncounted { .. }), "{:?}", settlement.blame);
        }
    }

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Seen {
        Alive,
        Never,
    }

    fn settled(finished: Option<&Finished>, seen: Seen, number: u32, setbacks: u32) -> String {
        settled_with(None, finished, seen, (number, setbacks))
    }

    fn settled_with(
        retry_at: Option<StoreTime>,
        finished: Option<&Finished>,
        seen: Seen,
        (number, setbacks): (u32, u32),
    ) -> String {
        let started = seen == Seen::Alive;
        let departure = Departure { seen_alive: started, ..Departure::default() };
        let departure = &departure;
        let remains =
            Remains { finished, retry_at, started, damaged: None, departure, ordered: None };
        let lasts = Duration::ZERO;
        in_words(&remains, &record(number, setbacks, lasts))
    }

    fn record(number: u32, setbacks: u32, shortage: Duration) -> Record {
        Record { number, setbacks, retry: Retry::default(), now: StoreTime::new(0), shortage }
    }

    fn in_words(remains: &Remains<'_>, record: &Record) -> String {
        let settlement = settlement(verdict(remains), remains, record);
        let blame = match settlement.blame {
            Blame::None => "none".to_owned(),
            Blame::Uncounted { most } => format!("uncounted {most}"),
            Blame::Counted { most } => format!("counted {most}"),
        };
        let wait = settlement.not_before.map(|wait| format!(" {:?} {}", wait.wait, wait.at.get()));
        let stop = settlement.stop.map(|why| format!(" stop {why}"));
        format!("{blame}{}{}", wait.unwrap_or_default(), stop.unwrap_or_default())
    }

    #[test]
    fn each_end_has_its_blame_its_pause_and_its_stop() {
        for (finished, seen, number, setbacks, expected) in [
            (Some(done()), Seen::Alive, 1, 0, "none"),
            (Some(failed(FailureClass::Fatal)), Seen::Alive, 1, 0, "counted 3 BackOff 1000"),
            (Some(failed(FailureClass::Fatal)), Seen::Alive, 2, 0, "counted 3 BackOff 2000"),
            (Some(failed(FailureClass::Fatal)), Seen::Alive, 3, 0, "counted 3"),
            (Some(failed(FailureClass::Permission)), Seen::Alive, 1, 5, "counted 3 BackOff 1000"),
            (Some(failed(FailureClass::Transient)), Seen::Alive, 1, 0, "uncounted 10 BackOff 1000"),
            (Some(failed(FailureClass::Transient)), Seen::Alive, 1, 3, "uncounted 10 BackOff 8000"),
            (
                Some(failed(FailureClass::Transient)),
                Seen::Alive,
                1,
                8,
                "uncounted 10 BackOff 256000",
            ),
            (Some(failed(FailureClass::Transient)), Seen::Alive, 1, 9, "uncounted 10"),
            (Some(failed(FailureClass::RateLimited)), Seen::Alive, 1, 9, "uncounted 10"),
            (Some(failed(FailureClass::RateLimited)), Seen::Alive, 1, 0, "uncounted 10 Park 1000"),
            (Some(failed(FailureClass::Auth)), Seen::Alive, 1, 0, "none stop auth: why"),
            (Some(failed(FailureClass::Billing)), Seen::Alive, 1, 0, "none stop billing: why"),
            (Some(interrupted()), Seen::Alive, 1, 0, "uncounted 10 BackOff 1000"),
            (Some(interrupted()), Seen::Never, 1, 0, "none"),
            (None, Seen::Alive, 1, 0, "counted 3 BackOff 1000"),
            (None, Seen::Never, 1, 0, "none"),
        ] {
            let shown = settled(finished.as_ref(), seen, number, setbacks);
            assert_eq!(shown, expected, "{finished:?} {number} {setbacks}");
        }
    }

    #[test]
    fn a_machine_that_cannot_start_a_worker_is_no_failure_however_long_that_lasts() {
        let departure = Departure::unstarted("EMFILE".into());
        let (ordered, started) = (None, false);
        for (lasts, expected) in [
            (0, "none BackOff 1000"),
            (5, "none BackOff 5000"),
            (31, "none BackOff 30000"),
            (9_000, "none BackOff 30000"),
        ] {
            let record = record(3, 9, Duration::from_secs(lasts));
            let remains = Remains {
                finished: None,
                retry_at: None,
                damaged: None,
                started,
                departure: &departure,
                ordered,
            };
            assert_eq!(in_words(&remains, &record), expected, "{lasts}");
            let (short, seen) = (short(), Departure { seen_alive: true, ..Departure::default() });
            let remains = Remains {
                finished: Some(&short),
                retry_at: None,
                damaged: None,
                started: true,
                departure: &seen,
                ordered,
            };
            assert_eq!(in_words(&remains, &record), expected, "{lasts}");
        }
    }

    #[test]
    fn an_attempt_that_was_cut_off_while_the_daemon_was_suspended_blames_nobody() {
        let departure =
            Departure { seen_alive: true, daemon_suspended: true, ..Departure::default() };
        for finished in [interrupted(), failed(FailureClass::Timeout)] {
            let finished = Some(&finished);
            let remains = Remains {
                finished,
                retry_at: None,
                damaged: None,
                started: true,
                departure: &departure,
                ordered: None,
            };
            assert_eq!(in_words(&remains, &record(2, 9, Duration::ZERO)), "none", "{finished:?}");
        }
    }

    #[test]
    fn who_was_told_when_to_ask_again_does_not_ask_before() {
        for (class, expected) in [
            (FailureClass::RateLimited, "uncounted 10 Park 60000"),
            (FailureClass::Transient, "uncounted 10 BackOff 60000"),
        ] {
            let retry_at = Some(StoreTime::new(60_000));
            let settled = settled_with(retry_at, Some(&failed(class)), Seen::Alive, (1, 0));
            assert_eq!(settled, expected);
        }
    }
}
