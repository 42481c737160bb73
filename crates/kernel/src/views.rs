//! Views of runs and agents with their current state, for people.

pub(crate) mod agent_detail;
pub(crate) mod agent_tools;
pub(crate) mod events;
mod imminent_change;
mod limit_outlook;
pub(crate) mod page;
mod run_list;
mod run_results;
pub(crate) mod stats;
pub(crate) mod turns;
pub(crate) mod worker_limit;

use crate::runs::Runs;
use crate::runs::members::Agents;
use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use agent_worker_protocol::{
    AgentSettings, AgentState, DeliveryState, Limits, Outcome, PauseCause, Permission, RunId,
    RunState, WorkflowId,
    api::{AgentView, ListPage, RunError, RunErrorCode, RunView},
};
use agent_worker_store::{
    AgentRow, Approval, Error as StoreError, Instance, InstanceQuery, Now, QuestionRow, Retention,
    RunQuery, RunRow, RunSnapshot, StoreFault, WaitReason,
};
use serde::Deserialize;

use crate::{
    access::{
        instance_resolution::InstanceSelector,
        target::{self, InstanceChoice},
        target_suggestion::unknown_member,
    },
    error::{Error, Result},
    kernel::{Kernel, Principal},
    scheduling::{
        hold,
        limits::{self, TurnCount},
        spend_limit::SpendCount,
        wall_limit,
    },
    views::{imminent_change::imminent_change, limit_outlook::LimitOutlook, page::PageRequest},
};

/// Time for which a successful write proves that the store accepts writes.
const STORE_CHECK_VALIDITY: Duration = Duration::from_secs(1);

/// The scope of a list without a target, within the folder of the request if it names one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListingScope {
    /// Live runs only.
    Live,
    /// Everything that the caller may read.
    All,
}

/// The numbers of live runs, of their agents, and of workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActivityCounts {
    /// Number of live runs.
    pub runs: u32,
    /// Number of agents of the live runs.
    pub agents: u32,
    /// Number of registered workers.
    pub attempts: u32,
}

/// Reports the state of the store and of the scheduler.
#[derive(Clone, Copy)]
pub struct KernelHealth<'k>(pub(crate) &'k Kernel);

impl Runs<'_> {
    /// Returns the view of one run.
    pub async fn view(self, who: &Principal, run: RunId) -> Result<RunView> {
        who.require(Permission::Read)?;
        self.0.require_run(who, run).await?;
        self.0.current_run_view(run).await
    }

    /// Returns the live, else the last, run of an instance. For a permission other than `read` the instance is never
    /// one of another folder unless the target names it.
    pub async fn find(
        self,
        who: &Principal,
        selector: &InstanceSelector,
        permission: Permission,
    ) -> Result<RunId> {
        who.require(permission)?;
        let instance = if permission == Permission::Read {
            self.0.resolve_instance(who, selector).await?
        } else {
            // A second stop of a run must not reach a live run of another folder.
            let choice = InstanceChoice::Exact;
            self.0.resolve_instance_for_write(who, selector, choice).await?
        };
        instance.live.or(instance.last).ok_or(Error::NoRun(instance.instance))
    }
}

impl Agents<'_> {
    /// Lists the agents of a target, of a folder, or all: those of the live, else the last, run of each instance.
    pub async fn list(
        self,
        who: &Principal,
        selector: &InstanceSelector,
        scope: ListingScope,
        page: &PageRequest,
    ) -> Result<ListPage<AgentView>> {
        let mut page = page.start::<(WorkflowId, i64), AgentView>("agents")?;
        let wanted = selector.target.as_ref().and_then(|target| target.agent.as_ref());
        let mut is_known = wanted.is_none();
        for instance in self.0.instances_in_scope(who, selector, scope).await? {
            if page.is_complete() {
                break;
            }
            let Some(run) = instance.live.or(instance.last) else { continue };
            if page.after().is_some_and(|(workflow, _)| instance.id < *workflow) {
                continue;
            }
            let snapshot = match self.0.store.run_snapshot(run).await {
                // The instance was removed meanwhile.
                Err(StoreError::NotFound(_)) => continue,
                snapshot => snapshot?,
            };
            let places: Vec<_> = snapshot.agents.iter().map(|row| row.place).collect();
            let views = self.0.agent_views_of(&snapshot);
            let is_wanted = |view: &AgentView| wanted.is_none_or(|name| *name == view.name);
            if let Some(wanted) = wanted.filter(|_| !views.iter().any(is_wanted)) {
                let names: Vec<_> = views.iter().map(|view| view.name.clone()).collect();
                return Err(unknown_member(wanted, &instance.instance, &names));
            }
            is_known = true;
            for (place, view) in places.into_iter().zip(views) {
                if is_wanted(&view) {
                    page.push((instance.id, place), view);
                }
            }
        }
        match wanted {
            Some(wanted) if !is_known => Err(Error::NoInstance(format!("agent `{wanted}`"))),
            _ => page.finish(),
        }
    }
}

impl KernelHealth<'_> {
    /// Returns the numbers of live runs, of their agents, and of workers.
    pub async fn activity_counts(self) -> Result<ActivityCounts> {
        let runs = self.0.store.run_list(RunQuery::Live).await?;
        let mut agents = 0;
        for run in &runs {
            match self.0.run_context(run.id).await {
                Ok(context) => agents += context.team.len(),
                // A run that was removed meanwhile or cannot be read does not hide the other ones.
                Err(error) => tracing::debug!(run = %run.id, %error, "its agents are not counted"),
            }
        }
        let attempts = self.0.scheduler.worker_count();
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Ok(ActivityCounts {
            runs: count(runs.len()),
            agents: count(agents),
            attempts: count(attempts),
        })
    }

    /// Checks that the store accepts writes with a write to disk; a success within the last second still counts,
    /// unless a write has failed since.
    pub async fn check_writes(self) -> Result<()> {
        if self.0.live_state.has_recent_store_write(STORE_CHECK_VALIDITY)
            && self.0.health().faults().await?.is_empty()
        {
            return Ok(());
        }
        self.0.store.heartbeat_put(self.0.now().store).await?;
        self.0.live_state.record_store_write();
        Ok(())
    }

    /// Returns the databases that refuse writes.
    pub async fn faults(self) -> Result<Vec<StoreFault>> {
        Ok(self.0.store.fault_list().await?)
    }
}

impl Kernel {
    /// Returns the instances of a list in the order of their ids: the named one, else those of the folder, else all.
    pub(crate) async fn instances_in_scope(
        &self,
        who: &Principal,
        selector: &InstanceSelector,
        scope: ListingScope,
    ) -> Result<Vec<Instance>> {
        who.require(Permission::Read)?;
        if matches!(who, Principal::Agent(_)) || selector.target.is_some() {
            return Ok(vec![self.resolve_instance(who, selector).await?]);
        }
        let project = selector.plain_project()?;
        let which = match scope {
            ListingScope::All => InstanceQuery::All,
            ListingScope::Live => InstanceQuery::Live,
        };
        let mut instances = self.store.instance_list(which).await?;
        if let Some(project) = &project {
            instances.retain(|instance| target::is_near(instance, Some(project)));
        }
        who.retain_reachable(&mut instances);
        instances.sort_by_key(|instance| instance.id);
        Ok(instances)
    }

    /// Returns the current view of a run.
    pub(crate) async fn current_run_view(&self, run: RunId) -> Result<RunView> {
        self.run_view_of(self.store.run_snapshot(run).await?).await
    }

    /// Returns the view of a run at the time of `snapshot`, with its results.
    pub(crate) async fn run_view_of(&self, snapshot: RunSnapshot) -> Result<RunView> {
        let (answers, document) =
            (self.run_answers(&snapshot).await?, self.run_document(&snapshot.run).await?);
        let documents = self.run_documents(&snapshot.run).await?;
        let view = self.run_overview(snapshot).await?;
        Ok(RunView { answers, document, documents, ..view })
    }

    /// Returns the view of a run without its answers and documents, for lists.
    async fn run_overview(&self, snapshot: RunSnapshot) -> Result<RunView> {
        let agents = self.agent_views_of(&snapshot);
        let RunSnapshot { run: row, failures, position, .. } = &snapshot;
        let in_state = |state| failures.iter().filter(move |one| one.state == state).cloned();
        let (pending, position) = (pending_count(&snapshot), *position);
        let origin = RunOrigin::of(row);
        let outlook = self.limit_outlook(row, &row.limits).await?;
        let (dead, dropped) = (DeliveryState::Dead, DeliveryState::Dropped);
        let (dead_letters, dropped) = (in_state(dead).collect(), in_state(dropped).collect());
        let is_busy = snapshot.agents.iter().any(|agent| agent.live.is_some());
        let RunSnapshot { run: row, last_failures, verdict, .. } = snapshot;
        let now = self.now();
        let lasted = row.store_ended.unwrap_or(now.store).since(row.store_started);
        let grace_ends = wall_limit::grace_end(&row.state, &row.limits, row.clock, row.store_since);
        let grace_ends = grace_ends.filter(|_| is_busy).map(|end| now.wall_at(end));
        let mut view = RunView {
            position,
            pending,
            held: false,
            imminent: None,
            // Each interface words its own.
            hint: None,
            run: row.id,
            needs: outlook.needs,
            file: origin.file,
            cwd: origin.cwd.unwrap_or_else(|| row.project.clone().into()),
            params: origin.params,
            limits: row.limits,
            dead_letters,
            dropped,
            last_failures,
            unheard: snapshot.unheard,
            agents,
            memory: row.retention == Retention::WhileLive,
            answers: BTreeMap::new(),
            document: None,
            documents: Vec::new(),
            verdict,
            instance: row.instance,
            project: row.project.into(),
            mode: row.mode,
            state: outlook.state(row.state),
            state_since: row.since,
            error: row.error,
            started: row.started,
            ended: row.ended,
            lasted_ms: millis(lasted),
            wall_used_ms: millis(row.clock.elapsed(now.store)),
            grace_ends,
            turns: row.turns,
            messages: row.messages,
            usage: row.usage,
        };
        view.held = self.scheduler.hold.is_held() && view.state.can_work();
        // A held daemon changes nothing by itself.
        view.imminent = imminent_change(&view).filter(|_| !view.held);
        Ok(view)
    }

    /// Returns what a paused run needs to continue with `limits`.
    pub(crate) async fn limit_outlook(
        &self,
        run: &RunRow,
        limits: &Limits,
    ) -> Result<LimitOutlook> {
        let RunState::Paused { .. } = run.state else { return Ok(LimitOutlook::default()) };
        let (agents, now) = (self.store.agent_list(run.workflow).await?, self.now());
        let used = self.store.run_limit_use(run.id, now).await?;
        let needs = limits::missing_limits(run, &agents, &used, limits, now);
        let turns = TurnCount::of_use(run, &used);
        let spend = SpendCount::of_use(run, &used, now);
        let room_at = limits::resume_at(&run.state, &turns, &spend).map(|at| now.wall_at(at));
        Ok(LimitOutlook { needs: needs.unwrap_or_default(), room_at })
    }

    /// Returns the state of an agent under a hold: no message is leased, so an agent with messages is not queued.
    fn held_state(&self, state: AgentState) -> AgentState {
        match state {
            AgentState::Queued { .. } if self.scheduler.hold.is_held() => {
                AgentState::Paused { why: hold::HELD.to_owned() }
            }
            other => other,
        }
    }

    /// Returns the agents of a run and the state of each.
    pub(crate) fn agent_views_of(&self, snapshot: &RunSnapshot) -> Vec<AgentView> {
        let now = self.now();
        let RunSnapshot { run, agents, questions, approvals, last_failures, .. } = snapshot;
        let with_settings = agents.iter().map(|row| (agent_settings(row), row));
        with_settings
            .map(|(settings, row)| AgentView {
                backend: settings.as_ref().map_or("", |agent| agent.backend.word()).into(),
                model: settings.and_then(|agent| agent.model),
                started: run.started,
                state: match self.scheduler.worker_of(run.workflow, &row.name) {
                    Some(_) if !run.state.is_live() || row.stopped.is_some() => {
                        AgentState::Stopping
                    }
                    _ => {
                        let asked = questions.iter().filter(|asked| asked.agent == row.name);
                        let asked: Vec<_> = asked.collect();
                        let wanted = approvals.iter().filter(|wanted| wanted.agent == row.name);
                        let wanted: Vec<_> = wanted.collect();
                        let state = agent_state(
                            row,
                            &run.state,
                            run.error.as_ref(),
                            (&asked, &wanted),
                            now,
                        );
                        self.held_state(self.with_worker_limit(state, &row.name, snapshot))
                    }
                },
                name: row.name.clone(),
                instance: run.instance.clone(),
                project: run.project.clone().into(),
                waiting: row.waiting,
                turns: row.turns,
                messages: row.messages,
                usage: row.usage,
                last_failure: last_failures
                    .iter()
                    .find(|failed| failed.agent == row.name)
                    .map(|failed| failed.failure.clone()),
            })
            .collect()
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the number of items of a live run that wait for votes, answers or approval.
fn pending_count(snapshot: &RunSnapshot) -> u32 {
    if !snapshot.run.state.is_live() {
        return 0;
    }
    let asked = snapshot.questions.len() + snapshot.approvals.len();
    u32::try_from(asked).unwrap_or(u32::MAX).saturating_add(snapshot.proposals)
}

/// The origin of a run according to its script; empty if the script was deleted or cannot be read.
#[derive(Default, Deserialize)]
struct RunOrigin {
    file: Option<PathBuf>,
    cwd: Option<PathBuf>,
    #[serde(default)]
    params: BTreeMap<String, String>,
}

impl RunOrigin {
    fn of(row: &RunRow) -> Self {
        serde_json::from_str(&row.script).unwrap_or_default()
    }
}

/// Returns an agent's settings, unless another version wrote data that this one cannot read.
pub(crate) fn agent_settings(row: &AgentRow) -> Option<AgentSettings> {
    serde_json::from_str(&row.settings).ok()
}

/// Derives the state of an agent from its stored row. Computed each time, so it cannot be stale.
fn agent_state(
    row: &AgentRow,
    run: &RunState,
    error: Option<&RunError>,
    (asked, wanted): (&[&QuestionRow], &[&Approval]),
    now: Now,
) -> AgentState {
    if let RunState::Ended { outcome } = run {
        return AgentState::Stopped { why: ended_reason(*outcome, error) };
    }
    if let Some(why) = &row.stopped {
        return AgentState::Stopped { why: why.clone() };
    }
    if let Some(live) = &row.live {
        let wanted = wanted.iter().filter(|wanted| wanted.attempt == live.attempt);
        let approvals: Vec<_> = wanted.clone().map(|wanted| wanted.id).collect();
        if let Some(asked) = wanted.map(|wanted| wanted.asked).min() {
            let asked = asked.max(live.since);
            return AgentState::Waiting { questions: Vec::new(), approvals, asked };
        }
        return AgentState::Running { attempt: live.attempt, since: live.since };
    }
    let waiting = asked.first().filter(|_| row.waiting == 0).map(|first| AgentState::Waiting {
        questions: asked.iter().map(|question| question.id).collect(),
        approvals: Vec::new(),
        asked: first.asked,
    });
    if let RunState::Paused { cause } = run {
        // Such a run is paused for an answer, which resumes it.
        let waiting = waiting.filter(|_| *cause == PauseCause::Human);
        return waiting.unwrap_or_else(|| AgentState::Paused { why: cause.to_string() });
    }
    match &row.not_before {
        _ if row.waiting == 0 => waiting.unwrap_or(AgentState::Idle),
        Some(wait) if wait.at > now.store => {
            let (until, why) = (now.wall_at(wait.at), wait.why.clone());
            match wait.wait {
                WaitReason::BackOff => AgentState::BackingOff { until, why },
                WaitReason::RateLimited => AgentState::Parked { until, why },
            }
        }
        Some(_) | None => AgentState::Queued { full: None },
    }
}

/// Returns the reason why no agent of an ended run is woken. A failure before the agents started is not reported as
/// theirs.
fn ended_reason(outcome: Outcome, error: Option<&RunError>) -> String {
    match error.map(|error| error.code) {
        None => match outcome {
            Outcome::Failed => "its run failed".to_owned(),
            Outcome::Done => "its run is done".to_owned(),
            Outcome::Stopped => "its run was stopped".to_owned(),
        },
        Some(RunErrorCode::NobodyWoken) => "its run woke no agent".to_owned(),
        Some(RunErrorCode::BadFile) => "its run could not use its file".to_owned(),
        Some(RunErrorCode::SetupFailed) => "its run's setup failed".to_owned(),
        Some(RunErrorCode::Verdict) => "its run failed by the team's verdict".to_owned(),
        Some(RunErrorCode::TaskFailed) => "a task of its run failed".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::{AttemptId, Millis, QuestionId, Usage};
    use agent_worker_store::{LiveAttempt, NotBefore, StoreTime};

    use super::*;

    /// Returns an instant of the store's clock; the wall clock is an hour ahead.
    fn at_store(now: i64) -> Now {
        Now { store: StoreTime::new(now), wall: Millis::new(now + 3_600_000) }
    }

    fn agent() -> AgentRow {
        AgentRow {
            name: "coder".parse().unwrap(),
            place: 0,
            settings: String::new(),
            stopped: None,
            since: Millis::new(0),
            not_before: None,
            live: None,
            waiting: 0,
            turns: 0,
            messages: 0,
            usage: Usage::default(),
            session: None,
        }
    }

    #[test]
    fn an_agents_word_is_derived_from_what_is_true_now() {
        let idle = agent();
        let mail = AgentRow { waiting: 1, ..idle.clone() };
        let attempt = AttemptId::new(uuid::Uuid::nil());
        let live = Some(LiveAttempt { attempt, since: Millis::new(0) });
        let wait = |wait| Some(NotBefore { at: StoreTime::new(9_000), wait, why: "429".into() });
        let paused = RunState::Paused { cause: PauseCause::User };
        let ended = RunState::Ended { outcome: Outcome::Done };
        let at = "1970-01-01T01:00:09.000Z";
        for (row, run, now, expected) in [
            (&idle, &RunState::Running, 0, "idle".to_owned()),
            (&mail, &RunState::Running, 0, "queued".into()),
            (&AgentRow { live, ..mail.clone() }, &RunState::Running, 0, "running".into()),
            (&AgentRow { live, ..mail.clone() }, &paused, 0, "running".into()),
            (&mail, &paused, 0, "paused: by the user".into()),
            (
                &AgentRow { not_before: wait(WaitReason::BackOff), ..mail.clone() },
                &RunState::Running,
                0,
                format!("retrying at {at}: 429"),
            ),
            (
                &AgentRow { not_before: wait(WaitReason::RateLimited), ..mail.clone() },
                &RunState::Running,
                0,
                format!("rate-limited until {at}: 429"),
            ),
            (
                &AgentRow { not_before: wait(WaitReason::RateLimited), ..mail.clone() },
                &RunState::Running,
                9_000,
                "queued".into(),
            ),
            (
                &AgentRow { not_before: wait(WaitReason::RateLimited), ..idle.clone() },
                &RunState::Running,
                0,
                "idle".into(),
            ),
            (
                &AgentRow { stopped: Some("auth: 401".into()), ..mail.clone() },
                &RunState::Running,
                0,
                "stopped: auth: 401".into(),
            ),
            (&mail, &ended, 0, "stopped: its run is done".into()),
        ] {
            let state = agent_state(row, run, None, (&[], &[]), at_store(now));
            assert_eq!(state.to_string(), expected, "{row:?} {run}");
        }
    }

    #[test]
    fn an_agent_whose_questions_are_open_waits_for_an_answer_unless_something_else_keeps_it() {
        let asked = |id| QuestionRow {
            id: QuestionId::new(id),
            run: RunId::new(uuid::Uuid::nil()),
            agent: "coder".parse().unwrap(),
            question: "Which?".into(),
            options: Vec::new(),
            asked: Millis::new(7),
            answer: None,
        };
        let asked = [&asked(1), &asked(4)];
        let idle = agent();
        let mail = AgentRow { waiting: 1, ..agent() };
        let stopped = AgentRow { stopped: Some("auth: 401".into()), ..agent() };
        let paused = |cause| RunState::Paused { cause };
        for (row, run, expected) in [
            (&idle, RunState::Running, "waiting for an answer (#1, #4)"),
            (&idle, paused(PauseCause::Human), "waiting for an answer (#1, #4)"),
            (&idle, paused(PauseCause::User), "paused: by the user"),
            (&mail, RunState::Running, "queued"),
            (&stopped, RunState::Running, "stopped: auth: 401"),
        ] {
            let state = agent_state(row, &run, None, (&asked, &[]), at_store(9));
            assert_eq!(state.to_string(), expected, "{row:?} {run}");
        }
    }

    #[test]
    fn a_run_that_failed_before_its_agents_started_is_not_reported_as_their_failure() {
        for (error, expected) in [
            (None, "its run failed"),
            (Some(RunErrorCode::NobodyWoken), "its run woke no agent"),
            (Some(RunErrorCode::BadFile), "its run could not use its file"),
            (Some(RunErrorCode::SetupFailed), "its run's setup failed"),
        ] {
            let error = error.map(|code| RunError { code, message: "as it was".into() });
            assert_eq!(ended_reason(Outcome::Failed, error.as_ref()), expected);
        }
    }
}
