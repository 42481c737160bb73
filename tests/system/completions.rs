//! Completion in real shells: commands, targets, numbers, parameters and files, without starting a daemon.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    shell_transcript::shell,
    world::{CommandOutput, World, is_on_path, record_skip},
};

const TEAM: &str = "name: review
params: [{ name: depth, default: quick }]
agents:
  owl: { backend: mock, mock: [{ say: Hoo. }] }
";

fn succeed(world: &World, words: &[&str]) {
    let said = world.run(words);
    assert_eq!(said.code, 0, "{words:?}: {said:?}");
}

/// Returns the words that `complete` prints, without their descriptions.
fn words(world: &World, shell: &str, line: &str) -> Vec<String> {
    let said = world.run(&["complete", shell, line]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{line}: {said:?}");
    let lines = said.stdout.lines();
    lines.map(|line| line.split('\t').next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn what_exists_is_completed_and_no_daemon_is_started_for_it() {
    let world = World::new();
    world.file("review.yaml", TEAM);
    assert_eq!(words(&world, "fish", "agent-worker stat"), ["status", "stats"]);
    assert!(words(&world, "fish", "agent-worker status ").is_empty());
    assert_eq!(world.daemon_pid(), None, "completing starts no daemon");
    succeed(&world, &["up", "review.yaml", "--tag", "pr-1"]);
    succeed(&world, &["send", "owl@review:pr-1", "hello", "--wait"]);
    succeed(&world, &["doc", "append", "notes.md", "x"]);
    succeed(&world, &["tool", "mock", "owl@review:pr-1", "deploy", "ok", "--description", "D"]);
    for (shell, line, expected) in [
        ("fish", "agent-worker status @", &["@review:pr-1"][..]),
        ("fish", "agent-worker status --target=owl@", &["--target=owl@review:pr-1"]),
        ("bash", "agent-worker status owl@re", &["review:pr-1"]),
        ("bash", "agent-worker status @review:", &["pr-1"]),
        ("zsh", "agent-worker run review.yaml --de", &["--depth", "--detach"]),
        ("fish", "agent-worker run --tag p", &["pr-1"]),
        ("fish", "agent-worker doc read n", &["notes.md"]),
        ("fish", "agent-worker validate rev", &["review.yaml"]),
        ("fish", "agent-worker tool list rev", &["review.yaml"]),
        ("fish", "agent-worker tool list owl", &["owl@review:pr-1"]),
        ("fish", "agent-worker tool mock owl", &["owl@review:pr-1"]),
        ("fish", "agent-worker tool mock owl@review:pr-1 d", &["deploy"]),
        ("fish", "agent-worker completions f", &["fish"]),
        ("fish", "agent-worker receipts ", &["2", "1"]),
        ("fish", "agent-worker status 'unclosed", &[]),
        ("fish", "agent-worker nonsense ", &[]),
    ] {
        let mut found = words(&world, shell, line);
        if line.ends_with("--de") {
            found.sort();
        }
        assert_eq!(found, expected, "{line}");
    }
}

/// Runs a script in a shell with the program on its path.
fn run_in(world: &World, program: &str, script: &str) -> CommandOutput {
    fs::write(world.project().join("script"), script).unwrap();
    shell(world, &format!("{program} ./script"))
}

#[test]
fn the_shells_offer_what_the_program_prints() {
    let world = World::new();
    world.file("review.yaml", TEAM);
    succeed(&world, &["up", "review.yaml"]);
    let bash = "source <(agent-worker completions bash)
        complete -p agent-worker
        COMP_LINE='agent-worker status owl@' COMP_POINT=24
        _agent_worker agent-worker; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let said = run_in(&world, "bash", bash);
    assert_eq!(said.stdout, "complete -F _agent_worker agent-worker\nreview\n", "{said:?}");
    for program in ["zsh", "fish"] {
        if !is_on_path(program) {
            record_skip(&format!("completion in {program} (needs {program})"));
            continue;
        }
        // fish has a command for this; zsh's `compadd` works in its editor alone.
        let script = match program {
            "fish" => {
                "agent-worker completions fish | source\ncomplete -C 'agent-worker status owl@'"
            }
            _ => {
                "compdef() { : }\nsource <(agent-worker completions zsh)\n\
                 compadd() { print -l -- $values }\n\
                 words=(agent-worker status owl@) CURRENT=3 PREFIX=owl@\n_agent-worker"
            }
        };
        let said = run_in(&world, program, script);
        let first = said.stdout.split_whitespace().next();
        assert_eq!(first, Some("owl@review"), "{program}: {said:?}");
    }
    let parsed = Command::new("bash").args(["-n"]).arg(script_path("agent-worker.bash")).status();
    assert!(parsed.unwrap().success());
}

fn script_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/cli/src/commands/completions").join(name)
}
