//! A guard that lasts as long as a response, however the response ends.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};

/// Runs an action once, on drop.
pub(super) struct RunOnDrop(Option<Box<dyn FnOnce() + Send>>);

impl RunOnDrop {
    pub(super) fn new(action: impl FnOnce() + Send + 'static) -> Self {
        Self(Some(Box::new(action)))
    }

    /// Keeps the guard until `body` ends or its reader disconnects.
    pub(super) fn attach_to_body(self, body: Body) -> Body {
        Body::new(GuardedBody { body, _guard: self })
    }
}

impl Drop for RunOnDrop {
    fn drop(&mut self) {
        if let Some(action) = self.0.take() {
            action();
        }
    }
}

struct GuardedBody {
    body: Body,
    _guard: RunOnDrop,
}

impl HttpBody for GuardedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
