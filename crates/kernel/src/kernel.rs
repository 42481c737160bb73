//! The one object behind every door: who asks, what is true, what runs.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use agent_worker_protocol::{
    AgentName, AgentSettings, AttemptId, InstanceRef, Limits, RunId, Sender, Tag, WorkflowId,
    api::TokenView,
};
use agent_worker_store::{AgentRow, AttemptRow, By, Now, RunQuery, RunRow, Store, StoreTime, Who};
use agent_worker_workflow::{Documents, Workflow};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use crate::{
    attendance::Attendance,
    clock::{Clock, Dice},
    error::{Error, Result},
    live::Live,
    runner::Runner,
    scheduler::{Options, Scheduler},
    wall_clock::WallClockWatch,
};

/// A cloneable handle to the kernel. Both doors call its methods; nothing else writes.
#[derive(Clone)]
pub struct Kernel {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Clock,
    pub(crate) dice: Dice,
    pub(crate) runner: Arc<dyn Runner>,
    pub(crate) scheduler: Scheduler,
    pub(crate) live: Live,
    pub(crate) attendance: Attendance,
    /// Runs in which a worker waits for approval right now: a hint to look at them although somebody works.
    pub(crate) asking: Attendance,
    /// Whoever joins or leaves does so alone: what is kept for them is read, changed and written back.
    pub(crate) roster: Arc<Semaphore>,
    pub(crate) wall_clock: WallClockWatch,
    cards: Arc<Mutex<Cards>>,
}

/// What a kernel is made of.
pub struct Parts {
    /// What is true.
    pub store: Arc<dyn Store>,
    /// What runs outside.
    pub runner: Arc<dyn Runner>,
    /// Time.
    pub clock: Clock,
    /// Chance.
    pub dice: Dice,
    /// How much runs at once, and how patient it is.
    pub options: Options,
}

/// Who asks. Made by the door, from a secret or from the process on the other end; never from a body.
#[derive(Clone, Debug)]
pub enum Principal {
    /// The person whose daemon this is.
    User,
    /// One live attempt of one agent.
    Agent(Arc<AttemptRow>),
    /// A client, by its token: what it is called, and good for.
    Client(TokenView),
    /// Anybody.
    Nobody,
}

/// What seldom changes while a run lasts: read once, kept at hand, read again after a change.
pub(crate) struct Card {
    pub(crate) run: RunId,
    pub(crate) workflow: WorkflowId,
    pub(crate) instance: InstanceRef,
    pub(crate) project: String,
    pub(crate) limits: Limits,
    pub(crate) started: StoreTime,
    pub(crate) script: Script,
    pub(crate) agents: Vec<AgentSettings>,
    pub(crate) team: Vec<AgentName>,
}

/// The cards at hand.
#[derive(Default)]
struct Cards {
    by_run: HashMap<RunId, Arc<Card>>,
    /// How often one was dropped: what was being read meanwhile may be old.
    drops: u64,
}

/// What a run is made from, as it is kept with it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Script {
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
    pub fn new(parts: Parts) -> Self {
        Self {
            wall_clock: WallClockWatch::from(parts.clock.saved(&*parts.store)),
            store: parts.store,
            clock: parts.clock,
            dice: parts.dice,
            runner: parts.runner,
            scheduler: Scheduler::new(parts.options),
            live: Live::default(),
            attendance: Attendance::default(),
            asking: Attendance::default(),
            roster: Arc::new(Semaphore::new(1)),
            cards: Arc::default(),
        }
    }

    /// The card of a run.
    pub(crate) async fn card(&self, run: RunId) -> Result<Arc<Card>> {
        let drops = {
            let cards = self.cards();
            if let Some(card) = cards.by_run.get(&run) {
                return Ok(Arc::clone(card));
            }
            cards.drops
        };
        let row = self.store.run_get(run).await?;
        let live = row.state.is_live();
        // The instance's agents are its newest run's: those of the file, and those who joined.
        let newest = live || self.newest_run(row.workflow).await? == Some(run);
        let agents = if newest { Some(self.store.agent_list(row.workflow).await?) } else { None };
        let card = Arc::new(Card::read(row, agents)?);
        let mut cards = self.cards();
        // The past is read again when somebody asks for it, and what may have changed while it was read is too.
        if live && cards.drops == drops {
            cards.by_run.insert(run, Arc::clone(&card));
        }
        Ok(card)
    }

    /// Forgets the card of a run that is over, or has changed.
    pub(crate) fn card_drop(&self, run: RunId) {
        let mut cards = self.cards();
        cards.by_run.remove(&run);
        cards.drops += 1;
    }

    fn cards(&self) -> std::sync::MutexGuard<'_, Cards> {
        self.cards.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) async fn newest_run(&self, workflow: WorkflowId) -> Result<Option<RunId>> {
        let newest = self.store.run_list(RunQuery::Of(workflow, 1)).await?;
        Ok(newest.first().map(|run| run.id))
    }
}

impl Card {
    fn read(row: RunRow, agents: Option<Vec<AgentRow>>) -> Result<Self> {
        let garbled = |what: &str, error: serde_json::Error| {
            agent_worker_store::Error::Garbled(format!("{what}: {error}"))
        };
        let script: Script =
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
        self.who().map(|who| who.sender())
    }

    /// Who did something, as a person reads it.
    pub(crate) fn called(&self) -> String {
        match self {
            Self::User => "the user".to_owned(),
            Self::Agent(attempt) => attempt.fence.agent.to_string(),
            Self::Client(token) => Sender::Client(token.name.clone()).to_string(),
            Self::Nobody => "nobody".to_owned(),
        }
    }

    /// Who writes, for the store.
    pub(crate) fn who(&self) -> Result<Who> {
        match self {
            Self::User => Ok(Who::User),
            Self::Agent(attempt) => Ok(Who::Agent(attempt.fence.clone())),
            Self::Client(token) => Ok(Who::Client(token.name.clone())),
            Self::Nobody => Err(Error::Unauthorized),
        }
    }

    /// Who writes, under a key.
    pub(crate) fn by(&self, key: Option<agent_worker_protocol::EffectKey>) -> Result<By> {
        Ok(By { who: self.who()?, key })
    }

    /// The attempt that asks, if it is this one.
    pub(crate) fn own_attempt(&self, attempt: AttemptId) -> Result<&AttemptRow> {
        match self {
            Self::Agent(row) if row.id == attempt => Ok(row),
            Self::Nobody => Err(Error::Unauthorized),
            Self::User | Self::Client(_) | Self::Agent(_) => {
                Err(Error::Forbidden("an attempt is spoken for by its own worker only"))
            }
        }
    }

    /// Lets only the user pass.
    pub fn require_user(&self, what: &'static str) -> Result<()> {
        match self {
            Self::User => Ok(()),
            Self::Nobody => Err(Error::Unauthorized),
            Self::Agent(_) | Self::Client(_) => Err(Error::Forbidden(what)),
        }
    }

    /// Lets anybody known pass.
    pub fn require_known(&self) -> Result<()> {
        self.who().map(drop)
    }
}
