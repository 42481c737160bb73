//! Errors of the command line: the message, the cause and the next step.
//!
//! A person reads `error:` and `hint:` on stderr. With `--json`, stdout holds exactly one document in every case, here
//! `{"error": {"code", "message", "hint", "details"}}`, and stderr stays empty.

use std::{fmt, io};

use agent_worker_protocol::{Code, InstanceRef, Problem, ProblemDetails, api::ReportError};
use agent_worker_workflow as workflow;

use crate::output::{hint::hint, report::ObservedRun, verdict::RunVerdict};

/// A failure that the command line reports to a person or a program.
#[derive(Debug)]
pub(crate) struct CliError {
    kind: CliErrorKind,
    source: anyhow::Error,
    hint: Option<String>,
    observed_run: Option<Box<ObservedRun>>,
}

/// The kinds of failure that a program can distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CliErrorKind {
    /// The arguments are invalid.
    Usage,
    /// The workflow file is invalid.
    BadFile,
    /// The workflow file wakes no agent.
    NobodyWoken,
    /// The program of an agent is missing or logged out.
    UnusableProgram,
    /// No daemon is running, or none could be started.
    NoDaemon,
    /// The daemon has another version.
    OtherVersion,
    /// The home folder cannot be used, for example because it is open to other users.
    BadHome,
    /// The connection broke during a request, which may or may not have taken effect.
    ConnectionLost,
    /// The daemon was stopped; the next daemon continues its work.
    DaemonStopped,
    /// The daemon refused the request with this code.
    Refused(Code),
    /// The caller left before the end; the daemon continues.
    Detached,
    /// The reader of stdout closed its end, which counts as success.
    OutputClosed,
    /// Any other failure.
    Failed,
}

impl CliError {
    /// Creates an error from a message.
    pub(crate) fn new(kind: CliErrorKind, message: impl fmt::Display) -> Self {
        Self { kind, source: anyhow::anyhow!("{message}"), hint: None, observed_run: None }
    }

    /// Creates an error from a message and its cause.
    pub(crate) fn with_source(
        kind: CliErrorKind,
        message: impl fmt::Display,
        cause: impl Into<anyhow::Error>,
    ) -> Self {
        let source = cause.into().context(message.to_string());
        Self { kind, source, hint: None, observed_run: None }
    }

    /// Converts clap's error: its first paragraph becomes the message, and its tip, else `otherwise`, the hint.
    pub(crate) fn usage(error: &clap::Error, otherwise: &str) -> Self {
        let text = error.render().to_string();
        let what = text.split("\n\n").next().unwrap_or_default();
        let what = what.strip_prefix("error: ").unwrap_or(what);
        let what = what.lines().map(str::trim).collect::<Vec<_>>().join(" ");
        let tip = text.lines().find_map(|line| line.trim().strip_prefix("tip: "));
        Self::new(CliErrorKind::Usage, what).with_hint(tip.unwrap_or(otherwise))
    }

    /// Converts a failed write; a broken pipe becomes [`CliErrorKind::OutputClosed`].
    pub(crate) fn print_failed(error: io::Error) -> Self {
        let kind = match error.kind() {
            io::ErrorKind::BrokenPipe => CliErrorKind::OutputClosed,
            _ => CliErrorKind::Failed,
        };
        Self::with_source(kind, "could not print the answer", error)
    }

    /// Replaces the kind of failure.
    #[must_use]
    pub(crate) fn with_kind(self, kind: CliErrorKind) -> Self {
        Self { kind, ..self }
    }

    /// Adds a hint about the next step.
    #[must_use]
    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Adds the figures of the run that the command followed.
    #[must_use]
    pub(crate) fn with_observed_run(self, run: ObservedRun) -> Self {
        Self { observed_run: Some(Box::new(run)), ..self }
    }

    /// Returns the figures of the run that the command followed.
    pub(crate) fn observed_run(&self) -> Option<&ObservedRun> {
        self.observed_run.as_deref()
    }

    /// Adds a hint if the daemon refused with this code.
    #[must_use]
    pub(crate) fn with_hint_for(self, code: Code, hint: impl FnOnce() -> String) -> Self {
        if self.kind == CliErrorKind::Refused(code) { self.with_hint(hint()) } else { self }
    }

    /// Returns the kind of failure.
    pub(crate) fn kind(&self) -> CliErrorKind {
        self.kind
    }

    /// Returns the workflow file's error, which renders the affected lines, if that is the cause.
    pub(crate) fn workflow_error(&self) -> Option<&workflow::Error> {
        self.source.downcast_ref()
    }

    /// Returns the instance without a live run, if that is the reason.
    pub(crate) fn instance_without_run(&self) -> Option<&InstanceRef> {
        match self.source.downcast_ref::<Problem>()?.details.as_deref()? {
            ProblemDetails::NoRun { instance } => Some(instance),
            _ => None,
        }
    }

    /// Returns the verdict, which determines the exit code.
    pub(crate) fn verdict(&self) -> RunVerdict {
        match self.kind {
            CliErrorKind::Usage
            | CliErrorKind::BadFile
            | CliErrorKind::NobodyWoken
            | CliErrorKind::UnusableProgram
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

    /// Returns the error document for programs.
    pub(crate) fn to_report_error(&self) -> ReportError {
        let code = match self.kind {
            CliErrorKind::Usage => "usage".to_owned(),
            CliErrorKind::BadFile => "bad_file".to_owned(),
            CliErrorKind::NobodyWoken => "nobody_woken".to_owned(),
            CliErrorKind::UnusableProgram => "unusable_program".to_owned(),
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
        let kind = CliErrorKind::Refused(problem.code);
        Self { kind, source: problem.into(), hint, observed_run: None }
    }
}

impl From<workflow::Error> for CliError {
    fn from(error: workflow::Error) -> Self {
        let hint = error.hint();
        Self { kind: CliErrorKind::BadFile, source: error.into(), hint, observed_run: None }
    }
}

/// Converts clap's error with a hint to `--help`.
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
            (CliErrorKind::UnusableProgram, 2),
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
