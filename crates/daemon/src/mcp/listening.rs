//! `subscriptions/listen`: one request that is answered with what changes, for as long as it lasts.

use std::collections::HashMap;

use agent_worker_kernel::{Error, Feed, Kernel, Principal, Watched};
use agent_worker_protocol::{AgentName, InstanceRef};
use rmcp::service::{SubscriptionContext, SubscriptionSink};
use tokio::task::JoinSet;

use super::{
    address::Address,
    changes::changes,
    seat::{may_watch, own},
};
use crate::shutdown::Shutdown;

/// Tells of every change of what was accepted, until whoever listens goes away or the daemon does.
pub(super) async fn listen(
    kernel: &Kernel,
    who: &Principal,
    context: &SubscriptionContext,
    shutdown: &Shutdown,
) -> Result<(), Error> {
    let mut watches = JoinSet::new();
    let wanted = context.accepted().resource_subscriptions.iter().flatten();
    for (instance, addresses) in by_instance(wanted.filter_map(|uri| uri.parse().ok())) {
        for address in &addresses {
            may_watch(who, address)?;
        }
        let Some(place) = addresses.first().map(Address::place) else { continue };
        let feed = kernel.watch(who, Watched::Instance(place), None).await?;
        tracing::debug!(%instance, "somebody listens");
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
