//! The private folder of the demo: a home with its own daemon, and a project with the workflow file.
//!
//! Invariant: no setting of the user's daemon is used. The variables `AGENT_WORKER_*` are dropped, and the port is any
//! free one.

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use agent_worker_host::{MAX_SOCKET_PATH_BYTES, Process};
use agent_worker_protocol::{
    BASE_ENV, RunMode,
    api::{RunRequest, ShutdownMode},
};
use rustix::process::Signal;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::captions::Caption;
use crate::{
    client::{daemon_client::DaemonClient, discovery},
    commands::daemon,
    error::{CliError, CliErrorKind},
    input::{
        context::{CommandContext, Format},
        settings::CliSettings,
    },
    output::{console::Console, styled_line::Tone},
};

const TEAM_TEMPLATE: &str = include_str!("team.yaml");
/// Placeholder in the template, for the duration of the coder's attempts.
const WORK: &str = "WORK";
/// Time limit for the end of a killed or stopped process.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The folder of the demo and the daemon in it.
pub(super) struct DemoHome {
    folder: PathBuf,
    settings: CliSettings,
    daemon: Option<Process>,
}

impl DemoHome {
    /// Creates the folder, which only its owner can enter.
    pub(super) fn create(settings: &CliSettings) -> Result<Self, CliError> {
        let id = Uuid::now_v7().simple().to_string();
        let name = format!("agent-worker-demo-{}", &id[id.len() - 8..]);
        let folder = temporary_folder(settings, &name).join(&name);
        let created = DirBuilder::new().mode(0o700).create(&folder);
        let created = created.and_then(|()| fs::create_dir(folder.join("project")));
        created.map_err(|error| {
            let what = format!("could not create the folder of the demo, {}", folder.display());
            CliError::with_source(CliErrorKind::Failed, what, error)
                .with_hint("set TMPDIR to a folder that you can write to")
        })?;
        let mut env = settings.env.clone();
        env.retain(|name, _| !name.starts_with("AGENT_WORKER_"));
        env.insert("AGENT_WORKER_PORT".to_owned(), "0".to_owned());
        let home = folder.join("home");
        let config_flag = Some("none".into());
        let settings = CliSettings { home, env, config_flag, ..settings.clone() };
        Ok(Self { folder, settings, daemon: None })
    }

    /// Returns the folder in which the run's commands are executed.
    pub(super) fn project(&self) -> PathBuf {
        self.folder.join("project")
    }

    /// Writes the workflow file and returns the request that runs it; each attempt of the coder takes `work`.
    pub(super) fn run_request(&self, work: Duration) -> Result<RunRequest, CliError> {
        let file = self.project().join("demo.yaml");
        let text = TEAM_TEMPLATE.replace(WORK, &format!("{}ms", work.as_millis()));
        fs::write(&file, text).map_err(|error| write_error(&file, error))?;
        Ok(RunRequest {
            source: None,
            file,
            cwd: self.project(),
            tag: None,
            mode: RunMode::Run,
            params: [].into(),
            env: self.settings.filtered_env(|name| BASE_ENV.contains(&name)),
            replace: false,
            defaults: None,
        })
    }

    /// Creates an empty file in the project, for which an agent waits.
    pub(super) fn create_file(&self, name: &str) -> Result<(), CliError> {
        let path = self.project().join(name);
        fs::write(&path, "").map_err(|error| write_error(&path, error))
    }

    /// Starts a daemon and returns its client and its pid.
    pub(super) async fn start_daemon(&mut self) -> Result<(DaemonClient, u32), CliError> {
        let found = discovery::discover_or_start(&self.settings).await?;
        let unknown = || CliError::new(CliErrorKind::Failed, "the daemon of the demo has no pid");
        let process = daemon::process_of(&found.health).ok_or_else(unknown)?;
        self.daemon = Some(process);
        Ok((found.client, process.pid))
    }

    /// Sends SIGKILL to the daemon and waits for its end.
    pub(super) async fn kill_daemon(&self) -> Result<(), CliError> {
        let Some(process) = self.daemon else { return Ok(()) };
        let killed = process.signal(Signal::KILL);
        killed.map_err(|error| {
            CliError::with_source(CliErrorKind::Failed, "could not kill the daemon", error)
        })?;
        wait_for_exit(process).await
    }

    /// Ends the daemon and every process of the team, also those that a killed daemon left.
    pub(super) async fn stop_daemon(&self) -> Result<(), CliError> {
        if !self.settings.home.exists() {
            return Ok(());
        }
        let mut silent = Console::for_programs(Box::new(io::sink()), Box::new(io::sink()));
        let mut ctx = CommandContext { settings: &self.settings, console: &mut silent };
        daemon::stop(ShutdownMode::Now, Format::Text, &mut ctx).await?;
        // A daemon releases its home before it exits.
        match self.daemon {
            Some(process) => wait_for_exit(process).await,
            None => Ok(()),
        }
    }

    /// Removes the folder.
    pub(super) fn remove(&self) -> Result<(), CliError> {
        fs::remove_dir_all(&self.folder).map_err(|error| {
            let what = format!("could not remove {}", self.folder.display());
            CliError::with_source(CliErrorKind::Failed, what, error)
        })
    }

    /// Names the kept folder, and the command that reads the channel.
    pub(super) fn kept_lines(&self) -> [Caption; 3] {
        let (home, project) = (self.settings.home.display(), self.project());
        let command = format!(
            "cd {} && AGENT_WORKER_HOME={home} agent-worker peek @demo -n 50",
            project.display()
        );
        [
            Caption::new(Tone::Plain, ""),
            Caption::new(Tone::Plain, format!("The folder is kept: {}", self.folder.display())),
            Caption::new(Tone::Plain, format!("Read the channel: {command}")),
        ]
    }
}

/// Returns the folder for temporary files: `TMPDIR`, unless the path of a socket below it would be too long.
fn temporary_folder(settings: &CliSettings, name: &str) -> PathBuf {
    let set = settings.env.get("TMPDIR").filter(|path| !path.is_empty());
    let set = set.map(|path| settings.cwd.join(path));
    let fits = |path: &PathBuf| {
        path.join(name).join("home/daemon.sock").as_os_str().len() <= MAX_SOCKET_PATH_BYTES
    };
    set.filter(fits).unwrap_or_else(|| PathBuf::from("/tmp"))
}

async fn wait_for_exit(process: Process) -> Result<(), CliError> {
    let deadline = Instant::now() + EXIT_TIMEOUT;
    while process.is_alive() {
        if Instant::now() >= deadline {
            let what = format!("the daemon of the demo (pid {}) does not end", process.pid);
            return Err(CliError::new(CliErrorKind::Failed, what));
        }
        sleep(EXIT_POLL_INTERVAL).await;
    }
    Ok(())
}

fn write_error(path: &Path, error: io::Error) -> CliError {
    let what = format!("could not write {}", path.display());
    CliError::with_source(CliErrorKind::Failed, what, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(variables: &[(&str, &str)]) -> CliSettings {
        let env = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        CliSettings {
            home: "/home/ada/.agent-worker".into(),
            cwd: "/project".into(),
            env: env.collect(),
            inside_attempt: false,
            exe: "/proc/self/exe".into(),
            config_flag: None,
        }
    }

    #[test]
    fn a_folder_whose_socket_path_would_be_too_long_is_not_used() {
        let long = format!("/{}", "x".repeat(80));
        for (variable, expected) in
            [("/var/tmp", "/var/tmp"), ("", "/tmp"), ("here", "/project/here"), (&long, "/tmp")]
        {
            let settings = settings(&[("TMPDIR", variable)]);
            let folder = temporary_folder(&settings, "agent-worker-demo-12345678");
            assert_eq!(folder, PathBuf::from(expected), "{variable}");
        }
    }

    #[test]
    fn the_daemon_of_the_demo_gets_no_setting_of_the_users_daemon() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_string_lossy();
        let user = settings(&[
            ("TMPDIR", &path),
            ("PATH", "/bin"),
            ("AGENT_WORKER_HOME", "/home/ada/.agent-worker"),
            ("AGENT_WORKER_PORT", "5100"),
            ("AGENT_WORKER_WORKERS", "1"),
        ]);
        let demo = DemoHome::create(&user).unwrap();
        assert!(demo.settings.home.starts_with(folder.path()), "{:?}", demo.settings.home);
        let ours: Vec<_> =
            demo.settings.env.iter().filter(|(name, _)| name.starts_with("AGENT_WORKER")).collect();
        assert_eq!(ours, [(&"AGENT_WORKER_PORT".to_owned(), &"0".to_owned())]);
        assert_eq!(demo.settings.env["PATH"], "/bin");
        demo.remove().unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_workflow_file_is_valid() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_string_lossy();
        let demo = DemoHome::create(&settings(&[("TMPDIR", &path)])).unwrap();
        let request = demo.run_request(Duration::from_millis(1_200)).unwrap();
        let team = agent_worker_workflow::load(&request.file).unwrap();
        assert_eq!(team.agents.len(), 4);
        assert!(fs::read_to_string(&request.file).unwrap().contains("sleep: 1200ms"));
    }
}
