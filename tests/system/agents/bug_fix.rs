//! A team that corrects a defect in a small repository: one agent finds it, one corrects it and runs the tests, one reviews the
//! change. With three agents that have direct access to a model, and with Claude Code and Codex in their places.

use std::{fs, process::Command};

use serde_json::{Value, json};

use super::{
    first_files::{InstalledPrograms, send},
    testbed::Cli,
};

const WRONG: &str = "range(len(xs) - 1)";
const RIGHT: &str = "range(len(xs))";
const TESTS: &str = "import unittest\nfrom total import total\n\n\nclass TotalTest(unittest.TestCase):\n    \
    def test_all_are_added(self):\n        self.assertEqual(total([1, 2]), 3)\n";
/// Fails with the defect, and passes without it.
const RUN_TESTS: &str = "python3 -B -m unittest -q 2>&1";
const API: &str = "model: anthropic/claude-sonnet-5-5";

fn module(range: &str) -> String {
    format!("def total(xs):\n    return sum(xs[i] for i in {range})\n")
}

/// An agent of the team: its entry in the file, and the calls with which it does its part.
struct Part {
    entry: String,
    calls: Vec<(&'static str, Value)>,
}

impl Part {
    fn script(&self, rest: &str) -> String {
        let calls = self.calls.iter().map(|(tool, args)| format!("CALL {tool} {args}\n"));
        calls.collect::<Vec<_>>().concat() + rest
    }
}

/// Runs the team on a repository with the defect, and checks the difference, the tests and the report.
fn check_team(installed: &InstalledPrograms, finder: &Part, coder: &Part, reviewer: &Part) {
    let world = &installed.world;
    world.file("total.py", &module(WRONG));
    world.file("test_total.py", TESTS);
    world.file(".gitignore", "team.yaml\n.workflow/\n");
    world.git(&["init", "--quiet"]);
    world.git(&["add", "."]);
    world.git(&["commit", "--quiet", "--message", "one"]);
    assert!(!are_tests_green(installed), "the defect must be found by the tests");
    let report = json!({"content": "total() left out the last element.\n"});
    let report = format!("CALL document_write {report}\nECHO");
    let reviewer_script = reviewer.script(&report);
    let coder_script = coder.script(&format!("{}\nSAY Fixed.", send("reviewer", &reviewer_script)));
    let script = finder.script(&format!("{}\nSAY Found.", send("coder", &coder_script)));
    world.file(
        "team.yaml",
        &format!(
            "name: team\nagents:\n  finder: {}\n  coder: {}\n  reviewer: {}\nkickoff: {}\n",
            finder.entry,
            coder.entry,
            reviewer.entry,
            json!(format!("@finder total([1, 2]) is wrong\n{script}"))
        ),
    );
    let ended = installed.run(&["team.yaml"]);
    for agent in ["finder", "coder", "reviewer"] {
        assert_eq!(ended["agents"][agent]["turns"], 1, "{agent}: {ended}\n{}", world.log());
    }
    let changed = fs::read_to_string(world.project().join("total.py")).unwrap();
    assert_eq!(changed, module(RIGHT), "{ended}\n{}", world.log());
    assert_eq!(world.git(&["status", "--short"]), " M total.py\n");
    assert!(are_tests_green(installed));
    let read = world.run(&["doc", "read", "--target", "@team"]).stdout;
    assert_eq!(read, "total() left out the last element.\n");
    let history = world.run(&["export", "@team", "--full"]).stdout;
    assert!(history.contains("FAILED (failures=1)"), "the tests failed before: {history}");
    assert!(history.contains("+    return sum(xs[i] for i in range(len(xs)))"), "{history}");
}

fn are_tests_green(installed: &InstalledPrograms) -> bool {
    let mut bash = Command::new("bash");
    bash.args(["-c", RUN_TESTS]).current_dir(installed.world.project());
    bash.output().unwrap().status.success()
}

fn api_finder(model: &str) -> Part {
    let calls = vec![
        ("search_code", json!({"pattern": "def total"})),
        ("read_file", json!({"path": "total.py"})),
        ("bash", json!({"command": RUN_TESTS})),
    ];
    Part { entry: format!("{{ {model} }}"), calls }
}

fn api_coder(model: &str) -> Part {
    let edit = json!({"path": "total.py", "edits": [{"old_string": WRONG, "new_string": RIGHT}]});
    let calls = vec![
        ("read_file", json!({"path": "total.py"})),
        ("edit_file", edit),
        ("bash", json!({"command": RUN_TESTS})),
    ];
    Part { entry: format!("{{ {model} }}"), calls }
}

fn api_reviewer(model: &str) -> Part {
    let command = format!("git diff && {RUN_TESTS}");
    Part { entry: format!("{{ {model} }}"), calls: vec![("bash", json!({ "command": command }))] }
}

#[test]
fn three_agents_with_direct_access_to_models_correct_a_defect_and_its_tests_pass() {
    let installed = InstalledPrograms::open(&[], "agents with direct access to a model").unwrap();
    check_team(
        &installed,
        &api_finder(API),
        &api_coder("model: gpt-6-sol"),
        &api_reviewer("model: google/gemini-2.5-flash"),
    );
}

#[test]
fn claude_code_and_codex_correct_the_defect_that_an_agent_with_direct_access_found() {
    let Some(installed) =
        InstalledPrograms::open(&[Cli::Claude, Cli::Codex], "a mixed team that corrects a defect")
    else {
        return;
    };
    let path = installed.world.project().join("total.py");
    let coder = Part {
        entry: format!(
            "{{ backend: claude, permissions: {{ mode: acceptEdits, allow: [Read, {}] }} }}",
            json!(format!("Bash({RUN_TESTS})"))
        ),
        calls: vec![
            ("Read", json!({"file_path": path})),
            ("Edit", json!({"file_path": path, "old_string": WRONG, "new_string": RIGHT})),
            ("Bash", json!({"command": RUN_TESTS})),
        ],
    };
    let command = format!("git diff && {RUN_TESTS}");
    let reviewer = Part {
        entry: "{ backend: codex, model: gpt-5.1-codex, permissions: { default: deny } }"
            .to_owned(),
        calls: vec![("exec_command", json!({"cmd": command, "yield_time_ms": 30000}))],
    };
    check_team(&installed, &api_finder(API), &coder, &reviewer);
}
