//! The first files of `init` and the examples with real agents: Claude Code and Codex as published, found on the `PATH`,
//! against a scripted model. A parameter or a message contains the script.

use std::{fs, os::unix::fs::symlink, path::Path};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::testbed::Cli;
use crate::{
    ci::{ActionJob, folder_of_binary},
    model_server::ModelServer,
    world::{World, record_skip, wait_for},
};

/// A world in which programs are installed and have a key.
pub(super) struct InstalledPrograms {
    pub(super) world: World,
    _bin: TempDir,
    _models: ModelServer,
}

impl InstalledPrograms {
    /// Returns `None` if one of the programs is missing; the test is then counted as skipped.
    pub(super) fn open(clis: &[Cli], untried: &str) -> Option<Self> {
        let bin = tempfile::tempdir().unwrap();
        for cli in clis {
            let Some(command) = cli.command() else {
                record_skip(&format!("{untried} (needs {})", cli.name()));
                return None;
            };
            symlink(&command[0], bin.path().join(cli.name())).unwrap();
        }
        let models = ModelServer::start();
        let mut variables = models.variables();
        variables.push(("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", bin.path().display())));
        let variables: Vec<_> =
            variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        Some(Self { world: World::with(&variables), _bin: bin, _models: models })
    }

    /// Gives the agents of Codex in a file the model that the scripted server imitates: the program offers the tools of its
    /// default model in another form.
    fn select_model_of_codex(&self, file: &str) {
        let path = self.world.project().join(file);
        let text = fs::read_to_string(&path).unwrap();
        let model = "backend: codex\n    model: gpt-5.1-codex";
        fs::write(path, text.replace("backend: codex", model)).unwrap();
    }

    /// Copies an example into the project.
    fn example(&self, name: &str) -> String {
        let path = self.world.example(name);
        self.select_model_of_codex(name);
        path
    }

    /// Runs a file to its end, which must be `done`, and returns the report.
    pub(super) fn run(&self, words: &[&str]) -> Value {
        let (code, report) = self.world.envelope(&[&["run"], words, &["--json"]].concat());
        assert_eq!(
            (code, &report["outcome"]),
            (0, &json!("done")),
            "{report}\n{}",
            self.world.log()
        );
        report
    }
}

/// A line of a script that sends a message to an agent.
pub(super) fn send(to: &str, message: &str) -> String {
    format!("CALL channel_send {}", json!({"to": [to], "message": message}))
}

/// Writes the first file for the only installed program, and runs it.
fn check_first_file(cli: Cli, title: &str) {
    let Some(installed) = InstalledPrograms::open(&[cli], "the first file for a program") else {
        return;
    };
    let (world, name) = (&installed.world, cli.name());
    let made = world.run(&["init"]);
    let expected =
        format!("agents of {title}: it is installed\nhint: try it: agent-worker run team.yaml\n");
    assert_eq!((made.code, made.stdout, made.stderr), (0, "team.yaml\n".to_owned(), expected));
    let valid = world.run(&["validate", "team.yaml"]);
    let expected = format!(
        "valid: team (2 agents)\n  writer    {name}\n  reviewer  {name}\n  \
         --topic VALUE  What to look at [default: the README]\n"
    );
    assert_eq!((valid.stdout, valid.stderr), (expected, String::new()));
    installed.select_model_of_codex("team.yaml");
    let check = send("reviewer", "Please check.\nSAY It is right");
    let topic = format!(
        "the tests\nCALL document_append {{\"content\":\"- a fact\\n\"}}\n{check}\nSAY Written"
    );
    let report = installed.run(&["team.yaml", "--topic", &topic]);
    let answers = ["writer", "reviewer"].map(|agent| &report["answers"][agent]["text"]);
    assert_eq!(answers, [&json!("Written."), &json!("It is right")], "{report}");
    assert_eq!(world.run(&["doc", "read"]).stdout, "- a fact\n");
}

#[test]
fn the_first_file_for_claude_code_runs_as_it_is() {
    check_first_file(Cli::Claude, "Claude Code");
}

#[test]
fn the_first_file_for_codex_runs_as_it_is() {
    check_first_file(Cli::Codex, "Codex");
}

/// Creates a repository with one commit, which is also `origin/main`, and a change.
fn change_a_file(world: &World) {
    world.file("main.txt", "one\n");
    world.git(&["init", "--quiet"]);
    world.git(&["add", "main.txt"]);
    world.git(&["commit", "--quiet", "--message", "one"]);
    world.git(&["update-ref", "refs/remotes/origin/main", "HEAD"]);
    world.file("main.txt", "two\n");
}

#[test]
fn the_example_of_a_review_gives_the_diff_to_both_reviewers_and_their_findings_to_the_lead() {
    let clis = [Cli::Claude, Cli::Codex];
    let Some(installed) = InstalledPrograms::open(&clis, "the example of a review") else { return };
    change_a_file(&installed.world);
    let finish = "CALL run_finish {\"outcome\":\"failed\",\"summary\":\"A defect.\"}";
    let finding = format!(
        "A finding.\nCALL document_append {{\"content\":\"- it\\n\"}}\n{finish}\nSAY Merged."
    );
    let focus = format!("this\n{}\nSAY Reported.", send("lead", &finding));
    let file = installed.example("review-diff.yaml");
    let (code, report) = installed.world.envelope(&["run", &file, "--focus", &focus, "--json"]);
    assert_eq!(code, 1, "the verdict of the lead: {report}\n{}", installed.world.log());
    assert_eq!(report["verdict"]["summary"], "A defect.", "{report}");
    for agent in ["claude", "codex"] {
        assert_eq!(report["answers"][agent]["text"], "Reported.", "{report}");
    }
    let review = installed.world.run(&["doc", "read", "review.md"]).stdout;
    assert!(review.starts_with("- it\n"), "{review}");
    let read = installed.world.run(&["export", "@review-diff", "--format", "md"]).stdout;
    assert!(read.contains("-one\n") && read.contains("+two\n"), "{read}");
}

#[test]
fn the_review_preset_gives_the_diff_to_two_agents_and_their_reports_to_the_lead() {
    let Some(installed) = InstalledPrograms::open(&[Cli::Claude], "the preset of a review") else {
        return;
    };
    change_a_file(&installed.world);
    let made = installed.world.run(&["init", "--review"]);
    assert_eq!((made.code, made.stdout.as_str()), (0, "review.yaml\n"), "{made:?}");
    let report = installed.run(&["review.yaml"]);
    for (agent, turns) in [("defects", 1), ("tests", 1), ("lead", 0)] {
        assert_eq!(report["agents"][agent]["turns"], turns, "{agent}: {report}");
    }
    let read = installed.world.run(&["export", "@review", "--format", "md"]).stdout;
    assert!(read.contains("-one\n") && read.contains("+two\n"), "{read}");
}

#[test]
fn the_example_of_a_github_job_reviews_a_pull_request_with_the_preset_for_ci() {
    let Some(claude) = Cli::Claude.command() else {
        record_skip("the example of a GitHub job (needs claude)");
        return;
    };
    let (bin, models) = (tempfile::tempdir().unwrap(), ModelServer::start());
    symlink(&claude[0], bin.path().join("claude")).unwrap();
    let variables = models.variables();
    let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let job = ActionJob::with(&variables);
    change_a_file(&job.world);
    job.world.git(&["commit", "--quiet", "--all", "--message", "two"]);
    fs::create_dir(job.world.project().join(".github")).unwrap();
    let made = job.world.run(&["init", "--ci", ".github/review.yaml"]);
    assert_eq!(made.code, 0, "{made:?}");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/github-actions.yml");
    let example: Value = serde_saphyr::from_str(&fs::read_to_string(example).unwrap()).unwrap();
    let steps = example["jobs"]["review"]["steps"].as_array().unwrap();
    let is_ours = |step: &&Value| step["uses"] == "OWNER/agent-worker@COMMIT";
    let step = steps.iter().find(is_ours).unwrap();
    assert!(step["env"]["ANTHROPIC_API_KEY"].is_string(), "{step}");
    let inputs = step["with"].as_object().unwrap().iter();
    // The program is on the `PATH` of this machine already.
    let inputs = inputs.filter(|(name, _)| *name != "releases").map(|(name, value)| {
        (name.as_str(), value.as_str().unwrap().replace("${{ github.base_ref }}", "main"))
    });
    let inputs: Vec<_> = inputs.collect();
    let inputs: Vec<_> = inputs.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let path = format!("{}:{}", bin.path().display(), folder_of_binary());
    let said = job.run(&inputs, &path);
    assert_eq!((said.code, job.output("outcome").as_deref()), (0, Some("done")), "{said:?}");
    let transcript = fs::read_to_string(job.output("transcript").unwrap()).unwrap();
    assert!(transcript.contains("-one\n") && transcript.contains("+two\n"), "{transcript}");
    assert_eq!(job.world.processes(), []);
}

/// Starts a standing team, and lets the secretary hand over a task.
fn check_office(installed: &InstalledPrograms, file: &str) {
    let world = &installed.world;
    let up = world.run(&["up", file]);
    assert_eq!(up.code, 0, "{up:?}");
    let task = send(
        "analyst",
        "Please look.\nCALL document_append {\"content\":\"- found\\n\"}\nSAY Found.",
    );
    let asked = world.run(&["ask", "secretary@office", &format!("{task}\nSAY Handed over.")]);
    assert_eq!(
        (asked.code, asked.stdout.as_str()),
        (0, "Handed over.\n"),
        "{asked:?}\n{}",
        world.log()
    );
    let list = wait_for("the analyst's line", || {
        let list = world.run(&["doc", "read", "tasks.md", "@office"]).stdout;
        (!list.is_empty()).then_some(list)
    });
    assert_eq!(list, "- found\n");
    assert_eq!(world.run(&["down", "--all"]).code, 0);
}

#[test]
fn the_example_of_an_office_stays_and_works_on_requests() {
    let clis = [Cli::Claude, Cli::Codex];
    let Some(installed) = InstalledPrograms::open(&clis, "the example of an office") else {
        return;
    };
    let file = installed.example("office.yaml");
    check_office(&installed, &file);
}

#[test]
fn the_office_preset_stays_and_works_on_requests() {
    let Some(installed) = InstalledPrograms::open(&[Cli::Codex], "the preset of an office") else {
        return;
    };
    let made = installed.world.json(&["init", "--office", "--json"]);
    assert_eq!((&made["preset"], &made["backend"]), (&json!("office"), &json!("codex")), "{made}");
    installed.select_model_of_codex("office.yaml");
    check_office(&installed, "office.yaml");
}

#[test]
fn in_the_example_of_a_pair_only_a_change_that_passes_the_tests_is_reviewed() {
    let clis = [Cli::Claude, Cli::Codex];
    let Some(installed) = InstalledPrograms::open(&clis, "the example of a pair") else { return };
    installed.world.file("Makefile", "test:\n\ttest -e done.txt\n");
    let file = installed.example("pair.yaml");
    let turns = |report: &Value| {
        ["coder", "tester", "reviewer"].map(|agent| report["agents"][agent]["turns"].as_u64())
    };
    let untested = format!("it\n{}\nSAY Changed.", send("tester", "Done."));
    let report = installed.run(&[&file, "--task", &untested]);
    assert_eq!(turns(&report), [Some(2), Some(1), Some(0)], "the coder gets the failure: {report}");
    let path = installed.world.project().join("done.txt");
    let write = json!({"file_path": path, "content": "x"});
    let task = format!("it\nCALL Write {write}\n{}\nSAY Changed.", send("tester", "Done."));
    let report = installed.run(&[&file, "--task", &task]);
    assert_eq!(turns(&report), [Some(1), Some(1), Some(1)], "{report}");
    assert_eq!(fs::read_to_string(path).unwrap(), "x");
}
