//! A model that executes its prompt as a script: real programs call it in place of their vendor's.
//!
//! The server listens on loopback at a free port, with one key, until the test drops it, and records its requests.
//! `script.rs` defines the directives of a prompt; each vendor's API is a file. Every wait here is limited by the
//! timeout of a test.

mod chat;
mod gemini;
mod http;
mod messages;
mod recorded;
mod responses;
mod script;
#[cfg(test)]
mod tests;
mod wire;

use std::{
    collections::{HashMap, VecDeque},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

pub(crate) use self::recorded::RecordedResponse;
use self::{
    http::{RequestBody, RequestHead},
    script::{AnswerContent, AnswerPlan, Interruption, RefusalCounts, Tokens, plan_answer},
    wire::{ModelApi, ResponseMode, route},
};
use crate::world::TEST_TIMEOUT;

/// The key that the server accepts.
pub(crate) const KEY: &str = "test-key";
/// Maximum number of connections, more than any of the programs opens.
const MAX_CONNECTIONS: usize = 64;
/// Maximum number of recorded requests; no test reads more.
const MAX_RECORDED_REQUESTS: usize = 1000;

/// A running model server.
pub(crate) struct ModelServer {
    address: SocketAddr,
    inside: Arc<ModelServerInner>,
}

/// A request for an answer.
#[derive(Clone, Debug)]
pub(crate) struct ModelRequest {
    pub(crate) path: String,
    /// Header fields with lower-case names.
    pub(crate) fields: HashMap<String, String>,
    pub(crate) body: Value,
    /// Body as it arrived.
    pub(crate) text: String,
}

#[derive(Default)]
struct ModelServerInner {
    state: Mutex<ModelServerState>,
    /// Signals a change of the state.
    changed: Condvar,
}

#[derive(Default)]
struct ModelServerState {
    requests: Vec<ModelRequest>,
    /// Responses to the next requests, before any script.
    recorded: VecDeque<RecordedResponse>,
    refused: RefusalCounts,
    connections: usize,
    /// Number of answers held since the start, and the number of those that were released.
    held: usize,
    released: usize,
    is_closed: bool,
}

impl ModelServer {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let inside = Arc::new(ModelServerInner::default());
        let server = Self { address, inside: Arc::clone(&inside) };
        thread::spawn(move || {
            for visitor in listener.incoming().flatten() {
                let mut state = inside.state();
                if state.is_closed {
                    break;
                }
                if state.connections == MAX_CONNECTIONS {
                    continue;
                }
                state.connections += 1;
                drop(state);
                let inside = Arc::clone(&inside);
                thread::spawn(move || {
                    // A client that disconnects early is no error.
                    let _ = inside.serve(&visitor);
                    inside.state().connections -= 1;
                });
            }
        });
        server
    }

    /// Returns the variables with the endpoints and keys of the vendors' programs.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let url = self.url();
        vec![
            ("ANTHROPIC_BASE_URL", url.clone()),
            ("OPENAI_BASE_URL", format!("{url}/v1")),
            ("LOCAL_BASE_URL", format!("{url}/v1")),
            ("LOCAL_API_KEY", KEY.to_owned()),
            ("COPILOT_PROVIDER_BASE_URL", format!("{url}/v1")),
            ("COPILOT_PROVIDER_API_KEY", KEY.to_owned()),
            ("COPILOT_OFFLINE", "true".to_owned()),
            ("OPENCODE_CONFIG_CONTENT", opencode_settings(&url)),
            ("GOOGLE_GEMINI_BASE_URL", url),
            ("ANTHROPIC_API_KEY", KEY.to_owned()),
            ("OPENAI_API_KEY", KEY.to_owned()),
            ("GEMINI_API_KEY", KEY.to_owned()),
        ]
    }

    /// Returns the address without a path.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the requests so far, the oldest first.
    pub(crate) fn requests(&self) -> Vec<ModelRequest> {
        self.inside.state().requests.clone()
    }

    /// Returns the number of requests so far.
    pub(crate) fn request_count(&self) -> usize {
        self.inside.state().requests.len()
    }

    /// Sends these responses to the next requests, as they are. After them the scripts answer again.
    pub(crate) fn replay(&self, responses: impl IntoIterator<Item = RecordedResponse>) {
        self.inside.state().recorded.extend(responses);
    }

    /// Waits until `count` answers were held since the start.
    pub(crate) fn wait_held(&self, count: usize) {
        let was = self.inside.wait_while(|state| state.held < count);
        assert!(was >= count, "{was} of {count} answers are held");
    }

    /// Releases every answer that is held now.
    pub(crate) fn release_held(&self) {
        let mut state = self.inside.state();
        state.released = state.held;
        self.inside.changed.notify_all();
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.inside.state().is_closed = true;
        self.inside.changed.notify_all();
        // The connection unblocks the thread that accepts connections.
        let _ = TcpStream::connect(self.address);
    }
}

impl ModelServerInner {
    /// Locks the state. A connection thread that panicked leaves it consistent.
    fn state(&self) -> MutexGuard<'_, ModelServerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while the condition holds, and returns the number of held answers. Ends at the timeout or at the
    /// shutdown.
    fn wait_while(&self, is_so: impl Fn(&ModelServerState) -> bool) -> usize {
        let deadline = Instant::now() + TEST_TIMEOUT;
        let mut state = self.state();
        while is_so(&state) && !state.is_closed {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.held
    }

    fn hold(&self) {
        let mut state = self.state();
        state.held += 1;
        let ticket = state.held;
        drop(state);
        self.changed.notify_all();
        self.wait_while(|state| state.released < ticket);
    }

    /// Returns true if the next response is recorded. It needs no key.
    fn replays(&self) -> bool {
        !self.state().recorded.is_empty()
    }

    /// Serves one request.
    fn serve(&self, visitor: &TcpStream) -> std::io::Result<()> {
        let Some((head, body)) = http::read_request(visitor)? else { return Ok(()) };
        let answer = match (head.method.as_str(), route(&head.path)) {
            ("HEAD", _) => return http::write_response(visitor, 200, &[], ""),
            ("GET", _) if head.path.ends_with("/models") => Ok(models()),
            ("POST", Some((wire, _))) if !is_authorized(&head) && !self.replays() => {
                Err((401, wire.error_body(401)))
            }
            ("POST", Some((wire, wanted))) => {
                return self.answer_request(visitor, head, body, (wire, wanted));
            }
            _ => Err((404, json!({"error": {"message": "no such path"}}))),
        };
        match answer {
            Ok(answer) if is_authorized(&head) => {
                http::write_response(visitor, 200, &[], &answer.to_string())
            }
            Ok(_) => http::write_response(visitor, 401, &[], "{}"),
            Err((status, problem)) => {
                http::write_response(visitor, status, &[], &problem.to_string())
            }
        }
    }

    fn answer_request(
        &self,
        visitor: &TcpStream,
        head: RequestHead,
        RequestBody(text): RequestBody,
        (wire, wanted): (&dyn ModelApi, ResponseMode),
    ) -> std::io::Result<()> {
        let body: Value = serde_json::from_str(&text)?;
        let streams = match wanted {
            ResponseMode::Count => {
                let tokens = wire.token_count_body(text.len() / 4);
                return http::write_response(visitor, 200, &[], &tokens.to_string());
            }
            ResponseMode::Full => false,
            ResponseMode::Stream => true,
            ResponseMode::FromBody => body["stream"] == true,
        };
        let mut state = self.state();
        if state.requests.len() < MAX_RECORDED_REQUESTS {
            let (RequestHead { path, fields, .. }, body, text) = (head, body.clone(), text.clone());
            state.requests.push(ModelRequest { path, fields, body, text });
        }
        if let Some(response) = state.recorded.pop_front() {
            drop(state);
            return response.write(visitor);
        }
        let mut plan = plan_answer(&wire.parse_request(&body), &mut state.refused);
        if plan.usage == Tokens::OF_SIZE {
            plan.usage.input = u64::try_from(text.len()).unwrap() / 4;
        }
        drop(state);
        pause(plan.pace.delay);
        match &plan.content {
            AnswerContent::Fail { status, retry_after } => {
                let after = retry_after.iter().map(|secs| ("retry-after", secs.as_str()));
                let after: Vec<_> = after.collect();
                http::write_response(
                    visitor,
                    *status,
                    &after,
                    &wire.error_body(*status).to_string(),
                )
            }
            AnswerContent::Call { .. } | AnswerContent::Say(_) if streams => {
                self.stream(visitor, &wire.stream_events(&body, &plan), &plan)
            }
            AnswerContent::Call { .. } | AnswerContent::Say(_) => {
                let answer = wire.full_response(&body, &plan).to_string();
                match plan.pace.interruption {
                    Interruption::Cut => return http::write_truncated_response(visitor, &answer),
                    Interruption::Hold => self.hold(),
                    Interruption::None => {}
                }
                http::write_response(visitor, 200, &[], &answer)
            }
        }
    }

    fn stream(
        &self,
        visitor: &TcpStream,
        events: &[String],
        plan: &AnswerPlan,
    ) -> std::io::Result<()> {
        http::begin_stream(visitor)?;
        // A position at which some parts were sent and some are missing.
        let middle = 2.min(events.len() - 1);
        for (n, event) in events.iter().enumerate() {
            match plan.pace.interruption {
                Interruption::Cut if n == middle => return Ok(()),
                Interruption::Hold if n == middle => self.hold(),
                Interruption::Cut | Interruption::Hold | Interruption::None => {}
            }
            http::chunk(visitor, event)?;
            pause(plan.pace.chunk_delay);
        }
        http::chunk(visitor, "")
    }
}

fn pause(time: Duration) {
    if !time.is_zero() {
        thread::park_timeout(time);
    }
}

/// Returns settings of a person who uses opencode with this server. Over the Agent Client Protocol it has no other source
/// for a provider.
fn opencode_settings(url: &str) -> String {
    let limit = json!({"context": 100_000, "output": 8_000});
    let model = json!({"name": "Scripted", "cost": {"input": 1.25, "output": 10}, "limit": limit});
    let options = json!({"baseURL": format!("{url}/v1"), "apiKey": KEY});
    let provider = json!({"npm": "@ai-sdk/openai-compatible", "name": "Local", "options": options,
        "models": {"scripted": model}});
    json!({"provider": {"local": provider}}).to_string()
}

/// Returns true if the request has the key, in the header of any vendor.
fn is_authorized(head: &RequestHead) -> bool {
    let bearer = format!("Bearer {KEY}");
    let has = |name, value: &str| head.fields.get(name).is_some_and(|given| given == value);
    let names = ["x-api-key", "x-goog-api-key", "api-key"];
    names.into_iter().any(|name| has(name, KEY)) || has("authorization", &bearer)
}

/// Returns a list of models that every vendor's program can read.
fn models() -> Value {
    let one = json!({
        "id": "scripted", "object": "model", "type": "model", "display_name": "Scripted", "created": 0,
        "owned_by": "test", "created_at": "2026-01-01T00:00:00Z",
    });
    json!({"object": "list", "data": [one], "models": [{"name": "models/scripted"}], "has_more": false})
}
