//! Text, as people write it in Markdown and as Slack writes it, both ways; and where it is cut.
//!
//! All of it is pure. Going out, the three characters that Slack reads as markup are escaped, links
//! and emphasis are written its way, and a call for everybody (`<!channel>`) is only quoted: a model
//! must not ring for a whole company. Coming in, what Slack wrapped is unwrapped again.

use crate::media;

/// What one message may hold. `chat.postMessage` takes ten times as much, but a message longer than
/// this cannot be changed any more, and a streamed reply is changed until it is complete.
pub(super) const LENGTH_MAX: usize = 4000;
/// A fence that is reopened repeats its language, up to this.
const LANGUAGE_MAX: usize = 40;
/// Emphasis in emphasis in emphasis: deeper than this it is left as it stands.
const DEPTH_MAX: usize = 4;

// ------------------------------------------------------------------------------------ going out

/// `markdown` in Slack's `mrkdwn`.
pub fn mrkdwn(markdown: &str) -> String {
    let mut out = String::with_capacity(markdown.len() + markdown.len() / 8);
    let mut fence = None;
    for line in markdown.split_inclusive('\n') {
        let (content, end) = match line.strip_suffix('\n') {
            Some(content) => (content, "\n"),
            None => (line, ""),
        };
        let marker = fence_marker(content);
        match (fence, marker) {
            (None, Some(opened)) => {
                fence = Some(opened);
                // Slack shows a language as the first line of the code.
                out.push_str("```");
            }
            (Some(opened), Some(closed)) if closes(opened, closed, content) => {
                fence = None;
                out.push_str("```");
            }
            (Some(_), _) => escape_into(content, &mut out),
            (None, None) => out.push_str(&block(content)),
        }
        out.push_str(end);
    }
    out
}

/// One line outside a fence.
fn block(line: &str) -> String {
    let quoted = line.len() - line.trim_start_matches('>').len();
    if quoted > 0 && (line[quoted..].starts_with(' ') || line.len() == quoted) {
        return format!("{}{}", &line[..quoted], block(&line[quoted..]));
    }
    let level = line.len() - line.trim_start_matches('#').len();
    let title = line[level..].trim().trim_end_matches('#').trim_end();
    if (1..=6).contains(&level) && line[level..].starts_with(' ') && !title.is_empty() {
        return format!("*{}*", inline(&title.replace("**", ""), 1));
    }
    inline(line, 0)
}

fn inline(text: &str, depth: usize) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let taken = match first {
            '`' => code(rest, &mut out),
            '[' => link(rest, &mut out),
            '!' if rest.starts_with("![") => link(&rest[1..], &mut out).map(|taken| taken + 1),
            '<' => entity(rest, &mut out),
            '*' | '~' if depth < DEPTH_MAX => emphasis(rest, depth, &mut out),
            _ => None,
        };
        let taken = taken.unwrap_or_else(|| {
            escape_into(&rest[..first.len_utf8()], &mut out);
            // What is escaped already is not escaped twice.
            let known = ["&amp;", "&lt;", "&gt;"].iter().find(|known| rest.starts_with(**known));
            known.map_or(first.len_utf8(), |known| {
                out.truncate(out.len() - "&amp;".len());
                out.push_str(known);
                known.len()
            })
        });
        rest = &rest[taken..];
    }
    out
}

/// `` `code` ``: nothing in it means anything.
fn code(text: &str, out: &mut String) -> Option<usize> {
    let ticks = text.len() - text.trim_start_matches('`').len();
    let inside = &text[ticks..];
    let mut from = 0;
    loop {
        let start = from + inside[from..].find('`')?;
        let run = inside[start..].len() - inside[start..].trim_start_matches('`').len();
        if run == ticks {
            out.push('`');
            escape_into(&inside[..start], out);
            out.push('`');
            return Some(ticks + start + run);
        }
        from = start + run;
    }
}

/// `[label](address)`
fn link(text: &str, out: &mut String) -> Option<usize> {
    let label_end = text.find("](")?;
    let label = &text[1..label_end];
    if label.contains(['[', '\n']) {
        return None;
    }
    let address_start = label_end + 2;
    let mut open = 0_usize;
    let end = text[address_start..].char_indices().find_map(|(at, letter)| match letter {
        '(' => {
            open += 1;
            None
        }
        ')' if open == 0 => Some(at),
        ')' => {
            open -= 1;
            None
        }
        _ => None,
    })?;
    let address = text[address_start..address_start + end].trim().trim_matches(['<', '>']);
    // These would end the address, or the link.
    if !is_address(address) || address.contains(['|', '<', '>', ' ']) {
        return None;
    }
    out.push('<');
    escape_into(address, out);
    if !label.is_empty() {
        out.push('|');
        escape_into(&label.replace('|', "/"), out);
    }
    out.push('>');
    Some(address_start + end + 1)
}

/// `<@U1>`, `<#C1>`, `<https://…>`: Slack's own way to name something stays as it is.
fn entity(text: &str, out: &mut String) -> Option<usize> {
    let end = text.find('>')?;
    let inside = &text[1..end];
    let is_name = |inside: &str| {
        let id = inside.split('|').next().unwrap_or_default();
        id.len() > 1 && id.chars().skip(1).all(|letter| letter.is_ascii_alphanumeric())
    };
    let known = match inside.chars().next()? {
        '@' | '#' => is_name(inside),
        _ => is_address(inside.split('|').next().unwrap_or_default()),
    };
    if !known || inside.contains(['\n', '<']) {
        return None;
    }
    out.push_str(&text[..=end]);
    Some(end + 1)
}

fn is_address(text: &str) -> bool {
    let known = ["http://", "https://", "mailto:", "tel:"];
    !text.contains('\n') && known.iter().any(|scheme| text.len() > scheme.len() && text.starts_with(scheme))
}

fn emphasis(text: &str, depth: usize, out: &mut String) -> Option<usize> {
    let styles = [("***", "*_", "_*"), ("**", "*", "*"), ("*", "_", "_"), ("~~", "~", "~")];
    let (mark, open, close) = styles.into_iter().find(|(mark, ..)| text.starts_with(mark))?;
    let inside = &text[mark.len()..];
    let first = inside.chars().next()?;
    if first.is_whitespace() || inside.starts_with(&mark[..1]) {
        return None;
    }
    let mut from = first.len_utf8();
    let end = loop {
        let at = from + inside[from..].find(mark)?;
        let single = mark != "*" || (!inside[at..].starts_with("**") && !inside[..at].ends_with('*'));
        match single && !inside[..at].ends_with(char::is_whitespace) {
            true => break at,
            false => from = at + mark.len(),
        }
    };
    out.push_str(open);
    out.push_str(&inline(&inside[..end], depth + 1));
    out.push_str(close);
    Some(mark.len() * 2 + end)
}

fn escape_into(text: &str, out: &mut String) {
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            other => out.push(other),
        }
    }
}

// --------------------------------------------------------------------------------------- cutting

/// A piece of a text: bodies in a row are the text, whole and in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SlackPiece<'a> {
    /// The language of a fence that an earlier piece had to close.
    pub reopened: Option<String>,
    pub body: &'a str,
    /// A fence is still open at its end.
    pub unclosed: bool,
}

impl SlackPiece<'_> {
    fn text(&self) -> String {
        let mut text = String::with_capacity(self.body.len() + 16);
        if let Some(language) = &self.reopened {
            text.push_str("```");
            text.push_str(language);
            text.push('\n');
        }
        text.push_str(self.body.trim_end_matches('\n'));
        if self.unclosed {
            text.push_str("\n```");
        }
        text
    }
}

/// The messages in which `markdown` leaves: each within what Slack takes once it is translated, code
/// closed and reopened around a cut. Words come before files, each of which leaves by itself.
pub(super) fn parts(markdown: &str) -> Vec<String> {
    let (words, files) = apart(markdown);
    let pieces = pieces(&words, LENGTH_MAX);
    let texts = pieces.iter().filter(|piece| !piece.body.trim().is_empty()).map(SlackPiece::text);
    let texts = texts.map(|text| text.trim_matches('\n').to_owned());
    let parts: Vec<String> = texts.chain(files).collect();
    match parts.is_empty() {
        true => vec![markdown.to_owned()],
        false => parts,
    }
}

/// The words of a reply, and the lines that stand for files. In a fence such a line is an example.
fn apart(markdown: &str) -> (String, Vec<String>) {
    let (mut words, mut files) = (String::with_capacity(markdown.len()), Vec::new());
    let mut fence = None;
    for line in markdown.split_inclusive('\n') {
        let content = line.trim_end_matches('\n');
        match (fence, fence_marker(content)) {
            (None, Some(opened)) => fence = Some(opened),
            (Some(opened), Some(closed)) if closes(opened, closed, content) => fence = None,
            _ => {}
        }
        match fence.is_none() && media::tagged(content).is_some() {
            true => files.push(content.trim().to_owned()),
            false => words.push_str(line),
        }
    }
    (words, files)
}

pub(super) fn pieces(markdown: &str, limit: usize) -> Vec<SlackPiece<'_>> {
    // Room for a fence that is reopened and closed.
    let room = limit.saturating_sub(LANGUAGE_MAX + 8).max(16);
    let mut pieces = Vec::new();
    let mut fence: Option<SlackFence> = None;
    let mut start = 0;
    let mut at = 0;
    let mut weight = 0;
    let mut reopened = None;
    let cut = |start: usize, at: usize, reopened: &mut Option<String>, fence: Option<&SlackFence>| {
        let piece =
            SlackPiece { reopened: reopened.take(), body: &markdown[start..at], unclosed: fence.is_some() };
        *reopened = fence.map(|fence| fence.language.clone());
        piece
    };
    for line in markdown.split_inclusive('\n') {
        let content = line.trim_end_matches('\n');
        let heavy = cost(line);
        if at > start && weight + heavy > room {
            pieces.push(cut(start, at, &mut reopened, fence.as_ref()));
            (start, weight) = (at, 0);
        }
        // A line too long for a message of its own is cut at a space, or else anywhere.
        let mut rest = line;
        while let Some(cut_at) = breaking_point(rest, room) {
            at += cut_at;
            pieces.push(cut(start, at, &mut reopened, fence.as_ref()));
            (start, weight) = (at, 0);
            rest = &rest[cut_at..];
        }
        at += rest.len();
        weight += cost(rest);
        match (&fence, fence_marker(content)) {
            (None, Some(marker)) => fence = Some(SlackFence { marker, language: language(content) }),
            (Some(open), Some(marker)) if closes(open.marker, marker, content) => fence = None,
            _ => {}
        }
    }
    if at > start {
        // A fence that was never closed is closed in what is shown.
        pieces.push(cut(start, at, &mut reopened, fence.as_ref()));
    }
    pieces
}

struct SlackFence {
    marker: (char, usize),
    language: String,
}

/// The fence that a line is, if it is one: its character, and how many.
fn fence_marker(line: &str) -> Option<(char, usize)> {
    let line = line.trim_start_matches(' ');
    let letter = line.chars().next().filter(|letter| matches!(letter, '`' | '~'))?;
    let count = line.len() - line.trim_start_matches(letter).len();
    (count >= 3 && !line[count..].contains('`')).then_some((letter, count))
}

fn closes(opened: (char, usize), marker: (char, usize), line: &str) -> bool {
    opened.0 == marker.0 && marker.1 >= opened.1 && line.trim().trim_start_matches(marker.0).is_empty()
}

fn language(line: &str) -> String {
    let words = line.trim_start_matches([' ', '`', '~']).trim();
    let language = words.chars().take_while(|letter| !letter.is_whitespace());
    language.filter(|letter| letter.is_ascii_graphic()).take(LANGUAGE_MAX).collect()
}

/// At most as long as the text becomes in translation, in UTF-16 units.
fn cost(text: &str) -> usize {
    text.chars().map(weight).sum()
}

fn weight(letter: char) -> usize {
    match letter {
        '&' => 5,
        '<' | '>' => 4,
        other => other.len_utf16(),
    }
}

/// Where to cut a line that is too long: after the last space that fits, or else after as much as fits. Looks no
/// further than that.
fn breaking_point(line: &str, room: usize) -> Option<usize> {
    let mut used = 0;
    let mut space = None;
    for (at, letter) in line.char_indices() {
        used += weight(letter);
        if used > room {
            // A space in the first half would waste the rest of the message.
            return Some(space.filter(|space| *space > at / 2).unwrap_or(at).max(1));
        }
        if letter == ' ' {
            space = Some(at + 1);
        }
    }
    None
}

/// Not more than fits into one message, for what is only shown in passing.
pub(super) fn clipped(markdown: &str) -> String {
    let whole = pieces(markdown, LENGTH_MAX);
    match whole.as_slice() {
        [] | [_] => mrkdwn(markdown),
        [first, ..] => mrkdwn(&format!("{} …", first.text())),
    }
}

// ------------------------------------------------------------------------------------- coming in

/// What a person wrote, from what Slack made of it: `<https://x|label>` and `&amp;` undone. Names of
/// people and channels stay addressable.
pub fn plain(slack: &str) -> String {
    let mut out = String::with_capacity(slack.len());
    let mut rest = slack;
    while let Some(start) = rest.find('<') {
        let Some(end) = rest[start..].find('>') else { break };
        unescape_into(&rest[..start], &mut out);
        unwrap_into(&rest[start + 1..start + end], &mut out);
        rest = &rest[start + end + 1..];
    }
    unescape_into(rest, &mut out);
    out
}

fn unwrap_into(inside: &str, out: &mut String) {
    let (target, label) = match inside.split_once('|') {
        Some((target, label)) => (target, Some(label).filter(|label| !label.is_empty())),
        None => (inside, None),
    };
    match (target.chars().next(), label) {
        (Some('@'), _) => {
            out.push('<');
            out.push_str(target);
            out.push('>');
        }
        (Some('#'), Some(name)) => {
            out.push('#');
            unescape_into(name, out);
        }
        (Some('#'), None) => {
            out.push('<');
            out.push_str(target);
            out.push('>');
        }
        (Some('!'), label) => match (target, label) {
            ("!here" | "!channel" | "!everyone", _) => {
                out.push('@');
                out.push_str(&target[1..]);
            }
            (_, Some(label)) => unescape_into(label, out),
            (_, None) => out.push_str(&target[1..]),
        },
        (_, Some(label)) if !same_address(target, label) => {
            unescape_into(label, out);
            out.push_str(" (");
            unescape_into(target, out);
            out.push(')');
        }
        _ => unescape_into(target, out),
    }
}

/// Slack shows `example.com` for `http://example.com`: one address, not two.
fn same_address(target: &str, label: &str) -> bool {
    let bare = |text: &str| {
        let text = text.trim_start_matches("https://").trim_start_matches("http://");
        text.trim_start_matches("mailto:").trim_start_matches("tel:").trim_end_matches('/').to_owned()
    };
    bare(target) == bare(label)
}

fn unescape_into(text: &str, out: &mut String) {
    let mut rest = text;
    while let Some(start) = rest.find('&') {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let known = [("&lt;", '<'), ("&gt;", '>'), ("&amp;", '&')];
        match known.into_iter().find(|(name, _)| rest.starts_with(name)) {
            Some((name, letter)) => {
                out.push(letter);
                rest = &rest[name.len()..];
            }
            None => {
                out.push('&');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
}

/// `text` without a mention of `user` at its beginning.
pub(super) fn without_leading_mention<'a>(text: &'a str, user: &str) -> &'a str {
    let mut text = text.trim();
    let bare = format!("<@{user}>");
    let named = format!("<@{user}|");
    loop {
        let rest = match (text.strip_prefix(&bare), text.strip_prefix(&named)) {
            (Some(rest), _) => rest,
            (None, Some(rest)) => match rest.split_once('>') {
                Some((_, rest)) => rest,
                None => return text,
            },
            (None, None) => return text,
        };
        text = rest.trim_start().trim_start_matches([':', ',']).trim_start();
    }
}

pub(super) fn mentions(text: &str, user: &str) -> bool {
    text.contains(&format!("<@{user}>")) || text.contains(&format!("<@{user}|"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn markdown_is_written_as_slack_reads_it() {
        for (markdown, expected) in [
            ("plain", "plain"),
            ("**bold** and *it* and ***both*** and ~~gone~~", "*bold* and _it_ and *_both_* and ~gone~"),
            ("a * b * c", "a * b * c"),
            ("2 ** 3 ** 4", "2 ** 3 ** 4"),
            ("# Title\n## **Sub** & more", "*Title*\n*Sub &amp; more*"),
            ("#hashtag", "#hashtag"),
            ("> quoted **x**", "> quoted *x*"),
            ("[docs](https://x.y/a?b=1&c=2)", "<https://x.y/a?b=1&amp;c=2|docs>"),
            ("[wiki](https://x.y/a_(b))", "<https://x.y/a_(b)|wiki>"),
            ("![alt](https://x.y/p.png)", "<https://x.y/p.png|alt>"),
            ("[not a link](javascript:alert(1))", "[not a link](javascript:alert(1))"),
            ("a < b && c > d", "a &lt; b &amp;&amp; c &gt; d"),
            ("&lt;tag&gt; &amp; co", "&lt;tag&gt; &amp; co"),
            ("`a < **b**`", "`a &lt; **b**`"),
            ("``x ` y``", "`x ` y`"),
            ("```rust\nlet x = *y < 3;\n```\n**after**", "```\nlet x = *y &lt; 3;\n```\n*after*"),
            (
                "hi <@U12> in <#C9|general>, see <https://x.y>",
                "hi <@U12> in <#C9|general>, see <https://x.y>",
            ),
            ("<!channel> wake up", "&lt;!channel&gt; wake up"),
            ("<script>", "&lt;script&gt;"),
            ("**unclosed", "**unclosed"),
            ("**", "**"),
            ("snake_case_name _it_", "snake_case_name _it_"),
        ] {
            assert_eq!(mrkdwn(markdown), expected, "{markdown}");
        }
    }

    #[test]
    fn what_slack_wrapped_is_unwrapped() {
        for (slack, expected) in [
            ("a &lt; b &amp;&amp; c &gt; d", "a < b && c > d"),
            ("&amp;lt;", "&lt;"),
            ("see <https://x.y/?a=1&amp;b=2>", "see https://x.y/?a=1&b=2"),
            ("see <http://x.y|x.y>", "see http://x.y"),
            ("see <https://x.y|the docs>", "see the docs (https://x.y)"),
            ("<mailto:a@b.c|a@b.c>", "mailto:a@b.c"),
            ("<@U1> and <@U2|bob> in <#C1|general> and <#C2>", "<@U1> and <@U2> in #general and <#C2>"),
            ("<!here> <!subteam^S1|@team> <!date^1^{date}|today>", "@here @team today"),
            ("1 < 2", "1 < 2"),
            ("<", "<"),
            ("", ""),
        ] {
            assert_eq!(plain(slack), expected, "{slack}");
        }
    }

    #[test]
    fn a_mention_of_us_is_taken_off_the_front_only() {
        for (text, expected) in [
            ("<@U1> hello", "hello"),
            ("  <@U1|bot>: hello <@U1>", "hello <@U1>"),
            ("<@U1> <@U1>, hi", "hi"),
            ("hey <@U1>", "hey <@U1>"),
            ("<@U12> hello", "<@U12> hello"),
            ("<@U1|broken", "<@U1|broken"),
        ] {
            assert_eq!(without_leading_mention(text, "U1"), expected);
        }
    }

    #[test]
    fn code_is_closed_before_a_cut_and_reopened_after_it() {
        let code: String = (0..300).map(|number| format!("let value_{number} = {number};\n")).collect();
        let parts = parts(&format!("Before\n```rust\n{code}```\nAfter"));
        assert!(parts.len() > 1);
        for part in &parts {
            let fences = part.lines().filter(|line| line.starts_with("```")).count();
            assert_eq!(fences % 2, 0, "{part}");
            assert!(mrkdwn(part).encode_utf16().count() <= LENGTH_MAX);
        }
        assert!(parts[1].starts_with("```rust\nlet value_"));
        assert!(parts.last().unwrap().ends_with("```\nAfter"));
    }

    #[test]
    fn files_leave_by_themselves_and_after_the_words() {
        let text = "Here:\nMEDIA:/tmp/a.png\nMEDIA:/tmp/b.png\nand\n```\nMEDIA:/tmp/c.png\n```";
        assert_eq!(
            parts(text),
            ["Here:\nand\n```\nMEDIA:/tmp/c.png\n```", "MEDIA:/tmp/a.png", "MEDIA:/tmp/b.png"]
        );
    }

    fn text() -> impl Strategy<Value = String> {
        let words = prop::sample::select(vec![
            "word ",
            "\n",
            "```\n",
            "```rust\n",
            "~~~\n",
            "**",
            "*",
            "~~",
            "`",
            "[a](",
            "https://x.y",
            ")",
            "<",
            ">",
            "&",
            "&amp;",
            "<@U1>",
            "<!here>",
            "🦀",
            "ü",
            "# ",
            "> ",
            "|",
            "MEDIA:/tmp/a.png\n",
            "x",
            " ",
        ]);
        prop::collection::vec(words, 0..400).prop_map(|words| words.concat())
    }

    proptest! {
        #[test]
        fn cutting_loses_no_character(text in text(), limit in 64_usize..600) {
            let pieces = pieces(&text, limit);
            let whole: String = pieces.iter().map(|piece| piece.body).collect();
            prop_assert_eq!(&whole, &text);
            for piece in &pieces {
                let shown = mrkdwn(&piece.text());
                prop_assert!(shown.encode_utf16().count() <= limit.max(64), "{:?} -> {}", piece, shown);
            }
        }

        #[test]
        fn nothing_that_is_written_breaks_the_translation(text in ".{0,300}", markdown in text()) {
            let _ = (mrkdwn(&text), plain(&text), parts(&text), clipped(&text));
            let shown = mrkdwn(&markdown);
            prop_assert!(!shown.contains("<!"));
            let _ = plain(&shown);
        }

        #[test]
        fn plain_words_come_back_as_they_left(text in "[a-zA-Z0-9 .,;:?<>&'\"/+-]{0,200}") {
            // Quotes and headings are markup; words are not.
            prop_assume!(!text.starts_with(['>', '#']) && !text.contains("://") && !text.contains("mailto:") && !text.contains("tel:") && !text.contains("&lt;") && !text.contains("&gt;") && !text.contains("&amp;"));
            prop_assert_eq!(plain(&mrkdwn(&text)), text);
        }
    }
}
