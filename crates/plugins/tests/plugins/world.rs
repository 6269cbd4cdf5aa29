//! What the tests have in common.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use throughline_core::memory::{Place, Retention, Scope};
use throughline_core::message::Content;
use throughline_core::port::{FactName, Happening, Occasion, Past};
use throughline_core::time::Time;
use throughline_core::tool::{Call, Caller};
use throughline_core::{Generation, Message, Seq, TurnId};
use throughline_plugins::hooks::ScopeOfSession;
use throughline_plugins::{
    Deadlines, Host, PluginEngine, PluginHooks, PluginKit, PluginLimits, PluginProvider, PluginSettings,
};

/// The time of every call that is not to be answered.
pub const TIME: Duration = Duration::from_millis(600);

/// The time of every other one, and for all that is waited for: a busy machine is no failure.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().parent().unwrap().join("examples").join(name)
}

pub fn settings(directory: &Path, command: &[&str]) -> PluginSettings {
    let mut command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
    command[0] = example(&command[0]).to_string_lossy().into_owned();
    PluginSettings {
        deadlines: Deadlines::all(PATIENCE),
        limits: PluginLimits { pause: Duration::from_millis(100), ..PluginLimits::default() },
        ..PluginSettings::new("chaos", command, directory.join("plugin"))
    }
}

pub struct Plugin {
    pub host: Host,
    pub engine: PluginEngine,
    pub provider: PluginProvider,
    pub kit: PluginKit,
    pub hooks: PluginHooks,
    pub directory: tempfile::TempDir,
}

impl Plugin {
    pub async fn start(command: &[&str]) -> Self {
        Self::with(command, |_| {}).await
    }

    /// One whose every call has little time.
    pub async fn hurried(command: &[&str]) -> Self {
        Self::with(command, hurry).await
    }

    pub async fn with(command: &[&str], change: impl FnOnce(&mut PluginSettings)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut settings = settings(directory.path(), command);
        change(&mut settings);
        let host = Host::new(settings, None);
        host.start().await.unwrap();
        let engine = PluginEngine::new(host.clone(), 1000, Arc::new(|_| false)).unwrap();
        let provider = PluginProvider::new(host.clone()).unwrap();
        let (kit, hooks) = (kit(host.clone()), PluginHooks::new(host.clone(), nobody_knows()));
        Self { host, engine, provider, kit, hooks, directory }
    }
}

pub fn hurry(settings: &mut PluginSettings) {
    settings.deadlines = Deadlines { start: PATIENCE, ..Deadlines::all(TIME) };
}

/// Waits until it holds.
pub async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !holds().await {
        assert!(began.elapsed() < PATIENCE, "waited for {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Hooks are told by what is known of the occasion.
pub fn nobody_knows() -> ScopeOfSession {
    Arc::new(|_, _| Box::pin(async { None }))
}

/// The caller is known by the session alone.
pub fn kit(host: Host) -> PluginKit {
    PluginKit::new(
        host,
        Arc::new(|caller: &Caller| {
            let scope = Scope::of(caller.session.clone());
            Box::pin(async move { Ok(scope) })
        }),
    )
}

pub fn scope() -> Scope {
    Scope {
        agent: "me".into(),
        chat: Some("agent:main:telegram:dm:42".parse().unwrap()),
        session: "s1".parse().unwrap(),
        generation: Generation(3),
        parent: None,
        platform: "telegram".into(),
        user: Some("42".into()),
        user_name: None,
        place: Place::default(),
        title: None,
        document: None,
        meant: None,
    }
}

pub fn retention() -> Retention {
    Retention {
        key: "s1/1".into(),
        document: "d".into(),
        scope: scope(),
        turn: TurnId(Seq(1)),
        index: 1,
        message_count: 2,
        at: Time(1),
        said: vec!["I like tea".into()],
        replied: "Noted.".into(),
        tried: false,
    }
}

pub fn past() -> Past {
    let message =
        |number: i64| Message::user(Time(number * 1_000_000), Content::text(format!("message {number}")));
    Past { scope: Scope::of("s1".parse().unwrap()), messages: (0..10).map(message).collect(), tokens: 900 }
}

pub fn call(name: &str, arguments: &str) -> Call {
    let caller = Caller {
        session: "s1".parse().unwrap(),
        source: "cli".into(),
        principal: None,
        user: None,
        is_private: true,
        reply_to: None,
        trace: Default::default(),
        task: None,
        allowed: Vec::new(),
        tokens_left: None,
        now: Time(0),
    };
    Call { key: "s1/1/0/0".into(), name: name.into(), arguments: arguments.into(), caller, grant: None }
}

pub fn happening() -> Happening {
    Happening {
        occasion: Occasion::Finalised,
        key: "k".into(),
        session: "s1".parse().unwrap(),
        source: "cli".into(),
        facts: vec![(FactName::Reason, "expired".into())],
    }
}

/// Processes of a group that still are, by what `/proc` says. One that ended counts as long as it is ours
/// to bury; a grandchild is the system's.
pub fn group(leader: u32) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let stats = processes.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    let of_group = |stat: &String| {
        let after = stat.rsplit_once(") ").map(|(_, rest)| rest).unwrap_or_default();
        let fields: Vec<&str> = after.split(' ').collect();
        let is_others_dead = fields[0] == "Z" && fields[1] != std::process::id().to_string();
        fields[2] == leader.to_string() && !is_others_dead
    };
    stats.filter(of_group).collect()
}

/// Waits until nothing of a group is left.
pub async fn gone(leader: u32) {
    until("the end of a process", async || group(leader).is_empty()).await;
}

/// What this process has spent of its processors, in seconds.
pub fn spent() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().unwrap()).sum();
    ticks as f64 / 100.0
}
