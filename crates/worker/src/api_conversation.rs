//! The conversation of an agent with direct access to a model, over its turns.
//!
//! A turn that ends ok stores its entries as one resource and reports the list of all parts together with its end. A failed or
//! interrupted turn therefore leaves the conversation as it was. A changed system prompt, other tools or an unreadable part
//! begin a new conversation. Another model gets the texts and the calls without the reasoning, which only its author can read.

use std::fmt::Write as _;

use agent_worker_host::DaemonSocket;
use agent_worker_models::{AnswerPart, ConversationEntry, ToolDefinition};
use agent_worker_protocol::{FailureClass, ResourceId, hash};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    attachments::fetch_resource,
    compaction::{MeasuredTokens, TokenSource},
    turn::TurnFailure,
};

/// Type of the resources with conversations.
pub(crate) const CONVERSATION_TYPE: &str = "application/vnd.agent-worker.conversation+json";

/// The stored conversation, as the store keeps it for the next turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SavedConversation {
    /// Provider and model that wrote the newest entries.
    pub(crate) author: String,
    /// Hash of the system prompt and the tools.
    pub(crate) frame: String,
    /// Entries of each turn, the oldest first. A compacted conversation is one part.
    pub(crate) parts: Vec<ResourceId>,
    /// Tokens of the last request and its answer; absent if the provider counts none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tokens: Option<u64>,
}

impl SavedConversation {
    /// Returns the tokens of the entries for a model. Another model than the author counts them differently.
    pub(crate) fn measured(&self, entries: usize, model: &str) -> Option<MeasuredTokens> {
        let is_author = self.author == model;
        let source = if is_author { TokenSource::Counted } else { TokenSource::Estimated };
        self.tokens.map(|tokens| MeasuredTokens { tokens, entries, source })
    }
}

/// The beginning of a turn's conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConversationStart {
    /// No earlier turn has left a conversation.
    First,
    /// The conversation of the earlier turns does not fit, for this reason.
    New(&'static str),
    /// The conversation continues.
    Continued(SavedConversation),
}

/// Returns the hash of the parts of a request that precede the conversation.
pub(crate) fn frame_hash(system_prompt: &str, tools: &[ToolDefinition]) -> String {
    let mut parts = vec![system_prompt.as_bytes().to_vec()];
    for ToolDefinition { name, description, schema } in tools {
        parts.extend([name.as_bytes().to_vec(), description.as_bytes().to_vec()]);
        parts.push(schema.to_string().into_bytes());
    }
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    hash(&parts).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Decides how a turn begins; `saved` is the value that the last turn reported.
pub(crate) fn conversation_start(saved: Option<&Value>, frame: &str) -> ConversationStart {
    let Some(saved) = saved else { return ConversationStart::First };
    match SavedConversation::deserialize(saved) {
        Ok(saved) if saved.frame == frame => ConversationStart::Continued(saved),
        Ok(_) => ConversationStart::New("the system prompt or the tools have changed"),
        Err(_) => ConversationStart::New("the agent had another backend before"),
    }
}

/// Reads the entries of all parts. None if a part is gone or is not readable.
pub(crate) async fn read_parts(
    daemon: &DaemonSocket,
    parts: &[ResourceId],
) -> Result<Option<Vec<ConversationEntry>>, TurnFailure> {
    let mut entries = Vec::new();
    for id in parts {
        let bytes = match fetch_resource(daemon, *id).await {
            Ok(bytes) => bytes,
            Err(failure) if failure.class == FailureClass::Transient => return Err(failure),
            Err(_) => return Ok(None),
        };
        let Ok(part) = serde_json::from_slice::<Vec<ConversationEntry>>(&bytes) else {
            return Ok(None);
        };
        entries.extend(part);
    }
    Ok(Some(entries))
}

/// Removes the reasoning and the signatures of another author.
pub(crate) fn without_reasoning(entries: &mut [ConversationEntry]) {
    for entry in entries {
        let ConversationEntry::Model(parts) = entry else { continue };
        parts.retain(|part| !matches!(part, AnswerPart::Thinking(_)));
        for part in parts.iter_mut() {
            match part {
                AnswerPart::Text { signature, .. } => *signature = None,
                AnswerPart::Call(call) => call.signature = None,
                AnswerPart::Thinking(_) => {}
            }
        }
        complete_answer(parts);
    }
}

/// Gives a text to an answer without parts, which the APIs refuse.
pub(crate) fn complete_answer(parts: &mut Vec<AnswerPart>) {
    let is_visible = |part: &AnswerPart| !matches!(part, AnswerPart::Thinking(_));
    if !parts.iter().any(is_visible) {
        parts.push(AnswerPart::Text { text: "(no text)".to_owned(), signature: None });
    }
}

#[cfg(test)]
mod tests {
    use agent_worker_models::{ModelCall, UserPart};
    use serde_json::json;

    use super::*;

    fn tool(name: &str) -> ToolDefinition {
        let schema = json!({"type": "object"});
        ToolDefinition { name: name.to_owned(), description: String::new(), schema }
    }

    #[test]
    fn a_conversation_goes_on_while_its_system_prompt_and_its_tools_are_the_same() {
        let frame = frame_hash("Be brief.", &[tool("a")]);
        let parts = vec![format!("{:064x}", 7).parse().unwrap()];
        let author = "openai/m".to_owned();
        let saved = SavedConversation { author, frame: frame.clone(), parts, tokens: None };
        let value = serde_json::to_value(&saved).unwrap();
        let changed = ConversationStart::New("the system prompt or the tools have changed");
        let other = ConversationStart::New("the agent had another backend before");
        for (value, frame, expected) in [
            (None, frame.clone(), ConversationStart::First),
            (Some(value.clone()), frame.clone(), ConversationStart::Continued(saved)),
            (Some(value.clone()), frame_hash("Be long.", &[tool("a")]), changed.clone()),
            (
                Some(value.clone()),
                frame_hash("Be brief.", &[tool("a"), tool("b")]),
                changed.clone(),
            ),
            (Some(value), frame_hash("Be brief.", &[tool("b")]), changed),
            (Some(json!({"id": "of Claude"})), frame, other),
        ] {
            assert_eq!(conversation_start(value.as_ref(), &frame), expected);
        }
    }

    #[test]
    fn another_author_gets_texts_and_calls_without_reasoning() {
        let text = |text: &str, signature: Option<&str>| AnswerPart::Text {
            text: text.to_owned(),
            signature: signature.map(str::to_owned),
        };
        let call = |signature: Option<&str>| {
            let (id, tool) = ("1".to_owned(), "a".to_owned());
            let signature = signature.map(str::to_owned);
            AnswerPart::Call(ModelCall { id, tool, args: serde_json::Map::new(), signature })
        };
        let user = ConversationEntry::User(vec![UserPart::Text("hi".to_owned())]);
        let thinking = || AnswerPart::Thinking(json!({"type": "thinking"}));
        let mut entries = vec![
            user.clone(),
            ConversationEntry::Model(vec![thinking(), text("a", Some("s")), call(Some("s"))]),
            ConversationEntry::Model(vec![thinking()]),
        ];
        without_reasoning(&mut entries);
        let expected = [
            user,
            ConversationEntry::Model(vec![text("a", None), call(None)]),
            ConversationEntry::Model(vec![text("(no text)", None)]),
        ];
        assert_eq!(entries, expected);
    }
}
