//! Our own columns of JSON: what came in, how it ended, where a reply goes, what a model called, how
//! a call stands, what a compression is about to put in place, and the parts of a state that are
//! mostly as at first.
//!
//! Whatever is written here is read back equal. JSON that only passes through is kept as a string
//! inside ours, because a parser may change its numbers or its order. Fields that are absent are
//! left out, and read as they are by default: what an older program wrote is read that way, too. The
//! place of an input in its inbox is a column, not part of its envelope.

use serde_json::{Map, Value, json};
use std::sync::Arc;
use throughline_core::chain::Foreign;
use throughline_core::command::{Command, DeferredCommand};
use throughline_core::compression::{Cause, Kind as Replaced, Replacement, Upkeep};
use throughline_core::guard::Repeated;
use throughline_core::id::{ChatKey, Generation, RowId, Seq, SessionId, TurnId};
use throughline_core::input::{
    ClientTools, DedupeKey, Destination, Input, Kind, Request, Root, Sender, Task, Trace,
};
use throughline_core::memory::{Place, Scope};
use throughline_core::message::{
    Assistant, Body, Content, JsonText, Message, Part, Reasoning, ToolCall, ToolResult,
};
use throughline_core::prompt::Digest;
use throughline_core::session::review::Reviews;
use throughline_core::session::{
    Failure, FailureKind, Outcome, Personality, Phase, Preferences, Session, ToolProgress,
};
use throughline_core::time::Time;
use throughline_core::tool::{Ask, Elicitation, Grant, Question};

/// Names what could not be read, for an error that nobody should ever see.
pub(crate) type Read<T> = Result<T, &'static str>;

// --------------------------------------------------------------------------------------- memory

pub(crate) fn scope_text(scope: &Scope) -> String {
    let mut object = Object::default();
    object.text("agent", &scope.agent);
    object.optional_text("chat", scope.chat.as_ref().map(ChatKey::as_str));
    object.text("session", scope.session.as_str());
    object.number("generation", scope.generation.0);
    object.optional_text("parent", scope.parent.as_ref().map(SessionId::as_str));
    object.text("platform", &scope.platform);
    object.optional_text("user", scope.user.as_deref());
    object.optional_text("user_name", scope.user_name.as_deref());
    object.optional_text("chat_id", scope.place.chat.as_deref());
    object.optional_text("chat_name", scope.place.name.as_deref());
    object.optional_text("chat_type", scope.place.kind.as_deref());
    object.optional_text("thread", scope.place.thread.as_deref());
    object.optional_text("title", scope.title.as_deref());
    object.optional_text("document", scope.document.as_deref());
    object.finish()
}

pub(crate) fn scope(text: &str) -> Read<Scope> {
    let value = parsed(text)?;
    let chat = optional_text_of(&value, "chat");
    let parent = optional_text_of(&value, "parent");
    Ok(Scope {
        agent: text_of(&value, "agent")?.into(),
        chat: chat.map(|chat| chat.parse()).transpose().map_err(|_| "chat")?,
        session: session_of(&value, "session")?,
        generation: Generation(value.get("generation").and_then(Value::as_u64).unwrap_or_default()),
        parent: parent.map(|parent| parent.parse()).transpose().map_err(|_| "parent")?,
        platform: text_of(&value, "platform")?.to_owned(),
        user: optional_text_of(&value, "user"),
        user_name: optional_text_of(&value, "user_name"),
        place: Place {
            chat: optional_text_of(&value, "chat_id"),
            name: optional_text_of(&value, "chat_name"),
            kind: optional_text_of(&value, "chat_type"),
            thread: optional_text_of(&value, "thread"),
        },
        title: optional_text_of(&value, "title"),
        document: optional_text_of(&value, "document"),
        meant: None, // what lies there has a name
    })
}

pub(crate) fn texts_text(texts: &[String]) -> String {
    json!(texts).to_string()
}

pub(crate) fn texts(text: &str) -> Read<Vec<String>> {
    texts_from(&parsed(text)?)
}

// ---------------------------------------------------------------------------------------- input

pub(crate) fn input_text(input: &Input) -> String {
    let mut object = Object::default();
    object.text("key", input.key.as_str());
    match &input.kind {
        Kind::Chat(content) => object.value("chat", content_value(content)),
        Kind::Request(request) => object.value("request", request_value(request)),
        Kind::Command(command) => object.value("command", command_value(command)),
    }
    object.optional("reply_to", input.reply_to.as_ref().map(destination_value));
    object.optional("sender", input.sender.as_ref().map(|sender| json!([sender.id, sender.name])));
    object.optional_text("platform_id", input.platform_id.as_deref());
    object.optional("trace", some_trace_value(&input.trace));
    object.finish()
}

pub(crate) fn input(seq: Seq, at: Time, text: &str) -> Read<Arc<Input>> {
    let value = parsed(text)?;
    let kind = if let Some(content) = value.get("chat") {
        Kind::Chat(content_from(content)?)
    } else if let Some(request) = value.get("request") {
        Kind::Request(request_from(request)?)
    } else {
        Kind::Command(command_from(value.get("command").ok_or("an input of no kind")?)?)
    };
    let sender = match value.get("sender") {
        None => None,
        Some(sender) => Some(Sender {
            id: sender.get(0).and_then(Value::as_str).ok_or("a sender without an id")?.to_owned(),
            name: sender.get(1).and_then(Value::as_str).map(str::to_owned),
        }),
    };
    Ok(Arc::new(Input {
        seq,
        at,
        key: DedupeKey::stored(text_of(&value, "key")?),
        kind,
        reply_to: value.get("reply_to").map(destination_from).transpose()?,
        sender,
        platform_id: optional_text_of(&value, "platform_id"),
        trace: value.get("trace").map(trace_from).transpose()?.unwrap_or_default(),
        left: None,
    }))
}

fn request_value(request: &Request) -> Value {
    let mut object = Object::default();
    object.value("content", content_value(&request.content));
    object.optional("body", request.body.map(digest_value));
    object.optional("thread", request.thread.map(digest_value));
    object.optional("implicit_key", request.implicit_key.map(digest_value));
    object.optional_text("system", request.system.as_deref());
    object.optional_text("sampling", request.sampling.as_ref().map(JsonText::as_str));
    object.optional("task", request.task.as_ref().map(task_value));
    let tools = request.tools.as_ref();
    object.optional("tools", tools.map(|tools| json!([tools.list.as_str(), tools.names])));
    if !request.results.is_empty() {
        object.value("results", request.results.iter().map(result_value).collect());
    }
    if request.stateless {
        object.value("stateless", json!(true));
    }
    object.0.into()
}

fn client_tools_from(value: &Value) -> Read<ClientTools> {
    let list = value.get(0).and_then(Value::as_str).ok_or("tools without a list")?;
    let names = texts_from(value.get(1).ok_or("tools without names")?)?;
    Ok(ClientTools { list: JsonText::from_valid(list), names })
}

fn request_from(value: &Value) -> Read<Request> {
    Ok(Request {
        content: content_from(value.get("content").ok_or("a request without content")?)?,
        body: digest_of(value, "body")?,
        thread: digest_of(value, "thread")?,
        implicit_key: digest_of(value, "implicit_key")?,
        system: optional_text_of(value, "system"),
        sampling: json_of(value, "sampling"),
        task: value.get("task").map(task_from).transpose()?,
        tools: value.get("tools").map(client_tools_from).transpose()?,
        results: match value.get("results") {
            None => Vec::new(),
            Some(results) => {
                results.as_array().ok_or("results")?.iter().map(result_from).collect::<Read<_>>()?
            }
        },
        stateless: value.get("stateless").and_then(Value::as_bool).unwrap_or(false),
    })
}

fn task_value(task: &Task) -> Value {
    let mut object = Object::default();
    object.text("parent", task.parent.as_str());
    object.text("source", &task.source);
    object.number("depth", task.depth.into());
    object.number("steps_max", task.steps_max.into());
    object.optional("tokens_max", task.tokens_max.map(|max| json!(max)));
    object.optional("toolsets", task.toolsets.as_ref().map(|toolsets| json!(toolsets)));
    object.0.into()
}

fn task_from(value: &Value) -> Read<Task> {
    Ok(Task {
        parent: session_of(value, "parent")?,
        source: text_of(value, "source")?.to_owned(),
        depth: small_number_of(value, "depth")?,
        steps_max: small_number_of(value, "steps_max")?,
        tokens_max: value.get("tokens_max").and_then(Value::as_u64),
        toolsets: value.get("toolsets").map(texts_from).transpose()?,
    })
}

fn command_value(command: &Command) -> Value {
    match command {
        Command::New { successor } => json!({ "new": successor.as_str() }),
        Command::Stop => json!("stop"),
        Command::Steer { text } => json!({ "steer": text }),
        Command::Queue { text } => json!({ "queue": text }),
        Command::Approve { grant, all } => json!({ "approve": grant_name(*grant), "all": all }),
        Command::Deny { reason, all } => json!({ "deny": reason, "all": all }),
        Command::Compress { focus, keep, preview } => {
            json!({ "compress": focus, "keep": keep, "preview": preview })
        }
        Command::Continue => json!("continue"),
        Command::Status => json!("status"),
        Command::Help => json!("help"),
        Command::Notice { text } => json!({ "notice": text }),
        Command::Unknown { name } => json!({ "unknown": name }),
        Command::Absent { name } => json!({ "absent": name }),
        Command::Yolo => json!("yolo"),
        Command::Verbose { level } => json!({ "verbose": level.map(ToolProgress::as_str) }),
        Command::Deferred(deferred) => deferred_value(deferred),
    }
}

fn deferred_value(deferred: &DeferredCommand) -> Value {
    let mut object = Object::default();
    object.text("errand", deferred.name());
    match deferred {
        DeferredCommand::New { successor, title } => {
            object.text("session", successor.as_str());
            object.text("text", title);
        }
        DeferredCommand::Undo { turns } => object.number("number", (*turns).into()),
        DeferredCommand::Retry => {}
        DeferredCommand::Branch { successor, name } => {
            object.text("session", successor.as_str());
            object.optional_text("text", name.as_deref());
        }
        DeferredCommand::Resume { wanted, everywhere } => {
            object.optional_text("text", wanted.as_deref());
            object.value("all", json!(everywhere));
        }
        DeferredCommand::Title { wanted } => object.optional_text("text", wanted.as_deref()),
        DeferredCommand::Background { session, text } => {
            object.text("session", session.as_str());
            object.text("text", text);
        }
        DeferredCommand::Other { argument, .. } => object.text("argument", argument),
    }
    object.0.into()
}

fn deferred_from(value: &Value) -> Read<DeferredCommand> {
    let text = || optional_text_of(value, "text");
    let name = text_of(value, "errand")?;
    if let Some(argument) = optional_text_of(value, "argument") {
        return Ok(DeferredCommand::Other { name: name.to_owned(), argument });
    }
    Ok(match name {
        "new" => DeferredCommand::New {
            successor: session_of(value, "session")?,
            title: text_of(value, "text")?.to_owned(),
        },
        "undo" => DeferredCommand::Undo { turns: small_number_of(value, "number")? },
        "retry" => DeferredCommand::Retry,
        "branch" => DeferredCommand::Branch { successor: session_of(value, "session")?, name: text() },
        "resume" => DeferredCommand::Resume {
            wanted: text(),
            everywhere: value.get("all").and_then(Value::as_bool).unwrap_or(false),
        },
        "title" => DeferredCommand::Title { wanted: text() },
        "background" => DeferredCommand::Background {
            session: session_of(value, "session")?,
            text: text_of(value, "text")?.to_owned(),
        },
        _ => return Err("an errand of an unknown kind"),
    })
}

fn command_from(value: &Value) -> Read<Command> {
    let text = |name: &str| optional_text_of(value, name);
    let all = value.get("all").and_then(Value::as_bool).unwrap_or(false);
    Ok(match value {
        Value::String(name) if name == "stop" => Command::Stop,
        Value::String(name) if name == "continue" => Command::Continue,
        Value::String(name) if name == "status" => Command::Status,
        Value::String(name) if name == "help" => Command::Help,
        Value::String(name) if name == "yolo" => Command::Yolo,
        _ if value.get("errand").is_some() => Command::Deferred(deferred_from(value)?),
        _ if value.get("verbose").is_some() => {
            Command::Verbose { level: text("verbose").and_then(|name| ToolProgress::named(&name)) }
        }
        _ if value.get("absent").is_some() => Command::Absent { name: text_of(value, "absent")?.to_owned() },
        _ if value.get("deny").is_some() => Command::Deny { reason: text("deny"), all },
        _ if value.get("compress").is_some() => Command::Compress {
            focus: text("compress"),
            keep: value.get("keep").and_then(Value::as_u64).and_then(|keep| u32::try_from(keep).ok()),
            preview: value.get("preview").and_then(Value::as_bool).unwrap_or(false),
        },
        _ => match (text("steer"), text("queue"), text("approve"), text("notice"), text("unknown")) {
            (Some(text), ..) => Command::Steer { text },
            (_, Some(text), ..) => Command::Queue { text },
            (_, _, Some(grant), ..) => Command::Approve { grant: grant_from(&grant)?, all },
            (_, _, _, Some(text), _) => Command::Notice { text },
            (.., Some(name)) => Command::Unknown { name },
            _ => Command::New { successor: session_of(value, "new")? },
        },
    })
}

// ---------------------------------------------------------------------------------------- trace

/// None for the trace of a human's own message.
pub(crate) fn trace_text(trace: &Trace) -> Option<String> {
    some_trace_value(trace).map(|value| value.to_string())
}

pub(crate) fn trace(text: Option<&str>) -> Read<Trace> {
    match text {
        Some(text) => trace_from(&parsed(text)?),
        None => Ok(Trace::default()),
    }
}

fn some_trace_value(trace: &Trace) -> Option<Value> {
    if *trace == Trace::default() {
        return None;
    }
    let mut object = Object::default();
    object.text("origin", &trace.origin);
    let root = trace.root.as_ref().map(|root| json!([&*root.home, root.session.as_str()]));
    object.optional("root", root);
    object.number("hops", trace.hops.into());
    object.optional_text("foreign", trace.foreign.as_deref());
    Some(object.0.into())
}

fn trace_from(value: &Value) -> Read<Trace> {
    let root = match value.get("root") {
        None => None,
        Some(root) => {
            let text = |place| root.get(place).and_then(Value::as_str).ok_or("a root without a name");
            let session = text(1)?.parse().map_err(|_| "a root that is no session")?;
            Some(Root { home: text(0)?.into(), session })
        }
    };
    let (origin, hops) = (text_of(value, "origin")?.into(), small_number_of(value, "hops")?);
    let foreign = optional_text_of(value, "foreign").map(Into::into);
    Ok(Trace { origin, root, hops, foreign })
}

// -------------------------------------------------------------------------------------- outcome

pub(crate) fn outcome_text(outcome: &Outcome) -> String {
    let mut object = Object::default();
    match outcome {
        Outcome::Answered(turn) => object.number("answered", turn.0.0),
        Outcome::Failed(turn, failure) => {
            object.number("failed", turn.0.0);
            object.text("kind", failure_name(failure.kind));
            object.text("message", &failure.message);
            if let FailureKind::Wait { after_seconds: Some(seconds) } = failure.kind {
                object.number("after_seconds", seconds.into());
            }
            if failure.kind == FailureKind::Unreachable {
                object.value("unreachable", json!(true));
            }
        }
        Outcome::Done { said, successor } => {
            object.text("said", said);
            object.optional_text("successor", successor.as_ref().map(SessionId::as_str));
        }
        Outcome::Moved { session, seq } => {
            object.text("moved", session.as_str());
            object.number("seq", seq.0);
        }
    }
    object.finish()
}

pub(crate) fn outcome(text: &str) -> Read<Outcome> {
    let value = parsed(text)?;
    if let Some(turn) = value.get("answered").and_then(Value::as_u64) {
        return Ok(Outcome::Answered(TurnId(Seq(turn))));
    }
    if let Some(turn) = value.get("failed").and_then(Value::as_u64) {
        let failure =
            Failure { kind: failure_from(&value)?, message: text_of(&value, "message")?.to_owned() };
        return Ok(Outcome::Failed(TurnId(Seq(turn)), failure));
    }
    if let Some(said) = optional_text_of(&value, "said") {
        let successor = value.get("successor").map(|_| session_of(&value, "successor")).transpose()?;
        return Ok(Outcome::Done { said, successor });
    }
    let seq = value.get("seq").and_then(Value::as_u64).ok_or("a move without a place")?;
    Ok(Outcome::Moved { session: session_of(&value, "moved")?, seq: Seq(seq) })
}

fn failure_name(kind: FailureKind) -> &'static str {
    match kind {
        // An earlier version, to which a home may go back, knows the wait and not the reason.
        FailureKind::Wait { .. } | FailureKind::Unreachable => "wait",
        FailureKind::TooLong => "too_long",
        FailureKind::Credentials => "credentials",
        FailureKind::Refused => "refused",
        FailureKind::Broken => "broken",
        FailureKind::Parked => "parked",
        FailureKind::Exhausted => "exhausted",
        FailureKind::Stopped => "stopped",
    }
}

fn failure_from(value: &Value) -> Read<FailureKind> {
    let after = value.get("after_seconds").and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok());
    match text_of(value, "kind")? {
        "wait" if value.get("unreachable") == Some(&Value::Bool(true)) => Ok(FailureKind::Unreachable),
        "wait" => Ok(FailureKind::Wait { after_seconds: after }),
        "too_long" => Ok(FailureKind::TooLong),
        "credentials" => Ok(FailureKind::Credentials),
        "refused" => Ok(FailureKind::Refused),
        "broken" => Ok(FailureKind::Broken),
        "parked" => Ok(FailureKind::Parked),
        "exhausted" => Ok(FailureKind::Exhausted),
        "stopped" => Ok(FailureKind::Stopped),
        _ => Err("a failure of an unknown kind"),
    }
}

// ---------------------------------------------------------------------------------- destination

pub(crate) fn destination_text(destination: &Destination) -> String {
    destination_value(destination).to_string()
}

pub(crate) fn destination(text: &str) -> Read<Destination> {
    destination_from(&parsed(text)?)
}

fn destination_value(destination: &Destination) -> Value {
    let mut object = Object::default();
    object.text("platform", &destination.platform);
    object.text("account", &destination.account);
    object.text("chat", &destination.chat);
    object.optional_text("thread", destination.thread.as_deref());
    object.optional_text("reply_to", destination.reply_to.as_deref());
    object.0.into()
}

fn destination_from(value: &Value) -> Read<Destination> {
    Ok(Destination {
        platform: text_of(value, "platform")?.to_owned(),
        account: text_of(value, "account")?.to_owned(),
        chat: text_of(value, "chat")?.to_owned(),
        thread: optional_text_of(value, "thread"),
        reply_to: optional_text_of(value, "reply_to"),
    })
}

// ------------------------------------------------------------------------------ an open group

pub(crate) fn answer_text(answer: &Assistant) -> String {
    answer_value(answer).to_string()
}

fn answer_value(answer: &Assistant) -> Value {
    let mut object = Object::default();
    object.value("content", content_value(&answer.content));
    object.value("calls", answer.calls.iter().map(call_value).collect());
    object.optional_text("finish", answer.finish.as_deref());
    let Reasoning { text, content, details, codex_reasoning_items, codex_message_items } = &answer.reasoning;
    object.optional_text("reasoning", text.as_deref());
    object.optional_text("reasoning_content", content.as_deref());
    object.optional_text("reasoning_details", details.as_ref().map(JsonText::as_str));
    object.optional_text("codex_reasoning_items", codex_reasoning_items.as_ref().map(JsonText::as_str));
    object.optional_text("codex_message_items", codex_message_items.as_ref().map(JsonText::as_str));
    object.0.into()
}

pub(crate) fn answer(text: &str) -> Read<Assistant> {
    answer_from(&parsed(text)?)
}

fn answer_from(value: &Value) -> Read<Assistant> {
    let calls = value.get("calls").and_then(Value::as_array).ok_or("an answer without calls")?;
    Ok(Assistant {
        content: content_from(value.get("content").ok_or("an answer without content")?)?,
        calls: calls.iter().map(call_from).collect::<Read<_>>()?,
        finish: optional_text_of(value, "finish"),
        reasoning: Reasoning {
            text: optional_text_of(value, "reasoning"),
            content: optional_text_of(value, "reasoning_content"),
            details: json_of(value, "reasoning_details"),
            codex_reasoning_items: json_of(value, "codex_reasoning_items"),
            codex_message_items: json_of(value, "codex_message_items"),
        },
    })
}

fn call_value(call: &ToolCall) -> Value {
    let mut object = Object::default();
    object.text("id", &call.id);
    object.text("name", &call.name);
    object.text("arguments", &call.arguments);
    object.optional_text("extra", call.extra.as_ref().map(JsonText::as_str));
    object.0.into()
}

fn call_from(value: &Value) -> Read<ToolCall> {
    Ok(ToolCall {
        id: text_of(value, "id")?.to_owned(),
        name: text_of(value, "name")?.to_owned(),
        arguments: text_of(value, "arguments")?.to_owned(),
        extra: json_of(value, "extra"),
    })
}

pub(crate) fn result_text(result: &ToolResult) -> String {
    result_value(result).to_string()
}

fn result_value(result: &ToolResult) -> Value {
    let mut object = Object::default();
    object.text("call_id", &result.call_id);
    object.optional_text("name", result.name.as_deref());
    object.value("content", content_value(&result.content));
    object.0.into()
}

pub(crate) fn result(text: &str) -> Read<ToolResult> {
    result_from(&parsed(text)?)
}

fn result_from(value: &Value) -> Read<ToolResult> {
    Ok(ToolResult {
        call_id: text_of(value, "call_id")?.to_owned(),
        name: optional_text_of(value, "name"),
        content: content_from(value.get("content").ok_or("a result without content")?)?,
    })
}

pub(crate) fn grant_name(grant: Grant) -> &'static str {
    match grant {
        Grant::Once => "once",
        Grant::Session => "session",
        Grant::Always => "always",
    }
}

pub(crate) fn grant_from(name: &str) -> Read<Grant> {
    match name {
        "once" => Ok(Grant::Once),
        "session" => Ok(Grant::Session),
        "always" => Ok(Grant::Always),
        _ => Err("a grant of an unknown reach"),
    }
}

pub(crate) fn ask_text(ask: &Ask) -> String {
    let mut object = Object::default();
    match &ask.question {
        Question::Approval { what, why, patterns } => {
            object.value("approval", json!({ "what": what, "why": why, "patterns": patterns }));
        }
        Question::Clarify { question, choices } => {
            object.value("clarify", json!({ "question": question, "choices": choices }));
        }
        Question::Elicitation { asked: Elicitation { server, question, choices }, number } => {
            let asked =
                json!({ "server": server, "question": question, "choices": choices, "number": number });
            object.value("elicitation", asked);
        }
    }
    object.value("asked", json!(ask.asked.0));
    object.value("until", json!(ask.until.0));
    object.finish()
}

pub(crate) fn ask(text: &str) -> Read<Ask> {
    let value = parsed(text)?;
    let question = match (value.get("approval"), value.get("clarify"), value.get("elicitation")) {
        (Some(approval), ..) => Question::Approval {
            what: text_of(approval, "what")?.to_owned(),
            why: text_of(approval, "why")?.to_owned(),
            patterns: texts_from(approval.get("patterns").ok_or("patterns")?)?,
        },
        (None, Some(clarify), _) => Question::Clarify {
            question: text_of(clarify, "question")?.to_owned(),
            choices: texts_from(clarify.get("choices").ok_or("choices")?)?,
        },
        (None, None, Some(elicitation)) => {
            let number =
                elicitation.get("number").and_then(Value::as_u64).and_then(|it| u32::try_from(it).ok());
            Question::Elicitation {
                asked: Elicitation {
                    server: text_of(elicitation, "server")?.to_owned(),
                    question: text_of(elicitation, "question")?.to_owned(),
                    choices: texts_from(elicitation.get("choices").ok_or("choices")?)?,
                },
                number: number.ok_or("number")?,
            }
        }
        (None, None, None) => return Err("a question of no kind"),
    };
    let time = |name: &'static str| value.get(name).and_then(Value::as_i64).map(Time).ok_or(name);
    Ok(Ask { question, asked: time("asked")?, until: time("until")? })
}

// ---------------------------------------------------------------------------- the rest of a state

/// What most sessions never have, or have only while tools run. None if there is none of it.
pub(crate) fn rest_text(state: &Session) -> Option<String> {
    let mut object = Object::default();
    if !state.allowed.is_empty() {
        object.value("allowed", json!(state.allowed));
    }
    object.optional("place", state.place.as_ref().map(destination_value));
    if state.finalised {
        object.value("finalised", json!(true));
    }
    if state.stateless {
        object.value("stateless", json!(true));
    }
    if state.foreign != Foreign::default() {
        let Foreign { heard, period, turns, last } = &state.foreign;
        object.value("foreign", json!([&**heard, period, turns, last.0]));
    }
    if !state.untold.is_empty() {
        object.value("untold", json!(state.untold));
    }
    if !state.announced.is_empty() {
        object.value("announced", json!(state.announced));
    }
    if state.failed_step > 0 {
        object.number("failed_step", state.failed_step.into());
    }
    let Reviews { turns, steps, count, .. } = &state.reviews;
    if (*turns, *steps, *count) != (0, 0, 0) {
        object.value("reviews", json!([turns, steps, count]));
    }
    if state.preferences != Preferences::default() {
        object.value("preferences", preferences_value(&state.preferences));
    }
    if let Phase::Turn(turn) = &state.phase {
        if turn.first_step > 0 {
            object.number("first_step", turn.first_step.into());
        }
        if turn.spent > 0 {
            object.number("spent", turn.spent);
        }
        if turn.exhausted {
            object.value("exhausted", json!(true));
        }
        let repeated = |it: Repeated| json!([it.calls.to_hex(), it.results.to_hex(), it.times]);
        object.optional("repeated", turn.repeated.map(repeated));
        object.optional_text("said", Some(turn.said.as_str()).filter(|said| !said.is_empty()));
        if turn.held {
            object.value("held", json!(true));
        }
        if turn.refused {
            object.value("refused", json!(true));
        }
        if turn.promotions > 0 {
            object.number("promotions", turn.promotions.into());
        }
    }
    (!object.0.is_empty()).then(|| object.finish())
}

/// Puts it back where it was.
pub(crate) fn restore_rest(state: &mut Session, text: &str) -> Read<()> {
    let value = parsed(text)?;
    if let Some(allowed) = value.get("allowed") {
        state.allowed = texts_from(allowed)?;
    }
    state.finalised = value.get("finalised").and_then(Value::as_bool).unwrap_or(false);
    state.stateless = value.get("stateless").and_then(Value::as_bool).unwrap_or(false);
    state.place = value.get("place").map(destination_from).transpose()?;
    state.foreign = value.get("foreign").map(foreign_from).transpose()?.unwrap_or_default();
    state.untold = value.get("untold").map(texts_from).transpose()?.unwrap_or_default();
    state.announced = value.get("announced").map(texts_from).transpose()?.unwrap_or_default().into();
    let step = |name| value.get(name).and_then(Value::as_u64).and_then(|step| u32::try_from(step).ok());
    state.failed_step = step("failed_step").unwrap_or(0);
    if let Some(counted) = value.get("reviews").and_then(Value::as_array) {
        let count = |place: usize| counted.get(place).and_then(Value::as_u64).unwrap_or(0);
        state.reviews.turns = u32::try_from(count(0)).unwrap_or(u32::MAX);
        state.reviews.steps = u32::try_from(count(1)).unwrap_or(u32::MAX);
        state.reviews.count = count(2);
    }
    state.preferences = value.get("preferences").map(preferences_from).unwrap_or_default();
    if let Phase::Turn(turn) = &mut state.phase {
        turn.first_step = step("first_step").unwrap_or(0);
        turn.spent = value.get("spent").and_then(Value::as_u64).unwrap_or(0);
        turn.exhausted = value.get("exhausted").and_then(Value::as_bool).unwrap_or(false);
        turn.repeated = value.get("repeated").map(repeated_from).transpose()?;
        turn.said = optional_text_of(&value, "said").unwrap_or_default();
        turn.held = value.get("held").and_then(Value::as_bool).unwrap_or(false);
        turn.refused = value.get("refused").and_then(Value::as_bool).unwrap_or(false);
        turn.promotions = step("promotions").unwrap_or(0);
    }
    Ok(())
}

fn preferences_value(preferences: &Preferences) -> Value {
    let Preferences { model, reasoning, personality, yolo, tools } = preferences;
    let mut object = Object::default();
    object.optional_text("model", model.as_deref());
    object.optional_text("reasoning", reasoning.as_deref());
    object.optional("personality", personality.as_ref().map(|it| json!([it.name, it.prompt])));
    if *yolo {
        object.value("yolo", json!(true));
    }
    object.optional_text("tools", tools.map(ToolProgress::as_str));
    object.0.into()
}

/// What is not understood is not preferred: a later program may know more.
fn preferences_from(value: &Value) -> Preferences {
    let personality = value.get("personality").and_then(|it| {
        let text = |place: usize| it.get(place).and_then(Value::as_str).map(str::to_owned);
        Some(Personality { name: text(0)?, prompt: text(1)? })
    });
    Preferences {
        model: optional_text_of(value, "model"),
        reasoning: optional_text_of(value, "reasoning"),
        personality,
        yolo: value.get("yolo").and_then(Value::as_bool).unwrap_or(false),
        tools: optional_text_of(value, "tools").and_then(|name| ToolProgress::named(&name)),
    }
}

fn foreign_from(value: &Value) -> Read<Foreign> {
    let count = |place: usize| {
        let count = value.get(place).and_then(Value::as_u64).and_then(|count| u32::try_from(count).ok());
        count.ok_or("a count of bots that is no number")
    };
    Ok(Foreign {
        heard: value.get(0).and_then(Value::as_str).ok_or("bots without a chat")?.into(),
        period: count(1)?,
        turns: count(2)?,
        last: value.get(3).and_then(Value::as_i64).map(Time).ok_or("bots without a time")?,
    })
}

fn repeated_from(value: &Value) -> Read<Repeated> {
    let digest = |place| value.get(place).and_then(Value::as_str).and_then(Digest::from_hex);
    let times = value.get(2).and_then(Value::as_u64).and_then(|times| u32::try_from(times).ok());
    match (digest(0), digest(1), times) {
        (Some(calls), Some(results), Some(times)) => Ok(Repeated { calls, results, times }),
        _ => Err("repeated"),
    }
}

// ---------------------------------------------------------------------------------- compression

pub(crate) fn upkeep_text(upkeep: &Upkeep) -> String {
    let Upkeep { context, wanted, operations, failures, not_before, unworthy, recent, snapshot } = upkeep;
    let mut object = Object::default();
    object.number("context", *context);
    if *wanted {
        object.value("wanted", json!(true));
    }
    for (name, number) in
        [("operations", *operations), ("failures", u64::from(*failures)), ("unworthy", *unworthy)]
    {
        if number > 0 {
            object.number(name, number);
        }
    }
    for (name, time) in [("not_before", not_before), ("snapshot", snapshot)] {
        if *time != Time::default() {
            object.value(name, json!(time.0));
        }
    }
    if !recent.is_empty() {
        object.value("recent", recent.iter().map(|at| json!(at.0)).collect());
    }
    object.finish()
}

pub(crate) fn upkeep(text: &str) -> Read<Upkeep> {
    let value = parsed(text)?;
    let number = |name| value.get(name).and_then(Value::as_u64).unwrap_or(0);
    let time = |name| value.get(name).and_then(Value::as_i64).map(Time).unwrap_or_default();
    let recent = match value.get("recent") {
        None => Vec::new(),
        Some(recent) => recent.as_array().ok_or("recent")?.iter().map(time_from).collect::<Read<_>>()?,
    };
    Ok(Upkeep {
        context: value.get("context").and_then(Value::as_u64).ok_or("context")?,
        wanted: value.get("wanted").and_then(Value::as_bool).unwrap_or(false),
        operations: number("operations"),
        failures: u32::try_from(number("failures")).map_err(|_| "failures")?,
        not_before: time("not_before"),
        unworthy: number("unworthy"),
        recent,
        snapshot: time("snapshot"),
    })
}

pub(crate) fn replacement_text(replacement: &Replacement) -> String {
    let Replacement { after, cut, replaced, rows, kind, before, after_tokens, model, remark } = replacement;
    let mut object = Object::default();
    object.optional("after", after.map(|row| json!(row.0)));
    object.number("cut", cut.0);
    object.number("replaced", *replaced as u64);
    object.value("rows", rows.iter().map(message_value).collect());
    object.text("kind", &kind.to_string());
    object.number("before", *before);
    object.number("after_tokens", *after_tokens);
    object.text("model", model);
    object.optional_text("remark", remark.as_deref());
    object.finish()
}

pub(crate) fn replacement(text: &str) -> Read<Replacement> {
    let value = parsed(text)?;
    let number = |name: &'static str| value.get(name).and_then(Value::as_u64).ok_or(name);
    let rows = value.get("rows").and_then(Value::as_array).ok_or("a replacement without rows")?;
    Ok(Replacement {
        after: value.get("after").and_then(Value::as_u64).map(RowId),
        cut: RowId(number("cut")?),
        replaced: usize::try_from(number("replaced")?).map_err(|_| "replaced")?,
        rows: rows.iter().map(message_from).collect::<Read<_>>()?,
        kind: replaced_by(text_of(&value, "kind")?)?,
        before: number("before")?,
        after_tokens: number("after_tokens")?,
        model: text_of(&value, "model")?.to_owned(),
        remark: optional_text_of(&value, "remark"),
    })
}

pub(crate) fn replaced_by(name: &str) -> Read<Replaced> {
    match name {
        "summary" => Ok(Replaced::Summary),
        "digest" => Ok(Replaced::Digest),
        "restored" => Ok(Replaced::Restored),
        "undone" => Ok(Replaced::Undone),
        "mended" => Ok(Replaced::Mended),
        _ => Err("a replacement of an unknown kind"),
    }
}

pub(crate) fn cause_number(cause: Cause) -> i64 {
    match cause {
        Cause::Ahead => 0,
        Cause::Need => 1,
        Cause::Order => 2,
    }
}

pub(crate) fn cause(number: i64) -> Cause {
    match number {
        0 => Cause::Ahead,
        1 => Cause::Need,
        _ => Cause::Order,
    }
}

/// Ids of rows, or numbers of inputs, in their order.
pub(crate) fn numbers_text(numbers: impl IntoIterator<Item = i64>) -> String {
    Value::from_iter(numbers).to_string()
}

pub(crate) fn numbers(text: &str) -> Read<Vec<i64>> {
    let value = parsed(text)?;
    let list = value.as_array().ok_or("a list of numbers that is none")?;
    list.iter().map(|number| number.as_i64().ok_or("a number that is none")).collect()
}

fn time_from(value: &Value) -> Read<Time> {
    value.as_i64().map(Time).ok_or("a time that is none")
}

fn message_value(message: &Message) -> Value {
    let mut object = Object::default();
    object.value("at", json!(message.at.0));
    match &message.body {
        Body::System(content) => object.value("system", content_value(content)),
        Body::User(content) => object.value("user", content_value(content)),
        Body::Assistant(said) => object.value("assistant", answer_value(said)),
        Body::Result(result) => object.value("result", result_value(result)),
        Body::Other { role, content } => object.value("other", json!([role, content_value(content)])),
    }
    object.optional_text("platform_id", message.platform_id.as_deref());
    object.optional_text("sent_as", message.sent_as.as_deref());
    if message.observed {
        object.value("observed", json!(true));
    }
    object.0.into()
}

fn message_from(value: &Value) -> Read<Message> {
    let body = if let Some(content) = value.get("system") {
        Body::System(content_from(content)?)
    } else if let Some(content) = value.get("user") {
        Body::User(content_from(content)?)
    } else if let Some(said) = value.get("assistant") {
        Body::Assistant(answer_from(said)?)
    } else if let Some(result) = value.get("result") {
        Body::Result(result_from(result)?)
    } else {
        let other = value.get("other").ok_or("a message of no kind")?;
        Body::Other {
            role: other.get(0).and_then(Value::as_str).ok_or("a message without a role")?.to_owned(),
            content: content_from(other.get(1).ok_or("a message without content")?)?,
        }
    };
    Ok(Message {
        at: time_from(value.get("at").ok_or("a message without a time")?)?,
        body,
        platform_id: optional_text_of(value, "platform_id"),
        sent_as: optional_text_of(value, "sent_as"),
        observed: value.get("observed").and_then(Value::as_bool).unwrap_or(false),
    })
}

// -------------------------------------------------------------------------------------- content

fn content_value(content: &Content) -> Value {
    match content {
        Content::Nothing => Value::Null,
        Content::Text(text) => json!(text),
        Content::Parts(parts) => parts.iter().map(part_value).collect(),
        Content::Opaque(json) => json!({ "opaque": json.as_str() }),
    }
}

fn content_from(value: &Value) -> Read<Content> {
    match value {
        Value::Null => Ok(Content::Nothing),
        Value::String(text) => Ok(Content::Text(text.clone())),
        Value::Array(parts) => Ok(Content::Parts(parts.iter().map(part_from).collect::<Read<_>>()?)),
        value => Ok(Content::Opaque(json_of(value, "opaque").ok_or("content of an unknown kind")?)),
    }
}

fn part_value(part: &Part) -> Value {
    match part {
        Part::Text(text) => json!(text),
        Part::Image { url, detail: None } => json!({ "image": url }),
        Part::Image { url, detail } => json!({ "image": url, "detail": detail }),
        Part::Opaque(json) => json!({ "opaque": json.as_str() }),
    }
}

fn part_from(value: &Value) -> Read<Part> {
    if let Some(text) = value.as_str() {
        return Ok(Part::Text(text.to_owned()));
    }
    if let Some(url) = optional_text_of(value, "image") {
        return Ok(Part::Image { url, detail: optional_text_of(value, "detail") });
    }
    Ok(Part::Opaque(json_of(value, "opaque").ok_or("a part of an unknown kind")?))
}

// --------------------------------------------------------------------------------------- pieces

#[derive(Default)]
struct Object(Map<String, Value>);

impl Object {
    fn value(&mut self, name: &str, value: Value) {
        self.0.insert(name.to_owned(), value);
    }

    fn text(&mut self, name: &str, text: &str) {
        self.value(name, json!(text));
    }

    fn number(&mut self, name: &str, number: u64) {
        self.value(name, json!(number));
    }

    fn optional(&mut self, name: &str, value: Option<Value>) {
        if let Some(value) = value {
            self.value(name, value);
        }
    }

    fn optional_text(&mut self, name: &str, text: Option<&str>) {
        self.optional(name, text.map(Value::from));
    }

    fn finish(self) -> String {
        Value::from(self.0).to_string()
    }
}

fn parsed(text: &str) -> Read<Value> {
    serde_json::from_str(text).map_err(|_| "JSON that does not parse")
}

fn text_of<'a>(value: &'a Value, name: &'static str) -> Read<&'a str> {
    value.get(name).and_then(Value::as_str).ok_or(name)
}

fn optional_text_of(value: &Value, name: &str) -> Option<String> {
    value.get(name).and_then(Value::as_str).map(str::to_owned)
}

fn texts_from(value: &Value) -> Read<Vec<String>> {
    let list = value.as_array().ok_or("a list of texts that is none")?;
    list.iter().map(|text| text.as_str().map(str::to_owned).ok_or("a text that is none")).collect()
}

fn small_number_of(value: &Value, name: &'static str) -> Read<u32> {
    value.get(name).and_then(Value::as_u64).and_then(|number| u32::try_from(number).ok()).ok_or(name)
}

fn json_of(value: &Value, name: &str) -> Option<JsonText> {
    value.get(name).and_then(Value::as_str).map(JsonText::from_valid)
}

fn session_of(value: &Value, name: &'static str) -> Read<SessionId> {
    text_of(value, name)?.parse().map_err(|_| name)
}

fn digest_value(digest: Digest) -> Value {
    json!(digest.to_hex())
}

fn digest_of(value: &Value, name: &'static str) -> Read<Option<Digest>> {
    let Some(hex) = value.get(name).and_then(Value::as_str) else { return Ok(None) };
    Digest::from_hex(hex).map(Some).ok_or(name)
}

#[cfg(test)]
mod tests;
