//! Follows a run to its end: a plain loop over its events, the caller's signals and the clock.
//!
//! Events are only displayed; once they end, the daemon is asked for the state of the run. The decisions are in `view`,
//! `verdict` and `report`. A caller that leaves before the end resumes at the same position.

use std::{pin::pin, time::Duration};

use agent_worker_host::DialError;
use agent_worker_protocol::{
    Code, Event, EventKind, RunId, RunMode, Target,
    api::{RunStarted, RunView},
};
use tokio::time::{MissedTickBehavior, interval};

use crate::{
    client::{
        daemon_client::{DaemonClient, EventConsumer, FeedSource, StopGrace},
        discovery,
        local_state::LocalState,
    },
    error::{CliError, CliErrorKind},
    input::{context::CommandContext, settings::CliSettings, signals::InterruptSignals},
    live::{
        attention_prompt::Interactivity,
        bell::BellSetting,
        controls::{ControlsWake, LiveControls},
        feed::{DAEMON_BACK, DAEMON_LOST, FeedUpdate, ReconnectingFeed},
        input_line::MessageRecipient,
        screen::{AnswerDestination, Screen},
        view::{Replay, RunProgress, TranscriptLine, Verbosity},
    },
    output::{
        clock,
        console::TerminalSize,
        report::{self, RunConclusion},
        styled_line::{StyledLine, Tone},
    },
};

/// Minimum time between two redraws of a terminal.
pub(crate) const REDRAW_INTERVAL: Duration = Duration::from_millis(100);
/// Poll interval for the end of a run that is being stopped.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Time limit for the daemon's response to a stop request.
const STOP_RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// A run that a caller follows.
pub(crate) struct Follower {
    /// The followed run.
    pub(crate) started: RunStarted,
    /// Mode of the run: a paused `start` is not over.
    pub(crate) mode: RunMode,
    /// Effect of a signal on the run.
    pub(crate) on_signal: OnSignal,
    /// Point at which the following ends.
    pub(crate) until: FollowUntil,
    /// Events that the caller has already seen.
    pub(crate) resume_point: ResumePoint,
    /// Level of detail.
    pub(crate) detail: Verbosity,
    /// Line below the view for messages of the person.
    pub(crate) input: InputLinePolicy,
    /// Destination of the messages.
    pub(crate) answer_destination: AnswerDestination,
    /// Sound of the terminal when the run needs a person.
    pub(crate) bell: BellSetting,
    /// Client for the run's daemon.
    pub(crate) client: DaemonClient,
}

/// The effect of the caller's signal on a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnSignal {
    /// The signal stops the run.
    Stop,
    /// The signal only ends the following.
    Leave,
}

/// The line below the view in which a person types messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InputLinePolicy {
    /// A person at a terminal has the line.
    Offered,
    /// The view has no such line.
    Absent,
}

/// The point at which the following ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FollowUntil {
    /// The run has ended.
    Ended,
    /// The agents of the run are awake.
    Running,
}

/// The events of a run that a caller has already seen.
pub(crate) enum ResumePoint {
    /// No event yet.
    Start,
    /// All events up to this one.
    After {
        /// Id of the event.
        event: String,
        /// Current state of the run; events up to its position are printed and change nothing in it.
        run: Box<RunView>,
    },
}

/// The outcome of following a run.
pub(crate) enum FollowOutcome {
    /// The run has ended or is paused.
    Over(Box<RunConclusion>),
    /// The run continues without the caller.
    Detached,
    /// The run is being stopped, and the caller did not wait for that.
    DetachedWhileStopping,
}

enum FollowStep {
    Over(Box<RunConclusion>),
    Running,
    Signal,
}

/// The screen, the controls and the state that they show.
struct LiveView {
    screen: Screen,
    controls: LiveControls,
    replay: Replay,
    /// Id of the last shown event.
    last_event_id: String,
}

impl Follower {
    /// Follows the run to the requested point.
    pub(crate) async fn follow(
        mut self,
        ctx: &mut CommandContext<'_>,
        signals: &mut InterruptSignals,
    ) -> Result<FollowOutcome, CliError> {
        let mut show = self.live_view(ctx);
        show.controls.guard_terminal(signals)?;
        let step = self.follow_events(ctx, signals, &mut show).await;
        show.controls.close(ctx.console)?;
        show.screen.close(ctx.console)?;
        if !matches!(&step, Ok(FollowStep::Over(report)) if !report.view.state.is_live()) {
            self.save_position(&show.last_event_id, ctx)?;
        }
        let step = step.map_err(|error| {
            let progress = show.replay.progress();
            error.with_observed_run(progress.observed_run(self.started.run, clock::now()))
        })?;
        let followed = match (step, self.on_signal) {
            (FollowStep::Over(report), _) => FollowOutcome::Over(report),
            (FollowStep::Running, _) | (FollowStep::Signal, OnSignal::Leave) => {
                FollowOutcome::Detached
            }
            (FollowStep::Signal, OnSignal::Stop) => self.stop(ctx, signals).await?,
        };
        if let FollowOutcome::Over(report) = &followed
            && !report.view.state.is_live()
        {
            // No command needs the position in an ended run.
            LocalState::open(ctx.settings).remove_position(self.started.run).ok();
        }
        Ok(followed)
    }

    fn live_view(&self, ctx: &CommandContext<'_>) -> LiveView {
        let RunStarted { instance, agents, .. } = &self.started;
        let folder = &ctx.settings.cwd;
        let new = || RunProgress::new(instance.clone(), agents, self.detail).in_folder(folder);
        let screen = Screen::new(self.answer_destination);
        let interactivity = match (self.event_consumer(ctx), ctx.console.drawable_size()) {
            (EventConsumer::Person, Some(_)) => Interactivity::Interactive,
            (EventConsumer::Person | EventConsumer::Program, _) => Interactivity::NonInteractive,
        };
        let controls = LiveControls::new(self.started.clone(), interactivity);
        let controls = match self.input {
            InputLinePolicy::Offered => {
                controls.with_line(self.team_recipient(), ctx.settings.clone())
            }
            InputLinePolicy::Absent => controls,
        };
        let (replay, last) = match &self.resume_point {
            ResumePoint::Start => (Replay::from_start(new(), new()), String::new()),
            ResumePoint::After { event, run } => {
                (Replay::from_snapshot(run, new(), self.detail, folder), event.clone())
            }
        };
        LiveView { screen, controls, replay, last_event_id: last }
    }

    /// Returns the recipient of the messages that the person types: the whole team.
    fn team_recipient(&self) -> MessageRecipient {
        let RunStarted { run, instance, agents } = &self.started;
        let example = agents.first().map(|agent| format!(", such as: @{agent} and the tests?"));
        MessageRecipient {
            run: *run,
            target: Target::instance(instance),
            alone: false,
            placeholder: format!("message the team{}", example.unwrap_or_default()),
        }
    }

    async fn follow_events(
        &mut self,
        ctx: &mut CommandContext<'_>,
        signals: &mut InterruptSignals,
        show: &mut LiveView,
    ) -> Result<FollowStep, CliError> {
        let mut feed = self.open_feed(ctx, show);
        let mut tick = interval(REDRAW_INTERVAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let lines = tokio::select! {
                () = signals.wait_for_first() => return Ok(FollowStep::Signal),
                _ = tick.tick() => {
                    show.update(ControlsWake::Tick, &self.client, ctx)?;
                    continue;
                }
                update = show.controls.wait(clock::now) => {
                    let lines = update.into_notices();
                    show.print_notices(lines, ctx)?;
                    show.update(ControlsWake::Keys, &self.client, ctx)?;
                    continue;
                }
                news = feed.next() => match news? {
                    FeedUpdate::Event(id, event) => {
                        show.print_event(&event, ctx)?;
                        self.bell.ring_for(&event, ctx)?;
                        show.last_event_id = id;
                        match event.kind() {
                            Some(EventKind::RunRunning) if self.until == FollowUntil::Running => {
                                return Ok(FollowStep::Running);
                            }
                            _ => continue,
                        }
                    }
                    FeedUpdate::End => {
                        if let Some(report) = self.run_conclusion().await? {
                            return Ok(FollowStep::Over(Box::new(report)));
                        }
                        // The run has already been resumed.
                        feed = self.open_feed(ctx, show);
                        continue;
                    }
                    FeedUpdate::Disconnected => vec![StyledLine::new(Tone::Warn, DAEMON_LOST)],
                    FeedUpdate::Reconnected(client) => {
                        self.client = client;
                        vec![StyledLine::new(Tone::Warn, DAEMON_BACK)]
                    }
                    FeedUpdate::Held(client) => {
                        self.client = client;
                        held_lines()
                    }
                },
            };
            show.print_notices(lines, ctx)?;
        }
    }

    fn open_feed(&self, ctx: &CommandContext<'_>, show: &LiveView) -> ReconnectingFeed {
        let after = Some(show.last_event_id.clone()).filter(|id| !id.is_empty());
        let watched = match self.mode {
            RunMode::Run => FeedSource::RunToRest(self.started.run, self.event_consumer(ctx)),
            // A `start` that is paused continues when a user resumes it.
            RunMode::Start => FeedSource::Run(self.started.run),
        };
        ReconnectingFeed::open(self.client.clone(), ctx.settings.clone(), watched, after)
    }

    fn event_consumer(&self, ctx: &CommandContext<'_>) -> EventConsumer {
        match self.answer_destination {
            AnswerDestination::Stdout if ctx.console.is_interactive() => EventConsumer::Person,
            AnswerDestination::Stdout | AnswerDestination::Stderr | AnswerDestination::Discard => {
                EventConsumer::Program
            }
        }
    }

    /// Returns the conclusion of the run; `None` if the run continues.
    async fn run_conclusion(&self) -> Result<Option<RunConclusion>, CliError> {
        let view = match self.client.run(self.started.run).await {
            Ok(view) => view,
            // The feed detects this too, and reconnects.
            Err(DialError::Lost { .. } | DialError::Absent { .. }) => return Ok(None),
            Err(other) => return Err(other.into()),
        };
        Ok(if view.is_at_rest() { RunConclusion::from_view(view) } else { None })
    }

    /// Saves the last shown event for `attach`.
    fn save_position(&self, last: &str, ctx: &mut CommandContext<'_>) -> Result<(), CliError> {
        match LocalState::open(ctx.settings).save_last_shown_event(self.started.run, last) {
            Ok(()) => Ok(()),
            Err(error) => ctx
                .console
                .warn(&format!("could not save the position in the run's events: {error}")),
        }
    }

    async fn stop(
        &self,
        ctx: &mut CommandContext<'_>,
        signals: &mut InterruptSignals,
    ) -> Result<FollowOutcome, CliError> {
        let target = Target::instance(&self.started.instance);
        let words = format!("stopping {target} (interrupt again to leave that to the daemon)");
        ctx.console.eprint_line(&StyledLine::new(Tone::Warn, words))?;
        let (settings, run) = (ctx.settings, self.started.run);
        let stopping = async {
            let client = discovery::connect_or_start(settings).await?;
            match client.run_stop(run, StopGrace::Default).await {
                Ok(stopped) => Ok((Some(stopped), client.run(run).await?)),
                // The run ended by itself in the meantime.
                Err(DialError::Refused(problem))
                    if matches!(problem.code, Code::RunEnded | Code::Conflict) =>
                {
                    Ok((None, client.run(run).await?))
                }
                Err(other) => Err(CliError::from(other)),
            }
        };
        let mut stopping = pin!(stopping);
        let stopped = if let Some(stopped) = signals.run_until_second(&mut stopping).await {
            stopped
        } else {
            // The command waits until the daemon has recorded the stop: from then on the daemon ends the rest by
            // itself.
            tokio::select! {
                stopped = &mut stopping => stopped,
                () = wait_until_ended(settings, run) => return Ok(FollowOutcome::DetachedWhileStopping),
                () = tokio::time::sleep(STOP_RESPONSE_TIMEOUT) => return Err(stop_timeout_error(&target)),
                never = signals.exit_on_quit() => match never {},
            }
        };
        let (stopped, view) = stopped?;
        if let Some(stopped) = stopped {
            ctx.console.eprint_line(&report::run_stopped_line(&stopped))?;
        }
        let report = RunConclusion::from_view(view);
        let report = report
            .ok_or_else(|| CliError::new(CliErrorKind::Failed, format!("{target} continues")))?;
        Ok(FollowOutcome::Over(Box::new(report)))
    }
}

/// Returns the lines about a daemon that is held: its state and the command that ends it.
fn held_lines() -> Vec<StyledLine> {
    let hint = format!("hint: {}", discovery::START_HINT);
    vec![StyledLine::new(Tone::Warn, discovery::HELD_TEXT), StyledLine::new(Tone::Dim, hint)]
}

fn stop_timeout_error(target: &Target) -> CliError {
    let what = format!("{target} could not be stopped: the daemon does not answer");
    CliError::new(CliErrorKind::Failed, what)
        .with_hint(format!("try again: agent-worker stop {target}"))
}

/// Returns once the daemon reports the end of a run.
async fn wait_until_ended(settings: &CliSettings, run: RunId) {
    loop {
        let known = match discovery::connect_or_start(settings).await {
            Ok(client) => client.run(run).await.ok(),
            Err(_) => None,
        };
        if known.is_some_and(|view| !view.state.is_live()) {
            return;
        }
        tokio::time::sleep(STOP_POLL_INTERVAL).await;
    }
}

impl LiveView {
    /// Applies the pressed keys and redraws.
    fn update(
        &mut self,
        wake: ControlsWake,
        client: &DaemonClient,
        ctx: &mut CommandContext<'_>,
    ) -> Result<(), CliError> {
        let open = self.replay.progress().open_item_ids();
        // The end of the input does not end the following.
        let _ = self.controls.update(wake, open, client, ctx.console)?;
        self.draw(ctx)
    }

    fn print_notices(
        &mut self,
        lines: Vec<StyledLine>,
        ctx: &mut CommandContext<'_>,
    ) -> Result<(), CliError> {
        self.screen.print(ctx.console, lines.into_iter().map(TranscriptLine::Notice).collect())
    }

    fn draw(&mut self, ctx: &mut CommandContext<'_>) -> Result<(), CliError> {
        let Some(size) = ctx.console.drawable_size() else { return Ok(()) };
        let now = clock::now();
        let mut lines = self.replay.progress().status_lines(now, size);
        // The cursor rests on a line of its own.
        let height = size.height.saturating_sub(lines.len() + 1);
        lines.extend(self.controls.draw(TerminalSize { height, ..size }, now));
        self.screen.draw(ctx.console, lines)
    }

    fn print_event(&mut self, event: &Event, ctx: &mut CommandContext<'_>) -> Result<(), CliError> {
        let lines = self.replay.apply(event);
        self.screen.print(ctx.console, lines)
    }
}
