//! A token for one folder starts the files of that folder and no others, by whatever path its holder names them.

use std::{fs, os::unix::fs::symlink, path::Path};

use serde_json::{Value, json};

use crate::world::{World, http_request, wait_for};

const TEAM: &str = "
agents: { coder: { backend: mock, mock: [{ say: Done. }] } }
kickoff: '@coder go'
";

/// The private folder beside the project: a workflow that leaves a mark, and a file that is no workflow.
fn private_folder(world: &World) -> String {
    let folder = world.project().with_file_name("private");
    fs::create_dir(&folder).unwrap();
    let mark = folder.join("mark");
    let evil = format!("setup: [{{ shell: 'touch {}' }}]{TEAM}", mark.display());
    fs::write(folder.join("evil.yaml"), evil).unwrap();
    fs::write(folder.join("evil.env"), "password: hunter2\n").unwrap();
    folder.to_str().unwrap().to_owned()
}

/// Starts a run with a token by each of the four ways and returns the responses.
fn start_by_every_way(world: &World, token: &str, file: &str, cwd: &Path) -> Vec<(u16, String)> {
    let body = json!({"file": file, "cwd": cwd}).to_string();
    let ask = |path: &str| http_request(&world.address(), token, "POST", path, &body);
    let mut answers: Vec<_> = ["/runs", "/run", "/serve"].map(ask).into();
    let params = json!({"name": "run_start", "arguments": {"file": file, "cwd": cwd}});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let (_, answer) = http_request(&world.address(), token, "POST", "/mcp", &call.to_string());
    let result: Value = serde_json::from_str(answer.lines().last().unwrap()).unwrap();
    let status = if result["result"]["isError"] == json!(true) { 400 } else { 200 };
    answers.push((status, answer));
    answers
}

#[test]
fn a_token_for_a_folder_starts_no_file_outside_of_it_by_any_path() {
    let world = World::new();
    let private = private_folder(&world);
    let project = world.project();
    fs::create_dir(project.join("sub")).unwrap();
    symlink("../private", project.join("relative")).unwrap();
    symlink(&private, project.join("absolute")).unwrap();
    for ending in ["yaml", "env"] {
        let file = format!("evil.{ending}");
        symlink(format!("../private/{file}"), project.join(format!("linked.{ending}"))).unwrap();
    }
    let mut daemon = world.daemon();
    let here = project.to_str().unwrap();
    let token = world.token("ci", &["--allow", "read,run", "--instance", here]);
    for path in [
        "../private/evil",
        "./../private/evil",
        "sub/../../private/evil",
        "sub/./.././../private/evil",
        "relative/evil",
        "absolute/evil",
        "linked",
    ] {
        for ending in ["yaml", "env"] {
            let file = format!("{here}/{path}.{ending}");
            for (status, answer) in start_by_every_way(&world, &token, &file, &project) {
                assert!(status == 400 || status == 404, "{file}: {answer}");
                assert!(!answer.contains("hunter2"), "{file}: {answer}");
                assert!(!answer.contains("password"), "{file}: {answer}");
            }
        }
    }
    assert!(!Path::new(&private).join("mark").exists());
    assert_eq!(world.list(&["ls", "--all", "--json"]), json!([]), "no instance was created");
    // The token still starts the files of its folder, also through a link that stays in it.
    world.file("team.yaml", TEAM);
    symlink("../team.yaml", project.join("sub/inner.yaml")).unwrap();
    for file in ["team.yaml", "sub/inner.yaml"] {
        let body = json!({"file": project.join(file), "cwd": project}).to_string();
        let (status, answer) = http_request(&world.address(), &token, "POST", "/serve", &body);
        assert_eq!(status, 200, "{file}: {answer}");
    }
    world.run(&["daemon", "stop", "--now"]);
    daemon.wait().unwrap();
}

#[test]
fn a_limited_token_learns_nothing_of_a_files_content_from_its_errors() {
    let world = World::new();
    let mut daemon = world.daemon();
    let here = world.project().to_str().unwrap().to_owned();
    let private = world.file("secret.yaml", "password: hunter2\nagents: [hunter2]\n");
    world.file("prompt.yaml", "agents: { a: { backend: mock, system_prompt: hunter2.md } }\n");
    for scope in [here.clone(), format!("{here}@secret"), "@secret:*".to_owned()] {
        let name = format!("ci{}", scope.len());
        let token = world.token(&name, &["--allow", "read,run", "--instance", &scope]);
        for file in [private.to_str().unwrap(), &format!("{here}/prompt.yaml")] {
            for (status, answer) in start_by_every_way(&world, &token, file, &world.project()) {
                assert!(status == 400 || status == 404, "{scope}: {answer}");
                for word in ["hunter2", "password", "system_prompt"] {
                    assert!(!answer.contains(word), "{scope}: {answer}");
                }
            }
        }
    }
    // The user is shown the mistake.
    let body = json!({"file": private, "cwd": here}).to_string();
    let (status, answer) = world.as_user("POST", "/runs", &body);
    assert!(status == 400 && answer.contains("password"), "{answer}");
    world.run(&["daemon", "stop", "--now"]);
    daemon.wait().unwrap();
}

#[test]
fn a_folder_is_one_project_by_whatever_path_a_caller_names_it() {
    let world = World::new();
    world.file("team.yaml", TEAM);
    let project = world.project();
    let alias = project.with_file_name("alias");
    symlink(&project, &alias).unwrap();
    let mut daemon = world.daemon();
    let started = world.run(&["start", "--background", "team.yaml"]);
    assert_eq!(started.code, 0, "{started:?}");
    let everywhere = world.token("ci", &["--allow", "read,run"]);
    let start = |file: &Path| {
        let body = json!({"file": file, "cwd": project, "mode": "start"}).to_string();
        let client = http_request(&world.address(), &everywhere, "POST", "/runs", &body).0;
        (world.as_user("POST", "/runs", &body).0, client)
    };
    let around = project.join("../project/team.yaml");
    assert_eq!(start(&around), (400, 400), "a path with `..` is refused");
    assert_eq!(start(&alias.join("team.yaml")), (409, 409), "the run is live");
    let runs = world.list(&["runs", "--all", "--json"]);
    assert_eq!(runs.as_array().unwrap().len(), 1, "{runs}");
    assert_eq!(runs[0]["project"], json!(project.canonicalize().unwrap()));
    // A token for the alias is a token for the folder.
    let scope = alias.to_str().unwrap();
    let token = world.token("alias", &["--allow", "read", "--instance", scope]);
    let listed = http_request(&world.address(), &token, "GET", "/runs", "").1;
    assert!(listed.contains(&runs[0]["run"].as_str().unwrap().to_owned()), "{listed}");
    // A folder in a query has one spelling too.
    let odd = format!("/runs?project={}/../project", project.display());
    assert_eq!(world.as_user("GET", &odd, "").0, 400);
    wait_for("the run's end", || (world.run(&["stop", "@team"]).code == 0).then_some(()));
    world.run(&["daemon", "stop", "--now"]);
    daemon.wait().unwrap();
}
