//! The keyboard of a live view and its two receivers: the open item and the input line.
//!
//! Invariant: a key has one receiver. An open item has priority, unless a message is being typed when the item opens: no
//! key of a message answers an item. Next to a line, a character answers only if no other key follows it soon: two are the
//! start of a message.

use std::{future::pending, time::Duration};

use agent_worker_protocol::{
    Millis,
    api::{RunStarted, SendReply},
};

use super::{
    attention_prompt::{AttentionPrompt, Interactivity, OpenItemIds},
    input_line::{InputLine, LineEffect, MessageRecipient, SendOutcome, reply_notices},
    keyboard::{KeyCapture, KeyReader},
    message_draft::DraftFocus,
    terminal_restore::restore_before_panic,
    typed_key::TypedKey,
};
use crate::{
    client::daemon_client::DaemonClient,
    error::CliError,
    input::{settings::CliSettings, signals::InterruptSignals},
    output::{
        clock,
        console::{Console, TerminalSize},
        styled_line::StyledLine,
    },
};
/// Control sequences with which a terminal starts and ends to mark pasted text.
pub(crate) const MARK_PASTES: &str = "\x1b[?2004h";
pub(crate) const UNMARK_PASTES: &str = "\x1b[?2004l";

/// Time without another key after which a character is for the item and not the start of a message.
const SINGLE_KEY_TIME: Duration = Duration::from_millis(400);

/// The keyboard, the open item and the input line.
pub(crate) struct LiveControls {
    interactivity: Interactivity,
    keys: KeyReader,
    router: KeyRouter,
    capture: KeyCapture,
    prompt: AttentionPrompt,
    line: Option<InputLine>,
}

/// A change that the controls report.
pub(crate) enum ControlsUpdate {
    /// Keys were pressed.
    Keys,
    /// Lines for the person.
    Notices(Vec<StyledLine>),
    /// The daemon has a message of the person.
    Sent(Box<SendReply>),
}

/// The cause of an update of the controls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ControlsWake {
    /// Keys were pressed just now.
    Keys,
    /// The redraw interval has elapsed.
    Tick,
}

impl LiveControls {
    pub(crate) fn new(run: RunStarted, interactivity: Interactivity) -> Self {
        Self {
            interactivity,
            keys: KeyReader::default(),
            router: KeyRouter::default(),
            capture: KeyCapture::Unavailable,
            prompt: AttentionPrompt::new(run, interactivity),
            line: None,
        }
    }

    /// Restores the terminal before a panic or SIGQUIT ends the process.
    pub(crate) fn guard_terminal(&self, signals: &mut InterruptSignals) -> Result<(), CliError> {
        if self.interactivity == Interactivity::NonInteractive {
            return Ok(());
        }
        let (on_panic, on_quit) = (self.keys.saved_modes(), self.keys.saved_modes());
        restore_before_panic(move || on_panic.restore_at_exit());
        signals.restore_on_quit(move || on_quit.restore_at_exit())
    }

    /// Adds a line for messages to `recipient`.
    #[must_use]
    pub(crate) fn with_line(self, recipient: MessageRecipient, settings: CliSettings) -> Self {
        let line = match self.interactivity {
            Interactivity::Interactive => Some(InputLine::new(recipient, settings)),
            Interactivity::NonInteractive => None,
        };
        Self { line, ..self }
    }

    /// Returns the line for messages.
    pub(crate) fn line(&mut self) -> Option<&mut InputLine> {
        self.line.as_mut()
    }

    /// Applies the ids that are open now and the keys that were pressed.
    pub(crate) fn update(
        &mut self,
        wake: ControlsWake,
        wanted: OpenItemIds,
        client: &DaemonClient,
        console: &mut Console,
    ) -> Result<LineEffect, CliError> {
        if self.interactivity == Interactivity::NonInteractive {
            return Ok(LineEffect::Continues);
        }
        let now = clock::now();
        self.prompt.retain_open(&wanted);
        self.update_capture(console)?;
        let pressed = match wake {
            ControlsWake::Keys => self.keys.read_pressed(),
            ControlsWake::Tick => self.keys.read_pressed_after_pause(),
        };
        let facts = RouterFacts {
            item: self.prompt.item_input(),
            line: match &self.line {
                None => LineState::Absent,
                Some(line) if line.is_blank() => LineState::Blank,
                Some(_) => LineState::Typed,
            },
        };
        let routed = self.router.route(pressed, facts, wake, now);
        if !routed.line.is_empty() {
            self.prompt.note_other_key(now);
        }
        self.prompt.update(wanted, &routed.item, client, now);
        match &mut self.line {
            Some(line) => Ok(line.press(&routed.line, client)),
            None => Ok(LineEffect::Continues),
        }
    }

    /// Captures the keys while there is a receiver for them.
    fn update_capture(&mut self, console: &mut Console) -> Result<(), CliError> {
        if self.line.is_none() && self.prompt.item_input() == ItemInput::None {
            return self.end_capture(console);
        }
        self.capture = self.keys.start_capture();
        match self.capture {
            KeyCapture::Active => Ok(()),
            KeyCapture::Started => {
                self.prompt.hide();
                console.redraw(MARK_PASTES, &[])
            }
            KeyCapture::Unavailable => {
                self.prompt.hide();
                Ok(())
            }
        }
    }

    fn end_capture(&mut self, console: &mut Console) -> Result<(), CliError> {
        self.prompt.hide();
        let was_captured = self.capture != KeyCapture::Unavailable;
        self.capture = KeyCapture::Unavailable;
        self.keys.stop_capture();
        if was_captured { console.redraw(UNMARK_PASTES, &[]) } else { Ok(()) }
    }

    /// Draws the item that can be answered now and the line below it, within the given size.
    pub(crate) fn draw(&mut self, size: TerminalSize, now: Millis) -> Vec<StyledLine> {
        if self.capture == KeyCapture::Unavailable {
            self.prompt.hide();
            return Vec::new();
        }
        let focus = self.router.draft_focus(self.prompt.item_input());
        // One column stays free: a full line would wrap in some terminals.
        let columns = size.width.saturating_sub(1);
        let line = self.line.as_ref().map(|line| line.draw(focus, columns));
        let height = size.height.saturating_sub(usize::from(line.is_some()));
        let mut lines = self.prompt.draw(TerminalSize { height, ..size }, now);
        lines.extend(line);
        lines
    }

    /// Waits for keys, for the result of an answer or for that of a message. Cancel safe.
    pub(crate) async fn wait(&mut self, now: impl Fn() -> Millis) -> ControlsUpdate {
        let pressed = async {
            match self.capture {
                KeyCapture::Started | KeyCapture::Active => self.keys.wait_pressed().await,
                KeyCapture::Unavailable => pending().await,
            }
        };
        let sent = async {
            match &mut self.line {
                Some(line) => line.wait_in_flight().await,
                None => pending().await,
            }
        };
        tokio::select! {
            () = pressed => ControlsUpdate::Keys,
            notice = self.prompt.wait_in_flight(now) => {
                ControlsUpdate::Notices(notice.into_iter().collect())
            }
            sent = sent => match sent {
                SendOutcome::Sent(reply) => ControlsUpdate::Sent(reply),
                SendOutcome::Unsent(lines) => ControlsUpdate::Notices(lines),
            },
        }
    }

    /// Restores the terminal's modes.
    pub(crate) fn close(&mut self, console: &mut Console) -> Result<(), CliError> {
        self.interactivity = Interactivity::NonInteractive;
        self.prompt.close();
        self.end_capture(console)
    }
}

impl ControlsUpdate {
    /// Returns the lines for the person.
    pub(crate) fn into_notices(self) -> Vec<StyledLine> {
        match self {
            Self::Keys => Vec::new(),
            Self::Notices(lines) => lines,
            Self::Sent(reply) => reply_notices(&reply),
        }
    }
}

/// The input that an open item takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemInput {
    /// No item is open.
    None,
    /// A key answers the item.
    Key,
    /// The person types a text about the item.
    Text,
}

/// The line for messages, as far as the receiver of the keys depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineState {
    Absent,
    Blank,
    Typed,
}

/// The facts that decide about the receiver of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RouterFacts {
    item: ItemInput,
    line: LineState,
}

/// Decides about the receiver of each key. Pure.
#[derive(Debug, Default)]
struct KeyRouter {
    receiver: KeyReceiver,
    had_item: bool,
    /// Keys for an item since the last tick. An item reads keys that were pressed together as other typing, so they are
    /// collected for a tick.
    collected: Vec<TypedKey>,
    /// A character for an item, unless another key follows it soon.
    held: Option<HeldKey>,
}

#[derive(Debug)]
struct HeldKey {
    key: TypedKey,
    pressed_at: Millis,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum KeyReceiver {
    #[default]
    Item,
    Line,
}

/// Keys that were pressed together, and the time of that.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PressedKeys {
    pub(crate) keys: Vec<TypedKey>,
    pub(crate) at: Millis,
}

/// Keys by their receiver.
#[derive(Debug, PartialEq, Eq)]
struct RoutedKeys {
    item: PressedKeys,
    line: Vec<TypedKey>,
}

impl KeyRouter {
    fn route(
        &mut self,
        keys: Vec<TypedKey>,
        facts: RouterFacts,
        wake: ControlsWake,
        now: Millis,
    ) -> RoutedKeys {
        let has_item = facts.item != ItemInput::None;
        if !has_item {
            self.collected.clear();
        } else if !self.had_item {
            // The key was for another item.
            self.held = None;
            self.receiver = match facts.line {
                LineState::Absent | LineState::Blank => KeyReceiver::Item,
                LineState::Typed => KeyReceiver::Line,
            };
        }
        self.had_item = has_item;
        let mut line = Vec::new();
        for key in keys {
            match self.held.take() {
                Some(held) => self.route_after_held(held.key, key, &mut line),
                None => self.route_key(key, facts, now, &mut line),
            }
        }
        let mut item = PressedKeys { keys: Vec::new(), at: now };
        // A text about the item shows each key at once.
        if wake == ControlsWake::Tick || facts.item == ItemInput::Text {
            item.keys = std::mem::take(&mut self.collected);
        }
        let is_single = |held: &mut HeldKey| now.since(held.pressed_at) >= SINGLE_KEY_TIME;
        if let Some(held) = self.held.take_if(is_single)
            && has_item
        {
            item.keys.push(held.key);
            // The item must have been visible for a while before this time, not before now.
            item.at = held.pressed_at;
        }
        RoutedKeys { item, line }
    }

    fn route_key(
        &mut self,
        key: TypedKey,
        facts: RouterFacts,
        now: Millis,
        line: &mut Vec<TypedKey>,
    ) {
        match (facts.item, facts.line, self.receiver) {
            (ItemInput::None, _, _) => line.push(key),
            (ItemInput::Key | ItemInput::Text, LineState::Absent, _)
            | (ItemInput::Text, _, KeyReceiver::Item) => self.collected.push(key),
            (ItemInput::Key, _, KeyReceiver::Item) => match key {
                TypedKey::Tab => self.receiver = KeyReceiver::Line,
                TypedKey::Character(_) => self.held = Some(HeldKey { key, pressed_at: now }),
                other => self.collected.push(other),
            },
            (_, _, KeyReceiver::Line) if key == TypedKey::Tab => self.receiver = KeyReceiver::Item,
            (_, _, KeyReceiver::Line) => {
                if matches!(key, TypedKey::Enter | TypedKey::Escape) {
                    self.receiver = KeyReceiver::Item;
                }
                line.push(key);
            }
        }
    }

    /// Applies the key that follows a held one: both are the start of a message, but neither sends nor removes a text.
    fn route_after_held(&mut self, held: TypedKey, key: TypedKey, line: &mut Vec<TypedKey>) {
        if key == TypedKey::Escape {
            return;
        }
        self.receiver = KeyReceiver::Line;
        line.push(held);
        if !matches!(key, TypedKey::Enter | TypedKey::Tab) {
            line.push(key);
        }
    }

    /// Returns the receiver of the keys for the drawing of the line.
    fn draft_focus(&self, item: ItemInput) -> DraftFocus {
        match (item, self.receiver) {
            (ItemInput::None, _) => DraftFocus::Line,
            (ItemInput::Key | ItemInput::Text, KeyReceiver::Item) => DraftFocus::Item,
            (ItemInput::Key | ItemInput::Text, KeyReceiver::Line) => DraftFocus::LineBeforeItem,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        panic,
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering},
        },
    };

    use super::*;
    use crate::output::samples::run_id;

    fn facts(item: ItemInput, line: LineState) -> RouterFacts {
        RouterFacts { item, line }
    }

    /// Returns the keys that a terminal sends as these characters; `⇥` is Tab, `⏎` Enter, `⎋` Escape.
    fn keys(text: &str) -> Vec<TypedKey> {
        let key = |character| match character {
            '⇥' => TypedKey::Tab,
            '⏎' => TypedKey::Enter,
            '⎋' => TypedKey::Escape,
            other => TypedKey::Character(other),
        };
        text.chars().map(key).collect()
    }

    fn routed(item: &str, line: &str) -> (Vec<TypedKey>, Vec<TypedKey>) {
        (keys(item), keys(line))
    }

    /// Routes keys at a time in milliseconds.
    fn route(
        router: &mut KeyRouter,
        typed: &str,
        facts: RouterFacts,
        wake: ControlsWake,
        millis: i64,
    ) -> (Vec<TypedKey>, Vec<TypedKey>) {
        let RoutedKeys { item, line } = router.route(keys(typed), facts, wake, Millis::new(millis));
        (item.keys, line)
    }

    #[test]
    fn an_open_item_has_the_keys_unless_a_message_is_being_typed() {
        use {ControlsWake::Tick, ItemInput::*, LineState::*};
        for (states, typed, expected) in [
            (&[(None, Blank)][..], "y", routed("", "y")),
            (&[(Key, Blank)], "y", routed("y", "")),
            (&[(Key, Absent)], "⇥y", routed("⇥y", "")),
            (&[(None, Typed), (Key, Typed)], "y", routed("", "y")),
            (&[(None, Blank), (Key, Blank)], "y", routed("y", "")),
            // Tab changes the receiver, and the end of a message gives the keys back.
            (&[(Key, Blank)], "⇥ok⏎y", routed("y", "ok⏎")),
            (&[(Key, Blank)], "⇥ok⎋y", routed("y", "ok⎋")),
            (&[(None, Typed), (Key, Typed)], "a⇥y", routed("y", "a")),
            // In a text about the item, Tab is no command.
            (&[(Text, Blank)], "no⇥w", routed("no⇥w", "")),
            // The next item has priority again.
            (&[(Key, Typed), (None, Blank), (Key, Blank)], "y", routed("y", "")),
            // Two characters are a message, and Enter or Tab after one only moves it to the line.
            (&[(Key, Blank)], "no⏎", routed("", "no⏎")),
            (&[(Key, Blank)], "y⏎", routed("", "y")),
            (&[(Key, Blank)], "y⇥", routed("", "y")),
            (&[(Key, Blank)], "y⎋", routed("", "")),
            (&[(Key, Absent)], "no", routed("no", "")),
        ] {
            let mut router = KeyRouter::default();
            let (last, before) = states.split_last().unwrap();
            for (item, line) in before {
                route(&mut router, "", facts(*item, *line), Tick, 0);
            }
            let last = facts(last.0, last.1);
            let (mut item, mut line) = route(&mut router, typed, last, Tick, 0);
            let later = route(&mut router, "", last, Tick, 400);
            item.extend(later.0);
            line.extend(later.1);
            assert_eq!((item, line), expected, "{states:?} {typed}");
        }
    }

    #[test]
    fn the_first_letters_of_a_message_answer_no_item_and_a_single_key_does_so_after_a_pause() {
        use ControlsWake::{Keys, Tick};
        let item = facts(ItemInput::Key, LineState::Blank);
        for message in ["and the tests?", "yes, but…", "no…", "1 moment"] {
            let mut router = KeyRouter::default();
            let mut line = Vec::new();
            for (step, letter) in (0..).zip(message.chars()) {
                for wake in [Keys, Tick] {
                    let typed = if wake == Keys { letter.to_string() } else { String::new() };
                    let found = route(&mut router, &typed, item, wake, step * 399);
                    assert_eq!(found.0, [], "{message}: {letter}");
                    line.extend(found.1);
                }
            }
            assert_eq!(line, keys(message));
        }
        let mut router = KeyRouter::default();
        assert_eq!(route(&mut router, "y", item, Keys, 1000), routed("", ""));
        assert_eq!(route(&mut router, "", item, Tick, 1399), routed("", ""));
        let found = router.route(Vec::new(), item, Tick, Millis::new(1400));
        let pressed = PressedKeys { keys: keys("y"), at: Millis::new(1000) };
        assert_eq!(found, RoutedKeys { item: pressed, line: Vec::new() });
        assert_eq!(route(&mut router, "", item, Tick, 1500), routed("", ""));
        // A key that was held too long by a slow machine is no single key if others have followed it.
        route(&mut router, "n", item, Keys, 2000);
        assert_eq!(route(&mut router, "o", item, Tick, 3000), routed("", "no"));
    }

    #[test]
    fn a_held_key_answers_no_later_item_and_stays_the_start_of_a_message() {
        use ControlsWake::{Keys, Tick};
        let (item, none) =
            (facts(ItemInput::Key, LineState::Blank), facts(ItemInput::None, LineState::Blank));
        let mut router = KeyRouter::default();
        route(&mut router, "y", item, Keys, 0);
        assert_eq!(route(&mut router, "", none, Tick, 100), routed("", ""));
        assert_eq!(route(&mut router, "", item, Tick, 200), routed("", ""));
        assert_eq!(route(&mut router, "", item, Tick, 900), routed("", ""));
        route(&mut router, "y", item, Keys, 1000);
        assert_eq!(route(&mut router, "", none, Tick, 1400), routed("", ""));
        route(&mut router, "", item, Tick, 1500);
        route(&mut router, "y", item, Keys, 2000);
        assert_eq!(route(&mut router, "e", none, Keys, 2100), routed("", "ye"));
    }

    #[test]
    fn keys_for_an_item_without_a_line_are_collected_for_a_tick_and_those_of_a_text_are_not() {
        use ControlsWake::{Keys, Tick};
        let item = facts(ItemInput::Key, LineState::Absent);
        let mut router = KeyRouter::default();
        assert_eq!(route(&mut router, "y", item, Keys, 0), routed("", ""));
        assert_eq!(route(&mut router, "e", item, Keys, 0), routed("", ""));
        assert_eq!(route(&mut router, "s", item, Tick, 0), routed("yes", ""));
        assert_eq!(route(&mut router, "", item, Tick, 0), routed("", ""));
        assert_eq!(route(&mut router, "y", item, Tick, 100), routed("y", ""));
        for line in [LineState::Absent, LineState::Blank] {
            let text = facts(ItemInput::Text, line);
            assert_eq!(route(&mut router, "n", text, Keys, 200), routed("n", ""));
        }
        // A key for an item that is gone goes to no other.
        route(&mut router, "y", item, Keys, 300);
        route(&mut router, "", facts(ItemInput::None, LineState::Absent), Keys, 300);
        assert_eq!(route(&mut router, "", item, Tick, 300), routed("", ""));
    }

    #[tokio::test]
    async fn a_panic_in_a_view_at_a_terminal_restores_its_modes_before_the_message() {
        let terminal = std::fs::File::open("/dev/ptmx").unwrap();
        let modes = rustix::termios::tcgetattr(terminal).unwrap();
        for (interactivity, restored) in
            [(Interactivity::Interactive, true), (Interactivity::NonInteractive, false)]
        {
            let instance = "review:pr-1".parse().unwrap();
            let started = RunStarted { run: run_id(), instance, agents: Vec::new() };
            let controls = LiveControls::new(started, interactivity);
            controls.keys.saved_modes().save(modes.clone());
            let (was_restored, at_message) =
                (Arc::new(AtomicBool::new(false)), controls.keys.saved_modes());
            let found = Arc::clone(&was_restored);
            let usual = panic::take_hook();
            panic::set_hook(Box::new(move |_| {
                found.store(!at_message.is_saved(), Ordering::SeqCst);
            }));
            controls.guard_terminal(&mut InterruptSignals::listen().unwrap()).unwrap();
            assert!(panic::catch_unwind(|| panic!("on purpose")).is_err());
            panic::set_hook(usual);
            assert_eq!(was_restored.load(Ordering::SeqCst), restored, "{interactivity:?}");
        }
    }
}
