//! Servers that ask people: who is asked, what is taken for an answer, and what the server hears.

use crate::common::*;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;
use throughline_core::port::Promise;
use throughline_core::tool::{Asker, Call, Elicitation, Kit, Question, Returned, Verdict};
use throughline_mcp::client::{McpClient, McpSurroundings};
use tokio::sync::Notify;

/// A person who gives these answers, one after the other, and then none.
#[derive(Default)]
struct Person {
    answers: Mutex<VecDeque<Verdict>>,
    asked: Mutex<Vec<Elicitation>>,
    /// Set: the first answer waits for it.
    thinks: Option<Notify>,
    noticed: Notify,
}

impl Person {
    fn saying(words: &[&str]) -> Self {
        let answers = words.iter().map(|word| Verdict::Said((*word).to_owned())).collect();
        Self { answers: Mutex::new(answers), ..Self::default() }
    }

    fn asked(&self) -> Vec<Elicitation> {
        self.asked.lock().unwrap().clone()
    }
}

impl Asker for Person {
    fn ask(&self, asked: Elicitation, patience: Duration) -> Promise<'_, Verdict> {
        Box::pin(async move {
            assert_eq!(patience, Duration::from_secs(60), "as with approvals");
            self.asked.lock().unwrap().push(asked);
            self.noticed.notify_one();
            if let Some(thinks) = &self.thinks {
                thinks.notified().await;
            }
            self.answers.lock().unwrap().pop_front().unwrap_or(Verdict::Expired)
        })
    }
}

/// A server that asks what its arguments say, and returns what it heard.
const ASKING: &str = r#"
def ask(params, name="q"):
    send({"jsonrpc": "2.0", "id": name, "method": "elicitation/create", "params": params})
    while True:
        answer = json.loads(sys.stdin.readline())
        if answer.get("id") == name:
            return answer

def call(id, name, arguments):
    answer = ask(arguments["params"])
    text(id, json.dumps(answer.get("result", answer.get("error"))))
"#;

async fn called(client: &McpClient, call: &Call, person: &Person) -> Value {
    let Returned::Done(done) = client.call_asking(call, person).await else { panic!("it returns") };
    let said: Value = serde_json::from_str(&done.content.plain()).unwrap();
    match said["result"].as_str() {
        Some(result) => serde_json::from_str(result).unwrap_or_else(|_| json!(result)),
        None => said,
    }
}

fn form(message: &str, properties: Value, required: Value) -> Value {
    let schema = json!({"type": "object", "properties": properties, "required": required});
    json!({"params": {"message": message, "requestedSchema": schema}})
}

async fn heard(arguments: Value, person: &Person) -> Value {
    let home = tempfile::tempdir().unwrap();
    let client = connected(home.path(), vec![python(home.path(), "s", ASKING)]).await;
    let heard = called(&client, &a_call("mcp__s__act", arguments), person).await;
    client.stop().await;
    heard
}

#[tokio::test]
async fn a_server_hears_what_the_person_of_the_call_answers() {
    if skips("python3") {
        return;
    }
    let properties = json!({
        "city": {"type": "string", "title": "City", "minLength": 2},
        "days": {"type": "integer", "minimum": 1, "maximum": 14, "default": 3},
        "class": {"type": "string", "oneOf": [{"const": "e", "title": "Economy"}, {"const": "b", "title": "Business"}]},
        "extras": {"type": "array", "items": {"type": "string", "enum": ["bag", "meal", "seat"]}},
        "window": {"type": "boolean"}
    });
    let person = Person::saying(&["Oslo", "default", "2", "bag, 3", "skip", "send"]);
    let asked = form("Where do you want to go?", properties, json!(["city"]));
    let heard = heard(asked, &person).await;
    let content = json!({"city": "Oslo", "days": 3, "class": "b", "extras": ["bag", "seat"]});
    assert_eq!(heard, json!({"action": "accept", "content": content}));
    let asked = person.asked();
    assert_eq!(asked.len(), 6);
    assert!(asked.iter().all(|it| it.server == "s" && it.question.contains("> Where do you want to go?")));
    assert_eq!(
        asked.iter().find(|it| it.question.contains("class")).unwrap().choices,
        ["Economy", "Business"]
    );
    assert!(
        asked[5].question.contains("- City: \"Oslo\""),
        "what leaves is shown first: {}",
        asked[5].question
    );
    let words = Question::Elicitation { asked: asked[0].clone(), number: 1 }.in_words();
    assert!(words.contains("The MCP server \"s\" asks you") && words.contains("not the agent's"), "{words}");
}

#[tokio::test]
async fn p31_unclear_answers_are_asked_again_three_times_and_a_no_is_a_no() {
    if skips("python3") {
        return;
    }
    let days = || form("How long?", json!({"days": {"type": "integer", "maximum": 5}}), json!(["days"]));
    let action = |heard: &Value| heard["action"].as_str().unwrap_or_default().to_owned();
    let person = Person::saying(&["long", "9", "5"]);
    assert_eq!(heard(days(), &person).await, json!({"action": "accept", "content": {"days": 5}}));
    assert!(person.asked()[1].question.contains("not what is asked for"), "{:?}", person.asked());
    let person = Person::saying(&["a", "b", "c", "5"]);
    assert_eq!(action(&heard(days(), &person).await), "cancel");
    assert_eq!(person.asked().len(), 3);
    for (verdict, expected) in [
        (Verdict::Said("Decline".into()), "decline"),
        (Verdict::Said("cancel".into()), "cancel"),
        (Verdict::Denied { reason: None }, "decline"),
        (Verdict::Unattended, "decline"),
        (Verdict::Expired, "cancel"),
    ] {
        let person = Person { answers: Mutex::new([verdict.clone()].into()), ..Person::default() };
        let heard = heard(days(), &person).await;
        assert_eq!((action(&heard), heard.get("content")), (expected.to_owned(), None), "{verdict:?}");
    }
    let person = Person::saying(&["accept"]);
    let heard = heard(form("Delete it?", json!({}), json!([])), &person).await;
    assert_eq!(heard, json!({"action": "accept", "content": {}}));
}

#[tokio::test]
async fn p31_a_form_asks_for_no_secret_and_an_address_is_shown_as_it_is() {
    if skips("python3") {
        return;
    }
    let person = Person::saying(&["hunter2"]);
    let password = form("Log in", json!({"password": {"type": "string"}}), json!([]));
    assert_eq!(heard(password, &person).await["action"], "decline");
    assert_eq!(person.asked(), []);
    let url =
        |url: &str| json!({"params": {"mode": "url", "message": "Log in", "url": url, "elicitationId": "1"}});
    for bad in [
        "http://example.org/",
        "https://example.org@evil.example/",
        "javascript:alert(1)",
        "file:///etc/passwd",
    ] {
        let person = Person::saying(&["done"]);
        assert_eq!(heard(url(bad), &person).await["action"], "decline", "{bad}");
        assert_eq!(person.asked(), [], "{bad}");
    }
    let person = Person::saying(&["done"]);
    assert_eq!(heard(url("https://login.example.org/x?y=1"), &person).await, json!({"action": "accept"}));
    let shown = &person.asked()[0].question;
    assert!(shown.contains("leads to login.example.org:\nhttps://login.example.org/x?y=1\n"), "{shown}");
}

/// Two sessions use one server at once: it cannot be known whom it asks.
#[tokio::test]
async fn p31_a_question_that_may_be_of_another_session_is_declined() {
    if skips("python3") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let together = r#"
waiting = []
def call(id, name, arguments):
    waiting.append(id)
    if arguments.get("last"):
        send({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params":
            {"message": "who?", "requestedSchema": {"type": "object", "properties": {}}}})
        while True:
            answer = json.loads(sys.stdin.readline())
            if answer.get("id") == "q":
                break
        for id in waiting:
            text(id, json.dumps(answer["result"]))
        waiting.clear()
"#;
    let mut settings = python(home.path(), "s", together);
    settings.parallel = true;
    let client = connected(home.path(), vec![settings]).await;
    let of = |session: &str, arguments: Value| {
        let mut call = a_call("mcp__s__act", arguments);
        call.caller.session = session.parse().unwrap();
        call
    };
    for (other, expected) in [("ada", "accept"), ("bob", "decline")] {
        let (first, second) = (of("ada", json!({})), of(other, json!({"last": true})));
        let (one, two) = (Person::saying(&["accept"]), Person::saying(&["accept"]));
        // The first is at the server before the second is called.
        let (heard, _) = tokio::join!(called(&client, &first, &one), called(&client, &second, &two));
        assert_eq!(heard["action"], expected, "{other}");
        assert_eq!(one.asked().len() + two.asked().len(), usize::from(other == "ada"));
    }
    client.stop().await;
}

/// A call that was given up may still be worked at: what is asked then may be about it.
#[tokio::test]
async fn p31_what_a_given_up_call_asks_is_not_put_to_the_person_of_another() {
    if skips("python3") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let late = format!(
        "{ASKING}\nbegun = call\ndef call(id, name, arguments):\n    if arguments: begun(id, name, arguments)\n"
    );
    let mut settings = python(home.path(), "s", &late);
    settings.timeout = Duration::from_millis(300);
    let client = connected(home.path(), vec![settings]).await;
    let mut first = a_call("mcp__s__act", json!({}));
    first.caller.session = "ada".parse().unwrap();
    let given_up = called(&client, &first, &Person::default()).await;
    assert!(given_up["error"].as_str().unwrap().contains("timed out"), "{given_up}");
    let asked = form("who?", json!({}), json!([]));
    let mut second = a_call("mcp__s__act", asked.clone());
    second.caller.session = "bob".parse().unwrap();
    let person = Person::saying(&["accept"]);
    assert_eq!(called(&client, &second, &person).await["action"], "decline");
    assert_eq!(person.asked(), []);
    let mut same = a_call("mcp__s__act", asked);
    same.caller.session = "ada".parse().unwrap();
    assert_eq!(called(&client, &same, &Person::saying(&["accept"])).await["action"], "accept");
    client.stop().await;
}

#[tokio::test]
async fn a_server_that_asks_outside_of_a_call_is_declined() {
    if skips("python3") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let outside = r#"
asked = None
def tools():
    global asked
    send({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params":
        {"message": "who?", "requestedSchema": {"type": "object", "properties": {}}}})
    while asked is None:
        answer = json.loads(sys.stdin.readline())
        if answer.get("id") == "q":
            asked = answer["result"]["action"]
    return [{"name": "act", "inputSchema": {"type": "object"}}]

def call(id, name, arguments):
    text(id, asked)
"#;
    let client = connected(home.path(), vec![python(home.path(), "s", outside)]).await;
    let person = Person::saying(&["accept"]);
    assert_eq!(called(&client, &a_call("mcp__s__act", json!({})), &person).await, "decline");
    assert_eq!(person.asked(), []);
    client.stop().await;
}

/// The time of a call is the server's. A person takes theirs.
#[tokio::test]
async fn the_time_of_a_call_does_not_run_while_a_person_thinks() {
    if skips("python3") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let mut settings = python(home.path(), "s", ASKING);
    settings.timeout = Duration::from_secs(2);
    let client = connected(home.path(), vec![settings]).await;
    let person = Person { thinks: Some(Notify::new()), ..Person::saying(&["accept"]) };
    let call = a_call("mcp__s__act", form("Delete it?", json!({}), json!([])));
    let thinking = async {
        person.noticed.notified().await;
        tokio::time::sleep(Duration::from_secs(4)).await; // twice the time of the call
        person.thinks.as_ref().unwrap().notify_one();
    };
    let (heard, ()) = tokio::join!(called(&client, &call, &person), thinking);
    assert_eq!(heard["action"], "accept");
    client.stop().await;
}

#[tokio::test]
async fn a_client_without_people_says_that_it_cannot_ask() {
    if skips("python3") {
        return;
    }
    for asks in [true, false] {
        let home = tempfile::tempdir().unwrap();
        let log = home.path().join("log");
        let server = with_env(python(home.path(), "s", ASKING), "LOG", &log.display().to_string());
        let surroundings = McpSurroundings { home: home.path().to_owned(), environment: environment(), asks };
        let client = McpClient::start(vec![server], surroundings);
        client.settled(Duration::from_secs(60)).await;
        let person = Person::saying(&["accept"]);
        let heard = called(&client, &a_call("mcp__s__act", form("?", json!({}), json!([]))), &person).await;
        assert_eq!(heard["action"], if asks { "accept" } else { "decline" });
        client.stop().await;
        let said = std::fs::read_to_string(log).unwrap();
        let first: Value = serde_json::from_str(said.lines().next().unwrap()).unwrap();
        let declared = &first["params"]["capabilities"]["elicitation"];
        assert_eq!(*declared, if asks { json!({"form": {}, "url": {}}) } else { Value::Null }, "{first}");
    }
}
