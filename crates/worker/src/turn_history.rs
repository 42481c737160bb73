//! Texts of the turn for its history: prompts, words, arguments and results, whole or short, without secrets.
//!
//! Not here: the event in which a text is reported, and the limits that the daemon enforces for the whole run.
//!
//! Invariant: secrets are replaced before a text is cut, so that no cut leaves a part of one.

use agent_worker_protocol::{
    HistoryMode, HistoryText, MAX_HISTORY_RUN_BYTES, MAX_SHORT_TEXT_BYTES, SecretFilter, TextState,
    WorkerEvent, WorkerJob,
};
use serde_json::Value;

use crate::truncation::{truncate, truncate_args};

/// Size of streamed words from which they are reported, also without another event.
const WORDS_BYTES: usize = 16 * 1024;
/// Maximum length of a tool result in an event.
const MAX_RESULT_SUMMARY_BYTES: usize = 500;

/// The texts of one attempt.
#[derive(Debug)]
pub(crate) struct TurnHistory {
    mode: HistoryMode,
    secrets: SecretFilter,
    /// Words that are not reported yet.
    words: String,
    /// Size of the texts that may still be reported whole.
    remaining_bytes: u64,
}

impl Default for TurnHistory {
    fn default() -> Self {
        Self::new(HistoryMode::default(), SecretFilter::default())
    }
}

impl TurnHistory {
    fn new(mode: HistoryMode, secrets: SecretFilter) -> Self {
        Self { mode, secrets, words: String::new(), remaining_bytes: MAX_HISTORY_RUN_BYTES }
    }

    /// Makes the history of a job, whose environment names its secrets.
    pub(crate) fn of(job: &WorkerJob) -> Self {
        Self::new(job.history, SecretFilter::from_env(&job.env))
    }

    pub(crate) fn secrets(&self) -> &SecretFilter {
        &self.secrets
    }

    /// Makes the event that reports the prompts.
    pub(crate) fn prompt_event(&mut self, job: &WorkerJob) -> WorkerEvent {
        let mode = self.mode;
        let [system, prompt] = [&job.system_prompt, &job.prompt]
            .map(|text| self.secrets.redact(text).into_owned())
            .map(|text| self.text(text));
        WorkerEvent::Prompt { mode, system, prompt }
    }

    /// Returns the arguments of a call for its event, and for the history.
    pub(crate) fn arguments(&mut self, args: Value) -> (Value, Option<HistoryText>) {
        let args = self.secrets.redact_json(args);
        let short = truncate_args(args.clone());
        let whole = match self.mode {
            HistoryMode::Off => None,
            HistoryMode::Full | HistoryMode::Short if short == args => {
                Some(HistoryText::omitted(args.to_string().len(), TextState::Whole))
            }
            HistoryMode::Short => {
                Some(HistoryText::omitted(args.to_string().len(), TextState::Short))
            }
            HistoryMode::Full => Some(self.text_of_call(args.to_string())),
        };
        (short, whole)
    }

    /// Returns the result of a call for its event, and for the history.
    pub(crate) fn result(&mut self, text: &str) -> (String, Option<HistoryText>) {
        let text = self.secrets.redact(text);
        let short = truncate(&text, MAX_RESULT_SUMMARY_BYTES);
        let whole = match self.mode {
            HistoryMode::Off => None,
            HistoryMode::Full | HistoryMode::Short if short == text => {
                Some(HistoryText::omitted(text.len(), TextState::Whole))
            }
            HistoryMode::Short => Some(HistoryText::omitted(text.len(), TextState::Short)),
            HistoryMode::Full => Some(self.text_of_call(text.into_owned())),
        };
        (short, whole)
    }

    /// Adds streamed words. Returns the event that reports the first part of them once there are many.
    pub(crate) fn add_words(&mut self, words: &str) -> Option<WorkerEvent> {
        if self.mode == HistoryMode::Off {
            return None;
        }
        self.words.push_str(words);
        // A secret may continue in the next words.
        let kept_back = self.secrets.max_secret_bytes();
        if self.words.len() < WORDS_BYTES + kept_back {
            return None;
        }
        let mut clean = self.secrets.redact(&self.words).into_owned();
        let end = clean.floor_char_boundary(clean.len().saturating_sub(kept_back));
        self.words = clean.split_off(end);
        (!clean.is_empty()).then(|| WorkerEvent::Words(self.text(clean)))
    }

    /// Returns the event that reports the words so far, if there are any.
    pub(crate) fn take_words(&mut self) -> Option<WorkerEvent> {
        if self.words.is_empty() {
            return None;
        }
        let words = self.secrets.redact_owned(std::mem::take(&mut self.words));
        Some(WorkerEvent::Words(self.text(words)))
    }

    /// Makes a text without a short form in an event.
    fn text(&mut self, text: String) -> HistoryText {
        let text = HistoryText::of(text, self.mode);
        let present = text.present_bytes() as u64;
        let text = if present > self.remaining_bytes {
            text.cut_to(MAX_SHORT_TEXT_BYTES, TextState::Limit)
        } else {
            text
        };
        self.remaining_bytes = self.remaining_bytes.saturating_sub(text.present_bytes() as u64);
        text
    }

    /// Makes a text whose short form is in its event.
    fn text_of_call(&mut self, text: String) -> HistoryText {
        let bytes = text.len();
        let text = HistoryText::of(text, self.mode);
        let present = text.present_bytes() as u64;
        if present > self.remaining_bytes {
            return HistoryText::omitted(bytes, TextState::Limit);
        }
        self.remaining_bytes -= present;
        text
    }
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::MAX_HISTORY_TEXT_BYTES;
    use serde_json::json;

    use super::*;

    fn history(mode: HistoryMode) -> TurnHistory {
        let env = [("A_KEY".to_owned(), "s3cret-value".to_owned())];
        TurnHistory::new(mode, SecretFilter::from_env(&env.into()))
    }

    fn state(text: Option<&HistoryText>) -> Option<(TextState, usize, u64)> {
        text.map(|text| (text.state, text.present_bytes(), text.bytes))
    }

    #[test]
    fn the_short_form_in_the_event_is_repeated_only_if_it_is_not_the_whole() {
        let long = "x".repeat(2_000);
        for (mode, text, expected) in [
            (HistoryMode::Full, "short", Some((TextState::Whole, 0, 5))),
            (HistoryMode::Full, &*long, Some((TextState::Whole, 2_000, 2_000))),
            (HistoryMode::Short, "short", Some((TextState::Whole, 0, 5))),
            (HistoryMode::Short, &*long, Some((TextState::Short, 0, 2_000))),
            (HistoryMode::Off, &*long, None),
        ] {
            let (summary, whole) = history(mode).result(text);
            assert!(text.starts_with(summary.trim_end_matches('…')));
            assert_eq!(state(whole.as_ref()), expected, "result, {mode}");
            let (_, whole) = history(mode).arguments(json!(text));
            let quotes = expected.map(|(state, present, bytes)| {
                (state, if present == 0 { 0 } else { present + 2 }, bytes + 2)
            });
            assert_eq!(state(whole.as_ref()), quotes, "arguments, {mode}");
        }
    }

    #[test]
    fn no_cut_leaves_a_part_of_a_secret() {
        let before = "x".repeat(MAX_RESULT_SUMMARY_BYTES - 4);
        let (short, _) = history(HistoryMode::Full).result(&format!("{before}s3cret-value"));
        assert!(!short.contains("s3c"), "{short}");
        let before = "x".repeat(MAX_HISTORY_TEXT_BYTES - 4);
        let (_, whole) = history(HistoryMode::Full).result(&format!("{before}s3cret-value"));
        let whole = whole.and_then(|whole| whole.text).unwrap();
        assert!(!whole.contains("s3c") && whole.len() == MAX_HISTORY_TEXT_BYTES);
    }

    #[test]
    fn words_are_reported_in_parts_and_a_secret_between_two_parts_is_replaced() {
        let mut history = history(HistoryMode::Full);
        let mut parts = Vec::new();
        let text = format!("{}s3cret-value{}", "a".repeat(WORDS_BYTES + 60), "b".repeat(300));
        for start in (0..text.len()).step_by(7) {
            parts.extend(history.add_words(&text[start..text.len().min(start + 7)]));
        }
        assert_eq!(parts.len(), 1, "one part before the end");
        parts.extend(history.take_words());
        assert!(history.take_words().is_none());
        let texts = parts.into_iter().map(|part| match part {
            WorkerEvent::Words(HistoryText { text: Some(text), .. }) => text,
            other => panic!("{other:?}"),
        });
        assert_eq!(texts.collect::<String>(), text.replace("s3cret-value", "[secret A_KEY]"));
    }

    #[test]
    fn a_turn_with_more_text_than_a_run_may_keep_reports_the_rest_short() {
        let mut history = history(HistoryMode::Full);
        history.remaining_bytes = 3_000;
        let [first, second] = ["x", "y"].map(|text| history.result(&text.repeat(2_000)).1.unwrap());
        assert_eq!((first.state, first.present_bytes()), (TextState::Whole, 2_000));
        assert_eq!((second.state, second.present_bytes()), (TextState::Limit, 0));
        history.add_words(&"z".repeat(5_000));
        let Some(WorkerEvent::Words(words)) = history.take_words() else { panic!("no words") };
        assert_eq!((words.state, words.present_bytes()), (TextState::Limit, MAX_SHORT_TEXT_BYTES));
    }
}
