//! A terminal of its own for a command, with somebody at the keyboard.

use std::{
    fs,
    io::Write as _,
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use crate::world::{World, wait_for};

/// One in which a command runs.
pub(crate) struct Terminal {
    script: Child,
    project: PathBuf,
}

impl Terminal {
    /// Runs the binary with these words in a terminal of so many columns and 24 lines.
    pub(crate) fn open(world: &World, columns: u16, words: &str) -> Self {
        let like = world.command(&[]);
        let binary = env!("CARGO_BIN_EXE_agent-worker");
        let command = format!(
            "tty > pty; stty cols {columns} rows 24; stty -a > before; {binary} {words}; code=$?; \
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

    /// Types something.
    pub(crate) fn type_text(&mut self, text: &str) {
        let keyboard = self.script.stdin.as_mut().unwrap();
        keyboard.write_all(text.as_bytes()).unwrap();
        keyboard.flush().unwrap();
    }

    /// Presses a key, alone, and again after a while for as long as nothing comes of it.
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

    /// Makes it so many columns wide.
    pub(crate) fn resize(&self, columns: &str) {
        let pty = fs::read_to_string(self.project.join("pty")).unwrap();
        let mut stty = Command::new("stty");
        assert!(stty.args(["-F", pty.trim(), "cols", columns]).status().unwrap().success());
    }

    /// Everything it ever showed.
    pub(crate) fn output(&self) -> String {
        let all = fs::read(self.project.join("shown")).unwrap_or_default();
        String::from_utf8_lossy(&all).into_owned()
    }

    /// What it showed last: the lines since the last time the status was drawn anew, without colours.
    pub(crate) fn last_drawn(&self) -> Vec<String> {
        let all = self.output();
        let mut plain = String::new();
        let mut rest = all.as_str();
        while let Some(at) = rest.find('\u{1b}') {
            plain.push_str(&rest[..at]);
            let escape = &rest[at + 1..];
            let end = escape.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(0);
            if escape[end..].starts_with('J') {
                plain.push('\u{c}');
            }
            rest = escape.get(end + 1..).unwrap_or_default();
        }
        plain.push_str(rest);
        let last = plain.rsplit('\u{c}').find(|drawn| drawn.contains("· running ·"));
        let last = last.unwrap_or_default().lines();
        last.map(|line| line.trim_end_matches('\r').to_owned()).collect()
    }

    /// Waits until it shows what is wanted.
    pub(crate) fn wait_until(&self, wanted: impl Fn(&[String]) -> bool) -> Vec<String> {
        wait_for("what was to be drawn", || {
            let drawn = self.last_drawn();
            wanted(&drawn).then_some(drawn)
        })
    }

    /// Waits for the command's end. It leaves the terminal as it was.
    pub(crate) fn wait_exit(mut self) -> (ExitStatus, String) {
        let status = self.script.wait().unwrap();
        let of = |name: &str| {
            let settings = fs::read_to_string(self.project.join(name)).unwrap();
            // All but its size.
            settings.split_once("line =").unwrap().1.to_owned()
        };
        assert_eq!(of("after"), of("before"));
        (status, self.output())
    }
}
