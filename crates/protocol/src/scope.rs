//! Scopes of a client's token: permissions, and the instances to which they apply.

use std::{
    collections::BTreeSet,
    fmt,
    path::{Component, Path},
    str::FromStr,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr, VariantArray};

use crate::{
    Keyword as _,
    name::{BadName, Tag, WorkflowName},
    target::InstanceRef,
};

const WILDCARD: &str = "*";

/// A right of a client.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
    Display,
    EnumString,
    IntoStaticStr,
    VariantArray,
)]
#[strum(
    serialize_all = "snake_case",
    parse_err_ty = NoSuchPermission,
    parse_err_fn = NoSuchPermission::new
)]
#[serde(rename_all = "snake_case")]
pub enum Permission {
    /// Reads everything: messages, runs, agents, documents, events.
    Read,
    /// Sends messages, creates proposals, cancels its own, stores resources, submits feedback.
    Send,
    /// Creates and writes documents.
    Documents,
    /// Starts, stops, pauses and resumes runs.
    Run,
    /// Adds, stops, resumes and removes agents.
    Agents,
    /// Redrives or drops dead letters.
    Letters,
    /// Decides as a person: votes, cancels proposals of others, answers requests and questions.
    Approve,
    /// Raises the limits of a paused run.
    Limits,
    /// Stops the daemon.
    Shutdown,
}

/// Permissions of a token and the instances to which they apply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Scopes {
    /// Actions that the token permits.
    pub allow: BTreeSet<Permission>,
    /// Instances to which the token applies; empty: every instance.
    #[serde(default)]
    pub instances: Vec<InstancePattern>,
    /// Variables that the holder may set for a run or an agent, also if the workflow file does not declare them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub env: BTreeSet<String>,
}

/// Folders in which a token applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FolderScope<'a> {
    /// Every folder: the token applies to every instance.
    Unlimited,
    /// Every folder, to instances of some names.
    Named,
    /// These folders and the folders beneath them.
    Folders(Vec<&'a Path>),
}

/// Pattern for instances: `@review:*`, `@*:pr-1`, `/home/me/project`, `/home/me/project@review`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct InstancePattern {
    /// Folder that contains the file, directly or further down; none: any folder.
    project: Option<String>,
    /// Name of the workflow; none: any.
    name: Option<WorkflowName>,
    /// Tag of the instance; none: any.
    tag: Option<Tag>,
}

/// Reason for which a pattern is invalid.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BadPattern {
    /// The text has no known form.
    #[error(
        "write an instance pattern as @workflow:tag, with * for any, as a whole folder, or as both: /folder@workflow:tag"
    )]
    Form,
    /// One of its parts is not a name.
    #[error(transparent)]
    Name(#[from] BadName),
}

/// Error for an unknown permission.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("there is no permission `{0}`; the permissions are {known}", known = words(Permission::ALL))]
pub struct NoSuchPermission(String);

impl Default for Scopes {
    /// Returns the default scopes: sending, reading and documents, in every instance.
    fn default() -> Self {
        let allow = [Permission::Read, Permission::Send, Permission::Documents].into();
        Self { allow, instances: Vec::new(), env: BTreeSet::new() }
    }
}

impl Scopes {
    /// Returns the folders in which the token applies.
    pub fn folders(&self) -> FolderScope<'_> {
        if self.instances.is_empty() {
            return FolderScope::Unlimited;
        }
        let folders: Option<Vec<_>> = self.instances.iter().map(InstancePattern::folder).collect();
        folders.map_or(FolderScope::Named, FolderScope::Folders)
    }

    /// Returns true if the scopes include this instance of a file in `project`.
    pub fn covers_instance(&self, project: &Path, instance: &InstanceRef) -> bool {
        let covers = |pattern: &InstancePattern| pattern.matches(project, instance);
        self.instances.is_empty() || self.instances.iter().any(covers)
    }

    /// Returns true if the scopes include every instance of every file in `project`, by any name.
    pub fn covers_project(&self, project: &Path) -> bool {
        let covers = |pattern: &InstancePattern| {
            let here = pattern.project.as_ref().is_none_or(|folder| project.starts_with(folder));
            here && pattern.name.is_none() && pattern.tag.is_none()
        };
        self.instances.is_empty() || self.instances.iter().any(covers)
    }
}

/// Returns true if a path has a `..`. Such a path has several spellings, and none of them can be compared as text.
pub fn has_parent_component(path: &Path) -> bool {
    path.components().any(|component| component == Component::ParentDir)
}

impl InstancePattern {
    /// Returns the folder, if the pattern has one.
    pub fn folder(&self) -> Option<&Path> {
        self.project.as_deref().map(Path::new)
    }

    /// Returns the pattern with another folder.
    #[must_use]
    pub fn with_folder(self, folder: String) -> Self {
        Self { project: Some(folder), ..self }
    }

    fn matches(&self, project: &Path, instance: &InstanceRef) -> bool {
        self.project.as_ref().is_none_or(|folder| project.starts_with(folder))
            && self.name.as_ref().is_none_or(|name| *name == instance.name)
            && self.tag.as_ref().is_none_or(|tag| *tag == instance.tag)
    }
}

impl FromStr for InstancePattern {
    type Err = BadPattern;
    fn from_str(text: &str) -> Result<Self, BadPattern> {
        let (folder, rest) = match text.rsplit_once('@') {
            Some((folder, rest)) => (folder, Some(rest)),
            None => (text, None),
        };
        if rest.is_none() && folder.is_empty() || !folder.is_empty() && !folder.starts_with('/') {
            return Err(BadPattern::Form);
        }
        let project = Some(folder).filter(|folder| !folder.is_empty()).map(str::to_owned);
        let Some(rest) = rest else { return Ok(Self { project, name: None, tag: None }) };
        // As in a target, a workflow without a tag means its `main`.
        let (name, tag) = match rest.split_once(':') {
            Some((name, tag)) => (name, Some(tag).filter(|tag| *tag != WILDCARD).map(str::parse)),
            None if rest == WILDCARD => (rest, None),
            None => (rest, Some(Ok(Tag::default()))),
        };
        let name = Some(name).filter(|name| *name != WILDCARD).map(str::parse);
        Ok(Self { project, name: name.transpose()?, tag: tag.transpose()? })
    }
}

impl fmt::Display for InstancePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(folder) = &self.project {
            f.write_str(folder)?;
            // The parser reads the text after the last `@` as a workflow.
            if self.name.is_none() && self.tag.is_none() && !folder.contains('@') {
                return Ok(());
            }
        }
        write!(f, "@{}", self.name.as_ref().map_or(WILDCARD, WorkflowName::as_str))?;
        write!(f, ":{}", self.tag.as_ref().map_or(WILDCARD, Tag::as_str))
    }
}

impl TryFrom<String> for InstancePattern {
    type Error = BadPattern;
    fn try_from(text: String) -> Result<Self, BadPattern> {
        text.parse()
    }
}

impl From<InstancePattern> for String {
    fn from(pattern: InstancePattern) -> Self {
        pattern.to_string()
    }
}

impl Permission {
    /// Every permission, in the order of the lists.
    pub const ALL: &[Self] = Self::VARIANTS;
}

impl NoSuchPermission {
    fn new(word: &str) -> Self {
        Self(word.to_owned())
    }
}

fn words(permissions: &[Permission]) -> String {
    let words: Vec<_> = permissions.iter().map(|permission| permission.word()).collect();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_covers_what_it_says_and_nothing_else() {
        for (pattern, covered, left_out) in [
            ("@review:*", &["/a review:main", "/b review:pr-1"][..], &["/a docs:pr-1"][..]),
            ("@*:pr-1", &["/a review:pr-1", "/b docs:pr-1"], &["/a review:pr-10"]),
            ("@review", &["/a review:main"], &["/a review:pr-1", "/a reviews:main"]),
            ("@*", &["/a review:main", "/b docs:x"], &[]),
            ("/a", &["/a review:main", "/a/deep docs:x"], &["/ab review:main", "/ docs:x"]),
            ("/a@review:*", &["/a review:x"], &["/b review:x", "/a docs:x"]),
        ] {
            let pattern: InstancePattern = pattern.parse().unwrap();
            let covers = |text: &&&str| {
                let (project, instance) = text.split_once(' ').unwrap();
                pattern.matches(Path::new(project), &instance.parse().unwrap())
            };
            assert_eq!(covered.iter().filter(covers).count(), covered.len(), "{pattern}");
            assert_eq!(left_out.iter().filter(covers).count(), 0, "{pattern}");
        }
    }

    #[test]
    fn a_token_applies_in_the_folders_of_its_patterns() {
        for (patterns, expected) in [
            (&[][..], FolderScope::Unlimited),
            (&["@review:*"], FolderScope::Named),
            (&["/a", "@review"], FolderScope::Named),
            (&["/a", "/b@x"], FolderScope::Folders(vec![Path::new("/a"), Path::new("/b")])),
        ] {
            let instances = patterns.iter().map(|text| text.parse().unwrap()).collect();
            let scopes = Scopes { instances, ..Scopes::default() };
            assert_eq!(scopes.folders(), expected, "{patterns:?}");
        }
        for (path, expected) in
            [("/a/b", false), ("/a/../b", true), ("/a/./..", true), ("/a/..b/c..", false)]
        {
            assert_eq!(has_parent_component(Path::new(path)), expected, "{path}");
        }
    }

    #[test]
    fn a_pattern_is_written_as_it_is_read() {
        for (text, written) in [
            ("@review", "@review:main"),
            ("@review:*", "@review:*"),
            ("@*", "@*:*"),
            ("@*:pr-1", "@*:pr-1"),
            ("/a/b", "/a/b"),
            ("/a@b@review:*", "/a@b@review:*"),
            ("/home/me@work@*", "/home/me@work@*:*"),
            ("/home/me@work@*:*", "/home/me@work@*:*"),
            ("/home/u/proj@2", "/home/u/proj@2:main"),
            ("/a@*:*", "/a"),
        ] {
            let pattern: InstancePattern = text.parse().unwrap();
            assert_eq!(pattern.to_string(), written);
            assert_eq!(written.parse::<InstancePattern>().as_ref(), Ok(&pattern));
        }
        for bad in ["", "review", "coder@review", "@", "@re view", "@a:b:c", "@../x", "./a"] {
            assert!(bad.parse::<InstancePattern>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_permission_is_found_by_its_word() {
        for known in Permission::ALL {
            assert_eq!(known.word().parse(), Ok(*known));
            assert_eq!(serde_json::to_value(known).unwrap(), known.word());
        }
        let unknown = "rum".parse::<Permission>().unwrap_err().to_string();
        assert!(unknown.contains("`rum`") && unknown.contains("run, agents"), "{unknown}");
    }
}
