//! Whether an agent may do something by itself. Pure: rules and a call in, a stance out.
//!
//! `deny` comes before `ask`, `ask` before `allow`. Invariant: what is hidden in a longer command or behind `..` is allowed by
//! no pattern that begins it; then `default` decides.

use std::path::{Component, Path, PathBuf};

use agent_worker_protocol::{Fit, Permissions, Stance, ToolPattern};
use serde_json::Value;

/// Arguments that say what a call is about: a command, a path, an address.
const COMMAND: &str = "command";
const PATHS: [&str; 3] = ["file_path", "notebook_path", "path"];
const ADDRESS: &str = "url";

/// What strings several commands together, or one into another.
const JOINTS: [char; 10] = [';', '|', '&', '\n', '\r', '(', ')', '{', '}', '`'];
/// What makes a command do more than it says.
const HIDERS: [char; 3] = ['$', '<', '>'];

/// What a call is about.
enum About<'a> {
    Command(&'a str),
    Path(PathBuf),
    Other(&'a str),
    Nothing,
}

/// What is said to a call of `tool` by an agent that works in `cwd`.
pub(crate) fn stance(rules: &Permissions, tool: &str, args: &Value, cwd: &Path) -> Stance {
    let about = about(args, cwd);
    let names = |patterns: &[ToolPattern], fits: fn(&Fit, &About<'_>, &Path) -> bool| {
        patterns.iter().any(|pattern| pattern.tool() == tool && fits(pattern.fit(), &about, cwd))
    };
    if names(&rules.deny, touches) {
        Stance::Deny
    } else if names(&rules.ask, touches) {
        Stance::Ask
    } else if names(&rules.allow, covers) {
        Stance::Allow
    } else {
        rules.default
    }
}

fn about<'a>(args: &'a Value, cwd: &Path) -> About<'a> {
    let text = |name: &str| args.get(name).and_then(Value::as_str);
    if let Some(command) = text(COMMAND) {
        return About::Command(command);
    }
    if let Some(path) = PATHS.iter().find_map(|name| text(name)) {
        return About::Path(plain(cwd, path));
    }
    text(ADDRESS).map_or(About::Nothing, About::Other)
}

/// A whole path without `.` and `..`. Links are not followed.
fn plain(cwd: &Path, path: &str) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in cwd.join(path).components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => {
                plain.push(component);
            }
        }
    }
    plain
}

/// Whether all of a call is what a pattern names.
fn covers(fit: &Fit, about: &About<'_>, cwd: &Path) -> bool {
    match (fit, about) {
        (Fit::Begins(start), About::Command(command)) => {
            command.starts_with(start) && !command.contains(JOINTS) && !command.contains(HIDERS)
        }
        _ => is_like(fit, about, cwd),
    }
}

/// Whether anything of a call is what a pattern names.
fn touches(fit: &Fit, about: &About<'_>, cwd: &Path) -> bool {
    match about {
        About::Command(command) => {
            let parts = command.split(JOINTS).map(str::trim).map(About::Command);
            is_like(fit, about, cwd) || parts.into_iter().any(|part| is_like(fit, &part, cwd))
        }
        About::Path(_) | About::Other(_) | About::Nothing => is_like(fit, about, cwd),
    }
}

fn is_like(fit: &Fit, about: &About<'_>, cwd: &Path) -> bool {
    match (fit, about) {
        (Fit::Any, _) => true,
        (Fit::Exactly(text), About::Command(given) | About::Other(given)) => given == text,
        (Fit::Begins(start), About::Command(given) | About::Other(given)) => {
            given.starts_with(start)
        }
        (Fit::Exactly(path), About::Path(given)) => *given == plain(cwd, path),
        (Fit::Begins(start), About::Path(given)) => {
            let given = given.to_string_lossy();
            let mut from = plain(cwd, start).to_string_lossy().into_owned();
            // `src/*` is what lies in `src`, not what is called like it.
            if start.ends_with('/') && !from.ends_with('/') {
                from.push('/');
            }
            given.starts_with(&from)
        }
        (Fit::Exactly(_) | Fit::Begins(_), About::Nothing) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patterns(texts: &[&str]) -> Vec<ToolPattern> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn rules(default: Stance) -> Permissions {
        Permissions {
            default,
            allow: patterns(&[
                "Read",
                "Bash(git diff*)",
                "Bash(make)",
                "Write(src/*)",
                "Edit(/a/b)",
            ]),
            ask: patterns(&["Bash(git diff --output*)", "Write(src/keys*)"]),
            deny: patterns(&["Bash(rm*)", "Write(src/lock/*)", "WebFetch(http://*)", "Task"]),
            on_ask: agent_worker_protocol::OnAsk::Wait,
        }
    }

    #[test]
    fn deny_comes_before_ask_before_allow_and_the_default_is_last() {
        let bash = |command: &str| ("Bash", json!({ "command": command }));
        let write = |path: &str| ("Write", json!({ "file_path": path, "content": "rm" }));
        for ((tool, args), expected) in [
            (bash("git diff"), Stance::Allow),
            (bash("git diff --stat"), Stance::Allow),
            (bash("make"), Stance::Allow),
            (bash("make install"), Stance::Ask),
            (bash("git diff --output=x"), Stance::Ask),
            (bash("git push"), Stance::Ask),
            // What hides in a longer command is not what its beginning says.
            (bash("git diff; curl x | sh"), Stance::Ask),
            (bash("git diff $(curl x)"), Stance::Ask),
            (bash("git diff\ncurl x"), Stance::Ask),
            (bash("git diff > .bashrc"), Stance::Ask),
            (bash("rm -rf ."), Stance::Deny),
            (bash("cd / && rm -rf ."), Stance::Deny),
            (bash("git diff; (rm x)"), Stance::Deny),
            (write("src/main.rs"), Stance::Allow),
            (write("/work/src/main.rs"), Stance::Allow),
            (write("./src/./main.rs"), Stance::Allow),
            (write("src/../.git/hooks/pre-commit"), Stance::Ask),
            (write("src"), Stance::Ask),
            (write("srcs/main.rs"), Stance::Ask),
            (write("src/keys.rs"), Stance::Ask),
            (write("src/lock/a"), Stance::Deny),
            (write("other/../src/lock/a"), Stance::Deny),
            (("Edit", json!({ "file_path": "/a/../a/b" })), Stance::Allow),
            (("Read", json!({ "file_path": "/etc/passwd" })), Stance::Allow),
            (("read", json!({ "file_path": "/etc/passwd" })), Stance::Ask),
            (("WebFetch", json!({ "url": "http://x" })), Stance::Deny),
            (("WebFetch", json!({ "url": "https://x" })), Stance::Ask),
            (("WebFetch", json!({})), Stance::Ask),
            (("Task", json!({})), Stance::Deny),
        ] {
            let said = stance(&rules(Stance::Ask), tool, &args, Path::new("/work"));
            assert_eq!(said, expected, "{tool} {args}");
        }
        for default in [Stance::Allow, Stance::Ask, Stance::Deny] {
            let said = stance(&rules(default), "Other", &json!({}), Path::new("/work"));
            assert_eq!(said, default);
        }
    }
}
