//! The command that contains a reference, as far as it is known at the position of the reference.
//!
//! Knows the word that is the command, and the commands that run their arguments as code. This is a safeguard, not a
//! proof: each program interprets its arguments by its own rules.

use super::refusal::PlacementRefusal;

/// Placeholder in a word for text that is unknown before the script runs.
const UNKNOWN_CHAR: char = '\0';

/// Words after which a command begins.
const KEYWORDS: [&str; 11] =
    ["if", "then", "elif", "else", "while", "until", "do", "!", "{", "time", "coproc"];

/// Commands that run another command from their arguments.
const WRAPPERS: [&str; 14] = [
    "builtin", "command", "doas", "env", "exec", "find", "flock", "nice", "nohup", "setsid",
    "stdbuf", "sudo", "timeout", "xargs",
];

/// Commands that run their arguments as code.
const EVALUATORS: [&str; 10] =
    [".", "alias", "eval", "let", "parallel", "source", "ssh", "su", "trap", "watch"];

/// Commands that take names of variables, and evaluate the subscripts in them.
const NAME_TAKING_COMMANDS: [&str; 5] = ["getopts", "mapfile", "read", "readarray", "unset"];

/// Commands with arguments of the form `name=value`.
const DECLARATION_COMMANDS: [&str; 5] = ["declare", "export", "local", "readonly", "typeset"];

/// Programs whose first argument, or the one after an option with such a letter, is a program.
const INTERPRETERS: [(&str, &str); 18] = [
    ("ash", "c"),
    ("awk", ""),
    ("bash", "c"),
    ("dash", "c"),
    ("fish", "c"),
    ("gawk", ""),
    ("ksh", "c"),
    ("lua", "e"),
    ("mawk", ""),
    ("node", "ep"),
    ("perl", "eE"),
    ("php", "r"),
    ("pwsh", "c"),
    ("python", "c"),
    ("ruby", "e"),
    ("sed", "e"),
    ("sh", "c"),
    ("zsh", "c"),
];

/// Words of one simple command, up to the current position.
#[derive(Debug, Default)]
pub(super) struct SimpleCommand {
    kind: WordListKind,
    words: Vec<String>,
    word: Option<ShellWord>,
    /// True if the current word, or the next one, is the target of a redirection.
    is_redirect_target: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum WordListKind {
    #[default]
    Command,
    /// Array list `a=( … )`.
    List,
    /// Text whose words have no meaning as a command.
    Opaque,
}

#[derive(Debug, Default)]
struct ShellWord {
    text: String,
    /// True if part of the word is quoted or expanded, so that it is not a keyword.
    quoted: bool,
}

/// Role of a word in its command, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WordRole {
    Command,
    Argument,
}

/// Meaning of a word's end for the scanner.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WordEnd {
    Word,
    Case,
    Esac,
    /// The word `[[` begins a condition.
    ConditionBegins,
}

impl SimpleCommand {
    pub(super) fn array() -> Self {
        Self { kind: WordListKind::List, ..Self::default() }
    }

    pub(super) fn opaque() -> Self {
        Self { kind: WordListKind::Opaque, ..Self::default() }
    }

    pub(super) fn push(&mut self, c: char) {
        self.word.get_or_insert_default().text.push(c);
    }

    pub(super) fn push_quoted(&mut self, text: &str) {
        let word = self.word.get_or_insert_default();
        word.quoted = true;
        word.text.push_str(text);
    }

    pub(super) fn push_unknown(&mut self) {
        self.push_quoted(UNKNOWN_CHAR.encode_utf8(&mut [0; 4]));
    }

    pub(super) fn between_words(&self) -> bool {
        self.word.is_none()
    }

    /// Returns true if `((` would be arithmetic: at the beginning of a command, and after `for`.
    pub(super) fn may_begin_arithmetic(&self) -> bool {
        self.word.is_none() && (self.words.is_empty() || self.words == ["for"])
    }

    /// Returns true if a `(` would be that of `a=(`.
    pub(super) fn begins_list(&self) -> bool {
        self.word_prefix().ends_with('=') && is_assignment(self.word_prefix())
    }

    /// Drops the current word if it is a file descriptor, otherwise ends it; the next word is the target.
    pub(super) fn begin_redirect(&mut self) {
        let number =
            |word: &ShellWord| !word.quoted && word.text.bytes().all(|b| b.is_ascii_digit());
        if self.word.as_ref().is_some_and(number) {
            self.word = None;
        }
        self.end_word();
        self.is_redirect_target = true;
    }

    pub(super) fn end_redirect(&mut self) {
        self.is_redirect_target = false;
    }

    pub(super) fn end_command(&mut self) {
        self.end_word();
        self.words.clear();
        self.is_redirect_target = false;
    }

    pub(super) fn end_word(&mut self) -> WordEnd {
        let Some(word) = self.word.take() else { return WordEnd::Word };
        if std::mem::take(&mut self.is_redirect_target) || self.kind != WordListKind::Command {
            return WordEnd::Word;
        }
        let begins = self.words.is_empty();
        let keyword = if word.quoted { "" } else { word.text.as_str() };
        let ended = match keyword {
            "esac" if begins => return WordEnd::Esac,
            "case" if begins => WordEnd::Case,
            "[[" if begins => WordEnd::ConditionBegins,
            _ if begins && (KEYWORDS.contains(&keyword) || is_assignment(&word.text)) => {
                return WordEnd::Word;
            }
            _ => WordEnd::Word,
        };
        self.words.push(word.text);
        match self.words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["case", _, "in"] | ["function", _] => self.words.clear(),
            _ => {}
        }
        ended
    }

    /// Takes the current word if it is plain, and begins the next.
    pub(super) fn take_plain_word(&mut self) -> String {
        self.word.take().filter(|word| !word.quoted).unwrap_or_default().text
    }

    /// Returns the reason for which a reference cannot be part of the current word.
    pub(super) fn refusal(&self) -> Option<PlacementRefusal> {
        let prefix = self.word_prefix();
        match self.kind {
            WordListKind::Opaque => None,
            _ if self.is_redirect_target => None,
            WordListKind::List => opens_subscript(prefix).then_some(PlacementRefusal::Subscript),
            WordListKind::Command if self.words.is_empty() => {
                if is_assignment(prefix) {
                    None
                } else if opens_subscript(prefix) {
                    Some(PlacementRefusal::Subscript)
                } else {
                    Some(PlacementRefusal::CommandWord)
                }
            }
            // Such as `env x=` and `sudo x=`.
            WordListKind::Command
                if self.words.iter().all(|word| runs_next_word(base_name(word)))
                    && !is_assignment(prefix) =>
            {
                Some(PlacementRefusal::CommandWord)
            }
            WordListKind::Command => {
                (0..self.words.len()).find_map(|index| self.refusal_by_word(index))
            }
        }
    }

    /// Returns the refusal that the word at `index` causes for a reference after it.
    fn refusal_by_word(&self, index: usize) -> Option<PlacementRefusal> {
        let name = base_name(&self.words[index]);
        let rest = &self.words[index + 1..];
        // After a wrapper any word may be the command.
        let wrapped = WRAPPERS.contains(&base_name(&self.words[0]));
        let role = if index == 0 || wrapped { WordRole::Command } else { WordRole::Argument };
        // `find .` does not run the builtin.
        let evaluates = EVALUATORS.contains(&name) && (name != "." || index == 0);
        if role == WordRole::Command && evaluates {
            return Some(PlacementRefusal::Code(name.to_owned()));
        }
        let after_v = rest.last().is_some_and(|word| word == "-v");
        let names = NAME_TAKING_COMMANDS.contains(&name)
            || (DECLARATION_COMMANDS.contains(&name) && !self.declares_text(rest))
            || (["test", "[", "printf"].contains(&name) && after_v);
        if role == WordRole::Command && names {
            return Some(PlacementRefusal::Variable(name.to_owned()));
        }
        self.is_program_of(name, rest, role).then(|| PlacementRefusal::Code(name.to_owned()))
    }

    /// Returns true for an assignment of text: `export x=` takes text, `declare -i x=` arithmetic, `declare -n x=` a
    /// name.
    fn declares_text(&self, rest: &[String]) -> bool {
        let evaluates = |word: &String| is_option(word) && word.contains(['i', 'n']);
        is_assignment(self.word_prefix())
            && !self.word_prefix().contains('[')
            && !rest.iter().any(evaluates)
    }

    /// Returns true if the current word is the code that the interpreter `name` runs.
    fn is_program_of(&self, name: &str, rest: &[String], role: WordRole) -> bool {
        let unversioned = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        let Some((_, letters)) = INTERPRETERS.iter().find(|(name, _)| *name == unversioned) else {
            return false;
        };
        let takes_code = |word: &str| {
            let long = ["--eval", "--print", "--command"].iter().any(|long| word.starts_with(long));
            let short = !word.starts_with("--") && word.contains(|c| letters.contains(c));
            is_option(word) && (long || short)
        };
        // `-o pipefail` names no program.
        let before = std::iter::once("").chain(rest.iter().map(String::as_str));
        let names_program = |(word, before): (&String, &str)| {
            let belongs_to_option = is_option(before) && before.ends_with('o');
            !is_option(word) && !belongs_to_option
        };
        let program_named = rest.iter().zip(before).any(names_program);
        let code_option = rest.iter().any(|word| takes_code(word));
        let is_next =
            rest.last().is_some_and(|word| takes_code(word)) || takes_code(self.word_prefix());
        is_next || (!program_named && (role == WordRole::Command || code_option))
    }

    fn word_prefix(&self) -> &str {
        self.word.as_ref().map_or("", |word| word.text.as_str())
    }
}

fn base_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Returns true for wrappers whose next word is a command.
fn runs_next_word(name: &str) -> bool {
    WRAPPERS.contains(&name) && name != "find" && name != "flock"
}

fn is_option(word: &str) -> bool {
    word.len() > 1 && word.starts_with(['-', '+'])
}

/// Returns true for `name=`, `name+=`, `name[…]=` with any text after it.
fn is_assignment(text: &str) -> bool {
    let Some((head, _)) = text.split_once('=') else { return false };
    let head = head.strip_suffix('+').unwrap_or(head);
    match head.split_once('[') {
        Some((name, subscript)) => is_variable(name) && subscript.ends_with(']'),
        None => is_variable(head),
    }
}

/// Returns true for an unclosed `name[` or, in a list, `[`.
fn opens_subscript(text: &str) -> bool {
    text.split_once('[').is_some_and(|(name, subscript)| {
        (name.is_empty() || is_variable(name)) && !subscript.contains("]=")
    })
}

fn is_variable(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
