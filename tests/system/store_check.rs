//! Verifies a store after a test, with SQL of its own, against everything that was acknowledged.

use std::{collections::BTreeMap, path::Path};

use agent_worker_store::{Database, InstanceQuery, RunStore as _};
use rusqlite::{Connection, OpenFlags};

/// Acknowledged messages of a sender: the text and the seq of the reply.
pub(crate) type AcknowledgedSends = BTreeMap<String, i64>;

/// Checks the only instance in `home`.
pub(crate) fn check_store(home: &Path, acknowledged: &AcknowledgedSends) {
    check_hashes_and_gaps(home);
    let path = home.join("agent-worker.db");
    let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    check_acknowledged_sends(&db, acknowledged);
    let none = |what: &str, sql: &str| {
        let count: i64 = db.query_row(sql, [], |row| row.get(0)).unwrap();
        assert_eq!(count, 0, "{what}");
    };
    none(
        "a seq is missing",
        "SELECT count(*) FROM workflow w WHERE last_seq <> (SELECT count(*) FROM message m WHERE m.workflow = w.id)",
    );
    none(
        "a delivery is in no known state",
        "SELECT count(*) FROM delivery WHERE state NOT IN (0, 1, 2, 3, 4)",
    );
    none(
        "a delivery is leased by nobody",
        "SELECT count(*) FROM delivery d WHERE state = 1 AND NOT EXISTS (SELECT 1 FROM attempt a
         WHERE a.workflow = d.workflow AND a.agent = d.agent AND a.epoch = d.epoch AND a.ended IS NULL)",
    );
    none(
        "a delivery is acted without a successful attempt that was shown it",
        "SELECT count(*) FROM delivery d WHERE state = 3 AND NOT EXISTS (SELECT 1 FROM attempt a
         WHERE a.workflow = d.workflow AND a.agent = d.agent AND a.epoch = d.epoch AND a.ended IS NOT NULL
           AND json_extract(a.how, '$.end') = 'ok'
           AND EXISTS (SELECT 1 FROM json_each(a.shown) s WHERE json_extract(s.value, '$[0]') = d.seq))",
    );
    none("good mail is dead because of the kills", "SELECT count(*) FROM delivery WHERE state = 2");
    none(
        "an agent has two live attempts",
        "SELECT count(*) FROM (SELECT agent FROM attempt WHERE ended IS NULL GROUP BY workflow, agent HAVING count(*) > 1)",
    );
    // Every successful turn sends one message, and a repeated turn does not send it again.
    none(
        "a turn spoke twice, or not at all",
        "SELECT count(*) FROM agent a WHERE
           (SELECT count(*) FROM message m WHERE m.workflow = a.workflow AND m.sender = a.name AND m.kind = 'message') <>
           (SELECT count(DISTINCT t.oldest) FROM attempt t WHERE t.workflow = a.workflow AND t.agent = a.name
              AND json_extract(t.how, '$.end') = 'ok')",
    );
    none("mail still waits", "SELECT count(*) FROM delivery WHERE state IN (0, 1)");
}

fn check_acknowledged_sends(db: &Connection, acknowledged: &AcknowledgedSends) {
    let mut rows = db.prepare("SELECT body, seq FROM message WHERE sender = 'user'").unwrap();
    let rows = rows.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)));
    let mut stored: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for (body, seq) in rows.unwrap().flatten() {
        stored.entry(body).or_default().push(seq);
    }
    for (body, seq) in acknowledged {
        assert_eq!(stored.get(body), Some(&vec![*seq]), "{body} was acknowledged as {seq}");
    }
}

fn check_hashes_and_gaps(home: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Database::open(home).unwrap();
        for instance in store.instance_list(InstanceQuery::All).await.unwrap() {
            store.instance_verify(instance.id).await.unwrap();
        }
        store.close().await;
    });
}
