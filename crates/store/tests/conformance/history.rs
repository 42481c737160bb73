//! The history of turns: texts that come back as they were reported, their limits and their end.

use std::{sync::Arc, time::Duration};

use agent_worker_protocol::{
    AttemptId, EventBody, HistoryMode, HistoryState, HistoryText, MAX_HISTORY_RUN_BYTES,
    MAX_HISTORY_TEXT_BYTES, MAX_SHORT_TEXT_BYTES, NumberedEvent, Outcome, TextState, WorkerEvent,
};
use agent_worker_store::{
    AttemptKey, AttemptRow, HistoryContent, HistoryEntry, HistoryKey, ListRange, NewRun, Now,
    Retention, Store,
};
use serde_json::json;

use crate::team::{NOW, Team, end, name, new_run, ok};

fn event(no: i64, event: WorkerEvent) -> NumberedEvent {
    NumberedEvent { no, ts: NOW.wall, event }
}

fn full(text: &str) -> HistoryText {
    HistoryText::of(text.to_owned(), HistoryMode::Full)
}

fn prompt(no: i64, system: &str, prompt: &str) -> NumberedEvent {
    let (system, prompt) = (full(system), full(prompt));
    event(no, WorkerEvent::Prompt { mode: HistoryMode::Full, system, prompt })
}

fn result(no: i64, text: &str) -> NumberedEvent {
    let summary: String = text.chars().take(9).collect();
    let (id, tool, whole) = ("1".to_owned(), "shell".to_owned(), Some(full(text)));
    event(no, WorkerEvent::ToolResult { id, tool, ok: true, summary, whole })
}

/// Reports events in a turn of agent `a`, which then ends. Returns the attempt.
async fn turn(team: &Team, events: Vec<NumberedEvent>) -> AttemptId {
    team.say("go", &["a"]).await;
    let lease = team.lease("a").await;
    team.store.attempt_events(lease.id, events, NOW).await.unwrap();
    team.finish(&lease, ok()).await;
    lease.id
}

async fn entries(store: &Arc<dyn Store>, attempt: AttemptId) -> Vec<HistoryEntry> {
    let part = store.history_list(attempt, ListRange::all()).await.unwrap();
    assert!(!part.is_cut);
    part.entries
}

/// Returns the text of an entry with its completeness.
fn text_of(entry: &HistoryEntry) -> Option<&HistoryText> {
    match &entry.content {
        HistoryContent::System(text)
        | HistoryContent::Prompt(text)
        | HistoryContent::Words(text)
        | HistoryContent::Event(_, Some(text)) => Some(text),
        HistoryContent::Event(_, None) | HistoryContent::Damaged => None,
    }
}

async fn state(store: &Arc<dyn Store>, attempt: AttemptId) -> HistoryState {
    store.attempt_get(attempt).await.unwrap().history
}

pub(crate) async fn a_turn_is_read_as_its_worker_reported_it(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    let long = "a long result\n".repeat(1_000);
    let args = HistoryText::omitted(15, TextState::Whole);
    let call = WorkerEvent::ToolCall {
        id: "1".into(),
        tool: "shell".into(),
        args: json!({"command": "x"}),
        whole: Some(args.clone()),
    };
    let events = vec![
        event(1, WorkerEvent::Started { pid: 7, sandbox: None }),
        prompt(2, "You are a.", "What woke you"),
        event(3, WorkerEvent::Words(full("I look."))),
        event(4, call),
        result(5, &long),
        event(6, WorkerEvent::Retry { why: "again".into() }),
    ];
    let attempt = turn(&team, events).await;
    assert_eq!(state(&store, attempt).await, HistoryState::Full);
    let found = entries(&store, attempt).await;
    let places: Vec<_> = found.iter().map(|entry| (entry.key.no, entry.key.part)).collect();
    assert_eq!(places, [(2, 0), (2, 1), (3, 0), (4, 0), (5, 0), (6, 0)]);
    let contents: Vec<_> = found.into_iter().map(|entry| entry.content).collect();
    assert_eq!(contents[0], HistoryContent::System(full("You are a.")));
    assert_eq!(contents[1], HistoryContent::Prompt(full("What woke you")));
    assert_eq!(contents[2], HistoryContent::Words(full("I look.")));
    let HistoryContent::Event(EventBody::ToolCall(call), whole) = &contents[3] else {
        panic!("{contents:?}")
    };
    assert_eq!((&call.args, whole), (&json!({"command": "x"}), &Some(args)));
    let HistoryContent::Event(EventBody::ToolResult(short), whole) = &contents[4] else {
        panic!("{contents:?}")
    };
    assert_eq!((short.summary.as_str(), whole), ("a long re", &Some(full(&long))));
    assert!(matches!(&contents[5], HistoryContent::Event(EventBody::Retry(_), None)));
}

pub(crate) async fn a_history_is_read_in_parts(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    let large = |no: i64| result(no, &no.to_string().repeat(MAX_HISTORY_TEXT_BYTES));
    let events = std::iter::once(prompt(1, "s", "p")).chain((2..30).map(large));
    let attempt = turn(&team, events.collect()).await;
    let (mut read, mut after) = (Vec::new(), None::<HistoryKey>);
    loop {
        let range = ListRange { after, limit: 10 };
        let part = store.history_list(attempt, range).await.unwrap();
        let bytes: usize =
            part.entries.iter().filter_map(text_of).map(HistoryText::present_bytes).sum();
        assert!(bytes <= 5 * 1024 * 1024, "{bytes}");
        after = part.entries.last().map(|entry| entry.key);
        read.extend(part.entries);
        if after.is_none() {
            break;
        }
    }
    let places: Vec<_> = read.iter().map(|entry| (entry.key.no, entry.key.part)).collect();
    let expected: Vec<_> = [(1, 0), (1, 1)].into_iter().chain((2..30).map(|no| (no, 0))).collect();
    assert_eq!(places, expected);
    let whole = store.history_list(attempt, ListRange::all()).await.unwrap();
    assert!(whole.is_cut, "a part has a limit of its own");
}

pub(crate) async fn texts_of_a_run_are_short_after_its_limit(store: Arc<dyn Store>) {
    let mut team = Team::new(&store, &["a"]).await;
    let large = |no: i64| {
        // Each text is another one; equal ones count once.
        let text = format!("{no} ").repeat(MAX_HISTORY_TEXT_BYTES);
        let same = HistoryText::of(text, HistoryMode::Full);
        let (id, tool, summary) = ("1".into(), "t".into(), "sum".into());
        event(no, WorkerEvent::ToolResult { id, tool, ok: true, summary, whole: Some(same) })
    };
    let most = i64::try_from(MAX_HISTORY_RUN_BYTES).unwrap()
        / i64::try_from(MAX_HISTORY_TEXT_BYTES).unwrap();
    let within = turn(&team, (1..=most).map(large).collect()).await;
    assert_eq!(state(&store, within).await, HistoryState::None, "no prompt was reported");
    let words = |no, text: &str| event(no, WorkerEvent::Words(full(text)));
    let more = vec![
        prompt(1, "s", "p"),
        NumberedEvent { no: 2, ..large(most + 1) },
        NumberedEvent { no: 3, ..large(7) },
        words(4, &"w".repeat(9_000)),
    ];
    let beyond = turn(&team, more).await;
    assert_eq!(state(&store, beyond).await, HistoryState::Limit);
    let found = entries(&store, beyond).await;
    let states: Vec<_> =
        found.iter().filter_map(text_of).map(|text| (text.state, text.present_bytes())).collect();
    let expected = [
        (TextState::Whole, 1),
        (TextState::Whole, 1),
        (TextState::Limit, 0),
        (TextState::Cut, MAX_HISTORY_TEXT_BYTES),
        (TextState::Limit, MAX_SHORT_TEXT_BYTES),
    ];
    assert_eq!(states, expected, "the run has the third one already");
    team.settle(end(Outcome::Done)).await;
    team.start(new_run(&["a"])).await;
    let next = turn(&team, vec![prompt(1, "s", "p"), NumberedEvent { no: 2, ..large(9) }]).await;
    assert_eq!(state(&store, next).await, HistoryState::Full, "each run has its own limit");
}

pub(crate) async fn a_text_of_any_size_is_cut(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    // A worker cuts it; an agent that acts as one may not.
    let text = "é".repeat(MAX_HISTORY_TEXT_BYTES);
    let bytes = text.len() as u64;
    let huge = HistoryText { text: Some(text), bytes, state: TextState::Whole };
    let attempt = turn(&team, vec![event(1, WorkerEvent::Words(huge))]).await;
    let found = entries(&store, attempt).await;
    let text = text_of(&found[0]).unwrap();
    assert_eq!(
        (text.state, text.present_bytes(), text.bytes),
        (TextState::Cut, MAX_HISTORY_TEXT_BYTES, bytes)
    );
}

pub(crate) async fn old_history_is_deleted_and_says_so(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a"]).await;
    let day = |n: u64| Duration::from_hours(24 * n);
    let at = |later: Duration| Now { store: NOW.store.plus(later), wall: NOW.wall.plus(later) };
    let turn_at = async |now: Now| {
        team.say("go", &["a"]).await;
        let lease = team.lease_at("a", now).await.unwrap();
        let text = format!("of {}", now.wall);
        let events = vec![prompt(1, "the same", &text)];
        store.attempt_events(lease.id, events, now).await.unwrap();
        store.attempt_finish(lease.fence.clone(), ok(), now).await.unwrap();
        lease.id
    };
    let old = turn_at(NOW).await;
    let new = turn_at(at(day(5))).await;
    let expire = async |before: Now| {
        let mut steps = 0;
        while store.history_expire(before.store).await.unwrap() > 0 {
            steps += 1;
            assert!(steps < 9, "it ends");
        }
    };
    expire(NOW).await;
    assert_eq!(entries(&store, old).await.len(), 2);
    expire(at(day(4))).await;
    assert_eq!(
        (state(&store, old).await, entries(&store, old).await),
        (HistoryState::Expired, vec![])
    );
    let kept = entries(&store, new).await;
    let text = text_of(&kept[0]).unwrap();
    assert_eq!(text.text.as_deref(), Some("the same"), "a later turn has the same text");
    assert_eq!(state(&store, new).await, HistoryState::Full);
    expire(at(day(9))).await;
    assert_eq!(state(&store, new).await, HistoryState::Expired);
    assert_eq!(store.history_expire(at(day(9)).store).await.unwrap(), 0);
}

pub(crate) async fn the_history_goes_with_its_run_and_its_instance(store: Arc<dyn Store>) {
    let mut team = Team::new(&store, &["a"]).await;
    let kept = turn(&team, vec![prompt(1, "the same", "one")]).await;
    team.settle(end(Outcome::Done)).await;
    team.start(NewRun { retention: Retention::WhileLive, ..new_run(&["a"]) }).await;
    let forgotten = turn(&team, vec![prompt(1, "the same", "two")]).await;
    team.settle(end(Outcome::Done)).await;
    store.instance_forget(team.workflow).await.unwrap();
    assert!(store.history_list(forgotten, ListRange::all()).await.is_err());
    let found = entries(&store, kept).await;
    assert_eq!(text_of(&found[0]), Some(&full("the same")));
    store.instance_remove(team.workflow).await.unwrap();
    assert!(store.history_list(kept, ListRange::all()).await.is_err());
}

pub(crate) async fn attempts_are_listed_in_parts_and_found_by_their_ids(store: Arc<dyn Store>) {
    let team = Team::new(&store, &["a", "b"]).await;
    let mut all = Vec::new();
    for (n, who) in (0u64..).zip(["a", "b", "a", "a", "b"]) {
        // Two attempts are from the same moment.
        let later = Duration::from_secs(n / 2);
        let now = Now { store: NOW.store.plus(later), wall: NOW.wall };
        team.say("go", &[who]).await;
        let lease = team.lease_at(who, now).await.unwrap();
        team.finish(&lease, ok()).await;
        all.push(lease.id);
    }
    let key = |row: &AttemptRow| AttemptKey {
        started: row.store_started,
        epoch: row.fence.epoch,
        id: row.id,
    };
    for (who, expected) in [(None, 5), (Some(name("A")), 3), (Some(name("c")), 0)] {
        let page =
            async |range| store.attempt_page(team.workflow, who.clone(), range).await.unwrap();
        let whole = page(ListRange::all()).await;
        assert_eq!(whole.len(), expected, "{who:?}");
        let (mut read, mut after) = (Vec::new(), None);
        loop {
            let part = page(ListRange { after, limit: 2 }).await;
            let Some(last) = part.last() else { break };
            after = Some(key(last));
            read.extend(part.iter().map(|row| row.id));
        }
        assert_eq!(read, whole.iter().map(|row| row.id).collect::<Vec<_>>());
        assert!(whole.is_sorted_by_key(|row| std::cmp::Reverse(row.store_started)));
    }
    let digits = all[3].get().simple().to_string();
    for length in [digits.len(), digits.len() - 1] {
        let found = store.attempt_find(digits[..length].to_owned(), 9).await.unwrap();
        assert!(found.contains(&all[3]), "{found:?}");
    }
    assert_eq!(store.attempt_find(digits, 9).await.unwrap(), [all[3]]);
    assert_eq!(store.attempt_find("fffff".into(), 9).await.unwrap(), []);
    assert!(store.attempt_find("not".into(), 9).await.is_err());
}
