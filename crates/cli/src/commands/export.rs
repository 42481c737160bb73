//! `agent-worker export`: a whole transcript, page by page.

use agent_worker_host::{DialError, observe_damage};
use agent_worker_protocol::{Code, InstanceRef, Message, MessageKind, Seq, Target};
use serde_json::json;

use crate::{
    client::{Client, Reach, Runs, Scope},
    context::{Context, Format},
    error::{CliError, Kind},
    line::Line,
    text::{harmless, one_line},
    verdict::Verdict,
    view::replies,
    which,
};

/// As many messages as are held at once.
const PAGE: u32 = 500;

/// Print everything that was said
///
/// Of the run that goes on, else of the last one. As Markdown the documents follow; as JSON it is one document, a message
/// a line. Long messages are there whole.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker export @review:pr-123 --format md > review.md")]
pub(crate) struct Args {
    /// Whose channel: `@workflow:tag`, or one of its agents
    target: Target,
    /// How it is written
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Written::Json)]
    format: Written,
    /// The same as `--format json`; failures are a document too
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Those of earlier runs too
    #[arg(long)]
    all: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Written {
    /// For programs
    Json,
    /// For people
    Md,
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    let Some(client) = ctx.daemon_if_any().await? else { return Err(Context::nothing_yet()) };
    let scope = ctx.scope(Some(args.target), Reach::Here);
    which::somebody(&client, &scope).await?;
    let runs = if args.all { Runs::All } else { Runs::Current };
    let mut paper = Paper { written: args.format, is_begun: false, damaged: Vec::new() };
    let (exported, left_out) = observe_damage(paper.fill(&client, &scope, runs, ctx)).await;
    let damaged = left_out.into_iter().chain(paper.damaged);
    let damaged: Vec<String> =
        damaged.map(|row| one_line(&format!("not exported: {row}"))).collect();
    damaged.iter().try_for_each(|row| ctx.console.warn(row))?;
    match exported {
        // Half a document is no place for another one.
        Err(error) if paper.is_begun && error.kind() != Kind::ReaderGone => {
            ctx.console.fail(&error)?;
            Ok(error.verdict())
        }
        Err(error) => Err(error),
        Ok(()) if damaged.is_empty() => Ok(Verdict::Done),
        Ok(()) => Ok(Verdict::Failed),
    }
}

impl Args {
    /// How its failure is told.
    pub(super) fn format(&self) -> Format {
        if self.json { Format::Json } else { Format::Text }
    }
}

/// What is written, and whether anything is.
struct Paper {
    written: Written,
    is_begun: bool,
    /// Damage that was met beside the messages, one line each.
    damaged: Vec<String>,
}

impl Paper {
    async fn fill(
        &mut self,
        client: &Client,
        scope: &Scope,
        runs: Runs,
        ctx: &mut Context<'_>,
    ) -> Result<(), CliError> {
        let instance = self.messages(client, scope, runs, ctx).await?;
        match self.written {
            Written::Json => ctx.console.answer(&Line::plain("]}")),
            Written::Md => self.documents(client, scope, &instance, ctx).await,
        }
    }

    /// Prints the messages, a page at a time, and says whose they were.
    async fn messages(
        &mut self,
        client: &Client,
        scope: &Scope,
        runs: Runs,
        ctx: &mut Context<'_>,
    ) -> Result<InstanceRef, CliError> {
        let mut since = Seq::new(0);
        let mut is_first = true;
        loop {
            let page = client.messages_after(scope, since, PAGE, runs).await?;
            if !self.is_begun {
                self.is_begun = true;
                head(&page.instance, self.written, ctx)?;
            }
            let last = page.messages.last().map(|last| last.seq);
            for message in page.messages {
                let message = self.whole(client, scope, message).await?;
                match self.written {
                    Written::Json => {
                        let comma = if is_first { " " } else { "," };
                        ctx.console.answer(&Line::plain(format!("{comma}{}", json!(message))))?;
                    }
                    Written::Md => said(&message, ctx)?,
                }
                is_first = false;
            }
            match last {
                Some(last) => since = last,
                None => return Ok(page.instance),
            }
        }
    }

    /// The message with all of its text, which may be longer than what its channel shows of it.
    async fn whole(
        &mut self,
        client: &Client,
        scope: &Scope,
        mut message: Message,
    ) -> Result<Message, CliError> {
        let Some(id) = message.resource else { return Ok(message) };
        let mut text = String::new();
        let mut from = 0;
        loop {
            let part = match client.resource(scope, id, Some(&format!("{from}.."))).await {
                Ok(part) => part,
                // Its beginning is better than nothing.
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
            // A part that brings nothing more would be asked for again and again.
            if part.end >= part.total || part.end <= from {
                break;
            }
            from = part.end;
        }
        message.body = text;
        message.resource = None;
        Ok(message)
    }

    /// The team's documents, as an appendix.
    async fn documents(
        &mut self,
        client: &Client,
        scope: &Scope,
        instance: &InstanceRef,
        ctx: &mut Context<'_>,
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
            let fence = fence(&document.content);
            let lines = [
                String::new(),
                format!("# {} of {}", document.file, Target::instance(instance)),
                format!("*revision {} by {}*", document.revision, one_line(&document.author)),
                String::new(),
                fence.clone(),
                harmless(document.content.trim_end()),
                fence,
            ];
            lines.iter().try_for_each(|line| ctx.console.answer(&Line::plain(line)))?;
        }
        Ok(())
    }
}

fn head(instance: &InstanceRef, written: Written, ctx: &mut Context<'_>) -> Result<(), CliError> {
    let line = match written {
        Written::Json => format!("{{\"instance\":{},\"messages\":[", json!(instance)),
        Written::Md => format!("# {}", Target::instance(instance)),
    };
    ctx.console.answer(&Line::plain(line))
}

fn said(message: &Message, ctx: &mut Context<'_>) -> Result<(), CliError> {
    let names = |names: &[agent_worker_protocol::AgentName]| {
        names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    };
    let to =
        if message.to.is_empty() { String::new() } else { format!(" → {}", names(&message.to)) };
    let cc =
        if message.cc.is_empty() { String::new() } else { format!(" (cc {})", names(&message.cc)) };
    let kind = match message.kind {
        MessageKind::Message => "",
        MessageKind::Answer => " (answer)",
        MessageKind::System => " (told by the daemon)",
    };
    let from = one_line(&message.from.to_string());
    let lines = [
        String::new(),
        format!("## #{} {from}{to}{cc}{kind}{}", message.seq, replies(message)),
        format!("*{}*", message.ts),
        String::new(),
        quoted(message.body.trim_end()),
    ];
    lines.iter().try_for_each(|line| ctx.console.answer(&Line::plain(line)))
}

/// What somebody said, as a quote: no line of it can be taken for a heading of ours.
fn quoted(body: &str) -> String {
    let lines = harmless(body);
    lines
        .split('\n')
        .map(|line| format!("> {line}").trim_end().to_owned())
        .collect::<Vec<_>>()
        .join("\n")
}

/// A fence that nothing in the text closes.
fn fence(text: &str) -> String {
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
            assert_eq!(fence(text), expected, "{text}");
        }
    }
}
