//! What a token is to be good for, as a person says it.

use agent_worker_protocol::{InstancePattern, Permission, Scopes, api::TokenRequest};

/// What may be done with a token, and where.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Grant {
    /// What may be done with it: read, send, documents, run, agents, letters, approve, limits, shutdown; without this
    /// read, send and documents
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    allow: Option<Vec<Permission>>,
    /// Where: @workflow:tag with * for any, a folder, or both as /folder@workflow:tag; can be given several times, and
    /// without it is everywhere
    #[arg(long = "instance", value_name = "WHERE")]
    instances: Vec<InstancePattern>,
}

impl Grant {
    /// Whether anything was said.
    pub(crate) fn is_said(&self) -> bool {
        self.allow.is_some() || !self.instances.is_empty()
    }

    /// What is asked for.
    pub(crate) fn request(&self, name: &str) -> TokenRequest {
        TokenRequest {
            name: name.to_owned(),
            allow: self.allow.as_ref().map(|allow| allow.iter().copied().collect()),
            instances: self.instances.clone(),
        }
    }

    /// What that comes to.
    pub(crate) fn scopes(&self) -> Scopes {
        self.request("").scopes()
    }
}

/// What may be done: `read,send`.
pub(crate) fn what(scopes: &Scopes) -> String {
    words(&scopes.allow, ",")
}

/// Where: `everywhere`, or `@review:* /home/me/project`.
pub(crate) fn whereabouts(scopes: &Scopes) -> String {
    if scopes.instances.is_empty() {
        "everywhere".to_owned()
    } else {
        words(&scopes.instances, " ")
    }
}

fn words<T: ToString>(things: impl IntoIterator<Item = T>, between: &str) -> String {
    things.into_iter().map(|thing| thing.to_string()).collect::<Vec<_>>().join(between)
}
