//! Serves and watches the processes of a sandbox while they run: their network, if its hosts are listed, and their memory.

use std::{future::pending, time::Duration};

use agent_worker_host::{Process, end_processes_off_thread};
use agent_worker_protocol::MemoryLimit;

use crate::{
    gateway::NetworkGateway,
    memory_watch::{MemoryExcess, wait_for_memory_excess},
};

/// Guards one process of a sandbox and everything that it starts.
#[derive(Debug)]
pub struct SandboxGuard {
    gateway: Option<NetworkGateway>,
    memory: MemoryLimit,
}

impl SandboxGuard {
    pub(crate) fn new(gateway: Option<NetworkGateway>, memory: MemoryLimit) -> Self {
        Self { gateway, memory }
    }

    /// Guards the processes that `find` returns until `work` is done. Processes that use too much memory are killed, which is
    /// the error. Each refused connection is a line for `report`.
    pub async fn run<T, F>(
        self,
        find: F,
        report: impl FnMut(String),
        work: impl Future<Output = T>,
    ) -> Result<T, MemoryExcess>
    where
        F: Fn() -> Vec<Process> + Clone + Send + Sync + 'static,
    {
        let Self { gateway, memory } = self;
        let network = async {
            match gateway {
                Some(gateway) => gateway.serve(report).await,
                None => pending().await,
            }
        };
        let excess = tokio::select! {
            done = work => return Ok(done),
            excess = wait_for_memory_excess(memory, find.clone()) => excess,
            never = network => match never {},
        };
        end_processes_off_thread(find, Vec::new(), Duration::ZERO).await;
        Err(excess)
    }
}
