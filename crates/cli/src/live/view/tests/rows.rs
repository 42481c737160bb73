//! Tests of the rows of the agents: tools, words, figures and colours.

use serde_json::{Value, json};

use super::*;

/// Returns a team at work: one agent edits a file, one has run a command, one is idle.
fn busy_team() -> RunProgress {
    let mut view = RunProgress::new(
        "review:pr-1".parse().unwrap(),
        &["lead", "coder", "tester"].map(agent_name),
        Verbosity::Normal,
    )
    .in_folder(Path::new("/repo"));
    let call = |id: &str, tool: &str, args: Value| json!({"id": id, "tool": tool, "args": args});
    let answered =
        |id: &str, tool: &str| json!({"id": id, "tool": tool, "ok": true, "summary": "ok"});
    let used = |seconds, who: &str, usage| event(seconds, EventKind::Usage, who, usage);
    let ok = json!({"end": "ok", "acted": [1], "pending": [], "dead": []});
    let edit =
        json!({"file_path": "/repo/src/parser/tokens.rs", "old_string": "a", "new_string": "b"});
    let events = [
        event(0, EventKind::RunRunning, "", json!({"state": "running"})),
        message_event(1, "user", &["lead"], "please review this change"),
        event(1, EventKind::AttemptRunning, "lead", json!({"pid": 7})),
        used(2, "lead", json!({"input_tokens": 700, "output_tokens": 120, "cost_micros": 10_000})),
        event(3, EventKind::AttemptEnded, "lead", ok),
        event(4, EventKind::AttemptRunning, "coder", json!({"pid": 8})),
        used(
            5,
            "coder",
            json!({"input_tokens": 1_000, "output_tokens": 20, "cost_micros": 30_000}),
        ),
        used(6, "coder", json!({"input_tokens": 200, "output_tokens": 30, "cost_micros": 10_000})),
        event(
            7,
            EventKind::Text,
            "coder",
            json!({"text": "The parser accepts short lines.\nI add a check of "}),
        ),
        event(8, EventKind::Text, "coder", json!({"text": "the length to each token."})),
        event(9, EventKind::ToolCall, "coder", call("1", "Edit", edit)),
        event(10, EventKind::AttemptRunning, "tester", json!({"pid": 9})),
        used(11, "tester", json!({"input_tokens": 9_000, "output_tokens": 3_500})),
        event(
            12,
            EventKind::ToolCall,
            "tester",
            call("2", "Bash", json!({"command": "cargo test"})),
        ),
        event(13, EventKind::ToolResult, "tester", answered("2", "Bash")),
    ];
    above(&mut view, &events);
    view
}

#[test]
fn every_agent_has_a_row_with_its_tool_its_last_words_and_its_figures_at_every_width() {
    let view = busy_team();
    let size = |width| TerminalSize { width, height: 24 };
    insta::assert_snapshot!(below(&view, 35, size(120)), @r"
    review:pr-1 · running · 0:35 · 1 turn · 1 message · 14k tok
      lead    queued · 820 tok · $0.01
      coder   Edit src/parser/tokens.rs · I add a check of the length to each token. · 1.2k tok · $0.04 · 0:31
      tester  working · after Bash cargo test · 12k tok · 0:25
    ");
    insta::assert_snapshot!(below(&view, 35, size(80)), @r"
    review:pr-1 · running · 0:35 · 1 turn · 1 message · 14k tok
      lead    queued · 820 tok · $0.01
      coder   Edit src/parser/tokens.rs · …to each token. · 1.2k tok · $0.04 · 0:31
      tester  working · after Bash cargo test · 12k tok · 0:25
    ");
    insta::assert_snapshot!(below(&view, 35, size(60)), @r"
    review:pr-1 · running · 0:35 · 1 turn · 1 message · 14k tok
      lead    queued · 820 tok · $0.01
      coder   Edit src/parser/tokens… · 1.2k tok · $0.04 · 0:31
      tester  working · after Bash cargo test · 12k tok · 0:25
    ");
    insta::assert_snapshot!(below(&view, 35, size(40)), @r"
    review:pr-1 · running · 0:35 · 1 turn
      lead    queued · 820 tok · $0.01
      coder   Edit src/parser/token… · 0:31
      tester  working · 12k tok · 0:25
    ");
}

#[test]
fn each_agent_keeps_its_colour_in_its_row_its_messages_and_its_notices() {
    let mut view = busy_team();
    let tone_of = |line: &TranscriptLine, at: usize| match line {
        TranscriptLine::Message(line) | TranscriptLine::Notice(line) => {
            line.slice(&(at..at + "coder".len()))
        }
    };
    let coder = StyledLine::new(Tone::Agent(1), "coder");
    let said = view.apply(&message_event(9, "coder", &["lead"], "done"));
    assert_eq!(tone_of(&said[0], "#9 ".len()), coder);
    let because = Event {
        cause: Some("503".into()),
        ..event(30, EventKind::AgentStopped, "coder", Value::Null)
    };
    assert_eq!(tone_of(&view.apply(&because)[0], 0), coder);
    // An agent that leaves takes no colour from those behind it.
    view.apply(&event(31, EventKind::AgentRemoved, "lead", Value::Null));
    view.apply(&event(32, EventKind::AgentAdded, "scribe", Value::Null));
    let lines = view.status_lines(at(35), TerminalSize { width: 80, height: 24 });
    let names = lines[1..].iter().map(|line| line.slice(&(2..7)));
    let tester = StyledLine::new(Tone::Agent(2), "teste");
    let scribe = StyledLine::new(Tone::Agent(3), "scrib");
    assert_eq!(names.collect::<Vec<_>>(), [coder, tester, scribe]);
}

#[test]
fn the_cost_of_a_run_is_shown_as_far_as_every_part_of_it_is_known() {
    let mut view = view(Verbosity::Normal);
    let used = |who: &str, more: Value| {
        let mut usage = json!({"input_tokens": 10, "output_tokens": 5});
        usage.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event(1, EventKind::Usage, who, usage)
    };
    let head = |view: &RunProgress| below(view, 2, WIDE).lines().next().unwrap().to_owned();
    above(&mut view, &[event(0, EventKind::RunRunning, "", Value::Null)]);
    assert_eq!(head(&view), "review:pr-1 · running · 0:02 · 0 turns · 0 messages");
    above(&mut view, &[used("coder", json!({"cost_micros": 20_000}))]);
    assert!(head(&view).ends_with(" · 15 tok · $0.02"), "{}", head(&view));
    above(&mut view, &[used("coder", json!({"cost_micros": 10_000, "cost_reckoned": true}))]);
    assert!(head(&view).ends_with(" · 30 tok · ~$0.03"), "{}", head(&view));
    // A part without a known cost makes the sum unknown, which is not shown as a number.
    above(&mut view, &[used("reviewer", json!({}))]);
    assert!(head(&view).ends_with(" · 45 tok"), "{}", head(&view));
    let rows = below(&view, 2, WIDE);
    assert!(rows.contains("coder     idle · 30 tok · ~$0.03"), "{rows}");
    assert!(rows.contains("reviewer  idle · 15 tok\n"), "{rows}");
}

#[test]
fn streamed_words_are_printed_in_whole_lines_if_all_is_asked_for() {
    let text =
        |seconds, text: &str| event(seconds, EventKind::Text, "coder", json!({"text": text}));
    let call = json!({"id": "1", "tool": "Edit", "args": {"file_path": "x"}});
    let events = [
        event(1, EventKind::AttemptRunning, "coder", json!({"pid": 7})),
        text(2, "I look at"),
        text(3, " it.\nThen I "),
        text(4, "change it"),
        event(5, EventKind::ToolCall, "coder", call),
        text(6, "Done \u{1b}[2J"),
        event(6, EventKind::Retry, "coder", json!({"why": "overloaded"})),
        // A message repeats these words.
        text(6, "It is changed."),
        message_event(6, "coder", &[], "@lead It is\nchanged. Look."),
        event(7, EventKind::AttemptEnded, "coder", json!({"end": "ok"})),
    ];
    let message = "out #6 coder\nout   @lead It is\nout   changed. Look.\n";
    assert_eq!(above(&mut view(Verbosity::Normal), &events), message);
    insta::assert_snapshot!(above(&mut view(Verbosity::Verbose), &events), @r#"
    err coder: works
    err coder │ I look at it.
    err coder │ Then I change it
    err coder: calls Edit {"file_path":"x"}
    err coder │ Done ␛[2J
    err coder: retrying: overloaded
    out #6 coder
    out   @lead It is
    out   changed. Look.
    err coder: done
    "#);
}

#[test]
fn a_row_shows_every_call_that_runs_and_words_that_are_newer_than_the_last_call() {
    let call = |id: &str, command: &str| {
        let args = json!({"command": command});
        event(2, EventKind::ToolCall, "coder", json!({"id": id, "tool": "Bash", "args": args}))
    };
    let result = |id: &str| {
        let result = json!({"id": id, "tool": "Bash", "ok": true, "summary": ""});
        event(3, EventKind::ToolResult, "coder", result)
    };
    let mut view = view(Verbosity::Normal);
    let mut row = |event: Event| {
        view.apply(&event);
        below(&view, 9, WIDE).lines().nth(1).unwrap().to_owned()
    };
    let words = event(4, EventKind::Text, "coder", json!({"text": "All green."}));
    for (event, expected) in [
        (event(1, EventKind::AttemptRunning, "coder", json!({"pid": 7})), "working · 0:08"),
        (call("1", "make a"), "Bash make a · 0:08"),
        (call("2", "make b"), "Bash make b (+1) · 0:08"),
        (result("2"), "Bash make a · 0:08"),
        (result("1"), "working · after Bash make a · 0:08"),
        (words, "working · All green. · 0:08"),
        (call("3", "make c"), "Bash make c · All green. · 0:08"),
        (event(9, EventKind::AttemptEnded, "coder", json!({"end": "ok"})), "idle"),
        (event(9, EventKind::AttemptRunning, "coder", json!({"pid": 8})), "working · 0:00"),
    ] {
        assert_eq!(row(event), format!("  coder     {expected}"));
    }
}
