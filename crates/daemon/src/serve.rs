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
    http::Site,
    impatient::{Impatient, PATIENCE},
    pacing::Pace,
    peer::{Caller, Peer},
};

/// How long to wait when the machine has no descriptor left for another connection.
const OUT_OF_BREATH: Duration = Duration::from_millis(50);

/// How many may be on the port at once: whoever they are, they leave descriptors for the socket and the workers.
pub(crate) const MOST_VISITORS: usize = 256;

/// The send buffer of a connection that carries a stream of events: a few of them.
const STREAM_BUFFER: usize = 4 * 1024;

/// What every connection is served with.
#[derive(Clone)]
pub(crate) struct Doorway {
    pub(crate) site: Site,
    pub(crate) kernel: Kernel,
    pub(crate) tracker: TaskTracker,
    /// Stops accepting, and lets each connection end after the answer it is giving.
    pub(crate) closing: CancellationToken,
}

impl Doorway {
    /// Serves the Unix socket.
    pub(crate) fn open_socket(&self, listener: UnixListener) {
        let doorway = self.clone();
        self.tracker.spawn(async move {
            while let Some(accepted) = doorway.next(listener.accept()).await {
                let Some((stream, _)) = doorway.survive(accepted).await else { continue };
                let visit = doorway.clone();
                doorway.tracker.spawn(async move {
                    let caller = Caller::of(&stream, &visit.kernel).await;
                    visit.attend(stream, Peer::Socket(caller), narrow).await;
                });
            }
        });
    }

    /// Serves the loopback port.
    pub(crate) fn open_port(&self, listener: TcpListener) {
        let doorway = self.clone();
        let room = Arc::new(Semaphore::new(MOST_VISITORS));
        self.tracker.spawn(async move {
            loop {
                let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
                let Some(accepted) = doorway.next(listener.accept()).await else { return };
                let Some((stream, _)) = doorway.survive(accepted).await else { continue };
                // Answers are small and waited for.
                let _ = stream.set_nodelay(true);
                let visit = doorway.clone();
                doorway.tracker.spawn(async move {
                    // A small send buffer and delayed acknowledgements would slow each other down.
                    visit.attend(stream, Peer::Network, |_| {}).await;
                    drop(place);
                });
            }
        });
    }

    async fn next<T>(&self, accept: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            accepted = accept => Some(accepted),
            () = self.closing.cancelled() => None,
        }
    }

    /// A connection that failed before it was accepted is no reason to stop accepting.
    async fn survive<T>(&self, accepted: io::Result<T>) -> Option<T> {
        match accepted {
            Ok(connection) => Some(connection),
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(OUT_OF_BREATH).await;
                None
            }
        }
    }

    async fn attend<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
        peer: Peer,
        narrow: fn(&S),
    ) {
        let pace = Pace::default();
        let paced = &pace;
        let service = service_fn(|request: Request<Incoming>| async move {
            let answer = self.site.clone().answer(peer, request.map(Body::new)).await;
            Ok::<_, Infallible>(paced.apply(answer))
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(PATIENCE)
            .serve_connection(TokioIo::new(Impatient::new(stream, pace.clone(), narrow)), service);
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
fn narrow(stream: &UnixStream) {
    if let Err(error) = rustix::net::sockopt::set_socket_send_buffer_size(stream, STREAM_BUFFER) {
        tracing::debug!(%error, "a stream keeps its large send buffer");
    }
}
