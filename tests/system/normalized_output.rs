//! Typed commands and their output, with all values that differ between runs normalized.

use crate::{
    shell_transcript::{is_clock_time, shell},
    world::World,
};

/// Runs lines and returns them with their output, with every duration, time and id normalized. A table whose
/// columns depend on such values is returned without padding.
pub(crate) fn run_lines_normalized(world: &World, lines: &str) -> String {
    let mut shown = String::new();
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let said = shell(world, line);
        let told = said.stderr.lines().map(|line| format!("! {line}"));
        let all: Vec<String> = said
            .stdout
            .lines()
            .map(str::to_owned)
            .chain(told)
            .map(|line| normalized_line(&line))
            .collect();
        let is_steady = all.iter().all(|line| !line.contains("TIME") && !line.contains("ID"));
        let all = all.into_iter().map(|line| if is_steady { line } else { without_padding(&line) });
        let code = (said.code != 0).then(|| format!("(exit {})", said.code));
        let block = std::iter::once(format!("$ {line}")).chain(all).chain(code);
        shown.extend(block.map(|line| line + "\n"));
    }
    shown.replace(&world.project().display().to_string(), "PROJECT")
}

fn normalized_line(line: &str) -> String {
    line.split(' ').map(normalized_word).collect::<Vec<_>>().join(" ").trim_end().to_owned()
}

/// Replaces a word that differs between runs.
fn normalized_word(word: &str) -> String {
    let core = word.trim_matches([',', ':', ';', ')', '*']);
    let number = core.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let begins_with_a_digit = core.starts_with(|c: char| c.is_ascii_digit());
    let is_time = begins_with_a_digit && ["ms", "s"].contains(&number);
    let is_instant = begins_with_a_digit && core.ends_with('Z') && core.contains('T');
    let is_id = core.len() == 36 && core.bytes().filter(|byte| *byte == b'-').count() == 4;
    match core {
        _ if is_time || is_clock_time(core) => word.replace(core, "TIME"),
        _ if is_instant => word.replace(core, "INSTANT"),
        _ if is_id => word.replace(core, "ID"),
        _ => word.to_owned(),
    }
}

fn without_padding(line: &str) -> String {
    let text = line.trim_start();
    let mut unpadded = text.to_owned();
    while unpadded.contains("   ") {
        unpadded = unpadded.replace("   ", "  ");
    }
    // A time at the start of a line has padding of its own.
    let indent = if text.starts_with("TIME") { 0 } else { line.len() - text.len() };
    format!("{}{unpadded}", &line[..indent])
}
