//! Ends a stream when its token is revoked.
//!
//! A revocation wakes the streams of all clients, and each stream checks its own token: a wake is a signal to read,
//! and never carries data.

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

/// Notifies open streams that a token was revoked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Revocations(watch::Sender<()>);

/// Receives every revocation since its creation.
pub(super) struct RevocationListener(watch::Receiver<()>);

impl Revocations {
    /// Wakes all streams after a token was revoked.
    pub(super) fn notify_streams(&self) {
        self.0.send_replace(());
    }

    /// Creates a listener; call it before the token is checked, so that no later revocation is missed.
    pub(super) fn subscribe(&self) -> RevocationListener {
        RevocationListener(self.0.subscribe())
    }
}

impl RevocationListener {
    /// Binds a response that is a stream to `token`, and leaves other responses unchanged.
    pub(super) fn bind_stream(self, answer: Response, kernel: &Kernel, token: String) -> Response {
        let kind = answer.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
        if kind.is_none_or(|kind| !kind.starts_with(b"text/event-stream")) {
            return answer;
        }
        let guard = TokenGuard { listener: self, kernel: kernel.clone(), token };
        answer.map(|body| {
            Body::new(TokenBoundBody {
                body,
                state: TokenBoundState::Open(Box::pin(guard.wait_for_revocation())),
            })
        })
    }
}

/// The token of one stream and the means to check it again.
struct TokenGuard {
    listener: RevocationListener,
    kernel: Kernel,
    token: String,
}

impl TokenGuard {
    /// Waits until any token is revoked.
    async fn wait_for_revocation(mut self) -> Self {
        match self.listener.0.changed().await {
            Ok(()) => self,
            // The application state owns the sender, so the channel never closes.
            Err(_) => std::future::pending().await,
        }
    }

    /// Checks whether this token was revoked. An error counts as revoked: a client with a valid token connects
    /// again.
    async fn recheck_token(self) -> Option<Self> {
        self.kernel.tokens().principal_by_token(&self.token).await.is_ok().then_some(self)
    }
}

type RevocationFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A response body that ends when its token is revoked.
struct TokenBoundBody {
    body: Body,
    state: TokenBoundState,
}

enum TokenBoundState {
    /// The token was valid at the last check.
    Open(RevocationFuture<TokenGuard>),
    /// A token was revoked: the stream sends nothing until its own token is checked.
    Checking(RevocationFuture<Option<TokenGuard>>),
    /// The stream's own token was revoked.
    Closed,
}

impl HttpBody for TokenBoundBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        loop {
            this.state = match &mut this.state {
                TokenBoundState::Open(stream) => match stream.as_mut().poll(cx) {
                    Poll::Ready(guard) => {
                        TokenBoundState::Checking(Box::pin(guard.recheck_token()))
                    }
                    Poll::Pending => return Pin::new(&mut this.body).poll_frame(cx),
                },
                TokenBoundState::Checking(looked) => match ready!(looked.as_mut().poll(cx)) {
                    Some(guard) => TokenBoundState::Open(Box::pin(guard.wait_for_revocation())),
                    None => TokenBoundState::Closed,
                },
                TokenBoundState::Closed => {
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
