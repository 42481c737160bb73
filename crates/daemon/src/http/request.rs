//! What handlers take from a request. Whatever does not fit is refused in our own words.

use std::{convert::Infallible, path::PathBuf};

use agent_worker_kernel::{Breadth, Place, Principal};
use agent_worker_protocol::{Code, Problem, Target};
use axum::{
    Json, RequestPartsExt as _,
    body::to_bytes,
    extract::{FromRequest, FromRequestParts, Request},
    http::{header::AUTHORIZATION, request::Parts},
};
use schemars::JsonSchema;
use serde::{Deserialize, de::DeserializeOwned};

use super::{gate::BODY_LIMIT, refusal::Refusal};

/// Who asks, as the gate found out.
pub(super) struct Who(pub(super) Principal);

/// Who asks, proven by a token: a process inside an attempt's tree may speak as its agent, but only
/// the worker, which alone holds the token, reports for the attempt.
pub(super) struct Holder(pub(super) Principal);

/// The body, from JSON.
pub(super) struct Body<T>(pub(super) T);

/// The part of the address after `?`.
pub(super) struct Query<T>(pub(super) T);

/// The names in the path.
pub(super) struct Path<T>(pub(super) T);

/// Which instances a question is about.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Scope {
    /// Which: `coder`, `coder@review:pr-1`, `@review:pr-1`.
    target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    project: Option<PathBuf>,
    /// Whether to look everywhere, where more than one thing can be meant.
    #[serde(default)]
    all: bool,
}

/// From where a target in the path is meant.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Near {
    /// The caller's folder: its project's instances come first.
    project: Option<PathBuf>,
}

/// The same for what is to be stopped, and how.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NearStop {
    /// The caller's folder: its project's instances come first.
    project: Option<PathBuf>,
    /// Whether its processes get no time to end by themselves.
    #[serde(default)]
    pub(super) now: bool,
}

impl Scope {
    pub(super) fn breadth(&self) -> Breadth {
        if self.all { Breadth::All } else { Breadth::Project }
    }

    pub(super) fn place(self) -> Place {
        Place { target: self.target, project: self.project }
    }
}

impl Near {
    pub(super) fn place(self, target: Target) -> Place {
        Place { target: Some(target), project: self.project }
    }
}

impl NearStop {
    pub(super) fn place(self, target: Target) -> Place {
        Near { project: self.project }.place(target)
    }
}

fn bad_request(message: String) -> Refusal {
    Problem::new(Code::BadRequest, message).into()
}

impl<S: Sync> FromRequestParts<S> for Who {
    type Rejection = Infallible;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(parts.extensions.get().cloned().unwrap_or(Principal::Nobody)))
    }
}

impl<S: Sync> FromRequestParts<S> for Holder {
    type Rejection = Refusal;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        if !parts.headers.contains_key(AUTHORIZATION) {
            let message = "an attempt is reported by its own worker only, with its token";
            return Err(Problem::new(Code::Forbidden, message).into());
        }
        let Ok(Who(who)) = Who::from_request_parts(parts, state).await;
        Ok(Self(who))
    }
}

impl<S: Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Refusal;
    async fn from_request(request: Request, _: &S) -> Result<Self, Refusal> {
        // The gate has read it already, as far as it was not too long.
        let body = to_bytes(request.into_body(), BODY_LIMIT).await;
        let body = body.map_err(|error| bad_request(error.to_string()))?;
        let parsed = Json::from_bytes(&body);
        parsed.map(|Json(value)| Self(value)).map_err(|error| bad_request(error.body_text()))
    }
}

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Refusal;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        let parsed = axum::extract::Query::try_from_uri(&parts.uri);
        parsed.map(|query| Self(query.0)).map_err(|error| bad_request(error.body_text()))
    }
}

impl<S: Sync, T: DeserializeOwned + Send + 'static> FromRequestParts<S> for Path<T> {
    type Rejection = Refusal;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        let parsed = parts.extract::<axum::extract::Path<T>>().await;
        parsed.map(|path| Self(path.0)).map_err(|error| bad_request(error.body_text()))
    }
}
