//! What is kept for a client that holds a stream: what it watches, and how it is told.
//!
//! Nothing it is told is only told: a notification says "look", and whoever missed it reads the same when it looks.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use agent_worker_kernel::{Error, Feed, Kernel, Place, Principal, Watched};
use agent_worker_protocol::{AgentName, Event, InstanceRef};
use rmcp::{
    Peer, RoleServer,
    model::{
        CustomNotification, ResourceUpdatedNotification, ResourceUpdatedNotificationParam,
        ServerNotification,
    },
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    address::{Address, Thing},
    changes::{changes, mentions},
};

const MENTION: &str = "notifications/mention";

/// One client's place at the table.
pub(super) struct Seat {
    kernel: Kernel,
    who: Principal,
    tasks: TaskTracker,
    /// How to speak to it; known once it has introduced itself.
    peer: OnceLock<Peer<RoleServer>>,
    watched: Mutex<Watching>,
    closing: CancellationToken,
}

/// What it watches. Each instance is watched once, however many of its things are.
#[derive(Default)]
struct Watching {
    wanted: HashSet<Address>,
    instances: HashMap<InstanceRef, CancellationToken>,
}

impl Seat {
    pub(super) fn new(kernel: Kernel, who: Principal, tasks: TaskTracker) -> Arc<Self> {
        Arc::new(Self {
            kernel,
            who,
            tasks,
            peer: OnceLock::new(),
            watched: Mutex::default(),
            closing: CancellationToken::new(),
        })
    }

    /// How it is spoken to from now on.
    pub(super) fn meet(&self, peer: Peer<RoleServer>) {
        // A client that introduces itself twice is still the same.
        let _ = self.peer.set(peer);
    }

    /// It is over: nothing is told any more.
    pub(super) fn leave(&self) {
        self.closing.cancel();
    }

    /// Waits until it is over.
    pub(super) async fn left(&self) {
        self.closing.cancelled().await;
    }

    /// Begins to watch an agent's own instance: it hears when it is mentioned, and of its attempt's end.
    pub(super) async fn watch_home(self: &Arc<Self>) -> Result<(), Error> {
        if self.own().is_none() {
            return Ok(());
        }
        let feed = self.feed(Place::default()).await?;
        let over = self.closing.child_token();
        self.tasks.spawn(Arc::clone(self).tell(feed, over, Home::Own));
        Ok(())
    }

    /// Watches one thing more. What happens to it from now on is told.
    pub(super) async fn subscribe(self: &Arc<Self>, address: Address) -> Result<(), Error> {
        may_watch(&self.who, &address)?;
        let feed = self.feed(address.place()).await?;
        let mut watching = self.watching();
        let instance = address.instance.clone();
        watching.wanted.insert(address);
        watching.instances.entry(instance).or_insert_with(|| {
            let over = self.closing.child_token();
            self.tasks.spawn(Arc::clone(self).tell(feed, over.clone(), Home::Other));
            over
        });
        Ok(())
    }

    /// Watches one thing less.
    pub(super) fn unsubscribe(&self, address: &Address) {
        let mut watching = self.watching();
        watching.wanted.remove(address);
        if watching.wanted.iter().all(|other| other.instance != address.instance)
            && let Some(over) = watching.instances.remove(&address.instance)
        {
            over.cancel();
        }
    }

    async fn feed(&self, place: Place) -> Result<Feed, Error> {
        self.kernel.watch(&self.who, Watched::Instance(place), None).await
    }

    async fn tell(self: Arc<Self>, mut feed: Feed, over: CancellationToken, home: Home) {
        loop {
            let event = tokio::select! {
                event = feed.next() => event,
                () = over.cancelled() => return,
            };
            match event {
                Ok(Some(event)) => self.pass_on(&event, home).await,
                // An attempt that is over watches nothing.
                Ok(None) => return self.leave(),
                Err(error) => {
                    tracing::error!(%error, "a client's watch broke off");
                    return self.leave();
                }
            }
        }
    }

    async fn pass_on(&self, event: &Event, home: Home) {
        let Some(peer) = self.peer.get() else { return };
        for note in self.notes(event, home) {
            if let Err(error) = peer.send_notification(note).await {
                tracing::debug!(%error, "a client was not told");
                return;
            }
        }
    }

    /// What there is to say of an event. An agent hears of its mentions at home, others in the channels they watch.
    fn notes(&self, event: &Event, home: Home) -> Vec<ServerNotification> {
        let own = self.own();
        let watching = self.watching();
        let updated = watching.wanted.iter().filter(|address| {
            home == Home::Other
                && address.instance == event.instance
                && changes(event, address, own)
        });
        let mut notes: Vec<ServerNotification> =
            updated.map(|address| self::updated(address).into()).collect();
        let channel = Address { instance: event.instance.clone(), thing: Thing::Channel };
        let hears = match own {
            Some(_) => home == Home::Own,
            None => watching.wanted.contains(&channel),
        };
        if hears {
            let mention = |params| CustomNotification::new(MENTION, Some(params)).into();
            notes.extend(mentions(event, own).into_iter().map(mention));
        }
        notes
    }

    fn own(&self) -> Option<&AgentName> {
        own(&self.who)
    }

    fn watching(&self) -> MutexGuard<'_, Watching> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why an instance is watched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Home {
    /// It is the agent's own.
    Own,
    /// Something of it was asked for.
    Other,
}

/// The agent somebody is, if one.
pub(super) fn own(who: &Principal) -> Option<&AgentName> {
    match who {
        Principal::Agent(attempt) => Some(&attempt.fence.agent),
        Principal::User | Principal::Client(_) | Principal::Nobody => None,
    }
}

/// Lets only an agent watch an inbox: its own. Whether an instance may be watched, the kernel says.
pub(super) fn may_watch(who: &Principal, address: &Address) -> Result<(), Error> {
    match (&address.thing, own(who)) {
        (Thing::Inbox, None) => Err(Error::Forbidden("only an agent has an inbox")),
        (Thing::Inbox, Some(_)) | (Thing::Channel | Thing::Document(_) | Thing::Proposal(_), _) => {
            Ok(())
        }
    }
}

fn updated(address: &Address) -> ResourceUpdatedNotification {
    ResourceUpdatedNotification::new(ResourceUpdatedNotificationParam::new(address.to_string()))
}
