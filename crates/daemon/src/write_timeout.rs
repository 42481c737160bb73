//! A connection that breaks if its peer stops reading.
//!
//! Buffers of a fixed size hold pending output; after that, a peer that does not read blocks only itself, occupies
//! a connection that others may need, and is disconnected. No data is lost: an event stream resumes after the last
//! event received.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

use crate::backpressure::Backpressure;

/// Maximum time for which the peer may accept no pending output, and maximum time to send a request.
pub(crate) const PEER_TIMEOUT: Duration = Duration::from_secs(15);

/// A stream whose writes time out.
pub(crate) struct WriteTimeoutStream<S> {
    stream: S,
    backpressure: Backpressure,
    /// Shrinks the send buffer, once the stream turns out to be endless.
    shrink_buffer: Option<fn(&S)>,
    /// Timer of the pending write.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteTimeoutStream<S> {
    /// Creates a stream that reports its state to `backpressure`; `shrink_buffer` is called once for an endless
    /// stream.
    pub(crate) fn new(stream: S, backpressure: Backpressure, shrink_buffer: fn(&S)) -> Self {
        Self { stream, backpressure, shrink_buffer: Some(shrink_buffer), stalled: None }
    }

    fn shrink_buffer_if_endless(&mut self) {
        if self.shrink_buffer.is_some()
            && self.backpressure.is_endless()
            && let Some(shrink_buffer) = self.shrink_buffer.take()
        {
            shrink_buffer(&self.stream);
        }
    }

    /// Passes a completed write through, and applies the timeout to a pending one.
    fn apply_timeout<T>(
        &mut self,
        cx: &mut Context<'_>,
        write: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if write.is_ready() {
            if self.stalled.take().is_some() {
                self.backpressure.resume();
            }
            return write;
        }
        if self.stalled.is_none() {
            self.backpressure.stall();
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(PEER_TIMEOUT)));
        stalled.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeoutStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeoutStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.shrink_buffer_if_endless();
        let write = Pin::new(&mut self.stream).poll_write(cx, data);
        self.apply_timeout(cx, write)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.shrink_buffer_if_endless();
        let write = Pin::new(&mut self.stream).poll_write_vectored(cx, data);
        self.apply_timeout(cx, write)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _, duplex},
        time::Instant,
    };

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_is_served_and_a_stalled_reader_is_cut() {
        let (ours, mut theirs) = duplex(4);
        let mut ours = WriteTimeoutStream::new(ours, Backpressure::default(), |_| {});
        let slow = async {
            let mut part = [0; 4];
            for _ in 0..5 {
                sleep(PEER_TIMEOUT * 9 / 10).await;
                theirs.read_exact(&mut part).await.unwrap();
            }
        };
        tokio::join!(async { ours.write_all(&[7; 24]).await.unwrap() }, slow);
        let begun = Instant::now();
        let cut = ours.write_all(&[7]).await.unwrap_err();
        assert_eq!((cut.kind(), begun.elapsed()), (io::ErrorKind::TimedOut, PEER_TIMEOUT));
    }
}
