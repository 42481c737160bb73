//! The tools of an attempt: the daemon's, over MCP, the built-in ones, and the worker's own shell.
//!
//! Invariant: every call to the daemon carries a key, and repeating a call repeats its key. A lost reply or a
//! restart of the daemon therefore costs time, never a second effect.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use agent_worker_backends::{BuiltinEffect, builtin_tool};
use agent_worker_models::ToolDefinition;
use agent_worker_protocol::{
    EffectKey, FailureClass, Hash, Keyword as _, ResourceId, SHELL_TOOL, ToolName, WorkerEvent,
    canonical_json, hash, sync,
};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    builtin_tools::BuiltinTools,
    event_reporter::EventReporter,
    mcp_client::{DaemonCallError, McpClient},
    mock_tools::MockTools,
    model::{ModelToolCall, ToolResult},
    shell::Shell,
    truncation::truncate,
    turn::TurnFailure,
    worker_log::WorkerLog,
};

const IDEMPOTENCY_KEY_FIELD: &str = "idempotency_key";
/// A longer result becomes a resource; a preview of it stays in place.
const MAX_INLINE_RESULT_BYTES: usize = 32 * 1024;
const RESULT_PREVIEW_BYTES: usize = 2 * 1024;
const RESULT_TAIL_BYTES: usize = 4 * 1024;

/// Time to hold a call while the daemon is away or cannot store anything, and the interval of its retries.
const UNAVAILABLE_TIMEOUT: Duration = Duration::from_secs(45);
const CALL_RETRY_INTERVAL: Duration = Duration::from_millis(250);
/// Timeout of a call; no tool of the daemon takes longer than 50 s.
const TOOL_CALL_TIMEOUT: Duration = Duration::from_mins(1);

/// The effect of a tool, which decides if its calls may run in parallel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallEffect {
    /// The tool only reads.
    Read,
    /// The tool changes a state, or a later call of the same step may depend on it.
    Change,
}

/// The daemon's reply about a stored resource.
#[derive(Deserialize)]
struct ToolResultResource {
    id: ResourceId,
}

/// The tools of an attempt: their schemas, and calls to them. Clones share the numbering of the calls.
#[derive(Clone)]
pub(crate) struct ToolSet {
    daemon: McpClient,
    /// Present for scripts only: a program has a shell of its own or none, and a model has none.
    shell: Option<Shell>,
    /// Present for models behind an API.
    builtin: Option<BuiltinTools>,
    /// Replace the built-in tools of their names.
    mocks: Option<MockTools>,
    reporter: EventReporter,
    log: WorkerLog,
    /// Number of equal calls in this attempt, by tool and arguments.
    call_counts: Arc<Mutex<HashMap<Hash, u32>>>,
    /// The first call that the daemon failed to carry out for a reason of its own.
    unserved: UnservedCall,
}

/// The first call of an attempt that the daemon failed to carry out for a reason of its own. Clones share the
/// state.
///
/// Invariant: an attempt with such a call does not end `ok`. Its model read a failure that says nothing about the
/// work.
#[derive(Clone, Default)]
pub(crate) struct UnservedCall(Arc<Mutex<Option<String>>>);

impl UnservedCall {
    fn record_first(&self, why: &str) {
        sync::lock(&self.0).get_or_insert_with(|| why.to_owned());
    }

    /// Returns the outcome of a turn: an answer does not count if a call was not carried out. The next attempt
    /// repeats the turn.
    pub(crate) fn override_outcome<T>(
        &self,
        done: Result<T, TurnFailure>,
    ) -> Result<T, TurnFailure> {
        let why = sync::lock(&self.0).clone();
        match (done, why) {
            (Ok(_), Some(why)) => {
                let why = format!("the daemon did not carry out a tool call: {why}");
                Err(TurnFailure::new(FailureClass::Transient, why))
            }
            (done, _) => done,
        }
    }
}

impl ToolSet {
    pub(crate) fn new(daemon: McpClient, reporter: EventReporter, log: WorkerLog) -> Self {
        let (call_counts, unserved) = (Arc::default(), UnservedCall::default());
        Self {
            daemon,
            shell: None,
            builtin: None,
            mocks: None,
            reporter,
            log,
            call_counts,
            unserved,
        }
    }

    /// Adds the worker's own shell to the tools.
    pub(crate) fn with_shell(self, shell: Shell) -> Self {
        Self { shell: Some(shell), ..self }
    }

    /// Adds the built-in tools.
    pub(crate) fn with_builtin(self, builtin: BuiltinTools) -> Self {
        Self { builtin: Some(builtin), ..self }
    }

    /// Adds tools with scripted results.
    pub(crate) fn with_mocks(self, mocks: MockTools) -> Self {
        Self { mocks: Some(mocks), ..self }
    }

    /// Returns the definitions of the built-in tools and of the mock tools.
    pub(crate) fn own_definitions(&self) -> Vec<ToolDefinition> {
        let builtin = self.builtin.as_ref().map(BuiltinTools::definitions).unwrap_or_default();
        builtin.into_iter().chain(self.mocks.iter().flat_map(MockTools::definitions)).collect()
    }

    /// Returns the effect of a tool. A tool that is not known may change anything.
    pub(crate) fn effect(tool: &str) -> CallEffect {
        if let Some(row) = builtin_tool(tool) {
            return match row.effect {
                BuiltinEffect::Reads | BuiltinEffect::Fetches => CallEffect::Read,
                BuiltinEffect::Edits | BuiltinEffect::Runs | BuiltinEffect::Follows => {
                    CallEffect::Change
                }
            };
        }
        match ToolName::find(tool) {
            Some(ToolName::InboxCheck | ToolName::InboxAck | ToolName::FeedbackSubmit) | None => {
                CallEffect::Change
            }
            Some(tool) if tool.writes() => CallEffect::Change,
            Some(_) => CallEffect::Read,
        }
    }

    /// Returns the record of calls that the daemon failed to carry out.
    pub(crate) fn unserved(&self) -> UnservedCall {
        self.unserved.clone()
    }

    /// Carries out a call, with an event before and after. Every error becomes the result, which the model reads.
    pub(crate) async fn call(&self, call: &ModelToolCall) -> ToolResult {
        let began = Instant::now();
        self.log.log_tool_call(call);
        self.reporter.record_tool_call(&call.id, &call.tool, Value::Object(call.args.clone()));
        let result = self.execute_call(call).await;
        // The history has the whole result, and the model its beginning.
        self.reporter.record_tool_result(&call.id, &call.tool, &result);
        let result = self.store_long_result(call, result).await;
        self.log.log_tool_result(call, &result, began.elapsed());
        result
    }

    /// Returns the schemas of the daemon's tools. Retries while the daemon is away.
    pub(crate) async fn schemas(&self) -> Result<Vec<Value>, String> {
        let began = Instant::now();
        loop {
            match self.daemon.list_tools().await {
                Ok(tools) => return Ok(tools),
                Err(DaemonCallError::Unavailable(why))
                    if began.elapsed() >= UNAVAILABLE_TIMEOUT =>
                {
                    return Err(why);
                }
                Err(DaemonCallError::Unavailable(_)) => sleep(CALL_RETRY_INTERVAL).await,
                Err(DaemonCallError::Refused(why)) => return Err(why),
            }
        }
    }

    async fn execute_call(&self, call: &ModelToolCall) -> ToolResult {
        if let Some(shell) = self.shell.as_ref().filter(|_| call.tool == SHELL_TOOL) {
            return match call.args.get("command").and_then(Value::as_str) {
                Some(command) => shell.run(command, &self.reporter, &self.log).await,
                None => ToolResult::Failed("shell: `command` is missing".to_owned()),
            };
        }
        if let Some(mocks) = &self.mocks
            && let Some(result) = mocks.call(call).await
        {
            return result;
        }
        if let Some(builtin) = &self.builtin
            && let Some(result) = builtin.call(call).await
        {
            return result;
        }
        let args = self.with_idempotency_key(&call.tool, call.args.clone());
        self.call_daemon(&call.tool, &args).await
    }

    /// Stores a text as a resource, and returns its id. The error is the reason of a refusal.
    pub(crate) async fn store_text(
        &self,
        text: &str,
        media_type: Option<&str>,
    ) -> Result<ResourceId, String> {
        let mut args = Map::from_iter([("content".to_owned(), text.into())]);
        if let Some(media_type) = media_type {
            args.insert("type".to_owned(), media_type.into());
        }
        let args = self.with_idempotency_key(ToolName::ResourceCreate.word(), args);
        let kept = self.call_daemon(ToolName::ResourceCreate.word(), &args).await;
        if !kept.is_done() {
            return Err(kept.text().to_owned());
        }
        let kept: Result<ToolResultResource, _> = serde_json::from_str(kept.text());
        kept.map(|kept| kept.id).map_err(|error| error.to_string())
    }

    /// Stores a long result as a resource, and leaves its beginning and its id in place. If the daemon does not
    /// store it, the result stays unchanged.
    async fn store_long_result(&self, call: &ModelToolCall, result: ToolResult) -> ToolResult {
        let text = result.text();
        // A model that reads a resource has requested that much of it.
        if text.len() <= MAX_INLINE_RESULT_BYTES
            || [ToolName::ResourceRead.word(), ToolName::ResourceCreate.word()]
                .contains(&call.tool.as_str())
        {
            return result;
        }
        let text = &self.reporter.redact(text);
        let Ok(id) = self.store_text(text, None).await else { return result };
        let short = format!(
            "{}\n[{} bytes in all; read the rest with {}, id {id}]\n",
            result_preview(text),
            text.len(),
            ToolName::ResourceRead,
        );
        match result {
            ToolResult::Done(_) => ToolResult::Done(short),
            ToolResult::Image(_, image) => ToolResult::Image(short, image),
            ToolResult::Failed(_) => ToolResult::Failed(short),
        }
    }

    /// Adds the idempotency key of the call, which is the same for the k-th equal call of every attempt.
    fn with_idempotency_key(&self, tool: &str, mut args: Map<String, Value>) -> Map<String, Value> {
        if args.contains_key(IDEMPOTENCY_KEY_FIELD) {
            return args;
        }
        let value = Value::Object(args.clone());
        let same = hash(&[tool.as_bytes(), canonical_json(&value).as_bytes()]);
        let mut made = sync::lock(&self.call_counts);
        let n = made.entry(same).or_insert(0);
        *n += 1;
        args.insert(
            IDEMPOTENCY_KEY_FIELD.to_owned(),
            Value::String(EffectKey::nth_call_key(tool, &value, *n)),
        );
        args
    }

    /// Calls the daemon, and retries while the daemon is away.
    async fn call_daemon(&self, tool: &str, args: &Map<String, Value>) -> ToolResult {
        let mut away_since = None;
        loop {
            let Ok(answer) = timeout(TOOL_CALL_TIMEOUT, self.daemon.call(tool, args)).await else {
                let why = format!(
                    "{tool}: no answer within a minute; the call may or may not have taken effect"
                );
                self.unserved.record_first(&why);
                return ToolResult::Failed(why);
            };
            let why = match answer {
                Ok(result) => return result,
                Err(DaemonCallError::Refused(why)) => {
                    // The daemon's own message begins with the tool; a reader of the result knows it.
                    let why = why.strip_prefix(&format!("{tool}: ")).unwrap_or(&why);
                    return ToolResult::Failed(why.to_owned());
                }
                Err(DaemonCallError::Unavailable(why)) => why,
            };
            let since = *away_since.get_or_insert_with(|| {
                self.reporter.record(WorkerEvent::Retry { why: format!("{tool}: {why}") });
                Instant::now()
            });
            if since.elapsed() >= UNAVAILABLE_TIMEOUT {
                let why =
                    format!("{tool}: {why}; gave up after {} s", UNAVAILABLE_TIMEOUT.as_secs());
                self.unserved.record_first(&why);
                return ToolResult::Failed(why);
            }
            sleep(CALL_RETRY_INTERVAL).await;
        }
    }
}

/// Returns the beginning and the end of a long result: a command reports its failure at the end.
fn result_preview(text: &str) -> String {
    let tail = &text[text.ceil_char_boundary(text.len().saturating_sub(RESULT_TAIL_BYTES))..];
    let head = truncate(text, RESULT_PREVIEW_BYTES);
    format!("{head}\n[…]\n{tail}")
}

#[cfg(test)]
mod tests {
    use agent_worker_host::DaemonSocket;
    use agent_worker_protocol::AttemptId;

    use super::*;
    use crate::turn_history::TurnHistory;

    /// Calls the server at `daemon.sock` in `folder`, and returns the duration on a virtual clock.
    async fn call(folder: &std::path::Path) -> (ToolResult, Duration) {
        let (result, took, done) = attempt(folder).await;
        let why = done.unwrap_err();
        assert_eq!(why.class, FailureClass::Transient);
        assert!(why.why.contains(result.text()), "{why:?}");
        (result, took)
    }

    /// Returns the same, and the outcome of a turn that ends with `done` after that call.
    async fn attempt(
        folder: &std::path::Path,
    ) -> (ToolResult, Duration, Result<String, TurnFailure>) {
        let daemon = DaemonSocket::at(folder.join("daemon.sock"));
        let attempt = AttemptId::new(uuid::Uuid::nil());
        let report = EventReporter::open(
            folder,
            attempt,
            daemon.clone(),
            UNAVAILABLE_TIMEOUT,
            TurnHistory::default(),
        )
        .unwrap();
        let tools = ToolSet::new(McpClient::new(daemon), report, WorkerLog::discarding());
        let call = ModelToolCall { id: "1".into(), tool: "vote".into(), args: Map::new() };
        let began = Instant::now();
        let result = tools.call(&call).await;
        (result, began.elapsed(), tools.unserved().override_outcome(Ok("done".to_owned())))
    }

    #[test]
    fn a_turn_ends_as_it_does_unless_a_call_was_not_carried_out() {
        let unserved = UnservedCall::default();
        let failed: Result<String, _> = Err(TurnFailure::new(FailureClass::Fatal, "why"));
        assert_eq!(unserved.override_outcome(Ok("done".to_owned())), Ok("done".to_owned()));
        unserved.record_first("vote: the disk is full");
        unserved.record_first("later");
        assert_eq!(unserved.override_outcome(failed.clone()), failed);
        let why = "the daemon did not carry out a tool call: vote: the disk is full";
        let expected = Err(TurnFailure::new(FailureClass::Transient, why));
        assert_eq!(unserved.override_outcome(Ok("done".to_owned())), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_is_held_for_45_seconds_and_then_it_failed() {
        let folder = tempfile::tempdir().unwrap();
        let (result, took) = call(folder.path()).await;
        assert!(!result.is_done() && result.text().ends_with("gave up after 45 s"), "{result:?}");
        assert!(
            took >= UNAVAILABLE_TIMEOUT && took < UNAVAILABLE_TIMEOUT + Duration::from_secs(1),
            "{took:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_never_answered_may_or_may_not_have_happened() {
        let folder = tempfile::tempdir().unwrap();
        let _listener = tokio::net::UnixListener::bind(folder.path().join("daemon.sock")).unwrap();
        let (result, took) = call(folder.path()).await;
        assert!(result.text().ends_with("the call may or may not have taken effect"), "{result:?}");
        assert_eq!(took.as_secs(), TOOL_CALL_TIMEOUT.as_secs());
    }
}
