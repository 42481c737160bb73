//! The tools of an attempt: the daemon's, over MCP, and the worker's own shell.
//!
//! Invariant: every call to the daemon carries a key, and repeating a call repeats its key. So a lost
//! reply and a daemon that restarts cost time, never a second effect.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use agent_worker_protocol::{
    EffectKey, FailureClass, Hash, ResourceId, SHELL_TOOL, ToolName, WorkerEvent, canonical, hash,
};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    log::Log,
    mcp::{CallError, McpClient},
    model::{Call, Failure, ToolResult},
    report::Report,
    shell::Shell,
    text::start,
};

const KEY: &str = "idempotency_key";
const KEEP: &str = ToolName::ResourceCreate.word();
const READ: &str = ToolName::ResourceRead.word();
/// A result over this becomes a resource, and so much of it stays in place.
const INLINE: usize = 32 * 1024;
const PREVIEW: usize = 2 * 1024;

/// How long a call is held while the daemon is away or cannot store anything, and how often it is tried.
const HELD: Duration = Duration::from_secs(45);
const BETWEEN_TRIES: Duration = Duration::from_millis(250);
/// No tool of the daemon takes longer than 50 s.
const LONGEST_CALL: Duration = Duration::from_mins(1);

/// What the daemon says of a resource it keeps.
#[derive(Deserialize)]
struct Kept {
    id: ResourceId,
}

/// What an attempt may call.
pub(crate) struct Toolbox {
    daemon: McpClient,
    /// For scripts alone: a program has its own, or none.
    shell: Option<Shell>,
    log: Log,
    /// How often each call was made in this attempt, by tool and arguments.
    made: Mutex<HashMap<Hash, u32>>,
    /// The first call that the daemon did not carry out for reasons of its own.
    unserved: Unserved,
}

/// The first call of an attempt that the daemon did not carry out for reasons of its own. Clones share it.
///
/// Invariant: an attempt with such a call does not end `ok`. Its model read a failure that says nothing about the work.
#[derive(Clone, Default)]
pub(crate) struct Unserved(Arc<Mutex<Option<String>>>);

impl Unserved {
    fn note(&self, why: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| why.to_owned());
    }

    /// The outcome of a turn: its answer does not count if a call was not carried out. The next attempt repeats it.
    pub(crate) fn judge(&self, done: Result<String, Failure>) -> Result<String, Failure> {
        let why = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match (done, why) {
            (Ok(_), Some(why)) => {
                let why = format!("the daemon did not carry out a tool call: {why}");
                Err(Failure::new(FailureClass::Transient, why))
            }
            (done, _) => done,
        }
    }
}

impl Toolbox {
    pub(crate) fn new(daemon: McpClient, shell: Option<Shell>, log: Log) -> Self {
        let (made, unserved) = (Mutex::default(), Unserved::default());
        Self { daemon, shell, log, made, unserved }
    }

    /// The calls of this toolbox that the daemon did not carry out.
    pub(crate) fn unserved(&self) -> Unserved {
        self.unserved.clone()
    }

    /// Carries out a call, with an event before and after. Whatever goes wrong is its result: the model reads it.
    pub(crate) async fn call(&self, call: &Call, report: &Report) -> ToolResult {
        let began = Instant::now();
        self.log.called(call);
        report.called(&call.id, &call.tool, Value::Object(call.args.clone()));
        let result = self.carry_out(call, report).await;
        let result = self.shorten(call, result, report).await;
        report.answered(&call.id, &call.tool, &result);
        self.log.answered(call, &result, began.elapsed());
        result
    }

    /// The daemon's tools, as it describes them. While it is away it is asked again and again.
    pub(crate) async fn list(&self) -> Result<Vec<Value>, String> {
        let began = Instant::now();
        loop {
            match self.daemon.tools().await {
                Ok(tools) => return Ok(tools),
                Err(CallError::Away(why)) if began.elapsed() >= HELD => return Err(why),
                Err(CallError::Away(_)) => sleep(BETWEEN_TRIES).await,
                Err(CallError::Refused(why)) => return Err(why),
            }
        }
    }

    async fn carry_out(&self, call: &Call, report: &Report) -> ToolResult {
        if let Some(shell) = self.shell.as_ref().filter(|_| call.tool == SHELL_TOOL) {
            return match call.args.get("command").and_then(Value::as_str) {
                Some(command) => shell.run(command, report, &self.log).await,
                None => ToolResult::Failed("shell: `command` is missing".to_owned()),
            };
        }
        let args = self.keyed(&call.tool, call.args.clone());
        self.call_daemon(&call.tool, &args, report).await
    }

    /// Keeps what is too long to be read at once as a resource, and leaves its beginning and its id in place. Where the
    /// daemon keeps none, it stays as it is.
    async fn shorten(&self, call: &Call, result: ToolResult, report: &Report) -> ToolResult {
        let text = result.text();
        // Whoever reads a resource has asked for so much of it.
        if text.len() <= INLINE || [READ, KEEP].contains(&call.tool.as_str()) {
            return result;
        }
        let mut args = Map::new();
        args.insert("content".to_owned(), text.into());
        let args = self.keyed(KEEP, args);
        let kept = self.call_daemon(KEEP, &args, report).await;
        let kept: Option<Kept> =
            if kept.is_done() { serde_json::from_str(kept.text()).ok() } else { None };
        let Some(Kept { id }) = kept else { return result };
        let short = format!(
            "{}\n[{} bytes in all; read the rest with {READ}, id {id}]\n",
            start(text, PREVIEW),
            text.len()
        );
        match result {
            ToolResult::Done(_) => ToolResult::Done(short),
            ToolResult::Failed(_) => ToolResult::Failed(short),
        }
    }

    /// Adds the call's key: the same for the k-th equal call of every attempt.
    fn keyed(&self, tool: &str, mut args: Map<String, Value>) -> Map<String, Value> {
        if args.contains_key(KEY) {
            return args;
        }
        let value = Value::Object(args.clone());
        let same = hash(&[tool.as_bytes(), canonical(&value).as_bytes()]);
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let n = made.entry(same).or_insert(0);
        *n += 1;
        args.insert(KEY.to_owned(), Value::String(EffectKey::numbered(tool, &value, *n)));
        args
    }

    /// Asks the daemon, and while it is away again and again.
    async fn call_daemon(
        &self,
        tool: &str,
        args: &Map<String, Value>,
        report: &Report,
    ) -> ToolResult {
        let mut away_since = None;
        loop {
            let Ok(answer) = timeout(LONGEST_CALL, self.daemon.call(tool, args)).await else {
                let why =
                    format!("{tool}: no answer within a minute; it may or may not have happened");
                self.unserved.note(&why);
                return ToolResult::Failed(why);
            };
            let why = match answer {
                Ok(result) => return result,
                Err(CallError::Refused(why)) => {
                    return ToolResult::Failed(format!("{tool}: {why}"));
                }
                Err(CallError::Away(why)) => why,
            };
            let since = *away_since.get_or_insert_with(|| {
                report.record(WorkerEvent::Retry { why: format!("{tool}: {why}") });
                Instant::now()
            });
            if since.elapsed() >= HELD {
                let why = format!("{tool}: {why}; given up after {} s", HELD.as_secs());
                self.unserved.note(&why);
                return ToolResult::Failed(why);
            }
            sleep(BETWEEN_TRIES).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use agent_worker_host::Daemon;
    use agent_worker_protocol::AttemptId;

    use super::*;

    /// A call to whatever is at `daemon.sock` in `folder`, and how long it took on a virtual clock.
    async fn call(folder: &std::path::Path) -> (ToolResult, Duration) {
        let (result, took, done) = attempt(folder).await;
        let why = done.unwrap_err();
        assert_eq!(why.class, FailureClass::Transient);
        assert!(why.why.contains(result.text()), "{why:?}");
        (result, took)
    }

    /// The same, with the outcome of a turn that ends with `done` after that call.
    async fn attempt(folder: &std::path::Path) -> (ToolResult, Duration, Result<String, Failure>) {
        let daemon = Daemon::at(folder.join("daemon.sock"));
        let attempt = AttemptId::new(uuid::Uuid::nil());
        let report = Report::open(folder, attempt, daemon.clone(), HELD).unwrap();
        let tools = Toolbox::new(McpClient::new(daemon), None, Log::nowhere());
        let call = Call { id: "1".into(), tool: "vote".into(), args: Map::new() };
        let began = Instant::now();
        let result = tools.call(&call, &report).await;
        (result, began.elapsed(), tools.unserved().judge(Ok("done".to_owned())))
    }

    #[test]
    fn a_turn_ends_as_it_does_unless_a_call_was_not_carried_out() {
        let unserved = Unserved::default();
        let failed = Err(Failure::new(FailureClass::Fatal, "why"));
        assert_eq!(unserved.judge(Ok("done".to_owned())), Ok("done".to_owned()));
        unserved.note("vote: the disk is full");
        unserved.note("later");
        assert_eq!(unserved.judge(failed.clone()), failed);
        let why = "the daemon did not carry out a tool call: vote: the disk is full";
        let expected = Err(Failure::new(FailureClass::Transient, why));
        assert_eq!(unserved.judge(Ok("done".to_owned())), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_is_held_for_45_seconds_and_then_it_failed() {
        let folder = tempfile::tempdir().unwrap();
        let (result, took) = call(folder.path()).await;
        assert!(!result.is_done() && result.text().ends_with("given up after 45 s"), "{result:?}");
        assert!(took >= HELD && took < HELD + Duration::from_secs(1), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_never_answered_may_or_may_not_have_happened() {
        let folder = tempfile::tempdir().unwrap();
        let _deaf = tokio::net::UnixListener::bind(folder.path().join("daemon.sock")).unwrap();
        let (result, took) = call(folder.path()).await;
        assert!(result.text().ends_with("it may or may not have happened"), "{result:?}");
        assert_eq!(took.as_secs(), LONGEST_CALL.as_secs());
    }
}
