//! Sending and reading: the same functions for the command line, the agents and every other client.

use std::cmp::Reverse;
use std::sync::Arc;

use agent_worker_protocol::{
    AgentName, EffectKey, Message, MessageKind, Millis, Permission, Priority, Receipt, ResourceId,
    Role, RunId, RunState, Sender, Seq, Target, ToolName,
    api::{ListPage, MessagesReply, SendReply, SendRequest},
    hash,
};
use agent_worker_store::{
    Error as StoreError, Instance, MessageOrder, MessageQuery, NewMessage, RunBlockers,
    WriteContext,
};

use serde::{Deserialize, Serialize};

use crate::{
    access::{instance_resolution::InstanceSelector, target::InstanceChoice},
    error::{Error, Result},
    kernel::{Kernel, Principal, RunContext},
    messaging::{
        attachments::new_attachments,
        mid_turn::NowMessage,
        recipients::{RecipientSpec, Recipients, resolve_recipients},
        size_limits::{self, MessageText},
    },
    scheduling::limits,
    views::page::PageRequest,
};

/// Words that give a message high priority in an inbox. They never interrupt a turn.
const URGENT_WORDS: [&str; 4] = ["urgent", "asap", "blocked", "critical"];

/// The message about a cursor of another list of messages.
const OTHER_QUERY: &str = "`after` is the `next` of another query: repeat it with the same target, thread, search and runs";

/// The reasons why a sent message is not handled for now.
#[derive(Default)]
pub(crate) struct SendBlockers {
    pub(crate) paused: Option<String>,
    pub(crate) stopped: Vec<AgentName>,
}

/// The position in a channel from which to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelPosition {
    /// After this message.
    Seq(Seq),
    /// From the first message on whose `ts` is later than this time.
    Time(Millis),
}

/// Selects the messages of a channel.
#[derive(Clone, Debug, Default)]
pub struct ChannelQuery {
    /// Only messages after this position.
    pub since: Option<ChannelPosition>,
    /// The page: the first one starts after `since`, else with the newest message.
    pub page: PageRequest,
    /// Only messages that contain this text.
    pub search: Option<String>,
    /// Only this message and all replies to it, in any run.
    pub thread: Option<Seq>,
    /// True for the whole log, not only the live or last run.
    pub all_runs: bool,
    /// True to include the receipts of the reader's own messages; for the user, of all messages.
    pub receipts: bool,
    /// True for messages with the reader, an agent, among their recipients.
    pub mentions_only: bool,
}

/// The position of a cursor in a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct ChannelKey {
    /// Mark of the query that the pages belong to ([`query_mark`]).
    query: u64,
    /// The run of the first page, in which all pages stay; none for a list of all runs.
    run: Option<RunId>,
    place: ChannelPlace,
}

/// The place of a message in a list, which has one of two directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ChannelPlace {
    /// The next page has older messages.
    Before(Reverse<Seq>),
    /// The next page has newer messages.
    After(Seq),
}

/// Sends messages and reads the channel.
#[derive(Clone, Copy)]
pub struct Messages<'k>(pub(crate) &'k Kernel);

impl Principal {
    /// The number of hops of a message that this caller sends in reply to `reply_to`.
    fn hops(&self, reply_to: Option<Seq>) -> u32 {
        match self {
            Self::Agent(attempt) => limits::hop_count(&attempt.shown, reply_to),
            Self::User | Self::Client(_) | Self::Anonymous => 0,
        }
    }
}

impl Messages<'_> {
    /// Sends a message: resolves its recipients, and returns after the message is on disk.
    pub async fn send(
        self,
        who: &Principal,
        key: Option<EffectKey>,
        request: SendRequest,
    ) -> Result<SendReply> {
        require_send(who, &request)?;
        let by = who.author_with_key(key)?;
        self.0.pass_gate(who, ToolName::ChannelSend).await?;
        let (target, project) = (request.target.clone(), request.project);
        let place = InstanceSelector { target, project };
        let run_context = self.run_to_send_in(who, &place, &by).await?;
        let (run, no_run) = (run_context.run, || Error::NoRun(run_context.instance.clone()));
        if let Some(answered) = request.reply_to {
            self.0.store.message_receipts(run_context.workflow, answered).await?;
        }
        let named = request.target.and_then(|target| target.agent);
        let to: Vec<_> = request.to.into_iter().chain(named).collect();
        let address = RecipientSpec {
            text: &request.message,
            data: &[],
            to: &to,
            cc: &request.cc,
            alone: request.alone,
            now: request.now,
        };
        let reached = self.0.message_recipients(&address, &who.sender()?, &run_context).await?;
        let (hops, reply_to) = (who.hops(request.reply_to), request.reply_to);
        let text = MessageText::authored(request.message);
        let message = self.0.prepare_message(&by, &run_context, text, &reached, hops, reply_to);
        let mut message = message.await?;
        message.attachments = new_attachments(request.attachments)?;
        message.priority = message.priority.max(request.priority);
        let has_files = !message.attachments.is_empty();
        let pause = limits::hop_limit_cause(hops, &run_context.limits);
        if let Some(cause) = pause.clone().filter(|_| run_context.instance.is_global()) {
            // Standalone agents share one run, which must not pause for two of them.
            return Err(Error::HopLimit(cause));
        }
        let (workflow, now) = (run_context.workflow, self.0.now());
        let once = match self.0.store.message_append(by, workflow, message, pause, now).await {
            Err(StoreError::NoRun) if !matches!(who, Principal::Agent(_)) => return Err(no_run()),
            appended => appended?,
        };
        self.0.end_hold(who).await;
        self.0.scheduler.indexer.count_message();
        let blockers = self.0.send_blockers(who, run, &reached.woken()).await?;
        let (deduplicated, seq) = (once.is_deduplicated(), once.value());
        let for_now = if request.now { reached.woken() } else { Vec::new() };
        let by = who.sender()?.to_string();
        let message = NowMessage { run, seq, by, has_files };
        Ok(SendReply {
            deduplicated,
            seq,
            now: self.0.reach_running_turns(&message, for_now, &blockers).await?,
            instance: run_context.instance.clone(),
            paused: blockers.paused,
            stopped: blockers.stopped,
            woken: reached.woken(),
            cc: reached.cc(),
            unknown: reached.unknown,
        })
    }

    /// Finds the live run of an instance. A repeated call gets its first result, so that a call with a key may also
    /// belong to a run that has ended.
    async fn run_to_send_in(
        self,
        who: &Principal,
        place: &InstanceSelector,
        by: &WriteContext,
    ) -> Result<Arc<RunContext>> {
        let instance =
            self.0.resolve_instance_for_write(who, place, InstanceChoice::Nearest).await?;
        let no_run = || Error::NoRun(instance.instance.clone());
        let ended = instance.last.filter(|_| by.key.is_some());
        let run = instance.live.or(ended).ok_or_else(no_run)?;
        match self.0.run_context(run).await {
            // The run has ended and was deleted meanwhile.
            Err(_) if instance.live.is_none() => Err(no_run()),
            found => found,
        }
    }

    /// Reads a channel.
    pub async fn list(
        self,
        who: &Principal,
        selector: &InstanceSelector,
        reading: ChannelQuery,
    ) -> Result<MessagesReply> {
        who.require(Permission::Read)?;
        let instance = self.0.resolve_instance(who, selector).await?;
        let receipts = reading.receipts;
        let to = match (reading.mentions_only, who) {
            (false, _) => None,
            (true, Principal::Agent(attempt)) => Some(attempt.fence.agent.clone()),
            (true, Principal::User | Principal::Client(_) | Principal::Anonymous) => {
                return Err(Error::Forbidden("only an agent can be mentioned"));
            }
        };
        let ListPage { items, next } = self.0.read_messages(&instance, reading, to).await?;
        let instance_ref = instance.instance.clone();
        let mut reply = MessagesReply { instance: instance_ref, items, next, receipts: vec![] };
        if receipts {
            for message in reply.items.iter().filter(|message| may_read_receipts(who, message)) {
                let receipts = self.0.store.message_receipts(instance.id, message.seq).await?;
                // An answer is a message of its own; a list of many messages omits the answers.
                let brief = |receipt| Receipt { answer: None, ..receipt };
                reply.receipts.extend(receipts.into_iter().map(brief));
            }
        }
        Ok(reply)
    }

    /// Returns the state of each delivery of a message, for its sender or the user.
    pub async fn receipts(
        self,
        who: &Principal,
        selector: &InstanceSelector,
        seq: Seq,
        page: &PageRequest,
    ) -> Result<ListPage<Receipt>> {
        who.require(Permission::Read)?;
        let mut page = page.start("receipts")?;
        let instance = self.0.resolve_instance(who, selector).await?;
        let receipts = self.0.store.message_receipts(instance.id, seq).await;
        let mut receipts = receipts.map_err(|error| match error {
            StoreError::NotFound(_) => {
                Error::missing(format!("message #{seq}"), &instance.instance)
            }
            other => other.into(),
        })?;
        let (after, order) = (Seq::new(seq.get() - 1), MessageOrder::OldestFirst);
        let query = MessageQuery {
            run: None,
            after,
            before: None,
            search: None,
            to: None,
            order,
            limit: 1,
        };
        let message = self.0.store.message_list(instance.id, query).await?;
        if !message.iter().all(|message| may_read_receipts(who, message)) {
            return Err(Error::Forbidden(
                "only the sender of a message and the user may read its receipts",
            ));
        }
        receipts.sort_by_key(|receipt| receipt.agent.folded());
        for receipt in receipts {
            page.push(receipt.agent.folded(), receipt);
        }
        page.finish()
    }
}

impl Kernel {
    /// Returns the recipients of a message: those it names, else the coordinator if the team has one.
    async fn message_recipients(
        &self,
        address: &RecipientSpec<'_>,
        sender: &Sender,
        run_context: &RunContext,
    ) -> Result<Recipients> {
        let resolved = resolve_recipients(address, sender, &run_context.team);
        let mut reached = resolved.map_err(|unknown| match sender {
            Sender::Agent(_) => Error::NoAgent(unknown),
            Sender::User | Sender::System | Sender::Client(_) => Error::UnknownTarget {
                wanted: format!("agent `{}` in @{}", unknown.name, run_context.instance),
                suggestion: unknown
                    .suggestion
                    .map(|agent| Target::agent(agent, &run_context.instance)),
            },
        })?;
        if reached.list.is_empty() {
            let roles = self.store.run_roles(run_context.run).await?;
            let coordinator = roles.into_iter().find(|(role, _)| *role == Role::Coordinator);
            reached.add_coordinator(coordinator.map(|(_, agent)| agent), sender);
        }
        Ok(reached)
    }

    /// Returns the reasons why the woken agents do not act for now. An agent's own run is live while it sends.
    pub(crate) async fn send_blockers(
        &self,
        who: &Principal,
        run: RunId,
        woken: &[AgentName],
    ) -> Result<SendBlockers> {
        if woken.is_empty() {
            return Ok(SendBlockers::default());
        }
        let RunBlockers { state, mut stopped } = self.store.run_blockers(run).await?;
        stopped.retain(|agent| woken.contains(agent));
        let paused = match (state, who) {
            (RunState::Paused { cause }, Principal::User | Principal::Client(_)) => {
                Some(cause.to_string())
            }
            _ => None,
        };
        Ok(SendBlockers { paused, stopped })
    }

    /// Reads a page of a channel: all messages, or those that wake `to`.
    async fn read_messages(
        &self,
        instance: &Instance,
        reading: ChannelQuery,
        to: Option<AgentName>,
    ) -> Result<ListPage<Message>> {
        let mut page = reading.page.start::<ChannelKey, Message>("messages")?;
        let cursor = page.after().copied();
        let query = query_mark(instance, &reading, to.as_ref());
        if cursor.is_some_and(|cursor| cursor.query != query) {
            return Err(Error::BadRequest(OTHER_QUERY.into()));
        }
        let place = cursor.map(|cursor| cursor.place);
        let after = match (place, reading.since) {
            (Some(ChannelPlace::After(seq)), _) | (_, Some(ChannelPosition::Seq(seq))) => Some(seq),
            (_, Some(ChannelPosition::Time(time))) => {
                Some(self.store.message_position(instance.id, time).await?)
            }
            (_, None) => None,
        };
        let before = match place {
            Some(ChannelPlace::Before(Reverse(seq))) => Some(seq),
            Some(ChannelPlace::After(_)) | None => None,
        };
        let limit = page.range(|_| None::<Seq>).limit;
        if let Some(seq) = reading.thread {
            check_thread_filters(&reading, to.as_ref())?;
            let after = after.unwrap_or_default();
            let thread = self.store.message_thread(instance.id, seq, after, limit).await?;
            for one in thread {
                let place = ChannelPlace::After(one.seq);
                page.push(ChannelKey { query, run: None, place }, one);
            }
            return page.finish();
        }
        let run = match cursor {
            _ if reading.all_runs => None,
            Some(cursor) => cursor.run,
            None => instance.live.or(instance.last),
        };
        // A reader that continues from a position must not skip any message.
        let is_forward = after.is_some() && before.is_none();
        let order = if is_forward { MessageOrder::OldestFirst } else { MessageOrder::NewestFirst };
        let (search, after) = (reading.search, after.unwrap_or_default());
        let is_search = search.is_some();
        let selection = MessageQuery { run, after, before, search, to, order, limit };
        let messages = self.store.message_list(instance.id, selection).await?.into_iter();
        if is_forward {
            for one in messages {
                page.push(ChannelKey { query, run, place: ChannelPlace::After(one.seq) }, one);
            }
            return page.finish();
        }
        for one in messages.rev() {
            let place = ChannelPlace::Before(Reverse(one.seq));
            page.push(ChannelKey { query, run, place }, one);
        }
        let mut page = page.finish()?;
        if !is_search {
            page.items.reverse();
        }
        Ok(page)
    }

    /// Prepares a message for the store; moves content that is too long into resources.
    pub(crate) async fn prepare_message(
        &self,
        by: &WriteContext,
        run_context: &RunContext,
        text: MessageText,
        reached: &Recipients,
        hops: u32,
        reply_to: Option<Seq>,
    ) -> Result<NewMessage> {
        let mut ids = Vec::new();
        for range in text.long_values() {
            ids.push(self.spill_to_resource(by, run_context, &text.body[range]).await?);
        }
        let mut text = text.with_previews(&ids);
        let mut resource = None;
        if text.body.len() > size_limits::MAX_INLINE_BYTES {
            let id = self.spill_to_resource(by, run_context, &text.body).await?;
            text = MessageText::authored(size_limits::preview(&text.body, id));
            resource = Some(id);
        }
        size_limits::check("a message", text.body.len(), size_limits::MAX_MESSAGE_BYTES)?;
        let priority = detect_priority(&text.body, reached);
        let recipients = reached.list.clone();
        let (body, data) = (text.body, text.data);
        let kind = MessageKind::Message;
        let attachments = Vec::new();
        Ok(NewMessage {
            kind,
            body,
            data,
            reply_to,
            hops,
            priority,
            resource,
            recipients,
            attachments,
        })
    }

    async fn spill_to_resource(
        &self,
        by: &WriteContext,
        run_context: &RunContext,
        text: &str,
    ) -> Result<ResourceId> {
        size_limits::check("this text", text.len(), size_limits::MAX_RESOURCE_BYTES)?;
        let by = WriteContext::new(by.actor.clone());
        let content = text.as_bytes().to_vec();
        let now = self.now();
        Ok(self
            .store
            .resource_put(by, run_context.workflow, "text/plain".into(), content, now.wall)
            .await?)
    }
}

/// Refuses an empty message and callers that may not send. `now` may interrupt a turn, which no agent may do.
fn require_send(who: &Principal, request: &SendRequest) -> Result<()> {
    who.require(Permission::Send)?;
    if request.now {
        who.require(Permission::Agents)?;
    }
    if request.message.trim().is_empty() {
        return Err(Error::BadRequest("the message is empty".into()));
    }
    Ok(())
}

/// Refuses filters that a thread does not have.
fn check_thread_filters(reading: &ChannelQuery, to: Option<&AgentName>) -> Result<()> {
    let other = match (to, &reading.search) {
        (Some(_), _) => "mentions_only",
        (None, Some(_)) => "search",
        (None, None) => return Ok(()),
    };
    Err(Error::BadRequest(format!("`{other}` and `thread` cannot be combined")))
}

/// Returns a number that identifies the messages that a query selects, from whichever position it reads them.
fn query_mark(instance: &Instance, reading: &ChannelQuery, to: Option<&AgentName>) -> u64 {
    let selection = format!(
        "{} {} {:?} {:?} {:?}",
        instance.id,
        reading.all_runs,
        reading.thread.map(Seq::get),
        to.map(AgentName::folded),
        reading.search
    );
    let mut start = [0; size_of::<u64>()];
    start.copy_from_slice(&hash(&[selection.as_bytes()])[..size_of::<u64>()]);
    u64::from_le_bytes(start)
}

/// Returns true if the caller may read the receipts of a message.
fn may_read_receipts(who: &Principal, message: &Message) -> bool {
    match who {
        Principal::User => true,
        Principal::Agent(_) | Principal::Client(_) | Principal::Anonymous => {
            who.sender().is_ok_and(|sender| sender == message.from)
        }
    }
}

/// Returns the priority of a message: high with an urgent word, or with two mentioned agents, who must coordinate.
fn detect_priority(body: &str, reached: &Recipients) -> Priority {
    let mut words = body.split(|c: char| !c.is_ascii_alphanumeric());
    let urgent = |word: &str| URGENT_WORDS.iter().any(|urgent| urgent.eq_ignore_ascii_case(word));
    if reached.mentioned > 1 || words.any(urgent) { Priority::High } else { Priority::Normal }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_urgent_word_sorts_a_message_first() {
        for (body, expected) in [
            ("URGENT: the build", Priority::High),
            ("I am blocked.", Priority::High),
            ("unblocked", Priority::Normal),
            ("please look", Priority::Normal),
        ] {
            assert_eq!(detect_priority(body, &Recipients::default()), expected, "{body}");
        }
    }

    #[test]
    fn several_mentions_sort_a_message_first() {
        for (mentioned, expected) in
            [(0, Priority::Normal), (1, Priority::Normal), (2, Priority::High)]
        {
            let reached = Recipients { mentioned, ..Recipients::default() };
            assert_eq!(detect_priority("please look", &reached), expected, "{mentioned}");
        }
    }
}
