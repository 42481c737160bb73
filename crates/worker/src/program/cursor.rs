//! Cursor's CLI: `cursor-agent -p`, which writes a stream of JSON events and ends.
//!
//! Written from what its vendor documents and tested with a stand-in: nobody here has seen the program itself.

use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use agent_worker_protocol::{Cli, FailureClass, Mode, Stance};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Exit, Heard, Invocation, Turn, Vendor, Verdict, files, models::model_for};
use crate::{
    door::{Entrance, SERVER},
    model::{Failure, ToolResult},
};

/// What is given as an argument. A longer prompt lies in a file.
const LONGEST_ARGUMENT: usize = 100 * 1024;
/// Its folder in a home, and what of it is ours.
const FOLDER: &str = ".cursor";
const SERVERS: &str = "mcp.json";
const RULES: &str = "cli-config.json";

/// What it has said so far.
#[derive(Default)]
pub(super) struct Cursor {
    last: Option<Conversation>,
    /// What it said since its last call.
    answer: String,
    end: Option<End>,
}

/// What the next turn needs to go on.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Conversation {
    id: String,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Event {
    System {
        session_id: String,
    },
    Assistant {
        message: Message,
    },
    ToolCall {
        subtype: String,
        call_id: String,
        tool_call: Value,
    },
    Result(End),
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    content: Vec<Block>,
}

#[derive(Deserialize)]
struct Block {
    #[serde(default)]
    text: String,
}

/// Its last event.
#[derive(Deserialize)]
struct End {
    is_error: bool,
    #[serde(default)]
    result: String,
}

impl Cursor {
    pub(super) fn new(session: Option<&Value>) -> Self {
        let last = session.and_then(|session| Conversation::deserialize(session).ok());
        Self { last, ..Self::default() }
    }
}

impl Vendor for Cursor {
    fn invocation(&self, turn: &Turn<'_>) -> io::Result<Invocation> {
        let job = turn.job;
        let mut invocation = Invocation::default();
        invocation.args(["-p", "--output-format", "stream-json", "--approve-mcps"]);
        // Without it what it would change is only proposed, and what it would run is refused.
        if job.permissions.default == Stance::Allow {
            invocation.args(["--force"]);
        }
        if let Some(model) = model_for(Cli::Cursor, job.model.as_deref()) {
            invocation.args(["--model", &model]);
        }
        if let Some(last) = &self.last {
            invocation.args(["--resume", &last.id]);
        }
        // It has no other way to tell it one.
        let prompt = format!("{}\n\n{}", job.system_prompt, job.prompt);
        let prompt = if prompt.len() > LONGEST_ARGUMENT {
            let file = files::private(&job.folder, "prompt.md", &prompt)?;
            format!("Read all of the file {file} and do what it says.")
        } else {
            prompt
        };
        // What begins like an option would be one.
        invocation.args(["--", &prompt]);
        let home = match turn.mode {
            Mode::Isolated => {
                let home = job.keep.join("cursor");
                invocation.env("XDG_CONFIG_HOME", &files::folder(&home.join(".config"))?);
                settle(&home.join(FOLDER), &json!({}), turn.door)?;
                home
            }
            Mode::Login => {
                let home = job.keep.join("cursor-login");
                let theirs = job.env.get("HOME").map(PathBuf::from).ok_or_else(|| {
                    io::Error::new(io::ErrorKind::NotFound, "there is no HOME with a login in it")
                })?;
                files::folder(&home.join(FOLDER))?;
                link_all(&theirs, &home, &[FOLDER])?;
                link_all(&theirs.join(FOLDER), &home.join(FOLDER), &[SERVERS, RULES])?;
                let rules = fs::read(theirs.join(FOLDER).join(RULES)).unwrap_or_default();
                let rules = serde_json::from_slice(&rules).unwrap_or_else(|_| json!({}));
                settle(&home.join(FOLDER), &rules, turn.door)?;
                home
            }
        };
        invocation.env("HOME", &files::folder(&home)?);
        Ok(invocation)
    }

    fn hear(&mut self, line: &str) -> Vec<Heard> {
        match serde_json::from_str(line) {
            Ok(Event::System { session_id }) => {
                vec![Heard::Session(json!(Conversation { id: session_id }))]
            }
            Ok(Event::Assistant { message }) => {
                let text: String = message.content.into_iter().map(|block| block.text).collect();
                self.answer.push_str(&text);
                vec![Heard::Text(text)]
            }
            Ok(Event::ToolCall { subtype, call_id, tool_call }) => {
                // What was said so far led to a call and is no answer.
                self.answer.clear();
                let Some((tool, args, result)) = called(&tool_call) else { return Vec::new() };
                match subtype.as_str() {
                    "started" => vec![Heard::Called { id: call_id, tool, args }],
                    "completed" => vec![Heard::Answered { id: call_id, tool, result }],
                    _ => Vec::new(),
                }
            }
            Ok(Event::Result(end)) => {
                self.end = Some(end);
                Vec::new()
            }
            Ok(Event::Other) | Err(_) => Vec::new(),
        }
    }

    fn verdict(&mut self, exit: &Exit) -> Verdict {
        match self.end.take() {
            Some(End { is_error: false, result }) if exit.status.success() => {
                let answer = std::mem::take(&mut self.answer);
                Verdict::Answered(if answer.is_empty() { result } else { answer })
            }
            Some(End { is_error: true, result }) => {
                Verdict::Failed(Failure::new(FailureClass::Fatal, result))
            }
            // It tells why on stderr, and in words alone.
            Some(End { .. }) | None => Verdict::Failed(exit.wordless()),
        }
    }
}

/// Which tool, with what, and what it answered: `{"readToolCall": {"args": …, "result": {"success": …}}}`.
fn called(call: &Value) -> Option<(String, Value, ToolResult)> {
    let (name, call) = call.as_object()?.iter().next()?;
    let args = &call["args"];
    let (tool, args) = match (&**name, args["toolName"].as_str()) {
        ("mcpToolCall", Some(tool)) => {
            let server = args["providerIdentifier"].as_str().unwrap_or(SERVER);
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

/// Writes what it reads beside what is a person's: our server alone, whose tools it need not ask for.
fn settle(folder: &Path, rules: &Value, door: &Entrance) -> io::Result<()> {
    files::folder(folder)?;
    let headers = json!({"Authorization": format!("Bearer {}", door.token)});
    let servers = json!({"mcpServers": {SERVER: {"url": door.url, "headers": headers}}});
    files::private(folder, SERVERS, &servers.to_string())?;
    let mut rules = rules.clone();
    if !rules.is_object() {
        rules = json!({});
    }
    if !rules["permissions"].is_object() {
        rules["permissions"] = json!({"allow": [], "deny": []});
    }
    let ours = json!(format!("Mcp({SERVER}:*)"));
    match rules["permissions"]["allow"].as_array_mut() {
        Some(allowed) => allowed.push(ours),
        None => rules["permissions"]["allow"] = json!([ours]),
    }
    files::private(folder, RULES, &rules.to_string())?;
    Ok(())
}

/// Links what is in a folder into another, but for what is ours there. What is there already stays.
fn link_all(from: &Path, to: &Path, but: &[&str]) -> io::Result<()> {
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
