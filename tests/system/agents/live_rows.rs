//! The live view of a real agent: its tool, its words, its cost and its answer.

use serde_json::json;

use super::testbed::{AgentEntry, AgentTestbed, Cli};
use crate::terminal::{Terminal, words_of};

#[test]
fn the_live_view_shows_the_tool_the_words_and_the_cost_of_claude_code() {
    let what = "a real agent in the live view";
    let Some(testbed) = AgentTestbed::open(&[Cli::Claude], what) else { return };
    let settings = "permissions: { default: allow }";
    let entry = AgentEntry { name: "coder", cli: Cli::Claude, settings };
    let call = Cli::Claude.command_call("until [ -e go ]; do sleep 0.1; done");
    let program =
        format!("{call}DRIP 150\nSAY The parser has its check now, and every test of it is green.");
    testbed.write(&[entry], &format!("kickoff: {}\n", json!(format!("@coder\n{program}"))));
    let run = Terminal::open(&testbed.world, 120, "run team.yaml");
    let row = |drawn: &[String], words: &str| {
        drawn.iter().any(|line| line.starts_with("  coder  ") && line.contains(words))
    };
    let working =
        run.wait_until(|drawn| row(drawn, "  Bash until [ -e go ]; do sleep 0.1; done · "));
    // Claude Code reports tokens and cost at the end of its turn.
    assert!(!working.iter().any(|line| line.contains("tok") || line.contains('$')), "{working:?}");
    testbed.world.file("go", "");
    run.wait_until(|drawn| row(drawn, "  working · The parser has"));
    let (ended, all) = run.wait_exit();
    assert!(ended.success(), "{all}");
    let words = words_of(&all);
    let closing = words.rsplit_once("done in ").unwrap().1;
    assert!(closing.contains(" · $0.") || closing.contains(" · ~$0."), "{closing}");
    let answer = " coder The parser has its check now, and every test of it is green. ";
    assert!(closing.contains(answer), "{closing}");
    assert!(closing.contains("hint: read the whole channel: agent-worker peek @team"), "{closing}");
}
