//! Programs of agents that are missing or logged out: `validate` warns, commands that start an agent refuse, before a daemon
//! exists. `init` chooses by the programs that are installed.

use std::{fs, os::unix::fs::PermissionsExt as _};

use serde_json::{Value, json};

use crate::{shell_transcript::run_lines, world::World};

const TEAM: &str = "name: team\nagents:\n  coder:\n    backend: claude\n  \
                    clerk: { backend: command, command: [./clerk.sh] }\n  \
                    mock: { mock: [{ say: Hello. }] }\nkickoff: '@mock go'\n";

/// Returns a world in which no program of a vendor is installed and no login exists.
fn bare_world() -> World {
    World::with(&[("PATH", "/usr/bin:/bin")])
}

/// Returns a world with a program `claude` that is on the `PATH` and logged out.
fn logged_out_world() -> World {
    let world = World::with(&[("PATH", "bin:/usr/bin:/bin")]);
    fs::create_dir(world.project().join("bin")).unwrap();
    install(&world, "claude");
    world
}

fn install(world: &World, name: &str) {
    let path = world.file(&format!("bin/{name}"), "#!/bin/sh\necho '2.1.325 (Claude Code)'\n");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_missing_program_is_reported_before_the_first_turn_with_its_line_and_its_installation() {
    let world = bare_world();
    world.file("team.yaml", TEAM);
    insta::assert_snapshot!(run_lines(&world, "
        agent-worker validate team.yaml
        agent-worker run team.yaml
        agent-worker up team.yaml 2>&1 | head -1
        agent-worker start team.yaml 2>&1 | head -1
        agent-worker new helper -b claude
        agent-worker new helper -b command --command './clerk.sh'
        agent-worker ls
    "), @"
    $ agent-worker validate team.yaml
    valid: team (3 agents)
      coder  claude
      clerk  command
      mock   mock
    ! warning: PROJECT/team.yaml:4:14: agent `coder`: there is no program `claude` on the PATH
    ! hint: install it: npm install --global @anthropic-ai/claude-code, then log in: claude auth login
    ! warning: PROJECT/team.yaml:5:40: agent `clerk`: the program `./clerk.sh` does not exist
    ! hint: the agent fails until the file exists
    $ agent-worker run team.yaml
    ! error: agent `coder`: there is no program `claude` on the PATH
    !  --> PROJECT/team.yaml:4:14
    !   |
    ! 4 |     backend: claude
    !   |              ^^^^^^
    !   |
    !   = help: install it: npm install --global @anthropic-ai/claude-code, then log in: claude auth login; or start without it: --allow-missing
    !
    ! error: agent `clerk`: the program `./clerk.sh` does not exist
    !  --> PROJECT/team.yaml:5:40
    !   |
    ! 5 |   clerk: { backend: command, command: [./clerk.sh] }
    !   |                                        ^^^^^^^^^^
    !   |
    !   = help: the agent fails until the file exists; or start without it: --allow-missing
    (exit 2)
    $ agent-worker up team.yaml 2>&1 | head -1
    error: agent `coder`: there is no program `claude` on the PATH
    (exit 2)
    $ agent-worker start team.yaml 2>&1 | head -1
    error: agent `coder`: there is no program `claude` on the PATH
    (exit 2)
    $ agent-worker new helper -b claude
    ! error: there is no program `claude` on the PATH
    ! hint: install it: npm install --global @anthropic-ai/claude-code, then log in: claude auth login; or create the agent anyway: --allow-missing
    (exit 2)
    $ agent-worker new helper -b command --command './clerk.sh'
    ! error: the program `./clerk.sh` does not exist
    ! hint: the agent fails until the file exists; or create the agent anyway: --allow-missing
    (exit 2)
    $ agent-worker ls
    ! no daemon is running, so no agent is running
    ");
    assert_eq!(world.daemon_pid(), None);
}

#[test]
fn programs_read_which_program_is_missing() {
    let world = bare_world();
    world.file("team.yaml", TEAM);
    let (code, report) = world.envelope(&["run", "team.yaml", "--json"]);
    let error = (&report["outcome"], &report["error"]["code"]);
    assert_eq!((code, error), (2, (&json!("invalid"), &json!("unusable_program"))), "{report}");
    let validated = world.json(&["validate", "team.yaml", "--json"]);
    assert_eq!(validated["valid"], true, "{validated}");
    assert_eq!(validated["warnings"].as_array().map(Vec::len), Some(2), "{validated}");
    let new = world.run(&["new", "helper", "-b", "claude", "--json"]);
    let error: Value = serde_json::from_str(&new.stdout).unwrap();
    assert_eq!((new.code, &error["error"]["code"]), (2, &json!("unusable_program")), "{new:?}");
}

#[test]
fn a_team_starts_without_its_missing_programs_if_that_is_allowed() {
    let world = bare_world();
    world.file("team.yaml", TEAM);
    insta::assert_snapshot!(run_lines(&world, "
        agent-worker up team.yaml --allow-missing
        agent-worker ask mock@team hello
        agent-worker new helper -b codex --allow-missing
        agent-worker down --all > ended
    "), @r#"
    $ agent-worker up team.yaml --allow-missing
    @team runs in the background
    ! warning: agent `coder`: there is no program `claude` on the PATH
    ! hint: install it: npm install --global @anthropic-ai/claude-code, then log in: claude auth login
    ! warning: agent `clerk`: the program `./clerk.sh` does not exist
    ! hint: the agent fails until the file exists
    ! hint: follow it: agent-worker attach @team
    ! hint: stop it: agent-worker stop @team
    $ agent-worker ask mock@team hello
    Hello.
    $ agent-worker new helper -b codex --allow-missing
    helper
    ! warning: there is no program `codex` on the PATH
    ! hint: install it: npm install --global @openai/codex, then log in: codex login
    ! hint: ask it something: agent-worker ask helper "…"
    $ agent-worker down --all > ended
    "#);
    let (code, report) = world.envelope(&["run", "team.yaml", "--allow-missing", "--json"]);
    assert_eq!(
        (code, &report["outcome"]),
        (0, &json!("done")),
        "no message woke the others: {report}"
    );
}

#[test]
fn a_program_that_is_logged_out_is_reported_with_its_login() {
    let world = logged_out_world();
    world.file("team.yaml", "agents:\n  coder: { backend: claude }\nkickoff: '@coder go'\n");
    world.file(
        "alone.yaml",
        "agents:\n  coder: { backend: claude, mode: isolated }\nkickoff: '@coder go'\n",
    );
    insta::assert_snapshot!(run_lines(&world, "
        PATH=bin:$PATH agent-worker validate team.yaml
        PATH=bin:$PATH agent-worker run team.yaml
        PATH=bin:$PATH agent-worker validate alone.yaml
        PATH=bin:$PATH agent-worker new helper -b claude
        PATH=bin:$PATH ANTHROPIC_API_KEY=k agent-worker validate alone.yaml
    "), @"
    $ PATH=bin:$PATH agent-worker validate team.yaml
    valid: team (1 agent)
      coder  claude
    ! warning: PROJECT/team.yaml:2:21: agent `coder`: `claude` is logged out
    ! hint: log in: claude auth login; or set ANTHROPIC_API_KEY
    $ PATH=bin:$PATH agent-worker run team.yaml
    ! error: agent `coder`: `claude` is logged out
    !  --> PROJECT/team.yaml:2:21
    !   |
    ! 2 |   coder: { backend: claude }
    !   |                     ^^^^^^
    !   |
    !   = help: log in: claude auth login; or set ANTHROPIC_API_KEY; or start without it: --allow-missing
    (exit 2)
    $ PATH=bin:$PATH agent-worker validate alone.yaml
    valid: alone (1 agent)
      coder  claude
    ! warning: PROJECT/alone.yaml:2:21: agent `coder`: `claude` has no key, and `mode: isolated` uses no login
    ! hint: set ANTHROPIC_API_KEY; or remove `mode: isolated` and log in: claude auth login
    $ PATH=bin:$PATH agent-worker new helper -b claude
    ! error: `claude` is logged out
    ! hint: log in: claude auth login; or set ANTHROPIC_API_KEY; or create the agent anyway: --allow-missing
    (exit 2)
    $ PATH=bin:$PATH ANTHROPIC_API_KEY=k agent-worker validate alone.yaml
    valid: alone (1 agent)
      coder  claude
    ");
    assert_eq!(world.daemon_pid(), None);
}

#[test]
fn a_login_that_cannot_be_determined_is_no_problem() {
    let world = logged_out_world();
    for (name, agent) in [
        ("args", "backend: claude, args: [--add-dir, x]"),
        ("env", "backend: claude, env: [GATEWAY_TOKEN]"),
        ("command", "backend: claude, command: bin/claude"),
    ] {
        let file = format!("{name}.yaml");
        world.file(&file, &format!("agents:\n  a: {{ {agent} }}\nkickoff: '@a go'\n"));
        let said = world.run(&["validate", &file]);
        assert!(said.code == 0 && said.stderr.is_empty(), "{name}: {said:?}");
    }
    world.file("team.yaml", "agents:\n  coder: { backend: claude }\nkickoff: '@coder go'\n");
    fs::create_dir(world.project().join(".claude")).unwrap();
    world.file(".claude/settings.json", r#"{"apiKeyHelper": "./key.sh"}"#);
    let said = world.run(&["validate", "team.yaml"]);
    assert!(said.code == 0 && said.stderr.is_empty(), "{said:?}");
    let backends = world.list(&["backends", "--json"]);
    let claude = backends.as_array().unwrap().iter().find(|one| one["name"] == "claude");
    assert_eq!(claude.unwrap()["login"], json!({"seen": "unknown"}), "{backends}");
}

#[test]
fn an_agent_that_joins_a_run_may_have_the_key_of_that_run() {
    let world = logged_out_world();
    world.file("team.yaml", "agents:\n  coder: { backend: claude }\n  mock: { mock: [{ say: Hello. }] }\nkickoff: '@mock go'\n");
    let mut up = world.command(&["up", "team.yaml"]);
    assert!(up.env("ANTHROPIC_API_KEY", "k").status().unwrap().success());
    let joined = world.run(&["new", "helper@team", "-b", "claude"]);
    assert!(joined.code == 0 && !joined.stderr.contains("warning"), "{joined:?}");
    let missing = world.run(&["new", "other@team", "-b", "codex"]);
    assert!(missing.code == 2 && missing.stderr.contains("no program `codex`"), "{missing:?}");
    assert_eq!(world.run(&["new", "alone", "-b", "claude"]).code, 2);
}

#[test]
fn a_program_that_a_setup_command_creates_is_no_reason_to_refuse() {
    let world = bare_world();
    world.file(
        "team.yaml",
        "agents:\n  clerk: { backend: command, command: [./clerk.sh] }\n\
         setup: [{ shell: \"printf '#!/bin/sh\\\\necho Filed.\\\\n' >clerk.sh; chmod +x clerk.sh\" }]\nkickoff: '@clerk go'\n",
    );
    let ran = world.run(&["run", "team.yaml"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        ran.stderr.starts_with("warning: agent `clerk`: the program `./clerk.sh` does not exist\n"),
        "{ran:?}"
    );
}

#[test]
fn a_program_is_searched_for_where_the_agent_runs() {
    // A relative folder of the `PATH` starts at the working folder of the agent.
    let world = logged_out_world();
    fs::create_dir(world.project().join("sub")).unwrap();
    world.file(
        "team.yaml",
        "agents:\n  coder: { backend: claude, cwd: sub }\nkickoff: '@coder go'\n",
    );
    let said = world.run(&["validate", "team.yaml"]);
    assert!(said.stderr.contains("there is no program `claude` on the PATH"), "{said:?}");
}

#[test]
fn init_chooses_the_first_installed_program_and_says_what_is_missing() {
    let world = logged_out_world();
    insta::assert_snapshot!(run_lines(&world, "
        PATH=bin:$PATH agent-worker init
        agent-worker init scripted.yaml
        agent-worker init --review
        agent-worker init --codex codex.yaml
        agent-worker init --mock mock.yaml
        PATH=bin:$PATH agent-worker init --office < /dev/null | cat
        agent-worker init --claude --codex 2>&1 | head -1
    "), @"
    $ PATH=bin:$PATH agent-worker init
    team.yaml
    ! agents of Claude Code: it is installed
    ! warning: agent `writer`: `claude` is logged out
    ! hint: log in: claude auth login; or set ANTHROPIC_API_KEY
    ! hint: try it: agent-worker run team.yaml
    $ agent-worker init scripted.yaml
    scripted.yaml
    ! scripted agents: neither Claude Code nor Codex nor Gemini CLI is installed
    ! hint: try it: agent-worker run scripted.yaml
    $ agent-worker init --review
    review.yaml
    ! agents of Claude Code; neither Claude Code nor Codex nor Gemini CLI is installed
    ! warning: agent `defects`: there is no program `claude` on the PATH
    ! hint: install it: npm install --global @anthropic-ai/claude-code, then log in: claude auth login
    ! hint: try it: agent-worker run review.yaml
    $ agent-worker init --codex codex.yaml
    codex.yaml
    ! agents of Codex: --codex was given
    ! warning: agent `writer`: there is no program `codex` on the PATH
    ! hint: install it: npm install --global @openai/codex, then log in: codex login
    ! hint: try it: agent-worker run codex.yaml
    $ agent-worker init --mock mock.yaml
    mock.yaml
    ! scripted agents: --mock was given
    ! hint: try it: agent-worker run mock.yaml
    $ PATH=bin:$PATH agent-worker init --office < /dev/null | cat
    office.yaml
    ! agents of Claude Code: it is installed
    ! warning: agent `secretary`: `claude` is logged out
    ! hint: log in: claude auth login; or set ANTHROPIC_API_KEY
    ! hint: try it: agent-worker up office.yaml
    $ agent-worker init --claude --codex 2>&1 | head -1
    error: the argument '--claude' cannot be used with '--codex'
    (exit 2)
    ");
    let made: Value = world.json(&["init", "--ci", "--json"]);
    assert_eq!((&made["workflow"], &made["preset"]), (&json!("ci"), &json!("ci")), "{made}");
    assert_eq!(made["reason"], "agents of Claude Code: it is installed", "{made}");
    assert_eq!(world.daemon_pid(), None);
}

#[test]
fn no_shipped_file_promises_a_later_version() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders: Vec<_> = ["examples", "docs", "packaging", "crates/cli/src/commands/init"]
        .map(|it| root.join(it))
        .into();
    let mut files: Vec<_> =
        ["README.md", "action.yml", "install.sh"].map(|it| root.join(it)).into();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    assert!(files.len() > 40, "{files:?}");
    for file in files {
        let text = String::from_utf8_lossy(&fs::read(&file).unwrap()).into_owned();
        assert!(!text.contains("not in this version"), "{}", file.display());
    }
}
