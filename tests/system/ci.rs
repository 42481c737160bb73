//! CI services: a terminal without keys and colours, and the annotations, the summary and the action for GitHub.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde::Deserialize;
use serde_json::Value;

use crate::{
    terminal::Terminal,
    world::{CommandOutput, World, record_skip},
};

const GITHUB: [(&str, &str); 2] = [("GITHUB_ACTIONS", "true"), ("CI", "true")];

/// Text of an agent that tries every form of a workflow command.
const HOSTILE: &str = "::set-output name=a::b\n \u{a0}::add-mask::secret\n::stop-commands::x\n::error::forged\n\
                       see ##[group]here\n::set-env name=PATH::/evil\n<!-- hidden";

/// A team whose agent says the hostile text, and is stopped by a limit or not.
fn hostile_team() -> String {
    let say = serde_json::to_string(HOSTILE).unwrap();
    format!(
        "name: team\nagents:\n  coder: {{ backend: mock, mock: [{{ say: {say} }}] }}\nkickoff: '@coder go'\n"
    )
}

/// Returns the workflow commands that the runner of GitHub finds in an output.
fn workflow_commands(output: &str) -> Vec<&str> {
    let lines = output.split(['\n', '\r']);
    lines.filter(|line| line.trim_start().starts_with("::") || line.contains("##[")).collect()
}

fn github_world() -> (World, PathBuf) {
    let world = World::with(&GITHUB);
    let summary = world.project().join("summary.md");
    (world, summary)
}

/// Runs a command in a step of a GitHub job whose checkout is the project.
fn run_in_job(world: &World, words: &[&str]) -> CommandOutput {
    let mut command = world.command(words);
    command
        .env("GITHUB_WORKSPACE", world.project())
        .env("GITHUB_STEP_SUMMARY", world.project().join("summary.md"));
    CommandOutput::from(command.output().unwrap())
}

#[test]
fn text_of_an_agent_is_never_a_workflow_command() {
    let (world, _) = github_world();
    world.file("team.yaml", &hostile_team());
    for words in [
        &["run", "team.yaml"][..],
        &["run", "team.yaml", "--verbose"],
        &["run", "team.yaml", "--json"],
        &["peek", "@team"],
        &["peek", "@team", "--json"],
        &["export", "@team", "--format", "md"],
        &["export", "@team"],
        &["status", "coder@team"],
        &["send", "@team", "::error::typed"],
        &["::set-output name=a::b"],
    ] {
        let said = run_in_job(&world, words);
        assert_eq!(workflow_commands(&said.stdout), Vec::<&str>::new(), "{words:?}: {said:?}");
        let commands = workflow_commands(&said.stderr);
        assert!(
            commands.iter().all(|it| it.starts_with("::error title=agent-worker::")),
            "{said:?}"
        );
        if words.contains(&"--json") {
            let document: Value = serde_json::from_str(&said.stdout).unwrap();
            assert!(document.to_string().contains("see ##[group]here"), "{words:?}: {document}");
        }
    }
    let ran = world.run(&["peek", "@team"]);
    assert!(ran.stdout.contains(":\\:set-output name=a::b"), "a reader sees the text: {ran:?}");
    assert!(ran.stdout.contains("see ##\\[group]here"), "{ran:?}");
}

#[test]
fn streamed_words_are_never_a_workflow_command() {
    let (world, _) = github_world();
    let say = format!("--say={HOSTILE}");
    assert_eq!(world.run(&["new", "coder", "-b", "mock", &say]).code, 0);
    let said = run_in_job(&world, &["ask", "coder", "go"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.stdout.contains("set-output"), "{said:?}");
    assert_eq!(workflow_commands(&said.stdout), Vec::<&str>::new(), "{said:?}");
}

#[test]
fn a_file_gets_the_text_unchanged() {
    let (world, _) = github_world();
    world.file("team.yaml", &hostile_team());
    assert_eq!(run_in_job(&world, &["run", "team.yaml"]).code, 0);
    let path = world.project().join("transcript.md");
    let mut command = world.command(&["export", "@team", "--format", "md"]);
    let status = command.stdout(fs::File::create(&path).unwrap()).status().unwrap();
    assert!(status.success());
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains("::set-output name=a::b") && !text.contains("\\:"), "{text}");
}

#[test]
fn a_run_that_is_done_adds_its_answers_to_the_summary() {
    let (world, summary) = github_world();
    world.file("team.yaml", &hostile_team());
    fs::write(&summary, "before\n").unwrap();
    let said = run_in_job(&world, &["run", "team.yaml"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(workflow_commands(&said.stderr), Vec::<&str>::new(), "{said:?}");
    let page = fs::read_to_string(&summary).unwrap();
    assert!(page.starts_with("before\n### ✅ team: done\n"), "{page}");
    assert!(page.contains("| coder | 1 | "), "{page}");
    assert!(page.contains("\n> ::set-output name=a::b\n"), "{page}");
    assert!(page.contains("\n> &lt;!-- hidden\n"), "{page}");
}

#[test]
fn a_failed_run_is_annotated_and_summarized() {
    let (world, summary) = github_world();
    world.file(
        "team.yaml",
        "name: team\nagents: { coder: { mock: [] } }\nsetup: [{ shell: 'echo ::error::forged >&2; exit 3' }]\nkickoff: '@coder go'\n",
    );
    for words in [&["run", "team.yaml"][..], &["run", "team.yaml", "--json"]] {
        let said = run_in_job(&world, words);
        assert_eq!(said.code, 1, "{said:?}");
        let commands = workflow_commands(&said.stderr);
        let head = "::error file=team.yaml,title=agent-worker%3A team failed::";
        assert!(!commands.is_empty(), "{said:?}");
        assert!(commands.iter().all(|it| it.starts_with(head)), "{commands:?}");
        assert_eq!(workflow_commands(&said.stdout), Vec::<&str>::new());
    }
    let page = fs::read_to_string(&summary).unwrap();
    assert_eq!(page.matches("### ❌ team: failed\n").count(), 2, "{page}");
}

#[test]
fn mistakes_of_a_file_are_annotated_at_their_lines() {
    let (world, summary) = github_world();
    world.file("bad,file.yaml", "name: team\nagents:\n  coder: { backend: mok }\nkickof: hello\n");
    for words in [
        &["run", "bad,file.yaml"][..],
        &["run", "bad,file.yaml", "--json"],
        &["validate", "bad,file.yaml"],
    ] {
        let said = run_in_job(&world, words);
        assert_eq!(said.code, 2, "{said:?}");
        let commands = workflow_commands(&said.stderr);
        assert_eq!(commands.len(), 2, "{words:?}: {commands:#?}");
        for (line, command) in [3, 4].iter().zip(&commands) {
            let head = format!("::error file=bad%2Cfile.yaml,line={line},col=");
            assert!(command.starts_with(&head), "{command}");
        }
    }
    assert!(!summary.exists(), "nothing ran");
}

#[test]
fn without_a_github_job_nothing_is_annotated() {
    let world = World::new();
    world.file("team.yaml", &hostile_team());
    let said = run_in_job(&world, &["run", "team.yaml"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(!world.project().join("summary.md").exists());
    assert!(said.stdout.contains("::set-output"), "{said:?}");
    let said = run_in_job(&world, &["run", "missing.yaml"]);
    assert_eq!(workflow_commands(&said.stderr), Vec::<&str>::new(), "{said:?}");
}

#[test]
fn ci_prints_plain_lines_on_a_terminal_and_reads_no_key() {
    for (env, words) in [
        (&[][..], "run team.yaml --ci"),
        (&[], "run --ci team.yaml"),
        (&[("CI", "true")], "run team.yaml"),
    ] {
        let world = World::with(env);
        world.file(
            "team.yaml",
            "name: team\nagents:\n  coder: { mock: [{ calls: [{ tool: ask_human, args: { question: 'Really?' } }] }] }\nkickoff: '@coder go'\n",
        );
        let (status, shown) = Terminal::open(&world, 80, words).wait_exit();
        // A person at a terminal could answer; a CI service has none, so that the run pauses.
        assert_eq!(status.code(), Some(4), "{words}: {shown}");
        assert!(!shown.contains('\u{1b}'), "{words}: {shown:?}");
        assert!(shown.contains("Really?"), "{words}: {shown}");
    }
    let world = World::with(&[("CI", "false")]);
    world.file("team.yaml", &hostile_team());
    let (_, shown) = Terminal::open(&world, 80, "run team.yaml").wait_exit();
    assert!(shown.contains('\u{1b}'), "{shown:?}");
}

/// The parts of `action.yml` that a runner carries out.
#[derive(Deserialize)]
struct Action {
    inputs: BTreeMap<String, ActionInput>,
    outputs: BTreeMap<String, ActionOutput>,
    runs: ActionRuns,
}

#[derive(Deserialize)]
struct ActionInput {
    #[serde(default)]
    default: String,
}

#[derive(Deserialize)]
struct ActionOutput {
    value: String,
}

#[derive(Deserialize)]
struct ActionRuns {
    steps: Vec<ActionStep>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct ActionStep {
    run: String,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    working_directory: Option<String>,
}

/// The folders of a job of the action.
pub(crate) struct ActionJob {
    pub(crate) world: World,
    temp: PathBuf,
}

impl ActionJob {
    fn new() -> Self {
        Self::with(&[])
    }

    /// Creates a job with additional variables, such as a key.
    pub(crate) fn with(env: &[(&str, &str)]) -> Self {
        let world = World::with(&[&GITHUB[..], env].concat());
        let temp = world.project().join("temp");
        fs::create_dir(&temp).unwrap();
        Self { world, temp }
    }

    /// Carries out the action as the runner does: replaces expressions, and runs each step with `bash`.
    pub(crate) fn run(&self, inputs: &[(&str, &str)], path: &str) -> CommandOutput {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let action: Action =
            serde_saphyr::from_str(&fs::read_to_string(root.join("action.yml")).unwrap()).unwrap();
        for (name, output) in &action.outputs {
            assert_eq!(output.value, format!("${{{{ steps.run.outputs.{name} }}}}"));
        }
        let mut values: BTreeMap<String, String> = action
            .inputs
            .iter()
            .map(|(name, input)| (format!("inputs.{name}"), input.default.clone()))
            .collect();
        for (name, value) in inputs {
            assert!(
                values.insert(format!("inputs.{name}"), (*value).to_owned()).is_some(),
                "{name}"
            );
        }
        values.insert("github.action_path".to_owned(), root.to_string_lossy().into_owned());
        let filled = |text: &str| {
            values.iter().fold(text.to_owned(), |text, (name, value)| {
                text.replace(&format!("${{{{ {name} }}}}"), value)
            })
        };
        let mut last = None;
        for step in &action.runs.steps {
            assert!(!step.run.contains("${{"), "a value in a script would be code: {}", step.run);
            let folder = step.working_directory.as_deref().map_or_else(|| ".".to_owned(), filled);
            let mut command = self.world.command_of(Path::new("bash"), &[]);
            command
                .args(["--noprofile", "--norc", "-eo", "pipefail", "-c", &step.run])
                .current_dir(self.world.project().join(folder))
                .env("PATH", format!("{path}:/usr/local/bin:/usr/bin:/bin"))
                .env("RUNNER_TEMP", &self.temp)
                .env("GITHUB_WORKSPACE", self.world.project())
                .env("GITHUB_STEP_SUMMARY", self.temp.join("summary.md"))
                .env("GITHUB_OUTPUT", self.temp.join("output"))
                .env("GITHUB_PATH", self.temp.join("path"))
                .envs(step.env.iter().map(|(name, value)| (name, filled(value))))
                .stdin(Stdio::null());
            let said = CommandOutput::from(command.output().unwrap());
            let failed = said.code != 0;
            last = Some(said);
            if failed {
                break;
            }
        }
        last.unwrap()
    }

    pub(crate) fn output(&self, name: &str) -> Option<String> {
        let text = fs::read_to_string(self.temp.join("output")).ok()?;
        let prefix = format!("{name}=");
        text.lines().find_map(|line| line.strip_prefix(&prefix)).map(str::to_owned)
    }
}

pub(crate) fn folder_of_binary() -> String {
    let binary = Path::new(env!("CARGO_BIN_EXE_agent-worker"));
    binary.parent().unwrap().to_string_lossy().into_owned()
}

#[test]
fn the_action_runs_a_team_and_leaves_a_report_a_transcript_and_no_process() {
    let job = ActionJob::new();
    fs::create_dir(job.world.project().join("sub")).unwrap();
    let team = "name: team\nparams: [{ name: what, required: true }]\nagents: { coder: { mock: [{ say: Done. }] } }\n\
                kickoff: '@coder do ${{ params.what }}'\n";
    job.world.file("sub/team.yaml", team);
    let inputs = [
        ("file", "sub/team.yaml"),
        ("arguments", "--what\n$(touch injected) a b\n"),
        ("tag", "pr-1"),
    ];
    let said = job.run(&inputs, &folder_of_binary());
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(job.output("outcome").as_deref(), Some("done"));
    let report = fs::read_to_string(job.output("report").unwrap()).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!((&report["outcome"], &report["tag"]), (&"done".into(), &"pr-1".into()));
    let transcript = fs::read_to_string(job.output("transcript").unwrap()).unwrap();
    assert!(transcript.contains("@coder do $(touch injected) a b"), "{transcript}");
    assert!(!job.world.project().join("injected").exists());
    let summary = fs::read_to_string(job.temp.join("summary.md")).unwrap();
    assert!(summary.contains("> Done."), "{summary}");
    assert_eq!(job.world.processes(), []);
}

#[test]
fn the_action_fails_with_the_run_and_names_its_outcome() {
    let job = ActionJob::new();
    job.world.file("team.yaml", "name: team\nagents: { coder: { mock: [] } }\nsetup: [{ shell: exit 3 }]\nkickoff: '@coder go'\n");
    let said = job.run(&[("file", "team.yaml")], &folder_of_binary());
    assert_eq!(said.code, 1, "{said:?}");
    assert_eq!(job.output("outcome").as_deref(), Some("failed"));
    let job = ActionJob::new();
    let said = job.run(&[("file", "missing.yaml")], &folder_of_binary());
    assert_eq!((said.code, job.output("outcome").as_deref()), (2, Some("invalid")), "{said:?}");
    assert_eq!(job.output("transcript"), None);
    assert_eq!(job.world.processes(), []);
}

#[test]
fn the_action_says_that_the_program_is_missing() {
    let job = ActionJob::new();
    let said = job.run(&[("file", "team.yaml")], "/nowhere");
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.stderr.contains("::error title=agent-worker::"), "{said:?}");
}

#[test]
fn the_shipped_shell_scripts_have_no_finding_of_shellcheck() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    if Command::new("shellcheck").arg("--version").output().is_err() {
        record_skip("shellcheck is not installed");
        return;
    }
    let mut files = vec![root.join("install.sh")];
    for entry in fs::read_dir(root.join("scripts")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        if text.lines().next().is_some_and(|line| line.ends_with("sh")) {
            files.push(path);
        }
    }
    assert!(files.len() > 5, "{files:?}");
    let said = Command::new("shellcheck").args(files).output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stdout));
}
