//! The team at work: the connection to its daemon, the events that it reported, and their lines.

use agent_worker_host::{EventStream, Process};
use agent_worker_protocol::{
    AttemptEnd, Event, EventBody, Message, Priority, Seq, Target,
    api::{RunStarted, SendRequest},
};

use super::{
    demo_home::DemoHome,
    evidence::{TeamCheck, TeamRecord},
    record::read_team,
    stage::{Halt, Stage},
};
use crate::{
    client::daemon_client::{CommandScope, DaemonClient, FeedSource, ScopeReach},
    error::{CliError, CliErrorKind},
    output::{
        styled_line::Tone,
        text::{format_age, one_line},
    },
};

/// Start of each message that is sent around the kill. These messages are counted and not shown.
pub(super) const REMARK_PREFIX: &str = "@writer remark ";

/// The team at work: the connection to its daemon and everything that its run reported.
pub(super) struct Show<'a, 'c> {
    pub(super) home: &'a mut DemoHome,
    pub(super) stage: &'a mut Stage<'c>,
    pub(super) client: DaemonClient,
    pub(super) daemon_pid: u32,
    pub(super) started: RunStarted,
    pub(super) feed: EventStream,
    pub(super) events: Vec<Event>,
    pub(super) checks: Vec<TeamCheck>,
}

impl Show<'_, '_> {
    /// Starts the daemon that follows the killed one, and continues after the last event.
    pub(super) async fn start_next_daemon(&mut self) -> Result<(), Halt> {
        let (client, pid) = self.home.start_daemon().await?;
        (self.client, self.daemon_pid) = (client, pid);
        self.stage.say(Tone::Plain, &format!("The next daemon starts (pid {pid}).")).await?;
        let last = Some(self.feed.last_id().to_owned()).filter(|id| !id.is_empty());
        let run = FeedSource::Run(self.started.run);
        self.feed = self.stage.wait(self.client.events(&run, last)).await?;
        Ok(())
    }

    /// Reads and shows events up to the first that satisfies `is_last`.
    pub(super) async fn show_until(
        &mut self,
        is_last: impl Fn(&Event) -> bool,
    ) -> Result<(), Halt> {
        loop {
            let ended = || CliError::new(CliErrorKind::Failed, "the run ended too early");
            let next = self.stage.wait(self.feed.next()).await?;
            let (_, event) = next.ok_or_else(ended)?;
            self.show_event(&event).await?;
            let is_done = is_last(&event);
            self.events.push(event);
            if is_done {
                return Ok(());
            }
        }
    }

    async fn show_event(&mut self, event: &Event) -> Result<(), Halt> {
        let agent = event.agent.as_ref().map(ToString::to_string).unwrap_or_default();
        match &event.body {
            EventBody::Message(message) if !is_remark(message) => {
                let from = match message.from.to_string() {
                    user if user == "user" => "you".to_owned(),
                    name => one_line(&name),
                };
                self.stage.agent(&from, Tone::Plain, &one_line(&message.body)).await
            }
            EventBody::AttemptStarting(data) if data.number > 1 => {
                self.stage
                    .agent(&agent, Tone::Plain, &format!("attempt {} starts", data.number))
                    .await
            }
            EventBody::AttemptEnded(data) => match &data.end {
                AttemptEnd::Failed { .. } => {
                    let next = event.next.map(|next| format_age(next.since(event.ts)));
                    let next = next.map(|next| format!("; next try in {next}")).unwrap_or_default();
                    let text = format!("{}{next}", one_line(&data.end.to_string()));
                    self.stage.agent(&agent, Tone::Warn, &text).await
                }
                AttemptEnd::Interrupted { .. } => {
                    let text = one_line(&data.end.to_string());
                    self.stage.agent(&agent, Tone::Warn, &text).await
                }
                AttemptEnd::Ok | AttemptEnd::Stopped => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Shows checks, and keeps them for the verdict.
    pub(super) async fn check_all(&mut self, checks: &[TeamCheck]) -> Result<(), Halt> {
        for check in checks {
            self.stage.check(check).await?;
        }
        self.checks.extend_from_slice(checks);
        Ok(())
    }

    /// Reads the state of the team from the daemon.
    pub(super) async fn read_team(&mut self) -> Result<TeamRecord, Halt> {
        let scope = self.scope();
        self.stage.wait(read_team(&self.client, &scope, self.started.run)).await
    }

    /// Sends a message as the user, and returns its number.
    pub(super) async fn send(&mut self, text: &str, key: &str) -> Result<Seq, Halt> {
        let request = self.send_request(text);
        let reply = self.stage.wait(self.client.send(key, &request)).await?;
        Ok(reply.seq)
    }

    /// Returns the request that sends a message to the team.
    pub(super) fn send_request(&self, text: &str) -> SendRequest {
        SendRequest {
            target: Some(Target::instance(&self.started.instance)),
            project: Some(self.home.project()),
            message: text.to_owned(),
            to: Vec::new(),
            cc: Vec::new(),
            reply_to: None,
            alone: false,
            now: false,
            priority: Priority::Normal,
            attachments: Vec::new(),
        }
    }

    /// Returns the workers of the attempts that have started and not ended, as far as they are alive.
    pub(super) fn workers(&self) -> Vec<Process> {
        let has_ended = |event: &Event| {
            let is_end = |later: &&Event| {
                later.attempt == event.attempt && matches!(later.body, EventBody::AttemptEnded(_))
            };
            self.events.iter().any(|later| is_end(&later))
        };
        let running = self.events.iter().filter_map(|event| match &event.body {
            EventBody::AttemptRunning(data) if !has_ended(event) => Process::of(data.pid),
            _ => None,
        });
        running.collect()
    }

    /// Returns the scope of the team's instance.
    pub(super) fn scope(&self) -> CommandScope {
        CommandScope {
            target: Some(Target::instance(&self.started.instance)),
            project: self.home.project(),
            reach: ScopeReach::CurrentProject,
        }
    }
}

/// Returns whether a message is one of those that are sent around the kill.
fn is_remark(message: &Message) -> bool {
    message.body.starts_with(REMARK_PREFIX)
}

/// Returns whether the event is a message that wakes the agent.
pub(super) fn is_message_to(event: &Event, agent: &str) -> bool {
    match &event.body {
        EventBody::Message(message) => message.to.iter().any(|name| name.as_str() == agent),
        _ => false,
    }
}

/// Returns whether the event is a message of the sender.
pub(super) fn is_message_from(event: &Event, sender: &str) -> bool {
    match &event.body {
        EventBody::Message(message) => message.from.to_string() == sender && !is_remark(message),
        _ => false,
    }
}

/// Returns whether the event reports a worker of the agent.
pub(super) fn is_running(event: &Event, agent: &str) -> bool {
    let is_agent = event.agent.as_ref().is_some_and(|name| name.as_str() == agent);
    is_agent && matches!(event.body, EventBody::AttemptRunning(_))
}
