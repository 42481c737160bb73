//! The list of runs: live ones first, then newest first.
//!
//! Invariant: a run is on one page. A run that an earlier page showed as live is left out of the ended ones; a run that
//! ended before its page was read is among them.

use std::cmp::Reverse;

use agent_worker_protocol::{
    Millis, RunId,
    api::{ListPage, RunView},
};
use agent_worker_store::{Error as StoreError, ListRange, RunKey, RunQuery, RunRow};
use serde::{Deserialize, Serialize};

use crate::{
    access::instance_resolution::InstanceSelector,
    error::Result,
    kernel::Principal,
    runs::Runs,
    views::{ListingScope, page::PageRequest},
};

/// The place of a run in the list, and the live runs up to that place. Two places of one run are never compared.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct RunPlace {
    has_ended: bool,
    started: Reverse<Millis>,
    run: Reverse<RunId>,
    /// Runs that this and the earlier pages show as live.
    shown_live: Vec<RunId>,
}

impl RunPlace {
    fn new(row: &RunRow, shown_live: &[RunId]) -> Self {
        Self {
            has_ended: !row.state.is_live(),
            started: Reverse(row.started),
            run: Reverse(row.id),
            shown_live: shown_live.to_vec(),
        }
    }

    /// Returns the place among the ended runs; none before the first of them.
    fn ended_key(&self) -> Option<RunKey> {
        self.has_ended.then_some(RunKey { started: self.started.0, run: self.run.0 })
    }
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
        let mut shown_live = page.after().map_or_else(Vec::new, |after| after.shown_live.clone());
        // A run that ends meanwhile is in both reads, and not in none.
        let mut live = self.0.store.run_list(RunQuery::Live).await?;
        live.retain(|row| {
            let is_next = |after: &RunPlace| *after < RunPlace::new(row, &after.shown_live);
            instances.contains(&row.workflow) && page.after().is_none_or(is_next)
        });
        live.sort_by_key(|row| (Reverse(row.started), Reverse(row.id)));
        for row in live {
            if scope == ListingScope::All {
                shown_live.push(row.id);
            }
            page.push(RunPlace::new(&row, &shown_live), row);
        }
        if scope == ListingScope::All && !page.is_complete() {
            let everything = matches!(who, Principal::User) && selector.is_empty();
            let of = (!everything).then_some(instances);
            let ListRange { after, limit } = page.range(RunPlace::ended_key);
            // The runs that are left out use no part of the limit.
            let left_out = u32::try_from(shown_live.len()).unwrap_or(u32::MAX);
            let range = ListRange { after, limit: limit.saturating_add(left_out) };
            for row in self.0.store.run_list(RunQuery::Ended(of, range)).await? {
                if !shown_live.contains(&row.id) {
                    page.push(RunPlace::new(&row, &shown_live), row);
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
