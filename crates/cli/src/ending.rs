//! How following a run ends for the caller: what is printed, and the exit code.

use agent_worker_protocol::{Target, api::RunStarted};

use crate::{
    context::{Context, Format},
    error::{CliError, Kind},
    follow::Followed,
    line::{Line, Tone},
    report::{Envelope, Report},
    screen::Answers,
    verdict::Verdict,
};

/// Tells where following a run led.
pub(crate) fn ended(
    followed: Followed,
    started: &RunStarted,
    format: Format,
    ctx: &mut Context<'_>,
) -> Result<Verdict, CliError> {
    match followed {
        Followed::Left => left(started, format, ctx),
        Followed::LeftStopping => Err(CliError::new(
            Kind::Left,
            "left before it was stopped; the daemon goes on stopping it",
        )
        .hint("look: agent-worker ls")),
        Followed::Over(report) => closed(&report, format, ctx),
    }
}

/// Says how to come back to a run that goes on.
pub(crate) fn left(
    started: &RunStarted,
    format: Format,
    ctx: &mut Context<'_>,
) -> Result<Verdict, CliError> {
    match format {
        Format::Json => ctx.console.json(started)?,
        Format::Text => {
            let target = Target::instance(&started.instance);
            ctx.console
                .answer(&Line::of(Tone::Strong, target.to_string()).and(Tone::Plain, " goes on"))?;
            ctx.console.hint(&format!("follow it: agent-worker attach {target}"))?;
            ctx.console.hint(&format!("stop it: agent-worker stop {target}"))?;
        }
    }
    Ok(Verdict::Done)
}

/// Puts a failure where a program that follows a run looks for it: a run's envelope.
pub(crate) fn in_an_envelope(
    result: Result<Verdict, CliError>,
    format: Format,
    ctx: &mut Context<'_>,
) -> Result<Verdict, CliError> {
    match result {
        Err(error) if format == Format::Json && error.kind() != Kind::ReaderGone => {
            ctx.console.json(&Envelope::of_failure(&error))?;
            Ok(error.verdict())
        }
        other => other,
    }
}

/// Where what is said goes: a document on stdout leaves no room for it there.
pub(crate) fn answers(format: Format) -> Answers {
    match format {
        Format::Text => Answers::Out,
        Format::Json => Answers::Aside,
    }
}

/// Prints what a run came to. Whoever stopped reading does not change what that is.
fn closed(report: &Report, format: Format, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    let printed = match format {
        Format::Json => ctx.console.json(&report.envelope()),
        Format::Text => report.closing().iter().try_for_each(|line| ctx.console.say(line)),
    };
    match printed {
        Err(error) if error.kind() != Kind::ReaderGone => Err(error),
        Ok(()) | Err(_) => Ok(report.verdict()),
    }
}
