//! The first file of `init --api`: a team with a key and without a program, against the scripted model server.

use serde_json::json;

use crate::{
    model_server::{KEY, ModelServer},
    world::World,
};

/// Each provider: its variables, its model, and a part of the path of its requests.
const PROVIDERS: [(&str, &str, &str, &str); 3] = [
    ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "anthropic/claude-sonnet-5-5", "/messages"),
    ("OPENAI_API_KEY", "OPENAI_BASE_URL", "openai/gpt-6.1-sol", "/responses"),
    ("GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL", "google/gemini-3.5-flash", "gemini-3.5-flash:"),
];

#[test]
fn the_first_file_for_a_key_runs_as_it_is() {
    for (key, url, model, path) in PROVIDERS {
        let models = ModelServer::start();
        let world = World::with(&[(key, KEY), (url, &(models.url() + "/v1"))]);
        world.file("README.md", "# Walrus");
        let made = world.run(&["init", "--api"]);
        let expected =
            format!("agents of {model}: {key} is set\nhint: try it: agent-worker run team.yaml\n");
        assert_eq!((made.code, made.stdout.as_str(), made.stderr), (0, "team.yaml\n", expected));
        let valid = world.run(&["validate", "team.yaml"]);
        assert_eq!((valid.code, valid.stderr.as_str()), (0, ""), "{valid:?}");
        let check = json!({"to": ["reviewer"], "message": "Please check.\nSAY It is right"});
        let note = json!({"content": "- a fact\n"});
        let topic =
            format!("it\nCALL document_append {note}\nCALL channel_send {check}\nSAY Written.");
        let words = ["run", "team.yaml", "--topic", &topic, "--json"];
        let (code, report) = world.envelope(&words);
        assert_eq!((code, &report["outcome"]), (0, &json!("done")), "{model}: {report}");
        assert_eq!(report["answers"]["reviewer"]["text"], "It is right", "{report}");
        assert_eq!(world.run(&["doc", "read"]).stdout, "- a fact\n");
        let requests = models.requests();
        assert!(requests.iter().all(|request| request.path.contains(path)), "{requests:?}");
        assert!(requests[0].body.to_string().contains("# Walrus"), "{requests:?}");
    }
}

#[test]
fn without_a_flag_a_key_is_used_where_no_program_is_installed() {
    let world = World::with(&[("OPENAI_API_KEY", KEY)]);
    let made = world.json(&["init", "--json"]);
    assert_eq!((&made["preset"], &made["backend"]), (&json!("api"), &json!("api")), "{made}");
    let plain = World::new();
    assert_eq!(plain.json(&["init", "--json"])["preset"], "mock");
    let made = plain.run(&["init", "--api", "other.yaml"]);
    assert_eq!(made.code, 0, "{made:?}");
    let first = "agents of anthropic/claude-sonnet-5-5; ANTHROPIC_API_KEY is not set\n";
    assert!(made.stderr.starts_with(first), "{made:?}");
    assert!(made.stderr.contains("no key for `anthropic`"), "{made:?}");
    let made = plain.run(&["init", "--api", "--model", "ollama/qwen3", "local.yaml"]);
    assert!(
        made.stderr.starts_with("agents of ollama/qwen3: its server needs no key\n"),
        "{made:?}"
    );
    let refused = plain.run(&["init", "--api", "--model", "x", "never.yaml"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(!plain.project().join("never.yaml").exists());
}
