use super::*;
use proptest::prelude::*;

const AWKWARD: &str = "\
# My agent. Do not touch.
model:            # the good one
    default:   \"some/model\"   # quoted, on purpose
    # provider: openrouter
    base_url: http://127.0.0.1:8080/v1#fragment

unknown_thing: {a: 1, b: [x, y], } # mine
display:
# nothing yet

agent: {}
empty: ~
\"quoted key\": 1
prompt: |
    Several lines
      with their own indent

    and an end
keep: |+
  text


anchor: &it {x: 1}
alias: *it
list:
- name: one
  key: value
- two
last:
  deep:
    deeper: yes";

#[test]
fn one_key_changes_and_every_other_character_stays() {
    for (key, value, before, after) in [
        ("model.default", Scalar::Text("other"), "\"some/model\"   # quoted", "other   # quoted"),
        ("unknown_thing.a", Scalar::Integer(7), "{a: 1,", "{a: 7,"),
        ("unknown_thing.c", Scalar::Bool(true), "[x, y], } # mine", "[x, y], c: true } # mine"),
        (
            "display.busy_input_mode",
            Scalar::Text("queue"),
            "display:\n",
            "display:\n  busy_input_mode: queue\n",
        ),
        ("agent.max_turns", Scalar::Integer(5), "agent: {}", "agent: {max_turns: 5}"),
        ("empty.x.y", Scalar::Integer(1), "empty: ~", "empty: {x: {y: 1}}"),
        ("quoted key", Scalar::Integer(2), "\"quoted key\": 1", "\"quoted key\": 2"),
        ("alias", Scalar::Integer(2), "alias: *it", "alias: 2"),
        ("last.deep.deeper", Scalar::Bool(false), "deeper: yes", "deeper: false"),
        ("last.deep.new", Scalar::Text("yes"), "deeper: yes", "deeper: yes\n    new: \"yes\"\n"),
        ("last.new", Scalar::Text("a b"), "deeper: yes", "deeper: yes\n  new: \"a b\"\n"),
        ("brand.new", Scalar::Text("1e3"), "deeper: yes", "deeper: yes\nbrand:\n  new: \"1e3\"\n"),
        ("model.provider", Scalar::Text("custom"), "v1#fragment\n", "v1#fragment\n    provider: custom\n"),
        (
            "prompt",
            Scalar::Text("short"),
            "prompt: |\n    Several lines\n      with their own indent\n\n    and an end\n",
            "prompt: short\n",
        ),
        ("keep", Scalar::Text("x"), "keep: |+\n  text\n\n\n", "keep: x\n"),
    ] {
        assert_eq!(AWKWARD.matches(before).count(), 1, "{before:?}");
        let edited = set(AWKWARD, key, value).unwrap_or_else(|error| panic!("{key}: {error}"));
        assert_eq!(edited, AWKWARD.replace(before, after), "{key}");
    }
}

#[test]
fn a_key_is_taken_out_and_its_comments_stay() {
    for (key, before, after) in [
        ("model.default", "    default:   \"some/model\"   # quoted, on purpose\n", ""),
        (
            "model",
            "model:            # the good one\n    default:   \"some/model\"   # quoted, on purpose\n    # provider: openrouter\n    base_url: http://127.0.0.1:8080/v1#fragment\n",
            "",
        ),
        ("unknown_thing.a", "{a: 1, b:", "{b:"),
        ("unknown_thing.b", " b: [x, y], }", " }"),
        ("prompt", "prompt: |\n    Several lines\n      with their own indent\n\n    and an end\n", ""),
        ("keep", "keep: |+\n  text\n\n\n", ""),
        ("list", "list:\n- name: one\n  key: value\n- two\n", ""),
        ("last.deep.deeper", "    deeper: yes", ""),
        ("display", "display:\n", ""),
        ("nowhere.to.be.found", "", ""),
    ] {
        let edited = unset(AWKWARD, key).unwrap_or_else(|error| panic!("{key}: {error}"));
        let expected = match before {
            "" => AWKWARD.to_owned(),
            before => AWKWARD.replacen(before, after, 1),
        };
        assert_eq!(edited, expected, "{key}");
    }
}

#[test]
fn what_cannot_be_changed_safely_is_refused() {
    let occupied = |key: &str, kind| EditError::Occupied { key: key.to_owned(), kind };
    for (key, error) in [
        ("model", occupied("model", "a mapping")),
        ("list", occupied("list", "a list")),
        ("model.default.x", occupied("model.default", "text")),
        ("list.name", occupied("list", "a list")),
    ] {
        assert_eq!(set(AWKWARD, key, Scalar::Integer(1)), Err(error), "{key}");
    }
    // Its text is what an alias elsewhere stands for.
    let entangled = |key: &str| EditError::Entangled { key: key.to_owned() };
    assert_eq!(set(AWKWARD, "anchor.x", Scalar::Integer(2)), Err(entangled("anchor.x")));
    assert_eq!(unset(AWKWARD, "anchor"), Err(entangled("anchor")));
    assert!(matches!(set("a: [", "b", Scalar::Integer(1)), Err(EditError::Malformed(_))));
}

#[test]
fn small_and_odd_files_take_a_first_key() {
    for (text, expected) in [
        ("", "a:\n  b: x\n"),
        ("# only a comment", "# only a comment\na:\n  b: x\n"),
        ("{}", "{a: {b: x}}"),
        ("---\nc: 1\n...\n", "---\nc: 1\na:\n  b: x\n...\n"),
        ("\u{feff}c: 1\r\n", "\u{feff}c: 1\r\na:\r\n  b: x\r\n"),
        ("a: {c: , d: 1}", "a: {c: , d: 1, b: x}"),
        ("a:   # later\nc: 1\n", "a:   # later\n  b: x\nc: 1\n"),
        (
            "base: &base {b: 1}\na:\n  <<: *base\n  c: 2\n",
            "base: &base {b: 1}\na:\n  <<: *base\n  c: 2\n  b: x\n",
        ),
    ] {
        assert_eq!(set(text, "a.b", Scalar::Text("x")).as_deref(), Ok(expected), "{text:?}");
    }
}

#[test]
fn text_is_quoted_where_a_reader_could_take_it_for_something_else() {
    for (text, expected) in [
        ("queue", "queue"),
        ("some/model-1.5", "some/model-1.5"),
        ("http://127.0.0.1:8080/v1", "\"http://127.0.0.1:8080/v1\""),
        ("off", "\"off\""),
        ("017", "\"017\""),
        ("1e3", "\"1e3\""),
        ("0o17", "\"0o17\""),
        ("", "\"\""),
        ("a: b", "\"a: b\""),
        ("- x", "\"- x\""),
        ("say \"hi\"\\\n", "\"say \\\"hi\\\"\\\\\\n\""),
        ("\u{7f}\u{feff}", "\"\\x7f\\ufeff\""),
        ("ünï", "\"ünï\""),
    ] {
        assert_eq!(render(Scalar::Text(text)), expected, "{text:?}");
    }
}

proptest! {
    /// All that is written comes back, and nothing else has changed.
    #[test]
    fn what_was_set_is_read_back(value in any::<String>(), key in "[a-z]{1,8}(\\.[a-z]{1,8}){0,3}") {
        if let Ok(edited) = set(AWKWARD, &key, Scalar::Text(&value)) {
            let read = tree::parse(&edited).unwrap().root;
            prop_assert!(read.get(&key).unwrap().value == Value::Text(value));
            prop_assert!(edited.contains("# My agent. Do not touch.\nmodel:            # the good one\n"));
        }
    }

    #[test]
    fn set_and_unset_give_the_old_settings(number in any::<i64>(), key in "(model|display|agent|last|new)\\.fresh[a-z]{0,4}") {
        let edited = set(AWKWARD, &key, Scalar::Integer(number)).unwrap();
        let back = unset(&edited, &key).unwrap();
        prop_assert!(same(
            &tree::parse(&unset(&back, "new").unwrap()).unwrap().root,
            &tree::parse(AWKWARD).unwrap().root,
        ));
    }
}

#[test]
fn an_entry_joins_a_list_and_nothing_else_moves() {
    for (before, after) in [
        ("", "command_allowlist: [\"git push\", rm]\n"),
        ("# mine\nmodel: x # y\n", "# mine\nmodel: x # y\ncommand_allowlist: [\"git push\", rm]\n"),
        ("model: x", "model: x\ncommand_allowlist: [\"git push\", rm]\n"),
        ("model: x\r\nb: 1\r\n", "model: x\r\nb: 1\r\ncommand_allowlist: [\"git push\", rm]\r\n"),
        ("{model: x}", "{model: x, command_allowlist: [\"git push\", rm]}"),
        ("command_allowlist:\nmodel: x\n", "command_allowlist: [\"git push\", rm]\nmodel: x\n"),
        ("command_allowlist: # none\nb: 1\n", "command_allowlist: [\"git push\", rm] # none\nb: 1\n"),
        ("command_allowlist: [] # none\nb: 1\n", "command_allowlist: [\"git push\", rm] # none\nb: 1\n"),
        ("command_allowlist: [ ]\n", "command_allowlist: [\"git push\", rm ]\n"),
        ("command_allowlist: [a, 'b c'] # x\n", "command_allowlist: [a, 'b c', \"git push\", rm] # x\n"),
        ("command_allowlist: [a,]\n", "command_allowlist: [a, \"git push\", rm,]\n"),
        (
            "command_allowlist: [\n  a, # one\n  b # two\n]\n",
            "command_allowlist: [\n  a, # one\n  b, \"git push\", rm # two\n]\n",
        ),
        (
            "command_allowlist:\n- a # one\n- b   # two\n# after\nmodel: x\n",
            "command_allowlist:\n- a # one\n- b   # two\n- \"git push\"\n- rm\n# after\nmodel: x\n",
        ),
        (
            "command_allowlist:\n    - a\n\n    - 'b'\n\nmodel: x\n",
            "command_allowlist:\n    - a\n\n    - 'b'\n    - \"git push\"\n    - rm\n\nmodel: x\n",
        ),
        ("command_allowlist:\n  - a", "command_allowlist:\n  - a\n  - \"git push\"\n  - rm\n"),
        ("command_allowlist: [rm]\n", "command_allowlist: [rm, \"git push\"]\n"),
        ("command_allowlist: ['rm', git push]\n", "command_allowlist: ['rm', git push]\n"),
    ] {
        let edited = append(before, "command_allowlist", &["git push", "rm", "rm"]);
        assert_eq!(edited.as_deref(), Ok(after), "{before:?}");
    }
}

#[test]
fn a_list_that_cannot_be_lengthened_safely_is_left_alone() {
    for text in [
        "command_allowlist: word\n",
        "command_allowlist: {a: 1}\n",
        "other: &all [a]\ncommand_allowlist: *all\n",
        "command_allowlist: [a\n",
    ] {
        assert!(append(text, "command_allowlist", &["rm"]).is_err(), "{text:?}");
    }
}

proptest::proptest! {
    /// What is allowed for good is read back as it was, beside all that was there.
    #[test]
    fn any_entry_is_read_back_as_it_was(entries in proptest::collection::vec(".{0,12}", 1..4), block: bool) {
        let before = if block { "command_allowlist:\n  - a # x\nmodel: y\n" } else { "command_allowlist: [a]\nmodel: y\n" };
        let words: Vec<&str> = entries.iter().map(String::as_str).collect();
        let after = append(before, "command_allowlist", &words).unwrap();
        let root = tree::parse(&after).unwrap().root;
        let Some(Value::List(items)) = root.get("command_allowlist").map(|node| node.value.clone()) else { panic!("{after}") };
        for entry in std::iter::once("a").chain(words) {
            proptest::prop_assert!(items.iter().any(|item| item.value == Value::Text(entry.to_owned())), "{after}");
        }
        proptest::prop_assert_eq!(append(&after, "command_allowlist", &["a"]).unwrap(), after);
    }
}
