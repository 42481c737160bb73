//! Messages: appended, and read with their recipients and receipts.

use std::{collections::HashMap, sync::Arc};

use agent_worker_protocol::{
    AgentName, Attachment, Hash, Message, MessageKind, Millis, PauseCause, Priority, Receipt,
    ResourceId, Seq, WorkflowId,
};

use super::{
    checksum::{ATTEMPT, MESSAGE, RunIdCache},
    columns::{self, Columns},
    delivery_states::{self, ACTED},
    effects::once,
    instances,
    locked_instance::LockedInstance,
    resources::{NewResource, ResourceFiles, ResourcePutOutcome},
    search::{self, MessageSearch},
    transaction::Tx,
};
use crate::{
    damage::{self, ListPart},
    db::{self, Connection, Row, ValueRef, params},
    error::{Error, Result},
    model::{MessageOrder, MessageQuery, NewAttachment, NewMessage, Once, WriteContext},
    time::Now,
};

/// Names the file of an attachment that was removed before its row was written: it has to be written again.
pub(crate) const ATTACHED_FILE: &str = "file of an attachment";

/// A message and its files, whose large contents are on disk already.
pub(crate) struct MessageWithFiles {
    pub(crate) message: NewMessage,
    pub(crate) attachments: Vec<Attachment>,
    /// Contents of the attachments, in their order.
    pub(crate) resources: Vec<Arc<NewResource>>,
    pub(crate) files: Option<ResourceFiles>,
}

impl MessageWithFiles {
    /// Hashes the files of a message.
    pub(crate) fn new(
        workflow: WorkflowId,
        mut message: NewMessage,
        files: Option<ResourceFiles>,
    ) -> Self {
        let (mut attachments, mut resources) = (Vec::new(), Vec::new());
        for NewAttachment { name, media_type, content } in std::mem::take(&mut message.attachments)
        {
            let size = content.len() as u64;
            let resource = NewResource::new(workflow, media_type.clone(), content);
            attachments.push(Attachment { name, media_type, size, resource: resource.id });
            resources.push(Arc::new(resource));
        }
        Self { message, attachments, resources, files }
    }
}

/// Returns the columns that [`read_message`] reads, of a message `m`. The last one checks a row without a checksum by
/// its SHA-256.
pub(crate) fn message_columns() -> String {
    format!(
        "m.seq, m.run, m.ts, m.sender, m.kind, m.body, m.reply_to, m.hops, m.priority, m.resource, m.workflow, m.data,
        m.attachments, m.checksum, CASE WHEN m.checksum IS NULL THEN {} END",
        MESSAGE.check
    )
}

pub(crate) fn append(
    tx: &Tx<'_>,
    by: &WriteContext,
    workflow: WorkflowId,
    new: &MessageWithFiles,
    pause: Option<&PauseCause>,
    now: Now,
) -> Result<Once<Seq>> {
    once(LockedInstance::lock(tx, workflow)?, by, now, |locked, author| {
        for resource in &new.resources {
            let put =
                resource.insert_locked(locked, &author.sender(), new.files.as_ref(), now.wall)?;
            if let ResourcePutOutcome::FileGone = put {
                return Err(Error::NotFound(ATTACHED_FILE));
            }
        }
        let seq = locked.append_message_with_files(author, &new.message, &new.attachments, now)?;
        locked.pause_run_if(pause, &author.sender(), now)?;
        Ok(seq)
    })
}

fn direction(order: MessageOrder) -> &'static str {
    match order {
        MessageOrder::OldestFirst => "ASC",
        MessageOrder::NewestFirst => "DESC",
    }
}

fn list_sql(order: MessageOrder) -> String {
    format!(
        "SELECT {} FROM message m
         WHERE m.workflow = ?1 AND m.seq > ?2 AND m.seq <= ?3 ORDER BY m.seq {}",
        message_columns(),
        direction(order)
    )
}

/// Finds the messages that wake an agent by their deliveries, whose rows are much shorter than messages.
pub(crate) fn mentions_sql(order: MessageOrder) -> String {
    format!(
        "SELECT {} FROM delivery d CROSS JOIN message m ON m.workflow = d.workflow AND m.seq = d.seq
         WHERE d.workflow = ?1 AND d.seq > ?2 AND d.seq <= ?3 AND d.agent = ?4 AND d.wakes = 1 ORDER BY d.seq {}",
        message_columns(),
        direction(order)
    )
}

pub(crate) fn list(
    db: &Connection,
    workflow: WorkflowId,
    query: &MessageQuery,
) -> Result<Vec<Message>> {
    let (first, last) = match query.run {
        Some(run) => instances::run_seq_range(db, workflow, run)?,
        None => (0, i64::MAX),
    };
    let last = query.before.map_or(last, |before| last.min(before.get().saturating_sub(1)));
    let stretch = (first.max(query.after.get()), last);
    if let Some(text) = &query.search {
        let (order, limit) = (query.order, query.limit);
        let wanted = MessageSearch { workflow, seq_range: stretch, text, order, limit };
        return find(db, wanted, query.to.as_ref());
    }
    let runs = RunIdCache::of(db);
    let read = |row: &Row<'_>| read_message(row, &runs);
    let (after, last) = stretch;
    let mut messages = if let Some(agent) = &query.to {
        let mut statement = db.prepare_cached(&mentions_sql(query.order))?;
        let values = params![workflow.get(), after, last, agent.as_str()];
        damage::take_intact(statement.query_map(values, read)?, query.limit)?
    } else {
        let mut statement = db.prepare_cached(&list_sql(query.order))?;
        let values = params![workflow.get(), after, last];
        damage::take_intact(statement.query_map(values, read)?, query.limit)?
    };
    messages.sort_by_key(|message| message.seq);
    fill_relations(db, workflow, messages.iter_mut())?;
    Ok(messages)
}

/// Returns the messages that a search finds, oldest first: all of them, or those that wake `to`. A message that is left
/// out uses no part of the limit.
fn find(
    db: &Connection,
    mut wanted: MessageSearch<'_>,
    to: Option<&AgentName>,
) -> Result<Vec<Message>> {
    let mut messages = damage::fill_list(wanted.limit, |missing| {
        wanted.limit = missing;
        let found = search::find_messages(db, &wanted)?;
        let (after, last) = wanted.seq_range;
        wanted.seq_range = match wanted.order {
            MessageOrder::OldestFirst => (found.iter().copied().max().unwrap_or(last), last),
            MessageOrder::NewestFirst => (after, found.iter().copied().min().unwrap_or(after) - 1),
        };
        let is_last = found.len() < missing as usize;
        let mut items = by_seq(db, wanted.workflow, &found)?;
        items.retain(|message| to.is_none_or(|agent| message.to.contains(agent)));
        Ok(ListPart { items, is_last })
    })?;
    messages.sort_by_key(|message| message.seq);
    Ok(messages)
}

/// A message, its replies, the answers that act on it, their replies and so on. A reply comes after the message it
/// answers, so the oldest-first recursion returns the messages in order, and a reader with a limit can stop early.
pub(crate) fn thread_sql() -> String {
    format!(
        "WITH RECURSIVE thread (seq) AS (
          SELECT CAST(?2 AS BIGINT)
          UNION
          SELECT m.seq FROM thread q CROSS JOIN message m INDEXED BY message_reply
          WHERE m.workflow = ?1 AND m.reply_to = q.seq AND m.reply_to IS NOT NULL
          UNION
          SELECT t.answer FROM thread q CROSS JOIN delivery d CROSS JOIN attempt t
          WHERE d.workflow = ?1 AND d.seq = q.seq AND d.state = {ACTED}
          AND t.workflow = ?1 AND t.agent = d.agent AND t.epoch = d.epoch AND t.answer IS NOT NULL
          ORDER BY 1)
        SELECT seq FROM thread WHERE seq > ?3 LIMIT ?4"
    )
}

pub(crate) fn thread(
    db: &Connection,
    workflow: WorkflowId,
    seq: Seq,
    after: Seq,
    limit: u32,
) -> Result<Vec<Message>> {
    require_message(db, workflow, seq)?;
    let mut after = after.get();
    damage::fill_list(limit, |missing| {
        let seqs = db
            .prepare_cached(&thread_sql())?
            .query_map(params![workflow.get(), seq.get(), after, missing], |row| row.get(0))?
            .collect::<db::Result<Vec<i64>>>()?;
        after = seqs.last().copied().unwrap_or(after);
        let is_last = seqs.len() < missing as usize;
        Ok(ListPart { items: by_seq(db, workflow, &seqs)?, is_last })
    })
}

/// Returns the last message before the first one that is later than `time`, by a binary search over the primary key.
pub(crate) fn position(db: &Connection, workflow: WorkflowId, time: Millis) -> Result<Seq> {
    let newest = "SELECT last_seq FROM workflow WHERE id = ?1";
    let newest: i64 = db.prepare_cached(newest)?.query_row([workflow.get()], |row| row.get(0))?;
    // Messages up to `low` are not later than `time`; those from `high` on are later, or do not exist.
    let (mut low, mut high) = (0, newest.saturating_add(1));
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        match first_intact(db, workflow, (middle, high))? {
            Some(message) if message.ts <= time => low = message.seq.get(),
            Some(_) | None => high = middle,
        }
    }
    Ok(Seq::new(low))
}

/// Returns the first message of a range that is neither deleted nor damaged: from the first seq on, before the second.
fn first_intact(
    db: &Connection,
    workflow: WorkflowId,
    (from, before): (i64, i64),
) -> Result<Option<Message>> {
    let sql = format!(
        "SELECT {} FROM message m WHERE m.workflow = ?1 AND m.seq >= ?2 AND m.seq < ?3 ORDER BY m.seq",
        message_columns()
    );
    let runs = RunIdCache::of(db);
    let mut statement = db.prepare_cached(&sql)?;
    let rows = statement
        .query_map(params![workflow.get(), from, before], |row| read_message(row, &runs))?;
    for row in rows {
        if let Some(message) = damage::intact_or_skip(row)? {
            return Ok(Some(message));
        }
    }
    Ok(None)
}

/// Returns the messages with these numbers, in their order.
pub(crate) fn get(db: &Connection, workflow: WorkflowId, seqs: &[Seq]) -> Result<Vec<Message>> {
    by_seq(db, workflow, &seqs.iter().map(|seq| seq.get()).collect::<Vec<_>>())
}

/// Returns an error unless the message exists.
fn require_message(db: &Connection, workflow: WorkflowId, seq: Seq) -> Result<()> {
    let there = db
        .prepare_cached("SELECT 1 FROM message WHERE workflow = ?1 AND seq = ?2")?
        .exists([workflow.get(), seq.get()])?;
    if there { Ok(()) } else { Err(Error::NotFound("message")) }
}

/// Returns the messages with these numbers, in their order.
pub(crate) fn by_seq(db: &Connection, workflow: WorkflowId, seqs: &[i64]) -> Result<Vec<Message>> {
    let sql = format!(
        "SELECT {} FROM message m
         WHERE m.workflow = ?1 AND m.seq IN (SELECT CAST(value AS BIGINT) FROM json_each(?2)) ORDER BY m.seq",
        message_columns()
    );
    let mut statement = db.prepare_cached(&sql)?;
    let runs = RunIdCache::of(db);
    let values = params![workflow.get(), serde_json::to_string(seqs)?];
    let rows = statement.query_map(values, |row| read_message(row, &runs))?;
    let mut messages = damage::collect_intact(rows)?;
    fill_relations(db, workflow, messages.iter_mut())?;
    Ok(messages)
}

/// The number of columns of [`message_columns`].
pub(crate) const MESSAGE_COLUMN_COUNT: usize = 15;
/// The positions of the hashed columns, in the order of the hash.
const HASHED_COLUMNS: [usize; 12] = [10, 0, 1, 3, 4, 5, 11, 6, 7, 8, 9, 2];
/// The position of the attachments, which the hash covers last and only if there are any.
const ATTACHMENTS_COLUMN: usize = 12;
const CHECKSUM_COLUMN: usize = 13;

/// Reads the columns of [`message_columns`]; [`fill_relations`] adds the recipients and links.
pub(crate) fn read_message(row: &Row<'_>, runs: &RunIdCache<'_>) -> db::Result<Message> {
    // Each column is read from SQLite once, for the checksum and for the struct: a read costs more than hashing.
    let columns = Columns::<MESSAGE_COLUMN_COUNT>::read(row)?;
    match columns.value(CHECKSUM_COLUMN) {
        ValueRef::Null => MESSAGE.verify(row, MESSAGE_COLUMN_COUNT - 1)?,
        written => verify_columns(&columns, written)?,
    }
    let attachments: Option<String> = columns.get(ATTACHMENTS_COLUMN)?;
    Ok(Message {
        seq: Seq::new(columns.get(0)?),
        run: runs.get(columns.get(10)?, columns.get(1)?)?,
        ts: Millis::new(columns.get(2)?),
        from: columns.get::<String>(3)?.into(),
        kind: columns.word(4)?,
        body: columns.get(5)?,
        reply_to: columns.get::<Option<i64>>(6)?.map(Seq::new),
        acts_on: Vec::new(),
        hops: columns.get(7)?,
        priority: if columns.get(8)? { Priority::High } else { Priority::Normal },
        to: Vec::new(),
        cc: Vec::new(),
        resource: columns.get::<Option<Hash>>(9)?.map(ResourceId::new),
        attachments: match attachments {
            None => Vec::new(),
            Some(files) => serde_json::from_str(&files).map_err(db::Error::invalid_value)?,
        },
    })
}

/// Verifies the hashed columns of a message.
fn verify_columns(
    columns: &Columns<'_, MESSAGE_COLUMN_COUNT>,
    written: ValueRef<'_>,
) -> db::Result<()> {
    let hashed = HASHED_COLUMNS.map(|column| columns.value(column));
    match columns.value(ATTACHMENTS_COLUMN) {
        ValueRef::Null => MESSAGE.verify_values(&hashed, written),
        attachments => {
            let mut all = hashed.to_vec();
            all.push(attachments);
            MESSAGE.verify_values(&all, written)
        }
    }
}

/// Fills in the recipients of the messages, and the messages that answers act on, in one query each for all of them.
pub(crate) fn fill_relations<'m>(
    db: &Connection,
    workflow: WorkflowId,
    messages: impl Iterator<Item = &'m mut Message>,
) -> Result<()> {
    let mut by_seq: HashMap<i64, &mut Message> =
        messages.map(|message| (message.seq.get(), message)).collect();
    let seqs = serde_json::to_string(&by_seq.keys().collect::<Vec<_>>())?;
    let sql = "SELECT seq, agent, wakes FROM delivery
        WHERE workflow = ?1 AND seq IN (SELECT CAST(value AS BIGINT) FROM json_each(?2)) ORDER BY seq, agent";
    let mut query = db.prepare_cached(sql)?;
    let mut rows = query.query(params![workflow.get(), seqs])?;
    while let Some(row) = rows.next()? {
        if let Some(message) = by_seq.get_mut(&row.get(0)?) {
            let agent = columns::parse::<AgentName>(&row, 1)?;
            if row.get(2)? { message.to.push(agent) } else { message.cc.push(agent) }
        }
    }
    by_seq.retain(|_, message| message.kind == MessageKind::Answer);
    fill_acts_on(db, workflow, &mut by_seq)
}

/// Finds the messages that answers act on: the acted deliveries of each answer's attempt.
pub(crate) fn acts_on_sql() -> String {
    format!(
        "SELECT t.answer, d.seq, {} FROM attempt t INDEXED BY attempt_answer CROSS JOIN json_each(t.shown) AS shown
         CROSS JOIN delivery d ON d.workflow = t.workflow AND d.seq = json_extract(shown.value, '$[0]') AND d.agent = t.agent
         WHERE t.workflow = ?1 AND t.answer IN (SELECT CAST(value AS BIGINT) FROM json_each(?2)) AND t.answer IS NOT NULL
         AND d.epoch = t.epoch AND d.state = {ACTED} ORDER BY t.answer, d.seq",
        ATTEMPT.check
    )
}

fn fill_acts_on(
    db: &Connection,
    workflow: WorkflowId,
    answers: &mut HashMap<i64, &mut Message>,
) -> Result<()> {
    if answers.is_empty() {
        return Ok(());
    }
    let seqs = serde_json::to_string(&answers.keys().collect::<Vec<_>>())?;
    let mut statement = db.prepare_cached(&acts_on_sql())?;
    let links = statement.query_map(params![workflow.get(), seqs], |row| {
        ATTEMPT.verify(row, 2)?;
        Ok((row.get::<i64>(0)?, columns::seq(row, 1)?))
    })?;
    for (answer, question) in damage::collect_intact(links)? {
        if let Some(answer) = answers.get_mut(&answer) {
            answer.acts_on.push(question);
        }
    }
    Ok(())
}

/// Returns the statement for receipts. The last column is the message with the answer: that of the attempt that acted
/// on the delivery; without one, the agent's last reply. If the attempt is damaged, the column is the attempt's key.
pub(crate) fn receipts_sql() -> String {
    format!(
        "SELECT d.seq, d.agent, d.state, d.failures, d.why, CASE WHEN d.state = {ACTED} THEN coalesce(
          (SELECT coalesce({}, t.answer) FROM attempt t
           WHERE t.workflow = d.workflow AND t.agent = d.agent AND t.epoch = d.epoch),
          (SELECT m.seq FROM message m INDEXED BY message_reply
           WHERE m.workflow = d.workflow AND m.reply_to = d.seq AND m.reply_to IS NOT NULL
           AND m.sender = d.agent COLLATE NOCASE ORDER BY m.seq DESC LIMIT 1)) END
        FROM delivery d WHERE d.workflow = ?1 AND d.seq = ?2 ORDER BY d.agent",
        ATTEMPT.check
    )
}

pub(crate) fn receipts(db: &Connection, workflow: WorkflowId, seq: Seq) -> Result<Vec<Receipt>> {
    let receipts = receipts_with_answers(db, workflow, seq)?;
    let seqs: Vec<_> = receipts.iter().filter_map(|(_, answer)| *answer).collect();
    let answers = load_bodies(db, workflow, &seqs)?;
    let with_answer = |(receipt, answer): (Receipt, Option<i64>)| {
        let answer = answer.and_then(|seq| answers.get(&seq).cloned());
        Receipt { answer, ..receipt }
    };
    Ok(receipts.into_iter().map(with_answer).collect())
}

/// Returns the recipients that acted on a message, each with its answer.
pub(crate) fn answers(
    db: &Connection,
    workflow: WorkflowId,
    seq: Seq,
) -> Result<Vec<(AgentName, Seq)>> {
    let receipts = receipts_with_answers(db, workflow, seq)?.into_iter();
    Ok(receipts.filter_map(|(receipt, answer)| Some((receipt.agent, Seq::new(answer?)))).collect())
}

fn receipts_with_answers(
    db: &Connection,
    workflow: WorkflowId,
    seq: Seq,
) -> Result<Vec<(Receipt, Option<i64>)>> {
    require_message(db, workflow, seq)?;
    let mut statement = db.prepare_cached(&receipts_sql())?;
    let receipts = statement.query_map([workflow.get(), seq.get()], |row| {
        Ok((read_receipt(row)?, read_answer_seq(row)?))
    })?;
    Ok(receipts.collect::<db::Result<Vec<_>>>()?)
}

/// Reads the number of the message with the answer.
fn read_answer_seq(row: &Row<'_>) -> db::Result<Option<i64>> {
    match row.get_ref(5)? {
        ValueRef::Text(key) => {
            damage::report_skipped(ATTEMPT.damaged_row(&String::from_utf8_lossy(key)));
            Ok(None)
        }
        _ => row.get(5),
    }
}

/// Returns the texts of the messages with these numbers.
fn load_bodies(
    db: &Connection,
    workflow: WorkflowId,
    seqs: &[i64],
) -> Result<HashMap<i64, String>> {
    if seqs.is_empty() {
        return Ok(HashMap::new());
    }
    let found = by_seq(db, workflow, seqs)?.into_iter();
    Ok(found.map(|message| (message.seq.get(), message.body)).collect())
}

/// Reads seq, agent, state, failures and why. [`receipts`] fills in the answer.
pub(crate) fn read_receipt(row: &Row<'_>) -> db::Result<Receipt> {
    Ok(Receipt {
        seq: columns::seq(row, 0)?,
        agent: columns::parse(row, 1)?,
        state: delivery_states::read(row, 2)?,
        failures: row.get(3)?,
        why: row.get(4)?,
        answer: None,
    })
}
