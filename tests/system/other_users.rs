//! Other users of the machine, with access to the socket that they should not have.

use std::{
    fs::{self, Permissions},
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use crate::world::{World, kill, record_skip};

/// A caller at the socket; the words before `curl` select its user.
struct SocketClient<'a> {
    words: &'a [&'a str],
    socket: &'a Path,
}

impl SocketClient<'_> {
    /// Returns status and body of the response.
    fn request(&self, method: &str, path: &str, body: &str) -> (String, Value) {
        let mut words = self.words.iter().copied().chain(["curl"]);
        let output = Command::new(words.next().unwrap())
            .args(words)
            .args(["--silent", "--show-error", "--max-time", "30", "--unix-socket"])
            .arg(self.socket)
            .args(["--request", method, "--header", "Content-Type: application/json"])
            .args(["--data", body, "--write-out", "\n%{http_code}"])
            .arg(format!("http://localhost{path}"))
            .current_dir("/")
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let (body, status) = text.rsplit_once('\n').unwrap();
        (status.to_owned(), serde_json::from_str(body).unwrap_or_default())
    }
}

#[test]
fn another_user_who_can_open_the_socket_learns_that_it_is_there_and_nothing_else() {
    let is_root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    let tools = ["setpriv", "curl"].map(|tool| Path::new("/usr/bin").join(tool).exists());
    if !is_root || tools.contains(&false) {
        record_skip("another user at the socket (needs root, setpriv, curl)");
        return;
    }
    let world = World::new();
    let mut daemon = world.daemon();
    let socket = world.home().join("daemon.sock");
    let folder = world.home().parent().unwrap().to_owned();
    for (path, mode) in [(&folder, 0o755), (&world.home(), 0o755), (&socket, 0o666)] {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    let ourselves = SocketClient { words: &[], socket: &socket };
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let stranger = SocketClient { words: &nobody, socket: &socket };
    for (method, path, body) in [
        ("GET", "/agents", ""),
        ("GET", "/runs", ""),
        ("GET", "/messages?target=@team", ""),
        ("GET", "/events?target=@team", ""),
        ("GET", "/tokens", ""),
        ("POST", "/tokens", r#"{"name": "mine"}"#),
        ("POST", "/messages", r#"{"target": "@team", "message": "x"}"#),
        ("POST", "/mcp", "{}"),
        ("POST", "/shutdown", r#"{"mode": "now"}"#),
    ] {
        let (status, problem) = stranger.request(method, path, body);
        assert_eq!((&*status, &problem["code"]), ("401", &"unauthorized".into()), "{path}");
    }
    let (status, health) = stranger.request("GET", "/health", "");
    let told: Vec<&str> = health.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!((&*status, told), ("200", vec!["status", "version"]));
    // The same request in the same way, from the user.
    let (status, agents) = ourselves.request("GET", "/agents", "");
    assert_eq!((&*status, agents), ("200", json!({"items": [], "next": null})));
    kill(daemon.id(), "TERM");
    assert!(daemon.wait().unwrap().success());
}

#[test]
fn an_agent_of_one_home_is_refused_by_the_daemon_of_another() {
    let (ours, theirs) = (World::new(), World::new());
    let mut daemon = theirs.daemon();
    let binary = env!("CARGO_BIN_EXE_agent-worker");
    let home = theirs.home();
    let ask = format!("env -i AGENT_WORKER_HOME={} {binary} new intruder -b mock", home.display());
    let script = format!(
        "exec > tried 2>&1\n{ask}\nsetsid --wait {ask}\n(setsid bash -c '{ask}; echo done > forked' &)\nuntil [ -e \
         forked ]; do sleep 0.02; done\nAGENT_WORKER_HOME={} {binary} ls\n",
        home.display()
    );
    ours.file("try.sh", &script);
    let yaml = "name: team\nagents:\n  crow: { backend: mock, mock: [{ run: 'bash try.sh; true', say: tried }] }\nkickoff: '@crow go'\n";
    ours.file("team.yaml", yaml);
    let (code, envelope) = ours.envelope(&["run", "team.yaml", "--json"]);
    assert_eq!(code, 0, "{envelope}\n{}", ours.log());
    let tried = fs::read_to_string(ours.project().join("tried")).unwrap();
    let refused = "error: this process belongs to an agent or a setup command of another daemon, and this daemon does not accept it\n\
                   hint: an agent talks to the daemon that started it; leave AGENT_WORKER_HOME as it is\n";
    assert_eq!(tried, refused.repeat(4));
    // No agent was created there, and the home still belongs to its user.
    let agents = theirs.list(&["ls", "--all", "--json"]);
    assert_eq!(agents, Value::Array(Vec::new()));
    kill(daemon.id(), "TERM");
    assert!(daemon.wait().unwrap().success());
}

/// Listens at the daemon's port, answers every request with success, and records all input.
fn impostor() -> (u16, Arc<Mutex<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let heard = Arc::new(Mutex::new(String::new()));
    let notes = Arc::clone(&heard);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let notes = Arc::clone(&notes);
            thread::spawn(move || serve_impostor(stream, &notes));
        }
    });
    (port, heard)
}

fn serve_impostor(mut stream: TcpStream, heard: &Mutex<String>) {
    heard.lock().unwrap().push_str("somebody came\n");
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(n @ 1..) = stream.read(&mut bytes) {
        heard.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..n]));
        let body = json!({"status": "ok", "version": env!("CARGO_PKG_VERSION")}).to_string();
        let begins = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length:";
        write!(stream, "{begins} {}\r\n\r\n{body}", body.len()).ok();
    }
}

/// Sends one call through the bridge, as a program with its own token does.
fn call_through_bridge(world: &World) -> Value {
    let mut command = world.command(&["mcp", "--client", "editor"]);
    let mut bridge = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let send =
        json!({"name": "channel_send", "arguments": {"target": "@team", "message": "sotto voce"}});
    let said = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": send});
    writeln!(bridge.stdin.as_mut().unwrap(), "{said}").unwrap();
    let mut answer = String::new();
    BufReader::new(bridge.stdout.as_mut().unwrap()).read_line(&mut answer).unwrap();
    drop(bridge.stdin.take());
    bridge.wait().unwrap();
    serde_json::from_str(&answer).unwrap()
}

#[test]
fn a_program_that_has_the_daemons_port_receives_no_requests_for_the_daemon() {
    let (port, heard) = impostor();
    let card =
        json!({"pid": std::process::id(), "port": port, "version": env!("CARGO_PKG_VERSION")});
    let world = World::new();
    let pretends = || fs::write(world.home().join("daemon.json"), card.to_string()).unwrap();
    fs::create_dir(world.home()).unwrap();
    fs::set_permissions(world.home(), Permissions::from_mode(0o700)).unwrap();
    world.file(
        "team.yaml",
        "name: team\nagents: { owl: { backend: mock, mock: [{ say: Hoo. }] } }\n",
    );
    // First no daemon runs, and its file is not trusted; then a daemon at another port runs.
    pretends();
    let said = world.run(&["up", "team.yaml"]);
    assert_eq!(said.code, 0, "{said:?}\n{}", world.log());
    let token = world.json(&["token", "create", "ci", "--json"])["token"].clone();
    assert!(!token.as_str().unwrap().is_empty());
    for line in [
        "ls",
        "status",
        "doctor",
        "send @team sotto-voce",
        "ask owl@team sotto-voce",
        "token list",
        "daemon status",
    ] {
        pretends();
        let said = world.run(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(said.code, 0, "{line}: {said:?}");
    }
    let sent = call_through_bridge(&world);
    assert_eq!(sent["result"]["structuredContent"]["instance"], "team", "{sent}");
    pretends();
    assert_eq!(world.run(&["daemon", "stop"]).code, 0);
    assert_eq!(*heard.lock().unwrap(), "", "nobody came, and nothing was said");
    // Proves that the impostor records input: this is the way in which any text would arrive there.
    TcpStream::connect(("127.0.0.1", port)).unwrap().write_all(b"sotto voce").unwrap();
    crate::world::wait_for("the impostor", || {
        heard.lock().unwrap().ends_with("sotto voce").then_some(())
    });
}
