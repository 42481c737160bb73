//! Annotations: messages that GitHub shows next to a job and at a line of a file. Pure.

use std::{fmt::Write as _, path::Path};

use agent_worker_protocol::{Keyword as _, Receipt, api::RunReport};

use crate::output::{
    state_text,
    text::{one_line, sanitize_for_display},
};

/// Maximum length of the message of an annotation, in characters.
const MAX_MESSAGE_CHARS: usize = 2_000;

/// The effect of an annotation on the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    /// The step fails because of it.
    Error,
    /// The step may succeed in spite of it.
    Warning,
}

/// A message about a job or a line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Annotation {
    severity: Severity,
    title: String,
    message: String,
    file: Option<String>,
    line_and_column: Option<(usize, usize)>,
}

impl Annotation {
    /// Creates an annotation of the job.
    pub(crate) fn new(severity: Severity, title: &str, message: &str) -> Self {
        let message = sanitize_for_display(message).chars().take(MAX_MESSAGE_CHARS).collect();
        Self { severity, title: one_line(title), message, file: None, line_and_column: None }
    }

    /// Moves the annotation to a file.
    #[must_use]
    pub(crate) fn in_file(self, path: &Path) -> Self {
        Self { file: Some(path.to_string_lossy().into_owned()), ..self }
    }

    /// Moves the annotation to a line and a column, both from 1.
    #[must_use]
    pub(crate) fn at(self, line: usize, column: usize) -> Self {
        Self { line_and_column: Some((line, column)), ..self }
    }

    /// Returns the severity.
    pub(crate) fn severity(&self) -> Severity {
        self.severity
    }

    /// Returns the workflow command that creates the annotation, on one line.
    pub(crate) fn command(&self) -> String {
        let name = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let mut command = format!("::{name} ");
        if let Some(file) = &self.file {
            let _ = write!(command, "file={},", escape_property(file));
        }
        if let Some((line, column)) = self.line_and_column {
            let _ = write!(command, "line={line},col={column},");
        }
        let title = escape_property(&self.title);
        let _ = write!(command, "title={title}::{}", escape_message(&self.message));
        command
    }
}

/// Returns the annotations of a run: the reason of its outcome, every failed agent, undelivered messages, and mentions that
/// reached no agent.
pub(super) fn report_annotations(report: &RunReport, file: Option<&Path>) -> Vec<Annotation> {
    let title = format!("agent-worker: {} {}", report.workflow, report.outcome.word());
    let new = |severity, message: &str| {
        let annotation = Annotation::new(severity, &title, message);
        file.map_or(annotation.clone(), |file| annotation.in_file(file))
    };
    // In a run that is done, undelivered messages are only a warning.
    let severity = if report.error.is_some() { Severity::Error } else { Severity::Warning };
    let failures = report.agents.iter().filter_map(|(name, agent)| {
        let failure = agent.last_failure.as_ref().filter(|failure| !failure.recovered)?;
        Some(format!("{name} failed ({}): {}", failure.class, one_line(&failure.message)))
    });
    let undelivered = report.dead_letters.iter().chain(&report.dropped).map(undelivered_text);
    report
        .error
        .iter()
        .map(|error| one_line(&error.message))
        .chain(failures)
        .chain(undelivered)
        .map(|message| new(severity, &message))
        .chain(
            report.unheard.iter().map(|mention| {
                new(Severity::Warning, &one_line(&state_text::unheard_text(mention)))
            }),
        )
        .collect()
}

/// Describes a delivery that was given up.
pub(super) fn undelivered_text(receipt: &Receipt) -> String {
    let why = receipt.why.as_deref().map_or("no reason given".to_owned(), one_line);
    format!("message #{} for {} is {}: {why}", receipt.seq, receipt.agent, receipt.state.word())
}

/// Escapes the message of a workflow command.
fn escape_message(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes the value of a property of a workflow command.
fn escape_property(text: &str) -> String {
    escape_message(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::{
        DeliveryState, FailureClass, Outcome, RunState,
        api::{RunReport, RunView},
    };

    use super::*;
    use crate::output::samples;

    #[test]
    fn values_cannot_leave_their_place_in_a_command() {
        let hostile = "50%\r\n::add-mask::x, y::z";
        let annotation = Annotation::new(Severity::Error, hostile, hostile)
            .in_file(Path::new("a:b,c%\n.yaml"))
            .at(3, 7);
        assert_eq!(
            annotation.command(),
            "::error file=a%3Ab%2Cc%25%0A.yaml,line=3,col=7,title=50%25 %3A%3Aadd-mask%3A%3Ax%2C y%3A%3Az\
             ::50%25%0A::add-mask::x, y::z"
        );
    }

    fn commands(view: &RunView) -> Vec<String> {
        let report = RunReport::of(view).unwrap();
        let found = report_annotations(&report, Some(Path::new("team.yaml")));
        found.iter().map(Annotation::command).collect()
    }

    #[test]
    fn a_run_that_is_done_has_no_annotation_but_for_what_was_not_heard() {
        assert_eq!(commands(&samples::run()), Vec::<String>::new());
        let unheard = vec![samples::unheard(12, "coder", "reviewer")];
        assert_eq!(
            commands(&RunView { unheard, ..samples::run() }),
            ["::warning file=team.yaml,title=agent-worker%3A review done\
              ::#12 of coder mentions reviewer, who was not messaged"]
        );
    }

    #[test]
    fn a_failed_run_is_annotated_with_its_reasons() {
        let dead = samples::receipt(7, "coder", DeliveryState::Dead);
        let mut view = RunView {
            state: RunState::Ended { outcome: Outcome::Failed },
            dead_letters: vec![dead],
            ..samples::run()
        };
        view.agents[0].last_failure = Some(samples::failure("coder", FailureClass::Auth).failure);
        let commands = commands(&view);
        assert!(
            commands.iter().all(|one| one.starts_with("::error file=team.yaml,")),
            "{commands:?}"
        );
        for part in ["coder failed (auth): 401 bad key", "message #7 for coder is dead"] {
            assert!(commands.iter().any(|one| one.contains(part)), "{part}: {commands:?}");
        }
    }
}
