//! `agent-worker feedback`: records and lists the feedback of people and agents on the program.

use agent_worker_protocol::api::{FeedbackRequest, FeedbackView};

use crate::{
    error::CliError,
    input::{
        argument_values,
        context::{CommandContext, Format, OutputArgs},
    },
    output::{
        clock,
        styled_line::{StyledLine, Tone},
        text::{format_age, one_line, sanitize_for_display},
        verdict::RunVerdict,
    },
};

/// Record feedback on this program, or list it
///
/// Feedback is stored on this machine and sent nowhere. Agents can record feedback too.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  agent-worker feedback \"peek should show who has read what\"
  agent-worker feedback list"
)]
pub(crate) struct Args {
    /// Text; `-` reads stdin [default: stdin]
    text: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(subcommand)]
    command: Option<FeedbackCommand>,
}

#[derive(Debug, clap::Subcommand)]
enum FeedbackCommand {
    /// List feedback, newest first
    #[command(visible_alias = "ls", after_help = "Example: agent-worker feedback list --json")]
    List {
        #[command(flatten)]
        output: OutputArgs,
    },
}

impl Args {
    /// Returns the output format.
    pub(crate) fn format(&self) -> Format {
        match &self.command {
            Some(FeedbackCommand::List { output }) => output.format(),
            None => self.output.format(),
        }
    }
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let format = args.format();
    match args.command {
        Some(FeedbackCommand::List { .. }) => {
            let entry = match ctx.connect_if_history().await? {
                Some(client) => client.feedback_list().await?,
                None => Vec::new(),
            };
            match format {
                Format::Json => ctx.console.print_json_list(&entry),
                Format::Text if entry.is_empty() => ctx.console.note("no feedback yet"),
                Format::Text => entry.iter().try_for_each(|one| show(one, ctx)),
            }
        }
        None => {
            let request =
                FeedbackRequest { message: argument_values::read_text_or_stdin(args.text)? };
            let entry = ctx.connect_or_start().await?.feedback_create(&request).await?;
            match format {
                Format::Json => ctx.console.print_json(&entry),
                Format::Text => ctx.console.note(
                    "saved on this machine and not sent anywhere; `agent-worker feedback list` shows it",
                ),
            }
        }
    }?;
    Ok(RunVerdict::Done)
}

fn show(entry: &FeedbackView, ctx: &mut CommandContext<'_>) -> Result<(), CliError> {
    let since = format!("{:>4} ago ", format_age(clock::now().since(entry.ts)));
    let place = entry.instance.as_ref().map(|instance| format!("@{instance}")).unwrap_or_default();
    let who = format!("{}{place}", one_line(&entry.by));
    let text = sanitize_for_display(entry.message.trim_end());
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    let head = StyledLine::new(Tone::Dim, since).with(Tone::Strong, who);
    ctx.console.print_line(&head.with(Tone::Plain, format!(": {first}")))?;
    lines.try_for_each(|line| ctx.console.print_line(&StyledLine::plain(format!("  {line}"))))
}
