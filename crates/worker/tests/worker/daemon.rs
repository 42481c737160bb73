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

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// One request, as it was heard.
#[derive(Clone, Debug)]
pub(crate) enum Heard {
    Events(EventsRequest),
    Call { tool: String, args: Value, head: String },
}

/// What a question about tools is heard as.
pub(crate) const LIST: &str = "tools/list";

/// What a question whether a call may happen is heard as.
pub(crate) const PERMIT: &str = "permit";

/// What is done with a request.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// Done and answered.
    Yes,
    /// Done, answered, and the worker is to stop.
    Stop,
    /// Done, and the answer is lost.
    Lost,
    /// Not done.
    No(Code),
    /// Done, answered with this tool result.
    Result(Value),
    /// Done; the answer comes never.
    Never,
}

type Script = Box<dyn FnMut(&Heard) -> Answer + Send>;

struct Inner {
    script: Mutex<Script>,
    heard: watch::Sender<Vec<Heard>>,
    stored: Mutex<i64>,
}

/// The daemon. Its folder outlives its being there.
pub(crate) struct Daemon {
    pub(crate) folder: TempDir,
    inner: Arc<Inner>,
    task: Option<AbortOnDropHandle<()>>,
}

impl Daemon {
    /// A daemon that answers each request as `script` says.
    pub(crate) fn new(script: impl FnMut(&Heard) -> Answer + Send + 'static) -> Self {
        let inner = Inner {
            script: Mutex::new(Box::new(script)),
            heard: watch::Sender::default(),
            stored: Mutex::new(0),
        };
        let folder = tempfile::tempdir().unwrap();
        let mut daemon = Self { folder, inner: Arc::new(inner), task: None };
        daemon.come();
        daemon
    }

    /// One that does whatever it is asked.
    pub(crate) fn willing() -> Self {
        Self::new(|_| Answer::Yes)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("daemon.sock")
    }

    /// It is killed: its connections break, its socket stays.
    pub(crate) async fn go(&mut self) {
        let task = self.task.take().unwrap();
        task.abort();
        let _ = task.await;
    }

    /// It is there, again.
    pub(crate) fn come(&mut self) {
        let _ = std::fs::remove_file(self.socket());
        let listener = UnixListener::bind(self.socket()).unwrap();
        let serve = serve(listener, self.inner.clone());
        self.task = Some(AbortOnDropHandle::new(TaskTracker::new().spawn(serve)));
    }

    /// It answers otherwise from now on.
    pub(crate) fn answer(&self, script: impl FnMut(&Heard) -> Answer + Send + 'static) {
        *self.inner.script.lock().unwrap() = Box::new(script);
    }

    /// Waits until what was heard satisfies `enough`.
    pub(crate) async fn until(&self, enough: impl FnMut(&Vec<Heard>) -> bool) {
        let mut heard = self.inner.heard.subscribe();
        let waited = timeout(PATIENCE, heard.wait_for(enough)).await;
        assert!(waited.is_ok(), "waited in vain; heard so far: {:#?}", self.heard());
    }

    pub(crate) fn heard(&self) -> Vec<Heard> {
        self.inner.heard.borrow().clone()
    }

    /// Every event that was posted, as often as it was.
    pub(crate) fn posted(&self) -> Vec<NumberedEvent> {
        let heard = self.heard().into_iter().flat_map(|heard| match heard {
            Heard::Events(request) => request.events,
            Heard::Call { .. } => Vec::new(),
        });
        heard.collect()
    }

    /// The tool calls that came in: name and arguments.
    pub(crate) fn calls(&self) -> Vec<(String, Value)> {
        let heard = self.heard().into_iter().filter_map(|heard| match heard {
            Heard::Events(_) => None,
            Heard::Call { tool, args, .. } => Some((tool, args)),
        });
        heard.collect()
    }
}

impl Heard {
    pub(crate) fn has(&self, wanted: impl Fn(&WorkerEvent) -> bool) -> bool {
        match self {
            Self::Events(request) => request.events.iter().any(|event| wanted(&event.event)),
            Self::Call { .. } => false,
        }
    }
}

async fn serve(listener: UnixListener, inner: Arc<Inner>) {
    // Dropped with this task, and with it every connection.
    let mut connections = Vec::new();
    let tracker = TaskTracker::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        connections.push(AbortOnDropHandle::new(tracker.spawn(converse(stream, inner.clone()))));
    }
}

async fn converse(mut stream: UnixStream, inner: Arc<Inner>) {
    while let Some((head, body)) = read_request(&mut stream).await {
        let heard = understand(head, &body);
        let answer = (inner.script.lock().unwrap())(&heard);
        let reply = inner.act(&heard, &answer);
        inner.heard.send_modify(|all| all.push(heard));
        match reply {
            Some((status, body)) => {
                let body = body.to_string();
                let status = format!(
                    "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                    body.len()
                );
                stream.write_all((status + &body).as_bytes()).await.unwrap();
            }
            None if matches!(answer, Answer::Never) => std::future::pending().await,
            None => return,
        }
    }
}

impl Inner {
    /// Does what a daemon does, and says what it answers, if it does.
    fn act(&self, heard: &Heard, answer: &Answer) -> Option<(u16, Value)> {
        if let Answer::No(code) = answer {
            let problem = Problem::new(*code, "scripted");
            return Some((code.status(), serde_json::to_value(problem).unwrap()));
        }
        let reply = match heard {
            Heard::Events(request) => {
                let mut stored = self.stored.lock().unwrap();
                for event in &request.events {
                    assert!(event.no <= *stored + 1, "a gap before {event:?}");
                    *stored = event.no.max(*stored);
                }
                let is_stop = matches!(answer, Answer::Stop);
                let order = if is_stop { Order::Stop } else { Order::Continue };
                serde_json::to_value(EventsReply { stored: *stored, order }).unwrap()
            }
            Heard::Call { tool, .. } if tool == LIST => {
                let tools =
                    json!([{"name": "channel_send", "inputSchema": {}, "outputSchema": {}}]);
                json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": tools}})
            }
            Heard::Call { tool, .. } if tool == PERMIT => match answer {
                Answer::Result(reply) => reply.clone(),
                _ => json!({"permit": "allow"}),
            },
            Heard::Call { tool, .. } => {
                let content =
                    json!({"content": [{"type": "text", "text": format!("{tool} done")}]});
                let result =
                    if let Answer::Result(result) = answer { result.clone() } else { content };
                json!({"jsonrpc": "2.0", "id": 1, "result": result})
            }
        };
        match answer {
            Answer::Lost | Answer::Never => None,
            _ => Some((200, reply)),
        }
    }
}

fn understand(head: String, body: &[u8]) -> Heard {
    if head.starts_with("POST /attempts/") && head.contains("/approvals ") {
        let args = serde_json::from_slice(body).unwrap();
        return Heard::Call { tool: PERMIT.to_owned(), args, head };
    }
    if head.starts_with("POST /attempts/") {
        return Heard::Events(serde_json::from_slice(body).unwrap());
    }
    assert!(head.starts_with("POST /mcp "), "{head}");
    let call: Value = serde_json::from_slice(body).unwrap();
    // A question about tools has no name.
    let tool = call["params"]["name"].as_str().or(call["method"].as_str()).unwrap().to_owned();
    Heard::Call { tool, args: call["params"]["arguments"].clone(), head }
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
