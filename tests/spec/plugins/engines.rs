//! Context engines that people wrote for Hermes, in the home's own `plugins/`, behind the real gateway: they
//! compress under an id that stays, and a person who asks for more than they can do is told so.

use super::*;
use crate::gateway::{Client, Launch};
use serde_json::Value;
use std::collections::BTreeMap;

/// All files below a directory, with what is in them.
fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap().flatten() {
        match entry.path() {
            path if path.is_dir() => found.extend(files(&path)),
            path => drop(found.insert(path.clone(), fs::read(&path).unwrap())),
        }
    }
    found
}

/// A home whose engine is one of the fixtures. None if peers are to be skipped.
fn with_engine(model: ModelServer, name: &str) -> Option<Company> {
    let python = peers::hermes_python("0.19.0")?;
    let config = format!(
        "context: {{engine: {name}}}\nplugins: {{enabled: [{name}]}}\nmemory: {{nudge_interval: 0}}\n\
         throughline: {{hermes: {{python: {}}}}}\n",
        python.display()
    );
    let company = Company::with(model, &config);
    for file in ["__init__.py", "plugin.yaml"] {
        let source = fs::read(root().join("plugins/tests/fixtures").join(name).join(file)).unwrap();
        company.world.place.write(&format!("home/plugins/{name}/{file}"), source);
    }
    Some(company)
}

impl Company {
    fn talks(&self, words: &str, times: usize) {
        for nth in 0..times {
            let line = format!("{words} {nth}, {}", "and so on and on ".repeat(30));
            self.hears(line.trim_end());
        }
    }

    /// What the model saw last.
    fn seen(&self) -> Vec<String> {
        let asked = self.world.model.requests().pop().unwrap();
        asked["messages"].as_array().unwrap().iter().map(text).collect()
    }

    /// The sessions there are, but for snapshots.
    pub(super) fn sessions(&self) -> Vec<String> {
        let database = rusqlite::Connection::open(self.world.place.home().join("state.db")).unwrap();
        let mut rows = database.prepare("SELECT id FROM sessions ORDER BY started_at").unwrap();
        let all = rows.query_map([], |row| row.get::<_, String>(0)).unwrap().map(Result::unwrap);
        all.filter(|id| !id.contains(".snapshot.")).collect()
    }

    pub(super) fn is_clean(&self) {
        let audit = self.world.place.launch().arg("audit").run();
        assert!(audit.status.success(), "{audit:?}");
    }
}

/// Compresses twice, the second time with a focus that the engine cannot heed.
fn survives(name: &str, is_summary: impl Fn(&str) -> bool, remark: &str) {
    let Some(company) = with_engine(chatty(), name) else { return };
    let gateway = company.world.launch.start();
    company.talks("line", 8);
    let told = company.orders("/compress");
    assert!(told.contains("snapshot") && !told.contains(remark), "{name}: {told}");
    company.hears("after the first");
    let seen = company.seen();
    assert!(seen.len() < 10 && seen.iter().any(|text| is_summary(text)), "{name}: {seen:#?}");
    company.is_clean();

    company.talks("more of it", 6);
    let told = company.orders("/compress the moon");
    assert!(told.contains("snapshot") && told.contains(remark), "{name}: {told}\n{}", gateway.log());
    company.hears("after the second");
    let seen = company.seen();
    assert!(seen.len() < 10 && seen.iter().any(|text| is_summary(text)), "{name}: {seen:#?}");
    assert!(seen.iter().any(|text| text == "after the first") || seen.len() < 9, "{seen:#?}");
    assert_eq!(company.sessions().len(), 1, "{name}: {:?}", company.sessions());
    company.is_clean();
    assert!(gateway.stop().success());
}

#[test]
fn p18_p19_an_engine_with_the_strict_old_signature_survives_compress_and_its_focus() {
    let counts = |text: &str| {
        let words: Vec<&str> = text.split(' ').collect();
        words.len() == 4 && words[1] == "messages," && words[3] == "tokens"
    };
    survives("strict", counts, "The context engine strict knows no topics: the focus was not applied.");
}

#[test]
fn p18_p19_an_engine_that_hides_its_signature_survives_compress_and_its_focus() {
    let counts = |text: &str| text.contains(" messages, beginning with ");
    survives("moody", counts, "The context engine moody takes no options: it compressed without the focus.");
}

#[test]
fn p18_an_engine_like_lcm_keeps_its_lineage_across_ten_compressions_and_a_kill() {
    let model = ModelServer::answering(Duration::ZERO, |request| {
        let messages = request["messages"].as_array().unwrap();
        match (messages.last().unwrap()["role"].as_str(), last(request).as_str()) {
            (Some("tool"), _) => said("it was looked up"),
            (_, "describe") => calls(&[("graph_describe", json!({}))]),
            (_, "expand") => calls(&[("graph_expand", json!({"id": 1}))]),
            (_, other) => said(&format!("re: {other}")),
        }
    });
    let Some(company) = with_engine(model, "graph") else { return };
    let mut gateway = company.world.launch.start();
    for round in 0..10 {
        company.talks(&format!("round {round}, line"), 3);
        let told = company.orders("/compress");
        assert!(told.contains("snapshot"), "round {round}: {told}\n{}", gateway.log());
        if round == 4 {
            gateway.kill();
            gateway = company.world.launch.start();
        }
    }
    company.is_clean();
    let [session] = &company.sessions()[..] else { panic!("one session: {:?}", company.sessions()) };
    assert!(company.world.model.requests().last().unwrap()["messages"].as_array().unwrap().len() < 16);

    // What an engine's tool answered, for the model to read.
    let looked_up = |word: &str, times: usize| {
        company.says(word);
        company.world.until(word, |world| world.times_shown("it was looked up") == times);
        company.seen().pop().unwrap()
    };
    let described = looked_up("describe", 1);
    let list = &described[described.find('[').unwrap()..=described.rfind(']').unwrap()];
    let nodes: Vec<Value> = serde_json::from_str(list).unwrap_or_else(|_| panic!("{described}"));
    assert_eq!(nodes.len(), 10, "{described}");
    for (nth, node) in nodes.iter().enumerate() {
        let parent = nth.checked_sub(1).map_or(Value::Null, |nth| nodes[nth]["id"].clone());
        assert_eq!((&node["session"], &node["parent"]), (&json!(session), &parent), "{described}");
    }
    let expanded = looked_up("expand", 2);
    assert!(expanded.contains("round 0, line 0"), "{expanded}");
    company.is_clean();
    assert!(gateway.stop().success());
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A home with the engine that is made as hermes-lcm is.
fn lcm_home(place: &Place, name: &str, python: &Path) -> PathBuf {
    let config = format!(
        "context: {{engine: lcm}}\nplugins: {{enabled: [lcm]}}\nmemory: {{nudge_interval: 0}}\n\
         compression: {{protect_last_n: 2, protect_first_n: 0}}\nthroughline: {{hermes: {{python: {}, tools: []}}}}\n",
        python.display()
    );
    place.write(&format!("{name}/config.yaml"), config);
    for file in ["__init__.py", "plugin.yaml"] {
        let source = fs::read(root().join("plugins/tests/fixtures/lcm").join(file)).unwrap();
        place.write(&format!("{name}/plugins/lcm/{file}"), source);
    }
    place.file(name)
}

fn orders(client: &Client, session: &str, order: &str) -> String {
    let path = format!("/api/sessions/{session}/commands");
    let answer = client.post(&path, &[], &json!({"command": order})).unwrap();
    assert_eq!(answer.status, 200, "{order}: {}", answer.text());
    answer.json()["said"].as_str().unwrap().to_owned()
}

#[test]
fn p5_p31_two_agents_with_an_engine_like_lcm_have_each_its_own_database_and_find_nothing_of_the_other() {
    let Some(python) = peers::hermes_python("0.19.0") else { return };
    let place = Place::new();
    let homes = ["alpha", "beta"].map(|name| lcm_home(&place, name, &python));
    let beta = crate::gateway::free_port();
    fs::write(homes[1].join(".env"), format!("API_SERVER_PORT={beta}\n")).unwrap();
    // What Hermes kept before: it belongs to beta.
    let kept = rusqlite::Connection::open(homes[1].join("lcm.db")).unwrap();
    let rows = "CREATE TABLE messages (session_id TEXT, role TEXT, content TEXT);
                INSERT INTO messages VALUES ('earlier', 'user', 'a kingfisher at dawn')";
    kept.execute_batch(rows).unwrap();
    drop(kept);
    let look = |word: &str| {
        let call = json!([{"name": "lcm_grep", "arguments": {"query": word}}]);
        let ask = format!("look for {word}");
        [
            json!({"when": {"contains": ask, "result": false}, "call": call}),
            json!({"when": {"contains": ask, "result": true}, "say": "looked"}),
        ]
    };
    let rules: Vec<Value> = ["heron", "kingfisher"].iter().flat_map(|word| look(word)).collect();
    let script = place.write("script.json", json!({"rules": rules}).to_string());
    let gateway = Launch::on(&place, &[&homes[0], &homes[1]])
        .env("THROUGHLINE_REHEARSAL", &script)
        .env("THROUGHLINE_REHEARSAL_LOG", place.file("model.log"))
        .start();
    until("both are there", || gateway.log().contains("ready   after"));
    let alpha = &gateway.client;
    let beta = Client::new(([127, 0, 0, 1], beta).into(), &alpha.key);
    // What the engine's tool answered, as the model read it.
    let found = |client: &Client, session: &str, word: &str| {
        client.say(session, &format!("look for {word}"));
        let asked = place.asked().pop().unwrap();
        text(asked["messages"].as_array().unwrap().last().unwrap())
    };
    for nth in 0..8 {
        alpha.say("a", &format!("line {nth}: the heron stands in the reeds {}", "and waits ".repeat(40)));
    }
    let told = orders(alpha, "a", "/compress");
    assert!(told.contains("snapshot"), "{told}\n{}", gateway.log());
    assert!(found(alpha, "a", "heron").contains("the heron stands"), "{}", gateway.log());
    assert_eq!(found(&beta, "b", "heron"), r#"{"matches": []}"#);
    assert_eq!(found(&beta, "b", "kingfisher"), r#"{"matches": ["a kingfisher at dawn"]}"#);
    assert_eq!(found(alpha, "a", "kingfisher"), r#"{"matches": []}"#);
    assert!(homes.iter().all(|home| home.join("lcm.db").exists()));
    assert!(!place.file("user/.hermes").exists(), "no home was made up");

    // The engine's own words, about this session.
    let status = orders(alpha, "a", "/status");
    assert!(status.starts_with("Session a") && status.contains("engine: lcm"), "{status}");
    assert!(status.contains("compression_count: 1"), "{status}");
    assert!(orders(&beta, "b", "/status").contains("compression_count: 0"));
    assert!(gateway.stop().success());
}

#[test]
fn a_check_by_name_tries_the_engine_of_a_home_and_its_tools_in_a_copy() {
    let Some(python) = peers::hermes_python("0.19.0") else { return };
    let place = Place::new();
    let home = lcm_home(&place, "home", &python);
    place.write("home/lcm.db", "a live database");
    let before = files(&home);
    let check = |patience: &str| {
        let launch = Launch::on(&place, &[&home]).arg("plugin").arg("check").arg("--patience").arg(patience);
        launch.arg("hermes").run()
    };
    let checked = check("90");
    assert!(checked.status.success(), "{checked:?}");
    for words in [
        "ok      engine/compress returns a conversation that can be sent",
        "ok      engine/status",
        "ok      tool/call answers for each tool of the context engine",
        "not tried: the commands /lcm",
        &format!("not tried: what it keeps in {}", home.display()),
        "as far as it was tried",
    ] {
        assert!(checked.stdout.contains(words), "{words}: {}", checked.stdout);
    }
    assert_eq!(files(&home), before, "the home is as it was");

    // An engine that the home counts on and that is not there.
    fs::remove_dir_all(home.join("plugins/lcm")).unwrap();
    let checked = check("90");
    assert!(!checked.status.success(), "{checked:?}");
    let words = "FAILED  a context engine named lcm: its settings ask for one, and it brings none";
    assert!(checked.stdout.contains(words), "{}", checked.stdout);
}
