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
        let told = |name: &String| KickoffProblem {
            why: format!("the kickoff mentions `@{name}`, who is nobody"),
            hint: match nearest(name, team.iter().map(AgentName::as_str).take(MAX_COMPARED_NAMES)) {
                Some(meant) => format!("did you mean `@{meant}`?"),
                None => "write it as code, `` `@name` ``, if nobody is meant".to_owned(),
            },
        };
        named.iter().take(MAX_NAMED_UNKNOWN).map(told).collect()
    }

    /// Returns the reason for which a `run` would wake no agent for all values. If that depends on the values, the
    /// result is none.
    pub fn kickoff_problem(&self) -> Option<KickoffProblem> {
        let team: Vec<AgentName> = self.agents.iter().map(|agent| agent.name.clone()).collect();
        let anybody = team.first().map(AgentName::as_str).unwrap_or_default();
        let Some(kickoff) = &self.kickoff else {
            return Some(KickoffProblem {
                why: "the file has no kickoff, so nobody is woken".to_owned(),
                hint: format!("add one that mentions somebody: `kickoff: \"@{anybody} …\"`"),
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
            why: format!("the kickoff mentions no agent, so nobody is woken{nobody}"),
            hint: format!("mention somebody in its own words, such as `@{anybody}`"),
        })
    }
}

fn mentions_with_value(kickoff: &Template, value: &str, team: &[AgentName]) -> Mentions {
    let rendered = kickoff.render_with(value);
    mentions(&rendered.text, &rendered.data, team)
}

fn unknown_mention_text(name: &str, team: &[AgentName]) -> String {
    match nearest(name, team.iter().map(AgentName::as_str).take(MAX_COMPARED_NAMES)) {
        Some(meant) => format!("; `@{name}` is nobody, did you mean `@{meant}`?"),
        None => format!("; `@{name}` is nobody"),
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
    fn a_kickoff_that_can_wake_somebody_is_not_complained_about() {
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
    fn a_kickoff_that_wakes_nobody_whatever_its_values_says_why() {
        for (kickoff, more) in [
            ("please review", ""),
            ("", ""),
            ("`@coder` go", ""),
            ("> @coder", ""),
            ("```\n@coder\n${{ diff }}\n```", ""),
            ("@${{ diff }}", ""),
            ("me@coder.org", ""),
            ("@codr go", "; `@codr` is nobody, did you mean `@coder`?"),
            ("@zebra @codr", "; `@zebra` is nobody; `@codr` is nobody, did you mean `@coder`?"),
        ] {
            let why = format!("the kickoff mentions no agent, so nobody is woken{more}");
            assert_eq!(problem_text(kickoff), Some(why), "{kickoff}");
        }
    }

    #[test]
    fn whoever_is_nobody_beside_somebody_is_told_whatever_the_values() {
        let strangers = |kickoff: &str| -> Vec<String> {
            let kickoff = serde_json::to_string(kickoff).unwrap();
            let text = format!(
                "agents: {{ coder: {{ backend: mock }} }}
setup: [{{ shell: git diff, as: diff }}]
kickoff: {kickoff}\n"
            );
            let told = parse(&text, Path::new("team.yaml")).unwrap().unknown_mentions();
            told.into_iter().map(|one| format!("{}; {}", one.why, one.hint)).collect()
        };
        assert_eq!(
            strangers("@coder go, then @codr"),
            ["the kickoff mentions `@codr`, who is nobody; did you mean `@coder`?"]
        );
        let zebra = "the kickoff mentions `@zebra`, who is nobody; write it as code, `` `@name` ``, if nobody is meant";
        assert_eq!(strangers("@coder ${{ diff }} @zebra"), [zebra]);
        for quiet in ["@coder go", "@coder `@zebra`", "@coder @zebra${{ diff }}", "@zebra"] {
            assert_eq!(strangers(quiet), Vec::<String>::new(), "{quiet}");
        }
    }

    #[test]
    fn without_a_kickoff_nobody_is_woken() {
        let workflow = parse("agents: { a: { backend: mock } }", Path::new("team.yaml")).unwrap();
        let silence = workflow.kickoff_problem().unwrap();
        assert_eq!(silence.why, "the file has no kickoff, so nobody is woken");
        assert!(silence.hint.contains("@a"), "{}", silence.hint);
    }
}
