//! Tests of the decision about a compaction and of its result.

use agent_worker_models::{CallStatus, ModelCall};
use serde_json::{Map, json};

use super::*;

fn text(text: &str) -> ConversationEntry {
    ConversationEntry::User(vec![UserPart::Text(text.to_owned())])
}

fn result(id: usize, bytes: usize) -> ConversationEntry {
    ConversationEntry::User(vec![UserPart::Result(CallResult {
        call: id.to_string(),
        tool: "read".to_owned(),
        status: CallStatus::Done,
        text: "r".repeat(bytes),
        images: Vec::new(),
    })])
}

fn call(id: usize) -> ConversationEntry {
    let (tool, args) = ("read".to_owned(), Map::from_iter([("n".to_owned(), json!(id))]));
    ConversationEntry::Model(vec![
        AnswerPart::Thinking(json!({"thinking": id})),
        AnswerPart::Call(ModelCall { id: id.to_string(), tool, args, signature: None }),
    ])
}

/// A prompt, and this number of calls with a result of this size each.
fn exchanges(prompt: &str, count: usize, bytes: usize) -> Vec<ConversationEntry> {
    let pairs = (0..count).flat_map(|id| [call(id), result(id, bytes)]);
    std::iter::once(text(prompt)).chain(pairs).collect()
}

fn facts(entries: &[ConversationEntry], tokens: u64, window: u64) -> CompactionFacts<'_> {
    CompactionFacts { entries, prompt: PromptPlace::Entry(0), frame_bytes: 100, tokens, window }
}

/// Checks the invariants of a compacted conversation: each result follows the answer with its call, and the kept answers are a
/// suffix of the earlier ones.
fn check(before: &[ConversationEntry], after: &[ConversationEntry]) {
    let answers = |entries: &[ConversationEntry]| -> Vec<ConversationEntry> {
        entries.iter().filter(|entry| is_answer(entry)).cloned().collect()
    };
    assert!(answers(before).ends_with(&answers(after)), "{after:?}");
    for (at, entry) in after.iter().enumerate() {
        assert_eq!(is_answer(entry), at % 2 == 1, "{at}: {entry:?}");
        let ConversationEntry::User(parts) = entry else { continue };
        for part in parts {
            let UserPart::Result(result) = part else { continue };
            let ConversationEntry::Model(answer) = &after[at - 1] else { unreachable!() };
            let has = answer
                .iter()
                .any(|part| matches!(part, AnswerPart::Call(call) if call.id == result.call));
            assert!(has, "{result:?}");
        }
    }
}

#[test]
fn the_estimate_is_what_the_provider_counted_and_the_bytes_since() {
    let entries = [text(&"x".repeat(60)), call(1), result(1, 260)];
    let measured =
        |entries| Some(MeasuredTokens { tokens: 500, entries, source: TokenSource::Counted });
    for (measured, expected) in [
        (measured(2), 500 + 100),
        (measured(3), 500),
        // A count of more entries than there are is of another conversation.
        (measured(4), (total_bytes(&entries) + 300).div_ceil(3)),
        (None, (total_bytes(&entries) + 300).div_ceil(3)),
    ] {
        assert_eq!(estimated_tokens(measured, &entries, 300), expected, "{measured:?}");
    }
}

#[test]
fn a_compaction_begins_at_80_percent_of_the_window_and_ends_below_40() {
    let entries = exchanges("go", 40, 1000);
    for (tokens, is_due) in [(0, false), (79_999, false), (80_000, true), (99_000, true)] {
        let plan = plan_compaction(&facts(&entries, tokens, 100_000), CompactionCause::Estimate);
        assert_eq!(plan.is_some(), is_due, "{tokens}");
        assert!(plan.is_none_or(|plan| plan.tokens <= 40_000), "{plan:?}");
    }
}

#[test]
fn the_first_message_and_the_last_ten_exchanges_stay_as_they_are() {
    let entries = exchanges("go", 40, 1000);
    let facts = facts(&entries, 80_000, 100_000);
    let plan = plan_compaction(&facts, CompactionCause::Estimate).unwrap();
    let (after, prompt) = plan.apply(&facts, "so far");
    check(&entries, &after);
    assert_eq!(prompt, PromptPlace::Entry(0));
    let parts = vec![UserPart::Text("go".into()), UserPart::Summary("so far".into())];
    assert_eq!(after[0], ConversationEntry::User(parts));
    assert_eq!(after[1..], entries[entries.len() - 20..]);
    assert_eq!(plan.removed_answers(&entries), 30);
    let transcript = plan.transcript(&facts);
    assert!(transcript.contains("Call of read: {\"n\":29}"), "{transcript}");
    assert!(!transcript.contains("{\"n\":30}") && !transcript.contains("User: go"), "{transcript}");
}

#[test]
fn what_must_stay_is_reduced_step_by_step_if_it_exceeds_the_target() {
    let long = |count, bytes| exchanges("go", count, bytes);
    for (what, entries, kept, shortened) in [
        ("long results are shortened", long(12, 9000), 10, ShortenedTexts::Earlier),
        ("fewer exchanges stay", long(60, 2000), 8, ShortenedTexts::Earlier),
        ("results of the open one are shortened", long(1, 90_000), 1, ShortenedTexts::All),
    ] {
        let tokens = (total_bytes(&entries) + 100) / 3;
        let window = match kept {
            // Eight exchanges of 2,000 bytes, and the summary.
            8 => 20_000,
            _ => tokens,
        };
        let mut facts = facts(&entries, tokens, window);
        facts.tokens = tokens.max(window);
        let plan = plan_compaction(&facts, CompactionCause::Estimate).unwrap();
        let (after, _) = plan.apply(&facts, "so far");
        check(&entries, &after);
        assert_eq!(plan.shortened, shortened, "{what}: {plan:?}");
        let answers = after.iter().filter(|entry| is_answer(entry)).count();
        assert!(answers <= 10 && (kept != 10 || answers == 10), "{what}: {answers} answers");
        assert!(plan.tokens <= window / 5 * 2, "{what}: {plan:?}");
        assert!(total_bytes(&after) < total_bytes(&entries) / 2, "{what}");
    }
}

#[test]
fn a_prompt_that_fills_the_window_is_not_compacted_again_and_again() {
    let mut entries = exchanges(&"p".repeat(300_000), 3, 100);
    let tokens = 100_000;
    assert_eq!(plan_compaction(&facts(&entries, tokens, tokens), CompactionCause::Estimate), None);
    assert_eq!(plan_compaction(&facts(&entries, tokens, tokens), CompactionCause::Overflow), None);
    // As the first message of an earlier turn it is shortened.
    entries.extend([call(9), text("next")]);
    let facts = CompactionFacts {
        prompt: PromptPlace::Entry(entries.len() - 1),
        ..facts(&entries, tokens, tokens)
    };
    let plan = plan_compaction(&facts, CompactionCause::Estimate).unwrap();
    let (after, _) = plan.apply(&facts, "so far");
    let ConversationEntry::User(first) = &after[0] else { panic!("{after:?}") };
    let UserPart::Text(first) = &first[0] else { panic!("{first:?}") };
    assert!(first.ends_with("; 300000 bytes in all]"), "{first}");
    assert_eq!(after.last(), entries.last());
}

#[test]
fn a_conversation_of_one_message_cannot_be_compacted() {
    let entries = [text(&"p".repeat(300_000))];
    for cause in [CompactionCause::Estimate, CompactionCause::Overflow] {
        assert_eq!(plan_compaction(&facts(&entries, 100_000, 100_000), cause), None);
    }
}

#[test]
fn an_overflow_compacts_a_conversation_that_seems_to_fit() {
    let entries = exchanges("go", 40, 1000);
    let facts = facts(&entries, 15_000, 15_000);
    let plan = plan_compaction(&facts, CompactionCause::Overflow).unwrap();
    assert!(plan.tokens <= 6_000, "{plan:?}");
}

#[test]
fn the_prompt_of_the_open_turn_stays_through_several_compactions() {
    let mut entries = exchanges("first", 5, 1000);
    entries.push(call(5));
    entries.push(text("second"));
    let prompt = PromptPlace::Entry(entries.len() - 1);
    let more = |entries: &mut Vec<ConversationEntry>| {
        for id in 6..40 {
            entries.extend([call(id), result(id, 1000)]);
        }
    };
    more(&mut entries);
    let mut place = prompt;
    for summary in ["one", "two"] {
        let facts = CompactionFacts { prompt: place, ..facts(&entries, 80_000, 100_000) };
        let plan = plan_compaction(&facts, CompactionCause::Estimate).unwrap();
        let transcript = plan.transcript(&facts);
        assert!(!transcript.contains("second"), "{transcript}");
        assert_eq!(transcript.starts_with("one"), summary == "two", "{transcript}");
        let (after, now) = plan.apply(&facts, summary);
        check(&entries, &after);
        let part = |text: &str| UserPart::Text(text.to_owned());
        let head = vec![part("first"), UserPart::Summary(summary.to_owned()), part("second")];
        assert_eq!(after[0], ConversationEntry::User(head));
        assert_eq!(now, PromptPlace::AfterSummary);
        (entries, place) = (after, now);
        more(&mut entries);
    }
    // The next turn has a prompt of its own, and the old one becomes a part of the summary.
    entries.extend([call(40), text("third")]);
    let prompt = PromptPlace::Entry(entries.len() - 1);
    let facts = CompactionFacts { prompt, ..facts(&entries, 80_000, 100_000) };
    let plan = plan_compaction(&facts, CompactionCause::Estimate).unwrap();
    assert!(plan.transcript(&facts).starts_with("two\n\nUser: second"));
    let (after, place) = plan.apply(&facts, "three");
    assert_eq!(place, PromptPlace::Entry(after.len() - 1));
    assert_eq!(after.last(), Some(&text("third")));
}

#[test]
fn the_input_and_the_length_of_a_summary_are_bounded() {
    let entries = exchanges("go", 400, 2000);
    let facts = facts(&entries, 100_000, 10_000);
    let plan = plan_compaction(&facts, CompactionCause::Overflow).unwrap();
    let transcript = plan.transcript(&facts);
    assert!(transcript.len() < 15_100 && transcript.contains("earlier bytes are left out]"));
    let summary = bounded_summary(&"ä".repeat(100_000), 10_000);
    assert!(summary.len() < 3_800 && summary.ends_with("[the summary is cut here]"));
    assert_eq!(bounded_summary(" short ", 10_000), "short");
}

#[test]
fn a_call_is_bounded_by_counted_tokens_and_never_by_an_estimate() {
    let entries = [text("0123456789")];
    let measured = |source| Some(MeasuredTokens { tokens: 3, entries: 1, source });
    assert_eq!(input_bound(measured(TokenSource::Counted), &entries, 100), 3);
    let every_byte = 100 + total_bytes(&entries);
    assert_eq!(input_bound(measured(TokenSource::Estimated), &entries, 100), every_byte);
    assert_eq!(estimated_tokens(measured(TokenSource::Estimated), &entries, 100), 3);
}
