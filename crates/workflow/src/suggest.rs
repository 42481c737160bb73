//! "Did you mean …?": the nearest of the words that would have been right.

/// Returns the candidate nearest to `word`, if any is near enough to have been meant.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let folded = fold(word);
    let reach = (folded.len() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (distance(&folded, &fold(candidate)), candidate))
        .filter(|(distance, _)| *distance <= reach)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Long words are cut: nobody means a known word by them, and they must not cost time.
fn fold(word: &str) -> Vec<char> {
    word.chars().take(64).map(|c| c.to_ascii_lowercase()).collect()
}

/// Insertions, deletions, replacements and swaps of neighbours that turn one word into the other.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let swapped = i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y;
            let mut best = (above[j] + usize::from(x != y)).min(above[j + 1] + 1).min(row[j] + 1);
            if swapped {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_suggested_and_a_strange_one_is_not() {
        let words = ["agents", "kickoff", "setup", "name", "limits", "system_prompt"];
        for (written, meant) in [
            ("agnets", Some("agents")),
            ("agent", Some("agents")),
            ("Kickoff", Some("kickoff")),
            ("systemprompt", Some("system_prompt")),
            ("nmae", Some("name")),
            ("pipeline", None),
            ("", None),
            ("x", None),
        ] {
            assert_eq!(nearest(written, words), meant, "{written}");
        }
    }
}
