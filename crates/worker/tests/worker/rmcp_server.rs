//! The same calls against a real MCP server, with the settings that the daemon uses.

use agent_worker_protocol::{WorkerEvent, WorkerOutcome};
use axum::{Json, Router, routing::post};
use rmcp::{
    ServerHandler,
    handler::server::wrapper::Parameters,
    tool, tool_handler, tool_router,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
    },
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::UnixListener;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use crate::{
    process::{WorkerProcess, job},
    stub_daemon::StubDaemon,
};

#[derive(Clone)]
struct TestTools;

#[derive(Deserialize, JsonSchema)]
struct Say {
    message: String,
    idempotency_key: String,
}

#[expect(clippy::unused_self, reason = "the macro wants methods")]
#[tool_router]
impl TestTools {
    #[tool(description = "Says it back.")]
    fn say(&self, Parameters(say): Parameters<Say>) -> String {
        format!("{} ({} hex digits)", say.message, say.idempotency_key.len())
    }

    #[tool(description = "Never works.")]
    fn fail(&self) -> Result<String, String> {
        Err("as always".to_owned())
    }
}

#[tool_handler]
impl ServerHandler for TestTools {}

/// Accepts every event; rmcp serves the tools.
fn serve(listener: UnixListener) -> AbortOnDropHandle<()> {
    async fn events(Json(request): Json<Value>) -> Json<Value> {
        let numbers = request["events"].as_array().unwrap().iter();
        let stored = numbers.filter_map(|event| event["no"].as_i64()).max().unwrap_or(i64::MAX);
        Json(json!({"stored": stored, "order": "continue"}))
    }
    let settings = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_stateless_protocol_metadata_required(true)
        .enforce_origin_validation();
    let sessions = std::sync::Arc::new(LocalSessionManager::default());
    let mcp = StreamableHttpService::new(|| Ok(TestTools), sessions, settings);
    let router =
        Router::new().route("/attempts/{id}/events", post(events)).nest_service("/mcp", mcp);
    let serve = async move { axum::serve(listener, router).await.unwrap() };
    AbortOnDropHandle::new(TaskTracker::new().spawn(serve))
}

#[tokio::test]
async fn a_real_server_understands_and_answers() {
    let daemon = StubDaemon::accepting();
    let socket = daemon.folder.path().join("rmcp.sock");
    let _server = serve(UnixListener::bind(&socket).unwrap());
    let say = json!({"tool": "say", "args": {"message": "hello"}});
    let rule = json!({"calls": [say, {"tool": "fail"}, {"tool": "nothing"}], "say": "done"});
    let mut job = job(&daemon, rule);
    job.socket = socket;
    let mut worker = WorkerProcess::start(&job).await;
    assert_eq!(worker.wait_finished().await.outcome, WorkerOutcome::Ok);
    let results: Vec<(bool, String)> = worker
        .journal()
        .into_iter()
        .filter_map(|event| match event.event {
            WorkerEvent::ToolResult { ok, summary, .. } => Some((ok, summary)),
            _ => None,
        })
        .collect();
    assert_eq!(results[0], (true, "hello (32 hex digits)".to_owned()));
    assert_eq!(results[1], (false, "as always".to_owned()));
    assert!(!results[2].0 && results[2].1.contains("tool not found"), "{results:?}");
}
