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
pub(super) struct RevocationListener(watch::Receiver<()>);

impl Revocations {
    /// A token is no good any more.
    pub(super) fn notify_streams(&self) {
        self.0.send_replace(());
    }

    /// To be made before a token is looked at, so that nothing is missed after that.
    pub(super) fn subscribe(&self) -> RevocationListener {
        RevocationListener(self.0.subscribe())
    }
}

impl RevocationListener {
    /// Lets an answer that is a stream go on until `token` is taken back. Other answers are over by themselves.
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

/// What one stream has to know of its token.
struct TokenGuard {
    listener: RevocationListener,
    kernel: Kernel,
    token: String,
}

impl TokenGuard {
    /// Waits until some token is taken back.
    async fn wait_for_revocation(mut self) -> Self {
        match self.listener.0.changed().await {
            Ok(()) => self,
            // The other end is the doors' own, so it is never gone.
            Err(_) => std::future::pending().await,
        }
    }

    /// Looks whether it was this one. Doubt says yes: whoever still has a good token asks again.
    async fn recheck_token(self) -> Option<Self> {
        self.kernel.tokens().principal_by_token(&self.token).await.is_ok().then_some(self)
    }
}

type RevocationFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A body that ends with its token.
struct TokenBoundBody {
    body: Body,
    state: TokenBoundState,
}

enum TokenBoundState {
    /// Its token was good when it was last looked at.
    Open(RevocationFuture<TokenGuard>),
    /// Some token was taken back: nothing is told until it is known which.
    Checking(RevocationFuture<Option<TokenGuard>>),
    /// Its own was.
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
                TokenBoundState::Open(heard) => match heard.as_mut().poll(cx) {
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
