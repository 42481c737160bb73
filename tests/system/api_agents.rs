//! Agents with direct access to a model: teams over each API, failures, messages to a running turn, and kills.

use serde_json::{Value, json};

use crate::{
    model_server::{KEY, ModelServer},
    wire::http::Ask,
    world::{World, kill, wait_for},
};

/// The agents' models, one for each API. `LOCAL` is replaced with the address of the server.
pub(crate) const MODELS: [(&str, &str); 4] = [
    ("messages", "model: anthropic/claude-sonnet-5-5"),
    ("responses", "model: gpt-6-sol"),
    ("gemini", "model: google/gemini-2.5-flash"),
    (
        "chat",
        "model: scripted, provider: { name: local, base_url: LOCAL, api_key: $LOCAL_API_KEY }",
    ),
];

/// A world whose models answer by scripts.
pub(crate) struct ApiWorld {
    pub(crate) world: World,
    pub(crate) models: ModelServer,
}

impl ApiWorld {
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    pub(crate) fn with(more: &[(&str, &str)]) -> Self {
        let models = ModelServer::start();
        let variables = models.variables();
        let variables = variables.iter().map(|(name, value)| (*name, value.as_str()));
        let variables: Vec<_> = variables.chain(more.iter().copied()).collect();
        Self { world: World::with(&variables), models }
    }

    /// Writes the file of a team.
    pub(crate) fn write(&self, agents: &[(&str, &str)], rest: &str) {
        let url = self.models.url() + "/v1";
        let agents = agents.iter().map(|(name, keys)| format!("  {name}: {{ {keys} }}\n"));
        let agents: String = agents.collect();
        let yaml =
            format!("name: team\nagents:\n{}{rest}", agents.replace("LOCAL,", &format!("{url},")));
        self.world.file("team.yaml", &yaml);
    }

    /// Starts a team of one agent.
    pub(crate) fn start(&self, keys: &str) {
        self.write(&[("me", keys)], "");
        let started = self.world.run(&["start", "--background", "team.yaml"]);
        assert_eq!(started.code, 0, "{started:?}");
    }

    pub(crate) fn ask(&self, script: &str) -> String {
        let said = self.world.run(&["send", "me@team", script, "--wait"]);
        assert_eq!(said.code, 0, "{said:?}\n{}", self.world.log());
        said.stdout.trim().to_owned()
    }

    /// Sends a script and waits until its first attempt has ended. Returns the end.
    pub(crate) fn end_of(&self, script: &str) -> Value {
        let said = self.world.run(&["send", "me@team", script]);
        assert_eq!(said.code, 0, "{said:?}");
        wait_for("the end of the turn", || {
            let status = self.world.json(&["status", "me@team", "--json"]);
            status["attempts"][0].get("ended").cloned()
        })
    }

    pub(crate) fn events(&self, kind: &str) -> Vec<Value> {
        let ask = Ask { method: "GET", path: "/events?target=@team&after=0", ..Ask::default() };
        let events = ask.events(&self.world, |event| event["kind"] == "attempt.ended");
        events.into_iter().filter(|event| event["kind"] == kind).collect()
    }
}

/// Returns a script whose agent writes a line into the team's document and passes the rest on.
pub(crate) fn note_and_pass_on(name: &str, next: &str, rest: &str) -> String {
    let note = json!({"content": format!("- {name}\n")});
    let message = json!({"message": rest, "to": [next]});
    format!("CALL document_append {note}\nCALL channel_send {message}\nSAY Passed on.")
}

#[test]
fn a_team_of_agents_with_one_api_ends_done_with_its_tokens_counted() {
    for (api, keys) in MODELS {
        let test = ApiWorld::new();
        let last = "CALL document_read {}\nECHO";
        let second = note_and_pass_on("second", "third", last);
        let kickoff = format!("@first go\n{}", note_and_pass_on("first", "second", &second));
        let agents = [("first", keys), ("second", keys), ("third", keys)];
        test.write(&agents, &format!("kickoff: {}\n", json!(kickoff)));
        let (code, envelope) = test.world.envelope(&["run", "team.yaml", "--json"]);
        assert_eq!((code, &envelope["outcome"]), (0, &json!("done")), "{api}: {envelope}");
        let document = test.world.run(&["doc", "read", "--target", "@team"]).stdout;
        assert_eq!(document, "- first\n- second\n", "{api}");
        let requests = test.models.requests();
        assert_eq!(requests.len(), 3 + 3 + 2, "{api}: one request for each step");
        let usage = &envelope["usage"];
        let tokens = json!([usage["input_tokens"], usage["output_tokens"]]);
        assert_eq!(tokens, json!([800, 80]), "{api}: {envelope}");
    }
}

#[test]
fn a_team_has_agents_of_every_api_at_once() {
    let test = ApiWorld::new();
    let names: Vec<&str> = MODELS.iter().map(|(api, _)| *api).collect();
    let script = names
        .windows(2)
        .rev()
        .fold("SAY The end.".to_owned(), |rest, pair| note_and_pass_on(pair[0], pair[1], &rest));
    test.write(&MODELS, &format!("kickoff: {}\n", json!(format!("@{} go\n{script}", names[0]))));
    let (code, envelope) = test.world.envelope(&["run", "team.yaml", "--json"]);
    assert_eq!((code, &envelope["outcome"]), (0, &json!("done")), "{envelope}");
    let stats = test.world.list(&["stats", "@team", "--json"])[0]["agents"].clone();
    let cost = |name: &str| {
        let agent = stats.as_array().unwrap().iter().find(|agent| agent["name"] == name).unwrap();
        agent["usage"]["cost_micros"].as_u64()
    };
    // Three answers of 100 and 10 tokens: $2 and $10, $2 and $10, and $0.30 and $2.50 for a million tokens; one answer of `chat`.
    assert_eq!(cost("messages"), Some(900), "{stats}");
    assert_eq!(cost("responses"), Some(900), "{stats}");
    assert_eq!(cost("gemini"), Some(165), "{stats}");
    assert_eq!(cost("chat"), None, "the price of a local model is not known: {stats}");
}

#[test]
fn each_request_repeats_the_previous_one_and_appends_to_it() {
    for (api, keys) in MODELS {
        let test = ApiWorld::new();
        test.start(keys);
        test.ask("CALL document_append {\"content\":\"x\"}\nCALL document_read {}\nSAY Done.");
        let requests = test.models.requests();
        let list = |at: usize| {
            let body = &requests[at].body;
            let list =
                ["messages", "input", "contents"].into_iter().find_map(|it| body[it].as_array());
            list.unwrap().clone()
        };
        assert_eq!(requests.len(), 3, "{api}");
        for at in 1..3 {
            assert!(
                list(at).starts_with(&list(at - 1)) && list(at).len() > list(at - 1).len(),
                "{api}"
            );
        }
    }
}

#[test]
fn a_refused_request_has_the_class_of_its_failure() {
    for (script, class) in [
        ("FAIL 401", "auth"),
        ("FAIL 402", "billing"),
        ("FAIL 400", "fatal"),
        ("FAIL 429\nRETRY_AFTER 3600", "rate_limited"),
        ("FAIL 529\nRETRY_AFTER 3600", "transient"),
    ] {
        for (api, keys) in MODELS {
            let test = ApiWorld::new();
            test.start(keys);
            let ended = test.end_of(script);
            assert_eq!(ended["class"], class, "{api} {script}: {ended}");
        }
    }
}

#[test]
fn a_short_delay_is_waited_for_in_place_and_a_cut_answer_is_asked_for_again() {
    for (api, keys) in MODELS {
        let test = ApiWorld::new();
        test.start(keys);
        assert_eq!(test.ask("FAIL 429 2\nRETRY_AFTER 0.1\nSAY At last."), "At last.", "{api}");
        assert_eq!(test.events("retry").len(), 2, "{api}");
        assert_eq!(test.events("attempt.ended").len(), 1, "{api}");
    }
    let test = ApiWorld::new();
    test.start(MODELS[0].1);
    let ended = test.end_of("CUT\nSAY one two three four");
    assert_eq!(ended["class"], "transient", "{ended}");
    let why = ended["why"].as_str().unwrap();
    assert!(why.starts_with("the connection to the provider broke: "), "{ended}");
    assert_eq!(test.models.requests().len(), 3);
}

#[test]
fn a_missing_key_stops_the_agent_and_names_its_variable() {
    let test = ApiWorld::with(&[("ANTHROPIC_API_KEY", "")]);
    test.write(&[("me", MODELS[0].1)], "");
    let why = "no key for `anthropic`: set ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN in the environment; \
               `backend: claude` uses a login instead";
    let refused = test.world.run(&["start", "--background", "team.yaml"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (2, ""), "{refused:?}");
    let first = format!("error: agent `me`: {why}\n");
    assert!(refused.stderr.starts_with(&first), "{refused:?}");
    let step = "set it and start the run again; or start without it: --allow-missing\n";
    assert!(refused.stderr.ends_with(step), "{refused:?}");
    assert_eq!(test.world.daemon_pid(), None);
    let started = test.world.run(&["start", "--background", "--allow-missing", "team.yaml"]);
    assert_eq!(started.code, 0, "{started:?}");
    let ended = test.end_of("SAY x");
    assert_eq!((&ended["class"], &ended["why"]), (&json!("auth"), &json!(why)), "{ended}");
    let validated = test.world.run(&["validate", "team.yaml"]);
    assert!(validated.stderr.contains("agent `me`: no key for `anthropic`"), "{validated:?}");
    assert!(test.models.requests().is_empty());
}

#[test]
fn a_key_reaches_neither_the_events_nor_the_log_nor_the_database() {
    let test = ApiWorld::new();
    test.start(MODELS[3].1);
    test.ask("CALL document_append {\"content\":\"x\"}\nSAY Done.");
    let logs = test.world.run(&["logs", "me@team", "--json"]).stdout;
    let exported = test.world.run(&["export", "@team"]).stdout;
    for (place, text) in [("logs", logs), ("export", exported), ("log", test.world.log())] {
        assert!(!text.contains(KEY), "{place}: {text}");
    }
}

#[test]
fn a_provider_is_checked_with_one_request_after_a_warning() {
    let test = ApiWorld::with(&[
        ("GROQ_API_KEY", "another key"),
        ("GROQ_BASE_URL", "http://127.0.0.1:1/v1"),
    ]);
    for (provider, model) in [
        ("anthropic", "claude-haiku-5-5"),
        ("openai", "gpt-6-luna"),
        ("google", "gemini-2.5-flash-lite"),
    ] {
        let checked = test.world.run(&["providers", "check", provider]);
        assert_eq!(checked.code, 0, "{checked:?}");
        let answered = format!("ok: {provider} answered as {model} in ");
        assert!(checked.stdout.starts_with(&answered), "{checked:?}");
        assert!(checked.stdout.ends_with(" ms (100 + 10 tokens)\n"), "{checked:?}");
        let warning = format!("asks {model} at http://127.0.0.1:");
        assert!(checked.stderr.starts_with(&warning), "{checked:?}");
        assert!(
            checked.stderr.ends_with(" for at most 16 tokens, which may cost money\n"),
            "{checked:?}"
        );
    }
    assert_eq!(test.models.requests().len(), 3);
    let checked = test.world.run(&["providers", "check", "groq", "-m", "x", "--json"]);
    assert_eq!(checked.code, 1, "{checked:?}");
    let report: Value = serde_json::from_str(&checked.stdout).unwrap();
    assert_eq!((&report["ok"], &report["class"]), (&json!(false), &json!("transient")));
    let unknown = test.world.run(&["providers", "check", "groq"]);
    assert_eq!(unknown.code, 2, "{unknown:?}");
    let hint = "name one: agent-worker providers check groq --model MODEL";
    assert!(unknown.stderr.contains(hint), "{unknown:?}");
    assert_eq!(test.world.daemon_pid(), None);
}

#[test]
fn a_model_cannot_run_the_commands_of_a_script() {
    let test = ApiWorld::new();
    test.start(MODELS[0].1);
    test.ask("CALL shell {\"command\":\"echo x > made\"}\nSAY Tried.");
    let (calls, results) = (test.events("tool_call"), test.events("tool_result"));
    assert_eq!((calls.len(), results.len()), (1, 1), "{calls:?} {results:?}");
    assert_eq!(calls[0]["data"]["tool"], "shell", "{calls:?}");
    assert_eq!(results[0]["data"]["ok"], false, "{results:?}");
    assert!(!test.world.project().join("made").exists());
}

#[test]
fn a_turn_of_a_model_is_shown_with_its_prompt_words_calls_and_results() {
    for (api, keys) in MODELS {
        let test = ApiWorld::new();
        test.start(keys);
        let calls = "CALL document_append {\"content\":\"a note\"}\nCALL shell {\"command\":\"id\"}\n\
                     CALL document_read {}\n";
        test.ask(&format!("{calls}SAY All is noted."));
        let listed = test.world.list(&["turns", "me@team", "--json"]);
        let turn = test.world.json(&["turns", listed[0]["turn"].as_str().unwrap(), "--json"]);
        let items = turn["items"].as_array().unwrap();
        // A note says that the price of a scripted model is unknown.
        let is_shown = |item: &&Value| item["kind"] != "usage" && item["kind"] != "note";
        let shown = items.iter().filter(is_shown);
        let kinds: Vec<_> = shown.map(|item| item["kind"].as_str().unwrap()).collect();
        let call = ["tool_call", "tool_result"];
        let expected = [&["system", "prompt"][..], &call, &call, &call, &["words"]].concat();
        assert_eq!(kinds, expected, "{api}: {turn}");
        let of = |kind: &str| items.iter().filter(|item| item["kind"] == kind).collect::<Vec<_>>();
        assert!(of("system")[0]["text"].as_str().unwrap().contains("You are me"), "{api}");
        assert!(of("prompt")[0]["text"].as_str().unwrap().contains(calls), "{api}");
        assert_eq!(of("words")[0]["text"], "All is noted.", "{api}");
        let tools: Vec<_> = of("tool_call").into_iter().map(|call| &call["tool"]).collect();
        assert_eq!(tools, ["document_append", "shell", "document_read"], "{api}");
        assert_eq!(of("tool_call")[0]["args"]["content"], "a note", "{api}");
        let results = of("tool_result");
        let states: Vec<_> = results.iter().map(|result| result["ok"].as_bool()).collect();
        assert_eq!(states, [Some(true), Some(false), Some(true)], "{api}: {turn}");
        assert!(results[2]["text"].as_str().unwrap().contains("a note"), "{api}: {turn}");
        let tokens = (&turn["usage"]["input_tokens"], &turn["usage"]["output_tokens"]);
        assert_eq!(tokens, (&json!(400), &json!(40)), "{api}: {turn}");
        let printed = test.world.run(&["turns", listed[0]["turn"].as_str().unwrap()]).stdout;
        for part in ["You are me", "a note", "shell", "All is noted."] {
            assert!(printed.contains(part), "{api} {part}: {printed}");
        }
    }
}

#[test]
fn a_message_for_now_joins_the_running_turn_with_its_next_step() {
    let test = ApiWorld::new();
    test.start(MODELS[0].1);
    let sent = test.world.run(&["send", "me@team", "HOLD\nCALL document_read {}\nSAY One."]);
    assert_eq!(sent.code, 0, "{sent:?}");
    test.models.wait_held(1);
    let now = test.world.run(&["send", "me@team", "please hurry", "--now"]);
    assert!(now.stdout.contains("its running turn gets this message"), "{now:?}");
    test.models.release_held();
    wait_for("the receipt", || {
        let receipts = test.world.list(&["receipts", "2", "--target", "@team", "--json"]);
        (receipts[0]["state"] == "acted").then_some(())
    });
    let requests = test.models.requests();
    assert_eq!(requests.len(), 2, "one turn");
    let last = requests[1].body.to_string();
    assert_eq!(last.matches("from=user>\\nplease hurry").count(), 1, "{last}");
}

#[test]
fn a_message_for_now_during_the_last_answer_gets_an_answer_of_its_own() {
    let test = ApiWorld::new();
    test.start(MODELS[1].1);
    let sent = test.world.run(&["send", "me@team", "DELAY 2000\nSAY One."]);
    assert_eq!(sent.code, 0, "{sent:?}");
    wait_for("the request", || (test.models.requests().len() == 1).then_some(()));
    let now = test.world.run(&["send", "me@team", "SAY Two.", "--now"]);
    assert!(now.stdout.contains("its running turn gets this message"), "{now:?}");
    wait_for("the answer", || {
        let read = test.world.json(&["peek", "@team", "-n", "20", "--json"]);
        let mut items = read["items"].as_array().unwrap().iter();
        items.any(|item| item["body"] == "One.\n\nTwo.").then_some(())
    });
}

#[test]
fn a_daemon_that_is_killed_in_the_middle_of_an_answer_loses_and_doubles_nothing() {
    let test = ApiWorld::new();
    test.start(MODELS[0].1);
    let note = "CALL document_append {\"content\":\"once\\n\"}";
    let script = format!("{note}\nHOLD\nCALL document_read {{}}\nSAY Done.");
    assert_eq!(test.world.run(&["send", "me@team", &script]).code, 0);
    test.models.wait_held(1);
    kill(test.world.daemon_pid().unwrap(), "KILL");
    assert_eq!(test.world.run(&["ls", "@team"]).code, 0);
    test.models.release_held();
    wait_for("the end of the turn", || {
        let status = test.world.json(&["status", "me@team", "--json"]);
        (status["attempts"][0]["ended"]["end"] == "ok").then_some(())
    });
    let document = test.world.run(&["doc", "read", "--target", "@team"]).stdout;
    assert_eq!(document, "once\n");
}

#[test]
fn a_turn_ends_at_its_limits() {
    let test = ApiWorld::new();
    test.start(&format!("{}, max_steps: 2", MODELS[0].1));
    let calls = "CALL document_list {}\n".repeat(4);
    let ended = test.end_of(&format!("{calls}SAY Never."));
    assert_eq!(ended["why"], "the model still called tools after 2 steps (max_steps)");
    let test = ApiWorld::new();
    test.start(&format!(
        "{}, max_tokens: 77, temperature: 0.5, extra: {{ top_k: 5 }}",
        MODELS[0].1
    ));
    test.ask("SAY x");
    let body = test.models.requests()[0].body.clone();
    let sent = json!([body["max_tokens"], body["temperature"], body["top_k"]]);
    assert_eq!(sent, json!([77, 0.5, 5]));
}

#[test]
fn a_stop_ends_a_turn_whose_model_is_writing() {
    let test = ApiWorld::new();
    test.start(MODELS[2].1);
    assert_eq!(test.world.run(&["send", "me@team", "HOLD\nCALL document_list {}\nSAY x"]).code, 0);
    test.models.wait_held(1);
    let stopped = test.world.run(&["stop", "@team"]);
    assert_eq!(stopped.code, 0, "{stopped:?}");
    let workers = || test.world.processes().len();
    wait_for("the end of the worker", || (workers() <= 1).then_some(()));
}

/// Returns the number of requests, and the body of the last one as text.
fn last_request(test: &ApiWorld) -> (usize, String) {
    let mut requests = test.models.requests();
    let count = requests.len();
    (count, requests.pop().unwrap().body.to_string())
}

#[test]
fn a_turn_continues_the_conversation_of_the_last_one_that_ended_ok() {
    for (api, keys) in MODELS {
        let test = ApiWorld::new();
        test.start(keys);
        test.ask("CALL document_append {\"content\":\"first note\"}\nSAY First answer.");
        test.ask("SAY Second answer.");
        let (count, body) = last_request(&test);
        assert_eq!(count, 3, "{api}");
        for part in ["first note", "First answer."] {
            assert!(body.contains(part), "{api} {part}: {body}");
        }
        // The turn is interrupted and leaves nothing in the conversation. Its message starts the next turn.
        let sent = test.world.run(&["send", "me@team", "HOLD\nCALL document_list {}\nSAY Lost."]);
        assert_eq!(sent.code, 0, "{sent:?}");
        test.models.wait_held(1);
        assert_eq!(test.world.run(&["interrupt", "me@team"]).code, 0);
        test.models.wait_held(2);
        test.models.release_held();
        test.ask("SAY Third answer.");
        let (_, body) = last_request(&test);
        assert!(body.contains("Second answer."), "{api}: {body}");
        assert_eq!(body.matches("SAY Lost.").count(), 1, "{api}: {body}");
    }
}

#[test]
fn a_fresh_session_begins_without_the_earlier_words() {
    let test = ApiWorld::new();
    test.start(&format!("{}, session: fresh", MODELS[0].1));
    test.ask("SAY First answer.");
    test.ask("SAY Second answer.");
    let (_, body) = last_request(&test);
    assert!(!body.contains("First answer."), "{body}");
}

#[test]
fn a_conversation_survives_kills_of_the_daemon_between_its_turns() {
    let test = ApiWorld::new();
    test.start(MODELS[1].1);
    test.ask("SAY First answer.");
    kill(test.world.daemon_pid().unwrap(), "KILL");
    test.ask("SAY Second answer.");
    let (_, body) = last_request(&test);
    assert!(body.contains("First answer."), "{body}");
}
