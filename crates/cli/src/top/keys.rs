//! The effect of keys on the full screen. Pure: keys in, state and requests out.

use agent_worker_protocol::{Millis, RunId};

use super::{
    entries::{AttentionEntry, EntryKey, ItemPlace},
    state::{TopMode, TopPane, TopState, run_of_key},
};
use crate::{
    live::{
        attention_panel::{AttentionPanel, PanelDecision},
        line_editor::{LineEditor, LineEnd},
        typed_key::TypedKey,
    },
    output::styled_line::{StyledLine, Tone},
};

/// Rows of a step with Page Up and Page Down.
const PAGE: isize = 10;

/// A request that a key makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TopAction {
    Quit,
    /// An answer to an item.
    Decide(ItemPlace, PanelDecision),
    /// A message to the team of a run.
    Send(RunId, String),
}

impl TopState {
    /// Applies keys that were pressed together.
    pub(super) fn press_keys(&mut self, keys: &[TypedKey], now: Millis) -> Vec<TopAction> {
        if keys.is_empty() {
            return Vec::new();
        }
        self.notice = None;
        // An item reads keys that were pressed together as other typing.
        if let TopMode::Detail(key @ EntryKey::Item(..), _) = self.mode.clone() {
            return self.press_in_item(&key, keys, now).into_iter().collect();
        }
        keys.iter().filter_map(|key| self.press(key)).collect()
    }

    fn press(&mut self, key: &TypedKey) -> Option<TopAction> {
        match std::mem::replace(&mut self.mode, TopMode::List) {
            TopMode::List => return self.press_in_lists(key),
            TopMode::Help => {}
            TopMode::Detail(entry, line) => self.press_in_detail(entry, line, key),
            TopMode::Filter(editor) => self.press_in_filter(editor, key),
            TopMode::Compose(run, editor) => return self.press_in_message(run, editor, key),
        }
        None
    }

    fn press_in_lists(&mut self, key: &TypedKey) -> Option<TopAction> {
        match key {
            TypedKey::Up | TypedKey::Character('k') => self.move_selection(-1),
            TypedKey::Down | TypedKey::Character('j') => self.move_selection(1),
            TypedKey::PageUp => self.move_selection(-PAGE),
            TypedKey::PageDown => self.move_selection(PAGE),
            TypedKey::LineStart => self.move_selection(isize::MIN),
            TypedKey::LineEnd => self.move_selection(isize::MAX),
            TypedKey::Tab => self.pane = self.pane.next(),
            TypedKey::Enter => {
                if let Some(key) = self.selected_key() {
                    self.open_detail(key);
                }
            }
            TypedKey::Character('a') => self.open_first_item(),
            TypedKey::Character('s') => self.start_message(),
            TypedKey::Character('/') => {
                self.mode = TopMode::Filter(LineEditor::with_text(self.filter.clone()));
            }
            TypedKey::Character('?') => self.mode = TopMode::Help,
            TypedKey::Character('q') => return Some(TopAction::Quit),
            TypedKey::Escape => self.filter.clear(),
            _ => {}
        }
        None
    }

    fn move_selection(&mut self, by: isize) {
        let keys = self.keys_of(self.pane);
        let at = self.selected_index(self.pane, &keys);
        let at = at.saturating_add_signed(by).min(keys.len().saturating_sub(1));
        let is_newest = self.pane == TopPane::Channel && at + 1 == keys.len();
        // The newest message stays selected when others follow.
        self.select(self.pane, keys.get(at).filter(|_| !is_newest).cloned());
    }

    fn open_detail(&mut self, key: EntryKey) {
        // The item must be visible for a while before a key answers it.
        self.panel = AttentionPanel::default();
        self.mode = TopMode::Detail(key, 0);
    }

    fn open_first_item(&mut self) {
        match self.keys_of(TopPane::Attention).into_iter().next() {
            Some(key) => {
                self.pane = TopPane::Attention;
                self.select(TopPane::Attention, Some(key.clone()));
                self.open_detail(key);
            }
            None => self.notice = Some(StyledLine::new(Tone::Dim, "nothing needs you")),
        }
    }

    /// Starts a message to the run of the selected row; to its agent, if the row is one.
    fn start_message(&mut self) {
        let selected = self.selected_key();
        let run = selected.as_ref().map(|key| *run_of_key(key));
        let Some(run) = run.or_else(|| self.runs.first().map(|run| run.run)) else {
            self.notice = Some(StyledLine::new(Tone::Dim, "no run is live"));
            return;
        };
        let unsent = self.unsent.take_if(|(unsent_run, _)| *unsent_run == run);
        let text = match selected {
            _ if unsent.is_some() => unsent.map(|(_, text)| text).unwrap_or_default(),
            Some(EntryKey::Agent(_, agent)) => format!("@{agent} "),
            Some(EntryKey::Item(..) | EntryKey::DeadLetter(..) | EntryKey::Message(..)) | None => {
                String::new()
            }
        };
        self.mode = TopMode::Compose(run, LineEditor::with_text(text));
    }

    fn press_in_detail(&mut self, entry: EntryKey, line: usize, key: &TypedKey) {
        let line = match key {
            TypedKey::Up | TypedKey::Character('k') => line.saturating_sub(1),
            TypedKey::Down | TypedKey::Character('j') => line + 1,
            TypedKey::PageUp => line.saturating_sub(PAGE.unsigned_abs()),
            TypedKey::PageDown => line + PAGE.unsigned_abs(),
            TypedKey::LineStart => 0,
            TypedKey::Escape | TypedKey::Enter | TypedKey::Character('q') => return,
            _ => line,
        };
        self.mode = TopMode::Detail(entry, line);
    }

    /// Applies keys to the item of the detail; Escape and Enter go back, unless the person types a text about the item. An
    /// item that was answered elsewhere takes no text.
    fn press_in_item(
        &mut self,
        entry: &EntryKey,
        keys: &[TypedKey],
        now: Millis,
    ) -> Option<TopAction> {
        let goes_back = |key: &TypedKey| {
            matches!(key, TypedKey::Escape | TypedKey::Enter | TypedKey::Character('q'))
        };
        let place = self.attention_entry(entry).map(AttentionEntry::place);
        if place.is_none() {
            self.panel = AttentionPanel::default();
        }
        if !self.panel.is_typing() && keys.iter().any(goes_back) {
            self.mode = TopMode::List;
            return None;
        }
        let place = place?;
        let decision = self.panel.decision_for_keys(keys, now)?;
        self.mode = TopMode::List;
        Some(TopAction::Decide(place, decision))
    }

    fn press_in_filter(&mut self, mut editor: LineEditor, key: &TypedKey) {
        match editor.type_key(key) {
            None => {
                editor.text().trim().clone_into(&mut self.filter);
                self.mode = TopMode::Filter(editor);
            }
            Some(LineEnd::Submitted(filter)) => self.filter = filter,
            Some(LineEnd::Cancelled) => self.filter.clear(),
        }
    }

    fn press_in_message(
        &mut self,
        run: RunId,
        mut editor: LineEditor,
        key: &TypedKey,
    ) -> Option<TopAction> {
        match editor.type_key(key) {
            None => {
                self.mode = TopMode::Compose(run, editor);
                None
            }
            Some(LineEnd::Cancelled) => None,
            Some(LineEnd::Submitted(text)) => Some(TopAction::Send(run, text)),
        }
    }

    /// Keeps a message that was not sent: the next message to the run begins with its text.
    pub(super) fn keep_unsent(&mut self, run: RunId, text: String) {
        self.unsent = Some((run, text));
    }
}

#[cfg(test)]
mod tests;
