//! Resolves the recipients of a message once, before it is stored.

use std::ops::Range;

use agent_worker_protocol::{AgentName, Sender, api::UnknownMention};
use agent_worker_store::{Recipient, Wake};
use agent_worker_workflow::{mentions, nearest};

/// Maximum number of reported unknown mentions; a text may contain a long list of them.
const MAX_UNKNOWN_MENTIONS: usize = 20;

/// The addressing of a message.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecipientSpec<'a> {
    /// Text of the message.
    pub(crate) text: &'a str,
    /// Byte ranges of the text that came from data.
    pub(crate) data: &'a [Range<usize>],
    /// Additional recipients, next to those mentioned.
    pub(crate) to: &'a [AgentName],
    /// Recipients that are not woken.
    pub(crate) cc: &'a [AgentName],
    /// True if each recipient gets a separate turn for it.
    pub(crate) alone: bool,
    /// True if the message also reaches an agent in the middle of its turn.
    pub(crate) now: bool,
}

/// The recipients of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recipients {
    /// Recipients that are woken, and those that only read it.
    pub(crate) list: Vec<Recipient>,
    /// Mentions that match no agent.
    pub(crate) unknown: Vec<UnknownMention>,
    /// Number of agents that the text mentions, without the sender.
    pub(crate) mentioned: usize,
}

/// Resolves the recipients in `team` of a message by `sender`; an unknown name in `to` or `cc` is an error.
pub(crate) fn resolve_recipients(
    address: &RecipientSpec<'_>,
    sender: &Sender,
    team: &[AgentName],
) -> Result<Recipients, UnknownMention> {
    let known = |name: &AgentName| {
        let found = team.iter().find(|agent| *agent == name).cloned();
        found.ok_or_else(|| unknown_mention(name.to_string(), team))
    };
    let mentioned = mentions(address.text, address.data, team);
    let mut woken = address.to.iter().map(known).collect::<Result<Vec<_>, _>>()?;
    let read_along = address.cc.iter().map(known).collect::<Result<Vec<_>, _>>()?;
    let own = |agent: &AgentName| matches!(sender, Sender::Agent(name) if name == agent);
    let named = if mentioned.everyone { team.to_vec() } else { mentioned.agents };
    let mentions = named.iter().filter(|agent| !own(agent)).count();
    woken.extend(named);
    let wake = match (address.now, address.alone) {
        (true, _) => Wake::Now,
        (false, true) => Wake::Alone,
        (false, false) => Wake::Batched,
    };
    let mut list: Vec<Recipient> = Vec::new();
    let wanted = woken.into_iter().map(|agent| (agent, wake));
    for (agent, wake) in wanted.chain(read_along.into_iter().map(|agent| (agent, Wake::No))) {
        if !own(&agent) && !list.iter().any(|recipient| recipient.agent == agent) {
            list.push(Recipient { agent, wake });
        }
    }
    let unknown = mentioned.unknown.into_iter().take(MAX_UNKNOWN_MENTIONS);
    let unknown = unknown.map(|name| unknown_mention(name, team)).collect();
    Ok(Recipients { list, unknown, mentioned: mentions })
}

fn unknown_mention(name: String, team: &[AgentName]) -> UnknownMention {
    let near = nearest(&name, team.iter().map(AgentName::as_str));
    UnknownMention { suggestion: near.and_then(|near| near.parse().ok()), name }
}

impl Recipients {
    /// Adds `coordinator` as the recipient, unless it is the sender.
    pub(crate) fn add_coordinator(&mut self, coordinator: Option<AgentName>, sender: &Sender) {
        let own = |agent: &AgentName| matches!(sender, Sender::Agent(name) if name == agent);
        let other = coordinator.filter(|agent| !own(agent));
        self.list.extend(other.map(|agent| Recipient { agent, wake: Wake::Batched }));
    }

    /// Returns the recipients that are woken.
    pub(crate) fn woken(&self) -> Vec<AgentName> {
        self.names_where(|wake| wake != Wake::No)
    }

    /// Returns the recipients that are not woken.
    pub(crate) fn cc(&self) -> Vec<AgentName> {
        self.names_where(|wake| wake == Wake::No)
    }

    fn names_where(&self, wanted: impl Fn(Wake) -> bool) -> Vec<AgentName> {
        let wanted = self.list.iter().filter(|recipient| wanted(recipient.wake));
        wanted.map(|recipient| recipient.agent.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<AgentName> {
        text.split_whitespace().map(|name| name.parse().unwrap()).collect()
    }

    fn reached(text: &str, to: &str, cc: &str, sender: &str) -> String {
        let (to, cc) = (names(to), names(cc));
        let address = RecipientSpec { text, to: &to, cc: &cc, ..RecipientSpec::default() };
        let sender = Sender::from(sender.to_owned());
        match resolve_recipients(&address, &sender, &names("lead coder reviewer")) {
            Ok(found) => {
                let join = |names: Vec<AgentName>| {
                    names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
                };
                format!("{} | {}", join(found.woken()), join(found.cc()))
            }
            Err(unknown) => format!("no {}", unknown.name),
        }
    }

    #[test]
    fn mentions_and_to_wake_and_cc_reads_along() {
        for (text, to, cc, sender, expected) in [
            ("@coder fix", "", "", "user", "coder | "),
            ("fix", "coder", "", "user", "coder | "),
            ("fix", "CODER", "", "user", "coder | "),
            ("@coder fix", "coder", "coder", "user", "coder | "),
            ("fix", "", "reviewer", "user", " | reviewer"),
            ("@coder", "", "reviewer", "lead", "coder | reviewer"),
            ("@all hands", "", "", "user", "lead coder reviewer | "),
            ("@all hands", "", "", "lead", "coder reviewer | "),
            ("@lead note to self", "lead", "lead", "lead", " | "),
            ("fix", "zoe", "", "user", "no zoe"),
            ("fix", "", "zoe", "user", "no zoe"),
            ("nobody", "", "", "user", " | "),
        ] {
            assert_eq!(reached(text, to, cc, sender), expected, "{text:?} to {to:?} by {sender}");
        }
    }

    #[test]
    fn each_mentioned_agent_counts_once_and_the_sender_not_at_all() {
        for (text, to, expected) in [
            ("@coder fix", "reviewer", 1),
            ("@coder @CODER fix", "", 1),
            ("@coder @lead fix", "", 1),
            ("@coder @reviewer fix", "", 2),
            ("@coder and @all", "", 2),
            ("`@coder` @reviewer", "", 1),
        ] {
            let to = names(to);
            let address = RecipientSpec { text, to: &to, ..RecipientSpec::default() };
            let lead = Sender::from("lead".to_owned());
            let found = resolve_recipients(&address, &lead, &names("lead coder reviewer"));
            assert_eq!(found.unwrap().mentioned, expected, "{text}");
        }
    }

    #[test]
    fn a_message_that_waits_for_its_answer_gets_a_turn_alone() {
        let address =
            RecipientSpec { text: "@coder @lead", alone: true, ..RecipientSpec::default() };
        let found = resolve_recipients(&address, &Sender::User, &names("lead coder")).unwrap();
        assert!(found.list.iter().all(|recipient| recipient.wake == Wake::Alone));
    }
}
