//! `sandbox:` of an agent: a word, or a mapping with further paths.

use std::path::PathBuf;

use agent_worker_backends::{BackendKind, BackendSpec};
use agent_worker_protocol::{
    MemoryLimit, NetworkHost, SandboxMode, SandboxNetwork, SandboxSettings,
};

use crate::{
    agents::require_support,
    diagnostics::diagnostic::{Diagnostic, Diagnostics},
    yaml::{
        Yaml,
        fields::{AllowedKeys, YamlField, YamlFields},
    },
};

const SANDBOX_KEYS: AllowedKeys =
    AllowedKeys { known: &["mode", "read", "write", "network", "memory"], planned: &[] };
/// Maximum number of hosts in `network`.
const MAX_HOSTS: usize = 60;
/// Words of `sandbox:` and of its key `mode`.
pub(crate) const SANDBOX_MODES: [(&str, SandboxMode); 3] =
    [("on", SandboxMode::On), ("full", SandboxMode::Full), ("off", SandboxMode::Off)];

/// Reads the sandbox of an agent, whose backend must be able to use one.
pub(crate) fn read(
    field: &YamlField<'_>,
    backend: Option<&BackendSpec>,
    diagnostics: &mut Diagnostics,
) -> SandboxSettings {
    let settings = if matches!(field.node.value, Yaml::Map(_)) {
        let Some(fields) = field.fields(&SANDBOX_KEYS, diagnostics) else {
            return SandboxSettings::default();
        };
        let settings = read_mapping(&fields, diagnostics);
        let network = fields.get("network");
        let network = network.and_then(|it| {
            let read = read_network(&it, backend).and_then(|read| match read {
                SandboxNetwork::Hosts(_) if settings.is_off() => Err(hosts_without_sandbox(&it)),
                read => Ok(read),
            });
            diagnostics.ok_or_add(read)
        });
        SandboxSettings { network: network.unwrap_or_default(), ..settings }
    } else {
        let mode = diagnostics.ok_or_add(field.one_of(&SANDBOX_MODES, &[]));
        SandboxSettings { mode: mode.unwrap_or_default(), ..SandboxSettings::default() }
    };
    if !settings.is_off() {
        diagnostics.ok_or_add(require_support("sandbox", |can| can.sandbox, backend, field));
    }
    if backend.is_some_and(|spec| spec.kind == BackendKind::Api) {
        return settings;
    }
    match settings.network {
        SandboxNetwork::Hosts(_) => settings,
        // The program reaches its model through the network.
        SandboxNetwork::Off | SandboxNetwork::Open => {
            SandboxSettings { network: SandboxNetwork::Open, ..settings }
        }
    }
}

fn read_mapping(fields: &YamlFields<'_>, diagnostics: &mut Diagnostics) -> SandboxSettings {
    let mode = fields.read_with("mode", diagnostics, |field| field.one_of(&SANDBOX_MODES, &[]));
    let read = fields.read_with("read", diagnostics, read_paths);
    let write = fields.read_with("write", diagnostics, read_paths);
    let memory = fields.read_with("memory", diagnostics, read_memory);
    SandboxSettings {
        mode: mode.unwrap_or(SandboxMode::On),
        read: read.unwrap_or_default(),
        write: write.unwrap_or_default(),
        network: SandboxNetwork::default(),
        memory: memory.unwrap_or_default(),
    }
}

fn read_memory(field: &YamlField<'_>) -> Result<MemoryLimit, Diagnostic> {
    let text = field.literal_text()?;
    text.parse().map_err(|error| field.diagnostic(format!("{error}")))
}

fn read_hosts(field: &YamlField<'_>) -> Result<Vec<NetworkHost>, Diagnostic> {
    let items = field.list()?;
    if items.is_empty() || items.len() > MAX_HOSTS {
        return Err(field.diagnostic(format!("`network` must list 1 to {MAX_HOSTS} hosts")));
    }
    let host = |item: &YamlField<'_>| {
        let text = item.literal_text()?;
        text.parse().map_err(|error| item.diagnostic(format!("{error}")))
    };
    items.iter().map(host).collect()
}

fn hosts_without_sandbox(field: &YamlField<'_>) -> Diagnostic {
    field
        .diagnostic("a list of hosts in `network` has no effect with `mode: off`")
        .with_hint("omit `mode: off`, or omit `network`")
}

fn read_paths(field: &YamlField<'_>) -> Result<Vec<PathBuf>, Diagnostic> {
    let path = |item: &YamlField<'_>| {
        let text = item.literal_text()?;
        if text.is_empty() || text.contains('\0') {
            return Err(item.must_be("the path of a file or folder"));
        }
        Ok(PathBuf::from(text))
    };
    field.list()?.iter().map(path).collect()
}

/// Refuses `false` for a whole program, which needs the network.
fn read_network(
    field: &YamlField<'_>,
    backend: Option<&BackendSpec>,
) -> Result<SandboxNetwork, Diagnostic> {
    if matches!(field.node.value, Yaml::List(_)) {
        return read_hosts(field).map(SandboxNetwork::Hosts);
    }
    if field.boolean()? {
        return Ok(SandboxNetwork::Open);
    }
    if backend.is_some_and(|spec| spec.kind == BackendKind::Api) {
        return Ok(SandboxNetwork::Off);
    }
    let name = backend.map_or("the backend", |backend| backend.name);
    Err(field
        .diagnostic(format!("`network: false` is not possible: `{name}` needs the network"))
        .with_hint("the program reaches its model through it; list its hosts, or omit `network`"))
}
