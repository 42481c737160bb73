//! A view of a run that was read from the daemon and then follows the events, joined by their positions.
//!
//! Invariant: an event changes the view exactly if its position is after the view's. The clock decides nothing: an event may
//! be stored between the request and the snapshot, or in the same millisecond.

use agent_worker_protocol::{Event, EventKind, Position, RunState, api::RunView};

use super::{Above, Detail, View};

/// The view, and the words for the events it already includes.
pub(crate) struct Replay {
    view: View,
    /// Words the events up to `known`; nothing else is shown of it.
    past: View,
    known: Position,
    /// True if the run is not paused, so that its earlier pauses are over.
    goes_on: bool,
}

impl Replay {
    /// Follows a run from its first event.
    pub(crate) fn from_start(view: View, past: View) -> Self {
        Self { view, past, known: Position::default(), goes_on: false }
    }

    /// Follows a run from `run` on; earlier events are only worded.
    pub(crate) fn from_snapshot(run: &RunView, past: View, detail: Detail) -> Self {
        let goes_on = !matches!(run.state, RunState::Paused { .. });
        Self { view: View::known(run, detail), past, known: run.position, goes_on }
    }

    /// The run now.
    pub(crate) fn view(&mut self) -> &mut View {
        &mut self.view
    }

    /// Returns the lines to print for an event, and applies it unless the view includes it.
    pub(crate) fn apply(&mut self, event: &Event) -> Vec<Above> {
        let is_known = event.pos.is_some_and(|position| position <= self.known);
        match (is_known, event.kind) {
            (true, EventKind::RunPaused) if self.goes_on => Vec::new(),
            (true, _) => self.past.apply(event),
            (false, _) => self.view.apply(event),
        }
    }
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::EventKind;
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        console::Size,
        line::Colour,
        samples::{self, at, event, name, said},
    };

    fn new() -> View {
        View::new("review:pr-1".parse().unwrap(), &[name("coder")], Detail::Usual)
    }

    fn status(replay: &mut Replay) -> String {
        let lines = replay.view().status(at(90), Size { width: 80, height: 24 });
        lines.iter().map(|line| line.paint(Colour::Off) + "\n").collect()
    }

    /// A turn that ends, at positions 1 to 4. All of it has one time stamp, later than the snapshot's.
    fn a_turn() -> Vec<Event> {
        let end = json!({"end": "ok"});
        let events = [
            said(1, "user", &["coder"], "please fix it"),
            event(1, EventKind::AttemptStarting, "coder", json!({"seqs": [1]})),
            event(1, EventKind::AttemptRunning, "coder", Value::Null),
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
        let told =
            |replay: &mut Replay| a_turn().iter().flat_map(|event| replay.apply(event)).count();
        for known in 0..=4 {
            // The snapshot at each position: what the events up to it made.
            let mut view = new();
            for event in &a_turn()[..known] {
                view.apply(event);
            }
            let known = Position::new(i64::try_from(known).unwrap());
            let mut replay = Replay { view, past: new(), known, goes_on: true };
            assert_eq!(told(&mut replay), 1, "the message is printed once");
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
        let mut replay = Replay::from_snapshot(&run, new(), Detail::Usual);
        assert_eq!(replay.apply(&paused(7)), []);
        assert_eq!(replay.apply(&paused(8)).len(), 1);
    }
}
