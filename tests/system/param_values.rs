//! Parameters of the command line, of files and of stdin, from the real binary to a setup command.

use std::{fs, io::Write as _, process::Stdio};

use crate::world::{World, http_request};

const TEAM: &str = "name: team
params:
  - { name: target, required: true, short: t }
  - { name: diff, type: file }
  - { name: dry, type: boolean }
  - { name: depth, type: choice, choices: [quick, deep], default: quick }
  - { name: plan, type: json }
agents: { a: { mock: [{ say: Done. }] } }
setup:
  - shell: |
      printf '%s' ${{ params.target }} >seen-target
      printf '%s' ${{ params.diff }} >seen-diff
      cat ${{ params.diff.file }} >seen-file
      printf '%s|%s|%s' ${{ params.dry }} ${{ params.depth }} ${{ params.plan }} >seen-others
kickoff: '@a go'
";

/// Text that would do something in a shell, in YAML, in a template and in a terminal.
const HOSTILE: &str =
    "$(touch pwned) `touch pwned`; touch pwned\n'\"\\ ${{ env.HOME }} @all\n\u{1b}[2J*\n\n";

fn seen(world: &World, name: &str) -> String {
    fs::read_to_string(world.project().join(name)).unwrap()
}

#[test]
fn values_of_files_and_stdin_arrive_byte_for_byte_and_none_is_code() {
    let world = World::new();
    fs::create_dir(world.project().join("flow")).unwrap();
    world.file("flow/workflow.yaml", TEAM);
    world.file("a.diff", HOSTILE);
    let words =
        ["run", "flow", "-t", HOSTILE, "--diff", "a.diff", "--dry", "--plan", "[1, \"`id`\"]"];
    let said = world.run(&words);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(seen(&world, "seen-target"), HOSTILE);
    assert_eq!(seen(&world, "seen-diff"), HOSTILE);
    assert_eq!(seen(&world, "seen-file"), HOSTILE);
    assert_eq!(seen(&world, "seen-others"), "true|quick|[1, \"`id`\"]");

    let big = HOSTILE.repeat(300 * 1024 / HOSTILE.len());
    let mut child = world
        .command(&["run", "flow/workflow.yaml", "--target", "-", "--depth=deep"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(big.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(seen(&world, "seen-target") == big);
    assert_eq!(seen(&world, "seen-others"), "false|deep|null");
    assert!(!world.project().join("pwned").exists());
}

#[test]
fn a_file_of_values_gives_what_the_command_line_does_not() {
    let world = World::new();
    let file = world.file("team.yaml", TEAM);
    let file = file.to_str().unwrap();
    world.file("values.yaml", "target: from file\ndry: true\nplan: { steps: [1] }\n");
    let said = world.run(&["run", "--params-file", "values.yaml", file, "--depth", "deep"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(seen(&world, "seen-target"), "from file");
    assert_eq!(seen(&world, "seen-others"), "true|deep|{\"steps\":[1]}");
    world.file("values.json", "{\"taget\": 1, \"dry\": \"maybe\"}");
    let said = world.run(&["run", file, "--params-file", "values.json", "-t", "x"]);
    assert_eq!(said.code, 2, "{said:?}");
    for part in
        ["values.json:1:2", "no parameter `taget`", "did you mean `target`?", "`dry` must be"]
    {
        assert!(said.stderr.contains(part), "{part}: {said:?}");
    }
    let said =
        world.run(&["run", file, "--params-file", "values.yaml", "--target", "x", "--plan", "{"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.stderr.contains("the value of `params.plan` must be JSON"), "{said:?}");
}

#[test]
fn the_parameters_of_a_file_are_listed_with_their_types() {
    let world = World::new();
    let file = world.file("team.yaml", TEAM);
    let help = world.run(&["run", file.to_str().unwrap(), "--help"]);
    for part in
        ["-t, --target <VALUE>", "--diff <FILE>", "[possible values: quick, deep]", "--plan <JSON>"]
    {
        assert!(help.stdout.contains(part), "{part}: {help:?}");
    }
    let valid = world.run(&["validate", file.to_str().unwrap()]);
    for part in ["-t, --target VALUE", "--depth CHOICE", "--dry "] {
        assert!(valid.stdout.contains(part), "{part}: {valid:?}");
    }
}

#[test]
fn a_workflow_comes_from_stdin_and_its_paths_begin_at_the_current_folder() {
    let world = World::new();
    world.file("prompt.md", "You are a reviewer.");
    let team = TEAM.replace("mock: [", "system_prompt: prompt.md, mock: [");
    let pipe = |words: &[&str], text: &str| {
        let mut command = world.command(words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = pipe(&["run", "-", "--target", HOSTILE], &team);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(seen(&world, "seen-target"), HOSTILE);
    let (code, said) = pipe(&["validate", "-"], &team.replace("kickoff", "kickof"));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("unknown key `kickof`") && said.contains("/-:15:1"), "{said}");
    let (code, said) = pipe(&["run", "-", "--target", "-"], &team);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("the workflow and `--target` both read stdin"), "{said}");
    let restart = world.run(&["restart", "@team"]);
    assert_ne!(restart.code, 0);
    assert!(restart.stderr.contains("the workflow of @team came from stdin"), "{restart:?}");
}

#[test]
fn a_client_may_not_send_the_text_of_a_workflow() {
    let world = World::new();
    let file = world.file("team.yaml", TEAM);
    assert_eq!(world.run(&["daemon", "start"]).code, 0);
    let token = world.token("ci", &["--allow", "run", "--allow", "read"]);
    let send = |source: &str| {
        let (file, cwd) = (file.display(), world.project());
        let cwd = cwd.display();
        let body =
            format!(r#"{{"file":"{file}","cwd":"{cwd}",{source}"params":{{"target":"x"}}}}"#);
        http_request(&world.address(), &token, "POST", "/runs", &body)
    };
    let (status, answer) = send(r#""source":"name: team\nagents: { a: { backend: mock } }","#);
    assert_eq!(status, 403, "{answer}");
    assert!(answer.contains("only the user may run a workflow that is not in a file"), "{answer}");
    let (status, answer) = send("");
    assert!(status < 300, "{status} {answer}");
}
