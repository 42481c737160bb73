//! Attempts to leave the sandbox, at each level, as root and as an unprivileged user, and without a sandbox: there every
//! attempt succeeds, so that a refusal is the sandbox's.

mod table;

use std::{
    fs::{self, Permissions},
    io::{Read, Write},
    net::{TcpListener, UdpSocket},
    os::{
        linux::net::SocketAddrExt as _,
        unix::{
            fs::PermissionsExt as _,
            net::{SocketAddr, UnixListener},
        },
    },
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::getuid;

use self::table::{
    Account, ESCAPES, Escape, FORK_BOMB, LISTED_HOSTS, MEMORY_BOMB, NETWORK_ESCAPES,
    WORKTREE_ESCAPES,
};
use crate::world::record_skip;

/// The text that an attempt prints when it succeeded.
const ESCAPED: &str = "ESCAPED";
/// Words that run a program as another user.
const AS_NOBODY: [&str; 4] =
    ["/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

/// The machine that the attempts see: a home folder, a state folder of the daemon, repositories, servers and a process.
struct Surroundings {
    folder: tempfile::TempDir,
    words: Vec<&'static str>,
    bystander: Child,
    port: u16,
    other_port: u16,
    udp_port: u16,
    abstract_name: String,
    /// Further arguments of the sandbox.
    sandbox_args: Vec<String>,
}

impl Drop for Surroundings {
    fn drop(&mut self) {
        let _ = self.bystander.kill();
        let _ = self.bystander.wait();
    }
}

impl Surroundings {
    fn new(words: &[&'static str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path();
        for (path, text) in [
            ("home/.ssh/id_ed25519", ESCAPED),
            ("home/.netrc", ESCAPED),
            ("home/.gitconfig", "[user]\nname = a\nemail = a@b\n"),
            ("state/agent-worker.db", ESCAPED),
            ("state/runs/1/mcp.token", ESCAPED),
            ("outside/file", ESCAPED),
            ("outside/log", ""),
            ("project/file", "one\n"),
            ("plain/file", "one\n"),
        ] {
            fs::create_dir_all(base.join(path).parent().unwrap()).unwrap();
            fs::write(base.join(path), text).unwrap();
        }
        let abstract_name = format!("escape-{}", uuid::Uuid::now_v7());
        let abstract_address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        answer_streams(UnixListener::bind_addr(&abstract_address).unwrap());
        for path in ["state/daemon.sock", "outside/docker.sock"] {
            answer_streams(UnixListener::bind(base.join(path)).unwrap());
        }
        let [port, other_port] = [answer_connections(), answer_connections()];
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let udp_port = udp.local_addr().unwrap().port();
        thread::spawn(move || {
            let mut piece = [0; 9];
            while let Ok((_, sender)) = udp.recv_from(&mut piece) {
                let _ = udp.send_to(ESCAPED.as_bytes(), sender);
            }
        });
        if !words.is_empty() {
            let owned = Command::new("chown").args(["-R", "65534:65534"]).arg(base).status();
            assert!(owned.unwrap().success());
        }
        fs::set_permissions(base, Permissions::from_mode(0o755)).unwrap();
        let mut sleeper = command(words, "sleep");
        sleeper.arg("1000").env_clear().env("SECRET", ESCAPED).stdin(Stdio::null());
        let bystander = sleeper.spawn().unwrap();
        let words = words.to_vec();
        let sandbox_args = Vec::new();
        let new = Self {
            folder,
            words,
            bystander,
            port,
            other_port,
            udp_port,
            abstract_name,
            sandbox_args,
        };
        let made = new.run(
            None,
            "project",
            "git init -q && git add . && git commit -qm 1 && git worktree add -q ../tree",
        );
        assert!(made.status.success(), "{made:?}");
        new
    }

    fn base(&self) -> &Path {
        self.folder.path()
    }

    /// Runs a script in a sandbox of this level, or without one.
    fn run(&self, level: Option<&str>, folder: &str, script: &str) -> Output {
        self.run_reading(level, folder, script, &[])
    }

    /// Runs a script in a sandbox in which further folders exist.
    fn run_reading(
        &self,
        level: Option<&str>,
        folder: &str,
        script: &str,
        read: &[&str],
    ) -> Output {
        let binary = env!("CARGO_BIN_EXE_agent-worker");
        let mut wrapped = command(&self.words, if level.is_some() { binary } else { "sh" });
        if let Some(level) = level {
            wrapped.args(["sandbox", "--quiet", "--level", level]).args(&self.sandbox_args);
            for path in read {
                wrapped.args(["--read", path]);
            }
            wrapped.args(["--", "sh"]);
        }
        wrapped.args(["-c", script]).current_dir(self.base().join(folder)).env_clear();
        wrapped.envs([
            ("PATH", "/usr/local/bin:/usr/bin:/bin"),
            ("HOME", self.base().join("home").to_str().unwrap()),
            ("AGENT_WORKER_HOME", self.base().join("state").to_str().unwrap()),
            ("BASE", self.base().to_str().unwrap()),
            ("BYSTANDER", &self.bystander.id().to_string()),
            ("PORT", &self.port.to_string()),
            ("OTHER_PORT", &self.other_port.to_string()),
            ("LOCAL_NAME", local_name().as_deref().unwrap_or_default()),
            ("UDP_PORT", &self.udp_port.to_string()),
            ("ABSTRACT", &self.abstract_name),
        ]);
        wrapped.stdin(Stdio::null()).output().unwrap()
    }

    /// Returns a line for an attempt whose result is not the expected one.
    fn check(&self, escape: &Escape, account: Account) -> Vec<String> {
        let mut problems = Vec::new();
        for (level, reach) in
            [(Some("full"), escape.full), (Some("basic"), escape.basic), (None, escape.off)]
        {
            let output = self.run(level, escape.folder, escape.script);
            let found = String::from_utf8_lossy(&output.stdout).contains(ESCAPED);
            let expected = reach.includes(account);
            if found != expected {
                let level = level.unwrap_or("off");
                let errors = String::from_utf8_lossy(&output.stderr);
                problems.push(format!(
                    "{}, {level}, {account:?}: expected {expected}, got {found}: {errors}",
                    escape.name
                ));
            }
        }
        problems
    }
}

/// Answers a request, which may be of any length; the client may have left.
fn answer(mut stream: impl Read + Write) {
    if matches!(stream.read(&mut [0]), Ok(1)) {
        let _ = stream.write_all(ESCAPED.as_bytes());
    }
}

/// Opens a port that answers, at every address of this machine.
fn answer_connections() -> u16 {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || listener.incoming().for_each(|stream| answer(stream.unwrap())));
    port
}

/// Returns a name other than `localhost` that the system's table gives an address of this machine.
fn local_name() -> Option<String> {
    let table = fs::read_to_string("/etc/hosts").unwrap_or_default();
    let names = table.lines().filter(|line| line.starts_with("127.")).flat_map(|line| {
        line.split('#').next().unwrap_or_default().split_whitespace().skip(1).map(str::to_owned)
    });
    names.filter(|name| !name.contains("localhost")).last()
}

fn answer_streams(listener: UnixListener) {
    thread::spawn(move || listener.incoming().for_each(|stream| answer(stream.unwrap())));
}

fn command(words: &[&str], program: &str) -> Command {
    let mut words = words.iter().copied().chain([program]);
    let mut command = Command::new(words.next().unwrap());
    command.args(words);
    command
}

/// Returns true if the attempts can be made here.
fn has_sandbox() -> bool {
    let probe = Command::new(env!("CARGO_BIN_EXE_agent-worker"))
        .args(["sandbox", "--level", "full", "--json"])
        .output();
    let works = probe.unwrap().status.success() && Path::new("/usr/bin/python3").exists();
    if !works {
        record_skip("the sandbox (needs bubblewrap with namespaces, Landlock and python3)");
    }
    works
}

fn check_all(words: &[&'static str], escapes: &[Escape], account: Account) {
    check_in(&Surroundings::new(words), escapes, account);
}

/// Makes the attempts on the network and on memory.
fn check_limits(words: &[&'static str], account: Account) {
    let mut surroundings = Surroundings::new(words);
    surroundings.sandbox_args = ["--memory", "512MiB"].map(str::to_owned).to_vec();
    check_in(&surroundings, &[MEMORY_BOMB], account);
    let Some(name) = local_name() else {
        record_skip("hosts of a sandbox (needs a name of this machine in /etc/hosts)");
        return;
    };
    let filled = LISTED_HOSTS.map(|host| {
        host.replace("$PORT", &surroundings.port.to_string())
            .replace("$OTHER_PORT", &surroundings.other_port.to_string())
            .replace("$LOCAL_NAME", &name)
    });
    surroundings.sandbox_args =
        filled.into_iter().flat_map(|host| ["--host".to_owned(), host]).collect();
    check_in(&surroundings, &NETWORK_ESCAPES, account);
}

fn check_in(surroundings: &Surroundings, escapes: &[Escape], account: Account) {
    let problems: Vec<String> =
        escapes.iter().flat_map(|escape| surroundings.check(escape, account)).collect();
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

fn own_account() -> Account {
    if getuid().is_root() { Account::Root } else { Account::Unprivileged }
}

#[test]
fn no_attempt_leaves_the_sandbox_except_where_the_documentation_says_so() {
    if has_sandbox() {
        check_all(&[], &ESCAPES, own_account());
        check_all(&[], &WORKTREE_ESCAPES, own_account());
        check_all(&[], &[FORK_BOMB], own_account());
        check_limits(&[], own_account());
    }
}

#[test]
fn no_attempt_of_an_unprivileged_user_leaves_the_sandbox() {
    if own_account() != Account::Root || !Path::new(AS_NOBODY[0]).exists() {
        record_skip("attempts of an unprivileged user (needs root, setpriv)");
    } else if has_sandbox() {
        check_all(&AS_NOBODY, &ESCAPES, Account::Unprivileged);
        check_all(&AS_NOBODY, &WORKTREE_ESCAPES, Account::Unprivileged);
        check_all(&AS_NOBODY, &[FORK_BOMB], Account::Unprivileged);
        check_limits(&AS_NOBODY, Account::Unprivileged);
    }
}

#[test]
fn git_cargo_and_npm_work_inside() {
    if !has_sandbox() {
        return;
    }
    let surroundings = Surroundings::new(&[]);
    let cargo = PathBuf::from(env!("CARGO"));
    let tools = cargo.parent().unwrap().display().to_string();
    let toolchain = cargo.parent().and_then(Path::parent).unwrap();
    let commit = "echo x >> file && git add . && git commit -qm 2 && git status --short";
    let build = format!(
        "export PATH={tools}:$PATH; mkdir src && echo 'fn main() {{}}' > src/main.rs && \
         printf '[package]\\nname=\"a\"\\nedition=\"2024\"\\n[workspace]' > Cargo.toml && cargo build --offline"
    );
    let test = "echo '{\"scripts\":{\"test\":\"node -e 0\"}}' > package.json && npm test";
    let server = "python3 -c 'import socket\ns=socket.create_server((\"127.0.0.1\",0))\nsocket.create_connection(s.getsockname())'";
    for level in ["full", "basic"] {
        let folder = format!("project-{level}");
        let cloned = surroundings.run(None, ".", &format!("git clone -q project {folder}"));
        assert!(cloned.status.success(), "{cloned:?}");
        let scripts = [commit, &build, test, "echo x > /tmp/x || echo x > $TMPDIR/x"];
        for script in scripts {
            let output = surroundings.run_reading(
                Some(level),
                &folder,
                script,
                &[toolchain.to_str().unwrap()],
            );
            assert!(output.status.success(), "{level} {script}: {output:?}");
        }
    }
    assert!(surroundings.run(Some("full"), "tree", commit).status.success());
    // At `full` the loopback is the sandbox's own.
    assert!(surroundings.run(Some("full"), "project", server).status.success());
    let names = fs::read_dir(surroundings.base().join("project")).unwrap();
    let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [".git", "file"], "no placeholder stays");
}

#[test]
fn a_program_gets_its_arguments_and_its_exit_code_is_the_commands() {
    if !has_sandbox() {
        return;
    }
    let surroundings = Surroundings::new(&[]);
    for level in ["full", "basic"] {
        let output = surroundings.run(Some(level), "project", "exit 7");
        assert_eq!(output.status.code(), Some(7), "{level}: {output:?}");
        let output = surroundings.run(Some(level), "project", "kill -9 $$");
        assert_eq!(output.status.code(), Some(137), "{level}: {output:?}");
        let left = surroundings.run(Some("full"), "project", "setsid sleep 4242 & echo started");
        assert_eq!(left.stdout, b"started\n");
    }
    let sleeps = Command::new("pgrep").args(["-f", "sleep 4242"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&sleeps.stdout), "", "nothing is left");
}

#[test]
fn a_list_of_hosts_is_refused_where_it_cannot_be_kept_and_a_refused_host_is_reported() {
    if !has_sandbox() {
        return;
    }
    let mut surroundings = Surroundings::new(&[]);
    surroundings.sandbox_args = ["--host", "example.org"].map(str::to_owned).to_vec();
    let refused = surroundings.run(Some("basic"), "project", "echo started");
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert!(
        errors.contains("a list of hosts for the network needs the sandbox level `full`"),
        "{errors}"
    );
    assert!(errors.contains("use `network: true`"), "{errors}");
    assert!(refused.stdout.is_empty() && refused.status.code() != Some(0), "{refused:?}");
    let ask = "curl -s http://169.254.169.254/latest; curl -s --proxytunnel https://evil.example || echo $?; env";
    let answered = surroundings.run(Some("full"), "project", ask);
    let text = String::from_utf8_lossy(&answered.stdout);
    assert!(text.contains("agent-worker: `169.254.169.254:80` is not among the hosts"), "{text}");
    assert!(text.contains("add `169.254.169.254` to the hosts"), "{text}");
    for name in ["HTTP_PROXY=", "https_proxy=", "ALL_PROXY=", "NODE_USE_ENV_PROXY=1", "NO_PROXY="] {
        assert!(text.contains(name), "{text}");
    }
    let mut loud = Command::new(env!("CARGO_BIN_EXE_agent-worker"));
    loud.args(["sandbox", "--host", "example.org", "--", "curl", "-s", "http://other.example/"]);
    let shown = loud.current_dir(surroundings.base().join("project")).output().unwrap();
    let lines = String::from_utf8_lossy(&shown.stderr);
    assert!(lines.contains("the sandbox refused a connection: `other.example:80`"), "{lines}");
}

#[test]
fn processes_that_use_too_much_memory_together_are_killed_and_the_command_says_so() {
    if !has_sandbox() {
        return;
    }
    let mut surroundings = Surroundings::new(&[]);
    surroundings.sandbox_args = ["--memory", "128MiB"].map(str::to_owned).to_vec();
    let each = "python3 -c 'import os,time;b=os.urandom(60<<20);time.sleep(600)'";
    let script = format!("{each} & {each} & {each} & wait");
    for level in ["full", "basic"] {
        let began = Instant::now();
        let ended = surroundings.run(Some(level), "project", &script);
        let errors = String::from_utf8_lossy(&ended.stderr);
        assert!(
            errors.contains("more than the limit of 128MiB, and were killed"),
            "{level}: {errors}"
        );
        assert!(began.elapsed() < Duration::from_mins(1), "{level}");
    }
    let left = Command::new("pgrep").args(["-f", "urandom(60<<20)"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout), "", "nothing is left");
}
