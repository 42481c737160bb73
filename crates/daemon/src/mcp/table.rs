//! The table of tools: what each is called, says of itself, takes and gives.
//!
//! Every turn of every agent pays for each word here; a test keeps the list under 8 KiB.

pub(super) mod others;

use agent_worker_protocol::{Permission, ToolName};

use super::schema::{
    Field,
    Kind::{Flag, List, Number, Numbers, Text, Texts, Things},
    needed, optional,
};

/// One tool, as it is listed.
pub(super) struct Spec {
    /// Which it is.
    pub(super) name: ToolName,
    /// What its caller must be allowed.
    pub(super) needs: Permission,
    /// What a model is told of it.
    pub(super) about: &'static str,
    /// What a call changes.
    pub(super) effect: Effect,
    /// What it takes.
    pub(super) takes: &'static [Field],
    /// What it gives.
    pub(super) gives: &'static [Field],
}

/// What a call changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Nothing.
    Reads,
    /// Something.
    Writes,
    /// Sets processes going, each time; no key makes it once.
    Starts,
    /// Ends something that does not come back.
    Ends,
}

/// The rest of it explains itself to whoever reads one.
const MESSAGE: &[Field] = &[
    needed("seq", Number),
    needed("from", Text),
    needed("body", Text),
    optional("resource", Text).about("id of the whole text"),
];
const RECEIPT: &[Field] = &[needed("seq", Number), needed("agent", Text), needed("state", Text)];
const FILE: Field = optional("file", Text).about("default: the team's");
const PROPOSED: &[Field] = &[
    needed("proposal", Number),
    needed("state", Text),
    optional("result", Text).about("winner or no_decision"),
    optional("winner", Text),
    optional("fallback", Text),
    optional("effect", Text).about("what the daemon did because of it"),
    optional("by", Text),
    optional("why", Text),
    optional("deduplicated", Flag),
];
const WRITTEN: &[Field] =
    &[needed("file", Text), needed("revision", Number), optional("deduplicated", Flag)];

/// Every tool that agents are shown too, in the order they are listed.
pub(super) static SPECS: [Spec; 20] = [
    Spec {
        name: ToolName::ChannelSend,
        needs: Permission::Send,
        about: "Write to the team's channel. Each @name in the text wakes that agent, @all everybody.",
        effect: Effect::Writes,
        takes: &[
            needed("message", Text),
            optional("to", Texts).about("agents to wake besides those mentioned"),
            optional("cc", Texts).about("agents who only read it"),
            optional("reply_to", Number).about("seq of the message this answers"),
            optional("priority", Text).about("high: read first"),
        ],
        gives: &[
            needed("seq", Number),
            needed("instance", Text),
            needed("woken", Texts),
            needed("cc", Texts),
            optional("unknown", List(&[needed("name", Text), optional("suggestion", Text)]))
                .about("mentions of nobody"),
            optional("deduplicated", Flag),
        ],
    },
    Spec {
        name: ToolName::ChannelRead,
        needs: Permission::Read,
        about: "Read the newest messages of the channel, oldest first.",
        effect: Effect::Reads,
        takes: &[
            optional("since", Number).about("only after this seq"),
            optional("limit", Number).about("default 50"),
            optional("search", Text),
            optional("thread", Number).about("seq: it and its replies"),
            optional("receipts", Flag).about("where your own stand"),
            optional("all_runs", Flag).about("earlier runs too"),
        ],
        gives: &[
            needed("instance", Text),
            needed("messages", List(MESSAGE)),
            optional("receipts", List(RECEIPT)),
        ],
    },
    Spec {
        name: ToolName::InboxCheck,
        needs: Permission::Read,
        about: "Show mail that came since this turn began. It marks nothing as done.",
        effect: Effect::Reads,
        takes: &[],
        gives: &[needed("messages", Things).about("as channel_read gives them")],
    },
    Spec {
        name: ToolName::InboxAck,
        needs: Permission::Read,
        about: "Mark mail that inbox_check showed as dealt with in this turn.",
        effect: Effect::Writes,
        takes: &[needed("until", Number).about("up to this seq")],
        gives: &[needed("with_this_turn", Numbers)],
    },
    Spec {
        name: ToolName::WorkflowAgents,
        needs: Permission::Read,
        about: "List the team and what each is doing.",
        effect: Effect::Reads,
        takes: &[],
        gives: &[needed(
            "agents",
            List(&[
                needed("name", Text),
                needed("state", Text),
                needed("backend", Text),
                needed("waiting", Number).about("unread waking mail"),
            ]),
        )],
    },
    Spec {
        name: ToolName::DocumentRead,
        needs: Permission::Read,
        about: "Read a shared document.",
        effect: Effect::Reads,
        takes: &[FILE],
        gives: &[
            needed("file", Text),
            needed("revision", Number),
            needed("author", Text),
            needed("content", Text),
        ],
    },
    Spec {
        name: ToolName::DocumentWrite,
        needs: Permission::Documents,
        about: "Write a shared document, new or whole. To replace one, read it first.",
        effect: Effect::Writes,
        takes: &[
            needed("content", Text),
            FILE,
            optional("base_revision", Number).about("default: the one you last read"),
        ],
        gives: WRITTEN,
    },
    Spec {
        name: ToolName::DocumentAppend,
        needs: Permission::Documents,
        about: "Add to the end of a shared document.",
        effect: Effect::Writes,
        takes: &[needed("content", Text), FILE],
        gives: WRITTEN,
    },
    Spec {
        name: ToolName::DocumentList,
        needs: Permission::Read,
        about: "List the shared documents.",
        effect: Effect::Reads,
        takes: &[],
        gives: &[needed(
            "documents",
            List(&[needed("file", Text), needed("revision", Number), needed("author", Text)]),
        )],
    },
    Spec {
        name: ToolName::DocumentCreate,
        needs: Permission::Documents,
        about: "Create a shared document; refused if it exists.",
        effect: Effect::Writes,
        takes: &[needed("file", Text).about("such as design/api.md"), needed("content", Text)],
        gives: WRITTEN,
    },
    Spec {
        name: ToolName::DocumentSuggest,
        needs: Permission::Documents,
        about: "Suggest a change to the owner of the documents. With old and new, accepting it makes the change.",
        effect: Effect::Writes,
        takes: &[
            needed("suggestion", Text).about("what and why"),
            FILE,
            optional("old", Text).about("passage that occurs once"),
            optional("new", Text).about("its replacement; without old: added at the end"),
        ],
        gives: &[
            needed("suggestion", Number),
            needed("owner", Text),
            optional("deduplicated", Flag),
        ],
    },
    Spec {
        name: ToolName::SuggestionAnswer,
        needs: Permission::Documents,
        about: "Accept or reject a suggestion for documents you own.",
        effect: Effect::Writes,
        takes: &[
            needed("suggestion", Number).about("seq of its message"),
            needed("accept", Flag),
            optional("reason", Text).about("why not"),
        ],
        gives: &[needed("state", Text), optional("revision", Number)],
    },
    Spec {
        name: ToolName::ResourceCreate,
        needs: Permission::Send,
        about: "Keep a long text; get an id to mention.",
        effect: Effect::Writes,
        takes: &[needed("content", Text), optional("type", Text).about("default text/plain")],
        gives: &[needed("id", Text), needed("bytes", Number)],
    },
    Spec {
        name: ToolName::ResourceRead,
        needs: Permission::Read,
        about: "Read a kept text, 64 KiB unless told otherwise.",
        effect: Effect::Reads,
        takes: &[
            needed("id", Text),
            optional("range", Numbers).about("[start, end) in bytes, at most 1 MiB"),
        ],
        gives: &[
            needed("id", Text),
            needed("type", Text),
            needed("total", Number),
            needed("start", Number),
            needed("end", Number),
            needed("content", Text),
        ],
    },
    Spec {
        name: ToolName::FeedbackSubmit,
        needs: Permission::Send,
        about: "Tell the makers of this tool what hinders you.",
        effect: Effect::Writes,
        takes: &[needed("message", Text)],
        gives: &[needed("ts", Text)],
    },
    Spec {
        name: ToolName::ProposalCreate,
        needs: Permission::Send,
        about: "Let the team vote. If binding, the winner gets `role` or message `work`, `approve` opens `gate`.",
        effect: Effect::Writes,
        takes: &[
            needed("title", Text),
            optional("description", Text),
            optional("options", Texts).about("default approve, reject; or the agents"),
            optional("kind", Text).about("election|decision|approval|assignment"),
            optional("rule", Text).about("plurality|majority|unanimous"),
            optional("quorum", Number).about("votes enough at the deadline"),
            optional("tie_breaker", Text).about("first|random|creator_decides"),
            optional("binding", Flag),
            optional("deadline", Text).about("default 10m"),
            optional("role", Text).about("document_owner|coordinator"),
            optional("work", Number),
            optional("gate", Text),
            optional("electorate", Texts).about("default all agents"),
            optional("fallback", Text).about("option that holds if it expires"),
        ],
        gives: PROPOSED,
    },
    Spec {
        name: ToolName::Vote,
        needs: Permission::Approve,
        about: "Vote on a proposal, or change your vote.",
        effect: Effect::Writes,
        takes: &[needed("proposal", Number), needed("choice", Text), optional("reason", Text)],
        gives: PROPOSED,
    },
    Spec {
        name: ToolName::ProposalStatus,
        needs: Permission::Read,
        about: "Show one proposal with its votes, or all that are voted on.",
        effect: Effect::Reads,
        takes: &[optional("proposal", Number)],
        gives: &[
            optional("instance", Text),
            needed("proposals", List(&[needed("id", Number), needed("title", Text)])),
        ],
    },
    Spec {
        name: ToolName::ProposalCancel,
        needs: Permission::Send,
        about: "Take your own proposal back.",
        effect: Effect::Writes,
        takes: &[needed("proposal", Number)],
        gives: PROPOSED,
    },
    Spec {
        name: ToolName::AskHuman,
        needs: Permission::Send,
        about: "Ask a person. End your turn after it: the answer wakes you.",
        effect: Effect::Writes,
        takes: &[needed("question", Text), optional("options", Texts)],
        gives: &[needed("question", Number), needed("note", Text), optional("deduplicated", Flag)],
    },
];
