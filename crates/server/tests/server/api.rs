//! The door itself: the key, health, models, and paths that lead nowhere.

use crate::client::{Api, KEY, options};
use axum::body::Body;
use http::Request;
use serde_json::json;

#[tokio::test]
async fn p31_every_route_but_health_needs_the_key_on_loopback_too() {
    let api = Api::new();
    let bare =
        |method: &str, path: &str| Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
    for (method, path) in [
        ("POST", "/v1/chat/completions"),
        ("POST", "/v1/responses"),
        ("GET", "/v1/responses/resp_x"),
        ("GET", "/v1/models"),
        ("GET", "/v1/models/agent"),
        ("GET", "/api/sessions"),
        ("GET", "/api/sessions/s1"),
        ("GET", "/api/sessions/s1/messages"),
        ("POST", "/api/sessions/s1/commands"),
        ("POST", "/api/sessions/s1/restore"),
        ("GET", "/api/sessions/search?q=x"),
        ("GET", "/api/search?q=x"),
        ("POST", "/api/control/chat"),
        ("GET", "/api/control/status"),
        ("GET", "/api/control/why?message=x"),
        ("GET", "/api/control/counts"),
        ("GET", "/api/control/check"),
        ("GET", "/nowhere"),
        ("DELETE", "/v1/models"),
    ] {
        let reply = api.send(bare(method, path)).await;
        let (status, code, message) = reply.error();
        assert_eq!((status, code.as_str()), (401, "invalid_api_key"), "{method} {path}");
        assert_eq!(reply.header("www-authenticate"), "Bearer");
        assert!(!message.contains(KEY));
    }
    for path in ["/health", "/v1/health", "/health/ready"] {
        assert_eq!(api.send(bare("GET", path)).await.status, 200, "{path}");
    }
    let mut wrong = bare("GET", "/v1/models");
    wrong.headers_mut().insert("authorization", "Bearer the-key-of-the-tesT".parse().unwrap());
    assert_eq!(api.send(wrong).await.status, 401);
    assert!(api.api.state().questions.is_empty() && api.api.state().submissions.is_empty());
}

#[tokio::test]
async fn p31_without_a_key_nobody_comes_in() {
    let api = Api::with(throughline_server::ServerOptions { api_key: String::new(), ..options() });
    let mut request = Request::builder().uri("/v1/models").body(Body::empty()).unwrap();
    for value in ["Bearer ", "Bearer x", ""] {
        request.headers_mut().insert("authorization", value.parse().unwrap());
        let again =
            Request::builder().uri("/v1/models").header("authorization", value).body(Body::empty()).unwrap();
        assert_eq!(api.send(again).await.status, 401);
    }
}

#[tokio::test]
async fn health_says_whether_a_message_would_be_accepted_and_why_not() {
    let api = Api::new();
    assert_eq!(
        api.get("/health").await.json(),
        json!({"status": "ok", "platform": "throughline", "version": "1.2.3"})
    );
    assert_eq!(api.get("/health/ready").await.json(), json!({"status": "ready"}));
    api.api.state().status.ready = false;
    let reply = api.get("/health/ready").await;
    assert_eq!((reply.status.as_u16(), reply.text.contains("starting")), (503, true));
    api.api.state().status.unwritable = Some("no space left".into());
    assert_eq!(api.get("/health/ready").await.json()["reason"], "unwritable: no space left");
    api.api.state().status.draining = true;
    assert_eq!(api.get("/health/ready").await.json()["reason"], "draining: the gateway is stopping");
    assert_eq!(api.get("/health").await.status, 200, "it is still there");
}

#[tokio::test]
async fn the_agent_is_listed_as_a_model() {
    let api = Api::new();
    let list = api.get("/v1/models").await.json();
    assert_eq!((&list["object"], &list["data"][0]["id"]), (&json!("list"), &json!("agent")));
    assert_eq!(api.get("/v1/models/agent").await.json()["object"], "model");
    assert_eq!(api.get("/v1/models/gpt").await.error().1, "model_not_found");
}

#[tokio::test]
async fn what_leads_nowhere_says_so_in_openais_shape() {
    let api = Api::new();
    assert_eq!(api.get("/v1/completions").await.error().0, 404);
    assert_eq!(api.get("/v1/chat/completions").await.error().0, 405);
    assert_eq!(api.get("/api/sessions?limit=many").await.error().1, "invalid_query");
    assert_eq!(api.get("/api/sessions/%ff").await.error().1, "invalid_path");
}
