//! The methods by which a bot acts.

use super::markup::shown;
use super::{
    CAPTION_UNITS_MAX, ChatState, DATA_BYTES_MAX, DOWNLOAD_BYTES_MAX, Outcome, REACTIONS, Sent,
    TEXT_UNITS_MAX, TelegramState, now, refused, units,
};
use serde_json::{Value, json};
use std::collections::HashMap;

impl TelegramState {
    pub(super) fn method(
        &mut self,
        token: &str,
        method: &str,
        parameters: Value,
        file: Option<(String, Vec<u8>)>,
    ) -> Outcome {
        match method {
            "getMe" => {
                let username = &self.bots[token].username;
                let id: i64 = token.split(':').next().and_then(|id| id.parse().ok()).unwrap_or(0);
                Ok(json!({"id": id, "is_bot": true, "first_name": username, "username": username}))
            }
            "deleteWebhook" => {
                self.bots.get_mut(token).expect("the token was checked").webhook = None;
                Ok(json!(true))
            }
            "sendMessage" => self.send(token, method, parameters, None),
            "sendPhoto" | "sendDocument" | "sendVoice" | "sendVideo" | "sendAudio" | "sendAnimation" => {
                match file {
                    Some((_, content)) if content.is_empty() => {
                        refused(400, "Bad Request: file must be non-empty")
                    }
                    Some(file) => self.send(token, method, parameters, Some(file)),
                    None => refused(400, "Bad Request: there is no file in the request"),
                }
            }
            "editMessageText" => self.edit(&parameters),
            "deleteMessage" => self.delete(&parameters),
            "sendChatAction" => {
                chat(&mut self.chats, &parameters)?;
                Ok(json!(true))
            }
            "setMessageReaction" => {
                let id = parameters["message_id"].as_i64().unwrap_or_default();
                let signs = parameters["reaction"].as_array().cloned().unwrap_or_default();
                let is_known =
                    |sign: &Value| sign["emoji"].as_str().is_some_and(|sign| REACTIONS.contains(&sign));
                match chat(&mut self.chats, &parameters)?.messages.contains_key(&id) {
                    true if !signs.iter().all(is_known) => refused(400, "Bad Request: REACTION_INVALID"),
                    true => Ok(json!(true)),
                    false => refused(400, "Bad Request: message to react not found"),
                }
            }
            "answerCallbackQuery" => Ok(json!(true)),
            "setMyCommands" => {
                let commands = parameters["commands"].as_array().cloned().unwrap_or_default();
                let is_command = |name: &str| {
                    (1..=32).contains(&name.len())
                        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
                };
                let valid =
                    commands.iter().all(|command| command["command"].as_str().is_some_and(is_command));
                if !valid || commands.len() > 100 {
                    return refused(400, "Bad Request: BOT_COMMAND_INVALID");
                }
                self.bots.get_mut(token).expect("the token was checked").commands = Value::Array(commands);
                Ok(json!(true))
            }
            "getFile" => {
                let id = parameters["file_id"].as_str().unwrap_or_default();
                match self.files.get(id) {
                    None => refused(400, "Bad Request: invalid file_id"),
                    Some(content) if content.len() > DOWNLOAD_BYTES_MAX => {
                        refused(400, "Bad Request: file is too big")
                    }
                    Some(content) => Ok(json!({
                        "file_id": id, "file_unique_id": id, "file_size": content.len(),
                        "file_path": self.local.get(id).cloned().unwrap_or_else(|| format!("files/{id}")),
                    })),
                }
            }
            _ => refused(404, "Not Found: method not found"),
        }
    }

    pub(super) fn send(
        &mut self,
        token: &str,
        method: &str,
        parameters: Value,
        file: Option<(String, Vec<u8>)>,
    ) -> Outcome {
        let text = shown(&parameters, if file.is_some() { "caption" } else { "text" })?;
        let most = if file.is_some() { CAPTION_UNITS_MAX } else { TEXT_UNITS_MAX };
        check_buttons(&parameters)?;
        if file.is_none() && text.trim().is_empty() {
            return refused(400, "Bad Request: message text is empty");
        }
        if units(&text) > most {
            return refused(400, "Bad Request: message is too long");
        }
        let known = chat(&mut self.chats, &parameters)?;
        let thread = parameters["message_thread_id"].as_i64();
        if thread.is_some_and(|thread| !known.threads.contains(&thread)) {
            return refused(400, "Bad Request: message thread not found");
        }
        let answer = &parameters["reply_parameters"];
        let reply_to = answer["message_id"].as_i64();
        let is_there = reply_to.is_some_and(|id| known.messages.contains_key(&id));
        if reply_to.is_some() && !is_there && answer["allow_sending_without_reply"] != json!(true) {
            return refused(400, "Bad Request: message to be replied not found");
        }
        known.last_message += 1;
        let id = known.last_message;
        let bot: i64 = token.split(':').next().and_then(|id| id.parse().ok()).unwrap_or(0);
        let mut message = json!({
            "message_id": id, "date": now(), "chat": known.chat.json(),
            "from": {"id": bot, "is_bot": true, "first_name": "Bot"},
        });
        message[if file.is_some() { "caption" } else { "text" }] = json!(text.trim());
        if let Some(thread) = thread {
            message["message_thread_id"] = json!(thread);
            message["is_topic_message"] = json!(true);
        }
        known.messages.insert(id, message.clone());
        let chat = known.chat.id;
        self.sent.push(Sent {
            bot: token.to_owned(),
            method: method.to_owned(),
            chat,
            id,
            text: text.trim().to_owned(),
            thread,
            reply_to: reply_to.filter(|_| is_there),
            file,
            edits: 0,
            deleted: false,
            parameters,
        });
        Ok(message)
    }

    fn edit(&mut self, parameters: &Value) -> Outcome {
        let text = shown(parameters, "text")?;
        check_buttons(parameters)?;
        if text.trim().is_empty() {
            return refused(400, "Bad Request: message text is empty");
        }
        if units(&text) > TEXT_UNITS_MAX {
            return refused(400, "Bad Request: message is too long");
        }
        let known = chat(&mut self.chats, parameters)?;
        let (chat, id) = (known.chat.id, parameters["message_id"].as_i64().unwrap_or_default());
        let Some(message) = known.messages.get_mut(&id) else {
            return refused(400, "Bad Request: message to edit not found");
        };
        let sent = self.sent.iter_mut().find(|sent| (sent.chat, sent.id, sent.deleted) == (chat, id, false));
        let Some(sent) = sent else { return refused(400, "Bad Request: message can't be edited") };
        if sent.text == text.trim() && sent.parameters["reply_markup"] == parameters["reply_markup"] {
            return refused(
                400,
                "Bad Request: message is not modified: specified new message content and reply markup are exactly the same as a current content and reply markup of the message",
            );
        }
        message["text"] = json!(text.trim());
        sent.text = text.trim().to_owned();
        sent.edits += 1;
        sent.parameters = parameters.clone();
        Ok(message.clone())
    }

    fn delete(&mut self, parameters: &Value) -> Outcome {
        let known = chat(&mut self.chats, parameters)?;
        let (chat, id) = (known.chat.id, parameters["message_id"].as_i64().unwrap_or_default());
        if known.messages.remove(&id).is_none() {
            return refused(400, "Bad Request: message to delete not found");
        }
        for sent in self.sent.iter_mut().filter(|sent| (sent.chat, sent.id) == (chat, id)) {
            sent.deleted = true;
        }
        Ok(json!(true))
    }
}

/// Where a bot may write.
pub(super) fn chat<'a>(
    chats: &'a mut HashMap<i64, ChatState>,
    parameters: &Value,
) -> Result<&'a mut ChatState, (u16, String, Value)> {
    let id = parameters["chat_id"].as_i64().unwrap_or_default();
    let Some(known) = chats.get_mut(&id) else { return refused(400, "Bad Request: chat not found") };
    if let Some((code, description)) = &known.closed {
        return refused(*code, description);
    }
    if let Some(to) = known.moved_to {
        let moved = json!({"migrate_to_chat_id": to});
        return Err((400, "Bad Request: group chat was upgraded to a supergroup chat".to_owned(), moved));
    }
    Ok(known)
}

fn check_buttons(parameters: &Value) -> Result<(), (u16, String, Value)> {
    let rows = parameters["reply_markup"]["inline_keyboard"].as_array().cloned().unwrap_or_default();
    let buttons = rows.iter().flat_map(|row| row.as_array().cloned().unwrap_or_default());
    for button in buttons {
        let data = button["callback_data"].as_str().unwrap_or_default();
        if data.is_empty() || data.len() > DATA_BYTES_MAX {
            return refused(400, "Bad Request: BUTTON_DATA_INVALID");
        }
    }
    Ok(())
}
