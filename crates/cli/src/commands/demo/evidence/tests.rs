//! Tables for the checks of the demo: each claim is true of a sound team and false of a damaged one.

use agent_worker_protocol::{
    AttemptDeliveries, AttemptEnd, AttemptEndedData, MessageKind, Millis, Priority, RunId, Sender,
};
use uuid::Uuid;

use super::*;

fn message(seq: i64, body: &str) -> Message {
    Message {
        seq: Seq::new(seq),
        run: RunId::new(Uuid::nil()),
        ts: Millis::default(),
        from: Sender::User,
        kind: MessageKind::Message,
        body: body.to_owned(),
        reply_to: None,
        acts_on: Vec::new(),
        hops: 0,
        priority: Priority::Normal,
        to: vec!["writer".parse().unwrap()],
        cc: Vec::new(),
        resource: None,
        attachments: Vec::new(),
    }
}

fn receipt(seq: i64, state: DeliveryState) -> Receipt {
    let agent = "writer".parse().unwrap();
    Receipt { seq: Seq::new(seq), agent, state, failures: 0, why: None, answer: None }
}

/// Returns a team with the messages 1, 2, …, and the running attempt with this number.
fn team(bodies: &[&str], state: DeliveryState, attempt: u128) -> TeamRecord {
    let numbered = || bodies.iter().zip(1..);
    let attempt = AttemptId::new(Uuid::from_u128(attempt));
    TeamRecord {
        messages: numbered().map(|(body, seq)| message(seq, body)).collect(),
        receipts: numbered().map(|(_, seq)| receipt(seq, state)).collect(),
        running: [("writer".parse().unwrap(), attempt)].into(),
    }
}

fn acted(seqs: &[i64]) -> Event {
    let deliveries = AttemptDeliveries {
        acted: seqs.iter().map(|seq| Seq::new(*seq)).collect(),
        pending: Vec::new(),
        dead: Vec::new(),
        answer: None,
    };
    let data = AttemptEndedData { end: AttemptEnd::Ok, deliveries: Some(deliveries) };
    let instance = "demo".parse().unwrap();
    let mut event = Event::new(Millis::default(), instance, EventBody::AttemptEnded(data));
    event.agent = Some("writer".parse().unwrap());
    event
}

#[test]
fn a_restart_without_a_loss_passes_and_each_loss_fails_its_check() {
    use DeliveryState::{Acted, Dropped, Leased, Pending};
    let before = team(&["a", "b"], Leased, 7);
    let sent = BTreeMap::from([(Seq::new(3), "c".to_owned())]);
    for (after, expected) in [
        (team(&["a", "b", "c"], Leased, 7), [true, true, true, true]),
        (team(&["a", "b", "c"], Acted, 7), [true, true, true, true]),
        (team(&["a", "b"], Leased, 7), [false, true, true, true]),
        (team(&["a", "b", "x"], Leased, 7), [false, true, true, true]),
        (team(&["a", "x", "c"], Leased, 7), [true, false, true, true]),
        (team(&["a", "b", "c"], Pending, 7), [true, true, false, true]),
        (team(&["a", "b", "c"], Dropped, 7), [true, true, false, true]),
        (team(&["a", "b", "c"], Leased, 8), [true, true, true, false]),
        (TeamRecord::default(), [false, false, false, false]),
    ] {
        let checks = restart_checks(&before, &sent, &after);
        assert_eq!(checks.each_ref().map(TeamCheck::holds), expected, "{after:?}");
    }
    let lost = restart_checks(&before, &sent, &team(&["a"], Leased, 7));
    assert_eq!(lost[1].to_string(), "1 of 2 earlier messages are unchanged");
}

#[test]
fn a_check_of_nothing_is_no_proof() {
    let nothing = TeamRecord::default();
    let checks = restart_checks(&nothing, &BTreeMap::new(), &nothing);
    assert!(checks.iter().all(|check| !check.holds()), "{checks:?}");
}

#[test]
fn a_text_that_is_missing_or_there_twice_is_found() {
    for (bodies, holds) in [
        (&["a", "b"][..], true),
        (&["a"], false),
        (&["a", "b", "b"], false),
        (&["b", "a", "c"], true),
    ] {
        let check = once_check(&["a", "b"], &team(bodies, DeliveryState::Pending, 1));
        assert_eq!(check.holds(), holds, "{bodies:?}");
    }
}

#[test]
fn gaps_unfinished_deliveries_and_repeated_effects_are_found() {
    let document = "# Notes\n- a: one\n- b: two\n";
    let whole = team(&["a", "b"], DeliveryState::Acted, 1);
    let with_gap = TeamRecord { messages: vec![message(1, "a"), message(3, "b")], ..whole.clone() };
    let pending = team(&["a", "b"], DeliveryState::Pending, 1);
    for (end, events, document, expected) in [
        (&whole, &[acted(&[1]), acted(&[2])][..], document, [true, true, true]),
        (&whole, &[acted(&[1, 2])], document, [true, true, true]),
        (&with_gap, &[acted(&[1, 2])], document, [false, true, true]),
        (&pending, &[acted(&[1, 2])], document, [true, false, true]),
        (&whole, &[acted(&[1, 2]), acted(&[2])], document, [true, false, true]),
        (&whole, &[acted(&[1])], document, [true, false, true]),
        (&whole, &[acted(&[1, 2])], "- a: one\n- a: one\n", [true, true, false]),
        (&whole, &[acted(&[1, 2])], "", [true, true, false]),
    ] {
        let checks = final_checks(end, events, document);
        assert_eq!(checks.each_ref().map(TeamCheck::holds), expected, "{events:?} {document}");
    }
}
