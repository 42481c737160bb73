//! `agent-worker feedback`: what people and agents say about the program itself.

use agent_worker_protocol::api::{FeedbackRequest, FeedbackView};

use crate::{
    clock,
    context::{Context, Format, Output},
    error::CliError,
    given,
    line::{Line, Tone},
    text::{age, harmless, one_line},
    verdict::Verdict,
};

/// Write down what you think of this program, or read what was written down
///
/// It is kept on this machine and sent nowhere. Agents can do the same.
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
    /// What to say; `-` or nothing reads it from stdin
    text: Option<String>,
    #[command(flatten)]
    output: Output,
    #[command(subcommand)]
    ask: Option<Ask>,
}

#[derive(Debug, clap::Subcommand)]
enum Ask {
    /// List what was said, newest first
    #[command(visible_alias = "ls", after_help = "Example: agent-worker feedback list --json")]
    List {
        #[command(flatten)]
        output: Output,
    },
}

impl Args {
    /// How to answer.
    pub(crate) fn format(&self) -> Format {
        match &self.ask {
            Some(Ask::List { output }) => output.format(),
            None => self.output.format(),
        }
    }
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    let format = args.format();
    match args.ask {
        Some(Ask::List { .. }) => {
            let said = match ctx.daemon_if_any().await? {
                Some(client) => client.feedback_list().await?,
                None => Vec::new(),
            };
            match format {
                Format::Json => ctx.console.json(&said),
                Format::Text if said.is_empty() => ctx.console.note("nobody said anything yet"),
                Format::Text => said.iter().try_for_each(|one| show(one, ctx)),
            }
        }
        None => {
            let request = FeedbackRequest { message: given::text_or_stdin(args.text)? };
            let said = ctx.daemon().await?.feedback(&request).await?;
            match format {
                Format::Json => ctx.console.json(&said),
                Format::Text => ctx.console.note(
                    "written down on this machine, and sent nowhere; `agent-worker feedback list` shows it",
                ),
            }
        }
    }?;
    Ok(Verdict::Done)
}

fn show(said: &FeedbackView, ctx: &mut Context<'_>) -> Result<(), CliError> {
    let since = format!("{:>4} ago ", age(clock::now().since(said.ts)));
    let place = said.instance.as_ref().map(|instance| format!("@{instance}")).unwrap_or_default();
    let who = format!("{}{place}", one_line(&said.by));
    let text = harmless(said.message.trim_end());
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    let head = Line::of(Tone::Dim, since).and(Tone::Strong, who);
    ctx.console.answer(&head.and(Tone::Plain, format!(": {first}")))?;
    lines.try_for_each(|line| ctx.console.answer(&Line::plain(format!("  {line}"))))
}
