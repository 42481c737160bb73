//! Every hint works if typed. Each case creates a situation and runs its hints literally in the same world; a hint
//! must cause no usage error and name nothing that is missing.

use crate::{
    shell_transcript::shell,
    world::{CommandOutput, World},
};

/// Commands that create a situation, and the line whose hints are typed. In a hint, `FILE` is a workflow file and
/// `NAME` an agent.
struct HintCase {
    before: &'static [&'static str],
    line: &'static str,
}

const fn hint_case(before: &'static [&'static str], line: &'static str) -> HintCase {
    HintCase { before, line }
}

const TEAM_UP: &str = "agent-worker up team.yaml";
const TWO_UP: &str = "agent-worker up team.yaml --tag one && agent-worker up team.yaml --tag two";
const DEAD_LETTER: &str =
    "agent-worker up team.yaml && ! agent-worker send coder@team poison --wait";
const AT_HOP_LIMIT: &str = "! agent-worker run ball.yaml";
const AT_TURN_LIMIT: &str = "! agent-worker run turns.yaml";
const FINISHED_RUN: &str = "agent-worker run quick.yaml";
const GLOBAL_AGENT: &str = "agent-worker new owl -b mock --say Hoo.";

const FIRST_STEP_CASES: &[HintCase] = &[
    hint_case(&[], "agent-worker attach"),
    hint_case(&[], "agent-worker send coder@team hello"),
    hint_case(&[], "agent-worker run setup.yaml"),
    hint_case(&[], "agent-worker init first.yaml"),
    hint_case(&["agent-worker init first.yaml"], "agent-worker init first.yaml"),
    hint_case(&[], "agent-worker new"),
    hint_case(&[], "agent-worker new owl -b mock --say Hoo."),
    hint_case(&[GLOBAL_AGENT], "agent-worker new owl -b mock --say Hoo."),
    hint_case(&[GLOBAL_AGENT], "agent-worker rm @global"),
    hint_case(&[GLOBAL_AGENT], "agent-worker stop owl"),
    hint_case(&[], "agent-worker up team.yaml"),
];

const TEAM_CASES: &[HintCase] = &[
    hint_case(&[TEAM_UP], "agent-worker up team.yaml"),
    hint_case(&[TEAM_UP], "agent-worker rm @team"),
    hint_case(&[TEAM_UP], "agent-worker pause @team"),
    hint_case(&[TEAM_UP], "agent-worker pause coder@team"),
    hint_case(&[TEAM_UP], "agent-worker rm coder@team"),
    hint_case(&[TEAM_UP], "agent-worker restart coder@team"),
    hint_case(&[TEAM_UP], "agent-worker logs @team"),
    hint_case(&[TEAM_UP], "agent-worker logs coder@team"),
    hint_case(&[TEAM_UP], "agent-worker why @team"),
    hint_case(&[TEAM_UP], "agent-worker stop coder@team"),
    hint_case(&[TEAM_UP], "agent-worker send coder@team"),
    hint_case(&[TEAM_UP], "agent-worker send coder@team two words"),
    hint_case(&[TEAM_UP], "agent-worker attach @nothing"),
    hint_case(&[TEAM_UP], "agent-worker resume @team"),
    hint_case(&[TEAM_UP], "agent-worker dead redrive 9 @team"),
    hint_case(&[TEAM_UP, "agent-worker stop coder@team"], "agent-worker send coder@team hello"),
    hint_case(
        &[TEAM_UP, "agent-worker stop coder@team"],
        "agent-worker send coder@team hello --wait",
    ),
    hint_case(&[TEAM_UP, "agent-worker stop coder@team"], "agent-worker why coder@team"),
    hint_case(&[TWO_UP], "agent-worker stop"),
    hint_case(&[TWO_UP], "agent-worker down"),
    hint_case(&[TWO_UP], "agent-worker down main"),
    hint_case(&["agent-worker up team.yaml --tag coder"], "agent-worker down coder"),
];

const DEAD_LETTER_CASES: &[HintCase] = &[
    hint_case(&[TEAM_UP], "agent-worker doc read none.md --target @team"),
    hint_case(
        &[TEAM_UP, "agent-worker doc append notes.md a"],
        "agent-worker doc read notes.md --revision 9",
    ),
    hint_case(
        &[TEAM_UP, "agent-worker doc append notes.md a"],
        "agent-worker doc write notes.md b",
    ),
    hint_case(
        &[TEAM_UP, "agent-worker doc append notes.md a"],
        "agent-worker doc create notes.md b",
    ),
    hint_case(
        &[TEAM_UP, "agent-worker doc append notes.md a"],
        "agent-worker doc write notes.md b --base 7",
    ),
    hint_case(&[DEAD_LETTER], "agent-worker dead"),
    hint_case(&[DEAD_LETTER, "agent-worker dead drop @team"], "agent-worker dead redrive 1 @team"),
    hint_case(&[DEAD_LETTER, "agent-worker stop"], "agent-worker dead --all"),
    hint_case(&[DEAD_LETTER, "agent-worker stop"], "agent-worker dead redrive 1 @team"),
    hint_case(&[], "agent-worker run poison.yaml"),
    hint_case(&["agent-worker token create page"], "agent-worker token create page"),
    hint_case(&["agent-worker token create page"], "agent-worker token revoke other"),
];

const LIMIT_CASES: &[HintCase] = &[
    hint_case(&[], "agent-worker run ball.yaml"),
    hint_case(&[AT_HOP_LIMIT], "agent-worker resume @ball"),
    hint_case(&[AT_HOP_LIMIT], "agent-worker why @ball"),
    hint_case(&[AT_HOP_LIMIT], "agent-worker why ping@ball"),
    hint_case(&[AT_HOP_LIMIT], "agent-worker send ping@ball hello --wait"),
    hint_case(&[], "agent-worker run turns.yaml"),
    hint_case(&[AT_TURN_LIMIT], "agent-worker resume @turns"),
    hint_case(&[], "agent-worker run quick.yaml --detach"),
    hint_case(&[FINISHED_RUN], "agent-worker attach @quick"),
    hint_case(&[FINISHED_RUN], "agent-worker resume @quick"),
    hint_case(&[FINISHED_RUN], "agent-worker send @quick hello"),
    hint_case(&[FINISHED_RUN], "agent-worker why @quick"),
    hint_case(&[FINISHED_RUN], "agent-worker stop a@quick"),
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

/// Returns the commands that a text names: in backticks, or to the end of a clause.
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

/// Returns true if a command was understood and found its target; the outcome of the work does not matter.
fn is_accepted(said: &CommandOutput) -> bool {
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
    check_hints(FIRST_STEP_CASES);
}

#[test]
fn hints_about_teams_and_agents_are_taken() {
    check_hints(TEAM_CASES);
}

#[test]
fn hints_about_letters_documents_and_tokens_are_taken() {
    check_hints(DEAD_LETTER_CASES);
}

#[test]
fn hints_about_runs_that_wait_or_are_over_are_taken() {
    check_hints(LIMIT_CASES);
}

fn check_hints(situations: &[HintCase]) {
    let mut wrong = Vec::new();
    for situation in situations {
        let (world, said) = situation.reproduce();
        let hints = commands(&format!("{}\n{}", said.stdout, said.stderr));
        assert!(!hints.is_empty(), "`{}` hints at nothing: {said:?}", situation.line);
        // Each hint gets its own world, because one hint may undo the effect of another.
        let mut worlds = vec![world];
        for hint in hints {
            let world = worlds.pop().unwrap_or_else(|| situation.reproduce().0);
            let hint = hint.replace("FILE", "quick.yaml").replace("NAME", "owl");
            let said = shell(&world, &format!("timeout --signal INT 2 {hint}"));
            if !is_accepted(&said) {
                wrong.push(format!("{} → {hint} → {said:?}", situation.line));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

impl HintCase {
    /// Returns a world in this situation, and the output of its last line.
    fn reproduce(&self) -> (World, CommandOutput) {
        let world = world();
        for line in self.before {
            let said = shell(&world, line);
            assert_eq!(said.code, 0, "{line}: {said:?}");
        }
        let said = shell(&world, self.line);
        (world, said)
    }
}
