//! The daemon, as the command line sees it: one method per endpoint.

mod collaboration;
mod operations;

use std::path::PathBuf;

use agent_worker_host::{DaemonSocket, DialError, EventStream};
use agent_worker_protocol::{
    Code, InstanceRef, ResourceId, RunId, Seq, Target,
    api::{
        AgentView, Health, MessagesReply, ReceiptsReply, ResourceEntry, ResourceKept,
        ResourceRequest, ResourceText, RunRequest, RunStarted, RunView, SendReply, SendRequest,
        ShutdownMode, ShutdownRequest, TokenCreated, TokenRequest, TokenView,
    },
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

pub(crate) use self::operations::StopGrace;
use crate::error::{CliError, CliErrorKind};

/// A daemon that answers.
#[derive(Clone)]
pub(crate) struct DaemonClient {
    daemon: DaemonSocket,
}

/// Which part of what the daemon knows is asked for.
#[derive(Clone, Debug)]
pub(crate) struct CommandScope {
    /// As typed; without it, everything near the caller.
    pub(crate) target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    pub(crate) project: PathBuf,
    /// How far to look.
    pub(crate) reach: ScopeReach,
}

/// How far to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScopeReach {
    /// `global` and this project.
    CurrentProject,
    /// Everywhere.
    AllProjects,
}

/// Which messages of a channel.
#[derive(Clone, Debug)]
pub(crate) struct MessageFilter {
    /// The newest so many.
    pub(crate) limit: u32,
    /// Only those with this text in them.
    pub(crate) search: Option<String>,
    /// This one and what replies to it; then the first so many.
    pub(crate) thread: Option<Seq>,
    /// The live (else the last) run's, or the whole log.
    pub(crate) runs: RunSelection,
}

/// Who reads what a run tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventConsumer {
    /// Somebody who can answer what is asked in it.
    Person,
    /// Nobody who could.
    Program,
}

/// Which runs' messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunSelection {
    /// The live one, else the last.
    Current,
    /// The whole log.
    All,
}

/// What a stream of events is about.
#[derive(Clone, Debug)]
pub(crate) enum FeedSource {
    /// One run, from its start to its end.
    Run(RunId),
    /// One run, from its start until it is over, or paused and nobody works any more.
    RunToRest(RunId, EventConsumer),
    /// What is near the caller.
    Scope(CommandScope),
}

type ClientResult<T> = Result<T, DialError>;

impl DaemonClient {
    /// Talks to `daemon`.
    pub(crate) fn new(daemon: DaemonSocket) -> Self {
        Self { daemon }
    }

    /// `GET /health`
    pub(crate) async fn health(&self) -> ClientResult<Health> {
        self.daemon.get("/health").await
    }

    /// `POST /shutdown`
    pub(crate) async fn shutdown(&self, mode: ShutdownMode) -> ClientResult<()> {
        self.daemon.post::<_, Value>("/shutdown", &ShutdownRequest { mode }).await.map(drop)
    }

    /// `GET /agents`
    pub(crate) async fn agents(&self, scope: &CommandScope) -> ClientResult<Vec<AgentView>> {
        self.daemon.get(&scope.url_for("/agents").build()).await
    }

    /// `GET /runs`, newest first
    pub(crate) async fn runs(&self, scope: &CommandScope) -> ClientResult<Vec<RunView>> {
        self.daemon.get(&scope.url_for("/runs").build()).await
    }

    /// `GET /runs/{id}`
    pub(crate) async fn run(&self, run: RunId) -> ClientResult<RunView> {
        self.daemon.get(&format!("/runs/{run}")).await
    }

    /// `POST /runs`
    pub(crate) async fn run_start(&self, request: &RunRequest) -> ClientResult<RunStarted> {
        self.daemon.post("/runs", request).await
    }

    /// `POST /messages`; asked again with the same key, it is still one message.
    pub(crate) async fn send(&self, key: &str, request: &SendRequest) -> ClientResult<SendReply> {
        self.daemon.post_once("/messages", key, request).await
    }

    /// `GET /messages`
    pub(crate) async fn messages(
        &self,
        scope: &CommandScope,
        page: &MessageFilter,
    ) -> ClientResult<MessagesReply> {
        let all_runs = match page.runs {
            RunSelection::Current => None,
            RunSelection::All => Some("true"),
        };
        let query = scope
            .url_for("/messages")
            .with_param("limit", Some(&page.limit.to_string()))
            .with_param("all_runs", all_runs)
            .with_param("search", page.search.as_deref())
            .with_param("thread", page.thread.map(|seq| seq.to_string()).as_deref());
        self.daemon.get(&query.build()).await
    }

    /// `GET /messages/{seq}/receipts`
    pub(crate) async fn receipts(
        &self,
        scope: &CommandScope,
        seq: Seq,
    ) -> ClientResult<ReceiptsReply> {
        self.daemon.get(&scope.url_for(&format!("/messages/{seq}/receipts")).build()).await
    }

    /// `POST /resources`
    pub(crate) async fn resource_create(
        &self,
        request: &ResourceRequest,
    ) -> ClientResult<ResourceKept> {
        self.daemon.post("/resources", request).await
    }

    /// `GET /resources`
    pub(crate) async fn resources(&self, scope: &CommandScope) -> ClientResult<Vec<ResourceEntry>> {
        self.daemon.get(&scope.url_for("/resources").build()).await
    }

    /// `GET /resources/{id}`, of it `from..to` or `from..`
    pub(crate) async fn resource(
        &self,
        scope: &CommandScope,
        id: ResourceId,
        range: Option<&str>,
    ) -> ClientResult<ResourceText> {
        let query = UrlBuilder::new(&format!("/resources/{id}"))
            .with_param("target", scope.target.as_ref().map(Target::to_string).as_deref())
            .with_param("project", scope.project.to_str())
            .with_param("range", range);
        self.daemon.get(&query.build()).await
    }

    /// `GET /events`, from the one after the id `after`
    pub(crate) async fn events(
        &self,
        watched: &FeedSource,
        after: Option<String>,
    ) -> ClientResult<EventStream> {
        let query = match watched {
            FeedSource::Run(run) => {
                UrlBuilder::new("/events").with_param("run", Some(&run.to_string()))
            }
            FeedSource::RunToRest(run, reader) => {
                let query = UrlBuilder::new("/events").with_param("run", Some(&run.to_string()));
                let person = match reader {
                    EventConsumer::Person => Some("true"),
                    EventConsumer::Program => None,
                };
                query.with_param("until", Some("rest")).with_param("person", person)
            }
            FeedSource::Scope(scope) => scope.url_for("/events"),
        };
        self.daemon.events(&query.build(), after).await
    }

    /// `POST /tokens`
    pub(crate) async fn token_create(&self, request: TokenRequest) -> ClientResult<TokenCreated> {
        self.daemon.post("/tokens", &request).await
    }

    /// `GET /tokens`
    pub(crate) async fn tokens(&self) -> ClientResult<Vec<TokenView>> {
        self.daemon.get("/tokens").await
    }

    /// `GET /openapi.json` in the name of a token's owner: whether there is one.
    pub(crate) async fn is_token_valid(&self, token: String) -> ClientResult<bool> {
        match self.daemon.clone().with_token(token).get::<Value>("/openapi.json").await {
            Ok(_) => Ok(true),
            Err(DialError::Refused(problem)) if problem.code == Code::Unauthorized => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// `DELETE /tokens/{name}`
    pub(crate) async fn token_revoke(&self, name: &str) -> ClientResult<()> {
        self.daemon.delete::<Value>(&format!("/tokens/{}", percent_encode(name))).await.map(drop)
    }
}

impl CommandScope {
    /// One instance, whatever the caller's folder.
    pub(crate) fn for_instance(instance: &InstanceRef, project: PathBuf) -> Self {
        Self {
            target: Some(Target::instance(instance)),
            project,
            reach: ScopeReach::CurrentProject,
        }
    }

    fn url_for(&self, path: &str) -> UrlBuilder {
        let all = match self.reach {
            ScopeReach::CurrentProject => None,
            ScopeReach::AllProjects => Some("true"),
        };
        UrlBuilder::new(path)
            .with_param("target", self.target.as_ref().map(Target::to_string).as_deref())
            .with_param("project", self.project.to_str())
            .with_param("all", all)
    }
}

impl From<DialError> for CliError {
    fn from(error: DialError) -> Self {
        match error {
            DialError::Refused(problem) => problem.into(),
            DialError::Absent { .. } => {
                Self::with_source(CliErrorKind::NoDaemon, "no daemon is running", error)
            }
            DialError::Lost { .. } => Self::with_source(
                CliErrorKind::ConnectionLost,
                "the daemon went away in the middle of this",
                error,
            )
            .with_hint("what was asked may or may not have happened; look with `agent-worker ls`"),
            DialError::Impostor { .. } => Self::with_source(
                CliErrorKind::BadHome,
                "the daemon's socket cannot be used",
                error,
            )
            .with_hint(
                "somebody else can write into your home; find out how, then remove the socket",
            ),
            DialError::PathTooLong { .. } => Self::with_source(
                CliErrorKind::BadHome,
                "the daemon's socket cannot be used",
                error,
            )
            .with_hint("set AGENT_WORKER_HOME to a shorter path"),
            DialError::Garbled { .. } => Self::with_source(
                CliErrorKind::Failed,
                "the daemon and this command do not agree",
                error,
            )
            .with_hint("compare `agent-worker --version` and `agent-worker daemon status`"),
        }
    }
}

/// The characters that are encoded: all but the unreserved ones of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A path with its query, written piece by piece.
struct UrlBuilder(String);

impl UrlBuilder {
    fn new(path: &str) -> Self {
        Self(path.to_owned())
    }

    fn with_param(mut self, key: &str, value: Option<&str>) -> Self {
        if let Some(value) = value {
            let mark = if self.0.contains('?') { '&' } else { '?' };
            self.0 = format!("{}{mark}{key}={}", self.0, percent_encode(value));
        }
        self
    }

    fn build(self) -> String {
        self.0
    }
}

/// Percent-encodes everything that might mean something in an address.
fn percent_encode(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_person_types_cannot_change_what_is_asked() {
        let scope = CommandScope {
            target: Some("coder@review:pr-1".parse().unwrap()),
            project: "/re po/a&all=true".into(),
            reach: ScopeReach::CurrentProject,
        };
        let query = scope.url_for("/messages").with_param("search", Some("50% 请#?"));
        assert_eq!(
            query.build(),
            "/messages?target=coder%40review%3Apr-1&project=%2Fre%20po%2Fa%26all%3Dtrue\
             &search=50%25%20%E8%AF%B7%23%3F"
        );
    }
}
