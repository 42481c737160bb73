//! Identifies a caller by its token. Only hashes are stored.

use std::{net::SocketAddr, sync::Arc};

use agent_worker_protocol::{
    AttemptId, Hash, InstancePattern, RunId,
    api::{ListPage, TokenCreated, TokenRequest, TokenView},
    has_parent_component, hash, hmac,
};
use agent_worker_store::AttemptRow;
use agent_worker_workflow::OpenFolder;

use crate::{
    access::client_env,
    clock::RandomnessUnavailable,
    error::{Error, Result},
    kernel::{Kernel, Principal},
    views::page::PageRequest,
};

/// Prefixes of client and attempt tokens, which distinguish the two kinds.
const CLIENT_TOKEN_PREFIX: &str = "aw_";
const ATTEMPT_TOKEN_PREFIX: &str = "awt_";

/// Creates the token of an attempt.
pub(crate) fn new_attempt_token(
    random: &crate::clock::RandomSource,
) -> std::result::Result<String, RandomnessUnavailable> {
    new_token(random, ATTEMPT_TOKEN_PREFIX)
}

fn new_token(
    random: &crate::clock::RandomSource,
    prefix: &str,
) -> std::result::Result<String, RandomnessUnavailable> {
    let bytes = random.random_bytes()?;
    Ok(bytes.iter().fold(String::from(prefix), |text, byte| format!("{text}{byte:02x}")))
}

/// Returns the hash under which a token is stored.
pub(crate) fn token_hash(secret: &str) -> Hash {
    hash(&[b"token", secret.as_bytes()])
}

fn agent_principal(attempt: AttemptRow) -> Principal {
    Principal::Agent(Arc::new(attempt.into()))
}

/// Returns the patterns with the canonical paths of their folders: a project has only that one.
async fn canonical_patterns(patterns: Vec<InstancePattern>) -> Result<Vec<InstancePattern>> {
    let folders = patterns.iter().filter_map(InstancePattern::folder);
    if folders.into_iter().any(has_parent_component) {
        return Err(Error::BadRequest(
            "the folder of an instance pattern must not have `..`".into(),
        ));
    }
    let canonical = |pattern: InstancePattern| {
        let folder = pattern.folder().and_then(|folder| OpenFolder::open(folder).ok());
        // A folder that does not exist yet is stored as it was written.
        match folder.and_then(|folder| folder.path().to_str().map(str::to_owned)) {
            Some(path) => pattern.with_folder(path),
            None => pattern,
        }
    };
    let resolved = move || patterns.into_iter().map(canonical).collect();
    let interrupted = |_| Error::BadRequest("reading the folders was interrupted".into());
    tokio::task::spawn_blocking(resolved).await.map_err(interrupted)
}

/// Creates and revokes tokens, and identifies callers.
#[derive(Clone, Copy)]
pub struct Tokens<'k>(pub(crate) &'k Kernel);

impl Tokens<'_> {
    /// Returns the holder of a token. An attempt's token is invalid after the attempt has ended.
    pub async fn principal_by_token(self, token: &str) -> Result<Principal> {
        let digest = token_hash(token);
        let known = if token.starts_with(ATTEMPT_TOKEN_PREFIX) {
            let attempt = self.0.store.attempt_by_token(digest).await?;
            attempt.map(agent_principal)
        } else {
            self.0.store.token_find(digest).await?.map(Principal::Client)
        };
        known.ok_or(Error::Unauthorized)
    }

    /// Returns the principal of a process that carries a mark: the agent while its attempt is live; anonymous after
    /// it has ended, or if the mark is a run's id, carried by processes of its setup. None: the mark is not of this
    /// store.
    pub async fn principal_by_mark(self, mark: AttemptId) -> Result<Option<Principal>> {
        match self.0.store.attempt_get(mark).await {
            Ok(row) if row.ended.is_none() => return Ok(Some(agent_principal(row))),
            Ok(_) => return Ok(Some(Principal::Anonymous)),
            Err(agent_worker_store::Error::NotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
        match self.0.store.run_get(RunId::new(mark.get())).await {
            Ok(_) => Ok(Some(Principal::Anonymous)),
            Err(agent_worker_store::Error::NotFound(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the proof that this daemon knows the token `name`, for a client that dialled `address`. The address is part
    /// of the proof, so that a program at another address cannot pass a nonce on. None: there is no such token.
    pub async fn daemon_proof(
        self,
        name: &str,
        nonce: &str,
        address: SocketAddr,
    ) -> Result<Option<String>> {
        let Some(key) = self.0.store.token_hash(name.to_owned()).await? else { return Ok(None) };
        let proof = hmac(&key, format!("{nonce}\n{address}").as_bytes());
        Ok(Some(proof.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))))
    }

    /// Creates a client's token; its text is returned only here.
    pub async fn create(self, who: &Principal, request: TokenRequest) -> Result<TokenCreated> {
        who.require_user("only the user may create tokens")?;
        let name = request.name.clone();
        let fine = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if name.is_empty() || name.len() > 64 || !name.chars().all(fine) {
            let why = "a token's name must be 1 to 64 letters, digits, `.`, `-` or `_`";
            return Err(Error::BadRequest(why.into()));
        }
        let mut scopes = request.scopes();
        if scopes.allow.is_empty() {
            return Err(Error::BadRequest("a token needs at least one permission".into()));
        }
        client_env::check_granted(&scopes.env)?;
        scopes.instances = canonical_patterns(scopes.instances).await?;
        let token = new_token(&self.0.random, CLIENT_TOKEN_PREFIX)?;
        self.0.store.token_put(name.clone(), token_hash(&token), scopes, self.0.now().wall).await?;
        Ok(TokenCreated { name, token })
    }

    /// Lists the clients' tokens.
    pub async fn list(self, who: &Principal, page: &PageRequest) -> Result<ListPage<TokenView>> {
        who.require_user("only the user may list tokens")?;
        let mut page = page.start("tokens")?;
        let tokens = self.0.store.token_list().await?;
        for token in tokens {
            page.push(token.name.clone(), token);
        }
        page.finish()
    }

    /// Revokes a client's token.
    pub async fn revoke(self, who: &Principal, name: String) -> Result<()> {
        who.require_user("only the user may revoke tokens")?;
        Ok(self.0.store.token_remove(name).await?)
    }
}
