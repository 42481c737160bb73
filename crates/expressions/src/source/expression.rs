//! One expression: a plain name, which costs no child process, or JavaScript; and the names that it mentions.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::{
    error::ExpressionFlaw,
    source::{
        reserved::{is_built_in, is_keyword},
        scanner::{Token, TokenEnd, TokenKind, scan},
    },
};

/// Maximum length of a source.
const MAX_SOURCE_BYTES: usize = 64 * 1024;

/// Prefixes whose member `file` is a name, not the file of a value.
const PREFIXES: [&str; 3] = ["env", "params", "tasks"];

/// Expression whose brackets and quotes are closed. The interpreter checks the rest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Expression {
    source: String,
    form: ExpressionForm,
    mentions: Vec<NameMention>,
}

/// Form of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpressionForm {
    /// `x`, `x.y`, `params.name`: the parts of a plain name.
    Name(Vec<String>),
    /// `x.file`: path of a private file with the value of this plain name.
    File(Vec<String>),
    /// Anything else: JavaScript.
    Script,
}

/// Name in an expression that may be a value of the workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameMention {
    /// The name and the members that follow it: `tasks.build.output` has three.
    pub path: Vec<String>,
    /// Byte offset of the name in the source.
    pub offset: usize,
    /// True if the expression declares the name itself somewhere, such as the `x` of `x => x.y`. The mention may still
    /// be a value of the workflow.
    pub is_local: bool,
}

impl Expression {
    /// Parses a source without `${{` and `}}`. Offsets of a flaw are bytes of the source.
    pub fn parse(source: &str) -> Result<Self, ExpressionFlaw> {
        if source.len() > MAX_SOURCE_BYTES {
            let limit = MAX_SOURCE_BYTES / 1024;
            return Err(ExpressionFlaw::new(0, format!("the expression is over {limit} KiB")));
        }
        if let Some(offset) = source.find('\0') {
            return Err(ExpressionFlaw::new(offset, "the expression has a NUL character"));
        }
        let tokens = match scan(source) {
            Ok((tokens, TokenEnd::TextEnd)) => tokens,
            Ok((_, TokenEnd::Close(offset))) => {
                return Err(ExpressionFlaw::new(offset, "nothing is open here"));
            }
            Err(error) => return Err(ExpressionFlaw::new(error.offset, error.why)),
        };
        if tokens.is_empty() {
            return Err(ExpressionFlaw::new(0, "there is no expression"));
        }
        let form = plain_name(source.trim()).unwrap_or(ExpressionForm::Script);
        let mentions = MentionReader { source, tokens: &tokens }.collect();
        Ok(Self { source: source.to_owned(), form, mentions })
    }

    /// Returns the source as it was parsed.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the form of the source.
    pub fn form(&self) -> &ExpressionForm {
        &self.form
    }

    /// Returns true if the expression decides itself what happens after a failure: it calls `failure()` or `always()`.
    pub fn handles_failure(&self) -> bool {
        let Ok((tokens, _)) = scan(&self.source) else { return false };
        let reader = MentionReader { source: &self.source, tokens: &tokens };
        (0..tokens.len()).any(|index| {
            let is_call = reader.text(index + 1) == "(";
            is_call && reader.is_name(index) && matches!(reader.text(index), "failure" | "always")
        })
    }

    /// Returns the names that may be values of the workflow. Only their values need be bound.
    pub fn mentions(&self) -> &[NameMention] {
        &self.mentions
    }

    /// Returns the first mention of a name that is certainly no value.
    pub fn unknown_name(&self, is_known: impl Fn(&[String]) -> bool) -> Option<&NameMention> {
        self.mentions.iter().find(|mention| !mention.is_local && !is_known(&mention.path))
    }
}

impl PartialOrd for Expression {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Expression {
    /// Compares the sources, which determine everything else.
    fn cmp(&self, other: &Self) -> Ordering {
        self.source.cmp(&other.source)
    }
}

impl TryFrom<String> for Expression {
    type Error = ExpressionFlaw;
    fn try_from(source: String) -> Result<Self, ExpressionFlaw> {
        Self::parse(&source)
    }
}
impl From<Expression> for String {
    fn from(expression: Expression) -> Self {
        expression.source
    }
}

/// Returns the form of a source that is only a name with members.
fn plain_name(source: &str) -> Option<ExpressionForm> {
    let is_name = |part: &&str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let mut parts: Vec<String> = source.split('.').map(str::to_owned).collect();
    let first = parts.first().filter(|first| !is_keyword(first) && !is_built_in(first))?;
    if !parts.iter().all(|part| is_name(&part.as_str())) {
        return None;
    }
    let is_member = parts.len() == 2 && PREFIXES.contains(&first.as_str());
    if parts.len() > 1 && !is_member && parts.last().is_some_and(|last| last == "file") {
        parts.pop();
        return Some(ExpressionForm::File(parts));
    }
    Some(ExpressionForm::Name(parts))
}

struct MentionReader<'a> {
    source: &'a str,
    tokens: &'a [Token],
}

impl<'a> MentionReader<'a> {
    fn collect(&self) -> Vec<NameMention> {
        let locals = self.locals();
        let mention = |index: usize| {
            let name = self.text(index);
            let offset = self.tokens[index].at.start;
            NameMention { path: self.path(index), offset, is_local: locals.contains(&name) }
        };
        (0..self.tokens.len()).filter(|index| self.is_mention(*index)).map(mention).collect()
    }

    fn text(&self, index: usize) -> &'a str {
        self.tokens.get(index).map_or("", |token| &self.source[token.at.clone()])
    }

    fn before(&self, index: usize) -> &'a str {
        index.checked_sub(1).map_or("", |before| self.text(before))
    }

    fn is_word(&self, index: usize) -> bool {
        self.tokens.get(index).is_some_and(|token| token.kind == TokenKind::Word)
    }

    fn is_name(&self, index: usize) -> bool {
        self.is_word(index) && !matches!(self.before(index), "." | "?.")
    }

    fn is_mention(&self, index: usize) -> bool {
        let name = self.text(index);
        let is_key = self.text(index + 1) == ":" && matches!(self.before(index), "{" | ",");
        self.is_name(index) && !is_key && !is_keyword(name) && !is_built_in(name)
    }

    /// Returns the name at an index with the members that are written out after it.
    fn path(&self, index: usize) -> Vec<String> {
        let mut path = vec![self.text(index).to_owned()];
        let mut next = index + 1;
        loop {
            match self.text(next) {
                "." | "?." if self.is_word(next + 1) => {
                    path.push(self.text(next + 1).to_owned());
                    next += 2;
                }
                "[" if self.text(next + 2) == "]" => {
                    let Some(member) = self.written_text(next + 1) else { return path };
                    path.push(member);
                    next += 3;
                }
                _ => return path,
            }
        }
    }

    /// Returns the content of a quoted text without escapes.
    fn written_text(&self, index: usize) -> Option<String> {
        let is_quoted = self.tokens.get(index)?.kind == TokenKind::Quoted;
        let text = self.text(index);
        (is_quoted && !text.contains('\\')).then(|| text[1..text.len() - 1].to_owned())
    }

    /// Returns the names that the expression declares: parameters of functions, variables. A default value of a
    /// parameter counts too.
    fn locals(&self) -> Vec<&'a str> {
        let mut found = Vec::new();
        for index in 0..self.tokens.len() {
            let declared = match self.text(index) {
                "=>" if self.is_word(index.wrapping_sub(1)) => index - 1..index,
                "=>" => self.group_before(index)..index,
                "function" | "catch" | "let" | "const" | "var" if self.is_name(index) => {
                    index + 1..self.group_end(index + 1)
                }
                _ => continue,
            };
            found.extend(declared.filter(|at| self.is_name(*at)).map(|at| self.text(at)));
        }
        found
    }

    /// Returns the index of the bracket that the bracket before `index` closes.
    fn group_before(&self, index: usize) -> usize {
        let mut depth = 0_usize;
        for at in (0..index).rev() {
            match self.text(at) {
                ")" | "]" | "}" => depth += 1,
                "(" | "[" | "{" => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                return at;
            }
        }
        0
    }

    /// Returns the end of a name and of the first group of brackets from `index` on.
    fn group_end(&self, index: usize) -> usize {
        let mut depth = 0_usize;
        for at in index..self.tokens.len() {
            match self.text(at) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return at;
                    }
                }
                "=" | ";" | "," if depth == 0 => return at,
                _ => {}
            }
        }
        self.tokens.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_plain_name_is_told_from_javascript() {
        let name = |names: &[&str]| ExpressionForm::Name(parts(names));
        let file = |names: &[&str]| ExpressionForm::File(parts(names));
        for (source, form) in [
            ("x", name(&["x"])),
            (" x ", name(&["x"])),
            ("x.y", name(&["x", "y"])),
            ("params.name", name(&["params", "name"])),
            ("params.file", name(&["params", "file"])),
            ("tasks.file", name(&["tasks", "file"])),
            ("tasks.build.output", name(&["tasks", "build", "output"])),
            ("x.file", file(&["x"])),
            ("params.target.file", file(&["params", "target"])),
            ("tasks.build.output.file", file(&["tasks", "build", "output"])),
        ] {
            assert_eq!(Expression::parse(source).unwrap().form(), &form, "{source}");
        }
        for source in [
            "true",
            "null",
            "undefined",
            "this",
            "1",
            "'x'",
            "x()",
            "x['file']",
            "!x",
            "x.y + 1",
            "x .y",
            "a-b",
            "Math",
            "success",
            "success()",
            "x?.y",
            "x.1",
            "[x]",
            "{x}",
            "`x`",
            "/x/",
            "(x)",
        ] {
            let found = Expression::parse(source).unwrap();
            assert_eq!(found.form(), &ExpressionForm::Script, "{source}");
        }
    }

    #[test]
    fn the_names_of_an_expression_are_listed_with_their_members() {
        for (source, expected) in [
            ("x", "x"),
            ("x.y.z == w", "x.y.z w"),
            ("x['a b'].c[0]", "x.a b.c"),
            ("x?.y", "x.y"),
            ("diff.contains('auth')", "diff.contains"),
            ("success() && !failure()", ""),
            ("json(plan).steps.length > 3", "plan"),
            ("{a: b, c: {d: e}}", "b e"),
            ("a ? b : c", "a b c"),
            ("'x' + \"y\" + `z ${ w } ${ `${v}` }`", "w v"),
            ("/x/.test(y) // z", "y"),
            ("a /* b */ / c / d", "a c d"),
            ("items.filter(f => f.size > min)", "items.filter (f) (f.size) min"),
            (
                "xs.map(({a, b: [c]}, d = e) => a + c + d + e + g)",
                "xs.map (a) (c) (d) (e) (a) (c) (d) (e) g",
            ),
            ("x.filter(x => x)", "(x.filter) (x) (x)"),
            ("(function (a) { const b = a; return b + c })(d)", "(a) (b) (a) (b) c d"),
            ("Math.max(...xs, parseInt(y))", "xs y"),
            ("typeof x === 'string' && Infinity > NaN", "x"),
        ] {
            let found = Expression::parse(source).unwrap();
            let show = |mention: &NameMention| {
                let path = mention.path.join(".");
                assert!(source[mention.offset..].starts_with(&mention.path[0]), "{source}");
                if mention.is_local { format!("({path})") } else { path }
            };
            let shown: Vec<_> = found.mentions().iter().map(show).collect();
            assert_eq!(shown.join(" "), expected, "{source}");
        }
    }

    #[test]
    fn a_name_that_is_no_value_is_found_and_a_local_one_is_not() {
        let known = |path: &[String]| path[0] == "items";
        let unknown = |source: &str| {
            let found = Expression::parse(source).unwrap();
            found.unknown_name(known).map(|mention| (mention.path.join("."), mention.offset))
        };
        assert_eq!(unknown("items.filter(f => f.ok).length"), None);
        assert_eq!(unknown("items.length > itms.length"), Some(("itms.length".into(), 15)));
    }

    #[test]
    fn an_expression_that_cannot_be_one_is_refused_with_its_place() {
        for (source, offset) in
            [("", 0), ("a\0", 1), ("(x", 0), ("x)", 1), ("x }} y", 2), ("'x", 0)]
        {
            assert_eq!(Expression::parse(source).unwrap_err().offset, offset, "{source:?}");
        }
        let long = "x ".repeat(MAX_SOURCE_BYTES);
        assert!(Expression::parse(&long).unwrap_err().message.contains("64 KiB"));
    }

    #[test]
    fn only_a_call_of_failure_or_always_handles_failures() {
        for (source, expected) in [
            ("failure()", true),
            ("!failure ( ) || x", true),
            ("always()", true),
            ("success()", false),
            ("x.failure()", false),
            ("'failure()'", false),
            ("failure", false),
            ("x // always()", false),
        ] {
            assert_eq!(Expression::parse(source).unwrap().handles_failure(), expected, "{source}");
        }
    }
}
