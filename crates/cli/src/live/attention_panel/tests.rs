//! Tests of the panel: what it shows at which size, and the effect of keys.

use agent_worker_protocol::RunId;
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;
use crate::{live::typed_key::KeyDecoder, output::styled_line::Colour};

const SIZE: TerminalSize = TerminalSize { width: 60, height: 12 };

fn request(id: i64, args: Value) -> ApprovalView {
    ApprovalView {
        instance: "review".parse().unwrap(),
        project: "/p".into(),
        id: ApprovalId::new(id),
        run: RunId::new(Uuid::nil()),
        agent: "coder".parse().unwrap(),
        tool: "Bash".into(),
        args,
        asked: Millis::default(),
        answer: None,
        exact_pattern: None,
        grant: None,
    }
}

fn open_request(id: i64, args: Value) -> OpenItem {
    OpenItem::Approval(request(id, args))
}

fn push_request(command: &str) -> ApprovalView {
    let exact_pattern = Some(format!("Bash({command})").parse().unwrap());
    ApprovalView { exact_pattern, ..request(3, json!({ "command": command })) }
}

fn edit_request() -> OpenItem {
    let args = json!({
        "file_path": "src/parser.rs",
        "old_string": "fn parse(line: &str) -> Token {\n    Token::new(line)\n}\n",
        "new_string": "fn parse(line: &str) -> Option<Token> {\n    (line.len() > 2).then(|| Token::new(line))\n}\n",
    });
    OpenItem::Approval(ApprovalView { tool: "Edit".into(), ..request(3, args) })
}

fn question(options: &[&str]) -> OpenItem {
    OpenItem::Question(QuestionView {
        instance: "review".parse().unwrap(),
        project: "/p".into(),
        id: QuestionId::new(1),
        run: RunId::new(Uuid::nil()),
        agent: "lead".parse().unwrap(),
        question: "Ship the change today, or wait for the review of the second parser?".into(),
        options: options.iter().map(|option| (*option).to_owned()).collect(),
        asked: Millis::default(),
        answer: None,
    })
}

fn at(millis: i64) -> Millis {
    Millis::new(1_000_000 + millis)
}

/// Returns the keys that a terminal sends as these bytes.
fn pressed(bytes: &[u8]) -> Vec<TypedKey> {
    let mut decoder = KeyDecoder::default();
    let mut keys = decoder.decode(bytes);
    keys.extend(decoder.finish());
    keys
}

#[expect(clippy::unnecessary_wraps, reason = "compared with an optional decision")]
fn approve(id: i64) -> Option<PanelDecision> {
    Some(PanelDecision::Approve(ApprovalId::new(id)))
}

#[expect(clippy::unnecessary_wraps, reason = "compared with an optional decision")]
fn deny(id: i64, reason: Option<&str>) -> Option<PanelDecision> {
    Some(PanelDecision::Deny(ApprovalId::new(id), reason.map(str::to_owned)))
}

fn painted(lines: &[StyledLine]) -> String {
    lines.iter().map(|line| line.paint(Colour::Off) + "\n").collect()
}

/// Returns the panel with one item at a width.
fn shown(item: OpenItem, width: usize) -> String {
    let lines = AttentionPanel::default().draw(&[item], TerminalSize { width, height: 20 }, at(0));
    assert!(lines.iter().all(|line| line.width() < width), "{lines:?}");
    painted(&lines)
}

#[test]
fn a_command_is_shown_at_every_width_with_its_keys() {
    let mut push = push_request("git push origin main --force-with-lease");
    push.args["description"] = json!("Publishes the branch");
    let push = || OpenItem::Approval(push.clone());
    insta::assert_snapshot!(shown(push(), 120), @r#"
    #3 coder wants Bash
    │ $ git push origin main --force-with-lease
    │ & description: "Publishes the branch"
    for this run │ Bash(git push origin main --force-with-lease)
    y once · a for this run · n deny · r deny with a reason
    "#);
    insta::assert_snapshot!(shown(push(), 80), @r#"
    #3 coder wants Bash
    │ $ git push origin main --force-with-lease
    │ & description: "Publishes the branch"
    for this run │ Bash(git push origin main --force-with-lease)
    y once · a for this run · n deny · r deny with a reason
    "#);
    insta::assert_snapshot!(shown(push(), 60), @r#"
    #3 coder wants Bash
    │ $ git push origin main --force-with-lease
    │ & description: "Publishes the branch"
    for this run │ Bash(git push origin main --force-with-lea
    for this run │ ↳ se)
    y once · a for this run · n deny · r deny with a reason
    "#);
    insta::assert_snapshot!(shown(push(), 40), @r#"
    #3 coder wants Bash
    │ $ git push origin main --force-with
    │ ↳ -lease
    │ & description: "Publishes the branc
    │ ↳ h"
    for this run │ Bash(git push origin m
    for this run │ ↳ ain --force-with-lea
    for this run │ ↳ se)
    y once · a for this run · n deny
    r deny with a reason
    "#);
}

#[test]
fn an_edit_is_shown_as_a_diff_at_every_width() {
    insta::assert_snapshot!(shown(edit_request(), 120), @r"
    #3 coder wants Edit
    │ file src/parser.rs
    │ - fn parse(line: &str) -> Token {
    │ -     Token::new(line)
    │ + fn parse(line: &str) -> Option<Token> {
    │ +     (line.len() > 2).then(|| Token::new(line))
    │   }
    y once · n deny · r deny with a reason
    ");
    insta::assert_snapshot!(shown(edit_request(), 80), @r"
    #3 coder wants Edit
    │ file src/parser.rs
    │ - fn parse(line: &str) -> Token {
    │ -     Token::new(line)
    │ + fn parse(line: &str) -> Option<Token> {
    │ +     (line.len() > 2).then(|| Token::new(line))
    │   }
    y once · n deny · r deny with a reason
    ");
    insta::assert_snapshot!(shown(edit_request(), 60), @r"
    #3 coder wants Edit
    │ file src/parser.rs
    │ - fn parse(line: &str) -> Token {
    │ -     Token::new(line)
    │ + fn parse(line: &str) -> Option<Token> {
    │ +     (line.len() > 2).then(|| Token::new(line))
    │   }
    y once · n deny · r deny with a reason
    ");
    insta::assert_snapshot!(shown(edit_request(), 40), @r"
    #3 coder wants Edit
    │ file src/parser.rs
    │ - fn parse(line: &str) -> Token {
    │ -     Token::new(line)
    │ + fn parse(line: &str) -> Option<To
    │ ↳ ken> {
    │ +     (line.len() > 2).then(|| Toke
    │ ↳ n::new(line))
    │   }
    y once · n deny
    r deny with a reason
    ");
}

#[test]
fn a_question_is_shown_at_every_width_with_a_key_for_each_answer() {
    let asked = || question(&["today", "wait for the second parser"]);
    insta::assert_snapshot!(shown(asked(), 120), @r"
    question #1 of lead
    │ Ship the change today, or wait for the review of the second parser?
    1 today
    2 wait for the second parser
    1–2 answers
    ");
    insta::assert_snapshot!(shown(asked(), 80), @r"
    question #1 of lead
    │ Ship the change today, or wait for the review of the second parser?
    1 today
    2 wait for the second parser
    1–2 answers
    ");
    insta::assert_snapshot!(shown(asked(), 60), @r"
    question #1 of lead
    │ Ship the change today, or wait for the review of the
    │   second parser?
    1 today
    2 wait for the second parser
    1–2 answers
    ");
    insta::assert_snapshot!(shown(asked(), 40), @r"
    question #1 of lead
    │ Ship the change today, or wait for
    │   the review of the second parser?
    1 today
    2 wait for the second parser
    1–2 answers
    ");
    insta::assert_snapshot!(shown(question(&[]), 80), @r"
    question #1 of lead
    │ Ship the change today, or wait for the review of the second parser?
    t types an answer
    ");
}

#[test]
fn a_request_is_shown_verbatim_and_nothing_in_it_imitates_other_output() {
    let args =
        json!({"command": "git push\n  y once\u{1b}[2J\u{202e}", "description": "x".repeat(60)});
    let lines = AttentionPanel::default().draw(&[open_request(3, args)], SIZE, at(0));
    insta::assert_snapshot!(painted(&lines), @r#"
    #3 coder wants Bash
    │ $ git push
    │ >   y once\u{1b}[2J\u{202e}
    │ & description: "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
    │ ↳ xxxxxxxxxxxxxxxxxxxxx"
    y once · n deny · r deny with a reason
    "#);
}

#[test]
fn what_does_not_fit_is_cut_and_can_only_be_denied() {
    let long = [open_request(3, json!({"command": "x".repeat(600)})), open_request(4, json!({}))];
    let mut panel = AttentionPanel::default();
    let lines = panel.draw(&long, SIZE, at(0));
    assert_eq!(lines.len(), SIZE.height);
    let foot = painted(&lines[SIZE.height - 2..]);
    let expected =
        "  too long for here: agent-worker pending 3 · n deny\n  r deny with a reason · 1 more\n";
    assert_eq!(foot, expected);
    assert_eq!(panel.decision_for_keys(&pressed(b"y"), at(1_000)), None);
    assert_eq!(panel.decision_for_keys(&pressed(b"n"), at(2_000)), deny(3, None));
    // A larger terminal shows all of it, and the display time starts again.
    let large = TerminalSize { width: 60, height: 24 };
    assert!(painted(&panel.draw(&long, large, at(3_000))).ends_with(" a reason · 1 more\n"));
    assert_eq!(panel.decision_for_keys(&pressed(b"y"), at(3_400)), None);
    assert_eq!(panel.decision_for_keys(&pressed(b"y"), at(4_000)), approve(3));
    for size in [TerminalSize { width: 8, height: 24 }, TerminalSize { width: 60, height: 3 }] {
        panel.draw(&[open_request(3, json!({}))], size, at(5_000));
        assert_eq!(panel.decision_for_keys(&pressed(b"y"), at(9_000)), None, "{size:?}");
    }
}

#[test]
fn a_key_allows_for_the_run_the_pattern_that_is_visible_as_a_whole() {
    let push = push_request("git push origin");
    let open = [OpenItem::Approval(push.clone())];
    let mut panel = AttentionPanel::default();
    let lines = panel.draw(&open, SIZE, at(0));
    insta::assert_snapshot!(painted(&lines), @r"
    #3 coder wants Bash
    │ $ git push origin
    for this run │ Bash(git push origin)
    y once · a for this run · n deny · r deny with a reason
    ");
    let allowed = PanelDecision::ApproveForRun(push.id, push.exact_pattern.unwrap());
    assert_eq!(panel.decision_for_keys(&pressed(b"a"), at(499)), None);
    assert_eq!(panel.decision_for_keys(&pressed(b"a"), at(1_000)), Some(allowed));
    assert_eq!(panel.decision_for_keys(&pressed(b"y"), at(2_000)), approve(3));
    // One line less: the request fits, and its pattern does not.
    let small = TerminalSize { height: lines.len() - 1, ..SIZE };
    let lines = panel.draw(&open, small, at(3_000));
    let foot = lines.last().unwrap().paint(Colour::Off);
    assert_eq!(foot, "  y once · n deny · r deny with a reason");
    assert_eq!(panel.decision_for_keys(&pressed(b"a"), at(5_000)), None);
    assert_eq!(panel.decision_for_keys(&pressed(b"y"), at(6_000)), approve(3));
    // Without a pattern that names the call there is no such key.
    panel.draw(&[open_request(3, json!({"anything": 1}))], SIZE, at(7_000));
    assert_eq!(panel.decision_for_keys(&pressed(b"a"), at(9_000)), None);
}

#[test]
fn only_a_single_key_after_the_request_was_shown_is_an_answer() {
    let open = [open_request(3, json!({"command": "ls"}))];
    for (keys, pauses, expected) in [
        (&[&b"y"[..]][..], &[500][..], approve(3)),
        (&[b"Y"], &[500], approve(3)),
        (&[b"n"], &[500], deny(3, None)),
        (&[b"y"], &[499], None),
        (&[b"yes\n"], &[900], None),
        (&[b"\x1b[A"], &[900], None),
        (&[b" "], &[900], None),
        (&[b"\r"], &[900], None),
        (&[b"1"], &[900], None),
        // The user types a command for later.
        (&[b"t", b"y"], &[900, 200], None),
        (&[b"t", b"y"], &[900, 600], approve(3)),
    ] {
        let mut panel = AttentionPanel::default();
        panel.draw(&open, SIZE, at(0));
        let (mut now, mut decision) = (0, None);
        for (keys, pause) in keys.iter().zip(pauses) {
            now += pause;
            decision = panel.decision_for_keys(&pressed(keys), at(now));
            panel.draw(&open, SIZE, at(now));
        }
        assert_eq!(decision, expected, "{keys:?} {pauses:?}");
    }
}

#[test]
fn a_reason_is_typed_at_a_prompt_and_sent_with_enter() {
    let open = [open_request(3, json!({"command": "ls"})), question(&["yes"])];
    let mut panel = AttentionPanel::default();
    panel.draw(&open, SIZE, at(0));
    assert_eq!(panel.decision_for_keys(&pressed(b"r"), at(499)), None);
    assert_eq!(panel.decision_for_keys(&pressed(b"r"), at(1_000)), None);
    // The prompt takes keys at once, and none of them is an answer.
    for keys in [&b"y"[..], b"n", b" not today"] {
        assert_eq!(panel.decision_for_keys(&pressed(keys), at(1_000)), None);
    }
    insta::assert_snapshot!(painted(&panel.draw(&open, SIZE, at(1_000))), @r"
    #3 coder wants Bash
    │ $ ls
    reason: yn not today▏
    Enter sends · Esc goes back
    ");
    assert_eq!(panel.decision_for_keys(&pressed(b"\r"), at(1_001)), deny(3, Some("yn not today")));
    // Escape goes back, and the key that follows must be settled again.
    panel.draw(&open, SIZE, at(2_000));
    panel.decision_for_keys(&pressed(b"r"), at(3_000));
    assert_eq!(panel.decision_for_keys(&pressed(b"\x1b"), at(3_100)), None);
    assert_eq!(panel.decision_for_keys(&pressed(b"y"), at(3_200)), None);
    assert_eq!(panel.decision_for_keys(&pressed(b"y"), at(4_000)), approve(3));
}

#[test]
fn a_line_about_an_item_that_is_answered_elsewhere_goes_to_no_other() {
    let open = [open_request(3, json!({})), open_request(4, json!({}))];
    let mut panel = AttentionPanel::default();
    panel.draw(&open, SIZE, at(0));
    panel.decision_for_keys(&pressed(b"r"), at(1_000));
    panel.decision_for_keys(&pressed(b"not this"), at(1_100));
    panel.draw(&open[1..], SIZE, at(1_200));
    assert_eq!(panel.decision_for_keys(&pressed(b"\r"), at(2_000)), None);
    assert_eq!(panel.decision_for_keys(&pressed(b"n"), at(3_000)), deny(4, None));
}

#[test]
fn a_request_that_arrives_does_not_interrupt_a_line() {
    let (asked, request) = (question(&[]), open_request(3, json!({})));
    let mut panel = AttentionPanel::default();
    panel.draw(std::slice::from_ref(&asked), SIZE, at(0));
    assert_eq!(panel.decision_for_keys(&pressed(b"1"), at(1_000)), None, "it has no options");
    panel.decision_for_keys(&pressed(b"t"), at(2_000));
    panel.decision_for_keys(&pressed(b"wait"), at(2_100));
    let drawn = painted(&panel.draw(&[request, asked], SIZE, at(2_200)));
    assert!(drawn.contains("question #1 of lead") && drawn.contains("  answer: wait"), "{drawn}");
    let answer = PanelDecision::Answer(QuestionId::new(1), "wait".into());
    assert_eq!(panel.decision_for_keys(&pressed(b"\r"), at(2_300)), Some(answer));
}

#[test]
fn a_number_key_gives_the_answer_with_that_number() {
    let answer = |text: &str| Some(PanelDecision::Answer(QuestionId::new(1), text.to_owned()));
    for (key, expected) in [
        (b"1", answer("today")),
        (b"2", answer("later")),
        (b"3", None),
        (b"0", None),
        (b"y", None),
        (b"n", None),
    ] {
        let mut panel = AttentionPanel::default();
        panel.draw(&[question(&["today", "later"])], SIZE, at(0));
        assert_eq!(panel.decision_for_keys(&pressed(key), at(499)), None);
        assert_eq!(panel.decision_for_keys(&pressed(key), at(1_000)), expected, "{key:?}");
    }
    let small = TerminalSize { height: 4, ..SIZE };
    let mut panel = AttentionPanel::default();
    panel.draw(&[question(&["today", "later"])], small, at(0));
    assert_eq!(
        panel.decision_for_keys(&pressed(b"1"), at(1_000)),
        None,
        "not all of it is visible"
    );
}

#[test]
fn a_key_meant_for_one_request_never_answers_the_next() {
    let mut panel = AttentionPanel::default();
    let (first, next) = (open_request(3, json!({})), open_request(4, json!({})));
    panel.draw(&[first, next.clone()], SIZE, at(0));
    // The request is answered elsewhere just before the key.
    panel.draw(std::slice::from_ref(&next), SIZE, at(2_000));
    assert_eq!(panel.decision_for_keys(&pressed(b"y"), at(2_050)), None);
    panel.hide();
    assert_eq!(panel.decision_for_keys(&pressed(b"y"), at(9_000)), None);
    panel.draw(&[], SIZE, at(9_000));
    assert_eq!(panel.decision_for_keys(&pressed(b"y"), at(19_000)), None);
}
