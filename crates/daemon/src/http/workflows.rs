//! Instances as a whole.

use std::sync::Arc;

use agent_worker_kernel::Place;
use agent_worker_protocol::api::{Cleared, InstanceRequest, InstanceView, Removed};
use axum::{Json, extract::State};

use super::{
    Doors,
    once::IdempotencyKey,
    refusal::Answer,
    request::{Body, Query, Scope, Who},
};

/// `GET /workflows`
pub(super) async fn list(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    Query(scope): Query<Scope>,
) -> Answer<Vec<InstanceView>> {
    let breadth = scope.breadth();
    Ok(Json(doors.kernel.instance_views(&who, &scope.place(), breadth).await?))
}

/// `POST /workflows/clear`
pub(super) async fn clear(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    key: IdempotencyKey,
    Body(request): Body<InstanceRequest>,
) -> Answer<Cleared> {
    let args = || serde_json::to_value(&request).unwrap_or_default();
    let key = key.effect("instance_clear", args)?;
    Ok(Json(doors.kernel.instance_clear(&who, key, &place(request)).await?))
}

/// `POST /workflows/remove`
pub(super) async fn remove(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    Body(request): Body<InstanceRequest>,
) -> Answer<Removed> {
    Ok(Json(doors.kernel.instance_remove(&who, &place(request)).await?))
}

fn place(request: InstanceRequest) -> Place {
    Place { target: request.target, project: request.project }
}
