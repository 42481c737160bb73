//! The accept loops: one site behind two listeners. Who is on the other end is found out once per connection.

use std::{convert::Infallible, io, sync::Arc, time::Duration};

use agent_worker_kernel::Kernel;
use axum::body::Body;
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener, UnixStream},
    sync::Semaphore,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    backpressure::Backpressure,
    http::HttpService,
    peer::{Caller, Peer},
    write_timeout::{PEER_TIMEOUT, WriteTimeoutStream},
};

/// How long to wait when the machine has no descriptor left for another connection.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);

/// How many may be on the port at once: whoever they are, they leave descriptors for the socket and the workers.
pub(crate) const MAX_TCP_CONNECTIONS: usize = 256;

/// The send buffer of a connection that carries a stream of events: a few of them.
const STREAM_SEND_BUFFER_BYTES: usize = 4 * 1024;

/// What every connection is served with.
#[derive(Clone)]
pub(crate) struct Listeners {
    pub(crate) service: HttpService,
    pub(crate) kernel: Kernel,
    pub(crate) tracker: TaskTracker,
    /// Stops accepting, and lets each connection end after the answer it is giving.
    pub(crate) closing: CancellationToken,
}

impl Listeners {
    /// Serves the Unix socket.
    pub(crate) fn serve_socket(&self, listener: UnixListener) {
        let listeners = self.clone();
        self.tracker.spawn(async move {
            while let Some(accepted) = listeners.accept_next(listener.accept()).await {
                let Some((stream, _)) = listeners.accepted_or_backoff(accepted).await else {
                    continue;
                };
                let handler = listeners.clone();
                listeners.tracker.spawn(async move {
                    let caller = Caller::of(&stream, &handler.kernel).await;
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
        let room = Arc::new(Semaphore::new(MAX_TCP_CONNECTIONS));
        self.tracker.spawn(async move {
            loop {
                let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
                let Some(accepted) = listeners.accept_next(listener.accept()).await else { return };
                let Some((stream, _)) = listeners.accepted_or_backoff(accepted).await else {
                    continue;
                };
                // Answers are small and waited for.
                let _ = stream.set_nodelay(true);
                let handler = listeners.clone();
                listeners.tracker.spawn(async move {
                    // A small send buffer and delayed acknowledgements would slow each other down.
                    handler.serve_connection(stream, Peer::Network, |_| {}).await;
                    drop(place);
                });
            }
        });
    }

    async fn accept_next<T>(&self, accept: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            accepted = accept => Some(accepted),
            () = self.closing.cancelled() => None,
        }
    }

    /// A connection that failed before it was accepted is no reason to stop accepting.
    async fn accepted_or_backoff<T>(&self, accepted: io::Result<T>) -> Option<T> {
        match accepted {
            Ok(connection) => Some(connection),
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
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
        let service = service_fn(|request: Request<Incoming>| async move {
            let answer = self.service.clone().handle_request(peer, request.map(Body::new)).await;
            Ok::<_, Infallible>(paced.apply_to_response(answer))
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
            // Visitors leave in the middle of a sentence all the time.
            tracing::debug!(%error, "a connection broke off");
        }
    }
}

/// Makes the send buffer small, so that a reader that does not read shows after a few events.
fn shrink_send_buffer(stream: &UnixStream) {
    if let Err(error) =
        rustix::net::sockopt::set_socket_send_buffer_size(stream, STREAM_SEND_BUFFER_BYTES)
    {
        tracing::debug!(%error, "a stream keeps its large send buffer");
    }
}
