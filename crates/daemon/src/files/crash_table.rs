//! The file protocol, stopped before and after each step: a real store, a real folder, and a daemon that starts again.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use agent_worker_protocol::{DocumentPath, Revision};
use agent_worker_store::{
    AdminStore as _, DocumentBase, DocumentStore as _, DocumentWrite, WriteActor, WriteContext,
};

use super::{
    crash::{CrashPoint, CrashSwitch},
    file_copy::{FileCopy, NextCheck, SyncTarget},
    folder::Folder,
};
use crate::tests::fixture::DaemonFixture;

/// Every point that a write without a conflict passes.
const POINTS: [CrashPoint; 10] = [
    CrashPoint::TakeBegins,
    CrashPoint::Taken,
    CrashPoint::StageBegins,
    CrashPoint::StageWritten,
    CrashPoint::StageSynced,
    CrashPoint::StageRenamed,
    CrashPoint::IntentRecorded,
    CrashPoint::Exchanged,
    CrashPoint::FolderSynced,
    CrashPoint::Confirmed,
];
/// More comparisons than any document needs until nothing is left to do.
const MAX_COMPARISONS: usize = 50;

/// The way in which a program saves a file.
#[derive(Clone, Copy, Debug)]
enum SaveMethod {
    Append,
    TruncateAndWrite,
    TemporaryAndRename,
}

/// The time at which the person saves their second line.
#[derive(Clone, Copy, Debug)]
enum SaveTime {
    BeforeRestart,
    AfterRestart,
}

/// The time at which the person's program opened the file to save the second line.
#[derive(Clone, Copy, Debug)]
enum BufferState {
    /// Opened while the daemon still ran.
    Stale,
    /// Opened right before the save.
    Fresh,
}

/// A program that has the file open, or its text in a buffer.
enum Editor {
    Appending(fs::File),
    Buffered(SaveMethod, String),
}

impl Editor {
    fn open(file: &Path, save: SaveMethod) -> Self {
        match save {
            SaveMethod::Append => {
                Self::Appending(fs::OpenOptions::new().append(true).open(file).unwrap())
            }
            SaveMethod::TruncateAndWrite | SaveMethod::TemporaryAndRename => {
                Self::Buffered(save, fs::read_to_string(file).unwrap())
            }
        }
    }

    fn add(self, file: &Path, line: &str) {
        match self {
            Self::Appending(mut open) => writeln!(open, "{line}").unwrap(),
            Self::Buffered(SaveMethod::TemporaryAndRename, text) => {
                let temporary = file.with_extension("swap");
                fs::write(&temporary, format!("{text}{line}\n")).unwrap();
                fs::rename(&temporary, file).unwrap();
            }
            Self::Buffered(_, text) => fs::write(file, format!("{text}{line}\n")).unwrap(),
        }
    }
}

/// The end of a daemon's work on the document.
#[derive(Debug, PartialEq, Eq)]
enum SyncRunEnd {
    Idle,
    Crashed,
}

/// One document, its file, and the daemon that syncs it.
struct CrashCase<'a> {
    fixture: &'a DaemonFixture,
    path: DocumentPath,
}

impl<'a> CrashCase<'a> {
    /// Creates a document that is in its file, with another file in its out slot.
    async fn new(fixture: &'a DaemonFixture, number: usize) -> Self {
        let case = Self { fixture, path: format!("case-{number}.md").parse().unwrap() };
        for line in ["one\n", "two\n"] {
            case.append(line).await;
            assert_eq!(case.start_daemon().run().await, SyncRunEnd::Idle);
        }
        case
    }

    fn start_daemon(&self) -> CrashDaemon<'_> {
        let (project, names) = self.fixture.document_files.location();
        let folder = Folder::open(project, names).unwrap();
        CrashDaemon { case: self, folder: Arc::new(folder), copy: FileCopy::default() }
    }

    fn daemon_crashing_at(&self, point: CrashPoint) -> CrashDaemon<'_> {
        let mut daemon = self.start_daemon();
        Arc::get_mut(&mut daemon.folder).unwrap().crash = CrashSwitch::at(point);
        daemon
    }

    /// Appends a line as an agent does, until the write is acknowledged.
    async fn append(&self, content: &str) {
        self.write(content, DocumentBase::Append).await;
    }

    async fn write(&self, content: &str, base: DocumentBase) {
        let (workflow, path) = (self.fixture.document_files.workflow(), self.path.clone());
        let write =
            DocumentWrite { workflow, path, content: content.into(), base, max_bytes: 4096 };
        let by = WriteContext { actor: WriteActor::User, key: None };
        let now = self.fixture.store.now();
        self.fixture.store.document_put(by, write, now).await.unwrap();
    }

    async fn newest_revision(&self) -> (Revision, String) {
        let (workflow, path) = (self.fixture.document_files.workflow(), self.path.clone());
        let found = self.fixture.store.document_get(workflow, path, None).await.unwrap().unwrap();
        (found.info.revision, found.content)
    }

    fn file(&self) -> PathBuf {
        let (project, names) = self.fixture.document_files.location();
        project.join(names.join("/")).join(self.path.as_str())
    }

    fn conflict_file(&self) -> PathBuf {
        self.file().with_file_name(format!("{}.conflict", self.path))
    }

    /// Asserts that the document contains every line once and that its file has the same text.
    async fn assert_lines(&self, lines: &[&str], what: &str) {
        let text = self.newest_revision().await.1;
        let mut found: Vec<_> = text.lines().collect();
        found.sort_unstable();
        assert_eq!(found, lines, "{what}");
        assert_eq!(fs::read_to_string(self.file()).unwrap(), text, "{what}");
        assert!(!self.conflict_file().exists(), "{what}: nothing conflicts");
    }
}

/// The state of a running daemon for the document.
struct CrashDaemon<'a> {
    case: &'a CrashCase<'a>,
    folder: Arc<Folder>,
    copy: FileCopy,
}

impl CrashDaemon<'_> {
    async fn compare(&mut self) -> Result<NextCheck, SyncRunEnd> {
        let (documents, path) = (&self.case.fixture.document_files, &self.case.path);
        let at = SyncTarget { documents, folder: &self.folder, path };
        let head = self.case.newest_revision().await.0;
        match self.copy.sync(&at, Some(head)).await {
            Err(_) if self.folder.crash.has_crashed() => Err(SyncRunEnd::Crashed),
            next => Ok(next.unwrap()),
        }
    }

    /// Compares until no work is left.
    async fn run(mut self) -> SyncRunEnd {
        for _ in 0..MAX_COMPARISONS {
            match self.compare().await {
                Ok(NextCheck::Idle) => return SyncRunEnd::Idle,
                Ok(NextCheck::After(pause)) => tokio::time::sleep(pause).await,
                Err(end) => return end,
            }
        }
        panic!("{} never comes to rest", self.case.path);
    }
}

/// Lets a person save a line and an agent append one, kills the daemon at `point`, and repeats both.
async fn run_killed_at(
    case: &CrashCase<'_>,
    point: CrashPoint,
    (save, moment, buffer): (SaveMethod, SaveTime, BufferState),
) {
    let file = case.file();
    Editor::open(&file, save).add(&file, "person 1");
    let stale = Editor::open(&file, save);
    case.append("agent 1\n").await;
    assert_eq!(
        case.daemon_crashing_at(point).run().await,
        SyncRunEnd::Crashed,
        "{point:?} is passed"
    );
    let add_second = || {
        let editor = match buffer {
            BufferState::Stale => stale,
            BufferState::Fresh => Editor::open(&file, save),
        };
        editor.add(&file, "person 2");
    };
    let mut daemon = match moment {
        SaveTime::BeforeRestart => {
            add_second();
            case.start_daemon()
        }
        SaveTime::AfterRestart => {
            let mut daemon = case.start_daemon();
            daemon.compare().await.unwrap();
            add_second();
            daemon
        }
    };
    daemon.compare().await.unwrap();
    case.append("agent 2\n").await;
    assert_eq!(daemon.run().await, SyncRunEnd::Idle);
}

#[tokio::test]
async fn every_line_is_there_once_wherever_the_daemon_is_killed_and_however_a_person_saves() {
    let fixture = DaemonFixture::open().await;
    tokio::time::pause();
    let mut number = 0;
    for point in POINTS {
        for save in
            [SaveMethod::Append, SaveMethod::TruncateAndWrite, SaveMethod::TemporaryAndRename]
        {
            for moment in [SaveTime::BeforeRestart, SaveTime::AfterRestart] {
                for buffer in [BufferState::Fresh, BufferState::Stale] {
                    number += 1;
                    let case = CrashCase::new(&fixture, number).await;
                    run_killed_at(&case, point, (save, moment, buffer)).await;
                    let lines = ["agent 1", "agent 2", "one", "person 1", "person 2", "two"];
                    let what = format!("{number}: {point:?} {save:?} {moment:?} {buffer:?}");
                    case.assert_lines(&lines, &what).await;
                }
            }
        }
    }
    assert_eq!(number, 120);
}

#[tokio::test]
async fn a_text_that_cannot_be_merged_is_set_aside_once_wherever_the_daemon_is_killed() {
    let fixture = DaemonFixture::open().await;
    tokio::time::pause();
    let points = [CrashPoint::TakeBegins, CrashPoint::Taken, CrashPoint::AsideRenamed];
    for (number, point) in points.into_iter().enumerate() {
        for (kind, theirs) in [(0, &b"person\n"[..]), (1, b"\xff\xfe")] {
            let case = CrashCase::new(&fixture, number * 2 + kind).await;
            case.write("agent\n", DocumentBase::Revision(Revision::new(2))).await;
            fs::write(case.file(), theirs).unwrap();
            assert_eq!(case.daemon_crashing_at(point).run().await, SyncRunEnd::Crashed);
            assert_eq!(case.start_daemon().run().await, SyncRunEnd::Idle);
            let what = format!("{point:?} {theirs:?}");
            assert_eq!(fs::read(case.conflict_file()).unwrap(), theirs, "{what}");
            let again = case.file().with_file_name(format!("{}.2.conflict", case.path));
            assert!(!again.exists(), "{what}: one file is enough");
            let (revision, text) = case.newest_revision().await;
            assert_eq!(text, "agent\n", "{what}");
            let revisions = [5, 3][kind];
            assert_eq!(revision.get(), revisions, "{what}: the text was taken once");
            assert_eq!(fs::read_to_string(case.file()).unwrap(), text, "{what}");
        }
    }
}

#[tokio::test]
async fn without_the_out_slot_a_persons_text_is_set_aside_and_nothing_is_merged() {
    let fixture = DaemonFixture::open().await;
    tokio::time::pause();
    for (number, save) in [None, Some("person\n")].into_iter().enumerate() {
        let case = CrashCase::new(&fixture, number).await;
        case.append("agent\n").await;
        assert_eq!(case.daemon_crashing_at(CrashPoint::Exchanged).run().await, SyncRunEnd::Crashed);
        let out = case.file().with_file_name(format!(".{}.out", case.path));
        fs::remove_file(out).unwrap();
        if let Some(text) = save {
            fs::write(case.file(), text).unwrap();
        }
        assert_eq!(case.start_daemon().run().await, SyncRunEnd::Idle);
        assert_eq!(case.newest_revision().await.1, "one\ntwo\nagent\n", "{save:?}");
        assert_eq!(fs::read_to_string(case.file()).unwrap(), "one\ntwo\nagent\n", "{save:?}");
        let aside = fs::read_to_string(case.conflict_file()).ok();
        assert_eq!(aside.as_deref(), save, "{save:?}");
    }
}
