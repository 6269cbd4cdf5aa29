//! What file tools may read and change, and what a person must allow first.

use super::super::*;
use super::{FilesFixture, call, world, world_with};
use crate::approval::{self, AskMode, CommandAllowlist};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use throughline_core::tool::{Grant, Question};

#[tokio::test]
async fn what_may_not_be_touched_is_told() {
    let world = world();
    let path = world.put("locked.txt", "secret");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    let closed = world.root.join("ws/closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).unwrap();
    // The superuser is not stopped by modes.
    if fs::read(&path).is_err() {
        assert!(world.read(json!({"path": "locked.txt"})).await.contains("Permission denied"));
        assert!(world.replace("locked.txt", "secret", "x").await.contains("Permission denied"));
        assert!(world.write("closed/x.txt", "x").await.contains("Permission denied"));
    }
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test]
async fn p31_secrets_are_out_of_reach_for_every_tool() {
    let world = world_with(|reach| reach.confined = true, FileSettings::default());
    fs::write(world.root.join("home/.env"), "KEY=hunter2").unwrap();
    fs::write(world.root.join("outside.txt"), "hunter2").unwrap();
    world.put(".env", "KEY=hunter2");
    world.put("sub/.env.local", "KEY=hunter2");
    symlink(world.root.join("home/.env"), world.root.join("ws/link")).unwrap();
    symlink(&world.root, world.root.join("ws/up")).unwrap();
    fs::hard_link(world.root.join("home/.env"), world.root.join("ws/second")).unwrap();
    for path in
        [".env", "sub/.env.local", "link", "up/outside.txt", "second", "../outside.txt", "up/home/.env"]
    {
        for told in [
            world.read(json!({"path": path})).await,
            world.replace(path, "hunter2", "x").await,
            world.replace(path, "hunter", "x").await,
            world
                .call(
                    "patch",
                    json!({"mode": "patch", "patch": format!("*** Update File: {path}\n-KEY\n+x")}),
                )
                .await,
            world.search(json!({"pattern": "hunter", "path": path})).await,
        ] {
            let refused = told.contains("denied")
                || told.contains("escapes allowed")
                || told.contains("traversal")
                || told.starts_with(r#"{"total_count": 0"#);
            assert!(refused && !told.contains("KEY="), "{path}: {told}");
        }
    }
    let found = world.search(json!({"pattern": "hunter2", "path": "."})).await;
    assert!(!found.contains("KEY=") && !found.contains("hunter2"), "{found}");
    let found = world.search(json!({"pattern": "hunter2", "path": ".", "file_glob": ".env*"})).await;
    assert!(found.contains("2 result(s) omitted because they target credential"), "{found}");
    for path in ["link", "up/x", "../x", "/tmp/x-outside"] {
        let told = world.write(path, "x").await;
        assert!(told.contains("denied") || told.contains("escapes allowed directory"), "{path}: {told}");
    }
    assert_eq!(fs::read_to_string(world.root.join("home/.env")).unwrap(), "KEY=hunter2");
}

#[tokio::test]
async fn p31_a_link_swapped_in_again_and_again_never_leads_out() {
    let world = world_with(|reach| reach.confined = true, FileSettings::default());
    fs::create_dir(world.root.join("outside")).unwrap();
    fs::write(world.root.join("outside/f.txt"), "hunter2").unwrap();
    world.put("real/f.txt", "inside");
    symlink(world.root.join("outside"), world.root.join("ws/link")).unwrap();
    let work = world.root.join("ws");
    let stop = Arc::new(AtomicBool::new(false));
    let swapping = {
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || {
            let swap = |from: &str, to: &str| fs::rename(work.join(from), work.join(to));
            while !stop.load(Ordering::Relaxed) {
                let _ = swap("real", "aside");
                let _ = swap("link", "real");
                let _ = swap("real", "link");
                let _ = swap("aside", "real");
            }
        })
    };
    for turn in 0..300 {
        let told = world.raw("s", turn, "read_file", r#"{"path":"real/f.txt"}"#).await;
        assert!(!told.contains("hunter2"), "{told}");
        world.write("real/g.txt", "mine").await;
        let found = world.raw("s", turn, "search_files", r#"{"pattern":"hunter","path":"real"}"#).await;
        assert!(!found.contains("hunter2"), "{found}");
    }
    stop.store(true, Ordering::Relaxed);
    swapping.join().unwrap();
    let outside: Vec<_> =
        fs::read_dir(world.root.join("outside")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(outside, ["f.txt"], "nothing was written there");
}

#[tokio::test]
async fn another_agents_skills_are_changed_only_on_the_users_word() {
    let world = world_with(|reach| reach.home = reach.home.join("profiles/coder"), FileSettings::default());
    let path = world.root.join("home/skills/x/SKILL.md");
    let call = |cross: bool| json!({"path": path, "content": "x", "cross_profile": cross});
    assert!(
        world.call("write_file", call(false)).await.contains("Cross-profile write blocked by soft guard")
    );
    assert!(!path.exists());
    // The model's word is not the user's.
    let mut world = world;
    world.files = world.files.asking(judge());
    let asked = world.asked("write_file", call(true)).await;
    assert!(asked.contains("SKILL.md") && asked.contains("another agent"), "{asked}");
    assert!(!path.exists());
    assert!(world.granted("write_file", call(true)).await.contains("bytes_written\": 1"));
}

struct NoAllowlist;

impl CommandAllowlist for NoAllowlist {
    fn allows(&self) -> Vec<String> {
        Vec::new()
    }

    fn add(&self, _: &[String]) -> Result<(), String> {
        Ok(())
    }
}

fn judge() -> Arc<CommandApprovals> {
    let place = approval::CommandPlace { home: "/h".into(), user_home: None, temporary: "/tmp".into() };
    let settings =
        approval::ApprovalSettings { mode: AskMode::Manual, ..approval::ApprovalSettings::new(place) };
    Arc::new(CommandApprovals::new(settings, Arc::new(NoAllowlist), None))
}

impl FilesFixture {
    /// What a person is asked before it is done.
    async fn asked(&self, name: &str, arguments: Value) -> String {
        match self.files.call(&call("s", "1/1/0", name, &arguments.to_string())).await {
            Returned::Ask { question: Question::Approval { what, why, .. }, .. } => format!("{what}: {why}"),
            other => panic!("no person is asked: {other:?}"),
        }
    }

    /// What comes of it after a yes.
    async fn granted(&self, name: &str, arguments: Value) -> String {
        let call = call("s", "1/1/0", name, &arguments.to_string());
        match self.files.call(&Call { grant: Some(Grant::Once), ..call }).await {
            Returned::Done(done) => done.content.plain(),
            other => panic!("it is asked again: {other:?}"),
        }
    }
}

#[tokio::test]
async fn p31_file_tools_change_no_more_of_a_home_than_commands_do() {
    let world = world();
    let home = world.root.join("home");
    for name in [
        "platforms/pairing/telegram-approved.json",
        "hooks/mine/handler.py",
        "plugins/mine/plugin.py",
        "honcho.json",
        "cron/jobs.json",
        "gateway.json",
        "processes.json",
        "throughline/todo/s.json",
        "backups/x.tar.gz",
        "sessions/x.jsonl",
        "whatever.txt",
        "new/whatever.txt",
    ] {
        let path = home.join(name);
        let told = world.write(&path.to_string_lossy(), "x = 1").await;
        assert!(told.contains("denied") && !path.exists(), "{name}: {told}");
        let patch = format!("*** Begin Patch\n*** Add File: {}\n+x\n*** End Patch", path.display());
        let told = world.call("patch", json!({"mode": "patch", "patch": patch})).await;
        assert!(told.contains("denied") && !path.exists(), "{name}: {told}");
    }
    for name in ["skills/x/SKILL.md", "workspace/a.txt", "scripts/s.py", "plans/p.md"] {
        world.write(&home.join(name).to_string_lossy(), "x = 1").await;
        assert!(home.join(name).exists(), "{name}");
    }
}

#[tokio::test]
async fn p31_file_tools_read_no_secret_and_nothing_of_other_sessions() {
    let world = world();
    let home = world.root.join("home");
    for name in [
        "honcho.json",
        "backups/home.tar",
        "home.tar.gz.partial",
        "throughline.history",
        "throughline/todo/s.json",
        "throughline/tool-results/other/k.txt",
        "cache/tool-results/k.txt",
        "platforms/pairing/telegram-approved.json",
        "memories/.throughline/memory.jsonl",
        "whatever.txt",
    ] {
        let path = home.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "hunter2").unwrap();
        let told = world.read(json!({"path": path})).await;
        assert!(told.contains("Access denied") && !told.contains("hunter2"), "{name}: {told}");
    }
    let found = world.search(json!({"pattern": "hunter", "path": home})).await;
    assert!(!found.contains("hunter2"), "{found}");
    let own = home.join("throughline/tool-results/s/k.txt");
    fs::create_dir_all(own.parent().unwrap()).unwrap();
    fs::write(&own, "mine").unwrap();
    assert!(world.read(json!({"path": own})).await.contains("mine"));
    assert!(world.write(&own.to_string_lossy(), "x").await.contains("denied"));
}

#[tokio::test]
async fn p31_what_runs_by_itself_is_written_only_after_a_persons_yes() {
    let mut world = world();
    world.files = world.files.asking(judge());
    for name in [
        "user/.bashrc",
        "user/.config/systemd/user/x.service",
        "user/.config/autostart/x.desktop",
        "ws/project/.git/hooks/pre-commit",
        "home/memories/MEMORY.md",
    ] {
        let path = world.root.join(name);
        let write = || json!({"path": path, "content": "echo hi\n"});
        assert!(world.asked("write_file", write()).await.contains(&*path.to_string_lossy()));
        assert!(!path.exists(), "{name} is written before a person said yes");
        world.granted("write_file", write()).await;
        assert!(path.exists(), "{name} is not written after a yes");
    }
    // One question for all files of a patch.
    let bashrc = world.root.join("user/.bashrc");
    let profile = world.root.join("user/.profile");
    let patch = format!(
        "*** Begin Patch\n*** Update File: {}\n-echo hi\n+echo ho\n*** Add File: {}\n+x\n*** End Patch",
        bashrc.display(),
        profile.display()
    );
    let asked = world.asked("patch", json!({"mode": "patch", "patch": patch})).await;
    assert!(asked.contains(".bashrc") && asked.contains(".profile"), "{asked}");
    assert!(!profile.exists());
    // A yes is for a file, not for wherever a link leads by then.
    symlink(&bashrc, world.root.join("ws/innocent")).unwrap();
    let told = world.write("innocent", "evil").await;
    assert!(told.contains("real path"), "{told}");
    assert!(!fs::read_to_string(&bashrc).unwrap().contains("evil"));
}

#[tokio::test]
async fn a_name_of_a_home_that_nobody_knows_is_asked_about_and_a_setting_opens_it() {
    let mut world = world_with(|reach| reach.opened = vec!["garden".to_owned()], FileSettings::default());
    let home = world.root.join("home");
    for name in ["garden/beans.txt", "cellar/wine.txt"] {
        fs::create_dir_all(home.join(name).parent().unwrap()).unwrap();
        fs::write(home.join(name), "content").unwrap();
    }
    world.files = world.files.asking(judge());
    assert!(world.read(json!({"path": home.join("garden/beans.txt")})).await.contains("content"));
    world.write(&home.join("garden/peas.txt").to_string_lossy(), "x").await;
    assert!(home.join("garden/peas.txt").exists());
    let read = || json!({"path": home.join("cellar/wine.txt")});
    assert!(world.asked("read_file", read()).await.contains("cellar/wine.txt"));
    assert!(world.granted("read_file", read()).await.contains("content"));
    let search = || json!({"pattern": "content", "path": home.join("cellar")});
    assert!(world.asked("search_files", search()).await.contains("cellar"));
    assert!(world.granted("search_files", search()).await.contains("wine.txt"));
}

#[tokio::test]
async fn secrets_in_what_is_read_are_not_shown() {
    let world = world();
    world.put("settings.ini", "token = ghp_abcdefghijklmnopqrstuvwxyz0123456789\n");
    assert!(!world.read(json!({"path": "settings.ini"})).await.contains("klmnopqrst"));
    assert!(!world.search(json!({"pattern": "token"})).await.contains("klmnopqrst"));
    let open = world_with(|_| {}, FileSettings { redact: false, ..FileSettings::default() });
    open.put("settings.ini", "token = ghp_abcdefghijklmnopqrstuvwxyz0123456789\n");
    assert!(open.read(json!({"path": "settings.ini"})).await.contains("klmnopqrst"));
}
