//! Append, lease, finish and the end of a run, all at the same time.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use agent_worker_protocol::{DeliveryState, Seq};
use agent_worker_store::{ChangeCursor, Error, Lease, RunStep, Store};
use tokio::task::JoinSet;

use crate::team::{NOW, Team, agent, end_when_idle, new_run, ok, text, user};

const TEAMS: u32 = 8;
/// The default number of rounds. A round waits for about twelve fsyncs in sequence: with 8 ms per fsync, 1,250 rounds
/// took longer than the limit.
pub(crate) const DEFAULT_ROUNDS: u32 = 250;

/// Returns `AW_RACES`, the rounds for each team, or the default number.
pub(crate) fn rounds() -> u32 {
    #[expect(clippy::disallowed_methods, reason = "how long a test is to take")]
    let asked = std::env::var("AW_RACES").ok();
    asked.and_then(|rounds| rounds.parse().ok()).unwrap_or(DEFAULT_ROUNDS)
}

/// The number of rounds in which the end came first, and in which the message did.
#[derive(Default)]
struct RaceCounts {
    refused: AtomicU32,
    sent: AtomicU32,
}

/// Processes the agent's mail until the run has ended. Its first turn of a round sends a message to itself.
async fn work(team: &Team) {
    let mut seen = ChangeCursor::default();
    loop {
        while let Some(lease) = team.try_lease("a").await {
            answer(team, &lease).await;
        }
        if !team.store.run_get(team.run).await.unwrap().state.is_live() {
            return;
        }
        seen = team.store.change_wait(team.workflow, seen).await;
    }
}

async fn answer(team: &Team, lease: &Lease) {
    if lease.messages.iter().any(|shown| shown.message.body == "go") {
        team.append(agent(lease), text("later", &["a"])).await.unwrap();
    }
    team.finish(lease, ok()).await;
}

/// Ends the run as soon as no work is left.
async fn end(team: &Team) {
    let mut seen = ChangeCursor::default();
    while let RunStep::Stay =
        team.store.run_settle(team.run, Box::new(end_when_idle), NOW).await.unwrap()
    {
        seen = team.store.change_wait(team.workflow, seen).await;
    }
}

/// Sends twice, a little later each round, so that the sends meet the other tasks at every step.
async fn send(team: &Team, delay: u32, counts: &RaceCounts) -> Vec<Seq> {
    let mut sent = Vec::new();
    for body in ["go", "on"] {
        for _ in 0..delay {
            team.store.agent_ready(team.workflow).await.unwrap();
        }
        match team.append(user(), text(body, &["a"])).await {
            Ok(once) => sent.push(once.value()),
            Err(Error::NoRun) => _ = counts.refused.fetch_add(1, Ordering::Relaxed),
            Err(other) => panic!("{other}"),
        }
    }
    counts.sent.fetch_add(u32::try_from(sent.len()).unwrap(), Ordering::Relaxed);
    sent
}

pub(crate) async fn a_run_never_ends_with_waking_mail(store: Arc<dyn Store>) {
    let counts = Arc::new(RaceCounts::default());
    let rounds = rounds();
    let mut teams = JoinSet::new();
    for _ in 0..TEAMS {
        let (store, counts) = (Arc::clone(&store), Arc::clone(&counts));
        teams.spawn(async move {
            let mut team = Team::new(&store, &["a"]).await;
            for round in 0..rounds {
                let (sent, (), ()) =
                    tokio::join!(send(&team, round % 4, &counts), end(&team), work(&team));
                for seq in sent {
                    let state = team.state(seq, "a").await;
                    assert_eq!(state, DeliveryState::Acted, "round {round}: {seq}");
                }
                assert_eq!(store.run_failures(team.run).await.unwrap(), []);
                team.start(new_run(&["a"])).await;
            }
            store.instance_verify(team.workflow).await.unwrap();
        });
    }
    teams.join_all().await;
    let (refused, sent) =
        (counts.refused.load(Ordering::Relaxed), counts.sent.load(Ordering::Relaxed));
    assert_eq!(refused + sent, 2 * TEAMS * rounds);
    assert!(
        refused > 100 && sent > 100,
        "a race that is always won the same way: {refused}, {sent}"
    );
}
