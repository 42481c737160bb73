//! Pages of lists: the only place that cuts a list into pages, and that makes and reads cursors.
//!
//! Invariant: a cursor holds the key of the last item of its page, never an offset. Items that are added or removed
//! elsewhere move no other item to another page, and a key stays valid when its item is gone.

use agent_worker_protocol::api::{DEFAULT_PAGE_ITEMS, ListPage, MAX_PAGE_ITEMS};
use agent_worker_store::{Error as StoreError, ListRange};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde::{Serialize, de::DeserializeOwned};

use crate::error::{Error, Result};

/// The page of a list that a caller asks for.
#[derive(Clone, Debug)]
pub struct PageRequest {
    limit: u32,
    after: Option<String>,
}

impl PageRequest {
    /// Checks the parameters of a request: the maximum number of items, and the cursor of the previous page.
    pub fn new(limit: Option<u32>, after: Option<String>) -> Result<Self> {
        let limit = limit.unwrap_or(DEFAULT_PAGE_ITEMS);
        if !(1..=MAX_PAGE_ITEMS).contains(&limit) {
            let message = format!("`limit` must be from 1 to {MAX_PAGE_ITEMS}, not {limit}");
            return Err(Error::BadRequest(message));
        }
        Ok(Self { limit, after })
    }

    /// Returns the request for a whole list, for callers inside of the daemon.
    pub fn whole() -> Self {
        Self { limit: u32::MAX - 1, after: None }
    }

    /// Starts a page of the list with this name, which its cursors contain.
    pub(crate) fn start<K, T>(&self, list: &'static str) -> Result<PageBuilder<K, T>>
    where
        K: Ord + Serialize + DeserializeOwned,
    {
        let after = self.after.as_deref().map(|cursor| read_cursor(list, cursor)).transpose()?;
        let limit = self.limit as usize;
        Ok(PageBuilder { list, after, limit, items: Vec::new(), last: None, has_more: false })
    }
}

impl Default for PageRequest {
    fn default() -> Self {
        Self { limit: DEFAULT_PAGE_ITEMS, after: None }
    }
}

/// Collects the items of one page, in the order of their keys.
pub(crate) struct PageBuilder<K, T> {
    list: &'static str,
    after: Option<K>,
    limit: usize,
    items: Vec<T>,
    /// Key of the last item.
    last: Option<K>,
    /// True if an item after the last one exists.
    has_more: bool,
}

impl<K: Ord + Serialize + DeserializeOwned, T> PageBuilder<K, T> {
    /// Returns the key of the last item of the previous page.
    pub(crate) fn after(&self) -> Option<&K> {
        self.after.as_ref()
    }

    /// Returns the range to read from the store: the page, and one item more that proves that another page follows.
    pub(crate) fn range<S>(&self, after: impl FnOnce(&K) -> Option<S>) -> ListRange<S> {
        let limit = u32::try_from(self.limit + 1).unwrap_or(u32::MAX);
        ListRange { after: self.after.as_ref().and_then(after), limit }
    }

    /// Adds an item unless it is on an earlier page or the page is full.
    pub(crate) fn push(&mut self, key: K, item: T) {
        if self.after.as_ref().is_some_and(|after| key <= *after) {
            return;
        }
        if self.items.len() == self.limit {
            self.has_more = true;
            return;
        }
        self.items.push(item);
        self.last = Some(key);
    }

    /// Notes that items may follow although the page is not full.
    pub(crate) fn expect_more(&mut self) {
        self.has_more = true;
    }

    /// Returns true if the page is full and another one follows, so that no more items are needed.
    pub(crate) fn is_complete(&self) -> bool {
        self.has_more
    }

    /// Returns the page.
    pub(crate) fn finish(self) -> Result<ListPage<T>> {
        let Self { list, items, last, has_more, .. } = self;
        let next = last.filter(|_| has_more).map(|key| write_cursor(list, &key)).transpose()?;
        Ok(ListPage { items, next })
    }
}

fn write_cursor(list: &str, key: &impl Serialize) -> Result<String> {
    let text = serde_json::to_vec(&(list, key)).map_err(StoreError::from)?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(text))
}

fn read_cursor<K: DeserializeOwned>(list: &str, cursor: &str) -> Result<K> {
    let text = BASE64_URL_SAFE_NO_PAD.decode(cursor).ok();
    let read = text.and_then(|text| serde_json::from_slice::<(String, K)>(&text).ok());
    let own = read.filter(|(name, _)| name == list).map(|(_, key)| key);
    own.ok_or_else(|| {
        Error::BadRequest("`after` must be the `next` of a page of the same list".into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(limit: u32, after: Option<String>, numbers: &[i64]) -> ListPage<i64> {
        let request = PageRequest::new(Some(limit), after).unwrap();
        let mut page = request.start("numbers").unwrap();
        for number in numbers {
            page.push(*number, *number);
        }
        page.finish().unwrap()
    }

    #[test]
    fn pages_follow_each_other_without_a_gap_while_items_come_and_go() {
        let first = page(2, None, &[1, 2, 3, 4, 5]);
        assert_eq!(first.items, [1, 2]);
        // Item 2 is gone, and item 0 is new.
        let second = page(2, first.next.clone(), &[0, 1, 3, 4, 5]);
        assert_eq!(second.items, [3, 4]);
        let last = page(2, second.next, &[0, 1, 3, 4, 5]);
        assert_eq!((last.items, last.next), (vec![5], None));
        let exact = page(5, None, &[1, 2, 3, 4, 5]);
        assert_eq!((exact.items.len(), exact.next), (5, None), "no page follows a full last one");
        assert_eq!(page(2, first.next, &[]).items, Vec::<i64>::new());
    }

    #[test]
    fn a_limit_out_of_range_and_a_cursor_of_another_list_are_refused() {
        for limit in [0, 1_001, u32::MAX] {
            let refused = PageRequest::new(Some(limit), None).unwrap_err().to_string();
            assert_eq!(refused, format!("`limit` must be from 1 to 1000, not {limit}"));
        }
        for limit in [1, 1_000] {
            PageRequest::new(Some(limit), None).unwrap();
        }
        let other = page(1, None, &[1, 2]).next.unwrap();
        for cursor in ["", "x", "%", "bnVsbA", &other] {
            let request = PageRequest::new(None, Some(cursor.to_owned())).unwrap();
            let refused = request.start::<i64, i64>("letters");
            assert!(matches!(refused, Err(Error::BadRequest(_))), "{cursor}");
        }
    }
}
