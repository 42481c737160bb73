//! Messages of `codex app-server`: one JSON object per line, in the manner of JSON-RPC without its version field.

use serde::Deserialize;
use serde_json::Value;

use super::{CodexUsage, item::CodexItem};

/// A request, a response or a notification.
#[derive(Deserialize)]
pub(super) struct CodexMessage {
    /// The id of a request or of a response. The program counts its own requests from 0.
    pub(super) id: Option<Value>,
    pub(super) method: Option<String>,
    #[serde(default)]
    pub(super) params: Value,
    #[serde(default)]
    pub(super) result: Value,
    pub(super) error: Option<CodexErrorMessage>,
}

/// The error of a response, or of a call.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct CodexErrorMessage {
    pub(super) message: String,
}

/// A notification that the adapter uses.
pub(super) enum CodexNotification {
    ItemStarted(CodexItemParams),
    ItemCompleted(CodexItemParams),
    TokenUsage(CodexTokenUsageParams),
    Error(CodexErrorParams),
    TurnCompleted(CodexTurnParams),
}

impl CodexNotification {
    /// Reads a notification. Returns `None` for all others, and for one that is invalid.
    pub(super) fn parse(method: &str, params: Value) -> Option<Self> {
        match method {
            "item/started" => Deserialize::deserialize(params).ok().map(Self::ItemStarted),
            "item/completed" => Deserialize::deserialize(params).ok().map(Self::ItemCompleted),
            "thread/tokenUsage/updated" => {
                Deserialize::deserialize(params).ok().map(Self::TokenUsage)
            }
            "error" => Deserialize::deserialize(params).ok().map(Self::Error),
            "turn/completed" => Deserialize::deserialize(params).ok().map(Self::TurnCompleted),
            _ => None,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CodexItemParams {
    pub(super) thread_id: String,
    pub(super) item: CodexItem,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CodexTokenUsageParams {
    pub(super) thread_id: String,
    pub(super) token_usage: CodexTokenUsage,
}

#[derive(Deserialize)]
pub(super) struct CodexTokenUsage {
    /// Usage of the whole thread so far.
    pub(super) total: CodexUsage,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CodexErrorParams {
    pub(super) error: CodexTurnError,
    pub(super) will_retry: bool,
}

/// The failure of a request to the provider, or of a turn.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CodexTurnError {
    pub(super) message: String,
    /// A word, or an object with one word and the status of the provider.
    #[serde(default)]
    pub(super) codex_error_info: Value,
    /// The cause of a retry.
    pub(super) additional_details: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CodexTurnParams {
    pub(super) thread_id: String,
    pub(super) turn: CodexTurn,
}

#[derive(Deserialize)]
pub(super) struct CodexTurn {
    pub(super) status: String,
    pub(super) error: Option<CodexTurnError>,
}
