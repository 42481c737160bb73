//! The HTTP door: which routes there are, and what every request passes before it reaches one.
//!
//! A handler is three lines: parse, ask the kernel, answer. Whoever decides anything here is in the wrong room.
//! Invariant: who asks is known from the connection or the token, never from the body.

mod agents;
mod approvals;
mod attempts;
mod attention;
mod damage;
mod documents;
mod events;
mod feedback;
mod follow;
mod gate;
mod health;
mod inbox;
mod messages;
mod once;
mod openapi;
mod proposals;
mod refusal;
mod request;
mod resources;
mod revoked;
mod route;
mod routes;
mod runs;
mod since;
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

pub(crate) use gate::{BODY_LIMIT, own_origins};
pub(crate) use once::effect_key;
#[cfg(test)]
pub(crate) use openapi::document as openapi;
pub(crate) use refusal::{Refusal, problem};
pub(crate) use revoked::Revocations;
pub(crate) use since::Since;

use crate::{mcp, peer::Peer, shutdown::Shutdown};
use route::May;

/// What stands behind the doors.
pub(crate) struct Doors {
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
    /// What was found to be wrong with the store when it was opened.
    pub(crate) trouble: Option<String>,
}

/// Everything that is behind a connection, for the Unix socket and for TCP alike.
#[derive(Clone)]
pub(crate) struct Site {
    gate: gate::Gate,
    routes: TowerToHyperService<Router>,
}

impl Site {
    /// The site of the daemon behind `doors`.
    pub(crate) fn new(doors: Doors) -> Self {
        let gate = gate::Gate::new(doors.health.address);
        Self { gate, routes: TowerToHyperService::new(router(doors)) }
    }

    /// Answers a request of whoever is at the other end of the connection.
    pub(crate) async fn answer(self, peer: Peer, mut request: Request) -> Response {
        if let Err(refusal) = self.gate.check(request.uri(), request.headers()) {
            return Refusal::from(refusal).into_response();
        }
        request.extensions_mut().insert(peer);
        let (answer, left_out) = observe_damage(self.routes.call(request)).await;
        let mut answer = match answer {
            Ok(answer) => answer,
            Err(never) => match never {},
        };
        // A refusal names the row itself.
        if answer.status().is_success() {
            damage::name(&left_out, answer.headers_mut());
        }
        answer
    }
}

/// The routes. Each request carries its connection's [`Peer`] as an extension; without one it comes from nobody.
fn router(doors: Doors) -> Router {
    let mcp = mcp::routes(&doors);
    let doors = Arc::new(doors);
    let mount = |router, route: route::Route| route.mount(router);
    let (anybody, known): (Vec<_>, Vec<_>) =
        routes::routes().into_iter().partition(|route| route.may == May::Anybody);
    let anybody = anybody
        .into_iter()
        .fold(Router::new(), mount)
        .route_layer(from_fn_with_state(Arc::clone(&doors), gate::anybody));
    let known = known
        .into_iter()
        .fold(Router::new(), mount)
        .merge(mcp)
        .route_layer(from_fn_with_state(Arc::clone(&doors), gate::known));
    anybody
        .merge(known)
        .fallback(refusal::no_such_route)
        .method_not_allowed_fallback(refusal::no_such_method)
        .with_state(doors)
}
