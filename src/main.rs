//! Entry point of the binary: reads arguments and environment once, then runs a command, the daemon or a worker.

use std::{
    collections::BTreeMap,
    env,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use agent_worker_cli::{CliInvocation, Console, DaemonFlags, ProcessTrackingFlag};
use agent_worker_daemon::{Options, StartedBy, Tracking};
use agent_worker_host::{EXIT_SHORTAGE, close_inherited_files_on_exec, is_shortage, own_program};
use anyhow::Context as _;

/// Maximum number of threads that serve clients.
const MAX_WORKER_THREADS: usize = 16;
/// Maximum number of threads that wait for files and processes; further work queues.
const MAX_BLOCKING_THREADS: usize = 16;

fn main() -> ExitCode {
    // First, before any process is started: a command starts the daemon, the daemon workers, a worker its agent.
    close_inherited_files_on_exec();
    let mut console = Console::standard();
    match agent_worker_cli::parse(env::args_os(), &mut console) {
        Err(code) => code,
        Ok(CliInvocation::Worker) => run_worker(),
        Ok(CliInvocation::EvaluateExpressions) => {
            let served = agent_worker_expressions::run_evaluator(io::stdin().lock(), io::stdout());
            report_exit_code(served.map_err(Into::into))
        }
        Ok(CliInvocation::ToolHost) => report_exit_code(run_tool_host()),
        // One thread: the rules bind only the thread that applies them.
        Ok(CliInvocation::SandboxExec(args)) => {
            agent_worker_cli::exec_sandboxed(&args.plan, &args.command, &mut console)
        }
        Ok(CliInvocation::Sandbox(args)) => match read_cli_settings() {
            Ok(settings) => agent_worker_cli::run_sandbox(&args, &settings, &mut console),
            Err(error) => report_exit_code(Err(error)),
        },
        Ok(CliInvocation::Daemon(flags)) => report_exit_code(run_daemon(flags)),
        Ok(CliInvocation::Command(command)) => match read_cli_settings() {
            Ok(settings) => {
                let config_flag = command.config_flag();
                let settings = agent_worker_cli::CliSettings { config_flag, ..settings };
                agent_worker_cli::run(command, &settings, &mut console)
            }
            Err(error) => report_exit_code(Err(error)),
        },
    }
}

fn read_cli_settings() -> anyhow::Result<agent_worker_cli::CliSettings> {
    let env = read_environment();
    let cwd = env::current_dir().context("the current folder cannot be found")?;
    Ok(agent_worker_cli::CliSettings {
        home: resolve_home(&env, &cwd)?,
        cwd,
        inside_attempt: env.contains_key("AGENT_WORKER_ATTEMPT"),
        exe: own_program(),
        config_flag: None,
        env,
    })
}

fn run_daemon(flags: DaemonFlags) -> anyhow::Result<()> {
    let cwd = env::current_dir().unwrap_or_else(|_| "/".into());
    let env = read_environment();
    let settings = agent_worker_daemon::DaemonSettings {
        home: resolve_home(&env, &cwd)?,
        port: flags.port,
        allowed_uids: flags.allow_uid,
        options: Options {
            workers: flags.workers as usize,
            workers_per_instance: flags.workers_per_instance as usize,
            orphan_grace: flags.orphan_grace,
            kill_grace: flags.kill_grace,
            sweep_interval: flags.sweep,
        },
        drain_grace: flags.drain_grace,
        tracking: match flags.process_tracking {
            ProcessTrackingFlag::Auto => Tracking::Auto,
            ProcessTrackingFlag::Tree => Tracking::Tree,
        },
        started_by: if flags.announce { StartedBy::Command } else { StartedBy::Person },
        version: daemon_version(&env),
        fixtures: None,
        env,
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(threads.min(MAX_WORKER_THREADS))
        .max_blocking_threads(MAX_BLOCKING_THREADS)
        .build()?;
    let result = runtime.block_on(agent_worker_daemon::serve(settings));
    // A thread that still waits for a worker's lock must not keep the process alive.
    runtime.shutdown_background();
    Ok(result?)
}

/// Returns the version that the daemon reports; a debug build lets a variable override it.
fn daemon_version(env: &BTreeMap<String, String>) -> String {
    let said = env.get("AGENT_WORKER_VERSION_OVERRIDE").filter(|_| cfg!(debug_assertions));
    said.map_or(env!("CARGO_PKG_VERSION"), String::as_str).to_owned()
}

/// Runs one attempt; the exit status is `EXIT_SHORTAGE` if the machine ran out of a resource.
fn run_worker() -> ExitCode {
    let result = run_attempt();
    let is_short = result.as_ref().is_err_and(|error| {
        let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
        causes.any(is_shortage)
    });
    let code = report_exit_code(result);
    if is_short { EXIT_SHORTAGE.into() } else { code }
}

fn run_attempt() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(agent_worker_worker::run_worker(io::stdin().lock()))?)
}

fn run_tool_host() -> anyhow::Result<()> {
    let folder = env::current_dir().context("the current folder cannot be found")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(MAX_BLOCKING_THREADS)
        .build()?;
    let result = runtime.block_on(agent_worker_tools::serve_tools(folder));
    // A search that still runs must not keep the process alive.
    runtime.shutdown_background();
    Ok(result?)
}

#[expect(clippy::disallowed_methods, reason = "this is main: the one place that reads it")]
fn read_environment() -> BTreeMap<String, String> {
    env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

fn resolve_home(env: &BTreeMap<String, String>, cwd: &Path) -> anyhow::Result<PathBuf> {
    let set = |name: &str| env.get(name).filter(|value| !value.is_empty());
    if let Some(home) = set("AGENT_WORKER_HOME") {
        return Ok(cwd.join(home));
    }
    let home = set("HOME").context("neither AGENT_WORKER_HOME nor HOME is set")?;
    Ok(cwd.join(home).join(".agent-worker"))
}

fn report_exit_code(result: anyhow::Result<()>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    // If stderr is closed too, the exit code is the only report.
    let _ = writeln!(io::stderr(), "error: {error:#}");
    ExitCode::FAILURE
}
