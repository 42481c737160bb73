//! Every hint works when it is typed. Each situation is made, what it hints at is typed literally in the same world, and
//! that must be taken: no usage error, nothing that is not there.

use crate::{
    shown::shell,
    world::{Said, World},
};

/// What is made before a situation, and the line whose hints are typed. `FILE` in a hint is a workflow's file, `NAME` an
/// agent.
struct Situation {
    before: &'static [&'static str],
    line: &'static str,
}

const fn when(before: &'static [&'static str], line: &'static str) -> Situation {
    Situation { before, line }
}

const TEAM_UP: &str = "agent-worker up team.yaml";
const TWO_UP: &str = "agent-worker up team.yaml --tag one && agent-worker up team.yaml --tag two";
const DEAD: &str = "agent-worker up team.yaml && ! agent-worker send coder@team poison --wait";
const AT_ITS_HOPS: &str = "! agent-worker run ball.yaml";
const AT_ITS_TURNS: &str = "! agent-worker run turns.yaml";
const OVER: &str = "agent-worker run quick.yaml";
const ALONE: &str = "agent-worker new owl -b mock --say Hoo.";

const BEGINNINGS: &[Situation] = &[
    when(&[], "agent-worker attach"),
    when(&[], "agent-worker send coder@team hello"),
    when(&[], "agent-worker run setup.yaml"),
    when(&[], "agent-worker init first.yaml"),
    when(&["agent-worker init first.yaml"], "agent-worker init first.yaml"),
    when(&[], "agent-worker new"),
    when(&[], "agent-worker new owl -b mock --say Hoo."),
    when(&[ALONE], "agent-worker new owl -b mock --say Hoo."),
    when(&[ALONE], "agent-worker rm @global"),
    when(&[ALONE], "agent-worker stop owl"),
    when(&[], "agent-worker up team.yaml"),
];

const TEAMS: &[Situation] = &[
    when(&[TEAM_UP], "agent-worker up team.yaml"),
    when(&[TEAM_UP], "agent-worker rm @team"),
    when(&[TEAM_UP], "agent-worker pause @team"),
    when(&[TEAM_UP], "agent-worker pause coder@team"),
    when(&[TEAM_UP], "agent-worker rm coder@team"),
    when(&[TEAM_UP], "agent-worker restart coder@team"),
    when(&[TEAM_UP], "agent-worker logs @team"),
    when(&[TEAM_UP], "agent-worker logs coder@team"),
    when(&[TEAM_UP], "agent-worker why @team"),
    when(&[TEAM_UP], "agent-worker stop coder@team"),
    when(&[TEAM_UP], "agent-worker send coder@team"),
    when(&[TEAM_UP], "agent-worker send coder@team two words"),
    when(&[TEAM_UP], "agent-worker attach @nothing"),
    when(&[TEAM_UP], "agent-worker resume @team"),
    when(&[TEAM_UP], "agent-worker dead redrive 9 @team"),
    when(&[TEAM_UP, "agent-worker stop coder@team"], "agent-worker send coder@team hello"),
    when(&[TEAM_UP, "agent-worker stop coder@team"], "agent-worker send coder@team hello --wait"),
    when(&[TEAM_UP, "agent-worker stop coder@team"], "agent-worker why coder@team"),
    when(&[TWO_UP], "agent-worker stop"),
    when(&[TWO_UP], "agent-worker down"),
    when(&[TWO_UP], "agent-worker down main"),
    when(&["agent-worker up team.yaml --tag coder"], "agent-worker down coder"),
];

const LETTERS: &[Situation] = &[
    when(&[TEAM_UP], "agent-worker doc read none.md --target @team"),
    when(
        &[TEAM_UP, "agent-worker doc append notes.md a"],
        "agent-worker doc read notes.md --revision 9",
    ),
    when(&[TEAM_UP, "agent-worker doc append notes.md a"], "agent-worker doc write notes.md b"),
    when(&[TEAM_UP, "agent-worker doc append notes.md a"], "agent-worker doc create notes.md b"),
    when(
        &[TEAM_UP, "agent-worker doc append notes.md a"],
        "agent-worker doc write notes.md b --base 7",
    ),
    when(&[DEAD], "agent-worker dead"),
    when(&[DEAD, "agent-worker dead drop"], "agent-worker dead redrive 1 @team"),
    when(&[DEAD, "agent-worker stop"], "agent-worker dead --all"),
    when(&[DEAD, "agent-worker stop"], "agent-worker dead redrive 1 @team"),
    when(&[], "agent-worker run poison.yaml"),
    when(&["agent-worker token create page"], "agent-worker token create page"),
    when(&["agent-worker token create page"], "agent-worker token revoke other"),
];

const LIMITS: &[Situation] = &[
    when(&[], "agent-worker run ball.yaml"),
    when(&[AT_ITS_HOPS], "agent-worker resume @ball"),
    when(&[AT_ITS_HOPS], "agent-worker why @ball"),
    when(&[AT_ITS_HOPS], "agent-worker why ping@ball"),
    when(&[AT_ITS_HOPS], "agent-worker send ping@ball hello --wait"),
    when(&[], "agent-worker run turns.yaml"),
    when(&[AT_ITS_TURNS], "agent-worker resume @turns"),
    when(&[], "agent-worker run quick.yaml --detach"),
    when(&[OVER], "agent-worker attach @quick"),
    when(&[OVER], "agent-worker resume @quick"),
    when(&[OVER], "agent-worker send @quick hello"),
    when(&[OVER], "agent-worker why @quick"),
    when(&[OVER], "agent-worker stop a@quick"),
];

fn world() -> World {
    let world = World::new();
    let mock =
        |rules: &str| format!("{{ backend: mock, retry: {{ backoff: 1ms }}, mock: [{rules}] }}");
    let coder = mock("{ on: poison, fail: fatal }, { say: On it. }");
    world.file(
        "team.yaml",
        &format!("name: team\nagents:\n  coder: {coder}\n  owl: {}\n", mock("{ say: Hoo. }")),
    );
    world.file(
        "poison.yaml",
        &format!("name: poison\nagents:\n  coder: {coder}\nkickoff: '@coder poison'\n"),
    );
    let to = |who: &str| {
        mock(&format!(
            "{{ calls: [{{ tool: channel_send, args: {{ message: '@{who} yours' }} }}] }}"
        ))
    };
    let ball =
        format!("agents:\n  ping: {}\n  pong: {}\nkickoff: '@ping go'\n", to("pong"), to("ping"));
    world.file("ball.yaml", &format!("name: ball\n{ball}limits: {{ hops: 2 }}\n"));
    world.file("turns.yaml", &format!("name: turns\n{ball}limits: {{ turns: 2 }}\n"));
    world.file(
        "quick.yaml",
        &format!("name: quick\nagents:\n  a: {}\nkickoff: '@a go'\n", mock("{ say: hi }")),
    );
    world.file("bad.yaml", "agents: { a: { bakend: mock } }\n");
    world.file(
        "setup.yaml",
        &format!(
            "name: setup\nagents:\n  a: {}\nsetup: [{{ shell: 'exit 3' }}]\nkickoff: '@a go'\n",
            mock("{ say: hi }")
        ),
    );
    world
}

/// The commands a text names, as they would be typed: in backticks, or to the end of a clause.
fn commands(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines().filter(|line| line.contains("hint: ") || line.contains("wakes when "))
    {
        let mut rest = line;
        while let Some(at) = rest.find("agent-worker ") {
            let quoted = rest[..at].ends_with('`');
            let from = &rest[at..];
            let ends: &[&str] = if quoted { &["`"] } else { &["; ", ", ", " lets "] };
            let end = ends.iter().filter_map(|mark| from.find(mark)).min().unwrap_or(from.len());
            found.push(from[..end].trim_end().to_owned());
            rest = &from[end..];
        }
    }
    found
}

/// Whether a command was understood and found what it names; how what it began went is another matter.
fn is_taken(said: &Said) -> bool {
    let refused = [
        "error: there is no ",
        "error: nothing ",
        "is not paused",
        "has no live run",
        "error: unexpected",
    ];
    said.code != 2 && !refused.iter().any(|words| said.stderr.contains(words))
}

#[test]
fn hints_at_the_beginning_are_taken() {
    type_the_hints_of(BEGINNINGS);
}

#[test]
fn hints_about_teams_and_agents_are_taken() {
    type_the_hints_of(TEAMS);
}

#[test]
fn hints_about_letters_documents_and_tokens_are_taken() {
    type_the_hints_of(LETTERS);
}

#[test]
fn hints_about_runs_that_wait_or_are_over_are_taken() {
    type_the_hints_of(LIMITS);
}

fn type_the_hints_of(situations: &[Situation]) {
    let mut wrong = Vec::new();
    for situation in situations {
        let (world, said) = situation.made();
        let hints = commands(&format!("{}\n{}", said.stdout, said.stderr));
        assert!(!hints.is_empty(), "`{}` hints at nothing: {said:?}", situation.line);
        // Each in a world of its own: what one hint does may be what another undoes.
        let mut worlds = vec![world];
        for hint in hints {
            let world = worlds.pop().unwrap_or_else(|| situation.made().0);
            let hint = hint.replace("FILE", "quick.yaml").replace("NAME", "owl");
            let said = shell(&world, &format!("timeout --signal INT 2 {hint}"));
            if !is_taken(&said) {
                wrong.push(format!("{} → {hint} → {said:?}", situation.line));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

impl Situation {
    /// A world in this situation, and what was said in it.
    fn made(&self) -> (World, Said) {
        let world = world();
        for line in self.before {
            let said = shell(&world, line);
            assert_eq!(said.code, 0, "{line}: {said:?}");
        }
        let said = shell(&world, self.line);
        (world, said)
    }
}
