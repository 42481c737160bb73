//! Tables of commands: the place of the command behind wrappers, and the code of interpreters.

use super::*;

/// Splits a command at spaces; a `?` is a word that is not known.
fn words(text: &str) -> Vec<Option<&str>> {
    text.split_whitespace().map(|word| (word != "?").then_some(word)).collect()
}

fn name_behind_wrappers(text: &str) -> String {
    let words = words(text);
    match wrapped_command(&words) {
        WrappedCommand::At(at) => words[at].unwrap_or("?").to_owned(),
        WrappedCommand::NotNamed => "not named".to_owned(),
        WrappedCommand::Unclear => "unclear".to_owned(),
    }
}

#[test]
fn the_command_behind_wrappers_follows_their_options_and_operands() {
    for (text, expected) in [
        ("cat a", "cat"),
        ("timeout 5 cat", "cat"),
        ("timeout -k 5 --signal=KILL -s INT 5 cat", "cat"),
        ("timeout --signal KILL 5 cat", "cat"),
        ("timeout 5", "not named"),
        ("timeout -k", "not named"),
        ("timeout ? cat", "unclear"),
        ("timeout -- ? cat", "cat"),
        ("timeout 5 ?", "?"),
        ("/usr/bin/env A=1 -u B cat", "cat"),
        ("env A=1", "not named"),
        ("env -S cat", "unclear"),
        ("env -Scat", "unclear"),
        ("env --split-string=cat", "unclear"),
        ("env -iS cat", "unclear"),
        ("env ? a", "unclear"),
        ("sudo -u root -n A=1 nice -n 5 cat", "cat"),
        ("xargs -n1 -I {} cat", "cat"),
        ("xargs -n 1", "not named"),
        ("nice -5 cat", "cat"),
        ("stdbuf -oL cat", "cat"),
        ("time -p cat", "cat"),
        ("flock file cat", "cat"),
        ("flock -w 5 file -c", "unclear"),
        ("flock file", "not named"),
        ("find . -name a", "find"),
        ("find . -exec", "unclear"),
        ("find . -exec cat {} ; -name", "find"),
        ("find . -exec cat {} + -name", "find"),
        ("find . -ok cat {}", "cat"),
        ("find . -exec env A=1 cat {}", "cat"),
        ("exec -a name cat", "cat"),
        ("command -- cat", "cat"),
        ("taskset 3 cat", "cat"),
        ("watch -n 5 cat", "unclear"),
        ("ssh host cat", "unclear"),
        ("eval cat", "unclear"),
        ("timeout 5 eval cat", "unclear"),
        ("", "not named"),
    ] {
        assert_eq!(name_behind_wrappers(text), expected, "{text}");
    }
}

#[test]
fn a_word_is_code_file_or_data_of_its_interpreter() {
    for (text, prefix, expected) in [
        ("bash -c", "", ArgumentRole::Code),
        ("bash -lc", "", ArgumentRole::Code),
        ("bash -ceo pipefail", "", ArgumentRole::Code),
        ("bash -o pipefail -c", "", ArgumentRole::Code),
        ("bash -c -x", "", ArgumentRole::Code),
        ("bash -c code", "", ArgumentRole::Data),
        ("bash -c code name", "", ArgumentRole::Data),
        ("bash -o", "", ArgumentRole::Data),
        ("bash -o pipefail", "", ArgumentRole::ScriptFile),
        ("bash", "", ArgumentRole::ScriptFile),
        ("bash script", "", ArgumentRole::Data),
        ("bash ?", "", ArgumentRole::Code),
        ("bash -- ?", "", ArgumentRole::Data),
        ("fish --command", "", ArgumentRole::Code),
        ("python3.12 -c", "", ArgumentRole::Code),
        ("python3", "-c", ArgumentRole::Code),
        ("python3 -c code", "", ArgumentRole::Data),
        ("python3 -W error x.py", "-c", ArgumentRole::Data),
        ("node --eval", "", ArgumentRole::Code),
        ("node", "--eval=", ArgumentRole::Code),
        ("perl -ne", "", ArgumentRole::Code),
        ("awk", "", ArgumentRole::Code),
        ("awk -F :", "", ArgumentRole::Code),
        ("awk -v", "", ArgumentRole::Data),
        ("awk code", "", ArgumentRole::Data),
        ("awk -f file", "", ArgumentRole::Data),
        ("sed -n", "", ArgumentRole::Code),
        ("sed -e", "", ArgumentRole::Code),
        ("sed -e code", "", ArgumentRole::Data),
    ] {
        let words = words(text);
        let known = interpreter(words[0].unwrap()).unwrap();
        assert_eq!(known.role_after(&words[1..], prefix), expected, "{text} {prefix}");
    }
    assert!(interpreter("cat").is_none() && interpreter("git").is_none());
}

#[test]
fn an_interpreter_without_a_program_runs_its_standard_input() {
    for (text, expected) in [
        ("sh", true),
        ("bash -s", true),
        ("bash -e", true),
        ("bash -c code", false),
        ("bash script", false),
        ("bash /dev/stdin", true),
        ("python3 -", true),
        ("python3 x.py", false),
        ("python3 -c code", false),
        ("node", true),
        ("awk code", false),
        ("awk -f -", true),
        ("make -f -", true),
        ("ssh host", true),
        ("sqlite3 file.db", true),
        ("crontab -", true),
        ("cat", false),
        ("grep -f -", false),
    ] {
        let words = words(text);
        assert_eq!(runs_stdin(words[0].unwrap(), &words[1..]), expected, "{text}");
    }
}

#[test]
fn only_a_shell_in_a_folder_of_the_system_is_an_installed_shell() {
    for program in ["bash", "/bin/sh", "/usr/bin/zsh", "/usr/local/bin/fish"] {
        assert!(is_installed_shell(program), "{program}");
    }
    for program in
        ["/x/evil", "/x/bash", "./bash", "/bin/../x/bash", "bin/bash", "cat", "/bin/", ""]
    {
        assert!(!is_installed_shell(program), "{program}");
    }
}

#[test]
fn options_before_a_subcommand_are_counted_with_their_values() {
    let git = subcommand_program("git").unwrap();
    for (text, expected) in [
        ("-C . push", 2),
        ("-c a=b --no-pager push", 3),
        ("--git-dir=x push", 1),
        ("--git-dir x push", 2),
        ("push -f", 0),
        ("-C", 1),
    ] {
        let words: Vec<&str> = text.split_whitespace().collect();
        assert_eq!(git.options.leading_words(&words), expected, "{text}");
    }
}

#[test]
fn wrappers_keywords_builtins_and_assignments_are_recognized() {
    for name in ["timeout", "bash", "ssh", "find", "parallel", "watch"] {
        assert!(wrapper(name).is_some() || interpreter(name).is_some(), "{name}");
    }
    assert!(is_builtin("read") && !is_builtin("cat"));
    assert!(precedes_command("then") && !precedes_command("fi"));
    assert!(is_assignment("A_1+=x") && !is_assignment("1=x") && !is_assignment("=x"));
}

#[test]
fn a_word_with_a_special_character_is_quoted() {
    for (word, expected) in [
        ("/a/b-c_d.e=f:g@h", "/a/b-c_d.e=f:g@h"),
        ("a b", "'a b'"),
        ("", "''"),
        ("it's", r"'it'\''s'"),
        ("$(id)", "'$(id)'"),
    ] {
        assert_eq!(shell_quote(word), expected);
    }
}
