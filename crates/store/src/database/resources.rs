//! Resources: the content of a large one is a file, written before its row and removed after it.

use std::sync::Arc;

use agent_worker_protocol::{Millis, ResourceId, WorkflowId};

use super::Database;
use crate::{
    error::{Error, Result},
    model::WriteContext,
    sql::resources::{NewResource, ResourcePutOutcome},
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
