//! The daemon, as every other process sees it: HTTP over its Unix socket.
//!
//! Nothing is sent before the listener is known to be of our own uid. A request that may have been
//! acted upon is never repeated here; that is for callers who gave it a key. So are time limits.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use agent_worker_protocol::{Code, Problem};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Method, Request, Response,
    body::Incoming,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, HeaderValue},
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    damage,
    event_stream::EventStream,
    line::{Broken, Line},
};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

/// A daemon at a known socket. Clones share what connection is free.
#[derive(Clone)]
pub struct Daemon {
    socket: Arc<Path>,
    token: Option<HeaderValue>,
    /// The last connection that was used and is free again.
    free: Arc<Mutex<Option<Line>>>,
}

/// Why the daemon could not be asked, or did not do it.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// Nobody listens there. Nothing was sent.
    #[error("no daemon answers at {}", socket.display())]
    Absent {
        /// Where it was looked for.
        socket: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Somebody else listens there. Nothing was sent.
    #[error(
        "what listens at the daemon's socket belongs to another user (uid {uid}); nothing was sent to it"
    )]
    Impostor {
        /// Whose it is.
        uid: u32,
    },
    /// The connection broke. The request may have been acted upon.
    #[error("the connection to the daemon broke before its answer was there")]
    Lost {
        /// What broke.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The daemon said no.
    #[error(transparent)]
    Refused(#[from] Problem),
    /// The daemon's answer makes no sense.
    #[error("the daemon's answer was not understood: {what}")]
    Garbled {
        /// What was there instead.
        what: String,
    },
    /// No socket can have such a path.
    #[error("{} is too long for a socket's path (107 bytes at most); choose a shorter home", socket.display())]
    PathTooLong {
        /// The path.
        socket: PathBuf,
    },
}

impl Daemon {
    /// The daemon that listens at `socket`. Nothing is opened yet.
    pub fn at(socket: PathBuf) -> Self {
        Self { socket: socket.into(), token: None, free: Arc::default() }
    }

    /// The same daemon, asked in the name of a token's owner.
    #[must_use]
    pub fn with_token(self, mut token: String) -> Self {
        token.insert_str(0, "Bearer ");
        // A token that fits no header is known to nobody: an empty one says the same.
        let mut header = HeaderValue::try_from(token).unwrap_or(HeaderValue::from_static("Bearer"));
        header.set_sensitive(true);
        Self { token: Some(header), ..self }
    }

    /// `GET path`
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, DialError> {
        read(self.exchange(request(Method::GET, path, Bytes::new())?).await?)
    }

    /// `POST path` with a JSON body.
    pub async fn post<B: Serialize + ?Sized, T: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
    ) -> Result<T, DialError> {
        read(self.exchange(request(Method::POST, path, json(body)?)?).await?)
    }

    /// `POST path` with an `Idempotency-Key`: asked twice, it happens once.
    pub async fn post_once<B: Serialize + ?Sized, T: DeserializeOwned>(
        &self,
        path: &str,
        key: &str,
        body: &B,
    ) -> Result<T, DialError> {
        let mut request = request(Method::POST, path, json(body)?)?;
        request.headers_mut().insert(IDEMPOTENCY_KEY, header(key)?);
        read(self.exchange(request).await?)
    }

    /// `DELETE path`
    pub async fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, DialError> {
        read(self.exchange(request(Method::DELETE, path, Bytes::new())?).await?)
    }

    /// `GET path` as a stream of events, from the one after the id `after`.
    pub async fn events(
        &self,
        path: &str,
        after: Option<String>,
    ) -> Result<EventStream, DialError> {
        let mut request = request(Method::GET, path, Bytes::new())?;
        request.headers_mut().insert(ACCEPT, EVENTS);
        if let Some(id) = &after {
            request.headers_mut().insert(LAST_EVENT_ID, header(id)?);
        }
        let (mut line, answer) = self.ask(request).await?;
        let (head, body) = answer.into_parts();
        if head.status.is_success() {
            let start = head.headers.get(LAST_EVENT_ID).and_then(|id| id.to_str().ok());
            let start = start.map(str::to_owned).or(after);
            return Ok(EventStream::new(body, line.into_connection(), start));
        }
        let body = line.collect(body).await.map_err(lost)?;
        Err(refusal(&Response::from_parts(head, body)))
    }

    /// Sends any request and returns its answer whole, whatever its status.
    pub async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, DialError> {
        let (mut line, answer) = self.ask(request).await?;
        let (head, body) = answer.into_parts();
        damage::note(&head.headers);
        let body = line.collect(body).await.map_err(lost)?;
        self.keep(line);
        Ok(Response::from_parts(head, body))
    }

    /// Keeps a connection that is free again.
    pub(crate) fn keep(&self, line: Line) {
        *self.free.lock().unwrap_or_else(PoisonError::into_inner) = Some(line);
    }

    /// Sends a request over the free connection or a new one. One that did not leave is sent again, once.
    pub(crate) async fn ask(
        &self,
        request: Request<Bytes>,
    ) -> Result<(Line, Response<Incoming>), DialError> {
        let request = self.addressed(request);
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut line) = free
            && line.is_open().await
        {
            match line.ask(request.clone()).await {
                Ok(answer) => return Ok((line, answer)),
                Err(Broken::Unsent) => {}
                Err(Broken::Unanswered(error)) => return Err(lost(error)),
            }
        }
        let mut line = Line::open(&self.socket).await?;
        match line.ask(request).await {
            Ok(answer) => Ok((line, answer)),
            Err(Broken::Unsent) => {
                Err(DialError::Lost { source: "it was closed before the request had left".into() })
            }
            Err(Broken::Unanswered(error)) => Err(lost(error)),
        }
    }

    /// Adds what every request carries.
    fn addressed(&self, request: Request<Bytes>) -> Request<Full<Bytes>> {
        let mut request = request.map(Full::new);
        request.headers_mut().insert(HOST, HeaderValue::from_static("localhost"));
        if let Some(token) = &self.token {
            request.headers_mut().insert(AUTHORIZATION, token.clone());
        }
        request
    }
}

fn request(method: Method, path: &str, body: Bytes) -> Result<Request<Bytes>, DialError> {
    let request = Request::builder().method(method).uri(path).header(CONTENT_TYPE, JSON);
    request.body(body).map_err(|error| ours(format!("`{path}` is not a path: {error}")))
}

fn json<B: Serialize + ?Sized>(body: &B) -> Result<Bytes, DialError> {
    let text = serde_json::to_vec(body);
    text.map(Bytes::from).map_err(|error| ours(format!("the request is not JSON: {error}")))
}

fn header(value: &str) -> Result<HeaderValue, DialError> {
    value.parse().map_err(|_| ours(format!("`{}` fits no header", value.escape_debug())))
}

/// A request that could not even be written down.
fn ours(message: String) -> DialError {
    DialError::Refused(Problem::new(Code::BadRequest, message))
}

pub(crate) fn lost(source: hyper::Error) -> DialError {
    DialError::Lost { source: source.into() }
}

/// The answer's meaning. An empty body reads as `null`.
fn read<T: DeserializeOwned>(answer: Response<Bytes>) -> Result<T, DialError> {
    if !answer.status().is_success() {
        return Err(refusal(&answer));
    }
    let body = answer.into_body();
    let body: &[u8] = if body.is_empty() { b"null" } else { &body };
    serde_json::from_slice(body).map_err(|error| DialError::Garbled { what: error.to_string() })
}

fn refusal(answer: &Response<Bytes>) -> DialError {
    if let Ok(problem) = serde_json::from_slice(answer.body()) {
        return DialError::Refused(problem);
    }
    let start = &answer.body()[..answer.body().len().min(200)];
    let start = String::from_utf8_lossy(start);
    DialError::Garbled { what: format!("status {}: {start}", answer.status()) }
}
