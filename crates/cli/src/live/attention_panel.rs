//! The request or question in the live view that a person can answer with a key. Pure; `attention_prompt` does the I/O.
//!
//! Invariant: a key answers only an item that has been visible for a while, approves only a request that is visible as a
//! whole, and is not part of other typing. A key allows for the run only a pattern that is visible as a whole.

use std::{fmt, time::Duration};

use agent_worker_protocol::{
    ApprovalId, Millis, QuestionId, ToolPattern,
    api::{ApprovalView, QuestionView},
};

use super::{
    attention_text::{self, DrawnItem},
    line_editor::{LineEditor, LineEnd},
    typed_key::TypedKey,
};
use crate::output::{console::TerminalSize, styled_line::StyledLine};

/// Minimum time with a visible item and without a key before a key counts as an answer.
const MIN_DISPLAY_TIME: Duration = Duration::from_millis(500);
const APPROVE_KEYS: [char; 2] = ['y', 'Y'];
const APPROVE_FOR_RUN_KEYS: [char; 2] = ['a', 'A'];
const DENY_KEYS: [char; 2] = ['n', 'N'];
const REASON_KEYS: [char; 2] = ['r', 'R'];
const TYPE_KEYS: [char; 2] = ['t', 'T'];
/// Largest number of answers with a key.
pub(super) const MAX_ANSWER_KEYS: usize = 9;

/// A request or a question without an answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum OpenItem {
    Approval(ApprovalView),
    Question(QuestionView),
}

/// The number of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemId {
    Approval(ApprovalId),
    Question(QuestionId),
}

/// An answer by key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PanelDecision {
    Approve(ApprovalId),
    ApproveForRun(ApprovalId, ToolPattern),
    /// A denial and its reason, if the person typed one.
    Deny(ApprovalId, Option<String>),
    Answer(QuestionId, String),
}

/// The item on the screen.
#[derive(Debug, Default)]
pub(crate) struct AttentionPanel {
    shown: Option<ShownItem>,
    /// The line that is being typed about an item.
    typed: Option<(ItemId, LineEditor)>,
    last_key: Millis,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ShownItem {
    id: ItemId,
    extent: Extent,
    since: Millis,
}

/// The visible part of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// A whole request.
    Whole,
    /// A whole request, and this pattern as a whole.
    WithPattern(ToolPattern),
    /// A whole question with these answers.
    Answers(Vec<String>),
    /// Not the whole item.
    Part,
}

impl OpenItem {
    /// Returns the number of the item.
    pub(crate) fn id(&self) -> ItemId {
        match self {
            Self::Approval(request) => ItemId::Approval(request.id),
            Self::Question(question) => ItemId::Question(question.id),
        }
    }
}

impl PanelDecision {
    /// Returns the number of the item that the decision is about.
    pub(crate) fn id(&self) -> ItemId {
        match self {
            Self::Approve(id) | Self::ApproveForRun(id, _) | Self::Deny(id, _) => {
                ItemId::Approval(*id)
            }
            Self::Answer(id, _) => ItemId::Question(*id),
        }
    }
}

impl fmt::Display for ItemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Approval(id) => write!(f, "request #{id}"),
            Self::Question(id) => write!(f, "question #{id}"),
        }
    }
}

impl AttentionPanel {
    /// Draws the first open item, or the one that is being answered, within `size`, and notes since when it is visible.
    pub(crate) fn draw(
        &mut self,
        open: &[OpenItem],
        size: TerminalSize,
        now: Millis,
    ) -> Vec<StyledLine> {
        self.typed.take_if(|(id, _)| !open.iter().any(|item| item.id() == *id));
        let typed = self.typed.as_ref();
        let in_progress = typed.and_then(|(id, _)| open.iter().find(|item| item.id() == *id));
        let Some(item) = in_progress.or(open.first()) else {
            self.shown = None;
            return Vec::new();
        };
        let editor = typed.map(|(_, editor)| editor);
        let DrawnItem { lines, extent } = attention_text::draw(item, open.len() - 1, size, editor);
        let id = item.id();
        let same = |shown: &ShownItem| shown.id == id && shown.extent == extent;
        let since = self.shown.take().filter(same).map_or(now, |shown| shown.since);
        self.shown = Some(ShownItem { id, extent, since });
        lines
    }

    /// Notes that no item is visible.
    pub(crate) fn hide(&mut self) {
        self.shown = None;
    }

    /// Notes a key that is for something else: a key that follows soon is part of that typing.
    pub(crate) fn note_other_key(&mut self, now: Millis) {
        self.last_key = now;
    }

    /// Returns whether the person types a line about an item.
    pub(crate) fn is_typing(&self) -> bool {
        self.typed.is_some()
    }

    /// Returns the decision that keys pressed together make about the visible item.
    pub(crate) fn decision_for_keys(
        &mut self,
        keys: &[TypedKey],
        now: Millis,
    ) -> Option<PanelDecision> {
        if keys.is_empty() {
            return None;
        }
        let still = now.since(std::mem::replace(&mut self.last_key, now));
        if let Some((id, mut editor)) = self.typed.take() {
            return match editor.type_keys(keys) {
                None => {
                    self.typed = Some((id, editor));
                    None
                }
                Some(LineEnd::Cancelled) => None,
                Some(LineEnd::Submitted(text)) => Some(match id {
                    ItemId::Approval(id) => PanelDecision::Deny(id, Some(text)),
                    ItemId::Question(id) => PanelDecision::Answer(id, text),
                }),
            };
        }
        let is_settled = |shown: &&ShownItem| now.since(shown.since).min(still) >= MIN_DISPLAY_TIME;
        let shown = self.shown.as_ref().filter(is_settled)?;
        let [TypedKey::Character(key)] = keys else { return None };
        match single_key(shown, *key)? {
            KeyEffect::Decide(decision) => Some(decision),
            KeyEffect::Type => {
                self.typed = Some((shown.id, LineEditor::default()));
                None
            }
        }
    }
}

enum KeyEffect {
    Decide(PanelDecision),
    /// The person types the answer.
    Type,
}

/// Returns true if the answer to a question with these options can be typed: any text, or one of more options than keys.
pub(super) fn is_typed(options: &[String]) -> bool {
    options.is_empty() || options.len() > MAX_ANSWER_KEYS
}

/// Returns the effect of a single key on the visible item.
fn single_key(shown: &ShownItem, key: char) -> Option<KeyEffect> {
    let decision = match (shown.id, &shown.extent) {
        (ItemId::Approval(id), _) if DENY_KEYS.contains(&key) => PanelDecision::Deny(id, None),
        (ItemId::Approval(_), _) if REASON_KEYS.contains(&key) => return Some(KeyEffect::Type),
        (ItemId::Approval(id), Extent::Whole | Extent::WithPattern(_))
            if APPROVE_KEYS.contains(&key) =>
        {
            PanelDecision::Approve(id)
        }
        (ItemId::Approval(id), Extent::WithPattern(pattern))
            if APPROVE_FOR_RUN_KEYS.contains(&key) =>
        {
            PanelDecision::ApproveForRun(id, pattern.clone())
        }
        (ItemId::Question(_), Extent::Answers(answers))
            if TYPE_KEYS.contains(&key) && is_typed(answers) =>
        {
            return Some(KeyEffect::Type);
        }
        (ItemId::Question(id), Extent::Answers(answers)) => {
            let index = usize::try_from(key.to_digit(10)?.checked_sub(1)?).ok()?;
            let answer = answers.get(index).filter(|_| index < MAX_ANSWER_KEYS)?;
            PanelDecision::Answer(id, answer.clone())
        }
        (ItemId::Approval(_) | ItemId::Question(_), _) => return None,
    };
    Some(KeyEffect::Decide(decision))
}

#[cfg(test)]
mod tests;
