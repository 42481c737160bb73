//! `subscriptions/listen`: one request whose response is a stream of changes.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use agent_worker_kernel::{Error, EventSubscription, Kernel, Principal, WatchSubject};
use agent_worker_protocol::{AgentName, InstanceRef, sync};
use rmcp::service::{SubscriptionContext, SubscriptionSink};
use serde::Deserialize;
use tokio::task::JoinSet;

use super::{
    resource_changes::affects_resource,
    resource_uri::ResourceUri,
    session::{check_watch_allowed, own_agent},
};
use crate::shutdown::Shutdown;

/// Maximum number of resources that one stream or session watches. The daemon keeps their addresses in memory.
pub(super) const MAX_SUBSCRIPTIONS: usize = 1_000;

/// The subscription of a request, opened before the library acknowledges it: the library calls us only afterwards,
/// and changes in between would be lost.
#[derive(Clone)]
pub(super) struct PreparedSubscription(Arc<Mutex<Option<SubscriptionFeeds>>>);

/// The opened feeds, or the error of opening them.
type SubscriptionFeeds = Result<Vec<SubscriptionFeed>, Error>;

struct SubscriptionFeed {
    feed: EventSubscription,
    addresses: Vec<ResourceUri>,
}

/// The parts of a listen request that matter here.
#[derive(Deserialize)]
struct ListenRequest {
    method: String,
    params: ListenParams,
}

#[derive(Deserialize)]
struct ListenParams {
    notifications: ListenNotifications,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListenNotifications {
    #[serde(default)]
    resource_subscriptions: Vec<String>,
}

impl PreparedSubscription {
    /// Opens the feeds for a request; returns none if the request is not a subscription.
    pub(super) async fn prepare(kernel: &Kernel, who: &Principal, body: &[u8]) -> Option<Self> {
        let ListenRequest { method, params } = serde_json::from_slice(body).ok()?;
        if method != "subscriptions/listen" {
            return None;
        }
        let feeds = open_feeds(kernel, who, &params.notifications.resource_subscriptions).await;
        Some(Self(Arc::new(Mutex::new(Some(feeds)))))
    }

    fn take(&self) -> Option<SubscriptionFeeds> {
        sync::lock(&self.0).take()
    }
}

async fn open_feeds(kernel: &Kernel, who: &Principal, uris: &[String]) -> SubscriptionFeeds {
    let mut feeds = Vec::new();
    // The acknowledgement names the same addresses.
    let accepted = uris.iter().filter_map(|uri| uri.parse().ok()).take(MAX_SUBSCRIPTIONS);
    for (instance, addresses) in group_by_instance(accepted) {
        for address in &addresses {
            check_watch_allowed(who, address)?;
        }
        let Some(place) = addresses.first().map(ResourceUri::instance_target) else { continue };
        let feed = kernel.runs().watch(who, WatchSubject::Instance(place), None).await?;
        tracing::debug!(%instance, "a client subscribed");
        feeds.push(SubscriptionFeed { feed, addresses });
    }
    Ok(feeds)
}

/// Sends every change of the accepted resources until the client disconnects or the daemon stops.
pub(super) async fn serve_subscription(
    prepared: Option<&PreparedSubscription>,
    who: &Principal,
    context: &SubscriptionContext,
    shutdown: &Shutdown,
) -> Result<(), Error> {
    let mut feeds = JoinSet::new();
    // The dispatcher prepares every such request.
    for SubscriptionFeed { feed, addresses } in
        prepared.and_then(PreparedSubscription::take).unwrap_or(Ok(Vec::new()))?
    {
        feeds.spawn(forward_updates(
            feed,
            addresses,
            own_agent(who).cloned(),
            context.sink().clone(),
        ));
    }
    tokio::select! {
        () = context.cancelled() => Ok(()),
        () = shutdown.streams_closed() => Ok(()),
        Some(ended) = feeds.join_next() => ended.unwrap_or(Ok(())),
    }
}

fn group_by_instance(
    addresses: impl Iterator<Item = ResourceUri>,
) -> HashMap<InstanceRef, Vec<ResourceUri>> {
    let mut grouped: HashMap<_, Vec<_>> = HashMap::new();
    for address in addresses {
        grouped.entry(address.instance.clone()).or_default().push(address);
    }
    grouped
}

async fn forward_updates(
    mut feed: EventSubscription,
    addresses: Vec<ResourceUri>,
    own: Option<AgentName>,
    sink: SubscriptionSink,
) -> Result<(), Error> {
    while let Some(event) = feed.next().await? {
        for address in addresses.iter().filter(|one| affects_resource(&event, one, own.as_ref())) {
            if let Err(error) = sink.notify_resource_updated(address.to_string()).await {
                tracing::debug!(%error, "the subscriber is gone");
                return Ok(());
            }
        }
    }
    Ok(())
}
