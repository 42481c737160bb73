//! How the daemon and its store are, and how to stop it.

use std::{sync::Arc, time::Duration};

use agent_worker_kernel::{Principal, Tally};
use agent_worker_protocol::{
    Permission,
    api::{Health, HealthDetail, HealthStatus, ShutdownRequest, StoreReport},
};
use axum::{Json, extract::State, http::StatusCode};

use super::{
    Doors,
    refusal::{Answer, Refusal},
    request::{Body, Who},
};

/// How long the disk may take for a pulse.
const PULSE_PATIENCE: Duration = Duration::from_secs(5);

/// `GET /health`: what it says was true within the last second, because a write is tried.
pub(super) async fn health(State(doors): State<Arc<Doors>>, Who(who): Who) -> Json<Health> {
    let trouble = trouble(&doors).await;
    let status = match (&trouble, doors.kernel.is_draining()) {
        (Some(_), _) => HealthStatus::ReadOnly,
        (None, true) => HealthStatus::Draining,
        (None, false) => HealthStatus::Ok,
    };
    let detail = match who {
        Principal::User => Some(detail(&doors, trouble).await),
        Principal::Agent(_) | Principal::Client(_) | Principal::Nobody => None,
    };
    Json(Health { status, version: doors.health.version.clone(), detail })
}

/// `POST /shutdown`: the answer is that it was heard.
pub(super) async fn shutdown(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    Body(request): Body<ShutdownRequest>,
) -> Result<StatusCode, Refusal> {
    who.require(Permission::Shutdown)?;
    doors.shutdown.ask(request.mode);
    Ok(StatusCode::ACCEPTED)
}

/// `GET /doctor`
pub(super) async fn doctor(State(doors): State<Arc<Doors>>, Who(who): Who) -> Answer<StoreReport> {
    Ok(Json(doors.kernel.store_check(&who).await?))
}

/// What keeps the store from taking writes, if anything does.
async fn trouble(doors: &Doors) -> Option<String> {
    if let Some(trouble) = &doors.health.trouble {
        return Some(trouble.clone());
    }
    match tokio::time::timeout(PULSE_PATIENCE, doors.kernel.pulse()).await {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some(format!("the disk did not take a write within {PULSE_PATIENCE:?}")),
    }
}

async fn detail(doors: &Doors, trouble: Option<String>) -> HealthDetail {
    let (tally, trouble) = match doors.kernel.tally().await {
        Ok(tally) => (tally, trouble),
        // How it is must be told above all when nothing else can be read.
        Err(error) => (Tally { runs: 0, attempts: 0 }, trouble.or(Some(error.to_string()))),
    };
    let facts = &doors.health;
    HealthDetail {
        pid: facts.pid,
        home: facts.home.clone(),
        address: facts.address.map(|address| address.to_string()),
        started: facts.started,
        live_runs: tally.runs,
        workers: tally.attempts,
        trouble,
        tracking: doors.kernel.process_tracking(),
    }
}
