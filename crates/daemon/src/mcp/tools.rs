//! Tools by name: who is shown which, and the function behind each.

use std::sync::LazyLock;

use agent_worker_kernel::{Error, Kernel, Principal};
use agent_worker_protocol::{Permission, ToolName};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    agents,
    call::{Call, Failure, Given},
    channel, documents, feedback, proposals, resources,
    rpc::JsonObject,
    runs,
    schema::{self, Field, Kind, optional},
    table::{Effect, SPECS, Spec, others},
};
use crate::http::problem;

/// How alike a wrong name must be to a right one to be suggested.
const ALIKE: f64 = 0.75;

/// A tool, as it is listed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Tool {
    pub(super) name: &'static str,
    description: &'static str,
    input_schema: JsonObject,
    #[serde(skip_serializing_if = "JsonObject::is_empty")]
    output_schema: JsonObject,
    annotations: Value,
    #[serde(skip)]
    which: ToolName,
    #[serde(skip)]
    needs: Permission,
}

/// Calls a tool, for whoever may.
pub(super) async fn call(tool: ToolName, kernel: &Kernel, who: &Principal, call: Call) -> Given {
    let untold = || Failure::Malformed("nobody was told of this tool".into());
    admit(who, tool, needs(tool).ok_or_else(untold)?)
        .map_err(|error| Failure::Refused(problem(&error)))?;
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
        ToolName::SuggestionAnswer => documents::answer(kernel, who, call).await,
        ToolName::ResourceCreate => resources::create(kernel, who, call).await,
        ToolName::ResourceRead => resources::read(kernel, who, call).await,
        ToolName::FeedbackSubmit => feedback::submit(kernel, who, call).await,
        ToolName::ProposalCreate => proposals::create(kernel, who, call).await,
        ToolName::Vote => proposals::vote(kernel, who, call).await,
        ToolName::ProposalStatus => proposals::status(kernel, who, call).await,
        ToolName::ProposalCancel => proposals::cancel(kernel, who, call).await,
        ToolName::AskHuman => proposals::ask(kernel, who, call).await,
        ToolName::WorkflowList => runs::workflows(kernel, who, call).await,
        ToolName::RunList => runs::list(kernel, who, call).await,
        ToolName::RunStatus => runs::status(kernel, who, call).await,
        ToolName::RunStart => runs::start(kernel, who, call).await,
        ToolName::RunStop => runs::stop(kernel, who, call).await,
        ToolName::RunResume => runs::resume(kernel, who, call).await,
        ToolName::AgentShow => agents::show(kernel, who, call).await,
        ToolName::AgentNew => agents::new(kernel, who, call).await,
        ToolName::AgentStop => agents::stop(kernel, who, call).await,
        ToolName::AgentResume => agents::resume(kernel, who, call).await,
        ToolName::AgentRemove => agents::remove(kernel, who, call).await,
    }
}

/// Lets those pass who may call a tool. Who may approve takes back what others propose, and need not send for it.
fn admit(who: &Principal, tool: ToolName, needs: Permission) -> Result<(), Error> {
    match tool {
        ToolName::ProposalCancel => who.require_either(needs, Permission::Approve),
        _ => who.require(needs),
    }
}

/// What the caller of a tool must be allowed.
fn needs(tool: ToolName) -> Option<Permission> {
    let spec = SPECS.iter().chain(&others::SPECS).find(|spec| spec.name == tool);
    spec.map(|spec| spec.needs)
}

/// Whether only an agent has a use for it: it has an inbox and a person to ask, and no other way to say what it thinks of us.
fn is_an_agents(tool: ToolName) -> bool {
    matches!(
        tool,
        ToolName::InboxCheck | ToolName::InboxAck | ToolName::AskHuman | ToolName::FeedbackSubmit
    )
}

/// What a principal is shown. An agent has one instance, an inbox in it and a person to ask; others say which they mean.
/// What a tool gives is described to those who do not pay for it on every turn, and to agents where nobody else has it.
pub(super) fn list(who: &Principal) -> Vec<&'static Tool> {
    static AGENTS: LazyLock<Vec<Tool>> =
        LazyLock::new(|| SPECS.iter().map(|spec| tool(spec, &[], agents_see(spec))).collect());
    static OTHERS: LazyLock<Vec<Tool>> = LazyLock::new(|| {
        let target = optional("target", Kind::Text).about("which instance, such as @review:pr-1");
        let theirs = SPECS.iter().filter(|spec| !is_an_agents(spec.name));
        let theirs = theirs.chain(&others::SPECS);
        theirs.map(|spec| tool(spec, &[target], spec.gives)).collect()
    });
    let listed: &'static [Tool] = match who {
        Principal::Agent(_) => &AGENTS,
        Principal::User | Principal::Client(_) => &OTHERS,
        Principal::Nobody => &[],
    };
    listed.iter().filter(|tool| admit(who, tool.which, tool.needs).is_ok()).collect()
}

/// The listed names most like `word`.
pub(super) fn near(word: &str, listed: &[&Tool]) -> Vec<String> {
    let mut near: Vec<_> = listed
        .iter()
        .map(|tool| (strsim::jaro_winkler(word, tool.name), tool.name))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .collect();
    near.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    near.into_iter().take(3).map(|(_, name)| format!("`{name}`")).collect()
}

fn agents_see(spec: &Spec) -> &'static [Field] {
    if is_an_agents(spec.name) { spec.gives } else { &[] }
}

fn tool(spec: &Spec, more: &[Field], gives: &[Field]) -> Tool {
    let key = optional("idempotency_key", Kind::Text);
    let mut takes = [spec.takes, more].concat();
    match spec.effect {
        Effect::Reads | Effect::Starts => {}
        Effect::Writes | Effect::Ends => takes.push(key),
    }
    Tool {
        name: spec.name.word(),
        description: spec.about,
        input_schema: schema::takes(&takes),
        output_schema: if gives.is_empty() { JsonObject::new() } else { schema::gives(gives) },
        annotations: hints(spec.effect),
        which: spec.name,
        needs: spec.needs,
    }
}

/// Codex calls a tool unasked only if it reads, or says that it neither destroys nor reaches outside.
fn hints(effect: Effect) -> Value {
    match effect {
        Effect::Reads => json!({ "readOnlyHint": true }),
        Effect::Writes => json!({ "destructiveHint": false, "openWorldHint": false }),
        Effect::Starts => json!({ "destructiveHint": false, "openWorldHint": true }),
        Effect::Ends => json!({ "destructiveHint": true, "openWorldHint": false }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_is_told_of_once_and_in_the_order_of_their_names() {
        let told = SPECS.iter().chain(&others::SPECS);
        let told: Vec<_> = told.map(|spec| spec.name).collect();
        assert_eq!(told, ToolName::ALL);
    }
}
