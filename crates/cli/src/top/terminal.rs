//! The terminal of the full screen: its second screen, its modes and its cursor, restored in every case but SIGKILL.

use std::{
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use crossterm::{
    cursor::{Hide, Show},
    execute, queue,
    style::Print,
    terminal::{EnterAlternateScreen, LeaveAlternateScreen},
};
use rustix::{
    stdio::stdin,
    termios::{OptionalActions, Termios, tcgetattr, tcsetattr},
};

use crate::{
    error::{CliError, CliErrorKind},
    input::signals::InterruptSignals,
    live::{
        controls::{MARK_PASTES, UNMARK_PASTES},
        terminal_restore::restore_before_panic,
    },
};

/// The second screen of the terminal; dropping it restores the first.
pub(super) struct TerminalScreen {
    restore: Arc<TerminalRestore>,
}

/// The state of the terminal before the second screen.
struct TerminalRestore {
    modes: Option<Termios>,
    is_entered: AtomicBool,
}

impl TerminalScreen {
    /// Enters the second screen. A panic restores the terminal before its message is printed, SIGQUIT before the end.
    pub(super) fn enter(signals: &mut InterruptSignals) -> Result<Self, CliError> {
        let modes = tcgetattr(stdin()).ok();
        let restore = Arc::new(TerminalRestore { modes, is_entered: AtomicBool::new(true) });
        let on_panic = Arc::clone(&restore);
        restore_before_panic(move || on_panic.apply());
        let on_quit = Arc::clone(&restore);
        signals.restore_on_quit(move || on_quit.apply())?;
        let screen = Self { restore };
        execute!(io::stdout(), EnterAlternateScreen, Hide, Print(MARK_PASTES)).map_err(
            |error| CliError::with_source(CliErrorKind::Failed, "could not draw the screen", error),
        )?;
        Ok(screen)
    }
}

impl Drop for TerminalScreen {
    fn drop(&mut self) {
        self.restore.apply();
    }
}

impl TerminalRestore {
    /// Restores the terminal once.
    fn apply(&self) {
        if !self.is_entered.swap(false, Ordering::SeqCst) {
            return;
        }
        let mut stdout = io::stdout();
        // A closed terminal needs no restore.
        let _ = queue!(stdout, Print(UNMARK_PASTES), Show, LeaveAlternateScreen);
        let _ = stdout.flush();
        if let Some(modes) = &self.modes {
            let _ = tcsetattr(stdin(), OptionalActions::Now, modes);
        }
    }
}
