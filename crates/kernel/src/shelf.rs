//! What of a run is kept as files, and its documents among it: what the daemon that keeps the files asks and tells. Not here: files.

use std::path::PathBuf;

use agent_worker_protocol::{DocumentPath, Hash, Millis, Revision, RunId, WorkflowId};
use agent_worker_store::{
    Change, Document, Error as StoreError, FileMemory, FileTake, Store, TakeOutcome,
};
use agent_worker_workflow::Documents;

use crate::{
    documents::{DOCUMENT, is_decisions},
    error::Result,
    kernel::{Card, Kernel},
    merge::{self, Merged},
    transcript::Transcript,
};

/// Who saves a file has read it at most so long ago; longer ago, they knew what they were taking away.
const GLANCE: i64 = 3_000;
/// A document's text that could not be merged lies beside it under this ending.
pub const CONFLICT: &str = ".conflict";

/// The documents of one live run, for whoever keeps them as files.
#[derive(Clone)]
pub struct Shelf {
    kernel: Kernel,
    run: RunId,
    workflow: WorkflowId,
    project: PathBuf,
    folder: Vec<String>,
}

/// What of a run is kept as files.
#[derive(Clone)]
pub struct Files {
    /// Whose.
    pub run: RunId,
    /// Its documents, unless the store alone has them.
    pub shelf: Option<Shelf>,
    /// Its channel, with `provider: file`.
    pub transcript: Option<Transcript>,
}

impl Files {
    /// What of a run is kept as files, if anything is.
    pub(crate) fn of(kernel: &Kernel, card: &Card) -> Option<Self> {
        let (shelf, transcript) = (Shelf::of(kernel, card), Transcript::of(kernel, card));
        let any = shelf.is_some() || transcript.is_some();
        any.then_some(Self { run: card.run, shelf, transcript })
    }
}

/// What became of a person's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is in the document.
    In,
    /// It is to be set aside.
    Aside,
}

/// How far a run is, for files that follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// More may come.
    Live,
    /// Nothing more comes.
    Over,
    /// It was deleted, and its files are nobody's.
    Deleted,
}

impl Kernel {
    pub(crate) async fn stage(&self, run: RunId) -> Result<Stage> {
        match self.store.run_get(run).await {
            Ok(row) if row.state.is_live() => Ok(Stage::Live),
            Ok(_) => Ok(Stage::Over),
            Err(StoreError::NotFound(_)) => Ok(Stage::Deleted),
            Err(error) => Err(error.into()),
        }
    }
}

impl Shelf {
    /// The shelf of a run that keeps its documents as files.
    fn of(kernel: &Kernel, card: &Card) -> Option<Self> {
        let context = &card.script.workflow.context;
        match context.documents {
            Documents::File => {}
            Documents::Store | Documents::Off => return None,
        }
        Some(Self {
            kernel: kernel.clone(),
            run: card.run,
            workflow: card.workflow,
            project: PathBuf::from(&card.project),
            folder: context.layout.document_folder(&card.instance.name, &card.instance.tag),
        })
    }

    /// The project, and the folders beneath it, each in the one before.
    pub fn place(&self) -> (&PathBuf, &[String]) {
        (&self.project, &self.folder)
    }

    /// Whose documents.
    pub fn workflow(&self) -> WorkflowId {
        self.workflow
    }

    /// Waits until something of the instance has changed. A hint.
    pub async fn changed(&self, seen: Change) -> Change {
        self.store().change_wait(self.workflow, seen).await
    }

    /// How far the run is.
    pub async fn stage(&self) -> Result<Stage> {
        self.kernel.stage(self.run).await
    }

    /// The newest revision of every document.
    pub async fn heads(&self) -> Result<Vec<(DocumentPath, Revision)>> {
        let list = self.store().document_list(self.workflow).await?;
        Ok(list.into_iter().map(|info| (info.path, info.revision)).collect())
    }

    /// How many votes were ever over: while that is the same, so is what was decided.
    pub async fn ended(&self) -> Result<u64> {
        Ok(self.store().proposal_ended(self.workflow).await?)
    }

    /// What was decided, as the file of it holds it; none while nothing was. What it once held is how it begins.
    pub async fn decisions(&self) -> Result<Option<String>> {
        let decisions = self.kernel.decisions_md(self.workflow).await?;
        Ok(decisions.last.map(|_| decisions.content))
    }

    /// What earlier keepers of these files remembered.
    pub async fn memories(&self) -> Result<Vec<FileMemory>> {
        Ok(self.store().file_list(self.workflow).await?)
    }

    /// What a revision says.
    pub async fn text(&self, path: &DocumentPath, revision: Revision) -> Result<String> {
        let found = self.store().document_get(self.workflow, path.clone(), Some(revision)).await?;
        Ok(found.ok_or(StoreError::NotFound("document"))?.content)
    }

    /// Says that a revision is about to be put into its file. Answers with when that was noted.
    pub async fn putting(&self, path: &DocumentPath, revision: Revision) -> Result<Millis> {
        let now = self.kernel.now().wall;
        let since = Millis::new(now.get() - GLANCE);
        self.store().file_put(self.workflow, path.clone(), revision, since, now).await?;
        Ok(now)
    }

    /// Takes what a person wrote, found at `saved`, into the document. `put` is what its file held of late.
    pub async fn take(
        &self,
        path: &DocumentPath,
        found: &Found,
        put: &[(Revision, Millis)],
    ) -> Result<Taken> {
        loop {
            let head = self.store().document_get(self.workflow, path.clone(), None).await?;
            let outcome = match &found.text {
                _ if is_decisions(path) => {
                    TakeOutcome::Refused { why: "what was decided is changed by a vote".to_owned() }
                }
                Err(why) => TakeOutcome::Refused { why: why.clone() },
                Ok(text) => self.held_against(path, text, head.as_ref(), found.saved, put).await?,
            };
            let taken = match outcome {
                TakeOutcome::Same | TakeOutcome::Merged { .. } => Taken::In,
                TakeOutcome::Conflict { .. } | TakeOutcome::Refused { .. } => Taken::Aside,
            };
            let head = head.map(|document| document.info.revision);
            let (workflow, path, mark) = (self.workflow, path.clone(), found.mark);
            let take = FileTake { workflow, path, mark, head, outcome };
            match self.store().file_take(take, self.kernel.now()).await {
                // Somebody wrote meanwhile: it is held against that.
                Err(StoreError::StaleRevision(_)) => {}
                other => return other.map(|_| taken).map_err(Into::into),
            }
        }
    }

    async fn held_against(
        &self,
        path: &DocumentPath,
        text: &str,
        head: Option<&Document>,
        saved: Millis,
        put: &[(Revision, Millis)],
    ) -> Result<TakeOutcome> {
        let Some(head) = head else {
            return Ok(TakeOutcome::Merged { content: text.to_owned(), removed: 0 });
        };
        let mut bases = Vec::new();
        for revision in candidates(put, saved) {
            bases.push(self.text(path, revision).await?);
        }
        let (text, head) = (text.to_owned(), head.content.clone());
        // It takes a while when they are long.
        let weigh = tokio::task::spawn_blocking(move || weigh(&bases, &head, text)).await;
        Ok(weigh.map_err(|_| StoreError::Closed)?)
    }

    /// The documents whose file lies aside because it could not be merged.
    pub async fn conflicts(&self) -> Result<Vec<DocumentPath>> {
        let list = self.store().conflict_list(self.workflow).await?;
        Ok(list.into_iter().map(|conflict| conflict.path).collect())
    }

    /// Somebody has put it away.
    pub async fn conflict_close(&self, path: &DocumentPath) -> Result<()> {
        Ok(self.store().conflict_close(self.workflow, path.clone()).await?)
    }

    fn store(&self) -> &dyn Store {
        &*self.kernel.store
    }
}

/// What was found in a file.
#[derive(Clone, Debug)]
pub struct Found {
    /// The text; else why it is none.
    pub text: Result<String, String>,
    /// When it was saved.
    pub saved: Millis,
    /// Which file, when, and what, in one.
    pub mark: Hash,
}

/// The revisions whoever saved a file at `saved` may have read: those not replaced long before, oldest first.
pub fn candidates(put: &[(Revision, Millis)], saved: Millis) -> Vec<Revision> {
    let replaced = put.iter().skip(1).map(|(_, at)| Some(*at)).chain([None]);
    put.iter()
        .zip(replaced)
        .filter(|(_, replaced)| replaced.is_none_or(|at| at.get() >= saved.get() - GLANCE))
        .map(|((revision, _), _)| *revision)
        .collect()
}

/// What becomes of a person's text: made from the base it is nearest to, the newest of equals.
fn weigh(bases: &[String], head: &str, text: String) -> TakeOutcome {
    let base = bases.iter().rev().min_by_key(|base| merge::distance(base, &text));
    let base = base.map_or("", String::as_str);
    if base == text {
        return TakeOutcome::Same;
    }
    let Merged { text: merged, removed, has_conflict } = merge::merge(base, head, &text);
    if merged.len() > DOCUMENT {
        let why =
            format!("the document would have {} bytes; {DOCUMENT} are the most", merged.len());
        return TakeOutcome::Conflict { content: text, stays: head.to_owned(), why };
    }
    match (has_conflict, merged == head) {
        (true, _) => {
            let why = "an agent and the file changed the same lines".to_owned();
            TakeOutcome::Conflict { content: text, stays: merged, why }
        }
        (false, true) => TakeOutcome::Same,
        (false, false) => TakeOutcome::Merged { content: merged, removed },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_is_held_against_what_could_have_been_read() {
        let put = [(1, 1_000), (2, 5_000), (3, 9_000)];
        let put = put.map(|(revision, at)| (Revision::new(revision), Millis::new(at)));
        for (saved, expected) in [
            (9_500, &[2, 3][..]),
            (12_000, &[2, 3][..]),
            (12_001, &[3][..]),
            (8_000, &[1, 2, 3][..]),
            (0, &[1, 2, 3][..]),
        ] {
            let found = candidates(&put, Millis::new(saved));
            let found: Vec<_> = found.into_iter().map(Revision::get).collect();
            assert_eq!(found, expected, "{saved}");
        }
        assert_eq!(candidates(&[], Millis::new(1)), []);
    }

    #[test]
    fn a_text_becomes_what_its_nearest_base_makes_of_it() {
        let merged =
            |content: &str, removed| TakeOutcome::Merged { content: content.into(), removed };
        let bases =
            |bases: &[&str]| bases.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        for (of, head, text, expected) in [
            // A save that crossed a projection: the line that came meanwhile stays.
            (bases(&["a\n", "a\nb\n"]), "a\nb\n", "A\n", merged("A\nb\n", 1)),
            // Our own text, not yet replaced.
            (bases(&["a\n", "a\nb\n"]), "a\nb\nc\n", "a\n", TakeOutcome::Same),
            // Saved long after: what is not there was taken away.
            (bases(&["a\nb\n"]), "a\nb\nc\n", "a\n", merged("a\nc\n", 1)),
            (bases(&[]), "a\n", "b\n", merged("a\nb\n", 0)),
        ] {
            assert_eq!(weigh(&of, head, text.to_owned()), expected, "{text:?}");
        }
        let conflict = weigh(&bases(&["a\n"]), "b\n", "c\n".to_owned());
        assert!(matches!(conflict, TakeOutcome::Conflict { content, .. } if content == "c\n"));
    }
}
