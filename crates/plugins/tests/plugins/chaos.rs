//! A plugin that misbehaves in every way, in every call: each ends in its time, and then all is well again.

use crate::world::{PATIENCE, Plugin, call, gone, happening, past, retention, scope, spent, until};
use std::time::Duration;
use throughline_core::memory::{MemoryError, Provider};
use throughline_core::port::{ContextUsage, Engine, EngineError, Hooks, Wishes};
use throughline_core::tool::{Done, Kit, Returned, Witness};
use throughline_plugins::protocol::{CommandRun, Scoped, Text};
use throughline_plugins::scope::of_memory;

const METHODS: [&str; 11] = [
    "engine/should_compress",
    "engine/has_content",
    "engine/compress",
    "provider/recall",
    "provider/retain",
    "provider/before_compression",
    "tool/call",
    "hook/run",
    "scope/close",
    "engine/status",
    "command/run",
];

/// Calls it as the gateway would, and says whether it worked.
async fn done(plugin: &Plugin, method: &str) -> bool {
    match method {
        // Thresholds say no, the plugin says yes: what it says is heard.
        "engine/should_compress" => {
            plugin.engine.is_time(of_memory(&past().scope), &ContextUsage::default()).await
        }
        // A plugin that does not say it is asked to do it.
        "engine/has_content" => plugin.engine.has_content_to_compress(&past(), &Wishes::default()).await,
        "engine/compress" => match plugin.engine.compress(&past(), &Wishes::default()).await {
            Ok(condensed) => {
                assert_eq!((condensed.keep_first, condensed.keep_last, condensed.messages.len()), (0, 1, 1));
                true
            }
            Err(EngineError::Failed(_)) => false,
            Err(other) => panic!("{other:?}"),
        },
        "provider/recall" => {
            plugin.provider.recall(&scope(), "what?").await.is_ok_and(|text| text == "words")
        }
        "provider/retain" => match plugin.provider.retain(&retention()).await {
            Ok(()) => true,
            Err(MemoryError::Refused(why)) => panic!("a turn is lost: {why}"),
            Err(_) => false,
        },
        "provider/before_compression" => {
            plugin.provider.before_compression(&scope(), &past().messages).await.is_ok()
        }
        "tool/call" => {
            let returned = plugin.kit.call(&call("a", "{\"x\": 1}")).await;
            let Returned::Done(Done { content, .. }) = returned else { panic!("a tool asks nothing") };
            !content.plain().contains("error")
        }
        "hook/run" => match plugin.hooks.forbids(&call("terminal", "{}")).await {
            None => true,
            Some(why) => {
                assert!(why.contains("could not be asked"), "{why}");
                false
            }
        },
        "scope/close" => plugin.host.close(&Default::default()).await.is_ok(),
        "engine/status" => {
            let (asked, time) = (Scoped::default(), plugin.host.deadlines().look);
            plugin.host.ask::<_, Text>("engine/status", &asked, time).await.is_ok()
        }
        "command/run" => plugin.host.command(&CommandRun::default()).await.is_ok_and(|said| said == "words"),
        other => panic!("{other}"),
    }
}

async fn survives(how: &str, method: &str, may_work: bool) {
    let plugin = Plugin::hurried(&["chaos", how, method, "1"]).await;
    let first = plugin.host.status().process.unwrap();
    // It has a part of a second. A machine that is busy with all of this may need many of them, and one that waits
    // for one that hangs an hour.
    let worked = tokio::time::timeout(PATIENCE, done(&plugin, method)).await;
    let worked = worked.unwrap_or_else(|_| panic!("{how} in {method} is waited for"));
    assert!(!worked || may_work || method == "engine/has_content", "{how} in {method} worked");
    until(&format!("{method} after {how}"), async || done(&plugin, method).await).await;
    // A plugin that says more than it may is ended, as soon as so much of it was read.
    until(&format!("the end of what is too long in {method}"), async || {
        if how != "long" || ![None, Some(first)].contains(&plugin.host.status().process) {
            return true;
        }
        done(&plugin, method).await;
        false
    })
    .await;
    let second = plugin.host.status().process.unwrap();
    plugin.host.stop().await;
    gone(first).await;
    gone(second).await;
}

async fn survives_everywhere(how: &str, may_work: bool) {
    for pair in METHODS.chunks(3) {
        let all = pair.iter().map(|method| survives(how, method, may_work));
        futures_util::future::join_all(all).await;
    }
}

macro_rules! chaos {
    ($($name:ident: $how:literal, $may_work:literal;)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            survives_everywhere($how, $may_work).await;
        }
    )*};
}

chaos! {
    p18_a_plugin_that_hangs_costs_one_deadline_and_recovers: "hang", false;
    p18_a_plugin_that_says_nothing_costs_one_deadline_and_recovers: "silent", false;
    p18_a_plugin_that_dies_is_started_again: "crash", false;
    p18_what_a_dying_plugin_leaves_behind_is_ended: "orphan", false;
    p18_garbage_beside_no_answer_does_no_harm: "garbage", false;
    p18_a_flood_costs_one_deadline_and_recovers: "flood", false;
    p18_a_line_of_100_megabytes_ends_the_plugin_and_not_us: "long", false;
    p18_a_slow_drip_costs_one_deadline_and_recovers: "drip", false;
    p18_answers_to_others_are_nobodys: "wrong", false;
    p18_an_answer_after_the_deadline_is_nobodys: "late", false;
}

/// A flood or an endless line waits in the pipe, not in memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p18_a_flood_does_not_grow_memory() {
    let resident = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap().to_owned();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    let plugin = Plugin::hurried(&["chaos", "flood", "provider/recall", "1"]).await;
    let _ = plugin.provider.recall(&scope(), "what?").await;
    let (memory, before) = (resident(), spent());
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(resident() < memory + 20_000, "{} kB, then {} kB", memory, resident());
    assert!(spent() - before < 0.6, "{} s of 3", spent() - before);
    plugin.host.stop().await;
}

#[tokio::test]
async fn p27_a_hook_that_may_forbid_and_cannot_be_reached_forbids() {
    let plugin = Plugin::start(&["chaos", "crash", "hook/run"]).await;
    for _ in 0..4 {
        let why = plugin.hooks.forbids(&call("terminal", "{}")).await.expect("it is forbidden");
        assert!(why.contains("could not be asked") && why.contains("was not run"), "{why}");
    }
    plugin.host.stop().await;
    assert!(plugin.hooks.forbids(&call("terminal", "{}")).await.is_some(), "one that was stopped, too");
    let failed = plugin.hooks.run("plugin chaos: on_session_finalize: end", &happening()).await;
    assert!(failed.unwrap_err().contains("stopped"));
}

#[tokio::test]
async fn p24_a_turn_that_was_lost_on_the_way_may_have_arrived() {
    for (how, expected) in
        [("crash", "unknown"), ("hang", "unknown"), ("maybe", "unknown"), ("never", "refused")]
    {
        let command = ["chaos", how, "provider/retain"];
        let plugin =
            if how == "hang" { Plugin::hurried(&command).await } else { Plugin::start(&command).await };
        let kept = plugin.provider.retain(&retention()).await.unwrap_err();
        let kind = match kept {
            MemoryError::Later(_) => "later",
            MemoryError::Unknown(_) => "unknown",
            MemoryError::Refused(_) => "refused",
            MemoryError::Busy { .. } => "busy",
        };
        assert_eq!(kind, expected, "{how}");
        plugin.host.stop().await;
        let kept = plugin.provider.retain(&retention()).await;
        assert!(matches!(kept, Err(MemoryError::Later(_))), "{how}: it was never asked");
    }
}

#[tokio::test]
async fn p19_an_engine_that_refuses_a_wish_says_so_and_one_without_work_as_well() {
    let plugin = Plugin::start(&["chaos", "unknown", "engine/compress", "1"]).await;
    let wishes = Wishes { focus: Some("tea".into()), force: true, ..Wishes::default() };
    let refused = plugin.engine.compress(&past(), &wishes).await;
    assert_eq!(refused, Err(EngineError::Unknown("focus".into())), "force was never offered");
    assert!(plugin.engine.compress(&past(), &Wishes::default()).await.is_ok());
    let plugin = Plugin::start(&["chaos", "nothing", "engine/compress"]).await;
    assert_eq!(plugin.engine.compress(&past(), &wishes).await, Err(EngineError::Nothing));
    let plugin = Plugin::start(&["chaos", "shape", "engine/compress"]).await;
    assert!(matches!(plugin.engine.compress(&past(), &wishes).await, Err(EngineError::Failed(_))));
}
