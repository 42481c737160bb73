//! Turns: the list of attempts, and one attempt with its history.
//!
//! The list has what an event log shows as well: any reader may read it, an agent only its own. The history has prompts and
//! whole results, as a worker's log does: only the user reads it.

use std::{cmp::Reverse, collections::HashMap};

use agent_worker_protocol::{
    AttemptId, Epoch, EventBody, HistoryText, InstanceRef, Message, Millis, Permission, Seq,
    TextState,
    api::{ListPage, TurnCause, TurnDetail, TurnEntry, TurnEntryBody, TurnView},
};
use agent_worker_store::{
    AttemptKey, AttemptRow, HistoryContent, HistoryEntry, HistoryKey, StoreTime,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    access::{instance_resolution::InstanceSelector, target::InstanceChoice},
    error::{Error, Result},
    kernel::{Kernel, Principal},
    views::page::PageRequest,
};

/// Length of the shortest beginning of an id.
const MIN_ID_DIGITS: usize = 4;
/// Number of attempts that the error for an ambiguous id lists.
const MAX_CANDIDATES: u32 = 5;
/// Maximum length of a message in the list.
const MAX_CAUSE_CHARS: usize = 80;

/// Lists the attempts of agents and reads their history.
#[derive(Clone, Copy)]
pub struct Turns<'k>(pub(crate) &'k Kernel);

/// The place of an attempt in the list: newest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct TurnPlace {
    started: Reverse<i64>,
    turn: Reverse<AttemptId>,
    epoch: i64,
}

impl TurnPlace {
    fn of(row: &AttemptRow) -> Self {
        Self {
            started: Reverse(row.store_started.get()),
            turn: Reverse(row.id),
            epoch: row.fence.epoch.get(),
        }
    }

    fn key(&self) -> AttemptKey {
        AttemptKey {
            started: StoreTime::new(self.started.0),
            epoch: Epoch::new(self.epoch),
            id: self.turn.0,
        }
    }
}

impl Turns<'_> {
    /// Lists the attempts of an instance, or of one agent, newest first.
    pub async fn list(
        self,
        who: &Principal,
        selector: &InstanceSelector,
        page: &PageRequest,
    ) -> Result<ListPage<TurnView>> {
        who.require(Permission::Read)?;
        let mut page = page.start::<TurnPlace, AttemptRow>("turns")?;
        let named = selector.target.as_ref().and_then(|target| target.agent.as_ref());
        let (instance, agent) = match (who, named) {
            (Principal::Agent(attempt), _) => {
                let own = attempt.fence.agent.clone();
                if named.is_some_and(|named| *named != own) {
                    return Err(Error::Forbidden("an agent may list only its own turns"));
                }
                (self.0.resolve_own_instance(who, selector).await?, Some(own))
            }
            (_, Some(_)) => {
                let choice = InstanceChoice::Nearest;
                let (instance, agent) = self.0.resolve_agent(who, selector, choice).await?;
                (instance, Some(agent))
            }
            (_, None) => (self.0.resolve_instance(who, selector).await?, None),
        };
        let range = page.range(|place| Some(place.key()));
        for row in self.0.store.attempt_page(instance.id, agent, range).await? {
            page.push(TurnPlace::of(&row), row);
        }
        let ListPage { items, next } = page.finish()?;
        let items = self.0.turn_views(&instance.instance, items).await?;
        Ok(ListPage { items, next })
    }

    /// Returns an attempt with a page of its history. `id` is its id or the beginning of it.
    pub async fn detail(self, who: &Principal, id: &str, page: &PageRequest) -> Result<TurnDetail> {
        who.require_user("only the user may read the history of a turn")?;
        let id = self.find(id).await?;
        let mut page = page.start::<(i64, u32), TurnEntry>("turn")?;
        let is_first = page.after().is_none();
        let row = self.0.store.attempt_get(id).await?;
        let run = self.0.store.run_get(row.run).await?;
        // The end is read before the entries: they then contain everything up to the end.
        let text = row.finished.as_ref().map(|finished| finished.text.clone());
        let seqs = row.shown.iter().map(|(seq, _)| *seq).collect();
        let shown = if is_first {
            self.0.store.message_get(row.fence.workflow, seqs).await?
        } else {
            Vec::new()
        };
        let log = self.0.runner.attempt_log_path(row.run, id).await;
        let views = self.0.turn_views(&run.instance, vec![row]).await?;
        let view = views.into_iter().next();
        let range = page.range(|&(no, part)| Some(HistoryKey { no, part }));
        let part = self.0.store.history_list(id, range).await?;
        for entry in part.entries {
            page.push((entry.key.no, entry.key.part), turn_entry(entry));
        }
        if part.is_cut {
            page.expect_more();
        }
        let ListPage { items, next } = page.finish()?;
        Ok(TurnDetail {
            view: view.ok_or_else(|| Error::NoInstance(format!("turn `{id}`")))?,
            shown,
            text: text.filter(|text| is_first && !text.is_empty()),
            log,
            items,
            next,
        })
    }

    /// Finds the attempt with this id, or the only one whose id begins so.
    async fn find(self, typed: &str) -> Result<AttemptId> {
        let digits = id_digits(typed)?;
        let found = self.0.store.attempt_find(digits, MAX_CANDIDATES).await?;
        match found.as_slice() {
            [] => Err(Error::NoInstance(format!("turn `{typed}`"))),
            [one] => Ok(*one),
            several => {
                let list: Vec<_> = several.iter().map(ToString::to_string).collect();
                let list = list.join(", ");
                let message = format!("several turns begin with `{typed}`: {list}");
                Err(Error::BadRequest(message))
            }
        }
    }
}

impl Kernel {
    /// Makes the views of attempts of one instance, with the messages that woke them.
    async fn turn_views(
        &self,
        instance: &InstanceRef,
        rows: Vec<AttemptRow>,
    ) -> Result<Vec<TurnView>> {
        let Some(first) = rows.first() else { return Ok(Vec::new()) };
        let mut seqs: Vec<_> = rows.iter().map(|row| row.oldest).collect();
        seqs.sort_unstable();
        seqs.dedup();
        let causes = self.store.message_get(first.fence.workflow, seqs).await?;
        let causes: HashMap<Seq, TurnCause> =
            causes.into_iter().map(|message| (message.seq, turn_cause(message))).collect();
        let now = self.now().wall;
        let view = |row| turn_view(instance, row, &causes, now);
        Ok(rows.into_iter().map(view).collect())
    }
}

fn turn_view(
    instance: &InstanceRef,
    row: AttemptRow,
    causes: &HashMap<Seq, TurnCause>,
    now: Millis,
) -> TurnView {
    let lasted = row.ended_at.unwrap_or(now).since(row.started);
    TurnView {
        turn: row.id,
        agent: row.fence.agent,
        instance: instance.clone(),
        run: row.run,
        number: row.number,
        woken_by: causes.get(&row.oldest).cloned(),
        messages: row.shown.into_iter().map(|(seq, _)| seq).collect(),
        started: row.started,
        lasted_ms: u64::try_from(lasted.as_millis()).unwrap_or(u64::MAX),
        ended: row.ended,
        ended_at: row.ended_at,
        usage: row.usage,
        history: row.history,
    }
}

fn turn_cause(message: Message) -> TurnCause {
    let mut text: String = message.body.chars().take(MAX_CAUSE_CHARS).collect();
    if text.len() < message.body.len() {
        text.push('…');
    }
    TurnCause { seq: message.seq, from: message.from, text }
}

fn turn_entry(entry: HistoryEntry) -> TurnEntry {
    let body = match entry.content {
        HistoryContent::System(text) => TurnEntryBody::System(text),
        HistoryContent::Prompt(text) => TurnEntryBody::Prompt(text),
        HistoryContent::Words(text) => TurnEntryBody::Words(text),
        HistoryContent::Event(body, whole) => event_entry(body, whole),
        HistoryContent::Damaged => TurnEntryBody::Damaged,
    };
    TurnEntry { no: entry.key.no, ts: entry.ts, body }
}

/// Makes the entry of an event: with its whole text, else with the short form and the reason for it.
fn event_entry(body: EventBody, whole: Option<HistoryText>) -> TurnEntryBody {
    // Without a report about the whole text nobody knows how much is missing.
    let state = whole.as_ref().map_or(TextState::Off, |whole| whole.state);
    let bytes = whole.as_ref().map(|whole| whole.bytes);
    let whole = whole.and_then(|whole| whole.text);
    match body {
        EventBody::ToolCall(call) => {
            let args = match whole {
                Some(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
                None => call.args,
            };
            TurnEntryBody::ToolCall { id: call.id, tool: call.tool, args, bytes, state }
        }
        EventBody::ToolResult(result) => {
            let (id, tool, ok) = (result.id, result.tool, result.ok);
            let text = whole.unwrap_or(result.summary);
            TurnEntryBody::ToolResult { id, tool, ok, text, bytes, state }
        }
        EventBody::Usage(usage) => TurnEntryBody::Usage(usage),
        EventBody::DeliveryJoined(delivery) => TurnEntryBody::Joined { seq: delivery.seq },
        EventBody::Retry(retry) => TurnEntryBody::Retry { why: retry.why },
        EventBody::Note(note) => TurnEntryBody::Note { text: note.text },
        // No other event is an entry.
        _ => TurnEntryBody::Damaged,
    }
}

/// Returns the digits of an id or of its beginning.
fn id_digits(typed: &str) -> Result<String> {
    let digits: String = typed.chars().filter(|letter| *letter != '-').collect();
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hex && (MIN_ID_DIGITS..=32).contains(&digits.len()) {
        return Ok(digits.to_ascii_lowercase());
    }
    let shown: String = typed.chars().take(MAX_CAUSE_CHARS).collect();
    let message = format!("`{shown}` is not a turn's id: {MIN_ID_DIGITS} to 32 hex digits");
    Err(Error::BadRequest(message))
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::{HistoryMode, ToolCallData, ToolResultData};
    use serde_json::json;

    use super::*;

    #[test]
    fn an_id_is_typed_whole_or_by_its_beginning() {
        for (typed, expected) in [
            ("0197A3b2", Some("0197a3b2")),
            ("0197a3b2-7c1e-7000", Some("0197a3b27c1e7000")),
            ("019", None),
            ("coder", None),
            ("é197a3b2", None),
            (&"0".repeat(33), None),
        ] {
            assert_eq!(id_digits(typed).ok().as_deref(), expected, "{typed}");
        }
    }

    #[test]
    fn an_entry_has_the_whole_text_or_the_short_one_with_the_reason() {
        let args = json!({"command": "short…"});
        let call = |whole: Option<HistoryText>| {
            let args = args.clone();
            let data = ToolCallData { id: "1".into(), tool: "t".into(), args };
            match event_entry(EventBody::ToolCall(data), whole) {
                TurnEntryBody::ToolCall { args, bytes, state, .. } => (args, bytes, state),
                other => panic!("{other:?}"),
            }
        };
        let long = json!({"command": "short and long"});
        let whole = HistoryText::of(long.to_string(), HistoryMode::Full);
        assert_eq!(call(Some(whole)), (long, Some(28), TextState::Whole));
        let cut = HistoryText { text: Some("{\"co".into()), bytes: 28, state: TextState::Cut };
        assert_eq!(call(Some(cut)), (json!("{\"co"), Some(28), TextState::Cut));
        let limit = HistoryText::omitted(28, TextState::Limit);
        assert_eq!(call(Some(limit)), (args.clone(), Some(28), TextState::Limit));
        assert_eq!(call(None), (args.clone(), None, TextState::Off));
        let data =
            ToolResultData { id: "1".into(), tool: "t".into(), ok: true, summary: "s".into() };
        let short = HistoryText::omitted(1, TextState::Whole);
        let result = event_entry(EventBody::ToolResult(data), Some(short));
        let expected = TurnEntryBody::ToolResult {
            id: "1".into(),
            tool: "t".into(),
            ok: true,
            text: "s".into(),
            bytes: Some(1),
            state: TextState::Whole,
        };
        assert_eq!(result, expected);
    }
}
