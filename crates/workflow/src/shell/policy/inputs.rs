//! Values on the standard input of commands that run it.

use agent_worker_protocol::shell_words::{
    ArgumentRole, WrappedCommand, interpreter, is_option, is_shell, program_name, runs_stdin,
    wrapped_command,
};

use super::Check;
use crate::shell::{
    facts::{CommandFacts, Input, UNKNOWN_CHAR, Word},
    refusal::PlacementRefusal,
};

/// Options of `ssh` that take a value.
const SSH_VALUE_OPTIONS: &str = "BbcDEeFIiJLlmOopQRSWw";

impl Check<'_> {
    pub(super) fn check_inputs(&mut self, command: &CommandFacts) {
        let words = &command.words;
        let known: Vec<_> = words.iter().map(Word::beginning).collect();
        let (begins, is_unclear) = match wrapped_command(&known) {
            WrappedCommand::At(begins) => (begins, false),
            WrappedCommand::NotNamed => (0, false),
            WrappedCommand::Unclear => (0, true),
        };
        let Some(name) = words[begins].literal().map(program_name) else { return };
        let arguments = &words[begins + 1..];
        let feeds_arguments = |word: &Word| ["xargs", "gxargs"].contains(&program_name(&word.text));
        let why = PlacementRefusal::Stdin(name.to_owned());
        let is_interpreter = interpreter(name).is_some();
        // Such as `xargs -I% find . -exec sh -c %`.
        let runs_another = |word: &Word| {
            let name = program_name(&word.text);
            name == "find" || interpreter(name).is_some()
        };
        let runs_arguments =
            is_interpreter || is_unclear || words[begins..].iter().any(runs_another);
        if words[..=begins].iter().any(feeds_arguments) && runs_arguments {
            self.refuse_unknown_input(command, why);
            return;
        }
        let runs_file = [".", "source"].contains(&name) || is_interpreter;
        let reads_descriptor = arguments.iter().any(|word| is_descriptor(&word.text))
            || ([".", "source"].contains(&name) && !arguments.first().is_some_and(is_file));
        let runs_input = if is_interpreter {
            runs_stdin(name, &data_words(name, arguments))
        } else {
            ![".", "source"].contains(&name) && runs_stdin(name, &[])
        };
        if runs_file && (reads_descriptor || runs_input) {
            if reads_descriptor || !self.has_own_input(command) {
                self.refuse_unknown_input(command, why);
            }
        } else if runs_input && !runs_other_command(name, arguments) {
            self.refuse_input(command, &why);
        }
    }

    /// Refuses the script if the input of the command may come from the command around it.
    fn refuse_unknown_input(&mut self, command: &CommandFacts, why: PlacementRefusal) {
        self.refuse_input(command, &why);
        if !self.input_is_known(command) && !self.has_own_input(command) {
            self.refuse_script(why);
        }
    }

    /// Refuses the values that a pipe or a redirection of the command brings.
    fn refuse_input(&mut self, command: &CommandFacts, why: &PlacementRefusal) {
        for sources in self.facts.input_sources(command) {
            self.refuse(sources, why);
        }
    }

    /// Returns true if the last input of the command is its own and has no value.
    fn has_own_input(&self, command: &CommandFacts) -> bool {
        match command.inputs.last() {
            Some(Input::File(word)) => word.literal().is_some_and(|text| !is_descriptor(text)),
            Some(Input::Text(word)) => !self.has_value(word),
            Some(Input::Heredoc(number)) => !self.is_tainted(self.facts.heredocs[*number].clone()),
            Some(Input::Descriptor) | None => false,
        }
    }

    /// Returns true if all that reaches the command is a pipe from commands that are known.
    fn input_is_known(&self, command: &CommandFacts) -> bool {
        let descriptors = command.words.iter().any(|word| is_descriptor(&word.text));
        let is_tainted = |sources| self.is_tainted(sources);
        command.pipe.is_some()
            && !self.facts.input_sources(command).into_iter().any(is_tainted)
            && command.inputs.is_empty()
            && !command.is_compound
            && !descriptors
    }
}

/// Returns true for the path of an open descriptor, also a relative one: `./stdin`.
fn is_descriptor(text: &str) -> bool {
    let mut parts = text.split('/').filter(|part| !part.is_empty() && *part != ".");
    let folder = parts.clone().next();
    let is_system = text.starts_with('/') && (folder == Some("dev") || folder == Some("proc"));
    let name = parts.next_back().unwrap_or_default();
    let is_name = text.contains('/')
        && (["stdin", "tty"].contains(&name) || name.bytes().all(|b| b.is_ascii_digit()));
    (is_system || is_name) && text != "/dev/null"
}

/// Returns true if the last part of a path is written out, so that it is that of a file.
fn is_file(word: &Word) -> bool {
    let name = word.text.rsplit('/').next().unwrap_or_default();
    let is_known = !name.contains(UNKNOWN_CHAR) && !name.is_empty();
    is_known && !is_descriptor(&format!("./{name}")) && !word.splits && !word.is_expanded()
}

/// Returns the arguments of an interpreter; a value that is data of its code does not name the code.
fn data_words<'a>(name: &str, arguments: &'a [Word]) -> Vec<Option<&'a str>> {
    let mut known: Vec<Option<&str>> = Vec::new();
    for word in arguments {
        let role = interpreter(name).map(|known_one| known_one.role_after(&known, ""));
        let is_data = role == Some(ArgumentRole::Data);
        let text = word.beginning();
        known.push(if is_data { text.or(Some("value")) } else { text });
    }
    known
}

/// Returns true if the standard input is data for a command that the words name: `ssh host cat`.
fn runs_other_command(name: &str, arguments: &[Word]) -> bool {
    let known: Option<Vec<&str>> = arguments.iter().map(Word::literal).collect();
    let Some(known) = known else { return false };
    let is_code = |word: &&str| {
        let first = word.split_whitespace().next().unwrap_or_default();
        is_shell(program_name(first)) || interpreter(program_name(first)).is_some()
    };
    match name {
        "docker" | "podman" | "kubectl" => !known.iter().any(is_code),
        "ssh" => {
            let mut words = known.iter();
            let mut operands = Vec::new();
            while let Some(word) = words.next() {
                let takes_value = word.ends_with(|c| SSH_VALUE_OPTIONS.contains(c));
                match is_option(word) && operands.is_empty() {
                    true if takes_value => drop(words.next()),
                    true => {}
                    false => operands.push(*word),
                }
            }
            operands.len() > 1 && !operands[1..].iter().any(is_code)
        }
        _ => false,
    }
}
