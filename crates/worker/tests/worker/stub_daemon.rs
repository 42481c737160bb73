//! A stub daemon with scripted replies and a record of all requests.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use agent_worker_protocol::{
    Code, EventsReply, EventsRequest, NumberedEvent, Order, Problem, WorkerEvent,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{UnixListener, UnixStream},
    sync::watch,
    time::timeout,
};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// One received request.
#[derive(Clone, Debug)]
pub(crate) enum ReceivedRequest {
    Events(EventsRequest),
    Call { tool: String, args: Value, head: String },
}

/// Name under which a request for the tool list is recorded.
pub(crate) const LIST_TOOLS: &str = "tools/list";

/// Name under which a permission request is recorded.
pub(crate) const PERMIT_CALL: &str = "permit";

/// Name under which a read of a resource is recorded.
pub(crate) const READ_RESOURCE: &str = "resource";

/// The reaction to a request.
#[derive(Clone, Debug)]
pub(crate) enum ScriptedReply {
    /// Carries it out and replies.
    Accept,
    /// Carries it out, replies, and orders the worker to stop.
    Stop,
    /// Carries it out and loses the reply.
    LoseReply,
    /// Refuses it with this code.
    Refuse(Code),
    /// Carries it out and replies with this tool result.
    Result(Value),
    /// Carries it out and never replies.
    Hang,
}

type ReplyScript = Box<dyn FnMut(&ReceivedRequest) -> ScriptedReply + Send>;

struct StubDaemonState {
    script: Mutex<ReplyScript>,
    requests: watch::Sender<Vec<ReceivedRequest>>,
    stored: Mutex<i64>,
}

/// The stub daemon. Its folder persists while the daemon is not running.
pub(crate) struct StubDaemon {
    pub(crate) folder: TempDir,
    inner: Arc<StubDaemonState>,
    task: Option<AbortOnDropHandle<()>>,
}

impl StubDaemon {
    /// Returns a daemon that answers each request by `script`.
    pub(crate) fn new(
        script: impl FnMut(&ReceivedRequest) -> ScriptedReply + Send + 'static,
    ) -> Self {
        let inner = StubDaemonState {
            script: Mutex::new(Box::new(script)),
            requests: watch::Sender::default(),
            stored: Mutex::new(0),
        };
        let folder = tempfile::tempdir().unwrap();
        let mut daemon = Self { folder, inner: Arc::new(inner), task: None };
        daemon.start();
        daemon
    }

    /// Returns a daemon that accepts every request.
    pub(crate) fn accepting() -> Self {
        Self::new(|_| ScriptedReply::Accept)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("daemon.sock")
    }

    /// Kills the daemon: its connections break, its socket file stays.
    pub(crate) async fn kill(&mut self) {
        let task = self.task.take().unwrap();
        task.abort();
        let _ = task.await;
    }

    /// Starts the daemon, possibly again.
    pub(crate) fn start(&mut self) {
        let _ = std::fs::remove_file(self.socket());
        let listener = UnixListener::bind(self.socket()).unwrap();
        let serve = serve(listener, self.inner.clone());
        self.task = Some(AbortOnDropHandle::new(TaskTracker::new().spawn(serve)));
    }

    /// Replaces the script from now on.
    pub(crate) fn set_script(
        &self,
        script: impl FnMut(&ReceivedRequest) -> ScriptedReply + Send + 'static,
    ) {
        *self.inner.script.lock().unwrap() = Box::new(script);
    }

    /// Waits until the received requests satisfy `enough`.
    pub(crate) async fn wait_until(&self, enough: impl FnMut(&Vec<ReceivedRequest>) -> bool) {
        let mut heard = self.inner.requests.subscribe();
        let waited = timeout(TEST_TIMEOUT, heard.wait_for(enough)).await;
        assert!(waited.is_ok(), "waited in vain; heard so far: {:#?}", self.requests());
    }

    pub(crate) fn requests(&self) -> Vec<ReceivedRequest> {
        self.inner.requests.borrow().clone()
    }

    /// Returns every posted event, with repetitions.
    pub(crate) fn posted_events(&self) -> Vec<NumberedEvent> {
        let heard = self.requests().into_iter().flat_map(|heard| match heard {
            ReceivedRequest::Events(request) => request.events,
            ReceivedRequest::Call { .. } => Vec::new(),
        });
        heard.collect()
    }

    /// Returns the received tool calls: name and arguments.
    pub(crate) fn tool_calls(&self) -> Vec<(String, Value)> {
        let heard = self.requests().into_iter().filter_map(|heard| match heard {
            ReceivedRequest::Events(_) => None,
            ReceivedRequest::Call { tool, args, .. } => Some((tool, args)),
        });
        heard.collect()
    }
}

impl ReceivedRequest {
    pub(crate) fn has_event(&self, wanted: impl Fn(&WorkerEvent) -> bool) -> bool {
        match self {
            Self::Events(request) => request.events.iter().any(|event| wanted(&event.event)),
            Self::Call { .. } => false,
        }
    }
}

async fn serve(listener: UnixListener, inner: Arc<StubDaemonState>) {
    // Dropping this task drops every connection.
    let mut connections = Vec::new();
    let tracker = TaskTracker::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        connections
            .push(AbortOnDropHandle::new(tracker.spawn(serve_connection(stream, inner.clone()))));
    }
}

async fn serve_connection(mut stream: UnixStream, inner: Arc<StubDaemonState>) {
    while let Some((head, body)) = read_request(&mut stream).await {
        let heard = parse_request(head, &body);
        let answer = (inner.script.lock().unwrap())(&heard);
        let reply = inner.respond(&heard, &answer);
        inner.requests.send_modify(|all| all.push(heard));
        match reply {
            Some((status, body)) => {
                let body = body.to_string();
                let status = format!(
                    "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                    body.len()
                );
                stream.write_all((status + &body).as_bytes()).await.unwrap();
            }
            None if matches!(answer, ScriptedReply::Hang) => std::future::pending().await,
            None => return,
        }
    }
}

impl StubDaemonState {
    /// Reacts as a daemon does, and returns the reply, if there is one.
    fn respond(&self, heard: &ReceivedRequest, answer: &ScriptedReply) -> Option<(u16, Value)> {
        if let ScriptedReply::Refuse(code) = answer {
            let problem = Problem::new(*code, "scripted").into_body(None);
            return Some((code.status(), serde_json::to_value(problem).unwrap()));
        }
        let reply = match heard {
            ReceivedRequest::Events(request) => {
                let mut stored = self.stored.lock().unwrap();
                for event in &request.events {
                    assert!(event.no <= *stored + 1, "a gap before {event:?}");
                    *stored = event.no.max(*stored);
                }
                let is_stop = matches!(answer, ScriptedReply::Stop);
                let order = if is_stop { Order::Stop } else { Order::Continue };
                serde_json::to_value(EventsReply { stored: *stored, order }).unwrap()
            }
            ReceivedRequest::Call { tool, .. } if tool == LIST_TOOLS => {
                let tools =
                    json!([{"name": "channel_send", "inputSchema": {}, "outputSchema": {}}]);
                json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": tools}})
            }
            ReceivedRequest::Call { tool, .. } if tool == READ_RESOURCE => match answer {
                ScriptedReply::Result(part) => part.clone(),
                _ => Value::Null,
            },
            ReceivedRequest::Call { tool, .. } if tool == PERMIT_CALL => match answer {
                ScriptedReply::Result(reply) => reply.clone(),
                _ => json!({"permit": "allow"}),
            },
            ReceivedRequest::Call { tool, .. } => {
                let content =
                    json!({"content": [{"type": "text", "text": format!("{tool} done")}]});
                let result = if let ScriptedReply::Result(result) = answer {
                    result.clone()
                } else {
                    content
                };
                json!({"jsonrpc": "2.0", "id": 1, "result": result})
            }
        };
        match answer {
            ScriptedReply::LoseReply | ScriptedReply::Hang => None,
            _ => Some((200, reply)),
        }
    }
}

fn parse_request(head: String, body: &[u8]) -> ReceivedRequest {
    if head.starts_with("POST /attempts/") && head.contains("/approvals ") {
        let args = serde_json::from_slice(body).unwrap();
        return ReceivedRequest::Call { tool: PERMIT_CALL.to_owned(), args, head };
    }
    if head.starts_with("POST /attempts/") {
        return ReceivedRequest::Events(serde_json::from_slice(body).unwrap());
    }
    if head.starts_with("GET /resources/") {
        return ReceivedRequest::Call { tool: READ_RESOURCE.to_owned(), args: Value::Null, head };
    }
    assert!(head.starts_with("POST /mcp "), "{head}");
    let call: Value = serde_json::from_slice(body).unwrap();
    // A request for the tool list has no tool name.
    let tool = call["params"]["name"].as_str().or(call["method"].as_str()).unwrap().to_owned();
    ReceivedRequest::Call { tool, args: call["params"]["arguments"].clone(), head }
}

/// Returns head and body of the next request; `None` if the peer has closed the connection.
async fn read_request(stream: &mut UnixStream) -> Option<(String, Vec<u8>)> {
    let mut seen = Vec::new();
    let mut chunk = vec![0; 64 * 1024];
    loop {
        if let Some(end) = seen.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&seen[..end]).into_owned();
            let length = head
                .lines()
                .filter_map(|line| line.split_once(": "))
                .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
                .map_or(0, |(_, length)| length.parse().unwrap());
            if seen.len() >= end + 4 + length {
                return Some((head, seen[end + 4..].to_vec()));
            }
        }
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return None,
            Ok(n) => seen.extend_from_slice(&chunk[..n]),
        }
    }
}
