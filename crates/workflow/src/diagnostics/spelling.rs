//! "Did you mean …?": the valid word that is nearest to a misspelt one.

/// Returns the candidate nearest to `word`, if one is near enough.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let folded = folded_prefix(word);
    let reach = (folded.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (strsim::osa_distance(&folded, &folded_prefix(candidate)), candidate))
        .filter(|(distance, _)| *distance <= reach)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Truncates long words: none is a misspelt known word, and they must not cost time.
fn folded_prefix(word: &str) -> String {
    word.chars().take(64).map(|c| c.to_ascii_lowercase()).collect()
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
