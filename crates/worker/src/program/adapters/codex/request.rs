//! Requests of the program: permission for a command, a change of files or a call to a server of the user, and questions.
//!
//! A permission request has the kinds and arguments of an agent over ACP, so that the same rules apply to both. Invariant:
//! no reply allows more than this one call.

use std::collections::HashMap;

use agent_worker_protocol::{api::PermitRequest, shell_words::is_installed_shell};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::item::{CodexItem, CodexItemKind};
use crate::{
    program::conversation::{ProgramQuestion, ProgramReply, ProgramStep, QuestionSubject},
    truncation::truncate,
};

const METHOD_NOT_FOUND: i64 = -32601;
/// Mark of a request of a server that is a request of the program itself.
const CALL_APPROVAL: &str = "mcp_tool_call";
/// Maximum length of the description of a denied call.
const MAX_CALL_TEXT_BYTES: usize = 300;

/// A request of the program that waits for a reply.
#[derive(Debug)]
pub(super) struct CodexRequest {
    pub(super) id: Value,
    form: CodexReplyForm,
    /// The call, for the explanation of a denial.
    call: String,
    thread: Option<String>,
    turn: Option<String>,
}

/// The form of the reply.
#[derive(Debug)]
enum CodexReplyForm {
    Decision,
    Elicitation,
    /// The ids of the questions.
    Answers(Vec<String>),
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct CodexRequestParams {
    kind: Option<String>,
    thread_id: Option<String>,
    turn_id: Option<String>,
    item_id: String,
    command: Option<String>,
    cwd: Option<Value>,
    reason: Option<String>,
    network_approval_context: Option<Value>,
    additional_permissions: Option<Value>,
    grant_root: Option<Value>,
    server_name: String,
    message: String,
    #[serde(rename = "_meta")]
    meta: Option<Value>,
    questions: Vec<CodexQuestion>,
}

#[derive(Deserialize)]
struct CodexQuestion {
    id: String,
    question: String,
    options: Option<Value>,
}

/// Interprets a request. Returns the next step, and the request if it waits for a reply.
pub(super) fn handle_request(
    id: Value,
    method: &str,
    params: Value,
    items: &HashMap<String, CodexItem>,
) -> (ProgramStep, Option<CodexRequest>) {
    let params = CodexRequestParams::deserialize(params).unwrap_or_default();
    match method {
        "item/commandExecution/requestApproval" => {
            params.ask(id, CodexReplyForm::Decision, "execute", params.command_args())
        }
        "item/fileChange/requestApproval" => {
            params.ask(id, CodexReplyForm::Decision, "edit", params.edit_args(items))
        }
        "mcpServer/elicitation/request" => match params.call_args(items) {
            Some(args) => params.ask(id, CodexReplyForm::Elicitation, "other", args),
            // No user can fill in the form of a server.
            None => (send_result(&id, &elicitation_reply("decline")), None),
        },
        "item/tool/requestUserInput" => params.ask_user(id),
        // Grants nothing.
        "item/permissions/requestApproval" => {
            (send_result(&id, &json!({"permissions": {}, "scope": "turn"})), None)
        }
        _ => {
            let error =
                json!({"code": METHOD_NOT_FOUND, "message": format!("unknown method `{method}`")});
            (ProgramStep::Send(json!({"id": id, "error": error})), None)
        }
    }
}

impl CodexRequestParams {
    fn ask(
        &self,
        id: Value,
        form: CodexReplyForm,
        tool: &str,
        args: Map<String, Value>,
    ) -> (ProgramStep, Option<CodexRequest>) {
        let args = Value::Object(args);
        let call = format!("{tool} {}", truncate(&args.to_string(), MAX_CALL_TEXT_BYTES));
        let request = PermitRequest { call: String::new(), tool: tool.to_owned(), args };
        let subject = QuestionSubject::Call(request);
        let question = ProgramStep::Ask(ProgramQuestion { id: id.clone(), subject });
        (question, Some(self.open_request(id, form, call)))
    }

    fn open_request(&self, id: Value, form: CodexReplyForm, call: String) -> CodexRequest {
        let (thread, turn) = (self.thread_id.clone(), self.turn_id.clone());
        CodexRequest { id, form, call, thread, turn }
    }

    /// Returns the command, and what else changes the effect of an approval.
    fn command_args(&self) -> Map<String, Value> {
        let kind = self.kind.as_deref().filter(|kind| *kind != "command");
        let command = self.command.as_deref().map(|command| json!(command_line(command)));
        named([
            ("command", command),
            // Input for a running command is not a command.
            ("kind", kind.map(Value::from)),
            ("cwd", self.cwd.clone()),
            ("reason", self.reason.as_deref().map(Value::from)),
            ("network_approval_context", self.network_approval_context.clone()),
            ("additional_permissions", self.additional_permissions.clone()),
        ])
    }

    /// Returns the changes, which only the start of the call contains.
    fn edit_args(&self, items: &HashMap<String, CodexItem>) -> Map<String, Value> {
        let changes = match items.get(&self.item_id).map(|item| &item.kind) {
            Some(CodexItemKind::FileChange { changes, .. }) => Some(changes.clone()),
            _ => None,
        };
        named([
            ("changes", changes),
            ("reason", self.reason.as_deref().map(Value::from)),
            ("grant_root", self.grant_root.clone()),
        ])
    }

    /// Returns the call to a server of the user, if the request is about one.
    fn call_args(&self, items: &HashMap<String, CodexItem>) -> Option<Map<String, Value>> {
        let meta =
            self.meta.as_ref().filter(|meta| meta["codex_approval_kind"] == CALL_APPROVAL)?;
        let asked = &meta["tool_params"];
        // The request has the name of the tool only in its text.
        let tools = items.values().filter_map(|item| match &item.kind {
            CodexItemKind::McpToolCall { server, tool, arguments, .. }
                if *server == self.server_name && arguments == asked =>
            {
                Some(tool)
            }
            _ => None,
        });
        let tools: Vec<&String> = tools.collect();
        let tool = match tools[..] {
            [tool] => Some(json!(tool)),
            _ => None,
        };
        Some(named([
            ("server", Some(json!(self.server_name))),
            ("tool", tool),
            ("arguments", Some(asked.clone())),
            ("title", Some(json!(self.message))),
        ]))
    }

    /// Passes questions to the program's own user on.
    fn ask_user(&self, id: Value) -> (ProgramStep, Option<CodexRequest>) {
        let questions = self.questions.iter().map(|question| {
            let options = question.options.clone().unwrap_or_else(|| json!([]));
            json!({"question": question.question, "options": options})
        });
        let subject = QuestionSubject::User(json!({"questions": questions.collect::<Vec<_>>()}));
        let ids = self.questions.iter().map(|question| question.id.clone()).collect();
        let step = ProgramStep::Ask(ProgramQuestion { id: id.clone(), subject });
        (step, Some(self.open_request(id, CodexReplyForm::Answers(ids), String::new())))
    }
}

impl CodexRequest {
    /// Returns the message for the model that explains a denial: the reply itself has no field for the reason.
    pub(super) fn denial_params(&self, reply: &ProgramReply) -> Option<Value> {
        let ProgramReply::Denied(why) = reply else { return None };
        let text = format!("The call {} was not permitted: {why}", self.call);
        Some(json!({
            "threadId": self.thread.as_ref()?, "expectedTurnId": self.turn.as_ref()?,
            "input": [{"type": "text", "text": text}],
        }))
    }

    /// Builds the reply: allows this one call, or refuses it.
    pub(super) fn reply_step(&self, reply: &ProgramReply) -> ProgramStep {
        let is_allowed = *reply == ProgramReply::Allowed;
        let result = match &self.form {
            CodexReplyForm::Decision => {
                json!({"decision": if is_allowed { "accept" } else { "decline" }})
            }
            CodexReplyForm::Elicitation => {
                elicitation_reply(if is_allowed { "accept" } else { "decline" })
            }
            CodexReplyForm::Answers(ids) => {
                let text = match reply {
                    ProgramReply::Text(text) => text.as_str(),
                    ProgramReply::Allowed | ProgramReply::Denied(_) => "",
                };
                let answers = ids.iter().map(|id| (id.clone(), json!({"answers": [text]})));
                json!({"answers": answers.collect::<Map<_, _>>()})
            }
        };
        send_result(&self.id, &result)
    }
}

fn elicitation_reply(action: &str) -> Value {
    let content = if action == "accept" { json!({}) } else { Value::Null };
    json!({"action": action, "content": content, "_meta": null})
}

fn send_result(id: &Value, result: &Value) -> ProgramStep {
    ProgramStep::Send(json!({"id": id, "result": result}))
}

/// Collects the arguments that are present.
fn named<const N: usize>(args: [(&str, Option<Value>); N]) -> Map<String, Value> {
    let present = args.into_iter().filter_map(|(name, value)| {
        value.filter(|value| !value.is_null()).map(|value| (name.to_owned(), value))
    });
    present.collect()
}

/// Returns the line that a shell of the system gets: the program quotes its three words as one text. Every other command
/// stays as it is.
fn command_line(command: &str) -> String {
    let words = shlex::split(command).unwrap_or_default();
    match &words[..] {
        [shell, flag, line]
            if ["-c", "-lc"].contains(&flag.as_str()) && is_installed_shell(shell) =>
        {
            line.clone()
        }
        _ => command.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_the_line_of_a_known_shell_and_else_all_of_it() {
        for (command, expected) in [
            ("/bin/bash -lc 'echo once >> ran.txt'", "echo once >> ran.txt"),
            ("/bin/bash -lc cat", "cat"),
            (
                r#"/bin/bash -lc "touch 'a b' \"c"'$x" && echo it'"'s""#,
                "touch 'a b' \"c$x\" && echo it's",
            ),
            ("bash -c 'ls; rm x'", "ls; rm x"),
            ("/x/evil -lc 'git diff'", "/x/evil -lc 'git diff'"),
            ("/bin/bash -lc 'git diff' x", "/bin/bash -lc 'git diff' x"),
            ("git diff --stat", "git diff --stat"),
            ("/bin/bash -lc 'open", "/bin/bash -lc 'open"),
            ("", ""),
        ] {
            assert_eq!(command_line(command), expected, "{command}");
        }
    }
}
