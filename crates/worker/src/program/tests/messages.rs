//! Replayed streams of turns that get a message of the daemon.

use agent_worker_protocol::{Seq, TurnMessage};

use super::*;

/// Replays a stream in which message 2 arrives after the first line that contains `after`.
fn replay_with_message(cli: &str, stream: &str, after: &str) -> String {
    let mut vendor = find_adapter(cli).unwrap()(None);
    let mut message = Some(TurnMessage { seq: Seq::new(2), text: "SAY Second.".to_owned() });
    let mut steps = Vec::new();
    for line in stream.lines() {
        steps.extend(vendor.handle_line(line));
        if line.contains(after) {
            steps.extend(message.take().into_iter().flat_map(|it| vendor.handle_message(it)));
        }
    }
    assert_eq!(message, None, "no line contains {after}");
    let mut lines = describe_steps(steps);
    lines.push(describe_outcome(vendor.as_mut(), 0, ""));
    lines.join("\n")
}

#[test]
fn a_message_joins_the_turn_of_claude_code_while_its_model_calls_tools() {
    let stream = stream!("claude-message-joined");
    insta::assert_snapshot!(replay_with_message("claude", stream, r#""name":"Bash""#), @r#"
    session {"cost_micros":0,"id":"e9f0a153-5f81-47e2-9637-7fa7d1bea55f"}
    sends user {"content":"SAY Second.","role":"user"}
    calls Bash {"command":"sleep 3"}
    Accepted(Seq(2))
    Bash answers: (Bash completed with no output)
    Joined(Seq(2))
    says "First."
    session {"cost_micros":600,"id":"e9f0a153-5f81-47e2-9637-7fa7d1bea55f"}
    used 200 20 Some(600)
    ends the input
    = First.
    "#);
}

#[test]
fn a_message_during_the_last_answer_of_claude_code_adds_a_second_answer_with_its_cost() {
    let stream = stream!("claude-message-after-answer");
    insta::assert_snapshot!(replay_with_message("claude", stream, r#""subtype":"init""#), @r#"
    session {"cost_micros":0,"id":"c6215fa3-f696-4386-bd64-2c41bb2d3cb0"}
    sends user {"content":"SAY Second.","role":"user"}
    Accepted(Seq(2))
    says "First."
    session {"cost_micros":300,"id":"c6215fa3-f696-4386-bd64-2c41bb2d3cb0"}
    used 100 10 Some(300)
    Joined(Seq(2))
    session {"cost_micros":300,"id":"c6215fa3-f696-4386-bd64-2c41bb2d3cb0"}
    says "Second."
    session {"cost_micros":600,"id":"c6215fa3-f696-4386-bd64-2c41bb2d3cb0"}
    used 100 10 Some(300)
    ends the input
    = First.

    Second.
    "#);
}

#[test]
fn a_message_joins_the_turn_of_codex() {
    let stream = stream!("codex-message-joined");
    insta::assert_snapshot!(replay_with_message("codex", stream, "commandExecution"), @r#"
    sends initialized null
    sends thread/start {}
    session {"cache_write_input_tokens":0,"cached_input_tokens":0,"id":"01a1f0a1-9c10-7813-bdbd-1370fbbd5c70","input_tokens":0,"output_tokens":0}
    sends turn/start {"threadId":"01a1f0a1-9c10-7813-bdbd-1370fbbd5c70"}
    calls shell {"command":"/bin/bash -lc 'sleep 3'"}
    sends turn/steer {"clientUserMessageId":"message-2","expectedTurnId":"01a1f0a1-9c1e-7261-b7ba-acc04ba2b9f0","input":[{"text":"SAY Second.","type":"text"}],"threadId":"01a1f0a1-9c10-7813-bdbd-1370fbbd5c70"}
    Accepted(Seq(2))
    shell answers: 
    Joined(Seq(2))
    says "Second."
    session {"cache_write_input_tokens":0,"cached_input_tokens":0,"id":"01a1f0a1-9c10-7813-bdbd-1370fbbd5c70","input_tokens":200,"output_tokens":20}
    used 200 (0 from cache, 0 into it) 20 of what it was told
    ends the input
    = Second.
    "#);
}

#[test]
fn a_message_before_the_turn_of_codex_has_started_waits_for_it() {
    let mut vendor = find_adapter("codex").unwrap()(None);
    let message = TurnMessage { seq: Seq::new(2), text: "SAY Second.".to_owned() };
    assert_eq!(vendor.handle_message(message), []);
    let steps = stream!("codex-message-joined").lines().flat_map(|line| vendor.handle_line(line));
    let steps = describe_steps(steps.collect());
    let start = steps.iter().position(|step| step.starts_with("sends turn/start"));
    let steer = steps.iter().position(|step| step.starts_with("sends turn/steer"));
    assert_eq!(steer, start.map(|at| at + 1), "{steps:#?}");
}

#[test]
fn a_message_that_codex_refuses_is_refused() {
    let mut vendor = find_adapter("codex").unwrap()(None);
    for line in
        stream!("codex-message-joined").lines().take_while(|line| !line.contains(r#""id":4"#))
    {
        vendor.handle_line(line);
    }
    vendor.handle_message(TurnMessage { seq: Seq::new(2), text: String::new() });
    let refusal = r#"{"error":{"code":-32600,"message":"no active turn to steer"},"id":4}"#;
    assert_eq!(describe_steps(vendor.handle_line(refusal)), ["Refused(Seq(2))"]);
}
