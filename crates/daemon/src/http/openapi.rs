//! The document `/openapi.json`: requests and responses of every route, for programs. It is generated from the list
//! that the router is built from and from the types of the bodies, so that it cannot differ from the behaviour.

mod plain_schemas;

use std::sync::LazyLock;

use agent_worker_protocol::{Event, ProblemBody};
use axum::{
    http::{StatusCode, header::CONTENT_TYPE},
    response::IntoResponse,
};
use schemars::{Schema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use super::{
    route::{IdempotencySupport, ResponseKind, Route, RouteAccess},
    routes::routes,
};

const API_DESCRIPTION: &str = "On the Unix socket in the daemon's home the caller is the user. On the loopback port, and for every \
other caller, a token is required. Every error is a Problem; `/mcp` also returns the errors of its protocol.";

/// Handles `GET /openapi.json`.
pub(super) async fn show() -> impl IntoResponse {
    static TEXT: LazyLock<String> = LazyLock::new(|| format!("{:#}\n", document()));
    ([(CONTENT_TYPE, "application/json")], TEXT.as_str())
}

/// Builds the whole document.
pub(crate) fn document() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.definitions_path = "/components/schemas".into();
    });
    let mut generator = settings.into_generator();
    let mut paths = Map::new();
    for route in routes() {
        let path = paths.entry(route.path.replace("{*", "{")).or_insert_with(|| json!({}));
        path[route.verb.as_str().to_lowercase()] = operation(&route, &mut generator);
    }
    let problem = json_content(&generator.subschema_for::<ProblemBody>());
    let mut schemas = generator.take_definitions(true);
    plain_schemas::rewrite(&mut schemas);
    json!({
        "openapi": "3.1.0",
        "info": {"title": "agent-worker", "version": env!("CARGO_PKG_VERSION"), "description": API_DESCRIPTION},
        "servers": [{"url": "http://127.0.0.1:5099", "description": "`agent-worker daemon status` prints the port"}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": {"Problem": {"description": "The error.", "content": problem}},
            "securitySchemes": {"token": {
                "type": "http", "scheme": "bearer", "description": "created with `agent-worker token create`",
            }},
        },
    })
}

fn operation(route: &Route, generator: &mut SchemaGenerator) -> Value {
    let noun = route.path.split('/').nth(1).unwrap_or_default();
    let token = || json!([{"token": []}, {}]);
    let (who, security) = match route.access {
        RouteAccess::Anybody => ("Open to every caller.".to_owned(), json!([])),
        RouteAccess::Identified => ("Open to every identified caller.".to_owned(), token()),
        RouteAccess::Requires(what) => (format!("A client's token must allow `{what}`."), token()),
        RouteAccess::RequiresEither(one, other) => {
            (format!("A client's token must allow `{one}` or `{other}`."), token())
        }
        RouteAccess::User => ("Open only to the user.".to_owned(), json!([])),
        RouteAccess::Workers => ("Open only to agents.".to_owned(), token()),
    };
    let mut operation = json!({
        "operationId": id(route),
        "summary": route.summary,
        "description": who,
        "tags": [noun.trim_end_matches(".json")],
        "security": security,
        "parameters": parameters(route, generator),
        "responses": responses(route, generator),
    });
    if let Some(body) = route.body_schema {
        let content = json_content(&body(generator));
        operation["requestBody"] = json!({"required": route.is_body_required, "content": content});
    }
    operation
}

/// Returns the id of an operation, such as `post_runs_id_stop`.
fn id(route: &Route) -> String {
    let words = route.path.split(|c: char| !c.is_ascii_alphanumeric());
    let words = words.filter(|word| !word.is_empty());
    words.fold(route.verb.as_str().to_lowercase(), |id, word| format!("{id}_{word}"))
}

fn parameters(route: &Route, generator: &mut SchemaGenerator) -> Vec<Value> {
    let mut parameters = Vec::new();
    if let (Some(schema), Some(name)) = (route.path_schema, name(route.path)) {
        let schema = schema(generator);
        parameters.push(json!({"name": name, "in": "path", "required": true, "schema": schema}));
    }
    if let Some(query) = route.query_schema {
        let fields = query(generator).remove("properties").unwrap_or_default();
        let fields = fields.as_object().into_iter().flatten();
        parameters.extend(fields.map(|(name, schema)| field(name, schema.clone())));
    }
    if route.idempotency == IdempotencySupport::Supported {
        parameters.push(json!({
            "name": "Idempotency-Key", "in": "header", "schema": {"type": "string", "maxLength": 200},
            "description": "Requests with the same key take effect once.",
        }));
    }
    parameters
}

/// Returns the name of the parameter in a path.
fn name(path: &str) -> Option<&str> {
    let (_, rest) = path.split_once('{')?;
    rest.split('}').next().map(|name| name.trim_start_matches('*'))
}

/// Builds one query parameter. A parameter is present or absent: the query has no null.
fn field(name: &str, mut schema: Value) -> Value {
    let mut take = |key| schema.as_object_mut().and_then(|schema| schema.remove(key));
    let (about, kind, kinds) = (take("description"), take("type"), take("anyOf"));
    let without_null = |kinds: Value| match kinds {
        Value::Array(kinds) => {
            kinds.into_iter().find(|kind| kind != "null" && kind["type"] != "null")
        }
        one => Some(one),
    };
    if let Some(kind) = kind.and_then(without_null) {
        schema["type"] = kind;
    }
    let schema = kinds.and_then(without_null).unwrap_or(schema);
    json!({"name": name, "in": "query", "description": about, "schema": schema})
}

fn responses(route: &Route, generator: &mut SchemaGenerator) -> Value {
    let (status, answer) = match route.response {
        ResponseKind::Status(status) => {
            (status, json!({"description": "The request was accepted."}))
        }
        ResponseKind::Json(schema) => {
            let content = json_content(&schema(generator));
            (StatusCode::OK, json!({"description": "The response.", "content": content}))
        }
        ResponseKind::Events => {
            let event = generator.subschema_for::<Event>();
            let schema = json!({
                "type": "string", "contentMediaType": "application/json", "contentSchema": event,
            });
            let about =
                "Server-sent events; the `data` of each is an Event, its `id` the Event's `pos`.";
            (
                StatusCode::OK,
                json!({"description": about, "content": {"text/event-stream": {"schema": schema}}}),
            )
        }
        ResponseKind::Messages => (StatusCode::OK, messages(json!({}))),
        ResponseKind::JsonOrMessages => {
            let one = generator.subschema_for::<Map<String, Value>>();
            (StatusCode::OK, messages(json_content(&one)))
        }
    };
    json!({status.as_str(): answer, "default": {"$ref": "#/components/responses/Problem"}})
}

/// Adds a stream of JSON-RPC messages as server-sent events to the content of a response.
fn messages(mut content: Value) -> Value {
    let schema = json!({"type": "string", "contentMediaType": "application/json"});
    content["text/event-stream"] = json!({ "schema": schema });
    json!({"description": "Messages of the Model Context Protocol.", "content": content})
}

fn json_content(schema: &Schema) -> Value {
    json!({"application/json": {"schema": schema}})
}
