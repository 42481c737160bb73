//! Identifies the caller of a connection, before any token is read.
//!
//! A process of our own uid is the user, unless its chain of parents shows that it belongs to an attempt, of this
//! daemon or of any other. Decided once, when the connection is accepted.
//! Invariant: any doubt makes the caller anything but the user.
//!
//! The chain is the first evidence: a worker is a subreaper, so whatever its children do (double fork, `setsid`,
//! `env -i`), their chain of parents still meets it. The attempt of a worker is in the environment it was started
//! with; the processes below it can invent theirs, so a mark counts only if the worker of that attempt is in the chain,
//! and a chain with contradictory marks counts as doubt.
//!
//! The control group is the second evidence: if the daemon of an attempt could create one for it, the process is in
//! it whatever happened to its parents, also after its worker was killed and its daemon restarted. Groups are read
//! even if this daemon creates none.
//!
//! The record of the processes below an adopted worker, and of those that commands of tasks left under an earlier
//! daemon, is the third: it remembers a process whose worker is gone.

mod network;

use std::{collections::BTreeSet, io, sync::Arc};

use agent_worker_host::{
    ATTEMPT_MARKER, Process, SocketPeer, environment_value, group_marks, process_chain,
    run_blocking,
};
use agent_worker_kernel::{Kernel, Principal};
use agent_worker_protocol::AttemptId;
use tokio::net::UnixStream;

use crate::runner::{WorkerEvidence, WorkerProcesses};
pub(crate) use network::{NetworkPeer, admits_peer};

/// Maximum number of reads of a chain of parents that changes meanwhile.
const MAX_CHAIN_READS: usize = 5;

/// The origin of a connection. The transport adds it to every request's extensions.
#[derive(Clone, Debug)]
pub(crate) enum Peer {
    /// The Unix socket, from a process that was identified when it connected.
    Socket(Caller),
    /// TCP: anonymous without a token.
    Network(Arc<NetworkPeer>),
}

/// The caller that connected to the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// The person who owns this daemon.
    User,
    /// A process inside this attempt's tree.
    Attempt(AttemptId),
    /// A process inside a tree of another daemon; it has no rights here.
    Foreign,
    /// A process inside the tree of an attempt that has ended or of a setup command, or in a tree with contradictory
    /// marks.
    Leftover {
        /// The only live attempt of this store among the marks, if the others are of another store.
        live: Option<AttemptId>,
    },
    /// A process that has ended or changes while it is read, so that its tree is unknown.
    Unidentified,
    /// A process outside of every tree that is not the user: of another user, or in a pid namespace that is not visible.
    Nobody,
}

/// Identifies the process behind a connection and what it may be.
#[derive(Clone)]
pub(crate) struct Callers {
    pub(crate) kernel: Kernel,
    pub(crate) workers: WorkerProcesses,
}

/// The evidence in the chain of parents of a process.
#[derive(Debug, PartialEq, Eq)]
struct Lineage {
    /// The process and its parents, up to the daemon.
    processes: Vec<Process>,
    /// The marks in the chain, of this store or another, as written.
    marks: BTreeSet<String>,
    /// The end of the chain.
    top: ChainTop,
}

/// The end of a chain of parents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChainTop {
    /// The daemon itself: a worker, or a process that a setup command or a worker left.
    Daemon,
    /// The top of the process tree, as for any other process.
    System,
}

/// The meaning of a mark for this store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MarkStatus {
    /// One of our attempts, still live.
    Live(AttemptId),
    /// Ours, and not a live attempt, or not the attempt of this process.
    Ended,
    /// Not in this store: a mark of another daemon, or of a deleted instance.
    Foreign,
}

impl Callers {
    /// Identifies the process at the other end of `stream`, for the accept loop, once per connection.
    pub(crate) async fn of_stream(&self, stream: &UnixStream) -> Caller {
        let Ok(credentials) = stream.peer_cred() else { return Caller::Unidentified };
        if credentials.uid() != rustix::process::geteuid().as_raw() {
            return Caller::Nobody;
        }
        // A peer in a pid namespace we do not see has the pid 0.
        let pid = credentials.pid().and_then(|pid| u32::try_from(pid).ok());
        let Some(pid) = pid.filter(|pid| *pid != 0) else { return Caller::Nobody };
        let Ok(peer) = SocketPeer::of(stream) else { return Caller::Unidentified };
        let caller = self.of_process(pid, std::process::id()).await;
        // If the process has ended, the pid may have been another process's while it was read.
        if peer.has_ended().unwrap_or(true) { Caller::Unidentified } else { caller }
    }

    /// Identifies a process of our own uid, as the daemon with the pid `daemon` sees it.
    pub(crate) async fn of_process(&self, pid: u32, daemon: u32) -> Caller {
        // The daemon itself is in no tree of its own.
        if pid == daemon {
            return Caller::Nobody;
        }
        self.of_lineage(run_blocking(move || read_lineage(pid, daemon)).await.flatten()).await
    }

    /// Does the same for a process that hides its environment, by its parents and its control group alone.
    pub(crate) async fn of_hidden_process(&self, pid: u32, daemon: u32) -> Caller {
        let read = move || {
            read_while_stable(
                || process_chain(pid),
                |chain| lineage_of_chain(chain, daemon, OwnEnvironment::MayBeHidden),
            )
        };
        self.of_lineage(run_blocking(read).await.flatten()).await
    }

    async fn of_lineage(&self, lineage: Option<Lineage>) -> Caller {
        let Some(mut lineage) = lineage else { return Caller::Unidentified };
        let recorded = self.workers.recorded_attempts(&lineage.processes);
        lineage.marks.extend(recorded.iter().map(AttemptId::to_string));
        let mut statuses = Vec::new();
        for mark in &lineage.marks {
            match mark_status(&self.kernel, mark).await {
                Ok(MarkStatus::Live(attempt)) => {
                    match self.workers.compare(attempt, &lineage.processes) {
                        WorkerEvidence::Confirmed => statuses.push(MarkStatus::Live(attempt)),
                        WorkerEvidence::Refuted => statuses.push(MarkStatus::Ended),
                        WorkerEvidence::Unknown => return Caller::Unidentified,
                    }
                }
                Ok(status) => statuses.push(status),
                Err(error) => {
                    tracing::error!(%error, "could not identify the caller");
                    return Caller::Unidentified;
                }
            }
        }
        decide_caller(&statuses, lineage.top)
    }
}

/// Decides the caller from the evidence.
fn decide_caller(statuses: &[MarkStatus], top: ChainTop) -> Caller {
    match (statuses, top) {
        ([], ChainTop::System) => Caller::User,
        ([MarkStatus::Live(attempt)], _) => Caller::Attempt(*attempt),
        ([MarkStatus::Foreign, ..], ChainTop::System)
            if statuses.iter().all(|one| *one == MarkStatus::Foreign) =>
        {
            Caller::Foreign
        }
        // Left by a setup command or an ended attempt, or a chain with contradictory marks.
        _ => Caller::Leftover { live: only_live_mark(statuses) },
    }
}

/// Returns the only live attempt among the marks if all others are of another store: a daemon that runs inside an attempt of
/// another daemon has such workers after its restart.
fn only_live_mark(statuses: &[MarkStatus]) -> Option<AttemptId> {
    let mut own = statuses.iter().filter(|status| **status != MarkStatus::Foreign);
    match (own.next(), own.next()) {
        (Some(MarkStatus::Live(attempt)), None) => Some(*attempt),
        _ => None,
    }
}

async fn mark_status(
    kernel: &Kernel,
    mark: &str,
) -> Result<MarkStatus, agent_worker_kernel::Error> {
    // A mark that is not an id is none of ours.
    let Ok(mark) = mark.parse() else { return Ok(MarkStatus::Foreign) };
    Ok(match kernel.tokens().principal_by_mark(mark).await? {
        Some(Principal::Agent(_)) => MarkStatus::Live(mark),
        Some(Principal::User | Principal::Client(_) | Principal::Anonymous) => MarkStatus::Ended,
        None => MarkStatus::Foreign,
    })
}

/// Reads the chain of parents of `pid` up to `daemon`. Returns none if the process is gone or the chain keeps
/// changing.
///
/// A parent that ends during the read breaks the chain, and its own parents would be missed.
fn read_lineage(pid: u32, daemon: u32) -> Option<Lineage> {
    read_while_stable(
        || process_chain(pid),
        |chain| lineage_of_chain(chain, daemon, OwnEnvironment::MustBeReadable),
    )
}

/// Returns the result of `read` for a chain that was complete, and identical before and after.
fn read_while_stable<T>(
    look: impl Fn() -> Option<Vec<Process>>,
    read: impl Fn(&[Process]) -> io::Result<T>,
) -> Option<T> {
    (0..MAX_CHAIN_READS).find_map(|_| {
        let before = look()?;
        let read = read(&before).ok()?;
        (look()? == before).then_some(read)
    })
}

/// The treatment of the peer's own environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnEnvironment {
    MustBeReadable,
    MayBeHidden,
}

fn lineage_of_chain(
    chain: &[Process],
    daemon: u32,
    own_environment: OwnEnvironment,
) -> io::Result<Lineage> {
    let below: Vec<_> = chain.iter().take_while(|process| process.pid != daemon).collect();
    let mut marks = BTreeSet::new();
    for (generation, process) in below.iter().enumerate() {
        let mark = match environment_value(process.pid, ATTEMPT_MARKER) {
            Ok(mark) => mark,
            // Another user's process (sshd, init) is no worker of ours; the peer itself must be readable.
            Err(error)
                if error.kind() == io::ErrorKind::PermissionDenied
                    && (generation > 0 || own_environment == OwnEnvironment::MayBeHidden) =>
            {
                None
            }
            Err(error) => return Err(error),
        };
        marks.extend(mark);
    }
    let peer = chain.first().map(|process| group_marks(process.pid, daemon)).transpose()?;
    marks.extend(peer.unwrap_or_default());
    let top = if below.len() < chain.len() { ChainTop::Daemon } else { ChainTop::System };
    let processes = below.into_iter().copied().collect();
    Ok(Lineage { processes, marks, top })
}

#[cfg(test)]
mod tests;
