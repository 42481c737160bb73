//! One connection to the daemon's socket: opened only to a listener of our own uid, used for one exchange at a time.
//!
//! No task runs the connection: the caller that awaits a response drives it, and dropping that future closes it.

use std::{
    error::Error as _,
    future::{Future, poll_fn},
    io,
    os::unix::ffi::OsStrExt as _,
    path::Path,
    pin::{Pin, pin},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{Request, Response, body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use tokio::{net::UnixStream, time::sleep};

use crate::{daemon_socket::DialError, socket_path::MAX_SOCKET_PATH_BYTES};

/// Maximum number of tries to connect to a listener whose queue is full.
const MAX_CONNECT_TRIES: u32 = 200;
const CONNECT_RETRY_PAUSE: Duration = Duration::from_millis(5);

/// Connection without an exchange in progress.
pub(crate) struct DaemonConnection {
    sender: http1::SendRequest<Full<Bytes>>,
    driver: ConnectionDriver,
}

/// Reason for which an exchange has no reply.
pub(crate) enum ExchangeError {
    /// The request did not leave, or not as a whole: the daemon cannot have acted on it.
    Unsent,
    /// The daemon may have acted on the request.
    Unanswered(hyper::Error),
}

impl DaemonConnection {
    /// Connects and verifies that the listener has our uid.
    pub(crate) async fn open(socket: &Path) -> Result<Self, DialError> {
        if socket.as_os_str().as_bytes().len() > MAX_SOCKET_PATH_BYTES {
            return Err(DialError::PathTooLong { socket: socket.to_owned() });
        }
        let stream = connect(socket).await.map_err(|source| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                DialError::Absent { socket: socket.to_owned(), source }
            }
            _ => DialError::Lost { source: source.into() },
        })?;
        let lost = |source: io::Error| DialError::Lost { source: source.into() };
        let uid = stream.peer_cred().map_err(lost)?.uid();
        check_same_user(uid, rustix::process::geteuid().as_raw())?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|source| DialError::Lost { source: source.into() })?;
        Ok(Self { sender, driver: ConnectionDriver(Some(connection)) })
    }

    /// Returns true if the other side is still connected, as far as this side can detect.
    pub(crate) async fn is_open(&mut self) -> bool {
        let Self { sender, driver: connection } = self;
        connection.drive_until(sender.ready()).await.is_ok()
    }

    /// Sends a request and waits for the head of its response.
    pub(crate) async fn send_request(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, ExchangeError> {
        let Self { sender, driver: connection } = self;
        connection.drive_until(sender.try_send_request(request)).await.map_err(|mut error| {
            let untouched = error.take_message().is_some();
            let error = error.into_error();
            if untouched || is_broken_pipe(&error) {
                ExchangeError::Unsent
            } else {
                ExchangeError::Unanswered(error)
            }
        })
    }

    /// Reads the rest of a response.
    pub(crate) async fn collect(&mut self, body: Incoming) -> Result<Bytes, hyper::Error> {
        Ok(self.driver.drive_until(body.collect()).await?.to_bytes())
    }

    /// Returns the driver, for reading a response without an end.
    pub(crate) fn into_driver(self) -> ConnectionDriver {
        self.driver
    }
}

/// Drives the connection while a caller awaits a response.
pub(crate) struct ConnectionDriver(Option<http1::Connection<TokioIo<UnixStream>, Full<Bytes>>>);

impl ConnectionDriver {
    /// Awaits `work`, which progresses through this connection.
    async fn drive_until<F: Future>(&mut self, work: F) -> F::Output {
        let mut work = pin!(work);
        poll_fn(|cx| self.poll_with(cx, |cx| work.as_mut().poll(cx))).await
    }

    /// Polls the connection, then `work`, so that `work` sees data that has just arrived, or a failure.
    pub(crate) fn poll_with<T>(
        &mut self,
        cx: &mut Context<'_>,
        work: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        if let Some(connection) = &mut self.0 {
            // `work` also receives the result of the connection.
            if Pin::new(connection).poll(cx).is_ready() {
                self.0 = None;
            }
        }
        work(cx)
    }
}

/// Connects, with retries while a listener whose queue is full returns `EAGAIN`.
async fn connect(socket: &Path) -> io::Result<UnixStream> {
    let mut tries = 0;
    loop {
        match UnixStream::connect(socket).await {
            Err(error)
                if error.kind() == io::ErrorKind::WouldBlock && tries < MAX_CONNECT_TRIES =>
            {
                tries += 1;
                sleep(CONNECT_RETRY_PAUSE).await;
            }
            other => return other,
        }
    }
}

fn check_same_user(peer: u32, own: u32) -> Result<(), DialError> {
    if peer == own { Ok(()) } else { Err(DialError::Impostor { uid: peer }) }
}

/// Returns true if the write failed: the other side had closed before the request was complete.
fn is_broken_pipe(error: &hyper::Error) -> bool {
    let cause = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_users_socket_is_an_impostor() {
        assert!(check_same_user(1000, 1000).is_ok());
        for (peer, own) in [(0, 1000), (1000, 0), (1001, 1000)] {
            assert!(
                matches!(check_same_user(peer, own), Err(DialError::Impostor { uid }) if uid == peer)
            );
        }
    }
}
