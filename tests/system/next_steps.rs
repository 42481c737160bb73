//! The next step after a failure, at a limit and for a question; a target in place of a text.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::fs::PermissionsExt as _,
    process::{Command, Stdio},
};

use crate::world::{CommandOutput, World};

const ASKS: &str = "name: hh\nagents:\n  a: { backend: mock, mock: [{ on: color, calls: [{ tool: ask_human, \
                    args: { question: 'which color?' } }], say: asked }, { say: ok }] }\nkickoff: '@a color'\n";
const OWL: &str = "name: owl\nagents:\n  owl: { backend: mock, mock: [{ say: Hoo. }] }\n";

/// Runs a command with this text on stdin.
fn piped(world: &World, words: &[&str], text: &str) -> CommandOutput {
    let mut command: Command = world.command(words);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    CommandOutput::from(child.wait_with_output().unwrap())
}

fn asking_world() -> World {
    let world = World::new();
    world.file("hh.yaml", ASKS);
    assert_eq!(world.run(&["run", "hh.yaml"]).code, 4);
    world
}

fn owl_world() -> World {
    let world = World::new();
    world.file("owl.yaml", OWL);
    assert_eq!(world.run(&["up", "owl.yaml"]).code, 0);
    world
}

#[test]
fn a_target_in_place_of_a_text_is_a_target_and_the_text_is_missing() {
    let world = owl_world();
    for (words, what) in [
        (&["answer", "3", "@owl"][..], "an answer"),
        (&["ask", "owl@owl"], "a question"),
        (&["send", "@owl"], "a message"),
        (&["doc", "append", "n.md", "@owl"], "a text"),
        (&["doc", "write", "n.md", "@owl"], "a text"),
        (&["doc", "create", "n.md", "@owl"], "a text"),
        (&["doc", "suggest", "n.md", "@owl"], "a description"),
        (&["propose", "@owl"], "a title"),
        (&["vote", "1", "@owl"], "an option"),
    ] {
        let said = world.run(words);
        let target = words.last().unwrap();
        let error = format!("error: `{target}` is a target without {what}\n");
        assert!(said.code == 2 && said.stderr.starts_with(&error), "{words:?}: {said:?}");
        assert!(said.stderr.contains("name the target with --target"), "{words:?}: {said:?}");
    }
    assert!(world.run(&["doc", "list", "@owl"]).stderr.contains("there are no documents"));
}

#[test]
fn the_text_of_a_command_that_ends_with_a_target_is_read_from_stdin() {
    let world = owl_world();
    let said = piped(&world, &["doc", "append", "n.md", "@owl"], "piped\n");
    assert_eq!((said.code, said.stdout.as_str()), (0, "n.md is at revision 1\n"), "{said:?}");
    assert_eq!(world.run(&["doc", "read", "n.md", "@owl"]).stdout, "piped\n");
    assert_eq!(piped(&world, &["ask", "owl@owl"], "who?").stdout, "Hoo.\n");
    let literal = world.run(&["doc", "append", "n.md", "@owl", "--target", "@owl"]);
    assert_eq!(literal.code, 0, "{literal:?}");
    assert_eq!(world.run(&["doc", "read", "n.md", "@owl"]).stdout, "piped\n@owl\n");
}

#[test]
fn a_command_that_waits_for_a_text_on_an_open_pipe_says_so() {
    let world = owl_world();
    let mut command = world.command(&["send", "owl@owl"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "waiting for the message on stdin");
    child.stdin.take().unwrap().write_all(b"hello").unwrap();
    assert!(child.wait().unwrap().success());
    assert!(world.run(&["peek", "@owl"]).stdout.contains("hello"));
}

#[test]
fn the_status_of_a_run_has_its_answers() {
    let world = owl_world();
    assert_eq!(world.run(&["ask", "owl@owl", "who?"]).code, 0);
    let status = world.json(&["status", "@owl", "--json"]);
    assert_eq!(status["answers"]["owl"]["text"], "Hoo.", "{status}");
}

#[test]
fn an_answer_is_read_from_stdin_if_a_target_follows_the_number() {
    let world = asking_world();
    let said = piped(&world, &["answer", "1", "@hh"], "blue\n");
    assert_eq!(said.code, 0, "{said:?}");
    assert!(world.run(&["peek", "@hh"]).stdout.contains("blue"), "the answer is the piped text");
}

#[test]
fn a_run_that_waits_for_a_person_names_the_question_and_the_command() {
    let world = asking_world();
    let step = "next step   answer question 1 of a (which color?): agent-worker answer 1 \"…\" --target @hh\n";
    for words in [&["why", "@hh"][..], &["why", "a@hh"]] {
        let said = world.run(words);
        assert!(said.stdout.contains(step), "{words:?}: {said:?}");
        assert!(!said.stdout.contains("agent-worker resume"), "{words:?}: {said:?}");
    }
    let status = world.run(&["status", "@hh"]).stdout;
    assert!(status.contains("answer question 1 of a (which color?): "), "{status}");
}

#[test]
fn a_question_of_a_replaced_run_is_said_to_belong_to_it() {
    let world = asking_world();
    assert_eq!(world.run(&["run", "hh.yaml", "--replace"]).code, 4);
    let said = world.run(&["answer", "1", "blue", "@hh"]);
    let expected = "error: question #1 belonged to an earlier run of @hh\n";
    assert_eq!((said.code, said.stderr.as_str()), (1, expected));
    let said = world.run(&["answer", "9", "blue", "@hh"]);
    assert_eq!((said.code, said.stderr.as_str()), (1, "error: there is no question #9 in @hh\n"));
}

#[test]
fn restart_is_not_named_for_an_instance_without_a_file() {
    let world = World::new();
    assert_eq!(world.run(&["new", "x", "--instance", "i", "-b", "mock"]).code, 0);
    assert_eq!(world.run(&["stop", "@i"]).code, 0);
    for words in [
        &["why", "@i"][..],
        &["status", "@i"],
        &["pause", "@i"],
        &["resume", "@i"],
        &["attach", "@i"],
        &["send", "@i", "hello"],
        &["doc", "write", "n.md", "text", "@i"],
        &["propose", "title", "@i"],
    ] {
        let said = world.run(words);
        let text = format!("{}{}", said.stdout, said.stderr);
        assert!(!text.contains("agent-worker restart"), "{words:?}: {said:?}");
        assert!(!text.contains("showing the last one"), "{words:?}: {said:?}");
    }
    let said = world.run(&["restart", "@i"]);
    assert!(said.code == 1 && said.stderr.contains("@i was not started from a file"), "{said:?}");
    let again = world.run(&["new", "x", "--instance", "i", "-b", "mock"]);
    assert_eq!(again.code, 0, "the hint works: {again:?}");
}

#[test]
fn restart_is_not_named_for_an_ended_run_in_memory() {
    let world = World::new();
    let memory = "name: mem\ncontext: { provider: memory }\nagents:\n  a: { backend: mock, mock: [{ say: hi }] }\n\
                  kickoff: '@a go'\n";
    world.file("mem.yaml", memory);
    assert_eq!(world.run(&["run", "mem.yaml"]).code, 0);
    for words in [&["why", "@mem"][..], &["pause", "@mem"], &["attach", "@mem"]] {
        let said = world.run(words);
        let text = format!("{}{}", said.stdout, said.stderr);
        assert!(!text.contains("agent-worker restart"), "{words:?}: {said:?}");
        assert!(text.contains("command that started it"), "{words:?}: {said:?}");
    }
}

#[test]
fn a_note_about_an_ended_run_says_what_the_command_does_with_it() {
    let world = owl_world();
    assert_eq!(world.run(&["stop", "@owl"]).code, 0);
    for words in [&["pause"][..], &["resume"], &["attach"]] {
        let said = world.run(words);
        assert!(said.code != 0 && !said.stderr.contains("no live run;"), "{words:?}: {said:?}");
    }
    let said = world.run(&["restart", "--detach"]);
    assert!(said.stderr.contains("no live run; restarting the last one: @owl"), "{said:?}");
}

#[test]
fn a_failed_verdict_has_an_author_and_a_next_step() {
    let world = World::new();
    let verdict = "name: vf\nfinisher: a\nagents:\n  a: { backend: mock, mock: [{ calls: [{ tool: run_finish, \
                   args: { outcome: failed, summary: red } }], say: bad }] }\nkickoff: '@a go'\n";
    world.file("vf.yaml", verdict);
    assert_eq!(world.run(&["run", "vf.yaml"]).code, 1);
    let step = "fix the cause and restart: agent-worker restart @vf\n";
    let why = world.run(&["why", "@vf"]).stdout;
    assert!(why.contains("because     verdict of a: red\n") && why.contains(step), "{why}");
    let status = world.run(&["status", "@vf"]).stdout;
    assert!(status.starts_with("@vf  failed: verdict of a: red\n"), "{status}");
    assert!(status.contains(step), "{status}");
}

#[test]
fn a_run_at_the_wall_limit_is_resumed_before_its_agent() {
    let world = World::new();
    let limited = "name: rl\nlimits: { wall: 2s }\nagents:\n  a: { backend: mock, mock: [{ fail: rate_limited }] }\n\
                   kickoff: '@a go'\n";
    world.file("rl.yaml", limited);
    assert_eq!(world.run(&["run", "rl.yaml"]).code, 3);
    for words in [&["why", "@rl"][..], &["why", "a@rl"]] {
        let why = world.run(words).stdout;
        assert!(
            why.contains("next step   raise the limit: agent-worker resume @rl --wall "),
            "{why}"
        );
        assert!(!why.contains("agent-worker resume a@rl"), "{why}");
    }
}

#[test]
fn each_final_failure_is_printed_once_and_the_restart_once() {
    let world = World::new();
    let failing = "name: ff\nagents:\n  bad: { backend: mock, retry: { backoff: 1ms }, mock: [{ fail: fatal }] }\n  \
                   e3: { backend: command, command: [bash, -c, 'cat >/dev/null; exit 3'], retry: { backoff: 1ms } }\n\
                   kickoff: '@bad @e3 go'\n";
    world.file("ff.yaml", failing);
    let said = world.run(&["run", "ff.yaml"]);
    assert_eq!(said.code, 1, "{said:?}");
    for line in ["bad: failed (fatal): scripted\n", "e3: failed (fatal): exit status 3\n"] {
        assert!(!said.stderr.contains(&format!("\n{line}")), "{line}: {said:?}");
    }
    for agent in ["bad", "e3"] {
        let gave_up = format!("{agent}: gave up on message #1: ");
        assert_eq!(said.stderr.matches(&gave_up).count(), 1, "{said:?}");
    }
    let hints = "hint: correct the mock rules of bad\nhint: check the program of e3; its output, if any: agent-worker logs e3@ff\n\
                 hint: then: agent-worker restart @ff\n";
    assert!(said.stderr.ends_with(hints), "{said:?}");
    assert!(!said.stderr.contains("status 3:"), "no loose colon: {said:?}");
}

#[test]
fn a_program_that_is_not_executable_is_tried_once_and_has_its_fix() {
    let world = World::new();
    world.file("noexec.sh", "echo hi\n");
    let script = world.file("bad.sh", "#!/no/such/interp\n");
    fs::set_permissions(script, fs::Permissions::from_mode(0o755)).unwrap();
    let team = "name: ne\nagents:\n  a: { backend: command, command: [./noexec.sh], retry: { backoff: 1ms } }\n  \
                g: { backend: acp, agent: gemini }\n  \
                b: { backend: command, command: ./bad.sh, retry: { backoff: 1ms } }\nkickoff: '@a @g @b go'\n";
    world.file("ne.yaml", team);
    let checked = world.run(&["validate", "./ne.yaml"]);
    let file = world.project().join("ne.yaml");
    let warning = format!(
        "warning: {}:3:36: agent `a`: `./noexec.sh` is not executable\nhint: make it executable: chmod +x noexec.sh\n",
        file.display()
    );
    assert!(checked.stderr.starts_with(&warning), "{checked:?}");
    let warning =
        "agent `b`: `./bad.sh` needs the interpreter `/no/such/interp`, which does not exist\n";
    assert!(checked.stderr.contains(warning), "{checked:?}");
    let (code, report) = world.envelope(&["run", "ne.yaml", "--allow-missing", "--json"]);
    assert_eq!((code, &report["turns"]), (1, &3.into()), "{report}");
    assert_eq!(report["agents"]["b"]["last_failure"]["class"], "missing_program", "{report}");
    let why = world.run(&["why", "@ne"]).stdout;
    let script = world.project().canonicalize().unwrap().join("noexec.sh");
    let step = format!("make the program of a executable: chmod +x {}\n", script.display());
    assert!(why.contains(&step), "{why}");
    assert!(why.contains("install the program of g: npm install "), "{why}");
    assert!(why.contains("for b: correct the first line of the file"), "{why}");
    let new = world.run(&["new", "n", "-b", "command", "--command", "nosuch --x"]);
    assert!(new.stderr.starts_with("error: there is no program `nosuch` on the PATH\n"), "{new:?}");
    let new = world.run(&["new", "gg", "-b", "acp", "--agent", "gemini", "--allow-missing"]);
    assert_eq!(new.code, 0, "{new:?}");
    let asked = world.run(&["ask", "gg", "hi"]);
    assert!(asked.stderr.contains("hint: install the program of gg: npm install "), "{asked:?}");
}

#[test]
fn the_vote_of_the_user_is_listed_with_the_reason_for_the_decision() {
    let world = World::new();
    let voters = "name: v\nagents:\n  a: { backend: mock, mock: [{ say: hm }] }\n  b: { backend: mock, mock: [{ say: hm }] }\n";
    world.file("v.yaml", voters);
    assert_eq!(world.run(&["up", "v.yaml"]).code, 0);
    let said =
        world.run(&["propose", "tabs?", "--quorum", "1", "--close-at-quorum", "--target", "@v"]);
    assert_eq!(said.code, 0, "{said:?}");
    let said = world.run(&["vote", "1", "approve", "@v"]);
    assert_eq!(said.code, 0, "{said:?}");
    let list = world.run(&["proposals", "--all", "@v"]).stdout;
    assert!(list.contains("0 of 2 + user"), "{list}");
    let one = world.run(&["proposals", "1", "@v"]).stdout;
    assert!(one.contains("decided: enough voters have voted"), "{one}");
}

#[test]
fn a_paused_run_is_live_and_not_running() {
    let world = asking_world();
    let said = world.run(&["up", "hh.yaml"]);
    assert!(said.stderr.starts_with("error: @hh already has a live run (paused)\n"), "{said:?}");
}
