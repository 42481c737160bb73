//! Feedback about the program itself.

use std::sync::Arc;

use agent_worker_protocol::api::{FeedbackRequest, FeedbackView};
use axum::{Json, extract::State};

use super::{
    AppState,
    extractors::{JsonBody, Requester},
    problem_response::HandlerResult,
};

/// Handles `POST /feedback`.
pub(super) async fn submit(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    JsonBody(request): JsonBody<FeedbackRequest>,
) -> HandlerResult<FeedbackView> {
    Ok(Json(app.kernel.feedback().submit(&who, None, request).await?))
}

/// Handles `GET /feedback`.
pub(super) async fn list(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
) -> HandlerResult<Vec<FeedbackView>> {
    Ok(Json(app.kernel.feedback().list(&who).await?))
}
