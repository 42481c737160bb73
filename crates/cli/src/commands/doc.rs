//! `agent-worker doc`: a team's documents, read and written. What is asked of the daemon for that is in `desk`.

mod changes;
mod desk;

use agent_worker_protocol::{
    DocumentPath, Revision, Target,
    api::{DocumentEntry, DocumentMode, DocumentText, DocumentWritten},
};

use self::desk::{Desk, Follows};
use crate::{
    client::{Client, Reach},
    clock,
    context::{Context, Format, Output},
    error::CliError,
    given,
    line::{Line, Tone},
    table::Column::{Figure, Name, Text},
    text::{age, one_line},
    verdict::Verdict,
};

/// Read and write a team's documents
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  agent-worker doc read
  agent-worker doc append notes.md \"- ask about line 42\" --target @review:pr-123
  agent-worker doc write plan.md --base 3 < plan.md")]
pub(crate) struct Args {
    #[command(subcommand)]
    ask: Ask,
}

/// Whose documents.
#[derive(Debug, clap::Args)]
struct Whose {
    /// Whose: `@workflow:tag`; without it those of this folder's only run
    #[arg(long, short, value_name = "TARGET")]
    target: Option<Target>,
    #[command(flatten)]
    output: Output,
}

/// What is written, and where.
#[derive(Debug, clap::Args)]
struct Written {
    /// Which document
    file: DocumentPath,
    /// Its text; `-` or nothing reads it from stdin
    text: Option<String>,
}

impl Written {
    /// What stdin said, to the byte; what was typed, as a line.
    fn text(&self) -> Result<String, CliError> {
        match self.text.as_deref() {
            Some(typed) if typed != "-" => Ok(line(typed.to_owned())),
            other => given::text_or_stdin(other.map(str::to_owned)),
        }
    }
}

#[derive(Debug, clap::Subcommand)]
enum Ask {
    /// Print a document as it is
    #[command(after_help = "Example: agent-worker doc read notes.md --revision 2")]
    Read {
        /// Which document [default: the team's, notes.md unless its file says otherwise]
        file: Option<DocumentPath>,
        /// An older revision of it
        #[arg(long, value_name = "REVISION")]
        revision: Option<i64>,
        #[command(flatten)]
        whose: Whose,
    },
    /// Write a document whole
    ///
    /// One that exists is written over only by whoever says what they have read of it: --base, or --force.
    #[command(after_help = "Example: agent-worker doc write plan.md --base 3 < plan.md")]
    Write {
        #[command(flatten)]
        written: Written,
        /// The revision this follows; refused when there is a newer one
        #[arg(long, value_name = "REVISION", conflicts_with = "force")]
        base: Option<i64>,
        /// Write over whatever is there
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        whose: Whose,
    },
    /// Add to the end of a document; one that is not there is made
    #[command(after_help = "Example: agent-worker doc append notes.md \"- done\"")]
    Append {
        #[command(flatten)]
        written: Written,
        #[command(flatten)]
        whose: Whose,
    },
    /// Write a document that is not there yet
    #[command(after_help = "Example: agent-worker doc create plan.md \"# Plan\"")]
    Create {
        #[command(flatten)]
        written: Written,
        #[command(flatten)]
        whose: Whose,
    },
    /// List the documents
    #[command(visible_alias = "ls", after_help = "Example: agent-worker doc list")]
    List {
        #[command(flatten)]
        whose: Whose,
    },
    /// List a document's revisions, newest first
    #[command(after_help = "Example: agent-worker doc history notes.md --diff")]
    History {
        /// Which document [default: the team's, notes.md unless its file says otherwise]
        file: Option<DocumentPath>,
        /// Show what each changed
        #[arg(long)]
        diff: bool,
        #[command(flatten)]
        whose: Whose,
    },
    #[command(flatten)]
    Change(changes::Ask),
}

impl Args {
    /// How to answer.
    pub(crate) fn format(&self) -> Format {
        self.ask.whose().output.format()
    }
}

impl Ask {
    fn whose(&self) -> &Whose {
        match self {
            Self::Read { whose, .. }
            | Self::Write { whose, .. }
            | Self::Append { whose, .. }
            | Self::Create { whose, .. }
            | Self::List { whose }
            | Self::History { whose, .. } => whose,
            Self::Change(ask) => ask.whose(),
        }
    }
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    let format = args.format();
    let scope = ctx.scope(args.ask.whose().target.clone(), Reach::Here);
    let desk = |client| Desk { client, scope: scope.clone() };
    match args.ask {
        Ask::Read { file, revision, .. } => {
            let desk = desk(reader(ctx).await?);
            let file = desk.named(file).await?;
            let found = desk.read(&file, revision.map(Revision::new)).await?;
            show_text(&found, format, ctx)
        }
        Ask::List { .. } => {
            let desk = desk(reader(ctx).await?);
            show_list(&desk.client.documents(&desk.scope).await?, format, ctx)
        }
        Ask::History { file, diff, .. } => {
            let desk = desk(reader(ctx).await?);
            let file = desk.named(file).await?;
            let entries = desk.client.revisions(&desk.scope, &file).await?;
            if diff {
                changes::show_each(&desk, &entries, format, ctx).await
            } else {
                show_history(&entries, format, ctx)
            }
        }
        Ask::Change(ask) => changes::run(ask, &scope, format, ctx).await,
        Ask::Write { written, base, force, .. } => {
            let follows = match (base, force) {
                (Some(base), _) => Follows::Revision(Revision::new(base)),
                (None, true) => Follows::Newest,
                (None, false) => Follows::Nothing,
            };
            let text = written.text()?;
            let desk = desk(ctx.daemon_of_something().await?);
            show_written(&desk.write(&written.file, &text, follows).await?, format, ctx)
        }
        Ask::Append { written, .. } => {
            let text = line(written.text()?);
            let desk = desk(ctx.daemon_of_something().await?);
            let request = desk.request(text, DocumentMode::Append);
            show_written(&desk.put(&written.file, &request).await?, format, ctx)
        }
        Ask::Create { written, .. } => {
            let text = written.text()?;
            let desk = desk(ctx.daemon_of_something().await?);
            let request = desk.request(text, DocumentMode::Create);
            show_written(&desk.put(&written.file, &request).await?, format, ctx)
        }
    }?;
    Ok(Verdict::Done)
}

async fn reader(ctx: &mut Context<'_>) -> Result<Client, CliError> {
    ctx.daemon_if_any().await?.ok_or_else(Context::nothing_yet)
}

/// What is added is whole lines, so that the next addition begins one.
fn line(text: String) -> String {
    if text.ends_with('\n') { text } else { text + "\n" }
}

fn show_text(found: &DocumentText, format: Format, ctx: &mut Context<'_>) -> Result<(), CliError> {
    match format {
        Format::Json => ctx.console.json(found),
        // As it is, to the byte, for whoever is no terminal: it may go into a file.
        Format::Text if ctx.console.answers_a_person() => {
            let text = crate::text::harmless(found.content.trim_end());
            ctx.console.answer(&Line::plain(text))?;
            let author = one_line(&found.author);
            let said = format!("{} · revision {} · by {author}", found.file, found.revision);
            ctx.console.say(&Line::of(Tone::Dim, said))
        }
        Format::Text => ctx.console.raw(&found.content),
    }
}

fn show_list(
    entries: &[DocumentEntry],
    format: Format,
    ctx: &mut Context<'_>,
) -> Result<(), CliError> {
    let rows: Vec<_> = entries.iter().map(|entry| row(entry, entry.file.to_string())).collect();
    match format {
        Format::Json => ctx.console.json(&entries),
        Format::Text if rows.is_empty() => ctx.console.note("there are no documents"),
        Format::Text => ctx.console.table(
            [Name("FILE"), Figure("REVISION"), Figure("BYTES"), Figure("WRITTEN"), Text("BY")],
            &rows,
        ),
    }
}

fn show_history(
    entries: &[DocumentEntry],
    format: Format,
    ctx: &mut Context<'_>,
) -> Result<(), CliError> {
    let rows: Vec<_> = entries
        .iter()
        .map(|entry| {
            let [_, revision, bytes, written, by] = row(entry, String::new());
            [revision, bytes, written, by]
        })
        .collect();
    match format {
        Format::Json => ctx.console.json(&entries),
        Format::Text => ctx
            .console
            .table([Figure("REVISION"), Figure("BYTES"), Figure("WRITTEN"), Text("BY")], &rows),
    }
}

fn row(entry: &DocumentEntry, file: String) -> [String; 5] {
    let written = format!("{} ago", age(clock::now().since(entry.written)));
    [file, entry.revision.to_string(), entry.bytes.to_string(), written, one_line(&entry.author)]
}

fn show_written(
    written: &DocumentWritten,
    format: Format,
    ctx: &mut Context<'_>,
) -> Result<(), CliError> {
    match format {
        Format::Json => ctx.console.json(written),
        Format::Text => {
            let line = format!("{} is at revision {}", written.file, written.revision);
            ctx.console.answer(&Line::plain(line))
        }
    }
}
