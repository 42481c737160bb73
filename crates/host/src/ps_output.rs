//! The output of `ps -E -ww -o pid= -o command=` on macOS: for each process a line with its pid, arguments and environment.
//!
//! Blanks separate the words, also those within a value, so only the part of a value before its first blank is known. The
//! marks of attempts have no blanks. An argument that looks like a variable counts as one: a mark too many makes a caller
//! less trusted.

/// The line of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PsEntry {
    pub(crate) pid: u32,
    words: Vec<String>,
}

/// Parses the lines; a line without a pid is left out.
pub(crate) fn parse_ps(output: &str) -> Vec<PsEntry> {
    let parse = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let pid = words.next()?.parse().ok()?;
        Some(PsEntry { pid, words: words.map(str::to_owned).collect() })
    };
    output.lines().filter_map(parse).collect()
}

impl PsEntry {
    /// Returns the values of the variable `name`.
    pub(crate) fn values(&self, name: &str) -> Vec<String> {
        let values =
            self.words.iter().filter_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        values.map(str::to_owned).collect()
    }

    /// Returns true if the system did not show the arguments; then `ps` prints the name of the process in parentheses.
    pub(crate) fn is_unreadable(&self, name: &str) -> bool {
        self.words.is_empty() || self.words.join(" ") == format!("({name})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_the_whole_name_and_an_unreadable_process_is_known() {
        let output = "    1 (launchd)\n\
            \x20 512 /bin/agent-worker worker PATH=/a b:/c AGENT_WORKER_ATTEMPT=0198 HOME=/Users/me\n\
            70001 sleep 60 X_AGENT_WORKER_ATTEMPT=1 AGENT_WORKER_ATTEMPT_=2 AGENT_WORKER_ATTEMPT\n\
            \n\
            broken line\n\
            \x20   9\n";
        let entries = parse_ps(output);
        let found: Vec<_> = entries
            .iter()
            .map(|entry| {
                let values = entry.values("AGENT_WORKER_ATTEMPT");
                (entry.pid, values.join(","), entry.is_unreadable("launchd"))
            })
            .collect();
        let expected = [(1, "", true), (512, "0198", false), (70001, "", false), (9, "", true)];
        assert_eq!(found, expected.map(|(pid, values, hidden)| (pid, values.to_owned(), hidden)));
    }
}
