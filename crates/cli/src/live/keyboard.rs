//! The keys of a terminal, for as long as something on it can be answered with one.
//!
//! Meanwhile a key is heard without Enter and not shown; Ctrl-C and Ctrl-Z are what they always are. Then the terminal is put
//! back as it was; after a kill without a word the shell has to do that. Whoever runs in the background touches neither: the
//! terminal is somebody else's.

use rustix::{
    process::getpgrp,
    stdio::stdin,
    termios::{
        LocalModes, OptionalActions, SpecialCodeIndex, Termios, isatty, tcgetattr, tcgetpgrp,
        tcsetattr,
    },
};

/// A keyboard that is listened to, or not.
#[derive(Default)]
pub(crate) struct KeyReader {
    /// How the terminal was before.
    saved_modes: Option<Termios>,
}

/// Whether keys are heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyCapture {
    /// From now on; what was typed before is forgotten.
    Started,
    /// As before.
    Active,
    /// There is no keyboard, or it is not ours at the moment.
    Unavailable,
}

impl KeyReader {
    /// Listens, also when somebody took the terminal in the meantime and gave it back.
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
        // A look never waits for a key.
        single.special_codes[SpecialCodeIndex::VMIN] = 0;
        single.special_codes[SpecialCodeIndex::VTIME] = 0;
        if tcsetattr(stdin(), OptionalActions::Flush, &single).is_err() {
            return KeyCapture::Unavailable;
        }
        self.saved_modes = Some(now);
        KeyCapture::Started
    }

    /// What was pressed since the last look.
    pub(crate) fn read_pressed(&self) -> Vec<u8> {
        let mut pressed = vec![0; 64];
        let is_heard = self.saved_modes.is_some() && is_foreground_terminal();
        let count = if is_heard { rustix::io::read(stdin(), &mut *pressed) } else { Ok(0) };
        pressed.truncate(count.unwrap_or(0));
        pressed
    }

    /// Listens no more.
    pub(crate) fn stop_capture(&mut self) {
        if let Some(before) = self.saved_modes.take()
            && is_foreground_terminal()
        {
            // A terminal that is gone needs nothing any more.
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
