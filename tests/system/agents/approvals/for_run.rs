//! Calls that a person allows for the rest of a run, and their end: of Claude Code and of Codex.

use serde_json::{Value, json};

use super::{
    super::testbed::{AgentEntry, AgentTestbed, Cli},
    ATTACH, RUN,
};
use crate::{
    approvals::write_note_command,
    world::{kill, wait_for},
};

/// A call that leaves a line in a file, described differently each time.
fn claude_call(text: &str, description: &str) -> String {
    claude_command_call(&format!("./note {text}"), description)
}

fn claude_command_call(command: &str, description: &str) -> String {
    format!("CALL Bash {}\n", json!({ "command": command, "description": description }))
}

fn codex_call(text: &str) -> String {
    format!("CALL exec_command {}\n", json!({ "cmd": format!("./note {text}") }))
}

fn testbed(cli: Cli, what: &str, program: &str) -> Option<AgentTestbed> {
    let testbed = AgentTestbed::open(&[cli], what)?;
    let settings = "permissions: { default: ask, deny: ['Bash(./note never*)'] }";
    let settings = if cli == Cli::Claude { settings } else { "permissions: { default: ask }" };
    let entry = AgentEntry { name: "me", cli, settings };
    testbed.write(&[entry], &format!("kickoff: {}\n", json!(format!("@me\n{program}"))));
    write_note_command(&testbed.world);
    Some(testbed)
}

impl AgentTestbed {
    #[track_caller]
    fn check_asks(&self, words: &[&str], request: i64) {
        let seen = self.envelope_outcome(words);
        assert_eq!(seen, (4, json!("human")), "{}", self.diagnostics("me"));
        let open = self.open_requests();
        let numbers: Vec<_> = open.iter().map(|open| open["id"].clone()).collect();
        assert_eq!(numbers, [json!(request)], "{open:?}");
    }

    #[track_caller]
    fn check_done(&self, words: &[&str]) {
        let seen = self.envelope_outcome(words);
        assert_eq!(seen, (0, json!("done")), "{}", self.diagnostics("me"));
    }

    fn grants(&self) -> Value {
        self.world.list(&["pending", "--grants", "--json"])
    }
}

#[test]
fn claude_code_makes_a_call_that_is_allowed_for_the_run_again_and_asks_about_every_other() {
    let (once, other) = (claude_call("once", "notes it"), claude_call("other", "notes more"));
    let again = claude_call("once", "notes it again");
    let program = format!("{once}{again}{other}SAY Over.");
    let what = "a real agent with a call for the run";
    let Some(testbed) = testbed(Cli::Claude, what, &program) else { return };
    let mut daemon = testbed.world.daemon();
    testbed.check_asks(&RUN, 1);
    let pattern = "Bash(./note once)";
    let shown = testbed.world.run(&["pending", "1"]).stdout;
    assert!(shown.ends_with(&format!("with --for-run: {pattern}\n")), "{shown}");
    let approved = testbed.world.run(&["approve", "1", "--for-run"]);
    let given = format!("grant #1 allows me for the rest of the run: {pattern}\n");
    assert!(approved.stdout.ends_with(&given), "{approved:?}");
    // Request 2 was the second call, which asked nobody.
    testbed.check_asks(&ATTACH, 3);
    assert_eq!(testbed.text("ran.txt").as_deref(), Some("once\nonce\n"));
    let listed = testbed.world.run(&["pending"]).stdout;
    assert!(listed.contains("ALLOWS FOR THE RUN") && listed.contains(pattern), "{listed}");
    // The next daemon and a later turn have the grant.
    kill(daemon.id(), "KILL");
    daemon.wait().unwrap();
    let mut daemon = testbed.world.daemon();
    assert_eq!(testbed.world.run(&["deny", "3"]).code, 0);
    testbed.check_done(&ATTACH);
    assert_eq!(testbed.grants(), json!([]), "a grant ends with its run");
    testbed.check_asks(&RUN, 4);
    assert_eq!(testbed.world.run(&["stop", "@team"]).code, 0);
    assert_eq!(testbed.text("ran.txt").as_deref(), Some("once\nonce\n"), "another run asks");
    assert_eq!(testbed.world.run(&["daemon", "stop"]).code, 0);
    daemon.wait().unwrap();
}

#[test]
fn a_grant_holds_in_later_turns_of_claude_code_until_a_person_revokes_it() {
    let (once, push) = (claude_call("once", "a"), claude_call("two", "b"));
    let never = claude_call("never", "c");
    let shell = claude_command_call("echo zero >> ran.txt", "d");
    let program = format!("{shell}{once}{push}{never}SAY Over.");
    let what = "a real agent with a pattern for the run";
    let Some(testbed) = testbed(Cli::Claude, what, &program) else { return };
    let mut daemon = testbed.world.daemon();
    let started = testbed.world.run(&["start", "--background", "team.yaml"]);
    assert_eq!(started.code, 0, "{started:?}");
    testbed.wait_for_request(1);
    // A call with shell syntax is covered by no grant.
    for pattern in [&[][..], &["--pattern", "Bash"]] {
        let refused = testbed.world.run(&[&["approve", "1", "--for-run"], pattern].concat());
        let why = "request #1 can be approved once only: its command has shell syntax (`>`)";
        assert!(refused.code == 2 && refused.stderr.contains(why), "{refused:?}");
    }
    assert_eq!(testbed.world.run(&["approve", "1"]).code, 0);
    testbed.wait_for_request(2);
    let missed = testbed.world.run(&["approve", "2", "--for-run", "--pattern", "Bash(ls*)"]);
    let why = "`Bash(ls*)` does not cover the call of request #2";
    assert!(missed.stderr.contains(why), "{missed:?}");
    assert_eq!(testbed.open_requests().len(), 1);
    assert_eq!(testbed.world.run(&["approve", "2", "--for-run", "--pattern", "Bash"]).code, 0);
    testbed.wait_for_text("zero\nonce\ntwo\n");
    // A later turn.
    let later = format!("{once}SAY Over.");
    assert_eq!(testbed.ask("me", &later), "Over.");
    assert_eq!(testbed.text("ran.txt").as_deref(), Some("zero\nonce\ntwo\nonce\n"));
    assert_eq!(testbed.open_requests(), Vec::<Value>::new());
    let revoked = testbed.world.run(&["revoke", "1"]);
    assert_eq!(revoked.stdout, "grant #1 is revoked: me asks again about Bash\n", "{revoked:?}");
    assert_eq!(testbed.grants(), json!([]));
    testbed.send("me", &later);
    // The grant answered the requests 3 and 4; the rule denied a call without one.
    testbed.wait_for_request(5);
    assert_eq!(testbed.text("ran.txt").as_deref(), Some("zero\nonce\ntwo\nonce\n"));
    assert_eq!(testbed.world.run(&["stop", "@team"]).code, 0);
    assert_eq!(testbed.world.run(&["daemon", "stop"]).code, 0);
    daemon.wait().unwrap();
}

#[test]
fn codex_makes_a_call_that_is_allowed_for_the_run_again_and_asks_about_every_other() {
    let program =
        format!("{}{}{}SAY Over.", codex_call("once"), codex_call("once"), codex_call("other"));
    let what = "Codex with a call for the run";
    let Some(testbed) = testbed(Cli::Codex, what, &program) else { return };
    let mut daemon = testbed.world.daemon();
    testbed.check_asks(&RUN, 1);
    let approved = testbed.world.run(&["approve", "1", "--for-run"]);
    assert!(approved.stdout.contains(": execute(./note once)\n"), "{approved:?}");
    testbed.check_asks(&ATTACH, 3);
    assert_eq!(testbed.text("ran.txt").as_deref(), Some("once\nonce\n"));
    assert_eq!(testbed.world.run(&["deny", "3"]).code, 0);
    testbed.check_done(&ATTACH);
    assert_eq!(testbed.text("ran.txt").as_deref(), Some("once\nonce\n"));
    assert_eq!(testbed.world.run(&["daemon", "stop"]).code, 0);
    daemon.wait().unwrap();
}

impl AgentTestbed {
    fn wait_for_request(&self, number: i64) {
        wait_for("the request", || {
            let open = self.open_requests();
            open.iter().any(|open| open["id"] == number).then_some(())
        });
    }

    fn wait_for_text(&self, text: &str) {
        wait_for("the file", || (self.text("ran.txt").as_deref() == Some(text)).then_some(()));
    }
}
