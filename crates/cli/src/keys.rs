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
pub(crate) struct Keys {
    /// How the terminal was before.
    before: Option<Termios>,
}

/// Whether keys are heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hearing {
    /// From now on; what was typed before is forgotten.
    Begins,
    /// As before.
    GoesOn,
    /// There is no keyboard, or it is not ours at the moment.
    Nothing,
}

impl Keys {
    /// Listens, also when somebody took the terminal in the meantime and gave it back.
    pub(crate) fn listen(&mut self) -> Hearing {
        if !is_ours() {
            return Hearing::Nothing;
        }
        let Ok(now) = tcgetattr(stdin()) else { return Hearing::Nothing };
        if self.before.is_some() && !now.local_modes.contains(LocalModes::ICANON) {
            return Hearing::GoesOn;
        }
        let mut single = now.clone();
        single.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        // A look never waits for a key.
        single.special_codes[SpecialCodeIndex::VMIN] = 0;
        single.special_codes[SpecialCodeIndex::VTIME] = 0;
        if tcsetattr(stdin(), OptionalActions::Flush, &single).is_err() {
            return Hearing::Nothing;
        }
        self.before = Some(now);
        Hearing::Begins
    }

    /// What was pressed since the last look.
    pub(crate) fn pressed(&self) -> Vec<u8> {
        let mut pressed = vec![0; 64];
        let is_heard = self.before.is_some() && is_ours();
        let count = if is_heard { rustix::io::read(stdin(), &mut *pressed) } else { Ok(0) };
        pressed.truncate(count.unwrap_or(0));
        pressed
    }

    /// Listens no more.
    pub(crate) fn leave(&mut self) {
        if let Some(before) = self.before.take()
            && is_ours()
        {
            // A terminal that is gone needs nothing any more.
            let _ = tcsetattr(stdin(), OptionalActions::Now, &before);
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.leave();
    }
}

fn is_ours() -> bool {
    isatty(stdin()) && tcgetpgrp(stdin()).is_ok_and(|group| group == getpgrp())
}
