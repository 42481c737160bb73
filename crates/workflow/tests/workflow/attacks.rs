//! Scripts that hide a value's way into code: from the eye, and from a scanner that reads less than the shell does.
//!
//! As in the positions, `@` is a word with the value. Every script here is refused, whatever the quoting.

use crate::shell::step;

/// Scripts of every shell.
pub(crate) const POSIX_ATTACKS: &[&str] = &[
    // A keyword without a space before `(`.
    "n=@; if(eval 'eval \"$n\"'); then :; fi",
    "n=@; if false; then :; else(eval 'eval \"$n\"'); fi",
    "n=@; while(eval \"$n\"); do break; done",
    "n=@; case a in(a) eval \"$n\";; esac",
    "n=@; case a in (a) eval \"$n\";; esac",
    "n=@; case a in a) :;; (b) :;; esac; eval \"$n\"",
    "n=@; {(eval \"$n\"); }",
    // A redirection directly after a keyword, or before one.
    "n=@; case a in a) :;; esac>f; eval \"$n\"",
    "n=@; echo \"$(case a in a) :;; esac>f)\"; eval \"$n\"",
    // A line break inside a token.
    "name=@; eval \"$na\\\nme\"",
    "name=@; eval \"${na\\\nme}\"",
    "name=@; $na\\\nme",
    "name=@; echo $((na\\\nme))",
    "n=@; f(\\\n){ eval \"$1\"; }; f \"$n\"",
    "n=@; cat <<E\\\nOF\nEOF\neval \"$n\"\n",
    "n=@; cat <<EOF\nEO\\\nF\neval \"$n\"\nEOF\n",
    "n=@; cat <<EOF\necho $((n))",
    "n=@; ev\\\nal \"$n\"",
    // Names and commands that are made at run time.
    "n=@; p=n; eval \"eval \\\"\\$${p}\\\"\"",
    "name=@; p=na; eval \"eval \\\"\\$${p}me\\\"\"",
    "name=@; p=na; trap \"eval \\\"\\$${p}me\\\"\" EXIT",
    "name=@; p=na; trap 'eval \"eval \\\"\\$${p}me\\\"\"' EXIT",
    "n=@; c=eval; $c \"\\$n\"",
    "n=@; c=eval; command $c \"\\$n\"",
    "n1=@; i=1; v=n$i; echo $((v))",
    "n1=@; i=1; echo $((n$i))",
    "n1=@; a=n; i=1; echo $(($a$i))",
    "n=@; v=${u:-n}; echo $((v))",
    "n=@; v=xn; v=${v#x}; echo $((v))",
    "n=@; f() { echo $(($1)); }; f ${u:-n}",
    "n=@; PS4='$(eval \"$n\")'; set -x; true",
    // A way through a file, the environment or an input.
    "echo @ >f; y=$(cat f); echo $((y))",
    "echo @ >f; echo $(($(cat f)))",
    "echo @ >f; $(cat f)",
    "echo @ >f; eval \"$(cat f)\"",
    "echo @ >f; y=$(cat f); trap \"$y\" EXIT",
    "n=@; export n; y=$(printenv n); echo $((y))",
    "echo @ | . //dev/stdin",
    "f=/dev/stdin; echo @ | . \"$f\"",
    "cd /dev; echo @ | . ./stdin",
    "cd /; echo @ | . dev/../dev/stdin",
    "sh </dev/null 00<<EOF\n@\nEOF",
    "echo @ | xargs -I% find . -maxdepth 0 -exec sh -c % \\;",
];

/// Scripts of bash.
pub(crate) const BASH_ATTACKS: &[&str] = &[
    "n=@; for((i=0;i<n;i++)); do break; done",
    "n=@; if((n>1)); then :; fi",
    "n=@; while((n)); do break; done",
    "n=@; if false; then :; elif((n)); then :; fi",
    "n=@; if true; then((n)); fi",
    "n=@; for i in 1; do((n)); done",
    "n=@; !((n))",
    "n=@; if !((n)); then :; fi",
    "n=@; time((n))",
    "n=@; time -p((n))",
    "n=@; {((n)); }",
    "n=@; coproc((n))",
    "n=@; coproc<f let n",
    "n=@; function f((n)); f",
    "n=@; [[(n -eq 1)]]",
    "n=@; >f [[ x; let n; ]]",
    "n=@; A=1 [[ x; let n; ]]",
    "n=@; [[ na\\\nme -eq 1 ]]; [[ n -eq 1 ]]",
    "name=@; [[ na\\\nme -eq 1 ]]",
    "name=@; echo ${a[na\\\nme]}",
    "name=@; echo ${HOME:na\\\nme}",
    "n=@; (\\\n(n))",
    "n=@; echo $(\\\n(n))",
    "n=@; a=([n]=1)",
    "n=@; declare -a a=([n]=1)",
    "n=@; declare -i a; a=(n)",
    "n=@; a=(n); echo $((a))",
    "read -aarr <<<@; echo $((arr))",
    "read -raarr <<<@; echo $((arr))",
    "set -- a @; echo $((${!#}))",
    "f() { eval \"${!#}\"; }; f @",
    "f() { echo ${!#}; }; f @",
    "n=@; echo ${?:n}",
    "n=@; echo ${$:n}",
    "n=@; echo ${-:n}",
    "n=@; echo ${0:n}",
    "n=@; touch f; exec {a[n]}<f",
    "n=@; true & wait -p 'a[n]' -n",
    "n=@; v=n; eval \"${!v}\"",
    "name=@; p=na; v=${p}me; echo $((${!v}))",
    "n1=@; i=1; v=n$i; echo \"${!v}\"; echo $((v))",
    "i=1; read \"p$i\" <<<@; echo $((p1))",
    "i=1; printf -v \"p$i\" %s @; echo $((p1))",
    "n=@; printf -v m n; echo $((m))",
    "n=@; declare -i $(echo n)",
    "n=@; $'declare' -i n; n=$n",
    "n=@; c=let; $c n",
    "n=@; c=let; builtin $c n",
    "n=@; {let,n}",
    "n=@; let $(echo n)",
    "n=@; o=-v; test $o 'a[n]'",
    "n=@; o=-v; [ $o 'a[n]' ]",
    "n=@; o=-v; printf $o 'a[n]' 1",
    "n1=@; i=1; declare -n r=n$i; echo $((r))",
    "n=@; for v in {n,m}; do echo $((v)); done",
    "n1=@; for v in n{1..2}; do echo $((v)); done",
    "n=@; PS4='$((n))'; set -x; true",
    "n=@; PROMPT_COMMAND='echo $((n))'; true",
    "n=@; compgen -W '$((n))'",
    "n=@; compgen -C 'eval \"$n\"' a",
    "command_not_found_handle() { eval \"$2\"; }; zzz @",
    "command_not_found_handle() { echo $(($2)); }; zzz @",
    "f=/dev/stdin; . \"$f\" <<<@",
    ". //dev/stdin <<<@",
    "source /dev/../dev/stdin <<<@",
    "bash </dev/null 00<<<@",
    "echo @ >f; y=$(<f); ((y))",
    "echo @ >f; y=$(<f); [[ $y -eq 1 ]]",
    "echo @ >f; y=$(<f); echo ${a[y]}",
    "echo @ >f; declare -i y; y=$(<f)",
    "n=@; echo $\"$((n))\"",
    "TEXTDOMAINDIR=@; TEXTDOMAIN=a; echo $\"a\"",
    "set -k; ls PATH=@",
    "set -o keyword; ls PATH=@",
];

/// Scripts that another shell reads in another way.
pub(crate) const SH_ATTACKS: &[&str] = &[
    "echo a &>/dev/null @",
    "n=@; echo a &>/dev/null eval \"$n\"",
    "n=@; [[ a || eval 'eval \"$n\"' ]]",
    "n=@; if [[ a ]]; then echo \"$n\"; fi",
];

/// Scripts whose text has an `@`.
const OTHER_ATTACKS: &[&str] = &[
    "n=${{ x }}; echo ${n\\\n@P}",
    "n=${{ x }}; echo ${\\\nn@P}",
    "n=${{ x }}; v=n; echo ${!v@P}",
    "n=${{ x }}; y=$(printf %s '$n'); echo ${y@P}",
    "f() { echo $((${${{ int(x) }}})); }; f ${{ x }}",
    "f() { eval \"${${{ int(x) }}}\"; }; f ${{ x }}",
];

/// Returns the script if the shell's scanner accepts it.
fn accepted(shell: &str, script: &str) -> Option<String> {
    let Err(error) = step(shell, script) else { return Some(format!("{shell}: {script:?}")) };
    assert!(error.contains("a value cannot be"), "{script}: {error}");
    None
}

#[test]
fn a_script_that_hides_the_way_of_a_value_is_refused() {
    let word = |script: &&str| {
        ["${{ x }}", "\"a ${{ x }}\"", "$(printf %s ${{ x }})"]
            .map(|word| script.replace('@', word))
    };
    let mut wrong = Vec::new();
    for script in POSIX_ATTACKS.iter().flat_map(word) {
        wrong.extend(["bash", "dash"].iter().filter_map(|shell| accepted(shell, &script)));
    }
    for script in BASH_ATTACKS.iter().flat_map(word) {
        wrong.extend(accepted("bash", &script));
    }
    wrong.extend(OTHER_ATTACKS.iter().filter_map(|script| accepted("bash", script)));
    for script in SH_ATTACKS.iter().flat_map(word) {
        wrong.extend(["sh", "dash"].iter().filter_map(|shell| accepted(shell, &script)));
    }
    assert!(wrong.is_empty(), "{} scripts are accepted:\n{}", wrong.len(), wrong.join("\n"));
}

/// Reads a file with an agent that gets `DEPTH`, and a script.
fn with_environment(script: &str, program: &str) -> Result<(), String> {
    let script = serde_json::to_string(script).unwrap();
    let yaml = format!(
        "agents:\n  a: {{ backend: mock, env: [DEPTH, HOME] }}\nsetup:\n  \
         - {{ shell: {script}, shell_program: {program} }}\n"
    );
    crate::read(&yaml).map(drop).map_err(|error| error.to_string())
}

#[test]
fn a_variable_that_a_client_may_set_is_a_value_also_without_a_reference() {
    for script in [
        "if [[ ${DEPTH:-1} -gt 3 ]]; then :; fi",
        "echo $((DEPTH + 1))",
        "d=$DEPTH; ((d))",
        "eval \"$DEPTH\"",
        "$DEPTH",
        "sh -c \"$DEPTH\"",
    ] {
        let error = with_environment(script, "bash").expect_err(script);
        assert!(error.contains("a value cannot be"), "{script}: {error}");
        assert!(error.starts_with("team.yaml:4:"), "{script}: {error}");
    }
    for script in [
        "if [ \"${DEPTH:-1}\" -gt 3 ]; then :; fi",
        "echo \"$DEPTH\"; ls $DEPTH",
        // Neither names the variable.
        "eval 'echo a'; echo $((1 + 1))",
        "eval \"$HOME/run\"; cat `which ls`",
    ] {
        with_environment(script, "bash").unwrap_or_else(|error| panic!("{script}: {error}"));
    }
    assert_eq!(with_environment("print(DEPTH)", "python3"), Ok(()));
}

#[test]
fn a_reference_to_the_environment_also_marks_the_variable_itself() {
    let file = |steps: &str| crate::read_with_agent(&format!("setup:\n{steps}"));
    let reference = "  - { shell: 'echo ${{ env.DEPTH }}' }\n";
    let arithmetic = "  - { shell: 'echo $((DEPTH))' }\n";
    assert!(file(arithmetic).is_ok());
    assert!(file(&format!("{reference}{arithmetic}")).is_err());
    assert!(file(&format!("{arithmetic}{reference}")).is_err());
    assert!(file("  - { shell: 'echo ${{ env.DEPTH }} $((DEPTH))' }\n").is_err());
}

#[test]
fn ordinary_style_is_accepted() {
    for script in [
        "git log \\\n  --oneline \\\n  ${{ x }}",
        "ls &&\\\n  echo ${{ x }}",
        "echo \"a long \\\ntext, and\\\nmore\" ${{ x }}",
        "tmp=$(mktemp); trap 'rm -f \"$tmp\"; echo bye' EXIT; echo ${{ x }}",
        "n=$(ls | wc -l); if [ \"$n\" -gt 3 ]; then echo ${{ x }}; fi",
        "case $HOME in (a|b) :;; /*) echo ${{ x }};; *.sh|[0-9]*) :;& *) :;; esac >/dev/null",
        "case a in a) case b in b) :;; esac;; b) :;; esac; (echo ${{ x }})",
        ". ./env.sh; source \"$HOME/.profile\"; echo ${{ x }}",
        "read -r -d '' a <f || true; while IFS= read -r line; do echo \"$line\"; done <f; echo ${{ x }}",
        "if command -v \"$EDITOR\" >/dev/null; then echo ${{ x }}; fi",
        "declare -A m; for k in \"${!m[@]}\"; do echo \"$k\"; done; echo ${{ x }}",
        "export A=1 B=\"$HOME/b\"; local_dir=$(pwd); echo ${{ x }}",
        "f() { local name; name=$1; echo \"${name%.*}\"; }; f ${{ x }}",
        "i=0; while ((i < 3)); do i=$((i + 1)); done; echo ${{ x }}",
    ] {
        assert!(step("bash", script).is_ok(), "{script}: {:?}", step("bash", script));
    }
}

#[test]
fn a_variable_that_env_of_a_step_sets_from_a_value_is_a_value_in_that_step() {
    let file = |env: &str, script: &str| {
        let steps = format!("setup:\n  - {{ shell: '{script}', env: {{ DEPTH: '{env}' }} }}\n");
        crate::read_with_agent(&format!("params: [{{ name: depth }}]\n{steps}"))
    };
    for (value, literal) in
        [("${{ params.depth }}", false), ("a${{ env.MY_TOKEN }}", false), ("3", true)]
    {
        assert!(file(value, "echo \"$DEPTH\"").is_ok(), "{value}");
        for script in ["echo $((DEPTH))", "eval \"$DEPTH\"", "$DEPTH", "bash -c \"$DEPTH\""] {
            assert_eq!(file(value, script).is_ok(), literal, "{value}: {script}");
        }
    }
    let next = "setup:\n  - { shell: ls, env: { DEPTH: '${{ env.X }}' } }\n  - { shell: 'echo $((DEPTH))' }\n";
    assert!(crate::read_with_agent(next).is_ok(), "another step does not get the variable");
    let shared =
        "setup:\n  - { shell: ls, env: { A: '${{ env.TZ }}' } }\n  - { shell: 'echo $((TZ))' }\n";
    assert!(crate::read_with_agent(shared).is_err(), "a client may set it in every step");
}
