//! A team for each provider of the registry: the path, the wire and the header of the key.

use agent_worker_backends::{KeyNeed, PROVIDERS};
use serde_json::json;

use crate::{
    api_agents::{ApiWorld, note_and_pass_on},
    model_server::{KEY, ModelServer, RecordedResponse},
    world::World,
};

/// Each provider: the path of its endpoint, the path of a request, and the header with the key.
const REQUESTS: [(&str, &str, &str, &str); 14] = [
    ("anthropic", "", "/v1/messages", "x-api-key"),
    ("openai", "/v1", "/v1/responses", "authorization"),
    ("google", "", "/v1beta/models/scripted:streamGenerateContent", "x-goog-api-key"),
    ("azure", "/openai/v1", "/openai/v1/responses", "api-key"),
    ("openrouter", "/api/v1", "/api/v1/chat/completions", "authorization"),
    ("deepseek", "/v1", "/v1/chat/completions", "authorization"),
    ("groq", "/openai/v1", "/openai/v1/chat/completions", "authorization"),
    ("mistral", "/v1", "/v1/chat/completions", "authorization"),
    ("xai", "/v1", "/v1/chat/completions", "authorization"),
    ("together", "/v1", "/v1/chat/completions", "authorization"),
    ("ollama", "/v1", "/v1/chat/completions", "authorization"),
    ("lmstudio", "/v1", "/v1/chat/completions", "authorization"),
    ("vllm", "/v1", "/v1/chat/completions", "authorization"),
    ("llamacpp", "/v1", "/v1/chat/completions", "authorization"),
];
const KEY_HEADERS: [&str; 4] = ["authorization", "x-api-key", "x-goog-api-key", "api-key"];
/// An answer of a server without a key.
const KEYLESS_ANSWER: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"No key.\"},\
    \"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

/// Starts a server for one provider.
fn provider_world(name: &str, path: &str, key: &str) -> ApiWorld {
    let row = PROVIDERS.iter().find(|row| row.name == name).unwrap();
    let models = ModelServer::start();
    let url = models.url() + path;
    let world = World::with(&[(row.base_url_variable, &url), (row.key_variables[0], key)]);
    ApiWorld { world, models }
}

#[test]
fn every_provider_has_a_row_here_whose_path_is_that_of_its_own_endpoint() {
    let rows: Vec<_> = PROVIDERS.iter().map(|row| row.name).collect();
    assert_eq!(rows, REQUESTS.map(|(name, ..)| name));
    for (row, (name, path, ..)) in PROVIDERS.iter().zip(REQUESTS) {
        let own = row.base_url.splitn(4, '/').nth(3).map_or(String::new(), |own| format!("/{own}"));
        assert!(own == path || row.base_url.is_empty(), "{name}: {own}");
    }
}

#[test]
fn a_team_of_each_provider_uses_its_path_and_the_header_of_its_key() {
    for (name, path, expected, header) in REQUESTS {
        let test = provider_world(name, path, KEY);
        let model = format!("model: {name}/scripted");
        let last = "CALL document_read {}\nECHO";
        let kickoff = format!("@first go\n{}", note_and_pass_on("first", "second", last));
        let agents = [("first", model.as_str()), ("second", &model)];
        test.write(&agents, &format!("kickoff: {}\n", json!(kickoff)));
        let (code, envelope) = test.world.envelope(&["run", "team.yaml", "--json"]);
        assert_eq!((code, &envelope["outcome"]), (0, &json!("done")), "{name}: {envelope}");
        let document = test.world.run(&["doc", "read", "--target", "@team"]).stdout;
        assert_eq!(document, "- first\n", "{name}");
        let requests = test.models.requests();
        assert_eq!(requests.len(), 3 + 2, "{name}: one request for each step");
        for request in requests {
            assert_eq!(request.path, expected, "{name}");
            let value =
                if header == "authorization" { format!("Bearer {KEY}") } else { KEY.into() };
            assert_eq!(request.fields.get(header), Some(&value), "{name}");
            let sent: Vec<_> =
                KEY_HEADERS.iter().filter(|it| request.fields.contains_key(**it)).collect();
            assert_eq!(sent, [&header], "{name}: the key is sent once");
            let model = request.body["model"].as_str();
            assert_eq!(model, (name != "google").then_some("scripted"), "{name}");
        }
    }
}

#[test]
fn a_local_server_without_a_key_gets_no_header_of_one() {
    for row in PROVIDERS.iter().filter(|row| row.key_need == KeyNeed::Optional) {
        let test = provider_world(row.name, "/v1", "");
        test.models.replay([RecordedResponse::stream(KEYLESS_ANSWER)]);
        test.start(&format!("model: {}/scripted", row.name));
        assert_eq!(test.ask("hello"), "No key.", "{}", row.name);
        let fields = &test.models.requests()[0].fields;
        assert!(!KEY_HEADERS.iter().any(|name| fields.contains_key(*name)), "{}", row.name);
    }
}
