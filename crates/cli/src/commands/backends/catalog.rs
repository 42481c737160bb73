//! Every backend there is or will be: what it needs, what it can do, and what of that nobody has seen. One entry each,
//! and the only place that says so.

use serde::{Serialize, Serializer};

/// One backend, on any machine.
pub(super) struct BackendSpec {
    /// As in `backend:`.
    pub(super) name: &'static str,
    /// What it is.
    pub(super) description: &'static str,
    /// Whether this version can use it.
    pub(super) in_this_version: bool,
    /// The program it needs, if any: the first of these that is installed.
    pub(super) programs: &'static [&'static str],
    /// Variables that may hold a key.
    pub(super) key_variables: &'static [&'static str],
    /// Files that are there after a login. Of several, the first whose variable is set is where it would be.
    pub(super) login_files: &'static [&'static str],
    /// What it can do.
    pub(super) can: BackendCapabilities,
    /// The version of its program that the tests let work, if they do.
    pub(super) tested_version: Option<&'static str>,
    /// What nobody has seen work, beside other versions.
    pub(super) unverified: &'static [&'static str],
}

/// What a backend can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(in crate::commands) struct BackendCapabilities {
    /// Show what it says as it says it.
    pub(super) stream: CapabilitySupport,
    /// Say what it cost.
    pub(super) cost: CapabilitySupport,
    /// Go on in its next turn where the last one ended.
    pub(super) resume: CapabilitySupport,
    /// Ask for approval, and wait for it.
    pub(super) approvals: CapabilitySupport,
    /// Be told of mail that comes while it works, without looking.
    pub(super) mid_turn: CapabilitySupport,
}

/// Whether it can do a thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands) enum CapabilitySupport {
    Yes,
    /// Only so.
    Limited(&'static str),
    No,
}

impl Serialize for CapabilitySupport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Self::Yes => "yes",
            Self::Limited(how) => how,
            Self::No => "no",
        })
    }
}

impl BackendCapabilities {
    const NONE: Self = Self {
        stream: CapabilitySupport::No,
        cost: CapabilitySupport::No,
        resume: CapabilitySupport::No,
        approvals: CapabilitySupport::No,
        mid_turn: CapabilitySupport::No,
    };

    /// Each with its word.
    pub(super) fn entries(self) -> [(&'static str, CapabilitySupport); 5] {
        let Self { stream, cost, resume, approvals, mid_turn } = self;
        [
            ("stream", stream),
            ("cost", cost),
            ("resume", resume),
            ("approvals", approvals),
            ("mid-turn", mid_turn),
        ]
    }
}

/// One that is not in this version.
const PLANNED: BackendSpec = BackendSpec { in_this_version: false, ..BUILT_IN };

/// One that needs no program.
const BUILT_IN: BackendSpec = BackendSpec {
    name: "",
    description: "",
    in_this_version: true,
    programs: &[],
    key_variables: &[],
    login_files: &[],
    can: BackendCapabilities::NONE,
    tested_version: None,
    unverified: &[],
};

/// The tests have a model of their own, and keys that only it knows.
const UNVERIFIED_VENDOR_ACCESS: &[&str] = &["the vendor's own servers", "a login of yours"];

use CapabilitySupport::{Limited, Yes};

pub(super) const BACKENDS: [BackendSpec; 9] = [
    BackendSpec {
        name: "mock",
        description: "follows a script: no model, no key, no cost; for tests and for trying out",
        ..BUILT_IN
    },
    BackendSpec { name: "api", description: "a model's API, asked directly", ..PLANNED },
    BackendSpec {
        name: "claude",
        description: "Claude Code",
        programs: &["claude"],
        key_variables: &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"],
        login_files: &["CLAUDE_CONFIG_DIR/.credentials.json", "HOME/.claude/.credentials.json"],
        can: BackendCapabilities {
            stream: Yes,
            cost: Yes,
            resume: Yes,
            approvals: Yes,
            ..BackendCapabilities::NONE
        },
        tested_version: Some("2.1.325"),
        unverified: UNVERIFIED_VENDOR_ACCESS,
        ..BUILT_IN
    },
    BackendSpec {
        name: "codex",
        description: "Codex CLI",
        programs: &["codex"],
        key_variables: &["CODEX_API_KEY", "OPENAI_API_KEY"],
        login_files: &["CODEX_HOME/auth.json", "HOME/.codex/auth.json"],
        can: BackendCapabilities {
            stream: Limited("a message at a time"),
            cost: Limited("by list price"),
            resume: Yes,
            ..BackendCapabilities::NONE
        },
        tested_version: Some("0.166.0"),
        unverified: UNVERIFIED_VENDOR_ACCESS,
        ..BUILT_IN
    },
    BackendSpec {
        name: "cursor",
        description: "Cursor's CLI",
        programs: &["cursor-agent", "agent"],
        key_variables: &["CURSOR_API_KEY"],
        login_files: &["XDG_CONFIG_HOME/cursor/auth.json", "HOME/.config/cursor/auth.json"],
        can: BackendCapabilities {
            stream: Limited("a message at a time"),
            resume: Yes,
            ..BackendCapabilities::NONE
        },
        unverified: &["all of it: it cannot be tried without an account at its vendor"],
        ..BUILT_IN
    },
    BackendSpec {
        name: "opencode",
        description: "opencode",
        programs: &["opencode"],
        key_variables: &[
            "ANTHROPIC_API_KEY",
            "OPENAI_API_KEY",
            "GEMINI_API_KEY",
            "OPENROUTER_API_KEY",
            "OPENCODE_API_KEY",
        ],
        login_files: &["XDG_DATA_HOME/opencode/auth.json", "HOME/.local/share/opencode/auth.json"],
        can: BackendCapabilities {
            stream: Limited("a message at a time"),
            cost: Limited("where it knows the price"),
            resume: Yes,
            ..BackendCapabilities::NONE
        },
        tested_version: Some("1.18.33"),
        unverified: UNVERIFIED_VENDOR_ACCESS,
        ..BUILT_IN
    },
    BackendSpec {
        name: "gemini",
        description: "Gemini CLI",
        programs: &["gemini"],
        key_variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        login_files: &["GEMINI_CLI_HOME/.gemini/oauth_creds.json", "HOME/.gemini/oauth_creds.json"],
        can: BackendCapabilities {
            stream: Yes,
            cost: Limited("by list price"),
            resume: Yes,
            ..BackendCapabilities::NONE
        },
        tested_version: Some("0.61.0"),
        unverified: UNVERIFIED_VENDOR_ACCESS,
        ..BUILT_IN
    },
    BackendSpec {
        name: "acp",
        description: "any agent that speaks the Agent Client Protocol",
        can: BackendCapabilities {
            stream: Yes,
            cost: Limited("if it says so"),
            resume: Limited("if the agent can"),
            approvals: Limited("for what it asks for"),
            ..BackendCapabilities::NONE
        },
        ..BUILT_IN
    },
    BackendSpec {
        name: "command",
        description: "any program that reads a line of JSON",
        can: BackendCapabilities {
            stream: Limited("line by line"),
            cost: Limited("if it says so"),
            resume: Limited("if it says so"),
            ..BackendCapabilities::NONE
        },
        ..BUILT_IN
    },
];

#[cfg(test)]
mod tests {
    use agent_worker_protocol::VendorCli;

    use super::*;

    #[test]
    fn what_is_said_to_be_tried_is_what_the_tests_get() {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/agents");
        let script = std::fs::read_to_string(script).unwrap();
        for known in BACKENDS {
            if let Some(version) = known.tested_version {
                assert!(script.contains(&format!("@{version}\n")), "{}", known.name);
            }
        }
    }

    #[test]
    fn the_docs_say_the_same() {
        let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/backends.md");
        let docs = std::fs::read_to_string(docs).unwrap();
        for known in BACKENDS.iter().filter(|known| known.in_this_version) {
            let can = known.can.entries().map(|(_, ability)| match ability {
                Yes => "yes",
                Limited(how) => how,
                CapabilitySupport::No => "no",
            });
            let row = format!("| `{}` | {} |\n", known.name, can.join(" | "));
            assert!(docs.contains(&row), "not there: {row}");
        }
    }

    #[test]
    fn a_vendors_agent_is_here_and_gets_the_variables_that_are_looked_at() {
        for cli in VendorCli::ALL {
            let known = BACKENDS.iter().find(|known| known.name == cli.word()).unwrap();
            assert!(known.in_this_version, "{cli}");
            let folders = known.login_files.iter().filter_map(|file| file.split('/').next());
            for variable in known.key_variables.iter().copied().chain(folders) {
                let gets = variable == "HOME" || cli.variables().contains(&variable);
                assert!(gets, "{cli} does not get {variable}");
            }
        }
    }
}
