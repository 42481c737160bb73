//! What the command line says when it fails: what happened, why, what to do next.
//!
//! People read `error:` and `hint:` on stderr. With `--json`, stdout holds exactly one document in every case:
//! here `{"error": {"code", "message", "hint"}}`, and stderr stays silent.

use std::{fmt, io};

use agent_worker_protocol::{Code, Problem, api::ReportError};
use agent_worker_workflow as workflow;

use crate::verdict::Verdict;

/// A failure to show a person or a program.
#[derive(Debug)]
pub(crate) struct CliError {
    kind: Kind,
    source: anyhow::Error,
    hint: Option<String>,
}

/// The kinds of failure a program can tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
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
    Lost,
    /// Somebody stopped the daemon; what it had under way goes on with the next one.
    DaemonStopped,
    /// The daemon said no.
    Refused(Code),
    /// The caller left in the middle; the daemon goes on.
    Left,
    /// Whoever read our answers went away. Not an error: they have seen enough.
    ReaderGone,
    /// Anything else.
    Failed,
}

impl CliError {
    /// A failure in our own words.
    pub(crate) fn new(kind: Kind, message: impl fmt::Display) -> Self {
        Self { kind, source: anyhow::anyhow!("{message}"), hint: None }
    }

    /// A failure with a cause.
    pub(crate) fn because(
        kind: Kind,
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
        Self::new(Kind::Usage, what).hint(tip.unwrap_or(otherwise))
    }

    /// A failure to print.
    pub(crate) fn printing(error: io::Error) -> Self {
        let kind = match error.kind() {
            io::ErrorKind::BrokenPipe => Kind::ReaderGone,
            _ => Kind::Failed,
        };
        Self::because(kind, "could not print the answer", error)
    }

    /// Adds the next thing to try.
    #[must_use]
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Adds the next thing to try where the daemon refused with this code.
    #[must_use]
    pub(crate) fn hint_for(self, code: Code, hint: impl FnOnce() -> String) -> Self {
        if self.kind == Kind::Refused(code) { self.hint(hint()) } else { self }
    }

    /// What kind of failure it is.
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// What is wrong with the workflow file, where that is the failure: it shows the lines in question.
    pub(crate) fn bad_file(&self) -> Option<&workflow::Error> {
        self.source.downcast_ref()
    }

    /// How the command ended.
    pub(crate) fn verdict(&self) -> Verdict {
        match self.kind {
            Kind::Usage | Kind::BadFile | Kind::NobodyWoken | Kind::Refused(Code::BadRequest) => {
                Verdict::Invalid
            }
            Kind::Left => Verdict::Stopped,
            Kind::DaemonStopped => Verdict::Interrupted,
            Kind::ReaderGone => Verdict::Done,
            Kind::NoDaemon
            | Kind::OtherVersion
            | Kind::BadHome
            | Kind::Lost
            | Kind::Refused(_)
            | Kind::Failed => Verdict::Failed,
        }
    }

    /// The failure for programs.
    pub(crate) fn body(&self) -> ReportError {
        let code = match self.kind {
            Kind::Usage => "usage".to_owned(),
            Kind::BadFile => "bad_file".to_owned(),
            Kind::NobodyWoken => "nobody_woken".to_owned(),
            Kind::NoDaemon => "no_daemon".to_owned(),
            Kind::OtherVersion => "other_version".to_owned(),
            Kind::BadHome => "bad_home".to_owned(),
            Kind::Lost => "lost".to_owned(),
            Kind::DaemonStopped => "daemon_stopped".to_owned(),
            Kind::Left => "left".to_owned(),
            Kind::Refused(code) => code.to_string(),
            Kind::ReaderGone | Kind::Failed => "failed".to_owned(),
        };
        ReportError { code, message: format!("{:#}", self.source), hint: self.hint.clone() }
    }
}

impl From<Problem> for CliError {
    fn from(problem: Problem) -> Self {
        let hint = problem.hint.clone();
        Self { kind: Kind::Refused(problem.code), source: problem.into(), hint }
    }
}

impl From<workflow::Error> for CliError {
    fn from(error: workflow::Error) -> Self {
        let hint = error.hint();
        Self { kind: Kind::BadFile, source: error.into(), hint }
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
        let error = CliError::because(Kind::NoDaemon, "could not reach the daemon", refused)
            .hint("start it with `agent-worker daemon`");
        let expected = ReportError {
            code: "no_daemon".into(),
            message: "could not reach the daemon: connection refused".into(),
            hint: Some("start it with `agent-worker daemon`".into()),
        };
        assert_eq!(error.body(), expected);
    }

    #[test]
    fn what_the_caller_got_wrong_exits_2_and_what_went_wrong_exits_1() {
        for (kind, code) in [
            (Kind::Usage, 2),
            (Kind::BadFile, 2),
            (Kind::NobodyWoken, 2),
            (Kind::Refused(Code::BadRequest), 2),
            (Kind::Refused(Code::NoRun), 1),
            (Kind::NoDaemon, 1),
            (Kind::OtherVersion, 1),
            (Kind::BadHome, 1),
            (Kind::Lost, 1),
            (Kind::Failed, 1),
            (Kind::DaemonStopped, 5),
            (Kind::Left, 130),
            (Kind::ReaderGone, 0),
        ] {
            assert_eq!(CliError::new(kind, "x").verdict().code(), code, "{kind:?}");
        }
    }

    #[test]
    fn only_a_reader_who_left_is_not_an_error() {
        let gone = CliError::printing(io::ErrorKind::BrokenPipe.into());
        let full = CliError::printing(io::ErrorKind::StorageFull.into());
        assert_eq!((gone.kind(), full.kind()), (Kind::ReaderGone, Kind::Failed));
    }
}
