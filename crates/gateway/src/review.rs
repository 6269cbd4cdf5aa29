//! Work that a review implies: ask the model about the conversation as it was when the review fell
//! due, let it use memory and skills, report what came of it. Beside the turns, and by mail.
//!
//! - the request begins with the bytes of the one whose answer it fell due with: the same tools, system
//!   prompt and messages, made by the same way, and one message more
//! - what may be called is decided here, not by the list: the list is part of those bytes
//! - nothing is kept on the way. A review that is lost is begun again: its calls have the keys they had,
//!   and an entry that is there already is not added twice
//!
//! Deliberately absent: the transcript, the feed that people read along, approvals (no person is asked).

use crate::offer::with_client_tools;
use crate::turn::JobContext;
use futures_util::FutureExt;
use serde_json::Value;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use throughline_core::history::legal;
use throughline_core::message::{Body, Content, JsonText, Message, ToolCall, ToolResult, distinct_ids};
use throughline_core::port::{Asked, Model, ModelError, Promise, ReviewView};
use throughline_core::prompt::Composition;
use throughline_core::redact::redacted;
use throughline_core::session::Event;
use throughline_core::session::review::{
    Fill, MEMORY_TOOL, Report, Review, SKILL_TOOL, TOOLS, false_claim, prompt,
};
use throughline_core::tool::{Call, Caller, Done, Offer, Returned};
use throughline_core::turn::{Answer, Recipient, ask_again};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

/// A review that has found nothing after so many answers will not.
const STEPS_MAX: u32 = 16;
/// Reviews of one agent at a time: no turn waits for them, and turns need the provider more.
const AT_ONCE_MAX: usize = 2;
/// No review takes longer; one that hangs is tried again.
const PATIENCE: Duration = Duration::from_secs(900);
/// Waits no longer than this before a try, also where a clock was set back.
const WAIT_MAX: Duration = Duration::from_secs(600);
/// Messages that another model than the conversation's is shown: it has nothing cached.
const DIGEST_MESSAGES: usize = 24;
/// How the memory tool says that nothing had to be added (Hermes' words).
const THERE_ALREADY: &str = "already exists";
/// What a notice shows of an entry.
const PREVIEW_CHARS: usize = 120;
const REMOVED_PREVIEW_CHARS: usize = 60;

/// How full the caller's stores are.
pub type Fills = Arc<dyn Fn(Caller) -> Promise<'static, Vec<Fill>> + Send + Sync>;

/// What an agent looks back with.
pub struct Reviewer {
    /// Who is asked instead of the conversation's own model.
    pub model: Option<Arc<dyn Model>>,
    pub notices: Notices,
    pub fills: Fills,
    places: Semaphore,
}

impl Reviewer {
    pub fn new(model: Option<Arc<dyn Model>>, notices: Notices, fills: Fills) -> Self {
        Self { model, notices, fills, places: Semaphore::new(AT_ONCE_MAX) }
    }
}

impl Default for Reviewer {
    fn default() -> Self {
        Self::new(None, Notices::default(), Arc::new(|_| Box::pin(async { Vec::new() })))
    }
}

/// How much people hear of what a review has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Notice {
    Off,
    #[default]
    On,
    Verbose,
}

/// In general, and on platforms for which something else was chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notices {
    pub usual: Notice,
    pub of_platforms: BTreeMap<String, Notice>,
}

impl Notices {
    fn on(&self, platform: &str) -> Notice {
        self.of_platforms.get(platform).copied().unwrap_or(self.usual)
    }
}

/// What a review needs to know of its session beside the rows.
pub(crate) struct Reading {
    /// The one that answers in the conversation.
    pub model: Arc<dyn Model>,
    pub caller: Caller,
    pub sampling: Option<JsonText>,
}

pub(crate) async fn run(context: JobContext, review: Review, reading: Reading) {
    sleep(review.not_before.since(context.home.clock.now()).min(WAIT_MAX)).await;
    let number = review.number;
    let Ok(_place) = context.home.reviewer.places.acquire().await else { return };
    let looking = timeout(PATIENCE, look_back(&context, &review, &reading));
    let result = match AssertUnwindSafe(looking).catch_unwind().await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(format!("it took longer than {} s", PATIENCE.as_secs())),
        Err(_) => Err("it failed inside the gateway, whose log has more".to_owned()),
    };
    if let Err(why) = &result {
        tracing::warn!(review = number, why, "a review came to nothing");
    }
    context.report(Event::Reviewed { number, result: result.map_err(|why| redacted(&why)) });
}

async fn look_back(context: &JobContext, review: &Review, reading: &Reading) -> Result<Report, String> {
    let home = &context.home;
    let model = home.reviewer.model.as_ref().unwrap_or(&reading.model);
    // The offline model has nothing to say to people.
    if !model.is_real() && review.place.is_some() {
        return Ok(Report::default());
    }
    let (id, number) = (context.session.clone(), review.number);
    let view = home.library.read(move |store| store.review(&id, number)).await;
    let Some(view) = view.map_err(|error| error.in_full())? else { return Ok(Report::default()) };
    let own = home.tools.offer(&reading.caller);
    // A name that the client has given to a tool of its own means that tool, and a review runs nothing of a client's.
    let is_client = |tool: &str| {
        view.client_tools.as_ref().is_some_and(|theirs| theirs.names.iter().any(|name| name == tool))
    };
    let may = |tool: &str| {
        own.as_ref().is_some_and(|own| own.names.iter().any(|name| name == tool)) && !is_client(tool)
    };
    let memory = review.subject.includes_memory() && may(MEMORY_TOOL);
    let skills = review.subject.includes_skills() && may(SKILL_TOOL);
    if !memory && !skills {
        return Ok(Report::default()); // what it is about is off here
    }
    let offer = match &view.client_tools {
        Some(theirs) => Some(Arc::new(with_client_tools(own.as_deref(), theirs))),
        None => own.clone(),
    };
    let allowed = TOOLS.into_iter().filter(|tool| !is_client(tool)).collect();
    let mut composition = composed(context, review, &view, offer.as_deref(), model.as_ref());
    let fills = match memory {
        true => (home.reviewer.fills)(reading.caller.clone()).await,
        false => Vec::new(),
    };
    let question = Content::text(prompt(review.subject, &fills));
    composition.push(model.encode(&Message::user(review.due, question)));
    Looking { context, review, reading, model, composition, allowed, report: Report::default() }
        .finish()
        .await
}

/// The conversation as it was, made by the way on which the turn's own request was made.
fn composed(
    context: &JobContext,
    review: &Review,
    view: &ReviewView,
    offer: Option<&Offer>,
    model: &dyn Model,
) -> Composition {
    let tools = offer.map(|offer| model.encode_tools(&offer.list));
    let system = view.system_prompt.as_ref().map(|prompt| model.encode_system(prompt));
    let mut composition = Composition::new(model.name(), tools, system);
    let shown = match context.home.reviewer.model {
        Some(_) => last_exchanges(&view.messages),
        None => &view.messages,
    };
    legal(shown).iter().for_each(|message| composition.push(model.encode(message)));
    let note = |name, why: String| {
        context.home.note(Some(context.session.clone()), name, format!("review {}: {why}", review.number));
    };
    if view.gone > 0 {
        note("review_incomplete", format!("{} messages were deleted by another program", view.gone));
    }
    if context.home.reviewer.model.is_none()
        && let Some(why) = view.asked.and_then(|asked| composition.breaks(&asked))
    {
        note("cache_break", why.to_string());
    }
    composition
}

/// The end of a conversation, from a message of a person on.
fn last_exchanges(messages: &[Message]) -> &[Message] {
    let least = messages.len().saturating_sub(DIGEST_MESSAGES);
    let begins = messages[least..].iter().position(|message| matches!(message.body, Body::User(_)));
    &messages[begins.map_or(0, |place| least + place)..]
}

/// One run of a review.
struct Looking<'a> {
    context: &'a JobContext,
    review: &'a Review,
    reading: &'a Reading,
    model: &'a Arc<dyn Model>,
    composition: Composition,
    /// What may be called.
    allowed: Vec<&'static str>,
    report: Report,
}

impl Looking<'_> {
    async fn finish(mut self) -> Result<Report, String> {
        for step in 0..STEPS_MAX {
            let Answer { mut said, usage, model } = self.ask().await?;
            self.report.asked += 1;
            self.report.model = model;
            let total = &mut self.report.usage;
            total.input += usage.input;
            total.output += usage.output;
            total.cache_read += usage.cache_read;
            total.cache_write += usage.cache_write;
            total.reasoning += usage.reasoning;
            if said.calls.is_empty() {
                break;
            }
            for (call, id) in distinct_ids(&said.calls).into_iter().enumerate() {
                said.calls[call].id = id;
            }
            let calls = said.calls.clone();
            self.say(Body::Assistant(said));
            // In order: two writes to one file would only wait for each other.
            for (position, call) in calls.into_iter().enumerate() {
                let content = self.call(step, position, &call).await;
                self.say(Body::Result(ToolResult { call_id: call.id, name: Some(call.name), content }));
            }
        }
        Ok(self.report)
    }

    fn say(&mut self, body: Body) {
        let message = Message::new(self.context.home.clock.now(), body);
        self.composition.push(self.model.encode(&message));
    }

    async fn ask(&self) -> Result<Answer, String> {
        let asked = Asked {
            session: self.context.session.to_string(),
            prompt: self.composition.prompt(),
            sampling: self.reading.sampling.clone(),
        };
        let mut attempt = 1;
        loop {
            match self.model.ask(asked.clone(), &|_| ()).await {
                Ok(answer) => return Ok(answer),
                Err(ModelError { kind, message }) => match ask_again(kind, attempt, Recipient::Patient) {
                    Some(delay) => sleep(delay).await,
                    None => return Err(message),
                },
            }
            attempt += 1;
        }
    }

    async fn call(&mut self, step: u32, position: usize, asked: &ToolCall) -> Content {
        if !self.allowed.contains(&asked.name.as_str()) {
            return refused(&format!(
                "{} was not run: in a review only memory and skill tools are, and this is one. Go on without it.",
                asked.name
            ));
        }
        let arguments = serde_json::from_str::<Value>(&asked.arguments).unwrap_or_default();
        if let Some(why) = written(&asked.name, &arguments).find_map(false_claim) {
            return refused(&format!(
                "Nothing was saved: {why}. Leave it out; save what the user said or wants, or nothing."
            ));
        }
        let call = Call {
            key: self.review.call_key(&self.context.session, step, position),
            name: asked.name.clone(),
            arguments: asked.arguments.clone(),
            caller: Caller { now: self.context.home.clock.now(), ..self.reading.caller.clone() },
            grant: None,
        };
        match self.context.home.tools.call(&call).await {
            Returned::Done(Done { content, .. }) => {
                self.note_change(asked, &arguments, &content);
                content
            }
            Returned::Ask { .. } => {
                refused("Nothing was done: this needs a person, and nobody is asked in a review.")
            }
        }
    }

    /// What a call has changed, for the record and for people.
    fn note_change(&mut self, asked: &ToolCall, arguments: &Value, result: &Content) {
        let Ok(result) = serde_json::from_str::<Value>(&result.plain()) else { return };
        // What is there already is news only where an earlier run of this review may have put it there.
        let is_first_run = self.review.lost == 0 && self.review.tries == 0;
        let is_there = result["message"].as_str().is_some_and(|message| message.contains(THERE_ALREADY));
        if result["success"] != true || (is_there && is_first_run) {
            return;
        }
        let detailed = changes(&asked.name, arguments, &result);
        let platform = self.review.place.as_ref().map_or("", |place| place.platform.as_str());
        match self.context.home.reviewer.notices.on(platform) {
            Notice::Off => {}
            Notice::On => self.report.told.extend(in_general(&asked.name, arguments, &result)),
            Notice::Verbose => self.report.told.extend(detailed.iter().cloned()),
        }
        self.report.changes.extend(detailed);
    }
}

fn refused(why: &str) -> Content {
    Content::text(serde_json::json!({"success": false, "error": why}).to_string())
}

/// The texts that a call would keep.
fn written<'a>(tool: &str, arguments: &'a Value) -> impl Iterator<Item = &'a str> {
    let fields: &[&str] = match tool {
        MEMORY_TOOL => &["content"],
        SKILL_TOOL => &["content", "new_string", "file_content"],
        _ => &[],
    };
    let operations = arguments["operations"].as_array().into_iter().flatten();
    let all = std::iter::once(arguments).chain(operations);
    all.flat_map(|value| fields.iter().filter_map(|field| value[*field].as_str()))
}

/// One line that names the store or skill, as Hermes does.
fn in_general(tool: &str, arguments: &Value, result: &Value) -> Option<String> {
    match tool {
        MEMORY_TOOL => Some(format!("{} updated", label(arguments, result))),
        SKILL_TOOL => result["message"].as_str().filter(|message| !message.is_empty()).map(str::to_owned),
        _ => None,
    }
}

fn label(arguments: &Value, result: &Value) -> &'static str {
    let target = result["target"].as_str().or(arguments["target"].as_str());
    if target == Some("user") { "User profile" } else { "Memory" }
}

/// A line for each change, with what was written.
fn changes(tool: &str, arguments: &Value, result: &Value) -> Vec<String> {
    match tool {
        MEMORY_TOOL => {
            let label = label(arguments, result);
            let several = arguments["operations"].as_array().filter(|operations| !operations.is_empty());
            let lines = match several {
                Some(operations) => operations.iter().filter_map(|one| change(label, one)).collect(),
                None => Vec::from_iter(change(label, arguments)),
            };
            if lines.is_empty() { vec![format!("{label} updated")] } else { lines }
        }
        SKILL_TOOL => {
            in_general(tool, arguments, result).map(|message| format!("📝 {message}")).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

fn change(label: &str, one: &Value) -> Option<String> {
    let (sign, field, most) = match one["action"].as_str()? {
        "add" => ("➕", "content", PREVIEW_CHARS),
        "replace" => ("✏️", "content", PREVIEW_CHARS),
        "remove" => ("➖", "old_text", REMOVED_PREVIEW_CHARS),
        _ => return None,
    };
    let text = one[field].as_str().filter(|text| !text.is_empty())?;
    Some(format!("{label} {sign} {}", shortened(&redacted(text), most)))
}

fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_told_names_the_store_or_shows_the_entry() {
        let done = json!({"success": true, "target": "user", "message": "Entry added."});
        let add = json!({"action": "add", "target": "user", "content": "Likes tea"});
        assert_eq!(in_general("memory", &add, &done).as_deref(), Some("User profile updated"));
        assert_eq!(changes("memory", &add, &done), ["User profile ➕ Likes tea"]);
        let long = "x".repeat(200);
        let operations = json!({"target": "memory", "operations": [
            {"action": "remove", "old_text": "old"}, {"action": "replace", "content": long}, {"action": "what"}]});
        let done = json!({"success": true, "target": "memory"});
        assert_eq!(
            changes("memory", &operations, &done),
            ["Memory ➖ old".to_owned(), format!("Memory ✏️ {}…", "x".repeat(120))]
        );
        let made = json!({"success": true, "message": "Skill 'deploy' created."});
        assert_eq!(in_general("skill_manage", &json!({}), &made).as_deref(), Some("Skill 'deploy' created."));
        assert_eq!(in_general("skill_view", &json!({}), &made), None);
    }

    #[test]
    fn every_text_that_a_call_would_keep_is_looked_at() {
        let call = json!({"content": "a", "old_text": "b", "operations": [{"content": "c"}, "d"]});
        assert_eq!(written("memory", &call).collect::<Vec<_>>(), ["a", "c"]);
        let call = json!({"content": "a", "new_string": "b", "name": "c"});
        assert_eq!(written("skill_manage", &call).collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn another_model_is_shown_the_end_from_a_person_on() {
        let at = throughline_core::Time(0);
        let user = || Message::user(at, Content::text("u"));
        let other = || Message::new(at, Body::System(Content::text("s")));
        let long: Vec<Message> = (0..40).flat_map(|_| [user(), other()]).collect();
        let shown = last_exchanges(&long[1..]);
        assert!(shown.len() <= DIGEST_MESSAGES && matches!(shown[0].body, Body::User(_)));
        assert_eq!(last_exchanges(&long[..4]).len(), 4);
    }
}
