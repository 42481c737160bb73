//! What the system says because of a proposal or a question, and deliveries nobody needs any more.

use agent_worker_protocol::{AgentName, EventKind, MessageKind, Priority, Sender, Seq};
use rusqlite::params;
use serde_json::json;

use super::{author::Author, columns, effects, events::Entry, head::Head};
use crate::{
    error::Result,
    model::{NewMessage, Recipient, Said, Wake},
    time::Now,
};

/// Something the system says.
pub(super) struct Notice<'a> {
    pub(super) body: String,
    pub(super) reply_to: Option<Seq>,
    /// Whom it wakes, of those who take part.
    pub(super) wakes: &'a [&'a AgentName],
}

/// Says it. Who has left is told nothing.
pub(super) fn say(head: &mut Head<'_>, notice: &Notice<'_>, said: &Said, now: Now) -> Result<Seq> {
    let mut recipients = Vec::new();
    for agent in notice.wakes {
        if head.takes_part(agent)? {
            recipients.push(Recipient { agent: (*agent).clone(), wake: Wake::Batched });
        }
    }
    let message = NewMessage {
        kind: MessageKind::System,
        body: notice.body.clone(),
        data: Vec::new(),
        reply_to: notice.reply_to,
        hops: said.hops,
        priority: Priority::Normal,
        resource: None,
        recipients,
    };
    let seq = head.message(&Author::Other(Sender::System), &message, now)?;
    head.pause_if(said.pause.as_ref(), &Sender::System, now)?;
    Ok(seq)
}

/// Drops what waits for anybody but `winner` of a message that nobody else needs any more. It is no failure.
pub(super) fn spare(
    head: &mut Head<'_>,
    seq: Seq,
    winner: Option<&AgentName>,
    why: &str,
    now: Now,
) -> Result<()> {
    let mut dropped = head
        .tx
        .prepare_cached(
            "UPDATE delivery SET state = 5, why = ?4
             WHERE workflow = ?1 AND seq = ?2 AND state = 0 AND (?3 IS NULL OR agent <> ?3) RETURNING agent",
        )?
        .query_map(
            params![head.workflow.get(), seq.get(), winner.map(AgentName::as_str), why],
            |row| columns::parsed(row, 0),
        )?
        .collect::<rusqlite::Result<Vec<AgentName>>>()?;
    dropped.sort();
    for agent in &dropped {
        let entry = Entry::of(EventKind::DeliveryDropped).agent(agent).seq(seq);
        head.event(&entry.cause(why.to_owned()).data(json!({ "seq": seq })), now)?;
        effects::clear_unless_open(head.tx, head.workflow, agent)?;
    }
    Ok(())
}
