//! Locates a program and prepares the tools and credentials of its turn, for every backend that starts one.

use std::path::{Path, PathBuf};

use agent_worker_backends::{install_command, settings_paths};
use agent_worker_host::{ProgramDefect, own_program};
use agent_worker_protocol::{CredentialMode, FailureClass, SessionPolicy};
use agent_worker_sandbox::SandboxStart;
use serde_json::Value;
use tokio::process::Command;

use super::{ProgramTurn, endpoint::ModelEndpoint, io_failure};
use crate::{
    attempt_sandbox::{RunningSandbox, sandbox_failure},
    child_env::ChildEnv,
    tool_server::ToolServer,
    turn::{TurnAnswer, TurnContext, TurnFailure},
};

/// The program of a backend, with the job's settings for it.
pub(super) struct ProgramLaunch {
    /// Name or path, and the first arguments.
    command: Vec<String>,
    /// Further arguments, after those of the command.
    args: Vec<String>,
    /// Another name to search for.
    alias: Option<&'static str>,
    mode: Option<CredentialMode>,
    session: SessionPolicy,
    /// Name of the agent in the registry, whose settings of the user are known.
    agent: Option<String>,
}

impl ProgramLaunch {
    /// Creates the launch of a program with usual names, or with the command of the job instead.
    pub(super) fn new(
        command: &[String],
        usual_names: &[&'static str],
        mode: Option<CredentialMode>,
        session: SessionPolicy,
    ) -> Self {
        let (mut command, mut alias) = (command.to_vec(), None);
        if command.is_empty() {
            command.extend(usual_names.first().map(|name| (*name).to_owned()));
            alias = usual_names.get(1).copied();
        }
        Self { command, args: Vec::new(), alias, mode, session, agent: None }
    }

    /// Adds further arguments.
    pub(super) fn with_args(self, args: &[String]) -> Self {
        Self { args: args.to_vec(), ..self }
    }

    /// Adds the name of the agent in the registry.
    pub(super) fn with_agent(self, agent: Option<&str>) -> Self {
        Self { agent: agent.map(str::to_owned), ..self }
    }

    /// Continues the conversation of the turn from now on, whatever the file says.
    pub(super) fn continue_session(&mut self) {
        self.session = SessionPolicy::Continue;
    }

    /// Creates the launch of any executable, which has no settings of its own and always gets its conversation.
    pub(super) fn executable(command: &[String]) -> Self {
        Self::new(command, &[], None, SessionPolicy::Continue)
    }

    /// Returns the first word of the command.
    pub(super) fn name(&self) -> &str {
        self.command.first().map_or("", String::as_str)
    }

    /// Finds the program. One that cannot start fails the turn for good: a retry finds the same.
    pub(super) fn resolve_path(&self, child_env: &ChildEnv) -> Result<PathBuf, TurnFailure> {
        if !child_env.cwd.is_dir() {
            let why = format!(
                "the working folder `{}` does not exist; a relative `cwd` starts at the folder of the workflow file",
                child_env.cwd.display()
            );
            return Err(TurnFailure::new(FailureClass::Fatal, why));
        }
        child_env.find_program(self.name()).or_else(|defect| {
            let alias = self.alias.filter(|_| defect.is_missing());
            match alias.map(|alias| child_env.find_program(alias)) {
                None => Err(defect_failure(&defect)),
                Some(found) => found.map_err(|other| {
                    defect_failure(if other.is_missing() { &defect } else { &other })
                }),
            }
        })
    }

    /// Returns the command at `path`, without the arguments of the turn and without a sandbox.
    pub(super) fn command(&self, path: &Path, child_env: &ChildEnv) -> Command {
        let mut command = child_env.command(path);
        command.args(self.command.iter().skip(1).chain(&self.args));
        command
    }

    /// Returns the command at `path` in the sandbox of the attempt, if it has one. The program has to run in it.
    pub(super) fn sandboxed_command(
        &self,
        path: &Path,
        turn: &ProgramTurn<'_>,
    ) -> Result<(Command, Option<RunningSandbox>), TurnFailure> {
        let ProgramTurn { context, mode, tool_server, .. } = turn;
        let Some(sandbox) = &context.sandbox else {
            return Ok((self.command(path, &context.child_env), None));
        };
        let settings = match (mode, self.agent.as_deref()) {
            (CredentialMode::Login, Some(agent)) => user_settings(agent, &context.child_env),
            (CredentialMode::Login | CredentialMode::Isolated, _) => Vec::new(),
        };
        let launch = sandbox.prepare(path, settings, tool_server.port(), context)?;
        let SandboxStart { args, guard } = launch.start().map_err(sandbox_failure)?;
        let mut command = context.child_env.command(own_program());
        command.args(args).arg(path);
        command.args(self.command.iter().skip(1).chain(&self.args));
        Ok((command, Some(RunningSandbox { launch, guard })))
    }

    /// Returns the mode of the workflow file; without one, a key decides.
    pub(super) fn mode_for(&self, endpoint: &ModelEndpoint) -> CredentialMode {
        let default =
            if endpoint.key.is_some() { CredentialMode::Isolated } else { CredentialMode::Login };
        self.mode.unwrap_or(default)
    }

    /// Returns the conversation to continue.
    pub(super) fn session(&self, context: &TurnContext) -> Option<Value> {
        context.request.session.clone().filter(|_| self.session == SessionPolicy::Continue)
    }
}

/// Returns the files and folders of the user's own settings of an agent.
fn user_settings(agent: &str, child_env: &ChildEnv) -> Vec<PathBuf> {
    let located = settings_paths(agent).iter().filter_map(|path| {
        let (variable, rest) = path.split_once('/').unwrap_or((path, ""));
        child_env.env.get(variable).filter(|set| !set.is_empty()).map(|set| match rest {
            "" => PathBuf::from(set),
            rest => Path::new(set).join(rest),
        })
    });
    located.collect()
}

/// Converts an error of starting a command: a file that the system cannot execute fails the turn for good.
pub(super) fn start_failure(command: &Command) -> impl Fn(std::io::Error) -> TurnFailure + use<> {
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    move |error| match ProgramDefect::of_start(&program, &error) {
        Some(defect) => defect_failure(&defect),
        None => io_failure("start the program")(error),
    }
}

fn defect_failure(defect: &ProgramDefect) -> TurnFailure {
    let correction = defect.correction(install_command(defect.name()));
    let correction = correction.map(|correction| format!("; {correction}")).unwrap_or_default();
    TurnFailure::new(FailureClass::MissingProgram, format!("{defect}{correction}"))
}

/// Opens the server for the tools and approvals of a program.
///
/// Reads the schemas before the program starts, because the program waits for them only for a limited time.
pub(super) async fn open_tool_server(context: &TurnContext) -> Result<ToolServer, TurnFailure> {
    let schemas = context.tools.schemas().await;
    let schemas = schemas.map_err(|why| TurnFailure::new(FailureClass::Transient, why))?;
    let (tools, approvals) = (context.tools.clone(), context.approvals.clone());
    ToolServer::open(tools, approvals, schemas).await.map_err(io_failure("open a port on loopback"))
}

/// The result of a program that had tools.
pub(super) struct ServedTurn {
    pub(super) done: Result<TurnAnswer, TurnFailure>,
    has_listed_tools: bool,
}

/// Serves tools while `work` runs. Ends early when an approval fails the turn.
pub(super) async fn serve_tools(
    server: ToolServer,
    context: &TurnContext,
    work: impl Future<Output = Result<TurnAnswer, TurnFailure>>,
) -> ServedTurn {
    let work = async {
        tokio::select! {
            done = work => done,
            failure = context.approvals.wait_for_failure() => Err(failure),
        }
    };
    let (done, has_listed_tools) = Box::pin(server.serve(work)).await;
    ServedTurn { done, has_listed_tools }
}

impl ServedTurn {
    /// Fails an answer of a program that never listed the team's tools.
    pub(super) fn require_tool_listing(self, name: &str) -> Result<TurnAnswer, TurnFailure> {
        if self.has_listed_tools {
            return self.done;
        }
        let why = format!("`{name}` never listed the team's tools");
        match self.done {
            // Many programs continue without their tools, and then none of their work has reached the team.
            Ok(_) => Err(TurnFailure::new(FailureClass::Fatal, why)),
            // Other programs exit and name the cause among other output.
            Err(failure) if failure.class == FailureClass::Crash => {
                Err(TurnFailure { why: format!("{why}; {}", failure.why), ..failure })
            }
            Err(failure) => Err(failure),
        }
    }
}
