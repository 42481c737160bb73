//! The accept loops: one service behind two listeners. The caller is identified once per connection.

use std::{convert::Infallible, io, sync::Arc, time::Duration};

use agent_worker_host::{ConnectionLimits, KeyedLimit, KeyedPlace, tcp_peer};
use axum::body::Body;
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    backpressure::Backpressure,
    http::HttpService,
    peer::{Caller, Callers, NetworkPeer, Peer, admits_peer},
    write_timeout::{PEER_TIMEOUT, WriteTimeoutStream},
};

/// Backoff after the process has run out of file descriptors for a connection.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);

/// Maximum number of TCP connections, so that descriptors remain for the socket and the workers.
pub(crate) const MAX_TCP_CONNECTIONS: usize = 256;
/// Maximum number of TCP connections of one token.
pub(crate) const MAX_TCP_CONNECTIONS_PER_TOKEN: usize = 64;
/// Maximum number of connections to the socket by the processes of one attempt, and by all others that are not the user.
const MAX_SOCKET_CONNECTIONS_PER_CALLER: usize = 64;

/// Size of the send buffer of a connection that carries an event stream: space for a few events.
const STREAM_SEND_BUFFER_BYTES: usize = 4 * 1024;

/// The shared parts that serve every connection.
#[derive(Clone)]
pub(crate) struct Listeners {
    pub(crate) service: HttpService,
    pub(crate) callers: Callers,
    pub(crate) tracker: TaskTracker,
    /// Stops accepting, and closes each connection after its current response.
    pub(crate) closing: CancellationToken,
    /// Other users who may connect to the port.
    pub(crate) allowed_uids: Arc<[u32]>,
}

impl Listeners {
    /// Serves the Unix socket.
    pub(crate) fn serve_socket(&self, listener: UnixListener) {
        let listeners = self.clone();
        let limit = KeyedLimit::new(MAX_SOCKET_CONNECTIONS_PER_CALLER);
        self.tracker.spawn(async move {
            while let Some(accepted) = listeners.accept_next(listener.accept()).await {
                let Some((stream, _)) = listeners.accepted_or_backoff(accepted).await else {
                    continue;
                };
                let (handler, limit) = (listeners.clone(), limit.clone());
                listeners.tracker.spawn(async move {
                    let caller = handler.callers.of_stream(&stream).await;
                    let Ok(_place) = acquire_socket_place(&limit, caller) else {
                        tracing::warn!(?caller, "closed a connection: the caller has too many");
                        return;
                    };
                    handler
                        .serve_connection(stream, Peer::Socket(caller), shrink_send_buffer)
                        .await;
                });
            }
        });
    }

    /// Serves the loopback port.
    pub(crate) fn serve_port(&self, listener: TcpListener) {
        let listeners = self.clone();
        let limits = ConnectionLimits::new(MAX_TCP_CONNECTIONS, MAX_TCP_CONNECTIONS_PER_TOKEN);
        self.tracker.spawn(async move {
            while let Some(accepted) = listeners.accept_next(listener.accept()).await {
                let Some((stream, _)) = listeners.accepted_or_backoff(accepted).await else {
                    continue;
                };
                if listeners.accept_next(limits.wait_for_room()).await.is_none() {
                    return;
                }
                let Some(peer) = listeners.admit(&stream, &limits) else { continue };
                // Responses are small, and clients wait for them.
                let _ = stream.set_nodelay(true);
                let handler = listeners.clone();
                listeners.tracker.spawn(async move {
                    let place = Arc::clone(&peer.place);
                    // A small send buffer and delayed acknowledgements would slow each other down.
                    let served =
                        handler.serve_connection(stream, Peer::Network(Arc::new(peer)), |_| {});
                    tokio::select! {
                        () = served => {}
                        () = place.expired() => {}
                    }
                });
            }
        });
    }

    /// Gives a place to the connection of a user who may connect. Returns none for any other user.
    fn admit(&self, stream: &TcpStream, limits: &ConnectionLimits) -> Option<NetworkPeer> {
        let addresses = (stream.local_addr().ok()?, stream.peer_addr().ok()?);
        // Some tens of microseconds; a thread of its own would cost more.
        let peer = tcp_peer(addresses.0, addresses.1);
        let own_uid = rustix::process::geteuid().as_raw();
        if !admits_peer(peer, own_uid, &self.allowed_uids) {
            tracing::debug!(?peer, "refused a connection to the port");
            return None;
        }
        Some(NetworkPeer::new(addresses, peer, limits.admit()))
    }

    async fn accept_next<T>(&self, accept: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            accepted = accept => Some(accepted),
            () = self.closing.cancelled() => None,
        }
    }

    /// Returns an accepted connection, or waits after an error: a failed accept must not stop the loop.
    async fn accepted_or_backoff<T>(&self, accepted: io::Result<T>) -> Option<T> {
        match accepted {
            Ok(connection) => Some(connection),
            Err(error) => {
                tracing::warn!(%error, "could not accept a connection");
                tokio::time::sleep(ACCEPT_BACKOFF).await;
                None
            }
        }
    }

    async fn serve_connection<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
        peer: Peer,
        shrink_buffer: fn(&S),
    ) {
        let pace = Backpressure::default();
        let paced = &pace;
        let service = service_fn(|request: Request<Incoming>| {
            let peer = peer.clone();
            async move {
                let request = request.map(Body::new);
                let answer = self.service.clone().handle_request(peer, request).await;
                Ok::<_, Infallible>(paced.apply_to_response(answer))
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(PEER_TIMEOUT)
            .serve_connection(
                TokioIo::new(WriteTimeoutStream::new(stream, pace.clone(), shrink_buffer)),
                service,
            );
        tokio::pin!(connection);
        let result = tokio::select! {
            result = connection.as_mut() => result,
            () = self.closing.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = result {
            // Clients often disconnect in the middle of a request.
            tracing::debug!(%error, "a connection failed");
        }
    }
}

/// Takes a place for a connection to the socket; the user needs none. An error means that all places are taken.
fn acquire_socket_place(limit: &KeyedLimit, caller: Caller) -> Result<Option<KeyedPlace>, ()> {
    let key = match caller {
        Caller::User => return Ok(None),
        Caller::Attempt(attempt) => attempt.to_string(),
        Caller::Foreign | Caller::Leftover { .. } | Caller::Unidentified | Caller::Nobody => {
            "others".to_owned()
        }
    };
    limit.acquire(key).map(Some).ok_or(())
}

/// Shrinks the send buffer, so that a stalled reader shows after a few events.
fn shrink_send_buffer(stream: &UnixStream) {
    if let Err(error) =
        rustix::net::sockopt::set_socket_send_buffer_size(stream, STREAM_SEND_BUFFER_BYTES)
    {
        tracing::debug!(%error, "could not shrink the send buffer of a stream");
    }
}
