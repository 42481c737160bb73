//! What agents want to do and ask a person for.

use std::sync::Arc;

use agent_worker_protocol::{
    ApprovalId, Consent,
    Permission::{Approve, Read},
    api::{ApprovalView, ConsentRequest},
};
use axum::{Json, extract::State};
use serde_json::json;

use super::{
    Doors,
    once::IdempotencyKey,
    refusal::Answer,
    request::{Body, Path, Query, Scope, Who},
    route::{
        Route,
        Verb::{Get, Post},
    },
};

/// Its routes.
pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(Read, Get, "/approvals", list, "What agents want to do and wait for.")
            .asks::<Scope>()
            .gives::<Vec<ApprovalView>>(),
        Route::new(
            Approve,
            Post,
            "/approvals/{id}/approve",
            approve,
            "Lets what an agent asked for happen, once.",
        )
        .named::<ApprovalId>()
        .takes_once::<ConsentRequest>()
        .gives::<ApprovalView>(),
        Route::new(Approve, Post, "/approvals/{id}/deny", deny, "Refuses what an agent asked for.")
            .named::<ApprovalId>()
            .takes_once::<ConsentRequest>()
            .gives::<ApprovalView>(),
    ]
}

/// `GET /approvals`
pub(super) async fn list(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    Query(scope): Query<Scope>,
) -> Answer<Vec<ApprovalView>> {
    let breadth = scope.breadth();
    Ok(Json(doors.kernel.approval_list(&who, &scope.place(), breadth).await?))
}

/// `POST /approvals/{id}/approve`
pub(super) async fn approve(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    key: IdempotencyKey,
    Path(id): Path<ApprovalId>,
    Body(request): Body<ConsentRequest>,
) -> Answer<ApprovalView> {
    let key = key.effect("approve", || json!({ "approval": id, "request": request }))?;
    Ok(Json(doors.kernel.approval_answer(&who, key, id, Consent::Approved, request).await?))
}

/// `POST /approvals/{id}/deny`
pub(super) async fn deny(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    key: IdempotencyKey,
    Path(id): Path<ApprovalId>,
    Body(request): Body<ConsentRequest>,
) -> Answer<ApprovalView> {
    let key = key.effect("deny", || json!({ "approval": id, "request": request }))?;
    Ok(Json(doors.kernel.approval_answer(&who, key, id, Consent::Denied, request).await?))
}
