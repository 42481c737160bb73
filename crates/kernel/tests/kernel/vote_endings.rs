//! Tests of the end of a vote: at its quorum, and by the ballot of its creator.

use std::time::Duration;

use agent_worker_kernel::Principal;
use agent_worker_protocol::{
    ProposalState, ResolvedBy,
    api::{ProposalRequest, ProposalView},
};

use crate::{
    proposals::{asks, votes},
    scripted_worker::ScriptEnd,
    world::{KernelWorld, team},
};

#[tokio::test(start_paused = true)]
async fn the_creator_is_woken_to_vote_unless_it_has_voted_already() {
    for (votes_at_once, expected) in [(false, 2), (true, 1)] {
        let world = KernelWorld::new().await;
        world.machine.set_worker_script("lead", move |worker| async move {
            match worker.nth {
                1 => drop(worker.propose(asks("Ship it?", &["ship", "wait"])).await.unwrap()),
                _ => assert!(worker.job.woken_by.contains("[PROPOSAL] #1"), "it is asked to vote"),
            }
            if votes_at_once || worker.nth == 2 {
                worker.vote(1, "ship").await.unwrap();
            }
            ScriptEnd::quiet()
        });
        let run = world.start(&team("lead coder", "kickoff: '@lead go'")).await;
        world.pass_time(Duration::from_secs(1)).await;
        let turns = world.machine.turns_of("lead").len();
        assert_eq!(turns, expected, "votes at once: {votes_at_once}");
        assert_eq!(world.proposal(1).await.ballots.len(), 1);
        world.kernel.runs().stop(&Principal::User, run).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_proposal_that_closes_at_its_quorum_is_resolved_by_the_ballot_that_reaches_it() {
    let world = KernelWorld::new().await;
    votes(&world, "coder", "wait");
    world.start(&team("lead coder tester", "")).await;
    let request = ProposalRequest { quorum: Some(1), ..asks("Ship it?", &["ship", "wait"]) };
    world.propose(request.clone()).await.unwrap();
    world.propose(ProposalRequest { close_at_quorum: true, ..request }).await.unwrap();
    world.pass_time(Duration::from_secs(1)).await;
    let (waits, closed) = (world.proposal_view(1).await, world.proposal_view(2).await);
    assert_eq!(waits.proposal.state, ProposalState::Active);
    assert_eq!(waits.proposal.resolved_by, None);
    assert_eq!(closed.proposal.state.decided_option(), Some("wait"));
    assert_eq!(closed.proposal.resolved_by, Some(ResolvedBy::Quorum));
    let counts = |view: &ProposalView| view.counts.clone().into_iter().collect::<Vec<_>>();
    let expected = [("ship".to_owned(), 0), ("wait".to_owned(), 1)];
    assert_eq!((counts(&waits), counts(&closed)), (expected.to_vec(), expected.to_vec()));
}
