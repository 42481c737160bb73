//! The input of a program of the `command` backend, and the effect of each kind of line that it writes.

use std::{fs, os::unix::fs::PermissionsExt as _};

use serde_json::{Value, json};

use super::tape::Tape;

/// Stores its input, and writes a line of each kind.
const PROGRAM: &str = r#"#!/bin/bash
n=$(ls task.* 2>/dev/null | wc -l)
cat > task.$n
env | grep -o '^AGENT_WORKER_[A-Z_]*' | sort > env.$n
echo '{"kind":"text","text":"Thinking."}'
echo '{"kind":"usage","input_tokens":3,"output_tokens":5,"cost_micros":7}'
echo '{"kind":"session","session":{"id":"s1"}}'
echo '{"kind":"retry","why":"busy"}'
grep -q 'fail now' task.$n && echo '{"kind":"finished","outcome":"failed","class":"fatal","why":"told to"}' && exit 1
echo '{"kind":"finished","text":"Finished."}'
"#;

#[test]
fn a_program_is_given_and_understood_what_it_was() {
    let mut tape = Tape::new("goldens/programs");
    let program = tape.world.file("program.sh", PROGRAM);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let team = format!(
        "name: programs\nagents:\n  clerk:\n    backend: command\n    command: {}\n    system_prompt: You file things.\n    \
         retry: {{ max_attempts: 1 }}\n",
        program.display()
    );
    tape.start("programs.yaml", &team);
    tape.cli("send clerk@programs 'file this' --wait");
    tape.cli("send clerk@programs 'and this' --wait");
    tape.cli("send clerk@programs 'fail now' --wait");
    for n in 0..3 {
        let read =
            |name: &str| fs::read_to_string(tape.world.project().join(format!("{name}.{n}")));
        let (task, env) = (read("task").unwrap(), read("env").unwrap());
        let task: Value = serde_json::from_str(&task).unwrap();
        let env: Vec<&str> = env.lines().collect();
        tape.note(
            &format!("stdin and environment {n}"),
            &json!({ "stdin": task, "environment": env }),
        );
    }
    tape.cli("stats @programs");
    tape.cli("status clerk@programs");
    tape.cli("logs clerk@programs");
    tape.events("@programs");
    tape.finish();
}
