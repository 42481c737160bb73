//! `aw://<workflow>/<tag>/…`: what a client can read and watch, by name.
//!
//! Another kind of thing with an address is one arm of [`ResourceKind`], here in the reader and the writer, and where it is read
//! (`shelf`) and where it changes (`changes`).

use std::{fmt, str::FromStr};

use agent_worker_kernel::InstanceSelector;
use agent_worker_protocol::{BadName, DocumentPath, InstanceRef, ProposalId, Target};

const SCHEME: &str = "aw://";
const CHANNEL: &str = "channel";
const INBOX: &str = "inbox";
const DOCUMENT: &str = "document";
const PROPOSAL: &str = "proposal";

/// One thing of one instance.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ResourceUri {
    /// Whose.
    pub(super) instance: InstanceRef,
    /// Which.
    pub(super) resource: ResourceKind,
}

/// What an instance has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum ResourceKind {
    /// What was said.
    Channel,
    /// What waits for the agent who asks.
    Inbox,
    /// One of its documents.
    Document(DocumentPath),
    /// One of its proposals.
    Proposal(ProposalId),
}

/// Why something is no address.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum BadResourceUri {
    /// It has another shape.
    #[error(
        "`{0}` is not `aw://WORKFLOW/TAG/channel`, `…/document/PATH`, `…/proposal/NUMBER` or `…/inbox`"
    )]
    Shape(String),
    /// One of its parts is not a name.
    #[error(transparent)]
    Name(#[from] BadName),
}

impl ResourceUri {
    /// Where to look for it.
    pub(super) fn instance_target(&self) -> InstanceSelector {
        InstanceSelector { target: Some(Target::instance(&self.instance)), project: None }
    }
}

/// How addresses look, for a client that fills them in: name, template, what it is.
pub(super) const URI_TEMPLATES: [(&str, &str, &str); 4] = [
    (CHANNEL, "aw://{workflow}/{tag}/channel", "the newest messages of an instance, as JSON"),
    (DOCUMENT, "aw://{workflow}/{tag}/document/{+path}", "a shared document"),
    (PROPOSAL, "aw://{workflow}/{tag}/proposal/{id}", "a proposal and its votes, as JSON"),
    (INBOX, "aw://{workflow}/{tag}/inbox", "what waits for you, as JSON"),
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

    /// Nothing is decoded: every name there is can be written as it is.
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

/// A proposal's number, as it is written and in no other way.
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
