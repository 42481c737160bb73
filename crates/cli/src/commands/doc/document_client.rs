//! Reads and writes documents through the daemon, with hints after a refusal.

use agent_worker_host::DialError;
use agent_worker_protocol::{
    Code, DocumentPath, Problem, Revision,
    api::{DocumentEntry, DocumentMode, DocumentRequest, DocumentText, DocumentWritten},
};
use agent_worker_workflow::nearest;
use uuid::Uuid;

use crate::{
    client::daemon_client::{CommandScope, DaemonClient},
    error::{CliError, CliErrorKind},
    output::text::one_line,
};

/// Maximum number of retries of a forced write after concurrent writes.
const MAX_WRITE_RETRIES: u32 = 10;

/// The precondition of a write.
#[derive(Clone, Copy)]
pub(super) enum WriteBase {
    /// The document does not exist.
    NewDocument,
    /// This is the newest revision.
    Revision(Revision),
    /// Any revision is accepted.
    Newest,
}

/// Reads and writes the documents of a team.
pub(super) struct DocumentClient {
    /// Client for the daemon.
    pub(super) client: DaemonClient,
    /// Scope of the team.
    pub(super) scope: CommandScope,
}

impl DocumentClient {
    /// Returns the named document, else the default one.
    pub(super) async fn resolve_path(
        &self,
        file: Option<DocumentPath>,
    ) -> Result<DocumentPath, CliError> {
        match file {
            Some(file) => Ok(file),
            None => Ok(self.client.document_default(&self.scope).await?.file),
        }
    }

    /// Returns the newest revision of a document, or an older one.
    pub(super) async fn read(
        &self,
        file: &DocumentPath,
        revision: Option<Revision>,
    ) -> Result<DocumentText, CliError> {
        let error = match self.client.document(&self.scope, file, revision).await {
            Ok(found) => return Ok(found),
            Err(DialError::Refused(problem)) if problem.code == Code::NotFound => problem,
            Err(other) => return Err(other.into()),
        };
        if revision.is_some() && self.read_newest(file).await?.is_some() {
            let history = self.doc_command_line(&format!("history {file}"));
            return Err(CliError::from(error).with_hint(format!("`{history}` lists what exists")));
        }
        Err(self.missing_document_error(error, file).await)
    }

    /// Returns the revisions of a document, newest first.
    pub(super) async fn revisions(
        &self,
        file: &DocumentPath,
    ) -> Result<Vec<DocumentEntry>, CliError> {
        match self.client.revisions(&self.scope, file).await {
            Err(DialError::Refused(problem)) if problem.code == Code::NotFound => {
                Err(self.missing_document_error(problem, file).await)
            }
            found => Ok(found?),
        }
    }

    async fn missing_document_error(&self, problem: Problem, file: &DocumentPath) -> CliError {
        let list = format!("`{}` lists what exists", self.doc_command_line("list"));
        CliError::from(problem).with_hint(match self.nearest_document(file).await {
            Some(near) => format!("did you mean `{near}`? {list}"),
            None => list,
        })
    }

    /// Returns the existing document with the most similar path. A failure only costs the suggestion.
    async fn nearest_document(&self, file: &DocumentPath) -> Option<DocumentPath> {
        let there = self.client.documents(&self.scope).await.ok()?;
        let near = nearest(file.as_str(), there.iter().map(|entry| entry.file.as_str()))?;
        there.iter().find(|entry| entry.file.as_str() == near).map(|entry| entry.file.clone())
    }

    /// Returns a command line for the same team's documents.
    fn doc_command_line(&self, words: &str) -> String {
        match &self.scope.target {
            Some(target) => format!("agent-worker doc {words} --target {target}"),
            None => format!("agent-worker doc {words}"),
        }
    }

    /// Returns the newest revision; `None` if the document does not exist.
    async fn read_newest(&self, file: &DocumentPath) -> Result<Option<DocumentText>, CliError> {
        let newest = None;
        match self.client.document(&self.scope, file, newest).await {
            Ok(found) => Ok(Some(found)),
            Err(DialError::Refused(problem)) if problem.code == Code::NotFound => Ok(None),
            Err(other) => Err(other.into()),
        }
    }

    /// Writes a whole document.
    pub(super) async fn write(
        &self,
        file: &DocumentPath,
        text: &str,
        follows: WriteBase,
    ) -> Result<DocumentWritten, CliError> {
        let request = |base_revision| DocumentRequest {
            base_revision,
            ..self.write_request(text.to_owned(), DocumentMode::Write)
        };
        match follows {
            WriteBase::Revision(base) => self.submit_write(file, &request(Some(base))).await,
            WriteBase::NewDocument => match self.read_newest(file).await? {
                None => self.submit_write(file, &request(None)).await,
                Some(there) => Err(self.already_exists_error(&there)),
            },
            WriteBase::Newest => {
                let mut races = 0;
                loop {
                    let base = self.read_newest(file).await?.map(|there| there.revision);
                    match self.submit_write(file, &request(base)).await {
                        Err(error)
                            if error.kind() == CliErrorKind::Refused(Code::Conflict)
                                && races < MAX_WRITE_RETRIES =>
                        {
                            races += 1;
                        }
                        other => return other,
                    }
                }
            }
        }
    }

    /// Sends the write; repeats a lost request with the same key, which creates only one revision.
    pub(super) async fn submit_write(
        &self,
        file: &DocumentPath,
        request: &DocumentRequest,
    ) -> Result<DocumentWritten, CliError> {
        let key = Uuid::now_v7().to_string();
        let written = match self.client.document_write(&key, file, request).await {
            Err(DialError::Lost { .. }) => self.client.document_write(&key, file, request).await,
            other => other,
        };
        written.map_err(|error| match (error, request.mode) {
            (DialError::Refused(problem), DocumentMode::Write)
                if problem.code == Code::Conflict =>
            {
                let read = self.doc_command_line(&format!("read {file}"));
                CliError::from(problem).with_hint(format!(
                    "read it again: {read}; then write with its revision as --base"
                ))
            }
            (DialError::Refused(problem), DocumentMode::Create)
                if problem.code == Code::Conflict =>
            {
                let read = self.doc_command_line(&format!("read {file}"));
                CliError::from(problem).with_hint(format!(
                    "read it: {read}; then `doc write` with --base, or `doc append`"
                ))
            }
            (other, _) => other.into(),
        })
    }

    /// Builds the request that writes `content`.
    pub(super) fn write_request(&self, content: String, mode: DocumentMode) -> DocumentRequest {
        let project = Some(self.scope.project.clone());
        DocumentRequest {
            target: self.scope.target.clone(),
            project,
            content,
            mode,
            base_revision: None,
        }
    }

    fn already_exists_error(&self, there: &DocumentText) -> CliError {
        let DocumentText { file, revision, author, .. } = there;
        let author = one_line(author);
        let what = format!("{file} already exists (revision {revision}, by {author})");
        let read = self.doc_command_line(&format!("read {file}"));
        CliError::new(CliErrorKind::Refused(Code::Conflict), what).with_hint(format!(
            "read it: {read}; then write with --base {revision}, or overwrite it with --force"
        ))
    }
}
