//! New proposals, the rules that decide them, and questions to a person.

use std::time::Duration;

use agent_worker_protocol::{
    AgentName, Millis, PauseCause, Proposal, ProposalId, QuestionId, ResolvedBy, Role, RunId,
    Sender, Seq, Terms, VoteOutcome,
};

use super::ListRange;

/// A proposal to be made. Its creator is the author of the write, never a field.
#[derive(Clone, Debug)]
pub struct NewProposal {
    /// Terms, which do not change any more.
    pub terms: Terms,
    /// Period in which votes are accepted.
    pub voting_period: Duration,
    /// Lists the agents that the new proposal wakes.
    pub recipients: fn(&Proposal) -> Vec<AgentName>,
    /// Hops and pause of the message that announces the proposal.
    pub hop_context: HopContext,
}

/// A vote. The voter is the author of the write, never a field.
#[derive(Clone, Debug)]
pub struct NewBallot {
    /// Number of the proposal.
    pub proposal: ProposalId,
    /// Chosen option of the proposal.
    pub choice: String,
    /// Reason of the vote, if given.
    pub reason: Option<String>,
    /// Right by which the author votes.
    pub authority: ProposalAuthority,
    /// Hops and pause of the message that announces a decision.
    pub hop_context: HopContext,
}

/// The cancellation of a proposal. The author of the write cancels it.
#[derive(Clone, Debug)]
pub struct NewCancellation {
    /// Number of the proposal.
    pub proposal: ProposalId,
    /// Reason of the cancellation, if given.
    pub why: Option<String>,
    /// Right by which the author cancels.
    pub authority: ProposalAuthority,
    /// Lists the agents that the end wakes.
    pub recipients: EndRecipients,
    /// Hops and pause of the message that announces the cancellation.
    pub hop_context: HopContext,
}

/// The right by which an author votes on a proposal or cancels it. The user has both rights in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProposalAuthority {
    /// The author's own right: as a member of the electorate, or as the creator.
    Own,
    /// The right of a person, who may vote on every proposal and cancel every one.
    Person,
}

/// Hops and pause of a system message that an attempt caused.
#[derive(Clone, Debug, Default)]
pub struct HopContext {
    /// Number of messages in the chain that led to this one.
    pub hops: u32,
    /// Pauses the run in the same transaction, because the hops exceed the limit.
    pub pause: Option<PauseCause>,
}

/// The rule that decides a proposal: pure functions, called inside the store's transaction, and a seed for ties.
#[derive(Clone, Copy, Debug)]
pub struct TallyRule {
    /// Counts the votes and decides the next step.
    pub tally: fn(&Proposal, u64, DeadlineStatus) -> ProposalStep,
    /// An unpredictable number, for ties that are decided at random.
    pub tie_break_seed: u64,
    /// Lists the agents that the end wakes.
    pub recipients: EndRecipients,
    /// Words the change that a binding decision has made.
    pub effect_text: fn(&BindingEffect) -> String,
}

/// Lists the agents that the end of a proposal wakes: a pure function of the kernel. Its arguments are the proposal,
/// the sender whose vote or cancellation ended it, and the agent that was assigned a message it has been shown
/// before.
pub type EndRecipients = fn(&Proposal, Option<&Sender>, Option<&AgentName>) -> Vec<AgentName>;

/// The change that a binding decision has made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindingEffect {
    /// A gate is open.
    GateOpened(String),
    /// The vote did not open the gate.
    GateUnchanged(String),
    /// The option that won is no agent of the run: nothing was changed.
    NoSuchAgent(String),
    /// An agent has a role.
    RoleAssigned(AgentName, Role),
    /// A message is the work of one agent.
    MessageAssigned(Seq, AgentName),
    /// The message to be assigned does not exist any more.
    MessageMissing(Seq),
}

/// The state of a proposal's deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadlineStatus {
    /// The deadline has not passed; votes are accepted.
    Ahead,
    /// The deadline has passed.
    Passed,
}

/// The decision about a proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProposalStep {
    /// The proposal accepts further votes.
    Stay,
    /// All voters have voted, and the creator's vote must decide a tie.
    Tied,
    /// The votes decide the proposal.
    Resolve(VoteOutcome, ResolvedBy),
    /// The proposal expires at its deadline.
    Expire,
}

/// Selects the proposals to list, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProposalQuery {
    /// Proposals that accept votes.
    Active,
    /// All proposals of one run.
    OfRun(RunId),
    /// Proposals of the instance, active or not.
    All(ListRange<ProposalId>),
    /// The newest decided proposals of one run, at most this many.
    Decided(RunId, u32),
}

/// A question of an agent to a person. The author of the write asks it.
#[derive(Clone, Debug)]
pub struct NewQuestion {
    /// Text of the question.
    pub question: String,
    /// Allowed answers; empty if any answer is allowed.
    pub options: Vec<String>,
    /// Words the message that asks the question.
    pub text: fn(QuestionId, &NewQuestion) -> String,
    /// Hops and pause of the message that asks the question.
    pub hop_context: HopContext,
}

/// A question as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuestionRow {
    /// Number of the question.
    pub id: QuestionId,
    /// Run of the question.
    pub run: RunId,
    /// Agent that asked.
    pub agent: AgentName,
    /// Text of the question.
    pub question: String,
    /// Allowed answers; empty if any answer is allowed.
    pub options: Vec<String>,
    /// Time of the question.
    pub asked: Millis,
    /// Answer to the question, once there is one.
    pub answer: Option<String>,
}

/// Selects the questions to list, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuestionQuery {
    /// Questions of the live run that wait for an answer.
    Open,
    /// All questions of the instance.
    All,
}
