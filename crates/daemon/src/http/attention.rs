//! The attention list of a person, and dead letters.

use std::sync::Arc;

use agent_worker_kernel::DeadLetterAction;
use agent_worker_protocol::api::{AttentionItem, DeadLetter, DeadReply, DeadRequest, ListPage};
use axum::{Json, extract::State};

use super::{
    AppState,
    extractors::{JsonBody, ListQuery, Requester, UrlQuery},
    idempotency::IdempotencyKey,
    problem_response::HandlerResult,
    terminal_text::attention_hint,
};

/// Handles `GET /attention`.
pub(super) async fn list(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    UrlQuery(query): UrlQuery<ListQuery>,
) -> HandlerResult<ListPage<AttentionItem>> {
    let (selector, scope, page) = query.into_parts()?;
    let page = app.kernel.attention().list(&who, &selector, scope, &page).await?;
    Ok(Json(page.map(|item| item.into_item(attention_hint))))
}

/// Handles `GET /dead`.
pub(super) async fn dead(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    UrlQuery(query): UrlQuery<ListQuery>,
) -> HandlerResult<ListPage<DeadLetter>> {
    let (selector, scope, page) = query.into_parts()?;
    Ok(Json(app.kernel.attention().dead_letters(&who, &selector, scope, &page).await?))
}

/// Handles `POST /dead/redrive`.
pub(super) async fn redrive(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    key: IdempotencyKey,
    JsonBody(request): JsonBody<DeadRequest>,
) -> HandlerResult<DeadReply> {
    let args = || serde_json::to_value(&request).unwrap_or_default();
    let key = key.effect("dead_redrive", args)?;
    Ok(Json(
        app.kernel
            .attention()
            .resolve_dead_letter(&who, key, request, DeadLetterAction::Redrive)
            .await?,
    ))
}

/// Handles `POST /dead/drop`.
pub(super) async fn drop(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    key: IdempotencyKey,
    JsonBody(request): JsonBody<DeadRequest>,
) -> HandlerResult<DeadReply> {
    let args = || serde_json::to_value(&request).unwrap_or_default();
    let key = key.effect("dead_drop", args)?;
    Ok(Json(
        app.kernel
            .attention()
            .resolve_dead_letter(&who, key, request, DeadLetterAction::Drop)
            .await?,
    ))
}
