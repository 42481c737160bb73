//! An instance's channel as a file that grows, and how its mail and votes stand beside it. Written, and never read back.
//!
//! Invariant: what the file says is made from the store alone. A file that says otherwise, because its writer was killed
//! or a person wrote there, is written anew from where it first differs. A file that does not begin as ours is nobody's to
//! write anew: it is set aside.

use std::{io, os::unix::fs::FileExt as _, sync::Arc, time::Duration};

use agent_worker_kernel::{Change, FileSlot as Slot, Stage, Transcript};
use agent_worker_protocol::{BadName, DocumentPath, Seq};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    AGAIN, HANDOVER, Kept, LAST, Trouble, blocking,
    folder::{Folder, Key, Seen},
    is_tried_again, open,
};

/// Looks follow each other no faster: people read slowly.
const PACE: Duration = Duration::from_millis(100);
/// So much of a file tells whether it is ours; a heading is shorter.
const BEGINNING: usize = 1024;

/// Keeps the channel of a run's instance as a file until the run is over and the file says so.
pub(super) async fn keep(transcript: Transcript, stop: &CancellationToken) -> Kept {
    let (project, names) = transcript.place();
    let place = project.join(names.join("/"));
    let mut patience = HANDOVER;
    loop {
        let begun = tokio::select! {
            () = stop.cancelled() => return Kept::InPart,
            begun = Writer::begin(transcript.clone(), patience) => begun,
        };
        match begun {
            Ok(mut writer) => return writer.work(stop).await,
            Err(error) => {
                let stage = transcript.stage().await;
                if !is_tried_again(stage, &error, &place, &mut patience, stop).await {
                    return Kept::InPart;
                }
            }
        }
    }
}

/// The one writer of an instance's channel and state.
struct Writer {
    transcript: Transcript,
    folder: Arc<Folder>,
    reached: Reached,
    states: [State; 2],
}

/// How far the file is known to say what the store says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Reached {
    last: Seq,
    bytes: u64,
    /// As it stood then.
    key: Option<Key>,
}

/// A file that tells how something stands.
struct State {
    path: DocumentPath,
    written: String,
}

impl Writer {
    async fn begin(transcript: Transcript, patience: Duration) -> Result<Self, Trouble> {
        let folder = Arc::new(open(transcript.place(), patience).await?);
        let states = [State::at("_state/inbox-state.json")?, State::at("_state/proposals.json")?];
        Ok(Self { transcript, folder, reached: Reached::default(), states })
    }

    async fn work(&mut self, stop: &CancellationToken) -> Kept {
        let mut seen = Change::default();
        let mut over: Option<Instant> = None;
        loop {
            let began = Instant::now();
            // Asked first: what was said before the end is then seen by the look that follows.
            let stage = self.transcript.stage().await.unwrap_or(Stage::Live);
            if stage == Stage::Deleted {
                return Kept::Whole;
            }
            let looked = self.look().await;
            let mut since = || over.get_or_insert(began).elapsed();
            match (stage, &looked) {
                (Stage::Over, Ok(())) => return Kept::Whole,
                (Stage::Over, Err(_)) if since() > LAST => return Kept::InPart,
                (Stage::Over | Stage::Live | Stage::Deleted, _) => {}
            }
            let pause = match looked {
                Ok(()) => Duration::MAX,
                Err(error) => {
                    tracing::error!(%error, "keeping a channel as a file failed; trying again");
                    AGAIN
                }
            };
            let stirred = async {
                tokio::select! {
                    change = self.transcript.changed(seen) => seen = change,
                    () = tokio::time::sleep(pause) => {}
                }
                tokio::time::sleep_until(began + PACE).await;
            };
            tokio::select! {
                () = stop.cancelled() => return self.leave().await,
                () = stirred => {}
            }
        }
    }

    /// The daemon closes: what was said until now is written, so that the file says no less while nobody is there.
    async fn leave(&mut self) -> Kept {
        let stage = self.transcript.stage().await.unwrap_or(Stage::Live);
        match (stage, self.look().await) {
            (Stage::Over, Ok(())) => Kept::Whole,
            (Stage::Over | Stage::Live | Stage::Deleted, _) => Kept::InPart,
        }
    }

    /// Brings every file up to what the store says now.
    async fn look(&mut self) -> Result<(), Trouble> {
        if self.folder.is_gone() {
            self.folder = Arc::new(open(self.transcript.place(), HANDOVER).await?);
            for state in &mut self.states {
                state.written.clear();
            }
        }
        self.reached = self.follow().await?;
        let says = [self.transcript.mail().await?, self.transcript.votes().await?];
        for (state, says) in self.states.iter_mut().zip(says) {
            if state.written != says {
                let (folder, path, text) =
                    (Arc::clone(&self.folder), state.path.clone(), says.clone());
                let is_first = state.written.is_empty();
                blocking(move || {
                    if is_first {
                        make_way(&folder, &path)?;
                    }
                    folder.replace(&path, &text)
                })
                .await?;
                state.written = says;
            }
        }
        Ok(())
    }

    /// Writes what was said since the file was last known to be right; from its beginning, if somebody was there.
    async fn follow(&self) -> Result<Reached, Trouble> {
        let mut at = self.reached;
        let (file, key) = self.opened().await?;
        let file = Arc::new(file);
        if at.key != Some(key) {
            let bytes = say(&file, 0, self.transcript.heading()).await?;
            at = Reached { last: Seq::default(), bytes, key: None };
        }
        while let Some(stretch) = self.transcript.said(at.last).await? {
            at.bytes += say(&file, at.bytes, stretch.text).await?;
            at.last = stretch.last;
        }
        at.key = Some(blocking(move || cut(&file, at.bytes).and_then(|()| Key::now(&file))).await?);
        Ok(at)
    }

    /// The file, where it is as we left it or begins as ours; what else lies there is set aside first.
    async fn opened(&self) -> io::Result<(std::fs::File, Key)> {
        let (folder, transcript, left) =
            (Arc::clone(&self.folder), self.transcript.clone(), self.reached.key);
        blocking(move || {
            let path = transcript.channel();
            loop {
                let (file, key) = folder.open_log(path)?;
                if left == Some(key) {
                    return Ok((file, key));
                }
                let mut beginning = [0; BEGINNING];
                let read = read_at(&file, &mut beginning, 0)?;
                if transcript.is_channel(&beginning[..read]) {
                    return Ok((file, key));
                }
                aside(&folder, path)?;
            }
        })
        .await
    }
}

/// Sets aside what lies where a state is written and tells none.
fn make_way(folder: &Folder, path: &DocumentPath) -> io::Result<()> {
    match folder.look(path, Slot::File)? {
        Seen::Nothing => return Ok(()),
        Seen::File(_) | Seen::Strange => {}
    }
    match folder.read(path, Slot::File)? {
        Some(there) if Transcript::is_state(&there.bytes) => Ok(()),
        Some(_) | None => aside(folder, path),
    }
}

fn aside(folder: &Folder, path: &DocumentPath) -> io::Result<()> {
    tracing::warn!(%path, "a file that is not ours lay where a channel is written; it is set aside");
    folder.set_aside(path, Slot::File)
}

impl State {
    fn at(path: &str) -> Result<Self, BadName> {
        Ok(Self { path: path.parse()?, written: String::new() })
    }
}

/// Makes a file say `text` at `offset`, touching nothing that says so already. Answers with how long it is.
async fn say(file: &Arc<std::fs::File>, offset: u64, text: String) -> io::Result<u64> {
    let file = Arc::clone(file);
    blocking(move || {
        let text = text.as_bytes();
        let mut there = vec![0; text.len()];
        let read = read_at(&file, &mut there, offset)?;
        let same = there[..read].iter().zip(text).take_while(|(one, other)| one == other).count();
        let (from, rest) = (offset + length(same), &text[same..]);
        if !rest.is_empty() {
            // What follows it is not to be read behind it, not for a moment.
            cut(&file, from)?;
            file.write_all_at(rest, from)?;
        }
        Ok(length(text.len()))
    })
    .await
}

/// Takes away what lies beyond a place.
fn cut(file: &std::fs::File, at: u64) -> io::Result<()> {
    if file.metadata()?.len() > at { file.set_len(at) } else { Ok(()) }
}

fn read_at(file: &std::fs::File, there: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut read = 0;
    while read < there.len() {
        match file.read_at(&mut there[read..], offset + length(read)) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

fn length(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
