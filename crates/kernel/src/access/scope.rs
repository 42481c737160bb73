//! Permissions and scopes of callers. Pure, and the only place that decides them: every interface checks first, and
//! the kernel's own functions check again, so that an interface cannot omit the check.
//!
//! Invariant: an instance outside of a caller's scope is reported as if it did not exist.

use std::path::Path;

use agent_worker_protocol::{InstanceRef, Permission, RunId, api::TokenView};
use agent_worker_store::{Error as StoreError, Instance, RunRow};

use crate::{
    error::{Error, Result},
    kernel::{Kernel, Principal},
};

/// The permissions of an agent in its own instance; its file cannot add any. Of the decisions, an agent votes on
/// proposals addressed to it and cancels its own.
const AGENT_PERMISSIONS: [Permission; 4] =
    [Permission::Read, Permission::Send, Permission::Documents, Permission::Approve];

impl Principal {
    /// Returns true if the caller has a permission, in any instance.
    pub fn may(&self, what: Permission) -> bool {
        match self {
            Self::User => true,
            Self::Agent(_) => AGENT_PERMISSIONS.contains(&what),
            Self::Client(token) => token.scopes.allow.contains(&what),
            Self::Anonymous => false,
        }
    }

    /// Refuses a caller without the permission.
    pub fn require(&self, what: Permission) -> Result<()> {
        match self {
            Self::Anonymous => Err(Error::Unauthorized),
            Self::User | Self::Agent(_) | Self::Client(_) if self.may(what) => Ok(()),
            Self::User | Self::Agent(_) | Self::Client(_) => Err(Error::NotAllowed(what)),
        }
    }

    /// Refuses a caller with neither permission; the error names the first.
    pub fn require_either(&self, one: Permission, other: Permission) -> Result<()> {
        if self.may(other) { Ok(()) } else { self.require(one) }
    }

    /// Returns true if an instance is in the caller's scope. An agent's own instance is checked elsewhere, by more
    /// than its name.
    pub(crate) fn can_reach(&self, project: &str, instance: &InstanceRef) -> bool {
        match self {
            Self::User => true,
            Self::Client(TokenView { scopes, .. }) => {
                scopes.covers_instance(Path::new(project), instance)
            }
            Self::Agent(_) | Self::Anonymous => false,
        }
    }

    /// Returns true if a whole folder is in the caller's scope, whatever its instances are called.
    pub(crate) fn can_reach_project(&self, project: &str) -> bool {
        match self {
            Self::User => true,
            Self::Client(TokenView { scopes, .. }) => scopes.covers_project(Path::new(project)),
            Self::Agent(_) | Self::Anonymous => false,
        }
    }

    /// Removes the instances outside of the caller's scope.
    pub(crate) fn retain_reachable(&self, instances: &mut Vec<Instance>) {
        instances.retain(|one| self.can_reach(&one.project, &one.instance));
    }
}

impl Kernel {
    /// Returns a run that the caller may read.
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
