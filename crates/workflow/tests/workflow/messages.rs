//! Messages that people read about an invalid file.

use std::path::Path;

use agent_worker_workflow::{Mistake, RenderStyle, parse};

use crate::read;

fn rendered(text: &str) -> String {
    read(text).unwrap_err().render(RenderStyle::Plain)
}

#[test]
fn an_unknown_key_is_shown_with_its_line_and_a_suggestion() {
    insta::assert_snapshot!(rendered("name: review\nagnets:\n  a: { backend: mock }\n"), @r#"
    error: unknown key `agnets`
     --> team.yaml:2:1
      |
    2 | agnets:
      | ^^^^^^
      |
      = help: did you mean `agents`?
    "#);
}

#[test]
fn a_reference_is_pointed_at_inside_a_block_of_text() {
    let text = "agents: { a: { backend: mock } }
setup: [{ shell: git diff, as: diff }]
kickoff: |
  Hello $${{ x }} ${{ diff }}

  é ${{ dif }} @a
";
    insta::assert_snapshot!(rendered(text), @r#"
    error: unknown name `dif`
     --> team.yaml:6:5
      |
    6 |   é ${{ dif }} @a
      |     ^^^^^^^^^^
      |
      = help: did you mean `diff`?
    "#);
}

#[test]
fn a_script_is_pointed_at_where_the_value_would_be_code() {
    let text = "agents: { a: { backend: mock } }
setup:
  - { shell: git diff, as: diff }
  - shell: |
      set -x
      bash -c \"echo ${{ diff }}\"
";
    insta::assert_snapshot!(rendered(text), @r#"
    error: a value cannot be placed here: `bash` would run it as code
     --> team.yaml:6:21
      |
    6 |       bash -c "echo ${{ diff }}"
      |                     ^^^^^^^^^^^
      |
      = help: pass it as an argument: `sh -c 'echo "$1"' sh ${{ … }}`
    "#);
}

#[test]
fn several_mistakes_are_reported_in_the_order_of_the_file() {
    let text = "agents:
  reviewer: { backend: mock, timeout: [1] }
  coder: { backend: mok }
  tester: { backend: sdk }
limits: { hops: 0 }
schedule: 5m
";
    insta::assert_snapshot!(rendered(text), @r#"
    error: `agents.reviewer.timeout` must be a length of time such as `30s`, not a list
     --> team.yaml:2:39
      |
    2 |   reviewer: { backend: mock, timeout: [1] }
      |                                       ^

    error: there is no backend `mok`
     --> team.yaml:3:21
      |
    3 |   coder: { backend: mok }
      |                     ^^^
      |
      = help: did you mean `mock`?

    error: `tester` needs a `model`
     --> team.yaml:4:3
      |
    4 |   tester: { backend: sdk }
      |   ^^^^^^
      |
      = help: such as `model: anthropic/claude-sonnet-5-5`

    error: `limits.hops` must be between 1 and 1000000
     --> team.yaml:5:17
      |
    5 | limits: { hops: 0 }
      |                 ^

    error: `schedule` cannot be used yet
     --> team.yaml:6:1
      |
    6 | schedule: 5m
      | ^^^^^^^^
      |
      = help: remove it
    "#);
    assert_eq!(
        read(text).unwrap_err().summary(),
        "team.yaml:2:39: `agents.reviewer.timeout` must be a length of time such as `30s`, not a list (and 4 more)"
    );
}

/// Returns the mistakes of a file as a program sees them, one on each line.
fn mistakes(text: &str) -> String {
    let mistakes = read(text).unwrap_err().mistakes();
    let line =
        |mistake: &Mistake| format!("{}:{} {}\n", mistake.line, mistake.column, mistake.message);
    mistakes.iter().map(line).collect()
}

#[test]
fn every_wrong_value_of_an_agent_is_reported() {
    let text = "agents:
  reviewer:
    backend: mok
    modle: x
    max_steps: 0
    timeout: 5
    env: [A=b, OK, C-d]
    retry: { backoff: no, multiplier: 0.5 }
  2x: { backend: sdk, cwd: '' }
  coder:
    mock:
      - { sleep: 5, fail: crsh, times: 0 }
      - { say: 5, calls: [{}, { tool: 5 }] }
  Coder: { model: 5 }
";
    insta::assert_snapshot!(mistakes(text), @r"
    3:14 there is no backend `mok`
    4:5 unknown key `agents.reviewer.modle`
    5:16 `agents.reviewer.max_steps` must be between 1 and 10000
    6:14 `agents.reviewer.timeout` must be a length of time such as `30s`, not a number
    7:11 `A=b` is not the name of an environment variable
    7:20 `C-d` is not the name of an environment variable
    8:23 `agents.reviewer.retry.backoff`: `no` is not a length of time: write a whole number and `ms`, `s`, `m`, `h` or `d`, such as `30s`
    8:39 `agents.reviewer.retry.multiplier` must be between 1 and 100
    9:3 `2x` cannot be an agent's name: use up to 32 letters, digits, `-` and `_`, starting with a letter
    9:3 `2x` needs a `model`
    9:28 `agents.2x.cwd` must be the path of a folder
    12:18 `agents.coder.mock[0].sleep` must be a length of time such as `30s`, not a number
    12:27 `agents.coder.mock[0].fail` must be `transient` or `rate_limited` or `fatal` or `crash` or `hang`, not `crsh`
    12:40 `agents.coder.mock[0].times` must be between 1 and 1000
    13:16 `agents.coder.mock[1].say` must be text, not a number
    13:27 `agents.coder.mock[1].calls[0]` needs `tool`
    13:39 `agents.coder.mock[1].calls[1].tool` must be text, not a number
    14:3 there are two agents called `Coder`
    14:19 `agents.Coder.model` must be text, not a number
    ");
}

#[test]
fn every_wrong_value_of_the_other_sections_is_reported() {
    let text = "agents: { a: { backend: mock } }
context: { provider: sqlit, documents: [] }
params: [{ name: a-b, required: 1 }, { name: ok, default: 5 }]
setup:
  - { shell: 'echo ${{ a }} ${{ b }}', as: env, shell_program: bash -x }
  - shell: |
      eval ${{ instance }}
      echo ${{ instance }} # ${{ instance }}
      cat <<'EOF'
      ${{ instance }}
      EOF
      echo \\${{ instance }} `${{ instance }}` $'${{ instance }}'
kickoff: ${{ c }} ${{ instance }} ${{ d }
limits: { hops: 0, turns: x, wall: 5 }
";
    insta::assert_snapshot!(mistakes(text), @r"
    2:22 `context.provider` must be `sqlite` or `memory` or `file`, not `sqlit`
    2:40 `context.documents` must be `file` or `store` or `sqlite`, not a list
    3:18 `a-b` cannot be a parameter's name
    3:33 `params[0].required` must be `true` or `false`, not a number
    3:59 `params[1].default` must be text, not a number
    5:20 unknown name `a`
    5:29 unknown name `b`
    5:44 `env` is reserved
    5:64 `setup[0].shell_program` must be the name or path of one program
    7:12 a value cannot be placed here: `eval` would run it as code
    8:30 a value cannot be placed here: this is a comment
    10:7 a value cannot be placed here: the delimiter of this here-document is quoted, so no value is inserted
    12:13 a value cannot be placed here: it follows a backslash
    12:30 a value cannot be placed here: this is inside backticks
    12:49 a value cannot be placed here: the script cannot be parsed (backticks; use `$( … )`)
    13:10 unknown name `c`
    13:35 this `${{` is never closed
    14:17 `limits.hops` must be between 1 and 1000000
    14:27 `limits.turns` must be a whole number, not text
    14:36 `limits.wall` must be a length of time such as `30s`, not a number
    ");
}

#[test]
fn after_an_unparsable_place_only_the_first_reference_is_reported() {
    let text = "agents: { a: { backend: mock } }
setup:
  - shell: |
      eval ${{ instance }}
      echo ) ${{ instance }} ${{ instance }}
  - { shell: 'cat <<${{ instance }} ${{ instance }}' }
";
    insta::assert_snapshot!(mistakes(text), @r"
    4:12 a value cannot be placed here: `eval` would run it as code
    5:14 a value cannot be placed here: the script cannot be parsed (a `)` without its `(`)
    6:21 a value cannot be placed here: this is the delimiter of a here-document
    6:37 a value cannot be placed here: the script cannot be parsed (a here-document without an end)
    ");
}

#[test]
fn the_first_of_very_many_mistakes_are_reported() {
    let names: Vec<String> = (0..50).map(|n| format!("  a{n}: {{ backend: mok }}\n")).collect();
    let text = format!("agents:\n{}", names.concat());
    assert_eq!(mistakes(&text).lines().count(), 20);
    let error = read(&text).unwrap_err();
    assert!(
        error.summary().ends_with("there is no backend `mok` (and at least 20 more)"),
        "{error}"
    );
    let shown = error.render(RenderStyle::Plain);
    assert_eq!(shown.matches("error: ").count(), 20);
    assert!(shown.ends_with("\n\n… and more; correct these first"), "{shown}");
}

#[test]
fn of_a_very_long_line_what_surrounds_the_mistake_is_shown() {
    let text = format!(
        "agents: {{ a: {{ backend: mock }} }}\nkickoff: '{} ${{{{ dif }}}} {}'\n",
        "é".repeat(500),
        "b".repeat(500)
    );
    insta::assert_snapshot!(rendered(&text), @r"
    error: unknown name `dif`
      |
    2 | …éééééééééééééééééééé ${{ dif }} bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb…
      |                       ^^^^^^^^^^
      |
      = note: at team.yaml:2:512
      = help: known names: workflow.name, workflow.tag, instance
    ");
}

#[test]
fn colours_are_there_only_when_asked_for() {
    let error = read("agents: 5\n").unwrap_err();
    assert!(error.render(RenderStyle::Ansi).contains('\u{1b}'));
    assert!(!error.render(RenderStyle::Plain).contains('\u{1b}'));
}

#[test]
fn a_file_cannot_send_escape_sequences_to_the_terminal() {
    let error = parse("\"\\e[31mred\\a\": 1\n", Path::new("a\u{1b}b.yaml")).unwrap_err();
    for text in [error.summary(), error.render(RenderStyle::Plain)] {
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
    }
}
