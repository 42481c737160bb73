//! Tools by name: who is shown which, and the function behind each.

use std::sync::LazyLock;

use agent_worker_kernel::{Kernel, Principal};
use agent_worker_protocol::ToolName;
use rmcp::model::{Tool, ToolAnnotations};

use super::{
    call::{Call, Given},
    channel, documents, feedback, resources,
    schema::{self, Field, Kind, optional},
    table::{Effect, SPECS, Spec},
};

/// How alike a wrong name must be to a right one to be suggested.
const ALIKE: f64 = 0.75;

/// Calls a tool.
pub(super) async fn call(tool: ToolName, kernel: &Kernel, who: &Principal, call: Call) -> Given {
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
        ToolName::ResourceCreate => resources::create(kernel, who, call).await,
        ToolName::ResourceRead => resources::read(kernel, who, call).await,
        ToolName::FeedbackSubmit => feedback::submit(kernel, who, call).await,
    }
}

/// Whether only an agent has a use for it: it has an inbox, and no other way to say what it thinks of us.
fn is_an_agents(tool: ToolName) -> bool {
    matches!(tool, ToolName::InboxCheck | ToolName::InboxAck | ToolName::FeedbackSubmit)
}

/// What a principal is shown. An agent has one instance and an inbox in it; others say which they mean.
pub(super) fn list(who: &Principal) -> &'static [Tool] {
    static AGENTS: LazyLock<Vec<Tool>> =
        LazyLock::new(|| SPECS.iter().map(|spec| tool(spec, &[])).collect());
    static OTHERS: LazyLock<Vec<Tool>> = LazyLock::new(|| {
        let target = optional("target", Kind::Text).about("which instance, such as @review:pr-1");
        let theirs = SPECS.iter().filter(|spec| !is_an_agents(spec.name));
        theirs.map(|spec| tool(spec, &[target])).collect()
    });
    match who {
        Principal::Agent(_) => &AGENTS,
        Principal::User | Principal::Client(_) => &OTHERS,
        Principal::Nobody => &[],
    }
}

/// The listed names most like `word`.
pub(super) fn near(word: &str, listed: &[Tool]) -> Vec<String> {
    let mut near: Vec<_> = listed
        .iter()
        .map(|tool| (strsim::jaro_winkler(word, &tool.name), &tool.name))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .collect();
    near.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    near.into_iter().take(3).map(|(_, name)| format!("`{name}`")).collect()
}

fn tool(spec: &Spec, more: &[Field]) -> Tool {
    let key = optional("idempotency_key", Kind::Text);
    let mut takes = [spec.takes, more].concat();
    if spec.effect != Effect::Reads {
        takes.push(key);
    }
    Tool::new(spec.name.word(), spec.about, schema::takes(&takes))
        .with_raw_output_schema(schema::gives(spec.gives).into())
        .with_annotations(annotations(spec.effect))
}

/// Codex calls a tool unasked only if it reads, or says that it neither destroys nor reaches outside.
fn annotations(effect: Effect) -> ToolAnnotations {
    let mut hints = ToolAnnotations::new();
    match effect {
        Effect::Reads => hints.read_only_hint = Some(true),
        Effect::Writes | Effect::WritesOnce => {
            hints.destructive_hint = Some(false);
            hints.open_world_hint = Some(false);
        }
    }
    hints.idempotent_hint = (effect == Effect::WritesOnce).then_some(true);
    hints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_is_told_of_once_and_in_the_order_of_their_names() {
        let told: Vec<_> = SPECS.iter().map(|spec| spec.name).collect();
        assert_eq!(told, ToolName::ALL);
    }
}
