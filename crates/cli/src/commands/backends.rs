//! `agent-worker backends`: lists the backends, their programs and logins on this machine, and their capabilities.
//!
//! `doctor` prints the same table, and with `--verbose` the same details.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use agent_worker_backends::{BACKENDS, BackendCapabilities, BackendSpec, CapabilitySupport};
use agent_worker_host::find_program;
use serde::Serialize;
use tokio::{process::Command, task::JoinSet, time::timeout};

use crate::{
    error::CliError,
    input::{
        context::{CommandContext, Format, OutputArgs},
        settings::CliSettings,
    },
    output::{
        console::Console,
        styled_line::{StyledLine, Tone},
        table::{Column, layout_table},
        text::{cut, one_line, sanitize_for_display, wrap_words},
        verdict::RunVerdict,
    },
    programs::login::{CredentialPlaces, Login, find_login},
};

/// Time limit for a program to print its version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_VERSION_WIDTH: usize = 40;
/// Column at which the description of a backend starts.
const LABEL_WIDTH: usize = 10;
/// Width of the output without a terminal, in columns.
const DEFAULT_WIDTH: usize = 80;

/// List backends, their installed programs and their logins
///
/// ✓ marks a backend that can be used, ✗ one whose program is missing or logged out. The command runs only `--version` of each
/// program it finds. It checks that a key or a login exists, not that it is valid; a login that cannot be determined is
/// `unknown`. --verbose adds the capabilities: `stream` prints the text of an agent as it arrives, `cost` is the cost of its turns, `resume`
/// continues a conversation in the next turn, `approvals` asks you before an action, `mid-turn` is the effect
/// of `send --now` on a running turn, `max_steps` and `max_tokens` limit a turn. `unverified` lists properties that have not been tested.
/// With --json the list includes backends of later versions.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker backends --verbose")]
pub(crate) struct Args {
    /// Show the capabilities and the untested properties too
    #[arg(long, short)]
    verbose: bool,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// A backend as found on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct BackendStatus {
    /// Name as in `backend:`.
    pub(super) name: &'static str,
    /// True if this version can use it.
    pub(super) in_this_version: bool,
    #[serde(skip)]
    needs_program: bool,
    /// A command that installs its program.
    #[serde(skip)]
    install: Option<&'static str>,
    /// A command that logs in.
    #[serde(skip)]
    log_in: Option<&'static str>,
    /// Home folder of the user, which the table abbreviates.
    #[serde(skip)]
    home: Option<PathBuf>,
    /// Path of its program, if installed.
    program: Option<PathBuf>,
    /// Version that the program prints.
    version: Option<String>,
    /// Description of the backend.
    about: &'static str,
    /// Credentials for its vendor; absent if none are needed.
    login: Option<Login>,
    /// Capabilities of the backend.
    can: BackendCapabilities,
    /// Properties that have not been tested.
    unverified: Vec<String>,
}

/// Runs the command.
pub(crate) async fn run(args: &Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let backends = detect_backends(ctx.settings).await;
    match args.output.format() {
        Format::Json => ctx.console.print_json_list(&backends)?,
        Format::Text => {
            let detail = if args.verbose { BackendDetail::Full } else { BackendDetail::Table };
            print_backends(&backends, detail, ctx.console)?;
        }
    }
    Ok(RunVerdict::Done)
}

/// The extent of the output about backends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BackendDetail {
    /// The table alone.
    Table,
    /// The table, and the capabilities of each backend.
    Full,
}

/// Prints the backends of this version.
pub(super) fn print_backends(
    backends: &[BackendStatus],
    detail: BackendDetail,
    console: &mut Console,
) -> Result<(), CliError> {
    let known: Vec<_> = backends.iter().filter(|backend| backend.in_this_version).collect();
    let width = console.stdout_width();
    console.print_lines(&table_lines(&known, width))?;
    if detail == BackendDetail::Full {
        console.print_line(&StyledLine::default())?;
        let columns = width.unwrap_or(DEFAULT_WIDTH).saturating_sub(LABEL_WIDTH);
        for backend in known {
            console.print_lines(&backend_lines(backend, columns))?;
        }
    }
    Ok(())
}

/// Lays out the table. Where a terminal is too narrow for whole commands, they follow the table, each on lines of its own.
fn table_lines(backends: &[&BackendStatus], width: Option<usize>) -> Vec<StyledLine> {
    const MARK: Column<'_> = Column::Name("");
    const BACKEND: Column<'_> = Column::Name("BACKEND");
    const VERSION: Column<'_> = Column::State("VERSION");
    const LOGIN: Column<'_> = Column::Text("LOGIN");
    let cells = |backend: &&BackendStatus| {
        let mark = if backend.is_ready() { "✓" } else { "✗" };
        [mark.to_owned(), backend.name.to_owned(), backend.version_cell(), backend.login_cell()]
    };
    let steps: Vec<_> = backends.iter().map(|backend| backend.next_step()).collect();
    let rows: Vec<_> = backends.iter().map(cells).collect();
    let whole = rows.iter().zip(&steps).map(|([mark, name, version, login], step)| {
        let step = step.clone().unwrap_or_default();
        [mark.clone(), name.clone(), version.clone(), login.clone(), step]
    });
    let whole: Vec<_> = whole.collect();
    let head = [MARK, BACKEND, VERSION, LOGIN, Column::Text("TO USE IT")];
    let lines = layout_table(head, &whole, None);
    let Some(width) = width.filter(|width| lines.iter().any(|line| line.width() > *width)) else {
        return lines;
    };
    let mut lines = layout_table([MARK, BACKEND, VERSION, LOGIN], &rows, Some(width));
    for (backend, step) in backends.iter().zip(steps) {
        let step = step.map(|step| format!("to use {}: {step}", backend.name));
        let wrapped = step.iter().flat_map(|step| wrap_words(step, width));
        lines.extend(wrapped.map(|text| StyledLine::new(Tone::Dim, text)));
    }
    lines
}

fn backend_lines(backend: &BackendStatus, columns: usize) -> Vec<StyledLine> {
    let lines = backend.describe();
    let lines = lines.iter().flat_map(|lines| wrap_words(&sanitize_for_display(lines), columns));
    let tone = if backend.is_ready() { Tone::Plain } else { Tone::Dim };
    lines
        .enumerate()
        .map(|(number, text)| {
            let name = if number == 0 { backend.name } else { "" };
            StyledLine::new(Tone::Strong, format!("{name:<LABEL_WIDTH$}")).with(tone, text)
        })
        .collect()
}

impl BackendStatus {
    /// Returns whether this version can use the backend, its program is installed, and its login is not known to be missing.
    pub(super) fn is_ready(&self) -> bool {
        let is_there = !self.needs_program || self.program.is_some();
        self.in_this_version && is_there && self.login != Some(Login::LoggedOut)
    }

    fn version_cell(&self) -> String {
        match (&self.program, &self.version, self.needs_program) {
            (Some(_), Some(version), _) => version.clone(),
            (Some(_), None, _) => "unknown".to_owned(),
            (None, _, true) => "not installed".to_owned(),
            (None, _, false) => "built in".to_owned(),
        }
    }

    fn login_cell(&self) -> String {
        match &self.login {
            Some(Login::Key(variable) | Login::Cloud(variable)) => (*variable).to_owned(),
            Some(Login::File(path)) => {
                let beneath = self.home.as_ref().and_then(|home| path.strip_prefix(home).ok());
                let path = beneath.map_or_else(|| path.clone(), |path| Path::new("~").join(path));
                one_line(&path.to_string_lossy())
            }
            Some(Login::LoggedOut) => "logged out".to_owned(),
            Some(Login::Unknown) => "unknown".to_owned(),
            None => "-".to_owned(),
        }
    }

    /// Returns the command that installs the program, or the one that logs in.
    fn next_step(&self) -> Option<String> {
        if self.needs_program && self.program.is_none() {
            return self.install.map(str::to_owned);
        }
        let is_logged_out = self.login == Some(Login::LoggedOut);
        self.log_in.filter(|_| is_logged_out).map(str::to_owned)
    }

    /// Describes the backend: its presence, its capabilities, and untested properties.
    fn describe(&self) -> Vec<String> {
        let there = match (&self.program, &self.version, self.needs_program) {
            (Some(_), Some(version), _) => format!("found: {version}"),
            (Some(_), None, _) => "found, version unknown".to_owned(),
            (None, _, true) => "not found".to_owned(),
            (None, _, false) => "built in".to_owned(),
        };
        let login = match &self.login {
            Some(Login::Key(variable)) => format!("; key: {variable}"),
            Some(Login::Cloud(variable)) => format!("; cloud: {variable}"),
            Some(Login::File(path)) => format!("; login: {}", path.display()),
            Some(Login::LoggedOut) => "; logged out: neither a key nor a login".to_owned(),
            Some(Login::Unknown) => "; login unknown".to_owned(),
            None => String::new(),
        };
        let mut lines = vec![format!("{there}{login}"), capabilities_text(self.can)];
        if let (None, Some(install)) = (&self.program, self.install) {
            lines.push(format!("install: {install}"));
        }
        if !self.unverified.is_empty() {
            lines.push(format!("unverified: {}", self.unverified.join(", ")));
        }
        lines
    }
}

/// Formats the capabilities: `supports: stream, cost (by list price); does not support: approvals`.
fn capabilities_text(can: BackendCapabilities) -> String {
    let (mut yes, mut no) = (Vec::new(), Vec::new());
    for (what, ability) in can.entries() {
        match ability {
            CapabilitySupport::Yes => yes.push(what.to_owned()),
            CapabilitySupport::Limited(how) => yes.push(format!("{what} ({how})")),
            CapabilitySupport::No => no.push(what),
        }
    }
    match (yes.as_slice(), no.as_slice()) {
        (yes, []) => format!("supports: {}", yes.join(", ")),
        ([], no) => format!("does not support: {}", no.join(", ")),
        (yes, no) => {
            format!("supports: {}; does not support: {}", yes.join(", "), no.join(", "))
        }
    }
}

/// Detects every backend; queries the versions of their programs in parallel.
pub(super) async fn detect_backends(settings: &CliSettings) -> Vec<BackendStatus> {
    let places = CredentialPlaces { env: &settings.env, folder: &settings.cwd, mode: None };
    let mut asked = JoinSet::new();
    let mut backends: Vec<BackendStatus> = Vec::new();
    for (place, known) in BACKENDS.iter().enumerate() {
        let program = known.programs.iter().find_map(|program| find_on_path(program, settings));
        if let Some(path) = program.clone() {
            let env = settings.filtered_env(|name| ["PATH", "HOME"].contains(&name));
            asked.spawn(async move { (place, read_program_version(&path, env).await) });
        }
        backends.push(BackendStatus {
            name: known.name,
            in_this_version: known.is_available(),
            needs_program: !known.programs.is_empty(),
            install: known.install,
            log_in: known.login.command,
            home: settings.env.get("HOME").map(PathBuf::from),
            program,
            version: None,
            about: known.description,
            login: find_login(known, places),
            can: known.can,
            unverified: Vec::new(),
        });
    }
    while let Some(answer) = asked.join_next().await {
        if let Ok((place, version)) = answer {
            backends[place].version = version;
        }
    }
    for (backend, known) in backends.iter_mut().zip(&BACKENDS) {
        backend.unverified = unverified_notes(known, backend);
    }
    backends
}

/// Returns the untested properties, including an installed version that is not the tested one.
fn unverified_notes(known: &BackendSpec, backend: &BackendStatus) -> Vec<String> {
    let version = backend.version.as_deref().unwrap_or_default();
    let is_it = |tried: &&str| version.split_whitespace().any(|word| word == *tried);
    let other = known.tested_version.filter(|tried| backend.program.is_some() && !is_it(tried));
    let other = other.map(|tried| format!("this version (tested: {tried})"));
    other.into_iter().chain(known.unverified.iter().map(|what| (*what).to_owned())).collect()
}

fn find_on_path(program: &str, settings: &CliSettings) -> Option<PathBuf> {
    find_program(program, &settings.cwd, settings.env.get("PATH")?).ok()
}

/// Returns the first line of the program's version output, or `None` if none arrives in time.
async fn read_program_version(program: &Path, env: BTreeMap<String, String>) -> Option<String> {
    let mut command = Command::new(program);
    command.arg("--version").env_clear().envs(env).stdin(Stdio::null()).kill_on_drop(true);
    let output = timeout(VERSION_TIMEOUT, command.output()).await.ok()?.ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().map(one_line).find(|line| !line.is_empty())?;
    output.status.success().then(|| cut(&line, MAX_VERSION_WIDTH))
}
