//! The folders of git that belong to a working folder: an ordinary repository, a worktree, a submodule, or none.
//!
//! An agent at level `basic` can write a `.git` file, so a pointer to another folder counts only if that folder points
//! back: an agent cannot write there.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The git folders of a working folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GitLayout {
    /// Folder of the checked out files, with the entry `.git`.
    pub(crate) root: PathBuf,
    /// Folder with the index and the current branch.
    pub(crate) folder: PathBuf,
    /// Folder with objects, branches, settings and hooks; the same for an ordinary repository.
    pub(crate) common: PathBuf,
}

impl GitLayout {
    /// Finds the repository of a working folder. A repository whose files include `home` does not count.
    pub(crate) fn find(work: &Path, home: Option<&Path>) -> Option<Self> {
        let root = work.ancestors().find(|folder| is_git_entry(&folder.join(".git")))?;
        if home.is_some_and(|home| home.starts_with(root)) {
            return None;
        }
        let entry = root.join(".git");
        if entry.symlink_metadata().ok()?.is_dir() {
            let layout =
                Self { root: root.to_owned(), folder: entry.clone(), common: entry.clone() };
            return Some(layout);
        }
        let folder = resolve(root, &pointer(&entry, "gitdir:")?)?;
        let common = if let Ok(text) = fs::read_to_string(folder.join("commondir")) {
            let back = resolve(&folder, &fs::read_to_string(folder.join("gitdir")).ok()?)?;
            let common = resolve(&folder, &text)?;
            // `worktrees/NAME` of a repository, which names this entry.
            let is_worktree = folder.parent() == Some(&common.join("worktrees"));
            (is_worktree && back == entry.canonicalize().ok()?).then_some(common)?
        } else {
            let back = resolve(&folder, &pointer(&folder.join("config"), "worktree =")?)?;
            (back == root.canonicalize().ok()?).then(|| folder.clone())?
        };
        is_repository(&common).then(|| Self { root: root.to_owned(), folder, common })
    }
}

/// Returns true for a file, or for a folder that is a repository: git ignores an empty `.git`.
fn is_git_entry(entry: &Path) -> bool {
    match entry.symlink_metadata() {
        Ok(kind) if kind.is_dir() => is_repository(entry),
        Ok(kind) => kind.is_file(),
        Err(_) => false,
    }
}

fn is_repository(folder: &Path) -> bool {
    folder.join("HEAD").is_file() && folder.join("objects").is_dir()
}

/// Returns the rest of the first line that begins with `key`.
fn pointer(file: &Path, key: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| line.trim().strip_prefix(key)).map(str::to_owned)
}

fn resolve(folder: &Path, text: &str) -> Option<PathBuf> {
    folder.join(text.trim()).canonicalize().ok()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn git(folder: &Path, args: &[&str]) {
        let mut command = Command::new("git");
        command.args([
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "-c",
            "protocol.file.allow=always",
        ]);
        let output = command.current_dir(folder).args(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
    }

    fn repository() -> (tempfile::TempDir, PathBuf) {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap().join("repo");
        fs::create_dir_all(root.join("sub")).unwrap();
        git(&root, &["init", "--quiet"]);
        git(&root, &["commit", "--quiet", "--allow-empty", "--message", "one"]);
        (place, root)
    }

    #[test]
    fn a_subfolder_belongs_to_the_repository_above_it_and_a_home_folder_is_none() {
        let (_place, root) = repository();
        let git = root.join(".git");
        let expected = GitLayout { root: root.clone(), folder: git.clone(), common: git };
        assert_eq!(GitLayout::find(&root, None), Some(expected.clone()));
        assert_eq!(GitLayout::find(&root.join("sub"), None), Some(expected));
        assert_eq!(GitLayout::find(&root.join("sub"), Some(&root)), None);
        // An empty folder of this name is a placeholder.
        fs::create_dir(root.join("sub/.git")).unwrap();
        assert_eq!(GitLayout::find(&root.join("sub"), None).unwrap().root, root);
    }

    #[test]
    fn a_worktree_and_a_submodule_have_their_folders_in_the_main_repository() {
        let (place, root) = repository();
        git(&root, &["worktree", "add", "--quiet", "../tree"]);
        let tree = place.path().canonicalize().unwrap().join("tree");
        let expected = GitLayout {
            root: tree.clone(),
            folder: root.join(".git/worktrees/tree"),
            common: root.join(".git"),
        };
        assert_eq!(GitLayout::find(&tree, None), Some(expected));
        let outer = place.path().join("outer");
        fs::create_dir(&outer).unwrap();
        git(&outer, &["init", "--quiet"]);
        git(&outer, &["submodule", "--quiet", "add", root.to_str().unwrap(), "inner"]);
        let outer = outer.canonicalize().unwrap();
        let found = GitLayout::find(&outer.join("inner"), None).unwrap();
        assert_eq!(found.common, outer.join(".git/modules/inner"));
    }

    #[test]
    fn a_pointer_to_a_folder_that_does_not_point_back_exposes_nothing() {
        let (place, root) = repository();
        let forged = place.path().join("forged");
        fs::create_dir(&forged).unwrap();
        for target in [root.join(".git"), place.path().to_owned()] {
            fs::write(forged.join(".git"), format!("gitdir: {}\n", target.display())).unwrap();
            assert_eq!(GitLayout::find(&forged, None), None, "{}", target.display());
        }
    }
}
