//! `agent-worker mock`: changes the script of a mock agent in a live run.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use agent_worker_protocol::{
    MockCall, MockRule, Target,
    api::{AgentMocks, MockRequest},
};
use agent_worker_workflow::parse_live_mock_script;
use serde_json::Value;
use uuid::Uuid;

use crate::{
    client::daemon_client::ScopeReach,
    error::{CliError, CliErrorKind},
    input::{
        context::{CommandContext, Format, OutputArgs},
        target_args::{TargetArgs, TargetEffect},
    },
    output::{
        styled_line::{StyledLine, Tone},
        verdict::RunVerdict,
    },
};

const NO_AGENT_HINT: &str = "name one: agent-worker mock agent@workflow:tag say \"Hello.\"";

/// Change the script of a mock agent in a live run
///
/// The new script replaces the whole old one from the agent's next turn on, also after a restart of the daemon. A new run of
/// the file has the script of the file again.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  agent-worker mock reviewer@review say \"Looks good.\"
  agent-worker mock reviewer@review call document_append '{\"content\": \"- a line\"}'
  agent-worker mock reviewer@review:pr-123 rules script.yaml")]
pub(crate) struct Args {
    #[command(flatten)]
    target: TargetArgs,
    #[command(subcommand)]
    change: MockChange,
}

#[derive(Debug, clap::Subcommand)]
enum MockChange {
    /// Answer every message with this text
    #[command(after_help = "Example: agent-worker mock reviewer@review say \"Looks good.\"")]
    Say {
        /// Text of the answer
        #[arg(value_name = "TEXT", allow_hyphen_values = true)]
        text: String,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Call this tool for every message
    #[command(
        after_help = "Example: agent-worker mock reviewer@review call channel_send '{\"message\": \"@coder go\"}'"
    )]
    Call {
        /// Name of the tool
        #[arg(value_name = "TOOL")]
        tool: String,
        /// Arguments as a JSON object
        #[arg(value_name = "ARGS", default_value = "{}")]
        args: String,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Use the rules of a file, as in `mock:` of a workflow
    #[command(after_help = "Example: agent-worker mock reviewer@review rules script.yaml")]
    Rules {
        /// File with a list of rules in YAML
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        output: OutputArgs,
    },
}

impl Args {
    /// Returns the format of a failure.
    pub(super) fn format(&self) -> Format {
        match &self.change {
            MockChange::Say { output, .. }
            | MockChange::Call { output, .. }
            | MockChange::Rules { output, .. } => output.format(),
        }
    }
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let format = args.format();
    let rules = args.change.rules(&ctx.settings.cwd)?;
    let target = args.target.or_selected(TargetEffect::Change, ctx)?;
    let Some(target) = target.filter(|target| target.agent.is_some()) else {
        return Err(CliError::new(CliErrorKind::Usage, "`mock` needs the name of an agent")
            .with_hint(NO_AGENT_HINT));
    };
    let client = ctx.connect_existing().await?;
    let scope = ctx.scope(None, ScopeReach::CurrentProject);
    let request = MockRequest { rules: Some(rules), ..MockRequest::default() };
    let key = Uuid::now_v7().to_string();
    let script = client.agent_mock(&key, &target, &request, &scope).await?;
    match format {
        Format::Json => ctx.console.print_json(&script)?,
        Format::Text => ctx.console.print_line(&changed_line(script))?,
    }
    Ok(RunVerdict::Done)
}

fn changed_line(script: AgentMocks) -> StyledLine {
    let AgentMocks { agent, instance, rules, .. } = script;
    let rules = match rules.len() {
        1 => "1 rule".to_owned(),
        count => format!("{count} rules"),
    };
    let who = Target::agent(agent, &instance);
    StyledLine::new(Tone::Strong, format!("changed the script of {who}"))
        .with(Tone::Plain, format!(": {rules} from its next turn on"))
}

impl MockChange {
    /// Returns the rules of the new script.
    fn rules(self, cwd: &Path) -> Result<Vec<MockRule>, CliError> {
        Ok(match self {
            Self::Say { text, .. } => vec![MockRule { say: Some(text), ..MockRule::default() }],
            Self::Call { tool, args, .. } => {
                let call = MockCall { tool, args: parse_args(&args)? };
                vec![MockRule { calls: vec![call], ..MockRule::default() }]
            }
            Self::Rules { file, .. } => {
                let text = fs::read_to_string(cwd.join(&file)).map_err(|error| {
                    let message = format!("cannot read {}", file.display());
                    CliError::with_source(CliErrorKind::Usage, message, error)
                })?;
                parse_live_mock_script(&text, &file)?
            }
        })
    }
}

fn parse_args(text: &str) -> Result<BTreeMap<String, Value>, CliError> {
    serde_json::from_str(text).map_err(|error| {
        CliError::new(CliErrorKind::Usage, format!("the arguments are not a JSON object: {error}"))
            .with_hint("write them as one word: '{\"content\": \"- a line\"}'")
    })
}
