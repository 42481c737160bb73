//! A team that votes: it elects an owner, a decision binds, a non-owner's write is refused and its suggestions are
//! answered, and a person is asked.

use serde_json::Value;

use crate::{
    terminal::Terminal,
    world::{World, wait_for},
};

/// Three agents that elect `scribe` and then make a decision. `critic` writes a document that it does not own, and
/// then makes suggestions: first one against the decision, then a better one.
const TEAM: &str = r#"
name: council
context: { documentOwner: elect }
agents:
  lead:
    backend: mock
    mock:
      - on: "[PROPOSAL] #1"
        calls: [{ tool: vote, args: { proposal: 1, choice: scribe } }]
      - on: "begin"
        calls:
          - { tool: proposal_create, args: { title: "Which database?", options: [sqlite, postgres], rule: unanimous, binding: true } }
          - { tool: vote, args: { proposal: 2, choice: sqlite, reason: one file } }
      - on: "[RESOLVED] #2"
        calls: [{ tool: channel_send, args: { message: "@scribe write it down" } }]
  scribe:
    backend: mock
    mock:
      - on: "[PROPOSAL] #1"
        calls: [{ tool: vote, args: { proposal: 1, choice: scribe } }]
      - on: "[PROPOSAL] #2"
        calls: [{ tool: vote, args: { proposal: 2, choice: sqlite } }]
      - on: "write it down"
        calls:
          - { tool: document_append, args: { content: "We use sqlite.\n" } }
          - { tool: channel_send, args: { message: "@critic try to" } }
      - on: "let us take postgres"
        calls: [{ tool: suggestion_answer, args: { suggestion: 8, accept: false, reason: "it was decided" } }]
      - on: "say why"
        calls: [{ tool: suggestion_answer, args: { suggestion: 10, accept: true } }]
  critic:
    backend: mock
    mock:
      - on: "[PROPOSAL] #1"
        calls: [{ tool: vote, args: { proposal: 1, choice: scribe } }]
      - on: "[PROPOSAL] #2"
        calls: [{ tool: vote, args: { proposal: 2, choice: sqlite } }]
      - on: "try to"
        calls:
          - { tool: document_append, args: { content: "We use postgres.\n" } }
          - { tool: document_suggest, args: { suggestion: "let us take postgres", old: sqlite, new: postgres } }
      - on: "Rejected for notes.md: it was decided"
        calls: [{ tool: document_suggest, args: { suggestion: "say why", old: "sqlite.", new: "sqlite, one file less to run." } }]
kickoff: "@lead begin"
"#;

fn bodies(world: &World, target: &str) -> Vec<String> {
    let channel = world.json(&["peek", target, "-n", "100", "--json"]);
    let messages = channel["items"].as_array().unwrap();
    messages.iter().map(|message| message["body"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn three_agents_elect_an_owner_debate_by_suggestions_decide_and_keep_to_it() {
    let world = World::new();
    let file = world.file("council.yaml", TEAM);
    let run = world.run(&["run", file.to_str().unwrap()]);
    let said = bodies(&world, "@council");
    assert_eq!(run.code, 0, "{run:?} {said:#?}");
    let told = format!("{}{}", run.stdout, run.stderr);
    assert!(
        told.contains("scribe owns the documents of this run"),
        "why critic was refused: {told}"
    );
    let at = |start: &str| said.iter().position(|body| body.starts_with(start)).unwrap();
    let elected = "[RESOLVED] #1 Who owns the team's documents?: scribe (scribe is document_owner)";
    assert!(at(elected) < at("@lead begin"), "{said:#?}");
    assert!(at("@lead begin") < at("[RESOLVED] #2 Which database?: sqlite"), "{said:#?}");
    let notes = world.json(&["doc", "read", "notes.md", "--target", "@council", "--json"]);
    assert_eq!(notes["content"], "We use sqlite, one file less to run.\n", "{said:#?}");
    assert!(at("Suggestion for notes.md:\nlet us") < at("Rejected for notes.md: it was decided"));
    assert!(
        at("Suggestion for notes.md:\nsay why") < at("Accepted: notes.md has what you suggested")
    );
    let history = world.list(&["doc", "history", "notes.md", "--target", "@council", "--json"]);
    let authors: Vec<_> = history.as_array().unwrap().iter().map(|one| &one["author"]).collect();
    assert_eq!(authors, ["scribe", "scribe"], "only its owner wrote it");
    let thread = world.run(&["peek", "@council", "--thread", "10"]);
    assert!(
        thread.stdout.contains("#11 scribe (cc critic) (reply to #10): Accepted"),
        "{thread:?}"
    );
    let messages = thread.stdout.lines().filter(|line| !line.starts_with(' '));
    assert_eq!(messages.count(), 2, "{thread:?}");
    let transcript = world.run(&["export", "@council", "--format", "md"]);
    assert!(
        transcript.stdout.contains("## #11 scribe (cc critic) (reply to #10)"),
        "{transcript:?}"
    );
    let list = world.json(&["proposals", "--all", "--target", "@council", "--json"]);
    let states: Vec<_> =
        list["items"].as_array().unwrap().iter().map(|one| &one["state"]).collect();
    assert_eq!(states, ["resolved", "resolved"]);
    let decisions = world.run(&["doc", "read", "decisions.md", "--target", "@council"]);
    assert!(
        decisions.stdout.contains("## #2 Which database?\n\nresolved: sqlite (decision, binding)"),
        "{decisions:?}"
    );
    assert!(decisions.stdout.contains("- lead sqlite: one file"), "{decisions:?}");
}

const ASKING_TEAM: &str = r#"
name: asking
agents:
  coder:
    backend: mock
    mock:
      - on: "go"
        calls: [{ tool: ask_human, args: { question: "Drop the old table?", options: ["yes", "no"] } }]
      - say: "so be it"
kickoff: "@coder go"
"#;

#[test]
fn a_run_that_needs_a_person_says_so_and_goes_on_with_the_answer() {
    let world = World::new();
    let file = world.file("asking.yaml", ASKING_TEAM);
    let (code, envelope) = world.envelope(&["run", file.to_str().unwrap(), "--json"]);
    assert_eq!((code, &envelope["outcome"]), (4, &Value::from("human")), "{envelope}");
    let open = world.list(&["answer", "--json"]);
    assert_eq!(open[0]["question"], "Drop the old table?");
    let wrong = world.run(&["answer", "1", "maybe"]);
    assert_eq!(wrong.code, 2, "{wrong:?}");
    assert!(wrong.stderr.contains("one of: yes, no"), "{wrong:?}");
    let answered = world.run(&["answer", "1", "yes"]);
    assert!(answered.stdout.contains("question #1 is answered: #3 wakes coder"), "{answered:?}");
    let (code, envelope) = world.envelope(&["attach", "@asking", "--json"]);
    assert_eq!((code, &envelope["outcome"]), (0, &Value::from("done")), "{envelope}");
    assert_eq!(bodies(&world, "@asking").last().unwrap(), "so be it");
    assert_eq!(world.run(&["answer", "1", "no"]).code, 1);
}

#[test]
fn an_answer_that_wakes_no_agent_for_now_does_not_claim_to() {
    let world = World::new();
    let file = world.file("asking.yaml", ASKING_TEAM);
    assert_eq!(world.run(&["run", file.to_str().unwrap()]).code, 4);
    assert_eq!(world.run(&["pause", "@asking"]).code, 0);
    let answered = world.run(&["answer", "1", "yes"]);
    assert!(answered.stdout.contains("question #1 is answered: #3 is for coder"), "{answered:?}");
    assert!(
        answered.stderr.contains("the run is paused, so no agent acts on the message"),
        "{answered:?}"
    );
}

#[test]
fn a_person_proposes_votes_and_vetoes_from_the_command_line() {
    let world = World::new();
    let agents = "name: room\nagents: { a: { backend: mock }, b: { backend: mock } }\n";
    let file = world.file("room.yaml", agents);
    world.json(&["start", file.to_str().unwrap(), "--background", "--json"]);
    let made =
        world.run(&["propose", "Ship it?", "--voter", "user", "--gate", "release", "--binding"]);
    assert_eq!(made.stdout.trim(), "proposal #1 is active", "{made:?}");
    let shown = world.run(&["proposals"]);
    assert!(shown.stdout.contains("0 of 1"), "{shown:?}");
    let typo = world.run(&["vote", "1", "aprove"]);
    assert!(typo.stderr.contains("did you mean `approve`?"), "{typo:?}");
    let voted = world.run(&["vote", "#1", "approve", "--reason", "it is time"]);
    assert_eq!(voted.stdout.trim(), "proposal #1 is resolved: approve (gate release is open)");
    let late = world.run(&["vote", "1", "reject"]);
    assert!(late.stderr.contains("proposal #1 is resolved: approve"), "{late:?}");
    world.run(&["propose", "Rewrite it?", "--option", "yes", "--option", "no"]);
    let vetoed = world.run(&["veto", "2", "--why", "not now"]);
    assert_eq!(vetoed.stdout.trim(), "proposal #2 is cancelled by user: not now", "{vetoed:?}");
    let one = world.run(&["proposals", "1"]);
    assert!(one.stdout.contains("it is time"), "{one:?}");
    assert_eq!(world.run(&["down", "--all"]).code, 0);
}

fn state(world: &World, what: &[&str]) -> String {
    world.json(what)["state"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_watched_run_waits_for_the_answer_of_its_user() {
    let world = World::new();
    world.file("asking.yaml", ASKING_TEAM);
    let watched = Terminal::open(&world, 80, "run asking.yaml");
    let waits = || {
        let shown = world.run(&["why", "coder@asking"]);
        shown.stdout.contains("is waiting for an answer (#1)").then_some(shown)
    };
    let shown = wait_for("the question", waits);
    assert!(shown.stdout.contains("agent-worker answer 1 TEXT --target @asking"), "{shown:?}");
    for words in
        [&["ls", "@asking"][..], &["ps"], &["status", "coder@asking"], &["status", "@asking"]]
    {
        let shown = world.run(words);
        assert!(shown.stdout.contains("waiting for an answer (#1)"), "{words:?} {shown:?}");
    }
    assert_eq!(state(&world, &["status", "@asking", "--json"]), "running", "somebody is there");
    assert_eq!(world.run(&["answer", "1", "yes"]).code, 0, "from another terminal");
    let (ended, _) = watched.wait_exit();
    assert_eq!(ended.code(), Some(0));
    let shown = world.run(&["ls", "@asking", "--all"]);
    assert!(!shown.stdout.contains("waiting for an answer"), "{shown:?}");
}
