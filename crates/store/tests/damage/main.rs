//! Bytes that change on the disk: the store never returns them as data, reports every damaged row that it meets, and
//! loses no other row.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod contents;
#[path = "../conformance/rules.rs"]
mod rules;
#[expect(dead_code, reason = "the conformance suite uses the rest")]
#[path = "../conformance/team.rs"]
mod team;

use std::{fs, os::unix::fs::FileExt, path::Path, sync::Arc};

use agent_worker_store::{
    AttemptKey, Database, Error, IntegrityReport, ListRange, ProposalQuery, Store, observe_damage,
};
use contents::{FilledStore, LARGE, RowsByLabel, SMALL, fill_store, read_everything};
use rusqlite::{Connection, types::Value};
use tempfile::TempDir;

const DATABASE: &str = "agent-worker.db";

/// Every column with a checksum; for rows that need more than one read to be found, only the columns behind the key.
const COLUMNS: [(&str, &[&str]); 15] = [
    ("run", &["uuid", "mode", "keep", "started", "after_seq", "script", "limits"]),
    ("message", &["seq", "run", "sender", "kind", "body", "hops", "priority", "ts", "attachments"]),
    (
        "attempt",
        &[
            "id",
            "oldest",
            "number",
            "setbacks",
            "shown",
            "started",
            "finished",
            "how",
            "answer",
            "after_seq",
        ],
    ),
    ("effect", &["args", "tool", "result", "position", "at"]),
    (
        "event",
        &["position", "run", "kind", "agent", "attempt", "seq", "cause", "whose", "data", "at"],
    ),
    ("document", &["revision", "author", "bytes", "at", "content", "content_hash"]),
    ("resource", &["kind", "bytes", "at", "content", "blocks"]),
    ("proposal", &["run", "creator", "created", "deadline", "hops", "terms", "state", "ended"]),
    ("ballot", &["voter", "choice", "reason", "at"]),
    ("question", &["agent", "question", "options", "asked", "answer"]),
    ("approval", &["tool", "args", "hash", "asked", "answer", "reason", "whose"]),
    ("permission_grant", &["agent", "pattern", "approval", "whose", "granted"]),
    ("suggestion", &["path", "author", "body", "new", "state", "reason", "at"]),
    ("verdict", &["outcome", "summary", "agent", "at"]),
    ("task", &["path", "item", "state", "attempts", "output", "exit_code", "started", "ended"]),
];

fn open(folder: &Path) -> (Database, Arc<dyn Store>) {
    let store = Database::open(folder).unwrap();
    (store.clone(), Arc::new(store))
}

fn raw(folder: &Path) -> Connection {
    #[expect(clippy::disallowed_methods, reason = "the disk does not go through the store either")]
    Connection::open(folder.join(DATABASE)).unwrap()
}

/// Makes a folder with every kind of row; returns also the rows that are read from it.
async fn filled_folder(resource: usize) -> (TempDir, FilledStore, RowsByLabel) {
    let folder = tempfile::tempdir().unwrap();
    let (store, handle) = open(folder.path());
    let written = fill_store(&handle, resource).await;
    let (everything, errors) = read_everything(&handle, &written).await;
    assert!(errors.is_empty(), "{errors:?}");
    let sound = handle.integrity_check().await.unwrap();
    assert_eq!((sound.problems.len(), sound.damaged.len(), sound.unhashed), (0, 0, 0), "{sound:?}");
    drop(handle);
    store.close().await;
    (folder, written, everything)
}

/// Copies the folder.
fn copy(folder: &Path) -> TempDir {
    fn all(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let to = to.join(entry.file_name());
            if entry.path().is_dir() {
                all(&entry.path(), &to);
            } else {
                fs::copy(entry.path(), to).unwrap();
            }
        }
    }
    let copy = tempfile::tempdir().unwrap();
    all(folder, copy.path());
    copy
}

/// Flips one bit in the middle of a value.
fn flip_bit(value: Value) -> Value {
    let in_the_middle = |mut bytes: Vec<u8>| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        bytes
    };
    match value {
        Value::Integer(number) => Value::Integer(number ^ 1),
        Value::Text(text) => Value::Text(String::from_utf8(in_the_middle(text.into())).unwrap()),
        Value::Blob(blob) => Value::Blob(in_the_middle(blob)),
        other @ (Value::Null | Value::Real(_)) => panic!("{other:?}"),
    }
}

/// Flips a bit of the column in the last row that has it; fails if there is none.
fn flip_column(folder: &Path, table: &str, column: &str) {
    let db = raw(folder);
    let last = format!("{column} IS NOT NULL AND length({column}) > 0 ORDER BY checksum LIMIT 1");
    let (checksum, value): (Vec<u8>, Value) = db
        .query_row(&format!("SELECT checksum, {column} FROM {table} WHERE {last}"), [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    let changed = db
        .execute(
            &format!("UPDATE OR REPLACE {table} SET {column} = ?2 WHERE checksum = ?1"),
            (checksum, flip_bit(value)),
        )
        .unwrap();
    assert_eq!(changed, 1);
}

/// The cause of an event whose message cannot be read.
const MISSING_MESSAGE_NOTE: &str = "its message is missing or damaged";

/// Returns the row without the attempt that wrote it, and without the links that an answer has through its attempt.
fn without_attempt(row: &str) -> String {
    let row = match row.split_once("attempt: Some(AttemptId(") {
        Some((start, rest)) => {
            format!("{start}attempt: None{}", &rest[rest.find("))").unwrap() + 2..])
        }
        None => row.to_owned(),
    };
    match row.split_once("acts_on: [") {
        Some((start, rest)) => format!("{start}acts_on: [{}", &rest[rest.find(']').unwrap()..]),
        None => row,
    }
}

/// Returns the rows that differ from the written ones.
fn wrong_rows(now: &RowsByLabel, before: &RowsByLabel) -> Vec<String> {
    let differs = |(label, row): (&String, &String)| {
        let is_same = before.get(label) == Some(row)
            || row == "None"
            || row.contains(MISSING_MESSAGE_NOTE)
            || row.contains("RowDamaged");
        // A damaged attempt is not named as the author of an intact row, and links no answer to its questions.
        let is_same = is_same
            || before.get(label).map(|row| without_attempt(row)) == Some(without_attempt(row));
        (!is_same).then(|| format!("{label}: {row}"))
    };
    now.iter().filter_map(differs).collect()
}

#[tokio::test]
async fn a_flipped_byte_is_an_error_that_names_the_row_and_everything_else_is_read() {
    let (folder, written, before) = filled_folder(SMALL).await;
    for (table, columns) in COLUMNS {
        for column in columns {
            let case = format!("{table}.{column}");
            let damaged = copy(folder.path());
            flip_column(damaged.path(), table, column);
            let (store, handle) = open(damaged.path());
            let ((now, errors), observed) =
                observe_damage(read_everything(&handle, &written)).await;
            assert_eq!(wrong_rows(&now, &before), Vec::<String>::new(), "{case} was served");
            // A row whose key changed is not found by its key; a list meets it.
            let is_named =
                |error: &&Error| !matches!(error, Error::Damaged(_) | Error::NotFound(_));
            let other = errors.iter().find(is_named);
            assert!(other.is_none(), "{case}: {other:?}");
            assert!(observed.iter().any(|row| row.table == table), "{case}: {observed:?}");
            assert_eq!(handle.damage_list().await.unwrap(), observed, "{case}");
            let lost: Vec<_> = before.keys().filter(|label| !now.contains_key(*label)).collect();
            // The id of a run is in every row of the run.
            assert!(
                lost.len() <= 9 || case == "run.uuid",
                "{case}: {} are lost: {lost:?}",
                lost.len()
            );
            let IntegrityReport { damaged, .. } = handle.integrity_check().await.unwrap();
            assert!(damaged.iter().any(|row| row.table == table), "{case}: {damaged:?}");
            assert_eq!(handle.damage_list().await.unwrap(), damaged, "{case}");
            drop(handle);
            store.close().await;
        }
    }
}

#[tokio::test]
async fn a_damaged_or_missing_file_of_a_resource_is_found_by_every_read_that_touches_it() {
    let (folder, written, before) = filled_folder(LARGE).await;
    let file = |folder: &Path| {
        let files = fs::read_dir(folder.join(format!("resources/{}", written.workflow))).unwrap();
        files.map(|file| file.unwrap().path()).next().unwrap()
    };
    for (case, change, lost) in [
        ("a byte in the first block", Some(30), 3),
        ("a byte in the third block", Some(140_000), 2),
        ("no file", None, 4),
    ] {
        let damaged = copy(folder.path());
        let path = file(damaged.path());
        match change {
            Some(place) => {
                let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
                file.write_all_at(b"!", place).unwrap();
            }
            None => fs::remove_file(&path).unwrap(),
        }
        let (store, handle) = open(damaged.path());
        let (now, errors) = read_everything(&handle, &written).await;
        assert_eq!(wrong_rows(&now, &before), Vec::<String>::new(), "{case}");
        assert!(
            errors
                .iter()
                .all(|error| matches!(error, Error::Damaged(row) if row.table == "resource"))
        );
        assert_eq!((errors.len(), before.len() - now.len()), (lost, lost), "{case}: {errors:?}");
        assert_eq!(handle.integrity_check().await.unwrap().damaged.len(), 1, "{case}");
        drop(handle);
        store.close().await;
    }
}

#[tokio::test]
async fn rows_of_an_earlier_version_are_read_and_counted() {
    let (folder, written, before) = filled_folder(SMALL).await;
    let db = raw(folder.path());
    let mut rows = 0;
    // A grant and a task always have a checksum.
    let always = ["permission_grant", "task"];
    for (table, _) in COLUMNS.iter().filter(|(table, _)| !always.contains(table)) {
        rows += db.execute(&format!("UPDATE {table} SET checksum = NULL"), []).unwrap();
    }
    db.execute("UPDATE document SET content_hash = NULL", []).unwrap();
    db.execute("UPDATE resource SET blocks = NULL", []).unwrap();
    let messages: u32 = db.query_row("SELECT count(*) FROM message", [], |row| row.get(0)).unwrap();
    drop(db);
    let (store, handle) = open(folder.path());
    let (now, errors) = read_everything(&handle, &written).await;
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!(now, before);
    let found = handle.integrity_check().await.unwrap();
    assert_eq!((found.problems.len(), found.damaged.len()), (0, 0));
    // Messages of earlier versions have their SHA-256.
    assert_eq!(found.unhashed, u64::try_from(rows).unwrap() - u64::from(messages));
    drop(handle);
    store.close().await;
    flip_body(folder.path());
    let (store, handle) = open(folder.path());
    let (now, _) = read_everything(&handle, &written).await;
    assert_eq!(wrong_rows(&now, &before), Vec::<String>::new());
    assert_eq!(handle.damage_list().await.unwrap().len(), 1);
    drop(handle);
    store.close().await;
}

fn flip_body(folder: &Path) {
    raw(folder).execute("UPDATE message SET body = body || '!' WHERE seq = 1", []).unwrap();
}

#[tokio::test]
async fn an_update_does_not_make_damage_look_intact() {
    let (folder, written, _) = filled_folder(SMALL).await;
    flip_column(folder.path(), "attempt", "shown");
    let (store, handle) = open(folder.path());
    let live = handle.attempt_live().await.unwrap();
    let known = handle.damage_list().await.unwrap();
    let workflow = written.workflow;
    let runs = handle.run_list(agent_worker_store::RunQuery::Live).await.unwrap();
    // Ending the run ends every attempt, damaged or not.
    let step = team::end(agent_worker_protocol::Outcome::Done);
    handle.run_settle(runs[0].id, Box::new(move |_| step.clone()), team::NOW).await.unwrap();
    let found = handle.integrity_check().await.unwrap().damaged;
    assert_eq!(found.len(), 1, "{workflow}: {live:?} {known:?} {found:?}");
    assert_eq!(found[0].table, "attempt");
    drop(handle);
    store.close().await;
}

#[tokio::test]
async fn a_damaged_proposal_does_not_stay_open_after_its_run() {
    let (folder, written, _) = filled_folder(SMALL).await;
    raw(folder.path()).execute("UPDATE proposal SET active = 1, hops = hops + 1", []).unwrap();
    let (store, handle) = open(folder.path());
    let live = handle.run_list(agent_worker_store::RunQuery::Live).await.unwrap();
    let open_before = handle.run_snapshot(live[0].id).await.unwrap().proposals;
    assert!(open_before > 0, "there is a damaged proposal that looks open");
    let step = team::end(agent_worker_protocol::Outcome::Done);
    handle.run_settle(live[0].id, Box::new(move |_| step.clone()), team::NOW).await.unwrap();
    assert_eq!(handle.run_snapshot(live[0].id).await.unwrap().proposals, 0);
    assert_eq!(handle.proposal_due(written.workflow).await.unwrap(), None);
    let found = handle.integrity_check().await.unwrap().damaged;
    assert!(found.iter().any(|row| row.table == "proposal"), "{found:?}");
    drop(handle);
    store.close().await;
}

#[tokio::test]
async fn a_damaged_verdict_or_answer_row_neither_hides_nor_keeps_its_run() {
    for (table, damage) in [
        ("verdict", "UPDATE verdict SET summary = summary || '!'"),
        ("verdict", "UPDATE verdict SET outcome = 'maybe', checksum = NULL"),
        ("answer", "UPDATE answer SET agent = '@!'"),
    ] {
        let (folder, _, _) = filled_folder(SMALL).await;
        assert!(raw(folder.path()).execute(damage, []).unwrap() > 0, "{damage}");
        let (store, handle) = open(folder.path());
        let live = handle.run_list(agent_worker_store::RunQuery::Live).await.unwrap();
        let (snapshot, observed) = observe_damage(handle.run_snapshot(live[0].id)).await;
        let snapshot = snapshot.unwrap();
        assert_eq!(snapshot.verdict.is_none(), table == "verdict", "{damage}");
        assert!(observed.iter().any(|row| row.table == table), "{damage}: {observed:?}");
        assert_eq!(handle.damage_list().await.unwrap(), observed, "{damage}");
        let step = team::end(agent_worker_protocol::Outcome::Stopped);
        handle.run_settle(live[0].id, Box::new(move |_| step.clone()), team::NOW).await.unwrap();
        let ended = handle.run_snapshot(live[0].id).await.unwrap();
        assert!(!ended.run.state.is_live(), "{damage}");
        drop(handle);
        store.close().await;
    }
}

#[tokio::test]
async fn a_page_of_proposals_is_full_although_a_proposal_with_a_damaged_ballot_is_left_out() {
    let (folder, written, _) = filled_folder(SMALL).await;
    let damage =
        "UPDATE ballot SET reason = 'no' WHERE proposal = (SELECT min(proposal) FROM ballot)";
    raw(folder.path()).execute(damage, []).unwrap();
    let (store, handle) = open(folder.path());
    let list = async |range| {
        let which = ProposalQuery::All(range);
        let found = handle.proposal_list(written.workflow, which, team::NOW).await.unwrap();
        found.into_iter().map(|proposal| proposal.id).collect::<Vec<_>>()
    };
    let all = list(ListRange::all()).await;
    assert!(!all.is_empty());
    let (mut after, mut read) = (None, Vec::new());
    while let [one] = list(ListRange { after, limit: 1 }).await[..] {
        after = Some(one);
        read.push(one);
    }
    assert_eq!(read, all);
    drop(handle);
    store.close().await;
}

#[tokio::test]
async fn a_page_of_attempts_is_full_although_a_newer_attempt_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let (store, handle) = open(folder.path());
    let team = team::Team::new(&handle, &["a"]).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        team.say("go", &["a"]).await;
        let lease = team.lease("a").await;
        team.finish(&lease, team::ok()).await;
        ids.insert(0, lease.id);
    }
    let damage = "UPDATE attempt SET number = number + 1 WHERE id = ?1";
    assert_eq!(raw(folder.path()).execute(damage, [ids[0].get().as_bytes()]).unwrap(), 1);
    for who in [None, Some(team::name("a"))] {
        let (mut after, mut read) = (None, Vec::new());
        loop {
            let range = ListRange { after, limit: 1 };
            let page = handle.attempt_page(team.workflow, who.clone(), range).await.unwrap();
            let [row] = &page[..] else { break };
            let (started, epoch, id) = (row.store_started, row.fence.epoch, row.id);
            after = Some(AttemptKey { started, epoch, id });
            read.push(id);
        }
        assert_eq!(read, ids[1..], "{who:?}");
    }
    drop((team, handle));
    store.close().await;
}

#[tokio::test]
async fn an_unheard_mention_that_cannot_be_read_is_reported_and_does_not_hide_its_run() {
    let (folder, _, _) = filled_folder(SMALL).await;
    let row = "INSERT INTO event (workflow, position, run, kind, agent, data, at)
        SELECT workflow, 1000000, run, 'mention.unheard', 'a', '{}', 1 FROM event
        WHERE run IS NOT NULL ORDER BY position DESC LIMIT 1";
    assert_eq!(raw(folder.path()).execute(row, []).unwrap(), 1);
    let (store, handle) = open(folder.path());
    let live = handle.run_list(agent_worker_store::RunQuery::Live).await.unwrap();
    let (snapshot, observed) = observe_damage(handle.run_snapshot(live[0].id)).await;
    snapshot.unwrap();
    let named: Vec<_> = observed.iter().map(|row| (row.table, row.key.as_str())).collect();
    assert_eq!(named, [("event", "1000000")]);
    drop(handle);
    store.close().await;
}

/// Returns the positions of flipped bytes: among the bytes that are not zero, the same in every run.
fn flip_positions(count: u64, file: &[u8]) -> impl Iterator<Item = (u64, u8)> {
    let used: Vec<u64> =
        (0..).zip(file).filter(|(_, byte)| **byte != 0).map(|(at, _)| at).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    (0..count).map(move |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let place = usize::try_from(state).unwrap() % used.len();
        (used[place], 1 << (state >> 61))
    })
}

#[tokio::test]
async fn a_bit_flipped_anywhere_in_the_file_is_never_served_and_what_is_lost_is_reported() {
    #[expect(clippy::disallowed_methods, reason = "a test has no main")]
    let flips = std::env::var("AW_FLIPS").map_or(24, |text| text.parse().unwrap());
    let (folder, written, before) = filled_folder(SMALL).await;
    let file = fs::read(folder.path().join(DATABASE)).unwrap();
    for (place, bit) in flip_positions(flips, &file) {
        let case = format!("bit {bit:08b} of byte {place}");
        let damaged = copy(folder.path());
        let options = fs::OpenOptions::new().read(true).write(true).clone();
        let file = options.open(damaged.path().join(DATABASE)).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, place).unwrap();
        file.write_all_at(&[byte[0] ^ bit], place).unwrap();
        // A file that cannot be opened is reported by the failed open.
        let Ok(store) = Database::open(damaged.path()) else { continue };
        let handle: Arc<dyn Store> = Arc::new(store.clone());
        let (now, errors) = read_everything(&handle, &written).await;
        assert_eq!(wrong_rows(&now, &before), Vec::<String>::new(), "{case}");
        let is_reported = handle
            .integrity_check()
            .await
            .map_or(true, |found| !found.problems.is_empty() || !found.damaged.is_empty());
        let is_lossless = errors.is_empty() && now.len() == before.len();
        assert!(is_lossless || is_reported, "{case}: {errors:?}");
        drop(handle);
        store.close().await;
    }
}
