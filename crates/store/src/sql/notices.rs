//! What the system says because of a proposal or a question, and deliveries nobody needs any more.

use agent_worker_protocol::{AgentName, EventKind, MessageKind, Priority, Sender, Seq};
use serde_json::json;

use super::{
    author::Author, columns, delivery_states::delivery_sql, effects, events::EventEntry,
    locked_instance::LockedInstance,
};
use crate::{
    db::{self, params},
    error::Result,
    model::{HopContext, NewMessage, Recipient, Wake},
    time::Now,
};

/// Something the system says.
pub(crate) struct SystemNotice<'a> {
    pub(crate) body: String,
    pub(crate) reply_to: Option<Seq>,
    /// Whom it wakes, of those who take part.
    pub(crate) recipients: &'a [&'a AgentName],
}

/// Says it. Who has left is told nothing.
pub(crate) fn post_notice(
    locked: &mut LockedInstance<'_>,
    notice: &SystemNotice<'_>,
    hop_context: &HopContext,
    now: Now,
) -> Result<Seq> {
    let mut recipients = Vec::new();
    for agent in notice.recipients {
        if locked.has_agent(agent)? {
            recipients.push(Recipient { agent: (*agent).clone(), wake: Wake::Batched });
        }
    }
    let message = NewMessage {
        kind: MessageKind::System,
        body: notice.body.clone(),
        data: Vec::new(),
        reply_to: notice.reply_to,
        hops: hop_context.hops,
        priority: Priority::Normal,
        resource: None,
        recipients,
    };
    let seq = locked.append_message(&Author::Other(Sender::System), &message, now)?;
    locked.pause_run_if(hop_context.pause.as_ref(), &Sender::System, now)?;
    Ok(seq)
}

/// Drops what waits for anybody but `winner` of a message that nobody else needs any more. It is no failure.
pub(crate) fn drop_unneeded(
    locked: &mut LockedInstance<'_>,
    seq: Seq,
    winner: Option<&AgentName>,
    why: &str,
    now: Now,
) -> Result<()> {
    let mut dropped = locked
        .tx
        .prepare_cached(
            delivery_sql!("UPDATE delivery SET state = " UNNEEDED ", why = ?4
             WHERE workflow = ?1 AND seq = ?2 AND state = " PENDING " AND (CAST(?3 AS TEXT) IS NULL OR agent <> ?3) RETURNING agent"),
        )?
        .query_map(
            params![locked.workflow.get(), seq.get(), winner.map(AgentName::as_str), why],
            |row| columns::parse(row, 0),
        )?
        .collect::<db::Result<Vec<AgentName>>>()?;
    dropped.sort();
    for agent in &dropped {
        let entry = EventEntry::new(EventKind::DeliveryDropped).agent(agent).seq(seq);
        locked.append_event(&entry.cause(why.to_owned()).data(json!({ "seq": seq })), now)?;
        effects::clear_if_settled(locked.tx, locked.workflow, agent)?;
    }
    Ok(())
}
