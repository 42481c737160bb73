//! What the command line says when it fails: what happened, why, what to do next.
//!
//! People read `error:` and `hint:` on stderr. With `--json`, stdout holds exactly one document in every case:
//! here `{"error": {"code", "message", "hint", "details"}}`, and stderr stays silent.

use std::{fmt, io};

use agent_worker_protocol::{Code, Problem, api::ReportError};
use agent_worker_workflow as workflow;

use crate::output::{hint::hint, verdict::RunVerdict};

/// A failure to show a person or a program.
#[derive(Debug)]
pub(crate) struct CliError {
    kind: CliErrorKind,
    source: anyhow::Error,
    hint: Option<String>,
}

/// The kinds of failure a program can tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CliErrorKind {
    /// The command line makes no sense.
    Usage,
    /// The workflow file does.
    BadFile,
    /// The workflow file has nothing for anybody to do.
    NobodyWoken,
    /// None is running, or none could be started.
    NoDaemon,
    /// The daemon is of another version.
    OtherVersion,
    /// The home folder is not ours alone.
    BadHome,
    /// The daemon went away in the middle: what was asked may or may not have happened.
    ConnectionLost,
    /// Somebody stopped the daemon; what it had under way goes on with the next one.
    DaemonStopped,
    /// The daemon said no.
    Refused(Code),
    /// The caller left in the middle; the daemon goes on.
    Detached,
    /// Whoever read our answers went away. Not an error: they have seen enough.
    OutputClosed,
    /// Anything else.
    Failed,
}

impl CliError {
    /// A failure in our own words.
    pub(crate) fn new(kind: CliErrorKind, message: impl fmt::Display) -> Self {
        Self { kind, source: anyhow::anyhow!("{message}"), hint: None }
    }

    /// A failure with a cause.
    pub(crate) fn with_source(
        kind: CliErrorKind,
        message: impl fmt::Display,
        cause: impl Into<anyhow::Error>,
    ) -> Self {
        Self { kind, source: cause.into().context(message.to_string()), hint: None }
    }

    /// A command line that makes no sense. The first paragraph of clap's complaint is what happened, its tip what to do
    /// next; where it has none, `otherwise`.
    pub(crate) fn usage(error: &clap::Error, otherwise: &str) -> Self {
        let text = error.render().to_string();
        let what = text.split("\n\n").next().unwrap_or_default();
        let what = what.strip_prefix("error: ").unwrap_or(what);
        let what = what.lines().map(str::trim).collect::<Vec<_>>().join(" ");
        let tip = text.lines().find_map(|line| line.trim().strip_prefix("tip: "));
        Self::new(CliErrorKind::Usage, what).with_hint(tip.unwrap_or(otherwise))
    }

    /// A failure to print.
    pub(crate) fn print_failed(error: io::Error) -> Self {
        let kind = match error.kind() {
            io::ErrorKind::BrokenPipe => CliErrorKind::OutputClosed,
            _ => CliErrorKind::Failed,
        };
        Self::with_source(kind, "could not print the answer", error)
    }

    /// Adds the next thing to try.
    #[must_use]
    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Adds the next thing to try where the daemon refused with this code.
    #[must_use]
    pub(crate) fn with_hint_for(self, code: Code, hint: impl FnOnce() -> String) -> Self {
        if self.kind == CliErrorKind::Refused(code) { self.with_hint(hint()) } else { self }
    }

    /// What kind of failure it is.
    pub(crate) fn kind(&self) -> CliErrorKind {
        self.kind
    }

    /// What is wrong with the workflow file, where that is the failure: it shows the lines in question.
    pub(crate) fn workflow_error(&self) -> Option<&workflow::Error> {
        self.source.downcast_ref()
    }

    /// How the command ended.
    pub(crate) fn verdict(&self) -> RunVerdict {
        match self.kind {
            CliErrorKind::Usage
            | CliErrorKind::BadFile
            | CliErrorKind::NobodyWoken
            | CliErrorKind::Refused(Code::BadRequest) => RunVerdict::Invalid,
            CliErrorKind::Detached => RunVerdict::Stopped,
            CliErrorKind::DaemonStopped => RunVerdict::Interrupted,
            CliErrorKind::OutputClosed => RunVerdict::Done,
            CliErrorKind::NoDaemon
            | CliErrorKind::OtherVersion
            | CliErrorKind::BadHome
            | CliErrorKind::ConnectionLost
            | CliErrorKind::Refused(_)
            | CliErrorKind::Failed => RunVerdict::Failed,
        }
    }

    /// The failure for programs.
    pub(crate) fn to_report_error(&self) -> ReportError {
        let code = match self.kind {
            CliErrorKind::Usage => "usage".to_owned(),
            CliErrorKind::BadFile => "bad_file".to_owned(),
            CliErrorKind::NobodyWoken => "nobody_woken".to_owned(),
            CliErrorKind::NoDaemon => "no_daemon".to_owned(),
            CliErrorKind::OtherVersion => "other_version".to_owned(),
            CliErrorKind::BadHome => "bad_home".to_owned(),
            CliErrorKind::ConnectionLost => "lost".to_owned(),
            CliErrorKind::DaemonStopped => "daemon_stopped".to_owned(),
            CliErrorKind::Detached => "left".to_owned(),
            CliErrorKind::Refused(code) => code.to_string(),
            CliErrorKind::OutputClosed | CliErrorKind::Failed => "failed".to_owned(),
        };
        let problem = self.source.downcast_ref::<Problem>();
        ReportError {
            code,
            message: format!("{:#}", self.source),
            hint: self.hint.clone(),
            details: problem.and_then(|problem| problem.details.clone()),
        }
    }
}

impl From<Problem> for CliError {
    fn from(problem: Problem) -> Self {
        let hint = hint(&problem);
        Self { kind: CliErrorKind::Refused(problem.code), source: problem.into(), hint }
    }
}

impl From<workflow::Error> for CliError {
    fn from(error: workflow::Error) -> Self {
        let hint = error.hint();
        Self { kind: CliErrorKind::BadFile, source: error.into(), hint }
    }
}

/// clap's complaint in our manners.
impl From<clap::Error> for CliError {
    fn from(error: clap::Error) -> Self {
        Self::usage(&error, "try --help")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_what_why_and_what_next() {
        let refused = io::Error::other("connection refused");
        let error =
            CliError::with_source(CliErrorKind::NoDaemon, "could not reach the daemon", refused)
                .with_hint("start it with `agent-worker daemon`");
        let expected = ReportError {
            code: "no_daemon".into(),
            message: "could not reach the daemon: connection refused".into(),
            hint: Some("start it with `agent-worker daemon`".into()),
            details: None,
        };
        assert_eq!(error.to_report_error(), expected);
    }

    #[test]
    fn what_the_caller_got_wrong_exits_2_and_what_went_wrong_exits_1() {
        for (kind, code) in [
            (CliErrorKind::Usage, 2),
            (CliErrorKind::BadFile, 2),
            (CliErrorKind::NobodyWoken, 2),
            (CliErrorKind::Refused(Code::BadRequest), 2),
            (CliErrorKind::Refused(Code::NoRun), 1),
            (CliErrorKind::NoDaemon, 1),
            (CliErrorKind::OtherVersion, 1),
            (CliErrorKind::BadHome, 1),
            (CliErrorKind::ConnectionLost, 1),
            (CliErrorKind::Failed, 1),
            (CliErrorKind::DaemonStopped, 5),
            (CliErrorKind::Detached, 130),
            (CliErrorKind::OutputClosed, 0),
        ] {
            assert_eq!(CliError::new(kind, "x").verdict().exit_code(), code, "{kind:?}");
        }
    }

    #[test]
    fn only_a_reader_who_left_is_not_an_error() {
        let gone = CliError::print_failed(io::ErrorKind::BrokenPipe.into());
        let full = CliError::print_failed(io::ErrorKind::StorageFull.into());
        assert_eq!((gone.kind(), full.kind()), (CliErrorKind::OutputClosed, CliErrorKind::Failed));
    }
}
