//! Markdown, as models write it, to the HTML that Telegram reads.
//!
//! Valid by construction: a tag is written only together with its end, around text whose special
//! characters are escaped. What is not understood stays as it was written, so nothing is lost but
//! marks. No characters are added to what is shown.
//!
//! Deliberately absent: spans over several lines, nested lists, nested quotations. Telegram has no
//! lists at all.

use super::code_fence::CodeFence;
use std::collections::BTreeSet;

/// Deeper nesting than this is not style but noise, and stays as it was written.
const DEPTH_MAX: usize = 6;

pub(crate) fn html(markdown: &str) -> String {
    let mut out = String::with_capacity(markdown.len() + markdown.len() / 4);
    let lines: Vec<&str> = markdown.split('\n').collect();
    let mut at = 0;
    while at < lines.len() {
        if at > 0 {
            out.push('\n');
        }
        at = block(&lines, at, &mut out);
    }
    out
}

/// Writes the block that begins at this line. Returns the line after it.
fn block(lines: &[&str], at: usize, out: &mut String) -> usize {
    let line = lines[at];
    if let Some(fence) = CodeFence::opened_by(line) {
        return code(lines, at + 1, &fence, out);
    }
    if is_table(lines, at) {
        let end = run(lines, at, |line| line.trim_start().starts_with('|'));
        wrapped("pre", &escaped(&lines[at..end].join("\n")), out);
        return end;
    }
    if quoted(line).is_some() {
        let end = run(lines, at, |line| quoted(line).is_some());
        let inner: Vec<String> =
            lines[at..end].iter().filter_map(|line| quoted(line)).map(plain_line).collect();
        wrapped("blockquote", &inner.join("\n"), out);
        return end;
    }
    out.push_str(&plain_line(line));
    at + 1
}

fn code(lines: &[&str], begin: usize, fence: &CodeFence, out: &mut String) -> usize {
    let end = run(lines, begin, |line| !fence.is_closed_by(line));
    let body = escaped(&lines[begin..end].join("\n"));
    let language: String = fence
        .language
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, '+' | '-' | '#' | '_'))
        .collect();
    match language.is_empty() {
        true => wrapped("pre", &body, out),
        false if body.trim().is_empty() => {}
        false => {
            let open = format!("<pre><code class=\"language-{language}\">");
            out.extend([open.as_str(), body.as_str(), "</code></pre>"]);
        }
    }
    (end + 1).min(lines.len()) // the line that closes it, if there is one
}

/// The end of the run of lines that begins here.
fn run(lines: &[&str], begin: usize, belongs: impl Fn(&str) -> bool) -> usize {
    lines[begin..].iter().position(|line| !belongs(line)).map_or(lines.len(), |length| begin + length)
}

/// Nothing around nothing: Telegram has no empty entities.
fn wrapped(tag: &str, inner: &str, out: &mut String) {
    match inner.trim().is_empty() {
        true => out.push_str(inner),
        false => {
            out.push('<');
            out.push_str(tag);
            out.push('>');
            out.push_str(inner);
            out.push_str("</");
            out.push_str(tag);
            out.push('>');
        }
    }
}

fn is_table(lines: &[&str], at: usize) -> bool {
    let begins = |line: &str| line.trim_start().starts_with('|');
    let rule = |line: &str| {
        begins(line) && line.contains('-') && line.chars().all(|c| matches!(c, '|' | '-' | ':' | ' '))
    };
    begins(lines[at]) && lines.get(at + 1).is_some_and(|line| rule(line))
}

fn quoted(line: &str) -> Option<&str> {
    let line = line.strip_prefix('>')?;
    Some(line.strip_prefix(' ').unwrap_or(line))
}

/// A heading, a point of a list, or a line of a paragraph.
fn plain_line(line: &str) -> String {
    let mut out = String::new();
    let hashes = line.chars().take_while(|c| *c == '#').count();
    if let (1..=6, Some(heading)) = (hashes, line[hashes..].strip_prefix(' ')) {
        wrapped("b", &Inline { styles: &["b"], depth: 0 }.html(heading.trim()), &mut out);
        return out;
    }
    let text = line.trim_start();
    let indent = &line[..line.len() - text.len()];
    out.push_str(indent);
    let point =
        text.strip_prefix("* ").or_else(|| text.strip_prefix("- ")).or_else(|| text.strip_prefix("+ "));
    match point {
        Some(point) => {
            out.push_str("• ");
            out.push_str(&Inline { styles: &[], depth: 0 }.html(point));
        }
        None => out.push_str(&Inline { styles: &[], depth: 0 }.html(text)),
    }
    out
}

pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    text.chars().for_each(|c| escape(c, &mut out));
    out
}

fn escape(c: char, out: &mut String) {
    match c {
        '<' => out.push_str("&lt;"),
        '>' => out.push_str("&gt;"),
        '&' => out.push_str("&amp;"),
        '"' => out.push_str("&quot;"),
        c => out.push(c),
    }
}

/// Spans within a line, inside the styles that are already on.
struct Inline<'a> {
    styles: &'a [&'static str],
    depth: usize,
}

/// What marks a span, and what it becomes. Longer marks first.
const MARKS: [(&str, &str); 6] =
    [("**", "b"), ("__", "b"), ("~~", "s"), ("||", "tg-spoiler"), ("*", "i"), ("_", "i")];

/// What was looked for in vain. What is not there from some place on is not there from a later one on, either.
#[derive(Default)]
struct Vain {
    /// Ends of spans, by their mark.
    marks: [bool; MARKS.len()],
    /// Ends of code, by how many backticks they have.
    code: BTreeSet<usize>,
    /// `](`, and the end of an address.
    link: bool,
    address: bool,
    /// How far from the end of the text the next of each stands, once it was found.
    words_end: Option<usize>,
    address_end: Option<usize>,
}

impl Inline<'_> {
    fn html(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut vain = Vain::default();
        let mut at = 0;
        let mut before = None; // the character before, as it was written
        while let Some(c) = text[at..].chars().next() {
            let taken = match c {
                '\\' => escape_sequence(&text[at..], &mut out),
                '`' => Some(code_span(&text[at..], &mut vain, &mut out)),
                '[' | '!' => self.link(&text[at..], &mut vain, &mut out),
                '*' | '_' | '~' | '|' => self.span(&text[at..], before, &mut vain, &mut out),
                _ => None,
            };
            let taken = taken.unwrap_or_else(|| {
                escape(c, &mut out);
                c.len_utf8()
            });
            before = text[..at + taken].chars().next_back();
            at += taken;
        }
        out
    }

    fn within(&self, style: &'static str, text: &str) -> String {
        let styles: Vec<_> = self.styles.iter().copied().chain([style]).collect();
        Inline { styles: &styles, depth: self.depth + 1 }.html(text)
    }

    fn span(&self, text: &str, before: Option<char>, vain: &mut Vain, out: &mut String) -> Option<usize> {
        let which = MARKS.iter().position(|(mark, _)| text.starts_with(mark))?;
        let (mark, style) = &MARKS[which];
        let inner = &text[mark.len()..];
        let in_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        let is_word_mark = mark.starts_with('_'); // a name_like_this is no italics
        let is_too_deep = self.depth >= DEPTH_MAX;
        if is_too_deep
            || vain.marks[which]
            || inner.starts_with(char::is_whitespace)
            || (is_word_mark && in_word(before))
        {
            return None;
        }
        let mut ends =
            inner.char_indices().map(|(place, _)| place).filter(|place| inner[*place..].starts_with(mark));
        let length = ends.find(|place| {
            let (content, rest) = (&inner[..*place], &inner[place + mark.len()..]);
            let is_open = content.is_empty()
                || content.ends_with(char::is_whitespace)
                || content.ends_with('\\')
                || rest.starts_with(&mark[..1]) // the last of a run closes
                || (mark.len() == 1 && content.ends_with(mark))
                || (is_word_mark && in_word(rest.chars().next()));
            !is_open
        });
        vain.marks[which] = length.is_none();
        let length = length?;
        let (content, taken) = (&inner[..length], length + 2 * mark.len());
        // Already on: the marks go, the words stay.
        match self.styles.contains(style) {
            true => out.push_str(&Inline { styles: self.styles, depth: self.depth + 1 }.html(content)),
            false => wrapped(style, &self.within(style, content), out),
        }
        Some(taken)
    }

    /// `[words](address)`, and a picture's `![words](address)`.
    fn link(&self, text: &str, vain: &mut Vain, out: &mut String) -> Option<usize> {
        let start = text.strip_prefix('!').unwrap_or(text).strip_prefix('[')?;
        if vain.link || vain.address {
            return None;
        }
        let known = vain.words_end.filter(|from_end| *from_end <= start.len());
        let words_end = known.map(|from_end| start.len() - from_end).or_else(|| start.find("]("));
        vain.link = words_end.is_none();
        let words_end = words_end?;
        vain.words_end = Some(start.len() - words_end);
        let words = &start[..words_end];
        if words.contains('[') {
            return None;
        }
        let address_start = &start[words_end + 2..];
        let known = vain.address_end.filter(|from_end| *from_end <= address_start.len());
        let address_end =
            known.map(|from_end| address_start.len() - from_end).or_else(|| address_start.find([')', ' ']));
        vain.address = address_end.is_none();
        let address_end = address_end?;
        vain.address_end = Some(address_start.len() - address_end);
        let address = &address_start[..address_end];
        let known =
            ["https://", "http://", "tg://", "mailto:"].iter().any(|scheme| address.starts_with(scheme));
        if !address_start[address_end..].starts_with(')')
            || !known
            || words.trim().is_empty()
            || self.styles.contains(&"a")
        {
            return None;
        }
        out.extend(["<a href=\"", &escaped(address), "\">", &self.within("a", words), "</a>"]);
        Some(text.len() - address_start.len() + address_end + 1)
    }
}

/// A backslash before a mark takes the mark's meaning away.
fn escape_sequence(text: &str, out: &mut String) -> Option<usize> {
    let next = text[1..].chars().next().filter(char::is_ascii_punctuation)?;
    escape(next, out);
    Some(1 + next.len_utf8())
}

fn code_span(text: &str, vain: &mut Vain, out: &mut String) -> usize {
    let length = text.chars().take_while(|c| *c == '`').count();
    let mark = &text[..length];
    let inner = &text[length..];
    let is_end = |place: &usize| {
        !inner[place + length..].starts_with('`')
            && !inner[..*place].ends_with('`')
            && !inner[..*place].trim().is_empty()
    };
    let mut ends = inner.match_indices(mark).map(|(place, _)| place);
    let end = if vain.code.contains(&length) { None } else { ends.find(is_end) };
    match end {
        Some(end) => {
            wrapped("code", &escaped(&inner[..end]), out);
            end + 2 * length
        }
        // None of a longer run: one of its backticks could still find a partner that is not meant.
        None => {
            vain.code.insert(length);
            out.push_str(mark);
            length
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn marks_become_tags() {
        for (markdown, expected) in [
            ("**bold** and *it* and _it_ and __b__", "<b>bold</b> and <i>it</i> and <i>it</i> and <b>b</b>"),
            ("***both***", "<b><i>both</i></b>"),
            ("~~gone~~ ||secret||", "<s>gone</s> <tg-spoiler>secret</tg-spoiler>"),
            ("a `x < y` b", "a <code>x &lt; y</code> b"),
            ("``a ` b``", "<code>a ` b</code>"),
            ("# Head **line**", "<b>Head line</b>"),
            ("- one\n* two\n  + three", "• one\n• two\n  • three"),
            ("> said\n> twice\nover", "<blockquote>said\ntwice</blockquote>\nover"),
            ("[a & b](https://x.y/?a=1&b=2)", "<a href=\"https://x.y/?a=1&amp;b=2\">a &amp; b</a>"),
            ("![cat](https://x.y/cat.png)", "<a href=\"https://x.y/cat.png\">cat</a>"),
            ("```rust\nlet a = &b;\n```", "<pre><code class=\"language-rust\">let a = &amp;b;</code></pre>"),
            ("```\nplain\n```\nafter", "<pre>plain</pre>\nafter"),
            ("```\nnever closed", "<pre>never closed</pre>"),
            ("````\n```\n````", "<pre>```</pre>"),
            ("| a | b |\n|---|---|\n| 1 | 2 |\nx", "<pre>| a | b |\n|---|---|\n| 1 | 2 |</pre>\nx"),
            ("```no fence because of `this`", "```no fence because of <code>this</code>"),
            (r"\*not\* this", "*not* this"),
        ] {
            assert_eq!(html(markdown), expected, "{markdown}");
        }
    }

    #[test]
    fn what_only_looks_like_a_mark_stays() {
        for text in [
            "2 * 3 * 4",
            "snake_case_name",
            "a ** b",
            "*open",
            "`open",
            "[a](javascript:alert)",
            "[a](no address)",
            "#hashtag",
            "||",
            "****",
            "a || b || c",
            "5 | 6",
        ] {
            assert_eq!(html(text), text);
        }
        assert_eq!(html("<script>\"&\"</script>"), "&lt;script&gt;&quot;&amp;&quot;&lt;/script&gt;");
    }

    /// Every tag is closed in order, and nothing else looks like one.
    fn shown(html: &str) -> String {
        let mut open: Vec<String> = Vec::new();
        let mut text = String::new();
        let mut rest = html;
        while let Some(place) = rest.find('<') {
            text.push_str(&rest[..place]);
            let end = rest[place..].find('>').expect("a tag ends") + place;
            let tag = &rest[place + 1..end];
            match tag.strip_prefix('/') {
                Some(name) => assert_eq!(open.pop().as_deref(), Some(name), "{html}"),
                None => open.push(tag.split(' ').next().unwrap_or_default().to_owned()),
            }
            rest = &rest[end + 1..];
        }
        assert!(open.is_empty(), "{html}");
        text.push_str(rest);
        text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
    }

    proptest! {
        #[test]
        fn whatever_is_written_becomes_valid_and_no_word_is_lost(
            text in r"([a-z<>&]|\*|_|~|`|\||\[|\]|\(|\)|#|>| |\n|!|\\|https://a){0,120}"
        ) {
            let shown = shown(&html(&text));
            let letters = |text: &str| text.chars().filter(|c| c.is_alphabetic()).collect::<String>();
            // Addresses move into tags, and languages of code too: only their letters may go missing.
            if !text.contains("](") && !text.contains("```") && !text.contains("~~~") {
                prop_assert_eq!(letters(&shown), letters(&text));
            }
            prop_assert!(super::super::split::units(&shown) <= super::super::split::units(&text));
        }
    }
}
