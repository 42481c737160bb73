//! The terminal of the full screen: its second screen, its modes and its cursor, restored in every case but SIGKILL.

use std::{
    io::{self, Write},
    panic::{self, PanicHookInfo},
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
    live::controls::{MARK_PASTES, UNMARK_PASTES},
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
    /// Enters the second screen. A panic restores the terminal before its message is printed.
    pub(super) fn enter() -> Result<Self, CliError> {
        let modes = tcgetattr(stdin()).ok();
        let restore = Arc::new(TerminalRestore { modes, is_entered: AtomicBool::new(true) });
        let on_panic = Arc::clone(&restore);
        restore_before_panic(move || on_panic.apply());
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

/// Calls `restore` before the message of a panic is printed.
fn restore_before_panic(restore: impl Fn() + Send + Sync + 'static) {
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
        restore();
        print(info);
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_restores_the_terminal_before_its_message() {
        let order = Arc::new(std::sync::Mutex::new(Vec::new()));
        let (restored, printed) = (Arc::clone(&order), Arc::clone(&order));
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |_| printed.lock().unwrap().push("message")));
        restore_before_panic(move || restored.lock().unwrap().push("restore"));
        assert!(panic::catch_unwind(|| panic!("on purpose")).is_err());
        panic::set_hook(usual);
        assert_eq!(*order.lock().unwrap(), ["restore", "message"]);
    }
}
