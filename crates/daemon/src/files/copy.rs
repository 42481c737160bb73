//! One document and its file: told apart is what we put there from what a person wrote; theirs is taken, then the newest
//! revision is put in its place.

use std::{sync::Arc, time::Duration};

use agent_worker_kernel::{Found, Shelf, Taken};
use agent_worker_protocol::{DocumentPath, Hash, Millis, Revision, hash};
use tokio::time::Instant;

use super::{
    Trouble, blocking,
    folder::{Access, Folder, Key, Seen, Slot, Text},
};

/// What a person writes is taken once it has stood still so long.
const STILL: Duration = Duration::from_millis(300);
/// What never stands still is taken out of the way after so long: it comes to rest where nobody opens it.
const RESTLESS: Duration = Duration::from_secs(2);
/// So many revisions are recognised.
const MOST_PUT: usize = 64;

/// When to look again though nothing stirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Next {
    In(Duration),
    Rest,
}

/// What is known of one document's file.
#[derive(Default)]
pub(super) struct Copy {
    /// What was put there of late, oldest first.
    put: Vec<Put>,
    taken: Vec<Hash>,
    file: Side,
    out: Side,
    exchanged: Option<Instant>,
    /// An earlier keeper meant to set its text aside.
    pub(super) aside_due: bool,
}

struct Put {
    revision: Revision,
    at: Millis,
    hash: Hash,
}

/// What is known of one of its two files.
#[derive(Default)]
struct Side {
    /// As it stood when everything in it was in the store, and which revision it was.
    settled: Option<(Key, Option<Revision>)>,
    /// What was seen since when, and is not settled.
    noticed: Option<(Seen, Instant)>,
    /// Since when it has been other than settled.
    restless: Option<Instant>,
}

/// How one of the files stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    Missing,
    /// Everything in it is in the store; if it is a revision, which.
    Settled(Option<Revision>),
    /// Somebody wrote; ask again then.
    Moving(Duration),
    /// Something came of it: look at everything anew.
    Moved,
    /// Not a file.
    Strange,
}

impl Copy {
    pub(super) fn new(taken: Vec<Hash>) -> Self {
        Self { taken, ..Self::default() }
    }

    /// A revision is, or may be, in the file.
    pub(super) fn remember(&mut self, revision: Revision, at: Millis, text: &str) {
        self.put.retain(|put| put.revision != revision);
        self.put.push(Put { revision, at, hash: hash(&[text.as_bytes()]) });
        let surplus = self.put.len().saturating_sub(MOST_PUT);
        self.put.drain(..surplus);
    }

    /// Brings file and document together as far as that can be done now.
    pub(super) async fn tend(
        &mut self,
        documents: &Shelf,
        folder: &Arc<Folder>,
        path: &DocumentPath,
        head: Option<Revision>,
    ) -> Result<Next, Trouble> {
        match self.settle(documents, folder, path, Slot::Out).await? {
            Stand::Moving(pause) => return Ok(Next::In(pause)),
            Stand::Moved => return Ok(Next::In(Duration::ZERO)),
            Stand::Missing | Stand::Settled(_) | Stand::Strange => {}
        }
        let stand = self.settle(documents, folder, path, Slot::File).await?;
        let Some(head) = head else {
            return Ok(match stand {
                Stand::Moving(pause) => Next::In(pause),
                Stand::Moved => Next::In(Duration::ZERO),
                Stand::Missing | Stand::Settled(_) | Stand::Strange => Next::Rest,
            });
        };
        match stand {
            Stand::Settled(Some(there)) if there == head => return Ok(Next::Rest),
            Stand::Strange => return Ok(Next::Rest),
            Stand::Moved => return Ok(Next::In(Duration::ZERO)),
            Stand::Moving(pause) => {
                let restless = self.file.restless.is_some_and(|since| since.elapsed() > RESTLESS);
                if !restless {
                    return Ok(Next::In(pause));
                }
            }
            Stand::Settled(_) | Stand::Missing => {}
        }
        // What came out last must have come to rest before it is let go.
        if let Some(left) = self.exchanged.and_then(|at| STILL.checked_sub(at.elapsed())) {
            return Ok(Next::In(left));
        }
        self.put(documents, folder, path, head).await?;
        Ok(Next::In(Duration::ZERO))
    }

    async fn put(
        &mut self,
        documents: &Shelf,
        folder: &Arc<Folder>,
        path: &DocumentPath,
        head: Revision,
    ) -> Result<(), Trouble> {
        let text = documents.text(path, head).await?;
        let at = documents.putting(path, head).await?;
        self.remember(head, at, &text);
        let before = self.file.settled.take();
        let (inside, file) = (Arc::clone(folder), path.clone());
        let key = blocking(move || inside.put(&file, &text, Access::Edit)).await?;
        self.exchanged = Some(Instant::now());
        self.file = Side { settled: Some((key, Some(head))), ..Side::default() };
        // What came out is what was settled, or somebody wrote in between: then it is looked at as anything new.
        self.out = Side { settled: before, ..Side::default() };
        Ok(())
    }

    /// Sees to it that everything in a file is in the store.
    async fn settle(
        &mut self,
        documents: &Shelf,
        folder: &Arc<Folder>,
        path: &DocumentPath,
        slot: Slot,
    ) -> Result<Stand, Trouble> {
        let seen = folder.look(path, slot)?;
        let has_been = !self.put.is_empty();
        let aside_due = self.aside_due;
        let side = self.side(slot);
        let key = match seen {
            Seen::File(key) => key,
            Seen::Strange => return Ok(Stand::Strange),
            // An editor may have taken it away to put another there.
            Seen::Nothing if slot == Slot::File && has_been => {
                return Ok(side.still(seen).map_or(Stand::Missing, Stand::Moving));
            }
            Seen::Nothing => return Ok(Stand::Missing),
        };
        if let Some((settled, revision)) = side.settled
            && settled == key
        {
            side.noticed = None;
            side.restless = None;
            return Ok(Stand::Settled(revision));
        }
        side.restless.get_or_insert_with(Instant::now);
        let moving = side.still(seen);
        let (inside, file) = (Arc::clone(folder), path.clone());
        let Some(text) = blocking(move || inside.read(&file, slot)).await? else {
            return Ok(Stand::Moving(STILL));
        };
        let (revision, mark) = (self.own(&text), mark(&text));
        if revision.is_some() || self.taken.contains(&mark) {
            if revision.is_none() && aside_due {
                return self.set_aside(folder, path, slot).await;
            }
            self.side(slot).settled = Some((text.key, revision));
            return Ok(Stand::Settled(revision));
        }
        match moving {
            Some(pause) => Ok(Stand::Moving(pause)),
            None if text.key != key => Ok(Stand::Moving(STILL)),
            None => self.take(documents, folder, path, slot, &text).await,
        }
    }

    /// The revision a text is, if it can be one that we put there: an old one saved again later is a person's doing.
    fn own(&self, text: &Text) -> Option<Revision> {
        let hash = hash(&[&text.bytes]);
        let recent = agent_worker_kernel::candidates(&self.history(), saved(text.key));
        let own = |put: &&Put| put.hash == hash && recent.contains(&put.revision);
        self.put.iter().rev().find(own).map(|put| put.revision)
    }

    fn history(&self) -> Vec<(Revision, Millis)> {
        self.put.iter().map(|put| (put.revision, put.at)).collect()
    }

    async fn take(
        &mut self,
        documents: &Shelf,
        folder: &Arc<Folder>,
        path: &DocumentPath,
        slot: Slot,
        text: &Text,
    ) -> Result<Stand, Trouble> {
        let found = Found { text: readable(text), saved: saved(text.key), mark: mark(text) };
        let taken = documents.take(path, &found, &self.history()).await?;
        self.taken.push(found.mark);
        match taken {
            Taken::In => {
                let side = self.side(slot);
                *side = Side { settled: Some((text.key, None)), ..Side::default() };
                Ok(Stand::Moved)
            }
            Taken::Aside => self.set_aside(folder, path, slot).await,
        }
    }

    async fn set_aside(
        &mut self,
        folder: &Arc<Folder>,
        path: &DocumentPath,
        slot: Slot,
    ) -> Result<Stand, Trouble> {
        let (inside, file) = (Arc::clone(folder), path.clone());
        blocking(move || inside.set_aside(&file, slot)).await?;
        self.aside_due = false;
        *self.side(slot) = Side::default();
        Ok(Stand::Moved)
    }

    fn side(&mut self, slot: Slot) -> &mut Side {
        match slot {
            Slot::File => &mut self.file,
            Slot::Out => &mut self.out,
        }
    }
}

impl Side {
    /// Nothing, if it has stood as it is long enough; else how long it is to be watched yet.
    fn still(&mut self, seen: Seen) -> Option<Duration> {
        let since = match self.noticed {
            Some((before, since)) if before == seen => since,
            Some(_) | None => {
                let now = Instant::now();
                self.noticed = Some((seen, now));
                now
            }
        };
        STILL.checked_sub(since.elapsed()).filter(|left| !left.is_zero())
    }
}

/// Which file, when it was saved, and what it says: the same text saved again is another.
fn mark(text: &Text) -> Hash {
    let Key { ino, mtime: (seconds, nanos), .. } = text.key;
    hash(&[&ino.to_be_bytes(), &seconds.to_be_bytes(), &nanos.to_be_bytes(), &text.bytes])
}

fn saved(key: Key) -> Millis {
    let (seconds, nanos) = key.mtime;
    Millis::new(seconds.saturating_mul(1_000).saturating_add(nanos / 1_000_000))
}

fn readable(text: &Text) -> Result<String, String> {
    if !text.is_whole {
        return Err(format!("the file has {} bytes, more than a document holds", text.key.size));
    }
    String::from_utf8(text.bytes.clone()).map_err(|_| "the file is not UTF-8 text".to_owned())
}
