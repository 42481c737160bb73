//! The process at the other end of a TCP connection of this machine: its uid, and the processes that hold its socket.
//!
//! The kernel returns uid and inode of the peer's socket for the two addresses of the connection (netlink `sock_diag`), in
//! some tens of microseconds. Reading `/proc/net/tcp` instead takes milliseconds. The request and the reply are the two
//! fixed structures of `linux/inet_diag.h`, so this file encodes them itself.
//!
//! A process can send a request and close its socket before the other side looks. Such a peer is [`TcpPeer::Closed`] and
//! never unknown: the bytes that it sent are still readable.

use std::{
    fmt, fs, io,
    net::{IpAddr, SocketAddr},
    os::unix::fs::MetadataExt as _,
    thread,
    time::Duration,
};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType,
    netlink::{self, SocketAddrNetlink},
    recv, sendto, socket_with,
};

use crate::{process_tree::Process, procfs::process_name};

/// The type `SOCK_DIAG_BY_FAMILY` of a request and of its reply.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// The index of the interface `lo`, the same in every network namespace.
const LOOPBACK_INTERFACE: u32 = 1;
/// The flag `NLM_F_REQUEST`.
const REQUEST_FLAG: u16 = 1;
/// The type `NLMSG_ERROR` of a reply.
const NLMSG_ERROR: u16 = 2;
/// Length of `nlmsghdr`.
const HEADER_BYTES: usize = 16;
/// Length of `nlmsghdr` and `inet_diag_req_v2`.
const REQUEST_BYTES: usize = HEADER_BYTES + 56;
/// Length of `nlmsghdr` and `inet_diag_msg`.
const REPLY_BYTES: usize = HEADER_BYTES + 72;
/// Offsets of the last fields of `inet_diag_msg`.
const UID_OFFSET: usize = HEADER_BYTES + 64;
const INODE_OFFSET: usize = HEADER_BYTES + 68;
/// Offset of the error number in a reply of the type `NLMSG_ERROR`.
const ERROR_OFFSET: usize = HEADER_BYTES;

const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IPPROTO_TCP: u8 = 6;
/// The states of a socket in `inet_diag_msg`.
const ESTABLISHED: u8 = 1;
const LISTEN: u8 = 10;
const ENOENT: i32 = 2;

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
struct DiagEntry {
    state: u8,
    socket: PeerSocket,
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
        match find_socket(remote, local) {
            Ok(Some(entry)) if entry.state != LISTEN => {
                return match entry.socket.inode {
                    0 => TcpPeer::Closed,
                    _ => TcpPeer::Open(entry.socket),
                };
            }
            Ok(_) => match find_socket(local, remote) {
                Ok(Some(own)) if own.state == ESTABLISHED => {}
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
    let entry = find_socket(address, nowhere).ok().flatten().filter(|it| it.state == LISTEN)?;
    let holders = socket_holders(entry.socket).holders;
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

/// Returns the processes that hold `socket`. Reads the descriptors of every process of its user, so it takes
/// milliseconds.
pub fn socket_holders(socket: PeerSocket) -> SocketHolders {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    holders_among(socket, pids)
}

/// Returns the processes among `pids` that hold `socket`.
pub fn holders_among(socket: PeerSocket, pids: impl IntoIterator<Item = u32>) -> SocketHolders {
    let mut found = SocketHolders::default();
    let pids: Vec<u32> = pids.into_iter().collect();
    for pid in pids.iter().copied() {
        match holds_inode(&format!("/proc/{pid}/fd"), socket.inode) {
            Ok(true) => found.holders.extend(Process::of(pid)),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                found.hidden.extend(Process::of(pid).filter(|_| has_user(pid, socket.uid)));
            }
            // An error means that the process has ended.
            Ok(false) | Err(_) => {}
        }
    }
    // A thread may have left the table of its process (`unshare`). This takes several times as long.
    if found.holders.is_empty() {
        let holders = pids.into_iter().filter(|pid| thread_holds_inode(*pid, socket.inode));
        found.holders.extend(holders.filter_map(Process::of));
    }
    found
}

/// Returns true if a thread of the process holds the socket in a table of descriptors of its own.
fn thread_holds_inode(pid: u32, inode: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads
        .map(|thread| thread.path().join("fd").to_string_lossy().into_owned())
        .any(|table| holds_inode(&table, inode).unwrap_or_default())
}

fn holds_inode(table: &str, inode: u32) -> io::Result<bool> {
    let wanted = format!("socket:[{inode}]");
    let entries = fs::read_dir(table)?.flatten();
    let mut targets = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
    Ok(targets.any(|target| target.as_os_str() == wanted.as_str()))
}

/// Returns true if the process runs as this user. A process that hides its descriptors has files of root in `/proc`; its
/// `status` still names its user.
fn has_user(pid: u32, uid: u32) -> bool {
    if fs::metadata(format!("/proc/{pid}")).is_ok_and(|it| it.uid() == uid) {
        return true;
    }
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    users.is_some_and(|users| users.split_whitespace().any(|one| one.parse() == Ok(uid)))
}

/// Returns the socket with these own and remote addresses, in any state; a listener at `own` if there is none.
fn find_socket(own: SocketAddr, remote: SocketAddr) -> io::Result<Option<DiagEntry>> {
    let netlink = socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        Some(netlink::SOCK_DIAG),
    )?;
    let kernel = SocketAddrNetlink::new(0, 0);
    sendto(&netlink, &encode_request(own, remote), SendFlags::empty(), &kernel)?;
    // The kernel has queued its reply before the request returns.
    let mut reply = [0; 512];
    let (_, length) = recv(&netlink, &mut reply, RecvFlags::DONTWAIT)?;
    decode_reply(&reply[..length.min(reply.len())])
}

fn encode_request(own: SocketAddr, remote: SocketAddr) -> [u8; REQUEST_BYTES] {
    let mut bytes = Vec::with_capacity(REQUEST_BYTES);
    bytes.extend(u32::try_from(REQUEST_BYTES).unwrap_or_default().to_ne_bytes());
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend(REQUEST_FLAG.to_ne_bytes());
    // Sequence number and port id.
    bytes.extend([0; 8]);
    let family = if own.is_ipv4() { AF_INET } else { AF_INET6 };
    // Family, protocol, extensions, padding, states.
    bytes.extend([family, IPPROTO_TCP, 0, 0]);
    bytes.extend(u32::MAX.to_ne_bytes());
    bytes.extend(own.port().to_be_bytes());
    bytes.extend(remote.port().to_be_bytes());
    bytes.extend(address_bytes(own.ip()));
    bytes.extend(address_bytes(remote.ip()));
    // A socket that is bound to an interface is found only by its interface, other sockets by any.
    let interface = if own.ip().to_canonical().is_loopback() { LOOPBACK_INTERFACE } else { 0 };
    bytes.extend(interface.to_ne_bytes());
    // No cookie.
    bytes.extend([u8::MAX; 8]);
    let mut request = [0; REQUEST_BYTES];
    request.copy_from_slice(&bytes);
    request
}

/// Returns an address in the form of `inet_diag_sockid`.
fn address_bytes(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&address.octets());
            bytes
        }
        IpAddr::V6(address) => address.octets(),
    }
}

fn decode_reply(reply: &[u8]) -> io::Result<Option<DiagEntry>> {
    let kind = reply.get(4..6).and_then(|bytes| Some(u16::from_ne_bytes(bytes.try_into().ok()?)));
    match kind {
        Some(SOCK_DIAG_BY_FAMILY) if reply.len() >= REPLY_BYTES => {
            let (Some(uid), Some(inode)) = (number(reply, UID_OFFSET), number(reply, INODE_OFFSET))
            else {
                return Err(io::ErrorKind::InvalidData.into());
            };
            let state = reply[HEADER_BYTES + 1];
            Ok(Some(DiagEntry { state, socket: PeerSocket { uid, inode } }))
        }
        Some(NLMSG_ERROR) => match number(reply, ERROR_OFFSET).map(u32::cast_signed) {
            Some(error) if error == -ENOENT => Ok(None),
            Some(error) => Err(io::Error::from_raw_os_error(error.saturating_neg())),
            None => Err(io::ErrorKind::InvalidData.into()),
        },
        Some(_) | None => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn number(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(offset..offset + 4)?.try_into().ok()?))
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
            assert_eq!(socket_holders(socket).holders, [ours]);
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

    #[test]
    fn a_reply_that_is_cut_off_or_of_another_kind_is_an_error() {
        for reply in [&[][..], &[0; 16], &[0; REPLY_BYTES]] {
            assert!(decode_reply(reply).is_err());
        }
    }
}
