//! Merges two changes of one text, line by line. Pure.
//!
//! Invariant: a line that one side added and the other never had is in the result.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};

/// Timeout after which a comparison finishes approximately: correct, but not the shortest.
const MERGE_TIMEOUT: Duration = Duration::from_secs(2);

/// The result of merging two changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MergedText {
    /// The text with both changes.
    pub(crate) text: String,
    /// Number of lines of the store's text that were removed.
    pub(crate) removed: usize,
    /// True if both sides changed the same lines differently; the store's lines stay.
    pub(crate) has_conflict: bool,
    /// The number of lines that the person added to the base and removed from it.
    pub(crate) distance: usize,
}

/// Merges the changes of the store's text and of the person's text since `base`. Additions of both sides at one
/// place are all kept, the store's first; only lines that both sides changed differently conflict.
pub(crate) fn merge(base: &str, store: &str, person: &str) -> MergedText {
    let [base_lines, ours, theirs] = [base, store, person].map(split_lines);
    let (ours, mut theirs) =
        (LineChanges::of(&base_lines, &ours), LineChanges::of(&base_lines, &theirs));
    let all = theirs.hunks.len();
    let distance = theirs.hunks.iter().map(|hunk| hunk.base.len() + hunk.new.len()).sum();
    theirs.hunks.retain(|their| !ours.hunks.iter().any(|our| our.conflicts_with(their)));
    let mut text = String::new();
    let mut removed = 0;
    for index in 0..=base_lines.len() {
        let twice = ours.shares_change_at(&theirs, index);
        let added = theirs.added_at(index).filter(|_| !twice);
        let (gone, dropped) = (ours.removes_line(index), theirs.removes_line(index));
        let kept = base_lines.get(index).copied().filter(|_| !gone && !dropped);
        for line in ours.added_at(index).chain(added).chain(kept) {
            text.push_str(line);
            text.push('\n');
        }
        removed += usize::from(dropped && !gone);
    }
    let open_ended = |text: &str| !text.is_empty() && !text.ends_with('\n');
    if open_ended(store) && open_ended(person) {
        text.pop();
    }
    MergedText { text, removed, has_conflict: theirs.hunks.len() < all, distance }
}

/// Splits a text into lines without their ends, so that a last line without one equals any other.
fn split_lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').map(|line| line.strip_suffix('\n').unwrap_or(line)).collect()
}

/// The changes of one side to the base.
struct LineChanges<'a> {
    hunks: Vec<Hunk<'a>>,
}

/// Lines of the base and their replacement.
#[derive(PartialEq, Eq)]
struct Hunk<'a> {
    base: Range<usize>,
    new: Vec<&'a str>,
}

impl<'a> LineChanges<'a> {
    fn of(base: &[&str], new: &[&'a str]) -> Self {
        let deadline = Some(Instant::now() + MERGE_TIMEOUT);
        let ops = capture_diff_slices_deadline(Algorithm::Myers, base, new, deadline);
        let hunks = ops.iter().filter(|op| !matches!(op, DiffOp::Equal { .. }));
        let hunks =
            hunks.map(|op| Hunk { base: op.old_range(), new: new[op.new_range()].to_vec() });
        Self { hunks: hunks.collect() }
    }

    /// Returns the lines inserted before a line of the base.
    fn added_at(&self, index: usize) -> impl Iterator<Item = &'a str> {
        self.hunks_at(index).flat_map(|hunk| hunk.new.iter().copied())
    }

    fn hunks_at(&self, index: usize) -> impl Iterator<Item = &Hunk<'a>> {
        // Hunks are sorted by the base, so a binary search skips those before.
        let first = self.hunks.partition_point(|hunk| hunk.base.start < index);
        self.hunks[first..].iter().take_while(move |hunk| hunk.base.start == index)
    }

    /// Returns true if both sides changed the lines at `index` in the same way. Equal additions count as two.
    fn shares_change_at(&self, other: &Self, index: usize) -> bool {
        other
            .hunks_at(index)
            .any(|their| !their.base.is_empty() && self.hunks_at(index).any(|our| our == their))
    }

    fn removes_line(&self, index: usize) -> bool {
        let after = self.hunks.partition_point(|hunk| hunk.base.start <= index);
        self.hunks[..after].iter().rev().take(2).any(|hunk| hunk.base.contains(&index))
    }
}

impl Hunk<'_> {
    fn conflicts_with(&self, other: &Self) -> bool {
        let overlap = self.base.start.max(other.base.start) < self.base.end.min(other.base.end);
        let both_only_remove = self.new.is_empty() && other.new.is_empty();
        overlap && !both_only_remove && self != other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clean(text: &str, removed: usize) -> (String, usize, bool) {
        (text.to_owned(), removed, false)
    }

    fn conflict(text: &str, removed: usize) -> (String, usize, bool) {
        (text.to_owned(), removed, true)
    }

    #[test]
    fn what_two_made_of_one_text() {
        for (base, store, person, expected) in [
            ("a\n", "a\n", "a\n", clean("a\n", 0)),
            ("a\n", "a\nb\n", "a\n", clean("a\nb\n", 0)),
            ("a\n", "a\n", "a\nb\n", clean("a\nb\n", 0)),
            // Both added at one place: the store's lines come first.
            ("a\n", "a\nb\n", "a\nc\n", clean("a\nb\nc\n", 0)),
            ("a\n", "a\nb\n", "a\nb\n", clean("a\nb\nb\n", 0)),
            ("", "x\n", "y\n", clean("x\ny\n", 0)),
            // One side changed a line, the other added next to it.
            ("a\nb\n", "a\nb\nc\n", "a\nB\n", clean("a\nB\nc\n", 1)),
            ("a\nb\n", "x\na\nb\n", "A\nb\n", clean("x\nA\nb\n", 1)),
            // The person removed lines that the store still had.
            ("a\nb\nc\n", "a\nb\nc\nd\n", "c\n", clean("c\nd\n", 2)),
            ("a\nb\nc\n", "b\nc\nd\n", "a\n", clean("d\n", 2)),
            ("a\nb\n", "a\nb\nc\n", "", clean("c\n", 2)),
            // Both changed the same lines.
            ("a\n", "b\n", "c\n", conflict("b\n", 0)),
            ("a\n", "b\n", "b\n", clean("b\n", 0)),
            ("a\nb\nc\n", "a\nX\nc\n", "a\nc\n", conflict("a\nX\nc\n", 0)),
            ("a\nb\nc\nd\n", "a\nX\nd\n", "a\nb\nY\nd\n", conflict("a\nX\nd\n", 0)),
            // The other changes of the person are still merged.
            ("a\nb\n", "X\nb\nc\n", "Y\nb\nd\n", conflict("X\nb\nc\nd\n", 0)),
            // The last line has no line end.
            ("a", "a\nb\n", "a\nc", clean("a\nb\nc\n", 0)),
            ("a", "a\nb", "a\nc", clean("a\nb\nc", 0)),
        ] {
            let MergedText { text, removed, has_conflict, distance: _ } =
                merge(base, store, person);
            assert_eq!((text, removed, has_conflict), expected, "{base:?} {store:?} {person:?}");
        }
    }

    #[test]
    fn a_person_is_as_far_from_a_base_as_their_lines_differ() {
        for (from, to, far) in
            [("", "", 0), ("a\n", "a\nb\n", 1), ("a\nb\n", "b\n", 1), ("a\n", "b\n", 2)]
        {
            assert_eq!(merge(from, from, to).distance, far, "{from:?} {to:?}");
        }
    }

    /// Returns a pseudo-random number that is the same on every machine.
    fn next(seed: &mut u64, below: usize) -> usize {
        *seed =
            seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(*seed >> 33).unwrap() % below
    }

    fn with_additions(base: &[String], seed: &mut u64, whose: &str) -> Vec<String> {
        let mut text = base.to_vec();
        for n in 0..next(seed, 6) {
            let at = next(seed, text.len() + 1);
            text.insert(at, format!("{whose}{n}"));
        }
        text
    }

    fn joined(lines: &[String]) -> String {
        lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
    }

    #[test]
    fn no_added_line_is_ever_lost() {
        let mut seed = 1;
        for round in 0..5_000 {
            // Few words, so that lines repeat and comparisons are ambiguous.
            let base: Vec<String> =
                (0..next(&mut seed, 12)).map(|_| format!("w{}", next(&mut seed, 4))).collect();
            let mut store = with_additions(&base, &mut seed, "s");
            let mut person = with_additions(&base, &mut seed, "p");
            // Sometimes a side removes lines of the base, possibly at the place of an addition.
            let mut took = false;
            for side in [&mut store, &mut person] {
                if next(&mut seed, 3) == 0 {
                    let keep = next(&mut seed, 4);
                    side.retain(|line| *line != format!("w{keep}"));
                    took = true;
                }
            }
            let MergedText { text, has_conflict, .. } =
                merge(&joined(&base), &joined(&store), &joined(&person));
            assert!(took || !has_conflict, "round {round}: who only adds is never in the way");
            // In a conflict the whole text of the person is set aside.
            let theirs = person.iter().filter(|_| !has_conflict);
            for line in store.iter().chain(theirs).filter(|line| !line.starts_with('w')) {
                let there = text.lines().any(|found| found == line);
                assert!(there, "round {round}: {line} in {text:?}");
            }
        }
    }
}
