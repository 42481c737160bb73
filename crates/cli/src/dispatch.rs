//! Runs one command from its arguments to its exit code; the only place that prints a command's failure.

use std::process::ExitCode;

use agent_worker_host::observe_damage;
use serde_json::json;

use crate::{
    error::{CliError, CliErrorKind},
    input::{
        context::{CommandContext, Format},
        invocation::CliCommand,
        resolve_run,
        settings::CliSettings,
    },
    output::{console::Console, github::GithubJob, text::one_line, verdict::RunVerdict},
};

/// Runs a command and returns its exit code.
pub fn run(command: CliCommand, settings: &CliSettings, console: &mut Console) -> ExitCode {
    let format = command.command.format();
    let verdict = execute_command(command, settings, console).unwrap_or_else(|error| {
        let verdict = error.verdict();
        let shown = match (error.kind(), format) {
            (CliErrorKind::OutputClosed, _) => Ok(()),
            (_, Format::Json) => console.print_json(&json!({ "error": error.to_report_error() })),
            (_, Format::Text) => console.eprint_error(&error),
        };
        let shown = match GithubJob::detect(settings) {
            Some(job) => shown.and_then(|()| job.report_error(&error, console)),
            None => shown,
        };
        // If the error cannot be printed either, the exit code is the only report.
        shown.map_or(verdict, |()| verdict)
    });
    verdict.exit_code().into()
}

fn execute_command(
    command: CliCommand,
    settings: &CliSettings,
    console: &mut Console,
) -> Result<RunVerdict, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| {
        CliError::with_source(CliErrorKind::Failed, "could not start the runtime", error)
    })?;
    let mut ctx = CommandContext { settings, console };
    let (verdict, left_out) = runtime.block_on(observe_damage(async {
        match Box::pin(command.command.run(&mut ctx)).await {
            Err(error) => Err(resolve_run::with_restart_hint(error, &ctx).await),
            verdict => verdict,
        }
    }));
    for row in &left_out {
        console.warn(&one_line(&format!("left out: {row}")))?;
    }
    verdict
}
