//! The network of a sandbox that may reach listed hosts alone.
//!
//! The sandbox has a network namespace of its own. The process that applies the sandbox opens ports on its loopback there
//! and passes their listeners to the process outside (`gateway/handoff.rs`), before the program starts. So the connections
//! of the program arrive outside without a relay inside: at the proxy (`gateway/proxy.rs`), or at a port of this machine
//! that has the same number inside. The gateway ends with its value, and its connections with it.

mod activity;
mod exchange;
mod handoff;
mod proxy;
mod refusal;
#[cfg(test)]
mod tests;

use std::{
    convert::Infallible,
    future::pending,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
};

use agent_worker_protocol::{NetworkHost, NetworkTarget, TargetHost};
use serde::{Deserialize, Serialize};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::{Semaphore, mpsc},
    task::JoinSet,
    time::{Duration, sleep},
};

pub(crate) use self::handoff::pass_listeners;
use self::{
    handoff::{HandoffSocket, MAX_LISTENERS},
    proxy::{HttpProxy, connect_first},
    refusal::RefusalLog,
};
use crate::error::SandboxError;

/// Path of the socket inside, which takes one connection: that of the process that applies the sandbox.
pub(crate) const GATEWAY_SOCKET: &str = "/run/agent-worker-network.sock";
/// Maximum number of open connections to the proxy, and to all forwarded ports; further ones wait.
const MAX_CONNECTIONS: usize = 128;
/// Backoff after the process has run out of file descriptors.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);
/// Number of reports that may wait; a report is a line.
const MAX_WAITING_REPORTS: usize = 64;

/// The part of a gateway inside the sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GatewayPlan {
    /// Path of the socket outside.
    pub(crate) socket: PathBuf,
    /// The ports of this machine that exist inside.
    pub(crate) forwarded: Vec<SocketAddr>,
}

/// The part of a gateway outside: its proxy, and the ports of this machine that the list names.
#[derive(Debug)]
pub(crate) struct NetworkGateway {
    handoff: HandoffSocket,
    hosts: Vec<NetworkHost>,
    forwarded: Vec<NetworkTarget>,
}

impl NetworkGateway {
    /// Opens the gateway of one process, with its socket in a private folder. The process also reaches these ports of this
    /// machine.
    pub(crate) fn open(
        folder: &Path,
        hosts: &[NetworkHost],
        ports: &[u16],
    ) -> Result<(Self, GatewayPlan), SandboxError> {
        let own = ports.iter().map(|port| NetworkTarget {
            host: TargetHost::Address(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            port: *port,
        });
        let listed = hosts.iter().filter_map(NetworkHost::loopback_target);
        let mut targets: Vec<NetworkTarget> = own.chain(listed).collect();
        let mut seen = Vec::new();
        targets.retain(|target| {
            let place = place_inside(target);
            let is_new = !seen.contains(&place);
            seen.push(place);
            is_new
        });
        if targets.len() >= MAX_LISTENERS {
            let too_many = io::Error::other("the list names too many ports of this machine");
            return Err(SandboxError::during("open the network of the sandbox")(too_many));
        }
        let forwarded = targets.iter().map(place_inside).collect();
        let (handoff, socket) = HandoffSocket::open(folder)
            .map_err(SandboxError::during("open the socket of the network"))?;
        let gateway = Self { handoff, hosts: hosts.to_vec(), forwarded: targets };
        Ok((gateway, GatewayPlan { socket, forwarded }))
    }

    /// Serves the sandbox until this future is dropped. Each refused host is reported once, as a line.
    pub(crate) async fn serve(self, mut report: impl FnMut(String)) -> Infallible {
        let Self { handoff, hosts, forwarded } = self;
        let mut listeners = match handoff.receive().await {
            Ok(listeners) => listeners.into_iter(),
            Err(error) => {
                report(format!("the sandbox has no network: {error}"));
                return pending().await;
            }
        };
        let (send, mut reports) = mpsc::channel(MAX_WAITING_REPORTS);
        let mut tasks = JoinSet::new();
        if let Some(listener) = listeners.next() {
            let proxy = Arc::new(HttpProxy::new(hosts, RefusalLog::new(send)));
            let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
            tasks.spawn(accept_all(listener, places, move |stream| {
                Arc::clone(&proxy).serve(stream)
            }));
        }
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        for (listener, target) in listeners.zip(forwarded) {
            let serve = move |stream| forward(stream, target.clone());
            tasks.spawn(accept_all(listener, Arc::clone(&places), serve));
        }
        while let Some(line) = reports.recv().await {
            report(line);
        }
        pending().await
    }
}

/// Returns the address inside that leads to a port of this machine.
fn place_inside(target: &NetworkTarget) -> SocketAddr {
    let address = match target.host {
        TargetHost::Address(address) => address,
        TargetHost::Name(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
    };
    SocketAddr::new(address, target.port)
}

/// Accepts connections while there are places for them.
async fn accept_all<S, F>(listener: TcpListener, places: Arc<Semaphore>, serve: S)
where
    S: Fn(TcpStream) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let served = serve(stream);
                connections.spawn(async move {
                    served.await;
                    drop(place);
                });
            }
            Err(_) => sleep(ACCEPT_BACKOFF).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

/// Connects a port inside with the same port of this machine.
async fn forward(mut inside: TcpStream, target: NetworkTarget) {
    let work = async {
        let found = match &target.host {
            TargetHost::Address(address) => vec![SocketAddr::new(*address, target.port)],
            TargetHost::Name(name) => {
                tokio::net::lookup_host((name.as_str(), target.port)).await?.collect()
            }
        };
        let mut outside = connect_first(&found).await?;
        copy_bidirectional(&mut inside, &mut outside).await
    };
    // The program sees the end of its connection.
    let _: io::Result<_> = work.await;
}
