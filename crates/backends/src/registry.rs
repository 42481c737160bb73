//! The backends, one row each. `agent-worker backends` lists them in this order.

use agent_worker_protocol::{Backend, Effort};

use crate::{
    acp_agents::{ACP_AGENTS, find_acp_agent},
    logins::{CLAUDE_LOGIN, CODEX_LOGIN, CURSOR_LOGIN, GEMINI_LOGIN, NO_LOGIN, OPENCODE_LOGIN},
    models::ModelNames,
    providers::EndpointSource,
    reserved_args::{
        CLAUDE_RESERVED_ARGS, CODEX_RESERVED_ARGS, CURSOR_RESERVED_ARGS, GEMINI_RESERVED_ARGS,
        OPENCODE_RESERVED_ARGS,
    },
    spec::{
        ACP_TOOL_KINDS, BackendCapabilities, BackendKind, BackendSpec,
        CapabilitySupport::{self, Limited, Yes},
        PermissionSupport,
    },
    variables::{CLAUDE_CLOUDS, GEMINI_CLOUDS},
};

/// Passes the names of the rows with `BackendKind::Program` to a macro. The worker makes its table of adapters of them;
/// messages and the schema of the workflow file list them in this order.
#[macro_export]
macro_rules! for_each_program {
    ($callback:ident) => {
        $callback! { claude codex gemini opencode cursor }
    };
}

/// Variables of Claude Code, also over the Agent Client Protocol.
pub(crate) const CLAUDE_VARIABLES: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "API_TIMEOUT_MS",
    "CLAUDE_CODE_CLIENT_CERT",
    "CLAUDE_CODE_CLIENT_KEY",
    "CLAUDE_CODE_CLIENT_KEY_PASSPHRASE",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CONFIG_DIR",
];

/// Variables of Codex, also over the Agent Client Protocol.
pub(crate) const CODEX_VARIABLES: &[&str] =
    &["CODEX_API_KEY", "CODEX_CA_CERTIFICATE", "OPENAI_API_KEY", "OPENAI_BASE_URL", "CODEX_HOME"];

/// Variables of Gemini CLI, also over the Agent Client Protocol.
pub(crate) const GEMINI_VARIABLES: &[&str] =
    &["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GEMINI_CLI_HOME"];

/// Kinds of calls that Codex asks about: a change of files, a command, a call to a server of the user.
const CODEX_TOOL_KINDS: [&str; 3] = ["edit", "execute", "other"];

macro_rules! names {
    ($($name:ident)*) => { [$(stringify!($name)),*] };
}

/// A row with nothing in it.
const EMPTY: BackendSpec = BackendSpec {
    name: "",
    aliases: &[],
    description: "",
    kind: BackendKind::Program,
    programs: &[],
    install: None,
    variables: &[],
    clouds: &[],
    key_variables: &[],
    login: NO_LOGIN,
    endpoint: EndpointSource::Unknown,
    model_names: ModelNames::AsWritten,
    can: BackendCapabilities::NONE,
    permissions: PermissionSupport::Unsupported,
    reserved_args: &[],
    efforts: &[],
    open_session: None,
    isolated_homes: &[],
    oldest_version: None,
    tested_version: None,
    unverified: &[],
};

/// The tests have a model of their own, and keys that only it accepts.
const UNVERIFIED_VENDOR_ACCESS: &[&str] = &["the vendor's own servers", "a login of yours"];

/// The rows of all backends.
pub static BACKENDS: [BackendSpec; 9] = [
    BackendSpec {
        name: "mock",
        description: "follows a script: no model, no key, no cost; for tests and for trying out",
        kind: BackendKind::Mock,
        can: BackendCapabilities { max_steps: Yes, ..BackendCapabilities::NONE },
        ..EMPTY
    },
    BackendSpec {
        name: "api",
        aliases: &["sdk", "default"],
        description: "a model's API, called directly",
        kind: BackendKind::Api,
        can: BackendCapabilities {
            stream: Yes,
            cost: Limited("by list price"),
            resume: Yes,
            max_steps: Yes,
            max_tokens: Yes,
            effort: Yes,
            mid_turn: CapabilitySupport::JOINS,
            approvals: Yes,
            sandbox: Limited("its tools"),
        },
        permissions: PermissionSupport::PerTool,
        efforts: &[Effort::Low, Effort::Medium, Effort::High, Effort::Xhigh, Effort::Max],
        unverified: &["the providers' own servers"],
        ..EMPTY
    },
    BackendSpec {
        name: "claude",
        description: "Claude Code",
        programs: &["claude"],
        install: Some("npm install --global @anthropic-ai/claude-code"),
        variables: CLAUDE_VARIABLES,
        clouds: CLAUDE_CLOUDS,
        key_variables: &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"],
        login: CLAUDE_LOGIN,
        endpoint: EndpointSource::Provider("anthropic"),
        model_names: ModelNames::Bare(&["anthropic", "claude"]),
        can: BackendCapabilities {
            stream: Yes,
            cost: Yes,
            resume: Yes,
            approvals: Yes,
            max_steps: Yes,
            max_tokens: Yes,
            effort: Yes,
            mid_turn: CapabilitySupport::JOINS,
            sandbox: Yes,
        },
        efforts: &[Effort::Low, Effort::Medium, Effort::High, Effort::Xhigh, Effort::Max],
        // Older versions insert files that a message mentions.
        oldest_version: Some("2.1.299"),
        permissions: PermissionSupport::PerTool,
        tested_version: Some("2.1.325"),
        unverified: UNVERIFIED_VENDOR_ACCESS,
        open_session: Some("claude --resume"),
        isolated_homes: &[("CLAUDE_CONFIG_DIR", "claude")],
        reserved_args: CLAUDE_RESERVED_ARGS,
        ..EMPTY
    },
    BackendSpec {
        name: "codex",
        description: "Codex CLI",
        programs: &["codex"],
        install: Some("npm install --global @openai/codex"),
        variables: CODEX_VARIABLES,
        key_variables: &["CODEX_API_KEY", "OPENAI_API_KEY"],
        login: CODEX_LOGIN,
        endpoint: EndpointSource::Provider("openai"),
        model_names: ModelNames::Bare(&["openai", "codex"]),
        can: BackendCapabilities {
            stream: Limited("a message at a time"),
            cost: Limited("by list price"),
            resume: Yes,
            approvals: Yes,
            effort: Yes,
            mid_turn: CapabilitySupport::JOINS,
            ..BackendCapabilities::NONE
        },
        efforts: &[Effort::Low, Effort::Medium, Effort::High, Effort::Xhigh, Effort::Max],
        permissions: PermissionSupport::PerKind(&CODEX_TOOL_KINDS),
        tested_version: Some("0.166.0"),
        unverified: UNVERIFIED_VENDOR_ACCESS,
        open_session: Some("codex resume"),
        isolated_homes: &[("CODEX_HOME", "codex")],
        reserved_args: CODEX_RESERVED_ARGS,
        ..EMPTY
    },
    BackendSpec {
        name: "cursor",
        description: "Cursor's CLI",
        programs: &["cursor-agent", "agent"],
        install: Some("curl https://cursor.com/install -fsS | bash"),
        variables: &["CURSOR_API_KEY", "XDG_CONFIG_HOME"],
        key_variables: &["CURSOR_API_KEY"],
        login: CURSOR_LOGIN,
        endpoint: EndpointSource::Provider("cursor"),
        model_names: ModelNames::Bare(&["cursor"]),
        can: BackendCapabilities {
            stream: Limited("a message at a time"),
            resume: Yes,
            ..BackendCapabilities::NONE
        },
        permissions: PermissionSupport::DefaultOnly {
            hint: "set `default: allow` or `default: deny`",
        },
        unverified: &["we cannot test it without a vendor account"],
        open_session: Some("cursor-agent --resume"),
        reserved_args: CURSOR_RESERVED_ARGS,
        ..EMPTY
    },
    BackendSpec {
        name: "opencode",
        description: "opencode",
        programs: &["opencode"],
        install: Some("npm install --global opencode-ai"),
        // Those of every provider that its model may be of.
        variables: &[
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_BASE_URL",
            "GEMINI_API_KEY",
            "GOOGLE_GEMINI_BASE_URL",
            "GOOGLE_GENERATIVE_AI_API_KEY",
            "OPENAI_API_KEY",
            "OPENAI_BASE_URL",
            "OPENCODE_API_KEY",
            "OPENCODE_CONFIG",
            "OPENCODE_CONFIG_DIR",
            "OPENROUTER_API_KEY",
            "XDG_CONFIG_HOME",
            "XDG_DATA_HOME",
            "XDG_STATE_HOME",
        ],
        key_variables: &[
            "ANTHROPIC_API_KEY",
            "OPENAI_API_KEY",
            "GEMINI_API_KEY",
            "OPENROUTER_API_KEY",
            "OPENCODE_API_KEY",
        ],
        login: OPENCODE_LOGIN,
        endpoint: EndpointSource::ProviderOfModel(&["opencode", "anthropic", "openai", "google"]),
        model_names: ModelNames::Full,
        can: BackendCapabilities {
            stream: Limited("a message at a time"),
            cost: Limited("where it knows the price"),
            resume: Yes,
            effort: Limited("if the model has variants"),
            sandbox: Yes,
            ..BackendCapabilities::NONE
        },
        efforts: &[Effort::Low, Effort::Medium, Effort::High],
        permissions: PermissionSupport::DefaultOnly {
            hint: "set `default: allow` or `default: deny`",
        },
        tested_version: Some("1.18.33"),
        unverified: UNVERIFIED_VENDOR_ACCESS,
        open_session: Some("opencode --session"),
        isolated_homes: &[
            ("XDG_CONFIG_HOME", "opencode/config"),
            ("XDG_DATA_HOME", "opencode/data"),
            ("XDG_STATE_HOME", "opencode/state"),
        ],
        reserved_args: OPENCODE_RESERVED_ARGS,
        ..EMPTY
    },
    BackendSpec {
        name: "gemini",
        description: "Gemini CLI",
        programs: &["gemini"],
        install: Some("npm install --global @google/gemini-cli"),
        variables: GEMINI_VARIABLES,
        clouds: GEMINI_CLOUDS,
        key_variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        login: GEMINI_LOGIN,
        endpoint: EndpointSource::Provider("google"),
        model_names: ModelNames::Bare(&["google", "gemini"]),
        can: BackendCapabilities {
            stream: Yes,
            cost: Limited("by list price"),
            resume: Yes,
            max_steps: Yes,
            max_tokens: Yes,
            effort: Yes,
            sandbox: Yes,
            ..BackendCapabilities::NONE
        },
        efforts: &[Effort::Low, Effort::Medium, Effort::High],
        oldest_version: Some("0.39.1"),
        tested_version: Some("0.61.0"),
        unverified: UNVERIFIED_VENDOR_ACCESS,
        open_session: Some("gemini --resume"),
        isolated_homes: &[("GEMINI_CLI_HOME", "gemini")],
        reserved_args: GEMINI_RESERVED_ARGS,
        ..EMPTY
    },
    BackendSpec {
        name: "acp",
        description: "any agent that speaks the Agent Client Protocol",
        kind: BackendKind::Acp,
        can: BackendCapabilities {
            stream: Yes,
            cost: Limited("if it says so"),
            resume: Limited("if the agent can"),
            approvals: Limited("for what it asks for"),
            sandbox: Yes,
            ..BackendCapabilities::NONE
        },
        permissions: PermissionSupport::PerKind(&ACP_TOOL_KINDS),
        ..EMPTY
    },
    BackendSpec {
        name: "command",
        description: "any program that reads a line of JSON",
        kind: BackendKind::Command,
        can: BackendCapabilities {
            stream: Limited("line by line"),
            cost: Limited("if it says so"),
            resume: Limited("if it says so"),
            sandbox: Yes,
            ..BackendCapabilities::NONE
        },
        ..EMPTY
    },
];

/// Returns true if a message for a running turn joins it (`send --now`).
pub fn joins_running_turns(backend: &Backend) -> bool {
    match backend {
        Backend::Native(native) => find_backend(native.cli.word())
            .is_some_and(|spec| spec.can.mid_turn == CapabilitySupport::JOINS),
        Backend::Api(_) => true,
        Backend::Acp(_) | Backend::Mock { .. } | Backend::Command { .. } => false,
    }
}

/// Returns a backend by its word or another word for it.
pub fn find_backend(word: &str) -> Option<&'static BackendSpec> {
    BACKENDS.iter().find(|spec| spec.name == word || spec.aliases.contains(&word))
}

/// Returns the backends of this version in the order in which messages and the schema list them: programs first.
pub fn available_backends() -> impl Iterator<Item = &'static BackendSpec> {
    let of_kind = |kind| BACKENDS.iter().filter(move |spec| spec.kind == kind);
    let others = [BackendKind::Api, BackendKind::Acp, BackendKind::Command, BackendKind::Mock];
    let programs = for_each_program!(names).into_iter().filter_map(find_backend);
    programs.chain(others.into_iter().flat_map(of_kind))
}

/// Returns the names or paths under which the program of a backend is searched for; empty if it needs none. A command
/// of the workflow file replaces the usual names.
pub fn backend_programs(backend: &Backend) -> Vec<&str> {
    let (command, usual): (&[String], &[&str]) = match backend {
        Backend::Mock { .. } | Backend::Api(_) => (&[], &[]),
        Backend::Command { command } => (command, &[]),
        Backend::Native(native) => {
            let row = find_backend(native.cli.word());
            (&native.command, row.map_or(&[], |row| row.programs))
        }
        Backend::Acp(acp) => {
            let row = acp.agent.as_ref().and_then(|agent| find_acp_agent(agent.word()));
            (&acp.command, row.map_or(&[], |row| std::slice::from_ref(&row.program)))
        }
    };
    match command.first() {
        Some(program) => vec![program],
        None => usual.to_vec(),
    }
}

/// Returns the command that installs a program.
pub fn install_command(program: &str) -> Option<&'static str> {
    let backend = find_program_backend(program);
    let agent = || ACP_AGENTS.iter().find(|row| row.program == program).map(|row| row.install);
    backend.and_then(|row| row.install).or_else(agent)
}

/// Returns the row of a vendor's program by one of the names under which it is searched for.
pub fn find_program_backend(program: &str) -> Option<&'static BackendSpec> {
    BACKENDS.iter().find(|row| row.programs.contains(&program))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::CapabilitySupport;

    #[test]
    fn the_macro_names_every_row_with_a_program() {
        let rows = BACKENDS.iter().filter(|row| row.kind == BackendKind::Program);
        let mut rows: Vec<_> = rows.map(|row| row.name).collect();
        let mut named = for_each_program!(names);
        rows.sort_unstable();
        named.sort_unstable();
        assert_eq!(rows, named);
        let available = BACKENDS.iter().filter(|row| row.is_available()).count();
        assert_eq!(available_backends().count(), available);
    }

    #[test]
    fn a_word_means_one_backend() {
        let words = BACKENDS.iter().flat_map(|row| row.aliases.iter().copied().chain([row.name]));
        let mut words: Vec<_> = words.collect();
        words.sort_unstable();
        let count = words.len();
        words.dedup();
        assert_eq!(words.len(), count);
        let mut agents: Vec<_> = ACP_AGENTS.iter().map(|row| row.name).collect();
        agents.sort_unstable();
        agents.dedup();
        assert_eq!(agents.len(), ACP_AGENTS.len());
    }

    #[test]
    fn a_program_has_names_and_gets_the_variables_of_its_key_and_its_login() {
        for row in BACKENDS.iter().filter(|row| row.kind == BackendKind::Program) {
            assert!(!row.programs.is_empty() && row.install.is_some(), "{}", row.name);
            assert!(row.login.command.is_some(), "{}", row.name);
            let folders = row.login.files.iter().filter_map(|file| file.split('/').next());
            for variable in row.key_variables.iter().copied().chain(folders) {
                let gets = variable == "HOME" || row.variables.contains(&variable);
                assert!(gets, "{} does not get {variable}", row.name);
            }
        }
    }

    #[test]
    fn every_program_has_one_command_that_installs_it() {
        let rows = BACKENDS.iter().flat_map(|row| row.programs.iter().map(|it| (*it, row.install)));
        let agents = ACP_AGENTS.iter().map(|row| (row.program, Some(row.install)));
        for (program, install) in rows.chain(agents) {
            assert!(install.is_some_and(|install| !install.is_empty()), "{program}");
            assert_eq!(install_command(program), install, "{program}");
        }
        assert_eq!(install_command("nosuch"), None);
    }

    #[test]
    fn the_tested_versions_are_those_that_the_tests_install() {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/agents");
        let script = std::fs::read_to_string(script).unwrap();
        for row in &BACKENDS {
            if let Some(version) = row.tested_version {
                assert!(script.contains(&format!("@{version}\n")), "{}", row.name);
            }
        }
    }

    #[test]
    fn the_docs_list_the_same_abilities() {
        let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/backends.md");
        let docs = std::fs::read_to_string(docs).unwrap();
        for row in BACKENDS.iter().filter(|row| row.is_available()) {
            let can = row.can.entries().map(|(_, ability)| ability.text());
            let line = format!("| `{}` | {} |\n", row.name, can.join(" | "));
            assert!(docs.contains(&line), "not there: {line}");
        }
    }

    #[test]
    fn rules_for_single_calls_are_for_backends_that_can_ask() {
        for row in &BACKENDS {
            let asks = row.can.approvals != CapabilitySupport::No;
            let has_rules = match row.permissions {
                PermissionSupport::PerTool | PermissionSupport::PerKind(_) => true,
                PermissionSupport::DefaultOnly { .. } | PermissionSupport::Unsupported => false,
            };
            assert_eq!(asks, has_rules, "{}", row.name);
        }
    }
}
