//! `sandbox:` of an agent, for the backends that can run their program in one.

use agent_worker_protocol::{Backend, SandboxMode, SandboxNetwork, SandboxSettings};
use agent_worker_workflow::{Error, Workflow};

fn of(backend: &str, sandbox: &str) -> Result<Workflow, Error> {
    crate::read(&format!("agents:\n  a: {{ backend: {backend}, sandbox: {sandbox} }}\n"))
}

#[test]
fn a_word_and_a_mapping_are_read_and_the_network_is_open() {
    let settings = |mode| SandboxSettings {
        mode,
        network: SandboxNetwork::Open,
        ..SandboxSettings::default()
    };
    for (sandbox, expected) in [
        ("on", settings(SandboxMode::On)),
        ("full", settings(SandboxMode::Full)),
        ("off", settings(SandboxMode::Off)),
        ("{}", settings(SandboxMode::On)),
        ("{ mode: full, network: true }", settings(SandboxMode::Full)),
        (
            "{ read: [../docs, ~/notes], write: [/data] }",
            SandboxSettings {
                read: vec!["../docs".into(), "~/notes".into()],
                write: vec!["/data".into()],
                ..settings(SandboxMode::On)
            },
        ),
    ] {
        let workflow = of("command, command: [a]", sandbox).unwrap();
        assert_eq!(workflow.agents[0].sandbox, expected, "{sandbox}");
    }
    for backend in ["claude", "gemini", "opencode", "acp, agent: gemini", "acp, command: [a]"] {
        assert!(of(backend, "on").is_ok(), "{backend}");
    }
    assert!(crate::read("agents: { a: { backend: claude } }").unwrap().agents[0].sandbox.is_off());
}

#[test]
fn hosts_and_a_limit_of_memory_are_read_for_tools_and_for_whole_programs() {
    let list = "{ network: [Registry.Example.org, '*.example.com', localhost:8080], memory: 2GiB }";
    for backend in ["api, model: anthropic/x", "claude", "command, command: [a]"] {
        let sandbox = of(backend, list).unwrap().agents[0].sandbox.clone();
        let hosts = sandbox.network.hosts().unwrap();
        let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        assert_eq!(hosts, ["registry.example.org", "*.example.com", "localhost:8080"], "{backend}");
        assert_eq!(sandbox.memory.to_string(), "2GiB", "{backend}");
    }
    let listed = of("api, model: anthropic/x", list).unwrap();
    let Backend::Api(api) = &listed.agents[0].backend else { panic!("{listed:?}") };
    assert!(!api.tools.contains(&"fetch_url".to_owned()), "{:?}", api.tools);
}

#[test]
fn a_sandbox_that_cannot_be_kept_is_refused() {
    for (backend, sandbox, why) in [
        ("mock", "on", "`sandbox` is not supported by backend `mock`"),
        ("cursor", "full", "`sandbox` is not supported by backend `cursor`"),
        (
            "codex",
            "{ mode: on }",
            "supported by `claude`, `gemini`, `opencode`, `api`, `acp`, `command`",
        ),
        ("claude", "yes", "must be `on` or `full` or `off`, not `yes`"),
        ("claude", "true", "must be `on` or `full` or `off`"),
        ("claude", "{ mode: ful }", "did you mean `full`?"),
        (
            "claude",
            "{ network: false }",
            "`network: false` is not possible: `claude` needs the network",
        ),
        ("claude", "{ network: [] }", "`network` must list 1 to 60 hosts"),
        ("claude", "{ network: [http://example.org] }", "`http://example.org` names no host"),
        ("claude", "{ network: [localhost] }", "this machine needs a port from 1024"),
        ("claude", "{ network: ['*.org'] }", "a pattern needs two names"),
        (
            "api, model: anthropic/x",
            "{ mode: off, network: [a.example] }",
            "has no effect with `mode: off`",
        ),
        ("claude", "{ memory: 2GB }", "`2GB` is not a limit of memory"),
        ("claude", "{ memory: 1MiB }", "from 64MiB to 1024GiB"),
        ("claude", "{ read: [''] }", "must be the path of a file or folder"),
        ("claude", "{ read: /data }", "must be a list"),
    ] {
        let error = of(backend, sandbox).unwrap_err();
        let shown = format!("{:?}", error.mistakes());
        assert!(shown.contains(why), "{backend} {sandbox}: {shown}");
    }
    assert!(of("mock", "off").is_ok());
}
