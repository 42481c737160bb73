//! The accept loops: one site behind two listeners. Who is on the other end is found out once per connection.

use std::{convert::Infallible, io, sync::Arc, time::Duration};

use agent_worker_kernel::Kernel;
use axum::body::Body;
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener},
    sync::Semaphore,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    http::Site,
    impatient::Impatient,
    peer::{Caller, Peer},
};

/// How long to wait when the machine has no descriptor left for another connection.
const OUT_OF_BREATH: Duration = Duration::from_millis(50);

/// How many may be on the port at once: whoever they are, they leave descriptors for the socket and the workers.
pub(crate) const MOST_VISITORS: usize = 256;

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
                    visit.attend(stream, Peer::Socket(caller)).await;
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
                    visit.attend(stream, Peer::Network).await;
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

    async fn attend(&self, stream: impl AsyncRead + AsyncWrite + Unpin, peer: Peer) {
        let service = service_fn(|request: Request<Incoming>| async move {
            Ok::<_, Infallible>(self.site.clone().answer(peer, request.map(Body::new)).await)
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .serve_connection(TokioIo::new(Impatient::new(stream)), service);
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
