//! Those who write: people in chats, and clients of the API. They go on where they were when the
//! process comes back, send again what was not acknowledged, and sometimes what was.

use crate::outside::platform_name;
use crate::plan::{Line, Manner};
use crate::world::Outside;
use std::sync::Arc;
use std::time::Duration;
use throughline_core::input::{Birth, Chat, DedupeKey, Destination, Kind, Request};
use throughline_core::message::{Assistant, Body};
use throughline_core::port::{Desk, Receipt, Refusal, Submission, Update};
use throughline_core::prompt::Digest;
use throughline_core::route::{Target, Thread};
use throughline_core::session::Outcome;
use throughline_core::{Content, Message};

/// How long someone waits before trying again what was refused.
const IMPATIENCE: Duration = Duration::from_millis(700);

pub async fn chat(outside: Arc<Outside>, desk: Arc<dyn Desk>, chat: usize) {
    let plan = outside.plan.chats[chat].clone();
    let old = outside.write(|books| books.chats[chat].acknowledged);
    // A platform that was not told in time delivers again what it had delivered.
    for number in 0..old {
        if outside.draw(|seed| seed.chance(1, 3)) {
            deliver(&outside, &desk, chat, number).await;
        }
    }
    for (number, line) in plan.lines.iter().enumerate().skip(old) {
        outside.pause(line.after).await;
        while !deliver(&outside, &desk, chat, number).await {
            outside.wait(IMPATIENCE).await;
        }
        for _ in 0..line.redelivered {
            deliver(&outside, &desk, chat, number).await;
        }
    }
}

/// One delivery of one line. True: it is acknowledged.
async fn deliver(outside: &Arc<Outside>, desk: &Arc<dyn Desk>, chat: usize, number: usize) -> bool {
    let plan = &outside.plan.chats[chat];
    let platform = platform_name(plan.keyed);
    let id = format!("{chat}-{number}");
    let key = format!("agent:main:{platform}:dm:{chat}").parse().expect("a printable key");
    let submission = Submission {
        target: Target::Chat(Chat {
            key,
            platform: platform.into(),
            chat_type: "dm".into(),
            display_name: None,
            origin: None,
        }),
        birth: Birth {
            source: platform.into(),
            chat: Some(Chat {
                key: format!("agent:main:{platform}:dm:{chat}").parse().expect("a printable key"),
                platform: platform.into(),
                chat_type: "dm".into(),
                display_name: None,
                origin: None,
            }),
            ..Birth::default()
        },
        at: desk.now(),
        key: DedupeKey::of(&[platform, "bot", &chat.to_string(), "", &id]),
        kind: Kind::Chat(Content::text(&plan.lines[number].text)),
        reply_to: Some(Destination {
            platform: platform.into(),
            account: "bot".into(),
            chat: chat.to_string(),
            thread: None,
            reply_to: Some(id.clone()),
        }),
        sender: None,
        platform_id: Some(id),
        may_be_retry: false,
    };
    let result = desk.submit(submission).await;
    outside.live_or_never().await;
    let Ok(Receipt { session, seq, duplicate, .. }) = result else { return false };
    outside.write(|books| {
        books.saw(("acknowledged", chat, number, session.as_str(), seq, duplicate));
        let book = &mut books.chats[chat];
        if number == book.acknowledged {
            book.acknowledged += 1;
            book.went_to.push((session, seq));
        } else if !duplicate {
            books.wrong.push(format!(
                "chat {chat}: line {number} was taken for new although it had been acknowledged"
            ));
        }
    });
    true
}

pub async fn client(outside: Arc<Outside>, desk: Arc<dyn Desk>, client: usize) {
    let plan = outside.plan.clients[client].clone();
    let answered = outside.write(|books| books.clients[client].answers.len());
    for number in 0..answered {
        if outside.draw(|seed| seed.chance(1, 3)) {
            ask_again(&outside, &desk, client, number).await;
        }
    }
    for (number, line) in plan.requests.iter().enumerate().skip(answered) {
        outside.pause(line.after).await;
        while !request(&outside, &desk, client, number).await {
            outside.wait(IMPATIENCE).await;
        }
        for _ in 0..line.redelivered {
            ask_again(&outside, &desk, client, number).await;
        }
    }
}

async fn request(outside: &Arc<Outside>, desk: &Arc<dyn Desk>, client: usize, number: usize) -> bool {
    let Some((session, text)) = answer(outside, desk, client, number).await else { return false };
    outside.write(|books| {
        books.saw(("request answered", client, number, &text));
        books.clients[client].answers.push(text);
        books.clients[client].sessions.push(session);
    });
    true
}

/// The same key once more: the same answer, to the letter.
async fn ask_again(outside: &Arc<Outside>, desk: &Arc<dyn Desk>, client: usize, number: usize) {
    let Some((_, text)) = answer(outside, desk, client, number).await else { return };
    outside.write(|books| {
        let known = &books.clients[client].answers[number];
        if *known != text {
            books
                .wrong
                .push(format!("client {client}: request {number} was answered {known:?} and then {text:?}"));
        }
    });
}

/// None: refused, failed or cut off. The client keeps its key and tries again.
async fn answer(
    outside: &Arc<Outside>,
    desk: &Arc<dyn Desk>,
    client: usize,
    number: usize,
) -> Option<(throughline_core::SessionId, String)> {
    let submission = submission(outside, desk, client, number);
    let submitted: Result<Receipt, Refusal> = desk.submit(submission).await;
    outside.live_or_never().await;
    let mut receipt = submitted.ok()?;
    loop {
        let update = receipt.progress.next().await;
        outside.live_or_never().await;
        match update {
            Update::Delta(_) | Update::Restarted => {}
            Update::Interrupted => return None,
            Update::Settled(settled) => {
                return match (&settled.outcome, &settled.answer) {
                    (Outcome::Answered(_), Some(answer)) => {
                        Some((receipt.session, answer.said.content.plain()))
                    }
                    (Outcome::Answered(_), None) => {
                        outside.write(|books| {
                            books.wrong.push(format!("client {client}: answered without an answer"))
                        });
                        None
                    }
                    _ => None,
                };
            }
        }
    }
}

fn submission(outside: &Outside, desk: &Arc<dyn Desk>, client: usize, number: usize) -> Submission {
    let plan = &outside.plan.clients[client];
    let principal = format!("client-{client}");
    let content = |line: &Line| Content::text(&line.text);
    let answers = outside.write(|books| books.clients[client].answers.clone());
    let mut thread = Thread::begin(&principal, None);
    let mut imported = Vec::new();
    for (line, answer) in plan.requests.iter().zip(&answers).take(number) {
        thread = thread.then("user", &content(line)).then("assistant", &Content::text(answer));
        imported.push(Message::user(desk.now(), content(line)));
        let said = Assistant { content: Content::text(answer), ..Assistant::default() };
        imported.push(Message::new(desk.now(), Body::Assistant(said)));
    }
    let line = &plan.requests[number];
    let target = match plan.manner {
        Manner::Named => Target::Session(format!("api-client-{client}").parse().expect("a printable id")),
        Manner::Threaded if number == 0 => Target::Fresh,
        Manner::Threaded => Target::Thread { before: thread.digest() },
    };
    let request = Request {
        content: content(line),
        body: Some(Digest::of(&[line.text.as_bytes()])),
        thread: Some(thread.then("user", &content(line)).digest()),
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
        at: desk.now(),
        key: DedupeKey::of(&["api", &principal, &number.to_string()]),
        kind: Kind::Request(request),
        reply_to: None,
        sender: None,
        platform_id: None,
        may_be_retry: false,
    }
}
