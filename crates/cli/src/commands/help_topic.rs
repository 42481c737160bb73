//! `agent-worker help TOPIC`: a section of the documentation in the terminal. The texts are those of `docs/reference`.

use crate::{
    error::CliError,
    input::context::CommandContext,
    output::{manual_text, verdict::RunVerdict},
};

const COMMANDS: &str = include_str!("../../../../docs/reference/commands.md");
const CONFIG: &str = include_str!("../../../../docs/reference/config.md");
const PERMISSIONS: &str = include_str!("../../../../docs/reference/permissions.md");
const WORKFLOW: &str = include_str!("../../../../docs/reference/workflow.md");

/// Maximum width of the text; longer lines are hard to read.
const MAX_WIDTH: usize = 100;

/// A text that explains a subject of several commands.
#[derive(Debug)]
pub(crate) struct HelpTopic {
    name: &'static str,
    page: &'static str,
    /// The section of the page; none for the text before the first section.
    heading: Option<&'static str>,
}

const fn topic(name: &'static str, page: &'static str, heading: Option<&'static str>) -> HelpTopic {
    HelpTopic { name, page, heading }
}

/// All topics, in the order of the help.
static TOPICS: [HelpTopic; 8] = [
    topic("targets", COMMANDS, Some("Targets")),
    topic("exit-codes", COMMANDS, Some("Exit codes")),
    topic("environment", CONFIG, Some("Environment variables")),
    topic("workflow", WORKFLOW, None),
    topic("paths", WORKFLOW, Some("Paths")),
    topic("mentions", WORKFLOW, Some("Mentions")),
    topic("limits", WORKFLOW, Some("Limits")),
    topic("permissions", PERMISSIONS, None),
];

/// Returns the names of all topics.
pub(crate) fn topic_names() -> impl Iterator<Item = &'static str> {
    TOPICS.iter().map(|topic| topic.name)
}

/// Returns the topic with a name.
pub(crate) fn find_topic(name: &str) -> Option<&'static HelpTopic> {
    TOPICS.iter().find(|topic| topic.name == name)
}

/// Runs the command.
pub(crate) fn run(topic: &HelpTopic, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let text = manual_text::section(topic.page, topic.heading).unwrap_or(topic.page);
    let width = ctx.console.stdout_width().unwrap_or(MAX_WIDTH).min(MAX_WIDTH);
    ctx.console.print_lines(&manual_text::render(text, width))?;
    Ok(RunVerdict::Done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::invocation::full_clap_command;

    #[test]
    fn every_topic_has_its_section_and_no_topic_is_a_command() {
        for topic in &TOPICS {
            let text = manual_text::section(topic.page, topic.heading);
            assert!(text.is_some_and(|text| text.lines().count() > 3), "{}", topic.name);
            assert!(topic.heading.is_none() || text != Some(topic.page), "{}", topic.name);
        }
        let grammar = full_clap_command();
        let mut commands = grammar.get_subcommands().map(clap::Command::get_name);
        assert!(!commands.any(|name| find_topic(name).is_some()));
    }
}
