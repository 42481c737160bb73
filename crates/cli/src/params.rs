//! What stands behind the file: its parameters as options of their own, and our switches once more.
//!
//! The file decides which parameters there are, so this is read after the file: a second, smaller command line
//! with clap's manners (`--target=main`, a suggestion for `--tarket`).

use std::collections::BTreeMap;

use agent_worker_protocol::RunMode;
use agent_worker_workflow::{Param, Workflow};
use clap::{Arg, Args as _, Command, FromArgMatches as _};

use crate::{
    error::{CliError, Kind},
    launch::Switches,
};

/// Reads `words`; the parameters' values come back by name.
pub(crate) fn read(
    switches: Switches,
    words: &[String],
    mode: RunMode,
    workflow: &Workflow,
) -> Result<(Switches, BTreeMap<String, String>), CliError> {
    read_with(switches, words, mode, &workflow.params)
}

fn read_with(
    switches: Switches,
    words: &[String],
    mode: RunMode,
    params: &[Param],
) -> Result<(Switches, BTreeMap<String, String>), CliError> {
    let command = Command::new(format!("agent-worker {mode} FILE"))
        .no_binary_name(true)
        .disable_help_flag(true);
    let mut command = Switches::augment_args(command);
    check(params)?;
    for param in params {
        command = command.arg(
            Arg::new(param.name.clone())
                .long(param.name.clone())
                .value_name("VALUE")
                .required(param.required),
        );
    }
    let matches = command.try_get_matches_from(words)?;
    let later = Switches::from_arg_matches(&matches)?;
    let given = params.iter().filter_map(|param| {
        let value = matches.get_one::<String>(&param.name)?;
        Some((param.name.clone(), value.clone()))
    });
    Ok((switches.and(later), given.collect()))
}

/// Refuses parameters that could never be given, because a switch of ours is spelt the same.
pub(crate) fn check(params: &[Param]) -> Result<(), CliError> {
    let ours = Switches::augment_args(Command::new("agent-worker"));
    let taken = |param: &&Param| {
        param.name == "help" || ours.get_arguments().any(|ours| is_spelt(ours, &param.name))
    };
    let Some(param) = params.iter().find(taken) else { return Ok(()) };
    let what = format!("the parameter `{}` is spelt like a switch of ours", param.name);
    Err(CliError::new(Kind::BadFile, what).hint("rename it in the file"))
}

fn is_spelt(ours: &Arg, name: &str) -> bool {
    let aliases = ours.get_all_aliases().unwrap_or_default();
    ours.get_id().as_str() == name || ours.get_long() == Some(name) || aliases.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        switches: Switches,
    }

    fn read_words(words: &[&str]) -> Result<(Switches, BTreeMap<String, String>), CliError> {
        let params = [("target", true), ("base", false)].map(|(name, required)| Param {
            name: name.to_owned(),
            required,
            default: None,
        });
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let switches = Words::parse_from(["x", "--tag", "before"]).switches;
        read_with(switches, &words, RunMode::Run, &params)
    }

    #[test]
    fn a_files_parameters_and_our_switches_mix_behind_it() {
        let (switches, params) =
            read_words(&["--target", "main", "--json", "--base=a b", "--tag", "pr-1"]).unwrap();
        let expected = [("base", "a b"), ("target", "main")].map(|(k, v)| (k.into(), v.into()));
        assert_eq!(params, BTreeMap::from(expected));
        assert!(format!("{switches:?}").contains("pr-1"), "{switches:?}");
        assert!(format!("{switches:?}").contains("json: true"), "{switches:?}");
    }

    #[test]
    fn what_stood_before_the_file_counts_too() {
        let (switches, _) = read_words(&["--target", "main"]).unwrap();
        assert!(format!("{switches:?}").contains("before"), "{switches:?}");
    }

    #[test]
    fn a_mistake_behind_the_file_is_told_with_what_was_meant() {
        for (words, message, hint) in [
            (&["--tarket", "main"][..], "unexpected argument '--tarket' found", "'--target'"),
            (&["--target", "x", "--jsn"], "unexpected argument '--jsn' found", "'--json'"),
            (&[], "required arguments were not provided: --target <VALUE>", "--help"),
            (&["main"], "unexpected argument 'main' found", "--help"),
        ] {
            let body = read_words(words).unwrap_err().body();
            assert!(body.message.contains(message), "{body:?}");
            assert!(body.hint.as_deref().is_some_and(|h| h.contains(hint)), "{body:?}");
        }
    }

    #[test]
    fn a_parameter_cannot_take_the_name_of_a_switch() {
        for name in ["json", "tag", "instance", "background", "output"] {
            let params = [Param { name: name.to_owned(), required: false, default: None }];
            let switches = Words::parse_from(["x"]).switches;
            let read = read_with(switches, &[], RunMode::Run, &params);
            assert_eq!(read.is_err(), name != "output", "{name}");
        }
    }
}
