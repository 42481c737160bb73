//! Joins keys, events, the clock and the daemon's answers to the full screen. The decisions are in `state` and `keys`.

use std::{collections::HashSet, io, time::Duration};

use agent_worker_host::DialError;
use agent_worker_protocol::{
    Message, RunId, Target,
    api::{RunView, SendReply},
};
use ratatui::{
    Terminal,
    backend::{Backend as _, CrosstermBackend},
};
use rustix::process::Signal as RawSignal;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    task::JoinSet,
    time::{MissedTickBehavior, interval, sleep},
};

use super::{
    entries::AttentionEntry,
    keys::TopAction,
    requests::{self, LiveRuns},
    state::{StaleData, TopState},
    streams::{RunStreams, RunUpdate},
    terminal::TerminalScreen,
    view,
};
use crate::{
    client::{
        daemon_client::{CommandScope, DaemonClient},
        discovery,
    },
    error::{CliError, CliErrorKind},
    input::{context::CommandContext, settings::CliSettings, signals::InterruptSignals},
    live::{
        feed::{DAEMON_BACK, DAEMON_LOST, FeedUpdate},
        input_line::reply_notices,
        keyboard::{KeyCapture, KeyReader},
        typed_key::TypedKey,
    },
    output::{
        clock,
        styled_line::{Colour, StyledLine, Tone},
        text::one_line,
        verdict::RunVerdict,
    },
};

/// Interval at which the times on the screen are drawn again.
const CLOCK_INTERVAL: Duration = Duration::from_secs(1);
/// Time in which changes are collected before the items and runs are read again.
const RELOAD_DELAY: Duration = Duration::from_millis(150);
/// Time before a failed read is repeated.
const RETRY_DELAY: Duration = Duration::from_secs(2);
/// Time in which keys count as pressed together.
const KEY_GROUP_TIME: Duration = Duration::from_millis(100);
/// Time without a further byte after which an Escape is a key of its own.
const ESCAPE_TIME: Duration = Duration::from_millis(40);

type FullScreen = Terminal<CrosstermBackend<io::Stdout>>;

/// The full screen and its sources.
pub(crate) struct TopSession {
    client: DaemonClient,
    settings: CliSettings,
    scope: CommandScope,
    state: TopState,
    streams: RunStreams,
    stale: StaleData,
    /// Time before the next read of stale data.
    reload_delay: Duration,
    loads: JoinSet<Result<LoadedData, DialError>>,
    actions: JoinSet<ActionOutcome>,
    keys: KeyReader,
    colour: Colour,
}

/// Data that was read from the daemon.
struct LoadedData {
    /// The live runs, if they were read, with the new ones in full.
    runs: Option<(LiveRuns, Vec<StartedRun>)>,
    attention: Vec<AttentionEntry>,
}

/// A run with its newest messages.
type StartedRun = (RunView, Vec<Message>);

/// The result of a request of the person.
enum ActionOutcome {
    Decided(Result<(), CliError>),
    Sent(RunId, String, Result<SendReply, CliError>),
}

/// The continuation after a wake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TopStep {
    Continue,
    Quit,
}

impl TopSession {
    pub(crate) fn new(
        client: DaemonClient,
        target: Option<Target>,
        ctx: &CommandContext<'_>,
    ) -> Self {
        let settings = ctx.settings.clone();
        Self {
            client,
            scope: requests::scope_of(target, settings.cwd.clone()),
            streams: RunStreams::new(&settings.home),
            settings,
            state: TopState::new(),
            stale: StaleData::Runs,
            reload_delay: RELOAD_DELAY,
            loads: JoinSet::new(),
            actions: JoinSet::new(),
            keys: KeyReader::default(),
            colour: ctx.console.stdout_colour(),
        }
    }

    /// Shows the screen until the person quits or a signal arrives.
    pub(crate) async fn run(mut self) -> Result<RunVerdict, CliError> {
        let mut signals = InterruptSignals::listen_or_fail()?;
        let mut resizes = signal(SignalKind::window_change()).map_err(screen_error)?;
        // A suspended process would leave the second screen behind, so Ctrl-Z has no effect.
        let _suspends =
            signal(SignalKind::from_raw(RawSignal::TSTP.as_raw())).map_err(screen_error)?;
        let _restored_at_end = TerminalScreen::enter(&mut signals)?;
        let mut screen = empty_screen()?;
        let shown = self.show(&mut screen, &mut signals, &mut resizes).await;
        // Before the screen restores the modes of its start.
        self.keys.stop_capture();
        shown.map(|()| RunVerdict::Done)
    }

    async fn show(
        &mut self,
        screen: &mut FullScreen,
        signals: &mut InterruptSignals,
        resizes: &mut Signal,
    ) -> Result<(), CliError> {
        let mut clock_tick = interval(CLOCK_INTERVAL);
        clock_tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let capture = self.keys.start_capture();
            if capture == KeyCapture::Started {
                // Another process may have used the terminal.
                *screen = empty_screen()?;
            }
            self.start_load();
            self.draw(screen)?;
            let step = tokio::select! {
                _ = signals.next_signal() => TopStep::Quit,
                _ = resizes.recv() => TopStep::Continue,
                _ = clock_tick.tick() => TopStep::Continue,
                () = self.keys.wait_pressed(), if capture != KeyCapture::Unavailable => {
                    let keys = self.pressed_keys().await;
                    self.press(&keys)
                }
                update = self.streams.next() => self.apply_update(update)?,
                Some(loaded) = self.loads.join_next() => self.apply_loaded(loaded),
                Some(done) = self.actions.join_next() => self.apply_outcome(done),
            };
            if step == TopStep::Quit {
                return Ok(());
            }
        }
    }

    fn draw(&mut self, screen: &mut FullScreen) -> Result<(), CliError> {
        let (now, colour) = (clock::now(), self.colour);
        let state = &mut self.state;
        screen.draw(|frame| view::draw(state, frame, now, colour)).map(drop).map_err(screen_error)
    }

    /// Returns the pressed keys; an item gets those that were pressed together at once.
    async fn pressed_keys(&mut self) -> Vec<TypedKey> {
        if self.state.is_item_open() {
            sleep(KEY_GROUP_TIME).await;
        }
        let keys = self.keys.read_pressed();
        if !keys.is_empty() {
            return keys;
        }
        sleep(ESCAPE_TIME).await;
        self.keys.read_pressed_after_pause()
    }

    fn press(&mut self, keys: &[TypedKey]) -> TopStep {
        for action in self.state.press_keys(keys, clock::now()) {
            let client = self.client.clone();
            match action {
                TopAction::Quit => return TopStep::Quit,
                TopAction::Decide(place, decision) => {
                    self.actions.spawn(async move {
                        ActionOutcome::Decided(requests::decide(client, place, decision).await)
                    });
                }
                TopAction::Send(run, text) => {
                    self.actions.spawn(async move {
                        let sent = requests::send(client, run, text.clone()).await;
                        ActionOutcome::Sent(run, text, sent)
                    });
                }
            }
        }
        TopStep::Continue
    }

    /// Starts to read what is out of date, unless a read is in progress.
    fn start_load(&mut self) {
        if self.stale == StaleData::None || !self.loads.is_empty() {
            return;
        }
        let stale = std::mem::replace(&mut self.stale, StaleData::None);
        let known: HashSet<RunId> = self.state.runs.iter().map(|run| run.run).collect();
        let (client, scope) = (self.client.clone(), self.scope.clone());
        let delay = std::mem::replace(&mut self.reload_delay, RELOAD_DELAY);
        self.loads.spawn(async move {
            sleep(delay).await;
            load(client, scope, stale, known).await
        });
    }

    fn apply_loaded(
        &mut self,
        loaded: Result<Result<LoadedData, DialError>, tokio::task::JoinError>,
    ) -> TopStep {
        match loaded {
            Ok(Ok(LoadedData { runs, attention })) => {
                if let Some((runs, new)) = runs {
                    self.show_runs(runs, new);
                }
                self.state.set_attention(attention);
            }
            Ok(Err(error)) => {
                let message = CliError::from(error).to_report_error().message;
                self.warn(&format!("could not read the runs: {message}"));
                (self.stale, self.reload_delay) = (StaleData::Runs, RETRY_DELAY);
            }
            Err(_) => (self.stale, self.reload_delay) = (StaleData::Runs, RETRY_DELAY),
        }
        TopStep::Continue
    }

    fn show_runs(&mut self, runs: LiveRuns, new: Vec<StartedRun>) {
        let LiveRuns { mut views, hidden } = runs;
        for (view, _) in &new {
            if let Some(listed) = views.iter_mut().find(|listed| listed.run == view.run) {
                *listed = view.clone();
            }
        }
        self.state.set_runs(&views, hidden);
        let state = &self.state;
        self.streams.retain(|run| state.run(run).is_some());
        for (view, messages) in new {
            if !self.streams.contains(view.run) {
                let (client, settings) = (self.client.clone(), self.settings.clone());
                self.streams.add(view.run, view.position, client, settings);
            }
            self.state.add_messages(view.run, messages);
        }
    }

    fn apply_update(&mut self, update: Option<RunUpdate>) -> Result<TopStep, CliError> {
        let Some(RunUpdate { run, update }) = update else {
            self.stale = StaleData::Runs;
            return Ok(TopStep::Continue);
        };
        match update? {
            FeedUpdate::Event(_, event) => {
                self.stale = self.stale.max(self.state.apply(run, &event));
            }
            FeedUpdate::End => self.stale = StaleData::Runs,
            FeedUpdate::Disconnected => self.warn(DAEMON_LOST),
            FeedUpdate::Reconnected(client) => {
                self.client = client;
                self.stale = StaleData::Runs;
                self.warn(DAEMON_BACK);
            }
            FeedUpdate::Held(client) => {
                self.client = client;
                self.stale = StaleData::Runs;
                self.warn(discovery::HELD_TEXT);
            }
        }
        Ok(TopStep::Continue)
    }

    fn apply_outcome(&mut self, done: Result<ActionOutcome, tokio::task::JoinError>) -> TopStep {
        match done {
            Ok(ActionOutcome::Decided(Ok(()))) => self.stale = self.stale.max(StaleData::Attention),
            Ok(ActionOutcome::Decided(Err(error))) => {
                self.stale = self.stale.max(StaleData::Attention);
                self.warn(&format!("could not answer: {}", error.to_report_error().message));
            }
            Ok(ActionOutcome::Sent(_, _, Ok(reply))) => {
                let notices = reply_notices(&reply);
                let sent = StyledLine::new(Tone::Good, format!("sent #{}", reply.seq));
                self.state.notice = Some(notices.into_iter().next().unwrap_or(sent));
            }
            Ok(ActionOutcome::Sent(run, text, Err(error))) => {
                let message = error.to_report_error().message;
                self.warn(&format!("could not send: {message} (s shows the text again)"));
                self.state.keep_unsent(run, text);
            }
            Err(_) => {}
        }
        TopStep::Continue
    }

    fn warn(&mut self, text: &str) {
        self.state.notice = Some(StyledLine::new(Tone::Warn, one_line(text)));
    }
}

/// Reads what is out of date; runs that are not known are read in full.
async fn load(
    client: DaemonClient,
    scope: CommandScope,
    stale: StaleData,
    known: HashSet<RunId>,
) -> Result<LoadedData, DialError> {
    let runs = match stale {
        StaleData::Runs => {
            let runs = requests::read_runs(&client, &scope).await?;
            let mut new = Vec::new();
            for view in runs.views.iter().filter(|view| !known.contains(&view.run)) {
                new.push(requests::read_run(&client, view.run).await?);
            }
            Some((runs, new))
        }
        StaleData::None | StaleData::Attention => None,
    };
    let attention = requests::read_attention(client, scope).await?;
    Ok(LoadedData { runs, attention })
}

/// Clears the terminal and returns a screen that draws every cell.
fn empty_screen() -> Result<FullScreen, CliError> {
    let mut screen = Terminal::new(CrosstermBackend::new(io::stdout())).map_err(screen_error)?;
    screen.backend_mut().clear().map_err(screen_error)?;
    Ok(screen)
}

fn screen_error(error: io::Error) -> CliError {
    CliError::with_source(CliErrorKind::Failed, "could not draw the screen", error)
}
