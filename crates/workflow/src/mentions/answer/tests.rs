//! Endings of answers as models write them, and their addressees.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use proptest::prelude::*;

use super::*;

fn team() -> Vec<AgentName> {
    ["coder", "reviewer", "tester", "doc_writer", "me"].map(|name| name.parse().unwrap()).into()
}

/// Returns the addressees of an answer of `me` as `hand-offs | others`, followed by ` | unknown` if there are any.
fn addressees(answer: &str) -> String {
    let found = AnswerMentions::parse(answer).resolve(&team(), &"me".parse().unwrap());
    let join =
        |names: Vec<AgentName>| names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let unknown = if found.unknown.is_empty() { String::new() } else { " | ".to_owned() };
    let unknown = unknown + &join(found.unknown);
    format!("{} | {}{unknown}", join(found.hand_offs), join(found.others))
}

const ENDINGS: [(&str, &str); 144] = [
    // Mentions as a model repeats them from its prompt.
    ("\u{200b}@coder please fix line 42", "coder | "),
    ("\u{200b}@coder, \u{200b}@tester: please look", "coder tester | "),
    // A paragraph that starts with a mention.
    ("@coder please fix line 42", "coder | "),
    ("@coder", "coder | "),
    ("@Coder: the build is red.", "coder | "),
    ("The parser is wrong.\n\n@coder please fix line 42", "coder | "),
    (
        "I reviewed the diff.\n\n@coder, two things are left:\n\n- the lock\n- the test\n",
        "coder | ",
    ),
    ("\n\n@reviewer ready for review.", "reviewer | "),
    ("## Summary\n\nAll tests pass.\n\n@reviewer please look again.", "reviewer | "),
    ("@doc_writer please update the README.", "doc_writer | "),
    ("@coder — please fix line 42.", "coder | "),
    ("@coder can you and @tester look at this?", "coder | tester"),
    ("Done.\n\n@coder fix it.\n\n@tester test it.", "coder tester | "),
    ("@coder 请修复第 42 行", "coder | "),
    ("@coder，请修复第 42 行。", "coder | "),
    // Markup, emoji and bullets before the mention.
    ("**@coder** please fix line 42", "coder | "),
    ("**@coder:** please fix line 42", "coder | "),
    ("*@coder* please fix", "coder | "),
    ("__@coder__ please fix", "coder | "),
    ("[@coder](https://example.org) please fix", "coder | "),
    ("👉 @coder please fix line 42", "coder | "),
    ("✅ Done.\n\n➡️ @reviewer your turn", "reviewer | "),
    ("-> @coder fix this", "coder | "),
    ("• @coder fix this", "coder | "),
    // List items.
    ("Next steps:\n- @coder: fix line 42\n- @tester: add a test", "coder tester | "),
    ("Next:\n\n1. @coder fixes the lock\n2. @tester tests it\n", "coder tester | "),
    ("1) @coder: fix\n", "coder | "),
    ("- [ ] @coder fix line 42\n- [x] review", "coder | "),
    ("* **@coder** – fix the lock\n", "coder | "),
    ("- Open:\n  - @coder fix the lock\n  - write docs\n", "coder | "),
    ("1. Fix\n\n   @coder please do this\n", "coder | "),
    ("- fix the lock (@coder)\n- ask @tester", " | coder tester"),
    // Tasks that are done, and tasks that are open.
    ("- [x] @coder fixed the lock", " | coder"),
    ("- [X] @coder fixed the lock", " | coder"),
    ("1. [x] @coder fixed the lock\n2. [ ] @tester test it", "tester | coder"),
    ("- [x] @coder fixed the lock.\n  @tester tested it", " | coder tester"),
    ("- [x] fix the lock\n\n  @coder did it\n", " | coder"),
    ("- [x] review\n  - @coder fixed\n  - [ ] @tester still open\n", "tester | coder"),
    ("- [ ] release\n  - [x] @coder fixed\n  - @tester test it\n", "tester | coder"),
    ("- [x] review\n- @coder fix it", "coder | "),
    ("- [x] review\n\n@coder please release", "coder | "),
    // Text that is struck out is no text.
    ("- ~~@coder fix it~~", " | coder"),
    ("~~@coder fix it~~", " | coder"),
    ("~~@coder~~ @tester please fix it", "tester | coder"),
    ("~~Wait.~~ @coder please fix it", "coder | "),
    ("@coder, ~~@tester~~ and @reviewer: please look", "coder reviewer | tester"),
    ("- ~~@coder fix it~~\n- @tester test it", "tester | coder"),
    ("~~@coder fix it~~\n@tester test it", "tester | coder"),
    ("~~First.\n@coder fix it~~", " | coder"),
    ("~~**@coder** fix it~~ done", " | coder"),
    ("I ~~wrote~~ fixed it.\n@coder please look", "coder | "),
    // Lines of a diff; a bullet has a blank after it.
    ("+@coder foo\n-@tester bar", " | coder tester"),
    ("The patch:\n-@coder fix\n+@tester fix", " | coder tester"),
    ("+ @coder foo\n- @tester bar", "coder tester | "),
    ("@@ -1,3 +1,3 @@\n+ @coder foo\n- @tester bar", " | coder tester"),
    (
        "@@ -1 +1,2 @@ fn main()\n @coder same\n+ @tester new\n\n- @reviewer look",
        "reviewer | coder tester",
    ),
    ("The patch:\n\n@@ -1,3 +1,3 @@\n- @coder foo\n@tester please apply it", "tester | coder"),
    ("@@ @coder\n- @tester bar", "tester | coder"),
    ("@coder +@tester: pair on it", "coder tester | "),
    // Several agents at the start.
    ("@coder @tester please coordinate", "coder tester | "),
    ("@coder, @tester: please coordinate", "coder tester | "),
    ("@coder and @tester, please coordinate", "coder tester | "),
    ("@coder & @tester please coordinate", "coder tester | "),
    ("@coder / @tester: who takes it?", "coder tester | "),
    ("@coder/@tester: please coordinate", "coder tester | "),
    ("@coder/@tester/@reviewer please", "coder tester reviewer | "),
    ("**@coder**/**@tester**: please", "coder tester | "),
    ("Ask @coder/@tester about it", " | coder tester"),
    ("@coder + @tester: pair on it", "coder tester | "),
    ("@coder和@tester 请看", "coder tester | "),
    ("**@coder** and **@tester**: please coordinate", "coder tester | "),
    ("@coder, @tester and @reviewer: done", "coder tester reviewer | "),
    ("@coder: @tester is waiting for you", "coder | tester"),
    ("@coder (cc @tester) please fix", "coder | tester"),
    ("@user @coder the build is red", "coder | "),
    ("@nobody_here @coder please fix", "coder |  | nobody_here"),
    // A line break within a paragraph.
    ("Done.\n@coder please fix line 42", "coder | "),
    ("Done ✅\n@reviewer please look", "reviewer | "),
    ("Two things are left:\n@coder fix the lock\n@tester test it", "coder tester | "),
    ("@coder fix the lock\n@tester test it", "coder tester | "),
    ("完成了。\n@coder 请看", "coder | "),
    ("First line  \n@coder after a hard break", "coder | "),
    ("I fixed the lock and gave the rest to\n@coder for another look.", " | coder"),
    ("I worked with the reviewer,\n@tester and others.", " | tester"),
    // Other mentions.
    ("Thanks @coder", " | coder"),
    ("cc @coder", " | coder"),
    ("I asked @coder to fix line 42.", " | coder"),
    ("Please ask @coder; he knows it.", " | coder"),
    ("Waiting for @coder.", " | coder"),
    ("Next: @coder", " | coder"),
    ("@coder's change is fine.", " | coder"),
    ("@coder’s change is fine.", " | coder"),
    ("(@coder did this already.)", " | coder"),
    ("\"@coder please fix\" is what I wrote.", " | coder"),
    ("请@coder看一下", " | coder"),
    ("— @coder", " | coder"),
    ("## @coder\n\nPlease fix line 42.", " | coder"),
    ("| who | what |\n|---|---|\n| @coder | fix |\n", " | coder"),
    ("<div>\n@coder please\n</div>", " | coder"),
    ("<b>@coder</b> please fix", " | coder"),
    ("<quote>@coder please fix</quote>", " | coder"),
    ("Done.<br>\n@coder please fix", " | coder"),
    ("@coder please fix <b>now</b>\n@tester test", "coder tester | "),
    ("Handing over to **@coder**.", " | coder"),
    // Code and quotations.
    ("`@coder please fix`", " | "),
    ("```\n@coder please fix\n```", " | "),
    ("Run this:\n\n    @coder fix\n", " | coder"),
    ("> @coder please fix\n\nThat is done.", " | "),
    ("> who takes it?\n@coder please", " | coder"),
    (">quote\n@coder lazy continuation", " | coder"),
    ("> who takes it?\n\n@coder please", "coder | "),
    ("> who takes it?\n- @coder please", "coder | "),
    ("As asked:\n> who takes it?\n> @tester\n\n@coder please", "coder | "),
    ("- > @coder said so", " | coder"),
    ("The decorator is `@coder`; @tester knows it.", " | tester"),
    ("Mail bob@coder.example", " | "),
    ("node_modules/@coder/utils is missing", " | "),
    ("./@coder/@tester is missing", " | "),
    ("`@coder`/@tester", " | "),
    ("@coder/utils 2.0 breaks the build", " | coder"),
    ("@coder.js is broken", " | coder"),
    ("@coder.py fails", " | coder"),
    ("@coder=x", " | coder"),
    ("@coder@2.0 breaks the build", " | coder"),
    ("@coder. Please fix it.", "coder | "),
    ("@coder...please fix it", "coder | "),
    // A line of markup alone.
    ("Done.\n)\n@coder please look", "coder | "),
    ("I gave it to\n)\n@coder yesterday", " | coder"),
    ("<b>\n@coder</b> please look", " | coder"),
    // Long names, and dashes after a name.
    ("@coder----------------------------------------: fix", "coder | "),
    ("@coder_and_a_long_name_that_no_agent_of_any_team_can_have", " | "),
    ("@Coder @coder @CODER fix", "coder | "),
    ("Thanks @Tester, @tester", " | tester"),
    // Names that are nobody's, one's own, and all.
    ("@nobody_here please fix", " |  | nobody_here"),
    ("@codr please fix", " |  | codr"),
    ("- @Codr: fix\n- @codr_: test", " |  | codr"),
    ("As @codr said, it works.", " | "),
    ("@me: note to self", " | "),
    ("@user the report is ready", " | "),
    ("@system", " | "),
    ("@all the release is out", " | coder reviewer tester doc_writer"),
    ("@all\n\n@coder please fix", "coder | reviewer tester doc_writer"),
    ("No one is needed.", " | "),
    ("", " | "),
];

#[test]
fn an_answer_hands_work_to_the_agents_that_start_a_paragraph_or_a_list_item() {
    let found = ENDINGS.map(|(answer, _)| (answer, addressees(answer)));
    let pairs = found.iter().zip(ENDINGS);
    let wrong: Vec<_> = pairs.filter(|((_, found), (_, expected))| found != expected).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn an_agent_that_is_mentioned_twice_is_in_one_list() {
    assert_eq!(addressees("As @coder said.\n\n@coder please fix.\n\nThanks @coder"), "coder | ");
}

/// A team of 61 agents, as large as the largest that was seen.
fn large_team() -> Vec<AgentName> {
    (0..61).map(|number| format!("agent{number}").parse().unwrap()).collect()
}

#[test]
fn an_answer_of_ten_megabytes_is_read_in_time_that_its_length_bounds() {
    let team = large_team();
    for word in ["@all ", "@agent60 ", "- @agent7\n", "@nobody-here, "] {
        let answer = word.repeat(10_000_000 / word.len());
        let started = Instant::now();
        let found = AnswerMentions::parse(&answer);
        assert_eq!(found.hand_offs.len() + found.others.len(), 1, "{word:?}");
        found.resolve(&team, &team[0]);
        let took = started.elapsed();
        assert!(took < Duration::from_mins(1), "{word:?}: {took:?}");
    }
}

#[test]
fn a_mention_after_the_first_mebibyte_is_no_hand_off_and_is_not_lost() {
    let answer = |bytes: usize| format!("{}\n\n@coder please fix", "x ".repeat(bytes / 2));
    assert_eq!(addressees(&answer(MAX_HAND_OFF_BYTES - 100)), "coder | ");
    assert_eq!(addressees(&answer(MAX_HAND_OFF_BYTES)), " | coder");
    // The limit is within each of the names in turn.
    for blanks in 0..20 {
        let text = " ".repeat(MAX_HAND_OFF_BYTES - 20 - 2 * blanks) + "\n\nx\n\n";
        let found = addressees(&(text + "@coder, @tester, @coder_2, @reviewer"));
        let mut names: Vec<_> =
            found.split_whitespace().filter(|name| !["|", "coder_2"].contains(name)).collect();
        names.sort_unstable();
        assert_eq!(names, ["coder", "reviewer", "tester"], "{blanks}");
    }
}

#[test]
fn an_answer_keeps_a_limited_number_of_names() {
    let names: Vec<_> = (0..3 * MAX_NAMES).map(|number| format!("@x{number}")).collect();
    for separator in [" ", " and then "] {
        let found = AnswerMentions::parse(&names.join(separator));
        assert!(found.hand_offs.len() <= MAX_NAMES && found.others.len() <= MAX_NAMES);
    }
}

/// Returns the shortest of three times that a parse takes.
fn parse_time(answer: &str) -> Duration {
    let time = |_| {
        let started = Instant::now();
        AnswerMentions::parse(answer);
        started.elapsed()
    };
    (0..3).map(time).min().unwrap_or_default()
}

#[test]
fn the_time_of_a_parse_grows_with_the_length_of_the_answer() {
    for line in
        [")\n", "x\n", "@b\n", "- [x] @b\n", "~~@b~~\n", "> @b\n", "@b/", "@b, ", "-\n", "`@b\n"]
    {
        let answer = |lines| format!("x\n{}@b", line.repeat(lines));
        let (short, long) = (parse_time(&answer(2_000)), parse_time(&answer(16_000)));
        // Eight times the length takes sixty-four times as long if the time is quadratic.
        let most = short * 24 + Duration::from_millis(50);
        assert!(long < most, "{line:?}: {short:?}, {long:?}");
    }
}

proptest! {
    #[test]
    fn an_answer_keeps_each_name_once(
        names in prop::collection::vec("[a-cA-C]{1,2}[-_]{0,2}", 0..200), separator in "[ ,/\n]",
    ) {
        let distinct: BTreeSet<_> = names.iter().map(|name| name.to_lowercase()).collect();
        let answer: Vec<_> = names.iter().map(|name| format!("@{name}")).collect();
        let found = AnswerMentions::parse(&answer.join(&separator));
        prop_assert!(found.hand_offs.len() + found.others.len() <= distinct.len());
    }

    #[test]
    fn any_answer_is_parsed_without_a_panic(answer in "(?s)(.|@coder|\n| |> |- |\\*){0,60}") {
        addressees(&answer);
    }
}
