//! Other users of the machine, with a way to the socket that they should not have.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::Command,
};

use serde_json::Value;

use crate::world::{World, kill, skipped};

/// Somebody who asks at the socket: the words before `curl` make them who they are.
struct Asker<'a> {
    words: &'a [&'a str],
    socket: &'a Path,
}

impl Asker<'_> {
    /// The status and the body of the answer.
    fn ask(&self, method: &str, path: &str, body: &str) -> (String, Value) {
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
        skipped("another user at the socket (needs root, setpriv, curl)");
        return;
    }
    let world = World::new();
    let mut daemon = world.daemon();
    let socket = world.home().join("daemon.sock");
    let folder = world.home().parent().unwrap().to_owned();
    for (path, mode) in [(&folder, 0o755), (&world.home(), 0o755), (&socket, 0o666)] {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    let ourselves = Asker { words: &[], socket: &socket };
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let stranger = Asker { words: &nobody, socket: &socket };
    for (method, path, body) in [
        ("GET", "/agents?all=true", ""),
        ("GET", "/runs?all=true", ""),
        ("GET", "/messages?target=@team", ""),
        ("GET", "/events?target=@team", ""),
        ("GET", "/tokens", ""),
        ("POST", "/tokens", r#"{"name": "mine"}"#),
        ("POST", "/messages", r#"{"target": "@team", "message": "x"}"#),
        ("POST", "/mcp", "{}"),
        ("POST", "/shutdown", r#"{"mode": "now"}"#),
    ] {
        let (status, problem) = stranger.ask(method, path, body);
        assert_eq!((&*status, &problem["code"]), ("401", &"unauthorized".into()), "{path}");
    }
    let (status, health) = stranger.ask("GET", "/health", "");
    let told: Vec<&str> = health.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!((&*status, told), ("200", vec!["status", "version"]));
    // The same question in the same way, from the user.
    let (status, agents) = ourselves.ask("GET", "/agents?all=true", "");
    assert_eq!((&*status, agents), ("200", Value::Array(Vec::new())));
    kill(daemon.id(), "TERM");
    assert!(daemon.wait().unwrap().success());
}

#[test]
fn an_agent_of_one_home_is_nobody_at_the_daemon_of_another() {
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
    let refused = "error: this process belongs to an agent or a setup command of another daemon, and is nobody here\n\
                   hint: an agent speaks with the daemon that started it; leave AGENT_WORKER_HOME as it is\n";
    assert_eq!(tried, refused.repeat(4));
    // Nobody was made there, and its user is who it was.
    let agents = theirs.json(&["ls", "--all", "--json"]);
    assert_eq!(agents, Value::Array(Vec::new()));
    kill(daemon.id(), "TERM");
    assert!(daemon.wait().unwrap().success());
}
