//! Built-in tools of agents with direct access to a model: `tools`, and the defaults of `sandbox` and `permissions`.

use agent_worker_protocol::{Backend, Keyword as _, ToolPattern};

use crate::read;

#[test]
fn the_tools_of_an_agent_and_their_sandbox_follow_from_its_keys() {
    let all = "bash bash_output bash_kill read_file write_file edit_file list_files search_code";
    let with_pages = &format!("{all} fetch_url");
    let files = "read_file write_file edit_file list_files search_code";
    for (keys, tools, mode, default) in [
        ("", all, "on", "allow"),
        (", tools: [Bash, 'read_*', bash]", "bash read_file", "on", "allow"),
        (", tools: []", "", "off", ""),
        (", tools: ['*']", with_pages, "on", "allow"),
        (", sandbox: off", all, "off", ""),
        (", sandbox: full", all, "full", "allow"),
        (", sandbox: { network: true }", with_pages, "on", "allow"),
        (", sandbox: { network: false }", all, "on", "allow"),
        (", permissions: { bash: ask }", all, "on", "allow"),
        (", permissions: { bash: ask }, sandbox: off", all, "off", ""),
        (", permissions: { bash: deny }", files, "on", "allow"),
        (", permissions: { ask: [bash] }", all, "on", ""),
        (", permissions: { default: deny, allow: [WebFetch] }", "fetch_url", "on", "deny"),
    ] {
        let text = format!("agents:\n  a: {{ backend: api, model: sonnet{keys} }}\n");
        let agent = read(&text).unwrap().agents.remove(0);
        let Backend::Api(api) = &agent.backend else { panic!("{agent:?}") };
        assert_eq!(api.tools.join(" "), tools, "{keys}");
        assert_eq!(agent.sandbox.mode.word(), mode, "{keys}");
        let found = agent.permissions.default.map_or("", |action| action.word());
        assert_eq!(found, default, "{keys}");
    }
    let rules = "{ bash: ask, Write: deny, 'bash(git*)': allow }";
    let text = format!("agents:\n  a: {{ model: sonnet, backend: api, permissions: {rules} }}\n");
    let rules = read(&text).unwrap().agents.remove(0).permissions;
    let words =
        |patterns: &[ToolPattern]| -> Vec<_> { patterns.iter().map(ToString::to_string).collect() };
    assert_eq!(words(&rules.ask), ["bash"]);
    assert_eq!(words(&rules.deny), ["Write"]);
    assert_eq!(words(&rules.allow), ["bash(git*)"]);
}
