//! The wire shapes: each writes requests of one API and reads its streams. Pure.

mod anthropic;
mod chat;
mod gemini;
mod responses;

use agent_worker_backends::WireShape;

use crate::{answer::AnswerReader, conversation::ModelPrompt, failure::RequestSecrets};

/// One wire shape.
pub trait ModelWire: Send + Sync {
    /// Writes the request for the next answer.
    fn write_request(&self, prompt: &ModelPrompt<'_>) -> WireRequest;
    /// Returns a reader of the response, whose failures repeat none of the secrets.
    fn reader(&self, secrets: &RequestSecrets) -> Box<dyn AnswerReader>;
}

/// A request without its endpoint and key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireRequest {
    /// Path below the endpoint, with the query.
    pub path: String,
    /// Constant headers of the API.
    pub headers: &'static [(&'static str, &'static str)],
    /// Body in JSON.
    pub body: String,
}

/// Returns the implementation of a shape.
pub fn wire_of(shape: WireShape) -> &'static dyn ModelWire {
    match shape {
        WireShape::Messages => &anthropic::AnthropicWire,
        WireShape::Responses => &responses::ResponsesWire,
        WireShape::Chat => &chat::ChatWire,
        WireShape::Gemini => &gemini::GeminiWire,
    }
}
