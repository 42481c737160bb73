//! Compares two texts line by line.

use std::time::{Duration, Instant};

use similar::{Algorithm, TextDiff};

/// Timeout after which a comparison finishes approximately: correct, but not the shortest.
const DIFF_TIMEOUT: Duration = Duration::from_secs(1);
/// Number of context lines around a change.
const DIFF_CONTEXT_LINES: usize = 3;

/// Returns the difference in the format of `diff -u`; empty if there is none.
pub(crate) fn unified_diff(before: &str, after: &str, names: &[String; 2]) -> String {
    let diff = TextDiff::configure()
        .algorithm(Algorithm::Myers)
        .deadline(Instant::now() + DIFF_TIMEOUT)
        .diff_lines(before, after);
    diff.unified_diff().context_radius(DIFF_CONTEXT_LINES).header(&names[0], &names[1]).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> [String; 2] {
        ["notes.md 1".to_owned(), "notes.md 2".to_owned()]
    }

    #[test]
    fn a_diff_reads_as_diff_writes_it_and_nothing_is_nothing() {
        assert_eq!(unified_diff("a\nb\n", "a\nb\n", &names()), "");
        insta::assert_snapshot!(unified_diff("a\nb\nc\n", "a\nB\nc\nd", &names()), @r"
        --- notes.md 1
        +++ notes.md 2
        @@ -1,3 +1,4 @@
         a
        -b
        +B
         c
        +d
        \ No newline at end of file
        ");
    }
}
