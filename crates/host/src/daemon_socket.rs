//! Client of the daemon: HTTP over its Unix socket.
//!
//! Nothing is sent before the listener is known to have our own uid. A request that the daemon may have acted on is
//! never repeated here; only callers that gave it a key may repeat it. Timeouts are also the callers' part.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use agent_worker_protocol::{Code, Problem, sync};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Method, Request, Response,
    body::Incoming,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, HeaderValue},
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    connection::{DaemonConnection, ExchangeError},
    damage,
    event_stream::EventStream,
    socket_path::MAX_SOCKET_PATH_BYTES,
};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

/// Daemon at a known socket. Clones share the idle connection.
#[derive(Clone)]
pub struct DaemonSocket {
    socket: Arc<Path>,
    token: Option<HeaderValue>,
    /// Last used connection that is idle again.
    idle_connection: Arc<Mutex<Option<DaemonConnection>>>,
}

/// Reason for which a request to the daemon failed.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// No process listens at the socket, and nothing was sent.
    #[error("no daemon answers at {}", socket.display())]
    Absent {
        /// Path of the socket.
        socket: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// A process of another user listens at the socket, and nothing was sent.
    #[error(
        "the process that listens at the daemon's socket belongs to another user (uid {uid}); nothing was sent to it"
    )]
    Impostor {
        /// Uid of the listener.
        uid: u32,
    },
    /// The connection broke, and the daemon may have acted on the request.
    #[error("the connection to the daemon broke before its response arrived")]
    Lost {
        /// Error of the connection.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The daemon refused the request.
    #[error(transparent)]
    Refused(#[from] Problem),
    /// The reply of the daemon is invalid.
    #[error("the daemon's response is invalid: {what}")]
    Garbled {
        /// Description of the invalid reply.
        what: String,
    },
    /// The path is too long for a socket.
    #[error("{} is too long for a socket's path ({MAX_SOCKET_PATH_BYTES} bytes at most); choose a shorter home", socket.display())]
    PathTooLong {
        /// Path of the socket.
        socket: PathBuf,
    },
}

impl DaemonSocket {
    /// Creates a client of the daemon that listens at `socket`, without opening a connection.
    pub fn at(socket: PathBuf) -> Self {
        Self { socket: socket.into(), token: None, idle_connection: Arc::default() }
    }

    /// Adds a token, whose owner the daemon takes as the caller.
    #[must_use]
    pub fn with_token(self, mut token: String) -> Self {
        token.insert_str(0, "Bearer ");
        // No caller has a token that is invalid as a header: an empty one gives the same result.
        let mut header = HeaderValue::try_from(token).unwrap_or(HeaderValue::from_static("Bearer"));
        header.set_sensitive(true);
        Self { token: Some(header), ..self }
    }

    /// Sends `GET path` and parses the reply.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, DialError> {
        parse_answer(self.exchange(request(Method::GET, path, Bytes::new())?).await?)
    }

    /// Sends `POST path` with a JSON body.
    pub async fn post<B: Serialize + ?Sized, T: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
    ) -> Result<T, DialError> {
        parse_answer(self.exchange(request(Method::POST, path, json(body)?)?).await?)
    }

    /// Sends `POST path` with an `Idempotency-Key`, so that a repeated request has one effect.
    pub async fn post_once<B: Serialize + ?Sized, T: DeserializeOwned>(
        &self,
        path: &str,
        key: &str,
        body: &B,
    ) -> Result<T, DialError> {
        let mut request = request(Method::POST, path, json(body)?)?;
        request.headers_mut().insert(IDEMPOTENCY_KEY, header(key)?);
        parse_answer(self.exchange(request).await?)
    }

    /// Sends `DELETE path` and parses the reply.
    pub async fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, DialError> {
        parse_answer(self.exchange(request(Method::DELETE, path, Bytes::new())?).await?)
    }

    /// Opens `GET path` as a stream of events, starting after the event with the id `after`.
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
        let (mut connection, answer) = self.send(request).await?;
        let (head, body) = answer.into_parts();
        if head.status.is_success() {
            let start = head.headers.get(LAST_EVENT_ID).and_then(|id| id.to_str().ok());
            let start = start.map(str::to_owned).or(after);
            return Ok(EventStream::new(body, connection.into_driver(), start));
        }
        let body = connection.collect(body).await.map_err(connection_lost)?;
        Err(refusal_error(&Response::from_parts(head, body)))
    }

    /// Sends any request and returns its whole response, with any status.
    pub async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, DialError> {
        let (mut connection, answer) = self.send(request).await?;
        let (head, body) = answer.into_parts();
        damage::record_damage(&head.headers);
        let body = connection.collect(body).await.map_err(connection_lost)?;
        self.keep_connection(connection);
        Ok(Response::from_parts(head, body))
    }

    /// Keeps an idle connection for the next request.
    pub(crate) fn keep_connection(&self, connection: DaemonConnection) {
        *sync::lock(&self.idle_connection) = Some(connection);
    }

    /// Sends a request over the idle connection or a new one. A request that did not leave is sent once more.
    pub(crate) async fn send(
        &self,
        request: Request<Bytes>,
    ) -> Result<(DaemonConnection, Response<Incoming>), DialError> {
        let request = self.with_common_headers(request);
        let free = sync::lock(&self.idle_connection).take();
        if let Some(mut connection) = free
            && connection.is_open().await
        {
            match connection.send_request(request.clone()).await {
                Ok(answer) => return Ok((connection, answer)),
                Err(ExchangeError::Unsent) => {}
                Err(ExchangeError::Unanswered(error)) => return Err(connection_lost(error)),
            }
        }
        let mut connection = DaemonConnection::open(&self.socket).await?;
        match connection.send_request(request).await {
            Ok(answer) => Ok((connection, answer)),
            Err(ExchangeError::Unsent) => Err(DialError::Lost {
                source: "the connection was closed before the request was sent".into(),
            }),
            Err(ExchangeError::Unanswered(error)) => Err(connection_lost(error)),
        }
    }

    /// Adds the headers that every request has.
    fn with_common_headers(&self, request: Request<Bytes>) -> Request<Full<Bytes>> {
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
    request.body(body).map_err(|error| invalid_request(format!("`{path}` is not a path: {error}")))
}

fn json<B: Serialize + ?Sized>(body: &B) -> Result<Bytes, DialError> {
    let text = serde_json::to_vec(body);
    text.map(Bytes::from)
        .map_err(|error| invalid_request(format!("the request is not JSON: {error}")))
}

fn header(value: &str) -> Result<HeaderValue, DialError> {
    value.parse().map_err(|_| {
        invalid_request(format!("`{}` is not a valid header value", value.escape_debug()))
    })
}

/// Returns the error for a request that cannot be serialized.
fn invalid_request(message: String) -> DialError {
    DialError::Refused(Problem::new(Code::BadRequest, message))
}

pub(crate) fn connection_lost(source: hyper::Error) -> DialError {
    DialError::Lost { source: source.into() }
}

/// Parses the body of a response; an empty body is parsed as `null`.
fn parse_answer<T: DeserializeOwned>(answer: Response<Bytes>) -> Result<T, DialError> {
    if !answer.status().is_success() {
        return Err(refusal_error(&answer));
    }
    let body = answer.into_body();
    let body: &[u8] = if body.is_empty() { b"null" } else { &body };
    serde_json::from_slice(body).map_err(|error| DialError::Garbled { what: error.to_string() })
}

fn refusal_error(answer: &Response<Bytes>) -> DialError {
    if let Ok(problem) = serde_json::from_slice(answer.body()) {
        return DialError::Refused(problem);
    }
    let start = &answer.body()[..answer.body().len().min(200)];
    let start = String::from_utf8_lossy(start);
    DialError::Garbled { what: format!("status {}: {start}", answer.status()) }
}
