//! Tests of the end of a vote: at its quorum, and by the ballot of its creator.

use std::time::Duration;

use agent_worker_kernel::Principal;
use agent_worker_protocol::{
    Code, ProposalState, ResolvedBy, Role, TieBreaker,
    api::{ProposalRequest, ProposalView},
};

use crate::{
    proposals::{asks, votes},
    scripted_worker::ScriptEnd,
    world::{KernelWorld, problem, team},
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

#[tokio::test(start_paused = true)]
async fn the_creator_is_asked_once_to_break_a_tie_that_further_ballots_leave() {
    let world = KernelWorld::new().await;
    for (agent, choice) in [("a", "x"), ("b", "y"), ("c", "z")] {
        votes(&world, agent, choice);
    }
    world.machine.set_worker_script("lead", |worker| async move {
        if worker.nth == 1 {
            let request = ProposalRequest {
                electorate: Some(["a", "b", "c"].map(|name| name.to_owned().into()).into()),
                tie_breaker: Some(TieBreaker::CreatorDecides),
                quorum: Some(2),
                close_at_quorum: true,
                ..asks("Which?", &["x", "y", "z"])
            };
            worker.propose(request).await.unwrap();
        }
        ScriptEnd::quiet()
    });
    world.start(&team("lead a b c", "kickoff: '@lead go'")).await;
    world.pass_time(Duration::from_secs(5)).await;
    assert_eq!(world.proposal(1).await.ballots.len(), 3);
    assert_eq!(world.proposal(1).await.state, ProposalState::Active);
    let channel = world.channel().await;
    let ties = channel.iter().filter(|message| message.body.contains("a tie, and your vote"));
    assert_eq!(ties.count(), 1);
    assert_eq!(world.machine.turns_of("lead").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_team_that_shares_nothing_takes_no_proposal() {
    let world = KernelWorld::new().await;
    world.start(&team("lead coder", "context: false")).await;
    let refused = problem(world.propose(asks("Ship it?", &[])).await);
    assert_eq!(refused.code, Code::Forbidden);
    assert!(refused.message.contains("none of them can vote"), "{}", refused.message);
}

#[tokio::test(start_paused = true)]
async fn a_vote_does_not_replace_the_finisher_of_the_file() {
    let world = KernelWorld::new().await;
    world.start(&team("lead coder", "finisher: lead")).await;
    let request =
        ProposalRequest { role: Some(Role::Finisher), binding: true, ..asks("Who?", &[]) };
    let refused = problem(world.propose(request).await);
    assert_eq!(refused.code, Code::BadRequest);
    assert!(refused.message.contains("names lead as the finisher"), "{}", refused.message);
}
