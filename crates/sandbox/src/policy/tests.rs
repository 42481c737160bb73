//! Tables of the policy and its translations, for an invented machine.

use std::path::{Path, PathBuf};

use agent_worker_protocol::{
    MemoryLimit, SandboxLevel, SandboxMode, SandboxNetwork, SandboxSettings,
};

use super::*;
use crate::{
    bubblewrap::bubblewrap_args,
    facts::{PathKind, SandboxFacts},
    landlock_rules::{LandlockRight, landlock_rules},
};

/// The files of a machine: a path ending in `/` is a folder, one ending in `@` a link.
#[derive(Clone, Default)]
struct TestMachine {
    files: Vec<&'static str>,
    work: PathBuf,
    git: Option<GitLayout>,
    settings: SandboxSettings,
    hidden: Vec<PathBuf>,
    read_only: Vec<PathBuf>,
    outside: Vec<PathBuf>,
}

const REPOSITORY: [&str; 7] = [
    "/home/me/repo/",
    "/home/me/repo/.git/",
    "/home/me/repo/.git/hooks/",
    "/home/me/repo/.git/config",
    "/home/me/repo/.claude/",
    "/home/me/.cargo/",
    "/home/me/.cargo/credentials.toml",
];

fn machine(files: &[&'static str]) -> TestMachine {
    let system = ["/usr/", "/etc/", "/etc/shadow", "/etc/passwd", "/tmp/", "/home/me/"];
    let repo = PathBuf::from("/home/me/repo");
    TestMachine {
        files: [&system, files].concat(),
        git: Some(GitLayout {
            root: repo.clone(),
            folder: repo.join(".git"),
            common: repo.join(".git"),
        }),
        work: repo,
        hidden: vec!["/home/me/.agent-worker".into()],
        ..TestMachine::default()
    }
}

impl TestMachine {
    fn kind_of(&self, path: &Path) -> PathKind {
        let path = path.to_str().unwrap();
        let found = self.files.iter().find(|file| file.trim_end_matches(['/', '@']) == path);
        match found.map(|file| file.chars().last()) {
            None => PathKind::Missing,
            Some(Some('/')) => PathKind::Folder,
            Some(Some('@')) => PathKind::Link,
            Some(_) => PathKind::File,
        }
    }

    fn policy(&self) -> Result<SandboxPolicy, SandboxError> {
        let env = [("PATH", "/usr/bin:/home/me/tools:/home/me")];
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        sandbox_policy(&SandboxFacts {
            work: &self.work,
            home: Some(Path::new("/home/me")),
            private: Path::new("/private"),
            env: &env,
            git: self.git.as_ref(),
            settings: &self.settings,
            read: &[],
            write: &[],
            read_only: &self.read_only,
            outside: &self.outside,
            hidden: &self.hidden,
            kind_of: &|path| self.kind_of(path),
        })
    }

    fn rules(&self) -> String {
        let policy = self.policy().unwrap();
        let lines =
            policy.rules.iter().map(|(path, access)| format!("{} {access:?}", path.display()));
        lines.collect::<Vec<_>>().join("\n")
    }
}

#[test]
fn a_repository_is_writable_except_for_hooks_settings_and_agents() {
    insta::assert_snapshot!(machine(&REPOSITORY).rules(), @r#"
    /etc ReadOnly
    /etc/shadow HiddenFile
    /home/me Empty
    /home/me/.cargo ReadOnly
    /home/me/.cargo/credentials.toml HiddenFile
    /home/me/repo Writable
    /home/me/repo/.agents HiddenFolder
    /home/me/repo/.claude ReadOnly
    /home/me/repo/.codex HiddenFolder
    /home/me/repo/.cursor HiddenFolder
    /home/me/repo/.gemini HiddenFolder
    /home/me/repo/.git Writable
    /home/me/repo/.git/commondir ReadOnly
    /home/me/repo/.git/config ReadOnly
    /home/me/repo/.git/hooks ReadOnly
    /home/me/repo/.mcp.json HiddenFolder
    /private/cache Writable
    /tmp Private("/private/tmp")
    /usr ReadOnly
    "#);
}

#[test]
fn in_a_worktree_only_its_own_part_of_the_main_repository_is_writable() {
    let mut machine = machine(&[
        "/home/me/tree/",
        "/home/me/tree/.git",
        "/home/me/repo/.git/",
        "/home/me/repo/.git/objects/",
        "/home/me/repo/.git/refs/",
        "/home/me/repo/.git/hooks/",
        "/home/me/repo/.git/config",
        "/home/me/repo/.git/worktrees/tree/",
        "/home/me/repo/.git/worktrees/tree/commondir",
    ]);
    machine.work = "/home/me/tree".into();
    machine.git = Some(GitLayout {
        root: "/home/me/tree".into(),
        folder: "/home/me/repo/.git/worktrees/tree".into(),
        common: "/home/me/repo/.git".into(),
    });
    let rules = machine.rules();
    let of_git: Vec<&str> = rules.lines().filter(|line| line.contains(".git")).collect();
    insta::assert_snapshot!(of_git.join("\n"), @"
    /home/me/repo/.git ReadOnly
    /home/me/repo/.git/config ReadOnly
    /home/me/repo/.git/hooks ReadOnly
    /home/me/repo/.git/objects Writable
    /home/me/repo/.git/refs Writable
    /home/me/repo/.git/worktrees/tree Writable
    /home/me/repo/.git/worktrees/tree/commondir ReadOnly
    /home/me/tree/.git ReadOnly
    ");
}

#[test]
fn in_a_subfolder_the_rest_of_the_repository_can_be_read() {
    let files = [&REPOSITORY[..], &["/home/me/repo/sub/"]].concat();
    let mut machine = machine(&files);
    machine.work = "/home/me/repo/sub".into();
    let policy = machine.policy().unwrap();
    for (path, access) in [
        ("/home/me/repo", PathAccess::ReadOnly),
        ("/home/me/repo/.git", PathAccess::Writable),
        ("/home/me/repo/.git/hooks", PathAccess::ReadOnly),
        ("/home/me/repo/sub", PathAccess::Writable),
        ("/home/me/repo/sub/.git", PathAccess::HiddenFolder),
    ] {
        assert_eq!(policy.rules.get(Path::new(path)), Some(&access), "{path}");
    }
}

#[test]
fn a_missing_git_folder_is_held_by_a_placeholder() {
    let mut machine = machine(&["/home/me/repo/"]);
    machine.git = None;
    let policy = machine.policy().unwrap();
    assert!(policy.placeholders.contains(&Placeholder::Folder("/home/me/repo/.git".into())));
    assert_eq!(policy.rules[Path::new("/home/me/repo/.git")], PathAccess::HiddenFolder);
}

#[test]
fn the_workflow_file_in_the_working_folder_is_read_only() {
    let mut machine =
        machine(&["/home/me/repo/", "/home/me/repo/team.yaml", "/home/me/other.yaml"]);
    machine.read_only = vec!["/home/me/repo/team.yaml".into(), "/home/me/other.yaml".into()];
    let policy = machine.policy().unwrap();
    assert_eq!(policy.rules[Path::new("/home/me/repo/team.yaml")], PathAccess::ReadOnly);
    assert_eq!(policy.rules.get(Path::new("/home/me/other.yaml")), None);
}

#[test]
fn a_file_that_runs_outside_can_be_neither_changed_nor_replaced() {
    let files = [
        "/home/me/repo/",
        "/home/me/repo/bin/",
        "/home/me/repo/bin/notify.sh",
        "/home/me/repo/link@",
        "/home/me/notes/",
        "/home/me/notes/notify.sh",
        "/home/me/notify.sh",
    ];
    let mut machine = machine(&files);
    machine.settings.write = vec!["/home/me/notes".into()];
    machine.outside = vec![
        "/home/me/repo/bin/notify.sh".into(),
        "/home/me/notes/notify.sh".into(),
        "/home/me/notify.sh".into(),
        "/home/me/missing.sh".into(),
        "/usr/bin/missing".into(),
    ];
    let rules = machine.policy().unwrap().rules;
    let rule = |path: &str| rules.get(Path::new(path));
    assert_eq!(rule("/home/me/repo/bin/notify.sh"), Some(&PathAccess::ReadOnly));
    assert_eq!(rule("/home/me/repo/bin"), Some(&PathAccess::Writable), "it cannot be renamed");
    assert_eq!(rule("/home/me/notes/notify.sh"), Some(&PathAccess::ReadOnly));
    for outside in ["/home/me/notify.sh", "/home/me/missing.sh", "/usr/bin/missing"] {
        assert_eq!(rule(outside), None, "{outside}");
    }
    for (path, why) in [
        ("/home/me/repo/missing.sh", "it does not exist"),
        ("/home/me/repo/link", "is a link"),
        ("/home/me/repo", "it is a folder that the agent may change"),
    ] {
        machine.outside = vec![path.into()];
        let error = machine.policy().unwrap_err().to_string();
        assert!(error.contains(path) && error.contains(why), "{error}");
    }
}

#[test]
fn a_folder_that_exposes_what_is_hidden_is_refused() {
    let settings =
        |read: &str| SandboxSettings { read: vec![read.into()], ..SandboxSettings::default() };
    let none = SandboxSettings::default();
    let files = ["/home/me/.agent-worker/", "/home/me/repo/", "/home/me/repo/.claude@"];
    let cases = [
        ("/home/me", none.clone(), "it contains your home folder"),
        ("/home", none.clone(), "it contains your home folder"),
        ("/", none.clone(), "it contains your home folder"),
        ("/usr", none.clone(), "it contains a folder of the system"),
        ("/var", none.clone(), "it contains the folder for temporary files"),
        ("/home/me/.agent-worker/x", none.clone(), "it is inside the home of agent-worker"),
        (
            "/home/me/other",
            settings("/home/me/.agent-worker/db"),
            "inside the home of agent-worker",
        ),
        ("/home/me/other", settings("/home/me/nothing"), "it does not exist"),
        ("/home/me/repo", none, "`/home/me/repo/.claude` is a link"),
    ];
    for (work, settings, expected) in cases {
        let machine = TestMachine { work: work.into(), settings, ..machine(&files) };
        let error = machine.policy().unwrap_err().to_string();
        assert!(error.contains(expected), "{work}: {error}");
    }
}

#[test]
fn the_rules_of_a_file_are_added_and_do_not_expose_the_home_of_agent_worker() {
    let mut machine =
        machine(&["/home/me/repo/", "/home/me/notes/", "/data/", "/data/.agent-worker/"]);
    machine.hidden = vec!["/data/.agent-worker".into()];
    machine.settings = SandboxSettings {
        mode: SandboxMode::On,
        read: vec!["/data".into()],
        write: vec!["/home/me/notes".into()],
        network: SandboxNetwork::Open,
        memory: MemoryLimit::default(),
    };
    let policy = machine.policy().unwrap();
    assert_eq!(policy.network, SandboxNetwork::Open);
    for (path, access) in [
        ("/data", PathAccess::ReadOnly),
        ("/data/.agent-worker", PathAccess::HiddenFolder),
        ("/home/me/notes", PathAccess::Writable),
    ] {
        assert_eq!(policy.rules[Path::new(path)], access, "{path}");
    }
}

#[test]
fn bubblewrap_mounts_a_folder_before_everything_below_it() {
    let policy = machine(&REPOSITORY).policy().unwrap();
    let args = bubblewrap_args(&policy, None);
    insta::assert_snapshot!(args.join(" ").replace(" --", "\n--"), @"
    --unshare-user
    --unshare-pid
    --unshare-ipc
    --cap-drop ALL
    --die-with-parent
    --dev /dev
    --proc /proc
    --dir /run
    --unshare-net
    --ro-bind /etc /etc
    --ro-bind /dev/null /etc/shadow
    --tmpfs /home/me
    --ro-bind /home/me/.cargo /home/me/.cargo
    --ro-bind /dev/null /home/me/.cargo/credentials.toml
    --bind /home/me/repo /home/me/repo
    --tmpfs /home/me/repo/.agents
    --ro-bind /home/me/repo/.claude /home/me/repo/.claude
    --tmpfs /home/me/repo/.codex
    --tmpfs /home/me/repo/.cursor
    --tmpfs /home/me/repo/.gemini
    --bind /home/me/repo/.git /home/me/repo/.git
    --ro-bind /home/me/repo/.git/commondir /home/me/repo/.git/commondir
    --ro-bind /home/me/repo/.git/config /home/me/repo/.git/config
    --ro-bind /home/me/repo/.git/hooks /home/me/repo/.git/hooks
    --tmpfs /home/me/repo/.mcp.json
    --bind /private/cache /private/cache
    --bind /private/tmp /tmp
    --ro-bind /usr /usr
    --remount-ro /home/me/repo/.agents
    --remount-ro /home/me/repo/.codex
    --remount-ro /home/me/repo/.cursor
    --remount-ro /home/me/repo/.gemini
    --remount-ro /home/me/repo/.mcp.json
    --remount-ro /
    --chdir /home/me/repo
    --
    ");
    let open = SandboxPolicy { network: SandboxNetwork::Open, ..policy };
    assert!(!bubblewrap_args(&open, None).contains(&"--unshare-net".to_owned()));
}

/// Returns the Landlock rules at level `basic`; `/etc` has two entries.
fn basic_rules(policy: &SandboxPolicy) -> Result<Vec<(PathBuf, LandlockRight)>, SandboxError> {
    let entries = |folder: &Path| match folder.to_str() {
        Some("/etc") => vec!["/etc/passwd".into(), "/etc/shadow".into()],
        _ => Vec::new(),
    };
    landlock_rules(policy, SandboxLevel::Basic, &entries)
}

#[test]
fn landlock_reads_around_a_hidden_file_and_refuses_one_in_a_writable_folder() {
    let policy = machine(&REPOSITORY).policy().unwrap();
    let rules = basic_rules(&policy).unwrap();
    let right =
        |path: &str| rules.iter().find(|(at, _)| at == Path::new(path)).map(|(_, right)| *right);
    for (path, expected) in [
        ("/etc", None),
        ("/etc/passwd", Some(LandlockRight::Read)),
        ("/etc/shadow", None),
        ("/home/me", None),
        ("/home/me/repo", Some(LandlockRight::Write)),
        ("/tmp", None),
        ("/private/tmp", Some(LandlockRight::Write)),
        ("/proc", Some(LandlockRight::Read)),
    ] {
        assert_eq!(right(path), expected, "{path}");
    }
    let mut machine = machine(&["/home/me/repo/", "/home/me/repo/.home/"]);
    machine.hidden = vec!["/home/me/repo/.home".into()];
    let policy = machine.policy().unwrap();
    assert!(matches!(basic_rules(&policy), Err(SandboxError::NotHidden { .. })));
    let full = landlock_rules(&policy, SandboxLevel::Full, &|_| Vec::new()).unwrap();
    assert!(full.iter().any(|(path, _)| path == Path::new("/home/me")));
}
