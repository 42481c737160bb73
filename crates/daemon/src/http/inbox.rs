//! Inboxes, for agents without MCP and for whoever looks after one.

use std::sync::Arc;

use agent_worker_protocol::api::{AckReply, AckRequest, InboxReply};
use axum::{Json, extract::State};

use super::{
    Doors,
    refusal::Answer,
    request::{Body, Query, Scope, Who},
};

/// `GET /inbox`
pub(super) async fn look(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    Query(scope): Query<Scope>,
) -> Answer<InboxReply> {
    Ok(Json(doors.kernel.inbox_look(&who, &scope.place()).await?))
}

/// `POST /inbox/ack`
pub(super) async fn ack(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    Body(AckRequest { until }): Body<AckRequest>,
) -> Answer<AckReply> {
    let with_this_turn = doors.kernel.inbox_ack(&who, until).await?.with_this_turn;
    Ok(Json(AckReply { with_this_turn }))
}
