//! The HTTP door: which routes there are, and what every request passes before it reaches one.
//!
//! A handler is three lines: parse, ask the kernel, answer. Whoever decides anything here is in the wrong room.
//! Invariant: who asks is known from the connection or the token, never from the body.

mod admission;
mod agents;
mod approvals;
mod attempts;
mod attention;
mod damage;
mod documents;
mod events;
mod extractors;
mod feedback;
mod health;
mod hint;
mod idempotency;
mod inbox;
mod messages;
mod openapi;
mod problem_response;
mod proposals;
mod resources;
mod revocation;
mod route;
mod routes;
mod run_streams;
mod runs;
mod since_filter;
mod terminal_text;
mod tokens;
mod workflows;

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use agent_worker_kernel::Kernel;
use agent_worker_protocol::Millis;
use agent_worker_store::observe_damage;
use axum::{
    Router,
    extract::Request,
    middleware::from_fn_with_state,
    response::{IntoResponse as _, Response},
};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use tokio_util::task::TaskTracker;

pub(crate) use admission::{BODY_LIMIT, own_origins};
pub(crate) use idempotency::effect_key;
#[cfg(test)]
pub(crate) use openapi::document as openapi;
pub(crate) use problem_response::{ProblemResponse, client_problem};
pub(crate) use revocation::Revocations;
pub(crate) use since_filter::SinceFilter;

use crate::{mcp, peer::Peer, shutdown::Shutdown};
use route::RouteAccess;

/// What stands behind the app.
pub(crate) struct AppState {
    /// Who decides.
    pub(crate) kernel: Kernel,
    /// What `/health` tells.
    pub(crate) health: HealthFacts,
    /// How to ask the daemon to stop.
    pub(crate) shutdown: Shutdown,
    /// How streams learn that their token was taken back.
    pub(crate) revocations: Revocations,
    /// Who owns what goes on after an answer.
    pub(crate) tasks: TaskTracker,
    /// Whether the MCP door has what the protocol's conformance suite asks for.
    #[cfg(debug_assertions)]
    pub(crate) fixtures: bool,
}

/// What is known of this daemon once it listens.
#[derive(Clone, Debug)]
pub(crate) struct HealthFacts {
    /// Its process.
    pub(crate) pid: u32,
    /// Its home.
    pub(crate) home: PathBuf,
    /// Where it listens for clients; none when no port could be had.
    pub(crate) address: Option<SocketAddr>,
    /// Since when it runs.
    pub(crate) started: Millis,
    /// Its version.
    pub(crate) version: String,
}

/// Everything that is behind a connection, for the Unix socket and for TCP alike.
#[derive(Clone)]
pub(crate) struct HttpService {
    host_policy: admission::HostPolicy,
    router: TowerToHyperService<Router>,
}

impl HttpService {
    /// The service of the daemon behind `app`.
    pub(crate) fn new(app: AppState) -> Self {
        let host_policy = admission::HostPolicy::new(app.health.address);
        Self { host_policy, router: TowerToHyperService::new(router(app)) }
    }

    /// Answers a request of whoever is at the other end of the connection.
    pub(crate) async fn handle_request(self, peer: Peer, mut request: Request) -> Response {
        if let Err(refusal) = self.host_policy.check(request.uri(), request.headers()) {
            return ProblemResponse::from(refusal).into_response();
        }
        request.extensions_mut().insert(peer);
        let (answer, left_out) = observe_damage(self.router.call(request)).await;
        let mut answer = match answer {
            Ok(answer) => answer,
            Err(never) => match never {},
        };
        // A refusal names the row itself.
        if answer.status().is_success() {
            damage::add_damage_headers(&left_out, answer.headers_mut());
        }
        answer
    }
}

/// The routes. Each request carries its connection's [`Peer`] as an extension; without one it comes from nobody.
fn router(app: AppState) -> Router {
    let mcp = mcp::routes(&app);
    let app = Arc::new(app);
    let mount = |router, route: route::Route| route.mount(router);
    let (anybody, known): (Vec<_>, Vec<_>) =
        routes::routes().into_iter().partition(|route| route.access == RouteAccess::Anybody);
    let anybody = anybody
        .into_iter()
        .fold(Router::new(), mount)
        .route_layer(from_fn_with_state(Arc::clone(&app), admission::identify_caller));
    let known = known
        .into_iter()
        .fold(Router::new(), mount)
        .merge(mcp)
        .route_layer(from_fn_with_state(Arc::clone(&app), admission::require_known_caller));
    anybody
        .merge(known)
        .fallback(problem_response::no_such_route)
        .method_not_allowed_fallback(problem_response::no_such_method)
        .with_state(app)
}
