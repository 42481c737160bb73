//! Who takes part, what each is doing and why; how one joins, stops and leaves.

use std::{path::PathBuf, sync::Arc};

use agent_worker_kernel::Place;
use agent_worker_protocol::{
    AttemptId, Target,
    api::{AgentDetail, AgentRequest, AgentStopped, AgentView, LogReply},
};
use axum::{Json, extract::State};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    Doors,
    once::IdempotencyKey,
    refusal::Answer,
    request::{Body, Near, NearStop, Path, Query, Scope, Who},
};

/// Whose log, and from where on.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LogPage {
    /// Which agent.
    target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    project: Option<PathBuf>,
    /// Which attempt; absent: its last one.
    attempt: Option<AttemptId>,
    /// From which byte on.
    #[serde(default)]
    after: u64,
}

/// `GET /agents`
pub(super) async fn list(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    Query(scope): Query<Scope>,
) -> Answer<Vec<AgentView>> {
    let breadth = scope.breadth();
    Ok(Json(doors.kernel.agent_views(&who, &scope.place(), breadth).await?))
}

/// `POST /agents`
pub(super) async fn join(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    key: IdempotencyKey,
    Body(request): Body<AgentRequest>,
) -> Answer<AgentView> {
    let args = || serde_json::to_value(&request).unwrap_or_default();
    let key = key.effect("agent_new", args)?;
    Ok(Json(doors.kernel.agent_new(&who, key, request).await?))
}

/// `GET /agents/{target}`
pub(super) async fn show(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    Path(target): Path<Target>,
    Query(near): Query<Near>,
) -> Answer<AgentDetail> {
    Ok(Json(doors.kernel.agent_detail(&who, &near.place(target)).await?))
}

/// `DELETE /agents/{target}`
pub(super) async fn remove(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    Path(target): Path<Target>,
    Query(near): Query<Near>,
) -> Answer<AgentStopped> {
    Ok(Json(doors.kernel.agent_remove(&who, &near.place(target)).await?))
}

/// `POST /agents/{target}/stop`: answers when every process of it is gone.
pub(super) async fn stop(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    Path(target): Path<Target>,
    Query(near): Query<NearStop>,
) -> Answer<AgentStopped> {
    let stopped = if near.now {
        doors.kernel.agent_stop_now(&who, &near.place(target)).await?
    } else {
        doors.kernel.agent_stop(&who, &near.place(target)).await?
    };
    Ok(Json(stopped))
}

/// `POST /agents/{target}/resume`
pub(super) async fn resume(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    Path(target): Path<Target>,
    Query(near): Query<Near>,
) -> Answer<AgentView> {
    Ok(Json(doors.kernel.agent_resume(&who, &near.place(target)).await?))
}

/// `GET /logs`
pub(super) async fn log(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    Query(page): Query<LogPage>,
) -> Answer<LogReply> {
    let LogPage { target, project, attempt, after } = page;
    let place = Place { target, project };
    Ok(Json(doors.kernel.log_read(&who, &place, attempt, after).await?))
}
