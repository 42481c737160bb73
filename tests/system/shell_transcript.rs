//! Typed commands and their output, as text that is the same in every run.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use crate::world::{CommandOutput, World};

/// Runs each line in a shell in the world's project and returns the terminal's text: `!` marks stderr, and an exit
/// code other than 0 is shown.
pub(crate) fn run_lines(world: &World, lines: &str) -> String {
    let lines = lines.lines().map(str::trim).filter(|line| !line.is_empty());
    let shown: String = lines.map(|line| transcript(line, &shell(world, line))).collect();
    normalized(world, &shown)
}

fn transcript(line: &str, said: &CommandOutput) -> String {
    let mut lines = vec![format!("$ {line}")];
    lines.extend(said.stdout.lines().map(str::to_owned));
    lines.extend(said.stderr.lines().map(|line| format!("! {line}")));
    lines.extend((said.code != 0).then(|| format!("(exit {})", said.code)));
    lines.into_iter().map(|line| line + "\n").collect()
}

/// Runs one line in a shell with the program on its path.
pub(crate) fn shell(world: &World, line: &str) -> CommandOutput {
    let folder = Path::new(env!("CARGO_BIN_EXE_agent-worker")).parent().unwrap().to_owned();
    let usual = world.command(&[]);
    let mut bash = Command::new("bash");
    bash.args(["-euo", "pipefail", "-c", line]).env_clear();
    bash.envs(usual.get_envs().filter_map(|(name, value)| Some((name, value?))));
    bash.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", folder.display()));
    CommandOutput::from(bash.current_dir(world.project()).stdin(Stdio::null()).output().unwrap())
}

/// Replaces folders, times and numbers that differ between runs by names.
pub(crate) fn normalized(world: &World, text: &str) -> String {
    let text = text.replace(&world.project().display().to_string(), "PROJECT");
    let text = text.replace(&world.home().display().to_string(), "HOME");
    let line = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let mut kept: Vec<String> = Vec::new();
        for (at, word) in words.iter().enumerate() {
            let before = at.checked_sub(1).map(|at| words[at]);
            kept.push(normalized_word(word, before, words.get(at + 1).copied()));
        }
        let line = kept.join(" ");
        // A table with a column of times has variable padding.
        if line.contains("TIME ago") || line.contains("  WRITTEN ") {
            collapse_spaces(&line)
        } else {
            line
        }
    };
    text.lines().map(|one| line(one).trim_end().to_owned() + "\n").collect()
}

fn normalized_word(word: &str, before: Option<&str>, after: Option<&str>) -> String {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    match (before, after) {
        (Some("pid"), _) if digits > 0 => {
            format!("N{}", word.trim_start_matches(|c: char| c.is_ascii_digit()))
        }
        (_, Some(after)) if after.starts_with("ago") && digits > 0 => "TIME".to_owned(),
        (_, Some("GiB" | "MiB")) if digits > 0 => "SOME".to_owned(),
        (Some("in"), _) if digits > 0 => "TIME".to_owned(),
        _ if is_clock_time(word) => "TIME".to_owned(),
        _ if word.starts_with("127.0.0.1:") => "127.0.0.1:PORT".to_owned(),
        _ => word.to_owned(),
    }
}

/// Returns true for a time such as `14:02:11`.
pub(crate) fn is_clock_time(word: &str) -> bool {
    let is_clock = |(at, byte): (usize, u8)| match at {
        2 | 5 => byte == b':',
        _ => byte.is_ascii_digit(),
    };
    word.len() == 8 && word.bytes().enumerate().all(is_clock)
}

/// Collapses columns whose width depends on a time.
fn collapse_spaces(line: &str) -> String {
    let mut squeezed = line.trim_start().to_owned();
    while squeezed.contains("   ") {
        squeezed = squeezed.replace("   ", "  ");
    }
    squeezed
}
