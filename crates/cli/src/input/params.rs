//! Arguments behind the workflow file: its parameters as options of their own, and our switches again.
//!
//! The file declares its parameters, so this second, smaller clap command is parsed after the file is loaded, with
//! clap's usual behaviour (`--target=main`, a suggestion for `--tarket`).

use std::{collections::BTreeMap, ffi::OsStr, path::Path};

use agent_worker_protocol::RunMode;
use agent_worker_workflow::{Param, ParamType};
use clap::{
    Arg, ArgAction, Args as _, Command, FromArgMatches as _, builder::PossibleValuesParser,
};

use crate::{
    client::launch::{LaunchCommand, Switches},
    error::CliError,
    output::text::one_line,
};

/// Option for a file of values, which may have the required ones.
const PARAMS_FILE: &str = "--params-file";

/// Parses the parameters of one workflow file for one command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkflowParamsParser<'a> {
    /// The command and the mode of its run.
    pub(crate) launch_command: LaunchCommand,
    /// Path as the user typed it.
    pub(crate) file: &'a Path,
    /// Parameters that the file declares.
    pub(crate) params: &'a [Param],
}

/// Returns whether the arguments request help.
pub(crate) fn requests_help(words: &[String]) -> bool {
    words.iter().any(is_help_flag)
}

/// Returns whether an argument requests help.
pub(crate) fn is_help_flag(word: impl AsRef<OsStr>) -> bool {
    ["--help", "-h"].iter().any(|help| word.as_ref() == *help)
}

impl WorkflowParamsParser<'_> {
    /// Parses `words` into the switches and the texts of the parameters by name, as typed. A required parameter may be
    /// missing if a file gives values.
    pub(crate) fn parse(
        self,
        switches: Switches,
        words: &[String],
    ) -> Result<(Switches, BTreeMap<String, String>), CliError> {
        let names_file = |word: &String| {
            word.strip_prefix(PARAMS_FILE)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        };
        let has_file = switches.params_file.is_some() || words.iter().any(names_file);
        let need = if has_file { Need::ByFile } else { Need::ByLine };
        let matches = self.command(need).try_get_matches_from(words).map_err(|error| {
            CliError::usage(
                &error,
                &format!("list the parameters of the file: {} --help", self.command_prefix()),
            )
        })?;
        let later = Switches::from_arg_matches(&matches)?;
        let given = self.params.iter().filter_map(|param| {
            let value = matches.get_one::<String>(&param.name)?;
            Some((param.name.clone(), value.clone()))
        });
        Ok((switches.merge(later), given.collect()))
    }

    /// Renders the help for the arguments behind the file.
    pub(crate) fn help(self) -> clap::builder::StyledStr {
        self.command(Need::ByLine).render_help()
    }

    fn command_prefix(self) -> String {
        format!(
            "agent-worker {} {}",
            self.launch_command.command,
            one_line(&self.file.to_string_lossy())
        )
    }

    fn command(self, need: Need) -> Command {
        let about = match self.launch_command.mode {
            RunMode::Run => "Run this workflow once and wait for its end",
            RunMode::Start => "Start this workflow, which runs until it is stopped",
        };
        let note = if self.params.is_empty() { "The file takes no parameters." } else { "" };
        let mut command = Command::new("agent-worker")
            .bin_name(self.command_prefix())
            .no_binary_name(true)
            .disable_help_flag(true)
            .next_help_heading("Parameters of the file");
        for param in self.params {
            command = command.arg(param_arg(param, need));
        }
        let help = Arg::new("help").long("help").short('h').help("Print help");
        Switches::augment_args(command.next_help_heading("Options"))
            .arg(help.action(ArgAction::Help))
            .about(about)
            .after_help(note)
    }
}

/// The place where a required parameter must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// On the command line.
    ByLine,
    /// On the command line or in the file of values that it names.
    ByFile,
}

fn param_arg(param: &Param, need: Need) -> Arg {
    let arg = Arg::new(param.name.clone())
        .long(param.name.clone())
        .value_name(value_name(param))
        .help(param_help(param))
        .allow_hyphen_values(param.value_type == ParamType::Number);
    let arg = match param.short {
        Some(letter) => arg.short(letter),
        None => arg,
    };
    let arg = arg.required(param.required && need == Need::ByLine);
    match param.value_type {
        ParamType::Boolean => arg
            .num_args(0..=1)
            .default_missing_value("true")
            .hide_possible_values(true)
            .value_parser(["true", "false"]),
        ParamType::Choice => arg.value_parser(PossibleValuesParser::new(param.choices.clone())),
        ParamType::Text | ParamType::Number | ParamType::File | ParamType::Json => arg,
    }
}

/// Returns the name of the value in the usage of a parameter.
fn value_name(param: &Param) -> &'static str {
    match param.value_type {
        ParamType::Text => "VALUE",
        ParamType::Number => "NUMBER",
        ParamType::Boolean => "true|false",
        ParamType::Choice => "CHOICE",
        ParamType::File => "FILE",
        ParamType::Json => "JSON",
    }
}

/// Formats the option of a parameter with its value, such as `-t, --target VALUE`.
pub(crate) fn param_usage(param: &Param) -> String {
    let short = param.short.map(|letter| format!("-{letter}, ")).unwrap_or_default();
    let value = match param.value_type {
        ParamType::Boolean => String::new(),
        _ => format!(" {}", value_name(param)),
    };
    format!("{short}--{}{value}", param.name)
}

/// Formats a parameter's description and whether the parameter is required, on one line.
pub(crate) fn param_help(param: &Param) -> String {
    let need = match (&param.default, param.required) {
        (_, true) => "[required]".to_owned(),
        (Some(default), false) => format!("[default: {default}]"),
        (None, false) => "[optional]".to_owned(),
    };
    let words = param.description.iter().chain([&need]).map(|words| one_line(words));
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct SwitchesParser {
        #[command(flatten)]
        switches: Switches,
    }

    fn param(name: &str) -> Param {
        Param { name: name.to_owned(), ..Param::default() }
    }

    fn params() -> [Param; 3] {
        let description = Some("What to look at,\nof which repository".to_owned());
        [
            Param { required: true, description, ..param("target") },
            Param { default: Some("a \x1b[2J".to_owned()), ..param("base") },
            param("note"),
        ]
    }

    fn params_parser(params: &[Param]) -> WorkflowParamsParser<'_> {
        let launch_command = LaunchCommand { command: "run", mode: RunMode::Run };
        WorkflowParamsParser { launch_command, file: Path::new("./review.yaml"), params }
    }

    fn read_words(words: &[&str]) -> Result<(Switches, BTreeMap<String, String>), CliError> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let switches = SwitchesParser::parse_from(["x", "--tag", "before"]).switches;
        params_parser(&params()).parse(switches, &words)
    }

    #[test]
    fn the_help_of_a_file_is_its_parameters_and_our_switches() {
        insta::assert_snapshot!(params_parser(&params()).help(), @r"
        Run this workflow once and wait for its end

        Usage: agent-worker run ./review.yaml [OPTIONS] --target <VALUE>

        Parameters of the file:
              --target <VALUE>  What to look at, of which repository [required]
              --base <VALUE>    [default: a ␛[2J]
              --note <VALUE>    [optional]

        Options:
              --tag <TAG>           Tag of the instance, such as `pr-123` [default: main] [alias:
                                    --instance]
          -v, --verbose             Show tool calls and attempts too
              --detach              Return before the end of the run [alias: --background]
              --replace             Stop the live run of this instance first
              --lazy                No effect: agents always start on demand
              --allow-missing       Start although the program of an agent is missing or logged out
              --params-file <FILE>  Read parameters from this YAML or JSON file
              --ci                  Print plain lines and read no key [default: if CI is set]
              --json                Print one JSON document to stdout, also for failures
          -h, --help                Print help
        ");
        let none = params_parser(&[]).help().to_string();
        assert!(none.trim_end().ends_with("The file takes no parameters."), "{none}");
        assert!(!none.contains("Parameters of the file"), "{none}");
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
    fn a_mistake_after_the_file_is_reported_with_a_suggestion() {
        for (words, message, hint) in [
            (&["--tarket", "main"][..], "unexpected argument '--tarket' found", "'--target'"),
            (&["--target", "x", "--jsn"], "unexpected argument '--jsn' found", "'--json'"),
            (
                &[],
                "required arguments were not provided: --target <VALUE>",
                "agent-worker run ./review.yaml --help",
            ),
            (&["main"], "unexpected argument 'main' found", "--help"),
        ] {
            let body = read_words(words).unwrap_err().to_report_error();
            assert!(body.message.contains(message), "{body:?}");
            assert!(body.hint.as_deref().is_some_and(|h| h.contains(hint)), "{body:?}");
        }
    }

    #[test]
    fn the_names_a_file_may_not_give_its_parameters_are_those_of_our_switches() {
        let ours = WorkflowParamsParser { params: &[], ..params_parser(&[]) };
        let ours = ours.command(Need::ByLine);
        let spelt = |arg: &Arg| {
            let aliases = arg.get_all_aliases().unwrap_or_default().into_iter();
            aliases.chain(arg.get_long()).map(str::to_owned).collect::<Vec<_>>()
        };
        let letters: BTreeSet<char> = ours.get_arguments().filter_map(Arg::get_short).collect();
        assert_eq!(letters, agent_worker_workflow::RESERVED_LETTERS.into());
        let taken: BTreeSet<String> = ours.get_arguments().flat_map(spelt).collect();
        assert_eq!(taken, agent_worker_workflow::RESERVED_OPTIONS.map(str::to_owned).into());
    }

    #[test]
    fn each_type_has_its_option_and_its_check() {
        let typed = |name: &str, value_type| Param { value_type, ..param(name) };
        let params = [
            Param { short: Some('t'), required: true, ..param("target") },
            Param { default: Some("3".to_owned()), ..typed("count", ParamType::Number) },
            Param { short: Some('d'), ..typed("dry", ParamType::Boolean) },
            Param {
                choices: vec!["quick".to_owned(), "deep".to_owned()],
                default: Some("quick".to_owned()),
                ..typed("depth", ParamType::Choice)
            },
            typed("diff", ParamType::File),
            typed("plan", ParamType::Json),
        ];
        let help = params_parser(&params).help().to_string();
        let rows = help.split("Parameters of the file:").nth(1).unwrap();
        insta::assert_snapshot!(rows.split("Options:").next().unwrap(), @r"
          -t, --target <VALUE>      [required]
              --count <NUMBER>      [default: 3]
          -d, --dry [<true|false>]  [optional]
              --depth <CHOICE>      [default: quick] [possible values: quick, deep]
              --diff <FILE>         [optional]
              --plan <JSON>         [optional]
        ");
        let read = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let switches = SwitchesParser::parse_from(["x"]).switches;
            params_parser(&params).parse(switches, &words).map(|(_, values)| {
                let values = values.iter().map(|(name, value)| format!("{name}={value}"));
                values.collect::<Vec<_>>().join(" ")
            })
        };
        for (words, expected) in [
            (&["-t", "a"][..], "target=a"),
            (&["-ta", "-d"], "dry=true target=a"),
            (&["--dry", "false", "-t", "$(id) `id`"], "dry=false target=$(id) `id`"),
            (&["--dry=true", "--target=--x", "--json"], "dry=true target=--x"),
            (&["--dry", "--target", "a", "--count", "-5"], "count=-5 dry=true target=a"),
            (&["-t", "a", "--depth", "deep", "--diff", "-"], "depth=deep diff=- target=a"),
            (&["--params-file", "values.yaml"], ""),
        ] {
            assert_eq!(read(words).unwrap(), expected, "{words:?}");
        }
        for (words, part) in [
            (&["-t", "a", "--depth", "deeep"][..], "invalid value 'deeep' for '--depth <CHOICE>'"),
            (&["-t", "a", "--dry", "maybe"], "invalid value 'maybe'"),
            (&["--count", "1"], "--target <VALUE>"),
            (&["-x", "a"], "unexpected argument '-x'"),
        ] {
            let body = read(words).unwrap_err().to_report_error();
            assert!(body.message.contains(part), "{words:?}: {body:?}");
        }
    }
}
