//! Server-sent events out of bytes, across all boundaries of what arrives.
//!
//! As the HTML standard has it: any of the three line ends, fields without a colon, unknown fields
//! and comments pass in silence. Two things differ: an event has a size limit, and one that the
//! stream ended in counts, because servers forget the last empty line. `id` and `retry` are for
//! clients that reconnect, which a request that costs money must not.

use crate::error::UnreadableEvent;
use std::collections::VecDeque;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerSentEvent {
    pub name: Option<String>,
    pub data: String,
}

#[derive(Debug)]
pub struct Parser {
    limit: usize,
    line: Vec<u8>,
    name: Option<Vec<u8>>,
    data: Option<Vec<u8>>,
    ready: VecDeque<ServerSentEvent>,
    /// The last byte was a carriage return: a line feed right after it ends no further line.
    after_return: bool,
    at_start: bool,
}

impl Parser {
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            name: None,
            data: None,
            ready: VecDeque::new(),
            after_return: false,
            at_start: true,
        }
    }

    pub fn push(&mut self, bytes: &[u8]) -> Result<(), UnreadableEvent> {
        let mut rest = bytes;
        if self.after_return && !rest.is_empty() {
            self.after_return = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            self.hold(&rest[..end])?;
            self.end_line()?;
            let is_return = rest[end] == b'\r';
            rest = &rest[end + 1..];
            if is_return {
                self.after_return = rest.is_empty();
                rest = rest.strip_prefix(b"\n").unwrap_or(rest);
            }
        }
        self.hold(rest)
    }

    /// The stream ended, as it should.
    pub fn finish(&mut self) -> Result<(), UnreadableEvent> {
        self.end_line()?;
        self.dispatch()
    }

    pub fn pop(&mut self) -> Option<ServerSentEvent> {
        self.ready.pop_front()
    }

    fn hold(&mut self, bytes: &[u8]) -> Result<(), UnreadableEvent> {
        let held = self.line.len() + self.data.as_ref().map_or(0, Vec::len);
        if held + bytes.len() > self.limit {
            return Err(UnreadableEvent::EventTooLong { limit: self.limit });
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self) -> Result<(), UnreadableEvent> {
        let mut line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.at_start) && line.starts_with(BYTE_ORDER_MARK) {
            line.drain(..BYTE_ORDER_MARK.len());
        }
        if line.is_empty() {
            return self.dispatch();
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &line[..colon] {
            b"data" => match &mut self.data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                None => self.data = Some(value.to_vec()),
            },
            b"event" => self.name = Some(value.to_vec()),
            _ => {}
        }
        line.clear();
        self.line = line; // its room is used again
        Ok(())
    }

    fn dispatch(&mut self) -> Result<(), UnreadableEvent> {
        let name = self.name.take();
        let Some(data) = self.data.take() else { return Ok(()) };
        let text = |bytes| String::from_utf8(bytes).map_err(|_| UnreadableEvent::NotUtf8);
        let name = name.map(text).transpose()?.filter(|name| !name.is_empty());
        self.ready.push_back(ServerSentEvent { name, data: text(data)? });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(chunks: &[&[u8]]) -> Result<Vec<(String, String)>, UnreadableEvent> {
        let mut parser = Parser::new(1000);
        let mut seen = Vec::new();
        let mut take = |parser: &mut Parser| {
            while let Some(event) = parser.pop() {
                seen.push((event.name.unwrap_or_default(), event.data));
            }
        };
        for chunk in chunks {
            parser.push(chunk)?;
            take(&mut parser);
        }
        parser.finish()?;
        take(&mut parser);
        Ok(seen)
    }

    const STREAM: &str = "\u{feff}: welcome\r\n\r\nevent: greeting\r\ndata: grüß\r\ndata: 🦀 dich\r\n\r\ndata:{\"a\":1}\rid: 7\r\rretry: 5\nunknown: x\nbare\ndata\n\nevent: lost\n\nevent: a\nevent: b\ndata: \u{2028}x\n\ndata: [DONE]";

    fn expected() -> Vec<(String, String)> {
        [("greeting", "grüß\n🦀 dich"), ("", "{\"a\":1}"), ("", ""), ("b", "\u{2028}x"), ("", "[DONE]")]
            .map(|(name, data)| (name.to_owned(), data.to_owned()))
            .to_vec()
    }

    #[test]
    fn every_split_of_a_stream_gives_the_same_events() {
        let bytes = STREAM.as_bytes();
        assert_eq!(events(&[bytes]).unwrap(), expected());
        for first in 0..=bytes.len() {
            assert_eq!(events(&[&bytes[..first], &bytes[first..]]).unwrap(), expected(), "cut at {first}");
            for second in first..=bytes.len() {
                let chunks = [&bytes[..first], &bytes[first..second], &bytes[second..]];
                assert_eq!(events(&chunks).unwrap(), expected(), "cut at {first} and {second}");
            }
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(events(&single).unwrap(), expected());
    }

    #[test]
    fn an_endless_event_is_refused_and_a_long_stream_is_not() {
        let line = [b'x'; 600];
        assert_eq!(events(&[b"data: ", &line, &line]), Err(UnreadableEvent::EventTooLong { limit: 1000 }));
        let halves: [&[u8]; 6] = [b"data: ", &line, b"\n", b"data: ", &line, b"\n"];
        assert_eq!(events(&halves), Err(UnreadableEvent::EventTooLong { limit: 1000 }));
        let many = "data: 0123456789\n\n".repeat(1000);
        assert_eq!(events(&[many.as_bytes()]).unwrap().len(), 1000);
        let comments = ": still here\n".repeat(1000);
        assert_eq!(events(&[comments.as_bytes()]).unwrap(), []);
    }

    #[test]
    fn invalid_utf8_is_an_error() {
        assert_eq!(events(&[b"data: \xff\n\n"]), Err(UnreadableEvent::NotUtf8));
        assert_eq!(events(&[b"data: \xe2\x82"]), Err(UnreadableEvent::NotUtf8));
        assert_eq!(events(&[b"\xff\xfe: x\n\n"]), Ok(vec![]));
    }
}
