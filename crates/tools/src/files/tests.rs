//! The answers of Hermes 0.19 to the same calls stand here word for word, `WS` for the workspace.

mod access;
mod changes;

use super::*;
use proptest::prelude::*;
use std::fs;
use throughline_core::tool::Caller;

struct FilesFixture {
    _guard: tempfile::TempDir,
    root: PathBuf,
    files: FileKit,
    steps: std::cell::Cell<u32>,
}

fn world() -> FilesFixture {
    world_with(|_| {}, FileSettings::default())
}

fn world_with(set: impl FnOnce(&mut FileReach), settings: FileSettings) -> FilesFixture {
    let guard = tempfile::tempdir().unwrap();
    let root = guard.path().canonicalize().unwrap();
    for directory in ["ws", "home", "user"] {
        fs::create_dir(root.join(directory)).unwrap();
    }
    let mut reach = FileReach {
        workspace: root.join("ws"),
        home: root.join("home"),
        user_home: root.join("user"),
        ..FileReach::default()
    };
    set(&mut reach);
    FilesFixture { _guard: guard, root, files: FileKit::new(reach, settings), steps: std::cell::Cell::new(0) }
}

fn call(session: &str, position: &str, name: &str, arguments: &str) -> Call {
    Call {
        key: format!("{session}/{position}"),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
        caller: Caller::in_private(session.parse().unwrap(), "cli"),
        grant: None,
    }
}

impl FilesFixture {
    fn put(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root.join("ws").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.root.join("ws").join(name)).unwrap()
    }

    fn text(&self, name: &str) -> String {
        String::from_utf8(self.bytes(name)).unwrap()
    }

    async fn raw(&self, session: &str, turn: u32, name: &str, arguments: &str) -> String {
        self.steps.set(self.steps.get() + 1);
        let call = call(session, &format!("{turn}/{}/0", self.steps.get()), name, arguments);
        match self.files.call(&call).await {
            Returned::Done(done) => {
                done.content.plain().replace(&self.root.join("ws").to_string_lossy().into_owned(), "WS")
            }
            Returned::Ask { .. } => panic!("files ask no person"),
        }
    }

    async fn call(&self, name: &str, arguments: Value) -> String {
        self.raw("s", 1, name, &arguments.to_string()).await
    }

    async fn read(&self, arguments: Value) -> String {
        self.call("read_file", arguments).await
    }

    async fn write(&self, path: &str, content: &str) -> String {
        self.call("write_file", json!({"path": path, "content": content})).await
    }

    async fn replace(&self, path: &str, old: &str, new: &str) -> String {
        self.call("patch", json!({"mode": "replace", "path": path, "old_string": old, "new_string": new}))
            .await
    }

    async fn search(&self, arguments: Value) -> String {
        self.call("search_files", arguments).await
    }
}

#[test]
fn the_tools_are_those_of_hermes_in_one_order() {
    let world = world();
    let specs = world.files.specs();
    let told: Vec<_> =
        specs.iter().map(|spec| (spec.name.as_str(), spec.toolset.as_str(), spec.repeatable)).collect();
    assert_eq!(
        told,
        [
            ("read_file", "file", true),
            ("write_file", "file", false),
            ("patch", "file", false),
            ("search_files", "file", true)
        ]
    );
    assert_eq!(specs, world.files.specs());
    let parameters: Value = serde_json::from_str(specs[3].parameters.as_str()).unwrap();
    let names: Vec<_> = parameters["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        names,
        ["pattern", "target", "path", "file_glob", "limit", "offset", "output_mode", "context"]
    );
}

#[tokio::test]
async fn reading_answers_in_the_words_of_hermes() {
    let world = world();
    world.put("a.txt", "one\ntwo\nthree\n");
    world.put("nonl.txt", "one\ntwo");
    world.put("empty.txt", "");
    world.put("bom.txt", b"\xef\xbb\xbfhello\r\nworld\r\n");
    world.put("bad.txt", b"caf\xe9 \xff\nok\n");
    world.put("nul.txt", [b"ab\0cd\n".as_slice(), &[0; 500]].concat());
    world.put("pic.png", b"\x89PNG");
    world.put("config.yml", "a: 1\n");
    world.put("nb.ipynb", r##"{"cells": [{"cell_type": "markdown", "source": ["# T\n", "x"]}, {"cell_type": "code", "source": "print(1)\n"}]}"##);
    for (arguments, told) in [
        (
            json!({"path": "a.txt"}),
            r#"{"content": "1|one\n2|two\n3|three\n4|", "total_lines": 3, "file_size": 14, "truncated": false, "is_binary": false, "is_image": false}"#,
        ),
        (
            json!({"path": "a.txt", "offset": 2, "limit": 1}),
            r#"{"content": "2|two\n3|", "total_lines": 3, "file_size": 14, "truncated": true, "hint": "Use offset=3 to continue reading (showing 2-2 of 3 lines)", "is_binary": false, "is_image": false}"#,
        ),
        (
            json!({"path": "a.txt", "offset": 99}),
            r#"{"content": "99|", "total_lines": 3, "file_size": 14, "truncated": false, "is_binary": false, "is_image": false}"#,
        ),
        (
            json!({"path": "nonl.txt"}),
            r#"{"content": "1|one\n2|two", "total_lines": 1, "file_size": 7, "truncated": false, "is_binary": false, "is_image": false}"#,
        ),
        (
            json!({"path": "empty.txt"}),
            r#"{"content": "1|", "total_lines": 0, "file_size": 0, "truncated": false, "is_binary": false, "is_image": false}"#,
        ),
        (
            json!({"path": "bom.txt"}),
            r#"{"content": "1|hello\r\n2|world\r\n3|", "total_lines": 2, "file_size": 17, "truncated": false, "is_binary": false, "is_image": false}"#,
        ),
        (
            json!({"path": "bad.txt"}),
            "{\"content\": \"1|caf\u{fffd} \u{fffd}\\n2|ok\\n3|\", \"total_lines\": 2, \"file_size\": 10, \"truncated\": false, \"is_binary\": false, \"is_image\": false}",
        ),
        (
            json!({"path": "nul.txt"}),
            r#"{"content": "", "total_lines": 0, "file_size": 506, "truncated": false, "is_binary": true, "is_image": false, "error": "Binary file - cannot display as text. Use appropriate tools to handle this file type."}"#,
        ),
        (
            json!({"path": "pic.png"}),
            r#"{"error": "Cannot read binary file 'pic.png' (.png). Use vision_analyze for images, or terminal to inspect binary files."}"#,
        ),
        (
            json!({"path": "config.yaml"}),
            r#"{"content": "", "total_lines": 0, "file_size": 0, "truncated": false, "is_binary": false, "is_image": false, "error": "File not found: config.yaml", "similar_files": ["./config.yml"]}"#,
        ),
        (
            json!({"path": "absent.txt"}),
            r#"{"content": "", "total_lines": 0, "file_size": 0, "truncated": false, "is_binary": false, "is_image": false, "error": "File not found: absent.txt", "similar_files": ["./a.txt", "./bad.txt", "./bom.txt", "./empty.txt", "./nonl.txt"]}"#,
        ),
        (
            json!({"path": "/dev/zero"}),
            r#"{"error": "Cannot read '/dev/zero': this is a device file that would block or produce infinite output."}"#,
        ),
        (
            json!({"path": "nb.ipynb"}),
            r##"{"content": "1|# ── Markdown cell 1 ──\n2|# T\n3|x\n4|\n5|# ── Code cell 1 ──\n6|print(1)", "total_lines": 6, "file_size": 111, "truncated": false, "extracted_document": true}"##,
        ),
        (json!({"path": "x\0y"}), r#"{"error": "embedded null byte"}"#),
    ] {
        assert_eq!(world.read(arguments).await, told);
    }
}

#[tokio::test]
async fn a_page_that_is_known_is_not_sent_again_in_its_turn() {
    let world = world();
    world.put("a.txt", "one\n");
    let first = world.read(json!({"path": "a.txt"})).await;
    assert_eq!(
        world.read(json!({"path": "a.txt"})).await,
        r#"{"status": "unchanged", "message": "File unchanged since last read. The content from the earlier read_file result in this conversation is still current — refer to that instead of re-reading.", "path": "a.txt", "dedup": true, "content_returned": false}"#
    );
    assert_eq!(
        world.read(json!({"path": "a.txt"})).await,
        r#"{"error": "BLOCKED: You have called read_file on this exact region 3 times and the file has NOT changed. STOP calling read_file for this path — the content from your earlier read_file result in this conversation is still current. Proceed with your task using the information you already have.", "path": "a.txt", "already_read": 3}"#
    );
    // Another turn may no longer see it, another session never did.
    assert_eq!(world.raw("s", 2, "read_file", r#"{"path":"a.txt"}"#).await, first);
    assert_eq!(world.raw("other", 2, "read_file", r#"{"path":"a.txt"}"#).await, first);
    // A change by any program is seen at once.
    world.put("a.txt", "two\n");
    assert!(world.raw("s", 2, "read_file", r#"{"path":"a.txt"}"#).await.contains("1|two"));
    world.raw("s", 2, "write_file", r#"{"path":"a.txt","content":"three\n"}"#).await;
    assert!(world.raw("s", 2, "read_file", r#"{"path":"a.txt"}"#).await.contains("1|three"));
}

#[tokio::test]
async fn a_call_that_is_run_again_gets_its_page_again() {
    let world = world();
    world.put("a.txt", "one\n");
    let first = world.read(json!({"path": "a.txt"})).await;
    world.steps.set(world.steps.get() - 1); // the same key
    assert_eq!(world.read(json!({"path": "a.txt"})).await, first);
}

#[tokio::test]
async fn looking_in_circles_is_stopped() {
    let world = world();
    for nth in 1..=4 {
        let told = world.read(json!({"path": "absent"})).await;
        assert_eq!(told.contains("_warning"), nth == 3, "{told}");
        assert_eq!(
            told.starts_with(r#"{"error": "BLOCKED: You have read this exact file region 4 times in a row."#),
            nth == 4
        );
    }
    world.files.interrupted(&"s".parse().unwrap());
    assert!(world.read(json!({"path": "absent"})).await.contains("File not found"));
    for nth in 1..=4 {
        let told = world.search(json!({"pattern": "zzz"})).await;
        match nth {
            1 | 2 => assert_eq!(told, r#"{"total_count": 0}"#),
            3 => assert_eq!(
                told,
                r#"{"total_count": 0, "_warning": "You have run this exact search 3 times consecutively. The results have not changed. Use the information you already have."}"#
            ),
            _ => assert_eq!(
                told,
                r#"{"error": "BLOCKED: You have run this exact search 4 times in a row. The results have NOT changed. You already have this information. STOP re-searching and proceed with your task.", "pattern": "zzz", "already_searched": 4}"#
            ),
        }
    }
}

#[tokio::test]
async fn long_lines_long_pages_and_large_files_are_cut() {
    let world = world();
    world.put("long.txt", "x".repeat(2500) + "\n");
    let told = world.read(json!({"path": "long.txt"})).await;
    assert!(told.contains(&format!("1|{}... [truncated]\\n2|\"", "x".repeat(2000))));
    world.put("wide.txt", (1..200).map(|n| format!("{n} {}\n", "w".repeat(1500))).collect::<String>());
    let told = world.read(json!({"path": "wide.txt"})).await;
    assert!(
        told.ends_with(r#""total_lines": 199, "file_size": 299387, "truncated": true, "is_binary": false, "is_image": false, "truncated_by": "bytes", "next_offset": 67, "hint": "Output truncated at the 100,000-char read budget after 66 line(s) (showing lines 1-66 of 199). Use offset=67 to continue."}"#),
        "{}",
        &told[told.len() - 400..]
    );
    world.put("big.txt", (1..100_000).map(|n| format!("line {n}\n")).collect::<String>());
    let told = world.read(json!({"path": "big.txt", "limit": 99999})).await;
    assert!(told.contains("2000|line 2000") && !told.contains("2002|"), "at most 2000 lines");
    assert!(
        told.contains(r#""_hint": "This file is large (1,088,883 bytes)."#),
        "{}",
        &told[told.len() - 300..]
    );
}

#[tokio::test]
async fn two_hundred_megabytes_are_read_a_page_at_a_time() {
    let world = world();
    let path = world.put("huge.log", "a line of text\n".repeat(600));
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(200 << 20).unwrap();
    let told = world.read(json!({"path": "huge.log"})).await;
    assert!(
        told.contains(r#""file_size": 209715200"#) && told.contains("500|a line of text"),
        "{}",
        told.len()
    );
    assert!(told.contains(r#""total_lines": 600"#) && told.len() < 100_000, "{}", told.len());
    let told = world.read(json!({"path": "huge.log", "offset": 600})).await;
    assert!(told.len() < 20_000, "{}", told.len());
    // One line without an end, as long as the file.
    world.put("one-line.txt", vec![b'y'; 20 << 20]);
    let told = world.read(json!({"path": "one-line.txt"})).await;
    assert!(told.contains("... [truncated]") && told.len() < 10_000, "{}", told.len());
    let found = world.search(json!({"pattern": "a line|yyyy", "path": "."})).await;
    assert!(found.contains("./one-line.txt") && found.len() < 10_000, "{}", found.len());
}

#[tokio::test]
async fn bad_arguments_are_told_by_every_tool() {
    let world = world();
    for (name, arguments, told) in [
        ("read_file", "{", "Error: Invalid JSON arguments. "),
        ("read_file", "{}", "missing required field 'path'"),
        ("read_file", r#"{"path": 5.5e300, "limit": "x"}"#, "'limit' must be an integer"),
        ("read_file", r#"{"path": ["a"]}"#, "'path' must be a string"),
        (
            "write_file",
            r#"{"path": "a"}"#,
            "missing required field 'content'. Re-emit the tool call with 'path', 'content' set.",
        ),
        ("write_file", r#"{"path": "a", "content": {"a": 1}}"#, "'content' must be a string, got an object."),
        (
            "write_file",
            r#"{"path": "", "content": "x"}"#,
            "write_file: missing required field 'path'. Re-emit the tool call with both 'path' and 'content' set.",
        ),
        ("patch", r#"{"mode": "mend"}"#, "'mode' must be one of"),
        ("patch", "{}", "path required"),
        ("patch", r#"{"path": "a", "old_string": "x"}"#, "old_string and new_string required"),
        ("patch", r#"{"mode": "patch"}"#, "patch content required"),
        ("search_files", "[]", "must be a JSON object"),
        ("search_files", r#"{"pattern": "x", "target": "world"}"#, "'target' must be one of"),
        ("no_such_tool", "{}", "Unknown tool: no_such_tool"),
    ] {
        let said = world.raw("s", 1, name, arguments).await;
        assert!(said.contains(told), "{name} {arguments}: {said}");
    }
    assert_eq!(fs::read_dir(world.root.join("ws")).unwrap().count(), 0, "and nothing was made");
}

#[tokio::test]
async fn what_is_no_file_is_told_at_once() {
    let world = world();
    fs::create_dir(world.root.join("ws/sub")).unwrap();
    let fifo = world.root.join("ws/fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    assert!(world.read(json!({"path": "sub"})).await.contains("'sub' is a directory, not a file."));
    assert!(world.read(json!({"path": "fifo"})).await.contains("Cannot read 'fifo': this is a device file"));
    assert!(world.read(json!({"path": "/proc/self/environ"})).await.contains("Cannot read"));
    assert!(world.write("sub", "x").await.contains("is a directory"));
    assert!(world.write("fifo", "x").await.contains("error"));
    assert!(world.replace("fifo", "a", "b").await.contains("\"success\": false"));
    assert!(world.replace("sub", "a", "b").await.contains("it is a directory"));
    assert!(world.search(json!({"pattern": "x", "path": "fifo"})).await.contains(r#""total_count": 0"#));
    assert!(world.write("a\0b", "x").await.contains("embedded null byte"));
    assert!(
        world.write("/dev/null", "x").await.contains("Refusing to write to sensitive system path: /dev/null")
    );
}

#[tokio::test]
async fn searching_answers_in_the_words_of_hermes() {
    let world = world();
    world.put("sub/code.py", "def foo():\n    return 1\n\ndef bar():\n    return 2\n");
    world.put("many.txt", "hit\n".repeat(12));
    world.put("binary", b"hit\0hit");
    world.put(".hidden/x.txt", "hit\n");
    world.put(".git/HEAD", "");
    world.put(".gitignore", "ignored.txt\n");
    world.put("ignored.txt", "hit\n");
    for (arguments, told) in [
        (
            json!({"pattern": "def", "file_glob": "*.py"}),
            r#"{"total_count": 2, "matches": [{"path": "./sub/code.py", "line": 1, "content": "def foo():"}, {"path": "./sub/code.py", "line": 4, "content": "def bar():"}]}"#,
        ),
        (
            json!({"pattern": "^hit$", "limit": 3}),
            "{\"total_count\": 12, \"matches\": [{\"path\": \"./many.txt\", \"line\": 1, \"content\": \"hit\"}, {\"path\": \"./many.txt\", \"line\": 2, \"content\": \"hit\"}, {\"path\": \"./many.txt\", \"line\": 3, \"content\": \"hit\"}], \"truncated\": true}\n\n[Hint: Results truncated. Use offset=3 to see more, or narrow with a more specific pattern or file_glob.]",
        ),
        (
            json!({"pattern": "hit", "offset": 7}),
            r#"{"total_count": 12, "matches_format": "path-grouped: each file path on its own line, followed by indented '<line>: <content>' rows for matches in that file", "matches_text": "./many.txt\n  8: hit\n  9: hit\n  10: hit\n  11: hit\n  12: hit"}"#,
        ),
        (
            json!({"pattern": "return|hit", "output_mode": "files_only"}),
            r#"{"total_count": 2, "files": ["./many.txt", "./sub/code.py"]}"#,
        ),
        (
            json!({"pattern": "return|hit", "output_mode": "count"}),
            r#"{"total_count": 14, "counts": {"./many.txt": 12, "./sub/code.py": 2}}"#,
        ),
        (
            json!({"pattern": "foo", "context": 1}),
            r#"{"total_count": 2, "matches": [{"path": "./sub/code.py", "line": 1, "content": "def foo():"}, {"path": "./sub/code.py", "line": 2, "content": "    return 1"}]}"#,
        ),
        (
            json!({"pattern": "bar", "context": 1, "path": "sub/code.py"}),
            r#"{"total_count": 3, "matches": [{"path": "sub/code.py", "line": 3, "content": ""}, {"path": "sub/code.py", "line": 4, "content": "def bar():"}, {"path": "sub/code.py", "line": 5, "content": "    return 2"}]}"#,
        ),
        (json!({"pattern": "zzzqqq"}), r#"{"total_count": 0}"#),
        (
            json!({"pattern": "a\\nb"}),
            r#"{"total_count": 0, "warning": "0 results found. Note: search_files content search is line-oriented and does not run ripgrep with -U/--multiline, so `\\n` in the regex does not match line breaks. Use context=N to inspect neighboring lines, or escape as `\\\\n` when searching for a literal backslash+n."}"#,
        ),
        (
            json!({"pattern": "x", "path": "nowhere"}),
            r#"{"total_count": 0, "error": "Path not found: nowhere"}"#,
        ),
        (
            json!({"pattern": "x", "path": "su"}),
            r#"{"total_count": 0, "error": "Path not found: su. Similar paths: ./sub"}"#,
        ),
        (
            json!({"pattern": "code.py", "target": "files"}),
            r#"{"total_count": 1, "files": ["./sub/code.py"]}"#,
        ),
        (
            json!({"pattern": "sub/**/*.py", "target": "files"}),
            r#"{"total_count": 1, "files": ["./sub/code.py"]}"#,
        ),
        (
            json!({"pattern": "hit", "path": ".hidden"}),
            r#"{"total_count": 1, "matches": [{"path": ".hidden/x.txt", "line": 1, "content": "hit"}]}"#,
        ),
    ] {
        assert_eq!(world.search(arguments).await, told);
    }
    let told = world.search(json!({"pattern": "("})).await;
    assert!(told.starts_with(r#"{"total_count": 0, "error": "Search failed: regex parse error:"#), "{told}");
    let told = world.search(json!({"pattern": "(x{1000}){1000}"})).await;
    assert!(told.contains("Search failed: "), "a pattern that needs too much memory: {told}");
    let told = world.search(json!({"pattern": "x", "file_glob": "[z-a]"})).await;
    assert!(told.contains("Search failed: "), "{told}");
}

#[tokio::test]
async fn files_found_by_name_come_last_changed_first() {
    let world = world();
    for (nth, name) in ["old.txt", "newest.txt", "newer.txt"].into_iter().enumerate() {
        let path = world.put(name, "");
        let age = [300, 1, 100][nth];
        let then = std::time::SystemTime::now() - std::time::Duration::from_secs(age);
        fs::File::options().write(true).open(path).unwrap().set_modified(then).unwrap();
    }
    assert_eq!(
        world.search(json!({"pattern": "*.txt", "target": "files", "limit": 2})).await,
        "{\"total_count\": 3, \"files\": [\"./newest.txt\", \"./newer.txt\"], \"truncated\": true}\n\n[Hint: Results truncated. Use offset=2 to see more, or narrow with a more specific pattern or file_glob.]"
    );
    assert!(
        world.search(json!({"pattern": "*.txt", "target": "files", "offset": 2})).await.contains("./old.txt")
    );
}

#[tokio::test]
async fn paths_follow_the_sessions_terminal() {
    let mut world = world();
    world.put("deep/a.txt", "here\n");
    let standing = world.root.join("ws/deep");
    world.files = world.files.following(Box::new(move |_| Some(standing.clone())));
    assert!(world.read(json!({"path": "a.txt"})).await.contains("1|here"));
    assert!(world.search(json!({"pattern": "here"})).await.contains("./a.txt"));
}

#[tokio::test]
async fn a_search_nobody_waits_for_ends() {
    let world = world();
    for nth in 0..50 {
        world.put(&format!("f{nth}.txt"), "some text\n".repeat(20_000));
    }
    let abandoned = tokio::time::timeout(
        std::time::Duration::from_millis(1),
        world.search(json!({"pattern": "(a|b|c|d)*e(x|y)+z"})),
    )
    .await;
    assert!(abandoned.is_err());
    // The runtime waits for its blocking tasks when it goes: had the search gone on, so would this test.
}

#[test]
fn a_call_belongs_to_its_turn() {
    assert_eq!(turn("session/with/slashes/7/2/0"), "session/with/slashes/7");
    assert_eq!(turn("odd"), "odd");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_is_what_is_there(content in "[a-z\n\u{e9}|0-9]{0,200}") {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let world = world();
            let told = world.write("f.txt", &content).await;
            if told.contains("Refusing to write internal read_file display") {
                return;
            }
            assert_eq!(world.text("f.txt"), content);
            let shown: Value = serde_json::from_str(&world.read(json!({"path": "f.txt"})).await).unwrap();
            let numbered: Vec<String> = content.split('\n').enumerate().map(|(nth, line)| format!("{}|{line}", nth + 1)).collect();
            assert_eq!(shown["content"].as_str().unwrap(), numbered.join("\n"));
        });
    }

    #[test]
    fn no_patch_makes_it_panic(patch in "(\\*\\*\\* (Update|Add|Delete|Move) File: [ab](\\.txt)?( -> c)?\n|@@ ?[ab]? ?(@@)?\n|[-+ ][ab]{0,2}\n|x\n){0,12}") {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let world = world();
            world.put("a.txt", "a\nb\naa\n");
            world.put("b.txt", "b\r\nbb\r\n");
            let told = world.call("patch", json!({"mode": "patch", "patch": patch})).await;
            assert!(!told.contains("failed inside"), "{told}");
        });
    }
}
