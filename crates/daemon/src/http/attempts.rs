//! Reports and requests of workers.

use std::sync::Arc;

use agent_worker_protocol::{
    AttemptId, EventsReply, EventsRequest, SpendReply, SpendRequest, TurnMessagesReply,
    TurnMessagesRequest,
    api::{PermitReply, PermitRequest},
};
use axum::{Json, extract::State};

use super::{
    AppState,
    extractors::{JsonBody, TokenHolder, UrlPath},
    problem_response::HandlerResult,
};

/// Handles `POST /attempts/{id}/events`.
pub(super) async fn report(
    State(app): State<Arc<AppState>>,
    TokenHolder(who): TokenHolder,
    UrlPath(attempt): UrlPath<AttemptId>,
    JsonBody(request): JsonBody<EventsRequest>,
) -> HandlerResult<EventsReply> {
    Ok(Json(app.kernel.attempts().report(&who, attempt, request).await?))
}

/// Handles `POST /attempts/{id}/messages`.
pub(super) async fn messages(
    State(app): State<Arc<AppState>>,
    TokenHolder(who): TokenHolder,
    UrlPath(attempt): UrlPath<AttemptId>,
    JsonBody(request): JsonBody<TurnMessagesRequest>,
) -> HandlerResult<TurnMessagesReply> {
    Ok(Json(app.kernel.attempts().messages(&who, attempt, request).await?))
}

/// Handles `POST /attempts/{id}/spend`.
pub(super) async fn spend(
    State(app): State<Arc<AppState>>,
    TokenHolder(who): TokenHolder,
    UrlPath(attempt): UrlPath<AttemptId>,
    JsonBody(request): JsonBody<SpendRequest>,
) -> HandlerResult<SpendReply> {
    Ok(Json(app.kernel.attempts().reserve_spend(&who, attempt, request).await?))
}

/// Handles `POST /attempts/{id}/approvals`.
pub(super) async fn permit(
    State(app): State<Arc<AppState>>,
    TokenHolder(who): TokenHolder,
    UrlPath(attempt): UrlPath<AttemptId>,
    JsonBody(request): JsonBody<PermitRequest>,
) -> HandlerResult<PermitReply> {
    Ok(Json(app.kernel.approvals().permit_call(&who, attempt, request).await?))
}
