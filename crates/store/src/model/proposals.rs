//! Proposals on their way in, how they are decided, and questions to a person.

use std::time::Duration;

use agent_worker_protocol::{
    AgentName, Millis, PauseCause, Proposal, ProposalId, QuestionId, Role, RunId, Sender, Seq,
    Terms, VoteOutcome,
};

/// A proposal to be made. Its creator is who writes, never a field.
#[derive(Clone, Debug)]
pub struct NewProposal {
    /// What is fixed from now on.
    pub terms: Terms,
    /// How long votes are accepted.
    pub voting_period: Duration,
    /// Lists the agents that the new proposal wakes.
    pub recipients: fn(&Proposal) -> Vec<AgentName>,
    /// What follows from saying so in the channel.
    pub hop_context: HopContext,
}

/// A vote. Its voter is who writes, never a field.
#[derive(Clone, Debug)]
pub struct NewBallot {
    /// On which proposal.
    pub proposal: ProposalId,
    /// For which option.
    pub choice: String,
    /// Why.
    pub reason: Option<String>,
    /// By what right.
    pub authority: ProposalAuthority,
    /// What follows from what is said if it decides the proposal.
    pub hop_context: HopContext,
}

/// A proposal to be taken back. By whom is who writes.
#[derive(Clone, Debug)]
pub struct NewCancellation {
    /// Which.
    pub proposal: ProposalId,
    /// Why.
    pub why: Option<String>,
    /// By what right.
    pub authority: ProposalAuthority,
    /// Lists the agents that the end wakes.
    pub recipients: EndRecipients,
    /// What follows from saying so in the channel.
    pub hop_context: HopContext,
}

/// By what right somebody votes on a proposal, or takes it back. The user has both by being the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProposalAuthority {
    /// Their own: as one of the electorate, or as its creator.
    Own,
    /// A person's, who may vote on everything and take everything back.
    Person,
}

/// What follows from a message of the system that an attempt caused.
#[derive(Clone, Debug, Default)]
pub struct HopContext {
    /// How many messages led to it.
    pub hops: u32,
    /// The run pauses in the same step, because these are too many.
    pub pause: Option<PauseCause>,
}

/// How a proposal is decided: a pure function, called inside the store's transaction, and the chance it may use.
#[derive(Clone, Copy, Debug)]
pub struct TallyRule {
    /// Counts.
    pub tally: fn(&Proposal, u64, DeadlineStatus) -> ProposalStep,
    /// A number nobody could guess, for ties that chance decides.
    pub tie_break_seed: u64,
    /// Lists the agents that the end wakes.
    pub recipients: EndRecipients,
    /// Words the change that a binding decision has made.
    pub effect_text: fn(&BindingEffect) -> String,
}

/// Lists the agents that the end of a proposal wakes: a pure function of the kernel. Its arguments are the proposal, the
/// sender whose vote or cancellation ended it, and the agent that was assigned a message it has been shown before.
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

/// Whether a proposal's deadline has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadlineStatus {
    /// Votes are accepted.
    Ahead,
    /// The time is up.
    Passed,
}

/// What was decided about a proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProposalStep {
    /// Votes are taken.
    Stay,
    /// Everybody voted, and its creator's vote is wanted to decide a tie.
    Tied,
    /// The votes are counted.
    Resolve(VoteOutcome),
    /// Its time is up.
    Expire,
}

/// Which proposals to list, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProposalQuery {
    /// Those votes are taken on.
    Active,
    /// All of one run.
    OfRun(RunId),
    /// All there ever were.
    All,
    /// The newest of one run that decided something, at most so many.
    Decided(RunId, u32),
}

/// Something an agent asks a person. Who asks is who writes.
#[derive(Clone, Debug)]
pub struct NewQuestion {
    /// What.
    pub question: String,
    /// What can be answered; empty: anything.
    pub options: Vec<String>,
    /// Words the message that asks it.
    pub text: fn(QuestionId, &NewQuestion) -> String,
    /// What follows from saying so in the channel.
    pub hop_context: HopContext,
}

/// A question as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuestionRow {
    /// Its number.
    pub id: QuestionId,
    /// In which run it was asked.
    pub run: RunId,
    /// By whom.
    pub agent: AgentName,
    /// What.
    pub question: String,
    /// What can be answered; empty: anything.
    pub options: Vec<String>,
    /// When it was asked.
    pub asked: Millis,
    /// The answer, once there is one.
    pub answer: Option<String>,
}

/// Which questions to list, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuestionQuery {
    /// Those of the live run that wait for an answer.
    Open,
    /// All there ever were.
    All,
}
