//! What the protocol asks of a server: who it is, which tools it has, and to call one.

use std::time::Duration;

use agent_worker_kernel::{Kernel, Principal};
use agent_worker_protocol::{Code, Problem, ToolName};
use axum::http::request::Parts;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, Implementation, ListToolsResult,
        PaginatedRequestParams, ServerCapabilities, ServerConfig,
    },
    service::RequestContext,
};

use super::{
    call::{Call, Failure, Given},
    tools,
};

/// Clients give up after a minute; an answer must come before that.
const PATIENCE: Duration = Duration::from_secs(50);

/// Answers one request; made anew for each.
#[derive(Clone)]
pub(super) struct Server {
    kernel: Kernel,
}

impl Server {
    pub(super) fn new(kernel: Kernel) -> Self {
        Self { kernel }
    }

    async fn call(&self, who: &Principal, request: CallToolRequestParams) -> Given {
        let Some(tool) = ToolName::find(&request.name) else {
            return Err(Failure::Malformed(unknown(&request.name, who)));
        };
        let call = Call::new(tool.word(), request.arguments.unwrap_or_default())?;
        in_time(tools::call(tool, &self.kernel, who, call)).await
    }
}

/// The answer, or that there was none in time.
async fn in_time(given: impl Future<Output = Given>) -> Given {
    match tokio::time::timeout(PATIENCE, given).await {
        Ok(given) => given,
        Err(_) => Err(Failure::Refused(late())),
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        info.server_info = Implementation::new("agent-worker", env!("CARGO_PKG_VERSION"));
        info
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::list(&caller(&context)).to_vec()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tool = request.name.clone();
        match self.call(&caller(&context), request).await {
            Ok(value) => Ok(CallToolResult::structured(value).into()),
            Err(Failure::Refused(problem)) => Ok(refused(&problem).into()),
            Err(Failure::Malformed(why)) => {
                Err(ErrorData::invalid_params(format!("{tool}: {why}"), None))
            }
        }
    }
}

/// Who asks, as the gate found out for this request.
fn caller(context: &RequestContext<RoleServer>) -> Principal {
    let head = context.extensions.get::<Parts>();
    head.and_then(|head| head.extensions.get()).cloned().unwrap_or(Principal::Nobody)
}

fn refused(problem: &Problem) -> CallToolResult {
    CallToolResult::structured_error(serde_json::to_value(problem).unwrap_or_default())
}

fn late() -> Problem {
    let message = format!("this took more than {PATIENCE:?} and may or may not have happened");
    Problem::new(Code::Unavailable, message).hint("ask again with the same idempotency_key")
}

fn unknown(word: &str, who: &Principal) -> String {
    let listed = tools::list(who);
    let near = tools::near(word, listed);
    if near.is_empty() {
        let all: Vec<_> = listed.iter().map(|tool| tool.name.as_ref()).collect();
        return format!("there is no such tool; there are {}", all.join(", "));
    }
    format!("there is no such tool; did you mean {}?", near.join(" or "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn no_call_outlasts_a_clients_patience() {
        let begun = tokio::time::Instant::now();
        let Err(Failure::Refused(problem)) = in_time(std::future::pending()).await else {
            panic!("it waited for ever")
        };
        assert_eq!((problem.code, begun.elapsed()), (Code::Unavailable, PATIENCE));
        assert!(in_time(async { Ok(true.into()) }).await.is_ok());
    }
}
