//! Prompts that give an agent of a person a role in a team. Short: the tools describe the rest.

use rmcp::model::{
    GetPromptRequestParams, GetPromptResult, JsonObject, ListPromptsResult, Prompt, PromptArgument,
    PromptMessage, Role,
};

use super::call::McpFailure;

/// One role as a prompt.
struct PromptSpec {
    name: &'static str,
    about: &'static str,
    slots: &'static [PromptSlot],
    text: &'static str,
}

/// A parameter of a prompt: `{{name}}` in its text, and the default value.
struct PromptSlot {
    name: &'static str,
    about: &'static str,
    default: &'static str,
}

const AGENT: &str = "agent";
/// The same name as the argument of every document tool.
const FILE: &str = "file";

static PROMPTS: [PromptSpec; 3] = [
    PromptSpec {
        name: "coordinator",
        about: "Lead the team: split the work, assign it and follow it to its end.",
        slots: &[PromptSlot {
            name: "goal",
            about: "the goal of the team",
            default: "the request in the channel",
        }],
        text: "You coordinate this team. The goal: {{goal}}.\n\
               1. List the agents (workflow_agents) and read the channel (channel_read).\n\
               2. Split the goal into pieces that one agent can finish alone. Write them down with document_append, \
               one line each: what, who, done when.\n\
               3. Assign each piece with channel_send and an @mention, and define what done means. Do not mention agents \
               without work: each mention costs a turn.\n\
               4. When an answer arrives, check it against that definition before you assign the next piece.\n\
               5. When everything is done, report the outcome in one message and stop.",
    },
    PromptSpec {
        name: "reviewer",
        about: "Review an agent's work and report what has to change.",
        slots: &[
            PromptSlot {
                name: AGENT,
                about: "the agent whose work to review",
                default: "the requester",
            },
            PromptSlot {
                name: FILE,
                about: "the document to review",
                default: "the document that they name",
            },
        ],
        text: "You review the work of {{agent}}: {{file}}.\n\
               1. Read the request (channel_read) before the work.\n\
               2. Look for defects before possible improvements: wrong results, lost data, untested claims.\n\
               3. Report each finding once: where, what happens, what would be right. If there are none, say so \
               and name what you checked.\n\
               4. Answer with channel_send, mention {{agent}}, and begin with `approved` or `changes needed`.",
    },
    PromptSpec {
        name: "document_owner",
        about: "Keep a shared document correct, complete and short.",
        slots: &[PromptSlot {
            name: FILE,
            about: "the document to maintain",
            default: "that is the team's default",
        }],
        text: "You own the document {{file}}: others suggest, you write.\n\
               1. document_read it before you change it, and pass its revision as base_revision.\n\
               2. Add what is true and new, omit what is already there, and delete what is no longer true.\n\
               3. When two agents contradict each other, do not choose silently: ask both in the channel.\n\
               4. Report in the channel what you changed, in one line, and why you left something out.",
    },
];

/// Lists the prompts of all roles.
pub(super) fn list() -> ListPromptsResult {
    let argument = |slot: &PromptSlot| {
        PromptArgument::new(slot.name).with_description(slot.about).with_required(NOT_REQUIRED)
    };
    let prompt = |part: &PromptSpec| {
        let takes = part.slots.iter().map(argument).collect();
        Prompt::new(part.name, Some(part.about), Some(takes))
    };
    ListPromptsResult::with_all_items(PROMPTS.iter().map(prompt).collect())
}

/// No prompt has a required argument.
const NOT_REQUIRED: bool = false;

/// Returns the text of a prompt with its arguments filled in.
pub(super) fn get(request: &GetPromptRequestParams) -> Result<GetPromptResult, McpFailure> {
    let Some(part) = PROMPTS.iter().find(|part| part.name == request.name) else {
        let all: Vec<_> = PROMPTS.iter().map(|part| part.name).collect();
        let why =
            format!("there is no prompt `{}`; the prompts are {}", request.name, all.join(", "));
        return Err(McpFailure::Malformed(why));
    };
    let none = JsonObject::new();
    let given = request.arguments.as_ref().unwrap_or(&none);
    if let Some(other) = given.keys().find(|name| part.slots.iter().all(|slot| slot.name != *name))
    {
        return Err(McpFailure::Malformed(format!("`{}` has no argument `{other}`", part.name)));
    }
    let mut text = part.text.to_owned();
    for slot in part.slots {
        let value = given.get(slot.name).and_then(|value| value.as_str()).map(str::trim);
        let value = value.filter(|value| !value.is_empty()).unwrap_or(slot.default);
        text = text.replace(&format!("{{{{{}}}}}", slot.name), value);
    }
    let message = PromptMessage::new_text(Role::User, text);
    Ok(GetPromptResult::new(vec![message]).with_description(part.about))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_slot_of_a_part_is_in_its_text_and_none_is_left_open() {
        for part in &PROMPTS {
            for slot in part.slots {
                assert!(part.text.contains(&format!("{{{{{}}}}}", slot.name)), "{}", slot.name);
            }
            let got = get(&GetPromptRequestParams::new(part.name)).unwrap();
            let text = serde_json::to_string(&got).unwrap();
            assert!(!text.contains("{{"), "{text}");
            assert!(part.text.len() < 1200, "{}: every word is paid for", part.name);
        }
    }

    #[test]
    fn what_is_given_stands_in_the_text() {
        let request: GetPromptRequestParams = serde_json::from_value(
            json!({"name": "reviewer", "arguments": {"agent": "coder", "file": "api.md"}}),
        )
        .unwrap();
        let text = serde_json::to_string(&get(&request).unwrap()).unwrap();
        assert!(text.contains("the work of coder: api.md"), "{text}");
        let other: GetPromptRequestParams =
            serde_json::from_value(json!({"name": "reviewer", "arguments": {"x": "y"}})).unwrap();
        assert!(get(&other).is_err());
        assert!(get(&GetPromptRequestParams::new("poet")).is_err());
    }
}
