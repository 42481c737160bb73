//! A scripted worker: it reports and calls tools with its token like a real one, and exits as its script defines.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use agent_worker_kernel::{ChannelPosition, Error, InboxAckResult, Kernel, Principal};
use agent_worker_protocol::{
    EffectKey, EventsReply, EventsRequest, FailureClass, Finished, LiveEvent, Message, Millis,
    NumberedEvent, Priority, Seq, TurnMessagesReply, TurnMessagesRequest, WorkerEvent, WorkerJob,
    WorkerOutcome,
    api::{SendReply, SendRequest},
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::machine::{Machine, SimulatedProcess};

/// The end of a script.
#[derive(Clone, Debug)]
pub(crate) enum ScriptEnd {
    /// Ends with a final report.
    Says(Finished),
    /// Ends without a report.
    Crashes,
}

impl ScriptEnd {
    /// Returns the end of successful work with this final text.
    pub(crate) fn done(text: &str) -> Self {
        Self::Says(Finished { text: text.to_owned(), outcome: WorkerOutcome::Ok, session: None })
    }

    /// Returns the end of successful work without a text.
    pub(crate) fn quiet() -> Self {
        Self::done("")
    }

    /// Returns the end of a failure of this class.
    pub(crate) fn fails(class: FailureClass) -> Self {
        Self::failed(class, None)
    }

    /// Returns the end of a rate limit until `at`.
    pub(crate) fn rate_limited(at: Millis) -> Self {
        Self::failed(FailureClass::RateLimited, Some(at))
    }

    fn failed(class: FailureClass, retry_at: Option<Millis>) -> Self {
        let why = format!("scripted {class}");
        let outcome = WorkerOutcome::Failed { class, why, retry_at };
        Self::Says(Finished { text: String::new(), outcome, session: None })
    }
}

/// The worker as its script sees it.
#[derive(Clone)]
pub(crate) struct ScriptedWorker {
    /// The job from the kernel.
    pub(crate) job: Arc<WorkerJob>,
    /// Number of this attempt of its agent, from 1.
    pub(crate) nth: usize,
    machine: Machine,
    process: Arc<SimulatedProcess>,
    calls: Arc<Mutex<HashMap<String, u32>>>,
}

impl ScriptedWorker {
    pub(crate) fn new(
        job: WorkerJob,
        nth: usize,
        machine: Machine,
        process: Arc<SimulatedProcess>,
    ) -> Self {
        Self { job: Arc::new(job), nth, machine, process, calls: Arc::default() }
    }

    /// Returns the worker's principal, resolved again for every call, as an interface does.
    pub(crate) async fn principal(&self) -> Result<(Kernel, Principal), Error> {
        let kernel = self.machine.daemon().await;
        let principal = kernel.tokens().principal_by_token(&self.job.token).await?;
        Ok((kernel, principal))
    }

    /// Sends a message to the channel, with the key of this call.
    pub(crate) async fn send(&self, message: &str) -> Result<SendReply, Error> {
        self.send_as(SendRequest {
            target: None,
            project: None,
            message: message.to_owned(),
            to: Vec::new(),
            cc: Vec::new(),
            reply_to: None,
            alone: false,
            now: false,
            priority: Priority::Normal,
            attachments: Vec::new(),
        })
        .await
    }

    /// Sends a message with all options.
    pub(crate) async fn send_as(&self, request: SendRequest) -> Result<SendReply, Error> {
        let args = json!({ "message": request.message, "reply_to": request.reply_to });
        let n = {
            let mut calls = self.calls.lock().unwrap();
            let n = calls.entry(args.to_string()).or_default();
            *n += 1;
            *n
        };
        let key = EffectKey::nth_call_key("channel_send", &args, n);
        let key = EffectKey::new(key, "channel_send", &args);
        let (kernel, principal) = self.principal().await?;
        kernel.messages().send(&principal, Some(key), request).await
    }

    /// Returns messages that arrived since the attempt started.
    pub(crate) async fn inbox(&self) -> Result<Vec<Message>, Error> {
        let (kernel, principal) = self.principal().await?;
        Ok(kernel.inbox().check(&principal).await?.messages)
    }

    /// Acknowledges shown messages with this turn.
    pub(crate) async fn ack(&self, until: Seq) -> Result<InboxAckResult, Error> {
        let (kernel, principal) = self.principal().await?;
        kernel.inbox().ack(&principal, ChannelPosition::Seq(until)).await
    }

    /// Waits for messages to the running turn.
    pub(crate) async fn messages(
        &self,
        request: TurnMessagesRequest,
    ) -> Result<TurnMessagesReply, Error> {
        let (kernel, principal) = self.principal().await?;
        kernel.attempts().messages(&principal, self.job.attempt, request).await
    }

    /// Posts a heartbeat to the daemon.
    pub(crate) async fn heartbeat(&self) -> Result<EventsReply, Error> {
        let live = vec![LiveEvent::Heartbeat];
        self.report(EventsRequest { events: Vec::new(), live }).await
    }

    /// Lets virtual time pass.
    pub(crate) async fn pass_time(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Waits until the worker is killed.
    pub(crate) async fn hang(&self) -> ScriptEnd {
        std::future::pending().await
    }

    /// Returns the wall time that the worker sees.
    pub(crate) fn now(&self) -> Millis {
        self.machine.now().wall
    }

    /// Writes an event to the file and posts all events that are not acknowledged yet.
    pub(crate) async fn post_event(&self, event: WorkerEvent) -> Result<EventsReply, Error> {
        self.process.write(event, self.now());
        let events = self.process.written_after(0);
        self.report(EventsRequest { events, live: Vec::new() }).await
    }

    /// Writes the final report and posts it if a kernel is attached.
    pub(crate) async fn finish(&self, finished: Finished) {
        if self.machine.has_kernel() {
            // Refused if the run has already ended: then the result has no consequence.
            let _ = self.post_event(WorkerEvent::Finished(finished)).await;
        } else {
            self.process.write(WorkerEvent::Finished(finished), self.now());
        }
    }

    async fn report(&self, request: EventsRequest) -> Result<EventsReply, Error> {
        let (kernel, principal) = self.principal().await?;
        kernel.attempts().report(&principal, self.job.attempt, request).await
    }
}

/// A gate at which scripts wait for the test.
#[derive(Clone, Default)]
pub(crate) struct ScriptGate(CancellationToken);

impl ScriptGate {
    pub(crate) fn open(&self) {
        self.0.cancel();
    }

    pub(crate) async fn wait_open(&self) {
        self.0.cancelled().await;
    }
}

impl SimulatedProcess {
    fn write(&self, event: WorkerEvent, ts: Millis) {
        let mut journal = self.journal.lock().unwrap();
        let no = i64::try_from(journal.len()).unwrap() + 1;
        journal.push(NumberedEvent { no, ts, event });
    }

    /// Returns the events written after event `after`.
    pub(crate) fn written_after(&self, after: i64) -> Vec<NumberedEvent> {
        let journal = self.journal.lock().unwrap();
        journal.iter().filter(|event| event.no > after).cloned().collect()
    }
}
