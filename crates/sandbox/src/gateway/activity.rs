//! The end of a connection on which nothing moves.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use agent_worker_protocol::sync;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, sleep_until},
};

/// The time at which bytes moved last. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Activity(Arc<Mutex<Instant>>);

/// A stream that notes when bytes move.
pub(super) struct WatchedStream<S> {
    stream: S,
    activity: Activity,
}

impl Activity {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    pub(super) fn watch<S>(&self, stream: S) -> WatchedStream<S> {
        WatchedStream { stream, activity: self.clone() }
    }

    /// Waits until nothing has moved for this time.
    pub(super) async fn wait_idle(&self, most: Duration) {
        loop {
            let end = *sync::lock(&self.0) + most;
            if Instant::now() >= end {
                return;
            }
            sleep_until(end).await;
        }
    }

    fn note<T>(&self, step: &Poll<T>) {
        if step.is_ready() {
            *sync::lock(&self.0) = Instant::now();
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WatchedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.activity.note(&read);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WatchedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, data);
        self.activity.note(&written);
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
