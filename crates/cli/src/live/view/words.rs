//! The words of the models during their turns, as lines above the status.

use agent_worker_protocol::{Event, EventBody, TextData};

use super::{
    RunProgress, TranscriptLine, Verbosity, agent_row::AgentStatusRow, event_text::spoken_line,
    speech::Speech,
};
use crate::output::text::one_line;

impl RunProgress {
    /// Returns the words that an agent said before an event of another kind.
    pub(super) fn take_words(&mut self, event: &Event) -> Vec<TranscriptLine> {
        match &event.body {
            EventBody::Text(_) | EventBody::Heartbeat | EventBody::Usage(_) => Vec::new(),
            // The message repeats the words of its author.
            EventBody::Message(message) => {
                let (author, body) = (message.from.to_string(), one_line(&message.body));
                let row = self.agents.iter_mut().find(|row| row.name.as_str() == author);
                let said = row.map(|row| spoken_lines(row, Speech::take_rest, self.detail));
                let is_new = |(words, _): &(String, _)| !body.contains(words);
                said.into_iter().flatten().filter(is_new).map(|(_, line)| line).collect()
            }
            _ => self.words_of(event, Speech::take_rest),
        }
    }

    /// Notes words of a model.
    pub(super) fn words_added(&mut self, event: &Event, data: &TextData) -> Vec<TranscriptLine> {
        if let Some(row) = self.row_of(event) {
            row.add_words(&data.text);
        }
        self.words_of(event, Speech::take_complete)
    }

    pub(super) fn words_of(&mut self, event: &Event, take: TakeWords) -> Vec<TranscriptLine> {
        let detail = self.detail;
        let said = self.row_of(event).map(|row| spoken_lines(row, take, detail));
        said.into_iter().flatten().map(|(_, line)| line).collect()
    }
}

/// Removes words of an agent that were not printed yet.
type TakeWords = fn(&mut Speech) -> Vec<String>;

/// Returns the next words of an agent, each with its line; none unless all is printed.
fn spoken_lines(
    row: &mut AgentStatusRow,
    take: TakeWords,
    detail: Verbosity,
) -> Vec<(String, TranscriptLine)> {
    let said = take(&mut row.speech);
    match detail {
        Verbosity::Normal => Vec::new(),
        Verbosity::Verbose => said
            .into_iter()
            .map(|words| {
                let line = spoken_line(row, &words);
                (words, line)
            })
            .collect(),
    }
}
