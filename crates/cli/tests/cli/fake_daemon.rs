//! A daemon with scripted replies on a real socket, which records its requests.

use std::{
    collections::VecDeque,
    future::Future as _,
    io::{self, Write},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    pin::Pin,
    process::ExitCode,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use agent_worker_cli::{CliInvocation, CliSettings, Console, parse, run};
use axum::{
    body::{Body, to_bytes},
    extract::{Request, State},
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use futures_core::Stream;
use serde_json::{Value, json};
use tokio::{
    net::UnixListener,
    runtime::Runtime,
    time::{Sleep, sleep},
};

/// Maximum number of requests, more than any test needs: a command that polls forever fails instead of hanging.
const MAX_REQUESTS: usize = 30;

/// The scripted reply to one request.
#[derive(Clone)]
pub(crate) enum FakeReply {
    Json(Value),
    Refusal(Value),
    /// Events, the first with id 1, and the behaviour of the connection after them.
    Events(Vec<Value>, AfterEvents),
}

#[derive(Clone, Copy)]
pub(crate) enum AfterEvents {
    Close,
    Break,
    /// The daemon leaves in good order after a request for receipts.
    Leave,
    /// The connection stays open as long as any test needs.
    Hang,
}

/// Request lines such as `GET /path` and their replies; several replies to one request are given once each, the last
/// one forever.
type Script = Vec<(&'static str, FakeReply)>;

/// One recorded request.
#[derive(Clone, Debug)]
pub(crate) struct RecordedRequest {
    pub(crate) line: String,
    pub(crate) query: String,
    pub(crate) last_event_id: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) body: Value,
}

#[derive(Clone)]
struct FakeDaemonState {
    script: Arc<Mutex<Script>>,
    asked: Arc<Mutex<Vec<RecordedRequest>>>,
    socket: PathBuf,
}

/// A home for one test, with or without a daemon in it.
pub(crate) struct TestHome {
    folder: tempfile::TempDir,
    asked: Arc<Mutex<Vec<RecordedRequest>>>,
    pub(crate) settings: CliSettings,
    runtime: Runtime,
}

/// The output of a command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: ExitCode,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl TestHome {
    /// Creates a home without a daemon, and a program that would be started as one.
    pub(crate) fn without_daemon(program: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (home, project) = (folder.path().join("home"), folder.path().join("project"));
        std::fs::create_dir(&project).unwrap();
        let exe = folder.path().join("agent-worker");
        std::fs::write(&exe, format!("#!/bin/sh\n{program}\n")).unwrap();
        std::fs::set_permissions(&exe, std::fs::Permissions::from_mode(0o755)).unwrap();
        let env = [("PATH", "/usr/bin:/bin"), ("HOME", "/nowhere"), ("SECRET_KEY", "do not send")];
        let settings = CliSettings {
            home,
            cwd: project.canonicalize().unwrap(),
            env: env.map(|(name, value)| (name.into(), value.into())).into(),
            inside_attempt: false,
            exe,
            config_flag: None,
        };
        let runtime = Runtime::new().unwrap();
        Self { folder, asked: Arc::default(), settings, runtime }
    }

    /// Creates the files that a dead daemon leaves in the home.
    pub(crate) fn leave_daemon_files(&self) {
        std::fs::create_dir(&self.settings.home).unwrap();
        let mode = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(&self.settings.home, mode).unwrap();
        std::fs::write(self.settings.home.join("agent-worker.db"), "").unwrap();
    }

    /// Creates a home with a daemon of our version.
    pub(crate) fn with_daemon(script: Script) -> Self {
        Self::with_daemon_of_version(env!("CARGO_PKG_VERSION"), script)
    }

    pub(crate) fn with_daemon_of_version(version: &str, script: Script) -> Self {
        let world = Self::without_daemon("exit 1");
        std::fs::create_dir(&world.settings.home).unwrap();
        let mode = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(&world.settings.home, mode).unwrap();
        world.listen(version, script);
        world
    }

    /// Starts to answer requests.
    pub(crate) fn listen(&self, version: &str, mut script: Script) {
        script.push(("GET /health", FakeReply::Json(json!({"status": "ok", "version": version}))));
        if script.iter().all(|(line, _)| *line != "GET /workflows") {
            script.push(("GET /workflows", FakeReply::Json(json!({"items": [], "next": null}))));
        }
        let socket = self.settings.home.join("daemon.sock");
        let _guard = self.runtime.enter();
        let listener = UnixListener::bind(&socket).unwrap();
        let shared = FakeDaemonState {
            script: Arc::new(Mutex::new(script)),
            asked: self.asked.clone(),
            socket,
        };
        let router = axum::Router::new().fallback(answer).with_state(shared);
        self.runtime.spawn(async move { axum::serve(listener, router).await });
    }

    /// Writes a file into the project.
    pub(crate) fn file(&self, name: &str, text: &str) {
        std::fs::write(self.settings.cwd.join(name), text).unwrap();
    }

    /// Returns a path in this test's own folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs `agent-worker` with these arguments.
    pub(crate) fn run_command(&self, words: &[&str]) -> CommandOutput {
        let (out, err) = (CapturedStream::default(), CapturedStream::default());
        let mut console = Console::for_programs(Box::new(out.clone()), Box::new(err.clone()));
        let code = self.run_with_console(words, &mut console);
        CommandOutput { code, out: out.text(), err: err.text() }
    }

    /// Runs a command with the given console.
    pub(crate) fn run_with_console(&self, words: &[&str], console: &mut Console) -> ExitCode {
        let words = ["agent-worker"].iter().chain(words).map(Into::into);
        match parse(words, console) {
            Ok(CliInvocation::Command(command)) => run(command, &self.settings, console),
            Ok(other) => panic!("not a command: {other:?}"),
            Err(code) => code,
        }
    }

    /// Returns the requests with this line, in order.
    pub(crate) fn asked(&self, line: &str) -> Vec<RecordedRequest> {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|asked| asked.line == line).cloned().collect()
    }

    /// Returns every request's line, in order.
    pub(crate) fn order(&self) -> Vec<String> {
        self.asked.lock().unwrap().iter().map(|asked| asked.line.clone()).collect()
    }

    /// Replaces this test's own folders in a text by a fixed name.
    pub(crate) fn redact_paths(&self, text: &str) -> String {
        let folder = self.folder.path().canonicalize().unwrap();
        let replace = |text: &str, path: &Path| text.replace(path.to_str().unwrap(), "/tmp");
        replace(&replace(text, &folder), self.folder.path())
    }
}

impl CommandOutput {
    /// Returns whether the process would exit with `code`.
    pub(crate) fn exits(&self, code: u8) -> bool {
        format!("{:?}", self.code) == format!("{:?}", ExitCode::from(code))
    }

    /// Parses the one document on stdout.
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.out.lines().count(), 1, "{self:?}");
        serde_json::from_str(&self.out).unwrap()
    }
}

impl FakeDaemonState {
    fn has_been_asked_for_receipts(&self) -> bool {
        self.asked.lock().unwrap().iter().any(|asked| asked.line.ends_with("/receipts"))
    }
}

async fn answer(State(shared): State<FakeDaemonState>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let header = |name: &str| Some(head.headers.get(name)?.to_str().unwrap().to_owned());
    let line = format!("{} {}", head.method, head.uri.path());
    let body = to_bytes(body, 1 << 20).await.unwrap();
    shared.asked.lock().unwrap().push(RecordedRequest {
        line: line.clone(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        last_event_id: header("last-event-id"),
        key: header("idempotency-key"),
        body: serde_json::from_slice(&body).unwrap_or_default(),
    });
    if shared.asked.lock().unwrap().len() > MAX_REQUESTS {
        let problem = json!({"code": "internal", "message": "you ask and ask"});
        return (StatusCode::INTERNAL_SERVER_ERROR, problem.to_string()).into_response();
    }
    let mut script = shared.script.lock().unwrap();
    let mut places = (0..script.len()).filter(|place| script[*place].0 == line);
    let reply = match (places.next(), places.next()) {
        (Some(first), Some(_)) => script.remove(first).1,
        (Some(only), None) => script[only].1.clone(),
        (None, _) => FakeReply::Refusal(json!({"code": "not_found", "message": line})),
    };
    match reply {
        FakeReply::Json(body) => body.to_string().into_response(),
        FakeReply::Refusal(problem) => (StatusCode::CONFLICT, problem.to_string()).into_response(),
        FakeReply::Events(events, then) => {
            let entry = |(no, event): (usize, Value)| format!("id: {}\ndata: {event}\n\n", no + 1);
            let chunks = events.into_iter().enumerate().map(entry).map(Bytes::from).collect();
            Body::from_stream(ScriptedEventStream {
                shared: shared.clone(),
                chunks,
                then,
                pauses: 0,
                deadline: Box::pin(sleep(Duration::from_secs(10))),
            })
            .into_response()
        }
    }
}

struct ScriptedEventStream {
    shared: FakeDaemonState,
    chunks: VecDeque<Bytes>,
    then: AfterEvents,
    pauses: u32,
    deadline: Pin<Box<Sleep>>,
}

impl Stream for ScriptedEventStream {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(chunk) = self.chunks.pop_front() {
            return Poll::Ready(Some(Ok(chunk)));
        }
        match self.then {
            AfterEvents::Close => Poll::Ready(None),
            // The events leave the process only during a pause, before the connection breaks.
            AfterEvents::Break if self.pauses == 0 => {
                self.pauses += 1;
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            AfterEvents::Leave => {
                if self.shared.has_been_asked_for_receipts() {
                    std::fs::remove_file(&self.shared.socket).unwrap();
                    return Poll::Ready(None);
                }
                self.deadline.as_mut().reset((Instant::now() + Duration::from_millis(2)).into());
                self.deadline.as_mut().poll(cx).map(|()| None)
            }
            AfterEvents::Hang => self.deadline.as_mut().poll(cx).map(|()| None),
            AfterEvents::Break => Poll::Ready(Some(Err(io::ErrorKind::ConnectionReset.into()))),
        }
    }
}

/// Polls until a condition is true, for ten seconds at most.
pub(crate) fn until(is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        assert!(Instant::now() < deadline, "it never was");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// A stream that captures its text.
#[derive(Clone, Default)]
pub(crate) struct CapturedStream(Arc<Mutex<Vec<u8>>>);

impl CapturedStream {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for CapturedStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A stream with a closed reader.
pub(crate) struct ClosedOutput;

impl Write for ClosedOutput {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
