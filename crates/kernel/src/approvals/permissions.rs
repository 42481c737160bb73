//! Decides whether an agent may make a call without asking. Pure: rules and a call in, a stance out.
//!
//! `deny` precedes `ask`, `ask` precedes `allow`. Invariant: a call that does more than its prefix shows, in a
//! longer command or through `..` or a link, is allowed by no prefix pattern; then `default` decides.

mod command;
mod path;
mod simple_commands;
mod subject;
mod url;

use std::path::{Path, PathBuf};

use agent_worker_protocol::{ArgumentPattern, PermissionAction, Permissions, ToolPattern};
use serde_json::Value;

use self::subject::{CallSubject, call_subjects};

/// The location of an agent.
pub(crate) struct PathContext<'a> {
    /// Working folder of the agent.
    pub(crate) cwd: &'a Path,
    /// Function that returns the target of a link; none if the path is no link.
    pub(crate) resolve_link: &'a dyn Fn(&Path) -> Option<PathBuf>,
}

/// Returns the action for a call of `tool` by an agent that works `here`.
pub(crate) fn stance(
    rules: &Permissions,
    tool: &str,
    args: &Value,
    here: &PathContext<'_>,
) -> PermissionAction {
    let abouts = call_subjects(tool, args, here);
    let names =
        |patterns: &[ToolPattern],
         fits: fn(&ArgumentPattern, &[CallSubject<'_>], &PathContext<'_>) -> bool| {
            patterns
                .iter()
                .any(|pattern| pattern.tool() == tool && fits(pattern.argument(), &abouts, here))
        };
    if names(&rules.deny, touches_call) {
        PermissionAction::Deny
    } else if names(&rules.ask, touches_call) {
        PermissionAction::Ask
    } else if names(&rules.allow, covers_call) {
        PermissionAction::Allow
    } else {
        rules.default
    }
}

/// Returns true if a pattern covers the whole call.
fn covers_call(fit: &ArgumentPattern, abouts: &[CallSubject<'_>], here: &PathContext<'_>) -> bool {
    let covered = |about: &CallSubject<'_>| match about {
        CallSubject::Command(command) => command::covers(fit, command),
        CallSubject::Path(path) => path.is_covered_by(fit, here),
        CallSubject::Url(url) => url::covers(fit, url),
        CallSubject::ForeignFolder | CallSubject::Unknown => false,
    };
    *fit == ArgumentPattern::Any || !abouts.is_empty() && abouts.iter().all(covered)
}

/// Returns true if a pattern matches, or may match, any part of a call.
fn touches_call(fit: &ArgumentPattern, abouts: &[CallSubject<'_>], here: &PathContext<'_>) -> bool {
    let touched = |about: &CallSubject<'_>| match about {
        CallSubject::Command(command) => command::may_match(fit, command),
        CallSubject::Path(path) => path.may_match(fit, here),
        CallSubject::Url(url) => url::may_match(fit, url),
        CallSubject::ForeignFolder => false,
        CallSubject::Unknown => true,
    };
    *fit == ArgumentPattern::Any || abouts.iter().any(touched)
}

#[cfg(test)]
mod tests;
