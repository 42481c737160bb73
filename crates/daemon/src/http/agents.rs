//! Who takes part, and what each is doing.

use std::sync::Arc;

use agent_worker_protocol::api::AgentView;
use axum::{Json, extract::State};

use super::{
    Doors,
    refusal::Answer,
    request::{Query, Scope, Who},
};

/// `GET /agents`
pub(super) async fn list(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    Query(scope): Query<Scope>,
) -> Answer<Vec<AgentView>> {
    let breadth = scope.breadth();
    Ok(Json(doors.kernel.agent_views(&who, &scope.place(), breadth).await?))
}
