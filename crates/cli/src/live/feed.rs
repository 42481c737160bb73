//! The events of a run or an instance without a gap, across restarts of the daemon.
//!
//! If the connection breaks, the feed finds the next daemon or starts one, and resumes after the last event it received.
//! A daemon that was stopped on purpose is not started again: the feed waits for its successor and then ends with an error.

use std::time::Duration;

use agent_worker_host::{DialError, EventStream};
use agent_worker_protocol::Event;
use tokio::{
    sync::mpsc::{self, Receiver, Sender},
    task::JoinSet,
    time::sleep,
};

use crate::{
    client::{
        daemon_client::{DaemonClient, FeedSource},
        discovery,
    },
    error::CliError,
    input::settings::CliSettings,
};

/// The limit of broken connections in a row without an event in between.
const MAX_LOSSES: u32 = 5;
const RECONNECT_DELAY: Duration = Duration::from_millis(200);
/// The number of events read ahead of the reader.
const EVENT_BUFFER_CAPACITY: usize = 64;

/// Texts that a follower prints on [`FeedUpdate::Disconnected`] and [`FeedUpdate::Reconnected`].
pub(crate) const DAEMON_LOST: &str = "the connection to the daemon broke; reconnecting";
pub(crate) const DAEMON_BACK: &str = "connected again";

/// An event, or a change of the connection.
pub(crate) enum FeedUpdate {
    /// The next event, and the id to resume after.
    Event(String, Box<Event>),
    /// The connection broke; the feed connects again, and starts a daemon if none runs.
    Disconnected,
    /// The feed resumes with this daemon.
    Reconnected(DaemonClient),
    /// The feed resumes with this daemon, which is held: the run continues only after the hold.
    Held(DaemonClient),
    /// No more events will come: the run has ended, or a `run` is paused and no agent works.
    End,
}

/// The receiving end. Dropping it ends the reading.
pub(crate) struct ReconnectingFeed {
    updates: Receiver<Result<FeedUpdate, CliError>>,
    _task: JoinSet<()>,
}

impl ReconnectingFeed {
    /// Reads events after the id `after`; without it, those of a run from its start and those of an instance from now.
    pub(crate) fn open(
        client: DaemonClient,
        settings: CliSettings,
        watched: FeedSource,
        after: Option<String>,
    ) -> Self {
        Self::spawn(FeedReader { client, settings, watched, after, losses: 0 }, None)
    }

    /// Reads events from now on and returns when the daemon has opened the stream: a caller that reads the state after
    /// that misses no event in between.
    pub(crate) async fn open_now(
        client: DaemonClient,
        settings: CliSettings,
        watched: FeedSource,
    ) -> Result<Self, CliError> {
        let events = client.events(&watched, None).await?;
        let after = Some(events.last_id().to_owned());
        Ok(Self::spawn(FeedReader { client, settings, watched, after, losses: 0 }, Some(events)))
    }

    fn spawn(reading: FeedReader, stream: Option<EventStream>) -> Self {
        let (sender, updates) = mpsc::channel(EVENT_BUFFER_CAPACITY);
        let mut task = JoinSet::new();
        task.spawn(async move {
            let last = reading.read_until_end(stream, &sender).await;
            // The receiver is usually dropped first.
            sender.send(last).await.ok();
        });
        Self { updates, _task: task }
    }

    /// Waits for the next update. Cancel safe: no update is lost.
    pub(crate) async fn next(&mut self) -> Result<FeedUpdate, CliError> {
        self.updates.recv().await.unwrap_or(Ok(FeedUpdate::End))
    }
}

struct FeedReader {
    client: DaemonClient,
    settings: CliSettings,
    watched: FeedSource,
    after: Option<String>,
    losses: u32,
}

impl FeedReader {
    async fn read_until_end(
        mut self,
        mut stream: Option<EventStream>,
        sender: &Sender<Result<FeedUpdate, CliError>>,
    ) -> Result<FeedUpdate, CliError> {
        loop {
            match self.read_stream(stream.take(), sender).await {
                Ok(FeedStreamEnd::AtRest) => return Ok(FeedUpdate::End),
                Ok(FeedStreamEnd::Closed) => {
                    let found = discovery::wait_for_successor(&self.settings).await?;
                    let is_held = found.is_held();
                    self.client = found.client;
                    if is_held {
                        sender.send(Ok(FeedUpdate::Held(self.client.clone()))).await.ok();
                    }
                    continue;
                }
                Err(error @ (DialError::Lost { .. } | DialError::Absent { .. })) => {
                    self.losses += 1;
                    if self.losses > MAX_LOSSES {
                        return Err(error.into());
                    }
                }
                Err(other) => return Err(other.into()),
            }
            sender.send(Ok(FeedUpdate::Disconnected)).await.ok();
            sleep(RECONNECT_DELAY * self.losses.saturating_sub(1)).await;
            let found = discovery::discover_or_start(&self.settings).await?;
            let is_held = found.is_held();
            self.client = found.client;
            let client = self.client.clone();
            let update =
                if is_held { FeedUpdate::Held(client) } else { FeedUpdate::Reconnected(client) };
            sender.send(Ok(update)).await.ok();
        }
    }

    /// Reads until the stream ends. A daemon that stops ends every stream, so the state of a watched run shows the
    /// reason.
    async fn read_stream(
        &mut self,
        stream: Option<EventStream>,
        sender: &Sender<Result<FeedUpdate, CliError>>,
    ) -> Result<FeedStreamEnd, DialError> {
        let mut events = match stream {
            Some(events) => events,
            None => self.client.events(&self.watched, self.after.clone()).await?,
        };
        while let Some((id, event)) = events.next().await? {
            self.after = Some(id.clone());
            self.losses = 0;
            sender.send(Ok(FeedUpdate::Event(id, Box::new(event)))).await.ok();
        }
        let (run, is_paused_over) = match self.watched {
            FeedSource::Run(run) => (run, false),
            FeedSource::RunToRest(run, _) => (run, true),
            FeedSource::Scope(_) => return Ok(FeedStreamEnd::Closed),
        };
        match self.client.run(run).await {
            Ok(view) if !view.state.is_live() => Ok(FeedStreamEnd::AtRest),
            Ok(view) if is_paused_over && view.is_at_rest() => Ok(FeedStreamEnd::AtRest),
            Ok(_) | Err(DialError::Lost { .. } | DialError::Absent { .. }) => {
                Ok(FeedStreamEnd::Closed)
            }
            Err(other) => Err(other),
        }
    }
}

enum FeedStreamEnd {
    AtRest,
    Closed,
}
