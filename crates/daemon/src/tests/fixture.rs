//! A daemon's interfaces for a test, and methods to send any request to them.

mod idle_runner;

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use agent_worker_host::DaemonSocket;
use agent_worker_host::HoldMark;
use agent_worker_kernel::{
    Clock, DocumentFiles, Kernel, KernelParts, Options, Principal, RandomSource,
};
use agent_worker_protocol::{AttemptId, Millis, RunId, RunMode, WorkerJob, api::RunRequest};
use agent_worker_store::Database;
use axum::Router;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{
        AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _,
        BufReader,
    },
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
    sync::mpsc,
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::openapi_contract;
use crate::{
    http::{AppState, HealthFacts, HttpService, Revocations, StreamCounts},
    listeners::Listeners,
    peer::{Caller, Callers, Peer},
    runner::WorkerProcesses,
    shutdown::Shutdown,
};
use idle_runner::IdleRunner;

/// No operation here takes long; one that does is broken.
const DEADLINE: Duration = Duration::from_mins(1);

const TEAM: &str = "
name: team
agents:
  coder: { backend: mock }
  reviewer: { backend: mock }
context: { documentOwner: coder }
kickoff: '@coder begin'
";

/// The runs and attempts whose grace period was skipped.
pub(super) type GraceSkips = Arc<Mutex<Vec<(RunId, Option<AttemptId>)>>>;

/// Open interfaces with one live run, whose agent `coder` has a live attempt.
pub(crate) struct DaemonFixture {
    pub(super) kernel: Kernel,
    pub(crate) store: Database,
    pub(super) shutdown: Shutdown,
    pub(super) address: SocketAddr,
    /// The job of `coder`'s worker.
    pub(super) job: WorkerJob,
    pub(super) run: RunId,
    /// The runs and attempts whose grace period was skipped.
    pub(super) grace_skips: GraceSkips,
    folder: TempDir,
    listeners: Listeners,
    pub(super) jobs: tokio::sync::Mutex<mpsc::UnboundedReceiver<WorkerJob>>,
    /// The document files of the run.
    pub(crate) document_files: DocumentFiles,
}

/// A response as received.
#[derive(Debug)]
pub(super) struct TestResponse {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: String,
}

/// A request as sent.
#[derive(Clone, Debug)]
pub(super) struct TestRequest {
    line: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    /// Number of bytes that the head announces and the client never sends.
    missing: usize,
}

/// Creates the listeners of a daemon whose home is `folder`.
fn listeners(kernel: &Kernel, shutdown: Shutdown, folder: &Path, address: SocketAddr) -> Listeners {
    let tracker = TaskTracker::new();
    let callers = Callers { kernel: kernel.clone(), workers: WorkerProcesses::default() };
    let app = AppState {
        kernel: kernel.clone(),
        callers: callers.clone(),
        health: HealthFacts {
            pid: std::process::id(),
            home: folder.to_owned(),
            address: Some(address),
            started: Millis::new(0),
            version: "1.2.3".to_owned(),
            port_conflict: None,
        },
        hold_mark: HoldMark::of_home(folder),
        shutdown,
        revocations: Revocations::default(),
        streams: StreamCounts::default(),
        tasks: tracker.clone(),
        fixtures: None,
    };
    Listeners {
        service: HttpService::new(app),
        callers,
        tracker,
        closing: CancellationToken::new(),
        allowed_uids: Arc::default(),
    }
}

impl DaemonFixture {
    pub(crate) async fn open() -> Self {
        let folder = TempDir::new().unwrap();
        let store = Database::open(folder.path()).unwrap();
        let (sender, jobs) = mpsc::unbounded_channel();
        let (keep, mut kept) = mpsc::unbounded_channel();
        let grace_skips: GraceSkips = Arc::default();
        let kernel = Kernel::new(KernelParts {
            store: Arc::new(store.clone()),
            runner: Arc::new(IdleRunner {
                jobs: sender,
                done: Mutex::default(),
                grace_skips: grace_skips.clone(),
                files: keep,
            }),
            clock: Clock::Store,
            random: RandomSource::System,
            options: Options::default(),
            base_env: BTreeMap::new(),
            secrets: agent_worker_protocol::SecretFilter::default(),
        });
        kernel.recover().await.unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = tcp.local_addr().unwrap();
        let shutdown = Shutdown::default();
        let listeners = listeners(&kernel, shutdown.clone(), folder.path(), address);
        listeners.serve_port(tcp);
        listeners.serve_socket(UnixListener::bind(folder.path().join("real.sock")).unwrap());
        // A test runs in the daemon's own process, so the user's identity is set explicitly.
        serve_as(Caller::User, &folder.path().join("user.sock"), &listeners);
        let mut jobs = jobs;
        let (run, job) = start_team(&kernel, &folder, ("team", TEAM), &mut jobs).await;
        let jobs = tokio::sync::Mutex::new(jobs);
        let document_files = timeout(DEADLINE, kept.recv()).await.unwrap().unwrap();
        Self {
            kernel,
            store,
            shutdown,
            address,
            job,
            run,
            grace_skips,
            folder,
            listeners,
            jobs,
            document_files,
        }
    }

    /// Returns the part of the daemon that identifies callers.
    pub(super) fn callers(&self) -> Callers {
        self.listeners.callers.clone()
    }

    /// Returns the socket as the user's commands see it.
    pub(super) fn user(&self) -> DaemonSocket {
        DaemonSocket::at(self.folder.path().join("user.sock"))
    }

    /// Returns the socket as a client sees it, through its accept loop.
    pub(super) fn client(&self, token: &str) -> DaemonSocket {
        DaemonSocket::at(self.folder.path().join("real.sock")).with_token(token.to_owned())
    }

    /// Writes a workflow file into the team's project and returns a request to run it.
    pub(super) fn file(&self, name: &str, text: &str) -> Value {
        let file = self.folder.path().join(format!("{name}.yaml"));
        std::fs::write(&file, text).unwrap();
        json!({"file": file, "cwd": self.folder.path()})
    }

    /// Returns the number of tasks: the accept loops, and one for each connection.
    pub(super) fn tasks(&self) -> usize {
        self.listeners.tracker.len()
    }

    /// Returns the socket as `coder`'s worker sees it.
    pub(super) fn worker(&self) -> DaemonSocket {
        self.user().with_token(self.job.token.clone())
    }

    /// Sends a request over the socket as the user.
    pub(super) async fn as_user(&self, question: TestRequest) -> TestResponse {
        self.send_over_socket("user.sock", question).await
    }

    /// Sends a request over the socket with the identity of this process.
    pub(super) async fn as_ourselves(&self, question: TestRequest) -> TestResponse {
        self.send_over_socket("real.sock", question).await
    }

    /// Sends a request as a caller that the accept loop identified as `caller`.
    pub(super) async fn as_caller(&self, caller: Caller, question: TestRequest) -> TestResponse {
        let name = format!("{}.sock", uuid::Uuid::now_v7());
        serve_as(caller, &self.folder.path().join(&name), &self.listeners);
        self.send_over_socket(&name, question).await
    }

    /// Sends a request over TCP.
    pub(super) async fn over_tcp(&self, question: TestRequest) -> TestResponse {
        question.send(TcpStream::connect(self.address).await.unwrap()).await
    }

    /// Sends a request as the user without reading the response; dropping the connection disconnects.
    pub(super) async fn send_request(&self, question: TestRequest) -> UnixStream {
        let mut stream = UnixStream::connect(self.folder.path().join("user.sock")).await.unwrap();
        stream.write_all(&question.to_bytes()).await.unwrap();
        stream
    }

    /// Sends a request as the user, or with a token, and returns its response as a stream.
    pub(super) async fn open_event_stream(&self, question: TestRequest) -> TestEventStream {
        TestEventStream {
            from: BufReader::new(self.send_request(question).await),
            head: String::new(),
        }
    }

    /// Waits until a condition holds.
    pub(super) async fn wait_until(&self, so: impl AsyncFn() -> bool) {
        let look = async {
            while !so().await {
                tokio::task::yield_now().await;
            }
        };
        timeout(DEADLINE, look).await.unwrap();
    }

    /// Starts another team @NAME with the same agents, and waits until its `coder` has a live attempt.
    pub(super) async fn start_team(&self, name: &str) -> (RunId, WorkerJob) {
        let jobs = &mut *self.jobs.lock().await;
        start_team(&self.kernel, &self.folder, (name, TEAM), jobs).await
    }

    /// Does the same with another `context:` section in the file.
    pub(super) async fn start_team_with(&self, name: &str, context: &str) -> (RunId, WorkerJob) {
        let jobs = &mut *self.jobs.lock().await;
        let file = TEAM.replace("context: { documentOwner: coder }", context);
        start_team(&self.kernel, &self.folder, (name, &file), jobs).await
    }

    /// Creates a client token.
    pub(super) async fn client_token(&self) -> String {
        self.token_for("ci", &[], &[]).await
    }

    async fn send_over_socket(&self, name: &str, question: TestRequest) -> TestResponse {
        question.send(UnixStream::connect(self.folder.path().join(name)).await.unwrap()).await
    }
}

/// A response that is read as it arrives; dropping it disconnects.
pub(super) struct TestEventStream {
    from: BufReader<UnixStream>,
    head: String,
}

impl TestEventStream {
    /// Returns the data of the next event that has any, or none at the end.
    pub(super) async fn next(&mut self) -> Option<Value> {
        loop {
            let mut line = String::new();
            if timeout(DEADLINE, self.from.read_line(&mut line)).await.unwrap().unwrap() == 0 {
                return None;
            }
            let data = line.strip_prefix("data:").map(str::trim);
            if let Some(data) = data.filter(|data| !data.is_empty()) {
                return Some(serde_json::from_str(data).unwrap());
            }
            self.head += &line;
        }
    }

    /// Returns the next event that is a message of this method.
    pub(super) async fn next_with_method(&mut self, method: &str) -> Value {
        loop {
            let event = self.next().await.unwrap_or_else(|| panic!("no {method}: {}", self.head));
            if event["method"] == method {
                return event["params"].clone();
            }
        }
    }

    /// Returns the status, after a first read.
    pub(super) fn status(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }
}

/// Time that advances only on request. A clock that is merely paused jumps ahead whenever all tasks wait for a
/// socket or the store.
pub(super) struct ManualTime {
    /// The clock does not jump while a blocking thread of the runtime waits for this.
    _release: std::sync::mpsc::Sender<()>,
}

impl ManualTime {
    pub(super) fn start() -> Self {
        let (release, wait) = std::sync::mpsc::channel();
        tokio::task::spawn_blocking(move || wait.recv().ok());
        tokio::time::pause();
        Self { _release: release }
    }

    pub(super) async fn advance(&self, time: Duration) {
        tokio::time::advance(time).await;
    }
}

impl Drop for DaemonFixture {
    fn drop(&mut self) {
        self.listeners.closing.cancel();
    }
}

/// Serves every connection to `socket` as `caller`.
fn serve_as(caller: Caller, socket: &Path, listeners: &Listeners) {
    let listener = UnixListener::bind(socket).unwrap();
    let (site, peer) = (listeners.service.clone(), Peer::Socket(caller));
    let routes =
        Router::new().fallback(move |request| site.clone().handle_request(peer.clone(), request));
    let closing = listeners.closing.clone().cancelled_owned();
    let serving = axum::serve(listener, routes).with_graceful_shutdown(closing);
    listeners.tracker.spawn(serving.into_future());
}

/// Starts a team and waits until `coder` has a live attempt.
async fn start_team(
    kernel: &Kernel,
    folder: &TempDir,
    (name, file): (&str, &str),
    jobs: &mut mpsc::UnboundedReceiver<WorkerJob>,
) -> (RunId, WorkerJob) {
    let path = folder.path().join(format!("{name}.yaml"));
    std::fs::write(&path, file.replace("name: team", &format!("name: {name}"))).unwrap();
    let request = RunRequest {
        source: None,
        file: path,
        cwd: folder.path().to_owned(),
        tag: None,
        mode: RunMode::Start,
        params: BTreeMap::new(),
        env: BTreeMap::new(),
        replace: false,
        defaults: None,
    };
    let run = kernel.runs().create(&Principal::User, request).await.unwrap().run;
    let job = timeout(DEADLINE, jobs.recv()).await.unwrap().unwrap();
    assert_eq!(job.agent.as_str(), "coder");
    (run, job)
}

impl TestRequest {
    pub(super) fn get(path: &str) -> Self {
        Self::new("GET", path)
    }

    pub(super) fn post(path: &str, body: impl Into<Vec<u8>>) -> Self {
        let body = body.into();
        Self { body, ..Self::new("POST", path).header("Content-Type", "application/json") }
    }

    pub(super) fn new(method: &str, path: &str) -> Self {
        let line = format!("{method} {path} HTTP/1.1");
        Self { line, headers: Vec::new(), body: Vec::new(), missing: 0 }.header("Host", "localhost")
    }

    /// Sets a header; an empty value removes it.
    pub(super) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
        if !value.is_empty() {
            self.headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    pub(super) fn method(mut self, method: &str) -> Self {
        let rest = self.line.split_once(' ').unwrap().1;
        self.line = format!("{method} {rest}");
        self
    }

    /// Adds a parameter to the query string.
    pub(super) fn query(mut self, query: &str) -> Self {
        let (start, end) = self.line.rsplit_once(' ').unwrap();
        let mark = if start.contains('?') { '&' } else { '?' };
        self.line = format!("{start}{mark}{query} {end}");
        self
    }

    pub(super) fn body(self, body: &str) -> Self {
        Self { body: body.into(), ..self }
    }

    /// Announces one more byte than the body has, so that the daemon waits for it.
    pub(super) fn unfinished(self) -> Self {
        Self { missing: 1, ..self }
    }

    pub(super) fn token(self, token: &str) -> Self {
        self.header("Authorization", &format!("Bearer {token}"))
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut headers = self.headers.clone();
        let length = self.body.len() + self.missing;
        headers.push(("Content-Length".to_owned(), length.to_string()));
        headers.push(("Connection".to_owned(), "close".to_owned()));
        let headers = headers.iter().map(|(name, value)| format!("{name}: {value}"));
        let lines: Vec<String> = std::iter::once(self.line.clone()).chain(headers).collect();
        let head = lines.join("\r\n") + "\r\n\r\n";
        [head.as_bytes(), &self.body].concat()
    }

    async fn send(self, mut stream: impl AsyncRead + AsyncWrite + Unpin) -> TestResponse {
        let exchange = async {
            stream.write_all(&self.to_bytes()).await.unwrap();
            let mut text = Vec::new();
            stream.read_to_end(&mut text).await.unwrap();
            String::from_utf8(text).unwrap()
        };
        let text = timeout(DEADLINE, exchange).await.unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut line = self.line.split(' ');
        let (method, path) = (line.next().unwrap(), line.next().unwrap());
        openapi_contract::assert_matches_document(method, path, status, body);
        TestResponse { status, head: head.to_lowercase(), body: body.to_owned() }
    }
}

impl TestResponse {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }

    /// Returns the items of a page; fails the test unless the body is a page.
    pub(super) fn items(&self) -> Value {
        let mut page = self.json();
        let is_page = page["items"].is_array() && page.get("next").is_some();
        assert!(is_page, "not a page: {page}");
        page["items"].take()
    }

    /// Returns the status and the problem's code; fails the test unless the body is a complete problem.
    pub(super) fn refusal(&self) -> (u16, String) {
        let problem: agent_worker_protocol::Problem = serde_json::from_value(self.json()).unwrap();
        assert!(!problem.message.is_empty());
        (self.status, problem.code.to_string())
    }
}
