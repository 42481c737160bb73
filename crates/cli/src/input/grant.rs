//! What a token is to be good for, as a person says it.

use std::path::Path;

use agent_worker_protocol::{BadPattern, InstancePattern, Permission, Scopes, api::TokenRequest};

/// What may be done with a token, and where.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Grant {
    /// What may be done with it: read, send, documents, run, agents, letters, approve, limits, shutdown; without this
    /// read, send and documents
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    allow: Option<Vec<Permission>>,
    /// Where: @workflow:tag with * for any, a folder, or both as /folder@workflow:tag; can be given several times, and
    /// without it is everywhere
    #[arg(long = "instance", value_name = "WHERE", value_parser = parse_instance_pattern)]
    instances: Vec<InstancePattern>,
}

impl Grant {
    /// Whether anything was said.
    pub(crate) fn is_specified(&self) -> bool {
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

/// A folder that is there is meant whole, though its name may look like a folder and a workflow.
fn parse_instance_pattern(text: &str) -> Result<InstancePattern, BadPattern> {
    let is_folder = text.starts_with('/') && Path::new(text).is_dir();
    if is_folder { format!("{text}@*:*").parse() } else { text.parse() }
}

/// What may be done: `read,send`.
pub(crate) fn permissions_text(scopes: &Scopes) -> String {
    join_words(&scopes.allow, ",")
}

/// Where: `everywhere`, or `@review:* /home/me/project`.
pub(crate) fn instances_text(scopes: &Scopes) -> String {
    if scopes.instances.is_empty() {
        "everywhere".to_owned()
    } else {
        join_words(&scopes.instances, " ")
    }
}

fn join_words<T: ToString>(things: impl IntoIterator<Item = T>, between: &str) -> String {
    things.into_iter().map(|thing| thing.to_string()).collect::<Vec<_>>().join(between)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_there_is_meant_whole_whatever_its_name() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("proj@2");
        std::fs::create_dir(&folder).unwrap();
        let folder = folder.to_str().unwrap();
        let plain = home.path().to_str().unwrap();
        for (text, expected) in [
            (folder.to_owned(), format!("{folder}@*:*")),
            (format!("{folder}@review"), format!("{folder}@review:main")),
            (plain.to_owned(), plain.to_owned()),
            (format!("{plain}@review:*"), format!("{plain}@review:*")),
            ("@review".to_owned(), "@review:main".to_owned()),
        ] {
            assert_eq!(parse_instance_pattern(&text).unwrap().to_string(), expected);
        }
    }
}
