//! Content too long for a message, read in parts.

use std::{ops::Range, path::PathBuf, sync::Arc};

use agent_worker_kernel::Place;
use agent_worker_protocol::{
    Code, Problem, ResourceId, Target,
    api::{ResourceEntry, ResourceKept, ResourceRequest, ResourceText},
};
use axum::{Json, extract::State};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    Doors,
    refusal::Answer,
    request::{Body, Path, Query, Scope, Who},
};

/// Whose resource, and which part of it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Part {
    /// Which instance.
    target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    project: Option<PathBuf>,
    /// Which bytes, as `from..to`, the last one not included; `from..` gives as much as one answer holds. Absent: the
    /// first 64 KiB.
    range: Option<String>,
}

/// `GET /resources/{id}`
pub(super) async fn read(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    Path(id): Path<ResourceId>,
    Query(part): Query<Part>,
) -> Answer<ResourceText> {
    let Part { target, project, range } = part;
    let range = range.as_deref().map(bytes).transpose()?;
    let place = Place { target, project };
    Ok(Json(doors.kernel.resource_read(&who, &place, id, range).await?))
}

/// `GET /resources`
pub(super) async fn list(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    Query(scope): Query<Scope>,
) -> Answer<Vec<ResourceEntry>> {
    Ok(Json(doors.kernel.resource_list(&who, &scope.place()).await?))
}

/// `POST /resources`: the same content is the same resource, however often it comes.
pub(super) async fn create(
    State(doors): State<Arc<Doors>>,
    Who(who): Who,
    Body(request): Body<ResourceRequest>,
) -> Answer<ResourceKept> {
    let ResourceRequest { target, project, content, r#type } = request;
    let place = Place { target, project };
    Ok(Json(doors.kernel.resource_create(&who, &place, r#type, content).await?))
}

/// Reads `from..to` and `from..`.
fn bytes(range: &str) -> Result<Range<u64>, Problem> {
    let bad = || {
        let message = format!("`{}` is not a range of bytes", range.escape_debug());
        Problem::new(Code::BadRequest, message).hint("write it as `0..65536` or `65536..`")
    };
    let (from, to) = range.split_once("..").ok_or_else(bad)?;
    let from = from.parse().map_err(|_| bad())?;
    let to = if to.is_empty() { u64::MAX } else { to.parse().map_err(|_| bad())? };
    if from <= to { Ok(from..to) } else { Err(bad()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_read_as_it_is_written() {
        for (text, expected) in [
            ("0..65536", Some(0..65_536)),
            ("7..7", Some(7..7)),
            ("65536..", Some(65_536..u64::MAX)),
            ("..5", None),
            ("9..2", None),
            ("-1..2", None),
            ("0-5", None),
            ("", None),
            ("0..99999999999999999999", None),
        ] {
            assert_eq!(bytes(text).ok(), expected, "{text}");
        }
    }
}
