//! The state of the full screen: the runs, the items that need attention, the channel, and the place of the person in
//! them. Pure.

use std::collections::VecDeque;

use agent_worker_protocol::{
    AgentName, Event, EventBody, EventKind, InstanceRef, Message, RunId, Target, api::RunView,
};

use super::entries::{AttentionEntry, ChannelEntry, EntryKey, InstanceLabel};
use crate::{
    live::{
        attention_panel::AttentionPanel,
        line_editor::LineEditor,
        view::{RunProgress, Verbosity},
    },
    output::styled_line::StyledLine,
};

/// Number of messages that the channel keeps.
const MAX_MESSAGES: usize = 500;

/// The whole state of the screen.
pub(super) struct TopState {
    pub(super) runs: Vec<TopRun>,
    /// Number of live runs that the screen leaves out.
    pub(super) hidden_runs: usize,
    pub(super) attention: Vec<AttentionEntry>,
    pub(super) channel: VecDeque<ChannelEntry>,
    pub(super) pane: TopPane,
    /// Selected row of each pane; none before the first move: the first row, in the channel the last.
    selected: [Option<EntryKey>; 3],
    pub(super) filter: String,
    pub(super) mode: TopMode,
    /// A line for the person until the next key.
    pub(super) notice: Option<StyledLine>,
    /// A message that was not sent, for the next one to the same run.
    pub(super) unsent: Option<(RunId, String)>,
    /// The item of the detail, with the keys that answer it.
    pub(super) panel: AttentionPanel,
}

/// A live run.
pub(super) struct TopRun {
    pub(super) run: RunId,
    pub(super) instance: InstanceRef,
    pub(super) progress: RunProgress,
}

/// A list of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TopPane {
    Agents,
    Attention,
    Channel,
}

/// The receiver of the keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TopMode {
    /// The lists of rows.
    List,
    /// The details of a row, from this line on.
    Detail(EntryKey, usize),
    /// The filter that is being typed.
    Filter(LineEditor),
    /// A message to the team of a run that is being typed.
    Compose(RunId, LineEditor),
    Help,
}

/// The data that an event makes out of date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StaleData {
    None,
    /// The items that need attention.
    Attention,
    /// Those and the list of runs.
    Runs,
}

impl TopPane {
    pub(super) const ALL: [Self; 3] = [Self::Agents, Self::Attention, Self::Channel];

    fn index(self) -> usize {
        match self {
            Self::Agents => 0,
            Self::Attention => 1,
            Self::Channel => 2,
        }
    }

    /// Returns the next pane.
    pub(super) fn next(self) -> Self {
        Self::ALL[(self.index() + 1) % Self::ALL.len()]
    }
}

impl TopRun {
    fn new(view: &RunView) -> Self {
        Self {
            run: view.run,
            instance: view.instance.clone(),
            progress: RunProgress::from_run(view, Verbosity::Normal).in_folder(&view.project),
        }
    }

    /// Returns the agent with its instance.
    pub(super) fn target_of(&self, agent: &AgentName) -> Target {
        Target::agent(agent.clone(), &self.instance)
    }
}

impl TopState {
    pub(super) fn new() -> Self {
        Self {
            runs: Vec::new(),
            hidden_runs: 0,
            attention: Vec::new(),
            channel: VecDeque::new(),
            pane: TopPane::Agents,
            selected: [const { None }; 3],
            filter: String::new(),
            mode: TopMode::List,
            notice: None,
            unsent: None,
            panel: AttentionPanel::default(),
        }
    }

    /// Replaces the list of live runs. A run that is known keeps its progress, which follows its events.
    pub(super) fn set_runs(&mut self, views: &[RunView], hidden: usize) {
        let mut known = std::mem::take(&mut self.runs);
        self.runs = views
            .iter()
            .map(|view| {
                let at = known.iter().position(|run| run.run == view.run);
                at.map_or_else(|| TopRun::new(view), |at| known.swap_remove(at))
            })
            .collect();
        self.hidden_runs = hidden;
        let runs = &self.runs;
        self.channel.retain(|entry| runs.iter().any(|run| run.run == entry.run));
    }

    /// Replaces the items that need attention; those of other runs are left out. Requests and questions come first, the
    /// oldest before the others.
    pub(super) fn set_attention(&mut self, mut items: Vec<AttentionEntry>) {
        items.sort_by_key(|item| (item.asked().is_none(), item.asked()));
        items.retain(|item| self.runs.iter().any(|run| is_of_run(&item.key(), run.run)));
        self.attention = items;
    }

    /// Adds messages of a run that the channel does not have.
    pub(super) fn add_messages(&mut self, run: RunId, messages: impl IntoIterator<Item = Message>) {
        let Some(instance) = self.run(run).map(|run| run.instance.clone()) else { return };
        for message in messages {
            let entry = ChannelEntry { run, instance: instance.clone(), message };
            let is_known = self.channel.iter().rev().any(|other| other.key() == entry.key());
            if !is_known {
                let later = self.channel.iter().rev();
                let later = later.take_while(|other| other.message.ts > entry.message.ts).count();
                self.channel.insert(self.channel.len() - later, entry);
            }
        }
        let surplus = self.channel.len().saturating_sub(MAX_MESSAGES);
        self.channel.drain(..surplus);
    }

    /// Applies an event of a run.
    pub(super) fn apply(&mut self, run: RunId, event: &Event) -> StaleData {
        if let Some(shown) = self.runs.iter_mut().find(|shown| shown.run == run) {
            // The rows show the progress; the lines above them belong to other views.
            shown.progress.apply(event);
        }
        if let EventBody::Message(message) = &event.body {
            self.add_messages(run, [Message::clone(message)]);
        }
        match event.kind() {
            Some(EventKind::RunEnded) => StaleData::Runs,
            Some(
                EventKind::ApprovalOpen
                | EventKind::ApprovalAnswered
                | EventKind::QuestionOpen
                | EventKind::QuestionAnswered
                | EventKind::DeliveryDead
                | EventKind::DeliveryDropped
                | EventKind::DeliveryPending
                | EventKind::AttemptStarting
                | EventKind::AttemptEnded,
            ) => StaleData::Attention,
            _ => StaleData::None,
        }
    }

    pub(super) fn run(&self, run: RunId) -> Option<&TopRun> {
        self.runs.iter().find(|shown| shown.run == run)
    }

    /// Returns the instance label of rows.
    pub(super) fn instance_label(&self) -> InstanceLabel {
        if self.runs.len() > 1 { InstanceLabel::Shown } else { InstanceLabel::Omitted }
    }

    /// Returns whether a text passes the filter.
    pub(super) fn passes(&self, text: &str) -> bool {
        self.filter.is_empty() || text.to_lowercase().contains(&self.filter.to_lowercase())
    }

    /// Returns the rows of a pane that pass the filter.
    pub(super) fn keys_of(&self, pane: TopPane) -> Vec<EntryKey> {
        match pane {
            TopPane::Agents => self
                .runs
                .iter()
                .flat_map(|run| {
                    let agents = run.progress.agent_names().map(move |agent| (run, agent));
                    agents.filter(|(run, agent)| self.passes(&run.target_of(agent).to_string()))
                })
                .map(|(run, agent)| EntryKey::Agent(run.run, agent.clone()))
                .collect(),
            TopPane::Attention => {
                let shown = self.attention.iter().filter(|item| self.passes(&item.line().text()));
                shown.map(AttentionEntry::key).collect()
            }
            TopPane::Channel => {
                let line = |entry: &&ChannelEntry| entry.line(InstanceLabel::Shown).text();
                let shown = self.channel.iter().filter(|entry| self.passes(&line(entry)));
                shown.map(ChannelEntry::key).collect()
            }
        }
    }

    /// Returns the index of the selected row among the rows of a pane.
    pub(super) fn selected_index(&self, pane: TopPane, keys: &[EntryKey]) -> usize {
        let selected = self.selected[pane.index()].as_ref();
        let found = selected.and_then(|selected| keys.iter().position(|key| key == selected));
        let usual = match pane {
            TopPane::Agents | TopPane::Attention => 0,
            TopPane::Channel => keys.len().saturating_sub(1),
        };
        found.unwrap_or(usual)
    }

    /// Returns the selected row of the current pane.
    pub(super) fn selected_key(&self) -> Option<EntryKey> {
        let keys = self.keys_of(self.pane);
        keys.get(self.selected_index(self.pane, &keys)).cloned()
    }

    /// Selects a row of a pane.
    pub(super) fn select(&mut self, pane: TopPane, key: Option<EntryKey>) {
        self.selected[pane.index()] = key;
    }

    /// Returns whether keys are for an item whose answer is a single key.
    pub(super) fn is_item_open(&self) -> bool {
        matches!(self.mode, TopMode::Detail(EntryKey::Item(..), _)) && !self.panel.is_typing()
    }

    /// Returns the item of a row.
    pub(super) fn attention_entry(&self, key: &EntryKey) -> Option<&AttentionEntry> {
        self.attention.iter().find(|item| item.key() == *key)
    }
}

/// Returns whether a row belongs to a run.
pub(super) fn is_of_run(key: &EntryKey, run: RunId) -> bool {
    *run_of_key(key) == run
}

/// Returns the run of a row.
pub(super) fn run_of_key(key: &EntryKey) -> &RunId {
    match key {
        EntryKey::Agent(run, _)
        | EntryKey::Item(run, _)
        | EntryKey::DeadLetter(run, _, _)
        | EntryKey::Message(run, _) => run,
    }
}

#[cfg(test)]
pub(super) mod tests;
