//! The checks that every request passes before a handler: the right host, a known caller, a JSON body within the
//! size limit.
//!
//! The host check keeps web pages out: a browser sends the origin of a page (`Origin`) and the host it addresses
//! (`Host`), and a page cannot forge either. There are no CORS headers.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use agent_worker_kernel::Principal;
use agent_worker_protocol::{Code, Permission, Problem, ProblemDetails};
use axum::{
    body::{Body, HttpBody as _},
    extract::{Request, State},
    http::{
        HeaderMap, HeaderValue, Uri,
        header::{AUTHORIZATION, CONTENT_TYPE, HOST, ORIGIN},
    },
    middleware::Next,
    response::Response,
};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use tokio::time::{Instant, timeout_at};

use super::{AppState, problem_response::ProblemResponse, token_use::check_token_use};
use crate::{
    peer::{Caller, Peer},
    write_timeout::PEER_TIMEOUT,
};

/// Maximum size of a request body: the largest resource as JSON, plus a margin.
pub(crate) const BODY_LIMIT: usize = 96 * 1024 * 1024;
/// Maximum number of further bytes that are read and discarded, so that the client is still connected for the
/// response.
const DISCARD_LIMIT: usize = 1024 * 1024 * 1024;
/// The slowest a body may arrive, in bytes per second, once [`PEER_TIMEOUT`] is used up.
const MIN_BODY_BYTES_PER_SECOND: u64 = 1024 * 1024;

const LOOPBACK_HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// The hosts and origins that this daemon accepts.
#[derive(Clone, Debug)]
pub(super) struct HostPolicy {
    hosts: Arc<[String]>,
    origins: Arc<[String]>,
}

impl HostPolicy {
    /// Creates the policy for a daemon that listens at `address`, or on its socket only.
    pub(super) fn new(address: Option<SocketAddr>) -> Self {
        let mut hosts: Vec<String> = LOOPBACK_HOSTS.map(str::to_owned).into();
        if let Some(address) = address {
            hosts.extend(LOOPBACK_HOSTS.map(|name| format!("{name}:{}", address.port())));
            hosts.push(address.to_string());
        }
        Self { hosts: hosts.into(), origins: own_origins(address).into() }
    }

    /// Accepts a request that is addressed to this daemon and does not come from a foreign web page.
    pub(super) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
        let mut hosts = headers.get_all(HOST).iter().map(HeaderValue::as_bytes).peekable();
        if hosts.peek().is_none() {
            return Err(Problem::new(Code::BadRequest, "there is no `Host` header"));
        }
        let named = uri.authority().map(|authority| authority.as_str().as_bytes());
        if let Some(other) =
            hosts.chain(named).find(|host| !contains_ignore_case(&self.hosts, host))
        {
            let host = String::from_utf8_lossy(other).into_owned();
            let message = format!("`{host}` is not this daemon's address");
            let details = ProblemDetails::UnknownHost { host };
            return Err(Problem::new(Code::Forbidden, message).with_details(details));
        }
        let mut origins = headers.get_all(ORIGIN).iter();
        match origins.find(|origin| !contains_ignore_case(&self.origins, origin.as_bytes())) {
            None => Ok(()),
            Some(_) => {
                Err(Problem::new(Code::Forbidden, "requests from other origins are refused"))
            }
        }
    }
}

/// Returns the origins of our own pages.
pub(crate) fn own_origins(address: Option<SocketAddr>) -> Vec<String> {
    let port = address.map(|address| address.port());
    let own = |port| ["127.0.0.1", "localhost"].map(|host| format!("http://{host}:{port}"));
    port.map(own).into_iter().flatten().collect()
}

fn contains_ignore_case(list: &[String], value: &[u8]) -> bool {
    list.iter().any(|one| one.as_bytes().eq_ignore_ascii_case(value))
}

/// Identifies the caller and lets every request pass.
pub(super) async fn identify_caller(
    State(app): State<Arc<AppState>>,
    mut request: Request,
    next: Next,
) -> Result<Response, ProblemResponse> {
    let who = resolve_principal(&app, request.headers(), request.extensions().get()).await?;
    request.extensions_mut().insert(who);
    Ok(next.run(request).await)
}

/// Identifies the caller, refuses anonymous callers, and reads the body.
pub(super) async fn require_known_caller(
    State(app): State<Arc<AppState>>,
    request: Request,
    next: Next,
) -> Result<Response, ProblemResponse> {
    let (mut head, body) = request.into_parts();
    let listener = app.revocations.subscribe();
    let who = resolve_principal(&app, &head.headers, head.extensions.get()).await?;
    if matches!(who, Principal::Anonymous) {
        return Err(unknown_caller_problem(head.extensions.get()).into());
    }
    let token = token(&head.headers)?.filter(|_| matches!(who, Principal::Client(_)));
    let token = token.map(str::to_owned);
    head.extensions.insert(who.clone());
    let body =
        if body.is_end_stream() { body } else { read_json_body(&head.headers, body).await?.into() };
    let answer = next.run(Request::from_parts(head, body)).await;
    let answer = app.streams.bind_stream(answer, &who);
    Ok(match token {
        Some(token) => listener.bind_stream(answer, &app.kernel, token),
        None => answer,
    })
}

/// Refuses a caller without the permission `what`. The caller is already identified.
pub(super) async fn require_permission(
    State(what): State<Permission>,
    request: Request,
    next: Next,
) -> Result<Response, ProblemResponse> {
    let who = request.extensions().get().unwrap_or(&Principal::Anonymous);
    who.require(what)?;
    Ok(next.run(request).await)
}

/// Identifies the caller by its token, or without one by its connection.
async fn resolve_principal(
    app: &AppState,
    headers: &HeaderMap,
    peer: Option<&Peer>,
) -> Result<Principal, ProblemResponse> {
    if let Some(token) = token(headers)? {
        let who = app.kernel.tokens().principal_by_token(token).await?;
        if let Some(Peer::Network(connection)) = peer {
            connection.place.keep();
        }
        check_token_use(&app.kernel, &who, peer).await?;
        return Ok(who);
    }
    match peer {
        Some(Peer::Socket(Caller::User)) => Ok(Principal::User),
        // Resolved for each request: the attempt may have ended since the connection was made.
        Some(Peer::Socket(Caller::Attempt(attempt))) => Ok(app
            .kernel
            .tokens()
            .principal_by_mark(*attempt)
            .await?
            .unwrap_or(Principal::Anonymous)),
        Some(
            Peer::Socket(
                Caller::Foreign | Caller::Leftover { .. } | Caller::Unidentified | Caller::Nobody,
            )
            | Peer::Network(_),
        )
        | None => Ok(Principal::Anonymous),
    }
}

/// Returns the problem for an anonymous caller.
fn unknown_caller_problem(peer: Option<&Peer>) -> Problem {
    if matches!(peer, Some(Peer::Socket(Caller::Foreign))) {
        let message = "this process belongs to an agent or a setup command of another daemon, and this daemon does not accept it";
        return Problem::new(Code::Unauthorized, message).with_details(ProblemDetails::OtherDaemon);
    }
    Problem::new(Code::Unauthorized, "this request needs a token")
        .with_details(ProblemDetails::TokenMissing)
}

/// Returns the bearer token of the request, if there is one.
fn token(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let mut tokens = headers.get_all(AUTHORIZATION).iter();
    match (tokens.next(), tokens.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => bearer(value.as_bytes()).map(Some),
        (Some(_), Some(_)) => Err(bad_token()),
    }
}

fn bearer(value: &[u8]) -> Result<&str, Problem> {
    let text = str::from_utf8(value).map_err(|_| bad_token())?;
    match text.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => Ok(token.trim()),
        Some(_) | None => Err(bad_token()),
    }
}

fn bad_token() -> Problem {
    Problem::new(
        Code::Unauthorized,
        "`Authorization` must be a single header of the form `Bearer TOKEN`",
    )
}

/// Reads a body with the content type JSON.
async fn read_json_body(headers: &HeaderMap, body: Body) -> Result<Bytes, Problem> {
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let kind = kind.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    if !kind.eq_ignore_ascii_case(b"application/json") {
        let message = "the body's `Content-Type` must be application/json";
        return Err(Problem::new(Code::BadRequest, message));
    }
    collect_body(body).await
}

/// Returns the time limit for the first `size` bytes of a body, from its start; sending single bytes gains no time.
fn time_allowed(size: usize) -> Duration {
    PEER_TIMEOUT + Duration::from_millis(size as u64 * 1000 / MIN_BODY_BYTES_PER_SECOND)
}

async fn collect_body(mut body: Body) -> Result<Bytes, Problem> {
    let mut kept = BytesMut::new();
    let mut size = 0;
    let begun = Instant::now();
    let late = |_| Problem::new(Code::BadRequest, "timeout while reading the request body");
    while let Some(frame) =
        timeout_at(begun + time_allowed(size), body.frame()).await.map_err(late)?
    {
        let broken =
            |_| Problem::new(Code::BadRequest, "the request body could not be read to its end");
        let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
        size += data.len();
        if size <= BODY_LIMIT {
            kept.extend_from_slice(&data);
        } else if size <= DISCARD_LIMIT {
            kept = BytesMut::new();
        } else {
            break;
        }
    }
    if size <= BODY_LIMIT {
        return Ok(kept.freeze());
    }
    let message = format!("the request is longer than {BODY_LIMIT} bytes");
    let details = ProblemDetails::BodyTooLarge { limit: BODY_LIMIT };
    Err(Problem::new(Code::TooLarge, message).with_details(details))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_names_and_pages_pass() {
        let tcp = Some(SocketAddr::from(([127, 0, 0, 1], 5099)));
        for (address, host, origin, expected) in [
            (tcp, "localhost", None, None),
            (tcp, "LocalHost:5099", None, None),
            (tcp, "127.0.0.1:5099", None, None),
            (tcp, "[::1]:5099", None, None),
            (tcp, "localhost:5098", None, Some(Code::Forbidden)),
            (tcp, "evil.example", None, Some(Code::Forbidden)),
            (tcp, "localhost.evil.example", None, Some(Code::Forbidden)),
            (tcp, "", None, Some(Code::Forbidden)),
            (tcp, "localhost", Some("http://127.0.0.1:5099"), None),
            (tcp, "localhost", Some("http://localhost:5099"), None),
            (tcp, "localhost", Some("https://localhost:5099"), Some(Code::Forbidden)),
            (tcp, "localhost", Some("http://localhost"), Some(Code::Forbidden)),
            (tcp, "localhost", Some("http://localhost:50990"), Some(Code::Forbidden)),
            (tcp, "localhost", Some("null"), Some(Code::Forbidden)),
            (tcp, "localhost", Some("http://evil.example"), Some(Code::Forbidden)),
            (None, "localhost", None, None),
            (None, "localhost:5099", None, Some(Code::Forbidden)),
            (None, "localhost", Some("http://localhost:5099"), Some(Code::Forbidden)),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, host.parse().unwrap());
            headers.extend(origin.map(|origin| (ORIGIN, origin.parse().unwrap())));
            let got = HostPolicy::new(address).check(&Uri::from_static("/x"), &headers);
            assert_eq!(got.err().map(|problem| problem.code), expected, "{host} {origin:?}");
        }
    }

    #[test]
    fn a_second_host_cannot_hide_behind_the_first() {
        let gate = HostPolicy::new(None);
        let mut headers = HeaderMap::new();
        assert_eq!(
            gate.check(&Uri::from_static("/"), &headers).unwrap_err().code,
            Code::BadRequest
        );
        headers.insert(HOST, "localhost".parse().unwrap());
        assert!(gate.check(&Uri::from_static("http://evil.example/"), &headers).is_err());
        headers.append(HOST, "evil.example".parse().unwrap());
        assert!(gate.check(&Uri::from_static("/"), &headers).is_err());
    }

    #[test]
    fn a_token_is_read_from_one_bearer_header() {
        for (value, expected) in [
            ("Bearer aw_1", Some("aw_1")),
            ("bearer  aw_1 ", Some("aw_1")),
            ("Basic dXNlcg==", None),
            ("Bearer", None),
            ("aw_1", None),
        ] {
            assert_eq!(bearer(value.as_bytes()).ok(), expected, "{value}");
        }
    }
}
