//! A message in the form that is hashed: written with its hash, and verified against it later.

use std::{borrow::Cow, collections::HashMap};

use agent_worker_protocol::{
    Attachment, Hash, Keyword as _, Millis, ResourceId, Sender, Seq, WorkflowId, hash,
};

use super::{
    columns::{self, RunNo},
    instances,
    transaction::Tx,
};
use crate::{
    db::{self, Connection, Row, params},
    error::{Error, Result},
    model::NewMessage,
};

/// The key of a message, and its run.
pub(crate) struct MessageKey {
    pub(crate) workflow: WorkflowId,
    pub(crate) seq: Seq,
    pub(crate) run: RunNo,
}

/// A message's columns, in the order in which they are hashed.
pub(crate) struct HashedMessage<'a> {
    workflow: i64,
    seq: i64,
    run: i64,
    sender: String,
    kind: Cow<'a, str>,
    body: Cow<'a, str>,
    data: Option<String>,
    reply_to: Option<i64>,
    hops: u32,
    priority: i64,
    resource: Option<Hash>,
    ts: i64,
    attachments: Option<String>,
}

impl<'a> HashedMessage<'a> {
    pub(crate) fn new(
        MessageKey { workflow, seq, run }: MessageKey,
        sender: &Sender,
        new: &'a NewMessage,
        attachments: &[Attachment],
        now: Millis,
    ) -> Result<Self> {
        let data = if new.data.is_empty() {
            None
        } else {
            let ranges: Vec<_> = new.data.iter().map(|range| [range.start, range.end]).collect();
            Some(serde_json::to_string(&ranges)?)
        };
        Ok(Self {
            workflow: workflow.get(),
            seq: seq.get(),
            run: run.0,
            sender: sender.to_string(),
            kind: new.kind.word().into(),
            body: new.body.as_str().into(),
            data,
            reply_to: new.reply_to.map(Seq::get),
            hops: new.hops,
            priority: columns::priority_number(new.priority),
            resource: new.resource.map(ResourceId::get),
            ts: now.get(),
            attachments: match attachments {
                [] => None,
                files => Some(serde_json::to_string(files)?),
            },
        })
    }

    /// Hashes every column; that of the attachments only if there are any. An absent and an empty value share an
    /// encoding only if the column cannot be empty.
    fn hash(&self) -> Hash {
        let reply_to = self.reply_to.map(i64::to_le_bytes);
        let (workflow, ts) = (self.workflow.to_le_bytes(), self.ts.to_le_bytes());
        let (seq, run) = (self.seq.to_le_bytes(), self.run.to_le_bytes());
        let (hops, priority) = (self.hops.to_le_bytes(), self.priority.to_le_bytes());
        let mut parts: Vec<&[u8]> = vec![
            &workflow,
            &seq,
            &run,
            self.sender.as_bytes(),
            self.kind.as_bytes(),
            self.body.as_bytes(),
            self.data.as_deref().unwrap_or_default().as_bytes(),
            reply_to.as_ref().map_or(&[], |bytes| bytes.as_slice()),
            &hops,
            &priority,
            self.resource.as_ref().map_or(&[], |bytes| bytes.as_slice()),
            &ts,
        ];
        parts.extend(self.attachments.as_deref().map(str::as_bytes));
        hash(&parts)
    }

    /// Reads the columns in their order, followed by the hash.
    fn read(row: &Row<'_>, workflow: WorkflowId) -> db::Result<(HashedMessage<'static>, Hash)> {
        let content = HashedMessage {
            workflow: workflow.get(),
            seq: row.get(0)?,
            run: row.get(1)?,
            sender: row.get(2)?,
            kind: Cow::Owned(row.get(3)?),
            body: Cow::Owned(row.get(4)?),
            data: row.get(5)?,
            reply_to: row.get(6)?,
            hops: row.get(7)?,
            priority: row.get(8)?,
            resource: row.get(9)?,
            ts: row.get(10)?,
            attachments: row.get(11)?,
        };
        Ok((content, row.get(12)?))
    }

    pub(crate) fn insert(&self, tx: &Tx<'_>) -> Result<()> {
        tx.prepare_cached(
            "INSERT INTO message (workflow, seq, run, sender, kind, body, data, reply_to, hops, priority, resource, ts, row_hash,
             attachments, checksum)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, CASE WHEN ?14 IS NULL
             THEN row_checksum('message', ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
             ELSE row_checksum('message', ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?14) END)",
        )?
        .execute(params![
            self.workflow,
            self.seq,
            self.run,
            self.sender,
            self.kind,
            self.body,
            self.data,
            self.reply_to,
            self.hops,
            self.priority,
            self.resource,
            self.ts,
            self.hash(),
            self.attachments
        ])?;
        Ok(())
    }
}

/// Recomputes every hash and finds gaps that no forgotten run explains.
pub(crate) fn verify(db: &Connection, workflow: WorkflowId) -> Result<Seq> {
    instances::instance_ref(db, workflow)?;
    let forgotten = forgotten_ranges(db, workflow)?;
    let expected = |mut seq: i64| {
        while let Some(last) = forgotten.get(&seq) {
            seq = last + 1;
        }
        seq
    };
    let mut query = db.prepare_cached(
        "SELECT seq, run, sender, kind, body, data, reply_to, hops, priority, resource, ts, attachments, row_hash
         FROM message WHERE workflow = ?1 ORDER BY seq",
    )?;
    let mut rows = query.query([workflow.get()])?;
    let mut next = expected(1);
    while let Some(row) = rows.next()? {
        // A value that cannot be converted differs from the written one.
        let intact = HashedMessage::read(&row, workflow)
            .is_ok_and(|(content, hash)| content.seq == next && content.hash() == hash);
        if !intact {
            return Err(Error::CorruptMessage(Seq::new(next)));
        }
        next = expected(next + 1);
    }
    let last: i64 = db
        .prepare_cached("SELECT last_seq FROM workflow WHERE id = ?1")?
        .query_row([workflow.get()], |row| row.get(0))?;
    if next == last + 1 { Ok(Seq::new(last)) } else { Err(Error::CorruptMessage(Seq::new(next))) }
}

/// Returns the first and last message of each forgotten run that had messages.
fn forgotten_ranges(db: &Connection, workflow: WorkflowId) -> Result<HashMap<i64, i64>> {
    let sql = "SELECT after_seq + 1, last_seq FROM run
        WHERE workflow = ?1 AND forgotten = 1 AND last_seq > after_seq";
    let runs = db
        .prepare_cached(sql)?
        .query_map([workflow.get()], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<db::Result<_>>()?;
    Ok(runs)
}
