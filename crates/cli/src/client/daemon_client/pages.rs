//! Reads the pages of a list one after another.

use agent_worker_protocol::api::{
    InboxReply, ListPage, MAX_PAGE_ITEMS, MessagesReply, ProposalsReply,
};
use serde::de::DeserializeOwned;

use super::{ClientResult, DaemonClient, UrlBuilder};

/// The pages to read.
#[derive(Clone, Copy)]
pub(super) struct PageLimits {
    /// Number of items on a page.
    pub(super) page: usize,
    /// Number of items of all pages.
    pub(super) total: usize,
    /// Order of the pages.
    pub(super) order: PageOrder,
}

/// The limits of a whole list.
pub(super) const ALL_PAGES: PageLimits =
    PageLimits { page: MAX_PAGE_ITEMS as usize, total: usize::MAX, order: PageOrder::Forward };

/// The order of the pages of a list.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PageOrder {
    /// The next page continues the list.
    Forward,
    /// The next page has the items before those of the first.
    Backward,
}

/// A reply that is one page of a list.
pub(super) trait PagedReply: DeserializeOwned {
    /// The item of the list.
    type Item;

    /// Returns the items of the page.
    fn items(&mut self) -> &mut Vec<Self::Item>;

    /// Returns the cursor of the next page.
    fn next(&mut self) -> &mut Option<String>;
}

impl<T: DeserializeOwned> PagedReply for ListPage<T> {
    type Item = T;

    fn items(&mut self) -> &mut Vec<T> {
        &mut self.items
    }

    fn next(&mut self) -> &mut Option<String> {
        &mut self.next
    }
}

/// Implements [`PagedReply`] for replies with further facts about the list.
macro_rules! paged_replies {
    ($($reply:ty: $item:ty),+ $(,)?) => {$(
        impl PagedReply for $reply {
            type Item = $item;

            fn items(&mut self) -> &mut Vec<$item> {
                &mut self.items
            }

            fn next(&mut self) -> &mut Option<String> {
                &mut self.next
            }
        }
    )+};
}

paged_replies! {
    MessagesReply: agent_worker_protocol::Message,
    InboxReply: agent_worker_protocol::api::Mail,
    ProposalsReply: agent_worker_protocol::api::ProposalView,
}

impl DaemonClient {
    /// Reads a whole list.
    pub(super) async fn get_list<T: DeserializeOwned>(
        &self,
        url: UrlBuilder,
    ) -> ClientResult<Vec<T>> {
        Ok(self.get_pages::<ListPage<T>>(&url, ALL_PAGES).await?.items)
    }

    /// Reads the pages of a list up to the limits, as one reply.
    pub(super) async fn get_pages<R: PagedReply>(
        &self,
        url: &UrlBuilder,
        limits: PageLimits,
    ) -> ClientResult<R> {
        self.get_pages_until(url, limits, |_: &R| false).await
    }

    /// Reads the pages of a list up to the limits, or until the items are enough, as one reply.
    pub(super) async fn get_pages_until<R: PagedReply>(
        &self,
        url: &UrlBuilder,
        limits: PageLimits,
        is_enough: impl Fn(&R) -> bool,
    ) -> ClientResult<R> {
        let mut reply: R = self.get_page(url, limits.page.min(limits.total), None).await?;
        while reply.items().len() < limits.total && !is_enough(&reply) {
            let Some(after) = reply.next().take() else { break };
            let left = limits.total - reply.items().len();
            let mut more: R = self.get_page(url, limits.page.min(left), Some(&after)).await?;
            if limits.order == PageOrder::Backward {
                std::mem::swap(reply.items(), more.items());
            }
            reply.items().append(more.items());
            *reply.next() = more.next().take();
        }
        Ok(reply)
    }

    async fn get_page<R: DeserializeOwned>(
        &self,
        url: &UrlBuilder,
        limit: usize,
        after: Option<&str>,
    ) -> ClientResult<R> {
        let url = url.clone().with_param("limit", Some(&limit.to_string()));
        self.daemon.get(&url.with_param("after", after).build()).await
    }
}
