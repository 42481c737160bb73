//! A write transaction: the connection of one request and the list of changes to publish after its COMMIT.

use std::{cell::RefCell, ops::Deref};

use agent_worker_protocol::WorkflowId;

use crate::{changes::ChangeSet, db::Connection};

/// The connection inside a request's savepoint, and the changes that are published after the COMMIT.
pub(crate) struct Tx<'a> {
    db: &'a Connection,
    changes: RefCell<ChangeSet>,
}

impl<'a> Tx<'a> {
    /// Starts a transaction without changes.
    pub(crate) fn new(db: &'a Connection) -> Self {
        Self { db, changes: RefCell::default() }
    }

    /// Returns the changes that the request has marked.
    pub(crate) fn into_changes(self) -> ChangeSet {
        self.changes.into_inner()
    }

    /// Locks an instance's row until the end of the transaction, before anything of the instance is read. SQLite has
    /// one writer, which holds the whole database: there is nothing to do. An engine with several writers executes
    /// `SELECT … FOR UPDATE` here.
    #[expect(
        clippy::unused_self,
        reason = "the place of the lock, for an engine with several writers"
    )]
    pub(crate) fn lock_instance(&self, _workflow: WorkflowId) {}

    /// Marks an instance as changed: the tasks that wait for it are woken after the COMMIT.
    pub(crate) fn mark_changed(&self, workflow: WorkflowId) {
        self.changes.borrow_mut().instances.insert(workflow);
    }

    /// Marks instances, runs or the members of runs as changed, which is more than new messages.
    pub(crate) fn mark_runs_changed(&self) {
        self.changes.borrow_mut().runs = true;
    }

    /// Marks a token as created or revoked.
    pub(crate) fn mark_tokens_changed(&self) {
        self.changes.borrow_mut().tokens = true;
    }
}

impl Deref for Tx<'_> {
    type Target = Connection;
    fn deref(&self) -> &Connection {
        self.db
    }
}
