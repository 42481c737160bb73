//! Checks that real agents leave nothing in the project and in the user's home, under kills of daemons and workers.

use std::{
    hash::{BuildHasher as _, RandomState},
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{
    matrix::{Cells, Situation, matrix_tests},
    testbed::{AgentEntry, AgentTestbed, Cli, files},
};
use crate::world::{kill, wait_for};

/// A server of the user, in the format of each program. The server would not start.
const USER_MCP_JSON: &str = "{\"mcpServers\": {\"theirs\": {\"command\": \"/nowhere/theirs\"}}}\n";
const USER_MCP_TOML: &str = "[mcp_servers.theirs]\ncommand = \"/nowhere/theirs\"\n";

/// Settings of a project, which the agents must not change.
const PROJECT: [(&str, &str); 5] = [
    (".codex/config.toml", USER_MCP_TOML),
    (".cursor/mcp.json", USER_MCP_JSON),
    (".mcp.json", USER_MCP_JSON),
    (".gemini/settings.json", USER_MCP_JSON),
    (".opencode/opencode.json", "{}"),
];

/// Settings and memory of a user.
const HOME: [(&str, &str); 9] = [
    (".claude.json", USER_MCP_JSON),
    (".claude/settings.json", "{\"cleanupPeriodDays\": 7}\n"),
    (".claude/CLAUDE.md", "Be brief.\n"),
    (".codex/config.toml", "model_reasoning_effort = \"low\"\n"),
    (".codex/AGENTS.md", "Be brief.\n"),
    (".gemini/settings.json", "{\"ui\": {\"theme\": \"Default\"}}\n"),
    (".gemini/GEMINI.md", "Be brief.\n"),
    (".cursor/mcp.json", USER_MCP_JSON),
    (".config/opencode/opencode.json", "{\"theme\": \"system\"}\n"),
];

pub(super) fn write_all(folder: &Path, entries: &[(&str, &str)]) {
    for (name, text) in entries {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

/// Returns the files of a user's home, except the project, the daemon's files and caches.
fn home(testbed: &AgentTestbed) -> Vec<(PathBuf, Vec<u8>)> {
    let home = testbed.world.project().parent().unwrap().to_owned();
    let mut found = Vec::new();
    for entry in std::fs::read_dir(home).unwrap() {
        let entry = entry.unwrap();
        let is_theirs =
            !["project", "home", ".cache"].iter().any(|ours| *ours == entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true if is_theirs => found.extend(files(&entry.path())),
            false if is_theirs => found.push((entry.path(), std::fs::read(entry.path()).unwrap())),
            _ => {}
        }
    }
    found.sort();
    found
}

/// Returns the number of rounds; `scripts/nightly` sets more.
#[expect(clippy::disallowed_methods, reason = "how long it takes is a setting of the test itself")]
fn rounds() -> u64 {
    std::env::var("AW_ROUNDS").map_or(20, |rounds| rounds.parse().unwrap())
}

/// Returns a random number below `end`.
fn random_below(end: usize) -> usize {
    let end = u64::try_from(end).unwrap();
    usize::try_from(RandomState::new().hash_one(()) % end).unwrap()
}

/// Returns the pids of the live workers.
fn workers(testbed: &AgentTestbed) -> Vec<u32> {
    let is_worker = |line: &str| line.trim_end().ends_with("/exe worker");
    testbed
        .other_processes()
        .into_iter()
        .filter(|(_, line)| is_worker(line))
        .map(|(pid, _)| pid)
        .collect()
}

/// Runs rounds of kills while every agent works: a daemon or a worker, at any moment of a turn.
fn check_no_leftovers(clis: &[Cli], rounds: u64, cells: &mut Cells) {
    let Some(testbed) = AgentTestbed::open(clis, "what real agents leave behind") else { return };
    let project = testbed.world.project();
    write_all(&project, &PROJECT);
    write_all(project.parent().unwrap(), &HOME);
    let settings = "retry: { backoff: 10ms, max_attempts: 100 }";
    let entries: Vec<_> =
        clis.iter().map(|cli| AgentEntry { name: cli.name(), cli: *cli, settings }).collect();
    testbed.write(&entries, "context: { documents: store }\nlimits: { hops: 1000 }\n");
    let before = (files(&project), home(&testbed));
    let mut daemon = testbed.world.daemon();
    let started = testbed.world.run(&["start", "--background", "team.yaml"]);
    assert_eq!(started.code, 0, "{started:?}");
    let mut killed = [0, 0];
    for round in 1..=rounds {
        let program = "@all\nCALL channel_send {\"message\":\"still here\"}\nSAY Done.";
        assert_eq!(testbed.world.run(&["send", "@team", program]).code, 0);
        // The work itself determines the moment: before the first answer of the round, or after one.
        let asked = testbed.models.requests().len() + random_below(2 * clis.len());
        wait_for("somebody at work", || (testbed.models.requests().len() >= asked).then_some(()));
        let workers = workers(&testbed);
        let victim = workers.get(random_below(workers.len().max(1))).filter(|_| round % 2 == 0);
        if let Some(worker) = victim {
            kill(*worker, "KILL");
        } else {
            kill(daemon.id(), "KILL");
            daemon.wait().unwrap();
        }
        killed[usize::from(victim.is_none())] += 1;
        assert_eq!(files(&project), before.0, "in round {round}");
        if victim.is_none() {
            daemon = testbed.world.daemon();
        }
    }
    // All work completes in the end, whatever was killed.
    for cli in clis {
        wait_for("the end of all work", || {
            (testbed.status(cli.name())["state"] == "idle").then_some(())
        });
    }
    assert!(killed.iter().all(|count| *count > 0), "{killed:?}");
    assert_eq!(testbed.world.run(&["stop", "@team"]).code, 0);
    wait_for("the end of every process", || testbed.other_processes().is_empty().then_some(()));
    assert_eq!((files(&project), home(&testbed)), before, "{killed:?}");
    cells.passed(Situation::NoLeftovers);
    assert_eq!(testbed.world.run(&["daemon", "stop"]).code, 0);
    daemon.wait().unwrap();
}

fn check_after_many_kills<const SIZE: usize>(clis: [Cli; SIZE], cells: &mut Cells) {
    check_no_leftovers(&clis, rounds(), cells);
}

fn check_after_kills<const SIZE: usize>(clis: [Cli; SIZE], cells: &mut Cells) {
    check_no_leftovers(&clis, 4, cells);
}

matrix_tests! {
    check_after_many_kills proves [NoLeftovers] {
        the_project_and_the_home_are_as_they_were_after_rounds_of_kills: [Claude, Codex, Gemini],
    }
    check_after_kills proves [NoLeftovers] {
        agents_over_acp_leave_nothing_in_the_project_and_at_home_either: [AcpClaude, AcpGemini],
        opencode_leaves_nothing_in_the_project_and_at_home_either: [Opencode],
        codex_over_acp_leaves_nothing_in_the_project_and_at_home_either: [AcpCodex],
        zeds_codex_leaves_nothing_in_the_project_and_at_home_either: [AcpZedCodex],
        opencode_over_acp_leaves_nothing_in_the_project_and_at_home_either: [AcpOpencode],
        qwen_code_leaves_nothing_in_the_project_and_at_home_either: [AcpQwen],
        copilot_leaves_nothing_in_the_project_and_at_home_either: [AcpCopilot],
    }
}

/// Checks that with a user's login the programs keep the user's files in place and read the settings without
/// writing them.
#[test]
fn the_settings_of_a_person_are_as_they_were_when_agents_use_their_login() {
    let clis = [Cli::Claude, Cli::Codex];
    let Some(testbed) = AgentTestbed::open(&clis, "what real agents do to a person's settings")
    else {
        return;
    };
    let project = testbed.world.project();
    let home = project.parent().unwrap();
    write_all(&project, &PROJECT);
    write_all(home, &HOME);
    let url =
        testbed.models.variables().into_iter().find(|it| it.0 == "OPENAI_BASE_URL").unwrap().1;
    let codex = format!(
        "model_provider = \"mine\"\n[model_providers.mine]\nname = \"mine\"\nbase_url = \"{url}\"\nenv_key = \"OPENAI_API_KEY\"\n"
    );
    write_all(home, &[(".codex/config.toml", &codex)]);
    let entries = clis.map(|cli| AgentEntry { name: cli.name(), cli, settings: "mode: login" });
    testbed.start(&entries, "context: { documents: store }\n");
    let before = files(&project);
    for cli in clis {
        let said = testbed.ask(cli.name(), "CALL channel_send {\"message\":\"as you\"}\nSAY Done.");
        assert_eq!(said, "Done.", "{}", testbed.diagnostics(cli.name()));
    }
    assert_eq!(testbed.world.run(&["stop", "@team"]).code, 0);
    assert_eq!(files(&project), before);
    for (name, text) in HOME {
        let text = if name == ".codex/config.toml" { &codex } else { text };
        let now = std::fs::read_to_string(home.join(name)).unwrap();
        if name == ".claude.json" {
            // The program keeps its own notes in this file, next to the user's settings.
            let servers =
                |text: &str| serde_json::from_str::<Value>(text).unwrap()["mcpServers"].clone();
            assert_eq!(servers(&now), servers(text), "{now}");
        } else {
            assert_eq!(now, text, "{name}");
        }
    }
}
