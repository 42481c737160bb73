//! A stream goes on only as long as the token that opened it.
//!
//! Taking a token back wakes every stream of a client, and each looks whether its own still counts: a wake says "look",
//! never "at what".

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use agent_worker_kernel::Kernel;
use axum::{
    body::{Body, HttpBody},
    http::{HeaderValue, header::CONTENT_TYPE},
    response::Response,
};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::sync::watch;

/// Tells open streams that some token was taken back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Revocations(watch::Sender<()>);

/// Hears of every token that is taken back from when it was made on.
pub(super) struct Ear(watch::Receiver<()>);

impl Revocations {
    /// A token is no good any more.
    pub(super) fn tell(&self) {
        self.0.send_replace(());
    }

    /// To be made before a token is looked at, so that nothing is missed after that.
    pub(super) fn listen(&self) -> Ear {
        Ear(self.0.subscribe())
    }
}

impl Ear {
    /// Lets an answer that is a stream go on until `token` is taken back. Other answers are over by themselves.
    pub(super) fn bind(self, answer: Response, kernel: &Kernel, token: String) -> Response {
        let kind = answer.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
        if kind.is_none_or(|kind| !kind.starts_with(b"text/event-stream")) {
            return answer;
        }
        let guard = Guard { ear: self, kernel: kernel.clone(), token };
        answer.map(|body| Body::new(Bound { body, state: State::Open(Box::pin(guard.hear())) }))
    }
}

/// What one stream has to know of its token.
struct Guard {
    ear: Ear,
    kernel: Kernel,
    token: String,
}

impl Guard {
    /// Waits until some token is taken back.
    async fn hear(mut self) -> Self {
        match self.ear.0.changed().await {
            Ok(()) => self,
            // The other end is the doors' own, so it is never gone.
            Err(_) => std::future::pending().await,
        }
    }

    /// Looks whether it was this one. Doubt says yes: whoever still has a good token asks again.
    async fn look(self) -> Option<Self> {
        self.kernel.principal(&self.token).await.is_ok().then_some(self)
    }
}

type Soon<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A body that ends with its token.
struct Bound {
    body: Body,
    state: State,
}

enum State {
    /// Its token was good when it was last looked at.
    Open(Soon<Guard>),
    /// Some token was taken back: nothing is told until it is known which.
    Looking(Soon<Option<Guard>>),
    /// Its own was.
    Over,
}

impl HttpBody for Bound {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        loop {
            this.state = match &mut this.state {
                State::Open(heard) => match heard.as_mut().poll(cx) {
                    Poll::Ready(guard) => State::Looking(Box::pin(guard.look())),
                    Poll::Pending => return Pin::new(&mut this.body).poll_frame(cx),
                },
                State::Looking(looked) => match ready!(looked.as_mut().poll(cx)) {
                    Some(guard) => State::Open(Box::pin(guard.hear())),
                    None => State::Over,
                },
                State::Over => {
                    this.body = Body::empty();
                    return Poll::Ready(None);
                }
            };
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
