//! Replayed conversations of `codex app-server`.

use super::*;

/// Replays a conversation in which every question gets this reply.
fn replay_replies(stream: &str, reply: fn() -> ProgramReply) -> String {
    let mut vendor = find_adapter("codex").unwrap()(None);
    let mut steps = Vec::new();
    for line in stream.lines() {
        for step in vendor.handle_line(line) {
            let question = match &step {
                ProgramStep::Ask(question) => Some(question.id.clone()),
                _ => None,
            };
            steps.push(step);
            steps.extend(question.into_iter().flat_map(|id| vendor.handle_reply(&id, reply())));
        }
    }
    let mut lines = describe_steps(steps);
    lines.push(describe_outcome(vendor.as_mut(), 0, ""));
    lines.join("\n")
}

#[test]
fn a_stream_of_codex_means_the_same_every_time() {
    insta::assert_snapshot!(replay("codex", None, stream!("codex-ok"), 0), @r#"
    sends initialized null
    sends thread/start {}
    session {"cache_write_input_tokens":0,"cached_input_tokens":0,"id":"01a1ef5e-2211-70e3-ba06-ba26f4961962","input_tokens":0,"output_tokens":0}
    sends turn/start {"threadId":"01a1ef5e-2211-70e3-ba06-ba26f4961962"}
    calls mcp__team__document_append {"content":"- a line"}
    mcp__team__document_append answers: {"_meta":null,"content":[{"text":"{\"file\":\"notes.md\",\"r…
    calls shell {"command":"/bin/bash -lc 'echo hi'"}
    shell answers: hi

    says "All done."
    session {"cache_write_input_tokens":0,"cached_input_tokens":0,"id":"01a1ef5e-2211-70e3-ba06-ba26f4961962","input_tokens":300,"output_tokens":30}
    used 300 (0 from cache, 0 into it) 30 of what it was told
    ends the input
    = All done.
    "#);
}

#[test]
fn a_failure_of_codex_means_the_same_every_time() {
    insta::assert_snapshot!(replay("codex", None, stream!("codex-refused"), 143), @r#"
    sends initialized null
    sends thread/start {}
    session {"cache_write_input_tokens":0,"cached_input_tokens":0,"id":"01a1eeda-5594-7533-b5a2-1aebae23ead9","input_tokens":0,"output_tokens":0}
    sends turn/start {"threadId":"01a1eeda-5594-7533-b5a2-1aebae23ead9"}
    gives up: auth: unexpected status 401 Unauthorized: scripted 401, url: http://127.0.0.1:18080/v1/responses
    gives up: auth: unexpected status 401 Unauthorized: scripted 401, url: http://127.0.0.1:18080/v1/responses
    ends the input
    = auth: unexpected status 401 Unauthorized: scripted 401, url: http:…
    "#);
    insta::assert_snapshot!(replay("codex", None, stream!("codex-rate-limited"), 0), @r#"
    sends initialized null
    sends thread/start {}
    session {"cache_write_input_tokens":0,"cached_input_tokens":0,"id":"01a1eeda-551b-7623-a27b-8c8a4f0862f7","input_tokens":0,"output_tokens":0}
    sends turn/start {"threadId":"01a1eeda-551b-7623-a27b-8c8a4f0862f7"}
    gives up: rate_limited: exceeded retry limit, last status: 429 Too Many Requests
    gives up: rate_limited: exceeded retry limit, last status: 429 Too Many Requests
    ends the input
    = rate_limited: exceeded retry limit, last status: 429 Too Many Requests
    "#);
    insta::assert_snapshot!(replay("codex", None, stream!("codex-overloaded"), 0), @r#"
    sends initialized null
    sends thread/start {}
    session {"cache_write_input_tokens":0,"cached_input_tokens":0,"id":"01a1eeda-556f-7d12-9e31-390426bac359","input_tokens":0,"output_tokens":0}
    sends turn/start {"threadId":"01a1eeda-556f-7d12-9e31-390426bac359"}
    retries: unexpected status 529 <unknown status code>: scripted 529, url: http://127.0.0.1:18080/v1/responses
    retries: unexpected status 529 <unknown status code>: scripted 529, url: http://127.0.0.1:18080/v1/responses
    ends the input
    = transient: unexpected status 529 <unknown status code>: scripted 529, u…
    "#);
    insta::assert_snapshot!(replay("codex", None, stream!("codex-bad-request"), 0), @r#"
    sends initialized null
    sends thread/start {}
    session {"cache_write_input_tokens":0,"cached_input_tokens":0,"id":"01a1eeda-5519-7852-ad63-222a036ebd00","input_tokens":0,"output_tokens":0}
    sends turn/start {"threadId":"01a1eeda-5519-7852-ad63-222a036ebd00"}
    ends the input
    = fatal: {"error": {"message": "scripted 400", "type": "invalid_reque…
    "#);
    insta::assert_snapshot!(replay("codex", None, stream!("codex-cut"), 0), @r#"
    sends initialized null
    sends thread/start {}
    session {"cache_write_input_tokens":0,"cached_input_tokens":0,"id":"01a1eeda-5589-7cc1-84bb-87b4dfbd1bfd","input_tokens":0,"output_tokens":0}
    sends turn/start {"threadId":"01a1eeda-5589-7cc1-84bb-87b4dfbd1bfd"}
    retries: stream disconnected before completion: Transport error: network error: error decoding response body
    retries: stream disconnected before completion: Transport error: network error: error decoding response body
    ends the input
    = transient: stream disconnected before completion: Transport error: netw…
    "#);
}

#[test]
fn a_permission_of_codex_is_for_one_call_and_a_denial_has_a_reason() {
    let denied = || ProgramReply::Denied("denied by user: not here".to_owned());
    insta::assert_snapshot!(replay_replies(stream!("codex-approved"), || ProgramReply::Allowed), @r#"
    sends initialized null
    sends thread/start {}
    session {"cache_write_input_tokens":0,"cached_input_tokens":0,"id":"01a1eeba-5b9e-7691-bc21-68c6672f37ac","input_tokens":0,"output_tokens":0}
    sends turn/start {"threadId":"01a1eeba-5b9e-7691-bc21-68c6672f37ac"}
    calls shell {"command":"/bin/bash -lc 'echo once >> ran.txt'"}
    asks for execute {"command":"echo once >> ran.txt","cwd":"/project"}
    replies {"decision":"accept"}
    shell answers: 
    says "All done."
    session {"cache_write_input_tokens":0,"cached_input_tokens":0,"id":"01a1eeba-5b9e-7691-bc21-68c6672f37ac","input_tokens":200,"output_tokens":20}
    used 200 (0 from cache, 0 into it) 20 of what it was told
    ends the input
    = All done.
    "#);
    insta::assert_snapshot!(replay_replies(stream!("codex-declined"), denied), @r#"
    sends initialized null
    sends thread/start {}
    session {"cache_write_input_tokens":0,"cached_input_tokens":0,"id":"01a1eeba-5d26-7fb1-8364-ded3cdbb7583","input_tokens":0,"output_tokens":0}
    sends turn/start {"threadId":"01a1eeba-5d26-7fb1-8364-ded3cdbb7583"}
    calls shell {"command":"/bin/bash -lc 'echo never >> no.txt'"}
    asks for execute {"command":"echo never >> no.txt","cwd":"/project"}
    sends turn/steer {"expectedTurnId":"01a1eeba-5d38-7662-b2fa-f6b94bf04177","input":[{"text":"The call execute {\"command\":\"echo never >> no.txt\",\"cwd\":\"/project\"} was not permitted: denied by user: not here","type":"text"}],"threadId":"01a1eeba-5d26-7fb1-8364-ded3cdbb7583"}
    replies {"decision":"decline"}
    shell fails: declined
    says "Over."
    session {"cache_write_input_tokens":0,"cached_input_tokens":0,"id":"01a1eeba-5d26-7fb1-8364-ded3cdbb7583","input_tokens":200,"output_tokens":20}
    used 200 (0 from cache, 0 into it) 20 of what it was told
    ends the input
    = Over.
    "#);
}

#[test]
fn a_change_of_files_and_a_call_to_another_server_are_asked_for_with_their_details() {
    let denied = || ProgramReply::Denied("denied by user: not here".to_owned());
    insta::assert_snapshot!(replay_replies(stream!("codex-patch"), denied), @r#"
    sends initialized null
    sends thread/start {}
    session {"cache_write_input_tokens":0,"cached_input_tokens":0,"id":"01a1eeda-52e6-7d50-82af-4dbd08801248","input_tokens":0,"output_tokens":0}
    sends turn/start {"threadId":"01a1eeda-52e6-7d50-82af-4dbd08801248"}
    calls apply_patch {"changes":[{"diff":"never\n","kind":{"type":"add"},"path":"/project/denied.txt"}]}
    asks for edit {"changes":[{"diff":"never\n","kind":{"type":"add"},"path":"/project/denied.txt"}]}
    sends turn/steer {"expectedTurnId":"01a1eeda-5304-7a52-8df6-6159bea9e669","input":[{"text":"The call edit {\"changes\":[{\"diff\":\"never\\n\",\"kind\":{\"type\":\"add\"},\"path\":\"/project/denied.txt\"}]} was not permitted: denied by user: not here","type":"text"}],"threadId":"01a1eeda-52e6-7d50-82af-4dbd08801248"}
    replies {"decision":"decline"}
    apply_patch fails: declined
    says "Over."
    session {"cache_write_input_tokens":0,"cached_input_tokens":0,"id":"01a1eeda-52e6-7d50-82af-4dbd08801248","input_tokens":200,"output_tokens":20}
    used 200 (0 from cache, 0 into it) 20 of what it was told
    ends the input
    = Over.
    "#);
    insta::assert_snapshot!(replay_replies(stream!("codex-mcp-approval"), denied), @r#"
    sends initialized null
    sends thread/start {}
    session {"cache_write_input_tokens":0,"cached_input_tokens":0,"id":"01a1ef50-50bc-7ac3-9d54-50e888c5215e","input_tokens":0,"output_tokens":0}
    sends turn/start {"threadId":"01a1ef50-50bc-7ac3-9d54-50e888c5215e"}
    calls mcp__mine__wipe {"what":"all"}
    asks for other {"arguments":{"what":"all"},"server":"mine","title":"Allow the mine MCP server to run tool \"wipe\"?","tool":"wipe"}
    sends turn/steer {"expectedTurnId":"01a1ef50-50da-7433-a1d1-8a1e36fc47c9","input":[{"text":"The call other {\"arguments\":{\"what\":\"all\"},\"server\":\"mine\",\"title\":\"Allow the mine MCP server to run tool \\\"wipe\\\"?\",\"tool\":\"wipe\"} was not permitted: denied by user: not here","type":"text"}],"threadId":"01a1ef50-50bc-7ac3-9d54-50e888c5215e"}
    replies {"_meta":null,"action":"decline","content":null}
    mcp__mine__wipe fails: user rejected MCP tool call
    says "x"
    session {"cache_write_input_tokens":0,"cached_input_tokens":0,"id":"01a1ef50-50bc-7ac3-9d54-50e888c5215e","input_tokens":200,"output_tokens":20}
    used 200 (0 from cache, 0 into it) 20 of what it was told
    ends the input
    = x
    "#);
    let allowed = replay_replies(stream!("codex-mcp-approval"), || ProgramReply::Allowed);
    assert!(
        allowed.contains(r#"replies {"_meta":null,"action":"accept","content":{}}"#),
        "{allowed}"
    );
}

#[test]
fn a_question_of_codex_to_its_user_is_passed_on() {
    let passed_on = || ProgramReply::Text("Passed on.".to_owned());
    insta::assert_snapshot!(replay_replies(stream!("codex-question"), passed_on), @r#"
    sends initialized null
    sends thread/start {}
    session {"cache_write_input_tokens":0,"cached_input_tokens":0,"id":"01a1ef54-918b-7741-85e7-80b27eadb0ef","input_tokens":0,"output_tokens":0}
    sends turn/start {"threadId":"01a1ef54-918b-7741-85e7-80b27eadb0ef"}
    asks its user {"questions":[{"options":[{"description":"warm","label":"Red"},{"description":"cold","label":"Blue"}],"question":"Which colour?"}]}
    replies {"answers":{"q1":{"answers":["Passed on."]}}}
    says "x"
    session {"cache_write_input_tokens":0,"cached_input_tokens":0,"id":"01a1ef54-918b-7741-85e7-80b27eadb0ef","input_tokens":200,"output_tokens":20}
    used 200 (0 from cache, 0 into it) 20 of what it was told
    ends the input
    = x
    "#);
}

#[test]
fn requests_that_nobody_can_answer_are_refused_at_once() {
    let mut vendor = find_adapter("codex").unwrap()(None);
    for (request, expected) in [
        (
            r#"{"id":0,"method":"mcpServer/elicitation/request","params":{"serverName":"x","mode":"form","message":"Name?"}}"#,
            json!({"id": 0, "result": {"action": "decline", "content": null, "_meta": null}}),
        ),
        (
            r#"{"id":1,"method":"item/permissions/requestApproval","params":{"permissions":{"network":{"enabled":true}}}}"#,
            json!({"id": 1, "result": {"permissions": {}, "scope": "turn"}}),
        ),
        (
            r#"{"id":2,"method":"attestation/generate","params":{}}"#,
            json!({"id": 2, "error": {"code": -32601, "message": "unknown method `attestation/generate`"}}),
        ),
    ] {
        assert_eq!(vendor.handle_line(request), [ProgramStep::Send(expected)], "{request}");
    }
}

#[test]
fn a_change_of_unknown_files_and_an_input_for_a_command_show_that_they_are_such() {
    let mut vendor = find_adapter("codex").unwrap()(None);
    let mut asked = |request: &str| describe_steps(vendor.handle_line(request)).concat();
    let edit = asked(
        r#"{"id":0,"method":"item/fileChange/requestApproval","params":{"itemId":"unknown","grantRoot":"/"}}"#,
    );
    assert_eq!(edit, r#"asks for edit {"grant_root":"/"}"#);
    let input = asked(
        r#"{"id":1,"method":"item/commandExecution/requestApproval","params":{"kind":"writeStdin","itemId":"a","command":"ls"}}"#,
    );
    assert_eq!(input, r#"asks for execute {"command":"ls","kind":"writeStdin"}"#);
}

#[test]
fn codex_that_lost_its_conversation_begins_another_only_if_it_had_one() {
    let session = json!({"id": "a", "input_tokens": 0, "output_tokens": 0});
    insta::assert_snapshot!(replay("codex", Some(&session), stream!("codex-lost"), 0), @r#"
    sends initialized null
    sends thread/resume {"excludeTurns":true,"threadId":"a"}
    ends the input
    = forgot
    "#);
    let without = replay("codex", None, stream!("codex-lost"), 0);
    assert!(without.contains("= crash: "), "{without}");
    let other = stream!("codex-lost").replace("no rollout found", "no network");
    assert!(replay("codex", Some(&session), &other, 0).contains("= crash: "));
}

#[test]
fn codex_is_told_to_stop_and_still_reports_its_usage() {
    let mut vendor = find_adapter("codex").unwrap()(None);
    assert_eq!(vendor.cancel_steps(), [], "no turn runs");
    let mut steps = Vec::new();
    for line in stream!("codex-interrupted").lines() {
        steps.extend(vendor.handle_line(line));
        if line.contains("\"commandExecution\"") {
            steps.extend(vendor.cancel_steps());
        }
    }
    let mut lines = describe_steps(steps);
    lines.push(describe_outcome(vendor.as_mut(), 0, ""));
    insta::assert_snapshot!(lines.join("\n"), @r#"
    sends initialized null
    sends thread/start {}
    session {"cache_write_input_tokens":0,"cached_input_tokens":0,"id":"01a1ef50-51ec-7380-baa1-6563b1c4fba9","input_tokens":0,"output_tokens":0}
    sends turn/start {"threadId":"01a1ef50-51ec-7380-baa1-6563b1c4fba9"}
    calls shell {"command":"/bin/bash -lc 'sleep 30'"}
    sends turn/interrupt {"threadId":"01a1ef50-51ec-7380-baa1-6563b1c4fba9","turnId":"01a1ef50-51fb-7903-927b-7661e8e22af6"}
    session {"cache_write_input_tokens":0,"cached_input_tokens":0,"id":"01a1ef50-51ec-7380-baa1-6563b1c4fba9","input_tokens":100,"output_tokens":10}
    used 100 (0 from cache, 0 into it) 10 of what it was told
    ends the input
    = fatal: the turn was cancelled
    "#);
    let by_itself = replay("codex", None, stream!("codex-interrupted"), 0);
    assert!(by_itself.contains("= crash: the program stopped before the end"), "{by_itself}");
}

#[test]
fn the_class_of_a_failure_of_codex_is_in_its_error_and_not_in_a_text() {
    for (info, message, expected) in [
        (r#""usageLimitExceeded""#, "You've hit your usage limit.", "rate_limited"),
        (r#""contextWindowExceeded""#, "too long", "context_overflow"),
        (r#""unauthorized""#, "no", "auth"),
        (r#""serverOverloaded""#, "no", "transient"),
        (r#"{"httpConnectionFailed":{"httpStatusCode":402}}"#, "no", "billing"),
        (r#""other""#, r#"{\"error\":{\"code\":\"insufficient_quota\"}}"#, "billing"),
        (r#""other""#, "unexpected status 401 Unauthorized", "fatal"),
        ("null", "429 Too Many Requests", "fatal"),
    ] {
        let error = format!(
            r#"{{"message":"{message}","codexErrorInfo":{info},"additionalDetails":null}}"#
        );
        let stream = format!(
            r#"{{"id":2,"result":{{"thread":{{"id":"t"}}}}}}
{{"method":"turn/completed","params":{{"threadId":"t","turn":{{"id":"u","status":"failed","error":{error}}}}}}}"#
        );
        let said = replay("codex", None, &stream, 0);
        assert!(said.contains(&format!("= {expected}: ")), "{said}");
    }
}
