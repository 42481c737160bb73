//! Mentions in the final answer of a turn, as a pure function: hand-offs, and all other mentions.
//!
//! Invariants: the time of a parse is linear in the length of the answer, and the time of [`AnswerMentions::resolve`],
//! which the store calls inside a transaction, does not depend on that length. The second one follows from two limits:
//!
//! - An answer may mention [`MAX_NAMES`] different names in each way; further names are ignored.
//! - Only the first [`MAX_HAND_OFF_BYTES`] of an answer contain hand-offs. The channel has only a preview of such an
//!   answer. A mention after them is no hand-off, so it is recorded and not lost. It is found without a Markdown parser.
//!
//! An answer contains no interpolated data.

mod hand_offs;

use std::collections::HashSet;

use agent_worker_protocol::AgentName;

use self::hand_offs::hand_off_positions;
use super::{MentionedName, TeamIndex, is_name_character, mention_tokens, tokens_outside};

/// Size of the first part of an answer, which may contain hand-offs.
const MAX_HAND_OFF_BYTES: usize = 1024 * 1024;
/// Maximum number of different names that are kept of the hand-offs, and of the other mentions.
const MAX_NAMES: usize = 1_000;

/// The mentions of an answer, not yet compared with the names of a team.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnswerMentions {
    hand_offs: Vec<String>,
    others: Vec<String>,
}

/// Agents that an answer mentions, each in one of the lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnswerAddressees {
    /// Agents to which the answer hands work, in the order of their mentions.
    pub hand_offs: Vec<AgentName>,
    /// Agents that the answer mentions in any other way. `@all` mentions every agent.
    pub others: Vec<AgentName>,
    /// Names of no agent to which the answer hands work, in lower case. Other mentions of such names are ignored: they
    /// are mostly annotations and packages.
    pub unknown: Vec<AgentName>,
}

impl AnswerMentions {
    /// Finds the mentions of an answer.
    pub fn parse(answer: &str) -> Self {
        if !answer.contains('@') {
            return Self::default();
        }
        let (mut hand_offs, mut others) = (NameList::default(), NameList::default());
        let start = hand_off_part(answer);
        let positions = hand_off_positions(start);
        for (at, token) in mention_tokens(start, &[]) {
            let list = if positions.contains(&at) { &mut hand_offs } else { &mut others };
            list.add(token);
        }
        if start.len() < answer.len() {
            let read = 0..start.len();
            tokens_outside(answer, vec![read]).for_each(|(_, token)| others.add(token));
        }
        others.names.retain(|name| !hand_offs.seen.contains(name));
        Self { hand_offs: hand_offs.names, others: others.names }
    }

    /// Returns true if the answer mentions no name.
    pub fn is_empty(&self) -> bool {
        self.hand_offs.is_empty() && self.others.is_empty()
    }

    /// Returns the agents of `team` that an answer of `author` mentions.
    pub fn resolve(&self, team: &[AgentName], author: &AgentName) -> AnswerAddressees {
        let index = TeamIndex::new(team);
        let mut seen = HashSet::from([author]);
        let mut found = AnswerAddressees::default();
        let mut everyone = false;
        for token in &self.hand_offs {
            match index.resolve(token) {
                MentionedName::Agent(agent) if seen.insert(agent) => {
                    found.hand_offs.push(agent.clone());
                }
                // A hand-off to all agents is none.
                MentionedName::All => everyone = true,
                MentionedName::Unknown(name) => found.unknown.extend(name.parse::<AgentName>()),
                MentionedName::Agent(_) | MentionedName::NoAgent => {}
            }
        }
        for token in &self.others {
            match index.resolve(token) {
                MentionedName::Agent(agent) if seen.insert(agent) => {
                    found.others.push(agent.clone());
                }
                MentionedName::All => everyone = true,
                MentionedName::Agent(_) | MentionedName::NoAgent | MentionedName::Unknown(_) => {}
            }
        }
        let rest = team.iter().filter(|agent| everyone && seen.insert(agent));
        found.others.extend(rest.cloned());
        let mut names = HashSet::new();
        found.unknown.retain(|name| names.insert(name.folded()));
        found
    }
}

/// Different names in lower case, in the order of their first mention.
#[derive(Default)]
struct NameList {
    names: Vec<String>,
    seen: HashSet<String>,
}

impl NameList {
    fn add(&mut self, token: &str) {
        let bare = token.trim_end_matches(['-', '_']);
        if bare.len() > AgentName::MAX_BYTES || self.names.len() == MAX_NAMES {
            return;
        }
        // A name ends before the longest name that an agent can have; dashes after it are no part of it.
        let name = token[..token.len().min(AgentName::MAX_BYTES)].to_ascii_lowercase();
        if !self.seen.contains(&name) {
            self.seen.insert(name.clone());
            self.names.push(name);
        }
    }
}

/// Returns the first part of an answer, which does not end within a name.
fn hand_off_part(answer: &str) -> &str {
    if answer.len() <= MAX_HAND_OFF_BYTES {
        return answer;
    }
    let start = &answer[..answer.floor_char_boundary(MAX_HAND_OFF_BYTES)];
    start.trim_end_matches(|c| c == '@' || is_name_character(c))
}

#[cfg(test)]
mod tests;
