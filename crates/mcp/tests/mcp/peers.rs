//! The client with real servers: the reference servers of the protocol, over each transport.

use crate::common::{call, connected, free_port, names, package, python, start, stdio, until};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use throughline_core::tool::Kit;
use throughline_mcp::client::{McpClient, ServerPhase};
use throughline_mcp::settings::{RemoteSettings, ServerReach, ServerSettings};
use tokio::process::{Child, Command};

const EVERYTHING: &str = "@modelcontextprotocol/server-everything";
const FILESYSTEM: &str = "@modelcontextprotocol/server-filesystem";

fn script(package: &Path) -> String {
    package.join("dist/index.js").display().to_string()
}

/// What every transport must carry: text, structure, pictures, resources, prompts and errors.
async fn carries_everything(client: &McpClient, home: &Path) {
    let offered = names(client);
    for tool in ["echo", "get_sum", "list_resources", "read_resource", "list_prompts", "get_prompt"] {
        let name = format!("mcp__every_thing__{tool}");
        assert!(offered.contains(&name), "{name} is not among {offered:?}");
    }
    assert!(offered.is_sorted());
    let echo = client.specs().into_iter().find(|spec| spec.name == "mcp__every_thing__echo").unwrap();
    assert_eq!((echo.toolset.as_str(), echo.repeatable), ("mcp-every-thing", true));
    let schema: Value = serde_json::from_str(echo.parameters.as_str()).unwrap();
    assert_eq!(schema["required"], json!(["message"]));

    let echoed = call(client, "mcp__every_thing__echo", json!({"message": "grüße \"x\""})).await;
    assert_eq!(echoed, r#"{"result": "Echo: grüße \"x\""}"#);
    let summed = call(client, "mcp__every_thing__get_sum", json!({"a": 2, "b": 40})).await;
    assert!(summed.contains("42"), "{summed}");
    let structured: Value = serde_json::from_str(
        &call(client, "mcp__every_thing__get_structured_content", json!({"location": "New York"})).await,
    )
    .unwrap();
    assert!(structured["result"]["temperature"].is_number(), "{structured}");
    let wrong = call(client, "mcp__every_thing__get_sum", json!({"a": "x"})).await;
    assert!(wrong.starts_with(r#"{"error": ""#), "{wrong}");

    let pictured: Value =
        serde_json::from_str(&call(client, "mcp__every_thing__get_tiny_image", json!({})).await).unwrap();
    let text = pictured["result"].as_str().unwrap();
    let path = text.lines().find_map(|line| line.strip_prefix("MEDIA:")).expect("there is a picture");
    assert!(Path::new(path).starts_with(home.join("cache/images")), "{path}");
    assert!(std::fs::read(path).unwrap().starts_with(b"\x89PNG"));

    let linked = call(client, "mcp__every_thing__get_resource_links", json!({"count": 2})).await;
    assert!(linked.contains("[MCP resource link: uri="), "{linked}");
    assert!(linked.contains("— fetch it with mcp__every_thing__read_resource]"), "{linked}");
    let listed: Value =
        serde_json::from_str(&call(client, "mcp__every_thing__list_resources", json!({})).await).unwrap();
    let uri = listed["resources"][0]["uri"].as_str().expect("there is a resource").to_owned();
    let read = call(client, "mcp__every_thing__read_resource", json!({"uri": uri})).await;
    assert!(read.starts_with(r#"{"result": ""#) && read.len() > 40, "{read}");
    assert_eq!(
        call(client, "mcp__every_thing__read_resource", json!({})).await,
        r#"{"error": "Missing required parameter 'uri'"}"#
    );

    let prompts: Value =
        serde_json::from_str(&call(client, "mcp__every_thing__list_prompts", json!({})).await).unwrap();
    let simple = prompts["prompts"][0]["name"].as_str().unwrap().to_owned();
    let prompt: Value =
        serde_json::from_str(&call(client, "mcp__every_thing__get_prompt", json!({"name": simple})).await)
            .unwrap();
    assert_eq!(prompt["messages"][0]["role"], "user", "{prompt}");
    let missing = call(client, "mcp__every_thing__get_prompt", json!({"name": "nonsense"})).await;
    assert!(missing.starts_with(r#"{"error": "MCP call failed: McpError: "#), "{missing}");
}

#[tokio::test]
async fn the_everything_server_is_used_over_stdio() {
    let Some(package) = package(EVERYTHING) else { return };
    let home = tempfile::tempdir().unwrap();
    let settings = stdio("every-thing", "node", &[&script(&package), "stdio"]);
    let client = connected(home.path(), vec![settings]).await;
    carries_everything(&client, home.path()).await;
    let status = client.status();
    assert_eq!((status[0].transport, status[0].error.clone()), ("stdio", None));
    client.stop().await;
    assert_eq!(client.status()[0].phase, ServerPhase::Stopped);
    let log = std::fs::read_to_string(home.path().join("logs/mcp-stderr.log")).unwrap();
    assert!(log.contains("starting MCP server 'every-thing' ====="), "{log}");
}

#[tokio::test]
async fn p31_a_server_gets_its_own_environment_and_not_ours() {
    let Some(package) = package(EVERYTHING) else { return };
    let home = tempfile::tempdir().unwrap();
    let settings = stdio("every-thing", "node", &[&script(&package), "stdio"]);
    let settings = crate::common::with_env(settings, "GIVEN_TO_IT", "a-value-of-its-own");
    let client = connected(home.path(), vec![settings]).await;
    let seen: Value =
        serde_json::from_str(&call(&client, "mcp__every_thing__get_env", json!({})).await).unwrap();
    let seen: Value = serde_json::from_str(seen["result"].as_str().unwrap()).unwrap();
    assert_eq!(seen["GIVEN_TO_IT"], "a-value-of-its-own");
    let allowed = ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TERM", "SHELL", "TMPDIR", "GIVEN_TO_IT"];
    for name in seen.as_object().unwrap().keys() {
        assert!(allowed.contains(&name.as_str()) || name.starts_with("XDG_"), "{name} was passed on");
    }
    client.stop().await;
}

/// A server of its own on a free port, gone with the test.
async fn remote(package: &Path, mode: &str, path: &str) -> (Child, String) {
    let port = free_port();
    let mut command = Command::new("node");
    command.arg(script(package)).arg(mode).env("PORT", port.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let child = command.spawn().expect("node can be started");
    until("the server's port", 20, async || {
        tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok()
    })
    .await;
    (child, format!("http://127.0.0.1:{port}{path}"))
}

#[tokio::test]
async fn the_everything_server_is_used_over_streamable_http() {
    let Some(package) = package(EVERYTHING) else { return };
    let home = tempfile::tempdir().unwrap();
    let (_server, url) = remote(&package, "streamableHttp", "/mcp").await;
    let client = connected(
        home.path(),
        vec![ServerSettings::new("every-thing", ServerReach::Http(RemoteSettings::new(url)))],
    )
    .await;
    carries_everything(&client, home.path()).await;
    client.stop().await;
}

#[tokio::test]
async fn the_everything_server_is_used_over_sse() {
    let Some(package) = package(EVERYTHING) else { return };
    let home = tempfile::tempdir().unwrap();
    let (_server, url) = remote(&package, "sse", "/sse").await;
    let client = connected(
        home.path(),
        vec![ServerSettings::new("every-thing", ServerReach::Sse(RemoteSettings::new(url)))],
    )
    .await;
    carries_everything(&client, home.path()).await;
    client.stop().await;
}

#[tokio::test]
async fn a_remote_server_that_goes_and_comes_back_is_found_again() {
    let Some(package) = package(EVERYTHING) else { return };
    let home = tempfile::tempdir().unwrap();
    for (mode, path) in [("streamableHttp", "/mcp"), ("sse", "/sse")] {
        let (mut server, url) = remote(&package, mode, path).await;
        let port = url.split([':', '/']).nth(4).unwrap().to_owned();
        let reach = if mode == "sse" {
            ServerReach::Sse(RemoteSettings::new(url))
        } else {
            ServerReach::Http(RemoteSettings::new(url))
        };
        let client = connected(home.path(), vec![ServerSettings::new("every-thing", reach)]).await;
        let before = client.specs();
        server.kill().await.unwrap();
        let failed = call(&client, "mcp__every_thing__echo", json!({"message": "x"})).await;
        assert!(failed.starts_with(r#"{"error": "MCP "#), "{failed}");
        assert_eq!(client.specs(), before, "the prompt must not change with the weather");
        let mut command = Command::new("node");
        command.arg(script(&package)).arg(mode).env("PORT", port);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        let _again = command.spawn().unwrap();
        until("the return of the server", 40, async || {
            call(&client, "mcp__every_thing__echo", json!({"message": "x"})).await
                == r#"{"result": "Echo: x"}"#
        })
        .await;
        client.stop().await;
    }
}

#[tokio::test]
async fn the_filesystem_server_reads_and_writes_below_its_root() {
    let Some(package) = package(FILESYSTEM) else { return };
    let home = tempfile::tempdir().unwrap();
    let root = home.path().canonicalize().unwrap().join("files");
    std::fs::create_dir(&root).unwrap();
    std::fs::write(root.join("a.txt"), "hello").unwrap();
    let mut settings = stdio("fs", "node", &[&script(&package), &root.display().to_string()]);
    settings.choice.exclude = vec!["move_file".to_owned()];
    let client = connected(home.path(), vec![settings]).await;
    let read = call(&client, "mcp__fs__read_text_file", json!({"path": root.join("a.txt")})).await;
    let read: Value = serde_json::from_str(&read).unwrap();
    assert_eq!(read["result"], "hello");
    call(&client, "mcp__fs__write_file", json!({"path": root.join("b.txt"), "content": "new"})).await;
    assert_eq!(std::fs::read_to_string(root.join("b.txt")).unwrap(), "new");
    let outside = call(&client, "mcp__fs__read_text_file", json!({"path": "/etc/hostname"})).await;
    assert!(outside.starts_with(r#"{"error": ""#), "{outside}");
    assert!(!names(&client).contains(&"mcp__fs__move_file".to_owned()));
    let specs = client.specs();
    let repeatable = |name: &str| specs.iter().find(|spec| spec.name == name).unwrap().repeatable;
    assert!(repeatable("mcp__fs__read_text_file"));
    assert!(!repeatable("mcp__fs__write_file"));
    client.stop().await;
}

#[tokio::test]
async fn servers_start_side_by_side_and_one_that_cannot_hinders_nobody() {
    if crate::common::skips("python3") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    // Each begins when the other has: a server that is started only after the other is there would not wait.
    let side_by_side = |name: &str, other: &str| {
        let (mine, theirs) = (home.path().join(name), home.path().join(other));
        let begin = format!(
            "def begin():\n    open({mine:?}, 'w')\n    while not os.path.exists({theirs:?}):\n        time.sleep(0.01)"
        );
        python(home.path(), name, &begin)
    };
    let servers = vec![
        side_by_side("a", "b"),
        side_by_side("b", "a"),
        stdio("gone", "no-such-program-anywhere", &[]),
        ServerSettings::new("odd", ServerReach::Http(RemoteSettings::new("ws://x"))),
    ];
    let client = start(home.path(), servers);
    client.settled(Duration::from_secs(60)).await;
    assert_eq!(names(&client), ["mcp__a__act", "mcp__b__act"]);
    let status = client.status();
    assert_eq!(status[2].error.as_deref(), Some("missing executable 'no-such-program-anywhere'"));
    assert_eq!(
        status[3].error.as_deref(),
        Some("Invalid MCP URL for 'odd': scheme must be http or https, got 'ws'")
    );
    client.stop().await;
}
