//! The team's documents.

use std::{path::PathBuf, sync::Arc};

use agent_worker_kernel::{Base, Place};
use agent_worker_protocol::{
    Code, DocumentPath, Problem, Revision, Seq, Target,
    api::{
        DocumentDiff, DocumentEntry, DocumentMode, DocumentNamed, DocumentRequest, DocumentText,
        DocumentWritten, SuggestRequest, Suggested, SuggestionRequest, SuggestionView,
    },
};
use axum::{Json, extract::State};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{
    Doors,
    once::IdempotencyKey,
    refusal::Answer,
    request::{Body, Path, Query, Scope, Who},
};

/// Whose document, and which revision of it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    /// Which instance.
    target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    project: Option<PathBuf>,
    /// An older revision; absent: the newest.
    revision: Option<Revision>,
}

/// `GET /documents`
pub(super) async fn list(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    Query(scope): Query<Scope>,
) -> Answer<Vec<DocumentEntry>> {
    Ok(Json(doors.kernel.document_list(&who, &scope.place()).await?))
}

/// `GET /document`
pub(super) async fn named(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    Query(scope): Query<Scope>,
) -> Answer<DocumentNamed> {
    Ok(Json(doors.kernel.document_default(&who, &scope.place()).await?))
}

/// `GET /documents/{path}`
pub(super) async fn read(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    Path(file): Path<DocumentPath>,
    Query(which): Query<Which>,
) -> Answer<DocumentText> {
    let Which { target, project, revision } = which;
    let place = Place { target, project };
    Ok(Json(doors.kernel.document_read(&who, &place, file, revision).await?))
}

/// `POST /documents/{path}`: replacing what one has not read is refused.
pub(super) async fn write(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    key: IdempotencyKey,
    Path(file): Path<DocumentPath>,
    Body(request): Body<DocumentRequest>,
) -> Answer<DocumentWritten> {
    let key = key.effect("document_put", || json!({ "file": file, "request": request }))?;
    let base = base(request.mode, request.base_revision)?;
    let DocumentRequest { target, project, content, .. } = request;
    let place = Place { target, project };
    Ok(Json(doors.kernel.document_write(&who, key, &place, file, content, base).await?))
}

/// `GET /revisions/{path}`
pub(super) async fn history(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    Path(file): Path<DocumentPath>,
    Query(scope): Query<Scope>,
) -> Answer<Vec<DocumentEntry>> {
    Ok(Json(doors.kernel.document_history(&who, &scope.place(), file).await?))
}

/// Which revisions are compared.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Between {
    /// Which instance.
    target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    project: Option<PathBuf>,
    /// From which revision, 0 for nothing; absent: the one before `to`.
    from: Option<Revision>,
    /// To which; absent: the newest.
    to: Option<Revision>,
}

/// `GET /diffs/{path}`
pub(super) async fn diff(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    Path(file): Path<DocumentPath>,
    Query(between): Query<Between>,
) -> Answer<DocumentDiff> {
    let Between { target, project, from, to } = between;
    let place = Place { target, project };
    Ok(Json(doors.kernel.document_diff(&who, &place, file, (from, to)).await?))
}

/// `GET /suggestions`
pub(super) async fn suggestions(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    Query(scope): Query<Scope>,
) -> Answer<Vec<SuggestionView>> {
    Ok(Json(doors.kernel.suggestions(&who, &scope.place()).await?))
}

/// `POST /suggestions`
pub(super) async fn suggest(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    key: IdempotencyKey,
    Body(request): Body<SuggestRequest>,
) -> Answer<Suggested> {
    let key = key.effect("document_suggest", || json!(request))?;
    Ok(Json(doors.kernel.suggest(&who, key, request).await?))
}

/// `POST /suggestions/{seq}`
pub(super) async fn answer(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    key: IdempotencyKey,
    Path(seq): Path<Seq>,
    Body(request): Body<SuggestionRequest>,
) -> Answer<SuggestionView> {
    let args = || json!({ "suggestion": seq, "request": request });
    let key = key.effect("suggestion_answer", args)?;
    Ok(Json(doors.kernel.suggestion_answer(&who, key, seq, request).await?))
}

/// What a write has to find there.
fn base(mode: DocumentMode, revision: Option<Revision>) -> Result<Base, Problem> {
    match (mode, revision) {
        (DocumentMode::Write, Some(revision)) => Ok(Base::Revision(revision)),
        (DocumentMode::Write | DocumentMode::Create, None) => Ok(Base::Absent),
        (DocumentMode::Append, None) => Ok(Base::Append),
        (DocumentMode::Append | DocumentMode::Create, Some(_)) => {
            let message = "`base_revision` is for `write`: the others replace nothing";
            Err(Problem::new(Code::BadRequest, message))
        }
    }
}
