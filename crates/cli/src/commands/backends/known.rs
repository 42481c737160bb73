//! Every backend there is or will be: what it needs, what it can do, and what of that nobody has seen. One entry each,
//! and the only place that says so.

use serde::{Serialize, Serializer};

/// One backend, on any machine.
pub(super) struct Known {
    /// As in `backend:`.
    pub(super) name: &'static str,
    /// What it is.
    pub(super) about: &'static str,
    /// Whether this version can use it.
    pub(super) in_this_version: bool,
    /// The program it needs, if any: the first of these that is installed.
    pub(super) programs: &'static [&'static str],
    /// Variables that may hold a key.
    pub(super) keys: &'static [&'static str],
    /// Files that are there after a login. Of several, the first whose variable is set is where it would be.
    pub(super) files: &'static [&'static str],
    /// What it can do.
    pub(super) can: Can,
    /// The version of its program that the tests let work, if they do.
    pub(super) tried: Option<&'static str>,
    /// What nobody has seen work, beside other versions.
    pub(super) unverified: &'static [&'static str],
}

/// What a backend can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(in crate::commands) struct Can {
    /// Show what it says as it says it.
    pub(super) stream: Ability,
    /// Say what it cost.
    pub(super) cost: Ability,
    /// Go on in its next turn where the last one ended.
    pub(super) resume: Ability,
    /// Ask for approval, and wait for it.
    pub(super) approvals: Ability,
    /// Be told of mail that comes while it works, without looking.
    pub(super) mid_turn: Ability,
}

/// Whether it can do a thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands) enum Ability {
    Yes,
    /// Only so.
    So(&'static str),
    No,
}

impl Serialize for Ability {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Self::Yes => "yes",
            Self::So(how) => how,
            Self::No => "no",
        })
    }
}

impl Can {
    const NOTHING: Self = Self {
        stream: Ability::No,
        cost: Ability::No,
        resume: Ability::No,
        approvals: Ability::No,
        mid_turn: Ability::No,
    };

    /// Each with its word.
    pub(super) fn each(self) -> [(&'static str, Ability); 5] {
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
const LATER: Known = Known { in_this_version: false, ..BUILT_IN };

/// One that needs no program.
const BUILT_IN: Known = Known {
    name: "",
    about: "",
    in_this_version: true,
    programs: &[],
    keys: &[],
    files: &[],
    can: Can::NOTHING,
    tried: None,
    unverified: &[],
};

/// The tests have a model of their own, and keys that only it knows.
const UNSEEN: &[&str] = &["the vendor's own servers", "a login of yours"];

use Ability::{So, Yes};

pub(super) const KNOWN: [Known; 9] = [
    Known {
        name: "mock",
        about: "follows a script: no model, no key, no cost; for tests and for trying out",
        ..BUILT_IN
    },
    Known { name: "api", about: "a model's API, asked directly", ..LATER },
    Known {
        name: "claude",
        about: "Claude Code",
        programs: &["claude"],
        keys: &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"],
        files: &["CLAUDE_CONFIG_DIR/.credentials.json", "HOME/.claude/.credentials.json"],
        can: Can { stream: Yes, cost: Yes, resume: Yes, approvals: Yes, ..Can::NOTHING },
        tried: Some("2.1.325"),
        unverified: UNSEEN,
        ..BUILT_IN
    },
    Known {
        name: "codex",
        about: "Codex CLI",
        programs: &["codex"],
        keys: &["CODEX_API_KEY", "OPENAI_API_KEY"],
        files: &["CODEX_HOME/auth.json", "HOME/.codex/auth.json"],
        can: Can {
            stream: So("a message at a time"),
            cost: So("by list price"),
            resume: Yes,
            ..Can::NOTHING
        },
        tried: Some("0.166.0"),
        unverified: UNSEEN,
        ..BUILT_IN
    },
    Known {
        name: "cursor",
        about: "Cursor's CLI",
        programs: &["cursor-agent", "agent"],
        keys: &["CURSOR_API_KEY"],
        files: &["XDG_CONFIG_HOME/cursor/auth.json", "HOME/.config/cursor/auth.json"],
        can: Can { stream: So("a message at a time"), resume: Yes, ..Can::NOTHING },
        unverified: &["all of it: it cannot be tried without an account at its vendor"],
        ..BUILT_IN
    },
    Known {
        name: "opencode",
        about: "opencode",
        programs: &["opencode"],
        keys: &[
            "ANTHROPIC_API_KEY",
            "OPENAI_API_KEY",
            "GEMINI_API_KEY",
            "OPENROUTER_API_KEY",
            "OPENCODE_API_KEY",
        ],
        files: &["XDG_DATA_HOME/opencode/auth.json", "HOME/.local/share/opencode/auth.json"],
        can: Can {
            stream: So("a message at a time"),
            cost: So("where it knows the price"),
            resume: Yes,
            ..Can::NOTHING
        },
        tried: Some("1.18.33"),
        unverified: UNSEEN,
        ..BUILT_IN
    },
    Known {
        name: "gemini",
        about: "Gemini CLI",
        programs: &["gemini"],
        keys: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        files: &["GEMINI_CLI_HOME/.gemini/oauth_creds.json", "HOME/.gemini/oauth_creds.json"],
        can: Can { stream: Yes, cost: So("by list price"), resume: Yes, ..Can::NOTHING },
        tried: Some("0.61.0"),
        unverified: UNSEEN,
        ..BUILT_IN
    },
    Known {
        name: "acp",
        about: "any agent that speaks the Agent Client Protocol",
        can: Can {
            stream: Yes,
            cost: So("if it says so"),
            resume: So("if the agent can"),
            approvals: So("for what it asks for"),
            ..Can::NOTHING
        },
        ..BUILT_IN
    },
    Known {
        name: "command",
        about: "any program that reads a line of JSON",
        can: Can {
            stream: So("line by line"),
            cost: So("if it says so"),
            resume: So("if it says so"),
            ..Can::NOTHING
        },
        ..BUILT_IN
    },
];

#[cfg(test)]
mod tests {
    use agent_worker_protocol::Cli;

    use super::*;

    #[test]
    fn what_is_said_to_be_tried_is_what_the_tests_get() {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/agents");
        let script = std::fs::read_to_string(script).unwrap();
        for known in KNOWN {
            if let Some(version) = known.tried {
                assert!(script.contains(&format!("@{version}\n")), "{}", known.name);
            }
        }
    }

    #[test]
    fn the_docs_say_the_same() {
        let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/backends.md");
        let docs = std::fs::read_to_string(docs).unwrap();
        for known in KNOWN.iter().filter(|known| known.in_this_version) {
            let can = known.can.each().map(|(_, ability)| match ability {
                Yes => "yes",
                So(how) => how,
                Ability::No => "no",
            });
            let row = format!("| `{}` | {} |\n", known.name, can.join(" | "));
            assert!(docs.contains(&row), "not there: {row}");
        }
    }

    #[test]
    fn a_vendors_agent_is_here_and_gets_the_variables_that_are_looked_at() {
        for cli in Cli::ALL {
            let known = KNOWN.iter().find(|known| known.name == cli.word()).unwrap();
            assert!(known.in_this_version, "{cli}");
            let folders = known.files.iter().filter_map(|file| file.split('/').next());
            for variable in known.keys.iter().copied().chain(folders) {
                let gets = variable == "HOME" || cli.variables().contains(&variable);
                assert!(gets, "{cli} does not get {variable}");
            }
        }
    }
}
