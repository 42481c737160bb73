//! `agent-worker config`: shows every setting with its value and its origin.

mod settings_list;

use serde::Serialize;

use self::settings_list::{SettingView, effective_settings};
use crate::{
    error::{CliError, CliErrorKind},
    input::{
        config_file::{ConfigFile, ConfigPath},
        context::{CommandContext, Format, OutputArgs},
    },
    output::{
        styled_line::StyledLine,
        table::Column::{Figure, Name, Text},
        text::one_line,
        verdict::RunVerdict,
    },
};

/// Show your settings and where each one comes from
///
/// The settings of the configuration file apply to runs and agents that you start; a workflow file has priority over them.
/// Those that begin with `daemon.` are for a daemon that starts now.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  agent-worker config
  agent-worker config get limits.turns
  agent-worker --config none config --json"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<ConfigCommand>,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, clap::Subcommand)]
enum ConfigCommand {
    Path(PathArgs),
    Get(GetArgs),
}

/// Print the path of the configuration file, which need not exist
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: $EDITOR \"$(agent-worker config path)\"")]
struct PathArgs {
    #[command(flatten)]
    output: OutputArgs,
}

/// Print the value of one setting
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker config get notify.desktop")]
struct GetArgs {
    /// Name of the setting, such as `limits.turns`
    #[arg(value_name = "KEY")]
    key: String,
    #[command(flatten)]
    output: OutputArgs,
}

/// The document that `config --json` prints.
#[derive(Serialize)]
struct ConfigDocument {
    /// The file that was read, if there is one.
    file: Option<String>,
    settings: Vec<SettingView>,
}

#[derive(Serialize)]
struct PathDocument {
    path: Option<String>,
    exists: bool,
}

impl Args {
    /// Returns the output format.
    pub(crate) fn format(&self) -> Format {
        match &self.command {
            None => self.output.format(),
            Some(ConfigCommand::Path(args)) => args.output.format(),
            Some(ConfigCommand::Get(args)) => args.output.format(),
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    match (&args.command, args.format()) {
        (None, format) => show_all(format, ctx),
        (Some(ConfigCommand::Path(_)), format) => show_path(format, ctx),
        (Some(ConfigCommand::Get(get)), format) => show_one(&get.key, format, ctx),
    }?;
    Ok(RunVerdict::Done)
}

fn show_all(format: Format, ctx: &mut CommandContext<'_>) -> Result<(), CliError> {
    let file = ConfigFile::read(ctx.settings)?;
    let settings = effective_settings(&file, ctx.settings);
    if format == Format::Json {
        let file = file.path.map(|path| path.display().to_string());
        return ctx.console.print_json(&ConfigDocument { file, settings });
    }
    let rows: Vec<_> = settings
        .iter()
        .map(|one| [one.key.clone(), one_line(&one.origin_text()), one_line(&one.value_text())])
        .collect();
    ctx.console.print_table([Name("KEY"), Figure("FROM"), Text("VALUE")], &rows)?;
    let words = match (&file.path, ConfigPath::of(ctx.settings).path) {
        (Some(path), _) => format!("configuration file: {}", path.display()),
        (None, Some(path)) => format!("no configuration file: {} does not exist", path.display()),
        (None, None) => "no configuration file is read".to_owned(),
    };
    ctx.console.note(&words)?;
    ctx.console.note("a running daemon keeps the `daemon.` values of its start")
}

fn show_path(format: Format, ctx: &mut CommandContext<'_>) -> Result<(), CliError> {
    let path = ConfigPath::of(ctx.settings).path;
    if format == Format::Json {
        let exists = path.as_ref().is_some_and(|path| path.exists());
        let path = path.map(|path| path.display().to_string());
        return ctx.console.print_json(&PathDocument { path, exists });
    }
    match path {
        Some(path) => ctx.console.print_line(&StyledLine::plain(one_line(&path.to_string_lossy()))),
        None => Err(CliError::new(CliErrorKind::Failed, "no configuration file is read")
            .with_hint("omit `--config none`, and unset AGENT_WORKER_CONFIG")),
    }
}

fn show_one(key: &str, format: Format, ctx: &mut CommandContext<'_>) -> Result<(), CliError> {
    let file = ConfigFile::read(ctx.settings)?;
    let settings = effective_settings(&file, ctx.settings);
    let Some(found) = settings.iter().find(|one| one.key == key) else {
        let names = settings.iter().map(|one| one.key.as_str());
        let hint = match agent_worker_workflow::nearest(key, names) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "list the settings: agent-worker config".to_owned(),
        };
        let what = format!("there is no setting `{key}`");
        return Err(CliError::new(CliErrorKind::Usage, what).with_hint(hint));
    };
    match format {
        Format::Json => ctx.console.print_json(found),
        Format::Text => ctx.console.print_line(&StyledLine::plain(one_line(&found.value_text()))),
    }
}
