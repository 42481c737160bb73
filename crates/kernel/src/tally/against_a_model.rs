//! Random lives of proposals, in the store and in a small model that knows no SQL and counts by trying everything:
//! no difference. `AW_LIVES` says how many.

use std::{collections::BTreeMap, time::Duration};

use agent_worker_protocol::{
    AgentName, AttemptId, Limits, MessageKind, Millis, Priority, Proposal, ProposalId,
    ProposalKind, ProposalOption, ProposalState, Rule, RunId, RunMode, Sender, Seq, Terms,
    TieBreaker, WorkflowId, hash,
};
use agent_worker_store::{
    By, Deciding, Error, Fence, Keep, LeaseStep, Leased, MessageQuery, NewAgent, NewAttempt,
    NewBallot, NewCancel, NewMessage, NewProposal, NewRun, Now, Order, Recipient, Right, Said,
    Sqlite, Store, StoreTime, Wake, Who,
};
use uuid::Uuid;

use super::tally;

const VOTERS: [&str; 5] = ["a", "b", "c", "d", "e"];
const OPTIONS: [&str; 3] = ["x", "y", "z"];
const LASTS: i64 = 100;

/// The same numbers again for the same seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, most: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % u64::try_from(most).unwrap()).unwrap()
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// A proposal as the model knows it.
struct Model {
    terms: Terms,
    creator: String,
    deadline: i64,
    ballots: BTreeMap<String, String>,
    /// How it ended: its state's word, and what is decided.
    over: Option<(&'static str, Option<String>)>,
}

/// What became of something that was tried.
#[derive(Debug, PartialEq, Eq)]
enum Result {
    Done,
    Over,
    NotTheirs,
    NoSuchOption,
}

impl Model {
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

    fn vote(&mut self, voter: &str, choice: &str, now: i64) -> Result {
        let breaks = self.terms.tie_breaker == TieBreaker::CreatorDecides && voter == self.creator;
        if self.over.is_some() || now >= self.deadline {
            return Result::Over;
        }
        if voter != "user" && !self.voters().iter().any(|known| known == voter) && !breaks {
            return Result::NotTheirs;
        }
        if !OPTIONS.contains(&choice) {
            return Result::NoSuchOption;
        }
        self.ballots.insert(voter.to_owned(), choice.to_owned());
        Result::Done
    }

    fn cancel(&mut self, who: &str) -> Result {
        if self.over.is_some() {
            return Result::Over;
        }
        if who != "user" && who != self.creator {
            return Result::NotTheirs;
        }
        self.over = Some(("cancelled", None));
        Result::Done
    }

    /// What may have become of it by now: several where chance decides, none while it goes on.
    fn ends(&self, now: i64) -> Vec<(&'static str, Option<String>)> {
        let (cast, missing) = (self.counted(), self.missing());
        let quorum = match self.terms.rule {
            Rule::Unanimous => None,
            Rule::Plurality | Rule::Majority => self.terms.quorum,
        };
        let there = quorum.map(|needed| cast.len() >= usize::try_from(needed).unwrap());
        let up = now >= self.deadline;
        let expired = ("expired", self.terms.fallback.clone());
        if missing > 0 && !up {
            let sure = self.whatever_the_missing_say(missing);
            return match sure {
                Some(winner) if there != Some(false) => vec![("resolved", Some(winner))],
                Some(_) | None => Vec::new(),
            };
        }
        if missing > 0 && there != Some(true) {
            return vec![expired];
        }
        let winners = best(&cast, self.terms.rule);
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

    /// Tries every way in which the missing could vote.
    fn whatever_the_missing_say(&self, missing: usize) -> Option<String> {
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
            let winners = best(&all.iter().collect::<Vec<_>>(), self.terms.rule);
            match (&winners[..], &sure) {
                ([winner], None) => sure = Some(winner.clone()),
                ([winner], Some(before)) if winner == before => {}
                _ => return None,
            }
        }
        sure
    }
}

/// The options that win with these votes: none, one, or several that are tied.
fn best(votes: &[&String], rule: Rule) -> Vec<String> {
    let count = |id: &str| votes.iter().filter(|vote| **vote == id).count();
    let wins = |id: &&&str| match rule {
        Rule::Plurality => count(id) > 0 && OPTIONS.iter().all(|other| count(other) <= count(id)),
        Rule::Majority => count(id) > votes.len() - count(id),
        Rule::Unanimous => !votes.is_empty() && count(id) == votes.len(),
    };
    OPTIONS.iter().filter(wins).map(ToString::to_string).collect()
}

/// An instance whose agents are all at work.
struct Place {
    store: Sqlite,
    workflow: WorkflowId,
    fences: BTreeMap<&'static str, Fence>,
    now: i64,
}

impl Place {
    async fn new() -> Self {
        let store = Sqlite::in_memory().unwrap();
        let workflow = store.instance_open("/p".into(), "w".parse().unwrap()).await.unwrap();
        let agent = |name: &&str| NewAgent { name: name.parse().unwrap(), settings: "{}".into() };
        let new = NewRun {
            id: RunId::new(Uuid::from_u128(1)),
            mode: RunMode::Start,
            limits: Limits { hops: 50, turns: None, wall: None },
            script: String::new(),
            agents: VOTERS.iter().map(agent).collect(),
            roles: Vec::new(),
            keep: Keep::Always,
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
        };
        store.message_append(By::new(Who::User), workflow, begin, None, now).await.unwrap();
        let mut fences = BTreeMap::new();
        for (n, name) in (1_u128..).zip(VOTERS) {
            let id = AttemptId::new(Uuid::from_u128(n));
            let new = NewAttempt { id, token: hash(&[&n.to_le_bytes()]) };
            let name_of: AgentName = name.parse().unwrap();
            let leased = store
                .attempt_lease(workflow, name_of, new, |_| LeaseStep::Start, now)
                .await
                .unwrap();
            let Leased::Attempt(lease) = leased else { panic!("{name} is not at work") };
            fences.insert(name, lease.fence);
        }
        Self { store, workflow, fences, now: 1_000 }
    }

    fn by(&self, who: &str) -> By {
        By::new(match (who, self.fences.get(who)) {
            (_, Some(fence)) => Who::Agent(fence.clone()),
            ("user", None) => Who::User,
            (other, None) => Who::Client(other.to_owned()),
        })
    }

    async fn vote(&self, id: ProposalId, who: &str, choice: &str, dice: u64) -> Result {
        let (choice, right, said) = (choice.into(), Right::Own, Said::default());
        let ballot = NewBallot { proposal: id, choice, reason: None, right, said };
        let deciding = Deciding { tally, dice };
        let now = at(self.now);
        let cast = self.store.ballot_cast(self.by(who), self.workflow, ballot, deciding, now);
        result(cast.await)
    }

    async fn cancel(&self, id: ProposalId, who: &str) -> Result {
        let (right, said) = (Right::Own, Said::default());
        let cancel = NewCancel { proposal: id, why: None, right, said };
        let (by, now) = (self.by(who), at(self.now));
        result(self.store.proposal_cancel(by, self.workflow, cancel, now).await)
    }

    async fn get(&self, id: ProposalId) -> Proposal {
        self.store.proposal_get(self.workflow, id, at(self.now)).await.unwrap().unwrap()
    }

    /// How often the channel was told of each proposal's end.
    async fn ends_told(&self) -> BTreeMap<String, u32> {
        let mut told = BTreeMap::new();
        let mut after = Seq::new(0);
        loop {
            let (search, order) = (Some("which?".to_owned()), Order::OldestFirst);
            let query = MessageQuery { run: None, after, search, order, limit: 1_000 };
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

fn result<T>(answer: std::result::Result<T, Error>) -> Result {
    match answer {
        Ok(_) => Result::Done,
        Err(Error::ProposalOver { .. }) => Result::Over,
        Err(Error::NoVote(_) | Error::NotCreator(_)) => Result::NotTheirs,
        Err(Error::NotFound("option")) => Result::NoSuchOption,
        Err(other) => panic!("{other}"),
    }
}

fn random_terms(chance: &mut Chance) -> Terms {
    let size = 1 + chance.below(VOTERS.len());
    let mut electorate: Vec<Sender> =
        VOTERS[..size].iter().map(|name| Sender::from((*name).to_owned())).collect();
    if chance.below(6) == 0 {
        electorate.push(Sender::User);
    }
    let quorum = chance.below(electorate.len() + 1);
    Terms {
        kind: ProposalKind::Decision,
        title: "which?".into(),
        description: None,
        options: OPTIONS.map(ProposalOption::new).into(),
        rule: chance.one(&[Rule::Plurality, Rule::Majority, Rule::Unanimous]),
        quorum: u32::try_from(quorum).ok().filter(|quorum| *quorum > 0),
        tie_breaker: chance.one(&[
            TieBreaker::First,
            TieBreaker::Random,
            TieBreaker::CreatorDecides,
        ]),
        binding: false,
        role: None,
        work: None,
        gate: None,
        electorate,
        fallback: chance.one(&[None, Some("x")]).map(str::to_owned),
    }
}

/// Holds the store's proposal against the model's; where chance decided, the model learns what it chose.
fn compare(model: &mut Model, stored: &Proposal, now: i64, what: &str) {
    if model.over.is_none() {
        let ends = model.ends(now);
        let found = match &stored.state {
            ProposalState::Active => None,
            state => Some((state.word(), state.decided().map(str::to_owned))),
        };
        match found {
            Some(end) => {
                assert!(ends.contains(&end), "{what}: {end:?}, the model says {ends:?}");
                model.over = Some(end);
            }
            None => assert!(ends.is_empty(), "{what}: active, the model says {ends:?}"),
        }
    }
    let (word, decided) = model.over.clone().unwrap_or(("active", None));
    assert_eq!((stored.state.word(), stored.state.decided()), (word, decided.as_deref()), "{what}");
    let cast: BTreeMap<String, String> = stored
        .ballots
        .iter()
        .map(|ballot| (ballot.voter.to_string(), ballot.choice.clone()))
        .collect();
    assert_eq!(cast, model.ballots, "{what}");
}

/// An instant of the store's clock, while the wall clock runs backwards: no vote may depend on it.
fn at(now: i64) -> Now {
    Now { store: StoreTime::new(now), wall: Millis::new(1_700_000_000_000 - now) }
}

/// One life: made, voted on, perhaps taken back, and at last its time is up.
async fn live(place: &mut Place, seed: u64) -> ProposalId {
    let chance = &mut Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let terms = random_terms(chance);
    let creator = chance.one(&["a", "e", "user", "ci"]);
    let deadline = place.now + LASTS;
    let (lasts, said) = (Duration::from_millis(LASTS.unsigned_abs()), Said::default());
    let new = NewProposal { terms: terms.clone(), lasts, said };
    let (by, now) = (place.by(creator), at(place.now));
    let id = place.store.proposal_create(by, place.workflow, new, now).await.unwrap().value();
    let creator = if creator == "ci" { "client:ci" } else { creator }.to_owned();
    let (ballots, over) = (BTreeMap::new(), None);
    let mut model = Model { terms, creator, deadline, ballots, over };
    for step in 0..4 + chance.below(8) {
        let who = chance.one(&["a", "b", "c", "d", "e", "user", "ci"]);
        let named = if who == "ci" { "client:ci" } else { who };
        let what = format!("life {seed}, step {step}: {who}");
        let (expected, found) = match chance.below(20) {
            0 => (model.cancel(named), place.cancel(id, who).await),
            1 => {
                place.now += LASTS / 3;
                let (workflow, now) = (place.workflow, at(place.now));
                let deciding = Deciding { tally, dice: seed };
                place.store.proposal_settle(workflow, deciding, now).await.unwrap();
                (Result::Done, Result::Done)
            }
            _ => {
                let choice = chance.one(&["x", "x", "y", "y", "z", "nothing"]);
                (model.vote(named, choice, place.now), place.vote(id, who, choice, seed).await)
            }
        };
        assert_eq!(found, expected, "{what}");
        compare(&mut model, &place.get(id).await, place.now, &what);
    }
    place.now = place.now.max(deadline);
    let (workflow, now) = (place.workflow, at(place.now));
    let deciding = Deciding { tally, dice: seed };
    place.store.proposal_settle(workflow, deciding, now).await.unwrap();
    compare(&mut model, &place.get(id).await, place.now, &format!("life {seed}, its deadline"));
    id
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long the nightly runs is a setting of the test itself"
)]
fn lives() -> u64 {
    std::env::var("AW_LIVES").map_or(4_000, |text| text.parse().unwrap())
}

#[tokio::test]
async fn random_votes_come_to_what_a_model_that_tries_everything_says() {
    let mut place = Place::new().await;
    let mut ids = Vec::new();
    for seed in 1..=lives() {
        ids.push(live(&mut place, seed).await);
    }
    let told = place.ends_told().await;
    for id in ids {
        assert_eq!(told.get(&format!("#{id}")), Some(&1), "the end of #{id} is told once");
    }
}
