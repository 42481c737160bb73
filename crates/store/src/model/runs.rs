//! Instances, runs and the agents in them.

use agent_worker_protocol::{
    AgentName, AttemptId, InstanceRef, Limits, Millis, Outcome, PauseCause, Position, Receipt,
    Role, RunId, RunMode, RunState, Tag, Usage, WorkflowId, WorkflowName, api::RunError,
};

use super::{Approval, QuestionRow};
use crate::time::StoreTime;

/// One instance of a workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Its row.
    pub id: WorkflowId,
    /// The folder its file lies in.
    pub project: String,
    /// What it is called there.
    pub instance: InstanceRef,
    /// Its live run.
    pub live: Option<RunId>,
    /// Its newest run, live or not.
    pub last: Option<RunId>,
}

/// What a run is made from.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// Made by the caller, who has the randomness.
    pub id: RunId,
    /// `run` or `start`.
    pub mode: RunMode,
    /// Where it stops by itself.
    pub limits: Limits,
    /// The file as it was read, parameters and folders, as JSON; opaque here.
    pub script: String,
    /// Who takes part; whoever took part before and is not named does not any more.
    pub agents: Vec<NewAgent>,
    /// Who of them has a role from the start.
    pub roles: Vec<(Role, AgentName)>,
    /// What becomes of its rows.
    pub retention: Retention,
}

/// One participant of a new run.
#[derive(Clone, Debug)]
pub struct NewAgent {
    /// Its name.
    pub name: AgentName,
    /// Its settings as JSON; opaque here.
    pub settings: String,
}

/// How long an instance's rows are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    /// Until a person deletes them.
    Always,
    /// Until its run is over (`provider: memory`).
    WhileLive,
}

/// A run as stored.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRow {
    /// The run.
    pub id: RunId,
    /// Its instance.
    pub workflow: WorkflowId,
    /// What the instance is called.
    pub instance: InstanceRef,
    /// The folder its file lies in.
    pub project: String,
    /// `run` or `start`.
    pub mode: RunMode,
    /// Where it stands.
    pub state: RunState,
    /// Since when.
    pub since: Millis,
    /// What made it fail beside its agents' work.
    pub error: Option<RunError>,
    /// Where it stops by itself.
    pub limits: Limits,
    /// What it was made from.
    pub script: String,
    /// What becomes of its rows.
    pub retention: Retention,
    /// When it began, on the wall clock.
    pub started: Millis,
    /// When it ended, on the wall clock.
    pub ended: Option<Millis>,
    /// When it began, in store time.
    pub store_started: StoreTime,
    /// When it ended, in store time.
    pub store_ended: Option<StoreTime>,
    /// Attempts that ended ok or failed.
    pub turns: u32,
    /// Messages written in it.
    pub messages: u32,
    /// What it used.
    pub usage: Usage,
}

/// A run and the rows its view is derived from, read in one transaction.
#[derive(Clone, Debug)]
pub struct RunSnapshot {
    /// The run.
    pub run: RunRow,
    /// The newest event of its instance: the snapshot includes its effects and no later ones.
    pub position: Position,
    /// Its deliveries that are dead or dropped.
    pub failures: Vec<Receipt>,
    /// Its agents; empty if the instance has a newer run.
    pub agents: Vec<AgentRow>,
    /// How many proposals of the instance are open.
    pub proposals: u32,
    /// Open questions of the instance.
    pub questions: Vec<QuestionRow>,
    /// Open approval requests of the instance.
    pub approvals: Vec<Approval>,
}

/// Which instances to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstanceQuery {
    /// Every one.
    All,
    /// Those with a live run.
    Live,
    /// Those with this name and tag, one for each project that has one.
    Named(InstanceRef),
    /// Those with this name, whatever their tag.
    OfWorkflow(WorkflowName),
    /// Those with this tag, whatever their name.
    Tagged(Tag),
    /// Those in whose live, else last, run this agent takes part.
    WithAgent(AgentName),
}

/// What keeps messages from being acted upon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunBlockers {
    /// Where the run stands.
    pub state: RunState,
    /// Its agents that are not woken any more.
    pub stopped: Vec<AgentName>,
}

/// Which runs to list, newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunQuery {
    /// Those that are not over.
    Live,
    /// All of one instance, at most so many.
    OfInstance(WorkflowId, u32),
    /// The newest of all instances, at most so many.
    Newest(u32),
}

/// An agent of a run as stored, with what its state word is derived from.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentRow {
    /// Its name.
    pub name: AgentName,
    /// Its settings as JSON.
    pub settings: String,
    /// Why it is not woken any more in this run.
    pub stopped: Option<String>,
    /// When it joined the run, or was last stopped or resumed.
    pub since: Millis,
    /// When it may next be leased, and why not before.
    pub not_before: Option<NotBefore>,
    /// Its live attempt.
    pub live: Option<LiveAttempt>,
    /// Waking mail that is pending.
    pub waiting: u32,
    /// Turns it took in this run.
    pub turns: u32,
    /// Messages it wrote in this run.
    pub messages: u32,
    /// What it used in this run.
    pub usage: Usage,
}

/// A live attempt, as its agent's row tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveAttempt {
    /// Which.
    pub attempt: AttemptId,
    /// When it was leased.
    pub since: Millis,
}

/// When an agent may next be leased.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotBefore {
    /// When.
    pub at: StoreTime,
    /// What it waits for.
    pub wait: WaitReason,
    /// What happened, for people.
    pub why: String,
}

/// What an agent that may not be leased yet waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// The pause after a failure.
    BackOff,
    /// The instant its provider named.
    RateLimited,
}

/// An agent that has waking mail and no live attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadyAgent {
    /// Who.
    pub name: AgentName,
    /// When it may be leased, if not now.
    pub not_before: Option<StoreTime>,
}

/// What a decision about a run rests on.
#[derive(Clone, Debug, PartialEq)]
pub struct RunFacts {
    /// Where it stands.
    pub state: RunState,
    /// `run` or `start`.
    pub mode: RunMode,
    /// Where it stops by itself.
    pub limits: Limits,
    /// When it began.
    pub started: StoreTime,
    /// Waking deliveries, pending or leased, of agents that are not stopped.
    pub waking: u32,
    /// Of these, those whose agent waits for a later instant: the earliest such instant when all of them do.
    pub all_wait_until: Option<StoreTime>,
    /// Pending deliveries of agents that are stopped.
    pub stranded: u32,
    /// Attempts that live.
    pub attempts: u32,
    /// Turns taken.
    pub turns: u32,
    /// Those that ended in the last 24 hours, counted as far as the limit goes.
    pub turns_today: u32,
    /// Dead letters of this run.
    pub dead: u32,
    /// Deliveries of this run that were given up.
    pub dropped: u32,
    /// Proposals that are voted on.
    pub proposals: u32,
    /// Questions that wait for a person's answer.
    pub questions: u32,
    /// Attempts that live and wait for a person's approval.
    pub awaiting_approval: u32,
    /// Waking deliveries, pending or leased, of their agents.
    pub awaiting_approval_deliveries: u32,
}

/// What was decided about a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunStep {
    /// Nothing changes.
    Stay,
    /// Nothing more is leased, for this reason; live attempts finish.
    Pause(PauseCause),
    /// Goes on.
    Resume,
    /// Is over. What is open is dropped for this reason; live attempts are shut out as stopped.
    End {
        /// How it ended.
        outcome: Outcome,
        /// The reason open deliveries are given, and the event's cause.
        why: String,
        /// What made it fail beside its agents' work.
        error: Option<RunError>,
    },
}

/// A pure decision about a run, called inside the store's transaction, perhaps more than once.
pub type RunRule = Box<dyn Fn(&RunFacts) -> RunStep + Send>;
