//! The command that contains the current position, as far as it is known there.

use agent_worker_protocol::shell_words::is_variable_name;

use super::{
    facts::{CommandFacts, Input, Pipe, UNKNOWN_CHAR, Word},
    scanner::CaseState,
};

/// Words after which a command begins.
const KEYWORDS: [&str; 10] =
    ["if", "then", "elif", "else", "while", "until", "do", "!", "{", "time"];

/// Words that end a compound command.
const CLOSERS: [&str; 4] = ["fi", "done", "}", "esac"];

/// Other words with which a compound command begins.
const HEADS: [&str; 6] = ["case", "for", "select", "function", "coproc", "[["];

/// Words of one simple command, up to the current position.
#[derive(Debug, Default)]
pub(super) struct SimpleCommand {
    kind: WordListKind,
    facts: CommandFacts,
    word: Option<Word>,
    /// End of the sources of the word before.
    mark: usize,
    /// Role of the current word, or of the next one, in a redirection.
    redirect: Option<RedirectKind>,
    after_redirect: bool,
    after_time: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum WordListKind {
    #[default]
    Command,
    /// Text whose words have no meaning as a command.
    Opaque,
}

/// Meaning of the word after a redirection operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RedirectKind {
    /// Standard input from a file.
    Input,
    /// Standard input from another descriptor.
    InputDescriptor,
    /// Standard input from the word itself.
    HereString,
    /// Every other redirection.
    Other,
}

/// Meaning of a word's end for the scanner.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WordEnd {
    Word,
    Case,
    Esac,
    /// The word `[[` begins a condition.
    ConditionBegins,
    /// The word `coproc`, whose grammar is not known here.
    Coproc,
    /// The first word is `name[…`, whose subscript bash ends in a later word.
    OpenSubscript,
    /// A keyword after an assignment or a redirection, where the shell takes it for a command.
    LateKeyword,
}

impl SimpleCommand {
    /// Creates a command whose first word begins after `mark` sources.
    pub(super) fn new(mark: usize) -> Self {
        Self { mark, ..Self::default() }
    }

    /// Creates a list of words that is no command: an array, a pattern.
    pub(super) fn list(mark: usize) -> Self {
        Self { kind: WordListKind::Opaque, mark, ..Self::default() }
    }

    pub(super) fn opaque() -> Self {
        Self { kind: WordListKind::Opaque, ..Self::default() }
    }

    pub(super) fn push(&mut self, c: char) {
        let word = self.word.get_or_insert_default();
        word.has_pattern |= "*?[".contains(c);
        word.has_brace |= c == '{';
        word.text.push(c);
    }

    pub(super) fn push_quoted(&mut self, text: &str) {
        let word = self.word.get_or_insert_default();
        word.quoted = true;
        word.text.push_str(text);
    }

    pub(super) fn push_unknown(&mut self) {
        self.push_quoted(UNKNOWN_CHAR.encode_utf8(&mut [0; 4]));
    }

    /// Notes that the shell may make several words of the current one.
    pub(super) fn mark_split(&mut self) {
        self.word.get_or_insert_default().splits = true;
    }

    pub(super) fn between_words(&self) -> bool {
        self.word.is_none()
    }

    /// Returns true if nothing of a command has been read.
    pub(super) fn is_empty(&self) -> bool {
        let facts = &self.facts;
        self.word.is_none()
            && facts.words.is_empty()
            && facts.assignments.is_empty()
            && facts.inputs.is_empty()
    }

    /// Returns true if `((` would be arithmetic: at the beginning of a command, and after `for`.
    pub(super) fn may_begin_arithmetic(&self) -> bool {
        let words = &self.facts.words;
        self.word.is_none() && (words.is_empty() || (words.len() == 1 && words[0].text == "for"))
    }

    /// Returns true if a `(` would begin a command here.
    pub(super) fn may_begin_command(&self) -> bool {
        self.kind == WordListKind::Command
            && self.may_begin_arithmetic()
            && self.facts.assignments.is_empty()
            && !self.after_redirect
    }

    /// Returns true if a `(` would be that of a pattern such as `@(a|b)`.
    pub(super) fn begins_glob(&self) -> bool {
        self.word_prefix().ends_with(['?', '*', '+', '@', '!'])
    }

    /// Returns true at the end of the first word `!`: a following `(` is a pattern or a subshell.
    pub(super) fn is_negation(&self) -> bool {
        self.facts.words.is_empty() && self.word_prefix() == "!"
    }

    /// Returns true if the current word is the number of a descriptor, which a redirection may follow.
    pub(super) fn is_descriptor(&self) -> bool {
        self.word.as_ref().is_some_and(is_number)
    }

    /// Returns true for `{name[…]}` before a redirection, which stores a descriptor in an array.
    pub(super) fn is_descriptor_element(&self) -> bool {
        let text = self.word_prefix();
        text.starts_with('{') && text.ends_with('}') && text.contains('[')
    }

    /// Notes whether the words are patterns of a `case`.
    pub(super) fn follow_cases(&mut self, cases: &CaseState) {
        self.facts.is_pattern = cases.in_pattern;
    }

    /// Records that the words are not a pattern of `case`.
    pub(super) fn leave_pattern(&mut self) {
        self.facts.is_pattern = false;
    }

    /// Returns true if a `(` would be that of `a=(`.
    pub(super) fn begins_list(&self) -> bool {
        self.word_prefix().ends_with('=') && is_assignment(self.word_prefix())
    }

    /// Returns the name of a function if `()` would define one here.
    pub(super) fn function_name(&self) -> Option<&str> {
        match (&self.word, &self.facts.words[..]) {
            (Some(word), []) | (None, [word]) => Some(&word.text),
            (Some(name), [function]) if function.text == "function" => Some(&name.text),
            _ => None,
        }
    }

    /// Returns true if the command ends a compound one, such as `}`.
    pub(super) fn is_closer(&self) -> bool {
        let first = self.facts.words.first().or(self.word.as_ref());
        first.is_some_and(|word| !word.quoted && CLOSERS.contains(&word.text.as_str()))
    }

    /// Drops the current word if it is a file descriptor, otherwise ends it; the next word is the target.
    pub(super) fn begin_redirect(&mut self, kind: RedirectKind, sources: usize) {
        let descriptor = self.word.take_if(|word| is_number(word)).map(|word| word.text);
        self.end_word(sources);
        self.after_redirect = true;
        // `00` is descriptor 0, too.
        let standard_input = descriptor.is_none_or(|text| text.trim_start_matches('0').is_empty());
        self.redirect = Some(if standard_input { kind } else { RedirectKind::Other });
    }

    /// Takes the target that the scanner read itself: the delimiter of a here-document.
    pub(super) fn end_heredoc_operator(&mut self, number: usize) {
        if self.redirect.take() == Some(RedirectKind::Input) {
            self.facts.inputs.push(Input::Heredoc(number));
        }
    }

    /// Notes that the sources up to here belong to no word of this command.
    pub(super) fn skip_sources(&mut self, sources: usize) {
        self.mark = sources;
    }

    /// Notes that a pipe brings the output of other commands.
    pub(super) fn set_pipe(&mut self, pipe: Pipe) {
        self.facts.pipe = Some(pipe);
    }

    /// Ends the command and returns its facts.
    pub(super) fn end_command(&mut self, sources: usize) -> CommandFacts {
        self.end_word(sources);
        self.redirect = None;
        self.after_redirect = false;
        self.after_time = false;
        std::mem::take(&mut self.facts)
    }

    pub(super) fn end_word(&mut self, sources: usize) -> WordEnd {
        let start = std::mem::replace(&mut self.mark, sources);
        let Some(mut word) = self.word.take() else { return WordEnd::Word };
        word.sources = start..sources;
        if self.kind == WordListKind::Opaque {
            return WordEnd::Word;
        }
        if let Some(kind) = self.redirect.take() {
            match kind {
                RedirectKind::Input => self.facts.inputs.push(Input::File(word)),
                RedirectKind::InputDescriptor => self.facts.inputs.push(Input::Descriptor),
                RedirectKind::HereString => self.facts.inputs.push(Input::Text(word)),
                RedirectKind::Other => {}
            }
            return WordEnd::Word;
        }
        let begins = self.facts.words.is_empty();
        let keyword = if word.quoted { "" } else { word.text.as_str() };
        if self.facts.is_pattern && keyword != "esac" {
            self.facts.words.push(word);
            return WordEnd::Word;
        }
        let is_late = self.after_redirect || !self.facts.assignments.is_empty();
        if begins && is_late && is_keyword(keyword) {
            return WordEnd::LateKeyword;
        }
        let after_time = std::mem::replace(&mut self.after_time, begins && keyword == "time");
        let ended = match keyword {
            "esac" if begins => WordEnd::Esac,
            "case" if begins => WordEnd::Case,
            "[[" if begins => WordEnd::ConditionBegins,
            "coproc" if begins => WordEnd::Coproc,
            "-p" | "--" if begins && after_time => {
                self.after_time = true;
                return WordEnd::Word;
            }
            _ if begins && KEYWORDS.contains(&keyword) => {
                self.facts.is_compound |= keyword != "!" && keyword != "time";
                return WordEnd::Word;
            }
            _ if begins && is_assignment(&word.text) => {
                self.facts.assignments.push(word);
                return WordEnd::Word;
            }
            _ if begins && split_subscript(&word.text).is_some() => WordEnd::OpenSubscript,
            _ => WordEnd::Word,
        };
        self.facts.words.push(word);
        ended
    }

    /// Returns true after `case word in`, where a pattern begins, and after `function name`, where a command does.
    pub(super) fn is_head(&self) -> bool {
        let words = &self.facts.words;
        let is = |index: usize, text: &str| {
            words.get(index).is_some_and(|word: &Word| !word.quoted && word.text == text)
        };
        (words.len() == 3 && is(0, "case") && is(2, "in")) || self.named_function().is_some()
    }

    /// Returns the name after `function`.
    pub(super) fn named_function(&self) -> Option<&str> {
        match &self.facts.words[..] {
            [function, name] if !function.quoted && function.text == "function" => Some(&name.text),
            _ => None,
        }
    }

    /// Takes the current word if it is plain, and begins the next.
    pub(super) fn take_plain_word(&mut self) -> String {
        self.word.take().filter(|word| !word.quoted).unwrap_or_default().text
    }

    fn word_prefix(&self) -> &str {
        self.word.as_ref().map_or("", |word| word.text.as_str())
    }
}

fn is_keyword(text: &str) -> bool {
    KEYWORDS.contains(&text) || CLOSERS.contains(&text) || HEADS.contains(&text)
}

fn is_number(word: &Word) -> bool {
    !word.quoted && word.text.bytes().all(|b| b.is_ascii_digit())
}

/// Returns true for `name=`, `name+=`, `name[…]=` with any text after it.
fn is_assignment(text: &str) -> bool {
    if let Some((_, rest)) = split_subscript(text) {
        return rest.contains("]=") || rest.contains("]+=");
    }
    let head = text.split_once('=').map(|(head, _)| head);
    head.is_some_and(|head| is_variable_name(head.strip_suffix('+').unwrap_or(head)))
}

/// Splits the beginning of a subscript, `name[…`, at its bracket.
fn split_subscript(text: &str) -> Option<(&str, &str)> {
    text.split_once('[').filter(|(name, _)| is_variable_name(name))
}
