//! Every live attempt of the store in the folder that is given votes on everything that is voted on. Killed at any
//! moment, it is started again and goes on: a part of the test of the same name.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a part of a test")]

use std::sync::Arc;

use agent_worker_protocol::{Millis, Proposal, Verdict};
use agent_worker_store::{
    AttemptRow, By, Deciding, Error, NewBallot, ProposalQuery, ProposalStep, Said, Sqlite, Store,
    Who,
};
use tokio::task::JoinSet;

/// More than half of the electorate win.
fn majority(proposal: &Proposal, _: u64, _: Millis) -> ProposalStep {
    let all = proposal.terms.electorate.len();
    let wins = |(_, votes): &(&str, u32)| usize::try_from(*votes).unwrap_or(0) * 2 > all;
    match proposal.counts().into_iter().find(wins) {
        Some((winner, _)) => ProposalStep::Resolve(Verdict::Winner { winner: winner.to_owned() }),
        None if proposal.missing().is_empty() => ProposalStep::Resolve(Verdict::NoDecision),
        None => ProposalStep::Stay,
    }
}

async fn vote(store: Arc<Sqlite>, voter: AttemptRow, nth: usize) {
    let workflow = voter.fence.workflow;
    let active = store.proposal_list(workflow, ProposalQuery::Active).await.unwrap();
    for proposal in active {
        let options = &proposal.terms.options;
        let choice = options[nth % options.len()].id.clone();
        let ballot =
            NewBallot { proposal: proposal.id, choice, reason: None, said: Said::default() };
        let by = By::new(Who::Agent(voter.fence.clone()));
        let deciding = Deciding { tally: majority, dice: 0 };
        match store.ballot_cast(by, workflow, ballot, deciding, Millis::new(0)).await {
            Ok(_) | Err(Error::ProposalOver { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let folder = std::env::args_os().nth(1).unwrap();
    let store = Arc::new(Sqlite::open(folder.as_ref()).unwrap());
    let mut voters = JoinSet::new();
    for (nth, voter) in store.attempt_live().await.unwrap().into_iter().enumerate() {
        voters.spawn(vote(Arc::clone(&store), voter, nth));
    }
    voters.join_all().await;
    store.as_ref().clone().close().await;
}
