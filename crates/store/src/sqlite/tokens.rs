//! Clients' tokens, and the write that shows that the store takes writes.

use agent_worker_protocol::{Hash, Millis, Scopes, api::TokenView};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{columns, writer::Tx};
use crate::{
    error::{Error, Result},
    time::StoreTime,
};

pub(super) fn put_token(
    tx: &Tx<'_>,
    name: &str,
    hash: &Hash,
    scopes: &Scopes,
    now: Millis,
) -> Result<()> {
    let added = tx
        .prepare_cached(
            "INSERT INTO token (name, hash, created, scopes) VALUES (?1, ?2, ?3, ?4) \
             ON CONFLICT DO NOTHING",
        )?
        .execute(params![name, hash, now.get(), serde_json::to_string(scopes)?])?;
    if added == 0 {
        return Err(Error::Exists("token"));
    }
    tx.mark_tokens_changed();
    Ok(())
}

pub(super) fn find(db: &Connection, hash: &Hash) -> Result<Option<TokenView>> {
    Ok(db
        .prepare_cached("SELECT name, created, scopes FROM token WHERE hash = ?1")?
        .query_row([hash], read_token)
        .optional()?)
}

pub(super) fn list(db: &Connection) -> Result<Vec<TokenView>> {
    let tokens = db
        .prepare_cached("SELECT name, created, scopes FROM token ORDER BY name")?
        .query_map([], read_token)?
        .collect::<rusqlite::Result<_>>()?;
    Ok(tokens)
}

fn read_token(row: &Row<'_>) -> rusqlite::Result<TokenView> {
    Ok(TokenView {
        name: row.get(0)?,
        created: columns::millis(row, 1)?,
        scopes: columns::json(row, 2)?,
    })
}

pub(super) fn remove(tx: &Tx<'_>, name: &str) -> Result<()> {
    let removed = tx.prepare_cached("DELETE FROM token WHERE name = ?1")?.execute([name])?;
    if removed == 0 {
        return Err(Error::NotFound("token"));
    }
    tx.mark_tokens_changed();
    Ok(())
}

pub(super) fn put_heartbeat(tx: &Tx<'_>, now: StoreTime) -> Result<()> {
    tx.prepare_cached("INSERT OR REPLACE INTO meta (name, value) VALUES ('pulse', ?1)")?
        .execute([now.get()])?;
    Ok(())
}

pub(super) fn last_heartbeat(db: &Connection) -> Result<Option<StoreTime>> {
    Ok(db
        .prepare_cached("SELECT value FROM meta WHERE name = 'pulse'")?
        .query_row([], |row| columns::store_time(row, 0))
        .optional()?)
}
