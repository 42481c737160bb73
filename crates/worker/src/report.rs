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
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use agent_worker_host::{Daemon, DialError};
use agent_worker_protocol::{
    AttemptId, Code, EventsReply, EventsRequest, LiveEvent, NumberedEvent, Order, Problem,
    WorkerEvent,
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
    pace::{self, Facts, Waiting},
    text::{shown, start},
};

/// The most events of one post, so that no daemon finds it too large.
const BATCH: usize = 50;
/// A daemon that takes longer than this over a post is asked again; the numbers make that harmless.
const POST_TIMEOUT: Duration = Duration::from_secs(10);

/// How much of a tool's answer an event shows.
const RESULT_SHOWN: usize = 500;

/// The attempt's reporter. Clones share it.
#[derive(Clone)]
pub(crate) struct Report(Arc<Inner>);

struct Inner {
    daemon: Daemon,
    path: String,
    heartbeat: Duration,
    desk: Mutex<Desk>,
    /// Something was laid on the desk.
    wake: Notify,
    /// A person is no longer waited for.
    released: Notify,
    standing: watch::Sender<Standing>,
}

/// What is to be posted.
struct Desk {
    journal: Journal,
    /// The first thing that did not get onto the disk.
    trouble: Option<io::Error>,
    last_no: i64,
    outbox: VecDeque<NumberedEvent>,
    live: Vec<LiveEvent>,
    /// `started` or `finished` is there and was not tried yet.
    is_urgent: bool,
    last_post: Instant,
    next_heartbeat: Instant,
    active: Instant,
    answered: Instant,
    /// How often a person is waited for now, since when, and how long that was before.
    holds: usize,
    held_since: Instant,
    held: Duration,
}

/// What the daemon has said so far.
#[derive(Default)]
struct Standing {
    /// The highest number it has stored.
    stored: i64,
    /// It has ordered the attempt to stop. That is never taken back.
    is_stopped: bool,
    /// Why it will hear no more of this attempt.
    refusal: Option<Problem>,
}

impl Report {
    /// Opens the journal in `folder`; nothing is posted before [`Report::post_forever`].
    pub(crate) fn open(
        folder: &Path,
        attempt: AttemptId,
        daemon: Daemon,
        orphan_grace: Duration,
    ) -> io::Result<Self> {
        let now = Instant::now();
        let heartbeat = pace::heartbeat(orphan_grace);
        let desk = Desk {
            journal: Journal::create(folder)?,
            trouble: None,
            last_no: 0,
            outbox: VecDeque::new(),
            live: Vec::new(),
            is_urgent: false,
            last_post: now,
            next_heartbeat: now + heartbeat,
            active: now,
            answered: now,
            holds: 0,
            held_since: now,
            held: Duration::ZERO,
        };
        Ok(Self(Arc::new(Inner {
            daemon,
            path: format!("/attempts/{attempt}/events"),
            heartbeat,
            desk: Mutex::new(desk),
            wake: Notify::new(),
            released: Notify::new(),
            standing: watch::Sender::default(),
        })))
    }

    /// Writes an event down for good and has it posted. Returns its number.
    ///
    /// What the disk does not take is posted all the same; [`Report::trouble`] tells of it.
    pub(crate) fn record(&self, event: WorkerEvent) -> i64 {
        let mut desk = self.desk();
        desk.last_no += 1;
        let event = NumberedEvent { no: desk.last_no, ts: time_of_day(), event };
        let is_last = matches!(event.event, WorkerEvent::Finished(_));
        let mut written = desk.journal.append(&event);
        if is_last && written.is_ok() {
            written = desk.journal.sync();
        }
        if let Err(error) = written {
            desk.trouble.get_or_insert(error);
        }
        desk.is_urgent |= is_urgent(&event);
        desk.active = Instant::now();
        desk.outbox.push_back(event);
        let no = desk.last_no;
        drop(desk);
        self.0.wake.notify_one();
        no
    }

    /// A tool is about to be called.
    pub(crate) fn called(&self, id: &str, tool: &str, args: Value) {
        let (id, tool) = (id.to_owned(), tool.to_owned());
        self.record(WorkerEvent::ToolCall { id, tool, args: shown(args) });
    }

    /// It has answered.
    pub(crate) fn answered(&self, id: &str, tool: &str, result: &ToolResult) {
        let (id, tool, ok) = (id.to_owned(), tool.to_owned(), result.is_done());
        let summary = start(result.text(), RESULT_SHOWN);
        self.record(WorkerEvent::ToolResult { id, tool, ok, summary });
    }

    /// Shows a model's next words to whoever watches.
    pub(crate) fn say(&self, words: &str) {
        let mut desk = self.desk();
        desk.active = Instant::now();
        match desk.live.last_mut() {
            Some(LiveEvent::Text { text }) => text.push_str(words),
            Some(LiveEvent::Heartbeat) | None => {
                desk.live.push(LiveEvent::Text { text: words.to_owned() });
            }
        }
        drop(desk);
        self.0.wake.notify_one();
    }

    /// Notes that something moves, so that the attempt is not taken for silent.
    pub(crate) fn touch(&self) {
        self.desk().active = Instant::now();
    }

    /// When something last moved here, and when a daemon last answered.
    pub(crate) fn last_signs(&self) -> (Instant, Instant) {
        let desk = self.desk();
        (desk.active, desk.answered)
    }

    /// Lets the clocks stand still for as long as what it returns is kept: a person is waited for.
    pub(crate) fn hold(&self) -> Held {
        let mut desk = self.desk();
        if desk.holds == 0 {
            desk.held_since = Instant::now();
        }
        desk.holds += 1;
        drop(desk);
        Held(self.clone())
    }

    /// How long people were waited for or the process was suspended, and whether a person is waited for now.
    pub(crate) fn held(&self) -> (Duration, clocks::Waiting) {
        let desk = self.desk();
        let waiting =
            if desk.holds > 0 { clocks::Waiting::ForAPerson } else { clocks::Waiting::ForNobody };
        (desk.held, waiting)
    }

    /// Notes that this process did not run for `gap`: none of that time counts.
    pub(crate) fn resume(&self, gap: Duration) {
        let (mut desk, now) = (self.desk(), Instant::now());
        desk.active = now;
        desk.answered = now;
        // While a person is waited for, the time is counted as waiting already.
        if desk.holds == 0 {
            desk.held += gap;
        }
    }

    /// Returns when the clocks go on.
    pub(crate) async fn released(&self) {
        self.0.released.notified().await;
    }

    /// Waits until the daemon has stored the event with this number.
    pub(crate) async fn acknowledged(&self, no: i64) {
        self.until(|standing| (standing.stored >= no).then_some(())).await;
    }

    /// Waits until the daemon orders the attempt to stop.
    pub(crate) async fn ordered_to_stop(&self) {
        self.until(|standing| standing.is_stopped.then_some(())).await;
    }

    /// Waits until the daemon will hear no more of this attempt.
    pub(crate) async fn unwanted(&self) -> Problem {
        self.until(|standing| standing.refusal.clone()).await
    }

    async fn until<T>(&self, look: impl Fn(&Standing) -> Option<T>) -> T {
        let mut standing = self.0.standing.subscribe();
        loop {
            if let Some(found) = look(&standing.borrow_and_update()) {
                return found;
            }
            // The sender lives in `self`, so that it cannot be gone.
            let _ = standing.changed().await;
        }
    }

    /// The first thing that did not get onto the disk, if any.
    pub(crate) fn trouble(&self) -> Option<io::Error> {
        self.desk().trouble.take()
    }

    /// Whether something did not get onto the disk.
    pub(crate) fn has_trouble(&self) -> bool {
        self.desk().trouble.is_some()
    }

    /// Posts whatever is there, whenever it is time. Runs beside the attempt for as long as it lives.
    pub(crate) async fn post_forever(&self) -> Infallible {
        loop {
            let pause = pace::next_post(self.facts());
            if pause.is_zero() {
                self.post().await;
            } else {
                tokio::select! {
                    () = sleep(pause) => {}
                    () = self.0.wake.notified() => {}
                }
            }
        }
    }

    fn facts(&self) -> Facts {
        let (desk, now) = (self.desk(), Instant::now());
        let waiting = if desk.is_urgent {
            Waiting::Urgent
        } else if desk.outbox.is_empty() && desk.live.is_empty() {
            Waiting::Nothing
        } else {
            Waiting::Something
        };
        let since_post = now.saturating_duration_since(desk.last_post);
        let heartbeat_in = desk.next_heartbeat.saturating_duration_since(now);
        Facts { waiting, since_post, heartbeat_in }
    }

    async fn post(&self) {
        let request = self.next_request();
        let answer = self.0.daemon.post::<_, EventsReply>(&self.0.path, &request);
        match timeout(POST_TIMEOUT, answer).await {
            Ok(Ok(reply)) => self.heard(reply),
            Ok(Err(DialError::Refused(problem))) if is_final(problem.code) => {
                self.0.standing.send_modify(|standing| standing.refusal = Some(problem));
            }
            // It is there and cannot take it now: tried again, but nobody is orphaned.
            Ok(Err(DialError::Refused(_) | DialError::Garbled { .. })) => {
                self.desk().answered = Instant::now();
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
        let (mut desk, now) = (self.desk(), Instant::now());
        desk.last_post = now;
        desk.is_urgent = false;
        if now >= desk.next_heartbeat {
            desk.live.push(LiveEvent::Heartbeat);
            desk.next_heartbeat = now + self.0.heartbeat;
        }
        let live = std::mem::take(&mut desk.live);
        EventsRequest { events: desk.outbox.iter().take(BATCH).cloned().collect(), live }
    }

    fn heard(&self, reply: EventsReply) {
        let mut desk = self.desk();
        desk.answered = Instant::now();
        let before = desk.outbox.len();
        while desk.outbox.front().is_some_and(|event| event.no <= reply.stored) {
            desk.outbox.pop_front();
        }
        if desk.outbox.len() < before {
            // What did not fit into this post and is waited for goes with the next one, now.
            desk.is_urgent |= desk.outbox.iter().any(is_urgent);
        }
        drop(desk);
        self.0.standing.send_modify(|standing| {
            standing.stored = reply.stored;
            standing.is_stopped |= reply.order == Order::Stop;
        });
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        // A panic ends the worker; there is no half-done desk to be found.
        self.0.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A person is waited for, until dropped.
pub(crate) struct Held(Report);

impl Drop for Held {
    fn drop(&mut self) {
        let mut desk = self.0.desk();
        desk.holds -= 1;
        if desk.holds == 0 {
            let held = desk.held_since.elapsed();
            desk.held += held;
            desk.active = Instant::now();
        }
        drop(desk);
        self.0.0.released.notify_one();
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
fn is_final(code: Code) -> bool {
    matches!(code.status(), 401 | 403 | 404 | 409)
}
