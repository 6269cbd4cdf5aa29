//! Another program's compressor, on the same cases, the same window and the same summariser.
//!
//! It speaks in lines of JSON. It is told `{"messages": […], "window": n}` and answers either
//! `{"ask": "…"}`, which is what its summariser would be sent, and gets `{"answer": "…"}` or
//! `{"failed": "…"}`; or `{"messages": […]}`, which is its view, or `{"error": "…"}`. At the end of
//! its input it ends.

use crate::case::EvalCase;
use crate::message_json::{from_json, to_json};
use crate::run::{CaseOutcome, outcome_of};
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use throughline_core::message::Message;

/// How often it may ask during one case. An engine that needs more goes round in circles.
const ASKS_MAX: usize = 16;

pub struct PeerCompressor {
    name: String,
    child: Child,
    /// None once it has been told to end.
    told: Option<ChildStdin>,
    said: BufReader<ChildStdout>,
}

/// Answers a request to summarise. None: there is no summariser.
pub type AnswerSummaryRequest<'a> = &'a dyn Fn(&str) -> Option<String>;

impl PeerCompressor {
    pub fn start(name: &str, command: &mut Command) -> io::Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (told, said) = (child.stdin.take(), child.stdout.take());
        let said = said.ok_or_else(|| io::Error::other("its output is not piped"))?;
        Ok(Self { name: name.to_owned(), child, told, said: BufReader::new(said) })
    }

    pub fn run_case(&mut self, case: &EvalCase, summariser: AnswerSummaryRequest<'_>) -> CaseOutcome {
        let view = self.view(case, summariser);
        outcome_of(&self.name, case, view)
    }

    fn view(
        &mut self,
        case: &EvalCase,
        summariser: AnswerSummaryRequest<'_>,
    ) -> Result<Vec<Message>, String> {
        let messages: Vec<Value> = case.messages.iter().map(to_json).collect();
        let mut next = json!({"messages": messages, "window": case.window, "tokens": case.tokens()});
        for _ in 0..=ASKS_MAX {
            let answer = self.exchange(&next).map_err(|error| format!("{} is gone: {error}", self.name))?;
            if let Some(messages) = answer["messages"].as_array() {
                return messages.iter().map(from_json).collect();
            }
            let Some(request) = answer["ask"].as_str() else {
                return Err(answer["error"].as_str().unwrap_or("it said nothing sensible").to_owned());
            };
            next = match summariser(request) {
                Some(text) => json!({"answer": text}),
                None => json!({"failed": "no summary could be written"}),
            };
        }
        Err(format!("it asked more than {ASKS_MAX} times"))
    }

    fn exchange(&mut self, line: &Value) -> io::Result<Value> {
        let told = self.told.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        writeln!(told, "{line}")?;
        told.flush()?;
        let mut said = String::new();
        match self.said.read_line(&mut said)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => serde_json::from_str(&said).map_err(io::Error::from),
        }
    }
}

impl Drop for PeerCompressor {
    fn drop(&mut self) {
        self.told = None; // the end of its input
        let _ = self.child.wait();
    }
}
