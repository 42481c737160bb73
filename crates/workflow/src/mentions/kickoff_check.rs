//! Checks that a kickoff wakes an agent, as far as the file alone allows.

use agent_worker_protocol::AgentName;

use crate::{
    definition::workflow::Workflow,
    diagnostics::spelling::nearest,
    mentions::{Mentions, mentions},
    template::Template,
};

/// Placeholders for any value: the position of a line break, and adjacent letters, can decide a mention.
const PLACEHOLDER_VALUES: [&str; 2] = [" ", "\n"];
/// Maximum number of unknown mentions in a message, and of agents that each is compared with.
const MAX_NAMED_UNKNOWN: usize = 3;
const MAX_COMPARED_NAMES: usize = 100;

/// Problem of a kickoff that does not wake an agent it seems to address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KickoffProblem {
    /// Explanation of the problem.
    pub why: String,
    /// Suggested text for the kickoff.
    pub hint: String,
}

impl Workflow {
    /// Returns the unknown mentions of a kickoff that also wakes an agent, if they are unknown for all values: a
    /// sentence and a correction for each.
    pub fn unknown_mentions(&self) -> Vec<KickoffProblem> {
        let team: Vec<AgentName> = self.agents.iter().map(|agent| agent.name.clone()).collect();
        let Some(kickoff) = self.kickoff.as_ref().filter(|_| self.kickoff_problem().is_none())
        else {
            return Vec::new();
        };
        // A value that begins with a letter extends the name before it.
        let [mut named, broken, longer] =
            [" ", "\n", "x"].map(|value| mentions_with_value(kickoff, value, &team).unknown);
        named.retain(|name| broken.contains(name) && longer.contains(name));
        let problems = |name: &String| KickoffProblem {
            why: format!("the kickoff mentions `@{name}`, which is not an agent"),
            hint: match nearest(name, team.iter().map(AgentName::as_str).take(MAX_COMPARED_NAMES)) {
                Some(meant) => format!("did you mean `@{meant}`?"),
                None => "write it as code, `` `@name` ``, if no agent is meant".to_owned(),
            },
        };
        named.iter().take(MAX_NAMED_UNKNOWN).map(problems).collect()
    }

    /// Returns the reason for which a `run` would wake no agent for all values. If that depends on the values, the
    /// result is none, and also for a file with tasks, which may work without agents.
    pub fn kickoff_problem(&self) -> Option<KickoffProblem> {
        if !self.tasks.is_empty() {
            return None;
        }
        let team: Vec<AgentName> = self.agents.iter().map(|agent| agent.name.clone()).collect();
        let anybody = team.first().map(AgentName::as_str).unwrap_or_default();
        let Some(kickoff) = &self.kickoff else {
            return Some(KickoffProblem {
                why: "the file has no kickoff, so no agent is woken".to_owned(),
                hint: format!("add a kickoff that mentions an agent: `kickoff: \"@{anybody} …\"`"),
            });
        };
        let placeholders = if kickoff.references().next().is_some() {
            &PLACEHOLDER_VALUES
        } else {
            &PLACEHOLDER_VALUES[..1]
        };
        let mut unknown = Vec::new();
        for value in placeholders {
            let found = mentions_with_value(kickoff, value, &team);
            if found.everyone || !found.agents.is_empty() {
                return None;
            }
            unknown = found.unknown;
        }
        let nobody: String = unknown
            .iter()
            .take(MAX_NAMED_UNKNOWN)
            .map(|name| unknown_mention_text(name, &team))
            .collect();
        Some(KickoffProblem {
            why: format!("the kickoff mentions no agent, so none is woken{nobody}"),
            hint: format!("mention an agent in the kickoff's own text, such as `@{anybody}`"),
        })
    }
}

fn mentions_with_value(kickoff: &Template, value: &str, team: &[AgentName]) -> Mentions {
    let rendered = kickoff.render_with(value);
    mentions(&rendered.text, &rendered.data, team)
}

fn unknown_mention_text(name: &str, team: &[AgentName]) -> String {
    match nearest(name, team.iter().map(AgentName::as_str).take(MAX_COMPARED_NAMES)) {
        Some(meant) => format!("; `@{name}` is not an agent, did you mean `@{meant}`?"),
        None => format!("; `@{name}` is not an agent"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::parse;

    /// Returns the problem of a file with this kickoff and the agents `coder` and `lead`.
    fn problem_text(kickoff: &str) -> Option<String> {
        let kickoff = serde_json::to_string(kickoff).unwrap();
        let text = format!(
            "agents: {{ coder: {{ backend: mock }}, lead: {{ backend: mock }} }}
setup: [{{ shell: git diff, as: diff }}]
kickoff: {kickoff}\n"
        );
        parse(&text, Path::new("team.yaml")).unwrap().kickoff_problem().map(|silence| silence.why)
    }

    #[test]
    fn a_kickoff_that_can_wake_an_agent_has_no_problem() {
        for kickoff in [
            "@coder go",
            "@all hands",
            "@LEAD",
            "${{ diff }}\n@coder go",
            // For these the result depends on the value.
            "${{ diff }}@coder",
            "> ${{ diff }} @coder",
            "@coder${{ diff }}",
        ] {
            assert_eq!(problem_text(kickoff), None, "{kickoff}");
        }
    }

    #[test]
    fn a_kickoff_that_wakes_no_agent_for_any_values_has_a_problem() {
        for (kickoff, more) in [
            ("please review", ""),
            ("", ""),
            ("`@coder` go", ""),
            ("> @coder", ""),
            ("```\n@coder\n${{ diff }}\n```", ""),
            ("@${{ diff }}", ""),
            ("me@coder.org", ""),
            ("@codr go", "; `@codr` is not an agent, did you mean `@coder`?"),
            (
                "@zebra @codr",
                "; `@zebra` is not an agent; `@codr` is not an agent, did you mean `@coder`?",
            ),
        ] {
            let why = format!("the kickoff mentions no agent, so none is woken{more}");
            assert_eq!(problem_text(kickoff), Some(why), "{kickoff}");
        }
    }

    #[test]
    fn an_unknown_mention_next_to_a_known_one_is_reported_for_all_values() {
        let unknown_mentions = |kickoff: &str| -> Vec<String> {
            let kickoff = serde_json::to_string(kickoff).unwrap();
            let text = format!(
                "agents: {{ coder: {{ backend: mock }} }}
setup: [{{ shell: git diff, as: diff }}]
kickoff: {kickoff}\n"
            );
            let problems = parse(&text, Path::new("team.yaml")).unwrap().unknown_mentions();
            problems.into_iter().map(|one| format!("{}; {}", one.why, one.hint)).collect()
        };
        assert_eq!(
            unknown_mentions("@coder go, then @codr"),
            ["the kickoff mentions `@codr`, which is not an agent; did you mean `@coder`?"]
        );
        let zebra = "the kickoff mentions `@zebra`, which is not an agent; write it as code, `` `@name` ``, if no agent is meant";
        assert_eq!(unknown_mentions("@coder ${{ diff }} @zebra"), [zebra]);
        for quiet in ["@coder go", "@coder `@zebra`", "@coder @zebra${{ diff }}", "@zebra"] {
            assert_eq!(unknown_mentions(quiet), Vec::<String>::new(), "{quiet}");
        }
    }

    #[test]
    fn without_a_kickoff_no_agent_is_woken() {
        let workflow = parse("agents: { a: { backend: mock } }", Path::new("team.yaml")).unwrap();
        let silence = workflow.kickoff_problem().unwrap();
        assert_eq!(silence.why, "the file has no kickoff, so no agent is woken");
        assert!(silence.hint.contains("@a"), "{}", silence.hint);
    }
}
