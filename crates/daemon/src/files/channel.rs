//! The channel of an instance as a growing file, with the state of its mail and votes in two more files. The daemon
//! writes them and never reads them as input.
//!
//! Invariant: the content comes from the store alone. A file that differs, because its writer was killed or a
//! person edited it, is rewritten from the first difference. A file that does not start with our heading is never
//! overwritten: it is set aside.

use std::{io, os::unix::fs::FileExt as _, sync::Arc, time::Duration};

use agent_worker_kernel::{ChangeCursor, FileSlot as Slot, RunStage, Transcript};
use agent_worker_protocol::{BadName, DocumentPath, Seq};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    FINISH_TIMEOUT, FileSyncError, HANDOVER_TIMEOUT, RETRY_DELAY, SyncOutcome,
    folder::{FileStamp, Folder, SlotContent},
    open_folder, run_blocking, wait_for_retry,
};

/// Minimum interval between two syncs; people read slowly.
const MIN_SYNC_INTERVAL: Duration = Duration::from_millis(100);
/// Number of bytes that decide whether a file is ours; a heading is shorter.
const HEADING_PROBE_BYTES: usize = 1024;

/// Syncs the channel file of a run's instance until the run has ended and the file includes its end.
pub(super) async fn sync_channel(transcript: Transcript, stop: &CancellationToken) -> SyncOutcome {
    let (project, names) = transcript.location();
    let place = project.join(names.join("/"));
    let mut handover_timeout = HANDOVER_TIMEOUT;
    loop {
        let begun = tokio::select! {
            () = stop.cancelled() => return SyncOutcome::Incomplete,
            begun = ChannelFileWriter::open(transcript.clone(), handover_timeout) => begun,
        };
        match begun {
            Ok(mut writer) => return writer.run(stop).await,
            Err(error) => {
                let stage = transcript.run_stage().await;
                if !wait_for_retry(stage, &error, &place, &mut handover_timeout, stop).await {
                    return SyncOutcome::Incomplete;
                }
            }
        }
    }
}

/// The only writer of an instance's channel and state files.
struct ChannelFileWriter {
    transcript: Transcript,
    folder: Arc<Folder>,
    position: WrittenPosition,
    state_files: [StateFile; 2],
}

/// The position up to which the file is known to match the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct WrittenPosition {
    last: Seq,
    bytes: u64,
    /// Stamp of the file at that position.
    key: Option<FileStamp>,
}

/// A file with the current state of the mail or the votes.
struct StateFile {
    path: DocumentPath,
    written: String,
}

impl ChannelFileWriter {
    async fn open(
        transcript: Transcript,
        handover_timeout: Duration,
    ) -> Result<Self, FileSyncError> {
        let folder = Arc::new(open_folder(transcript.location(), handover_timeout).await?);
        let states =
            [StateFile::new("_state/inbox-state.json")?, StateFile::new("_state/proposals.json")?];
        Ok(Self { transcript, folder, position: WrittenPosition::default(), state_files: states })
    }

    async fn run(&mut self, stop: &CancellationToken) -> SyncOutcome {
        let mut seen = ChangeCursor::default();
        let mut over: Option<Instant> = None;
        loop {
            let began = Instant::now();
            // Read the stage first: the sync that follows then includes all messages from before the end.
            let stage = self.transcript.run_stage().await.unwrap_or(RunStage::Live);
            if stage == RunStage::Deleted {
                return SyncOutcome::Complete;
            }
            let synced = self.sync_once().await;
            let mut since = || over.get_or_insert(began).elapsed();
            match (stage, &synced) {
                (RunStage::Ended, Ok(())) => return SyncOutcome::Complete,
                (RunStage::Ended, Err(_)) if since() > FINISH_TIMEOUT => {
                    return SyncOutcome::Incomplete;
                }
                (RunStage::Ended | RunStage::Live | RunStage::Deleted, _) => {}
            }
            let pause = match synced {
                Ok(()) => Duration::MAX,
                Err(error) => {
                    tracing::error!(%error, "syncing a channel to its file failed; retrying");
                    RETRY_DELAY
                }
            };
            let stirred = async {
                tokio::select! {
                    change = self.transcript.wait_for_change(seen) => seen = change,
                    () = tokio::time::sleep(pause) => {}
                }
                tokio::time::sleep_until(began + MIN_SYNC_INTERVAL).await;
            };
            tokio::select! {
                () = stop.cancelled() => return self.sync_before_shutdown().await,
                () = stirred => {}
            }
        }
    }

    /// Writes all messages up to now before the daemon stops, so that the file is complete while no daemon runs.
    async fn sync_before_shutdown(&mut self) -> SyncOutcome {
        let stage = self.transcript.run_stage().await.unwrap_or(RunStage::Live);
        match (stage, self.sync_once().await) {
            (RunStage::Ended, Ok(())) => SyncOutcome::Complete,
            (RunStage::Ended | RunStage::Live | RunStage::Deleted, _) => SyncOutcome::Incomplete,
        }
    }

    /// Brings every file up to date with the store.
    async fn sync_once(&mut self) -> Result<(), FileSyncError> {
        if self.folder.is_gone() {
            self.folder =
                Arc::new(open_folder(self.transcript.location(), HANDOVER_TIMEOUT).await?);
            for state in &mut self.state_files {
                state.written.clear();
            }
        }
        self.position = self.append_new_messages().await?;
        let says = [self.transcript.mail_json().await?, self.transcript.votes_json().await?];
        for (state, says) in self.state_files.iter_mut().zip(says) {
            if state.written != says {
                let (folder, path, text) =
                    (Arc::clone(&self.folder), state.path.clone(), says.clone());
                let is_first = state.written.is_empty();
                run_blocking(move || {
                    if is_first {
                        set_aside_foreign_state(&folder, &path)?;
                    }
                    folder.replace(&path, &text)
                })
                .await?;
                state.written = says;
            }
        }
        Ok(())
    }

    /// Appends the messages since the last known good position; starts at the beginning if the file was modified.
    async fn append_new_messages(&self) -> Result<WrittenPosition, FileSyncError> {
        let mut at = self.position;
        let (file, key) = self.open_channel_file().await?;
        let file = Arc::new(file);
        if at.key != Some(key) {
            let bytes = write_text_at(&file, 0, self.transcript.heading()).await?;
            at = WrittenPosition { last: Seq::default(), bytes, key: None };
        }
        while let Some(stretch) = self.transcript.next_chunk(at.last).await? {
            at.bytes += write_text_at(&file, at.bytes, stretch.text).await?;
            at.last = stretch.last;
        }
        at.key = Some(
            run_blocking(move || {
                truncate_to(&file, at.bytes).and_then(|()| FileStamp::of_file(&file))
            })
            .await?,
        );
        Ok(at)
    }

    /// Opens the channel file if it is unmodified or starts with our heading; sets any other file aside first.
    async fn open_channel_file(&self) -> io::Result<(std::fs::File, FileStamp)> {
        let (folder, transcript, left) =
            (Arc::clone(&self.folder), self.transcript.clone(), self.position.key);
        run_blocking(move || {
            let path = transcript.channel();
            loop {
                let (file, key) = folder.open_log(path)?;
                if left == Some(key) {
                    return Ok((file, key));
                }
                let mut beginning = [0; HEADING_PROBE_BYTES];
                let read = read_at(&file, &mut beginning, 0)?;
                if transcript.is_channel(&beginning[..read]) {
                    return Ok((file, key));
                }
                set_aside_with_warning(&folder, path)?;
            }
        })
        .await
    }
}

/// Sets aside a file at the path of a state file if its content is not a state file.
fn set_aside_foreign_state(folder: &Folder, path: &DocumentPath) -> io::Result<()> {
    match folder.stat_slot(path, Slot::File)? {
        SlotContent::Missing => return Ok(()),
        SlotContent::File(_) | SlotContent::NotAFile => {}
    }
    match folder.read(path, Slot::File)? {
        Some(there) if Transcript::is_state(&there.bytes) => Ok(()),
        Some(_) | None => set_aside_with_warning(folder, path),
    }
}

fn set_aside_with_warning(folder: &Folder, path: &DocumentPath) -> io::Result<()> {
    tracing::warn!(%path, "a foreign file is at the path of a channel file; setting it aside");
    folder.set_aside(path, Slot::File)
}

impl StateFile {
    fn new(path: &str) -> Result<Self, BadName> {
        Ok(Self { path: path.parse()?, written: String::new() })
    }
}

/// Writes `text` at `offset` from the first byte that differs; returns the length of `text`.
async fn write_text_at(file: &Arc<std::fs::File>, offset: u64, text: String) -> io::Result<u64> {
    let file = Arc::clone(file);
    run_blocking(move || {
        let text = text.as_bytes();
        let mut there = vec![0; text.len()];
        let read = read_at(&file, &mut there, offset)?;
        let same = there[..read].iter().zip(text).take_while(|(one, other)| one == other).count();
        let (from, rest) = (offset + to_u64(same), &text[same..]);
        if !rest.is_empty() {
            // Truncate first: a reader must never see old content after the new text.
            truncate_to(&file, from)?;
            file.write_all_at(rest, from)?;
        }
        Ok(to_u64(text.len()))
    })
    .await
}

/// Truncates a file to `at` bytes if it is longer.
fn truncate_to(file: &std::fs::File, at: u64) -> io::Result<()> {
    if file.metadata()?.len() > at { file.set_len(at) } else { Ok(()) }
}

fn read_at(file: &std::fs::File, there: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut read = 0;
    while read < there.len() {
        match file.read_at(&mut there[read..], offset + to_u64(read)) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

fn to_u64(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
