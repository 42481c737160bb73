//! A daemon that says what it is told to say, and remembers what it heard.

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

/// One request, as it was heard.
#[derive(Clone, Debug)]
pub(crate) enum ReceivedRequest {
    Events(EventsRequest),
    Call { tool: String, args: Value, head: String },
}

/// What a question about tools is heard as.
pub(crate) const LIST_TOOLS: &str = "tools/list";

/// What a question whether a call may happen is heard as.
pub(crate) const PERMIT_CALL: &str = "permit";

/// What is done with a request.
#[derive(Clone, Debug)]
pub(crate) enum ScriptedReply {
    /// Done and answered.
    Accept,
    /// Done, answered, and the worker is to stop.
    Stop,
    /// Done, and the answer is lost.
    LoseReply,
    /// Not done.
    Refuse(Code),
    /// Done, answered with this tool result.
    Result(Value),
    /// Done; the answer comes never.
    Hang,
}

type ReplyScript = Box<dyn FnMut(&ReceivedRequest) -> ScriptedReply + Send>;

struct StubDaemonState {
    script: Mutex<ReplyScript>,
    requests: watch::Sender<Vec<ReceivedRequest>>,
    stored: Mutex<i64>,
}

/// The daemon. Its folder outlives its being there.
pub(crate) struct StubDaemon {
    pub(crate) folder: TempDir,
    inner: Arc<StubDaemonState>,
    task: Option<AbortOnDropHandle<()>>,
}

impl StubDaemon {
    /// A daemon that answers each request as `script` says.
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

    /// One that does whatever it is asked.
    pub(crate) fn accepting() -> Self {
        Self::new(|_| ScriptedReply::Accept)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("daemon.sock")
    }

    /// It is killed: its connections break, its socket stays.
    pub(crate) async fn kill(&mut self) {
        let task = self.task.take().unwrap();
        task.abort();
        let _ = task.await;
    }

    /// It is there, again.
    pub(crate) fn start(&mut self) {
        let _ = std::fs::remove_file(self.socket());
        let listener = UnixListener::bind(self.socket()).unwrap();
        let serve = serve(listener, self.inner.clone());
        self.task = Some(AbortOnDropHandle::new(TaskTracker::new().spawn(serve)));
    }

    /// It answers otherwise from now on.
    pub(crate) fn set_script(
        &self,
        script: impl FnMut(&ReceivedRequest) -> ScriptedReply + Send + 'static,
    ) {
        *self.inner.script.lock().unwrap() = Box::new(script);
    }

    /// Waits until what was heard satisfies `enough`.
    pub(crate) async fn wait_until(&self, enough: impl FnMut(&Vec<ReceivedRequest>) -> bool) {
        let mut heard = self.inner.requests.subscribe();
        let waited = timeout(TEST_TIMEOUT, heard.wait_for(enough)).await;
        assert!(waited.is_ok(), "waited in vain; heard so far: {:#?}", self.requests());
    }

    pub(crate) fn requests(&self) -> Vec<ReceivedRequest> {
        self.inner.requests.borrow().clone()
    }

    /// Every event that was posted, as often as it was.
    pub(crate) fn posted_events(&self) -> Vec<NumberedEvent> {
        let heard = self.requests().into_iter().flat_map(|heard| match heard {
            ReceivedRequest::Events(request) => request.events,
            ReceivedRequest::Call { .. } => Vec::new(),
        });
        heard.collect()
    }

    /// The tool calls that came in: name and arguments.
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
    // Dropped with this task, and with it every connection.
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
    /// Does what a daemon does, and says what it answers, if it does.
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
    assert!(head.starts_with("POST /mcp "), "{head}");
    let call: Value = serde_json::from_slice(body).unwrap();
    // A question about tools has no name.
    let tool = call["params"]["name"].as_str().or(call["method"].as_str()).unwrap().to_owned();
    ReceivedRequest::Call { tool, args: call["params"]["arguments"].clone(), head }
}

/// Head and body of the next request; none when the other side is done.
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
