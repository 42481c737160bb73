//! The end of an attempt: fence, ack or count, answer, dead letters and their notes, in one transaction.

use agent_worker_protocol::{
    AttemptDeliveries, AttemptEnd, AttemptEndedData, DeliveryData, DeliveryState, EventBody,
    Keyword as _, MessageKind, Priority, Sender, Seq,
};

use crate::{
    db::{self, params},
    error::Result,
    model::{
        Blame, DeliveryFailureCounts, DeliveryVerdict, Fence, FinishedAttempt, LeasedDelivery,
        NewMessage, SessionAfterFailure, Settlement,
    },
    sql::{
        attempts::{self, answer},
        author::{Author, FencedAttempt},
        columns,
        delivery_states::{self, delivery_sql},
        effects,
        events::EventEntry,
        last_failures,
        locked_instance::{LiveRun, LockedInstance},
        run_results, spend,
        transaction::Tx,
    },
    time::Now,
};

pub(crate) fn finish_attempt(
    tx: &Tx<'_>,
    fence: &Fence,
    settlement: &Settlement,
    now: Now,
) -> Result<FinishedAttempt> {
    let mut locked = LockedInstance::lock(tx, fence.workflow)?;
    let live = FencedAttempt::check_fence(tx, fence)?;
    let mut finished = settle_deliveries(&locked, &live, settlement)?;
    if let (AttemptEnd::Ok, Some(draft)) = (&settlement.end, &settlement.answer) {
        let seq = answer::append_answer(&mut locked, &live, draft, &finished.acted, now)?;
        run_results::record_answer(&locked, &live.agent, seq)?;
        finished.answer = Some(seq);
    }
    notify_dead_letters(&mut locked, &live, settlement, &finished.dead, now)?;
    close_attempt(&mut locked, &live, settlement, finished.answer, now)?;
    if settlement.end == AttemptEnd::Ok {
        effects::clear_if_settled(tx, fence.workflow, &live.agent)?;
    }
    let body = EventBody::AttemptEnded(end_event_data(&settlement.end, &finished));
    let entry = EventEntry::new(body)
        .agent(&live.agent)
        .attempt(live.id)
        .cause(settlement.end.to_string())
        .next(settlement.not_before.as_ref().map(|until| now.wall_at(until.at)));
    locked.append_event(&entry, now)?;
    locked.save()?;
    Ok(finished)
}

/// The end of an attempt and the new states of its deliveries.
fn end_event_data(end: &AttemptEnd, finished: &FinishedAttempt) -> AttemptEndedData {
    let deliveries = AttemptDeliveries {
        acted: finished.acted.clone(),
        pending: finished.pending.clone(),
        dead: finished.dead.clone(),
        answer: finished.answer,
    };
    AttemptEndedData { end: end.clone(), deliveries: Some(deliveries) }
}

/// Applies the delivery rule to every delivery of the attempt.
fn settle_deliveries(
    locked: &LockedInstance<'_>,
    live: &FencedAttempt,
    settlement: &Settlement,
) -> Result<FinishedAttempt> {
    let mut finished =
        FinishedAttempt { acted: Vec::new(), pending: Vec::new(), dead: Vec::new(), answer: None };
    let why = settlement.end.to_string();
    for delivery in leased_deliveries(locked, live)? {
        let verdict = (settlement.delivery_rule)(&delivery, &settlement.end, settlement.blame);
        apply_verdict(locked, live, &delivery, verdict, &why)?;
        match verdict {
            DeliveryVerdict::Acted => finished.acted.push(delivery.seq),
            DeliveryVerdict::Pending(_) => finished.pending.push(delivery.seq),
            DeliveryVerdict::Dead(_) => finished.dead.push(delivery.seq),
        }
    }
    Ok(finished)
}

pub(crate) const LEASED_DELIVERIES_SQL: &str = delivery_sql!("SELECT seq, joined, failures, uncounted, alone FROM delivery INDEXED BY delivery_open
    WHERE workflow = ?1 AND state = " LEASED " AND state <= " LAST_OPEN " AND agent = ?2 ORDER BY seq");

/// Lists the deliveries of this attempt: all leased ones of its agent, which has one attempt at a time.
fn leased_deliveries(
    locked: &LockedInstance<'_>,
    live: &FencedAttempt,
) -> Result<Vec<LeasedDelivery>> {
    let deliveries = locked
        .tx
        .prepare_cached(LEASED_DELIVERIES_SQL)?
        .query_map(params![locked.workflow.get(), live.agent.as_str()], |row| {
            Ok(LeasedDelivery {
                seq: columns::seq(row, 0)?,
                joined: row.get(1)?,
                counts: DeliveryFailureCounts {
                    failures: row.get(2)?,
                    uncounted: row.get(3)?,
                    alone: row.get(4)?,
                },
            })
        })?
        .collect::<db::Result<_>>()?;
    Ok(deliveries)
}

/// Writes the next state of a delivery; a pending one belongs to no attempt.
fn apply_verdict(
    locked: &LockedInstance<'_>,
    live: &FencedAttempt,
    delivery: &LeasedDelivery,
    verdict: DeliveryVerdict,
    why: &str,
) -> Result<()> {
    let (state, counts, why) = match verdict {
        DeliveryVerdict::Acted => (DeliveryState::Acted, delivery.counts, None),
        DeliveryVerdict::Pending(counts) => (DeliveryState::Pending, counts, None),
        DeliveryVerdict::Dead(counts) => (DeliveryState::Dead, counts, Some(why)),
    };
    let sql = delivery_sql!("UPDATE delivery SET state = ?4, failures = ?5, uncounted = ?6, alone = ?7, why = ?8, joined = 0,
        epoch = CASE WHEN CAST(?4 AS BIGINT) = " PENDING " THEN NULL ELSE epoch END WHERE workflow = ?1 AND seq = ?2 AND agent = ?3");
    locked.tx.prepare_cached(sql)?.execute(params![
        locked.workflow.get(),
        delivery.seq.get(),
        live.agent.as_str(),
        delivery_states::code(state),
        counts.failures,
        counts.uncounted,
        counts.alone,
        why
    ])?;
    Ok(())
}

/// Appends an event and a message in the channel for each dead letter.
fn notify_dead_letters(
    locked: &mut LockedInstance<'_>,
    live: &FencedAttempt,
    settlement: &Settlement,
    dead: &[Seq],
    now: Now,
) -> Result<()> {
    let why = settlement.end.to_string();
    for seq in dead {
        let entry = EventEntry::new(EventBody::DeliveryDead(DeliveryData { seq: *seq }));
        let entry = entry.agent(&live.agent).attempt(live.id).cause(why.clone());
        locked.append_event(&entry, now)?;
        let note = NewMessage {
            kind: MessageKind::System,
            body: (settlement.dead_letter_text)(&live.agent, *seq, &why),
            data: Vec::new(),
            reply_to: None,
            hops: 0,
            priority: Priority::Normal,
            resource: None,
            recipients: Vec::new(),
            attachments: Vec::new(),
        };
        locked.append_message(&Author::Other(Sender::System), &note, now)?;
    }
    Ok(())
}

/// Ends the attempt's row and frees its agent.
fn close_attempt(
    locked: &mut LockedInstance<'_>,
    live: &FencedAttempt,
    settlement: &Settlement,
    answer: Option<Seq>,
    now: Now,
) -> Result<()> {
    let turn = match settlement.end {
        AttemptEnd::Ok | AttemptEnd::Failed { .. } => 1,
        AttemptEnd::Interrupted { .. } | AttemptEnd::Stopped => 0,
    };
    attempts::update_attempt(locked.tx, live.id, || {
        locked.tx
            .prepare_cached(
                "UPDATE attempt SET ended = ?2, how = ?3, answer = ?4, turn = ?5, store_ended = ?6 WHERE id = ?1",
            )?
            .execute(params![
                live.id.get().as_bytes(),
                now.wall.get(),
                serde_json::to_string(&settlement.end)?,
                answer.map(Seq::get),
                turn,
                now.store.get()
            ])?;
        Ok(())
    })?;
    let LiveRun { number: run, id, .. } = *locked.live_run()?;
    spend::settle_end(locked, (live.id, id), &live.agent, now)?;
    last_failures::record_end(locked, run, live, &settlement.end)?;
    locked
        .tx
        .prepare_cached("UPDATE run SET turns = turns + ?3 WHERE workflow = ?1 AND id = ?2")?
        .execute(params![locked.workflow.get(), run.0, turn])?;
    let until = settlement.not_before.as_ref();
    let is_over = matches!(settlement.blame, Blame::Counted { .. })
        && settlement.session == SessionAfterFailure::Dropped;
    locked.tx
        .prepare_cached(
            "UPDATE agent SET live = NULL, live_since = NULL, turns = turns + ?3, not_before = ?4, wait = ?5, why = ?6,
             since = CASE WHEN stopped IS NULL AND CAST(?7 AS TEXT) IS NOT NULL THEN ?8 ELSE since END,
             store_since = CASE WHEN stopped IS NULL AND CAST(?7 AS TEXT) IS NOT NULL THEN ?10 ELSE store_since END,
             stopped = coalesce(?7, stopped), session = CASE WHEN CAST(?9 AS BIGINT) = 1 THEN NULL ELSE session END
             WHERE workflow = ?1 AND name = ?2",
        )?
        .execute(params![
            locked.workflow.get(),
            live.agent.as_str(),
            turn,
            until.map(|until| until.at.get()),
            until.map(|until| until.wait.word()),
            until.map(|until| until.why.as_str()),
            settlement.stop,
            now.wall.get(),
            is_over,
            now.store.get()
        ])?;
    if let Some(why) = &settlement.stop {
        let entry = EventEntry::new(EventBody::AgentStopped).agent(&live.agent).attempt(live.id);
        locked.append_event(&entry.cause(why.clone()), now)?;
    }
    Ok(())
}
