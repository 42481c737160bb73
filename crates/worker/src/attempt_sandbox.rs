//! The sandbox of an attempt's program: its level on this machine, and the paths that the program needs.

use std::path::{Path, PathBuf};

use agent_worker_host::{Process, descendants, own_program};
use agent_worker_protocol::{
    FailureClass, JobSandbox, NetworkHost, SandboxInForce, SandboxLevel, WorkerJob,
};
use agent_worker_sandbox::{
    SandboxError, SandboxGuard, SandboxLaunch, SandboxRequest, SandboxSupport, sandbox_gaps,
};

use crate::{
    attachments::attachment_folder,
    event_reporter::EventReporter,
    turn::{TurnContext, TurnFailure, TurnFolders},
};

/// The sandbox that an attempt uses.
#[derive(Clone, Debug)]
pub(crate) struct AttemptSandbox {
    job: JobSandbox,
    level: SandboxLevel,
    support: SandboxSupport,
    /// The home of the daemon, which the program does not see.
    daemon_home: Option<PathBuf>,
}

impl AttemptSandbox {
    /// Chooses the sandbox of a job; none if the job has none. Fails on a machine without the required level.
    pub(crate) fn choose(job: &WorkerJob) -> Result<Option<Self>, SandboxError> {
        let Some(sandbox) = job.sandbox.clone() else { return Ok(None) };
        let support = SandboxSupport::detect();
        let level = support.level_for(sandbox.settings.mode)?;
        if let Some(level) = level {
            support.require_for(&sandbox.settings.network, level)?;
        }
        let daemon_home = job.socket.parent().map(Path::to_owned);
        Ok(level.map(|level| Self { job: sandbox, level, support, daemon_home }))
    }

    /// Returns the description for the first event of the attempt.
    pub(crate) fn in_force(&self) -> SandboxInForce {
        let open = sandbox_gaps(self.level, &self.job.settings.network);
        SandboxInForce { level: self.level, open: open.into_iter().map(str::to_owned).collect() }
    }

    /// Returns the hosts that the sandbox may reach, if they are listed.
    pub(crate) fn hosts(&self) -> Option<&[NetworkHost]> {
        self.job.settings.network.hosts()
    }

    /// Prepares the sandbox for a program, which can also change `writable` and reach the port of its tools.
    pub(crate) fn prepare(
        &self,
        program: &Path,
        writable: Vec<PathBuf>,
        tool_port: Option<u16>,
        context: &TurnContext,
    ) -> Result<SandboxLaunch, TurnFailure> {
        let TurnFolders { attempt, keep } = &context.folders;
        let read = program_paths(program).chain([attempt.clone()]).collect();
        let write = writable.into_iter().chain([keep.clone()]).collect();
        self.launch(read, write, tool_port, context)
    }

    /// Prepares the sandbox for the built-in tools, which read the attached files and nothing else of the attempt.
    pub(crate) fn prepare_for_tools(
        &self,
        context: &TurnContext,
    ) -> Result<SandboxLaunch, TurnFailure> {
        let attached = attachment_folder(&context.request.attachments).map(Path::to_owned);
        // A rule for the file holds also where the process finds it by `/proc/self/exe`.
        let own = own_program().canonicalize().ok();
        let read = own.into_iter().chain(attached).collect();
        self.launch(read, Vec::new(), None, context)
    }

    fn launch(
        &self,
        read: Vec<PathBuf>,
        write: Vec<PathBuf>,
        port: Option<u16>,
        context: &TurnContext,
    ) -> Result<SandboxLaunch, TurnFailure> {
        let TurnContext { child_env, folders, .. } = context;
        let request = SandboxRequest {
            work: child_env.cwd.clone(),
            private: folders.keep.join("sandbox"),
            env: child_env.env.clone(),
            settings: self.job.settings.clone(),
            read,
            write,
            read_only: self.job.read_only.clone(),
            outside: self.job.outside.clone(),
            hidden: self.daemon_home.iter().cloned().collect(),
            ports: port.into_iter().collect(),
        };
        SandboxLaunch::prepare(&request, self.level, &self.support).map_err(sandbox_failure)
    }
}

/// The sandbox of a running program. Keep it until the program has ended.
pub(crate) struct RunningSandbox {
    pub(crate) launch: SandboxLaunch,
    pub(crate) guard: SandboxGuard,
}

impl RunningSandbox {
    /// Guards the program while `work` runs. A program that uses too much memory fails the turn.
    pub(crate) async fn run<T>(
        self,
        reporter: &EventReporter,
        work: impl Future<Output = Result<T, TurnFailure>>,
    ) -> Result<T, TurnFailure> {
        let Self { launch: _launch, guard } = self;
        let done = guard.run(processes_of_worker, |line| reporter.record_note(line), work).await;
        done.unwrap_or_else(|excess| Err(TurnFailure::new(FailureClass::Crash, excess.to_string())))
    }
}

/// Returns every process below this worker: those of the sandbox, also if they have lost their parents.
pub(crate) fn processes_of_worker() -> Vec<Process> {
    descendants(std::process::id())
}

/// Converts the reason why a sandbox is impossible. A retry finds the same.
pub(crate) fn sandbox_failure(error: SandboxError) -> TurnFailure {
    match error {
        SandboxError::System { doing, error } => TurnFailure::from_io_error(doing, &error),
        error => TurnFailure::new(FailureClass::Fatal, error.to_string()),
    }
}

/// Returns the folders that a program needs of itself: its own, that of the file behind its links, and for a program of npm
/// the packages beside it.
fn program_paths(program: &Path) -> impl Iterator<Item = PathBuf> {
    let real = program.canonicalize().unwrap_or_else(|_| program.to_owned());
    let packages = real.ancestors().filter(|folder| folder.ends_with("node_modules")).last();
    let of_file = packages.map_or_else(|| real.clone(), Path::to_owned);
    [program.to_owned(), of_file].into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_npm_needs_all_packages_beside_it_and_another_only_itself() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let package = root.join("lib/node_modules/tool/node_modules/inner");
        std::fs::create_dir_all(&package).unwrap();
        std::fs::write(package.join("cli.js"), "").unwrap();
        std::os::unix::fs::symlink(package.join("cli.js"), root.join("tool")).unwrap();
        let paths: Vec<_> = program_paths(&root.join("tool")).collect();
        assert_eq!(paths, [root.join("tool"), root.join("lib/node_modules")]);
        let alone = root.join("lib/agent.sh");
        let paths: Vec<_> = program_paths(&alone).collect();
        assert_eq!(paths, [alone.clone(), alone]);
    }
}
