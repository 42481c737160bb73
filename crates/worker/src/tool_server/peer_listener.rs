//! Accepts connections of the processes below this worker, and of no other process.
//!
//! The token of a tool server is readable for every process of the user, so the token alone does not prove that its
//! holder is the agent of this worker.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use agent_worker_host::{
    ConnectionLimits, ConnectionPlace, PeerSocket, SocketHolders, TcpPeer, descendants,
    holders_among, run_blocking, socket_holders, tcp_peer,
};
use axum::{
    extract::connect_info::Connected,
    serve::{IncomingStream, Listener},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
};

/// Maximum number of connections of the programs of one turn.
const MAX_CONNECTIONS: usize = 128;
/// Backoff after the process has run out of file descriptors.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);

/// The listener of a tool server.
pub(super) struct PeerListener {
    listener: TcpListener,
    limits: ConnectionLimits,
}

/// The place of a connection, for the check of the token.
#[derive(Clone, Debug)]
pub(super) struct PeerPlace(Arc<ConnectionPlace>);

/// A connection that ends when it loses its place.
pub(super) struct PlacedStream {
    stream: TcpStream,
    /// None after the connection has lost its place.
    expired: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl PeerListener {
    pub(super) fn new(listener: TcpListener) -> Self {
        Self { listener, limits: ConnectionLimits::new(MAX_CONNECTIONS, MAX_CONNECTIONS) }
    }

    async fn accept_peer(&self) -> io::Result<Option<TcpStream>> {
        let (stream, remote) = self.listener.accept().await?;
        Ok(is_own_peer(stream.local_addr()?, remote).await.then_some(stream))
    }
}

impl Listener for PeerListener {
    type Io = PlacedStream;
    type Addr = PeerPlace;

    async fn accept(&mut self) -> (PlacedStream, PeerPlace) {
        loop {
            match self.accept_peer().await {
                Ok(Some(stream)) => {
                    self.limits.wait_for_room().await;
                    let place = self.limits.admit();
                    let watched = Arc::clone(&place);
                    let expired: Pin<Box<dyn Future<Output = ()> + Send>> =
                        Box::pin(async move { watched.expired().await });
                    return (PlacedStream { stream, expired: Some(expired) }, PeerPlace(place));
                }
                Ok(None) => {}
                Err(_) => tokio::time::sleep(ACCEPT_BACKOFF).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<PeerPlace> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl Connected<IncomingStream<'_, PeerListener>> for PeerPlace {
    fn connect_info(stream: IncomingStream<'_, PeerListener>) -> Self {
        stream.remote_addr().clone()
    }
}

impl PeerPlace {
    /// Records that the connection had a valid token.
    pub(super) fn keep(&self) {
        // There is one token, so its limit is the limit of all.
        self.0.keep(String::new());
    }
}

impl AsyncRead for PlacedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.expired.as_mut().is_none_or(|expired| expired.as_mut().poll(cx).is_ready()) {
            this.expired = None;
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Pin::new(&mut this.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for PlacedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Returns true if the peer is this process or a process below it.
async fn is_own_peer(local: SocketAddr, remote: SocketAddr) -> bool {
    match tcp_peer(local, remote) {
        TcpPeer::Open(socket) if socket.uid == rustix::process::geteuid().as_raw() => {
            run_blocking(move || is_held_below(socket)).await.unwrap_or_default()
        }
        TcpPeer::Open(_) | TcpPeer::Closed => false,
        // A system that does not tell the peer: the token decides.
        TcpPeer::Unknown => true,
    }
}

/// Returns true if this process or a process below it holds the socket.
fn is_held_below(socket: PeerSocket) -> bool {
    let own = std::process::id();
    let tree = descendants(own).into_iter().map(|process| process.pid).chain([own]);
    let SocketHolders { holders, hidden } = holders_among(socket, tree);
    // Some programs hide their descriptors (Codex). Then no process outside may hold the socket.
    !holders.is_empty() || !hidden.is_empty() && socket_holders(socket).holders.is_empty()
}
