//! What the model may ask of Honcho, by the names, arguments and answers that Hermes has.
//!
//! Whose memory is asked follows from the scope. `peer` may name another one only where no other person's
//! is there to be read ([`HonchoShared::is_open_to`]): otherwise a question in one chat would show what was
//! said in another. A tool creates no session.

use super::api::{HonchoFailure, HonchoRequest, RequestEffect};
use super::provider::{HonchoShared, ScopePlace};
use super::recall::{card, nothing_if_missing, representation};
use super::scrub::scrubbed;
use super::session_name;
use super::settings::{HonchoSettings, ReasoningLevel, RecallMode};
use crate::python_text::{chars, head, preview};
use reqwest::Method;
use serde_json::{Map, Value, json};
use throughline_core::memory::Scope;
use throughline_core::message::JsonText;
use throughline_core::tool::Spec;

const QUERY_CHARS_MAX: usize = 4000;
/// What a search may come to, in tokens of about four characters.
const SEARCH_TOKENS: u64 = 800;
const SEARCH_TOKENS_MAX: u64 = 2000;
const EXCERPT_CHARS_MAX: usize = 1200;
const CONCLUSIONS_MAX: usize = 20;
const CONCLUSION_CHARS_MAX: usize = 8000;
/// A card is what one keeps in mind of a person.
const CARD_ITEMS_MAX: usize = 100;
/// Pages of 100 in which a conclusion is looked for before it is deleted.
const OWN_PAGES_MAX: u64 = 20;

/// What a system prompt says about it. Nothing in it changes from turn to turn.
pub fn prompt(mode: RecallMode) -> &'static str {
    match mode {
        RecallMode::Context => {
            "# Honcho Memory\nWhat is known of the user is put beside their messages by itself. There are no tools for it."
        }
        RecallMode::Tools => {
            "# Honcho Memory\nNothing is recalled by itself. honcho_profile shows what is known in short, honcho_search \
             finds what was said, honcho_context shows all that is known, honcho_reasoning answers a question about the \
             user, honcho_conclude keeps a fact."
        }
        RecallMode::Hybrid => {
            "# Honcho Memory\nWhat is known of the user is put beside their messages by itself. For more, honcho_profile \
             shows it in short, honcho_search finds what was said, honcho_context shows all that is known, \
             honcho_reasoning answers a question about the user, and honcho_conclude keeps a fact."
        }
    }
}

pub fn specs(settings: &HonchoSettings) -> Vec<Spec> {
    if settings.recall_mode == RecallMode::Context {
        return Vec::new();
    }
    let peer =
        json!({"type": "string", "description": "Whom it is about: 'user' (default), 'ai', or a peer's id."});
    let text = |words: &str| json!({"type": "string", "description": words});
    let tool = |name: &str, words: &str, repeatable: bool, mut properties: Value, required: Value| {
        properties["peer"] = peer.clone();
        let parameters = json!({"type": "object", "properties": properties, "required": required});
        Spec {
            name: name.to_owned(),
            toolset: "memory".to_owned(),
            description: words.to_owned(),
            parameters: JsonText::from_valid(parameters.to_string()),
            repeatable,
        }
    };
    let levels: Vec<&str> = ReasoningLevel::ALL.iter().map(|level| level.as_str()).collect();
    vec![
        tool(
            "honcho_profile",
            "The card of a peer: a short list of lasting facts about them. The cheapest question, without a model. \
             With `card` it is replaced, without it is read. An empty card is no error: it fills as people talk.",
            true,
            json!({"card": {"type": "array", "items": {"type": "string"}, "description": "The new card, one fact each. Leave out to read."}}),
            json!([]),
        ),
        tool(
            "honcho_search",
            "Searches what was really said in all conversations that a peer took part in, by meaning and by word, and \
             gives excerpts. No model is asked. For a certain fact, decision or wording of the past.",
            true,
            json!({
                "query": text("What to look for: a subject, a word, a name, a description."),
                "max_tokens": {"type": "integer", "description": "How much to give back, about (default 800, at most 2000)."},
            }),
            json!(["query"]),
        ),
        tool(
            "honcho_reasoning",
            "Asks Honcho a question about a peer and gets an answer in prose that it has worked out of everything it \
             knows. The slowest and dearest question: for what takes judgement. For one fact use honcho_search.",
            true,
            json!({
                "query": text("A question in plain language."),
                "reasoning_level": {"type": "string", "enum": levels,
                    "description": "How hard to think. minimal only for one quick fact: its answers are cut short. Leave out for the configured one."},
            }),
            json!(["query"]),
        ),
        tool(
            "honcho_context",
            "What Honcho holds about this conversation and a peer: summary, representation, card, last messages. \
             No question and no model. To find something use honcho_search.",
            true,
            json!({}),
            json!([]),
        ),
        tool(
            "honcho_conclude",
            "Writes, deletes or lists conclusions: lasting facts about a peer that go into what is known of them. \
             Exactly one of `conclusion`, `delete_id` and `list`. Deleting is for personal data; what is merely wrong \
             is put right by a new conclusion. Ids come from `list`.",
            false,
            json!({
                "conclusion": text("A fact to keep."),
                "delete_id": text("The id of a conclusion to delete, as `list` gave it."),
                "list": {"type": "boolean", "description": "True to list what is there, with ids."},
                "query": text("With `list`: what to look for. Leave out for the latest."),
            }),
            json!([]),
        ),
    ]
}

/// The answer, as JSON text. What went wrong is said in it.
pub async fn call(shared: &HonchoShared, scope: &Scope, name: &str, arguments: &str) -> String {
    let answer = match serde_json::from_str::<Value>(arguments.trim()) {
        _ if shared.settings.recall_mode == RecallMode::Context => {
            Err("Honcho has no tools here: recallMode is context.".to_owned())
        }
        Ok(Value::Object(arguments)) => run(shared, scope, name, &HonchoArguments(arguments)).await,
        Err(_) if arguments.trim().is_empty() => run(shared, scope, name, &HonchoArguments(Map::new())).await,
        _ => Err(format!("The arguments of {name} must be a JSON object.")),
    };
    match answer {
        Ok(answer) => answer.to_string(),
        Err(words) => json!({"error": words}).to_string(),
    }
}

async fn run(
    shared: &HonchoShared,
    scope: &Scope,
    name: &str,
    arguments: &HonchoArguments,
) -> Result<Value, String> {
    let seat = shared.seat(scope);
    let asked = arguments.text("peer").unwrap_or_else(|| "user".to_owned());
    let target = shared.target(scope, &seat, &asked)?;
    let tool = HonchoCall { shared, scope, seat: &seat, target: &target, asked: &asked };
    match name {
        "honcho_profile" => tool.profile(arguments).await,
        "honcho_search" => tool.search(arguments).await,
        "honcho_reasoning" => tool.reasoning(arguments).await,
        "honcho_context" => tool.context().await,
        "honcho_conclude" => tool.conclude(arguments).await,
        _ => Err(format!("Unknown tool: {name}")),
    }
}

impl HonchoShared {
    /// Whom a tool asks about, if the speaker may.
    fn target(&self, scope: &Scope, seat: &ScopePlace, asked: &str) -> Result<String, String> {
        let id = match asked {
            "user" => return Ok(seat.peers.user.clone()),
            "ai" => seat.peers.agent.clone(),
            other => session_name::bounded_id(other),
        };
        match id == seat.peers.user || self.is_open_to(scope) {
            true => Ok(id),
            false => Err(format!(
                "Peer '{asked}' is not this conversation's: several people talk to this agent, and what is known from \
                 others is not shown here. Ask about 'user'."
            )),
        }
    }
}

/// One call.
struct HonchoCall<'a> {
    shared: &'a HonchoShared,
    scope: &'a Scope,
    seat: &'a ScopePlace,
    target: &'a str,
    /// As the model named it.
    asked: &'a str,
}

impl HonchoCall<'_> {
    async fn profile(&self, arguments: &HonchoArguments) -> Result<Value, String> {
        let (observer, target) = self.shared.observer(&self.seat.peers, self.target);
        if let Some(card) = arguments.card()? {
            let query: Vec<(&str, &str)> = target.map(|target| ("target", target)).into_iter().collect();
            let request = HonchoRequest {
                method: Method::PUT,
                path: format!("peers/{observer}/card"),
                query: &query,
                body: Some(json!({"peer_card": card})),
                effect: RequestEffect::Write,
            };
            self.shared.wire.ask(request).await.map_err(|failure| said(&failure, "the card"))?;
            return Ok(json!({"result": format!("Peer card updated ({} facts).", card.len()), "card": card}));
        }
        let mut facts = self.card(observer, target).await?;
        if facts.is_empty() && observer != self.target {
            facts = self.card(self.target, None).await?; // some servers keep it there
        }
        let facts: Vec<String> = facts.iter().map(|fact| scrubbed(fact)).collect();
        match facts.is_empty() {
            true => Ok(json!({"result": "No profile facts available yet.", "hint": self.hint()})),
            false => Ok(json!({"result": facts})),
        }
    }

    async fn card(&self, peer: &str, target: Option<&str>) -> Result<Vec<String>, String> {
        let query: Vec<(&str, &str)> = target.map(|target| ("target", target)).into_iter().collect();
        let answer = nothing_if_missing(self.shared.wire.get(format!("peers/{peer}/card"), &query).await);
        let answer = answer.map_err(|failure| said(&failure, "the question for a card"))?;
        Ok(card(&answer["peer_card"]))
    }

    fn hint(&self) -> String {
        let observation = self.shared.settings.observation;
        let watch = if self.target == self.seat.peers.agent { observation.agent } else { observation.user };
        let reason = match watch.observe_me || watch.observe_others {
            true => "cards fill as Honcho works through what was said; this peer may be new",
            false => "this peer is not observed (observation in honcho.json)",
        };
        format!(
            "This is not an error: {reason}. honcho_search finds what was said, honcho_reasoning answers questions."
        )
    }

    async fn search(&self, arguments: &HonchoArguments) -> Result<Value, String> {
        let query = arguments.query()?;
        let tokens = arguments.number("max_tokens").unwrap_or(SEARCH_TOKENS).min(SEARCH_TOKENS_MAX);
        let budget = usize::try_from(tokens).unwrap_or(0).saturating_mul(4).max(200);
        let limit = (budget / 300).clamp(3, 20);
        let query = head(&query, QUERY_CHARS_MAX);
        let body = json!({"query": query, "filters": {"peer_perspective": self.target}, "limit": limit});
        let wire = &self.shared.wire;
        let found = match wire.post("search".to_owned(), body, RequestEffect::None).await {
            // An older server knows no perspective: then what the peer said themselves.
            Err(HonchoFailure::Status { status: 400 | 404 | 422, .. }) => {
                let path = format!("peers/{}/search", self.target);
                wire.post(path, json!({"query": query, "limit": limit}), RequestEffect::None).await
            }
            found => found,
        };
        let found = nothing_if_missing(found).map_err(|failure| said(&failure, "the search"))?;
        let text = scrubbed(&self.excerpts(&found, budget));
        let text = if text.trim().is_empty() { "No relevant context found." } else { text.trim() };
        Ok(json!({"result": text}))
    }

    fn excerpts(&self, found: &Value, budget: usize) -> String {
        let mut text = String::new();
        for message in found.as_array().into_iter().flatten() {
            let content = message["content"].as_str().unwrap_or_default().trim();
            if content.is_empty() {
                continue;
            }
            let author = message["peer_id"].as_str().unwrap_or("unknown");
            let author = if author == self.seat.peers.agent { "assistant" } else { author };
            let place = message["session_id"].as_str().map(|place| format!(" · {place}")).unwrap_or_default();
            let gap = if text.is_empty() { "" } else { "\n\n" };
            let entry = format!("{gap}[{author}{place}] {}", head(content, EXCERPT_CHARS_MAX));
            let left = budget.saturating_sub(chars(&text));
            text.push_str(head(&entry, left));
            if chars(&entry) >= left {
                break;
            }
        }
        text
    }

    async fn reasoning(&self, arguments: &HonchoArguments) -> Result<Value, String> {
        let query = arguments.query()?;
        let settings = &self.shared.settings;
        let level = match arguments.text("reasoning_level") {
            Some(word) => ReasoningLevel::named(&word)
                .ok_or("reasoning_level is one of minimal, low, medium, high, max.")?,
            None => settings.dialectic_level,
        };
        let level = if settings.dialectic_dynamic { level } else { settings.dialectic_level };
        let answer = self.shared.chat(&self.seat.peers, self.target, &query, level).await;
        let answer = scrubbed(&answer.map_err(|failure| said(&failure, "the question"))?);
        let answer = if answer.trim().is_empty() { "No result from Honcho." } else { answer.trim() };
        Ok(json!({"result": answer}))
    }

    async fn context(&self) -> Result<Value, String> {
        let (observer, target) = self.shared.observer(&self.seat.peers, self.target);
        let answer = match self.seat.is_own {
            true => {
                self.shared.session_context(self.seat, Some((observer, target.unwrap_or(observer)))).await
            }
            false => self.shared.peer_context(observer, target, None).await,
        };
        let answer = answer.map_err(|failure| said(&failure, "the question for context"))?;
        let messages = answer["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
        let last = messages.iter().skip(messages.len().saturating_sub(5)).map(|message| {
            let content = message["content"].as_str().unwrap_or_default();
            format!("  [{}] {}", message["peer_id"].as_str().unwrap_or("unknown"), head(content, 200))
        });
        let sections = [
            ("Summary", answer["summary"]["content"].as_str().unwrap_or_default().to_owned()),
            ("Representation", representation(&answer)),
            ("Card", card(&answer["peer_card"]).join("\n")),
            ("Recent messages", last.collect::<Vec<_>>().join("\n")),
        ];
        let shown = sections.iter().filter(|(_, text)| !text.trim().is_empty());
        let text = scrubbed(
            &shown.map(|(title, text)| format!("## {title}\n{text}")).collect::<Vec<_>>().join("\n\n"),
        );
        let text = if text.is_empty() { "No context available yet." } else { &text };
        Ok(json!({"result": text}))
    }

    async fn conclude(&self, arguments: &HonchoArguments) -> Result<Value, String> {
        let conclusion = arguments.text("conclusion");
        let delete = arguments.text("delete_id");
        let list = arguments.truth("list");
        let query = arguments.text("query");
        if query.is_some() && !list {
            return Err("query is only valid when list is true.".to_owned());
        }
        match (conclusion, delete, list) {
            (Some(conclusion), None, false) => self.write(&conclusion).await,
            (None, Some(id), false) => self.delete(&id).await,
            (None, None, true) => {
                let listed = self.conclusions(query.as_deref()).await?;
                Ok(json!({"conclusions": listed}))
            }
            _ => Err("Exactly one of conclusion, delete_id, or list must be provided.".to_owned()),
        }
    }

    /// Whose conclusions they are, and about whom.
    fn pair(&self) -> (&str, &str) {
        let (observer, target) = self.shared.observer(&self.seat.peers, self.target);
        (observer, target.unwrap_or(observer))
    }

    async fn write(&self, conclusion: &str) -> Result<Value, String> {
        if chars(conclusion) > CONCLUSION_CHARS_MAX {
            return Err(format!(
                "A conclusion has at most {CONCLUSION_CHARS_MAX} characters. Nothing was saved."
            ));
        }
        let (observer, observed) = self.pair();
        let mut entry = json!({"content": conclusion, "observer_id": observer, "observed_id": observed});
        // A session begins with what was said in it.
        if self.scope.document.is_some() {
            entry["session_id"] = self.seat.session.clone().into();
        }
        let body = json!({"conclusions": [entry]});
        match self.shared.wire.post("conclusions".to_owned(), body, RequestEffect::Write).await {
            Ok(_) => Ok(json!({"result": format!("Conclusion saved for {}: {conclusion}", self.asked)})),
            Err(
                failure @ (HonchoFailure::Lost(_)
                | HonchoFailure::HungUp(_)
                | HonchoFailure::Status { status: 408 | 429 | 500..=599, .. }),
            ) => Err(format!(
                "{} Whether it was saved is not known: list the conclusions before saving it again.",
                said(&failure, "the conclusion")
            )),
            Err(failure) => Err(said(&failure, "the conclusion")),
        }
    }

    async fn conclusions(&self, query: Option<&str>) -> Result<Vec<Value>, String> {
        let (observer, observed) = self.pair();
        let filters = json!({"observer_id": observer, "observed_id": observed});
        let answer = match query {
            Some(query) => {
                let body = json!({"query": head(query, QUERY_CHARS_MAX), "top_k": CONCLUSIONS_MAX, "filters": filters});
                self.shared.wire.post("conclusions/query".to_owned(), body, RequestEffect::None).await
            }
            None => self.page(1, &CONCLUSIONS_MAX.to_string()).await,
        };
        let answer =
            nothing_if_missing(answer).map_err(|failure| said(&failure, "the question for conclusions"))?;
        let items = answer.as_array().or_else(|| answer["items"].as_array());
        let shown = |item: &Value| json!({"id": item["id"], "content": scrubbed(item["content"].as_str().unwrap_or_default())});
        Ok(items.into_iter().flatten().take(CONCLUSIONS_MAX).map(shown).collect())
    }

    async fn page(&self, page: u64, size: &str) -> Result<Value, HonchoFailure> {
        let (observer, observed) = self.pair();
        let request = HonchoRequest {
            method: Method::POST,
            path: "conclusions/list".to_owned(),
            query: &[("page", &page.to_string()), ("size", size)],
            body: Some(json!({"filters": {"observer_id": observer, "observed_id": observed}})),
            effect: RequestEffect::None,
        };
        self.shared.wire.ask(request).await
    }

    async fn delete(&self, id: &str) -> Result<Value, String> {
        let is_own = session_name::is_valid(id) && self.has(id).await?;
        if !is_own {
            return Err(format!(
                "There is no conclusion {} about '{}'. Ids come from list.",
                preview(id, 40),
                self.asked
            ));
        }
        let request = HonchoRequest {
            method: Method::DELETE,
            path: format!("conclusions/{id}"),
            query: &[],
            body: None,
            effect: RequestEffect::Write,
        };
        match self.shared.wire.ask(request).await {
            Ok(_) => Ok(json!({"result": format!("Conclusion {id} deleted.")})),
            Err(failure) => Err(said(&failure, "the deletion")),
        }
    }

    /// An id is valid in the whole workspace; whose it is has to be looked up.
    async fn has(&self, id: &str) -> Result<bool, String> {
        for page in 1..=OWN_PAGES_MAX {
            let answer = self.page(page, "100").await.map_err(|failure| said(&failure, "the deletion"))?;
            let items = answer["items"].as_array().map(Vec::as_slice).unwrap_or_default();
            if items.iter().any(|item| item["id"].as_str() == Some(id)) {
                return Ok(true);
            }
            if answer["pages"].as_u64().unwrap_or(0) <= page {
                break;
            }
        }
        Ok(false)
    }
}

fn said(failure: &HonchoFailure, what: &str) -> String {
    failure.sentence(what)
}

struct HonchoArguments(Map<String, Value>);

impl HonchoArguments {
    fn text(&self, key: &str) -> Option<String> {
        let text = self.0.get(key)?.as_str()?.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    fn query(&self) -> Result<String, String> {
        self.text("query").ok_or_else(|| "Missing required parameter: query".to_owned())
    }

    fn number(&self, key: &str) -> Option<u64> {
        let value = self.0.get(key)?;
        value.as_u64().or_else(|| value.as_str()?.trim().parse().ok())
    }

    fn truth(&self, key: &str) -> bool {
        match self.0.get(key) {
            Some(Value::Bool(value)) => *value,
            Some(Value::String(text)) => text.eq_ignore_ascii_case("true"),
            _ => false,
        }
    }

    /// None: the card is to be read.
    fn card(&self) -> Result<Option<Vec<String>>, String> {
        let items = match self.0.get("card") {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::Array(items)) if items.is_empty() => return Ok(None),
            Some(Value::Array(items)) if items.len() <= CARD_ITEMS_MAX => items,
            _ => {
                return Err(format!(
                    "card is a list of at most {CARD_ITEMS_MAX} facts. Nothing was changed."
                ));
            }
        };
        let facts = items.iter().map(|item| item.as_str().map(str::to_owned));
        let facts: Option<Vec<String>> = facts.collect();
        facts.map(Some).ok_or_else(|| "Each fact of a card is a text. Nothing was changed.".to_owned())
    }
}
