//! Agents that belong to no file: created one by one, with the same defaults and the same error messages.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use agent_worker_backends::BackendKind;
use agent_worker_protocol::{
    AgentName, AgentSettings, HistoryMode, MockRule, MockTool, NotifySettings, Permissions,
    RetryPolicy, SandboxSettings, WorkflowName,
};

use crate::{
    agents::{DEFAULT_SILENCE, DEFAULT_TIMEOUT},
    agents::{
        backend::{self, BackendInputs, backend_of_model, backend_of_word},
        builtin_tools::{self, ToolKeys},
        mock::{self, CallableTools},
        permissions::WrittenPermissions,
    },
    definition::{
        answers::AnswerHandling,
        context::{Documents, WorkflowContext},
        limits::LimitSettings,
        tasks::TaskProcedure,
        workflow::Workflow,
    },
    diagnostics::diagnostic::Diagnostics,
    error::Error,
    yaml,
    yaml::{
        fields::YamlField,
        text_file::{FileReadError, MAX_FILE_BYTES},
    },
};

/// Input for an agent that a user creates without a file.
#[derive(Clone, Debug)]
pub struct AgentDraft {
    /// Name of the agent.
    pub name: AgentName,
    /// Backend through which its worker reaches a model, as written.
    pub backend: Option<String>,
    /// Model, as written by the user.
    pub model: Option<String>,
    /// System prompt of the agent.
    pub system_prompt: Option<String>,
    /// The script of a `mock` agent.
    pub mock: Vec<MockRule>,
    /// Known agent of the backend `acp`, as written.
    pub agent: Option<String>,
    /// Program and its arguments.
    pub command: Vec<String>,
    /// Working folder, if it differs from the run's.
    pub cwd: Option<PathBuf>,
}

/// Reason for which a draft is invalid.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{message}")]
pub struct AgentDraftError {
    /// Description of the mistake.
    pub message: String,
    /// Suggestion for a correction.
    pub hint: String,
}

/// Parses the script of a `mock` agent alone: the list after `mock:` in a file. `path` is its name in messages; the
/// file is not read.
pub fn parse_mock_script(text: &str, path: &Path) -> Result<Vec<MockRule>, Error> {
    parse_script(text, path, CallableTools::TeamAnd(&[]))
}

/// Parses the same for an agent whose mock tools are not known: `check_mock_rules` checks the names of the tools.
pub fn parse_live_mock_script(text: &str, path: &Path) -> Result<Vec<MockRule>, Error> {
    parse_script(text, path, CallableTools::Any)
}

fn parse_script(
    text: &str,
    path: &Path,
    callable: CallableTools<'_>,
) -> Result<Vec<MockRule>, Error> {
    if text.len() > MAX_FILE_BYTES {
        return Err(Error::unreadable(path, &FileReadError::TooLarge));
    }
    let mut diagnostics = Diagnostics::default();
    let root = diagnostics.ok_or_add(yaml::read(text));
    let rules = root.map(|root| mock::read(&YamlField::root(&root), callable, &mut diagnostics));
    match rules {
        Some(rules) if diagnostics.is_empty() => Ok(rules),
        Some(_) | None => Err(Error::invalid(path, text, diagnostics)),
    }
}

/// Checks the tools in the script of a `mock` agent with these mock tools.
pub fn check_mock_rules(rules: &[MockRule], own: &[MockTool]) -> Result<(), AgentDraftError> {
    let own: Vec<_> = own.iter().map(|tool| tool.name.as_str()).collect();
    let callable = CallableTools::TeamAnd(&own);
    let mut calls = rules.iter().flat_map(|rule| &rule.calls);
    match calls.find_map(|call| mock::unknown_tool(&call.tool, callable)) {
        Some((message, hint)) => Err(AgentDraftError { message, hint }),
        None => Ok(()),
    }
}

impl AgentDraft {
    /// Completes the draft with the defaults.
    pub fn into_settings(self) -> Result<AgentSettings, AgentDraftError> {
        let spec = match (self.backend.as_deref(), self.model.as_deref()) {
            (Some(word), _) => backend_of_word(word),
            (None, _) if !self.mock.is_empty() => Ok(backend::of_kind(BackendKind::Mock)),
            (None, Some(model)) => backend_of_model(model),
            (None, None) if !self.command.is_empty() => Ok(backend::of_kind(BackendKind::Command)),
            (None, None) => {
                let message = format!("`{}` needs a backend: {}", self.name, backend::NO_DEFAULT);
                Err((message, backend::backend_choices()))
            }
        };
        let mut calls = self.mock.iter().flat_map(|rule| &rule.calls);
        let callable = CallableTools::TeamAnd(&[]);
        let strange = calls.find_map(|call| mock::unknown_tool(&call.tool, callable));
        let spec = spec.and_then(|spec| strange.map_or(Ok(spec), Err));
        let inputs = BackendInputs {
            rules: self.mock,
            model: self.model.clone(),
            agent: self.agent,
            command: self.command,
        };
        let backend = spec.and_then(|spec| backend::with_defaults(spec, inputs));
        let backend = backend.map_err(|(message, hint)| AgentDraftError { message, hint })?;
        let mut settings = AgentSettings {
            name: self.name,
            backend,
            model: self.model,
            fallback: Vec::new(),
            system_prompt: self.system_prompt,
            max_tokens: None,
            max_steps: None,
            output_schema: None,
            effort: None,
            timeout: DEFAULT_TIMEOUT,
            silence: DEFAULT_SILENCE,
            retry: RetryPolicy::default(),
            cwd: self.cwd,
            env: Vec::new(),
            requires: BTreeMap::new(),
            permissions: Permissions::default(),
            sandbox: SandboxSettings::default(),
            mock_tools: Vec::new(),
        };
        let (tools, permissions) = (None, WrittenPermissions::Absent);
        builtin_tools::complete(&mut settings, ToolKeys { tools, permissions, has_sandbox: false });
        Ok(settings)
    }
}

impl Workflow {
    /// Creates the workflow of standalone agents, with a name, the default limits and no agents yet.
    pub fn standalone(name: WorkflowName) -> Self {
        Self {
            name,
            params: Vec::new(),
            agents: Vec::new(),
            // Standalone agents have no folder for document files.
            context: WorkflowContext { documents: Documents::Store, ..WorkflowContext::default() },
            setup: Vec::new(),
            kickoff: None,
            answers: AnswerHandling::default(),
            finisher: None,
            limits: LimitSettings::default(),
            notify: NotifySettings::default(),
            gates: BTreeMap::new(),
            history: HistoryMode::default(),
            tasks: TaskProcedure::default(),
            env_names: BTreeSet::new(),
            warnings: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use agent_worker_protocol::{Backend, MockCall};

    use super::*;

    const CHOICE: &str = "this version has `claude`, `codex`, `gemini`, `opencode`, `cursor`, `api`, `acp`, `command`, `mock`";

    const PROVIDER_CHOICE: &str = "name it as `PROVIDER/MODEL`; known providers are `anthropic`, `openai`, `google`, `azure`, \
        `openrouter`, `deepseek`, `groq`, `mistral`, `xai`, `together`, `ollama`, `lmstudio`, `vllm`, `llamacpp`";

    const ACP_CHOICE: &str =
        "known agents are `claude`, `codex`, `copilot`, `gemini`, `opencode`, `qwen`";

    fn draft(backend: Option<&str>, model: Option<&str>) -> AgentDraft {
        AgentDraft {
            name: "alice".parse().unwrap(),
            backend: backend.map(str::to_owned),
            model: model.map(str::to_owned),
            system_prompt: None,
            mock: Vec::new(),
            agent: None,
            command: Vec::new(),
            cwd: None,
        }
    }

    #[test]
    fn a_script_by_itself_is_read_like_one_in_a_file() {
        let here = Path::new("--mock");
        let rules = parse_mock_script("[{ on: poison, exit: 3 }, { say: Hoo. }]", here).unwrap();
        assert_eq!((rules.len(), rules[1].say.as_deref()), (2, Some("Hoo.")));
        for (text, expected) in [
            ("say: Hoo.", "the file must be a list, not a mapping"),
            ("[{ sya: Hoo. }]", "unknown key `[0].sya`"),
        ] {
            assert_eq!(parse_mock_script(text, here).unwrap_err().mistakes()[0].message, expected);
        }
    }

    #[test]
    fn a_program_is_named_by_its_command_or_as_a_known_agent() {
        let with = |backend: Option<&str>, agent: Option<&str>, command: &[&str]| {
            let agent = agent.map(str::to_owned);
            let command = command.iter().map(ToString::to_string).collect();
            let settings = AgentDraft { agent, command, ..draft(backend, None) }.into_settings();
            settings.map(|settings| settings.backend).map_err(|bad| bad.message)
        };
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let command = Backend::Command { command: words("./agent.py --fast") };
        assert_eq!(with(Some("command"), None, &["./agent.py", "--fast"]), Ok(command.clone()));
        assert_eq!(with(None, None, &["./agent.py", "--fast"]), Ok(command));
        let Ok(Backend::Acp(any)) = with(Some("acp"), None, &["./acp.py"]) else { panic!() };
        assert_eq!((any.agent, any.command), (None, words("./acp.py")));
        let Ok(Backend::Acp(known)) = with(Some("acp"), Some("gemini"), &[]) else { panic!() };
        assert_eq!(known.agent, Some("gemini".into()));
        for (backend, agent, command, expected) in [
            ("acp", Some("gemni"), &[][..], "there is no known agent `gemni`"),
            ("mock", None, &["./x"], "backend `mock` takes no command"),
            ("api", None, &["./x"], "backend `api` takes no command"),
            ("command", Some("gemini"), &["./x"], "`agent` is for the backend `acp`"),
        ] {
            assert_eq!(with(Some(backend), agent, command), Err(expected.into()));
        }
    }

    #[test]
    fn an_invalid_draft_is_refused_with_a_suggestion() {
        for (backend, model, message, hint) in [
            (None, None, "`alice` needs a backend: there is no default", CHOICE),
            (
                Some("sdk"),
                None,
                "backend `api` needs a model",
                "such as `anthropic/claude-sonnet-5-5`",
            ),
            (
                Some("api"),
                Some("gpt"),
                "the provider of the model `gpt` is not known",
                PROVIDER_CHOICE,
            ),
            (Some("mok"), None, "there is no backend `mok`", "did you mean `mock`?"),
            (
                None,
                Some("gpt"),
                "the model `gpt` does not imply a backend",
                "add a backend; this version has `claude`, `codex`, `gemini`, `opencode`, `cursor`, `api`, `acp`, `command`, `mock`",
            ),
            (
                None,
                Some("antropic/claude-sonnet-5-5"),
                "the model `antropic/claude-sonnet-5-5` does not imply a backend",
                "did you mean `anthropic/claude-sonnet-5-5`?",
            ),
            (
                Some("command"),
                None,
                "backend `command` needs a program",
                "give the program and its arguments, such as `./agent.py --fast`",
            ),
            (Some("acp"), None, "`acp` needs an agent or a command", ACP_CHOICE),
        ] {
            let bad = draft(backend, model).into_settings().unwrap_err();
            assert_eq!((bad.message.as_str(), bad.hint.as_str()), (message, hint));
        }
        let calls = vec![MockCall { tool: "inbox_chek".into(), args: BTreeMap::new() }];
        let mock = vec![MockRule { calls, ..MockRule::default() }];
        let bad = AgentDraft { mock, ..draft(None, None) }.into_settings().unwrap_err();
        assert_eq!(bad.message, "there is no tool `inbox_chek`");
        assert_eq!(bad.hint, "did you mean `inbox_check`?");
        let direct = draft(None, Some("haiku")).into_settings().unwrap().backend;
        let Backend::Api(direct) = direct else { panic!("{direct:?}") };
        assert_eq!(
            (direct.provider.as_str(), direct.model.as_str()),
            ("anthropic", "claude-haiku-5-5")
        );
        for good in [draft(Some("mock"), None), draft(None, Some("mock/echo"))] {
            assert_eq!(good.into_settings().unwrap().backend.word(), "mock");
        }
        for good in [draft(Some("claude"), None), draft(None, Some("claude:opus"))] {
            assert_eq!(good.into_settings().unwrap().backend.word(), "claude");
        }
    }
}
