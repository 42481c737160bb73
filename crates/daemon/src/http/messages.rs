//! Messages: sent, read, and where their deliveries stand.

use std::{path::PathBuf, sync::Arc};

use agent_worker_kernel::{ChannelQuery, InstanceSelector};
use agent_worker_protocol::{
    Seq, Target,
    api::{MessagesReply, ReceiptsReply, SendReply, SendRequest},
};
use axum::{Json, extract::State};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    AppState,
    extractors::{JsonBody, Requester, ScopeQuery, UrlPath, UrlQuery},
    idempotency::IdempotencyKey,
    problem_response::HandlerResult,
    since_filter::SinceFilter,
};

/// What to read of which channel.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MessagePageQuery {
    /// Which instance.
    target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    project: Option<PathBuf>,
    /// Only after this: a message's number or a time.
    #[schemars(with = "Option<String>")]
    since: Option<SinceFilter>,
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
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    key: IdempotencyKey,
    JsonBody(request): JsonBody<SendRequest>,
) -> HandlerResult<SendReply> {
    let args = || serde_json::to_value(&request).unwrap_or_default();
    let key = key.effect("channel_send", args)?;
    Ok(Json(app.kernel.messages().send(&who, key, request).await?))
}

/// `GET /messages`
pub(super) async fn list(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    UrlQuery(page): UrlQuery<MessagePageQuery>,
) -> HandlerResult<MessagesReply> {
    let MessagePageQuery {
        target, project, since, limit, search, thread, receipts, all_runs, ..
    } = page;
    let since_seq = since.and_then(SinceFilter::seq);
    let reading = ChannelQuery { since: since_seq, limit, search, thread, all_runs, receipts };
    let mut reply =
        app.kernel.messages().list(&who, &InstanceSelector { target, project }, reading).await?;
    since.inspect(|since| since.retain_newer(&mut reply));
    Ok(Json(reply))
}

/// `GET /messages/{seq}/receipts`
pub(super) async fn receipts(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    UrlPath(seq): UrlPath<Seq>,
    UrlQuery(scope): UrlQuery<ScopeQuery>,
) -> HandlerResult<ReceiptsReply> {
    Ok(Json(app.kernel.messages().receipts(&who, &scope.into_target(), seq).await?))
}
