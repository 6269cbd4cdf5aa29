use super::*;
use tracing_subscriber::layer::SubscriberExt;

fn keeping(bytes_max: u64) -> config::Logs {
    config::Logs { level: Level::Info, bytes_max, backups: 2 }
}

fn read(home: &Path, name: &str) -> String {
    fs::read_to_string(home.join("logs").join(name)).unwrap_or_default()
}

fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join("logs")).unwrap();
    home
}

#[test]
fn p31_each_agent_s_lines_go_to_its_own_home_and_without_secrets() {
    let (one, two) = (home(), home());
    let logs = Logs::start().unwrap();
    logs.keep("one", one.path(), &keeping(1 << 20));
    logs.keep("two", two.path(), &keeping(1 << 20));
    let subscriber = tracing_subscriber::registry().with(ModelSummariser(logs.clone()));
    tracing::subscriber::with_default(subscriber, || {
        tracing::info!(target: "throughline", pid = 7, "throughline started");
        for agent in ["one", "two"] {
            let _span = tracing::error_span!("agent", agent).entered();
            tracing::info!(target: "throughline_gateway::session", "about {agent}");
            let _span = tracing::info_span!("session", session = %"S1").entered();
            tracing::warn!(target: "throughline_tools::files", key = "sk-ant-api03-0123456789abcdefghij", "[S1] of {agent}\nforged");
            tracing::debug!(target: "throughline_gateway::session", "too much");
            tracing::info!(target: "hyper::client", "in passing");
        }
    });
    logs.flush();
    for (home, agent, other) in [(&one, "one", "two"), (&two, "two", "one")] {
        let all = read(home.path(), "agent.log");
        assert!(all.contains(&format!(" INFO gateway.session: about {agent}\n")), "{all}");
        assert!(all.contains(&format!(" WARNING [S1] tools.files: of {agent}\\nforged key=")), "{all}");
        for absent in [&format!("of {other}"), "sk-ant", "too much", "in passing"] {
            assert!(!all.contains(absent), "{absent} in {all}");
        }
        assert_eq!(read(home.path(), "errors.log").lines().count(), 1);
        assert!(!read(home.path(), "gateway.log").contains("tools.files"));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(home.path().join("logs/agent.log")).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }
    assert!(read(one.path(), "gateway.log").contains("gateway.run: throughline started pid=7"));
    assert!(!read(two.path(), "agent.log").contains("pid=7"));
    assert!(read(two.path(), "agent.log").contains("gateway.run: throughline started version="));
}

#[test]
fn a_file_is_put_aside_before_it_is_too_large() {
    let home = home();
    let path = home.path().join("logs/agent.log");
    let keeping = Keeping { bytes_max: 10, backups: 2 };
    for text in ["first\n", "second\n", "third\n", "fourth\n"] {
        append(&path, text, keeping).unwrap();
    }
    assert_eq!(read(home.path(), "agent.log"), "fourth\n");
    assert_eq!(read(home.path(), "agent.log.1"), "third\n");
    assert_eq!(read(home.path(), "agent.log.2"), "second\n");
    assert!(!home.path().join("logs/agent.log.3").exists());
}

#[test]
fn whoever_logs_does_not_wait_for_a_disk_that_cannot_follow() {
    let (queue, lines) = mpsc::sync_channel(3); // one of them says that a process begins
    let logs = Logs {
        homes: RwLock::default(),
        first: OnceLock::new(),
        queue,
        dropped: Arc::default(),
        clock: SystemClock::new(),
    };
    let home = home();
    logs.keep("one", home.path(), &keeping(1 << 20));
    let (logs, dropped) = (Arc::new(logs), Arc::new(AtomicU64::new(0)));
    let subscriber = tracing_subscriber::registry().with(ModelSummariser(logs.clone()));
    tracing::subscriber::with_default(subscriber, || {
        for nth in 0..5 {
            tracing::info!(target: "throughline_gateway", nth, "said");
        }
    });
    dropped.store(logs.dropped.load(Ordering::Relaxed), Ordering::Relaxed);
    drop(logs);
    write(&lines, &dropped); // ends, as no sender is left
    let all = read(home.path(), "agent.log");
    assert_eq!(all.lines().filter(|line| line.contains("said nth=")).count(), 2);
    assert!(all.contains("3 lines of the log were dropped"), "{all}");
}
