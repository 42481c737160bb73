//! The test environment of third-party agents: a world with a scripted model, and the programs that
//! `scripts/agents` installs.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    external_programs::{ExternalPrograms, agents},
    model_server::ModelServer,
    world::{TEST_TIMEOUT, World, record_skip, wait_within},
};

/// The program of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cli {
    Claude,
    Codex,
    Gemini,
    /// Tested only with `REAL_CLIS=all`.
    Opencode,
    /// Over the Agent Client Protocol: Claude Code and Codex through adapters, the others directly. Only Claude Code and
    /// Gemini CLI are tested without `REAL_CLIS=all`.
    AcpClaude,
    AcpCodex,
    /// The other adapter, of the vendor of Zed.
    AcpZedCodex,
    AcpGemini,
    AcpOpencode,
    AcpQwen,
    AcpCopilot,
}

impl Cli {
    pub(super) const ALL: [Self; 11] = [
        Self::Claude,
        Self::Codex,
        Self::Gemini,
        Self::Opencode,
        Self::AcpClaude,
        Self::AcpCodex,
        Self::AcpZedCodex,
        Self::AcpGemini,
        Self::AcpOpencode,
        Self::AcpQwen,
        Self::AcpCopilot,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
            Self::AcpClaude => "acp-claude",
            Self::AcpCodex => "acp-codex",
            Self::AcpZedCodex => "acp-codex-zed",
            Self::AcpGemini => "acp-gemini",
            Self::AcpOpencode => "acp-opencode",
            Self::AcpQwen => "acp-qwen",
            Self::AcpCopilot => "acp-copilot",
        }
    }

    /// Returns the backend and the model as lines of a workflow file.
    fn backend(self) -> &'static str {
        match self {
            Self::Claude => "backend: claude\n    model: sonnet",
            Self::Codex => "backend: codex\n    model: gpt-5.1-codex",
            Self::Gemini => "backend: gemini\n    model: gemini-2.5-flash",
            // Only the environment defines this provider.
            Self::Opencode => {
                "backend: opencode\n    model: local/scripted\n    env: [LOCAL_API_KEY, LOCAL_BASE_URL]"
            }
            Self::AcpClaude => "backend: acp\n    agent: claude\n    model: sonnet",
            Self::AcpCodex | Self::AcpZedCodex => {
                "backend: acp\n    agent: codex\n    model: gpt-5.1-codex"
            }
            Self::AcpGemini => "backend: acp\n    agent: gemini\n    model: gemini-2.5-flash",
            Self::AcpOpencode => "backend: acp\n    agent: opencode\n    model: local/scripted",
            Self::AcpCopilot => {
                "backend: acp\n    agent: copilot\n    model: scripted\n    env: [COPILOT_OFFLINE]"
            }
            Self::AcpQwen => "backend: acp\n    agent: qwen\n    model: scripted",
        }
    }

    /// Returns true if the program is driven over the Agent Client Protocol.
    pub(super) fn is_acp(self) -> bool {
        self.name().starts_with("acp-")
    }

    /// Returns true if a turn continues the conversation of the last one.
    pub(super) fn continues_session(self) -> bool {
        self != Self::AcpGemini
    }

    /// Returns true if the program reports its token usage.
    pub(super) fn reports_tokens(self) -> bool {
        !matches!(self, Self::AcpQwen | Self::AcpZedCodex | Self::AcpOpencode)
    }

    /// Returns the command of the program, if it is installed.
    pub(super) fn command(self) -> Option<Vec<String>> {
        let (theirs, ours) = match std::env::consts::ARCH {
            "x86_64" => ("x64", "x86_64"),
            "aarch64" => ("arm64", "aarch64"),
            _ => return None,
        };
        let file = match self {
            Self::Claude => format!("@anthropic-ai/claude-code-linux-{theirs}/claude"),
            Self::Codex => {
                format!("@openai/codex-linux-{theirs}/vendor/{ours}-unknown-linux-musl/bin/codex")
            }
            Self::Opencode | Self::AcpOpencode => format!("opencode-linux-{theirs}/bin/opencode"),
            Self::AcpCopilot => format!("@github/copilot-linux-{theirs}/copilot"),
            Self::AcpQwen => "@qwen-code/qwen-code/cli.js".to_owned(),
            Self::Gemini | Self::AcpGemini => "@google/gemini-cli/bundle/gemini.js".to_owned(),
            Self::AcpClaude => "@agentclientprotocol/claude-agent-acp/dist/index.js".to_owned(),
            Self::AcpCodex => "@agentclientprotocol/codex-acp/dist/index.js".to_owned(),
            Self::AcpZedCodex => format!("@zed-industries/codex-acp-linux-{theirs}/bin/codex-acp"),
        };
        let file = agents()?.join(file);
        let node = match self {
            Self::Claude
            | Self::Codex
            | Self::Opencode
            | Self::AcpOpencode
            | Self::AcpZedCodex
            | Self::AcpCopilot => None,
            Self::Gemini | Self::AcpGemini | Self::AcpClaude | Self::AcpCodex | Self::AcpQwen => {
                Some(ExternalPrograms::locate()?.node_path())
            }
        };
        let words = node.into_iter().chain([file]);
        let there = |path: PathBuf| path.exists().then(|| path.to_str().unwrap().to_owned());
        words.map(there).collect()
    }
}

/// Calls of tools in each program's own spelling, as lines of a script.
impl Cli {
    /// Returns the call that runs a command.
    pub(super) fn command_call(self, command: &str) -> String {
        let (tool, args) = match self {
            Self::Claude | Self::AcpClaude => {
                ("Bash", json!({"command": command, "description": "runs it"}))
            }
            Self::Codex => ("exec_command", json!({"cmd": command, "yield_time_ms": 30000})),
            // Its sandbox is read-only; the program asks if its model wants to leave the sandbox.
            Self::AcpCodex | Self::AcpZedCodex => (
                "exec_command",
                json!({"cmd": command, "yield_time_ms": 30000, "justification": "writes",
                    "sandbox_permissions": "require_escalated"}),
            ),
            Self::Gemini | Self::AcpGemini => {
                ("run_shell_command", json!({"command": command, "description": "runs it"}))
            }
            Self::Opencode | Self::AcpOpencode | Self::AcpCopilot => {
                ("bash", json!({"command": command, "description": "runs it"}))
            }
            Self::AcpQwen => (
                "run_shell_command",
                json!({"command": command, "description": "runs it", "is_background": false}),
            ),
        };
        format!("CALL {tool} {args}\n")
    }

    /// Returns the call that reads the attached file.
    pub(super) fn read_call(self) -> String {
        let call = match self {
            Self::Claude | Self::AcpClaude => r#"Read {"file_path":"$ATTACHED"}"#,
            Self::Codex | Self::AcpCodex | Self::AcpZedCodex => {
                r#"exec_command {"cmd":"cat $ATTACHED"}"#
            }
            Self::Gemini | Self::AcpGemini | Self::AcpQwen => {
                r#"read_file {"file_path":"$ATTACHED"}"#
            }
            Self::Opencode | Self::AcpOpencode => r#"read {"filePath":"$ATTACHED"}"#,
            Self::AcpCopilot => r#"view {"path":"$ATTACHED"}"#,
        };
        format!("CALL {call}\n")
    }
}

/// A team of real agents with a scripted model.
pub(super) struct AgentTestbed {
    pub(super) world: World,
    pub(super) models: ModelServer,
}

/// One agent of a workflow file.
pub(super) struct AgentEntry<'a> {
    pub(super) name: &'a str,
    pub(super) cli: Cli,
    /// Further lines of its entry.
    pub(super) settings: &'a str,
}

impl AgentTestbed {
    /// Returns `None` if one of the programs is not installed; the test is then counted as skipped.
    pub(super) fn open(clis: &[Cli], untried: &str) -> Option<Self> {
        let missing = clis.iter().find(|cli| cli.command().is_none());
        if let Some(cli) = missing {
            record_skip(&format!("{untried} (needs {})", cli.name()));
            return None;
        }
        let models = ModelServer::start();
        let mut variables = models.variables();
        // This program needs bubblewrap, which another program's package contains.
        let codex = clis.contains(&Cli::AcpZedCodex).then(|| Cli::Codex.command()).flatten();
        if let Some(codex) = codex {
            let folder = Path::new(&codex[0]).ancestors().nth(2).unwrap().join("codex-resources");
            let path = format!("/usr/local/bin:/usr/bin:/bin:{}", folder.display());
            variables.push(("PATH", path));
        }
        // This program retries for longer than a minute, so that no agent may wait for the end of another.
        if clis.contains(&Cli::AcpQwen) {
            let places = ["AGENT_WORKER_WORKERS", "AGENT_WORKER_WORKERS_PER_INSTANCE"];
            variables.extend(places.map(|name| (name, "16".to_owned())));
        }
        let variables: Vec<_> =
            variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        Some(Self { world: World::with(&variables), models })
    }

    /// Writes the workflow file of a team.
    pub(super) fn write(&self, entries: &[AgentEntry<'_>], rest: &str) {
        let mut yaml = "name: team\nagents:\n".to_owned();
        for AgentEntry { name, cli, settings } in entries {
            let _ = write!(yaml, "  {name}:\n    {}\n", cli.backend());
            if !settings.contains("command:") {
                let _ = writeln!(yaml, "    command: {}", json!(cli.command().unwrap()));
            }
            for line in settings.lines() {
                let _ = writeln!(yaml, "    {line}");
            }
        }
        self.world.file("team.yaml", &(yaml + rest));
    }

    /// Writes the file and starts the team.
    pub(super) fn start(&self, entries: &[AgentEntry<'_>], rest: &str) {
        self.write(entries, rest);
        let started = self.world.run(&["start", "--background", "team.yaml"]);
        assert_eq!(started.code, 0, "{started:?}");
    }

    /// Sends a script to an agent, and returns its answer.
    pub(super) fn ask(&self, agent: &str, program: &str) -> String {
        let said = self.world.run(&["send", &format!("{agent}@team"), program, "--wait"]);
        assert_eq!(said.code, 0, "{said:?}\n{}", self.diagnostics(agent));
        said.stdout.trim().to_owned()
    }

    /// Sends a script to an agent without waiting.
    pub(super) fn send(&self, agent: &str, program: &str) {
        let said = self.world.run(&["send", &format!("{agent}@team"), program]);
        assert_eq!(said.code, 0, "{said:?}");
    }

    pub(super) fn status(&self, agent: &str) -> Value {
        self.world.json(&["status", &format!("{agent}@team"), "--json"])
    }

    /// Waits until the turn is over and the agent is not at work. Returns the state and the end of the turn.
    pub(super) fn end_of_turn(&self, agent: &str) -> (String, Value) {
        self.end_of_turn_within(TEST_TIMEOUT, agent)
    }

    /// Does the same with another timeout.
    pub(super) fn end_of_turn_within(&self, timeout: Duration, agent: &str) -> (String, Value) {
        wait_within(timeout, &format!("the end of a turn of {agent}"), || {
            let status = self.status(agent);
            let ended = status["attempts"][0].get("ended")?.clone();
            let state = status["state"].as_str()?.to_owned();
            (!["running", "queued", "stopping"].contains(&&*state)).then_some((state, ended))
        })
    }

    /// Returns sender and text of each message in the channel, without answers.
    pub(super) fn channel_messages(&self) -> Vec<(String, String)> {
        let read = self.world.json(&["peek", "@team", "-n", "200", "--json"]);
        let messages = read["items"].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        messages
            .filter(|message| message["kind"] == "message")
            .map(|message| (text(&message["from"]), text(&message["body"])))
            .collect()
    }

    /// Returns every process except the daemon.
    pub(super) fn other_processes(&self) -> Vec<(u32, String)> {
        let daemon = self.world.daemon_pid();
        self.world.processes().into_iter().filter(|(pid, _)| Some(*pid) != daemon).collect()
    }

    /// Returns the pids of an agent's program, by the activation in their environment.
    pub(super) fn agent_pids(&self, agent: &str) -> Vec<u32> {
        let works_for_it = |pid: &u32| {
            let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let environ = String::from_utf8_lossy(&environ).into_owned();
            let mut activations =
                environ.split('\0').filter_map(|it| it.strip_prefix("AGENT_WORKER_ACTIVATION="));
            activations.any(|it| it.contains(&format!("/{agent}/")))
        };
        self.other_processes().into_iter().map(|(pid, _)| pid).filter(works_for_it).collect()
    }

    /// Returns the details that a failed test prints.
    pub(super) fn diagnostics(&self, agent: &str) -> String {
        let logs = self.world.run(&["logs", &format!("{agent}@team")]);
        let asked: Vec<_> = self.models.requests().into_iter().map(|one| one.path).collect();
        format!("{}\n{logs:?}\n{asked:?}\n{}", self.status(agent), self.world.log())
    }
}

/// Returns every file below a folder, with its content.
pub(super) fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.push((path.clone(), Vec::new()));
            found.extend(files(&path));
        } else {
            found.push((path.clone(), std::fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}
