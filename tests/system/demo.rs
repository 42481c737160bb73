//! `agent-worker demo` from outside: its scenes, its keys, its picture, and what it leaves behind.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::{
    terminal::Terminal,
    world::{CommandOutput, World, kill, wait_for},
};

/// A run of the user that is at work while the demo plays.
const USERS_TEAM: &str = "name: mine\nagents:\n  coder: { backend: mock, mock: [{ sleep: 10m }] }\nkickoff: '@coder go'\n";

/// Returns a world whose demos have a folder for temporary files of their own.
fn demo_world() -> World {
    let world = World::with(&[("TMPDIR", "tmp")]);
    fs::create_dir(world.project().join("tmp")).unwrap();
    world
}

/// Returns a demo without pauses.
fn demo(world: &World, options: &[&str]) -> Command {
    world.command(&[&["demo", "--pace", "0"], options].concat())
}

/// Checks that no process and no folder of a demo is left.
fn assert_nothing_left(world: &World) {
    let left = fs::read_dir(world.project().join("tmp")).unwrap().flatten();
    let left: Vec<_> = left.map(|entry| entry.path()).collect();
    assert!(left.is_empty(), "{left:?}");
    let needle = "agent-worker-demo";
    let processes: Vec<_> = world
        .processes()
        .into_iter()
        .filter(|(pid, _)| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            String::from_utf8_lossy(&environment).contains(needle)
        })
        .collect();
    assert!(processes.is_empty(), "{processes:?}");
}

/// Returns the facts about the user's daemon and run that no demo may change.
fn users_state(world: &World) -> Value {
    let health = world.json(&["daemon", "status", "--json"]);
    let agents = world.list(&["ls", "--json"]);
    let runs = world.list(&["runs", "--all", "--json"]);
    let state = |agent: &Value| (agent["name"].clone(), agent["attempt"].clone());
    let agents: Vec<_> = agents.as_array().unwrap().iter().map(state).collect();
    serde_json::json!({
        "pid": health["pid"], "address": health["address"], "live_runs": health["live_runs"],
        "workers": health["workers"], "agents": agents, "runs": runs.as_array().unwrap().len(),
    })
}

/// Replaces each number by `#`, because process ids differ between two runs.
fn without_numbers(text: &str) -> String {
    let mut plain = String::new();
    for c in text.trim().chars() {
        match (c.is_ascii_digit(), plain.ends_with('#')) {
            (true, true) => {}
            (true, false) => plain.push('#'),
            (false, _) => plain.push(c),
        }
    }
    plain
}

/// Returns the lines of text in the picture, after a check of its form.
fn recorded_lines() -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/demo.svg");
    let text = fs::read_to_string(path).unwrap();
    assert!(text.len() < 150 * 1024, "{} bytes", text.len());
    let picture = roxmltree::Document::parse(&text).unwrap();
    for element in picture.descendants().filter(roxmltree::Node::is_element) {
        let name = element.tag_name().name();
        assert!(!["script", "foreignObject", "image", "a", "use"].contains(&name), "{name}");
        for attribute in element.attributes() {
            let name = attribute.name();
            assert!(!name.starts_with("on") && name != "href", "{name} runs or loads something");
        }
    }
    assert!(!text.contains("url(") && !text.contains("@import"), "the picture loads something");
    let lines = picture
        .descendants()
        .filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "text")));
    let text_of = |line: roxmltree::Node<'_, '_>| -> String {
        line.descendants().filter_map(|node| node.is_text().then(|| node.text())?).collect()
    };
    lines.map(|line| without_numbers(&text_of(line))).collect()
}

#[test]
fn a_demo_beside_a_live_run_shows_every_scene_and_touches_nothing_of_the_user() {
    let world = demo_world();
    let file = world.file("mine.yaml", USERS_TEAM);
    world.json(&["start", file.to_str().unwrap(), "--background", "--json"]);
    wait_for("a turn of the user", || {
        (world.list(&["ls", "--json"])[0]["state"] == "running").then_some(())
    });
    let before = users_state(&world);
    let daemon_file = fs::read_to_string(world.home().join("daemon.json")).unwrap();

    // The port of the user's daemon is taken, and would be refused.
    let port = world.port();
    let said = demo(&world, &[]).env("AGENT_WORKER_PORT", &port).output().unwrap();
    let said = CommandOutput::from(said);

    assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{said:?}");
    assert!(!said.stdout.contains('\u{1b}') && !said.stdout.contains('✗'), "{}", said.stdout);
    for part in [
        "you       @lead please fix the login bug.",
        "failed (crash): the worker exited without a result",
        "attempt 2 starts",
        "$ kill -9 ",
        "The daemon is dead. 2 workers are still at work.",
        "✓ 12 of 12 messages with a receipt are in the channel",
        "✓ 2 of 2 turns continue",
        "✓ 24 of 24 messages are in the channel, each exactly once",
        "so the demo answers by itself",
        "✓ 33 of 33 messages are numbered without a gap",
        "✓ 31 of 31 deliveries were acted upon, each in one turn",
        "- coder: each login gets a new session cookie",
        "agent-worker init",
    ] {
        assert!(said.stdout.contains(part), "{part} is not in:\n{}", said.stdout);
    }
    let wide: Vec<_> = said.stdout.lines().filter(|line| line.chars().count() > 80).collect();
    assert!(wide.is_empty(), "{wide:?}");
    assert_eq!(users_state(&world), before);
    assert_eq!(fs::read_to_string(world.home().join("daemon.json")).unwrap(), daemon_file);
    assert_nothing_left(&world);

    let recorded = recorded_lines();
    // The recorded user pressed a key.
    let expected = said.stdout.lines().map(without_numbers).filter(|line| !line.is_empty());
    let expected = expected.filter(|line| !line.contains("so the demo answers by itself"));
    let missing: Vec<String> = expected.filter(|line| !recorded.contains(line)).collect();
    assert!(missing.is_empty(), "record the picture again with scripts/record: {missing:#?}");
}

#[test]
fn a_key_answers_the_question_and_every_line_fits_a_narrow_terminal() {
    let world = demo_world();
    let mut terminal = Terminal::open(&world, 40, "demo --pace 0");
    wait_for("the question", || terminal.output().contains("Press 1 for today").then_some(()));
    let shown = world.project().join("shown");
    terminal.press_until("2", || fs::read_to_string(&shown).unwrap().contains("released tomorrow"));
    let (status, output) = terminal.wait_exit();
    assert!(status.success(), "{output}");
    assert!(output.contains("- lead: the fix is released tomorrow"), "{output}");
    let plain = strip_colours(&output);
    let shown = plain.lines().filter(|line| !line.starts_with("Script "));
    let wide: Vec<_> = shown.filter(|line| line.trim_end().chars().count() > 40).collect();
    assert!(wide.is_empty(), "{wide:?}");
    assert_nothing_left(&world);
}

#[test]
fn ctrl_c_at_the_question_restores_the_terminal_and_leaves_nothing() {
    let world = demo_world();
    let mut terminal = Terminal::open(&world, 80, "demo --pace 0");
    wait_for("the question", || terminal.output().contains("Press 1 for today").then_some(()));
    terminal.type_text("\u{3}");
    let (status, output) = terminal.wait_exit();
    assert_eq!(status.code(), Some(130), "{output}");
    assert_nothing_left(&world);
}

fn strip_colours(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        plain.push_str(before);
        rest = after.split_once('m').map_or("", |(_, rest)| rest);
    }
    plain + rest
}

#[test]
fn a_demo_that_is_interrupted_at_any_scene_leaves_no_process_and_no_folder() {
    let moments = [
        ("A team of agents", "INT"),
        ("The demo has its own daemon", "TERM"),
        ("coder     failed (crash)", "INT"),
        ("$ kill -9", "HUP"),
        ("The daemon is dead", "INT"),
        ("The next daemon starts", "TERM"),
        ("so the demo answers", "INT"),
    ];
    std::thread::scope(|scope| {
        for (line, signal) in moments {
            scope.spawn(move || interrupt_demo_at(line, signal));
        }
    });
}

/// Sends a signal to a demo as soon as it has printed the line.
fn interrupt_demo_at(line: &str, signal: &str) {
    let world = demo_world();
    let mut command = demo(&world, &[]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut shown = BufReader::new(child.stdout.take().unwrap());
    let mut last = String::new();
    while !last.contains(line) {
        last.clear();
        assert!(shown.read_line(&mut last).unwrap() > 0, "the demo did not print {line}");
    }
    kill(child.id(), signal);
    let mut rest = String::new();
    shown.read_to_string(&mut rest).unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(130), "{line}: {rest} {stderr}");
    assert!(stderr.contains("its processes have ended"), "{line}: {stderr}");
    assert_nothing_left(&world);
    assert!(world.processes().is_empty(), "{line}: {:?}", world.processes());
}

#[test]
fn a_demo_whose_reader_goes_away_leaves_nothing() {
    let world = demo_world();
    let mut child = demo(&world, &[]).stdout(Stdio::piped()).spawn().unwrap();
    let mut shown = BufReader::new(child.stdout.take().unwrap());
    shown.read_line(&mut String::new()).unwrap();
    drop(shown);
    assert!(child.wait().unwrap().success());
    assert_nothing_left(&world);
}

#[test]
fn a_kept_demo_can_be_read_with_the_printed_command() {
    let world = demo_world();
    let said = CommandOutput::from(demo(&world, &["--keep", "--no-input"]).output().unwrap());
    assert_eq!(said.code, 0, "{said:?}");
    let words = said.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let command = words.split_once("Read the channel: ").unwrap().1;
    let command = command.split_once("-n 50").unwrap().0;
    let home = command.split_once("AGENT_WORKER_HOME=").unwrap().1.split(' ').next().unwrap();
    let script = command
        .replace("agent-worker peek", &format!("{} peek", env!("CARGO_BIN_EXE_agent-worker")));
    let mut shell = Command::new("sh");
    let like = world.command(&[]);
    shell.env_clear().envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let read = shell.args(["-c", &format!("{script} -n 50")]).output().unwrap();
    let read = CommandOutput::from(read);
    assert!(read.stdout.contains("The fix is released today."), "{read:?}\n{}", said.stdout);
    let stopped = world.command(&["daemon", "stop"]).env("AGENT_WORKER_HOME", home).output();
    assert!(stopped.unwrap().status.success());
}

#[test]
fn an_agent_cannot_start_a_demo() {
    let world = demo_world();
    let said = demo(&world, &[]).env("AGENT_WORKER_ATTEMPT", "a1").output().unwrap();
    let said = CommandOutput::from(said);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.stderr.contains("an agent cannot start one"), "{said:?}");
    assert_nothing_left(&world);
}
