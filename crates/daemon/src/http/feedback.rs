//! Feedback about the program itself.

use std::sync::Arc;

use agent_worker_protocol::api::{FeedbackRequest, FeedbackView, ListPage};
use axum::{Json, extract::State};

use super::{
    AppState,
    extractors::{JsonBody, PageQuery, Requester, UrlQuery},
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
    UrlQuery(query): UrlQuery<PageQuery>,
) -> HandlerResult<ListPage<FeedbackView>> {
    Ok(Json(app.kernel.feedback().list(&who, &query.into_page()?).await?))
}
