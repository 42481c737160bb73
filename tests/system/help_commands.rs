//! Commands for setup and reference: a first file, its schema, the doctor, shell completions, man pages, and the
//! README.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

use serde_json::{Value, json};

use crate::{
    shell_transcript::{run_lines, shell},
    terminal::Terminal,
    world::World,
};

#[test]
fn a_first_file_is_valid_and_runs_as_it_is() {
    let world = World::new();
    insta::assert_snapshot!(run_lines(&world, r#"
        agent-worker init
        agent-worker validate team.yaml
        agent-worker run team.yaml --topic "the tests" > said
        agent-worker init
        agent-worker init team.yaml --force
        agent-worker init "my team.yaml"
        agent-worker init nowhere/team.yaml
    "#), @r#"
    $ agent-worker init
    team.yaml
    ! scripted agents: neither Claude Code nor Codex nor Gemini CLI is installed
    ! hint: try it: agent-worker run team.yaml
    $ agent-worker validate team.yaml
    valid: team (2 agents)
      writer    mock
      reviewer  mock
      --topic VALUE  What to look at [default: the README]
    $ agent-worker run team.yaml --topic "the tests" > said
    ! done in TIME · 3 turns · 6 messages
    !   wrote notes.md (revision 1)
    !   writer    Then we are done.
    !   reviewer  Reviewed.
    ! hint: read notes.md: agent-worker doc read notes.md @team
    ! hint: read the whole channel: agent-worker peek @team
    $ agent-worker init
    ! error: team.yaml already exists
    ! hint: choose another name, or overwrite it: agent-worker init team.yaml --force
    (exit 1)
    $ agent-worker init team.yaml --force
    team.yaml
    ! scripted agents: neither Claude Code nor Codex nor Gemini CLI is installed
    ! hint: try it: agent-worker run team.yaml
    $ agent-worker init "my team.yaml"
    ! error: a workflow is named after its file, and `my team` cannot be a workflow's name or tag: use up to 64 letters, digits, `.`, `-` and `_`, starting with a letter or digit, without `..`
    ! hint: choose another name than my team.yaml, such as team.yaml
    (exit 2)
    $ agent-worker init nowhere/team.yaml
    ! error: could not write nowhere/team.yaml: No such file or directory (os error 2)
    (exit 1)
    "#);
    let made = world.json(&["init", "review.yaml", "--json"]);
    assert_eq!(made["workflow"], "review", "{made}");
    let (code, envelope) = world.envelope(&["run", "review.yaml", "--json"]);
    assert_eq!((code, envelope["outcome"].as_str()), (0, Some("done")), "{envelope}");
    assert_eq!(envelope["dead_letters"], serde_json::json!([]), "{envelope}");
}

#[test]
fn the_schema_is_printed_without_a_daemon() {
    let world = World::new();
    let schema = world.json(&["schema"]);
    assert_eq!(schema["properties"]["agents"]["type"], "object", "{schema}");
    assert_eq!(world.json(&["schema", "--json"]), schema);
    assert_eq!(world.daemon_pid(), None);
}

#[test]
fn a_misspelt_command_gets_a_suggestion() {
    let world = World::new();
    insta::assert_snapshot!(run_lines(&world, "
        agent-worker pek
        agent-worker doc raed
        agent-worker send owl hello --wiat
    "), @"
    $ agent-worker pek
    ! error: unrecognized subcommand 'pek'
    !
    !   hint: a similar subcommand exists: 'peek'
    !
    ! Usage: agent-worker [OPTIONS] [COMMAND]
    !
    ! For more information, try '--help'.
    (exit 2)
    $ agent-worker doc raed
    ! error: unrecognized subcommand 'raed'
    !
    !   hint: a similar subcommand exists: 'read'
    !
    ! Usage: agent-worker doc <COMMAND>
    !
    ! For more information, try '--help'.
    (exit 2)
    $ agent-worker send owl hello --wiat
    ! error: unexpected argument '--wiat' found
    !
    !   hint: a similar argument exists: '--wait'
    !
    ! Usage: agent-worker send [OPTIONS] [TARGET] <MESSAGE>
    !
    ! For more information, try '--help'.
    (exit 2)
    ");
}

#[test]
fn alone_it_says_what_runs_and_the_commands_a_newcomer_needs() {
    let world = World::new();
    insta::assert_snapshot!(run_lines(&world, r#"
        agent-worker
        agent-worker new owl -b mock --say "Hoo." --json > made
        agent-worker
    "#), @r#"
    $ agent-worker
    Nothing is running.

      agent-worker demo             watch a team of scripted agents
      agent-worker init team.yaml   write a first team
      agent-worker run team.yaml    run it to its end
      agent-worker peek @team       read its messages

    All commands: agent-worker --help
    $ agent-worker new owl -b mock --say "Hoo." --json > made
    $ agent-worker
    NAME  SOURCE        STATUS  WAITING  TURNS  MESSAGES
    owl   (standalone)  idle    0        0      0

      agent-worker demo             watch a team of scripted agents
      agent-worker init team.yaml   write a first team
      agent-worker run team.yaml    run it to its end
      agent-worker peek @team       read its messages

    All commands: agent-worker --help
    "#);
}

/// Returns the doctor's finding about a subject.
fn finding<'a>(report: &'a Value, about: &str) -> &'a Value {
    let findings = report["findings"].as_array().unwrap();
    findings.iter().find(|one| one["about"] == about).unwrap_or(&Value::Null)
}

#[test]
fn a_doctor_finds_nothing_wrong_where_nothing_is() {
    // Machines differ in their sandbox, and in the ability to create control groups.
    const DOCTOR: &str = "agent-worker doctor | sed '/^$/,$d' | grep -v -e ' sandbox '";
    let world = World::with(&[("AGENT_WORKER_PROCESS_TRACKING", "tree")]);
    let before = run_lines(&world, DOCTOR);
    assert_eq!(world.run(&["run", &world.example("hello.yaml")]).code, 0);
    let after = run_lines(&world, DOCTOR);
    insta::assert_snapshot!(before + &after, @"
    $ agent-worker doctor | sed '/^$/,$d' | grep -v -e ' sandbox '
    ok     home    HOME does not exist yet; the first run creates it
    ok     disk    SOME GiB free on the disk of the home
    ok     daemon  not running; the first command that needs a daemon starts it
    note   agents  agents with `sandbox: off` (the default of programs) run as you: the separation from you is a guard rail, not a security boundary; see SECURITY.md
    $ agent-worker doctor | sed '/^$/,$d' | grep -v -e ' sandbox '
    ok     home    HOME, accessible only to you
    ok     disk    SOME GiB free on the disk of the home
    ok     daemon  version 0.1.0, accepts writes
    ok     store   1 instance, 3 messages, no damage found
    note   process attempts are tracked by their process tree: --process-tracking tree
    ok     port    clients with a token connect at 127.0.0.1:PORT
    note   agents  agents with `sandbox: off` (the default of programs) run as you: the separation from you is a guard rail, not a security boundary; see SECURITY.md
    ");
    let report = world.json(&["doctor", "--json"]);
    assert_eq!(report["ok"], true, "{report}");
    assert_eq!(report["backends"][0]["name"], "mock", "{report}");
}

#[test]
fn a_doctor_says_what_is_broken_and_what_to_do_about_it() {
    let world = World::new();
    assert_eq!(world.run(&["run", &world.example("hello.yaml")]).code, 0);
    let open = |path: &str, mode| {
        fs::set_permissions(world.home().join(path), Permissions::from_mode(mode)).unwrap();
    };
    open("agent-worker.db", 0o644);
    insta::assert_snapshot!(run_lines(&world, "agent-worker doctor | sed '/^$/,$d' | grep -v '^note\\|^ok'"), @r#"
    $ agent-worker doctor | sed '/^$/,$d' | grep -v '^note\|^ok'
    broken files   other users may open agent-worker.db
                   hint: chmod go= HOME/agent-worker.db
    (exit 1)
    "#);
    open("agent-worker.db", 0o600);
    open(".", 0o755);
    let said = world.run(&["doctor", "--json"]);
    let report: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!((said.code, &report["ok"]), (1, &false.into()), "{said:?}");
    let home = finding(&report, "home");
    assert!(home["message"].as_str().unwrap().contains("mode 755"), "{home}");
    assert!(home["hint"].as_str().unwrap().starts_with("chmod 700"), "{home}");
    open(".", 0o700);
    assert_eq!(world.run(&["doctor"]).code, 0);
}

#[test]
fn a_doctor_finds_a_byte_that_was_changed_behind_the_stores_back() {
    let world = World::new();
    assert_eq!(world.run(&["run", &world.example("hello.yaml")]).code, 0);
    assert_eq!(world.run(&["daemon", "stop"]).code, 0);
    let database = rusqlite_open(&world.home().join("agent-worker.db"));
    let changed = database.execute("UPDATE message SET body = 'never said' WHERE seq = 2", []);
    assert_eq!(changed.unwrap(), 1);
    drop(database);
    let said = world.run(&["doctor"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.stdout.contains("broken store   message `2` of @hello is damaged"), "{said:?}");
}

#[expect(clippy::disallowed_methods, reason = "the test is what happens behind the store's back")]
fn rusqlite_open(path: &Path) -> rusqlite::Connection {
    rusqlite::Connection::open(path).unwrap()
}

/// Command prefix that runs the binary with the stub programs and these variables.
const STUB_PATH_COMMAND: &str = "aw=$(command -v agent-worker); PATH=$PWD/bin ANTHROPIC_API_KEY=do-not-show-this CODEX_HOME=codex $aw";

/// Returns a world with two installed vendor programs, one of them with a login.
fn with_programs() -> World {
    let world = World::new();
    for folder in ["bin", "codex"] {
        fs::create_dir(world.project().join(folder)).unwrap();
    }
    for (name, text) in [("claude", "echo '2.1.325 (Claude Code)'"), ("codex", "exit 1")] {
        let path = world.file(&format!("bin/{name}"), &format!("#!/bin/sh\n{text}\n"));
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }
    world.file("codex/auth.json", "{\"tokens\": \"do not show this\"}");
    world
}

#[test]
fn backends_lists_programs_their_logins_and_the_next_step() {
    let world = with_programs();
    let table = run_lines(&world, &format!("{STUB_PATH_COMMAND} backends"));
    insta::assert_snapshot!(table.replace(STUB_PATH_COMMAND, "…"), @"
    $ … backends
       BACKEND   VERSION                LOGIN                      TO USE IT
    ✓  mock      built in               -
    ✓  api       built in               -
    ✓  claude    2.1.325 (Claude Code)  ANTHROPIC_API_KEY
    ✓  codex     unknown                ~/project/codex/auth.json
    ✗  cursor    not installed          unknown                    curl https://cursor.com/install -fsS | bash
    ✗  opencode  not installed          ANTHROPIC_API_KEY          npm install --global opencode-ai
    ✗  gemini    not installed          logged out                 npm install --global @google/gemini-cli
    ✓  acp       built in               -
    ✓  command   built in               -
    ");
}

#[test]
fn backends_lists_the_abilities_of_programs_with_verbose() {
    let world = with_programs();
    let said = run_lines(&world, &format!("{STUB_PATH_COMMAND} backends -v | sed 1,11d"));
    insta::assert_snapshot!(said.replace(STUB_PATH_COMMAND, "…"), @"
    $ … backends -v | sed 1,11d
    mock      built in
              supports: mid-turn (interrupts), max_steps; does not support: stream,
              cost, resume, approvals, max_tokens, effort, sandbox
    api       built in
              supports: stream, cost (by list price), resume, approvals, mid-turn
              (joins), max_steps, max_tokens, effort, sandbox (its tools)
              unverified: the providers' own servers
    claude    found: 2.1.325 (Claude Code); key: ANTHROPIC_API_KEY
              supports: stream, cost, resume, approvals, mid-turn (joins),
              max_steps, max_tokens, effort, sandbox
              unverified: the vendor's own servers, a login of yours
    codex     found, version unknown; login: PROJECT/codex/auth.json
              supports: stream (a message at a time), cost (by list price), resume,
              approvals, mid-turn (joins), effort; does not support: max_steps,
              max_tokens, sandbox
              unverified: this version (tested: 0.166.0), the vendor's own servers,
              a login of yours
    cursor    not found; login unknown
              supports: stream (a message at a time), resume, mid-turn (interrupts);
              does not support: cost, approvals, max_steps, max_tokens, effort,
              sandbox
              install: curl https://cursor.com/install -fsS | bash
              unverified: we cannot test it without a vendor account
    opencode  not found; key: ANTHROPIC_API_KEY
              supports: stream (a message at a time), cost (where it knows the
              price), resume, mid-turn (interrupts), effort (if the model has
              variants), sandbox; does not support: approvals, max_steps, max_tokens
              install: npm install --global opencode-ai
              unverified: the vendor's own servers, a login of yours
    gemini    not found; logged out: neither a key nor a login
              supports: stream, cost (by list price), resume, mid-turn (interrupts),
              max_steps, max_tokens, effort, sandbox; does not support: approvals
              install: npm install --global @google/gemini-cli
              unverified: the vendor's own servers, a login of yours
    acp       built in
              supports: stream, cost (if it says so), resume (if the agent can),
              approvals (for what it asks for), mid-turn (interrupts), sandbox; does
              not support: max_steps, max_tokens, effort
    command   built in
              supports: stream (line by line), cost (if it says so), resume (if it
              says so), mid-turn (interrupts), sandbox; does not support: approvals,
              max_steps, max_tokens, effort
    ");
    assert!(said.lines().skip(1).all(|line| line.chars().count() <= 80), "{said}");
    assert_eq!(world.daemon_pid(), None);
}

#[test]
fn in_a_narrow_terminal_the_commands_follow_the_table_whole() {
    let world = World::with(&[("NO_COLOR", "1")]);
    for columns in [80, 60, 40] {
        let (status, shown) = Terminal::open(&world, columns, "backends").wait_exit();
        assert_eq!(status.code(), Some(0), "{shown}");
        let text = shown.replace('\r', "");
        // The first line is that of `script`.
        let table = text.lines().skip(1).take(9);
        assert!(table.clone().all(|line| line.chars().count() <= usize::from(columns)), "{text}");
        let words: Vec<_> = text.split_whitespace().collect();
        let text = words.join(" ");
        assert!(
            text.contains("to use claude: npm install --global @anthropic-ai/claude-code"),
            "{text}"
        );
    }
}

#[test]
fn backends_are_shown_to_programs_and_by_the_doctor_without_a_secret() {
    let world = with_programs();
    let said = shell(&world, &format!("{STUB_PATH_COMMAND} backends --json"));
    assert!(!said.stdout.contains("show"), "{said:?}");
    let backends: Value = serde_json::from_str(&said.stdout).unwrap();
    let expected = json!({
        "name": "codex", "in_this_version": true, "program": world.project().join("bin/codex"), "version": null, "about": "Codex CLI",
        "login": {"seen": "file", "at": world.project().join("codex/auth.json")},
        "can": {"stream": "a message at a time", "cost": "by list price", "resume": "yes", "approvals": "yes", "mid_turn": "joins", "max_steps": "no", "max_tokens": "no", "effort": "yes", "sandbox": "no"},
        "unverified": ["this version (tested: 0.166.0)", "the vendor's own servers", "a login of yours"],
    });
    assert_eq!(backends["items"][3], expected);
    let table = shell(&world, &format!("{STUB_PATH_COMMAND} backends")).stdout;
    let doctor = shell(&world, &format!("{STUB_PATH_COMMAND} doctor")).stdout;
    assert!(doctor.ends_with(&format!("\n\n{table}")), "{doctor}");
    let all = shell(&world, &format!("{STUB_PATH_COMMAND} backends --verbose")).stdout;
    let doctor = shell(&world, &format!("{STUB_PATH_COMMAND} doctor --verbose")).stdout;
    assert!(doctor.ends_with(&format!("\n\n{all}")), "{doctor}");
    assert!(!all.contains("show"), "{all}");
    assert_eq!(world.daemon_pid(), None);
}

#[test]
fn providers_lists_the_price_of_each_model_with_its_date_and_source() {
    let world = World::new();
    let listed = world.run(&["providers"]);
    let row = |model: &str| {
        let line = listed.stdout.lines().find(|line| line.starts_with(model)).unwrap();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let opus = "$4.00 $20.00 $0.20 $5.00 2026-11-15 the vendor's program";
    assert_eq!(row("anthropic/claude-opus-5-5 "), format!("anthropic/claude-opus-5-5 {opus}"));
    let flash = "$1.50 $9.00 - - 2026-10-07 the vendor's price page, as quoted";
    assert_eq!(row("google/gemini-3.5-flash "), format!("google/gemini-3.5-flash {flash}"));
    assert!(listed.stderr.starts_with("dollars per million tokens"), "{listed:?}");
    let rows = world.list(&["providers", "--json"]);
    let row = rows.as_array().unwrap().iter().find(|row| row["model"] == "gpt-5.3-codex").unwrap();
    let expected = json!({"provider": "openai", "model": "gpt-5.3-codex", "input_micros": 1_750_000,
        "output_micros": 14_000_000, "cache_read_micros": 175_000, "cache_write_micros": null,
        "max_request_tokens": null, "as_of": "2026-05-05", "source": "quoted"});
    assert_eq!(*row, expected);
    assert_eq!(world.daemon_pid(), None);
}

#[test]
fn a_token_is_shown_once_listed_by_name_and_taken_back() {
    let world = World::new();
    insta::assert_snapshot!(run_lines(&world, "
        agent-worker token list
        agent-worker token create ci > ci.token; wc -l < ci.token
        agent-worker token create ci
        agent-worker token list | cut -d' ' -f1
        agent-worker token revoke ci
        agent-worker token revoke ci
    "), @"
    $ agent-worker token list
    ! there are no tokens
    $ agent-worker token create ci > ci.token; wc -l < ci.token
    1
    $ agent-worker token create ci
    ! error: such a token already exists
    ! hint: choose another name, or revoke that token: agent-worker token revoke ci
    (exit 1)
    $ agent-worker token list | cut -d' ' -f1
    NAME
    ci
    $ agent-worker token revoke ci
    ! revoked ci
    $ agent-worker token revoke ci
    ! error: there is no such token
    ! hint: `agent-worker token list` lists the tokens
    (exit 1)
    ");
}

#[test]
fn a_shell_and_a_reader_get_what_they_need() {
    let world = World::new();
    for (name, needle) in [
        ("bash", "complete -F _agent_worker agent-worker"),
        ("zsh", "#compdef agent-worker"),
        ("fish", "complete --command agent-worker"),
        ("powershell", "Register-ArgumentCompleter -Native -CommandName agent-worker"),
    ] {
        let said = world.run(&["completions", name]);
        assert_eq!(said.code, 0, "{said:?}");
        assert!(said.stdout.contains(needle), "{name}: {}", said.stdout);
    }
    let page = world.run(&["man"]);
    assert!(page.stdout.contains(".TH agent-worker 1"), "{page:?}");
    let said = world.run(&["man", "man1"]);
    assert_eq!(said.code, 0, "{said:?}");
    let ask = fs::read_to_string(world.project().join("man1/agent-worker-ask.1")).unwrap();
    assert!(ask.contains("agent\\-worker ask coder@review"), "{ask}");
}

/// Returns the lines of every shell block in a document, without the comments.
fn commands(document: &str) -> Vec<String> {
    let blocks = document.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let lines = blocks.flat_map(str::lines);
    let bare = lines.map(|line| line.split(" #").next().unwrap_or_default().trim().to_owned());
    bare.filter(|line| !line.is_empty()).collect()
}

#[test]
fn the_commands_of_the_readme_run_and_its_team_is_valid() {
    let world = World::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let lines = commands(&readme);
    assert_eq!(lines.len(), 2, "{lines:?}");
    for line in lines {
        // This test is part of that command.
        if line == "scripts/test" {
            continue;
        }
        let said = shell(&world, &line.replace("cargo run --release --", "agent-worker"));
        assert_eq!(said.code, 0, "{line}: {said:?}\n{}", world.log());
        assert!(!said.stderr.contains("warning:"), "{line}: {said:?}");
    }
    assert_eq!(world.daemon_pid(), None, "the demo has a daemon of its own, and stops it");
    let (_, team) = readme.split_once("```yaml\n").unwrap();
    world.file("review.yaml", team.split_once("```").unwrap().0);
    let said = shell(&world, "agent-worker validate review.yaml");
    assert_eq!(said.code, 0, "{said:?}");
}
