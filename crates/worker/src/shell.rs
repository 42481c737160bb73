//! Runs a shell command as a child of the worker and returns the tail of its output. The log contains all of the
//! output.

use std::{
    pin::pin,
    process::{ExitStatus, Stdio},
};

use tokio::{process::Child, time::timeout};

use crate::{
    child_env::{ChildEnv, OutputTail, PIPE_DRAIN_TIMEOUT, exit_status_text},
    event_reporter::EventReporter,
    model::ToolResult,
    worker_log::WorkerLog,
};

/// Runs shell commands.
#[derive(Clone)]
pub(crate) struct Shell(ChildEnv);

impl Shell {
    pub(crate) fn new(child_env: ChildEnv) -> Self {
        Self(child_env)
    }

    /// Runs a command to its end. Returns its stdout, or its exit status and stderr if it failed.
    pub(crate) async fn run(
        &self,
        command: &str,
        report: &EventReporter,
        log: &WorkerLog,
    ) -> ToolResult {
        let child = self.0.command("/bin/sh").args(["-c", command]).stdin(Stdio::null()).spawn();
        let watched = match child {
            Ok(child) => wait_with_output(child, report, log).await,
            Err(error) => Err(error),
        };
        match watched {
            Ok((status, output, _)) if status.success() => ToolResult::Done(output),
            Ok((status, _, errors)) => {
                ToolResult::Failed(format!("{}: {}", exit_status_text(status), errors.trim()))
            }
            Err(error) => {
                let place = self.0.cwd.display();
                ToolResult::Failed(format!("could not run a shell in {place}: {error}"))
            }
        }
    }
}

/// Waits for a child and reads its output.
async fn wait_with_output(
    mut child: Child,
    report: &EventReporter,
    log: &WorkerLog,
) -> std::io::Result<(ExitStatus, String, String)> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (mut output, mut errors) = (OutputTail::default(), OutputTail::default());
    let status = {
        let mut reading = pin!(async {
            tokio::join!(output.read(stdout, report, log), errors.read(stderr, report, log));
        });
        tokio::select! {
            () = &mut reading => child.wait().await?,
            status = child.wait() => {
                // The pipe already holds everything that the command itself wrote.
                let _ = timeout(PIPE_DRAIN_TIMEOUT, reading).await;
                status?
            }
        }
    };
    Ok((status, output.text(), errors.text()))
}
