//! Backpressure of event streams: the daemon produces events only as fast as the client reads them.
//!
//! While the connection cannot write, its body is not polled: a stalled client costs nothing, however many events
//! occur, until it reads again or is disconnected. Such a stream gets a small send buffer, so that a stall shows
//! after a few events and not after hundreds.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll, Waker},
};

use agent_worker_protocol::sync;

use axum::{
    body::{Body, HttpBody},
    response::Response,
};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};

/// Marks a response, as an extension, as a stream without an end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndlessStream;

/// Write readiness of a connection, shared by the connection and the body that it sends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Backpressure(Arc<Mutex<BackpressureState>>);

#[derive(Debug, Default)]
struct BackpressureState {
    is_endless: bool,
    is_stalled: bool,
    body: Option<Waker>,
}

impl Backpressure {
    /// Applies backpressure to an endless stream; other responses stay unchanged.
    pub(crate) fn apply_to_response(&self, answer: Response) -> Response {
        if answer.extensions().get::<EndlessStream>().is_none() {
            return answer;
        }
        self.lock().is_endless = true;
        answer.map(|body| Body::new(BackpressuredBody { body, backpressure: self.clone() }))
    }

    /// Returns true if the connection carries an endless stream.
    pub(crate) fn is_endless(&self) -> bool {
        self.lock().is_endless
    }

    /// Records that the connection cannot write at the moment.
    pub(crate) fn stall(&self) {
        self.lock().is_stalled = true;
    }

    /// Records that the connection has written.
    pub(crate) fn resume(&self) {
        let mut state = self.lock();
        state.is_stalled = false;
        if let Some(body) = state.body.take() {
            body.wake();
        }
    }

    /// Completes when the connection can write.
    fn poll_ready(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if !state.is_stalled {
            return Poll::Ready(());
        }
        state.body = Some(cx.waker().clone());
        Poll::Pending
    }

    fn lock(&self) -> MutexGuard<'_, BackpressureState> {
        sync::lock(&self.0)
    }
}

/// A body that is polled only while its connection can write.
struct BackpressuredBody {
    body: Body,
    backpressure: Backpressure,
}

impl HttpBody for BackpressuredBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        std::task::ready!(self.backpressure.poll_ready(cx));
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
