//! The backend of agents with direct access to a model: prepares the model, and runs the tool loop with it.

use std::collections::BTreeMap;

use agent_worker_backends::AnswerFormat;
use agent_worker_models::{
    ConversationEntry, ImageData, ModelClient, ProviderEndpoint, ProviderOverrides,
    RequestSettings, ToolDefinition,
};
use agent_worker_protocol::{Api, FailureClass, SessionPolicy};
use async_trait::async_trait;
use serde_json::Value;

use crate::{
    api_compaction::ConversationSize,
    api_conversation::{
        ConversationStart, SavedConversation, conversation_start, frame_hash, read_parts,
        without_reasoning,
    },
    api_model::{EarlierEntries, ProviderModel},
    api_tools::ApiTools,
    attachments::inline_images,
    backend::AgentBackend,
    builtin_tools::BuiltinTools,
    compaction::PromptPlace,
    mock_tools::MockTools,
    model_spend::{SpendGuard, bounded_settings},
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

    /// Returns the name of the provider and the model.
    fn author(&self) -> String {
        format!("{}/{}", self.api.provider, self.api.model)
    }

    /// Returns the conversation of the earlier turns, or the beginning of a new one.
    async fn open_conversation(
        &self,
        turn: &TurnContext,
        tools: &[ToolDefinition],
    ) -> Result<(SavedConversation, Vec<ConversationEntry>), TurnFailure> {
        let Api { session, .. } = &self.api;
        let frame = frame_hash(&turn.request.system_prompt, tools);
        let author = self.author();
        let start = match session {
            SessionPolicy::Continue => conversation_start(turn.request.session.as_ref(), &frame),
            SessionPolicy::Fresh => ConversationStart::First,
        };
        let new = |frame| SavedConversation {
            author: author.clone(),
            frame,
            parts: Vec::new(),
            tokens: None,
        };
        let why = match start {
            ConversationStart::First => return Ok((new(frame), Vec::new())),
            ConversationStart::New(why) => why,
            ConversationStart::Continued(saved) => {
                if let Some(mut entries) = read_parts(turn.daemon(), &saved.parts).await? {
                    if saved.author != author {
                        without_reasoning(&mut entries);
                    }
                    return Ok((saved, entries));
                }
                "its stored entries cannot be read"
            }
        };
        turn.reporter.record_note(format!("a new conversation begins: {why}"));
        Ok((new(frame), Vec::new()))
    }

    fn request_settings(&self, turn: &TurnContext, endpoint: &ProviderEndpoint) -> RequestSettings {
        RequestSettings {
            max_tokens: turn.limits.max_tokens,
            temperature: self.api.temperature,
            effort: turn.request.effort,
            output_schema: turn
                .answer_schema
                .as_ref()
                .filter(|_| endpoint.answer_format == AnswerFormat::Schema)
                .map(|answers| answers.schema().clone()),
            extra: self.api.extra.clone(),
        }
    }

    async fn prepare(&self, turn: &TurnContext) -> Result<ProviderModel, TurnFailure> {
        let Api { provider, model, base_url, api_key, headers, .. } = &self.api;
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
        let settings = self.request_settings(turn, &endpoint);
        let author = self.author();
        let pricing = PricingContext {
            backend: "api",
            model: Some(author.clone()),
            has_default_settings: false,
        };
        let team = schemas.iter().filter_map(tool_definition);
        let tools = team.chain(turn.tools.own_definitions()).collect();
        let tools = ApiTools::new(endpoint.shape, tools).map_err(refused_tools)?;
        let (mut saved, entries) = self.open_conversation(turn, tools.definitions()).await?;
        let measured = saved.measured(entries.len(), &author);
        saved.author = author;
        if let Some(warning) = tools.warning().filter(|_| entries.is_empty()) {
            turn.reporter.record_note(warning);
        }
        let system = &turn.request.system_prompt;
        let size = ConversationSize::new(&self.api, system, tools.definitions());
        let images = images.into_iter();
        let images = images.map(|it| ImageData { media_type: it.media_type, base64: it.data });
        let (identity, limits) = (&turn.identity, turn.limits.spend);
        Ok(ProviderModel {
            client,
            endpoint,
            model: model.clone(),
            spend: SpendGuard::new(turn.daemon().clone(), identity.attempt_id, limits),
            settings: bounded_settings(settings, limits, &pricing, size.window),
            size,
            pricing,
            images: images.collect(),
            tools,
            measured,
            earlier: EarlierEntries::Stored(entries.len()),
            prompt: PromptPlace::Entry(entries.len()),
            entries,
            saved,
            exchanges_read: 0,
            call_count: 0,
        })
    }
}

fn refused_tools(why: String) -> TurnFailure {
    TurnFailure::new(FailureClass::Fatal, why)
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
    async fn turn(&mut self, mut turn: TurnContext) -> Result<TurnAnswer, TurnFailure> {
        let mocks = MockTools::with_rules(&turn);
        let builtin = BuiltinTools::prepare(&mocks.unreplaced(&self.api.tools), &turn)?;
        turn.tools = turn.tools.clone().with_builtin(builtin).with_mocks(mocks);
        let model = turn.until_cancelled(Box::pin(self.prepare(&turn))).await?;
        let mut steps = ToolLoop::new(model, StepAuthor::Model);
        let work = async {
            tokio::select! {
                done = steps.run(&turn) => done,
                failure = turn.approvals.wait_for_failure() => Err(failure),
            }
        };
        let answer = turn.until_cancelled(Box::pin(work)).await?;
        let session = match self.api.session {
            SessionPolicy::Fresh => None,
            SessionPolicy::Continue => {
                let saving = steps.into_model().save(&turn.tools, &turn.reporter);
                turn.until_cancelled(Box::pin(async { Ok(saving.await) })).await?
            }
        };
        Ok(TurnAnswer { session, ..answer })
    }
}
