//! How a run that is paused at a limit continues: the limits to raise, and the time from which it continues by itself.

use agent_worker_protocol::{Millis, PauseCause, RunState, api::ResumeRequest};

/// The ways in which a paused run continues.
#[derive(Default)]
pub(crate) struct LimitOutlook {
    /// Limits to raise before a person can resume the run.
    pub(crate) needs: ResumeRequest,
    /// Time from which the run continues by itself, on the current wall clock.
    pub(crate) room_at: Option<Millis>,
}

impl LimitOutlook {
    /// Returns the state with the current time: the stored one is as of the pause, and the wall clock may have been set since.
    pub(crate) fn state(&self, state: RunState) -> RunState {
        match state {
            RunState::Paused { cause } => RunState::Paused { cause: self.cause(cause) },
            other => other,
        }
    }

    /// Returns the cause with the current time.
    pub(crate) fn cause(&self, cause: PauseCause) -> PauseCause {
        match cause {
            PauseCause::Limit { limit, detail, next_call, .. } => {
                PauseCause::Limit { limit, detail, room_at: self.room_at, next_call }
            }
            other => other,
        }
    }
}
