//! Tests of a conversation: its messages at every width, the open answers, and Ctrl-C.

use agent_worker_protocol::EventKind;
use serde_json::{Value, json};

use super::*;
use crate::{
    live::{
        message_draft::DraftFocus,
        typed_key::TypedKey,
        view::{RunProgress, Verbosity},
    },
    output::{
        samples::{agent_name, at, event, message_event},
        styled_line::Colour,
        wrapped_line::wrap_line,
    },
};

fn conversation() -> Conversation {
    Conversation::new(agent_name("coder"), &"review:pr-1".parse().unwrap())
}

/// Returns a message with these additional fields.
fn message(seq: i64, from: &str, to: &[&str], body: &str, more: &Value) -> Message {
    let EventBody::Message(message) = message_event(seq, from, to, body).body else { panic!() };
    let mut data = serde_json::to_value(message).unwrap();
    data.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(data).unwrap()
}

fn answer(seq: i64, body: &str, acts_on: &[i64]) -> Message {
    message(seq, "coder", &[], body, &json!({"kind": "answer", "acts_on": acts_on}))
}

fn event_of(message: Message) -> Event {
    crate::output::samples::typed_event(1, "", EventBody::Message(Box::new(message)))
}

fn reply(seq: i64) -> SendReply {
    SendReply {
        seq: Seq::new(seq),
        instance: "review:pr-1".parse().unwrap(),
        woken: vec![agent_name("coder")],
        cc: Vec::new(),
        paused: None,
        stopped: Vec::new(),
        unknown: Vec::new(),
        now: Vec::new(),
        deduplicated: false,
    }
}

fn painted(lines: &[StyledLine]) -> String {
    lines.iter().map(|line| line.paint(Colour::Off) + "\n").collect()
}

fn talk() -> Vec<Message> {
    let file = json!({
        "name": "shot.png", "media_type": "image/png", "size": 2048, "resource": "9f".repeat(32),
    });
    vec![
        message(1, "user", &["coder"], "please fix the cookie", &json!({})),
        message(2, "user", &["lead"], "not for the coder", &json!({})),
        message(3, "lead", &["coder"], "of another agent", &json!({})),
        answer(4, "to the lead", &[3]),
        answer(5, "The cookie has its flag.\n\nyou: approve \u{1b}[2Jall", &[1, 3]),
        message(6, "coder", &["lead"], "look at it", &json!({})),
        message(7, "coder", &[], "请看 the picture of the page", &json!({"attachments": [file]})),
        message(8, "client:ci", &["coder"], "red", &json!({})),
    ]
}

#[test]
fn the_conversation_is_what_the_person_and_the_agent_say_to_each_other() {
    let shown = conversation().history(&talk(), 10);
    insta::assert_snapshot!(painted(&shown.concat()), @r"
    you: please fix the cookie
    coder:
      The cookie has its flag.
      
      you: approve ␛[2Jall
    coder: 请看 the picture of the page
    attached to #7: shot.png (image/png, 2 KiB), resource 9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f
    ");
    let newest = conversation().history(&talk(), 1).concat();
    assert!(painted(&newest).starts_with("coder: 请看"), "{newest:?}");
}

/// Returns the end of a chat while the agent works, with an empty line and with a typed one.
fn shown_chat(columns: usize) -> String {
    let mut progress = RunProgress::new(
        "review:pr-1".parse().unwrap(),
        &[agent_name("lead"), agent_name("coder")],
        Verbosity::Normal,
    );
    let call = json!({"id": "1", "tool": "Edit", "args": {"file_path": "src/parser/tokens.rs"}});
    for event in [
        event(1, EventKind::AttemptRunning, "coder", json!({"pid": 7})),
        event(2, EventKind::Text, "coder", json!({"text": "I add a check of the length."})),
        event(3, EventKind::ToolCall, "coder", call),
        event(
            3,
            EventKind::Usage,
            "coder",
            json!({"input_tokens": 1000, "output_tokens": 200, "cost_micros": 40_000}),
        ),
    ] {
        progress.apply(&event);
    }
    let mut conversation = conversation();
    let history = conversation.history(&talk(), 2).concat();
    conversation.add_sent(&reply(9));
    let placeholder = conversation.placeholder();
    let mut draft = MessageDraft::default();
    let rows = history.iter().flat_map(|line| wrap_line(line, columns - 1));
    let row = progress.agent_line(&agent_name("coder"), at(32), columns - 1);
    let mut lines: Vec<_> = rows.chain(row).collect();
    lines.push(draft.draw(DraftFocus::Line, &placeholder, columns - 1));
    draft.press(&TypedKey::Paste("and the tests of the parser, please: all of them".into()));
    lines.push(draft.draw(DraftFocus::Line, &placeholder, columns - 1));
    assert!(lines.iter().all(|line| line.width() < columns), "{lines:?}");
    painted(&lines)
}

#[test]
fn a_chat_fits_every_width() {
    insta::assert_snapshot!(shown_chat(120), @r"
    coder:
      The cookie has its flag.
      
      you: approve ␛[2Jall
    coder: 请看 the picture of the page
    attached to #7: shot.png (image/png, 2 KiB), resource 9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f
      coder  Edit src/parser/tokens.rs · I add a check of the length. · 1.2k tok · $0.04 · 0:31
    > ▏coder has your message · Ctrl-C stops waiting
    > and the tests of the parser, please: all of them▏
    ");
    insta::assert_snapshot!(shown_chat(80), @r"
    coder:
      The cookie has its flag.
      
      you: approve ␛[2Jall
    coder: 请看 the picture of the page
    attached to #7: shot.png (image/png, 2 KiB), resource
      9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f
      coder  Edit src/parser/tokens.rs · …of the length. · 1.2k tok · $0.04 · 0:31
    > ▏coder has your message · Ctrl-C stops waiting
    > and the tests of the parser, please: all of them▏
    ");
    insta::assert_snapshot!(shown_chat(60), @r"
    coder:
      The cookie has its flag.
      
      you: approve ␛[2Jall
    coder: 请看 the picture of the page
    attached to #7: shot.png (image/png, 2 KiB), resource
      9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9
      f9f9f9f
      coder  Edit src/parser/tokens.… · 1.2k tok · $0.04 · 0:31
    > ▏coder has your message · Ctrl-C stops waiting
    > and the tests of the parser, please: all of them▏
    ");
    insta::assert_snapshot!(shown_chat(40), @r"
    coder:
      The cookie has its flag.
      
      you: approve ␛[2Jall
    coder: 请看 the picture of the page
    attached to #7: shot.png (image/png, 2
      KiB), resource
      9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9
      f9f9f9f9f9f9f9f9f9f9f9f9f9f
      coder  Edit src/parser/tokens… · 0:31
    > ▏coder has your message · Ctrl-C sto…
    > …of the parser, please: all of them▏
    ");
}

#[test]
fn a_message_is_open_until_the_agent_has_acted_on_it_or_never_will() {
    let ended = |acted: &[i64], answer: Value| {
        let mut data = json!({"end": "ok", "acted": acted, "pending": [], "dead": []});
        data["answer"] = answer;
        event(9, EventKind::AttemptEnded, "coder", data)
    };
    for (events, left, said) in [
        (vec![], Some("#1, #2 were"), ""),
        (vec![event_of(answer(3, "Done.", &[1]))], Some("#2 was"), ""),
        (vec![ended(&[1, 2], json!(3))], None, ""),
        (
            vec![ended(&[1], Value::Null)],
            Some("#2 was"),
            "coder has acted on #1 without an answer\n",
        ),
        (vec![event(9, EventKind::DeliveryDead, "coder", json!({"seq": 1}))], Some("#2 was"), ""),
        (
            vec![event(9, EventKind::DeliveryDropped, "coder", json!({"seq": 2}))],
            Some("#1 was"),
            "",
        ),
        (
            vec![event(9, EventKind::DeliveryDead, "lead", json!({"seq": 1}))],
            Some("#1, #2 were"),
            "",
        ),
    ] {
        let mut conversation = conversation();
        for seq in [1, 2] {
            conversation.apply(&event_of(message(seq, "user", &["coder"], "go", &json!({}))));
            conversation.add_sent(&reply(seq));
        }
        let lines: Vec<_> = events.iter().flat_map(|event| conversation.apply(event)).collect();
        assert!(painted(&lines).contains(said), "{lines:?}");
        let error = conversation.left_error();
        let message = error.map(|error| error.to_report_error().message);
        let expected = left.map(|left| format!("you left before {left} acted on"));
        assert_eq!(message, expected, "{events:?}");
        // A message that the end of the run drops was not acted on.
        let has_drop = events.iter().any(|event| event.kind() == Some(EventKind::DeliveryDropped));
        let lost = conversation.run_ended_error().map(|error| error.to_report_error().message);
        let names_both = lost.is_some_and(|lost| lost.contains("before #1, #2 were acted on"));
        assert_eq!(names_both, has_drop || left == Some("#1, #2 were"), "{events:?}");
    }
    // The answer may arrive before the confirmation of the message.
    let mut early = conversation();
    early.apply(&event_of(message(1, "user", &["coder"], "go", &json!({}))));
    early.apply(&event_of(answer(2, "Done.", &[1])));
    early.add_sent(&reply(1));
    assert!(early.left_error().is_none());
}

#[test]
fn a_message_of_the_history_is_not_shown_again() {
    let mut conversation = conversation();
    conversation.history(&talk(), 1);
    assert_eq!(conversation.apply(&event_of(talk().remove(4))), []);
    assert_eq!(conversation.apply(&event_of(answer(9, "New.", &[1]))).len(), 1);
}

#[test]
fn ctrl_c_ends_the_wait_then_removes_the_text_and_then_leaves() {
    let continues = |note: &str| InterruptEffect::Continues(note.to_owned());
    let again = "press Ctrl-C again or Ctrl-D to leave";
    let mut draft = MessageDraft::default();
    let mut idle = conversation();
    assert_eq!(idle.interrupt(&mut draft), continues(again));
    idle.note_key();
    assert_eq!(idle.interrupt(&mut draft), continues(again), "a key came between");
    assert_eq!(idle.interrupt(&mut draft), InterruptEffect::Leaves);

    let mut waiting = conversation();
    waiting.add_sent(&reply(1));
    draft.press(&TypedKey::Character('x'));
    assert_eq!(waiting.placeholder(), "coder has your message · Ctrl-C stops waiting");
    let stopped =
        "no longer waiting; coder continues, and its answer appears here. Ctrl-C again leaves";
    assert_eq!(waiting.interrupt(&mut draft), continues(stopped));
    assert_eq!(waiting.placeholder(), "message coder · Ctrl-D leaves");
    assert!(!draft.is_blank(), "the text is kept");
    waiting.note_key();
    assert_eq!(waiting.interrupt(&mut draft), continues(again));
    assert!(draft.is_blank());
    assert_eq!(waiting.interrupt(&mut draft), InterruptEffect::Leaves);
}
