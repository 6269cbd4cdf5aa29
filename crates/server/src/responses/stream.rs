//! A response as a stream of events.

use super::object::{
    CallItem, MessageItem, OutputText, ResponseObject, ResponseOf, ResponseStatus, standing,
};
use crate::error::ApiError;
use crate::sse::{self, StreamFormat, ToolEvent};
use crate::streamed_text::StreamedText;
use crate::turn_follower::ClientReply;
use serde::Serialize;
use throughline_core::Time;
use throughline_core::port::{Delta, Settled};

/// A response as it happens. The deltas may hold more than the answer (see `streamed_text`); the events
/// that end it carry the answer alone.
pub(super) struct ResponseEvents {
    response: ResponseOf,
    next_number: u64,
    is_open: bool,
    shown: StreamedText,
}

#[derive(Serialize)]
struct ResponseEvent<'a, T> {
    r#type: &'static str,
    sequence_number: u64,
    #[serde(flatten)]
    what: &'a T,
}

#[derive(Serialize)]
struct OfResponse<'a> {
    response: &'a ResponseObject<'a>,
}

#[derive(Serialize)]
struct OfItem<'a, T> {
    output_index: usize,
    item: &'a T,
}

#[derive(Serialize)]
struct OfArguments<'a> {
    item_id: &'a str,
    output_index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    delta: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<&'a str>,
}

#[derive(Serialize)]
struct OfPart<'a> {
    item_id: &'a str,
    output_index: u32,
    content_index: u32,
    part: OutputText<'a>,
}

#[derive(Serialize)]
struct OfText<'a> {
    item_id: &'a str,
    output_index: u32,
    content_index: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    delta: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    logprobs: [(); 0],
}

#[derive(Serialize)]
struct OfError<'a> {
    code: &'a str,
    message: &'a str,
    param: Option<&'a str>,
}

/// Numbers the events of one stream.
struct Teller<'a> {
    next_number: &'a mut u64,
    out: &'a mut Vec<u8>,
}

impl Teller<'_> {
    fn tell(&mut self, name: &'static str, what: &impl Serialize) {
        let happening = ResponseEvent { r#type: name, sequence_number: *self.next_number, what };
        sse::event(name, &happening, self.out);
        *self.next_number += 1;
    }
}

impl ResponseEvents {
    pub(super) fn new(response: ResponseOf) -> Self {
        Self { response, next_number: 0, is_open: false, shown: StreamedText::default() }
    }

    fn open(&mut self, out: &mut Vec<u8>) {
        if self.is_open {
            return;
        }
        self.is_open = true;
        let id = self.response.item.as_str();
        let item = MessageItem {
            r#type: "message",
            id,
            status: ResponseStatus::InProgress,
            role: "assistant",
            content: &[],
        };
        let mut teller = Teller { next_number: &mut self.next_number, out };
        teller.tell("response.output_item.added", &OfItem { output_index: 0, item: &item });
        let part = OfPart { item_id: id, output_index: 0, content_index: 0, part: OutputText::new("") };
        teller.tell("response.content_part.added", &part);
    }

    fn say(&mut self, words: &str, out: &mut Vec<u8>) {
        if words.is_empty() {
            return;
        }
        self.open(out);
        let mut teller = Teller { next_number: &mut self.next_number, out };
        teller.tell("response.output_text.delta", &of_text(&self.response.item, Some(words), None));
    }

    fn end(&mut self, reply: &ClientReply<'_>, out: &mut Vec<u8>) {
        let rest = self.shown.finish(&reply.text);
        self.say(&rest, out);
        let spoke = self.is_open || reply.has_words();
        if spoke {
            self.open(out);
        }
        let Self { response, next_number, .. } = self;
        let mut teller = Teller { next_number, out };
        if spoke {
            let id = response.item.as_str();
            teller.tell("response.output_text.done", &of_text(id, None, Some(&reply.text)));
            let part =
                OfPart { item_id: id, output_index: 0, content_index: 0, part: OutputText::new(&reply.text) };
            teller.tell("response.content_part.done", &part);
            let (content, (status, _)) = ([OutputText::new(&reply.text)], standing(reply.finish));
            let item = MessageItem { r#type: "message", id, status, role: "assistant", content: &content };
            teller.tell("response.output_item.done", &OfItem { output_index: 0, item: &item });
        }
        for (index, call) in reply.calls.iter().enumerate() {
            let output_index = index + usize::from(spoke);
            let begun = CallItem { status: ResponseStatus::InProgress, ..response.call(index, call, "") };
            teller.tell("response.output_item.added", &OfItem { output_index, item: &begun });
            let done = response.call(index, call, &call.arguments);
            let of = |delta, arguments| OfArguments { item_id: &done.id, output_index, delta, arguments };
            teller.tell("response.function_call_arguments.delta", &of(Some(done.arguments), None));
            teller.tell("response.function_call_arguments.done", &of(None, Some(done.arguments)));
            teller.tell("response.output_item.done", &OfItem { output_index, item: &done });
        }
        response.tell_answered(reply, |object| {
            let name = match object.status {
                ResponseStatus::Incomplete => "response.incomplete",
                _ => "response.completed",
            };
            teller.tell(name, &OfResponse { response: object });
        });
    }
}

fn of_text<'a>(item_id: &'a str, delta: Option<&'a str>, text: Option<&'a str>) -> OfText<'a> {
    OfText { item_id, output_index: 0, content_index: 0, delta, text, logprobs: [] }
}

impl StreamFormat for ResponseEvents {
    fn begin(&mut self, began: Option<Time>, out: &mut Vec<u8>) {
        if let Some(began) = began {
            self.response.created = began.whole_seconds();
        }
        let Self { response, next_number, .. } = self;
        let mut teller = Teller { next_number, out };
        let object = response.view(ResponseStatus::InProgress, &[]);
        teller.tell("response.created", &OfResponse { response: &object });
        teller.tell("response.in_progress", &OfResponse { response: &object });
    }

    fn delta(&mut self, delta: &Delta, out: &mut Vec<u8>) {
        if let Delta::Text(words) = delta {
            let words = self.shown.delta(words);
            self.say(&words, out);
        }
    }

    fn restarted(&mut self, out: &mut Vec<u8>) {
        self.shown.restart();
        out.extend_from_slice(b": the model was asked again\n\n");
    }

    fn working(&mut self, work: &ToolEvent<'_>, out: &mut Vec<u8>) {
        if matches!(work, ToolEvent::Calling { .. }) {
            self.shown.restart(); // what was said before a call is not the answer
        }
        if self.response.manner.tells_more {
            sse::progress(work, out);
        }
    }

    fn settled(&mut self, settled: &Settled, out: &mut Vec<u8>) -> bool {
        match ClientReply::of(settled) {
            Ok(reply) => {
                self.end(&reply, out);
                true
            }
            Err(error) => {
                let Self { response, next_number, .. } = self;
                let object = response.failed(&error);
                Teller { next_number, out }.tell("response.failed", &OfResponse { response: &object });
                false
            }
        }
    }

    /// The response is still in progress; it is the stream that ends.
    fn broken(&mut self, error: ApiError, out: &mut Vec<u8>) {
        let what = OfError { code: error.code_or("server_error"), message: error.message(), param: None };
        Teller { next_number: &mut self.next_number, out }.tell("error", &what);
    }
}
