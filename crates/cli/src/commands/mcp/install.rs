//! Registers the daemon with a program that speaks MCP: by the program's own command, else in its user's configuration.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use agent_worker_protocol::shell_words::shell_quote;
use serde_json::{Map, Value, json};
use tokio::process::Command;

use crate::{
    client::{client_token::ClientToken, local_state::replace_file},
    error::{CliError, CliErrorKind},
    input::{
        context::{CommandContext, Format},
        grant::{self, Grant},
        settings::CliSettings,
    },
    output::{styled_line::StyledLine, text},
};

/// Name of the daemon in those programs.
const SERVER_NAME: &str = "agent-worker";

/// A program that speaks MCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum McpClientProgram {
    /// Claude Code
    Claude,
    /// Codex
    Codex,
    /// Cursor
    Cursor,
    /// Visual Studio Code
    #[value(alias = "code")]
    Vscode,
    /// Gemini CLI
    Gemini,
    /// opencode
    Opencode,
    /// Qwen Code
    Qwen,
    /// GitHub Copilot CLI
    Copilot,
    /// Zed
    Zed,
    /// Windsurf
    Windsurf,
}

/// The step that registers the daemon.
#[derive(Debug, PartialEq, Eq)]
enum InstallStep {
    /// Run the program's own command.
    Run(Vec<String>),
    /// Add an entry to the user's own file.
    Write(ConfigEntry),
}

/// The entry of the daemon in a file of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ConfigEntry {
    file: PathBuf,
    /// The key of the servers in the file.
    section: &'static str,
    server: Value,
}

/// The command line and environment that start this program as a server.
struct McpServerEntry {
    command: String,
    args: Vec<String>,
    env: Map<String, Value>,
}

impl McpClientProgram {
    /// Returns the program's name on our command line.
    const fn cli_name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Cursor => "cursor",
            Self::Vscode => "vscode",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
            Self::Qwen => "qwen",
            Self::Copilot => "copilot",
            Self::Zed => "zed",
            Self::Windsurf => "windsurf",
        }
    }

    fn install_step(self, ours: &McpServerEntry, settings: &CliSettings) -> InstallStep {
        let McpServerEntry { command, args, env } = ours;
        let pairs = || {
            env.iter().map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default()))
        };
        let start = || std::iter::once(command.clone()).chain(args.iter().cloned());
        let words =
            |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        match self {
            Self::Claude => {
                // Its `--env` takes every word up to the next flag.
                let mut all = words(&["claude", "mcp", "add"]);
                all.extend(pairs().flat_map(|pair| ["--env".to_owned(), pair]));
                all.extend(words(&["--scope", "user", SERVER_NAME, "--"]));
                all.extend(start());
                InstallStep::Run(all)
            }
            Self::Codex => {
                let mut all = words(&["codex", "mcp", "add", SERVER_NAME]);
                all.extend(pairs().flat_map(|pair| ["--env".to_owned(), pair]));
                all.push("--".to_owned());
                all.extend(start());
                InstallStep::Run(all)
            }
            Self::Vscode => {
                let server =
                    json!({"name": SERVER_NAME, "command": command, "args": args, "env": env});
                InstallStep::Run(vec![
                    "code".to_owned(),
                    "--add-mcp".to_owned(),
                    server.to_string(),
                ])
            }
            Self::Cursor
            | Self::Gemini
            | Self::Opencode
            | Self::Qwen
            | Self::Copilot
            | Self::Zed
            | Self::Windsurf => InstallStep::Write(self.config_entry(ours, settings)),
        }
    }

    /// Returns the entry in the program's file. Each program has its own path and its own form.
    fn config_entry(self, ours: &McpServerEntry, settings: &CliSettings) -> ConfigEntry {
        let McpServerEntry { command, args, env } = ours;
        let folder = |variable: &str, usual: &str| {
            let set = settings.env.get(variable).filter(|path| !path.is_empty());
            let home = || settings.env.get("HOME").map_or_else(PathBuf::new, PathBuf::from);
            set.map_or_else(|| home().join(usual), PathBuf::from)
        };
        let usual = json!({"command": command, "args": args, "env": env});
        let (file, section, server) = match self {
            Self::Gemini => {
                (folder("GEMINI_CLI_HOME", "").join(".gemini/settings.json"), "mcpServers", usual)
            }
            Self::Opencode => {
                let words: Vec<_> = std::iter::once(command).chain(args).collect();
                let server =
                    json!({"type": "local", "command": words, "environment": env, "enabled": true});
                let file = folder("XDG_CONFIG_HOME", ".config").join("opencode/opencode.json");
                (file, "mcp", server)
            }
            Self::Qwen => (folder("QWEN_HOME", ".qwen").join("settings.json"), "mcpServers", usual),
            Self::Copilot => {
                let server = json!({"type": "local", "command": command, "args": args, "env": env, "tools": ["*"]});
                (folder("COPILOT_HOME", ".copilot").join("mcp-config.json"), "mcpServers", server)
            }
            Self::Zed => {
                let server =
                    json!({"source": "custom", "command": command, "args": args, "env": env});
                let file = folder("XDG_CONFIG_HOME", ".config").join("zed/settings.json");
                (file, "context_servers", server)
            }
            Self::Windsurf => {
                (folder("", ".codeium/windsurf").join("mcp_config.json"), "mcpServers", usual)
            }
            Self::Cursor | Self::Claude | Self::Codex | Self::Vscode => {
                (folder("", ".cursor").join("mcp.json"), "mcpServers", usual)
            }
        };
        ConfigEntry { file, section, server }
    }
}

impl McpServerEntry {
    fn for_program(program: McpClientProgram, settings: &CliSettings) -> Result<Self, CliError> {
        let exe = fs::read_link(&settings.exe).unwrap_or_else(|_| settings.exe.clone());
        let Some(command) = exe.to_str().filter(|path| Path::new(path).exists()) else {
            return Err(CliError::new(
                CliErrorKind::Failed,
                "the executable of this program no longer exists",
            )
            .with_hint("run it again from its current location"));
        };
        let mut env = Map::new();
        let home = settings.env.get("AGENT_WORKER_HOME").filter(|home| !home.is_empty());
        if home.is_some() {
            env.insert("AGENT_WORKER_HOME".to_owned(), settings.home.to_string_lossy().into());
        }
        let args = ["mcp", "--client", program.cli_name()].map(str::to_owned).to_vec();
        Ok(Self { command: command.to_owned(), args, env })
    }
}

/// Prints the step without performing it.
pub(super) fn print_step(
    program: McpClientProgram,
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<(), CliError> {
    let step =
        program.install_step(&McpServerEntry::for_program(program, ctx.settings)?, ctx.settings);
    show(&step, format, ctx)
}

/// Prints the step and performs it.
pub(super) async fn install(
    program: McpClientProgram,
    grant: &Grant,
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<(), CliError> {
    if ctx.settings.is_inside_attempt() {
        return Err(CliError::new(
            CliErrorKind::Usage,
            "an agent may not change the user's settings",
        ));
    }
    let step =
        program.install_step(&McpServerEntry::for_program(program, ctx.settings)?, ctx.settings);
    if format == Format::Text {
        show(&step, format, ctx)?;
    }
    let daemon = ctx.connect_or_start().await?;
    match &step {
        InstallStep::Run(words) => run_command(words, ctx.settings).await?,
        InstallStep::Write(entry) => write_config(entry)?,
    }
    // The token comes last, so that a failed step grants nothing.
    let token = ClientToken::for_program(program.cli_name(), ctx.settings);
    let scopes = token.renew(&daemon, grant).await?;
    if format == Format::Json {
        let mut done = step_json(&step);
        done["token"] =
            json!({"name": token.name, "allow": scopes.allow, "instances": scopes.instances});
        return ctx.console.print_json(&done);
    }
    let (what, place) = (grant::permissions_text(&scopes), grant::instances_text(&scopes));
    ctx.console.note(&format!("{} may {what}, {place}", program.cli_name()))?;
    ctx.console.note(&format!("revoke it: agent-worker token revoke {}", token.name))
}

fn show(step: &InstallStep, format: Format, ctx: &mut CommandContext<'_>) -> Result<(), CliError> {
    match (step, format) {
        (step, Format::Json) => ctx.console.print_json(&step_json(step)),
        (InstallStep::Run(words), Format::Text) => {
            let words: Vec<_> = words.iter().map(|word| shell_quote(word)).collect();
            ctx.console.print_line(&StyledLine::plain(words.join(" ")))
        }
        (InstallStep::Write(ConfigEntry { file, section, server }), Format::Text) => {
            ctx.console.note(&format!("in {}:", file.display()))?;
            let snippet = json!({*section: {SERVER_NAME: server}});
            let snippet = serde_json::to_string_pretty(&snippet).unwrap_or_default();
            ctx.console.print_raw(&format!("{snippet}\n"))
        }
    }
}

/// Returns the step as a document for programs.
fn step_json(step: &InstallStep) -> Value {
    match step {
        InstallStep::Run(words) => json!({ "command": words }),
        InstallStep::Write(ConfigEntry { file, section, server }) => {
            json!({"file": file, *section: {SERVER_NAME: server}})
        }
    }
}

async fn run_command(words: &[String], settings: &CliSettings) -> Result<(), CliError> {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).env_clear().envs(&settings.env).current_dir(&settings.cwd);
    let output = command.output().await.map_err(|error| {
        let what = format!("`{}` could not be started", words[0]);
        CliError::with_source(CliErrorKind::Failed, what, error)
            .with_hint("install it, or run the command printed above where it is installed")
    })?;
    if output.status.success() {
        return Ok(());
    }
    let output_text = [output.stdout, output.stderr].concat();
    let output_text = text::sanitize_for_display(String::from_utf8_lossy(&output_text).trim());
    Err(CliError::new(CliErrorKind::Failed, format!("`{}` failed: {output_text}", words[0])))
}

/// Adds the daemon to the servers in a user's file, and keeps the rest of the file.
fn write_config(entry: &ConfigEntry) -> Result<(), CliError> {
    let ConfigEntry { file, section, server } = entry;
    // The path may be a link to a file in another place.
    let file = &fs::canonicalize(file).unwrap_or_else(|_| file.clone());
    let failed = |error: io::Error| {
        CliError::with_source(
            CliErrorKind::Failed,
            format!("could not change {}", file.display()),
            error,
        )
    };
    let before = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => "{}".to_owned(),
        Err(error) => return Err(failed(error)),
    };
    let unclear = || {
        CliError::new(
            CliErrorKind::Failed,
            format!("{} is not JSON of the expected form", file.display()),
        )
        .with_hint("add the entry printed above to the file by hand")
    };
    let mut all: Value = serde_json::from_str(&before).map_err(|_| unclear())?;
    let servers = all.as_object_mut().map(|all| all.entry(*section).or_insert(json!({})));
    let servers = servers.and_then(Value::as_object_mut).ok_or_else(unclear)?;
    servers.insert(SERVER_NAME.to_owned(), server.clone());
    let text = serde_json::to_string_pretty(&all).unwrap_or_default() + "\n";
    replace_file(file, text.as_bytes()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_users_file_keeps_what_else_is_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("new/mcp.json");
        let write = |server: Value| {
            write_config(&ConfigEntry { file: file.clone(), section: "mcpServers", server })
        };
        write(json!({"command": "x"})).unwrap();
        write(json!({"command": "y"})).unwrap();
        let text = fs::read_to_string(&file).unwrap();
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read, json!({"mcpServers": {SERVER_NAME: {"command": "y"}}}));
        fs::write(&file, r#"{"other": 1, "mcpServers": {"a": {"command": "b"}}}"#).unwrap();
        write(json!({"command": "x"})).unwrap();
        let read: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        let expected = json!({"other": 1, "mcpServers": {"a": {"command": "b"}, SERVER_NAME: {"command": "x"}}});
        assert_eq!(read, expected);
        for odd in ["{", "[]", r#"{"mcpServers": []}"#] {
            fs::write(&file, odd).unwrap();
            assert!(write(json!({})).is_err(), "{odd}");
            assert_eq!(fs::read_to_string(&file).unwrap(), odd);
        }
    }
}
