//! What the model is sent: the encoded conversation, the tools on offer, and what the last request covered.

use super::Actor;
use crate::command_jobs::Gone;
use crate::offer::with_client_tools;
use serde_json::Value;
use std::sync::Arc;
use throughline_core::history::legal;
use throughline_core::message::Body;
use throughline_core::port::{Model, StoreError};
use throughline_core::prompt::{Composition, Mark, Prompt};
use throughline_core::session::{CACHE_BREAK, Phase};
use throughline_core::tool::{Caller, EVERYTHING, Offer};
use throughline_core::turn::Turn;
use throughline_core::{JsonText, Message, RowId};

/// What is kept of the requests of one session, so that the next one costs what is new.
#[derive(Default)]
pub(super) struct Prompting {
    /// The model that a person has chosen here, by its name.
    chosen: Option<(String, Arc<dyn Model>)>,
    /// What the composition was begun with.
    offer: Option<Arc<Offer>>,
    system: Option<Arc<str>>,
    composition: Option<Composition>,
    /// What the last request covered: the next one should begin with it.
    pub last: Option<Mark>,
    /// The last row of the transcript, if a user said it: a reminder stands with that.
    pub heard: Option<(RowId, Message)>,
    /// The row that is shown with a reminder.
    reminded: Option<RowId>,
}

impl Prompting {
    /// A session that begins has no rows but those that it is about to hear of: there is nothing to read back.
    pub fn begin(&mut self) {
        self.composition = Some(Composition::headless());
    }

    pub fn forget(&mut self) {
        self.composition = None;
    }

    /// The next row of the transcript.
    pub fn append(&mut self, model: &dyn Model, message: &Message) {
        if let Some(composition) = &mut self.composition {
            composition.push(model.encode(message));
        }
    }

    pub fn hear(&mut self, row: RowId, message: &Message) {
        self.heard = matches!(message.body, Body::User(_)).then(|| (row, message.clone()));
    }

    pub fn bytes(&self) -> usize {
        self.composition.as_ref().map_or(0, Composition::bytes)
    }
}

impl Actor {
    /// The model that answers here.
    pub(super) fn model(&mut self) -> Arc<dyn Model> {
        let Some(name) = &self.state.preferences.model else {
            self.prompting.chosen = None;
            return self.home.model.clone();
        };
        if let Some((chosen, model)) = &self.prompting.chosen
            && chosen == name
        {
            return model.clone();
        }
        let model =
            self.home.models.choose(name).unwrap_or_else(|why| {
                Arc::new(Gone { name: name.clone(), why, like: self.home.model.clone() })
            });
        self.prompting.chosen = Some((name.clone(), model.clone()));
        model
    }

    /// On whose behalf the tools of a turn act.
    pub(super) fn caller(&self, turn: &Turn) -> Caller {
        let everything = self.state.preferences.yolo.then(|| EVERYTHING.to_owned());
        Caller {
            session: self.id.clone(),
            source: turn.task().map_or(&self.profile.source, |task| &task.source).clone(),
            principal: self.profile.principal.clone(),
            user: self.profile.user.clone(),
            is_private: self.profile.is_private,
            reply_to: turn.inputs.last().and_then(|input| input.reply_to.clone()),
            trace: turn.trace(),
            task: turn.task().cloned(),
            allowed: self.state.allowed.iter().cloned().chain(everything).collect(),
            tokens_left: turn.tokens_left(&self.home.rules.limits),
            now: self.home.clock.now(),
        }
    }

    /// How much the model is to think here.
    pub(super) fn reasoning(&self) -> Option<&str> {
        self.state.preferences.reasoning.as_deref().or(self.home.reasoning.as_deref())
    }

    /// What the model may call in this turn: the agent's tools, and those that its client runs.
    fn offer_to(&self, turn: &Turn) -> Option<Arc<Offer>> {
        let own = self.home.tools.offer(&self.caller(turn));
        match turn.client_tools() {
            Some(theirs) => Some(Arc::new(with_client_tools(own.as_deref(), theirs))),
            None => own,
        }
    }

    /// The prompt as it stands, and a word in the log if it does not begin as the last one did.
    pub(super) async fn composed(&mut self) -> Result<(Prompt, Mark), StoreError> {
        self.forget_other_head();
        self.composed_rows().await?;
        self.begin_composition();
        let composition = self.prompting.composition.as_ref().expect("just composed");
        if let Some(why) = self.prompting.last.and_then(|last| composition.breaks(&last)) {
            self.home.note(Some(self.id.clone()), CACHE_BREAK, why.to_string());
            self.prompting.last = None;
        }
        let composed = (composition.prompt(), composition.mark());
        self.report();
        Ok(composed)
    }

    /// What was said so far, encoded.
    pub(super) async fn composed_rows(&mut self) -> Result<(), StoreError> {
        if self.prompting.composition.is_some() {
            return Ok(());
        }
        let id = self.id.clone();
        let history = self.home.library.read(move |store| store.history(&id)).await?;
        if let Some((row, message)) = history.last() {
            self.prompting.hear(*row, message);
        }
        let reminder = self.state.reminder();
        let shown = history.into_iter().map(|(row, message)| match reminder.filter(|it| it.row == row) {
            Some(reminder) => Message { sent_as: Some(reminder.sent_as.clone()), ..message },
            None => message,
        });
        let messages: Vec<Message> = shown.collect();
        let model = self.model();
        let mut composition = Composition::headless();
        legal(&messages).iter().for_each(|message| composition.push(model.encode(message)));
        self.prompting.composition = Some(composition);
        Ok(())
    }

    /// Tools and system prompt of the running turn stand before what was said.
    fn begin_composition(&mut self) {
        let Phase::Turn(turn) = &self.state.phase else { return };
        if self.prompting.composition.as_ref().is_none_or(|composition| !composition.is_headless()) {
            return;
        }
        let offer = self.offer_to(turn);
        let system = self.state.prompt().map(|prompt| prompt.text.clone());
        let model = self.model();
        let tools = offer.as_ref().map(|offer| model.encode_tools(&offer.list));
        let encoded = system.as_ref().map(|text| model.encode_system(text));
        self.prompting.offer = offer;
        self.prompting.system = system;
        if let Some(composition) = &mut self.prompting.composition {
            composition.begin(model.name(), tools, encoded);
        }
    }

    /// A server may have changed its tools, a setting who may use them, or a person how the agent is to speak.
    fn forget_other_head(&mut self) {
        let Phase::Turn(turn) = &self.state.phase else { return };
        if self.prompting.composition.as_ref().is_none_or(Composition::is_headless) {
            return;
        }
        let offer = self.offer_to(turn);
        let same = match (&offer, &self.prompting.offer) {
            (Some(now), Some(then)) => Arc::ptr_eq(now, then) || now.list == then.list,
            (None, None) => true,
            _ => false,
        };
        let prompted = self.state.prompt().map(|prompt| &prompt.text) == self.prompting.system.as_ref();
        if !same || !prompted {
            self.prompting.forget();
        }
    }

    /// A reminder that has come for what was said last: it is sent in another form from now on.
    pub(super) fn show_reminder(&mut self) {
        let Some(reminder) = self.state.reminder() else { return };
        let shown = self.prompting.reminded == Some(reminder.row);
        let heard = self.prompting.heard.as_ref().filter(|(row, _)| *row == reminder.row && !shown);
        let Some((row, heard)) = heard else { return };
        let message = Message { sent_as: Some(reminder.sent_as.clone()), ..heard.clone() };
        self.prompting.reminded = Some(*row);
        let segment = self.model().encode(&message);
        if let Some(composition) = &mut self.prompting.composition {
            composition.amend(segment);
        }
    }
}

/// What a client asks for itself counts for more than what was chosen for the conversation.
pub(super) fn with_reasoning(sampling: Option<JsonText>, level: Option<&str>) -> Option<JsonText> {
    let Some(level) = level else { return sampling };
    let fields = sampling.as_ref().map_or("{}", JsonText::as_str);
    let Ok(Value::Object(mut fields)) = serde_json::from_str::<Value>(fields) else { return sampling };
    fields.entry("reasoning_effort").or_insert_with(|| level.into());
    Some(JsonText::from_valid(Value::Object(fields).to_string()))
}

pub(super) fn without_choice(sampling: Option<JsonText>) -> Option<JsonText> {
    let fields = sampling.as_ref()?;
    let Ok(Value::Object(mut fields)) = serde_json::from_str::<Value>(fields.as_str()) else {
        return sampling;
    };
    fields.remove("tool_choice");
    Some(JsonText::from_valid(Value::Object(fields).to_string()))
}
