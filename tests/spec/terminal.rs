//! `throughline chat` at a real terminal, in a pipe, and without either; and the words of starts that fail.

use crate::gateway::{Launch, Place, until};
use crate::model::ModelServer;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// A program at a terminal of its own, which is also the one that its Ctrl-C comes from.
struct Terminal {
    child: Child,
    keyboard: File,
    /// In bytes: a sign may come in two pieces.
    screen: Arc<Mutex<Vec<u8>>>,
    /// What was looked at already.
    seen: usize,
}

impl Terminal {
    fn open(launch: &Launch) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let path = OsStr::from_bytes(name.as_bytes());
        let noctty = OpenptFlags::NOCTTY.bits() as i32;
        let side = || OpenOptions::new().read(true).write(true).custom_flags(noctty).open(path).unwrap();
        let mut command = launch.clone().through(&["/usr/bin/setsid", "--ctty", "--wait"]).command();
        command.env("TERM", "xterm").env("NO_COLOR", "1");
        let child = command.stdin(side()).stdout(side()).stderr(side()).spawn().unwrap();
        let keyboard = File::from(master);
        let screen = Arc::<Mutex<Vec<u8>>>::default();
        let (mut reading, shown) = (keyboard.try_clone().unwrap(), screen.clone());
        thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(length @ 1..) = reading.read(&mut piece) {
                shown.lock().unwrap().extend_from_slice(&piece[..length]);
            }
        });
        Self { child, keyboard, screen, seen: 0 }
    }

    fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until this is on the screen, below what was seen before. What stands between.
    fn sees(&mut self, what: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let screen = self.screen.lock().unwrap()[self.seen..].to_vec();
            if let Some(place) = screen.windows(what.len()).position(|part| part == what.as_bytes()) {
                self.seen += place + what.len();
                return String::from_utf8_lossy(&screen[..place]).into_owned();
            }
            let shown = String::from_utf8_lossy(&screen);
            assert!(Instant::now() < deadline, "{what:?} is not on the screen:\n{shown}");
            sleep(Duration::from_millis(5));
        }
    }

    fn ends(mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            let shown = String::from_utf8_lossy(&self.screen.lock().unwrap()).into_owned();
            assert!(Instant::now() < deadline, "it does not end:\n{shown}");
            sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn place() -> Place {
    let place = Place::new();
    fs::create_dir_all(place.file("work/old")).unwrap();
    let work = place.file("work");
    let config = format!("terminal: {{cwd: {}}}\napprovals: {{mode: manual, timeout: 60}}\n", work.display());
    place.write("home/config.yaml", config);
    place
}

fn runs(command: &str) -> Value {
    json!([{"name": "terminal", "arguments": {"command": command}}])
}

/// Waits for a file, then asks whether it may delete a directory.
fn tidying() -> Value {
    json!({"rules": [
        {"when": {"contains": "tidy", "result": false}, "call": runs("until [ -e go ]; do sleep 0.02; done")},
        {"when": {"contains": "tidy", "result": true}, "times": 1, "call": runs("rm -rf old")},
        {"when": {"contains": "tidy", "result": true}, "say": "done tidying"},
    ]})
}

fn last_said(asked: &Value) -> String {
    let messages = asked["messages"].as_array().unwrap();
    let user = messages.iter().rev().find(|message| message["role"] == "user").unwrap();
    user["content"].as_str().unwrap().to_owned()
}

#[test]
fn p31_what_was_typed_before_a_question_never_answers_it() {
    let place = place();
    let launch = place.rehearsing(&tidying());
    let gateway = launch.start();
    let old = place.file("work/old");
    let mut terminal = Terminal::open(&launch.clone().arg("chat"));
    terminal.sees("› ");
    // The second line is in the editor's own buffer when the turn begins, the third in the terminal's.
    terminal.types("tidy\ryes\r");
    terminal.sees("┊ terminal");
    terminal.types("yes\ral");
    terminal.sees("yes\r\nal");
    place.write("work/go", "");
    terminal.sees("rm -rf old");
    terminal.sees("does not answer it");
    terminal.sees("answer › ");
    for (typed, told) in [
        ("\r", "Nothing was answered"),
        ("y\r", "\"y\" is neither yes nor no"),
        ("a\r", "neither yes nor no"),
    ] {
        terminal.types(typed);
        terminal.sees(told);
        terminal.sees("answer › ");
    }
    assert!(old.exists(), "nothing that came before the question, and no letter, has allowed it");
    assert_eq!(gateway.client.read("/api/approvals")["data"].as_array().unwrap().len(), 1);
    terminal.types("yes\r");
    terminal.sees("done tidying");
    assert!(!old.exists(), "a word after it has");
    // What the editor had was sent with the first line and is the next message; what was typed later is only kept.
    until("the line behind it was sent", || {
        place.asked().last().is_some_and(|asked| last_said(asked) == "yes")
    });
    terminal.sees("only repeats what it heard");
    terminal.sees("› ");
    let users = |asked: &Value| {
        let messages = asked["messages"].as_array().unwrap().iter();
        messages.filter(|message| message["role"] == "user").count()
    };
    assert_eq!(users(place.asked().last().unwrap()), 2, "neither the other line nor half a line was sent");
    terminal.types("\x1b[A\x1b[A\r"); // behind the line that was sent since
    until("what was set aside comes back", || {
        place.asked().last().is_some_and(|asked| last_said(asked) == "al")
    });
    terminal.sees("only repeats what it heard");
    terminal.sees("› ");
    terminal.types("\x04");
    assert!(terminal.ends().success());
}

#[test]
fn p31_a_no_at_the_terminal_is_told_to_the_model() {
    let place = place();
    place.write("work/go", "");
    let launch = place.rehearsing(&tidying());
    let gateway = launch.start();
    let mut terminal = Terminal::open(&launch.clone().arg("chat"));
    terminal.sees("› ");
    terminal.types("tidy\r");
    terminal.sees("answer › ");
    terminal.types("no, it is still used\r");
    terminal.sees("done tidying");
    assert!(place.file("work/old").exists());
    let told = place.asked().last().unwrap()["messages"].to_string();
    assert!(told.contains("BLOCKED") && told.contains("it is still used"), "{told}");
    drop(terminal);
    assert!(gateway.stop().success());
}

#[test]
fn p31_without_a_terminal_a_question_is_refused_at_once_and_the_exit_code_says_so() {
    let place = place();
    place.write("work/go", "");
    let launch = place.rehearsing(&tidying());
    let _gateway = launch.start();
    let began = Instant::now();
    let ended = launch.clone().arg("chat").arg("-q").arg("tidy").run();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert_eq!(ended.stdout, "done tidying\n");
    for words in ["rm -rf old", "No person can answer here", "command_allowlist"] {
        assert!(ended.stderr.contains(words), "{words:?} is not in {}", ended.stderr);
    }
    assert!(
        began.elapsed() < Duration::from_secs(30),
        "it waited for an absent person: {:?}",
        began.elapsed()
    );
    assert!(place.file("work/old").exists());
}

/// Runs it with this on its standard input.
fn fed(launch: &Launch, input: &str) -> (ExitStatus, String, String) {
    let mut command = launch.command();
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status, text(&output.stdout), text(&output.stderr))
}

#[test]
fn p8_what_is_piped_in_is_one_message() {
    let place = Place::new();
    let launch = place.rehearsing(&json!({"rules": [{"when": {"contains": "line"}, "say": "Read."}]}));
    let _gateway = launch.start();
    let log = "line one\n\nline two\nline three\n";
    for (words, expected) in [
        (&["chat"][..], "line one\n\nline two\nline three".to_owned()),
        (&["chat", "-q", "-"], "line one\n\nline two\nline three".to_owned()),
        (&["chat", "-q", "Summarise:"], "Summarise:\n\nline one\n\nline two\nline three".to_owned()),
    ] {
        let before = place.asked().len();
        let chat = words.iter().fold(launch.clone(), |launch, word| launch.arg(*word));
        let (status, stdout, stderr) = fed(&chat, log);
        assert!(status.success(), "{stderr}");
        assert_eq!(stdout, "Read.\n", "{words:?}");
        let asked = place.asked();
        assert_eq!(asked.len(), before + 1, "one message for {words:?}");
        assert_eq!(last_said(asked.last().unwrap()), expected, "{words:?}");
    }
    let (status, _, stderr) = fed(&launch.clone().arg("chat"), "\n");
    assert!(!status.success() && stderr.contains("there is nothing to ask"), "{stderr}");
}

#[test]
fn p8_ctrl_c_ends_the_turn_keeps_what_was_typed_and_a_second_one_leaves() {
    let place = Place::new();
    let launch = place.rehearsing(&json!({"rules": [{"when": {"contains": "ponder"}, "never": true}]}));
    let gateway = launch.start();
    let mut terminal = Terminal::open(&launch.clone().arg("chat"));
    terminal.sees("› ");
    terminal.types("ponder\r");
    until("the model is asked", || place.asked().len() == 1);
    terminal.types("the next words");
    terminal.sees("the next words");
    terminal.types("\x03");
    terminal.sees("Ending the turn");
    terminal.sees("Stopped.");
    until("the turn has ended", || gateway.client.read("/api/control/status")["running_turns"] == 0);
    terminal.sees("the next words");
    terminal.types("\r");
    until("they are sent", || place.asked().last().is_some_and(|asked| last_said(asked) == "the next words"));
    terminal.sees("› ");
    terminal.types("half a thought");
    terminal.sees("half a thought");
    terminal.types("\x03");
    terminal.sees("\n");
    terminal.sees("› ");
    terminal.types("\x1b[A");
    terminal.sees("half a thought");
    terminal.types("\x15ponder again\r");
    until("the model is asked", || {
        place.asked().last().is_some_and(|asked| last_said(asked) == "ponder again")
    });
    terminal.types("\x03");
    terminal.sees("Ending the turn");
    terminal.types("\x03");
    // The turn may end before the second: then the prompt takes it as its end.
    let code = terminal.ends().code();
    assert!(matches!(code, Some(0 | 130)), "{code:?}");
}

// --------------------------------------------------------------------------- starts that fail

fn once(text: &str, words: &str) {
    assert_eq!(text.matches(words).count(), 1, "{words:?} once in:\n{text}");
}

#[test]
fn a_start_that_fails_says_so_once_with_what_to_do_next() {
    let place = Place::new();
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for (words, code, told) in [
        (
            &["--port", &port][..],
            1,
            &["cannot listen on 127.0.0.1", "Another program listens there", "--port"][..],
        ),
        (&["--host", "no.such.host.invalid"], 1, &["cannot listen on no.such.host.invalid", "--host"]),
        (&["--host", "192.0.2.7"], 1, &["cannot listen on 192.0.2.7", "does not have that address"]),
        (&["--port", "abc"], 2, &["'abc'", "a port is a number from 1 to 65535"]),
        (&["--port", "70000"], 2, &["'70000'", "a port is a number from 1 to 65535"]),
    ] {
        let ended = words.iter().fold(place.launch(), |launch, word| launch.arg(*word)).run();
        let said = format!("{}{}", ended.stdout, ended.stderr);
        assert_eq!(ended.status.code(), Some(code), "{words:?}: {said}");
        once(&said, told[0]);
        told.iter().for_each(|words| assert!(said.contains(words), "{words:?} is not in {said}"));
        assert!(!said.contains("tried again") && !said.contains("trying again"), "{words:?}: {said}");
    }
}

#[test]
fn a_mistyped_home_is_named_and_not_made() {
    let place = Place::new();
    let home = place.file("no-such-home");
    for words in [
        &["status"][..],
        &["chat", "-q", "hello"],
        &["stop", "--all"],
        &["restart"],
        &["mcp", "serve"],
        &["plugin", "check", "notes"],
    ] {
        let launch = Launch::on(&place, &[&home]);
        let ended = words.iter().fold(launch, |launch, word| launch.arg(*word)).run();
        assert_eq!(ended.status.code(), Some(1), "{words:?}: {ended:?}");
        assert!(ended.stderr.contains("there is no home at"), "{words:?}: {ended:?}");
        assert!(ended.stderr.contains("check --home"), "{words:?}: {ended:?}");
        assert!(!home.exists(), "{words:?} made it");
    }
}

/// Every command that looks into a home, or works on what is in one.
const ON_A_HOME: [&[&str]; 23] = [
    &["sessions", "list"],
    &["sessions", "search", "tea"],
    &["sessions", "restore", "20260528_093510_66bfaec7.snapshot.20260528T093510.000000Z"],
    &["why", "1"],
    &["audit"],
    &["doctor"],
    &["backup"],
    &["prune"],
    &["forget", "person", "telegram:42"],
    &["forget", "--receipts"],
    &["memory", "status"],
    &["memory", "show"],
    &["memory", "jobs"],
    &["memory", "retry"],
    &["config", "check"],
    &["pairing", "list"],
    &["pairing", "clear-pending"],
    &["plugin", "list"],
    &["plugin", "logs", "notes"],
    &["mcp", "list"],
    &["mcp", "test", "travel"],
    &["mcp", "serve"],
    &["eval", "compression", "--summariser", "model"],
];

#[test]
fn p30_a_command_names_the_home_that_is_not_there_however_it_was_chosen() {
    let place = Place::new();
    let home = place.file("no-such-home");
    let usual = place.file("user/.throughline");
    for words in ON_A_HOME {
        for (launch, home, advice) in [
            (Launch::on(&place, &[&home]), &home, "check --home"),
            (Launch::on(&place, &[]).env("HERMES_HOME", &home), &home, "check $HERMES_HOME"),
            (Launch::on(&place, &[]), &usual, "name another with --home"),
        ] {
            let ended = words.iter().fold(launch, |launch, word| launch.arg(*word)).run();
            let told = format!("throughline: there is no home at {}; {advice}", home.display());
            assert!(ended.stderr.starts_with(&told), "{words:?}: {ended:?}");
            assert_eq!(ended.status.code(), Some(1), "{words:?}: {ended:?}");
            assert!(!home.exists(), "{words:?} made it");
        }
    }
    let status = Launch::on(&place, &[]).env("HERMES_HOME", &home).arg("status").run();
    assert!(!status.status.success() && status.stderr.contains("check $HERMES_HOME"), "{status:?}");
}

#[test]
fn p30_a_place_to_listen_that_does_not_exist_is_named_with_what_to_do() {
    let place = Place::new();
    let keyless = place.launch().without("API_SERVER_KEY").arg("--host").arg("no.such.host.invalid").run();
    let told = &keyless.stderr;
    assert!(told.contains("no.such.host.invalid is no address, and no name that has one"), "{told}");
    assert!(told.contains("Set --host or API_SERVER_HOST to 127.0.0.1"), "{told}");
    assert!(!told.contains("API_SERVER_KEY"), "a key would not help: {told}");
    assert_eq!(keyless.status.code(), Some(1), "{keyless:?}");
    // An address that is there, and open to others, still needs a key.
    let open = place.launch().without("API_SERVER_KEY").arg("--host").arg("0.0.0.0").run();
    assert!(open.stderr.contains("set API_SERVER_KEY") && !open.status.success(), "{open:?}");

    let serve = || place.launch().arg("mcp").arg("serve").arg("--http");
    for port in ["abc", "70000"] {
        let ended = serve().arg(port).run();
        assert!(ended.stderr.contains(&format!("'{port}'")), "{ended:?}");
        assert!(ended.stderr.contains("a port is a number from 1 to 65535"), "{ended:?}");
        assert_eq!(ended.status.code(), Some(2), "{ended:?}");
    }
    place.write("home/config.yaml", "model: rehearsal\n");
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let ended = serve().arg(&port).run();
    let told = format!("MCP cannot be served at port {port} of 127.0.0.1");
    assert!(ended.stderr.contains(&told) && ended.stderr.contains("with --http PORT"), "{ended:?}");
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
}

#[test]
fn p30_a_dead_model_is_told_of_in_the_chat_and_in_the_status() {
    let place = Place::new();
    let model = ModelServer::start(Duration::ZERO);
    let gone = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let dead = model.setting("gpt-dead").replace(&model.address.to_string(), &gone.to_string());
    place.write("home/config.yaml", format!("model: {dead}\n"));
    let launch = place.launch();
    let gateway = launch.start();
    let mut terminal = Terminal::open(&launch.clone().arg("chat"));
    terminal.sees("› ");
    let asked = Instant::now();
    terminal.types("hello\r");
    terminal.sees("did not answer");
    let waited = asked.elapsed();
    terminal.sees("asked again");
    assert!(waited < Duration::from_secs(2), "{waited:?}: it is told of before it is given up");
    let status = launch.clone().arg("status").run();
    assert_eq!(status.status.code(), Some(1), "{status:?}");
    assert!(status.stdout.contains("the model does not answer"), "{}", status.stdout);
    terminal.types("\x03");
    terminal.sees("Stopped.");
    drop(gateway);
}

#[test]
fn p31_commands_that_show_the_machine_answer_at_the_terminal_and_show_no_secret() {
    let place = Place::new();
    place.write("home/.env", "SOME_API_KEY=canary-of-the-env-file\n");
    let gateway = place.rehearsing(&json!({})).start();
    let client = &gateway.client;
    let said = |session: Option<&str>, text: &str| {
        client.post("/api/control/chat", &[], &json!({"text": text, "session": session})).unwrap().text()
    };
    said(Some("mine"), "Where is the tea?");
    for (command, expected) in [
        ("/history", "[You #1]"),
        ("/copy", "Assistant response #1"),
        ("/snapshot", "No snapshots yet"),
        ("/tools", "Available Tools"),
        ("/toolsets", "(*) terminal"),
        ("/skills", "kills"),
        ("/plugins", "No user plugins installed"),
        ("/platforms", "No messaging platform is configured"),
        ("/config", "Configuration"),
        ("/busy", "Busy input mode: queue"),
        ("/version", "Throughline 0."),
        ("/debug", "nothing was uploaded"),
        ("/topic", "mine"),
        ("/save", "Conversation snapshot saved to"),
        ("/voice on", "no setting changes that"),
        ("/fast", "cannot be chosen here"),
        ("/footer", "no footer here"),
        ("/cron list", "Nothing runs on a schedule here"),
        ("/kanban", "no board here"),
    ] {
        let answer = said(Some("mine"), command);
        assert!(answer.contains(expected), "{command}: {answer}");
        for secret in ["canary-of-the-env-file", crate::gateway::KEY] {
            assert!(!answer.contains(secret), "{command}: {answer}");
        }
    }
    let saved = fs::read_dir(place.file("home/sessions/saved")).unwrap().next().unwrap().unwrap().path();
    let saved: Value = serde_json::from_str(&fs::read_to_string(saved).unwrap()).unwrap();
    assert_eq!(saved["session_id"], "mine");
    assert_eq!(saved["messages"][0]["content"], "Where is the tea?");
    // A client of the API may serve any user.
    client.say("theirs", "Hello.");
    for command in ["/config", "/debug", "/platforms", "/plugins", "/save", "/toolsets"] {
        let answer =
            client.post("/api/sessions/theirs/commands", &[], &json!({ "command": command })).unwrap();
        let answer = answer.text();
        assert!(answer.contains("is about the machine"), "{command}: {answer}");
    }
    assert!(said(Some("mine"), "/clear").contains("successor"));
}

/// What the terminal is told, as text.
fn told(client: &crate::gateway::Client, text: &str) -> String {
    let answer = client.post("/api/control/chat", &[], &json!({"text": text, "session": "mine"})).unwrap();
    answer.text().replace("\\n", "\n").replace("\\\"", "\"")
}

#[test]
fn p4_a_list_of_toolsets_has_those_whose_tools_the_agent_has() {
    let place = Place::new();
    // Hermes switches all of these on; this program has no browser, no speech and no pictures.
    place.write("home/config.yaml", "platform_toolsets: {cli: [hermes-cli, browser, tts, image_gen]}\n");
    let gateway = place.rehearsing(&json!({})).start();
    let client = &gateway.client;
    told(client, "Where is the tea?");
    let listed = told(client, "/toolsets");
    for name in ["terminal", "file", "skills", "todo"] {
        assert!(listed.contains(&format!("(*) {name} ")), "{name}: {listed}");
    }
    for name in ["browser", "tts", "image_gen", "vision", "web", "cronjob", "kanban"] {
        assert!(!listed.contains(name), "{name} is not there: {listed}");
    }
    let total: usize =
        told(client, "/tools").split("Total: ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    let counted =
        listed.split('[').skip(1).map(|rest| rest.split(" tools]").next().unwrap().trim().parse::<usize>());
    assert_eq!(counted.map(Result::unwrap).sum::<usize>(), total, "every tool is in one of them: {listed}");
}

#[test]
fn p4_what_shows_the_settings_knows_the_options_of_the_start() {
    let place = Place::new();
    let port = crate::gateway::free_port();
    let launch =
        place.rehearsing(&json!({})).arg("--host").arg("127.0.0.1").arg("--port").arg(port.to_string());
    let gateway = launch.at_port(port).start();
    let client = &gateway.client;
    told(client, "Where is the tea?");
    for command in ["/config", "/debug"] {
        let answer = told(client, command).replace("  ", " ");
        assert!(answer.contains("api_server.host = 127.0.0.1 (command line)"), "{command}: {answer}");
        assert!(answer.contains(&format!("api_server.port = {port} (command line)")), "{command}: {answer}");
    }
    assert!(told(client, "/debug").contains(&format!("API: http://127.0.0.1:{port}")));
}

#[test]
fn p4_an_order_with_an_argument_that_is_not_carried_out_says_so_with_what_to_use() {
    let place = Place::new();
    let gateway = place.rehearsing(&json!({})).start();
    let client = &gateway.client;
    told(client, "Where is the tea?");
    for (order, instead) in [
        ("/tools disable x", "agent.disabled_toolsets"),
        ("/snapshot create", "`throughline backup`"),
        ("/busy bogus", "display.busy_input_mode"),
        ("/plugins enable y", "`throughline plugin enable <name>`"),
        ("/topic off", "/new begins another one here"),
        ("/yolo off", "/yolo alone switches"),
        ("/verbose loud", "/verbose [off|new|all|verbose]"),
        ("/retry with tea", "/undo"),
    ] {
        let answer = told(client, order);
        assert!(answer.contains(&format!("\"{order}\" was not carried out")), "{order}: {answer}");
        assert!(answer.contains(instead), "{order}: {answer}");
    }
    assert!(told(client, "/tools list").contains("Available Tools"));
    assert!(told(client, "/yolo").contains("no longer asked about"), "`/yolo off` has not switched anything");
}
