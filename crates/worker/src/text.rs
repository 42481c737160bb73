//! How long texts are shown: their beginning.

/// The first `most` bytes of a text, at a character's border, and a mark if there is more.
pub(crate) fn start(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(most)])
}
