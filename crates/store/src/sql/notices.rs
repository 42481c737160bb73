//! System messages about proposals and questions, and the removal of deliveries that no agent needs any more.

use agent_worker_protocol::{
    AgentName, DeliveryData, EventBody, MessageKind, Priority, Sender, Seq,
};

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

/// A message of the system.
pub(crate) struct SystemNotice<'a> {
    pub(crate) body: String,
    pub(crate) reply_to: Option<Seq>,
    /// Agents to wake, as far as they take part.
    pub(crate) recipients: &'a [AgentName],
}

/// Posts the message. Agents that have left are no recipients.
pub(crate) fn post_notice(
    locked: &mut LockedInstance<'_>,
    notice: &SystemNotice<'_>,
    hop_context: &HopContext,
    now: Now,
) -> Result<Seq> {
    let mut recipients = Vec::new();
    for agent in notice.recipients {
        if locked.has_agent(agent)? {
            recipients.push(Recipient { agent: agent.clone(), wake: Wake::Batched });
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
        attachments: Vec::new(),
    };
    let seq = locked.append_message(&Author::Other(Sender::System), &message, now)?;
    locked.pause_run_if(hop_context.pause.as_ref(), &Sender::System, now)?;
    Ok(seq)
}

/// The recipients whose pending deliveries of a message are dropped.
#[derive(Clone, Copy)]
pub(crate) enum UnneededBy<'a> {
    All,
    AllExcept(&'a AgentName),
    Only(&'a AgentName),
}

/// Drops pending deliveries of a message once their recipients do not need it. This is no failure.
pub(crate) fn drop_unneeded(
    locked: &mut LockedInstance<'_>,
    seq: Seq,
    recipients: UnneededBy<'_>,
    why: &str,
    now: Now,
) -> Result<()> {
    let (kept, only) = match recipients {
        UnneededBy::All => (None, None),
        UnneededBy::AllExcept(kept) => (Some(kept.as_str()), None),
        UnneededBy::Only(only) => (None, Some(only.as_str())),
    };
    let mut dropped = locked
        .tx
        .prepare_cached(
            delivery_sql!("UPDATE delivery SET state = " UNNEEDED ", why = ?4
             WHERE workflow = ?1 AND seq = ?2 AND state = " PENDING " AND (CAST(?3 AS TEXT) IS NULL OR agent <> ?3)
             AND (CAST(?5 AS TEXT) IS NULL OR agent = ?5) RETURNING agent"),
        )?
        .query_map(
            params![locked.workflow.get(), seq.get(), kept, why, only],
            |row| columns::parse(row, 0),
        )?
        .collect::<db::Result<Vec<AgentName>>>()?;
    dropped.sort();
    for agent in &dropped {
        let body = EventBody::DeliveryDropped(DeliveryData { seq });
        let entry = EventEntry::new(body).agent(agent).cause(why.to_owned());
        locked.append_event(&entry, now)?;
        effects::clear_if_settled(locked.tx, locked.workflow, agent)?;
    }
    Ok(())
}
