//! Text with expressions: `${{ … }}`. `$${{` is the escape for the characters `${{`.

use crate::{
    error::ExpressionFlaw,
    source::scanner::{TokenEnd, scan},
};

const OPEN: &str = "${{";
const CLOSE: &str = "}}";

/// Part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextPiece<'a> {
    /// Text as it is; an escape is already replaced.
    Literal(&'a str),
    /// Source of an expression, without the braces and the white space around it.
    Expression {
        /// Source of the expression.
        source: &'a str,
        /// Byte offset of the source in the text.
        offset: usize,
        /// Index from 0 among the `${{` of the text, with the escaped ones.
        nth: usize,
    },
}

/// Splits a text at its expressions. Offsets of the flaws are bytes of the text; after a flaw the split continues after
/// the next `}}`, so that all are found at once.
pub fn split_text(text: &str) -> (Vec<TextPiece<'_>>, Vec<ExpressionFlaw>) {
    let (mut pieces, mut flaws) = (Vec::new(), Vec::new());
    let mut from = 0;
    for nth in 0.. {
        let Some(open) = text[from..].find(OPEN).map(|at| from + at) else { break };
        let inside = open + OPEN.len();
        if let Some(literal) = text[from..open].strip_suffix('$') {
            pieces.extend([TextPiece::Literal(literal), TextPiece::Literal(OPEN)]);
            from = inside;
            continue;
        }
        pieces.push(TextPiece::Literal(&text[from..open]));
        let rest = &text[inside..];
        let close = match scan(rest) {
            Ok((_, TokenEnd::Close(close))) => close,
            Ok((_, TokenEnd::TextEnd)) => {
                flaws.push(unclosed(open));
                return (without_empty(pieces), flaws);
            }
            Err(error) => {
                let Some(close) = rest[error.offset..].find(CLOSE) else {
                    flaws.push(unclosed(open));
                    return (without_empty(pieces), flaws);
                };
                flaws.push(ExpressionFlaw::new(inside + error.offset, error.why));
                from = inside + error.offset + close + CLOSE.len();
                continue;
            }
        };
        let source = rest[..close].trim();
        let offset = inside + (rest.len() - rest.trim_start().len()).min(close);
        if source.is_empty() {
            let flaw = ExpressionFlaw::new(open, "there is no expression between `${{` and `}}`");
            flaws.push(flaw.with_hint("for the characters themselves write `$${{`"));
        } else {
            pieces.push(TextPiece::Expression { source, offset, nth });
        }
        from = inside + close + CLOSE.len();
    }
    pieces.push(TextPiece::Literal(&text[from..]));
    (without_empty(pieces), flaws)
}

fn unclosed(open: usize) -> ExpressionFlaw {
    ExpressionFlaw::new(open, "this `${{` is never closed")
        .with_hint("close it with `}}`; for the characters themselves write `$${{`")
}

fn without_empty(mut pieces: Vec<TextPiece<'_>>) -> Vec<TextPiece<'_>> {
    pieces.retain(|piece| *piece != TextPiece::Literal(""));
    pieces
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Shows expressions in `«»`.
    fn shown(text: &str) -> String {
        let (pieces, flaws) = split_text(text);
        assert_eq!(flaws, [], "{text}");
        let show = |piece: TextPiece<'_>| match piece {
            TextPiece::Literal(text) => text.to_owned(),
            TextPiece::Expression { source, offset, .. } => {
                assert_eq!(&text[offset..offset + source.len()], source, "{text}");
                format!("«{source}»")
            }
        };
        pieces.into_iter().map(show).collect()
    }

    #[test]
    fn an_expression_ends_at_the_braces_outside_of_its_own() {
        for (text, expected) in [
            ("plain", "plain"),
            ("a ${{ x }} b", "a «x» b"),
            ("${{x}}${{ y }}", "«x»«y»"),
            ("$${{ x }} ${{ y }}", "${{ x }} «y»"),
            ("$$${{ x }}", "$${{ x }}"),
            ("${{ {a: {b: 1}} }}!", "«{a: {b: 1}}»!"),
            ("${{ {a: {b: 1}}}}!", "«{a: {b: 1}}»!"),
            ("${{ x == '}}' }}!", "«x == '}}'»!"),
            (r#"${{ "\"}}" }}!"#, r#"«"\"}}"»!"#),
            ("${{ `a}}${ {b: `}}`} }c}}` }}!", "«`a}}${ {b: `}}`} }c}}`»!"),
            ("${{ /}}[/}]\\/}}/.test(x) }}!", "«/}}[/}]\\/}}/.test(x)»!"),
            ("${{ a / b }} c / d", "«a / b» c / d"),
            ("${{ f(1) / 2 }}/", "«f(1) / 2»/"),
            ("${{ x /* }} */ }}!", "«x /* }} */»!"),
            ("${{ x // why }}!", "«x // why»!"),
            ("${{\n  x &&\n  y\n}}", "«x &&\n  y»"),
            ("${{ größe }}", "«größe»"),
            ("}} {{ x }} ${ x }", "}} {{ x }} ${ x }"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn every_flaw_of_a_text_has_its_place() {
        for (text, expected) in [
            ("a ${{ x", &[(2, "this `${{` is never closed")][..]),
            ("${{ x ${{ y }}", &[(0, "this `${{` is never closed")]),
            (
                "${{ }} ${{ (x }} ${{ y ] }}",
                &[
                    (0, "there is no expression between `${{` and `}}`"),
                    (14, "the bracket that this one closes is of another kind"),
                    (23, "nothing is open here"),
                ],
            ),
            ("${{ it's }} ${{ x }}", &[(6, "this quote is never closed")]),
            ("${{ `x }}", &[(4, "this backtick is never closed")]),
            ("${{ x /* }}", &[(6, "this comment is never closed")]),
            ("${{ /x }}", &[(4, "this regular expression is never closed")]),
            ("${{ x } }}", &[(6, "nothing is open here")]),
            (
                "${{ '}}' ] }} ${{ ) }}",
                &[(9, "nothing is open here"), (18, "nothing is open here")],
            ),
        ] {
            let (_, flaws) = split_text(text);
            let found: Vec<_> =
                flaws.iter().map(|flaw| (flaw.offset, flaw.message.as_str())).collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_split(text in "[$ {}a'\"`/*\\\\\\n(é\\[\\])]{0,40}") {
            let (pieces, flaws) = split_text(&text);
            let length = |piece: &TextPiece<'_>| match piece {
                TextPiece::Literal(text) => text.len(),
                TextPiece::Expression { source, .. } => source.len(),
            };
            prop_assert!(pieces.iter().map(length).sum::<usize>() <= text.len());
            prop_assert!(flaws.iter().all(|flaw| flaw.offset <= text.len()));
        }

        #[test]
        fn text_without_an_opening_is_one_piece(text in "[^{]+") {
            prop_assert_eq!(split_text(&text), (vec![TextPiece::Literal(&text)], vec![]));
        }
    }
}
