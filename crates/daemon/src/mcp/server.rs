//! The server side of MCP: server info, and listing and using tools, prompts and resources.

use std::sync::Arc;

use agent_worker_kernel::{Error, Kernel, Principal};
use agent_worker_protocol::{Code, Problem, ProblemDetails};
use axum::http::request::Parts;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestParams,
        CompleteResult, GetPromptRequestParams, GetPromptResponse, Implementation,
        InitializeRequestParams, InitializeResult, ListPromptsResult, ListResourceTemplatesResult,
        ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams,
        ReadResourceResponse, ServerCapabilities, ServerConfig, SubscribeRequestParams,
        SubscriptionFilter, Tool, UnsubscribeRequestParams,
    },
    service::{RequestContext, SubscriptionContext},
};
use serde_json::json;

use super::{
    call::McpFailure,
    completion,
    fixtures::SharedFixtures,
    hint::problem_body,
    progress::with_progress,
    prompts, resource_catalog,
    resource_uri::ResourceUri,
    session::McpSession,
    subscription::{self, MAX_SUBSCRIPTIONS},
    tool_execution, tools,
};
use crate::{http::client_problem, shutdown::Shutdown};

/// Answers one request, or the requests of one session.
#[derive(Clone)]
pub(super) struct McpServer {
    kernel: Kernel,
    shutdown: Shutdown,
    /// The session with the client's subscriptions, if there is one.
    mcp_session: Option<Arc<McpSession>>,
    /// The fixtures of a test suite; none in the product.
    fixtures: Option<SharedFixtures>,
}

impl McpServer {
    pub(super) fn new(
        kernel: Kernel,
        shutdown: Shutdown,
        fixtures: Option<SharedFixtures>,
    ) -> Self {
        Self { kernel, shutdown, mcp_session: None, fixtures }
    }

    /// Returns the server for one session.
    pub(super) fn for_session(&self, mcp_session: &Arc<McpSession>) -> Self {
        Self { mcp_session: Some(Arc::clone(mcp_session)), ..self.clone() }
    }
}

/// Tries the fixtures first, if there are any.
macro_rules! fixtures_first {
    ($self:ident, $fixtures:ident => $answer:expr) => {
        if let Some($fixtures) = &$self.fixtures
            && let Some(answer) = $answer
        {
            return answer;
        }
    };
}

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_completions()
            .enable_prompts()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_tools()
            .build();
        let capabilities = match &self.fixtures {
            Some(fixtures) => fixtures.capabilities(capabilities),
            None => capabilities,
        };
        let mut info = ServerConfig::new(capabilities);
        info.server_info = Implementation::new("agent-worker", env!("CARGO_PKG_VERSION"));
        info
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        context.peer.set_peer_info(request.clone());
        let mut info = self.negotiate_initialize(&request)?;
        match &self.mcp_session {
            Some(mcp_session) => mcp_session.set_peer(context.peer),
            // A client without a stream cannot receive notifications of changes.
            None => {
                if let Some(resources) = &mut info.capabilities.resources {
                    resources.subscribe = None;
                }
            }
        }
        Ok(info)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = tools::list_for(&self.kernel, &caller(&context))
            .await
            .map_err(|error| ErrorData::internal_error(client_problem(&error).message, None))?;
        let tools = serde_json::to_value(tools);
        let tools = tools.and_then(serde_json::from_value::<Vec<Tool>>);
        let tools = tools.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        let tools = match &self.fixtures {
            // The suite uses the first tool of the list for some tests.
            Some(fixtures) => [fixtures.tools(), tools].concat(),
            None => tools,
        };
        Ok(ListToolsResult::with_all_items(tools))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.fixtures.as_ref()?.tools().into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        fixtures_first!(self, fixtures => fixtures.call_tool(&request, &context).await);
        let (tool, who) = (request.name.clone(), caller(&context));
        let head = context.extensions.get::<Parts>();
        let folder = head.and_then(|head| tool_execution::caller_folder(&head.headers));
        let call =
            tool_execution::call_tool_by_name(&self.kernel, &who, &tool, request.arguments, folder);
        let given = tokio::select! {
            given = with_progress(&context, call) => given,
            // The client disconnected or cancelled the call.
            () = context.ct.cancelled() => Err(McpFailure::Refused(cancelled_problem())),
        };
        match given {
            Ok(value) => Ok(CallToolResult::structured(value).into()),
            Err(McpFailure::Refused(problem)) => Ok(refusal_result(problem).into()),
            Err(McpFailure::Malformed(why)) => {
                Err(ErrorData::invalid_params(format!("{tool}: {why}"), None))
            }
        }
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        let list = resource_catalog::list(&self.kernel, &caller(&context), cursor.as_deref()).await;
        let list = list.map(|list| match &self.fixtures {
            Some(fixtures) => fixtures.with_resources(list),
            None => list,
        });
        list.map_err(failure_to_error_data)
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let list = resource_catalog::templates(&caller(&context));
        let list = match &self.fixtures {
            Some(fixtures) => fixtures.with_templates(list),
            None => list,
        };
        Ok(list)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        fixtures_first!(self, fixtures => fixtures.read_resource(&request));
        let read = resource_catalog::read(&self.kernel, &caller(&context), &request.uri).await;
        read.map(Into::into).map_err(|failure| resource_error(&request.uri, failure))
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        fixtures_first!(self, fixtures => fixtures.subscribe(&request.uri));
        let address = parse_uri(&request.uri)?;
        let mcp_session = self.mcp_session.as_ref().ok_or_else(no_stream_error)?;
        if mcp_session.subscription_count() >= MAX_SUBSCRIPTIONS {
            let why =
                format!("a session has at most {MAX_SUBSCRIPTIONS} subscriptions; cancel one");
            return Err(ErrorData::invalid_request(why, None));
        }
        mcp_session
            .subscribe(address)
            .await
            .map_err(|error| resource_error(&request.uri, kernel_failure(&error)))
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        fixtures_first!(self, fixtures => fixtures.subscribe(&request.uri));
        let address = parse_uri(&request.uri)?;
        self.mcp_session.as_ref().ok_or_else(no_stream_error)?.unsubscribe(&address);
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        wanted: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        let mut accepted = SubscriptionFilter::new();
        if self.fixtures.is_some() {
            accepted = wanted.clone();
        }
        let uris = wanted.resource_subscriptions.iter().flatten();
        let ours = uris.filter(|uri| uri.parse::<ResourceUri>().is_ok());
        let ours = ours.take(MAX_SUBSCRIPTIONS).cloned().collect();
        accepted.resource_subscriptions = Some(ours);
        Some(accepted)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        fixtures_first!(self, fixtures => fixtures.hold_subscription(&context).await);
        let who = caller(context.request_context());
        let head = context.request_context().extensions.get::<Parts>();
        let begun = head.and_then(|head| head.extensions.get());
        subscription::serve_subscription(begun, &who, &context, &self.shutdown)
            .await
            .map_err(|error| failure_to_error_data(kernel_failure(&error)))
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let list = prompts::list();
        let list = match &self.fixtures {
            Some(fixtures) => fixtures.with_prompts(list),
            None => list,
        };
        Ok(list)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        fixtures_first!(self, fixtures => fixtures.get_prompt(&request));
        prompts::get(&request).map(Into::into).map_err(failure_to_error_data)
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let completed = completion::complete(&self.kernel, &caller(&context), &request).await;
        completed.map_err(|error| failure_to_error_data(kernel_failure(&error)))
    }

    #[expect(deprecated, reason = "the conformance suite calls it in the revisions that have it")]
    async fn set_level(
        &self,
        _: rmcp::model::SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        match &self.fixtures {
            Some(_) => Ok(()),
            None => Err(ErrorData::method_not_found::<rmcp::model::SetLevelRequestMethod>()),
        }
    }
}

/// Returns the caller of this request, as identified at admission.
fn caller(context: &RequestContext<RoleServer>) -> Principal {
    let head = context.extensions.get::<Parts>();
    head.and_then(|head| head.extensions.get()).cloned().unwrap_or(Principal::Anonymous)
}

fn refusal_result(problem: Problem) -> CallToolResult {
    let body = serde_json::to_value(problem_body(problem));
    CallToolResult::structured_error(body.unwrap_or_default())
}

fn kernel_failure(error: &Error) -> McpFailure {
    McpFailure::Refused(client_problem(error))
}

fn parse_uri(uri: &str) -> Result<ResourceUri, ErrorData> {
    uri.parse().map_err(|error: super::resource_uri::BadResourceUri| {
        ErrorData::resource_not_found(error.to_string(), Some(json!({ "uri": uri })))
    })
}

/// Converts a failure to a protocol error: only a tool's result is read by a model.
fn failure_to_error_data(failure: McpFailure) -> ErrorData {
    match failure {
        McpFailure::Malformed(why) => ErrorData::invalid_params(why, None),
        McpFailure::Refused(problem) => {
            let body = problem_body(problem);
            let data = serde_json::to_value(&body).ok();
            ErrorData::invalid_request(body.message, data)
        }
    }
}

/// Converts the failure of a resource request to a protocol error.
fn resource_error(uri: &str, failure: McpFailure) -> ErrorData {
    match failure {
        McpFailure::Refused(problem) if problem.code == Code::NotFound => {
            ErrorData::resource_not_found(problem.message, Some(json!({ "uri": uri })))
        }
        other => failure_to_error_data(other),
    }
}

fn no_stream_error() -> ErrorData {
    let why = "a subscription needs a stream: declare `experimental: {\"agent-worker/stream\": {}}` in `initialize`, \
               or use revision 2026-07-28 with `subscriptions/listen`";
    ErrorData::invalid_request(why, None)
}

fn cancelled_problem() -> Problem {
    let message = "the call was cancelled and may or may not have taken effect";
    Problem::new(Code::Unavailable, message).with_details(ProblemDetails::OutcomeUnknown)
}
