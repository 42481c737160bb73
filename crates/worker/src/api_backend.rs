//! The backend of agents with direct access to a model: prepares the model, and runs the tool loop with it.

use std::collections::BTreeMap;

use agent_worker_models::{
    ImageData, ModelClient, ProviderEndpoint, ProviderOverrides, RequestSettings, ToolDefinition,
};
use agent_worker_protocol::{Api, FailureClass};
use async_trait::async_trait;
use serde_json::Value;

use crate::{
    api_model::ApiModel,
    attachments::inline_images,
    backend::AgentBackend,
    pricing::PricingContext,
    tool_loop::{StepAuthor, ToolLoop},
    turn::{TurnAnswer, TurnContext, TurnFailure},
};

/// Runs the turns of a model behind an API.
pub(crate) struct ApiBackend {
    api: Api,
    /// Environment of the job, with the key.
    env: BTreeMap<String, String>,
}

impl ApiBackend {
    pub(crate) fn new(api: Api, env: BTreeMap<String, String>) -> Self {
        Self { api, env }
    }

    async fn prepare(&self, turn: &TurnContext) -> Result<ApiModel, TurnFailure> {
        let Api { provider, model, base_url, api_key, headers, temperature, extra } = &self.api;
        let overrides = ProviderOverrides {
            base_url: base_url.clone(),
            api_key: api_key.clone(),
            headers: headers.clone(),
        };
        let endpoint = ProviderEndpoint::resolve(provider, &overrides, &self.env)
            .map_err(|error| TurnFailure::new(FailureClass::Auth, error.to_string()))?;
        let client = ModelClient::new(&self.env)
            .map_err(|error| TurnFailure::new(FailureClass::Fatal, error.to_string()))?;
        let images = inline_images(&turn.request.attachments)
            .map_err(|error| TurnFailure::from_io_error("read an attached image", &error))?;
        let schemas = turn.tools.schemas().await.map_err(|why| {
            TurnFailure::new(FailureClass::Transient, format!("the tools are not known: {why}"))
        })?;
        let settings = RequestSettings {
            max_tokens: turn.limits.max_tokens,
            temperature: *temperature,
            effort: turn.request.effort,
            extra: extra.clone(),
        };
        let pricing = PricingContext {
            backend: "api",
            model: Some(format!("{provider}/{model}")),
            has_default_settings: false,
        };
        let images = images.into_iter();
        let images = images.map(|it| ImageData { media_type: it.media_type, base64: it.data });
        Ok(ApiModel {
            client,
            endpoint,
            model: model.clone(),
            tools: schemas.iter().filter_map(tool_definition).collect(),
            settings,
            pricing,
            images: images.collect(),
            entries: Vec::new(),
            exchanges_read: 0,
            call_count: 0,
        })
    }
}

/// Returns the definition of a tool of the daemon.
fn tool_definition(listed: &Value) -> Option<ToolDefinition> {
    Some(ToolDefinition {
        name: listed["name"].as_str()?.to_owned(),
        description: listed["description"].as_str().unwrap_or_default().to_owned(),
        schema: listed["inputSchema"].clone(),
    })
}

#[async_trait]
impl AgentBackend for ApiBackend {
    async fn turn(&mut self, turn: TurnContext) -> Result<TurnAnswer, TurnFailure> {
        let model = turn.until_cancelled(Box::pin(self.prepare(&turn))).await?;
        ToolLoop::new(model, StepAuthor::Model).turn(turn).await
    }
}
