//! The daemon's HTTP interface for commands: one method per endpoint.

mod collaboration;
mod operations;
mod pages;

use std::{fmt, path::PathBuf};

use agent_worker_host::{DaemonSocket, DialError, EventStream};
use agent_worker_protocol::{
    Code, InstanceRef, Millis, Receipt, ResourceId, RunId, Seq, Target,
    api::{
        AgentView, Health, ListPage, MessagesReply, ResourceEntry, ResourceKept, ResourceRequest,
        ResourceText, RunRequest, RunStarted, RunView, SendReply, SendRequest, ShutdownMode,
        ShutdownRequest, TokenCreated, TokenRequest, TokenView,
    },
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

pub(crate) use self::operations::StopGrace;
use self::pages::{ALL_PAGES, PageLimits, PageOrder};
use crate::error::{CliError, CliErrorKind};

/// Number of runs on the pages that end with the first ended runs.
const RECENT_RUNS: usize = 100;

/// A client of a running daemon.
#[derive(Clone)]
pub(crate) struct DaemonClient {
    daemon: DaemonSocket,
}

/// The part of the daemon's state that a request addresses.
#[derive(Clone, Debug)]
pub(crate) struct CommandScope {
    /// Target as the user typed it; `None` for everything in reach.
    pub(crate) target: Option<Target>,
    /// Folder of the caller, whose project's instances come first.
    pub(crate) project: PathBuf,
    /// Projects that the request includes.
    pub(crate) reach: ScopeReach,
}

/// The projects that a request includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScopeReach {
    /// `global` and this project.
    CurrentProject,
    /// All projects of the daemon.
    AllProjects,
}

/// The runs of a folder that a list covers; a list of all folders covers all runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListExtent {
    /// Only live runs.
    LiveRuns,
    /// Live and ended runs.
    AllRuns,
}

/// A selection of messages of a channel.
#[derive(Clone, Debug)]
pub(crate) struct MessageFilter {
    /// Number of messages, counted from the newest, or with `since` from the first; fewer if there are not so many.
    pub(crate) limit: u32,
    /// Only messages after this seq or time.
    pub(crate) since: Option<MessagePosition>,
    /// Only messages that contain this text.
    pub(crate) search: Option<String>,
    /// Only this message and its replies; `limit` then counts from the first.
    pub(crate) thread: Option<Seq>,
    /// Messages of the live (else the last) run, or the whole log.
    pub(crate) runs: RunSelection,
}

/// A position in a channel: after a message, or after a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessagePosition {
    Seq(Seq),
    Time(Millis),
}

impl fmt::Display for MessagePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Seq(seq) => seq.fmt(f),
            Self::Time(time) => time.fmt(f),
        }
    }
}

/// A selection of proposals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProposalSelection {
    /// Proposals that accept votes.
    Open,
    /// Open and closed proposals.
    All,
}

/// The reader of a run's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventConsumer {
    /// A person, who can answer the requests of agents.
    Person,
    /// A program, which cannot answer them.
    Program,
}

/// The runs whose messages are selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunSelection {
    /// The live run, else the last one.
    Current,
    /// The whole log.
    All,
}

/// The subject of an event stream.
#[derive(Clone, Debug)]
pub(crate) enum FeedSource {
    /// One run, from its start to its end.
    Run(RunId),
    /// One run, from its start until it has ended, or is paused and no agent works any more.
    RunToRest(RunId, EventConsumer),
    /// Everything in the caller's scope.
    Scope(CommandScope),
}

type ClientResult<T> = Result<T, DialError>;

impl DaemonClient {
    /// Creates a client on `daemon`.
    pub(crate) fn new(daemon: DaemonSocket) -> Self {
        Self { daemon }
    }

    /// Sends `GET /health`.
    pub(crate) async fn health(&self) -> ClientResult<Health> {
        self.daemon.get("/health").await
    }

    /// Sends `POST /shutdown`.
    pub(crate) async fn shutdown(&self, mode: ShutdownMode) -> ClientResult<()> {
        self.daemon.post::<_, Value>("/shutdown", &ShutdownRequest { mode }).await.map(drop)
    }

    /// Sends `POST /release`.
    pub(crate) async fn release(&self) -> ClientResult<()> {
        self.daemon.post::<_, Value>("/release", &Value::Null).await.map(drop)
    }

    /// Sends `GET /agents`.
    pub(crate) async fn agents(&self, scope: &CommandScope) -> ClientResult<Vec<AgentView>> {
        self.get_list(scope.list_url("/agents", ListExtent::LiveRuns)).await
    }

    /// Sends `GET /runs`; live runs come first, then the newest.
    pub(crate) async fn runs(&self, scope: &CommandScope) -> ClientResult<Vec<RunView>> {
        self.get_list(scope.list_url("/runs", ListExtent::AllRuns)).await
    }

    /// Sends `GET /runs` for all live runs and the newest ended ones.
    pub(crate) async fn recent_runs(&self, scope: &CommandScope) -> ClientResult<Vec<RunView>> {
        let url = scope.list_url("/runs", ListExtent::AllRuns);
        let has_ended =
            |page: &ListPage<RunView>| page.items.last().is_some_and(|run| !run.state.is_live());
        let limits = PageLimits { page: RECENT_RUNS, ..ALL_PAGES };
        Ok(self.get_pages_until(&url, limits, has_ended).await?.items)
    }

    /// Sends `GET /runs` for the live run, else the newest one.
    pub(crate) async fn newest_run(&self, scope: &CommandScope) -> ClientResult<Option<RunView>> {
        let url = scope.list_url("/runs", ListExtent::AllRuns).with_param("limit", Some("1"));
        let page: ListPage<RunView> = self.daemon.get(&url.build()).await?;
        Ok(page.items.into_iter().next())
    }

    /// Sends `GET /runs/{id}`. A command words its own hint.
    pub(crate) async fn run(&self, run: RunId) -> ClientResult<RunView> {
        let view: RunView = self.daemon.get(&format!("/runs/{run}")).await?;
        Ok(RunView { hint: None, ..view })
    }

    /// Sends `POST /runs`.
    pub(crate) async fn run_start(&self, request: &RunRequest) -> ClientResult<RunStarted> {
        self.daemon.post("/runs", request).await
    }

    /// Sends `POST /messages`; a repetition with the same key creates no second message.
    pub(crate) async fn send(&self, key: &str, request: &SendRequest) -> ClientResult<SendReply> {
        self.daemon.post_once("/messages", key, request).await
    }

    /// Sends `GET /messages`, page by page up to the limit of the filter.
    pub(crate) async fn messages(
        &self,
        scope: &CommandScope,
        filter: &MessageFilter,
    ) -> ClientResult<MessagesReply> {
        let all_runs = match filter.runs {
            RunSelection::Current => None,
            RunSelection::All => Some("true"),
        };
        let url = scope
            .url_for("/messages")
            .with_param("since", filter.since.map(|since| since.to_string()).as_deref())
            .with_param("all_runs", all_runs)
            .with_param("search", filter.search.as_deref())
            .with_param("thread", filter.thread.map(|seq| seq.to_string()).as_deref());
        // The next page has older messages, unless the first one starts at a position or is a search.
        let goes_back =
            filter.since.is_none() && filter.search.is_none() && filter.thread.is_none();
        let order = if goes_back { PageOrder::Backward } else { PageOrder::Forward };
        self.get_pages(&url, PageLimits { total: filter.limit as usize, order, ..ALL_PAGES }).await
    }

    /// Sends `GET /messages/{seq}/receipts`.
    pub(crate) async fn receipts(
        &self,
        scope: &CommandScope,
        seq: Seq,
    ) -> ClientResult<Vec<Receipt>> {
        self.get_list(scope.url_for(&format!("/messages/{seq}/receipts"))).await
    }

    /// Sends `POST /resources`.
    pub(crate) async fn resource_create(
        &self,
        request: &ResourceRequest,
    ) -> ClientResult<ResourceKept> {
        self.daemon.post("/resources", request).await
    }

    /// Sends `GET /resources`.
    pub(crate) async fn resources(&self, scope: &CommandScope) -> ClientResult<Vec<ResourceEntry>> {
        self.get_list(scope.url_for("/resources")).await
    }

    /// Sends `GET /resources/{id}`, for all of it or for the range `from..to` or `from..`.
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

    /// Opens `GET /events` after the event with the id `after`.
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

    /// Sends `POST /tokens`.
    pub(crate) async fn token_create(&self, request: TokenRequest) -> ClientResult<TokenCreated> {
        self.daemon.post("/tokens", &request).await
    }

    /// Sends `GET /tokens`.
    pub(crate) async fn tokens(&self) -> ClientResult<Vec<TokenView>> {
        self.get_list(UrlBuilder::new("/tokens")).await
    }

    /// Sends `GET /openapi.json` with the token and returns whether the daemon accepts the token.
    pub(crate) async fn is_token_valid(&self, token: String) -> ClientResult<bool> {
        match self.daemon.clone().with_token(token).get::<Value>("/openapi.json").await {
            Ok(_) => Ok(true),
            Err(DialError::Refused(problem)) if problem.code == Code::Unauthorized => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Sends `DELETE /tokens/{name}`.
    pub(crate) async fn token_revoke(&self, name: &str) -> ClientResult<()> {
        self.daemon.delete::<Value>(&format!("/tokens/{}", percent_encode(name))).await.map(drop)
    }
}

impl CommandScope {
    /// Returns the scope of one instance, independent of the caller's folder.
    pub(crate) fn for_instance(instance: &InstanceRef, project: PathBuf) -> Self {
        Self {
            target: Some(Target::instance(instance)),
            project,
            reach: ScopeReach::CurrentProject,
        }
    }

    /// Returns the URL of a request about one instance: the target, else the only one of the folder.
    fn url_for(&self, path: &str) -> UrlBuilder {
        UrlBuilder::new(path)
            .with_param("target", self.target.as_ref().map(Target::to_string).as_deref())
            .with_param("project", self.project.to_str())
    }

    /// Returns the URL of a list over several instances: the target's, those of the folder, or all.
    fn list_url(&self, path: &str, extent: ListExtent) -> UrlBuilder {
        match (&self.target, self.reach) {
            (Some(_), _) => self.url_for(path),
            (None, ScopeReach::AllProjects) => UrlBuilder::new(path),
            (None, ScopeReach::CurrentProject) => {
                let live = match extent {
                    ListExtent::LiveRuns => Some("true"),
                    ListExtent::AllRuns => None,
                };
                self.url_for(path).with_param("live", live)
            }
        }
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
                "lost the connection to the daemon during the request",
                error,
            )
            .with_hint(
                "the request may or may not have taken effect; check with `agent-worker ls`",
            ),
            DialError::Impostor { .. } => Self::with_source(
                CliErrorKind::BadHome,
                "the daemon's socket cannot be used",
                error,
            )
            .with_hint("another user can write to your home; find out how, then remove the socket"),
            DialError::PathTooLong { .. } => Self::with_source(
                CliErrorKind::BadHome,
                "the daemon's socket cannot be used",
                error,
            )
            .with_hint("set AGENT_WORKER_HOME to a shorter path"),
            DialError::Garbled { .. } => Self::with_source(
                CliErrorKind::Failed,
                "could not understand the daemon's answer",
                error,
            )
            .with_hint("compare `agent-worker --version` and `agent-worker daemon status`"),
        }
    }
}

/// The characters that are encoded: all but the unreserved ones of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Builds a path with its query parameters.
#[derive(Clone)]
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

/// Percent-encodes every byte that might have a meaning in a URL.
pub(crate) fn percent_encode(text: &str) -> String {
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

    #[test]
    fn a_list_covers_a_target_or_what_is_live_in_the_folder_or_everything() {
        let scope = |target: Option<&str>, reach| CommandScope {
            target: target.map(|target| target.parse().unwrap()),
            project: "/p".into(),
            reach,
        };
        let (here, all) = (ScopeReach::CurrentProject, ScopeReach::AllProjects);
        let (live, every) = (ListExtent::LiveRuns, ListExtent::AllRuns);
        for (scope, extent, expected) in [
            (scope(None, here), live, "/agents?project=%2Fp&live=true"),
            (scope(None, here), every, "/agents?project=%2Fp"),
            (scope(None, all), live, "/agents"),
            (scope(Some("@a"), here), live, "/agents?target=%40a&project=%2Fp"),
            (scope(Some("@a"), all), live, "/agents?target=%40a&project=%2Fp"),
        ] {
            assert_eq!(scope.list_url("/agents", extent).build(), expected);
        }
    }
}
