//! Following a run to its end: a dull loop between its events, the caller's signals and the clock.
//!
//! Events say when to look; how the run stands is asked of the daemon. What decides is in `view`, `verdict` and
//! `report`.

use std::time::Duration;

use agent_worker_host::DialError;
use agent_worker_protocol::{Code, Event, EventKind, RunMode, RunState, Target, api::RunStarted};
use tokio::time::{MissedTickBehavior, interval};

use crate::{
    client::Client,
    clock,
    context::Context,
    discovery,
    error::CliError,
    feed::{Feed, News},
    line::{Line, Tone},
    report::{self, Report},
    screen::{Answers, Screen},
    signals::Signals,
    verdict::Verdict,
    view::{Above, Detail, View},
};

/// How often a terminal is drawn at most.
const REDRAW: Duration = Duration::from_millis(100);

/// A run somebody follows.
pub(crate) struct Follower {
    /// The run.
    pub(crate) started: RunStarted,
    /// How it was asked for; decides what a signal does to it.
    pub(crate) mode: RunMode,
    /// How far it is followed.
    pub(crate) until: Until,
    /// How much is told.
    pub(crate) detail: Detail,
    /// Where what is said goes.
    pub(crate) answers: Answers,
    /// The daemon it runs in.
    pub(crate) client: Client,
}

/// How far a run is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// To its end.
    Over,
    /// Until its agents are awake.
    Running,
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

impl Follower {
    /// Follows the run; a signal stops a `run` and only leaves a `start`.
    pub(crate) async fn follow(
        mut self,
        ctx: &mut Context<'_>,
        signals: &mut Signals,
    ) -> Result<Followed, CliError> {
        let mut screen = Screen::new(self.answers);
        let step = self.watch(ctx, signals, &mut screen).await;
        screen.close(ctx.console)?;
        match (step?, self.mode) {
            (Step::Over(report), _) => Ok(Followed::Over(report)),
            (Step::Running, _) | (Step::Signal, RunMode::Start) => Ok(Followed::Left),
            (Step::Signal, RunMode::Run) => self.stop(ctx, signals).await,
        }
    }

    async fn watch(
        &mut self,
        ctx: &mut Context<'_>,
        signals: &mut Signals,
        screen: &mut Screen,
    ) -> Result<Step, CliError> {
        let RunStarted { run, instance, agents } = self.started.clone();
        let mut view = View::new(instance, &agents, self.detail);
        let mut feed = Feed::open(self.client.clone(), ctx.settings.clone(), run);
        let mut tick = interval(REDRAW);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let lines = tokio::select! {
                () = signals.first() => return Ok(Step::Signal),
                _ = tick.tick() => {
                    screen.draw(ctx.console, &view, clock::now())?;
                    continue;
                }
                news = feed.next() => match news? {
                    News::Event(event) => {
                        screen.print(ctx.console, view.apply(&event))?;
                        match self.look(&event).await? {
                            Some(step) => return Ok(step),
                            None => continue,
                        }
                    }
                    News::End => {
                        let report = self.over().await?.ok_or_else(CliError::no_end)?;
                        return Ok(Step::Over(Box::new(report)));
                    }
                    News::Lost => "the daemon went away; starting it again",
                    News::Back(client) => {
                        self.client = client;
                        "the daemon is back"
                    }
                },
            };
            screen.print(ctx.console, vec![Above::Told(Line::of(Tone::Warn, lines))])?;
        }
    }

    /// What an event means for us. It is a hint: a pause may be over by now, and then what came after is shown first.
    async fn look(&self, event: &Event) -> Result<Option<Step>, CliError> {
        let is_paused = |report: &Report| matches!(report.view.state, RunState::Paused { .. });
        let report = match event.kind {
            EventKind::RunRunning if self.until == Until::Running => {
                return Ok(Some(Step::Running));
            }
            EventKind::RunPaused => self.over().await?.filter(is_paused),
            EventKind::RunEnded => self.over().await?,
            _ => None,
        };
        Ok(report.map(|report| Step::Over(Box::new(report))))
    }

    /// The report, if the run is over. A `start` that waits is not: it goes on when somebody resumes it.
    async fn over(&self) -> Result<Option<Report>, CliError> {
        let view = match self.client.run(self.started.run).await {
            Ok(view) => view,
            // The feed notices too, and gets the daemon back.
            Err(DialError::Lost { .. } | DialError::Absent { .. }) => return Ok(None),
            Err(other) => return Err(other.into()),
        };
        let waits = matches!(view.state, RunState::Paused { .. });
        let over = Verdict::of(&view).filter(|_| self.mode == RunMode::Run || !waits);
        Ok(over.map(|verdict| Report { view, verdict, now: clock::now() }))
    }

    async fn stop(
        self,
        ctx: &mut Context<'_>,
        signals: &mut Signals,
    ) -> Result<Followed, CliError> {
        let target = Target::instance(&self.started.instance);
        let words = format!("stopping {target} (once more: leave that to the daemon)");
        ctx.console.say(&Line::of(Tone::Warn, words))?;
        let (settings, run) = (ctx.settings, self.started.run);
        let stopping = async {
            let client = discovery::open(settings).await?;
            match client.run_stop(run).await {
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
        let Some(stopped) = signals.carry(stopping).await else {
            return Ok(Followed::LeftStopping);
        };
        let (stopped, view) = stopped?;
        if let Some(stopped) = stopped {
            ctx.console.say(&report::stopped(&stopped))?;
        }
        let verdict = Verdict::of(&view).unwrap_or(Verdict::Stopped);
        Ok(Followed::Over(Box::new(Report { view, verdict, now: clock::now() })))
    }
}
