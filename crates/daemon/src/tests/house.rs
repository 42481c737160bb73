//! A daemon's doors, opened for a test, and a way to ask anything through them.

use std::{
    collections::{BTreeMap, HashSet},
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use agent_worker_host::Daemon;
use agent_worker_kernel::{
    AttemptPlace, Clock, Departure, Dice, Kernel, Mark, Options, Parts, Principal, Runner,
    ShellCommand, ShellEnd, Sighting,
};
use agent_worker_protocol::{
    AttemptId, Finished, Millis, NumberedEvent, RunId, RunMode, WorkerEvent, WorkerJob,
    WorkerOutcome, api::RunRequest,
};
use agent_worker_store::Sqlite;
use async_trait::async_trait;
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

use super::contract;
use crate::{
    http::{Doors, HealthFacts, Revocations, Site},
    peer::{Caller, Peer},
    serve::Doorway,
    shutdown::Shutdown,
};

/// Nothing here takes long; what does is broken.
const DEADLINE: Duration = Duration::from_mins(1);

const TEAM: &str = "
name: team
agents:
  coder: { backend: mock }
  reviewer: { backend: mock }
context: { documentOwner: coder }
kickoff: '@coder begin'
";

/// What was to end at once: runs, or attempts of them.
pub(super) type Hurried = Arc<Mutex<Vec<(RunId, Option<AttemptId>)>>>;

/// Open doors with one live run behind them, whose agent `coder` is at work.
pub(super) struct House {
    pub(super) kernel: Kernel,
    pub(super) store: Sqlite,
    pub(super) shutdown: Shutdown,
    pub(super) address: SocketAddr,
    /// What `coder`'s worker was given.
    pub(super) job: WorkerJob,
    pub(super) run: RunId,
    /// The runs whose processes were to get no time.
    pub(super) hurried: Hurried,
    folder: TempDir,
    doorway: Doorway,
    pub(super) jobs: tokio::sync::Mutex<mpsc::UnboundedReceiver<WorkerJob>>,
}

/// An answer, as it came over the wire.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: String,
}

/// A question, as it goes over the wire.
#[derive(Clone, Debug)]
pub(super) struct Question {
    line: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl House {
    pub(super) async fn open() -> Self {
        let folder = TempDir::new().unwrap();
        let store = Sqlite::open(folder.path()).unwrap();
        let (sender, jobs) = mpsc::unbounded_channel();
        let hurried: Hurried = Arc::default();
        let kernel = Kernel::new(Parts {
            store: Arc::new(store.clone()),
            runner: Arc::new(Idle {
                jobs: sender,
                done: Mutex::default(),
                hurried: hurried.clone(),
            }),
            clock: Clock::System,
            dice: Dice::System,
            options: Options::default(),
        });
        kernel.recover().await.unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = tcp.local_addr().unwrap();
        let shutdown = Shutdown::default();
        let health = HealthFacts {
            pid: std::process::id(),
            home: folder.path().to_owned(),
            address: Some(address),
            started: Millis::new(0),
            version: "1.2.3".to_owned(),
            trouble: None,
        };
        let tracker = TaskTracker::new();
        let doors = Doors {
            kernel: kernel.clone(),
            health,
            shutdown: shutdown.clone(),
            revocations: Revocations::default(),
            tasks: tracker.clone(),
            #[cfg(debug_assertions)]
            fixtures: false,
        };
        let doorway = Doorway {
            site: Site::new(doors),
            kernel: kernel.clone(),
            tracker,
            closing: CancellationToken::new(),
        };
        doorway.open_port(tcp);
        doorway.open_socket(UnixListener::bind(folder.path().join("real.sock")).unwrap());
        // A test is the daemon's own process; to be the user it must be told apart by hand.
        serve_as(Caller::User, &folder.path().join("user.sock"), &doorway);
        let mut jobs = jobs;
        let (run, job) = begin(&kernel, &folder, "team", &mut jobs).await;
        let jobs = tokio::sync::Mutex::new(jobs);
        Self { kernel, store, shutdown, address, job, run, hurried, folder, doorway, jobs }
    }

    /// The doors as the user's commands see them.
    pub(super) fn user(&self) -> Daemon {
        Daemon::at(self.folder.path().join("user.sock"))
    }

    /// The doors as a client sees them, through the accept loop of the socket.
    pub(super) fn client(&self, token: &str) -> Daemon {
        Daemon::at(self.folder.path().join("real.sock")).with_token(token.to_owned())
    }

    /// A workflow file in the team's project, and a request to run it.
    pub(super) fn file(&self, name: &str, text: &str) -> Value {
        let file = self.folder.path().join(format!("{name}.yaml"));
        std::fs::write(&file, text).unwrap();
        json!({"file": file, "cwd": self.folder.path()})
    }

    /// How many tasks the doors have: their loops, and one for each connection.
    pub(super) fn tasks(&self) -> usize {
        self.doorway.tracker.len()
    }

    /// The doors as `coder`'s worker sees them.
    pub(super) fn worker(&self) -> Daemon {
        self.user().with_token(self.job.token.clone())
    }

    /// Asks through the socket, as the user.
    pub(super) async fn as_user(&self, question: Question) -> Answer {
        self.socket("user.sock", question).await
    }

    /// Asks through the socket, as whoever this process is.
    pub(super) async fn as_ourselves(&self, question: Question) -> Answer {
        self.socket("real.sock", question).await
    }

    /// Asks as a caller the accept loop has made out to be `caller`.
    pub(super) async fn as_caller(&self, caller: Caller, question: Question) -> Answer {
        let name = format!("{}.sock", uuid::Uuid::now_v7());
        serve_as(caller, &self.folder.path().join(&name), &self.doorway);
        self.socket(&name, question).await
    }

    /// Asks through TCP.
    pub(super) async fn over_tcp(&self, question: Question) -> Answer {
        question.ask(TcpStream::connect(self.address).await.unwrap()).await
    }

    /// Asks as the user and does not wait for the answer; dropping the connection hangs up.
    pub(super) async fn begin(&self, question: Question) -> UnixStream {
        let mut stream = UnixStream::connect(self.folder.path().join("user.sock")).await.unwrap();
        stream.write_all(&question.written()).await.unwrap();
        stream
    }

    /// Asks as the user, or in the name of a token, for an answer that is read as it comes.
    pub(super) async fn listen(&self, question: Question) -> Stream {
        Stream { from: BufReader::new(self.begin(question).await), head: String::new() }
    }

    /// Waits until something is so.
    pub(super) async fn until(&self, so: impl AsyncFn() -> bool) {
        let look = async {
            while !so().await {
                tokio::task::yield_now().await;
            }
        };
        timeout(DEADLINE, look).await.unwrap();
    }

    /// Starts another team of the same people, @NAME, and waits until its `coder` is at work too.
    pub(super) async fn start(&self, name: &str) -> (RunId, WorkerJob) {
        begin(&self.kernel, &self.folder, name, &mut *self.jobs.lock().await).await
    }

    /// A token of a client.
    pub(super) async fn client_token(&self) -> String {
        self.token_for("ci", &[], &[]).await
    }

    async fn socket(&self, name: &str, question: Question) -> Answer {
        question.ask(UnixStream::connect(self.folder.path().join(name)).await.unwrap()).await
    }
}

/// An answer that is read as it comes. Dropping it hangs up.
pub(super) struct Stream {
    from: BufReader<UnixStream>,
    head: String,
}

impl Stream {
    /// The next event's data; events without any are passed over. None: it is over.
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

    /// The next event that is a message of this method.
    pub(super) async fn hear(&mut self, method: &str) -> Value {
        loop {
            let event = self.next().await.unwrap_or_else(|| panic!("no {method}: {}", self.head));
            if event["method"] == method {
                return event["params"].clone();
            }
        }
    }

    /// The status, once something was read.
    pub(super) fn status(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }
}

/// Time that passes only when it is told to. A clock that is merely paused jumps ahead whenever everybody waits for a
/// socket or the store.
pub(super) struct Standstill {
    /// The clock does not jump while a thread of the runtime's own waits for this.
    _release: std::sync::mpsc::Sender<()>,
}

impl Standstill {
    pub(super) fn begin() -> Self {
        let (release, wait) = std::sync::mpsc::channel();
        tokio::task::spawn_blocking(move || wait.recv().ok());
        tokio::time::pause();
        Self { _release: release }
    }

    pub(super) async fn pass(&self, time: Duration) {
        tokio::time::advance(time).await;
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.doorway.closing.cancel();
    }
}

/// Serves everybody who comes to `socket` as `caller`.
fn serve_as(caller: Caller, socket: &Path, doorway: &Doorway) {
    let listener = UnixListener::bind(socket).unwrap();
    let (site, peer) = (doorway.site.clone(), Peer::Socket(caller));
    let routes = Router::new().fallback(move |request| site.clone().answer(peer, request));
    let closing = doorway.closing.clone().cancelled_owned();
    let serving = axum::serve(listener, routes).with_graceful_shutdown(closing);
    doorway.tracker.spawn(serving.into_future());
}

/// Starts a team and waits until `coder` is at work.
async fn begin(
    kernel: &Kernel,
    folder: &TempDir,
    name: &str,
    jobs: &mut mpsc::UnboundedReceiver<WorkerJob>,
) -> (RunId, WorkerJob) {
    let file = folder.path().join(format!("{name}.yaml"));
    std::fs::write(&file, TEAM.replace("name: team", &format!("name: {name}"))).unwrap();
    let request = RunRequest {
        file,
        cwd: folder.path().to_owned(),
        tag: None,
        mode: RunMode::Start,
        params: BTreeMap::new(),
        env: BTreeMap::new(),
        replace: false,
    };
    let run = kernel.run_new(&Principal::User, request).await.unwrap().run;
    let job = timeout(DEADLINE, jobs.recv()).await.unwrap().unwrap();
    assert_eq!(job.agent.as_str(), "coder");
    (run, job)
}

impl Question {
    pub(super) fn get(path: &str) -> Self {
        Self::new("GET", path)
    }

    pub(super) fn post(path: &str, body: impl Into<Vec<u8>>) -> Self {
        let body = body.into();
        Self { body, ..Self::new("POST", path).header("Content-Type", "application/json") }
    }

    pub(super) fn new(method: &str, path: &str) -> Self {
        let line = format!("{method} {path} HTTP/1.1");
        Self { line, headers: Vec::new(), body: Vec::new() }.header("Host", "localhost")
    }

    /// Sets a header; an empty value takes it away.
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

    /// Adds to what is asked after `?`.
    pub(super) fn query(mut self, query: &str) -> Self {
        let (start, end) = self.line.rsplit_once(' ').unwrap();
        let mark = if start.contains('?') { '&' } else { '?' };
        self.line = format!("{start}{mark}{query} {end}");
        self
    }

    pub(super) fn body(self, body: &str) -> Self {
        Self { body: body.into(), ..self }
    }

    pub(super) fn token(self, token: &str) -> Self {
        self.header("Authorization", &format!("Bearer {token}"))
    }

    fn written(&self) -> Vec<u8> {
        let mut headers = self.headers.clone();
        headers.push(("Content-Length".to_owned(), self.body.len().to_string()));
        headers.push(("Connection".to_owned(), "close".to_owned()));
        let headers = headers.iter().map(|(name, value)| format!("{name}: {value}"));
        let lines: Vec<String> = std::iter::once(self.line.clone()).chain(headers).collect();
        let head = lines.join("\r\n") + "\r\n\r\n";
        [head.as_bytes(), &self.body].concat()
    }

    async fn ask(self, mut stream: impl AsyncRead + AsyncWrite + Unpin) -> Answer {
        let exchange = async {
            stream.write_all(&self.written()).await.unwrap();
            let mut text = Vec::new();
            stream.read_to_end(&mut text).await.unwrap();
            String::from_utf8(text).unwrap()
        };
        let text = timeout(DEADLINE, exchange).await.unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut line = self.line.split(' ');
        let (method, path) = (line.next().unwrap(), line.next().unwrap());
        contract::keep(method, path, status, body);
        Answer { status, head: head.to_lowercase(), body: body.to_owned() }
    }
}

impl Answer {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }

    /// The status and the problem's code; anything but a whole problem fails the test.
    pub(super) fn refusal(&self) -> (u16, String) {
        let problem: agent_worker_protocol::Problem = serde_json::from_value(self.json()).unwrap();
        assert!(!problem.message.is_empty());
        (self.status, problem.code.to_string())
    }
}

/// Hands over what it is given and waits to be stopped. Only `quick`'s work is done at once, and `fragile` breaks.
struct Idle {
    jobs: mpsc::UnboundedSender<WorkerJob>,
    done: Mutex<HashSet<AttemptId>>,
    hurried: Hurried,
}

#[async_trait]
impl Runner for Idle {
    async fn run_open(&self, _: RunId, _: BTreeMap<String, String>) -> io::Result<()> {
        Ok(())
    }
    async fn run_env(&self, _: RunId) -> io::Result<BTreeMap<String, String>> {
        Ok(BTreeMap::new())
    }
    async fn run_close(&self, _: RunId) -> u32 {
        0
    }
    fn run_hurry(&self, run: RunId) {
        self.hurried.lock().unwrap().push((run, None));
    }
    fn attempt_hurry(&self, run: RunId, attempt: AttemptId) {
        self.hurried.lock().unwrap().push((run, Some(attempt)));
    }
    async fn run_leftovers(&self) -> io::Result<Vec<RunId>> {
        Ok(Vec::new())
    }
    async fn run_erase(&self, _: RunId) -> io::Result<()> {
        Ok(())
    }
    fn place(&self, _: RunId, _: AttemptId) -> AttemptPlace {
        AttemptPlace { folder: PathBuf::new(), socket: PathBuf::new() }
    }
    async fn attempt(&self, _: RunId, job: WorkerJob, stop: CancellationToken) -> Departure {
        let gone = Departure { seen_alive: true, ..Departure::default() };
        match job.agent.as_str() {
            "quick" => {
                self.done.lock().unwrap().insert(job.attempt);
                gone
            }
            "fragile" => gone,
            _ => {
                self.jobs.send(job).ok();
                stop.cancelled().await;
                Departure::default()
            }
        }
    }
    async fn attempt_look(&self, _: RunId, _: AttemptId) -> Sighting {
        Sighting::Gone
    }
    async fn attempt_adopt(&self, _: RunId, _: AttemptId, _: CancellationToken) -> Departure {
        Departure::default()
    }
    async fn attempt_events(
        &self,
        _: RunId,
        attempt: AttemptId,
        _: i64,
    ) -> io::Result<Vec<NumberedEvent>> {
        if !self.done.lock().unwrap().contains(&attempt) {
            return Ok(Vec::new());
        }
        let (outcome, text) = (WorkerOutcome::Ok, "all done".to_owned());
        let finished = Finished { outcome, text };
        let events = [WorkerEvent::Started { pid: 1 }, WorkerEvent::Finished(finished)];
        let numbered = events.into_iter().zip(1..);
        Ok(numbered.map(|(event, no)| NumberedEvent { no, ts: Millis::new(0), event }).collect())
    }
    async fn attempt_log(&self, _: RunId, _: AttemptId, _: u64, _: usize) -> io::Result<Vec<u8>> {
        Ok(b"printed\n".to_vec())
    }
    async fn marks(&self) -> Vec<Mark> {
        Vec::new()
    }
    async fn attempt_sweep(&self, _: AttemptId) -> u32 {
        0
    }
    async fn shell(&self, _: ShellCommand, _: CancellationToken) -> io::Result<ShellEnd> {
        Ok(ShellEnd { status: Some(0), ..ShellEnd::default() })
    }
}
