//! The target of a command: the same arguments and the same default for every command that takes one.
//!
//! A command without a target acts as if the target that `use` selected had been typed. Only commands that delete
//! require a typed target: `rm`, `agent end`, and `dead drop` without a number.

use agent_worker_protocol::Target;

use crate::{
    client::daemon_client::ScopeReach,
    error::{CliError, CliErrorKind},
    input::{argument_values, context::CommandContext},
    output::console::Console,
};

/// The help of the target of a list.
pub(crate) const LIST_TARGET_HELP: &str = "Target: `agent`, `agent@workflow:tag` or `@workflow:tag` \
     [default: the target selected with `use`, else all of this folder]";

/// The target of a command, as an argument or as an option.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TargetArgs {
    /// Target: `agent`, `agent@workflow:tag` or `@workflow:tag` [default: the target selected with `use`, else the only run of this folder]
    #[arg(value_name = "TARGET")]
    target: Option<Target>,
    /// Same as TARGET
    #[arg(long = "target", visible_alias = "to", short = 't', value_name = "TARGET")]
    target_option: Option<Target>,
}

/// The effect of a command; decides what is printed about a selected target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TargetEffect {
    /// Reads one agent or run.
    Read,
    /// Lists; the selection leaves out the rest.
    List,
    /// Changes an agent, a run or an instance.
    Change,
}

/// An optional argument before the target, which the target may replace: `proposals 3 @review`, `proposals @review`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ArgOrTarget<T> {
    Arg(T),
    Target(Target),
}

impl TargetArgs {
    /// Returns the typed target.
    pub(crate) fn typed(self) -> Result<Option<Target>, CliError> {
        same_target(self.target, self.target_option)
    }

    /// Returns the typed target of a command that requires one; `example` is a complete command.
    pub(crate) fn required(self, example: &str) -> Result<Target, CliError> {
        self.typed()?.ok_or_else(|| {
            CliError::new(CliErrorKind::Usage, "this command needs a target")
                .with_hint(format!("name it: {example}"))
        })
    }

    /// Returns the typed target, else the one that `use` selected.
    pub(crate) fn or_selected(
        self,
        effect: TargetEffect,
        ctx: &mut CommandContext<'_>,
    ) -> Result<Option<Target>, CliError> {
        match self.typed()? {
            Some(target) => Ok(Some(target)),
            None => ctx.selected_target(effect),
        }
    }

    /// Returns the target of a list: the typed one, else the one that `use` selected; a list of every folder ignores the
    /// selection.
    pub(crate) fn for_list(
        self,
        reach: ScopeReach,
        ctx: &mut CommandContext<'_>,
    ) -> Result<Option<Target>, CliError> {
        match reach {
            ScopeReach::CurrentProject => self.or_selected(TargetEffect::List, ctx),
            ScopeReach::AllProjects => self.typed(),
        }
    }

    /// Separates the text from the target. A text that is only a target, such as `coder@review`, is the target if no
    /// other one is given; then the text is missing.
    pub(crate) fn split_text(self, text: Option<String>) -> (Option<String>, Self) {
        if self.target.is_some() || self.target_option.is_some() {
            return (text, self);
        }
        match text.as_deref().and_then(parse_bare_target) {
            Some(target) => (None, Self { target: Some(target), ..self }),
            None => (text, self),
        }
    }

    /// Returns the text, or that of stdin if the argument is only a target. `what` is the missing thing, such as
    /// `answer`, and `command` the command line before it.
    pub(crate) fn split_required_text(
        self,
        text: String,
        what: &str,
        command: &str,
        console: &mut Console,
    ) -> Result<(String, Self), CliError> {
        let (text, target) = self.split_text(Some(text));
        let text = match (text, &target.target) {
            (Some(text), _) => argument_values::read_text(text)?,
            (None, Some(bare)) => argument_values::read_piped_text(what, console)?
                .ok_or_else(|| target_without_text_error(bare, what, command))?,
            (None, None) => String::new(),
        };
        Ok((text, target))
    }

    /// Separates the first argument from the target.
    pub(crate) fn split<T>(
        self,
        first: Option<ArgOrTarget<T>>,
    ) -> Result<(Option<T>, Self), CliError> {
        match (first, self.target) {
            (Some(ArgOrTarget::Target(first)), None) => {
                Ok((None, Self { target: Some(first), ..self }))
            }
            (Some(ArgOrTarget::Target(first)), Some(second)) => Err(CliError::new(
                CliErrorKind::Usage,
                format!("two targets are given, `{first}` and `{second}`"),
            )
            .with_hint("the target is the last argument")),
            (Some(ArgOrTarget::Arg(arg)), target) => Ok((Some(arg), Self { target, ..self })),
            (None, target) => Ok((None, Self { target, ..self })),
        }
    }
}

/// Returns the target that a text consists of: `@review`, `coder@review`. A name alone is a text.
pub(crate) fn parse_bare_target(text: &str) -> Option<Target> {
    text.parse::<Target>().ok().filter(|target| target.workflow.is_some())
}

/// Returns the error for a command whose only text is a target; the hint names both meanings.
pub(crate) fn target_without_text_error(bare: &Target, what: &str, command: &str) -> CliError {
    let article = if what.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    CliError::new(CliErrorKind::Usage, format!("`{bare}` is a target without {article} {what}"))
        .with_hint(format!(
            "add the {what}: agent-worker {command} \"…\" --target {bare}; if `{bare}` is the {what}, name the target with --target"
        ))
}

/// Returns the target of an argument and an option, which must not differ.
pub(crate) fn same_target<T: PartialEq + std::fmt::Display>(
    argument: Option<T>,
    option: Option<T>,
) -> Result<Option<T>, CliError> {
    match (argument, option) {
        (Some(one), Some(other)) if one != other => Err(CliError::new(
            CliErrorKind::Usage,
            format!("two targets are given, `{one}` and `{other}`"),
        )
        .with_hint("give the target once: as an argument or with --target")),
        (argument, option) => Ok(argument.or(option)),
    }
}

/// Parses an optional argument, else a target.
pub(crate) fn parse_arg_or_target<T: 'static>(
    parse: fn(&str) -> Result<T, String>,
) -> impl Fn(&str) -> Result<ArgOrTarget<T>, String> + Clone + Send + Sync {
    move |text| match (parse(text), text.parse()) {
        (Ok(arg), _) => Ok(ArgOrTarget::Arg(arg)),
        (Err(_), Ok(target)) => Ok(ArgOrTarget::Target(target)),
        (Err(why), Err(_)) => Err(why),
    }
}

/// Parses an optional file or revision; a text with a leading `@` is a target.
pub(crate) fn parse_text_or_target<T: 'static>(
    parse: fn(&str) -> Result<T, String>,
) -> impl Fn(&str) -> Result<ArgOrTarget<T>, String> + Clone + Send + Sync {
    move |text| match text.starts_with('@').then(|| text.parse()) {
        Some(Ok(target)) => Ok(ArgOrTarget::Target(target)),
        Some(Err(_)) | None => parse(text).map(ArgOrTarget::Arg),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(target: Option<&str>, option: Option<&str>) -> TargetArgs {
        let parse = |text: Option<&str>| text.map(|text| text.parse().unwrap());
        TargetArgs { target: parse(target), target_option: parse(option) }
    }

    #[test]
    fn an_argument_and_an_option_that_differ_are_refused() {
        for (target, option, expected) in [
            (None, None, Ok(None)),
            (Some("@a"), None, Ok(Some("@a"))),
            (None, Some("@a"), Ok(Some("@a"))),
            (Some("@a"), Some("@a"), Ok(Some("@a"))),
            (Some("@a"), Some("@b"), Err("two targets are given, `@a` and `@b`")),
        ] {
            let typed = args(target, option).typed();
            let typed = typed.map(|target| target.map(|target| target.to_string()));
            let typed = typed.map_err(|error| error.to_report_error().message);
            let expected = expected.map(|target: Option<&str>| target.map(str::to_owned));
            assert_eq!(typed, expected.map_err(str::to_owned));
        }
    }

    #[test]
    fn a_text_that_is_only_a_target_is_the_target_unless_another_one_is_given() {
        for (text, target, option, expected) in [
            ("@a", None, None, (None, Some("@a"))),
            ("coder@a:b", None, None, (None, Some("coder@a:b"))),
            ("me@example.com", None, None, (None, Some("me@example.com"))),
            ("@a", Some("@b"), None, (Some("@a"), Some("@b"))),
            ("@a", None, Some("@b"), (Some("@a"), Some("@b"))),
            ("blue", None, None, (Some("blue"), None)),
            ("@a please", None, None, (Some("@a please"), None)),
        ] {
            let (left, rest) = args(target, option).split_text(Some(text.to_owned()));
            let rest = rest.typed().unwrap().map(|target| target.to_string());
            assert_eq!((left.as_deref(), rest.as_deref()), expected, "{text}");
        }
    }

    #[test]
    fn a_target_may_take_the_place_of_the_argument_before_it() {
        let parse = parse_arg_or_target(|text| text.parse::<u32>().map_err(|bad| bad.to_string()));
        let split = |first: &str, target| {
            let (number, rest) = args(target, None).split(Some(parse(first).unwrap())).ok()?;
            Some((number, rest.typed().unwrap().map(|target| target.to_string())))
        };
        assert_eq!(split("3", None), Some((Some(3), None)));
        assert_eq!(split("3", Some("@a")), Some((Some(3), Some("@a".into()))));
        assert_eq!(split("@a", None), Some((None, Some("@a".into()))));
        assert_eq!(split("@a", Some("@b")), None);
        let parse = parse_text_or_target(|text| Ok(text.to_owned()));
        assert_eq!(parse("notes.md"), Ok(ArgOrTarget::Arg("notes.md".to_owned())));
        assert_eq!(parse("@team"), Ok(ArgOrTarget::Target("@team".parse().unwrap())));
    }
}
