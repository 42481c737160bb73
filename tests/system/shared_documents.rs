//! The shared parts of a team: its documents, its channel in an agent's own shell, and feedback about the program.

use crate::{
    messaging_commands::echo_team,
    shell_transcript::{normalized, run_lines, shell},
    world::{World, wait_for},
};

#[test]
fn documents_are_read_written_and_never_lost_by_a_write_that_had_not_read_them() {
    let world = echo_team();
    insta::assert_snapshot!(run_lines(&world, r#"
        agent-worker doc append notes.md "- first"
        echo "- second" | agent-worker doc append notes.md
        agent-worker doc read
        agent-worker doc write notes.md "over it"
        agent-worker doc write notes.md "after that" --base 1
        agent-worker doc write notes.md "after that" --base 2
        agent-worker doc write notes.md "whatever is there" --force
        agent-worker doc create notes.md "again"
    "#), @r#"
    $ agent-worker doc append notes.md "- first"
    notes.md is at revision 1
    $ echo "- second" | agent-worker doc append notes.md
    notes.md is at revision 2
    $ agent-worker doc read
    - first
    - second
    $ agent-worker doc write notes.md "over it"
    ! error: notes.md already exists (revision 2, by user)
    ! hint: read it: agent-worker doc read notes.md; then write with --base 2, or overwrite it with --force
    (exit 1)
    $ agent-worker doc write notes.md "after that" --base 1
    ! error: the document is at revision 2
    ! hint: read it again: agent-worker doc read notes.md; then write with its revision as --base
    (exit 1)
    $ agent-worker doc write notes.md "after that" --base 2
    notes.md is at revision 3
    $ agent-worker doc write notes.md "whatever is there" --force
    notes.md is at revision 4
    $ agent-worker doc create notes.md "again"
    ! error: the document is at revision 4
    ! hint: read it: agent-worker doc read notes.md; then `doc write` with --base, or `doc append`
    (exit 1)
    "#);
    let text = world.json(&["doc", "read", "--json"]);
    assert_eq!(
        (&text["revision"], &text["content"]),
        (&4.into(), &"whatever is there\n".into()),
        "{text}"
    );
    let entries = world.list(&["doc", "history", "notes.md", "--json"]);
    assert_eq!(entries.as_array().unwrap().len(), 4, "{entries}");
}

#[test]
fn what_changed_is_shown_and_suggestions_are_answered_by_the_user() {
    let world = World::new();
    world.file(
        "team.yaml",
        "agents: { scribe: { mock: [] }, coder: { mock: [] } }\ncontext: { documentOwner: scribe }\n",
    );
    assert_eq!(world.run(&["start", "team.yaml", "--background"]).code, 0);
    insta::assert_snapshot!(run_lines(&world, r##"
        agent-worker doc suggest notes.md "a beginning"
        agent-worker doc append notes.md "# Notse"
        agent-worker doc suggest notes.md "spelling" --old Notse --new Notes
        agent-worker doc suggest notes.md "spelling" --old notse --new Notes
        agent-worker doc suggestions
        agent-worker doc accept 2
        agent-worker doc reject 1 -r "there is one"
        agent-worker doc accept 1
        agent-worker doc diff notes.md
        agent-worker doc suggestions
    "##), @r##"
    $ agent-worker doc suggest notes.md "a beginning"
    suggestion 1 waits for scribe
    $ agent-worker doc append notes.md "# Notse"
    notes.md is at revision 1
    $ agent-worker doc suggest notes.md "spelling" --old Notse --new Notes
    suggestion 2 waits for scribe
    $ agent-worker doc suggest notes.md "spelling" --old notse --new Notes
    ! error: the text to be replaced occurs 0 times in the document
    ! hint: read the document, and quote a passage that occurs in it exactly once
    (exit 1)
    $ agent-worker doc suggestions
    NUMBER  FILE      BY    STATE  WHAT
    2       notes.md  user  open   spelling
    1       notes.md  user  open   a beginning
    $ agent-worker doc accept 2
    suggestion 2 is accepted: notes.md is at revision 2
    $ agent-worker doc reject 1 -r "there is one"
    suggestion 1 is rejected
    $ agent-worker doc accept 1
    ! error: the suggestion is rejected already
    (exit 1)
    $ agent-worker doc diff notes.md
    --- notes.md 1
    +++ notes.md 2
    @@ -1 +1 @@
    -# Notse
    +# Notes
    $ agent-worker doc suggestions
    NUMBER  FILE      BY    STATE                   WHAT
    2       notes.md  user  accepted                spelling
    1       notes.md  user  rejected: there is one  a beginning
    "##);
    let diffs = world.list(&["doc", "history", "--diff", "--json"]);
    assert_eq!((&diffs[0]["from"], &diffs[1]["from"]), (&1.into(), &0.into()), "{diffs}");
}

#[test]
fn documents_are_listed_with_their_history_and_missing_ones_are_reported() {
    let world = echo_team();
    insta::assert_snapshot!(run_lines(&world, r##"
        agent-worker doc list
        agent-worker doc read
        agent-worker doc append notes.md "one"
        agent-worker doc append notes.md "two"
        agent-worker doc create plans/a.md "# Plan" --target @echo
        agent-worker doc history notes.md
        agent-worker doc read notes.md --revision 1
        agent-worker doc list
        agent-worker doc read nothing.md
        agent-worker doc read noets.md
        agent-worker doc history plan/a.md
        agent-worker doc read ../secrets
        agent-worker doc list --target @nothing
    "##), @r##"
    $ agent-worker doc list
    ! there are no documents
    $ agent-worker doc read
    ! error: there is no document `notes.md` in @echo
    ! hint: `agent-worker doc list --target @echo` lists what exists
    (exit 1)
    $ agent-worker doc append notes.md "one"
    notes.md is at revision 1
    $ agent-worker doc append notes.md "two"
    notes.md is at revision 2
    $ agent-worker doc create plans/a.md "# Plan" --target @echo
    plans/a.md is at revision 1
    $ agent-worker doc history notes.md
    REVISION  BYTES  WRITTEN  BY
    2  8  TIME ago  user
    1  4  TIME ago  user
    $ agent-worker doc read notes.md --revision 1
    one
    $ agent-worker doc list
    FILE  REVISION  BYTES  WRITTEN  BY
    notes.md  2  8  TIME ago  user
    plans/a.md  1  7  TIME ago  user
    $ agent-worker doc read nothing.md
    ! error: there is no document `nothing.md` in @echo
    ! hint: `agent-worker doc list --target @echo` lists what exists
    (exit 1)
    $ agent-worker doc read noets.md
    ! error: there is no document `noets.md` in @echo
    ! hint: did you mean `notes.md`? `agent-worker doc list --target @echo` lists what exists
    (exit 1)
    $ agent-worker doc history plan/a.md
    ! error: there is no document `plan/a.md` in @echo
    ! hint: did you mean `plans/a.md`? `agent-worker doc list --target @echo` lists what exists
    (exit 1)
    $ agent-worker doc read ../secrets
    ! error: invalid value '../secrets' for '[FILE]': `../secrets` cannot be a document's path: use relative names of letters, digits, `.`, `-` and `_` with `/` between them, up to 200 characters
    !
    ! For more information, try '--help'.
    (exit 2)
    $ agent-worker doc list --target @nothing
    ! error: there is no instance `@nothing`
    ! hint: `agent-worker ls --all` lists every agent
    (exit 1)
    "##);
}

#[test]
fn documents_come_out_of_a_pipe_as_they_went_in() {
    let world = echo_team();
    let bytes = "no end of line, \u{1b}[31mcolour\u{1b}[0m, 请";
    world.file("in", bytes);
    assert_eq!(shell(&world, "agent-worker doc write raw.md < in").code, 0);
    let out = shell(&world, "agent-worker doc read raw.md > out; cmp in out");
    assert_eq!(out.code, 0, "{out:?}");
}

#[test]
fn in_an_agents_shell_context_speaks_as_that_agent() {
    let world = World::new();
    let script = r#"exec > tried 2>&1
        agent-worker context inbox
        agent-worker context send "@owl from the shell"
        for i in $(seq 500); do agent-worker context read --json | grep -q Hoo && break; done
        agent-worker context inbox
        agent-worker context read -n 2
        agent-worker context ack 4
        agent-worker context send "as myself" --agent crow@team --cc owl
        agent-worker context send "as another" --agent owl@team
        agent-worker context inbox --agent owl@team
        agent-worker doc append notes.md "by the crow"
        agent-worker feedback "from an agent"
        env -u AGENT_WORKER_ATTEMPT agent-worker use owl@team
        agent-worker stop @team || true
    "#;
    world.file("try.sh", script);
    let folder = std::path::Path::new(env!("CARGO_BIN_EXE_agent-worker")).parent().unwrap();
    let yaml = format!(
        "name: team\nagents:\n  crow:\n    backend: mock\n    mock: [{{ on: go, run: 'PATH={}:$PATH \
         bash try.sh; true', say: tried }}]\n  owl:\n    backend: mock\n    mock: [{{ calls: [{{ tool: channel_send, args: {{ \
         message: 'Thanks, @crow.' }} }}], say: Hoo. }}]\nkickoff: '@crow go'\n",
        folder.display()
    );
    world.file("team.yaml", &yaml);
    let (code, envelope) = world.envelope(&["run", "team.yaml", "--json"]);
    assert_eq!(code, 0, "{envelope}\n{}", world.log());
    let tried = std::fs::read_to_string(world.project().join("tried")).unwrap();
    insta::assert_snapshot!(normalized(&world, &tried), @"
    no pending messages for crow@team
    #2 → owl
    TIME ago #3 owl → crow: Thanks, @crow.
    #3 owl → crow: Thanks, @crow.
    #4 owl (answer to #2): Hoo.
    1 message done when this turn succeeds
    #5 (wakes no agent) (cc owl)
    error: this is not owl@team's shell, and only owl@team itself can send as owl@team
    hint: omit --agent: in an agent's shell the default is that agent
    error: an agent may only read its own inbox
    notes.md is at revision 1
    saved on this machine and not sent anywhere; `agent-worker feedback list` shows it
    error: could not save the selected target: an agent cannot select a target
    error: only the user may do this, or a client whose token allows `run`
    ");
    assert_eq!(
        envelope["agents"]["crow"]["turns"], 1,
        "what it acked does not wake it again: {envelope}"
    );
    let messages = world.json(&["peek", "@team", "--json"]);
    let from = |text: &str| {
        let messages = messages["items"].as_array().unwrap();
        messages.iter().find(|one| one["body"] == text).map(|one| one["from"].clone())
    };
    assert_eq!(from("@owl from the shell"), Some("crow".into()), "{messages}");
    assert_eq!(from("as myself"), Some("crow".into()), "{messages}");
    assert_eq!(from("as another"), None, "{messages}");
    let notes = world.json(&["doc", "read", "--target", "@team", "--json"]);
    assert_eq!(notes["author"], "crow", "{notes}");
    let feedback = world.list(&["feedback", "list", "--json"]);
    assert_eq!((&feedback[0]["by"], &feedback[0]["instance"]), (&"crow".into(), &"team".into()));
}

#[test]
fn outside_an_agents_shell_context_can_only_read() {
    let world = World::new();
    world.file(
        "busy.yaml",
        "name: busy\nagents:\n  bee: { backend: mock, mock: [{ sleep: 10m }] }\nkickoff: '@bee go'\n",
    );
    assert_eq!(world.run(&["start", "busy.yaml", "--background"]).code, 0);
    wait_for("the bee to be busy", || {
        (world.list(&["ls", "--json"])[0]["state"] == "running").then_some(())
    });
    assert_eq!(world.run(&["send", "bee@busy", "and then this"]).code, 0);
    insta::assert_snapshot!(run_lines(&world, r#"
        agent-worker context inbox
        agent-worker context inbox --agent bee@busy
        agent-worker context read --agent bee@busy
        agent-worker context send "hello"
        agent-worker context send "hello" --agent bee@busy
        agent-worker context ack 2 --agent bee@busy
        agent-worker context inbox --agent wasp@busy
    "#), @r#"
    $ agent-worker context inbox
    ! error: you are the user here, and the user has no inbox
    ! hint: read an agent's inbox: agent-worker context inbox --agent agent@workflow
    (exit 2)
    $ agent-worker context inbox --agent bee@busy
    TIME ago #2 user → bee: and then this
    $ agent-worker context read --agent bee@busy
    #1 user → bee: @bee go
    #2 user → bee: and then this
    $ agent-worker context send "hello"
    ! error: you are the user here, and this command is for an agent's own shell
    ! hint: send as yourself: agent-worker send agent@workflow "…"
    (exit 2)
    $ agent-worker context send "hello" --agent bee@busy
    ! error: you are the user here, and only bee@busy itself can send as bee@busy
    ! hint: send as yourself: agent-worker send bee@busy "…"
    (exit 2)
    $ agent-worker context ack 2 --agent bee@busy
    ! error: you are the user here, and only bee@busy itself can acknowledge its messages
    ! hint: read its inbox: agent-worker context inbox --agent bee@busy
    (exit 2)
    $ agent-worker context inbox --agent wasp@busy
    ! error: there is no agent `wasp` in @busy
    ! hint: `agent-worker ls --all` lists every agent
    (exit 1)
    "#);
    let inbox = world.json(&["context", "inbox", "--agent", "bee@busy", "--json"]);
    assert_eq!((&inbox["agent"], &inbox["items"][0]["seq"]), (&"bee".into(), &2.into()));
    world.run(&["stop", "@busy"]);
}

#[test]
fn feedback_is_written_down_and_read_again() {
    let world = World::new();
    insta::assert_snapshot!(run_lines(&world, r#"
        agent-worker feedback list
        agent-worker feedback "peek should show who has read what"
        printf 'two\nlines' | agent-worker feedback -
        agent-worker feedback list
        agent-worker feedback ""
    "#), @r#"
    $ agent-worker feedback list
    ! no feedback yet
    $ agent-worker feedback "peek should show who has read what"
    ! saved on this machine and not sent anywhere; `agent-worker feedback list` shows it
    $ printf 'two\nlines' | agent-worker feedback -
    ! saved on this machine and not sent anywhere; `agent-worker feedback list` shows it
    $ agent-worker feedback list
    TIME ago user: two
      lines
    TIME ago user: peek should show who has read what
    $ agent-worker feedback ""
    ! error: the feedback is empty
    (exit 2)
    "#);
    assert_eq!(world.list(&["feedback", "list", "--json"]).as_array().unwrap().len(), 2);
}
