//! Turns: the list of attempts, and one attempt with its history.

use std::sync::Arc;

use agent_worker_protocol::api::{ListPage, TurnDetail, TurnView};
use axum::{Json, extract::State};

use super::{
    AppState,
    extractors::{InstanceListQuery, PageQuery, Requester, UrlPath, UrlQuery},
    problem_response::HandlerResult,
};

/// Handles `GET /turns`.
pub(super) async fn list(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    UrlQuery(query): UrlQuery<InstanceListQuery>,
) -> HandlerResult<ListPage<TurnView>> {
    let (selector, page) = query.into_parts()?;
    Ok(Json(app.kernel.turns().list(&who, &selector, &page).await?))
}

/// Handles `GET /turns/{id}`.
pub(super) async fn show(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    UrlPath(id): UrlPath<String>,
    UrlQuery(page): UrlQuery<PageQuery>,
) -> HandlerResult<TurnDetail> {
    Ok(Json(app.kernel.turns().detail(&who, &id, &page.into_page()?).await?))
}
