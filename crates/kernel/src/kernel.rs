//! The kernel: the one object that every interface calls.

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::{Arc, Mutex},
};

use agent_worker_protocol::{
    AgentName, AgentSettings, AttemptId, InstanceRef, Limits, MockTool, RunId, SecretFilter,
    Sender, Seq, Tag, WorkflowId, api::TokenView, sync,
};
use agent_worker_store::{
    AgentRow, AttemptRow, Fence, Now, RunQuery, RunRow, Store, WriteActor, WriteContext,
};
use agent_worker_workflow::{AnswerHandling, Documents, Provider, Workflow};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use crate::{
    approvals::presence::RunPresence,
    clock::{Clock, RandomSource},
    error::{Error, Result},
    scheduling::{Options, Scheduler},
    scheduling::{hold::Hold, live_state::LiveState, runner::Runner, wall_clock::WallClockWatch},
};

/// A cloneable handle to the kernel. HTTP and MCP call its methods; nothing else writes to the store.
#[derive(Clone)]
pub struct Kernel {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Clock,
    pub(crate) random: RandomSource,
    pub(crate) runner: Arc<dyn Runner>,
    pub(crate) scheduler: Scheduler,
    pub(crate) live_state: LiveState,
    pub(crate) viewers: RunPresence,
    /// Runs in which a worker waits for an approval: a hint to settle them although an agent is busy.
    pub(crate) approval_waits: RunPresence,
    /// Serializes joining and leaving: the environment of the agents is read, changed and written back.
    pub(crate) membership_lock: Arc<Semaphore>,
    pub(crate) wall_clock: WallClockWatch,
    /// The variables of the daemon that the commands of clients get.
    pub(crate) base_env: Arc<BTreeMap<String, String>>,
    /// The secrets in the daemon's own environment, which no history shows.
    pub(crate) secrets: Arc<SecretFilter>,
    run_contexts: Arc<Mutex<RunContextCache>>,
}

/// The parts of a kernel.
pub struct KernelParts {
    /// The store, the single source of truth.
    pub store: Arc<dyn Store>,
    /// The runner of external processes.
    pub runner: Arc<dyn Runner>,
    /// The source of time.
    pub clock: Clock,
    /// The source of randomness.
    pub random: RandomSource,
    /// Limits of concurrency and timeouts.
    pub options: Options,
    /// The variables that the commands of clients get: those with which the daemon was started.
    pub base_env: BTreeMap<String, String>,
    /// The secrets in the environment of the daemon, which the history of turns does not keep.
    pub secrets: SecretFilter,
}

/// The caller. An interface derives it from a token or from the peer process; never from a body.
#[derive(Clone, Debug)]
pub enum Principal {
    /// The person who owns this daemon.
    User,
    /// One live attempt of one agent.
    Agent(Arc<AgentPrincipal>),
    /// A client, identified by its token, with name and scopes.
    Client(TokenView),
    /// A caller without an identity.
    Anonymous,
}

/// An agent that asks, known by its live attempt.
#[derive(Clone, Debug)]
pub struct AgentPrincipal {
    /// The id of the attempt.
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

/// Facts that seldom change during a run: cached after the first read, and read again after a change.
pub(crate) struct RunContext {
    pub(crate) run: RunId,
    pub(crate) workflow: WorkflowId,
    pub(crate) instance: InstanceRef,
    pub(crate) project: String,
    pub(crate) limits: Limits,
    pub(crate) script: RunScript,
    pub(crate) agents: Vec<AgentSettings>,
    pub(crate) team: Vec<AgentName>,
}

/// Cache of run contexts.
#[derive(Default)]
struct RunContextCache {
    by_run: HashMap<RunId, Arc<RunContext>>,
    /// Number of evictions: a context that was read across one may be stale.
    evictions: u64,
}

/// The definition of a run, as stored with it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RunScript {
    /// Path of the workflow file; none for standalone agents.
    #[serde(default)]
    pub(crate) file: Option<PathBuf>,
    pub(crate) workflow: Workflow,
    pub(crate) tag: Tag,
    pub(crate) params: std::collections::BTreeMap<String, String>,
    pub(crate) cwd: PathBuf,
    /// Files of the command that notifies the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) notify_files: Vec<PathBuf>,
}

impl Kernel {
    /// Returns the current time.
    pub fn now(&self) -> Now {
        self.clock.now(&*self.store)
    }

    /// Creates a kernel. Nothing runs before [`Kernel::recover`].
    pub fn new(parts: KernelParts) -> Self {
        Self {
            wall_clock: WallClockWatch::from(parts.clock.saved(&*parts.store)),
            store: parts.store,
            clock: parts.clock,
            random: parts.random,
            scheduler: Scheduler::new(parts.options, Hold::of(&*parts.runner)),
            runner: parts.runner,
            live_state: LiveState::default(),
            viewers: RunPresence::default(),
            approval_waits: RunPresence::default(),
            membership_lock: Arc::new(Semaphore::new(1)),
            base_env: Arc::new(parts.base_env),
            secrets: Arc::new(parts.secrets),
            run_contexts: Arc::default(),
        }
    }

    /// Returns the context of a run.
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
        // The instance's agents are those of its newest run: from the file, and joined later.
        let newest = live || self.newest_run(row.workflow).await? == Some(run);
        let agents = if newest { Some(self.store.agent_list(row.workflow).await?) } else { None };
        let run_context = Arc::new(RunContext::from_row(row, agents)?);
        let mut contexts = self.lock_run_contexts();
        // Ended runs are not cached, and neither is a context that may have changed during the read.
        if live && contexts.evictions == drops {
            contexts.by_run.insert(run, Arc::clone(&run_context));
        }
        Ok(run_context)
    }

    /// Evicts the context of a run that has ended or changed.
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
        if row.script.is_empty() {
            return Err(Error::RunForgotten(row.instance));
        }
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
            script,
            agents,
            team,
        })
    }

    /// Refuses a run without documents.
    pub(crate) fn require_documents(&self) -> Result<()> {
        match self.script.workflow.context.documents {
            Documents::File | Documents::Store => Ok(()),
            Documents::Off => {
                Err(Error::Forbidden("this workflow has no documents (`context` disables them)"))
            }
        }
    }

    /// Refuses a run whose agents share nothing: none of them could vote.
    pub(crate) fn require_votes(&self) -> Result<()> {
        match self.script.workflow.context.provider {
            Provider::Sqlite | Provider::File | Provider::Memory => Ok(()),
            Provider::Off => Err(Error::Forbidden(
                "the agents of this workflow share nothing (`context: false`), so none of them can vote",
            )),
        }
    }

    /// Returns the treatment of answers in the run. Agents that share nothing do not get each other's answers.
    pub(crate) fn answer_handling(&self) -> AnswerHandling {
        match self.script.workflow.context.provider {
            Provider::Sqlite | Provider::File | Provider::Memory => self.script.workflow.answers,
            Provider::Off => AnswerHandling::Record,
        }
    }

    /// Returns the settings of an agent of the run.
    pub(crate) fn agent(&self, name: &AgentName) -> Result<&AgentSettings> {
        let found = self.agents.iter().find(|agent| agent.name == *name);
        found.ok_or(Error::Store(agent_worker_store::Error::NotFound("agent")))
    }

    /// Returns the mock tools that the workflow file gives an agent; none for one that joined later.
    pub(crate) fn file_mock_tools(&self, name: &AgentName) -> &[MockTool] {
        let found = self.script.workflow.agents.iter().find(|agent| agent.name == *name);
        found.map_or(&[], |agent| &agent.mock_tools)
    }
}

impl Principal {
    /// Returns the sender name of the caller's messages; an anonymous caller has none.
    pub(crate) fn sender(&self) -> Result<Sender> {
        self.author().map(|who| who.sender())
    }

    /// Returns the caller's name for people.
    pub(crate) fn display_name(&self) -> String {
        match self {
            Self::User => "the user".to_owned(),
            Self::Agent(agent) => agent.fence.agent.to_string(),
            Self::Client(token) => Sender::Client(token.name.clone()).to_string(),
            Self::Anonymous => "nobody".to_owned(),
        }
    }

    /// Returns the author of a write, for the store.
    pub(crate) fn author(&self) -> Result<WriteActor> {
        match self {
            Self::User => Ok(WriteActor::User),
            Self::Agent(agent) => Ok(WriteActor::Agent(agent.fence.clone())),
            Self::Client(token) => Ok(WriteActor::Client(token.name.clone())),
            Self::Anonymous => Err(Error::Unauthorized),
        }
    }

    /// Returns the author of a write, with an idempotency key.
    pub(crate) fn author_with_key(
        &self,
        key: Option<agent_worker_protocol::EffectKey>,
    ) -> Result<WriteContext> {
        Ok(WriteContext { actor: self.author()?, key })
    }

    /// Returns the caller's attempt if it is this one.
    pub(crate) fn require_own_attempt(&self, attempt: AttemptId) -> Result<&AgentPrincipal> {
        match self {
            Self::Agent(agent) if agent.attempt == attempt => Ok(agent),
            Self::Anonymous => Err(Error::Unauthorized),
            Self::User | Self::Client(_) | Self::Agent(_) => {
                Err(Error::Forbidden("only an attempt's own worker may act for it"))
            }
        }
    }

    /// Refuses every caller but the user.
    pub fn require_user(&self, what: &'static str) -> Result<()> {
        match self {
            Self::User => Ok(()),
            Self::Anonymous => Err(Error::Unauthorized),
            Self::Agent(_) | Self::Client(_) => Err(Error::Forbidden(what)),
        }
    }

    /// Refuses anonymous callers.
    pub fn require_authenticated(&self) -> Result<()> {
        self.author().map(drop)
    }
}
