//! The tools that an agent is offered, with their sizes, effects and permissions. Pure.
//!
//! The permission of a tool is that of all its calls. Where the rules decide by the arguments, it says so.

use agent_worker_backends::{
    BUILTIN_TOOLS, BuiltinEffect, BuiltinToolSpec, builtin_tool, names_same_tool,
    request_tool_names,
};
use agent_worker_protocol::{
    AgentSettings, ArgumentPattern, Backend, Keyword as _, MockTool, PermissionAction,
    PermissionMode, Permissions, ToolName, ToolPattern,
    api::{AgentTool, AgentToolEffect, AgentTools, ToolPermission, ToolSource},
    team_tools::{AGENT_TOOL_SPECS, ToolSpec},
};
use serde_json::Value;

use crate::agents::{mock_tools::changed_mock_tools, team_parts::TeamParts};

/// Number of rules that a reason names.
const MAX_NAMED_RULES: usize = 3;

/// The facts of a run that the tools of an agent depend on.
#[derive(Clone, Copy, Debug)]
pub struct ToolFacts<'a> {
    /// Parts of the team that the agent can use.
    pub parts: TeamParts,
    /// Gates that votes have opened.
    pub open_gates: &'a [String],
    /// Calls that a person allowed the agent for the run.
    pub grants: &'a [ToolPattern],
    /// Mock tools of the agent in the workflow file.
    pub file_mock_tools: &'a [MockTool],
}

/// A permission and its reason.
type Reasoned = (ToolPermission, String);

/// Returns the tools of an agent: those of the team, the built-in ones for an agent with direct access to a model, and its mock
/// tools. Belongs to no instance.
pub fn agent_tools(agent: &AgentSettings, facts: &ToolFacts<'_>) -> AgentTools {
    let mut tools = team_tools(agent, facts);
    let mut schema_bytes: u32 = tools.iter().map(|tool| tool.schema_bytes).sum();
    if let Backend::Api(api) = &agent.backend {
        let is_mocked =
            |row: &&BuiltinToolSpec| agent.mock_tools.iter().any(|it| it.name == row.name);
        for row in BUILTIN_TOOLS.iter().filter(|row| !is_mocked(row)) {
            let is_offered = api.tools.iter().any(|name| name == row.name);
            let tool = builtin_tool_view(row, &api.tools, &agent.permissions, facts);
            schema_bytes += if is_offered { tool.schema_bytes } else { 0 };
            tools.push(tool);
        }
    }
    let changed = changed_mock_tools(&agent.mock_tools, facts.file_mock_tools);
    for mock in &agent.mock_tools {
        let tool = mock_tool_view(mock, &changed, agent, facts);
        schema_bytes += tool.schema_bytes;
        tools.push(tool);
    }
    if matches!(agent.backend, Backend::Api(_)) {
        let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
        let names = request_tool_names(&names);
        for (tool, name) in std::iter::zip(&mut tools, names) {
            tool.api_name = (name != tool.name).then_some(name);
        }
    }
    let (agent, backend) = (agent.name.clone(), agent.backend.word().to_owned());
    AgentTools { agent, instance: None, backend, tools, schema_bytes }
}

fn team_tools(agent: &AgentSettings, facts: &ToolFacts<'_>) -> Vec<AgentTool> {
    let offered = AGENT_TOOL_SPECS.iter().filter(|spec| facts.parts.offer(spec.name));
    let view = |spec: &ToolSpec| {
        // The worker runs these calls alone and in order, too.
        let is_ordered = [ToolName::InboxCheck, ToolName::InboxAck, ToolName::FeedbackSubmit]
            .contains(&spec.name);
        let (permission, why) = match agent.requires.get(spec.name.word()) {
            None => (ToolPermission::Allowed, "a tool of the team needs no approval".to_owned()),
            Some(gate) if facts.open_gates.contains(gate) => {
                (ToolPermission::Allowed, format!("the gate `{gate}` is open"))
            }
            Some(gate) => (ToolPermission::Denied, format!("until a vote opens the gate `{gate}`")),
        };
        AgentTool {
            name: spec.name.word().to_owned(),
            api_name: None,
            source: ToolSource::Team,
            changed: false,
            effect: if spec.name.writes() || is_ordered {
                AgentToolEffect::Changes
            } else {
                AgentToolEffect::Reads
            },
            schema_bytes: json_bytes(&Value::Object(spec.input_schema(&[]))),
            permission,
            why,
        }
    };
    offered.map(view).collect()
}

fn builtin_tool_view(
    row: &BuiltinToolSpec,
    offered: &[String],
    rules: &Permissions,
    facts: &ToolFacts<'_>,
) -> AgentTool {
    let is_offered = offered.iter().any(|name| name == row.name);
    let (permission, why) = match rule_for_all_calls(row, rules) {
        (permission, why) if is_offered || permission == ToolPermission::Denied => {
            with_grants(row, (permission, why), facts.grants)
        }
        _ => (ToolPermission::NotOffered, "`tools` does not select it".to_owned()),
    };
    let schema: Value = serde_json::from_str(row.schema).unwrap_or_default();
    AgentTool {
        name: row.name.to_owned(),
        api_name: None,
        source: ToolSource::BuiltIn,
        changed: false,
        effect: effect_of(row.effect),
        schema_bytes: json_bytes(&schema),
        permission,
        why,
    }
}

fn mock_tool_view(
    tool: &MockTool,
    changed: &[&str],
    agent: &AgentSettings,
    facts: &ToolFacts<'_>,
) -> AgentTool {
    let replaced = builtin_tool(&tool.name);
    let (permission, why) = match (replaced, &agent.backend) {
        (Some(row), Backend::Api(_)) => {
            with_grants(row, rule_for_all_calls(row, &agent.permissions), facts.grants)
        }
        _ => (ToolPermission::Allowed, "a mock tool has no effect".to_owned()),
    };
    AgentTool {
        name: tool.name.clone(),
        api_name: None,
        source: ToolSource::Mock,
        changed: changed.contains(&tool.name.as_str()),
        effect: replaced.map_or(AgentToolEffect::Changes, |row| effect_of(row.effect)),
        schema_bytes: json_bytes(&tool.argument_schema()),
        permission,
        why,
    }
}

fn json_bytes(schema: &Value) -> u32 {
    u32::try_from(schema.to_string().len()).unwrap_or(u32::MAX)
}

fn effect_of(effect: BuiltinEffect) -> AgentToolEffect {
    match effect {
        BuiltinEffect::Reads | BuiltinEffect::Fetches => AgentToolEffect::Reads,
        BuiltinEffect::Edits | BuiltinEffect::Runs | BuiltinEffect::Follows => {
            AgentToolEffect::Changes
        }
    }
}

/// Adds the grants for a tool, which decide only about calls that would ask. A grant never covers every call.
fn with_grants(
    row: &BuiltinToolSpec,
    (permission, why): Reasoned,
    grants: &[ToolPattern],
) -> Reasoned {
    let own = grants.iter().filter(|pattern| names_same_tool(pattern.tool(), row.name));
    let own: Vec<_> = own.collect();
    match permission {
        ToolPermission::Ask | ToolPermission::ByArguments if !own.is_empty() => {
            let why = format!("{why}; granted for the run: {}", pattern_list(&own));
            (ToolPermission::ByArguments, why)
        }
        _ => (permission, why),
    }
}

/// Returns the permission that the rules give to all calls of a tool.
fn rule_for_all_calls(row: &BuiltinToolSpec, rules: &Permissions) -> Reasoned {
    let about = |patterns: &'_ [ToolPattern]| {
        let own = patterns.iter().filter(|pattern| names_same_tool(pattern.tool(), row.name));
        let own: Vec<_> = own.cloned().collect();
        own.into_iter().partition(|pattern| *pattern.argument() == ArgumentPattern::Any)
    };
    let (deny, deny_some): (Vec<_>, Vec<_>) = about(&rules.deny);
    let (ask, ask_some): (Vec<_>, Vec<_>) = about(&rules.ask);
    let (allow, allow_some): (Vec<_>, Vec<_>) = about(&rules.allow);
    let because = |named: &[(&str, &[ToolPattern])]| {
        let named = named.iter().filter(|(_, patterns)| !patterns.is_empty());
        let texts = named.map(|(key, patterns)| {
            format!("`{key}` has {}", pattern_list(&patterns.iter().collect::<Vec<_>>()))
        });
        texts.collect::<Vec<_>>().join(", ")
    };
    if !deny.is_empty() {
        (ToolPermission::Denied, because(&[("deny", &deny)]))
    } else if !ask.is_empty() && deny_some.is_empty() {
        (ToolPermission::Ask, because(&[("ask", &ask)]))
    } else if !ask_some.is_empty() || !deny_some.is_empty() {
        let ask = [ask, ask_some].concat();
        (ToolPermission::ByArguments, because(&[("deny", &deny_some), ("ask", &ask)]))
    } else if !allow.is_empty() {
        (ToolPermission::Allowed, because(&[("allow", &allow)]))
    } else if !allow_some.is_empty() {
        (ToolPermission::ByArguments, because(&[("allow", &allow_some)]))
    } else {
        unnamed_tool(row, rules)
    }
}

/// Returns the permission of a tool that no pattern names.
fn unnamed_tool(row: &BuiltinToolSpec, rules: &Permissions) -> Reasoned {
    let mode = |word: &str| format!("`mode` is `{word}`");
    match (rules.mode, row.effect) {
        (Some(PermissionMode::AcceptEdits), BuiltinEffect::Edits) => {
            (ToolPermission::ByArguments, mode("accept_edits"))
        }
        (Some(PermissionMode::Plan), BuiltinEffect::Reads) => {
            (ToolPermission::ByArguments, mode("plan"))
        }
        (
            Some(PermissionMode::Plan),
            BuiltinEffect::Edits | BuiltinEffect::Runs | BuiltinEffect::Follows,
        ) => (ToolPermission::Denied, mode("plan")),
        (_, BuiltinEffect::Follows) => {
            (ToolPermission::Allowed, "it acts on a command that already runs".to_owned())
        }
        (_, effect) => match rules.default {
            None if effect == BuiltinEffect::Reads => {
                (ToolPermission::Allowed, "it only reads, and no rule names it".to_owned())
            }
            Some(PermissionAction::Allow) => {
                (ToolPermission::Allowed, "`default` is `allow`".to_owned())
            }
            Some(PermissionAction::Deny) => {
                (ToolPermission::Denied, "`default` is `deny`".to_owned())
            }
            Some(PermissionAction::Ask) => (ToolPermission::Ask, "`default` is `ask`".to_owned()),
            None => (ToolPermission::Ask, "no rule names it".to_owned()),
        },
    }
}

/// Writes patterns for a reason.
fn pattern_list(patterns: &[&ToolPattern]) -> String {
    let named = patterns.iter().take(MAX_NAMED_RULES).map(|pattern| format!("`{pattern}`"));
    let mut text = named.collect::<Vec<_>>().join(", ");
    if patterns.len() > MAX_NAMED_RULES {
        text.push_str(", …");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permission(rules: &str, tool: &str) -> (&'static str, String) {
        let rules: Permissions = serde_json::from_str(rules).unwrap();
        let (permission, why) = rule_for_all_calls(builtin_tool(tool).unwrap(), &rules);
        (permission.words(), why)
    }

    #[test]
    fn a_grant_decides_only_about_calls_that_would_ask() {
        let bash = builtin_tool("bash").unwrap();
        let grants: Vec<ToolPattern> = vec!["Bash(ls*)".parse().unwrap()];
        for (permission, expected) in [
            (ToolPermission::Ask, ToolPermission::ByArguments),
            (ToolPermission::ByArguments, ToolPermission::ByArguments),
            (ToolPermission::Denied, ToolPermission::Denied),
            (ToolPermission::Allowed, ToolPermission::Allowed),
        ] {
            let (found, why) = with_grants(bash, (permission, "rule".to_owned()), &grants);
            assert_eq!(found, expected);
            let is_named = why == "rule; granted for the run: `Bash(ls*)`";
            assert_eq!(is_named, found == ToolPermission::ByArguments, "{why}");
        }
        let read = builtin_tool("read_file").unwrap();
        let other = with_grants(read, (ToolPermission::Ask, String::new()), &grants);
        assert_eq!(other.0, ToolPermission::Ask);
    }

    #[test]
    fn the_permission_of_all_calls_follows_from_the_rules() {
        for (rules, tool, expected, why) in [
            (r#"{"default":"allow"}"#, "bash", "allowed", "`default` is `allow`"),
            ("{}", "bash", "ask", "no rule names it"),
            ("{}", "read_file", "allowed", "it only reads, and no rule names it"),
            (r#"{"default":"deny"}"#, "read_file", "denied", "`default` is `deny`"),
            (
                r#"{"default":"deny"}"#,
                "bash_output",
                "allowed",
                "it acts on a command that already runs",
            ),
            (r#"{"default":"allow","deny":["Bash"]}"#, "bash", "denied", "`deny` has `Bash`"),
            (
                r#"{"default":"allow","deny":["bash(rm*)"]}"#,
                "bash",
                "by arguments",
                "`deny` has `bash(rm*)`",
            ),
            (
                r#"{"ask":["bash"],"deny":["bash(rm*)"]}"#,
                "bash",
                "by arguments",
                "`deny` has `bash(rm*)`, `ask` has `bash`",
            ),
            (r#"{"ask":["bash"],"allow":["bash"]}"#, "bash", "ask", "`ask` has `bash`"),
            (r#"{"allow":["bash(ls)"]}"#, "bash", "by arguments", "`allow` has `bash(ls)`"),
            (r#"{"allow":["bash"],"mode":"plan"}"#, "bash", "allowed", "`allow` has `bash`"),
            (r#"{"default":"allow","mode":"plan"}"#, "bash", "denied", "`mode` is `plan`"),
            (r#"{"mode":"plan"}"#, "read_file", "by arguments", "`mode` is `plan`"),
            (r#"{"mode":"plan"}"#, "fetch_url", "ask", "no rule names it"),
            (
                r#"{"mode":"accept_edits"}"#,
                "write_file",
                "by arguments",
                "`mode` is `accept_edits`",
            ),
            (r#"{"mode":"accept_edits"}"#, "bash", "ask", "no rule names it"),
        ] {
            assert_eq!(permission(rules, tool), (expected, why.to_owned()), "{rules} {tool}");
        }
    }
}
