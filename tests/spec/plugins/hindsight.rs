//! Hermes' own Hindsight provider, unmodified, behind the real gateway and in front of the real Hindsight: each
//! turn is in the bank once, under its own session, whatever is compressed, begun anew or killed meanwhile.

use super::*;
use crate::gateway::Client;
use std::net::SocketAddr;

const BANK: &str = "hermes-by-the-gateway";

/// A server of one's own. Ends with its handle.
struct Server {
    directory: tempfile::TempDir,
    client: Client,
}

impl Server {
    fn script() -> PathBuf {
        root().join("tests/peers/hindsight")
    }

    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let output = Command::new(Self::script()).arg("start").arg(directory.path()).output().unwrap();
        assert!(
            output.status.success(),
            "Hindsight does not start: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let url = String::from_utf8(output.stdout).unwrap();
        let address: SocketAddr = url.trim().strip_prefix("http://").unwrap().parse().unwrap();
        Self { directory, client: Client::new(address, "none") }
    }

    /// All that was kept: its name, and its words.
    fn documents(&self) -> Vec<(String, String)> {
        let bank = format!("/v1/default/banks/{BANK}/documents");
        let listed = self.client.get(&format!("{bank}?limit=100")).unwrap();
        if listed.status != 200 {
            return Vec::new(); // the bank is made by the first turn
        }
        let listed = listed.json();
        let ids = listed["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap());
        let words = |id: &str| {
            let path = format!("{bank}/{}", id.replace('/', "%2F"));
            self.client.read(&path)["original_text"].as_str().unwrap_or_default().to_owned()
        };
        ids.map(|id| (id.to_owned(), words(id))).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = Command::new(Self::script()).arg("stop").arg(self.directory.path()).status();
    }
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
    company.until("ten turns in the bank", || server.documents().len() >= 10);
    assert!(gateway.stop().success());

    let kept = server.documents();
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
