//! Commands that explain: the state of an agent or a run, its reason, and the actions that would change it.

use serde_json::Value;

use crate::{
    list_commands::start_team,
    normalized_output::run_lines_normalized,
    world::{World, wait_for},
};

#[test]
fn status_and_why_explain_an_agent_whatever_it_does() {
    let world = start_team();
    insta::assert_snapshot!(run_lines_normalized(&world, "
        agent-worker why coder@team
        agent-worker send coder@team 'please note it' --wait
        agent-worker status coder
        agent-worker why coder
        agent-worker stop coder
        agent-worker send coder 'and now?'
        agent-worker why coder
        agent-worker info stranger@team
    "), @r"
    $ agent-worker why coder@team
    coder@team is idle
      since  TIME ago
      because  no messages for it yet
      wakes when  a message mentions @coder
    $ agent-worker send coder@team 'please note it' --wait
    noted
    ! #1 → coder
    $ agent-worker status coder
    coder@team  idle
      since  TIME ago
      source  .
      backend  mock
      run  running, started TIME ago
      so far  1 turn, 1 message, 0 tokens in, 0 out
      wakes when  a message mentions @coder
      system  You write code.
      turn  for #1, started TIME ago, took TIME: ok
    $ agent-worker why coder
    coder@team is idle
      since  TIME ago
      because  last turn for #1, started TIME ago, took TIME: ok
      wakes when  a message mentions @coder
    $ agent-worker stop coder
    stopped coder@team: no process was running
    ! hint: resume the agent: agent-worker resume coder@team
    $ agent-worker send coder 'and now?'
    #3 → coder
    ! warning: coder is stopped and acts on the message only when it is resumed
    ! hint: resume the agent: agent-worker resume coder@team
    $ agent-worker why coder
    coder@team is stopped by the user
      since  TIME ago
      because  1 message waiting, first #3 from user
      because  last turn for #1, started TIME ago, took TIME: ok
      wakes when  it is resumed: agent-worker resume coder@team
    $ agent-worker info stranger@team
    ! error: there is no agent `stranger` in @team
    ! hint: `agent-worker ls --all` lists every agent
    (exit 1)
    ");
    let why = world.json(&["why", "coder", "--json"]);
    assert_eq!(why["state"], "stopped");
    let turn = world.json(&["status", "coder", "--json"])["attempts"][0]["ended_at"].clone();
    let [since, turn] = [&why["since"], &turn].map(|time| time.as_str().unwrap_or("").to_owned());
    assert!(since > turn && !turn.is_empty(), "stopped after its turn: {why} {turn}");
    assert_eq!(world.json(&["status", "coder", "--json"])["inbox"][0]["body"], "and now?");
}

/// Returns a world with a permanent team, a run that is paused at a limit, and one whose setup failed.
fn three_runs() -> World {
    let world = start_team();
    let yaml = "name: loop\nparams: [{ name: about }]\nagents:\n\
        \x20 ping: { backend: mock, mock: [{ calls: [{ tool: channel_send, args: { message: '@pong ping' } }] }] }\n\
        \x20 pong: { backend: mock, mock: [{ calls: [{ tool: channel_send, args: { message: '@ping pong' } }] }] }\n\
        kickoff: '@ping go'\nlimits: { hops: 2 }\n";
    world.file("loop.yaml", yaml);
    world.file("sick.yaml", "name: sick\nagents: { a: { backend: mock } }\nsetup: [{ shell: 'exit 7' }]\nkickoff: '@a go'\n");
    world.run(&["run", "loop.yaml", "--about", "nothing"]);
    world.run(&["run", "sick.yaml"]);
    wait_for("everybody to rest", || {
        let agents = world.list(&["ls", "@loop", "--json"]);
        agents.as_array().unwrap().iter().all(|one| one["state"] == "paused").then_some(())
    });
    world
}

#[test]
fn why_explains_a_run_wherever_it_stands() {
    let world = three_runs();
    insta::assert_snapshot!(run_lines_normalized(&world, "
        agent-worker why @loop
        agent-worker why @sick
        agent-worker why @team
        agent-worker why
        agent-worker stop @loop
        agent-worker why @loop
        agent-worker why @nothing
    "), @r#"
    $ agent-worker why @loop
    @loop is paused
      since  TIME ago
      because  hop limit (a chain of 3 messages, 2 allowed)
      wakes when  its limit is raised: agent-worker resume @loop --hops 4
      next step  raise the limit: agent-worker resume @loop --hops 4
    $ agent-worker why @sick
    @sick failed
      since  TIME ago
      because  the setup command on line 3 ended with status 7: it printed no error
      wakes when  the run is restarted: agent-worker restart @sick
      next step  fix the cause and restart: agent-worker restart @sick
    $ agent-worker why @team
    @team is running
      since  TIME ago
      because  no agent has work
      wakes when  a message is sent: agent-worker send @team "…"
    $ agent-worker why
    ! error: several runs match: @team, @loop
    ! hint: name one, such as @team
    (exit 1)
    $ agent-worker stop @loop
    stopped @loop: no agent was working
    $ agent-worker why @loop
    @loop is stopped
      since  TIME ago
      because  the run was stopped
      wakes when  the run is restarted: agent-worker restart @loop
    $ agent-worker why @nothing
    ! error: there is no instance `@nothing`
    ! hint: `agent-worker ls --all` lists every agent
    (exit 1)
    "#);
}

#[test]
fn status_shows_a_run_with_its_limits_and_its_agents() {
    let world = three_runs();
    insta::assert_snapshot!(run_lines_normalized(&world, "
        agent-worker status @loop
        agent-worker status @team
        agent-worker status @sick
        agent-worker status
    "), @r"
    $ agent-worker status @loop
    @loop  paused: hop limit (a chain of 3 messages, 2 allowed)
      source  ./loop.yaml
      run  ID (run)
      started  TIME ago
      since  TIME ago
      so far  3 turns, 4 messages, 0 tokens in, 0 out
      limits  2 hops, 200 turns, TIME of 2h wall time used, $10
      param  about: nothing
      next step  raise the limit: agent-worker resume @loop --hops 4

    NAME  SOURCE  STATUS  WAITING  TURNS  MESSAGES
    ping@loop  .  paused: hop limit (a chain of 3 messages, 2 allowed)  0  2  2
    pong@loop  .  paused: hop limit (a chain of 3 messages, 2 allowed)  1  1  1
    $ agent-worker status @team
    @team  running
      source  ./team.yaml
      run  ID (start)
      started  TIME ago
      since  TIME ago
      so far  0 turns, 0 messages, 0 tokens in, 0 out
      limits  50 hops, 50 turns per 24 h, $20 per 24 h

    NAME  SOURCE  STATUS  WAITING  TURNS  MESSAGES
    coder@team  .  idle  0  0  0
    owl@team  .  idle  0  0  0
    $ agent-worker status @sick
    @sick  failed: the setup command on line 3 ended with status 7: it printed no error
      source  ./sick.yaml
      run  ID (run)
      started  TIME ago, lasted TIME
      since  TIME ago
      so far  0 turns, 0 messages, 0 tokens in, 0 out
      limits  50 hops, 200 turns, TIME of 2h wall time used, $10
      next step  fix the cause and restart: agent-worker restart @sick

    NAME  SOURCE  STATUS  WAITING  TURNS  MESSAGES
    a@sick  .  stopped: its run's setup failed  0  0  0
    $ agent-worker status
    ! error: several runs match: @team, @loop
    ! hint: name one, such as @team
    (exit 1)
    ");
}

#[test]
fn live_runs_are_listed_before_ended_ones_with_what_became_of_them() {
    let world = three_runs();
    insta::assert_snapshot!(run_lines_normalized(&world, "
        agent-worker runs
        agent-worker runs @sick
        agent-worker runs @nothing
    "), @r"
    $ agent-worker runs
    INSTANCE  KIND  BEGUN  LASTED  TURNS  MESSAGES  OUTCOME
    @loop  run  TIME ago  TIME  3  4  paused: hop limit (a chain of 3 messages, 2 allowed)
    @team  start  TIME ago  TIME  0  0  running
    @sick  run  TIME ago  TIME  0  0  failed: the setup command on line 3 ended with status 7: it printed no error
    $ agent-worker runs @sick
    INSTANCE  KIND  BEGUN  LASTED  TURNS  MESSAGES  OUTCOME
    @sick  run  TIME ago  TIME  0  0  failed: the setup command on line 3 ended with status 7: it printed no error
    $ agent-worker runs @nothing
    ! error: there is no instance `@nothing`
    ! hint: `agent-worker ls --all` lists every agent
    (exit 1)
    ");
    let runs = world.list(&["runs", "--json"]);
    let names: Vec<&Value> = runs.as_array().unwrap().iter().map(|run| &run["instance"]).collect();
    assert_eq!(names, ["loop", "team", "sick"]);
}

/// A team whose agent reports a refused key.
const REFUSED: &str = r#"name: refused
agents:
  coder:
    backend: command
    command: [sh, -c, "echo '{\"kind\":\"finished\",\"text\":\"\",\"outcome\":\"failed\",\"class\":\"auth\",\"why\":\"401 bad key\"}'"]
kickoff: "@coder please begin"
"#;

#[test]
fn the_cause_of_a_failed_run_is_in_every_command_that_shows_the_run() {
    let world = World::new();
    world.file("refused.yaml", REFUSED);
    insta::assert_snapshot!(run_lines_normalized(&world, "
        agent-worker run refused.yaml
        agent-worker runs
        agent-worker status @refused
        agent-worker why @refused
        agent-worker why coder@refused
    "), @r"
    $ agent-worker run refused.yaml
    #1 user → coder: @coder please begin
    ! coder: stopped: auth: 401 bad key
    ! coder: will not get message #1: the agent is stopped: auth: 401 bad key
    ! failed after TIME · 1 turn · 1 message · 1 dropped message
    !  coder failed (auth): 401 bad key
    !  #1 for coder is dropped: the agent is stopped: auth: 401 bad key
    ! hint: give coder a valid key, then: agent-worker restart @refused
    (exit 1)
    $ agent-worker runs
    INSTANCE  KIND  BEGUN  LASTED  TURNS  MESSAGES  OUTCOME
    @refused  run  TIME ago  TIME  1  1  failed: coder failed (auth): 401 bad key
    $ agent-worker status @refused
    @refused  failed: coder failed (auth): 401 bad key
      source  ./refused.yaml
      run  ID (run)
      started  TIME ago, lasted TIME
      since  TIME ago
      so far  1 turn, 1 message, 0 tokens in, 0 out
      limits  50 hops, 200 turns, TIME of 2h wall time used, $10
      dropped  #1 for coder: the agent is stopped: auth: 401 bad key
      last failure  coder: TIME ago, auth: 401 bad key
      next step  give coder a valid key, then: agent-worker restart @refused

    NAME  SOURCE  STATUS  WAITING  TURNS  MESSAGES
    coder@refused  .  stopped: its run failed  0  1  0
    $ agent-worker why @refused
    @refused failed
      since  TIME ago
      because  #1 for coder is dropped: the agent is stopped: auth: 401 bad key
      because  coder failed (auth): 401 bad key
      wakes when  the run is restarted: agent-worker restart @refused
      next step  give coder a valid key, then: agent-worker restart @refused
    $ agent-worker why coder@refused
    coder@refused is stopped: its run failed
      since  TIME ago
      because  last turn for #1, started TIME ago, took TIME: failed (auth): 401 bad key
      wakes when  a new run of @refused
      next step  give coder a valid key, then: agent-worker restart @refused
    ");
    let runs = world.list(&["runs", "--json"]);
    let failure = &runs[0]["last_failures"][0];
    assert_eq!((&failure["agent"], &failure["class"]), (&"coder".into(), &"auth".into()));
    assert_eq!(
        (&failure["message"], &failure["recovered"]),
        (&"401 bad key".into(), &false.into())
    );
    // The cause stays known after the next run of the instance.
    assert_eq!(world.run(&["run", "refused.yaml"]).code, 1);
    let first = &world.list(&["runs", "--json"])[1];
    assert_eq!((&first["run"], &first["last_failures"][0]), (&runs[0]["run"], failure));
}
