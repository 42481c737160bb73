//! Values in setup commands: a hostile value of a parameter is never code in the shell of the command.

use crate::world::{CommandOutput, World};

/// Scripts in which a value would be code, with such a value. The value creates the file `pwned`.
const ATTACKS: [(&str, &str); 37] = [
    ("declare -a a=${{ params.x }}", "([0]=$(touch pwned))"),
    ("declare -A a=${{ params.x }}", "([$(touch pwned)]=1)"),
    ("f() { local -a a=${{ params.x }}; }; f", "([0]=$(touch pwned))"),
    ("typeset -a a=${{ params.x }}", "([0]=$(touch pwned))"),
    ("readonly -a a=${{ params.x }}", "([0]=$(touch pwned))"),
    ("sh <<EOF\n${{ params.x }}\nEOF", "touch pwned"),
    ("python3 - <<EOF\n${{ params.x }}\nEOF", "open('pwned', 'w')"),
    ("bash <<<${{ params.x }}", "touch pwned"),
    ("echo ${{ params.x }} | bash", "touch pwned"),
    ("timeout 5 ${{ params.x }} pwned", "touch"),
    ("env -S ${{ params.x }}", "touch pwned"),
    ("echo pwned | xargs -n1 ${{ params.x }}", "touch"),
    ("find . -maxdepth 0 -exec ${{ params.x }} pwned \\;", "touch"),
    ("flock . -c ${{ params.x }}", "touch pwned"),
    ("n=${{ params.x }}; echo $((n))", "a[$(touch pwned)]"),
    ("n=${{ params.x }}; ((n)) || true", "a[$(touch pwned)]"),
    ("n=${{ params.x }}; [[ $n -eq 1 ]] || true", "a[$(touch pwned)]"),
    ("n=${{ params.x }}; a[n]=1", "b[$(touch pwned)]"),
    ("n=${{ params.x }}; echo ${HOME:n}", "a[$(touch pwned)]"),
    ("n=${{ params.x }}; let m=n || true", "a[$(touch pwned)]"),
    ("n=${{ params.x }}; declare -i m=n", "a[$(touch pwned)]"),
    ("n=${{ params.x }}; read \"$n\" <<<1 || true", "a[$(touch pwned)]"),
    ("n=${{ params.x }}; unset \"$n\" || true", "a[$(touch pwned)]"),
    ("n=${{ params.x }}; printf -v \"$n\" 1 || true", "a[$(touch pwned)]"),
    ("n=${{ params.x }}; test -v \"$n\" || true", "a[$(touch pwned)]"),
    ("n=${{ params.x }}; trap \"$n\" EXIT", "touch pwned"),
    ("n=${{ params.x }}; eval \"$n\"", "touch pwned"),
    ("n=${{ params.x }}; for((i=0;i<n;i++)); do break; done", "a[$(touch pwned)]"),
    ("n=${{ params.x }}; if(eval 'eval \"$n\"'); then :; fi", "touch pwned"),
    ("name=${{ params.x }}; echo $((na\\\nme))", "a[$(touch pwned)]"),
    ("n=${{ params.x }}; cat <<E\\\nOF\nEOF\neval \"$n\"\n", "touch pwned"),
    ("n=${{ params.x }}; a=([n]=1)", "a[$(touch pwned)]"),
    ("n=${{ params.x }}; c=let; $c n || true", "a[$(touch pwned)]"),
    ("n=${{ params.x }}; PS4='$((n))'; set -x; true", "a[$(touch pwned)]"),
    ("f=/dev/stdin; . \"$f\" <<<${{ params.x }}", "touch pwned"),
    ("bash </dev/null 00<<<${{ params.x }}", "touch pwned"),
    ("echo ${{ params.x }} >f; y=$(cat f); echo $((y))", "a[$(touch pwned)]"),
];

fn run_script(world: &World, script: &str, option: &str) -> CommandOutput {
    let script = serde_json::to_string(script).unwrap();
    let yaml = format!(
        "name: values\nparams:\n  - {{ name: x }}\n  - {{ name: n, type: number, default: 1 }}\nagents:\n  \
         a: {{ backend: mock, mock: [{{ say: done }}] }}\nsetup:\n  - {{ shell: {script}, as: out }}\n\
         kickoff: '@a ${{{{ out }}}}'\n"
    );
    let file = world.file("values.yaml", &yaml);
    world.run(&["run", file.to_str().unwrap(), option])
}

fn is_pwned(world: &World) -> bool {
    world.project().join("pwned").exists()
}

#[test]
fn a_file_in_which_a_value_would_be_code_is_refused_with_a_correction() {
    let world = World::new();
    for (script, value) in ATTACKS {
        let said = run_script(&world, script, &format!("--x={value}"));
        assert!(!is_pwned(&world), "{script}: {said:?}");
        assert_eq!(said.code, 2, "{script}: {said:?}");
        assert!(said.stderr.contains("a value cannot be"), "{script}: {said:?}");
        assert!(said.stderr.contains("help: "), "{script}: {said:?}");
    }
}

#[test]
fn a_hostile_value_arrives_as_text_where_the_file_is_accepted() {
    let world = World::new();
    let script = "v=${{ params.x }}\nf() { printf '%s|' \"$1\" \"$v\" ${{ params.x }}; }\n\
                  { f \"$v\"; cat <<EOF; case $v in *) [ \"$v\" = b ] || echo ok;; esac; } >seen\n\
                  ${{ params.x }}\nEOF\n";
    let value = "-v a[$(touch pwned)] `touch pwned`; touch pwned";
    let said = run_script(&world, script, &format!("--x={value}"));
    assert_eq!(said.code, 0, "{said:?}");
    assert!(!is_pwned(&world));
    let seen = std::fs::read_to_string(world.project().join("seen")).unwrap();
    assert_eq!(seen, format!("{value}|{value}|{value}|{value}\nok\n"));
}

#[test]
fn a_command_that_writes_to_its_own_script_runs_nothing_of_it() {
    let world = World::new();
    let code = "\n".repeat(600) + "touch pwned\n";
    let script = "printf '%s' ${{ params.x }} >/proc/self/fd/255 || true\n/bin/true\n/bin/true";
    let said = run_script(&world, script, &format!("--x={code}"));
    assert!(!is_pwned(&world), "{said:?}");
}

#[test]
fn a_number_may_be_code_and_other_text_is_no_number() {
    let world = World::new();
    let script = "n=$((${{ params.n }} * 2)); [[ ${{ params.n }} -gt 1 ]]; echo $n";
    let said = run_script(&world, script, "--n=21");
    assert_eq!(said.code, 0, "{said:?}");
    let said = run_script(&world, script, "--n=a[$(touch pwned)]");
    assert_ne!(said.code, 0, "{said:?}");
    assert!(said.stderr.contains("the value of `params.n` must be a number"), "{said:?}");
    assert!(!is_pwned(&world));
}
