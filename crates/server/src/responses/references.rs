//! `item_reference`: items of earlier responses that an input names instead of repeating them.

use super::object::RESPONSE;
use crate::error::ApiError;
use crate::response_id::ResponseId;
use crate::submission::ApiCaller;
use crate::turn_follower::{ClientReply, TurnFollower};
use crate::{App, sessions};
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

/// The body with every `item_reference` in its input replaced by what it refers to.
pub(super) async fn resolved(app: &App, headers: &HeaderMap, bytes: Bytes) -> Result<Bytes, ApiError> {
    const REFERENCE: &str = "item_reference";
    if !bytes.windows(REFERENCE.len()).any(|window| window == REFERENCE.as_bytes()) {
        return Ok(bytes);
    }
    let Ok(mut body) = serde_json::from_slice::<Value>(&bytes) else { return Ok(bytes) }; // it is refused in its place
    let user = body.get("user").and_then(Value::as_str).map(str::to_owned);
    let principal = ApiCaller::new(app, headers, user)?.principal;
    let Some(items) = body.get_mut("input").and_then(Value::as_array_mut) else { return Ok(bytes) };
    for item in items {
        if item.get("type").and_then(Value::as_str) == Some(REFERENCE) {
            let id = item.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
            *item = referred(app, &principal, &id).await?.ok_or_else(|| {
                let message = format!("There is no item {id:?}, or not for this API key.");
                ApiError::new(StatusCode::NOT_FOUND, message).code("item_not_found").param("input")
            })?;
        }
    }
    Ok(body.to_string().into())
}

/// The item that was called so in an earlier response.
async fn referred(app: &App, principal: &str, id: &str) -> Result<Option<Value>, ApiError> {
    let (place, rest) = match (id.strip_prefix("msg_"), id.strip_prefix("fc_")) {
        (Some(rest), _) => (None, rest),
        (None, Some(call)) => match call.split_once('_') {
            Some((index, rest)) => (index.parse::<usize>().ok(), rest),
            None => return Ok(None),
        },
        _ => return Ok(None),
    };
    let Some(ticket) = ResponseId::check(&format!("{RESPONSE}{rest}"), &app.guard) else { return Ok(None) };
    // What was said to another caller is none of this one's.
    if sessions::find(app, ticket.session.clone(), Some(principal.to_owned())).await.is_err() {
        return Ok(None);
    }
    let Ok(receipt) = app.api.follow(ticket.session, ticket.seq).await else { return Ok(None) };
    let settled = TurnFollower::new(app.api.clone(), receipt).settled().await?;
    let reply = ClientReply::of(&settled)?;
    let call = place.and_then(|place| reply.calls.get(place));
    Ok(match (place, call) {
        (None, _) => Some(json!({"type": "message", "role": "assistant", "content": reply.text})),
        (Some(_), Some(call)) => Some(json!({
            "type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments,
        })),
        (Some(_), None) => None,
    })
}
