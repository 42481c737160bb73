//! The reporter: sends the events of this attempt to the daemon and receives its orders.
//!
//! Every durable event is written to the journal first and posted from memory until the daemon acknowledges it: a
//! lost reply, a restart and an absent daemon take the same path. Text and heartbeats are posted once. Invariant:
//! numbers rise by one and are posted in order.

use std::{
    collections::{HashSet, VecDeque},
    convert::Infallible,
    io,
    path::Path,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use agent_worker_host::{DaemonSocket, DialError};
use agent_worker_protocol::{
    AttemptId, Code, EventsReply, EventsRequest, LiveEvent, NumberedEvent, Order, Problem, Seq,
    WorkerEvent, WorkerJob, sync,
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
    turn_history::TurnHistory,
};

/// Maximum number of events in one post, which keeps a post below the daemon's size limit.
const MAX_EVENTS_PER_POST: usize = 50;
/// Size of the texts in one post from which no further event is added: a large post would delay other writers.
const MAX_HISTORY_BYTES_PER_POST: usize = 1024 * 1024;
/// Timeout of a post. The worker then posts again; the event numbers make that harmless.
const POST_TIMEOUT: Duration = Duration::from_secs(10);

/// The reporter of the attempt. Clones share the state.
#[derive(Clone)]
pub(crate) struct EventReporter(Arc<EventReporterInner>);

struct EventReporterInner {
    daemon: DaemonSocket,
    path: String,
    heartbeat: Duration,
    outbox: Mutex<Outbox>,
    /// Signals new content of the outbox.
    wake: Notify,
    /// Signals that the attempt no longer waits for a person.
    clocks_resumed: Notify,
    feedback: watch::Sender<DaemonFeedback>,
}

/// The events that are not posted or not acknowledged yet.
struct Outbox {
    journal: Journal,
    history: TurnHistory,
    /// The first write error of the journal.
    write_error: Option<io::Error>,
    last_no: i64,
    unacknowledged: VecDeque<NumberedEvent>,
    live: Vec<LiveEvent>,
    /// True while `started` or `finished` is queued and was not posted yet.
    is_urgent: bool,
    last_post: Instant,
    next_heartbeat: Instant,
    last_activity: Instant,
    last_reply: Instant,
    /// Ids of the tool calls without a result so far.
    open_calls: HashSet<String>,
    /// True once a tool was called, or a message joined the turn.
    has_effects: bool,
    /// Number of waits for a person that are open now, their start, and the total duration of earlier ones.
    pause_count: usize,
    paused_since: Instant,
    paused_total: Duration,
}

/// The daemon's replies so far.
#[derive(Default)]
struct DaemonFeedback {
    /// The highest event number that the daemon has stored.
    stored: i64,
    /// True once the daemon has ordered the attempt to stop, which it never revokes.
    is_stopped: bool,
    /// The reason that the daemon accepts no more events of this attempt.
    refusal: Option<Problem>,
}

impl EventReporter {
    /// Opens the journal in `folder`. Posting starts with [`EventReporter::post_forever`].
    pub(crate) fn open(
        folder: &Path,
        attempt: AttemptId,
        daemon: DaemonSocket,
        orphan_grace: Duration,
        history: TurnHistory,
    ) -> io::Result<Self> {
        let now = Instant::now();
        let heartbeat = post_schedule::heartbeat_interval(orphan_grace);
        let outbox = Outbox {
            journal: Journal::create(folder)?,
            history,
            write_error: None,
            last_no: 0,
            unacknowledged: VecDeque::new(),
            live: Vec::new(),
            is_urgent: false,
            last_post: now,
            next_heartbeat: now + heartbeat,
            last_activity: now,
            last_reply: now,
            open_calls: HashSet::new(),
            has_effects: false,
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

    /// Writes an event to the journal and queues it for posting, after the words that the model has written before it.
    /// Returns its number.
    ///
    /// An event that the disk refuses is posted all the same; [`EventReporter::take_write_error`] returns the
    /// error.
    pub(crate) fn record(&self, event: WorkerEvent) -> i64 {
        let mut outbox = self.outbox();
        if follows_words(&event)
            && let Some(words) = outbox.history.take_words()
        {
            outbox.append(words);
        }
        let event = event.redacted(outbox.history.secrets());
        let no = outbox.append(event);
        outbox.last_activity = Instant::now();
        drop(outbox);
        self.0.wake.notify_one();
        no
    }

    /// Records a fact about the turn.
    pub(crate) fn record_note(&self, text: impl Into<String>) {
        self.record(WorkerEvent::Note { text: text.into() });
    }

    /// Records the texts that the turn starts with.
    pub(crate) fn record_prompt(&self, job: &WorkerJob) {
        let event = self.outbox().history.prompt_event(job);
        self.record(event);
    }

    /// Records the start of a tool call.
    pub(crate) fn record_tool_call(&self, id: &str, tool: &str, args: Value) {
        self.open_call(id);
        let (id, tool) = (id.to_owned(), tool.to_owned());
        let (args, whole) = self.outbox().history.arguments(args);
        self.record(WorkerEvent::ToolCall { id, tool, args, whole });
    }

    /// Records the result of a tool call.
    pub(crate) fn record_tool_result(&self, id: &str, tool: &str, result: &ToolResult) {
        self.close_call(id);
        let (id, tool, ok) = (id.to_owned(), tool.to_owned(), result.is_done());
        let (summary, whole) = self.outbox().history.result(result.text());
        self.record(WorkerEvent::ToolResult { id, tool, ok, summary, whole });
    }

    /// Replaces the secrets in a text that the daemon stores.
    pub(crate) fn redact(&self, text: &str) -> String {
        self.outbox().history.secrets().redact(text).into_owned()
    }

    /// Notes that a tool runs, so that the attempt does not count as silent.
    pub(crate) fn open_call(&self, id: &str) {
        let mut outbox = self.outbox();
        outbox.open_calls.insert(id.to_owned());
        outbox.has_effects = true;
    }

    /// Notes the end of a tool.
    pub(crate) fn close_call(&self, id: &str) {
        self.outbox().open_calls.remove(id);
    }

    /// Streams the next text of a model to observers.
    pub(crate) fn stream_text(&self, words: &str) {
        let mut outbox = self.outbox();
        outbox.last_activity = Instant::now();
        match outbox.live.last_mut() {
            Some(LiveEvent::Text { text }) => text.push_str(words),
            Some(LiveEvent::Heartbeat) | None => {
                outbox.live.push(LiveEvent::Text { text: words.to_owned() });
            }
        }
        if let Some(part) = outbox.history.add_words(words) {
            outbox.append(part);
        }
        drop(outbox);
        self.0.wake.notify_one();
    }

    /// Records activity, so that the attempt does not count as silent.
    pub(crate) fn touch(&self) {
        self.outbox().last_activity = Instant::now();
    }

    /// Returns the time of the last activity; none while a tool call runs.
    pub(crate) fn last_activity(&self) -> Option<Instant> {
        let outbox = self.outbox();
        outbox.open_calls.is_empty().then_some(outbox.last_activity)
    }

    /// Records that the model has got a message to the running turn.
    pub(crate) fn record_joined(&self, seq: Seq) {
        self.outbox().has_effects = true;
        self.record(WorkerEvent::Joined { seq });
    }

    /// Returns true if the turn cannot be repeated within the attempt: it has called a tool, or has got a message that is
    /// not in its prompt.
    pub(crate) fn has_effects(&self) -> bool {
        self.outbox().has_effects
    }

    /// Forgets the open tool calls of a program that has ended.
    pub(crate) fn forget_open_calls(&self) {
        self.outbox().open_calls.clear();
    }

    /// Returns the time of the daemon's last reply.
    pub(crate) fn last_reply(&self) -> Instant {
        self.outbox().last_reply
    }

    /// Suspends the time limits, because the attempt waits for a person, until the returned guard is dropped.
    pub(crate) fn pause_clocks(&self) -> ClockPause {
        let mut outbox = self.outbox();
        if outbox.pause_count == 0 {
            outbox.paused_since = Instant::now();
        }
        outbox.pause_count += 1;
        drop(outbox);
        ClockPause(self.clone())
    }

    /// Returns the total time of waiting for people and of suspension, and the current state of waiting.
    pub(crate) fn paused_time(&self) -> (Duration, clocks::WorkerApprovalWait) {
        let outbox = self.outbox();
        let waiting = if outbox.pause_count > 0 {
            clocks::WorkerApprovalWait::Waiting
        } else {
            clocks::WorkerApprovalWait::NotWaiting
        };
        (outbox.paused_total, waiting)
    }

    /// Records that this process did not run for `gap`, and excludes that time from all limits.
    pub(crate) fn record_suspension(&self, gap: Duration) {
        let (mut outbox, now) = (self.outbox(), Instant::now());
        outbox.last_activity = now;
        outbox.last_reply = now;
        // While the attempt waits for a person, the time already counts as waiting.
        if outbox.pause_count == 0 {
            outbox.paused_total += gap;
        }
    }

    /// Returns when the time limits resume.
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

    /// Waits until the daemon accepts no more events of this attempt.
    pub(crate) async fn wait_rejected(&self) -> Problem {
        self.wait_for_feedback(|feedback| feedback.refusal.clone()).await
    }

    async fn wait_for_feedback<T>(&self, look: impl Fn(&DaemonFeedback) -> Option<T>) -> T {
        let mut feedback = self.0.feedback.subscribe();
        loop {
            if let Some(found) = look(&feedback.borrow_and_update()) {
                return found;
            }
            // The sender is a field of `self`, so the channel cannot close.
            let _ = feedback.changed().await;
        }
    }

    /// Takes the first write error of the journal, if any.
    pub(crate) fn take_write_error(&self) -> Option<io::Error> {
        self.outbox().write_error.take()
    }

    /// Returns true if a write to the journal has failed.
    pub(crate) fn has_write_error(&self) -> bool {
        self.outbox().write_error.is_some()
    }

    /// Posts all queued events as the schedule permits. Runs for the whole life of the attempt.
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
            // The daemon is running but cannot take the post now: the worker retries, and the attempt is not
            // orphaned.
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

    /// Builds the next post: the oldest unacknowledged events, and the live ones.
    fn next_request(&self) -> EventsRequest {
        let (mut outbox, now) = (self.outbox(), Instant::now());
        outbox.last_post = now;
        outbox.is_urgent = false;
        if now >= outbox.next_heartbeat {
            outbox.live.push(LiveEvent::Heartbeat);
            outbox.next_heartbeat = now + self.0.heartbeat;
        }
        let live = std::mem::take(&mut outbox.live);
        let mut bytes = 0;
        let fits = |event: &&NumberedEvent| {
            let before = bytes;
            bytes += event.event.history_bytes();
            before < MAX_HISTORY_BYTES_PER_POST
        };
        let events = outbox.unacknowledged.iter().take(MAX_EVENTS_PER_POST).take_while(fits);
        EventsRequest { events: events.cloned().collect(), live }
    }

    fn apply_reply(&self, reply: EventsReply) {
        let mut outbox = self.outbox();
        outbox.last_reply = Instant::now();
        let before = outbox.unacknowledged.len();
        while outbox.unacknowledged.front().is_some_and(|event| event.no <= reply.stored) {
            outbox.unacknowledged.pop_front();
        }
        if outbox.unacknowledged.len() < before {
            // Urgent events that did not fit into this post are posted next, without a delay.
            outbox.is_urgent |= outbox.unacknowledged.iter().any(is_urgent);
        }
        drop(outbox);
        self.0.feedback.send_modify(|feedback| {
            feedback.stored = reply.stored;
            feedback.is_stopped |= reply.order == Order::Stop;
        });
    }

    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        // A panic ends the worker, so no caller sees a half-updated outbox.
        sync::lock(&self.0.outbox)
    }
}

impl Outbox {
    /// Writes an event to the journal and queues it for posting. Returns its number.
    fn append(&mut self, event: WorkerEvent) -> i64 {
        self.last_no += 1;
        let mut event = NumberedEvent { no: self.last_no, ts: time_of_day(), event };
        let mut written = self.journal.append(&event);
        if written.is_err() && event.event.history_bytes() > 0 {
            // A nearly full disk may take the event without its texts.
            for text in event.event.history_texts_mut() {
                text.lose();
            }
            written = self.journal.append(&event);
        }
        if matches!(event.event, WorkerEvent::Finished(_)) && written.is_ok() {
            written = self.journal.sync();
        }
        if let Err(error) = written {
            self.write_error.get_or_insert(error);
        }
        self.is_urgent |= is_urgent(&event);
        self.unacknowledged.push_back(event);
        self.last_no
    }
}

/// Suspends the time limits until dropped.
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

/// Returns true if the words so far are reported before this event, because they precede it in the turn.
fn follows_words(event: &WorkerEvent) -> bool {
    match event {
        WorkerEvent::ToolCall { .. }
        | WorkerEvent::ToolResult { .. }
        | WorkerEvent::Joined { .. }
        | WorkerEvent::Retry { .. }
        | WorkerEvent::Note { .. }
        | WorkerEvent::Finished(_) => true,
        WorkerEvent::Started { .. }
        | WorkerEvent::Prompt { .. }
        | WorkerEvent::Words(_)
        | WorkerEvent::Usage(_)
        | WorkerEvent::Session { .. } => false,
    }
}

/// Returns true if the attempt waits for the acknowledgement of this event.
fn is_urgent(event: &NumberedEvent) -> bool {
    match event.event {
        WorkerEvent::Started { .. } | WorkerEvent::Usage(_) | WorkerEvent::Finished(_) => true,
        WorkerEvent::Prompt { .. }
        | WorkerEvent::Words(_)
        | WorkerEvent::ToolCall { .. }
        | WorkerEvent::ToolResult { .. }
        | WorkerEvent::Joined { .. }
        | WorkerEvent::Retry { .. }
        | WorkerEvent::Note { .. }
        | WorkerEvent::Session { .. } => false,
    }
}

/// Returns true if the daemon will never accept an event of this attempt again.
fn is_final_refusal(code: Code) -> bool {
    matches!(code.status(), 401 | 403 | 404 | 409)
}
