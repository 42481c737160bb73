//! `bash`: a shell command, run to its end or started in the background.

use std::{
    os::unix::process::ExitStatusExt as _,
    path::Path,
    process::ExitStatus,
    time::{Duration, Instant},
};

use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::time::timeout;

use crate::{
    background::BackgroundCommands,
    captured_output::CapturedOutput,
    command_process::CommandProcess,
    tool_output::{ToolError, ToolStep, read_arguments},
};

const DEFAULT_TIMEOUT_SECS: u64 = 120;
const MAX_TIMEOUT_SECS: u64 = 600;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BashArguments {
    command: String,
    timeout: Option<u64>,
    #[serde(default)]
    run_in_background: bool,
    #[serde(rename = "description")]
    _description: Option<String>,
}

/// Runs a command. A command that fails is a failure for the model, with the same output.
pub(crate) async fn run_bash(
    args: Map<String, Value>,
    folder: &Path,
    background: &BackgroundCommands,
) -> ToolStep<String> {
    let args: BashArguments = read_arguments(args)?;
    if args.command.trim().is_empty() {
        return Err("the command is empty".into());
    }
    let limit = args.timeout.unwrap_or(DEFAULT_TIMEOUT_SECS);
    if !(1..=MAX_TIMEOUT_SECS).contains(&limit) {
        return Err(format!(
            "`timeout` must be 1 to {MAX_TIMEOUT_SECS} seconds; use run_in_background for longer commands"
        )
        .into());
    }
    let command = CommandProcess::start(&args.command, folder)
        .map_err(ToolError::at("start a shell in", folder.display()))?;
    if args.run_in_background {
        return background.adopt(command);
    }
    let (began, mut output, mut command) = (Instant::now(), CapturedOutput::default(), command);
    let ended = timeout(Duration::from_secs(limit), command.wait(|piece| output.push(piece))).await;
    match ended {
        Ok(Ok(status)) => {
            command.release();
            report(status, began.elapsed(), &output)
        }
        Ok(Err(error)) => Err(format!("could not wait for the command: {error}").into()),
        Err(_) => {
            command.end(|piece| output.push(piece)).await;
            Err(format!("[ended after {limit} s by its timeout]\n{}", output.text()).into())
        }
    }
}

fn report(status: ExitStatus, took: Duration, output: &CapturedOutput) -> ToolStep<String> {
    let text = format!("[{}, {:.1} s]\n{}", status_text(status), took.as_secs_f32(), output.text());
    if status.success() { Ok(text) } else { Err(text.into()) }
}

/// Describes the exit status of a command.
pub(crate) fn status_text(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    async fn bash(args: Value) -> ToolStep<String> {
        let Value::Object(args) = args else { panic!("{args}") };
        run_bash(args, &std::env::temp_dir(), &BackgroundCommands::default()).await
    }

    /// Returns the result without its duration.
    fn untimed(text: &str) -> String {
        let (start, rest) = text.split_once(", ").unwrap();
        format!("{start}]{}", rest.split_once(']').unwrap().1)
    }

    #[tokio::test]
    async fn both_streams_are_returned_in_order_with_the_exit_code() {
        let done = bash(json!({"command": "echo a; echo b >&2; echo c"})).await.unwrap();
        assert_eq!(untimed(&done), "[exit code 0]\na\nb\nc\n");
        let ToolError(failed) = bash(json!({"command": "echo a; exit 3"})).await.unwrap_err();
        assert_eq!(untimed(&failed), "[exit code 3]\na\n");
    }

    #[tokio::test]
    async fn a_command_is_ended_at_its_timeout_with_its_children_and_its_output_is_kept() {
        let began = Instant::now();
        let line = "echo early; sleep 1000 & sleep 1000";
        let ToolError(why) = bash(json!({"command": line, "timeout": 1})).await.unwrap_err();
        assert_eq!(why, "[ended after 1 s by its timeout]\nearly\n");
        assert!(began.elapsed() < Duration::from_secs(20));
    }

    #[tokio::test]
    async fn a_process_that_keeps_the_output_open_does_not_keep_the_call_open() {
        let done = bash(json!({"command": "sleep 5 & echo $!"})).await.unwrap();
        assert!(done.starts_with("[exit code 0"), "{done}");
    }

    #[tokio::test]
    async fn an_invalid_argument_is_refused() {
        for (args, part) in [
            (json!({}), "missing field `command`"),
            (json!({"command": " "}), "empty"),
            (json!({"command": "x", "timeout": 601}), "1 to 600"),
            (json!({"command": "x", "cwd": "/"}), "unknown field `cwd`"),
        ] {
            let ToolError(why) = bash(args).await.unwrap_err();
            assert!(why.contains(part), "{why}");
        }
        assert!(bash(json!({"command": "true", "timeout": null})).await.is_ok());
    }
}
