//! Reads keys from a terminal while a request on it can be answered with one, or a line can be typed.
//!
//! Meanwhile a key is read without Enter and not echoed; Ctrl-C and Ctrl-Z work as usual. Afterwards the terminal's
//! modes are restored, also by a panic and by SIGQUIT (`terminal_restore`); after SIGKILL the shell has to do that. A background process does neither: the terminal belongs
//! to another process.

use std::{future::pending, sync::Arc};

use rustix::{
    stdio::stdin,
    termios::{LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr},
};

use super::{
    key_watcher::KeyWatcher,
    terminal_restore::{SavedModes, is_foreground_terminal},
    typed_key::{KeyDecoder, TypedKey},
};

/// Maximum number of bytes that one read of the pressed keys returns.
const MAX_READ_BYTES: usize = 64 * 1024;

/// Captures the keys of the terminal on request.
#[derive(Default)]
pub(crate) struct KeyReader {
    saved_modes: Arc<SavedModes>,
    decoder: KeyDecoder,
    /// Reports that keys were pressed; `None` before the first wait.
    watcher: Option<KeyWatcher>,
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
    /// Returns the modes of the terminal before the capture, for a restore without this reader.
    pub(crate) fn saved_modes(&self) -> Arc<SavedModes> {
        Arc::clone(&self.saved_modes)
    }

    /// Starts the capture, also after another process has used the terminal in between.
    pub(crate) fn start_capture(&mut self) -> KeyCapture {
        if !is_foreground_terminal() {
            return KeyCapture::Unavailable;
        }
        let Ok(now) = tcgetattr(stdin()) else { return KeyCapture::Unavailable };
        if self.saved_modes.is_saved() && !now.local_modes.contains(LocalModes::ICANON) {
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
        self.saved_modes.save(now);
        self.decoder = KeyDecoder::default();
        KeyCapture::Started
    }

    /// Waits until keys are pressed, forever without a capture. Cancel safe. A caller that does not own the terminal may
    /// not wait: it cannot read the keys that would wake it.
    pub(crate) async fn wait_pressed(&mut self) {
        if self.saved_modes.is_saved() {
            self.watcher.get_or_insert_with(KeyWatcher::start).wait().await;
        } else {
            pending::<()>().await;
        }
    }

    /// Returns the keys pressed since the last read.
    pub(crate) fn read_pressed(&mut self) -> Vec<TypedKey> {
        let mut keys = Vec::new();
        let mut bytes = [0; 1024];
        let mut total = 0;
        while total < MAX_READ_BYTES && self.saved_modes.is_saved() && is_foreground_terminal() {
            let count = rustix::io::read(stdin(), &mut bytes).unwrap_or(0);
            if count == 0 {
                break;
            }
            keys.extend(self.decoder.decode(&bytes[..count]));
            total += count;
        }
        keys
    }

    /// Returns the keys pressed since the last read, a while after it: an Escape that nothing has followed is a key.
    pub(crate) fn read_pressed_after_pause(&mut self) -> Vec<TypedKey> {
        let keys = self.read_pressed();
        if keys.is_empty() { self.decoder.finish().into_iter().collect() } else { keys }
    }

    /// Ends the capture and restores the terminal's modes.
    pub(crate) fn stop_capture(&mut self) {
        self.saved_modes.restore();
    }
}

impl Drop for KeyReader {
    fn drop(&mut self) {
        self.stop_capture();
    }
}
