//! Scripts run by real shells with hostile values: a value arrives exactly and is never code.

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use agent_worker_workflow::{SetupStep, TemplateScope};

use crate::read_with_agent;

/// Values that are code, quotes or options for a careless script.
const HOSTILE: [&str; 22] = [
    "",
    "plain",
    "two  words",
    "$(touch pwned)",
    "`touch pwned`",
    "; touch pwned #",
    "\n touch pwned\n",
    "'; touch pwned; '",
    "\"; touch pwned; \"",
    "'\"'\"'",
    "$HOME ${HOME} $1 $$",
    "${{ y }}",
    "* ? [a-z] ~ {a,b}",
    "-n",
    "-oProxyCommand=touch pwned",
    "\\ \\\\ \\n \\",
    "trailing\n\n\n",
    "EOF\ntouch pwned\nEOF\n",
    "a[$(touch pwned)]",
    "é \u{1f980} \u{7f} \t \r",
    "!! !x",
    "x=1 >pwned",
];

/// Creates a step with this script, whose `x` is the output of an earlier step.
pub(crate) fn step(program: &str, script: &str) -> Result<SetupStep, String> {
    let script = serde_json::to_string(script).unwrap();
    let yaml = format!(
        "setup:\n  - {{ shell: 'true', as: x }}\n  - {{ shell: {script}, shell_program: {program} }}\n"
    );
    let workflow = read_with_agent(&yaml).map_err(|error| error.to_string())?;
    Ok(workflow.setup.into_iter().next_back().unwrap())
}

/// Returns the output of the script, run in an empty folder that must stay empty.
fn run(step: &SetupStep, value: &str) -> String {
    let mut scope = TemplateScope::default();
    scope.insert_output("x", value);
    let (stdout, stderr) = run_with(step, &scope);
    assert_eq!(stderr, "", "{value:?}");
    stdout
}

/// Runs the script with any end, in an empty folder that must stay empty.
pub(crate) fn run_any(step: &SetupStep, value: &str) {
    let mut scope = TemplateScope::default();
    scope.insert_output("x", value);
    execute(step, &scope);
}

/// Returns what the script printed, and requires its success.
fn run_with(step: &SetupStep, scope: &TemplateScope) -> (String, String) {
    let output = execute(step, scope);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{stderr}");
    (String::from_utf8(output.stdout).unwrap(), stderr)
}

fn execute(step: &SetupStep, scope: &TemplateScope) -> Output {
    let (private, cwd) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let prepared = step.shell.prepare(scope).unwrap();
    let script = private.path().join("script");
    fs::write(&script, &prepared.script).unwrap();
    let (program, options) = step.interpreter();
    let mut command = Command::new(program);
    command.args(options).arg(&script).current_dir(cwd.path()).stdin(Stdio::null());
    for file in &prepared.files {
        let path = private.path().join(&file.variable);
        fs::write(&path, &file.value).unwrap();
        command.env(&file.variable, &path);
    }
    let output = command.output().unwrap();
    let left = fs::read_dir(cwd.path()).unwrap().count();
    assert_eq!(left, 0, "a value was run as code in\n{}", prepared.script);
    output
}

/// Checks the output of each script; `@` in it is the value.
fn check_outputs(program: &str, table: &[(&str, &str)]) {
    let every = HOSTILE.join("\n");
    for (script, expected) in table {
        for value in ["", "-n", "* ' \"", "trailing\n\n\n", "a[$(touch pwned)]", &every] {
            check_output(program, script, value, expected);
        }
    }
}

fn check_output(program: &str, script: &str, value: &str, expected: &str) {
    let step = step(program, script).map_err(|error| format!("{script}: {error}"));
    assert_eq!(run(&step.unwrap(), value), expected.replace('@', value), "{program}: {script}");
}

const POSIX: [(&str, &str); 33] = [
    ("printf '%s' \"${{ x }}\"", "@"),
    ("printf '%s' '${{ x }}'", "@"),
    ("printf '%s' ${{ x }}", "@"),
    ("printf '[%s]' ${{ x }} \"${{x}}\" a${{ x }}b", "[@][@][a@b]"),
    ("printf '%s' \"a ${{ x }} b\" 'c ${{ x }} d'", "a @ bc @ d"),
    ("printf '%s' it\\'s' ${{ x }}'", "it's @"),
    ("cat <<EOF\n${{ x }}|\nEOF\nprintf done", "@|\ndone"),
    ("cat <<-EOF\n\t${{ x }}|\n\tEOF\n", "@|\n"),
    ("cat <<A; cat <<B\n1${{ x }}\nA\n2${{ x }}\nB\n", "1@\n2@\n"),
    ("cat <<EOF\nit's \"${{ x }}\" \\$x $(printf %s. '${{ x }}')|\nEOF\n", "it's \"@\" $x @.|\n"),
    ("cat <<'EOF'\nit's \"raw\n\\\nEOF\nprintf %s ${{ x }}", "it's \"raw\n\\\n@"),
    ("cat <<EOF\na\\\nEOF\nit's\nEOF\nprintf %s ${{ x }}", "aEOF\nit's\n@"),
    ("v=${{ x }}; printf '%s' \"$v\"", "@"),
    ("v=a${{ x }} w='b${{ x }}'; printf '%s' \"$v$w\"", "a@b@"),
    ("V=${{ x }}; export V; printf '%s' \"$V\"", "@"),
    ("V=${{ x }} sh -c 'printf %s \"$V\"'", "@"),
    ("printf '%s' ${{ x }} | while IFS= read -r l; do :; done; printf %s ${{ x }}", "@"),
    ("awk 'BEGIN { printf \"%s\", ENVIRON[\"V\"] }' | cat; printf '%s' ${{ x }} | cat", "@"),
    ("f() { printf '%s' \"$1\"; }; f ${{ x }}", "@"),
    ("f() {\n  printf '%s' ${{ x }}\n}\nf", "@"),
    ("printf '%s|' \"$(printf '%s' \"${{ x }}\" | wc -c | tr -d ' ' >/dev/null)\"", "|"),
    ("(printf '%s' ${{ x }})", "@"),
    ("printf '%s' ${{ x }} # it's a \"comment\n# ` $( \nprintf '%s' '${{ x }}'", "@@"),
    ("cat \"${{ x.file }}\"", "@"),
    ("cat ${{ x.file }} '${{ x.file }}'", "@@"),
    ("cat <${{ x.file }}", "@"),
    ("sh -c 'printf %s \"$1\"' sh ${{ x }}", "@"),
    ("case ${{ x }} in *) printf '%s' ${{ x }};; esac", "@"),
    ("y=$(case a in a) printf '%s.' ${{ x }};; (b) :;; esac); printf '%s' \"${y%.}\"", "@"),
    ("for i in ${{ x }} b; do printf '<%s>' \"$i\"; done", "<@><b>"),
    ("if [ -n \"${{ x }}\" ] || [ -z '${{ x }}' ]; then printf '%s' ${{ x }}; fi", "@"),
    ("printf '%s %s' \"${#}\" \"${HOME:+\"y\"}\" >/dev/null; printf '%s' \"$#${{ x }}\"", "0@"),
    ("printf '%s' '$${{ x }}'\"${{ x }}\"", "${{ x }}@"),
];

const BASH: [(&str, &str); 13] = [
    ("cat <<<${{ x }}", "@\n"),
    ("cat <<< \"a ${{ x }}\"", "a @\n"),
    ("f() { printf '<%s>' \"$@\"; }; f ${{ x }} 'b ${{ x }}'", "<@><b @>"),
    ("f() { local v; v=\"${{ x }}\"; printf '%s' \"$v\"; }; f", "@"),
    ("function f { printf '%s' ${{ x }}; }; f", "@"),
    ("if [[ a == a && ! ( a > b ) ]]; then printf '%s' ${{ x }}; fi", "@"),
    ("[[ a =~ ^(a|b)$ ]] && printf '%s' ${{ x }}", "@"),
    ("cat <(printf '%s' ${{ x }})", "@"),
    ("printf '%s' $'it\\'s' ${{ x }}", "it's@"),
    ("for ((i = 0; i < 2; i++)); do printf '%s' ${{ x }}; done", "@@"),
    ("(( 1 << 2 )); printf '%s' \"$((1 << 3))${{ x }}\"", "8@"),
    ("shopt -s extglob\nprintf '%s' !(zz|yy)${{ x }}", "!(zz|yy)@"),
    ("x=\"${HOME#\"/\"}\"; cat <<EOF &>/dev/stdout\n${{ x }}\nEOF", "@\n"),
];

#[test]
fn every_hostile_value_is_text_in_the_three_quotings() {
    let script = "printf '<%s>' ${{ x }} \"${{ x }}\" '${{ x }}'\ncat <<EOF\n${{ x }}\nEOF\n";
    for program in ["bash", "sh"] {
        for value in HOSTILE {
            check_output(program, script, value, "<@><@><@>@\n");
        }
    }
}

#[test]
fn a_value_arrives_exactly_in_every_quoting_of_a_posix_shell() {
    check_outputs("sh", &POSIX);
}

#[test]
fn a_value_arrives_exactly_in_every_quoting_of_bash() {
    check_outputs("bash", &POSIX);
    check_outputs("bash", &BASH);
}

#[test]
fn ten_megabytes_arrive_and_nothing_of_them_is_in_argv_or_environment() {
    let value = "it's a \"diff\" $(touch pwned) \\ é\n".repeat(300_000) + "\n\n";
    for program in ["bash", "dash"] {
        let script = "printf '%s' \"${{ x }}\"; printf '|'; env | wc -c | tr -d ' \\n'";
        let start = Instant::now();
        let printed = run(&step(program, script).unwrap(), &value);
        let (text, environment) = printed.rsplit_once('|').unwrap();
        assert!(text == value, "{program}: {} of {} bytes", text.len(), value.len());
        assert!(environment.parse::<usize>().unwrap() < 100_000, "{program}: {environment}");
        assert!(start.elapsed() < Duration::from_secs(30), "{program}: {:?}", start.elapsed());
    }
}

#[test]
fn what_has_no_references_is_run_as_it_is() {
    for script in ["echo $(( 1 + 1 )) `date` # ${x:-'}", "print('x')", "case x in (("] {
        let prepared =
            step("bash", script).unwrap().shell.prepare(&TemplateScope::default()).unwrap();
        assert_eq!((prepared.script.as_str(), prepared.files.len()), (script, 0));
    }
}

#[test]
fn line_numbers_of_the_shell_are_those_of_the_script() {
    let step = step("bash", "printf '%s\\n' ${{ x }} >/dev/null\necho $LINENO").unwrap();
    assert_eq!(run(&step, "a\nb"), "2\n");
}

#[test]
fn the_program_has_the_options_that_make_it_stop_at_a_mistake() {
    for (program, options) in [
        ("bash", &["-euo", "pipefail", "-c", ". \"$0\""][..]),
        ("/bin/sh", &["-eu", "-c", "eval \"$(cat \"$0\")\""]),
        ("dash", &["-eu", "-c", "eval \"$(cat \"$0\")\""]),
        ("python3", &[]),
    ] {
        assert_eq!(step(program, "true").unwrap().interpreter(), (program, options));
    }
    let plain = read_with_agent("setup: [{ shell: ls }]\n").unwrap().setup.remove(0);
    assert_eq!(plain.interpreter(), ("bash", &["-euo", "pipefail", "-c", ". \"$0\""][..]));
}

#[test]
fn a_script_that_a_value_makes_overwrite_itself_is_not_read_again() {
    // The descriptor of the script in bash, and in dash.
    for (program, descriptor) in [("bash", 255), ("dash", 10), ("dash", 11)] {
        let yaml = format!(
            "setup:\n  - {{ shell: 'true', as: x }}\n  - {{ shell: 'true', as: y }}\n  \
             - {{ shell: \"printf %s ${{{{ x }}}} >${{{{ y }}}} || true\\n/bin/true\", shell_program: {program} }}\n"
        );
        let step = read_with_agent(&yaml).unwrap().setup.pop().unwrap();
        let mut scope = TemplateScope::default();
        scope.insert_output("x", "\n".repeat(500) + "touch pwned\n");
        scope.insert_output("y", format!("/proc/self/fd/{descriptor}"));
        run_with(&step, &scope);
    }
}

#[test]
fn a_nul_byte_is_refused_in_a_variable_and_kept_in_a_file() {
    let mut scope = TemplateScope::default();
    scope.insert_output("x", "a\0b");
    let error = step("bash", "echo ${{ x }}").unwrap().shell.prepare(&scope).unwrap_err();
    assert!(error.to_string().contains("NUL"), "{error}");
    assert_eq!(run(&step("bash", "od -An -c ${{ x.file }}").unwrap(), "a\0b"), "   a  \\0   b\n");
}

#[test]
fn a_value_used_twice_is_one_file() {
    let mut scope = TemplateScope::default();
    scope.insert_output("x", "v");
    let step = step("bash", "echo ${{ x }} ${{ x.file }} '${{ x }}'").unwrap();
    let prepared = step.shell.prepare(&scope).unwrap();
    assert_eq!(prepared.files.len(), 1);
    assert_eq!(
        (prepared.files[0].variable.as_str(), prepared.files[0].value.as_str()),
        ("AW_F1", "v")
    );
}

/// Positions at which a value cannot be placed, with a word of the reason.
const REFUSED: [(&str, &str); 63] = [
    ("cat <<'EOF'\n${{ x }}\nEOF", "delimiter of this here-document is quoted"),
    ("cat <<\"EOF\"\n${{ x }}\nEOF", "quoted"),
    ("cat <<\\EOF\n${{ x }}\nEOF", "quoted"),
    ("cat <<-'EOF'\n\t${{ x }}\n\tEOF", "quoted"),
    ("cat <<${{ x }}\n", "delimiter of a here-document"),
    ("echo # ${{ x }}", "comment"),
    ("# ${{ x }}", "comment"),
    ("echo $'${{ x }}'", "`$'…'`"),
    ("echo $(( ${{ x }} ))", "arithmetic"),
    ("echo \"$(( 1 + ${{ x }} ))\"", "arithmetic"),
    ("(( ${{ x }} ))", "arithmetic"),
    ("for ((i = ${{ x }}; ;)); do :; done", "arithmetic"),
    ("echo $[ ${{ x }} ]", "`$[`"),
    ("echo `echo ${{ x }}`", "backticks"),
    ("echo \"`echo '${{ x }}'`\"", "backticks"),
    ("echo ${y:-${{ x }}}", "`${…}`"),
    ("echo \"${y:-${{ x }}}\"", "`${…}`"),
    ("echo \"${y:-it's}\" ${{ x }}", "cannot be parsed"),
    ("echo \\${{ x }}", "backslash"),
    ("echo \"\\${{ x }}\"", "backslash"),
    ("a[${{ x }}]=1", "subscript"),
    ("a[b=${{ x }}]=1", "subscript"),
    ("a=([${{ x }}]=1)", "elements of an array"),
    ("${{ x }}", "command itself"),
    ("\"${{ x }}\" --help", "command itself"),
    ("ls | ${{ x }}", "command itself"),
    ("if ${{ x }}; then :; fi", "command itself"),
    ("V=1 ${{ x }}", "command itself"),
    ("sudo ${{ x }}", "`sudo` runs one of its arguments"),
    ("exec ${{ x }}", "`exec` runs one of its arguments"),
    ("case a in ${{ x }}) :;; esac", "pattern of `case`"),
    ("[[ ${{ x }} -eq 1 ]]", "`[[ … ]]`"),
    ("[[ 1 -lt \"${{ x }}\" ]]", "`[[ … ]]`"),
    ("[[ -v ${{ x }} ]]", "`[[ … ]]`"),
    ("[[ ( 1 -eq ${{ x }} ) ]]", "`[[ … ]]`"),
    ("sh -c \"echo ${{ x }}\"", "`sh` would run it as code"),
    ("sh -c 'echo ${{ x }}'", "`sh` would"),
    ("bash -c \"echo ${{ x }}\"", "`bash` would"),
    ("bash -c ${{ x }}", "`bash` would"),
    ("/bin/bash -euo pipefail -c \"${{ x }}\"", "`bash` would"),
    ("sudo -u me bash -lc \"${{ x }}\"", "`bash` would"),
    ("find . -exec sh -c 'rm ${{ x }}' \\;", "`sh` would"),
    ("docker run alpine sh -c \"${{ x }}\"", "`sh` would"),
    ("bash ${{ x }}", "`bash` would"),
    ("bash -o pipefail ${{ x }}", "`bash` would"),
    ("eval ${{ x }}", "`eval` would"),
    ("eval \"echo ${{ x }}\"", "`eval` would"),
    ("command eval 'a${{ x }}'", "`eval` would"),
    ("ssh host \"echo ${{ x }}\"", "`ssh` runs one"),
    ("ssh ${{ x }}", "`ssh` runs one"),
    ("true && ssh -p 22 host ls '${{ x }}'", "`ssh` runs one"),
    ("trap 'echo ${{ x }}' EXIT", "`trap` would"),
    (". ${{ x }}", "`.` would"),
    ("python3 -c \"print('${{ x }}')\"", "`python3` would"),
    ("perl -pe 's/${{ x }}//' f", "`perl` would"),
    ("sed \"s/a/${{ x }}/\" f", "`sed` would"),
    ("awk '/${{ x }}/' f", "`awk` would"),
    ("let n=${{ x }}", "`let` would"),
    ("read ${{ x }}", "variable's name"),
    ("declare -i n=${{ x }}", "`declare` may evaluate"),
    ("export ${{ x }}", "`export` may evaluate"),
    ("printf -v ${{ x }} a", "variable's name"),
    ("[ -v ${{ x }} ]", "variable's name"),
];

#[test]
fn a_reference_that_would_be_code_or_nothing_is_refused_with_its_place() {
    for (script, part) in REFUSED {
        let error = step("bash", script).expect_err(script);
        assert!(error.contains(part), "{script}: {error}");
        assert!(error.starts_with("team.yaml:5:"), "{script}: {error}");
    }
}

#[test]
fn what_looks_like_code_and_is_not_is_accepted() {
    for script in [
        "ssh host 'cat >f' <${{ x.file }}",
        "printf %s ${{ x }} | ssh host cat",
        "bash script.sh ${{ x }}",
        "python3 tool.py --flag ${{ x }}",
        "sed -n 1p ${{ x.file }}",
        "perl -ne 'print' ${{ x.file }}",
        "echo eval ${{ x }}",
        "grep ssh ${{ x.file }}",
        "git commit -m ${{ x }} -- node",
        "env A=${{ x }} ls",
        "timeout 5 grep ${{ x }} f",
        "[ ${{ x }} -eq 1 ]",
        "ls [a]${{ x }}",
        "env -u B A=${{ x }} ls",
        "find . -name ${{ x }}",
        "find ${{ x }} -exec cat {} \\;",
        "python3 - ${{ x }} <<'EOF'\npass\nEOF",
        "curl https://example.com | bash; echo ${{ x }}",
        "docker build -t ${{ x }} . && ssh host uptime",
        "v=${{ x }}; export v; readonly v; echo \"$v ${#v} $((${#v} + 1))\"",
        "tmp=$(mktemp); trap 'rm -f \"$tmp\"' EXIT; echo ${{ x }} >\"$tmp\"",
        "n=0; for f in *; do n=$((n + 1)); done; [[ $n -gt 1 ]] && echo ${{ x }}",
    ] {
        assert!(step("bash", script).is_ok(), "{script}: {:?}", step("bash", script));
    }
}

#[test]
fn a_program_that_is_not_a_known_shell_takes_no_values() {
    for program in ["python3", "zsh", "fish", "/opt/tool"] {
        let error = step(program, "print(${{ x }})").unwrap_err();
        assert!(error.contains("scripts of bash, sh and dash"), "{program}: {error}");
    }
    assert!(step("sh", "echo $'a\\'b' ${{ x }}").unwrap_err().contains("read differently"));
    assert!(step("sh", "((ls)); echo ${{ x }}").unwrap_err().contains("cannot be parsed"));
}

#[test]
fn a_script_that_cannot_be_followed_takes_no_values() {
    let deep = "$(".repeat(5_000);
    let scripts = [
        format!("echo {deep} ${{{{ x }}}}"),
        "echo 'never closed ${{ x }} \n echo ${{ x }}".to_owned(),
        "echo $( ${{ x }".to_owned(),
        "echo ) ${{ x }}".to_owned(),
        "x=$(cat <<EOF) ${{ x }}\na\nEOF".to_owned(),
        "cat <<EOF $(\necho ${{ x }})".to_owned(),
        "echo $\\\n(echo ${{ x }})".to_owned(),
        "((ls) ); echo ${{ x }}".to_owned(),
        "echo ${ ls; } ${{ x }}".to_owned(),
    ];
    for script in &scripts {
        assert!(step("bash", script).is_err(), "{script}");
    }
    assert!(!Path::new("pwned").exists());
}
