//! Sessions, for clients of the older revisions that asked for a stream.
//!
//! Everybody else is answered without: a session does not survive the daemon, and costs memory. Invariant: a session
//! belongs to whoever began it, by token or by process; to anybody else it does not exist. Their number is bounded, and
//! one that nobody uses or listens to ends by itself.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use agent_worker_kernel::{Kernel, Principal};
use agent_worker_protocol::{AttemptId, Code, Hash, Problem, hash};
use axum::{
    Json,
    body::Body,
    extract::Request,
    http::{HeaderMap, Method, StatusCode, header::AUTHORIZATION},
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

use super::{held::Held, seat::Seat, server::Server};
use crate::{http::Doors, shutdown::Shutdown};

/// How a request names its session.
pub(super) const SESSION: &str = "mcp-session-id";
/// So many there are at most, and so many of one owner.
const MOST: usize = 128;
const MOST_OF_ONE: usize = 16;
/// So long one lasts that nobody uses or listens to.
const IDLE: Duration = Duration::from_mins(30);

/// The sessions there are.
#[derive(Clone)]
pub(super) struct Sessions(Arc<Inner>);

struct Inner {
    server: Server,
    kernel: Kernel,
    settings: StreamableHttpServerConfig,
    local: Arc<LocalSessionManager>,
    room: Arc<Semaphore>,
    begun: Mutex<HashMap<SessionId, Session>>,
    tasks: TaskTracker,
    shutdown: Shutdown,
}

struct Session {
    owner: Owner,
    seat: Arc<Seat>,
    used: Instant,
    /// Answers that are being given, and streams that are open.
    open: usize,
    _room: OwnedSemaphorePermit,
}

/// Whose a session is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// Whoever has this token; only its hash is kept.
    Token(Hash),
    /// The user, by their process.
    User,
    /// An agent, by its attempt's process.
    Attempt(AttemptId),
}

impl Owner {
    /// Who asks, as the gate found out. Nobody owns nothing.
    pub(super) fn of(who: &Principal, headers: &HeaderMap) -> Option<Self> {
        if let Some(token) = headers.get(AUTHORIZATION) {
            return Some(Self::Token(hash(&[token.as_bytes()])));
        }
        match who {
            Principal::User => Some(Self::User),
            Principal::Agent(attempt) => Some(Self::Attempt(attempt.id)),
            Principal::Client(_) | Principal::Nobody => None,
        }
    }
}

impl Sessions {
    pub(super) fn new(server: Server, settings: StreamableHttpServerConfig, doors: &Doors) -> Self {
        let mut local = LocalSessionManager::default();
        // What is idle is decided here, where it is known who listens.
        local.session_config.keep_alive = None;
        Self(Arc::new(Inner {
            server,
            kernel: doors.kernel.clone(),
            settings: settings.with_legacy_session_mode(true),
            local: Arc::new(local),
            room: Arc::new(Semaphore::new(MOST)),
            begun: Mutex::default(),
            tasks: doors.tasks.clone(),
            shutdown: doors.shutdown.clone(),
        }))
    }

    /// Begins one with its first request. `Err`: there is no room, and the request is given back.
    pub(super) async fn begin(
        &self,
        who: Principal,
        owner: Owner,
        request: Request,
    ) -> Result<Response, Request> {
        self.make_room_for(&owner).await;
        let Ok(room) = Arc::clone(&self.0.room).try_acquire_owned() else { return Err(request) };
        let seat = Seat::new(self.0.kernel.clone(), who, self.0.tasks.clone());
        let response = self.door(self.0.server.seated(&seat)).handle(request).await;
        let id = response.headers().get(SESSION).and_then(|id| id.to_str().ok());
        if let Some(id) = id.map(SessionId::from) {
            let (used, open) = (Instant::now(), 0);
            let session = Session { owner, seat: Arc::clone(&seat), used, open, _room: room };
            self.begun().insert(Arc::clone(&id), session);
            self.0.tasks.spawn(self.clone().attend(id, Arc::clone(&seat)));
            if let Err(error) = seat.watch_home().await {
                tracing::error!(%error, "an agent's instance is not watched");
            }
        }
        Ok(response.map(Body::new))
    }

    /// Answers a request of a session. To a stranger there is none.
    pub(super) async fn answer(
        &self,
        id: &str,
        owner: Option<&Owner>,
        request: Request,
    ) -> Response {
        let id = SessionId::from(id);
        let Some(held) = owner.and_then(|owner| self.hold(&id, owner)) else { return unknown() };
        let is_farewell = request.method() == Method::DELETE;
        let response = self.door(self.0.server.clone()).handle(request).await;
        if is_farewell {
            self.close(&id).await;
        }
        response.map(|body| held.over(Body::new(body)))
    }

    fn door(&self, server: Server) -> StreamableHttpService<Server, LocalSessionManager> {
        let (local, settings) = (Arc::clone(&self.0.local), self.0.settings.clone());
        StreamableHttpService::new(move || Ok(server.clone()), local, settings)
    }

    /// Notes that a session of `owner` is in use until what is given is dropped.
    fn hold(&self, id: &SessionId, owner: &Owner) -> Option<Held> {
        self.begun().get_mut(id).filter(|session| session.owner == *owner)?.open += 1;
        let (sessions, id) = (self.clone(), Arc::clone(id));
        Some(Held::new(move || {
            if let Some(session) = sessions.begun().get_mut(&id) {
                session.open -= 1;
                session.used = Instant::now();
            }
        }))
    }

    /// Stays with a session until it is over.
    async fn attend(self, id: SessionId, seat: Arc<Seat>) {
        while let Some(until) = self.idle_until(&id) {
            tokio::select! {
                () = tokio::time::sleep_until(until) => {}
                () = seat.left() => break,
                () = self.0.shutdown.streams_closed() => break,
            }
        }
        self.close(&id).await;
    }

    /// When it will have been idle for too long, as things are; none when it has, or is gone.
    fn idle_until(&self, id: &SessionId) -> Option<Instant> {
        let now = Instant::now();
        let begun = self.begun();
        let session = begun.get(id)?;
        let since = if session.open > 0 { now } else { session.used };
        Some(since + IDLE).filter(|until| *until > now)
    }

    /// An owner who has too many loses the one unused for longest.
    async fn make_room_for(&self, owner: &Owner) {
        let longest = {
            let begun = self.begun();
            let theirs = || begun.iter().filter(|(_, session)| session.owner == *owner);
            let unused = theirs().filter(|(_, session)| session.open == 0);
            let longest =
                unused.min_by_key(|(_, session)| session.used).map(|(id, _)| Arc::clone(id));
            longest.filter(|_| theirs().count() >= MOST_OF_ONE)
        };
        if let Some(id) = longest {
            self.close(&id).await;
        }
    }

    async fn close(&self, id: &SessionId) {
        let session = self.begun().remove(id);
        if let Some(session) = session {
            session.seat.leave();
        }
        if let Err(error) = self.0.local.close_session(id).await {
            tracing::debug!(%error, "a session was gone already");
        }
    }

    fn begun(&self) -> MutexGuard<'_, HashMap<SessionId, Session>> {
        self.0.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unknown() -> Response {
    let problem = Problem::new(Code::NotFound, "there is no such session")
        .hint("begin a new one with `initialize`; a session ends with the daemon");
    (StatusCode::NOT_FOUND, Json(problem)).into_response()
}
