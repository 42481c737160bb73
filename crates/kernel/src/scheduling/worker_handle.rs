//! The daemon's handle of a worker: requests its stop with a reason, and waits until it is gone.

use std::sync::{
    OnceLock,
    atomic::{AtomicU32, Ordering},
};

use agent_worker_protocol::{AgentName, RunId, WorkflowId};
use tokio_util::sync::CancellationToken;

use crate::{
    kernel::RunContext,
    scheduling::{retry_policy::WorkerStopReason, turn_messages::MessageAnswers},
};

pub(crate) struct WorkerHandle {
    pub(crate) workflow: WorkflowId,
    pub(crate) run: RunId,
    pub(crate) agent: AgentName,
    /// Cancelled when the worker is to end.
    pub(crate) stop: CancellationToken,
    /// Messages to the running turn.
    pub(crate) messages: MessageAnswers,
    stop_reason: OnceLock<WorkerStopReason>,
    stopped: CancellationToken,
    processes_ended: AtomicU32,
}

impl WorkerHandle {
    pub(crate) fn new(run_context: &RunContext, agent: AgentName) -> Self {
        Self {
            workflow: run_context.workflow,
            run: run_context.run,
            agent,
            stop: CancellationToken::new(),
            messages: MessageAnswers::default(),
            stop_reason: OnceLock::new(),
            stopped: CancellationToken::new(),
            processes_ended: AtomicU32::new(0),
        }
    }

    /// Requests the worker's stop; the first reason counts.
    pub(crate) fn request_stop(&self, why: WorkerStopReason) {
        let _ = self.stop_reason.set(why);
        self.stop.cancel();
    }

    pub(crate) fn is_stop_requested(&self) -> bool {
        self.stop.is_cancelled()
    }

    pub(crate) fn stop_reason(&self) -> Option<&WorkerStopReason> {
        self.stop_reason.get()
    }

    /// Records that the worker is gone and this many processes had to be ended.
    pub(crate) fn mark_stopped(&self, ended: u32) {
        self.processes_ended.store(ended, Ordering::Relaxed);
        self.stopped.cancel();
    }

    /// Waits until the worker is gone; returns the number of processes that had to be ended.
    pub(crate) async fn wait_stopped(&self) -> u32 {
        self.stopped.cancelled().await;
        self.processes_ended.load(Ordering::Relaxed)
    }
}
