//! Commands that act: agents that join and leave, messages and questions.

use std::process::{Command, Stdio};

use crate::{
    shell_transcript::{run_lines, shell},
    world::World,
};

/// A permanent team of two in the world's project.
const ECHO: &str = "name: echo\nagents:\n  parrot:\n    backend: mock\n    retry: { backoff: 1ms }\n    mock:\n      \
                    - { on: poison, fail: fatal }\n      - { say: Polly. }\n  owl: { backend: mock, mock: [{ say: Hoo. }] }\n";

pub(crate) fn echo_team() -> World {
    let world = World::new();
    world.file("echo.yaml", ECHO);
    let said = world.run(&["start", "echo.yaml", "--background"]);
    assert_eq!(said.code, 0, "{said:?}\n{}", world.log());
    world
}

#[test]
fn an_agent_by_itself_joins_answers_and_leaves() {
    let world = World::new();
    insta::assert_snapshot!(run_lines(&world, r#"
        agent-worker new parrot -b mock --say "Polly."
        agent-worker new -b mock --mock '[{ on: why, say: Because. }, { say: Hm. }]' -s "You are terse."
        agent-worker new -b mock --say "One."
        agent-worker ask parrot "who is a pretty bird?"
        agent-worker ask a0 "and why?"
        agent-worker agent list
        agent-worker new Parrot -b mock --say "Me too."
        agent-worker agent end parrot
        agent-worker agent end parrot
    "#), @r#"
    $ agent-worker new parrot -b mock --say "Polly."
    parrot
    ! hint: ask it something: agent-worker ask parrot "…"
    $ agent-worker new -b mock --mock '[{ on: why, say: Because. }, { say: Hm. }]' -s "You are terse."
    a0
    ! hint: ask it something: agent-worker ask a0 "…"
    $ agent-worker new -b mock --say "One."
    a1
    ! hint: ask it something: agent-worker ask a1 "…"
    $ agent-worker ask parrot "who is a pretty bird?"
    Polly.
    $ agent-worker ask a0 "and why?"
    Because.
    $ agent-worker agent list
    NAME    SOURCE        STATUS  WAITING  TURNS  MESSAGES
    parrot  (standalone)  idle    0        1      1
    a0      (standalone)  idle    0        1      1
    a1      (standalone)  idle    0        0      0
    $ agent-worker new Parrot -b mock --say "Me too."
    ! error: agent `Parrot` already exists
    ! hint: choose another name, or end the existing agent: agent-worker agent end Parrot
    (exit 1)
    $ agent-worker agent end parrot
    removed parrot
    $ agent-worker agent end parrot
    ! error: there is no agent `parrot`
    ! hint: `agent-worker ls --all` lists every agent
    (exit 1)
    "#);
    let named = world.json(&["new", "owl", "-b", "mock", "--json"]);
    assert_eq!((&named["name"], &named["instance"]), (&"owl".into(), &"global".into()), "{named}");
}

#[test]
fn an_invalid_agent_is_reported_before_a_daemon_is_started_for_it() {
    let world = World::new();
    world.file("bad.yaml", "- { sya: hello }\n");
    insta::assert_snapshot!(run_lines(&world, "
        agent-worker new
        agent-worker new alice -b sdk
        agent-worker new alice -b mok
        agent-worker new alice -m acme/gpt-5
        agent-worker new alice@review --workflow review -b mock
        agent-worker new alice -b mock --mock bad.yaml
        agent-worker new alice -b mock -f nowhere.md
        agent-worker new all -b mock
    "), @r#"
    $ agent-worker new
    ! error: an agent needs a backend: there is no default
    ! hint: this version has `claude`, `codex`, `gemini`, `opencode`, `cursor`, `api`, `acp`, `command`, `mock`, such as: agent-worker new -b mock --say "Hello."
    (exit 2)
    $ agent-worker new alice -b sdk
    ! error: backend `api` needs a model
    ! hint: such as `anthropic/claude-sonnet-5-5`
    (exit 2)
    $ agent-worker new alice -b mok
    ! error: there is no backend `mok`
    ! hint: did you mean `mock`?
    (exit 2)
    $ agent-worker new alice -m acme/gpt-5
    ! error: the model `acme/gpt-5` does not imply a backend
    ! hint: add a backend; this version has `claude`, `codex`, `gemini`, `opencode`, `cursor`, `api`, `acp`, `command`, `mock`, such as: agent-worker new -b mock --say "Hello."
    (exit 2)
    $ agent-worker new alice@review --workflow review -b mock
    ! error: the workflow or tag to join is given twice
    ! hint: give it once: agent-worker new name@workflow:tag
    (exit 2)
    $ agent-worker new alice -b mock --mock bad.yaml
    ! error: unknown key `[0].sya`
    !  --> bad.yaml:1:5
    !   |
    ! 1 | - { sya: hello }
    !   |     ^^^
    !   |
    !   = help: did you mean `say`?
    (exit 2)
    $ agent-worker new alice -b mock -f nowhere.md
    ! error: cannot read nowhere.md: No such file or directory (os error 2)
    (exit 2)
    $ agent-worker new all -b mock
    ! error: invalid value 'all' for '[NAME]': `all` is reserved; choose another name
    !
    ! For more information, try '--help'.
    (exit 2)
    "#);
    assert_eq!(world.daemon_pid(), None);
}

#[test]
fn an_agent_joins_a_team_that_runs_in_every_spelling() {
    let world = echo_team();
    insta::assert_snapshot!(run_lines(&world, r#"
        agent-worker new judge@echo -b mock --say "Guilty."
        agent-worker new --workflow echo -b mock --say "Zero."
        agent-worker ask judge@echo "well?"
        agent-worker send @echo "@all good morning" --wait
        agent-worker new judge@nothing -b mock
        agent-worker agent end judge@echo
        agent-worker send judge@echo "well?"
        agent-worker stop @echo
        agent-worker new judge@echo -b mock
    "#), @r#"
    $ agent-worker new judge@echo -b mock --say "Guilty."
    judge@echo
    ! hint: ask it something: agent-worker ask judge@echo "…"
    $ agent-worker new --workflow echo -b mock --say "Zero."
    a0@echo
    ! hint: ask it something: agent-worker ask a0@echo "…"
    $ agent-worker ask judge@echo "well?"
    Guilty.
    $ agent-worker send @echo "@all good morning" --wait
    a0: Zero.
    judge: Guilty.
    owl: Hoo.
    parrot: Polly.
    ! #3 → parrot, owl, judge, a0
    $ agent-worker new judge@nothing -b mock
    ! error: there is no instance `@nothing`
    ! hint: `agent-worker ls --all` lists every agent
    (exit 1)
    $ agent-worker agent end judge@echo
    removed judge@echo
    $ agent-worker send judge@echo "well?"
    ! error: there is no agent `judge` in @echo
    ! hint: `agent-worker ls --all` lists every agent
    (exit 1)
    $ agent-worker stop @echo
    stopped @echo: no agent was working
    $ agent-worker new judge@echo -b mock
    ! error: @echo has no live run
    ! hint: restart it: agent-worker restart @echo
    (exit 1)
    "#);
}

#[test]
fn an_agents_own_environment_and_folder_reach_its_worker() {
    let world = World::new();
    let said = shell(
        &world,
        r#"USER=ada SECRET=x agent-worker new shell -b mock --mock '[{ run: "echo $USER ${SECRET-no} $PWD" }]'"#,
    );
    assert_eq!(said.code, 0, "{said:?}");
    let said = world.run(&["ask", "shell", "who are you?"]);
    assert_eq!(said.stdout.trim(), format!("ada no {}", world.project().display()), "{said:?}");
}

#[test]
fn a_chosen_agent_is_meant_in_its_folder_and_nowhere_else() {
    let world = echo_team();
    insta::assert_snapshot!(run_lines(&world, r#"
        agent-worker use
        agent-worker send "hello"
        agent-worker use owl@echo
        agent-worker use
        agent-worker send "hello" --wait
        agent-worker ask "and you?"
        agent-worker send parrot@echo "not you" --wait
        mkdir sub && cd sub && agent-worker use
        agent-worker agent use owll@echo
        agent-worker use --none
        agent-worker ask "and you?"
    "#), @r#"
    $ agent-worker use
    ! no target is selected in this folder
    (exit 1)
    $ agent-worker send "hello"
    #1 (wakes no agent)
    $ agent-worker use owl@echo
    owl@echo
    $ agent-worker use
    owl@echo
    $ agent-worker send "hello" --wait
    Hoo.
    ! using owl@echo, selected with `use`
    ! #2 → owl
    $ agent-worker ask "and you?"
    Hoo.
    ! using owl@echo, selected with `use`
    $ agent-worker send parrot@echo "not you" --wait
    Polly.
    ! #6 → parrot
    $ mkdir sub && cd sub && agent-worker use
    ! no target is selected in this folder
    (exit 1)
    $ agent-worker agent use owll@echo
    owll@echo
    ! warning: there is no agent `owll` in @echo
    ! hint: did you mean `owl@echo`?
    $ agent-worker use --none
    ! no target is selected in this folder
    $ agent-worker ask "and you?"
    ! error: no agent is named
    ! hint: name one: agent-worker ask agent@workflow "…"; or choose one for this folder: agent-worker use agent
    (exit 2)
    "#);
    assert_eq!(world.json(&["use", "owl@echo", "--json"])["default"], "owl@echo");
}

#[test]
fn session_is_the_old_name_of_agent_and_says_so() {
    let world = World::new();
    insta::assert_snapshot!(run_lines(&world, r#"
        agent-worker session new -n parrot -b mock --say "Polly."
        agent-worker session use parrot
        agent-worker session list
        agent-worker session end parrot
    "#), @r#"
    $ agent-worker session new -n parrot -b mock --say "Polly."
    parrot
    ! warning: `session` is deprecated and will be removed: use `agent`
    ! hint: ask it something: agent-worker ask parrot "…"
    $ agent-worker session use parrot
    parrot
    ! warning: `session` is deprecated and will be removed: use `agent`
    $ agent-worker session list
    NAME    SOURCE        STATUS  WAITING  TURNS  MESSAGES
    parrot  (standalone)  idle    0        0      0
    ! warning: `session` is deprecated and will be removed: use `agent`
    ! showing only parrot, selected with `use`; --all ignores the selection
    $ agent-worker session end parrot
    removed parrot
    ! warning: `session` is deprecated and will be removed: use `agent`
    "#);
}

#[test]
fn a_message_goes_to_the_same_place_in_both_spellings_and_from_stdin() {
    let world = echo_team();
    insta::assert_snapshot!(run_lines(&world, r#"
        agent-worker send owl@echo "one" --wait
        agent-worker send "two" --to owl@echo --wait
        echo "three" | agent-worker send owl@echo - --wait
        agent-worker send parrot@echo "poison" --wait
        agent-worker send @echo "four" --to owl@elsewhere
        agent-worker send @echo "- five" --to owl --cc parrot
        agent-worker peek @echo --find three
    "#), @r#"
    $ agent-worker send owl@echo "one" --wait
    Hoo.
    ! #1 → owl
    $ agent-worker send "two" --to owl@echo --wait
    Hoo.
    ! #3 → owl
    $ echo "three" | agent-worker send owl@echo - --wait
    Hoo.
    ! #5 → owl
    $ agent-worker send parrot@echo "poison" --wait
    ! #7 → parrot
    ! #7 for parrot is dead: failed (fatal): scripted
    (exit 1)
    $ agent-worker send @echo "four" --to owl@elsewhere
    ! error: `--to owl@elsewhere` names an instance, and a message goes to one instance only
    ! hint: name the instance once: agent-worker send @workflow:tag "…" --to agent
    (exit 2)
    $ agent-worker send @echo "- five" --to owl --cc parrot
    #9 → owl (cc parrot)
    $ agent-worker peek @echo --find three
    TIME #5 user → owl: three
    "#);
    let sent = world.json(&["send", "six", "--to", "owl@echo", "--wait", "--json"]);
    assert_eq!(
        (&sent["outcome"], &sent["receipts"][0]["answer"]),
        (&"done".into(), &"Hoo.".into()),
        "{sent}"
    );
}

#[test]
fn a_question_in_a_pipe_prints_the_answer_alone_and_exits_as_it_went() {
    let world = echo_team();
    insta::assert_snapshot!(run_lines(&world, r#"
        agent-worker ask owl@echo "who?" | cat
        echo "who?" | agent-worker ask owl@echo -
        agent-worker ask parrot@echo "poison"
        agent-worker ask @echo "anybody?"
        agent-worker ask "anybody?"
        agent-worker ask nobody-here@echo "who?"
    "#), @r#"
    $ agent-worker ask owl@echo "who?" | cat
    Hoo.
    $ echo "who?" | agent-worker ask owl@echo -
    Hoo.
    $ agent-worker ask parrot@echo "poison"
    ! #5 for parrot is dead: failed (fatal): scripted
    (exit 1)
    $ agent-worker ask @echo "anybody?"
    ! error: `@echo` is a team, and a question goes to one agent
    ! hint: name one: agent-worker ask agent@workflow "…"; or choose one for this folder: agent-worker use agent
    (exit 2)
    $ agent-worker ask "anybody?"
    ! error: no agent is named
    ! hint: name one: agent-worker ask agent@workflow "…"; or choose one for this folder: agent-worker use agent
    (exit 2)
    $ agent-worker ask nobody-here@echo "who?"
    ! error: there is no agent `nobody-here` in @echo
    ! hint: `agent-worker ls --all` lists every agent
    (exit 1)
    "#);
    let asked = world.json(&["ask", "owl@echo", "who?", "--json"]);
    assert_eq!(asked["receipts"][0]["answer"], "Hoo.", "{asked}");
}

#[test]
fn a_question_on_a_terminal_shows_the_answer_once_as_it_comes() {
    let world = World::new();
    world.run(&["new", "slow", "-b", "mock", "--mock", "[{ sleep: 300ms, say: Here it is. }]"]);
    let like = world.command(&[]);
    let binary = env!("CARGO_BIN_EXE_agent-worker");
    let output = Command::new("script")
        .args(["-qec", &format!("{binary} ask slow 'well?'"), "/dev/null"])
        .env_clear()
        .envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .env("TERM", "xterm")
        .current_dir(world.project())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let seen = String::from_utf8_lossy(&output.stdout).replace('\r', "");
    assert_eq!((output.status.code(), &*seen), (Some(0), "Here it is.\n"));
}

#[test]
fn standalone_agents_are_shown_alike_everywhere_and_stopped_with_all() {
    let world = echo_team();
    for agent in ["crow", "owl"] {
        assert_eq!(world.run(&["new", agent, "-b", "mock", "--say", "Hoo."]).code, 0);
    }
    assert_eq!(world.run(&["ask", "owl", "who?"]).stdout, "Hoo.\n");
    let places = |words: &[&str]| {
        let shown = world.list(words);
        let mut places: Vec<_> =
            shown.as_array().unwrap().iter().map(|one| one["instance"].to_string()).collect();
        places.dedup();
        places.sort();
        places
    };
    for words in [&["runs", "--json"][..], &["stats", "--json"], &["ls", "--json"]] {
        assert_eq!(places(words), [r#""echo""#, r#""global""#], "{words:?}");
    }
    assert_eq!(world.json(&["status", "@global", "--json"])["turns"], 1);
    insta::assert_snapshot!(run_lines(&world, "
        agent-worker clear owl
        agent-worker clear @global
        agent-worker stop crow
        agent-worker stop --all
        agent-worker stop @global
        agent-worker ls
    "), @"
    $ agent-worker clear owl
    ! error: owl shares its channel with other agents; name the instance, @workflow:tag or @global, to hide all messages
    (exit 2)
    $ agent-worker clear @global
    cleared @global: everything up to #2 is hidden
    $ agent-worker stop crow
    stopped crow: no process was running
    ! hint: resume the agent: agent-worker resume crow
    $ agent-worker stop --all
    stopped @echo: no agent was working
    stopped owl: no process was running
    $ agent-worker stop @global
    ! nothing is running here
    $ agent-worker ls
    NAME  SOURCE        STATUS               WAITING  TURNS  MESSAGES
    crow  (standalone)  stopped by the user  0        0      0
    owl   (standalone)  stopped by the user  0        1      1
    ");
}
