//! What an event changes for somebody who watches: which addresses read otherwise now, and who was mentioned.

use agent_worker_kernel::DECISIONS_FILE;
use agent_worker_protocol::{AgentName, Event, EventKind, Message};
use serde_json::{Value, json};

use super::resource_uri::{ResourceKind, ResourceUri};

/// Whether an address reads otherwise after an event of its instance. `own` is the agent who watches, whose inbox it is.
pub(super) fn affects_resource(
    event: &Event,
    address: &ResourceUri,
    own: Option<&AgentName>,
) -> bool {
    match (&address.resource, event.kind) {
        (ResourceKind::Channel, EventKind::Message | EventKind::ChannelCleared) => true,
        (ResourceKind::Document(path), EventKind::DocumentWritten) => {
            event.data["path"].as_str() == Some(path.as_str())
        }
        (
            ResourceKind::Document(path),
            EventKind::ProposalResolved | EventKind::ProposalExpired | EventKind::ProposalCancelled,
        ) => path.as_str() == DECISIONS_FILE,
        (
            ResourceKind::Proposal(id),
            EventKind::ProposalActive
            | EventKind::BallotCast
            | EventKind::ProposalResolved
            | EventKind::ProposalExpired
            | EventKind::ProposalCancelled,
        ) => event.data["proposal"].as_i64() == Some(id.get()),
        (ResourceKind::Inbox, EventKind::Message) => {
            let message = parse_message(event);
            message.zip(own).is_some_and(|(message, own)| {
                message.to.iter().chain(&message.cc).any(|name| name == own)
            })
        }
        (
            ResourceKind::Inbox,
            EventKind::DeliveryPending | EventKind::DeliveryDropped | EventKind::DeliveryDead,
        ) => event.agent.as_ref() == own,
        (
            ResourceKind::Channel
            | ResourceKind::Document(_)
            | ResourceKind::Proposal(_)
            | ResourceKind::Inbox,
            _,
        ) => false,
    }
}

/// What `notifications/mention` says of an event: whom it woke, one for each. An agent hears of itself alone.
pub(super) fn mention_notifications(event: &Event, own: Option<&AgentName>) -> Vec<Value> {
    let Some(message) = parse_message(event).filter(|_| event.kind == EventKind::Message) else {
        return Vec::new();
    };
    let woken = message.to.iter().filter(|name| own.is_none_or(|own| own == *name));
    woken
        .map(|target| {
            json!({
                "from": message.from,
                "target": target,
                "message": message.body,
                "timestamp": message.ts,
            })
        })
        .collect()
}

fn parse_message(event: &Event) -> Option<Message> {
    serde_json::from_value(event.data.clone()).ok()
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::Millis;

    use super::*;

    fn event(kind: EventKind, data: Value) -> Event {
        Event {
            pos: None,
            ts: Millis::new(0),
            instance: "team".parse().unwrap(),
            run: None,
            kind,
            agent: None,
            attempt: None,
            cause: None,
            by: None,
            next: None,
            data,
        }
    }

    fn message_event() -> Event {
        let run = "01890a5d-ac96-774b-bcce-b302099a8057";
        event(
            EventKind::Message,
            json!({
                "seq": 3, "run": run, "ts": Millis::new(1), "from": "user", "kind": "message",
                "body": "look @coder", "hops": 0, "to": ["coder", "tester"], "cc": ["reader"],
            }),
        )
    }

    #[test]
    fn an_event_changes_what_it_is_about_and_nothing_else() {
        let written = event(EventKind::DocumentWritten, json!({"path": "notes.md", "revision": 2}));
        let ended = event(EventKind::AttemptEnded, json!({}));
        let decided = event(EventKind::ProposalResolved, json!({"proposal": 2}));
        let voted = event(EventKind::BallotCast, json!({"proposal": 2}));
        let coder: AgentName = "coder".parse().unwrap();
        let reader: AgentName = "reader".parse().unwrap();
        let idler: AgentName = "idler".parse().unwrap();
        for (event, address, own, expected) in [
            (&message_event(), "aw://team/main/channel", None, true),
            (&message_event(), "aw://team/main/document/notes.md", None, false),
            (&message_event(), "aw://team/main/inbox", Some(&coder), true),
            (&message_event(), "aw://team/main/inbox", Some(&reader), true),
            (&message_event(), "aw://team/main/inbox", Some(&idler), false),
            (&message_event(), "aw://team/main/inbox", None, false),
            (&written, "aw://team/main/document/notes.md", None, true),
            (&written, "aw://team/main/document/other.md", None, false),
            (&written, "aw://team/main/channel", None, false),
            (&ended, "aw://team/main/channel", None, false),
            (&voted, "aw://team/main/proposal/2", None, true),
            (&voted, "aw://team/main/proposal/1", None, false),
            (&voted, "aw://team/main/document/decisions.md", None, false),
            (&decided, "aw://team/main/proposal/2", None, true),
            (&decided, "aw://team/main/document/decisions.md", None, true),
            (&decided, "aw://team/main/document/notes.md", None, false),
        ] {
            let address: ResourceUri = address.parse().unwrap();
            assert_eq!(
                affects_resource(event, &address, own),
                expected,
                "{} {address}",
                event.kind
            );
        }
    }

    #[test]
    fn a_mention_says_who_whom_what_and_when_and_an_agent_hears_its_own() {
        let coder: AgentName = "coder".parse().unwrap();
        let all = mention_notifications(&message_event(), None);
        assert_eq!(all.len(), 2);
        let own = mention_notifications(&message_event(), Some(&coder));
        assert_eq!(
            own,
            [
                json!({"from": "user", "target": "coder", "message": "look @coder", "timestamp": Millis::new(1)})
            ]
        );
        let reader: AgentName = "reader".parse().unwrap();
        assert!(mention_notifications(&message_event(), Some(&reader)).is_empty());
    }
}
