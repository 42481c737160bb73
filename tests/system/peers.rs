//! Processes at the other end of a TCP connection or of the socket, and the tokens that they may use.

use std::{fs, path::Path, process::Command};

use crate::world::{World, kill, record_skip, wait_for};

/// Returns false, and counts the test as skipped, if a program is missing.
fn has_programs(programs: &[&str], untried: &str) -> bool {
    let found = programs.iter().all(|program| Path::new("/usr/bin").join(program).exists());
    if !found {
        record_skip(untried);
    }
    found
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().unwrap().stdout == b"0\n"
}

/// Returns the status of `GET /health` at the port, as another user; `000` if the connection was closed.
fn health_as_other_user(port: &str) -> String {
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "curl", "--silent"])
        .args(["--output", "/dev/null", "--max-time", "30", "--write-out", "%{http_code}"])
        .arg(format!("http://127.0.0.1:{port}/health"))
        .current_dir("/")
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_port_refuses_other_users_unless_they_are_allowed() {
    let untried = "another user at the port (needs root, setpriv, curl)";
    if !is_root() {
        record_skip(untried);
        return;
    }
    if !has_programs(&["setpriv", "curl"], untried) {
        return;
    }
    for (allowed, expected) in [("", "000"), ("65533", "000"), ("65533,65534", "200")] {
        let world = World::new();
        let env: &[_] =
            if allowed.is_empty() { &[] } else { &[("AGENT_WORKER_ALLOW_UID", allowed)] };
        let mut daemon = world.daemon_with(env);
        assert_eq!(health_as_other_user(&world.port()), expected, "{allowed:?}");
        kill(daemon.id(), "TERM");
        daemon.wait().unwrap();
    }
}

/// Connects to the socket, leaves the connection to a child that waits for the file `go`, and ends.
const PID_DONOR: &str = r#"
import os, socket, time
link = socket.socket(socket.AF_UNIX)
link.connect("SOCKET")
if os.fork() == 0:
    os.setsid()
    for _ in range(3000):
        if os.path.exists("go"):
            break
        time.sleep(0.01)
    link.sendall(b"GET /agents HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    with open("answer.part", "w") as answer:
        answer.write(link.recv(100).decode().split(" ")[1])
    os.rename("answer.part", "answer")
os._exit(0)
"#;

/// Starts processes until one has this pid.
fn take_pid(pid: u32) -> Option<std::process::Child> {
    for _ in 0..200 {
        fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).ok()?;
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        if child.id() == pid {
            return Some(child);
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    None
}

#[test]
fn a_connection_is_not_the_users_because_the_pid_of_its_process_is_a_users_process_now() {
    let untried = "a pid that is used again (needs root, python3, ns_last_pid)";
    if !is_root() || !Path::new("/proc/sys/kernel/ns_last_pid").exists() {
        record_skip(untried);
        return;
    }
    if !has_programs(&["python3"], untried) {
        return;
    }
    let world = World::new();
    let mut daemon = world.daemon();
    let socket = world.home().join("daemon.sock");
    // The daemon accepts the connection only after the process that made it was replaced.
    kill(daemon.id(), "STOP");
    let script = PID_DONOR.replace("SOCKET", socket.to_str().unwrap());
    let mut donor =
        Command::new("python3").args(["-c", &script]).current_dir(world.project()).spawn().unwrap();
    let pid = donor.id();
    assert!(donor.wait().unwrap().success());
    let mut heir = take_pid(pid).expect("the pid can be taken");
    kill(daemon.id(), "CONT");
    world.file("go", "");
    let answer = wait_for("an answer", || fs::read_to_string(world.project().join("answer")).ok());
    heir.kill().unwrap();
    heir.wait().unwrap();
    assert_eq!(answer, "401", "the connection has no right without a token");
    kill(daemon.id(), "TERM");
    daemon.wait().unwrap();
}

/// Uses a token as an agent could: at the port, at the socket, without its environment, and from a process whose parent
/// connected and ended.
const TOKEN_THIEF: &str = r#"#!/bin/bash
cd PROJECT
status() { curl --silent --output /dev/null --max-time 30 --write-out '%{http_code}' --header "Authorization: Bearer $(cat $1)" "${@:2}"; }
note() { echo "$1 $2" >> tried; }
export -f status
path='agents'
note port-boss "$(status boss http://127.0.0.1:PORT/$path)"
note port-boss-fork "$(env -i PATH="$PATH" setsid --wait bash -c "$(declare -f status); status boss http://127.0.0.1:PORT/$path")"
note port-reader "$(status reader http://127.0.0.1:PORT/$path)"
note socket-boss "$(status boss --unix-socket SOCKET http://localhost/$path)"
note socket-reader "$(status reader --unix-socket SOCKET http://localhost/$path)"
python3 - <<'END'
import os, socket, time
link = socket.socket(socket.AF_UNIX)
if os.fork() == 0:
    link.connect("SOCKET")
    # The process that connected ends; the process that speaks was never at the socket.
    parent = os.getpid()
    if os.fork() == 0:
        while os.getppid() == parent:
            time.sleep(0.01)
        token = open("boss").read().strip()
        link.sendall(("GET /agents HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer %s\r\n\r\n" % token).encode())
        with open("orphan.part", "w") as answer:
            answer.write(link.recv(100).decode().split(" ")[1])
        os.rename("orphan.part", "orphan")
    os._exit(0)
END
for _ in $(seq 500); do [ -e orphan ] && break; sleep 0.05; done
case "$(cat orphan)" in 403|503) note socket-orphan refused;; *) note socket-orphan "$(cat orphan)";; esac
"#;

#[test]
fn an_agent_cannot_decide_with_a_token_that_it_finds_on_disk() {
    if !has_programs(&["curl", "python3"], "stolen tokens (needs curl, python3)") {
        return;
    }
    let world = World::new();
    let mut daemon = world.daemon();
    for (name, allow) in [("boss", "read,approve"), ("reader", "read")] {
        let created = world.json(&["token", "create", name, "--allow", allow, "--json"]);
        world.file(name, created["token"].as_str().unwrap());
    }
    let socket = world.home().join("daemon.sock");
    let script = TOKEN_THIEF
        .replace("PROJECT", world.project().to_str().unwrap())
        .replace("PORT", &world.port())
        .replace("SOCKET", socket.to_str().unwrap());
    world.file("try.sh", &script);
    let yaml = "name: sly\nagents:\n  a:\n    backend: mock\n    mock:\n      - { run: bash try.sh, say: tried }\nkickoff: '@a go'\n";
    let file = world.file("sly.yaml", yaml);
    let (code, envelope) = world.envelope(&["run", file.to_str().unwrap(), "--json"]);
    assert_eq!(code, 0, "{envelope}\n{}", world.log());
    let tried = fs::read_to_string(world.project().join("tried")).unwrap();
    let expected = "port-boss 403\nport-boss-fork 403\nport-reader 200\n\
                    socket-boss 403\nsocket-reader 403\nsocket-orphan refused\n";
    assert_eq!(tried, expected);
    // The person who owns the token uses it at both places.
    for arguments in [
        &["http://127.0.0.1:PORT/agents"][..],
        &["--unix-socket", "SOCKET", "http://localhost/agents"],
    ] {
        let token = fs::read_to_string(world.project().join("boss")).unwrap();
        let arguments = arguments.iter().map(|argument| {
            argument.replace("PORT", &world.port()).replace("SOCKET", socket.to_str().unwrap())
        });
        let status = Command::new("curl")
            .args(["--silent", "--output", "/dev/null", "--write-out", "%{http_code}"])
            .args(["--header", &format!("Authorization: Bearer {token}")])
            .args(arguments)
            .output()
            .unwrap();
        assert_eq!(status.stdout, b"200", "{status:?}");
    }
    kill(daemon.id(), "TERM");
    daemon.wait().unwrap();
}

/// A `command` agent that calls a tool, says where its tools are, and stays until it is asked to end.
const VICTIM: &str = r#"#!/bin/bash
cd PROJECT
cat > task
token=${AGENT_WORKER_MCP_TOKEN:-$(cat "$AGENT_WORKER_MCP_TOKEN_FILE")}
call() { curl --silent --max-time 30 --header "Authorization: Bearer $token" --header 'Content-Type: application/json' \
  --data '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"channel_send","arguments":{"message":"'"$1"'"}}}' "$AGENT_WORKER_MCP_URL"; }
call "my own words" > own
env > environment
for _ in $(seq 1000); do [ -e stolen ] && break; sleep 0.05; done
echo done
"#;

/// Reads the token of another agent's tool server from its process, or from the file that the process names.
const THIEF: &str = r#"#!/bin/bash
cd PROJECT
for _ in $(seq 1000); do [ -s own ] && break; sleep 0.05; done
for pid in $(ls /proc | grep -E '^[0-9]+$'); do
  found=$(tr '\0' '\n' < /proc/$pid/environ 2> /dev/null | grep '^AGENT_WORKER_MCP_')
  [ -n "$found" ] && tr '\0' '\n' < /proc/$pid/environ | grep -q "^AGENT_WORKER_HOME=HOMEFOLDER$" && break
done
eval "$found"
token=${AGENT_WORKER_MCP_TOKEN:-$(cat "$AGENT_WORKER_MCP_TOKEN_FILE")}
[ -n "$token" ] && echo found > token-found
curl --silent --output /dev/null --write-out '%{http_code}' --max-time 30 --header "Authorization: Bearer $token" --header 'Content-Type: application/json' \
  --data '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"channel_send","arguments":{"message":"words of a thief"}}}' \
  "$AGENT_WORKER_MCP_URL" > stolen.part
mv stolen.part stolen
"#;

#[test]
fn an_agent_that_finds_the_tool_token_of_another_cannot_speak_as_that_agent() {
    if !has_programs(&["curl"], "a stolen tool token (needs curl)") {
        return;
    }
    let world = World::new();
    let project = world.project();
    let with_script = |script: &str| {
        let script = script.replace("PROJECT", project.to_str().unwrap());
        script.replace("HOMEFOLDER", world.home().to_str().unwrap())
    };
    world.file("victim.sh", &with_script(VICTIM));
    world.file("thief.sh", &with_script(THIEF));
    let yaml = "name: team\nagents:\n  victim: { backend: command, command: [bash, victim.sh] }\n  \
                thief:\n    backend: mock\n    mock:\n      - { run: bash thief.sh, say: tried }\n\
                kickoff: '@victim @thief go'\n";
    let file = world.file("team.yaml", yaml);
    let (code, envelope) = world.envelope(&["run", file.to_str().unwrap(), "--json"]);
    assert_eq!(code, 0, "{envelope}\n{}", world.log());
    let text = |name: &str| fs::read_to_string(project.join(name)).unwrap_or_default();
    assert_eq!((&*text("token-found"), &*text("stolen")), ("found\n", "000"), "{}", text("own"));
    let read = world.json(&["peek", "@team", "-n", "200", "--json"]);
    let said = |words: &str| {
        let messages = read["items"].as_array().unwrap().iter();
        messages.filter(|message| message["body"] == words).count()
    };
    assert_eq!((said("my own words"), said("words of a thief")), (1, 0), "{read}");
    let environment = text("environment");
    assert!(!environment.contains("AGENT_WORKER_MCP_TOKEN="), "{environment}");
    wait_for("the end of the agents", || {
        let daemon = world.daemon_pid();
        world.processes().iter().all(|(pid, _)| Some(*pid) == daemon).then_some(())
    });
}
