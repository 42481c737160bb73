//! Notifications for a person: one loop per run that has a channel, from the run's creation until its end was delivered.
//!
//! The log of the run is the queue. The position up to which it was handled is in a private file of the home, with the
//! channels that the current notification has already reached. So a daemon that was killed continues where it stopped:
//! every occasion is delivered at least once by one of the daemons, and only the channel whose delivery was cut off
//! gets it again, with the same id. A delivery to a channel that was cut off `MAX_STARTS` times counts as failed.
//! A daemon reads the state once: a save that fails is tried again, and nothing is delivered or counted again.
//!
//! Invariant: nothing waits for a notification. A failure is an event of the live run, a line of the log, and an entry of
//! the list that `doctor` shows.

mod delivery;
mod message;
mod notice_rate;
mod state_file;
mod webhook;

use std::{io, time::Duration};

use agent_worker_kernel::{
    Error as KernelError, Kernel, PersonNotice, Principal, WatchSubject, notify_occasion,
};
use agent_worker_protocol::{
    Code, Event, EventBody, Notification, NotificationFailedData, NotifyChannel, Position, Problem,
    RunId,
};
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub(crate) use self::state_file::{NotifyFolder, NotifyQueue};
use self::{
    message::notification_of,
    notice_rate::{NoticeRate, RateDecision},
    state_file::{DeliveryStart, NotifyState, Sending},
};
use crate::runner::ProcessRunner;

/// Number of events after which the position is saved although none of them needed a person.
const EVENTS_PER_SAVE: u32 = 256;
/// Delay before the next try after the store or the disk failed.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
const CUT_OFF: &str = "the daemon ended during the delivery, more than once";

/// Starts and owns the loops of the runs.
#[derive(Clone)]
pub(crate) struct Notifier {
    kernel: Kernel,
    runner: ProcessRunner,
    folder: NotifyFolder,
    tracker: TaskTracker,
    closing: CancellationToken,
}

/// The reason why the loop of a run stopped.
#[derive(Debug, thiserror::Error)]
enum NotifyError {
    #[error(transparent)]
    Kernel(#[from] KernelError),
    #[error("the state of the notifications: {0}")]
    State(#[from] io::Error),
}

impl NotifyError {
    /// Returns true if a later try fails too: the run was removed or never created, or its state is missing or damaged.
    fn is_final(&self) -> bool {
        match self {
            Self::Kernel(error) => Problem::from(error).code == Code::NotFound,
            Self::State(error) => {
                matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData)
            }
        }
    }
}

impl Notifier {
    pub(crate) fn new(
        kernel: Kernel,
        runner: ProcessRunner,
        tracker: TaskTracker,
        closing: CancellationToken,
    ) -> Self {
        let folder = runner.notify_folder();
        Self { kernel, runner, folder, tracker, closing }
    }

    /// Continues the notifications of earlier daemons, and starts those of new runs.
    pub(crate) fn start(&self, queue: &NotifyQueue) {
        for run in self.folder.runs() {
            self.spawn(run);
        }
        let (notifier, queue) = (self.clone(), queue.clone());
        self.tracker.spawn(async move {
            loop {
                tokio::select! {
                    () = notifier.closing.cancelled() => return,
                    runs = queue.next() => runs.into_iter().for_each(|run| notifier.spawn(run)),
                }
            }
        });
    }

    fn spawn(&self, run: RunId) {
        let notifier = self.clone();
        self.tracker.spawn(async move {
            let closing = notifier.closing.clone();
            tokio::select! {
                () = closing.cancelled() => {}
                () = notifier.follow_run(run) => {}
            }
        });
    }

    /// Delivers the notifications of a run until its end.
    async fn follow_run(&self, run: RunId) {
        let mut rate = NoticeRate::default();
        let mut loaded = None;
        loop {
            match self.follow_events(run, &mut loaded, &mut rate).await {
                Ok(()) => break,
                Err(error) if error.is_final() => {
                    tracing::warn!(%run, %error, "no more notifications for a run");
                    break;
                }
                Err(error) => tracing::error!(%run, %error, "cannot notify; retrying"),
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
        self.folder.remove(run);
    }

    /// Follows the log from the state in memory; the first call loads it.
    async fn follow_events(
        &self,
        run: RunId,
        loaded: &mut Option<NotifyState>,
        rate: &mut NoticeRate,
    ) -> Result<(), NotifyError> {
        let state = match loaded {
            Some(state) => state,
            None => loaded.insert(self.folder.load(run)?),
        };
        let runs = self.kernel.runs();
        let after = Some(state.after);
        let mut events = runs.watch(&Principal::User, WatchSubject::Run(run), after).await?;
        let mut unsaved = 0;
        while let Some(event) = events.next().await? {
            let Some(position) = event.pos else { continue };
            if notify_occasion(&event.body).is_some() {
                self.handle(&event, state, rate).await?;
                self.pass(run, state, position).await?;
                unsaved = 0;
            } else if unsaved >= EVENTS_PER_SAVE {
                self.pass(run, state, position).await?;
                unsaved = 0;
            } else {
                unsaved += 1;
            }
            if matches!(event.body, EventBody::RunEnded(_)) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Notes that everything up to a position is handled.
    async fn pass(&self, run: RunId, state: &mut NotifyState, to: Position) -> io::Result<()> {
        (state.after, state.sending) = (to, None);
        self.save(run, state).await
    }

    /// Saves the state. Retries until the disk accepts it, unless the folder is gone.
    async fn save(&self, run: RunId, state: &NotifyState) -> io::Result<()> {
        loop {
            match self.folder.save(run, state) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::error!(%run, %error, "cannot save the state of notifications; retrying");
                    tokio::time::sleep(RETRY_INTERVAL).await;
                }
                saved => return saved,
            }
        }
    }

    async fn handle(
        &self,
        event: &Event,
        state: &mut NotifyState,
        rate: &mut NoticeRate,
    ) -> Result<(), NotifyError> {
        let settings = &state.plan.settings;
        let Some(notice) = self.kernel.notices().of_event(event, settings).await? else {
            return Ok(());
        };
        let left_out = match rate.admit(notice.occasion, Instant::now()) {
            RateDecision::Skip => return Ok(()),
            RateDecision::Send { left_out } => left_out,
        };
        let message = notification_of(&notice, left_out);
        let mut sending = state.sending.take().filter(|last| last.at == notice.position);
        let sending = sending.get_or_insert(Sending::at(notice.position));
        for channel in NotifyChannel::ALL {
            if !state.plan.settings.has_channel(channel) || sending.reached.contains(&channel) {
                continue;
            }
            let start = sending.start_channel();
            state.sending = Some(sending.clone());
            self.save(notice.run, state).await?;
            let sent = match start {
                DeliveryStart::Allowed => self.deliver(channel, &message, state).await,
                DeliveryStart::CutOff => Err(CUT_OFF.to_owned()),
            };
            self.record(channel, &notice, sent).await;
            sending.pass_channel(channel);
        }
        Ok(())
    }

    async fn deliver(
        &self,
        channel: NotifyChannel,
        message: &Notification,
        state: &NotifyState,
    ) -> Result<(), String> {
        let (plan, settings) = (&state.plan, &state.plan.settings);
        match channel {
            NotifyChannel::Desktop => delivery::show_on_desktop(&self.runner, plan, message).await,
            NotifyChannel::Command => delivery::run_command(&self.runner, plan, message).await,
            NotifyChannel::Webhook => {
                webhook::post(settings.webhook.as_deref().unwrap_or_default(), message).await
            }
        }
    }

    /// Records the result of a delivery; a failure to do so stops nothing.
    async fn record(
        &self,
        channel: NotifyChannel,
        notice: &PersonNotice,
        sent: Result<(), String>,
    ) {
        let (run, occasion) = (notice.run, notice.occasion);
        let at = self.kernel.now().wall;
        let why = match sent {
            Ok(()) => return self.folder.forget_failure(&notice.instance, channel),
            Err(why) => why,
        };
        tracing::warn!(%run, %channel, %occasion, why, "a notification could not be delivered");
        self.folder.keep_failure(&notice.instance, channel, at, &why);
        let failure = NotificationFailedData { occasion, channel, why };
        if let Err(error) = self.kernel.notices().record_failure(run, failure).await {
            tracing::error!(%run, %error, "could not record a failed notification");
        }
    }
}
