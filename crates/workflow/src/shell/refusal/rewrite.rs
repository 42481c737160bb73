//! The correction for each refused position.

use super::PlacementRefusal;

const ARGUMENT_OF_SHELL: &str = "pass it as an argument: `sh -c 'echo \"$1\"' sh ${{ … }}`";

/// Builtins that take a number.
const NUMBER_TAKERS: [&str; 10] =
    ["break", "continue", "exit", "fg", "kill", "return", "shift", "ulimit", "umask", "wait"];

/// Returns the correction.
#[expect(clippy::too_many_lines, reason = "a table with one row for each refusal")]
pub(super) fn hint(why: &PlacementRefusal) -> String {
    let hint = match why {
        PlacementRefusal::Comment => "remove it; for the characters themselves write `$${{`",
        PlacementRefusal::QuotedHeredoc => "remove the quotes from the delimiter",
        PlacementRefusal::HeredocDelimiter => "write the delimiter out",
        PlacementRefusal::AnsiQuotes => "use double quotes: `echo \"${{ … }}\"`",
        PlacementRefusal::Arithmetic => "say that it is a number: `echo $((${{ int(…) }} + 1))`",
        PlacementRefusal::Backticks => "use `$( )`: `echo \"$(echo ${{ … }})\"`",
        PlacementRefusal::Braces => {
            "assign the value to a variable first: `v=${{ … }}; echo \"${v:-none}\"`"
        }
        PlacementRefusal::Backslash => {
            "remove the backslash; for the characters themselves write `$${{`"
        }
        PlacementRefusal::Subscript => "say that it is a number: `a[${{ int(…) }}]=1`",
        PlacementRefusal::CommandWord => {
            "write the commands out and choose one: `case ${{ … }} in list) ls;; *) pwd;; esac`"
        }
        PlacementRefusal::Condition => {
            "compare with `[ ]`: `if [ ${{ … }} = main ]; then echo yes; fi`"
        }
        PlacementRefusal::Array => {
            "use the arguments of a function: `f() { echo \"$@\"; }; f -a ${{ … }}`"
        }
        PlacementRefusal::Indirect => {
            "write the names out and choose one: `case ${{ … }} in home) echo \"$HOME\";; esac`"
        }
        PlacementRefusal::Transformation => "let `printf` quote it: `printf '%q' ${{ … }}`",
        PlacementRefusal::Append => "write both parts: `v=a; v=$v${{ … }}`",
        PlacementRefusal::SpecialVariable(_) => "choose another name: `value=${{ … }}`",
        PlacementRefusal::UnknownCommand => "write the name of the command out: `echo ${{ … }}`",
        PlacementRefusal::Wrapper(_) => {
            "pass it in the environment: `v=${{ … }} timeout 5 sh -c 'echo \"$v\"'`"
        }
        PlacementRefusal::Code(name) | PlacementRefusal::Stdin(name) => return code_hint(name),
        PlacementRefusal::Variable(_) | PlacementRefusal::DynamicName(_) => {
            "write the variable's name out: `v=${{ … }}`"
        }
        PlacementRefusal::Declaration(name) if name == "export" => {
            "assign it in a command of its own: `v=${{ … }}; export v`"
        }
        PlacementRefusal::Declaration(_) => "assign it in a command of its own: `v=${{ … }}`",
        PlacementRefusal::Builtin(name) => return builtin_hint(name),
        PlacementRefusal::Format => "write the format out: `printf '%s' ${{ … }}`",
        PlacementRefusal::TestOperand => "compare it: `if [ ${{ … }} = main ]; then echo yes; fi`",
        PlacementRefusal::Alias(_) => "use a function: `f() { ls \"$@\"; }; f -l ${{ … }} || true`",
        PlacementRefusal::Evaluator(name) => return evaluator_hint(name),
        PlacementRefusal::CodeVariable(_) => {
            "remove the assignment, or use the value in a separate step: `echo ${{ … }}`"
        }
        PlacementRefusal::DynamicCommand => {
            "write the commands out and choose one: `case a in a) ls;; *) pwd;; esac; echo ${{ … }}`"
        }
        PlacementRefusal::DynamicCode(name) if name == "trap" => {
            "use single quotes: `f=$(mktemp); trap 'rm -f \"$f\"' EXIT; echo ${{ … }}`"
        }
        PlacementRefusal::DynamicCode(_) => "use `$(( ))`: `n=1; n=$((n + 1)); echo ${{ … }}`",
        PlacementRefusal::Computed { .. } => {
            "compare with `[ ]` and quotes: `y=$(ls | wc -l); [ \"$y\" -gt 3 ] || echo ${{ … }}`, or make it \
             the output of an earlier step and say that it is a number: `echo $((${{ int(…) }} + 1))`"
        }
        PlacementRefusal::ScanFailed(_) => {
            "write that part more simply, or use the value in a separate step: `echo ${{ … }}`"
        }
        PlacementRefusal::Through { why, .. } => return hint(why),
    };
    hint.to_owned()
}

fn code_hint(name: &str) -> String {
    let unversioned = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let hint = match unversioned {
        "eval" => "run the command itself: `echo ${{ … }}`",
        "." | "source" => "write the files out: `case ${{ … }} in a) . ./a.sh;; esac`",
        "let" => "say that it is a number: `n=0; let n+=${{ int(…) }}+1`",
        "trap" => "name a function: `v=${{ … }}; bye() { echo \"$v\"; }; trap bye EXIT`",
        "ssh" => "send it as data: `printf '%s' ${{ … }} | ssh host 'cat >file'`",
        "python" | "pypy" => {
            "pass it as an argument: `python3 -c 'import sys; print(sys.argv[1])' ${{ … }}`"
        }
        "perl" => "pass it as an argument: `perl -e 'print $ARGV[0]' ${{ … }}`",
        "node" | "nodejs" => {
            "pass it in the environment: `v=${{ … }} node -e 'console.log(process.env.v)'`"
        }
        "awk" | "gawk" | "mawk" | "nawk" | "sed" | "gsed" => {
            "pass it in the environment: `v=${{ … }} awk 'BEGIN { print ENVIRON[\"v\"] }'`"
        }
        _ => ARGUMENT_OF_SHELL,
    };
    hint.to_owned()
}

fn builtin_hint(name: &str) -> String {
    if NUMBER_TAKERS.contains(&name) {
        return format!("say that it is a number: `{name} ${{{{ int(…) }}}}`");
    }
    let hint = match name {
        "set" => "use the arguments of a function: `f() { echo \"$1\"; }; f ${{ … }}`",
        "pushd" | "popd" | "dirs" | "chdir" => "use `cd`: `cd ${{ … }}`",
        "type" | "hash" => "use a program: `which ${{ … }}`",
        _ => "assign it to a variable: `v=${{ … }}`",
    };
    hint.to_owned()
}

fn evaluator_hint(name: &str) -> String {
    let hint = match name {
        "eval" => "run the command itself: `echo ${{ … }}`",
        "command_not_found_handle" => {
            "check for the program: `command -v git >/dev/null || exit 1; echo ${{ … }}`"
        }
        "set -k" => "write assignments before the command: `v=${{ … }} ls`",
        name if name.ends_with(" -n") => "write the variable's name out: `v=${{ … }}; echo \"$v\"`",
        _ => "use the value in a separate step: `echo ${{ … }}`",
    };
    hint.to_owned()
}
