//! The end of following a run: the final output and the exit code.

use agent_worker_protocol::{Target, api::RunStarted};

use crate::{
    error::{CliError, CliErrorKind},
    input::context::{CommandContext, Format},
    live::{follower::FollowOutcome, screen::AnswerDestination},
    output::{
        github::GithubJob,
        report::{Envelope, RunConclusion},
        styled_line::{StyledLine, Tone},
        verdict::RunVerdict,
    },
};

/// Prints the outcome of following a run and returns the verdict.
pub(crate) fn finish_follow(
    followed: FollowOutcome,
    started: &RunStarted,
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<RunVerdict, CliError> {
    match followed {
        FollowOutcome::Detached => print_detached_run(started, format, ctx),
        FollowOutcome::DetachedWhileStopping => Err(CliError::new(
            CliErrorKind::Detached,
            "interrupted before the run was stopped; the daemon continues to stop it",
        )
        .with_hint("check: agent-worker ls")),
        FollowOutcome::Over(report) => print_conclusion(&report, format, ctx),
    }
}

/// Prints the commands for a run in the background.
pub(crate) fn print_detached_run(
    started: &RunStarted,
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<RunVerdict, CliError> {
    match format {
        Format::Json => ctx.console.print_json(started)?,
        Format::Text => {
            let target = Target::instance(&started.instance);
            ctx.console.print_line(
                &StyledLine::new(Tone::Strong, target.to_string())
                    .with(Tone::Plain, " runs in the background"),
            )?;
            ctx.console.hint(&format!("follow it: agent-worker attach {target}"))?;
            ctx.console.hint(&format!("stop it: agent-worker stop {target}"))?;
        }
    }
    Ok(RunVerdict::Done)
}

/// Prints a failure as a run's envelope, where a program that follows a run expects it.
pub(crate) fn print_error_in_envelope(
    result: Result<RunVerdict, CliError>,
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<RunVerdict, CliError> {
    match result {
        Err(error) if format == Format::Json && error.kind() != CliErrorKind::OutputClosed => {
            ctx.console.print_json(&Envelope::from_error(&error))?;
            if let Some(job) = GithubJob::detect(ctx.settings) {
                job.report_error(&error, ctx.console)?;
            }
            Ok(error.verdict())
        }
        other => other,
    }
}

/// Returns the stream for messages of agents; with `--json` stdout is reserved for the document.
pub(crate) fn answer_destination(format: Format) -> AnswerDestination {
    match format {
        Format::Text => AnswerDestination::Stdout,
        Format::Json => AnswerDestination::Stderr,
    }
}

/// Prints the conclusion of a run, and reports it to the GitHub job; a reader that closed its end does not change the
/// verdict.
fn print_conclusion(
    report: &RunConclusion,
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<RunVerdict, CliError> {
    let printed = match format {
        Format::Json => ctx.console.print_json(&report.envelope()),
        Format::Text => {
            report.closing_lines().iter().try_for_each(|line| ctx.console.eprint_line(line))
        }
    };
    match printed {
        Err(error) if error.kind() != CliErrorKind::OutputClosed => return Err(error),
        Ok(()) | Err(_) => {}
    }
    if let Some(job) = GithubJob::detect(ctx.settings) {
        job.report_run(report.report(), report.view.file.as_deref(), ctx.console)?;
    }
    Ok(report.verdict())
}
