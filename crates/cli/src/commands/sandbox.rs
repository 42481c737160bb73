//! `agent-worker sandbox`: runs a program in the sandbox of an agent, or says what the sandbox is on this machine.

use std::{
    ffi::OsString,
    os::unix::{fs::DirBuilderExt as _, process::ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{ExitCode, ExitStatus},
};

use agent_worker_host::{Process, descendants};
use agent_worker_protocol::{
    Keyword as _, MemoryLimit, NetworkHost, SandboxLevel, SandboxMode, SandboxNetwork,
    SandboxSettings,
};
use agent_worker_sandbox::{
    SandboxError, SandboxLaunch, SandboxRequest, SandboxStart, SandboxSupport, sandbox_gaps,
    sandbox_parts,
};
use clap::ValueEnum;
use serde::Serialize;
use serde_json::json;
use tokio::process::{Child, Command};

use crate::{
    error::{CliError, CliErrorKind},
    input::{
        context::{Format, OutputArgs},
        settings::CliSettings,
        signals::InterruptSignals,
    },
    output::{
        console::Console,
        styled_line::{StyledLine, Tone},
        verdict::RunVerdict,
    },
};

/// Exit code of a program that cannot start, as in a shell.
const EXIT_NOT_STARTED: u8 = 126;
/// Exit code of a program that a signal ended, without the number of the signal.
const EXIT_SIGNAL_BASE: i32 = 128;

/// Run a program in the sandbox of an agent, or show what the sandbox protects here
///
/// The program can change the current folder, a private `/tmp` and what --write names. It can read the system, the
/// toolchains in your home folder and what --read names. Nothing else exists for it, and it has no network except for
/// what --host names. Its exit code is the exit code of this command. Without a program, prints the level of this machine and what stays open.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker sandbox -- npm test")]
pub struct SandboxArgs {
    /// Program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
    /// Level that is required [default: the best of this machine]
    #[arg(long, value_enum)]
    level: Option<LevelFlag>,
    /// Further file or folder that the program can read; repeatable
    #[arg(long, value_name = "PATH")]
    read: Vec<PathBuf>,
    /// Further file or folder that the program can change; repeatable
    #[arg(long, value_name = "PATH")]
    write: Vec<PathBuf>,
    /// Give the program the network of this machine
    #[arg(long)]
    network: bool,
    /// Host that the program can reach, such as `registry.npmjs.org`, `*.example.com` or `localhost:8080`; repeatable (level full)
    #[arg(long, value_name = "HOST", conflicts_with = "network")]
    host: Vec<NetworkHost>,
    /// Limit of the memory of the program and everything that it starts, such as 512MiB [default: 4GiB]
    #[arg(long, value_name = "SIZE")]
    memory: Option<MemoryLimit>,
    /// Print nothing but the output of the program
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// The level as a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LevelFlag {
    /// bubblewrap, Landlock and seccomp
    Full,
    /// Landlock and seccomp
    Basic,
}

/// The document that `sandbox --json` prints.
#[derive(Serialize)]
struct SandboxReport {
    level: Option<SandboxLevel>,
    #[serde(flatten)]
    support: SandboxSupport,
    open: Vec<&'static str>,
}

/// Runs the command and returns its exit code, which is that of the program if there is one.
pub fn run_sandbox(args: &SandboxArgs, settings: &CliSettings, console: &mut Console) -> ExitCode {
    let ended = if args.command.is_empty() {
        show_support(args, console).map(|()| RunVerdict::Done.exit_code().into())
    } else {
        run_program(args, settings, console)
    };
    ended.unwrap_or_else(|error| {
        let verdict = error.verdict();
        let shown = match (error.kind(), args.output.format()) {
            (CliErrorKind::OutputClosed, _) => Ok(()),
            (_, Format::Json) => console.print_json(&json!({ "error": error.to_report_error() })),
            (_, Format::Text) => console.eprint_error(&error),
        };
        // If the error cannot be printed either, the exit code is the only report.
        shown.map_or(verdict, |()| verdict).exit_code().into()
    })
}

/// Applies the plan of a sandbox to this process, which becomes the program. Returns only after a failure.
pub fn exec_sandboxed(plan: &str, command: &[OsString], console: &mut Console) -> ExitCode {
    if let Err(error) = agent_worker_sandbox::exec_in_sandbox(plan, command) {
        // Without stderr, the exit code is the only report.
        let _ = console.eprint_error(&CliError::new(CliErrorKind::Failed, error));
    }
    EXIT_NOT_STARTED.into()
}

fn show_support(args: &SandboxArgs, console: &mut Console) -> Result<(), CliError> {
    let support = SandboxSupport::detect();
    let level = chosen_level(args, &support)?;
    let network = network_of(args);
    support.require_for(&network, level).map_err(refused)?;
    let open = sandbox_gaps(level, &network);
    if args.output.format() == Format::Json {
        return console.print_json(&SandboxReport { level: Some(level), support, open });
    }
    let mut facts = vec![("level", format!("{}: {}", level.word(), sandbox_parts(level)))];
    facts.extend(support.missing.as_ref().map(|why| ("missing", why.clone())));
    facts.extend(open.iter().map(|gap| ("open", (*gap).to_owned())));
    console.print_facts(&facts)
}

fn run_program(
    args: &SandboxArgs,
    settings: &CliSettings,
    console: &mut Console,
) -> Result<ExitCode, CliError> {
    if args.output.format() == Format::Json {
        return Err(CliError::new(
            CliErrorKind::Usage,
            "`--json` is for the report without a program: the output here is the program's",
        ));
    }
    let support = SandboxSupport::detect();
    let level = chosen_level(args, &support)?;
    let private = PrivateFolder::create()?;
    let request = SandboxRequest {
        work: settings.cwd.clone(),
        private: private.0.clone(),
        env: settings.env.clone(),
        settings: SandboxSettings {
            mode: SandboxMode::On,
            read: args.read.clone(),
            write: args.write.clone(),
            network: network_of(args),
            memory: args.memory.unwrap_or_default(),
        },
        hidden: vec![settings.home.clone()],
        ..SandboxRequest::default()
    };
    let launch = SandboxLaunch::prepare(&request, level, &support).map_err(refused)?;
    if !args.quiet {
        let network = match launch.network() {
            SandboxNetwork::Off => "no network",
            SandboxNetwork::Hosts(_) => "network with the listed hosts",
            SandboxNetwork::Open => "network open",
        };
        let line = format!("sandbox {}: {}, {network}", level.word(), sandbox_parts(level));
        console.eprint_line(&StyledLine::new(Tone::Dim, line))?;
    }
    let report = |line: String| {
        // The program has the refusal, too.
        let _ = if args.quiet {
            Ok(())
        } else {
            console.eprint_line(&StyledLine::new(Tone::Dim, line))
        };
    };
    let status = wait_for_program(&launch, &args.command, &settings.exe, report)?;
    Ok(exit_code(status).into())
}

fn network_of(args: &SandboxArgs) -> SandboxNetwork {
    match (args.network, args.host.is_empty()) {
        (true, _) => SandboxNetwork::Open,
        (false, true) => SandboxNetwork::Off,
        (false, false) => SandboxNetwork::Hosts(args.host.clone()),
    }
}

fn chosen_level(args: &SandboxArgs, support: &SandboxSupport) -> Result<SandboxLevel, CliError> {
    let mode = match args.level {
        Some(LevelFlag::Full) => SandboxMode::Full,
        Some(LevelFlag::Basic) | None => SandboxMode::On,
    };
    let level = support.level_for(mode).map_err(refused)?.unwrap_or(SandboxLevel::Basic);
    Ok(if args.level == Some(LevelFlag::Basic) { SandboxLevel::Basic } else { level })
}

#[tokio::main(flavor = "current_thread")]
async fn wait_for_program(
    launch: &SandboxLaunch,
    command: &[OsString],
    exe: &Path,
    report: impl FnMut(String),
) -> Result<ExitStatus, CliError> {
    // The terminal sends its signals to the program, too; this process has to outlive it to remove what it created.
    let _signals = InterruptSignals::listen_or_fail()?;
    let SandboxStart { args, guard } = launch.start().map_err(refused)?;
    let failed =
        |error| CliError::with_source(CliErrorKind::Failed, "could not start the sandbox", error);
    let mut child = Command::new(exe).args(args).args(command).spawn().map_err(failed)?;
    let tree = process_tree(&child);
    let status = guard.run(tree, report, child.wait()).await;
    status
        .map_err(|excess| CliError::new(CliErrorKind::Failed, excess.to_string()))?
        .map_err(failed)
}

/// Returns a function that finds the processes of a sandbox.
pub(super) fn process_tree(
    child: &Child,
) -> impl Fn() -> Vec<Process> + Clone + Send + Sync + 'static {
    let root = child.id();
    move || {
        let own = root.and_then(Process::of);
        own.into_iter().chain(root.into_iter().flat_map(descendants)).collect()
    }
}

fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|signal| EXIT_SIGNAL_BASE + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

pub(super) fn refused(error: SandboxError) -> CliError {
    CliError::new(CliErrorKind::Failed, error)
}

/// A private folder for the temporary files of the program, removed at its end.
pub(super) struct PrivateFolder(PathBuf);

impl PrivateFolder {
    pub(super) fn create() -> Result<Self, CliError> {
        let name = format!("agent-worker-sandbox-{}", uuid::Uuid::now_v7());
        let path = std::env::temp_dir().join(name);
        std::fs::DirBuilder::new().mode(0o700).create(&path).map_err(|error| {
            CliError::with_source(CliErrorKind::Failed, "could not create a private folder", error)
        })?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        // A file that stays is in the folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
