//! The one object behind every door: who asks, what is true, what runs.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use agent_worker_protocol::{
    AgentName, AgentSettings, InstanceRef, Limits, Millis, RunId, Sender, Tag, WorkflowId,
};
use agent_worker_store::{AttemptRow, By, RunRow, Store, Who};
use agent_worker_workflow::Workflow;
use serde::{Deserialize, Serialize};

use crate::{
    clock::{Clock, Dice},
    error::{Error, Result},
    live::Live,
    runner::Runner,
    scheduler::{Options, Scheduler},
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
    cards: Arc<Mutex<HashMap<RunId, Arc<Card>>>>,
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
    /// A client with a token of its own, by its name.
    Client(String),
    /// Anybody.
    Nobody,
}

/// What does not change while a run lasts: read once, kept at hand.
pub(crate) struct Card {
    pub(crate) run: RunId,
    pub(crate) workflow: WorkflowId,
    pub(crate) instance: InstanceRef,
    pub(crate) project: String,
    pub(crate) limits: Limits,
    pub(crate) started: Millis,
    pub(crate) script: Script,
    pub(crate) team: Vec<AgentName>,
}

/// What a run is made from, as it is kept with it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Script {
    pub(crate) workflow: Workflow,
    pub(crate) tag: Tag,
    pub(crate) params: std::collections::BTreeMap<String, String>,
    pub(crate) cwd: PathBuf,
}

impl Kernel {
    /// Puts a kernel together. Nothing runs before [`Kernel::recover`].
    pub fn new(parts: Parts) -> Self {
        Self {
            store: parts.store,
            clock: parts.clock,
            dice: parts.dice,
            runner: parts.runner,
            scheduler: Scheduler::new(parts.options),
            live: Live::default(),
            cards: Arc::default(),
        }
    }

    /// The card of a run.
    pub(crate) async fn card(&self, run: RunId) -> Result<Arc<Card>> {
        if let Some(card) = self.cards().get(&run) {
            return Ok(Arc::clone(card));
        }
        let row = self.store.run_get(run).await?;
        let live = row.state.is_live();
        let card = Arc::new(Card::read(row)?);
        // The past is read again when somebody asks for it.
        if live {
            self.cards().insert(run, Arc::clone(&card));
        }
        Ok(card)
    }

    /// Forgets the card of a run that is over.
    pub(crate) fn card_drop(&self, run: RunId) {
        self.cards().remove(&run);
    }

    fn cards(&self) -> std::sync::MutexGuard<'_, HashMap<RunId, Arc<Card>>> {
        self.cards.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Card {
    fn read(row: RunRow) -> Result<Self> {
        let script: Script = serde_json::from_str(&row.script)
            .map_err(|error| agent_worker_store::Error::Garbled(format!("run script: {error}")))?;
        let team = script.workflow.agents.iter().map(|agent| agent.name.clone()).collect();
        Ok(Self {
            run: row.id,
            workflow: row.workflow,
            instance: row.instance,
            project: row.project,
            limits: row.limits,
            started: row.started,
            script,
            team,
        })
    }

    /// The settings of one of its agents.
    pub(crate) fn agent(&self, name: &AgentName) -> Result<&AgentSettings> {
        let found = self.script.workflow.agents.iter().find(|agent| agent.name == *name);
        found.ok_or(Error::Store(agent_worker_store::Error::NotFound("agent")))
    }
}

impl Principal {
    /// The name a message of theirs carries; nobody writes nothing.
    pub(crate) fn sender(&self) -> Result<Sender> {
        self.who().map(|who| who.sender())
    }

    /// Who writes, for the store.
    pub(crate) fn who(&self) -> Result<Who> {
        match self {
            Self::User => Ok(Who::User),
            Self::Agent(attempt) => Ok(Who::Agent(attempt.fence.clone())),
            Self::Client(name) => Ok(Who::Client(name.clone())),
            Self::Nobody => Err(Error::Unauthorized),
        }
    }

    /// Who writes, under a key.
    pub(crate) fn by(&self, key: Option<agent_worker_protocol::EffectKey>) -> Result<By> {
        Ok(By { who: self.who()?, key })
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
