//! What the tests of procedures share: files of procedures, and the rows of their tasks.

use std::{collections::BTreeMap, fmt::Write as _, fs};

use rusqlite::{Connection, OpenFlags};

use crate::world::{World, wait_for};

/// The row of a task in the store.
#[derive(Debug)]
pub(super) struct TaskLine {
    pub(super) state: String,
    pub(super) attempts: i64,
    pub(super) output: Option<String>,
    /// The seq of the message that the task sent.
    pub(super) message: Option<i64>,
}

/// Returns the rows of the newest run, by the path of the task.
pub(super) fn task_rows(world: &World) -> BTreeMap<String, TaskLine> {
    let path = world.home().join("agent-worker.db");
    let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let sql = "SELECT path, state, attempts, output, message FROM task
               WHERE (workflow, run) = (SELECT workflow, run FROM task ORDER BY workflow DESC, run DESC LIMIT 1)";
    let mut rows = db.prepare(sql).unwrap();
    let rows = rows.query_map([], |row| {
        let line = TaskLine {
            state: row.get(1)?,
            attempts: row.get(2)?,
            output: row.get(3)?,
            message: row.get(4)?,
        };
        Ok((row.get(0)?, line))
    });
    rows.unwrap().map(Result::unwrap).collect()
}

/// Returns the states of the newest run, such as `a:done b:skipped`, in the order of the paths.
pub(super) fn states(world: &World) -> String {
    let rows = task_rows(world);
    let texts: Vec<_> = rows.iter().map(|(path, row)| format!("{path}:{}", row.state)).collect();
    texts.join(" ")
}

/// Returns the lines of a file of the project; none if there is no file.
pub(super) fn lines(world: &World, name: &str) -> Vec<String> {
    let text = fs::read_to_string(world.project().join(name)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Returns the content of a file of the project, once it has a whole line.
pub(super) fn wait_for_line(world: &World, name: &str) -> String {
    wait_for(name, || {
        let text = fs::read_to_string(world.project().join(name)).ok()?;
        text.strip_suffix('\n').map(str::to_owned)
    })
}

/// Writes a text as a value of YAML.
pub(super) fn yaml_text(text: &str) -> String {
    let mut quoted = String::new();
    for c in serde_json::to_string(text).unwrap().chars() {
        match u32::from(c) {
            // YAML takes these only as escapes.
            code @ (0x7f..=0x9f | 0x2028 | 0x2029 | 0xfeff) => {
                write!(quoted, "\\u{code:04x}").unwrap();
            }
            _ => quoted.push(c),
        }
    }
    quoted
}
