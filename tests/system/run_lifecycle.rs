//! The lifecycle of a run from a user's view: started, left, followed again, resumed, outliving its daemon.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Stdio},
};

use agent_worker_host::DaemonSocket;
use serde_json::{Value, json};

use crate::{
    normalized_output::run_lines_normalized,
    world::{World, kill, wait_for},
};

/// Returns a team of two agents that wake each other until the limit.
fn two_agent_loop(hops: u32, sleep: &str) -> String {
    format!(
        "name: ball\nagents:\n\
         \x20 ping: {{ backend: mock, mock: [{{ sleep: {sleep}, calls: [{{ tool: channel_send, args: {{ message: '@pong yours' }} }}] }}] }}\n\
         \x20 pong: {{ backend: mock, mock: [{{ sleep: {sleep}, calls: [{{ tool: channel_send, args: {{ message: '@ping yours' }} }}] }}] }}\n\
         kickoff: '@ping go'\nlimits: {{ hops: {hops} }}\n"
    )
}

pub(crate) const TEAM: &str = "name: team\nparams: [{ name: topic, default: cats }]\nagents:\n\
    \x20 coder: { backend: mock, mock: [{ on: slow, run: 'touch up; exec sleep 600' }, { say: On it. }] }\n\
    \x20 owl: { backend: mock, mock: [{ say: Hoo. }] }\n";

/// Follows a run until the first message, leaves with Ctrl-C, and returns all printed messages.
fn follow_for_a_while(world: &World, target: &str) -> Vec<String> {
    let mut attached = attach(world, target);
    let mut lines = BufReader::new(attached.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut said: Vec<String> = lines.by_ref().take(1).collect();
    kill(attached.id(), "INT");
    said.extend(lines);
    let output = attached.wait_with_output().unwrap();
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "leaving is no failure: {talk}");
    assert!(talk.contains(&format!("follow it: agent-worker attach {target}")), "{talk}");
    assert_eq!(said.pop(), Some(format!("{target} runs in the background")));
    said
}

fn attach(world: &World, target: &str) -> Child {
    let mut command = world.command(&["attach", target]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Returns the channel in the format of `run` and `attach`.
fn channel_lines(world: &World, target: &str) -> Vec<String> {
    let shown = world.run(&["peek", target, "-n", "1000"]).stdout;
    shown.lines().map(|line| line[line.find('#').unwrap()..].to_owned()).collect()
}

/// Sends `many` messages one after the other, without pauses.
fn send_messages(world: &World, target: &str, many: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let daemon = DaemonSocket::at(world.home().join("daemon.sock"));
        for n in 0..many {
            let body = json!({"target": target, "project": world.project(), "message": format!("chatter {n}")});
            let _: Value = daemon.post("/messages", &body).await.unwrap();
        }
    });
}

#[test]
fn a_user_who_leaves_a_run_continues_where_they_left_and_sees_everything_once() {
    let world = World::new();
    world.file("team.yaml", TEAM);
    assert_eq!(world.run(&["up", "team.yaml"]).code, 0);
    let mut said = Vec::new();
    std::thread::scope(|scope| {
        let chattering = scope.spawn(|| send_messages(&world, "@team", 300));
        let mut left = 0;
        while !chattering.is_finished() || left < 3 {
            // Ensures that there is a message to show, whichever side is faster.
            assert_eq!(world.run(&["send", "@team", &format!("look {left}")]).code, 0);
            said.extend(follow_for_a_while(&world, "@team"));
            left += 1;
        }
    });
    assert_eq!(world.run(&["send", "coder@team", "while nobody looks", "--wait"]).code, 0);
    assert_eq!(world.run(&["stop", "@team"]).code, 0);
    let rest = attach(&world, "@team").wait_with_output().unwrap();
    assert_eq!(rest.status.code(), Some(130), "it ends as the run does");
    said.extend(String::from_utf8(rest.stdout).unwrap().lines().map(str::to_owned));
    assert_eq!(said, channel_lines(&world, "@team"));
    let again = world.run(&["attach", "@team"]);
    assert_eq!((again.code, again.stdout.as_str()), (1, ""), "{again:?}");
}

#[test]
fn a_run_that_paused_goes_on_where_it_was_shown_to() {
    let world = World::new();
    world.file("ball.yaml", &two_agent_loop(6, "1ms"));
    let mut said = Vec::new();
    for words in [
        &["run", "ball.yaml"][..],
        &["attach", "@ball"],
        &["resume", "@ball", "--hops", "9"],
        &["resume", "@ball", "--hops", "12"],
    ] {
        let shown = world.run(words);
        assert_eq!(shown.code, 3, "{words:?}: {shown:?}");
        said.extend(shown.stdout.lines().map(str::to_owned));
    }
    assert_eq!(said, channel_lines(&world, "@ball"));
    assert_eq!(said.len(), 14, "{said:?}");
    // After a detached resume, a later follower catches up.
    assert_eq!(world.run(&["resume", "@ball", "--hops", "15", "--detach"]).code, 0);
    wait_for("the next pause", || (channel_lines(&world, "@ball").len() == 17).then_some(()));
    wait_for("the pause", || {
        (world.json(&["why", "@ball", "--json"])["state"] == "paused").then_some(())
    });
    let rest = world.run(&["attach", "@ball"]);
    said.extend(rest.stdout.lines().map(str::to_owned));
    assert_eq!((rest.code, said), (3, channel_lines(&world, "@ball")));
    assert_eq!(world.run(&["stop", "@ball"]).code, 0);
}

#[test]
fn a_run_that_is_watched_by_two_is_shown_whole_to_both() {
    let world = World::new();
    world.file("ball.yaml", &two_agent_loop(5, "300ms"));
    let command = world.command(&["run", "ball.yaml"]).stdout(Stdio::piped()).spawn().unwrap();
    wait_for("the run", || {
        world.home().join("agent-worker.db").exists().then_some(())?;
        (world.run(&["why", "@ball"]).code == 0).then_some(())
    });
    let other = attach(&world, "@ball").wait_with_output().unwrap();
    let one = command.wait_with_output().unwrap();
    assert_eq!((one.status.code(), other.status.code()), (Some(3), Some(3)));
    assert_eq!(String::from_utf8(one.stdout), String::from_utf8(other.stdout));
    assert_eq!(world.run(&["stop", "@ball"]).code, 0);
}

#[test]
fn attach_and_resume_say_what_they_cannot_follow_and_what_to_do() {
    let world = World::new();
    world.file(
        "quick.yaml",
        "name: quick\nagents: { a: { backend: mock, mock: [{ say: hi }] } }\nkickoff: '@a go'\n",
    );
    insta::assert_snapshot!(run_lines_normalized(&world, "
        agent-worker attach
        agent-worker run quick.yaml
        agent-worker attach
        agent-worker resume @quick
        agent-worker attach @nothing
    "), @r"
    $ agent-worker attach
    ! error: nothing has ever run here
    ! hint: `agent-worker run FILE` starts a team, `agent-worker init` writes a first one
    (exit 1)
    $ agent-worker run quick.yaml
    #1 user → a: @a go
    #2 a (answer to #1): hi
    ! done in TIME · 1 turn · 2 messages
    !  a  hi
    ! hint: read the whole channel: agent-worker peek @quick
    $ agent-worker attach
    ! error: @quick has ended: done
    ! hint: read its messages: agent-worker peek @quick; restart it: agent-worker restart @quick
    (exit 1)
    $ agent-worker resume @quick
    ! error: the run of @quick has ended
    ! hint: restart it: agent-worker restart @quick
    (exit 1)
    $ agent-worker attach @nothing
    ! error: there is no instance `@nothing`
    ! hint: `agent-worker ls --all` lists every agent
    (exit 1)
    ");
    let (code, envelope) = world.envelope(&["resume", "@quick", "--hops", "9", "--json"]);
    assert_eq!((code, &envelope["error"]["code"]), (1, &"run_ended".into()), "{envelope}");
}

#[test]
fn a_paused_run_says_what_it_needs_and_goes_on_when_it_gets_it() {
    let world = World::new();
    world.file("ball.yaml", &two_agent_loop(2, "1ms"));
    assert_eq!(world.run(&["run", "ball.yaml"]).code, 3);
    insta::assert_snapshot!(run_lines_normalized(&world, "
        agent-worker attach @ball
        agent-worker resume @ball
        agent-worker resume @ball --hops two
        agent-worker resume ping --hops 9
        agent-worker resume @ball --hops 4
        agent-worker stop --now > /dev/null
    "), @r"
    $ agent-worker attach @ball
    ! paused at a limit after TIME · 3 turns · 4 messages
    !  paused: hop limit (a chain of 3 messages, 2 allowed)
    ! hint: continue the run with `agent-worker resume @ball --hops 4`, or end it with `agent-worker stop @ball`
    (exit 3)
    $ agent-worker resume @ball
    ! error: @ball is paused: hop limit (a chain of 3 messages, 2 allowed)
    ! hint: raise the limit: agent-worker resume @ball --hops 4
    (exit 1)
    $ agent-worker resume @ball --hops two
    ! error: invalid value 'two' for '--hops <COUNT>': invalid digit found in string
    !
    ! For more information, try '--help'.
    (exit 2)
    $ agent-worker resume ping --hops 9
    ! error: limits belong to a run, not to an agent
    ! hint: resume the run: agent-worker resume @workflow:tag --turns COUNT
    (exit 2)
    $ agent-worker resume @ball --hops 4
    #5 pong → ping: @ping yours
    #6 ping → pong: @pong yours
    ! paused: hop limit (a chain of 5 messages, 4 allowed)
    ! paused at a limit after TIME · 5 turns · 6 messages
    !  paused: hop limit (a chain of 5 messages, 4 allowed)
    ! hint: continue the run with `agent-worker resume @ball --hops 8`, or end it with `agent-worker stop @ball`
    (exit 3)
    $ agent-worker stop --now > /dev/null
    ");
}

#[test]
fn a_started_team_goes_on_after_kill_9_of_its_daemon_with_nothing_lost() {
    let world = World::new();
    let yaml = "name: durable\nagents:\n  a:\n    backend: mock\n    mock:\n      - { on: count, run: 'echo x >> turns; sleep 1', say: counted }\n  b: { backend: mock, mock: [{ say: Hoo. }] }\n";
    world.file("durable.yaml", yaml);
    assert_eq!(world.run(&["up", "durable.yaml"]).code, 0);
    world.run(&["send", "a@durable", "count"]);
    wait_for("its turn", || world.project().join("turns").exists().then_some(()));
    // The message is on disk and in no turn yet: a is busy.
    let waiting = world.json(&["send", "a@durable", "count again", "--json"]);
    let daemon = world.daemon_pid().unwrap();
    kill(daemon, "KILL");
    wait_for("its death", || world.daemon_pid().is_none().then_some(()));
    // The next command starts another daemon, even if it still finds the closing socket of the last one. The
    // current turn continues, and the pending message is processed after it.
    let seq = waiting["seq"].to_string();
    wait_for("both to be acted upon", || {
        let reply = world.list(&["receipts", &seq, "@durable", "--json"]);
        (reply[0]["state"] == "acted").then_some(())
    });
    assert_ne!(world.daemon_pid(), Some(daemon));
    let turns = std::fs::read_to_string(world.project().join("turns")).unwrap();
    assert_eq!(turns, "x\nx\n", "each turn happened once");
    let run = world.json(&["status", "@durable", "--json"]);
    assert_eq!((&run["state"], &run["turns"]), (&"running".into(), &2.into()), "{run}");
    assert_eq!(world.run(&["send", "b@durable", "and you?", "--wait"]).stdout.trim(), "Hoo.");
    let lost: Vec<Value> = run["dropped"].as_array().unwrap().clone();
    assert_eq!(lost, Vec::<Value>::new());
}

#[test]
fn two_signals_at_once_leave_no_run_that_goes_on() {
    let world = World::new();
    world.file(
        "slow.yaml",
        "name: slow\nagents:\n  a: { backend: mock, mock: [{ run: 'sleep 300' }] }\nkickoff: '@a go'\n",
    );
    for round in 0..5 {
        let tag = format!("t{round}");
        let mut command = world.command(&["run", "slow.yaml", "--tag", &tag]);
        let mut run = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_for("the agent at work", || {
            let said = world.run(&["ls", &format!("@slow:{tag}"), "--json"]);
            let agents: Value = serde_json::from_str(&said.stdout).ok()?;
            (agents["items"][0]["state"] == "running").then_some(())
        });
        kill(run.id(), "INT");
        kill(run.id(), "TERM");
        run.wait().unwrap();
        let runs = world.list(&["runs", &format!("@slow:{tag}"), "--json"]);
        assert_eq!(runs[0]["state"], "ended", "round {round}: {runs}");
    }
}

#[test]
fn a_run_that_is_paused_goes_on_where_it_was_once_it_is_resumed() {
    let world = World::new();
    let yaml = "name: two\nagents:\n\
        \x20 first: { backend: mock, mock: [{ run: 'until [ -e go ]; do sleep 0.02; done', \
        calls: [{ tool: channel_send, args: { message: '@second yours' } }] }] }\n\
        \x20 second: { backend: mock, mock: [{ say: Done. }] }\nkickoff: '@first go'\n";
    let file = world.file("two.yaml", yaml);
    let mut run = world.command(&["run", file.to_str().unwrap(), "--json"]);
    let run = run.stdout(Stdio::piped()).spawn().unwrap();
    wait_for("the first to speak", || {
        let said = world.run(&["peek", "@two"]);
        said.stdout.contains("yours").then_some(())
    });
    let paused = world.run(&["pause", "@two"]);
    assert_eq!((paused.code, &*paused.stdout), (0, "@two is paused: by the user\n"), "{paused:?}");
    // The current turn finishes, and a follower of the run sees that too.
    world.file("go", "");
    let left = run.wait_with_output().unwrap();
    assert_eq!(left.status.code(), Some(5), "whoever follows it is told");
    let envelope: Value = serde_json::from_slice(&left.stdout).unwrap();
    assert_eq!(envelope["agents"]["first"]["turns"], 1, "{envelope}");
    let agent = world.run(&["pause", "first@two"]);
    assert_eq!(agent.code, 2, "{agent:?}");
    let (code, envelope) = world.envelope(&["resume", "@two", "--json"]);
    assert_eq!((code, envelope["outcome"].as_str()), (0, Some("done")), "{envelope}");
    assert_eq!(envelope["agents"]["second"]["turns"], 1, "{envelope}");
}
