//! A change in a watched folder, as a `FolderQueue` reports it.

/// The place of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolderChange {
    /// The folder with this number.
    Folder(i32),
    /// Events were lost: any folder may have changed.
    Any,
}
