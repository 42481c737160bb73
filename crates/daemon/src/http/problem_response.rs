//! The only place that maps an error to a status and a body, for HTTP and MCP.

use agent_worker_kernel as kernel;
use agent_worker_protocol::{Code, Problem};
use axum::{
    Json,
    extract::Request,
    http::{HeaderValue, StatusCode, header::WWW_AUTHENTICATE},
    response::{IntoResponse, Response},
};

use super::hint::hint;

/// The result of a handler.
pub(super) type HandlerResult<T> = Result<Json<T>, ProblemResponse>;

/// A problem as an HTTP response.
#[derive(Debug)]
pub(crate) struct ProblemResponse(Problem);

/// Returns the part of a kernel error that a caller may see; the log has the rest.
pub(crate) fn client_problem(error: &kernel::Error) -> Problem {
    if error.is_internal() {
        let cause = std::error::Error::source(error).map(ToString::to_string);
        tracing::error!(%error, cause, "a request failed with an internal error");
    }
    error.into()
}

impl From<Problem> for ProblemResponse {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl From<kernel::Error> for ProblemResponse {
    fn from(error: kernel::Error) -> Self {
        Self(client_problem(&error))
    }
}

impl IntoResponse for ProblemResponse {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.code.status());
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let hint = hint(&self.0);
        let mut response = (status, Json(self.0.into_body(hint))).into_response();
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// Answers a request for an unknown path.
pub(super) async fn no_such_route(request: Request) -> ProblemResponse {
    let path = request.uri().path();
    Problem::new(Code::NotFound, format!("there is nothing at `{path}`")).into()
}

/// Answers a request whose method the path does not support.
pub(super) async fn no_such_method(request: Request) -> ProblemResponse {
    let (method, path) = (request.method(), request.uri().path());
    let message = format!("`{path}` does not support {method}");
    Problem::new(Code::MethodNotAllowed, message).into()
}
