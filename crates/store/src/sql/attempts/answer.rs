//! The answer of an attempt: its facts, its message with the recipients that the rule decides, and its unheard mentions.

use std::collections::BTreeSet;

use agent_worker_protocol::{AgentName, EventBody, MentionUnheardData, MessageKind, Sender, Seq};

use crate::{
    damage,
    db::{self, params},
    error::Result,
    model::{
        AnswerDraft, AnswerFacts, AnswerStep, NewMessage, Recipient, UnheardAgent, Wake,
        WakingMessage,
    },
    sql::{
        author::{Author, FencedAttempt},
        checksum::ATTEMPT,
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

/// Lists the attempts from the first one that was shown a message of the live attempt, oldest first: the last message
/// of the channel at their lease, and true for those that were shown one of the messages, as in the journal
/// (`effects::journal`). An attempt that an earlier version leased counts from its oldest delivery.
pub(crate) fn attempts_sql() -> String {
    format!(
        "WITH mine (seq) AS (
          SELECT json_extract(shown.value, '$[0]') FROM attempt t CROSS JOIN json_each(t.shown) AS shown
          WHERE t.workflow = ?1 AND t.agent = ?2 AND t.epoch = ?3)
        SELECT coalesce(t.after_seq, t.oldest), EXISTS (
          SELECT 1 FROM json_each(t.shown) AS theirs WHERE json_extract(theirs.value, '$[0]') IN mine), {}
        FROM attempt t WHERE t.workflow = ?1 AND t.agent = ?2 AND t.epoch <= ?3 AND t.epoch >= coalesce((
          SELECT min(d.first_epoch) FROM mine CROSS JOIN delivery d
          ON d.workflow = ?1 AND d.seq = mine.seq AND d.agent = ?2), ?3)
        ORDER BY t.epoch",
        ATTEMPT.check
    )
}

/// Finds the agents that a sender's messages in a range wake.
pub(crate) const MESSAGED_SQL: &str = "SELECT DISTINCT d.agent FROM message m
    CROSS JOIN delivery d ON d.workflow = m.workflow AND d.seq = m.seq
    WHERE m.workflow = ?1 AND m.seq > ?2 AND m.seq <= ?3 AND m.sender = ?4 COLLATE NOCASE AND d.wakes = 1";

/// Returns the agents that messages of these attempts wake: the live one, and the earlier ones that were shown one of
/// its messages. An agent has one attempt at a time, so its messages between two leases are those of the first one.
fn messaged_agents(locked: &LockedInstance<'_>, live: &FencedAttempt) -> Result<Vec<AgentName>> {
    let values = params![locked.workflow.get(), live.agent.as_str(), live.epoch.get()];
    let mut statement = locked.tx.prepare_cached(&attempts_sql())?;
    let attempts = statement.query_map(values, |row| {
        ATTEMPT.verify(row, 2)?;
        Ok((row.get::<i64>(0)?, row.get::<bool>(1)?))
    })?;
    let attempts = damage::collect_intact(attempts)?;
    let ends = attempts.iter().skip(1).map(|(next, _)| *next).chain([i64::MAX]);
    let mut agents = BTreeSet::new();
    for ((after, is_related), last) in attempts.iter().zip(ends) {
        if !is_related {
            continue;
        }
        let values = params![locked.workflow.get(), *after, last, live.agent.as_str()];
        let mut statement = locked.tx.prepare_cached(MESSAGED_SQL)?;
        for agent in statement.query_map(values, |row| columns::parse(row, 0))? {
            agents.insert(agent?);
        }
    }
    Ok(agents.into_iter().collect())
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
