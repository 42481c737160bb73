//! A conversation with Copilot, which names the team's tools by titles of its own.

use super::Replay;

#[test]
fn a_conversation_with_copilot_means_the_same_every_time() {
    let stream = include_str!("../../../../streams/acp-copilot-ok.jsonl");
    insta::assert_snapshot!(Replay::with_agent("copilot").read(stream), @r#"
    > "initialize"
    > "session/new"
    session {"cost_micros":0,"id":"735a8313-b48b-4060-b1e8-690d82cbf6a6"}
    > "session/prompt"
    calls other {"content":[{"content":{"text":"{\"messages\":[]}","type":"text"},"type":"content"}],"title":"team-inbox_check"}
    other answers: {"messages":[]}
    calls other {"message":"I am here"}
    other answers: {"cc":[],"instance":"team","seq":2,"woken":[]}
    calls other {"content":"- a line\n"}
    other answers: {"file":"notes.md","revision":1}
    says "The first answer."
    session {"cost_micros":0,"id":"735a8313-b48b-4060-b1e8-690d82cbf6a6"}
    used 400 40 None
    = The first answer.
    "#);
}
