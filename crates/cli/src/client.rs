//! The daemon, as the command line sees it: one method per endpoint.

mod acting;
mod looking;

use std::path::PathBuf;

use agent_worker_host::{Daemon, DialError, EventStream};
use agent_worker_protocol::{
    Code, InstanceRef, ResourceId, RunId, Seq, Target,
    api::{
        AgentView, Health, MessagesReply, ReceiptsReply, ResourceEntry, ResourceKept,
        ResourceRequest, ResourceText, RunRequest, RunStarted, RunView, SendReply, SendRequest,
        ShutdownMode, ShutdownRequest, TokenCreated, TokenRequest, TokenView,
    },
};
use serde_json::Value;

pub(crate) use self::looking::Grace;
use crate::error::{CliError, Kind};

/// A daemon that answers.
#[derive(Clone)]
pub(crate) struct Client {
    daemon: Daemon,
}

/// Which part of what the daemon knows is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    /// As typed; without it, everything near the caller.
    pub(crate) target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    pub(crate) project: PathBuf,
    /// How far to look.
    pub(crate) reach: Reach,
}

/// How far to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// `global` and this project.
    Here,
    /// Everywhere.
    Everywhere,
}

/// Which messages of a channel.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    /// The newest so many.
    pub(crate) limit: u32,
    /// Only those with this text in them.
    pub(crate) search: Option<String>,
    /// This one and what replies to it; then the first so many.
    pub(crate) thread: Option<Seq>,
    /// The live (else the last) run's, or the whole log.
    pub(crate) runs: Runs,
}

/// Who reads what a run tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// Somebody who can answer what is asked in it.
    Person,
    /// Nobody who could.
    Program,
}

/// Which runs' messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runs {
    /// The live one, else the last.
    Current,
    /// The whole log.
    All,
}

/// What a stream of events is about.
#[derive(Clone, Debug)]
pub(crate) enum Watched {
    /// One run, from its start to its end.
    Run(RunId),
    /// One run, from its start until it is over, or paused and nobody works any more.
    RunToRest(RunId, Reader),
    /// What is near the caller.
    Scope(Scope),
}

type Answer<T> = Result<T, DialError>;

impl Client {
    /// Talks to `daemon`.
    pub(crate) fn new(daemon: Daemon) -> Self {
        Self { daemon }
    }

    /// `GET /health`
    pub(crate) async fn health(&self) -> Answer<Health> {
        self.daemon.get("/health").await
    }

    /// `POST /shutdown`
    pub(crate) async fn shutdown(&self, mode: ShutdownMode) -> Answer<()> {
        self.daemon.post::<_, Value>("/shutdown", &ShutdownRequest { mode }).await.map(drop)
    }

    /// `GET /agents`
    pub(crate) async fn agents(&self, scope: &Scope) -> Answer<Vec<AgentView>> {
        self.daemon.get(&scope.query("/agents").done()).await
    }

    /// `GET /runs`, newest first
    pub(crate) async fn runs(&self, scope: &Scope) -> Answer<Vec<RunView>> {
        self.daemon.get(&scope.query("/runs").done()).await
    }

    /// `GET /runs/{id}`
    pub(crate) async fn run(&self, run: RunId) -> Answer<RunView> {
        self.daemon.get(&format!("/runs/{run}")).await
    }

    /// `POST /runs`
    pub(crate) async fn run_start(&self, request: &RunRequest) -> Answer<RunStarted> {
        self.daemon.post("/runs", request).await
    }

    /// `POST /messages`; asked again with the same key, it is still one message.
    pub(crate) async fn send(&self, key: &str, request: &SendRequest) -> Answer<SendReply> {
        self.daemon.post_once("/messages", key, request).await
    }

    /// `GET /messages`
    pub(crate) async fn messages(&self, scope: &Scope, page: &Page) -> Answer<MessagesReply> {
        let all_runs = match page.runs {
            Runs::Current => None,
            Runs::All => Some("true"),
        };
        let query = scope
            .query("/messages")
            .with("limit", Some(&page.limit.to_string()))
            .with("all_runs", all_runs)
            .with("search", page.search.as_deref())
            .with("thread", page.thread.map(|seq| seq.to_string()).as_deref());
        self.daemon.get(&query.done()).await
    }

    /// `GET /messages/{seq}/receipts`
    pub(crate) async fn receipts(&self, scope: &Scope, seq: Seq) -> Answer<ReceiptsReply> {
        self.daemon.get(&scope.query(&format!("/messages/{seq}/receipts")).done()).await
    }

    /// `POST /resources`
    pub(crate) async fn resource_create(&self, request: &ResourceRequest) -> Answer<ResourceKept> {
        self.daemon.post("/resources", request).await
    }

    /// `GET /resources`
    pub(crate) async fn resources(&self, scope: &Scope) -> Answer<Vec<ResourceEntry>> {
        self.daemon.get(&scope.query("/resources").done()).await
    }

    /// `GET /resources/{id}`, of it `from..to` or `from..`
    pub(crate) async fn resource(
        &self,
        scope: &Scope,
        id: ResourceId,
        range: Option<&str>,
    ) -> Answer<ResourceText> {
        let query = Query::new(&format!("/resources/{id}"))
            .with("target", scope.target.as_ref().map(Target::to_string).as_deref())
            .with("project", scope.project.to_str())
            .with("range", range);
        self.daemon.get(&query.done()).await
    }

    /// `GET /events`, from the one after the id `after`
    pub(crate) async fn events(
        &self,
        watched: &Watched,
        after: Option<String>,
    ) -> Answer<EventStream> {
        let query = match watched {
            Watched::Run(run) => Query::new("/events").with("run", Some(&run.to_string())),
            Watched::RunToRest(run, reader) => {
                let query = Query::new("/events").with("run", Some(&run.to_string()));
                let person = match reader {
                    Reader::Person => Some("true"),
                    Reader::Program => None,
                };
                query.with("until", Some("rest")).with("person", person)
            }
            Watched::Scope(scope) => scope.query("/events"),
        };
        self.daemon.events(&query.done(), after).await
    }

    /// `POST /tokens`
    pub(crate) async fn token_create(&self, request: TokenRequest) -> Answer<TokenCreated> {
        self.daemon.post("/tokens", &request).await
    }

    /// `GET /tokens`
    pub(crate) async fn tokens(&self) -> Answer<Vec<TokenView>> {
        self.daemon.get("/tokens").await
    }

    /// `GET /openapi.json` in the name of a token's owner: whether there is one.
    pub(crate) async fn knows(&self, token: String) -> Answer<bool> {
        match self.daemon.clone().with_token(token).get::<Value>("/openapi.json").await {
            Ok(_) => Ok(true),
            Err(DialError::Refused(problem)) if problem.code == Code::Unauthorized => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// `DELETE /tokens/{name}`
    pub(crate) async fn token_revoke(&self, name: &str) -> Answer<()> {
        self.daemon.delete::<Value>(&format!("/tokens/{}", escaped(name))).await.map(drop)
    }
}

impl Scope {
    /// One instance, whatever the caller's folder.
    pub(crate) fn instance(instance: &InstanceRef, project: PathBuf) -> Self {
        Self { target: Some(Target::instance(instance)), project, reach: Reach::Here }
    }

    fn query(&self, path: &str) -> Query {
        let all = match self.reach {
            Reach::Here => None,
            Reach::Everywhere => Some("true"),
        };
        Query::new(path)
            .with("target", self.target.as_ref().map(Target::to_string).as_deref())
            .with("project", self.project.to_str())
            .with("all", all)
    }
}

impl From<DialError> for CliError {
    fn from(error: DialError) -> Self {
        match error {
            DialError::Refused(problem) => problem.into(),
            DialError::Absent { .. } => {
                Self::because(Kind::NoDaemon, "no daemon is running", error)
            }
            DialError::Lost { .. } => {
                Self::because(Kind::Lost, "the daemon went away in the middle of this", error).hint(
                    "what was asked may or may not have happened; look with `agent-worker ls`",
                )
            }
            DialError::Impostor { .. } => {
                Self::because(Kind::BadHome, "the daemon's socket cannot be used", error).hint(
                    "somebody else can write into your home; find out how, then remove the socket",
                )
            }
            DialError::PathTooLong { .. } => {
                Self::because(Kind::BadHome, "the daemon's socket cannot be used", error)
                    .hint("set AGENT_WORKER_HOME to a shorter path")
            }
            DialError::Garbled { .. } => {
                Self::because(Kind::Failed, "the daemon and this command do not agree", error)
                    .hint("compare `agent-worker --version` and `agent-worker daemon status`")
            }
        }
    }
}

/// A path with its query, written piece by piece.
struct Query(String);

impl Query {
    fn new(path: &str) -> Self {
        Self(path.to_owned())
    }

    fn with(mut self, key: &str, value: Option<&str>) -> Self {
        if let Some(value) = value {
            let mark = if self.0.contains('?') { '&' } else { '?' };
            self.0 = format!("{}{mark}{key}={}", self.0, escaped(value));
        }
        self
    }

    fn done(self) -> String {
        self.0
    }
}

/// Percent-encodes everything that might mean something in an address.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                escaped.push(char::from(byte));
            }
            _ => escaped.extend(format!("%{byte:02X}").chars()),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_person_types_cannot_change_what_is_asked() {
        let scope = Scope {
            target: Some("coder@review:pr-1".parse().unwrap()),
            project: "/re po/a&all=true".into(),
            reach: Reach::Here,
        };
        let query = scope.query("/messages").with("search", Some("50% 请#?"));
        assert_eq!(
            query.done(),
            "/messages?target=coder%40review%3Apr-1&project=%2Fre%20po%2Fa%26all%3Dtrue\
             &search=50%25%20%E8%AF%B7%23%3F"
        );
    }
}
