//! `agent-worker resource`: long texts, kept under their hash and read in parts.

use std::{io::Read as _, path::PathBuf};

use agent_worker_protocol::{
    Code, ResourceId, Target,
    api::{ResourceEntry, ResourceRequest},
};

use crate::{
    client::Reach,
    context::{Context, Format, Output},
    error::{CliError, Kind},
    line::Line,
    table::Column::{Figure, Name, Text},
    text::{harmless, one_line},
    verdict::Verdict,
};

/// Keep and read long texts
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  agent-worker resource create build.log --target @review:pr-123
  agent-worker resource read 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 --range 0..4096")]
pub(crate) struct Args {
    #[command(subcommand)]
    ask: Ask,
}

/// Whose resources.
#[derive(Debug, clap::Args)]
struct Whose {
    /// Whose: `@workflow:tag`; without it those of this folder's only run
    #[arg(long, short, value_name = "TARGET")]
    target: Option<Target>,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, clap::Subcommand)]
enum Ask {
    /// Keep a text and print its id; the same text has the same id
    #[command(after_help = "Example: git diff | agent-worker resource create - --type text/x-diff")]
    Create {
        /// The file; `-` reads stdin
        file: PathBuf,
        /// What it is
        #[arg(long, value_name = "TYPE")]
        r#type: Option<String>,
        #[command(flatten)]
        whose: Whose,
    },
    /// Print a text, or a part of it
    #[command(
        after_help = "Example: agent-worker resource read 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 --range 0..4096"
    )]
    Read {
        /// Which
        id: ResourceId,
        /// Only these bytes, `from..to`, the last one not included
        #[arg(long, value_name = "RANGE")]
        range: Option<String>,
        #[command(flatten)]
        whose: Whose,
    },
    /// List what is kept, newest first
    #[command(visible_alias = "ls", after_help = "Example: agent-worker resource list")]
    List {
        #[command(flatten)]
        whose: Whose,
    },
}

impl Args {
    /// How to answer.
    pub(crate) fn format(&self) -> Format {
        match &self.ask {
            Ask::Create { whose, .. } | Ask::Read { whose, .. } | Ask::List { whose } => {
                whose.output.format()
            }
        }
    }
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    let format = args.format();
    let client = ctx.daemon_of_something().await?;
    match args.ask {
        Ask::Create { file, r#type, whose } => {
            let content = content(&file)?;
            let project = Some(ctx.settings.cwd.clone());
            let request = ResourceRequest { target: whose.target, project, content, r#type };
            let kept = client.resource_create(&request).await?;
            match format {
                Format::Json => ctx.console.json(&kept),
                Format::Text => ctx.console.answer(&Line::plain(kept.id.to_string())),
            }
        }
        Ask::Read { id, range, whose } => {
            let scope = ctx.scope(whose.target, Reach::Here);
            let given = range.is_some();
            let mut part =
                client.resource(&scope, id, range.as_deref()).await.map_err(|error| {
                    let list = || "`agent-worker resource list` shows what there is".to_owned();
                    CliError::from(error).hint_for(Code::NotFound, list)
                })?;
            // Whoever did not say how much gets all of it.
            while !given && part.end < part.total {
                let rest = format!("{}..", part.end);
                let more = client.resource(&scope, id, Some(&rest)).await?;
                part.end = more.end;
                part.content.push_str(&more.content);
            }
            match format {
                Format::Json => ctx.console.json(&part),
                // A terminal is not to carry out what a text says.
                Format::Text if ctx.console.answers_a_person() => {
                    ctx.console.answer(&Line::plain(harmless(&part.content)))
                }
                Format::Text => ctx.console.raw(&part.content),
            }
        }
        Ask::List { whose } => {
            let scope = ctx.scope(whose.target, Reach::Here);
            let list = client.resources(&scope).await?;
            let row = |entry: &ResourceEntry| {
                let ResourceEntry { id, r#type, bytes, kept } = entry;
                [id.to_string(), one_line(r#type), bytes.to_string(), kept.to_string()]
            };
            let rows: Vec<_> = list.iter().map(row).collect();
            match format {
                Format::Json => ctx.console.json(&list),
                Format::Text if rows.is_empty() => ctx.console.note("nothing is kept"),
                Format::Text => {
                    let head = [Name("ID"), Text("TYPE"), Figure("BYTES"), Figure("KEPT")];
                    ctx.console.table(head, &rows)
                }
            }
        }
    }?;
    Ok(Verdict::Done)
}

fn content(file: &PathBuf) -> Result<String, CliError> {
    let mut text = String::new();
    let read = if file.as_os_str() == "-" {
        std::io::stdin().read_to_string(&mut text)
    } else {
        std::fs::File::open(file).and_then(|mut file| file.read_to_string(&mut text))
    };
    read.map_err(|error| {
        let what = format!("could not read {} as text", one_line(&file.to_string_lossy()));
        CliError::because(Kind::Usage, what, error)
    })?;
    Ok(text)
}
