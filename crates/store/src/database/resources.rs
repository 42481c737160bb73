//! Resources: the content of a large one is a file, written before its row and removed after it.

use std::sync::Arc;

use agent_worker_protocol::{Millis, PauseCause, ResourceId, Seq, WorkflowId};

use super::Database;
use crate::{
    error::{Error, Result},
    model::{NewMessage, Once, WriteContext},
    sql::{
        messages::{self, ATTACHED_FILE, MessageWithFiles},
        resources::{NewResource, ResourcePutOutcome},
    },
    time::Now,
};

impl Database {
    /// Stores a resource: first the file of a large one, then its row.
    pub(crate) async fn store_resource(
        &self,
        new: Arc<NewResource>,
        by: WriteContext,
        now: Millis,
    ) -> Result<ResourceId> {
        let by = Arc::new(by);
        loop {
            self.write_file(&new).await?;
            let (row, author, files) =
                (Arc::clone(&new), Arc::clone(&by), self.engine.resource_files());
            match self.write(move |tx| row.insert_row(tx, &author, files.as_ref(), now)).await {
                Ok(ResourcePutOutcome::Stored) => return Ok(new.id),
                Ok(ResourcePutOutcome::FileGone) => {}
                Err(refused) => {
                    // A refused resource leaves no file; the reason of the refusal matters more than a file left
                    // over.
                    drop(self.sweep_resources(new.workflow).await);
                    return Err(refused);
                }
            }
        }
    }

    /// Stores a message with its files: first the contents of large files, then all rows in one transaction.
    pub(crate) async fn store_message_with_files(
        &self,
        (by, pause): (WriteContext, Option<PauseCause>),
        workflow: WorkflowId,
        message: NewMessage,
        now: Now,
    ) -> Result<Once<Seq>> {
        let files = self.engine.resource_files();
        // Hashing takes a while if the files are large.
        let hash = move || MessageWithFiles::new(workflow, message, files);
        let new = tokio::task::spawn_blocking(hash).await.map_err(|_| Error::Closed)?;
        let (new, by) = (Arc::new(new), Arc::new((by, pause)));
        loop {
            match self.try_store_message(&new, &by, workflow, now).await {
                Ok(Once::New(seq)) => return Ok(Once::New(seq)),
                Err(Error::NotFound(ATTACHED_FILE)) => {}
                other => {
                    // A message that was not written leaves no file; its result matters more than a file left over.
                    drop(self.sweep_resources(workflow).await);
                    return other;
                }
            }
        }
    }

    async fn try_store_message(
        &self,
        new: &Arc<MessageWithFiles>,
        by: &Arc<(WriteContext, Option<PauseCause>)>,
        workflow: WorkflowId,
        now: Now,
    ) -> Result<Once<Seq>> {
        for resource in &new.resources {
            self.write_file(resource).await?;
        }
        let (row, author) = (Arc::clone(new), Arc::clone(by));
        self.write(move |tx| {
            let (by, pause) = &*author;
            messages::append(tx, by, workflow, &row, pause.as_ref(), now)
        })
        .await
    }

    async fn write_file(&self, new: &Arc<NewResource>) -> Result<()> {
        let Some(files) = self.engine.resource_files().filter(|_| new.is_large()) else {
            return Ok(());
        };
        let new = Arc::clone(new);
        let write = move || files.write(&new);
        tokio::task::spawn_blocking(write).await.map_err(|_| Error::Closed)?
    }

    /// Removes the files of resources that have no row.
    pub(crate) async fn sweep_resources(&self, workflow: WorkflowId) -> Result<()> {
        let Some(files) = self.engine.resource_files() else { return Ok(()) };
        self.write(move |tx| files.sweep(tx, workflow)).await
    }
}
