//! Those who write: people in chats, clients of the API, and the operator. They go on where they were
//! when the process comes back, send again what was not acknowledged, and sometimes what was.

use crate::model::ERRAND;
use crate::owner;
use crate::plan::{Line, Manner, Plan};
use crate::platforms::{SimPlatform, display, platform_name};
use crate::records::{Owner, Place, Said};
use crate::tools::yes;
use crate::world::Outside;
use std::sync::Arc;
use std::time::Duration;
use throughline_core::input::{
    self, Birth, Chat, ClientTools, DedupeKey, Destination, Kind, Request, Sender, Trace,
};
use throughline_core::message::{Assistant, Body, JsonText, ToolResult};
use throughline_core::port::{AgentApi, Question, Reading, Receipt, Refusal, Submission, Update};
use throughline_core::prompt::Digest;
use throughline_core::route::{Target, Thread};
use throughline_core::session::Outcome;
use throughline_core::tool::{self, Grant, Verdict};
use throughline_core::{Content, Message, SessionId};
use throughline_platforms::Live;
use throughline_platforms::live::Followed;
use tokio::sync::Mutex;
use tokio::time::sleep;

/// How long someone waits before trying again what was refused.
const IMPATIENCE: Duration = Duration::from_millis(700);
/// How often people look whether there is something to react to.
const GLANCE: Duration = Duration::from_millis(400);
/// How long a turn waits for the rest of what was meant as one.
const GATHERED: Duration = Duration::from_millis(300);
/// What a person stops must have stopped by then.
const STOPS_WITHIN: Duration = Duration::from_secs(2);

/// One chat in one life of the process. Its people speak one after the other.
pub struct Room {
    outside: Arc<Outside>,
    api: Arc<dyn AgentApi>,
    chat: usize,
    floor: Mutex<()>,
    /// Shows what is said so far.
    live: Arc<Live>,
}

impl Room {
    pub fn new(outside: Arc<Outside>, api: Arc<dyn AgentApi>, chat: usize) -> Arc<Self> {
        let plan = &outside.plan;
        let (agent, keyed) = (plan.chats[chat].agent, plan.chats[chat].keyed);
        let adapter = Arc::new(SimPlatform { outside: outside.clone(), agent, keyed });
        let live = Live::new(api.clone(), adapter, display(plan.platforms.streams), plan.busy);
        Arc::new(Self { outside, api, chat, floor: Mutex::new(()), live })
    }

    /// Says what is planned.
    pub async fn write(self: Arc<Self>) {
        let (outside, chat) = (&self.outside, self.chat);
        self.catch_up().await;
        let begun = outside.write(|records| records.chats[chat].planned);
        for line in &outside.plan.chats[chat].lines[begun..] {
            outside.pause(line.after).await;
            let _floor = self.floor.lock().await;
            outside.live_or_never().await;
            outside.write(|records| records.chats[chat].planned += 1);
            self.say_part(&line.text, line.redelivered, line.is_part).await;
        }
    }

    /// Answers questions in time, or not, and ends what hangs.
    pub async fn react(self: Arc<Self>) {
        let (outside, chat) = (&self.outside, self.chat);
        loop {
            outside.wait(GLANCE).await;
            let now = outside.now();
            let _floor = self.floor.lock().await;
            outside.live_or_never().await;
            let due = outside.write(|records| {
                let questions = &mut records.chats[chat].questions;
                let place = questions.iter().position(|reaction| reaction.at <= now)?;
                Some(questions.remove(place).text)
            });
            if let Some(text) = due {
                self.say(&text, 0).await;
            }
            let hangs = outside.write(|records| {
                records.hanging.values().any(|hanging| hanging.chat == chat && hanging.until <= now)
            });
            if hangs {
                self.say("/stop", 0).await;
            }
        }
    }

    /// Waits until no person is in the middle of saying something.
    pub async fn is_silent(&self) {
        drop(self.floor.lock().await);
    }

    async fn catch_up(&self) {
        let _floor = self.floor.lock().await;
        let said = self.outside.write(|records| records.chats[self.chat].said.clone());
        for (number, said) in said.iter().enumerate() {
            match said.went_to {
                None => self.until_acknowledged(number).await,
                // A platform that was not told in time delivers again what it had delivered.
                Some(_) if self.outside.draw(|seed| seed.chance(1, 3)) => {
                    self.deliver(number).await;
                }
                Some(_) => {}
            }
        }
    }

    async fn say(&self, text: &str, redelivered: u64) {
        self.say_part(text, redelivered, false).await;
    }

    async fn say_part(&self, text: &str, redelivered: u64, is_part: bool) {
        let chat = self.chat;
        let gathers_all = self.outside.plan.people.gathers;
        let (number, before) = self.outside.write(|records| {
            let (life, sent) = (records.life, records.tick());
            match owner::answered(text) {
                Some(answer) => owner::note(&self.outside.plan, records, chat, answer, sent),
                None => records.yes.extend(yes(text, sent, Place::Chat(chat))),
            }
            let said = &mut records.chats[chat].said;
            let number = said.len();
            let gathers = is_part || (gathers_all && number.is_multiple_of(3));
            let text = text.into();
            said.push(Said { text, redelivered, gathers, life, sent, went_to: None, taken: None });
            let hanging = records.hanging.iter().filter(|(_, hanging)| hanging.chat == chat);
            (number, hanging.map(|(number, _)| *number).collect::<Vec<_>>())
        });
        self.until_acknowledged(number).await;
        if text == "/stop" {
            tokio::spawn(stops(self.outside.clone(), before));
        }
        for _ in 0..redelivered {
            self.deliver(number).await;
        }
    }

    async fn until_acknowledged(&self, number: usize) {
        loop {
            self.outside.write(|records| {
                let text = records.chats[self.chat].said[number].text.clone();
                records.speaks(Owner::Chat(self.chat), &text);
            });
            if self.deliver(number).await {
                return;
            }
            self.outside.wait(IMPATIENCE).await;
        }
    }

    /// One delivery of one line. True: it is acknowledged.
    async fn deliver(&self, number: usize) -> bool {
        let (outside, chat) = (&self.outside, self.chat);
        let said = outside.write(|records| records.chats[chat].said[number].clone());
        outside.write(|records| records.saw(("says", chat, number, &said.text)));
        let submission = self.submission(number, &said);
        let place = submission.reply_to.clone().expect("people wait for an answer");
        let result = self.api.submit(submission).await;
        outside.live_or_never().await;
        let Ok(receipt) = result else { return false };
        let Receipt { session, seq, duplicate, .. } = &receipt;
        let (session, seq, duplicate) = (session.clone(), *seq, *duplicate);
        if outside.plan.platforms.streams && !duplicate {
            self.live.follow(Followed::new(receipt, place, None));
        }
        let now = outside.now();
        outside.write(|records| {
            records.saw(("acknowledged", chat, number, session.as_str(), seq, duplicate));
            let life = records.life;
            let said = &mut records.chats[chat].said[number];
            if said.went_to.is_none() {
                said.went_to = Some((session, seq));
                said.taken = Some((life, now));
            } else if !duplicate {
                records.wrong.push(format!(
                    "chat {chat}: line {number} was taken for new although it had been acknowledged"
                ));
            }
        });
        true
    }

    fn submission(&self, number: usize, said: &Said) -> Submission {
        let chat = self.chat;
        let platform = platform_name(self.outside.plan.chats[chat].keyed);
        let id = format!("{chat}-{number}");
        let writer = writer(&self.outside.plan, chat, number);
        let chat_type = if is_shared(&self.outside.plan, chat) { "group" } else { "dm" };
        let here = Chat {
            key: chat_key(&self.outside.plan, chat).parse().expect("a printable key"),
            platform: platform.into(),
            chat_type: chat_type.into(),
            display_name: None,
            origin: None,
        };
        Submission {
            target: Target::Chat(here.clone()),
            birth: Birth {
                source: platform.into(),
                user: Some(writer.clone().unwrap_or_else(|| person(chat))),
                chat: Some(here),
                room: input::Room { prompt: Some(room_prompt(chat)), skills: Vec::new() },
                ..Birth::default()
            },
            at: self.api.now(),
            key: DedupeKey::of(&[platform, "bot", &chat.to_string(), "", &id]),
            kind: Kind::Chat(Content::text(&said.text)),
            reply_to: Some(Destination {
                platform: platform.into(),
                account: "bot".into(),
                chat: chat.to_string(),
                thread: None,
                reply_to: Some(id.clone()),
            }),
            sender: writer.map(|id| Sender { id, name: None }),
            platform_id: Some(id),
            trace: Trace::default(),
            may_be_retry: false,
            can_answer: true,
            gathers: said.gathers.then_some(GATHERED),
        }
    }
}

/// Who alone writes in a chat.
pub fn person(chat: usize) -> String {
    format!("person-{chat}")
}

/// What leads a chat to its session.
pub fn chat_key(plan: &Plan, chat: usize) -> String {
    format!("agent:main:{}:dm:{chat}", platform_name(plan.chats[chat].keyed))
}

/// Whether the person of the first chat writes here, too.
pub fn is_shared(plan: &Plan, chat: usize) -> bool {
    plan.forgetting.is_some() && chat == 1
}

/// Who wrote a line, where that matters: where a person is forgotten, and others are not.
pub fn writer(plan: &Plan, chat: usize, number: usize) -> Option<String> {
    plan.forgetting.as_ref()?;
    Some(person(if is_shared(plan, chat) && number.is_multiple_of(2) { 0 } else { chat }))
}

/// What a chat adds to the prompt of its sessions.
pub fn room_prompt(chat: usize) -> String {
    format!("<room {chat}>")
}

/// What hung when a person stopped it does not hang much longer.
async fn stops(outside: Arc<Outside>, hung: Vec<u64>) {
    outside.wait(STOPS_WITHIN).await;
    outside.write(|records| {
        if hung.iter().any(|number| records.hanging.contains_key(number)) {
            records.wrong.push("a call still hangs after it was stopped".into());
        }
    });
}

/// Silences every agent as planned, and lets them go on.
pub async fn operator(outside: Arc<Outside>, desks: Vec<Arc<dyn AgentApi>>) {
    let halts = outside.plan.halts.clone();
    let (done, halted) = outside.write(|records| records.operated);
    for (number, (at, long)) in halts.into_iter().enumerate().skip(done) {
        if !(halted && number == done) {
            sleep(at.saturating_sub(outside.now())).await;
            outside.write(|records| records.saw("halting"));
            for (agent, api) in desks.iter().enumerate() {
                outside.write(|records| records.begin_silence(agent));
                while api.halt().await.is_err() {
                    outside.wait(IMPATIENCE).await;
                }
                outside.live_or_never().await;
                outside.write(|records| {
                    records.saw(("halted", agent));
                    if let Some(silence) = &mut records.silences[agent] {
                        silence.holds = true;
                        silence.heard = records.asked.len();
                    }
                    let now = records.tick();
                    records.halts.extend((agent == 0).then_some(now));
                });
            }
            outside.write(|records| records.operated = (number, true));
        }
        sleep((at + long).saturating_sub(outside.now())).await;
        for (agent, api) in desks.iter().enumerate() {
            outside.live_or_never().await;
            outside.write(|records| {
                records.saw(("releasing", agent));
                records.silences[agent] = None;
            });
            while api.release().await.is_err() {
                outside.wait(IMPATIENCE).await;
            }
        }
        outside.live_or_never().await;
        outside.write(|records| {
            records.saw("released");
            records.operated = (number + 1, false);
        });
    }
}

/// Decides what is asked where no chat is: for clients, and for sessions that work for others. Not where an owner does.
pub async fn decide(outside: Arc<Outside>, api: Arc<dyn AgentApi>) {
    if outside.plan.owner.is_some() {
        return;
    }
    let mut seen = 0;
    loop {
        outside.wait(Duration::from_secs(1)).await;
        let wanted = outside.write(|records| {
            records.calls.values().filter(|call| matches!(call.wanted, Some((_, None)))).count()
        });
        if wanted == seen {
            continue;
        }
        let Ok(Reading::Asks(asks)) = api.read(Question::Asks).await else { continue };
        seen = wanted;
        for ask in asks {
            let tool::Question::Approval { what, .. } = &ask.ask.question else { continue };
            let quiet = outside.write(|records| {
                records.calls.get(what).is_some_and(|call| matches!(call.wanted, Some((_, None))))
            });
            let plan = &outside.plan.people;
            let fate = outside.draw(|seed| seed.below(100));
            if !quiet || fate >= plan.yes_percent + plan.no_percent {
                continue;
            }
            outside.pause(plan.reaction_max).await;
            let verdict = match fate < plan.yes_percent {
                true => Verdict::Granted(Grant::Once),
                false => Verdict::Denied { reason: None },
            };
            if fate < plan.yes_percent {
                outside.write(|records| {
                    let place = Place::Session(ask.call.session.clone());
                    let at = records.tick();
                    records.yes.extend(yes("/approve", at, place));
                });
            }
            let _ = api.decide(ask.call, verdict).await; // too late, perhaps
            outside.live_or_never().await;
        }
    }
}

pub async fn client(outside: Arc<Outside>, api: Arc<dyn AgentApi>, client: usize) {
    let plan = outside.plan.clients[client].clone();
    let answered = outside.write(|records| records.clients[client].answers.len());
    for number in 0..answered {
        if outside.draw(|seed| seed.chance(1, 3)) {
            ask_again(&outside, &api, client, number).await;
        }
    }
    for (number, line) in plan.requests.iter().enumerate().skip(answered) {
        outside.pause(line.after).await;
        while !request(&outside, &api, client, number).await {
            outside.wait(IMPATIENCE).await;
        }
        for _ in 0..line.redelivered {
            ask_again(&outside, &api, client, number).await;
        }
    }
}

async fn request(outside: &Arc<Outside>, api: &Arc<dyn AgentApi>, client: usize, number: usize) -> bool {
    let text = &outside.plan.clients[client].requests[number].text;
    outside.write(|records| {
        let now = records.tick();
        records.clients[client].busy = true;
        records.clients[client].sent.get_or_insert(now);
        records.speaks(Owner::Client(client), text);
    });
    let round = outside.write(|records| records.clients[client].handed.get(&number).map_or(0, Vec::len));
    match answer(outside, api, client, number, round).await {
        Ok((session, text, calls)) if !calls.is_empty() => {
            let walks_away = outside.plan.clients[client].walks_away(number);
            outside.write(|records| {
                records.saw(("request left calls", client, number, &calls));
                for call in &calls {
                    if records.client_calls.insert((session.clone(), call.clone()), false).is_some() {
                        records.wrong.push(format!("client {client}: {call} was left to it twice"));
                    }
                }
                let book = &mut records.clients[client];
                book.handed.entry(number).or_default().push(calls);
                if walks_away {
                    book.abandoned.insert(number);
                    book.sent = None;
                    book.answers.push(text);
                    book.sessions.push(session);
                }
            });
            walks_away // otherwise what its tool returned is the next thing it sends
        }
        Ok((session, text, _)) => {
            outside.write(|records| {
                let handed = records.clients[client].handed.get(&number).cloned().unwrap_or_default();
                for call in handed.into_iter().flatten() {
                    records.client_calls.insert((session.clone(), call), true);
                }
                records.saw(("request answered", client, number, &text));
                records.clients[client].sent = None;
                records.clients[client].answers.push(text);
                records.clients[client].sessions.push(session);
            });
            true
        }
        Err(Some(Refusal::MovedOn)) => {
            outside.write(|records| {
                // Only an order that came after it may have ended its turn for good.
                let sent = records.clients[client].sent.take();
                let being_ordered = matches!(&records.silences[0], Some(silence) if !silence.holds);
                if !being_ordered && !records.halts.iter().any(|halt| sent < Some(*halt)) {
                    records.wrong.push(format!("client {client}: request {number} cannot be tried again"));
                }
                *records.clients[client].renewed.entry(number).or_default() += 1;
            });
            false
        }
        Err(_) => false,
    }
}

/// The same key once more: the same answer, to the letter.
async fn ask_again(outside: &Arc<Outside>, api: &Arc<dyn AgentApi>, client: usize, number: usize) {
    let round = outside.write(|records| {
        let book = &records.clients[client];
        let rounds = book.handed.get(&number).map_or(0, Vec::len);
        if book.abandoned.contains(&number) { 0 } else { rounds }
    });
    let Ok((_, text, _)) = answer(outside, api, client, number, round).await else { return };
    outside.write(|records| {
        let known = &records.clients[client].answers[number];
        if *known != text {
            records
                .wrong
                .push(format!("client {client}: request {number} was answered {known:?} and then {text:?}"));
        }
    });
}

/// None: failed or cut off. The client keeps its key and tries again.
async fn answer(
    outside: &Arc<Outside>,
    api: &Arc<dyn AgentApi>,
    client: usize,
    number: usize,
    round: usize,
) -> Result<(SessionId, String, Vec<String>), Option<Refusal>> {
    let submission = submission(outside, api, client, number, round);
    let submitted: Result<Receipt, Refusal> = api.submit(submission).await;
    outside.live_or_never().await;
    outside.write(|records| records.clients[client].busy = false);
    let mut receipt = submitted.map_err(Some)?;
    loop {
        let update = receipt.progress.next().await;
        outside.live_or_never().await;
        match update {
            Update::Delta(_)
            | Update::Restarted
            | Update::Calling { .. }
            | Update::Called { .. }
            | Update::Unattended { .. }
            | Update::Asked(_)
            | Update::Granted(_)
            | Update::Troubled(_) => {}
            Update::Interrupted => return Err(None),
            Update::Settled(settled) => {
                return match (&settled.outcome, &settled.answer) {
                    (Outcome::Answered(_), Some(answer)) => {
                        let calls = answer.said.calls.iter().map(|call| call.id.clone()).collect();
                        Ok((receipt.session, answer.said.content.plain(), calls))
                    }
                    (Outcome::Answered(_), None) => {
                        outside.write(|records| {
                            records.wrong.push(format!("client {client}: answered without an answer"))
                        });
                        Err(None)
                    }
                    _ => Err(None),
                };
            }
        }
    }
}

fn submission(
    outside: &Outside,
    api: &Arc<dyn AgentApi>,
    client: usize,
    number: usize,
    round: usize,
) -> Submission {
    let plan = &outside.plan.clients[client];
    let principal = format!("client-{client}");
    let content = |line: &Line| Content::text(&line.text);
    let (answers, renewed) = outside.write(|records| {
        let book = &records.clients[client];
        (book.answers.clone(), book.renewed.get(&number).copied().unwrap_or_default())
    });
    let mut thread = Thread::begin(&principal, None);
    let mut imported = Vec::new();
    for (line, answer) in plan.requests.iter().zip(&answers).take(number) {
        thread = thread.then("user", &content(line)).then("assistant", &Content::text(answer));
        imported.push(Message::user(api.now(), content(line)));
        let said = Assistant { content: Content::text(answer), ..Assistant::default() };
        imported.push(Message::new(api.now(), Body::Assistant(said)));
    }
    let line = &plan.requests[number];
    let target = match plan.manner {
        Manner::Named => Target::Session(format!("api-client-{client}").parse().expect("a printable id")),
        Manner::Threaded if number == 0 => Target::Fresh,
        Manner::Threaded => Target::Thread { before: thread.digest() },
    };
    // What its tool returned is all that it says after the first time.
    let brought = outside.write(|records| {
        let rounds = records.clients[client].handed.get(&number);
        rounds.and_then(|rounds| rounds.get(round.checked_sub(1)?)).cloned().unwrap_or_default()
    });
    let results = brought.into_iter().map(|id| {
        let content = Content::text(format!("ran {id}"));
        ToolResult { call_id: id, name: None, content }
    });
    let tools = ClientTools {
        list: JsonText::from_valid(r#"[{"type":"function","function":{"name":"errand","parameters":{}}}]"#),
        names: vec![ERRAND.into()],
    };
    let request = Request {
        content: if round == 0 { content(line) } else { Content::Nothing },
        body: Some(Digest::of(&[line.text.as_bytes(), round.to_string().as_bytes()])),
        thread: Some(thread.then("user", &content(line)).digest()).filter(|_| !plan.runs_tools),
        tools: plan.runs_tools.then_some(tools),
        results: results.collect(),
        ..Request::default()
    };
    Submission {
        target,
        birth: Birth {
            source: "api_server".into(),
            principal: Some(principal.clone()),
            imported,
            ..Birth::default()
        },
        at: api.now(),
        key: DedupeKey::of(&[
            "api",
            &principal,
            &number.to_string(),
            &renewed.to_string(),
            &round.to_string(),
        ]),
        kind: Kind::Request(request),
        reply_to: None,
        sender: None,
        platform_id: None,
        trace: Trace::default(),
        may_be_retry: false,
        can_answer: outside.plan.owner.is_none(),
        gathers: None,
    }
}
