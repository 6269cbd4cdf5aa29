//! Compression with the real binary: the session stays, turns go on, nothing is lost, and the log says so.

use crate::gateway::{Client, Gateway, Launch, Place, Whole, free_port, until};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::thread;

/// What the model writes when it is asked for a summary.
const SUMMARY: &str = "## Goal\nMove the archive to the new shelf, box by box, and keep the list of boxes.\n\n\
    ## Completed Actions\nBoxes 1 to 90 were moved; the list is in /srv/archive/list.txt.\n\n\
    ## Critical Context\nThe code word is heron-7731. The user wants short answers.";

/// Part of every request for a summary, and of nothing else.
const ASKS: &str = "Historical Task Snapshot";

/// A window of 40,000 tokens: compressed from 25,500 on, full at 34,000.
fn place() -> Place {
    let place = Place::new();
    place.write("home/config.yaml", "model: {default: rehearsal, context_length: 40000}\n");
    place
}

fn script(summary: Value) -> Value {
    let mut summary = summary;
    summary["when"] = json!({ "contains": ASKS });
    json!({"rules": [
        summary,
        {"when": {"contains": "fill up"}, "say": "ok", "usage": {"input": 26000, "output": 5}},
        {"when": {"contains": "overflow"}, "say": "ok", "usage": {"input": 35000, "output": 5}},
        {"when": {}, "say": "noted", "usage": {"input": 500, "output": 2}},
    ]})
}

/// In milliseconds: a summary takes longer than the turns beside it, however busy the machine is.
const MEANWHILE: u64 = 20_000;

fn writes(latency: u64) -> Value {
    json!({"say": SUMMARY, "latency_ms": latency, "usage": {"input": 100, "output": 80}})
}

/// About 240 tokens.
fn message(number: usize) -> String {
    format!(
        "Box {number} stands on shelf {}, behind the door. {}",
        number % 7,
        "It is grey and heavy. ".repeat(40)
    )
}

fn talk(client: &Client, session: &str, messages: usize) {
    for number in 0..messages {
        let answer = client.say(session, &message(number));
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
}

fn is_summary_request(request: &Value) -> bool {
    request["messages"].as_array().is_some_and(|messages| messages.len() == 1)
        && request["messages"].to_string().contains(ASKS)
}

fn summaries(place: &Place) -> Vec<Value> {
    place.asked().into_iter().filter(is_summary_request).collect()
}

/// The messages of the last request of a turn.
fn last_asked(place: &Place) -> Vec<(String, String)> {
    let asked = place.asked();
    let request = asked.iter().rfind(|request| !is_summary_request(request)).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let messages = request["messages"].as_array().unwrap().iter();
    messages.map(|message| (text(&message["role"]), text(&message["content"]))).collect()
}

fn order(client: &Client, session: &str, command: &str) -> String {
    let order = json!({ "command": command });
    let answer = client.post(&format!("/api/sessions/{session}/commands"), &[], &order).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["said"].as_str().unwrap().to_owned()
}

fn lines<'a>(log: &'a str, what: &'a str) -> Vec<&'a str> {
    let wanted = format!("context compression {what}");
    log.lines().filter(|line| line.contains(&wanted)).collect()
}

fn is_clean(place: &Place, gateway: &Gateway) {
    let log = place.write("audited.log", gateway.log());
    let audit = place.launch().arg("audit").arg("--log").arg(log.display().to_string()).run();
    assert!(audit.status.success(), "{}\n{}", audit.stdout, audit.stderr);
    let check = gateway.client.read("/api/control/check");
    assert_eq!(check["data"], json!([]), "{check}");
}

fn count(rows: &[(String, String)], text: &str) -> usize {
    rows.iter().filter(|(_, content)| content == text).count()
}

#[test]
fn compression_preserves_session_id() {
    let place = place();
    let gateway = place.rehearsing(&script(writes(0))).start();
    let client = &gateway.client;
    talk(client, "s", 99); // as the provider counts them here, they are short
    assert!(summaries(&place).is_empty(), "nothing is compressed before it is time");
    client.say("s", "fill up"); // message 199 and 200
    until("the summary is asked for", || summaries(&place).len() == 1);
    until("and written", || order(client, "s", "/status").contains("a summary is ready"));
    assert_eq!(client.say("s", "and now?").status, 200);
    assert_eq!(sessions(&place.home()), ["s"]);

    let log = gateway.log();
    let (started, done) = (lines(&log, "started"), lines(&log, "done"));
    assert_eq!((started.len(), done.len()), (1, 1), "{log}");
    assert!(started[0].contains("[s] ") && started[0].contains("session=s "), "{started:?}");
    assert!(started[0].contains("messages=200 "), "{started:?}");
    assert!(done[0].contains("[s] ") && done[0].contains("session=s "), "{done:?}");
    assert!(done[0].contains("snapshot=s.snapshot."), "{done:?}");
    let operation = |line: &str| line.split("op=").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    assert_eq!(operation(started[0]), operation(done[0]));

    let asked = last_asked(&place);
    assert!(asked.len() < 100, "the next request is compressed: {} messages", asked.len());
    assert!(asked.iter().any(|(_, text)| text.contains("heron-7731")), "and knows what was said");
    assert_eq!(asked.last().unwrap().1, "and now?");
    let request = &summaries(&place)[0];
    assert_eq!(request["messages"].as_array().unwrap().len(), 1, "one message, no system prompt");
    assert_eq!(request["tools"], Value::Null, "and no tools");
    is_clean(&place, &gateway);

    let found = client.read("/api/sessions/s/messages");
    assert!(found.to_string().contains("heron-7731"));
    let snapshots = place.launch().arg("sessions").arg("snapshots").arg("s").run();
    assert!(snapshots.stdout.contains("s.snapshot."), "{snapshots:?}");
}

fn counted(client: &Client, name: &str) -> bool {
    client.read("/api/control/counts").to_string().contains(name)
}

#[test]
fn concurrent_api_turns_are_answered_during_a_compression_and_stay_in_every_later_prompt() {
    let place = place();
    let gateway = place.rehearsing(&script(writes(MEANWHILE))).start();
    let client = &gateway.client;
    talk(client, "s", 60);
    client.say("s", "fill up");
    until("the summary is asked for", || summaries(&place).len() == 1);
    for word in ["first meanwhile", "second meanwhile", "third meanwhile"] {
        assert_eq!(client.say("s", word).status, 200);
    }
    assert!(lines(&gateway.log(), "done").is_empty(), "they were answered while it was being written");
    until("it is written", || order(client, "s", "/status").contains("a summary is ready"));
    client.say("s", "afterwards");
    assert_eq!(lines(&gateway.log(), "done").len(), 1);
    client.say("s", "later");
    let asked = last_asked(&place);
    assert!(asked.iter().any(|(_, text)| text.contains("heron-7731")));
    let order = ["first meanwhile", "second meanwhile", "third meanwhile", "afterwards", "later"];
    let said: Vec<_> =
        asked.iter().filter(|(_, text)| order.contains(&text.as_str())).map(|(_, text)| text).collect();
    assert_eq!(said, order, "each once, in order");
    is_clean(&place, &gateway);
}

/// How far a compression at the hard limit is when the gateway is killed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Reached {
    /// The summariser was asked and has not answered. A turn waits for it, and four messages for that turn.
    Asked,
    /// The summary is on disk, and no request has used it.
    Ready,
    /// The summary has taken its place. The first request with it is not answered, and four messages wait.
    Promoted,
}

#[test]
fn post_compression_delivery_survives_kill_9_during_a_hard_compression() {
    for reached in [Reached::Asked, Reached::Ready, Reached::Promoted] {
        let place = place();
        let summary = if reached == Reached::Asked { json!({"never": true}) } else { writes(0) };
        let mut slow = script(summary);
        let unanswered = json!({"when": {"contains": "held-"}, "never": true});
        slow["rules"].as_array_mut().unwrap().insert(1, unanswered);
        let gateway = place.rehearsing(&slow).start();
        let client = &gateway.client;
        talk(client, "s", 80);
        client.say("s", "overflow");
        let waiting = match reached {
            Reached::Ready => Vec::new(),
            Reached::Asked | Reached::Promoted => (0..5).map(|nth| holds(client, nth)).collect(),
        };
        let waits = || client.read("/api/control/status")["waiting_inputs"].as_u64().unwrap();
        let is_done = || lines(&gateway.log(), "done").len() == 1;
        until(&format!("{reached:?}"), || match reached {
            Reached::Asked => summaries(&place).len() == 1 && waits() == 4 && !is_done(),
            Reached::Ready => order(client, "s", "/status").contains("a summary is ready") && !is_done(),
            Reached::Promoted => {
                is_done() && waits() == 4 && last_asked(&place).last().unwrap().1.starts_with("held-")
            }
        });
        gateway.kill();
        waiting.into_iter().for_each(|thread| drop(thread.join()));
        let gateway = place.rehearsing(&script(writes(0))).start();
        for nth in 0..5 {
            let answer = holds(&gateway.client, nth).join().unwrap().unwrap();
            assert_eq!(answer.status, 200, "{}", answer.text());
        }
        gateway.client.say("s", "the last");
        let asked = last_asked(&place);
        for nth in 0..5 {
            assert_eq!(count(&asked, &format!("held-{nth}")), 1, "{reached:?}");
        }
        assert!(asked.iter().any(|(_, text)| text.contains("heron-7731")), "it was compressed in the end");
        let again = if reached == Reached::Asked { 2 } else { 1 };
        assert_eq!(summaries(&place).len(), again, "{reached:?}: a summary that is there is not asked for");
        assert_eq!(sessions(&place.home()), ["s"], "{reached:?}");
        is_clean(&place, &gateway);
    }
}

/// Says `held-<nth>` under a key of its own.
fn holds(client: &Client, nth: usize) -> thread::JoinHandle<std::io::Result<Whole>> {
    let (client, text) = (client.clone(), format!("held-{nth}"));
    thread::spawn(move || {
        let headers = [("X-Hermes-Session-Id", "s"), ("Idempotency-Key", text.as_str())];
        client.chat(&headers, &crate::gateway::said(&text))
    })
}

/// The sessions of a home, as its database has them. A header that the gateway sends back would prove nothing.
fn sessions(home: &Path) -> Vec<String> {
    let store = rusqlite::Connection::open(home.join("state.db")).unwrap();
    let ids = "SELECT id FROM sessions UNION SELECT DISTINCT session_id FROM messages ORDER BY 1";
    let mut ids = store.prepare(ids).unwrap();
    ids.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[test]
fn p17_at_the_hard_limit_a_digest_keeps_the_session_answerable_and_restore_brings_everything_back() {
    let place = place();
    let refuses = json!({"fail": "refused", "message": "The model does not feel like it."});
    let gateway = place.rehearsing(&script(refuses)).start();
    let client = &gateway.client;
    talk(client, "s", 80);
    client.say("s", "overflow");
    until("the summary was refused", || !lines(&gateway.log(), "failed").is_empty());
    assert_eq!(client.transcript("s").len(), 162, "and nothing else happened");
    let answer = client.say("s", "still there?");
    assert_eq!(answer.status, 200, "{}", answer.text());
    let asked = last_asked(&place);
    let digest = asked.iter().find(|(_, text)| text.contains("put together without a model"));
    let digest = digest.unwrap_or_else(|| panic!("a digest stands there, among {} messages", asked.len()));
    assert!(digest.1.contains("Box 3 stands on shelf 3"), "with what the user said: {}", digest.1);
    assert_eq!(asked.last().unwrap().1, "still there?");
    assert!(counted(client, "compression_degraded"));

    let listed = place.launch().arg("sessions").arg("snapshots").arg("s").arg("--json").run();
    let name = listed.stdout.split('"').find(|word| word.starts_with("s.snapshot.")).unwrap().to_owned();
    let restored = place.launch().arg("sessions").arg("restore").arg(&name).run();
    assert!(restored.status.success(), "{restored:?}");
    client.say("s", "back again");
    let asked = last_asked(&place);
    assert_eq!(count(&asked, &message(3)), 1, "as it was said");
    assert_eq!(count(&asked, "still there?"), 1, "and what was said since");
    is_clean(&place, &gateway);
}

#[test]
fn p19_orders_to_compress_say_what_was_verified() {
    let place = place();
    let gateway = place.rehearsing(&script(writes(0))).start();
    let client = &gateway.client;
    client.say("s", "hello");
    assert!(order(client, "s", "/compress").contains("nothing to compress"));
    assert_eq!(lines(&gateway.log(), "skipped").len(), 1);
    assert!(summaries(&place).is_empty(), "no model was asked");
    talk(client, "s", 60);
    let preview = order(client, "s", "/compress --preview");
    assert!(preview.contains("of 122 messages") && preview.contains("Nothing was changed"), "{preview}");
    assert!(summaries(&place).is_empty());
    let said = order(client, "s", "/compress here 2");
    assert!(said.contains("122 messages are ") && said.contains("s.snapshot."), "{said}");
    client.say("s", "next");
    let asked = last_asked(&place);
    for number in [58, 59] {
        assert_eq!(count(&asked, &message(number)), 1, "the last two exchanges stay");
    }
    assert_eq!(count(&asked, &message(40)), 0);
    talk(client, "s", 60);
    let said = order(client, "s", "/compress the grey boxes");
    assert!(said.contains(" messages are ") && said.contains("s.snapshot."), "{said}");
    let focused =
        summaries(&place).iter().any(|request| request["messages"].to_string().contains("the grey boxes"));
    assert!(focused, "the summariser heard of the topic");
    is_clean(&place, &gateway);
}

#[test]
fn p17_rubbish_from_the_summariser_changes_nothing() {
    let bad = [
        json!({"say": ""}),
        json!({"say": "I am sorry, I cannot help with that."}),
        json!({"say": "ok"}),
        json!({"say": SUMMARY, "finish": "length"}),
        json!({"fail": "broken"}),
    ];
    for rubbish in bad {
        let place = place();
        let gateway = place.rehearsing(&script(rubbish.clone())).start();
        talk(&gateway.client, "s", 60);
        gateway.client.say("s", "fill up");
        until("it has failed", || !lines(&gateway.log(), "failed").is_empty());
        let before = gateway.client.transcript("s");
        assert_eq!(before.len(), 122, "{rubbish}");
        assert_eq!(gateway.client.say("s", "go on").status, 200);
        assert_eq!(last_asked(&place).iter().filter(|(role, _)| role != "system").count(), 123, "{rubbish}");
        assert_eq!(summaries(&place).len(), 1, "{rubbish}: it is not asked again at once");
    }
}

// ------------------------------------------------------------------------------------ many agents

/// A focus whose summary takes its time.
const SLOWLY: &str = "the slow tide";
const FOLLOW_UP: &str = "follow-up 4711: the boats leave at noon";

/// So many homes in one process, each with a small window, that can write to each other. Their APIs listen
/// on ports that follow each other.
fn company(place: &Place, names: &[String], window: u64, latency: u64) -> (Launch, Vec<u16>) {
    let send = |to: &str| {
        let text = format!("news for {to}: {}", "the tide is high today, and the boats stay in. ".repeat(20));
        json!([{"name": "send_message", "arguments": {"target": format!("agent:{to}"), "message": text}}])
    };
    let mut rules = vec![
        json!({"when": {"contains": SLOWLY}, "say": SUMMARY, "latency_ms": MEANWHILE}),
        json!({"when": {"contains": ASKS}, "say": SUMMARY, "latency_ms": latency}),
        json!({"when": {"contains": "Send the follow-up.", "result": false}, "call": [
            {"name": "send_message", "arguments": {"target": "agent:alpha", "message": FOLLOW_UP}}]}),
        json!({"when": {"contains": "Send the follow-up.", "result": true}, "say": "Sent."}),
    ];
    for name in names {
        let word = format!("write to {name}.");
        rules.push(json!({"when": {"contains": word, "result": false}, "call": send(name)}));
        rules.push(json!({"when": {"contains": word, "result": true}, "say": "It is on its way."}));
    }
    rules.push(json!({"when": {"contains": "news for"}, "say": "."}));
    rules.push(json!({"when": {"contains": FOLLOW_UP}, "say": "."}));
    let ports: Vec<u16> = names.iter().map(|_| free_port()).collect();
    let mut homes = Vec::new();
    for (name, port) in names.iter().zip(&ports) {
        let lists = "platform_toolsets: {api_server: [messaging], agent: [messaging]}\n";
        let model = format!("model: {{default: rehearsal, context_length: {window}}}\n");
        let config = place.write(&format!("{name}/config.yaml"), format!("{model}{lists}"));
        place.write(&format!("{name}/.env"), format!("API_SERVER_PORT={port}\n"));
        homes.push(config.parent().unwrap().to_path_buf());
    }
    let script = place.write("script.json", json!({ "rules": rules }).to_string());
    let homes: Vec<_> = homes.iter().map(PathBuf::as_path).collect();
    let launch = Launch::on(place, &homes)
        .env("THROUGHLINE_REHEARSAL", &script)
        .env("THROUGHLINE_REHEARSAL_LOG", place.file("model.log"))
        .without("API_SERVER_PORT")
        .at_port(ports[0]);
    (launch, ports)
}

fn at(gateway: &Gateway, port: u16) -> Client {
    let mut client = gateway.client.clone();
    client.address.set_port(port);
    client
}

/// What went through a session's model, in tokens, roughly.
fn spent(place: &Place, session: &str) -> usize {
    let asked = place.asked();
    asked
        .iter()
        .filter(|request| request["session"] == session)
        .map(|request| request.to_string().len() / 4)
        .sum()
}

/// The last request that a session's model was asked.
fn last_of(place: &Place, session: &str) -> String {
    let asked = place.asked();
    asked.iter().rfind(|request| request["session"] == session).unwrap()["messages"].to_string()
}

#[test]
fn two_agents_with_an_8k_window_keep_every_message_through_145k_tokens() {
    let place = Place::new();
    let names = ["alpha".to_owned(), "beta".to_owned()];
    let (launch, ports) = company(&place, &names, 8000, 200);
    let gateway = launch.start();
    until("both are there", || at(&gateway, ports[1]).is_ready());
    let clients = [at(&gateway, ports[0]), at(&gateway, ports[1])];
    let talks = ["talk-alpha", "talk-beta"];
    let compressed = |agent: &str| {
        lines(&gateway.log(), "done").iter().filter(|line| line.contains(&format!("agent={agent}"))).count()
    };
    let mut round = 0;
    // How often is counted while they talk, too: a compression still runs beside the talk when enough is spent.
    while talks.iter().any(|talk| spent(&place, talk) < 145_000)
        || names.iter().any(|name| compressed(name) < 3)
    {
        for _ in 0..5 {
            for ((client, other), talk) in clients.iter().zip(["beta", "alpha"]).zip(talks) {
                let text = format!(
                    "Round {round}: {} Then write to {other}.",
                    "We look at the map again. ".repeat(60)
                );
                assert_eq!(client.say(talk, &text).status, 200);
            }
            round += 1;
        }
        let tokens = talks.map(|talk| spent(&place, talk));
        let done = [compressed("alpha"), compressed("beta")];
        assert!(round < 200, "{tokens:?} tokens and {done:?} compressions after {round} rounds");
    }
    assert_eq!(clients[0].say(talks[0], "and a follow-up.").status, 200);
    assert!(last_of(&place, talks[0]).contains("and a follow-up."));

    // What one agent writes to the other arrives in the middle of a compression of where it is read.
    let asked = place.asked();
    let reads = |request: &&Value| {
        !talks.iter().any(|talk| request["session"] == *talk)
            && !is_summary_request(request)
            && request.to_string().contains("news for alpha")
    };
    let letters = asked.iter().rfind(reads).unwrap()["session"].as_str().unwrap().to_owned();
    let of_letters = |what| {
        let named = format!("session={letters} ");
        lines(&gateway.log(), what).iter().filter(|line| line.contains(&named)).count()
    };
    let ended = || of_letters("done") + of_letters("failed") + of_letters("skipped") + of_letters("stale");
    // A summary that is ready takes its place with the next letter, and then there must be something to compress.
    until("nothing is compressed there, and could be", || {
        // A letter that was read may be answered later, and its answer may begin a compression of its own.
        let at_rest = || clients[0].read("/api/control/status")["running_turns"] == 0;
        let idle = || at_rest() && of_letters("started") == ended();
        let can = idle()
            && !order(&clients[0], &letters, "/compress --preview").contains("nothing to compress")
            && idle();
        can || {
            let read = |place: &Place| place.asked().iter().filter(|one| one["session"] == letters).count();
            let before = read(&place);
            assert_eq!(clients[1].say(talks[1], "Now write to alpha.").status, 200);
            until("it is read", || read(&place) > before);
            false
        }
    });
    let before = (of_letters("started"), of_letters("done"));
    let ordering = {
        let (client, session) = (clients[0].clone(), letters.clone());
        thread::spawn(move || order(&client, &session, &format!("/compress {SLOWLY}")))
    };
    until("it is being compressed", || of_letters("started") == before.0 + 1);
    assert_eq!(clients[1].say(talks[1], "Send the follow-up.").status, 200);
    until("it has been read", || last_of(&place, &letters).contains(FOLLOW_UP));
    assert_eq!(of_letters("done"), before.1, "it is still being compressed");
    let said = ordering.join().unwrap();
    assert!(said.contains(&format!("{letters}.snapshot.")), "{said}");
    assert_eq!(clients[1].say(talks[1], "Now write to alpha.").status, 200);
    until("the next has been read", || {
        let request = last_of(&place, &letters);
        request.contains("heron-7731") && request.matches(FOLLOW_UP).count() == 1
    });
    for client in &clients {
        until("all has arrived", || client.read("/api/control/status")["undelivered"] == 0);
        let check = client.read("/api/control/check");
        assert_eq!(check["data"], json!([]), "{check}");
    }
    is_clean_of_violations(&place, &gateway);
}

const ROUNDS: usize = 12;

#[test]
fn a_host_of_13_agents_crosses_the_threshold_at_once_and_nothing_is_invisible() {
    let place = Place::new();
    let names: Vec<String> = (0..13).map(|nth| format!("agent{nth:02}")).collect();
    let (launch, ports) = company(&place, &names, 8000, 500);
    let gateway = launch.start();
    let clients: Vec<Client> = ports.iter().map(|port| at(&gateway, *port)).collect();
    until("all are there", || clients.iter().all(Client::is_ready));
    thread::scope(|scope| {
        for (nth, client) in clients.iter().enumerate() {
            let next = &names[(nth + 1) % names.len()];
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let text = format!(
                        "Round {round}: {} Then write to {next}.",
                        "We look at the map again. ".repeat(60)
                    );
                    let answer = client.say("talk", &text);
                    assert_eq!(answer.status, 200, "{}", answer.text());
                }
            });
        }
    });
    let log = gateway.log();
    for name in &names {
        let mine = |line: &&&str| line.contains(&format!("agent={name}}}"));
        assert!(lines(&log, "done").iter().filter(mine).count() >= 1, "{name} was compressed");
    }
    for client in &clients {
        until("all has arrived", || client.read("/api/control/status")["undelivered"] == 0);
    }
    until("no answer comes, for ever", || {
        let is_quiet = |client: &Client| {
            let status = client.read("/api/control/status");
            ["running_turns", "waiting_inputs", "undelivered"].iter().all(|name| status[*name] == 0)
        };
        // Twice round: a letter may leave one that is looked at later for one that was looked at before.
        let before = place.asked().len();
        (0..2).all(|_| clients.iter().all(is_quiet)) && place.asked().len() == before
    });
    for (name, client) in names.iter().zip(&clients) {
        assert_eq!(client.say("talk", &format!("{name}, a last word")).status, 200);
        let check = client.read("/api/control/check");
        assert_eq!(check["data"], json!([]), "{name}: {check}");
        // Every piece of news that came to this agent is in its history, or in what a summary stands for. The model
        // may quote one in what it answers; a letter begins with it.
        let store = rusqlite::Connection::open(place.file(&format!("{name}/state.db"))).unwrap();
        let heard = "SELECT i.session || '/' || i.seq || ' ' || m.id || ': ' || substr(m.content, 1, 120)
                     FROM tl_inbox i JOIN messages m ON m.id = i.message WHERE instr(m.content, '] news for ' || ?1) BETWEEN 1 AND 20";
        let mut heard = store.prepare(heard).unwrap();
        let heard: Vec<String> =
            heard.query_map([name], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        assert_eq!(heard.len(), ROUNDS, "{name}: {heard:#?}");
        // A summary may quote a round, so only what people said counts.
        let rounds = "SELECT session_id, count(*) FROM messages
                      WHERE role = 'user' AND content LIKE 'Round %' GROUP BY session_id";
        let mut rounds = store.prepare(rounds).unwrap();
        let rounds: Vec<(String, u32)> =
            rounds.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect();
        assert_eq!(rounds, [("talk".to_owned(), ROUNDS as u32)], "{name}");
    }
    is_clean_of_violations(&place, &gateway);
}

fn is_clean_of_violations(place: &Place, gateway: &Gateway) {
    let log = place.write("audited.log", gateway.log());
    let audit = Launch::on(place, &[]).arg("audit").arg("--log").arg(log.display().to_string()).run();
    assert!(audit.status.success(), "{}\n{}", audit.stdout, audit.stderr);
}

/// The conversations of the evaluation, through the whole gateway: what was measured of an engine holds
/// for sessions.
#[test]
fn each_case_of_the_evaluation_keeps_its_session_and_pairs_its_log_lines() {
    let place = place();
    let gateway = place.rehearsing(&script(writes(0))).start();
    let client = &gateway.client;
    let cases = throughline_eval::cases();
    assert!(cases.len() >= 12);
    let mut begun = Vec::new();
    for case in &cases {
        let mut messages: Vec<Value> =
            case.messages.iter().map(throughline_eval::message_json::to_json).collect();
        messages.push(json!({"role": "user", "content": format!("Where were we with {}?", case.name)}));
        let answer = client.chat(&[], &json!({"model": "m", "messages": messages})).unwrap();
        assert_eq!(answer.status, 200, "{}: {}", case.name, answer.text());
        let session = answer.header("x-hermes-session-id").to_owned();
        let said = order(client, &session, "/compress");
        assert!(said.contains(&format!("{session}.snapshot.")), "{}: {said}", case.name);
        assert_eq!(client.say(&session, "go on").status, 200, "{}", case.name);
        let asked = last_asked(&place);
        assert!(asked.len() < case.messages.len(), "{}: the next request is compressed", case.name);
        assert!(asked.iter().any(|(_, text)| text.contains("heron-7731")), "{}", case.name);
        begun.push(session);
    }
    begun.sort();
    assert_eq!(sessions(&place.home()), begun, "one conversation, one id");
    let log = gateway.log();
    for session in &begun {
        let named = format!("session={session} ");
        let of = |what| lines(&log, what).into_iter().filter(|line| line.contains(&named)).count();
        assert_eq!((of("started"), of("done")), (1, 1), "{session}");
    }
    is_clean(&place, &gateway);
}
