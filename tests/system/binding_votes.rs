//! Attacks on binding votes: one agent alone opens no gate, takes no role and takes no work.

use serde_json::{Value, json};

use crate::world::{CommandOutput, World, wait_for};

/// An agent that tries to decide alone, in every way that the terms of a proposal offer.
const USURPER: &str = r#"
name: team
agents:
  coder:
    backend: mock
    requires: { document_append: release }
    mock:
      - on: "go"
        calls:
          - { tool: proposal_create, args: { title: a, gate: release, binding: true, electorate: [coder] } }
          - { tool: vote, args: { proposal: 1, choice: approve } }
          - { tool: proposal_create, args: { title: b, role: document_owner, binding: true, electorate: [coder] } }
          - { tool: vote, args: { proposal: 2, choice: coder } }
          - { tool: proposal_create, args: { title: c, work: 1, binding: true, electorate: [coder] } }
          - { tool: vote, args: { proposal: 3, choice: coder } }
          - { tool: proposal_create, args: { title: d, gate: deploy, binding: true, quorum: 1, deadline: 1s } }
          - { tool: vote, args: { proposal: 4, choice: approve } }
          - { tool: proposal_create, args: { title: e, role: coordinator, binding: true, fallback: coder, deadline: 1s } }
          - { tool: proposal_create, args: { title: f, role: document_owner, binding: true, rule: plurality, deadline: 1s } }
          - { tool: document_append, args: { content: "released" } }
  critic: { backend: mock, mock: [{ say: fine }] }
  tester: { backend: mock, mock: [{ say: fine }] }
kickoff: "@coder go, @critic watch"
"#;

/// An agent that proposes to open its own gate, and appends when a message asks for it.
fn team_with(other_agents: &str, gates: &str) -> String {
    format!(
        r#"
name: team
agents:
  coder:
    backend: mock
    requires: {{ document_append: release }}
    mock:
      - on: "propose"
        calls:
          - {{ tool: proposal_create, args: {{ title: "Release?", gate: release, binding: true }} }}
          - {{ tool: vote, args: {{ proposal: 1, choice: approve }} }}
      - on: "append"
        calls: [{{ tool: document_append, args: {{ content: "released\n" }} }}]
        say: tried
{other_agents}
{gates}
"#
    )
}

fn proposals(world: &World) -> Vec<Value> {
    let listed = world.json(&["proposals", "--all", "--target", "@team", "--json"]);
    listed["items"].as_array().unwrap().clone()
}

fn document(world: &World) -> CommandOutput {
    world.run(&["doc", "read", "notes.md", "--target", "@team"])
}

/// Starts a team, and waits until its agent has made a proposal and is idle again.
fn started(file: &str) -> World {
    let world = World::new();
    world.file("team.yaml", file);
    let begun = world.run(&["start", "team.yaml", "--background"]);
    assert_eq!(begun.code, 0, "{begun:?}");
    assert_eq!(world.run(&["send", "coder@team", "propose", "--wait"]).code, 0);
    world
}

/// Tells the agent to append, and waits for its answer.
fn append(world: &World) {
    let before = answers(world);
    assert_eq!(world.run(&["send", "coder@team", "append"]).code, 0);
    wait_for("the agent's answer", || (answers(world) > before).then_some(()));
}

fn answers(world: &World) -> usize {
    let channel = world.json(&["peek", "@team", "-n", "100", "--json"]);
    let messages = channel["items"].as_array().unwrap();
    messages.iter().filter(|message| message["body"] == "tried").count()
}

#[test]
fn an_agent_alone_opens_no_gate_takes_no_role_and_takes_no_work() {
    let world = World::new();
    world.file("team.yaml", USURPER);
    assert_eq!(world.run(&["run", "team.yaml"]).code, 0);
    let decisions = world.run(&["doc", "read", "decisions.md", "--target", "@team"]);
    assert!(!decisions.stdout.contains("## #"), "{}", decisions.stdout);
    assert_eq!(proposals(&world), Vec::<Value>::new());
    assert_ne!(document(&world).code, 0, "nothing was appended");
}

#[test]
fn in_a_team_of_one_the_user_decides() {
    let world = started(&team_with("", ""));
    let made = proposals(&world);
    assert_eq!((&made[0]["electorate"], &made[0]["state"]), (&json!(["user"]), &json!("active")));
    assert_eq!(made[0]["ballots"], json!([]), "its own ballot was refused");
    append(&world);
    assert_ne!(document(&world).code, 0, "the gate is closed");
    let attention = || world.as_user("GET", "/attention", "").1;
    assert!(attention().contains("agent-worker vote 1 OPTION --target @team"), "{}", attention());
    let voted = world.run(&["vote", "1", "approve", "--target", "@team"]);
    assert!(voted.stdout.contains("gate release is open"), "{voted:?}");
    assert!(!attention().contains("agent-worker vote"), "{}", attention());
    append(&world);
    assert_eq!(document(&world).stdout, "released\n");
}

#[test]
fn the_others_decide_about_the_gate_of_the_agent_that_proposes_to_open_it() {
    let critic = "  critic: { backend: mock, mock: [{ on: 'PROPOSAL', say: I wait }] }";
    let world = started(&team_with(critic, ""));
    let made = proposals(&world);
    assert_eq!((&made[0]["electorate"], &made[0]["state"]), (&json!(["critic"]), &json!("active")));
    assert_eq!(made[0]["ballots"], json!([]), "its own ballot was refused");
}

#[test]
fn the_file_fixes_who_decides_about_a_gate_also_for_the_user() {
    let critic = "  critic:
    backend: mock
    mock: [{ on: 'PROPOSAL', calls: [{ tool: vote, args: { proposal: 1, choice: approve } }] }]";
    let gates = "gates: { release: { electorate: [user], rule: unanimous } }";
    let world = started(&team_with(critic, gates));
    let made = proposals(&world);
    let fixed = (&json!(["user"]), &json!("unanimous"), &json!("active"));
    assert_eq!((&made[0]["electorate"], &made[0]["rule"], &made[0]["state"]), fixed, "{made:?}");
    for changed in [&["--voter", "critic"][..], &["--rule", "majority"], &["--quorum", "1"]] {
        let asked = ["propose", "Release?", "--gate", "release", "--binding", "--target", "@team"];
        let refused = world.run(&[&asked[..], changed].concat());
        assert!(refused.stderr.contains("the workflow file fixes"), "{changed:?}: {refused:?}");
    }
    let voted = world.run(&["vote", "1", "approve", "--target", "@team"]);
    assert!(voted.stdout.contains("gate release is open"), "{voted:?}");
}
