//! The team's documents.

use std::{path::PathBuf, sync::Arc};

use agent_worker_kernel::{DocumentBase, InstanceSelector};
use agent_worker_protocol::{
    Code, DocumentPath, Problem, Revision, Seq, Target,
    api::{
        DocumentDiff, DocumentEntry, DocumentMode, DocumentNamed, DocumentRequest, DocumentText,
        DocumentWritten, ListPage, SuggestReply, SuggestRequest, SuggestionRequest, SuggestionView,
    },
};
use axum::{Json, extract::State};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{
    AppState,
    extractors::{InstanceListQuery, JsonBody, Requester, ScopeQuery, UrlPath, UrlQuery},
    idempotency::IdempotencyKey,
    problem_response::HandlerResult,
};

/// Selects a document's instance and revision.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DocumentReadQuery {
    /// The instance to read from.
    target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    project: Option<PathBuf>,
    /// The revision to read. Absent: the newest.
    revision: Option<Revision>,
}

/// Handles `GET /documents`.
pub(super) async fn list(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    UrlQuery(query): UrlQuery<InstanceListQuery>,
) -> HandlerResult<ListPage<DocumentEntry>> {
    let (selector, page) = query.into_parts()?;
    Ok(Json(app.kernel.documents().list(&who, &selector, &page).await?))
}

/// Handles `GET /document`.
pub(super) async fn default_document(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    UrlQuery(scope): UrlQuery<ScopeQuery>,
) -> HandlerResult<DocumentNamed> {
    Ok(Json(app.kernel.documents().default_path(&who, &scope.into_target()).await?))
}

/// Handles `GET /documents/{path}`.
pub(super) async fn read(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    UrlPath(file): UrlPath<DocumentPath>,
    UrlQuery(which): UrlQuery<DocumentReadQuery>,
) -> HandlerResult<DocumentText> {
    let DocumentReadQuery { target, project, revision } = which;
    let place = InstanceSelector { target, project };
    Ok(Json(app.kernel.documents().read(&who, &place, file, revision).await?))
}

/// Handles `POST /documents/{path}`: refuses to replace a revision that the caller has not read.
pub(super) async fn write(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    key: IdempotencyKey,
    UrlPath(file): UrlPath<DocumentPath>,
    JsonBody(request): JsonBody<DocumentRequest>,
) -> HandlerResult<DocumentWritten> {
    let key = key.effect("document_put", || json!({ "file": file, "request": request }))?;
    let base = write_base(request.mode, request.base_revision)?;
    let DocumentRequest { target, project, content, .. } = request;
    let place = InstanceSelector { target, project };
    Ok(Json(app.kernel.documents().write(&who, key, &place, file, content, base).await?))
}

/// Handles `GET /revisions/{path}`.
pub(super) async fn history(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    UrlPath(file): UrlPath<DocumentPath>,
    UrlQuery(query): UrlQuery<InstanceListQuery>,
) -> HandlerResult<ListPage<DocumentEntry>> {
    let (selector, page) = query.into_parts()?;
    Ok(Json(app.kernel.documents().history(&who, &selector, file, &page).await?))
}

/// Selects the revisions to compare.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DocumentDiffQuery {
    /// The instance to read from.
    target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    project: Option<PathBuf>,
    /// The first revision, 0 for an empty text. Absent: the one before `to`.
    from: Option<Revision>,
    /// The second revision. Absent: the newest.
    to: Option<Revision>,
}

/// Handles `GET /diffs/{path}`.
pub(super) async fn diff(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    UrlPath(file): UrlPath<DocumentPath>,
    UrlQuery(between): UrlQuery<DocumentDiffQuery>,
) -> HandlerResult<DocumentDiff> {
    let DocumentDiffQuery { target, project, from, to } = between;
    let place = InstanceSelector { target, project };
    Ok(Json(app.kernel.documents().diff(&who, &place, file, (from, to)).await?))
}

/// Handles `GET /suggestions`.
pub(super) async fn suggestions(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    UrlQuery(query): UrlQuery<InstanceListQuery>,
) -> HandlerResult<ListPage<SuggestionView>> {
    let (selector, page) = query.into_parts()?;
    Ok(Json(app.kernel.suggestions().list(&who, &selector, &page).await?))
}

/// Handles `POST /suggestions`.
pub(super) async fn suggest(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    key: IdempotencyKey,
    JsonBody(request): JsonBody<SuggestRequest>,
) -> HandlerResult<SuggestReply> {
    let key = key.effect("document_suggest", || json!(request))?;
    Ok(Json(app.kernel.suggestions().create(&who, key, request).await?))
}

/// Handles `POST /suggestions/{seq}`.
pub(super) async fn answer_suggestion(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    key: IdempotencyKey,
    UrlPath(seq): UrlPath<Seq>,
    JsonBody(request): JsonBody<SuggestionRequest>,
) -> HandlerResult<SuggestionView> {
    let args = || json!({ "suggestion": seq, "request": request });
    let key = key.effect("suggestion_answer", args)?;
    Ok(Json(app.kernel.suggestions().answer(&who, key, seq, request).await?))
}

/// Returns the base that a write requires.
fn write_base(mode: DocumentMode, revision: Option<Revision>) -> Result<DocumentBase, Problem> {
    match (mode, revision) {
        (DocumentMode::Write, Some(revision)) => Ok(DocumentBase::Revision(revision)),
        (DocumentMode::Write | DocumentMode::Create, None) => Ok(DocumentBase::Absent),
        (DocumentMode::Append, None) => Ok(DocumentBase::Append),
        (DocumentMode::Append | DocumentMode::Create, Some(_)) => {
            let message = "`base_revision` is allowed only with the mode `write`: the other modes replace nothing";
            Err(Problem::new(Code::BadRequest, message))
        }
    }
}
