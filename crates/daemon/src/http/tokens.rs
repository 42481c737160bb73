//! Clients' tokens.

use std::sync::Arc;

use agent_worker_protocol::api::{TokenCreated, TokenRequest, TokenView};
use axum::{Json, extract::State, http::StatusCode};

use super::{
    Doors,
    refusal::{Answer, Refusal},
    request::{Body, Path, Who},
};

/// `POST /tokens`
pub(super) async fn create(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    Body(request): Body<TokenRequest>,
) -> Answer<TokenCreated> {
    Ok(Json(doors.kernel.token_create(&who, request).await?))
}

/// `GET /tokens`
pub(super) async fn list(State(doors): State<Arc<Doors>>, Who(who): Who) -> Answer<Vec<TokenView>> {
    Ok(Json(doors.kernel.token_list(&who).await?))
}

/// `DELETE /tokens/{name}`
pub(super) async fn revoke(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    Path(name): Path<String>,
) -> Result<StatusCode, Refusal> {
    doors.kernel.token_revoke(&who, name).await?;
    doors.revocations.tell();
    Ok(StatusCode::NO_CONTENT)
}
