//! Attempts to leave the sandbox, at each level, as root and as an unprivileged user, and without a sandbox: there every
//! attempt succeeds, so that a refusal is the sandbox's.

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
};

use rustix::process::getuid;

use crate::world::record_skip;

/// The text that an attempt prints when it succeeded.
const ESCAPED: &str = "ESCAPED";
/// Words that run a program as another user.
const AS_NOBODY: [&str; 4] =
    ["/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

/// Who can carry out an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    Nobody,
    Root,
    All,
}

/// The user who makes an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Account {
    Root,
    Unprivileged,
}

impl Reach {
    fn includes(self, account: Account) -> bool {
        match self {
            Self::Nobody => false,
            Self::Root => account == Account::Root,
            Self::All => true,
        }
    }
}

/// One attempt, as a shell command, and the users for which it succeeds.
struct Escape {
    name: &'static str,
    /// Folder below the base.
    folder: &'static str,
    script: &'static str,
    full: Reach,
    basic: Reach,
    off: Reach,
}

/// An attempt that both levels stop and that everybody can carry out without a sandbox.
const fn stopped(name: &'static str, script: &'static str) -> Escape {
    let folder = "project";
    Escape { name, folder, script, full: Reach::Nobody, basic: Reach::Nobody, off: Reach::All }
}

/// An attempt that only the level `full` stops.
const fn open_at_basic(name: &'static str, script: &'static str) -> Escape {
    Escape { basic: Reach::All, ..stopped(name, script) }
}

/// An attempt that only root can carry out without a sandbox.
const fn of_root(name: &'static str, script: &'static str) -> Escape {
    Escape { off: Reach::Root, ..stopped(name, script) }
}

/// Connects a socket and prints what the other end sends.
macro_rules! connect {
    ($family:literal, $kind:literal, $address:literal) => {
        concat!(
            "python3 -c 'import socket,os\ns=socket.socket(socket.",
            $family,
            ",socket.",
            $kind,
            ")\ns.settimeout(5)\ns.connect(",
            $address,
            ")\ns.send(b\"x\")\nprint(s.recv(100).decode())'"
        )
    };
}

/// Calls a function of the C library with a number and the bystander's pid, and prints the text if it returns 0 or more.
macro_rules! call {
    ($call:literal) => {
        concat!(
            "python3 -c 'import ctypes,os\nc=ctypes.CDLL(None)\npid=int(os.environ[\"BYSTANDER\"])\nr=",
            $call,
            "\nprint(\"ESCAPED\" if r>=0 else \"no\")'"
        )
    };
}

const ESCAPES: [Escape; 37] = [
    stopped("the daemon's database", "cat $BASE/state/agent-worker.db"),
    stopped("a run's token file", "cat $BASE/state/runs/1/mcp.token"),
    stopped("a key of ssh", "cat ~/.ssh/id_ed25519"),
    stopped("passwords of the network", "cat ~/.netrc"),
    of_root("passwords of the system", "grep -q '^root:' /etc/shadow && echo ESCAPED"),
    stopped("read by an absolute path", "cat $BASE/outside/file"),
    stopped("write by an absolute path", "echo x >> $BASE/outside/log && echo ESCAPED"),
    stopped("read through a link", "ln -sf $BASE/outside/file l; cat l"),
    stopped("write through a link", "ln -sf $BASE/outside/log l; echo x >> l && echo ESCAPED"),
    stopped("hard link", "rm -f h; ln $BASE/outside/file h && cat h"),
    stopped("list the folder above", "ls .. | grep -q outside && echo ESCAPED"),
    stopped("the root of a process", "cat /proc/$BYSTANDER/root$BASE/outside/file"),
    stopped("the environment of a process", "tr '\\0' '\\n' < /proc/$BYSTANDER/environ"),
    stopped("memory of a process", "head -c 0 /proc/$BYSTANDER/mem && echo ESCAPED"),
    stopped(
        "trace a process",
        call!(
            "c.ptrace(16,pid,0,0)\nos.waitpid(-1,os.WNOHANG|0x40000000) if r==0 else 0\nc.ptrace(17,pid,0,0)"
        ),
    ),
    stopped("signal a process", "kill -0 $BYSTANDER && echo ESCAPED"),
    stopped(
        "connect by address",
        connect!("AF_INET", "SOCK_STREAM", "(\"127.0.0.1\",int(os.environ[\"PORT\"]))"),
    ),
    stopped(
        "connect by name",
        connect!("AF_INET", "SOCK_STREAM", "(\"localhost\",int(os.environ[\"PORT\"]))"),
    ),
    stopped(
        "connect over IPv6",
        connect!("AF_INET6", "SOCK_STREAM", "(\"::ffff:127.0.0.1\",int(os.environ[\"PORT\"]))"),
    ),
    stopped(
        "UDP",
        connect!("AF_INET", "SOCK_DGRAM", "(\"127.0.0.1\",int(os.environ[\"UDP_PORT\"]))"),
    ),
    stopped(
        "abstract socket",
        connect!("AF_UNIX", "SOCK_STREAM", "\"\\0\"+os.environ[\"ABSTRACT\"]"),
    ),
    open_at_basic(
        "the daemon's socket",
        connect!("AF_UNIX", "SOCK_STREAM", "os.environ[\"BASE\"]+\"/state/daemon.sock\""),
    ),
    open_at_basic(
        "a socket such as docker's",
        connect!("AF_UNIX", "SOCK_STREAM", "os.environ[\"BASE\"]+\"/outside/docker.sock\""),
    ),
    stopped("vsock", call!("c.socket(40,1,0)")),
    of_root("packet socket", call!("c.socket(17,3,0)")),
    of_root("raw socket", call!("c.socket(2,3,1)")),
    stopped("netlink socket for devices", call!("c.socket(16,3,15)")),
    stopped("user namespace by unshare", call!("c.unshare(0x10000000)")),
    stopped(
        "user namespace by clone",
        call!("c.syscall(56,0x10000011,0,0,0,0)\nos._exit(0) if r==0 else 0"),
    ),
    of_root("settings of the kernel", call!("os.open(\"/proc/sys/kernel/core_pattern\",1)")),
    open_at_basic("hooks of git", "echo x > .git/hooks/post-commit && echo ESCAPED"),
    open_at_basic(
        "settings of git",
        "git config core.fsmonitor x && git config --unset core.fsmonitor && echo ESCAPED",
    ),
    open_at_basic(
        "another folder for git",
        "echo . > .git/commondir && rm .git/commondir && echo ESCAPED",
    ),
    open_at_basic("move the git folder", "mv .git moved && mv moved .git && echo ESCAPED"),
    open_at_basic(
        "settings of agents",
        "mkdir -p .claude && echo '{}' > .claude/settings.json && rm -r .claude && echo ESCAPED",
    ),
    Escape {
        folder: "plain",
        ..open_at_basic(
            "create a git folder",
            "mkdir .git && touch .git/config && rm -r .git && echo ESCAPED",
        )
    },
    stopped(
        "a memory bomb",
        "python3 -c 'import mmap\nmmap.mmap(-1,5<<30,flags=0x4022)\nprint(\"ESCAPED\")'",
    ),
];

const WORKTREE_ESCAPES: [Escape; 3] = [
    Escape {
        folder: "tree",
        ..stopped("hooks of a worktree", "echo x > $BASE/project/.git/hooks/x && echo ESCAPED")
    },
    Escape {
        folder: "tree",
        ..stopped("settings of a worktree", "git config user.name b && echo ESCAPED")
    },
    Escape {
        folder: "tree",
        ..open_at_basic("the pointer of a worktree", "mv .git x && mv x .git && echo ESCAPED")
    },
];

/// A fork bomb of processes that wait. In a sandbox of root the number is not limited, but all end with it.
const FORK_BOMB: Escape = Escape {
    name: "a fork bomb",
    folder: "project",
    script: "python3 -c 'import os,signal\nn=[]\ntry:\n  while len(n)<1200:\n    p=os.fork()\n    if p==0: signal.pause()\n    n.append(p)\n  print(\"ESCAPED\")\nexcept OSError: pass\nfinally:\n  for p in n: os.kill(p,9)'",
    full: Reach::Root,
    basic: Reach::All,
    off: Reach::All,
};

/// The machine that the attempts see: a home folder, a state folder of the daemon, repositories, servers and a process.
struct Surroundings {
    folder: tempfile::TempDir,
    words: Vec<&'static str>,
    bystander: Child,
    port: u16,
    udp_port: u16,
    abstract_name: String,
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
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = tcp.local_addr().unwrap().port();
        thread::spawn(move || tcp.incoming().for_each(|stream| answer(stream.unwrap())));
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
        let new = Self { folder, words, bystander, port, udp_port, abstract_name };
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
            wrapped.args(["sandbox", "--quiet", "--level", level]);
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
    let surroundings = Surroundings::new(words);
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
