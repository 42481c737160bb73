//! Searches a program as the system does when it starts one, and words the reason why it cannot start.
//!
//! The worker searches before each start, and the command line warns before an agent exists. Both print the same words.

use std::{
    fmt,
    fs::File,
    io::{self, Read as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use rustix::io::Errno;

/// Maximum size of the first line that the system reads.
const MAX_FIRST_LINE_BYTES: u64 = 256;

/// The reason why a program cannot start. A retry finds the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramDefect {
    /// The name or path as written.
    name: String,
    kind: DefectKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum DefectKind {
    Missing,
    /// The mode of the file forbids its execution.
    NotExecutable(PathBuf),
    /// The first line of the file names an interpreter that does not exist.
    NoInterpreter(String),
    /// The file is neither a program of this machine nor a script with an interpreter.
    WrongFormat,
}

/// Finds a program by its path, which is relative to `folder`, or by its name in the folders of `path`.
pub fn find_program(name: &str, folder: &Path, path: &str) -> Result<PathBuf, ProgramDefect> {
    let candidates: Vec<PathBuf> = if name.contains('/') {
        vec![folder.join(name)]
    } else {
        std::env::split_paths(path).map(|place| folder.join(place).join(name)).collect()
    };
    let defect = |kind| ProgramDefect { name: name.to_owned(), kind };
    let Some(found) = candidates.iter().find(|file| is_executable(file)) else {
        let file = candidates.into_iter().find(|file| file.is_file());
        return Err(defect(file.map_or(DefectKind::Missing, DefectKind::NotExecutable)));
    };
    match first_line_defect(found, folder) {
        Some(kind) => Err(defect(kind)),
        None => Ok(found.clone()),
    }
}

impl ProgramDefect {
    /// Returns the defect that an error of starting a found program shows; none for an error of the system.
    pub fn of_start(name: &str, error: &io::Error) -> Option<Self> {
        let is_wrong = Errno::from_io_error(error) == Some(Errno::NOEXEC);
        is_wrong.then(|| Self { name: name.to_owned(), kind: DefectKind::WrongFormat })
    }

    /// Returns the name or path as written.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns true if nothing has the name.
    pub fn is_missing(&self) -> bool {
        self.kind == DefectKind::Missing
    }

    /// Returns the action that corrects the defect, if one is known; `install` is the command that installs the program.
    pub fn correction(&self, install: Option<&str>) -> Option<String> {
        let Self { name, kind } = self;
        match kind {
            DefectKind::Missing if name.starts_with("~/") => {
                Some("`~` is not expanded in a command: write the whole path".to_owned())
            }
            DefectKind::Missing if name.contains(char::is_whitespace) => {
                let words: Vec<_> = name.split_whitespace().collect();
                let list = words.join(", ");
                Some(format!("write the program and its arguments as a list: command: [{list}]"))
            }
            DefectKind::Missing if name.contains('/') => None,
            DefectKind::Missing => install.map(|install| format!("install it: {install}")),
            DefectKind::NotExecutable(file) => {
                let file = if name.contains('/') {
                    name.strip_prefix("./").unwrap_or(name).to_owned()
                } else {
                    file.display().to_string()
                };
                Some(format!("make it executable: chmod +x {file}"))
            }
            DefectKind::NoInterpreter(_) => {
                Some("correct the first line of the file, or install the interpreter".to_owned())
            }
            DefectKind::WrongFormat => {
                Some("begin a script with a line such as `#!/bin/sh`".to_owned())
            }
        }
    }
}

impl fmt::Display for ProgramDefect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, kind } = self;
        match kind {
            DefectKind::Missing if name.contains('/') => {
                write!(f, "the program `{name}` does not exist")
            }
            DefectKind::Missing => write!(f, "there is no program `{name}` on the PATH"),
            DefectKind::NotExecutable(_) => write!(f, "`{name}` is not executable"),
            DefectKind::NoInterpreter(interpreter) => {
                write!(f, "`{name}` needs the interpreter `{interpreter}`, which does not exist")
            }
            DefectKind::WrongFormat => {
                write!(f, "`{name}` is neither a program of this machine nor a script")
            }
        }
    }
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// Checks the interpreter of a script. An unreadable file may still be a program.
fn first_line_defect(file: &Path, folder: &Path) -> Option<DefectKind> {
    let mut start = Vec::new();
    File::open(file).ok()?.take(MAX_FIRST_LINE_BYTES).read_to_end(&mut start).ok()?;
    if start.is_empty() {
        return Some(DefectKind::WrongFormat);
    }
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line);
    let interpreter = line.trim_start_matches([' ', '\t']);
    // The system takes a carriage return as part of the name.
    let interpreter = interpreter.split([' ', '\t']).next().filter(|word| !word.is_empty())?;
    let is_there = folder.join(interpreter).exists();
    (!is_there).then(|| DefectKind::NoInterpreter(interpreter.escape_debug().to_string()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn file(folder: &Path, name: &str, text: &str, mode: u32) {
        fs::write(folder.join(name), text).unwrap();
        fs::set_permissions(folder.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn each_defect_has_its_words_and_its_correction() {
        let (folder, path) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (here, bin) = (folder.path(), path.path());
        file(here, "ok.sh", "#!/bin/sh\n", 0o755);
        file(here, "mode.sh", "#!/bin/sh\n", 0o644);
        file(here, "bad.sh", "#! /no/such/interp -x\n", 0o755);
        file(here, "dos.sh", "#!/bin/sh\r\n", 0o755);
        file(here, "empty", "", 0o755);
        file(bin, "tool", "#!/bin/sh\n", 0o644);
        let on_path = format!("make it executable: chmod +x {}", bin.join("tool").display());
        for (name, message, correction) in [
            ("nosuch", "there is no program `nosuch` on the PATH", Some("install it: get nosuch")),
            ("./nosuch", "the program `./nosuch` does not exist", None),
            (
                "./ok.sh one",
                "the program `./ok.sh one` does not exist",
                Some("write the program and its arguments as a list: command: [./ok.sh, one]"),
            ),
            (
                "~/x",
                "the program `~/x` does not exist",
                Some("`~` is not expanded in a command: write the whole path"),
            ),
            (
                "./mode.sh",
                "`./mode.sh` is not executable",
                Some("make it executable: chmod +x mode.sh"),
            ),
            ("tool", "`tool` is not executable", Some(on_path.as_str())),
            (
                "./bad.sh",
                "`./bad.sh` needs the interpreter `/no/such/interp`, which does not exist",
                Some("correct the first line of the file, or install the interpreter"),
            ),
            (
                "./dos.sh",
                "`./dos.sh` needs the interpreter `/bin/sh\\r`, which does not exist",
                Some("correct the first line of the file, or install the interpreter"),
            ),
            (
                "./empty",
                "`./empty` is neither a program of this machine nor a script",
                Some("begin a script with a line such as `#!/bin/sh`"),
            ),
        ] {
            let defect = find_program(name, here, &bin.to_string_lossy()).unwrap_err();
            let expected = correction.map(str::to_owned);
            assert_eq!(defect.to_string(), message);
            assert_eq!(defect.correction(Some("get nosuch")), expected, "{name}");
        }
        assert_eq!(find_program("./ok.sh", here, ""), Ok(here.join("./ok.sh")));
        assert_eq!(find_program("sh", here, "/nowhere:/bin"), Ok("/bin/sh".into()));
    }
}
