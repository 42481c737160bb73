//! The query plans of frequent statements: each uses an index of open rows and never scans the whole history. A test
//! of the schema and the statements together.

use agent_worker_protocol::{ApprovalId, RunId, Seq};

use crate::{
    db::{self, Connection},
    model::{ApprovalQuery, GrantQuery, InstanceQuery, ListRange, MessageOrder, ProposalQuery},
};

use super::{
    agents, approvals,
    attempts::{self, answer, finish, lease},
    columns::RunNo,
    documents, effects, events, feedback, grants,
    inbox::{self, PendingFilter},
    instances, last_failures, limit_use, messages, proposal_rows, resources, run_settlement, runs,
    spend, spend_slots, suggestions, turn_history,
};

/// The tables that grow with history.
const LARGE_TABLES: [&str; 14] = [
    "spend_slot",
    "message",
    "delivery",
    "event",
    "attempt",
    "effect",
    "proposal",
    "approval",
    "permission_grant",
    "run",
    "resource",
    "document",
    "turn_text",
    "turn_entry",
];

/// Returns one line for each step of the plan, as `SEARCH d USING INDEX delivery_open (workflow=? AND state=?)`.
fn plan(db: &Connection, sql: &str) -> Vec<String> {
    let mut statement = db.prepare_cached(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let nulls = vec![None::<i64>; statement.parameter_count()];
    let steps = statement.query_map(nulls.as_slice(), |row| row.get(3)).unwrap();
    steps.collect::<db::Result<_>>().unwrap()
}

/// Returns the names that a statement gives to the large tables: `FROM delivery d` → `delivery`, `d`.
fn names_of_long_tables(sql: &str) -> Vec<&str> {
    let words: Vec<_> = sql.split([' ', '\n', ',', '(', ')']).filter(|w| !w.is_empty()).collect();
    let pairs = words.windows(2).filter(|pair| LARGE_TABLES.contains(&pair[0]));
    pairs.flat_map(|pair| [pair[0], pair[1]]).collect()
}

/// Checks that a plan contains a step and scans no large table.
fn check_plan(db: &Connection, sql: &str, expected: &str) {
    let steps = plan(db, sql);
    let shown = format!("{sql}\n{}", steps.join("\n"));
    assert!(steps.iter().any(|step| step.contains(expected)), "no {expected} in\n{shown}");
    for name in names_of_long_tables(sql) {
        let walks = |step: &String| step == name || step.starts_with(&format!("{name} "));
        let scans = steps.iter().filter_map(|step| step.strip_prefix("SCAN "));
        assert!(!scans.map(str::to_owned).any(|step| walks(&step)), "SCAN {name} in\n{shown}");
    }
}

#[test]
fn nothing_that_is_asked_often_walks_through_history() {
    let db = crate::engine::open_in_memory().unwrap();
    let open = "INDEX delivery_open (workflow=? AND state=? AND agent=?";
    let failed = "USING COVERING INDEX delivery_failed (workflow=? AND run=? AND state=?)";
    let active = "INDEX proposal_active (workflow=?)";
    for (sql, expected) in [
        (inbox::pending_sql(PendingFilter::All), open),
        (inbox::pending_sql(PendingFilter::NotAlone), open),
        (inbox::pending_sql(PendingFilter::Now), open),
        (inbox::pending_sql(PendingFilter::After(Seq::new(1))), open),
        (inbox::JOIN_SQL.to_owned(), "USING PRIMARY KEY (workflow=? AND seq=? AND agent=?)"),
        (
            inbox::pending_sql(PendingFilter::One(Seq::new(1))),
            "SEARCH d USING PRIMARY KEY (workflow=? AND seq=? AND agent=?)",
        ),
        (inbox::ACK_SQL.to_owned(), open),
        (lease::OLDEST_WAKING_SQL.to_owned(), open),
        (finish::LEASED_DELIVERIES_SQL.to_owned(), open),
        (events::unheard_sql(), "INDEX event_unheard (workflow=? AND run=?)"),
        (
            answer::attempts_sql(),
            "SEARCH t USING PRIMARY KEY (workflow=? AND agent=? AND epoch>? AND epoch<?)",
        ),
        (
            messages::mentions_sql(MessageOrder::NewestFirst),
            "SEARCH d USING PRIMARY KEY (workflow=? AND seq>? AND seq<?)",
        ),
        (
            answer::MESSAGED_SQL.to_owned(),
            "SEARCH m USING PRIMARY KEY (workflow=? AND seq>? AND seq<?)",
        ),
        (agents::READY_SQL.to_owned(), open),
        (agents::LIST_SQL.to_owned(), open),
        (run_settlement::FACTS_SQL.to_owned(), failed),
        (
            instances::list_sql(&InstanceQuery::Named("w".parse().unwrap())),
            "INDEX workflow_name (name=? AND tag=?)",
        ),
        (
            instances::list_sql(&InstanceQuery::WithAgent("a".parse().unwrap())),
            "agent_name (name=?)",
        ),
        (instances::list_sql(&InstanceQuery::Live), "INDEX workflow_live"),
        (run_settlement::FACTS_SQL.to_owned(), open),
        (proposal_rows::COUNT_ENDED_SQL.to_owned(), active),
        (proposal_rows::NEXT_DUE_SQL.to_owned(), active),
        (proposal_rows::list_sql(ProposalQuery::Active), active),
        (
            proposal_rows::list_sql(ProposalQuery::Decided(RunId::new(uuid::Uuid::nil()), 1)),
            "INDEX proposal_decided (workflow=? AND run=?)",
        ),
    ] {
        check_plan(&db, &sql, expected);
    }
}

#[test]
fn no_query_about_limits_walks_through_history() {
    let db = crate::engine::open_in_memory().unwrap();
    let today = "INDEX attempt_turn (workflow=? AND run=? AND store_ended>?)";
    for (sql, expected) in [
        (limit_use::TURNS_TODAY_SQL, today),
        (limit_use::AGENT_TURNS_TODAY_SQL, today),
        (limit_use::TURN_EXPIRES_SQL, "INDEX attempt_turn (workflow=? AND run=?)"),
        (limit_use::LIMIT_USE_SQL, "SEARCH a USING PRIMARY KEY (workflow=?)"),
        (spend::SPENT_SQL, "(workflow=? AND id=?)"),
        (spend::RESERVED_SQL, "INDEX attempt_reserved (workflow=? AND run=?)"),
        (spend_slots::SLOTS_SQL, "USING PRIMARY KEY (workflow=? AND run=? AND owner=? AND slot>?)"),
    ] {
        check_plan(&db, sql, expected);
    }
}

#[test]
fn no_query_about_turns_walks_through_history() {
    let db = crate::engine::open_in_memory().unwrap();
    for (sql, expected) in [
        (
            attempts::page_sql(),
            "SEARCH t USING INDEX attempt_newest (workflow=? AND store_started<?)",
        ),
        (
            attempts::page_of_agent_sql(),
            "SEARCH t USING PRIMARY KEY (workflow=? AND agent=? AND epoch<?)",
        ),
        (attempts::FIND_SQL.to_owned(), "(id>? AND id<?)"),
        (
            turn_history::list_sql(),
            "SEARCH h USING PRIMARY KEY (workflow=? AND attempt=? AND no>?)",
        ),
        (turn_history::OLD_ATTEMPTS_SQL.to_owned(), "INDEX attempt_history (store_ended<?)"),
        (turn_history::OLD_TEXTS_SQL.to_owned(), "INDEX turn_text_used (used<?)"),
    ] {
        check_plan(&db, &sql, expected);
    }
}

#[test]
fn no_query_about_a_run_or_a_message_walks_through_history() {
    let db = crate::engine::open_in_memory().unwrap();
    let open = "INDEX delivery_open (workflow=? AND state=? AND agent=?";
    for (sql, expected) in [
        (runs::STOPPED_AGENTS_SQL.to_owned(), "INDEX agent_stopped (workflow=? AND run=?)"),
        (run_settlement::AWAITING_APPROVAL_DELIVERIES_SQL.to_owned(), open),
        (approvals::list_sql(ApprovalQuery::Open), "INDEX approval_unused (workflow=?)"),
        (approvals::list_sql(ApprovalQuery::One(ApprovalId::new(1))), "(workflow=? AND id=?)"),
        (
            grants::list_sql(GrantQuery::InForce),
            "INDEX permission_grant_run (workflow=? AND run=?)",
        ),
        (run_settlement::ALL_WAIT_UNTIL_SQL.to_owned(), open),
        (attempts::turns_sql(), "INDEX attempt_turn (workflow=? AND run=?)"),
        (run_settlement::DROP_OPEN_SQL.to_owned(), "delivery_open (workflow=? AND state=?)"),
        (runs::FAILURES_SQL.to_owned(), "INDEX delivery_failed (workflow=? AND run=? AND state=?)"),
        (messages::receipts_sql(), "INDEX message_reply (workflow=? AND reply_to=?)"),
        (messages::thread_sql(), "INDEX message_reply (workflow=? AND reply_to=?)"),
        (messages::thread_sql(), "SEARCH d USING PRIMARY KEY (workflow=? AND seq=?)"),
        (messages::acts_on_sql(), "INDEX attempt_answer (workflow=? AND answer=?)"),
        (effects::journal_sql(), "SEARCH t USING PRIMARY KEY (workflow=? AND agent=? AND epoch=?)"),
        (effects::CLEAR_SQL.to_owned(), "INDEX delivery_shown (workflow=? AND agent=?)"),
        (events::list_sql(Some(RunNo(1))), "event_run (workflow=? AND run=? AND position>?)"),
        (events::list_sql(None), "USING PRIMARY KEY (workflow=? AND position>?)"),
    ] {
        check_plan(&db, &sql, expected);
    }
}

#[test]
fn a_page_of_a_list_is_read_from_an_index() {
    let db = crate::engine::open_in_memory().unwrap();
    for (sql, expected) in [
        (runs::ENDED_SQL.to_owned(), "INDEX run_ended (started<?)"),
        (
            runs::ENDED_OF_INSTANCE_SQL.to_owned(),
            "INDEX run_ended_of_instance (workflow=? AND started<?)",
        ),
        (proposal_rows::list_sql(ProposalQuery::All(ListRange::all())), "(workflow=? AND id>?)"),
        (resources::list_sql(), "INDEX resource_newest (workflow=? AND at<?)"),
        (runs::ended_since_sql(), "INDEX run_end (store_ended>?)"),
        (documents::list_sql(), "(workflow=? AND path>?)"),
        (documents::written_sql(), "(workflow=? AND path>?)"),
        (
            documents::list_sql(),
            "SEARCH d USING INDEX sqlite_autoindex_document_1 (workflow=? AND path=? AND revision=?)",
        ),
    ] {
        check_plan(&db, &sql, expected);
    }
}

#[test]
fn the_last_failures_of_a_run_are_found_by_their_keys() {
    let db = crate::engine::open_in_memory().unwrap();
    for expected in [
        "SEARCH f USING PRIMARY KEY (workflow=? AND run=?)",
        "SEARCH t USING PRIMARY KEY (workflow=? AND agent=? AND epoch=?)",
    ] {
        check_plan(&db, &last_failures::list_sql(), expected);
    }
}

#[test]
fn a_part_of_a_long_list_is_read_without_sorting_the_list() {
    let db = crate::engine::open_in_memory().unwrap();
    for sql in [
        runs::ENDED_SQL.to_owned(),
        runs::ENDED_OF_INSTANCE_SQL.to_owned(),
        proposal_rows::list_sql(ProposalQuery::All(ListRange::all())),
        resources::list_sql(),
        documents::list_sql(),
        documents::history_sql(),
        suggestions::list_sql(),
        feedback::LIST_SQL.to_owned(),
    ] {
        let steps = plan(&db, &sql);
        assert!(!steps.iter().any(|step| step.contains("TEMP B-TREE")), "{sql}: {steps:?}");
    }
}

#[test]
fn an_inbox_is_read_in_its_order_without_sorting() {
    let db = crate::engine::open_in_memory().unwrap();
    for which in [PendingFilter::All, PendingFilter::NotAlone] {
        let steps = plan(&db, &inbox::pending_sql(which));
        assert!(!steps.iter().any(|step| step.contains("TEMP B-TREE")), "{steps:?}");
    }
}
