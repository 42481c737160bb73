//! Targets as typed: the selection of `use`, ended runs, misspelt names, and the confirmation of a removal.

use std::{
    io::{BufRead as _, BufReader},
    process::Stdio,
};

use crate::{
    run_lifecycle::TEAM, shell_transcript::shell, terminal::Terminal, world::World, world::wait_for,
};

/// Starts the team under these tags.
fn teams(tags: &[&str]) -> World {
    let world = World::new();
    world.file("team.yaml", TEAM);
    for tag in tags {
        assert_eq!(world.run(&["up", "team.yaml", "--tag", tag]).code, 0);
    }
    world
}

#[test]
fn a_reader_takes_the_newest_of_several_ended_runs_and_says_so() {
    let world = teams(&["one", "two"]);
    assert_eq!(world.run(&["stop", "@team:one"]).code, 0);
    assert_eq!(world.run(&["stop", "@team:two"]).code, 0);
    for words in [
        &["status"][..],
        &["status", "coder"],
        &["why"],
        &["peek"],
        &["peek", "coder"],
        &["export"],
        &["stats"],
        &["proposals"],
        &["doc", "list"],
        &["logs", "coder"],
    ] {
        let said = world.run(words);
        let note = "no live run; showing the last one: @team:two (ended ";
        assert!(said.stderr.contains(note), "{words:?}: {said:?}");
        let documents = world.command(&[words, &["--json"]].concat()).output().unwrap();
        let stderr = String::from_utf8_lossy(&documents.stderr).into_owned();
        assert!(!stderr.contains("no live run"), "{words:?}: {stderr}");
    }
    let sent = world.run(&["send", "coder", "hello"]);
    assert_eq!(sent.code, 1, "{sent:?}");
    assert!(sent.stderr.contains("error: @team:two has no live run"), "{sent:?}");
    assert!(sent.stderr.contains("hint: restart it: agent-worker restart @team:two"), "{sent:?}");
}

#[test]
fn an_ended_run_is_no_candidate_while_a_live_one_matches() {
    let world = teams(&["one", "two", "three"]);
    assert_eq!(world.run(&["stop", "@team:one"]).code, 0);
    assert_eq!(world.run(&["stop", "@team:three"]).code, 0);
    let sent = world.run(&["send", "coder", "hello", "--wait"]);
    assert_eq!((sent.code, sent.stdout.trim()), (0, "On it."), "{sent:?}");
    let receipts = world.list(&["receipts", "1", "coder", "--json"]);
    assert_eq!(receipts[0]["state"], "acted", "{receipts}");
    // From a folder inside of this one with two ended runs of the same agents.
    std::fs::create_dir(world.project().join("other")).unwrap();
    world.file("other/team.yaml", TEAM);
    for tag in ["four", "five"] {
        let other = shell(&world, &format!("cd other && agent-worker up team.yaml --tag {tag}"));
        assert_eq!(other.code, 0, "{other:?}");
        assert_eq!(world.run(&["stop", &format!("@team:{tag}")]).code, 0);
    }
    let asked = shell(&world, "cd other && agent-worker ask coder hello");
    assert_eq!((asked.code, asked.stdout.trim()), (0, "On it."), "{asked:?}");
    assert_eq!(world.run(&["restart", "@team:one", "--detach"]).code, 0);
    let several = world.run(&["send", "coder", "hello"]);
    assert_eq!(several.code, 1, "{several:?}");
    assert!(several.stderr.contains("several runs match `coder`: "), "{several:?}");
    assert!(!several.stderr.contains(":three"), "{several:?}");
}

#[test]
fn every_command_without_a_target_takes_the_selected_one() {
    let world = teams(&["one", "two"]);
    assert_eq!(world.run(&["use", "--to", "coder@team:two"]).code, 0);
    for words in [&["status"][..], &["why"], &["logs"], &["ls"], &["stats"]] {
        let said = world.run(words);
        let all = format!("{}{}", said.stdout, said.stderr);
        assert!(all.contains("coder@team:two") && !all.contains("team:one"), "{words:?}: {said:?}");
    }
    let listed = world.run(&["ls", "--all"]);
    assert!(listed.stdout.contains("team:one"), "--all ignores the selection: {listed:?}");
    let using = "using coder@team:two, selected with `use`";
    for (words, code) in [
        (&["send", "hello"][..], 0),
        (&["doc", "append", "notes.md", "text"], 0),
        (&["propose", "Which?", "--option", "a", "--option", "b"], 0),
        (&["pause"], 2),
        (&["restart"], 2),
        (&["clear"], 2),
        (&["stop"], 0),
        (&["resume"], 0),
        (&["down"], 0),
    ] {
        let said = world.run(words);
        assert_eq!(said.code, code, "{words:?}: {said:?}");
        assert!(said.stderr.contains(using), "{words:?}: {said:?}");
    }
    for words in [&["rm"][..], &["agent", "end"]] {
        let said = world.run(words);
        assert_eq!(said.code, 2, "{said:?}");
        assert!(said.stderr.contains("this command needs a target"), "{said:?}");
    }
    let runs = world.list(&["runs", "--all", "--json"]);
    let live = |run: &serde_json::Value| run["state"]["state"] != "ended";
    assert_eq!(runs.as_array().unwrap().iter().filter(|run| live(run)).count(), 2, "{runs}");
}

/// Starts the team in two sibling folders, sends a message in each, and ends the run of the first one.
fn ended_here_and_live_in_the_sibling() -> World {
    let world = World::new();
    for folder in ["here", "sibling"] {
        std::fs::create_dir(world.project().join(folder)).unwrap();
        world.file(&format!("{folder}/team.yaml"), TEAM);
        let line = format!(
            "cd {folder} && agent-worker up team.yaml && agent-worker send coder@team 'hello {folder}' --wait"
        );
        let said = shell(&world, &line);
        assert_eq!(said.code, 0, "{said:?}");
    }
    assert_eq!(shell(&world, "cd here && agent-worker stop @team").code, 0);
    world
}

#[test]
fn a_command_never_acts_in_a_sibling_folder_while_this_one_has_the_ended_run() {
    let world = ended_here_and_live_in_the_sibling();
    let sibling = |world: &World| {
        let peek = shell(world, "cd sibling && agent-worker peek @team --json").stdout;
        let agents = shell(world, "cd sibling && agent-worker ls @team --json").stdout;
        (peek, agents)
    };
    let before = sibling(&world);
    for (line, expected) in [
        ("agent-worker send coder@team lost", "@team has no live run"),
        ("agent-worker send coder lost", "@team has no live run"),
        ("agent-worker ask coder@team lost", "@team has no live run"),
        ("agent-worker stop coder@team", "@team has no live run"),
        ("agent-worker agent end coder@team", "@team has no live run"),
    ] {
        let said = shell(&world, &format!("cd here && {line}"));
        assert!(said.code == 1 && said.stderr.contains(expected), "{line}: {said:?}");
    }
    assert_eq!(sibling(&world), before, "nothing reached the sibling");
}

#[test]
fn a_follower_of_an_ended_run_never_prints_messages_of_a_sibling_folder() {
    let world = ended_here_and_live_in_the_sibling();
    let mut command = world.command(&["peek", "@team", "--follow"]);
    command.current_dir(world.project().join("here"));
    let mut follower = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(first.contains("hello here"), "{first}");
    let line = "cd sibling && agent-worker send coder@team 'only there' --wait && cd ../here && \
                agent-worker up team.yaml && agent-worker send coder@team 'again here' && agent-worker stop @team";
    let said = shell(&world, line);
    assert_eq!(said.code, 0, "{said:?}");
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    assert!(follower.wait().unwrap().success());
    assert!(rest.iter().any(|line| line.contains("again here")), "{rest:?}");
    assert!(!rest.iter().any(|line| line.contains("there")), "{rest:?}");
}

#[test]
fn a_removal_concerns_the_instance_of_this_folder_and_not_a_live_namesake_above_it() {
    let world = World::new();
    std::fs::create_dir(world.project().join("inner")).unwrap();
    for folder in [".", "inner"] {
        world.file(&format!("{folder}/team.yaml"), TEAM);
        let said = shell(&world, &format!("cd {folder} && agent-worker up team.yaml"));
        assert_eq!(said.code, 0, "{said:?}");
    }
    let inner = world.project().join("inner");
    let run = world.list(&["runs", "--all", "--json"]);
    let run = run.as_array().unwrap().iter().find(|run| run["project"] == inner.to_str().unwrap());
    let run = run.unwrap()["run"].as_str().unwrap().to_owned();
    let (code, body) = world.as_user("POST", &format!("/runs/{run}/stop"), "{}");
    assert_eq!(code, 200, "{body}");
    let said = shell(&world, "cd inner && agent-worker rm @team --force --yes");
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.stdout.contains(&format!("of {}: 1 run", inner.display())), "{said:?}");
    let runs = world.list(&["runs", "--all", "--json"]);
    assert_eq!(runs.as_array().unwrap().len(), 1, "{runs}");
    assert_eq!(runs[0]["state"]["state"].as_str().or(runs[0]["state"].as_str()), Some("running"));
    // Two namesakes around a folder without one are ambiguous, and neither is stopped.
    std::fs::create_dir(world.project().join("inner/deep")).unwrap();
    assert_eq!(shell(&world, "cd inner && agent-worker up team.yaml").code, 0);
    let said = shell(&world, "cd inner/deep && agent-worker rm @team --force --yes");
    assert!(said.code == 1 && said.stderr.contains("several runs match `@team`: "), "{said:?}");
    assert_eq!(world.list(&["ls", "--all", "--json"]).as_array().unwrap().len(), 4);
}

#[test]
fn a_workflow_file_in_another_folder_names_the_team_of_that_folder() {
    let world = World::new();
    for folder in ["a", "b"] {
        std::fs::create_dir(world.project().join(folder)).unwrap();
        world.file(&format!("{folder}/team.yaml"), TEAM);
        assert_eq!(shell(&world, &format!("cd {folder} && agent-worker up team.yaml")).code, 0);
    }
    let said = shell(&world, "cd a && agent-worker new x --context ../b/team.yaml -b mock");
    assert_eq!((said.code, said.stdout.trim()), (0, "x@team"), "{said:?}");
    let listed = |folder: &str| {
        let line = format!("cd {folder} && agent-worker ls @team");
        shell(&world, &line).stdout.contains("x@team")
    };
    assert_eq!((listed("a"), listed("b")), (false, true));
    let said = shell(&world, "cd a && agent-worker new y --context ../b/taem.yaml -b mock");
    assert!(said.code == 2, "{said:?}");
    assert!(said.stderr.contains("did you mean `../b/team.yaml`?"), "{said:?}");
}

#[test]
fn an_unknown_agent_has_the_same_words_in_every_command() {
    let world = teams(&["one"]);
    let expected =
        "error: there is no agent `codre` in @team:one\nhint: did you mean `coder@team:one`?\n";
    for words in [
        &["send", "codre@team:one", "hello"][..],
        &["ask", "codre@team:one", "hello"],
        &["logs", "codre@team:one"],
        &["status", "codre@team:one"],
        &["stop", "codre@team:one"],
    ] {
        let said = world.run(words);
        assert_eq!((said.code, said.stderr.as_str()), (1, expected), "{words:?}");
    }
}

#[test]
fn the_user_who_reads_an_inbox_of_an_ended_run_is_told_so() {
    let world = teams(&["one", "two"]);
    assert_eq!(world.run(&["stop", "@team:one"]).code, 0);
    assert_eq!(world.run(&["stop", "@team:two"]).code, 0);
    for words in
        [&["context", "inbox", "--agent", "coder"][..], &["context", "read", "--agent", "coder"]]
    {
        let said = world.run(words);
        let note = "no live run; showing the last one: @team:two (ended ";
        assert!(said.stderr.contains(note), "{words:?}: {said:?}");
    }
}

#[test]
fn a_port_in_a_variable_that_is_no_number_is_named() {
    let world = World::new();
    assert_eq!(world.run(&["daemon", "start"]).code, 0);
    assert_eq!(world.run(&["daemon", "stop"]).code, 0);
    let said = shell(&world, "AGENT_WORKER_PORT=abc agent-worker ls");
    assert!(said.code == 1 && said.stderr.contains("AGENT_WORKER_PORT"), "{said:?}");
    assert!(!said.stderr.contains("--port"), "{said:?}");
}

#[test]
fn two_different_targets_are_refused() {
    let world = teams(&["one", "two"]);
    let same = world.run(&["status", "@team:one", "--to", "@team:one"]);
    assert_eq!(same.code, 0, "{same:?}");
    let differ = world.run(&["status", "@team:one", "--target", "@team:two"]);
    assert_eq!(differ.code, 2, "{differ:?}");
    assert!(differ.stderr.contains("two targets are given"), "{differ:?}");
}

#[test]
fn a_misspelt_target_file_or_command_has_a_suggestion() {
    let world = teams(&["one"]);
    for (line, expected) in [
        ("agent-worker status @taem:one", "did you mean `@team:one`?"),
        ("agent-worker status @team:on", "did you mean `@team:one`?"),
        ("agent-worker status codre@team:one", "did you mean `coder@team:one`?"),
        ("agent-worker send codre hello", "did you mean `coder@team:one`?"),
        ("agent-worker peek team", "did you mean `@team:one`?"),
        ("agent-worker run taem.yaml", "did you mean `team.yaml`?"),
        ("agent-worker validate team", "did you mean `team.yaml`?"),
        ("agent-worker rnu team.yaml", "'run'"),
        ("agent-worker schedule coder set 5m", "error: `schedule` is not in this version"),
    ] {
        let said = shell(&world, line);
        assert!(said.code != 0 && said.stderr.contains(expected), "{line}: {said:?}");
    }
    let later = world.command(&["skill", "--json"]).output().unwrap();
    assert_eq!(later.status.code(), Some(2));
    let later: serde_json::Value = serde_json::from_slice(&later.stdout).unwrap();
    assert_eq!(later["error"]["code"], "usage");
    assert_eq!(later["error"]["message"], "`skill` is not in this version");
}

#[test]
fn a_removal_asks_at_a_terminal_and_needs_yes_without_one() {
    let world = teams(&["one"]);
    assert_eq!(world.run(&["stop", "@team:one"]).code, 0);
    let piped = world.run(&["rm", "@team:one"]);
    assert_eq!(piped.code, 2, "{piped:?}");
    assert!(piped.stderr.contains("agent-worker rm @team:one --yes"), "{piped:?}");
    for (answer, code, left) in [("\n", 1, 1), ("n\n", 1, 1), ("y\n", 0, 0)] {
        let mut terminal = Terminal::open(&world, 200, "rm @team:one");
        wait_for("the question", || terminal.output().contains("[y/N]").then_some(()));
        terminal.type_text(answer);
        let (status, shown) = terminal.wait_exit();
        assert_eq!(status.code(), Some(code), "{shown}");
        let question = "this deletes 1 run, 0 messages and 0 documents of @team:one in ";
        assert!(shown.contains(question), "{shown}");
        assert!(shown.contains("; project files stay. Continue? [y/N]"), "{shown}");
        let runs = world.list(&["runs", "--all", "--json"]);
        assert_eq!(runs.as_array().unwrap().len(), left, "{runs}");
    }
}

#[test]
fn an_unset_variable_is_an_error_of_run_with_its_line_and_a_warning_of_validate() {
    let world = World::new();
    world.file(
        "team.yaml",
        "agents:\n  a: { backend: mock }\nsetup:\n  - shell: echo ${{ env.BUILD }}\nkickoff: '@a go'\n",
    );
    let run = world.run(&["run", "team.yaml"]);
    assert_eq!(run.code, 2, "{run:?}");
    for expected in ["the variable BUILD is not set", "team.yaml:4:", "^^^", "export BUILD=…"] {
        assert!(run.stderr.contains(expected), "{expected}: {run:?}");
    }
    let checked = world.run(&["validate", "team.yaml"]);
    assert_eq!(checked.code, 0, "{checked:?}");
    assert!(
        checked.stderr.contains("team.yaml:4:21: the variable BUILD is not set"),
        "{checked:?}"
    );
    let empty = shell(&world, "BUILD= agent-worker run team.yaml");
    assert_eq!(empty.code, 0, "an empty variable is set: {empty:?}");
}
