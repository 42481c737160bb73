//! The list of runs: live ones first, then newest first.
//!
//! Invariant: a run is on one page. The pages of a list show the order at the time of the first page: a run that has
//! ended since then stays among the live ones.

use std::cmp::Reverse;

use agent_worker_protocol::{
    Millis, RunId,
    api::{ListPage, RunView},
};
use agent_worker_store::{Error as StoreError, ListRange, RunKey, RunQuery, RunRow, StoreTime};
use serde::{Deserialize, Serialize};

use crate::{
    access::instance_resolution::InstanceSelector,
    error::Result,
    kernel::Principal,
    runs::Runs,
    views::{ListingScope, page::PageRequest},
};

/// The place of a run in the list.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct RunPlace {
    /// Store time of the first page; the same on all pages of a list.
    first_read: i64,
    had_ended: bool,
    started: Reverse<Millis>,
    run: Reverse<RunId>,
}

impl RunPlace {
    fn new(row: &RunRow, first_read: StoreTime) -> Self {
        Self {
            first_read: first_read.get(),
            had_ended: had_ended(row, first_read),
            started: Reverse(row.started),
            run: Reverse(row.id),
        }
    }

    /// Returns the place among the ended runs; none before the first of them.
    fn ended_key(&self) -> Option<RunKey> {
        self.had_ended.then_some(RunKey { started: self.started.0, run: self.run.0 })
    }
}

/// Returns true if the run ended before `time`.
fn had_ended(row: &RunRow, time: StoreTime) -> bool {
    row.store_ended.is_some_and(|ended| ended < time)
}

impl Runs<'_> {
    /// Lists the runs of a target, of a folder, or all: live ones first, then newest first.
    pub async fn list(
        self,
        who: &Principal,
        selector: &InstanceSelector,
        scope: ListingScope,
        page: &PageRequest,
    ) -> Result<ListPage<RunView>> {
        let mut page = page.start::<RunPlace, RunRow>("runs")?;
        let instances = self.0.instances_in_scope(who, selector, scope).await?;
        let instances: Vec<_> = instances.into_iter().map(|instance| instance.id).collect();
        let first_read = page
            .after()
            .map_or_else(|| self.0.now().store, |after| StoreTime::new(after.first_read));
        // A run that ends meanwhile is in the second read, and possibly in both.
        let mut first = self.0.store.run_list(RunQuery::Live).await?;
        if scope == ListingScope::All {
            first.extend(self.0.store.run_list(RunQuery::EndedSince(first_read)).await?);
        }
        first.retain(|row| instances.contains(&row.workflow));
        first.sort_by_key(|row| (Reverse(row.started), Reverse(row.id)));
        first.dedup_by_key(|row| row.id);
        // The list of ended runs has them too.
        let left_out = u32::try_from(first.len()).unwrap_or(u32::MAX);
        for row in first {
            page.push(RunPlace::new(&row, first_read), row);
        }
        if scope == ListingScope::All && !page.is_complete() {
            let everything = matches!(who, Principal::User) && selector.is_empty();
            let of = (!everything).then_some(instances);
            let ListRange { after, limit } = page.range(RunPlace::ended_key);
            let range = ListRange { after, limit: limit.saturating_add(left_out) };
            for row in self.0.store.run_list(RunQuery::Ended(of, range)).await? {
                if had_ended(&row, first_read) {
                    page.push(RunPlace::new(&row, first_read), row);
                }
            }
        }
        let ListPage { items, next } = page.finish()?;
        let mut views = Vec::new();
        for row in items {
            match self.0.store.run_snapshot(row.id).await {
                Ok(snapshot) => views.push(self.0.run_overview(snapshot).await?),
                // The instance was removed meanwhile.
                Err(StoreError::NotFound(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(ListPage { items: views, next })
    }
}
