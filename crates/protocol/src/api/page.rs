//! Pages of lists.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Number of items on a page, unless the request has a `limit`.
pub const DEFAULT_PAGE_ITEMS: u32 = 100;
/// Largest `limit` of a request.
pub const MAX_PAGE_ITEMS: u32 = 1_000;

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "{T}Page")]
pub struct ListPage<T> {
    /// Items of the page, in the order of the list.
    pub items: Vec<T>,
    /// Cursor of the next page, for `after`; null on the last page.
    #[serde(default)]
    pub next: Option<String>,
}

impl<T> ListPage<T> {
    /// Returns a list that fits on one page.
    pub fn whole(items: Vec<T>) -> Self {
        Self { items, next: None }
    }

    /// Replaces each item.
    pub fn map<U>(self, item: impl FnMut(T) -> U) -> ListPage<U> {
        ListPage { items: self.items.into_iter().map(item).collect(), next: self.next }
    }
}
