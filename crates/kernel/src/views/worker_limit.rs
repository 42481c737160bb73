//! The limit of concurrent workers that keeps an agent queued. Computed on request from the live attempts of the run.

use std::path::PathBuf;

use agent_worker_protocol::{AgentName, AgentState, WorkerLimit};
use agent_worker_store::{RunRow, RunSnapshot};
use agent_worker_workflow::LimitSettings;
use serde::Deserialize;

use crate::{kernel::Kernel, scheduling::Options};

impl Kernel {
    /// Adds the limit that keeps an agent waiting to its state.
    pub(super) fn with_worker_limit(
        &self,
        state: AgentState,
        agent: &AgentName,
        snapshot: &RunSnapshot,
    ) -> AgentState {
        let AgentState::Queued { .. } = state else { return state };
        // Read before the agent's own slot: one that it takes in between must not count as taken by another.
        let full_daemon = self.scheduler.full_daemon();
        // The agent has its slot already, and is about to be leased.
        if self.scheduler.worker_of(snapshot.run.workflow, agent).is_some() {
            return state;
        }
        let busy = snapshot.agents.iter().filter(|agent| agent.live.is_some()).count();
        let bounds = WorkerBounds::of(&snapshot.run);
        let workers = bounds.workers(&self.scheduler.options);
        let full = if busy >= workers { Some(bounds.limit(workers)) } else { full_daemon };
        AgentState::Queued { full }
    }
}

/// The part of a run's script that bounds its workers; empty if the script was deleted or cannot be read.
#[derive(Default, Deserialize)]
struct WorkerBounds {
    file: Option<PathBuf>,
    workflow: Option<BoundedWorkflow>,
}

#[derive(Deserialize)]
struct BoundedWorkflow {
    limits: LimitSettings,
}

impl WorkerBounds {
    fn of(row: &RunRow) -> Self {
        serde_json::from_str(&row.script).unwrap_or_default()
    }

    fn workers(&self, options: &Options) -> usize {
        let of_file = self.workflow.as_ref().and_then(|workflow| workflow.limits.workers);
        options.workers_of_run(of_file)
    }

    fn limit(&self, workers: usize) -> WorkerLimit {
        let workers = worker_count(workers);
        match self.file {
            Some(_) => WorkerLimit::Run { workers },
            None => WorkerLimit::Instance { workers },
        }
    }
}

/// Converts a number of workers for the wire.
pub(crate) fn worker_count(workers: usize) -> u32 {
    u32::try_from(workers).unwrap_or(u32::MAX)
}
