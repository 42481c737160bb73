//! The check of the programs of agents before their first turn.
//!
//! A missing or logged-out program would fail the first turn of its agent, which can be hours after the start. The check
//! searches as the worker does, with the `PATH` that the agent gets. It does not claim that a program is logged out if
//! the agent has arguments, variables or a command of its own, with which it may log in in another way.

use std::path::Path;

use agent_worker_backends::{
    BackendSpec, backend_programs, find_backend, find_program_backend, install_command,
};
use agent_worker_host::{ProgramDefect, find_program};
use agent_worker_models::{ProviderEndpoint, ProviderOverrides};
use agent_worker_protocol::{AgentSettings, Api, BASE_ENV, Backend, CredentialMode};
use agent_worker_workflow::{AgentProblem, Workflow};

use super::login::{CredentialPlaces, Login, find_login};
use crate::input::settings::CliSettings;

/// The reason why an agent cannot work in this environment, and the fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProgramProblem {
    pub(crate) message: String,
    pub(crate) hint: String,
    pub(crate) certainty: Certainty,
}

/// The certainty that the first turn of the agent will fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Certainty {
    /// The turn fails.
    Certain,
    /// A setup command of the workflow may still create the program.
    BeforeSetup,
}

/// The folders of one agent.
#[derive(Clone, Copy)]
pub(crate) struct AgentFolders<'a> {
    /// Folder at which the path of a program starts.
    pub(crate) programs: &'a Path,
    /// Working folder of its program.
    pub(crate) work: &'a Path,
}

/// Checks the program of every agent of a workflow file. `folder` is the folder of the file, `cwd` that of the run.
pub(crate) fn check_team(
    workflow: &Workflow,
    folder: &Path,
    cwd: &Path,
    settings: &CliSettings,
) -> Vec<(AgentProblem, Certainty)> {
    let of_agent = |agent: &AgentSettings| {
        let work = agent.cwd.as_ref().map_or_else(|| cwd.to_owned(), |cwd| folder.join(cwd));
        let folders = AgentFolders { programs: folder, work: &work };
        let ProgramProblem { message, hint, certainty } = check_agent(agent, folders, settings)?;
        let is_file = backend_programs(&agent.backend).iter().any(|name| name.contains('/'));
        let certainty =
            if is_file && !workflow.setup.is_empty() { Certainty::BeforeSetup } else { certainty };
        let message = format!("agent `{}`: {message}", agent.name);
        Some((AgentProblem { agent: agent.name.clone(), message, hint }, certainty))
    };
    workflow.agents.iter().filter_map(of_agent).collect()
}

/// Checks the program of one agent, or the key of its provider.
pub(crate) fn check_agent(
    agent: &AgentSettings,
    folders: AgentFolders<'_>,
    settings: &CliSettings,
) -> Option<ProgramProblem> {
    check_presence(&agent.backend, folders, settings)
        .or_else(|| check_login(agent, folders.work, settings))
}

/// Checks only that the program of a backend is installed, or that the key of its provider is set.
pub(crate) fn check_presence(
    backend: &Backend,
    folders: AgentFolders<'_>,
    settings: &CliSettings,
) -> Option<ProgramProblem> {
    if let Backend::Api(api) = backend {
        return check_endpoint(api, settings);
    }
    let path = settings.env.get("PATH").map(String::as_str).unwrap_or_default();
    let mut defects: Vec<ProgramDefect> = Vec::new();
    for program in backend_programs(backend) {
        let folder = if program.contains('/') { folders.programs } else { folders.work };
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
    let mut hint = correction.unwrap_or_else(|| otherwise.to_owned());
    let spec = find_program_backend(defect.name()).filter(|_| defect.is_missing());
    if let Some(login) = spec.and_then(|spec| login_step(spec, folders.work, settings)) {
        hint = format!("{hint}, then log in: {login}");
    }
    Some(ProgramProblem { message: defect.to_string(), hint, certainty: Certainty::Certain })
}

/// Checks that the key and the endpoint of a provider are in the environment.
fn check_endpoint(api: &Api, settings: &CliSettings) -> Option<ProgramProblem> {
    let Api { provider, base_url, api_key, headers, .. } = api;
    let (base_url, api_key, headers) = (base_url.clone(), api_key.clone(), headers.clone());
    let overrides = ProviderOverrides { base_url, api_key, headers };
    let defect = ProviderEndpoint::resolve(provider, &overrides, &settings.env).err()?;
    let hint = "set it and start the run again".to_owned();
    Some(ProgramProblem { message: defect.to_string(), hint, certainty: Certainty::Certain })
}

/// Returns the command that logs in, unless there are credentials already.
fn login_step(spec: &BackendSpec, folder: &Path, settings: &CliSettings) -> Option<&'static str> {
    let places = CredentialPlaces { env: &settings.env, folder, mode: None };
    match find_login(spec, places)? {
        Login::Key(_) | Login::Cloud(_) | Login::File(_) => None,
        Login::LoggedOut | Login::Unknown => spec.login.command,
    }
}

fn check_login(
    agent: &AgentSettings,
    folder: &Path,
    settings: &CliSettings,
) -> Option<ProgramProblem> {
    let Backend::Native(native) = &agent.backend else { return None };
    let has_own_env = agent.env.iter().any(|name| !BASE_ENV.contains(&name.as_str()));
    if !native.command.is_empty() || !native.args.is_empty() || has_own_env {
        return None;
    }
    let spec = find_backend(native.cli.word())?;
    let places = CredentialPlaces { env: &settings.env, folder, mode: native.mode };
    if find_login(spec, places)? != Login::LoggedOut {
        return None;
    }
    let (program, key) = (spec.programs.first()?, spec.key_variables.first()?);
    let login = spec.login.command?;
    let (message, hint) = match native.mode {
        Some(CredentialMode::Isolated) => (
            format!("`{program}` has no key, and `mode: isolated` uses no login"),
            format!("set {key}; or remove `mode: isolated` and log in: {login}"),
        ),
        Some(CredentialMode::Login) | None => {
            (format!("`{program}` is logged out"), format!("log in: {login}; or set {key}"))
        }
    };
    Some(ProgramProblem { message, hint, certainty: Certainty::Certain })
}
