//! Who is on the other end of a connection, before any token is looked at.
//!
//! A process of our own uid is the user, unless its chain of parents says that it belongs to an
//! attempt, of this daemon or of any other. Decided once, when the connection is accepted.
//! Invariant: any doubt makes it nobody, never the user.
//!
//! The chain is the first clue: a worker is a subreaper, so whatever its children do (double fork,
//! `setsid`, `env -i`), their chain of parents still meets it. Which attempt a worker carries out is
//! in the environment it was started with; that of the processes below it is theirs to invent, and a
//! chain that tells two stories is told apart as doubt.
//!
//! The control group is the second clue: where the daemon of an attempt could create one for it, the
//! process is in it whatever became of its parents, also after its worker was killed and its daemon
//! restarted. Groups are read whether or not this daemon creates any.

use std::{collections::BTreeSet, io};

use agent_worker_host::{
    ATTEMPT_MARKER, Process, environment_value, group_marks, process_chain, run_blocking,
};
use agent_worker_kernel::{Kernel, Principal};
use agent_worker_protocol::AttemptId;
use tokio::net::UnixStream;

/// How often a chain of parents that changes while it is read is read again.
const MAX_CHAIN_READS: usize = 5;

/// Where a connection comes from. The transport puts it into every request's extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// The Unix socket, from a process that was looked at when it connected.
    Socket(Caller),
    /// TCP: without a token, nobody.
    Network,
}

/// Who connected to the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// The person whose daemon this is.
    User,
    /// A process inside this attempt's tree.
    Attempt(AttemptId),
    /// A process inside a tree of another daemon, which is nobody here.
    Foreign,
    /// Somebody else, or somebody who cannot be made out.
    Nobody,
}

/// What the chain of parents of a process shows.
#[derive(Debug, PartialEq, Eq)]
struct Lineage {
    /// The marks in it, this store's or another's, as they are written.
    marks: BTreeSet<String>,
    /// Where it ends.
    top: ChainTop,
}

/// Where a chain of parents ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChainTop {
    /// At the daemon itself: what a setup command or a worker left behind, or a worker.
    Daemon,
    /// Where those of everybody end.
    System,
}

/// What a mark found in a chain means to this store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MarkStatus {
    /// One of our attempts, and it lives.
    Live(AttemptId),
    /// Ours, and not a live attempt.
    Ended,
    /// Not in this store: another daemon's, or of an instance that was deleted.
    Foreign,
}

impl Caller {
    /// Finds out who connected. For the accept loop, once per connection.
    pub(crate) async fn of(stream: &UnixStream, kernel: &Kernel) -> Self {
        let Ok(credentials) = stream.peer_cred() else { return Self::Nobody };
        if credentials.uid() != rustix::process::geteuid().as_raw() {
            return Self::Nobody;
        }
        // A peer in a pid namespace we do not see has the pid 0.
        match credentials.pid().and_then(|pid| u32::try_from(pid).ok()) {
            None | Some(0) => Self::Nobody,
            Some(pid) => Self::of_process(pid, std::process::id(), kernel).await,
        }
    }

    /// The same for a process of our own uid, as the daemon with the pid `daemon` sees it.
    pub(crate) async fn of_process(pid: u32, daemon: u32, kernel: &Kernel) -> Self {
        let Some(Some(lineage)) = run_blocking(move || read_lineage(pid, daemon)).await else {
            return Self::Nobody;
        };
        let mut statuses = Vec::new();
        for mark in &lineage.marks {
            match mark_status(kernel, mark).await {
                Ok(standing) => statuses.push(standing),
                Err(error) => {
                    tracing::error!(%error, "a caller could not be made out");
                    return Self::Nobody;
                }
            }
        }
        decide_caller(&statuses, lineage.top)
    }
}

/// Decides from what was found.
fn decide_caller(statuses: &[MarkStatus], top: ChainTop) -> Caller {
    match (statuses, top) {
        ([], ChainTop::System) => Caller::User,
        ([MarkStatus::Live(attempt)], _) => Caller::Attempt(*attempt),
        ([MarkStatus::Foreign, ..], ChainTop::System)
            if statuses.iter().all(|one| *one == MarkStatus::Foreign) =>
        {
            Caller::Foreign
        }
        // Left behind by a setup command or an attempt that is over, or a chain that tells two stories.
        _ => Caller::Nobody,
    }
}

async fn mark_status(
    kernel: &Kernel,
    mark: &str,
) -> Result<MarkStatus, agent_worker_kernel::Error> {
    // Whatever it names, it is nothing of ours.
    let Ok(mark) = mark.parse() else { return Ok(MarkStatus::Foreign) };
    Ok(match kernel.tokens().principal_by_mark(mark).await? {
        Some(Principal::Agent(_)) => MarkStatus::Live(mark),
        Some(Principal::User | Principal::Client(_) | Principal::Anonymous) => MarkStatus::Ended,
        None => MarkStatus::Foreign,
    })
}

/// Reads the chain of parents of `pid` up to `daemon`. None: it is gone, or would not stand still.
///
/// A parent that ends while we read tears the chain, and what is above it would be missed.
fn read_lineage(pid: u32, daemon: u32) -> Option<Lineage> {
    read_while_stable(|| process_chain(pid), |chain| lineage_of_chain(chain, daemon))
}

/// What `read` makes of a chain that was whole, and the same process by process, before and after.
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

fn lineage_of_chain(chain: &[Process], daemon: u32) -> io::Result<Lineage> {
    let below: Vec<_> = chain.iter().take_while(|process| process.pid != daemon).collect();
    let mut marks = BTreeSet::new();
    for (generation, process) in below.iter().enumerate() {
        let mark = match environment_value(process.pid, ATTEMPT_MARKER) {
            Ok(mark) => mark,
            // Another user's process (sshd, init) is no worker of ours; the peer itself must be readable.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && generation > 0 => None,
            Err(error) => return Err(error),
        };
        marks.extend(mark);
    }
    let peer = chain.first().map(|process| group_marks(process.pid, daemon)).transpose()?;
    marks.extend(peer.unwrap_or_default());
    let top = if below.len() < chain.len() { ChainTop::Daemon } else { ChainTop::System };
    Ok(Lineage { marks, top })
}

#[cfg(test)]
mod tests;
