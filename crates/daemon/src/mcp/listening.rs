//! `subscriptions/listen`: one request that is answered with what changes, for as long as it lasts.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use agent_worker_kernel::{Error, Feed, Kernel, Principal, Watched};
use agent_worker_protocol::{AgentName, InstanceRef};
use rmcp::service::{SubscriptionContext, SubscriptionSink};
use serde::Deserialize;
use tokio::task::JoinSet;

use super::{
    address::Address,
    changes::changes,
    seat::{may_watch, own},
};
use crate::shutdown::Shutdown;

/// What a request wants to be told of, watched from before it is acknowledged: the library does that first and asks us then,
/// and what changed in between would be told to nobody.
#[derive(Clone)]
pub(super) struct Begun(Arc<Mutex<Option<Watches>>>);

/// Or why there are none.
type Watches = Result<Vec<Watch>, Error>;

struct Watch {
    feed: Feed,
    addresses: Vec<Address>,
}

/// A request to listen, as far as it matters here.
#[derive(Deserialize)]
struct Wish {
    method: String,
    params: Params,
}

#[derive(Deserialize)]
struct Params {
    notifications: Notifications,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Notifications {
    #[serde(default)]
    resource_subscriptions: Vec<String>,
}

impl Begun {
    /// Begins to watch for a request; nothing, if it does not want to listen.
    pub(super) async fn of(kernel: &Kernel, who: &Principal, body: &[u8]) -> Option<Self> {
        let Wish { method, params } = serde_json::from_slice(body).ok()?;
        if method != "subscriptions/listen" {
            return None;
        }
        let watches = begin(kernel, who, &params.notifications.resource_subscriptions).await;
        Some(Self(Arc::new(Mutex::new(Some(watches)))))
    }

    fn take(&self) -> Option<Watches> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

async fn begin(kernel: &Kernel, who: &Principal, uris: &[String]) -> Watches {
    let mut watches = Vec::new();
    for (instance, addresses) in by_instance(uris.iter().filter_map(|uri| uri.parse().ok())) {
        for address in &addresses {
            may_watch(who, address)?;
        }
        let Some(place) = addresses.first().map(Address::place) else { continue };
        let feed = kernel.watch(who, Watched::Instance(place), None).await?;
        tracing::debug!(%instance, "somebody listens");
        watches.push(Watch { feed, addresses });
    }
    Ok(watches)
}

/// Tells of every change of what was accepted, until whoever listens goes away or the daemon does.
pub(super) async fn listen(
    begun: Option<&Begun>,
    who: &Principal,
    context: &SubscriptionContext,
    shutdown: &Shutdown,
) -> Result<(), Error> {
    let mut watches = JoinSet::new();
    // Every such request comes through the door that begins.
    for Watch { feed, addresses } in begun.and_then(Begun::take).unwrap_or(Ok(Vec::new()))? {
        watches.spawn(tell(feed, addresses, own(who).cloned(), context.sink().clone()));
    }
    tokio::select! {
        () = context.cancelled() => Ok(()),
        () = shutdown.streams_closed() => Ok(()),
        Some(ended) = watches.join_next() => ended.unwrap_or(Ok(())),
    }
}

fn by_instance(addresses: impl Iterator<Item = Address>) -> HashMap<InstanceRef, Vec<Address>> {
    let mut grouped: HashMap<_, Vec<_>> = HashMap::new();
    for address in addresses {
        grouped.entry(address.instance.clone()).or_default().push(address);
    }
    grouped
}

async fn tell(
    mut feed: Feed,
    addresses: Vec<Address>,
    own: Option<AgentName>,
    sink: SubscriptionSink,
) -> Result<(), Error> {
    while let Some(event) = feed.next().await? {
        for address in addresses.iter().filter(|one| changes(&event, one, own.as_ref())) {
            if let Err(error) = sink.notify_resource_updated(address.to_string()).await {
                tracing::debug!(%error, "nobody listens any more");
                return Ok(());
            }
        }
    }
    Ok(())
}
