//! An agent as the attacker: it hides its connections, takes the place of another agent, of the user or of the daemon.

use std::fs;

use crate::world::{World, is_alive, is_on_path, kill, record_skip, wait_for};

/// Sends requests with tokens of the disk on connections whose process is hard to find.
const HIDDEN_CONNECTIONS: &str = r#"
import array, ctypes, os, socket, threading, time
PORT, PROJECT = int("THE_PORT"), "THE_PROJECT"
os.chdir(PROJECT)

def connect(prepare=lambda link: None):
    link = socket.socket()
    prepare(link)
    link.settimeout(30)
    link.connect(("127.0.0.1", PORT))
    return link

def ask(link, name, method="GET", path="/agents", body=""):
    token = open(name).read().strip()
    link.sendall((f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        f"Authorization: Bearer {token}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}").encode())

def status(link):
    try:
        return link.recv(100).decode().split(" ")[1]
    except (OSError, IndexError):
        return "closed"

def note(what, link_status):
    with open("tried", "a") as file:
        file.write(f"{what} {link_status}\n")

def bound(link):
    link.setsockopt(socket.SOL_SOCKET, 25, b"lo\0")

def attempt(what, act):
    try:
        note(what, act())
    except OSError:
        note(what, "closed")

def on_interface():
    link = connect(bound)
    ask(link, "boss")
    return status(link)

def in_thread():
    found = []
    def body():
        assert ctypes.CDLL(None).unshare(0x400) == 0
        link = connect()
        ask(link, "boss")
        found.append(status(link))
    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    return found[0]

def in_flight():
    link = connect()
    here, there = socket.socketpair()
    here.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [link.fileno()]))])
    ask(link, "boss")
    link.close()
    # The daemon looks for the holder while no process has the descriptor. It cannot tell us when it has.
    time.sleep(1)
    _, control, _, _ = there.recvmsg(1, socket.CMSG_SPACE(4))
    back = array.array("i")
    back.frombytes(control[0][2])
    return status(socket.socket(fileno=back[0]))

def as_writer():
    link = connect()
    body = '{"target": "@sly", "project": "%s", "message": "hello"}' % PROJECT
    ask(link, "writer", "POST", "/messages", body)
    return status(link)

attempt("interface", on_interface)
attempt("thread", in_thread)
attempt("flight", in_flight)
attempt("writer", as_writer)
"#;

/// Returns false, and counts the test as skipped, if Python is missing.
fn has_python() -> bool {
    let found = is_on_path("python3");
    if !found {
        record_skip("an agent as the attacker (needs python3)");
    }
    found
}

fn read(world: &World, name: &str) -> String {
    fs::read_to_string(world.project().join(name)).unwrap_or_default()
}

#[test]
fn an_agent_uses_no_found_token_on_a_connection_that_hides_its_process() {
    if !has_python() {
        return;
    }
    let world = World::new();
    let mut daemon = world.daemon();
    for (name, allow) in [("boss", "read,approve"), ("writer", "read,send")] {
        world.file(name, &world.token(name, &["--allow", allow]));
    }
    let script = HIDDEN_CONNECTIONS
        .replace("THE_PORT", &world.port())
        .replace("THE_PROJECT", world.project().to_str().unwrap());
    let path = world.file("attack.py", &script);
    let yaml = format!(
        "name: sly\nagents:\n  a: {{ backend: mock, mock: [{{ run: 'python3 {}', say: tried }}] }}\nkickoff: '@a go'\n",
        path.display()
    );
    let file = world.file("sly.yaml", &yaml);
    let (code, envelope) = world.envelope(&["run", file.to_str().unwrap(), "--json"]);
    assert_eq!(code, 0, "{envelope}\n{}", world.log());
    assert_eq!(read(&world, "tried"), "interface 403\nthread 403\nflight 503\nwriter 403\n");
    kill(daemon.id(), "TERM");
    daemon.wait().unwrap();
}

/// Names the attempt of another agent in its environment, kills its own worker and then sends messages.
const FORGER: &str = r#"
import os, signal, socket, sys, time
PROJECT, SOCKET = "THE_PROJECT", "THE_SOCKET"
os.chdir(PROJECT)
def field(pid, name):
    with open(f"/proc/{pid}/{name}", "rb") as file:
        return file.read()
def parent(pid):
    return int(field(pid, "stat").decode().rsplit(")", 1)[1].split()[1])
def send():
    link = socket.socket(socket.AF_UNIX)
    link.settimeout(5)
    link.connect(SOCKET)
    body = '{"message": "I am the other"}'
    link.sendall((f"POST /messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n{body}").encode())
    return link.recv(100).decode().split(" ")[1]
if len(sys.argv) > 1:
    worker = int(sys.argv[1])
    with open("tried", "a") as tried:
        os.kill(worker, signal.SIGKILL)
        for _ in range(400):
            try:
                tried.write(send() + "\n")
                tried.flush()
            except (OSError, IndexError):
                pass
            time.sleep(0.002)
else:
    chain, pid = [], os.getpid()
    while pid > 1:
        chain.append(pid)
        pid = parent(pid)
    worker = next(pid for pid in chain if field(pid, "cmdline").endswith(b"worker\0"))
    own = os.environ["AGENT_WORKER_ATTEMPT"]
    ids = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            entries = field(pid, "environ").split(b"\0")
            if field(pid, "cmdline").endswith(b"worker\0"):
                ids |= {e.decode().split("=")[1] for e in entries if e.startswith(b"AGENT_WORKER_ATTEMPT=")}
        except OSError:
            pass
    other = next(id for id in ids if id in os.listdir("THE_RUN") and id != own)
    env = {"AGENT_WORKER_ATTEMPT": other}
    if os.fork() == 0:
        os.setsid()
        os.execve(sys.executable, [sys.executable, __file__, str(worker)], env)
    time.sleep(60)
"#;

#[test]
fn an_agent_that_names_the_attempt_of_another_does_not_speak_as_that_agent() {
    if !has_python() {
        return;
    }
    let world = World::with(&[
        ("AGENT_WORKER_PROCESS_TRACKING", "tree"),
        ("AGENT_WORKER_KILL_GRACE", "5s"),
    ]);
    let mut daemon = world.daemon();
    let yaml = format!(
        "name: sly\nagents:\n  \
         victim: {{ backend: mock, mock: [{{ run: 'touch {0}/up; sleep 600' }}] }}\n  \
         a: {{ backend: mock, mock: [{{ run: 'python3 {0}/forge.py' }}] }}\nkickoff: '@victim go'\n",
        world.project().display()
    );
    let file = world.file("sly.yaml", &yaml);
    assert_eq!(world.run(&["start", file.to_str().unwrap(), "--background"]).code, 0);
    wait_for("the victim", || world.project().join("up").exists().then_some(()));
    let run = world.list(&["runs", "--json"])[0]["run"].as_str().unwrap().to_owned();
    let script = FORGER
        .replace("THE_PROJECT", world.project().to_str().unwrap())
        .replace("THE_RUN", world.home().join("runs").join(run).to_str().unwrap())
        .replace("THE_SOCKET", world.home().join("daemon.sock").to_str().unwrap());
    world.file("forge.py", &script);
    assert_eq!(world.run(&["send", "a@sly", "go"]).code, 0);
    wait_for("attempts to speak", || (read(&world, "tried").lines().count() > 20).then_some(()));
    let said = world.run(&["peek", "@sly"]).stdout;
    assert!(!said.contains("I am the other"), "{said}\n{}", read(&world, "tried"));
    assert_eq!(world.run(&["stop", "@sly", "--now"]).code, 0);
    kill(daemon.id(), "TERM");
    daemon.wait().unwrap();
}

/// Creates tokens in a loop, from a process that has shed its environment, session and parents.
const TOKEN_MAKER: &str = r#"
import os, socket, time
os.chdir("THE_PROJECT")
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
with open("maker.part", "w") as file:
    file.write(str(os.getpid()))
os.rename("maker.part", "maker")
count = 0
while True:
    try:
        link = socket.socket(socket.AF_UNIX)
        link.settimeout(5)
        link.connect("THE_SOCKET")
        body = '{"name": "evil%d", "allow": ["approve"]}' % time.time_ns()
        link.sendall((f"POST /tokens HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n{body}").encode())
        link.recv(100)
        count += 1
        with open("count.part", "w") as file:
            file.write(str(count))
        os.rename("count.part", "count")
    except OSError:
        time.sleep(0.001)
"#;

#[test]
fn a_process_that_an_adopted_worker_leaves_is_not_the_user_before_it_is_ended() {
    if !has_python() {
        return;
    }
    let world = World::with(&[
        ("AGENT_WORKER_PROCESS_TRACKING", "tree"),
        ("AGENT_WORKER_KILL_GRACE", "200ms"),
    ]);
    let mut daemon = world.daemon();
    let socket = world.home().join("daemon.sock");
    let script = TOKEN_MAKER
        .replace("THE_PROJECT", world.project().to_str().unwrap())
        .replace("THE_SOCKET", socket.to_str().unwrap());
    let path = world.file("make.py", &script);
    let yaml = format!(
        "name: sly\nagents:\n  a: {{ backend: mock, mock: [{{ run: 'env -i python3 {}; sleep 600' }}] }}\nkickoff: '@a go'\n",
        path.display()
    );
    let file = world.file("sly.yaml", &yaml);
    assert_eq!(world.run(&["start", file.to_str().unwrap(), "--background"]).code, 0);
    let maker = wait_for("the maker", || read(&world, "maker").parse::<u32>().ok());
    let is_worker = |line: &str| line.trim_end().ends_with(" worker");
    let worker = world.processes().into_iter().find(|(_, line)| is_worker(line)).unwrap().0;
    kill(daemon.id(), "KILL");
    daemon.wait().unwrap();
    let mut next = world.daemon();
    let count = || read(&world, "count").parse::<u64>().unwrap_or_default();
    // Long enough for the first record of the tree.
    let before = count();
    wait_for("requests to the next daemon", || (count() > before + 200).then_some(()));
    kill(worker, "KILL");
    wait_for("the maker to be ended", || (!is_alive(maker)).then_some(()));
    let tokens = world.list(&["token", "list", "--json"]);
    assert!(tokens.as_array().unwrap().is_empty(), "{tokens}");
    assert_eq!(world.run(&["stop", "@sly", "--now"]).code, 0);
    kill(next.id(), "TERM");
    next.wait().unwrap();
}

#[test]
fn an_agent_cannot_be_the_daemon_of_its_own_home() {
    let world = World::new();
    let mut daemon = world.daemon();
    let binary = env!("CARGO_BIN_EXE_agent-worker");
    let run = format!(
        "cd {}; kill -9 {}; AGENT_WORKER_HOME={} AGENT_WORKER_PORT=0 timeout 20 {binary} daemon > said 2>&1; echo exit $? >> said",
        world.project().display(),
        daemon.id(),
        world.home().display()
    );
    let yaml = format!(
        "name: sly\nagents:\n  a: {{ backend: mock, mock: [{{ run: '{run}', say: tried }}] }}\nkickoff: '@a go'\n"
    );
    let file = world.file("sly.yaml", &yaml);
    world.run(&["start", file.to_str().unwrap(), "--background"]);
    let said =
        wait_for("its answer", || Some(read(&world, "said")).filter(|said| said.contains("exit")));
    daemon.wait().unwrap();
    assert!(said.contains("cannot be the daemon of its own team"), "{said}");
    let mut next = world.daemon();
    assert_eq!(world.run(&["stop", "@sly", "--now"]).code, 0);
    kill(next.id(), "TERM");
    next.wait().unwrap();
}
