//! `agent@workflow:tag`: the only parser and formatter of this syntax.

use std::{fmt, path::Path, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::name::{AgentName, BadName, Tag, WorkflowName};

const GLOBAL_WORKFLOW: &str = "global";

/// Reference to one instance of a workflow: `review:pr-123`.
#[derive(
    Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
pub struct InstanceRef {
    /// Name of the workflow.
    pub name: WorkflowName,
    /// Tag of the instance.
    pub tag: Tag,
}

/// Target of a command. Omitted parts stay empty: the daemon, which knows the instances, fills them in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct Target {
    /// Agent, such as `coder`; without it the target is the whole instance.
    pub agent: Option<AgentName>,
    /// Workflow, written as `@review`.
    pub workflow: Option<WorkflowName>,
    /// Tag, written as `:pr-123`.
    pub tag: Option<Tag>,
}

/// Reason for which a target is invalid.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BadTarget {
    /// The text is empty, or names neither an agent nor a workflow.
    #[error(
        "a target is `agent`, `agent@workflow`, `agent@workflow:tag`, `@workflow` or `@workflow:tag`"
    )]
    Empty,
    /// One of its parts is not a name.
    #[error(transparent)]
    Name(#[from] BadName),
}

impl InstanceRef {
    /// Returns true for `global:main`, the instance of agents that belong to no workflow.
    pub fn is_global(&self) -> bool {
        self.name.as_str() == GLOBAL_WORKFLOW && self.tag == Tag::default()
    }
}

impl Target {
    /// Creates the target of a whole instance.
    pub fn instance(instance: &InstanceRef) -> Self {
        Self { agent: None, workflow: Some(instance.name.clone()), tag: Some(instance.tag.clone()) }
    }

    /// Creates the target of one agent in an instance.
    pub fn agent(agent: AgentName, instance: &InstanceRef) -> Self {
        Self { agent: Some(agent), ..Self::instance(instance) }
    }
}

fn parse_workflow_and_tag(text: &str) -> Result<(WorkflowName, Option<Tag>), BadName> {
    match text.split_once(':') {
        Some((name, tag)) => Ok((name.parse()?, Some(tag.parse()?))),
        None => Ok((text.parse()?, None)),
    }
}

impl FromStr for Target {
    type Err = BadTarget;

    fn from_str(text: &str) -> Result<Self, BadTarget> {
        let (agent, rest) = match text.split_once('@') {
            Some((agent, rest)) => (agent, Some(rest)),
            None => (text, None),
        };
        let (workflow, tag) = match rest.map(parse_workflow_and_tag).transpose()? {
            Some((workflow, tag)) => (Some(workflow), tag),
            None => (None, None),
        };
        let agent = if agent.is_empty() { None } else { Some(agent.parse()?) };
        if agent.is_none() && workflow.is_none() {
            return Err(BadTarget::Empty);
        }
        Ok(Self { agent, workflow, tag })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(agent) = &self.agent {
            agent.fmt(f)?;
        }
        let tag = self.tag.as_ref().filter(|tag| **tag != Tag::default());
        match &self.workflow {
            Some(workflow)
                if self.agent.is_some()
                    && workflow.as_str() == GLOBAL_WORKFLOW
                    && tag.is_none() => {}
            Some(workflow) => write!(f, "@{workflow}")?,
            None => {}
        }
        match tag {
            Some(tag) => write!(f, ":{tag}"),
            None => Ok(()),
        }
    }
}

impl FromStr for InstanceRef {
    type Err = BadName;
    fn from_str(text: &str) -> Result<Self, BadName> {
        let (name, tag) = parse_workflow_and_tag(text)?;
        Ok(Self { name, tag: tag.unwrap_or_default() })
    }
}

impl fmt::Display for InstanceRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name.fmt(f)?;
        if self.tag == Tag::default() { Ok(()) } else { write!(f, ":{}", self.tag) }
    }
}

macro_rules! text {
    ($($ty:ident, $error:ident);*) => {$(
        impl TryFrom<String> for $ty {
            type Error = $error;
            fn try_from(text: String) -> Result<Self, $error> { text.parse() }
        }
        impl From<$ty> for String {
            fn from(value: $ty) -> Self { value.to_string() }
        }
    )*};
}
text!(Target, BadTarget; InstanceRef, BadName);

/// Returns true if one folder contains the other, or both are the same: the file's folder then belongs to the
/// caller's.
pub fn is_ancestor_or_descendant(file: &Path, folder: &Path) -> bool {
    file.starts_with(folder) || folder.starts_with(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_is_the_shortest_text_that_means_the_same() {
        for (written, shown) in [
            ("alice", "alice"),
            ("alice@global", "alice"),
            ("alice@global:main", "alice"),
            ("alice@review", "alice@review"),
            ("alice@review:main", "alice@review"),
            ("alice@review:pr-123", "alice@review:pr-123"),
            ("@review", "@review"),
            ("@global", "@global"),
            ("@review:pr-123", "@review:pr-123"),
        ] {
            let target: Target = written.parse().unwrap();
            assert_eq!(target.to_string(), shown);
            assert_eq!(shown.parse::<Target>().unwrap().to_string(), shown);
        }
    }

    #[test]
    fn a_target_with_a_bad_part_names_that_part() {
        for (written, part) in
            [("all@review", "`all`"), ("al ice", "`al ice`"), ("a@b:c:d", "`c:d`"), ("@", "``")]
        {
            let error = written.parse::<Target>().unwrap_err().to_string();
            assert!(error.contains(part), "{written}: {error}");
        }
        assert_eq!("".parse::<Target>(), Err(BadTarget::Empty));
    }

    #[test]
    fn an_instance_reads_what_it_writes() {
        for (written, shown) in
            [("review", "review"), ("review:main", "review"), ("review:pr-1", "review:pr-1")]
        {
            let instance: InstanceRef = written.parse().unwrap();
            assert_eq!(instance.to_string(), shown);
            assert_eq!(shown.parse::<InstanceRef>().unwrap(), instance);
        }
    }

    #[test]
    fn a_folder_is_near_those_above_and_beneath_it() {
        for (file, folder, near) in [
            ("/a", "/a", true),
            ("/a/b", "/a", true),
            ("/a", "/a/b", true),
            ("/a", "/ab", false),
            ("/a/b", "/a/c", false),
        ] {
            assert_eq!(
                is_ancestor_or_descendant(Path::new(file), Path::new(folder)),
                near,
                "{file} {folder}"
            );
        }
    }
}
