//! TCP sockets in the kernel's table, and the processes that hold them.
//!
//! The kernel returns uid and inode of a socket for two addresses (netlink `sock_diag`), in some tens of microseconds.
//! Reading `/proc/net/tcp` instead takes milliseconds. The request and the reply are the two fixed structures of
//! `linux/inet_diag.h`, so this file encodes them itself.

use std::{
    fs, io,
    net::{IpAddr, SocketAddr},
    os::unix::fs::MetadataExt as _,
};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType,
    netlink::{self, SocketAddrNetlink},
    recv, sendto, socket_with,
};

use crate::{
    process_tree::Process,
    tcp_peer::{PeerSocket, SocketEntry, SocketHolders, SocketState},
};

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
pub(crate) fn find_socket(own: SocketAddr, remote: SocketAddr) -> io::Result<Option<SocketEntry>> {
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

fn decode_reply(reply: &[u8]) -> io::Result<Option<SocketEntry>> {
    let kind = reply.get(4..6).and_then(|bytes| Some(u16::from_ne_bytes(bytes.try_into().ok()?)));
    match kind {
        Some(SOCK_DIAG_BY_FAMILY) if reply.len() >= REPLY_BYTES => {
            let (Some(uid), Some(inode)) = (number(reply, UID_OFFSET), number(reply, INODE_OFFSET))
            else {
                return Err(io::ErrorKind::InvalidData.into());
            };
            let state = match reply[HEADER_BYTES + 1] {
                ESTABLISHED => SocketState::Established,
                LISTEN => SocketState::Listening,
                _ => SocketState::Changing,
            };
            Ok(Some(SocketEntry { state, socket: PeerSocket { uid, inode } }))
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
    use super::*;

    #[test]
    fn a_reply_that_is_cut_off_or_of_another_kind_is_an_error() {
        for reply in [&[][..], &[0; 16], &[0; REPLY_BYTES]] {
            assert!(decode_reply(reply).is_err());
        }
    }
}
