//! The places in which programs keep the credentials of their user, and the commands that log in.
//!
//! Data only: the command line reads the files. A program counts as logged out only if every place that it is known to
//! use was looked at; otherwise its login is unknown.

/// A path after the place where it begins: `VARIABLE/path`, `FOLDER/path` for the working folder and every folder above
/// it, or an absolute path.
type CredentialPath = &'static str;

/// The logins of one program.
#[derive(Debug)]
pub struct LoginSpec {
    /// The command that logs in, and the action inside the program if one is needed.
    pub command: Option<&'static str>,
    /// Files that exist after a login, as `VARIABLE/path`. The first whose variable is set is the one in use.
    pub files: &'static [CredentialPath],
    /// Text that such a file contains while the user is logged in; none if its existence is enough.
    pub file_text: Option<&'static str>,
    /// Conclusion from the absence of a key and of a login file.
    pub absence: LoginAbsence,
}

/// The conclusion from the absence of a key and of a login file.
#[derive(Debug)]
pub enum LoginAbsence {
    /// The program needs no login.
    NotNeeded,
    /// The program is logged out, unless one of these files may contain or name another credential.
    LoggedOut {
        /// Files and folders, of which one is enough.
        unless: &'static [CredentialHint],
    },
    /// The program may have credentials in other places, so nothing follows.
    Unknown,
}

/// A settings file that may contain or name a credential.
#[derive(Debug)]
pub struct CredentialHint {
    /// Path of the file or folder.
    pub path: CredentialPath,
    /// Texts of which one shows the credential. Without any, the existence of the file is enough.
    pub texts: &'static [&'static str],
}

const fn hint(path: CredentialPath, texts: &'static [&'static str]) -> CredentialHint {
    CredentialHint { path, texts }
}

/// The logins of a backend that needs none.
pub(crate) const NO_LOGIN: LoginSpec =
    LoginSpec { command: None, files: &[], file_text: None, absence: LoginAbsence::NotNeeded };

const CLAUDE_SETTINGS: &[&str] = &["apiKeyHelper", "ANTHROPIC_", "CLAUDE_CODE_"];
const CLAUDE_STATE: &[&str] = &["primaryApiKey", "oauthAccount"];

pub(crate) const CLAUDE_LOGIN: LoginSpec = LoginSpec {
    command: Some("claude auth login"),
    files: &["CLAUDE_CONFIG_DIR/.credentials.json", "HOME/.claude/.credentials.json"],
    file_text: Some("claudeAiOauth"),
    absence: LoginAbsence::LoggedOut {
        unless: &[
            hint("CLAUDE_CONFIG_DIR/settings.json", CLAUDE_SETTINGS),
            hint("CLAUDE_CONFIG_DIR/.claude.json", CLAUDE_STATE),
            hint("HOME/.claude/settings.json", CLAUDE_SETTINGS),
            hint("HOME/.claude.json", CLAUDE_STATE),
            hint("HOME/.config/anthropic", &[]),
            hint("FOLDER/.claude/settings.json", CLAUDE_SETTINGS),
            hint("FOLDER/.claude/settings.local.json", CLAUDE_SETTINGS),
            hint("/etc/claude-code", &[]),
        ],
    },
};

const CODEX_SETTINGS: &[&str] = &["cli_auth_credentials_store", "model_provider", "oss_provider"];

pub(crate) const CODEX_LOGIN: LoginSpec = LoginSpec {
    command: Some("codex login"),
    files: &["CODEX_HOME/auth.json", "HOME/.codex/auth.json"],
    file_text: None,
    absence: LoginAbsence::LoggedOut {
        unless: &[
            hint("CODEX_HOME/config.toml", CODEX_SETTINGS),
            hint("HOME/.codex/config.toml", CODEX_SETTINGS),
            hint("FOLDER/.codex/config.toml", CODEX_SETTINGS),
            hint("/etc/codex", &[]),
        ],
    },
};

const GEMINI_SETTINGS: &[&str] = &["selectedType", "selectedAuthType", "enforcedType"];

pub(crate) const GEMINI_LOGIN: LoginSpec = LoginSpec {
    command: Some("gemini (choose how to sign in)"),
    files: &["GEMINI_CLI_HOME/.gemini/oauth_creds.json", "HOME/.gemini/oauth_creds.json"],
    file_text: None,
    absence: LoginAbsence::LoggedOut {
        unless: &[
            hint("GEMINI_CLI_HOME/.gemini/settings.json", GEMINI_SETTINGS),
            hint("GEMINI_CLI_HOME/.gemini/.env", &[]),
            hint("GEMINI_CLI_HOME/.env", &[]),
            hint("HOME/.gemini/settings.json", GEMINI_SETTINGS),
            hint("HOME/.gemini/.env", &[]),
            hint("HOME/.env", &[]),
            hint("FOLDER/.gemini/settings.json", GEMINI_SETTINGS),
            hint("FOLDER/.gemini/.env", &[]),
            hint("FOLDER/.env", &[]),
            hint("/etc/gemini-cli", &[]),
        ],
    },
};

/// Some of its models need no login, and others are on the user's machine.
pub(crate) const OPENCODE_LOGIN: LoginSpec = LoginSpec {
    command: Some("opencode auth login"),
    files: &["XDG_DATA_HOME/opencode/auth.json", "HOME/.local/share/opencode/auth.json"],
    file_text: None,
    absence: LoginAbsence::Unknown,
};

/// Its places are those of its documentation, which no test covers.
pub(crate) const CURSOR_LOGIN: LoginSpec = LoginSpec {
    command: Some("cursor-agent login"),
    files: &["XDG_CONFIG_HOME/cursor/auth.json", "HOME/.config/cursor/auth.json"],
    file_text: None,
    absence: LoginAbsence::Unknown,
};
