//! Hermes' own Hindsight provider, unmodified, behind the real gateway and in front of the real Hindsight: each
//! turn is in the bank once, under its own session, through compressions, new sessions and kills.

use super::*;
use crate::hindsight::Server;

const BANK: &str = "hermes-by-the-gateway";

/// All that was kept: its name, and its words.
fn documents(server: &Server) -> Vec<(String, String)> {
    let words = |kept: crate::hindsight::Document| (kept.id, kept.text);
    server.documents(BANK).into_iter().map(words).collect()
}

fn hive(number: usize) -> String {
    format!("Ada keeps hive number {number} in Turin, {}", "and there it stays for now ".repeat(30))
        .trim_end()
        .to_owned()
}

/// Where the transcript has a message, snapshots counted with their session.
fn session_of(company: &Company, words: &str) -> String {
    let database = rusqlite::Connection::open(company.world.place.home().join("state.db")).unwrap();
    let mut rows =
        database.prepare("SELECT session_id FROM messages WHERE role = 'user' AND content = ?").unwrap();
    let found = rows.query_map([words], |row| row.get::<_, String>(0)).unwrap().map(Result::unwrap);
    let mut found: Vec<String> = found.map(|id| id.split(".snapshot.").next().unwrap().to_owned()).collect();
    found.dedup();
    assert_eq!(found.len(), 1, "{words}: {found:?}");
    found.remove(0)
}

#[test]
fn p24_p26_hermes_own_hindsight_provider_keeps_each_turn_once_under_its_own_session() {
    let Some(python) = peers::hermes_with_hindsight() else { return };
    let server = Server::start();
    let config = format!(
        "memory: {{provider: 'hermes:hindsight', nudge_interval: 0}}\nthroughline: {{hermes: {{python: {}}}}}\n",
        python.display()
    );
    let company = Company::with(summarising(), &config);
    let settings = json!({
        "mode": "local_external", "api_url": format!("http://{}", server.client.address), "bank_id": BANK,
        "recall_types": "world,experience,observation",
        // Under Hermes every second turn would wait for the next one, and be lost with the process.
        "retain_every_n_turns": 2,
    });
    company.world.place.write("home/hindsight/config.json", settings.to_string());

    let mut gateway = company.world.launch.start();
    (1..=6).for_each(|number| company.hears(&hive(number)));
    let told = company.orders("/compress here 1");
    assert!(told.contains("snapshot"), "{told}");
    company.hears(&hive(7));
    company.orders("/new");
    company.hears(&hive(8));
    gateway.kill();
    gateway = company.world.launch.start();
    company.hears(&hive(9));
    company.says(&hive(10));
    gateway.kill();
    gateway = company.world.launch.start();
    company.world.until("the tenth reply", |world| {
        world.shown().iter().any(|shown| shown.ends_with(&format!("re: {}", hive(10))))
    });
    company.until("ten turns in the bank", || documents(&server).len() >= 10);
    assert!(gateway.stop().success());

    let kept = documents(&server);
    for number in 1..=10 {
        let mark = format!("hive number {number} in Turin");
        // The question and the answer that repeats it, in one document.
        let those: Vec<_> = kept.iter().filter(|(_, words)| words.contains(&mark)).collect();
        let [(id, words)] = &those[..] else { panic!("{mark}: {those:?}") };
        assert_eq!(words.matches(&mark).count(), 2, "{words}");
        assert!(id.starts_with(&session_of(&company, &hive(number))), "{mark} lies in {id}");
    }
    assert_eq!(kept.len(), 10, "{kept:#?}");
    assert_eq!(company.sessions().len(), 2, "{:?}", company.sessions());
    company.is_clean();
}
