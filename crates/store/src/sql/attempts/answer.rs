//! The answer of an attempt: its facts, its message with the recipients that the rule decides, and its unheard mentions.

use agent_worker_protocol::{AgentName, EventBody, MentionUnheardData, MessageKind, Sender, Seq};

use crate::{
    db::{self, params},
    error::Result,
    model::{
        AnswerDraft, AnswerFacts, AnswerStep, NewMessage, Recipient, UnheardAgent, Wake,
        WakingMessage,
    },
    sql::{
        author::{Author, FencedAttempt},
        columns,
        events::EventEntry,
        locked_instance::LockedInstance,
        messages,
    },
    time::Now,
};

/// Appends the answer of an attempt that acted on the deliveries `acted`, oldest first; it replies to the oldest. The
/// other links follow from the attempt and its deliveries (`messages::fill_relations`).
pub(crate) fn append_answer(
    locked: &mut LockedInstance<'_>,
    live: &FencedAttempt,
    draft: &AnswerDraft,
    acted: &[Seq],
    now: Now,
) -> Result<Seq> {
    let AnswerStep { recipients, unheard, priority, pause } = match &draft.rule {
        Some(rule) => rule(&load_facts(locked, live, acted)?),
        None => AnswerStep::default(),
    };
    let recipients = recipients.into_iter().map(|agent| Recipient { agent, wake: Wake::Batched });
    let message = NewMessage {
        kind: MessageKind::Answer,
        reply_to: acted.first().copied(),
        recipients: recipients.collect(),
        priority: draft.message.priority.max(priority),
        ..draft.message.clone()
    };
    let seq = locked.append_message(&Author::Attempt(live.clone()), &message, now)?;
    for UnheardAgent { agent, cause } in unheard {
        let body = EventBody::MentionUnheard(MentionUnheardData { seq, agent });
        let entry = EventEntry::new(body).agent(&live.agent).attempt(live.id).cause(cause);
        locked.append_event(&entry, now)?;
    }
    locked.pause_run_if(pause.as_ref(), &Sender::Agent(live.agent.clone()), now)?;
    Ok(seq)
}

fn load_facts(
    locked: &LockedInstance<'_>,
    live: &FencedAttempt,
    acted: &[Seq],
) -> Result<AnswerFacts> {
    Ok(AnswerFacts {
        team: team(locked)?,
        messaged: messaged_agents(locked, live)?,
        woken_by: waking_messages(locked, live, acted)?,
    })
}

/// Lists the agents of the live run, in the order of the file.
fn team(locked: &LockedInstance<'_>) -> Result<Vec<AgentName>> {
    let run = locked.live_run()?.number;
    let names = locked
        .tx
        .prepare_cached("SELECT name FROM agent WHERE workflow = ?1 AND run = ?2 ORDER BY place")?
        .query_map([locked.workflow.get(), run.0], |row| columns::parse(row, 0))?
        .collect::<db::Result<_>>()?;
    Ok(names)
}

/// Finds the waking deliveries of the messages that an activation's attempts wrote. An agent has one attempt at a time,
/// so its messages between two leases are those of the first one. An attempt that an earlier version leased counts from
/// its oldest delivery.
pub(crate) const MESSAGED_SQL: &str = "SELECT DISTINCT d.agent FROM attempt t
    CROSS JOIN message m ON m.workflow = t.workflow AND m.seq > coalesce(t.after_seq, t.oldest)
      AND m.seq <= coalesce((SELECT n.after_seq FROM attempt n
        WHERE n.workflow = t.workflow AND n.agent = t.agent AND n.epoch = t.epoch + 1), 9223372036854775807)
    CROSS JOIN delivery d ON d.workflow = m.workflow AND d.seq = m.seq
    WHERE t.workflow = ?1 AND t.agent = ?2 AND t.oldest = ?3 AND t.epoch <= ?4 AND t.epoch >= coalesce(
      (SELECT first_epoch FROM delivery WHERE workflow = ?1 AND seq = ?3 AND agent = ?2), ?4)
    AND m.sender = t.agent AND d.wakes = 1";

fn messaged_agents(locked: &LockedInstance<'_>, live: &FencedAttempt) -> Result<Vec<AgentName>> {
    let values =
        params![locked.workflow.get(), live.agent.as_str(), live.oldest.get(), live.epoch.get()];
    let agents = locked
        .tx
        .prepare_cached(MESSAGED_SQL)?
        .query_map(values, |row| columns::parse(row, 0))?
        .collect::<db::Result<_>>()?;
    Ok(agents)
}

/// Reads the messages among `acted` that wake the agent. Mail that joined the turn counts: a moment later it would have
/// started a turn.
fn waking_messages(
    locked: &LockedInstance<'_>,
    live: &FencedAttempt,
    acted: &[Seq],
) -> Result<Vec<WakingMessage>> {
    let sql = "SELECT seq FROM delivery WHERE workflow = ?1 AND agent = ?2 AND wakes = 1
        AND seq IN (SELECT CAST(value AS BIGINT) FROM json_each(?3))";
    let values = params![locked.workflow.get(), live.agent.as_str(), serde_json::to_string(acted)?];
    let waking = locked
        .tx
        .prepare_cached(sql)?
        .query_map(values, |row| row.get(0))?
        .collect::<db::Result<Vec<i64>>>()?;
    let messages = messages::by_seq(locked.tx, locked.workflow, &waking)?.into_iter();
    Ok(messages.map(|message| WakingMessage { from: message.from, kind: message.kind }).collect())
}
