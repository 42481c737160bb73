//! A daemon with the fixtures of the protocol's conformance suite, for `tests/system/conformance.rs` only.
//!
//! It is the daemon of the product with one more parameter. It runs no agents.

mod fixtures;

use std::{collections::BTreeMap, env, io, sync::Arc};

use agent_worker_daemon::{DaemonSettings, Options, StartedBy, Tracking};
use agent_worker_protocol::Span;

use fixtures::Fixtures;

/// Starts the daemon in the home folder that the first argument names.
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let home = env::args_os().nth(1).ok_or_else(|| io::Error::other("name a home folder"))?;
    let settings = DaemonSettings {
        home: home.into(),
        port: Some(0),
        allowed_uids: Vec::new(),
        options: Options::default(),
        drain_grace: Span::from_secs(1),
        tracking: Tracking::Tree,
        started_by: StartedBy::Command,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        fixtures: Some(Arc::new(Fixtures::default())),
        env: BTreeMap::new(),
    };
    let runtime = tokio::runtime::Runtime::new()?;
    Ok(runtime.block_on(agent_worker_daemon::serve(settings))?)
}
