//! The HTTP interface: its routes, and the checks that every request passes before it reaches one.
//!
//! A handler is three lines: parse, ask the kernel, answer. Decisions belong in the kernel.
//! Invariant: the connection or the token identifies the caller, never the body.

mod admission;
mod agents;
mod approvals;
mod attempts;
mod attention;
mod body;
mod body_pool;
mod damage;
mod documents;
mod events;
mod extractors;
mod feedback;
mod health;
mod hint;
mod idempotency;
mod inbox;
mod json_limit;
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
mod stream_limit;
mod terminal_text;
mod token_use;
mod tokens;
mod turns;
mod workflows;

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use agent_worker_host::HoldMark;
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

pub(crate) use admission::own_origins;
pub(crate) use body::BODY_LIMIT;
#[cfg(test)]
pub(crate) use hint::HTTP_CALLS;
pub(crate) use idempotency::effect_key;
#[cfg(test)]
pub(crate) use openapi::document as openapi;
pub(crate) use problem_response::{ProblemResponse, client_problem};
pub(crate) use revocation::Revocations;
pub(crate) use since_filter::SinceFilter;
pub(crate) use stream_limit::StreamCounts;

use crate::{
    mcp::{self, SharedFixtures},
    peer::{Callers, Peer},
    shutdown::Shutdown,
};
use admission::{BodyResources, RoutePolicy};
use body::{BodyBudget, BodyLimit};
use route::RouteAccess;

/// The state shared by all handlers.
pub(crate) struct AppState {
    /// The kernel, which makes all decisions.
    pub(crate) kernel: Kernel,
    /// Identifies the process at the other end of a connection.
    pub(crate) callers: Callers,
    /// The facts that `/health` reports.
    pub(crate) health: HealthFacts,
    /// Handle that requests the daemon's shutdown.
    pub(crate) shutdown: Shutdown,
    /// The mark that holds the next daemon after a stop.
    pub(crate) hold_mark: HoldMark,
    /// Signal that ends the streams of a revoked token.
    pub(crate) revocations: Revocations,
    /// The open streams of each token.
    pub(crate) streams: StreamCounts,
    /// Owner of tasks that outlive a response.
    pub(crate) tasks: TaskTracker,
    /// The fixtures that `/mcp` offers to a test suite; none in the product.
    pub(crate) fixtures: Option<SharedFixtures>,
}

/// Facts about this daemon that are fixed once it listens.
#[derive(Clone, Debug)]
pub(crate) struct HealthFacts {
    /// Process id of the daemon.
    pub(crate) pid: u32,
    /// Home folder of the daemon.
    pub(crate) home: PathBuf,
    /// Address for TCP clients; none if no port was available.
    pub(crate) address: Option<SocketAddr>,
    /// Start time of the daemon.
    pub(crate) started: Millis,
    /// Version of the program.
    pub(crate) version: String,
    /// The holder of the default port, if the daemon had to take another one.
    pub(crate) port_conflict: Option<String>,
}

/// The HTTP service behind every connection, for the Unix socket and for TCP.
#[derive(Clone)]
pub(crate) struct HttpService {
    host_policy: admission::HostPolicy,
    router: TowerToHyperService<Router>,
}

impl HttpService {
    /// Creates the service for the daemon state `app`.
    pub(crate) fn new(app: AppState) -> Self {
        let host_policy = admission::HostPolicy::new(app.health.address);
        Self { host_policy, router: TowerToHyperService::new(router(app)) }
    }

    /// Answers a request of the peer of a connection.
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
        // A refusal names the damaged row itself.
        if answer.status().is_success() {
            damage::add_damage_headers(&left_out, answer.headers_mut());
        }
        answer
    }
}

/// Builds the router. Each request carries its connection's [`Peer`] as an extension; without one the caller is
/// anonymous.
fn router(app: AppState) -> Router {
    let bodies = BodyResources {
        budget: BodyBudget::default(),
        tasks: app.tasks.clone(),
        shutdown: app.shutdown.clone(),
    };
    let tools = RoutePolicy {
        access: RouteAccess::Identified,
        limit: BodyLimit::Tools,
        bodies: bodies.clone(),
    };
    let mcp = mcp::routes(&app).route_layer(from_fn_with_state(tools, admission::enforce_policy));
    let app = Arc::new(app);
    let mount = |router, route: route::Route| route.mount(router, &bodies);
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
