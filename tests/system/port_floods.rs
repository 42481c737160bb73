//! Floods of connections: the daemon's port and a worker's tool server stay usable.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    process::Command,
    time::Duration,
};

use crate::world::{World, is_on_path, kill, record_skip, wait_for};

/// More than the daemon accepts at once.
const VISITORS: usize = 300;
/// Less than the daemon's timeout for a silent connection.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(9);

/// Sends a GET request with a token; returns the connection and the status of the response.
fn get(port: &str, token: &str, path: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    stream.set_read_timeout(Some(ANSWER_TIMEOUT)).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\nAuthorization: Bearer {token}\r\n\r\n"
    )
    .unwrap();
    let mut head = [0; 12];
    let read = stream.read_exact(&mut head);
    read.unwrap_or_else(|error| panic!("no response to {path}: {error}"));
    (stream, String::from_utf8_lossy(&head[9..]).into_owned())
}

#[test]
fn silent_visitors_do_not_keep_a_client_with_a_token_out() {
    let world = World::new();
    let mut daemon = world.daemon();
    let created = world.json(&["token", "create", "ci", "--json"]);
    let (token, port) = (created["token"].as_str().unwrap(), world.port());
    let visitors: Vec<TcpStream> =
        (0..VISITORS).map(|_| TcpStream::connect(format!("127.0.0.1:{port}")).unwrap()).collect();
    let (_client, status) = get(&port, token, "/agents");
    assert_eq!(status, "200");
    drop(visitors);
    kill(daemon.id(), "TERM");
    daemon.wait().unwrap();
}

#[test]
fn a_token_has_a_limited_number_of_streams() {
    let world = World::new();
    let mut daemon = world.daemon();
    world.file("team.yaml", "name: team\nagents: { owl: { backend: mock } }\n");
    assert_eq!(world.run(&["up", "team.yaml"]).code, 0);
    let token = |name: &str| {
        world.json(&["token", "create", name, "--json"])["token"].as_str().unwrap().to_owned()
    };
    let (greedy, modest, port) = (token("greedy"), token("modest"), world.port());
    let stream = |token: &str| get(&port, token, "/events?target=@team");
    let mut open: Vec<_> = (0..32).map(|_| stream(&greedy)).collect();
    assert!(open.iter().all(|(_, status)| status == "200"));
    assert_eq!(stream(&greedy).1, "429");
    assert_eq!(stream(&modest).1, "200", "another token has its own streams");
    open.pop();
    wait_for("a free place", || (stream(&greedy).1 == "200").then_some(()));
    drop(open);
    kill(daemon.id(), "TERM");
    daemon.wait().unwrap();
}

#[test]
fn a_token_has_a_limited_number_of_connections() {
    let world = World::new();
    let mut daemon = world.daemon();
    let token = |name: &str| {
        world.json(&["token", "create", name, "--json"])["token"].as_str().unwrap().to_owned()
    };
    let (greedy, modest, port) = (token("greedy"), token("modest"), world.port());
    let connect = |token: &str| get(&port, token, "/agents");
    let mut open: Vec<_> = (0..64).map(|_| connect(&greedy)).collect();
    assert!(open.iter().all(|(_, status)| status == "200"));
    assert_eq!(connect(&greedy).1, "429");
    assert_eq!(connect(&modest).1, "200", "another token has its own connections");
    open.pop();
    wait_for("a free place", || (connect(&greedy).1 == "200").then_some(()));
    drop(open);
    kill(daemon.id(), "TERM");
    daemon.wait().unwrap();
}

/// Opens 100 connections to the socket and counts those that are served.
const SOCKET_FLOOD: &str = r#"
import socket
links = []
for _ in range(100):
    link = socket.socket(socket.AF_UNIX)
    link.settimeout(30)
    link.connect("SOCKET")
    links.append(link)
served = 0
for link in links:
    try:
        link.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        served += link.recv(100).startswith(b"HTTP/1.1 200")
    except OSError:
        pass
with open("served", "w") as file:
    file.write(str(served))
"#;

#[test]
fn an_agent_has_a_limited_number_of_connections_to_the_socket() {
    if !is_on_path("python3") {
        record_skip("a flood of the socket (needs python3)");
        return;
    }
    let world = World::new();
    let mut daemon = world.daemon();
    let socket = world.home().join("daemon.sock");
    world.file("flood.py", &SOCKET_FLOOD.replace("SOCKET", socket.to_str().unwrap()));
    let run = format!("cd {} && python3 flood.py", world.project().display());
    let yaml = format!(
        "name: sly\nagents:\n  a:\n    backend: mock\n    mock:\n      - {{ run: '{run}', say: tried }}\nkickoff: '@a go'\n"
    );
    let file = world.file("sly.yaml", &yaml);
    let (code, envelope) = world.envelope(&["run", file.to_str().unwrap(), "--json"]);
    assert_eq!(code, 0, "{envelope}\n{}", world.log());
    let served = fs::read_to_string(world.project().join("served")).unwrap();
    let served: usize = served.parse().unwrap();
    // The worker itself has connections too.
    assert!((32..=64).contains(&served), "{served}");
    kill(daemon.id(), "TERM");
    daemon.wait().unwrap();
}

/// A `command` agent that calls a tool after its server was flooded.
const AGENT: &str = r#"#!/bin/bash
cat > task
token=${AGENT_WORKER_MCP_TOKEN:-$(cat "$AGENT_WORKER_MCP_TOKEN_FILE")}
echo "$AGENT_WORKER_MCP_URL" > url.part && mv url.part url
for _ in $(seq 1000); do [ -e flooded ] && break; sleep 0.05; done
curl --silent --max-time 9 --header "Authorization: Bearer $token" --header 'Content-Type: application/json' \
  --data '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"channel_send","arguments":{"message":"I am here"}}}' "$AGENT_WORKER_MCP_URL" > called
touch over
echo done
"#;

#[test]
fn visitors_of_a_workers_tool_server_do_not_exhaust_it() {
    let world = World::new();
    let binary = env!("CARGO_BIN_EXE_agent-worker");
    let mut command: Command = world.command_of(
        "/bin/sh".as_ref(),
        &["-c", &format!("ulimit -n 300; exec {binary} daemon --announce")],
    );
    command.current_dir(world.project());
    let mut daemon = world.announced(command);
    world.file("agent.sh", AGENT);
    let file = world.file(
        "team.yaml",
        "name: team\nagents:\n  a: { backend: command, command: [bash, agent.sh] }\nkickoff: '@a go'\n",
    );
    assert_eq!(world.run(&["start", file.to_str().unwrap(), "--background"]).code, 0);
    let text = |name: &str| fs::read_to_string(world.project().join(name)).ok();
    let url = wait_for("the address of the tools", || text("url"));
    let address = url.trim().trim_start_matches("http://").trim_end_matches("/mcp");
    let visitors: Vec<_> = (0..VISITORS).map(|_| TcpStream::connect(address)).collect();
    world.file("flooded", "");
    wait_for("the call", || text("over"));
    let called = text("called").unwrap_or_default();
    assert!(called.contains("\"isError\":false"), "{called:?}");
    drop(visitors);
    kill(daemon.id(), "TERM");
    daemon.wait().unwrap();
}
