//! A proposal: its terms, its ballots and its result.
//!
//! Counting is not here. The kernel counts votes; this file has the types that it counts with, and the channel texts
//! of a proposal.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use strum::{Display, EnumString, IntoStaticStr};

use crate::{
    id::{ProposalId, RunId, Seq},
    message::Sender,
    name::AgentName,
    state::Role,
    time::Millis,
};

/// Option that opens a gate.
pub const APPROVE: &str = "approve";
/// Option that keeps a gate closed.
pub const REJECT: &str = "reject";
/// Maximum number of characters of a decision in a list.
const MAX_LINE_CHARS: usize = 200;

/// Subject of a vote.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    JsonSchema,
    Display,
    EnumString,
    IntoStaticStr,
)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum ProposalKind {
    /// Gives a role to an agent.
    Election,
    /// Decides a question of the team.
    #[default]
    Decision,
    /// Permits or forbids an action.
    Approval,
    /// Assigns a piece of work to an agent.
    Assignment,
}

/// Number of votes that an option needs to win.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    JsonSchema,
    Display,
    EnumString,
    IntoStaticStr,
)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// More votes than any other option.
    #[default]
    Plurality,
    /// More than half of the votes.
    Majority,
    /// All votes of the electorate.
    Unanimous,
}

/// Method that chooses between options with equally many votes under [`Rule::Plurality`].
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    JsonSchema,
    Display,
    EnumString,
    IntoStaticStr,
)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum TieBreaker {
    /// The tied option that is first in the list of options.
    #[default]
    First,
    /// A random option of the tied ones, with equal probability.
    Random,
    /// The vote of the proposal's creator.
    #[serde(alias = "creator-decides")]
    CreatorDecides,
}

/// Event that ended a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResolvedBy {
    /// The quorum was reached, and the proposal closes at its quorum.
    Quorum,
    /// The whole electorate has voted.
    AllVoted,
    /// The missing votes could not change the winner.
    Decided,
    /// The deadline passed.
    Deadline,
    /// The proposal was withdrawn.
    Cancelled,
}

/// One option of a proposal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "ProposalOptionInput")]
pub struct ProposalOption {
    /// Word that a ballot contains for this option.
    pub id: String,
    /// Description of the option for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Data that the creator attached to the option.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub metadata: Value,
}

/// Accepted input for an option: its id alone, or all of its fields.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum ProposalOptionInput {
    Id(String),
    Full {
        id: String,
        #[serde(default)]
        label: Option<String>,
        #[serde(default)]
        metadata: Value,
    },
}

impl From<ProposalOptionInput> for ProposalOption {
    fn from(written: ProposalOptionInput) -> Self {
        match written {
            ProposalOptionInput::Id(id) => Self::new(id),
            ProposalOptionInput::Full { id, label, metadata } => Self { id, label, metadata },
        }
    }
}

impl ProposalOption {
    /// Creates an option with an id and nothing else.
    pub fn new(id: impl Into<String>) -> Self {
        Self { id: id.into(), label: None, metadata: Value::Null }
    }
}

/// Terms of a proposal, fixed at its creation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Terms {
    /// Subject of the vote.
    pub kind: ProposalKind,
    /// Question that the voters answer.
    pub title: String,
    /// Further explanation of the question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Options to vote for; the tie breaker `first` prefers the earlier one.
    pub options: Vec<ProposalOption>,
    /// Number of votes that an option needs to win.
    pub rule: Rule,
    /// Number of votes that suffices at the deadline; absent: the votes of the whole electorate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quorum: Option<u32>,
    /// True if the proposal is counted as soon as the quorum is reached.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub close_at_quorum: bool,
    /// Method that chooses between tied options.
    pub tie_breaker: TieBreaker,
    /// True if the daemon enforces the decision.
    pub binding: bool,
    /// Role that an election gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// Message that an assignment gives to the winner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Seq>,
    /// Gate that an approval opens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<String>,
    /// Voters whose votes the proposal waits for.
    pub electorate: Vec<Sender>,
    /// Option that takes effect if the proposal expires undecided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
}

/// State of a proposal; every state except `Active` is final.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum ProposalState {
    /// Voters may cast and change their votes.
    Active,
    /// The votes were counted.
    Resolved {
        /// Result of the count.
        #[serde(flatten)]
        verdict: VoteOutcome,
        /// Action that the daemon took because of the result.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        effect: Option<String>,
    },
    /// The deadline passed without a decision.
    Expired {
        /// Option that takes effect instead of a winner.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fallback: Option<String>,
        /// Action that the daemon took because of the fallback.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        effect: Option<String>,
    },
    /// The proposal was withdrawn.
    Cancelled {
        /// Caller that cancelled the proposal.
        by: Sender,
        /// Reason for the cancellation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
}

/// Result of counting the votes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "result", rename_all = "snake_case")]
#[schemars(rename = "Verdict")]
pub enum VoteOutcome {
    /// One option won the vote.
    Winner {
        /// Id of the winning option.
        winner: String,
    },
    /// No option won, so nothing is binding.
    NoDecision,
}

/// One vote; each voter has one and may change it while the proposal is active.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ballot {
    /// Author of the vote.
    pub voter: Sender,
    /// Id of the chosen option.
    pub choice: String,
    /// Reason for the choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Time of the vote.
    pub at: Millis,
}

/// A proposal with its votes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Proposal {
    /// Number of the proposal in its instance.
    pub id: ProposalId,
    /// Run in which the proposal was made.
    pub run: RunId,
    /// Creator of the proposal.
    pub created_by: Sender,
    /// Time of creation.
    pub created: Millis,
    /// Time at which voting ends.
    pub deadline: Millis,
    /// Time of the decision, expiry or cancellation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Millis>,
    /// Event that ended the proposal; absent for a proposal that an older version resolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_by: Option<ResolvedBy>,
    /// Number of messages in the chain that led to the proposal.
    pub hops: u32,
    /// State of the vote. It is read before the terms, which have the fallback as well.
    #[serde(flatten, serialize_with = "serialize_state_beside_terms")]
    pub state: ProposalState,
    /// Terms that were fixed at creation.
    #[serde(flatten)]
    pub terms: Terms,
    /// Votes cast so far, oldest first.
    pub ballots: Vec<Ballot>,
}

/// Writes the state without its fallback, which is that of the terms: a key may be in an object only once.
fn serialize_state_beside_terms<S: Serializer>(
    state: &ProposalState,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match state {
        ProposalState::Expired { effect, .. } => {
            ProposalState::Expired { fallback: None, effect: effect.clone() }.serialize(serializer)
        }
        state => state.serialize(serializer),
    }
}

impl ProposalState {
    /// Returns the name of the state, as stored and shown.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Resolved { .. } => "resolved",
            Self::Expired { .. } => "expired",
            Self::Cancelled { .. } => "cancelled",
        }
    }

    /// Returns the option in effect: the winner, or the fallback of an expired proposal.
    pub fn decided_option(&self) -> Option<&str> {
        match self {
            Self::Resolved { verdict: VoteOutcome::Winner { winner }, .. } => Some(winner),
            Self::Expired { fallback, .. } => fallback.as_deref(),
            Self::Resolved { verdict: VoteOutcome::NoDecision, .. }
            | Self::Active
            | Self::Cancelled { .. } => None,
        }
    }

    /// Returns the action that the daemon took because of the result.
    pub fn effect(&self) -> Option<&str> {
        match self {
            Self::Resolved { effect, .. } | Self::Expired { effect, .. } => effect.as_deref(),
            Self::Active | Self::Cancelled { .. } => None,
        }
    }
}

impl fmt::Display for ProposalState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Active => f.write_str("active"),
            Self::Resolved { verdict, .. } => write!(f, "resolved: {verdict}"),
            Self::Expired { fallback: Some(held), .. } => write!(f, "expired: {held} (fallback)"),
            Self::Expired { fallback: None, .. } => f.write_str("expired"),
            Self::Cancelled { by, why: Some(why) } => write!(f, "cancelled by {by}: {why}"),
            Self::Cancelled { by, why: None } => write!(f, "cancelled by {by}"),
        }
    }
}

impl fmt::Display for VoteOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Winner { winner } => f.write_str(winner),
            Self::NoDecision => f.write_str("no_decision"),
        }
    }
}

impl Proposal {
    /// Returns the number of votes for each option, in the order of the options. A vote that only breaks a tie is not
    /// counted.
    pub fn vote_counts(&self) -> Vec<(&str, u32)> {
        let counted = |ballot: &&Ballot| self.counts_vote_of(&ballot.voter);
        let votes = |id: &str| {
            let for_it = self.ballots.iter().filter(counted).filter(|ballot| ballot.choice == id);
            u32::try_from(for_it.count()).unwrap_or(u32::MAX)
        };
        self.terms.options.iter().map(|option| (option.id.as_str(), votes(&option.id))).collect()
    }

    /// Returns true if the vote of `voter` is counted: a vote of the electorate or of the user, who may always vote.
    /// A client that may vote has the same right as a person.
    pub fn counts_vote_of(&self, voter: &Sender) -> bool {
        match voter {
            Sender::User => true,
            Sender::Client(_) => !self.breaks_ties(voter),
            Sender::Agent(_) | Sender::System => self.terms.electorate.contains(voter),
        }
    }

    /// Returns true if `voter` may vote in its own right: the electorate, the user, and the creator that breaks a
    /// tie.
    pub fn may_vote(&self, voter: &Sender) -> bool {
        let is_asked = *voter == Sender::User || self.terms.electorate.contains(voter);
        is_asked || self.breaks_ties(voter)
    }

    fn breaks_ties(&self, voter: &Sender) -> bool {
        self.terms.tie_breaker == TieBreaker::CreatorDecides && *voter == self.created_by
    }

    /// Returns the members of the electorate that have not voted.
    pub fn missing_voters(&self) -> Vec<&Sender> {
        let voted = |voter: &Sender| self.ballots.iter().any(|ballot| ballot.voter == *voter);
        self.terms.electorate.iter().filter(|voter| !voted(voter)).collect()
    }

    /// Returns true if no agent can decide the proposal now: every missing voter is a person, or all have voted and a
    /// person created the proposal and breaks the tie.
    pub fn waits_only_for_people(&self) -> bool {
        let is_agent = |who: &Sender| matches!(who, Sender::Agent(_) | Sender::System);
        match self.missing_voters().as_slice() {
            [] => !is_agent(&self.created_by),
            missing => !missing.iter().any(|who| is_agent(who)),
        }
    }

    /// Returns the vote of one voter.
    pub fn ballot_of(&self, voter: &Sender) -> Option<&Ballot> {
        self.ballots.iter().find(|ballot| ballot.voter == *voter)
    }

    /// Returns the agents in the electorate.
    pub fn voting_agents(&self) -> impl Iterator<Item = &AgentName> {
        self.terms.electorate.iter().filter_map(|voter| match voter {
            Sender::Agent(name) => Some(name),
            Sender::User | Sender::System | Sender::Client(_) => None,
        })
    }

    /// Returns the channel's notice about the current state.
    pub fn notice_text(&self) -> String {
        let (id, title) = (self.id, &self.terms.title);
        let effect = self.state.effect().map(|effect| format!(" ({effect})")).unwrap_or_default();
        match &self.state {
            ProposalState::Active => self.call_for_votes_text(),
            ProposalState::Resolved { verdict, .. } => {
                format!("[RESOLVED] #{id} {title}: {verdict}{effect}\n{}", self.vote_counts_text())
            }
            ProposalState::Expired { fallback: Some(fallback), .. } => {
                format!(
                    "[EXPIRED] #{id} {title}: fallback {fallback}{effect}\n{}",
                    self.vote_counts_text()
                )
            }
            ProposalState::Expired { fallback: None, .. } => {
                format!("[EXPIRED] #{id} {title}: nothing is decided\n{}", self.vote_counts_text())
            }
            ProposalState::Cancelled { .. } => format!("[CANCELLED] #{id} {title}: {}", self.state),
        }
    }

    /// Returns the notice for the creator whose vote breaks a tie.
    pub fn tie_notice_text(&self) -> String {
        let (id, title) = (self.id, &self.terms.title);
        let counts = self.vote_counts_text();
        format!("[PROPOSAL] #{id} {title}: a tie, and your vote decides it\n{counts}")
    }

    /// Returns one line about the decision, for agents that join later; none without a decision.
    pub fn decision_line(&self) -> Option<String> {
        let decided = self.state.decided_option()?;
        let binding = if self.terms.binding { ", binding" } else { "" };
        let title = one_line(&self.terms.title);
        let tail = format!(": {} ({}{binding})", one_line(decided), self.state.word());
        let max_chars = MAX_LINE_CHARS.saturating_sub(tail.chars().count() + 12);
        let title: String = title.chars().take(max_chars).collect();
        Some(format!("#{} {title}{tail}", self.id).chars().take(MAX_LINE_CHARS).collect())
    }

    fn call_for_votes_text(&self) -> String {
        let Terms { kind, title, description, options, rule, binding, fallback, .. } = &self.terms;
        let (id, deadline) = (self.id, self.deadline);
        let options = options.iter().map(|option| match &option.label {
            Some(label) => format!("{} ({label})", option.id),
            None => option.id.clone(),
        });
        let options = options.collect::<Vec<_>>().join(" | ");
        let binding = if *binding { "binding" } else { "advisory" };
        let more = description.as_ref().map(|text| format!("{text}\n")).unwrap_or_default();
        let held = fallback.as_ref().map(|id| format!(", else {id}")).unwrap_or_default();
        format!(
            "[PROPOSAL] #{id} {title}\n{more}Options: {options}\n{kind}, {rule}, {binding}; until {deadline}{held}. \
             Vote with the tool `vote`: proposal {id} and one option."
        )
    }

    fn vote_counts_text(&self) -> String {
        let counts = self.vote_counts().into_iter().map(|(id, votes)| format!("{id} {votes}"));
        let counts = counts.collect::<Vec<_>>().join(", ");
        let missing = self.missing_voters().len();
        if missing == 0 { counts } else { format!("{counts}; {missing} did not vote") }
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proposal(state: ProposalState) -> Proposal {
        let terms = Terms {
            kind: ProposalKind::Decision,
            title: "Which\ndatabase?".into(),
            description: None,
            options: vec![ProposalOption::new("sqlite"), ProposalOption::new("postgres")],
            rule: Rule::Plurality,
            quorum: None,
            close_at_quorum: false,
            tie_breaker: TieBreaker::First,
            binding: true,
            role: None,
            work: None,
            gate: None,
            electorate: ["a", "b"].map(|name| Sender::from(name.to_owned())).into(),
            fallback: Some("sqlite".into()),
        };
        let ballot = |voter: &str, choice: &str| Ballot {
            voter: Sender::from(voter.to_owned()),
            choice: choice.into(),
            reason: None,
            at: Millis::new(0),
        };
        Proposal {
            id: ProposalId::new(3),
            run: RunId::new(uuid::Uuid::nil()),
            created_by: Sender::User,
            created: Millis::new(0),
            deadline: Millis::new(600_000),
            ended: None,
            resolved_by: None,
            hops: 0,
            terms,
            state,
            ballots: vec![ballot("a", "sqlite"), ballot("stranger", "postgres")],
        }
    }

    #[test]
    fn an_option_is_a_word_or_all_there_is_to_say_of_it() {
        let read: Vec<ProposalOption> =
            serde_json::from_str(r#"["yes", {"id": "no", "label": "No", "metadata": {"n": 1}}]"#)
                .unwrap();
        assert_eq!(read[0], ProposalOption::new("yes"));
        assert_eq!((read[1].id.as_str(), read[1].label.as_deref()), ("no", Some("No")));
        assert_eq!(read[1].metadata["n"], 1);
    }

    #[test]
    fn votes_from_outside_the_electorate_are_not_counted() {
        let proposal = proposal(ProposalState::Active);
        assert_eq!(proposal.vote_counts(), [("sqlite", 1), ("postgres", 0)]);
        assert_eq!(proposal.missing_voters(), [&Sender::from("b".to_owned())]);
    }

    #[test]
    fn each_state_has_its_own_text() {
        let effect = Some("b is coordinator".to_owned());
        let told = [
            ProposalState::Active,
            ProposalState::Resolved {
                verdict: VoteOutcome::Winner { winner: "sqlite".into() },
                effect,
            },
            ProposalState::Resolved { verdict: VoteOutcome::NoDecision, effect: None },
            ProposalState::Expired { fallback: Some("sqlite".into()), effect: None },
            ProposalState::Cancelled { by: Sender::User, why: Some("too early".into()) },
        ]
        .map(|state| proposal(state).notice_text())
        .join("\n---\n");
        let expected = "\
[PROPOSAL] #3 Which
database?
Options: sqlite | postgres
decision, plurality, binding; until 1970-01-01T00:10:00.000Z, else sqlite. Vote with the tool `vote`: proposal 3 and one option.
---
[RESOLVED] #3 Which
database?: sqlite (b is coordinator)
sqlite 1, postgres 0; 1 did not vote
---
[RESOLVED] #3 Which
database?: no_decision
sqlite 1, postgres 0; 1 did not vote
---
[EXPIRED] #3 Which
database?: fallback sqlite
sqlite 1, postgres 0; 1 did not vote
---
[CANCELLED] #3 Which
database?: cancelled by user: too early";
        assert_eq!(told, expected);
    }

    #[test]
    fn a_state_on_the_wire_is_flat_and_reads_back() {
        let verdict = VoteOutcome::Winner { winner: "sqlite".into() };
        for (state, expected) in [
            (ProposalState::Active, r#"{"state":"active"}"#),
            (
                ProposalState::Resolved { verdict, effect: None },
                r#"{"state":"resolved","result":"winner","winner":"sqlite"}"#,
            ),
            (
                ProposalState::Resolved { verdict: VoteOutcome::NoDecision, effect: None },
                r#"{"state":"resolved","result":"no_decision"}"#,
            ),
            (
                ProposalState::Expired { fallback: Some("sqlite".into()), effect: None },
                r#"{"state":"expired","fallback":"sqlite"}"#,
            ),
            (
                ProposalState::Cancelled { by: Sender::User, why: None },
                r#"{"state":"cancelled","by":"user"}"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&state).unwrap(), expected);
            let whole = proposal(state);
            let wire = serde_json::to_string(&whole).unwrap();
            assert_eq!(serde_json::from_str::<Proposal>(&wire).unwrap(), whole);
            assert_eq!(wire.matches("\"fallback\"").count(), 1, "{wire}");
        }
    }

    #[test]
    fn a_decision_is_one_line_of_at_most_two_hundred_characters() {
        let decided = ProposalState::Expired { fallback: Some("sqlite".into()), effect: None };
        let mut proposal = proposal(decided);
        let line = proposal.decision_line().unwrap();
        assert_eq!(line, "#3 Which database?: sqlite (expired, binding)");
        proposal.terms.title = "很长".repeat(300);
        let line = proposal.decision_line().unwrap();
        assert!(
            line.chars().count() <= MAX_LINE_CHARS && line.ends_with("sqlite (expired, binding)")
        );
        proposal.state = ProposalState::Active;
        assert_eq!(proposal.decision_line(), None);
    }
}
