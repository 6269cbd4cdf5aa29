use super::*;
use std::sync::Arc;
use throughline_app::host_commands::HostCommandRunner;
use throughline_core::SessionId;
use throughline_core::command::Found;
use throughline_core::port::{Assignment, HostCommands as _};
use throughline_core::session::Preferences;
use throughline_core::tool::{Call, Caller, Kit};
use throughline_core::tool::{Offer, Returned, Tools};
use throughline_home::config::Environment;
use throughline_home::home::{ChosenBy, Home};
use throughline_memory::{MemoryOwners, MemorySettings};

const NOW: Time = Time(1_780_000_000_000_000);
const SESSION: &str = "20260528_093510_66bfaec7";

fn agent(home: &tempfile::TempDir) -> memory::Memory {
    memory::Memory::new(MemorySettings::new(home.path()))
}

/// What a person sees who types this behind `throughline memory`.
fn typed(memory: &memory::Memory, words: &str) -> Result<String, String> {
    let words = std::iter::once("memory").chain(words.split_whitespace());
    let command = <Typed as clap::Parser>::try_parse_from(words).map_err(|error| error.to_string())?;
    let mut out = Vec::new();
    let order = MemoryOrder { source: "cli", now: NOW };
    match command.command.unwrap().run(memory, order, &Page::plain(), &mut out) {
        Ok(_) => Ok(String::from_utf8(out).unwrap()),
        Err(error) => Err(format!("{}{error:#}", String::from_utf8(out).unwrap())),
    }
}

/// A call of the agent's tool.
fn remember(memory: &memory::Memory, arguments: Value) {
    let session: SessionId = SESSION.parse().unwrap();
    let caller = Caller {
        session,
        source: "telegram".into(),
        principal: None,
        user: None,
        is_private: true,
        reply_to: None,
        trace: Default::default(),
        task: None,
        allowed: Vec::new(),
        tokens_left: None,
        now: NOW,
    };
    let (key, name) = (format!("{SESSION}/3/1/0"), "memory".to_owned());
    let arguments = arguments.to_string();
    let call = Call { key, name, arguments, caller, grant: None };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(memory.call(&call));
}

#[test]
fn p23_a_person_sees_what_is_there_what_went_and_why_and_puts_it_back() {
    let home = tempfile::tempdir().unwrap();
    let memory = agent(&home);
    assert_eq!(typed(&memory, "history").unwrap(), "Nothing was removed or replaced yet.\n");
    remember(&memory, json!({"target": "user", "action": "add", "content": "likes tea"}));
    remember(
        &memory,
        json!({"target": "user", "action": "replace", "old_text": "tea", "content": "likes mate"}),
    );
    let shown = typed(&memory, "show user").unwrap();
    assert!(
        shown.starts_with(
            "USER.md  0% — 10/1,375 chars, 1 entry\n\nlikes mate\n(10 chars; chat on telegram, "
        )
    );
    assert!(shown.contains(&format!("call {SESSION}/3/1/0")), "{shown}");
    let history = typed(&memory, "history").unwrap();
    assert!(history.starts_with("user-2  replaced by chat on telegram, "), "{history}");
    assert!(history.ends_with("\n  likes tea\n  → likes mate\n"), "{history}");
    let back = typed(&memory, "restore user-2").unwrap();
    assert!(back.starts_with("user-2 is back in USER.md (1% — 22/1,375 chars):\n  likes tea\n"), "{back}");
    let again = typed(&memory, "restore user-2").unwrap_err();
    assert_eq!(again, "The entry of user-2 is in USER.md already. Nothing was changed.");
    assert!(typed(&memory, "restore 2").unwrap_err().contains("memory-3"));
    let status = typed(&memory, "status").unwrap();
    assert!(status.contains("MEMORY.md  0% — 0/2,200 chars, 0 entries\n"), "{status}");
    assert!(status.contains("last recorded change: user-4, put back by a person on cli"), "{status}");
}

#[test]
fn what_a_program_reads_holds_everything() {
    let home = tempfile::tempdir().unwrap();
    let memory = agent(&home);
    std::fs::create_dir_all(home.path().join("memories")).unwrap();
    std::fs::write(home.path().join("memories/MEMORY.md"), "by hand\n\n§\nx").unwrap();
    remember(&memory, json!({"target": "memory", "action": "remove", "old_text": "x"}));
    let parse = |words: &str| -> Value { serde_json::from_str(&typed(&memory, words).unwrap()).unwrap() };
    assert_eq!(parse("show memory --json")["memory"][0]["origin"], Value::Null);
    assert_eq!(parse("history --json")[0]["event"], "removed");
    assert_eq!(parse("status --json")["files"][0]["percent"], 0);
    let file = home.path().join("all.json");
    let export = format!("export --output {}", file.display());
    typed(&memory, &export).unwrap();
    let all: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(all["files"][0]["text"], "by hand\n");
    assert_eq!(all["files"][0]["history"][0]["entry"], "x");
    assert!(typed(&memory, &export).unwrap_err().contains("is there already"));
}

#[test]
fn what_waits_is_shown_approved_and_rejected() {
    let home = tempfile::tempdir().unwrap();
    let memory =
        memory::Memory::new(MemorySettings { write_approval: true, ..MemorySettings::new(home.path()) });
    assert_eq!(typed(&memory, "pending").unwrap(), "No pending memory writes.\n");
    remember(&memory, json!({"target": "memory", "action": "add", "content": "a"}));
    remember(&memory, json!({"target": "memory", "action": "remove", "old_text": "nothing"}));
    assert!(typed(&memory, "pending").unwrap().starts_with("Pending memory writes (2):\n"));
    assert!(typed(&memory, "status").unwrap().contains("2 writes wait for approval"));
    let told = typed(&memory, "approve all").unwrap_err();
    assert!(told.starts_with("Approved 1 memory write(s).\n") && told.contains("It still waits"), "{told}");
    assert_eq!(typed(&memory, "reject all").unwrap(), "Rejected 1 pending memory write(s).\n");
    assert!(typed(&memory, "reject 0000").unwrap_err().contains("No pending memory write with id '0000'."));
}

#[test]
fn a_chat_orders_the_same_but_writes_no_file() {
    assert!(matches!(Typed::parse(""), Ok(Memory::Show(Show { brief: true, .. }))));
    assert!(matches!(Typed::parse("restore memory-3"), Ok(Memory::Restore(_))));
    for refused in ["export -o /tmp/x", "export", "restore 3", "frobnicate", "--help", "help"] {
        assert!(Typed::parse(refused).unwrap_err().contains("/memory history"), "{refused}");
    }
}

struct NoTools;

impl Tools for NoTools {
    fn offer(&self, _: &Caller) -> Option<Arc<Offer>> {
        None
    }

    fn is_repeatable(&self, _: &str) -> bool {
        false
    }

    fn call<'a>(&'a self, _: &'a Call) -> Promise<'a, Returned> {
        Box::pin(async { Returned::text("{}") })
    }
}

#[tokio::test]
async fn p31_a_command_in_a_chat_shows_the_memory_to_its_owner_alone() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("memories/USER.md");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "Ada's secret").unwrap();
    let owners = MemoryOwners::Those(Arc::new(|caller| caller.user.as_deref() == Some("ada")));
    let memory = memory::Memory::new(MemorySettings { owners, ..MemorySettings::new(directory.path()) });
    let home = Home::new(directory.path(), ChosenBy::CommandLine);
    let runner = HostCommandRunner::new(
        &home,
        "ada",
        &Environment::default(),
        Arc::new(NoTools),
        memory,
        Arc::new(InChat),
    );
    let ask = async |user: &str, argument: &str| {
        let asked = Assignment {
            key: "key".into(),
            name: "memory".into(),
            argument: argument.into(),
            session: None,
            source: "telegram".into(),
            user: Some(user.into()),
            is_private: true,
            principal: None,
            place: None,
            preferences: Preferences::default(),
        };
        match runner.carry_out(&asked).await {
            Some(Found::Said(said)) => said,
            other => panic!("{other:?}"),
        }
    };
    for order in ["", "show", "show user --json", "history", "status", "restore user-1", "pending"] {
        let said = ask("bob", order).await;
        assert!(said.contains("belongs to the owner") && !said.contains("secret"), "{order}: {said}");
    }
    assert!(ask("ada", "").await.ends_with("1 entry\n\nAda's secret"));
    assert!(ask("ada", "frobnicate").await.starts_with("This can be ordered: /memory"));
    assert_eq!(ask("ada", "restore user-1").await, "There is no user-1 in the history. Nothing was changed.");
}
