use super::*;
use serde_json::json;

fn form(schema: Value) -> Vec<FormField> {
    fields(&serde_json::from_value(schema).unwrap()).unwrap()
}

fn field(property: Value, required: bool) -> FormField {
    let required = if required { json!(["it"]) } else { json!([]) };
    form(json!({"type": "object", "properties": {"it": property}, "required": required})).remove(0)
}

#[test]
fn p31_an_answer_is_a_value_of_its_field_or_is_not_taken() {
    let text = json!({"type": "string", "minLength": 2, "maxLength": 4});
    let number = json!({"type": "number", "minimum": -1.5, "maximum": 2});
    let integer = json!({"type": "integer", "minimum": 1, "maximum": 10});
    let of = |format: &str| json!({"type": "string", "format": format});
    let one = json!({"type": "string", "oneOf": [{"const": "#f00", "title": "Red"}, {"const": "#0f0", "title": "Green"}]});
    let plain = json!({"type": "string", "enum": ["low", "high"]});
    let legacy = json!({"type": "string", "enum": ["a", "b"], "enumNames": ["Apple", "Pear"]});
    let digits = json!({"type": "string", "enum": ["2", "1"]});
    let some = json!({"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string", "enum": ["x", "y", "z"]}});
    let titled = json!({"type": "array", "items": {"anyOf": [{"const": "a", "title": "An A"}, {"const": "b", "title": "A B"}]}});
    for (property, said, expected) in [
        (&text, " abc ", Some(json!("abc"))),
        (&text, "a", None),
        (&text, "äöüß!", None),
        (&number, "-1.5", Some(json!(-1.5))),
        (&number, "2.1", None),
        (&number, "NaN", None),
        (&number, "inf", None),
        (&integer, "7", Some(json!(7))),
        (&integer, "7.5", None),
        (&integer, "11", None),
        (&integer, "seven", None),
        (&json!({"type": "boolean"}), "Yes", Some(json!(true))),
        (&json!({"type": "boolean"}), "2", Some(json!(false))),
        (&json!({"type": "boolean"}), "perhaps", None),
        (&of("email"), "ada@example.org", Some(json!("ada@example.org"))),
        (&of("email"), "ada@@example.org", None),
        (&of("email"), "ada", None),
        (&of("email"), "a da@example.org", None),
        (&of("uri"), "https://example.org/x", Some(json!("https://example.org/x"))),
        (&of("uri"), "example", None),
        (&of("date"), "2028-02-29", Some(json!("2028-02-29"))),
        (&of("date"), "2026-02-29", None),
        (&of("date"), "2026-2-3", None),
        (&of("date"), "２０２６-02-03", None),
        (&of("date-time"), "2026-05-28T09:30:00.25+02:00", Some(json!("2026-05-28T09:30:00.25+02:00"))),
        (&of("date-time"), "2026-05-28T09:30:00Z", Some(json!("2026-05-28T09:30:00Z"))),
        (&of("date-time"), "2026-05-28T09:30:00", None),
        (&of("date-time"), "2026-05-28T09:30:00.Z", None),
        (&of("date-time"), "2026-05-28T25:30:00Z", None),
        (&one, "red", Some(json!("#f00"))),
        (&one, "2", Some(json!("#0f0"))),
        (&one, "#0f0", Some(json!("#0f0"))),
        (&one, "3", None),
        (&plain, "HIGH", Some(json!("high"))),
        (&plain, "middle", None),
        (&legacy, "pear", Some(json!("b"))),
        // A number is the place of a choice, also where choices are numbers.
        (&digits, "2", Some(json!("1"))),
        (&digits, "\"2\"", Some(json!("2"))),
        (&some, "1, z", Some(json!(["x", "z"]))),
        (&some, "x,y,z", None),
        (&some, "none", None),
        (&some, "x,x,x,x", None),
        (&titled, "none", Some(json!([]))),
        (&titled, "a b", Some(json!(["b"]))),
    ] {
        let filled = field(property.clone(), true).read(said);
        match expected {
            Some(value) => assert_eq!(filled, FilledForm::With(value), "{property} {said:?}"),
            None => assert!(matches!(filled, FilledForm::Unclear(_)), "{property} {said:?}: {filled:?}"),
        }
    }
}

#[test]
fn what_need_not_be_filled_in_can_be_left_out_or_taken_as_it_is_proposed() {
    let optional = field(json!({"type": "integer", "default": 5}), false);
    assert_eq!(optional.read("default"), FilledForm::With(json!(5)));
    assert_eq!(optional.read(""), FilledForm::With(json!(5)));
    assert_eq!(optional.read("skip"), FilledForm::LeftOut);
    let required = field(json!({"type": "string", "minLength": 1}), true);
    assert!(matches!(required.read(""), FilledForm::Unclear(_)));
    assert_eq!(required.read("skip"), FilledForm::With(json!("skip")), "a word like any other");
    let odd = field(json!({"type": "string", "enum": ["skip", "go"]}), false);
    assert_eq!(odd.read("skip"), FilledForm::With(json!("skip")));
    // What the server proposes must be an answer, too.
    for wrong in [
        json!({"type": "integer", "default": 11, "maximum": 10}),
        json!({"type": "string", "enum": ["a"], "default": "b"}),
    ] {
        assert!(!field(wrong, false).question().contains("default"));
    }
}

#[test]
fn fields_are_asked_for_in_the_order_of_the_server() {
    let schema = r#"{"type": "object", "properties": {"b": {"type": "string"}, "a": {"type": "boolean"}}}"#;
    let fields = fields(&serde_json::from_str(schema).unwrap()).unwrap();
    assert_eq!(fields.iter().map(|field| field.name.as_str()).collect::<Vec<_>>(), ["b", "a"]);
}

#[test]
fn p31_a_form_that_asks_for_a_secret_or_for_too_much_is_not_shown() {
    let with = |name: &str, property: Value| {
        let schema = json!({"type": "object", "properties": {name: property}});
        fields(&serde_json::from_value(schema).unwrap())
    };
    for name in ["password", "API key", "github_token", "Client-Secret", "passphrase"] {
        assert!(with(name, json!({"type": "string"})).is_err(), "{name}");
        assert!(with("x", json!({"type": "string", "title": name})).is_err(), "{name}");
    }
    assert!(with("max_tokens", json!({"type": "integer"})).is_ok());
    let many: Vec<String> = (0..60).map(|number| format!("choice {number}")).collect();
    assert!(with("x", json!({"type": "string", "enum": many})).is_err());
    let properties: serde_json::Map<String, Value> =
        (0..20).map(|number| (format!("f{number}"), json!({"type": "boolean"}))).collect();
    let schema = json!({"type": "object", "properties": properties});
    assert!(fields(&serde_json::from_value(schema).unwrap()).is_err());
}

#[test]
fn p31_the_words_of_a_server_are_plain_and_bounded() {
    assert_eq!(plain("a\u{1b}[31mb\u{202e}c\u{200b}", 100), "a [31mbc");
    assert_eq!(plain("[your bank](https://evil.example)", 100), "[your bank] (https://evil.example)");
    assert_eq!(plain(&"x".repeat(100_000), 10), format!("{}…", "x".repeat(10)));
    let field =
        field(json!({"type": "string", "title": "t".repeat(5_000), "description": "d".repeat(50_000)}), true);
    assert!(field.question().len() < 1_000);
}
