//! Sessions, for clients of the older revisions that asked for a stream.
//!
//! All other clients work without one: a session does not survive the daemon, and costs memory. Invariant: a
//! session belongs to the caller that started it, by token or by process; for every other caller it does not exist.
//! The number of sessions is limited, in total and for each owner, and an unused session without an open stream ends after a timeout.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use agent_worker_host::{KeyedLimit, KeyedPlace};
use agent_worker_kernel::{Kernel, Principal};
use agent_worker_protocol::{Code, Problem, ProblemDetails, mcp_wire::SESSION_HEADER, sync};
use axum::{
    Json,
    body::Body,
    extract::Request,
    http::{Method, StatusCode},
    response::{IntoResponse as _, Response},
};
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService,
    session::{SessionId, SessionManager as _, local::LocalSessionManager},
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};
use tokio_util::task::TaskTracker;

use super::{hint::problem_body, server::McpServer, session::McpSession};
use crate::{guarded_body::guard_body, http::AppState, shutdown::Shutdown};

/// Maximum number of sessions, in total and per owner.
const MAX_SESSIONS: usize = 128;
const MAX_SESSIONS_PER_OWNER: usize = 16;
/// Time after which an unused session without an open stream ends.
const IDLE_TIMEOUT: Duration = Duration::from_mins(30);

/// Handle to the open sessions.
#[derive(Clone)]
pub(super) struct SessionRegistry(Arc<SessionRegistryInner>);

struct SessionRegistryInner {
    server: McpServer,
    kernel: Kernel,
    settings: StreamableHttpServerConfig,
    manager: Arc<LocalSessionManager>,
    permits: Arc<Semaphore>,
    owners: KeyedLimit,
    sessions: Mutex<HashMap<SessionId, SessionEntry>>,
    tasks: TaskTracker,
    shutdown: Shutdown,
}

struct SessionEntry {
    owner: SessionOwner,
    mcp_session: Arc<McpSession>,
    last_used: Instant,
    /// Number of responses in progress and open streams.
    open_responses: usize,
    _permit: OwnedSemaphorePermit,
    _place: KeyedPlace,
}

/// The owner of a session: the user, an attempt or a client's token, however its header is spelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SessionOwner(String);

impl SessionOwner {
    /// Returns the owner for a caller that admission identified; an anonymous caller has none.
    pub(super) fn of(who: &Principal) -> Option<Self> {
        match who {
            Principal::User => Some(Self("user".to_owned())),
            Principal::Agent(agent) => Some(Self(format!("attempt {}", agent.attempt))),
            // A later token of the same name is another owner.
            Principal::Client(token) => {
                Some(Self(format!("client {} {}", token.created, token.name)))
            }
            Principal::Anonymous => None,
        }
    }
}

/// An open response of a session, until it is dropped.
struct OpenResponse {
    sessions: SessionRegistry,
    id: SessionId,
}

impl Drop for OpenResponse {
    fn drop(&mut self) {
        if let Some(session) = self.sessions.lock_sessions().get_mut(&self.id) {
            session.open_responses -= 1;
            session.last_used = Instant::now();
        }
    }
}

impl SessionRegistry {
    pub(super) fn new(
        server: McpServer,
        settings: StreamableHttpServerConfig,
        app: &AppState,
    ) -> Self {
        let mut local = LocalSessionManager::default();
        // This registry decides about idle sessions, because it knows the open streams.
        local.session_config.keep_alive = None;
        Self(Arc::new(SessionRegistryInner {
            server,
            kernel: app.kernel.clone(),
            settings: settings.with_legacy_session_mode(true),
            manager: Arc::new(local),
            permits: Arc::new(Semaphore::new(MAX_SESSIONS)),
            owners: KeyedLimit::new(MAX_SESSIONS_PER_OWNER),
            sessions: Mutex::default(),
            tasks: app.tasks.clone(),
            shutdown: app.shutdown.clone(),
        }))
    }

    /// Opens a session with its first request. Returns the request as `Err` if the limit is reached.
    pub(super) async fn open_session(
        &self,
        who: Principal,
        owner: SessionOwner,
        request: Request,
    ) -> Result<Response, Request> {
        let Some(place) = self.acquire_place(&owner).await else { return Err(request) };
        let Ok(permit) = Arc::clone(&self.0.permits).try_acquire_owned() else {
            return Err(request);
        };
        let mcp_session = McpSession::new(self.0.kernel.clone(), who, self.0.tasks.clone());
        let response =
            self.transport(self.0.server.for_session(&mcp_session)).handle(request).await;
        let id = response.headers().get(SESSION_HEADER).and_then(|id| id.to_str().ok());
        if let Some(id) = id.map(SessionId::from) {
            let (used, open) = (Instant::now(), 0);
            let session = SessionEntry {
                owner,
                mcp_session: Arc::clone(&mcp_session),
                last_used: used,
                open_responses: open,
                _permit: permit,
                _place: place,
            };
            self.lock_sessions().insert(Arc::clone(&id), session);
            self.0.tasks.spawn(self.clone().close_when_idle(id, Arc::clone(&mcp_session)));
            if let Err(error) = mcp_session.watch_own_instance().await {
                tracing::error!(%error, "could not watch the instance of an agent");
            }
        }
        Ok(response.map(Body::new))
    }

    /// Answers a request of a session; for a caller that is not its owner the session does not exist.
    pub(super) async fn handle_request(
        &self,
        id: &str,
        owner: Option<&SessionOwner>,
        request: Request,
    ) -> Response {
        let id = SessionId::from(id);
        let Some(held) = owner.and_then(|owner| self.mark_in_use(&id, owner)) else {
            return unknown_session();
        };
        let ends_session = request.method() == Method::DELETE;
        let response = self.transport(self.0.server.clone()).handle(request).await;
        if ends_session {
            self.close(&id).await;
        }
        response.map(|body| guard_body(Body::new(body), held))
    }

    fn transport(
        &self,
        server: McpServer,
    ) -> StreamableHttpService<McpServer, LocalSessionManager> {
        let (local, settings) = (Arc::clone(&self.0.manager), self.0.settings.clone());
        StreamableHttpService::new(move || Ok(server.clone()), local, settings)
    }

    /// Marks a session of `owner` as in use until the returned guard is dropped.
    fn mark_in_use(&self, id: &SessionId, owner: &SessionOwner) -> Option<OpenResponse> {
        self.lock_sessions()
            .get_mut(id)
            .filter(|session| session.owner == *owner)?
            .open_responses += 1;
        Some(OpenResponse { sessions: self.clone(), id: Arc::clone(id) })
    }

    /// Watches a session until it is idle or closed.
    async fn close_when_idle(self, id: SessionId, mcp_session: Arc<McpSession>) {
        while let Some(until) = self.idle_until(&id) {
            tokio::select! {
                () = tokio::time::sleep_until(until) => {}
                () = mcp_session.closed() => break,
                () = self.0.shutdown.streams_closed() => break,
            }
        }
        self.close(&id).await;
    }

    /// Returns the time at which the session becomes idle; none if it already is, or is gone.
    fn idle_until(&self, id: &SessionId) -> Option<Instant> {
        let now = Instant::now();
        let begun = self.lock_sessions();
        let session = begun.get(id)?;
        let since = if session.open_responses > 0 { now } else { session.last_used };
        Some(since + IDLE_TIMEOUT).filter(|until| *until > now)
    }

    /// Takes one of the owner's places for sessions, if need be that of an unused session. Returns none if all
    /// sessions of the owner are in use.
    async fn acquire_place(&self, owner: &SessionOwner) -> Option<KeyedPlace> {
        let place = self.0.owners.acquire(owner.0.clone());
        if place.is_some() {
            return place;
        }
        let longest_unused = {
            let sessions = self.lock_sessions();
            let unused = sessions
                .iter()
                .filter(|(_, session)| session.owner == *owner && session.open_responses == 0);
            unused.min_by_key(|(_, session)| session.last_used).map(|(id, _)| Arc::clone(id))?
        };
        self.close(&longest_unused).await;
        self.0.owners.acquire(owner.0.clone())
    }

    async fn close(&self, id: &SessionId) {
        let session = self.lock_sessions().remove(id);
        if let Some(session) = session {
            session.mcp_session.close();
        }
        if let Err(error) = self.0.manager.close_session(id).await {
            tracing::debug!(%error, "the session was already closed");
        }
    }

    fn lock_sessions(&self) -> MutexGuard<'_, HashMap<SessionId, SessionEntry>> {
        sync::lock(&self.0.sessions)
    }
}

fn unknown_session() -> Response {
    let problem = Problem::new(Code::NotFound, "there is no such session")
        .with_details(ProblemDetails::UnknownSession);
    (StatusCode::NOT_FOUND, Json(problem_body(problem))).into_response()
}
