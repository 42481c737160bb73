//! Hostile values in procedures: every place that takes a value gets its exact bytes, and nothing of it is executed.

use std::{fmt::Write as _, fs};

use serde_json::{Value, json};

use super::worlds::{task_rows, yaml_text};
use crate::world::World;

/// Each of these executes `touch pwned`, ends a quote, or is a reference, wherever a value is code.
const PAYLOADS: [&str; 24] = [
    "$(touch pwned)",
    "`touch pwned`",
    "\"; touch pwned; \"",
    "'; touch pwned; '",
    "'\"'\"; touch pwned #",
    "a[$(touch pwned)]",
    "x\nEOF\ntouch pwned\n: <<EOF",
    "|| touch pwned",
    "-n",
    "-e \\x41\\n",
    "%s%n%d \\x41 \\\\ \\c",
    "${{ env.HOME }} $HOME ${IFS} ~ * ? {a,b}",
    "}} ${{ params.x0 }} $${{ x",
    " two  words\tand a tab ",
    "first\n\n  third\r\nfourth",
    "",
    "@b @all wake up",
    "\\u0000 \\\" \\",
    "'); throw new Error('x'); ('",
    "${ (() => { while (true) {} })() }",
    "{\"__proto__\": {\"x\": 1}}",
    "\u{1}\u{8}\u{1b}[2J\u{7f}\u{85}\u{202e}\u{feff}\u{2028}\u{10ffff}",
    "!! !$ ^a^b^ #{x} \\\n touch pwned",
    "true",
];

/// A changeset with all kinds of hostile text, of more than 300 KiB.
fn hostile_changeset() -> String {
    let mut text = "---\n\"pkg\": patch\n---\n".to_owned();
    for payload in PAYLOADS {
        text.push_str(payload);
        text.push('\n');
    }
    for n in 0..6_000 {
        writeln!(text, "{n}: $(touch pwned) `touch pwned` \" ' \\ ${{{{ env.HOME }}}} é\u{1f980}")
            .unwrap();
    }
    assert!(text.len() > 300 * 1024);
    text + "end"
}

fn assert_not_executed(world: &World) {
    for folder in [world.project(), world.project().join("..")] {
        assert!(!folder.join("pwned").exists(), "a value was executed in {}", folder.display());
    }
}

/// Asserts that a file of the project has exactly this content.
fn assert_file(world: &World, name: &str, expected: &str) {
    let found = fs::read(world.project().join(name)).unwrap();
    if found == expected.as_bytes() {
        return;
    }
    let at = found.iter().zip(expected.as_bytes()).take_while(|(a, b)| a == b).count();
    let part = |bytes: &[u8]| {
        String::from_utf8_lossy(&bytes[at.min(bytes.len())..bytes.len().min(at + 60)]).into_owned()
    };
    panic!(
        "{name} has {} bytes, not {}; at {at} it has {:?} instead of {:?}",
        found.len(),
        expected.len(),
        part(&found),
        part(expected.as_bytes())
    );
}

#[test]
fn a_hostile_changeset_of_300_kib_is_written_byte_by_byte_in_every_form() {
    let changeset = hostile_changeset();
    // In `sh`, `echo` may replace backslashes of its argument, which is no matter of the value.
    let bash = "      - { shell: 'echo \"${{ changeset }}\" > echo.md' }\n\
         \x20     - { shell: \"cat <<<${{ changeset }} > string.md\" }\n";
    for (shell, more) in [("bash", bash), ("sh", "")] {
        let world = World::new();
        let file = format!(
            "name: write\nagents:\n  generator: {{ backend: mock, mock: [{{ say: {} }}] }}\ntasks:\n\
             \x20 - {{ send: Generate a changeset., to: generator, as: changeset }}\n\
             \x20 - parallel:\n{more}\
             \x20     - {{ shell: 'printf \"%s\" ${{{{ changeset }}}} > bare.md', shell_program: {shell} }}\n\
             \x20     - {{ shell: 'printf ''%s'' \"a${{{{ changeset }}}}b\" > quoted.md', shell_program: {shell} }}\n\
             \x20     - {{ shell: 'cp ${{{{ changeset.file }}}} file.md', shell_program: {shell} }}\n\
             \x20     - shell_program: {shell}\n\
             \x20       shell: |\n\
             \x20         cat <<EOF > here.md\n\
             \x20         ${{{{ changeset }}}}\n\
             \x20         EOF\n",
            yaml_text(&changeset)
        );
        let file = world.file("write.yaml", &file);
        let said = world.run(&["run", file.to_str().unwrap()]);
        assert_eq!(said.code, 0, "{shell}: {said:?}");
        assert_not_executed(&world);
        if shell == "bash" {
            assert_file(&world, "echo.md", &format!("{changeset}\n"));
            assert_file(&world, "string.md", &format!("{changeset}\n"));
        }
        assert_file(&world, "bare.md", &changeset);
        assert_file(&world, "quoted.md", &format!("a{changeset}b"));
        assert_file(&world, "file.md", &changeset);
        assert_file(&world, "here.md", &format!("{changeset}\n"));
    }
}

/// Returns the tasks that take the parameter `xN` through every place of a value.
fn tasks_of(n: usize, shell: &str) -> String {
    format!(
        r#"      - then:
          - name: t{n}
            as: o{n}
            shell_program: {shell}
            env: {{ VALUE: "${{{{ params.x{n} }}}}" }}
            shell: |
              printf '%s' "$VALUE" > env{n}
              printf '%s.' ${{{{ params.x{n} }}}}
          - {{ name: e{n}, shell: "printf '%s' ${{{{ params.x{n} }}}} >&2", shell_program: {shell} }}
          - {{ send: "<${{{{ params.x{n} }}}}|${{{{ o{n} }}}}>", to: a, as: answer{n} }}
          - if: ${{{{ o{n} == params.x{n} + '.' && tasks.e{n}.stderr == params.x{n} && tasks.t{n}.output == o{n} }}}}
            shell: echo equal > if{n}
            else: [{{ shell: "echo different > if{n}" }}]
          - name: j{n}
            as: json{n}
            format: json
            shell: |
              printf '%s' ${{{{ ({{ v: params.x{n}, w: [o{n}] }}) }}}}
          - shell_program: {shell}
            shell: |
              printf '%s' ${{{{ o{n} + '|' + params.x{n} }}}} > expression{n}
              printf '%s' "${{{{ json{n}.v }}}}" > member{n}
              printf '%s' '${{{{ tasks.e{n}.stderr }}}}' > stderr{n}
              cat <${{{{ tasks.t{n}.output.file }}}} > file{n}
              cp ${{{{ json{n}.file }}}} json{n}
              v=${{{{ o{n} }}}}
              cat <<EOF > here{n}
              ${{{{ params.x{n} }}}}|$v
              EOF
"#
    )
}

fn check_payloads(shell: &str) {
    let world = World::new();
    let names: Vec<String> = (0..PAYLOADS.len()).map(|n| format!("x{n}")).collect();
    let params: Vec<String> = names.iter().map(|name| format!("{{ name: {name} }}")).collect();
    let tasks: String = (0..PAYLOADS.len()).map(|n| tasks_of(n, shell)).collect();
    let file = format!(
        "name: places\nparams: [{}]\nagents:\n\
         \x20 a: {{ backend: mock, mock: [{{ say: ok }}] }}\n\
         \x20 b: {{ backend: mock, mock: [{{ run: touch pwned }}] }}\n\
         tasks:\n  - parallel:\n      max: 4\n      tasks:\n{}",
        params.join(", "),
        tasks
    );
    let file = world.file("places.yaml", &file);
    let line = |(name, value): (&String, &str)| format!("{name}: {}\n", yaml_text(value));
    let values: String = names.iter().zip(PAYLOADS).map(line).collect();
    world.file("params.yaml", &values);
    let said = world.run(&["run", file.to_str().unwrap(), "--params-file", "params.yaml"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert_not_executed(&world);
    let rows = task_rows(&world);
    let channel = world.json(&["peek", "@places", "-n", "1000", "--json"]);
    let bodies: Vec<&Value> =
        channel["items"].as_array().unwrap().iter().map(|item| &item["body"]).collect();
    for (n, x) in PAYLOADS.iter().enumerate() {
        // The output of a command ends before its last line breaks; `.` keeps those of the value.
        let o = format!("{x}.");
        let json = json!({"v": x, "w": [&o]}).to_string();
        assert_file(&world, &format!("if{n}"), "equal\n");
        assert_file(&world, &format!("env{n}"), x);
        assert_file(&world, &format!("expression{n}"), &format!("{o}|{x}"));
        assert_file(&world, &format!("member{n}"), x);
        assert_file(&world, &format!("stderr{n}"), x);
        assert_file(&world, &format!("file{n}"), &o);
        assert_file(&world, &format!("json{n}"), &json);
        assert_file(&world, &format!("here{n}"), &format!("{x}|{o}\n"));
        let path = rows
            .iter()
            .find(|(path, _)| path.ends_with(&format!("/t{n}")) || **path == format!("t{n}"));
        assert_eq!(path.unwrap().1.output.as_deref(), Some(o.as_str()), "{x:?}");
        let sent = json!(format!("<{x}|{o}>"));
        assert!(bodies.contains(&&sent), "{sent} is not in {bodies:?}");
    }
    let woken = world.json(&["status", "b@places", "--json"]);
    assert_eq!(woken["turns"], 0, "a value woke an agent: {woken}");
}

#[test]
fn no_value_is_code_in_any_place_of_a_task_with_bash() {
    check_payloads("bash");
}

#[test]
fn no_value_is_code_in_any_place_of_a_task_with_sh() {
    check_payloads("sh");
}
