//! `agent-worker daemon install` and `uninstall`: the daemon as a service of the user's systemd.
//!
//! Invariant: a unit that another program wrote is neither replaced nor removed.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use agent_worker_protocol::{api::ShutdownMode, shell_words::shell_quote};
use serde::Serialize;
use tokio::{
    process::Command,
    time::{Instant, sleep},
};

use super::{STOP_POLL_INTERVAL, STOP_TIMEOUT, process_of, wait_until_gone};
use crate::{
    client::{
        discovery::{self, DiscoveredDaemon, START_HINT},
        local_state::replace_file,
    },
    error::{CliError, CliErrorKind},
    input::{
        context::{CommandContext, Format},
        settings::CliSettings,
    },
    output::text,
};

const UNIT: &str = "agent-worker.service";
/// The unit of the packages; an installed unit differs in the path of the program and in its variables.
const UNIT_TEMPLATE: &str = include_str!("../../../../../packaging/agent-worker.service");
const PACKAGED_PROGRAM: &str = "ExecStart=/usr/bin/agent-worker ";
/// The beginning of each unit of ours.
const UNIT_MARK: &str = "# agent-worker: the daemon of a user.";
/// Variables of the daemon that the unit keeps if the shell has them.
const KEPT_VARIABLES: [&str; 10] = [
    "AGENT_WORKER_HOME",
    "AGENT_WORKER_WORKERS",
    "AGENT_WORKER_WORKERS_PER_INSTANCE",
    "AGENT_WORKER_ORPHAN_GRACE",
    "AGENT_WORKER_KILL_GRACE",
    "AGENT_WORKER_SWEEP",
    "AGENT_WORKER_DRAIN_GRACE",
    "AGENT_WORKER_PROCESS_TRACKING",
    "AGENT_WORKER_PORT",
    "AGENT_WORKER_ALLOW_UID",
];

/// Whether a command acts or only shows its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// The command acts.
    Everything,
    /// The command prints the steps.
    Print,
}

/// The document that `daemon install --json` and `daemon uninstall --json` print.
#[derive(Debug, Serialize)]
struct ServiceReport<'a> {
    file: &'a Path,
    /// False if the file was as requested already.
    changed: bool,
    /// Content of the file; absent after its removal.
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<&'a str>,
    commands: Vec<String>,
}

/// Installs the service and starts it.
pub(super) async fn install(
    doing: Doing,
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<(), CliError> {
    let file = unit_file(ctx.settings)?;
    let program = running_program(&ctx.settings.exe)?;
    let unit = unit_text(&program, &ctx.settings.env)?;
    let steps = [&["daemon-reload"][..], &["enable", "--now", UNIT]];
    let old = read_unit(&file)?;
    let changed = old.as_deref() != Some(&unit);
    let commands = steps.iter().map(|words| systemctl_text(words)).collect();
    let report = ServiceReport { file: &file, changed, unit: Some(&unit), commands };
    if doing == Doing::Print {
        return print_steps(&report, format, ctx);
    }
    require_user_manager(ctx.settings).await?;
    if changed {
        replace_file(&file, unit.as_bytes()).map_err(|error| change_error(&file, error))?;
    }
    systemctl(steps[0], ctx.settings).await?;
    hand_over_to_service(ctx).await?;
    systemctl(steps[1], ctx.settings).await?;
    let daemon = wait_for_daemon(ctx.settings).await?;
    if format == Format::Json {
        return ctx.console.print_json(&report);
    }
    let what = if changed { "wrote" } else { "unchanged:" };
    ctx.console.note(&format!("{what} {}", file.display()))?;
    for command in &report.commands {
        ctx.console.note(&format!("ran {command}"))?;
    }
    let pid = daemon.health.detail.as_ref().map(|detail| format!(" (pid {})", detail.pid));
    ctx.console.note(&format!("the daemon runs as a service{}", pid.unwrap_or_default()))?;
    if changed && old.is_some() {
        ctx.console
            .hint("let a running service take the new settings: agent-worker daemon restart")?;
    }
    if daemon.is_held() {
        ctx.console.hint(START_HINT)?;
    }
    if is_lingering(ctx.settings) {
        return Ok(());
    }
    ctx.console.hint("it runs while you are logged in; from boot on: loginctl enable-linger")
}

/// Stops the service and removes it; the data stays.
pub(super) async fn uninstall(
    doing: Doing,
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<(), CliError> {
    let file = unit_file(ctx.settings)?;
    let is_installed = read_unit(&file)?.is_some();
    let steps = [&["disable", "--now", UNIT][..], &["daemon-reload"]];
    let commands = steps.iter().filter(|_| is_installed).map(|words| systemctl_text(words));
    let report = ServiceReport {
        file: &file,
        changed: is_installed,
        unit: None,
        commands: commands.collect(),
    };
    if doing == Doing::Print {
        return print_steps(&report, format, ctx);
    }
    if is_installed {
        require_user_manager(ctx.settings).await?;
        systemctl(steps[0], ctx.settings).await?;
        fs::remove_file(&file).map_err(|error| change_error(&file, error))?;
        systemctl(steps[1], ctx.settings).await?;
    }
    match format {
        Format::Json => ctx.console.print_json(&report),
        Format::Text if !is_installed => ctx.console.note("the service is not installed"),
        Format::Text => {
            for command in &report.commands {
                ctx.console.note(&format!("ran {command}"))?;
            }
            ctx.console.note(&format!("removed {}", file.display()))?;
            let home = ctx.settings.home.display();
            ctx.console.hint(&format!("the data is still in {home}"))
        }
    }
}

/// Returns whether systemd started the daemon as our service.
pub(super) fn is_service(pid: u32) -> bool {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    groups.lines().any(|line| line.split('/').any(|part| part == UNIT))
}

/// Starts the service, and waits until its daemon answers.
pub(super) async fn start_service(settings: &CliSettings) -> Result<DiscoveredDaemon, CliError> {
    systemctl(&["start", UNIT], settings).await?;
    wait_for_daemon(settings).await
}

fn print_steps(
    report: &ServiceReport<'_>,
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<(), CliError> {
    if format == Format::Json {
        return ctx.console.print_json(report);
    }
    match report.unit {
        Some(unit) => {
            ctx.console.note(&format!("would write {}:", report.file.display()))?;
            ctx.console.print_raw(unit)?;
        }
        None if report.changed => {
            ctx.console.note(&format!("would remove {}", report.file.display()))?;
        }
        None => ctx.console.note("the service is not installed")?,
    }
    report.commands.iter().try_for_each(|command| ctx.console.note(&format!("would run {command}")))
}

/// Ends a daemon that is not a service; its workers keep running, and the service adopts them.
async fn hand_over_to_service(ctx: &CommandContext<'_>) -> Result<(), CliError> {
    let Some(found) = discovery::find_daemon(ctx.settings).await? else { return Ok(()) };
    let daemon = process_of(&found.health);
    if daemon.is_some_and(|daemon| is_service(daemon.pid)) {
        return Ok(());
    }
    found.client.shutdown(ShutdownMode::Handover).await?;
    wait_until_gone(daemon, ctx).await
}

async fn wait_for_daemon(settings: &CliSettings) -> Result<DiscoveredDaemon, CliError> {
    let deadline = Instant::now() + STOP_TIMEOUT;
    loop {
        match discovery::find_daemon(settings).await? {
            Some(found) => return Ok(found),
            None if Instant::now() < deadline => sleep(STOP_POLL_INTERVAL).await,
            None => {
                let what =
                    format!("the service {UNIT} was started, but its daemon does not answer");
                return Err(CliError::new(CliErrorKind::NoDaemon, what)
                    .with_hint(format!("show the reason: systemctl --user status {UNIT}")));
            }
        }
    }
}

/// Refuses to act where systemd manages no services of this user.
async fn require_user_manager(settings: &CliSettings) -> Result<(), CliError> {
    if settings.is_inside_attempt() {
        let what = "an agent cannot install or remove a service of its user";
        return Err(CliError::new(CliErrorKind::Failed, what));
    }
    let Err(error) = systemctl(&["show-environment"], settings).await else { return Ok(()) };
    let cause = error.to_report_error().message;
    let what = format!("systemd does not manage the services of this user: {cause}");
    Err(CliError::new(CliErrorKind::Failed, what).with_hint(
        "every command that needs the daemon starts it, so no service is needed; \
         to start it at boot, run `agent-worker daemon start` from your own start-up file",
    ))
}

async fn systemctl(words: &[&str], settings: &CliSettings) -> Result<(), CliError> {
    let mut command = Command::new("systemctl");
    command.arg("--user").args(words).env_clear().envs(&settings.env);
    let output = command.output().await.map_err(|error| {
        CliError::with_source(CliErrorKind::Failed, "`systemctl` could not be started", error)
    })?;
    if output.status.success() {
        return Ok(());
    }
    let output = text::one_line(&String::from_utf8_lossy(&output.stderr));
    let what = format!("`{}` failed: {output}", systemctl_text(words));
    Err(CliError::new(CliErrorKind::Failed, what))
}

fn systemctl_text(words: &[&str]) -> String {
    let words = words.iter().map(|word| shell_quote(word));
    ["systemctl --user".into()].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}

/// Returns whether systemd starts the services of this user at boot.
fn is_lingering(settings: &CliSettings) -> bool {
    let user = settings.env.get("USER").or_else(|| settings.env.get("LOGNAME"));
    user.is_some_and(|user| Path::new("/var/lib/systemd/linger").join(user).exists())
}

fn unit_file(settings: &CliSettings) -> Result<PathBuf, CliError> {
    let set = |name: &str| settings.env.get(name).filter(|value| !value.is_empty());
    let config = match (set("XDG_CONFIG_HOME"), set("HOME")) {
        (Some(folder), _) if Path::new(folder).is_absolute() => PathBuf::from(folder),
        (_, Some(home)) => settings.cwd.join(home).join(".config"),
        (_, None) => return Err(CliError::new(CliErrorKind::Failed, "HOME is not set")),
    };
    Ok(config.join("systemd/user").join(UNIT))
}

/// Returns the installed unit; refuses a unit of another origin.
fn read_unit(file: &Path) -> Result<Option<String>, CliError> {
    match fs::read_to_string(file) {
        Ok(unit) if unit.starts_with(UNIT_MARK) => Ok(Some(unit)),
        Ok(_) => {
            let what = format!("{} was not written by agent-worker", file.display());
            Err(CliError::new(CliErrorKind::Failed, what).with_hint("move the file away first"))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            let what = format!("could not read {}", file.display());
            Err(CliError::with_source(CliErrorKind::Failed, what, error))
        }
    }
}

fn change_error(file: &Path, error: io::Error) -> CliError {
    let what = format!("could not change {}", file.display());
    CliError::with_source(CliErrorKind::Failed, what, error)
}

/// Returns the path of this program, which the service runs.
fn running_program(exe: &Path) -> Result<PathBuf, CliError> {
    let program = fs::read_link(exe).unwrap_or_else(|_| exe.to_owned());
    if program.exists() {
        return Ok(program);
    }
    let what = format!("this program was replaced or removed: {}", program.display());
    Err(CliError::new(CliErrorKind::Failed, what).with_hint("run the command again"))
}

/// Returns the unit for `program` with the daemon's settings of this environment.
fn unit_text(program: &Path, env: &BTreeMap<String, String>) -> Result<String, CliError> {
    let program = unit_value(&program.to_string_lossy())?;
    let set = KEPT_VARIABLES.iter().filter_map(|name| {
        let value = env.get(*name).filter(|value| !value.is_empty())?;
        Some(format!("{name}={value}"))
    });
    let mut lines = Vec::new();
    for variable in set {
        lines.push(format!("Environment={}", unit_value(&variable)?));
    }
    lines.push(format!("ExecStart={program} "));
    let start = lines.join("\n");
    Ok(UNIT_TEMPLATE.replacen(PACKAGED_PROGRAM, &start, 1))
}

/// Returns a word as systemd reads it back, quoted if necessary.
fn unit_value(word: &str) -> Result<String, CliError> {
    if word.contains(char::is_control) {
        let what = format!("`{}` contains a control character", text::one_line(word));
        return Err(CliError::new(CliErrorKind::Failed, what)
            .with_hint("a unit of systemd cannot contain it"));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-=:,+@".contains(c);
    if word.chars().all(plain) {
        return Ok(word.to_owned());
    }
    let escaped = word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%");
    Ok(format!("\"{escaped}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_of_the_packages_is_the_unit_of_install_for_their_program() {
        let unit = unit_text(Path::new("/usr/bin/agent-worker"), &BTreeMap::new()).unwrap();
        assert_eq!(unit, UNIT_TEMPLATE);
        assert!(unit.starts_with(UNIT_MARK));
    }

    #[test]
    fn a_unit_has_the_program_and_the_settings_of_the_shell() {
        let env =
            [("AGENT_WORKER_HOME", "/a b/50%\"\\"), ("AGENT_WORKER_PORT", "0"), ("HOME", "/x")];
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let unit = unit_text(Path::new("/opt/a b/agent-worker"), &env.collect()).unwrap();
        let expected = "Environment=\"AGENT_WORKER_HOME=/a b/50%%\\\"\\\\\"\n\
                        Environment=AGENT_WORKER_PORT=0\n\
                        ExecStart=\"/opt/a b/agent-worker\" daemon --announce\n";
        assert!(unit.contains(expected), "{unit}");
        assert!(!unit.contains("/x"), "{unit}");
        let line_break =
            [("AGENT_WORKER_HOME".to_owned(), "/a\nExecStart=/evil".to_owned())].into();
        assert!(unit_text(Path::new("/usr/bin/agent-worker"), &line_break).is_err());
    }
}
