//! `agent-worker complete`: the words that complete a command line, for the scripts of `completions`.
//!
//! The command starts no daemon, prints no error, and gives up after a short time.

use std::{fs, path::Path, time::Duration};

use agent_worker_host::DaemonSocket;
use agent_worker_protocol::{
    InstanceRef, Message, Target,
    api::{ToolSource, TurnView},
};
use clap::Arg;
use tokio::time::timeout;

use crate::{
    client::{
        daemon_client::{
            CommandScope, DaemonClient, MessageFilter, ProposalSelection, RunSelection, ScopeReach,
        },
        launch,
    },
    error::CliError,
    input::{
        completion::{TypedLine, WordKind, read_line, split_words, value_name},
        config_file::ConfigFile,
        context::CommandContext,
        invocation,
        params::param_help,
    },
    output::{
        text::{cut, one_line},
        turn_text,
        verdict::RunVerdict,
    },
};

/// Time for all requests to the daemon. A shell waits for the words.
const DAEMON_TIMEOUT: Duration = Duration::from_millis(70);
/// Characters at which bash ends a word, so that it replaces only the text after the last one.
const BASH_WORD_BREAKS: [char; 3] = ['@', ':', '='];
/// Number of messages to choose from, and the length of their beginnings.
const MAX_MESSAGES: u32 = 20;
const MAX_ABOUT: usize = 60;
/// Number of turns to choose from.
const MAX_TURNS: usize = 20;
/// Commands whose file is a workflow file with parameters.
const FILE_COMMANDS: [&str; 3] = ["run", "start", "up"];

/// A command line whose last word is unfinished.
#[derive(Debug)]
pub(crate) struct CompletionRequest {
    /// Name of the shell.
    pub(crate) shell: String,
    /// Text of the line up to the cursor, with the program's name.
    pub(crate) line: String,
}

/// A word that completes the line, and its description.
#[derive(Debug, PartialEq, Eq)]
struct Candidate {
    word: String,
    about: String,
}

impl Candidate {
    fn new(word: impl Into<String>, about: impl AsRef<str>) -> Self {
        Self { word: word.into(), about: one_line(about.as_ref()) }
    }
}

/// Runs the command.
pub(crate) async fn run(
    request: CompletionRequest,
    ctx: &mut CommandContext<'_>,
) -> Result<RunVerdict, CliError> {
    let words = split_words(&request.line).split_off(1);
    let mut grammar = invocation::full_clap_command();
    grammar.build();
    let line = read_line(&grammar, &words);
    let mut found = candidates(&line, ctx).await;
    found.retain(|one| one.word.starts_with(line.word));
    let cut = match (request.shell.as_str(), line.word.rfind(BASH_WORD_BREAKS)) {
        ("bash", Some(at)) => at + 1,
        _ => 0,
    };
    // bash takes the `=` as a break, so that the option stays.
    let prefix = if request.shell == "bash" { "" } else { line.option_prefix };
    for one in found {
        let word = format!("{prefix}{}", &one.word[cut..]);
        let text = if one.about.is_empty() { word } else { format!("{word}\t{}", one.about) };
        ctx.console.print_raw(&format!("{text}\n"))?;
    }
    Ok(RunVerdict::Done)
}

async fn candidates(line: &TypedLine<'_>, ctx: &CommandContext<'_>) -> Vec<Candidate> {
    match &line.kind {
        WordKind::Nothing => Vec::new(),
        WordKind::Subcommand => {
            let shown = line.command.get_subcommands().filter(|one| !one.is_hide_set());
            let about =
                |one: &clap::Command| one.get_about().map(ToString::to_string).unwrap_or_default();
            shown.map(|one| Candidate::new(one.get_name(), about(one))).collect()
        }
        WordKind::Option => options(line, ctx),
        WordKind::Value(arg) => values(line, arg, ctx).await,
    }
}

fn options(line: &TypedLine<'_>, ctx: &CommandContext<'_>) -> Vec<Candidate> {
    let shown = line.command.get_arguments().filter(|arg| !arg.is_hide_set());
    let mut found: Vec<_> = shown
        .filter_map(|arg| {
            let about = arg.get_help().map(ToString::to_string).unwrap_or_default();
            Some(Candidate::new(format!("--{}", arg.get_long()?), about))
        })
        .collect();
    if let ([command], Some(file)) = (line.path.as_slice(), line.values.first())
        && FILE_COMMANDS.contains(command)
    {
        let path = launch::file_of_source(ctx.settings.cwd.join(file));
        let config = ConfigFile::read(ctx.settings).unwrap_or_default();
        let workflow = launch::load_workflow(&path, Path::new(file), &config).ok();
        let params = workflow.into_iter().flat_map(|workflow| workflow.params);
        found.extend(
            params.map(|param| Candidate::new(format!("--{}", param.name), param_help(&param))),
        );
    }
    found
}

async fn values(line: &TypedLine<'_>, arg: &Arg, ctx: &CommandContext<'_>) -> Vec<Candidate> {
    let possible = arg.get_possible_values();
    if !possible.is_empty() {
        let about = |value: &clap::builder::PossibleValue| {
            value.get_help().map(ToString::to_string).unwrap_or_default()
        };
        let shown = possible.iter().filter(|value| !value.is_hide_set());
        return shown.map(|value| Candidate::new(value.get_name(), about(value))).collect();
    }
    if is_file(&line.path, value_name(arg)) {
        return files(&ctx.settings.cwd, line.word);
    }
    let mut found = match value_name(arg) {
        "TARGET|FILE" => files(&ctx.settings.cwd, line.word),
        _ => Vec::new(),
    };
    let client = DaemonClient::new(DaemonSocket::at(ctx.settings.socket()));
    let scope = ctx.scope(typed_target(line), ScopeReach::CurrentProject);
    let asked = timeout(DAEMON_TIMEOUT, stored_values(line, value_name(arg), &client, &scope));
    found.extend(asked.await.ok().flatten().unwrap_or_default());
    found
}

/// Returns true if a value is the path of a file that the command reads or writes.
fn is_file(path: &[&str], name: &str) -> bool {
    ["FILE", "FOLDER"].contains(&name) && path.first() != Some(&"doc")
}

/// Returns the target that is typed before the unfinished word.
fn typed_target(line: &TypedLine<'_>) -> Option<Target> {
    let mut typed = line.values.iter().filter_map(|word| word.parse::<Target>().ok());
    typed.find(|target| target.workflow.is_some())
}

/// Returns values that the daemon knows; none if it fails.
async fn stored_values(
    line: &TypedLine<'_>,
    name: &str,
    client: &DaemonClient,
    scope: &CommandScope,
) -> Option<Vec<Candidate>> {
    let numbered = |id: &dyn std::fmt::Display, about: &str| Candidate::new(id.to_string(), about);
    Some(match (line.path.as_slice(), name) {
        (["send" | "ask"], _) if name.contains('>') && !line.values.is_empty() => Vec::new(),
        (["tool", "mock"], _) if name.contains('>') => mock_words(line, client, scope).await?,
        (_, "TARGET" | "AGENT" | "TARGET|FILE" | "TARGET> <MESSAGE") => {
            targets(client, scope).await?
        }
        (_, "TAG") => {
            let all = client.instances(scope).await.ok()?;
            let tag = |one: InstanceRef| Candidate::new(one.tag.to_string(), one.name.to_string());
            all.into_iter().map(|one| tag(one.instance)).collect()
        }
        (["doc", ..], "FILE") => {
            let all = client.documents(scope).await.ok()?;
            all.iter().map(|one| Candidate::new(one.file.as_str(), &one.author)).collect()
        }
        (["approve" | "deny"], "NUMBER") => {
            let all = client.approvals(scope).await.ok()?;
            all.iter()
                .map(|one| numbered(&one.id, &format!("{}: {}", one.agent, one.tool)))
                .collect()
        }
        (["answer"], "NUMBER") => {
            let all = client.questions(scope).await.ok()?;
            all.iter().map(|one| numbered(&one.id, &one.question)).collect()
        }
        (["vote" | "veto" | "proposals"], "NUMBER") => {
            let open = client.proposals(scope, ProposalSelection::Open).await.ok()?;
            let proposals = open.items.iter().map(|one| &one.proposal);
            proposals.map(|one| numbered(&one.id, &one.terms.title)).collect()
        }
        (["turns"], "ID") => {
            let newest = client.turns(scope, MAX_TURNS).await.ok()?.items;
            let ids: Vec<_> = newest.iter().map(|one| one.turn).collect();
            let turn = |one: &TurnView| {
                let what = format!("{}: {}", one.agent, turn_text::turn_state(one));
                Candidate::new(turn_text::short_id(one.turn, &ids), &what)
            };
            newest.iter().map(turn).collect()
        }
        (["revoke"], "NUMBER") => {
            let all = client.grants(scope).await.ok()?;
            all.iter()
                .map(|one| numbered(&one.id, &format!("{}: {}", one.agent, one.pattern)))
                .collect()
        }
        (["dead", ..], "NUMBER") => {
            let all = client.dead_letters(scope).await.ok()?;
            all.iter().map(|one| numbered(&one.message.seq, &one.message.body)).collect()
        }
        (_, "NUMBER" | "SEQ") => newest_messages(client, scope).await?,
        (["token", "revoke"], "NAME") => {
            let all = client.tokens().await.ok()?;
            all.iter().map(|one| Candidate::new(&one.name, "")).collect()
        }
        _ => Vec::new(),
    })
}

/// Returns the live agents and the instances of the folder.
async fn targets(client: &DaemonClient, scope: &CommandScope) -> Option<Vec<Candidate>> {
    let folder = CommandScope { target: None, ..scope.clone() };
    let (agents, instances) = tokio::join!(client.agents(&folder), client.instances(&folder));
    let instances = instances.ok()?.into_iter().map(|one| {
        let about = if one.live.is_some() { "live run" } else { "ended" };
        Candidate::new(Target::instance(&one.instance).to_string(), about)
    });
    let agents = agents.ok()?.into_iter().map(|agent| {
        let target = Target::agent(agent.name, &agent.instance).to_string();
        Candidate::new(target, agent.state.to_string())
    });
    Some(agents.chain(instances).collect())
}

/// Returns the targets, and after one the tools of the agent whose results a person can give.
async fn mock_words(
    line: &TypedLine<'_>,
    client: &DaemonClient,
    scope: &CommandScope,
) -> Option<Vec<Candidate>> {
    let target = match line.values.as_slice() {
        [] => return targets(client, scope).await,
        [target] => target,
        _ => return None,
    };
    let agents = client.agent_tools(&target.parse().ok()?, scope).await.ok()?;
    let tools = agents.into_iter().flat_map(|agent| agent.tools);
    let own = tools.filter(|tool| tool.source != ToolSource::Team);
    Some(own.map(|tool| Candidate::new(tool.name, tool.source.word())).collect())
}

async fn newest_messages(client: &DaemonClient, scope: &CommandScope) -> Option<Vec<Candidate>> {
    let filter = MessageFilter {
        limit: MAX_MESSAGES,
        since: None,
        search: None,
        thread: None,
        runs: RunSelection::Current,
    };
    let reply = client.messages(scope, &filter).await.ok()?;
    let newest = reply.items.iter().rev();
    let about = |message: &Message| format!("{}: {}", message.from, message.body);
    let shown = newest
        .map(|one| Candidate::new(one.seq.to_string(), cut(&one_line(&about(one)), MAX_ABOUT)));
    Some(shown.collect())
}

/// Returns the files and folders that begin with an unfinished path; a folder ends with `/`.
fn files(cwd: &Path, word: &str) -> Vec<Candidate> {
    let (folder, start) =
        word.rsplit_once('/').map_or(("", word), |(folder, start)| (&word[..=folder.len()], start));
    let Ok(entries) = fs::read_dir(cwd.join(folder)) else { return Vec::new() };
    let mut found: Vec<_> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let is_meant =
                name.starts_with(start) && (start.starts_with('.') || !name.starts_with('.'));
            let end = if entry.path().is_dir() { "/" } else { "" };
            is_meant.then(|| Candidate::new(format!("{folder}{name}{end}"), ""))
        })
        .collect();
    found.sort_by(|one, other| one.word.cmp(&other.word));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_completed_folder_by_folder() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("teams")).unwrap();
        for name in ["team.yaml", ".hidden", "teams/a.yaml"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let shown = |word: &str| -> Vec<_> {
            files(folder.path(), word).into_iter().map(|one| one.word).collect()
        };
        assert_eq!(shown("te"), ["team.yaml", "teams/"]);
        assert_eq!(shown("teams/"), ["teams/a.yaml"]);
        assert_eq!(shown(".h"), [".hidden"]);
        assert!(shown("gone/x").is_empty());
    }
}
