//! The table of the team's tools: name, description, input and output of each.
//!
//! The daemon lists and carries them out; other processes read their sizes here. Every turn of every agent pays for each word
//! here; a test keeps the list under 8 KiB.

mod client_tools;
mod schema;

use serde_json::{Map, Value};

use self::schema::ToolFieldKind::{Flag, Number, Numbers, Objects, ObjectsWithFields, Text, Texts};
pub use self::{
    client_tools::CLIENT_TOOL_SPECS,
    schema::{ToolField, ToolFieldKind, optional, output_schema, required},
};
use crate::{scope::Permission, tool::ToolName};

/// One tool of the table.
#[derive(Debug)]
pub struct ToolSpec {
    /// Name of the tool.
    pub name: ToolName,
    /// Permission that the caller needs.
    pub permission: Permission,
    /// Description for the model.
    pub description: &'static str,
    /// Effect of a call.
    pub effect: ToolEffect,
    /// Fields of the input.
    pub input: &'static [ToolField],
    /// Fields of the output.
    pub output: &'static [ToolField],
}

/// The effect of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolEffect {
    /// Changes no state.
    Reads,
    /// Changes the state of a team.
    Writes,
    /// Starts processes with each call; no key makes it happen once.
    Starts,
    /// Ends something permanently.
    Ends,
}

impl ToolSpec {
    /// Finds the row of a tool.
    pub fn of(tool: ToolName) -> Option<&'static Self> {
        AGENT_TOOL_SPECS.iter().chain(&CLIENT_TOOL_SPECS).find(|spec| spec.name == tool)
    }

    /// Builds the input schema, with further fields of some callers.
    pub fn input_schema(&self, more: &[ToolField]) -> Map<String, Value> {
        let mut takes = [self.input, more].concat();
        match self.effect {
            ToolEffect::Reads | ToolEffect::Starts => {}
            ToolEffect::Writes | ToolEffect::Ends => takes.push(optional("idempotency_key", Text)),
        }
        schema::input_schema(&takes)
    }
}

/// The described fields of a message; the others are self-explanatory.
const MESSAGE_FIELDS: &[ToolField] = &[
    required("seq", Number),
    required("from", Text),
    required("body", Text),
    optional("resource", Text).about("id of the whole text"),
];
const RECEIPT_FIELDS: &[ToolField] =
    &[required("seq", Number), required("agent", Text), required("state", Text)];
const FILE_FIELD: ToolField = optional("file", Text).about("default: the team's");
const PROPOSAL_FIELDS: &[ToolField] = &[
    required("proposal", Number),
    required("state", Text),
    optional("result", Text).about("winner or no_decision"),
    optional("winner", Text),
    optional("fallback", Text),
    optional("effect", Text).about("what the daemon did as a result"),
    optional("by", Text),
    optional("why", Text),
    optional("deduplicated", Flag),
];
const DOCUMENT_FIELDS: &[ToolField] =
    &[required("file", Text), required("revision", Number), optional("deduplicated", Flag)];

/// Every tool that agents see, in the order of the list.
pub static AGENT_TOOL_SPECS: [ToolSpec; 21] = [
    ToolSpec {
        name: ToolName::ChannelSend,
        permission: Permission::Send,
        description: "Write to the team's channel. Each @name in the text wakes that agent; @all wakes all.",
        effect: ToolEffect::Writes,
        input: &[
            required("message", Text),
            optional("to", Texts).about("more agents to wake"),
            optional("cc", Texts).about("agents who only read it"),
            optional("reply_to", Number).about("seq it answers"),
            optional("priority", Text).about("high: read first"),
        ],
        output: &[
            required("seq", Number),
            required("instance", Text),
            required("woken", Texts),
            required("cc", Texts),
            optional(
                "unknown",
                ObjectsWithFields(&[required("name", Text), optional("suggestion", Text)]),
            )
            .about("unknown mentions"),
            optional("deduplicated", Flag),
        ],
    },
    ToolSpec {
        name: ToolName::ChannelRead,
        permission: Permission::Read,
        description: "Read the newest messages of the channel, oldest first.",
        effect: ToolEffect::Reads,
        input: &[
            optional("since", Number).about("only after this seq"),
            optional("limit", Number).about("default 50"),
            optional("after", Text).about("`next` of a page"),
            optional("search", Text),
            optional("thread", Number).about("seq: it and its replies"),
            optional("receipts", Flag).about("of your messages"),
            optional("all_runs", Flag).about("earlier runs too"),
        ],
        output: &[
            required("instance", Text),
            required("messages", ObjectsWithFields(MESSAGE_FIELDS)),
            optional("next", Text),
            optional("receipts", ObjectsWithFields(RECEIPT_FIELDS)),
        ],
    },
    ToolSpec {
        name: ToolName::InboxCheck,
        permission: Permission::Read,
        description: "Show mail that came since this turn began.",
        effect: ToolEffect::Reads,
        input: &[],
        output: &[required("messages", Objects).about("as channel_read gives them")],
    },
    ToolSpec {
        name: ToolName::InboxAck,
        permission: Permission::Read,
        description: "Mark mail of inbox_check as handled in this turn.",
        effect: ToolEffect::Writes,
        input: &[required("until", Number).about("up to this seq")],
        output: &[required("with_this_turn", Numbers)],
    },
    ToolSpec {
        name: ToolName::WorkflowAgents,
        permission: Permission::Read,
        description: "List the team and what each is doing.",
        effect: ToolEffect::Reads,
        input: &[],
        output: &[required(
            "agents",
            ObjectsWithFields(&[
                required("name", Text),
                required("state", Text),
                required("backend", Text),
                required("waiting", Number).about("unread waking mail"),
            ]),
        )],
    },
    ToolSpec {
        name: ToolName::DocumentRead,
        permission: Permission::Read,
        description: "Read a shared document.",
        effect: ToolEffect::Reads,
        input: &[FILE_FIELD],
        output: &[
            required("file", Text),
            required("revision", Number),
            required("author", Text),
            required("content", Text),
        ],
    },
    ToolSpec {
        name: ToolName::DocumentWrite,
        permission: Permission::Documents,
        description: "Create or replace a shared document. To replace one, read it first.",
        effect: ToolEffect::Writes,
        input: &[
            required("content", Text),
            FILE_FIELD,
            optional("base_revision", Number).about("default: the one you last read"),
        ],
        output: DOCUMENT_FIELDS,
    },
    ToolSpec {
        name: ToolName::DocumentAppend,
        permission: Permission::Documents,
        description: "Add lines to the end of a shared document.",
        effect: ToolEffect::Writes,
        input: &[required("content", Text), FILE_FIELD],
        output: DOCUMENT_FIELDS,
    },
    ToolSpec {
        name: ToolName::DocumentList,
        permission: Permission::Read,
        description: "List the shared documents.",
        effect: ToolEffect::Reads,
        input: &[],
        output: &[required(
            "documents",
            ObjectsWithFields(&[
                required("file", Text),
                required("revision", Number),
                required("author", Text),
            ]),
        )],
    },
    ToolSpec {
        name: ToolName::DocumentCreate,
        permission: Permission::Documents,
        description: "Create a shared document; refused if it exists.",
        effect: ToolEffect::Writes,
        input: &[required("file", Text).about("such as design/api.md"), required("content", Text)],
        output: DOCUMENT_FIELDS,
    },
    ToolSpec {
        name: ToolName::DocumentSuggest,
        permission: Permission::Documents,
        description: "Suggest a change to the owner of the documents. With old and new, accepting it makes the change.",
        effect: ToolEffect::Writes,
        input: &[
            required("suggestion", Text).about("what and why"),
            FILE_FIELD,
            optional("old", Text).about("passage that occurs once"),
            optional("new", Text).about("its replacement; without old: added at the end"),
        ],
        output: &[
            required("suggestion", Number),
            required("owner", Text),
            optional("deduplicated", Flag),
        ],
    },
    ToolSpec {
        name: ToolName::SuggestionAnswer,
        permission: Permission::Documents,
        description: "Accept or reject a suggestion for documents you own.",
        effect: ToolEffect::Writes,
        input: &[
            required("suggestion", Number).about("seq of its message"),
            required("accept", Flag),
            optional("reason", Text).about("why not"),
        ],
        output: &[required("state", Text), optional("revision", Number)],
    },
    ToolSpec {
        name: ToolName::ResourceCreate,
        permission: Permission::Send,
        description: "Store a long text; returns its id.",
        effect: ToolEffect::Writes,
        input: &[required("content", Text), optional("type", Text).about("default text/plain")],
        output: &[required("id", Text), required("bytes", Number)],
    },
    ToolSpec {
        name: ToolName::ResourceRead,
        permission: Permission::Read,
        description: "Read a stored text, 64 KiB by default.",
        effect: ToolEffect::Reads,
        input: &[
            required("id", Text),
            optional("range", Numbers).about("[start, end) in bytes, at most 1 MiB"),
        ],
        output: &[
            required("id", Text),
            required("type", Text),
            optional("created_by", Text),
            required("total", Number),
            required("start", Number),
            required("end", Number),
            required("content", Text),
        ],
    },
    ToolSpec {
        name: ToolName::FeedbackSubmit,
        permission: Permission::Send,
        description: "Report a problem with this tool.",
        effect: ToolEffect::Writes,
        input: &[required("message", Text)],
        output: &[required("ts", Text)],
    },
    ToolSpec {
        name: ToolName::ProposalCreate,
        permission: Permission::Send,
        description: "Let the team vote. If binding, the winner gets `role` or message `work`, `approve` opens `gate`.",
        effect: ToolEffect::Writes,
        input: &[
            required("title", Text),
            optional("description", Text),
            optional("options", Texts).about("default approve, reject; or the agents"),
            optional("kind", Text).about("election|decision|approval|assignment"),
            optional("rule", Text).about("plurality|majority|unanimous"),
            optional("quorum", Number).about("votes needed"),
            optional("close_at_quorum", Flag),
            optional("tie_breaker", Text).about("first|random|creator_decides"),
            optional("binding", Flag),
            optional("deadline", Text).about("default 10m"),
            optional("role", Text).about("document_owner|coordinator|finisher"),
            optional("work", Number),
            optional("gate", Text),
            optional("electorate", Texts).about("default all agents; not for binding"),
            optional("fallback", Text).about("option on expiry"),
        ],
        output: PROPOSAL_FIELDS,
    },
    ToolSpec {
        name: ToolName::Vote,
        permission: Permission::Approve,
        description: "Vote on a proposal, or change your vote.",
        effect: ToolEffect::Writes,
        input: &[required("proposal", Number), required("choice", Text), optional("reason", Text)],
        output: PROPOSAL_FIELDS,
    },
    ToolSpec {
        name: ToolName::ProposalStatus,
        permission: Permission::Read,
        description: "Show one proposal with its votes, or all open ones.",
        effect: ToolEffect::Reads,
        input: &[optional("proposal", Number)],
        output: &[
            optional("instance", Text),
            required(
                "proposals",
                ObjectsWithFields(&[required("id", Number), required("title", Text)]),
            ),
        ],
    },
    ToolSpec {
        name: ToolName::ProposalCancel,
        permission: Permission::Send,
        description: "Cancel your own proposal.",
        effect: ToolEffect::Writes,
        input: &[required("proposal", Number), optional("why", Text)],
        output: PROPOSAL_FIELDS,
    },
    ToolSpec {
        name: ToolName::AskHuman,
        permission: Permission::Send,
        description: "Ask a person. End your turn after it: the answer wakes you.",
        effect: ToolEffect::Writes,
        input: &[required("question", Text), optional("options", Texts)],
        output: &[
            required("question", Number),
            required("note", Text),
            optional("deduplicated", Flag),
        ],
    },
    ToolSpec {
        name: ToolName::RunFinish,
        permission: Permission::Send,
        description: "Set the verdict of the run, when its work is done or has failed. `failed` is final.",
        effect: ToolEffect::Writes,
        input: &[required("outcome", Text).about("done|failed"), required("summary", Text)],
        output: &[],
    },
];
