//! `agent-worker backends`: how an agent's worker could reach a model, which of these ways exist here, and what each can do.

mod known;

use std::{
    collections::BTreeMap,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use serde::Serialize;
use tokio::{process::Command, task::JoinSet, time::timeout};

use self::known::{Ability, Can, KNOWN, Known};
use crate::{
    context::{Context, Format, Output},
    error::CliError,
    line::{Line, Tone},
    settings::Settings,
    text::{cut, harmless, one_line, wrapped},
    verdict::Verdict,
};

/// How long a program may take to say its version.
const PATIENCE: Duration = Duration::from_secs(5);
const LONGEST_VERSION: usize = 40;
/// Where what is said of a backend begins.
const MARGIN: usize = 10;
/// How wide it is for whoever has no width.
const USUAL_WIDTH: usize = 80;

/// List the backends: what this version can use, what is installed, and what each can do
///
/// A program that is found is asked for its version, and for nothing else. Of a key or a login only its place is looked at.
/// `stream` shows what an agent says as it says it, `cost` is what its turns cost, `resume` goes on with a conversation in
/// the next turn, `approvals` asks you before it does something, `mid-turn` would tell it of mail while it works. What nobody
/// has seen work stands behind `unverified`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker backends --json")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) output: Output,
}

/// One backend, as it is on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Backend {
    /// As in `backend:`.
    pub(super) name: &'static str,
    /// Whether this version can use it.
    pub(super) in_this_version: bool,
    #[serde(skip)]
    needs_program: bool,
    /// Its program, where it is installed.
    program: Option<PathBuf>,
    /// What that says of itself.
    version: Option<String>,
    /// What it is.
    about: &'static str,
    /// What it would reach its vendor with; absent where none is needed.
    login: Option<Login>,
    /// What it can do.
    can: Can,
    /// What nobody has seen work.
    unverified: Vec<String>,
}

/// What a program would reach its vendor with. Its worth is not looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "seen", content = "at", rename_all = "snake_case")]
pub(super) enum Login {
    /// A variable is set.
    Key(&'static str),
    /// A file is there.
    File(PathBuf),
    /// Neither.
    Nothing,
}

/// Runs the command.
pub(crate) async fn run(args: &Args, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    let backends = found(ctx.settings).await;
    match args.output.format() {
        Format::Json => ctx.console.json(&backends)?,
        Format::Text => {
            let width = ctx.console.answer_width().unwrap_or(USUAL_WIDTH);
            for backend in &backends {
                ctx.console.answer_all(&shown(backend, width.saturating_sub(MARGIN)))?;
            }
        }
    }
    Ok(Verdict::Done)
}

fn shown(backend: &Backend, room: usize) -> Vec<Line> {
    let said = backend.said();
    let lines = said.iter().flat_map(|said| wrapped(&harmless(said), room));
    let tone = if backend.is_ready() { Tone::Plain } else { Tone::Dim };
    lines
        .enumerate()
        .map(|(number, text)| {
            let name = if number == 0 { backend.name } else { "" };
            Line::of(Tone::Strong, format!("{name:<MARGIN$}")).and(tone, text)
        })
        .collect()
}

impl Backend {
    /// Whether nothing is missing that was looked for.
    pub(super) fn is_ready(&self) -> bool {
        let is_there = !self.needs_program || self.program.is_some();
        self.in_this_version && is_there && self.login != Some(Login::Nothing)
    }

    /// All there is to say of it: what is there, what it can do, what is not known.
    pub(super) fn said(&self) -> Vec<String> {
        if !self.in_this_version {
            let there = self
                .program
                .as_ref()
                .map_or(String::new(), |_| " (its program is installed)".into());
            return vec![format!("not in this version{there}")];
        }
        let there = match (&self.program, &self.version, self.needs_program) {
            (Some(_), Some(version), _) => format!("found: {version}"),
            (Some(_), None, _) => "found, does not say its version".to_owned(),
            (None, _, true) => "not found".to_owned(),
            (None, _, false) => "built in".to_owned(),
        };
        let login = match &self.login {
            Some(Login::Key(variable)) => format!("; key: {variable}"),
            Some(Login::File(path)) => format!("; login: {}", path.display()),
            Some(Login::Nothing) => "; no key or login seen".to_owned(),
            None => String::new(),
        };
        let mut said = vec![format!("{there}{login}"), abilities(self.can)];
        if !self.unverified.is_empty() {
            said.push(format!("unverified: {}", self.unverified.join(", ")));
        }
        said
    }
}

/// `can stream, cost (by list price); not approvals`
fn abilities(can: Can) -> String {
    let (mut yes, mut no) = (Vec::new(), Vec::new());
    for (what, ability) in can.each() {
        match ability {
            Ability::Yes => yes.push(what.to_owned()),
            Ability::So(how) => yes.push(format!("{what} ({how})")),
            Ability::No => no.push(what),
        }
    }
    match (yes.as_slice(), no.as_slice()) {
        (yes, []) => format!("can {}", yes.join(", ")),
        ([], no) => format!("no {}", no.join(", ")),
        (yes, no) => format!("can {}; not {}", yes.join(", "), no.join(", ")),
    }
}

/// Looks for every backend; their programs are asked side by side.
pub(super) async fn found(settings: &Settings) -> Vec<Backend> {
    let mut asked = JoinSet::new();
    let mut backends: Vec<Backend> = Vec::new();
    for (place, known) in KNOWN.iter().enumerate() {
        let program = known.programs.iter().find_map(|program| on_path(program, settings));
        if let Some(path) = program.clone() {
            let env = settings.env_only(|name| ["PATH", "HOME"].contains(&name));
            asked.spawn(async move { (place, version(&path, env).await) });
        }
        backends.push(Backend {
            name: known.name,
            in_this_version: known.in_this_version,
            needs_program: !known.programs.is_empty(),
            program,
            version: None,
            about: known.about,
            login: login(known, &settings.env),
            can: known.can,
            unverified: Vec::new(),
        });
    }
    while let Some(answer) = asked.join_next().await {
        if let Ok((place, version)) = answer {
            backends[place].version = version;
        }
    }
    for (backend, known) in backends.iter_mut().zip(&KNOWN) {
        backend.unverified = unverified(known, backend);
    }
    backends
}

/// What it would reach its vendor with.
fn login(known: &Known, env: &BTreeMap<String, String>) -> Option<Login> {
    if known.keys.is_empty() && known.files.is_empty() {
        return None;
    }
    let set = |name: &str| env.get(name).filter(|value| !value.is_empty());
    if let Some(key) = known.keys.iter().find(|name| set(name).is_some()) {
        return Some(Login::Key(key));
    }
    let file = known.files.iter().find_map(|file| {
        let (variable, rest) = file.split_once('/')?;
        Some(Path::new(set(variable)?).join(rest))
    });
    Some(file.filter(|file| file.is_file()).map_or(Login::Nothing, Login::File))
}

/// What nobody has seen work: of what is there the version, if it is not the one that was tried.
fn unverified(known: &Known, backend: &Backend) -> Vec<String> {
    let version = backend.version.as_deref().unwrap_or_default();
    let is_it = |tried: &&str| version.split_whitespace().any(|word| word == *tried);
    let other = known.tried.filter(|tried| backend.program.is_some() && !is_it(tried));
    let other = other.map(|tried| format!("this version (tried: {tried})"));
    other.into_iter().chain(known.unverified.iter().map(|what| (*what).to_owned())).collect()
}

fn on_path(program: &str, settings: &Settings) -> Option<PathBuf> {
    let path = settings.env.get("PATH")?;
    std::env::split_paths(path).map(|folder| folder.join(program)).find(|file| can_be_run(file))
}

fn can_be_run(file: &Path) -> bool {
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// The first line it says when asked for its version; `None` when it says none in time.
async fn version(program: &Path, env: BTreeMap<String, String>) -> Option<String> {
    let mut command = Command::new(program);
    command.arg("--version").env_clear().envs(env).stdin(Stdio::null()).kill_on_drop(true);
    let output = timeout(PATIENCE, command.output()).await.ok()?.ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().map(one_line).find(|line| !line.is_empty())?;
    output.status.success().then(|| cut(&line, LONGEST_VERSION))
}
