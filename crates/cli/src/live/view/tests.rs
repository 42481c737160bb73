//! Tests of the live view: events in, lines out.

use agent_worker_protocol::AgentState;
use serde_json::{Value, json};

use super::*;
use crate::output::{
    console::TerminalSize,
    samples::{self, agent_name, at, event, message_event},
    styled_line::Colour,
};

mod rows;

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
