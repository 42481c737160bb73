//! Prints the demo at a pace for readers, and waits for the daemon, a key or a signal.
//!
//! The pauses only delay the display; they decide nothing about the team.

use std::{future::Future, time::Duration};

use agent_worker_host::DialError;
use tokio::time::{Instant, sleep, timeout};

use super::{
    captions::{self, Caption},
    evidence::TeamCheck,
};
use crate::{
    error::{CliError, CliErrorKind},
    input::signals::InterruptSignals,
    live::{
        keyboard::{KeyCapture, KeyReader},
        typed_key::TypedKey,
    },
    output::{
        console::Console,
        styled_line::{StyledLine, Tone},
        text::one_line,
    },
};

/// Pause in front of a scene and after its heading, after a line about the team, and after a check.
const SCENE_PAUSE: Duration = Duration::from_millis(500);
const LINE_PAUSE: Duration = Duration::from_millis(280);
const CHECK_PAUSE: Duration = Duration::from_millis(250);
/// Width of the text for a reader without a terminal, and the largest width.
const PIPE_WIDTH: usize = 80;
const MAX_WIDTH: usize = 100;
/// Time limit for the next step of the team.
const TEAM_TIMEOUT: Duration = Duration::from_mins(1);
/// Time limit for a key, and the interval at which the keyboard is read.
const KEY_TIMEOUT: Duration = Duration::from_mins(1);
const KEY_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The reason that ends the demo early.
pub(super) enum Halt {
    /// A signal asked to stop.
    Interrupted,
    /// A step failed.
    Failed(CliError),
}

impl From<CliError> for Halt {
    fn from(error: CliError) -> Self {
        Self::Failed(error)
    }
}

impl From<DialError> for Halt {
    fn from(error: DialError) -> Self {
        Self::Failed(error.into())
    }
}

/// The use of the keyboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyInput {
    /// No key is read.
    Off,
    /// A key is read if the user has a terminal.
    IfTerminal,
}

/// The end of the wait for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyOutcome {
    /// The key with this index was pressed.
    Pressed(usize),
    /// Nobody pressed a key in time.
    TimedOut,
    /// There is no keyboard.
    Unavailable,
}

/// The output of the demo, its signals and its pace.
pub(super) struct Stage<'a> {
    console: &'a mut Console,
    signals: InterruptSignals,
    /// Length of the pauses, in percent.
    pace: u32,
    keys: KeyInput,
}

impl<'a> Stage<'a> {
    pub(super) fn new(
        console: &'a mut Console,
        signals: InterruptSignals,
        pace: u32,
        keys: KeyInput,
    ) -> Self {
        Self { console, signals, pace, keys }
    }

    /// Returns whether a signal has arrived.
    pub(super) async fn is_interrupted(&mut self) -> bool {
        tokio::select! {
            biased;
            () = self.signals.wait_for_first() => true,
            () = std::future::ready(()) => false,
        }
    }

    /// Waits for `work`, a signal or the time limit for a step of the team.
    pub(super) async fn wait<T, E: Into<Halt>>(
        &mut self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, Halt> {
        tokio::select! {
            () = self.signals.wait_for_first() => Err(Halt::Interrupted),
            done = timeout(TEAM_TIMEOUT, work) => match done {
                Ok(done) => done.map_err(Into::into),
                Err(_) => Err(Halt::Failed(timeout_error())),
            }
        }
    }

    /// Returns a duration at the pace of the demo.
    pub(super) fn paced(&self, span: Duration) -> Duration {
        span * self.pace / 100
    }

    /// Waits at the pace of the demo.
    pub(super) async fn pause(&mut self, span: Duration) -> Result<(), Halt> {
        let span = self.paced(span);
        tokio::select! {
            () = self.signals.wait_for_first() => Err(Halt::Interrupted),
            () = sleep(span) => Ok(()),
        }
    }

    /// Prints lines one below the other.
    pub(super) fn print_all(&mut self, captions: &[Caption]) -> Result<(), CliError> {
        let width = self.width();
        captions.iter().try_for_each(|caption| self.print(&caption.wrap(width)))
    }

    /// Prints captions, and pauses.
    pub(super) async fn introduce(&mut self, captions: &[Caption]) -> Result<(), Halt> {
        self.print_all(captions)?;
        self.pause(SCENE_PAUSE).await
    }

    /// Prints the heading of a scene.
    pub(super) async fn heading(&mut self, index: usize) -> Result<(), Halt> {
        let heading = captions::HEADINGS.get(index).copied().unwrap_or_default();
        let lines = captions::heading_lines(index + 1, heading, self.width());
        self.pause(SCENE_PAUSE).await?;
        self.print(&lines)?;
        self.pause(SCENE_PAUSE).await
    }

    /// Prints a caption below the heading.
    pub(super) async fn say(&mut self, tone: Tone, text: &str) -> Result<(), Halt> {
        self.print(&Caption::new(tone, text.to_owned()).wrap(self.width()))?;
        self.pause(LINE_PAUSE).await
    }

    /// Prints a line about an agent.
    pub(super) async fn agent(&mut self, name: &str, tone: Tone, text: &str) -> Result<(), Halt> {
        self.print(&captions::agent_lines(name, tone, text, self.width()))?;
        self.pause(LINE_PAUSE).await
    }

    /// Prints a check.
    pub(super) async fn check(&mut self, check: &TeamCheck) -> Result<(), Halt> {
        self.print(&captions::check_lines(check, self.width()))?;
        self.pause(CHECK_PAUSE).await
    }

    /// Prints a document line by line, below its name.
    pub(super) async fn show_document(&mut self, name: &str, text: &str) -> Result<(), Halt> {
        self.print(&[StyledLine::default()])?;
        self.say(Tone::Strong, name).await?;
        for line in text.lines().filter(|line| !line.is_empty()) {
            self.say(Tone::Plain, &one_line(line)).await?;
        }
        Ok(())
    }

    /// Returns whether a key can be pressed.
    pub(super) fn can_read_keys(&self) -> bool {
        self.keys == KeyInput::IfTerminal
            && self.console.is_stdout_interactive()
            && KeyReader::default().start_capture() != KeyCapture::Unavailable
    }

    /// Waits for one of `number` keys, `1` and up. The terminal's modes are restored when the wait ends.
    pub(super) async fn wait_for_key(&mut self, number: usize) -> Result<KeyOutcome, Halt> {
        let mut keyboard = KeyReader::default();
        let deadline = Instant::now() + KEY_TIMEOUT;
        while Instant::now() < deadline {
            if keyboard.start_capture() == KeyCapture::Unavailable {
                return Ok(KeyOutcome::Unavailable);
            }
            let pressed = keyboard.read_pressed();
            let index = pressed.iter().find_map(|key| key_index(key, number));
            if let Some(index) = index {
                return Ok(KeyOutcome::Pressed(index));
            }
            tokio::select! {
                () = self.signals.wait_for_first() => return Err(Halt::Interrupted),
                () = sleep(KEY_POLL_INTERVAL) => {}
            }
        }
        Ok(KeyOutcome::TimedOut)
    }

    fn print(&mut self, lines: &[StyledLine]) -> Result<(), CliError> {
        self.console.print_lines(lines)
    }

    fn width(&self) -> usize {
        self.console.stdout_width().unwrap_or(PIPE_WIDTH).min(MAX_WIDTH)
    }
}

/// Returns the index of the key `1`, `2`, … among `number` keys.
fn key_index(key: &TypedKey, number: usize) -> Option<usize> {
    let TypedKey::Character(character) = key else { return None };
    let index = usize::try_from(character.to_digit(10)?.checked_sub(1)?).ok()?;
    (index < number.min(9)).then_some(index)
}

fn timeout_error() -> CliError {
    let seconds = TEAM_TIMEOUT.as_secs();
    CliError::new(CliErrorKind::Failed, format!("the team took no step within {seconds} s"))
        .with_hint("the log of its daemon says more: agent-worker demo --keep")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_keys_of_the_options_count() {
        for (key, number, expected) in
            [('1', 2, Some(0)), ('2', 2, Some(1)), ('3', 2, None), ('0', 2, None), ('y', 2, None)]
        {
            let pressed = TypedKey::Character(key);
            assert_eq!(key_index(&pressed, number), expected, "{key}");
        }
    }
}
