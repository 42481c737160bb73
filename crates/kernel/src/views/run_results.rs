//! The results of a run for programs: the answers of its agents and its documents.

use std::{collections::BTreeMap, path::PathBuf};

use agent_worker_protocol::{
    AgentName, Message, Sender,
    api::{AnswerView, DocumentEntry},
};
use agent_worker_store::{ListRange, RunRow, RunSnapshot};
use agent_worker_workflow::{Documents, WorkflowContext};
use serde::Deserialize;

use crate::{documents::document_entry, error::Result, kernel::Kernel};

/// The part of a run's script that names its files.
#[derive(Deserialize)]
struct StoredScript {
    workflow: StoredWorkflow,
}

#[derive(Deserialize)]
struct StoredWorkflow {
    context: WorkflowContext,
}

impl Kernel {
    /// Returns the newest answer of each agent at the time of `snapshot`. Messages do not change, so a later read of
    /// their texts is consistent with it.
    pub(super) async fn run_answers(
        &self,
        snapshot: &RunSnapshot,
    ) -> Result<BTreeMap<AgentName, AnswerView>> {
        if snapshot.answers.is_empty() {
            return Ok(BTreeMap::new());
        }
        let seqs = snapshot.answers.iter().map(|(_, seq)| *seq).collect();
        let messages = self.store.message_get(snapshot.run.workflow, seqs).await?;
        let answer = |(agent, seq): &(AgentName, _)| {
            // The row of an answer has no checksum; the message says its author and its run.
            let is_answer = |message: &&Message| {
                let author = Sender::Agent(agent.clone());
                message.seq == *seq && message.from == author && message.run == snapshot.run.id
            };
            let message = messages.iter().find(is_answer)?;
            let (text, resource) = (message.body.clone(), message.resource);
            Some((agent.clone(), AnswerView { seq: *seq, text, resource }))
        };
        Ok(snapshot.answers.iter().filter_map(answer).collect())
    }

    /// Returns the documents whose newest revision was written in a run.
    pub(super) async fn run_documents(&self, run: &RunRow) -> Result<Vec<DocumentEntry>> {
        let written = self.store.document_written(run.workflow, run.id).await?;
        Ok(written.into_iter().map(document_entry).collect())
    }

    /// Returns the file of the default document, if the document exists and is kept in a file.
    pub(super) async fn run_document(&self, run: &RunRow) -> Result<Option<PathBuf>> {
        let Ok(StoredScript { workflow: StoredWorkflow { context } }) =
            serde_json::from_str(&run.script)
        else {
            return Ok(None);
        };
        match context.documents {
            Documents::File => {}
            Documents::Store | Documents::Off => return Ok(None),
        }
        let path = context.layout.document.clone();
        let newest = ListRange::first(1);
        if self.store.document_history(run.workflow, path.clone(), newest).await?.is_empty() {
            return Ok(None);
        }
        let folder = context.layout.document_folder(&run.instance.name, &run.instance.tag);
        let folder = PathBuf::from(&run.project).join(folder.iter().collect::<PathBuf>());
        Ok(Some(folder.join(path.as_str())))
    }
}
