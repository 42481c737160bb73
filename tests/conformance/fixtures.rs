//! Fixtures of the protocol's conformance suite: tools, prompts and resources without effect.
//!
//! The suite defines all names and contents; no fixture touches the kernel.

mod rounds;
mod tools;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use agent_worker_daemon::{FixtureReply, McpFixtures};
use agent_worker_protocol::sync;
use async_trait::async_trait;
use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolRequestParams, CallToolResponse, GetPromptRequestParams, GetPromptResponse,
        GetPromptResult, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
        Prompt, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Resource,
        ResourceTemplate, ServerCapabilities, Tool,
    },
    service::{RequestContext, SubscriptionContext, SubscriptionSink},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A PNG image of one red pixel.
const IMAGE_BASE64: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
const TEXT_URI: &str = "test://static-text";
const BINARY_URI: &str = "test://static-binary";

/// The state of one daemon's fixtures: the open subscriptions.
#[derive(Clone, Default)]
pub(crate) struct Fixtures {
    listeners: Arc<Mutex<HashMap<u64, SubscriptionSink>>>,
    next: Arc<AtomicU64>,
}

impl Fixtures {
    fn lock_listeners(&self) -> std::sync::MutexGuard<'_, HashMap<u64, SubscriptionSink>> {
        sync::lock(&self.listeners)
    }
}

#[async_trait]
impl McpFixtures for Fixtures {
    fn capabilities(&self, ours: ServerCapabilities) -> ServerCapabilities {
        capabilities(ours)
    }

    fn tools(&self) -> Vec<Tool> {
        tools::tools()
    }

    fn with_resources(&self, list: ListResourcesResult) -> ListResourcesResult {
        with_resources(list)
    }

    fn with_templates(&self, list: ListResourceTemplatesResult) -> ListResourceTemplatesResult {
        with_templates(list)
    }

    fn with_prompts(&self, list: ListPromptsResult) -> ListPromptsResult {
        with_prompts(list)
    }

    fn read_resource(
        &self,
        request: &ReadResourceRequestParams,
    ) -> FixtureReply<ReadResourceResponse> {
        read_resource(request)
    }

    fn subscribe(&self, uri: &str) -> FixtureReply<()> {
        uri.starts_with("test://").then_some(Ok(()))
    }

    fn get_prompt(&self, request: &GetPromptRequestParams) -> FixtureReply<GetPromptResponse> {
        get_prompt(request)
    }

    async fn call_tool(
        &self,
        request: &CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> FixtureReply<CallToolResponse> {
        if !tools::tools().iter().any(|tool| tool.name == request.name) {
            return None;
        }
        if let Some(answer) = rounds::play_next_round(request, context) {
            return Some(answer);
        }
        let listeners: Vec<_> = self.lock_listeners().values().cloned().collect();
        Some(tools::call_tool(request, context, &listeners).await)
    }

    async fn hold_subscription(&self, context: &SubscriptionContext) -> FixtureReply<()> {
        let accepted = context.accepted();
        if accepted.tools_list_changed.is_none() && accepted.prompts_list_changed.is_none() {
            return None;
        }
        let key = self.next.fetch_add(1, Ordering::Relaxed);
        self.lock_listeners().insert(key, context.sink().clone());
        context.cancelled().await;
        self.lock_listeners().remove(&key);
        Some(Ok(()))
    }
}

/// Reads a resource of the suite.
fn read_resource(request: &ReadResourceRequestParams) -> FixtureReply<ReadResourceResponse> {
    let uri = request.uri.as_str();
    let content = match uri {
        TEXT_URI => json!({"uri": uri, "mimeType": "text/plain", "text": "a text that stays"}),
        BINARY_URI => json!({"uri": uri, "mimeType": "image/png", "blob": IMAGE_BASE64}),
        _ => {
            let id = uri.strip_prefix("test://template/")?.strip_suffix("/data")?;
            let text =
                json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
            json!({"uri": uri, "mimeType": "application/json", "text": text.to_string()})
        }
    };
    let read = complete_result::<ReadResourceResult>(json!({ "contents": [content] }));
    Some(read.map(Into::into))
}

/// Returns a prompt of the suite.
fn get_prompt(request: &GetPromptRequestParams) -> FixtureReply<GetPromptResponse> {
    let given = |name: &str| {
        let value = request.arguments.as_ref().and_then(|given| given.get(name));
        value.and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let text = |text: String| json!({"type": "text", "text": text});
    let contents = match request.name.as_str() {
        "test_simple_prompt" => vec![text("This is a simple prompt for testing.".to_owned())],
        "test_prompt_with_arguments" => {
            let (one, two) = (given("arg1"), given("arg2"));
            vec![text(format!("Prompt with arguments: arg1='{one}', arg2='{two}'"))]
        }
        "test_prompt_with_embedded_resource" => {
            let uri = Some(given("resourceUri")).filter(|uri| !uri.is_empty());
            let uri = uri.unwrap_or_else(|| TEXT_URI.to_owned());
            let resource = json!({"uri": uri, "mimeType": "text/plain", "text": "embedded"});
            vec![json!({"type": "resource", "resource": resource}), text("Look at it.".to_owned())]
        }
        "test_prompt_with_image" => {
            let image = json!({"type": "image", "data": IMAGE_BASE64, "mimeType": "image/png"});
            vec![image, text("Look at it.".to_owned())]
        }
        rounds::PROMPT => return Some(rounds::get_round_prompt(request)),
        _ => return None,
    };
    let messages: Vec<_> =
        contents.into_iter().map(|content| json!({"role": "user", "content": content})).collect();
    Some(complete_result::<GetPromptResult>(json!({ "messages": messages })).map(Into::into))
}

/// Adds the capabilities that the suite requires.
fn capabilities(mut ours: ServerCapabilities) -> ServerCapabilities {
    let more: ServerCapabilities = serde_json::from_value(json!({
        "logging": {}, "tools": {"listChanged": true}, "prompts": {"listChanged": true},
    }))
    .unwrap_or_default();
    ours.logging = more.logging;
    ours.tools = more.tools;
    ours.prompts = more.prompts;
    ours
}

fn with_resources(mut list: ListResourcesResult) -> ListResourcesResult {
    list.resources.extend([
        Resource::new(TEXT_URI, "static text").with_mime_type("text/plain"),
        Resource::new(BINARY_URI, "static binary").with_mime_type("image/png"),
    ]);
    list
}

fn with_templates(mut list: ListResourceTemplatesResult) -> ListResourceTemplatesResult {
    let template = ResourceTemplate::new("test://template/{id}/data", "template");
    list.resource_templates.push(template.with_mime_type("application/json"));
    list
}

fn with_prompts(mut list: ListPromptsResult) -> ListPromptsResult {
    let argument =
        |name: &str| json!({"name": name, "description": "for testing", "required": true});
    for (name, arguments) in [
        ("test_simple_prompt", vec![]),
        ("test_prompt_with_arguments", vec![argument("arg1"), argument("arg2")]),
        ("test_prompt_with_embedded_resource", vec![argument("resourceUri")]),
        ("test_prompt_with_image", vec![]),
        (rounds::PROMPT, vec![]),
    ] {
        let prompt = json!({"name": name, "description": "for testing", "arguments": arguments});
        list.prompts.extend(from_json::<Prompt>(prompt));
    }
    list
}

/// Builds a complete result from JSON.
fn complete_result<T: DeserializeOwned>(mut value: Value) -> Result<T, ErrorData> {
    value["resultType"] = "complete".into();
    from_json(value)
}

/// Parses a type of the protocol from JSON.
fn from_json<T: DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value)
        .map_err(|error| ErrorData::internal_error(error.to_string(), None))
}
