//! Tokens of clients, and the heartbeat write that proves that the store accepts writes.

use agent_worker_protocol::{Hash, Millis, Scopes, api::TokenView};

use super::{columns, transaction::Tx};
use crate::{
    db::{self, Connection, OptionalExtension, Row, params},
    error::{Error, Result},
    time::StoreTime,
};

pub(crate) fn put_token(
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
        .execute_counted(params![name, hash, now.get(), serde_json::to_string(scopes)?])?;
    if added == 0 {
        return Err(Error::Exists("token"));
    }
    tx.mark_tokens_changed();
    Ok(())
}

pub(crate) fn find(db: &Connection, hash: &Hash) -> Result<Option<TokenView>> {
    Ok(db
        .prepare_cached("SELECT name, created, scopes FROM token WHERE hash = ?1")?
        .query_row([hash], read_token)
        .optional()?)
}

pub(crate) fn hash_of(db: &Connection, name: &str) -> Result<Option<Hash>> {
    Ok(db
        .prepare_cached("SELECT hash FROM token WHERE name = ?1")?
        .query_row([name], |row| row.get(0))
        .optional()?)
}

pub(crate) fn list(db: &Connection) -> Result<Vec<TokenView>> {
    let tokens = db
        .prepare_cached("SELECT name, created, scopes FROM token ORDER BY name")?
        .query_map((), read_token)?
        .collect::<db::Result<_>>()?;
    Ok(tokens)
}

fn read_token(row: &Row<'_>) -> db::Result<TokenView> {
    Ok(TokenView {
        name: row.get(0)?,
        created: columns::millis(row, 1)?,
        scopes: columns::json(row, 2)?,
    })
}

pub(crate) fn remove(tx: &Tx<'_>, name: &str) -> Result<()> {
    let removed =
        tx.prepare_cached("DELETE FROM token WHERE name = ?1")?.execute_counted([name])?;
    if removed == 0 {
        return Err(Error::NotFound("token"));
    }
    tx.mark_tokens_changed();
    Ok(())
}

pub(crate) fn put_heartbeat(tx: &Tx<'_>, now: StoreTime) -> Result<()> {
    tx.prepare_cached(
        "INSERT INTO meta (name, value) VALUES ('pulse', ?1)
         ON CONFLICT (name) DO UPDATE SET value = excluded.value",
    )?
    .execute([now.get()])?;
    Ok(())
}

pub(crate) fn last_heartbeat(db: &Connection) -> Result<Option<StoreTime>> {
    Ok(db
        .prepare_cached("SELECT value FROM meta WHERE name = 'pulse'")?
        .query_row((), |row| columns::store_time(row, 0))
        .optional()?)
}
