//! Ending an attempt: fence, ack or count, answer, dead letters and their notes, in one step.

use agent_worker_protocol::{
    AttemptEnd, DeliveryState, EventKind, MessageKind, Priority, Sender, Seq,
};
use serde_json::{Value, json};

use crate::{
    db::{self, params},
    error::Result,
    model::{Blame, Fence, FinishedAttempt, NewMessage, Settlement},
    sql::{
        attempts,
        author::{Author, FencedAttempt},
        columns,
        delivery_states::{self, delivery_sql},
        effects,
        events::EventEntry,
        locked_instance::LockedInstance,
        transaction::Tx,
    },
    time::Now,
};

/// A delivery the attempt has.
#[derive(Clone, Copy, Debug)]
struct LeasedDelivery {
    seq: Seq,
    /// It came during the turn.
    joined: bool,
    counts: DeliveryFailureCounts,
}

/// What went before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DeliveryFailureCounts {
    failures: u32,
    uncounted: u32,
    /// Tried by itself.
    alone: bool,
}

/// What becomes of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeliveryVerdict {
    Acted,
    Pending(DeliveryFailureCounts),
    Dead(DeliveryFailureCounts),
}

pub(crate) fn finish_attempt(
    tx: &Tx<'_>,
    fence: &Fence,
    settlement: &Settlement,
    now: Now,
) -> Result<FinishedAttempt> {
    let mut locked = LockedInstance::lock(tx, fence.workflow)?;
    let live = FencedAttempt::check_fence(tx, fence)?;
    let mut finished = settle_deliveries(&locked, &live, settlement)?;
    if let (AttemptEnd::Ok, Some(answer)) = (&settlement.end, &settlement.answer) {
        let answer =
            NewMessage { kind: MessageKind::Answer, recipients: Vec::new(), ..answer.clone() };
        let seq = locked.append_message(&Author::Attempt(live.clone()), &answer, now)?;
        finished.answer = Some(seq);
    }
    notify_dead_letters(&mut locked, &live, settlement, &finished.dead, now)?;
    close_attempt(&mut locked, &live, settlement, finished.answer, now)?;
    if settlement.end == AttemptEnd::Ok {
        effects::clear_if_settled(tx, fence.workflow, &live.agent)?;
    }
    let entry = EventEntry::new(EventKind::AttemptEnded).agent(&live.agent).attempt(live.id);
    let entry = entry
        .cause(settlement.end.to_string())
        .next(settlement.not_before.as_ref().map(|until| now.wall_at(until.at)))
        .data(end_event_data(&settlement.end, &finished)?);
    locked.append_event(&entry, now)?;
    locked.save()?;
    Ok(finished)
}

/// The end's own fields, and what became of its deliveries.
fn end_event_data(end: &AttemptEnd, finished: &FinishedAttempt) -> Result<Value> {
    let mut data = serde_json::to_value(end)?;
    data["acted"] = serde_json::to_value(&finished.acted)?;
    data["pending"] = serde_json::to_value(&finished.pending)?;
    data["dead"] = serde_json::to_value(&finished.dead)?;
    if let Some(answer) = finished.answer {
        data["answer"] = serde_json::to_value(answer)?;
    }
    Ok(data)
}

/// Moves every delivery the attempt has to where it belongs.
fn settle_deliveries(
    locked: &LockedInstance<'_>,
    live: &FencedAttempt,
    settlement: &Settlement,
) -> Result<FinishedAttempt> {
    let mut finished =
        FinishedAttempt { acted: Vec::new(), pending: Vec::new(), dead: Vec::new(), answer: None };
    let why = settlement.end.to_string();
    for delivery in leased_deliveries(locked, live)? {
        let verdict = delivery_verdict(&delivery, &settlement.end, settlement.blame);
        apply_verdict(locked, live, &delivery, verdict, &why)?;
        match verdict {
            DeliveryVerdict::Acted => finished.acted.push(delivery.seq),
            DeliveryVerdict::Pending(_) => finished.pending.push(delivery.seq),
            DeliveryVerdict::Dead(_) => finished.dead.push(delivery.seq),
        }
    }
    Ok(finished)
}

/// Mail that joined during the turn is not what the attempt was woken for: a failure says nothing about it.
fn delivery_verdict(held: &LeasedDelivery, end: &AttemptEnd, blame: Blame) -> DeliveryVerdict {
    if *end == AttemptEnd::Ok {
        return DeliveryVerdict::Acted;
    }
    let before = held.counts;
    let judged = |counts, count, most| {
        if count >= most { DeliveryVerdict::Dead(counts) } else { DeliveryVerdict::Pending(counts) }
    };
    match blame {
        Blame::None => DeliveryVerdict::Pending(before),
        Blame::Uncounted { .. } | Blame::Counted { .. } if held.joined => {
            DeliveryVerdict::Pending(before)
        }
        Blame::Uncounted { max: most } => {
            let uncounted = before.uncounted + 1;
            judged(DeliveryFailureCounts { uncounted, ..before }, uncounted, most)
        }
        Blame::Counted { max: most } => {
            let failures = before.failures + 1;
            judged(DeliveryFailureCounts { failures, uncounted: 0, alone: true }, failures, most)
        }
    }
}

pub(crate) const LEASED_DELIVERIES_SQL: &str = delivery_sql!("SELECT seq, joined, failures, uncounted, alone FROM delivery INDEXED BY delivery_open
    WHERE workflow = ?1 AND state = " LEASED " AND state <= " LAST_OPEN " AND agent = ?2 ORDER BY seq");

/// What is leased is this attempt's: an agent has one at a time.
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

/// Moves a delivery on; what is given back belongs to no attempt.
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

/// A dead letter is an event, and said in the channel to whoever reads it.
fn notify_dead_letters(
    locked: &mut LockedInstance<'_>,
    live: &FencedAttempt,
    settlement: &Settlement,
    dead: &[Seq],
    now: Now,
) -> Result<()> {
    let why = settlement.end.to_string();
    for seq in dead {
        let entry = EventEntry::new(EventKind::DeliveryDead).agent(&live.agent).attempt(live.id);
        let entry = entry.seq(*seq).cause(why.clone()).data(json!({ "seq": seq }));
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
    let run = locked.live_run()?.number;
    locked
        .tx
        .prepare_cached("UPDATE run SET turns = turns + ?3 WHERE workflow = ?1 AND id = ?2")?
        .execute(params![locked.workflow.get(), run.0, turn])?;
    let until = settlement.not_before.as_ref();
    // What failed in a conversation is not tried again in the same one.
    let is_over = matches!(settlement.blame, Blame::Counted { .. });
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
            until.map(|until| columns::wait_word(until.wait)),
            until.map(|until| until.why.as_str()),
            settlement.stop,
            now.wall.get(),
            is_over,
            now.store.get()
        ])?;
    if let Some(why) = &settlement.stop {
        let entry = EventEntry::new(EventKind::AgentStopped).agent(&live.agent).attempt(live.id);
        locked.append_event(&entry.cause(why.clone()), now)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::FailureClass;

    use super::*;

    #[test]
    fn what_becomes_of_a_delivery_follows_from_how_its_attempt_ended() {
        let failed = AttemptEnd::Failed { class: FailureClass::Crash, why: "gone".into() };
        let cut = AttemptEnd::Interrupted { why: "drain".into() };
        let counted = Blame::Counted { max: 3 };
        let uncounted = Blame::Uncounted { max: 10 };
        let own = |failures, uncounted| LeasedDelivery {
            seq: Seq::new(1),
            joined: false,
            counts: DeliveryFailureCounts { failures, uncounted, alone: false },
        };
        let joined = LeasedDelivery { joined: true, ..own(2, 9) };
        let pending = |failures, uncounted, alone| {
            DeliveryVerdict::Pending(DeliveryFailureCounts { failures, uncounted, alone })
        };
        let dead = |failures, uncounted, alone| {
            DeliveryVerdict::Dead(DeliveryFailureCounts { failures, uncounted, alone })
        };
        for (held, end, blame, expected) in [
            (own(0, 0), &AttemptEnd::Ok, counted, DeliveryVerdict::Acted),
            (joined, &AttemptEnd::Ok, Blame::None, DeliveryVerdict::Acted),
            (own(0, 4), &failed, counted, pending(1, 0, true)),
            (own(2, 4), &failed, counted, dead(3, 0, true)),
            (own(1, 8), &failed, uncounted, pending(1, 9, false)),
            (own(1, 9), &cut, uncounted, dead(1, 10, false)),
            (own(2, 9), &cut, Blame::None, pending(2, 9, false)),
            (joined, &failed, counted, pending(2, 9, false)),
            (joined, &cut, uncounted, pending(2, 9, false)),
        ] {
            assert_eq!(delivery_verdict(&held, end, blame), expected, "{held:?} {end} {blame:?}");
        }
    }
}
