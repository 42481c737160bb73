//! Activity and durations of a run's agents. The arithmetic is pure.

use crate::runs::Runs;
use std::time::Duration;

use agent_worker_protocol::{
    AttemptEnd, RunId, WorkflowId,
    api::{ActivityStats, AgentStats, DurationPercentiles, ListPage, StatsView},
};
use agent_worker_store::{Error as StoreError, TurnRow};

use crate::{
    access::instance_resolution::InstanceSelector,
    error::Result,
    kernel::{Kernel, Principal},
    views::{ListingScope, page::PageRequest},
};

/// Number of turns that durations are taken from, the newest first.
const MAX_SAMPLED_TURNS: u32 = 1_000;

impl Runs<'_> {
    /// Returns the statistics of the instances' live, else last, runs.
    pub async fn stats(
        self,
        who: &Principal,
        selector: &InstanceSelector,
        scope: ListingScope,
        page: &PageRequest,
    ) -> Result<ListPage<StatsView>> {
        let mut page = page.start::<WorkflowId, RunId>("stats")?;
        for instance in self.0.instances_in_scope(who, selector, scope).await? {
            if let Some(run) = instance.live.or(instance.last) {
                page.push(instance.id, run);
            }
        }
        let ListPage { items, next } = page.finish()?;
        let mut stats = Vec::new();
        for run in items {
            match self.0.stats_of(run).await {
                Ok(found) => stats.push(found),
                // The instance was removed meanwhile.
                Err(StoreError::NotFound(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(ListPage { items: stats, next })
    }
}

impl Kernel {
    async fn stats_of(&self, run: RunId) -> Result<StatsView, StoreError> {
        let run = self.store.run_get(run).await?;
        let turns = self.store.turn_list(run.id, MAX_SAMPLED_TURNS).await?;
        let agents = self.store.agent_list(run.workflow).await?;
        let agents = agents.into_iter().map(|agent| {
            // An agent that left and joined again starts with no turns.
            let own = turns.iter().filter(|turn| turn.agent == agent.name);
            let own = own.take(usize::try_from(agent.turns).unwrap_or(usize::MAX));
            let stats = ActivityStats {
                turns: agent.turns,
                messages: agent.messages,
                usage: agent.usage,
                ..turn_times(own)
            };
            AgentStats { name: agent.name, stats }
        });
        let agents: Vec<_> = agents.collect();
        let end = run.store_ended.unwrap_or_else(|| self.now().store);
        Ok(StatsView {
            lasted_ms: millis(end.since(run.store_started)),
            total: ActivityStats {
                turns: run.turns,
                messages: run.messages,
                usage: run.usage,
                ..turn_times(turns.iter())
            },
            agents,
            run: run.id,
            instance: run.instance,
            project: run.project.into(),
            state: run.state,
        })
    }
}

fn turn_times<'a>(turns: impl Iterator<Item = &'a TurnRow> + Clone) -> ActivityStats {
    let failed = turns.clone().filter(|turn| matches!(turn.end, AttemptEnd::Failed { .. }));
    ActivityStats {
        failed: u32::try_from(failed.count()).unwrap_or(u32::MAX),
        took: spread(turns.clone().map(|turn| turn.took)),
        waited: spread(turns.map(|turn| turn.waited)),
        ..ActivityStats::default()
    }
}

/// Returns the percentiles of the durations; none without any duration.
fn spread(times: impl Iterator<Item = Duration>) -> Option<DurationPercentiles> {
    let mut times: Vec<u64> = times.map(millis).collect();
    times.sort_unstable();
    let at = |percent: usize| {
        let rank = (times.len() * percent).div_ceil(100);
        times.get(rank.saturating_sub(1)).copied()
    };
    Some(DurationPercentiles { p50_ms: at(50)?, p95_ms: at(95)?, max_ms: at(100)? })
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_names_times_that_were_measured() {
        let spread = |times: &[u64]| {
            let spread = spread(times.iter().copied().map(Duration::from_millis));
            spread.map(|spread| (spread.p50_ms, spread.p95_ms, spread.max_ms))
        };
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[7]), Some((7, 7, 7)));
        assert_eq!(spread(&[4, 1, 3, 2]), Some((2, 4, 4)));
        let hundred: Vec<u64> = (1..=100).collect();
        assert_eq!(spread(&hundred), Some((50, 95, 100)));
    }
}
