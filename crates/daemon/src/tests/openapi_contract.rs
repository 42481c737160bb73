//! Checks `/openapi.json` against the behaviour: every response in the tests of this crate is validated against it.

use std::{
    collections::HashMap,
    path::Path,
    sync::{LazyLock, Mutex},
};

use agent_worker_protocol::sync;

use jsonschema::Validator;
use serde_json::{Value, json};

use super::fixture::{DaemonFixture, TestRequest};
use crate::http::openapi;

static DOCUMENT: LazyLock<Value> = LazyLock::new(openapi);
static VALIDATORS: LazyLock<Mutex<HashMap<String, Validator>>> = LazyLock::new(Mutex::default);

/// Fails unless a response to `METHOD /path` matches the document.
pub(super) fn assert_matches_document(method: &str, path: &str, status: u16, body: &str) {
    let Ok(body) = serde_json::from_str::<Value>(body) else {
        let told = body.lines().filter_map(|line| line.strip_prefix("data: "));
        for data in told.filter(|data| !data.is_empty()) {
            let event: Value = serde_json::from_str(data).unwrap();
            if path == "/mcp" {
                assert_eq!(event["jsonrpc"], "2.0", "{event}");
                continue;
            }
            assert_valid("#/components/schemas/Event", &event, path);
        }
        return;
    };
    if path == "/mcp" && body.get("jsonrpc").is_some() {
        // The protocol itself defines the form of these messages.
        return;
    }
    let problem = "#/components/responses/Problem/content/application~1json/schema".to_owned();
    let schema = if status >= 400 {
        problem
    } else {
        let path = path.split('?').next().unwrap();
        let known = pattern(path).unwrap_or_else(|| panic!("{path} is not in the document"));
        let verb = method.to_lowercase();
        let operation = &DOCUMENT["paths"][&known][&verb];
        let content = &operation["responses"][status.to_string()]["content"];
        assert!(content["application/json"].is_object(), "{method} {path} {status}: {operation}");
        let known = known.replace('/', "~1").replace('{', "%7B").replace('}', "%7D");
        format!("#/paths/{known}/{verb}/responses/{status}/content/application~1json/schema")
    };
    assert_valid(&schema, &body, &format!("{method} {path} {status}"));
}

fn assert_valid(schema: &str, value: &Value, what: &str) {
    let mut validators = sync::lock(&VALIDATORS);
    let validator = validators.entry(schema.to_owned()).or_insert_with(|| validator(schema));
    let errors: Vec<String> = validator.iter_errors(value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{what}: {errors:?}\n{value:#}");
}

/// Returns true if the document allows a body for `POST /path`.
pub(super) fn accepts_body(path: &str, body: &Value) -> bool {
    let known = pattern(path).unwrap().replace('/', "~1").replace('{', "%7B").replace('}', "%7D");
    let schema = format!("#/paths/{known}/post/requestBody/content/application~1json/schema");
    validator(&schema).is_valid(body)
}

/// Returns the method and the path of every operation.
pub(super) fn operations() -> Vec<(String, String)> {
    let paths = DOCUMENT["paths"].as_object().unwrap();
    let methods = |(path, item): (&String, &Value)| {
        let methods = item.as_object().unwrap().keys();
        methods.map(|verb| (verb.to_uppercase(), path.clone())).collect::<Vec<_>>()
    };
    paths.iter().flat_map(methods).collect()
}

/// Returns the sentence of the document about the permitted callers.
pub(super) fn who_may(method: &str, path: &str) -> &'static str {
    DOCUMENT["paths"][path][method.to_lowercase()]["description"].as_str().unwrap()
}

/// Returns the path pattern of the document that matches a requested path.
fn pattern(path: &str) -> Option<String> {
    let fits = |pattern: &&String| {
        let (asked, known): (Vec<_>, Vec<_>) =
            (path.split('/').collect(), pattern.split('/').collect());
        let same = |(asked, known): (&&str, &&str)| known.starts_with('{') || asked == known;
        asked.len() == known.len() && asked.iter().zip(&known).all(same)
    };
    let known = DOCUMENT["paths"].as_object().unwrap().keys();
    let tail = |pattern: &&String| {
        let begin = pattern.strip_suffix("{path}");
        begin.is_some_and(|begin| path.starts_with(begin))
    };
    known.clone().find(fits).or_else(|| known.clone().find(tail)).cloned()
}

fn validator(schema: &str) -> Validator {
    let mut root = DOCUMENT.clone();
    root["$ref"] = json!(schema);
    let options = jsonschema::draft202012::options().should_validate_formats(true);
    options.build(&root).unwrap_or_else(|error| panic!("{schema}: {error}"))
}

#[test]
fn the_document_in_the_docs_is_the_one_that_is_served() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let kept: Value = serde_json::from_str(&kept).unwrap_or_default();
    if kept != *DOCUMENT {
        // In the folder of this test binary, so that another build writes a different file.
        let new = std::env::current_exe().unwrap().with_file_name("openapi.json");
        std::fs::write(&new, format!("{:#}\n", *DOCUMENT)).unwrap();
        panic!("docs/openapi.json is old; refresh it: cp {} docs/openapi.json", new.display());
    }
}

#[test]
fn every_reference_in_the_document_leads_somewhere_and_every_schema_is_one() {
    fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str));
                fields.values().for_each(|value| references(value, found));
            }
            Value::Array(values) => values.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    references(&DOCUMENT, &mut found);
    assert!(found.len() > 100, "{}", found.len());
    for reference in found {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(DOCUMENT.pointer(pointer).is_some(), "{reference}");
    }
    for (name, schema) in DOCUMENT["components"]["schemas"].as_object().unwrap() {
        jsonschema::meta::validate(schema).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn generators_of_clients_find_enums_and_objects_without_variants_beside_their_fields() {
    fn check(value: &Value, place: &str) {
        match value {
            Value::Object(fields) => {
                let has = |key: &str| fields.contains_key(key);
                let extends = has("oneOf") || has("anyOf") || has("$ref");
                assert!(
                    !(extends && fields.get("properties").is_some_and(Value::is_object)),
                    "{place}"
                );
                let variants = fields.get("oneOf").and_then(Value::as_array);
                let is_constant = |one: &Value| one.get("const").is_some();
                assert!(!variants.is_some_and(|all| all.iter().all(is_constant)), "{place}");
                fields.iter().for_each(|(key, value)| check(value, &format!("{place}/{key}")));
            }
            Value::Array(values) => values.iter().for_each(|value| check(value, place)),
            _ => {}
        }
    }
    check(&DOCUMENT["components"]["schemas"], "");
    let schemas = DOCUMENT["components"]["schemas"].as_object().unwrap();
    // A digit at the end means that two types have the same name in the document.
    let numbered: Vec<_> = schemas.keys().filter(|name| name.ends_with(char::is_numeric)).collect();
    assert_eq!(numbered, Vec::<&String>::new());
    let state = &schemas["RunView"]["properties"]["state"];
    assert_eq!(state["enum"], json!(["setup", "electing", "running", "paused", "ended"]));
    let required = schemas["RunView"]["required"].as_array().unwrap();
    assert!(required.contains(&json!("state")) && !required.contains(&json!("cause")));
}

#[test]
fn every_operation_has_a_name_of_its_own_and_describes_what_its_path_names() {
    let mut names = Vec::new();
    for (method, path) in operations() {
        let operation = &DOCUMENT["paths"][&path][method.to_lowercase()];
        names.push(operation["operationId"].as_str().unwrap());
        let parameters = operation["parameters"].as_array().unwrap();
        let in_path = parameters.iter().filter(|parameter| parameter["in"] == "path");
        let in_path: Vec<String> =
            in_path.map(|one| format!("{{{}}}", one["name"].as_str().unwrap())).collect();
        let written: Vec<&str> = path.split('/').filter(|part| part.starts_with('{')).collect();
        assert_eq!(in_path, written, "{method} {path}");
        for parameter in parameters {
            assert!(parameter["schema"].is_object(), "{parameter}");
            assert!(
                parameter["in"] == "path" || parameter["description"].is_string(),
                "{parameter}"
            );
        }
    }
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!((names.len(), count > 40), (count, true), "{names:?}");
}

#[tokio::test]
async fn the_document_is_served_and_every_operation_in_it_has_a_route() {
    let fixture = DaemonFixture::open().await;
    let token = fixture.client_token().await;
    let served = fixture.over_tcp(TestRequest::get("/openapi.json").token(&token)).await;
    assert_eq!(served.json(), *DOCUMENT);
    for (method, path) in operations() {
        let path = path.replace("{id}", &fixture.run.to_string());
        let path = path.replace("{target}", "nobody-here").replace("{seq}", "1");
        let path = path.replace("{name}", "x").replace("{path}", "a/b.md");
        // An unknown parameter makes the request fail before it has an effect.
        let answer =
            fixture.as_user(TestRequest::new(&method, &format!("{path}?nonsense=1"))).await;
        // Without a session there is no stream to read or end; clients interpret this status in that way.
        let of_a_session = path == "/mcp" && method != "POST";
        assert_eq!(answer.status == 405, of_a_session, "{method} {path}: {answer:?}");
        assert!(!answer.body.contains("there is nothing at"), "{method} {path}: {answer:?}");
    }
}
