//! Webhooks: only what is signed gets in, once, and the sender hears what became of it.

use crate::letterbox::{self, Letterbox};
use hmac::{Hmac, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use throughline_core::Time;
use throughline_core::input::Destination;
use throughline_core::port::{Health, Outgoing};
use throughline_core::redact::Secret;
use throughline_hermes::key::{KeyRules, chat_key};
use throughline_net::listener::Limits;
use throughline_platforms::webhook::{Webhook, WebhookPlace, WebhookSettings};
use throughline_platforms::{Adapter, ListenEnded, Platform, SendError, StopSignal};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

const SECRET: &str = "It's a Secret to Everybody";

struct World {
    home: TempDir,
    webhook: Arc<Webhook>,
    intake: Arc<Letterbox>,
    address: SocketAddr,
    rope: watch::Sender<bool>,
    task: JoinHandle<ListenEnded>,
    client: reqwest::Client,
}

impl World {
    async fn new(routes: Value) -> Self {
        Self::with(routes, |_| {}).await
    }

    async fn with(routes: Value, change: impl FnOnce(&mut WebhookSettings)) -> Self {
        throughline_net::install_tls(); // for the client of this test
        let home = tempfile::tempdir().unwrap();
        let mut settings = WebhookSettings::new(home.path());
        settings.port = 0;
        settings.routes = routes;
        settings.places = Arc::new(|_, platform| {
            let home = Some(("HOME".to_owned(), Some("7".to_owned())));
            (platform == "telegram").then(|| WebhookPlace { account: "42".to_owned(), home })
        });
        change(&mut settings);
        let webhook = Arc::new(Webhook::new(settings));
        let intake: Arc<Letterbox> = Arc::default();
        let (rope, stop) = StopSignal::new();
        let (listener, kept) = (webhook.clone(), intake.clone());
        let task = tokio::spawn(async move { listener.listen(kept, stop).await });
        let address = timeout(Duration::from_secs(10), async {
            loop {
                match webhook.address() {
                    Some(address) => break address,
                    None => sleep(Duration::from_millis(5)).await,
                }
            }
        });
        let address = address.await.expect("it listens");
        let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
        Self { home, webhook, intake, address, rope, task, client }
    }

    async fn post(&self, path: &str, headers: &[(&str, &str)], body: impl Into<Vec<u8>>) -> (u16, Value) {
        let mut request = self.client.post(format!("http://{}{path}", self.address)).body(body.into());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        assert_eq!(response.headers().contains_key("retry-after"), status == 503 || status == 429);
        (status, serde_json::from_str(&response.text().await.unwrap()).unwrap_or(Value::Null))
    }

    /// As GitHub sends it.
    async fn github(&self, route: &str, delivery: &str, payload: &Value) -> (u16, Value) {
        let body = payload.to_string();
        let signature = format!("sha256={}", signed(SECRET, body.as_bytes()));
        let headers = [
            ("x-hub-signature-256", signature.as_str()),
            ("x-github-delivery", delivery),
            ("x-github-event", "issues"),
        ];
        self.post(&format!("/webhooks/{route}"), &headers, body).await
    }

    async fn stop(self) -> ListenEnded {
        self.rope.send(true).unwrap();
        timeout(Duration::from_secs(10), self.task).await.unwrap().unwrap()
    }
}

fn signed(secret: &str, bytes: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(bytes);
    mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn route(more: Value) -> Value {
    let mut route = json!({"secret": SECRET});
    route.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"ci": route})
}

#[tokio::test]
async fn p7_a_delivery_is_accepted_when_it_is_kept_and_its_redelivery_is_the_same() {
    let routes =
        route(json!({"prompt": "{action}: {issue.title}", "skills": ["triage"], "events": ["issues"]}));
    let world = World::new(routes).await;
    let payload = json!({"action": "opened", "issue": {"title": "It breaks"}});
    world.intake.refuse(1);
    assert_eq!(world.github("ci", "d-1", &payload).await.0, 503);
    assert!(world.intake.kept().is_empty());
    for _ in 0..4 {
        let (status, body) = world.github("ci", "d-1", &payload).await;
        assert_eq!((status, &body["status"], &body["delivery_id"]), (202, &json!("accepted"), &json!("d-1")));
    }
    let kept = world.intake.kept();
    assert_eq!(kept.len(), 1);
    assert_eq!(
        (kept[0].text.as_str(), kept[0].skills.as_slice()),
        ("opened: It breaks", ["triage".to_owned()].as_slice())
    );
    assert!(kept[0].addressed && !kept[0].from_bot);
    let key = chat_key(&kept[0].source, &KeyRules::default()).unwrap();
    assert_eq!(key.to_string(), "agent:main:webhook:webhook:webhook:ci:d-1:webhook:ci");
    assert_eq!(
        (kept[0].reply_to.platform.as_str(), kept[0].reply_to.chat.as_str()),
        ("webhook", "webhook:ci:d-1")
    );
    let other = json!({"action": "closed", "issue": {"title": "It breaks"}});
    assert_eq!(world.github("ci", "d-2", &other).await.0, 202);
    assert_eq!(world.intake.kept().len(), 2);
    assert_eq!(world.stop().await, ListenEnded::Stopped);
}

/// A third party that saw a delivery can send it again with other headers: without a signature over them it is the same.
#[tokio::test]
async fn p31_a_replay_with_other_headers_is_the_same_delivery() {
    let mut routes = route(json!({}));
    routes["svix"] = json!({"secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"});
    let world = World::new(routes).await;
    world.intake.stop_clock(Time(1_614_265_330_000_000));
    let svix = [
        ("svix-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
        ("svix-timestamp", "1614265330"),
        ("svix-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
    ];
    let github = format!("sha256={}", signed(SECRET, b"{}"));
    let timed = signed(SECRET, b"1614265300.{}");
    let bare = signed(SECRET, br#"{"bare":1}"#);
    for (path, signature, body) in [
        ("/webhooks/svix", &svix[..], "{\"test\": 2432232314}"),
        ("/webhooks/ci", &[("x-hub-signature-256", github.as_str())], "{}"),
        (
            "/webhooks/ci",
            &[("x-webhook-signature-v2", timed.as_str()), ("x-webhook-timestamp", "1614265300")],
            "{}",
        ),
        ("/webhooks/ci", &[("x-webhook-signature", bare.as_str())], r#"{"bare":1}"#),
    ] {
        let before = world.intake.kept().len();
        for added in [
            None,
            Some(("x-request-id", "another")),
            Some(("x-github-delivery", "another")),
            Some(("idempotency-key", "another")),
            Some(("x-gitlab-event-uuid", "another")),
        ] {
            let headers: Vec<_> = signature.iter().copied().chain(added).collect();
            assert_eq!(world.post(path, &headers, body).await.0, 202, "{headers:?}");
            assert_eq!(world.intake.kept().len(), before + 1, "{headers:?}");
        }
    }
    world.stop().await;
}

#[tokio::test]
async fn bad_requests_get_what_they_deserve_and_change_nothing() {
    let mut routes = route(json!({"events": ["push"], "filters": [{"field": "ref", "equals": "main"}]}));
    routes["off"] = json!({"secret": SECRET, "enabled": false});
    routes["scripted"] = json!({"secret": SECRET, "script": "x.py"});
    let world = World::with(routes, |settings| settings.body_max = 1000).await;
    let body = r#"{"type":"push","ref":"main"}"#;
    let right = signed(SECRET, body.as_bytes());
    let header = |value: &'static str| ("x-webhook-signature", value);
    assert_eq!(world.post("/webhooks/ci", &[], body).await.0, 401);
    assert_eq!(world.post("/webhooks/ci", &[header("00")], body).await.0, 401);
    assert_eq!(
        world
            .post("/webhooks/ci", &[("x-webhook-signature", &signed("other", body.as_bytes()))], body)
            .await
            .0,
        401
    );
    assert_eq!(
        world
            .post("/webhooks/ci", &[("x-gitlab-token", "wrong"), ("x-webhook-signature", &right)], body)
            .await
            .0,
        401
    );
    assert_eq!(world.post("/webhooks/nowhere", &[], body).await.0, 404);
    assert_eq!(world.post("/webhooks/off", &[], body).await.0, 403);
    assert_eq!(world.post("/webhooks/scripted", &[], body).await.0, 403);
    assert_eq!(world.post("/elsewhere", &[], body).await.0, 404);
    assert_eq!(world.post("/webhooks/ci", &[], vec![b'x'; 1001]).await.0, 413);
    let endless = reqwest::Body::wrap_stream(futures_util::stream::iter(
        std::iter::repeat_with(|| Ok::<_, std::io::Error>(bytes::Bytes::from_static(&[b'x'; 100]))).take(100),
    ));
    let chunked =
        world.client.post(format!("http://{}/webhooks/ci", world.address)).body(endless).send().await;
    assert!(chunked.is_err() || chunked.unwrap().status() == 413, "a body without a length has a limit, too");
    for bad in ["{", "[1]", "7", "", "a=b"] {
        let signature = signed(SECRET, bad.as_bytes());
        assert_eq!(
            world.post("/webhooks/ci", &[("x-webhook-signature", &signature)], bad).await.0,
            400,
            "{bad}"
        );
    }
    let broken: &[&[u8]] = &[b"{\"a\": \"\xff\xfe\"}", b"a=\xff"];
    for bad in broken {
        let signature = signed(SECRET, bad);
        let headers = [
            ("x-webhook-signature", signature.as_str()),
            ("content-type", "application/x-www-form-urlencoded"),
        ];
        assert_eq!(world.post("/webhooks/ci", &headers, bad.to_vec()).await.0, 400, "{bad:?}");
    }
    let get = world.client.get(format!("http://{}/webhooks/ci", world.address)).send().await.unwrap();
    assert_eq!(get.status(), 405);
    assert_eq!(world.intake.offered(), 0);
    for (body, status) in [
        (r#"{"type":"ping"}"#, json!({"status": "ignored", "event": "ping"})),
        (r#"{"type":"push","ref":"dev"}"#, json!({"status": "ignored", "reason": "filter", "route": "ci"})),
    ] {
        let signature = signed(SECRET, body.as_bytes());
        assert_eq!(
            world.post("/webhooks/ci", &[("x-webhook-signature", &signature)], body).await,
            (200, status)
        );
    }
    assert_eq!(world.intake.offered(), 0);
    assert_eq!(world.post("/webhooks/ci", &[("x-webhook-signature", &right)], body).await.0, 202);
    let form = "type=push&ref=main&text=a%20b";
    let signature = signed(SECRET, form.as_bytes());
    let headers =
        [("x-webhook-signature", signature.as_str()), ("content-type", "application/x-www-form-urlencoded")];
    assert_eq!(world.post("/webhooks/ci", &headers, form).await.0, 202);
    assert_eq!(world.intake.kept().len(), 2, "without an id each delivery is another");
    assert_eq!(world.webhook.health(), Health::Up);
    assert!(world.webhook.off()["scripted"].contains("script"));
    world.stop().await;
}

#[tokio::test]
async fn every_scheme_of_hermes_is_understood() {
    let mut routes = route(json!({}));
    routes["svix"] = json!({"secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"});
    let world = World::new(routes).await;
    world.intake.stop_clock(Time(1_614_265_330_000_000));
    // The example of Svix' documentation.
    let svix = [
        ("svix-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
        ("svix-timestamp", "1614265330"),
        ("svix-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
    ];
    let body = "{\"test\": 2432232314}";
    assert_eq!(
        world.post("/webhooks/svix", &svix, body).await.1["delivery_id"],
        "msg_p5jXN8AQM9LWM0D4loKWxJek"
    );
    assert_eq!(world.post("/webhooks/svix", &svix, "{\"test\": 2432232315}").await.0, 401);
    assert_eq!(
        world.post("/webhooks/ci", &[("x-gitlab-token", SECRET), ("idempotency-key", "g-1")], "{}").await.1["delivery_id"],
        "g-1"
    );
    // What one webhook of GitLab sets off by way of another has the same id, and is another event.
    let chained = [("x-gitlab-token", SECRET), ("x-gitlab-event-uuid", "13792a34")];
    let first = world.post("/webhooks/ci", &chained, "{}").await;
    assert_eq!((first.0, &first), (202, &world.post("/webhooks/ci", &chained, "{}").await));
    assert_ne!(first, world.post("/webhooks/ci", &chained, "{\"next\": 1}").await);
    assert_eq!(world.intake.kept().len(), 4);
    // A signature that is bound to a time names its delivery: sent again as it is, it is the same.
    let signature = signed(SECRET, b"1614265300.{}");
    let v2 = [("x-webhook-signature-v2", signature.as_str()), ("x-webhook-timestamp", "1614265300")];
    let first = world.post("/webhooks/ci", &v2, "{}").await;
    assert_eq!((first.0, &first), (202, &world.post("/webhooks/ci", &v2, "{}").await));
    assert_eq!(world.intake.kept().len(), 5);
    assert_eq!(world.post("/webhooks/ci", &v2[..1], "{}").await.0, 401, "half of a signature");
    world.intake.stop_clock(Time(1_614_265_930_000_000));
    assert_eq!(world.post("/webhooks/ci", &v2, "{}").await.0, 401, "too late");
    // An id that would make no key becomes one that does.
    let headers = [("x-gitlab-token", SECRET), ("x-request-id", "with spaces, and more")];
    assert_eq!(world.post("/webhooks/ci", &headers, "{}").await.0, 202);
    for incoming in world.intake.kept() {
        chat_key(&incoming.source, &KeyRules::default()).unwrap();
    }
    world.stop().await;
}

#[tokio::test]
async fn a_route_has_a_rate_and_no_other_route_suffers() {
    let mut routes = route(json!({}));
    routes["other"] = json!({"secret": SECRET});
    let world = World::with(routes, |settings| settings.rate_limit = 3).await;
    for number in 0..3 {
        assert_eq!(world.github("ci", &format!("d-{number}"), &json!({"n": number})).await.0, 202);
    }
    assert_eq!(world.github("ci", "d-9", &json!({})).await.0, 429);
    assert_eq!(world.post("/webhooks/ci", &[], "{}").await.0, 401, "whoever has no secret learns nothing");
    assert_eq!(world.github("other", "d-9", &json!({})).await.0, 202);
    assert_eq!(world.intake.kept().len(), 4);
    world.stop().await;
}

#[tokio::test]
async fn where_the_answer_goes_is_fixed_when_the_event_comes_in() {
    let at =
        |deliver: &str, extra: Value| json!({"secret": SECRET, "deliver": deliver, "deliver_extra": extra});
    let mut routes = json!({
        "home": at("telegram", json!({})),
        "chat": at("telegram", json!({"chat_id": "{chat.id}", "message_thread_id": 5})),
        "comment": at("github_comment", json!({"repo": "{repository.full_name}", "pr_number": "{number}"})),
        "nowhere": at("discord", json!({})),
    });
    routes["push"] = json!({"secret": SECRET, "deliver": "telegram", "deliver_only": true, "prompt": "Disk full on {host}"});
    let world = World::new(routes).await;
    let payload =
        json!({"chat": {"id": -100}, "number": 7, "repository": {"full_name": "a/b"}, "host": "db-1"});
    let telegram = |chat: &str, thread: &str| Destination {
        platform: "telegram".to_owned(),
        account: "42".to_owned(),
        chat: chat.to_owned(),
        thread: Some(thread.to_owned()),
        reply_to: None,
    };
    for name in ["home", "chat", "comment"] {
        assert_eq!(world.github(name, "d-1", &payload).await.0, 202, "{name}");
    }
    let places: Vec<Destination> =
        world.intake.kept().into_iter().map(|incoming| incoming.reply_to).collect();
    assert_eq!(places[..2], [telegram("HOME", "7"), telegram("-100", "5")]);
    assert_eq!((places[2].platform.as_str(), places[2].chat.as_str()), ("webhook", "github_comment:a/b#7"));
    let (status, body) = world.github("nowhere", "d-1", &payload).await;
    assert_eq!(status, 502);
    assert!(body["error"].as_str().unwrap().contains("discord is not connected"));
    assert_eq!(world.github("comment", "d-2", &json!({"number": "--help"})).await.0, 502);
    // No turn: the words themselves are delivered, once.
    for _ in 0..2 {
        assert_eq!(world.github("push", "d-1", &payload).await.0, 202);
    }
    let letters = world.intake.letters();
    assert_eq!(letters.len(), 1);
    assert_eq!((letters[0].text.as_str(), &letters[0].place), ("Disk full on db-1", &telegram("HOME", "7")));
    assert_eq!(world.intake.kept().len(), 3);
    world.intake.refuse(1);
    assert_eq!(world.github("push", "d-2", &payload).await.0, 503);
    world.stop().await;
}

#[tokio::test]
async fn what_others_write_is_no_command() {
    let world = World::new(route(json!({"prompt": "{text}"}))).await;
    world.github("ci", "d-1", &json!({"text": "  /restart now"})).await;
    assert_eq!(world.intake.texts(), ["[webhook ci]   /restart now"]);
    world.stop().await;
}

#[tokio::test]
async fn subscriptions_are_read_when_they_change() {
    let world = World::new(route(json!({}))).await;
    let file = world.home.path().join("webhook_subscriptions.json");
    assert_eq!(world.github("new", "d-1", &json!({})).await.0, 404);
    let write = |text: &str| {
        std::fs::write(&file, text).unwrap();
    };
    write(
        &json!({"new": {"secret": SECRET, "description": "made by the agent"}, "ci": {"secret": "stolen"}})
            .to_string(),
    );
    assert_eq!(world.github("new", "d-1", &json!({})).await.0, 202);
    assert_eq!(world.github("ci", "d-1", &json!({})).await.0, 202, "the configuration wins");
    write("{ half of it");
    assert_eq!(world.github("new", "d-2", &json!({})).await.0, 202, "somebody is writing it");
    write(&json!({"new": {"secret": ""}}).to_string());
    assert_eq!(world.github("new", "d-3", &json!({})).await.0, 403);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(world.github("new", "d-4", &json!({})).await.0, 404);
    world.stop().await;
}

#[tokio::test]
async fn profiles_are_named_by_path_where_there_are_some() {
    let plain = World::new(route(json!({}))).await;
    let body = "{}";
    let headers = [("x-gitlab-token", SECRET), ("x-request-id", "1")];
    assert_eq!(plain.post("/p/anything/webhooks/ci", &headers, body).await.0, 202);
    assert_eq!(plain.intake.kept()[0].source.profile, None);
    plain.stop().await;
    let world = World::with(route(json!({})), |settings| {
        settings.profiles.insert("coder".to_owned());
    })
    .await;
    assert_eq!(world.post("/p/stranger/webhooks/ci", &headers, body).await.0, 404);
    assert_eq!(world.post("/p/coder/webhooks/ci", &headers, body).await.0, 202);
    assert_eq!(world.intake.kept()[0].source.profile.as_deref(), Some("coder"));
    let well = world.client.get(format!("http://{}/health", world.address)).send().await.unwrap();
    assert_eq!(well.text().await.unwrap(), r#"{"status":"ok","platform":"webhook"}"#);
    world.stop().await;
}

#[tokio::test]
async fn a_port_that_is_taken_is_named_and_waited_for() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let home = tempfile::tempdir().unwrap();
    let mut settings = WebhookSettings::new(home.path());
    settings.port = taken.local_addr().unwrap().port();
    let webhook = Arc::new(Webhook::new(settings));
    let (rope, stop) = StopSignal::new();
    let (listener, intake) = (webhook.clone(), Arc::<Letterbox>::default());
    let task = tokio::spawn(async move { listener.listen(intake, stop).await });
    let waiting = async {
        while !matches!(webhook.health(), Health::Waiting(words) if words.contains("in use")) {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(5), waiting).await.unwrap();
    drop(taken);
    let up = async {
        while webhook.health() != Health::Up {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(5), up).await.unwrap();
    rope.send(true).unwrap();
    assert_eq!(task.await.unwrap(), ListenEnded::Stopped);
}

#[tokio::test]
async fn p8_a_sender_who_never_finishes_does_not_keep_the_gateway_from_stopping() {
    let world = World::new(route(json!({}))).await;
    let mut silent = tokio::net::TcpStream::connect(world.address).await.unwrap();
    let begun = b"POST /webhooks/ci HTTP/1.1\r\nhost: localhost\r\ncontent-le";
    tokio::io::AsyncWriteExt::write_all(&mut silent, begun).await.unwrap();
    assert_eq!(world.post("/webhooks/none", &[], "{}").await.0, 404); // it listens, and has seen the other
    let stopped = timeout(Duration::from_secs(20), world.stop()).await;
    assert_eq!(stopped.expect("it stops although somebody holds a connection"), ListenEnded::Stopped);
}

#[tokio::test]
async fn an_open_route_is_for_loopback_only() {
    let open = || json!({"ci": {"secret": "INSECURE_NO_AUTH"}});
    let inside = World::new(open()).await;
    let json = ("content-type", "application/json");
    assert_eq!(inside.post("/webhooks/ci", &[json], "{}").await.0, 202);
    assert!(inside.address.ip().is_loopback());
    // What a page in a browser can send there, it may not.
    for headers in [
        &[json, ("origin", "https://evil.example")][..],
        &[json, ("origin", "null")],
        &[json, ("sec-fetch-site", "cross-site")],
        &[json, ("host", "evil.example:8644")],
    ] {
        assert_eq!(inside.post("/webhooks/ci", headers, "{}").await.0, 403, "{headers:?}");
    }
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"] {
        assert_eq!(inside.post("/webhooks/ci", &[("content-type", kind)], "{}").await.0, 415, "{kind}");
    }
    assert_eq!(inside.post("/webhooks/ci", &[], "{}").await.0, 415);
    assert_eq!(inside.intake.kept().len(), 1);
    inside.stop().await;
    let home = tempfile::tempdir().unwrap();
    let mut settings = WebhookSettings::new(home.path());
    (settings.host, settings.routes) = (Some("0.0.0.0".to_owned()), open());
    settings.secret = Some(Secret::new("for the others"));
    assert!(Webhook::new(settings).off()["ci"].contains("loopback"));
}

fn outgoing(chat: &str, text: &str) -> Outgoing {
    let destination = Destination {
        platform: "webhook".to_owned(),
        account: "webhook".to_owned(),
        chat: chat.to_owned(),
        thread: None,
        reply_to: None,
    };
    letterbox::outgoing(destination, text)
}

/// A stand-in for `gh` that notes what it was given.
#[cfg(unix)]
fn stand_in(home: &Path, last_words: &str, code: u8) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = home.join("gh");
    let noted = home.join("noted");
    let script = format!(
        "#!/bin/sh\necho \"$@\" > {0}\ncat >> {0}\necho '{last_words}' >&2\nexit {code}\n",
        noted.display()
    );
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[cfg(unix)]
#[tokio::test]
async fn a_comment_is_written_by_gh_and_its_failures_are_told_apart() {
    let home = tempfile::tempdir().unwrap();
    let said = |last_words: &str, code: u8| {
        let mut settings = WebhookSettings::new(home.path());
        settings.gh = stand_in(home.path(), last_words, code);
        Webhook::new(settings)
    };
    let reply = outgoing("github_comment:a/b#7", "Looks **good**; `rm -rf`");
    assert_eq!(said("", 0).send(&reply, Some("again")).await, Ok(None));
    let noted = std::fs::read_to_string(home.path().join("noted")).unwrap();
    assert_eq!(noted, "pr comment 7 --repo a/b --body-file -\nagain\n\nLooks **good**; `rm -rf`");
    assert!(matches!(said("HTTP 502", 1).send(&reply, None).await, Err(SendError::Unknown { .. })));
    assert!(matches!(said("HTTP 404: Not Found", 1).send(&reply, None).await, Err(SendError::Never { .. })));
    let mut settings = WebhookSettings::new(home.path());
    settings.gh = home.path().join("nothing here");
    let Err(SendError::Never { message }) = Webhook::new(settings).send(&reply, None).await else {
        panic!("no gh")
    };
    assert!(message.contains("gh auth login"));
    // What only goes to the log has arrived.
    assert_eq!(said("", 0).send(&outgoing("webhook:ci:1", "done"), None).await, Ok(None));
}

/// A client that opens a connection and never sends its request.
async fn dawdler(world: &World, says: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    stream.write_all(says).await.unwrap();
    stream
}

#[tokio::test]
async fn whoever_never_comes_to_the_point_is_hung_up_on_and_the_others_are_answered() {
    let limits = Limits { head_patience: Duration::from_millis(300), connections_max: 2 };
    let world = World::with(route(json!({})), |settings| settings.limits = limits).await;
    // As many as there is room for: one in silence, one in the middle of a word.
    let mut dawdlers = [dawdler(&world, b"").await, dawdler(&world, b"POST /webhooks/ci HT").await];
    let answered = timeout(Duration::from_secs(60), world.github("ci", "d-1", &json!({"a": 1}))).await;
    assert_eq!(answered.expect("there is room again").0, 202);
    for stream in &mut dawdlers {
        let mut rest = Vec::new();
        let read = timeout(Duration::from_secs(60), stream.read_to_end(&mut rest)).await;
        assert!(read.is_ok(), "it is hung up on");
    }
    world.stop().await;
}

#[tokio::test]
async fn p31_a_sender_takes_the_place_of_one_who_says_nothing() {
    let limits = Limits { head_patience: Duration::from_secs(3600), connections_max: 2 };
    let world = World::with(route(json!({})), |settings| settings.limits = limits).await;
    let _dawdlers = [dawdler(&world, b"P").await, dawdler(&world, b"P").await];
    let answered = timeout(Duration::from_secs(60), world.github("ci", "d-1", &json!({"a": 1}))).await;
    assert_eq!(answered.expect("there is room").0, 202);
    world.stop().await;
}
