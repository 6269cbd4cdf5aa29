//! Context engines that people wrote for Hermes, in the home's own `plugins/`, behind the real gateway: they
//! compress under an id that stays, and whoever asked for more than they can do is told so.

use super::*;
use serde_json::Value;

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
