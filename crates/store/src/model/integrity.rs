//! The outcome of a check of the whole store.

use crate::damage::DamagedRow;

/// The findings of a check of the whole store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IntegrityReport {
    /// Damage to the structure of a database, one line each.
    pub problems: Vec<String>,
    /// Rows that do not match their checksums.
    pub damaged: Vec<DamagedRow>,
    /// Number of rows in the tables that have checksums.
    pub rows: u64,
    /// Number of rows without a checksum: an earlier version wrote them.
    pub unhashed: u64,
}
