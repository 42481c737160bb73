//! How each program that speaks MCP is told of the daemon: by a command of its own, else by its user's configuration.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};
use tokio::process::Command;

use crate::{
    client_token::ClientToken,
    context::{Context, Format},
    error::{CliError, Kind},
    grant::{self, Grant},
    line::Line,
    memory::exchange,
    settings::Settings,
    text,
};

/// What the daemon is called there.
const NAME: &str = "agent-worker";

/// A program that speaks MCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Program {
    /// Claude Code
    Claude,
    /// Codex
    Codex,
    /// Cursor
    Cursor,
    /// Visual Studio Code
    #[value(alias = "code")]
    Vscode,
}

/// What there is to do.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// Run the program's own command.
    Run(Vec<String>),
    /// Put this under `mcpServers` in the user's own file.
    Write(PathBuf, Value),
}

/// How we are started there.
struct Ours {
    command: String,
    args: Vec<String>,
    env: Map<String, Value>,
}

impl Program {
    /// What it is called here.
    const fn word(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Cursor => "cursor",
            Self::Vscode => "vscode",
        }
    }

    fn step(self, ours: &Ours, settings: &Settings) -> Step {
        let Ours { command, args, env } = ours;
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
                all.extend(words(&["--scope", "user", NAME, "--"]));
                all.extend(start());
                Step::Run(all)
            }
            Self::Codex => {
                let mut all = words(&["codex", "mcp", "add", NAME]);
                all.extend(pairs().flat_map(|pair| ["--env".to_owned(), pair]));
                all.push("--".to_owned());
                all.extend(start());
                Step::Run(all)
            }
            Self::Vscode => {
                let server = json!({"name": NAME, "command": command, "args": args, "env": env});
                Step::Run(vec!["code".to_owned(), "--add-mcp".to_owned(), server.to_string()])
            }
            Self::Cursor => {
                let home = settings.env.get("HOME").map_or_else(PathBuf::new, PathBuf::from);
                let server = json!({"command": command, "args": args, "env": env});
                Step::Write(home.join(".cursor/mcp.json"), server)
            }
        }
    }
}

impl Ours {
    fn of(program: Program, settings: &Settings) -> Result<Self, CliError> {
        let exe = fs::read_link(&settings.exe).unwrap_or_else(|_| settings.exe.clone());
        let Some(command) = exe.to_str().filter(|path| Path::new(path).exists()) else {
            return Err(CliError::new(Kind::Failed, "this program's own file is gone")
                .hint("run it again from where it lies now"));
        };
        let mut env = Map::new();
        let home = settings.env.get("AGENT_WORKER_HOME").filter(|home| !home.is_empty());
        if home.is_some() {
            env.insert("AGENT_WORKER_HOME".to_owned(), settings.home.to_string_lossy().into());
        }
        let args = ["mcp", "--client", program.word()].map(str::to_owned).to_vec();
        Ok(Self { command: command.to_owned(), args, env })
    }
}

/// Prints what would be done.
pub(super) fn print(
    program: Program,
    format: Format,
    ctx: &mut Context<'_>,
) -> Result<(), CliError> {
    let step = program.step(&Ours::of(program, ctx.settings)?, ctx.settings);
    show(&step, format, ctx)
}

/// Shows what is done, and does it.
pub(super) async fn install(
    program: Program,
    grant: &Grant,
    format: Format,
    ctx: &mut Context<'_>,
) -> Result<(), CliError> {
    if ctx.settings.is_inside_attempt() {
        return Err(CliError::new(
            Kind::Usage,
            "an agent's commands change nothing a person chose",
        ));
    }
    let step = program.step(&Ours::of(program, ctx.settings)?, ctx.settings);
    if format == Format::Text {
        show(&step, format, ctx)?;
    }
    let daemon = ctx.daemon().await?;
    match &step {
        Step::Run(words) => run(words, ctx.settings).await?,
        Step::Write(file, server) => write(file, server.clone())?,
    }
    // Last: who is told that it failed has granted nothing.
    let token = ClientToken::of(program.word(), ctx.settings);
    let scopes = token.renew(&daemon, grant).await?;
    if format == Format::Json {
        let mut done = told(&step);
        done["token"] =
            json!({"name": token.name, "allow": scopes.allow, "instances": scopes.instances});
        return ctx.console.json(&done);
    }
    let (what, place) = (grant::what(&scopes), grant::whereabouts(&scopes));
    ctx.console.note(&format!("{} may {what}, {place}", program.word()))?;
    ctx.console.note(&format!("take it back: agent-worker token revoke {}", token.name))
}

fn show(step: &Step, format: Format, ctx: &mut Context<'_>) -> Result<(), CliError> {
    match (step, format) {
        (step, Format::Json) => ctx.console.json(&told(step)),
        (Step::Run(words), Format::Text) => {
            let words: Vec<_> = words.iter().map(|word| quoted(word)).collect();
            ctx.console.answer(&Line::plain(words.join(" ")))
        }
        (Step::Write(file, server), Format::Text) => {
            ctx.console.note(&format!("in {}:", file.display()))?;
            let snippet = json!({"mcpServers": {NAME: server}});
            let snippet = serde_json::to_string_pretty(&snippet).unwrap_or_default();
            ctx.console.raw(&format!("{snippet}\n"))
        }
    }
}

/// What is done, for programs.
fn told(step: &Step) -> Value {
    match step {
        Step::Run(words) => json!({ "command": words }),
        Step::Write(file, server) => json!({"file": file, "mcpServers": {NAME: server}}),
    }
}

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

async fn run(words: &[String], settings: &Settings) -> Result<(), CliError> {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).env_clear().envs(&settings.env).current_dir(&settings.cwd);
    let output = command.output().await.map_err(|error| {
        let what = format!("`{}` could not be started", words[0]);
        CliError::because(Kind::Failed, what, error)
            .hint("install it, or put what was printed above where it is")
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = text::harmless(String::from_utf8_lossy(&said).trim());
    Err(CliError::new(Kind::Failed, format!("`{}` did not take it: {said}", words[0])))
}

/// Puts the daemon among the servers in a user's file, and leaves the rest of it as it is.
fn write(file: &Path, server: Value) -> Result<(), CliError> {
    // Those who keep such files elsewhere have a link there.
    let file = &fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let failed = |error: io::Error| {
        CliError::because(Kind::Failed, format!("{} cannot be changed", file.display()), error)
    };
    let before = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => "{}".to_owned(),
        Err(error) => return Err(failed(error)),
    };
    let unclear = || {
        CliError::new(Kind::Failed, format!("{} is not the JSON it should be", file.display()))
            .hint("put what was printed above into it by hand")
    };
    let mut all: Value = serde_json::from_str(&before).map_err(|_| unclear())?;
    let servers = all.as_object_mut().map(|all| all.entry("mcpServers").or_insert(json!({})));
    let servers = servers.and_then(Value::as_object_mut).ok_or_else(unclear)?;
    servers.insert(NAME.to_owned(), server);
    let text = serde_json::to_string_pretty(&all).unwrap_or_default() + "\n";
    exchange(file, text.as_bytes()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_users_file_keeps_what_else_is_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("new/mcp.json");
        write(&file, json!({"command": "x"})).unwrap();
        write(&file, json!({"command": "y"})).unwrap();
        let text = fs::read_to_string(&file).unwrap();
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read, json!({"mcpServers": {NAME: {"command": "y"}}}));
        fs::write(&file, r#"{"other": 1, "mcpServers": {"a": {"command": "b"}}}"#).unwrap();
        write(&file, json!({"command": "x"})).unwrap();
        let read: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        let expected =
            json!({"other": 1, "mcpServers": {"a": {"command": "b"}, NAME: {"command": "x"}}});
        assert_eq!(read, expected);
        for odd in ["{", "[]", r#"{"mcpServers": []}"#] {
            fs::write(&file, odd).unwrap();
            assert!(write(&file, json!({})).is_err(), "{odd}");
            assert_eq!(fs::read_to_string(&file).unwrap(), odd);
        }
    }
}
