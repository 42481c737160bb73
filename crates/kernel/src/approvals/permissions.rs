//! Decides whether an agent may make a call without asking. Pure: rules and a call in, a stance out.
//!
//! `deny` precedes `ask`, `ask` precedes `allow`, `allow` precedes the mode. Invariant: a call that does more than its prefix shows, in a
//! longer command or through `..` or a link, is allowed by no prefix pattern; then `default` decides.

mod arguments;
mod command;
mod embedded_commands;
mod grant_pattern;
mod mode;
mod path;
mod plain_call;
mod simple_commands;
mod subject;
mod url;

use std::path::{Path, PathBuf};

use agent_worker_backends::{BuiltinEffect, builtin_tool, names_same_tool};
use agent_worker_protocol::{
    ArgumentPattern, PermissionAction, PermissionMode, Permissions, ToolPattern,
};
use serde_json::Value;

pub(crate) use self::grant_pattern::{
    Call, anchored_pattern, exact_pattern, grant_covers, once_only,
};
use self::mode::mode_action;
use self::subject::{CallSubject, CallSubjects, call_subjects};

/// The location of an agent.
pub(crate) struct PathContext<'a> {
    /// Working folder of the agent.
    pub(crate) cwd: &'a Path,
    /// The workflow file, which decides about the permissions of the next run.
    pub(crate) workflow_file: Option<&'a Path>,
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
    let subjects = call_subjects(tool, args, here);
    let names =
        |patterns: &[ToolPattern],
         fits: fn(&ArgumentPattern, &CallSubjects<'_>, &PathContext<'_>) -> bool| {
            patterns.iter().any(|pattern| {
                names_same_tool(pattern.tool(), tool) && fits(pattern.argument(), &subjects, here)
            })
        };
    if names(&rules.deny, touches_call) {
        PermissionAction::Deny
    } else if names(&rules.ask, touches_call) {
        PermissionAction::Ask
    } else if names(&rules.allow, covers_call) {
        PermissionAction::Allow
    } else {
        let action = rules.mode.and_then(|mode| mode_action(mode, tool, &subjects, here));
        action.unwrap_or_else(|| unruled_action(rules, tool))
    }
}

/// Returns the action for a call that neither a pattern nor the mode decides about. Of the built-in tools those that act on an
/// allowed command need no approval, and without `default` those that only read files need none either.
fn unruled_action(rules: &Permissions, tool: &str) -> PermissionAction {
    match (builtin_tool(tool).map(|row| row.effect), rules.default) {
        (Some(BuiltinEffect::Follows), _) | (Some(BuiltinEffect::Reads), None) => {
            PermissionAction::Allow
        }
        (_, default) => default.unwrap_or_default(),
    }
}

/// Returns the reason of a denial, for the agent.
pub(crate) fn denial_reason(
    rules: &Permissions,
    tool: &str,
    args: &Value,
    here: &PathContext<'_>,
) -> String {
    let without_mode = Permissions { mode: None, ..rules.clone() };
    match rules.mode {
        Some(PermissionMode::Plan)
            if stance(&without_mode, tool, args, here) != PermissionAction::Deny =>
        {
            format!("{tool} is not allowed in plan mode: read and plan, and change nothing")
        }
        Some(PermissionMode::Plan | PermissionMode::AcceptEdits) | None => {
            format!("{tool} is not allowed here")
        }
    }
}

/// Returns true if a pattern covers the whole call.
fn covers_call(fit: &ArgumentPattern, subjects: &CallSubjects<'_>, here: &PathContext<'_>) -> bool {
    let covered = |subject: &CallSubject<'_>| match subject {
        CallSubject::Command(command) => command::covers(fit, command),
        CallSubject::Path(path) => path.is_covered_by(fit, here),
        CallSubject::Url(url) => url::covers(fit, url),
        CallSubject::Unknown => false,
    };
    let is_whole = !subjects.has_unknown_argument && !subjects.named.is_empty();
    *fit == ArgumentPattern::Any || is_whole && subjects.named.iter().all(covered)
}

/// Returns true if a pattern matches, or may match, any part of a call.
fn touches_call(
    fit: &ArgumentPattern,
    subjects: &CallSubjects<'_>,
    here: &PathContext<'_>,
) -> bool {
    let touched = |subject: &CallSubject<'_>| match subject {
        CallSubject::Command(command) => command::may_match(fit, command),
        CallSubject::Path(path) => path.may_match(fit, here),
        CallSubject::Url(url) => url::may_match(fit, url),
        CallSubject::Unknown => true,
    };
    *fit == ArgumentPattern::Any || subjects.named.iter().chain(&subjects.suspected).any(touched)
}

#[cfg(test)]
mod tests;
