//! The bridge's connection to the daemon: at most one session, restarted after its daemon is gone.

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use agent_worker_host::{DaemonSocket, DialError, EventStream, McpAction, McpReply, McpReplyBody};
use agent_worker_protocol::{
    Problem,
    mcp_wire::{
        METHOD_HEADER, NAME_HEADER, PROJECT_HEADER, REVISION_HEADER, SESSION_HEADER,
        notification_json, request_json,
    },
    sync,
};
use serde_json::{Value, json};
use tokio::{
    sync::{Semaphore, mpsc::Sender, watch},
    time::{Instant, sleep, timeout},
};

use super::message::BridgeMessage;
use crate::{
    client::{daemon_client::percent_encode, discovery},
    error::{CliError, CliErrorKind},
    input::settings::CliSettings,
};

/// Time limit for holding a message while the daemon is away, and the interval of retries.
const DAEMON_RETRY_TIMEOUT: Duration = Duration::from_secs(45);
const DAEMON_RETRY_INTERVAL: Duration = Duration::from_millis(250);
/// Time limit for closing a session; the client no longer waits at that point.
const SESSION_CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
const STATUS_NOT_FOUND: u16 = 404;

/// The daemon and the identity of a bridge.
pub(crate) struct BridgeConfig {
    /// Settings to find or start the daemon.
    pub(crate) settings: CliSettings,
    /// Token of a client; without one, our process is the identity.
    pub(crate) token: Option<String>,
}

/// Forwards messages to the daemon.
pub(super) struct BridgeUpstream {
    settings: CliSettings,
    daemon: DaemonSocket,
    out: Sender<String>,
    state: Mutex<BridgeSessionState>,
    /// Rises with each session, so that a task that lost one knows whether it has been restarted.
    session_generation: watch::Sender<u64>,
    /// Allows one restart of the session at a time.
    restart_permit: Semaphore,
}

/// State of a client of an older revision that the next daemon must receive again.
#[derive(Default)]
struct BridgeSessionState {
    initialize_request: Option<BridgeMessage>,
    protocol_version: Option<String>,
    session: Option<String>,
    subscribed_uris: BTreeSet<String>,
}

impl BridgeUpstream {
    pub(super) fn new(BridgeConfig { settings, token }: BridgeConfig, out: Sender<String>) -> Self {
        let daemon = DaemonSocket::at(settings.socket());
        let daemon = match token {
            Some(token) => daemon.with_token(token),
            None => daemon,
        };
        let (session_generation, _) = watch::channel(0);
        let (state, restart_permit) = (Mutex::default(), Semaphore::new(1));
        Self { settings, daemon, out, state, session_generation, restart_permit }
    }

    /// Writes a line to the client.
    pub(super) async fn write_to_client(&self, line: String) {
        // A closed channel means that the bridge is ending.
        let _ = self.out.send(line).await;
    }

    pub(super) fn has_session(&self) -> bool {
        self.lock_state().session.is_some()
    }

    /// Forwards a request and returns its answer, even if the daemon goes away meanwhile.
    pub(super) async fn forward_request(&self, message: BridgeMessage) {
        let deadline = Instant::now() + DAEMON_RETRY_TIMEOUT;
        loop {
            let generation = *self.session_generation.borrow();
            let why = match self.send_or_start_daemon(&message).await {
                Ok(reply) => match self.return_response(&message, reply).await {
                    ForwardOutcome::Answered => return,
                    ForwardOutcome::NoSession => match self.restart_session(generation).await {
                        Ok(()) => continue,
                        Err(error) => error.into(),
                    },
                    ForwardOutcome::ConnectionLost(error) => error.into(),
                },
                Err(error) => error,
            };
            // The daemon may have acted on a request whose response was lost.
            let may_be_done = why.kind() == CliErrorKind::ConnectionLost;
            let may_retry = is_retryable(&why) && (message.is_repeatable() || !may_be_done);
            if Instant::now() >= deadline || !may_retry {
                let why = why.to_report_error();
                let data = serde_json::to_value(&why).unwrap_or_default();
                return self.write_to_client(message.error_response(&why.message, &data)).await;
            }
            sleep(DAEMON_RETRY_INTERVAL).await;
        }
    }

    /// Forwards a message that has no answer.
    pub(super) async fn forward_notification(&self, message: &BridgeMessage) {
        // A daemon that did not receive it is gone, and the next one receives the state it needs.
        let _ = self.send_message(message).await;
    }

    /// Forwards the server's own messages of every session, from the first one on; a daemon that left is not started
    /// for that.
    pub(super) async fn forward_server_stream(&self) {
        let mut begun = self.session_generation.subscribe();
        loop {
            let generation = *begun.borrow_and_update();
            if generation > 0
                && let Ok(McpReply { body: McpReplyBody::Stream(stream), .. }) =
                    self.open_stream().await
            {
                self.forward_stream(*stream).await;
            }
            // The stream ended or did not open: the daemon or the session is gone.
            if generation == 0 || !self.has_session() {
                if begun.changed().await.is_err() {
                    return;
                }
                continue;
            }
            sleep(DAEMON_RETRY_INTERVAL).await;
            if let Ok(Some(_)) = discovery::find_daemon(&self.settings).await
                && self.restart_session(generation).await.is_ok()
            {
                self.notify_subscribed_uris().await;
            }
        }
    }

    /// Ends the session if there is one.
    pub(super) async fn close_session(&self) {
        if self.has_session() {
            let headers = self.headers(None);
            let _ = timeout(
                SESSION_CLOSE_TIMEOUT,
                self.send_with_headers(&McpAction::EndSession, &headers),
            )
            .await;
        }
    }

    /// Sends a message to the daemon, which is started if none runs.
    async fn send_or_start_daemon(&self, message: &BridgeMessage) -> Result<McpReply, CliError> {
        match self.send_message(message).await {
            Err(DialError::Absent { .. }) => {
                discovery::connect_or_start(&self.settings).await?;
                Ok(self.send_message(message).await?)
            }
            reply => Ok(reply?),
        }
    }

    async fn send_message(&self, message: &BridgeMessage) -> Result<McpReply, DialError> {
        let headers = self.headers(Some(message));
        self.send_with_headers(&McpAction::Message(message.to_json()), &headers).await
    }

    async fn send_with_headers(
        &self,
        saying: &McpAction,
        headers: &[(&str, String)],
    ) -> Result<McpReply, DialError> {
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        self.daemon.mcp_exchange(saying, &headers).await
    }

    /// Returns the headers of a request: our folder, and since 2026-07-28 all its metadata, before that the session's.
    fn headers(&self, message: Option<&BridgeMessage>) -> Vec<(&'static str, String)> {
        let folder = self.settings.cwd.to_str();
        let mut headers: Vec<_> =
            folder.map(|folder| (PROJECT_HEADER, percent_encode(folder))).into_iter().collect();
        if let Some((message, version)) =
            message.and_then(|one| Some((one, one.protocol_version()?)))
        {
            headers.push((REVISION_HEADER, version.to_owned()));
            headers.extend(message.method().map(|method| (METHOD_HEADER, method.to_owned())));
            headers.extend(message.header_name().map(|name| (NAME_HEADER, name.to_owned())));
            return headers;
        }
        if message.is_some_and(BridgeMessage::is_initialize) {
            return headers;
        }
        let state = self.lock_state();
        headers.extend(state.protocol_version.clone().map(|revision| (REVISION_HEADER, revision)));
        headers.extend(state.session.clone().map(|session| (SESSION_HEADER, session)));
        headers
    }

    async fn return_response(&self, message: &BridgeMessage, reply: McpReply) -> ForwardOutcome {
        let session = reply.header(SESSION_HEADER).map(str::to_owned);
        match reply.body {
            McpReplyBody::Text(_) if reply.status == STATUS_NOT_FOUND && self.has_session() => {
                ForwardOutcome::NoSession
            }
            McpReplyBody::Text(text) => {
                let line = match serde_json::from_str::<Value>(&text) {
                    Ok(line) if line.get("jsonrpc").is_some() => line.to_string(),
                    // An error of the daemon's HTTP layer: the caller is unknown, or the daemon cannot serve now.
                    Ok(problem) => message.error_response(&problem_message(&problem), &problem),
                    Err(_) => {
                        message.error_response(&format!("status {}", reply.status), &Value::Null)
                    }
                };
                self.record_session_change(message, &line, session);
                self.write_to_client(line).await;
                ForwardOutcome::Answered
            }
            McpReplyBody::Stream(mut stream) => loop {
                match stream.next_data().await {
                    Ok(Some(line)) => {
                        let is_answer = message.is_answered_by(&line);
                        if is_answer {
                            self.record_session_change(message, &line, session.clone());
                        }
                        self.write_to_client(line).await;
                        if is_answer {
                            return ForwardOutcome::Answered;
                        }
                    }
                    Ok(None) => {
                        let source = "the stream ended without an answer".into();
                        return ForwardOutcome::ConnectionLost(DialError::Lost { source });
                    }
                    Err(error) => return ForwardOutcome::ConnectionLost(error),
                }
            },
        }
    }

    /// Records the state that the next daemon must receive again.
    fn record_session_change(
        &self,
        message: &BridgeMessage,
        answer: &str,
        session: Option<String>,
    ) {
        let answer: Value = serde_json::from_str(answer).unwrap_or_default();
        let Some(result) = answer.get("result") else { return };
        let mut state = self.lock_state();
        if message.is_initialize() {
            let revision = result["protocolVersion"].as_str().map(str::to_owned);
            let hello = Some(message.clone());
            *state = BridgeSessionState {
                initialize_request: hello,
                protocol_version: revision,
                session,
                subscribed_uris: BTreeSet::new(),
            };
            drop(state);
            self.session_generation.send_modify(|begun| *begun += 1);
        } else if let Some((uri, begins)) = message.subscription_change() {
            if begins {
                state.subscribed_uris.insert(uri.to_owned());
            } else {
                state.subscribed_uris.remove(uri);
            }
        }
    }

    /// Repeats the client's `initialize` and its subscriptions to a daemon that does not know the session.
    async fn restart_session(&self, generation: u64) -> Result<(), DialError> {
        let Ok(_turn) = self.restart_permit.acquire().await else { return Ok(()) };
        if *self.session_generation.borrow() != generation {
            return Ok(());
        }
        let Some(hello) = self.lock_state().initialize_request.clone() else { return Ok(()) };
        let reply = self.send_message(&hello).await?;
        self.lock_state().session = reply.header(SESSION_HEADER).map(str::to_owned);
        drain_response(reply).await;
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let watched: Vec<_> = self.lock_state().subscribed_uris.iter().cloned().collect();
        let again = |uri: &String| {
            let id = format!("again {uri}").into();
            request_json(&id, "resources/subscribe", &json!({ "uri": uri }))
        };
        for line in std::iter::once(initialized).chain(watched.iter().map(again)) {
            if let Ok(message) = BridgeMessage::parse(&line.to_string()) {
                drain_response(self.send_message(&message).await?).await;
            }
        }
        self.session_generation.send_modify(|begun| *begun += 1);
        Ok(())
    }

    /// Reports every subscribed resource as updated, since a change may have been missed.
    async fn notify_subscribed_uris(&self) {
        let watched: Vec<_> = self.lock_state().subscribed_uris.iter().cloned().collect();
        for uri in watched {
            let params = json!({ "uri": uri });
            let method = "notifications/resources/updated";
            self.write_to_client(notification_json(method, &params).to_string()).await;
        }
    }

    async fn open_stream(&self) -> Result<McpReply, DialError> {
        let headers = self.headers(None);
        self.send_with_headers(&McpAction::Listen, &headers).await
    }

    async fn forward_stream(&self, mut stream: EventStream) {
        while let Ok(Some(line)) = stream.next_data().await {
            self.write_to_client(line).await;
        }
    }

    fn lock_state(&self) -> MutexGuard<'_, BridgeSessionState> {
        sync::lock(&self.state)
    }
}

/// The outcome of forwarding a request.
enum ForwardOutcome {
    Answered,
    /// The daemon does not know our session.
    NoSession,
    /// The connection broke before the answer was complete.
    ConnectionLost(DialError),
}

/// Reads an unneeded answer to its end, so that its request has taken effect.
async fn drain_response(reply: McpReply) {
    if let McpReplyBody::Stream(mut stream) = reply.body {
        while let Ok(Some(_)) = stream.next_data().await {}
    }
}

fn problem_message(problem: &Value) -> String {
    let problem = serde_json::from_value::<Problem>(problem.clone());
    problem.map_or_else(|_| "could not parse the daemon's answer".to_owned(), |one| one.message)
}

/// Returns whether the daemon may be available on the next try.
fn is_retryable(error: &CliError) -> bool {
    matches!(error.kind(), CliErrorKind::NoDaemon | CliErrorKind::ConnectionLost)
}
