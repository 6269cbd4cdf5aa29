use super::*;
use crate::peer::python;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRng, TestRunner};
use serde_json::json;

#[test]
fn text_has_pythons_form() {
    for (value, text) in [
        (json!({"b": 1, "a": [true, null, {}], "c": []}), r#"{"b": 1, "a": [true, null, {}], "c": []}"#),
        (json!("é😀\u{7f}\u{1}\"\\/\n\r\t\u{8}\u{c}"), r#""\u00e9\ud83d\ude00\u007f\u0001\"\\/\n\r\t\b\f""#),
        (
            json!([1.0, -0.0, 0.1, 1e15, 1e16, 1e-4, 1e-5]),
            "[1.0, -0.0, 0.1, 1000000000000000.0, 1e+16, 0.0001, 1e-05]",
        ),
        (json!([1.5e300, 5e-324, -2.5e-7, 123456789.125]), "[1.5e+300, 5e-324, -2.5e-07, 123456789.125]"),
        (json!([u64::MAX, i64::MIN]), "[18446744073709551615, -9223372036854775808]"),
    ] {
        assert_eq!(dumps(&value), text);
    }
}

#[test]
fn the_other_forms_differ_where_python_does() {
    let value = json!({"ä": ["\u{7f}\u{1}"], "x": {}});
    assert_eq!(dumps_unicode(&value), "{\"ä\": [\"\u{7f}\\u0001\"], \"x\": {}}");
    assert_eq!(dumps_indented(&value), "{\n  \"\\u00e4\": [\n    \"\\u007f\\u0001\"\n  ],\n  \"x\": {}\n}");
}

#[test]
fn what_python_reads_is_read() {
    for (text, read_as) in [
        (r#"{"a":1}"#, Some(r#"{"a":1}"#)),
        ("[NaN, Infinity, -Infinity, -1]", Some(r#"["NaN", "Infinity", "-Infinity", -1]"#)),
        (r#"["NaN Infinity"]"#, Some(r#"["NaN Infinity"]"#)),
        (r#"["\ud83d\ude00"]"#, Some(r#"["\ud83d\ude00"]"#)),
        (
            r#"["\ud83d", "\\ud83d", "x\udc00\ud83d\ude00"]"#,
            Some(r#"["\ufffd", "\\ud83d", "x\ufffd\ud83d\ude00"]"#),
        ),
        (r#"["\ud83d\"", NaN]"#, Some(r#"["\ufffd\"", "NaN"]"#)),
        ("[Nan]", None),
        ("[1", None),
        ("\"\\", None),
        ("\"\\ud8", None),
        ("", None),
    ] {
        assert_eq!(read(text).as_deref(), read_as, "{text}");
    }
    let deep = "[".repeat(200) + &"]".repeat(200);
    assert_eq!(read(&deep), None);
}

#[test]
fn pieces_come_out_as_they_are_written() {
    let text = r#" {"b" : 1E5 , "a":[ 12345678901234567890123 ,"x"], "b":{} } "#;
    let found = members(text).unwrap();
    let expected = [("b", "1E5"), ("a", r#"[ 12345678901234567890123 ,"x"]"#), ("b", "{}")]
        .map(|(n, v)| (n.to_owned(), v));
    assert_eq!(found, expected);
    assert_eq!(items(found[1].1).unwrap(), ["12345678901234567890123", "\"x\""]);
    assert_eq!(members("[]"), None);
    assert_eq!(items("{}"), None);
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_filter("finite", |f| f.is_finite()).prop_map(Value::from),
        (-1e6f64..1e6).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[\\x00-\\x7f]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((any::<String>(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn whatever_is_written_is_read_back(value in value()) {
        for text in [dumps(&value), dumps_unicode(&value), dumps_indented(&value)] {
            prop_assert_eq!(read(&text).unwrap(), text.as_str());
            prop_assert!(says(&text, &value), "{text}");
        }
    }

    #[test]
    fn floats_keep_their_value(number in any::<f64>()) {
        prop_assume!(number.is_finite());
        prop_assert_eq!(float(number).parse::<f64>().unwrap().to_bits(), number.to_bits());
    }

    #[test]
    fn no_text_makes_the_reader_stumble(text in "[\\[\\]{}\",:\\\\uNaIniftyd8cDC0 -]{0,24}") {
        if let Some(json) = read(&text) {
            prop_assert!(serde_json::from_str::<Value>(&json).is_ok());
        }
    }
}

/// Whether `text` means `value`, to the last bit of a float. serde_json may read those one place
/// off, so each number is read from its own text.
fn says(text: &str, value: &Value) -> bool {
    match value {
        Value::Number(number) if number.is_f64() => {
            text.parse::<f64>().unwrap().to_bits() == number.as_f64().unwrap().to_bits()
        }
        Value::Array(values) => {
            let found = items(text).unwrap();
            found.len() == values.len() && found.iter().zip(values).all(|(text, value)| says(text, value))
        }
        Value::Object(object) => {
            let found = members(text).unwrap();
            let same = |((name, text), (expected, value)): (&(String, &str), (&String, &Value))| {
                name == expected && says(text, value)
            };
            found.len() == object.len() && found.iter().zip(object).all(same)
        }
        other => serde_json::from_str::<Value>(text).unwrap() == *other,
    }
}

#[test]
fn python_writes_the_same_bytes() {
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        TestRng::deterministic_rng(Config::default().rng_algorithm),
    );
    let values: Vec<Value> = (0..400).map(|_| value().new_tree(&mut runner).unwrap().current()).collect();
    let list = Value::from(values.clone());
    let script = "import json,sys\n\
        for v in json.load(sys.stdin):\n \
         print(json.dumps([json.dumps(v), json.dumps(v, ensure_ascii=False), json.dumps(v, indent=2)]))";
    let answers = python(script, &dumps(&list));
    assert_eq!(answers.lines().count(), values.len());
    for (value, line) in values.iter().zip(answers.lines()) {
        let theirs: Vec<String> = serde_json::from_str(line).unwrap();
        assert_eq!(theirs, [dumps(value), dumps_unicode(value), dumps_indented(value)]);
    }
}
