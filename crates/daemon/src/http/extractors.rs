//! Extractors of the handlers. They refuse invalid input with our own problem texts.

use std::{convert::Infallible, path::PathBuf};

use agent_worker_kernel::{InstanceSelector, ListingScope, PageRequest, Principal};
use agent_worker_protocol::{Code, Problem, Target};
use axum::{
    RequestPartsExt as _,
    body::{Bytes, to_bytes},
    extract::{FromRequest, FromRequestParts, Request},
    http::{header::AUTHORIZATION, request::Parts},
};
use schemars::JsonSchema;
use serde::{Deserialize, de::DeserializeOwned};

use super::{body::BODY_LIMIT, problem_response::ProblemResponse};
use crate::input;

/// The caller, as identified at admission.
pub(super) struct Requester(pub(super) Principal);

/// The caller, proven by a token. A process inside an attempt's tree may act as its agent, but only the
/// worker, which alone holds the token, may report for the attempt.
pub(super) struct TokenHolder(pub(super) Principal);

/// The request body, parsed from JSON.
pub(super) struct JsonBody<T>(pub(super) T);

/// The request body, parsed from JSON; the default if it is empty.
pub(super) struct OptionalJsonBody<T>(pub(super) T);

/// The query string of the URL.
pub(super) struct UrlQuery<T>(pub(super) T);

/// The parameters of the URL path.
pub(super) struct UrlPath<T>(pub(super) T);

/// Selects the instance of a query.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ScopeQuery {
    /// The agent or instance: `coder`, `coder@review:pr-1`, `@review:pr-1`.
    target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    project: Option<PathBuf>,
}

/// Selects a page of a list that covers several instances.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    /// The agent or instance: `coder`, `coder@review:pr-1`, `@review:pr-1`. Absent: everything that the caller may
    /// read.
    target: Option<Target>,
    /// With a target: the caller's folder, whose instances come first. Without one: list only what belongs to this
    /// folder, and standalone agents.
    project: Option<PathBuf>,
    /// Without a target: list only what belongs to live runs.
    #[serde(default)]
    live: bool,
    /// Maximum number of items, up to 1000. Absent: 100.
    limit: Option<u32>,
    /// Cursor: the `next` of the page before.
    after: Option<String>,
}

/// Selects a page of a list of one instance.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct InstanceListQuery {
    /// The agent or instance: `coder`, `coder@review:pr-1`, `@review:pr-1`. Absent: the only instance.
    target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    project: Option<PathBuf>,
    /// Maximum number of items, up to 1000. Absent: 100.
    limit: Option<u32>,
    /// Cursor: the `next` of the page before.
    after: Option<String>,
}

/// Selects a page of a list that belongs to no instance.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PageQuery {
    /// Maximum number of items, up to 1000. Absent: 100.
    limit: Option<u32>,
    /// Cursor: the `next` of the page before.
    after: Option<String>,
}

/// The context that resolves a target in the path.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ProjectQuery {
    /// The caller's folder: its project's instances come first.
    project: Option<PathBuf>,
}

/// Context and mode of a stop.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AgentStopQuery {
    /// The caller's folder: its project's instances come first.
    project: Option<PathBuf>,
    /// True to kill the processes without a grace period.
    #[serde(default)]
    pub(super) now: bool,
}

impl ScopeQuery {
    pub(super) fn into_target(self) -> InstanceSelector {
        InstanceSelector { target: self.target, project: self.project }
    }
}

impl ListQuery {
    /// Returns the selected instances, the scope without a target, and the page.
    pub(super) fn into_parts(
        self,
    ) -> Result<(InstanceSelector, ListingScope, PageRequest), ProblemResponse> {
        let Self { target, project, live, limit, after } = self;
        let scope = if live { ListingScope::Live } else { ListingScope::All };
        Ok((InstanceSelector { target, project }, scope, PageRequest::new(limit, after)?))
    }
}

impl InstanceListQuery {
    /// Returns the selected instance and the page.
    pub(super) fn into_parts(self) -> Result<(InstanceSelector, PageRequest), ProblemResponse> {
        let Self { target, project, limit, after } = self;
        Ok((InstanceSelector { target, project }, PageRequest::new(limit, after)?))
    }
}

impl PageQuery {
    pub(super) fn into_page(self) -> Result<PageRequest, ProblemResponse> {
        Ok(PageRequest::new(self.limit, self.after)?)
    }
}

impl ProjectQuery {
    pub(super) fn with_target(self, target: Target) -> InstanceSelector {
        InstanceSelector { target: Some(target), project: self.project }
    }
}

impl AgentStopQuery {
    pub(super) fn with_target(self, target: Target) -> InstanceSelector {
        ProjectQuery { project: self.project }.with_target(target)
    }
}

fn refused_address(rejection: &str) -> ProblemResponse {
    bad_request(input::plain_rejection(rejection))
}

fn bad_request(message: String) -> ProblemResponse {
    Problem::new(Code::BadRequest, message).into()
}

impl<S: Sync> FromRequestParts<S> for Requester {
    type Rejection = Infallible;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(parts.extensions.get().cloned().unwrap_or(Principal::Anonymous)))
    }
}

impl<S: Sync> FromRequestParts<S> for TokenHolder {
    type Rejection = ProblemResponse;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ProblemResponse> {
        if !parts.headers.contains_key(AUTHORIZATION) {
            let message =
                "only the worker of an attempt may call this route, with the attempt's token";
            return Err(Problem::new(Code::Forbidden, message).into());
        }
        let Ok(Requester(who)) = Requester::from_request_parts(parts, state).await;
        Ok(Self(who))
    }
}

impl<S: Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = ProblemResponse;
    async fn from_request(request: Request, _: &S) -> Result<Self, ProblemResponse> {
        parse_json(&read_body(request).await?).map(Self)
    }
}

impl<S: Sync, T: DeserializeOwned + Default> FromRequest<S> for OptionalJsonBody<T> {
    type Rejection = ProblemResponse;
    async fn from_request(request: Request, _: &S) -> Result<Self, ProblemResponse> {
        let body = read_body(request).await?;
        if body.is_empty() { Ok(Self(T::default())) } else { parse_json(&body).map(Self) }
    }
}

/// Returns the body, which admission has already read, and whose size limit it has enforced.
async fn read_body(request: Request) -> Result<Bytes, ProblemResponse> {
    let body = to_bytes(request.into_body(), BODY_LIMIT).await;
    body.map_err(|error| bad_request(error.to_string()))
}

fn parse_json<T: DeserializeOwned>(body: &Bytes) -> Result<T, ProblemResponse> {
    input::from_json(body).map_err(bad_request)
}

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for UrlQuery<T> {
    type Rejection = ProblemResponse;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ProblemResponse> {
        let parsed = axum::extract::Query::try_from_uri(&parts.uri);
        parsed.map(|query| Self(query.0)).map_err(|error| refused_address(&error.body_text()))
    }
}

impl<S: Sync, T: DeserializeOwned + Send + 'static> FromRequestParts<S> for UrlPath<T> {
    type Rejection = ProblemResponse;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ProblemResponse> {
        let parsed = parts.extract::<axum::extract::Path<T>>().await;
        parsed.map(|path| Self(path.0)).map_err(|error| refused_address(&error.body_text()))
    }
}
