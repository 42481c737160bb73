//! The text of an HTML page, without its markup. Pure.

/// Elements whose content is not text.
const HIDDEN: [&str; 6] = ["script", "style", "noscript", "template", "svg", "head"];
/// Elements that begin a new line.
const BLOCKS: [&str; 30] = [
    "address",
    "article",
    "aside",
    "blockquote",
    "br",
    "dd",
    "div",
    "dl",
    "dt",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "li",
    "main",
    "nav",
    "ol",
    "p",
    "pre",
    "section",
    "table",
    "tr",
    "ul",
];
const ENTITIES: [(&str, &str); 9] = [
    ("amp", "&"),
    ("lt", "<"),
    ("gt", ">"),
    ("quot", "\""),
    ("apos", "'"),
    ("nbsp", " "),
    ("mdash", "—"),
    ("ndash", "–"),
    ("hellip", "…"),
];
const MAX_ENTITY_BYTES: usize = 10;

/// Returns the text of a page: its title, and one line for each block.
pub(crate) fn html_text(html: &str) -> String {
    let mut text = String::with_capacity(html.len() / 4);
    text += &title(html).map(|title| format!("{title}\n\n")).unwrap_or_default();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        push_text(&mut text, &rest[..at]);
        let tag = &rest[at..];
        if let Some(comment) = tag.strip_prefix("<!--") {
            rest = comment.split_once("-->").map_or("", |(_, after)| after);
            continue;
        }
        let Some(end) = tag.find('>') else { return finished(&text) };
        let name = tag_name(&tag[1..end]);
        rest = &tag[end + 1..];
        let is_hidden = HIDDEN.contains(&name.as_str()) && !tag[..end].ends_with('/');
        if is_hidden {
            rest = after_end_tag(rest, &name);
        } else if BLOCKS.contains(&name.trim_start_matches('/')) {
            text.push('\n');
        } else if ["td", "th"].contains(&name.as_str()) {
            text.push('\t');
        }
    }
    push_text(&mut text, rest);
    finished(&text)
}

/// Returns the title of a page.
fn title(html: &str) -> Option<String> {
    let start = find_ignoring_case(html, "<title")?;
    let (_, rest) = html[start..].split_once('>')?;
    let end = find_ignoring_case(rest, "</title")?;
    let mut title = String::new();
    push_text(&mut title, &rest[..end]);
    let title = title.trim();
    (!title.is_empty()).then(|| title.to_owned())
}

/// Returns the name of a tag in lower case, with `/` before that of an end tag.
fn tag_name(tag: &str) -> String {
    let is_end = |(at, c): &(usize, char)| !(c.is_ascii_alphanumeric() || *at == 0 && *c == '/');
    let end = tag.char_indices().find(is_end).map_or(tag.len(), |(at, _)| at);
    tag[..end].to_ascii_lowercase()
}

/// Returns the text after the end tag of an element.
fn after_end_tag<'a>(html: &'a str, name: &str) -> &'a str {
    let end = find_ignoring_case(html, &format!("</{name}"));
    end.and_then(|at| html[at..].split_once('>')).map_or("", |(_, after)| after)
}

fn find_ignoring_case(text: &str, part: &str) -> Option<usize> {
    text.as_bytes().windows(part.len()).position(|it| it.eq_ignore_ascii_case(part.as_bytes()))
}

/// Appends a text with its entities replaced and its white space as one blank.
fn push_text(text: &mut String, raw: &str) {
    let mut rest = raw;
    while let Some(c) = rest.chars().next() {
        if c.is_whitespace() {
            if !text.is_empty() && !text.ends_with(char::is_whitespace) {
                text.push(' ');
            }
            rest = rest.trim_start();
        } else if let Some((entity, after)) = entity(rest) {
            *text += &entity;
            rest = after;
        } else {
            text.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
}

/// Returns the character of an entity at the start of a text, and the rest.
fn entity(text: &str) -> Option<(String, &str)> {
    let text = text.strip_prefix('&')?;
    // A page of nothing but `&` would be searched to its end for each of them.
    let end = text.bytes().take(MAX_ENTITY_BYTES + 1).position(|byte| byte == b';')?;
    let (name, rest) = (&text[..end], &text[end + 1..]);
    let known = ENTITIES.iter().find(|(entity, _)| *entity == name);
    if let Some((_, text)) = known {
        return Some(((*text).to_owned(), rest));
    }
    let number = name.strip_prefix('#')?;
    let code = match number.strip_prefix(['x', 'X']) {
        Some(hex) => u32::from_str_radix(hex, 16).ok()?,
        None => number.parse().ok()?,
    };
    Some((char::from_u32(code)?.to_string(), rest))
}

/// Removes blanks at the ends of lines, and all but one of several empty lines.
fn finished(text: &str) -> String {
    let (mut lines, mut was_empty) = (String::with_capacity(text.len()), true);
    for line in text.lines().map(str::trim) {
        if !(line.is_empty() && was_empty) {
            lines += line;
            lines.push('\n');
        }
        was_empty = line.is_empty();
    }
    lines.truncate(lines.trim_end().len());
    lines.push('\n');
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_becomes_its_title_and_its_blocks() {
        let html = "<!DOCTYPE html><html><HEAD><title>A &amp; B</title><style>p{}</style></HEAD><body>\n\
                    <script>if (a < b) {}</script><h1>One</h1><p>two\n  <b>three</b>&#33;&#x41;</p><!-- no > -->\n\
                    <ul><li>a</li><li>b &lt; c</li></ul><table><tr><td>x</td><td>y</td></tr></table></body></html>";
        assert_eq!(html_text(html), "A & B\n\nOne\n\ntwo three!A\n\na\n\nb < c\n\nx\ty\n");
    }

    #[test]
    fn a_page_of_unfinished_entities_takes_no_longer_than_another() {
        let began = std::time::Instant::now();
        let page = "&".repeat(2 * 1024 * 1024);
        assert_eq!(html_text(&page).len(), page.len() + 1);
        assert!(began.elapsed() < std::time::Duration::from_secs(10));
    }

    #[test]
    fn a_broken_page_ends_somewhere() {
        for html in
            ["<", "<p", "a < b", "<script>x", "<!-- x", "&", "&#xfffffff;", "</", "<title>x"]
        {
            assert!(html_text(html).len() <= html.len() + 1, "{html}");
        }
    }
}
