//! The worker's log, for people: the output of its commands as it is printed, and a line at the start and the end
//! of each tool call. The daemon redirects the worker's stderr to a file; no decision depends on its content.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    sync::{Arc, Mutex},
    time::Duration,
};

use agent_worker_protocol::{SHELL_TOOL, sync};
use serde_json::{Map, Value};

use crate::{
    model::{ModelToolCall, ToolResult},
    truncation::truncate,
};

/// Maximum output of commands in the log: a command that prints forever must not fill the disk.
const MAX_LOGGED_OUTPUT_BYTES: usize = 16 * 1024 * 1024;
/// Maximum length of a call, or of the reason for its failure, in a line.
const MAX_LOG_LINE_BYTES: usize = 200;
/// Minimum length of a secret; a shorter value occurs in too many texts by chance.
const MIN_SECRET_BYTES: usize = 8;
/// Variables that never contain a secret.
const NON_SECRET_VARIABLES: [&str; 9] =
    ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TERM", "TZ", "TMPDIR"];

/// The log of a worker. Clones share the state.
#[derive(Clone)]
pub(crate) struct WorkerLog(Arc<Mutex<WorkerLogWriter>>);

struct WorkerLogWriter {
    out: Box<dyn Write + Send>,
    /// Number of output bytes that may still be written.
    remaining_bytes: usize,
    is_mid_line: bool,
    /// Values that a line never shows, by the variables that contain them.
    secrets: BTreeMap<String, String>,
}

impl WorkerLog {
    /// Returns the log of a worker whose commands have this environment.
    pub(crate) fn new(env: &BTreeMap<String, String>) -> Self {
        Self::with_writer(Box::new(io::stderr()), env)
    }

    fn with_writer(out: Box<dyn Write + Send>, env: &BTreeMap<String, String>) -> Self {
        let is_secret = |name: &str, value: &str| {
            value.len() >= MIN_SECRET_BYTES && !NON_SECRET_VARIABLES.contains(&name)
        };
        let mut secrets = env.clone();
        secrets.retain(|name, value| is_secret(name, value));
        Self(Arc::new(Mutex::new(WorkerLogWriter {
            out,
            remaining_bytes: MAX_LOGGED_OUTPUT_BYTES,
            is_mid_line: false,
            secrets,
        })))
    }

    /// Writes output of a command.
    pub(crate) fn write_output(&self, bytes: &[u8]) {
        let mut writer = sync::lock(&self.0);
        let kept = &bytes[..bytes.len().min(writer.remaining_bytes)];
        writer.write(kept);
        if kept.len() < bytes.len() && writer.remaining_bytes > 0 {
            writer.write_line(&format!(
                "… the output exceeds {} MiB; the rest is not kept",
                MAX_LOGGED_OUTPUT_BYTES >> 20
            ));
        }
        writer.remaining_bytes -= kept.len();
    }

    /// Logs the start of a tool call.
    pub(crate) fn log_tool_call(&self, call: &ModelToolCall) {
        let ModelToolCall { tool, args, .. } = call;
        self.write_redacted_line(&format!("→ {tool}{}", call_summary(tool, args)));
    }

    /// Logs the result of a tool call.
    pub(crate) fn log_tool_result(
        &self,
        call: &ModelToolCall,
        result: &ToolResult,
        took: Duration,
    ) {
        let (name, millis) = (&call.tool, took.as_millis());
        self.write_redacted_line(&match result {
            ToolResult::Done(_) | ToolResult::Image(..) => format!("← {name}: ok, {millis}ms"),
            ToolResult::Failed(why) => format!("← {name}: failed, {millis}ms: {why}"),
        });
    }

    fn write_redacted_line(&self, text: &str) {
        let mut writer = sync::lock(&self.0);
        let mut text = text.to_owned();
        for (name, value) in &writer.secrets {
            text = text.replace(value, &format!("${name}"));
        }
        let text = truncate(&text, MAX_LOG_LINE_BYTES).replace(char::is_control, " ");
        writer.write_line(&text);
    }
}

/// Describes the arguments of a call.
fn call_summary(tool: &str, args: &Map<String, Value>) -> String {
    match args.get("command").and_then(Value::as_str).filter(|_| tool == SHELL_TOOL) {
        Some(command) => format!(": {command}"),
        None if args.is_empty() => String::new(),
        None => format!(" {}", Value::Object(args.clone())),
    }
}

impl WorkerLogWriter {
    fn write_line(&mut self, text: &str) {
        let begin = if self.is_mid_line { "\n" } else { "" };
        self.write(format!("{begin}{text}\n").as_bytes());
    }

    /// Writes bytes. A failed write is lost, and the work continues.
    fn write(&mut self, bytes: &[u8]) {
        if let Some(last) = bytes.last() {
            self.is_mid_line = *last != b'\n';
            let _ = self.out.write_all(bytes).and_then(|()| self.out.flush());
        }
    }
}

#[cfg(test)]
impl WorkerLog {
    /// Returns a log that discards everything.
    pub(crate) fn discarding() -> Self {
        Self::with_writer(Box::new(io::sink()), &BTreeMap::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct LogBuffer(Arc<Mutex<Vec<u8>>>);

    impl Write for LogBuffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl LogBuffer {
        fn log(&self, env: &[(&str, &str)]) -> WorkerLog {
            let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            WorkerLog::with_writer(Box::new(self.clone()), &env.collect())
        }

        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    fn call(tool: &str, args: Value) -> ModelToolCall {
        let Value::Object(args) = args else { panic!("{args}") };
        ModelToolCall { id: "1".into(), tool: tool.into(), args }
    }

    #[test]
    fn calls_are_lines_of_their_own_among_what_commands_print() {
        let buffer = LogBuffer::default();
        let log = buffer.log(&[]);
        let shell = call(SHELL_TOOL, serde_json::json!({"command": "printf a;\nprintf b"}));
        log.log_tool_call(&shell);
        log.write_output(b"ab");
        log.log_tool_result(&shell, &ToolResult::Done("ab".into()), Duration::from_millis(7));
        log.log_tool_call(&call("inbox_check", serde_json::json!({})));
        log.write_output(b"");
        let send = call("channel_send", serde_json::json!({"message": "hello"}));
        log.log_tool_call(&send);
        log.log_tool_result(&send, &ToolResult::Failed("no\nrun".into()), Duration::ZERO);
        let expected = "→ shell: printf a; printf b\nab\n← shell: ok, 7ms\n→ inbox_check\n\
            → channel_send {\"message\":\"hello\"}\n← channel_send: failed, 0ms: no run\n";
        assert_eq!(buffer.text(), expected);
    }

    #[test]
    fn a_line_shows_no_secret_and_no_more_than_the_beginning_of_a_message() {
        let buffer = LogBuffer::default();
        let log = buffer.log(&[("KEY", "s3cret-s3cret"), ("PATH", "/usr/bin:/bin"), ("N", "12")]);
        log.log_tool_call(&call(
            SHELL_TOOL,
            serde_json::json!({"command": "KEY=s3cret-s3cret PATH=/usr/bin:/bin 12"}),
        ));
        assert_eq!(buffer.text(), "→ shell: KEY=$KEY PATH=/usr/bin:/bin 12\n");
        log.log_tool_call(&call("channel_send", serde_json::json!({"message": "é".repeat(1_000)})));
        let length = buffer.text().lines().last().unwrap().len();
        assert!((MAX_LOG_LINE_BYTES..MAX_LOG_LINE_BYTES + 5).contains(&length), "{length}");
    }

    #[test]
    fn a_command_that_prints_for_ever_does_not_fill_the_disk() {
        let buffer = LogBuffer::default();
        let log = buffer.log(&[]);
        for _ in 0..MAX_LOGGED_OUTPUT_BYTES / 1_000_000 + 5 {
            log.write_output(&vec![b'x'; 1_000_000]);
        }
        log.log_tool_call(&call("inbox_check", serde_json::json!({})));
        let text = buffer.text();
        let after = text.trim_start_matches('x');
        assert_eq!(text.len() - after.len(), MAX_LOGGED_OUTPUT_BYTES);
        let expected = "\n… the output exceeds 16 MiB; the rest is not kept\n→ inbox_check\n";
        assert_eq!(after, expected);
    }
}
