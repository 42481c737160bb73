//! Tests of the live view: events in, lines out.

use agent_worker_protocol::AgentState;
use serde_json::{Value, json};

use super::*;
use crate::output::{
    console::TerminalSize,
    samples::{self, agent_name, at, event, message_event},
    styled_line::Colour,
};

const WIDE: TerminalSize = TerminalSize { width: 60, height: 24 };

fn view(detail: Verbosity) -> RunProgress {
    RunProgress::new(
        "review:pr-1".parse().unwrap(),
        &[agent_name("coder"), agent_name("reviewer")],
        detail,
    )
}

fn above(view: &mut RunProgress, events: &[Event]) -> String {
    let lines = events.iter().flat_map(|event| view.apply(event));
    lines
        .map(|line| match line {
            TranscriptLine::Message(line) => format!("out {}\n", line.paint(Colour::Off)),
            TranscriptLine::Notice(line) => format!("err {}\n", line.paint(Colour::Off)),
        })
        .collect()
}

fn below(view: &RunProgress, seconds: i64, size: TerminalSize) -> String {
    let lines = view.status_lines(at(seconds), size);
    lines.iter().map(|line| line.paint(Colour::Off) + "\n").collect()
}

fn a_turn() -> Vec<Event> {
    let failed = json!({"end": "failed", "class": "crash", "why": "the worker is\ngone"});
    vec![
        event(0, EventKind::RunRunning, "", json!({"state": "running"})),
        message_event(1, "user", &["coder"], "please fix it"),
        event(2, EventKind::AttemptStarting, "coder", json!({"seqs": [1], "number": 1})),
        event(3, EventKind::AttemptRunning, "coder", json!({"pid": 7})),
        event(
            4,
            EventKind::ToolCall,
            "coder",
            json!({"id": "1", "tool": "document_read", "args": {"file": "x"}}),
        ),
        event(
            5,
            EventKind::ToolResult,
            "coder",
            json!({"id": "1", "tool": "document_read", "ok": false, "summary": "no"}),
        ),
        Event { next: Some(at(8)), ..event(6, EventKind::AttemptEnded, "coder", failed) },
    ]
}

#[test]
fn messages_are_the_answer_and_failures_are_reported() {
    insta::assert_snapshot!(above(&mut view(Verbosity::Normal), &a_turn()), @r"
    out #1 user → coder: please fix it
    err coder: document_read failed: no
    err coder: failed (crash): the worker is gone; next try in 2s
    ");
}

#[test]
fn verbose_tells_attempts_and_tool_calls_too() {
    insta::assert_snapshot!(above(&mut view(Verbosity::Verbose), &a_turn()), @r#"
    err running
    out #1 user → coder: please fix it
    err coder: starts
    err coder: works
    err coder: calls document_read {"file":"x"}
    err coder: document_read failed: no
    err coder: failed (crash): the worker is gone; next try in 2s
    "#);
}

#[test]
fn a_command_that_failed_is_its_agents_business_unless_all_is_asked_for() {
    let failed = json!({"id": "1", "tool": "shell", "ok": false, "summary": "status 1"});
    let events = [event(1, EventKind::ToolResult, "coder", failed)];
    assert_eq!(above(&mut view(Verbosity::Normal), &events), "");
    assert_eq!(
        above(&mut view(Verbosity::Verbose), &events),
        "err coder: shell failed: status 1\n"
    );
}

#[test]
fn a_long_message_is_shown_beneath_its_header_and_harmless() {
    let events = [
        message_event(1, "coder", &["reviewer", "scribe"], "two\nlines \x1b[2J\n"),
        message_event(2, "client:ci", &[], "green"),
    ];
    insta::assert_snapshot!(above(&mut view(Verbosity::Normal), &events), @r"
    out #1 coder → reviewer, scribe
    out   two
    out   lines ␛[2J
    out #2 client:ci: green
    ");
}

#[test]
fn mail_that_is_not_acted_upon_is_reported_with_its_reason() {
    let because = |event: Event| Event { cause: Some("3 failures".into()), ..event };
    let events = [
        because(event(1, EventKind::DeliveryDead, "coder", json!({"seq": 7}))),
        because(event(2, EventKind::DeliveryDropped, "reviewer", Value::Null)),
        because(event(3, EventKind::AgentStopped, "coder", Value::Null)),
        event(4, EventKind::RunPaused, "", json!({"state": "paused", "cause": {"cause": "human"}})),
    ];
    insta::assert_snapshot!(above(&mut view(Verbosity::Normal), &events), @r"
    err coder: gave up on message #7: 3 failures
    err reviewer: will not get a message: 3 failures
    err coder: stopped: 3 failures
    err paused: waiting for a person
    ");
}

#[test]
fn the_status_says_who_works_on_what_since_when() {
    let mut view = view(Verbosity::Normal);
    above(&mut view, &a_turn()[..5]);
    insta::assert_snapshot!(below(&view, 83, WIDE), @r"
    review:pr-1 · running · 1:23 · 0 turns · 1 message
      coder     document_read x · 1:21
      reviewer  idle
    ");
}

#[test]
fn the_status_says_who_waits_for_an_answer_until_there_is_one() {
    let ok = json!({"end": "ok", "acted": [1], "pending": [], "dead": []});
    let events = [
        event(1, EventKind::AttemptRunning, "coder", json!({"pid": 7})),
        event(2, EventKind::QuestionOpen, "coder", json!({"question": 3})),
        event(3, EventKind::AttemptEnded, "coder", ok),
        event(4, EventKind::QuestionAnswered, "coder", json!({"question": 3})),
    ];
    let mut view = view(Verbosity::Normal);
    above(&mut view, &events[..2]);
    assert!(below(&view, 9, WIDE).contains("coder     working · 0:08"), "it has a turn yet");
    above(&mut view, &events[2..3]);
    assert!(below(&view, 9, WIDE).contains("coder     waiting for an answer (#3)"));
    above(&mut view, &events[3..]);
    assert!(below(&view, 9, WIDE).contains("coder     idle"));
}

#[test]
fn after_a_failure_the_status_counts_down_to_the_next_try() {
    let mut view = view(Verbosity::Normal);
    above(&mut view, &a_turn());
    insta::assert_snapshot!(below(&view, 7, WIDE), @r"
    review:pr-1 · running · 0:07 · 1 turn · 1 message
      coder     next try in 0:01 · failed (crash): the worker …
      reviewer  idle
    ");
}

#[test]
fn verbose_tells_what_was_set_up_and_written() {
    let ok = json!({"end": "ok", "acted": [1], "pending": [], "dead": []});
    let events = [
        event(
            1,
            EventKind::SetupRan,
            "",
            json!({"line": 4, "as": null, "status": 0, "bytes": 0, "ms": 1}),
        ),
        event(2, EventKind::DocumentWritten, "coder", json!({"path": "notes.md", "revision": 2})),
        event(3, EventKind::Retry, "coder", json!({"why": "overloaded"})),
        event(4, EventKind::AttemptEnded, "coder", ok),
    ];
    let mut view = view(Verbosity::Verbose);
    insta::assert_snapshot!(above(&mut view, &events), @r"
    err setup command on line 4 ended with status 0
    err coder: wrote notes.md, revision 2
    err coder: retrying: overloaded
    err coder: done
    ");
    assert_eq!(view.turns, 1);
}

#[test]
fn the_status_fits_any_terminal_and_shows_who_is_busy_first() {
    let names: Vec<AgentName> = (0..40).map(|n| agent_name(&format!("agent{n}"))).collect();
    let mut view = RunProgress::new("review".parse().unwrap(), &names, Verbosity::Normal);
    above(&mut view, &[event(1, EventKind::AttemptRunning, "agent39", json!({"pid": 7}))]);
    for (width, height) in [(80, 24), (20, 10), (5, 3), (1, 1)] {
        let shown = below(&view, 9, TerminalSize { width, height });
        assert!(shown.lines().all(|line| text::width(line) < width.max(2)), "{shown}");
        assert!(shown.lines().count() <= (height / 2).max(2), "{shown}");
    }
    insta::assert_snapshot!(below(&view, 9, TerminalSize { width: 40, height: 8 }), @r"
    review · setting up · 0:08 · 0 turns
      agent39  working · 0:08
      agent0   idle
      … and 38 more
    ");
}

#[test]
fn a_run_that_is_attached_again_is_drawn_in_its_current_state() {
    let attempt = agent_worker_protocol::AttemptId::new(uuid::Uuid::nil());
    let questions = vec![agent_worker_protocol::QuestionId::new(2)];
    let agents = vec![
        samples::agent("coder", AgentState::Running { attempt, since: at(48) }),
        samples::agent("reviewer", AgentState::Queued { full: None }),
        samples::agent("writer", AgentState::BackingOff { until: at(65), why: "503".into() }),
        samples::agent(
            "asker",
            AgentState::Waiting { questions, approvals: Vec::new(), asked: at(50) },
        ),
        samples::agent("tester", AgentState::Stopped { why: "auth: 401".into() }),
    ];
    let run = RunView { state: RunState::Running, ended: None, agents, ..samples::run() };
    let mut view = RunProgress::from_run(&run, Verbosity::Normal);
    insta::assert_snapshot!(below(&view, 60, WIDE), @r"
    review:pr-1 · running · 1:00 · 4 turns · 9 messages
      coder     working · 0:12
      reviewer  queued
      writer    next try in 0:05 · 503
      asker     waiting for an answer (#2)
      tester    stopped: auth: 401
    ");
    above(
        &mut view,
        &[event(61, EventKind::AttemptStarting, "reviewer", json!({"seqs": [1], "number": 1}))],
    );
    assert!(below(&view, 62, WIDE).contains("reviewer  starting · 0:01"));
}

#[test]
fn an_agent_that_waits_for_approval_is_shown_with_what_it_wants_until_it_has_an_answer() {
    let wants = json!({"approval": 2, "tool": "Bash", "args": "{\"command\":\"ls\"}"});
    let answer = json!({"approval": 2, "tool": "Bash", "answer": "approved", "reason": null});
    let events = [
        event(1, EventKind::AttemptRunning, "coder", json!({"pid": 7})),
        event(2, EventKind::ApprovalOpen, "coder", wants),
        event(3, EventKind::ApprovalAnswered, "coder", answer),
    ];
    let mut view = view(Verbosity::Normal);
    let printed = above(&mut view, &events[..2]);
    assert!(printed.contains("wants #2: Bash ls"), "{printed}");
    assert!(below(&view, 9, WIDE).contains("coder     waiting for approval (#2) · 0:08"));
    let printed = above(&mut view, &events[2..]);
    assert!(printed.contains("request #2 (Bash) is approved by"), "{printed}");
    assert!(below(&view, 9, WIDE).contains("coder     working · 0:08"));
}

#[test]
fn a_wall_clock_that_is_set_changes_no_span_on_the_screen() {
    let mut view = view(Verbosity::Normal);
    above(&mut view, &a_turn());
    let before = below(&view, 7, WIDE);
    let hour = 3_600;
    let jumped = Event {
        cause: Some("the wall clock was set back by 1h".into()),
        ..event(7 - hour, EventKind::ClockJumped, "", json!({"by_ms": -hour * 1_000}))
    };
    let printed = above(&mut view, &[jumped]);
    assert_eq!(printed, "err the wall clock was set back by 1h\n");
    assert_eq!(below(&view, 7 - hour, WIDE), before);
}

#[test]
fn data_of_another_version_hides_the_details_and_the_state_is_right() {
    let newer = json!({"end": "failed", "class": "overheated", "why": "it was hot", "acted": []});
    let because = |event: Event| Event { cause: Some("failed (overheated)".into()), ..event };
    let events = [
        event(1, EventKind::RunRunning, "", Value::Null),
        event(2, EventKind::AttemptStarting, "coder", json!({"seqs": "all"})),
        event(3, EventKind::AttemptRunning, "coder", Value::Null),
        because(event(4, EventKind::AttemptEnded, "coder", newer)),
        event(
            5,
            EventKind::RunPaused,
            "",
            json!({"state": "paused", "cause": {"cause": "budget"}}),
        ),
        event(6, EventKind::DocumentWritten, "coder", json!({"path": 7})),
        samples::event(7, EventKind::Heartbeat, "coder", Value::Null)
            .with_data("agent.dreamt", json!({"of": ["sheep"]})),
    ];
    let mut view = view(Verbosity::Verbose);
    insta::assert_snapshot!(above(&mut view, &events), @r"
    err running
    err coder: starts
    err coder: works
    err coder: failed (overheated)
    err paused: no reason given
    ");
    assert!(below(&view, 9, WIDE).contains("coder     idle"));
}

#[test]
fn a_field_of_a_newer_version_changes_nothing_of_what_is_shown() {
    let newer = json!({"id": "1", "tool": "shell", "ok": true, "summary": "done", "ms": 12});
    let events = [event(1, EventKind::ToolResult, "coder", newer)];
    let printed = above(&mut view(Verbosity::Verbose), &events);
    assert_eq!(printed, "err coder: shell answered: done\n");
}

#[test]
fn an_unheard_mention_is_shown_with_its_cause() {
    let unheard =
        || event(1, EventKind::MentionUnheard, "coder", json!({"seq": 2, "agent": "bob"}));
    let withheld = Event { cause: Some("a gate is closed".into()), ..unheard() };
    insta::assert_snapshot!(above(&mut view(Verbosity::Normal), &[unheard(), withheld]), @r"
    err coder: mentions bob in #2; bob was not messaged
    err coder: mentions bob in #2; bob was not messaged: a gate is closed
    ");
}

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
    let usage = |at, agent, data| event(at, EventKind::Usage, agent, data);
    let ok = json!({"end": "ok", "acted": [1], "pending": [], "dead": []});
    let edit =
        json!({"file_path": "/repo/src/parser/tokens.rs", "old_string": "a", "new_string": "b"});
    let events = [
        event(0, EventKind::RunRunning, "", json!({"state": "running"})),
        message_event(1, "user", &["lead"], "please review this change"),
        event(1, EventKind::AttemptRunning, "lead", json!({"pid": 7})),
        usage(2, "lead", json!({"input_tokens": 700, "output_tokens": 120, "cost_micros": 10_000})),
        event(3, EventKind::AttemptEnded, "lead", ok),
        event(4, EventKind::AttemptRunning, "coder", json!({"pid": 8})),
        usage(
            5,
            "coder",
            json!({"input_tokens": 1_000, "output_tokens": 20, "cost_micros": 30_000}),
        ),
        usage(6, "coder", json!({"input_tokens": 200, "output_tokens": 30, "cost_micros": 10_000})),
        event(
            7,
            EventKind::Text,
            "coder",
            json!({"text": "The parser accepts short lines.\nI add a check of "}),
        ),
        event(8, EventKind::Text, "coder", json!({"text": "the length to each token."})),
        event(9, EventKind::ToolCall, "coder", call("1", "Edit", edit)),
        event(10, EventKind::AttemptRunning, "tester", json!({"pid": 9})),
        usage(11, "tester", json!({"input_tokens": 9_000, "output_tokens": 3_500})),
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
    assert_eq!(above(&mut view(Verbosity::Normal), &events), "");
    insta::assert_snapshot!(above(&mut view(Verbosity::Verbose), &events), @r#"
    err coder: works
    err coder │ I look at it.
    err coder │ Then I change it
    err coder: calls Edit {"file_path":"x"}
    err coder │ Done ␛[2J
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
