//! Suggestions: changes that an agent proposes to a document it does not own.
//!
//! A suggestion is a text. It may also contain an exact edit: a passage and its replacement, or an addition at the
//! end; accepting it then applies the edit. Accepting a suggestion without an edit is an agreement, and the owner
//! writes the change.

use std::cmp::Reverse;

use agent_worker_protocol::{
    EffectKey, MessageKind, Permission, Priority, Role, RunId, Seq, ToolName,
    api::{ListPage, SuggestReply, SuggestRequest, SuggestionRequest, SuggestionView},
};
use agent_worker_store::{
    DocumentEdit, Error as StoreError, NewMessage, NewSuggestion, SuggestionAnswer,
    SuggestionVerdict,
};

use crate::{
    access::instance_resolution::InstanceSelector,
    documents::{MAX_DOCUMENT_BYTES, document_too_long, is_decisions},
    error::{Error, Result},
    kernel::{Kernel, Principal},
    messaging::{
        recipients::Recipients,
        size_limits::{self, MessageText},
    },
    scheduling::limits,
    views::page::PageRequest,
};

/// Makes and answers suggestions for documents.
#[derive(Clone, Copy)]
pub struct Suggestions<'k>(pub(crate) &'k Kernel);

impl Suggestions<'_> {
    /// Suggests a change to a document of another agent and notifies its owner.
    pub async fn create(
        self,
        who: &Principal,
        key: Option<EffectKey>,
        request: SuggestRequest,
    ) -> Result<SuggestReply> {
        who.require(Permission::Documents)?;
        let by = who.author_with_key(key)?;
        if request.suggestion.trim().is_empty() {
            return Err(Error::BadRequest("the suggestion is empty".into()));
        }
        self.0.pass_gate(who, ToolName::DocumentSuggest).await?;
        let edit = requested_edit(request.old, request.new)?;
        let place = InstanceSelector { target: request.target, project: request.project };
        let (instance, run) = self.0.live_instance(who, &place).await?;
        let run_context = self.0.run_context(run).await?;
        run_context.require_documents()?;
        let named = || run_context.script.workflow.context.layout.document.clone();
        let file = request.file.unwrap_or_else(named);
        if is_decisions(&file) {
            return Err(Error::Forbidden("only another proposal can change decisions"));
        }
        let text = suggestion_message(file.as_str(), &request.suggestion, edit.as_ref());
        let hops = suggestion_hops(who, None);
        let nobody = Recipients::default();
        let message = self.0.prepare_message(&by, &run_context, text, &nobody, hops, None).await?;
        let new = NewSuggestion {
            workflow: instance.id,
            path: file,
            text: request.suggestion,
            edit,
            message,
            pause: limits::hop_limit_cause(hops, &run_context.limits),
        };
        let once = self.0.store.suggestion_put(by, new, self.0.now()).await?;
        self.0.end_hold(who).await;
        let owner = self.0.document_owner(run).await?;
        let deduplicated = once.is_deduplicated();
        Ok(SuggestReply { suggestion: once.value(), owner, deduplicated })
    }

    /// Accepts or rejects a suggestion, as the owner of the documents or the user.
    pub async fn answer(
        self,
        who: &Principal,
        key: Option<EffectKey>,
        suggestion: Seq,
        request: SuggestionRequest,
    ) -> Result<SuggestionView> {
        who.require(Permission::Documents)?;
        let by = who.author_with_key(key)?;
        let verdict = match (request.accept, request.reason) {
            (true, None) => SuggestionVerdict::Accept,
            (false, Some(why)) if !why.trim().is_empty() => SuggestionVerdict::Reject(why),
            (true, Some(_)) => {
                return Err(Error::BadRequest("`reason` is allowed only for a rejection".into()));
            }
            (false, _) => {
                return Err(Error::BadRequest("a rejection needs a `reason`".into()));
            }
        };
        for tool in answer_tools(&verdict) {
            self.0.pass_gate(who, *tool).await?;
        }
        let place = InstanceSelector { target: request.target, project: request.project };
        let (instance, run) = self.0.live_instance(who, &place).await?;
        let run_context = self.0.run_context(run).await?;
        let found = self.0.suggestion_view(instance.id, suggestion).await?;
        let body = answer_text(&found, &verdict);
        size_limits::check("this reason", body.len(), size_limits::MAX_INLINE_BYTES)?;
        let hops = suggestion_hops(who, Some(suggestion));
        let answer = SuggestionAnswer {
            workflow: instance.id,
            suggestion,
            verdict,
            message: NewMessage {
                kind: MessageKind::Message,
                body,
                data: Vec::new(),
                reply_to: Some(suggestion),
                hops,
                priority: Priority::Normal,
                resource: None,
                recipients: Vec::new(),
                attachments: Vec::new(),
            },
            pause: limits::hop_limit_cause(hops, &run_context.limits),
            max_bytes: MAX_DOCUMENT_BYTES,
        };
        let now = self.0.now();
        self.0.store.suggestion_answer(by, answer, now).await.map_err(document_too_long)?;
        self.0.end_hold(who).await;
        self.0.suggestion_view(instance.id, suggestion).await
    }

    /// Lists suggestions, newest first.
    pub async fn list(
        self,
        who: &Principal,
        place: &InstanceSelector,
        page: &PageRequest,
    ) -> Result<ListPage<SuggestionView>> {
        who.require(Permission::Read)?;
        let mut page = page.start::<Reverse<Seq>, _>("suggestions")?;
        let instance = self.0.resolve_instance(who, place).await?;
        let range = page.range(|&Reverse(seq)| Some(seq));
        for suggestion in self.0.store.suggestion_list(instance.id, range).await? {
            page.push(Reverse(suggestion.suggestion), suggestion);
        }
        page.finish()
    }
}

impl Kernel {
    async fn suggestion_view(
        &self,
        workflow: agent_worker_protocol::WorkflowId,
        suggestion: Seq,
    ) -> Result<SuggestionView> {
        let found = self.store.suggestion_get(workflow, suggestion).await?;
        Ok(found.ok_or(StoreError::NotFound("suggestion"))?)
    }

    /// Returns the agent that owns the documents of a run.
    async fn document_owner(&self, run: RunId) -> Result<agent_worker_protocol::AgentName> {
        let roles = self.store.run_roles(run).await?;
        let owner = roles.into_iter().find(|(role, _)| *role == Role::DocumentOwner);
        // An agent that has left meanwhile has no role.
        owner.map(|(_, agent)| agent).ok_or(StoreError::SuggestionNotNeeded.into())
    }
}

/// Returns the tools whose gates an answer must pass: accepting is also a write.
fn answer_tools(verdict: &SuggestionVerdict) -> &'static [ToolName] {
    match verdict {
        SuggestionVerdict::Accept => {
            &[ToolName::SuggestionAnswer, ToolName::DocumentWrite, ToolName::DocumentAppend]
        }
        SuggestionVerdict::Reject(_) => &[ToolName::SuggestionAnswer],
    }
}

fn suggestion_hops(who: &Principal, reply_to: Option<Seq>) -> u32 {
    match who {
        Principal::Agent(attempt) => limits::hop_count(&attempt.shown, reply_to),
        Principal::User | Principal::Client(_) | Principal::Anonymous => 0,
    }
}

fn requested_edit(old: Option<String>, new: Option<String>) -> Result<Option<DocumentEdit>> {
    match (old, new) {
        (None, None) => Ok(None),
        (None, Some(new)) if new.is_empty() => {
            Err(Error::BadRequest("`new` is empty: nothing would be added".into()))
        }
        (None, Some(new)) => Ok(Some(DocumentEdit::Append(new))),
        (Some(old), _) if old.is_empty() => {
            Err(Error::BadRequest("`old` is empty; leave it out to add at the end".into()))
        }
        (Some(old), Some(new)) => Ok(Some(DocumentEdit::Replace { old, new })),
        (Some(_), None) => Err(Error::BadRequest(
            "`old` needs `new`: the replacement text, or \"\" to delete it".into(),
        )),
    }
}

/// Builds the message to the owner. The author's text is data: a mention in it wakes no agent.
fn suggestion_message(file: &str, suggestion: &str, edit: Option<&DocumentEdit>) -> MessageText {
    let mut text = MessageText::default();
    let mut say = |words: &str, data: &str| {
        text.body.push_str(words);
        let start = text.body.len();
        text.body.push_str(data);
        text.data.push(start..text.body.len());
    };
    say(&format!("Suggestion for {file}:\n"), suggestion);
    match edit {
        None => {}
        Some(DocumentEdit::Append(new)) => say("\n\nTo be added at the end:\n", new),
        Some(DocumentEdit::Replace { old, new }) => {
            say("\n\nInstead of:\n", old);
            say("\n\nthis:\n", new);
        }
    }
    text.body.push_str("\n\nAnswer it with suggestion_answer; `suggestion` is this message's seq.");
    text
}

/// Returns the text of the answer to the author.
fn answer_text(found: &SuggestionView, verdict: &SuggestionVerdict) -> String {
    match (verdict, &found.new) {
        (SuggestionVerdict::Accept, Some(_)) => {
            format!("Accepted: {} has what you suggested.", found.file)
        }
        (SuggestionVerdict::Accept, None) => {
            format!("Accepted: the suggestion still has to be worked into {}.", found.file)
        }
        (SuggestionVerdict::Reject(why), _) => format!("Rejected for {}: {why}", found.file),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suggestion_says_what_to_change_wholly_or_not_at_all() {
        let given = |old: Option<&str>, new: Option<&str>| {
            requested_edit(old.map(str::to_owned), new.map(str::to_owned))
        };
        let replace =
            |old: &str, new: &str| DocumentEdit::Replace { old: old.into(), new: new.into() };
        assert_eq!(given(None, None).unwrap(), None);
        assert_eq!(given(None, Some("x")).unwrap(), Some(DocumentEdit::Append("x".into())));
        assert_eq!(given(Some("a"), Some("b")).unwrap(), Some(replace("a", "b")));
        assert_eq!(given(Some("a"), Some("")).unwrap(), Some(replace("a", "")));
        for (old, new) in [(None, Some("")), (Some(""), Some("b")), (Some("a"), None)] {
            assert!(given(old, new).is_err(), "{old:?} {new:?}");
        }
    }

    #[test]
    fn what_the_author_wrote_is_data_to_the_last_letter() {
        let edit = DocumentEdit::Replace { old: "@a".into(), new: "@b".into() };
        let text = suggestion_message("notes.md", "ask @c", Some(&edit));
        let data: Vec<_> = text.data.iter().map(|range| &text.body[range.clone()]).collect();
        assert_eq!(data, ["ask @c", "@a", "@b"]);
        assert_eq!(text.body.matches('@').count(), 3);
    }
}
