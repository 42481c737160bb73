//! The team's documents.

use std::{path::PathBuf, sync::Arc};

use agent_worker_kernel::{Base, Place};
use agent_worker_protocol::{
    Code, DocumentPath, Problem, Revision, Target,
    api::{DocumentEntry, DocumentMode, DocumentRequest, DocumentText, DocumentWritten},
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
