//! `agent-worker mcp`: the daemon's MCP over stdin and stdout, and how programs are told of it.

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

/// Speak MCP over stdin and stdout, for a program that starts it
///
/// It speaks as whoever starts it: the user, or in an agent's shell that agent. It starts the daemon if there is none,
/// and outlives one that restarts.
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
    /// Refuse to speak as anybody but this agent, whose shell it must be
    #[arg(long, value_name = "AGENT", conflicts_with = "client")]
    agent: Option<Target>,
    /// Speak as this program, with a token of its own, which is made the first time
    #[arg(long, value_name = "NAME", value_parser = parse_program_name)]
    client: Option<String>,
}

#[derive(Debug, clap::Subcommand)]
enum McpCommand {
    /// Add the daemon to a program that speaks MCP
    ///
    /// For all of your projects, and for none in particular: nothing is written into a project. The program gets a token
    /// of its own, which only this user can read. It is good for reading, sending and writing documents, everywhere, unless
    /// told otherwise; asked again with something else, the program gets another token.
    #[command(after_help = "\
Examples:
  agent-worker mcp install claude
  agent-worker mcp install codex --allow read --instance '@review:*'
  agent-worker mcp install cursor --print")]
    Install {
        /// Which program
        program: install::McpClientProgram,
        /// Print what would be done, and do nothing
        #[arg(long)]
        print: bool,
        #[command(flatten)]
        grant: Grant,
        #[command(flatten)]
        output: OutputArgs,
    },
}

impl Args {
    /// How to answer.
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
    // In an agent's shell a person's token is not used: there it speaks as the agent, whatever it was started with.
    let client = client.filter(|_| !ctx.settings.is_inside_attempt());
    let token = match client {
        Some(program) => Some(
            ClientToken::for_program(&program, ctx.settings).get_or_create(ctx.settings).await?,
        ),
        None => None,
    };
    bridge::run(BridgeConfig { settings: ctx.settings.clone(), token }, ctx.console).await
}

/// A name that is a file's and a token's.
fn parse_program_name(text: &str) -> Result<String, String> {
    let fine = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if (1..=32).contains(&text.len()) && text.chars().all(fine) {
        return Ok(text.to_owned());
    }
    Err("a program's name is up to 32 letters, digits, `-` and `_`".to_owned())
}
