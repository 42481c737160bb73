//! The checks that every request passes before a handler: the right host, a known caller, the permission of the route,
//! and then a JSON body within the size limit.
//!
//! The host check keeps web pages out: a browser sends the origin of a page (`Origin`) and the host it addresses
//! (`Host`), and a page cannot forge either. There are no CORS headers.

use std::{net::SocketAddr, sync::Arc};

use agent_worker_kernel::Principal;
use agent_worker_protocol::{Code, Problem, ProblemDetails};
use axum::{
    body::HttpBody as _,
    extract::{Request, State},
    http::{
        HeaderMap, HeaderValue, Uri,
        header::{AUTHORIZATION, HOST, ORIGIN},
    },
    middleware::Next,
    response::Response,
};
use tokio_util::task::TaskTracker;

use super::{
    AppState,
    body::{self, BodyBudget, BodyLimit, BufferedBody},
    problem_response::ProblemResponse,
    route::RouteAccess,
    token_use::{check_token_use, token_key},
};
use crate::{
    peer::{Caller, Peer},
    shutdown::Shutdown,
};

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

/// Identifies the caller and refuses anonymous callers.
pub(super) async fn require_known_caller(
    State(app): State<Arc<AppState>>,
    mut request: Request,
    next: Next,
) -> Result<Response, ProblemResponse> {
    let listener = app.revocations.subscribe();
    let who = resolve_principal(&app, request.headers(), request.extensions().get()).await?;
    if matches!(who, Principal::Anonymous) {
        return Err(unknown_caller_problem(request.extensions().get()).into());
    }
    let token = token(request.headers())?.filter(|_| matches!(who, Principal::Client(_)));
    let token = token.map(str::to_owned);
    request.extensions_mut().insert(who.clone());
    let answer = next.run(request).await;
    let answer = app.streams.bind_stream(answer, &who);
    Ok(match token {
        Some(token) => listener.bind_stream(answer, &app.kernel, token),
        None => answer,
    })
}

/// The policy of one route: its callers and the size of its body.
#[derive(Clone)]
pub(super) struct RoutePolicy {
    pub(super) access: RouteAccess,
    pub(super) limit: BodyLimit,
    pub(super) bodies: BodyResources,
}

/// The parts of the daemon that reading a body needs.
#[derive(Clone)]
pub(super) struct BodyResources {
    pub(super) budget: BodyBudget,
    pub(super) tasks: TaskTracker,
    pub(super) shutdown: Shutdown,
}

/// Refuses a caller that may not use the route, and only then reads the body. The caller is already identified.
pub(super) async fn enforce_policy(
    State(policy): State<RoutePolicy>,
    request: Request,
    next: Next,
) -> Result<Response, ProblemResponse> {
    let (head, body) = request.into_parts();
    let who = head.extensions.get().unwrap_or(&Principal::Anonymous);
    if let Err(refusal) = policy.access.check(who) {
        if !body.is_end_stream() {
            policy.bodies.tasks.spawn(body::discard(body, policy.bodies.shutdown));
        }
        return Err(refusal.into());
    }
    if body.is_end_stream() {
        return Ok(next.run(Request::from_parts(head, body)).await);
    }
    let limit = policy.limit.bytes(who);
    let BufferedBody { bytes, share } =
        policy.bodies.budget.read_json(who, &head.headers, body, limit).await?;
    let answer = next.run(Request::from_parts(head, bytes.into())).await;
    drop(share);
    Ok(answer)
}

/// Identifies the caller by its token, or without one by its connection.
async fn resolve_principal(
    app: &AppState,
    headers: &HeaderMap,
    peer: Option<&Peer>,
) -> Result<Principal, ProblemResponse> {
    if let Some(token) = token(headers)? {
        let who = app.kernel.tokens().principal_by_token(token).await?;
        check_token_use(&app.callers, &who, peer).await?;
        if let (Some(Peer::Network(connection)), Some(key)) = (peer, token_key(&who))
            && !connection.place.keep(key)
        {
            let message = "this token has too many open connections to the port; close one first";
            return Err(Problem::new(Code::Limit, message).into());
        }
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
