//! Content too long for a message, read in parts.

use std::{ops::Range, path::PathBuf, sync::Arc};

use agent_worker_kernel::InstanceSelector;
use agent_worker_protocol::{
    Code, Problem, ProblemDetails, ResourceId, Target,
    api::{ListPage, ResourceEntry, ResourceKept, ResourceRequest, ResourceText},
};
use axum::{Json, extract::State};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    AppState,
    extractors::{InstanceListQuery, JsonBody, Requester, UrlPath, UrlQuery},
    problem_response::HandlerResult,
};

/// Selects a resource's instance and a part of the resource.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ResourceRangeQuery {
    /// The instance to read from.
    target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    project: Option<PathBuf>,
    /// The bytes to read, as `from..to` without the last one; `from..` returns as much as one response holds.
    /// Absent: the first 64 KiB.
    range: Option<String>,
}

/// Handles `GET /resources/{id}`.
pub(super) async fn read(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    UrlPath(id): UrlPath<ResourceId>,
    UrlQuery(part): UrlQuery<ResourceRangeQuery>,
) -> HandlerResult<ResourceText> {
    let ResourceRangeQuery { target, project, range } = part;
    let range = range.as_deref().map(parse_byte_range).transpose()?;
    let place = InstanceSelector { target, project };
    Ok(Json(app.kernel.resources().read(&who, &place, id, range).await?))
}

/// Handles `GET /resources`.
pub(super) async fn list(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    UrlQuery(query): UrlQuery<InstanceListQuery>,
) -> HandlerResult<ListPage<ResourceEntry>> {
    let (selector, page) = query.into_parts()?;
    Ok(Json(app.kernel.resources().list(&who, &selector, &page).await?))
}

/// Handles `POST /resources`: equal content gets the same resource, however often it is posted.
pub(super) async fn create(
    State(app): State<Arc<AppState>>,
    Requester(who): Requester,
    JsonBody(request): JsonBody<ResourceRequest>,
) -> HandlerResult<ResourceKept> {
    let ResourceRequest { target, project, content, r#type } = request;
    let place = InstanceSelector { target, project };
    Ok(Json(app.kernel.resources().create(&who, &place, r#type, content).await?))
}

/// Parses `from..to` and `from..`.
fn parse_byte_range(range: &str) -> Result<Range<u64>, Problem> {
    let bad = || {
        let message = format!("`{}` is not a range of bytes", range.escape_debug());
        let details = ProblemDetails::InvalidRange { range: range.to_owned() };
        Problem::new(Code::BadRequest, message).with_details(details)
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
            assert_eq!(parse_byte_range(text).ok(), expected, "{text}");
        }
    }
}
