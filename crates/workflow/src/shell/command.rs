//! The command a reference stands in, as far as it is known where the reference stands.
//!
//! Knows which of its words is the command, and which commands run their arguments as code. It is a
//! rail, not a proof: what a program makes of its arguments is that program's affair.

use super::refusal::Why;

/// Stands in a word for what is not known before the script runs.
const UNKNOWN: char = '\0';

/// Words after which a command begins.
const KEYWORDS: [&str; 11] =
    ["if", "then", "elif", "else", "while", "until", "do", "!", "{", "time", "coproc"];

/// Commands that run another command, which is among their arguments.
const WRAPPERS: [&str; 14] = [
    "builtin", "command", "doas", "env", "exec", "find", "flock", "nice", "nohup", "setsid",
    "stdbuf", "sudo", "timeout", "xargs",
];

/// Commands that run what they are given as code.
const EVALUATORS: [&str; 10] =
    [".", "alias", "eval", "let", "parallel", "source", "ssh", "su", "trap", "watch"];

/// Commands that take names of variables, and evaluate the subscripts in them.
const NAMERS: [&str; 5] = ["getopts", "mapfile", "read", "readarray", "unset"];

/// Commands that take `name=value`.
const DECLARERS: [&str; 5] = ["declare", "export", "local", "readonly", "typeset"];

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

/// The words of one simple command, up to some point.
#[derive(Debug, Default)]
pub(super) struct Command {
    kind: Kind,
    words: Vec<String>,
    word: Option<Word>,
    /// The word at hand, or the next, is where a redirection leads.
    redirected: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Command,
    /// `a=( … )`
    List,
    /// Text whose words mean nothing.
    Anything,
}

#[derive(Debug, Default)]
struct Word {
    text: String,
    /// Some of it is quoted or expanded: it is not a keyword.
    quoted: bool,
}

/// What a word is in its command, as far as can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Command,
    Argument,
}

/// What the end of a word means to the scanner.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Word,
    Case,
    Esac,
    /// `[[`
    ConditionBegins,
}

impl Command {
    pub(super) fn list() -> Self {
        Self { kind: Kind::List, ..Self::default() }
    }

    pub(super) fn anything() -> Self {
        Self { kind: Kind::Anything, ..Self::default() }
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
        self.push_quoted(UNKNOWN.encode_utf8(&mut [0; 4]));
    }

    pub(super) fn between_words(&self) -> bool {
        self.word.is_none()
    }

    /// Whether `((` would be arithmetic: where a command begins, and after `for`.
    pub(super) fn may_begin_arithmetic(&self) -> bool {
        self.word.is_none() && (self.words.is_empty() || self.words == ["for"])
    }

    /// Whether a `(` would be that of `a=(`.
    pub(super) fn begins_list(&self) -> bool {
        self.prefix().ends_with('=') && is_assignment(self.prefix())
    }

    /// The word at hand was the number of a file, or it ends; the next says where to.
    pub(super) fn redirect(&mut self) {
        let number = |word: &Word| !word.quoted && word.text.bytes().all(|b| b.is_ascii_digit());
        if self.word.as_ref().is_some_and(number) {
            self.word = None;
        }
        self.end_word();
        self.redirected = true;
    }

    pub(super) fn redirect_is_done(&mut self) {
        self.redirected = false;
    }

    pub(super) fn end(&mut self) {
        self.end_word();
        self.words.clear();
        self.redirected = false;
    }

    pub(super) fn end_word(&mut self) -> Ended {
        let Some(word) = self.word.take() else { return Ended::Word };
        if std::mem::take(&mut self.redirected) || self.kind != Kind::Command {
            return Ended::Word;
        }
        let begins = self.words.is_empty();
        let keyword = if word.quoted { "" } else { word.text.as_str() };
        let ended = match keyword {
            "esac" if begins => return Ended::Esac,
            "case" if begins => Ended::Case,
            "[[" if begins => Ended::ConditionBegins,
            _ if begins && (KEYWORDS.contains(&keyword) || is_assignment(&word.text)) => {
                return Ended::Word;
            }
            _ => Ended::Word,
        };
        self.words.push(word.text);
        match self.words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["case", _, "in"] | ["function", _] => self.words.clear(),
            _ => {}
        }
        ended
    }

    /// The word at hand if it is plain, and begins the next.
    pub(super) fn take_plain_word(&mut self) -> String {
        self.word.take().filter(|word| !word.quoted).unwrap_or_default().text
    }

    /// Why a reference cannot be added to the word at hand.
    pub(super) fn refusal(&self) -> Option<Why> {
        let prefix = self.prefix();
        match self.kind {
            Kind::Anything => None,
            _ if self.redirected => None,
            Kind::List => opens_subscript(prefix).then_some(Why::Subscript),
            Kind::Command if self.words.is_empty() => {
                if is_assignment(prefix) {
                    None
                } else if opens_subscript(prefix) {
                    Some(Why::Subscript)
                } else {
                    Some(Why::CommandWord)
                }
            }
            // `env x=`, `sudo x=`
            Kind::Command
                if self.words.iter().all(|word| starts_only(base(word)))
                    && !is_assignment(prefix) =>
            {
                Some(Why::CommandWord)
            }
            Kind::Command => (0..self.words.len()).find_map(|index| self.refusal_by(index)),
        }
    }

    /// What the word at `index` makes of a reference behind it.
    fn refusal_by(&self, index: usize) -> Option<Why> {
        let name = base(&self.words[index]);
        let rest = &self.words[index + 1..];
        // Behind a wrapper any word may be the command.
        let wrapped = WRAPPERS.contains(&base(&self.words[0]));
        let role = if index == 0 || wrapped { Role::Command } else { Role::Argument };
        // `find .` does not run the builtin.
        let evaluates = EVALUATORS.contains(&name) && (name != "." || index == 0);
        if role == Role::Command && evaluates {
            return Some(Why::Code(name.to_owned()));
        }
        let after_v = rest.last().is_some_and(|word| word == "-v");
        let names = NAMERS.contains(&name)
            || (DECLARERS.contains(&name) && !self.declares_text(rest))
            || (["test", "[", "printf"].contains(&name) && after_v);
        if role == Role::Command && names {
            return Some(Why::Variable(name.to_owned()));
        }
        self.is_program_of(name, rest, role).then(|| Why::Code(name.to_owned()))
    }

    /// `export x=` takes text; `declare -i x=` takes arithmetic, `declare -n x=` a name.
    fn declares_text(&self, rest: &[String]) -> bool {
        let evaluates = |word: &String| is_option(word) && word.contains(['i', 'n']);
        is_assignment(self.prefix()) && !self.prefix().contains('[') && !rest.iter().any(evaluates)
    }

    /// Whether the word at hand is what the interpreter `name` is going to run.
    fn is_program_of(&self, name: &str, rest: &[String], role: Role) -> bool {
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
        let is_next = rest.last().is_some_and(|word| takes_code(word)) || takes_code(self.prefix());
        is_next || (!program_named && (role == Role::Command || code_option))
    }

    fn prefix(&self) -> &str {
        self.word.as_ref().map_or("", |word| word.text.as_str())
    }
}

fn base(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Wrappers whose very next word is a command.
fn starts_only(name: &str) -> bool {
    WRAPPERS.contains(&name) && name != "find" && name != "flock"
}

fn is_option(word: &str) -> bool {
    word.len() > 1 && word.starts_with(['-', '+'])
}

/// `name=`, `name+=`, `name[…]=` and whatever follows.
fn is_assignment(text: &str) -> bool {
    let Some((head, _)) = text.split_once('=') else { return false };
    let head = head.strip_suffix('+').unwrap_or(head);
    match head.split_once('[') {
        Some((name, subscript)) => is_variable(name) && subscript.ends_with(']'),
        None => is_variable(head),
    }
}

/// `name[` or, in a list, `[`, not yet closed.
fn opens_subscript(text: &str) -> bool {
    text.split_once('[').is_some_and(|(name, subscript)| {
        (name.is_empty() || is_variable(name)) && !subscript.contains("]=")
    })
}

fn is_variable(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
