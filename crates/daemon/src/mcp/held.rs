//! An answer that is noted as long as it lasts, however it ends.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};

/// Does something once, when it is dropped.
pub(super) struct Held(Option<Box<dyn FnOnce() + Send>>);

impl Held {
    pub(super) fn new(afterwards: impl FnOnce() + Send + 'static) -> Self {
        Self(Some(Box::new(afterwards)))
    }

    /// Holds until `body` is over, or whoever reads it has gone.
    pub(super) fn over(self, body: Body) -> Body {
        Body::new(Lasting { body, _held: self })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(afterwards) = self.0.take() {
            afterwards();
        }
    }
}

struct Lasting {
    body: Body,
    _held: Held,
}

impl HttpBody for Lasting {
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
