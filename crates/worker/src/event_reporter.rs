//! What the daemon hears of this attempt, and what it orders.
//!
//! Every durable event goes to the journal first and is posted from memory until it is acknowledged:
//! a lost reply, a restart and a daemon that is away are one path. Words and heartbeats are posted
//! once. Invariant: numbers rise by one and are posted in order.

use std::{
    collections::VecDeque,
    convert::Infallible,
    io,
    path::Path,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use agent_worker_host::{DaemonSocket, DialError};
use agent_worker_protocol::{
    AttemptId, Code, EventsReply, EventsRequest, LiveEvent, NumberedEvent, Order, Problem,
    WorkerEvent, sync,
};
use serde_json::Value;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep, timeout},
};

use crate::{
    clocks::{self, time_of_day},
    journal::Journal,
    model::ToolResult,
    post_schedule::{self, PostBacklog, PostFacts},
    truncation::{truncate, truncate_args},
};

/// The most events of one post, so that no daemon finds it too large.
const MAX_EVENTS_PER_POST: usize = 50;
/// A daemon that takes longer than this over a post is asked again; the numbers make that harmless.
const POST_TIMEOUT: Duration = Duration::from_secs(10);

/// How much of a tool's answer an event shows.
const MAX_RESULT_SUMMARY_BYTES: usize = 500;

/// The attempt's reporter. Clones share it.
#[derive(Clone)]
pub(crate) struct EventReporter(Arc<EventReporterInner>);

struct EventReporterInner {
    daemon: DaemonSocket,
    path: String,
    heartbeat: Duration,
    outbox: Mutex<Outbox>,
    /// Something was laid on the outbox.
    wake: Notify,
    /// A person is no longer waited for.
    clocks_resumed: Notify,
    feedback: watch::Sender<DaemonFeedback>,
}

/// What is to be posted.
struct Outbox {
    journal: Journal,
    /// The first thing that did not get onto the disk.
    write_error: Option<io::Error>,
    last_no: i64,
    unacknowledged: VecDeque<NumberedEvent>,
    live: Vec<LiveEvent>,
    /// `started` or `finished` is there and was not tried yet.
    is_urgent: bool,
    last_post: Instant,
    next_heartbeat: Instant,
    last_activity: Instant,
    last_reply: Instant,
    /// How often a person is waited for now, since when, and how long that was before.
    pause_count: usize,
    paused_since: Instant,
    paused_total: Duration,
}

/// What the daemon has said so far.
#[derive(Default)]
struct DaemonFeedback {
    /// The highest number it has stored.
    stored: i64,
    /// It has ordered the attempt to stop. That is never taken back.
    is_stopped: bool,
    /// Why it will hear no more of this attempt.
    refusal: Option<Problem>,
}

impl EventReporter {
    /// Opens the journal in `folder`; nothing is posted before [`Report::post_forever`].
    pub(crate) fn open(
        folder: &Path,
        attempt: AttemptId,
        daemon: DaemonSocket,
        orphan_grace: Duration,
    ) -> io::Result<Self> {
        let now = Instant::now();
        let heartbeat = post_schedule::heartbeat_interval(orphan_grace);
        let outbox = Outbox {
            journal: Journal::create(folder)?,
            write_error: None,
            last_no: 0,
            unacknowledged: VecDeque::new(),
            live: Vec::new(),
            is_urgent: false,
            last_post: now,
            next_heartbeat: now + heartbeat,
            last_activity: now,
            last_reply: now,
            pause_count: 0,
            paused_since: now,
            paused_total: Duration::ZERO,
        };
        Ok(Self(Arc::new(EventReporterInner {
            daemon,
            path: format!("/attempts/{attempt}/events"),
            heartbeat,
            outbox: Mutex::new(outbox),
            wake: Notify::new(),
            clocks_resumed: Notify::new(),
            feedback: watch::Sender::default(),
        })))
    }

    /// Writes an event down for good and has it posted. Returns its number.
    ///
    /// What the disk does not take is posted all the same; [`Report::trouble`] tells of it.
    pub(crate) fn record(&self, event: WorkerEvent) -> i64 {
        let mut outbox = self.outbox();
        outbox.last_no += 1;
        let event = NumberedEvent { no: outbox.last_no, ts: time_of_day(), event };
        let is_last = matches!(event.event, WorkerEvent::Finished(_));
        let mut written = outbox.journal.append(&event);
        if is_last && written.is_ok() {
            written = outbox.journal.sync();
        }
        if let Err(error) = written {
            outbox.write_error.get_or_insert(error);
        }
        outbox.is_urgent |= is_urgent(&event);
        outbox.last_activity = Instant::now();
        outbox.unacknowledged.push_back(event);
        let no = outbox.last_no;
        drop(outbox);
        self.0.wake.notify_one();
        no
    }

    /// A tool is about to be called.
    pub(crate) fn record_tool_call(&self, id: &str, tool: &str, args: Value) {
        let (id, tool) = (id.to_owned(), tool.to_owned());
        self.record(WorkerEvent::ToolCall { id, tool, args: truncate_args(args) });
    }

    /// It has answered.
    pub(crate) fn record_tool_result(&self, id: &str, tool: &str, result: &ToolResult) {
        let (id, tool, ok) = (id.to_owned(), tool.to_owned(), result.is_done());
        let summary = truncate(result.text(), MAX_RESULT_SUMMARY_BYTES);
        self.record(WorkerEvent::ToolResult { id, tool, ok, summary });
    }

    /// Shows a model's next words to whoever watches.
    pub(crate) fn stream_text(&self, words: &str) {
        let mut outbox = self.outbox();
        outbox.last_activity = Instant::now();
        match outbox.live.last_mut() {
            Some(LiveEvent::Text { text }) => text.push_str(words),
            Some(LiveEvent::Heartbeat) | None => {
                outbox.live.push(LiveEvent::Text { text: words.to_owned() });
            }
        }
        drop(outbox);
        self.0.wake.notify_one();
    }

    /// Notes that something moves, so that the attempt is not taken for silent.
    pub(crate) fn touch(&self) {
        self.outbox().last_activity = Instant::now();
    }

    /// When something last moved here, and when a daemon last answered.
    pub(crate) fn last_activity_and_reply(&self) -> (Instant, Instant) {
        let outbox = self.outbox();
        (outbox.last_activity, outbox.last_reply)
    }

    /// Lets the clocks stand still for as long as what it returns is kept: a person is waited for.
    pub(crate) fn pause_clocks(&self) -> ClockPause {
        let mut outbox = self.outbox();
        if outbox.pause_count == 0 {
            outbox.paused_since = Instant::now();
        }
        outbox.pause_count += 1;
        drop(outbox);
        ClockPause(self.clone())
    }

    /// How long people were waited for or the process was suspended, and whether a person is waited for now.
    pub(crate) fn paused_time(&self) -> (Duration, clocks::WorkerApprovalWait) {
        let outbox = self.outbox();
        let waiting = if outbox.pause_count > 0 {
            clocks::WorkerApprovalWait::Waiting
        } else {
            clocks::WorkerApprovalWait::NotWaiting
        };
        (outbox.paused_total, waiting)
    }

    /// Notes that this process did not run for `gap`: none of that time counts.
    pub(crate) fn record_suspension(&self, gap: Duration) {
        let (mut outbox, now) = (self.outbox(), Instant::now());
        outbox.last_activity = now;
        outbox.last_reply = now;
        // While a person is waited for, the time is counted as waiting already.
        if outbox.pause_count == 0 {
            outbox.paused_total += gap;
        }
    }

    /// Returns when the clocks go on.
    pub(crate) async fn wait_clocks_resumed(&self) {
        self.0.clocks_resumed.notified().await;
    }

    /// Waits until the daemon has stored the event with this number.
    pub(crate) async fn wait_acknowledged(&self, no: i64) {
        self.wait_for_feedback(|feedback| (feedback.stored >= no).then_some(())).await;
    }

    /// Waits until the daemon orders the attempt to stop.
    pub(crate) async fn wait_stop_order(&self) {
        self.wait_for_feedback(|feedback| feedback.is_stopped.then_some(())).await;
    }

    /// Waits until the daemon will hear no more of this attempt.
    pub(crate) async fn wait_rejected(&self) -> Problem {
        self.wait_for_feedback(|feedback| feedback.refusal.clone()).await
    }

    async fn wait_for_feedback<T>(&self, look: impl Fn(&DaemonFeedback) -> Option<T>) -> T {
        let mut feedback = self.0.feedback.subscribe();
        loop {
            if let Some(found) = look(&feedback.borrow_and_update()) {
                return found;
            }
            // The sender lives in `self`, so that it cannot be gone.
            let _ = feedback.changed().await;
        }
    }

    /// The first thing that did not get onto the disk, if any.
    pub(crate) fn take_write_error(&self) -> Option<io::Error> {
        self.outbox().write_error.take()
    }

    /// Whether something did not get onto the disk.
    pub(crate) fn has_write_error(&self) -> bool {
        self.outbox().write_error.is_some()
    }

    /// Posts whatever is there, whenever it is time. Runs beside the attempt for as long as it lives.
    pub(crate) async fn post_forever(&self) -> Infallible {
        loop {
            let pause = post_schedule::delay_until_post(self.post_facts());
            if pause.is_zero() {
                self.post_once().await;
            } else {
                tokio::select! {
                    () = sleep(pause) => {}
                    () = self.0.wake.notified() => {}
                }
            }
        }
    }

    fn post_facts(&self) -> PostFacts {
        let (outbox, now) = (self.outbox(), Instant::now());
        let waiting = if outbox.is_urgent {
            PostBacklog::Urgent
        } else if outbox.unacknowledged.is_empty() && outbox.live.is_empty() {
            PostBacklog::Empty
        } else {
            PostBacklog::Pending
        };
        let since_post = now.saturating_duration_since(outbox.last_post);
        let heartbeat_in = outbox.next_heartbeat.saturating_duration_since(now);
        PostFacts { backlog: waiting, since_post, heartbeat_in }
    }

    async fn post_once(&self) {
        let request = self.next_request();
        let answer = self.0.daemon.post::<_, EventsReply>(&self.0.path, &request);
        match timeout(POST_TIMEOUT, answer).await {
            Ok(Ok(reply)) => self.apply_reply(reply),
            Ok(Err(DialError::Refused(problem))) if is_final_refusal(problem.code) => {
                self.0.feedback.send_modify(|feedback| feedback.refusal = Some(problem));
            }
            // It is there and cannot take it now: tried again, but nobody is orphaned.
            Ok(Err(DialError::Refused(_) | DialError::Garbled { .. })) => {
                self.outbox().last_reply = Instant::now();
            }
            Ok(Err(
                DialError::Absent { .. }
                | DialError::Impostor { .. }
                | DialError::Lost { .. }
                | DialError::PathTooLong { .. },
            ))
            | Err(_) => {}
        }
    }

    /// The next post: the oldest events that were not acknowledged, and what is live.
    fn next_request(&self) -> EventsRequest {
        let (mut outbox, now) = (self.outbox(), Instant::now());
        outbox.last_post = now;
        outbox.is_urgent = false;
        if now >= outbox.next_heartbeat {
            outbox.live.push(LiveEvent::Heartbeat);
            outbox.next_heartbeat = now + self.0.heartbeat;
        }
        let live = std::mem::take(&mut outbox.live);
        EventsRequest {
            events: outbox.unacknowledged.iter().take(MAX_EVENTS_PER_POST).cloned().collect(),
            live,
        }
    }

    fn apply_reply(&self, reply: EventsReply) {
        let mut outbox = self.outbox();
        outbox.last_reply = Instant::now();
        let before = outbox.unacknowledged.len();
        while outbox.unacknowledged.front().is_some_and(|event| event.no <= reply.stored) {
            outbox.unacknowledged.pop_front();
        }
        if outbox.unacknowledged.len() < before {
            // What did not fit into this post and is waited for goes with the next one, now.
            outbox.is_urgent |= outbox.unacknowledged.iter().any(is_urgent);
        }
        drop(outbox);
        self.0.feedback.send_modify(|feedback| {
            feedback.stored = reply.stored;
            feedback.is_stopped |= reply.order == Order::Stop;
        });
    }

    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        // A panic ends the worker; there is no half-done outbox to be found.
        sync::lock(&self.0.outbox)
    }
}

/// A person is waited for, until dropped.
pub(crate) struct ClockPause(EventReporter);

impl Drop for ClockPause {
    fn drop(&mut self) {
        let mut outbox = self.0.outbox();
        outbox.pause_count -= 1;
        if outbox.pause_count == 0 {
            let held = outbox.paused_since.elapsed();
            outbox.paused_total += held;
            outbox.last_activity = Instant::now();
        }
        drop(outbox);
        self.0.0.clocks_resumed.notify_one();
    }
}

/// Whether somebody waits for it.
fn is_urgent(event: &NumberedEvent) -> bool {
    match event.event {
        WorkerEvent::Started { .. } | WorkerEvent::Finished(_) => true,
        WorkerEvent::ToolCall { .. }
        | WorkerEvent::ToolResult { .. }
        | WorkerEvent::Usage(_)
        | WorkerEvent::Retry { .. }
        | WorkerEvent::Session { .. } => false,
    }
}

/// Whether the daemon will never take an event of this attempt again.
fn is_final_refusal(code: Code) -> bool {
    matches!(code.status(), 401 | 403 | 404 | 409)
}
