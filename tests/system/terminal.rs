//! A pseudo-terminal for a command, with a simulated keyboard.

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use crate::world::{World, wait_for};

/// A terminal in which a command runs.
pub(crate) struct Terminal {
    script: Child,
    project: PathBuf,
}

impl Terminal {
    /// Runs the binary with these words in a terminal of `columns` columns and 24 lines. The shell around it survives
    /// Ctrl-C and SIGQUIT.
    pub(crate) fn open(world: &World, columns: u16, words: &str) -> Self {
        let like = world.command(&[]);
        let binary = env!("CARGO_BIN_EXE_agent-worker");
        let command = format!(
            "trap : INT QUIT; tty > pty; stty cols {columns} rows 24; stty -a > before; {binary} {words}; code=$?; \
             stty -a > after; exit $code"
        );
        let script = Command::new("script")
            .args(["-qefc", &command, "shown"])
            .env_clear()
            .envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .env("TERM", "xterm")
            .current_dir(world.project())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self { script, project: world.project() }
    }

    /// Types a text on the keyboard.
    pub(crate) fn type_text(&mut self, text: &str) {
        let keyboard = self.script.stdin.as_mut().unwrap();
        keyboard.write_all(text.as_bytes()).unwrap();
        keyboard.flush().unwrap();
    }

    /// Presses a single key, and repeats it every second until `done`.
    pub(crate) fn press_until(&mut self, key: &str, done: impl Fn() -> bool) {
        let mut last: Option<Instant> = None;
        wait_for(&format!("what comes of {key}"), || {
            if last.is_none_or(|last| last.elapsed() > Duration::from_secs(1)) {
                last = Some(Instant::now());
                self.type_text(key);
            }
            done().then_some(())
        });
    }

    /// Changes the width of the terminal.
    pub(crate) fn resize(&self, columns: &str) {
        let pty = fs::read_to_string(self.project.join("pty")).unwrap();
        let mut stty = Command::new("stty");
        assert!(stty.args(["-F", pty.trim(), "cols", columns]).status().unwrap().success());
    }

    /// Returns all output since the start.
    pub(crate) fn output(&self) -> String {
        let all = fs::read(self.project.join("shown")).unwrap_or_default();
        String::from_utf8_lossy(&all).into_owned()
    }

    /// Returns the screen: the lines since the last redraw of the status, without colours.
    pub(crate) fn last_drawn(&self) -> Vec<String> {
        let plain = without_escapes(&self.output());
        let last = plain.rsplit('\u{c}').find(|drawn| drawn.contains("· running ·"));
        let last = last.unwrap_or_default().lines();
        last.map(|line| line.trim_end_matches('\r').to_owned()).collect()
    }

    /// Waits until the screen satisfies `wanted`.
    pub(crate) fn wait_until(&self, wanted: impl Fn(&[String]) -> bool) -> Vec<String> {
        wait_for("what was to be drawn", || {
            let drawn = self.last_drawn();
            wanted(&drawn).then_some(drawn)
        })
    }

    /// Waits until a full screen shows a text.
    pub(crate) fn wait_until_shown(&self, text: &str) {
        wait_for(&format!("`{text}` on the screen"), || {
            full_screen(&self.output()).iter().any(|line| line.contains(text)).then_some(())
        });
    }

    /// Waits until the last redraw contains a text.
    pub(crate) fn wait_until_drawn(&self, text: &str) {
        let last = || {
            let plain = without_escapes(&self.output());
            plain.rsplit('\u{c}').next().unwrap_or_default().to_owned()
        };
        wait_for(&format!("{text} in the last redraw: {}", last()), || {
            last().contains(text).then_some(())
        });
    }

    /// Waits until these words have appeared, one after the other, also between redraws.
    pub(crate) fn wait_until_words(&self, words: &str) {
        let wanted: Vec<&str> = words.split(' ').collect();
        wait_for(&format!("`{words}` on the screen"), || {
            let all = words_of(&self.output());
            let mut seen = all.split(' ');
            wanted.iter().all(|word| seen.any(|other| other == *word)).then_some(())
        });
    }

    /// Waits for the command's exit, and checks that the terminal settings are restored.
    pub(crate) fn wait_exit(mut self) -> (ExitStatus, String) {
        let status = self.script.wait().unwrap();
        let of = |name: &str| {
            let settings = fs::read_to_string(self.project.join(name)).unwrap();
            // Ignores the size of the terminal.
            settings.split_once("line =").unwrap().1.to_owned()
        };
        assert_eq!(of("after"), of("before"));
        (status, self.output())
    }
}

/// Returns the words of a terminal's output, without colours and with one blank between two words.
pub(crate) fn words_of(output: &str) -> String {
    without_escapes(output).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Removes the escape sequences; a form feed stands for a redraw.
fn without_escapes(output: &str) -> String {
    let mut plain = String::new();
    let mut rest = output;
    while let Some(at) = rest.find('\u{1b}') {
        plain.push_str(&rest[..at]);
        let escape = &rest[at + 1..];
        let end = escape.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(0);
        if escape[end..].starts_with('J') {
            plain.push('\u{c}');
        }
        rest = escape.get(end + 1..).unwrap_or_default();
    }
    plain + rest
}

/// Returns the lines of a full screen after all output: each sequence `ESC [ row ; column H` moves the cursor, and `ESC [ 2 J`
/// clears the screen.
fn full_screen(output: &str) -> Vec<String> {
    let mut cells: BTreeMap<(usize, usize), char> = BTreeMap::new();
    let (mut row, mut column) = (1, 1);
    let mut rest = output.chars().peekable();
    while let Some(character) = rest.next() {
        if character != '\u{1b}' {
            cells.insert((row, column), character);
            column += 1;
            continue;
        }
        let mut sequence = String::new();
        for next in rest.by_ref() {
            sequence.push(next);
            if next.is_ascii_alphabetic() {
                break;
            }
        }
        match sequence.strip_prefix('[').and_then(|rest| rest.split_at_checked(rest.len() - 1)) {
            Some((place, "H")) => {
                let mut numbers = place.split(';').map(|number| number.parse().unwrap_or(1));
                row = numbers.next().unwrap_or(1);
                column = numbers.next().unwrap_or(1);
            }
            Some(("2", "J")) => cells.clear(),
            _ => {}
        }
    }
    let mut lines = vec![String::new(); cells.keys().map(|(row, _)| *row).max().unwrap_or(0) + 1];
    for ((row, column), character) in cells {
        let line = &mut lines[row];
        while line.chars().count() + 1 < column {
            line.push(' ');
        }
        line.push(character);
    }
    lines
}
