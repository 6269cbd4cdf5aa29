use super::*;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use throughline_core::input::Task;
use throughline_core::message::JsonText;
use throughline_core::tool::Question;
use throughline_hermes::config::Config;

/// A kit that does what its tools are called for, and counts.
struct TestKit {
    specs: Mutex<Vec<Spec>>,
    calls: AtomicUsize,
}

impl TestKit {
    fn of(tools: &[(&str, &str)]) -> Arc<Self> {
        let specs = tools.iter().map(|(name, toolset)| spec(name, toolset)).collect();
        Arc::new(Self { specs: Mutex::new(specs), calls: AtomicUsize::new(0) })
    }
}

impl Kit for TestKit {
    fn specs(&self) -> Vec<Spec> {
        self.specs.lock().unwrap().clone()
    }

    fn revision(&self) -> u64 {
        self.specs.lock().unwrap().len() as u64
    }

    fn call<'a>(&'a self, call: &'a Call) -> Promise<'a, Returned> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        if call.name == "memory" {
            panic!("before the promise");
        }
        Box::pin(async move {
            match call.name.as_str() {
                "todo" => panic!("inside the promise"),
                "clarify" => Returned::Ask {
                    question: Question::Clarify { question: "which?".to_owned(), choices: Vec::new() },
                    patience: Duration::from_secs(1),
                },
                "process" => Returned::text("x".repeat(200_000)),
                _ => Returned::text(format!("{} {}", call.name, call.arguments)),
            }
        })
    }
}

fn spec(name: &str, toolset: &str) -> Spec {
    let parameters = json!({
        "type": "object",
        "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["path"],
    });
    Spec {
        name: name.to_owned(),
        toolset: toolset.to_owned(),
        description: format!("What \"{name}\" does"),
        parameters: JsonText::from_valid(parameters.to_string()),
        repeatable: name.starts_with("read"),
    }
}

const ALL: [(&str, &str); 12] = [
    ("terminal", "terminal"),
    ("process", "terminal"),
    ("read_file", "file"),
    ("write_file", "file"),
    ("skills_list", "skills"),
    ("todo", "todo"),
    ("memory", "memory"),
    ("session_search", "session_search"),
    ("clarify", "clarify"),
    ("delegate_task", "delegation"),
    ("send_message", "messaging"),
    ("mcp__github__push", "mcp-github"),
];

const SERVERS: &str = "mcp_servers: {github: {command: x}, files: {command: x}}\n";

struct ToolboxFixture {
    toolbox: Toolbox,
    drawer: Arc<TestKit>,
    _home: tempfile::TempDir,
}

fn bench(yaml: &str) -> ToolboxFixture {
    let config = Config::parse(&format!("{SERVERS}{yaml}"), &|_| None).unwrap();
    let drawer = TestKit::of(&ALL);
    let home = tempfile::tempdir().unwrap();
    let gate = ToolAccess::of_settings(&config.tools);
    let toolbox = Toolbox::new(vec![drawer.clone()], gate, Arc::new(SpillDirectory::new(home.path())));
    ToolboxFixture { toolbox, drawer, _home: home }
}

fn caller(source: &str, task: Option<Task>) -> Caller {
    Caller { task, ..Caller::in_private("20260101_000000_aaaaaaaa".parse().unwrap(), source) }
}

fn task(depth: u32, toolsets: Option<&[&str]>) -> Option<Task> {
    let toolsets = toolsets.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
    Some(Task {
        parent: "20260101_000000_bbbbbbbb".parse().unwrap(),
        source: "cli".into(),
        tokens_max: None,
        depth,
        steps_max: 5,
        toolsets,
    })
}

fn offered(toolbox: &Toolbox, caller: &Caller) -> Vec<String> {
    toolbox.offer(caller).map(|offer| offer.names.clone()).unwrap_or_default()
}

async fn call(toolbox: &Toolbox, caller: Caller, name: &str, arguments: &str) -> String {
    let call = Call {
        key: "session/1/1/0".to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
        caller,
        grant: None,
    };
    match toolbox.call(&call).await {
        Returned::Done(done) => match done.content {
            Content::Text(text) => text,
            other => panic!("{other:?}"),
        },
        Returned::Ask { question, .. } => format!("{question:?}"),
    }
}

#[tokio::test]
async fn p31_what_is_off_is_neither_offered_nor_run_on_any_platform() {
    for platform in ["cli", "telegram", "discord", "slack", "api_server", "cron", "webhook"] {
        for (disabled, tool) in [
            ("terminal", "terminal"),
            ("file", "write_file"),
            ("skills", "skills_list"),
            ("memory", "memory"),
            ("delegation", "delegate_task"),
            ("messaging", "send_message"),
            ("github", "mcp__github__push"),
        ] {
            let bench = bench(&format!("agent: {{disabled_toolsets: [{disabled}]}}"));
            let caller = caller(platform, None);
            assert!(!offered(&bench.toolbox, &caller).contains(&tool.to_owned()), "{tool} at {platform}");
            let result = call(&bench.toolbox, caller, tool, r#"{"path":"x"}"#).await;
            let told = format!("Tool '{tool}' is not available in this session. Available tools: ");
            assert!(result.starts_with(&told), "{tool} at {platform}: {result}");
            assert_eq!(bench.drawer.calls.load(Ordering::SeqCst), 0);
        }
    }
}

#[tokio::test]
async fn what_is_offered_is_what_runs() {
    for platform in ["cli", "telegram", "api_server", "cron", "webhook", "nosuch"] {
        let bench = bench("platform_toolsets: {telegram: [file, github]}");
        let offered = offered(&bench.toolbox, &caller(platform, None));
        for (tool, _) in ALL {
            let before = bench.drawer.calls.load(Ordering::SeqCst);
            call(&bench.toolbox, caller(platform, None), tool, r#"{"path":"x"}"#).await;
            let ran = bench.drawer.calls.load(Ordering::SeqCst) > before;
            assert_eq!(ran, offered.contains(&tool.to_owned()), "{tool} at {platform}");
        }
    }
    let bench = bench("platform_toolsets: {telegram: [file, github]}");
    assert_eq!(
        offered(&bench.toolbox, &caller("telegram", None)),
        ["read_file", "write_file", "mcp__github__push"]
    );
    let closed = self::bench("platform_toolsets: {telegram: []}\nagent: {disabled_toolsets: [all]}");
    assert!(closed.toolbox.offer(&caller("telegram", None)).is_none(), "no empty list");
}

#[tokio::test]
async fn a_child_has_what_its_task_says_and_never_what_no_child_has() {
    let bench = bench("delegation: {max_spawn_depth: 2}");
    let names = |task| offered(&bench.toolbox, &caller("cli", task));
    let forbidden = ["memory", "clarify", "delegate_task", "send_message"];
    let all = names(task(1, None));
    assert!(
        all.contains(&"terminal".to_owned())
            && forbidden.iter().all(|name| !all.contains(&(*name).to_owned()))
    );
    assert_eq!(names(task(1, Some(&["file"]))), ["read_file", "write_file", "mcp__github__push"]);
    assert_eq!(names(task(1, Some(&["delegation"]))), ["delegate_task", "mcp__github__push"]);
    assert_eq!(names(task(2, Some(&["delegation"]))), ["mcp__github__push"], "too deep");
    let result = call(&bench.toolbox, caller("cli", task(1, None)), "clarify", r#"{"path":"x"}"#).await;
    assert!(result.contains("is not available in this session"), "{result}");
    for (yaml, depth) in [("", 1), ("delegation: {max_spawn_depth: 3, orchestrator_enabled: false}", 1)] {
        let bench = self::bench(yaml);
        let names = offered(&bench.toolbox, &caller("cli", task(depth, Some(&["delegation"]))));
        assert!(!names.contains(&"delegate_task".to_owned()), "{yaml}");
    }
    let alone = self::bench("delegation: {inherit_mcp_toolsets: false}");
    assert_eq!(
        offered(&alone.toolbox, &caller("cli", task(1, Some(&["file"])))),
        ["read_file", "write_file"]
    );
}

#[tokio::test]
async fn invalid_calls_get_a_result_that_the_model_can_act_on() {
    let bench = bench("platform_toolsets: {cli: [file, no_mcp]}");
    for (name, arguments, expected) in [
        (
            "nothing_like_it",
            "{}",
            "Tool 'nothing_like_it' does not exist. Available tools: read_file, write_file",
        ),
        (
            "read_fil",
            "{}",
            "Tool 'read_fil' does not exist. Did you mean 'read_file'? Available tools: read_file, write_file",
        ),
        ("  ", "{}", "Tool call rejected: the tool name was empty."),
        ("read_file", "{\"path\":", "Invalid JSON arguments."),
        ("read_file", "[1]", "error"),
        ("read_file", "{}", "path"),
        ("read_file", r#"{"path":"x","limit":"many"}"#, "limit"),
    ] {
        let result = call(&bench.toolbox, caller("cli", None), name, arguments).await;
        assert!(result.contains(expected), "{name} {arguments}: {result}");
    }
    assert_eq!(bench.drawer.calls.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn arguments_arrive_as_the_schema_wants_them_and_names_as_they_were_meant() {
    let bench = bench("");
    let result =
        call(&bench.toolbox, caller("cli", None), "ReadFile_tool", r#"{"path":"x","limit":"7"}"#).await;
    assert_eq!(result, r#"read_file {"path":"x","limit":7}"#);
    assert!(bench.toolbox.is_repeatable("ReadFile_tool") && !bench.toolbox.is_repeatable("write_file"));
    assert!(!bench.toolbox.is_repeatable("nosuch"));
}

#[tokio::test]
async fn a_tool_that_panics_has_failed_and_the_next_call_works() {
    let bench = bench("");
    for tool in ["todo", "memory"] {
        let result = call(&bench.toolbox, caller("cli", None), tool, r#"{"path":"x"}"#).await;
        let error: Value = serde_json::from_str(&result).unwrap();
        assert!(
            error["error"].as_str().unwrap().starts_with(&format!("[TOOL_ERROR] Error executing {tool}: "))
        );
    }
    let result = call(&bench.toolbox, caller("cli", None), "terminal", r#"{"path":"x"}"#).await;
    assert_eq!(result, r#"terminal {"path":"x"}"#);
}

#[tokio::test]
async fn long_results_are_kept_elsewhere_and_questions_pass() {
    let bench = bench("");
    let result = call(&bench.toolbox, caller("cli", None), "process", r#"{"path":"x"}"#).await;
    assert!(result.len() < 10_000, "{}", result.len());
    let question = call(&bench.toolbox, caller("cli", None), "clarify", r#"{"path":"x"}"#).await;
    assert!(question.contains("which?"), "{question}");
    let foreign =
        call(&bench.toolbox, caller("cli", None), "mcp__github__push", r#"{"path":"a long enough answer"}"#)
            .await;
    assert!(foreign.starts_with("<untrusted_tool_result source=\"mcp__github__push\">"), "{foreign}");
}

#[test]
fn the_list_is_the_same_bytes_until_the_tools_change() {
    let one = bench("");
    let other = bench("");
    let list = |bench: &ToolboxFixture| bench.toolbox.offer(&caller("cli", None)).unwrap();
    let first = list(&one);
    assert_eq!(first, list(&other), "after a restart");
    assert!(Arc::ptr_eq(&first, &list(&one)), "kept");
    let parsed: Vec<Value> = serde_json::from_str(first.list.as_str()).unwrap();
    let names: Vec<_> =
        parsed.iter().map(|entry| entry["function"]["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(names, first.names);
    assert!(first.list.as_str().starts_with(
        r#"[{"type":"function","function":{"name":"terminal","description":"What \"terminal\" does","parameters":{"type":"object","#
    ));
    one.drawer.specs.lock().unwrap().push(spec("mcp__files__z", "mcp-files"));
    let grown = list(&one);
    assert_eq!(grown.names.last().map(String::as_str), Some("mcp__github__push"), "servers' tools by name");
    assert!(grown.names.contains(&"mcp__files__z".to_owned()));
    one.drawer.specs.lock().unwrap().pop();
    assert_eq!(list(&one), first, "and back");
}

#[test]
fn a_second_tool_of_one_name_and_one_without_a_schema_are_left_out() {
    let first = TestKit::of(&[("terminal", "terminal"), ("read_file", "file")]);
    let second = TestKit::of(&[("terminal", "mcp-github"), ("mcp__github__a", "mcp-github")]);
    second.specs.lock().unwrap()[1].parameters = JsonText::from_valid("7");
    let config = Config::parse(SERVERS, &|_| None).unwrap();
    let home = tempfile::tempdir().unwrap();
    let kits: Vec<Arc<dyn Kit>> = vec![second, first];
    let toolbox = Toolbox::new(
        kits,
        ToolAccess::of_settings(&config.tools),
        Arc::new(SpillDirectory::new(home.path())),
    );
    assert_eq!(offered(&toolbox, &caller("cli", None)), ["terminal", "read_file"]);
    assert_eq!(toolbox.catalog().find("terminal").unwrap().kit, 1, "a server's tool hides none of ours");
}
