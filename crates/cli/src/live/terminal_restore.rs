//! The restore of a terminal by the ends of a process that run no destructors: a panic, and SIGQUIT.

use std::{
    panic::{self, PanicHookInfo},
    sync::Mutex,
};

use agent_worker_protocol::sync;
use rustix::{
    process::getpgrp,
    stdio::{stderr, stdin},
    termios::{OptionalActions, Termios, isatty, tcgetpgrp, tcsetattr},
};

use super::controls::UNMARK_PASTES;

/// The modes of the terminal before its keys were captured; none without a capture.
#[derive(Default)]
pub(crate) struct SavedModes(Mutex<Option<Termios>>);

impl SavedModes {
    /// Returns whether keys are captured.
    pub(super) fn is_saved(&self) -> bool {
        sync::lock(&self.0).is_some()
    }

    pub(super) fn save(&self, modes: Termios) {
        *sync::lock(&self.0) = Some(modes);
    }

    /// Restores the modes, unless another process owns the terminal.
    pub(super) fn restore(&self) {
        if let Some(before) = sync::lock(&self.0).take()
            && is_foreground_terminal()
        {
            // A closed terminal needs no restore.
            let _ = tcsetattr(stdin(), OptionalActions::Now, &before);
        }
    }

    /// Restores the modes and ends the marks of pastes, in a process that ends without closing its view.
    pub(super) fn restore_at_exit(&self) {
        if !self.is_saved() {
            return;
        }
        self.restore();
        if isatty(stderr()) && is_foreground_terminal() {
            // Without the lock of the console: a panic may have happened in the middle of a redraw.
            let _ = rustix::io::write(stderr(), UNMARK_PASTES.as_bytes());
        }
    }
}

/// Returns whether the terminal belongs to this process.
pub(super) fn is_foreground_terminal() -> bool {
    isatty(stdin()) && tcgetpgrp(stdin()).is_ok_and(|group| group == getpgrp())
}

/// Calls `restore` before the message of a panic is printed.
pub(crate) fn restore_before_panic(restore: impl Fn() + Send + Sync + 'static) {
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
        restore();
        print(info);
    }));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_panic_restores_the_terminal_before_its_message() {
        let order = Arc::new(Mutex::new(Vec::new()));
        let (restored, printed) = (Arc::clone(&order), Arc::clone(&order));
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |_| printed.lock().unwrap().push("message")));
        restore_before_panic(move || restored.lock().unwrap().push("restore"));
        assert!(panic::catch_unwind(|| panic!("on purpose")).is_err());
        panic::set_hook(usual);
        assert_eq!(*order.lock().unwrap(), ["restore", "message"]);
    }
}
