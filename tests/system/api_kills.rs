//! Repeated kill -9 of the daemon and of the worker in the middle of an agent's turn with direct access to a model.
//! `AW_API_KILLS` is the number of kills.

use serde_json::{Value, json};

use crate::{
    model_server::ModelServer,
    world::{World, kill, wait_for},
};

/// Number of tool calls in a turn.
const CALLS: usize = 6;

/// The processes that are killed in a round.
#[derive(Clone, Copy, Debug)]
struct Victims {
    daemon: bool,
    worker: bool,
}

const VICTIMS: [Victims; 3] = [
    Victims { daemon: true, worker: false },
    Victims { daemon: false, worker: true },
    Victims { daemon: true, worker: true },
];

#[expect(
    clippy::disallowed_methods,
    reason = "the number of kills is a setting of the test itself"
)]
fn kills() -> usize {
    std::env::var("AW_API_KILLS").map_or(20, |text| text.parse().unwrap())
}

fn line(round: usize, call: usize) -> String {
    format!("round {round} call {call}\n")
}

fn answer(round: usize) -> String {
    format!("Answer of round {round}.")
}

/// Returns the script of a round: several effects in the document, and an answer.
fn script(round: usize) -> String {
    let call = |call| format!("CALL document_append {}\n", json!({"content": line(round, call)}));
    let calls: String = (0..CALLS).map(call).collect();
    format!("{calls}SAY {}", answer(round))
}

fn worker_pid(world: &World) -> Option<u32> {
    let mut processes = world.processes().into_iter();
    processes.find(|(_, line)| line.trim_end().ends_with(" worker")).map(|(pid, _)| pid)
}

/// Kills what is there of the victims. Returns the number of kills.
fn kill_all(world: &World, victims: Victims) -> usize {
    let daemon = world.daemon_pid().filter(|_| victims.daemon);
    let worker = worker_pid(world).filter(|_| victims.worker);
    let pids: Vec<u32> = daemon.into_iter().chain(worker).collect();
    for pid in &pids {
        kill(*pid, "KILL");
    }
    pids.len()
}

/// Returns how many messages of the channel have this text.
fn count_answers(world: &World, text: &str) -> usize {
    let read = world.json(&["peek", "@team", "-n", "1000", "--json"]);
    let items = read["items"].as_array().unwrap().iter();
    items.filter(|item| item["body"] == text).count()
}

#[test]
fn kills_in_the_middle_of_tool_loops_lose_and_double_nothing_and_keep_the_conversation() {
    let models = ModelServer::start();
    let variables = models.variables();
    let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let world = World::with(&variables);
    world.file(
        "team.yaml",
        "name: team\nlimits: { turns: 100000 }\nagents:\n  me: { model: anthropic/claude-sonnet-5-5 }\n",
    );
    let started = world.run(&["start", "--background", "team.yaml"]);
    assert_eq!(started.code, 0, "{started:?}");
    let (mut done, mut rounds) = (0, 0);
    while done < kills() {
        let before = models.request_count();
        let sent = world.run(&["send", "me@team", &script(rounds)]);
        assert_eq!(sent.code, 0, "{sent:?}");
        // A turn has one request more than calls; each round is interrupted at another one.
        let moment = before + 1 + rounds % CALLS;
        wait_for("the moment of the kill", || (models.request_count() >= moment).then_some(()));
        done += kill_all(&world, VICTIMS[rounds % VICTIMS.len()]);
        assert_eq!(world.run(&["ls", "@team"]).code, 0);
        wait_for("the answer", || (count_answers(&world, &answer(rounds)) > 0).then_some(()));
        rounds += 1;
    }
    let sent = world.run(&["send", "me@team", "SAY The end.", "--wait"]);
    assert_eq!(sent.code, 0, "{sent:?}\n{}", world.log());
    let lines: String =
        (0..rounds).flat_map(|round| (0..CALLS).map(move |call| line(round, call))).collect();
    let document = world.run(&["doc", "read", "--target", "@team"]).stdout;
    assert_eq!(document, lines, "each effect once, in order");
    let conversation = models.requests().pop().unwrap().body["messages"].take();
    let said = |role: &str, text: &str| {
        let messages = conversation.as_array().unwrap().iter();
        let of_role = messages.filter(|message| message["role"] == role);
        of_role.map(Value::to_string).filter(|message| message.contains(text)).count()
    };
    for round in 0..rounds {
        let text = answer(round);
        assert_eq!(count_answers(&world, &text), 1, "{text}");
        let calls: usize =
            (0..CALLS).map(|call| said("assistant", line(round, call).trim_end())).sum();
        assert_eq!(
            (calls, said("assistant", &text)),
            (CALLS, 1),
            "the turn that ended ok: {round}"
        );
    }
}
