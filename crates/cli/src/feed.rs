//! A run's events without a gap, whatever happens to the daemon meanwhile.
//!
//! When the connection vanishes, the daemon is started again and the stream goes on after the last event seen.

use std::time::Duration;

use agent_worker_host::DialError;
use agent_worker_protocol::{Event, RunId, RunMode};
use tokio::{
    sync::mpsc::{self, Receiver, Sender},
    task::JoinSet,
    time::sleep,
};

use crate::{
    client::{Client, Reader, Watched},
    discovery,
    error::CliError,
    settings::Settings,
};

/// So often in a row a connection may break without an event in between.
const MOST_LOSSES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(200);
/// Events read ahead of whoever shows them.
const AHEAD: usize = 64;

/// Something that came over the wire, or happened to it.
pub(crate) enum News {
    /// The next event, and the id to go on after.
    Event(String, Box<Event>),
    /// The daemon went away; it is being started again.
    Lost,
    /// The stream goes on.
    Back(Client),
    /// Nothing more will come: the run is over, or a `run` waits and nobody works any more.
    End,
}

/// The receiving end. Dropping it ends the reading.
pub(crate) struct Feed {
    news: Receiver<Result<News, CliError>>,
    _task: JoinSet<()>,
}

impl Feed {
    /// Starts reading a run's events, from the one after the id `after`. A `start` that waits goes on when somebody resumes
    /// it.
    pub(crate) fn open(
        client: Client,
        settings: Settings,
        run: (RunId, RunMode, Reader),
        after: Option<String>,
    ) -> Self {
        let (run, mode, reader) = run;
        let (sender, news) = mpsc::channel(AHEAD);
        let mut task = JoinSet::new();
        task.spawn(async move {
            let reading = Reading { client, settings, run, mode, reader, after, losses: 0 };
            let last = reading.read_on(&sender).await;
            // Nobody listening any more is how reading usually ends.
            sender.send(last).await.ok();
        });
        Self { news, _task: task }
    }

    /// Waits for the next piece of news. May be dropped while it waits; nothing is lost.
    pub(crate) async fn next(&mut self) -> Result<News, CliError> {
        self.news.recv().await.unwrap_or(Ok(News::End))
    }
}

struct Reading {
    client: Client,
    settings: Settings,
    run: RunId,
    mode: RunMode,
    reader: Reader,
    after: Option<String>,
    losses: u32,
}

impl Reading {
    async fn read_on(mut self, sender: &Sender<Result<News, CliError>>) -> Result<News, CliError> {
        loop {
            match self.until_broken(sender).await {
                Ok(Broken::AtRest) => return Ok(News::End),
                Ok(Broken::Closed) => {
                    self.client = discovery::successor(&self.settings).await?;
                    continue;
                }
                Err(error @ (DialError::Lost { .. } | DialError::Absent { .. })) => {
                    self.losses += 1;
                    if self.losses > MOST_LOSSES {
                        return Err(error.into());
                    }
                }
                Err(other) => return Err(other.into()),
            }
            sender.send(Ok(News::Lost)).await.ok();
            sleep(PAUSE * self.losses.saturating_sub(1)).await;
            self.client = discovery::open(&self.settings).await?;
            sender.send(Ok(News::Back(self.client.clone()))).await.ok();
        }
    }

    /// Reads until the stream ends. A daemon that leaves ends it too, so the run itself is asked.
    async fn until_broken(
        &mut self,
        sender: &Sender<Result<News, CliError>>,
    ) -> Result<Broken, DialError> {
        let watched = match self.mode {
            RunMode::Run => Watched::RunToRest(self.run, self.reader),
            RunMode::Start => Watched::Run(self.run),
        };
        let mut events = self.client.events(&watched, self.after.clone()).await?;
        while let Some((id, event)) = events.next().await? {
            self.after = Some(id.clone());
            self.losses = 0;
            sender.send(Ok(News::Event(id, Box::new(event)))).await.ok();
        }
        match self.client.run(self.run).await {
            Ok(view) if !view.state.is_live() => Ok(Broken::AtRest),
            Ok(view) if self.mode == RunMode::Run && view.is_at_rest() => Ok(Broken::AtRest),
            Ok(_) | Err(DialError::Lost { .. } | DialError::Absent { .. }) => Ok(Broken::Closed),
            Err(other) => Err(other),
        }
    }
}

enum Broken {
    AtRest,
    Closed,
}
