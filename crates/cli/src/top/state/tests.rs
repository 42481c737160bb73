//! Tests of the state of the full screen, and the sample that other tests share.

use agent_worker_protocol::{
    AgentState, ApprovalId, DeliveryState, Position, QuestionId, RunState, Seq, Usage,
    api::{ApprovalView, DeadLetter, QuestionView},
};
use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::{
    live::attention_panel::OpenItem,
    output::samples::{self, agent, agent_name, at, event, message_event, receipt},
};

/// Returns the id of the sample run with this number.
pub(in crate::top) fn run_id(number: u64) -> RunId {
    RunId::new(Uuid::from_u64_pair(1, number))
}

/// Returns a live run of an instance.
pub(in crate::top) fn run_view(number: u64, instance: &str, agents: &[&str]) -> RunView {
    RunView {
        run: run_id(number),
        instance: instance.parse().unwrap(),
        state: RunState::Running,
        ended: None,
        position: Position::new(1),
        agents: agents.iter().map(|name| agent(name, AgentState::Idle)).collect(),
        usage: Usage {
            input_tokens: 10_000,
            output_tokens: 200,
            cost_micros: Some(50_000),
            ..Usage::default()
        },
        ..samples::run()
    }
}

pub(in crate::top) fn message(seq: i64, from: &str, to: &[&str], body: &str) -> Message {
    let EventBody::Message(message) = message_event(seq, from, to, body).body else { panic!() };
    *message
}

pub(in crate::top) fn request(run: u64, instance: &str) -> AttentionEntry {
    AttentionEntry::Open(OpenItem::Approval(ApprovalView {
        instance: instance.parse().unwrap(),
        project: "/repo".into(),
        id: ApprovalId::new(3),
        run: run_id(run),
        agent: agent_name("coder"),
        tool: "Bash".into(),
        args: json!({"command": "git push origin main"}),
        asked: at(20),
        answer: None,
        exact_pattern: None,
        grant: None,
    }))
}

pub(in crate::top) fn question(run: u64, instance: &str) -> AttentionEntry {
    AttentionEntry::Open(OpenItem::Question(QuestionView {
        instance: instance.parse().unwrap(),
        project: "/docs".into(),
        id: QuestionId::new(1),
        run: run_id(run),
        agent: agent_name("writer"),
        question: "Ship the change today,\nor wait for the \u{1b}[2Jreview?".into(),
        options: vec!["today".into(), "wait".into()],
        asked: at(10),
        answer: None,
    }))
}

fn dead_letter(run: u64, instance: &str) -> AttentionEntry {
    AttentionEntry::Dead(Box::new(DeadLetter {
        instance: instance.parse().unwrap(),
        project: "/repo".into(),
        run: run_id(run),
        live: true,
        receipt: agent_worker_protocol::Receipt {
            why: Some("3 failures: the worker\nis gone".into()),
            ..receipt(2, "tester", DeliveryState::Dead)
        },
        message: message(2, "user", &["tester"], "run all tests"),
    }))
}

/// Returns a screen with two runs, three items and some messages.
pub(in crate::top) fn sample() -> TopState {
    let mut state = TopState::new();
    let runs = [
        run_view(1, "review:pr-1", &["lead", "coder", "tester"]),
        run_view(2, "docs", &["writer"]),
    ];
    state.set_runs(&runs, 0);
    let call =
        json!({"id": "1", "tool": "Edit", "args": {"file_path": "/repo/src/parser/tokens.rs"}});
    for event in [
        event(40, EventKind::AttemptRunning, "coder", json!({"pid": 8})),
        event(41, EventKind::Text, "coder", json!({"text": "I add a check of the length."})),
        event(42, EventKind::ToolCall, "coder", call),
        event(
            42,
            EventKind::Usage,
            "coder",
            json!({"input_tokens": 1_000, "output_tokens": 200, "cost_micros": 40_000}),
        ),
    ] {
        state.apply(run_id(1), &event);
    }
    state.add_messages(
        run_id(1),
        [
            message(1, "user", &["lead"], "please review this change"),
            message(
                4,
                "lead",
                &["coder", "tester"],
                "@coder fix line 42\n@tester write its cases \u{1b}[2J",
            ),
        ],
    );
    state.add_messages(run_id(2), [message(3, "user", &["writer"], "write the 请 page")]);
    state.set_attention(vec![
        request(1, "review:pr-1"),
        question(2, "docs"),
        dead_letter(1, "review:pr-1"),
        request(9, "of-another-run"),
    ]);
    state
}

#[test]
fn items_are_sorted_by_age_and_messages_by_time_and_each_is_there_once() {
    let mut state = sample();
    let items: Vec<String> = state.attention.iter().map(|item| item.line().text()).collect();
    assert_eq!(
        items,
        [
            "question #1 writer@docs: Ship the change today, or wait for the ␛[2Jreview?",
            "request #3 coder@review:pr-1 wants Bash $ git push origin main",
            "dead letter #2 tester@review:pr-1: 3 failures: the worker is gone",
        ]
    );
    state.add_messages(
        run_id(1),
        [message(4, "lead", &[], "again"), message(2, "user", &[], "late")],
    );
    state.add_messages(run_id(7), [message(9, "user", &[], "of an unknown run")]);
    let seqs: Vec<i64> = state.channel.iter().map(|entry| entry.message.seq.get()).collect();
    assert_eq!(seqs, [1, 2, 3, 4]);
    let many = (10..700).map(|seq| message(seq, "user", &[], "x"));
    state.add_messages(run_id(1), many);
    assert_eq!(state.channel.len(), MAX_MESSAGES);
    assert_eq!(state.channel[MAX_MESSAGES - 1].message.seq, Seq::new(699));
}

#[test]
fn a_run_that_ends_takes_its_messages_along_and_a_known_run_keeps_its_progress() {
    let mut state = sample();
    let before = state.runs[0].progress.agent_line(&agent_name("coder"), at(50), 80);
    state.set_runs(&[run_view(1, "review:pr-1", &["lead"])], 3);
    assert_eq!(state.runs[0].progress.agent_line(&agent_name("coder"), at(50), 80), before);
    assert!(state.channel.iter().all(|entry| entry.run == run_id(1)));
    assert_eq!((state.runs.len(), state.hidden_runs), (1, 3));
}

#[test]
fn events_say_which_data_is_out_of_date() {
    let mut state = sample();
    for (kind, data, expected) in [
        (EventKind::RunEnded, json!({"outcome": "done"}), StaleData::Runs),
        (EventKind::QuestionOpen, json!({"question": 2}), StaleData::Attention),
        (EventKind::DeliveryDead, json!({"seq": 2}), StaleData::Attention),
        (EventKind::Text, json!({"text": "a word"}), StaleData::None),
    ] {
        assert_eq!(state.apply(run_id(1), &event(50, kind, "coder", data)), expected, "{kind:?}");
    }
}

#[test]
fn the_selection_follows_its_row_and_the_newest_message() {
    let mut state = sample();
    let newest = |state: &TopState| {
        let keys = state.keys_of(TopPane::Channel);
        keys[state.selected_index(TopPane::Channel, &keys)].clone()
    };
    assert_eq!(newest(&state), EntryKey::Message(run_id(1), Seq::new(4)));
    state.add_messages(run_id(2), [message(5, "user", &[], "next")]);
    assert_eq!(newest(&state), EntryKey::Message(run_id(2), Seq::new(5)));
    state.select(TopPane::Channel, Some(EntryKey::Message(run_id(1), Seq::new(4))));
    state.add_messages(run_id(2), [message(6, "user", &[], "more")]);
    assert_eq!(newest(&state), EntryKey::Message(run_id(1), Seq::new(4)));
}
