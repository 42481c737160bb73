//! Tokens of programs on this machine: one file each, in a folder of the home that only the user can read. Revoking a
//! token leaves its file, which is then useless; only a person creates a new token.

use std::{fs, io, path::PathBuf, time::Duration};

use agent_worker_host::DialError;
use agent_worker_protocol::{Code, Scopes, api::TokenRequest};
use tokio::time::{Instant, sleep};

use crate::{
    client::{daemon_client::DaemonClient, discovery, local_state::replace_file},
    error::{CliError, CliErrorKind},
    input::{grant::Grant, settings::CliSettings},
};

/// Time limit for another bridge that creates the same token to write its file.
const TOKEN_FILE_TIMEOUT: Duration = Duration::from_secs(1);
const TOKEN_FILE_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The token of one program.
pub(crate) struct ClientToken {
    /// Name of the token.
    pub(crate) name: String,
    file: PathBuf,
}

impl ClientToken {
    /// Creates the handle to the token of this program.
    pub(crate) fn for_program(program: &str, settings: &CliSettings) -> Self {
        let file = settings.home.join("clients").join(format!("{program}.token"));
        Self { name: format!("mcp-{program}"), file }
    }

    /// Returns the token, and creates it if there never was one.
    pub(crate) async fn get_or_create(&self, settings: &CliSettings) -> Result<String, CliError> {
        if let Some(token) = self.read()? {
            return Ok(token);
        }
        let request = Grant::default().request(&self.name);
        self.create(&discovery::connect_or_start(settings).await?, request).await
    }

    /// Ensures a valid token and returns its scopes: the token is created again if it was revoked, if the file holds no
    /// known token, or if other scopes are requested now.
    pub(crate) async fn renew(
        &self,
        client: &DaemonClient,
        grant: &Grant,
    ) -> Result<Scopes, CliError> {
        let tokens = client.tokens().await?;
        let mut scopes = grant.scopes();
        if let Some(there) = tokens.into_iter().find(|token| token.name == self.name) {
            if !grant.is_specified() {
                scopes = there.scopes.clone();
            }
            if scopes == there.scopes && self.is_accepted(client).await? {
                return Ok(scopes);
            }
            client.token_revoke(&self.name).await?;
        }
        let Scopes { allow, instances, env } = scopes.clone();
        let name = self.name.clone();
        self.create(client, TokenRequest { name, allow: Some(allow), instances, env }).await?;
        Ok(scopes)
    }

    /// Returns whether the daemon accepts the file's token; waits for one that another process is creating.
    async fn is_accepted(&self, client: &DaemonClient) -> Result<bool, CliError> {
        let token = match self.read()? {
            Some(token) => Some(token),
            None => self.wait_for_concurrent_create().await.ok(),
        };
        match token {
            Some(token) => Ok(client.is_token_valid(token).await?),
            None => Ok(false),
        }
    }

    async fn create(
        &self,
        client: &DaemonClient,
        request: TokenRequest,
    ) -> Result<String, CliError> {
        match client.token_create(request).await {
            Ok(created) => {
                replace_file(&self.file, created.token.as_bytes())
                    .map_err(|error| self.file_error(error))?;
                Ok(created.token)
            }
            Err(DialError::Refused(problem)) if problem.code == Code::Conflict => {
                self.wait_for_concurrent_create().await
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Waits for the token that another process is creating.
    async fn wait_for_concurrent_create(&self) -> Result<String, CliError> {
        let deadline = Instant::now() + TOKEN_FILE_TIMEOUT;
        while Instant::now() < deadline {
            if let Some(token) = self.read()? {
                return Ok(token);
            }
            sleep(TOKEN_FILE_POLL_INTERVAL).await;
        }
        let what = format!(
            "the token `{}` exists, but its file {} does not",
            self.name,
            self.file.display()
        );
        Err(CliError::new(CliErrorKind::Refused(Code::Conflict), what)
            .with_hint(format!("revoke it and try again: agent-worker token revoke {}", self.name)))
    }

    fn read(&self) -> Result<Option<String>, CliError> {
        match fs::read_to_string(&self.file) {
            Ok(token) => Ok(Some(token.trim().to_owned()).filter(|token| !token.is_empty())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.file_error(error)),
        }
    }

    fn file_error(&self, error: io::Error) -> CliError {
        CliError::with_source(
            CliErrorKind::BadHome,
            format!("could not access {}", self.file.display()),
            error,
        )
    }
}
