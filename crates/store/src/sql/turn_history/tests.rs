//! Failures that concern only the history: the event is stored all the same, and the history says that it is incomplete.

use agent_worker_protocol::{HistoryMode, HistoryState, HistoryText, Millis, TextState};

use super::*;
use crate::{engine::open_in_memory, time::StoreTime};

const NOW: Now = Now { wall: Millis::new(1_000), store: StoreTime::new(1_000) };

/// Makes an instance with a live run and a live attempt of agent `a`.
fn database_with_attempt() -> (Connection, AttemptId) {
    let db = open_in_memory().unwrap();
    db.execute_batch(
        "INSERT INTO workflow (id, project, name, tag, live_run, last_run) VALUES (1, '/p', 'w', 'main', 1, 1);
         INSERT INTO run (workflow, id, uuid, mode, state, limits, keep, started, after_seq, script)
         VALUES (1, 1, x'01', 'run', 'running', '{}', 'always', 1, 0, '');
         INSERT INTO attempt (workflow, agent, epoch, id, run, oldest, number, setbacks, shown, token_hash, started)
         VALUES (1, 'a', 1, x'00000000000000000000000000000007', 1, 1, 1, 0, '[]', x'01', 1);
         UPDATE run SET uuid = x'00000000000000000000000000000001';",
    )
    .unwrap();
    (db, AttemptId::new(uuid::Uuid::from_u128(7)))
}

fn words(no: i64, text: &str) -> NumberedEvent {
    let text = HistoryText::of(text.to_owned(), HistoryMode::Full);
    NumberedEvent { no, ts: NOW.wall, event: WorkerEvent::Words(text) }
}

fn report(db: &Connection, attempt: AttemptId, event: NumberedEvent) -> Result<i64> {
    let prepared = [PreparedEvent::new(event)];
    attempts::events::store_events(&Tx::new(db), attempt, &prepared, NOW)
}

fn texts(db: &Connection, attempt: AttemptId) -> Vec<(TextState, Option<String>)> {
    let part = list(db, attempt, ListRange::all()).unwrap();
    let text = |entry: HistoryEntry| match entry.content {
        HistoryContent::Words(text) => (text.state, text.text),
        other => panic!("{other:?}"),
    };
    part.entries.into_iter().map(text).collect()
}

#[test]
fn a_text_that_cannot_be_stored_does_not_fail_its_event() {
    let (db, attempt) = database_with_attempt();
    db.execute_batch(
        "CREATE TRIGGER refuse BEFORE INSERT ON turn_text BEGIN SELECT RAISE(ABORT, 'refused'); END",
    )
    .unwrap();
    assert_eq!(report(&db, attempt, words(1, "one")).unwrap(), 1);
    assert_eq!(texts(&db, attempt), [(TextState::Lost, None)]);
    assert_eq!(attempts::get(&db, attempt).unwrap().history, HistoryState::Lost);
    db.execute_batch("DROP TRIGGER refuse").unwrap();
    assert_eq!(report(&db, attempt, words(2, "two")).unwrap(), 2);
    assert_eq!(texts(&db, attempt)[1], (TextState::Whole, Some("two".to_owned())));
}

#[test]
fn an_entry_that_cannot_be_stored_does_not_fail_its_event() {
    let (db, attempt) = database_with_attempt();
    db.execute_batch(
        "CREATE TRIGGER refuse BEFORE INSERT ON turn_entry BEGIN SELECT RAISE(ABORT, 'refused'); END",
    )
    .unwrap();
    assert_eq!(report(&db, attempt, words(1, "one")).unwrap(), 1);
    let row = attempts::get(&db, attempt).unwrap();
    assert_eq!((row.last_no, row.history), (1, HistoryState::Lost));
}

#[test]
fn a_damaged_text_is_reported_and_the_rest_is_read() {
    let (db, attempt) = database_with_attempt();
    for (no, text) in [(1, "one"), (2, "two")] {
        report(&db, attempt, words(no, text)).unwrap();
    }
    db.execute_batch("UPDATE turn_text SET content = x'00' WHERE rowid = 1").unwrap();
    let read = || Ok(texts(&db, attempt));
    let (found, damaged) = damage::collect_skipped(read).unwrap();
    let expected = [(TextState::Damaged, None), (TextState::Whole, Some("two".to_owned()))];
    assert_eq!(found, expected);
    assert_eq!(damaged.iter().map(|row| row.table).collect::<Vec<_>>(), ["turn_text"]);
    db.execute_batch("UPDATE turn_entry SET bytes = 7 WHERE no = 2").unwrap();
    let part = list(&db, attempt, ListRange::all()).unwrap();
    assert_eq!(part.entries[1].content, HistoryContent::Damaged);
}

#[test]
fn equal_texts_of_a_run_are_stored_once() {
    let (db, attempt) = database_with_attempt();
    for (no, text) in [(1, "the same"), (2, "the same"), (3, "another")] {
        report(&db, attempt, words(no, text)).unwrap();
    }
    let stored: i64 = db.query_row("SELECT count(*) FROM turn_text", (), |row| row.get(0)).unwrap();
    let bytes: i64 = db.query_row("SELECT history_bytes FROM run", (), |row| row.get(0)).unwrap();
    assert_eq!((stored, bytes), (2, 15));
    assert_eq!(texts(&db, attempt).len(), 3);
}
