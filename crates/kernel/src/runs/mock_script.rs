//! The script of a mock agent of a live run: its replacement.

use agent_worker_protocol::{
    AgentSettings, Backend, EffectKey, MockRule, Permission,
    api::{MockRequest, MockScript},
};
use agent_worker_store::{Error as StoreError, NewAgent};
use agent_worker_workflow::{AgentDraftError, check_mock_rules};

use crate::{
    access::instance_resolution::InstanceSelector,
    error::{Error, Result},
    kernel::{Kernel, Principal},
    runs::members::Agents,
};

impl Agents<'_> {
    /// Gives a mock agent another script, which its next turn uses. Completes even if the caller disconnects.
    pub async fn set_mock(
        self,
        who: &Principal,
        key: Option<EffectKey>,
        selector: &InstanceSelector,
        request: MockRequest,
    ) -> Result<MockScript> {
        who.require(Permission::Agents)?;
        if request.rules.iter().any(runs_a_command) && !matches!(who, Principal::User) {
            return Err(Error::Forbidden("only the user may give an agent a command to run"));
        }
        let (kernel, who, selector) = (self.0.clone(), who.clone(), selector.clone());
        self.0
            .scheduler
            .run_to_completion(async move {
                kernel.set_mock_script(&who, key, &selector, request.rules).await
            })
            .await
    }
}

fn runs_a_command(rule: &MockRule) -> bool {
    rule.run.is_some()
}

impl Kernel {
    async fn set_mock_script(
        &self,
        who: &Principal,
        key: Option<EffectKey>,
        selector: &InstanceSelector,
        rules: Vec<MockRule>,
    ) -> Result<MockScript> {
        let (instance, run, agent) = self.resolve_member(who, selector).await?;
        let _alone = self.membership_lock.acquire().await;
        let settings = self.run_context(run).await?.agent(&agent)?.clone();
        check_mock_rules(&rules, &settings.mock_tools).map_err(bad_agent)?;
        let settings = with_script(settings, rules.clone())?;
        let text = serde_json::to_string(&settings)
            .map_err(|error| StoreError::InvalidValue(format!("agent: {error}")))?;
        let new = NewAgent { name: agent.clone(), settings: text };
        let by = who.author_with_key(key)?;
        let changed = self.store.agent_mock_set(by, instance.id, new, self.now()).await;
        // Evict in any case: the script may have been changed.
        self.run_context_evict(run);
        changed?;
        self.end_hold(who).await;
        Ok(MockScript { agent, instance: instance.instance, rules })
    }
}

fn bad_agent(AgentDraftError { message, hint }: AgentDraftError) -> Error {
    Error::BadAgent { message, correction: hint }
}

/// Returns the settings of a mock agent with another script.
fn with_script(settings: AgentSettings, rules: Vec<MockRule>) -> Result<AgentSettings> {
    match settings.backend {
        Backend::Mock { .. } => Ok(AgentSettings { backend: Backend::Mock { rules }, ..settings }),
        Backend::Api(_) | Backend::Native(_) | Backend::Acp(_) | Backend::Command { .. } => {
            Err(Error::BadAgent {
                message: format!(
                    "`{}` has the backend `{}`; only a mock agent has a script",
                    settings.name,
                    settings.backend.word()
                ),
                correction: "send it a message instead, or set `backend: mock` in the file".into(),
            })
        }
    }
}
