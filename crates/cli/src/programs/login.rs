//! The credentials that a program would use for its vendor.
//!
//! Only the environment and files are read, so that a key or a login is known to exist, not to be valid. Invariant:
//! `LoggedOut` is certain; wherever another credential may be, the login is unknown. No credential is returned.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Read as _,
    path::{Path, PathBuf},
};

use agent_worker_backends::{BackendSpec, CredentialHint, LoginAbsence, selected_cloud};
use agent_worker_protocol::CredentialMode;
use serde::Serialize;

/// Size above which a settings file is not searched.
const MAX_SEARCHED_BYTES: u64 = 1 << 20;

/// The credentials that a program would use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "seen", content = "at", rename_all = "snake_case")]
pub(crate) enum Login {
    /// The variable of a key is set.
    Key(&'static str),
    /// The variable that selects a cloud is set.
    Cloud(&'static str),
    /// A login file exists.
    File(PathBuf),
    /// There are none.
    #[serde(rename = "nothing")]
    LoggedOut,
    /// The program may have credentials in a place that cannot be read, such as a keychain.
    Unknown,
}

/// The places where credentials are searched for.
#[derive(Clone, Copy)]
pub(crate) struct CredentialPlaces<'a> {
    /// Environment of the program.
    pub(crate) env: &'a BTreeMap<String, String>,
    /// Working folder of the program, whose settings apply.
    pub(crate) folder: &'a Path,
    /// Source of the settings, if it is fixed.
    pub(crate) mode: Option<CredentialMode>,
}

/// Finds the credentials of a backend's program; none if it needs none.
pub(crate) fn find_login(spec: &BackendSpec, places: CredentialPlaces<'_>) -> Option<Login> {
    let is_isolated = places.mode == Some(CredentialMode::Isolated);
    let unless = match spec.login.absence {
        LoginAbsence::NotNeeded => return None,
        LoginAbsence::Unknown => None,
        LoginAbsence::LoggedOut { unless } => Some(unless),
    };
    if let Some(key) = spec.key_variables.iter().find(|name| places.variable(name).is_some()) {
        return Some(Login::Key(key));
    }
    if let Some(switch) = selected_cloud(spec, places.env) {
        return Some(Login::Cloud(switch));
    }
    if spec.variables.iter().any(|name| is_of_endpoint(name) && places.variable(name).is_some()) {
        return Some(Login::Unknown);
    }
    if !is_isolated {
        let file = spec.login.files.iter().find_map(|file| places.locate(file));
        match (file.filter(|file| file.is_file()), spec.login.file_text) {
            (None, _) => {}
            (Some(file), None) => return Some(Login::File(file)),
            (Some(file), Some(text)) if contains_any(&file, &[text]) => {
                return Some(Login::File(file));
            }
            (Some(_), Some(_)) => return Some(Login::Unknown),
        }
    }
    // Without a home, and in the keychain of macOS, the places are unknown.
    let is_readable = cfg!(target_os = "linux") && places.variable("HOME").is_some();
    let Some(unless) = unless.filter(|_| is_readable || is_isolated) else {
        return Some(Login::Unknown);
    };
    let applies = |hint: &&CredentialHint| !is_isolated || is_outside_of_home(hint.path);
    let has_hint = unless.iter().filter(applies).any(|hint| places.has(hint));
    Some(if has_hint { Login::Unknown } else { Login::LoggedOut })
}

/// Returns true if a variable selects an endpoint or identifies the client to it: such an endpoint may need no login.
fn is_of_endpoint(variable: &str) -> bool {
    ["_BASE_URL", "_CUSTOM_HEADERS", "_CLIENT_CERT"].iter().any(|end| variable.ends_with(end))
}

/// Returns true if an isolated program reads the file too.
fn is_outside_of_home(path: &str) -> bool {
    path.starts_with("FOLDER/") || path.starts_with('/')
}

impl<'a> CredentialPlaces<'a> {
    fn variable(self, name: &str) -> Option<&'a str> {
        self.env.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns the path of a file whose variable is set.
    fn locate(self, path: &str) -> Option<PathBuf> {
        let (variable, rest) = path.split_once('/')?;
        Some(self.folder.join(self.variable(variable)?).join(rest))
    }

    /// Returns true if a settings file may contain or name a credential.
    fn has(self, hint: &CredentialHint) -> bool {
        let shows = |path: PathBuf| {
            path.exists() && (hint.texts.is_empty() || contains_any(&path, hint.texts))
        };
        match hint.path.strip_prefix("FOLDER/") {
            Some(rest) => self.folder.ancestors().any(|folder| shows(folder.join(rest))),
            None if hint.path.starts_with('/') => shows(hint.path.into()),
            None => self.locate(hint.path).is_some_and(shows),
        }
    }
}

/// Returns true if a file contains one of the texts, or cannot be searched.
fn contains_any(path: &Path, texts: &[&str]) -> bool {
    let is_small = |file: &fs::Metadata| file.is_file() && file.len() <= MAX_SEARCHED_BYTES;
    let mut bytes = Vec::new();
    let is_read = fs::metadata(path).is_ok_and(|file| is_small(&file))
        && File::open(path)
            .is_ok_and(|file| file.take(MAX_SEARCHED_BYTES).read_to_end(&mut bytes).is_ok());
    let content = String::from_utf8_lossy(&bytes);
    !is_read || texts.iter().any(|text| content.contains(text))
}

#[cfg(test)]
mod tests {
    use agent_worker_backends::find_backend;

    use super::*;

    const HOME: (&str, &str) = ("HOME", "~");

    /// Finds the login in a home with these files, where `~` in a value is the home.
    fn login(backend: &str, env: &[(&str, &str)], files: &[(&str, &str)]) -> Option<Login> {
        login_with_mode(backend, env, files, None)
    }

    fn login_with_mode(
        backend: &str,
        env: &[(&str, &str)],
        files: &[(&str, &str)],
        mode: Option<CredentialMode>,
    ) -> Option<Login> {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let home = folder.path().join("home").display().to_string();
        let project = folder.path().join("project/src");
        fs::create_dir_all(&project).unwrap();
        let env = env.iter().map(|(name, value)| (*name, value.replace('~', &home)));
        let env = env.map(|(name, value)| (name.to_owned(), value)).collect();
        let places = CredentialPlaces { env: &env, folder: &project, mode };
        match find_login(find_backend(backend).unwrap(), places) {
            Some(Login::File(path)) => {
                Some(Login::File(path.strip_prefix(folder.path()).unwrap().to_owned()))
            }
            other => other,
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn claude_code_is_logged_out_only_where_no_credential_can_be() {
        let token = ("home/.claude/.credentials.json", r#"{"claudeAiOauth":{}}"#);
        let rest = ("home/.claude/.credentials.json", r#"{"mcpOAuth":{}}"#);
        let file = |path: &str| Some(Login::File(path.into()));
        for (backend, env, files, expected) in [
            ("claude", &[HOME][..], &[][..], Some(Login::LoggedOut)),
            ("claude", &[], &[], Some(Login::Unknown)),
            ("claude", &[("HOME", "")], &[], Some(Login::Unknown)),
            (
                "claude",
                &[HOME, ("ANTHROPIC_API_KEY", "k")],
                &[],
                Some(Login::Key("ANTHROPIC_API_KEY")),
            ),
            ("claude", &[HOME, ("ANTHROPIC_API_KEY", "")], &[], Some(Login::LoggedOut)),
            (
                "claude",
                &[HOME, ("CLAUDE_CODE_USE_BEDROCK", "1")],
                &[],
                Some(Login::Cloud("CLAUDE_CODE_USE_BEDROCK")),
            ),
            ("claude", &[HOME, ("CLAUDE_CODE_USE_BEDROCK", "0")], &[], Some(Login::LoggedOut)),
            ("claude", &[HOME, ("ANTHROPIC_BASE_URL", "http://x")], &[], Some(Login::Unknown)),
            ("claude", &[HOME], &[token], file("home/.claude/.credentials.json")),
            ("claude", &[HOME], &[rest], Some(Login::Unknown)),
            // Another folder of settings is used instead.
            ("claude", &[HOME, ("CLAUDE_CONFIG_DIR", "~/other")], &[token], Some(Login::LoggedOut)),
            ("claude", &[HOME], &[("home/.claude/settings.json", "{}")], Some(Login::LoggedOut)),
            (
                "claude",
                &[HOME],
                &[("home/.claude/settings.json", r#"{"apiKeyHelper":"x"}"#)],
                Some(Login::Unknown),
            ),
            (
                "claude",
                &[HOME],
                &[("project/.claude/settings.json", r#"{"env":{"ANTHROPIC_API_KEY":"x"}}"#)],
                Some(Login::Unknown),
            ),
            (
                "claude",
                &[HOME],
                &[("home/.claude.json", r#"{"primaryApiKey":"x"}"#)],
                Some(Login::Unknown),
            ),
        ] {
            assert_eq!(login(backend, env, files), expected, "{backend} {env:?} {files:?}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn each_other_program_has_its_own_places_of_credentials() {
        let file = |path: &str| Some(Login::File(path.into()));
        for (backend, env, files, expected) in [
            ("mock", &[HOME][..], &[][..], None),
            ("command", &[HOME], &[], None),
            ("acp", &[HOME], &[], None),
            ("codex", &[HOME], &[], Some(Login::LoggedOut)),
            ("codex", &[HOME], &[("home/.codex/auth.json", "{}")], file("home/.codex/auth.json")),
            (
                "codex",
                &[HOME],
                &[("home/.codex/config.toml", "model = 'x'")],
                Some(Login::LoggedOut),
            ),
            (
                "codex",
                &[HOME],
                &[("home/.codex/config.toml", "cli_auth_credentials_store = 'keyring'")],
                Some(Login::Unknown),
            ),
            ("gemini", &[HOME], &[], Some(Login::LoggedOut)),
            ("gemini", &[HOME], &[("project/.env", "")], Some(Login::Unknown)),
            (
                "gemini",
                &[HOME],
                &[("home/.gemini/settings.json", r#"{"selectedType":"oauth-personal"}"#)],
                Some(Login::Unknown),
            ),
            ("opencode", &[HOME], &[], Some(Login::Unknown)),
            ("cursor", &[HOME], &[], Some(Login::Unknown)),
        ] {
            assert_eq!(login(backend, env, files), expected, "{backend} {env:?} {files:?}");
        }
    }

    #[test]
    fn an_isolated_program_has_a_key_or_the_settings_of_the_project() {
        let token = ("home/.claude/.credentials.json", r#"{"claudeAiOauth":{}}"#);
        let helper = ("project/.claude/settings.local.json", r#"{"apiKeyHelper":"x"}"#);
        for (env, files, expected) in [
            (&[("HOME", "~")][..], &[token][..], Login::LoggedOut),
            (&[("HOME", "~")], &[helper], Login::Unknown),
            (&[("CLAUDE_CODE_OAUTH_TOKEN", "t")], &[], Login::Key("CLAUDE_CODE_OAUTH_TOKEN")),
        ] {
            let mode = Some(CredentialMode::Isolated);
            let found = login_with_mode("claude", env, files, mode);
            assert_eq!(found, Some(expected), "{env:?} {files:?}");
        }
    }
}
