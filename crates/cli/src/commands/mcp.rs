//! `agent-worker mcp`: the daemon's MCP over stdin and stdout, and its registration with programs.

mod install;

use agent_worker_protocol::Target;

use crate::{
    client::{
        bridge::{self, BridgeConfig},
        client_token::ClientToken,
    },
    commands::context,
    error::CliError,
    input::{
        context::{CommandContext, Format, OutputArgs},
        grant::Grant,
    },
    output::verdict::RunVerdict,
};

/// Serve MCP over stdin and stdout
///
/// For a program that starts this command. The server acts for the process that started it: the user, or in an agent's
/// shell that agent. It starts a daemon if none is running, and survives a restart of the daemon.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  agent-worker mcp install claude
  agent-worker mcp"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<McpCommand>,
    /// Refuse to start outside this agent's shell
    #[arg(long, value_name = "AGENT", conflicts_with = "client")]
    agent: Option<Target>,
    /// Act as this program, with a token of its own that is created on first use
    #[arg(long, value_name = "NAME", value_parser = parse_program_name)]
    client: Option<String>,
}

#[derive(Debug, clap::Subcommand)]
enum McpCommand {
    /// Register the daemon with a program that speaks MCP
    ///
    /// Registers it for all of your projects and writes nothing into a project. The program gets a token of its
    /// own, which only you can read. The token allows read, send and documents in every instance unless you set other
    /// scopes; a later install with other scopes creates a new token.
    #[command(after_help = "\
Examples:
  agent-worker mcp install claude
  agent-worker mcp install codex --allow read --instance '@review:*'
  agent-worker mcp install cursor --print")]
    Install {
        /// Program to register with
        program: install::McpClientProgram,
        /// Print the steps without performing them
        #[arg(long)]
        print: bool,
        #[command(flatten)]
        grant: Grant,
        #[command(flatten)]
        output: OutputArgs,
    },
}

impl Args {
    /// Returns the output format.
    pub(crate) fn format(&self) -> Format {
        match &self.command {
            Some(McpCommand::Install { output, .. }) => output.format(),
            None => Format::Text,
        }
    }
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let format = args.format();
    match args.command {
        Some(McpCommand::Install { program, print: true, .. }) => {
            install::print_step(program, format, ctx)
        }
        Some(McpCommand::Install { program, grant, .. }) => {
            install::install(program, &grant, format, ctx).await
        }
        None => serve(args.agent, args.client, ctx).await,
    }?;
    Ok(RunVerdict::Done)
}

async fn serve(
    agent: Option<Target>,
    client: Option<String>,
    ctx: &mut CommandContext<'_>,
) -> Result<(), CliError> {
    if let Some(agent) = agent {
        context::require_agent(&agent, ctx).await?;
    }
    // In an agent's shell a person's token is ignored: the bridge acts as the agent in any case.
    let client = client.filter(|_| !ctx.settings.is_inside_attempt());
    let token = match client {
        Some(program) => Some(
            ClientToken::for_program(&program, ctx.settings).get_or_create(ctx.settings).await?,
        ),
        None => None,
    };
    bridge::run(BridgeConfig { settings: ctx.settings.clone(), token }, ctx.console).await
}

/// Parses a name that is valid for a file and a token.
fn parse_program_name(text: &str) -> Result<String, String> {
    let fine = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if (1..=32).contains(&text.len()) && text.chars().all(fine) {
        return Ok(text.to_owned());
    }
    Err("a program's name is up to 32 letters, digits, `-` and `_`".to_owned())
}
