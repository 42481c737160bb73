//! The recipients of a final answer. Pure; called inside the transaction that ends the attempt.
//!
//! An answer is delivered to each agent to which it hands work (`workflow/mentions/answer.rs`), unless a message of the
//! turn already wakes that agent. A message with the agent only in `cc` does not wake it, so it does not count. Earlier
//! attempts of the same turn count, because their messages stay sent.
//!
//! A turn that only answers woke does not deliver its own answer to their authors, so two agents that answer each other
//! stop. All other mentions, and hand-offs that are not delivered, are unheard; so are hand-offs to a name that no agent
//! has. An answer of an agent that may not send messages is not delivered either. Each hand-off has its cause.

use std::collections::HashSet;

use agent_worker_protocol::{AgentName, MessageKind, PauseCause, Priority, Sender};
use agent_worker_store::{AnswerFacts, AnswerStep, LimitScope, UnheardAgent};
use agent_worker_workflow::{AnswerHandling, AnswerMentions, nearest};

/// Maximum number of unheard mentions of one answer; `@all` may mention a large team.
const MAX_UNHEARD_MENTIONS: usize = 20;

/// The facts about an answer that do not change until the transaction.
#[derive(Clone, Debug)]
pub(crate) struct AnswerPolicy {
    /// Agent that wrote the answer.
    pub(crate) author: AgentName,
    /// Names that the answer mentions.
    pub(crate) mentions: AnswerMentions,
    /// Treatment of answers in the run.
    pub(crate) handling: AnswerHandling,
    /// Cause for which the author may not send a message, if there is one.
    pub(crate) send_block: Option<String>,
    /// Cause of a pause, if the answer exceeds the hop limit.
    pub(crate) hop_limit: Option<PauseCause>,
    /// Scope of the limits of the run.
    pub(crate) limit_scope: LimitScope,
}

impl AnswerPolicy {
    /// Decides about the answer.
    pub(crate) fn decide(&self, facts: &AnswerFacts) -> AnswerStep {
        let mentioned = self.mentions.resolve(&facts.team, &self.author);
        let messaged: HashSet<_> = facts.messaged.iter().collect();
        let is_unmessaged = |agent: &AgentName| !messaged.contains(agent);
        let (mut recipients, mut unheard) = (Vec::new(), Vec::new());
        for agent in mentioned.hand_offs.into_iter().filter(is_unmessaged) {
            match self.withholding_cause(&agent, facts) {
                None => recipients.push(agent),
                cause => unheard.push(UnheardAgent { agent, cause }),
            }
        }
        unheard.extend(mentioned.unknown.into_iter().take(MAX_UNHEARD_MENTIONS).map(|agent| {
            let cause = Some(unknown_agent_text(&agent, &facts.team));
            UnheardAgent { agent, cause }
        }));
        let others = mentioned.others.into_iter().filter(is_unmessaged);
        unheard.extend(others.map(|agent| UnheardAgent { agent, cause: None }));
        unheard.truncate(MAX_UNHEARD_MENTIONS);
        let pause = self.hop_limit.clone().filter(|_| !recipients.is_empty());
        // Several recipients must coordinate, as those of a message that mentions them.
        let priority = if recipients.len() > 1 { Priority::High } else { Priority::Normal };
        AnswerStep { recipients, unheard, priority, pause }
    }

    /// Returns the cause for which a hand-off to an agent is not delivered; none if it is. Standalone agents share one
    /// run, which must not pause for two of them: beyond the hop limit their answers wake no agent.
    fn withholding_cause(&self, agent: &AgentName, facts: &AnswerFacts) -> Option<String> {
        match (self.handling, &self.send_block, &self.hop_limit, self.limit_scope) {
            (AnswerHandling::Record, ..) => Some("the run delivers no answers".to_owned()),
            (AnswerHandling::Deliver, Some(cause), ..) => Some(cause.clone()),
            (AnswerHandling::Deliver, None, Some(limit), LimitScope::Standalone) => {
                Some(limit.to_string())
            }
            (AnswerHandling::Deliver, None, ..) => is_ending_conversation(agent, facts)
                .then(|| format!("an answer of {agent} woke this turn, so the conversation ends")),
        }
    }
}

/// Describes a name that no agent has.
fn unknown_agent_text(name: &AgentName, team: &[AgentName]) -> String {
    let near = nearest(name.as_str(), team.iter().map(AgentName::as_str));
    let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
    format!("there is no agent {name}{near}")
}

/// Returns true if only answers woke the turn, and one of them is this agent's.
fn is_ending_conversation(agent: &AgentName, facts: &AnswerFacts) -> bool {
    let woken_by = &facts.woken_by;
    woken_by.iter().all(|message| message.kind == MessageKind::Answer)
        && woken_by.iter().any(|message| message.from == Sender::Agent(agent.clone()))
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::LimitKind;
    use agent_worker_store::WakingMessage;

    use super::*;

    fn names(text: &str) -> Vec<AgentName> {
        text.split_whitespace().map(|name| name.parse().unwrap()).collect()
    }

    fn policy(answer: &str) -> AnswerPolicy {
        AnswerPolicy {
            author: "a".parse().unwrap(),
            mentions: AnswerMentions::parse(answer),
            handling: AnswerHandling::Deliver,
            send_block: None,
            hop_limit: None,
            limit_scope: LimitScope::Team,
        }
    }

    /// Reads the messages that woke a turn: `user`, or `b!` for an answer of b.
    fn facts(messaged: &str, woken_by: &str) -> AnswerFacts {
        let woken_by = woken_by.split_whitespace().map(|word| {
            let (from, kind) = match word.strip_suffix('!') {
                Some(from) => (from, MessageKind::Answer),
                None => (word, MessageKind::Message),
            };
            WakingMessage { from: Sender::from(from.to_owned()), kind }
        });
        AnswerFacts {
            team: names("a b c d"),
            messaged: names(messaged),
            woken_by: woken_by.collect(),
        }
    }

    fn step_text(step: &AnswerStep) -> String {
        let recipients: Vec<_> = step.recipients.iter().map(ToString::to_string).collect();
        let unheard = step.unheard.iter().map(|one| match &one.cause {
            Some(cause) => format!("{} ({cause})", one.agent),
            None => one.agent.to_string(),
        });
        let unheard: Vec<_> = unheard.collect();
        let pause = if step.pause.is_some() { " pause" } else { "" };
        format!("{} | {}{pause}", recipients.join(" "), unheard.join(" "))
    }

    #[test]
    fn an_answer_goes_to_the_agents_that_it_hands_work_to_and_that_the_turn_did_not_message() {
        for (answer, messaged, woken_by, expected) in [
            ("@b please fix", "", "user", "b | "),
            ("@b please fix", "b", "user", " | "),
            ("@b please fix", "c", "user", "b | "),
            ("Thanks @b", "", "user", " | b"),
            ("Thanks @b", "b", "user", " | "),
            ("@b fix; ask @c", "", "user", "b | c"),
            ("@all done", "", "user", " | b c d"),
            ("@all done", "b c", "user", " | d"),
            ("@a @user @zoe done", "", "user", " | zoe (there is no agent zoe)"),
            // The author of the answer that woke the turn.
            (
                "@b thanks",
                "",
                "b!",
                " | b (an answer of b woke this turn, so the conversation ends)",
            ),
            ("@b thanks", "b", "b!", " | "),
            (
                "@b thanks\n\n@c please test",
                "",
                "b!",
                "c | b (an answer of b woke this turn, so the conversation ends)",
            ),
            ("@b thanks", "", "b", "b | "),
            ("@b thanks", "", "b! user", "b | "),
            (
                "@b thanks\n\n@d look",
                "",
                "b! c!",
                "d | b (an answer of b woke this turn, so the conversation ends)",
            ),
            ("@b thanks", "", "c!", "b | "),
            // Every waking message is unreadable.
            ("@b thanks", "", "", "b | "),
        ] {
            let step = policy(answer).decide(&facts(messaged, woken_by));
            assert_eq!(step_text(&step), expected, "{answer:?} woken by {woken_by}");
        }
    }

    #[test]
    fn a_run_that_records_answers_delivers_none() {
        let policy = AnswerPolicy { handling: AnswerHandling::Record, ..policy("@b fix; ask @c") };
        let recorded = " | b (the run delivers no answers) c";
        assert_eq!(step_text(&policy.decide(&facts("", "user"))), recorded);
        assert_eq!(step_text(&policy.decide(&facts("b", "user"))), " | c");
    }

    #[test]
    fn a_hand_off_to_a_name_that_no_agent_has_is_unheard_with_a_suggestion() {
        for (answer, expected) in [
            ("@codr please fix", " | codr (there is no agent codr; did you mean coder?)"),
            ("@zoe @coder please fix", "coder | zoe (there is no agent zoe)"),
            ("As @codr said, all is well.", " | "),
        ] {
            let facts = AnswerFacts { team: names("a coder tester"), ..facts("", "user") };
            assert_eq!(step_text(&policy(answer).decide(&facts)), expected, "{answer:?}");
        }
    }

    #[test]
    fn an_answer_of_an_agent_that_may_not_send_is_not_delivered() {
        let send_block = Some("shut".to_owned());
        let policy = AnswerPolicy { send_block, ..policy("@b fix; ask @c\n\n@d test") };
        assert_eq!(step_text(&policy.decide(&facts("", "user"))), " | b (shut) d (shut) c");
        assert_eq!(step_text(&policy.decide(&facts("b c", "user"))), " | d (shut)");
        let recorded = AnswerPolicy { handling: AnswerHandling::Record, ..policy };
        let cause = "the run delivers no answers";
        let expected = format!(" | b ({cause}) d ({cause}) c");
        assert_eq!(step_text(&recorded.decide(&facts("", "user"))), expected);
    }

    #[test]
    fn an_answer_for_two_agents_has_high_priority() {
        for (answer, messaged, expected) in [
            ("@b @c please coordinate", "", Priority::High),
            ("@b @c please coordinate", "c", Priority::Normal),
            ("@b please ask @c", "", Priority::Normal),
            ("@all done", "", Priority::Normal),
        ] {
            let step = policy(answer).decide(&facts(messaged, "user"));
            assert_eq!(step.priority, expected, "{answer:?} after {messaged:?}");
        }
    }

    #[test]
    fn beyond_the_hop_limit_a_team_pauses_and_standalone_agents_are_not_woken() {
        let cause = PauseCause::limit(LimitKind::Hops, "51 of 50".to_owned());
        let limited = |answer, limit_scope| AnswerPolicy {
            hop_limit: Some(cause.clone()),
            limit_scope,
            ..policy(answer)
        };
        for (answer, scope, expected) in [
            ("@b fix", LimitScope::Team, "b |  pause"),
            ("thanks @b", LimitScope::Team, " | b"),
            ("@b fix", LimitScope::Standalone, " | b (hop limit (51 of 50))"),
        ] {
            let step = limited(answer, scope).decide(&facts("", "user"));
            assert_eq!(step_text(&step), expected, "{answer:?} {scope:?}");
        }
    }
}
