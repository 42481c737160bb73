//! Extractors of the handlers. They refuse invalid input with our own problem texts.

use std::{convert::Infallible, path::PathBuf};

use agent_worker_kernel::{InstanceSelector, ListingScope, Principal};
use agent_worker_protocol::{Code, Problem, Target};
use axum::{
    Json, RequestPartsExt as _,
    body::to_bytes,
    extract::{FromRequest, FromRequestParts, Request},
    http::{header::AUTHORIZATION, request::Parts},
};
use schemars::JsonSchema;
use serde::{Deserialize, de::DeserializeOwned};

use super::{body::BODY_LIMIT, problem_response::ProblemResponse};

/// The caller, as identified at admission.
pub(super) struct Requester(pub(super) Principal);

/// The caller, proven by a token. A process inside an attempt's tree may act as its agent, but only the
/// worker, which alone holds the token, may report for the attempt.
pub(super) struct TokenHolder(pub(super) Principal);

/// The request body, parsed from JSON.
pub(super) struct JsonBody<T>(pub(super) T);

/// The query string of the URL.
pub(super) struct UrlQuery<T>(pub(super) T);

/// The parameters of the URL path.
pub(super) struct UrlPath<T>(pub(super) T);

/// Selects the instances of a query.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ScopeQuery {
    /// The agent or instance: `coder`, `coder@review:pr-1`, `@review:pr-1`.
    target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    project: Option<PathBuf>,
    /// Without a target: true for everything, false for what is live in the caller's project.
    #[serde(default)]
    all: bool,
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
    pub(super) fn breadth(&self) -> ListingScope {
        if self.all { ListingScope::All } else { ListingScope::Project }
    }

    pub(super) fn into_target(self) -> InstanceSelector {
        InstanceSelector { target: self.target, project: self.project }
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
        // Admission has already read the body and enforced its size limit.
        let body = to_bytes(request.into_body(), BODY_LIMIT).await;
        let body = body.map_err(|error| bad_request(error.to_string()))?;
        let parsed = Json::from_bytes(&body);
        parsed.map(|Json(value)| Self(value)).map_err(|error| bad_request(error.body_text()))
    }
}

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for UrlQuery<T> {
    type Rejection = ProblemResponse;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ProblemResponse> {
        let parsed = axum::extract::Query::try_from_uri(&parts.uri);
        parsed.map(|query| Self(query.0)).map_err(|error| bad_request(error.body_text()))
    }
}

impl<S: Sync, T: DeserializeOwned + Send + 'static> FromRequestParts<S> for UrlPath<T> {
    type Rejection = ProblemResponse;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ProblemResponse> {
        let parsed = parts.extract::<axum::extract::Path<T>>().await;
        parsed.map(|path| Self(path.0)).map_err(|error| bad_request(error.body_text()))
    }
}
