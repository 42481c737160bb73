//! The help of `agent-worker`: its commands in groups, the common ones first. clap lists commands without groups.

use std::fmt::Write as _;

use clap::{Command, builder::StyledStr};

/// The groups and their commands, in the order of the help.
const GROUPS: [(&str, &[&str]); 7] = [
    ("First steps", &["demo", "init", "run", "up", "ask", "attach"]),
    (
        "Work with agents",
        &["send", "new", "use", "chat", "answer", "pending", "approve", "deny", "revoke"],
    ),
    (
        "See what happens",
        &[
            "ls", "status", "why", "peek", "logs", "top", "turns", "turn", "runs", "stats", "ps",
            "receipts", "dead", "export",
        ],
    ),
    (
        "Control runs",
        &["start", "stop", "down", "pause", "resume", "interrupt", "restart", "clear", "rm"],
    ),
    ("Share and decide", &["doc", "resource", "context", "proposals", "propose", "vote", "veto"]),
    (
        "Set up and maintain",
        &[
            "validate",
            "backends",
            "providers",
            "doctor",
            "config",
            "daemon",
            "mcp",
            "sandbox",
            "token",
            "agent",
            "mock",
            "tool",
            "session",
        ],
    ),
    ("Reference", &["help", "schema", "completions", "man", "feedback"]),
];
const HELP_ABOUT: &str = "Explain a command or a topic";
/// The group of a command that has none.
const OTHERS: &str = "Other commands";

/// Returns the complete help for `grammar`, which must be built.
pub(crate) fn grouped_help(grammar: &Command, topics: &str) -> StyledStr {
    let styles = grammar.get_styles();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let groups = groups_of(grammar);
    let names = groups.iter().flat_map(|(_, commands)| commands).map(|one| one.get_name().len());
    let width = names.max().unwrap_or(0);
    let mut help = StyledStr::new();
    let about = grammar.get_about().map(ToString::to_string).unwrap_or_default();
    let _ = write!(
        help,
        "{about}\n\n{header}Usage:{header:#} {literal}agent-worker{literal:#} [--config FILE] [COMMAND]\n"
    );
    for (title, commands) in groups {
        let _ = write!(help, "\n{header}{title}:{header:#}\n");
        for command in commands {
            let name = command.get_name();
            let about = match name {
                // clap's own words say nothing about topics.
                "help" => HELP_ABOUT.to_owned(),
                _ => command.get_about().map(ToString::to_string).unwrap_or_default(),
            };
            let _ = writeln!(help, "  {literal}{name:width$}{literal:#}  {about}");
        }
    }
    let _ = write!(help, "\n{header}Options:{header:#}\n");
    for (option, about) in [
        ("--config FILE", "Read this configuration file, or `none`; before COMMAND"),
        ("-h, --help", "Print help"),
        ("-V, --version", "Print version"),
    ] {
        let _ = writeln!(help, "  {literal}{option:13}{literal:#}  {about}");
    }
    let _ = write!(help, "\n{header}Topics:{header:#} agent-worker help TOPIC\n  {topics}\n");
    let after = grammar.get_after_help().map(ToString::to_string).unwrap_or_default();
    let _ = writeln!(help, "\n{after}");
    help
}

/// Returns the visible commands by group; a command without a group is in the last one.
fn groups_of(grammar: &Command) -> Vec<(&'static str, Vec<&Command>)> {
    let mut others: Vec<&Command> =
        grammar.get_subcommands().filter(|one| !one.is_hide_set()).collect();
    let mut groups: Vec<_> = GROUPS
        .iter()
        .map(|(title, names)| {
            let taken = names.iter().filter_map(|name| {
                let at = others.iter().position(|one| one.get_name() == *name)?;
                Some(others.remove(at))
            });
            (*title, taken.collect::<Vec<_>>())
        })
        .collect();
    groups.push((OTHERS, others));
    groups.retain(|(_, commands)| !commands.is_empty());
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::invocation::full_clap_command;

    #[test]
    fn every_command_is_in_one_group() {
        let mut grammar = full_clap_command();
        grammar.build();
        let groups = groups_of(&grammar);
        let grouped: usize = groups.iter().map(|(_, commands)| commands.len()).sum();
        let visible = grammar.get_subcommands().filter(|one| !one.is_hide_set()).count();
        assert_eq!(grouped, visible);
        let titles: Vec<_> = groups.iter().map(|(title, _)| *title).collect();
        assert_eq!(titles, GROUPS.map(|(title, _)| title), "a command has no group");
        assert_eq!(groups[0].1.len(), 6, "the first steps exist");
    }
}
