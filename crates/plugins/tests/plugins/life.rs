//! How a plugin is started, confined, left alone and ended.

use crate::world::{
    PATIENCE, Plugin, TIME, call, gone, happening, hurry, kit, nobody_knows, past, retention, scope,
    settings, until,
};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use throughline_core::Message;
use throughline_core::memory::{MemoryError, Provider};
use throughline_core::message::Content;
use throughline_core::port::{Engine, Hooks, Occasion, Wishes};
use throughline_core::time::Time;
use throughline_core::tool::{Done, Kit, Question, Returned, Witness};
use throughline_plugins::protocol::ModelSaid;
use throughline_plugins::tools::{Judge, Leave};
use throughline_plugins::{
    AnswerModel, CallError, Host, LOG_FILE, PluginEngine, PluginHooks, PluginLimits, PluginSettings,
    PluginState,
};

fn text(returned: Returned) -> String {
    let Returned::Done(Done { content, .. }) = returned else { panic!("a tool asks nothing") };
    content.plain()
}

#[tokio::test]
async fn nothing_runs_before_it_is_needed() {
    let directory = tempfile::tempdir().unwrap();
    let host = Host::new(settings(directory.path(), &["chaos"]), None);
    assert_eq!(host.status().state, PluginState::Idle);
    assert!(!directory.path().join("plugin").exists());
    let abilities = host.start().await.unwrap();
    assert_eq!((abilities.name.as_str(), host.status().state), ("chaos", PluginState::Running));
    assert_eq!(host.status().notes, ["it is chaotic"]);
    let mode = std::fs::metadata(directory.path().join("plugin")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let process = host.status().process.unwrap();
    host.stop().await;
    assert_eq!(host.status().state, PluginState::Stopped);
    gone(process).await;
}

#[tokio::test]
async fn with_its_host_a_plugin_ends() {
    let plugin = Plugin::start(&["chaos"]).await;
    let process = plugin.host.status().process.unwrap();
    drop(plugin);
    gone(process).await;
}

#[tokio::test]
async fn one_that_does_not_leave_is_killed() {
    let plugin = Plugin::hurried(&["chaos", "deaf"]).await;
    let process = plugin.host.status().process.unwrap();
    let stopped = tokio::time::timeout(PATIENCE, plugin.host.stop()).await;
    assert!(stopped.is_ok(), "it would stay for an hour");
    gone(process).await;
}

#[tokio::test]
async fn what_cannot_be_started_is_said_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let limits = PluginLimits { pause: PATIENCE, pause_max: PATIENCE, ..PluginLimits::default() };
    let settings = PluginSettings { limits, ..settings(directory.path(), &["no-such-program"]) };
    let host = Host::new(settings, None);
    for _ in 0..3 {
        let error = host.start().await.unwrap_err();
        assert!(matches!(error, CallError::Unasked(_)), "{error:?}");
    }
    assert!(matches!(host.status().state, PluginState::BackingOff(_)), "{:?}", host.status());
    assert!(host.status().last_error.unwrap().contains("no-such-program"));
}

#[tokio::test]
async fn p31_a_guard_that_was_never_heard_lets_nothing_pass_and_its_state_says_so() {
    let directory = tempfile::tempdir().unwrap();
    for guards in [true, false] {
        let settings = PluginSettings { guards, ..settings(directory.path(), &["no-such-program"]) };
        let host = Host::new(settings, None);
        host.start().await.unwrap_err();
        assert_eq!(host.status().state, PluginState::Failed);
        let forbidden = PluginHooks::new(host, nobody_knows()).forbids(&call("terminal", "{}")).await;
        assert_eq!(forbidden.is_some_and(|why| why.contains("no-such-program")), guards);
    }
}

#[tokio::test]
async fn a_question_that_turns_gave_up_three_times_keeps_no_turn_waiting() {
    let plugin = Plugin::start(&["chaos", "hang", "provider/recall"]).await;
    let scope = scope();
    let asked = || tokio::time::timeout(Duration::from_millis(50), plugin.provider.recall(&scope, "bees"));
    for _ in 0..3 {
        assert!(asked().await.is_err(), "it hangs");
    }
    let said = asked().await.expect("it is refused at once");
    assert!(matches!(&said, Err(MemoryError::Later(why)) if why.contains("3 times")), "{said:?}");
    assert!(plugin.host.status().last_error.is_some());
}

#[tokio::test]
async fn one_of_another_version_is_refused_with_a_reason() {
    let directory = tempfile::tempdir().unwrap();
    let host = Host::new(settings(directory.path(), &["chaos", "newer", "initialize"]), None);
    let error = host.start().await.unwrap_err().to_string();
    assert!(error.contains("version 99"), "{error}");
    assert!(matches!(host.status().state, PluginState::Refused(_)), "{:?}", host.status());
    assert!(host.start().await.is_err());
    let log = std::fs::read_to_string(directory.path().join("plugin").join(LOG_FILE)).unwrap();
    assert_eq!(log.matches("===== started").count(), 1, "it is not tried again at once: {log}");
}

#[tokio::test]
async fn one_that_dies_again_and_again_is_started_ever_later() {
    let plugin = Plugin::with(&["chaos", "crash", "provider/recall"], |settings| {
        settings.limits =
            PluginLimits { pause: Duration::from_millis(400), failures_max: 100, ..PluginLimits::default() };
    })
    .await;
    let mut refused = 0;
    let began = Instant::now();
    until("four starts", async || {
        let error = plugin.provider.recall(&scope(), "what?").await.unwrap_err().to_string();
        refused += usize::from(error.contains("is started again in"));
        plugin.host.status().restarts >= 4
    })
    .await;
    // At once, and after 0.4, 0.8 and 1.6 s. A busy machine makes it later, and never sooner.
    assert!(began.elapsed() > Duration::from_millis(2_700), "{:?}", plugin.host.status());
    assert!(refused > 0);
}

#[tokio::test]
async fn one_that_does_not_answer_is_left_alone_until_it_does() {
    let plugin = Plugin::with(&["chaos", "silent", "provider/recall", "3"], |settings| {
        settings.deadlines.recall = Duration::from_secs(1);
        settings.limits = PluginLimits { pause: Duration::from_secs(5), ..PluginLimits::default() };
    })
    .await;
    for _ in 0..3 {
        let error = plugin.provider.recall(&scope(), "what?").await.unwrap_err().to_string();
        assert!(error.contains("within 1 s"), "{error}");
    }
    assert!(matches!(plugin.host.status().state, PluginState::Broken(_)), "{:?}", plugin.host.status());
    let error = plugin.provider.retain(&retention()).await.unwrap_err().to_string();
    assert!(error.contains("left alone"), "{error}");
    until("the end of the pause", async || plugin.host.status().state == PluginState::Running).await;
    assert_eq!(plugin.provider.recall(&scope(), "what?").await.unwrap(), "words");
    assert_eq!((plugin.host.status().state, plugin.host.status().restarts), (PluginState::Running, 0));
    assert_eq!(plugin.host.status().timeouts, 3);
}

#[tokio::test]
async fn one_that_hangs_in_what_may_take_long_is_left_alone_after_the_first_time() {
    for (how, hangs) in [("hang", true), ("silent", false)] {
        let plugin = Plugin::with(&["chaos", how, "scope/close", "1"], |settings| {
            settings.deadlines.close = Duration::from_secs(3);
            settings.deadlines.ping = Duration::from_secs(2);
            settings.limits =
                PluginLimits { pause: PATIENCE, pause_max: PATIENCE, ..PluginLimits::default() };
        })
        .await;
        plugin.host.close(&Default::default()).await.unwrap_err();
        match hangs {
            true => {
                let is_left_alone = async || matches!(plugin.host.status().state, PluginState::Broken(_));
                until("nobody asks it any more", is_left_alone).await;
            }
            false => assert_eq!(plugin.provider.recall(&scope(), "what?").await.unwrap(), "words"),
        }
        assert_eq!(plugin.host.status().timeouts, 1, "{how}");
    }
}

#[tokio::test]
async fn what_is_written_to_the_memory_is_told_to_the_provider_and_nothing_else_is() {
    let plugin = Plugin::start(&["chaos"]).await;
    let provider = PluginHooks::new(plugin.host.clone(), nobody_knows()).mirroring();
    let written = || -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(plugin.directory.path().join("plugin/written"));
        text.unwrap_or_default().lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    };
    let one = call("memory", r#"{"action": "add", "target": "user", "content": "Likes tea."}"#);
    let done = || Returned::text(r#"{"success": true}"#);
    // Another plugin's, a refusal, one that waits for consent, one that was forbidden, another tool's.
    plugin.hooks.called(&one, &done(), TIME, None);
    provider.called(&one, &Returned::text(r#"{"success": false}"#), TIME, None);
    provider.called(&one, &Returned::text(r#"{"success": true, "staged": true}"#), TIME, None);
    provider.called(&one, &done(), TIME, Some("not today"));
    provider.called(&call("todo", &one.arguments), &done(), TIME, None);
    provider.called(&one, &done(), TIME, None);
    until("one", async || written().len() == 1).await;
    let several = r#"{"operations": [{"action": "add", "content": "A pond."},
        {"action": "replace", "old_text": "tea", "content": "Likes coffee."}, {"action": "look"}]}"#;
    provider.called(&call("memory", several), &done(), TIME, None);
    until("several", async || written().len() >= 3).await;
    let told: Vec<_> = written()
        .iter()
        .map(|one| [&one["action"], &one["target"], &one["content"]].map(|it| it.clone()))
        .collect();
    assert_eq!(
        told,
        [
            ["add", "user", "Likes tea."].map(serde_json::Value::from),
            ["add", "memory", "A pond."].map(serde_json::Value::from),
            ["replace", "memory", "Likes coffee."].map(serde_json::Value::from),
        ]
    );
    assert_eq!((&written()[2]["old_text"], &written()[2]["key"]), (&"tea".into(), &"s1/1/0/0/1".into()));
    assert_eq!(written()[0]["scope"]["session"], "s1");
}

#[tokio::test]
async fn a_pause_has_a_bound() {
    let plugin = Plugin::with(&["chaos", "crash", "provider/recall"], |settings| {
        let (pause, pause_max) = (Duration::from_millis(200), Duration::from_millis(300));
        settings.limits = PluginLimits { pause, pause_max, failures_max: 100, ..PluginLimits::default() };
    })
    .await;
    // Without a bound this would take 400 s.
    until("twelve starts", async || {
        let _ = plugin.provider.recall(&scope(), "what?").await;
        plugin.host.status().restarts >= 12
    })
    .await;
}

#[test]
fn a_mark_changes_with_what_a_plugin_is_told_and_with_nothing_else() {
    let settings = settings(std::path::Path::new("/own"), &["chaos"]);
    let mark = settings.mark(b"beside");
    assert_eq!(mark, PluginSettings { agent: "other".into(), ..settings.clone() }.mark(b"beside"));
    assert_ne!(mark, settings.mark(b"elsewhere"));
    let key = [("KEY".to_owned(), "a-secret".to_owned())];
    for changed in [
        PluginSettings { command: vec!["another".into()], ..settings.clone() },
        PluginSettings { settings: serde_json::json!({"tools": ["web"]}), ..settings.clone() },
        PluginSettings { environment: key.into(), ..settings.clone() },
    ] {
        assert_ne!(mark, changed.mark(b"beside"), "{changed:?}");
    }
}

#[tokio::test]
async fn one_that_answers_again_has_all_its_chances_again() {
    let plugin = Plugin::with(&["chaos", "silent", "provider/recall", "5"], |settings| {
        settings.deadlines.recall = Duration::from_secs(1);
        settings.limits = PluginLimits { pause: Duration::from_secs(2), ..PluginLimits::default() };
    })
    .await;
    for _ in 0..3 {
        assert!(plugin.provider.recall(&scope(), "what?").await.is_err());
    }
    assert!(matches!(plugin.host.status().state, PluginState::Broken(_)), "{:?}", plugin.host.status());
    until("the end of the pause", async || plugin.host.status().state == PluginState::Running).await;
    // It answers a ping now, and is silent about the rest: that counts from the beginning.
    for _ in 0..2 {
        let error = plugin.provider.recall(&scope(), "what?").await.unwrap_err().to_string();
        assert!(error.contains("within 1 s"), "{error}");
        assert_eq!(plugin.host.status().state, PluginState::Running);
    }
}

#[tokio::test]
async fn whoever_stops_waiting_says_so() {
    let plugin = Plugin::hurried(&["chaos", "silent", "provider/recall", "1"]).await;
    let cancelled = plugin.directory.path().join("plugin/cancelled");
    assert!(plugin.provider.recall(&scope(), "what?").await.is_err());
    until("a word to the plugin", async || cancelled.exists()).await;
}

#[tokio::test]
async fn what_is_remembered_needs_no_process_and_stays_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let host = Host::new(settings(directory.path(), &["chaos"]), None);
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hearing = heard.clone();
    host.introduces_itself_to(Arc::new(move |abilities| hearing.lock().unwrap().push(abilities.tools.len())));
    let remembered = serde_json::json!({"protocol": 1, "name": "chaos", "tools": [{"name": "a"}]});
    host.settled_as(serde_json::from_value(remembered).unwrap());
    let kit = kit(host.clone());
    assert_eq!((kit.specs().len(), host.status().state), (1, PluginState::Idle));
    let revision = kit.revision();
    for round in 1..=2 {
        assert_eq!(text(kit.call(&call("a", "{\"x\": 1}")).await), "{\"x\":1}", "a call starts it");
        assert_eq!((kit.specs().len(), kit.revision()), (1, revision), "it says more, and that is for later");
        assert_eq!(*heard.lock().unwrap(), vec![2; round]);
        assert!(host.status().notes.iter().any(|note| note.contains("next start")), "{:?}", host.status());
        let process = host.status().process.unwrap();
        host.rest().await;
        gone(process).await;
        assert_eq!((host.status().state, host.status().last_error), (PluginState::Idle, None), "no death");
    }
}

#[tokio::test]
async fn p31_a_call_that_asks_is_made_once_somebody_has_agreed_and_not_before() {
    let plugin = Plugin::start(&["chaos"]).await;
    let done = plugin.directory.path().join("plugin/asked");
    let judged = async |leave: Option<fn() -> Leave>| {
        let judge = leave.map(|leave| -> Judge {
            Arc::new(move |call, asked| {
                assert_eq!((call.name.as_str(), asked.what.as_str()), ("ask", "rm -r /"));
                assert_eq!(asked.patterns, ["remove"]);
                leave()
            })
        });
        kit(plugin.host.clone()).judged_by(judge).call(&call("ask", "{}")).await
    };
    assert_eq!(text(judged(None).await), "nobody was asked");
    assert_eq!(text(judged(Some(|| Leave::Refused("not today".into()))).await), "not today");
    let asking = || {
        let question =
            Question::Approval { what: "rm -r /".into(), why: String::new(), patterns: Vec::new() };
        Leave::Ask { question, patience: TIME }
    };
    assert!(matches!(judged(Some(asking)).await, Returned::Ask { patience: TIME, .. }));
    assert!(!done.exists(), "nothing was done yet");
    assert_eq!(text(judged(Some(|| Leave::Given)).await), "it was done");
    assert_eq!(std::fs::read_to_string(done).unwrap(), "x", "and once");
}

#[tokio::test]
async fn p31_what_calls_tools_by_itself_is_not_run_unseen_by_a_guard() {
    let directory = tempfile::tempdir().unwrap();
    let host = Host::new(settings(directory.path(), &["chaos"]), None);
    let tools = serde_json::json!([{"name": "script", "calls_tools": true}, {"name": "a"}]);
    let remembered = serde_json::json!({"protocol": 1, "name": "chaos", "tools": tools});
    host.settled_as(serde_json::from_value(remembered).unwrap());
    let run = async |name: &str, guard: Option<&'static str>| {
        let guarded = kit(host.clone()).guarded_by(Arc::new(move || guard.map(str::to_owned)));
        text(guarded.call(&call(name, "{\"x\": 1}")).await)
    };
    assert_eq!(run("script", None).await, "{\"x\":1}");
    assert_eq!(run("a", Some("the plugin watch")).await, "{\"x\":1}", "the guard hears of this one");
    let refused = run("script", Some("the plugin watch")).await;
    assert!(refused.contains("script was not run") && refused.contains("the plugin watch"), "{refused}");
    assert!(Plugin::start(&["chaos"]).await.host.is_guard(), "it declares pre_tool_call");
    assert!(!host.is_guard());
}

#[tokio::test]
async fn one_that_somebody_waits_for_does_not_rest() {
    let plugin = Plugin::start(&["chaos", "late", "tool/call", "1"]).await;
    let process = plugin.host.status().process;
    let call = call("a", "{}");
    let asked = plugin.directory.path().join("plugin/count-tool-call");
    let is_answered = AtomicBool::new(false);
    let answered = async {
        plugin.kit.call(&call).await;
        is_answered.store(true, Ordering::Relaxed);
    };
    // It answers a second after it was asked.
    let ((), was_waited_for) = tokio::join!(answered, async {
        until("the call", async || asked.exists()).await;
        plugin.host.rest().await;
        !is_answered.load(Ordering::Relaxed)
    });
    assert!(was_waited_for, "this machine is too slow to see anything here");
    assert_eq!((plugin.host.status().process, plugin.host.status().state), (process, PluginState::Running));
}

#[tokio::test]
async fn what_it_says_the_second_time_counts() {
    let directory = tempfile::tempdir().unwrap();
    let host = Host::new(settings(directory.path(), &["chaos", "other", "initialize", "1"]), None);
    let kit = kit(host.clone());
    assert!(kit.specs().is_empty());
    host.start().await.unwrap();
    let names = || -> Vec<(String, String, bool)> {
        kit.specs().into_iter().map(|spec| (spec.name, spec.toolset, spec.repeatable)).collect()
    };
    assert_eq!((names(), kit.revision()), (vec![("b".into(), "mcp-chaos".into(), false)], 1));
    let process = host.status().process.unwrap().to_string();
    assert!(std::process::Command::new("kill").args(["-9", &process]).status().unwrap().success());
    while host.status().process.is_some() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(names().len(), 1, "what it could do is remembered while it is gone");
    host.start().await.unwrap();
    let expected = vec![("z".into(), "mcp-chaos".into(), false), ("a".into(), "mcp-chaos".into(), true)];
    assert_eq!((names(), kit.revision()), (expected, 2));
    assert!(host.status().notes.iter().any(|note| note.contains("something else")), "{:?}", host.status());
}

#[tokio::test]
async fn p31_a_plugin_sees_only_its_environment_and_writes_only_in_its_place() {
    let outside = tempfile::tempdir().unwrap();
    let listed = tempfile::tempdir().unwrap();
    let plugin = Plugin::with(&["chaos"], |settings| {
        settings.environment = [("GIVEN".to_owned(), "x".to_owned())].into();
        settings.writable = vec![listed.path().to_owned()];
    })
    .await;
    let seen = text(plugin.kit.call(&call("environment", "{}")).await);
    let mut seen: Vec<&str> = seen.split(' ').collect();
    seen.sort_unstable();
    assert_eq!(seen, ["GIVEN", "TMPDIR"]);
    let write = async |path: std::path::PathBuf| {
        let arguments = serde_json::json!({"path": path}).to_string();
        text(plugin.kit.call(&call("write", &arguments)).await)
    };
    assert_eq!(write("mine".into()).await, "");
    assert!(plugin.directory.path().join("plugin/mine").exists(), "it runs in its own directory");
    assert_eq!(write(listed.path().join("file")).await, "");
    assert_eq!(write("/dev/null".into()).await, "");
    if plugin.host.status().notes.iter().any(|note| note.contains("Landlock")) {
        println!("this kernel cannot confine");
        return;
    }
    assert!(write(outside.path().join("file")).await.contains("denied"));
    assert!(!outside.path().join("file").exists());
}

#[tokio::test]
async fn p31_a_plugin_opens_nothing_in_the_home_of_another_agent() {
    let place = tempfile::tempdir().unwrap();
    let homes = ["own", "other", "other/profiles/own"].map(|name| {
        std::fs::create_dir_all(place.path().join(name)).unwrap();
        std::fs::write(place.path().join(name).join("lcm.db"), "words").unwrap();
        place.path().join(name)
    });
    let [own, other, profile] = homes;
    let code = other.join("hermes-agent");
    std::fs::create_dir_all(&code).unwrap();
    std::fs::write(code.join("module.py"), "words").unwrap();
    std::os::unix::fs::symlink(&other, place.path().join("link")).unwrap();
    for (home, confined) in [(&own, true), (&own, false), (&profile, false)] {
        let plugin = Plugin::with(&["chaos"], |settings| {
            settings.home = home.clone();
            settings.confined = confined;
            settings.foreign = vec![own.clone(), other.clone(), profile.clone()];
            settings.readable = vec![code.clone()];
        })
        .await;
        if plugin.host.status().notes.iter().any(|note| note.contains("Landlock")) {
            println!("this kernel cannot confine");
            return;
        }
        let at = async |tool: &str, path: std::path::PathBuf| {
            let arguments = serde_json::json!({"path": path}).to_string();
            text(plugin.kit.call(&call(tool, &arguments)).await)
        };
        assert_eq!(at("read", home.join("lcm.db")).await, "words");
        assert_eq!(at("read", code.join("module.py")).await, "words");
        for closed in [&other, &place.path().join("link")] {
            assert!(at("read", closed.join("lcm.db")).await.contains("denied"), "{home:?} {confined}");
            assert!(at("write", closed.join("lcm.db")).await.contains("denied"), "{home:?} {confined}");
        }
        let sees_own = at("read", own.join("lcm.db")).await == "words";
        assert_eq!(sees_own, *home == own);
        let wrote = at("write", home.join("new")).await;
        assert_eq!(wrote.is_empty(), !confined, "{wrote}");
        assert_eq!(std::fs::read_to_string(other.join("lcm.db")).unwrap(), "words");
    }
}

#[tokio::test]
async fn p31_a_plugin_opens_none_of_the_users_keys_but_those_that_were_opened_for_it() {
    let user = tempfile::tempdir().unwrap();
    let write = |name: &str| {
        let path = user.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "words").unwrap();
        path
    };
    let [key, listed, netrc, notes] = [".ssh/id", ".aws/config", ".netrc", "notes.txt"].map(write);
    let aws = write(".aws/credentials");
    let plugin = Plugin::with(&["chaos"], |settings| {
        settings.foreign = [".ssh", ".aws", ".netrc", ".gnupg"].map(|name| user.path().join(name)).into();
        settings.readable = vec![listed.clone()];
    })
    .await;
    if plugin.host.status().notes.iter().any(|note| note.contains("Landlock")) {
        println!("this kernel cannot confine");
        return;
    }
    let read = async |path: &std::path::Path| {
        let arguments = serde_json::json!({"path": path}).to_string();
        text(plugin.kit.call(&call("read", &arguments)).await)
    };
    for open in [&listed, &notes] {
        assert_eq!(read(open).await, "words", "{}", open.display());
    }
    for closed in [&key, &aws, &netrc] {
        assert!(read(closed).await.contains("denied"), "{}", closed.display());
    }
}

#[tokio::test]
async fn what_a_dying_plugin_said_is_in_its_log_and_in_the_error() {
    let directory = tempfile::tempdir().unwrap();
    let mut settings = settings(directory.path(), &["chaos"]);
    settings.command = ["/bin/sh", "-c", "echo no module named tea >&2; exit 7"]
        .iter()
        .map(|word| (*word).to_owned())
        .collect();
    let host = Host::new(settings, None);
    let error = host.start().await.unwrap_err().to_string();
    assert!(error.contains("exit status: 7") && error.contains("no module named tea"), "{error}");
    let log = std::fs::read_to_string(directory.path().join("plugin").join(LOG_FILE)).unwrap();
    assert!(log.contains("===== started") && log.contains("no module named tea"), "{log}");
}

#[tokio::test]
async fn a_slow_start_outlives_the_call_that_began_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut settings = settings(directory.path(), &["chaos"]);
    let chaos = settings.command[0].clone();
    settings.command = vec!["/bin/sh".into(), "-c".into(), format!("sleep 1; exec {chaos}")];
    let host = Host::new(settings, None);
    let asked: Result<serde_json::Value, _> =
        host.ask("ping", &serde_json::json!({}), Duration::from_millis(200)).await;
    assert!(matches!(asked, Err(CallError::Unasked(_))), "{asked:?}");
    until("its start", async || host.status().state == PluginState::Running).await;
    let asked: Result<serde_json::Value, _> = host.ask("ping", &serde_json::json!({}), PATIENCE).await;
    assert!(asked.is_ok(), "{asked:?}");
    assert_eq!(host.status().restarts, 0);
}

#[tokio::test]
async fn hooks_have_names_that_stay_and_are_told_once() {
    let plugin = Plugin::start(&["chaos"]).await;
    let name = "plugin chaos: on_session_finalize: end";
    assert_eq!(plugin.hooks.names(Occasion::Finalised), [name]);
    assert!(plugin.hooks.names(Occasion::Begun).is_empty());
    let before = plugin.host.status().calls;
    let happening = happening();
    let (one, two) = tokio::join!(plugin.hooks.run(name, &happening), plugin.hooks.run(name, &happening));
    assert_eq!((one, two), (Ok(()), Ok(())));
    assert_eq!(plugin.host.status().calls - before, 1);
}

#[tokio::test]
async fn p25_a_chat_keeps_its_document_across_sessions() {
    let plugin = Plugin::start(&["chaos"]).await;
    let mut other = scope();
    other.session = "s2".parse().unwrap();
    assert_eq!(plugin.provider.naming(&scope()), plugin.provider.naming(&other));
    other.chat = None;
    assert_eq!(plugin.provider.naming(&other).name, "s2");
}

#[tokio::test]
async fn a_plugin_asks_a_model_only_where_that_is_offered() {
    let directory = tempfile::tempdir().unwrap();
    let answer: AnswerModel = Arc::new(|asked| {
        Box::pin(async move {
            assert!(asked.prompt.contains("message 3"), "{}", asked.prompt);
            Ok(ModelSaid { text: "it was about tea".into(), model: "small".into() })
        })
    });
    let mut past = past();
    past.messages.extend((10..30).map(|n| Message::user(Time(n), Content::text(format!("message {n}")))));
    for (model, expected) in [(Some(answer), "it was about tea"), (None, "user: message 3")] {
        let offered = model.is_some();
        let host = Host::new(settings(directory.path(), &["engine"]), model);
        host.start().await.unwrap();
        let engine = PluginEngine::new(host.clone(), 1000, Arc::new(|_| false)).unwrap();
        let made = engine.compress(&past, &Wishes::default()).await.unwrap();
        assert!(made.messages[0].content().plain().contains(expected), "{made:?}");
        assert_eq!((made.keep_first, made.model.as_str()), (2, if offered { "small" } else { "" }));
        host.stop().await;
    }
}

#[tokio::test]
async fn waiting_for_others_counts_against_the_deadline() {
    let plugin = Plugin::with(&["chaos", "silent", "provider/recall"], |settings| {
        hurry(settings);
        settings.deadlines.recall = 5 * TIME;
        settings.limits.at_once = 1;
    })
    .await;
    let scope = scope();
    let nothing = serde_json::json!({});
    let is_over = AtomicBool::new(false);
    let long = async {
        let one = plugin.provider.recall(&scope, "one?").await;
        is_over.store(true, Ordering::Relaxed);
        one
    };
    let short = async {
        let two = plugin.host.ask::<_, serde_json::Value>("ping", &nothing, TIME).await;
        (two, is_over.load(Ordering::Relaxed))
    };
    let (one, (two, was_over)) = tokio::join!(long, short);
    assert!(!was_over, "it waited longer than its own time");
    assert!(matches!(one, Err(MemoryError::Unknown(_))), "{one:?}");
    assert!(matches!(two, Err(CallError::Unasked(_))), "{two:?}");
}
