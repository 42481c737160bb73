//! `agent-worker token`: manages named secrets for clients other than this user on this machine.

use agent_worker_protocol::{Code, api::TokenView};
use serde_json::json;

use crate::{
    error::CliError,
    input::{
        context::{CommandContext, Format, OutputArgs},
        grant::{self, Grant},
    },
    output::{
        clock, state_text,
        styled_line::StyledLine,
        table::Column::{Figure, Name, Text},
        text::one_line,
        verdict::RunVerdict,
    },
};

/// Manage the tokens of other clients
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker token create ci > ci.token")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Debug, clap::Subcommand)]
enum TokenCommand {
    /// Create a token and print it once
    ///
    /// The token allows read, send and documents in every instance unless you set other scopes. A client with `run` or
    /// `agents` can execute commands as you; a client with `approve` votes and answers for you.
    #[command(
        after_help = "Example: agent-worker token create ci --allow read,send,run --instance '@review:*'"
    )]
    Create {
        /// Name of the token
        name: String,
        #[command(flatten)]
        grant: Grant,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// List tokens and their scopes
    #[command(visible_alias = "ls", after_help = "Example: agent-worker token list")]
    List {
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Revoke a token
    #[command(after_help = "Example: agent-worker token revoke ci")]
    Revoke {
        /// Name of the token
        name: String,
        #[command(flatten)]
        output: OutputArgs,
    },
}

impl Args {
    /// Returns the output format.
    pub(crate) fn format(&self) -> Format {
        match &self.command {
            TokenCommand::Create { output, .. }
            | TokenCommand::List { output }
            | TokenCommand::Revoke { output, .. } => output.format(),
        }
    }
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let format = args.format();
    match args.command {
        TokenCommand::Create { name, grant, .. } => {
            let created =
                ctx.connect_or_start().await?.token_create(grant.request(&name)).await.map_err(
                    |error| {
                        CliError::from(error).with_hint_for(Code::Conflict, || {
                    format!(
                        "choose another name, or revoke that token: agent-worker token revoke {name}"
                    )
                })
                    },
                )?;
            match format {
                Format::Json => ctx.console.print_json(&created),
                Format::Text => ctx.console.print_line(&StyledLine::plain(created.token)),
            }
        }
        TokenCommand::List { .. } => {
            let tokens = match ctx.connect_if_history().await? {
                Some(client) => client.tokens().await?,
                None => Vec::new(),
            };
            let row = |token: &TokenView| {
                let TokenView { name, created, scopes } = token;
                let place = grant::instances_text(scopes);
                [
                    one_line(name),
                    grant::permissions_text(scopes),
                    one_line(&place),
                    state_text::time_ago(*created, clock::now()),
                ]
            };
            let rows: Vec<_> = tokens.iter().map(row).collect();
            match format {
                Format::Json => ctx.console.print_json_list(&tokens),
                Format::Text if rows.is_empty() => ctx.console.note("there are no tokens"),
                Format::Text => {
                    let head = [Name("NAME"), Text("ALLOWS"), Text("WHERE"), Figure("CREATED")];
                    ctx.console.print_table(head, &rows)
                }
            }
        }
        TokenCommand::Revoke { name, .. } => {
            let client = ctx.connect_existing().await?;
            client.token_revoke(&name).await.map_err(|error| {
                let list = || "`agent-worker token list` lists the tokens".to_owned();
                CliError::from(error).with_hint_for(Code::NotFound, list)
            })?;
            match format {
                Format::Json => ctx.console.print_json(&json!({ "revoked": name })),
                Format::Text => ctx.console.note(&format!("revoked {name}")),
            }
        }
    }?;
    Ok(RunVerdict::Done)
}
