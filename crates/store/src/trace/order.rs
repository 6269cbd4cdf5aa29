//! The order in which a story is told: by time, and nothing before what led to it.

use throughline_core::port::Trace;
use throughline_core::time::Time;

/// By their times, and what is said about the end at the end. A clock that was set back says nothing about the order of
/// what was stored under both: then nothing is told before what led to it.
pub(super) fn in_order(story: Vec<Trace>) -> Vec<Trace> {
    let mut timed: Vec<(Time, Trace)> = Vec::with_capacity(story.len());
    for message in story.chunk_by(|_, next| next.name != "received") {
        timed.extend(times(message).into_iter().zip(message.iter().cloned()));
    }
    timed.sort_by_key(|(time, trace)| (*time, trace.name == "late"));
    timed.into_iter().map(|(_, trace)| trace).collect()
}

/// When each of these happened at the earliest, by what is told of one message as `StoreReader::tell` tells it.
fn times(message: &[Trace]) -> Vec<Time> {
    let is_end = |trace: &Trace| matches!(trace.name.as_str(), "answered" | "failed" | "done" | "moved");
    let is_step = |trace: &Trace| matches!(trace.name.as_str(), "answered_by_model" | "call");
    let named = |name: &str| message.iter().find(|trace| trace.name == name).map(|trace| trace.at);
    let received = named("received").unwrap_or_default();
    let (began, joined) = (named("turn_began"), named("joined_turn"));
    let taken = began.or(joined).unwrap_or(received).max(received);
    let last_step =
        message.iter().filter(|trace| is_step(trace)).map(|trace| trace.at).max().unwrap_or(taken);
    let was_set_back = message.iter().any(|trace| match trace.name.as_str() {
        "turn_began" | "joined_turn" => trace.at < received,
        _ if is_end(trace) => trace.at < began.or(joined).unwrap_or(received),
        _ => is_step(trace) && began.is_some_and(|began| trace.at < began),
    });
    let (mut step, mut written) = (taken, received);
    let mut times: Vec<Time> = Vec::with_capacity(message.len());
    for trace in message {
        times.push(match trace.name.as_str() {
            "queued" | "waiting" => trace.at.max(received),
            "turn_began" | "joined_turn" => taken,
            "reply_written" => {
                written = if was_set_back { trace.at.max(step) } else { trace.at };
                written
            }
            name if name.starts_with("reply_") => trace.at.max(written),
            _ if was_set_back && is_end(trace) => trace.at.max(taken).max(last_step),
            _ if was_set_back && is_step(trace) => {
                step = trace.at.max(step);
                step
            }
            "late" => times.iter().copied().max().unwrap_or_default().max(trace.at),
            _ => trace.at,
        });
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_core::id::SessionId;

    fn told(names: &[(&str, i64)]) -> Vec<String> {
        let session: SessionId = "s".parse().expect("a plain id");
        let trace = |(name, at): &(&str, i64)| Trace {
            at: Time(*at),
            session: session.clone(),
            name: (*name).to_owned(),
            detail: String::new(),
        };
        in_order(names.iter().map(trace).collect()).into_iter().map(|trace| trace.name).collect()
    }

    #[test]
    fn p30_nothing_is_told_before_what_led_to_it_although_the_clock_was_set_back() {
        let story = [
            ("received", 100),
            ("queued", 100),
            ("turn_began", 103),
            ("answered", 9),
            ("answered_by_model", 105),
            ("call", 105),
            ("answered_by_model", 9),
            ("reply_written", 9),
            ("reply_delivered", 11),
            ("late", 11),
        ];
        let expected = [
            "received",
            "queued",
            "turn_began",
            "answered",
            "answered_by_model",
            "call",
            "answered_by_model",
            "reply_written",
            "reply_delivered",
            "late",
        ];
        assert_eq!(told(&story), expected);
    }

    #[test]
    fn p30_what_joined_a_turn_is_told_after_what_that_had_done_before() {
        let story = [
            ("received", 20),
            ("joined_turn", 25),
            ("answered", 40),
            ("answered_by_model", 10),
            ("answered_by_model", 40),
        ];
        let expected = ["answered_by_model", "received", "joined_turn", "answered", "answered_by_model"];
        assert_eq!(told(&story), expected);
    }
}
