//! Containers and other machines, by programs that note how they are called and then run the command here.

use super::*;

/// Answers as docker would, and keeps a list of what it was asked.
const DOCKER: &str = r#"#!/bin/bash
here=$(dirname "$0")
printf '%s\n' "$*" >> "$here/calls"
case "$1" in
  version) exit 0 ;;
  ps) case "$*" in *status=exited*) ;; *) [ -e "$here/container" ] && printf 'c0ffee\trunning\n' ;; esac; exit 0 ;;
  image) echo '["/bin/sh"]'; exit 0 ;;
  info) echo vfs; exit 0 ;;
  inspect) [ -e "$here/container" ] && echo true || exit 1; exit 0 ;;
  run) case "$*" in *--rm*) exit 0 ;; esac; touch "$here/container"; echo c0ffee; exit 0 ;;
  stop|rm) rm -f "$here/container"; exit 0 ;;
  exec) shift
    while [ "$1" = -e ]; do shift 2; done
    [ "$1" = c0ffee ] || { echo "Error: No such container: $1" >&2; exit 1; }
    shift; HOME=$here exec "$@" ;;
esac
exit 64
"#;

fn docker() -> TerminalFixture {
    let mut world = TerminalFixture::new();
    script_file(&world.path("docker"), DOCKER);
    world.settings.backend = TerminalBackend::Docker;
    world.settings.cwd = String::new();
    world.settings.docker.binary = Some(world.path("docker"));
    world.settings.docker.volumes = vec!["/data:/data".into()];
    world.settings.docker.env.insert("MODE".into(), "test".into());
    world.settings.docker.forward_env = vec!["OPENAI_API_KEY".into()];
    world.settings.dotenv.insert("OPENAI_API_KEY".into(), Secret::new("sekret"));
    world
}

fn calls(world: &TerminalFixture) -> String {
    std::fs::read_to_string(world.path("calls")).unwrap()
}

#[tokio::test]
async fn a_container_is_hardened_limited_and_used_again() {
    let world = docker();
    let terminal = world.terminal();
    let out =
        shell(&terminal, json!({"command": "echo in; echo ${OPENAI_API_KEY}", "workdir": "/tmp"})).await;
    assert_eq!((out["output"].as_str(), out["exit_code"].as_i64()), (Some("in\nsekret"), Some(0)), "{out}");
    sh(&terminal, "cd /usr && export A=1").await;
    assert_eq!(sh(&terminal, "pwd; echo $A").await["output"], "/usr\n1");
    let all = calls(&world);
    let run = all.lines().find(|line| line.starts_with("run -d")).unwrap();
    for part in [
        "--init",
        "--label hermes-agent=1 --label hermes-task-id=default --label hermes-profile=default",
        "-w /root",
        "--cap-drop ALL --cap-add DAC_OVERRIDE --cap-add CHOWN --cap-add FOWNER --security-opt no-new-privileges",
        "--tmpfs /run:rw,noexec,nosuid,size=64m",
        "--cpus 1 --memory 5120m --pids-limit 256",
        "-v /data:/data",
        ":/root -v ",
        "-e MODE=test",
        "nikolaik/python-nodejs:python3.11-nodejs20 sleep infinity",
    ] {
        assert!(run.contains(part), "{part} in {run}");
    }
    assert!(!all.contains("sekret"), "a forwarded value stands in no list of processes: {all}");
    drop(terminal);
    assert!(world.path("container").exists(), "the container outlives us");
    let second = world.terminal();
    assert_eq!(shell(&second, json!({"command": "echo again", "workdir": "/tmp"})).await["output"], "again");
    assert_eq!(calls(&world).lines().filter(|line| line.starts_with("run -d")).count(), 1);
}

#[tokio::test]
async fn a_container_that_is_gone_is_made_again_before_the_command() {
    let world = docker();
    let terminal = world.terminal();
    shell(&terminal, json!({"command": "true", "workdir": "/tmp"})).await;
    std::fs::remove_file(world.path("container")).unwrap();
    let out = shell(
        &terminal,
        json!({"command": format!("echo x >> {}", world.path("effect").display()), "workdir": "/tmp"}),
    )
    .await;
    assert_eq!(out["exit_code"], 0);
    assert_eq!(std::fs::read_to_string(world.path("effect")).unwrap(), "x\n");
    assert_eq!(calls(&world).lines().filter(|line| line.starts_with("run -d")).count(), 2);
}

#[tokio::test]
async fn what_runs_in_a_container_is_ended_there_too() {
    let mut world = docker();
    world.settings.docker.persist_across_processes = false;
    world.settings.docker.network = false;
    let terminal = world.terminal();
    let out = shell(&terminal, json!({"command": "sleep 300", "workdir": "/tmp", "timeout": 1})).await;
    assert_eq!(out["exit_code"], 124);
    until("it was told inside", || {
        calls(&world).lines().any(|line| line.starts_with("exec c0ffee bash -c p=$(cat /tmp/hermes-run-"))
    })
    .await;
    assert!(calls(&world).contains("--network=none"));
    drop(terminal);
    until("the container is removed", || !world.path("container").exists()).await;
}

#[tokio::test]
async fn a_container_runs_background_processes() {
    let world = docker();
    let terminal = world.terminal();
    shell(&terminal, json!({"command": "true", "workdir": "/tmp"})).await;
    let started = shell(
        &terminal,
        json!({"command": "echo from within; sleep 300", "background": true, "workdir": "/tmp"}),
    )
    .await;
    let id = started["session_id"].as_str().unwrap().to_owned();
    let poll = || call("process", "s1", json!({"action": "poll", "session_id": id}));
    let mut preview = String::new();
    for _ in 0..200 {
        preview = result(&terminal, poll()).await["output_preview"].as_str().unwrap().to_owned();
        if !preview.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    assert_eq!(preview, "from within\n");
    let killed = result(&terminal, call("process", "s1", json!({"action": "kill", "session_id": id}))).await;
    assert_eq!(killed["status"], "killed");
    assert!(calls(&world).contains(&format!("hermes_bg_{id}.pid")));
    until("it is gone", || !is_alive(started["pid"].as_u64().unwrap() as u32)).await;
}

#[tokio::test]
async fn a_daemon_that_does_not_run_is_named() {
    let mut world = docker();
    script_file(&world.path("docker"), "#!/bin/sh\necho 'Cannot connect to the Docker daemon' >&2\nexit 1\n");
    world.settings.docker.binary = Some(world.path("docker"));
    let out = sh(&world.terminal(), "echo ran").await;
    assert_eq!(out["status"], "error");
    assert_eq!(
        out["error"],
        "Failed to execute command: Docker command is available but 'docker version' failed. Check your Docker installation. Cannot connect to the Docker daemon"
    );
}

#[test]
fn a_container_reaches_the_host_only_through_mounts() {
    let mut settings = TerminalSettings::of_home("/nowhere");
    assert!(TerminalKit::has_host_access(&settings));
    settings.backend = TerminalBackend::Docker;
    assert!(!TerminalKit::has_host_access(&settings));
    settings.docker.volumes = vec!["named:/data".into()];
    assert!(!TerminalKit::has_host_access(&settings));
    settings.docker.volumes = vec!["~/x:/data".into()];
    assert!(TerminalKit::has_host_access(&settings));
}

#[tokio::test]
async fn p31_ssh_without_a_host_switches_the_tools_off() {
    let mut world = TerminalFixture::new();
    world.settings.backend = TerminalBackend::Ssh;
    let terminal = world.terminal();
    assert!(terminal.specs().is_empty());
    assert!(terminal.refusal().unwrap().contains("terminal.ssh_host"));
}

/// A server of its own on loopback, ended with the test. None where there is no sshd.
struct Sshd {
    child: std::process::Child,
    port: u16,
}

impl Sshd {
    fn start(world: &TerminalFixture) -> Option<Self> {
        let sshd = ["/usr/sbin/sshd", "/usr/local/sbin/sshd"]
            .map(Path::new)
            .into_iter()
            .find(|path| path.exists())?;
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        for name in ["host_key", "key"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(world.path(name)).stdin(Stdio::null());
            assert!(keygen.status().unwrap().success());
        }
        std::fs::copy(world.path("key.pub"), world.path("authorized")).unwrap();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nSetEnv HOME={}\n",
            world.path("host_key").display(),
            world.path("authorized").display(),
            world.user.path().display()
        );
        std::fs::write(world.path("sshd_config"), config).unwrap();
        let _ = std::fs::create_dir("/run/sshd"); // where packages leave that to their service
        let mut command = Command::new(sshd);
        command.arg("-D").arg("-f").arg(world.path("sshd_config")).stdin(Stdio::null());
        let log = File::create(world.path("sshd.log")).unwrap();
        let child = command.arg("-e").stderr(log).spawn().unwrap();
        Some(Self { child, port })
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn commands_run_over_ssh_against_a_real_server() {
    let mut world = TerminalFixture::new();
    let Some(server) = Sshd::start(&world) else {
        let skips = std::env::var("THROUGHLINE_PEERS").is_ok_and(|value| value == "skip");
        assert!(
            skips,
            "sshd is missing: apt-get install openssh-server (THROUGHLINE_PEERS=skip leaves this out)"
        );
        return println!("skipped: sshd (THROUGHLINE_PEERS=skip)");
    };
    until("the server listens", || std::net::TcpStream::connect(("127.0.0.1", server.port)).is_ok()).await;
    let user = String::from_utf8(Command::new("id").arg("-un").output().unwrap().stdout).unwrap();
    world.settings.backend = TerminalBackend::Ssh;
    world.settings.cwd = world.path("").to_str().unwrap().trim_end_matches('/').to_owned();
    world.settings.ssh = settings::SshSettings {
        host: "127.0.0.1".into(),
        user: user.trim().into(),
        port: server.port,
        key: world.path("key").to_str().unwrap().into(),
    };
    world.settings.inherited.push(("GATEWAY_ONLY".into(), "here".into()));
    let terminal = world.terminal();
    let out = sh(&terminal, "echo 'it is' \"far\"; pwd; echo [$GATEWAY_ONLY]; cat; exit 3").await;
    let log = || std::fs::read_to_string(world.path("sshd.log")).unwrap_or_default();
    assert_eq!(out["output"], format!("it is far\n{}\n[]", world.settings.cwd), "{out} {}", log());
    assert_eq!(out["exit_code"], 3);
    sh(&terminal, "mkdir deep && cd deep && export KEPT=1").await;
    assert_eq!(sh(&terminal, "pwd; echo $KEPT").await["output"], format!("{}/deep\n1", world.settings.cwd));

    let pid = world.path("pid");
    let late = shell(
        &terminal,
        json!({"command": format!("sleep 300 & echo $! > {}; wait", pid.display()), "timeout": 2}),
    )
    .await;
    assert_eq!(late["status"], "error", "'&' is for background=true");
    let late = shell(
        &terminal,
        json!({"command": format!("bash -c 'sleep 300 & echo $! > {}; wait'", pid.display()), "timeout": 2}),
    )
    .await;
    assert_eq!(late["exit_code"], 124);
    until("it was ended there, too", || !is_alive(pid_in(&pid).unwrap())).await;

    let started =
        shell(&terminal, json!({"command": "echo remote $KEPT; (exit 5)", "background": true})).await;
    let id = started["session_id"].as_str().unwrap();
    let waited =
        result(&terminal, call("process", "s1", json!({"action": "wait", "session_id": id, "timeout": 20})))
            .await;
    assert_eq!((waited["output"].as_str(), waited["exit_code"].as_i64()), (Some("remote 1\n"), Some(5)));
    drop(server);
}
