//! The start of an attempt: the permission, its messages, and the guarantee that it is the only one.

use agent_worker_protocol::{
    AgentName, AttemptStartingData, Epoch, EventBody, InstanceRef, Sender, Seq, WorkflowId,
};
use serde_json::Value;

use crate::{
    db::{OptionalExtension, params},
    error::Result,
    model::{
        Fence, JournalEntry, Lease, LeaseFacts, LeaseOutcome, LeaseRule, LeaseStep, LimitScope,
        ListRange, NewAttempt, ShownMessage, SpendFacts,
    },
    sql::{
        columns,
        delivery_states::delivery_sql,
        effects,
        events::EventEntry,
        inbox::{self, PendingFilter},
        limit_use,
        locked_instance::{LiveRun, LockedInstance},
        members, messages, spend,
        transaction::Tx,
    },
    time::Now,
};

/// An agent that can be leased.
struct LeasableAgent {
    fence: Fence,
    settings: String,
    session: Option<Value>,
    facts: LeaseFacts,
}

/// A delivery that starts a turn.
struct WakingDelivery {
    seq: Seq,
    alone: bool,
}

pub(crate) fn lease_attempt(
    tx: &Tx<'_>,
    workflow: WorkflowId,
    agent: &AgentName,
    new: &NewAttempt,
    rule: LeaseRule,
    now: Now,
) -> Result<LeaseOutcome> {
    let mut locked = LockedInstance::lock(tx, workflow)?;
    let running = |live: &&LiveRun| live.state.wakes_agents();
    let Some(live) = locked.live_run_if_any().filter(running).cloned() else {
        return Ok(LeaseOutcome::NotReady);
    };
    let Some(free) = find_leasable_agent(&locked, &live, agent, now)? else {
        return Ok(LeaseOutcome::NotReady);
    };
    let Some(oldest) = oldest_waking_delivery(&locked, agent)? else {
        return Ok(LeaseOutcome::NotReady);
    };
    match (rule.may_start)(&free.facts) {
        LeaseStep::Start => {}
        LeaseStep::Pause(cause) => {
            locked.pause_run(cause.clone(), &Sender::System, now)?;
            locked.save()?;
            return Ok(LeaseOutcome::Paused(cause));
        }
        LeaseStep::Stop(why) => {
            members::mark_stopped(&mut locked, &free.fence.agent, &why, &Sender::System, now)?;
            locked.save()?;
            return Ok(LeaseOutcome::Stopped(why));
        }
    }
    let mut messages = activation_messages(&locked, agent, &oldest, rule)?;
    messages::fill_relations(tx, workflow, messages.iter_mut().map(|shown| &mut shown.message))?;
    let taken = lease_deliveries(&locked, &free.fence, &messages)?;
    let lease = Lease {
        id: new.id,
        fence: free.fence,
        run: live.id,
        oldest: oldest.seq,
        number: taken.failures + 1,
        setbacks: taken.setbacks,
        messages,
        journal: taken.journal,
        settings: free.settings,
        session: free.session,
    };
    insert_attempt(&mut locked, &live, &lease, new, now)?;
    locked.save()?;
    Ok(LeaseOutcome::Attempt(Box::new(lease)))
}

/// Returns the agent, if it takes part, has no attempt, is not stopped and is due.
fn find_leasable_agent(
    locked: &LockedInstance<'_>,
    live: &LiveRun,
    agent: &AgentName,
    now: Now,
) -> Result<Option<LeasableAgent>> {
    let sql = "SELECT a.name, a.epoch + 1, a.settings, r.mode, r.turns, r.limits,
        (SELECT count(*) FROM agent WHERE workflow = ?1 AND live IS NOT NULL), w.name, w.tag, a.store_since, a.session
        FROM agent a JOIN run r ON r.workflow = a.workflow AND r.id = a.run JOIN workflow w ON w.id = a.workflow
        WHERE a.workflow = ?1 AND a.name = ?2 AND a.run = ?3 AND a.live IS NULL AND a.stopped IS NULL
        AND coalesce(a.not_before, ?4) <= ?4";
    let values = params![locked.workflow.get(), agent.as_str(), live.number.0, now.store.get()];
    let mut since = now.store;
    let mut free = locked
        .tx
        .prepare_cached(sql)?
        .query_row(values, |row| {
            let instance =
                InstanceRef { name: columns::parse(row, 7)?, tag: columns::parse(row, 8)? };
            let whose =
                if instance.is_global() { LimitScope::Standalone } else { LimitScope::Team };
            since = columns::store_time(row, 9)?;
            Ok(LeasableAgent {
                fence: Fence {
                    workflow: locked.workflow,
                    agent: columns::parse(row, 0)?,
                    epoch: Epoch::new(row.get(1)?),
                },
                settings: row.get(2)?,
                session: columns::optional(row, 10, columns::json)?,
                facts: LeaseFacts {
                    mode: columns::word(row, 3)?,
                    turns: row.get(4)?,
                    turns_today: 0,
                    limits: columns::json(row, 5)?,
                    attempts: row.get(6)?,
                    turn_expires: None,
                    spend: SpendFacts::default(),
                    limit_scope: whose,
                    now,
                },
            })
        })
        .optional()?;
    if let Some(LeasableAgent { fence, facts, .. }) = &mut free {
        facts.spend = spend::load_of_agent(locked.tx, live.id, &fence.agent, now)?;
        match facts.limit_scope {
            LimitScope::Team => {
                let key = (locked.workflow, live.number);
                facts.turns_today = limit_use::turns_today(locked.tx, key, &facts.limits, now)?;
                let taken = (facts.turns_today, facts.attempts);
                facts.turn_expires = limit_use::turn_expires(locked.tx, key, &facts.limits, taken)?;
            }
            LimitScope::Standalone => {
                let agent = &fence.agent;
                facts.turns_today =
                    limit_use::agent_turns_today(locked, live, agent, since, &facts.limits, now)?;
                // A standalone agent that is free has no live attempt; those of other agents do not count.
                facts.attempts = 0;
            }
        }
    }
    Ok(free)
}

pub(crate) const OLDEST_WAKING_SQL: &str = delivery_sql!("SELECT seq, alone FROM delivery INDEXED BY delivery_open
        WHERE workflow = ?1 AND state = " PENDING " AND state <= " LAST_OPEN " AND agent = ?2 AND wakes = 1 AND prio = ?3
        ORDER BY seq LIMIT 1");

/// Returns the oldest pending waking delivery, urgent or not: the activation is named after it, so it is in every
/// attempt.
fn oldest_waking_delivery(
    locked: &LockedInstance<'_>,
    agent: &AgentName,
) -> Result<Option<WakingDelivery>> {
    let mut query = locked.tx.prepare_cached(OLDEST_WAKING_SQL)?;
    let mut oldest: Option<WakingDelivery> = None;
    for prio in [0, 1] {
        let first = query
            .query_row(params![locked.workflow.get(), agent.as_str(), prio], |row| {
                Ok(WakingDelivery { seq: columns::seq(row, 0)?, alone: row.get(1)? })
            })
            .optional()?;
        oldest = oldest.into_iter().chain(first).min_by_key(|waking| waking.seq);
    }
    Ok(oldest)
}

/// Reads the messages that the attempt is shown: only the oldest if it is `alone`, else the batch that `rule`
/// selects.
fn activation_messages(
    locked: &LockedInstance<'_>,
    agent: &AgentName,
    oldest: &WakingDelivery,
    rule: LeaseRule,
) -> Result<Vec<ShownMessage>> {
    let mail =
        |which, range| inbox::pending_messages(locked.tx, locked.workflow, agent, which, range);
    let first = mail(PendingFilter::One(oldest.seq), ListRange::first(1))?;
    if oldest.alone {
        return Ok(first);
    }
    Ok((rule.select_batch)(
        first,
        mail(PendingFilter::NotAlone, ListRange::first(rule.max_messages))?,
    ))
}

/// The maximum of the failures of the deliveries in a lease.
struct DeliveryHistory {
    failures: u32,
    setbacks: u32,
    journal: Vec<JournalEntry>,
}

/// Leases the deliveries. Reads the journal only if one of them was shown to an attempt before.
fn lease_deliveries(
    locked: &LockedInstance<'_>,
    fence: &Fence,
    messages: &[ShownMessage],
) -> Result<DeliveryHistory> {
    let seqs: Vec<_> = messages.iter().map(|shown| shown.message.seq).collect();
    let sql = delivery_sql!("UPDATE delivery SET state = " LEASED ", epoch = ?4, joined = 0, first_epoch = coalesce(first_epoch, ?4)
        WHERE workflow = ?1 AND seq = ?2 AND agent = ?3 RETURNING failures, uncounted, first_epoch");
    let mut lease = locked.tx.prepare_cached(sql)?;
    let mut taken = DeliveryHistory { failures: 0, setbacks: 0, journal: Vec::new() };
    let mut shown_before = false;
    for seq in &seqs {
        let key = params![fence.workflow.get(), seq.get(), fence.agent.as_str(), fence.epoch.get()];
        let (failures, setbacks, first): (_, _, i64) =
            lease.query_row(key, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        taken.failures = taken.failures.max(failures);
        taken.setbacks = taken.setbacks.max(setbacks);
        shown_before |= first < fence.epoch.get();
    }
    if shown_before {
        taken.journal = effects::journal(locked.tx, fence, &serde_json::to_string(&seqs)?)?;
    }
    Ok(taken)
}

/// Inserts the attempt as its agent's live one.
fn insert_attempt(
    locked: &mut LockedInstance<'_>,
    live: &LiveRun,
    lease: &Lease,
    new: &NewAttempt,
    now: Now,
) -> Result<()> {
    let (workflow, agent) = (lease.fence.workflow.get(), lease.fence.agent.as_str());
    let epoch = lease.fence.epoch.get();
    let seen = |shown: &ShownMessage| (shown.message.seq, shown.message.hops);
    let shown: Vec<_> = lease.messages.iter().map(seen).collect();
    locked.tx
        .prepare_cached(
            "INSERT INTO attempt (workflow, agent, epoch, id, run, oldest, number, setbacks, shown, token_hash, started,
             store_started, after_seq, checksum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13,
             row_checksum('attempt', ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, NULL, NULL, NULL, NULL, ?13))",
        )?
        .execute(params![
            workflow,
            agent,
            epoch,
            lease.id.get().as_bytes(),
            live.number.0,
            lease.oldest.get(),
            lease.number,
            lease.setbacks,
            serde_json::to_string(&shown)?,
            new.token,
            now.wall.get(),
            now.store.get(),
            locked.last_seq().get()
        ])?;
    locked.tx
        .prepare_cached(
            "UPDATE agent SET epoch = ?3, live = ?4, live_since = ?5, not_before = NULL, wait = NULL, why = NULL
             WHERE workflow = ?1 AND name = ?2",
        )?
        .execute(params![workflow, agent, epoch, lease.id.get().as_bytes(), now.wall.get()])?;
    let seqs = shown.iter().map(|(seq, _)| *seq).collect();
    let body = EventBody::AttemptStarting(AttemptStartingData { seqs, number: lease.number });
    let entry = EventEntry::new(body).agent(&lease.fence.agent).attempt(lease.id);
    locked.append_event(&entry, now)
}
