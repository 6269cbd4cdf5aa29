//! Real processes under the real kernel. The homes lie in `/var/tmp`, so that `/tmp` is a directory
//! beside them, as it is for most people.

use super::*;
use crate::sandbox::{Unconfined, confine};
use std::os::unix::fs::symlink;
use std::process::Stdio;
use tempfile::TempDir;

const SECRET: &str = "canary-4f1d";

/// A user's directory with a project in it and an agent's home.
struct SandboxFixture {
    user: TempDir,
    home: PathBuf,
    landlock: Landlock,
}

impl SandboxFixture {
    fn new() -> Self {
        Self::with(|_, _| {}, |_| {})
    }

    fn with(arrange: impl FnOnce(&Path, &Path), settle: impl FnOnce(&mut SandboxSettings)) -> Self {
        let user = tempfile::tempdir_in("/var/tmp").unwrap();
        let home = user.path().join(".hermes");
        for directory in
            ["skills/one", "workspace", "memories", "sessions", "hooks", "cache", "profiles/b/skills"]
        {
            fs(&home.join(directory));
        }
        fs(&user.path().join("project"));
        for secret in [".env", "auth.json", "state.db", "state.db-wal", "throughline.key", "sessions/a.json"]
        {
            write(&home.join(secret), SECRET);
        }
        write(&home.join("profiles/b/.env"), SECRET);
        write(&home.join("profiles/b/config.yaml"), "model: b\n");
        write(&home.join("config.yaml"), "model: x\n");
        write(&home.join("memories/MEMORY.md"), "remembered\n");
        write(&user.path().join("notes.txt"), "notes\n");
        arrange(user.path(), &home);
        let mut settings = SandboxSettings {
            enabled: true,
            home: home.clone(),
            others: Vec::new(),
            workspace: None,
            opened: Vec::new(),
        };
        settle(&mut settings);
        let landlock = Landlock::new(&settings).expect("this kernel has Landlock");
        Self { user, home, landlock }
    }

    /// Runs a script in the user's directory with `$U` and `$H` set.
    fn run(&self, script: &str) -> (bool, String) {
        let mut command = Command::new("bash");
        command.args(["-c", script]).current_dir(self.user.path());
        command.env("U", self.user.path()).env("H", &self.home).env("HOME", self.user.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = self.landlock.spawn(command).unwrap().wait_with_output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    }

    fn refuses(&self, script: &str) {
        let (worked, text) = self.run(script);
        assert!(!worked, "{script} worked: {text}");
        assert!(!text.contains(SECRET), "{script} showed it: {text}");
    }

    fn allows(&self, script: &str) -> String {
        let (worked, text) = self.run(script);
        assert!(worked, "{script} failed: {text}");
        text
    }
}

fn fs(directory: &Path) {
    std::fs::create_dir_all(directory).unwrap();
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn p31_a_secret_cannot_be_read_by_any_way_round() {
    let world = SandboxFixture::with(
        |user, home| symlink(home.join(".env"), user.join("project/innocent")).unwrap(),
        |_| {},
    );
    for secret in [
        ".env",
        "auth.json",
        "state.db",
        "state.db-wal",
        "throughline.key",
        "sessions/a.json",
        "profiles/b/.env",
    ] {
        world.refuses(&format!("cat $H/{secret}"));
    }
    for script in [
        "cat project/innocent",
        "cat project/../.hermes/.env",
        "ln -s $H/.env project/link && cat project/link",
        "ln $H/.env project/hard",
        "cp $H/.env project/copy",
        "mv $H/.env project/moved",
        "cat /proc/self/root$H/.env",
        "cat /proc/self/cwd/.hermes/.env",
        "cd $H && cat .env",
        "exec 3< $H/.env && cat <&3",
        "dd if=$H/.env",
        "tar cf - $H/.env",
        "python3 -c \"print(open('$H/.env').read())\"",
        "python3 -c \"import os; os.chroot('/proc/self/root'); print(open('$H/.env').read())\"",
        "sh -c 'sh -c \"cat $H/.env\"'",
        "setsid cat $H/.env",
        "unshare -rm sh -c 'mount --bind $H project && cat project/.env'",
        "grep -r canary $H/.env",
    ] {
        world.refuses(script);
    }
    assert!(!world.user.path().join("project/hard").exists());
}

#[test]
fn p31_policy_and_store_cannot_be_changed() {
    let world = SandboxFixture::new();
    for script in [
        "echo 'approvals: {mode: off}' > $H/config.yaml",
        "echo x >> $H/config.yaml",
        "sed -i s/x/y/ $H/config.yaml",
        "truncate -s 0 $H/config.yaml",
        "rm $H/config.yaml",
        "mv $H/config.yaml project/",
        "cp project/other $H/config.yaml",
        "ln -sf /tmp/x $H/config.yaml",
        "touch $H/hooks/new",
        "mkdir $H/plugins",
        "echo x > $H/memories/MEMORY.md",
        "rm -rf $H/memories",
        "rm -f $H/state.db",
        "mv $H elsewhere",
        "mv $H project/elsewhere",
        "mkdir evil && mv -T evil $H",
        "python3 -c \"import os; os.rename('$H', '$U/project/h')\"",
        "mv $U ${U}x",
        "echo x > $H/profiles/b/config.yaml",
        "touch $H/profiles/b/skills/x",
    ] {
        world.refuses(script);
    }
    assert_eq!(read(&world.home.join("config.yaml")), "model: x\n");
    assert_eq!(read(&world.home.join("memories/MEMORY.md")), "remembered\n");
}

#[test]
fn ordinary_work_goes_on() {
    let world = SandboxFixture::new();
    for script in [
        "cat notes.txt",
        "echo more >> notes.txt",
        "echo x > project/new && mkdir -p project/a/b && mv project/new project/a/b/ && rm -r project/a",
        "f=$(mktemp) && echo x > $f && cat $f && rm $f",
        "cd project && git init -q . && echo x > f && git add f",
        "cd project && git -c user.name=a -c user.email=a@b commit -qm m && git log --oneline",
        "echo x > $H/workspace/file && echo y > $H/skills/one/SKILL.md && echo z > $H/cache/c",
        "cat $H/config.yaml $H/memories/MEMORY.md",
        "ls -la $H / $U",
        "python3 -c 'print(1)' > /dev/null",
        "echo x > /var/tmp/throughline-never 2>/dev/null; test ! -e /var/tmp/throughline-never",
        "mv $H/workspace project/w && mv project/w/. project/ 2>/dev/null; true",
        "sleep 0 & wait",
        "ps > /dev/null; cat /proc/self/status > /dev/null",
    ] {
        world.allows(script);
    }
}

#[test]
fn a_program_can_be_compiled_and_run() {
    let world = SandboxFixture::new();
    if Command::new("cc").arg("--version").output().is_err() {
        return;
    }
    let text = world.allows(
        "cd project && printf '#include <stdio.h>\\nint main(){puts(\"ran\");}\\n' > a.c && cc a.c -o a && ./a",
    );
    assert!(text.contains("ran"));
}

#[test]
fn nothing_new_appears_directly_above_a_home_and_the_hint_says_so() {
    let world = SandboxFixture::new();
    world.refuses("echo x > $U/new");
    world.refuses("rm notes.txt");
    let hint = world.landlock.hint().unwrap();
    assert!(hint.contains(&world.user.path().canonicalize().unwrap().display().to_string()), "{hint}");
}

#[test]
fn what_appears_beside_a_home_is_granted_to_the_next_command() {
    let world = SandboxFixture::new();
    world.allows("true");
    fs(&world.user.path().join("later"));
    world.allows("echo x > later/file && cat later/file");
}

#[test]
fn p31_a_secret_that_appears_later_is_kept_from_the_next_command() {
    let world = SandboxFixture::new();
    world.allows("true");
    write(&world.home.join(".env.backup"), SECRET);
    write(&world.home.join("google_token.json"), SECRET);
    world.refuses("cat $H/.env.backup");
    world.refuses("cat $H/google_token.json");
}

#[test]
fn p31_the_environment_of_the_gateway_stays_its_own() {
    let world = SandboxFixture::new();
    let own = std::process::id();
    world.refuses(&format!("cat /proc/{own}/root{}/.env", world.home.display()));
    // The superuser's right to profile reaches every memory; without it, root is a user like any other.
    let without = "$(test $(id -u) = 0 && echo setpriv --bounding-set -perfmon,-sys_admin)";
    world.refuses(&format!("{without} cat /proc/{own}/environ"));
    let mut command = Command::new("bash");
    command.args(["-c", &format!("{without} cat /proc/{own}/environ")]).stdout(Stdio::null());
    assert!(
        Unconfined.spawn(command).unwrap().wait().unwrap().success(),
        "it is the confinement that refuses"
    );
}

#[test]
fn p31_a_link_out_of_the_home_takes_its_rule_along() {
    let world = SandboxFixture::with(
        |user, home| {
            fs(&user.join("dotfiles"));
            write(&user.join("dotfiles/env"), SECRET);
            write(&user.join("dotfiles/config.yaml"), "model: x\n");
            std::fs::remove_file(home.join(".env")).unwrap();
            std::fs::remove_file(home.join("config.yaml")).unwrap();
            symlink(user.join("dotfiles/env"), home.join(".env")).unwrap();
            symlink(user.join("dotfiles/config.yaml"), home.join("config.yaml")).unwrap();
        },
        |_| {},
    );
    world.refuses("cat dotfiles/env");
    world.refuses("cat $H/.env");
    world.refuses("echo x > dotfiles/config.yaml");
    world.allows("cat $H/config.yaml");
}

#[test]
fn p31_a_link_to_the_home_cannot_be_turned() {
    let elsewhere = tempfile::tempdir_in("/var/tmp").unwrap();
    let place = elsewhere.path().join("agent");
    let moved = place.clone();
    let world = SandboxFixture::with(
        move |_, home| {
            std::fs::rename(home, &moved).unwrap();
            symlink(&moved, home).unwrap();
        },
        |_| {},
    );
    world.refuses("cat $H/.env");
    world.refuses("rm $H");
    world.refuses("ln -sfn /tmp $H");
    world.refuses(&format!("echo x > {}/config.yaml", place.display()));
}

#[test]
fn p31_a_link_to_the_home_in_a_granted_directory_grants_nothing() {
    let world = SandboxFixture::with(|user, home| symlink(home, user.join("shortcut")).unwrap(), |_| {});
    world.refuses("cat shortcut/.env");
    world.refuses("echo x > shortcut/config.yaml");
}

#[test]
fn a_vaults_cache_is_kept_and_the_rest_of_the_cache_is_not() {
    let world = SandboxFixture::with(
        |_, home| {
            write(&home.join("cache/bws_cache.json"), SECRET);
            fs(&home.join("cache/images"));
        },
        |_| {},
    );
    world.refuses("cat $H/cache/bws_cache.json");
    world.allows("echo x > $H/cache/images/a");
}

#[test]
fn a_profile_writes_its_own_home_and_reads_no_secret_of_another() {
    let world = SandboxFixture::with(|_, _| {}, |settings| settings.home.push("profiles/b"));
    world.allows("echo x > $H/profiles/b/skills/new");
    world.refuses("cat $H/.env");
    world.refuses("echo x > $H/skills/one/SKILL.md");
    world.refuses("echo x > $H/config.yaml");
    world.refuses("cat $H/profiles/b/.env");
}

#[test]
fn a_workspace_within_the_home_is_granted_and_one_around_it_is_not() {
    let world = SandboxFixture::with(
        |_, home| fs(&home.join("garden")),
        |settings| settings.workspace = Some(settings.home.join("garden")),
    );
    world.allows("echo x > $H/garden/new");
    let world = SandboxFixture::with(
        |_, _| {},
        |settings| settings.workspace = Some(settings.home.parent().unwrap().to_path_buf()),
    );
    world.refuses("cat $H/.env");
    let settings = SandboxSettings {
        enabled: true,
        home: world.home.clone(),
        others: Vec::new(),
        workspace: Some(world.user.path().to_path_buf()),
        opened: Vec::new(),
    };
    let note = world.landlock.note(&settings).unwrap();
    assert!(note.contains("terminal.cwd"), "{note}");
}

#[test]
fn nothing_is_gained_by_starting_a_privileged_program() {
    let world = SandboxFixture::new();
    let text = world.allows("grep NoNewPrivs /proc/self/status");
    assert!(text.trim_end().ends_with('1'), "{text}");
}

#[test]
fn a_thread_that_started_a_command_leaves_the_others_free() {
    let world = SandboxFixture::new();
    world.allows("true");
    assert_eq!(read(&world.home.join(".env")), SECRET);
}

#[test]
fn the_unconfined_may_everything() {
    let world = SandboxFixture::new();
    let mut command = Command::new("cat");
    command.arg(world.home.join(".env")).stdout(Stdio::piped());
    let output = Unconfined.spawn(command).unwrap().wait_with_output().unwrap();
    assert_eq!(output.stdout, SECRET.as_bytes());
}

#[test]
fn what_is_switched_off_does_not_confine() {
    let world = SandboxFixture::new();
    for (enabled, reads) in [(true, false), (false, true)] {
        let settings = SandboxSettings {
            enabled,
            home: world.home.clone(),
            others: Vec::new(),
            workspace: None,
            opened: Vec::new(),
        };
        let (confine, note) = confine(&settings);
        let mut command = Command::new("cat");
        command.arg(world.home.join(".env")).stdout(Stdio::null()).stderr(Stdio::null());
        assert_eq!(confine.spawn(command).unwrap().wait().unwrap().success(), reads);
        assert_eq!(note, None);
    }
}

#[test]
fn building_a_ruleset_takes_little() {
    let world = SandboxFixture::new();
    let began = std::time::Instant::now();
    world.landlock.build().unwrap();
    let took = began.elapsed();
    println!("{took:?}");
    assert!(took < Duration::from_millis(250), "{took:?}"); // an unoptimised build on a busy machine
}

#[test]
fn a_ruleset_is_used_again_until_a_directory_changes() {
    let world = SandboxFixture::new();
    let own = |path: &Path| path.starts_with(world.user.path().canonicalize().unwrap());
    let built = || {
        let mut built = world.landlock.build().unwrap();
        // The directories above are everybody's, and change as they please.
        built.listed.retain(|(path, _)| own(path));
        built
    };
    assert!(!built().is_fresh(), "what has just changed may change again unseen");
    std::thread::sleep(CLOCK_GRAIN * 2);
    let settled = built();
    assert!(settled.listed.len() > 2 && settled.is_fresh());
    write(&world.home.join("new"), "");
    assert!(!settled.is_fresh());
}

#[test]
fn p31_what_other_tools_may_not_read_no_command_reads() {
    let world = SandboxFixture::with(
        |_, home| {
            for name in [
                "throughline/todo/s.json",
                "throughline/tool-results/s/k.txt",
                "cache/tool-results/k.txt",
                "memories/.throughline/memory.jsonl",
                "throughline.history",
                "home.tar.gz.partial",
                "processes.json",
                "gateway.json",
                "cellar",
            ] {
                fs(home.join(name).parent().unwrap());
                write(&home.join(name), SECRET);
            }
            fs(&home.join("garden"));
        },
        |settings| settings.opened = vec!["garden".to_owned()],
    );
    for name in [
        "throughline/todo/s.json",
        "throughline/tool-results/s/k.txt",
        "cache/tool-results/k.txt",
        "memories/.throughline/memory.jsonl",
        "throughline.history",
        "home.tar.gz.partial",
        "processes.json",
        "gateway.json",
        "cellar",
    ] {
        world.refuses(&format!("cat $H/{name}"));
        world.refuses(&format!("echo x >> $H/{name}"));
    }
    world.allows("echo x > $H/garden/new && cat $H/memories/MEMORY.md");
}

#[test]
fn p31_a_secret_that_appears_within_a_granted_directory_is_noticed() {
    let world = SandboxFixture::new();
    let cache = world.home.canonicalize().unwrap().join("cache");
    assert!(world.landlock.plan.survey().listed.contains(&cache), "a change there makes the rules anew");
    write(&cache.join("bws_cache.json"), SECRET);
    world.refuses("cat $H/cache/bws_cache.json");
}
