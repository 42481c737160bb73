//! How the daemon holds a worker: to end it, to say why, and to know when it is gone.

use std::sync::{
    OnceLock,
    atomic::{AtomicU32, Ordering},
};

use agent_worker_protocol::{AgentName, RunId, WorkflowId};
use tokio_util::sync::CancellationToken;

use crate::{kernel::Card, policy::Ordered};

pub(crate) struct Leash {
    pub(crate) workflow: WorkflowId,
    pub(crate) run: RunId,
    pub(crate) agent: AgentName,
    /// Cancelled when the worker is to end.
    pub(crate) pull: CancellationToken,
    why: OnceLock<Ordered>,
    gone: CancellationToken,
    ended: AtomicU32,
}

impl Leash {
    pub(crate) fn new(card: &Card, agent: AgentName) -> Self {
        Self {
            workflow: card.workflow,
            run: card.run,
            agent,
            pull: CancellationToken::new(),
            why: OnceLock::new(),
            gone: CancellationToken::new(),
            ended: AtomicU32::new(0),
        }
    }

    /// Ends the worker; the first reason counts.
    pub(crate) fn end(&self, why: Ordered) {
        let _ = self.why.set(why);
        self.pull.cancel();
    }

    pub(crate) fn is_pulled(&self) -> bool {
        self.pull.is_cancelled()
    }

    pub(crate) fn why(&self) -> Option<&Ordered> {
        self.why.get()
    }

    /// The worker is gone and this many processes had to be ended.
    pub(crate) fn let_go(&self, ended: u32) {
        self.ended.store(ended, Ordering::Relaxed);
        self.gone.cancel();
    }

    /// Waits until the worker is gone; answers with how many processes had to be ended.
    pub(crate) async fn gone(&self) -> u32 {
        self.gone.cancelled().await;
        self.ended.load(Ordering::Relaxed)
    }
}
