//! Many voters at once, in a process that is killed again and again: every proposal is decided once.
//! `AW_PROPOSALS` says on how many they vote.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    path::{Path, PathBuf},
    process::{Child, Command},
    thread,
    time::Duration,
};

use agent_worker_protocol::{
    AttemptId, EventKind, Limits, MessageKind, Millis, Position, Priority, ProposalKind,
    ProposalOption, Role, Rule, RunId, RunMode, Sender, Terms, TieBreaker, WorkflowId, hash,
};
use agent_worker_store::{
    By, EventQuery, Keep, LeaseStep, NewAgent, NewAttempt, NewMessage, NewProposal, NewRun,
    ProposalQuery, Recipient, Said, Sqlite, Store, Wake, Who,
};
use uuid::Uuid;

const VOTERS: u32 = 64;
const KILLS: u64 = 8;
const NOW: Millis = Millis::new(0);
const RUN: RunId = RunId::new(Uuid::from_u128(1));

#[expect(
    clippy::disallowed_methods,
    reason = "how long the nightly runs is a setting of the test itself"
)]
fn proposals() -> usize {
    std::env::var("AW_PROPOSALS").map_or(40, |text| text.parse().unwrap())
}

/// `examples/voters.rs`, which cargo builds beside the tests.
fn voting(folder: &Path) -> Child {
    let test = std::env::current_exe().unwrap();
    let program = test.parent().unwrap().parent().unwrap().join("examples/voters");
    Command::new(program).arg(folder).spawn().unwrap()
}

fn name(n: u32) -> String {
    format!("v{n}")
}

/// A run in which everybody is at work, and elections everybody may vote in.
async fn prepared(folder: PathBuf, proposals: usize) -> WorkflowId {
    let store = Sqlite::open(&folder).unwrap();
    let workflow = store.instance_open("/p".into(), "w".parse().unwrap()).await.unwrap();
    let agent = |n: u32| NewAgent { name: name(n).parse().unwrap(), settings: "{}".into() };
    let new = NewRun {
        id: RUN,
        mode: RunMode::Start,
        limits: Limits { hops: 50, turns: None, wall: None },
        script: String::new(),
        agents: (0..VOTERS).map(agent).collect(),
        roles: Vec::new(),
        keep: Keep::Always,
    };
    store.run_create(workflow, new, NOW).await.unwrap();
    store.run_start(RUN, None, NOW).await.unwrap();
    let recipient = |n: u32| Recipient { agent: name(n).parse().unwrap(), wake: Wake::Batched };
    let begin = NewMessage {
        kind: MessageKind::Message,
        body: "begin".into(),
        data: Vec::new(),
        reply_to: None,
        hops: 0,
        priority: Priority::Normal,
        resource: None,
        recipients: (0..VOTERS).map(recipient).collect(),
    };
    store.message_append(By::new(Who::User), workflow, begin, None, NOW).await.unwrap();
    for n in 0..VOTERS {
        let id = AttemptId::new(Uuid::from_u128(u128::from(n)));
        let new = NewAttempt { id, token: hash(&[&n.to_le_bytes()]) };
        let agent = name(n).parse().unwrap();
        store.attempt_lease(workflow, agent, new, |_| LeaseStep::Start, NOW).await.unwrap();
    }
    for _ in 0..proposals {
        let terms = Terms {
            kind: ProposalKind::Election,
            title: "who?".into(),
            description: None,
            options: ["v1", "v2", "v3"].map(ProposalOption::new).into(),
            rule: Rule::Majority,
            quorum: None,
            tie_breaker: TieBreaker::First,
            binding: true,
            role: Some(Role::Coordinator),
            work: None,
            gate: None,
            electorate: (0..VOTERS).map(|n| Sender::from(name(n))).collect(),
            fallback: None,
        };
        let deadline = Millis::new(i64::MAX);
        let new = NewProposal { terms, deadline, said: Said::default() };
        store.proposal_create(By::new(Who::User), workflow, new, NOW).await.unwrap();
    }
    store.close().await;
    workflow
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_voters_decide_every_proposal_once_however_often_they_are_killed() {
    let count = proposals();
    let folder = tempfile::tempdir().unwrap();
    let workflow = prepared(folder.path().to_owned(), count).await;
    let mut killed = 0;
    for n in 1..=KILLS {
        let mut voters = voting(folder.path());
        // A different moment each time.
        let moment = u64::try_from(count).unwrap() * (n * 7 % 11 + 1) / 4;
        thread::park_timeout(Duration::from_millis(20 + moment));
        killed += u64::from(voters.try_wait().unwrap().is_none());
        voters.kill().unwrap();
        voters.wait().unwrap();
    }
    assert!(voting(folder.path()).wait().unwrap().success());
    assert!(killed > 1, "they were done before they could be killed");
    let store = Sqlite::open(folder.path()).unwrap();
    let all = store.proposal_list(workflow, ProposalQuery::All).await.unwrap();
    assert_eq!(all.len(), count);
    let mut decided = vec![0; count];
    let mut told = 0;
    let mut after = Position::new(0);
    loop {
        let query = EventQuery { workflow, run: None, after, limit: 1_000 };
        let page = store.event_list(query).await.unwrap();
        let Some(last) = page.last() else { break };
        after = last.pos.unwrap();
        for event in page {
            match event.kind {
                EventKind::ProposalResolved => {
                    let id = event.data["proposal"].as_u64().unwrap();
                    decided[usize::try_from(id).unwrap() - 1] += 1;
                }
                EventKind::Message => {
                    let body = event.data["body"].as_str().unwrap();
                    told += usize::from(body.starts_with("[RESOLVED]"));
                }
                _ => {}
            }
        }
    }
    assert_eq!((decided, told), (vec![1; count], count), "each once");
    for proposal in &all {
        let votes: u32 = proposal.counts().iter().map(|(_, votes)| votes).sum();
        assert_eq!(u32::try_from(proposal.ballots.len()).unwrap(), votes, "one ballot each");
        assert_eq!(proposal.state.word(), "resolved");
    }
    store.instance_verify(workflow).await.unwrap();
    store.close().await;
}
