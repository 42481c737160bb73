//! A conversation with a model, independent of the API.
//!
//! A part that only its own API understands (sealed thinking, signatures) is kept as that API wrote it.

use agent_worker_protocol::Effort;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The input of one request.
#[derive(Clone, Copy, Debug)]
pub struct ModelPrompt<'a> {
    /// Name of the model, as the provider spells it.
    pub model: &'a str,
    /// Instructions that describe the agent.
    pub system: &'a str,
    /// Tools that the model may call.
    pub tools: &'a [ToolDefinition],
    /// Conversation so far, which ends with an entry of the user.
    pub entries: &'a [ConversationEntry],
    /// Settings of the agent.
    pub settings: &'a RequestSettings,
}

/// Settings of all requests of an agent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestSettings {
    /// Maximum number of tokens of one answer.
    pub max_tokens: Option<u32>,
    /// Randomness of the answers.
    pub temperature: Option<f64>,
    /// Effort of the model's reasoning.
    pub effort: Option<Effort>,
    /// JSON Schema of the answer, for an API that has a field for it.
    pub output_schema: Option<Value>,
    /// Further fields of the request body.
    pub extra: Map<String, Value>,
}

/// A tool that a model may call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDefinition {
    /// Name of the tool.
    pub name: String,
    /// Description for the model.
    pub description: String,
    /// JSON Schema of the arguments.
    pub schema: Value,
}

/// One entry of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "from", content = "parts", rename_all = "snake_case")]
pub enum ConversationEntry {
    /// Texts for the model, and the results of its calls.
    User(Vec<UserPart>),
    /// An answer of the model.
    Model(Vec<AnswerPart>),
}

/// A part of an entry of the user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UserPart {
    /// Text for the model.
    Text(String),
    /// An image for the model.
    Image(ImageData),
    /// Result of a call.
    Result(CallResult),
    /// Text of the worker in place of earlier entries that are no longer part of the conversation.
    Summary(String),
}

/// An image for a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageData {
    /// Media type, such as `image/png`.
    pub media_type: String,
    /// Content of the file in Base64.
    pub base64: String,
}

/// Result of a tool call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallResult {
    /// Id of the call.
    pub call: String,
    /// Name of the tool.
    pub tool: String,
    /// Success of the call.
    pub status: CallStatus,
    /// Text of the result.
    pub text: String,
    /// Images of the result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ImageData>,
}

/// Success of a tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallStatus {
    /// The tool did its work.
    Done,
    /// The tool failed; the text has the reason.
    Failed,
}

/// A part of a model's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerPart {
    /// Text of the model.
    Text {
        /// Text of this part.
        text: String,
        /// Signature that the API wants back with the text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    /// Reasoning of the model, as its API wrote it and wants it back.
    Thinking(Value),
    /// Call of a tool.
    Call(ModelCall),
}

/// A call of a tool by a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelCall {
    /// Id that links the result to the call.
    pub id: String,
    /// Name of the tool.
    pub tool: String,
    /// Arguments of the call.
    pub args: Map<String, Value>,
    /// Signature that the API wants back with the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}
