//! The version of a program. An older version does not know the options that its adapter passes, and fails with an error of
//! its own that says nothing about its age.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use agent_worker_protocol::FailureClass;
use tokio::{process::Command, time::timeout};

use crate::turn::TurnFailure;

/// Time limit for a program to print its version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(10);

/// The versions of a program that its adapter supports.
#[derive(Clone, Copy, Debug)]
pub(super) struct SupportedVersions {
    /// Name of the program in messages.
    pub(super) program: &'static str,
    /// The oldest version that knows every option.
    pub(super) oldest: &'static str,
    /// The command that installs a newer one.
    pub(super) install: Option<&'static str>,
}

impl SupportedVersions {
    /// Fails if the program prints an older version. A program that prints none is not judged.
    pub(super) async fn check(self, mut command: Command) -> Result<(), TurnFailure> {
        command.arg("--version").stdin(Stdio::null()).kill_on_drop(true);
        let printed = match timeout(VERSION_TIMEOUT, command.output()).await {
            Ok(Ok(output)) => String::from_utf8_lossy(&output.stdout).into_owned(),
            Ok(Err(_)) | Err(_) => return Ok(()),
        };
        match find_version(&printed) {
            Some(found) if parse_version(found) < parse_version(self.oldest) => {
                Err(self.outdated(found))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn outdated(self, found: &str) -> TurnFailure {
        let Self { program, oldest, install } = self;
        let update = install.map(|install| format!("; update it: {install}")).unwrap_or_default();
        let why = format!(
            "{program} {found} is too old: this version of agent-worker needs {oldest} or newer{update}"
        );
        TurnFailure::new(FailureClass::OutdatedProgram, why)
    }
}

/// The record of a program whose version was checked, so that only the first turn of a run waits for the check.
pub(super) struct CheckedProgram {
    file: PathBuf,
    /// Path and time of the program's file.
    identity: String,
}

impl CheckedProgram {
    pub(super) fn new(program: &Path, keep: &Path) -> Self {
        let modified = program.metadata().and_then(|file| file.modified()).ok();
        let identity = format!("{} {modified:?}", program.display());
        Self { file: keep.join("checked-program"), identity }
    }

    pub(super) fn is_recorded(&self) -> bool {
        fs::read_to_string(&self.file).is_ok_and(|recorded| recorded == self.identity)
    }

    /// Records the check. If that fails, the next turn checks again.
    pub(super) fn record(&self) {
        let folder = self.file.parent().map(super::private_files::create_private_folder);
        if let Some(Ok(_)) = folder {
            let _ = fs::write(&self.file, &self.identity);
        }
    }
}

/// Finds the version in the output of a program: `2.1.325 (Claude Code)`, `codex-cli 0.166.0`.
fn find_version(printed: &str) -> Option<&str> {
    let words = printed.split_whitespace().map(|word| word.trim_start_matches('v'));
    words.into_iter().find(|word| parse_version(word).is_some())
}

/// Parses the numbers of a version, without a suffix such as `-beta.1`.
fn parse_version(text: &str) -> Option<Vec<u64>> {
    let numbers = text.split(['-', '+']).next()?;
    let parts: Vec<&str> = numbers.split('.').collect();
    if parts.len() < 2 {
        return None;
    }
    parts.iter().map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAUDE: SupportedVersions =
        SupportedVersions { program: "claude", oldest: "2.1.9", install: Some("npm i claude") };

    #[test]
    fn a_version_is_found_in_what_programs_print() {
        for (printed, expected) in [
            ("2.1.325 (Claude Code)\n", Some("2.1.325")),
            ("codex-cli 0.166.0\n", Some("0.166.0")),
            ("v1.2.3", Some("1.2.3")),
            ("GitHub Copilot CLI 1.0.102.", None),
            ("0.61.0", Some("0.61.0")),
            ("1.0.0-beta.2", Some("1.0.0-beta.2")),
            ("unknown", None),
            ("5", None),
            ("", None),
        ] {
            assert_eq!(find_version(printed), expected, "{printed:?}");
        }
    }

    #[test]
    fn a_check_is_recorded_for_one_state_of_one_program() {
        let folder = tempfile::tempdir().unwrap();
        let keep = folder.path().join("keep");
        let checked = |program: &str| CheckedProgram::new(Path::new(program), &keep);
        assert!(!checked("/bin/sh").is_recorded());
        checked("/bin/sh").record();
        assert!(checked("/bin/sh").is_recorded());
        assert!(!checked("/bin/true").is_recorded());
    }

    #[tokio::test]
    async fn only_a_program_that_prints_an_older_version_is_refused() {
        for (printed, is_refused) in [
            ("2.1.8 (Claude Code)", true),
            ("1.9.99", true),
            ("2.1.9", false),
            ("2.1.10", false),
            ("3.0", false),
            ("no version", false),
        ] {
            let mut command = Command::new("sh");
            command.args(["-c", &format!("echo '{printed}'")]);
            let checked = CLAUDE.check(command).await;
            let expected = format!(
                "claude {} is too old: this version of agent-worker needs 2.1.9 or newer; update it: npm i claude",
                printed.split(' ').next().unwrap()
            );
            let failed = checked.err().map(|failure| (failure.class, failure.why));
            let refused = (FailureClass::OutdatedProgram, expected);
            assert_eq!(failed, is_refused.then_some(refused), "{printed}");
        }
        assert!(CLAUDE.check(Command::new("/no/such/program")).await.is_ok());
    }
}
