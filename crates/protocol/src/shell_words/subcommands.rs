//! Programs with subcommands, and the subcommands that run another command.

use super::options::OptionTable;

/// A program with subcommands, and options before the subcommand.
#[derive(Debug)]
pub struct SubcommandProgram {
    /// Name of the program.
    pub name: &'static str,
    /// Options before the subcommand that take a value.
    pub options: OptionTable,
    /// Subcommands that run a command, which is one of their arguments: `exec` of `docker`.
    pub runners: &'static [&'static str],
}

const fn program(
    name: &'static str,
    short: &'static str,
    long: &'static [&'static str],
    runners: &'static [&'static str],
) -> SubcommandProgram {
    SubcommandProgram { name, options: OptionTable { short, long }, runners }
}

const CONTAINER_RUNNERS: &[&str] = &["compose", "container", "create", "exec", "run"];
const DOCKER_OPTIONS: &[&str] =
    &["--config", "--context", "--host", "--log-level", "--tlscacert", "--tlscert", "--tlskey"];
const GIT_OPTIONS: &[&str] =
    &["--attr-source", "--config-env", "--git-dir", "--namespace", "--super-prefix", "--work-tree"];
/// `config` sets a command that a later call runs.
const GIT_RUNNERS: &[&str] = &[
    "archive",
    "bisect",
    "clone",
    "config",
    "difftool",
    "fetch",
    "filter-branch",
    "for-each-repo",
    "grep",
    "ls-remote",
    "mergetool",
    "rebase",
    "submodule",
];
const KUBECTL_OPTIONS: &[&str] = &[
    "--as",
    "--as-group",
    "--cache-dir",
    "--certificate-authority",
    "--cluster",
    "--context",
    "--kubeconfig",
    "--namespace",
    "--request-timeout",
    "--server",
    "--token",
    "--user",
];

static SUBCOMMAND_PROGRAMS: [SubcommandProgram; 21] = [
    program("asdf", "", &[], &["exec"]),
    program("bundle", "", &[], &["exec"]),
    program("conda", "", &[], &["run"]),
    program("docker", "DHcl", DOCKER_OPTIONS, CONTAINER_RUNNERS),
    program("gh", "R", &["--hostname", "--repo"], &["alias", "codespace"]),
    program("git", "Cc", GIT_OPTIONS, GIT_RUNNERS),
    program("hatch", "", &[], &["run"]),
    program("kubectl", "ns", KUBECTL_OPTIONS, &["debug", "exec", "run"]),
    program("mise", "CE", &["--cd", "--env"], &["exec", "x"]),
    program("nix", "", &[], &["develop", "run", "shell"]),
    program("npm", "", &["--prefix"], &["exec", "explore", "x"]),
    program("pdm", "", &[], &["run"]),
    program("pipenv", "", &[], &["run"]),
    program("pnpm", "C", &["--dir", "--filter"], &["dlx", "exec"]),
    program("podman", "", &["--connection", "--url"], CONTAINER_RUNNERS),
    program("poetry", "C", &["--directory", "--project"], &["run"]),
    program("pyenv", "", &[], &["exec"]),
    program("rbenv", "", &[], &["exec"]),
    program("rye", "", &[], &["run"]),
    program("uv", "", &["--directory", "--project"], &["run", "tool"]),
    program("yarn", "", &["--cwd"], &["dlx", "exec"]),
];

/// Returns the program with subcommands that has this name.
pub fn subcommand_program(name: &str) -> Option<&'static SubcommandProgram> {
    SUBCOMMAND_PROGRAMS.iter().find(|program| program.name == name)
}

impl SubcommandProgram {
    /// Returns the place after a subcommand that runs a command; none if the subcommand runs none.
    pub fn runner_end(&self, arguments: &[&str]) -> Option<usize> {
        let at = self.options.leading_words(arguments);
        let is_runner = arguments.get(at).is_some_and(|word| self.runners.contains(word));
        is_runner.then_some(at + 1)
    }
}
