use super::*;
use crate::sessions_json::Index;

fn entry(fields: Value) -> Result<SessionEntry, BrokenEntry> {
    let mut object = json!({
        "session_key": "agent:main:telegram:dm:1",
        "session_id": "20251115_211700_0123abcd",
        "created_at": "2025-11-15T21:17:00",
        "updated_at": "2025-11-15T21:18:03.120456",
    });
    object.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    SessionEntry::from_json(&object)
}

#[test]
fn p21_the_new_key_wins_and_only_it_is_written() {
    for (fields, finalized) in [
        (json!({}), false),
        (json!({"memory_flushed": true}), true),
        (json!({"memory_flushed": false}), false),
        (json!({"expiry_finalized": true}), true),
        (json!({"expiry_finalized": false, "memory_flushed": true}), false),
        (json!({"expiry_finalized": null, "memory_flushed": true}), false),
        (json!({"expiry_finalized": true, "memory_flushed": false}), true),
    ] {
        let entry = entry(fields.clone()).unwrap();
        assert_eq!(entry.expiry_finalized, finalized, "{fields}");
        let written = entry.to_json();
        assert_eq!(written["expiry_finalized"], finalized);
        assert_eq!(written.get("memory_flushed"), None);
    }
}

#[test]
fn p15_routing_rows_have_the_text_that_hermes_writes() {
    let index = Index::parse(include_str!("sessions-0.19.json")).unwrap();
    let (_, last) = index.entries.last().unwrap();
    let text = entry_json(last);
    assert_eq!(
        text,
        "{\"session_key\": \"agent:main:local:dm\", \"session_id\": \"20251115_211703_00000002\", \"created_at\": \"2025-03-30T02:30:00\", \"updated_at\": \"2025-10-26T02:30:00\", \"display_name\": null, \"platform\": null, \"chat_type\": \"dm\", \"input_tokens\": 0, \"output_tokens\": 0, \"cache_read_tokens\": 0, \"cache_write_tokens\": 0, \"total_tokens\": 0, \"last_prompt_tokens\": 0, \"estimated_cost_usd\": 0.0, \"cost_status\": \"unknown\", \"expiry_finalized\": false, \"suspended\": false, \"resume_pending\": false, \"resume_reason\": null, \"last_resume_marked_at\": null, \"is_fresh_reset\": false, \"was_auto_reset\": false, \"auto_reset_reason\": null, \"reset_had_activity\": false}"
    );
    for (_, entry) in &index.entries {
        assert_eq!(entry_from_json(&entry_json(entry)).as_ref(), Ok(entry));
    }
}

#[test]
fn every_field_is_read() {
    let index = Index::parse(include_str!("sessions-0.19.json")).unwrap();
    let entry = &index.entries[0].1;
    assert_eq!(entry.session_id.as_str(), "20251115_211700_0123abcd");
    assert_eq!(entry.updated_at.to_string(), "2025-11-15T21:18:03.120456");
    assert_eq!((entry.total_tokens, entry.last_prompt_tokens), (30, 12345));
    assert_eq!((entry.estimated_cost_usd, entry.cost_status.as_str()), (0.0125, "estimated"));
    assert!(entry.resume_pending && !entry.suspended);
    assert_eq!(entry.resume_reason.as_deref(), Some("restart_timeout"));
    assert_eq!(entry.last_resume_marked_at.unwrap().to_string(), "2025-11-15T21:19:00.000005");
    assert_eq!(entry.model_override.as_ref().unwrap().provider.as_deref(), Some("custom"));
    assert_eq!(entry.origin.as_ref().unwrap().message_id.as_deref(), Some("17"));
    assert_eq!(entry.extra, Map::new());
    let other = &index.entries[1].1;
    assert!(other.expiry_finalized && other.suspended && other.was_auto_reset && other.is_fresh_reset);
    assert_eq!(other.auto_reset_reason.as_deref(), Some("idle"));
    assert_eq!(other.origin.as_ref().unwrap().scope_id.as_deref(), Some("99"));
}

#[test]
fn fields_of_a_later_hermes_stay_and_secrets_do_not() {
    let later = json!({"z": 1, "later": [1, {"x": null}], "a": 2, "model_override": {"model": "m", "api_key": "sk-secret", "provider": ""}});
    let text = entry_json(&entry(later).unwrap());
    assert!(
        text.ends_with(r#""model_override": {"model": "m"}, "z": 1, "later": [1, {"x": null}], "a": 2}"#),
        "{text}"
    );
    assert!(!text.contains("secret"));
    assert_eq!(entry(json!({"model_override": {"api_key": "sk-secret"}})).unwrap().model_override, None);
}

#[test]
fn what_python_would_forgive_is_forgiven() {
    let odd = entry(json!({
        "input_tokens": null, "output_tokens": 2.0, "suspended": 1, "resume_pending": "yes", "platform": "",
        "last_resume_marked_at": "rubbish", "origin": "nowhere", "chat_type": null, "display_name": 7,
    }))
    .unwrap();
    assert_eq!((odd.input_tokens, odd.output_tokens), (0, 2));
    assert!(odd.suspended && odd.resume_pending);
    assert_eq!((odd.platform, odd.last_resume_marked_at, odd.origin), (None, None, None));
    assert_eq!((odd.chat_type.as_str(), odd.display_name.as_deref()), ("dm", Some("7")));
}

#[test]
fn an_entry_that_cannot_be_used_says_why() {
    let missing = BrokenEntry::Missing;
    assert_eq!(SessionEntry::from_json(&json!("x")), Err(BrokenEntry::NotAnObject));
    assert_eq!(entry_from_json("{"), Err(BrokenEntry::NotAnObject));
    assert_eq!(SessionEntry::from_json(&json!({})), Err(missing("session_key")));
    assert_eq!(entry(json!({"session_id": 5})), Err(missing("session_id")));
    assert_eq!(entry(json!({"created_at": null})), Err(missing("created_at")));
    assert_eq!(
        entry(json!({"origin": {"platform": "x"}})),
        Err(missing("platform or chat_id of its origin"))
    );
    for (field, value) in [("updated_at", "yesterday"), ("session_id", "a b"), ("session_id", "")] {
        let Err(BrokenEntry::Unusable { field: named, .. }) = entry(json!({field: value})) else {
            panic!("{value}")
        };
        assert_eq!(named, field);
    }
}

#[test]
fn ids_that_could_be_paths_are_refused_as_hermes_does() {
    for (text, id, key) in [
        ("20251115_211700_0123abcd", true, true),
        ("agent:main:google_chat:group:spaces/AAA", false, true),
        ("a..b", false, false),
        ("/etc", false, false),
        ("\\\\host", false, false),
        ("a\\b", false, true),
        ("C:x", false, false),
        ("é:x", false, false),
        ("1:x", true, true),
        ("", true, true),
    ] {
        assert_eq!(!is_path_unsafe(text), id, "{text:?} as an id");
        assert_eq!(!is_key_unsafe(text), key, "{text:?} as a key");
    }
    let refused = entry(json!({"session_id": "C:evil"}));
    assert_eq!(refused, Err(BrokenEntry::Unsafe { field: "session_id", value: "C:evil".into() }));
}
