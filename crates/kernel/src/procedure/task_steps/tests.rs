//! Tables of rows and their next steps, and procedures by chance that must come to their end.

use std::{collections::BTreeSet, path::Path};

use agent_worker_store::{TaskKey, TaskRow};
use agent_worker_workflow::parse;

use super::*;

fn procedure(yaml: &str) -> TaskProcedure {
    parse(yaml, Path::new("team.yaml")).unwrap().tasks
}

fn row(path: &str, state: TaskState, condition: Option<bool>) -> TaskRow {
    TaskRow {
        key: TaskKey::of(TaskPath::new(path)),
        state,
        attempts: 1,
        condition,
        items: None,
        message: None,
        output: None,
        exit_code: None,
        error: None,
        stderr: None,
        started: None,
        ended: None,
    }
}

/// Reads rows such as `a:done b:skipped(if) c:running(else)`.
fn rows(text: &str) -> TaskRows {
    let read = |word: &str| {
        let (path, state) = word.split_once(':').unwrap();
        let (state, condition) = match state.split_once('(') {
            Some((state, "if)" | "else)")) => (state, Some(false)),
            Some((state, "true)")) => (state, Some(true)),
            Some((_, other)) => panic!("{other}"),
            None => (state, None),
        };
        (TaskKey::of(TaskPath::new(path)), row(path, state.parse().unwrap(), condition))
    };
    text.split_whitespace().map(read).collect()
}

fn step_text(step: &TaskStep<'_>) -> String {
    match step {
        TaskStep::Decide { task, has_failed: false } => format!("decide {}", task.path),
        TaskStep::Decide { task, has_failed: true } => {
            format!("decide {} after failure", task.path)
        }
        TaskStep::Start(task) => format!("start {}", task.path),
        TaskStep::Finish { task, state } => format!("{state} {}", task.path),
        TaskStep::Stop(task) => format!("stop {}", task.path),
    }
}

fn steps_text(procedure: &TaskProcedure, text: &str) -> String {
    let rows = rows(text);
    let progress = next_task_steps(procedure, &rows, &BTreeSet::new());
    let mut steps: Vec<String> = progress.steps.iter().map(step_text).collect();
    steps.extend(progress.end.map(|end| format!("end {end}")));
    steps.join(", ")
}

#[test]
fn a_list_runs_in_order_and_needs_change_it() {
    let list = procedure(
        "tasks:
  - { name: a, shell: a }
  - { name: b, shell: b }
  - { name: c, shell: c, needs: [] }
  - { name: d, shell: d, needs: [a] }
  - { name: e, shell: e }
",
    );
    for (rows, expected) in [
        ("", "start a, start c"),
        ("a:running c:running", ""),
        ("a:done c:running", "start b, start d"),
        ("a:done b:done c:running d:done", ""),
        ("a:done b:done c:done d:done", "start e"),
        ("a:done b:done c:done d:done e:done", "end done"),
        ("a:failed c:running", "skipped b, skipped d"),
        ("a:failed b:skipped c:running d:skipped", ""),
        ("a:failed b:skipped c:done d:skipped", "skipped e"),
        ("a:failed b:skipped c:done d:skipped e:skipped", "end failed"),
        ("a:stopped b:skipped c:done d:skipped e:skipped", "end stopped"),
    ] {
        assert_eq!(steps_text(&list, rows), expected, "{rows}");
    }
}

#[test]
fn a_condition_is_decided_when_its_turn_comes_and_a_false_one_counts_as_done() {
    let list = procedure(
        "tasks:
  - { name: a, shell: a, as: x }
  - { name: b, if: x == 'yes', shell: b, else: [{ name: c, shell: c }, { name: d, shell: d }] }
  - { name: e, if: x == 'no', shell: e }
  - { name: f, shell: f }
",
    );
    for (rows, expected) in [
        ("a:done", "decide b"),
        ("a:done b:running(true)", ""),
        ("a:done b:running(else)", "start b/else/c"),
        ("a:done b:running(else) b/else/c:done", "start b/else/d"),
        ("a:done b:running(else) b/else/c:done b/else/d:done", "skipped b"),
        ("a:done b:running(else) b/else/c:failed", "skipped b/else/d"),
        ("a:done b:running(else) b/else/c:failed b/else/d:skipped", "failed b"),
        ("a:done b:skipped(if)", "decide e"),
        ("a:done b:skipped(if) e:skipped(if)", "start f"),
        ("a:done b:skipped(if) e:skipped(if) f:done", "end done"),
        ("a:done b:failed(else)", "skipped e"),
    ] {
        assert_eq!(steps_text(&list, rows), expected, "{rows}");
    }
}

#[test]
fn after_a_failure_only_tasks_that_handle_failures_are_decided() {
    let list = procedure(
        "tasks:
  - { name: a, shell: a }
  - { name: b, if: 'true', shell: b }
  - { name: c, if: failure(), then: [{ name: d, shell: d }, { name: e, if: failure(), shell: e }] }
  - { name: f, if: always(), shell: f }
  - { name: g, shell: g, needs: [b] }
",
    );
    for (rows, expected) in [
        ("a:failed", "skipped b"),
        ("a:failed b:skipped", "decide c after failure, skipped g"),
        // The tasks inside run; `failure()` stays true there.
        ("a:failed b:skipped c:running(true) g:skipped", "start c/d"),
        ("a:failed b:skipped c:running(true) c/d:done g:skipped", "decide c/e after failure"),
        ("a:failed b:skipped c:running(true) c/d:done c/e:done g:skipped", "done c"),
        ("a:failed b:skipped c:done g:skipped", "decide f after failure"),
        ("a:failed b:skipped c:done f:done g:skipped", "end failed"),
        ("a:done b:done c:skipped(if) g:done", "decide f"),
        ("a:done b:done c:skipped(if) f:done g:done", "end done"),
    ] {
        assert_eq!(steps_text(&list, rows), expected, "{rows}");
    }
}

#[test]
fn a_failure_that_may_be_continued_skips_nothing() {
    let list = procedure(
        "tasks:
  - { name: a, shell: a, continue_on_error: true }
  - { name: b, shell: b }
",
    );
    assert_eq!(steps_text(&list, "a:failed"), "start b");
    assert_eq!(steps_text(&list, "a:failed b:done"), "end done");
    assert_eq!(steps_text(&list, "a:stopped"), "skipped b");
}

#[test]
fn a_parallel_block_keeps_its_maximum_and_its_siblings_finish() {
    let list = procedure(
        "tasks:
  - name: p
    parallel:
      max: 2
      tasks:
        - { name: a, shell: a }
        - { name: b, shell: b }
        - { name: c, shell: c, needs: [a] }
        - { name: d, if: 'true', shell: d }
  - { name: z, shell: z }
",
    );
    for (rows, expected) in [
        ("", "start p"),
        ("p:running", "start p/a, start p/b"),
        ("p:running p/a:done p/b:running", "start p/c"),
        ("p:running p/a:running p/b:done", "decide p/d"),
        ("p:running p/a:failed p/b:running", "skipped p/c, decide p/d"),
        ("p:running p/a:failed p/b:done p/c:skipped p/d:running(true)", ""),
        ("p:running p/a:failed p/b:done p/c:skipped p/d:done", "failed p"),
        ("p:failed", "skipped z"),
    ] {
        assert_eq!(steps_text(&list, rows), expected, "{rows}");
    }
}

#[test]
fn a_task_whose_row_is_not_written_yet_has_begun() {
    let list = procedure(
        "tasks:
  - name: p
    parallel:
      max: 2
      fail_fast: true
      tasks:
        - { name: a, shell: a }
        - { name: b, if: 'true', shell: b }
        - { name: c, shell: c }
",
    );
    let begun = |paths: &[&str]| paths.iter().map(|path| TaskPath::new(*path)).collect();
    for (rows_text, active, expected) in [
        ("p:running", &["p/b"][..], "start p/a"),
        ("p:running", &["p/a", "p/b"], ""),
        ("p:running p/a:done", &["p/b"], "start p/c"),
        ("p:running p/a:failed", &["p/b"], "stop p/b, skipped p/c"),
    ] {
        let progress = next_task_steps(&list, &rows(rows_text), &begun(active));
        let steps: Vec<String> = progress.steps.iter().map(step_text).collect();
        assert_eq!((steps.join(", "), progress.end), (expected.to_owned(), None), "{rows_text}");
    }
}

#[test]
fn with_fail_fast_a_failure_stops_everything_in_the_block() {
    let list = procedure(
        "tasks:
  - name: p
    parallel:
      fail_fast: true
      tasks:
        - { name: a, shell: a }
        - { name: b, shell: b }
        - { name: c, then: [{ name: d, shell: d }, { name: e, shell: e }] }
        - { name: f, if: always(), shell: f, needs: [b] }
",
    );
    for (rows, expected) in [
        (
            "p:running p/a:failed p/b:running p/c:running p/c/d:running",
            "stop p/b, stop p/c/d, skipped p/c/e, skipped p/f",
        ),
        (
            "p:running p/a:failed p/b:stopped p/c:running p/c/d:stopped p/c/e:skipped p/f:skipped",
            "stopped p/c",
        ),
        // An action that ended well before it was stopped is done.
        (
            "p:running p/a:failed p/b:done p/c:stopped p/c/d:stopped p/c/e:skipped p/f:skipped",
            "failed p",
        ),
    ] {
        assert_eq!(steps_text(&list, rows), expected, "{rows}");
    }
}

#[test]
fn finally_begins_when_every_task_has_ended_whatever_became_of_them() {
    let procedure = procedure(
        "tasks:
  - { name: a, shell: a }
  - { name: b, shell: b }
finally:
  - { name: c, shell: c }
  - { name: d, if: failure(), shell: d }
  - { name: e, shell: e }
",
    );
    for (rows, expected) in [
        ("a:running", ""),
        ("a:failed", "skipped b"),
        ("a:done b:running", ""),
        ("a:done b:done", "start finally/c"),
        ("a:failed b:skipped", "start finally/c"),
        ("a:stopped b:skipped finally/c:done", "decide finally/d after failure"),
        ("a:done b:done finally/c:done", "decide finally/d"),
        ("a:done b:done finally/c:done finally/d:skipped(if)", "start finally/e"),
        ("a:done b:done finally/c:done finally/d:skipped(if) finally/e:done", "end done"),
        // A failure there skips the rest of the list, and fails the run.
        ("a:done b:done finally/c:failed", "decide finally/d after failure"),
        ("a:done b:done finally/c:failed finally/d:done", "skipped finally/e"),
        ("a:done b:done finally/c:failed finally/d:done finally/e:skipped", "end failed"),
        ("a:failed b:skipped finally/c:done finally/d:done finally/e:done", "end failed"),
        ("a:stopped b:skipped finally/c:done finally/d:done finally/e:done", "end stopped"),
        ("a:stopped b:skipped finally/c:failed finally/d:done finally/e:skipped", "end failed"),
    ] {
        assert_eq!(steps_text(&procedure, rows), expected, "{rows}");
    }
}

/// Numbers of a test that are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).unwrap()
    }

    /// Writes a list of tasks in YAML's flow form.
    fn list(&mut self, depth: usize, last: &mut usize) -> String {
        let mut names: Vec<String> = Vec::new();
        let count = 1 + self.below(4);
        let mut task = |names: &mut Vec<String>, numbers: &mut Self| {
            *last += 1;
            let name = format!("t{last}");
            let needs = match (numbers.below(4), names.last()) {
                (0, Some(needed)) => format!(", needs: [{needed}]"),
                (1, _) => ", needs: []".to_owned(),
                _ => String::new(),
            };
            let action = match numbers.below(if depth == 0 { 1 } else { 4 }) {
                1 => format!("then: {}", numbers.list(depth - 1, last)),
                2 => format!("parallel: {}", numbers.list(depth - 1, last)),
                3 => {
                    let (max, fast) = (1 + numbers.below(3), numbers.below(2) == 0);
                    let tasks = numbers.list(depth - 1, last);
                    format!("parallel: {{ max: {max}, fail_fast: {fast}, tasks: {tasks} }}")
                }
                _ => "shell: a".to_owned(),
            };
            let condition =
                ["", ", if: 'true'", ", if: failure()", ", if: always()"][numbers.below(4)];
            let otherwise = match numbers.below(3) {
                0 if depth > 0 && !condition.is_empty() => {
                    format!(", else: {}", numbers.list(depth - 1, last))
                }
                _ => String::new(),
            };
            let goes_on = numbers.below(5) == 0;
            names.push(name.clone());
            format!(
                "{{ name: {name}, {action}{needs}{condition}{otherwise}, continue_on_error: {goes_on} }}"
            )
        };
        let tasks: Vec<String> = (0..count).map(|_| task(&mut names, self)).collect();
        format!("[{}]", tasks.join(", "))
    }
}

fn key(task: &TaskDefinition) -> TaskKey {
    TaskKey::of(task.path.clone())
}

fn seed_bits(seed: u64) -> u64 {
    seed.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Takes every step of a procedure with results by chance, and returns the final rows.
fn run_to_end(procedure: &TaskProcedure, numbers: &mut Numbers, yaml: &str) -> TaskRows {
    let all: Vec<&TaskDefinition> = procedure.walk().collect();
    let (mut rows, mut started) = (TaskRows::new(), BTreeSet::new());
    for _ in 0..1_000 {
        let progress = next_task_steps(procedure, &rows, &BTreeSet::new());
        if let Some(end) = progress.end {
            assert!(progress.steps.is_empty() && end.is_final(), "{yaml}");
            return rows;
        }
        for step in &progress.steps {
            let (task, state, condition) = match step {
                TaskStep::Decide { task, .. } => match numbers.below(2) {
                    0 => (task, TaskState::Running, Some(true)),
                    _ if task.otherwise.is_empty() => (task, TaskState::Skipped, Some(false)),
                    _ => (task, TaskState::Running, Some(false)),
                },
                TaskStep::Start(task) => (task, TaskState::Running, None),
                TaskStep::Finish { task, state } => {
                    let condition = rows.get(&key(task)).and_then(|row| row.condition);
                    (task, *state, condition)
                }
                TaskStep::Stop(task) => (task, TaskState::Stopped, None),
            };
            if task.path.as_str().starts_with("finally/") {
                let is_over = |task| rows.get(&key(task)).is_some_and(|row| row.state.is_final());
                assert!(procedure.tasks.iter().all(is_over), "{} is early: {yaml}", task.path);
            }
            let is_first = started.insert(task.path.clone());
            assert!(is_first || state != TaskState::Running, "{} starts twice: {yaml}", task.path);
            rows.insert(key(task), row(task.path.as_str(), state, condition));
        }
        // One running command ends.
        let is_command = |task: &&&TaskDefinition| {
            let found = rows.get(&key(task));
            let is_own =
                |row: &TaskRow| row.state == TaskState::Running && row.condition != Some(false);
            matches!(task.action, TaskAction::Shell(_)) && found.is_some_and(is_own)
        };
        let commands: Vec<&&TaskDefinition> = all.iter().filter(is_command).collect();
        assert!(!progress.steps.is_empty() || !commands.is_empty(), "nothing can happen: {yaml}");
        if !commands.is_empty() {
            let ended = key(commands[numbers.below(commands.len())]);
            let state = [TaskState::Done, TaskState::Done, TaskState::Failed][numbers.below(3)];
            let condition = rows[&ended].condition;
            rows.insert(ended.clone(), row(ended.path.as_str(), state, condition));
        }
        check_maxima(&all, &rows, yaml);
    }
    panic!("no end: {yaml}");
}

fn check_maxima(all: &[&TaskDefinition], rows: &TaskRows, yaml: &str) {
    for task in all {
        if let TaskAction::Parallel(group) = &task.action
            && let Some(max) = group.max
        {
            let is_running = |task: &&TaskDefinition| {
                rows.get(&key(task)).is_some_and(|row| row.state == TaskState::Running)
            };
            let running = group.tasks.iter().filter(is_running).count();
            assert!(running <= max as usize, "{running} run in {}: {yaml}", task.path);
        }
    }
}

#[test]
fn every_procedure_comes_to_its_end_whatever_its_tasks_do() {
    for seed in 1..=2_000 {
        let mut numbers = Numbers(seed_bits(seed));
        let mut last = 0;
        let mut yaml = format!("tasks: {}\n", numbers.list(3, &mut last));
        if seed % 2 == 0 {
            yaml = format!("{yaml}finally: {}\n", numbers.list(1, &mut last));
        }
        let procedure = procedure(&yaml);
        let rows = run_to_end(&procedure, &mut numbers, &yaml);
        for task in procedure.tasks.iter().chain(&procedure.finally) {
            assert!(rows[&key(task)].state.is_final(), "{} in {yaml}", task.path);
        }
    }
}
