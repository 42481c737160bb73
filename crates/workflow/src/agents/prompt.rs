//! `system_prompt:` text of the prompt, or a file beneath the workflow's folder.
//!
//! One word that ends in `.md` or `.txt` is a file; everything else is the text. The content of a file is used
//! unchanged: `${{ … }}` in it is text.

use std::{
    io,
    path::{Path, PathBuf},
};

use crate::{
    diagnostics::diagnostic::Diagnostic,
    yaml::{
        fields::YamlField,
        text_file::{self, FileReadError},
    },
};

pub(crate) fn read(field: &YamlField<'_>, folder: &Path) -> Result<String, Diagnostic> {
    let text = field.text()?;
    if !names_a_file(text) {
        return field.literal_text().map(str::to_owned);
    }
    let refused = |why: &FileReadError| {
        field
            .diagnostic(format!("cannot read the prompt `{text}`: {why}"))
            .with_hint(format!("the path is relative to {}", folder.display()))
    };
    let inside = resolve_in_folder(folder, text).map_err(|error| refused(&error.into()))?;
    let Some(path) = inside else {
        return Err(field
            .diagnostic(format!("the prompt `{text}` is outside the workflow's folder"))
            .with_hint(format!("move the file beneath {}", folder.display())));
    };
    text_file::read(&path).map_err(|why| refused(&why))
}

fn names_a_file(text: &str) -> bool {
    let ending = Path::new(text).extension().and_then(|ending| ending.to_str());
    !text.contains(char::is_whitespace) && matches!(ending, Some("md" | "txt"))
}

/// Resolves `..` and symbolic links, then checks that the path is inside the folder.
fn resolve_in_folder(folder: &Path, text: &str) -> io::Result<Option<PathBuf>> {
    let folder = folder.canonicalize()?;
    let path = folder.join(text).canonicalize()?;
    Ok(path.starts_with(&folder).then_some(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_word_with_an_ending_is_a_file() {
        for (text, file) in [
            ("prompts/reviewer.md", true),
            ("./a.txt", true),
            ("You review. Then write notes.md", false),
            ("Be kind.", false),
            ("notes.md\n", false),
        ] {
            assert_eq!(names_a_file(text), file, "{text}");
        }
    }
}
