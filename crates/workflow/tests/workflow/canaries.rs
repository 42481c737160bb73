//! Generated scripts with hostile values: a script that the loader accepts never runs a value as code in its shell.
//!
//! Each accepted script is run by bash and by dash with 20 canaries: values that create a file when a shell, or an
//! interpreter that the script starts, runs them. `AW_SCRIPTS` sets the number of scripts.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use agent_worker_workflow::TemplateScope;

use crate::{
    attacks::{BASH_ATTACKS, POSIX_ATTACKS},
    positions::{BASH, Choices, POSIX},
    shell::step,
};

/// Canaries; `@` is the file that code creates. `pwn` is a program that creates it.
const CANARIES: [&str; 20] = [
    "$(>@)",
    "`>@`",
    ";>@;",
    "\n>@\n",
    "';>@;'",
    "\";>@;\"",
    "a[$(>@)]",
    "a[$(>@)]=1",
    "([0]=$(>@))",
    "[$(>@)]=1",
    "1+a[$(>@)]",
    "-v a[$(>@)] b",
    "-va[$(>@)]",
    "-v",
    "pwn",
    ">@",
    "EOF\n>@\nEOF\n",
    "eval >@",
    "import os; os.system('pwn')",
    "BEGIN { system(\"pwn\") }",
];

/// Canaries that fire in most positions of code.
const STRONG_CANARIES: [usize; 5] = [0, 6, 8, 14, 18];

/// Runs every script of a folder in a subshell of its own with every canary, until one created the file.
const DRIVER: &str = r#"
for script in "$FOLDER"/script-*; do
  for value in "$FOLDER"/value-*; do
    # Descriptor 3 makes the driver wait for the processes that the script leaves.
    left=$( (export AW_F1="$value"; . "$script") 3>&1 </dev/null >/dev/null 2>&1)
    if [ -e "$FOLDER/created" ]; then
      echo "${script##*-} ${value##*-}"
      rm -f "$FOLDER/created"
      break
    fi
  done
done
"#;

struct Cage {
    folder: tempfile::TempDir,
}

impl Cage {
    fn new(canaries: &[usize]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let created = folder.path().join("created");
        let bin = folder.path().join("bin");
        fs::create_dir(&bin).unwrap();
        fs::create_dir(folder.path().join("work")).unwrap();
        let program = bin.join("pwn");
        fs::write(&program, format!("#!/bin/sh\n>{}\n", created.display())).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(folder.path().join("driver"), DRIVER).unwrap();
        for n in canaries {
            let value = CANARIES[*n].replace('@', created.to_str().unwrap());
            fs::write(folder.path().join(format!("value-{n}")), value).unwrap();
        }
        Self { folder }
    }

    fn script(&self, n: usize) -> PathBuf {
        self.folder.path().join(format!("script-{n}"))
    }

    /// Returns the scripts that ran a canary, with the number of one such canary.
    fn run(&self, shell: &str) -> Vec<(usize, usize)> {
        let folder = self.folder.path();
        // Without the wrappers of version managers, which take a second to start an interpreter.
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", folder.join("bin").display());
        let output = Command::new(shell)
            .arg(folder.join("driver"))
            .current_dir(folder.join("work"))
            .env("PATH", path)
            .env("FOLDER", folder)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .unwrap();
        let number = |text: &str| text.parse().unwrap();
        let fired = |line: &str| line.split_once(' ').map(|(a, b)| (number(a), number(b)));
        String::from_utf8(output.stdout).unwrap().lines().filter_map(fired).collect()
    }
}

/// Returns the script as the loader prepares it, if the loader accepts it.
fn accepted(shell: &str, script: &str) -> Option<String> {
    let mut scope = TemplateScope::default();
    scope.insert_output("x", "");
    Some(step(shell, script).ok()?.shell.prepare(&scope).unwrap().script)
}

/// Runs scripts with canaries and returns those that ran one.
fn fired(shell: &str, scripts: &[String], canaries: &[usize]) -> BTreeSet<(usize, usize)> {
    let mut all = BTreeSet::new();
    for (chunk, scripts) in scripts.chunks(200).enumerate() {
        let cage = Cage::new(canaries);
        for (n, script) in scripts.iter().enumerate() {
            fs::write(cage.script(n), script).unwrap();
        }
        all.extend(cage.run(shell).into_iter().map(|(n, canary)| (chunk * 200 + n, canary)));
    }
    all
}

fn check_generated_scripts(shell: &str, seed: u64) {
    #[expect(clippy::disallowed_methods, reason = "how long a test is to take")]
    let count = std::env::var("AW_SCRIPTS").map_or(500, |text| text.parse().unwrap());
    let mut choices = Choices::new(seed);
    let (mut written, mut prepared) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let script = choices.script(shell);
        if let Some(ready) = accepted(shell, &script) {
            written.push(script);
            prepared.push(ready);
        }
    }
    assert!(prepared.len() > count / 10, "{shell}: {} of {count} are accepted", prepared.len());
    let all: Vec<usize> = (0..CANARIES.len()).collect();
    let fired = fired(shell, &prepared, &all);
    let shown: BTreeSet<String> = fired
        .iter()
        .map(|(n, canary)| format!("{}\n  with {:?}", written[*n], CANARIES[*canary]))
        .collect();
    let shown: Vec<_> = shown.into_iter().take(30).collect();
    assert!(
        fired.is_empty(),
        "{shell}: {} of {} accepted scripts ran a value:\n{}",
        fired.iter().map(|(n, _)| n).collect::<BTreeSet<_>>().len(),
        prepared.len(),
        shown.join("\n")
    );
}

#[test]
fn no_accepted_script_of_bash_runs_a_value() {
    check_generated_scripts("bash", 1);
}

#[test]
fn no_accepted_script_of_dash_runs_a_value() {
    check_generated_scripts("dash", 2);
}

/// Prepares a script without any check.
fn forced(script: &str) -> String {
    let reference = |quoted: &str| format!("AW_V1=$(cat <\"$AW_F1\"); {quoted}");
    reference(&script.replace('@', "\"$AW_V1\""))
}

#[test]
fn the_canaries_find_the_positions_in_which_a_value_is_code() {
    let all = [POSIX, BASH, POSIX_ATTACKS, BASH_ATTACKS].concat();
    let scripts: Vec<String> = all.iter().map(|script| forced(script)).collect();
    let fired = fired("bash", &scripts, &STRONG_CANARIES);
    let dangerous: BTreeSet<usize> = fired.iter().map(|(n, _)| *n).collect();
    assert!(dangerous.len() > 190, "{} positions", dangerous.len());
    for (n, script) in all.iter().enumerate().filter(|(n, _)| dangerous.contains(n)) {
        let refused = step("bash", &script.replace('@', "${{ x }}")).is_err();
        assert!(refused, "{n} is accepted and runs a value:\n{script}");
    }
    assert!(!Path::new("created").exists());
}
