//! Compaction of a conversation that is about to exceed the context window of its model. Pure.
//!
//! A compaction is rare and large: it begins at 80 % of the window and ends at 40 %. It replaces the oldest exchanges with one
//! text. The first message, the prompt of the open turn and the last ten exchanges stay. If these alone exceed the target, long
//! results of earlier exchanges are shortened, then fewer exchanges stay, and last the results of the open exchange are shortened.
//! Invariants: a call stays with its result, and no kept answer of the model is changed, so that its reasoning stays valid.

use agent_worker_models::{AnswerPart, CallResult, ConversationEntry, UserPart};

use crate::truncation::truncate;

/// Window of a model that neither the table nor the workflow file knows.
pub(crate) const DEFAULT_WINDOW: u64 = 32_000;
/// Number of exchanges that stay.
const KEPT_EXCHANGES: usize = 10;
/// Length of a shortened text.
const SHORTENED_BYTES: usize = 2 * 1024;
/// Bytes of a conversation for one token, fewer than usual, so that an estimate is rather too large.
const BYTES_PER_TOKEN: u64 = 3;
/// Weight of an image, which costs about as many tokens as this text.
const IMAGE_BYTES: u64 = 5_000;
/// Weight of the frame of a part.
const PART_BYTES: u64 = 40;
/// Largest summary, in tokens, and its largest share of the window.
const MAX_SUMMARY_TOKENS: u64 = 4_000;
const SUMMARY_SHARE: u64 = 8;
/// Largest input of a summary, in tokens.
const MAX_TRANSCRIPT_TOKENS: u64 = 100_000;

/// Tokens of a conversation up to an entry, as the provider counted them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MeasuredTokens {
    pub(crate) tokens: u64,
    /// Number of entries that are counted.
    pub(crate) entries: usize,
    pub(crate) source: TokenSource,
}

/// The source of a number of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenSource {
    /// The provider has counted them.
    Counted,
    /// An estimate, which is no bound: after a compaction, or for a model that counts differently.
    Estimated,
}

/// The place of the prompt of the open turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PromptPlace {
    /// An entry of its own.
    Entry(usize),
    /// The first entry, after the summary.
    AfterSummary,
}

/// The conversation before a compaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompactionFacts<'a> {
    pub(crate) entries: &'a [ConversationEntry],
    pub(crate) prompt: PromptPlace,
    /// Bytes of the system prompt and the tools, which stay.
    pub(crate) frame_bytes: u64,
    /// Estimated tokens of the next request.
    pub(crate) tokens: u64,
    pub(crate) window: u64,
}

/// The reason of a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompactionCause {
    /// The request is large for the window.
    Estimate,
    /// The provider has refused a request that is too long. Its window may be smaller than the known one.
    Overflow,
}

/// The texts that a compaction shortens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
enum ShortenedTexts {
    None,
    /// Results before the open exchange.
    Earlier,
    /// Results of the open exchange, and the first message unless it is the prompt of the open turn.
    All,
}

/// A decided compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CompactionPlan {
    /// First entry after the first message that stays, an answer of the model.
    kept_from: usize,
    shortened: ShortenedTexts,
    /// Estimated tokens of the next request afterwards.
    pub(crate) tokens: u64,
}

/// Estimates the tokens of the next request.
pub(crate) fn estimated_tokens(
    measured: Option<MeasuredTokens>,
    entries: &[ConversationEntry],
    frame_bytes: u64,
) -> u64 {
    match measured.and_then(|it| Some((it.tokens, entries.get(it.entries..)?))) {
        Some((tokens, later)) => tokens + total_bytes(later).div_ceil(BYTES_PER_TOKEN),
        None => (frame_bytes + total_bytes(entries)).div_ceil(BYTES_PER_TOKEN),
    }
}

/// Returns the most tokens that the next request can have: what the provider counted, and a token for each byte since.
pub(crate) fn input_bound(
    measured: Option<MeasuredTokens>,
    entries: &[ConversationEntry],
    frame_bytes: u64,
) -> u64 {
    let measured = measured.filter(|it| it.source == TokenSource::Counted);
    match measured.and_then(|it| Some((it.tokens, entries.get(it.entries..)?))) {
        Some((tokens, later)) => tokens + total_bytes(later),
        None => frame_bytes + total_bytes(entries),
    }
}

/// Decides about a compaction. None if the conversation fits, or if nothing of it can be removed.
pub(crate) fn plan_compaction(
    facts: &CompactionFacts<'_>,
    cause: CompactionCause,
) -> Option<CompactionPlan> {
    let CompactionFacts { entries, tokens, window, .. } = *facts;
    let (target, worst) = match cause {
        CompactionCause::Estimate if tokens < window / 5 * 4 => return None,
        // A compaction that leaves more would soon be followed by another one.
        CompactionCause::Estimate => (window / 5 * 2, window / 5 * 3),
        CompactionCause::Overflow => (window.min(tokens) / 5 * 2, tokens / 20 * 19),
    };
    let answers = entries.iter().enumerate().filter(|(_, entry)| is_answer(entry));
    let answers: Vec<usize> = answers.map(|(at, _)| at).collect();
    let kept_from = |count: usize| answers[answers.len().saturating_sub(count)];
    if answers.is_empty() {
        return None;
    }
    let fewer = (1..KEPT_EXCHANGES).rev().map(|count| (count, ShortenedTexts::Earlier));
    let candidates =
        [(KEPT_EXCHANGES, ShortenedTexts::None), (KEPT_EXCHANGES, ShortenedTexts::Earlier)];
    let candidates = candidates.into_iter().chain(fewer).chain([(1, ShortenedTexts::All)]);
    let mut smallest: Option<CompactionPlan> = None;
    for (count, shortened) in candidates {
        let mut plan = CompactionPlan { kept_from: kept_from(count), shortened, tokens: 0 };
        plan.tokens = tokens_after(facts, plan);
        if plan.tokens <= target {
            return Some(plan);
        }
        smallest = smallest.filter(|it| it.tokens <= plan.tokens).or(Some(plan));
    }
    smallest.filter(|plan| plan.tokens <= worst)
}

/// Returns the maximum number of tokens of a summary.
pub(crate) fn summary_tokens(window: u64) -> u64 {
    MAX_SUMMARY_TOKENS.min(window / SUMMARY_SHARE)
}

/// Returns a summary of at most the length that the plan expects.
pub(crate) fn bounded_summary(text: &str, window: u64) -> String {
    let most = usize::try_from(summary_tokens(window) * BYTES_PER_TOKEN).unwrap_or(usize::MAX);
    let text = text.trim();
    if text.len() <= most {
        return text.to_owned();
    }
    format!("{}\n[the summary is cut here]", truncate(text, most))
}

impl CompactionPlan {
    /// Returns true if entries are removed, and not only shortened.
    pub(crate) fn removes_entries(&self) -> bool {
        self.kept_from > 1
    }

    /// Returns the number of answers that are removed.
    pub(crate) fn removed_answers(&self, entries: &[ConversationEntry]) -> usize {
        entries[..self.kept_from].iter().filter(|entry| is_answer(entry)).count()
    }

    /// Returns the removed entries as a text, the input of a summary. Leaves out the beginning of what is too long.
    pub(crate) fn transcript(&self, facts: &CompactionFacts<'_>) -> String {
        let mut blocks = Vec::new();
        for (at, entry) in facts.entries[..self.kept_from].iter().enumerate() {
            let is_prompt = facts.prompt == PromptPlace::Entry(at);
            match entry {
                // The first message stays, and what follows its summary is removed unless it is the prompt of the open turn.
                ConversationEntry::User(parts) if at == 0 => {
                    let (_, later) = split_head(parts);
                    let most = match facts.prompt {
                        PromptPlace::AfterSummary => 1,
                        PromptPlace::Entry(_) => later.len(),
                    };
                    blocks.extend(later.iter().take(most).map(user_text));
                }
                // The prompt of the open turn stays.
                ConversationEntry::User(_) if is_prompt => {}
                ConversationEntry::User(parts) => blocks.extend(parts.iter().map(user_text)),
                ConversationEntry::Model(parts) => {
                    blocks.extend(parts.iter().filter_map(answer_text));
                }
            }
        }
        let text = blocks.join("\n\n");
        let most = (facts.window / 2).min(MAX_TRANSCRIPT_TOKENS) * BYTES_PER_TOKEN;
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let mut from = text.len().saturating_sub(most);
        while !text.is_char_boundary(from) {
            from += 1;
        }
        match from {
            0 => text,
            from => format!("[{from} earlier bytes are left out]\n{}", &text[from..]),
        }
    }

    /// Returns the entries after the compaction, with `summary` in place of the removed ones, and the place of the prompt.
    pub(crate) fn apply(
        &self,
        facts: &CompactionFacts<'_>,
        summary: &str,
    ) -> (Vec<ConversationEntry>, PromptPlace) {
        let mut kept = vec![ConversationEntry::User(self.head(facts, summary))];
        let tail = &facts.entries[self.kept_from..];
        for (at, entry) in tail.iter().enumerate() {
            let is_open = at + 1 == tail.len();
            let is_shortened = match self.shortened {
                ShortenedTexts::None => false,
                ShortenedTexts::Earlier => !is_open,
                ShortenedTexts::All => true,
            };
            kept.push(if is_shortened { with_short_results(entry) } else { entry.clone() });
        }
        let prompt = match facts.prompt {
            PromptPlace::Entry(0) => PromptPlace::Entry(0),
            PromptPlace::Entry(at) if at >= self.kept_from => {
                PromptPlace::Entry(at - self.kept_from + 1)
            }
            PromptPlace::Entry(_) | PromptPlace::AfterSummary => PromptPlace::AfterSummary,
        };
        (kept, prompt)
    }

    /// Returns the parts of the first entry: the first message, the summary, and the prompt if it would be lost.
    fn head(&self, facts: &CompactionFacts<'_>, summary: &str) -> Vec<UserPart> {
        let parts = match facts.entries.first() {
            Some(ConversationEntry::User(parts)) => parts.as_slice(),
            Some(ConversationEntry::Model(_)) | None => &[],
        };
        let (first, later) = split_head(parts);
        let is_prompt = facts.prompt == PromptPlace::Entry(0);
        let mut head: Vec<UserPart> = match self.shortened {
            ShortenedTexts::All if !is_prompt => first.iter().map(with_short_text).collect(),
            _ => first.to_vec(),
        };
        if !self.removes_entries() {
            head.extend_from_slice(later);
            return head;
        }
        head.push(UserPart::Summary(summary.to_owned()));
        match facts.prompt {
            PromptPlace::AfterSummary => head.extend_from_slice(later.get(1..).unwrap_or_default()),
            PromptPlace::Entry(at) if (1..self.kept_from).contains(&at) => {
                if let Some(ConversationEntry::User(parts)) = facts.entries.get(at) {
                    head.extend_from_slice(parts);
                }
            }
            PromptPlace::Entry(_) => {}
        }
        head
    }
}

/// Splits the first entry into the first message, and the summary with everything after it.
fn split_head(parts: &[UserPart]) -> (&[UserPart], &[UserPart]) {
    let is_summary = |part: &UserPart| matches!(part, UserPart::Summary(_));
    parts.split_at(parts.iter().position(is_summary).unwrap_or(parts.len()))
}

fn is_answer(entry: &ConversationEntry) -> bool {
    matches!(entry, ConversationEntry::Model(_))
}

/// Estimates the tokens after a compaction by the ratio of tokens and bytes before it.
fn tokens_after(facts: &CompactionFacts<'_>, plan: CompactionPlan) -> u64 {
    let before = facts.frame_bytes + total_bytes(facts.entries);
    let (after, _) = plan.apply(facts, "");
    let after = facts.frame_bytes + total_bytes(&after);
    let tokens = u128::from(facts.tokens) * u128::from(after) / u128::from(before.max(1));
    let summary = if plan.removes_entries() { summary_tokens(facts.window) } else { 0 };
    u64::try_from(tokens).unwrap_or(u64::MAX).saturating_add(summary)
}

fn with_short_results(entry: &ConversationEntry) -> ConversationEntry {
    match entry {
        ConversationEntry::User(parts) => {
            let parts = parts.iter().map(|part| match part {
                UserPart::Result(result) => {
                    let text = shortened(&result.text);
                    UserPart::Result(CallResult { text, ..result.clone() })
                }
                UserPart::Text(_) | UserPart::Image(_) | UserPart::Summary(_) => part.clone(),
            });
            ConversationEntry::User(parts.collect())
        }
        ConversationEntry::Model(_) => entry.clone(),
    }
}

fn with_short_text(part: &UserPart) -> UserPart {
    match part {
        UserPart::Text(text) => UserPart::Text(shortened(text)),
        UserPart::Result(_) | UserPart::Image(_) | UserPart::Summary(_) => part.clone(),
    }
}

/// Returns the beginning of a long text with a remark. Shortening a shortened text returns it unchanged.
fn shortened(text: &str) -> String {
    // The remark takes the rest.
    if text.len() <= SHORTENED_BYTES + 128 {
        return text.to_owned();
    }
    let start = truncate(text, SHORTENED_BYTES);
    format!("{start}\n[shortened to fit the context window; {} bytes in all]", text.len())
}

fn user_text(part: &UserPart) -> String {
    match part {
        UserPart::Text(text) => format!("User: {}", shortened(text)),
        UserPart::Summary(text) => text.clone(),
        UserPart::Image(_) => "User: [an image]".to_owned(),
        UserPart::Result(result) => {
            format!("Result of {}: {}", result.tool, shortened(&result.text))
        }
    }
}

fn answer_text(part: &AnswerPart) -> Option<String> {
    match part {
        AnswerPart::Text { text, .. } => Some(format!("Agent: {}", shortened(text))),
        AnswerPart::Call(call) => {
            let args = serde_json::Value::Object(call.args.clone()).to_string();
            Some(format!("Call of {}: {}", call.tool, shortened(&args)))
        }
        AnswerPart::Thinking(_) => None,
    }
}

/// Returns the weight of entries, about their bytes in a request.
pub(crate) fn total_bytes(entries: &[ConversationEntry]) -> u64 {
    entries.iter().map(entry_bytes).sum()
}

fn entry_bytes(entry: &ConversationEntry) -> u64 {
    let length = |text: &str| u64::try_from(text.len()).unwrap_or(u64::MAX);
    let images = |count: usize| u64::try_from(count).unwrap_or(u64::MAX) * IMAGE_BYTES;
    match entry {
        ConversationEntry::User(parts) => {
            let bytes = parts.iter().map(|part| match part {
                UserPart::Text(text) | UserPart::Summary(text) => PART_BYTES + length(text),
                UserPart::Image(_) => images(1),
                UserPart::Result(result) => {
                    PART_BYTES + length(&result.text) + images(result.images.len())
                }
            });
            bytes.sum()
        }
        ConversationEntry::Model(parts) => {
            let bytes = parts.iter().map(|part| match part {
                AnswerPart::Text { text, .. } => length(text),
                AnswerPart::Thinking(value) => length(&value.to_string()),
                AnswerPart::Call(call) => {
                    let args = serde_json::Value::Object(call.args.clone()).to_string();
                    length(&args) + length(&call.tool)
                }
            });
            bytes.map(|bytes| PART_BYTES + bytes).sum()
        }
    }
}

#[cfg(test)]
mod tests;
