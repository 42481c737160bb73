//! An isolated environment for each test: a home, a project and a daemon, with no process left afterwards.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;

/// Timeout of every wait in a test.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_mins(1);

/// A home and a project for one test.
pub(crate) struct World {
    folder: TempDir,
    env: Vec<(String, String)>,
}

/// Exit code and output of a command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    /// Returns a world whose commands and daemon have these variables.
    pub(crate) fn with(env: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("project")).unwrap();
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Self { folder, env: env.collect() }
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    /// Writes a file of the project.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.project().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// Copies an example of the repository into the project, because an example writes files next to itself.
    pub(crate) fn example(&self, name: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name);
        let path = self.file(name, &fs::read_to_string(path).unwrap());
        path.to_string_lossy().into_owned()
    }

    /// Runs git in the project, and returns its output.
    pub(crate) fn git(&self, words: &[&str]) -> String {
        let user = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
        let git = [&user[..], words].concat();
        let said = self.command_of(Path::new("git"), &git).output().unwrap();
        assert!(said.status.success(), "{words:?}: {said:?}");
        String::from_utf8(said.stdout).unwrap()
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        self.command_of(Path::new(env!("CARGO_BIN_EXE_agent-worker")), words)
    }

    /// Returns a command of another program, such as an earlier version.
    pub(crate) fn command_of(&self, program: &Path, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(words)
            .current_dir(self.project())
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.folder.path())
            .env("AGENT_WORKER_HOME", self.home())
            .env("AGENT_WORKER_PORT", "0")
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, words: &[&str]) -> CommandOutput {
        CommandOutput::from(self.command(words).output().unwrap())
    }

    /// Runs a command that must succeed, and parses its JSON.
    pub(crate) fn json(&self, words: &[&str]) -> Value {
        let said = self.run(words);
        assert_eq!(said.code, 0, "{words:?}: {said:?}");
        serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:?}"))
    }

    /// Runs a command that may report a problem by its exit code, and parses its JSON.
    pub(crate) fn json_of_any_code(&self, words: &[&str]) -> Value {
        let said = self.run(words);
        serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:?}"))
    }

    /// Runs a command that lists something, and returns its items.
    pub(crate) fn list(&self, words: &[&str]) -> Value {
        let mut page = self.json(words);
        assert_eq!(page["next"], Value::Null, "a command prints a whole list: {page}");
        let items = page["items"].take();
        assert!(items.is_array(), "{words:?} lists no items: {items}");
        items
    }

    /// Runs a workflow and returns its exit code and envelope, whatever its outcome.
    pub(crate) fn envelope(&self, words: &[&str]) -> (i32, Value) {
        let said = self.run(words);
        let envelope = serde_json::from_str(&said.stdout);
        (said.code, envelope.unwrap_or_else(|error| panic!("{error}: {said:?}")))
    }

    /// Starts a daemon in the background and waits until it is ready.
    pub(crate) fn daemon(&self) -> Child {
        self.daemon_with(&[])
    }

    /// Starts a daemon with additional variables.
    pub(crate) fn daemon_with(&self, env: &[(&str, &str)]) -> Child {
        let mut command = self.command(&["daemon", "--announce"]);
        command.envs(env.iter().copied());
        self.announced(command)
    }

    /// Starts a daemon that announces itself, and waits until it is ready.
    pub(crate) fn announced(&self, mut command: Command) -> Child {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut ready = [0; 6];
        if child.stdout.as_mut().unwrap().read_exact(&mut ready).is_err() {
            let mut why = String::new();
            child.stderr.as_mut().unwrap().read_to_string(&mut why).unwrap();
            let status = child.wait().unwrap();
            panic!("the daemon did not start ({status}): {why}\n{}", self.log());
        }
        child
    }

    /// Returns the pid of the daemon, if one owns the home.
    pub(crate) fn daemon_pid(&self) -> Option<u32> {
        let text = fs::read_to_string(self.home().join("daemon.json")).ok()?;
        let card: Value = serde_json::from_str(&text).ok()?;
        u32::try_from(card["pid"].as_u64()?).ok().filter(|pid| is_alive(*pid))
    }

    /// Returns the port of the daemon.
    pub(crate) fn port(&self) -> String {
        let text = fs::read_to_string(self.home().join("daemon.json")).unwrap();
        let card: Value = serde_json::from_str(&text).unwrap();
        card["port"].to_string()
    }

    /// Returns the loopback address of the daemon.
    pub(crate) fn address(&self) -> String {
        let text = fs::read_to_string(self.home().join("daemon.json")).unwrap();
        let card: Value = serde_json::from_str(&text).unwrap();
        format!("127.0.0.1:{}", card["port"])
    }

    /// Creates a token with these options.
    pub(crate) fn token(&self, name: &str, options: &[&str]) -> String {
        let words = [&["token", "create", name, "--json"], options].concat();
        self.json(&words)["token"].as_str().unwrap().to_owned()
    }

    /// Sends a request as the user, over the daemon's socket.
    pub(crate) fn as_user(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let stream = UnixStream::connect(self.home().join("daemon.sock")).unwrap();
        exchange(stream, "localhost", method, path, ("", body))
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.home().join("logs/daemon.log")).unwrap_or_default()
    }

    /// Returns every live process of this world: its environment or its job contains the world's home.
    pub(crate) fn processes(&self) -> Vec<(u32, String)> {
        let needle = self.folder.path().to_string_lossy().into_owned();
        pids()
            .into_iter()
            .filter_map(|pid| {
                let of = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
                let environ = String::from_utf8_lossy(&of("environ")).into_owned();
                let cwd = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
                let out = fs::read_link(format!("/proc/{pid}/fd/1")).unwrap_or_default();
                let ours = environ.contains(&needle)
                    || cwd.starts_with(self.folder.path())
                    || out.starts_with(self.folder.path());
                let line = String::from_utf8_lossy(&of("cmdline")).replace('\0', " ");
                // A process without an executable has ended, even if the system still lists it.
                let ours = ours && fs::read_link(format!("/proc/{pid}/exe")).is_ok();
                (ours && pid != std::process::id() && is_alive(pid)).then_some((pid, line))
            })
            .collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.run(&["daemon", "stop", "--now"]);
        // A daemon releases its home before it exits.
        let deadline = Instant::now() + Duration::from_secs(5);
        while !self.processes().is_empty() && Instant::now() < deadline {
            std::thread::park_timeout(Duration::from_millis(10));
        }
        for (pid, line) in self.processes() {
            assert!(std::thread::panicking(), "a process was left behind: {pid} {line}");
            kill(pid, "KILL");
        }
    }
}

impl From<Output> for CommandOutput {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Polls `look` until it returns a value; a timeout fails the test and names `what`.
pub(crate) fn wait_for<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    wait_within(TEST_TIMEOUT, what, look)
}

/// Does the same with another timeout.
pub(crate) fn wait_within<T>(
    timeout: Duration,
    what: &str,
    mut look: impl FnMut() -> Option<T>,
) -> T {
    let deadline = Instant::now() + timeout;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain for: {what}");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

pub(crate) fn kill(pid: u32, signal: &str) {
    let _ = Command::new("kill").args([&format!("-{signal}"), &pid.to_string()]).output();
}

pub(crate) fn pids() -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
    !matches!(state, None | Some("Z" | "X"))
}

/// Sends a request to the loopback port, as any program could, and returns the status.
pub(crate) fn http_status(address: &str, token: &str, method: &str, path: &str, body: &str) -> u16 {
    http_request(address, token, method, path, body).0
}

/// Sends a request to the loopback port and returns the status and the whole response.
pub(crate) fn http_request(
    address: &str,
    token: &str,
    method: &str,
    path: &str,
    body: &str,
) -> (u16, String) {
    let authorization = format!("Authorization: Bearer {token}\r\n");
    exchange(TcpStream::connect(address).unwrap(), address, method, path, (&authorization, body))
}

/// Writes one request with additional header lines and a body, and reads the response to its end.
fn exchange(
    mut stream: impl Read + Write,
    host: &str,
    method: &str,
    path: &str,
    (headers, body): (&str, &str),
) -> (u16, String) {
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\n{headers}\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split_whitespace().nth(1).unwrap().parse().unwrap();
    (status, answer)
}

/// Returns true if the agents of a world find the program.
pub(crate) fn is_on_path(program: &str) -> bool {
    ["/usr/local/bin", "/usr/bin", "/bin"].iter().any(|it| Path::new(it).join(program).exists())
}

/// Reports a skipped test to `scripts/test`, which prints and counts the lines of this file.
#[expect(clippy::disallowed_methods, reason = "where to tell is a setting of the test itself")]
pub(crate) fn record_skip(what: &str) {
    let Ok(list) = std::env::var("AW_SKIPPED") else { return };
    let mut list = fs::OpenOptions::new().append(true).create(true).open(list).unwrap();
    writeln!(list, "{what}").unwrap();
}
