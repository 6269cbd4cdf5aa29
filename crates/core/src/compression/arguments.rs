//! What a call was given, read leniently: the fields of a JSON object, and the same object with its long
//! texts shortened.
//!
//! This is no parser: it decides nothing, and only helps to describe what was done. Something that is not
//! JSON gives no fields and is not made worse. Work grows with the length of the text.

/// The fields of the outermost object, in order: texts without their quotes, everything else as written.
pub fn fields(arguments: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut reader = Reader { rest: arguments.trim_start() };
    if !reader.take('{') {
        return found;
    }
    while let Some(key) = reader.string() {
        if !reader.take(':') {
            break;
        }
        let Some(value) = reader.value() else { break };
        found.push((key, value));
        if !reader.take(',') {
            break;
        }
    }
    found
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn take(&mut self, expected: char) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(expected) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn string(&mut self) -> Option<String> {
        self.rest = self.rest.trim_start();
        let literal = literal(self.rest)?;
        self.rest = &self.rest[literal.len()..];
        Some(unescaped(literal.get(1..literal.len() - 1)?))
    }

    fn value(&mut self) -> Option<String> {
        self.rest = self.rest.trim_start();
        if self.rest.starts_with('"') {
            return self.string();
        }
        let mut depth = 0usize;
        let mut at = 0;
        while at < self.rest.len() {
            let byte = self.rest.as_bytes()[at];
            match byte {
                b'"' => {
                    at += literal(&self.rest[at..])?.len();
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' if depth == 0 => break,
                b'}' | b']' => depth -= 1,
                b',' if depth == 0 => break,
                _ => {}
            }
            at += 1;
        }
        let value = self.rest[..at].trim_end().to_owned();
        self.rest = &self.rest[at..];
        Some(value)
    }
}

/// The string literal at the beginning of `text`, quotes included.
fn literal(text: &str) -> Option<&str> {
    let inner = text.strip_prefix('"')?;
    let mut escaped = false;
    for (at, byte) in inner.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(&text[..at + 2]),
            _ => {}
        }
    }
    None
}

fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let Some(code) = rest.chars().next() else { break };
        rest = &rest[code.len_utf8()..];
        match code {
            'n' => out.push('\n'),
            't' => out.push('\t'),
            'r' => out.push('\r'),
            'b' | 'f' => out.push(' '),
            'u' => {
                let (character, length) = code_point(rest);
                out.push(character);
                rest = &rest[length..];
            }
            other => out.push(other),
        }
    }
    out.push_str(rest);
    out
}

/// The character whose code `text` begins with, in one half or two, and how much of it that takes.
fn code_point(text: &str) -> (char, usize) {
    let unit = |text: &str| u32::from_str_radix(text.get(..4)?, 16).ok();
    let Some(high) = unit(text) else { return (char::REPLACEMENT_CHARACTER, 0) };
    let low = text.get(4..).and_then(|rest| rest.strip_prefix("\\u")).and_then(unit);
    let (code, length) = match (high, low) {
        (0xd800..0xdc00, Some(low @ 0xdc00..0xe000)) => {
            (0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00), 10)
        }
        _ => (high, 4),
    };
    (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), length)
}

/// The same JSON with every text in it cut to about `most` characters. What was valid stays valid.
pub fn shortened(arguments: &str, most: usize) -> String {
    let mut out = String::with_capacity(arguments.len().min(4 * most));
    let mut rest = arguments;
    while let Some(at) = rest.find('"') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let Some(literal) = literal(rest) else { break };
        let inner = &literal[1..literal.len() - 1];
        let kept = whole_characters(inner, most);
        out.push('"');
        out.push_str(&inner[..kept]);
        out.push_str(if kept < inner.len() { "...[truncated]\"" } else { "\"" });
        rest = &rest[literal.len()..];
    }
    out.push_str(rest);
    out
}

/// The length of the first so many characters of a literal's inside, none of them cut in two.
fn whole_characters(inner: &str, most: usize) -> usize {
    let mut at = 0;
    for _ in 0..most {
        let rest = &inner[at..];
        at += match (rest.strip_prefix("\\u"), rest.chars().next()) {
            (Some(code), _) => 2 + code_point(code).1,
            (None, Some('\\')) => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            (None, Some(character)) => character.len_utf8(),
            (None, None) => break,
        };
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pairs(arguments: &str) -> Vec<(String, String)> {
        fields(arguments)
    }

    #[test]
    fn fields_are_read_as_they_were_meant() {
        let found = pairs(r#" {"path": "/a \"b\".txt", "n": 3, "deep": {"x": ["}", 1]}, "ok":true} "#);
        let found: Vec<_> = found.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(
            found,
            [("path", "/a \"b\".txt"), ("n", "3"), ("deep", r#"{"x": ["}", 1]}"#), ("ok", "true")]
        );
        assert_eq!(pairs(r#"{"t":"a\u00e9\ud83d\ude00\n"}"#), [("t".to_owned(), "aé😀\n".to_owned())]);
        for nothing in ["", "{}", "[1]", "not json", "{\"a\"", "{\"a\":\"open"] {
            assert_eq!(pairs(nothing), [], "{nothing}");
        }
    }

    #[test]
    fn long_texts_are_shortened_and_the_rest_is_untouched() {
        let long = format!(r#"{{"path":"/x","content":"{}","n":[1,"é"]}}"#, "a\\n".repeat(400));
        let short = shortened(&long, 20);
        assert!(short.len() < 120, "{short}");
        let found = pairs(&short);
        assert_eq!(found[0].1, "/x");
        assert!(found[1].1.ends_with("...[truncated]"));
        assert_eq!(found[2].1, r#"[1,"é"]"#);
        assert_eq!(shortened("no \"json", 3), "no \"json");
    }

    proptest! {
        #[test]
        fn any_text_can_be_read_and_shortened(text in "(?s)[\\{\\}\\[\\]\",:\\\\ud0-9a-fé😀 ]{0,80}", most in 0usize..20) {
            let _ = fields(&text);
            let _ = shortened(&text, most);
        }

        #[test]
        fn a_shortened_object_has_the_same_fields(values in prop::collection::vec("[a-z\"\\\\\n😀é]{0,40}", 1..6)) {
            let quoted = |text: &str| format!("{:?}", text.replace('😀', "x")).replace("\\'", "'");
            let parts: Vec<_> = values.iter().enumerate().map(|(n, v)| format!("\"k{n}\":{}", quoted(v))).collect();
            let object = format!("{{{}}}", parts.join(","));
            let short = shortened(&object, 10);
            prop_assert_eq!(pairs(&short).len(), values.len(), "{}", short);
        }
    }
}
