//! One attempt from lease to finish.

use std::{collections::BTreeMap, sync::Arc};

use agent_worker_protocol::{
    AgentName, AgentSettings, AttemptEnd, AttemptId, JobLimits, MessageKind, WorkerJob,
};
use agent_worker_store::{
    AttemptRow, By, Error as StoreError, Lease, Leased, NewAttempt, NewMessage, Who,
};
use tokio::{sync::Semaphore, time::Instant};

use super::{
    backstop::{Backstop, Signs},
    leash::Leash,
    tend::Place,
};
use crate::{
    error::{Error, Result},
    joining,
    kernel::{Card, Kernel},
    limits, policy,
    policy::{Ordered, Record, Remains},
    prompt,
    recipients::Recipients,
    runner::{Departure, EventTail},
    sizes::Text,
    tokens,
};

/// What every worker's children get of the caller's environment, beside the names its agent asks for.
const BASE_ENV: [&str; 6] = ["PATH", "HOME", "USER", "LANG", "TZ", "SSH_AUTH_SOCK"];

impl Kernel {
    /// Waits for a free slot, then leases and runs one attempt of `agent`.
    pub(super) fn begin_turn(
        &self,
        card: &Arc<Card>,
        agent: AgentName,
        slots: Arc<Semaphore>,
        place: Place,
    ) {
        let (kernel, card) = (self.clone(), Arc::clone(card));
        self.scheduler.tracker.spawn(async move {
            let closing = kernel.scheduler.closing.clone();
            let turn = async {
                if let Err(error) = kernel.turn(&card, &agent, &slots).await {
                    tracing::error!(%agent, run = %card.run, %error, "a turn could not be started");
                    // The sweep tries again; a tight loop would not help.
                    tokio::time::sleep(kernel.scheduler.options.sweep.duration()).await;
                }
            };
            tokio::select! {
                () = closing.cancelled() => {}
                () = turn => {}
            }
            drop(place);
        });
    }

    async fn turn(&self, card: &Arc<Card>, agent: &AgentName, slots: &Semaphore) -> Result<()> {
        // A worker of an earlier run of the same agent may still be on its way out.
        while let Some(leaving) = self.scheduler.leash_of(card.workflow, agent) {
            leaving.gone().await;
        }
        let _own = slots.acquire().await;
        let _any = self.scheduler.slots.acquire().await;
        // Who takes part may have changed since somebody looked: whoever is leased now is on this card.
        let card = &self.card(card.run).await?;
        let now = self.now().wall;
        let (id, token) = (self.dice.attempt(now)?, tokens::attempt_secret(&self.dice)?);
        let held = self.scheduler.leash(id, Leash::new(card, agent.clone()));
        // Looked at with the leash in place: whoever drains after this look finds it.
        let ended = if self.scheduler.is_draining() {
            Ok(0)
        } else {
            self.lease(card, agent, id, token, &held).await
        };
        self.scheduler.unleash(id);
        self.live.forget(id);
        held.let_go(*ended.as_ref().unwrap_or(&0));
        ended.map(drop)
    }

    /// Leases an attempt and runs it, if there is anything to lease. Answers with how many processes had to be ended.
    async fn lease(
        &self,
        card: &Arc<Card>,
        agent: &AgentName,
        id: AttemptId,
        token: String,
        held: &Leash,
    ) -> Result<u32> {
        let new = NewAttempt { id, token: tokens::digest(&token) };
        let (rule, now) = (limits::may_start, self.now());
        match self.store.attempt_lease(card.workflow, agent.clone(), new, rule, now).await {
            Ok(Leased::Attempt(lease)) => self.work(card, &lease, token, held).await,
            Ok(Leased::Nothing | Leased::Paused(_) | Leased::Stopped(_)) => Ok(0),
            // It may be there all the same; then it is one whose worker never began.
            Err(StoreError::Unknown(_)) => {
                self.conclude(card, id, &Departure::default(), held.why()).await;
                Ok(0)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Runs a leased attempt's worker and settles it. Answers with how many processes had to be ended.
    async fn work(
        &self,
        card: &Arc<Card>,
        lease: &Lease,
        token: String,
        held: &Leash,
    ) -> Result<u32> {
        let departure = match self.job(card, lease, token).await {
            Ok(job) => {
                let running = self.runner.attempt(card.run, job, held.pull.clone());
                let settings = card.agent(&lease.fence.agent)?;
                self.guard(lease.id, settings, held, running).await
            }
            Err(Error::Folder(error)) if self.runner.is_shortage(&error) => {
                tracing::warn!(attempt = %lease.id, %error, "a worker could not be prepared");
                Departure::unstarted(error.to_string())
            }
            Err(error) => {
                tracing::error!(attempt = %lease.id, %error, "a worker could not be prepared");
                // As good as a worker that is gone at once: it counts, and the next try waits.
                let status = Some("it could not be prepared".into());
                Departure { seen_alive: true, status, ..Departure::default() }
            }
        };
        self.conclude(card, lease.id, &departure, held.why()).await;
        Ok(departure.ended)
    }

    /// Waits for a worker, and ends it when it outlives its own clocks.
    pub(super) async fn guard(
        &self,
        id: AttemptId,
        settings: &AgentSettings,
        leash: &Leash,
        running: impl Future<Output = Departure>,
    ) -> Departure {
        let mut backstop = Backstop::new(self.job_limits(settings), Instant::now());
        tokio::pin!(running);
        let mut next = Instant::now();
        let departure = loop {
            tokio::select! {
                departure = &mut running => break departure,
                () = tokio::time::sleep_until(next) => {}
            }
            let signs = Signs { heard: self.live.heard(id), held: self.live.held(id) };
            match backstop.check(signs, Instant::now()) {
                Ok(later) => next = later,
                Err(why) => {
                    leash.end(Ordered::Overdue(why));
                    break running.await;
                }
            }
        };
        backstop.observe(Instant::now());
        Departure { daemon_suspended: backstop.was_suspended(), ..departure }
    }

    fn job_limits(&self, settings: &AgentSettings) -> JobLimits {
        let options = &self.scheduler.options;
        JobLimits {
            wall: settings.timeout,
            silence: settings.silence,
            orphan_grace: options.orphan_grace,
            kill_grace: options.kill_grace,
        }
    }

    async fn job(&self, card: &Card, lease: &Lease, token: String) -> Result<WorkerJob> {
        let settings = card.agent(&lease.fence.agent)?;
        let place = self.runner.place(card.run, lease.id);
        let env = self.runner.run_env(card.run).await.map_err(Error::Folder)?;
        let own = settings.system_prompt.as_deref();
        Ok(WorkerJob {
            attempt: lease.id,
            activation: format!("{}/{}/{}", lease.run, lease.fence.agent, lease.oldest),
            number: prompt::tries(lease),
            agent: lease.fence.agent.clone(),
            instance: card.instance.clone(),
            socket: place.socket,
            token,
            keep: place.folder.with_file_name(format!("agent-{}", lease.fence.agent)),
            folder: place.folder,
            cwd: card.cwd_of(settings),
            env: worker_env(env, settings),
            system_prompt: prompt::system_prompt(
                &lease.fence.agent,
                &card.instance,
                &card.team,
                own,
            ),
            prompt: prompt::prompt(lease, &self.decisions(card).await?),
            woken_by: prompt::woken_by(lease),
            backend: settings.backend.clone(),
            model: settings.model.clone(),
            session: lease.session.clone(),
            permissions: settings.permissions.clone(),
            max_steps: settings.max_steps,
            limits: self.job_limits(settings),
        })
    }

    /// Settles an attempt whose worker is gone. The store must take it: until it does, nothing else of this agent runs.
    pub(super) async fn conclude(
        &self,
        card: &Card,
        id: AttemptId,
        departure: &Departure,
        ordered: Option<&Ordered>,
    ) {
        loop {
            match self.settle(card, id, departure, ordered).await {
                Ok(()) => return,
                Err(error) => {
                    tracing::error!(attempt = %id, %error, "settling an attempt failed; trying again");
                    tokio::time::sleep(self.scheduler.options.sweep.duration()).await;
                }
            }
        }
    }

    pub(super) async fn settle(
        &self,
        card: &Card,
        id: AttemptId,
        departure: &Departure,
        ordered: Option<&Ordered>,
    ) -> Result<()> {
        // A worker that was never started has written nothing, and to look for it may need what is missing.
        let row = if departure.unstarted.is_some() && !departure.seen_alive {
            self.store.attempt_get(id).await.map(|row| (row, None)).map_err(Error::from)
        } else {
            self.read_to_the_end(card, id).await
        };
        let (row, damaged) = match row {
            Ok((row, damaged)) if row.ended.is_none() => (row, damaged),
            // Settled already, never committed, or forgotten with its run.
            Ok(_) | Err(Error::Store(StoreError::NotFound(_))) => return Ok(()),
            // To try again would not help. Its agent stays where it is until the run is stopped.
            Err(Error::Store(StoreError::Damaged(row))) => {
                tracing::error!(attempt = %id, %row, "an attempt cannot be settled");
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let seen_alive = departure.seen_alive || self.live.heard(id).is_some();
        let departure = Departure { seen_alive, ..departure.clone() };
        let remains = Remains {
            finished: row.finished.as_ref(),
            retry_at: row.retry_at,
            started: row.last_no > 0,
            damaged: damaged.as_deref(),
            departure: &departure,
            ordered,
        };
        let retry = card.agent(&row.fence.agent)?.retry;
        let (number, setbacks, now) = (row.number, row.setbacks, self.now());
        let shortage = self.scheduler.note_start(remains.unstarted());
        let record = Record { number, setbacks, retry, now: now.store, shortage };
        let mut settlement = policy::settlement(policy::verdict(&remains), &remains, &record);
        if settlement.end == AttemptEnd::Ok {
            settlement.answer = self.answer(card, &row).await?;
        }
        match self.store.attempt_finish(row.fence.clone(), settlement, now).await {
            // Its run was stopped while we looked.
            Ok(_) | Err(StoreError::Fenced) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Stores the events that the worker wrote to its file and could not post. Returns with the attempt where that file
    /// is damaged.
    async fn read_to_the_end(
        &self,
        card: &Card,
        id: AttemptId,
    ) -> Result<(AttemptRow, Option<String>)> {
        let row = self.store.attempt_get(id).await?;
        if row.ended.is_some() || row.finished.is_some() {
            return Ok((row, None));
        }
        let tail = match self.runner.attempt_events(card.run, id, row.last_no).await {
            Ok(tail) => tail,
            // The events are there and readable later: settling without them would be wrong.
            Err(error) if self.runner.is_shortage(&error) => return Err(Error::Folder(error)),
            Err(error) => {
                // A later try would fail as well: the attempt is settled without its events.
                tracing::error!(attempt = %id, %error, "a worker's events cannot be read");
                EventTail::default()
            }
        };
        if let Some(damaged) = &tail.damaged {
            tracing::error!(attempt = %id, damaged, "a worker's events.jsonl is damaged");
        }
        if tail.events.is_empty() {
            return Ok((row, tail.damaged));
        }
        match self.store.attempt_events(id, tail.events, self.now()).await {
            Ok(_) | Err(StoreError::Fenced | StoreError::Garbled(_)) => {
                Ok((self.store.attempt_get(id).await?, tail.damaged))
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn answer(&self, card: &Card, row: &AttemptRow) -> Result<Option<NewMessage>> {
        let text = row.finished.as_ref().map_or("", |finished| finished.text.trim_end());
        if text.is_empty() {
            return Ok(None);
        }
        let by = By::new(Who::Agent(row.fence.clone()));
        let hops = limits::hops(&row.shown, None);
        let text = Text::own(text.to_owned());
        let message = self.message(&by, card, text, &Recipients::default(), hops, None).await?;
        Ok(Some(NewMessage { kind: MessageKind::Answer, ..message }))
    }
}

fn worker_env(env: BTreeMap<String, String>, settings: &AgentSettings) -> BTreeMap<String, String> {
    let mut env = joining::env_of(env, &settings.name);
    let of_backend = settings.backend.variables();
    env.retain(|name, _| {
        BASE_ENV.contains(&name.as_str())
            || of_backend.contains(&name.as_str())
            || settings.env.contains(name)
    });
    env
}
