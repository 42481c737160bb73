//! Compares random proposals in the store with a small model that has no SQL and counts by trying all combinations.
//! `AW_LIVES` sets the number of proposals.

use std::{collections::BTreeMap, time::Duration};

use agent_worker_protocol::{
    AgentName, AttemptId, Limits, MessageKind, Millis, Priority, Proposal, ProposalId,
    ProposalKind, ProposalOption, ProposalState, Rule, RunId, RunMode, Sender, Seq, Terms,
    TieBreaker, WorkflowId, hash,
};
use agent_worker_store::{
    AttemptStore as _, Database, DecisionStore as _, Error, Fence, HopContext, LeaseOutcome,
    LeaseRule, LeaseStep, MessageOrder, MessageQuery, MessageStore as _, NewAgent, NewAttempt,
    NewBallot, NewCancellation, NewMessage, NewProposal, NewRun, Now, ProposalAuthority, Recipient,
    Retention, RunStore as _, StoreTime, TallyRule, Wake, WriteActor, WriteContext,
};
use uuid::Uuid;

use super::tally;
use crate::{scheduling::batch::LEASE_RULE, voting::notices};

const VOTERS: [&str; 5] = ["a", "b", "c", "d", "e"];
const OPTIONS: [&str; 3] = ["x", "y", "z"];
const VOTING_MILLIS: i64 = 100;

/// A reproducible sequence of numbers for a seed.
struct SeededChance(u64);

impl SeededChance {
    fn below(&mut self, most: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % u64::try_from(most).unwrap()).unwrap()
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// A proposal in the model.
struct ProposalModel {
    terms: Terms,
    creator: String,
    deadline: i64,
    ballots: BTreeMap<String, String>,
    /// The end: the word of its state, and the decided option.
    ending: Option<(&'static str, Option<String>)>,
}

/// The result of an action.
#[derive(Debug, PartialEq, Eq)]
enum VoteActionResult {
    Done,
    Over,
    NotAllowed,
    NoSuchOption,
}

impl ProposalModel {
    fn voters(&self) -> Vec<String> {
        self.terms.electorate.iter().map(ToString::to_string).collect()
    }

    fn counted(&self) -> Vec<&String> {
        let voters = self.voters();
        let counts = |voter: &String| voter == "user" || voters.contains(voter);
        self.ballots.iter().filter(|(voter, _)| counts(voter)).map(|(_, choice)| choice).collect()
    }

    fn missing(&self) -> usize {
        self.voters().iter().filter(|voter| !self.ballots.contains_key(*voter)).count()
    }

    fn vote(&mut self, voter: &str, choice: &str, now: i64) -> VoteActionResult {
        let breaks = self.terms.tie_breaker == TieBreaker::CreatorDecides && voter == self.creator;
        if self.ending.is_some() || now >= self.deadline {
            return VoteActionResult::Over;
        }
        if voter != "user" && !self.voters().iter().any(|known| known == voter) && !breaks {
            return VoteActionResult::NotAllowed;
        }
        if !OPTIONS.contains(&choice) {
            return VoteActionResult::NoSuchOption;
        }
        self.ballots.insert(voter.to_owned(), choice.to_owned());
        VoteActionResult::Done
    }

    fn cancel(&mut self, who: &str) -> VoteActionResult {
        if self.ending.is_some() {
            return VoteActionResult::Over;
        }
        if who != "user" && who != self.creator {
            return VoteActionResult::NotAllowed;
        }
        self.ending = Some(("cancelled", None));
        VoteActionResult::Done
    }

    /// Returns the possible ends by now: several if chance decides, none while the proposal is open.
    fn possible_endings(&self, now: i64) -> Vec<(&'static str, Option<String>)> {
        let (cast, missing) = (self.counted(), self.missing());
        let quorum = match self.terms.rule {
            Rule::Unanimous => None,
            Rule::Plurality | Rule::Majority => self.terms.quorum,
        };
        let there = quorum.map(|needed| cast.len() >= usize::try_from(needed).unwrap());
        let up = now >= self.deadline;
        let closes = there == Some(true) && self.terms.close_at_quorum;
        let expired = ("expired", self.terms.fallback.clone());
        if missing > 0 && !up && !closes {
            let sure = self.certain_winner(missing);
            return match sure {
                Some(winner) if there != Some(false) => vec![("resolved", Some(winner))],
                Some(_) | None => Vec::new(),
            };
        }
        if missing > 0 && there != Some(true) {
            return vec![expired];
        }
        let winners = winning_options(&cast, self.terms.rule);
        match (&winners[..], self.terms.tie_breaker) {
            ([], _) => vec![("resolved", None)],
            ([one], _) => vec![("resolved", Some(one.clone()))],
            (tied, TieBreaker::First) => {
                let first = OPTIONS.iter().find(|id| tied.iter().any(|one| one == *id));
                vec![("resolved", first.map(ToString::to_string))]
            }
            (tied, TieBreaker::Random) => {
                tied.iter().map(|one| ("resolved", Some(one.clone()))).collect()
            }
            (tied, TieBreaker::CreatorDecides) => match self.ballots.get(&self.creator) {
                Some(choice) if tied.contains(choice) => vec![("resolved", Some(choice.clone()))],
                Some(_) | None if up => vec![expired],
                Some(_) | None => Vec::new(),
            },
        }
    }

    /// Returns the certain winner by trying every combination of the missing votes.
    fn certain_winner(&self, missing: usize) -> Option<String> {
        if self.terms.rule == Rule::Unanimous {
            return None;
        }
        let cast: Vec<String> = self.counted().into_iter().cloned().collect();
        let mut sure: Option<String> = None;
        for way in 0..OPTIONS.len().pow(u32::try_from(missing).unwrap()) {
            let mut all = cast.clone();
            let mut rest = way;
            for _ in 0..missing {
                all.push(OPTIONS[rest % OPTIONS.len()].to_owned());
                rest /= OPTIONS.len();
            }
            let winners = winning_options(&all.iter().collect::<Vec<_>>(), self.terms.rule);
            match (&winners[..], &sure) {
                ([winner], None) => sure = Some(winner.clone()),
                ([winner], Some(before)) if winner == before => {}
                _ => return None,
            }
        }
        sure
    }
}

/// Returns the winning options of these votes: none, one, or several that are tied.
fn winning_options(votes: &[&String], rule: Rule) -> Vec<String> {
    let count = |id: &str| votes.iter().filter(|vote| **vote == id).count();
    let wins = |id: &&&str| match rule {
        Rule::Plurality => count(id) > 0 && OPTIONS.iter().all(|other| count(other) <= count(id)),
        Rule::Majority => count(id) > votes.len() - count(id),
        Rule::Unanimous => !votes.is_empty() && count(id) == votes.len(),
    };
    OPTIONS.iter().filter(wins).map(ToString::to_string).collect()
}

/// An instance whose agents all have a live attempt.
struct VotingTestInstance {
    store: Database,
    workflow: WorkflowId,
    fences: BTreeMap<&'static str, Fence>,
    now: i64,
}

impl VotingTestInstance {
    async fn new() -> Self {
        let store = Database::in_memory().unwrap();
        let workflow = store.instance_open("/p".into(), "w".parse().unwrap()).await.unwrap();
        let agent = |name: &&str| NewAgent { name: name.parse().unwrap(), settings: "{}".into() };
        let new = NewRun {
            id: RunId::new(Uuid::from_u128(1)),
            mode: RunMode::Start,
            limits: Limits {
                hops: 50,
                turns: None,
                wall: None,
                wall_grace: Limits::WALL_GRACE,
                spend: agent_worker_protocol::SpendLimits::NONE,
            },
            script: String::new(),
            agents: VOTERS.iter().map(agent).collect(),
            roles: Vec::new(),
            retention: Retention::Always,
        };
        let (run, now) = (new.id, at(0));
        store.run_create(workflow, new, now).await.unwrap();
        store.run_start(run, None, now).await.unwrap();
        let recipient =
            |name: &&str| Recipient { agent: name.parse().unwrap(), wake: Wake::Batched };
        let begin = NewMessage {
            kind: MessageKind::Message,
            body: "begin".into(),
            data: Vec::new(),
            reply_to: None,
            hops: 0,
            priority: Priority::Normal,
            resource: None,
            recipients: VOTERS.iter().map(recipient).collect(),
            attachments: Vec::new(),
        };
        store
            .message_append(WriteContext::new(WriteActor::User), workflow, begin, None, now)
            .await
            .unwrap();
        let mut fences = BTreeMap::new();
        let rule = LeaseRule { may_start: |_| LeaseStep::Start, ..LEASE_RULE };
        for (n, name) in (1_u128..).zip(VOTERS) {
            let id = AttemptId::new(Uuid::from_u128(n));
            let new = NewAttempt { id, token: hash(&[&n.to_le_bytes()]) };
            let name_of: AgentName = name.parse().unwrap();
            let leased = store.attempt_lease(workflow, name_of, new, rule, now).await.unwrap();
            let LeaseOutcome::Attempt(lease) = leased else { panic!("{name} is not at work") };
            fences.insert(name, lease.fence);
        }
        Self { store, workflow, fences, now: 1_000 }
    }

    fn by(&self, who: &str) -> WriteContext {
        WriteContext::new(match (who, self.fences.get(who)) {
            (_, Some(fence)) => WriteActor::Agent(fence.clone()),
            ("user", None) => WriteActor::User,
            (other, None) => WriteActor::Client(other.to_owned()),
        })
    }

    async fn vote(&self, id: ProposalId, who: &str, choice: &str, dice: u64) -> VoteActionResult {
        let (choice, right, said) = (choice.into(), ProposalAuthority::Own, HopContext::default());
        let ballot =
            NewBallot { proposal: id, choice, reason: None, authority: right, hop_context: said };
        let deciding = tally_rule(dice);
        let now = at(self.now);
        let cast = self.store.ballot_cast(self.by(who), self.workflow, ballot, deciding, now);
        action_result(cast.await)
    }

    async fn cancel(&self, id: ProposalId, who: &str) -> VoteActionResult {
        let (right, said) = (ProposalAuthority::Own, HopContext::default());
        let cancel = NewCancellation {
            proposal: id,
            why: None,
            authority: right,
            recipients: notices::agents_to_wake_at_end,
            hop_context: said,
        };
        let (by, now) = (self.by(who), at(self.now));
        action_result(self.store.proposal_cancel(by, self.workflow, cancel, now).await)
    }

    async fn get(&self, id: ProposalId) -> Proposal {
        self.store.proposal_get(self.workflow, id, at(self.now)).await.unwrap().unwrap()
    }

    /// Returns the number of messages about each proposal's end.
    async fn reported_endings(&self) -> BTreeMap<String, u32> {
        let mut told = BTreeMap::new();
        let mut after = Seq::new(0);
        loop {
            let (search, order) = (Some("which?".to_owned()), MessageOrder::OldestFirst);
            let query = MessageQuery {
                run: None,
                after,
                before: None,
                search,
                to: None,
                order,
                limit: 1_000,
            };
            let page = self.store.message_list(self.workflow, query).await.unwrap();
            let Some(last) = page.last() else { return told };
            after = last.seq;
            for message in page {
                let mut words = message.body.split(' ');
                if words.next() != Some("[PROPOSAL]") {
                    *told.entry(words.next().unwrap().to_owned()).or_default() += 1;
                }
            }
        }
    }
}

fn action_result<T>(answer: std::result::Result<T, Error>) -> VoteActionResult {
    match answer {
        Ok(_) => VoteActionResult::Done,
        Err(Error::ProposalClosed { .. }) => VoteActionResult::Over,
        Err(Error::NoVote(_) | Error::NotCreator(_)) => VoteActionResult::NotAllowed,
        Err(Error::NotFound("option")) => VoteActionResult::NoSuchOption,
        Err(other) => panic!("{other}"),
    }
}

fn random_terms(chance: &mut SeededChance) -> Terms {
    let size = 1 + chance.below(VOTERS.len());
    let mut electorate: Vec<Sender> =
        VOTERS[..size].iter().map(|name| Sender::from((*name).to_owned())).collect();
    if chance.below(6) == 0 {
        electorate.push(Sender::User);
    }
    let quorum = chance.below(electorate.len() + 1);
    let close_at_quorum = quorum > 0 && chance.below(2) == 0;
    Terms {
        kind: ProposalKind::Decision,
        title: "which?".into(),
        description: None,
        options: OPTIONS.map(ProposalOption::new).into(),
        rule: chance.pick(&[Rule::Plurality, Rule::Majority, Rule::Unanimous]),
        quorum: u32::try_from(quorum).ok().filter(|quorum| *quorum > 0),
        close_at_quorum,
        tie_breaker: chance.pick(&[
            TieBreaker::First,
            TieBreaker::Random,
            TieBreaker::CreatorDecides,
        ]),
        binding: false,
        role: None,
        work: None,
        gate: None,
        electorate,
        fallback: chance.pick(&[None, Some("x")]).map(str::to_owned),
    }
}

/// Compares the stored proposal with the model; if chance decided, the model takes over the result.
fn compare(model: &mut ProposalModel, stored: &Proposal, now: i64, what: &str) {
    if model.ending.is_none() {
        let ends = model.possible_endings(now);
        let found = match &stored.state {
            ProposalState::Active => None,
            state => Some((state.word(), state.decided_option().map(str::to_owned))),
        };
        match found {
            Some(end) => {
                assert!(ends.contains(&end), "{what}: {end:?}, the model says {ends:?}");
                model.ending = Some(end);
            }
            None => assert!(ends.is_empty(), "{what}: active, the model says {ends:?}"),
        }
    }
    let (word, decided) = model.ending.clone().unwrap_or(("active", None));
    assert_eq!(
        (stored.state.word(), stored.state.decided_option()),
        (word, decided.as_deref()),
        "{what}"
    );
    let cast: BTreeMap<String, String> = stored
        .ballots
        .iter()
        .map(|ballot| (ballot.voter.to_string(), ballot.choice.clone()))
        .collect();
    assert_eq!(cast, model.ballots, "{what}");
}

/// Returns an instant of the store's clock, while the wall clock runs backwards: no vote may depend on it.
fn at(now: i64) -> Now {
    Now { store: StoreTime::new(now), wall: Millis::new(1_700_000_000_000 - now) }
}

fn tally_rule(tie_break_seed: u64) -> TallyRule {
    let (recipients, effect_text) = (notices::agents_to_wake_at_end, notices::effect_text);
    TallyRule { tally, tie_break_seed, recipients, effect_text }
}

/// Simulates one proposal: created, voted on, possibly cancelled, and finally past its deadline.
async fn simulate_proposal(place: &mut VotingTestInstance, seed: u64) -> ProposalId {
    let chance = &mut SeededChance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let terms = random_terms(chance);
    let creator = chance.pick(&["a", "e", "user", "ci"]);
    let deadline = place.now + VOTING_MILLIS;
    let (lasts, said) =
        (Duration::from_millis(VOTING_MILLIS.unsigned_abs()), HopContext::default());
    let new = NewProposal {
        terms: terms.clone(),
        voting_period: lasts,
        recipients: notices::voters_to_wake,
        hop_context: said,
    };
    let (by, now) = (place.by(creator), at(place.now));
    let id = place.store.proposal_create(by, place.workflow, new, now).await.unwrap().value();
    let creator = if creator == "ci" { "client:ci" } else { creator }.to_owned();
    let (ballots, over) = (BTreeMap::new(), None);
    let mut model = ProposalModel { terms, creator, deadline, ballots, ending: over };
    for step in 0..4 + chance.below(8) {
        let who = chance.pick(&["a", "b", "c", "d", "e", "user", "ci"]);
        let named = if who == "ci" { "client:ci" } else { who };
        let what = format!("life {seed}, step {step}: {who}");
        let (expected, found) = match chance.below(20) {
            0 => (model.cancel(named), place.cancel(id, who).await),
            1 => {
                place.now += VOTING_MILLIS / 3;
                let (workflow, now) = (place.workflow, at(place.now));
                let deciding = tally_rule(seed);
                place.store.proposal_settle(workflow, deciding, now).await.unwrap();
                (VoteActionResult::Done, VoteActionResult::Done)
            }
            _ => {
                let choice = chance.pick(&["x", "x", "y", "y", "z", "nothing"]);
                (model.vote(named, choice, place.now), place.vote(id, who, choice, seed).await)
            }
        };
        assert_eq!(found, expected, "{what}");
        compare(&mut model, &place.get(id).await, place.now, &what);
    }
    place.now = place.now.max(deadline);
    let (workflow, now) = (place.workflow, at(place.now));
    let deciding = tally_rule(seed);
    place.store.proposal_settle(workflow, deciding, now).await.unwrap();
    compare(&mut model, &place.get(id).await, place.now, &format!("life {seed}, its deadline"));
    id
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long the nightly runs is a setting of the test itself"
)]
fn simulation_count() -> u64 {
    std::env::var("AW_LIVES").map_or(4_000, |text| text.parse().unwrap())
}

#[tokio::test]
async fn random_votes_come_to_what_a_model_that_tries_everything_says() {
    let mut place = VotingTestInstance::new().await;
    let mut ids = Vec::new();
    for seed in 1..=simulation_count() {
        ids.push(simulate_proposal(&mut place, seed).await);
    }
    let told = place.reported_endings().await;
    for id in ids {
        assert_eq!(told.get(&format!("#{id}")), Some(&1), "the end of #{id} is told once");
    }
}
