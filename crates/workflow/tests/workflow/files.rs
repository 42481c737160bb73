//! Files whose paths come from another author: the workflow itself and its prompts.

use std::{fs, os::unix::fs::symlink, path::Path};

use agent_worker_workflow::{Error, load};

fn refusal(path: &Path) -> String {
    load(path).unwrap_err().to_string()
}

#[test]
fn a_file_that_cannot_be_a_workflow_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("latin.yaml"), b"name: caf\xe9\n").unwrap();
    fs::write(path("long.yaml"), "# \n".repeat(400_000)).unwrap();
    for (name, part) in [
        ("none.yaml", "No such file"),
        (".", "not a regular file"),
        ("latin.yaml", "not UTF-8"),
        ("long.yaml", "longer than 1024 KiB"),
    ] {
        let message = refusal(&path(name));
        assert!(message.starts_with("cannot read /") && message.contains(part), "{message}");
    }
    assert!(refusal(Path::new("/dev/zero")).contains("not a regular file"));
}

#[test]
fn the_name_is_the_files_unless_it_says_another() {
    let folder = tempfile::tempdir().unwrap();
    let agents = "agents: { a: { backend: mock } }\n";
    for (file, head, name) in [
        ("review.yaml", "", "review"),
        ("review.v2.yml", "", "review.v2"),
        ("review.yaml", "name: other\n", "other"),
        ("my flow.yaml", "name: flow\n", "flow"),
    ] {
        let path = folder.path().join(file);
        fs::write(&path, format!("{head}{agents}")).unwrap();
        assert_eq!(load(&path).unwrap().name.as_str(), name, "{file}");
    }
    fs::write(folder.path().join("my flow.yaml"), agents).unwrap();
    let error = load(&folder.path().join("my flow.yaml")).unwrap_err();
    assert!(
        error.summary().contains("1:1: the file's name is not a valid workflow name"),
        "{error}"
    );
    assert_eq!(error.hint().as_deref(), Some("add `name:` to the file"));
}

/// Loads a workflow whose agent has this prompt, from a folder with a few files.
fn prompt(written: &str) -> Result<Option<String>, Error> {
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("project");
    fs::create_dir_all(folder.join("prompts")).unwrap();
    fs::write(outer.path().join("secret.md"), "secret").unwrap();
    fs::write(folder.join("prompts/reviewer.md"), "You review ${{ this }}.\n").unwrap();
    fs::write(folder.join("long.txt"), "x".repeat(300 << 10)).unwrap();
    fs::write(folder.join("longer.txt"), "x".repeat(2 << 20)).unwrap();
    fs::write(folder.join("latin.txt"), b"caf\xe9").unwrap();
    symlink("../secret.md", folder.join("out.md")).unwrap();
    symlink("prompts/reviewer.md", folder.join("in.md")).unwrap();
    symlink("..", folder.join("up")).unwrap();
    let written = serde_json::to_string(written).unwrap();
    let file = folder.join("team.yaml");
    fs::write(&file, format!("agents:\n  a: {{ backend: mock, system_prompt: {written} }}\n"))
        .unwrap();
    load(&file).map(|mut workflow| workflow.agents.remove(0).system_prompt)
}

#[test]
fn a_prompt_is_text_or_a_file_beneath_the_folder() {
    for (written, expected) in [
        ("You code.", "You code."),
        ("Write to notes.md", "Write to notes.md"),
        ("prompts/reviewer.md", "You review ${{ this }}.\n"),
        ("./prompts/../prompts/reviewer.md", "You review ${{ this }}.\n"),
        ("in.md", "You review ${{ this }}.\n"),
    ] {
        assert_eq!(prompt(written).unwrap().as_deref(), Some(expected), "{written}");
    }
    assert_eq!(prompt("long.txt").unwrap().map(|text| text.len()), Some(300 << 10));
}

#[test]
fn a_prompt_never_leaves_the_folder() {
    for (written, part) in [
        ("../secret.md", "is outside the workflow's folder"),
        ("prompts/../../secret.md", "is outside"),
        ("out.md", "is outside"),
        ("up/secret.md", "is outside"),
        ("/etc/hosts.txt", "is outside"),
        ("nowhere.md", "cannot read the prompt `nowhere.md`: No such file"),
        ("longer.txt", "longer than 1024 KiB"),
        ("latin.txt", "not UTF-8"),
        (
            "Review ${{ diff }}.",
            "`agents.a.system_prompt` cannot contain references in this version",
        ),
    ] {
        let error = prompt(written).unwrap_err();
        assert!(error.summary().contains(part), "{written}: {error}");
        assert!(error.summary().contains("team.yaml:2:38: "), "{written}: {error}");
    }
}
