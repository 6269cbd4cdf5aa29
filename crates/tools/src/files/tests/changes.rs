//! `write_file` and `patch`.

use super::super::*;
use super::{call, world};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

#[tokio::test]
async fn writing_answers_in_the_words_of_hermes() {
    let world = world();
    world.put("a.txt", "one\ntwo\n");
    world.put("n.json", "{\"a\": 1}\n");
    world.read(json!({"path": "a.txt", "offset": 2, "limit": 1})).await;
    for (path, content, told) in [
        (
            "new/dir/x.txt",
            "hello\n",
            r#"{"bytes_written": 6, "dirs_created": true, "lint": {"status": "skipped", "message": "No linter for .txt files"}, "resolved_path": "WS/new/dir/x.txt", "files_modified": ["WS/new/dir/x.txt"]}"#,
        ),
        (
            "a.txt",
            "one\n2\n",
            r#"{"bytes_written": 6, "dirs_created": true, "lint": {"status": "skipped", "message": "No linter for .txt files"}, "_warning": "WS/a.txt was last read with offset/limit pagination (partial view). Re-read the whole file before overwriting it.", "resolved_path": "WS/a.txt", "files_modified": ["WS/a.txt"]}"#,
        ),
        (
            "n.json",
            r#"{"a": 2}"#,
            r#"{"bytes_written": 8, "dirs_created": true, "lint": {"status": "ok", "output": ""}, "resolved_path": "WS/n.json", "files_modified": ["WS/n.json"]}"#,
        ),
        (
            "/etc/hosts2",
            "a",
            r#"{"error": "Refusing to write to sensitive system path: /etc/hosts2\nUse the terminal tool with sudo if you need to modify system files."}"#,
        ),
        (
            "q.txt",
            "1|a\n2|b\n",
            r#"{"error": "Refusing to write internal read_file display text as file content. Strip read_file line-number prefixes or reconstruct the intended file contents before writing."}"#,
        ),
        (
            "t.toml",
            "a = 1\n",
            r#"{"bytes_written": 6, "dirs_created": true, "lint": {"status": "skipped", "message": "No linter available for .toml (missing dependency)"}, "resolved_path": "WS/t.toml", "files_modified": ["WS/t.toml"]}"#,
        ),
    ] {
        assert_eq!(world.write(path, content).await, told);
    }
    let told = world.write("n.json", r#"{"a": "#).await;
    assert!(told.starts_with(r#"{"bytes_written": 0, "dirs_created": false, "error": "Refusing to write 'WS/n.json': candidate content fails .json syntax validation (JSONDecodeError: "#), "{told}");
    assert!(told.ends_with(r#"The file was NOT created or modified. Fix the content and retry.", "resolved_path": "WS/n.json"}"#), "{told}");
    assert_eq!(world.text("n.json"), r#"{"a": 2}"#);
    assert!(world.write("c.yaml", "a: [1").await.contains("fails .yaml syntax validation (YAMLError: "));
    assert!(!world.root.join("ws/c.yaml").exists());
    let told = world.write("../out.txt", "x").await;
    assert!(told.contains(r#""_warning": "Relative path '../out.txt' resolved to "#), "{told}");
    assert_eq!(fs::read_to_string(world.root.join("out.txt")).unwrap(), "x");
}

#[tokio::test]
async fn a_file_keeps_its_mark_its_line_ends_and_its_mode() {
    let world = world();
    let path = world.put("bom.txt", b"\xef\xbb\xbfhello\r\nworld\r\n");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
    assert!(world.write("bom.txt", "hi\nyou\n").await.contains(r#""bytes_written": 12"#));
    assert_eq!(world.bytes("bom.txt"), b"\xef\xbb\xbfhi\r\nyou\r\n");
    assert!(world.replace("bom.txt", "hi\nyou", "ho\nthere\nyou").await.contains(r#""success": true"#));
    assert_eq!(world.bytes("bom.txt"), b"\xef\xbb\xbfho\r\nthere\r\nyou\r\n");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o750);
    let patch = "*** Begin Patch\n*** Update File: bom.txt\n-there\n+here\n*** End Patch";
    world.call("patch", json!({"mode": "patch", "patch": patch})).await;
    assert_eq!(world.bytes("bom.txt"), b"\xef\xbb\xbfho\r\nhere\r\nyou\r\n");
    assert_eq!(fs::read_dir(world.root.join("ws")).unwrap().count(), 1, "no temporary file is left");
}

#[tokio::test]
async fn a_link_stays_a_link_to_the_file_that_is_written() {
    let world = world();
    world.put("real.txt", "old");
    symlink("real.txt", world.root.join("ws/link.txt")).unwrap();
    world.write("link.txt", "new").await;
    assert_eq!(world.text("real.txt"), "new");
    assert!(fs::symlink_metadata(world.root.join("ws/link.txt")).unwrap().is_symlink());
}

#[tokio::test]
async fn whoever_changed_a_file_meanwhile_is_named() {
    let world = world();
    world.put("a.txt", "one\n");
    world.read(json!({"path": "a.txt"})).await;
    world.put("a.txt", "changed outside\n");
    assert!(world.write("a.txt", "two\n").await.contains("was modified since you last read it on disk"));
    assert!(!world.write("a.txt", "three\n").await.contains("_warning"), "its own writing it knows");
    world.raw("sibling", 1, "write_file", r#"{"path":"a.txt","content":"four\n"}"#).await;
    assert!(
        world
            .replace("a.txt", "four", "five")
            .await
            .contains("was modified by sibling subagent 'sibling' after")
    );
    assert!(
        world
            .raw("third", 1, "write_file", r#"{"path":"a.txt","content":"six\n"}"#)
            .await
            .contains("but this agent never read it")
    );
}

#[tokio::test]
async fn replacing_answers_in_the_words_of_hermes() {
    let world = world();
    world.put("sub/code.py", "def foo():\n    return 1\n\ndef bar():\n    return 2\n");
    let lint =
        r#""lint": {"status": "skipped", "message": "No linter available for .py (missing dependency)"}"#;
    let told = world.replace("sub/code.py", "return 1", "return 10").await;
    assert_eq!(
        told,
        format!(
            r#"{{"success": true, "diff": "--- a/WS/sub/code.py\n+++ b/WS/sub/code.py\n@@ -1,5 +1,5 @@\n def foo():\n-    return 1\n+    return 10\n \n def bar():\n     return 2\n", "files_modified": ["WS/sub/code.py"], {lint}, "resolved_path": "WS/sub/code.py"}}"#
        )
    );
    let not_found = r#"{"success": false, "error": "Could not find a match for old_string in the file", "_hint": "old_string not found. Use read_file to verify the current content, or search_files to locate the text."}"#;
    let unlike = "quite unlike anything in here at all 12345";
    for (old, new, told) in [
        (
            "return",
            "yield",
            r#"{"success": false, "error": "Found 2 matches for old_string. Provide more context to make it unique, or use replace_all=True."}"#,
        ),
        (unlike, "zzz", not_found),
        (unlike, "zzz", not_found),
        ("", "zzz", r#"{"success": false, "error": "old_string cannot be empty"}"#),
        ("a", "a", r#"{"success": false, "error": "old_string and new_string are identical"}"#),
    ] {
        assert_eq!(world.replace("sub/code.py", old, new).await, told);
    }
    assert!(
        world
            .replace("sub/code.py", unlike, "z")
            .await
            .contains("This is failure #3 patching 'sub/code.py'.")
    );
    let all =
        json!({"path": "sub/code.py", "old_string": "return", "new_string": "yield", "replace_all": "true"});
    assert!(
        world
            .call("patch", all)
            .await
            .contains(r#"-    return 10\n+    yield 10\n \n def bar():\n-    return 2\n+    yield 2\n"#)
    );
    assert!(
        world
            .replace("sub/code.py", "def fooo():\n    return 99", "zzz")
            .await
            .contains(r#"@@ -1,5 +1,4 @@\n-def foo():\n-    yield 10\n+zzz\n"#)
    );
    assert_eq!(
        world.replace("absent.py", "a", "b").await,
        r#"{"success": false, "error": "Failed to read file: WS/absent.py"}"#
    );
    world.put("latin.txt", b"caf\xe9 au lait\n");
    assert!(world.replace("latin.txt", "lait", "noir").await.contains("it is not UTF-8 text"));
    assert_eq!(world.bytes("latin.txt"), b"caf\xe9 au lait\n", "what cannot be shown is not spoilt");
    world.put("n.json", "{\"a\": 1}\n");
    assert!(world.replace("n.json", "1}", "1").await.contains("Failed to write changes: Refusing to write"));
    assert_eq!(world.text("n.json"), "{\"a\": 1}\n");
}

#[tokio::test]
async fn patching_many_files_answers_in_the_words_of_hermes() {
    let world = world();
    world.put("a.txt", "one\n2\n");
    world.put("nonl.txt", "one\ntwo");
    world.put("many.txt", "hit\n");
    let patch = |text: &str| json!({"mode": "patch", "patch": text});
    let whole = "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+uno\n*** Add File: added.txt\n+l1\n+l2\n*** Delete File: nonl.txt\n*** Move File: many.txt -> moved.txt\n*** End Patch";
    assert_eq!(
        world.call("patch", patch(whole)).await,
        r##"{"success": true, "diff": "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n-one\n+uno\n 2\n\n--- /dev/null\n+++ b/added.txt\n+l1\n+l2\n--- a/nonl.txt\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-one\n-two\n# Moved: many.txt -> moved.txt", "files_modified": ["WS/a.txt", "WS/added.txt", "WS/nonl.txt", "WS/many.txt", "WS/moved.txt"], "files_created": ["added.txt"], "files_deleted": ["nonl.txt"], "lint": {"a.txt": {"status": "skipped", "message": "No linter for .txt files"}, "many.txt -> moved.txt": {"status": "skipped", "message": "No linter for .txt files"}, "added.txt": {"status": "skipped", "message": "No linter for .txt files"}}}"##
    );
    assert_eq!(
        (world.text("a.txt"), world.text("added.txt"), world.text("moved.txt")),
        ("uno\n2\n".into(), "l1\nl2".into(), "hit\n".into())
    );
    for (text, told) in [
        (
            "nonsense",
            r#"{"success": false, "error": "Patch validation failed (no files were modified):\n  • Patch contains no changes (only context lines were provided)"}"#,
        ),
        (
            "*** Begin Patch\n*** Update File: a.txt\n@@ hint @@\n-nope\n+uno\n*** End Patch",
            r#"{"success": false, "error": "Patch validation failed (no files were modified):\n  • a.txt: hunk 1 'hint' not found — Could not find a match for old_string in the file\n\nDid you mean one of these sections?\n   1| uno\n   2| 2"}"#,
        ),
        (
            "*** Begin Patch\n*** Update File: ../a.txt\n-nope\n+uno\n*** End Patch",
            r#"{"error": "V4A patch header contains '..' traversal: '../a.txt'. Use the agent's cwd-relative path (no '..') or an absolute path in '*** Update File:' / '*** Add File:' / '*** Delete File:' / '*** Move File:' headers."}"#,
        ),
    ] {
        assert_eq!(world.call("patch", patch(text)).await, told);
    }
}

#[tokio::test]
async fn a_patch_that_does_not_fit_everywhere_changes_nothing() {
    let world = world();
    world.put("a.txt", "one\n");
    world.put("there.txt", "x\n");
    let patch = "*** Begin Patch\n*** Update File: a.txt\n-one\n+uno\n*** Add File: new.txt\n+x\n*** Delete File: absent.txt\n*** Move File: a.txt -> there.txt\n*** Update File: missing.txt\n-a\n+b\n*** End Patch";
    let told = world.call("patch", json!({"mode": "patch", "patch": patch})).await;
    for error in [
        "absent.txt: file not found for deletion",
        "there.txt: destination already exists — move would overwrite",
        "missing.txt: File not found: missing.txt",
    ] {
        assert!(told.contains(error), "{told}");
    }
    assert_eq!(world.text("a.txt"), "one\n");
    assert!(!world.root.join("ws/new.txt").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn patches_side_by_side_lose_nothing() {
    let world = world();
    world.put("list.txt", (0..16).map(|n| format!("item {n} open\n")).collect::<String>());
    let calls: Vec<_> = (0..16)
        .map(|n| {
            let change = json!({"path": "list.txt", "old_string": format!("item {n} open"), "new_string": format!("item {n} done")});
            call(&format!("s{n}"), "1/1/0", "patch", &change.to_string())
        })
        .collect();
    futures_util::future::join_all(calls.iter().map(|call| world.files.call(call))).await;
    assert_eq!(world.text("list.txt").matches("done").count(), 16);
}
