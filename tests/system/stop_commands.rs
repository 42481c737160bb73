//! The end of runs and agents: a whole team or one agent, permanently or to restart, with no process left.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{
    normalized_output::run_lines_normalized,
    run_lifecycle::TEAM,
    world::{World, wait_for},
};

/// A worker's child that ignores TERM, and a grandchild in its own session that does so too.
const STUBBORN: &str = "name: stubborn\nagents:\n  a:\n    backend: mock\n    mock:\n      - run: |\n          \
    trap '' TERM; setsid sh -c \"trap '' TERM; touch up; sleep 600\" & env -i setsid sleep 601 & sleep 602 & wait\n\
    kickoff: '@a go'\n";

#[test]
fn up_starts_in_the_background_and_down_ends_what_is_named_however_briefly() {
    let world = World::new();
    world.file("team.yaml", TEAM);
    insta::assert_snapshot!(run_lines_normalized(&world, "
        agent-worker up team.yaml
        agent-worker up team.yaml
        agent-worker up team.yaml --topik dogs
        agent-worker up team.yaml --tag pr-1 --topic dogs
        agent-worker down
        agent-worker down pr-1
        agent-worker down owl
        agent-worker down
        agent-worker down
    "), @r"
    $ agent-worker up team.yaml
    @team runs in the background
    ! hint: follow it: agent-worker attach @team
    ! hint: stop it: agent-worker stop @team
    $ agent-worker up team.yaml
    ! error: @team is already running
    ! hint: end it with `agent-worker stop @team`, replace it with --replace, or start another instance with --tag NAME
    (exit 1)
    $ agent-worker up team.yaml --topik dogs
    ! error: unexpected argument '--topik' found
    ! hint: a similar argument exists: '--topic'
    (exit 2)
    $ agent-worker up team.yaml --tag pr-1 --topic dogs
    @team:pr-1 runs in the background
    ! hint: follow it: agent-worker attach @team:pr-1
    ! hint: stop it: agent-worker stop @team:pr-1
    $ agent-worker down
    ! error: 2 live runs here: @team:pr-1, @team
    ! hint: name one: agent-worker stop @team:pr-1
    (exit 1)
    $ agent-worker down pr-1
    stopped @team:pr-1: no agent was working
    $ agent-worker down owl
    stopped owl@team: no process was running
    ! hint: resume the agent: agent-worker resume owl@team
    $ agent-worker down
    stopped @team: no agent was working
    $ agent-worker down
    ! nothing is running here
    ");
}

#[test]
fn down_that_could_mean_two_things_ends_neither() {
    let world = World::new();
    world.file("team.yaml", TEAM);
    world.run(&["up", "team.yaml", "--tag", "owl"]);
    world.run(&["up", "team.yaml", "--tag", "pr-2"]);
    insta::assert_snapshot!(run_lines_normalized(&world, "
        agent-worker down owl
        agent-worker down coder
        agent-worker down owl@pr-2
        agent-worker down nothing
        agent-worker down 'a b'
        agent-worker down --all --json | grep -o '\"instance\":\"[^\"]*\"' | sort
    "), @r#"
    $ agent-worker down owl
    ! error: `owl` is ambiguous: an agent, and the tag of @team:owl
    ! hint: name one: agent-worker down @team:owl, or the agent with its workflow
    (exit 1)
    $ agent-worker down coder
    ! error: several runs match `coder`: `@team:owl` in PROJECT, `@team:pr-2` in PROJECT
    ! hint: use the full name: agent@workflow:tag
    (exit 1)
    $ agent-worker down owl@pr-2
    stopped owl@team:pr-2: no process was running
    ! hint: resume the agent: agent-worker resume owl@team:pr-2
    $ agent-worker down nothing
    ! error: there is no agent `nothing`
    ! hint: `agent-worker ls --all` lists every agent
    (exit 1)
    $ agent-worker down 'a b'
    ! error: `a b` matches nothing: `a b` cannot be an agent's name: use up to 32 letters, digits, `-` and `_`, starting with a letter
    ! hint: list the live agents: agent-worker ls
    (exit 2)
    $ agent-worker down --all --json | grep -o '"instance":"[^"]*"' | sort
    "instance":"team:owl"
    "instance":"team:pr-2"
    "#);
}

#[test]
fn an_agent_is_stopped_alone_says_what_ended_and_is_woken_again() {
    let world = World::new();
    world.file("team.yaml", TEAM);
    assert_eq!(world.run(&["up", "team.yaml"]).code, 0);
    world.run(&["send", "coder@team", "slow"]);
    let up = world.project().join("up");
    wait_for("its process", || up.exists().then_some(()));
    insta::assert_snapshot!(run_lines_normalized(&world, "
        agent-worker stop coder
        agent-worker ls
        agent-worker stop coder --now
        agent-worker send owl@team 'still there?' --wait
        agent-worker resume nobody-here
    "), @r"
    $ agent-worker stop coder
    stopped coder@team: ended 2 processes
    ! hint: resume the agent: agent-worker resume coder@team
    $ agent-worker ls
    NAME        SOURCE  STATUS               WAITING  TURNS  MESSAGES
    coder@team  .       stopped by the user  1        0      0
    owl@team    .       idle                 0        0      0
    $ agent-worker stop coder --now
    stopped coder@team: no process was running
    ! hint: resume the agent: agent-worker resume coder@team
    $ agent-worker send owl@team 'still there?' --wait
    Hoo.
    ! #2 → owl
    $ agent-worker resume nobody-here
    ! error: there is no agent `nobody-here`
    ! hint: `agent-worker ls --all` lists every agent
    (exit 1)
    ");
    std::fs::remove_file(&up).unwrap();
    let resumed = world.json(&["resume", "coder", "--json"]);
    assert_eq!(resumed["name"], "coder", "{resumed}");
    wait_for("its mail to be taken again", || up.exists().then_some(()));
    let stopped = world.json(&["stop", "coder@team", "--json"]);
    assert_eq!(
        stopped,
        json!({"stopped": [{"agent": "coder", "instance": "team", "processes": 2}]})
    );
}

#[test]
fn a_run_is_replaced_only_when_that_is_asked_for() {
    let world = World::new();
    world.file("team.yaml", TEAM);
    insta::assert_snapshot!(run_lines_normalized(&world, "
        agent-worker up team.yaml --topic dogs
        agent-worker start team.yaml --lazy --background
        agent-worker start team.yaml --topic mice --replace --background
        agent-worker restart --detach
        agent-worker restart coder
        agent-worker status
    "), @r"
    $ agent-worker up team.yaml --topic dogs
    @team runs in the background
    ! hint: follow it: agent-worker attach @team
    ! hint: stop it: agent-worker stop @team
    $ agent-worker start team.yaml --lazy --background
    ! error: @team is already running
    ! hint: end it with `agent-worker stop @team`, replace it with --replace, or start another instance with --tag NAME
    (exit 1)
    $ agent-worker start team.yaml --topic mice --replace --background
    @team runs in the background
    ! hint: follow it: agent-worker attach @team
    ! hint: stop it: agent-worker stop @team
    $ agent-worker restart --detach
    @team runs in the background
    ! hint: follow it: agent-worker attach @team
    ! hint: stop it: agent-worker stop @team
    $ agent-worker restart coder
    ! error: `coder` is an agent, and `restart` restarts whole runs
    ! hint: end its turn and resume it: agent-worker stop coder, then agent-worker resume coder
    (exit 2)
    $ agent-worker status
    @team  running
      source  ./team.yaml
      run  ID (start)
      started  TIME ago
      since  TIME ago
      so far  0 turns, 0 messages, 0 tokens in, 0 out
      limits  50 hops, 500 turns per 24 h, $20 per 24 h
      param  topic: mice

    NAME  SOURCE  STATUS  WAITING  TURNS  MESSAGES
    coder@team  .  idle  0  0  0
    owl@team  .  idle  0  0  0
    ");
    let runs = world.list(&["runs", "--json"]);
    let ran: Vec<_> = runs
        .as_array()
        .unwrap()
        .iter()
        .map(|run| (&run["params"]["topic"], &run["state"]))
        .collect();
    let expected = [("mice", "running"), ("mice", "ended"), ("dogs", "ended")]
        .map(|(a, b)| (a.into(), b.into()));
    assert_eq!(ran, expected.each_ref().map(|(a, b): &(Value, Value)| (a, b)));
}

#[test]
fn what_is_removed_is_gone_for_good_and_never_while_it_goes_on() {
    let world = World::new();
    world.file("team.yaml", TEAM);
    world.run(&["up", "team.yaml"]);
    insta::assert_snapshot!(run_lines_normalized(&world, "
        agent-worker send coder@team hello --wait
        agent-worker rm @team
        agent-worker rm coder@team
        agent-worker rm @team --force --yes
        agent-worker rm @team
        agent-worker runs
        agent-worker restart @team
        agent-worker rm
    "), @r"
    $ agent-worker send coder@team hello --wait
    On it.
    ! #1 → coder
    $ agent-worker rm @team
    ! error: @team has a live run: running
    ! hint: stop it first: agent-worker stop @team; or stop and remove it: agent-worker rm @team --force --yes
    (exit 1)
    $ agent-worker rm coder@team
    ! error: `coder` is an agent, and `rm` deletes whole instances
    ! hint: remove it from its run: agent-worker agent end coder@team
    (exit 2)
    $ agent-worker rm @team --force --yes
    removed @team of PROJECT: 1 run and 2 messages
    ! stopped @team: no agent was working
    $ agent-worker rm @team
    ! error: there is no instance `@team`
    ! hint: `agent-worker ls --all` lists every agent
    (exit 1)
    $ agent-worker runs
    ! no runs in this folder; --all lists the runs of every folder
    $ agent-worker restart @team
    ! error: there is no instance `@team`
    ! hint: `agent-worker ls --all` lists every agent
    (exit 1)
    $ agent-worker rm
    ! error: this command needs a target
    ! hint: name it: agent-worker rm @workflow:tag
    (exit 2)
    ");
    assert_eq!(world.run(&["up", "team.yaml"]).code, 0);
    let first = world.json(&["send", "@team", "hello", "--json"]);
    assert_eq!(first["seq"], 1, "nothing of the old one is left: {first}");
}

#[test]
fn restart_begins_the_same_run_again_with_the_file_as_it_is_now() {
    let world = World::new();
    let file = "name: once\nparams: [{ name: who }]\nagents: { a: { backend: mock, mock: [{ say: hi }] } }\nkickoff: '@a greet ${{ params.who }}'\n";
    world.file("once.yaml", file);
    assert_eq!(world.run(&["run", "once.yaml", "--tag", "x", "--who", "Ada"]).code, 0);
    world.file("once.yaml", &file.replace("greet", "greet once more"));
    let again = world.run(&["restart", "@once:x"]);
    assert_eq!(again.code, 0, "{again:?}");
    assert!(again.stdout.contains("@a greet once more Ada"), "{again:?}");
    let runs = world.list(&["runs", "@once:x", "--json"]);
    assert_eq!(runs.as_array().unwrap().len(), 2);
    assert_eq!((&runs[0]["params"], &runs[0]["mode"]), (&json!({"who": "Ada"}), &"run".into()));
    world.file("once.yaml", &file.replace("name: once", "name: twice"));
    let renamed = world.run(&["restart", "@once:x"]);
    assert_eq!(renamed.code, 2, "{renamed:?}");
    assert!(renamed.stderr.contains("is now called `twice`"), "{renamed:?}");
    std::fs::remove_file(world.project().join("once.yaml")).unwrap();
    let (code, envelope) = world.envelope(&["restart", "@once:x", "--json"]);
    assert_eq!((code, &envelope["error"]["code"]), (2, &"bad_file".into()), "{envelope}");
}

/// Returns every process of the world except its daemon.
fn leftover_processes(world: &World) -> Vec<(u32, String)> {
    let daemon = world.daemon_pid();
    world.processes().into_iter().filter(|(pid, _)| Some(*pid) != daemon).collect()
}

fn stubborn(grace: &str) -> World {
    let world = World::with(&[("AGENT_WORKER_KILL_GRACE", grace)]);
    world.file("stubborn.yaml", STUBBORN);
    assert_eq!(world.run(&["up", "stubborn.yaml"]).code, 0);
    wait_for("the tree to be up", || world.project().join("up").exists().then_some(()));
    world
}

#[test]
fn stopping_now_does_not_wait_for_a_process_that_ignores_it() {
    let world = stubborn("10m");
    let began = Instant::now();
    let stopped = world.json(&["stop", "--now", "--json"]);
    assert!(began.elapsed() < Duration::from_secs(12), "{:?}", began.elapsed());
    assert_eq!(stopped["stopped"][0]["attempts"], json!(["a"]), "{stopped}");
    assert_eq!(leftover_processes(&world), []);
}

#[test]
fn stopping_an_agent_now_waits_for_none_of_its_processes() {
    let world = stubborn("10m");
    let began = Instant::now();
    let stopped = world.json(&["stop", "a@stubborn", "--now", "--json"]);
    assert!(began.elapsed() < Duration::from_secs(12), "{:?}", began.elapsed());
    assert!(stopped["stopped"][0]["processes"].as_u64().unwrap() > 1, "{stopped}");
    assert_eq!(leftover_processes(&world), []);
    assert_eq!(world.json(&["status", "@stubborn", "--json"])["state"], "running");
}

#[test]
fn stopping_an_agent_leaves_none_of_its_processes_however_they_hide() {
    let world = stubborn("1s");
    let began = Instant::now();
    let stopped = world.json(&["stop", "a@stubborn", "--json"]);
    assert!(began.elapsed() < Duration::from_secs(12), "{:?}", began.elapsed());
    assert!(stopped["stopped"][0]["processes"].as_u64().unwrap() > 1, "{stopped}");
    assert_eq!(leftover_processes(&world), []);
}
