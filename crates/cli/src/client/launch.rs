//! Launches a run from a workflow file, for `run`, `start`, `up` and `restart`: loads the file, parses its parameters,
//! sends the request, follows the run.

use std::{
    collections::BTreeMap,
    fs::File,
    io,
    path::{Path, PathBuf},
};

use agent_worker_backends::takes_variable;
use agent_worker_protocol::{
    BASE_ENV, RunMode, Tag,
    api::{RunRequest, RunStarted},
};
use agent_worker_workflow::{
    AgentProblem, OpenFolder, Workflow, locate_agent_problems, nearest_workflow_file, unset_env,
};
use clap::Args;

use crate::{
    client::{daemon_client::DaemonClient, local_state::LocalState},
    error::{CliError, CliErrorKind},
    input::{
        argument_values::read_text,
        config_file::ConfigFile,
        context::{CommandContext, Format, OutputArgs},
        param_values::ParamSources,
        params::{WorkflowParamsParser, requests_help},
        signals::InterruptSignals,
    },
    live::{
        bell::BellSetting,
        follower::{FollowUntil, Follower, InputLinePolicy, OnSignal, ResumePoint},
        view::Verbosity,
    },
    output::{
        exit_report::{self, finish_follow},
        github::GithubJob,
        text::one_line,
        verdict::RunVerdict,
    },
    programs::check::{Certainty, check_team},
};

/// Path that stands for stdin. A file of this name is `./-`.
pub(crate) const STDIN_SOURCE: &str = "-";

/// Name of the workflow file in a folder that is given instead of a file.
const FOLDER_FILE: &str = "workflow.yaml";

/// The workflow file, our own switches, and the file's parameters behind it.
#[derive(Debug, Args)]
pub(crate) struct LaunchArgs {
    /// Path of the workflow file, or of a folder with a `workflow.yaml`; `-` reads stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    switches: Switches,
    /// Parameters of the file, such as `--target main`; list them with `FILE --help`
    #[arg(value_name = "--PARAM VALUE", trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// Switches of our own, allowed before and behind the file.
#[derive(Clone, Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub(crate) struct Switches {
    /// Tag of the instance, such as `pr-123` [default: main]
    #[arg(long, visible_alias = "instance", value_name = "TAG")]
    tag: Option<Tag>,
    /// Show tool calls and attempts too
    #[arg(long, short)]
    verbose: bool,
    /// Return before the end of the run
    #[arg(long, visible_alias = "background")]
    detach: bool,
    /// Stop the live run of this instance first
    #[arg(long)]
    replace: bool,
    /// No effect: agents always start on demand
    #[arg(long)]
    lazy: bool,
    /// Start although the program of an agent is missing or logged out
    #[arg(long)]
    allow_missing: bool,
    /// Read parameters from this YAML or JSON file
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) params_file: Option<PathBuf>,
    /// Print plain lines and read no key [default: if CI is set]
    #[arg(long)]
    ci: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// The command that starts a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaunchCommand {
    /// Name of the command.
    pub(crate) command: &'static str,
    /// `run` or `start`.
    pub(crate) mode: RunMode,
}

/// A run that a command is about to request.
pub(crate) struct LaunchPlan {
    /// Absolute path of the workflow file.
    pub(crate) file: PathBuf,
    /// Text of a workflow that is in no file.
    pub(crate) source: Option<String>,
    /// Folder for the run's commands.
    pub(crate) cwd: PathBuf,
    /// Tag of the instance.
    pub(crate) tag: Option<Tag>,
    /// `run` or `start`.
    pub(crate) mode: RunMode,
    /// Values for the file's parameters.
    pub(crate) params: BTreeMap<String, String>,
    /// Treatment of a live run.
    pub(crate) existing_run: ExistingRunPolicy,
    /// Configuration file of the user.
    pub(crate) config: ConfigFile,
}

/// The treatment of a live run of the same instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExistingRunPolicy {
    /// The live run stays, and the new one is refused.
    Keep,
    /// The live run is stopped first.
    Replace,
}

/// The treatment of agents whose program is missing or logged out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnusablePrograms {
    /// The run is not started.
    Refuse,
    /// The run is started with a warning; the agents fail their first turn.
    Allow,
}

/// Starts a run and follows it as far as requested.
pub(crate) async fn launch(
    args: LaunchArgs,
    launch_command: LaunchCommand,
    ctx: &mut CommandContext<'_>,
) -> Result<RunVerdict, CliError> {
    let format = args.format();
    if args.is_for_ci() {
        ctx.console.become_noninteractive();
    }
    exit_report::print_error_in_envelope(
        Box::pin(launch_run(args, launch_command, ctx)).await,
        format,
        ctx,
    )
}

async fn launch_run(
    args: LaunchArgs,
    launch_command: LaunchCommand,
    ctx: &mut CommandContext<'_>,
) -> Result<RunVerdict, CliError> {
    let mode = launch_command.mode;
    let Some((plan, workflow, switches)) = plan_run(args, launch_command, ctx)? else {
        return Ok(RunVerdict::Done);
    };
    let bell = BellSetting::of(&plan.config);
    let request = plan.request(&workflow, ctx)?;
    let policy =
        if switches.allow_missing { UnusablePrograms::Allow } else { UnusablePrograms::Refuse };
    check_programs(&workflow, &request, policy, ctx)?;
    for problem in workflow.unknown_mentions() {
        ctx.console.warn(&problem.why)?;
        ctx.console.hint(&problem.hint)?;
        if let Some(job) = GithubJob::detect(ctx.settings) {
            job.report_warning(&request.file, &problem.why, ctx.console)?;
        }
    }
    let client = ctx.connect_or_start().await?;
    let mut signals = InterruptSignals::listen_or_fail()?;
    let started = start_run(&client, &request, &mut signals).await?;
    let format = switches.output.format();
    if switches.detach && mode == RunMode::Run {
        // No event of the run was shown.
        LocalState::open(ctx.settings).save_last_shown_event(started.run, "").ok();
        return exit_report::print_detached_run(&started, format, ctx);
    }
    let follower = Follower {
        started: started.clone(),
        mode,
        on_signal: match mode {
            RunMode::Run => OnSignal::Stop,
            RunMode::Start => OnSignal::Leave,
        },
        until: if switches.detach { FollowUntil::Running } else { FollowUntil::Ended },
        resume_point: ResumePoint::Start,
        detail: if switches.verbose { Verbosity::Verbose } else { Verbosity::Normal },
        input: match (mode, switches.detach) {
            (RunMode::Start, false) => InputLinePolicy::Offered,
            (RunMode::Start, true) | (RunMode::Run, _) => InputLinePolicy::Absent,
        },
        answer_destination: exit_report::answer_destination(format),
        bell,
        client,
    };
    finish_follow(follower.follow(ctx, &mut signals).await?, &started, format, ctx)
}

/// Loads the workflow and reads the values of its parameters; none if the arguments request help, which is printed.
fn plan_run(
    args: LaunchArgs,
    launch_command: LaunchCommand,
    ctx: &mut CommandContext<'_>,
) -> Result<Option<(LaunchPlan, Workflow, Switches)>, CliError> {
    let mode = launch_command.mode;
    let file = resolve_workflow_file(&ctx.settings.cwd, &args.file)?;
    let config = ConfigFile::read(ctx.settings)?;
    let source = read_source(&args.file)?;
    let workflow = match &source {
        Some(text) => load_source(text, &file, &config)?,
        None => load_workflow(&file, &args.file, &config)?,
    };
    let asked = WorkflowParamsParser { launch_command, file: &args.file, params: &workflow.params };
    if requests_help(&args.rest) {
        ctx.console.print_help(&asked.help())?;
        return Ok(None);
    }
    let (switches, typed) = asked.parse(args.switches, &args.rest)?;
    let sources = ParamSources {
        params: &workflow.params,
        typed,
        file: switches.params_file.as_deref(),
        cwd: &ctx.settings.cwd,
        stdin_use: source.as_ref().map(|_| "the workflow"),
    };
    let params = sources.read(io::stdin().lock())?;
    let (cwd, tag) = (ctx.settings.cwd.clone(), switches.tag.clone());
    let other = if switches.replace { ExistingRunPolicy::Replace } else { ExistingRunPolicy::Keep };
    let plan = LaunchPlan { file, source, cwd, tag, mode, params, existing_run: other, config };
    Ok(Some((plan, workflow, switches)))
}

/// Requests a run from the daemon.
pub(crate) async fn start_run(
    client: &DaemonClient,
    request: &RunRequest,
    signals: &mut InterruptSignals,
) -> Result<RunStarted, CliError> {
    match signals.run_until_second(client.run_start(request)).await {
        Some(started) => Ok(started?),
        None => Err(CliError::new(
            CliErrorKind::Detached,
            "interrupted before the daemon reported whether the run exists",
        )
        .with_hint("check: agent-worker ls")),
    }
}

/// Checks the programs of the agents before a daemon is involved. A program that a setup command may still create is only a
/// warning.
pub(crate) fn check_programs(
    workflow: &Workflow,
    request: &RunRequest,
    policy: UnusablePrograms,
    ctx: &mut CommandContext<'_>,
) -> Result<(), CliError> {
    let folder = request.file.parent().unwrap_or(Path::new("/"));
    let problems = check_team(workflow, folder, &request.cwd, ctx.settings);
    let is_refused = |certainty: &Certainty| {
        policy == UnusablePrograms::Refuse && *certainty == Certainty::Certain
    };
    let (refused, allowed): (Vec<_>, Vec<_>) =
        problems.into_iter().partition(|(_, certainty)| is_refused(certainty));
    let refused: Vec<AgentProblem> = refused
        .into_iter()
        .map(|(problem, _)| {
            let hint = format!("{}; or start without it: --allow-missing", problem.hint);
            AgentProblem { hint, ..problem }
        })
        .collect();
    if let Some(first) = refused.first().cloned() {
        let opened = File::open(&request.file).ok();
        let located =
            opened.and_then(|opened| locate_agent_problems(opened, &request.file, refused));
        return Err(match located {
            Some(error) => CliError::from(error).with_kind(CliErrorKind::UnusableProgram),
            None => {
                CliError::new(CliErrorKind::UnusableProgram, first.message).with_hint(first.hint)
            }
        });
    }
    for (problem, _) in allowed {
        ctx.console.warn(&problem.message)?;
        ctx.console.hint(&problem.hint)?;
        if let Some(job) = GithubJob::detect(ctx.settings) {
            job.report_warning(&request.file, &problem.message, ctx.console)?;
        }
    }
    Ok(())
}

impl LaunchPlan {
    /// Builds the request; reports errors in the file here, where they can be rendered with the affected lines.
    pub(crate) fn request(
        self,
        workflow: &Workflow,
        ctx: &CommandContext<'_>,
    ) -> Result<RunRequest, CliError> {
        require_kickoff(workflow, self.mode)?;
        let env = ctx
            .settings
            .filtered_env(|name| is_forwarded_variable(name, workflow, &ctx.settings.env));
        let opened = File::open(&self.file).ok();
        let unset = opened.and_then(|opened| unset_env(opened, &self.file, workflow, &env));
        if let Some(error) = unset {
            return Err(error.into());
        }
        let folder = self.file.parent().unwrap_or(Path::new("/"));
        workflow.scope(&self.params, &env, &self.tag.clone().unwrap_or_default(), folder)?;
        Ok(RunRequest {
            file: self.file,
            source: self.source,
            cwd: self.cwd,
            tag: self.tag,
            mode: self.mode,
            params: self.params,
            env,
            replace: self.existing_run == ExistingRunPolicy::Replace,
            defaults: self.config.run_defaults(&workflow.notify, ctx.settings),
        })
    }
}

impl LaunchArgs {
    /// Adds `--help` behind the file, which requests the list of its parameters.
    #[must_use]
    pub(crate) fn with_help_requested(mut self) -> Self {
        self.rest.push("--help".to_owned());
        self
    }

    /// Sets `--detach`, for a command that always returns while the run continues.
    #[must_use]
    pub(crate) fn with_detach(mut self) -> Self {
        self.switches.detach = true;
        self
    }

    /// Returns the output format, also if the other arguments cannot be parsed.
    fn format(&self) -> Format {
        let behind = self.rest.iter().any(|word| word == "--json");
        if behind { Format::Json } else { self.switches.output.format() }
    }

    /// Returns whether the output is for a CI service, also if the other arguments cannot be parsed.
    fn is_for_ci(&self) -> bool {
        self.switches.ci || self.rest.iter().any(|word| word == "--ci")
    }
}

impl Switches {
    /// Merges these switches with those behind the file.
    #[must_use]
    pub(crate) fn merge(self, later: Self) -> Self {
        Self {
            tag: later.tag.or(self.tag),
            verbose: self.verbose || later.verbose,
            detach: self.detach || later.detach,
            replace: self.replace || later.replace,
            lazy: self.lazy || later.lazy,
            allow_missing: self.allow_missing || later.allow_missing,
            params_file: later.params_file.or(self.params_file),
            ci: self.ci || later.ci,
            output: self.output.merge(later.output),
        }
    }
}

/// Returns the text of a workflow from stdin, if the path is `-`.
pub(crate) fn read_source(typed: &Path) -> Result<Option<String>, CliError> {
    if typed == Path::new(STDIN_SOURCE) {
        read_text(STDIN_SOURCE.to_owned()).map(Some)
    } else {
        Ok(None)
    }
}

/// Loads the workflow of a text. `file` is its name in messages, in the folder at which its paths begin.
pub(crate) fn load_source(
    text: &str,
    file: &Path,
    config: &ConfigFile,
) -> Result<Workflow, CliError> {
    let failed = |error: io::Error| {
        let what = format!("cannot read {}", file.display());
        CliError::with_source(CliErrorKind::BadFile, what, error)
    };
    let folder = OpenFolder::open(file.parent().unwrap_or(Path::new("/"))).map_err(failed)?;
    Ok(agent_worker_workflow::load_text(text, &folder, file, &config.content.defaults)?)
}

/// Returns the workflow file of a folder; every other path is the file itself.
pub(crate) fn file_of_source(path: PathBuf) -> PathBuf {
    if path.is_dir() { path.join(FOLDER_FILE) } else { path }
}

/// Returns the file's absolute path. Its folder is canonical, since it identifies the project; a link to a file stays a
/// link.
pub(crate) fn resolve_workflow_file(cwd: &Path, file: &Path) -> Result<PathBuf, CliError> {
    let file = file_of_source(cwd.join(file));
    let folder = file.parent().map(Path::canonicalize);
    match (folder, file.file_name()) {
        (Some(Ok(folder)), Some(name)) => Ok(folder.join(name)),
        (Some(Err(error)), _) => {
            let what = format!("cannot read {}", file.display());
            Err(CliError::with_source(CliErrorKind::BadFile, what, error))
        }
        (_, None) | (None, _) => {
            Err(CliError::new(CliErrorKind::BadFile, format!("{} is not a file", file.display())))
        }
    }
}

/// Loads a workflow file; for a missing one, suggests a file of the same folder. `typed` is the path as typed.
pub(crate) fn load_workflow(
    file: &Path,
    typed: &Path,
    config: &ConfigFile,
) -> Result<Workflow, CliError> {
    agent_worker_workflow::load_with(file, &config.content.defaults).map_err(|error| {
        let error = CliError::from(error);
        match nearest_workflow_file(file).filter(|_| !file.exists()) {
            Some(name) => {
                let meant = typed.with_file_name(name);
                error.with_hint(format!("did you mean `{}`?", one_line(&meant.to_string_lossy())))
            }
            None => error,
        }
    })
}

/// Refuses a `run` that wakes no agent; a `start` waits for messages.
fn require_kickoff(workflow: &Workflow, mode: RunMode) -> Result<(), CliError> {
    match (mode, workflow.kickoff_problem()) {
        (RunMode::Run, Some(silence)) => {
            Err(CliError::new(CliErrorKind::NobodyWoken, silence.why).with_hint(silence.hint))
        }
        (RunMode::Run, None) | (RunMode::Start, _) => Ok(()),
    }
}

/// Returns true if a variable is sent with a run: the file names it, or the program of an agent takes it.
fn is_forwarded_variable(name: &str, workflow: &Workflow, env: &BTreeMap<String, String>) -> bool {
    let is_taken = || workflow.agents.iter().any(|agent| takes_variable(&agent.backend, name, env));
    let is_named = || workflow.env_names.iter().any(|wanted| wanted == name);
    BASE_ENV.contains(&name) || is_named() || is_taken()
}
