//! Proposals and questions: votes, decisions and binding effects.

use std::{sync::Arc, time::Duration};

use agent_worker_protocol::{
    APPROVE, DeliveryState, PauseCause, Proposal, ProposalId, ProposalKind, ProposalOption,
    ProposalState, Role, Rule, RunState, Sender, Seq, Terms, TieBreaker, VoteOutcome,
};
use agent_worker_store::{
    Error, HopContext, Lease, ListRange, NewBallot, NewCancellation, NewProposal, NewQuestion,
    Once, ProposalAuthority, ProposalQuery, QuestionQuery, RunStep, Store, WriteActor,
    WriteContext,
};
use tokio::task::JoinSet;

use crate::{
    rules::{self, TALLY_RULE},
    team::{NOW, Team, agent, client, end, keyed, name, new_run, ok, text, user},
};

pub(crate) const VOTING_PERIOD: Duration = Duration::from_secs(1);

pub(crate) fn terms(options: &[&str], voters: &[&str]) -> Terms {
    Terms {
        kind: ProposalKind::Decision,
        title: "which".into(),
        description: None,
        options: options.iter().map(|id| ProposalOption::new(*id)).collect(),
        rule: Rule::Plurality,
        quorum: None,
        close_at_quorum: false,
        tie_breaker: TieBreaker::First,
        binding: true,
        role: None,
        work: None,
        gate: None,
        electorate: voters.iter().map(|voter| Sender::from((*voter).to_owned())).collect(),
        fallback: None,
    }
}

pub(crate) async fn propose(team: &Team, by: WriteContext, terms: Terms) -> ProposalId {
    let new = NewProposal {
        terms,
        voting_period: VOTING_PERIOD,
        recipients: rules::voters,
        hop_context: HopContext::default(),
    };
    team.store.proposal_create(by, team.workflow, new, NOW).await.unwrap().value()
}

pub(crate) async fn vote(
    team: &Team,
    by: WriteContext,
    id: ProposalId,
    choice: &str,
) -> Result<ProposalState, Error> {
    vote_by(ProposalAuthority::Own, team, by, id, choice).await
}

async fn vote_by(
    right: ProposalAuthority,
    team: &Team,
    by: WriteContext,
    id: ProposalId,
    choice: &str,
) -> Result<ProposalState, Error> {
    let (choice, reason, said) = (choice.into(), Some("because".into()), HopContext::default());
    let ballot = NewBallot { proposal: id, choice, reason, authority: right, hop_context: said };
    team.store.ballot_cast(by, team.workflow, ballot, TALLY_RULE, NOW).await.map(Once::value)
}

async fn cancel(team: &Team, by: WriteContext, id: ProposalId) -> Result<ProposalState, Error> {
    cancel_by(ProposalAuthority::Own, team, by, id).await
}

async fn cancel_by(
    right: ProposalAuthority,
    team: &Team,
    by: WriteContext,
    id: ProposalId,
) -> Result<ProposalState, Error> {
    let (why, said) = (Some("enough".to_owned()), HopContext::default());
    let cancel = NewCancellation {
        proposal: id,
        why,
        authority: right,
        recipients: rules::end_recipients,
        hop_context: said,
    };
    team.store.proposal_cancel(by, team.workflow, cancel, NOW).await.map(Once::value)
}

async fn get(team: &Team, id: ProposalId) -> Proposal {
    team.store.proposal_get(team.workflow, id, NOW).await.unwrap().unwrap()
}

async fn bodies(team: &Team) -> Vec<String> {
    let query = agent_worker_store::MessageQuery {
        run: None,
        after: Seq::new(0),
        before: None,
        search: None,
        to: None,
        order: agent_worker_store::MessageOrder::OldestFirst,
        limit: 1_000,
    };
    let messages = team.store.message_list(team.workflow, query).await.unwrap();
    messages.into_iter().map(|message| message.body).collect()
}

/// Leases an attempt of each agent for the same message.
async fn lease_all(team: &Team, agents: &[&str]) -> Vec<Lease> {
    team.say("work", agents).await;
    let mut leases = Vec::new();
    for agent in agents {
        leases.push(team.lease(agent).await);
    }
    leases
}

fn winner(winner: &str, effect: Option<&str>) -> ProposalState {
    let verdict = VoteOutcome::Winner { winner: winner.into() };
    ProposalState::Resolved { verdict, effect: effect.map(str::to_owned) }
}

pub(crate) async fn a_vote_counts_decides_binds_and_tells_in_one_step(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a", "b", "c"]).await;
    let leases = lease_all(&team, &["a", "b"]).await;
    let kind = ProposalKind::Election;
    let role = Some(Role::Coordinator);
    let terms = Terms { kind, role, ..terms(&["a", "b"], &["a", "b", "c"]) };
    let id = propose(&team, agent(&leases[0]), terms).await;
    let told = Seq::new(2);
    assert_eq!((team.inbox("b").await, team.inbox("c").await), (vec![told], vec![told]));
    assert_eq!(team.inbox("a").await, [], "whoever made it knows");
    assert_eq!(team.facts().await.proposals, 1);
    assert_eq!(vote(&team, agent(&leases[0]), id, "b").await.unwrap(), ProposalState::Active);
    assert_eq!(store.run_roles(team.run).await.unwrap(), []);
    let state = vote(&team, agent(&leases[1]), id, "b").await.unwrap();
    assert_eq!(state, winner("b", Some("b is coordinator")));
    assert_eq!(store.run_roles(team.run).await.unwrap(), [(Role::Coordinator, name("b"))]);
    let found = get(&team, id).await;
    assert_eq!((found.state, found.ended, found.ballots.len()), (state, Some(NOW.wall), 2));
    let said = bodies(&team).await;
    assert!(said[1].starts_with("[PROPOSAL] #1 which"), "{said:?}");
    assert!(said[2].starts_with("[RESOLVED] #1 which: b (b is coordinator)"), "{said:?}");
    assert_eq!(team.inbox("a").await, [Seq::new(3)], "its creator is told");
    // No agent is woken to vote on a proposal that is over, and the dropped delivery is no failure.
    assert_eq!(team.state(told, "c").await, DeliveryState::Dropped);
    let facts = team.facts().await;
    assert_eq!((facts.proposals, facts.dropped), (0, 0));
    assert_eq!(store.run_failures(team.run).await.unwrap(), []);
    let kinds = team.kinds().await;
    let of = |word: &str| kinds.iter().filter(|kind| **kind == word).count();
    assert_eq!((of("proposal.active"), of("ballot.cast"), of("proposal.resolved")), (1, 2, 1));
}

pub(crate) async fn what_is_decided_never_changes(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a", "b"]).await;
    let leases = lease_all(&team, &["a", "b"]).await;
    let both = &["a", "b"];
    let resolved = propose(&team, user(), terms(&["x", "y"], both)).await;
    for lease in &leases {
        vote(&team, agent(lease), resolved, "x").await.unwrap();
    }
    let cancelled = propose(&team, user(), terms(&["x"], both)).await;
    cancel(&team, user(), cancelled).await.unwrap();
    let expired =
        propose(&team, user(), Terms { fallback: Some("x".into()), ..terms(&["x"], both) }).await;
    assert_eq!(
        store.proposal_due(team.workflow).await.unwrap(),
        Some(NOW.store.plus(VOTING_PERIOD))
    );
    assert_eq!(store.proposal_ended(team.workflow).await.unwrap(), 2);
    let settle = |now| store.proposal_settle(team.workflow, TALLY_RULE, now);
    assert_eq!(settle(NOW).await.unwrap(), [], "its time is not up");
    assert_eq!(settle(NOW.plus(VOTING_PERIOD)).await.unwrap(), [expired]);
    assert_eq!(settle(NOW.plus(VOTING_PERIOD)).await.unwrap(), []);
    assert_eq!(store.proposal_due(team.workflow).await.unwrap(), None);
    assert_eq!(store.proposal_ended(team.workflow).await.unwrap(), 3);
    for id in [resolved, cancelled, expired] {
        let before = get(&team, id).await;
        let late = vote(&team, agent(&leases[0]), id, "x").await;
        assert!(matches!(late, Err(Error::ProposalClosed { .. })), "{late:?}");
        let late = cancel(&team, user(), id).await;
        assert!(matches!(late, Err(Error::ProposalClosed { .. })), "{late:?}");
        assert_eq!(get(&team, id).await, before);
    }
    let states = [resolved, cancelled, expired].map(|id| (id, &store, &team));
    let mut words = Vec::new();
    for (id, _, team) in states {
        words.push(get(team, id).await.state.to_string());
    }
    assert_eq!(words, ["resolved: x", "cancelled by user: enough", "expired: x (fallback)"]);
    let all = store
        .proposal_list(team.workflow, ProposalQuery::All(ListRange::all()), NOW)
        .await
        .unwrap();
    assert_eq!(all.iter().map(|one| one.id).collect::<Vec<_>>(), [resolved, cancelled, expired]);
    let decided = ProposalQuery::Decided(team.run, 1);
    let decided = store.proposal_list(team.workflow, decided, NOW).await.unwrap();
    assert_eq!(decided.iter().map(|one| one.id).collect::<Vec<_>>(), [expired]);
    // A vote after the deadline and before the settlement changes nothing either.
    let due = propose(&team, user(), terms(&["x"], both)).await;
    let (choice, right, said) = ("x".into(), ProposalAuthority::Own, HopContext::default());
    let ballot =
        NewBallot { proposal: due, choice, reason: None, authority: right, hop_context: said };
    let late =
        store.ballot_cast(user(), team.workflow, ballot, TALLY_RULE, NOW.plus(VOTING_PERIOD)).await;
    assert!(matches!(late, Err(Error::ProposalClosed { .. })), "{late:?}");
}

pub(crate) async fn a_voter_has_one_ballot_and_may_change_it(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a", "b"]).await;
    let leases = lease_all(&team, &["a", "b"]).await;
    let id = propose(&team, user(), terms(&["x", "y"], &["A", "b"])).await;
    let first = keyed(agent(&leases[0]), "k", "x");
    vote(&team, first.clone(), id, "x").await.unwrap();
    vote(&team, agent(&leases[0]), id, "y").await.unwrap();
    let again = vote(&team, first, id, "x").await.unwrap();
    assert_eq!(again, ProposalState::Active, "the same call is not a second vote");
    let cast = |proposal: &Proposal| -> Vec<String> {
        let words = |ballot: &agent_worker_protocol::Ballot| {
            format!("{}={} {:?}", ballot.voter, ballot.choice, ballot.reason)
        };
        proposal.ballots.iter().map(words).collect()
    };
    assert_eq!(cast(&get(&team, id).await), [r#"a=y Some("because")"#]);
    assert_eq!(vote(&team, user(), id, "y").await.unwrap(), winner("y", None), "the user votes");
}

pub(crate) async fn a_client_with_a_persons_right_votes_and_takes_back(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a", "b"]).await;
    let leases = lease_all(&team, &["a", "b"]).await;
    let id = propose(&team, agent(&leases[0]), terms(&["x", "y"], &["b"])).await;
    let state = vote_by(ProposalAuthority::Person, &team, client("ci"), id, "x").await.unwrap();
    assert_eq!(state, ProposalState::Active, "nobody waits for it, and nothing waits for nobody");
    assert_eq!(get(&team, id).await.vote_counts(), [("x", 1), ("y", 0)], "and it counts");
    let stranger = cancel(&team, client("ci"), id).await;
    assert!(matches!(stranger, Err(Error::NotCreator(_))), "{stranger:?}");
    let state = cancel_by(ProposalAuthority::Person, &team, client("ci"), id).await.unwrap();
    assert_eq!(state.to_string(), "cancelled by client:ci: enough");
}

pub(crate) async fn a_caller_outside_the_electorate_cannot_vote_and_only_the_creator_cancels(
    store: Arc<dyn Store>,
) {
    let team = Team::new(&store, &["a", "b"]).await;
    let leases = lease_all(&team, &["a", "b"]).await;
    let id = propose(&team, agent(&leases[0]), terms(&["x"], &["b"])).await;
    let stranger = vote(&team, agent(&leases[0]), id, "x").await;
    assert!(matches!(stranger, Err(Error::NoVote(_))), "{stranger:?}");
    let stranger = vote(&team, client("ci"), id, "x").await;
    assert!(matches!(stranger, Err(Error::NoVote(_))), "{stranger:?}");
    let nothing = vote(&team, agent(&leases[1]), id, "z").await;
    assert!(matches!(nothing, Err(Error::NotFound("option"))), "{nothing:?}");
    let nothing = vote(&team, agent(&leases[1]), ProposalId::new(9), "x").await;
    assert!(matches!(nothing, Err(Error::NotFound("proposal"))), "{nothing:?}");
    let stranger = cancel(&team, agent(&leases[1]), id).await;
    assert!(matches!(stranger, Err(Error::NotCreator(_))), "{stranger:?}");
    let state = cancel(&team, agent(&leases[0]), id).await.unwrap();
    assert_eq!(state.to_string(), "cancelled by a: enough");
    assert!(bodies(&team).await.last().unwrap().starts_with("[CANCELLED] #1 which"));
    // The creator who breaks ties may vote without being in the electorate; that vote is not counted.
    let tie_breaker = TieBreaker::CreatorDecides;
    let ties = Terms { tie_breaker, ..terms(&["x"], &["b"]) };
    let id = propose(&team, agent(&leases[0]), ties).await;
    vote(&team, agent(&leases[0]), id, "x").await.unwrap();
    assert_eq!(get(&team, id).await.vote_counts(), [("x", 0)]);
    // Another instance has its own proposals, even with the same numbers.
    let other = Team::new(&store, &["a"]).await;
    let elsewhere = vote(&other, user(), id, "x").await;
    assert!(matches!(elsewhere, Err(Error::NotFound("proposal"))), "{elsewhere:?}");
}

pub(crate) async fn an_assignment_gives_the_work_to_one_and_spares_the_others(
    store: Arc<dyn Store>,
) {
    let team = Team::new(&store, &["a", "b", "c", "d"]).await;
    let leases = lease_all(&team, &["a", "b"]).await;
    let work = team.say("who does it?", &["c", "d"]).await;
    let kind = ProposalKind::Assignment;
    let assign = |options: &[&str]| Terms { kind, work: Some(work), ..terms(options, &["a", "b"]) };
    let decide = async |options: &[&str], who: &str| {
        let id = propose(&team, user(), assign(options)).await;
        vote(&team, agent(&leases[0]), id, who).await.unwrap();
        vote(&team, agent(&leases[1]), id, who).await.unwrap()
    };
    // The winner has the message: the other agents need it no more.
    assert_eq!(decide(&["c", "d"], "d").await, winner("d", Some("message #2 is d's")));
    assert_eq!(team.state(work, "c").await, DeliveryState::Dropped);
    let receipts = store.message_receipts(team.workflow, work).await.unwrap();
    assert_eq!(receipts[0].why.as_deref(), Some("assigned to d"));
    assert_eq!(
        (team.facts().await.dropped, team.state(work, "d").await),
        (0, DeliveryState::Pending)
    );
    // An agent that works on the message finishes it, and then the winner has the message too.
    let working = team.lease("d").await;
    decide(&["c", "d"], "c").await;
    assert_eq!(team.state(work, "d").await, DeliveryState::Leased);
    assert_eq!(team.state(work, "c").await, DeliveryState::Pending, "given back");
    assert_eq!(team.inbox("c").await, [work]);
    team.finish(&working, ok()).await;
    assert_eq!(team.state(work, "d").await, DeliveryState::Acted);
    // The winner has acted on the message: it gets a notice of the assignment.
    let before = team.inbox("d").await.len();
    decide(&["d"], "d").await;
    assert_eq!(
        (team.state(work, "d").await, team.inbox("d").await.len()),
        (DeliveryState::Acted, before + 1)
    );
    // The winner never received the message.
    assert_eq!(decide(&["a"], "a").await, winner("a", Some("message #2 is a's")));
    assert_eq!(team.state(work, "a").await, DeliveryState::Pending);
    // Without `binding` the decision is advice.
    let advice = Terms { binding: false, ..assign(&["b"]) };
    let id = propose(&team, user(), advice).await;
    vote(&team, agent(&leases[0]), id, "b").await.unwrap();
    assert_eq!(vote(&team, user(), id, "b").await.unwrap(), winner("b", None));
    assert_eq!(team.state(work, "a").await, DeliveryState::Pending);
}

pub(crate) async fn only_a_vote_opens_a_gate(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a", "b"]).await;
    let leases = lease_all(&team, &["a", "b"]).await;
    let gate = |name: &str| Terms {
        kind: ProposalKind::Approval,
        gate: Some(name.to_owned()),
        fallback: Some(APPROVE.into()),
        ..terms(&["approve", "reject"], &["a", "b"])
    };
    let voted = async |name: &str, choice: &str| {
        let id = propose(&team, user(), gate(name)).await;
        vote(&team, agent(&leases[0]), id, choice).await.unwrap();
        vote(&team, agent(&leases[1]), id, choice).await.unwrap()
    };
    let gates = async || store.run_gates(team.run).await.unwrap();
    assert_eq!(voted("no", "reject").await, winner("reject", Some("gate no stays as it was")));
    let late = propose(&team, user(), gate("late")).await;
    store.proposal_settle(team.workflow, TALLY_RULE, NOW.plus(VOTING_PERIOD)).await.unwrap();
    assert_eq!(get(&team, late).await.state.decided_option(), Some(APPROVE));
    assert_eq!(gates().await, Vec::<String>::new(), "a fallback opens nothing");
    assert_eq!(voted("yes", APPROVE).await, winner(APPROVE, Some("gate yes is open")));
    assert_eq!(gates().await, ["yes"]);
    team.settle(end(agent_worker_protocol::Outcome::Done)).await;
    let mut next = team.clone();
    next.start(new_run(&["a", "b"])).await;
    assert_eq!(
        store.run_gates(next.run).await.unwrap(),
        Vec::<String>::new(),
        "each run has its own"
    );
}

pub(crate) async fn a_run_that_ends_takes_back_what_is_voted_on(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    let id = propose(&team, user(), terms(&["x"], &["a"])).await;
    team.settle(end(agent_worker_protocol::Outcome::Stopped)).await;
    let state = get(&team, id).await.state.to_string();
    assert_eq!(state, "cancelled by system: the run ended: the run ended");
    assert!(bodies(&team).await.last().unwrap().starts_with("[CANCELLED] #1"));
    assert_eq!(
        store.proposal_settle(team.workflow, TALLY_RULE, NOW.plus(VOTING_PERIOD)).await.unwrap(),
        []
    );
    let late = vote(&team, user(), id, "x").await;
    assert!(matches!(late, Err(Error::ProposalClosed { .. })), "{late:?}");
}

pub(crate) async fn a_kickoff_waits_for_its_election_and_comes_with_its_end(store: Arc<dyn Store>) {
    let instance = format!("w:elect{}", crate::team::unique()).parse().unwrap();
    let workflow = store.instance_open("/p".into(), instance).await.unwrap();
    let new = new_run(&["a", "b"]);
    let team = Team { store: Arc::clone(&store), workflow, run: new.id };
    store.run_create(workflow, new, NOW).await.unwrap();
    let election = || NewProposal {
        terms: Terms {
            kind: ProposalKind::Election,
            role: Some(Role::DocumentOwner),
            fallback: Some("a".into()),
            ..terms(&["a", "b"], &["a", "b"])
        },
        voting_period: VOTING_PERIOD,
        recipients: rules::voters,
        hop_context: HopContext::default(),
    };
    let kickoff = text("begin", &["b"]);
    store.run_elect(team.run, election(), Some(kickoff.clone()), NOW).await.unwrap();
    store.run_elect(team.run, election(), Some(kickoff), NOW).await.unwrap();
    assert_eq!(store.run_get(team.run).await.unwrap().state, RunState::Electing);
    assert_eq!(bodies(&team).await.len(), 1, "once, and no kickoff yet");
    let a = team.lease("a").await;
    let b = team.lease("b").await;
    vote(&team, agent(&a), ProposalId::new(1), "b").await.unwrap();
    // A pause in between keeps the election, and the end of the election keeps the pause.
    team.settle(RunStep::Pause(PauseCause::User)).await;
    store.run_resume(user(), team.run, crate::team::LIMITS, NOW).await.unwrap();
    assert_eq!(store.run_get(team.run).await.unwrap().state, RunState::Electing);
    vote(&team, agent(&b), ProposalId::new(1), "b").await.unwrap();
    assert_eq!(store.run_get(team.run).await.unwrap().state, RunState::Running);
    assert_eq!(store.run_roles(team.run).await.unwrap(), [(Role::DocumentOwner, name("b"))]);
    let said = bodies(&team).await;
    assert_eq!((said.len(), said[2].as_str()), (3, "begin"));
    assert_eq!(team.inbox("b").await, [Seq::new(3)]);
}

pub(crate) async fn a_question_is_answered_once_and_its_run_goes_on(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    let lease = lease_all(&team, &["a"]).await.remove(0);
    let ask = |by: WriteContext| {
        let options = vec!["yes".to_owned(), "no".to_owned()];
        let new = NewQuestion {
            question: "May I?".into(),
            options,
            text: rules::question_text,
            hop_context: HopContext { hops: 4, pause: None },
        };
        store.question_ask(by, team.workflow, new, NOW)
    };
    assert!(matches!(ask(user()).await, Err(Error::Fenced)), "only an agent asks");
    let id = ask(keyed(agent(&lease), "k", "x")).await.unwrap().value();
    let again = ask(keyed(agent(&lease), "k", "x")).await.unwrap();
    assert_eq!(again, Once::Deduplicated(id));
    team.finish(&lease, ok()).await;
    let facts = team.facts().await;
    assert_eq!((facts.questions, facts.waking), (1, 0));
    let open = store.question_list(team.workflow, QuestionQuery::Open).await.unwrap();
    assert_eq!((open.len(), open[0].id, open[0].question.as_str()), (1, id, "May I?"));
    team.settle(RunStep::Pause(PauseCause::Human)).await;
    let answer = |text: &str| store.question_answer(user(), team.workflow, id, text.into(), NOW);
    let seq = answer("yes").await.unwrap().value();
    assert_eq!(team.facts().await.state, RunState::Running);
    assert_eq!((team.facts().await.questions, team.inbox("a").await), (0, vec![seq]));
    let woken = team.lease("a").await;
    let message = &woken.messages[0].message;
    assert_eq!((message.body.as_str(), message.hops, &message.from), ("yes", 0, &Sender::User));
    assert_eq!(message.reply_to, Some(Seq::new(2)), "it answers the message that asked");
    assert!(matches!(answer("no").await, Err(Error::QuestionAnswered(_))));
    // A removed agent has no open questions.
    ask(agent(&woken)).await.unwrap();
    team.finish(&woken, ok()).await;
    assert_eq!(team.facts().await.questions, 1);
    store.agent_remove(user(), team.workflow, name("a"), NOW).await.unwrap();
    assert_eq!(team.facts().await.questions, 0);
    assert_eq!(store.question_list(team.workflow, QuestionQuery::Open).await.unwrap(), []);
}

pub(crate) async fn of_many_votes_at_once_one_decides(store: Arc<dyn Store>) {
    let names: Vec<String> = (0..16).map(|n| format!("v{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let team = Team::new(&store, &names).await;
    let leases = lease_all(&team, &names).await;
    let mut ids = Vec::new();
    for _ in 0..8 {
        ids.push(propose(&team, user(), terms(&["x", "y"], &names)).await);
    }
    let mut voters = JoinSet::new();
    for (n, lease) in leases.into_iter().enumerate() {
        let (team, ids) = (team.clone(), ids.clone());
        voters.spawn(async move {
            for id in ids {
                let choice = ["x", "y"][n % 2];
                match vote(
                    &team,
                    WriteContext::new(WriteActor::Agent(lease.fence.clone())),
                    id,
                    choice,
                )
                .await
                {
                    Ok(_) | Err(Error::ProposalClosed { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        });
    }
    voters.join_all().await;
    let kinds = team.kinds().await;
    let resolved = kinds.iter().filter(|kind| **kind == "proposal.resolved").count();
    assert_eq!(resolved, 8);
    for id in ids {
        let proposal = get(&team, id).await;
        let winner = proposal.state.decided_option().unwrap().to_owned();
        let most = proposal.vote_counts().into_iter().find(|(id, _)| *id == winner).unwrap().1;
        assert_eq!(most, 2, "no vote came after the one that decided");
    }
}
