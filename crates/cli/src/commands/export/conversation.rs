//! The stored conversation of an agent with direct access to a model, as JSON Lines: the one that its next turn continues.

use agent_worker_models::{AnswerPart, ConversationEntry, UserPart};
use agent_worker_protocol::{AgentName, Target};
use serde::Serialize;

use crate::{
    client::daemon_client::{CommandScope, DaemonClient},
    commands::resource,
    error::{CliError, CliErrorKind},
    input::context::CommandContext,
    output::verdict::RunVerdict,
};

/// One entry, as a line.
#[derive(Serialize)]
#[serde(tag = "role", content = "parts", rename_all = "snake_case")]
enum ConversationLine<'a> {
    User(&'a [UserPart]),
    Model(&'a [AnswerPart]),
}

/// Prints the conversation, one entry per line.
pub(super) async fn write_conversation(
    client: &DaemonClient,
    scope: &CommandScope,
    agent: AgentName,
    ctx: &mut CommandContext<'_>,
) -> Result<RunVerdict, CliError> {
    let target = match scope.target.clone() {
        Some(target) => Target { agent: Some(agent), ..target },
        None => Target { agent: Some(agent), workflow: None, tag: None },
    };
    let detail = client.agent(&target, scope).await?;
    if detail.conversation.is_empty() {
        let message = format!("`{target}` has no stored conversation");
        let hint = "an agent with `backend: api` and `session: continue` stores one after its first turn that ends ok";
        return Err(CliError::new(CliErrorKind::Failed, message).with_hint(hint));
    }
    for id in detail.conversation {
        let bytes = resource::read_whole(client, scope, id).await?;
        let entries: Vec<ConversationEntry> = serde_json::from_slice(&bytes).map_err(|error| {
            let message = format!("the stored conversation of `{target}` is not readable: {error}");
            CliError::new(CliErrorKind::Failed, message)
        })?;
        for entry in &entries {
            ctx.console.print_json(&match entry {
                ConversationEntry::User(parts) => ConversationLine::User(parts),
                ConversationEntry::Model(parts) => ConversationLine::Model(parts),
            })?;
        }
    }
    Ok(RunVerdict::Done)
}
