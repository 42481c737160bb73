//! Requests of agents for a person's approval, and grants.

use std::sync::Arc;

use agent_worker_protocol::{
    ApprovalId, Consent, GrantId,
    Permission::{Approve, Read},
    api::{ApprovalView, ConsentRequest, GrantView, ListPage, RevokeRequest},
};
use axum::{Json, extract::State};
use serde_json::json;

use super::{
    AppState,
    extractors::{JsonBody, ListQuery, Requester, UrlPath, UrlQuery},
    idempotency::IdempotencyKey,
    problem_response::HandlerResult,
    route::{
        Route,
        Verb::{Get, Post},
    },
};

/// Returns the routes of approvals.
pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(Read, Get, "/approvals", list, "Lists the open approval requests of agents.")
            .query_params::<ListQuery>()
            .returns::<ListPage<ApprovalView>>(),
        Route::new(
            Approve,
            Post,
            "/approvals/{id}/approve",
            approve,
            "Approves a requested call, once or for the rest of the run.",
        )
        .path_param::<ApprovalId>()
        .idempotent_body::<ConsentRequest>()
        .returns::<ApprovalView>(),
        Route::new(Approve, Post, "/approvals/{id}/deny", deny, "Denies a requested call.")
            .path_param::<ApprovalId>()
            .idempotent_body::<ConsentRequest>()
            .returns::<ApprovalView>(),
        Route::new(
            Read,
            Get,
            "/grants",
            list_grants,
            "Lists the calls that agents may make without asking until their run ends.",
        )
        .query_params::<ListQuery>()
        .returns::<ListPage<GrantView>>(),
        Route::new(Approve, Post, "/grants/{id}/revoke", revoke_grant, "Revokes a grant.")
            .path_param::<GrantId>()
            .idempotent_body::<RevokeRequest>()
            .returns::<GrantView>(),
    ]
}

/// Handles `GET /approvals`.
pub(super) async fn list(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    UrlQuery(query): UrlQuery<ListQuery>,
) -> HandlerResult<ListPage<ApprovalView>> {
    let (selector, scope, page) = query.into_parts()?;
    Ok(Json(app.kernel.approvals().list(&who, &selector, scope, &page).await?))
}

/// Handles `POST /approvals/{id}/approve`.
pub(super) async fn approve(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    key: IdempotencyKey,
    UrlPath(id): UrlPath<ApprovalId>,
    JsonBody(request): JsonBody<ConsentRequest>,
) -> HandlerResult<ApprovalView> {
    let key = key.effect("approve", || json!({ "approval": id, "request": request }))?;
    Ok(Json(app.kernel.approvals().answer(&who, key, id, Consent::Approved, request).await?))
}

/// Handles `POST /approvals/{id}/deny`.
pub(super) async fn deny(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    key: IdempotencyKey,
    UrlPath(id): UrlPath<ApprovalId>,
    JsonBody(request): JsonBody<ConsentRequest>,
) -> HandlerResult<ApprovalView> {
    let key = key.effect("deny", || json!({ "approval": id, "request": request }))?;
    Ok(Json(app.kernel.approvals().answer(&who, key, id, Consent::Denied, request).await?))
}

/// Handles `GET /grants`.
pub(super) async fn list_grants(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    UrlQuery(query): UrlQuery<ListQuery>,
) -> HandlerResult<ListPage<GrantView>> {
    let (selector, scope, page) = query.into_parts()?;
    Ok(Json(app.kernel.approvals().grants(&who, &selector, scope, &page).await?))
}

/// Handles `POST /grants/{id}/revoke`.
pub(super) async fn revoke_grant(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    key: IdempotencyKey,
    UrlPath(id): UrlPath<GrantId>,
    JsonBody(request): JsonBody<RevokeRequest>,
) -> HandlerResult<GrantView> {
    let key = key.effect("revoke", || json!({ "grant": id, "request": request }))?;
    Ok(Json(app.kernel.approvals().revoke_grant(&who, key, id, request).await?))
}
