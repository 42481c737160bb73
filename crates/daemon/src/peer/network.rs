//! The peer of a connection to the loopback port: its user when the connection is accepted, its process when a token
//! needs it.

use std::{net::SocketAddr, sync::Arc};

use agent_worker_host::{
    ConnectionPlace, PeerSocket, Process, SocketHolders, TcpPeer, process_name, run_blocking,
    socket_holders, tcp_peer,
};
use tokio::sync::OnceCell;

use super::{Caller, Callers};

/// Names of the servers that forward connections for a person who logged in to this machine.
const FORWARDING_SERVERS: [&str; 3] = ["sshd", "sshd-session", "dropbear"];

/// The peer of one connection.
#[derive(Debug)]
pub(crate) struct NetworkPeer {
    /// Our address of the connection.
    pub(crate) local: SocketAddr,
    remote: SocketAddr,
    /// The peer's socket; none if the peer is not on this machine.
    socket: Option<PeerSocket>,
    /// The place of the connection among the others.
    pub(crate) place: Arc<ConnectionPlace>,
    /// The process, found once.
    caller: OnceCell<Caller>,
}

impl NetworkPeer {
    pub(crate) fn new(
        (local, remote): (SocketAddr, SocketAddr),
        peer: TcpPeer,
        place: Arc<ConnectionPlace>,
    ) -> Self {
        let socket = match peer {
            TcpPeer::Open(socket) => Some(socket),
            TcpPeer::Closed | TcpPeer::Unknown => None,
        };
        Self { local, remote, socket, place, caller: OnceCell::new() }
    }

    /// Identifies the process at the other end. The first call takes milliseconds.
    pub(crate) async fn caller(&self, callers: &Callers) -> Caller {
        *self.caller.get_or_init(|| self.identify(callers)).await
    }

    async fn identify(&self, by: &Callers) -> Caller {
        let own_uid = rustix::process::geteuid().as_raw();
        let Some(socket) = self.socket.filter(|socket| socket.uid == own_uid) else {
            return Caller::Nobody;
        };
        let (local, remote) = (self.local, self.remote);
        let found = run_blocking(move || {
            // The peer may have closed its socket meanwhile, and its inode may belong to another one.
            let is_open = tcp_peer(local, remote) == TcpPeer::Open(socket);
            is_open.then(|| socket_holders(socket))
        });
        let Some(Some(SocketHolders { holders, hidden })) = found.await else {
            return Caller::Unidentified;
        };
        let daemon = std::process::id();
        let mut callers = Vec::new();
        for Process { pid, .. } in holders {
            callers.push(by.of_process(pid, daemon).await);
        }
        if callers.is_empty() {
            for Process { pid, .. } in hidden {
                let caller = by.of_hidden_process(pid, daemon).await;
                callers.push(hidden_holder(caller, process_name(pid).as_deref()));
            }
        }
        strictest_caller(&callers)
    }
}

/// Decides what a process that hides its descriptors is evidence of. An agent can make a connection that no visible
/// process holds, so only a server that forwards connections counts as the user.
fn hidden_holder(caller: Caller, name: Option<&str>) -> Caller {
    match caller {
        Caller::User if !name.is_some_and(|name| FORWARDING_SERVERS.contains(&name)) => {
            Caller::Unidentified
        }
        caller => caller,
    }
}

/// Decides if the port accepts a peer.
pub(crate) fn admits_peer(peer: TcpPeer, own_uid: u32, allowed_uids: &[u32]) -> bool {
    match peer {
        TcpPeer::Open(socket) => socket.uid == own_uid || allowed_uids.contains(&socket.uid),
        TcpPeer::Closed => false,
        TcpPeer::Unknown => true,
    }
}

/// Returns the caller with the fewest rights among the processes that may hold a connection.
fn strictest_caller(callers: &[Caller]) -> Caller {
    let is_inside = |caller: &&Caller| {
        matches!(caller, Caller::Attempt(_) | Caller::Foreign | Caller::Leftover { .. })
    };
    let doubtful = |caller: &&Caller| matches!(caller, Caller::Unidentified);
    let inside = callers.iter().find(is_inside);
    let found = inside.or_else(|| callers.iter().find(doubtful)).or_else(|| callers.first());
    // A socket that no process holds is on its way between two processes.
    found.copied().unwrap_or(Caller::Unidentified)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_admits_its_own_user_the_allowed_users_and_peers_of_other_machines() {
        let open = |uid| TcpPeer::Open(PeerSocket { uid, inode: 7 });
        for (peer, allowed, expected) in [
            (open(1000), &[][..], true),
            (open(0), &[], false),
            (open(1001), &[], false),
            (open(1001), &[1002, 1001], true),
            (TcpPeer::Closed, &[1001], false),
            (TcpPeer::Unknown, &[], true),
        ] {
            assert_eq!(admits_peer(peer, 1000, allowed), expected, "{peer:?}");
        }
    }

    #[test]
    fn a_hidden_process_is_the_user_only_if_it_forwards_connections() {
        let attempt = Caller::Leftover { live: None };
        for (caller, name, expected) in [
            (Caller::User, Some("sshd"), Caller::User),
            (Caller::User, Some("sshd-session"), Caller::User),
            (Caller::User, Some("ssh-agent"), Caller::Unidentified),
            (Caller::User, None, Caller::Unidentified),
            (attempt, Some("sshd"), attempt),
        ] {
            assert_eq!(hidden_holder(caller, name), expected, "{caller:?} {name:?}");
        }
    }

    #[test]
    fn of_several_processes_at_one_connection_the_one_with_the_fewest_rights_counts() {
        for (callers, expected) in [
            (&[][..], Caller::Unidentified),
            (&[Caller::User], Caller::User),
            (&[Caller::User, Caller::Foreign], Caller::Foreign),
            (&[Caller::Unidentified, Caller::User], Caller::Unidentified),
            (&[Caller::Unidentified, Caller::Foreign], Caller::Foreign),
            (&[Caller::Nobody], Caller::Nobody),
        ] {
            assert_eq!(strictest_caller(callers), expected, "{callers:?}");
        }
    }
}
