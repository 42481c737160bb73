//! Starts a program in a sandbox, in two steps of our own binary.
//!
//! `agent-worker sandbox-exec PLAN -- PROGRAM` has one thread. For level `full` the first step becomes bubblewrap, which
//! starts the second step inside the namespaces, through an open descriptor: the binary may be outside of the sandbox, or
//! replaced. The second step applies Landlock and seccomp to itself and becomes the program.

use std::{
    ffi::OsString,
    fs::File,
    os::{fd::AsRawFd as _, unix::process::CommandExt as _},
    path::{Path, PathBuf},
    process::Command,
};

use agent_worker_host::own_program;
use agent_worker_protocol::{SandboxLevel, SandboxNetwork};
use rustix::io::{FdFlags, fcntl_setfd};
use serde::{Deserialize, Serialize};

use crate::{
    bubblewrap::bubblewrap_args,
    error::SandboxError,
    facts::SandboxRequest,
    gateway::{GatewayPlan, NetworkGateway, pass_listeners},
    guard::SandboxGuard,
    landlock_rules::{folder_entries, landlock_rules},
    level::SandboxSupport,
    placeholders::HeldPlaceholders,
    policy::SandboxPolicy,
    proxy_variables::proxy_variables,
    system::{drop_capabilities, limit_resources, restrict_calls, restrict_thread},
};

/// The hidden subcommand of our binary that applies a plan.
const SANDBOX_EXEC_COMMAND: &str = "sandbox-exec";

/// A sandbox that is ready for programs. Keep it until they have ended.
#[derive(Debug)]
pub struct SandboxLaunch {
    plan: SandboxPlan,
    /// Folder for the sockets of gateways.
    private: PathBuf,
    /// Ports of this machine that a list of hosts does not close.
    ports: Vec<u16>,
    /// Removed with this value.
    _placeholders: Option<HeldPlaceholders>,
}

/// The start of one process in a sandbox.
#[derive(Debug)]
pub struct SandboxStart {
    /// Arguments of our binary before the program and its own arguments.
    pub args: [String; 3],
    /// Guards the process while it runs.
    pub guard: SandboxGuard,
}

/// The plan of one sandbox, as an argument of its process.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct SandboxPlan {
    level: SandboxLevel,
    /// Present in the first step of level `full`.
    bubblewrap: Option<PathBuf>,
    policy: SandboxPolicy,
    /// Present if the hosts of the network are listed.
    gateway: Option<GatewayPlan>,
}

impl SandboxLaunch {
    /// Prepares a sandbox of this level: creates its private folders and placeholders.
    pub fn prepare(
        request: &SandboxRequest,
        level: SandboxLevel,
        support: &SandboxSupport,
    ) -> Result<Self, SandboxError> {
        support.require_for(&request.settings.network, level)?;
        let mut policy = request.policy()?;
        let (bubblewrap, temporary) = match level {
            SandboxLevel::Full => (support.bubblewrap.clone(), PathBuf::from("/tmp")),
            SandboxLevel::Basic => (None, request.private.join("tmp")),
        };
        let temporary = temporary.to_string_lossy().into_owned();
        policy.variables.insert("TMPDIR".to_owned(), Some(temporary));
        // Fails here, where the caller can report it, and not inside.
        landlock_rules(&policy, level, &folder_entries)?;
        let placeholders = match level {
            SandboxLevel::Full => {
                let held = HeldPlaceholders::create(&policy.work, policy.placeholders.clone());
                Some(held.map_err(SandboxError::during("protect the working folder"))?)
            }
            SandboxLevel::Basic => None,
        };
        let plan = SandboxPlan { level, bubblewrap, policy, gateway: None };
        let (private, ports) = (request.private.clone(), request.ports.clone());
        Ok(Self { plan, private, ports, _placeholders: placeholders })
    }

    /// Returns the level of the sandbox.
    pub fn level(&self) -> SandboxLevel {
        self.plan.level
    }

    /// Returns the network of the sandbox.
    pub fn network(&self) -> &SandboxNetwork {
        &self.plan.policy.network
    }

    /// Prepares the start of one process.
    pub fn start(&self) -> Result<SandboxStart, SandboxError> {
        let (gateway, plan) = match self.network().hosts() {
            Some(hosts) => {
                let (gateway, plan) = NetworkGateway::open(&self.private, hosts, &self.ports)?;
                (Some(gateway), Some(plan))
            }
            None => (None, None),
        };
        let plan = SandboxPlan { gateway: plan, ..self.plan.clone() };
        let args = [SANDBOX_EXEC_COMMAND.to_owned(), plan.text()?, "--".to_owned()];
        let guard = SandboxGuard::new(gateway, self.plan.policy.memory);
        Ok(SandboxStart { args, guard })
    }
}

impl SandboxPlan {
    fn text(&self) -> Result<String, SandboxError> {
        serde_json::to_string(self).map_err(SandboxError::of_library("write the plan"))
    }

    /// Becomes bubblewrap, which starts the second step.
    fn enter_namespaces(self, bubblewrap: &Path, command: &[OsString]) -> Result<(), SandboxError> {
        let inside = Self { bubblewrap: None, ..self };
        let binary =
            File::open(own_program()).map_err(SandboxError::during("open our own program"))?;
        fcntl_setfd(&binary, FdFlags::empty())
            .map_err(SandboxError::during("keep our own program open"))?;
        let mut wrapped = Command::new(bubblewrap);
        wrapped
            .args(bubblewrap_args(&inside.policy, inside.gateway.as_ref()))
            .arg(format!("/proc/self/fd/{}", binary.as_raw_fd()))
            .args([SANDBOX_EXEC_COMMAND, &inside.text()?, "--"])
            .args(command);
        Err(start_error(bubblewrap.as_os_str())(wrapped.exec()))
    }

    /// Restricts this process and becomes the program.
    fn become_program(&self, command: &[OsString]) -> Result<(), SandboxError> {
        let Some((program, args)) = command.split_first() else { return Ok(()) };
        let Self { level, policy, gateway, .. } = self;
        // First: the rules close the socket.
        let proxy_port = gateway.as_ref().map(pass_listeners).transpose()?;
        limit_resources(*level, policy.memory)?;
        drop_capabilities()?;
        let rules = landlock_rules(policy, *level, &folder_entries)?;
        restrict_thread(&rules, &policy.network, *level)?;
        restrict_calls(&policy.network, *level)?;
        let mut inner = Command::new(program);
        inner.args(args);
        for (name, value) in &policy.variables {
            match value {
                Some(value) => inner.env(name, value),
                None => inner.env_remove(name),
            };
        }
        inner.envs(proxy_port.into_iter().flat_map(proxy_variables));
        Err(start_error(program)(inner.exec()))
    }
}

/// Applies a plan to this process, which must have one thread, and becomes the program. Returns only with an error.
pub fn exec_in_sandbox(plan: &str, command: &[OsString]) -> Result<(), SandboxError> {
    let mut plan: SandboxPlan =
        serde_json::from_str(plan).map_err(SandboxError::of_library("read the plan"))?;
    match plan.bubblewrap.take() {
        Some(bubblewrap) => plan.enter_namespaces(&bubblewrap, command),
        None => plan.become_program(command),
    }
}

fn start_error(program: &std::ffi::OsStr) -> impl Fn(std::io::Error) -> SandboxError {
    let program = program.to_string_lossy().into_owned();
    move |error| SandboxError::Start { program: program.clone(), error }
}
