//! Who may do what, and where. Pure, and the one place that decides it: every door asks before it lets anybody in, and
//! the kernel's own functions ask again, so that a door cannot forget.
//!
//! Invariant: what lies outside of somebody's scope is told of as if it were not there.

use std::path::Path;

use agent_worker_protocol::{InstanceRef, Permission, RunId, api::TokenView};
use agent_worker_store::{Error as StoreError, Instance, RunRow};

use crate::{
    error::{Error, Result},
    kernel::{Kernel, Principal},
};

/// What an agent may in its own instance. Nothing else, whatever its file says. Of what is decided it votes on what it is
/// asked about, and takes its own proposals back.
const AGENT_PERMISSIONS: [Permission; 4] =
    [Permission::Read, Permission::Send, Permission::Documents, Permission::Approve];

impl Principal {
    /// Whether they may do this at all, wherever it is.
    pub fn may(&self, what: Permission) -> bool {
        match self {
            Self::User => true,
            Self::Agent(_) => AGENT_PERMISSIONS.contains(&what),
            Self::Client(token) => token.scopes.allow.contains(&what),
            Self::Anonymous => false,
        }
    }

    /// Lets only those pass who may do this.
    pub fn require(&self, what: Permission) -> Result<()> {
        match self {
            Self::Anonymous => Err(Error::Unauthorized),
            Self::User | Self::Agent(_) | Self::Client(_) if self.may(what) => Ok(()),
            Self::User | Self::Agent(_) | Self::Client(_) => Err(Error::NotAllowed(what)),
        }
    }

    /// Lets only those pass who may do one of the two; who may neither is told of the first.
    pub fn require_either(&self, one: Permission, other: Permission) -> Result<()> {
        if self.may(other) { Ok(()) } else { self.require(one) }
    }

    /// Whether an instance is theirs to deal with. An agent's own is known by more than its name, and asked for elsewhere.
    pub(crate) fn can_reach(&self, project: &str, instance: &InstanceRef) -> bool {
        match self {
            Self::User => true,
            Self::Client(TokenView { scopes, .. }) => {
                scopes.covers_instance(Path::new(project), instance)
            }
            Self::Agent(_) | Self::Anonymous => false,
        }
    }

    /// Whether everything of a folder is theirs to deal with, whatever it is called.
    pub(crate) fn can_reach_project(&self, project: &str) -> bool {
        match self {
            Self::User => true,
            Self::Client(TokenView { scopes, .. }) => scopes.covers_project(Path::new(project)),
            Self::Agent(_) | Self::Anonymous => false,
        }
    }

    /// Takes out of a list what is not theirs to deal with.
    pub(crate) fn retain_reachable(&self, instances: &mut Vec<Instance>) {
        instances.retain(|one| self.can_reach(&one.project, &one.instance));
    }
}

impl Kernel {
    /// A run, for somebody who may know of it.
    pub(crate) async fn require_run(&self, who: &Principal, run: RunId) -> Result<RunRow> {
        who.require_authenticated()?;
        let row = self.store.run_get(run).await?;
        let theirs = match who {
            Principal::Agent(attempt) => attempt.fence.workflow == row.workflow,
            Principal::User | Principal::Client(_) | Principal::Anonymous => {
                who.can_reach(&row.project, &row.instance)
            }
        };
        if theirs { Ok(row) } else { Err(StoreError::NotFound("run").into()) }
    }
}
