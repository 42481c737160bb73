//! Patterns of grants: the calls that a person allows an agent for the rest of its run. Pure.
//!
//! The paths of a grant are resolved when it is made. Invariants: a link that appears later never widens a grant; a call
//! with shell syntax or with a path outside of the agent's folder is covered by no grant.

use std::path::Path;

use agent_worker_backends::names_same_tool;
use agent_worker_protocol::{ArgumentPattern, ToolPattern};
use serde_json::Value;

use super::{
    PathContext,
    arguments::CallKind,
    covers_call,
    path::{PathPattern, path_patterns},
    plain_call::once_only_cause,
    subject::{CallSubject, call_subjects, given},
};

/// A call of an agent.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) tool: &'a str,
    pub(crate) args: &'a Value,
}

/// Returns true if the pattern of a grant covers a call. No grant covers a call that can be approved once only.
pub(crate) fn grant_covers(pattern: &ToolPattern, call: Call<'_>, here: &PathContext<'_>) -> bool {
    let subjects = call_subjects(call.tool, call.args, here);
    let without_links = PathContext { resolve_link: &|_| None, ..*here };
    names_same_tool(pattern.tool(), call.tool)
        && covers_call(pattern.argument(), &subjects, &without_links)
        && once_only_cause(&subjects, here).is_none()
}

/// Returns the cause for which a call can be approved once only, if there is one.
pub(crate) fn once_only(call: Call<'_>, here: &PathContext<'_>) -> Option<String> {
    once_only_cause(&call_subjects(call.tool, call.args, here), here)
}

/// Returns the pattern for exactly this call: the tool with the one command, path or URL of the call. Returns none if no
/// pattern names all of it.
pub(crate) fn exact_pattern(call: Call<'_>, here: &PathContext<'_>) -> Option<ToolPattern> {
    let subjects = call_subjects(call.tool, call.args, here);
    let mut patterns = subjects.named.iter().filter_map(|subject| {
        let text = match subject {
            CallSubject::Command(command) => command.to_string(),
            CallSubject::Path(path) => path.only_resolution()?.to_str()?.to_owned(),
            CallSubject::Url(url) => (*url).to_owned(),
            CallSubject::Unknown => return None,
        };
        ToolPattern::new(call.tool, ArgumentPattern::Exact(text))
    });
    // All subjects of the call must be the same.
    patterns.next().filter(|pattern| grant_covers(pattern, call, here))
}

/// Returns a person's pattern with its links resolved, as the grant for a call. Returns none if it does not cover the call.
pub(crate) fn anchored_pattern(
    pattern: &ToolPattern,
    call: Call<'_>,
    here: &PathContext<'_>,
) -> Option<ToolPattern> {
    let kind = CallKind::of(call.tool, |name| given(call.args, name).is_some());
    let anchored = match kind {
        CallKind::Files | CallKind::Search => {
            let (_, resolved) = path_patterns(pattern.argument(), here);
            let argument = match resolved {
                PathPattern::Any => ArgumentPattern::Any,
                PathPattern::Exactly(path) => ArgumentPattern::Exact(path.to_str()?.to_owned()),
                PathPattern::Begins(folder, name) => {
                    let start = in_folder(&folder)? + name.to_str()?;
                    ArgumentPattern::Prefix(start)
                }
            };
            ToolPattern::new(pattern.tool(), argument)?
        }
        CallKind::Command | CallKind::Fetch => pattern.clone(),
    };
    grant_covers(&anchored, call, here).then_some(anchored)
}

/// Returns the path of a folder with its final slash.
fn in_folder(folder: &Path) -> Option<String> {
    let folder = folder.to_str()?;
    Some(if folder.ends_with('/') { folder.to_owned() } else { format!("{folder}/") })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::json;

    use super::*;

    fn before(path: &Path) -> Option<PathBuf> {
        let target = match path.to_str().unwrap() {
            "/project/lib" => "src",
            "/short" => "/project",
            "/project/out" => "/var/a",
            "/project/loop" => "loop",
            _ => return None,
        };
        Some(target.into())
    }

    /// The agent has replaced a file and a folder with links.
    fn after(path: &Path) -> Option<PathBuf> {
        match path.to_str().unwrap() {
            "/project/src/a" => Some("/home/me/.bashrc".into()),
            "/project/docs" => Some("/etc".into()),
            _ => before(path),
        }
    }

    fn here() -> PathContext<'static> {
        PathContext { cwd: Path::new("/project"), workflow_file: None, resolve_link: &before }
    }

    fn later() -> PathContext<'static> {
        PathContext { resolve_link: &after, ..here() }
    }

    fn exact(tool: &str, args: &Value) -> Option<String> {
        exact_pattern(Call { tool, args }, &here()).map(|pattern| pattern.to_string())
    }

    #[test]
    fn the_exact_pattern_of_a_call_names_its_one_subject() {
        for (tool, args, expected) in [
            (
                "Bash",
                json!({ "command": "git push origin main", "description": "x", "timeout": 5 }),
                "Bash(git push origin main)",
            ),
            ("execute", json!({ "command": ["git", "a b"], "cwd": "src" }), "execute(git 'a b')"),
            ("Write", json!({ "file_path": "x", "content": "y" }), "Write(/project/x)"),
            ("Write", json!({ "file_path": "lib/../lib/x" }), "Write(/project/src/x)"),
            ("edit", json!({ "changes": [{ "path": "/short/x" }] }), "edit(/project/x)"),
            ("edit", json!({ "path": "x", "locations": [{ "path": "./x" }] }), "edit(/project/x)"),
            (
                "WebFetch",
                json!({ "url": "https://a.b/c?d", "prompt": "p" }),
                "WebFetch(https://a.b/c?d)",
            ),
        ] {
            assert_eq!(exact(tool, &args).as_deref(), Some(expected), "{tool} {args}");
            let pattern = expected.parse().unwrap();
            assert!(grant_covers(&pattern, Call { tool, args: &args }, &here()), "{expected}");
        }
    }

    #[test]
    fn a_call_that_no_pattern_names_as_a_whole_has_no_exact_pattern() {
        for (tool, args) in [
            ("Bash", json!({ "command": "ls *.rs" })),
            ("Bash", json!({ "command": "~/run" })),
            ("Bash", json!({ "command": "a && (b) | c > d" })),
            ("Bash", json!({ "command": "cat /etc/passwd" })),
            ("Write", json!({ "file_path": "/var/x" })),
            ("Bash", json!({ "command": "make", "env": { "A": "b" } })),
            ("Bash", json!({ "command": "make", "cwd": "/" })),
            ("Bash", json!({ "command": "" })),
            ("Bash", json!({})),
            ("Write", json!({ "file_path": "a*b" })),
            ("Write", json!({ "file_path": "loop/x" })),
            // Some programs write to /project/x, and some to /var/x.
            ("Write", json!({ "file_path": "out/../x" })),
            ("edit", json!({ "changes": [{ "path": "x" }, { "path": "y" }] })),
            ("edit", json!({})),
            ("mcp__x__y", json!({ "anything": 1 })),
            ("mcp__x__y", json!({})),
        ] {
            assert_eq!(exact(tool, &args), None, "{tool} {args}");
        }
    }

    #[test]
    fn a_grant_covers_the_same_subject_in_any_spelling_and_nothing_else() {
        let covers = |pattern: &str, tool: &str, args: &Value| {
            grant_covers(&pattern.parse().unwrap(), Call { tool, args }, &here())
        };
        for (pattern, tool, args, expected) in [
            ("Bash(git push)", "Bash", json!({ "command": "git push", "description": "z" }), true),
            ("Bash(git push)", "Bash", json!({ "command": "git push -f" }), false),
            ("Bash(git push)", "Bash", json!({ "command": "git push; rm x" }), false),
            ("Bash(git push)", "Bash", json!({ "command": " git push" }), false),
            ("Bash(git push)", "execute", json!({ "command": "git push" }), false),
            ("Bash(git diff*)", "Bash", json!({ "command": "git diff --stat" }), true),
            ("Bash(git diff*)", "Bash", json!({ "command": "git diff | sh" }), false),
            ("Bash(git diff*)", "Bash", json!({ "command": "git diff", "env": {} }), false),
            (
                "Bash(git diff*)",
                "Bash",
                json!({ "command": "git diff", "env": { "A": "b" } }),
                false,
            ),
            ("Bash", "Bash", json!({ "command": "anything", "env": { "A": "b" } }), true),
            ("Bash", "Bash", json!({ "command": "anything > x" }), false),
            ("Bash", "Bash", json!({ "command": "anything", "env": { "A": "$(b)" } }), false),
            ("Bash", "Bash", json!({ "command": "make", "cwd": "/" }), false),
            ("Bash(cat*)", "Bash", json!({ "command": "cat /etc/passwd" }), false),
            ("Bash(cat*)", "Bash", json!({ "command": "cat src/x" }), true),
            ("Write(/*)", "Write", json!({ "file_path": "/etc/passwd" }), false),
            ("Write(/*)", "Write", json!({ "file_path": "src/x" }), true),
            ("Bash(git diff*)", "bash", json!({ "command": "git diff", "timeout": 9 }), true),
            ("Write", "write_file", json!({ "path": "src/x", "content": "" }), true),
            ("Write", "edit_file", json!({ "path": "src/x", "edits": [] }), false),
            ("mcp__x__y", "mcp__x__y", json!({ "anything": 1 }), true),
            ("mcp__x__y", "mcp__x__y", json!({ "note": "../../x" }), false),
            ("Write(/project/src/x)", "Write", json!({ "file_path": "lib/x" }), true),
            ("Write(/project/src/x)", "Write", json!({ "file_path": "src/y" }), false),
            ("Write(/project/src/x)", "Edit", json!({ "file_path": "src/x" }), false),
        ] {
            assert_eq!(covers(pattern, tool, &args), expected, "{pattern} {tool} {args}");
        }
    }

    #[test]
    fn the_paths_of_a_persons_pattern_are_resolved_and_it_must_cover_the_call() {
        let anchored = |pattern: &str, tool: &str, args: Value| {
            let pattern = pattern.parse().unwrap();
            let anchored = anchored_pattern(&pattern, Call { tool, args: &args }, &here());
            anchored.map(|pattern| pattern.to_string())
        };
        let write = || json!({ "file_path": "/short/lib/x" });
        for (pattern, expected) in [
            ("Write(lib/*)", Some("Write(/project/src/*)")),
            ("Write(lib/x)", Some("Write(/project/src/x)")),
            ("Write(/*)", Some("Write(/*)")),
            ("Write", Some("Write")),
            ("Write(docs/*)", None),
            ("Edit(lib/*)", None),
        ] {
            assert_eq!(anchored(pattern, "Write", write()).as_deref(), expected, "{pattern}");
        }
        let push = json!({ "command": "git push origin" });
        let bash = anchored("Bash(git push*)", "Bash", push.clone());
        assert_eq!(bash.as_deref(), Some("Bash(git push*)"));
        assert_eq!(anchored("Bash(git pull*)", "Bash", push), None);
    }

    #[test]
    fn a_link_that_appears_later_does_not_widen_a_grant() {
        for (pattern, path) in [("Write(src/a)", "src/a"), ("Write(docs/*)", "docs/passwd")] {
            let (pattern, args) = (pattern.parse().unwrap(), json!({ "file_path": path }));
            let call = Call { tool: "Write", args: &args };
            let grant = anchored_pattern(&pattern, call, &here()).unwrap();
            assert!(grant_covers(&grant, call, &here()));
            assert!(!grant_covers(&grant, call, &later()), "{grant}");
        }
    }
}
