//! The owner's memory files, and what the agent adds to them.

use super::{CHAT, PATIENT, World, settled, terminal, turn};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use throughline_core::memory::{MemoryError, Provider, Retention, Scope};
use throughline_memory::honcho::{Audience, Honcho, MigrationLedger, ProfileAddition, Role, migration};
use throughline_servers::honcho::{Fault, Kept};

/// A home whose memory files are to be brought. What it knows of that outlives the process that brings them.
struct Home {
    directory: tempfile::TempDir,
    files: BTreeMap<&'static str, &'static str>,
}

impl Home {
    pub(super) fn new() -> Self {
        let files = [
            ("MEMORY.md", "The garden has a pond."),
            ("USER.md", "Likes CANARY tea."),
            ("SOUL.md", "Be kind."),
        ];
        Self { directory: tempfile::tempdir().unwrap(), files: files.into() }
    }

    /// As a process does that knows nothing but what is on disk.
    async fn bring(
        &self,
        honcho: &Honcho,
        scope: &Scope,
        document: &str,
        role: Role,
    ) -> Result<(), MemoryError> {
        let wanted = migration(honcho.settings(), scope, role);
        let read = |name: &str| Ok(self.files.get(name).map(|text| (*text).to_owned()));
        honcho.migrate(scope, document, &wanted, &read, &MigrationLedger::of(self.directory.path())).await
    }
}

pub(super) fn names(kept: &[Kept]) -> Vec<&str> {
    kept.iter().filter_map(|kept| kept.metadata["original_file"].as_str()).collect()
}

#[tokio::test]
async fn p29_memory_files_migrate_once_and_only_to_their_owner() {
    let world = World::start().await;
    let home = Home::new();
    for _ in 0..3 {
        let honcho = world.honcho();
        for (user, role) in [("7", Role::Guest), ("42", Role::Owner)] {
            let scope = settled(user);
            home.bring(&honcho, &scope, scope.document.as_deref().unwrap(), role).await.unwrap();
        }
    }
    let honcho = world.honcho();
    honcho.retain(&turn(1, "hello", "hi")).await.unwrap();
    let guest = Retention {
        document: "agent-main-telegram-dm-7".into(),
        scope: settled("7"),
        ..turn(1, "who?", "me")
    };
    honcho.retain(&guest).await.unwrap();
    let kept = world.kept(CHAT).await;
    let brought: Vec<(&str, &str, &str)> = kept[..3]
        .iter()
        .map(|kept| {
            (
                kept.peer.as_str(),
                kept.metadata["original_file"].as_str().unwrap(),
                kept.metadata["target_peer"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        brought,
        [("42", "MEMORY.md", "user"), ("42", "USER.md", "user"), ("hermes", "SOUL.md", "ai")]
    );
    assert!(kept[..3].iter().all(|kept| kept.metadata["source"] == "local_memory"));
    assert_eq!(kept.len(), 5);
    let others = world.kept("agent-main-telegram-dm-7").await;
    assert!(others.len() == 2 && others.iter().all(|kept| !kept.content.contains("CANARY")), "{others:?}");
}

#[tokio::test]
async fn p29_a_migration_whose_answer_is_lost_is_not_repeated() {
    for fault in [
        Fault::DropAnswer,
        Fault::HangAfter,
        Fault::DropRequest,
        // A client that looks only once finds nothing, and would bring it a second time.
        Fault::CommitBehind("POST messages/list"),
    ] {
        let (world, home) = (World::start().await, Home::new());
        let scope = settled("42");
        world.server.fail("POST messages", [fault.clone()]);
        let honcho = world.honcho().settling(PATIENT);
        let outcome = home.bring(&honcho, &scope, CHAT, Role::Owner).await;
        // Of the turn that comes behind them nothing has been sent.
        assert!(matches!(outcome, Err(MemoryError::Later(_))), "{fault:?} {outcome:?}");
        home.bring(&honcho, &scope, CHAT, Role::Owner).await.unwrap();
        home.bring(&world.honcho(), &scope, CHAT, Role::Owner).await.unwrap();
        assert_eq!(names(&world.kept(CHAT).await), ["MEMORY.md", "USER.md", "SOUL.md"], "{fault:?}");
    }
}

/// Under each strategy, with a gateway's key and without, broken off at each file before and after it arrived.
#[tokio::test]
async fn p29_under_each_strategy_once_through_a_crash_at_any_file_and_never_later() {
    for (strategy, session) in [
        ("per-directory", "garden"),
        ("per-repo", "repo-of-garden"),
        ("global", "WORKSPACE"),
        ("per-session", "20260528_093510_0"),
    ] {
        let is_kept = strategy != "per-session";
        for (scope, key) in [(terminal(), None), (settled("42"), Some(CHAT))] {
            for broken in 0..6 {
                let world = World::start().await;
                let session =
                    key.map_or_else(|| session.replace("WORKSPACE", &world.workspace), str::to_owned);
                let mut home = Home::new();
                home.files.remove("USER.md");
                let more = json!({"sessionStrategy": strategy, "peerName": "ann", "pinUserPeer": true});
                let honcho = world.honcho_in("/srv/garden", more.clone());
                let named = scope.document.clone().unwrap_or_else(|| honcho.naming(&scope).name);
                assert_eq!(named, session, "{strategy}");
                let passes = vec![Fault::Slow(Duration::ZERO); broken / 2];
                let breaks = [Fault::DropRequest, Fault::DropAnswer][broken % 2].clone();
                world.server.fail("POST messages", passes.into_iter().chain([breaks]));
                let outcome = home.bring(&honcho, &scope, &session, Role::Owner).await;
                // Two files are there to be brought.
                assert_eq!(outcome.is_err(), is_kept && broken < 4, "{strategy} {broken}: {outcome:?}");
                world.server.heal();

                // Another process, in another directory: another session of the same owner, under two of the strategies.
                let elsewhere = world.honcho_in("/srv/cellar", more.clone());
                let other = match key {
                    Some(_) => "agent-main-telegram-dm-43".to_owned(),
                    None => elsewhere.naming(&scope).name,
                };
                home.bring(&elsewhere, &scope, &other, Role::Owner).await.unwrap();
                // What is written down later was said in turns.
                home.files.insert("USER.md", "Likes CANARY tea.");
                home.files.insert("MEMORY.md", "The pond froze.");
                let honcho = world.honcho_in("/srv/garden", more);
                home.bring(&honcho, &scope, &session, Role::Owner).await.unwrap();

                let mut kept = world.kept(&session).await;
                if other != session {
                    kept.extend(world.kept(&other).await);
                }
                let expected: &[&str] = if is_kept { &["MEMORY.md", "SOUL.md"] } else { &[] };
                assert_eq!(names(&kept), expected, "{strategy} {key:?} broken at {broken}");
                assert!(kept.iter().all(|kept| !kept.content.contains("froze")), "{kept:?}");
            }
        }
    }
}

#[tokio::test]
async fn p29_a_file_that_is_refused_or_cannot_be_read_keeps_no_turn_from_being_kept() {
    let (world, home) = (World::start().await, Home::new());
    let scope = settled("42");
    world.server.fail("POST messages", [Fault::Status(422)]);
    home.bring(&world.honcho(), &scope, CHAT, Role::Owner).await.unwrap();
    assert_eq!(names(&world.kept(CHAT).await), ["USER.md", "SOUL.md"]);
    home.bring(&world.honcho(), &scope, CHAT, Role::Owner).await.unwrap();
    assert_eq!(names(&world.kept(CHAT).await), ["USER.md", "SOUL.md"], "it is not offered again");

    let (world, home) = (World::start().await, Home::new());
    let honcho = world.honcho();
    let wanted = migration(honcho.settings(), &scope, Role::Owner);
    let ledger = MigrationLedger::of(home.directory.path());
    let read = |name: &str| match name {
        "USER.md" => Err("it is no text".to_owned()),
        name => Ok(home.files.get(name).map(|text| (*text).to_owned())),
    };
    honcho.migrate(&scope, CHAT, &wanted, &read, &ledger).await.unwrap();
    home.bring(&honcho, &scope, CHAT, Role::Owner).await.unwrap();
    assert_eq!(names(&world.kept(CHAT).await), ["MEMORY.md", "SOUL.md", "USER.md"]);
}

#[tokio::test]
async fn p29_what_hermes_has_brought_is_not_brought_again() {
    let (world, home) = (World::start().await, Home::new());
    let metadata = json!({"source": "local_memory", "original_file": "USER.md", "target_peer": "user"});
    let body = json!({"messages": [{"content": "<prior_memory_file>tea</prior_memory_file>", "peer_id": "42", "metadata": metadata}]});
    world.server.ask("POST", &world.workspace, &format!("sessions/{CHAT}/messages"), body).await;
    home.bring(&world.honcho(), &settled("42"), CHAT, Role::Owner).await.unwrap();
    assert_eq!(names(&world.kept(CHAT).await), ["USER.md", "MEMORY.md", "SOUL.md"]);
}

/// What was added to USER.md becomes a conclusion: what came since, once each, through any loss on the way.
#[tokio::test]
async fn what_is_added_to_the_profile_is_concluded_once_through_a_crash_at_any_request() {
    for fault in [
        None,
        Some(Fault::DropRequest),
        Some(Fault::DropAnswer),
        Some(Fault::HangAfter),
        Some(Fault::Status(503)),
        Some(Fault::StatusAfter(500)),
        Some(Fault::CommitLater(Duration::from_millis(150))),
    ] {
        let (world, home) = (World::start().await, Home::new());
        if world.server.is_real() {
            eprintln!("HONCHO: SKIPPED: conclusions of a real server need its models");
            return;
        }
        let behind = turn(1, "hello", "hi");
        let added = |line: u64, session: &str| ProfileAddition {
            line,
            entry: format!("Likes tea number {line}."),
            session: Some(session.parse().unwrap()),
        };
        let mine = behind.scope.session.as_str();
        // Two from before, which are in the file that was brought; two since.
        let mut all = vec![added(1, "earlier"), added(3, "earlier"), added(4, mine)];
        let mirror = |all: Vec<ProfileAddition>| {
            let (honcho, ledger) = (world.honcho(), MigrationLedger::of(home.directory.path()));
            let behind = behind.clone();
            async move { honcho.mirror(&behind, &all, &ledger).await }
        };
        world.server.fail("POST conclusions", fault.clone());
        let outcome = mirror(all.clone()).await;
        assert_eq!(outcome.is_err(), fault.is_some(), "{fault:?}: {outcome:?}");
        all.push(added(7, "another"));
        for _ in 0..2 {
            mirror(all.clone()).await.unwrap();
        }
        let concluded = world.server.conclusions(&world.workspace).await;
        let words: Vec<&str> = concluded.iter().map(|one| one["content"].as_str().unwrap()).collect();
        assert_eq!(words, ["Likes tea number 4.", "Likes tea number 7."], "{fault:?}");
        let whose = |one: &Value| (one["observer_id"].clone(), one["observed_id"].clone());
        assert!(concluded.iter().all(|one| whose(one) == (json!("hermes"), json!("42"))), "{concluded:?}");
    }
}

#[tokio::test]
async fn what_a_prompt_says_of_it_is_always_the_same() {
    let world = World::start().await;
    for (mode, words) in [("context", "no tools"), ("tools", "Nothing is recalled"), ("hybrid", "For more")] {
        let prompt = || world.honcho_with(json!({"recallMode": mode}), Audience::Many).prompt().unwrap();
        assert!(prompt().starts_with("# Honcho Memory\n") && prompt().contains(words), "{}", prompt());
        assert_eq!(prompt(), prompt());
    }
}
