//! Passes listeners of the sandbox's loopback to the process outside, over a socket in a private folder.
//!
//! Invariant: the socket takes one connection. It is closed when the listeners have arrived, so the program, which starts
//! later, finds nothing behind it.

use std::{
    fs::{self, File},
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    net::{Ipv4Addr, TcpListener as StdTcpListener},
    os::{
        fd::{AsFd as _, AsRawFd as _, OwnedFd},
        unix::net::{UnixListener as StdUnixListener, UnixStream as StdUnixStream},
    },
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use agent_worker_host::{descendants, run_blocking};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use tokio::{
    io::Interest,
    net::{TcpListener, UnixListener, UnixStream},
};

use super::{GATEWAY_SOCKET, GatewayPlan};
use crate::{error::SandboxError, system::RECEIVE_FLAGS};

/// Maximum number of listeners of one sandbox.
pub(super) const MAX_LISTENERS: usize = 64;
/// The text of the message that carries the listeners; a message without text carries nothing.
const HANDOFF_TEXT: &[u8] = b"n";
/// Numbers the sockets of this process.
static NEXT_SOCKET: AtomicU64 = AtomicU64::new(1);

/// The socket that waits for the listeners.
#[derive(Debug)]
pub(super) struct HandoffSocket {
    listener: StdUnixListener,
    file: SocketFile,
}

/// The file of the socket, removed with this value.
#[derive(Debug)]
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // A file that stays leads nowhere.
        let _ = fs::remove_file(&self.0);
    }
}

impl HandoffSocket {
    /// Opens the socket in a folder, and returns its path.
    pub(super) fn open(folder: &Path) -> io::Result<(Self, PathBuf)> {
        let number = NEXT_SOCKET.fetch_add(1, Ordering::Relaxed);
        let name = format!("network-{}-{number}.sock", std::process::id());
        let path = folder.join(&name);
        // That of a process with the same pid, which is dead.
        let _ = fs::remove_file(&path);
        // A socket's path is short; through a descriptor the folder may have any length.
        let opened = File::open(folder)?;
        let short = format!("/proc/self/fd/{}/{name}", opened.as_raw_fd());
        let listener = StdUnixListener::bind(short)?;
        listener.set_nonblocking(true)?;
        Ok((Self { listener, file: SocketFile(path.clone()) }, path))
    }

    /// Waits for the listeners: that of the proxy, then those of the plan in their order.
    pub(super) async fn receive(self) -> io::Result<Vec<TcpListener>> {
        let Self { listener, file } = self;
        let listener = UnixListener::from_std(listener)?;
        let stream = accept_below(&listener).await?;
        drop((listener, file));
        let received = stream.async_io(Interest::READABLE, || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_LISTENERS))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut text = [0; HANDOFF_TEXT.len()];
            recvmsg(&stream, &mut [IoSliceMut::new(&mut text)], &mut control, RECEIVE_FLAGS)?;
            let messages = control.drain().filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
                _ => None,
            });
            Ok(messages.flatten().collect::<Vec<OwnedFd>>())
        });
        let descriptors = received.await?;
        if descriptors.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let listener = |descriptor: OwnedFd| {
            let listener = StdTcpListener::from(descriptor);
            listener.set_nonblocking(true)?;
            TcpListener::from_std(listener)
        };
        descriptors.into_iter().map(listener).collect()
    }
}

/// Waits for a connection of a process below this one. Any other process of the user may find the socket, too.
async fn accept_below(listener: &UnixListener) -> io::Result<UnixStream> {
    loop {
        let (stream, _) = listener.accept().await?;
        let peer = stream.peer_cred()?.pid().and_then(|pid| u32::try_from(pid).ok());
        let tree = run_blocking(|| descendants(std::process::id())).await.unwrap_or_default();
        if tree.iter().any(|process| Some(process.pid) == peer) {
            return Ok(stream);
        }
    }
}

/// Opens the ports of a plan on the loopback of the sandbox and passes them out. Returns the port of the proxy.
pub(crate) fn pass_listeners(plan: &GatewayPlan) -> Result<u16, SandboxError> {
    let failed = SandboxError::during::<io::Error>("open the network of the sandbox");
    let mut listeners = Vec::new();
    for address in &plan.forwarded {
        let bound = StdTcpListener::bind(address);
        let port = address.port();
        listeners.push(bound.map_err(|error| SandboxError::Forward { port, error })?);
    }
    // Last, so that its port is none of the others.
    let proxy = StdTcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(&failed)?;
    let port = proxy.local_addr().map_err(&failed)?.port();
    listeners.insert(0, proxy);
    let descriptors: Vec<_> = listeners.iter().map(|listener| listener.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_LISTENERS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    let stream = StdUnixStream::connect(GATEWAY_SOCKET).map_err(&failed)?;
    let text = [IoSlice::new(HANDOFF_TEXT)];
    sendmsg(&stream, &text, &mut control, SendFlags::empty())
        .map_err(SandboxError::during("pass the network of the sandbox"))?;
    Ok(port)
}
