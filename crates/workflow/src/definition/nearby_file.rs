//! "Did you mean …?" for the path of a workflow file.

use std::{fs, path::Path};

use crate::diagnostics::spelling::nearest;

/// Returns the workflow file in the folder of `file` whose name is nearest, with or without its ending.
pub fn nearest_workflow_file(file: &Path) -> Option<String> {
    let name = file.file_name()?.to_str()?;
    let entries = fs::read_dir(file.parent()?).ok()?.flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let ending = |name: &str| {
        let ending = Path::new(name).extension().and_then(|ending| ending.to_str());
        ending.is_some_and(|ending| ["yaml", "yml"].contains(&ending))
    };
    let mut names: Vec<String> = names.filter(|name| ending(name)).collect();
    names.sort_unstable();
    let stem = |name: &str| name.rsplit_once('.').map_or(name, |(stem, _)| stem).to_owned();
    let stems: Vec<String> = names.iter().map(|name| stem(name)).collect();
    let typed = if ending(name) { stem(name) } else { name.to_owned() };
    let near = nearest(&typed, stems.iter().map(String::as_str))?;
    let at = stems.iter().position(|stem| stem == near)?;
    names.into_iter().nth(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_file_of_the_folder_is_suggested() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["review.yaml", "docs.yml", "notes.md"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        for (typed, expected) in [
            ("reveiw.yaml", Some("review.yaml")),
            ("review", Some("review.yaml")),
            ("review.yml", Some("review.yaml")),
            ("dosc.yaml", Some("docs.yml")),
            ("notes", None),
            ("other.yaml", None),
        ] {
            let found = nearest_workflow_file(&folder.path().join(typed));
            assert_eq!(found.as_deref(), expected, "{typed}");
        }
    }
}
