//! Expressions in the texts of tasks: everything between `${{` and `}}` that is not a plain name of the workflow.
//!
//! An expression is a [`Reference`] like every other, so its result is placed in a message or in a script as the value
//! of a name is. Every name in it is checked when the file is read.

use agent_worker_expressions::{Expression, ExpressionForm, NameMention, TextPiece, split_text};

use super::{
    FlawedReference, OPEN, Piece,
    reference::{KnownNames, Reference, ReferenceFlaw, ReferenceForm, TaskFact, parse_reference},
};
use crate::diagnostics::spelling::nearest;

/// Names whose members are values, and not members of a value.
const PREFIXES: [&str; 4] = ["env", "params", "workflow", "context"];
/// Names with a meaning that no task of this version gives them.
const LATER_NAMES: [&str; 2] = ["run", "event"];
const MAX_CANDIDATES: usize = 20;

/// Splits a text at its expressions.
pub(crate) fn split(text: &str) -> (Vec<Piece<'_>>, Vec<FlawedReference>) {
    let (pieces, flaws) = split_text(text);
    let pieces = pieces.into_iter().map(|piece| match piece {
        TextPiece::Literal(text) => Piece::Text(text),
        TextPiece::Expression { source, nth, .. } => Piece::Reference { inner: source, nth },
    });
    let flawed = |flaw: agent_worker_expressions::ExpressionFlaw| {
        let opens = text.match_indices(OPEN).map(|(at, _)| at);
        let before: Vec<usize> = opens.take_while(|at| *at <= flaw.offset).collect();
        let inside = before.last().map_or(0, |open| open + OPEN.len());
        let blank = text.get(inside..).map_or(0, |rest| rest.len() - rest.trim_start().len());
        let offset = flaw.offset.checked_sub(inside + blank);
        let flaw = ReferenceFlaw { message: flaw.message, hint: flaw.hint, offset };
        FlawedReference { nth: before.len().saturating_sub(1), flaw }
    };
    (pieces.collect(), flaws.into_iter().map(flawed).collect())
}

/// Parses the content of `${{ … }}`: an expression only where the text may have one.
pub(crate) fn parse(
    inner: &str,
    known: &KnownNames,
) -> Result<(Reference, ReferenceForm), ReferenceFlaw> {
    if !known.owner.has_expressions() {
        return parse_reference(inner);
    }
    let inner = inner.trim();
    if let Some(argument) = inner.strip_prefix("int(").and_then(|rest| rest.strip_suffix(')'))
        && let Ok(argument) = parse_expression(argument.trim())
    {
        return Ok((reference(argument)?, ReferenceForm::Integer));
    }
    let expression = parse_expression(inner)?;
    if let ExpressionForm::File(parts) = expression.form() {
        let value = parse_expression(&parts.join("."))?;
        return Ok((reference(value)?, ReferenceForm::File));
    }
    Ok((reference(expression)?, ReferenceForm::Value))
}

/// Parses the value of a key that takes an expression.
pub(crate) fn parse_condition(
    source: &str,
    known: &KnownNames,
) -> Result<Expression, ReferenceFlaw> {
    let expression = parse_expression(source)?;
    // A plain name is checked as a name, for the same messages.
    reference(expression.clone())?.check(known)?;
    Ok(expression)
}

/// Parses what a reference was stored as.
pub(super) fn parse_stored(text: &str) -> Result<Reference, ReferenceFlaw> {
    match reference(parse_expression(text)?)? {
        // The item of a loop is stored in another way.
        Reference::Item | Reference::ItemIndex => text.parse(),
        reference => Ok(reference),
    }
}

pub(crate) fn parse_expression(source: &str) -> Result<Expression, ReferenceFlaw> {
    Expression::parse(source).map_err(|flaw| ReferenceFlaw {
        message: flaw.message,
        hint: flaw.hint,
        offset: Some(flaw.offset),
    })
}

/// Returns the reference of a plain name, or the expression.
pub(crate) fn reference(expression: Expression) -> Result<Reference, ReferenceFlaw> {
    let ExpressionForm::Name(parts) = expression.form() else {
        return Ok(Reference::Expression(expression));
    };
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    match parts.as_slice() {
        ["tasks"] | ["tasks", _] | ["tasks", _, _] => task_reference(&parts),
        ["item"] => Ok(Reference::Item),
        ["index"] => Ok(Reference::ItemIndex),
        [_] => expression.source().trim().parse(),
        [first, _] if PREFIXES.contains(first) => expression.source().trim().parse(),
        _ => Ok(Reference::Expression(expression)),
    }
}

fn task_reference(parts: &[&str]) -> Result<Reference, ReferenceFlaw> {
    let facts = || TaskFact::ALL.map(TaskFact::as_str);
    match parts {
        [_, name, fact, ..] => {
            if let Some(found) = TaskFact::ALL.iter().find(|one| one.as_str() == *fact) {
                return Ok(Reference::Task { name: (*name).to_owned(), fact: *found });
            }
            let flaw = ReferenceFlaw::new(format!("a task has no `{fact}`"));
            Err(match nearest(fact, facts()) {
                Some(near) => flaw.with_hint(format!("did you mean `tasks.{name}.{near}`?")),
                None => flaw.with_hint(format!("a task has {}", facts().join(", "))),
            })
        }
        [_, name] => Err(ReferenceFlaw::new(format!("`tasks.{name}` needs a member"))
            .with_hint(format!("such as `tasks.{name}.output`"))),
        _ => Err(ReferenceFlaw::new("`tasks` needs the name of a task, written out")
            .with_hint("such as `tasks.build.state`")),
    }
}

/// Returns the value that a mention stands for; an error if no value can have this name.
pub(super) fn mentioned(mention: &NameMention) -> Result<Reference, ReferenceFlaw> {
    let parts: Vec<&str> = mention.path.iter().map(String::as_str).collect();
    match parts.as_slice() {
        ["tasks", ..] => task_reference(&parts),
        [prefix @ ("env" | "params"), name, ..] => format!("{prefix}.{name}").parse(),
        [prefix @ ("env" | "params")] => {
            Err(ReferenceFlaw::new(format!("`{prefix}` needs a name, written out"))
                .with_hint(format!("such as `{prefix}.NAME`")))
        }
        [prefix @ ("workflow" | "context"), rest @ ..] => {
            let rest = rest.first().map_or(String::new(), |name| format!(".{name}"));
            format!("{prefix}{rest}").parse()
        }
        ["item", ..] => Ok(Reference::Item),
        ["index", ..] => Ok(Reference::ItemIndex),
        [name, ..] if LATER_NAMES.contains(name) => {
            Err(ReferenceFlaw::new(format!("`{name}` has no value in this version")))
        }
        [name, ..] => name.parse(),
        [] => Err(ReferenceFlaw::new("there is no name")),
    }
}

/// Returns the names of the environment variables that an expression reads.
pub(crate) fn env_names(expression: &Expression) -> impl Iterator<Item = &str> {
    env_mentions(expression).map(|(name, _)| name)
}

/// Does the same, with the places in the expression.
pub(crate) fn env_mentions(expression: &Expression) -> impl Iterator<Item = (&str, usize)> {
    expression.mentions().iter().filter_map(|mention| match mention.path.as_slice() {
        [first, name, ..] if first == "env" => Some((name.as_str(), mention.offset)),
        _ => None,
    })
}

/// Returns the values that an expression may read. A name that the expression declares itself is not among them.
pub(crate) fn references(expression: &Expression) -> impl Iterator<Item = Reference> {
    expression.mentions().iter().filter_map(|mention| mentioned(mention).ok())
}

/// Returns the values that a reference needs, with their places in it. A name that the expression declares itself is
/// not among them.
pub(super) fn values(reference: &Reference) -> Vec<(Reference, Option<usize>)> {
    let Reference::Expression(expression) = reference else {
        return vec![(reference.clone(), None)];
    };
    condition_values(expression).map(|(value, offset)| (value, Some(offset))).collect()
}

/// Does the same for an expression.
pub(crate) fn condition_values(
    expression: &Expression,
) -> impl Iterator<Item = (Reference, usize)> {
    let mentions = expression.mentions().iter().filter(|mention| !mention.is_local);
    mentions.filter_map(|mention| Some((mentioned(mention).ok()?, mention.offset)))
}

/// Refuses an expression with a name that has no value.
pub(super) fn check(expression: &Expression, known: &KnownNames) -> Result<(), ReferenceFlaw> {
    for mention in expression.mentions() {
        let checked = mentioned(mention).and_then(|reference| reference.check(known));
        if let Err(flaw) = checked
            && (!mention.is_local || is_value(mention, known))
        {
            return Err(ReferenceFlaw { offset: Some(mention.offset), ..flaw });
        }
    }
    Ok(())
}

/// Returns true if a mention of a name that the expression declares could also be a value of the workflow.
fn is_value(mention: &NameMention, known: &KnownNames) -> bool {
    mention.path.first().is_some_and(|name| {
        known.all_outputs.contains(name) || name == "tasks" || PREFIXES.contains(&name.as_str())
    })
}

pub(super) fn unknown_task(name: &str, known: &KnownNames) -> ReferenceFlaw {
    let flaw = ReferenceFlaw::new(format!("there is no task `{name}`"));
    match nearest(name, known.tasks.iter().map(String::as_str)) {
        Some(near) => flaw.with_hint(format!("did you mean `{near}`?")),
        None if known.tasks.is_empty() => flaw.with_hint("no task of this file has a `name:`"),
        None => {
            let names: Vec<&str> =
                known.tasks.iter().map(String::as_str).take(MAX_CANDIDATES).collect();
            flaw.with_hint(format!("the tasks are called: {}", names.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::reference::TextOwner;

    #[test]
    fn a_plain_name_is_a_reference_and_everything_else_an_expression() {
        let known = KnownNames { owner: TextOwner::Task, ..KnownNames::default() };
        for (source, shown, form) in [
            ("x", "name x", ReferenceForm::Value),
            ("x.file", "name x", ReferenceForm::File),
            ("int(x)", "name x", ReferenceForm::Integer),
            ("int(x) + int(y)", "expression int(x) + int(y)", ReferenceForm::Value),
            ("int(x + 1)", "expression x + 1", ReferenceForm::Integer),
            ("x.y", "expression x.y", ReferenceForm::Value),
            ("x.y.file", "expression x.y", ReferenceForm::File),
            ("params.n", "name params.n", ReferenceForm::Value),
            ("params.n.file", "name params.n", ReferenceForm::File),
            ("params.n.length", "expression params.n.length", ReferenceForm::Value),
            ("env.CI", "name env.CI", ReferenceForm::Value),
            ("instance", "name workflow.tag", ReferenceForm::Value),
            ("tasks.build.exit_code", "name tasks.build.exit_code", ReferenceForm::Value),
            ("tasks.build.output.a", "expression tasks.build.output.a", ReferenceForm::Value),
            ("'x'", "expression 'x'", ReferenceForm::Value),
        ] {
            let (reference, found) = parse(source, &known).unwrap();
            let kind = match &reference {
                Reference::Expression(_) => "expression",
                _ => "name",
            };
            assert_eq!(
                (format!("{kind} {reference}"), found),
                (shown.to_owned(), form),
                "{source}"
            );
            assert_eq!(parse_stored(&reference.to_string()).unwrap(), reference, "{source}");
        }
    }
}
