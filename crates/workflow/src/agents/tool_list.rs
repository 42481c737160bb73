//! The tools that an agent is offered, with their effects and permissions. Pure.
//!
//! The permission of a tool is that of all its calls. Where the rules decide by the arguments, it says so.

use agent_worker_backends::{
    BUILTIN_TOOLS, BuiltinEffect, BuiltinToolSpec, builtin_tool, names_same_tool,
    request_tool_names,
};
use agent_worker_protocol::{
    AgentSettings, ArgumentPattern, Backend, Keyword as _, MockTool, PermissionAction,
    PermissionMode, Permissions, ToolName, ToolPattern,
};
use serde::Serialize;
use serde_json::Value;

/// A tool of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AgentTool {
    /// Name in the workflow file and in events.
    pub name: String,
    /// Name in requests to the model, if it differs.
    pub api_name: Option<String>,
    /// Origin of the tool.
    pub source: ToolSource,
    /// Effect of a call.
    pub effect: AgentToolEffect,
    /// Size of the schema in JSON; none for a tool of the team, whose schema the daemon has.
    pub schema_bytes: Option<usize>,
    /// Permission of its calls.
    pub permission: ToolPermission,
}

/// Origin of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolSource {
    /// The daemon carries the tool out.
    Team,
    /// The worker carries the tool out.
    #[serde(rename = "built-in")]
    BuiltIn,
    /// The workflow file has its results.
    Mock,
}

/// Effect of a tool: calls that read may run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentToolEffect {
    /// Every call only reads.
    Reads,
    /// A call may change something.
    Changes,
}

/// Permission of the calls of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolPermission {
    /// No call needs an approval.
    Allowed,
    /// Every call needs an approval.
    Ask,
    /// Every call is refused.
    Denied,
    /// The arguments of a call decide.
    ByArguments,
    /// The agent does not get the tool.
    NotOffered,
}

impl ToolSource {
    /// Returns the word for people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Team => "team",
            Self::BuiltIn => "built-in",
            Self::Mock => "mock",
        }
    }
}

impl AgentToolEffect {
    /// Returns the word for people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Reads => "reads",
            Self::Changes => "changes",
        }
    }
}

impl ToolPermission {
    /// Returns the words for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Ask => "ask",
            Self::Denied => "denied",
            Self::ByArguments => "by arguments",
            Self::NotOffered => "not offered",
        }
    }
}

/// Returns the tools of an agent: those of the team, the built-in ones for an agent with direct access to a model, and its mock
/// tools.
pub fn agent_tools(agent: &AgentSettings) -> Vec<AgentTool> {
    let offered = ToolName::ALL.iter().filter(|tool| tool.is_for_agents());
    let mut tools: Vec<_> = offered.map(|tool| team_tool(*tool)).collect();
    if let Backend::Api(api) = &agent.backend {
        let is_mocked =
            |row: &&BuiltinToolSpec| agent.mock_tools.iter().any(|it| it.name == row.name);
        let rows = BUILTIN_TOOLS.iter().filter(|row| !is_mocked(row));
        tools.extend(rows.map(|row| builtin_tool_view(row, &agent.permissions, &api.tools)));
    }
    tools.extend(agent.mock_tools.iter().map(|tool| mock_tool_view(tool, agent)));
    if matches!(agent.backend, Backend::Api(_)) {
        let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
        let names = request_tool_names(&names);
        for (tool, name) in std::iter::zip(&mut tools, names) {
            tool.api_name = (name != tool.name).then_some(name);
        }
    }
    tools
}

fn team_tool(tool: ToolName) -> AgentTool {
    // The worker runs these calls alone and in order, too.
    let is_ordered =
        [ToolName::InboxCheck, ToolName::InboxAck, ToolName::FeedbackSubmit].contains(&tool);
    AgentTool {
        name: tool.word().to_owned(),
        api_name: None,
        source: ToolSource::Team,
        effect: if tool.writes() || is_ordered {
            AgentToolEffect::Changes
        } else {
            AgentToolEffect::Reads
        },
        schema_bytes: None,
        permission: ToolPermission::Allowed,
    }
}

fn builtin_tool_view(row: &BuiltinToolSpec, rules: &Permissions, offered: &[String]) -> AgentTool {
    let permission = match rule_for_all_calls(row, rules) {
        ToolPermission::Denied => ToolPermission::Denied,
        permission if offered.iter().any(|name| name == row.name) => permission,
        _ => ToolPermission::NotOffered,
    };
    let schema: Value = serde_json::from_str(row.schema).unwrap_or_default();
    AgentTool {
        name: row.name.to_owned(),
        api_name: None,
        source: ToolSource::BuiltIn,
        effect: effect_of(row.effect),
        schema_bytes: Some(schema.to_string().len()),
        permission,
    }
}

fn mock_tool_view(tool: &MockTool, agent: &AgentSettings) -> AgentTool {
    let replaced = builtin_tool(&tool.name);
    let permission = match (replaced, &agent.backend) {
        (Some(row), Backend::Api(_)) => rule_for_all_calls(row, &agent.permissions),
        _ => ToolPermission::Allowed,
    };
    AgentTool {
        name: tool.name.clone(),
        api_name: None,
        source: ToolSource::Mock,
        effect: replaced.map_or(AgentToolEffect::Changes, |row| effect_of(row.effect)),
        schema_bytes: Some(tool.argument_schema().to_string().len()),
        permission,
    }
}

fn effect_of(effect: BuiltinEffect) -> AgentToolEffect {
    match effect {
        BuiltinEffect::Reads | BuiltinEffect::Fetches => AgentToolEffect::Reads,
        BuiltinEffect::Edits | BuiltinEffect::Runs | BuiltinEffect::Follows => {
            AgentToolEffect::Changes
        }
    }
}

/// Returns the permission that the rules give to all calls of a tool.
fn rule_for_all_calls(row: &BuiltinToolSpec, rules: &Permissions) -> ToolPermission {
    let about = |patterns: &[ToolPattern]| {
        let own = patterns.iter().filter(|pattern| names_same_tool(pattern.tool(), row.name));
        let (all, some): (Vec<_>, Vec<_>) =
            own.partition(|pattern| *pattern.argument() == ArgumentPattern::Any);
        (!all.is_empty(), !some.is_empty())
    };
    let ((deny, deny_some), (ask, ask_some), (allow, allow_some)) =
        (about(&rules.deny), about(&rules.ask), about(&rules.allow));
    match (rules.mode, row.effect) {
        _ if deny => ToolPermission::Denied,
        _ if ask && !deny_some => ToolPermission::Ask,
        _ if ask_some || deny_some => ToolPermission::ByArguments,
        _ if allow => ToolPermission::Allowed,
        _ if allow_some => ToolPermission::ByArguments,
        (Some(PermissionMode::AcceptEdits), BuiltinEffect::Edits)
        | (Some(PermissionMode::Plan), BuiltinEffect::Reads) => ToolPermission::ByArguments,
        (
            Some(PermissionMode::Plan),
            BuiltinEffect::Edits | BuiltinEffect::Runs | BuiltinEffect::Follows,
        ) => ToolPermission::Denied,
        (_, BuiltinEffect::Follows) => ToolPermission::Allowed,
        (_, effect) => match rules.default {
            None if effect == BuiltinEffect::Reads => ToolPermission::Allowed,
            Some(PermissionAction::Allow) => ToolPermission::Allowed,
            Some(PermissionAction::Deny) => ToolPermission::Denied,
            Some(PermissionAction::Ask) | None => ToolPermission::Ask,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permission(rules: &str, tool: &str) -> &'static str {
        let rules: Permissions = serde_json::from_str(rules).unwrap();
        rule_for_all_calls(builtin_tool(tool).unwrap(), &rules).words()
    }

    #[test]
    fn the_permission_of_all_calls_follows_from_the_rules() {
        for (rules, tool, expected) in [
            (r#"{"default":"allow"}"#, "bash", "allowed"),
            ("{}", "bash", "ask"),
            ("{}", "read_file", "allowed"),
            (r#"{"default":"deny"}"#, "read_file", "denied"),
            (r#"{"default":"deny"}"#, "bash_output", "allowed"),
            (r#"{"default":"allow","deny":["Bash"]}"#, "bash", "denied"),
            (r#"{"default":"allow","deny":["bash(rm*)"]}"#, "bash", "by arguments"),
            (r#"{"ask":["bash"],"deny":["bash(rm*)"]}"#, "bash", "by arguments"),
            (r#"{"ask":["bash"],"allow":["bash"]}"#, "bash", "ask"),
            (r#"{"allow":["bash(ls)"]}"#, "bash", "by arguments"),
            (r#"{"allow":["bash"],"mode":"plan"}"#, "bash", "allowed"),
            (r#"{"default":"allow","mode":"plan"}"#, "bash", "denied"),
            (r#"{"mode":"plan"}"#, "read_file", "by arguments"),
            (r#"{"mode":"plan"}"#, "fetch_url", "ask"),
            (r#"{"mode":"accept_edits"}"#, "write_file", "by arguments"),
            (r#"{"mode":"accept_edits"}"#, "bash", "ask"),
        ] {
            assert_eq!(permission(rules, tool), expected, "{rules} {tool}");
        }
    }
}
