//! Runs: begun, looked at, stopped, resumed.

use std::sync::Arc;

use agent_worker_protocol::{
    RunId,
    api::{ResumeRequest, RunRequest, RunStarted, RunStopped, RunView, StatsView},
};
use axum::{Json, extract::State};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{
    Doors,
    once::IdempotencyKey,
    refusal::Answer,
    request::{Body, Path, Query, Scope, Who},
};

/// How a run is stopped.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Stop {
    /// Whether its processes get no time to end by themselves.
    #[serde(default)]
    now: bool,
}

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
    Query(stop): Query<Stop>,
) -> Answer<RunStopped> {
    let stopped = if stop.now {
        doors.kernel.run_stop_now(&who, run).await?
    } else {
        doors.kernel.run_stop(&who, run).await?
    };
    Ok(Json(stopped))
}

/// `POST /runs/{id}/pause`
pub(super) async fn pause(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    Path(run): Path<RunId>,
) -> Answer<RunView> {
    Ok(Json(doors.kernel.run_pause(&who, run).await?))
}

/// `POST /runs/{id}/resume`
pub(super) async fn resume(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    key: IdempotencyKey,
    Path(run): Path<RunId>,
    Body(request): Body<ResumeRequest>,
) -> Answer<RunView> {
    let key = key.effect("run_resume", || json!({ "run": run, "request": request }))?;
    Ok(Json(doors.kernel.run_resume(&who, key, run, request).await?))
}

/// `GET /stats`
pub(super) async fn stats(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    Query(scope): Query<Scope>,
) -> Answer<Vec<StatsView>> {
    let breadth = scope.breadth();
    Ok(Json(doors.kernel.stats(&who, &scope.place(), breadth).await?))
}
