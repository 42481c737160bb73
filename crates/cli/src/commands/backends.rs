//! `agent-worker backends`: lists the backends, their presence on this machine and their capabilities.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use agent_worker_backends::{
    BACKENDS, BackendCapabilities, BackendSpec, CapabilitySupport, backend_programs,
    install_command,
};
use agent_worker_host::{ProgramDefect, find_program};
use agent_worker_models::{ProviderEndpoint, ProviderOverrides};
use agent_worker_protocol::{Api, Backend};
use serde::Serialize;
use tokio::{process::Command, task::JoinSet, time::timeout};

use crate::{
    error::CliError,
    input::{
        context::{CommandContext, Format, OutputArgs},
        settings::CliSettings,
    },
    output::{
        styled_line::{StyledLine, Tone},
        text::{cut, one_line, sanitize_for_display, wrap_words},
        verdict::RunVerdict,
    },
};

/// Time limit for a program to print its version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_VERSION_WIDTH: usize = 40;
/// Column at which the description of a backend starts.
const LABEL_WIDTH: usize = 10;
/// Width of the output without a terminal, in columns.
const DEFAULT_WIDTH: usize = 80;

/// List backends, their installed programs and their capabilities
///
/// The command runs only `--version` of each program it finds. It checks that a key or a login exists, not that it is
/// valid. Capabilities: `stream` prints the text of an agent as it arrives, `cost` is the cost of its turns, `resume`
/// continues a conversation in the next turn, `approvals` asks you before an action, `mid-turn` is the effect
/// of `send --now` on a running turn, `max_steps` and `max_tokens` limit a turn. `unverified` lists properties that have not been tested.
/// With --json the list includes backends of later versions.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker backends --json")]
pub(crate) struct Args {
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

/// The credentials that a program would use for its vendor. Their validity is not checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "seen", content = "at", rename_all = "snake_case")]
pub(super) enum Login {
    /// A variable is set.
    Key(&'static str),
    /// A file exists.
    File(PathBuf),
    /// Neither was found.
    Nothing,
}

/// Runs the command.
pub(crate) async fn run(args: &Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let backends = detect_backends(ctx.settings).await;
    match args.output.format() {
        Format::Json => ctx.console.print_json_list(&backends)?,
        Format::Text => {
            let width = ctx.console.stdout_width().unwrap_or(DEFAULT_WIDTH);
            for backend in backends.iter().filter(|backend| backend.in_this_version) {
                ctx.console
                    .print_lines(&backend_lines(backend, width.saturating_sub(LABEL_WIDTH)))?;
            }
        }
    }
    Ok(RunVerdict::Done)
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
    /// Returns whether the version, the program and the credentials are all present.
    pub(super) fn is_ready(&self) -> bool {
        let is_there = !self.needs_program || self.program.is_some();
        self.in_this_version && is_there && self.login != Some(Login::Nothing)
    }

    /// Describes the backend: its presence, its capabilities, and untested properties.
    pub(super) fn describe(&self) -> Vec<String> {
        let there = match (&self.program, &self.version, self.needs_program) {
            (Some(_), Some(version), _) => format!("found: {version}"),
            (Some(_), None, _) => "found, version unknown".to_owned(),
            (None, _, true) => "not found".to_owned(),
            (None, _, false) => "built in".to_owned(),
        };
        let login = match &self.login {
            Some(Login::Key(variable)) => format!("; key: {variable}"),
            Some(Login::File(path)) => format!("; login: {}", path.display()),
            Some(Login::Nothing) => "; no key or login found".to_owned(),
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
            program,
            version: None,
            about: known.description,
            login: detect_login(known, &settings.env),
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

/// Detects the credentials for a backend's vendor.
fn detect_login(known: &BackendSpec, env: &BTreeMap<String, String>) -> Option<Login> {
    if known.key_variables.is_empty() && known.login_files.is_empty() {
        return None;
    }
    let set = |name: &str| env.get(name).filter(|value| !value.is_empty());
    if let Some(key) = known.key_variables.iter().find(|name| set(name).is_some()) {
        return Some(Login::Key(key));
    }
    let file = known.login_files.iter().find_map(|file| {
        let (variable, rest) = file.split_once('/')?;
        Some(Path::new(set(variable)?).join(rest))
    });
    Some(file.filter(|file| file.is_file()).map_or(Login::Nothing, Login::File))
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

/// The reason why an agent's program cannot start in this environment, and the fix.
pub(super) struct ProgramProblem {
    pub(super) message: String,
    pub(super) hint: String,
}

/// Checks the program of a backend, or the key of its provider; `folder` is the agent's working folder.
pub(super) fn find_program_problem(
    backend: &Backend,
    folder: &Path,
    settings: &CliSettings,
) -> Option<ProgramProblem> {
    if let Backend::Api(api) = backend {
        return find_key_problem(api, settings);
    }
    let path = settings.env.get("PATH").map(String::as_str).unwrap_or_default();
    let mut defects: Vec<ProgramDefect> = Vec::new();
    for program in backend_programs(backend) {
        // One of the names is enough.
        defects.push(find_program(program, folder, path).err()?);
    }
    let defect = defects.iter().find(|defect| !defect.is_missing()).or(defects.first())?;
    let otherwise = if defect.name().contains('/') {
        "the agent fails until the file exists"
    } else {
        "the agent fails until you install this program"
    };
    let correction = defect.correction(install_command(defect.name()));
    let hint = correction.unwrap_or_else(|| otherwise.to_owned());
    Some(ProgramProblem { message: defect.to_string(), hint })
}

/// Checks that the key and the endpoint of a provider are in the environment.
fn find_key_problem(api: &Api, settings: &CliSettings) -> Option<ProgramProblem> {
    let Api { provider, base_url, api_key, headers, .. } = api;
    let (base_url, api_key, headers) = (base_url.clone(), api_key.clone(), headers.clone());
    let overrides = ProviderOverrides { base_url, api_key, headers };
    let defect = ProviderEndpoint::resolve(provider, &overrides, &settings.env).err()?;
    let hint = "the agent fails until a run is started with it".to_owned();
    Some(ProgramProblem { message: defect.to_string(), hint })
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
