//! Which messages and conclusions a list shows: containment of metadata, fields, `in`, `AND`, `OR`.

use serde_json::Value;

const FIELDS: [&str; 8] =
    ["id", "peer_id", "session_id", "observer_id", "observed_id", "workspace_id", "created_at", "level"];

/// Whether `filters` can be meant. The error is the server's word.
pub fn check(filters: &Value) -> Result<(), String> {
    let Some(filters) = filters.as_object() else {
        return if filters.is_null() { Ok(()) } else { Err("Input should be a valid dictionary".into()) };
    };
    for (key, value) in filters {
        match key.as_str() {
            "AND" | "OR" => value.as_array().into_iter().flatten().try_for_each(check)?,
            "metadata" if value.is_object() => {}
            "peer_perspective" => {}
            field if FIELDS.contains(&field) => {}
            other => return Err(format!("Invalid filter key: {other}")),
        }
    }
    Ok(())
}

pub fn matches(filters: &Value, item: &Value) -> bool {
    filters.as_object().into_iter().flatten().all(|(key, wanted)| match key.as_str() {
        "AND" => wanted.as_array().into_iter().flatten().all(|inner| matches(inner, item)),
        "OR" => wanted.as_array().into_iter().flatten().any(|inner| matches(inner, item)),
        "metadata" => contains(&item["metadata"], wanted),
        "peer_perspective" => true, // the world knows who took part in what
        field => is(&item[field], wanted),
    })
}

fn contains(metadata: &Value, wanted: &Value) -> bool {
    wanted
        .as_object()
        .into_iter()
        .flatten()
        .all(|(key, wanted)| metadata.get(key).is_some_and(|value| is(value, wanted)))
}

fn is(value: &Value, wanted: &Value) -> bool {
    let Some(rule) = wanted.as_object() else { return value == wanted };
    if let Some(list) = rule.get("in") {
        return list.as_array().into_iter().flatten().any(|one| one == value);
    }
    match value.is_object() {
        true => contains(value, wanted),
        false => rule.iter().all(|(name, bound)| {
            let (value, bound) = (value.as_str().unwrap_or_default(), bound.as_str().unwrap_or_default());
            match name.as_str() {
                "gte" => value >= bound,
                "lte" => value <= bound,
                "gt" => value > bound,
                "lt" => value < bound,
                "ne" => value != bound,
                _ => false,
            }
        }),
    }
}
