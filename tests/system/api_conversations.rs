//! Conversations of agents with direct access to a model: their prefix property, compaction, failures and new mail.

use serde_json::{Value, json};

use crate::{
    api_agents::{ApiWorld, MODELS},
    model_server::ModelRequest,
    world::wait_for,
};

/// Share of a request, in percent, that is a prefix of the next one.
const MIN_PREFIX_PERCENT: usize = 95;
/// A context window in which the prompt and the tools of a test take less than a third.
const WINDOW: usize = 30_000;

fn common_prefix(one: &str, other: &str) -> usize {
    one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count()
}

/// Writes a document of 4 kB, and returns the directive that reads it.
fn long_document(test: &ApiWorld) -> &'static str {
    let content = "The gate of the harbour opens at seven.\n".repeat(100);
    let written = test.world.run(&["doc", "append", "notes.md", &content, "--target", "@team"]);
    assert_eq!(written.code, 0, "{written:?}");
    "CALL document_read {}\n"
}

/// Returns the requests without tools: those for a summary.
fn summary_requests(test: &ApiWorld) -> Vec<ModelRequest> {
    let mut requests = test.models.requests();
    requests.retain(|request| request.body.get("tools").is_none());
    requests
}

/// Returns the notes of all turns of the agent.
fn notes(test: &ApiWorld) -> Vec<String> {
    let mut notes = Vec::new();
    for turn in test.world.list(&["turns", "me@team", "--json"]).as_array().unwrap() {
        let turn = test.world.json(&["turns", turn["turn"].as_str().unwrap(), "--json"]);
        let items = turn["items"].as_array().unwrap().iter();
        let items = items.filter(|item| item["kind"] == "note");
        let texts = items.map(|item| item["text"].as_str().unwrap());
        // The price of the scripted model is unknown, which every turn says.
        let others = texts.filter(|text| !text.starts_with("the price of a call of "));
        notes.extend(others.map(str::to_owned));
    }
    notes
}

/// Sends a script and returns the end of the turn that it starts.
fn end_of_next(test: &ApiWorld, script: &str) -> Value {
    let attempts = || test.world.json(&["status", "me@team", "--json"])["attempts"].clone();
    let before = attempts()[0]["attempt"].clone();
    let said = test.world.run(&["send", "me@team", script]);
    assert_eq!(said.code, 0, "{said:?}");
    wait_for("the end of the turn", || {
        let newest = attempts()[0].clone();
        newest.get("ended").filter(|_| newest["attempt"] != before).cloned()
    })
}

#[test]
fn ninety_five_percent_of_a_request_are_a_prefix_of_the_next_one_with_every_api() {
    for (api, keys) in MODELS {
        let test = ApiWorld::new();
        test.start(keys);
        let note = |text: &str| format!("CALL document_append {}\n", json!({"content": text}));
        let calls =
            ["a", "b", "c", "d"].map(|text| format!("{}CALL document_read {{}}\n", note(text)));
        test.ask(&format!("{}SAY Done.", calls.concat()));
        test.ask("CALL document_list {}\nSAY Done again.");
        let requests = test.models.requests();
        assert_eq!(requests.len(), 9 + 2, "{api}");
        for pair in requests.windows(2) {
            let (length, common) =
                (pair[0].text.len(), common_prefix(&pair[0].text, &pair[1].text));
            assert!(common * 100 >= length * MIN_PREFIX_PERCENT, "{api}: {common} of {length}");
            assert!(length > 4_000, "{api}: a short request proves nothing");
        }
    }
}

#[test]
fn a_conversation_that_fills_the_window_is_compacted_once_and_continues() {
    for (api, keys) in MODELS {
        let test = ApiWorld::new();
        test.start(&format!("{keys}, context_window: {WINDOW}"));
        let read = long_document(&test);
        let script = format!("USAGE SIZE\nUNTIL [Summary\n{}SAY All read.", read.repeat(29));
        assert_eq!(test.ask(&script), "All read.", "{api}");
        let noted = notes(&test);
        assert_eq!(noted.len(), 1, "{api}: {noted:?}");
        assert!(
            noted[0].starts_with("compacted the conversation from about ")
                && noted[0].ends_with(" answers with their results were replaced with a summary"),
            "{api}: {noted:?}"
        );
        let summaries = summary_requests(&test);
        assert_eq!(summaries.len(), 1, "{api}");
        assert!(summaries[0].text.contains("Result of document_read"), "{api}");
        let requests = test.models.requests();
        let (before, after) = (&requests[requests.len() - 3], &requests[requests.len() - 1]);
        assert!(before.text.len() / 4 < WINDOW * 8 / 10 + 2_000, "{api}: {}", before.text.len());
        assert!(after.text.len() / 4 < WINDOW * 45 / 100, "{api}: {}", after.text.len());
        assert!(after.text.contains("[Summary of the earlier conversation"), "{api}");
        // The next turn continues the compacted conversation.
        assert_eq!(test.ask("SAY Next."), "Next.", "{api}");
        let next = test.models.requests().pop().unwrap();
        let (length, common) = (after.text.len(), common_prefix(&after.text, &next.text));
        assert!(common * 100 >= length * MIN_PREFIX_PERCENT, "{api}: {common} of {length}");
        // All requests are counted, those for summaries too.
        let stats = test.world.list(&["stats", "@team", "--json"])[0]["agents"].clone();
        let counted = stats[0]["usage"]["output_tokens"].as_u64().unwrap();
        assert_eq!(counted, 10 * u64::try_from(requests.len() + 1).unwrap(), "{api}: {stats}");
    }
}

#[test]
fn a_request_that_is_too_long_is_compacted_once_and_then_the_turn_fails() {
    for (api, keys) in MODELS {
        let test = ApiWorld::new();
        test.start(&format!("{keys}, context_window: 1000000, retry: {{ max_attempts: 1 }}"));
        let read = long_document(&test);
        test.ask(&format!("{}SAY Read.", read.repeat(14)));
        let before = test.models.requests().len();
        assert_eq!(test.ask("FAIL 413 1\nSAY It fits."), "It fits.", "{api}");
        // The refused request, the summary and the repetition.
        assert_eq!(test.models.requests().len(), before + 3, "{api}");
        assert_eq!(notes(&test).len(), 1, "{api}");
        let ended = end_of_next(&test, "FAIL 413\nSAY Never.");
        assert_eq!(ended["class"], "context_overflow", "{api}: {ended}");
        let why = ended["why"].as_str().unwrap();
        assert!(why.starts_with("the provider answered 413: scripted 413"), "{api}: {why}");
        assert!(why.ends_with(" are too long"), "{api}: {why}");
    }
}

#[test]
fn a_refused_summary_leaves_a_remark_in_its_place() {
    let test = ApiWorld::new();
    test.start(&format!("{}, context_window: {WINDOW}", MODELS[0].1));
    let read = long_document(&test);
    test.ask("SAY All read.");
    // The input of the summary contains this prompt.
    test.ask("FAIL_SUMMARY 400\nSAY Noted.");
    let script = format!("USAGE SIZE\nUNTIL [Earlier parts\n{}SAY All read.", read.repeat(29));
    assert_eq!(test.ask(&script), "All read.");
    let noted = notes(&test);
    assert_eq!(noted.len(), 1, "{noted:?}");
    let why = " were dropped without a summary: the provider answered 400: scripted 400";
    assert!(noted[0].ends_with(why), "{noted:?}");
}

#[test]
fn an_overloaded_provider_of_a_summary_leaves_the_conversation_for_the_next_attempt() {
    let test = ApiWorld::new();
    test.start(&format!("{}, context_window: {WINDOW}", MODELS[0].1));
    let read = long_document(&test);
    test.ask("SAY One.");
    test.ask("FAIL_SUMMARY 529\nRETRY_AFTER 3600\nSAY Two.");
    let ended = end_of_next(&test, &format!("USAGE SIZE\n{}SAY Never.", read.repeat(20)));
    assert_eq!(ended["class"], "transient", "{ended}");
    assert!(notes(&test).is_empty(), "{:?}", notes(&test));
}

#[test]
fn a_failed_turn_leaves_the_conversation_as_it_was() {
    for (api, keys) in MODELS {
        let test = ApiWorld::new();
        test.start(&format!("{keys}, retry: {{ max_attempts: 1 }}"));
        test.ask("SAY First answer.");
        let ended = end_of_next(&test, "CALL document_append {\"content\":\"x\"}\nTHEN_FAIL 400");
        assert_eq!(ended["class"], "fatal", "{api}: {ended}");
        test.ask("SAY Third answer.");
        let last = test.models.requests().pop().unwrap().text;
        assert!(last.contains("First answer."), "{api}: {last}");
        assert!(!last.contains("THEN_FAIL"), "{api}: {last}");
        assert!(notes(&test).is_empty(), "{api}");
    }
}

#[test]
fn mail_that_arrives_during_a_turn_is_announced_once_and_stays_in_the_inbox() {
    let test = ApiWorld::new();
    test.start(MODELS[0].1);
    // Each step takes longer than the shortest time between two reads of the inbox.
    let reads = "CALL document_list {}\n".repeat(8);
    let sent = test.world.run(&["send", "me@team", &format!("DELAY 300\nHOLD\n{reads}SAY One.")]);
    assert_eq!(sent.code, 0, "{sent:?}");
    test.models.wait_held(1);
    for body in ["SAY Two.", "SAY Two."] {
        assert_eq!(test.world.run(&["send", "me@team", body]).code, 0);
    }
    test.models.release_held();
    wait_for("the second turn", || {
        let read = test.world.json(&["peek", "@team", "-n", "20", "--json"]);
        let mut items = read["items"].as_array().unwrap().iter();
        items.any(|item| item["body"] == "Two.").then_some(())
    });
    let requests = test.models.requests();
    let mut first_turn = requests.iter().filter(|request| !request.text.contains("SAY Two."));
    let last = first_turn.next_back().unwrap();
    assert_eq!(last.text.matches("from user; inbox_check reads them").count(), 1, "{}", last.text);
    assert!(
        last.text.contains("2 new messages from user; inbox_check reads them"),
        "{}",
        last.text
    );
}
