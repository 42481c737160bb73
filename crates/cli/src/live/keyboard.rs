//! Reads keys from a terminal while a request on it can be answered with one.
//!
//! Meanwhile a key is read without Enter and not echoed; Ctrl-C and Ctrl-Z work as usual. Afterwards the terminal's
//! modes are restored; after SIGKILL the shell has to do that. A background process does neither: the terminal belongs
//! to another process.

use rustix::{
    process::getpgrp,
    stdio::stdin,
    termios::{
        LocalModes, OptionalActions, SpecialCodeIndex, Termios, isatty, tcgetattr, tcgetpgrp,
        tcsetattr,
    },
};

/// Captures the keys of the terminal on request.
#[derive(Default)]
pub(crate) struct KeyReader {
    /// Terminal modes before the capture.
    saved_modes: Option<Termios>,
}

/// The state of the key capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyCapture {
    /// The capture starts now; earlier input is discarded.
    Started,
    /// The capture was already active.
    Active,
    /// There is no terminal, or another process owns it at the moment.
    Unavailable,
}

impl KeyReader {
    /// Starts the capture, also after another process has used the terminal in between.
    pub(crate) fn start_capture(&mut self) -> KeyCapture {
        if !is_foreground_terminal() {
            return KeyCapture::Unavailable;
        }
        let Ok(now) = tcgetattr(stdin()) else { return KeyCapture::Unavailable };
        if self.saved_modes.is_some() && !now.local_modes.contains(LocalModes::ICANON) {
            return KeyCapture::Active;
        }
        let mut single = now.clone();
        single.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        // A read returns at once without a key.
        single.special_codes[SpecialCodeIndex::VMIN] = 0;
        single.special_codes[SpecialCodeIndex::VTIME] = 0;
        if tcsetattr(stdin(), OptionalActions::Flush, &single).is_err() {
            return KeyCapture::Unavailable;
        }
        self.saved_modes = Some(now);
        KeyCapture::Started
    }

    /// Returns the keys pressed since the last read.
    pub(crate) fn read_pressed(&self) -> Vec<u8> {
        let mut pressed = vec![0; 64];
        let is_active = self.saved_modes.is_some() && is_foreground_terminal();
        let count = if is_active { rustix::io::read(stdin(), &mut *pressed) } else { Ok(0) };
        pressed.truncate(count.unwrap_or(0));
        pressed
    }

    /// Ends the capture and restores the terminal's modes.
    pub(crate) fn stop_capture(&mut self) {
        if let Some(before) = self.saved_modes.take()
            && is_foreground_terminal()
        {
            // A closed terminal needs no restore.
            let _ = tcsetattr(stdin(), OptionalActions::Now, &before);
        }
    }
}

impl Drop for KeyReader {
    fn drop(&mut self) {
        self.stop_capture();
    }
}

fn is_foreground_terminal() -> bool {
    isatty(stdin()) && tcgetpgrp(stdin()).is_ok_and(|group| group == getpgrp())
}
