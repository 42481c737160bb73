//! The private folder of a task's command, which its worker and the daemon share.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Paths in the folder of a command.
#[derive(Clone, Debug)]
pub struct CommandFolder {
    root: PathBuf,
}

impl CommandFolder {
    /// Returns the paths in the folder `root`.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Returns the folder.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Returns the lock, which the worker holds while the command may run.
    pub fn lock(&self) -> PathBuf {
        self.root.join("worker.lock")
    }

    /// Returns the file that a daemon writes while the lock is free. No command starts after it.
    pub fn given_up(&self) -> PathBuf {
        self.root.join("given-up")
    }

    /// Returns the file of the result, which the worker writes before it releases the lock.
    pub fn result(&self) -> PathBuf {
        self.root.join("result.json")
    }

    /// Returns the file with the standard output, which exists once the command has printed something.
    pub fn stdout(&self) -> PathBuf {
        self.root.join("stdout")
    }

    /// Returns the script. It is the last file that the worker writes before it starts the command.
    pub fn script(&self) -> PathBuf {
        self.root.join("script")
    }

    /// Returns the file of a value of the script, by its number from 0.
    pub fn value(&self, number: usize) -> PathBuf {
        self.root.join(format!("value-{number}"))
    }

    /// Removes the values and the script.
    pub fn remove_values(&self) {
        // The worker writes them in order, so the first that is missing was never written.
        let mut values = (0..).map(|number| self.value(number));
        while values.next().is_some_and(|value| fs::remove_file(value).is_ok()) {}
        // An error means that there is no script.
        let _ = fs::remove_file(self.script());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_and_the_script_are_removed_and_the_result_stays() {
        let folder = tempfile::tempdir().unwrap();
        let files = CommandFolder::at(folder.path());
        for path in [files.value(0), files.value(1), files.script(), files.result()] {
            fs::write(path, "x").unwrap();
        }
        files.remove_values();
        let left: Vec<_> =
            fs::read_dir(files.path()).unwrap().map(|it| it.unwrap().path()).collect();
        assert_eq!(left, [files.result()]);
    }
}
