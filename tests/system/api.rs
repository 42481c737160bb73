//! Runs every block of docs/reference/api.md and checks that the page describes every route and tool.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
};

use agent_worker_protocol::{Keyword as _, ToolName};
use serde_json::Value;

use crate::world::{CommandOutput, World, wait_for};

fn docs(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name)).unwrap()
}

/// Returns the shell blocks of a document, in order.
fn blocks(text: &str) -> Vec<&str> {
    let begins = text.split("\n```sh\n").skip(1);
    begins.map(|rest| rest.split_once("\n```").unwrap().0).collect()
}

/// Runs a script with bash in the project, with the program on the path.
fn bash(world: &World, script: &str) -> CommandOutput {
    let root = world.home().parent().unwrap().to_owned();
    let bin = root.join("bin");
    if fs::create_dir(&bin).is_ok() {
        symlink(env!("CARGO_BIN_EXE_agent-worker"), bin.join("agent-worker")).unwrap();
        symlink(world.home(), root.join(".agent-worker")).unwrap();
    }
    let ours = world.command(&[]);
    let mut bash = Command::new("bash");
    bash.current_dir(world.project()).env_clear();
    bash.envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
    bash.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display()));
    bash.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = bash.spawn().unwrap();
    // The script may end before bash has read all of its input.
    let _ = child.stdin.take().unwrap().write_all(script.as_bytes());
    CommandOutput::from(child.wait_with_output().unwrap())
}

/// Returns the loopback address of the daemon.
fn address(world: &World) -> String {
    let card = fs::read_to_string(world.home().join("daemon.json")).unwrap();
    let card: Value = serde_json::from_str(&card).unwrap();
    format!("127.0.0.1:{}", card["port"])
}

/// Wraps a block as a step of one script that stops at the first failure.
fn step(block: &str) -> String {
    let name = format!(
        "echo \"== $(cat <<'END OF NAME'\n{}\nEND OF NAME\n)\" >&2\n",
        block.lines().next().unwrap()
    );
    name + &match block.strip_prefix("# exits with 22\n") {
        None => format!("{block}\n"),
        Some(refused) => format!("code=0; ( {refused}\n) || code=$?\n[ $code = 22 ] || exit 99\n"),
    }
}

#[test]
fn every_block_of_the_api_document_does_what_it_says() {
    let world = World::new();
    let mut daemon = world.daemon();
    let text = docs("reference/api.md");
    let script: Vec<String> = blocks(&text).into_iter().map(step).collect();
    let script = format!("set -eo pipefail\n{}", script.concat());
    let said = bash(&world, &script.replace("127.0.0.1:5099", &address(&world)));
    assert_eq!(said.code, 0, "{}\n{}\n{}", said.stderr, said.stdout, world.log());
    assert!(said.stdout.contains("event: run.paused"), "{}", said.stdout);
    // A failed tool call still has a response, so its content is checked.
    let tool = said.stdout.lines().find(|line| line.contains("jsonrpc")).unwrap();
    assert!(!tool.contains(r#""isError":true"#), "{tool}");
    daemon.wait().unwrap();
}

#[test]
fn every_route_is_in_the_api_document_with_an_example() {
    let text = docs("reference/api.md");
    let examples = blocks(&text).join("\n");
    let document: Value = serde_json::from_str(&docs("openapi.json")).unwrap();
    for (path, item) in document["paths"].as_object().unwrap() {
        for verb in item.as_object().unwrap().keys() {
            let route = format!("{} {path}", verb.to_uppercase());
            assert!(text.contains(&route), "{route} is not described");
        }
        let mut rest = examples.as_str();
        // Matches the parts before and after each parameter of the path.
        for part in path.split(['{', '}']).step_by(2) {
            let at = rest.find(part).unwrap_or_else(|| panic!("{path} has no example"));
            rest = &rest[at + part.len()..];
        }
    }
}

#[test]
fn every_tool_is_in_the_api_document() {
    let text = docs("reference/api.md");
    for tool in ToolName::ALL {
        let start = format!("`{}", tool.word());
        let is_named = text.match_indices(&start).any(|(at, _)| {
            text[at + start.len()..].starts_with(|c: char| !c.is_alphanumeric() && c != '_')
        });
        assert!(is_named, "{} is not described", tool.word());
    }
}

#[test]
fn what_serve_answers_is_what_run_prints() {
    let world = World::new();
    let mut daemon = world.daemon();
    let rules = [("done", "say: Done."), ("failed", "fail: fatal")];
    for (outcome, rule) in rules {
        let team = format!(
            "agents:\n  coder: {{ backend: mock, mock: [{{ {rule} }}], retry: {{ max_attempts: 1 }} }}\n\
             kickoff: '@coder go'\n"
        );
        let file = world.file(&format!("{outcome}.yaml"), &team);
        let request = serde_json::json!({"file": file, "cwd": world.project()}).to_string();
        world.file("request.json", &request);
        let serve = "curl -sS --fail-with-body --unix-socket ~/.agent-worker/daemon.sock http://localhost/serve \
                     -H 'Content-Type: application/json' -d @request.json";
        let said = bash(&world, serve);
        let mut served: Value = serde_json::from_str(&said.stdout).unwrap();
        let (_, mut printed) = world.envelope(&["run", &format!("{outcome}.yaml"), "--json"]);
        assert_eq!(served["outcome"], outcome, "{said:?}");
        // Removes values that differ between runs, and the hint, which only the command line has.
        for report in [&mut served, &mut printed] {
            let report = report.as_object_mut().unwrap();
            let (run, took) =
                (report.remove("run").unwrap(), report.remove("duration_ms").unwrap());
            assert!(run.is_string() && took.is_number());
            report["error"].as_object_mut().map(|error| error.remove("hint"));
            let numbers = |c: char| if c.is_ascii_digit() { '#' } else { c };
            let message = report["error"]["message"]
                .as_str()
                .map(|text| text.chars().map(numbers).collect::<String>());
            report["error"]["message"] = message.into();
            for dead in report["dead_letters"].as_array_mut().unwrap() {
                dead.as_object_mut().unwrap().remove("seq");
            }
            for answer in report["answers"].as_object_mut().unwrap().values_mut() {
                assert!(answer.as_object_mut().unwrap().remove("seq").is_some());
            }
            for agent in report["agents"].as_object_mut().unwrap().values_mut() {
                if let Some(failure) = agent["last_failure"].as_object_mut() {
                    assert!(failure.remove("at").is_some() && failure.remove("attempt").is_some());
                }
            }
        }
        assert_eq!(served, printed);
    }
    let _ = world.run(&["daemon", "stop", "--now"]);
    daemon.wait().unwrap();
}

#[test]
fn an_agent_without_mcp_reads_and_acks_its_mail_from_its_own_shell() {
    let world = World::new();
    let mut daemon = world.daemon();
    let script = r#"
        ask() { curl -sS --fail-with-body --unix-socket "$HOME/.agent-worker/daemon.sock" -H "Content-Type: application/json" "$@"; }
        touch at-work
        for i in $(seq 600); do
          ask http://localhost/inbox > inbox.json
          grep -q "the rest" inbox.json && break
          sleep 0.1
        done
        ask http://localhost/inbox/ack -d "{\"until\": 99}" > ack.json
    "#;
    world.file("work.sh", script);
    let team = "
name: shell
agents:
  coder:
    backend: mock
    mock: [{ run: bash work.sh, say: Done. }]
kickoff: '@coder begin'
";
    world.file("shell.yaml", team);
    // The agent finds the socket in the home of its daemon.
    assert_eq!(bash(&world, "true").code, 0);
    let started = world.run(&["start", "--background", "shell.yaml"]);
    assert_eq!(started.code, 0, "{started:?}");
    wait_for("the agent's shell", || world.project().join("at-work").exists().then_some(()));
    let sent = world.json(&["send", "coder@shell", "and the rest", "--json"]);
    let acked = wait_for("its ack", || {
        let text = fs::read_to_string(world.project().join("ack.json")).ok()?;
        serde_json::from_str::<Value>(&text).ok()
    });
    assert_eq!(acked["with_this_turn"], serde_json::json!([sent["seq"]]));
    let one_turn = wait_for("the end of its turn", || {
        let runs = world.list(&["ls", "--json"]);
        let agent = &runs[0];
        (agent["state"] == "idle").then(|| agent["turns"].clone())
    });
    assert_eq!(one_turn, 1, "what was acked is done with the turn that acked it");
    let _ = world.run(&["daemon", "stop", "--now"]);
    daemon.wait().unwrap();
}
