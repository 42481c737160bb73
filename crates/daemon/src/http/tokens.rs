//! The tokens of clients.

use std::sync::Arc;

use agent_worker_protocol::api::{ListPage, TokenCreated, TokenRequest, TokenView};
use axum::{Json, extract::State, http::StatusCode};

use super::{
    AppState,
    extractors::{JsonBody, PageQuery, Requester, UrlPath, UrlQuery},
    problem_response::{HandlerResult, ProblemResponse},
};

/// Handles `POST /tokens`.
pub(super) async fn create(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    JsonBody(request): JsonBody<TokenRequest>,
) -> HandlerResult<TokenCreated> {
    Ok(Json(app.kernel.tokens().create(&who, request).await?))
}

/// Handles `GET /tokens`.
pub(super) async fn list(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    UrlQuery(query): UrlQuery<PageQuery>,
) -> HandlerResult<ListPage<TokenView>> {
    Ok(Json(app.kernel.tokens().list(&who, &query.into_page()?).await?))
}

/// Handles `DELETE /tokens/{name}`.
pub(super) async fn revoke(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    UrlPath(name): UrlPath<String>,
) -> Result<StatusCode, ProblemResponse> {
    app.kernel.tokens().revoke(&who, name).await?;
    app.revocations.notify_streams();
    Ok(StatusCode::NO_CONTENT)
}
