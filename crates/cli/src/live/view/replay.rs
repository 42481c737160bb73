//! A view of a run that was read from the daemon and then follows the events, joined by their positions.
//!
//! Invariant: an event changes the view exactly if its position is after the view's. The clock decides nothing: an event may
//! be stored between the request and the snapshot, or in the same millisecond.

use std::path::Path;

use agent_worker_protocol::{Event, EventKind, Position, RunState, api::RunView};

use super::{RunProgress, TranscriptLine, Verbosity};

/// The view of a run, and the formatter for the events that the view already includes.
pub(crate) struct Replay {
    view: RunProgress,
    /// Formats the events up to `known_position`; its state is not shown.
    past_progress: RunProgress,
    known_position: Position,
    /// True if the run is not paused, so that its earlier pauses are over.
    is_unpaused: bool,
}

impl Replay {
    /// Follows a run from its first event.
    pub(crate) fn from_start(view: RunProgress, past_progress: RunProgress) -> Self {
        Self { view, past_progress, known_position: Position::default(), is_unpaused: false }
    }

    /// Follows a run from `run` on; earlier events are only formatted.
    pub(crate) fn from_snapshot(
        run: &RunView,
        past_progress: RunProgress,
        detail: Verbosity,
        folder: &Path,
    ) -> Self {
        let is_unpaused = !matches!(run.state, RunState::Paused { .. });
        Self {
            view: RunProgress::from_run(run, detail).in_folder(folder),
            past_progress,
            known_position: run.position,
            is_unpaused,
        }
    }

    /// Returns the current progress.
    pub(crate) fn progress(&mut self) -> &mut RunProgress {
        &mut self.view
    }

    /// Returns the lines to print for an event, and applies it unless the view includes it.
    pub(crate) fn apply(&mut self, event: &Event) -> Vec<TranscriptLine> {
        let is_known = event.pos.is_some_and(|position| position <= self.known_position);
        match (is_known, event.kind()) {
            (true, Some(EventKind::RunPaused)) if self.is_unpaused => Vec::new(),
            (true, _) => self.past_progress.apply(event),
            (false, _) => self.view.apply(event),
        }
    }
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::EventKind;
    use serde_json::{Value, json};

    use super::*;
    use crate::output::{
        console::TerminalSize,
        samples::{self, agent_name, at, event, message_event},
        styled_line::Colour,
    };

    fn new() -> RunProgress {
        RunProgress::new("review:pr-1".parse().unwrap(), &[agent_name("coder")], Verbosity::Normal)
    }

    fn status(replay: &mut Replay) -> String {
        let lines = replay.progress().status_lines(at(90), TerminalSize { width: 80, height: 24 });
        lines.iter().map(|line| line.paint(Colour::Off) + "\n").collect()
    }

    /// Returns a turn that ends, at positions 1 to 4; all its events have one time stamp, later than the snapshot's.
    fn a_turn() -> Vec<Event> {
        let end = json!({"end": "ok"});
        let events = [
            message_event(1, "user", &["coder"], "please fix it"),
            event(1, EventKind::AttemptStarting, "coder", json!({"seqs": [1], "number": 1})),
            event(1, EventKind::AttemptRunning, "coder", json!({"pid": 7})),
            event(1, EventKind::AttemptEnded, "coder", end),
        ];
        let numbered = (1..).zip(events);
        numbered
            .map(|(position, event)| Event {
                pos: Some(Position::new(position)),
                ts: at(200),
                ..event
            })
            .collect()
    }

    #[test]
    fn an_event_the_snapshot_includes_is_printed_and_changes_nothing_whatever_its_time() {
        let mut expected = Replay::from_start(new(), new());
        for event in a_turn() {
            expected.apply(&event);
        }
        let printed =
            |replay: &mut Replay| a_turn().iter().flat_map(|event| replay.apply(event)).count();
        for known in 0..=4 {
            // The snapshot at each position is the state after the events up to it.
            let mut view = new();
            for event in &a_turn()[..known] {
                view.apply(event);
            }
            let known = Position::new(i64::try_from(known).unwrap());
            let mut replay =
                Replay { view, past_progress: new(), known_position: known, is_unpaused: true };
            assert_eq!(printed(&mut replay), 1, "the message is printed once");
            assert_eq!(status(&mut replay), status(&mut expected), "{known:?}");
        }
    }

    #[test]
    fn a_pause_before_the_snapshot_is_not_printed_for_a_run_that_goes_on() {
        let mut run = samples::run();
        run.state = RunState::Running;
        run.position = Position::new(7);
        let paused = |position| Event {
            pos: Some(Position::new(position)),
            ..event(1, EventKind::RunPaused, "", Value::Null)
        };
        let mut replay = Replay::from_snapshot(&run, new(), Verbosity::Normal, Path::new(""));
        assert_eq!(replay.apply(&paused(7)), []);
        assert_eq!(replay.apply(&paused(8)).len(), 1);
    }
}
