//! Instances of workflows: list, clear, remove.

use std::sync::Arc;

use agent_worker_kernel::InstanceSelector;
use agent_worker_protocol::api::{
    InstanceCleared, InstanceRemoved, InstanceRequest, InstanceView, ListPage,
};
use axum::{Json, extract::State};

use super::{
    AppState,
    extractors::{JsonBody, ListQuery, Requester, UrlQuery},
    idempotency::IdempotencyKey,
    problem_response::HandlerResult,
};

/// Handles `GET /workflows`.
pub(super) async fn list(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    UrlQuery(query): UrlQuery<ListQuery>,
) -> HandlerResult<ListPage<InstanceView>> {
    let (selector, scope, page) = query.into_parts()?;
    Ok(Json(app.kernel.instances().list(&who, &selector, scope, &page).await?))
}

/// Handles `POST /workflows/clear`.
pub(super) async fn clear(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    key: IdempotencyKey,
    JsonBody(request): JsonBody<InstanceRequest>,
) -> HandlerResult<InstanceCleared> {
    let args = || serde_json::to_value(&request).unwrap_or_default();
    let key = key.effect("instance_clear", args)?;
    Ok(Json(app.kernel.instances().clear(&who, key, &request_target(request)).await?))
}

/// Handles `POST /workflows/remove`.
pub(super) async fn remove(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    JsonBody(request): JsonBody<InstanceRequest>,
) -> HandlerResult<InstanceRemoved> {
    Ok(Json(app.kernel.instances().remove(&who, &request_target(request)).await?))
}

fn request_target(request: InstanceRequest) -> InstanceSelector {
    InstanceSelector { target: request.target, project: request.project }
}
