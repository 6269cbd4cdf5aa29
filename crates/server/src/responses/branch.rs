//! `previous_response_id`: an input that goes on from an earlier response, in its session or in a new one.

use super::{lost, unknown};
use crate::client_conversation::ClientConversation;
use crate::error::ApiError;
use crate::response_id::ResponseId;
use crate::submission::{ApiCaller, ApiRequest, PlacedInput};
use crate::turn_follower::TurnFollower;
use crate::{App, sessions};
use http::StatusCode;
use throughline_core::message::Body;
use throughline_core::port::{Question, Reading, Receipt, Refusal};
use throughline_core::route::Target;
use throughline_core::{Content, Message, RowId, Time, history};

pub(super) async fn go_on(
    app: &App,
    caller: &ApiCaller,
    ask: &ApiRequest,
    mut conversation: ClientConversation,
    id: &str,
) -> Result<Receipt, ApiError> {
    let about = |error: ApiError| error.param("previous_response_id");
    let ticket = ResponseId::check(id, &app.guard).ok_or_else(|| about(unknown(id)))?;
    if caller.session.as_ref().is_some_and(|session| *session != ticket.session) {
        let message = "previous_response_id and X-Hermes-Session-Id name different sessions; leave one out.";
        return Err(ApiError::invalid("previous_response_id", message));
    }
    let system = conversation.system.take();
    let (results, content) = conversation.into_only_input().ok_or_else(|| {
        let message = "With previous_response_id, input may hold messages from the user and results of tools only: \
                       what was said before is kept here.";
        ApiError::invalid("input", message)
    })?;
    let placed = |target, imported| PlacedInput {
        target,
        system: system.clone(),
        imported,
        results: results.clone(),
        content: content.clone(),
        thread: None,
        at: app.api.now(),
    };
    let known = app.api.follow(ticket.session.clone(), ticket.seq).await;
    let previous = known.map_err(|refusal| about(lost(refusal, id)))?;
    let target = Target::After { session: ticket.session, seq: ticket.seq };
    match app.api.submit(caller.submission(app, ask, placed(target, Vec::new()))).await {
        // Its history can still begin another session, if the caller may see it.
        Err(Refusal::Ended(_) | Refusal::MovedOn | Refusal::NotYours(_)) => {}
        answer => return Ok(answer?),
    }
    let imported = history_up_to(app, caller, previous).await.map_err(about)?;
    Ok(app.api.submit(caller.submission(app, ask, placed(Target::Fresh, imported))).await?)
}

/// What had been said in a session when it had answered this input.
async fn history_up_to(app: &App, caller: &ApiCaller, previous: Receipt) -> Result<Vec<Message>, ApiError> {
    let session = sessions::find(app, previous.session.clone(), Some(caller.principal.clone())).await?.id;
    let settled = TurnFollower::new(app.api.clone(), previous).settled().await?;
    let Some(answer) = &settled.answer else {
        let message = "The previous response has no answer to go on from; send its input again first.";
        return Err(ApiError::new(StatusCode::BAD_REQUEST, message).code("previous_response_failed"));
    };
    if !answer.said.calls.is_empty() {
        let message = "The previous response left calls to its client, and something else was said since; continue from \
                       a later one.";
        return Err(ApiError::new(StatusCode::CONFLICT, message).code("conversation_moved_on"));
    }
    let Reading::History(rows) = app.api.read(Question::History(session)).await? else {
        return Err(ApiError::unreadable());
    };
    up_to_answer(rows, &answer.said.content, settled.began).ok_or_else(|| {
        let message = "The previous response is no longer part of its session's live history, so nothing can \
                       branch off there; continue from a later one.";
        ApiError::new(StatusCode::CONFLICT, message).code("previous_response_compressed")
    })
}

/// A turn's answer is the first one with its words since the turn began: turns of one session do
/// not overlap. If the clock was set back in between, it is the last before.
fn up_to_answer(rows: Vec<(RowId, Message)>, words: &Content, began: Time) -> Option<Vec<Message>> {
    let is_answer = |message: &Message| matches!(&message.body, Body::Assistant(said) if said.calls.is_empty() && said.content == *words);
    let since = rows.iter().position(|(_, message)| is_answer(message) && message.at >= began);
    let end = since.or_else(|| rows.iter().rposition(|(_, message)| is_answer(message)))?;
    let live: Vec<_> = rows.into_iter().take(end + 1).map(|(_, message)| message).collect();
    Some(history::legal(&live).into_iter().map(|message| message.into_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_core::message::{Assistant, ToolCall, ToolResult};

    fn said(at: i64, text: &str) -> (RowId, Message) {
        let said = Assistant { content: Content::text(text), ..Assistant::default() };
        (RowId(0), Message::new(Time(at), Body::Assistant(said)))
    }

    fn asked(at: i64) -> (RowId, Message) {
        (RowId(0), Message::user(Time(at), Content::text("?")))
    }

    #[test]
    fn a_branch_begins_after_the_answer_of_its_turn() {
        let call = ToolCall { id: "c".into(), name: "f".into(), arguments: "{}".into(), extra: None };
        let calling = Assistant { content: Content::text("ok"), calls: vec![call], ..Assistant::default() };
        let result = ToolResult { call_id: "c".into(), name: None, content: Content::text("r") };
        let rows = || {
            vec![
                asked(10),
                said(11, "ok"),
                asked(20),
                (RowId(0), Message::new(Time(21), Body::Assistant(calling.clone()))),
                (RowId(0), Message::new(Time(21), Body::Result(result.clone()))),
                said(22, "ok"),
                asked(30),
                said(31, "ok"),
            ]
        };
        let length = |text: &str, began| {
            up_to_answer(rows(), &Content::text(text), Time(began)).map(|rows| rows.len())
        };
        assert_eq!(length("ok", 10), Some(2));
        assert_eq!(length("ok", 20), Some(6), "an answer with calls is not the end of its turn");
        assert_eq!(length("ok", 30), Some(8));
        assert_eq!(length("ok", 40), Some(8), "the clock was set back");
        assert_eq!(length("other", 10), None);
    }
}
