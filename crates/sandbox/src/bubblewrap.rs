//! The arguments of bubblewrap for a policy: namespaces, and one mount per rule.

use std::path::Path;

use agent_worker_protocol::SandboxNetwork;

use crate::{
    gateway::{GATEWAY_SOCKET, GatewayPlan},
    policy::{PathAccess, SandboxPolicy},
};

/// Namespaces and capabilities of every sandbox of level `full`.
const NAMESPACE_ARGS: [&str; 12] = [
    "--unshare-user",
    "--unshare-pid",
    "--unshare-ipc",
    "--cap-drop",
    "ALL",
    "--die-with-parent",
    "--dev",
    "/dev",
    "--proc",
    "/proc",
    "--dir",
    "/run",
];

/// Returns the arguments before the program.
pub(crate) fn bubblewrap_args(
    policy: &SandboxPolicy,
    gateway: Option<&GatewayPlan>,
) -> Vec<String> {
    let mut args: Vec<String> = NAMESPACE_ARGS.map(str::to_owned).to_vec();
    let mut add = |words: &[&str]| args.extend(words.iter().map(|word| (*word).to_owned()));
    match policy.network {
        SandboxNetwork::Off | SandboxNetwork::Hosts(_) => add(&["--unshare-net"]),
        SandboxNetwork::Open => {}
    }
    for (path, access) in &policy.rules {
        let path = text(path);
        match access {
            PathAccess::ReadOnly => add(&["--ro-bind", &path, &path]),
            PathAccess::Writable => add(&["--bind", &path, &path]),
            PathAccess::Private(source) => add(&["--bind", &text(source), &path]),
            PathAccess::Empty | PathAccess::HiddenFolder => add(&["--tmpfs", &path]),
            PathAccess::HiddenFile => add(&["--ro-bind", "/dev/null", &path]),
        }
    }
    if let Some(GatewayPlan { socket, .. }) = gateway {
        add(&["--bind", &text(socket), GATEWAY_SOCKET]);
    }
    // Only after the mounts below it exist.
    for (path, access) in &policy.rules {
        if *access == PathAccess::HiddenFolder {
            add(&["--remount-ro", &text(path)]);
        }
    }
    add(&["--remount-ro", "/", "--chdir", &text(&policy.work), "--"]);
    args
}

/// Returns the arguments that show if the namespaces of `full` work on this machine.
pub(crate) fn probe_args() -> Vec<String> {
    let mut args: Vec<String> = NAMESPACE_ARGS.map(str::to_owned).to_vec();
    args.extend(["--unshare-net", "--ro-bind", "/", "/", "--"].map(str::to_owned));
    args
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
