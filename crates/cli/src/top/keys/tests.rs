//! Tests of the keys of the full screen.

use agent_worker_protocol::{ApprovalId, QuestionId, Seq};

use super::*;
use crate::{
    live::{attention_panel::ItemId, typed_key::KeyDecoder},
    output::{
        console::TerminalSize,
        samples::{agent_name, at},
    },
    top::state::tests::{run_id, sample},
};

/// Presses keys one after the other, a second apart, and draws the open item after each.
fn press(state: &mut TopState, keys: &[&str]) -> Vec<TopAction> {
    let mut actions = Vec::new();
    for (second, bytes) in (100..).zip(keys) {
        let mut decoder = KeyDecoder::default();
        let mut pressed = decoder.decode(bytes.as_bytes());
        pressed.extend(decoder.finish());
        draw_item(state, second - 1);
        actions.extend(state.press_keys(&pressed, at(second)));
        draw_item(state, second);
    }
    actions
}

fn draw_item(state: &mut TopState, second: i64) {
    use crate::top::entries::AttentionEntry;
    if let TopMode::Detail(key, _) = &state.mode
        && let Some(AttentionEntry::Open(item)) = state.attention_entry(key).cloned()
    {
        state.panel.draw(&[item], TerminalSize { width: 80, height: 20 }, at(second));
    }
}

#[test]
fn arrows_letters_and_tab_move_the_selection() {
    let agent = |run, name| Some(EntryKey::Agent(run_id(run), agent_name(name)));
    for (keys, expected) in [
        (&[][..], agent(1, "lead")),
        (&["\u{1b}[B"], agent(1, "coder")),
        (&["j", "j", "k"], agent(1, "coder")),
        (&["j", "\u{1b}[A", "\u{1b}[A"], agent(1, "lead")),
        (&["\u{1b}[F"], agent(2, "writer")),
        (&["\u{1b}[6~", "\u{1b}[5~"], agent(1, "lead")),
        (&["\u{1b}[F", "\u{1b}[H"], agent(1, "lead")),
        (&["\t", "\t"], Some(EntryKey::Message(run_id(1), Seq::new(4)))),
        (&["\t", "\t", "k"], Some(EntryKey::Message(run_id(2), Seq::new(3)))),
        (&["\t", "\t", "\t", "j"], agent(1, "coder")),
    ] {
        let mut state = sample();
        assert_eq!(press(&mut state, keys), []);
        assert_eq!(state.selected_key(), expected, "{keys:?}");
    }
}

#[test]
fn enter_opens_the_details_and_escape_or_enter_closes_them() {
    for back in ["\u{1b}", "\r", "q"] {
        let mut state = sample();
        press(&mut state, &["j", "\r", "\u{1b}[B", "\u{1b}[B", "\u{1b}[A"]);
        let key = EntryKey::Agent(run_id(1), agent_name("coder"));
        assert_eq!(state.mode, TopMode::Detail(key, 1));
        assert_eq!(press(&mut state, &[back]), []);
        assert_eq!(state.mode, TopMode::List, "{back:?}");
    }
    let mut state = sample();
    press(&mut state, &["?"]);
    assert_eq!(state.mode, TopMode::Help);
    press(&mut state, &["q"]);
    assert_eq!(state.mode, TopMode::List);
    assert_eq!(press(&mut state, &["q"]), [TopAction::Quit]);
}

#[test]
fn an_item_is_answered_with_its_keys_only_when_it_is_open() {
    let place = |instance: &str, project: &str| ItemPlace {
        instance: instance.parse().unwrap(),
        project: project.into(),
    };
    let review = place("review:pr-1", "/repo");
    let request = ApprovalId::new(3);
    let (to_request, to_question) = (["\t", "j", "\r"], ["\t", "\r"]);
    for (keys, expected) in [
        (&["\t", "j", "y"][..], None),
        (
            &[&to_request[..], &["y"]].concat(),
            Some(TopAction::Decide(review.clone(), PanelDecision::Approve(request))),
        ),
        (
            &[&to_request[..], &["n"]].concat(),
            Some(TopAction::Decide(review.clone(), PanelDecision::Deny(request, None))),
        ),
        (
            &[&to_request[..], &["r", "not", "\t", " yet\r"]].concat(),
            Some(TopAction::Decide(review, PanelDecision::Deny(request, Some("not yet".into())))),
        ),
        (&[&to_request[..], &["yes"]].concat(), None),
        (
            &[&to_question[..], &["2"]].concat(),
            Some(TopAction::Decide(
                place("docs", "/docs"),
                PanelDecision::Answer(QuestionId::new(1), "wait".into()),
            )),
        ),
        (&[&to_question[..], &["\u{1b}", "2"]].concat(), None),
    ] {
        let mut state = sample();
        assert_eq!(press(&mut state, keys).into_iter().next(), expected, "{keys:?}");
    }
    // The key opens the oldest item; without items it says so.
    let mut state = sample();
    press(&mut state, &["a"]);
    let oldest = EntryKey::Item(run_id(2), ItemId::Question(QuestionId::new(1)));
    assert_eq!(state.mode, TopMode::Detail(oldest, 0));
    let mut empty = TopState::new();
    press(&mut empty, &["a"]);
    assert!(empty.notice.is_some_and(|notice| notice.text() == "nothing needs you"));
}

#[test]
fn the_detail_of_an_item_that_was_answered_elsewhere_while_a_person_typed_is_left_by_key() {
    for back in ["\u{1b}", "\r", "q"] {
        let mut state = sample();
        press(&mut state, &["\t", "j", "\r", "r", "not"]);
        assert!(state.panel.is_typing());
        state.set_attention(Vec::new());
        // The rest of the text is no command.
        assert_eq!(press(&mut state, &[" yet"]), []);
        assert!(matches!(state.mode, TopMode::Detail(EntryKey::Item(..), _)), "{back:?}");
        assert_eq!(press(&mut state, &[back]), [], "{back:?}");
        assert_eq!(state.mode, TopMode::List, "{back:?}");
        assert!(!state.panel.is_typing());
    }
    // Also as the first key.
    let mut state = sample();
    press(&mut state, &["\t", "j", "\r", "r", "not"]);
    state.set_attention(Vec::new());
    press(&mut state, &["\u{1b}"]);
    assert_eq!(state.mode, TopMode::List);
}

#[test]
fn a_message_goes_to_the_team_of_the_selected_row_and_is_kept_if_it_was_not_sent() {
    let mut state = sample();
    let sent = press(&mut state, &["j", "s", "and the tests?\r"]);
    assert_eq!(sent, [TopAction::Send(run_id(1), "@coder and the tests?".into())]);
    state.keep_unsent(run_id(1), "@coder and the tests?".into());
    assert_eq!(
        press(&mut state, &["\u{1b}[F", "s", "\u{15}hello\r"]),
        [TopAction::Send(run_id(2), "hello".into())]
    );
    let again = press(&mut state, &["\u{1b}[H", "s", "!\r"]);
    assert_eq!(again, [TopAction::Send(run_id(1), "@coder and the tests?!".into())]);
    assert_eq!(press(&mut state, &["s", "no", "\u{1b}"]), []);
    assert_eq!(state.mode, TopMode::List);
    let mut empty = TopState::new();
    press(&mut empty, &["s"]);
    assert!(empty.notice.is_some_and(|notice| notice.text() == "no run is live"));
}

#[test]
fn a_filter_applies_while_it_is_typed_and_escape_removes_it() {
    let mut state = sample();
    press(&mut state, &["/", "WRIT"]);
    assert_eq!(state.keys_of(TopPane::Agents), [EntryKey::Agent(run_id(2), agent_name("writer"))]);
    assert_eq!(state.keys_of(TopPane::Attention).len(), 1);
    assert_eq!(state.keys_of(TopPane::Channel).len(), 2, "the text of a message counts");
    press(&mut state, &["\r"]);
    assert_eq!((state.filter.as_str(), &state.mode), ("WRIT", &TopMode::List));
    press(&mut state, &["\u{1b}"]);
    assert_eq!(state.keys_of(TopPane::Agents).len(), 4);
    press(&mut state, &["/", "x", "\u{1b}"]);
    assert_eq!((state.filter.as_str(), &state.mode), ("", &TopMode::List));
}
