//! The process at the other end of a TCP connection of this machine: its uid, and the processes that hold its socket.
//!
//! The kernel returns uid and inode of the peer's socket for the two addresses of the connection. On macOS every peer is
//! [`TcpPeer::Unknown`].
//!
//! A process can send a request and close its socket before the other side looks. Such a peer is [`TcpPeer::Closed`] and
//! never unknown: the bytes that it sent are still readable.

use std::{fmt, net::SocketAddr, thread, time::Duration};

use crate::{
    process_tree::Process,
    system::{self, process_name},
};

/// Number of lookups of a peer that is not found, and the pause between two.
///
/// A socket that resets its connection disappears shortly before the other side learns of it.
const MAX_LOOKUPS: usize = 3;
const LOOKUP_PAUSE: Duration = Duration::from_millis(1);

/// The peer of a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpPeer {
    /// The peer's socket is open on this machine.
    Open(PeerSocket),
    /// The peer has closed its socket.
    Closed,
    /// The peer is in another network namespace or on another machine, or the system does not support the query.
    Unknown,
}

/// The socket of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerSocket {
    /// The user who created the socket.
    pub uid: u32,
    /// Inode of the socket, which `/proc/<pid>/fd` shows.
    pub inode: u32,
}

/// The processes that may hold a socket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SocketHolders {
    /// Processes that hold it.
    pub holders: Vec<Process>,
    /// Processes of the same user that hide their descriptors.
    pub hidden: Vec<Process>,
}

/// The process that listens at a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortHolder {
    /// The user who opened the port.
    pub uid: u32,
    /// The process; none if its user hides it.
    pub process: Option<Process>,
    name: String,
}

/// One entry of the kernel's table of sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SocketEntry {
    pub(crate) state: SocketState,
    pub(crate) socket: PeerSocket,
}

/// The state of a TCP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SocketState {
    Established,
    Listening,
    /// Any other state: the connection opens or closes.
    #[cfg_attr(target_os = "macos", expect(dead_code, reason = "no socket is found there"))]
    Changing,
}

/// Returns the peer of the connection between our address `local` and the peer's address `remote`.
///
/// Blocks for some microseconds; for some milliseconds if the peer is not found.
pub fn tcp_peer(local: SocketAddr, remote: SocketAddr) -> TcpPeer {
    for lookup in 0..MAX_LOOKUPS {
        if lookup > 0 {
            thread::sleep(LOOKUP_PAUSE);
        }
        // The peer's socket has the two addresses in the other order.
        match system::find_socket(remote, local) {
            Ok(Some(entry)) if entry.state != SocketState::Listening => {
                return match entry.socket.inode {
                    0 => TcpPeer::Closed,
                    _ => TcpPeer::Open(entry.socket),
                };
            }
            Ok(_) => match system::find_socket(local, remote) {
                Ok(Some(own)) if own.state == SocketState::Established => {}
                Ok(_) => return TcpPeer::Closed,
                Err(_) => return TcpPeer::Unknown,
            },
            Err(_) => return TcpPeer::Unknown,
        }
    }
    // Both ends of a connection between loopback addresses are sockets of this machine and this network namespace.
    if remote.ip().to_canonical().is_loopback() { TcpPeer::Closed } else { TcpPeer::Unknown }
}

/// Returns the holder of a port of the loopback address. Blocks for some milliseconds.
pub fn port_holder(port: u16) -> Option<PortHolder> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    // No connection has the remote address zero: only a listener matches.
    let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
    let entry = system::find_socket(address, nowhere)
        .ok()
        .flatten()
        .filter(|it| it.state == SocketState::Listening)?;
    let holders = system::socket_holders(entry.socket).holders;
    let process = holders.first().copied();
    let name = process.and_then(|process| process_name(process.pid));
    Some(PortHolder { uid: entry.socket.uid, process, name: name.unwrap_or_default() })
}

impl fmt::Display for PortHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.process {
            // A process chooses its own name.
            Some(Process { pid, .. }) => {
                let name: String = self.name.trim().escape_debug().collect();
                write!(f, "pid {pid} ({name}) of uid {}", self.uid)
            }
            None => write!(f, "a process of uid {}", self.uid),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write as _,
        net::{Ipv6Addr, TcpListener, TcpStream},
        time::Instant,
    };

    use super::*;

    fn connect(listener: &TcpListener, at: impl std::net::ToSocketAddrs) -> (TcpStream, TcpStream) {
        let client = TcpStream::connect(at).unwrap();
        let (server, _) = listener.accept().unwrap();
        (client, server)
    }

    fn peer_of(server: &TcpStream) -> TcpPeer {
        tcp_peer(server.local_addr().unwrap(), server.peer_addr().unwrap())
    }

    #[test]
    fn a_peer_of_this_machine_is_known_by_its_user_and_held_by_its_process() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(host) else { continue };
            let (client, server) = connect(&listener, listener.local_addr().unwrap());
            let TcpPeer::Open(socket) = peer_of(&server) else { panic!("{host}") };
            assert_eq!(socket.uid, rustix::process::geteuid().as_raw());
            let inode = rustix::fs::fstat(&client).unwrap().st_ino;
            assert_eq!(u64::from(socket.inode), inode);
            let ours = Process::of(std::process::id()).unwrap();
            assert_eq!(system::socket_holders(socket).holders, [ours]);
        }
    }

    #[test]
    fn a_peer_with_an_ipv6_socket_for_an_ipv4_address_is_known() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mapped = Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0x7f00, 1);
        let Ok(client) = TcpStream::connect((mapped, listener.local_addr().unwrap().port())) else {
            return;
        };
        let (server, _) = listener.accept().unwrap();
        let TcpPeer::Open(socket) = peer_of(&server) else { panic!() };
        assert_eq!(u64::from(socket.inode), rustix::fs::fstat(&client).unwrap().st_ino);
    }

    #[test]
    fn a_peer_that_sent_its_request_and_went_is_closed_and_not_unknown() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        for resets in [false, true] {
            let (mut client, server) = connect(&listener, listener.local_addr().unwrap());
            client.write_all(b"request").unwrap();
            if resets {
                rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
            }
            let addresses = (server.local_addr().unwrap(), client.local_addr().unwrap());
            drop(client);
            assert_eq!(tcp_peer(addresses.0, addresses.1), TcpPeer::Closed, "{resets}");
        }
    }

    #[test]
    fn a_half_closed_peer_is_still_open() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (client, server) = connect(&listener, listener.local_addr().unwrap());
        client.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(matches!(peer_of(&server), TcpPeer::Open(_)));
    }

    #[test]
    fn the_holder_of_a_port_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let ours = (rustix::process::geteuid().as_raw(), Process::of(std::process::id()));
        let holder = port_holder(port).unwrap();
        assert_eq!((holder.uid, holder.process), ours);
        assert!(holder.to_string().starts_with(&format!("pid {} (", std::process::id())));
        drop(listener);
        assert_eq!(port_holder(port), None);
    }

    #[test]
    fn a_lookup_is_fast() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (_client, server) = connect(&listener, listener.local_addr().unwrap());
        let fastest = (0..100).map(|_| {
            let start = Instant::now();
            assert!(matches!(peer_of(&server), TcpPeer::Open(_)));
            start.elapsed()
        });
        let fastest = fastest.min().unwrap();
        assert!(fastest < Duration::from_millis(1), "{fastest:?}");
    }
}
