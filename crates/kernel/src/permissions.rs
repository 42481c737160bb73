//! Whether an agent may do something by itself. Pure: rules and a call in, a stance out.
//!
//! `deny` comes before `ask`, `ask` before `allow`. Invariant: what hides more than its beginning says, in a longer command or
//! behind `..` or a link, is allowed by no pattern that begins it; then `default` decides.

mod address;
mod command;
mod path;

use std::path::{Path, PathBuf};

use agent_worker_protocol::{Fit, Permissions, Stance, ToolPattern};
use serde_json::Value;

use self::path::Given;

/// Arguments that say what a call is about: a command, a path, an address.
const COMMAND: &str = "command";
const PATHS: [&str; 3] = ["file_path", "notebook_path", "path"];
const ADDRESS: &str = "url";

/// Where an agent works.
pub(crate) struct Here<'a> {
    /// Its working folder.
    pub(crate) cwd: &'a Path,
    /// Where a link leads; none if it is no link.
    pub(crate) link: &'a dyn Fn(&Path) -> Option<PathBuf>,
}

/// What a call is about. A call may be about several things at once.
enum About<'a> {
    Command(&'a str),
    Path(Given),
    Address(&'a str),
    /// Nobody here can tell.
    Unreadable,
}

/// What is said to a call of `tool` by an agent that works `here`.
pub(crate) fn stance(rules: &Permissions, tool: &str, args: &Value, here: &Here<'_>) -> Stance {
    let abouts = abouts(args, here);
    let names = |patterns: &[ToolPattern], fits: fn(&Fit, &[About<'_>], &Here<'_>) -> bool| {
        patterns.iter().any(|pattern| pattern.tool() == tool && fits(pattern.fit(), &abouts, here))
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

fn abouts<'a>(args: &'a Value, here: &Here<'_>) -> Vec<About<'a>> {
    let read = |name: &str, as_what: &dyn Fn(&'a str) -> About<'a>| {
        let given = args.get(name).filter(|value| !value.is_null())?;
        Some(given.as_str().map_or(About::Unreadable, as_what))
    };
    let path = |text: &'a str| Given::new(text, here).map_or(About::Unreadable, About::Path);
    let paths = PATHS.iter().map(|name| read(name, &path));
    let others = [read(COMMAND, &About::Command), read(ADDRESS, &About::Address)];
    others.into_iter().chain(paths).flatten().collect()
}

/// Whether all of a call is what a pattern names.
fn covers(fit: &Fit, abouts: &[About<'_>], here: &Here<'_>) -> bool {
    let covered = |about: &About<'_>| match about {
        About::Command(command) => command::is_all_of(fit, command),
        About::Path(path) => path.is_all_of(fit, here),
        About::Address(url) => address::is_all_of(fit, url),
        About::Unreadable => false,
    };
    *fit == Fit::Any || !abouts.is_empty() && abouts.iter().all(covered)
}

/// Whether anything of a call is what a pattern names, or may be.
fn touches(fit: &Fit, abouts: &[About<'_>], here: &Here<'_>) -> bool {
    let touched = |about: &About<'_>| match about {
        About::Command(command) => command::is_part_of(fit, command),
        About::Path(path) => path.is_part_of(fit, here),
        About::Address(url) => address::is_part_of(fit, url),
        About::Unreadable => true,
    };
    *fit == Fit::Any || abouts.iter().any(touched)
}

#[cfg(test)]
mod tests;
