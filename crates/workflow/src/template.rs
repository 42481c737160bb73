//! Text with references `${{ name }}`. Interpolation is one pass: a value is never interpolated itself.
//!
//! `$${{` is the escape for the characters `${{`.

pub(crate) mod expression;
pub(crate) mod number;
pub(crate) mod reference;
pub(crate) mod scope;

use std::{convert::Infallible, ops::Range};

use agent_worker_protocol::{Tag, WorkflowName};
use serde::{Deserialize, Serialize};

use crate::{
    diagnostics::diagnostic::{Diagnostic, Diagnostics},
    error::Error,
    template::{
        reference::{KnownNames, Reference, ReferenceFlaw, ReferenceForm},
        scope::TemplateScope,
    },
};

pub(crate) const OPEN: &str = "${{";
const ESCAPED: &str = "$${{";
const CLOSE: &str = "}}";

/// Text with references `${{ name }}` to values; `$${{` is the escape for the characters themselves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Template {
    parts: Vec<TemplatePart>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum TemplatePart {
    Text(String),
    Value(Reference),
}

/// Result of an interpolation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rendered {
    /// Text with all values.
    pub text: String,
    /// Byte ranges that came from values; a mention in them wakes no agent.
    pub data: Vec<Range<usize>>,
}

/// Flaw of a reference, with the reference's index from 0 among the `${{` of the text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FlawedReference {
    pub(crate) nth: usize,
    pub(crate) flaw: ReferenceFlaw,
}

/// Part of a text as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    Text(&'a str),
    Reference { inner: &'a str, nth: usize },
}

/// Splits a text at its references; the text after an unclosed reference is not split.
pub(crate) fn split_references(text: &str) -> (Vec<Piece<'_>>, Option<FlawedReference>) {
    let mut pieces = Vec::new();
    let mut flawed = None;
    let mut rest = text;
    for nth in 0.. {
        let Some(open) = rest.find(OPEN) else { break };
        let (before, after) = (&rest[..open], &rest[open + OPEN.len()..]);
        if let Some(literal) = before.strip_suffix('$') {
            pieces.extend([Piece::Text(literal), Piece::Text(&ESCAPED[1..])]);
            rest = after;
            continue;
        }
        let close = after.find(CLOSE).filter(|close| !after[..*close].contains(OPEN));
        let Some(close) = close else {
            let flaw = ReferenceFlaw::new("this `${{` is never closed")
                .with_hint("close it with `}}`; for the characters themselves write `$${{`");
            flawed = Some(FlawedReference { nth, flaw });
            break;
        };
        pieces.extend([Piece::Text(before), Piece::Reference { inner: &after[..close], nth }]);
        rest = &after[close + CLOSE.len()..];
    }
    pieces.push(Piece::Text(rest));
    pieces.retain(|piece| *piece != Piece::Text(""));
    (pieces, flawed)
}

/// Locates flaws of the references of a value, which the file's `source` has at `whole`.
pub(crate) fn locate_flaws(
    whole: &Range<usize>,
    value: &str,
    source: &str,
    flaws: Vec<FlawedReference>,
) -> Vec<Diagnostic> {
    let places = ReferencePlaces::new(whole, value, source);
    let locate = |flawed: FlawedReference| {
        let at = places.flaw_range(&flawed, source);
        Diagnostic { at, message: flawed.flaw.message, hint: flawed.flaw.hint }
    };
    flaws.into_iter().map(locate).collect()
}

/// Places of the references of a value in the source of its file. YAML has no other usual way to write `${{`, so the nth
/// in the value is the nth in the source; if the counts differ, every reference has the place of the whole value.
pub(crate) struct ReferencePlaces {
    whole: Range<usize>,
    ranges: Vec<Range<usize>>,
}

impl ReferencePlaces {
    /// Finds the references of `value`, which the file's `source` has at `whole`.
    pub(crate) fn new(whole: &Range<usize>, value: &str, source: &str) -> Self {
        let written = source.get(whole.clone()).unwrap_or_default();
        let range = |(offset, _): (usize, &str)| {
            let close = written[offset..].find(CLOSE).map(|close| close + CLOSE.len());
            whole.start + offset..whole.start + offset + close.unwrap_or(OPEN.len())
        };
        let ranges: Vec<_> = written.match_indices(OPEN).map(range).collect();
        let is_same = ranges.len() == value.matches(OPEN).count();
        Self { whole: whole.clone(), ranges: if is_same { ranges } else { Vec::new() } }
    }

    /// Returns the place of the reference with this index, with its braces.
    pub(crate) fn range(&self, nth: usize) -> Range<usize> {
        self.ranges.get(nth).unwrap_or(&self.whole).clone()
    }

    /// Returns the place of a flaw: a byte of the reference's content if the file has the content as it is, else the
    /// reference.
    pub(crate) fn flaw_range(&self, flawed: &FlawedReference, source: &str) -> Range<usize> {
        let whole = self.range(flawed.nth);
        let exact = || {
            let offset = flawed.flaw.offset.filter(|_| self.ranges.len() > flawed.nth)?;
            let inside = source.get(whole.start + OPEN.len()..self.whole.end)?;
            let blank = inside.len() - inside.trim_start().len();
            let before = inside.get(..blank + offset)?;
            let is_literal = !before.contains(['\n', '\\']) && !before.contains("''");
            let start = whole.start + OPEN.len() + before.len();
            let end = whole.end.max(start + 1);
            is_literal.then_some(start..end)
        };
        exact().unwrap_or(whole)
    }
}

impl Template {
    /// Parses a text in which every reference must be known.
    pub(crate) fn read(text: &str, known: &KnownNames) -> Result<Self, Vec<FlawedReference>> {
        Self::read_checked(text, known, |reference| reference.check(known))
    }

    /// Parses the value of a variable of the environment, which may also be a secret.
    pub(crate) fn read_variable(
        text: &str,
        known: &KnownNames,
    ) -> Result<Self, Vec<FlawedReference>> {
        Self::read_checked(text, known, |reference| reference.check_known(known))
    }

    fn read_checked(
        text: &str,
        known: &KnownNames,
        check: impl Fn(&Reference) -> Result<(), ReferenceFlaw>,
    ) -> Result<Self, Vec<FlawedReference>> {
        let (pieces, unsplit) = split_pieces(text, known);
        let (mut parts, mut flaws) = (Vec::new(), Vec::new());
        for piece in pieces {
            match piece {
                Piece::Text(text) => parts.push(TemplatePart::Text(text.to_owned())),
                Piece::Reference { inner, nth } => match read_value_reference(inner, known, &check)
                {
                    Ok(reference) => parts.push(TemplatePart::Value(reference)),
                    Err(flaw) => flaws.push(FlawedReference { nth, flaw }),
                },
            }
            if flaws.len() > Diagnostics::MAX_REPORTED {
                break;
            }
        }
        flaws.extend(unsplit);
        if flaws.is_empty() { Ok(Self { parts }) } else { Err(flaws) }
    }

    /// Interpolates the values of a scope.
    pub fn render(&self, scope: &TemplateScope) -> Result<Rendered, Error> {
        self.render_with_lookup(|reference| scope.value(reference))
    }

    /// Interpolates the same text for every reference.
    pub(crate) fn render_with(&self, value: &str) -> Rendered {
        let rendered: Result<_, Infallible> = self.render_with_lookup(|_| Ok(value));
        let Ok(rendered) = rendered;
        rendered
    }

    /// Interpolates the name and the tag of an instance; the template has no other references.
    pub(crate) fn render_names(&self, name: &WorkflowName, tag: &Tag) -> String {
        let rendered: Result<_, Infallible> = self.render_with_lookup(|reference| {
            Ok(match reference {
                Reference::WorkflowName => name.as_str(),
                Reference::Tag => tag.as_str(),
                Reference::Output(_)
                | Reference::Param(_)
                | Reference::Env(_)
                | Reference::Task { .. }
                | Reference::Item
                | Reference::ItemIndex
                | Reference::Expression(_)
                | Reference::ChannelFile
                | Reference::DocumentFile => "",
            })
        });
        let Ok(rendered) = rendered;
        rendered.text
    }

    fn render_with_lookup<'v, E>(
        &self,
        value: impl Fn(&Reference) -> Result<&'v str, E>,
    ) -> Result<Rendered, E> {
        let mut rendered = Rendered::default();
        for part in &self.parts {
            match part {
                TemplatePart::Text(text) => rendered.text.push_str(text),
                TemplatePart::Value(reference) => {
                    let start = rendered.text.len();
                    rendered.text.push_str(value(reference)?);
                    rendered.data.push(start..rendered.text.len());
                }
            }
        }
        rendered.data.retain(|range| !range.is_empty());
        Ok(rendered)
    }

    /// Returns the references in the text.
    pub fn references(&self) -> impl Iterator<Item = &Reference> {
        self.parts.iter().filter_map(|part| match part {
            TemplatePart::Text(_) => None,
            TemplatePart::Value(reference) => Some(reference),
        })
    }
}

/// Returns the values that a text without flaws uses, with their places in the source of its file.
pub(crate) fn used_values(
    whole: &Range<usize>,
    text: &str,
    source: &str,
    known: &KnownNames,
) -> Vec<(Reference, Range<usize>)> {
    let places = ReferencePlaces::new(whole, text, source);
    let mut found = Vec::new();
    for piece in split_pieces(text, known).0 {
        let Piece::Reference { inner, nth } = piece else { continue };
        let Ok((reference, _)) = expression::parse(inner, known) else { continue };
        for (value, offset) in expression::values(&reference) {
            let flaw = ReferenceFlaw { offset, ..ReferenceFlaw::new("") };
            found.push((value, places.flaw_range(&FlawedReference { nth, flaw }, source)));
        }
    }
    found
}

/// Splits a text at its references, or at its expressions where a text may have them.
pub(crate) fn split_pieces<'t>(
    text: &'t str,
    known: &KnownNames,
) -> (Vec<Piece<'t>>, Vec<FlawedReference>) {
    if known.owner.has_expressions() {
        return expression::split(text);
    }
    let (pieces, unclosed) = split_references(text);
    (pieces, unclosed.into_iter().collect())
}

fn read_value_reference(
    inner: &str,
    known: &KnownNames,
    check: impl Fn(&Reference) -> Result<(), ReferenceFlaw>,
) -> Result<Reference, ReferenceFlaw> {
    let (reference, form) = expression::parse(inner, known)?;
    check(&reference)?;
    match form {
        ReferenceForm::Value => Ok(reference),
        ReferenceForm::File => {
            Err(ReferenceFlaw::new("`.file` is for commands: an agent cannot open that file")
                .with_hint(format!("write `${{{{ {reference} }}}}`")))
        }
        ReferenceForm::Integer | ReferenceForm::Number => {
            Err(ReferenceFlaw::new("`int( )` is for commands: a message is text")
                .with_hint(format!("write `${{{{ {reference} }}}}`")))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn known() -> KnownNames {
        KnownNames { outputs: ["x".into(), "y".into()].into(), ..KnownNames::default() }
    }

    fn render(text: &str, x: &str, y: &str) -> Rendered {
        let mut scope = TemplateScope::default();
        scope.insert_output("x", x);
        scope.insert_output("y", y);
        Template::read(text, &known()).unwrap().render(&scope).unwrap()
    }

    #[test]
    fn values_are_filled_in_once_and_known_as_data() {
        for (text, expected, data) in [
            ("plain", "plain", &[][..]),
            ("${{ x }}", "${{ y }}", &[(0, 8)]),
            ("a ${{x}}b", "a ${{ y }}b", &[(2, 10)]),
            ("${{ x }}${{ x }}", "${{ y }}${{ y }}", &[(0, 8), (8, 16)]),
            ("${{ y }}!", "!", &[]),
            ("$${{ x }}", "${{ x }}", &[]),
            ("$$${{ x }}", "$${{ x }}", &[]),
            ("$ ${{ x }}", "$ ${{ y }}", &[(2, 10)]),
            ("}} {{ x }} ${ x }", "}} {{ x }} ${ x }", &[]),
            ("é${{ x }}", "é${{ y }}", &[(2, 10)]),
        ] {
            let data = data.iter().map(|(start, end)| *start..*end).collect();
            let rendered = Rendered { text: expected.into(), data };
            assert_eq!(render(text, "${{ y }}", ""), rendered, "{text}");
        }
    }

    #[test]
    fn a_flaw_names_the_reference_that_has_it() {
        for (text, nth, part) in [
            ("${{ x", 0, "never closed"),
            ("${{ x }} ${{ y", 1, "never closed"),
            ("${{ x ${{ y }}", 0, "never closed"),
            ("$${{ ${{ z }}", 1, "unknown name `z`"),
            ("${{ x.file }}", 0, "`.file` is for commands"),
            ("${{ }}", 0, "no name"),
        ] {
            let flaws = Template::read(text, &known()).unwrap_err();
            assert_eq!((flaws.len(), flaws[0].nth), (1, nth), "{text}");
            assert!(flaws[0].flaw.message.contains(part), "{text}: {}", flaws[0].flaw);
        }
    }

    #[test]
    fn one_flaw_does_not_hide_the_next() {
        let flaws = Template::read("${{ a }} ${{ x }} ${{ b-c }} ${{ z", &known()).unwrap_err();
        assert_eq!(flaws.iter().map(|flawed| flawed.nth).collect::<Vec<_>>(), [0, 2, 3]);
    }

    #[test]
    fn a_value_that_is_not_there_is_an_error_that_names_it() {
        let template = Template::read("${{ x }}", &known()).unwrap();
        let error = template.render(&TemplateScope::default()).unwrap_err();
        assert_eq!(error.to_string(), "`x` has no value yet");
    }

    proptest! {
        #[test]
        fn text_without_references_is_unchanged(text in "[^{]*") {
            prop_assert_eq!(render(&text, "", "").text, text);
        }

        #[test]
        fn text_outside_the_data_is_the_template(a in "[^$]*", b in "[^$]*", x in any::<String>()) {
            let rendered = render(&format!("{a}${{{{ x }}}}{b}"), &x, "");
            prop_assert_eq!(&rendered.text, &format!("{a}{x}{b}"));
            let data: Vec<_> = rendered.data.iter().map(|range| &rendered.text[range.clone()]).collect();
            prop_assert_eq!(data.concat(), x);
        }

        #[test]
        fn escaping_every_opening_gives_the_text_back(text in "[a$ {}]{0,40}") {
            prop_assert_eq!(render(&text.replace(OPEN, ESCAPED), "", "").text, text);
        }
    }
}
