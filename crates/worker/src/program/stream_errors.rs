//! The failed requests of opencode to its provider, which only its log reports. Pure.
//!
//! The program repeats some requests forever, so the worker limits the number of retries and the time of one.

use std::time::Duration;

use agent_worker_protocol::FailureClass;
use tokio::time::Instant;

use super::ProgramEvent;
use crate::turn::TurnFailure;

/// Maximum number of retries by the program, and maximum pause before one.
const MAX_RETRIES: u32 = 3;
const MAX_RETRY_DELAY: Duration = Duration::from_secs(10);
/// Parts of a log line about a failed request of the conversation itself; the program also requests titles.
const MARKERS: [&str; 3] = [" level=ERROR ", " message=\"stream error\" ", " small=false "];

/// The failures since the last output of the program.
#[derive(Default)]
pub(super) struct StreamErrors {
    /// The last failure, the number of failures, and the time of the last one.
    last: Option<(String, u32, Instant)>,
}

/// The meaning of a failed request.
pub(super) enum StreamErrorStep {
    /// The program may still report a permanent failure.
    First,
    Retry(ProgramEvent),
    GiveUp(TurnFailure),
}

impl StreamErrors {
    /// Forgets the failures: the program has written something.
    pub(super) fn reset(&mut self) {
        self.last = None;
    }

    /// Interprets a line of the log. Returns `None` for a line that is no failed request.
    pub(super) fn note_line(&mut self, line: &str) -> Option<StreamErrorStep> {
        // The format of the first field depends on the command.
        let padded = format!(" {line}");
        if !MARKERS.iter().all(|part| padded.contains(part)) {
            return None;
        }
        let why = line.split_once(" error.error=").map_or(line, |(_, why)| why);
        let why = serde_json::from_str(why).unwrap_or_else(|_| why.to_owned());
        let before = self.last.take();
        let times = before.as_ref().map_or(1, |(_, times, _)| times + 1);
        self.last = Some((why.clone(), times, Instant::now()));
        if times > MAX_RETRIES {
            let failure = TurnFailure::new(FailureClass::Transient, why);
            return Some(StreamErrorStep::GiveUp(failure));
        }
        // The first failure is no retry yet: after a permanent failure the program reports its error immediately.
        Some(match before {
            Some((why, ..)) => StreamErrorStep::Retry(ProgramEvent::Retry(why)),
            None => StreamErrorStep::First,
        })
    }

    /// Returns the end of the time for the pending retry, and the failure after it.
    pub(super) fn wait_limit(&self) -> Option<(Instant, TurnFailure)> {
        let (why, _, since) = self.last.as_ref()?;
        Some((*since + MAX_RETRY_DELAY, TurnFailure::new(FailureClass::Transient, why)))
    }
}
