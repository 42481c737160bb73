//! One command from its words to its exit code. Every failure is shown here and nowhere else.

use std::process::ExitCode;

use agent_worker_host::observe_damage;
use serde_json::json;

use crate::{
    console::Console,
    context::{Context, Format},
    error::{CliError, Kind},
    invocation::Command,
    settings::Settings,
    text::one_line,
    verdict::Verdict,
};

/// Carries a command out and returns what to exit with.
pub fn run(command: Command, settings: &Settings, console: &mut Console) -> ExitCode {
    let format = command.0.format();
    let verdict = finished(command, settings, console).unwrap_or_else(|error| {
        let verdict = error.verdict();
        let shown = match (error.kind(), format) {
            (Kind::ReaderGone, _) => Ok(()),
            (_, Format::Json) => console.json(&json!({ "error": error.body() })),
            (_, Format::Text) => console.fail(&error),
        };
        // When even that cannot be printed, the exit code has to do.
        shown.map_or(verdict, |()| verdict)
    });
    verdict.code().into()
}

fn finished(
    command: Command,
    settings: &Settings,
    console: &mut Console,
) -> Result<Verdict, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime
        .map_err(|error| CliError::because(Kind::Failed, "could not start the runtime", error))?;
    let mut ctx = Context { settings, console };
    let (verdict, left_out) = runtime.block_on(observe_damage(command.0.run(&mut ctx)));
    for row in &left_out {
        console.warn(&one_line(&format!("left out: {row}")))?;
    }
    verdict
}
