//! Maps an event to its notifications: the resources that it changes, and the mentioned agents.

use agent_worker_kernel::DECISIONS_FILE;
use agent_worker_protocol::{AgentName, Event, EventBody, EventKind};
use serde_json::{Value, json};

use super::resource_uri::{ResourceKind, ResourceUri};

/// Returns true if an event changes a resource of its instance. `own` is the watching agent, the owner of the
/// inbox.
pub(super) fn affects_resource(
    event: &Event,
    address: &ResourceUri,
    own: Option<&AgentName>,
) -> bool {
    match &address.resource {
        // The kind alone decides: the message itself may be damaged.
        ResourceKind::Channel => {
            matches!(event.kind(), Some(EventKind::Message | EventKind::ChannelCleared))
        }
        ResourceKind::Document(path) => match (&event.body, event.kind()) {
            (EventBody::DocumentWritten(data), _) => data.path == *path,
            (
                _,
                Some(
                    EventKind::ProposalResolved
                    | EventKind::ProposalExpired
                    | EventKind::ProposalCancelled,
                ),
            ) => path.as_str() == DECISIONS_FILE,
            _ => false,
        },
        ResourceKind::Proposal(id) => match &event.body {
            EventBody::ProposalActive(data) => data.proposal == *id,
            EventBody::BallotCast(data) => data.proposal == *id,
            EventBody::ProposalResolved(data)
            | EventBody::ProposalExpired(data)
            | EventBody::ProposalCancelled(data) => data.proposal == *id,
            _ => false,
        },
        ResourceKind::Inbox => match (&event.body, event.kind()) {
            (EventBody::Message(message), _) => {
                own.is_some_and(|own| message.to.iter().chain(&message.cc).any(|name| name == own))
            }
            (
                _,
                Some(
                    EventKind::DeliveryPending
                    | EventKind::DeliveryDropped
                    | EventKind::DeliveryJoined
                    | EventKind::DeliveryDead,
                ),
            ) => event.agent.as_ref() == own,
            _ => false,
        },
    }
}

/// Returns one `notifications/mention` for each agent that an event woke. An agent gets only its own.
pub(super) fn mention_notifications(event: &Event, own: Option<&AgentName>) -> Vec<Value> {
    let EventBody::Message(message) = &event.body else { return Vec::new() };
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

#[cfg(test)]
mod tests {
    use agent_worker_protocol::Millis;

    use super::*;

    fn event(kind: EventKind, data: Value) -> Event {
        let event = Event::new(Millis::new(0), "team".parse().unwrap(), EventBody::Heartbeat);
        event.with_data(kind.word(), data)
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
        let ended = event(EventKind::AttemptEnded, json!({"end": "stopped"}));
        let decision =
            json!({"proposal": 2, "state": "resolved", "result": "winner", "winner": "a"});
        let decided = event(EventKind::ProposalResolved, decision);
        let voted = event(EventKind::BallotCast, json!({"proposal": 2, "choice": "a"}));
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
                event.body.kind_word()
            );
        }
    }

    #[test]
    fn a_mention_has_sender_target_text_and_time_and_an_agent_receives_its_own() {
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
