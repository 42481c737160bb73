//! The HTTP door: which routes there are, and what every request passes before it reaches one.
//!
//! A handler is three lines: parse, ask the kernel, answer. Whoever decides anything here is in the wrong room.
//! Invariant: who asks is known from the connection or the token, never from the body.

mod agents;
mod attempts;
mod events;
mod gate;
mod health;
mod messages;
mod once;
mod refusal;
mod request;
mod runs;
mod since;
mod tokens;

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use agent_worker_kernel::Kernel;
use agent_worker_protocol::Millis;
use axum::{
    Router,
    middleware::from_fn_with_state,
    routing::{delete, get, post},
};

pub(crate) use gate::{BODY_LIMIT, own_origins};
pub(crate) use once::effect_key;
pub(crate) use refusal::problem;
pub(crate) use since::Since;

use crate::{mcp, shutdown::Shutdown};

/// What stands behind the doors.
pub(crate) struct Doors {
    /// Who decides.
    pub(crate) kernel: Kernel,
    /// What `/health` tells.
    pub(crate) health: HealthFacts,
    /// How to ask the daemon to stop.
    pub(crate) shutdown: Shutdown,
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

/// The routes, for the Unix socket and for TCP alike. Each request carries its connection's `Peer`
/// as an extension; without one it comes from nobody.
pub(crate) fn router(doors: Doors) -> Router {
    let gate = gate::Gate::new(doors.health.address);
    let mcp = mcp::routes(doors.kernel.clone(), doors.health.address);
    let doors = Arc::new(doors);
    let anybody = Router::new()
        .route("/health", get(health::health))
        .route_layer(from_fn_with_state(Arc::clone(&doors), gate::anybody));
    let known = Router::new()
        .route("/shutdown", post(health::shutdown))
        .route("/agents", get(agents::list))
        .route("/runs", get(runs::list).post(runs::start))
        .route("/runs/{id}", get(runs::show))
        .route("/runs/{id}/stop", post(runs::stop))
        .route("/messages", get(messages::list).post(messages::send))
        .route("/messages/{seq}/receipts", get(messages::receipts))
        .route("/events", get(events::watch))
        .route("/attempts/{id}/events", post(attempts::report))
        .route("/tokens", get(tokens::list).post(tokens::create))
        .route("/tokens/{name}", delete(tokens::revoke))
        .merge(mcp)
        .route_layer(from_fn_with_state(Arc::clone(&doors), gate::known));
    anybody
        .merge(known)
        .fallback(refusal::no_such_route)
        .method_not_allowed_fallback(refusal::no_such_method)
        .layer(from_fn_with_state(gate, gate::address))
        .with_state(doors)
}
