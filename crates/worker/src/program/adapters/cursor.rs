//! Cursor's CLI: `cursor-agent -p`, which writes a stream of JSON events and ends.
//!
//! Written from the vendor's documentation and tested with a stand-in: the real program was never run here.

use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use agent_worker_protocol::{CredentialMode, FailureClass, PermissionAction};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::program::{
    ProgramAdapter, ProgramEvent, ProgramExit, ProgramInvocation, ProgramOutcome, ProgramTurn,
    private_files,
};
use crate::{
    model::ToolResult,
    tool_server::{TEAM_SERVER_NAME, ToolServerEndpoint},
    turn::{TurnContext, TurnFailure},
};

/// Maximum size of a prompt as an argument. A longer prompt is passed in a file.
const MAX_ARGUMENT_BYTES: usize = 100 * 1024;
/// The program's folder in a home, and the files in it that the worker writes.
const CONFIG_FOLDER: &str = ".cursor";
const MCP_SERVERS_FILE: &str = "mcp.json";
const CLI_CONFIG_FILE: &str = "cli-config.json";

/// State of reading the program's output.
#[derive(Default)]
struct Cursor {
    last: Option<CursorSession>,
    /// Text since the last tool call.
    answer: String,
    end: Option<CursorResult>,
}

/// The data that the next turn needs to continue.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct CursorSession {
    id: String,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum CursorEvent {
    System {
        session_id: String,
    },
    Assistant {
        message: CursorMessage,
    },
    ToolCall {
        subtype: String,
        call_id: String,
        tool_call: Value,
    },
    Result(CursorResult),
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct CursorMessage {
    #[serde(default)]
    content: Vec<CursorBlock>,
}

#[derive(Deserialize)]
struct CursorBlock {
    #[serde(default)]
    text: String,
}

/// The final event of the program.
#[derive(Deserialize)]
struct CursorResult {
    is_error: bool,
    #[serde(default)]
    result: String,
}

/// Creates the adapter of one process.
pub(super) fn adapter(session: Option<&Value>) -> Box<dyn ProgramAdapter> {
    let last = session.and_then(|session| CursorSession::deserialize(session).ok());
    Box::new(Cursor { last, ..Cursor::default() })
}

impl ProgramAdapter for Cursor {
    fn invocation(&mut self, turn: &ProgramTurn<'_>) -> io::Result<ProgramInvocation> {
        let TurnContext { request, folders, .. } = turn.context;
        let mut invocation = ProgramInvocation::default();
        invocation.args(["-p", "--output-format", "stream-json", "--approve-mcps"]);
        // Without this flag the program only proposes changes and refuses to run commands.
        if turn.context.permissions.default == Some(PermissionAction::Allow) {
            invocation.args(["--force"]);
        }
        if let Some(model) = &turn.model {
            invocation.args(["--model", model]);
        }
        if let Some(last) = &self.last {
            invocation.args(["--resume", &last.id]);
        }
        // The program has no option for a system prompt.
        let prompt = format!("{}\n\n{}", request.system_prompt, request.prompt);
        let prompt = if prompt.len() > MAX_ARGUMENT_BYTES {
            let file = private_files::write_private_file(&folders.attempt, "prompt.md", &prompt)?;
            format!("Read all of the file {file} and do what it says.")
        } else {
            prompt
        };
        // A prompt that begins like an option would be parsed as one.
        invocation.args(["--", &prompt]);
        let home = match turn.mode {
            CredentialMode::Isolated => {
                let home = folders.keep.join("cursor");
                invocation.env(
                    "XDG_CONFIG_HOME",
                    &private_files::create_private_folder(&home.join(".config"))?,
                );
                write_config(&home.join(CONFIG_FOLDER), &json!({}), turn.tool_server)?;
                home
            }
            CredentialMode::Login => {
                let home = folders.keep.join("cursor-login");
                let theirs =
                    turn.context.child_env.env.get("HOME").map(PathBuf::from).ok_or_else(|| {
                        io::Error::new(
                            io::ErrorKind::NotFound,
                            "HOME is not set, so there is no login",
                        )
                    })?;
                private_files::create_private_folder(&home.join(CONFIG_FOLDER))?;
                link_entries(&theirs, &home, &[CONFIG_FOLDER])?;
                link_entries(
                    &theirs.join(CONFIG_FOLDER),
                    &home.join(CONFIG_FOLDER),
                    &[MCP_SERVERS_FILE, CLI_CONFIG_FILE],
                )?;
                let rules =
                    fs::read(theirs.join(CONFIG_FOLDER).join(CLI_CONFIG_FILE)).unwrap_or_default();
                let rules = serde_json::from_slice(&rules).unwrap_or_else(|_| json!({}));
                write_config(&home.join(CONFIG_FOLDER), &rules, turn.tool_server)?;
                home
            }
        };
        invocation.env("HOME", &private_files::create_private_folder(&home)?);
        Ok(invocation)
    }

    fn parse_line(&mut self, line: &str) -> Vec<ProgramEvent> {
        match serde_json::from_str(line) {
            Ok(CursorEvent::System { session_id }) => {
                vec![ProgramEvent::Session(json!(CursorSession { id: session_id }))]
            }
            Ok(CursorEvent::Assistant { message }) => {
                let text: String = message.content.into_iter().map(|block| block.text).collect();
                self.answer.push_str(&text);
                vec![ProgramEvent::Text(text)]
            }
            Ok(CursorEvent::ToolCall { subtype, call_id, tool_call }) => {
                // The text so far preceded a call and is not the answer.
                self.answer.clear();
                let Some((tool, args, result)) = parse_tool_call(&tool_call) else {
                    return Vec::new();
                };
                match subtype.as_str() {
                    "started" => vec![ProgramEvent::ToolCalled { id: call_id, tool, args }],
                    "completed" => vec![ProgramEvent::ToolAnswered { id: call_id, tool, result }],
                    _ => Vec::new(),
                }
            }
            Ok(CursorEvent::Result(end)) => {
                self.end = Some(end);
                Vec::new()
            }
            Ok(CursorEvent::Other) | Err(_) => Vec::new(),
        }
    }

    fn outcome(&mut self, exit: &ProgramExit) -> ProgramOutcome {
        match self.end.take() {
            Some(CursorResult { is_error: false, result }) if exit.status.success() => {
                let answer = std::mem::take(&mut self.answer);
                ProgramOutcome::Answered(if answer.is_empty() { result } else { answer })
            }
            Some(CursorResult { is_error: true, result }) => {
                ProgramOutcome::Failed(TurnFailure::new(FailureClass::Fatal, result))
            }
            // The program explains the failure only as text on stderr.
            Some(CursorResult { .. }) | None => ProgramOutcome::Failed(exit.crash_failure()),
        }
    }
}

/// Returns tool, arguments and result of a call: `{"readToolCall": {"args": …, "result": {"success": …}}}`.
fn parse_tool_call(call: &Value) -> Option<(String, Value, ToolResult)> {
    let (name, call) = call.as_object()?.iter().next()?;
    let args = &call["args"];
    let (tool, args) = match (&**name, args["toolName"].as_str()) {
        ("mcpToolCall", Some(tool)) => {
            let server = args["providerIdentifier"].as_str().unwrap_or(TEAM_SERVER_NAME);
            (format!("mcp__{server}__{tool}"), args["args"].clone())
        }
        _ => (name.strip_suffix("ToolCall").unwrap_or(name).to_owned(), args.clone()),
    };
    let result = &call["result"];
    let result = match result.get("success") {
        Some(done) => ToolResult::Done(done.to_string()),
        None => ToolResult::Failed(result.to_string()),
    };
    Some((tool, args, result))
}

/// Writes the program's configuration: the user's rules, and the team's server as the only server, with its tools
/// allowed.
fn write_config(folder: &Path, rules: &Value, endpoint: &ToolServerEndpoint) -> io::Result<()> {
    private_files::create_private_folder(folder)?;
    let headers = json!({"Authorization": format!("Bearer {}", endpoint.token)});
    let servers =
        json!({"mcpServers": {TEAM_SERVER_NAME: {"url": endpoint.url, "headers": headers}}});
    private_files::write_private_file(folder, MCP_SERVERS_FILE, &servers.to_string())?;
    let mut rules = rules.clone();
    if !rules.is_object() {
        rules = json!({});
    }
    if !rules["permissions"].is_object() {
        rules["permissions"] = json!({"allow": [], "deny": []});
    }
    let ours = json!(format!("Mcp({TEAM_SERVER_NAME}:*)"));
    match rules["permissions"]["allow"].as_array_mut() {
        Some(allowed) => allowed.push(ours),
        None => rules["permissions"]["allow"] = json!([ours]),
    }
    private_files::write_private_file(folder, CLI_CONFIG_FILE, &rules.to_string())?;
    Ok(())
}

/// Links the entries of a folder into another, except those that the worker writes. Existing entries stay.
fn link_entries(from: &Path, to: &Path, but: &[&str]) -> io::Result<()> {
    let Ok(entries) = fs::read_dir(from) else { return Ok(()) };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if but.iter().any(|ours| *ours == name) {
            continue;
        }
        match symlink(entry.path(), to.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}
