//! Tools by name: the tools that each caller sees, and the function behind each.

use std::sync::LazyLock;

use agent_worker_kernel::{DeadLetterAction, Error, Kernel, Principal};
use agent_worker_protocol::{
    Code, Keyword as _, Permission, Problem, ToolName,
    team_tools::{
        AGENT_TOOL_SPECS, CLIENT_TOOL_SPECS, ToolEffect, ToolField, ToolFieldKind, ToolSpec,
        optional, output_schema,
    },
};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    agents, attention,
    call::{McpFailure, McpToolCall, McpToolResult},
    channel, documents, feedback, proposals, resources,
    rpc::JsonObject,
    runs,
};
use crate::http::client_problem;

/// Minimum similarity of a wrong name to a suggested one.
const MIN_NAME_SIMILARITY: f64 = 0.75;
/// Maximum size of a text that is compared with the names of tools.
const MAX_SIMILAR_WORD_BYTES: usize = 100;

/// A tool of the list that a client reads.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct McpTool {
    pub(super) name: &'static str,
    description: &'static str,
    input_schema: JsonObject,
    #[serde(skip_serializing_if = "JsonObject::is_empty")]
    output_schema: JsonObject,
    annotations: Value,
    #[serde(skip)]
    tool_name: ToolName,
    #[serde(skip)]
    permission: Permission,
}

/// Calls a tool if the caller has it and its permission.
pub(super) async fn call_tool(
    tool: ToolName,
    kernel: &Kernel,
    who: &Principal,
    call: McpToolCall,
) -> McpToolResult {
    let untold = || McpFailure::Malformed("this tool is not listed".into());
    require_permission(who, tool, tool_permission(tool).ok_or_else(untold)?)
        .map_err(|error| McpFailure::Refused(client_problem(&error)))?;
    if matches!(who, Principal::Agent(_)) && !is_agent_tool(tool) {
        let message = format!("an agent may not call `{}`", tool.word());
        return Err(McpFailure::Refused(Problem::new(Code::Forbidden, message)));
    }
    match tool {
        ToolName::ChannelSend => channel::send(kernel, who, call).await,
        ToolName::ChannelRead => channel::read(kernel, who, call).await,
        ToolName::InboxCheck => channel::inbox_check(kernel, who, call).await,
        ToolName::InboxAck => channel::inbox_ack(kernel, who, call).await,
        ToolName::WorkflowAgents => channel::agents(kernel, who, call).await,
        ToolName::DocumentRead => documents::read(kernel, who, call).await,
        ToolName::DocumentWrite => documents::write(kernel, who, call).await,
        ToolName::DocumentAppend => documents::append(kernel, who, call).await,
        ToolName::DocumentList => documents::list(kernel, who, call).await,
        ToolName::DocumentCreate => documents::create(kernel, who, call).await,
        ToolName::DocumentSuggest => documents::suggest(kernel, who, call).await,
        ToolName::SuggestionAnswer => documents::answer_suggestion(kernel, who, call).await,
        ToolName::ResourceCreate => resources::create(kernel, who, call).await,
        ToolName::ResourceRead => resources::read(kernel, who, call).await,
        ToolName::FeedbackSubmit => feedback::submit(kernel, who, call).await,
        ToolName::ProposalCreate => proposals::create(kernel, who, call).await,
        ToolName::Vote => proposals::vote(kernel, who, call).await,
        ToolName::ProposalStatus => proposals::status(kernel, who, call).await,
        ToolName::ProposalCancel => proposals::cancel(kernel, who, call).await,
        ToolName::AskHuman => proposals::ask_human(kernel, who, call).await,
        ToolName::RunFinish => runs::finish(kernel, who, call).await,
        ToolName::WorkflowList => runs::workflows(kernel, who, call).await,
        ToolName::RunList => runs::list(kernel, who, call).await,
        ToolName::RunStatus => runs::status(kernel, who, call).await,
        ToolName::RunStart => runs::start(kernel, who, call).await,
        ToolName::RunStop => runs::stop(kernel, who, call).await,
        ToolName::RunResume => runs::resume(kernel, who, call).await,
        ToolName::AgentShow => agents::show(kernel, who, call).await,
        ToolName::AgentNew => agents::new(kernel, who, call).await,
        ToolName::AgentStop => agents::stop(kernel, who, call).await,
        ToolName::AgentInterrupt => agents::interrupt(kernel, who, call).await,
        ToolName::AgentResume => agents::resume(kernel, who, call).await,
        ToolName::AgentRemove => agents::remove(kernel, who, call).await,
        ToolName::ApprovalList => attention::approvals(kernel, who, call).await,
        ToolName::ApprovalAnswer => attention::answer_approval(kernel, who, call).await,
        ToolName::GrantList => attention::grants(kernel, who, call).await,
        ToolName::GrantRevoke => attention::revoke_grant(kernel, who, call).await,
        ToolName::QuestionList => attention::questions(kernel, who, call).await,
        ToolName::QuestionAnswer => attention::answer_question(kernel, who, call).await,
        ToolName::DeadList => attention::dead_letters(kernel, who, call).await,
        ToolName::DeadRedrive => {
            let action = DeadLetterAction::Redrive;
            attention::resolve_dead_letters(kernel, who, call, action).await
        }
        ToolName::DeadDrop => {
            attention::resolve_dead_letters(kernel, who, call, DeadLetterAction::Drop).await
        }
    }
}

/// Checks that a caller may call a tool. With `approve` a caller may cancel proposals of others without the tool's
/// own permission.
fn require_permission(who: &Principal, tool: ToolName, needs: Permission) -> Result<(), Error> {
    match tool {
        ToolName::ProposalCancel => who.require_either(needs, Permission::Approve),
        _ => who.require(needs),
    }
}

/// Returns the permission that the caller of a tool needs.
pub(crate) fn tool_permission(tool: ToolName) -> Option<Permission> {
    ToolSpec::of(tool).map(|spec| spec.permission)
}

/// Returns the names of a tool's inputs that are whole numbers.
pub(super) fn number_fields(tool: ToolName) -> impl Iterator<Item = &'static str> {
    input_names(tool, |kind| matches!(kind, ToolFieldKind::Number))
}

/// Returns the names of a tool's inputs that are lists of whole numbers.
pub(super) fn number_list_fields(tool: ToolName) -> impl Iterator<Item = &'static str> {
    input_names(tool, |kind| matches!(kind, ToolFieldKind::Numbers))
}

fn input_names(
    tool: ToolName,
    is_wanted: fn(ToolFieldKind) -> bool,
) -> impl Iterator<Item = &'static str> {
    let fields = ToolSpec::of(tool).into_iter().flat_map(|spec| spec.input);
    fields.filter(move |field| is_wanted(field.kind)).map(|field| field.name)
}

/// Returns true if agents have a tool. They may not call the others even where the kernel would answer, because the
/// list is what a team's user reviews.
fn is_agent_tool(tool: ToolName) -> bool {
    AGENT_TOOL_SPECS.iter().any(|spec| spec.name == tool)
}

/// Returns true if only agents need a tool: only they have an inbox, a person to ask and a verdict, and no other way to
/// give feedback.
fn is_agent_only(tool: ToolName) -> bool {
    matches!(
        tool,
        ToolName::InboxCheck
            | ToolName::InboxAck
            | ToolName::AskHuman
            | ToolName::FeedbackSubmit
            | ToolName::RunFinish
    )
}

/// Lists the tools of a caller. An agent has one instance; other callers also name the target and their folder. The user and clients
/// see all output schemas; an agent, which pays for them on every turn, sees only those of tools that no other
/// caller has, and only tools that work in its team.
pub(super) async fn list_for(
    kernel: &Kernel,
    who: &Principal,
) -> Result<Vec<&'static McpTool>, Error> {
    static AGENT_TOOLS: LazyLock<Vec<McpTool>> = LazyLock::new(|| {
        AGENT_TOOL_SPECS
            .iter()
            .map(|spec| build_tool(spec, &[], agent_output_fields(spec)))
            .collect()
    });
    static CLIENT_TOOLS: LazyLock<Vec<McpTool>> = LazyLock::new(|| {
        let target =
            optional("target", ToolFieldKind::Text).about("which instance, such as @review:pr-1");
        let project = optional("project", ToolFieldKind::Text)
            .about("your folder, as an absolute path; its instances come first");
        let now = optional("now", ToolFieldKind::Flag)
            .about("end the running turn of the recipients; needs the permission `agents`");
        let theirs = AGENT_TOOL_SPECS.iter().filter(|spec| !is_agent_only(spec.name));
        let theirs = theirs.chain(&CLIENT_TOOL_SPECS);
        theirs
            .map(|spec| {
                // A run is started from a file; no instance is named.
                let named: &[_] = match spec.name {
                    ToolName::RunStart => &[],
                    ToolName::ChannelSend => &[target, project, now],
                    _ => &[target, project],
                };
                build_tool(spec, named, spec.output)
            })
            .collect()
    });
    let listed: &'static [McpTool] = match who {
        Principal::Agent(_) => &AGENT_TOOLS,
        Principal::User | Principal::Client(_) => &CLIENT_TOOLS,
        Principal::Anonymous => &[],
    };
    let parts = kernel.agents().team_parts(who).await?;
    let offered = listed
        .iter()
        .filter(|tool| require_permission(who, tool.tool_name, tool.permission).is_ok())
        .filter(|tool| parts.offer(tool.tool_name));
    Ok(offered.collect())
}

/// Returns the listed names that are most similar to `word`.
pub(super) fn similar_names(word: &str, listed: &[&McpTool]) -> Vec<String> {
    // The comparison of a long text takes seconds.
    if word.len() > MAX_SIMILAR_WORD_BYTES {
        return Vec::new();
    }
    let mut near: Vec<_> = listed
        .iter()
        .map(|tool| (strsim::jaro_winkler(word, tool.name), tool.name))
        .filter(|(likeness, _)| *likeness >= MIN_NAME_SIMILARITY)
        .collect();
    near.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    near.into_iter().take(3).map(|(_, name)| format!("`{name}`")).collect()
}

fn agent_output_fields(spec: &ToolSpec) -> &'static [ToolField] {
    if is_agent_only(spec.name) { spec.output } else { &[] }
}

fn build_tool(spec: &ToolSpec, more: &[ToolField], gives: &[ToolField]) -> McpTool {
    McpTool {
        name: spec.name.word(),
        description: spec.description,
        input_schema: spec.input_schema(more),
        output_schema: if gives.is_empty() { JsonObject::new() } else { output_schema(gives) },
        annotations: annotations(spec.effect),
        tool_name: spec.name,
        permission: spec.permission,
    }
}

/// Returns the annotations of a tool. Codex calls a tool without approval only if it reads, or declares that it
/// neither destroys nor reaches outside.
fn annotations(effect: ToolEffect) -> Value {
    match effect {
        ToolEffect::Reads => json!({ "readOnlyHint": true }),
        ToolEffect::Writes => json!({ "destructiveHint": false, "openWorldHint": false }),
        ToolEffect::Starts => json!({ "destructiveHint": false, "openWorldHint": true }),
        ToolEffect::Ends => json!({ "destructiveHint": true, "openWorldHint": false }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_is_listed_once_and_in_the_order_of_their_names() {
        let told = AGENT_TOOL_SPECS.iter().chain(&CLIENT_TOOL_SPECS);
        let told: Vec<_> = told.map(|spec| spec.name).collect();
        assert_eq!(told, ToolName::ALL);
        let of_agents = ToolName::ALL.iter().copied().filter(|tool| tool.is_for_agents());
        assert!(AGENT_TOOL_SPECS.iter().map(|spec| spec.name).eq(of_agents));
    }
}
