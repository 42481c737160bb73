//! Options for the permissions and instances of a token, and their display.

use std::path::Path;

use agent_worker_protocol::{BadPattern, InstancePattern, Permission, Scopes, api::TokenRequest};

/// The permissions of a token and the instances they apply to.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Grant {
    /// Permissions: read, send, documents, run, agents, letters, approve, limits, shutdown [default:
    /// read,send,documents]
    #[arg(long, value_name = "WHAT", value_delimiter = ',', help_heading = "Scopes")]
    allow: Option<Vec<Permission>>,
    /// Instance pattern: @workflow:tag (* matches any), a folder, or /folder@workflow:tag; repeatable [default: all]
    #[arg(long = "instance", value_name = "WHERE", value_parser = parse_instance_pattern, help_heading = "Scopes")]
    instances: Vec<InstancePattern>,
    /// Variable that the client may set for runs and agents, also if no workflow file declares it; repeatable
    #[arg(long, value_name = "NAME", help_heading = "Scopes")]
    env: Vec<String>,
}

impl Grant {
    /// Returns whether the user gave any of the options.
    pub(crate) fn is_specified(&self) -> bool {
        self.allow.is_some() || !self.instances.is_empty() || !self.env.is_empty()
    }

    /// Builds the request for a token of this name.
    pub(crate) fn request(&self, name: &str) -> TokenRequest {
        TokenRequest {
            name: name.to_owned(),
            allow: self.allow.as_ref().map(|allow| allow.iter().copied().collect()),
            instances: self.instances.clone(),
            env: self.env.iter().cloned().collect(),
        }
    }

    /// Returns the scopes that the request results in.
    pub(crate) fn scopes(&self) -> Scopes {
        self.request("").scopes()
    }
}

/// Parses a pattern; an existing folder is taken as a whole even if its name contains `@`, by its canonical path.
fn parse_instance_pattern(text: &str) -> Result<InstancePattern, BadPattern> {
    let path = Path::new(text);
    let folder = Some(path).filter(|path| path.is_absolute() && path.is_dir());
    let canonical = folder.and_then(|folder| folder.canonicalize().ok());
    match canonical.as_deref().and_then(Path::to_str) {
        Some(folder) => format!("{folder}@*:*").parse(),
        None => text.parse(),
    }
}

/// Formats the permissions and the variables: `read,run env:COLOR`.
pub(crate) fn permissions_text(scopes: &Scopes) -> String {
    let variables = scopes.env.iter().map(|name| format!(" env:{name}"));
    join_words(&scopes.allow, ",") + &variables.collect::<String>()
}

/// Formats the instances: `everywhere`, or `@review:* /home/me/project`.
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
