//! `sandbox:` of an agent, for the backends that can run their program in one.

use agent_worker_protocol::{SandboxMode, SandboxNetwork, SandboxSettings};
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
        (
            "claude",
            "{ network: [example.org] }",
            "a list of hosts in `network` is not in this version",
        ),
        ("claude", "{ read: [''] }", "must be the path of a file or folder"),
        ("claude", "{ read: /data }", "must be a list"),
    ] {
        let error = of(backend, sandbox).unwrap_err();
        let shown = format!("{:?}", error.mistakes());
        assert!(shown.contains(why), "{backend} {sandbox}: {shown}");
    }
    assert!(of("mock", "off").is_ok());
}
