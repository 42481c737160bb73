//! One agent with the explanation of its state: pending deliveries, last attempts, wake condition.

use std::cmp::Reverse;

use crate::messaging::inbox::Inboxes;
use crate::runs::members::Agents;
use agent_worker_protocol::{
    AgentName, AgentSettings, AgentState, ApprovalId, AttemptId, Backend, Millis, Permission,
    Priority, QuestionId, ResourceId, RunId, RunState, Seq,
    api::{
        AgentDetail, AgentMockTool, AgentSession, AgentView, AttemptView, InboxReply, ListPage,
        LogReply, Mail, ResumeRequest,
    },
};
use agent_worker_store::{
    AgentRow, AttemptRow, Fence, InboxKey, ListRange, Now, RunRow, ShownMessage,
};

use serde::Deserialize;
use serde_json::Value;

use crate::{
    access::{
        instance_resolution::InstanceSelector, target::InstanceChoice,
        target_suggestion::unknown_member,
    },
    error::{Error, Result},
    kernel::{Kernel, Principal},
    views::{self, limit_outlook::LimitOutlook, page::PageRequest},
};

const MAX_DETAIL_MESSAGES: u32 = 20;
const MAX_DETAIL_ATTEMPTS: u32 = 5;
/// Maximum size of a log read.
const MAX_LOG_BYTES: usize = 1024 * 1024;

/// One agent, with the facts that explain its state.
#[derive(Clone, Debug)]
pub struct AgentExplanation {
    /// The agent as lists show it.
    pub view: AgentView,
    /// The live run of its instance, else the last one.
    pub run: RunId,
    /// The state of that run.
    pub run_state: RunState,
    /// The start of its present state, where it can be told.
    pub state_since: Option<Millis>,
    /// Its system prompt.
    pub system: Option<String>,
    /// The conversation that its next turn continues.
    pub session: Option<AgentSession>,
    /// The resources with the conversation of an agent with direct access to a model.
    pub conversation: Vec<ResourceId>,
    /// Its mock tools.
    pub mock_tools: Vec<AgentMockTool>,
    /// The newest messages that wait for it.
    pub inbox: Vec<Mail>,
    /// Its last attempts, newest first.
    pub attempts: Vec<AttemptView>,
    /// The event that wakes it next.
    pub wakes_when: WakeCondition,
}

/// The event that wakes an agent next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WakeCondition {
    /// A new run of its instance.
    NewRun,
    /// The end of the setup of its run.
    SetupDone,
    /// The election of an owner.
    OwnerElected,
    /// An answer to this request.
    Approval(ApprovalId),
    /// An answer to this question.
    Answer(Option<QuestionId>),
    /// The run continues.
    RunResumed {
        /// Limits to raise before a person can resume it.
        needs: ResumeRequest,
        /// Time from which it continues by itself.
        room_at: Option<Millis>,
    },
    /// The agent is resumed.
    AgentResumed,
    /// The end of its processes; then it is resumed.
    ProcessesEnded,
    /// A time, unless it is resumed before.
    Time(Millis),
    /// The end of its present turn.
    NextTurn,
    /// The end of the hold after a stop of the daemon.
    HoldReleased,
    /// A free worker slot.
    FreeSlot,
    /// A message that mentions it.
    Mention,
}

impl AgentExplanation {
    /// The reply of an interface; `words` says when the agent wakes, in the words of that interface.
    pub fn into_detail(self, words: impl FnOnce(&Self) -> String) -> AgentDetail {
        let wakes_when = words(&self);
        let Self { view, run, run_state, state_since, system, inbox, attempts, .. } = self;
        let (session, conversation, mock_tools) =
            (self.session, self.conversation, self.mock_tools);
        AgentDetail {
            view,
            run,
            run_state,
            state_since,
            system,
            session,
            conversation,
            mock_tools,
            inbox,
            attempts,
            wakes_when,
        }
    }
}

/// Returns the conversation that a vendor's program reported. Other programs report data of their own, which is not shown:
/// it could look like a command.
fn program_session(session: Option<&Value>, settings: &AgentSettings) -> Option<AgentSession> {
    let Backend::Native(_) = settings.backend else { return None };
    AgentSession::deserialize(session?).ok()
}

/// The part of a stored conversation with a model that names its resources.
#[derive(Deserialize)]
struct StoredConversation {
    parts: Vec<ResourceId>,
}

/// Returns the resources with the conversation of an agent with direct access to a model.
fn conversation_parts(session: Option<&Value>, settings: &AgentSettings) -> Vec<ResourceId> {
    let Backend::Api(_) = settings.backend else { return Vec::new() };
    let stored = session.and_then(|session| StoredConversation::deserialize(session).ok());
    stored.map(|stored| stored.parts).unwrap_or_default()
}

impl Agents<'_> {
    /// Returns the details of an agent.
    pub async fn detail(
        self,
        who: &Principal,
        place: &InstanceSelector,
    ) -> Result<AgentExplanation> {
        who.require(Permission::Read)?;
        let (instance, agent) = self.0.resolve_agent(who, place, InstanceChoice::Nearest).await?;
        if let Principal::Agent(attempt) = who
            && attempt.fence.agent != agent
        {
            return Err(Error::Forbidden("an agent may only inspect itself"));
        }
        let run = instance.live.or(instance.last);
        let run = run.ok_or_else(|| Error::NoRun(instance.instance.clone()))?;
        let row = self.0.store.run_get(run).await?;
        let view = self.0.agent_view(run, &agent).await?;
        let rows = self.0.store.agent_list(instance.id).await?;
        let own = rows.iter().find(|row| row.name == agent);
        let settings = own.and_then(views::agent_settings);
        let stored = own.and_then(|row| row.session.as_ref());
        let shown_session = |session: Option<&Value>| program_session(session, settings.as_ref()?);
        let session = shown_session(stored);
        let conversation = settings.as_ref().map(|settings| conversation_parts(stored, settings));
        let inbox = self
            .0
            .store
            .inbox_pending(instance.id, agent.clone(), ListRange::first(MAX_DETAIL_MESSAGES))
            .await?;
        let attempts = self.0.store.attempt_list(instance.id, agent, MAX_DETAIL_ATTEMPTS).await?;
        let mock_tools = self.0.mock_tools_in(run, &view.name).await?;
        let times = StateTimes {
            last_attempt_ended: attempts.first().and_then(|last| last.ended_at),
            oldest_wake: oldest_wake(&inbox, view.waiting),
            now: self.0.now(),
        };
        let outlook = self.0.limit_outlook(&row, &row.limits).await?;
        Ok(AgentExplanation {
            wakes_when: match view.state {
                AgentState::Paused { .. }
                    if self.0.scheduler.hold.is_held() && row.state.can_work() =>
                {
                    WakeCondition::HoldReleased
                }
                _ => wake_condition(&view, &row.state, &outlook),
            },
            state_since: own.and_then(|own| state_since(&view.state, own, &row, times)),
            view,
            run,
            run_state: outlook.state(row.state),
            session,
            conversation: conversation.unwrap_or_default(),
            mock_tools,
            inbox: inbox.into_iter().map(mail_view).collect(),
            attempts: attempts
                .into_iter()
                .map(|row| {
                    // The conversation of an earlier run may have been deleted with its folder.
                    let own_run = row.session.as_ref().filter(|_| row.run == run);
                    let session = shown_session(own_run);
                    attempt_view(row, session)
                })
                .collect(),
            system: settings.and_then(|settings| settings.system_prompt),
        })
    }

    /// Reads the output of the worker of an agent's attempt, from byte `after` on.
    /// Without `attempt`, of the last one.
    pub async fn read_log(
        self,
        who: &Principal,
        place: &InstanceSelector,
        attempt: Option<AttemptId>,
        after: u64,
    ) -> Result<LogReply> {
        who.require_user("only the user may read the output of workers")?;
        let (instance, agent) = self.0.resolve_agent(who, place, InstanceChoice::Nearest).await?;
        let found = match attempt {
            Some(attempt) => Some(self.0.store.attempt_get(attempt).await?),
            None => self.0.store.attempt_list(instance.id, agent.clone(), 1).await?.pop(),
        };
        let own = |row: &AttemptRow| row.fence.workflow == instance.id && row.fence.agent == agent;
        let Some(last) = found.filter(own) else {
            return Err(Error::NoInstance(match attempt {
                Some(attempt) => format!("attempt {attempt} of `{agent}`"),
                None => format!("attempt of `{agent}` yet"),
            }));
        };
        // Read the state before the log: the log then contains all output up to the end.
        let ended = last.ended.is_some();
        let log = self.0.runner.attempt_log(last.run, last.id, after, MAX_LOG_BYTES).await;
        let mut bytes = log.map_err(Error::RunFolder)?;
        // The rest of a character may follow later; an ended attempt adds nothing.
        if !ended || bytes.len() == MAX_LOG_BYTES {
            bytes.truncate(complete_utf8_len(&bytes));
        }
        Ok(LogReply {
            attempt: last.id,
            agent,
            started: last.started,
            ended,
            next: after + bytes.len() as u64,
            text: String::from_utf8_lossy(&bytes).into_owned(),
        })
    }
}

/// The place of a message in an inbox: waking first, urgent first, then by age.
type InboxPlace = (Reverse<bool>, Reverse<Priority>, Seq);

impl Inboxes<'_> {
    /// Returns the pending deliveries of an agent without acknowledging any. Only a read by the agent itself counts
    /// as shown.
    pub async fn peek(
        self,
        who: &Principal,
        place: &InstanceSelector,
        page: &PageRequest,
    ) -> Result<InboxReply> {
        who.require(Permission::Read)?;
        let mut page = page.start::<InboxPlace, Mail>("inbox")?;
        let own = match who {
            Principal::Agent(attempt) => Some(attempt.fence.agent.clone()),
            Principal::User | Principal::Client(_) | Principal::Anonymous => None,
        };
        let named = place.target.as_ref().and_then(|target| target.agent.clone());
        if let (Some(own), Some(named)) = (&own, &named)
            && own != named
        {
            return Err(Error::Forbidden("an agent may only read its own inbox"));
        }
        let agent = own
            .or(named)
            .ok_or_else(|| Error::BadRequest("name the agent whose inbox to read".into()))?;
        let instance = self.0.resolve_instance(who, place).await?;
        let rows = self.0.store.agent_list(instance.id).await?;
        let Some(row) = rows.iter().find(|row| row.name == agent) else {
            let members = rows.iter().map(|row| &row.name);
            return Err(unknown_member(&agent, &instance.instance, members));
        };
        let range = page.range(|&(Reverse(wakes), Reverse(priority), seq)| {
            Some(InboxKey { wakes, priority, seq })
        });
        let inbox = match who {
            // An agent may acknowledge its own messages that it has read.
            Principal::Agent(attempt) => self.0.show_inbox_page(&attempt.fence, range).await?,
            Principal::User | Principal::Client(_) | Principal::Anonymous => {
                self.0.store.inbox_pending(instance.id, row.name.clone(), range).await?
            }
        };
        for mail in inbox {
            let (priority, seq) = (mail.message.priority, mail.message.seq);
            page.push((Reverse(mail.wakes), Reverse(priority), seq), mail_view(mail));
        }
        let ListPage { items, next } = page.finish()?;
        Ok(InboxReply { agent: row.name.clone(), instance: instance.instance, items, next })
    }
}

impl Kernel {
    /// Shows an attempt the rows of one page. The last row of the range only proves that another page follows: it is
    /// read without being shown.
    async fn show_inbox_page(
        &self,
        fence: &Fence,
        range: ListRange<InboxKey>,
    ) -> Result<Vec<ShownMessage>> {
        let on_page = range.limit.saturating_sub(1);
        let page = ListRange { limit: on_page, ..range };
        let mut inbox = self.store.inbox_show(fence.clone(), page).await?;
        if let Some(last) = inbox.last().filter(|_| inbox.len() == on_page as usize) {
            let ShownMessage { message, wakes } = last;
            let key = InboxKey { wakes: *wakes, priority: message.priority, seq: message.seq };
            let probe = ListRange { after: Some(key), limit: 1 };
            let agent = fence.agent.clone();
            inbox.extend(self.store.inbox_pending(fence.workflow, agent, probe).await?);
        }
        Ok(inbox)
    }

    /// Returns one agent of a run, as in lists.
    pub(crate) async fn agent_view(&self, run: RunId, agent: &AgentName) -> Result<AgentView> {
        let mut agents = self.agent_views_of(&self.store.run_snapshot(run).await?);
        agents.retain(|view| view.name == *agent);
        agents.pop().ok_or_else(|| Error::NoInstance(format!("agent `{agent}`")))
    }
}

/// Returns the length of a text up to the end of its last complete character.
pub(crate) fn complete_utf8_len(bytes: &[u8]) -> usize {
    let is_cut = |tail: &&[u8]| match std::str::from_utf8(tail) {
        Ok(_) => false,
        Err(error) => error.valid_up_to() == 0 && error.error_len().is_none(),
    };
    let starts = (1..=3).filter_map(|length| bytes.len().checked_sub(length));
    let mut tails = starts.map(|start| &bytes[start..]);
    bytes.len() - tails.find(is_cut).map_or(0, <[u8]>::len)
}

/// Returns the time of the oldest waking message, unless the agent has more messages than were read.
fn oldest_wake(inbox: &[ShownMessage], waiting: u32) -> Option<Millis> {
    let waking = || inbox.iter().filter(|mail| mail.wakes);
    let is_all = waking().count() == waiting as usize;
    waking().map(|mail| mail.message.ts).min().filter(|_| is_all)
}

/// The times that determine the start of an agent's state, in addition to the stored rows.
#[derive(Clone, Copy)]
struct StateTimes {
    /// End of the last attempt.
    last_attempt_ended: Option<Millis>,
    /// Time of the oldest waking message.
    oldest_wake: Option<Millis>,
    now: Now,
}

/// Returns the time since which an agent has its state: the last change that caused it.
fn state_since(
    state: &AgentState,
    agent: &AgentRow,
    run: &RunRow,
    StateTimes { last_attempt_ended: rested, oldest_wake: woken, now }: StateTimes,
) -> Option<Millis> {
    let free = run.since.max(agent.since).max(rested.unwrap_or(run.since));
    match state {
        AgentState::Running { since, .. } => Some(*since),
        AgentState::Stopping | AgentState::Stopped { .. } if !run.state.is_live() => {
            Some(run.since)
        }
        AgentState::Stopping | AgentState::Stopped { .. } => Some(agent.since),
        AgentState::Idle | AgentState::Paused { .. } => Some(free),
        AgentState::Waiting { asked, approvals, .. } if !approvals.is_empty() => Some(*asked),
        // Whatever the state of its run, the agent has waited since the turn in which it asked.
        AgentState::Waiting { asked, .. } => Some(agent.since.max(rested.unwrap_or(*asked))),
        AgentState::BackingOff { .. } | AgentState::Parked { .. } => Some(free.max(woken?)),
        AgentState::Queued { .. } => {
            let due = agent.not_before.as_ref().map_or(free, |wait| now.wall_at(wait.at));
            Some(free.max(woken?).max(due))
        }
    }
}

fn mail_view(shown: ShownMessage) -> Mail {
    Mail { wakes: shown.wakes, message: shown.message }
}

fn attempt_view(row: AttemptRow, session: Option<AgentSession>) -> AttemptView {
    AttemptView {
        attempt: row.id,
        number: row.number,
        oldest: row.oldest,
        started: row.started,
        ended: row.ended,
        ended_at: row.ended_at,
        usage: row.usage,
        session,
    }
}

/// Finds the event that wakes an agent next.
fn wake_condition(agent: &AgentView, run: &RunState, outlook: &LimitOutlook) -> WakeCondition {
    match (&agent.state, run) {
        (_, RunState::Ended { .. }) => WakeCondition::NewRun,
        (_, RunState::Setup) => WakeCondition::SetupDone,
        (AgentState::Idle, RunState::Electing) => WakeCondition::OwnerElected,
        (AgentState::Waiting { questions, approvals, .. }, _) => {
            match (approvals.first(), questions.first()) {
                (Some(approval), _) => WakeCondition::Approval(*approval),
                (None, question) => WakeCondition::Answer(question.copied()),
            }
        }
        (AgentState::Paused { .. }, _) => {
            WakeCondition::RunResumed { needs: outlook.needs, room_at: outlook.room_at }
        }
        (AgentState::Stopped { .. }, _) => WakeCondition::AgentResumed,
        (AgentState::Stopping, _) => WakeCondition::ProcessesEnded,
        (AgentState::BackingOff { until, .. } | AgentState::Parked { until, .. }, _) => {
            WakeCondition::Time(*until)
        }
        (AgentState::Running { .. }, _) => WakeCondition::NextTurn,
        (AgentState::Queued { .. }, _) => WakeCondition::FreeSlot,
        (AgentState::Idle, _) => WakeCondition::Mention,
    }
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::{
        InstanceRef, Limits, Outcome, PauseCause, RunMode, Usage, WorkflowId,
    };
    use agent_worker_store::{NotBefore, Retention, RunClock, StoreTime, WaitReason};
    use agent_worker_workflow::AgentDraft;
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Millis {
        Millis::new(second * 1_000)
    }

    fn run(state: RunState, since: Millis) -> RunRow {
        RunRow {
            id: RunId::new(uuid::Uuid::nil()),
            workflow: WorkflowId::new(1),
            instance: "team".parse::<InstanceRef>().unwrap(),
            project: "/p".into(),
            mode: RunMode::Start,
            state,
            since,
            error: None,
            limits: Limits {
                hops: 50,
                turns: None,
                wall: None,
                wall_grace: Limits::WALL_GRACE,
                spend: agent_worker_protocol::SpendLimits::NONE,
            },
            script: String::new(),
            retention: Retention::Always,
            started: at(0),
            ended: None,
            store_started: StoreTime::new(0),
            store_ended: None,
            store_since: StoreTime::new(0),
            clock: RunClock::default(),
            turns: 0,
            messages: 0,
            usage: Usage::default(),
        }
    }

    /// The wall clock is 1000 s ahead of the store's clock.
    const NOW: Now = Now { store: StoreTime::new(0), wall: Millis::new(1_000_000) };

    fn agent(since: Millis, not_before: Option<StoreTime>) -> AgentRow {
        let wait = |at| NotBefore { at, wait: WaitReason::BackOff, why: "gone".into() };
        AgentRow {
            name: "coder".parse().unwrap(),
            place: 0,
            settings: String::new(),
            stopped: None,
            since,
            not_before: not_before.map(wait),
            live: None,
            waiting: 0,
            turns: 0,
            messages: 0,
            usage: Usage::default(),
            session: None,
        }
    }

    #[test]
    fn only_the_session_of_a_vendors_program_is_shown() {
        let settings = |backend: &str, command: &[&str]| {
            let draft = AgentDraft {
                name: "coder".parse().unwrap(),
                backend: Some(backend.to_owned()),
                model: None,
                system_prompt: None,
                mock: Vec::new(),
                agent: None,
                command: command.iter().map(|word| (*word).to_owned()).collect(),
                cwd: None,
            };
            draft.into_settings().unwrap()
        };
        let reported = json!({"id": "s1", "open": "claude --resume s1", "cost_micros": 5});
        let row = AgentRow { session: Some(reported), ..agent(at(0), None) };
        let shown = program_session(row.session.as_ref(), &settings("claude", &[])).unwrap();
        assert_eq!((shown.id.as_str(), shown.open.as_deref()), ("s1", Some("claude --resume s1")));
        // A program of the user may report any text, which a person must not paste into a shell.
        assert_eq!(program_session(row.session.as_ref(), &settings("command", &["./x"])), None);
        assert_eq!(program_session(None, &settings("claude", &[])), None);
    }

    #[test]
    fn an_agent_is_what_it_is_since_the_last_thing_that_made_it_so() {
        let attempt = AttemptId::new(uuid::Uuid::nil());
        let why = String::new;
        let running = AgentState::Running { attempt, since: at(7) };
        let backs_off = AgentState::BackingOff { until: at(99), why: why() };
        let paused = AgentState::Paused { why: why() };
        let stopped = AgentState::Stopped { why: why() };
        let waits = AgentState::Waiting {
            questions: vec![QuestionId::new(1)],
            approvals: Vec::new(),
            asked: at(29),
        };
        let people = || run(RunState::Paused { cause: PauseCause::Human }, at(40));
        let live = || run(RunState::Running, at(10));
        let over = || run(RunState::Ended { outcome: Outcome::Done }, at(90));
        // Each case: join, stop or resume time; end of the backoff; end of the last turn; oldest message.
        for (state, run, joined, due, rested, woken, expected) in [
            (&running, live(), 5, None, None, Some(6), Some(7)),
            (&AgentState::Idle, live(), 5, None, None, None, Some(10)),
            (&AgentState::Idle, live(), 20, None, None, None, Some(20)),
            (&AgentState::Idle, live(), 5, None, Some(30), None, Some(30)),
            (&AgentState::Idle, live(), 5, None, Some(8), None, Some(10)),
            (&waits, live(), 5, None, Some(30), None, Some(30)),
            (&waits, people(), 5, None, Some(30), None, Some(30)),
            (&paused, live(), 5, None, Some(30), Some(40), Some(30)),
            (&backs_off, live(), 5, Some(99), Some(30), Some(20), Some(30)),
            (&backs_off, live(), 5, Some(99), Some(30), Some(40), Some(40)),
            (&AgentState::Queued { full: None }, live(), 5, None, Some(30), Some(20), Some(30)),
            (&AgentState::Queued { full: None }, live(), 5, None, Some(30), Some(40), Some(40)),
            (&AgentState::Queued { full: None }, live(), 5, Some(50), Some(30), Some(40), Some(50)),
            // There are more messages than were read.
            (&AgentState::Queued { full: None }, live(), 5, None, Some(30), None, None),
            (&stopped, live(), 60, None, Some(61), Some(62), Some(60)),
            (&AgentState::Stopping, live(), 60, None, None, None, Some(60)),
            (&stopped, over(), 60, None, Some(61), None, Some(90)),
        ] {
            let row = agent(at(joined), due.map(|due| NOW.store_at(at(due))));
            let times = StateTimes {
                last_attempt_ended: rested.map(at),
                oldest_wake: woken.map(at),
                now: NOW,
            };
            let found = state_since(state, &row, &run, times);
            assert_eq!(found, expected.map(at), "{state} {joined} {due:?} {rested:?} {woken:?}");
        }
    }

    #[test]
    fn a_character_that_is_cut_waits_for_its_rest() {
        for (bytes, expected) in [
            (&b""[..], 0),
            (b"abc", 3),
            ("a\u{e9}".as_bytes(), 3),
            (&"a\u{e9}".as_bytes()[..2], 1),
            ("a\u{770b}".as_bytes(), 4),
            (&"a\u{770b}".as_bytes()[..3], 1),
            ("a\u{1f980}".as_bytes(), 5),
            (&"a\u{1f980}".as_bytes()[..4], 1),
            // Bytes that are no text are not held back.
            (b"a\xff", 2),
            (b"a\x80\x80\x80", 4),
        ] {
            assert_eq!(complete_utf8_len(bytes), expected, "{bytes:?}");
        }
    }
}
