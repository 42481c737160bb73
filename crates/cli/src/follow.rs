//! Following a run to its end: a dull loop between its events, the caller's signals and the clock.
//!
//! Events are shown; how the run stands is asked of the daemon once they end. What decides is in `view`, `verdict` and
//! `report`. Whoever leaves before the end comes back to the place where they left.

use std::{pin::pin, time::Duration};

use agent_worker_host::DialError;
use agent_worker_protocol::{
    Code, Event, EventKind, RunId, RunMode, Target,
    api::{RunStarted, RunView},
};
use tokio::time::{MissedTickBehavior, interval};

use crate::{
    clerk::{Clerk, Seat},
    client::{Client, Grace, Reader, Watched},
    clock,
    console::Size,
    context::Context,
    discovery,
    error::{CliError, Kind},
    feed::{DAEMON_BACK, DAEMON_LOST, Feed, News},
    line::{Line, Tone},
    memory::Memory,
    report::{self, Report},
    screen::{Answers, Screen},
    settings::Settings,
    signals::Signals,
    view::{Above, Detail, Replay, View},
};

/// How often a terminal is drawn at most.
const REDRAW: Duration = Duration::from_millis(100);
/// How often to ask whether a run that is being stopped is over.
const GLANCE: Duration = Duration::from_millis(20);
/// A daemon that says nothing for so long will not stop anything.
const DEAF: Duration = Duration::from_secs(10);

/// A run somebody follows.
pub(crate) struct Follower {
    /// The run.
    pub(crate) started: RunStarted,
    /// How it was asked for: a `start` that waits is not over.
    pub(crate) mode: RunMode,
    /// What a signal does to it.
    pub(crate) on_signal: OnSignal,
    /// How far it is followed.
    pub(crate) until: Until,
    /// What the caller has seen of it.
    pub(crate) seen: Seen,
    /// How much is told.
    pub(crate) detail: Detail,
    /// Where what is said goes.
    pub(crate) answers: Answers,
    /// The daemon it runs in.
    pub(crate) client: Client,
}

/// What the caller's signal does to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnSignal {
    /// It ends it.
    Stop,
    /// It only ends the following.
    Leave,
}

/// How far a run is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// To its end.
    Over,
    /// Until its agents are awake.
    Running,
}

/// What somebody has seen of a run.
pub(crate) enum Seen {
    /// Nothing yet.
    Nothing,
    /// Everything up to this event.
    UpTo {
        /// The event's id.
        event: String,
        /// The run now. Events up to its position are printed and change nothing in it.
        run: Box<RunView>,
    },
}

/// Where following a run led.
pub(crate) enum Followed {
    /// It is over, or waits.
    Over(Box<Report>),
    /// It goes on without us.
    Left,
    /// It is being stopped, and the caller did not wait for that.
    LeftStopping,
}

enum Step {
    Over(Box<Report>),
    Running,
    Signal,
}

/// What is shown, and of what.
struct Show {
    screen: Screen,
    clerk: Clerk,
    replay: Replay,
    /// The last event that was shown.
    last: String,
}

impl Follower {
    /// Follows the run to where it was asked for.
    pub(crate) async fn follow(
        mut self,
        ctx: &mut Context<'_>,
        signals: &mut Signals,
    ) -> Result<Followed, CliError> {
        let mut show = self.show(ctx);
        let step = self.watch(ctx, signals, &mut show).await;
        show.clerk.close();
        show.screen.close(ctx.console)?;
        if !matches!(&step, Ok(Step::Over(report)) if !report.view.state.is_live()) {
            self.note(&show.last, ctx)?;
        }
        let followed = match (step?, self.on_signal) {
            (Step::Over(report), _) => Followed::Over(report),
            (Step::Running, _) | (Step::Signal, OnSignal::Leave) => Followed::Left,
            (Step::Signal, OnSignal::Stop) => self.stop(ctx, signals).await?,
        };
        if let Followed::Over(report) = &followed
            && !report.view.state.is_live()
        {
            // What is left of it is a file nobody will ask for.
            Memory::of(ctx.settings).forget(self.started.run).ok();
        }
        Ok(followed)
    }

    fn show(&self, ctx: &Context<'_>) -> Show {
        let RunStarted { instance, agents, .. } = &self.started;
        let new = || View::new(instance.clone(), agents, self.detail);
        let screen = Screen::new(self.answers);
        let seat = match (self.reader(ctx), ctx.console.canvas()) {
            (Reader::Person, Some(_)) => Seat::Taken,
            (Reader::Person | Reader::Program, _) => Seat::Empty,
        };
        let clerk = Clerk::new(self.started.clone(), seat);
        let (replay, last) = match &self.seen {
            Seen::Nothing => (Replay::from_start(new(), new()), String::new()),
            Seen::UpTo { event, run } => {
                (Replay::from_snapshot(run, new(), self.detail), event.clone())
            }
        };
        Show { screen, clerk, replay, last }
    }

    async fn watch(
        &mut self,
        ctx: &mut Context<'_>,
        signals: &mut Signals,
        show: &mut Show,
    ) -> Result<Step, CliError> {
        let mut feed = self.feed(ctx, show);
        let mut tick = interval(REDRAW);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let lines = tokio::select! {
                () = signals.first() => return Ok(Step::Signal),
                _ = tick.tick() => {
                    show.clerk.attend(show.replay.view().requests(), &self.client, clock::now());
                    show.draw(ctx)?;
                    continue;
                }
                told = show.clerk.done(clock::now) => {
                    show.screen.print(ctx.console, told.map(Above::Told).into_iter().collect())?;
                    continue;
                }
                news = feed.next() => match news? {
                    News::Event(id, event) => {
                        show.event(&event, ctx)?;
                        show.last = id;
                        match event.kind {
                            EventKind::RunRunning if self.until == Until::Running => {
                                return Ok(Step::Running);
                            }
                            _ => continue,
                        }
                    }
                    News::End => {
                        if let Some(report) = self.report().await? {
                            return Ok(Step::Over(Box::new(report)));
                        }
                        // Whoever was quick has resumed it already.
                        feed = self.feed(ctx, show);
                        continue;
                    }
                    News::Lost => DAEMON_LOST,
                    News::Back(client) => {
                        self.client = client;
                        DAEMON_BACK
                    }
                },
            };
            show.screen.print(ctx.console, vec![Above::Told(Line::of(Tone::Warn, lines))])?;
        }
    }

    fn feed(&self, ctx: &Context<'_>, show: &Show) -> Feed {
        let after = Some(show.last.clone()).filter(|id| !id.is_empty());
        let watched = match self.mode {
            RunMode::Run => Watched::RunToRest(self.started.run, self.reader(ctx)),
            // A `start` that is paused continues when a user resumes it.
            RunMode::Start => Watched::Run(self.started.run),
        };
        Feed::open(self.client.clone(), ctx.settings.clone(), watched, after)
    }

    fn reader(&self, ctx: &Context<'_>) -> Reader {
        match self.answers {
            Answers::Out if ctx.console.has_a_person() => Reader::Person,
            Answers::Out | Answers::Aside | Answers::Unread => Reader::Program,
        }
    }

    /// What the run came to; none if it goes on.
    async fn report(&self) -> Result<Option<Report>, CliError> {
        let view = match self.client.run(self.started.run).await {
            Ok(view) => view,
            // The feed notices too, and gets the daemon back.
            Err(DialError::Lost { .. } | DialError::Absent { .. }) => return Ok(None),
            Err(other) => return Err(other.into()),
        };
        Ok(if view.is_at_rest() { Report::of(view) } else { None })
    }

    /// Notes how far it was shown, for `attach`.
    fn note(&self, last: &str, ctx: &mut Context<'_>) -> Result<(), CliError> {
        match Memory::of(ctx.settings).leave(self.started.run, last) {
            Ok(()) => Ok(()),
            Err(error) => {
                ctx.console.warn(&format!("could not note how far it was shown: {error}"))
            }
        }
    }

    async fn stop(
        &self,
        ctx: &mut Context<'_>,
        signals: &mut Signals,
    ) -> Result<Followed, CliError> {
        let target = Target::instance(&self.started.instance);
        let words = format!("stopping {target} (once more: leave that to the daemon)");
        ctx.console.say(&Line::of(Tone::Warn, words))?;
        let (settings, run) = (ctx.settings, self.started.run);
        let stopping = async {
            let client = discovery::open(settings).await?;
            match client.run_stop(run, Grace::Usual).await {
                Ok(stopped) => Ok((Some(stopped), client.run(run).await?)),
                // It ended by itself in the meantime.
                Err(DialError::Refused(problem))
                    if matches!(problem.code, Code::RunEnded | Code::Conflict) =>
                {
                    Ok((None, client.run(run).await?))
                }
                Err(other) => Err(CliError::from(other)),
            }
        };
        let mut stopping = pin!(stopping);
        let stopped = if let Some(stopped) = signals.carry(&mut stopping).await {
            stopped
        } else {
            // Nobody leaves before the daemon has it in its books: from then on it ends the rest by itself.
            tokio::select! {
                stopped = &mut stopping => stopped,
                () = over_in_the_books(settings, run) => return Ok(Followed::LeftStopping),
                () = tokio::time::sleep(DEAF) => return Err(deaf(&target)),
            }
        };
        let (stopped, view) = stopped?;
        if let Some(stopped) = stopped {
            ctx.console.say(&report::stopped(&stopped))?;
        }
        let report = Report::of(view);
        let report = report
            .ok_or_else(|| CliError::new(Kind::Failed, format!("{target} goes on all the same")))?;
        Ok(Followed::Over(Box::new(report)))
    }
}

fn deaf(target: &Target) -> CliError {
    let what = format!("{target} could not be stopped: the daemon does not answer");
    CliError::new(Kind::Failed, what).hint(format!("try again: agent-worker stop {target}"))
}

/// Returns once the daemon knows that a run is over.
async fn over_in_the_books(settings: &Settings, run: RunId) {
    loop {
        let known = match discovery::open(settings).await {
            Ok(client) => client.run(run).await.ok(),
            Err(_) => None,
        };
        if known.is_some_and(|view| !view.state.is_live()) {
            return;
        }
        tokio::time::sleep(GLANCE).await;
    }
}

impl Show {
    fn draw(&mut self, ctx: &mut Context<'_>) -> Result<(), CliError> {
        let Some(size) = ctx.console.canvas() else { return Ok(()) };
        let now = clock::now();
        let mut lines = self.replay.view().status(now, size);
        // The cursor rests on a line of its own.
        let height = size.height.saturating_sub(lines.len() + 1);
        lines.extend(self.clerk.draw(Size { height, ..size }, now));
        self.screen.draw(ctx.console, lines)
    }

    fn event(&mut self, event: &Event, ctx: &mut Context<'_>) -> Result<(), CliError> {
        let lines = self.replay.apply(event);
        self.screen.print(ctx.console, lines)
    }
}
