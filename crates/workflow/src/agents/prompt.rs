//! `system_prompt:` text of the prompt, or a file beneath the workflow's folder; the reader of such files.
//!
//! One word that ends in `.md` or `.txt` is a file; everything else is the text. The content of a file is used
//! unchanged: `${{ … }}` in it is text.

use std::{fs::File, io, path::Path};

use crate::{
    diagnostics::diagnostic::Diagnostic,
    open_folder::{OpenFolder, leads_out},
    yaml::{
        fields::YamlField,
        text_file::{self, FileReadError},
    },
};

/// The folder of the workflow file.
#[derive(Clone, Copy)]
pub(crate) enum PromptFolder<'a> {
    /// A folder that is opened for each file.
    At(&'a Path),
    /// The folder from which the workflow file was read.
    Open(&'a OpenFolder),
}

impl PromptFolder<'_> {
    /// Reads a text file beneath the folder. `what` is its kind in messages.
    pub(crate) fn read_text(
        &self,
        field: &YamlField<'_>,
        what: &str,
        path: &str,
    ) -> Result<String, Diagnostic> {
        let refused = |why: &FileReadError| {
            field
                .diagnostic(format!("cannot read the {what} `{path}`: {why}"))
                .with_hint(format!("the path is relative to {}", self.path().display()))
        };
        match self.file_beneath(Path::new(path)) {
            Ok(file) => text_file::read(file).map_err(|why| refused(&why)),
            Err(error) if leads_out(&error) => Err(field
                .diagnostic(format!("the {what} `{path}` is outside the workflow's folder"))
                .with_hint(format!("move the file beneath {}", self.path().display()))),
            Err(error) => Err(refused(&error.into())),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::At(path) => path,
            Self::Open(folder) => folder.path(),
        }
    }

    fn file_beneath(&self, path: &Path) -> io::Result<File> {
        match self {
            Self::At(folder) => OpenFolder::open(folder)?.file_beneath(path),
            Self::Open(folder) => folder.file_beneath(path),
        }
    }
}

pub(crate) fn read(field: &YamlField<'_>, folder: PromptFolder<'_>) -> Result<String, Diagnostic> {
    let text = field.text()?;
    if !names_a_file(text) {
        return field.literal_text().map(str::to_owned);
    }
    folder.read_text(field, "prompt", text)
}

fn names_a_file(text: &str) -> bool {
    let ending = Path::new(text).extension().and_then(|ending| ending.to_str());
    !text.contains(char::is_whitespace) && matches!(ending, Some("md" | "txt"))
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
