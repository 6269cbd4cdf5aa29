//! Conversations with a scripted gateway, as the screen shows them.

use super::fake::{Fake, Piece, Reply};
use super::lines::Typed;
use super::*;
use crate::out::tests::page;
use serde_json::{Value, json};
use throughline_core::Time;
use throughline_core::port::Promise;
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

/// Lines that were typed before the chat began.
pub struct Typing(Vec<Typed>);

impl Typing {
    pub fn lines(lines: &[&str]) -> Self {
        Self(lines.iter().rev().map(|line| Typed::Line((*line).to_owned())).collect())
    }
}

impl Lines for Typing {
    fn next(&mut self) -> Promise<'_, anyhow::Result<Typed>> {
        Box::pin(async { Ok(self.0.pop().unwrap_or(Typed::End)) })
    }

    fn set_aside(&mut self) -> anyhow::Result<bool> {
        Ok(false)
    }

    fn answer(&mut self) -> Promise<'_, anyhow::Result<Typed>> {
        self.next()
    }
}

pub fn accepted() -> Piece {
    Piece::Event("accepted", json!({"session": "s1", "seq": 1, "duplicate": false}))
}

pub fn delta(text: &str) -> Piece {
    Piece::Event("delta", json!({"text": text}))
}

pub fn answer(text: &str) -> Piece {
    Piece::Event("answer", json!({"text": text, "finish": "stop", "usage": {}}))
}

pub fn done(said: &str, successor: Option<&str>) -> Reply {
    Reply::Stream(vec![Piece::Event("done", json!({"said": said, "successor": successor}))])
}

pub fn answered(text: &str) -> Reply {
    Reply::Stream(vec![accepted(), delta(text), answer(text)])
}

/// What was on the screen when a chat ended.
struct Seen {
    out: String,
    notes: String,
    code: ExitCode,
}

struct Setup {
    manner: Manner,
    gateway: Gateway,
    resumed: Option<Known>,
    greeting: bool,
}

const TERMINAL: Setup =
    Setup { manner: Manner::Terminal, gateway: Gateway::Running, resumed: None, greeting: false };
/// Only answers.
const PLAIN: Setup = Setup { manner: Manner::Plain, ..TERMINAL };

async fn chat(fake: &Fake, setup: Setup, lines: &[&str]) -> Seen {
    let (_interrupt, interrupts) = unbounded_channel();
    chat_with(fake, setup, &mut Typing::lines(lines), interrupts).await
}

async fn chat_with(
    fake: &Fake,
    setup: Setup,
    lines: &mut dyn Lines,
    interrupts: UnboundedReceiver<()>,
) -> Seen {
    let Setup { manner, gateway, resumed, greeting } = setup;
    let (mut out, mut notes) = (Vec::new(), Vec::new());
    let client = fake.client();
    let status = client.status().await.unwrap();
    let is_attended = manner == Manner::Terminal;
    let screen = Screen { manner, is_attended, page: page(None), out: &mut out, notes: &mut notes };
    let mut chat = Chat::new(client, status, gateway, interrupts, screen);
    if greeting {
        chat.greet(resumed.as_ref()).unwrap();
    }
    if let Some(known) = &resumed {
        chat.resume(known);
    }
    let code = match manner {
        Manner::Terminal => chat.converse(lines).await.unwrap(),
        Manner::Plain => match lines.next().await.unwrap() {
            Typed::Line(message) => chat.take(message, lines).await.unwrap(),
            Typed::Cleared | Typed::End => ExitCode::SUCCESS,
        },
    };
    Seen { out: shown(out, fake), notes: shown(notes, fake), code }
}

fn shown(bytes: Vec<u8>, fake: &Fake) -> String {
    String::from_utf8(bytes).unwrap().replace(&format!("127.0.0.1:{}", fake.port), "GATEWAY")
}

fn keys(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["key"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn words_appear_as_they_come_and_the_session_is_kept() {
    let fake = Fake::start([
        Reply::Stream(vec![
            accepted(),
            delta("Hel"),
            Piece::Raw(": keep-alive\n\n"),
            delta("lo."),
            answer("Hello."),
        ]),
        answered("Fine."),
    ])
    .await;
    let seen =
        chat(&fake, Setup { greeting: true, ..TERMINAL }, &["Hi", "  ", "How are you?", "/exit", "never"])
            .await;
    assert_eq!(
        seen.out,
        "\
main answers as gpt-5.2  Throughline 0.1.0 at http://GATEWAY
A new conversation begins with your first line.
/help lists the orders, Ctrl-D leaves.

Hello.

Fine.

`throughline chat -c s1` goes on from here.
"
    );
    assert_eq!((seen.notes.as_str(), seen.code), ("", ExitCode::SUCCESS));
    let lines = fake.lines();
    assert_eq!(lines.len(), 2);
    assert_eq!((&lines[0]["text"], &lines[0]["session"]), (&json!("Hi"), &Value::Null));
    assert_eq!((&lines[1]["text"], &lines[1]["session"]), (&json!("How are you?"), &json!("s1")));
    assert_ne!(lines[0]["key"], lines[1]["key"], "each line has a key of its own");
}

#[tokio::test]
async fn p7_a_line_that_was_cut_off_is_sent_again_under_its_key() {
    let fake = Fake::start([
        Reply::HangUp,
        Reply::Stream(vec![accepted(), delta("In the")]),
        Reply::Stream(vec![accepted(), delta("In the tin"), delta("."), answer("In the tin.")]),
        answered("Yes."),
    ])
    .await;
    let seen = chat(&fake, TERMINAL, &["Where is the tea?", "Sure?"]).await;
    assert!(seen.out.starts_with("In the…\nIn the tin.\n\nYes.\n\n"), "{}", seen.out);
    let lines = fake.lines();
    assert_eq!(lines[0], lines[1], "the same line, to the same session, under the same key");
    assert_eq!(lines[0], lines[2]);
    assert_ne!(keys(&lines)[2], keys(&lines)[3]);
    let notes: Vec<_> = seen.notes.lines().collect();
    assert_eq!(notes.len(), 4, "{notes:?}");
    assert!(notes[0].starts_with("Lost the connection to the gateway at http://GATEWAY"), "{notes:?}");
    assert!(
        notes[0].ends_with("Trying again for 60 s with the same key, so nothing is said twice."),
        "{notes:?}"
    );
    assert_eq!(notes[1], "Connected again.");
    assert!(
        notes[2].starts_with("The gateway at http://GATEWAY broke off its answer. Trying again"),
        "{notes:?}"
    );
    assert_eq!(notes[3], "Connected again.");
}

#[tokio::test]
async fn p7_a_gateway_that_stops_and_comes_back_answers_the_same_line() {
    let stopping =
        Piece::Event("interrupted", json!({"code": "interrupted", "message": "The gateway is stopping."}));
    let draining = Reply::Refusal {
        status: 503,
        headers: "retry-after: 0\r\n",
        code: "draining",
        message: "The gateway is stopping and accepts nothing new; try again in a moment.",
    };
    let fake = Fake::start([Reply::Stream(vec![accepted(), stopping]), draining, answered("Here.")]).await;
    let seen = chat(&fake, PLAIN, &["Where?"]).await;
    assert_eq!(seen.out, "Here.\n");
    assert!(seen.notes.starts_with("The gateway is stopping. Trying again for 60 s"), "{}", seen.notes);
    let lines = fake.lines();
    assert_eq!((lines.len(), &lines[0], &lines[1]), (3, &lines[1], &lines[2]));
}

#[tokio::test]
async fn a_gateway_that_is_not_there_yet_is_waited_for() {
    let place = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = place.local_addr().unwrap();
    let before = Fake::listen(place, []);
    let client = before.client();
    let status = client.status().await.unwrap();
    let (_interrupt, interrupts) = unbounded_channel();
    let (mut out, mut notes) = (Vec::new(), Vec::new());
    let screen = Screen {
        manner: Manner::Plain,
        is_attended: false,
        page: page(None),
        out: &mut out,
        notes: &mut notes,
    };
    // No gateway listens where this one asks, until one does.
    let free = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let later = free.local_addr().unwrap();
    drop(free);
    let endpoint = crate::client::Endpoint { url: format!("http://{later}"), ..before.endpoint() };
    assert_ne!(address, later);
    let mut chat = Chat::new(Client::new(endpoint).unwrap(), status, Gateway::Running, interrupts, screen);
    let coming = async {
        sleep(Duration::from_millis(400)).await;
        Fake::listen(TcpListener::bind(later).await.unwrap(), [answered("Here.")])
    };
    let mut typing = Typing::lines(&["Hi"]);
    let (code, fake) = tokio::join!(chat.converse(&mut typing), coming);
    assert_eq!(code.unwrap(), ExitCode::SUCCESS);
    assert_eq!(out, b"Here.\n");
    assert_eq!(fake.lines().len(), 1);
    assert!(String::from_utf8(notes).unwrap().starts_with("No connection to the gateway at http://"));
}

#[tokio::test]
async fn what_is_void_does_not_hide_the_answer() {
    let restarted = Piece::Event("restarted", json!({}));
    let pieces = vec![
        accepted(),
        delta("Let me th"),
        restarted,
        delta("In the "),
        delta("tin."),
        answer("In the tin."),
    ];
    let fake = Fake::start([Reply::Stream(pieces.clone()), Reply::Stream(pieces)]).await;
    let seen = chat(&fake, TERMINAL, &["Where?"]).await;
    assert!(seen.out.starts_with("Let me th…\n\nIn the tin.\n\n"), "{}", seen.out);
    let seen = chat(&fake, PLAIN, &["Where?"]).await;
    assert_eq!(seen.out, "In the tin.\n", "a program gets the answer alone");
}

#[tokio::test]
async fn thoughts_are_a_sign_of_life_and_nothing_more() {
    let thought = |text: &str| Piece::Event("reasoning", json!({"text": text}));
    let unknown = Piece::Event("weather", json!({"sun": true}));
    let pieces =
        vec![accepted(), thought("Hm"), unknown, thought("m"), delta("Yes."), thought("!"), answer("Yes.")];
    let fake = Fake::start([Reply::Stream(pieces)]).await;
    let seen = chat(&fake, TERMINAL, &["Is it?"]).await;
    assert!(seen.out.starts_with("thinking …\nYes.\n\n"), "{}", seen.out);
}

#[tokio::test]
async fn p31_an_answer_cannot_control_the_terminal() {
    let fake = Fake::start([answered("\x1b[2Jgone"), answered("\x1b[1mbold")]).await;
    let seen = chat(&fake, TERMINAL, &["x"]).await;
    assert!(seen.out.starts_with("␛[2Jgone\n"), "{:?}", seen.out);
    let seen = chat(&fake, PLAIN, &["x"]).await;
    assert_eq!(seen.out, "\x1b[1mbold\n", "a pipe gets what was said");
}

#[tokio::test]
async fn orders_are_the_servers_and_the_keys_are_ours() {
    let fake = Fake::start([
        done("/new     end this conversation and begin another", None),
        answered("Hello."),
        done("Session s1\nidle; 0 waiting; 1 received", None),
        done("A new conversation has begun: s2.", Some("s2")),
        answered("Again."),
    ])
    .await;
    let seen = chat(&fake, TERMINAL, &["/help", "Hi", "/status", "/new", "Hi again"]).await;
    assert_eq!(
        seen.out,
        "\
/new     end this conversation and begin another
Ctrl-C   while an answer comes: end the turn; twice: leave without waiting for its end
Ctrl-D   leave, as /exit does
Up       what you typed before, also what was not sent
Several lines that are pasted at once are one message.

Hello.

Session s1
idle; 0 waiting; 1 received
Model gpt-5.2
Gateway http://GATEWAY (Throughline 0.1.0); 2 waiting in all sessions

A new conversation has begun: s2.

Again.

`throughline chat -c s1` goes on from here.
"
    );
    let sessions: Vec<_> = fake.lines().iter().map(|line| line["session"].clone()).collect();
    assert_eq!(sessions, [json!(null), json!(null), json!("s1"), json!("s1"), json!("s2")]);
}

#[tokio::test]
async fn a_failure_is_told_and_a_person_goes_on_while_a_script_stops() {
    let failed = || {
        Reply::Stream(vec![
            accepted(),
            delta("I th"),
            Piece::Event("failed", json!({"code": "model_broken", "message": "The model broke off."})),
        ])
    };
    let fake = Fake::start([failed(), answered("Yes."), failed()]).await;
    let seen = chat(&fake, TERMINAL, &["Is it?", "Is it?"]).await;
    assert!(seen.out.starts_with("I th\nYes.\n\n"), "{}", seen.out);
    assert_eq!((seen.notes.as_str(), seen.code), ("The model broke off.\n", ExitCode::SUCCESS));
    let seen = chat(&fake, PLAIN, &["Is it?", "never sent"]).await;
    assert_eq!((seen.out.as_str(), seen.notes.as_str()), ("", "The model broke off.\n"));
    assert_eq!(seen.code, ExitCode::FAILURE);
    assert_eq!(fake.lines().len(), 3);
}

#[tokio::test]
async fn an_ended_session_is_left_for_a_new_one() {
    let ended =
        Reply::Refusal { status: 409, headers: "", code: "session_ended", message: "Session s0 has ended." };
    let fake = Fake::start([ended, answered("Hello.")]).await;
    let known = known("s0");
    let seen = chat(&fake, Setup { resumed: Some(known), ..TERMINAL }, &["Hi", "Hi"]).await;
    assert_eq!(seen.notes, "Session s0 has ended.\nYour next line begins a new conversation.\n");
    let sessions: Vec<_> = fake.lines().iter().map(|line| line["session"].clone()).collect();
    assert_eq!(sessions, [json!("s0"), Value::Null]);
}

fn known(id: &str) -> Known {
    Known {
        id: id.parse().unwrap(),
        title: None,
        preview: "Where is the tea?".into(),
        last_active: Time(1_779_953_710_000_000),
        ended: None,
    }
}

#[tokio::test]
async fn a_greeting_says_what_is_continued_whose_gateway_it_is_and_that_it_is_a_rehearsal() {
    let fake = Fake::start([]).await.with_model("rehearsal");
    let setup = Setup { gateway: Gateway::Own, resumed: Some(known("s0")), greeting: true, ..TERMINAL };
    let seen = chat(&fake, setup, &[]).await;
    assert_eq!(
        seen.out,
        "\
main answers as rehearsal  Throughline 0.1.0 at http://GATEWAY
No gateway was running: this one was started for the chat, and ends with it.
Continuing s0 of 2026-05-28 09:35  Where is the tea?
/help lists the orders, Ctrl-D leaves.

`throughline chat -c s0` goes on from here.
"
    );
    assert!(seen.notes.starts_with("These answers are a rehearsal: no model is set up"), "{}", seen.notes);
    let seen = chat(&fake, Setup { greeting: true, ..PLAIN }, &[]).await;
    assert_eq!(seen.out, "");
    assert!(seen.notes.contains("rehearsal"));
}

/// Lines, and Ctrl-C as soon as the gateway has said so much of the last of them.
struct Screens<'a> {
    out: Vec<u8>,
    until: &'a str,
    interrupt: UnboundedSender<()>,
    times: usize,
}

impl Write for Screens<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let before = String::from_utf8_lossy(&self.out).matches(self.until).count();
        self.out.extend_from_slice(bytes);
        if before == 0 && String::from_utf8_lossy(&self.out).contains(self.until) {
            (0..self.times).for_each(|_| self.interrupt.send(()).unwrap());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A chat in which Ctrl-C is pressed so often when `until` is on the screen.
async fn interrupted(fake: &Fake, lines: &[&str], until: &str, times: usize) -> Seen {
    let (interrupt, interrupts) = unbounded_channel();
    let mut out = Screens { out: Vec::new(), until, interrupt, times };
    let mut notes = Vec::new();
    let client = fake.client();
    let status = client.status().await.unwrap();
    let screen = Screen {
        manner: Manner::Terminal,
        is_attended: true,
        page: page(None),
        out: &mut out,
        notes: &mut notes,
    };
    let mut chat = Chat::new(client, status, Gateway::Own, interrupts, screen);
    let code = chat.converse(&mut Typing::lines(lines)).await.unwrap();
    Seen { out: shown(out.out, fake), notes: shown(notes, fake), code }
}

#[tokio::test]
async fn ctrl_c_ends_the_turn_and_the_chat_goes_on() {
    let stopped = Piece::Event("failed", json!({"code": "stopped", "message": "Stopped."}));
    let slow = Reply::Stream(vec![accepted(), delta("One moment"), Piece::UntilOrdered, stopped]);
    let fake = Fake::start([answered("Hello."), slow, answered("Here.")]).await;
    let seen = interrupted(&fake, &["Hi", "Where?", "And now?"], "One moment", 1).await;
    assert!(seen.out.starts_with("Hello.\n\nOne moment\nHere.\n\n"), "{}", seen.out);
    assert_eq!(seen.notes, "\nEnding the turn. Ctrl-C again leaves without waiting for its end.\nStopped.\n");
    assert_eq!(fake.ordered(), [json!({"command": "/stop"})]);
    assert_eq!(seen.code, ExitCode::SUCCESS);
}

#[tokio::test]
async fn a_second_ctrl_c_leaves() {
    let slow = Reply::Stream(vec![accepted(), delta("One moment"), Piece::Silence]);
    let fake = Fake::start([answered("Hello."), slow]).await;
    let seen = interrupted(&fake, &["Hi", "Where?", "never sent"], "One moment", 2).await;
    assert!(seen.out.starts_with("Hello.\n\nOne moment"), "{}", seen.out);
    assert!(seen.out.ends_with("`throughline chat -c s1` goes on from here.\n"), "{}", seen.out);
    assert_eq!(
        seen.notes,
        "\nEnding the turn. Ctrl-C again leaves without waiting for its end.\n\
         \nNo longer waiting. What the turn still says will be in `throughline sessions show s1`.\n\
         The gateway of this chat finishes what it has begun, and ends. Ctrl-C ends it at once; \
         the rest goes on at the next start.\n"
    );
    assert_eq!((seen.code, fake.lines().len()), (ExitCode::from(130), 2));
}

#[tokio::test]
async fn ctrl_c_before_the_line_was_taken_promises_nothing() {
    let fake =
        Fake::start([Reply::Stream(vec![Piece::Event("reasoning", json!({"text": "hm"})), Piece::Silence])])
            .await;
    let seen = interrupted(&fake, &["Where?"], "thinking", 1).await;
    assert!(seen.notes.contains("has not said whether it took the message"), "{}", seen.notes);
    assert_eq!((seen.code, fake.ordered().len()), (ExitCode::SUCCESS, 0));
}

/// No one types.
struct Waiting;

impl Lines for Waiting {
    fn next(&mut self) -> Promise<'_, anyhow::Result<Typed>> {
        Box::pin(std::future::pending())
    }

    fn set_aside(&mut self) -> anyhow::Result<bool> {
        Ok(false)
    }

    fn answer(&mut self) -> Promise<'_, anyhow::Result<Typed>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn ctrl_c_while_nothing_is_asked_ends_the_chat() {
    let fake = Fake::start([]).await;
    let (interrupt, interrupts) = unbounded_channel();
    tokio::spawn(async move {
        sleep(Duration::from_millis(100)).await;
        interrupt.send(()).unwrap();
    });
    let seen = chat_with(&fake, TERMINAL, &mut Waiting, interrupts).await;
    assert_eq!((seen.out.as_str(), seen.code), ("", ExitCode::from(130)));
}

fn asking(number: u32, command: &str) -> Piece {
    let id = format!("s1/1/1/{number}");
    Piece::Event(
        "asked",
        json!({"id": id, "kind": "approval", "text": "?", "command": command, "reason": "recursive delete",
               "patterns": ["recursive delete"]}),
    )
}

#[tokio::test]
async fn questions_come_one_by_one_and_unclear_answers_are_told_so() {
    let pieces = vec![
        accepted(),
        asking(0, "rm -rf a"),
        asking(1, "rm -rf b"),
        Piece::UntilDecided(2),
        delta("Done."),
        answer("Done."),
    ];
    let fake = Fake::start([Reply::Stream(pieces)]).await;
    let seen = chat(&fake, TERMINAL, &["Tidy up", "y", "what?", "yes", "no, keep it"]).await;
    let notes = &seen.notes;
    assert_eq!(notes.matches("is neither yes nor no, so nothing was decided").count(), 2, "{notes}");
    let (first, second) = (notes.find("rm -rf a").unwrap(), notes.find("rm -rf b").unwrap());
    let unclear = notes.rfind("is neither yes nor no").unwrap();
    assert!(first < unclear && unclear < second, "the second is shown when the first is answered: {notes}");
    let verdicts: Vec<Value> = fake.decided().into_iter().map(|(_, verdict)| verdict).collect();
    assert_eq!(
        verdicts,
        [json!({"decision": "approve", "scope": "once"}), json!({"decision": "deny", "reason": "keep it"})]
    );
    assert_eq!(fake.lines()[0]["answers"], true);
}

#[tokio::test]
async fn a_question_that_is_over_is_no_longer_asked() {
    let fake =
        Fake::start([Reply::Stream(vec![accepted(), asking(0, "rm -rf a"), answer("Too late.")])]).await;
    let (_interrupt, interrupts) = unbounded_channel();
    let mut lines = Once(Some("Tidy up".into()));
    let seen = chat_with(&fake, TERMINAL, &mut lines, interrupts).await;
    assert!(seen.notes.ends_with("answer › \nThe question is no longer open.\n"), "{}", seen.notes);
    assert!(seen.out.starts_with("Too late.\n"), "{}", seen.out);
}

/// One line, and no answers.
struct Once(Option<String>);

impl Lines for Once {
    fn next(&mut self) -> Promise<'_, anyhow::Result<Typed>> {
        let typed = self.0.take().map_or(Typed::End, Typed::Line);
        Box::pin(async move { Ok(typed) })
    }

    fn set_aside(&mut self) -> anyhow::Result<bool> {
        Ok(false)
    }

    fn answer(&mut self) -> Promise<'_, anyhow::Result<Typed>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn a_model_that_does_not_answer_is_told_of_once() {
    let troubled =
        || Piece::Event("troubled", json!({"message": "The model does not answer; trying again."}));
    let fake = Fake::start([Reply::Stream(vec![accepted(), troubled(), troubled(), answer("Here.")])]).await;
    let seen = chat(&fake, PLAIN, &["Where?"]).await;
    assert_eq!(seen.notes, "The model does not answer; trying again.\n");
    assert_eq!(seen.out, "Here.\n");
}

#[tokio::test]
async fn a_conversation_in_which_nothing_was_said_is_not_offered_again() {
    let fake = Fake::start([answered("Hello."), done("A new conversation has begun: s2.", Some("s2"))]).await;
    let seen = chat(&fake, TERMINAL, &["Hi", "/new"]).await;
    assert!(seen.out.ends_with("A new conversation has begun: s2.\n\n"), "{}", seen.out);
}

#[test]
fn patience_ends() {
    let lost = ClientError::Lost("no connection".into());
    let mut patience = Patience::default();
    let waits = std::iter::from_fn(|| match patience.wait(&lost) {
        Wait::For(wait) => Some(wait.as_millis()),
        Wait::NoMore(_) => None,
    });
    let waits: Vec<_> = waits.take(7).collect();
    assert_eq!(waits, [250, 500, 1000, 2000, 4000, 5000, 5000]);
    patience.since = Instant::now().checked_sub(PATIENCE);
    let Wait::NoMore(Ended::Failed { message, .. }) = patience.wait(&lost) else { panic!("it goes on") };
    assert!(message.starts_with("No connection. Given up after 60 s."), "{message}");
    let far = ClientError::Later { after: PATIENCE * 2, message: "full".into() };
    assert!(matches!(Patience::default().wait(&far), Wait::NoMore(_)), "no person waits that long");
    let mut patience = Patience::default();
    assert!(!patience.succeed());
    patience.wait(&lost);
    assert!(patience.succeed());
    assert!(!patience.succeed());
}

#[test]
fn no_two_lines_share_a_key() {
    let (mut one, mut other) = (Keys::new(), Keys::new());
    let keys = [one.next(), one.next(), other.next(), other.next()];
    for (i, key) in keys.iter().enumerate() {
        assert!(!keys[i + 1..].contains(key), "{keys:?}");
        assert!(key.len() >= 32);
    }
}
