//! Who somebody is, by the secret they hold. Only hashes are stored.

use std::sync::Arc;

use agent_worker_protocol::{
    AttemptId, Hash,
    api::{TokenCreated, TokenView},
    hash,
};

use crate::{
    clock::NoDice,
    error::{Error, Result},
    kernel::{Kernel, Principal},
};

/// A secret, as it is sent.
pub(crate) fn secret(dice: &crate::clock::Dice) -> std::result::Result<String, NoDice> {
    let bytes = dice.secret()?;
    Ok(bytes.iter().fold(String::from("aw_"), |text, byte| format!("{text}{byte:02x}")))
}

/// What is kept of it.
pub(crate) fn digest(secret: &str) -> Hash {
    hash(&[b"token", secret.as_bytes()])
}

impl Kernel {
    /// Who holds this token. An attempt's is dead when the attempt ends.
    pub async fn principal(&self, token: &str) -> Result<Principal> {
        let digest = digest(token);
        if let Some(attempt) = self.store.attempt_by_token(digest).await? {
            return Ok(Principal::Agent(Arc::new(attempt)));
        }
        let client = self.store.token_find(digest).await?;
        client.map(Principal::Client).ok_or(Error::Unauthorized)
    }

    /// The agent whose attempt this is, for a process found inside its tree; nobody once it has ended.
    pub async fn inhabitant(&self, attempt: AttemptId) -> Result<Principal> {
        match self.store.attempt_get(attempt).await {
            Ok(row) if row.ended.is_none() => Ok(Principal::Agent(Arc::new(row))),
            Ok(_) | Err(agent_worker_store::Error::NotFound(_)) => Ok(Principal::Nobody),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes a client's token; it is shown once.
    pub async fn token_create(&self, who: &Principal, name: String) -> Result<TokenCreated> {
        who.require_user("only the user makes tokens")?;
        let fine = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if name.is_empty() || name.len() > 64 || !name.chars().all(fine) {
            let why = "a token's name is up to 64 letters, digits, `.`, `-` and `_`";
            return Err(Error::BadRequest(why.into()));
        }
        let token = secret(&self.dice)?;
        self.store.token_put(name.clone(), digest(&token), self.clock.now()).await?;
        Ok(TokenCreated { name, token })
    }

    /// Lists the clients' tokens.
    pub async fn token_list(&self, who: &Principal) -> Result<Vec<TokenView>> {
        who.require_user("only the user lists tokens")?;
        Ok(self.store.token_list().await?)
    }

    /// Takes a client's token back.
    pub async fn token_revoke(&self, who: &Principal, name: String) -> Result<()> {
        who.require_user("only the user revokes tokens")?;
        Ok(self.store.token_remove(name).await?)
    }
}
