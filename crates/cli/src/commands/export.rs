//! `agent-worker export`: prints a whole transcript, page by page.

mod conversation;
mod turns;

use agent_worker_host::{DialError, observe_damage};
use agent_worker_protocol::{AgentName, Code, InstanceRef, Message, MessageKind, Seq, Target};
use serde_json::json;

use crate::{
    client::daemon_client::{CommandScope, DaemonClient, RunSelection, ScopeReach},
    error::{CliError, CliErrorKind},
    input::{
        context::{CommandContext, Format},
        resolve_run,
        target_args::{TargetArgs, TargetEffect},
    },
    live::view::{attachment_text, reply_suffix},
    output::{
        styled_line::StyledLine,
        text::{one_line, sanitize_for_display},
        verdict::RunVerdict,
    },
};

/// Maximum number of messages held at once.
const PAGE_SIZE: u32 = 500;

/// Print the transcript of a run
///
/// The command prints the live run, else the last one. Markdown includes the documents; JSON is one document with one message per
/// line. Long messages are printed in full, attached files only by name; `resource read` prints a file.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  agent-worker export @review:pr-123 --format md > review.md
  agent-worker export @review --conversation coder > coder.jsonl")]
pub(crate) struct Args {
    #[command(flatten)]
    target: TargetArgs,
    /// Output format
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = ExportFormat::Json)]
    format: ExportFormat,
    /// Same as `--format json`, with failures as JSON too
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Include earlier runs
    #[arg(long)]
    all: bool,
    /// Include the history of every turn: prompts, words, tool calls and results
    #[arg(long)]
    full: bool,
    /// Print the stored conversation of this agent with its model instead, one JSON object per line
    #[arg(long, value_name = "AGENT", conflicts_with_all = ["format", "all", "full"])]
    conversation: Option<AgentName>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ExportFormat {
    /// One JSON document, for programs
    Json,
    /// Markdown, for people
    Md,
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let Some(client) = ctx.connect_if_history().await? else {
        return Err(CommandContext::no_history_error());
    };
    let target = args.target.clone().or_selected(TargetEffect::Read, ctx)?;
    let scope = ctx.scope(target, ScopeReach::CurrentProject);
    // With --json stderr has no note; without it the format of the transcript does not matter.
    let noted = if args.json { Format::Json } else { Format::Text };
    let scope = resolve_run::readable_scope(&client, &scope, noted, ctx).await?;
    if let Some(agent) = args.conversation {
        return conversation::write_conversation(&client, &scope, agent, ctx).await;
    }
    let runs = if args.all { RunSelection::All } else { RunSelection::Current };
    let mut paper = TranscriptExport {
        export_format: args.format,
        extent: args.extent(),
        has_output: false,
        damaged: Vec::new(),
    };
    let (exported, left_out) =
        observe_damage(paper.write_transcript(&client, &scope, runs, ctx)).await;
    let damaged = left_out.into_iter().chain(paper.damaged);
    let damaged: Vec<String> =
        damaged.map(|row| one_line(&format!("not exported: {row}"))).collect();
    damaged.iter().try_for_each(|row| ctx.console.warn(row))?;
    match exported {
        // A second document cannot follow an incomplete one.
        Err(error) if paper.has_output && error.kind() != CliErrorKind::OutputClosed => {
            ctx.console.eprint_error(&error)?;
            Ok(error.verdict())
        }
        Err(error) => Err(error),
        Ok(()) if damaged.is_empty() => Ok(RunVerdict::Done),
        Ok(()) => Ok(RunVerdict::Failed),
    }
}

impl Args {
    fn extent(&self) -> ExportExtent {
        if self.full { ExportExtent::WithTurns } else { ExportExtent::Channel }
    }

    /// Returns the format of a failure.
    pub(super) fn format(&self) -> Format {
        if self.json { Format::Json } else { Format::Text }
    }
}

/// The parts of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExportExtent {
    /// Messages, and documents as the format has them.
    Channel,
    /// Also the history of the turns.
    WithTurns,
}

/// The format of an export, and whether anything was printed.
struct TranscriptExport {
    export_format: ExportFormat,
    extent: ExportExtent,
    has_output: bool,
    /// Damage outside of the messages, one line each.
    damaged: Vec<String>,
}

impl TranscriptExport {
    async fn write_transcript(
        &mut self,
        client: &DaemonClient,
        scope: &CommandScope,
        runs: RunSelection,
        ctx: &mut CommandContext<'_>,
    ) -> Result<(), CliError> {
        let instance = self.write_messages(client, scope, runs, ctx).await?;
        let end = |text: &str| StyledLine::plain(text.to_owned());
        match (self.export_format, self.extent) {
            (ExportFormat::Json, ExportExtent::Channel) => {
                ctx.console.print_line(&end("],\"next\":null}"))
            }
            (ExportFormat::Json, ExportExtent::WithTurns) => {
                ctx.console.print_line(&end("],\"next\":null,\"turns\":["))?;
                turns::write_turns(client, scope, runs, self.export_format, ctx).await?;
                ctx.console.print_line(&end("]}"))
            }
            (ExportFormat::Md, ExportExtent::Channel) => {
                self.write_documents(client, scope, &instance, ctx).await
            }
            (ExportFormat::Md, ExportExtent::WithTurns) => {
                self.write_documents(client, scope, &instance, ctx).await?;
                turns::write_turns(client, scope, runs, self.export_format, ctx).await
            }
        }
    }

    /// Prints the messages page by page and returns their instance.
    async fn write_messages(
        &mut self,
        client: &DaemonClient,
        scope: &CommandScope,
        runs: RunSelection,
        ctx: &mut CommandContext<'_>,
    ) -> Result<InstanceRef, CliError> {
        let mut since = Seq::new(0);
        let mut is_first = true;
        loop {
            let page = client.messages_after(scope, since, PAGE_SIZE, runs).await?;
            if !self.has_output {
                self.has_output = true;
                write_header(&page.instance, self.export_format, ctx)?;
            }
            let last = page.items.last().map(|last| last.seq);
            for message in page.items {
                let message = self.load_full_message(client, scope, message).await?;
                match self.export_format {
                    ExportFormat::Json => {
                        let comma = if is_first { " " } else { "," };
                        ctx.console.print_json_after(comma, &message)?;
                    }
                    ExportFormat::Md => write_message(&message, ctx)?,
                }
                is_first = false;
            }
            match last {
                Some(last) => since = last,
                None => return Ok(page.instance),
            }
        }
    }

    /// Returns the message with its full text, which may be longer than the part in the channel.
    async fn load_full_message(
        &mut self,
        client: &DaemonClient,
        scope: &CommandScope,
        mut message: Message,
    ) -> Result<Message, CliError> {
        let Some(id) = message.resource else { return Ok(message) };
        let mut text = String::new();
        let mut from = 0;
        loop {
            let part = match client.resource(scope, id, Some(&format!("{from}.."))).await {
                Ok(part) => part,
                // The beginning is better than no text.
                Err(DialError::Refused(problem)) if problem.code == Code::NotFound => {
                    return Ok(message);
                }
                Err(DialError::Refused(problem)) if problem.code == Code::Damaged => {
                    self.damaged.push(problem.message);
                    return Ok(message);
                }
                Err(error) => return Err(error.into()),
            };
            text.push_str(&part.content);
            // A part without progress would be requested forever.
            if part.end >= part.total || part.end <= from {
                break;
            }
            from = part.end;
        }
        message.body = text;
        message.resource = None;
        Ok(message)
    }

    /// Prints the team's documents as an appendix.
    async fn write_documents(
        &mut self,
        client: &DaemonClient,
        scope: &CommandScope,
        instance: &InstanceRef,
        ctx: &mut CommandContext<'_>,
    ) -> Result<(), CliError> {
        for entry in client.documents(scope).await? {
            let newest = None;
            let document = match client.document(scope, &entry.file, newest).await {
                Ok(document) => document,
                Err(DialError::Refused(problem)) if problem.code == Code::NotFound => continue,
                Err(DialError::Refused(problem)) if problem.code == Code::Damaged => {
                    self.damaged.push(problem.message);
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let fence = code_fence(&document.content);
            let lines = [
                String::new(),
                format!("# {} of {}", document.file, Target::instance(instance)),
                format!("*revision {} by {}*", document.revision, one_line(&document.author)),
                String::new(),
                fence.clone(),
                sanitize_for_display(document.content.trim_end()),
                fence,
            ];
            lines.iter().try_for_each(|line| ctx.console.print_line(&StyledLine::plain(line)))?;
        }
        Ok(())
    }
}

fn write_header(
    instance: &InstanceRef,
    written: ExportFormat,
    ctx: &mut CommandContext<'_>,
) -> Result<(), CliError> {
    let line = match written {
        ExportFormat::Json => format!("{{\"instance\":{},\"items\":[", json!(instance)),
        ExportFormat::Md => format!("# {}", Target::instance(instance)),
    };
    ctx.console.print_line(&StyledLine::plain(line))
}

fn write_message(message: &Message, ctx: &mut CommandContext<'_>) -> Result<(), CliError> {
    let names = |names: &[agent_worker_protocol::AgentName]| {
        names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    };
    let to =
        if message.to.is_empty() { String::new() } else { format!(" → {}", names(&message.to)) };
    let cc =
        if message.cc.is_empty() { String::new() } else { format!(" (cc {})", names(&message.cc)) };
    let kind = match message.kind {
        MessageKind::Message | MessageKind::Answer => "",
        MessageKind::System => " (from the daemon)",
    };
    let from = one_line(&message.from.to_string());
    let lines = [
        String::new(),
        format!("## #{} {from}{to}{cc}{kind}{}", message.seq, reply_suffix(message)),
        format!("*{}*", message.ts),
        String::new(),
        block_quote(message.body.trim_end()),
    ];
    let files = message.attachments.iter().map(attachment_text);
    let files = files.flat_map(|file| [String::new(), format!("*attached: {file}*")]);
    let lines: Vec<_> = lines.into_iter().chain(files).collect();
    lines.iter().try_for_each(|line| ctx.console.print_line(&StyledLine::plain(line)))
}

/// Formats a message as a quote, so that no line of it can be mistaken for one of our headings.
fn block_quote(body: &str) -> String {
    let lines = sanitize_for_display(body);
    lines
        .split('\n')
        .map(|line| format!("> {line}").trim_end().to_owned())
        .collect::<Vec<_>>()
        .join("\n")
}

/// Returns a fence that no line of the text closes.
fn code_fence(text: &str) -> String {
    let run = |line: &str| line.trim_start().bytes().take_while(|byte| *byte == b'`').count();
    let longest = text.lines().map(run).max().unwrap_or(0);
    "`".repeat((longest + 1).max(3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_longer_than_any_in_the_text() {
        for (text, expected) in
            [("", "```"), ("a ``` b", "```"), ("```sh\nls\n```", "````"), ("  `````", "``````")]
        {
            assert_eq!(code_fence(text), expected, "{text}");
        }
    }
}
