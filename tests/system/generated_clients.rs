//! Clients that generators make from `docs/openapi.json` call the daemon: every GET route and the main POST routes.

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::{Value, json};

use crate::{
    external_programs::{ExternalPrograms, run},
    world::{CommandOutput, World},
};

const TEAM: &str = "
name: team
agents:
  coder: { backend: mock, mock: [{ say: Done. }] }
kickoff: '@coder begin'
";

/// Options of the TypeScript compiler: everything strict, also in the generated files.
const TYPESCRIPT: &str = r#"{"compilerOptions": {"strict": true, "target": "es2022", "module": "commonjs", "outDir": "js",
  "moduleResolution": "node10", "ignoreDeprecations": "5.0", "lib": ["es2023", "dom", "dom.iterable"], "types": ["node"]},
  "include": ["ts/**/*.ts", "generated.ts"]}"#;

/// Routes that read and need more than a request: a session of MCP.
const NOT_CALLED: [&str; 1] = ["GET /mcp"];

fn document() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/openapi.json");
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Creates a project with the description of the API and a team, and a daemon with a token.
fn world() -> (World, String) {
    let world = World::new();
    world.file("openapi.json", &document().to_string());
    world.file("team.yaml", TEAM);
    let allow = "read,send,documents,run,agents,letters,approve,limits";
    let token = world.json(&["token", "create", "ci", "--allow", allow, "--json"]);
    (world, token["token"].as_str().unwrap().to_owned())
}

/// Returns every GET route that the document describes, except those that `skip` selects.
fn readable(skip: impl Fn(&Value) -> bool) -> BTreeSet<String> {
    let document = document();
    let paths = document["paths"].as_object().unwrap().iter();
    let paths = paths.filter(|(_, item)| item["get"].is_object() && !skip(&item["get"]));
    let all = paths.map(|(path, _)| format!("GET {path}"));
    all.filter(|route| !NOT_CALLED.contains(&route.as_str())).collect()
}

/// Checks which routes a client called.
fn check_called(said: &CommandOutput, readable: &BTreeSet<String>) {
    assert_eq!(said.code, 0, "{said:?}");
    let called: BTreeSet<String> = serde_json::from_str(said.stdout.trim()).unwrap();
    let missing: Vec<_> = readable.difference(&called).collect();
    assert!(missing.is_empty(), "not called: {missing:?}");
    for route in ["POST /serve", "POST /runs", "POST /messages", "POST /documents/{path}"] {
        assert!(called.contains(route), "{route}");
    }
}

#[test]
fn a_generated_python_client_reads_every_route_and_keeps_every_field() {
    let Some(external) = ExternalPrograms::locate_or_skip("a generated Python client") else {
        return;
    };
    let (world, _) = world();
    let folder = world.project();
    let config = world.file("generator.yaml", "post_hooks: []\n");
    let mut generate = external.python("openapi-python-client");
    generate.current_dir(&folder).args(["generate", "--meta", "none", "--path", "openapi.json"]);
    generate.args(["--fail-on-warning", "--output-path", "aw_client", "--config"]).arg(config);
    let generated = run(generate);
    assert_eq!(generated.code, 0, "{generated:?}");
    let mut client = external.script("generated.py", &folder);
    client.arg(&folder).arg(world.home().join("daemon.sock"));
    client.arg(folder.join("openapi.json")).arg(&folder);
    check_called(&run(client), &readable(|_| false));
}

#[test]
fn a_generated_typescript_client_has_usable_types_and_reads_every_route_of_a_token() {
    let Some(external) = ExternalPrograms::locate_or_skip("a generated TypeScript client") else {
        return;
    };
    let (world, token) = world();
    let folder = world.project();
    // Copies the script; its compiled form is run below.
    drop(external.script("generated.ts", &folder));
    world.file("tsconfig.json", TYPESCRIPT);
    for (script, args) in [
        ("@hey-api/openapi-ts/bin/run.js", &["-i", "openapi.json", "-o", "ts"][..]),
        ("typescript/bin/tsc", &["-p", "."]),
    ] {
        let mut step = external.node(script);
        step.current_dir(&folder).env("HOME", &folder).args(args);
        let done = run(step);
        assert_eq!(done.code, 0, "{script}: {done:?}");
    }
    let mut client = std::process::Command::new(external.node_path());
    client.current_dir(&folder).arg("js/generated.js");
    client.arg(format!("http://127.0.0.1:{}", world.port()));
    client.arg(token).arg(&folder);
    let users_alone = |get: &Value| get["description"] == json!("Open only to the user.");
    check_called(&run(client), &readable(users_alone));
}
