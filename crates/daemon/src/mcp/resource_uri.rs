//! URIs of resources, `aw://<workflow>/<tag>/…`: a client reads and watches them by name.
//!
//! To add a kind of resource, add a variant to [`ResourceKind`], parse and write it here, read it in
//! `resource_catalog` and detect its changes in `resource_changes`.

use std::{fmt, str::FromStr};

use agent_worker_kernel::InstanceSelector;
use agent_worker_protocol::{BadName, DocumentPath, InstanceRef, ProposalId, Target};

const SCHEME: &str = "aw://";
const CHANNEL: &str = "channel";
const INBOX: &str = "inbox";
const DOCUMENT: &str = "document";
const PROPOSAL: &str = "proposal";

/// The URI of one resource of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ResourceUri {
    /// The instance that has the resource.
    pub(super) instance: InstanceRef,
    /// The resource within the instance.
    pub(super) resource: ResourceKind,
}

/// The resources of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum ResourceKind {
    /// The messages of the channel.
    Channel,
    /// The pending deliveries of the calling agent.
    Inbox,
    /// One of the instance's documents.
    Document(DocumentPath),
    /// One of the instance's proposals.
    Proposal(ProposalId),
}

/// The reason why a text is not a resource URI.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum BadResourceUri {
    /// The text does not have the shape of a URI.
    #[error(
        "`{0}` is not `aw://WORKFLOW/TAG/channel`, `…/document/PATH`, `…/proposal/NUMBER` or `…/inbox`"
    )]
    Shape(String),
    /// One part is not a valid name.
    #[error(transparent)]
    Name(#[from] BadName),
}

impl ResourceUri {
    /// Returns the selector of the instance.
    pub(super) fn instance_target(&self) -> InstanceSelector {
        InstanceSelector { target: Some(Target::instance(&self.instance)), project: None }
    }
}

/// URI templates for clients: name, template, description.
pub(super) const URI_TEMPLATES: [(&str, &str, &str); 4] = [
    (CHANNEL, "aw://{workflow}/{tag}/channel", "the newest messages of an instance, as JSON"),
    (DOCUMENT, "aw://{workflow}/{tag}/document/{+path}", "a shared document"),
    (PROPOSAL, "aw://{workflow}/{tag}/proposal/{id}", "a proposal and its votes, as JSON"),
    (INBOX, "aw://{workflow}/{tag}/inbox", "your pending messages, as JSON"),
];

impl fmt::Display for ResourceUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let InstanceRef { name, tag } = &self.instance;
        write!(f, "{SCHEME}{name}/{tag}/")?;
        match &self.resource {
            ResourceKind::Channel => f.write_str(CHANNEL),
            ResourceKind::Inbox => f.write_str(INBOX),
            ResourceKind::Document(path) => write!(f, "{DOCUMENT}/{path}"),
            ResourceKind::Proposal(id) => write!(f, "{PROPOSAL}/{id}"),
        }
    }
}

impl FromStr for ResourceUri {
    type Err = BadResourceUri;

    /// Parses a URI without decoding: every valid name is written literally.
    fn from_str(text: &str) -> Result<Self, BadResourceUri> {
        let shape = || BadResourceUri::Shape(text.to_owned());
        let rest = text.strip_prefix(SCHEME).ok_or_else(shape)?;
        let mut parts = rest.splitn(3, '/');
        let (Some(name), Some(tag), Some(thing)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(shape());
        };
        let thing = match thing.split_once('/') {
            None if thing == CHANNEL => ResourceKind::Channel,
            None if thing == INBOX => ResourceKind::Inbox,
            Some((DOCUMENT, path)) => ResourceKind::Document(path.parse()?),
            Some((PROPOSAL, id)) => {
                ResourceKind::Proposal(parse_proposal_id(id).ok_or_else(shape)?)
            }
            None | Some(_) => return Err(shape()),
        };
        Ok(Self {
            instance: InstanceRef { name: name.parse()?, tag: tag.parse()? },
            resource: thing,
        })
    }
}

/// Parses a proposal's number in its canonical form only.
fn parse_proposal_id(text: &str) -> Option<ProposalId> {
    let number = text.parse().ok().filter(|number: &i64| *number > 0)?;
    (number.to_string() == text).then(|| ProposalId::new(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        for text in [
            "aw://review/pr-1/channel",
            "aw://global/main/inbox",
            "aw://review/main/document/notes.md",
            "aw://review/main/document/design/api.md",
            "aw://review/main/proposal/12",
        ] {
            assert_eq!(
                text.parse::<ResourceUri>().map(|address| address.to_string()).as_deref(),
                Ok(text)
            );
        }
    }

    #[test]
    fn nothing_else_is_an_address() {
        for text in [
            "",
            "aw://",
            "aw://review/main",
            "aw://review/main/",
            "aw://review/main/channel/",
            "aw://review/main/inbox/coder",
            "aw://review/main/document",
            "aw://review/main/proposal/",
            "aw://review/main/proposal/0",
            "aw://review/main/proposal/+1",
            "aw://review/main/proposal/1/2",
            "aw://review/main/document/",
            "aw://review/main/document/../../../etc/passwd",
            "aw://review/main/document/%2e%2e/x",
            "aw://review/main/document//etc/passwd",
            "aw://re view/main/channel",
            "aw://../main/channel",
            "aw://user@review/main/channel",
            "file:///etc/passwd",
            "AW://review/main/channel",
        ] {
            assert!(text.parse::<ResourceUri>().is_err(), "{text}");
        }
    }
}
