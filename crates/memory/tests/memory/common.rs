//! A caller and its calls.

use serde_json::Value;
use std::path::Path;
use throughline_core::time::Time;
use throughline_core::tool::{Call, Caller, Kit, Returned};
use throughline_memory::{Memory, MemorySettings};

pub fn caller(principal: Option<&str>) -> Caller {
    Caller {
        principal: principal.map(Into::into),
        now: Time(1_780_000_000_250_000),
        ..Caller::in_private("20260528_093510_66bfaec7".parse().unwrap(), "cli")
    }
}

pub fn call_in_turn(turn: u64, arguments: impl ToString) -> Call {
    Call {
        key: format!("20260528_093510_66bfaec7/{turn}/1/0"),
        name: "memory".into(),
        arguments: arguments.to_string(),
        caller: caller(None),
        grant: None,
    }
}

pub fn call(arguments: impl ToString) -> Call {
    call_in_turn(1, arguments)
}

pub fn text_of(returned: Returned) -> String {
    let Returned::Done(done) = returned else { panic!("the tool asks no person: {returned:?}") };
    assert!(done.sends.is_empty());
    done.content.plain()
}

/// The answer to a call, as the text the model gets.
pub fn answer(memory: &Memory, call: &Call) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    text_of(runtime.block_on(memory.call(call)))
}

pub fn json(memory: &Memory, arguments: impl ToString) -> Value {
    serde_json::from_str(&answer(memory, &call(arguments))).unwrap()
}

pub fn memory_in(home: &Path) -> Memory {
    Memory::new(MemorySettings::new(home))
}

pub fn read(home: &Path, name: &str) -> Option<String> {
    std::fs::read_to_string(home.join("memories").join(name)).ok()
}

pub fn write(home: &Path, name: &str, text: &str) {
    std::fs::create_dir_all(home.join("memories")).unwrap();
    std::fs::write(home.join("memories").join(name), text).unwrap();
}
