use super::*;
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::symlink;

struct PathsFixture {
    _root: tempfile::TempDir,
    root: PathBuf,
    reach: FileReach,
}

fn world() -> PathsFixture {
    let guard = tempfile::tempdir().unwrap();
    let root = real(guard.path()).unwrap();
    for directory in
        ["user/work", "user/.ssh", "hermes/profiles/coder/skills", "hermes/skills", "hermes/sessions"]
    {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    let reach = FileReach {
        workspace: root.join("user/work"),
        home: root.join("hermes/profiles/coder"),
        user_home: root.join("user"),
        ..FileReach::default()
    };
    PathsFixture { _root: guard, root, reach }
}

impl PathsFixture {
    fn at(&self, path: &str) -> PathBuf {
        self.reach.resolve(Path::new(""), path).unwrap()
    }

    fn read(&self, path: &str) -> Option<String> {
        self.reach.read_refusal(&self.at(path), path, "s")
    }

    fn write(&self, path: &str) -> Option<String> {
        self.reach.change_refusal(&self.at(path), path, FileChange::Write)
    }

    fn full(&self, path: &str) -> String {
        self.root.join(path).to_string_lossy().into_owned()
    }
}

#[test]
fn paths_mean_what_they_mean_in_a_shell() {
    let world = world();
    let work = world.root.join("user/work");
    assert_eq!(world.at("a/b"), work.join("a/b"));
    assert_eq!(world.at("./a/../b"), work.join("b"));
    assert_eq!(world.at("~"), world.root.join("user"));
    assert_eq!(world.at("~/x"), world.root.join("user/x"));
    assert_eq!(world.at("~nobody/x"), work.join("~nobody/x"));
    assert_eq!(world.at("/a//b/./c"), Path::new("/a/b/c"));
    assert_eq!(world.at("/../../etc"), Path::new("/etc"));
    assert_eq!(world.reach.resolve(&work.join("deep"), "x").unwrap(), work.join("deep/x"));
    assert_eq!(world.reach.resolve(&work, "a\0b").unwrap_err(), "embedded null byte");
}

#[test]
fn p31_the_agents_own_secrets_are_refused_in_every_home_beside_it() {
    let world = world();
    for home in ["hermes", "hermes/profiles/coder", "hermes/profiles/other"] {
        for secret in [
            ".env",
            "auth.json",
            "auth/google_oauth.json",
            "mcp-tokens/x.json",
            "throughline.key",
            "state.db",
            "state.db-wal",
            "cache/bws_cache.json",
            "skills/.hub/index.json",
        ] {
            let path = world.full(&format!("{home}/{secret}"));
            let told = world.read(&path).unwrap_or_else(|| panic!("{path} may be read"));
            assert!(told.starts_with("Access denied: ") && told.contains(&path), "{told}");
        }
        for policy in [
            "config.yaml",
            ".env",
            "state.db-shm",
            "sessions/x.json",
            "pairing/telegram.json",
            "gateway.lock",
            "gateway.pid",
            "throughline.key",
            "throughline/todo/s.json",
            "mcp-tokens/x",
        ] {
            let path = world.full(&format!("{home}/{policy}"));
            assert!(world.write(&path).is_some(), "{path} may be written");
        }
    }
    assert_eq!(world.read(&world.full("hermes/config.yaml")), None, "reading the policy is no secret");
    assert_eq!(world.read(&world.full("hermes/profiles/coder/memories/MEMORY.md")), None);
    assert_eq!(world.write(&world.full("hermes/profiles/coder/skills/x/SKILL.md")), None);
    assert_eq!(world.write(&world.full("user/work/config.yaml")), None, "a project has one, too");
}

#[test]
fn p31_the_users_keys_and_the_system_are_refused() {
    let world = world();
    for path in ["~/.ssh/id_ed25519", "~/.aws/credentials", "~/.netrc", "/etc/shadow", "~/.gnupg/secring.gpg"]
    {
        assert!(world.read(path).is_some(), "{path} may be read");
        assert!(world.write(path).is_some(), "{path} may be written");
    }
    for path in ["~/.ssh/id_ed25519.pub", "~/.ssh/config", "/etc/hosts", "/usr/include/stdio.h"] {
        assert_eq!(world.read(path), None, "{path}");
    }
    for path in
        ["~/.ssh/authorized_keys", "/etc/hosts", "/boot/x", "/run/docker.sock", "/proc/sys/x", "/dev/sda"]
    {
        assert!(world.write(path).is_some(), "{path} may be written");
    }
    assert_eq!(
        world.write("/etc/crontab").unwrap(),
        "Refusing to write to sensitive system path: /etc/crontab\nUse the terminal tool with sudo if you need to \
         modify system files."
    );
}

#[test]
fn p31_environment_secrets_are_refused() {
    let world = world();
    for path in
        [".env", "sub/.ENV.local", ".envrc", "/proc/self/environ", "/proc/1/task/1/environ", "/proc/1/mem"]
    {
        assert!(world.read(path).is_some(), "{path} may be read");
    }
    for path in [".env.example", "environ", "/proc/cpuinfo", "/proc/meminfo"] {
        assert_eq!(world.read(path), None, "{path}");
    }
}

#[test]
fn devices_are_refused_by_any_name() {
    let world = world();
    symlink("/dev/zero", world.root.join("user/work/zero")).unwrap();
    for path in ["/dev/zero", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0", "zero", "/dev/../dev/tty"] {
        assert_eq!(
            world.read(path).unwrap(),
            format!(
                "Cannot read '{path}': this is a device file that would block or produce infinite output."
            )
        );
    }
}

#[test]
fn p31_a_symlink_out_of_the_workspace_is_refused() {
    let mut world = world();
    world.reach.confined = true;
    world.reach.readable = vec![world.root.join("hermes/profiles/coder/throughline/tool-results")];
    let work = world.root.join("user/work");
    fs::write(world.root.join("outside.txt"), "x").unwrap();
    fs::create_dir(work.join("sub")).unwrap();
    symlink(world.root.join("outside.txt"), work.join("file-link")).unwrap();
    symlink(&world.root, work.join("directory-link")).unwrap();
    symlink("sub/../../..", work.join("crooked")).unwrap();
    symlink("directory-link", work.join("two-steps")).unwrap();
    symlink("loop", work.join("loop")).unwrap();
    for path in [
        "file-link",
        "directory-link/outside.txt",
        "two-steps/new.txt",
        "crooked/outside.txt",
        "../../outside.txt",
        "sub/../../../outside.txt",
        "/etc/hosts",
        "~/x",
        "directory-link/absent/../outside.txt",
    ] {
        assert!(world.read(path).is_some(), "{path} may be read");
        assert!(world.write(path).is_some(), "{path} may be written");
        assert!(world.write(path).unwrap().contains(path) || path == "/etc/hosts");
    }
    assert!(world.reach.resolve(&work, "loop").unwrap_err().contains("'loop'"));
    for path in ["a.txt", "sub/../b.txt", "sub/deep/c.txt"] {
        assert_eq!((world.read(path), world.write(path)), (None, None), "{path}");
    }
    let spilled = world.full("hermes/profiles/coder/throughline/tool-results/s/k.txt");
    assert_eq!(world.read(&spilled), None);
    assert!(world.write(&spilled).is_some());
}

#[test]
fn p31_a_link_to_a_secret_is_refused_by_what_it_means() {
    let world = world();
    let secret = world.root.join("hermes/profiles/coder/.env");
    fs::write(&secret, "KEY=1").unwrap();
    symlink(&secret, world.root.join("user/work/notes.txt")).unwrap();
    assert!(world.read("notes.txt").is_some());
    // A second name has no path that tells; the file itself does.
    fs::hard_link(&secret, world.root.join("user/work/harmless.txt")).unwrap();
    let resolved = world.at("harmless.txt");
    assert_eq!(world.reach.read_refusal(&resolved, "harmless.txt", "s"), None);
    assert!(matches!(world.reach.open(&resolved, "harmless.txt"), Err(FileOpenError::Refused(_))));
}

#[test]
fn p31_a_link_put_in_after_the_decision_leads_nowhere() {
    let world = world();
    let work = world.root.join("user/work");
    fs::create_dir(work.join("sub")).unwrap();
    fs::write(work.join("sub/a.txt"), "mine").unwrap();
    fs::write(world.root.join("a.txt"), "not mine").unwrap();
    let decided = world.at("sub/a.txt");
    assert!(world.reach.open(&decided, "sub/a.txt").is_ok());
    let held = world.reach.hold(decided.parent().unwrap()).unwrap();

    fs::rename(work.join("sub"), work.join("moved")).unwrap();
    symlink(&world.root, work.join("sub")).unwrap();
    assert!(matches!(world.reach.open(&decided, "sub/a.txt"), Err(FileOpenError::Refused(_))));
    assert!(world.reach.hold(decided.parent().unwrap()).is_err());
    // What was held before is still the directory that was decided about.
    assert_eq!(fs::read_to_string(held.path().join("a.txt")).unwrap(), "mine");

    symlink(world.root.join("a.txt"), work.join("b.txt")).unwrap();
    assert!(matches!(world.reach.open(&work.join("b.txt"), "b.txt"), Err(FileOpenError::Refused(_))));
}

#[test]
fn what_is_no_file_is_not_opened() {
    let world = world();
    let fifo = world.root.join("user/work/fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    assert!(
        matches!(world.reach.open(&fifo, "fifo"), Err(FileOpenError::Refused(_))),
        "and does not wait either"
    );
    assert!(matches!(world.reach.open(&world.root, "."), Err(FileOpenError::Directory)));
    assert!(matches!(world.reach.open(&world.root.join("absent"), "x"), Err(FileOpenError::Failed(_))));
}

#[test]
fn another_agents_skills_need_a_word() {
    let world = world();
    let told = world.reach.foreign(&world.root.join("hermes/skills/x/SKILL.md")).unwrap();
    assert!(told.contains("profile 'default'") && told.contains("profile 'coder'"), "{told}");
    assert!(world.reach.foreign(&world.root.join("hermes/profiles/other/memories/MEMORY.md")).is_some());
    assert_eq!(world.reach.foreign(&world.root.join("hermes/profiles/coder/skills/x/SKILL.md")), None);
    assert_eq!(world.reach.foreign(&world.root.join("user/work/skills/x")), None);
    assert!(world.reach.foreign(Path::new("/x/sandboxes/docker/t/home/.hermes/SOUL.md")).is_some());
}

#[test]
fn writes_stay_under_the_safe_roots_where_there_are_any() {
    let mut world = world();
    world.reach.write_roots = vec![world.root.join("user/work/safe")];
    assert_eq!(world.write("safe/x"), None);
    assert!(world.write("x").unwrap().contains("is outside HERMES_WRITE_SAFE_ROOT ("));
    assert_eq!(world.read("x"), None);
}

proptest! {
    #[test]
    fn p31_no_spelling_leaves_the_workspace(
        parts in proptest::collection::vec(
            prop_oneof![Just("..".to_owned()), Just(".".to_owned()), Just("sub".to_owned()), Just("link".to_owned()), Just("".to_owned()), "[a-c]{1,2}"],
            0..8,
        ),
        absolute in any::<bool>(),
    ) {
        let mut world = world();
        world.reach.confined = true;
        let work = world.root.join("user/work");
        fs::create_dir(work.join("sub")).unwrap();
        symlink(&world.root, work.join("sub/link")).unwrap();
        let path = if absolute { format!("{}/{}", work.display(), parts.join("/")) } else { parts.join("/") };
        let resolved = world.at(&path);
        let inside = resolved.starts_with(&work);
        prop_assert_eq!(world.reach.read_refusal(&resolved, &path, "s").is_none(), inside, "{}", path);
        prop_assert_eq!(real(&resolved).unwrap(), resolved.clone(), "resolving is final");
        if let Ok(truth) = fs::canonicalize(work.join(&path)) {
            prop_assert_eq!(truth, resolved, "{}", path);
        }
    }
}
