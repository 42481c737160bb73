//! How a command ended, as a word for programs and as an exit code. The one place that picks exit codes.

use agent_worker_protocol::{
    Outcome, PauseCause, RunState,
    api::{RunErrorCode, RunView},
};

/// How a command ended. Everything but `run` and `start` knows only the first three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It did what was asked.
    Done,
    /// It did not.
    Failed,
    /// The file or the command line makes no sense, or the file wakes nobody.
    Invalid,
    /// The run waits at a limit.
    Limit,
    /// The run waits for a person.
    Human,
    /// The run was cut off, or somebody paused it.
    Interrupted,
    /// Somebody stopped it.
    Stopped,
}

impl Verdict {
    /// What became of a run; `None` while it goes on.
    pub(crate) fn of(view: &RunView) -> Option<Self> {
        let invalid = view.error.as_ref().is_some_and(|error| match error.code {
            RunErrorCode::NobodyWoken | RunErrorCode::BadFile => true,
            RunErrorCode::SetupFailed => false,
        });
        match &view.state {
            RunState::Setup | RunState::Electing | RunState::Running => None,
            RunState::Paused { cause } => Some(match cause {
                PauseCause::Limit { .. } => Self::Limit,
                PauseCause::Human => Self::Human,
                PauseCause::Interrupted | PauseCause::User => Self::Interrupted,
            }),
            RunState::Ended { outcome } => Some(match outcome {
                Outcome::Done => Self::Done,
                Outcome::Failed if invalid => Self::Invalid,
                Outcome::Failed => Self::Failed,
                Outcome::Stopped => Self::Stopped,
            }),
        }
    }

    /// The word in `--json`.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Invalid => "invalid",
            Self::Limit => "limit",
            Self::Human => "human",
            Self::Interrupted => "interrupted",
            Self::Stopped => "stopped",
        }
    }

    /// The exit code.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Invalid => 2,
            Self::Limit => 3,
            Self::Human => 4,
            Self::Interrupted => 5,
            Self::Stopped => 130,
        }
    }
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::{LimitKind, api::RunError};

    use super::*;
    use crate::samples;

    #[test]
    fn a_runs_end_decides_the_word_and_the_exit_code() {
        let ended = |outcome| RunState::Ended { outcome };
        let paused = |cause| RunState::Paused { cause };
        let limit = PauseCause::Limit { limit: LimitKind::Wall, detail: "2h".into() };
        for (state, error, expected) in [
            (RunState::Setup, None, None),
            (RunState::Electing, None, None),
            (RunState::Running, None, None),
            (ended(Outcome::Done), None, Some(("done", 0))),
            (ended(Outcome::Failed), None, Some(("failed", 1))),
            (ended(Outcome::Failed), Some(RunErrorCode::SetupFailed), Some(("failed", 1))),
            (ended(Outcome::Failed), Some(RunErrorCode::NobodyWoken), Some(("invalid", 2))),
            (ended(Outcome::Failed), Some(RunErrorCode::BadFile), Some(("invalid", 2))),
            (paused(limit), None, Some(("limit", 3))),
            (paused(PauseCause::Human), None, Some(("human", 4))),
            (paused(PauseCause::Interrupted), None, Some(("interrupted", 5))),
            (paused(PauseCause::User), None, Some(("interrupted", 5))),
            (ended(Outcome::Stopped), None, Some(("stopped", 130))),
        ] {
            let error = error.map(|code| RunError { code, message: String::new() });
            let view = RunView { state, error, ..samples::run() };
            let verdict = Verdict::of(&view).map(|verdict| (verdict.word(), verdict.code()));
            assert_eq!(verdict, expected, "{:?}", view.state);
        }
    }
}
