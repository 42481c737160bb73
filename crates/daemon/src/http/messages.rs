//! Messages: sent, read, and where their deliveries stand.

use std::{path::PathBuf, sync::Arc};

use agent_worker_kernel::{Place, Reading};
use agent_worker_protocol::{
    Seq, Target,
    api::{MessagesReply, ReceiptsReply, SendReply, SendRequest},
};
use axum::{Json, extract::State};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    Doors,
    once::IdempotencyKey,
    refusal::Answer,
    request::{Body, Path, Query, Scope, Who},
    since::Since,
};

/// What to read of which channel.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Page {
    /// Which instance.
    target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    project: Option<PathBuf>,
    /// Only after this: a message's number or a time.
    #[schemars(with = "Option<String>")]
    since: Option<Since>,
    /// At most so many.
    limit: Option<u32>,
    /// Only those that contain this text.
    search: Option<String>,
    /// This message and everything that replies to it, in whichever run; the first of them.
    thread: Option<Seq>,
    /// Where those stand that are your own; the user's are all.
    #[serde(default)]
    receipts: bool,
    /// Earlier runs too.
    #[serde(default)]
    all_runs: bool,
    /// Every question may say how widely it looks; a channel is one instance's all the same.
    #[serde(default, rename = "all")]
    #[schemars(skip)]
    _all: bool,
}

/// `POST /messages`: answered when it is on disk.
pub(super) async fn send(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    key: IdempotencyKey,
    Body(request): Body<SendRequest>,
) -> Answer<SendReply> {
    let args = || serde_json::to_value(&request).unwrap_or_default();
    let key = key.effect("channel_send", args)?;
    Ok(Json(doors.kernel.send(&who, key, request).await?))
}

/// `GET /messages`
pub(super) async fn list(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    Query(page): Query<Page>,
) -> Answer<MessagesReply> {
    let Page { target, project, since, limit, search, thread, receipts, all_runs, .. } = page;
    let since_seq = since.and_then(Since::seq);
    let reading = Reading { since: since_seq, limit, search, thread, all_runs, receipts };
    let mut reply = doors.kernel.messages(&who, &Place { target, project }, reading).await?;
    since.inspect(|since| since.retain(&mut reply));
    Ok(Json(reply))
}

/// `GET /messages/{seq}/receipts`
pub(super) async fn receipts(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    Path(seq): Path<Seq>,
    Query(scope): Query<Scope>,
) -> Answer<ReceiptsReply> {
    Ok(Json(doors.kernel.receipts(&who, &scope.place(), seq).await?))
}
