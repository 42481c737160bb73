//! The worker's log, for people: what its commands print, as they print it, and a line where each tool call begins and
//! ends. The daemon has put the worker's stderr into a file; nothing is ever decided by what is in it.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use agent_worker_protocol::SHELL_TOOL;
use serde_json::{Map, Value};

use crate::{
    model::{Call, ToolResult},
    text::start,
};

/// How much of what commands print is kept: one that prints for ever must not fill the disk.
const KEPT: usize = 16 * 1024 * 1024;
/// How much of a call, or of why it failed, a line shows.
const SHOWN: usize = 200;
/// A variable's value that is shorter stands in too many texts by chance.
const SHORTEST_SECRET: usize = 8;
/// Variables that are nobody's secret.
const PLAIN: [&str; 9] =
    ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TERM", "TZ", "TMPDIR"];

/// The log. Clones share it.
#[derive(Clone)]
pub(crate) struct Log(Arc<Mutex<Page>>);

struct Page {
    out: Box<dyn Write + Send>,
    /// How much more of what commands print is kept.
    left: usize,
    is_mid_line: bool,
    /// Values that a line never shows, by the variables that hold them.
    secrets: BTreeMap<String, String>,
}

impl Log {
    /// The log of a worker whose commands have this environment.
    pub(crate) fn new(env: &BTreeMap<String, String>) -> Self {
        Self::on(Box::new(io::stderr()), env)
    }

    fn on(out: Box<dyn Write + Send>, env: &BTreeMap<String, String>) -> Self {
        let is_secret =
            |name: &str, value: &str| value.len() >= SHORTEST_SECRET && !PLAIN.contains(&name);
        let mut secrets = env.clone();
        secrets.retain(|name, value| is_secret(name, value));
        Self(Arc::new(Mutex::new(Page { out, left: KEPT, is_mid_line: false, secrets })))
    }

    /// A command printed this.
    pub(crate) fn printed(&self, bytes: &[u8]) {
        let mut page = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = &bytes[..bytes.len().min(page.left)];
        page.write(kept);
        if kept.len() < bytes.len() && page.left > 0 {
            page.line(&format!(
                "… more than {} MiB were printed; the rest is not kept",
                KEPT >> 20
            ));
        }
        page.left -= kept.len();
    }

    /// A tool is called.
    pub(crate) fn called(&self, call: &Call) {
        let Call { tool, args, .. } = call;
        self.note(&format!("→ {tool}{}", what(tool, args)));
    }

    /// It has answered.
    pub(crate) fn answered(&self, call: &Call, result: &ToolResult, took: Duration) {
        let (name, millis) = (&call.tool, took.as_millis());
        self.note(&match result {
            ToolResult::Done(_) => format!("← {name}: ok, {millis}ms"),
            ToolResult::Failed(why) => format!("← {name}: failed, {millis}ms: {why}"),
        });
    }

    fn note(&self, text: &str) {
        let mut page = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = text.to_owned();
        for (name, value) in &page.secrets {
            text = text.replace(value, &format!("${name}"));
        }
        let text = start(&text, SHOWN).replace(char::is_control, " ");
        page.line(&text);
    }
}

/// What a call asks for.
fn what(tool: &str, args: &Map<String, Value>) -> String {
    match args.get("command").and_then(Value::as_str).filter(|_| tool == SHELL_TOOL) {
        Some(command) => format!(": {command}"),
        None if args.is_empty() => String::new(),
        None => format!(" {}", Value::Object(args.clone())),
    }
}

impl Page {
    fn line(&mut self, text: &str) {
        let begin = if self.is_mid_line { "\n" } else { "" };
        self.write(format!("{begin}{text}\n").as_bytes());
    }

    /// What cannot be written is lost: the work goes on.
    fn write(&mut self, bytes: &[u8]) {
        if let Some(last) = bytes.last() {
            self.is_mid_line = *last != b'\n';
            let _ = self.out.write_all(bytes).and_then(|()| self.out.flush());
        }
    }
}

#[cfg(test)]
impl Log {
    /// One that nobody reads.
    pub(crate) fn nowhere() -> Self {
        Self::on(Box::new(io::sink()), &BTreeMap::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Paper {
        fn log(&self, env: &[(&str, &str)]) -> Log {
            let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            Log::on(Box::new(self.clone()), &env.collect())
        }

        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    fn call(tool: &str, args: Value) -> Call {
        let Value::Object(args) = args else { panic!("{args}") };
        Call { id: "1".into(), tool: tool.into(), args }
    }

    #[test]
    fn calls_are_lines_of_their_own_among_what_commands_print() {
        let paper = Paper::default();
        let log = paper.log(&[]);
        let shell = call(SHELL_TOOL, serde_json::json!({"command": "printf a;\nprintf b"}));
        log.called(&shell);
        log.printed(b"ab");
        log.answered(&shell, &ToolResult::Done("ab".into()), Duration::from_millis(7));
        log.called(&call("inbox_check", serde_json::json!({})));
        log.printed(b"");
        let send = call("channel_send", serde_json::json!({"message": "hello"}));
        log.called(&send);
        log.answered(&send, &ToolResult::Failed("no\nrun".into()), Duration::ZERO);
        let expected = "→ shell: printf a; printf b\nab\n← shell: ok, 7ms\n→ inbox_check\n\
            → channel_send {\"message\":\"hello\"}\n← channel_send: failed, 0ms: no run\n";
        assert_eq!(paper.text(), expected);
    }

    #[test]
    fn a_line_shows_no_secret_and_no_more_than_the_beginning_of_a_message() {
        let paper = Paper::default();
        let log = paper.log(&[("KEY", "s3cret-s3cret"), ("PATH", "/usr/bin:/bin"), ("N", "12")]);
        log.called(&call(
            SHELL_TOOL,
            serde_json::json!({"command": "KEY=s3cret-s3cret PATH=/usr/bin:/bin 12"}),
        ));
        assert_eq!(paper.text(), "→ shell: KEY=$KEY PATH=/usr/bin:/bin 12\n");
        log.called(&call("channel_send", serde_json::json!({"message": "é".repeat(1_000)})));
        let length = paper.text().lines().last().unwrap().len();
        assert!((SHOWN..SHOWN + 5).contains(&length), "{length}");
    }

    #[test]
    fn a_command_that_prints_for_ever_does_not_fill_the_disk() {
        let paper = Paper::default();
        let log = paper.log(&[]);
        for _ in 0..KEPT / 1_000_000 + 5 {
            log.printed(&vec![b'x'; 1_000_000]);
        }
        log.called(&call("inbox_check", serde_json::json!({})));
        let text = paper.text();
        let after = text.trim_start_matches('x');
        assert_eq!(text.len() - after.len(), KEPT);
        let expected = "\n… more than 16 MiB were printed; the rest is not kept\n→ inbox_check\n";
        assert_eq!(after, expected);
    }
}
