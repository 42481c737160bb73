//! The files below a folder, without those that `.gitignore` names, as `list_files` and `search_code` see them.

use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
use ignore::{Walk, WalkBuilder};

use crate::tool_output::ToolStep;

/// Maximum number of entries that one call visits.
pub(crate) const MAX_VISITED: usize = 200_000;

/// Returns the entries below a folder, sorted by path.
pub(crate) fn walk(root: &Path) -> Walk {
    let mut builder = WalkBuilder::new(root);
    builder
        // A hidden file is a file, and only git itself reads `.git`.
        .hidden(false)
        .filter_entry(|entry| entry.file_name() != ".git")
        .git_global(false)
        .require_git(false)
        .sort_by_file_path(Path::cmp)
        .build()
}

/// A glob for paths below a folder.
pub(crate) struct PathGlob {
    matcher: GlobMatcher,
    /// True if the glob is compared with names, not with paths.
    is_name: bool,
}

impl PathGlob {
    /// Reads a glob. Without `/` it is compared with the names of files at any depth.
    pub(crate) fn new(text: &str) -> ToolStep<Self> {
        if text.starts_with(['/', '~']) || text.split('/').any(|part| part == "..") {
            return Err(
                format!("the glob `{text}` leaves its folder; name the folder in `path`").into()
            );
        }
        let glob = GlobBuilder::new(text.trim_start_matches("./")).literal_separator(true).build();
        let glob = glob.map_err(|error| format!("the glob is not valid: {error}"))?;
        Ok(Self { matcher: glob.compile_matcher(), is_name: !text.contains('/') })
    }

    /// Returns true if the glob matches a path below `root`.
    pub(crate) fn matches(&self, root: &Path, path: &Path) -> bool {
        if self.is_name {
            return path.file_name().is_some_and(|name| self.matcher.is_match(name));
        }
        path.strip_prefix(root).is_ok_and(|below| self.matcher.is_match(below))
    }
}

/// Returns a path as it is shown: relative to the working folder if it is below it.
pub(crate) fn shown_path(path: &Path, folder: &Path) -> String {
    let path = path.strip_prefix(folder).map_or_else(|_| path.to_owned(), PathBuf::from);
    path.display().to_string()
}
