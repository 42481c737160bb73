//! The HTTP proxy of a sandbox: tunnels by `CONNECT`, and plain requests, to the hosts of a list.
//!
//! Invariants: a connection is made only to an address that was checked, and no name is looked up a second time. One
//! connection carries one request, whose `Host` is that of its target. Size of the head, time for it, and time without
//! any bytes are bounded.

use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use agent_worker_protocol::{NetworkHost, NetworkTarget, TargetHost, sync};
use hyper::{StatusCode, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::copy_bidirectional,
    net::{TcpStream, lookup_host},
    time::timeout,
};

use super::{
    activity::Activity,
    exchange::Exchange,
    refusal::{RefusalLog, check_addresses, find_listing},
};

/// Maximum size of the head of a request.
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// Time for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Time after which a connection ends on which nothing moves.
const IDLE_TIMEOUT: Duration = Duration::from_mins(10);
/// Time for looking up a name, and for connecting to one address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of addresses of one name that are tried.
const MAX_ADDRESSES: usize = 4;

/// The proxy of one sandbox.
pub(super) struct HttpProxy {
    hosts: Vec<NetworkHost>,
    refusals: RefusalLog,
}

/// The answer to a request that the proxy does not pass on.
#[derive(Debug)]
pub(super) struct ProxyError {
    pub(super) status: StatusCode,
    pub(super) text: String,
}

impl ProxyError {
    pub(super) fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into() }
    }
}

impl HttpProxy {
    pub(super) fn new(hosts: Vec<NetworkHost>, refusals: RefusalLog) -> Self {
        Self { hosts, refusals }
    }

    /// Serves one connection to its end.
    pub(super) async fn serve(self: Arc<Self>, stream: TcpStream) {
        let activity = Activity::new();
        let stream = TokioIo::new(activity.watch(stream));
        let exchange = Arc::new(Mutex::new(Exchange::default()));
        let work = async {
            let service = service_fn(|request| {
                let (proxy, exchange) = (Arc::clone(&self), Arc::clone(&exchange));
                async move { Ok::<_, Infallible>(proxy.handle(request, &exchange).await) }
            });
            let served = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                .max_buf_size(MAX_HEAD_BYTES)
                .keep_alive(false)
                .serve_connection(stream, service)
                .with_upgrades()
                .await;
            let tunnel = sync::lock(&exchange).take_tunnel();
            if let (Ok(()), Some((upgrade, mut outside))) = (served, tunnel)
                && let Ok(inside) = upgrade.await
            {
                // Both ends see the end of the tunnel.
                let _ = copy_bidirectional(&mut TokioIo::new(inside), &mut outside).await;
            }
        };
        tokio::select! {
            () = work => {}
            () = activity.wait_idle(IDLE_TIMEOUT) => {}
        }
    }

    /// Connects to a target, if the list allows it and all of its addresses.
    pub(super) async fn connect(&self, target: &NetworkTarget) -> Result<TcpStream, ProxyError> {
        let refused = |refusal| {
            self.refusals.add(&refusal);
            ProxyError::new(StatusCode::FORBIDDEN, refusal.to_string())
        };
        let listing = find_listing(&self.hosts, target).map_err(refused)?;
        let unreachable = |error: io::Error| {
            ProxyError::new(
                StatusCode::BAD_GATEWAY,
                format!("could not connect to `{target}`: {error}"),
            )
        };
        let found = addresses_of(target).await.map_err(unreachable)?;
        check_addresses(&self.hosts, target, listing, &found).map_err(refused)?;
        connect_first(&found).await.map_err(unreachable)
    }
}

async fn addresses_of(target: &NetworkTarget) -> io::Result<Vec<SocketAddr>> {
    match &target.host {
        TargetHost::Address(address) => Ok(vec![SocketAddr::new(*address, target.port)]),
        TargetHost::Name(name) => {
            let found = timeout(CONNECT_TIMEOUT, lookup_host((name.as_str(), target.port)));
            Ok(found.await??.collect())
        }
    }
}

/// Connects to the first address that answers.
pub(super) async fn connect_first(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in addresses.iter().take(MAX_ADDRESSES) {
        match timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = error,
            Err(elapsed) => last = elapsed.into(),
        }
    }
    Err(last)
}
