//! The message of a final answer, and the facts for the decision about its recipients (`answer_policy`).
//!
//! Work that depends on the length of the answer happens here, before the transaction that ends the attempt.

use std::sync::Arc;

use agent_worker_backends::TEAM_SERVER_NAME;
use agent_worker_protocol::{AgentName, Keyword as _, Permissions, ToolName};
use agent_worker_store::{
    AnswerDraft, AnswerFacts, AnswerRule, AttemptRow, Error as StoreError, LimitScope, WriteActor,
    WriteContext,
};
use agent_worker_workflow::AnswerMentions;

use crate::{
    error::{Error, Result},
    kernel::{Kernel, RunContext},
    messaging::{
        recipients::Recipients,
        size_limits::{MAX_INLINE_BYTES, MessageText},
    },
    scheduling::{answer_policy::AnswerPolicy, limits},
};

impl Kernel {
    /// Prepares the answer of an attempt for the store; none if its text is empty.
    pub(super) async fn answer_draft(
        &self,
        run_context: &RunContext,
        row: &AttemptRow,
    ) -> Result<Option<AnswerDraft>> {
        let text = row.finished.as_ref().map_or("", |finished| finished.text.trim_end());
        if text.is_empty() {
            return Ok(None);
        }
        let author = &row.fence.agent;
        let send_block = self.send_block(run_context, author).await?;
        // The limits may have been raised since the turn started.
        let current = self.run_context(run_context.run).await.ok();
        let run_context = current.as_deref().unwrap_or(run_context);
        let by = WriteContext::new(WriteActor::Agent(row.fence.clone()));
        let hops = limits::hop_count(&row.shown, None);
        let is_standalone = run_context.instance.is_global();
        let policy = AnswerPolicy {
            author: author.clone(),
            // Of the whole text, which may be longer than the message.
            mentions: answer_mentions(text).await?,
            handling: run_context.answer_handling(),
            send_block,
            hop_limit: limits::hop_limit_cause(hops, &run_context.limits),
            limit_scope: if is_standalone { LimitScope::Standalone } else { LimitScope::Team },
        };
        let text = MessageText::authored(text.to_owned());
        let message = self
            .prepare_message(&by, run_context, text, &Recipients::default(), hops, None)
            .await?;
        let rule = (!policy.mentions.is_empty())
            .then(|| Arc::new(move |facts: &AnswerFacts| policy.decide(facts)) as AnswerRule);
        Ok(Some(AnswerDraft { message, rule }))
    }

    /// Returns the cause for which an agent may not send a message now, if there is one: its answers wake no agent then.
    ///
    /// The check precedes the transaction that ends the attempt, as it precedes the transaction of a sent message. A gate
    /// never closes, so a gate that opens in between makes the check too strict, not too lax.
    pub(crate) async fn send_block(
        &self,
        run_context: &RunContext,
        agent: &AgentName,
    ) -> Result<Option<String>> {
        let tool = ToolName::ChannelSend;
        if names_send_tool(&run_context.agent(agent)?.permissions) {
            return Ok(Some(format!("the permissions of {agent} restrict `{}`", tool.word())));
        }
        let gate = self.closed_gate(run_context, agent, tool).await?;
        Ok(gate.map(|gate| Error::GateClosed { tool: tool.word(), gate }.to_string()))
    }
}

/// Parses the mentions of an answer. A text that is too long for a message is parsed on a blocking thread: 1 MiB of
/// Markdown takes up to half a second.
async fn answer_mentions(answer: &str) -> Result<AnswerMentions> {
    if answer.len() <= MAX_INLINE_BYTES {
        return Ok(AnswerMentions::parse(answer));
    }
    let answer = answer.to_owned();
    let parse = move || AnswerMentions::parse(&answer);
    Ok(tokio::task::spawn_blocking(parse).await.map_err(|_| StoreError::Closed)?)
}

/// Returns true if `deny` or `ask` names `channel_send`, by its own name or as a program names it. An answer cannot wait
/// for an approval. `default` does not apply to the tools of the team.
fn names_send_tool(permissions: &Permissions) -> bool {
    let (tool, server) = (ToolName::ChannelSend.word(), format!("mcp__{TEAM_SERVER_NAME}"));
    let whole = format!("{server}__{tool}");
    let mut patterns = permissions.deny.iter().chain(&permissions.ask);
    patterns.any(|pattern| [tool, server.as_str(), whole.as_str()].contains(&pattern.tool()))
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::PermissionAction;

    use super::*;

    #[test]
    fn rules_about_channel_send_apply_to_answers() {
        for (pattern, expected) in [
            ("channel_send", true),
            ("mcp__team__channel_send", true),
            ("mcp__team__channel_send(x*)", true),
            ("mcp__team", true),
            ("mcp__team__channel_read", false),
            ("mcp__other__channel_send", false),
            ("Bash", false),
        ] {
            let patterns = vec![pattern.parse().unwrap()];
            let denied = Permissions { deny: patterns.clone(), ..Permissions::default() };
            let asked = Permissions { ask: patterns.clone(), ..Permissions::default() };
            let allowed = Permissions { allow: patterns, ..Permissions::default() };
            assert_eq!(names_send_tool(&denied), expected, "deny {pattern}");
            assert_eq!(names_send_tool(&asked), expected, "ask {pattern}");
            assert!(!names_send_tool(&allowed), "allow {pattern}");
        }
        let default = Some(PermissionAction::Deny);
        assert!(!names_send_tool(&Permissions { default, ..Permissions::default() }));
    }
}
