//! A store opened in this process: one instance, one reader, and a history of the requested length.

use std::path::Path;

use agent_worker_protocol::{
    AgentName, InstanceRef, Limits, MessageKind, Millis, Outcome, Priority, RunId, RunMode,
    WorkflowId,
};
use agent_worker_store::{
    Database, ListRange, MessageStore as _, NewAgent, NewMessage, NewRun, Now, Recipient,
    Retention, RunStep, RunStore as _, StoreTime, Wake, WriteActor, WriteContext,
};
use tokio::task::JoinSet;
use uuid::Uuid;

/// A message of one or two sentences, the usual length between agents.
pub(crate) const BODY: &str = "@reader line 42 lacks a check for an empty list; have a look at it when you are done \
    with what you are at, and tell me whether the caller two levels up relies on it";
/// Number of concurrent writers that fill the store.
const WRITERS: usize = 64;
const NOW: Now = Now { store: StoreTime::new(1), wall: Millis::new(1_700_000_000_000) };

/// A store with a live run.
#[derive(Clone)]
pub(crate) struct BenchStore {
    store: Database,
    workflow: WorkflowId,
    run: RunId,
}

impl BenchStore {
    /// Opens the store in `folder`, with a live run of one agent.
    pub(crate) async fn open(folder: &Path) -> anyhow::Result<Self> {
        let store = Database::open(folder)?;
        let instance: InstanceRef = "team:main".parse()?;
        let workflow = store.instance_open("/project".to_owned(), instance).await?;
        let mut bench_store = Self { store, workflow, run: RunId::new(Uuid::nil()) };
        bench_store.start_run().await?;
        Ok(bench_store)
    }

    /// Writes one message for the reader, as a client does; the message is on disk on return.
    pub(crate) async fn append(&self) -> anyhow::Result<()> {
        let by = WriteContext::new(WriteActor::Client("bench".to_owned()));
        let recipients = vec![Recipient { agent: reader()?, wake: Wake::Batched }];
        let message = NewMessage {
            kind: MessageKind::Message,
            body: BODY.to_owned(),
            data: Vec::new(),
            reply_to: None,
            hops: 0,
            priority: Priority::Normal,
            resource: None,
            recipients,
            attachments: Vec::new(),
        };
        let limit = None;
        self.store.message_append(by, self.workflow, message, limit, NOW).await?;
        Ok(())
    }

    /// Writes a number of messages for the reader.
    pub(crate) async fn fill(&self, messages: usize) -> anyhow::Result<()> {
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS {
            let bench_store = self.clone();
            let share = messages / WRITERS + usize::from(writer < messages % WRITERS);
            writers.spawn(async move {
                for _ in 0..share {
                    bench_store.append().await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(written) = writers.join_next().await {
            written??;
        }
        Ok(())
    }

    /// Ends the run, which closes its open deliveries, and starts the next one.
    pub(crate) async fn next_run(&mut self) -> anyhow::Result<()> {
        let why = "the next one begins".to_owned();
        let end = RunStep::End { outcome: Outcome::Stopped, why, error: None };
        self.store.run_settle(self.run, Box::new(move |_| end.clone()), NOW).await?;
        self.start_run().await
    }

    /// Reads the inbox of the reader.
    pub(crate) async fn inbox(&self, limit: u32) -> anyhow::Result<usize> {
        Ok(self.store.inbox_pending(self.workflow, reader()?, ListRange::first(limit)).await?.len())
    }

    /// Waits until all writes are complete and the file is closed.
    pub(crate) async fn close(self) {
        self.store.close().await;
    }

    async fn start_run(&mut self) -> anyhow::Result<()> {
        self.run = RunId::new(Uuid::now_v7());
        let settings = "{}".to_owned();
        let new = NewRun {
            id: self.run,
            mode: RunMode::Start,
            limits: Limits {
                hops: 50,
                turns: None,
                wall: None,
                wall_grace: Limits::WALL_GRACE,
                spend: agent_worker_protocol::SpendLimits::NONE,
            },
            script: String::new(),
            agents: vec![NewAgent { name: reader()?, settings }],
            roles: Vec::new(),
            retention: Retention::Always,
        };
        self.store.run_create(self.workflow, new, NOW).await?;
        let kickoff = None;
        self.store.run_start(self.run, kickoff, NOW).await?;
        Ok(())
    }
}

fn reader() -> anyhow::Result<AgentName> {
    Ok("reader".parse()?)
}
