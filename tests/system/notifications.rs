//! Notifications of a person: a command, a webhook and the desktop, across restarts, and never twice without a kill.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    os::unix::fs::PermissionsExt as _,
    sync::{Arc, Mutex},
    thread,
};

use serde_json::Value;

use crate::{
    terminal::Terminal,
    world::{World, kill, wait_for},
};

/// A webhook receiver on loopback that answers with a list of statuses, the last one again and again.
struct Receiver {
    port: u16,
    requests: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Receiver {
    fn with_statuses(statuses: &[&str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let statuses: Vec<String> = statuses.iter().map(|status| (*status).to_owned()).collect();
        let seen = Arc::clone(&requests);
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let (mut head, mut length) = (String::new(), 0);
                loop {
                    let mut line = String::new();
                    reader.read_line(&mut line).unwrap();
                    if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                    if line.trim().is_empty() {
                        break;
                    }
                    head += &line;
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body).unwrap();
                let count = {
                    let mut seen = seen.lock().unwrap();
                    seen.push((head, serde_json::from_slice(&body).unwrap()));
                    seen.len()
                };
                let status = &statuses[count.min(statuses.len()) - 1];
                // The client of a killed daemon is gone.
                let _ = write!(
                    stream,
                    "HTTP/1.1 {status}\r\nLocation: http://127.0.0.1:{port}/elsewhere\r\n\
                     Content-Length: 0\r\nConnection: close\r\n\r\n"
                );
            }
        });
        Self { port, requests }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hook/secret", self.port)
    }

    fn requests(&self) -> Vec<(String, Value)> {
        self.requests.lock().unwrap().clone()
    }

    fn occasions(&self) -> Vec<String> {
        let requests = self.requests();
        requests.iter().map(|(_, body)| body["occasion"].as_str().unwrap().to_owned()).collect()
    }
}

/// Returns a team whose coder asks a question, and the section `notify`.
fn asking_team(notify: &str) -> String {
    format!(
        "name: team\nagents:\n  coder:\n    backend: mock\n    mock:\n      - on: please\n        calls:\n          \
         - {{ tool: ask_human, args: {{ question: \"ship\\e]0;x\\a it? $(touch owned) `touch owned`\" }} }}\n        \
         say: asked\nnotify: {notify}\nkickoff: '@coder please'\n"
    )
}

/// Writes an executable script of the project.
fn script(world: &World, name: &str, text: &str) -> String {
    let path = world.file(name, &format!("#!/bin/sh\n{text}\n"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.to_string_lossy().into_owned()
}

fn lines_of(world: &World, name: &str) -> Vec<Value> {
    let text = fs::read_to_string(world.project().join(name)).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn start(world: &World, file: &str) {
    let said = world.run(&["run", file, "--detach"]);
    assert_eq!(said.code, 0, "{said:?}");
}

/// Returns the names of the state files of the notifications.
fn state_files(world: &World) -> Vec<String> {
    let entries = fs::read_dir(world.home().join("notify")).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name != "failures.json").collect()
}

#[test]
fn a_command_of_the_file_gets_a_question_and_the_end_as_json_and_no_shell_reads_them() {
    let world = World::new();
    script(&world, "notify.sh", "cat >> got; echo >> got; echo \"$# $1 $2\" >> args");
    world.file(
        "team.yaml",
        &asking_team("{ command: [./notify.sh, --fast, 'a b $(touch owned)'] }"),
    );
    start(&world, "team.yaml");
    let got = wait_for("the question", || lines_of(&world, "got").pop());
    assert_eq!(got["occasion"], "question");
    assert_eq!(got["title"], "team: coder asks a question");
    assert_eq!(got["text"], "ship]0;x it? $(touch owned) `touch owned`");
    assert_eq!(got["next"], "agent-worker answer @team");
    assert_eq!((&got["instance"], &got["agent"]), (&"team".into(), &"coder".into()));
    assert_eq!(world.run(&["answer", "1", "yes"]).code, 0);
    wait_for("the end", || (lines_of(&world, "got").len() == 2).then_some(()));
    assert_eq!(lines_of(&world, "got")[1]["occasion"], "done");
    let args = wait_for("the arguments of both calls", || {
        let args = fs::read_to_string(world.project().join("args")).ok()?;
        (args.lines().count() == 2).then_some(args)
    });
    assert_eq!(args, "2 --fast a b $(touch owned)\n".repeat(2));
    assert!(!world.project().join("owned").exists());
    wait_for("the state to be removed", || state_files(&world).is_empty().then_some(()));
}

#[test]
fn a_proposal_notifies_the_user_only_if_it_waits_for_their_vote() {
    let world = World::new();
    script(&world, "notify.sh", "cat >> got; echo >> got");
    let call = |title: &str, voters: &str| {
        format!(
            "{{ tool: proposal_create, args: {{ title: {title}, options: ['yes', 'no'], \
             electorate: [{voters}] }} }}"
        )
    };
    world.file(
        "team.yaml",
        &format!(
            "name: team\nagents:\n  coder:\n    mock: [{{ on: please, calls: [{}, {}], say: asked }}]\n  \
             helper: {{ mock: [{{ say: ok }}] }}\nnotify: {{ command: ./notify.sh }}\nkickoff: '@coder please'\n",
            call("Not for you", "helper"),
            call("Ship it", "user"),
        ),
    );
    start(&world, "team.yaml");
    let got = wait_for("the vote", || lines_of(&world, "got").pop());
    assert_eq!(got["occasion"], "vote", "{got}");
    assert_eq!(got["title"], "team: a proposal waits for your vote");
    assert_eq!(got["text"], "Ship it");
    assert_eq!(got["next"], "agent-worker proposals @team");
    assert_eq!(lines_of(&world, "got").len(), 1);
    let listed = world.run(&["proposals", "@team"]);
    assert!(listed.stdout.contains("Ship it"), "{listed:?}");
}

#[test]
fn a_webhook_of_the_configuration_is_tried_again_and_gets_each_occasion_once() {
    let (world, receiver) = (World::new(), Receiver::with_statuses(&["503 Busy", "200 OK"]));
    let config = world.file("c.toml", &format!("[notify]\nwebhook = \"{}\"\n", receiver.url()));
    world.file("team.yaml", &asking_team("{ on: [question, done] }"));
    let said = world.run(&["--config", config.to_str().unwrap(), "run", "team.yaml", "--detach"]);
    assert_eq!(said.code, 0, "{said:?}");
    wait_for("the second try", || (receiver.requests().len() == 2).then_some(()));
    let requests = receiver.requests();
    assert!(requests[0].0.starts_with("POST /hook/secret HTTP/1.1\r\n"), "{}", requests[0].0);
    assert_eq!(requests[0].1, requests[1].1, "the same notification with the same id");
    assert_eq!(world.run(&["answer", "1", "yes"]).code, 0);
    wait_for("the end", || (receiver.requests().len() == 3).then_some(()));
    wait_for("the state to be removed", || state_files(&world).is_empty().then_some(()));
    assert_eq!(receiver.occasions(), ["question", "question", "done"]);
}

#[test]
fn a_redirect_is_not_followed_and_a_failure_is_an_event_and_in_doctor_and_stops_nothing() {
    let (world, receiver) = (World::new(), Receiver::with_statuses(&["302 Found"]));
    let notify = format!("{{ webhook: '{}', command: [/bin/false] }}", receiver.url());
    world.file("team.yaml", &asking_team(&notify));
    start(&world, "team.yaml");
    let failures = || {
        let list = fs::read_to_string(world.home().join("notify/failures.json")).ok()?;
        let list: Value = serde_json::from_str(&list).ok()?;
        (list["failures"].as_array()?.len() == 2).then_some(list)
    };
    wait_for("two failures", failures);
    assert_eq!(receiver.requests().len(), 1, "the redirect was not followed");
    let doctor = world.json_of_any_code(&["doctor", "--json"]);
    let findings = doctor["findings"].as_array().unwrap();
    let notify: Vec<&str> = findings
        .iter()
        .filter(|finding| finding["about"] == "notify")
        .map(|finding| finding["message"].as_str().unwrap())
        .collect();
    assert_eq!(notify.len(), 2, "{doctor}");
    assert!(notify[0].contains("/bin/false ended with status 1"), "{notify:?}");
    assert!(notify[1].contains("status 302, and redirects are not followed"), "{notify:?}");
    assert!(!doctor.to_string().contains("secret"), "the path of the URL is private");
    let run = world.json(&["status", "@team", "--json"])["run"].as_str().unwrap().to_owned();
    assert_eq!(world.run(&["answer", "1", "yes"]).code, 0);
    let ended = || world.as_user("GET", &format!("/runs/{run}"), "").1.contains("\"ended\"");
    wait_for("the end of the run", || ended().then_some(()));
    let (_, events) = world.as_user("GET", &format!("/events?run={run}"), "");
    assert_eq!(events.matches("\"kind\":\"notification.failed\"").count(), 2, "{events}");
}

#[test]
fn a_killed_daemon_repeats_only_the_channel_that_it_was_using() {
    let (world, receiver) = (World::new(), Receiver::with_statuses(&["200 OK"]));
    // The first call of the command hangs, and its daemon is killed meanwhile.
    let body = "cat >> got; echo >> got; [ -e first ] || { touch first; exec sleep 600; }";
    script(&world, "notify.sh", body);
    let notify = format!("{{ command: ./notify.sh, webhook: '{}' }}", receiver.url());
    world.file("team.yaml", &asking_team(&notify));
    let mut daemon = world.daemon();
    start(&world, "team.yaml");
    wait_for("the first delivery", || world.project().join("first").exists().then_some(()));
    kill(daemon.id(), "KILL");
    daemon.wait().unwrap();
    assert!(receiver.requests().is_empty());
    let mut daemon = world.daemon();
    wait_for("the webhook", || (receiver.requests().len() == 1).then_some(()));
    // A delivered notification is not repeated by any later daemon.
    wait_for("the position", || {
        let name = state_files(&world).pop()?;
        let state = fs::read_to_string(world.home().join("notify").join(name)).ok()?;
        (!state.contains("sending")).then_some(())
    });
    for _ in 0..3 {
        kill(daemon.id(), "KILL");
        daemon.wait().unwrap();
        daemon = world.daemon();
    }
    assert_eq!(world.run(&["answer", "1", "yes"]).code, 0);
    wait_for("the end", || (receiver.requests().len() == 2).then_some(()));
    wait_for("the state to be removed", || state_files(&world).is_empty().then_some(()));
    let got = lines_of(&world, "got");
    let occasions: Vec<_> = got.iter().map(|one| one["occasion"].as_str().unwrap()).collect();
    assert_eq!(occasions, ["question", "question", "done"]);
    assert_eq!(got[0]["id"], got[1]["id"], "the repeated notification has the same id");
    assert_eq!(receiver.occasions(), ["question", "done"]);
    for (pid, line) in world.processes() {
        if line.contains("sleep 600") {
            kill(pid, "KILL");
        }
    }
    world.run(&["daemon", "stop"]);
    daemon.wait().unwrap();
}

#[test]
fn a_channel_that_was_cut_off_twice_takes_no_try_from_the_next_channel() {
    let (world, receiver) = (World::new(), Receiver::with_statuses(&["200 OK"]));
    script(&world, "notify.sh", "cat >> got; echo >> got; exec sleep 600");
    let notify =
        format!("{{ command: ./notify.sh, webhook: '{}', on: [question] }}", receiver.url());
    world.file("team.yaml", &asking_team(&notify));
    let mut daemon = world.daemon();
    start(&world, "team.yaml");
    for n in 1..=2 {
        wait_for("a delivery", || (lines_of(&world, "got").len() == n).then_some(()));
        kill(daemon.id(), "KILL");
        daemon.wait().unwrap();
        daemon = world.daemon();
    }
    wait_for("the webhook", || (receiver.requests().len() == 1).then_some(()));
    assert_eq!(lines_of(&world, "got").len(), 2, "the third daemon does not start the command");
    for (pid, line) in world.processes() {
        if line.contains("sleep 600") {
            kill(pid, "KILL");
        }
    }
    world.run(&["daemon", "stop"]);
    daemon.wait().unwrap();
}

#[test]
fn a_state_that_cannot_be_saved_for_a_while_repeats_no_delivery() {
    let (world, receiver) = (World::new(), Receiver::with_statuses(&["200 OK"]));
    // A folder in the place of the state file makes every save of the first delivery fail.
    let body = format!(
        "cat >> got; echo >> got; cd {}/notify && [ ! -e ../kept ] || exit 0; for file in *-*.json; do \
         mv $file ../kept; mkdir -p $file/x; done",
        world.home().display()
    );
    script(&world, "notify.sh", &body);
    let notify =
        format!("{{ command: ./notify.sh, webhook: '{}', on: [question] }}", receiver.url());
    world.file("team.yaml", &asking_team(&notify));
    start(&world, "team.yaml");
    wait_for("the failed save", || {
        let log = fs::read_to_string(world.home().join("logs/daemon.log")).ok()?;
        log.contains("the state of notifications").then_some(())
    });
    let state = world.home().join("notify").join(state_files(&world).pop().unwrap());
    fs::remove_dir_all(&state).unwrap();
    fs::copy(world.home().join("kept"), &state).unwrap();
    wait_for("the webhook", || (receiver.requests().len() == 1).then_some(()));
    assert_eq!(lines_of(&world, "got").len(), 1);
}

#[test]
fn an_end_that_no_daemon_delivered_is_delivered_by_the_next_one() {
    let world = World::new();
    // The command of the end starts only once its daemon was killed.
    let body = "cat > last.new; grep -q done last.new && [ ! -e go ] && exec sleep 600; cat last.new >> got; echo >> got";
    script(&world, "notify.sh", body);
    world.file("team.yaml", &asking_team("{ command: ./notify.sh }"));
    let mut daemon = world.daemon();
    start(&world, "team.yaml");
    wait_for("the question", || lines_of(&world, "got").pop());
    assert_eq!(world.run(&["answer", "1", "yes"]).code, 0);
    let waits = || world.processes().into_iter().find(|(_, line)| line.contains("sleep 600"));
    let (sleeper, _) = wait_for("the delivery of the end", waits);
    kill(daemon.id(), "KILL");
    daemon.wait().unwrap();
    kill(sleeper, "KILL");
    world.file("go", "");
    let mut daemon = world.daemon();
    wait_for("the end", || (lines_of(&world, "got").len() == 2).then_some(()));
    assert_eq!(lines_of(&world, "got")[1]["occasion"], "done");
    wait_for("the state to be removed", || state_files(&world).is_empty().then_some(()));
    world.run(&["daemon", "stop"]);
    daemon.wait().unwrap();
}

#[test]
fn a_person_who_follows_the_run_hears_the_bell_and_gets_no_other_notification() {
    let world = World::new();
    script(&world, "notify.sh", "cat >> got; echo >> got");
    world.file("team.yaml", &asking_team("{ command: ./notify.sh }"));
    let terminal = Terminal::open(&world, 80, "run team.yaml");
    let bells = || terminal.output().matches('\u{7}').count();
    wait_for("the bell", || (bells() == 1).then_some(()));
    assert_eq!(world.run(&["answer", "1", "yes", "--to", "@team"]).code, 0);
    let (status, output) = terminal.wait_exit();
    assert!(status.success());
    assert_eq!(output.matches('\u{7}').count(), 2, "the question and the end: {output}");
    wait_for("the state to be removed", || state_files(&world).is_empty().then_some(()));
    assert!(lines_of(&world, "got").is_empty(), "{:?}", lines_of(&world, "got"));
}

#[test]
fn the_bell_can_be_switched_off_and_no_file_is_an_error_for_attach() {
    let world = World::with(&[("AGENT_WORKER_CONFIG", "c.toml")]);
    world.file("c.toml", "[notify]\nbell = false\n");
    world.file("team.yaml", &asking_team("false"));
    let terminal = Terminal::open(&world, 80, "run team.yaml");
    wait_for("the question", || {
        world.run(&["answer", "1", "yes", "--to", "@team"]).code.eq(&0).then_some(())
    });
    let (_, output) = terminal.wait_exit();
    assert!(!output.contains('\u{7}'), "{output}");
    let said = world.run(&["attach", "@team"]);
    assert!(!said.stderr.contains("c.toml"), "{said:?}");
}

#[test]
fn the_desktop_of_the_caller_shows_the_notification_without_markup_or_options() {
    let bin = tempfile::tempdir().unwrap();
    let path = format!("{}:/usr/bin:/bin", bin.path().display());
    let world = World::with(&[("PATH", &path), ("DISPLAY", ":7"), ("SECRET_KEY", "hidden")]);
    let out = world.project().join("shown");
    let text = format!("#!/bin/sh\nenv > {0}.env\nprintf '%s\\n' \"$@\" > {0}\n", out.display());
    let program = bin.path().join("notify-send");
    fs::write(&program, text).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let file = asking_team("{ desktop: true, on: [question] }").replace("ship", "--icon=x <b>");
    world.file("team.yaml", &file);
    start(&world, "team.yaml");
    let shown = wait_for("the desktop", || {
        fs::read_to_string(&out).ok().filter(|text| text.contains("answer @team"))
    });
    assert_eq!(
        shown,
        "--app-name=agent-worker\n--\nteam: coder asks a question\n--icon=x &lt;b&gt;]0;x it? $(touch owned) `touch owned`\n\
         agent-worker answer @team\n"
    );
    let env = fs::read_to_string(world.project().join("shown.env")).unwrap();
    assert!(env.contains("DISPLAY=:7\n") && !env.contains("SECRET_KEY"), "{env}");
    assert!(!env.contains("AGENT_WORKER_"), "{env}");
}

#[test]
fn a_notify_command_is_not_the_user_for_the_daemon_and_ends_at_its_time_limit() {
    let world = World::new();
    let binary = env!("CARGO_BIN_EXE_agent-worker");
    let home = world.home();
    let body = format!(
        "AGENT_WORKER_HOME={} {binary} answer 1 hacked --to @team > said 2>&1; echo $? > code; exec sleep 600",
        home.display()
    );
    script(&world, "notify.sh", &body);
    world.file("team.yaml", &asking_team("{ command: ./notify.sh }"));
    start(&world, "team.yaml");
    let code = wait_for("the command", || {
        fs::read_to_string(world.project().join("code")).ok().filter(|code| !code.is_empty())
    });
    let said = fs::read_to_string(world.project().join("said")).unwrap();
    assert_eq!(code.trim(), "1", "{said}");
    let failed = || {
        let list = fs::read_to_string(home.join("notify/failures.json")).ok()?;
        list.contains("did not end within 10 s").then_some(())
    };
    wait_for("the time limit", failed);
    let left = world.processes().into_iter().find(|(_, line)| line.contains("sleep 600"));
    assert_eq!(left, None);
}

#[test]
fn only_the_user_gives_a_run_settings_of_a_configuration() {
    let world = World::new();
    world.file("team.yaml", &asking_team("false"));
    assert_eq!(world.run(&["daemon", "start"]).code, 0);
    let token = world.token("ci", &["--allow", "run", "--allow", "read"]);
    let (file, cwd) = (world.project().join("team.yaml"), world.project());
    let body = format!(
        r#"{{"file":"{}","cwd":"{}","defaults":{{"notify":{{"command":["/bin/true"]}}}}}}"#,
        file.display(),
        cwd.display()
    );
    let (status, answer) =
        crate::world::http_request(&world.address(), &token, "POST", "/runs", &body);
    assert_eq!(status, 403, "{answer}");
    assert!(answer.contains("only the user may give `defaults`"), "{answer}");
}
