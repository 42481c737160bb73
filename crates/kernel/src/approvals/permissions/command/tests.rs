//! Tables of commands: those that `allow` accepts, and those that `deny` finds.

use super::*;

fn begins(start: &str) -> ArgumentPattern {
    ArgumentPattern::Prefix(start.to_owned())
}

#[test]
fn only_a_command_that_is_nothing_else_is_taken_at_its_word() {
    for (start, command, expected) in [
        ("git diff", "git diff", true),
        ("git diff", "git diff\t--stat 'a file'", true),
        ("git diff", "git difftool -x sh", false),
        ("git diff", "git diff-files", false),
        ("npm run test:", "npm run test:unit", true),
        ("./run-", "./run-tests", true),
        ("git diff", " git diff", false),
        ("git diff", "GIT_PAGER=sh git diff", false),
        ("git diff", "env git diff", false),
        ("git diff", "bash -c 'git diff'", false),
        ("git diff", "git diff; rm x", false),
        ("git diff", "git diff 'a;b'", false),
        ("git diff", "git diff\nrm x", false),
        ("git diff", "git diff \\\n rm x", false),
        ("git diff", "git diff & rm x", false),
        ("git diff", "git diff `rm x`", false),
        ("git diff", "git diff $(rm x)", false),
        ("git diff", "git diff ${IFS}", false),
        ("git diff", "git diff <(rm x)", false),
        ("git diff", "git diff > x", false),
        ("git diff", "Git Diff", false),
    ] {
        assert_eq!(covers(&begins(start), command), expected, "{start}*: {command}");
    }
    let exactly = ArgumentPattern::Exact("a; b".to_owned());
    assert!(covers(&exactly, "a; b") && !covers(&exactly, "a; b "));
}

/// Commands that run `rm`, in many spellings.
const RUNS_RM: &[&str] = &[
    "rm x",
    "rm",
    "  rm x",
    "/bin/rm x",
    "\\rm x",
    "'rm' x",
    "r\"\"m x",
    "r\\\nm x",
    "A=1 B+=2 rm x",
    "env -i A=1 rm x",
    "sudo -u root rm x",
    "bash -c 'rm x'",
    "sh -lc \"cd /; rm x\"",
    "ls | xargs -0 rm",
    "find . -name a -exec rm {} +",
    "if true; then rm x; fi",
    "while read a; do rm $a; done",
    "! rm x",
    "time rm x",
    "cd / && rm x",
    "true\nrm x",
    "echo $(rm x)",
    "echo `rm x`",
    "(rm x)",
    "sleep 1 & rm x",
    // Redirections and assignments.
    "2>/dev/null rm x",
    ">\"a b\" rm x",
    "2>&1 rm x",
    "&>x rm x",
    ">|x rm x",
    "<<<x rm x",
    "A=\"a b\" rm x",
    "A[0]=1 rm x",
    // Wrappers, with their options.
    "time -p rm x",
    "watch rm x",
    "watch -n5 'rm x'",
    "env -S 'rm x'",
    "env -S'rm x'",
    "env --split-string='rm x'",
    "env A='a b' rm x",
    "script -c'rm x'",
    "fish -c 'rm x'",
    "fish --command='rm x'",
    "flock f -c 'rm x'",
    "timeout 5 nice -n 5 rm x",
    "sudo sh -c \"sh -c 'rm x'\"",
    "ssh host rm x",
    "tmux new 'rm x'",
    "trap 'rm x' EXIT",
    "npx rm x",
    "busybox rm x",
    "echo \"$(rm x)\"",
    "rm${IFS}x",
    "$'rm' x",
    "echo 'rm x' | bash",
    "echo 'env rm x' | timeout 5 sh -s",
    "bash <<< 'rm x'",
    ". <(echo 'rm x')",
    "awk 'BEGIN{system(\"rm>f x\")}'",
    "git -c alias.x='!rm x' x",
    // Groups of short options, brace expansion and escapes.
    "env -vS\"rm x\"",
    "env -ivS 'rm x'",
    "{rm,-rf,x}",
    "{r,}m x",
    "bash -c '{rm,x}'",
    "$'\\x72m' x",
    "$'\\162\\u006d' x",
    // Subcommands and settings that run a command.
    "git bisect run rm x",
    "git rebase --exec \"rm x\"",
    "git rebase -x 'rm x' main",
    "git submodule foreach rm x",
    "git submodule foreach --recursive 'rm x'",
    "git -C . submodule foreach rm x",
    "git -c core.pager=\"rm x\" -p log",
    "git -ccore.pager='rm x' -p log",
    "git config core.pager 'rm x'",
    "git filter-branch --tree-filter 'rm x'",
    "git difftool -x 'rm x'",
    "git grep -O'rm x' a",
    "docker run --rm -it alpine rm x",
    "docker exec c rm x",
    "docker compose exec web rm x",
    "docker --context a run alpine rm x",
    "podman run alpine rm x",
    "kubectl exec p -- rm x",
    "kubectl -n a exec p -- rm x",
    "npm exec rm x",
    "npm x -- rm x",
    "npm exec -c 'rm x'",
    "pnpm exec rm x",
    "yarn exec rm x",
    "uv run rm x",
    "uv run -- rm x",
    "poetry run rm x",
    "pipenv run rm x",
    "bundle exec rm x",
    "mise exec -- rm x",
    "mise x -- rm x",
    "nix develop -c rm x",
    // Programs that read commands, and code that contains one.
    "echo rm x | at now",
    "echo 'rm x' | batch",
    "echo 'rm x' | sudo at now",
    "at now <<< 'rm x'",
    "echo rm x | xargs env",
    "echo rm x | xargs -I{} sh -c {}",
    "sed '1e rm x' a",
    "sed -n -e '$!e rm x' a",
    "sed 's/a/rm x/e' a",
    "sed 's/.*/rm x/;s/b/c/ge' a",
    "vim -c '!rm x'",
    "vim +'!rm x'",
    "vim -c ':silent !rm x' a",
    "ex -c '!rm x'",
    "nvim -c '!rm x'",
    "toybox rm x",
    "/lib64/ld-linux-x86-64.so.2 /bin/rm x",
    "/lib/ld-musl-x86_64.so.1 --library-path /lib /bin/rm x",
];

#[test]
fn what_is_denied_is_found_behind_what_people_put_before_it() {
    let missed: Vec<_> =
        RUNS_RM.iter().filter(|command| !may_match(&begins("rm "), command)).collect();
    assert!(missed.is_empty(), "{missed:#?}");
    for command in [
        "ls rm",
        "echo 'rm x'",
        "rmdir x",
        "git commit -m 'rm x'",
        "RM x",
        "a=rm",
        "echo 'rm x' | bash x.sh",
        "echo '{rm,x}'",
        "git log --grep 'rm x'",
        "git -c user.name='a b' commit -m 'rm x'",
        "docker build -t rm .",
        "npm install rm",
        "kubectl get pods rm",
        "uv add rm",
        "echo 'rm x' | xargs grep a",
        "sed 's/the rm x/b/' a",
        "sed -e '/rm x/d' a",
        "vim 'rm x'",
    ] {
        assert!(!may_match(&begins("rm "), command), "{command}");
    }
    assert!(may_match(&begins("rm"), "rmdir x"), "as it is written");
    for command in [
        "git -C . push",
        "git -c a=b push",
        "git --git-dir=x --no-pager push -f",
        "git --work-tree x push",
        "timeout 5 git -C . push",
        "/usr/bin/git -C . push",
        "2>x git -C 'a b' push",
        "git -c alias.p=push p",
    ] {
        assert!(may_match(&begins("git push"), command), "{command}");
    }
    for command in ["git --no-pager log push", "git -C push log", "git stash push"] {
        assert!(!may_match(&begins("git push"), command), "{command}");
    }
    assert!(may_match(&begins("npm publish"), "npm --prefix x --silent publish"));
    assert!(may_match(&begins("sudo rm"), "sudo -u root -n rm x"));
    assert!(may_match(&begins("git push"), "git  push --force"));
    assert!(may_match(&begins("git commit -m \"a"), "git commit -m 'a b'"));
    assert!(may_match(&ArgumentPattern::Exact("git push".to_owned()), "cd x; git 'push'"));
    assert!(!may_match(&ArgumentPattern::Exact("git push".to_owned()), "git push -f"));
}

#[test]
fn a_program_with_its_arguments_is_written_as_a_shell_reads_it() {
    for (words, expected) in [
        (&["git", "diff", "--stat"][..], "git diff --stat"),
        (&["/x/evil", "-lc", "git diff"], "/x/evil -lc 'git diff'"),
        (&["a", "it's", "", "$x"], "a 'it'\\''s' '' '$x'"),
    ] {
        assert_eq!(quoted_line(words), expected);
    }
}
