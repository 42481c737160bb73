//! Counts votes and decides proposals. Pure; called inside the store's transaction.
//!
//! A proposal is decided as soon as its whole electorate has voted, or one option wins whatever the missing votes
//! are. A proposal is never decided early against all options: a vote can still be changed. A proposal that closes at
//! its quorum is counted as soon as the quorum is reached, with or without a winner.
//! At the deadline the votes count if a quorum was declared and reached; otherwise the proposal has expired.

#[cfg(test)]
mod model_test;

use agent_worker_protocol::{Proposal, ResolvedBy, Rule, TieBreaker, VoteOutcome, hash};
use agent_worker_store::{DeadlineStatus, ProposalStep};

/// The result of the votes, before the quorum is checked.
#[derive(Debug, PartialEq, Eq)]
enum VoteCount<'a> {
    Winner(&'a str),
    Tie(Vec<&'a str>),
    NoWinner,
}

/// Decides a proposal from its votes. `dice` is used only if chance breaks a tie.
pub(crate) fn tally(proposal: &Proposal, dice: u64, deadline: DeadlineStatus) -> ProposalStep {
    let missing = u32::try_from(proposal.missing_voters().len()).unwrap_or(u32::MAX);
    let resolved_by = match (missing, deadline, quorum_reached(proposal)) {
        (0, _, _) => ResolvedBy::AllVoted,
        (_, DeadlineStatus::Passed, Some(true)) => ResolvedBy::Deadline,
        (_, DeadlineStatus::Passed, Some(false) | None) => return ProposalStep::Expire,
        (_, DeadlineStatus::Ahead, Some(false)) => return ProposalStep::Stay,
        (_, DeadlineStatus::Ahead, Some(true)) if proposal.terms.close_at_quorum => {
            ResolvedBy::Quorum
        }
        (_, DeadlineStatus::Ahead, Some(true) | None) => {
            return match certain_winner(proposal, missing) {
                Some(winner) => winner_step(winner, ResolvedBy::Decided),
                None => ProposalStep::Stay,
            };
        }
    };
    match count_votes(proposal) {
        VoteCount::Winner(winner) => winner_step(winner, resolved_by),
        VoteCount::NoWinner => ProposalStep::Resolve(VoteOutcome::NoDecision, resolved_by),
        VoteCount::Tie(tied) => match (break_tie(proposal, &tied, dice), deadline) {
            (Some(winner), _) => winner_step(winner, resolved_by),
            (None, DeadlineStatus::Passed) => ProposalStep::Expire,
            (None, DeadlineStatus::Ahead) => ProposalStep::Tied,
        },
    }
}

fn winner_step(winner: &str, resolved_by: ResolvedBy) -> ProposalStep {
    ProposalStep::Resolve(VoteOutcome::Winner { winner: winner.to_owned() }, resolved_by)
}

/// Returns true if the declared quorum is reached. Unanimity always requires all voters.
fn quorum_reached(proposal: &Proposal) -> Option<bool> {
    match proposal.terms.rule {
        Rule::Plurality | Rule::Majority => {
            proposal.terms.quorum.map(|needed| votes_cast(proposal) >= needed)
        }
        Rule::Unanimous => None,
    }
}

fn votes_cast(proposal: &Proposal) -> u32 {
    proposal.vote_counts().iter().map(|(_, votes)| votes).sum()
}

/// Returns the option that wins whatever the missing votes are.
fn certain_winner(proposal: &Proposal, missing: u32) -> Option<&str> {
    let (winner, most, second) = leader(proposal)?;
    let wins = match proposal.terms.rule {
        Rule::Plurality => most > second + missing,
        Rule::Majority => most * 2 > votes_cast(proposal) + missing,
        Rule::Unanimous => false,
    };
    wins.then_some(winner)
}

fn count_votes(proposal: &Proposal) -> VoteCount<'_> {
    let Some((winner, most, second)) = leader(proposal) else { return VoteCount::NoWinner };
    let all = votes_cast(proposal);
    match proposal.terms.rule {
        Rule::Plurality if most > second => VoteCount::Winner(winner),
        Rule::Plurality => {
            let tied = proposal.vote_counts().into_iter().filter(|(_, votes)| *votes == most);
            VoteCount::Tie(tied.map(|(id, _)| id).collect())
        }
        Rule::Majority if most * 2 > all => VoteCount::Winner(winner),
        Rule::Unanimous if most == all => VoteCount::Winner(winner),
        Rule::Majority | Rule::Unanimous => VoteCount::NoWinner,
    }
}

/// Returns the first option with the most votes, its votes, and the votes of the next option; none without votes.
fn leader(proposal: &Proposal) -> Option<(&str, u32, u32)> {
    let mut counts = proposal.vote_counts();
    // The sort is stable: among equals, the first one stays first.
    counts.sort_by_key(|(_, votes)| std::cmp::Reverse(*votes));
    let (winner, most) = counts.first().copied().filter(|(_, votes)| *votes > 0)?;
    Some((winner, most, counts.get(1).map_or(0, |(_, votes)| *votes)))
}

/// Returns the winner among tied options; none while the creator's vote is missing.
fn break_tie<'a>(proposal: &Proposal, tied: &[&'a str], dice: u64) -> Option<&'a str> {
    match proposal.terms.tie_breaker {
        TieBreaker::First => tied.first().copied(),
        TieBreaker::Random => {
            // Each proposal has its own random number, even if several are decided in one step.
            let thrown = hash(&[&dice.to_le_bytes(), &proposal.id.get().to_le_bytes()]);
            let thrown = u64::from_le_bytes(*thrown.first_chunk()?);
            let at = thrown % u64::try_from(tied.len()).ok()?;
            tied.get(usize::try_from(at).ok()?).copied()
        }
        TieBreaker::CreatorDecides => {
            let vote = proposal.ballot_of(&proposal.created_by)?;
            tied.iter().copied().find(|id| *id == vote.choice)
        }
    }
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::{
        Ballot, Millis, ProposalId, ProposalKind, ProposalOption, ProposalState, RunId, Sender,
        Terms,
    };

    use super::*;

    /// Returns a proposal of `lead` with options x, y, z and five voters; `cast` is `a=x b=y`.
    fn proposal(rule: Rule, cast: &str) -> Proposal {
        let sender = |name: &str| Sender::from(name.to_owned());
        let ballot = |vote: &str| {
            let (voter, choice) = vote.split_once('=').unwrap();
            let (voter, choice) = (sender(voter), choice.to_owned());
            Ballot { voter, choice, reason: None, at: Millis::new(0) }
        };
        Proposal {
            id: ProposalId::new(1),
            run: RunId::new(uuid::Uuid::nil()),
            created_by: sender("lead"),
            created: Millis::new(0),
            deadline: Millis::new(1_000),
            ended: None,
            resolved_by: None,
            hops: 0,
            terms: Terms {
                kind: ProposalKind::Decision,
                title: "which".into(),
                description: None,
                options: ["x", "y", "z"].map(ProposalOption::new).into(),
                rule,
                quorum: None,
                close_at_quorum: false,
                tie_breaker: TieBreaker::First,
                binding: false,
                role: None,
                work: None,
                gate: None,
                electorate: ["a", "b", "c", "d", "e"].map(sender).into(),
                fallback: None,
            },
            state: ProposalState::Active,
            ballots: cast.split_whitespace().map(ballot).collect(),
        }
    }

    fn step_text(proposal: &Proposal, deadline: DeadlineStatus) -> String {
        match tally(proposal, 7, deadline) {
            ProposalStep::Stay => "stay".into(),
            ProposalStep::Tied => "tied".into(),
            ProposalStep::Expire => "expire".into(),
            ProposalStep::Resolve(verdict, _) => verdict.to_string(),
        }
    }

    #[test]
    fn all_votes_decide_at_once_and_a_certain_winner_before_that() {
        use Rule::{Majority, Plurality, Unanimous};
        for (rule, votes, expected) in [
            (Plurality, "", "stay"),
            (Plurality, "a=x b=x", "stay"),
            (Plurality, "a=x b=x c=x", "x"),
            (Plurality, "a=x b=x c=y d=x", "x"),
            (Plurality, "a=x b=x c=y d=z", "stay"),
            (Plurality, "a=x b=x c=y d=z e=y", "x"),
            (Plurality, "a=x b=y c=y d=z e=y", "y"),
            (Majority, "a=x b=x", "stay"),
            (Majority, "a=x b=x c=x", "x"),
            (Majority, "a=x b=x c=y d=y", "stay"),
            (Majority, "a=x b=x c=y d=y e=z", "no_decision"),
            (Majority, "a=x b=x c=y d=y e=y", "y"),
            (Unanimous, "a=x b=x c=x d=x", "stay"),
            (Unanimous, "a=x b=y", "stay"),
            (Unanimous, "a=x b=x c=x d=x e=x", "x"),
            (Unanimous, "a=x b=x c=x d=x e=y", "no_decision"),
        ] {
            assert_eq!(
                step_text(&proposal(rule, votes), DeadlineStatus::Ahead),
                expected,
                "{rule} {votes}"
            );
        }
    }

    #[test]
    fn when_the_time_is_up_a_quorum_counts_and_nothing_else_does() {
        use Rule::{Majority, Plurality, Unanimous};
        for (rule, quorum, votes, expected) in [
            (Plurality, None, "a=x b=x", "expire"),
            (Plurality, Some(3), "a=x b=x", "expire"),
            (Plurality, Some(2), "a=x b=x", "x"),
            (Plurality, Some(2), "a=x b=y", "x"),
            (Majority, Some(2), "a=x b=y", "no_decision"),
            (Majority, Some(3), "a=x b=x c=y", "x"),
            (Unanimous, Some(2), "a=x b=x", "expire"),
            (Plurality, Some(1), "", "expire"),
        ] {
            let mut proposal = proposal(rule, votes);
            proposal.terms.quorum = quorum;
            assert_eq!(
                step_text(&proposal, DeadlineStatus::Passed),
                expected,
                "{rule} {quorum:?} {votes}"
            );
            assert_ne!(step_text(&proposal, DeadlineStatus::Passed), "stay");
        }
        let mut early = proposal(Majority, "a=x b=x c=x");
        early.terms.quorum = Some(4);
        assert_eq!(
            step_text(&early, DeadlineStatus::Ahead),
            "stay",
            "a quorum that is not there decides nothing"
        );
    }

    #[test]
    fn a_proposal_that_closes_at_its_quorum_is_counted_then() {
        use Rule::{Majority, Plurality, Unanimous};
        for (rule, votes, expected) in [
            (Plurality, "a=x", "stay"),
            (Plurality, "a=x b=y", "x"),
            (Plurality, "a=z b=z", "z"),
            (Plurality, "user=y a=y", "y"),
            (Majority, "a=x b=y", "no_decision"),
            (Majority, "a=x b=x", "x"),
            (Unanimous, "a=x b=x", "stay"),
        ] {
            let mut proposal = proposal(rule, votes);
            proposal.terms.quorum = Some(2);
            assert_eq!(step_text(&proposal, DeadlineStatus::Ahead), "stay", "{rule} {votes}");
            proposal.terms.close_at_quorum = true;
            assert_eq!(step_text(&proposal, DeadlineStatus::Ahead), expected, "{rule} {votes}");
        }
        let mut asks = proposal(Plurality, "a=x b=y");
        asks.terms.quorum = Some(2);
        asks.terms.close_at_quorum = true;
        asks.terms.tie_breaker = TieBreaker::CreatorDecides;
        assert_eq!(step_text(&asks, DeadlineStatus::Ahead), "tied", "the creator is asked");
    }

    #[test]
    fn the_event_that_resolves_a_proposal_is_recorded() {
        let resolved_by = |quorum: Option<u32>, close_at_quorum, votes: &str, deadline| {
            let mut proposal = proposal(Rule::Plurality, votes);
            proposal.terms.quorum = quorum;
            proposal.terms.close_at_quorum = close_at_quorum;
            match tally(&proposal, 7, deadline) {
                ProposalStep::Resolve(_, resolved_by) => Some(resolved_by),
                ProposalStep::Stay | ProposalStep::Tied | ProposalStep::Expire => None,
            }
        };
        let (ahead, passed) = (DeadlineStatus::Ahead, DeadlineStatus::Passed);
        let all = "a=x b=y c=x d=y e=z";
        assert_eq!(resolved_by(None, false, all, ahead), Some(ResolvedBy::AllVoted));
        assert_eq!(resolved_by(None, false, "a=x b=x c=x", ahead), Some(ResolvedBy::Decided));
        assert_eq!(resolved_by(Some(2), false, "a=x b=y", ahead), None);
        assert_eq!(resolved_by(Some(2), false, "a=x b=y", passed), Some(ResolvedBy::Deadline));
        assert_eq!(resolved_by(Some(2), true, "a=x b=y", ahead), Some(ResolvedBy::Quorum));
    }

    #[test]
    fn the_users_vote_counts_and_is_not_waited_for() {
        use Rule::{Majority, Plurality, Unanimous};
        for (rule, votes, expected) in [
            (Plurality, "a=x b=x c=y d=y e=z user=y", "y"),
            (Majority, "a=x b=x c=x d=y e=y user=y", "no_decision"),
            (Majority, "user=x a=x b=x", "stay"),
            (Unanimous, "a=x b=x c=x d=x e=x user=y", "no_decision"),
            (Unanimous, "a=x b=x c=x d=x user=x", "stay"),
        ] {
            assert_eq!(
                step_text(&proposal(rule, votes), DeadlineStatus::Ahead),
                expected,
                "{rule} {votes}"
            );
        }
    }

    #[test]
    fn a_tie_is_broken_as_was_declared() {
        let tie = |tie_breaker, votes: &str| {
            let mut proposal = proposal(Rule::Plurality, votes);
            proposal.terms.tie_breaker = tie_breaker;
            proposal
        };
        let all = "a=y b=y c=x d=x e=z";
        assert_eq!(
            step_text(&tie(TieBreaker::First, all), DeadlineStatus::Ahead),
            "x",
            "it stands first"
        );
        let asks = TieBreaker::CreatorDecides;
        for (votes, deadline, expected) in [
            (all.to_owned(), DeadlineStatus::Ahead, "tied"),
            (all.to_owned(), DeadlineStatus::Passed, "expire"),
            (format!("{all} lead=y"), DeadlineStatus::Ahead, "y"),
            (format!("{all} lead=z"), DeadlineStatus::Ahead, "tied"),
            ("a=y b=y c=y d=x e=z lead=x".to_owned(), DeadlineStatus::Ahead, "y"),
        ] {
            assert_eq!(step_text(&tie(asks, &votes), deadline), expected, "{votes}");
        }
        let mut own = tie(asks, all);
        own.created_by = Sender::from("a".to_owned());
        assert_eq!(
            step_text(&own, DeadlineStatus::Ahead),
            "y",
            "its own vote among the others' decides"
        );
    }

    #[test]
    fn chance_is_the_same_for_every_tied_option_and_the_same_again_for_the_same_dice() {
        let mut proposal = proposal(Rule::Plurality, "a=x b=y c=z d=x e=y user=z");
        proposal.terms.tie_breaker = TieBreaker::Random;
        let mut seen = [0_u32; 3];
        for dice in 0..30_000 {
            let ProposalStep::Resolve(VoteOutcome::Winner { winner }, resolved_by) =
                tally(&proposal, dice, DeadlineStatus::Ahead)
            else {
                panic!("a tie that chance decides is decided")
            };
            let again = tally(&proposal, dice, DeadlineStatus::Ahead);
            assert_eq!(again, winner_step(&winner, resolved_by));
            seen[["x", "y", "z"].iter().position(|id| *id == winner).unwrap()] += 1;
        }
        // Each count is expected to be 10,000; 400 is nearly five standard deviations.
        assert!(seen.iter().all(|times| times.abs_diff(10_000) < 400), "{seen:?}");
        proposal.id = ProposalId::new(2);
        let differs = (0..64).any(|dice| {
            let other = tally(&proposal, dice, DeadlineStatus::Ahead);
            proposal.id = ProposalId::new(1);
            let one = tally(&proposal, dice, DeadlineStatus::Ahead);
            proposal.id = ProposalId::new(2);
            one != other
        });
        assert!(differs, "two proposals that are decided together do not share one throw");
    }
}
