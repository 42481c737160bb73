//! Hand-offs in final answers, with the real binary: the agent is woken, or the mention is reported.

use serde_json::json;

use crate::{normalized_output::run_lines_normalized, world::World};

/// Returns a team in which `a` ends with `answer` and `b` with `reply`.
fn pair(answer: &str, reply: &str, more: &str) -> String {
    format!(
        "name: pair\nagents:\n\
         \x20 a: {{ backend: mock, mock: [{{ say: {answer:?} }}] }}\n\
         \x20 b: {{ backend: mock, mock: [{{ say: {reply:?} }}] }}\nkickoff: '@a go'\n{more}"
    )
}

#[test]
fn a_hand_off_in_an_answer_wakes_its_agent_and_the_run_ends_after_it() {
    let world = World::new();
    world.file("pair.yaml", &pair("@b please fix line 42", "Fixed.", ""));
    insta::assert_snapshot!(run_lines_normalized(&world, "
        agent-worker run pair.yaml
        agent-worker receipts 2 @pair
    "), @r"
    $ agent-worker run pair.yaml
    #1 user → a: @a go
    #2 a → b (answer to #1): @b please fix line 42
    #3 b (answer to #2): Fixed.
    ! done in TIME · 2 turns · 3 messages
    !  a  @b please fix line 42
    !  b  Fixed.
    ! hint: read the whole channel: agent-worker peek @pair
    $ agent-worker receipts 2 @pair
    MESSAGE  AGENT  STATE  FAILURES  WHY OR ANSWER
    #2       b      acted  0         Fixed.
    ");
}

#[test]
fn a_mention_that_nobody_gets_is_reported() {
    let world = World::new();
    world.file("pair.yaml", &pair("All done, @b may look.", "Fixed.", ""));
    insta::assert_snapshot!(run_lines_normalized(&world, "
        agent-worker run pair.yaml
        agent-worker why @pair
    "), @r"
    $ agent-worker run pair.yaml
    #1 user → a: @a go
    #2 a (answer to #1): All done, @b may look.
    ! a: mentions b in #2; b was not messaged
    ! done in TIME · 1 turn · 2 messages · 1 mention unheard
    !  #2 of a mentions b, who was not messaged
    !  a  All done, @b may look.
    ! hint: read the whole channel: agent-worker peek @pair
    $ agent-worker why @pair
    @pair is done
      since  TIME ago
      because  every message was acted on
      because  #2 of a mentions b, who was not messaged
      wakes when  the run is restarted: agent-worker restart @pair
    ");
    let (code, report) = world.envelope(&["run", "pair.yaml", "--json"]);
    let seq = report["unheard"][0]["seq"].clone();
    assert_eq!(code, 0, "{report}");
    assert_eq!(report["unheard"], json!([{ "seq": seq, "from": "a", "agent": "b" }]));
}

#[test]
fn a_team_that_records_answers_delivers_none() {
    let world = World::new();
    world.file("pair.yaml", &pair("@b please fix line 42", "Fixed.", "answers: record\n"));
    let (code, report) = world.envelope(&["run", "pair.yaml", "--json"]);
    assert_eq!((code, &report["turns"]), (0, &json!(1)), "{report}");
    let cause = "the run delivers no answers";
    let unheard = json!([{ "seq": 2, "from": "a", "agent": "b", "cause": cause }]);
    assert_eq!(report["unheard"], unheard);
    world.file("bad.yaml", &pair("x", "y", "answers: delivered\n"));
    insta::assert_snapshot!(run_lines_normalized(&world, "agent-worker validate bad.yaml"), @r"
    $ agent-worker validate bad.yaml
    ! error: `answers` must be `deliver` or `record`, not `delivered`
    !  --> PROJECT/bad.yaml:6:10
    !   |
    ! 6 | answers: delivered
    !   |          ^^^^^^^^^
    !   |
    !   = help: did you mean `deliver`?
    (exit 2)
    ");
}

#[test]
fn agents_that_thank_each_other_in_answers_stop() {
    let world = World::new();
    world.file("pair.yaml", &pair("@b thanks", "@a thanks", ""));
    let (code, report) = world.envelope(&["run", "pair.yaml", "--json"]);
    assert_eq!((code, &report["turns"]), (0, &json!(2)), "{report}");
    let cause = "an answer of a woke this turn, so the conversation ends";
    let unheard = json!([{ "seq": 3, "from": "b", "agent": "a", "cause": cause }]);
    assert_eq!(report["unheard"], unheard);
}
