//! A plugin that misbehaves on request: `chaos <how> <method>[,<method>…] <times>`.
//!
//! It can do everything, does it well, and the first so many times that one of the methods is asked (counted for each
//! in its directory, so across its deaths) it does it badly. Only what is in the standard library, so that
//! nothing of ours stands between it and the host.

use serde_json::{Value, json};
use std::io::{BufRead, Write};
use std::time::Duration;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let how = arguments.first().map(String::as_str).unwrap_or("well");
    let methods: Vec<&str> = arguments.get(1).map(|named| named.split(',').collect()).unwrap_or_default();
    let times: u64 = arguments.get(2).and_then(|times| times.parse().ok()).unwrap_or(u64::MAX);
    for line in std::io::stdin().lock().split(b'\n') {
        let Ok(line) = line else { return };
        let Ok(asked) = serde_json::from_slice::<Value>(&line) else { continue };
        let Some(id) = asked["id"].as_u64() else {
            if asked["method"] == "cancel" {
                let _ = std::fs::write("cancelled", asked["params"]["id"].to_string());
            }
            continue;
        };
        let name = asked["method"].as_str().unwrap_or_default();
        let answer = answer(name, &asked["params"]);
        let is_bad = methods.contains(&name) && counted(name) <= times;
        match name {
            "provider/retain" => noted("kept", &asked["params"], !is_bad),
            "scope/close" => noted("closed", &asked["params"], !is_bad),
            "provider/memory_written" => {
                append("written", &asked["params"]);
            }
            _ => {}
        }
        if is_bad {
            badly(how, id, answer);
            continue;
        }
        say(&line_of(id, answer));
        if name == "shutdown" && how != "deaf" {
            return;
        }
    }
    if how == "deaf" {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

fn counted(method: &str) -> u64 {
    let file = format!("count-{}", method.replace('/', "-"));
    let before: u64 = std::fs::read_to_string(&file).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let _ = std::fs::write(file, (before + 1).to_string());
    before + 1
}

/// Every turn that it was to keep and every end that it was told, whether it has been tried before, and whether it did
/// well.
fn noted(file: &str, what: &Value, well: bool) {
    let note = json!({"key": what["key"], "part": what["part"], "tried": what["tried"], "well": well});
    append(file, &note);
}

/// In one piece: a process that is killed in the middle of a line would spoil the line that the next one writes.
fn append(file: &str, note: &Value) {
    let file = std::fs::OpenOptions::new().create(true).append(true).open(file);
    let _ = file.and_then(|mut file| file.write_all(format!("{note}\n").as_bytes()));
}

fn say(text: &str) {
    let mut output = std::io::stdout().lock();
    let _ = output.write_all(text.as_bytes()).and_then(|()| output.flush());
}

fn line_of(id: u64, answer: Result<Value, i64>) -> String {
    let said = match answer {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(code) => json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "no"}}),
    };
    format!("{said}\n")
}

fn badly(how: &str, id: u64, answer: Result<Value, i64>) {
    match how {
        "hang" => std::thread::sleep(Duration::from_secs(3600)),
        "silent" => {}
        "crash" => std::process::exit(3),
        "orphan" => {
            let _ = std::process::Command::new("sleep").arg("3600").spawn();
            std::process::exit(3);
        }
        "garbage" => {
            let mut output = std::io::stdout().lock();
            let _ = output.write_all(b"Traceback (most recent call last):\n\xff\xfe\x00\n[1,2]\n{}\n");
            let _ = output.write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"log\"}\n{\"jsonrpc\":\"1.0\"}\n");
        }
        "flood" => loop {
            say(&"all work and no play makes a dull plugin\n".repeat(1000));
        },
        // What was not asked for, on both of its ways out; and then the answer.
        "notices" => {
            let word = "{\"jsonrpc\":\"2.0\",\"method\":\"log\",\"params\":{\"message\":\"well, well\"}}\n";
            say(&word.repeat(3_000));
            say(&line_of(id, answer));
        }
        "stderr" => {
            let mut errors = std::io::stderr().lock();
            let word = "all work and no play makes a dull plugin\n".repeat(1000);
            (0..200).for_each(|_| drop(errors.write_all(word.as_bytes())));
            say(&line_of(id, answer));
        }
        "long" => {
            let part = "x".repeat(1 << 20);
            (0..100).for_each(|_| say(&part));
            say("\n");
        }
        "drip" => {
            for letter in line_of(id, answer).chars() {
                say(&letter.to_string());
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        "wrong" => {
            say(&line_of(id + 1000, answer.clone()));
            say(&json!({"jsonrpc": "2.0", "id": id.to_string(), "result": {}}).to_string());
            say("\n");
        }
        "late" => {
            // A busy machine looks late as well: an answer that waits there already when it looks is in time.
            std::thread::sleep(Duration::from_millis(2500));
            say(&line_of(id, answer));
        }
        "shape" => say(&line_of(id, Ok(json!(["something", "else"])))),
        "unknown" => say(&line_of(id, Err(-32602))),
        "maybe" => say(&line_of(id, Err(-32001))),
        "never" => say(&line_of(id, Err(-32002))),
        "nothing" => say(&line_of(id, Err(-32003))),
        "newer" => say(&line_of(id, Ok(json!({"protocol": 99, "name": "chaos"})))),
        "other" => say(&line_of(id, Ok(json!({"protocol": 1, "name": "chaos", "tools": [{"name": "b"}]})))),
        _ => say(&line_of(id, answer)),
    }
}

fn answer(method: &str, params: &Value) -> Result<Value, i64> {
    Ok(match method {
        "initialize" => json!({
            "protocol": 1,
            "name": "chaos",
            "version": "0",
            "engine": {
                "name": "chaos",
                "options": ["focus", "memory_context"],
                "methods": ["should_compress", "has_content", "status", "scope"],
            },
            "provider": {
                "name": "chaos",
                "methods": ["recall", "retain", "before_compression", "memory_written", "scope"],
                "documents": "chat",
            },
            "tools": [{"name": "z"}, {"name": "a", "repeatable": true, "later": 1}],
            "hooks": [
                {"event": "pre_tool_call", "name": "guard"},
                {"event": "on_session_finalize", "name": "end"},
            ],
            "commands": [{"name": "chaos"}],
            "notes": ["it is chaotic"],
            "later": true,
        }),
        "ping" | "shutdown" | "scope/close" | "provider/retain" | "provider/memory_written" => Value::Null,
        "engine/should_compress" => json!({"compress": true}),
        "engine/has_content" => json!({"has_content": true}),
        "engine/compress" => {
            let messages = params["messages"].as_array().cloned().unwrap_or_default();
            let mut shorter = vec![json!({"role": "user", "content": "a summary"})];
            shorter.extend(messages.last().cloned());
            let shorter = if messages.len() < 3 { messages } else { shorter };
            json!({"messages": shorter, "model": "m"})
        }
        "engine/status" | "provider/recall" | "provider/before_compression" | "command/run" => {
            json!({"text": "words", "environment": std::env::vars().map(|(name, _)| name).collect::<Vec<_>>()})
        }
        "tool/call" => match params["name"].as_str() {
            Some("write") => {
                let path = params["arguments"]["path"].as_str().unwrap_or_default();
                json!({"content": std::fs::write(path, "x").map_err(|error| error.to_string()).err().unwrap_or_default()})
            }
            Some("read") => {
                let path = params["arguments"]["path"].as_str().unwrap_or_default();
                json!({"content": std::fs::read_to_string(path).unwrap_or_else(|error| error.to_string())})
            }
            // A person must agree to this one; how often it was done is written down.
            Some("ask") if params["consent"] != true => json!({
                "content": "nobody was asked",
                "ask": {"what": "rm -r /", "why": "it is gone then", "patterns": ["remove"]},
            }),
            Some("ask") => {
                let done = std::fs::read_to_string("asked").unwrap_or_default();
                let _ = std::fs::write("asked", done + "x");
                json!({"content": "it was done"})
            }
            Some("environment") => {
                json!({"content": std::env::vars().map(|(name, _)| name).collect::<Vec<_>>().join(" ")})
            }
            _ => json!({"content": params["arguments"]}),
        },
        "hook/run" => json!({}),
        _ => return Err(-32601),
    })
}
