//! Commands that list: agents, their usage, the states of messages, and folders.

use serde_json::json;

use crate::{
    normalized_output::run_lines_normalized,
    world::{World, wait_for},
};

/// A permanent team of two: one agent that fails, waits, prints or hands over on request, and one that answers.
pub(crate) const TEAM: &str = r#"
name: team
agents:
  coder:
    backend: mock
    system_prompt: You write code.
    retry: { backoff: 1ms, max_attempts: 2 }
    mock:
      - { on: poison, fail: fatal }
      - { on: slow, sleep: 10m }
      - { on: print, run: 'printf "one\ntwo \033[31mred"', say: printed }
      - { on: break, run: 'printf half >> /proc/$PPID/fd/2; kill -9 $PPID' }
      - { on: note, calls: [{ tool: document_create, args: { file: notes.md, content: "a fence:\n```\n" } }], say: noted }
      - { say: On it., calls: [{ tool: channel_send, args: { message: "@owl have a look" } }] }
  owl: { backend: mock, mock: [{ say: Hoo. }] }
limits: { turns: 50 }
"#;

pub(crate) fn start_team() -> World {
    let world = World::new();
    world.file("team.yaml", TEAM);
    let said = world.run(&["up", "team.yaml"]);
    assert_eq!(said.code, 0, "{said:?}\n{}", world.log());
    world
}

pub(crate) fn send(world: &World, target: &str, text: &str) -> i64 {
    world.json(&["send", target, text, "--json"])["seq"].as_i64().unwrap()
}

/// Waits until a message is in this state.
fn wait_for_state(world: &World, seq: i64, state: &str) {
    let seq = seq.to_string();
    wait_for(&format!("#{seq} to be {state}"), || {
        let reply = world.list(&["receipts", &seq, "@team", "--json"]);
        (reply[0]["state"] == state).then_some(())
    });
}

#[test]
fn ls_and_ps_show_who_is_there_and_what_each_does() {
    let world = start_team();
    send(&world, "coder@team", "slow");
    wait_for("its turn", || {
        let agents = world.list(&["ls", "coder", "--json"]);
        (agents[0]["state"] == "running").then_some(())
    });
    insta::assert_snapshot!(run_lines_normalized(&world, "
        agent-worker ls
        agent-worker list coder@team
        agent-worker ps
        agent-worker ls nobody-here
        agent-worker ls @other
        agent-worker ps 'not a target'
    "), @r"
    $ agent-worker ls
    NAME  SOURCE  STATUS  WAITING  TURNS  MESSAGES
    coder@team  .  running for TIME  0  0  0
    owl@team  .  idle  0  0  0
    $ agent-worker list coder@team
    NAME  SOURCE  STATUS  WAITING  TURNS  MESSAGES
    coder@team  .  running for TIME  0  0  0
    $ agent-worker ps
    WORKFLOW  INSTANCE  AGENT  STATUS  MESSAGES  AGE
    team  main  coder  running for TIME  0  TIME
    team  main  owl  idle  0  TIME
    $ agent-worker ls nobody-here
    ! error: there is no agent `nobody-here`
    ! hint: `agent-worker ls --all` lists every agent
    (exit 1)
    $ agent-worker ls @other
    ! error: there is no instance `@other`
    ! hint: `agent-worker ls --all` lists every agent
    (exit 1)
    $ agent-worker ps 'not a target'
    ! error: invalid value 'not a target' for '[TARGET]': `not a target` cannot be an agent's name: use up to 32 letters, digits, `-` and `_`, starting with a letter
    !
    ! For more information, try '--help'.
    (exit 2)
    ");
    let agents = world.list(&["ps", "--json"]);
    let keys: Vec<&String> = agents[1].as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        [
            "backend", "instance", "messages", "name", "project", "started", "state", "turns",
            "usage", "waiting"
        ]
    );
}

#[test]
fn where_nothing_ever_ran_every_look_says_so_and_starts_nothing() {
    let world = World::new();
    insta::assert_snapshot!(run_lines_normalized(&world, "
        agent-worker ls
        agent-worker ps
        agent-worker runs
        agent-worker stats
        agent-worker dead
        agent-worker peek
        agent-worker status
        agent-worker why coder
        agent-worker export @team
        agent-worker receipts 1
    "), @r"
    $ agent-worker ls
    ! no daemon is running, so no agent is running
    $ agent-worker ps
    ! no live agents here; start a team with `agent-worker run`, or use --all
    $ agent-worker runs
    ! no runs in this folder; --all lists the runs of every folder
    $ agent-worker stats
    ! no live runs here; name an ended run, or use --all
    $ agent-worker dead
    ! no dead letters in live runs; --all includes ended runs
    $ agent-worker peek
    ! error: nothing has ever run here
    ! hint: `agent-worker run FILE` starts a team, `agent-worker init` writes a first one
    (exit 1)
    $ agent-worker status
    ! error: nothing has ever run here
    ! hint: `agent-worker run FILE` starts a team, `agent-worker init` writes a first one
    (exit 1)
    $ agent-worker why coder
    ! error: nothing has ever run here
    ! hint: `agent-worker run FILE` starts a team, `agent-worker init` writes a first one
    (exit 1)
    $ agent-worker export @team
    ! error: nothing has ever run here
    ! hint: `agent-worker run FILE` starts a team, `agent-worker init` writes a first one
    (exit 1)
    $ agent-worker receipts 1
    ! error: nothing has ever run here
    ! hint: `agent-worker run FILE` starts a team, `agent-worker init` writes a first one
    (exit 1)
    ");
    assert_eq!(world.list(&["runs", "--json"]), json!([]));
    assert_eq!(world.daemon_pid(), None);
}

#[test]
fn stats_count_turns_failures_and_times_by_agent() {
    let world = start_team();
    assert_eq!(world.run(&["send", "coder@team", "hello", "--wait"]).code, 0);
    wait_for("the other's turn", || {
        let stats = world.list(&["stats", "--json"]);
        (stats[0]["total"]["turns"] == 2).then_some(())
    });
    insta::assert_snapshot!(run_lines_normalized(&world, "
        agent-worker stats
        agent-worker stats --to owl@team
        agent-worker stats @nothing
    "), @r"
    $ agent-worker stats
    @team  running · TIME
    AGENT  TURNS  FAILED  MESSAGES  TOKENS IN  OUT  COST  TOOK  WAITED
    coder  1  0  2  0  0  -  TIME / TIME  TIME / TIME
    owl  1  0  1  0  0  -  TIME / TIME  TIME / TIME
    (all)  2  0  4  0  0  -  TIME / TIME  TIME / TIME
    $ agent-worker stats --to owl@team
    @team  running · TIME
    AGENT  TURNS  FAILED  MESSAGES  TOKENS IN  OUT  COST  TOOK  WAITED
    owl  1  0  1  0  0  -  TIME / TIME  TIME / TIME
    $ agent-worker stats @nothing
    ! error: there is no instance `@nothing`
    ! hint: `agent-worker ls --all` lists every agent
    (exit 1)
    ");
    let stats = world.list(&["stats", "coder", "--json"]);
    assert_eq!(stats[0]["agents"].as_array().unwrap().len(), 1);
    assert!(stats[0]["agents"][0]["took"]["p95_ms"].is_u64(), "{stats}");
}

/// Returns a team that already has a dead letter.
fn team_with_a_dead_letter() -> World {
    let world = start_team();
    let seq = send(&world, "coder@team", "poison \u{1b}]0;title\u{7}");
    wait_for_state(&world, seq, "dead");
    world
}

#[test]
fn receipts_and_dead_letters_tell_where_a_message_is_and_what_to_do() {
    let world = team_with_a_dead_letter();
    insta::assert_snapshot!(run_lines_normalized(&world, "
        agent-worker receipts 1
        agent-worker receipts '#1' @team
        agent-worker receipts 99
        agent-worker receipts one
        agent-worker dead
        agent-worker dead list owl@team
        agent-worker dead redrive 7
        agent-worker dead redrive 1 --agent owl
        agent-worker dead redrive @team 1
    "), @r"
    $ agent-worker receipts 1
    MESSAGE  AGENT  STATE  FAILURES  WHY OR ANSWER
    #1       coder  dead   2         failed (fatal): scripted
    $ agent-worker receipts '#1' @team
    MESSAGE  AGENT  STATE  FAILURES  WHY OR ANSWER
    #1       coder  dead   2         failed (fatal): scripted
    $ agent-worker receipts 99
    ! error: there is no message #99 in @team
    (exit 1)
    $ agent-worker receipts one
    ! error: invalid value 'one' for '<NUMBER>': a message's number is a whole number from 1, as `peek` shows it
    !
    ! For more information, try '--help'.
    (exit 2)
    $ agent-worker dead
    MESSAGE  FOR         FAILURES  WHY                       WHAT
    #1       coder@team  2         failed (fatal): scripted  user: poison ␛]0;title␇
    ! hint: retry one: agent-worker dead redrive 1 @team
    ! hint: drop it: agent-worker dead drop 1 @team
    $ agent-worker dead list owl@team
    ! no dead letters
    $ agent-worker dead redrive 7
    ! error: there is no dead letter #7 in @team
    ! hint: `agent-worker dead @team` lists the dead letters
    (exit 1)
    $ agent-worker dead redrive 1 --agent owl
    ! error: there is no dead letter #1 in @team
    ! hint: `agent-worker dead @team` lists the dead letters
    (exit 1)
    $ agent-worker dead redrive @team 1
    ! error: invalid value '1' for '[TARGET]': `1` cannot be an agent's name: use up to 32 letters, digits, `-` and `_`, starting with a letter
    !
    ! For more information, try '--help'.
    (exit 2)
    ");
}

#[test]
fn a_dead_letter_is_tried_again_or_given_up() {
    let world = team_with_a_dead_letter();
    let redriven = world.json(&["dead", "redrive", "1", "@team", "--json"]);
    assert_eq!(redriven["receipts"][0]["agent"], "coder", "{redriven}");
    wait_for_state(&world, 1, "dead");
    insta::assert_snapshot!(run_lines_normalized(&world, "
        agent-worker dead drop 1 --why 'done by hand'
        agent-worker receipts 1
        agent-worker dead
        agent-worker dead --json
        agent-worker dead drop
        agent-worker dead drop @team
    "), @r#"
    $ agent-worker dead drop 1 --why 'done by hand'
    #1 for coder@team is dropped
    $ agent-worker receipts 1
    MESSAGE  AGENT  STATE    FAILURES  WHY OR ANSWER
    #1       coder  dropped  2         done by hand by user
    $ agent-worker dead
    ! no dead letters in live runs; --all includes ended runs
    $ agent-worker dead --json
    {"items":[],"next":null}
    $ agent-worker dead drop
    ! error: this command needs a target
    ! hint: name it: agent-worker dead drop @workflow:tag
    (exit 2)
    $ agent-worker dead drop @team
    ! error: there is no dead letter in @team
    ! hint: `agent-worker dead @team` lists the dead letters
    (exit 1)
    "#);
}

#[test]
fn clear_hides_messages_and_keeps_pending_deliveries() {
    let world = start_team();
    world.run(&["stop", "owl"]);
    send(&world, "owl@team", "still for the owl");
    insta::assert_snapshot!(run_lines_normalized(&world, "
        agent-worker clear @team
        agent-worker peek
        agent-worker peek owl --inbox
        agent-worker clear @nothing
        agent-worker send @team 'after that'
        agent-worker peek
    "), @r"
    $ agent-worker clear @team
    cleared @team: everything up to #1 is hidden
    $ agent-worker peek
    ! no messages in this run, or the channel was cleared; --all shows everything
    $ agent-worker peek owl --inbox
    TIME #1 user → owl: still for the owl
    $ agent-worker clear @nothing
    ! error: there is no instance `@nothing`
    ! hint: `agent-worker ls --all` lists every agent
    (exit 1)
    $ agent-worker send @team 'after that'
    #2 (wakes no agent)
    $ agent-worker peek
    TIME #2 user: after that
    ");
}

#[test]
fn the_same_workflow_in_two_folders_is_two_instances() {
    let world = World::new();
    for folder in ["here", "there"] {
        std::fs::create_dir(world.project().join(folder)).unwrap();
        world.file(&format!("{folder}/team.yaml"), TEAM);
    }
    insta::assert_snapshot!(run_lines_normalized(&world, "
        cd here && agent-worker up team.yaml
        cd there && agent-worker up team.yaml 2> /dev/null
        cd here && agent-worker send coder@team 'a note from here' --wait
        cd here && agent-worker peek @team -n 1
        cd there && agent-worker peek @team
        cd there && agent-worker ls
        cd there && agent-worker runs
        agent-worker ls --all
        agent-worker runs --all
        agent-worker peek @team
        cd there && agent-worker down
        cd here && agent-worker ls owl
    "), @r"
    $ cd here && agent-worker up team.yaml
    @team runs in the background
    ! hint: follow it: agent-worker attach @team
    ! hint: stop it: agent-worker stop @team
    $ cd there && agent-worker up team.yaml 2> /dev/null
    @team runs in the background
    $ cd here && agent-worker send coder@team 'a note from here' --wait
    noted
    ! #1 → coder
    $ cd here && agent-worker peek @team -n 1
    TIME #2 coder (answer to #1): noted
    $ cd there && agent-worker peek @team
    ! no messages in this run, or the channel was cleared; --all shows everything
    $ cd there && agent-worker ls
    NAME        SOURCE  STATUS  WAITING  TURNS  MESSAGES
    coder@team  .       idle    0        0      0
    owl@team    .       idle    0        0      0
    $ cd there && agent-worker runs
    INSTANCE  KIND  BEGUN  LASTED  TURNS  MESSAGES  OUTCOME
    @team  start  TIME ago  TIME  0  0  running
    $ agent-worker ls --all
    NAME        SOURCE   STATUS  WAITING  TURNS  MESSAGES
    coder@team  ./here   idle    0        1      1
    owl@team    ./here   idle    0        0      0
    coder@team  ./there  idle    0        0      0
    owl@team    ./there  idle    0        0      0
    $ agent-worker runs --all
    INSTANCE  SOURCE  KIND  BEGUN  LASTED  TURNS  MESSAGES  OUTCOME
    @team  ./there  start  TIME ago  TIME  0  0  running
    @team  ./here  start  TIME ago  TIME  1  2  running
    $ agent-worker peek @team
    ! error: several runs match `@team`: `@team` in PROJECT/here, `@team` in PROJECT/there
    ! hint: change to the folder of the one you mean
    (exit 1)
    $ cd there && agent-worker down
    stopped @team: no agent was working
    $ cd here && agent-worker ls owl
    NAME      SOURCE  STATUS  WAITING  TURNS  MESSAGES
    owl@team  .       idle    0        0      0
    ");
}
