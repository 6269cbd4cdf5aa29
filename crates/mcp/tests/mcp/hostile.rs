//! The client with servers that mean ill, or cannot do better: each call ends in a result that a
//! model can act on, and the next one finds a server that works again.

mod http;

use crate::common::{
    a_call, call, connected, free_port, is_alive, names, python, skips, start, stdio, until, with_env,
};
use http::web;
use serde_json::json;
use std::path::Path;
use std::time::Duration;
use throughline_core::tool::Kit;
use throughline_mcp::client::{McpSurroundings, ServerPhase};
use throughline_mcp::settings::{RemoteSettings, ServerReach, ServerSettings};

/// Misbehaves at the first call of all, and not in its next life.
fn once(behaviour: &str) -> String {
    format!(
        r#"
def call(id, name, arguments):
    if os.path.exists(os.environ["MARK"]):
        return text(id, "done")
    open(os.environ["MARK"], "w").close()
    misbehave(id)

def misbehave(id):
{behaviour}
"#
    )
}

fn misbehaving(home: &Path, behaviour: &str) -> ServerSettings {
    let mark = home.join("mark").display().to_string();
    with_env(python(home, "bad", &once(behaviour)), "MARK", &mark)
}

#[tokio::test]
async fn p9_a_server_that_dies_mid_call_is_started_again_and_the_call_is_not() {
    if skips("python3") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let client = connected(home.path(), vec![misbehaving(home.path(), "    os._exit(3)")]).await;
    let failed = call(&client, "mcp__bad__act", json!({})).await;
    assert_eq!(
        failed,
        r#"{"error": "MCP call failed: ConnectionError: the connection to MCP server 'bad' was lost: its process ended (exit status: 3). Whether the call took effect is not known; the server is being connected again."}"#
    );
    let (told, _) = client.status().remove(0).last_error.unwrap();
    assert!(
        told.ends_with("its process ended (exit status: 3)") && told.len() < 60,
        "people are told: {told}"
    );
    assert_eq!(call(&client, "mcp__bad__act", json!({})).await, r#"{"result": "done"}"#);
    client.stop().await;
}

#[tokio::test]
async fn p30_people_read_where_a_connection_was_refused_and_the_model_what_to_do() {
    let (port, home) = (free_port(), tempfile::tempdir().unwrap());
    let remote = || RemoteSettings::new(format!("http://127.0.0.1:{port}/mcp?key=secret-of-the-address"));
    let https = RemoteSettings::new(format!("https://127.0.0.1:{port}/mcp"));
    for (reach, before) in [
        (ServerReach::Http(remote()), ""),
        (ServerReach::Http(https), ""),
        (ServerReach::Sse(remote()), "the event stream could not be opened: "),
    ] {
        let mut settings = ServerSettings::new("gone", reach);
        settings.timeout = Duration::from_secs(1);
        let client = start(home.path(), vec![settings]);
        client.settled(Duration::from_secs(20)).await;
        let status = client.status().remove(0);
        let told = format!("{before}connection refused at 127.0.0.1:{port}: no program listens there");
        assert_eq!(status.error.as_deref(), Some(told.as_str()));
        assert_eq!(status.last_error.map(|(told, _)| told), status.error);
        client.stop().await;
    }
}

#[tokio::test]
async fn p30_what_is_told_of_a_secure_connection_that_fails_names_no_type_of_the_program() {
    if skips("python3") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let (_server, url) = web(home.path(), "    pass").await;
    let secure = RemoteSettings::new(url.replace("http:", "https:"));
    let nowhere = RemoteSettings::new("http://no.such.host.invalid/mcp");
    for (remote, expected) in [
        (secure, "no safe connection to 127.0.0.1:"),
        (nowhere, "no.such.host.invalid:80 cannot be reached: "),
    ] {
        let client = start(home.path(), vec![ServerSettings::new("w", ServerReach::Http(remote))]);
        client.settled(Duration::from_secs(30)).await;
        let told = client.status().remove(0).error.unwrap();
        assert!(told.starts_with(expected), "{told}");
        assert!(!told.contains("::") && !told.contains("rmcp") && !told.contains("os error"), "{told}");
        client.stop().await;
    }
}

#[tokio::test]
async fn a_server_that_hangs_costs_its_timeout_and_is_replaced() {
    if skips("python3") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let mut settings = misbehaving(home.path(), "    time.sleep(1000)");
    settings.timeout = Duration::from_secs(1);
    let client = connected(home.path(), vec![settings]).await;
    let failed = call(&client, "mcp__bad__act", json!({})).await;
    // How long it took is measured, and a busy machine adds to it.
    assert!(failed.contains("MCP call failed: TimeoutError: MCP call timed out after "), "{failed}");
    assert!(failed.contains("s (configured timeout: 1.0s)"), "{failed}");
    let (told, _) = client.status().remove(0).last_error.unwrap();
    assert_eq!(
        told, "a call failed: it did not answer in time",
        "people are told what happened, not what to do"
    );
    until("the replacement of a hanging server", 60, async || {
        client.status()[0].phase == ServerPhase::Connected
            && call(&client, "mcp__bad__act", json!({})).await == r#"{"result": "done"}"#
    })
    .await;
    client.stop().await;
}

#[tokio::test]
async fn a_call_that_reports_progress_may_take_longer_than_its_timeout() {
    if skips("python3") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    // Twice its timeout in all; never as long as that without a word.
    let slow = r#"
def call(id, name, arguments):
    token = message["params"]["_meta"]["progressToken"]
    for step in range(8):
        time.sleep(1)
        if name == "loud":
            send({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": step}})
    text(id, "done")

def tools():
    return [{"name": name, "inputSchema": {"type": "object"}} for name in ("loud", "mute")]
"#;
    let mut settings = python(home.path(), "s", slow);
    settings.timeout = Duration::from_secs(4);
    let client = connected(home.path(), vec![settings]).await;
    assert_eq!(call(&client, "mcp__s__loud", json!({})).await, r#"{"result": "done"}"#);
    let mute = call(&client, "mcp__s__mute", json!({})).await;
    assert!(mute.contains("MCP call timed out after 4."), "{mute}");
    client.stop().await;
}

#[tokio::test]
async fn a_server_that_logs_is_told_how_much_is_heard_and_others_are_not() {
    if skips("python3") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let (heard, unheard) = (home.path().join("heard"), home.path().join("unheard"));
    let logs = |name: &str, behaviour: &str, log: &Path| {
        crate::common::with_env(python(home.path(), name, behaviour), "LOG", &log.display().to_string())
    };
    let servers =
        vec![logs("logs", "capabilities = {'tools': {}, 'logging': {}}", &heard), logs("mute", "", &unheard)];
    let client = connected(home.path(), servers).await;
    let heard = std::fs::read_to_string(heard).unwrap();
    assert!(
        heard.contains(r#""method":"logging/setLevel""#) && heard.contains(r#""level":"info""#),
        "{heard}"
    );
    assert!(!std::fs::read_to_string(unheard).unwrap().contains("setLevel"));
    client.stop().await;
}

#[tokio::test]
async fn servers_and_tools_that_are_written_alike_are_all_reached_and_the_clashes_are_named() {
    if skips("python3") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let server = |file: &str, name: &str, tool: &str| {
        let behaviour = format!(
            "def tools():\n    return [{{'name': {tool:?}, 'inputSchema': {{'type': 'object'}}}}]\n\n\
             def call(id, name, arguments):\n    text(id, {file:?})"
        );
        ServerSettings { name: name.to_owned(), ..python(home.path(), file, &behaviour) }
    };
    let long = "x".repeat(90);
    let servers = vec![
        server("one", "a-b", "c"),
        server("two", "a.b", "c"),
        server("three", "a", "b__c"),
        server("four", "a__b", "c"),
        server("five", "five", &long),
    ];
    let client = connected(home.path(), servers).await;
    let offered = names(&client);
    assert!(offered.len() == 5 && offered.iter().all(|name| name.len() <= 64), "{offered:?}");
    let mut reached = Vec::new();
    for name in &offered {
        reached.push(call(&client, name, json!({})).await);
    }
    reached.sort();
    let expected =
        ["five", "four", "one", "three", "two"].map(|server| format!(r#"{{"result": "{server}"}}"#));
    assert_eq!(reached, expected);
    assert!(offered.contains(&"mcp__a_b__c".to_owned()) && offered.contains(&"mcp__a__b__c".to_owned()));
    let status = client.status();
    for (server, expected) in [
        (1, "another server's name is written like this one's"),
        (3, "another server's tool is already called"),
    ] {
        assert!(
            status[server].remarks.iter().any(|remark| remark.contains(expected)),
            "{:?}",
            status[server]
        );
        assert!(offered.contains(&status[server].tools[0]), "{:?}", status[server]);
    }
    client.stop().await;
}

#[tokio::test]
async fn a_flood_without_end_is_cut_off_and_costs_no_memory() {
    if skips("python3") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let flood = "    for _ in range(100):\n        sys.stdout.write('x' * (1 << 20))\n    sys.stdout.flush()";
    let client = connected(home.path(), vec![misbehaving(home.path(), flood)]).await;
    let failed = call(&client, "mcp__bad__act", json!({})).await;
    assert!(failed.contains("was lost: it sent a message of more than 16 MB"), "{failed}");
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak_kb: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak_kb < 250_000, "{peak_kb} kB were in use");
    assert_eq!(call(&client, "mcp__bad__act", json!({})).await, r#"{"result": "done"}"#);
    client.stop().await;
}

#[tokio::test]
async fn garbage_between_messages_is_passed_over_and_as_an_answer_it_is_an_error() {
    if skips("python3") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let noisy = r#"
def begin():
    print("Welcome to the server!", flush=True)

def call(id, name, arguments):
    sys.stdout.write("not json\n{\"jsonrpc\": 3}\n[]\n\n\"x\"\n")
    sys.stdout.buffer.write(b"\xff\xfe\n")
    if name == "act":
        text(id, "done")
    else:
        reply(id, "nonsense")

def tools():
    return [{"name": "act", "inputSchema": {"type": "object"}}, {"name": "lie", "inputSchema": {"type": "object"}},
            {"nonsense": 1}, {"name": "bare"}]
"#;
    let client = connected(home.path(), vec![python(home.path(), "n", noisy)]).await;
    assert_eq!(names(&client), ["mcp__n__act", "mcp__n__bare", "mcp__n__lie"]);
    assert_eq!(call(&client, "mcp__n__act", json!({})).await, r#"{"result": "done"}"#);
    assert_eq!(
        call(&client, "mcp__n__lie", json!({})).await,
        r#"{"error": "MCP call failed: what MCP server 'n' answered is no result of a tool"}"#
    );
    client.stop().await;
}

#[tokio::test]
async fn a_list_of_tools_that_changes_is_followed() {
    if skips("python3") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let changing = r#"
grown = False

def tools():
    named = ["zebra", "new"] if grown else ["zebra", "old"]
    return [{"name": name, "inputSchema": {"type": "object", "properties": {name: {"type": "string"}}}} for name in named]

def call(id, name, arguments):
    global grown
    if name not in [tool["name"] for tool in tools()]:
        return send({"jsonrpc": "2.0", "id": id, "error": {"code": -32602, "message": "Unknown tool " + name}})
    grown = True
    send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    text(id, "grown")
"#;
    let client = connected(home.path(), vec![python(home.path(), "c", changing)]).await;
    assert_eq!(names(&client), ["mcp__c__old", "mcp__c__zebra"]);
    assert_eq!(call(&client, "mcp__c__zebra", json!({})).await, r#"{"result": "grown"}"#);
    until("the new list", 10, async || names(&client) == ["mcp__c__new", "mcp__c__zebra"]).await;
    assert_eq!(
        call(&client, "mcp__c__old", json!({})).await,
        r#"{"error": "No MCP server offers 'mcp__c__old' any more. Use one of the tools that are listed now."}"#
    );
    client.stop().await;
}

#[tokio::test]
async fn p4_a_reload_brings_the_servers_that_are_named_now_and_ends_the_others() {
    if skips("python3") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let calls = "def call(id, name, arguments):\n    text(id, str(os.getpid()))\n";
    let client = connected(home.path(), vec![python(home.path(), "old", calls)]).await;
    let before = client.revision();
    let told = call(&client, "mcp__old__act", json!({})).await;
    let pid: String = told.chars().filter(char::is_ascii_digit).collect();
    let surroundings =
        McpSurroundings { home: home.path().to_owned(), environment: std::env::vars().collect(), asks: true };
    client.reload(vec![python(home.path(), "new", calls)], surroundings).await;
    client.settled(Duration::from_secs(20)).await;
    assert_eq!(names(&client), ["mcp__new__act"]);
    assert!(client.revision() > before, "a client that has listed the tools lists them again");
    assert_eq!(
        client.status().iter().map(|server| server.phase).collect::<Vec<_>>(),
        [ServerPhase::Connected]
    );
    assert!(call(&client, "mcp__new__act", json!({})).await.contains("result"));
    assert!(call(&client, "mcp__old__act", json!({})).await.contains("any more"));
    until("the old process has gone", 10, async || !is_alive(&pid)).await;
    client.stop().await;
}

#[tokio::test]
async fn p6_a_server_that_is_down_offers_what_it_offered_last_and_its_calls_say_so() {
    if skips("python3") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let client = connected(home.path(), vec![python(home.path(), "s", "")]).await;
    let before = client.specs();
    client.stop().await;

    let mut down = stdio("s", "no-such-program-anywhere", &[]);
    down.timeout = Duration::from_secs(2);
    let client = start(home.path(), vec![down]);
    assert_eq!(client.specs(), before, "at once, before anything was reached");
    client.settled(Duration::from_secs(60)).await;
    assert_eq!(client.specs(), before);
    let failed = call(&client, "mcp__s__act", json!({})).await;
    assert_eq!(
        failed,
        r#"{"error": "MCP server 's' transport is down; reconnect requested. Do NOT retry this tool immediately — give it a few seconds to come back. Last error: missing executable 'no-such-program-anywhere'"}"#
    );
    for _ in 0..2 {
        call(&client, "mcp__s__act", json!({})).await;
    }
    let refused = call(&client, "mcp__s__act", json!({})).await;
    assert!(
        refused.contains("is unreachable after 3 consecutive failures. Auto-retry available in ~"),
        "{refused}"
    );
    client.stop().await;
}

#[tokio::test]
async fn a_call_waits_for_a_server_that_is_slow_to_start() {
    if skips("python3") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let client = connected(home.path(), vec![python(home.path(), "s", "")]).await;
    client.stop().await;
    let client = start(home.path(), vec![python(home.path(), "s", "def begin():\n    time.sleep(7)")]);
    assert_eq!(call(&client, "mcp__s__act", json!({})).await, r#"{"result": "done"}"#);
    client.stop().await;
}

#[tokio::test]
async fn a_server_that_never_answers_the_handshake_fails_in_time_and_leaves_nothing_behind() {
    if skips("python3") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let pid = home.path().join("pid");
    let silent = format!(
        "def begin():\n    open({:?}, 'w').write(str(os.getpid()))\n    time.sleep(1000)",
        pid.display().to_string()
    );
    let mut settings = python(home.path(), "s", &silent);
    settings.connect_timeout = Duration::from_secs(5); // a busy machine has to start Python first
    let client = start(home.path(), vec![settings]);
    client.settled(Duration::from_secs(60)).await;
    let status = client.status();
    assert_eq!(status[0].error.as_deref(), Some("it was not ready within 5 s (connect_timeout)"));
    let pid = std::fs::read_to_string(pid).unwrap();
    until("its end", 60, async || !is_alive(&pid)).await;
    client.stop().await;
}

#[tokio::test]
async fn p4_a_call_that_is_dropped_is_cancelled_at_its_server() {
    if skips("python3") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let log = home.path().join("received");
    // It reads on while it works, as a server should.
    let settings = python(home.path(), "s", "def call(id, name, arguments):\n    pass");
    let client = connected(home.path(), vec![with_env(settings, "LOG", &log.display().to_string())]).await;
    let received = || std::fs::read_to_string(&log).unwrap_or_default();
    {
        let asked = a_call("mcp__s__act", json!({}));
        let mut promise = client.call(&asked);
        let sent = until("the call", 60, async || received().contains("tools/call"));
        tokio::select! {
            _ = &mut promise => panic!("it has no answer"),
            () = sent => {}
        }
    }
    until("the notice", 60, async || received().contains("notifications/cancelled")).await;
    let line = received().lines().find(|line| line.contains("tools/call")).unwrap().to_owned();
    let asked: serde_json::Value = serde_json::from_str(&line).unwrap();
    let line = received().lines().find(|line| line.contains("notifications/cancelled")).unwrap().to_owned();
    let notice: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(notice["params"]["requestId"], asked["id"]);
    client.stop().await;
}

#[tokio::test]
async fn processes_end_with_the_client_and_their_children_too() {
    if skips("python3") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let pids = home.path().join("pids");
    // One that does not leave when its input ends, with a child of its own.
    let stubborn = format!(
        r#"
import signal, subprocess
def begin():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen(["sleep", "1000"])
    open({:?}, "w").write(f"{{os.getpid()}} {{child.pid}}")

import atexit
atexit.register(lambda: time.sleep(1000))
"#,
        pids.display().to_string()
    );
    for is_stopped in [true, false] {
        let client = connected(home.path(), vec![python(home.path(), "s", &stubborn)]).await;
        let written = std::fs::read_to_string(&pids).unwrap();
        assert!(written.split(' ').all(is_alive));
        match is_stopped {
            true => client.stop().await,
            false => drop(client),
        }
        until("the end of both", 60, async || !written.split(' ').any(is_alive)).await;
    }
}

#[tokio::test]
async fn a_process_that_nobody_calls_rests_and_wakes_with_the_next_call() {
    if skips("python3") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let mut settings =
        python(home.path(), "s", "def call(id, name, arguments):\n    text(id, str(os.getpid()))");
    settings.idle_max = Some(Duration::from_secs(1));
    let client = connected(home.path(), vec![settings]).await;
    let first = call(&client, "mcp__s__act", json!({})).await;
    until("its rest", 60, async || client.status()[0].phase == ServerPhase::Resting).await;
    assert_eq!(names(&client), ["mcp__s__act"]);
    let second = call(&client, "mcp__s__act", json!({})).await;
    assert!(second.starts_with(r#"{"result": ""#) && second != first, "{first} {second}");
    client.stop().await;
}

#[tokio::test]
async fn p31_what_was_given_to_a_server_does_not_come_back_in_its_errors() {
    if skips("python3") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let telling = r#"
def call(id, name, arguments):
    if arguments.get("protocol"):
        return send({"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "message": "bad key " + os.environ["API_SECRET"]}})
    reply(id, {"isError": True, "content": [{"type": "text", "text": "bad key " + os.environ["API_SECRET"]}]})
"#;
    let settings = with_env(python(home.path(), "s", telling), "API_SECRET", "hunter2-hunter2");
    let client = connected(home.path(), vec![settings]).await;
    assert_eq!(call(&client, "mcp__s__act", json!({})).await, r#"{"error": "bad key [REDACTED]"}"#);
    assert_eq!(
        call(&client, "mcp__s__act", json!({"protocol": true})).await,
        r#"{"error": "MCP call failed: McpError: bad key [REDACTED]"}"#
    );
    client.stop().await;
}

#[tokio::test]
async fn p31_a_server_that_wants_a_completion_or_the_user_is_declined_and_goes_on() {
    if skips("python3") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let asking = r#"
def ask(method, params):
    send({"jsonrpc": "2.0", "id": method, "method": method, "params": params})
    while True:
        answer = json.loads(sys.stdin.readline())
        if answer.get("id") == method:
            return answer

def call(id, name, arguments):
    sampled = ask("sampling/createMessage", {"messages": [{"role": "user", "content": {"type": "text", "text": "x"}}], "maxTokens": 9})
    asked = ask("elicitation/create", {"message": "your password?", "requestedSchema": {"type": "object", "properties": {"p": {"type": "string"}}}})
    text(id, f"{sampled['error']['code']} {asked['result']['action']}")
"#;
    let client = connected(home.path(), vec![python(home.path(), "s", asking)]).await;
    assert_eq!(call(&client, "mcp__s__act", json!({})).await, r#"{"result": "-32601 decline"}"#);
    client.stop().await;
}

#[tokio::test]
async fn calls_of_one_server_wait_for_each_other_unless_it_takes_several() {
    if skips("python3") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let counting = r#"
import threading
running, most, lock = 0, 0, threading.Lock()
together = int(os.environ["TOGETHER"])

def work(id):
    global running, most
    with lock:
        running += 1
        most = max(most, running)
    # Those who may be there together wait for each other, and nobody else comes.
    began = time.time()
    while most < together and time.time() - began < 60:
        time.sleep(0.01)
    time.sleep(0.3)
    with lock:
        running -= 1
    text(id, str(most))

def call(id, name, arguments):
    threading.Thread(target=work, args=(id,)).start()
"#;
    for (parallel, together) in [(false, "1"), (true, "3")] {
        let mut settings = with_env(python(home.path(), "s", counting), "TOGETHER", together);
        settings.parallel = parallel;
        settings.timeout = Duration::from_secs(120);
        let client = connected(home.path(), vec![settings]).await;
        let calls = (0..3).map(|_| call(&client, "mcp__s__act", json!({})));
        let results = futures_util::future::join_all(calls).await;
        assert_eq!(results.iter().max().unwrap(), &format!(r#"{{"result": "{together}"}}"#));
        client.stop().await;
    }
}

#[tokio::test]
async fn arguments_that_are_none_are_refused_before_anything_is_called() {
    if skips("python3") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let log = home.path().join("received");
    let settings = with_env(python(home.path(), "s", ""), "LOG", &log.display().to_string());
    let client = connected(home.path(), vec![settings]).await;
    let refused = call(&client, "mcp__s__act", json!([1])).await;
    assert_eq!(refused, r#"{"error": "The arguments of a tool must be a JSON object. Nothing was called."}"#);
    let mut broken = a_call("mcp__s__act", json!({}));
    broken.arguments = r#"{"a": "#.to_owned();
    let throughline_core::tool::Returned::Done(done) = client.call(&broken).await else {
        panic!("no result")
    };
    assert!(done.content.plain().starts_with(r#"{"error": "The arguments are not valid JSON"#));
    assert!(!std::fs::read_to_string(&log).unwrap().contains("tools/call"));
    client.stop().await;
}
