//! Tools for the channel, the inbox and the team.

use agent_worker_kernel::{
    ChannelQuery, InstanceSelector, Kernel, ListingScope, PageRequest, Principal,
};
use agent_worker_protocol::{
    AgentName, InstanceRef, Message, Priority, Receipt, Seq,
    api::{MessagesReply, SendRequest},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::call::{McpToolCall, McpToolResult, kernel_refusal, to_tool_result};
use crate::http::SinceFilter;

/// Number of messages that `channel_read` returns without a `limit`.
const DEFAULT_READ_MESSAGES: u32 = 50;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChannelSendArgs {
    message: String,
    #[serde(default)]
    to: LenientAgentNames,
    #[serde(default)]
    cc: LenientAgentNames,
    reply_to: Option<Seq>,
    #[serde(default)]
    priority: Priority,
    /// Only listed for the user and clients.
    #[serde(default)]
    now: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChannelReadArgs {
    since: Option<SinceFilter>,
    limit: Option<u32>,
    after: Option<String>,
    search: Option<String>,
    thread: Option<Seq>,
    all_runs: Option<bool>,
    receipts: Option<bool>,
    /// Not listed: `channel_mentions` of an older design.
    mentions_only: Option<bool>,
}

/// The result of `channel_read`.
#[derive(Serialize)]
struct ChannelReadResult {
    instance: InstanceRef,
    messages: Vec<Message>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    receipts: Vec<Receipt>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InboxAckArgs {
    until: SinceFilter,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChannelToolNoArgs {}

/// Names of agents as models write them: a list or one name, with or without `@`.
#[derive(Default, Deserialize)]
#[serde(try_from = "Value")]
struct LenientAgentNames(Vec<AgentName>);

impl TryFrom<Value> for LenientAgentNames {
    type Error = String;
    fn try_from(value: Value) -> Result<Self, String> {
        let texts = match value {
            Value::Null => Vec::new(),
            Value::Array(texts) => texts,
            one => vec![one],
        };
        let name = |text: Value| {
            let text = text.as_str().ok_or_else(|| format!("{text} is not an agent's name"))?;
            let text = text.strip_prefix('@').unwrap_or(text);
            text.parse().map_err(|error: agent_worker_protocol::BadName| error.to_string())
        };
        texts.into_iter().map(name).collect::<Result<_, _>>().map(Self)
    }
}

/// Implements the `channel_send` tool.
pub(super) async fn send(kernel: &Kernel, who: &Principal, mut call: McpToolCall) -> McpToolResult {
    let ChannelSendArgs {
        message,
        to: LenientAgentNames(to),
        cc: LenientAgentNames(cc),
        reply_to,
        priority,
        now,
    } = call.args()?;
    let InstanceSelector { target, project } = call.place;
    let request = SendRequest {
        target,
        project,
        message,
        to,
        cc,
        reply_to,
        alone: false,
        now,
        priority,
        attachments: Vec::new(),
    };
    to_tool_result(kernel.messages().send(who, call.key, request).await)
}

/// Implements the `channel_read` tool.
pub(super) async fn read(kernel: &Kernel, who: &Principal, mut call: McpToolCall) -> McpToolResult {
    let ChannelReadArgs { since, limit, after, search, thread, all_runs, receipts, mentions_only } =
        call.args()?;
    let page = PageRequest::new(limit.or(Some(DEFAULT_READ_MESSAGES)), after);
    let reading = ChannelQuery {
        since: since.map(SinceFilter::position),
        page: page.map_err(kernel_refusal)?,
        search,
        thread,
        all_runs: all_runs.unwrap_or_default(),
        receipts: receipts.unwrap_or_default(),
        mentions_only: mentions_only.unwrap_or_default(),
    };
    let reply = kernel.messages().list(who, &call.place, reading).await;
    to_tool_result(reply.map(|reply| {
        let MessagesReply { instance, items: messages, next, receipts } = reply;
        ChannelReadResult { instance, messages, next, receipts }
    }))
}

/// Implements the `inbox_check` tool.
pub(super) async fn inbox_check(
    kernel: &Kernel,
    who: &Principal,
    mut call: McpToolCall,
) -> McpToolResult {
    let ChannelToolNoArgs {} = call.args()?;
    to_tool_result(kernel.inbox().check(who).await)
}

/// Implements the `inbox_ack` tool.
pub(super) async fn inbox_ack(
    kernel: &Kernel,
    who: &Principal,
    mut call: McpToolCall,
) -> McpToolResult {
    let InboxAckArgs { until } = call.args()?;
    to_tool_result(kernel.inbox().ack(who, until.position()).await)
}

/// Implements the `workflow_agents` tool.
pub(super) async fn agents(
    kernel: &Kernel,
    who: &Principal,
    mut call: McpToolCall,
) -> McpToolResult {
    let ChannelToolNoArgs {} = call.args()?;
    let whole = PageRequest::whole();
    let agents = kernel.agents().list(who, &call.list_place(), ListingScope::All, &whole).await;
    to_tool_result(agents.map(|page| json!({ "agents": page.items })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_however_a_model_writes_them() {
        for (value, expected) in [
            (json!(["coder", "@reviewer"]), Some(vec!["coder", "reviewer"])),
            (json!("@coder"), Some(vec!["coder"])),
            (json!(null), Some(vec![])),
            (json!([]), Some(vec![])),
            (json!(["co der"]), None),
            (json!([1]), None),
            (json!({"name": "coder"}), None),
        ] {
            let names = LenientAgentNames::try_from(value.clone()).ok();
            let names = names.map(|LenientAgentNames(names)| {
                names.iter().map(ToString::to_string).collect::<Vec<_>>()
            });
            assert_eq!(names, expected.map(|list| list.iter().map(ToString::to_string).collect()));
        }
    }
}
