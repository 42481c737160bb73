//! Exit codes: one rule for every command (docs/reference/commands.md).

use crate::{
    run_lifecycle::TEAM,
    shell_transcript::shell,
    world::{World, wait_for},
};

/// Commands that name a missing target, in a home where `@team` runs and in an empty home.
const MISSING_TARGETS: &str = "
    attach @nothing
    attach ghost@team
    pause @nothing
    resume @nothing
    resume ghost@team
    restart @nothing
    stop @nothing
    stop ghost@team
    stop ghost
    down nothing
    down @nothing
    down ghost@team
    rm @nothing
    ls @nothing
    ls ghost@team
    ps ghost@team
    status @nothing
    status ghost@team
    why @nothing
    why ghost@team
    peek @nothing
    peek ghost@team
    peek ghost@team --inbox
    logs ghost@team
    runs @nothing
    runs ghost@team
    stats @nothing
    stats ghost@team
    export @nothing
    export ghost@team
    receipts 1 @nothing
    receipts 1 ghost@team
    receipts 99 @team
    dead @nothing
    dead ghost@team
    dead redrive @nothing
    dead redrive 99 @team
    dead drop 99 @team
    clear @nothing
    send @nothing hello
    send ghost@team hello
    send @team hello --to ghost
    send @team hello --reply-to 99
    ask ghost@team hello
    agent end ghost
    agent end ghost@team
    agent status ghost@team
    new judge@nothing -b mock --say Guilty.
    doc list --target @nothing
    doc read none.md --target @team
    doc append a.md text --target @nothing
    context inbox --agent ghost@team
    context read --agent ghost@team
    token revoke ghost
";

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty())
}

/// Returns the exit code of a command with `--json`, and the code of its error.
fn exit_and_error_code(world: &World, line: &str) -> (i32, String) {
    let said = shell(world, &format!("agent-worker {line} --json"));
    let document: serde_json::Value = serde_json::from_str(&said.stdout).unwrap_or_default();
    (said.code, document["error"]["code"].as_str().unwrap_or("none").to_owned())
}

#[test]
fn every_command_reports_a_missing_target_alike_and_starts_no_daemon_for_it() {
    let (empty, full) = (World::new(), World::new());
    full.file("team.yaml", TEAM);
    assert_eq!(full.run(&["up", "team.yaml"]).code, 0);
    assert_eq!(full.run(&["send", "@team", "a first message"]).code, 0);
    for line in lines(MISSING_TARGETS) {
        for world in [&empty, &full] {
            assert_eq!(exit_and_error_code(world, line), (1, "not_found".to_owned()), "{line}");
        }
        assert!(!empty.home().join("agent-worker.db").exists(), "{line} started a daemon");
    }
}

#[test]
fn looking_where_nothing_is_shows_nothing_and_starts_no_daemon() {
    let world = World::new();
    for line in lines(
        "
        ls
        ls --all
        ps
        runs
        stats
        dead
        token list
        feedback list
        stop
        stop --all
        down
        doctor
        backends
        providers
    ",
    ) {
        assert_eq!(shell(&world, &format!("agent-worker {line}")).code, 0, "{line}");
        assert!(!world.home().join("agent-worker.db").exists(), "{line} started a daemon");
    }
}

#[test]
fn what_the_words_or_the_file_alone_make_wrong_exits_2_and_what_is_there_decides_about_1() {
    let world = World::new();
    world.file("team.yaml", TEAM);
    world.file("bad.yaml", "agents: { a: { bakend: mock } }\n");
    world.file("silent.yaml", "agents: { a: { backend: mock } }\n");
    for tag in ["one", "two"] {
        assert_eq!(world.run(&["up", "team.yaml", "--tag", tag]).code, 0);
    }
    for (line, code) in [
        ("frobnicate", 2),
        ("run", 2),
        ("run nowhere.yaml", 2),
        ("run bad.yaml", 2),
        ("run silent.yaml", 2),
        ("validate bad.yaml", 2),
        ("send 'a b' hello", 2),
        ("ask @team hello", 2),
        ("resume coder@team:one --turns 5", 2),
        ("rm coder@team:one", 2),
        ("logs @team:one", 2),
        ("receipts twelve", 2),
        // These commands would be valid in another state.
        ("up team.yaml --tag one", 1),
        ("stop", 1),
        ("down", 1),
        ("attach", 1),
        ("send coder hello", 1),
        ("resume @team:one", 1),
        ("rm @team:one", 1),
    ] {
        let said = shell(&world, &format!("agent-worker {line}"));
        assert_eq!(said.code, code, "{line}: {said:?}");
    }
}

#[test]
fn a_user_who_interrupts_a_wait_is_shown_what_continues() {
    let world = World::new();
    world.file("team.yaml", TEAM);
    assert_eq!(world.run(&["up", "team.yaml"]).code, 0);
    let up = world.project().join("up");
    for (words, number) in
        [(&["send", "coder", "slow", "--wait"][..], 1), (&["ask", "coder@team", "slow"], 2)]
    {
        let mut command = world.command(words);
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let child = command.spawn().unwrap();
        wait_for("the message", || {
            let reply = world.json(&["peek", "@team", "--json"]);
            (reply["items"].as_array()?.len() == number).then_some(())
        });
        wait_for("the turn", || up.exists().then_some(()));
        crate::world::kill(child.id(), "INT");
        let said = crate::world::CommandOutput::from(child.wait_with_output().unwrap());
        assert_eq!(said.code, 130, "{said:?}");
        let hint = format!("agent-worker receipts {number} @team");
        assert!(said.stderr.contains(&hint), "{said:?}");
        assert_eq!(shell(&world, &hint).code, 0);
    }
    assert_eq!(world.run(&["stop", "coder@team", "--now"]).code, 0);
    let (code, document) = world.envelope(&["send", "coder@team", "hello", "--wait", "--json"]);
    assert_eq!((code, &document["error"]["code"]), (1, &"failed".into()), "{document}");
    let hint = document["error"]["hint"].as_str().unwrap();
    assert_eq!(hint, "resume the agent: agent-worker resume coder@team");
    let (code, document) = world.envelope(&["ask", "owl@team", "hello", "--json"]);
    assert_eq!((code, &document["error"]), (0, &serde_json::Value::Null), "{document}");
}

#[test]
fn export_takes_json_as_every_other_command_does() {
    let world = World::new();
    world.file("team.yaml", TEAM);
    assert_eq!(world.run(&["up", "team.yaml"]).code, 0);
    assert_eq!(world.run(&["send", "owl@team", "hello", "--wait"]).code, 0);
    let written = world.json(&["export", "@team", "--json"]);
    assert_eq!(written, world.json(&["export", "@team", "--format", "json"]));
    assert_eq!(written["items"].as_array().unwrap().len(), 2);
    assert_eq!(world.run(&["export", "@team", "--json", "--format", "md"]).code, 2);
}
