//! The seam through which a test program adds the fixtures of the protocol's conformance suite to the server.
//!
//! The product has no implementation. The test program is in `tests/conformance/`.

use std::sync::Arc;

use async_trait::async_trait;
use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolRequestParams, CallToolResponse, GetPromptRequestParams, GetPromptResponse,
        ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
        ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, Tool,
    },
    service::{RequestContext, SubscriptionContext},
};

/// The fixtures of one daemon, shared by all its requests.
pub(crate) type SharedFixtures = Arc<dyn McpFixtures>;

/// A reply of the fixtures; none if the request is not for them.
pub type FixtureReply<T> = Option<Result<T, ErrorData>>;

/// Tools, prompts and resources of a test suite, which the server offers in addition to its own.
#[async_trait]
pub trait McpFixtures: Send + Sync {
    /// Adds the capabilities that the suite requires.
    fn capabilities(&self, ours: ServerCapabilities) -> ServerCapabilities;

    /// Lists the tools.
    fn tools(&self) -> Vec<Tool>;

    /// Adds the resources.
    fn with_resources(&self, list: ListResourcesResult) -> ListResourcesResult;

    /// Adds the templates of resources.
    fn with_templates(&self, list: ListResourceTemplatesResult) -> ListResourceTemplatesResult;

    /// Adds the prompts.
    fn with_prompts(&self, list: ListPromptsResult) -> ListPromptsResult;

    /// Reads a resource.
    fn read_resource(
        &self,
        request: &ReadResourceRequestParams,
    ) -> FixtureReply<ReadResourceResponse>;

    /// Accepts a subscription or unsubscription to a resource.
    fn subscribe(&self, uri: &str) -> FixtureReply<()>;

    /// Returns a prompt.
    fn get_prompt(&self, request: &GetPromptRequestParams) -> FixtureReply<GetPromptResponse>;

    /// Calls a tool.
    async fn call_tool(
        &self,
        request: &CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> FixtureReply<CallToolResponse>;

    /// Holds a subscription to the lists that the suite changes.
    async fn hold_subscription(&self, context: &SubscriptionContext) -> FixtureReply<()>;
}
