//! Instances, runs and the agents in them.

use std::time::Duration;

use agent_worker_protocol::{
    AgentName, AttemptId, InstanceRef, Limits, Millis, Outcome, PauseCause, Position, Receipt,
    Role, RunId, RunMode, RunState, Seq, Tag, Usage, VerdictOutcome, WorkflowId, WorkflowName,
    api::{AgentFailure, RunError, TeamVerdict, UnheardMention},
};
use serde_json::Value;
use strum::{EnumString, IntoStaticStr};

use super::{Approval, ListRange, QuestionRow, RunKey, SpendFacts};
use crate::time::StoreTime;

/// One instance of a workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Id of the instance.
    pub id: WorkflowId,
    /// Folder of its workflow file.
    pub project: String,
    /// Name and tag of the instance in that folder.
    pub instance: InstanceRef,
    /// Live run of the instance, if there is one.
    pub live: Option<RunId>,
    /// Newest run of the instance, live or not.
    pub last: Option<RunId>,
}

/// The parameters of a new run.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// Random id, made by the caller.
    pub id: RunId,
    /// Mode `run` or `start`.
    pub mode: RunMode,
    /// Limits of the run.
    pub limits: Limits,
    /// The file as it was read, parameters and folders, as JSON; opaque for the store.
    pub script: String,
    /// Participants of the run; a former participant that is not named takes no part any more.
    pub agents: Vec<NewAgent>,
    /// Roles that participants have from the start.
    pub roles: Vec<(Role, AgentName)>,
    /// Retention of its rows.
    pub retention: Retention,
}

/// One participant of a new run.
#[derive(Clone, Debug)]
pub struct NewAgent {
    /// Name of the agent.
    pub name: AgentName,
    /// Settings of the agent as JSON; opaque for the store.
    pub settings: String,
}

/// The retention of an instance's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Retention {
    /// Keeps the rows until a person deletes them.
    Always,
    /// Keeps the rows until the run is over (`provider: memory`).
    WhileLive,
}

/// The time that counts for the wall limit of a run: the time in which the run can work, or a live attempt of a run at
/// another limit works ([`RunFacts::counts_time`]). The kernel takes out the time in which no daemon ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunClock {
    /// Time that has counted until `since`.
    pub counted: Duration,
    /// Start of the time that counts now; none while no time counts.
    pub since: Option<StoreTime>,
}

impl RunClock {
    /// Returns the time that has counted until now.
    pub fn elapsed(&self, now: StoreTime) -> Duration {
        self.counted + self.since.map_or(Duration::ZERO, |since| now.since(since))
    }

    /// Returns the instant at which `span` will have counted, if time counts now.
    pub fn reaches(&self, span: Duration) -> Option<StoreTime> {
        Some(self.since?.plus(span.saturating_sub(self.counted)))
    }
}

/// A switch of the time that counts for the wall limit of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunClockSwitch {
    /// Time counts from now on.
    Start,
    /// No time counts until the clock is started.
    Stop,
}

/// A run as stored.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRow {
    /// Id of the run.
    pub id: RunId,
    /// Instance of the run.
    pub workflow: WorkflowId,
    /// Name and tag of the instance.
    pub instance: InstanceRef,
    /// Folder of its workflow file.
    pub project: String,
    /// Mode `run` or `start`.
    pub mode: RunMode,
    /// State of the run.
    pub state: RunState,
    /// Time of the last change of the state.
    pub since: Millis,
    /// Error that made the run fail, other than its agents' work.
    pub error: Option<RunError>,
    /// Limits of the run.
    pub limits: Limits,
    /// The file, parameters and folders that the run was made from.
    pub script: String,
    /// Retention of its rows.
    pub retention: Retention,
    /// Start of the run, on the wall clock.
    pub started: Millis,
    /// End of the run, on the wall clock.
    pub ended: Option<Millis>,
    /// Start of the run, in store time.
    pub store_started: StoreTime,
    /// End of the run, in store time.
    pub store_ended: Option<StoreTime>,
    /// Time of the last change of the state, in store time.
    pub store_since: StoreTime,
    /// Time that counts for the wall limit.
    pub clock: RunClock,
    /// Number of attempts that ended ok or failed.
    pub turns: u32,
    /// Number of messages written in the run.
    pub messages: u32,
    /// Usage of the run.
    pub usage: Usage,
}

/// A run and the rows from which its view is derived, read in one transaction.
#[derive(Clone, Debug)]
pub struct RunSnapshot {
    /// Row of the run.
    pub run: RunRow,
    /// The newest event of its instance: the snapshot includes the effects of this event and of no later one.
    pub position: Position,
    /// Deliveries of the run that are dead or dropped.
    pub failures: Vec<Receipt>,
    /// Last failure of each agent that failed in the run.
    pub last_failures: Vec<AgentFailure>,
    /// Mentions in answers of the run whose agent was not messaged.
    pub unheard: Vec<UnheardMention>,
    /// Agents of the run; empty if the instance has a newer run.
    pub agents: Vec<AgentRow>,
    /// Number of open proposals of the instance.
    pub proposals: u32,
    /// Open questions of the instance.
    pub questions: Vec<QuestionRow>,
    /// Open approval requests of the instance.
    pub approvals: Vec<Approval>,
    /// Newest answer of each agent in the run.
    pub answers: Vec<(AgentName, Seq)>,
    /// Verdict of the team about the run.
    pub verdict: Option<TeamVerdict>,
}

/// A verdict to be set by an agent. Its author is the author of the write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewVerdict {
    /// Outcome according to the team.
    pub outcome: VerdictOutcome,
    /// Result of the run in words.
    pub summary: String,
}

/// Selects the instances to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstanceQuery {
    /// All instances of the store.
    All,
    /// Instances with a live run.
    Live,
    /// Instances with this name and tag, one for each project that has one.
    Named(InstanceRef),
    /// Instances with this name and any tag.
    OfWorkflow(WorkflowName),
    /// Instances with this tag and any name.
    Tagged(Tag),
    /// Instances with this agent in their live run, or in their last run if none is live.
    WithAgent(AgentName),
}

/// The reasons that keep the messages of a run from being acted upon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunBlockers {
    /// State of the run.
    pub state: RunState,
    /// Agents of the run that are stopped.
    pub stopped: Vec<AgentName>,
}

/// Selects the runs to list, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunQuery {
    /// Runs that are not over.
    Live,
    /// Runs of one instance, at most this many.
    OfInstance(WorkflowId, u32),
    /// Runs that are over: of these instances, or of all.
    Ended(Option<Vec<WorkflowId>>, ListRange<RunKey>),
    /// Runs that ended at this time or later.
    EndedSince(StoreTime),
}

/// An agent of a run as stored, with the facts from which its state word is derived.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentRow {
    /// Name of the agent.
    pub name: AgentName,
    /// Place of the agent in the list of the run's agents.
    pub place: i64,
    /// Settings of the agent as JSON.
    pub settings: String,
    /// Reason why the agent is stopped in this run, if it is.
    pub stopped: Option<String>,
    /// Time at which it joined the run, or was last stopped or resumed.
    pub since: Millis,
    /// Time before which it is not leased, and the reason.
    pub not_before: Option<NotBefore>,
    /// Live attempt of the agent, if there is one.
    pub live: Option<LiveAttempt>,
    /// Number of pending waking deliveries.
    pub waiting: u32,
    /// Number of turns in this run.
    pub turns: u32,
    /// Number of messages that it wrote in this run.
    pub messages: u32,
    /// Usage of the agent in this run.
    pub usage: Usage,
    /// Conversation that its last turn reported, in the format of its backend.
    pub session: Option<Value>,
}

/// A live attempt, as its agent's row records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveAttempt {
    /// Id of the attempt.
    pub attempt: AttemptId,
    /// Time of the lease.
    pub since: Millis,
}

/// The time before which an agent is not leased.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotBefore {
    /// Earliest time of the next lease.
    pub at: StoreTime,
    /// Kind of the wait.
    pub wait: WaitReason,
    /// Description of the cause, for people.
    pub why: String,
}

/// The reason why an agent may not be leased yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum WaitReason {
    /// The backoff after a failure.
    BackOff,
    /// The instant that the agent's provider named.
    #[strum(serialize = "park")]
    RateLimited,
}

/// An agent that has waking mail and no live attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadyAgent {
    /// Name of the agent.
    pub name: AgentName,
    /// Earliest time of a lease, if that is in the future.
    pub not_before: Option<StoreTime>,
}

/// The facts for a decision about a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunFacts {
    /// State of the run.
    pub state: RunState,
    /// Mode `run` or `start`.
    pub mode: RunMode,
    /// Limits of the run.
    pub limits: Limits,
    /// Time of the last change of the state.
    pub since: StoreTime,
    /// Time that counts for the wall limit.
    pub clock: RunClock,
    /// Waking deliveries, pending or leased, of agents that are not stopped.
    pub waking: u32,
    /// Earliest instant that an agent with such deliveries waits for; none if one of these agents is free now.
    pub all_wait_until: Option<StoreTime>,
    /// Pending deliveries of agents that are stopped.
    pub stranded: u32,
    /// Number of live attempts.
    pub attempts: u32,
    /// Number of turns taken.
    pub turns: u32,
    /// Turns that ended in the last 24 hours, counted up to the limit.
    pub turns_today: u32,
    /// Time at which a `start` whose turns fill the limit has a turn again.
    pub turn_expires: Option<StoreTime>,
    /// What counts for the limits of cost and tokens of a team; standalone agents have their own.
    pub spend: SpendFacts,
    /// Dead letters of this run.
    pub dead: u32,
    /// Deliveries of this run that were dropped.
    pub dropped: u32,
    /// Proposals that are voted on.
    pub proposals: u32,
    /// Proposals among them that only people can decide now.
    pub person_votes: u32,
    /// Questions that wait for a person's answer.
    pub questions: u32,
    /// Live attempts that wait for a person's approval.
    pub awaiting_approval: u32,
    /// Waking deliveries, pending or leased, of the agents of those attempts.
    pub awaiting_approval_deliveries: u32,
    /// Verdict of the team.
    pub verdict: Option<StoredVerdict>,
}

/// The verdict of a team as a settlement finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredVerdict {
    /// The verdict that the team set.
    Intact(TeamVerdict),
    /// A row that does not match its checksum. It counts as `failed`, because a verdict never becomes better.
    Damaged,
}

impl RunFacts {
    /// Returns true if no agent is busy or has work, and the run waits for no person.
    pub fn is_idle(&self) -> bool {
        self.is_quiet() && !self.waits_for_people()
    }

    /// Returns true if time counts for the wall limit while the run is in `state`.
    pub fn counts_time(&self, state: &RunState) -> bool {
        // A live attempt that waits for a person does not work.
        state.can_work() && !self.can_only_people_act()
            || state.refuses_work() && self.attempts > self.awaiting_approval
    }

    /// Returns true if the run waits only for answers of a person. A run that waits for votes does not: a vote ends at
    /// its deadline.
    pub fn waits_only_for_people(&self) -> bool {
        self.is_quiet() && self.waits_for_people()
    }

    /// Returns true if the run waits only for answers and votes of people. This time does not count for the wall limit.
    fn can_only_people_act(&self) -> bool {
        self.has_no_agent_work()
            && self.proposals == self.person_votes
            && (self.waits_for_people() || self.person_votes > 0)
    }

    fn waits_for_people(&self) -> bool {
        self.questions > 0 || self.awaiting_approval > 0
    }

    /// Returns true if no agent has any work except waiting for a person, and no vote can create some.
    fn is_quiet(&self) -> bool {
        self.has_no_agent_work() && self.proposals == 0
    }

    fn has_no_agent_work(&self) -> bool {
        self.waking == self.awaiting_approval_deliveries && self.attempts == self.awaiting_approval
    }
}

/// The decision about a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunStep {
    /// Changes nothing in the run.
    Stay,
    /// Starts no more leases, for this reason; live attempts finish.
    Pause(PauseCause),
    /// Continues a paused run.
    Resume,
    /// Ends the run. Open deliveries are dropped for this reason; live attempts are fenced off as stopped.
    End {
        /// Outcome of the run.
        outcome: Outcome,
        /// Reason for the open deliveries, and the cause of the event.
        why: String,
        /// Error that made the run fail, other than its agents' work.
        error: Option<RunError>,
    },
}

/// A pure decision about a run, called inside the store's transaction, perhaps more than once.
pub type RunRule = Box<dyn Fn(&RunFacts) -> RunStep + Send>;
