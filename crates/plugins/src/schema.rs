//! The JSON Schemas of all that is said, made from the types of [`protocol`](crate::protocol).
//!
//! They lie beside `docs/plugins.md`, two for each method: its parameters and its answer. A test sees to
//! it that they are current; with `UPDATE_SCHEMAS=1` it writes them.

use crate::protocol::*;
use schemars::{Schema, schema_for};

/// Each method, with what goes in and what comes out. What is only told has no answer.
pub fn methods() -> Vec<(&'static str, Schema, Option<Schema>)> {
    vec![
        (method::INITIALIZE, schema_for!(Initialize), Some(schema_for!(Initialized))),
        (method::PING, schema_for!(Nothing), Some(schema_for!(Option<Nothing>))),
        (method::SHUTDOWN, schema_for!(Nothing), Some(schema_for!(Option<Nothing>))),
        (method::SHOULD_COMPRESS, schema_for!(ShouldCompress), Some(schema_for!(Verdict))),
        (method::HAS_CONTENT, schema_for!(Compress), Some(schema_for!(HasContent))),
        (method::COMPRESS, schema_for!(Compress), Some(schema_for!(Compressed))),
        (method::STATUS, schema_for!(Scoped), Some(schema_for!(Option<Text>))),
        (method::RECALL, schema_for!(Recall), Some(schema_for!(Option<Text>))),
        (method::RETAIN, schema_for!(Retain), Some(schema_for!(Option<Nothing>))),
        (method::BEFORE_COMPRESSION, schema_for!(BeforeCompression), Some(schema_for!(Option<Text>))),
        (method::MEMORY_WRITTEN, schema_for!(MemoryWritten), Some(schema_for!(Option<Nothing>))),
        (method::OPENED, schema_for!(Scoped), None),
        (method::CLOSE, schema_for!(Close), Some(schema_for!(Option<Nothing>))),
        (method::TOOL, schema_for!(ToolCall), Some(schema_for!(ToolResult))),
        (method::HOOK, schema_for!(HookRun), Some(schema_for!(Option<HookAnswer>))),
        (method::COMMAND, schema_for!(CommandRun), Some(schema_for!(Option<Text>))),
        (method::CANCEL, schema_for!(Cancel), None),
        (method::LOG, schema_for!(Log), None),
        (method::ASK_MODEL, schema_for!(AskModel), Some(schema_for!(ModelSaid))),
    ]
}

/// The files, by name.
pub fn files() -> Vec<(String, String)> {
    let mut files = Vec::new();
    for (method, params, result) in methods() {
        let name = method.replace('/', "-");
        files.push((format!("{name}.params.schema.json"), written(&params)));
        files.extend(result.map(|result| (format!("{name}.result.schema.json"), written(&result))));
    }
    files
}

fn written(schema: &Schema) -> String {
    let mut text = serde_json::to_string_pretty(schema).expect("a schema is JSON");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::Path;

    #[test]
    fn the_schemas_in_the_documentation_are_current() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/plugins");
        if std::env::var_os("UPDATE_SCHEMAS").is_some() {
            fs::create_dir_all(&directory).unwrap();
            for (name, text) in files() {
                fs::write(directory.join(name), text).unwrap();
            }
        }
        let there = fs::read_dir(&directory).unwrap().filter_map(Result::ok);
        let there: BTreeMap<String, String> = there
            .map(|entry| entry.file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".schema.json"))
            .map(|name| (name.clone(), fs::read_to_string(directory.join(&name)).unwrap()))
            .collect();
        let current: BTreeMap<String, String> = files().into_iter().collect();
        let names = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&there), names(&current));
        for (name, text) in &current {
            assert_eq!(&there[name], text, "{name} is out of date: run this test with UPDATE_SCHEMAS=1");
        }
    }

    #[test]
    fn the_documentation_tells_of_every_method() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/plugins.md");
        let page = fs::read_to_string(page).unwrap();
        for (method, ..) in methods() {
            assert!(page.contains(&format!("`{method}`")), "{method}");
        }
    }
}
