//! What waits for a person, and dead letters.

use std::sync::Arc;

use agent_worker_kernel::Burial;
use agent_worker_protocol::api::{AttentionItem, DeadLetter, DeadReply, DeadRequest};
use axum::{Json, extract::State};

use super::{
    Doors,
    once::IdempotencyKey,
    refusal::Answer,
    request::{Body, Query, Scope, Who},
};

/// `GET /attention`
pub(super) async fn list(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    Query(scope): Query<Scope>,
) -> Answer<Vec<AttentionItem>> {
    let breadth = scope.breadth();
    Ok(Json(doors.kernel.attention(&who, &scope.place(), breadth).await?))
}

/// `GET /dead`
pub(super) async fn dead(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    Query(scope): Query<Scope>,
) -> Answer<Vec<DeadLetter>> {
    let breadth = scope.breadth();
    Ok(Json(doors.kernel.dead_list(&who, &scope.place(), breadth).await?))
}

/// `POST /dead/redrive`
pub(super) async fn redrive(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    key: IdempotencyKey,
    Body(request): Body<DeadRequest>,
) -> Answer<DeadReply> {
    let args = || serde_json::to_value(&request).unwrap_or_default();
    let key = key.effect("dead_redrive", args)?;
    Ok(Json(doors.kernel.dead_bury(&who, key, request, Burial::Redrive).await?))
}

/// `POST /dead/drop`
pub(super) async fn drop(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    key: IdempotencyKey,
    Body(request): Body<DeadRequest>,
) -> Answer<DeadReply> {
    let args = || serde_json::to_value(&request).unwrap_or_default();
    let key = key.effect("dead_drop", args)?;
    Ok(Json(doors.kernel.dead_bury(&who, key, request, Burial::Drop).await?))
}
