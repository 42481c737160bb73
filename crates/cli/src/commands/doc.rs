//! `agent-worker doc`: reads and writes a team's documents. The requests to the daemon are in `document_client`.

mod changes;
mod document_client;

use agent_worker_protocol::{
    BadName, DocumentPath, Revision,
    api::{DocumentEntry, DocumentMode, DocumentText, DocumentWritten},
};

use self::document_client::{DocumentClient, WriteBase};
use crate::{
    client::daemon_client::ScopeReach,
    error::CliError,
    input::{
        argument_values,
        context::{CommandContext, Format, OutputArgs},
        resolve_run,
        target_args::{
            ArgOrTarget, TargetArgs, TargetEffect, parse_bare_target, parse_text_or_target,
            target_without_text_error,
        },
    },
    output::{
        clock,
        console::Console,
        styled_line::{StyledLine, Tone},
        table::Column::{Figure, Name, Text},
        text::{format_age, one_line},
        verdict::RunVerdict,
    },
};

/// Read and write the documents of a team
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  agent-worker doc read
  agent-worker doc append notes.md \"- ask about line 42\" --target @review:pr-123
  agent-worker doc write plan.md --base 3 < plan.md")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: DocCommand,
}

/// The team and the output format.
#[derive(Debug, clap::Args)]
struct DocTarget {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// The document and its new text.
#[derive(Debug, clap::Args)]
struct DocInput {
    /// Path of the document
    file: DocumentPath,
    /// Text; `-` reads stdin [default: stdin]
    text: Option<String>,
}

impl DocInput {
    /// Returns the target and the text: stdin byte for byte, or the argument with a final newline.
    fn split(
        &self,
        target: TargetArgs,
        command: &str,
        console: &mut Console,
    ) -> Result<(String, TargetArgs), CliError> {
        let (typed, target) = target.split_text(self.text.clone());
        let bare = self.text.as_deref().and_then(parse_bare_target).filter(|_| typed.is_none());
        let text = match (typed, bare) {
            (Some(typed), _) if typed != "-" => ensure_newline(typed),
            (None, Some(bare)) => {
                argument_values::read_piped_text("text", console)?.ok_or_else(|| {
                    target_without_text_error(
                        &bare,
                        "text",
                        &format!("doc {command} {}", self.file),
                    )
                })?
            }
            (typed, _) => argument_values::read_text_or_stdin(typed)?,
        };
        Ok((text, target))
    }
}

#[derive(Debug, clap::Subcommand)]
enum DocCommand {
    /// Print a document
    #[command(after_help = "Example: agent-worker doc read notes.md --revision 2")]
    Read {
        /// Path of the document [default: the team's, notes.md unless the workflow file names another]
        #[arg(value_name = "FILE", value_parser = parse_text_or_target(parse_path))]
        file: Option<ArgOrTarget<DocumentPath>>,
        /// Revision to print [default: the newest]
        #[arg(long, value_name = "REVISION")]
        revision: Option<i64>,
        #[command(flatten)]
        whose: DocTarget,
    },
    /// Replace the whole text of a document
    ///
    /// An existing document is only replaced with --base, the revision that you have read, or with --force.
    #[command(after_help = "Example: agent-worker doc write plan.md --base 3 < plan.md")]
    Write {
        #[command(flatten)]
        written: DocInput,
        /// Revision this text is based on; refused if there is a newer one
        #[arg(long, value_name = "REVISION", conflicts_with = "force")]
        base: Option<i64>,
        /// Replace any revision
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        whose: DocTarget,
    },
    /// Append to a document; creates it if it is missing
    #[command(after_help = "Example: agent-worker doc append notes.md \"- done\"")]
    Append {
        #[command(flatten)]
        written: DocInput,
        #[command(flatten)]
        whose: DocTarget,
    },
    /// Create a document; refused if it exists
    #[command(after_help = "Example: agent-worker doc create plan.md \"# Plan\"")]
    Create {
        #[command(flatten)]
        written: DocInput,
        #[command(flatten)]
        whose: DocTarget,
    },
    /// List documents
    #[command(visible_alias = "ls", after_help = "Example: agent-worker doc list")]
    List {
        #[command(flatten)]
        whose: DocTarget,
    },
    /// List the revisions of a document, newest first
    #[command(after_help = "Example: agent-worker doc history notes.md --diff")]
    History {
        /// Path of the document [default: the team's, notes.md unless the workflow file names another]
        #[arg(value_name = "FILE", value_parser = parse_text_or_target(parse_path))]
        file: Option<ArgOrTarget<DocumentPath>>,
        /// Show the changes of each revision
        #[arg(long)]
        diff: bool,
        #[command(flatten)]
        whose: DocTarget,
    },
    #[command(flatten)]
    Change(changes::DocChangeCommand),
}

impl Args {
    /// Returns the output format.
    pub(crate) fn format(&self) -> Format {
        self.command.doc_target().output.format()
    }
}

impl DocCommand {
    fn doc_target(&self) -> &DocTarget {
        match self {
            Self::Read { whose, .. }
            | Self::Write { whose, .. }
            | Self::Append { whose, .. }
            | Self::Create { whose, .. }
            | Self::List { whose }
            | Self::History { whose, .. } => whose,
            Self::Change(ask) => ask.doc_target(),
        }
    }
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let format = args.format();
    match args.command {
        DocCommand::Read { file, revision, whose } => {
            let (file, target) = whose.target.split(file)?;
            let document_client = open_for_reading(target, format, ctx).await?;
            let file = document_client.resolve_path(file).await?;
            let found = document_client.read(&file, revision.map(Revision::new)).await?;
            show_text(&found, format, ctx)
        }
        DocCommand::List { whose } => {
            let document_client = open_for_reading(whose.target, format, ctx).await?;
            show_list(&document_client.client.documents(&document_client.scope).await?, format, ctx)
        }
        DocCommand::History { file, diff, whose } => {
            let (file, target) = whose.target.split(file)?;
            let document_client = open_for_reading(target, format, ctx).await?;
            let file = document_client.resolve_path(file).await?;
            let entries = document_client.revisions(&file).await?;
            if diff {
                changes::show_diffs(&document_client, &entries, format, ctx).await
            } else {
                show_history(&entries, format, ctx)
            }
        }
        DocCommand::Change(ask) => changes::run(ask, format, ctx).await,
        DocCommand::Write { written, base, force, whose } => {
            let follows = match (base, force) {
                (Some(base), _) => WriteBase::Revision(Revision::new(base)),
                (None, true) => WriteBase::Newest,
                (None, false) => WriteBase::NewDocument,
            };
            let (text, target) = written.split(whose.target, "write", ctx.console)?;
            let document_client = open_for_writing(target, ctx).await?;
            show_written(&document_client.write(&written.file, &text, follows).await?, format, ctx)
        }
        DocCommand::Append { written, whose } => {
            let (text, target) = written.split(whose.target, "append", ctx.console)?;
            let document_client = open_for_writing(target, ctx).await?;
            let request = document_client.write_request(ensure_newline(text), DocumentMode::Append);
            show_written(&document_client.submit_write(&written.file, &request).await?, format, ctx)
        }
        DocCommand::Create { written, whose } => {
            let (text, target) = written.split(whose.target, "create", ctx.console)?;
            let document_client = open_for_writing(target, ctx).await?;
            let request = document_client.write_request(text, DocumentMode::Create);
            show_written(&document_client.submit_write(&written.file, &request).await?, format, ctx)
        }
    }?;
    Ok(RunVerdict::Done)
}

async fn open_for_reading(
    target: TargetArgs,
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<DocumentClient, CliError> {
    let target = target.or_selected(TargetEffect::Read, ctx)?;
    let client = ctx.connect_if_history().await?.ok_or_else(CommandContext::no_history_error)?;
    let scope = ctx.scope(target, ScopeReach::CurrentProject);
    let scope = resolve_run::readable_scope(&client, &scope, format, ctx).await?;
    Ok(DocumentClient { client, scope })
}

async fn open_for_writing(
    target: TargetArgs,
    ctx: &mut CommandContext<'_>,
) -> Result<DocumentClient, CliError> {
    let target = target.or_selected(TargetEffect::Change, ctx)?;
    let client = ctx.connect_existing().await?;
    Ok(DocumentClient { client, scope: ctx.scope(target, ScopeReach::CurrentProject) })
}

/// Parses the path of a document.
fn parse_path(text: &str) -> Result<DocumentPath, String> {
    text.parse().map_err(|bad: BadName| bad.to_string())
}

/// Ends the text with a newline, so that the next addition starts a new line.
fn ensure_newline(text: String) -> String {
    if text.ends_with('\n') { text } else { text + "\n" }
}

fn show_text(
    found: &DocumentText,
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<(), CliError> {
    match format {
        Format::Json => ctx.console.print_json(found),
        // Byte for byte without a terminal: the output may go into a file.
        Format::Text if ctx.console.is_stdout_interactive() => {
            let text = crate::output::text::sanitize_for_display(found.content.trim_end());
            ctx.console.print_line(&StyledLine::plain(text))?;
            let author = one_line(&found.author);
            let heading = format!("{} · revision {} · by {author}", found.file, found.revision);
            ctx.console.eprint_line(&StyledLine::new(Tone::Dim, heading))
        }
        Format::Text => ctx.console.print_raw(&found.content),
    }
}

fn show_list(
    entries: &[DocumentEntry],
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<(), CliError> {
    let rows: Vec<_> = entries.iter().map(|entry| row(entry, entry.file.to_string())).collect();
    match format {
        Format::Json => ctx.console.print_json_list(entries),
        Format::Text if rows.is_empty() => ctx.console.note("there are no documents"),
        Format::Text => ctx.console.print_table(
            [Name("FILE"), Figure("REVISION"), Figure("BYTES"), Figure("WRITTEN"), Text("BY")],
            &rows,
        ),
    }
}

fn show_history(
    entries: &[DocumentEntry],
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<(), CliError> {
    let rows: Vec<_> = entries
        .iter()
        .map(|entry| {
            let [_, revision, bytes, written, by] = row(entry, String::new());
            [revision, bytes, written, by]
        })
        .collect();
    match format {
        Format::Json => ctx.console.print_json_list(entries),
        Format::Text => ctx.console.print_table(
            [Figure("REVISION"), Figure("BYTES"), Figure("WRITTEN"), Text("BY")],
            &rows,
        ),
    }
}

fn row(entry: &DocumentEntry, file: String) -> [String; 5] {
    let written = format!("{} ago", format_age(clock::now().since(entry.written)));
    [file, entry.revision.to_string(), entry.bytes.to_string(), written, one_line(&entry.author)]
}

fn show_written(
    written: &DocumentWritten,
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<(), CliError> {
    match format {
        Format::Json => ctx.console.print_json(written),
        Format::Text => {
            let line = format!("{} is at revision {}", written.file, written.revision);
            ctx.console.print_line(&StyledLine::plain(line))
        }
    }
}
