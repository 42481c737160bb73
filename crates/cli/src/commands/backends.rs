//! `agent-worker backends`: how an agent's worker could reach a model, and which of these ways exist here.

use std::{
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use serde::Serialize;
use tokio::{process::Command, task::JoinSet, time::timeout};

use crate::{
    context::{Context, Format, Output},
    error::CliError,
    settings::Settings,
    table::Column::{Name, Text},
    text::{cut, one_line},
    verdict::Verdict,
};

/// How long a program may take to say its version.
const PATIENCE: Duration = Duration::from_secs(5);
const LONGEST_VERSION: usize = 40;

/// List the backends: what this version can use, and what is installed
///
/// A program that is found is asked for its version, and for nothing else.
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
    /// The program it needs, if any.
    #[serde(skip)]
    needs: Option<&'static str>,
    /// That program, where it is installed.
    pub(super) program: Option<PathBuf>,
    /// What that says of itself.
    pub(super) version: Option<String>,
    /// What it is.
    pub(super) about: &'static str,
}

/// Every backend there is or will be: its name, its program, what it is.
const KNOWN: [(&str, Option<&str>, &str); 9] = [
    ("mock", None, "follows a script: no model, no key, no cost; for tests and for trying out"),
    ("api", None, "a model's API, asked directly"),
    ("claude", Some("claude"), "Claude Code"),
    ("codex", Some("codex"), "Codex CLI"),
    ("cursor", Some("cursor-agent"), "Cursor's CLI"),
    ("opencode", Some("opencode"), "opencode"),
    ("gemini", Some("gemini"), "Gemini CLI"),
    ("acp", None, "any agent that speaks the Agent Client Protocol"),
    ("command", None, "any program that reads a line of JSON"),
];
/// Those this version can use.
const USABLE: [&str; 5] = ["mock", "claude", "codex", "gemini", "command"];

/// Runs the command.
pub(crate) async fn run(args: &Args, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    let backends = found(ctx.settings).await;
    match args.output.format() {
        Format::Json => ctx.console.json(&backends)?,
        Format::Text => {
            let rows: Vec<_> = backends.iter().map(row).collect();
            ctx.console.table(
                [Name("BACKEND"), Text("USABLE"), Text("INSTALLED"), Text("WHAT IT IS")],
                &rows,
            )?;
        }
    }
    Ok(Verdict::Done)
}

fn row(backend: &Backend) -> [String; 4] {
    let usable = match (backend.in_this_version, backend.is_ready()) {
        (false, _) => "not in this version",
        (true, true) => "yes",
        (true, false) => "no",
    };
    [backend.name.to_owned(), usable.to_owned(), backend.installed(), backend.about.to_owned()]
}

impl Backend {
    /// Whether nothing is missing but, for some, a login or a key.
    pub(super) fn is_ready(&self) -> bool {
        self.in_this_version && (self.needs.is_none() || self.program.is_some())
    }

    /// Whether it is installed, and which version.
    pub(super) fn installed(&self) -> String {
        match (&self.program, &self.version, self.needs) {
            (Some(_), Some(version), _) => version.clone(),
            (Some(_), None, _) => "installed, version unknown".to_owned(),
            (None, _, Some(_)) => "not installed".to_owned(),
            (None, _, None) if self.in_this_version => "built in".to_owned(),
            (None, _, None) => "needs no program".to_owned(),
        }
    }
}

/// Looks for every backend; their programs are asked side by side.
pub(super) async fn found(settings: &Settings) -> Vec<Backend> {
    let mut asked = JoinSet::new();
    let mut backends: Vec<Backend> = Vec::new();
    for (place, (name, needs, about)) in KNOWN.into_iter().enumerate() {
        let program = needs.and_then(|program| on_path(program, settings));
        if let Some(path) = program.clone() {
            let env = settings.env_only(|name| ["PATH", "HOME"].contains(&name));
            asked.spawn(async move { (place, version(&path, env).await) });
        }
        let in_this_version = USABLE.contains(&name);
        backends.push(Backend { name, in_this_version, needs, program, version: None, about });
    }
    while let Some(answer) = asked.join_next().await {
        if let Ok((place, version)) = answer {
            backends[place].version = version;
        }
    }
    backends
}

fn on_path(program: &str, settings: &Settings) -> Option<PathBuf> {
    let path = settings.env.get("PATH")?;
    std::env::split_paths(path).map(|folder| folder.join(program)).find(|file| can_be_run(file))
}

fn can_be_run(file: &Path) -> bool {
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// The first line it says when asked for its version; `None` when it says none in time.
async fn version(
    program: &Path,
    env: std::collections::BTreeMap<String, String>,
) -> Option<String> {
    let mut command = Command::new(program);
    command.arg("--version").env_clear().envs(env).stdin(Stdio::null()).kill_on_drop(true);
    let output = timeout(PATIENCE, command.output()).await.ok()?.ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().map(one_line).find(|line| !line.is_empty())?;
    output.status.success().then(|| cut(&line, LONGEST_VERSION))
}
