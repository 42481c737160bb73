//! A council of 64 agents that vote on all proposals at once, each under its own name, under repeated kills of the
//! daemon: every proposal is decided once, by exactly the acknowledged votes. `AW_PROPOSALS` is the number of
//! proposals.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::{BufRead as _, BufReader, Write as _},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, channel},
    },
    thread,
    time::Instant,
};

use agent_worker_host::DaemonSocket;
use agent_worker_protocol::{EventKind, Position, Proposal};
use agent_worker_store::{
    AdminStore as _, Database, DecisionStore as _, EventQuery, InstanceQuery, ListRange,
    ProposalQuery, RunStore as _,
};
use serde_json::{Value, json};

use crate::world::{TEST_TIMEOUT, World, kill, wait_for};

const VOTERS: usize = 64;
const OPTIONS: [&str; 3] = ["v1", "v2", "v3"];
const RULES: [&str; 3] = ["plurality", "majority", "unanimous"];

#[expect(
    clippy::disallowed_methods,
    reason = "how long the nightly runs is a setting of the test itself"
)]
fn proposals() -> usize {
    std::env::var("AW_PROPOSALS").map_or(12, |text| text.parse().unwrap())
}

/// Returns the team. Each agent's turn is a bridge to the daemon in its own shell, so that its calls count as its
/// own.
fn council_yaml() -> String {
    let binary = env!("CARGO_BIN_EXE_agent-worker");
    let voter = |n| {
        format!(
            "  v{n}: {{ backend: mock, timeout: 6h, silence: 6h, mock: [{{ run: '{binary} mcp < to-v{n} > from-v{n}' }}] }}\n"
        )
    };
    let voters: String = (0..VOTERS).map(voter).collect();
    format!("name: council\nagents:\n{voters}kickoff: '@all vote'\nlimits: {{ wall: 12h }}\n")
}

/// One voter from outside: the input and the output of its bridge.
struct Voter {
    nth: usize,
    to: File,
    from: Receiver<Value>,
    last: usize,
}

impl Voter {
    fn new(world: &World, nth: usize) -> Self {
        // A named pipe that is opened for both directions does not block.
        let open = |side: &str| {
            let path = world.project().join(format!("{side}-v{nth}"));
            OpenOptions::new().read(true).write(true).open(path).unwrap()
        };
        let (sender, from) = channel();
        let lines = BufReader::new(open("from")).lines();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                sender.send(serde_json::from_str(&line).unwrap()).ok();
            }
        });
        Self { nth, to: open("to"), from, last: 0 }
    }

    /// Votes until the outcome is known; returns true if the vote was counted.
    fn vote(&mut self, proposal: usize, choice: &str) -> bool {
        self.last += 1;
        let deadline = Instant::now() + TEST_TIMEOUT;
        let key = format!("vote {}", self.last);
        loop {
            let args = json!({"proposal": proposal, "choice": choice, "idempotency_key": key});
            let answer = self.call(&args);
            let told = &answer["result"]["structuredContent"];
            match (answer["result"]["isError"].as_bool(), told["code"].as_str()) {
                (Some(false), _) => return true,
                (Some(true), Some("conflict")) => return false,
                // The daemon has just been killed, or is still starting.
                (None, _) if answer["error"]["data"]["code"] != "unauthorized" => {
                    assert!(Instant::now() < deadline, "{answer}");
                }
                _ => panic!("v{}: {answer}", self.nth),
            }
        }
    }

    fn call(&mut self, args: &Value) -> Value {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "voter", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({"name": "vote", "arguments": args, "_meta": meta});
        let message =
            json!({"jsonrpc": "2.0", "id": self.last, "method": "tools/call", "params": params});
        writeln!(self.to, "{message}").unwrap();
        let answer = self.from.recv_timeout(TEST_TIMEOUT).unwrap();
        assert_eq!(answer["id"], self.last, "{answer}");
        answer
    }

    /// Votes on every proposal, sometimes for another option first. Returns the acknowledged votes by proposal.
    fn vote_on_all(mut self, count: usize, done: &AtomicUsize) -> BTreeMap<usize, &'static str> {
        let mut counted = BTreeMap::new();
        for n in 0..count {
            // Each voter starts at another proposal, so that many are open to votes at once.
            let proposal = (n + self.nth * 17) % count + 1;
            let last = choice(self.nth, proposal);
            let changes = (self.nth + proposal).is_multiple_of(5);
            let first = changes.then_some(OPTIONS[(self.nth + 1) % OPTIONS.len()]);
            for choice in first.into_iter().chain([last]) {
                if self.vote(proposal, choice) {
                    counted.insert(proposal, choice);
                }
            }
            done.fetch_add(1, Ordering::Relaxed);
        }
        counted
    }
}

/// Returns a voter's final choice: spread over the options, by a large majority, or (nearly) unanimous, depending
/// on the rule of the proposal.
fn choice(voter: usize, proposal: usize) -> &'static str {
    let others = voter + proposal;
    match RULES[proposal % RULES.len()] {
        "plurality" => OPTIONS[others % OPTIONS.len()],
        "majority" => OPTIONS[usize::from(others.is_multiple_of(4))],
        _ => OPTIONS[usize::from(proposal.is_multiple_of(2) && voter == 7)],
    }
}

/// Starts a run in which every agent is at work, and proposals in which all of them may vote.
fn start_elections(world: &World, count: usize) {
    let pipes = (0..VOTERS).flat_map(|n| [format!("to-v{n}"), format!("from-v{n}")]);
    let made = Command::new("mkfifo").args(pipes).current_dir(world.project()).status().unwrap();
    assert!(made.success());
    world.file("council.yaml", &council_yaml());
    let said = world.run(&["start", "council.yaml", "--background"]);
    assert_eq!(said.code, 0, "{said:?}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let daemon = DaemonSocket::at(world.home().join("daemon.sock"));
        for n in 1..=count {
            let asked = json!({
                "target": "@council", "project": world.project(), "title": format!("who? ({n})"),
                "options": OPTIONS, "rule": RULES[n % RULES.len()], "binding": true,
                "role": "coordinator", "deadline": "12h",
            });
            let made: Value = daemon.post("/proposals", &asked).await.unwrap();
            assert_eq!(made["proposal"], n, "{made}");
        }
    });
}

#[test]
fn sixty_four_agents_decide_every_proposal_once_however_often_the_daemon_is_killed() {
    let all = VOTERS.to_string();
    let world =
        World::with(&[("AGENT_WORKER_WORKERS", &all), ("AGENT_WORKER_WORKERS_PER_INSTANCE", &all)]);
    let mut daemon = world.daemon();
    let count = proposals();
    start_elections(&world, count);
    let done = Arc::new(AtomicUsize::new(0));
    let voters: Vec<_> = (0..VOTERS)
        .map(|nth| {
            let (voter, done) = (Voter::new(&world, nth), Arc::clone(&done));
            thread::spawn(move || voter.vote_on_all(count, &done))
        })
        .collect();
    let kills = 4 + count / 40;
    for n in 1..=kills {
        let due = VOTERS * count * n / (kills + 1);
        wait_for("the voters to go on", || {
            let over = voters.iter().any(thread::JoinHandle::is_finished);
            (done.load(Ordering::Relaxed) >= due || over).then_some(())
        });
        assert!(done.load(Ordering::Relaxed) < VOTERS * count, "they are done already");
        kill(daemon.id(), "KILL");
        daemon.wait().unwrap();
        daemon = world.daemon();
    }
    let counted: Vec<_> = voters.into_iter().map(|voter| voter.join().unwrap()).collect();
    assert_eq!(world.run(&["daemon", "stop", "--now"]).code, 0);
    daemon.wait().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(check_decisions(&world, &counted, count));
}

/// Reads the store and checks that each proposal was decided and announced once, by the acknowledged ballots.
async fn check_decisions(world: &World, counted: &[BTreeMap<usize, &str>], count: usize) {
    let store = Database::open(&world.home()).unwrap();
    let team = store.instance_list(InstanceQuery::All).await.unwrap();
    let team = team.iter().find(|one| one.instance.to_string() == "council").unwrap().id;
    let all =
        store.proposal_list(team, ProposalQuery::All(ListRange::all()), store.now()).await.unwrap();
    assert_eq!(all.len(), count);
    for proposal in &all {
        let id = usize::try_from(proposal.id.get()).unwrap();
        let stored: BTreeMap<String, &str> =
            proposal.ballots.iter().map(|one| (one.voter.to_string(), &*one.choice)).collect();
        let told = counted.iter().enumerate();
        let told = told.filter_map(|(n, own)| Some((format!("v{n}"), *own.get(&id)?)));
        assert_eq!(stored, told.collect(), "the ballots of #{id}");
        assert_eq!(stored.len(), proposal.ballots.len(), "one each on #{id}");
        assert_eq!(winner(proposal), decided(proposal), "{proposal:?}");
    }
    let (mut decided, mut told) = (BTreeMap::new(), BTreeMap::new());
    let mut after = Position::new(0);
    loop {
        let query = EventQuery { workflow: team, run: None, after, limit: 1_000 };
        let page = store.event_list(query).await.unwrap();
        let Some(last) = page.last() else { break };
        after = last.pos.unwrap();
        for event in page {
            if event.kind() == Some(EventKind::ProposalResolved) {
                *decided.entry(event.data()["proposal"].as_i64().unwrap()).or_insert(0) += 1;
            }
            let data = event.data();
            let body = data["body"].as_str().unwrap_or_default();
            if let Some(rest) = body.strip_prefix("[RESOLVED] #") {
                let id = rest.split_whitespace().next().unwrap().parse::<i64>().unwrap();
                *told.entry(id).or_insert(0) += 1;
            }
        }
    }
    let once: BTreeMap<i64, i32> = all.iter().map(|one| (one.id.get(), 1)).collect();
    assert_eq!(decided, once, "each is decided once");
    assert_eq!(told, once, "and told once");
    store.instance_verify(team).await.unwrap();
    store.close().await;
}

/// Counts the ballots independently; returns `None` if they decide nothing.
fn winner(proposal: &Proposal) -> Option<String> {
    let votes = |option: &str| proposal.ballots.iter().filter(|one| one.choice == option).count();
    let most = OPTIONS.map(votes).into_iter().max().unwrap();
    let first = OPTIONS.into_iter().find(|option| votes(option) == most).unwrap();
    let wins = match RULES[usize::try_from(proposal.id.get()).unwrap() % RULES.len()] {
        "plurality" => true,
        "majority" => most * 2 > VOTERS,
        _ => most == VOTERS,
    };
    wins.then(|| first.to_owned())
}

fn decided(proposal: &Proposal) -> Option<String> {
    let state = serde_json::to_value(&proposal.state).unwrap();
    assert_eq!(state["state"], "resolved", "{state}");
    state["winner"].as_str().map(str::to_owned)
}
