//! The decision about a target of the proxy, and the report of refused ones. The decision is pure.
//!
//! A name is looked up once. Every address that was found must be allowed, and only these addresses are connected to, so a
//! name whose address changes in between gains nothing.

use std::{
    collections::BTreeSet,
    fmt,
    net::{IpAddr, SocketAddr},
    sync::Mutex,
};

use agent_worker_host::{is_public, is_remote};
use agent_worker_protocol::{HostListing, NetworkHost, NetworkTarget, TargetHost, sync};
use tokio::sync::mpsc;

/// Number of refused targets that are reported: an agent can invent any number.
const MAX_REPORTS: usize = 32;

/// The reason why a target is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// No entry of the list names it.
    NotListed(NetworkTarget),
    /// The name has an address that only an entry with the address allows.
    Address { target: NetworkTarget, address: IpAddr },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotListed(target) => write!(
                f,
                "`{target}` is not among the hosts that this sandbox may reach; to allow it, add `{}` to the hosts of the \
                 sandbox's `network`",
                entry_for(target)
            ),
            Self::Address { target, address } => {
                let listed =
                    NetworkTarget { host: TargetHost::Address(*address), port: target.port };
                write!(
                    f,
                    "`{target}` has the address {address}, which is this machine, in a private network or a service of a \
                     cloud; to allow it, add `{}` to the hosts of the sandbox's `network`",
                    entry_for(&listed)
                )
            }
        }
    }
}

/// Returns the entry that lists a target.
fn entry_for(target: &NetworkTarget) -> String {
    let text = target.to_string();
    match target.port {
        80 | 443 => text.rsplit_once(':').map(|(host, _)| host.to_owned()).unwrap_or(text),
        _ => text,
    }
}

/// Returns the strongest way in which the list names a target.
pub(super) fn find_listing(
    hosts: &[NetworkHost],
    target: &NetworkTarget,
) -> Result<HostListing, Refusal> {
    let listings = hosts.iter().filter_map(|host| host.listing(target));
    listings.max().ok_or_else(|| Refusal::NotListed(target.clone()))
}

/// Checks every address of a listed target.
pub(super) fn check_addresses(
    hosts: &[NetworkHost],
    target: &NetworkTarget,
    listing: HostListing,
    found: &[SocketAddr],
) -> Result<(), Refusal> {
    let is_listed = |address: IpAddr| {
        let target = NetworkTarget { host: TargetHost::Address(address), port: target.port };
        find_listing(hosts, &target).is_ok()
    };
    for address in found.iter().map(|address| address.ip().to_canonical()) {
        let is_allowed = match listing {
            HostListing::Pattern => is_public(address),
            HostListing::Name => is_remote(address),
            HostListing::Address => true,
        };
        if !is_allowed && !is_listed(address) {
            return Err(Refusal::Address { target: target.clone(), address });
        }
    }
    Ok(())
}

/// Reports each refused target once, up to a number.
#[derive(Debug)]
pub(super) struct RefusalLog {
    reports: mpsc::Sender<String>,
    seen: Mutex<BTreeSet<NetworkTarget>>,
}

impl RefusalLog {
    pub(super) fn new(reports: mpsc::Sender<String>) -> Self {
        Self { reports, seen: Mutex::default() }
    }

    pub(super) fn add(&self, refusal: &Refusal) {
        let (Refusal::NotListed(target) | Refusal::Address { target, .. }) = refusal;
        let mut seen = sync::lock(&self.seen);
        if seen.len() > MAX_REPORTS || !seen.insert(target.clone()) {
            return;
        }
        let text = match seen.len() {
            ..=MAX_REPORTS => format!("the sandbox refused a connection: {refusal}"),
            _ => "the sandbox refused further connections, which are not reported".to_owned(),
        };
        // A reader that is this late misses a line.
        let _ = self.reports.try_send(text);
    }
}
