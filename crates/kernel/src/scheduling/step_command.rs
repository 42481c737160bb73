//! Shell commands of setup steps and tasks: their values, their environment, and the description of a failure.

use agent_worker_workflow::{SetupStep, TemplateScope};

use crate::{
    kernel::{Kernel, RunContext},
    scheduling::runner::{ShellCommand, ShellOutcome},
};

/// Maximum size of a failing command's error output that is shown.
const MAX_STDERR_BYTES: usize = 2000;
/// Length of the shortest value that is hidden in error output: a shorter one occurs in ordinary words.
const MIN_REDACTED_BYTES: usize = 4;

/// Values of the variables that only one command gets. Its error output is stored without them.
#[derive(Clone, Default)]
pub(crate) struct StepSecrets(Vec<(String, String)>);

impl StepSecrets {
    /// Replaces the values by the names of their variables.
    pub(crate) fn redact(&self, text: &str) -> String {
        redact(text, &self.0)
    }
}

impl Kernel {
    /// Prepares the command of a step with its values.
    pub(crate) async fn step_command(
        &self,
        run_context: &RunContext,
        step: &SetupStep,
        scope: &TemplateScope,
    ) -> Result<(ShellCommand, StepSecrets), String> {
        let prepared = step.shell.prepare(scope).map_err(|error| error.summary())?;
        let env = self.runner.run_env(run_context.run).await;
        let env = env.map_err(|error| format!("cannot read the run's environment: {error}"))?;
        let env = run_context.script.workflow.setup_env(step, env, scope);
        let env = env.map_err(|error| error.summary())?;
        let secrets = step
            .env_with_values()
            .filter_map(|name| Some((name.to_owned(), env.get(name)?.clone())))
            .collect();
        let (program, options) = step.interpreter();
        let command = ShellCommand {
            run: run_context.run,
            prepared,
            program: run_context.setup_program(program),
            options: options.iter().map(|option| (*option).to_owned()).collect(),
            cwd: run_context.setup_cwd(step),
            env,
        };
        Ok((command, StepSecrets(secrets)))
    }
}

/// Describes the failure of a command. Its error output is stored, so values of its `env:` do not appear in it.
pub(crate) fn failure_text(command: &str, end: &ShellOutcome, secrets: &StepSecrets) -> String {
    let how = match end.status {
        Some(status) => format!("ended with status {status}"),
        None => "was killed by a signal".to_owned(),
    };
    let stderr = secrets.redact(&end.stderr);
    let from = stderr.ceil_char_boundary(stderr.len().saturating_sub(MAX_STDERR_BYTES));
    let printed = stderr[from..].trim();
    let printed =
        if printed.is_empty() { "it printed no error".to_owned() } else { printed.to_owned() };
    format!("{command} {how}: {printed}")
}

/// Replaces the values of variables, and the lines of a value, by the names of the variables. The runner keeps only the
/// end of a long output, which may start within a value.
fn redact(text: &str, secrets: &[(String, String)]) -> String {
    let mut hidden: Vec<(&str, &str)> = secrets
        .iter()
        .flat_map(|(name, value)| {
            value.lines().chain([value.as_str()]).map(move |part| (part.trim(), name.as_str()))
        })
        .filter(|(part, _)| part.len() >= MIN_REDACTED_BYTES)
        .collect();
    hidden.sort_by_key(|(part, _)| std::cmp::Reverse(part.len()));
    hidden.dedup();
    let is_long = text.len() > MAX_STDERR_BYTES;
    let cut = hidden.iter().filter(|_| is_long).filter_map(|(part, name)| {
        let tails = part.char_indices().skip(1).map(|(at, _)| &part[at..]);
        let mut tails = tails.take_while(|tail| tail.len() >= MIN_REDACTED_BYTES);
        Some((tails.find(|tail| text.starts_with(tail))?.len(), *name))
    });
    let mut redacted = match cut.max() {
        Some((bytes, name)) => format!("[{name}]{}", &text[bytes..]),
        None => text.to_owned(),
    };
    for (part, name) in hidden {
        redacted = redacted.replace(part, &format!("[{name}]"));
    }
    redacted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_command_contains_no_value_of_its_env() {
        let secrets = [
            ("TOKEN", "hunter2-hunter2"),
            ("KEY", "-----BEGIN-----\nabcdef\n"),
            ("SHORT", "a"),
            ("PREFIX", "hunter2"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        for (stderr, expected) in [
            ("bad hunter2-hunter2!", "bad [TOKEN]!"),
            ("bad hunter2", "bad [PREFIX]"),
            ("abcdef is no key", "[KEY] is no key"),
            ("a bad value", "a bad value"),
            ("ter2-hunter2 was refused", "ter2-[PREFIX] was refused"),
            ("fine", "fine"),
        ] {
            assert_eq!(redact(stderr, &secrets), expected, "{stderr}");
        }
        let rest = "x".repeat(MAX_STDERR_BYTES);
        assert_eq!(redact(&format!("ter2-hunter2{rest}"), &secrets), format!("[TOKEN]{rest}"));
        let long =
            format!("{}hunter2-hunter2{}", "x".repeat(500), "y".repeat(MAX_STDERR_BYTES - 5));
        let end = ShellOutcome { status: Some(1), stdout: Vec::new(), stderr: long };
        let text = failure_text("the command", &end, &StepSecrets(secrets.to_vec()));
        assert!(!text.contains("unter2"), "{text}");
    }
}
