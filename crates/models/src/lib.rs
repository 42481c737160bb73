//! The APIs of language models: requests, streams, failures and the HTTPS client.
//!
//! A wire shape (`wires/`) turns a conversation into a request and the lines of a response into an answer, without I/O, so
//! that recorded streams test it. `client.rs` is the only file with I/O. Rows with providers, their endpoints and variables are
//! in `crates/backends`. Invariant: no error, event or debug output contains a key.

mod answer;
mod client;
mod conversation;
mod endpoint;
mod failure;
mod json_body;
mod output_schema;
mod retry_delay;
mod sse;
mod tool_schema;
mod wires;

pub use answer::{AnswerDelta, AnswerReader, ModelAnswer, StopReason, TokenCounts};
pub use client::{ClientError, ModelClient};
pub use conversation::{
    AnswerPart, CallResult, CallStatus, ConversationEntry, ImageData, ModelCall, ModelPrompt,
    RequestSettings, ToolDefinition, UserPart,
};
pub use endpoint::{EndpointError, ProviderEndpoint, ProviderOverrides};
pub use failure::{ErrorReport, ModelFailure, RequestSecrets, failure_of_error};
pub use output_schema::is_strict_schema;
pub use sse::SseDecoder;
pub use tool_schema::{AcceptedSchema, accepted_schema};
pub use wires::{ModelWire, WireRequest, wire_of};
