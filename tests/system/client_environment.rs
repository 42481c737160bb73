//! A client chooses neither the programs nor the folder of a trusted file's commands.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use serde_json::{Value, json};

use crate::world::{World, http_request};

/// A trusted file: its command calls a program by name, and prints what its shell was given.
const TEAM: &str = "
agents: { coder: { backend: mock, mock: [{ say: Done. }] } }
setup:
  - { shell: 'mark > /dev/null 2>&1 || true; ./mark > /dev/null 2>&1 || true; printenv > env.txt' }
  - { shell: 'echo ${{ env.GREETING }} > greeting.txt' }
kickoff: '@coder go'
";

/// The holder's folder with a program `mark` and a start-up file of bash, which both leave `marked`.
fn holder_folder(world: &World) -> String {
    let folder = world.project().with_file_name("holder");
    fs::create_dir(&folder).unwrap();
    let text = format!("#!/bin/sh\ntouch '{}/marked'\n", folder.display());
    for name in ["mark", "startup"] {
        fs::write(folder.join(name), &text).unwrap();
        fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    folder.to_str().unwrap().to_owned()
}

fn serve(world: &World, token: &str, cwd: &Path, env: &Value) -> (u16, String) {
    let file = world.project().join("team.yaml");
    let body = json!({"file": file, "cwd": cwd, "env": env}).to_string();
    http_request(&world.address(), token, "POST", "/serve", &body)
}

#[test]
fn a_clients_variables_and_folder_run_none_of_its_programs() {
    let world = World::new();
    world.file("team.yaml", TEAM);
    let holder = holder_folder(&world);
    let mut daemon = world.daemon();
    let here = world.project();
    let scope = here.to_str().unwrap();
    let token = world.token("ci", &["--allow", "read,run", "--instance", scope]);
    let everywhere = world.token("all", &["--allow", "read,run", "--env", "PAGER"]);
    let names = [
        "PATH",
        "HOME",
        "BASH_ENV",
        "ENV",
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "SHELLOPTS",
        "PS4",
        "IFS",
        "GIT_SSH_COMMAND",
        "GIT_DIR",
        "PAGER_OF_MINE",
        "AGENT_WORKER_HOME",
        "coder/PATH",
    ];
    for name in names {
        let value = if name == "PATH" {
            format!("{holder}:/usr/bin:/bin")
        } else {
            format!("{holder}/startup")
        };
        let env = json!({"GREETING": "hello", name: value});
        for token in [&token, &everywhere] {
            let (status, answer) = serve(&world, token, &here, &env);
            assert!(status == 403 && answer.contains(name), "{name}: {answer}");
        }
    }
    let greeting = json!({"GREETING": "hello"});
    for cwd in [Path::new(&holder), &here.join("../holder"), Path::new("/")] {
        let (status, answer) = serve(&world, &token, cwd, &greeting);
        assert!(matches!(status, 400 | 403), "{}: {answer}", cwd.display());
    }
    assert!(!Path::new(&holder).join("marked").exists());
    assert!(!here.join("greeting.txt").exists(), "no run was started");
    world.run(&["daemon", "stop", "--now"]);
    daemon.wait().unwrap();
}

#[test]
fn a_clients_run_has_the_path_of_the_daemon_and_the_variables_that_were_allowed() {
    let world = World::new();
    world.file("team.yaml", TEAM);
    let mut daemon = world.daemon_with(&[("PATH", "/usr/bin:/bin:/of/the/daemon")]);
    let scope = world.project().to_str().unwrap().to_owned();
    let options = ["--allow", "read,run", "--instance", &scope, "--env", "COLOR"];
    let token = world.token("ci", &options);
    let env = json!({"GREETING": "hello", "COLOR": "red"});
    let (status, answer) = serve(&world, &token, &world.project(), &env);
    assert_eq!(status, 200, "{answer}");
    let read = |name: &str| fs::read_to_string(world.project().join(name)).unwrap();
    assert_eq!(read("greeting.txt"), "hello\n");
    let seen = read("env.txt");
    for line in ["PATH=/usr/bin:/bin:/of/the/daemon", "COLOR=red", "GREETING=hello"] {
        assert!(seen.lines().any(|one| one == line), "{line}: {seen}");
    }
    assert!(seen.lines().any(|one| one.starts_with("HOME=/")), "{seen}");
    let listed = world.list(&["token", "list", "--json"]);
    assert_eq!(listed[0]["env"], json!(["COLOR"]), "{listed}");
    world.run(&["daemon", "stop", "--now"]);
    daemon.wait().unwrap();
}
