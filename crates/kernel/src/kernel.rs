//! The one object behind every door: who asks, what is true, what runs.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use agent_worker_protocol::{
    AgentName, AgentSettings, AttemptId, InstanceRef, Limits, RunId, Sender, Seq, Tag, WorkflowId,
    api::TokenView, sync,
};
use agent_worker_store::{
    AgentRow, AttemptRow, Fence, Now, RunQuery, RunRow, Store, StoreTime, WriteActor, WriteContext,
};
use agent_worker_workflow::{Documents, Workflow};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use crate::{
    approvals::presence::RunPresence,
    clock::{Clock, RandomSource},
    error::{Error, Result},
    scheduling::{Options, Scheduler},
    scheduling::{live_state::LiveState, runner::Runner, wall_clock::WallClockWatch},
};

/// A cloneable handle to the kernel. Both doors call its methods; nothing else writes.
#[derive(Clone)]
pub struct Kernel {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Clock,
    pub(crate) random: RandomSource,
    pub(crate) runner: Arc<dyn Runner>,
    pub(crate) scheduler: Scheduler,
    pub(crate) live_state: LiveState,
    pub(crate) viewers: RunPresence,
    /// Runs in which a worker waits for approval right now: a hint to look at them although somebody works.
    pub(crate) approval_waits: RunPresence,
    /// Whoever joins or leaves does so alone: what is kept for them is read, changed and written back.
    pub(crate) membership_lock: Arc<Semaphore>,
    pub(crate) wall_clock: WallClockWatch,
    run_contexts: Arc<Mutex<RunContextCache>>,
}

/// What a kernel is made of.
pub struct KernelParts {
    /// What is true.
    pub store: Arc<dyn Store>,
    /// What runs outside.
    pub runner: Arc<dyn Runner>,
    /// Time.
    pub clock: Clock,
    /// Chance.
    pub random: RandomSource,
    /// How much runs at once, and how patient it is.
    pub options: Options,
}

/// Who asks. Made by the door, from a secret or from the process on the other end; never from a body.
#[derive(Clone, Debug)]
pub enum Principal {
    /// The person whose daemon this is.
    User,
    /// One live attempt of one agent.
    Agent(Arc<AgentPrincipal>),
    /// A client, by its token: what it is called, and good for.
    Client(TokenView),
    /// Anybody.
    Anonymous,
}

/// An agent that asks, known by its live attempt.
#[derive(Clone, Debug)]
pub struct AgentPrincipal {
    /// The attempt.
    pub attempt: AttemptId,
    /// The run of the attempt.
    pub run: RunId,
    /// The agent and its epoch; every write of the attempt passes it.
    pub fence: Fence,
    /// The messages that the attempt was shown so far, each with its hops.
    pub shown: Vec<(Seq, u32)>,
    /// The highest number of the attempt's stored events.
    pub last_event: i64,
}

impl From<AttemptRow> for AgentPrincipal {
    fn from(row: AttemptRow) -> Self {
        let AttemptRow { id, fence, run, shown, last_no, .. } = row;
        Self { attempt: id, run, fence, shown, last_event: last_no }
    }
}

/// What seldom changes while a run lasts: read once, kept at hand, read again after a change.
pub(crate) struct RunContext {
    pub(crate) run: RunId,
    pub(crate) workflow: WorkflowId,
    pub(crate) instance: InstanceRef,
    pub(crate) project: String,
    pub(crate) limits: Limits,
    pub(crate) started: StoreTime,
    pub(crate) script: RunScript,
    pub(crate) agents: Vec<AgentSettings>,
    pub(crate) team: Vec<AgentName>,
}

/// The contexts at hand.
#[derive(Default)]
struct RunContextCache {
    by_run: HashMap<RunId, Arc<RunContext>>,
    /// How often one was dropped: what was being read meanwhile may be old.
    evictions: u64,
}

/// What a run is made from, as it is kept with it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RunScript {
    /// Where it was read; none for standalone agents.
    #[serde(default)]
    pub(crate) file: Option<PathBuf>,
    pub(crate) workflow: Workflow,
    pub(crate) tag: Tag,
    pub(crate) params: std::collections::BTreeMap<String, String>,
    pub(crate) cwd: PathBuf,
}

impl Kernel {
    /// The current time.
    pub fn now(&self) -> Now {
        self.clock.now(&*self.store)
    }

    /// Puts a kernel together. Nothing runs before [`Kernel::recover`].
    pub fn new(parts: KernelParts) -> Self {
        Self {
            wall_clock: WallClockWatch::from(parts.clock.saved(&*parts.store)),
            store: parts.store,
            clock: parts.clock,
            random: parts.random,
            runner: parts.runner,
            scheduler: Scheduler::new(parts.options),
            live_state: LiveState::default(),
            viewers: RunPresence::default(),
            approval_waits: RunPresence::default(),
            membership_lock: Arc::new(Semaphore::new(1)),
            run_contexts: Arc::default(),
        }
    }

    /// The `run_context` of a run.
    pub(crate) async fn run_context(&self, run: RunId) -> Result<Arc<RunContext>> {
        let drops = {
            let contexts = self.lock_run_contexts();
            if let Some(run_context) = contexts.by_run.get(&run) {
                return Ok(Arc::clone(run_context));
            }
            contexts.evictions
        };
        let row = self.store.run_get(run).await?;
        let live = row.state.is_live();
        // The instance's agents are its newest run's: those of the file, and those who joined.
        let newest = live || self.newest_run(row.workflow).await? == Some(run);
        let agents = if newest { Some(self.store.agent_list(row.workflow).await?) } else { None };
        let run_context = Arc::new(RunContext::from_row(row, agents)?);
        let mut contexts = self.lock_run_contexts();
        // The past is read again when somebody asks for it, and what may have changed while it was read is too.
        if live && contexts.evictions == drops {
            contexts.by_run.insert(run, Arc::clone(&run_context));
        }
        Ok(run_context)
    }

    /// Forgets the `run_context` of a run that is over, or has changed.
    pub(crate) fn run_context_evict(&self, run: RunId) {
        let mut contexts = self.lock_run_contexts();
        contexts.by_run.remove(&run);
        contexts.evictions += 1;
    }

    fn lock_run_contexts(&self) -> std::sync::MutexGuard<'_, RunContextCache> {
        sync::lock(&self.run_contexts)
    }

    pub(crate) async fn newest_run(&self, workflow: WorkflowId) -> Result<Option<RunId>> {
        let newest = self.store.run_list(RunQuery::OfInstance(workflow, 1)).await?;
        Ok(newest.first().map(|run| run.id))
    }
}

impl RunContext {
    fn from_row(row: RunRow, agents: Option<Vec<AgentRow>>) -> Result<Self> {
        let garbled = |what: &str, error: serde_json::Error| {
            agent_worker_store::Error::InvalidValue(format!("{what}: {error}"))
        };
        let script: RunScript =
            serde_json::from_str(&row.script).map_err(|error| garbled("run script", error))?;
        let agents: Vec<AgentSettings> = match agents {
            None => script.workflow.agents.clone(),
            Some(rows) => rows
                .iter()
                .map(|row| serde_json::from_str(&row.settings))
                .collect::<Result<_, _>>()
                .map_err(|error| garbled("agent", error))?,
        };
        let team = agents.iter().map(|agent| agent.name.clone()).collect();
        Ok(Self {
            run: row.id,
            workflow: row.workflow,
            instance: row.instance,
            project: row.project,
            limits: row.limits,
            started: row.store_started,
            script,
            agents,
            team,
        })
    }

    /// Lets pass where there are documents.
    pub(crate) fn require_documents(&self) -> Result<()> {
        match self.script.workflow.context.documents {
            Documents::File | Documents::Store => Ok(()),
            Documents::Off => {
                Err(Error::Forbidden("this workflow keeps no documents (`context` says so)"))
            }
        }
    }

    /// The settings of one of its agents.
    pub(crate) fn agent(&self, name: &AgentName) -> Result<&AgentSettings> {
        let found = self.agents.iter().find(|agent| agent.name == *name);
        found.ok_or(Error::Store(agent_worker_store::Error::NotFound("agent")))
    }
}

impl Principal {
    /// The name a message of theirs carries; nobody writes nothing.
    pub(crate) fn sender(&self) -> Result<Sender> {
        self.author().map(|who| who.sender())
    }

    /// Who did something, as a person reads it.
    pub(crate) fn display_name(&self) -> String {
        match self {
            Self::User => "the user".to_owned(),
            Self::Agent(agent) => agent.fence.agent.to_string(),
            Self::Client(token) => Sender::Client(token.name.clone()).to_string(),
            Self::Anonymous => "nobody".to_owned(),
        }
    }

    /// Who writes, for the store.
    pub(crate) fn author(&self) -> Result<WriteActor> {
        match self {
            Self::User => Ok(WriteActor::User),
            Self::Agent(agent) => Ok(WriteActor::Agent(agent.fence.clone())),
            Self::Client(token) => Ok(WriteActor::Client(token.name.clone())),
            Self::Anonymous => Err(Error::Unauthorized),
        }
    }

    /// Who writes, under a key.
    pub(crate) fn author_with_key(
        &self,
        key: Option<agent_worker_protocol::EffectKey>,
    ) -> Result<WriteContext> {
        Ok(WriteContext { actor: self.author()?, key })
    }

    /// The attempt that asks, if it is this one.
    pub(crate) fn require_own_attempt(&self, attempt: AttemptId) -> Result<&AgentPrincipal> {
        match self {
            Self::Agent(agent) if agent.attempt == attempt => Ok(agent),
            Self::Anonymous => Err(Error::Unauthorized),
            Self::User | Self::Client(_) | Self::Agent(_) => {
                Err(Error::Forbidden("an attempt is spoken for by its own worker only"))
            }
        }
    }

    /// Lets only the user pass.
    pub fn require_user(&self, what: &'static str) -> Result<()> {
        match self {
            Self::User => Ok(()),
            Self::Anonymous => Err(Error::Unauthorized),
            Self::Agent(_) | Self::Client(_) => Err(Error::Forbidden(what)),
        }
    }

    /// Lets anybody known pass.
    pub fn require_authenticated(&self) -> Result<()> {
        self.author().map(drop)
    }
}
