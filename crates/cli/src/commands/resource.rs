//! `agent-worker resource`: stores long texts under their hash and reads them in parts.

use std::path::Path;

use agent_worker_host::DialError;
use agent_worker_protocol::{
    Code, ResourceId,
    api::{ResourceEncoding, ResourceEntry, ResourceRequest, ResourceText},
};

use crate::{
    client::daemon_client::{CommandScope, DaemonClient, ScopeReach},
    error::{CliError, CliErrorKind},
    input::{
        argument_values,
        context::{CommandContext, Format, OutputArgs},
        resolve_run,
        target_args::{TargetArgs, TargetEffect},
    },
    output::{
        clock, state_text,
        styled_line::StyledLine,
        table::Column::{Figure, Name, Text},
        text::{one_line, sanitize_for_display},
        verdict::RunVerdict,
    },
};

/// Store and read long texts
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  agent-worker resource create build.log --target @review:pr-123
  agent-worker resource read 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 --range 0..4096")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: ResourceCommand,
}

/// Number of digits of a whole id, of an id in a list, and of the shortest beginning that is accepted.
const FULL_ID: usize = 64;
const SHORT_ID: usize = 12;
const MIN_PREFIX: usize = 4;
/// Number of ids that the error for an ambiguous beginning lists.
const MAX_CANDIDATES: usize = 5;

/// The instance and the output format.
#[derive(Debug, clap::Args)]
struct ResourceTarget {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, clap::Subcommand)]
enum ResourceCommand {
    /// Store a text and print its id; equal texts have equal ids
    #[command(after_help = "Example: git diff | agent-worker resource create - --type text/x-diff")]
    Create {
        /// File to store; `-` reads stdin [default: stdin]
        file: Option<String>,
        /// Media type of the text, such as text/x-diff
        #[arg(long, value_name = "TYPE")]
        r#type: Option<String>,
        #[command(flatten)]
        whose: ResourceTarget,
    },
    /// Print a text, or a part of it
    #[command(after_help = "Example: agent-worker resource read 9f86d081884c --range 0..4096")]
    Read {
        /// Id of the text, or its beginning as `resource list` prints it
        #[arg(value_parser = parse_id_prefix)]
        id: String,
        /// Range of bytes: `from..to`; `to` is excluded [default: all]
        #[arg(long, value_name = "RANGE")]
        range: Option<String>,
        #[command(flatten)]
        whose: ResourceTarget,
    },
    /// List stored texts, newest first
    #[command(visible_alias = "ls", after_help = "Example: agent-worker resource list")]
    List {
        #[command(flatten)]
        whose: ResourceTarget,
    },
}

impl Args {
    /// Returns the output format.
    pub(crate) fn format(&self) -> Format {
        match &self.command {
            ResourceCommand::Create { whose, .. }
            | ResourceCommand::Read { whose, .. }
            | ResourceCommand::List { whose } => whose.output.format(),
        }
    }
}

/// Reads a whole resource.
pub(super) async fn read_whole(
    client: &DaemonClient,
    scope: &CommandScope,
    id: ResourceId,
) -> Result<Vec<u8>, CliError> {
    let mut bytes = Vec::new();
    let mut from = 0;
    loop {
        let part = client.resource(scope, id, Some(&format!("{from}.."))).await?;
        bytes.extend(content_bytes(&part)?);
        // A part without progress would be requested forever.
        if part.end >= part.total || part.end <= from {
            return Ok(bytes);
        }
        from = part.end;
    }
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let format = args.format();
    let client = ctx.connect_existing().await?;
    match args.command {
        ResourceCommand::Create { file, r#type, whose } => {
            let (file, target) = match file {
                Some(file) if Path::new(&file).exists() => (Some(file), whose.target),
                file => whose.target.split_text(file),
            };
            let content = match file {
                Some(file) if file != "-" => read_file(Path::new(&file))?,
                file => argument_values::read_text_or_stdin(file)?,
            };
            let project = Some(ctx.settings.cwd.clone());
            let target = target.or_selected(TargetEffect::Change, ctx)?;
            let request = ResourceRequest { target, project, content, r#type };
            let kept = client.resource_create(&request).await?;
            match format {
                Format::Json => ctx.console.print_json(&kept),
                Format::Text => ctx.console.print_line(&StyledLine::plain(kept.id.to_string())),
            }
        }
        ResourceCommand::Read { id, range, whose } => {
            let scope = readable_scope(whose, &client, ctx).await?;
            let id = resolve_id(&id, &client, &scope).await?;
            let given = range.is_some();
            let mut part =
                client.resource(&scope, id, range.as_deref()).await.map_err(|error| {
                    let list = || "`agent-worker resource list` lists the resources".to_owned();
                    CliError::from(error).with_hint_for(Code::NotFound, list)
                })?;
            // Without a range, the whole text is read.
            let mut bytes = content_bytes(&part)?;
            while !given && part.end < part.total {
                let rest = format!("{}..", part.end);
                let more = client.resource(&scope, id, Some(&rest)).await?;
                part.end = more.end;
                bytes.extend(content_bytes(&more)?);
            }
            match (format, part.encoding) {
                (Format::Text, Some(ResourceEncoding::Base64)) => {
                    return print_file(&bytes, &part, ctx).map(|()| RunVerdict::Done);
                }
                (Format::Json, _) | (_, None) => part.set_content_bytes(bytes),
            }
            match format {
                Format::Json => ctx.console.print_json(&part),
                // A terminal must not execute control sequences in the text.
                Format::Text if ctx.console.is_stdout_interactive() => {
                    ctx.console.print_line(&StyledLine::plain(sanitize_for_display(&part.content)))
                }
                Format::Text => ctx.console.print_raw(&part.content),
            }
        }
        ResourceCommand::List { whose } => {
            let scope = readable_scope(whose, &client, ctx).await?;
            let list = client.resources(&scope).await?;
            show_list(&list, format, ctx)
        }
    }?;
    Ok(RunVerdict::Done)
}

fn content_bytes(part: &ResourceText) -> Result<Vec<u8>, CliError> {
    let what = || "the content of a resource is not valid base64".to_owned();
    Ok(part.content_bytes().ok_or_else(|| DialError::Garbled { what: what() })?)
}

/// Prints the bytes of a file for a program; a terminal would interpret them.
fn print_file(
    bytes: &[u8],
    part: &ResourceText,
    ctx: &mut CommandContext<'_>,
) -> Result<(), CliError> {
    if ctx.console.is_stdout_interactive() {
        let what = format!("the resource is no text, but {}", one_line(&part.r#type));
        let hint = format!("write it to a file: agent-worker resource read {} > FILE", part.id);
        return Err(CliError::new(CliErrorKind::Usage, what).with_hint(hint));
    }
    ctx.console.print_bytes(bytes)
}

fn show_list(
    list: &[ResourceEntry],
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<(), CliError> {
    let row = |entry: &ResourceEntry| {
        let ResourceEntry { id, r#type, bytes, kept, created_by } = entry;
        let by = created_by.as_ref().map(ToString::to_string).unwrap_or_default();
        let kept = state_text::time_ago(*kept, clock::now());
        let bytes = bytes.to_string();
        [short_id(id), one_line(r#type), bytes, kept, one_line(&by)]
    };
    let rows: Vec<_> = list.iter().map(row).collect();
    match format {
        Format::Json => ctx.console.print_json_list(list),
        Format::Text if rows.is_empty() => ctx.console.note("no resources"),
        Format::Text => {
            let head =
                [Name("ID"), Text("TYPE"), Figure("BYTES"), Figure("KEPT"), Text("CREATED BY")];
            ctx.console.print_table(head, &rows)
        }
    }
}

/// Parses an id or its beginning.
fn parse_id_prefix(text: &str) -> Result<String, String> {
    let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hex && (MIN_PREFIX..=FULL_ID).contains(&text.len()) {
        return Ok(text.to_ascii_lowercase());
    }
    Err(format!("`{text}` is not a resource's id: {MIN_PREFIX} to {FULL_ID} hex digits"))
}

/// Returns the beginning of an id that lists print.
fn short_id(id: &ResourceId) -> String {
    id.to_string().chars().take(SHORT_ID).collect()
}

/// Returns the resource whose id is typed, or begins with the typed text.
async fn resolve_id(
    typed: &str,
    client: &DaemonClient,
    scope: &CommandScope,
) -> Result<ResourceId, CliError> {
    if let Ok(id) = typed.parse() {
        return Ok(id);
    }
    let known = client.resources(scope).await?;
    let mut found: Vec<_> = known.iter().map(|entry| entry.id).collect();
    found.retain(|id| id.to_string().starts_with(typed));
    match found.as_slice() {
        [id] => Ok(*id),
        [] => Err(CliError::new(
            CliErrorKind::Refused(Code::NotFound),
            format!("no resource has an id that begins with `{typed}`"),
        )
        .with_hint("`agent-worker resource list` lists the resources")),
        many => {
            let ids: Vec<_> = many.iter().take(MAX_CANDIDATES).map(ToString::to_string).collect();
            let what = format!("{} resources have an id that begins with `{typed}`", many.len());
            Err(CliError::new(CliErrorKind::Refused(Code::Conflict), what)
                .with_hint(format!("type more of it: {}", ids.join(", "))))
        }
    }
}

/// Returns the scope of the instance whose texts are read.
async fn readable_scope(
    whose: ResourceTarget,
    client: &DaemonClient,
    ctx: &mut CommandContext<'_>,
) -> Result<CommandScope, CliError> {
    let target = whose.target.or_selected(TargetEffect::Read, ctx)?;
    let scope = ctx.scope(target, ScopeReach::CurrentProject);
    resolve_run::readable_scope(client, &scope, whose.output.format(), ctx).await
}

fn read_file(file: &Path) -> Result<String, CliError> {
    std::fs::read_to_string(file).map_err(|error| {
        let what = format!("could not read {} as text", one_line(&file.to_string_lossy()));
        CliError::with_source(CliErrorKind::Usage, what, error)
    })
}
