//! A conversation at a terminal: joins the events, the keys and the clock.
//!
//! Invariant: nothing here ends or interrupts a turn of the agent.

use agent_worker_protocol::{
    Event, EventKind,
    api::{RunStarted, RunView},
};
use tokio::time::{MissedTickBehavior, interval};

use super::conversation::{Conversation, InterruptEffect};
use crate::{
    client::{daemon_client::DaemonClient, discovery},
    error::CliError,
    input::{
        context::CommandContext,
        signals::{InterruptSignals, SignalSource},
    },
    live::{
        attention_prompt::Interactivity,
        controls::{ControlsUpdate, ControlsWake, LiveControls},
        feed::{DAEMON_BACK, DAEMON_LOST, FeedUpdate, ReconnectingFeed},
        follower::REDRAW_INTERVAL,
        input_line::{LineEffect, MessageRecipient, reply_notices},
        screen::{AnswerDestination, Screen},
        view::{Replay, RunProgress, TranscriptLine, Verbosity},
    },
    output::{
        clock,
        console::TerminalSize,
        styled_line::{StyledLine, Tone},
        verdict::RunVerdict,
    },
};

/// The conversation and the view of the agent.
pub(super) struct ChatSession {
    conversation: Conversation,
    client: DaemonClient,
    replay: Replay,
    controls: LiveControls,
    screen: Screen,
}

/// The reason for which a conversation ends.
enum ChatEnd {
    PersonLeft,
    RunEnded,
}

impl ChatSession {
    pub(super) fn new(
        conversation: Conversation,
        run: &RunView,
        client: DaemonClient,
        ctx: &CommandContext<'_>,
    ) -> Self {
        let agents = run.agents.iter().map(|agent| agent.name.clone()).collect();
        let started = RunStarted { run: run.run, instance: run.instance.clone(), agents };
        let recipient = MessageRecipient {
            run: run.run,
            target: conversation.agent().clone(),
            alone: true,
            placeholder: conversation.placeholder(),
        };
        let folder = &ctx.settings.cwd;
        let past = RunProgress::new(run.instance.clone(), &started.agents, Verbosity::Normal);
        let past = past.in_folder(folder);
        Self {
            conversation,
            client,
            replay: Replay::from_snapshot(run, past, Verbosity::Normal, folder),
            controls: LiveControls::new(started, Interactivity::Interactive)
                .with_line(recipient, ctx.settings.clone()),
            screen: Screen::new(AnswerDestination::Stdout),
        }
    }

    /// Shows the history and talks until the person leaves or the run ends.
    pub(super) async fn converse(
        mut self,
        feed: ReconnectingFeed,
        history: Vec<Vec<StyledLine>>,
        ctx: &mut CommandContext<'_>,
    ) -> Result<RunVerdict, CliError> {
        let mut signals = InterruptSignals::listen_or_fail()?;
        self.controls.guard_terminal(&mut signals)?;
        ctx.console.note(&format!("talking with {}", self.conversation.agent()))?;
        let lines = history.into_iter().flatten().map(TranscriptLine::Message).collect();
        self.screen.print(ctx.console, lines)?;
        let end = self.follow(feed, &mut signals, ctx).await;
        self.controls.close(ctx.console)?;
        self.screen.close(ctx.console)?;
        let unanswered = match end? {
            ChatEnd::PersonLeft => self.conversation.left_error(),
            ChatEnd::RunEnded => self.conversation.run_ended_error(),
        };
        unanswered.map_or(Ok(RunVerdict::Done), Err)
    }

    async fn follow(
        &mut self,
        mut feed: ReconnectingFeed,
        signals: &mut InterruptSignals,
        ctx: &mut CommandContext<'_>,
    ) -> Result<ChatEnd, CliError> {
        let mut tick = interval(REDRAW_INTERVAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let wake = tokio::select! {
                source = signals.next_signal() => match self.interrupt(source, ctx)? {
                    Some(end) => return Ok(end),
                    None => ControlsWake::Tick,
                },
                _ = tick.tick() => ControlsWake::Tick,
                update = self.controls.wait(clock::now) => {
                    self.apply_controls(update, ctx)?;
                    ControlsWake::Keys
                }
                update = feed.next() => {
                    if let Some(end) = self.apply_update(update?, ctx)? {
                        return Ok(end);
                    }
                    continue;
                }
            };
            if self.redraw(wake, ctx)? == LineEffect::Ended {
                return Ok(ChatEnd::PersonLeft);
            }
        }
    }

    /// Applies the keys and draws the row of the agent, an open item and the line.
    fn redraw(
        &mut self,
        wake: ControlsWake,
        ctx: &mut CommandContext<'_>,
    ) -> Result<LineEffect, CliError> {
        let open = self.replay.progress().open_item_ids_of(self.conversation.name());
        let effect = self.controls.update(wake, open, &self.client, ctx.console)?;
        let placeholder = self.conversation.placeholder();
        if let Some(line) = self.controls.line() {
            line.set_placeholder(&placeholder);
        }
        if let Some(size) = ctx.console.drawable_size() {
            let now = clock::now();
            let columns = size.width.saturating_sub(1);
            let row = self.replay.progress().agent_line(self.conversation.name(), now, columns);
            let mut lines: Vec<_> = row.into_iter().collect();
            // The cursor rests on a line of its own.
            let height = size.height.saturating_sub(lines.len() + 1);
            lines.extend(self.controls.draw(TerminalSize { height, ..size }, now));
            self.screen.draw(ctx.console, lines)?;
        }
        Ok(effect)
    }

    fn apply_controls(
        &mut self,
        update: ControlsUpdate,
        ctx: &mut CommandContext<'_>,
    ) -> Result<(), CliError> {
        let notices = match update {
            ControlsUpdate::Keys => {
                self.conversation.note_key();
                Vec::new()
            }
            ControlsUpdate::Notices(lines) => lines,
            ControlsUpdate::Sent(reply) => {
                self.conversation.add_sent(&reply);
                reply_notices(&reply)
            }
        };
        self.print_notices(notices, ctx)
    }

    /// Applies a signal; returns the end of the conversation if the person leaves.
    fn interrupt(
        &mut self,
        source: SignalSource,
        ctx: &mut CommandContext<'_>,
    ) -> Result<Option<ChatEnd>, CliError> {
        let (SignalSource::Keyboard, Some(line)) = (source, self.controls.line()) else {
            return Ok(Some(ChatEnd::PersonLeft));
        };
        match self.conversation.interrupt(line.draft()) {
            InterruptEffect::Leaves => Ok(Some(ChatEnd::PersonLeft)),
            InterruptEffect::Continues(note) => {
                self.print_notices(vec![StyledLine::new(Tone::Dim, note)], ctx)?;
                Ok(None)
            }
        }
    }

    fn apply_update(
        &mut self,
        update: FeedUpdate,
        ctx: &mut CommandContext<'_>,
    ) -> Result<Option<ChatEnd>, CliError> {
        let notice = match update {
            FeedUpdate::Event(_, event) => return self.apply_event(&event, ctx),
            FeedUpdate::End => return Ok(Some(ChatEnd::RunEnded)),
            FeedUpdate::Disconnected => DAEMON_LOST,
            FeedUpdate::Reconnected(client) => {
                self.client = client;
                DAEMON_BACK
            }
            FeedUpdate::Held(client) => {
                self.client = client;
                discovery::HELD_TEXT
            }
        };
        self.print_notices(vec![StyledLine::new(Tone::Warn, notice)], ctx)?;
        Ok(None)
    }

    fn apply_event(
        &mut self,
        event: &Event,
        ctx: &mut CommandContext<'_>,
    ) -> Result<Option<ChatEnd>, CliError> {
        let said = self.conversation.apply(event);
        let is_about_agent =
            event.agent.as_ref().is_none_or(|agent| agent == self.conversation.name());
        let notices = self.replay.apply(event).into_iter().filter(|line| match line {
            TranscriptLine::Notice(_) => is_about_agent,
            TranscriptLine::Message(_) => false,
        });
        let lines: Vec<_> = notices.chain(said.into_iter().map(TranscriptLine::Message)).collect();
        self.screen.print(ctx.console, lines)?;
        if event.kind() == Some(EventKind::RunEnded) {
            let lines = vec![StyledLine::new(Tone::Warn, "the run has ended")];
            self.print_notices(lines, ctx)?;
            return Ok(Some(ChatEnd::RunEnded));
        }
        Ok(None)
    }

    fn print_notices(
        &mut self,
        lines: Vec<StyledLine>,
        ctx: &mut CommandContext<'_>,
    ) -> Result<(), CliError> {
        self.screen.print(ctx.console, lines.into_iter().map(TranscriptLine::Notice).collect())
    }
}
