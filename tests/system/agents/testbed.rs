//! Where agents that nobody here wrote work: a world with a scripted model, and the programs that `scripts/agents` gets.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::{
    external_programs::{ExternalPrograms, agents},
    model_server::ModelServer,
    world::{World, record_skip, wait_for},
};

/// Whose program it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cli {
    Claude,
    Codex,
    Gemini,
    /// Only where all are asked for.
    Opencode,
    /// Over the Agent Client Protocol: Claude Code by its adapter, and Gemini CLI by itself.
    AcpClaude,
    AcpGemini,
    /// These too only where all are asked for.
    AcpCopilot,
    AcpQwen,
}

/// Those that are always tried.
pub(super) const DEFAULT_CLIS: [Cli; 3] = [Cli::Claude, Cli::Codex, Cli::Gemini];

impl Cli {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
            Self::AcpClaude => "acp-claude",
            Self::AcpGemini => "acp-gemini",
            Self::AcpCopilot => "acp-copilot",
            Self::AcpQwen => "acp-qwen",
        }
    }

    /// How a file says it, and its model.
    fn backend(self) -> &'static str {
        match self {
            Self::Claude => "backend: claude\n    model: sonnet",
            Self::Codex => "backend: codex\n    model: gpt-5.1-codex",
            Self::Gemini => "backend: gemini\n    model: gemini-2.5-flash",
            // Whose it is and where, only the environment knows.
            Self::Opencode => {
                "backend: opencode\n    model: local/scripted\n    env: [LOCAL_API_KEY, LOCAL_BASE_URL]"
            }
            Self::AcpClaude => "backend: acp\n    agent: claude\n    model: sonnet",
            Self::AcpGemini => "backend: acp\n    agent: gemini\n    model: gemini-2.5-flash",
            Self::AcpCopilot => {
                "backend: acp\n    agent: copilot\n    model: scripted\n    env: [COPILOT_OFFLINE]"
            }
            Self::AcpQwen => "backend: acp\n    agent: qwen\n    model: scripted",
        }
    }

    /// Whether a turn goes on with the conversation of the last one.
    pub(super) fn continues_session(self) -> bool {
        self != Self::AcpGemini
    }

    /// Whether it says how many tokens it used.
    pub(super) fn reports_tokens(self) -> bool {
        self != Self::AcpQwen
    }

    /// How it is started, if it is there.
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
            Self::Opencode => format!("opencode-linux-{theirs}/bin/opencode"),
            Self::AcpCopilot => format!("@github/copilot-linux-{theirs}/copilot"),
            Self::AcpQwen => "@qwen-code/qwen-code/cli.js".to_owned(),
            Self::Gemini | Self::AcpGemini => "@google/gemini-cli/bundle/gemini.js".to_owned(),
            Self::AcpClaude => "@agentclientprotocol/claude-agent-acp/dist/index.js".to_owned(),
        };
        let file = agents()?.join(file);
        let node = match self {
            Self::Claude | Self::Codex | Self::Opencode | Self::AcpCopilot => None,
            Self::Gemini | Self::AcpGemini | Self::AcpClaude | Self::AcpQwen => {
                Some(ExternalPrograms::locate()?.node_path())
            }
        };
        let words = node.into_iter().chain([file]);
        let there = |path: PathBuf| path.exists().then(|| path.to_str().unwrap().to_owned());
        words.map(there).collect()
    }
}

/// A team of them at work.
pub(super) struct AgentTestbed {
    pub(super) world: World,
    pub(super) models: ModelServer,
}

/// One agent, as a file has it.
pub(super) struct AgentEntry<'a> {
    pub(super) name: &'a str,
    pub(super) cli: Cli,
    /// What else its entry says.
    pub(super) settings: &'a str,
}

impl AgentTestbed {
    /// None where one of the programs cannot be had; then what was not tried is counted.
    pub(super) fn open(clis: &[Cli], untried: &str) -> Option<Self> {
        let missing = clis.iter().find(|cli| cli.command().is_none());
        if let Some(cli) = missing {
            record_skip(&format!("{untried} (needs {})", cli.name()));
            return None;
        }
        let models = ModelServer::start();
        let variables = models.variables();
        let variables: Vec<_> =
            variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        Some(Self { world: World::with(&variables), models })
    }

    /// Writes the file of a team.
    pub(super) fn write(&self, desks: &[AgentEntry<'_>], rest: &str) {
        let mut yaml = "name: team\nagents:\n".to_owned();
        for AgentEntry { name, cli, settings: besides } in desks {
            let _ = write!(yaml, "  {name}:\n    {}\n", cli.backend());
            if !besides.contains("command:") {
                let _ = writeln!(yaml, "    command: {}", json!(cli.command().unwrap()));
            }
            for line in besides.lines() {
                let _ = writeln!(yaml, "    {line}");
            }
        }
        self.world.file("team.yaml", &(yaml + rest));
    }

    /// Writes it, and starts the team.
    pub(super) fn start(&self, desks: &[AgentEntry<'_>], rest: &str) {
        self.write(desks, rest);
        let started = self.world.run(&["start", "--background", "team.yaml"]);
        assert_eq!(started.code, 0, "{started:?}");
    }

    /// Gives an agent its program, and answers with what it answered.
    pub(super) fn ask(&self, agent: &str, program: &str) -> String {
        let said = self.world.run(&["send", &format!("{agent}@team"), program, "--wait"]);
        assert_eq!(said.code, 0, "{said:?}\n{}", self.diagnostics(agent));
        said.stdout.trim().to_owned()
    }

    /// Gives an agent its program, and lets it work.
    pub(super) fn send(&self, agent: &str, program: &str) {
        let said = self.world.run(&["send", &format!("{agent}@team"), program]);
        assert_eq!(said.code, 0, "{said:?}");
    }

    pub(super) fn status(&self, agent: &str) -> Value {
        self.world.json(&["status", &format!("{agent}@team"), "--json"])
    }

    /// Waits until its turn is over and its state is not that of one at work. Answers with the state and how the turn ended.
    pub(super) fn end_of_turn(&self, agent: &str) -> (String, Value) {
        wait_for(&format!("the end of a turn of {agent}"), || {
            let status = self.status(agent);
            let ended = status["attempts"][0].get("ended")?.clone();
            let state = status["state"].as_str()?.to_owned();
            (!["running", "queued", "stopping"].contains(&&*state)).then_some((state, ended))
        })
    }

    /// Who said what in the channel, answers aside.
    pub(super) fn channel_messages(&self) -> Vec<(String, String)> {
        let read = self.world.json(&["peek", "@team", "-n", "200", "--json"]);
        let messages = read["messages"].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        messages
            .filter(|message| message["kind"] == "message")
            .map(|message| (text(&message["from"]), text(&message["body"])))
            .collect()
    }

    /// Every process but the daemon.
    pub(super) fn other_processes(&self) -> Vec<(u32, String)> {
        let daemon = self.world.daemon_pid();
        self.world.processes().into_iter().filter(|(pid, _)| Some(*pid) != daemon).collect()
    }

    /// Every process of an agent's program: they know what they work for.
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

    /// All there is to know when a test fails.
    pub(super) fn diagnostics(&self, agent: &str) -> String {
        let logs = self.world.run(&["logs", &format!("{agent}@team")]);
        let asked: Vec<_> = self.models.requests().into_iter().map(|one| one.path).collect();
        format!("{}\n{logs:?}\n{asked:?}\n{}", self.status(agent), self.world.log())
    }
}

/// Every file beneath a folder, with what is in it.
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
