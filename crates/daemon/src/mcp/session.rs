//! State of a client that holds a stream: its subscriptions, and the connection for notifications.
//!
//! A notification only signals a change: a client that misses one reads the same state with its next read.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, OnceLock},
};

use agent_worker_kernel::{
    Error, EventSubscription, InstanceSelector, Kernel, Principal, WatchSubject,
};
use agent_worker_protocol::{AgentName, Event, InstanceRef, sync};
use rmcp::{
    Peer, RoleServer,
    model::{
        CustomNotification, ResourceUpdatedNotification, ResourceUpdatedNotificationParam,
        ServerNotification,
    },
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    resource_changes::{affects_resource, mention_notifications},
    resource_uri::{ResourceKind, ResourceUri},
};

const MENTION_METHOD: &str = "notifications/mention";

/// The session of one client.
pub(super) struct McpSession {
    kernel: Kernel,
    who: Principal,
    tasks: TaskTracker,
    /// The connection to the client; known after it has initialized the session.
    peer: OnceLock<Peer<RoleServer>>,
    subscriptions: Mutex<McpSubscriptions>,
    closing: CancellationToken,
}

/// Subscriptions of a client. Each instance is watched once, however many of its resources are subscribed.
#[derive(Default)]
struct McpSubscriptions {
    uris: HashSet<ResourceUri>,
    instances: HashMap<InstanceRef, CancellationToken>,
}

impl McpSession {
    pub(super) fn new(kernel: Kernel, who: Principal, tasks: TaskTracker) -> Arc<Self> {
        Arc::new(Self {
            kernel,
            who,
            tasks,
            peer: OnceLock::new(),
            subscriptions: Mutex::default(),
            closing: CancellationToken::new(),
        })
    }

    /// Sets the connection for notifications.
    pub(super) fn set_peer(&self, peer: Peer<RoleServer>) {
        // A client that initializes twice keeps its first connection.
        let _ = self.peer.set(peer);
    }

    /// Closes the session: it sends no further notifications.
    pub(super) fn close(&self) {
        self.closing.cancel();
    }

    /// Waits until the session is closed.
    pub(super) async fn closed(&self) {
        self.closing.cancelled().await;
    }

    /// Starts to watch an agent's own instance: the agent is notified of its mentions and of its attempt's end.
    pub(super) async fn watch_own_instance(self: &Arc<Self>) -> Result<(), Error> {
        if self.own_agent().is_none() {
            return Ok(());
        }
        let feed = self.open_feed(InstanceSelector::default()).await?;
        let over = self.closing.child_token();
        self.tasks.spawn(Arc::clone(self).forward_events(feed, over, WatchReason::OwnInstance));
        Ok(())
    }

    /// Subscribes to a resource; changes from now on are notified.
    pub(super) async fn subscribe(self: &Arc<Self>, address: ResourceUri) -> Result<(), Error> {
        check_watch_allowed(&self.who, &address)?;
        let feed = self.open_feed(address.instance_target()).await?;
        let mut watching = self.lock_subscriptions();
        let instance = address.instance.clone();
        watching.uris.insert(address);
        watching.instances.entry(instance).or_insert_with(|| {
            let over = self.closing.child_token();
            self.tasks.spawn(Arc::clone(self).forward_events(
                feed,
                over.clone(),
                WatchReason::Subscription,
            ));
            over
        });
        Ok(())
    }

    /// Returns the number of subscribed resources.
    pub(super) fn subscription_count(&self) -> usize {
        self.lock_subscriptions().uris.len()
    }

    /// Cancels the subscription to a resource.
    pub(super) fn unsubscribe(&self, address: &ResourceUri) {
        let mut watching = self.lock_subscriptions();
        watching.uris.remove(address);
        if watching.uris.iter().all(|other| other.instance != address.instance)
            && let Some(over) = watching.instances.remove(&address.instance)
        {
            over.cancel();
        }
    }

    async fn open_feed(&self, place: InstanceSelector) -> Result<EventSubscription, Error> {
        self.kernel.runs().watch(&self.who, WatchSubject::Instance(place), None).await
    }

    async fn forward_events(
        self: Arc<Self>,
        mut feed: EventSubscription,
        over: CancellationToken,
        reason: WatchReason,
    ) {
        loop {
            let event = tokio::select! {
                event = feed.next() => event,
                () = over.cancelled() => return,
            };
            match event {
                Ok(Some(event)) => self.notify_client(&event, reason).await,
                // The attempt of the agent has ended.
                Ok(None) => return self.close(),
                Err(error) => {
                    tracing::error!(%error, "the event subscription of a client failed");
                    return self.close();
                }
            }
        }
    }

    async fn notify_client(&self, event: &Event, reason: WatchReason) {
        let Some(peer) = self.peer.get() else { return };
        for note in self.notifications_for(event, reason) {
            if let Err(error) = peer.send_notification(note).await {
                tracing::debug!(%error, "could not notify a client");
                return;
            }
        }
    }

    /// Returns the notifications for an event. An agent gets its mentions from its own instance, others from
    /// subscribed channels.
    fn notifications_for(&self, event: &Event, reason: WatchReason) -> Vec<ServerNotification> {
        let own = self.own_agent();
        let watching = self.lock_subscriptions();
        let updated = watching.uris.iter().filter(|address| {
            reason == WatchReason::Subscription
                && address.instance == event.instance
                && affects_resource(event, address, own)
        });
        let mut notes: Vec<ServerNotification> =
            updated.map(|address| self::resource_updated(address).into()).collect();
        let channel =
            ResourceUri { instance: event.instance.clone(), resource: ResourceKind::Channel };
        let hears = match own {
            Some(_) => reason == WatchReason::OwnInstance,
            None => watching.uris.contains(&channel),
        };
        if hears {
            let mention = |params| CustomNotification::new(MENTION_METHOD, Some(params)).into();
            notes.extend(mention_notifications(event, own).into_iter().map(mention));
        }
        notes
    }

    fn own_agent(&self) -> Option<&AgentName> {
        own_agent(&self.who)
    }

    fn lock_subscriptions(&self) -> MutexGuard<'_, McpSubscriptions> {
        sync::lock(&self.subscriptions)
    }
}

/// The reason why an instance is watched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WatchReason {
    /// The instance is the agent's own.
    OwnInstance,
    /// The client subscribed to a resource of the instance.
    Subscription,
}

/// Returns the name of the agent, if the caller is one.
pub(super) fn own_agent(who: &Principal) -> Option<&AgentName> {
    match who {
        Principal::Agent(attempt) => Some(&attempt.fence.agent),
        Principal::User | Principal::Client(_) | Principal::Anonymous => None,
    }
}

/// Allows only an agent to watch an inbox, its own. The kernel decides about the instance.
pub(super) fn check_watch_allowed(who: &Principal, address: &ResourceUri) -> Result<(), Error> {
    match (&address.resource, own_agent(who)) {
        (ResourceKind::Inbox, None) => Err(Error::Forbidden("only an agent has an inbox")),
        (ResourceKind::Inbox, Some(_))
        | (ResourceKind::Channel | ResourceKind::Document(_) | ResourceKind::Proposal(_), _) => {
            Ok(())
        }
    }
}

fn resource_updated(address: &ResourceUri) -> ResourceUpdatedNotification {
    ResourceUpdatedNotification::new(ResourceUpdatedNotificationParam::new(address.to_string()))
}
