//! `agent-worker tool mock`: gives a tool of a live agent a result, in place of its effect.

use agent_worker_backends::find_builtin_tool;
use agent_worker_protocol::{
    MockTool, MockToolResult, Target,
    api::{AgentMocks, MockRequest},
};
use serde_json::Value;
use uuid::Uuid;

use crate::{
    client::daemon_client::ScopeReach,
    error::{CliError, CliErrorKind},
    input::{
        argument_values::read_text,
        context::{CommandContext, Format, OutputArgs},
        target_args::{TargetEffect, parse_bare_target, same_target},
    },
    output::{
        styled_line::{StyledLine, Tone},
        verdict::RunVerdict,
    },
};

const FULL_EXAMPLE: &str = "agent-worker tool mock agent@workflow:tag TOOL RESULT";

/// Give a tool of a live agent a result, in place of its effect
///
/// Every call returns RESULT from the agent's next turn on, also after a restart of the daemon. A turn that is running keeps its tools. The
/// agent has the backend `api` or `mock`. A new run of the file has the mock tools of the file again.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "agent-worker tool mock [OPTIONS] [TARGET] <TOOL> [RESULT]",
    after_help = "\
Examples:
  agent-worker tool mock coder@review bash \"[exit code 0]\"
  agent-worker tool mock coder@review deploy \"production is closed\" --error
  agent-worker tool mock coder@review ticket '{\"id\": 7}' --description \"Creates a ticket.\"
  agent-worker tool mock coder@review bash --clear"
)]
pub(crate) struct Args {
    /// Agent, name of the tool as in `tool list`, and result: a text; `-` reads it from stdin
    // Shown as `<TARGET> <TOOL> <RESULT>`.
    #[arg(required = true, num_args = 1..=3, value_name = "TARGET> <TOOL> <RESULT")]
    words: Vec<String>,
    /// Same as TARGET
    #[arg(long = "target", visible_alias = "to", short = 't', value_name = "TARGET")]
    target_option: Option<Target>,
    /// Let every call fail with RESULT as the reason
    #[arg(long)]
    error: bool,
    /// Undo the changes of the tool: it is as in the workflow file again
    #[arg(long, conflicts_with_all = ["error", "description"])]
    clear: bool,
    /// Description of a new tool, or another one of a mock tool
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// The action of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MockAction {
    Set,
    Clear,
}

/// The words of the command line.
#[derive(Debug, PartialEq, Eq)]
struct MockWords {
    target: Option<Target>,
    tool: String,
    result: Option<String>,
}

/// Runs the command.
pub(super) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let action = if args.clear { MockAction::Clear } else { MockAction::Set };
    let MockWords { target, tool, result } = split_words(&args.words, action)?;
    let request = match result {
        None => MockRequest { clear: vec![tool.clone()], ..MockRequest::default() },
        Some(result) => {
            let text = read_text(result)?;
            let result = if args.error {
                MockToolResult { error: Some(text), ..MockToolResult::default() }
            } else {
                MockToolResult { result: Some(Value::String(text)), ..MockToolResult::default() }
            };
            let description = args.description.unwrap_or_default();
            let name = tool.clone();
            let mock = MockTool { name, description, schema: None, results: vec![result] };
            MockRequest { tools: vec![mock], ..MockRequest::default() }
        }
    };
    let target = match same_target(target, args.target_option)? {
        Some(target) => Some(target),
        None => ctx.selected_target(TargetEffect::Change)?,
    };
    let Some(target) = target.filter(|target| target.agent.is_some()) else {
        return Err(CliError::new(CliErrorKind::Usage, "`tool mock` needs the name of an agent")
            .with_hint(format!("name one: {FULL_EXAMPLE}")));
    };
    let client = ctx.connect_existing().await?;
    let scope = ctx.scope(None, ScopeReach::CurrentProject);
    let key = Uuid::now_v7().to_string();
    let mocks = client.agent_mock(&key, &target, &request, &scope).await?;
    match args.output.format() {
        Format::Json => ctx.console.print_json(&mocks)?,
        Format::Text => ctx.console.print_line(&changed_line(&mocks, &tool, action))?,
    }
    Ok(RunVerdict::Done)
}

/// Separates the words: the target is the optional one, and `--clear` needs no result.
fn split_words(words: &[String], action: MockAction) -> Result<MockWords, CliError> {
    let usage = |why: String, hint: String| CliError::new(CliErrorKind::Usage, why).with_hint(hint);
    let parse = |word: &String| {
        let target = word.parse::<Target>();
        target.map_err(|bad| usage(bad.to_string(), format!("name one: {FULL_EXAMPLE}")))
    };
    let (target, tool, result) = match (words, action) {
        ([tool], MockAction::Clear) => (None, tool, None),
        ([target, tool], MockAction::Clear) => (Some(parse(target)?), tool, None),
        ([_, tool, _], MockAction::Clear) => {
            let why = format!("`--clear` undoes the changes of `{tool}` and takes no result");
            return Err(usage(why, "leave out the result, or `--clear`".to_owned()));
        }
        ([tool, result], MockAction::Set) if parse_bare_target(tool).is_none() => {
            (None, tool, Some(result))
        }
        ([target, tool, result], MockAction::Set) => (Some(parse(target)?), tool, Some(result)),
        _ => {
            let tool = words.last().map_or("TOOL", String::as_str);
            let hint = format!("add it: {FULL_EXAMPLE}; to undo a change, use --clear");
            return Err(usage(format!("the result of `{tool}` is missing"), hint));
        }
    };
    if parse_bare_target(tool).is_some() {
        let hint = format!("add it: {FULL_EXAMPLE}");
        return Err(usage(
            format!("`{tool}` is a target, and the name of a tool is missing"),
            hint,
        ));
    }
    Ok(MockWords { target, tool: tool.clone(), result: result.cloned() })
}

fn changed_line(mocks: &AgentMocks, tool: &str, action: MockAction) -> StyledLine {
    let name = find_builtin_tool(tool).map_or(tool, |row| row.name);
    let who = Target::agent(mocks.agent.clone(), &mocks.instance);
    let found = mocks.tools.iter().find(|mock| mock.name == name);
    let fails = found.is_some_and(|mock| mock.results.iter().any(|one| one.error.is_some()));
    let (done, then) = match (action, found) {
        (MockAction::Clear, Some(_)) => ("cleared", "it has the results of the workflow file"),
        (MockAction::Clear, None) if find_builtin_tool(name).is_some() => {
            ("cleared", "it is no mock tool")
        }
        (MockAction::Clear, None) => ("cleared", "the agent does not have it"),
        (MockAction::Set, _) if fails => ("mocked", "every call fails with this reason"),
        (MockAction::Set, _) => ("mocked", "every call returns this result"),
    };
    StyledLine::new(Tone::Strong, format!("{done} `{name}` of {who}"))
        .with(Tone::Plain, format!(": {then} from its next turn on"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_is_optional_and_only_a_change_has_a_result() {
        for (words, action, expected) in [
            ("a@t bash ok", MockAction::Set, Ok((Some("a@t"), "bash", Some("ok")))),
            ("a bash ok", MockAction::Set, Ok((Some("a"), "bash", Some("ok")))),
            ("bash ok", MockAction::Set, Ok((None, "bash", Some("ok")))),
            ("a@t bash", MockAction::Clear, Ok((Some("a@t"), "bash", None))),
            ("bash", MockAction::Clear, Ok((None, "bash", None))),
            ("a@t bash", MockAction::Set, Err("the result of `bash` is missing")),
            ("bash", MockAction::Set, Err("the result of `bash` is missing")),
            ("a@t", MockAction::Clear, Err("`a@t` is a target, and the name of a tool is missing")),
            (
                "a@t bash ok",
                MockAction::Clear,
                Err("`--clear` undoes the changes of `bash` and takes no result"),
            ),
        ] {
            let typed: Vec<_> = words.split(' ').map(str::to_owned).collect();
            let found = split_words(&typed, action);
            let found = found.map_err(|error| error.to_report_error().message);
            let expected =
                expected.map_err(str::to_owned).map(|(target, tool, result)| MockWords {
                    target: target.map(|target: &str| target.parse().unwrap()),
                    tool: tool.to_owned(),
                    result: result.map(str::to_owned),
                });
            assert_eq!(found, expected, "{words}");
        }
    }
}
