//! Variables with a meaning to the shell, the loader or common programs.

/// Variables that the shell sets or reads itself, and those that name programs and folders of programs. Some are
/// integers, and evaluate what is assigned to them.
const SPECIAL: [&str; 79] = [
    "CDPATH",
    "CHILD_MAX",
    "COLUMNS",
    "DIRSTACK",
    "EDITOR",
    "EMACS",
    "ENV",
    "EPOCHREALTIME",
    "EPOCHSECONDS",
    "EUID",
    "EXECIGNORE",
    "FCEDIT",
    "FIGNORE",
    "FPATH",
    "FUNCNAME",
    "FUNCNEST",
    "GLOBIGNORE",
    "GROUPS",
    "HISTCMD",
    "HISTCONTROL",
    "HISTFILE",
    "HISTFILESIZE",
    "HISTIGNORE",
    "HISTSIZE",
    "HISTTIMEFORMAT",
    "HOME",
    "HOSTFILE",
    "HOSTNAME",
    "HOSTTYPE",
    "IFS",
    "IGNOREEOF",
    "INPUTRC",
    "LINENO",
    "LINES",
    "MACHTYPE",
    "MAIL",
    "MAILCHECK",
    "MAILPATH",
    "MAPFILE",
    "NODE_OPTIONS",
    "OLDPWD",
    "OPTARG",
    "OPTERR",
    "OPTIND",
    "OSTYPE",
    "PAGER",
    "PATH",
    "PERL5LIB",
    "PERL5OPT",
    "PIPESTATUS",
    "POSIXLY_CORRECT",
    "PPID",
    "PROMPT_COMMAND",
    "PROMPT_DIRTRIM",
    "PS0",
    "PS1",
    "PS2",
    "PS3",
    "PS4",
    "PWD",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "RANDOM",
    "REPLY",
    "RUBYLIB",
    "RUBYOPT",
    "SECONDS",
    "SHELL",
    "SHELLOPTS",
    "SHLVL",
    "SRANDOM",
    "TIMEFORMAT",
    "TMOUT",
    "UID",
    "VISUAL",
    "auto_resume",
    "histchars",
    "_",
];

/// Beginnings of the names of such variables.
const SPECIAL_PREFIXES: [&str; 8] =
    ["AW_", "BASH", "COMP_", "COPROC", "DYLD_", "GIT_", "LD_", "READLINE_"];

/// Beginnings of the names of variables that are only text, although they are like special ones.
const TEXT_PREFIXES: [&str; 2] = ["GIT_AUTHOR_", "GIT_COMMITTER_"];

/// Variables that may hold a value without an assignment: the last argument, the line that `read` got, the folder.
const ALWAYS_TAINTED: [&str; 10] = [
    "_",
    "BASH_ARGV",
    "BASH_COMMAND",
    "BASH_REMATCH",
    "DIRSTACK",
    "FUNCNAME",
    "MAPFILE",
    "OLDPWD",
    "OPTARG",
    "REPLY",
];

/// Variables whose text the shell expands or runs.
const CODE: [&str; 8] = ["BASH_ENV", "ENV", "PROMPT_COMMAND", "PS0", "PS1", "PS2", "PS3", "PS4"];

/// Returns true for a variable to which a script may not assign a value.
pub(crate) fn is_special(name: &str) -> bool {
    let begins = |prefix: &&str| name.starts_with(*prefix);
    SPECIAL.contains(&name)
        || (SPECIAL_PREFIXES.iter().any(begins) && !TEXT_PREFIXES.iter().any(begins))
}

/// Returns true for a variable that may hold a value in every script.
pub(super) fn may_hold_value(name: &str) -> bool {
    ALWAYS_TAINTED.contains(&name) || name.starts_with("AW_")
}

/// Returns true for a variable whose text the shell runs, also a literal one.
pub(super) fn is_code(name: &str) -> bool {
    CODE.contains(&name)
}
