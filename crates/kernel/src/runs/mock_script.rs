//! The script and the mock tools of an agent of a live run: their replacement.

use agent_worker_protocol::{
    AgentSettings, Backend, EffectKey, InstanceRef, MockRule, MockTool, Permission,
    api::{AgentMocks, MockRequest},
};
use agent_worker_store::{Error as StoreError, NewAgent};
use agent_worker_workflow::{AgentDraftError, MockToolChange, change_mock_tools, check_mock_rules};

use crate::{
    access::instance_resolution::InstanceSelector,
    error::{Error, Result},
    kernel::{Kernel, Principal},
    runs::members::Agents,
};

impl Agents<'_> {
    /// Gives an agent another script or other mock tools, which its next turn uses. Completes even if the caller disconnects.
    pub async fn set_mock(
        self,
        who: &Principal,
        key: Option<EffectKey>,
        selector: &InstanceSelector,
        request: MockRequest,
    ) -> Result<AgentMocks> {
        who.require(Permission::Agents)?;
        if request == MockRequest::default() {
            let message = "the request changes nothing: give `rules`, `tools` or `clear`";
            return Err(Error::BadRequest(message.into()));
        }
        let mut rules = request.rules.iter().flatten();
        if rules.any(runs_a_command) && !matches!(who, Principal::User) {
            return Err(Error::Forbidden("only the user may give an agent a command to run"));
        }
        let (kernel, who, selector) = (self.0.clone(), who.clone(), selector.clone());
        self.0
            .scheduler
            .run_to_completion(
                async move { kernel.change_mocks(&who, key, &selector, request).await },
            )
            .await
    }
}

fn runs_a_command(rule: &MockRule) -> bool {
    rule.run.is_some()
}

impl Kernel {
    async fn change_mocks(
        &self,
        who: &Principal,
        key: Option<EffectKey>,
        selector: &InstanceSelector,
        request: MockRequest,
    ) -> Result<AgentMocks> {
        let (instance, run, agent) = self.resolve_member(who, selector).await?;
        let _alone = self.membership_lock.acquire().await;
        let run_context = self.run_context(run).await?;
        let file_tools = run_context.file_mock_tools(&agent);
        let settings = run_context.agent(&agent)?.clone();
        let by = who.author_with_key(key)?;
        // A repeated request may be one that could not be made again, such as the removal of a tool.
        if by.key.is_some() && self.store.effect_is_known(by.clone(), instance.id).await? {
            return Ok(mocks_of(settings, instance.instance));
        }
        let settings = with_mocks(settings, file_tools, request)?;
        let text = serde_json::to_string(&settings)
            .map_err(|error| StoreError::InvalidValue(format!("agent: {error}")))?;
        let new = NewAgent { name: agent, settings: text };
        let changed = self.store.agent_mock_set(by, instance.id, new, self.now()).await;
        // Evict in any case: the settings may have been changed.
        self.run_context_evict(run);
        changed?;
        self.end_hold(who).await;
        Ok(mocks_of(settings, instance.instance))
    }
}

fn mocks_of(settings: AgentSettings, instance: InstanceRef) -> AgentMocks {
    let rules = match settings.backend {
        Backend::Mock { rules } => rules,
        Backend::Api(_) | Backend::Native(_) | Backend::Acp(_) | Backend::Command { .. } => {
            Vec::new()
        }
    };
    AgentMocks { agent: settings.name, instance, rules, tools: settings.mock_tools }
}

/// Returns the settings of an agent with another script and other mock tools.
fn with_mocks(
    settings: AgentSettings,
    file_tools: &[MockTool],
    MockRequest { rules, tools: set, clear }: MockRequest,
) -> Result<AgentSettings> {
    let keeps_script = rules.is_none();
    let mut settings = match rules {
        Some(rules) => with_script(settings, rules)?,
        None => settings,
    };
    let change = MockToolChange { set, clear };
    settings.mock_tools = change_mock_tools(&settings, file_tools, change).map_err(bad_agent)?;
    let Backend::Mock { rules } = &settings.backend else { return Ok(settings) };
    match check_mock_rules(rules, &settings.mock_tools) {
        Ok(()) => Ok(settings),
        Err(unknown) if keeps_script => Err(Error::BadAgent {
            message: format!("the script of `{}` calls it: {unknown}", settings.name),
            correction: "change the script first".into(),
        }),
        Err(unknown) => Err(bad_agent(unknown)),
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
