//! Runs: begun, looked at, stopped.

use std::sync::Arc;

use agent_worker_protocol::{
    RunId,
    api::{RunRequest, RunStarted, RunStopped, RunView},
};
use axum::{Json, extract::State};

use super::{
    Doors,
    refusal::Answer,
    request::{Body, Path, Query, Scope, Who},
};

/// `POST /runs`
pub(super) async fn start(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    Body(request): Body<RunRequest>,
) -> Answer<RunStarted> {
    Ok(Json(doors.kernel.run_new(&who, request).await?))
}

/// `GET /runs`
pub(super) async fn list(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    Query(scope): Query<Scope>,
) -> Answer<Vec<RunView>> {
    let breadth = scope.breadth();
    Ok(Json(doors.kernel.run_views(&who, &scope.place(), breadth).await?))
}

/// `GET /runs/{id}`
pub(super) async fn show(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    Path(run): Path<RunId>,
) -> Answer<RunView> {
    Ok(Json(doors.kernel.run_view(&who, run).await?))
}

/// `POST /runs/{id}/stop`: answers when every process of it is gone.
pub(super) async fn stop(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    Path(run): Path<RunId>,
) -> Answer<RunStopped> {
    Ok(Json(doors.kernel.run_stop(&who, run).await?))
}
