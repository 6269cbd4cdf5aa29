//! Healthy homes, as Hermes 0.14 and 0.19 leave them, and as we do.

use crate::chance::Chance;
use crate::used;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, params};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;
use throughline_core::Time;
use throughline_hermes::schema::FRESH;
use throughline_store::doctor::{Finding, Outside, Transcript};
use throughline_store::{Durability, FileSystem, Home};

pub const NOW: Time = Time(1_763_240_000_000_000);
/// When the first thing was said, in seconds.
const BEGAN: f64 = 1_763_100_000.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schema {
    Eleven,
    TwentyTwo,
}

/// A chat and its session, without any damage yet.
#[derive(Clone, Debug)]
pub struct Chat {
    pub key: String,
    pub session: String,
}

pub struct World {
    directory: TempDir,
    pub conn: Connection,
    pub schema: Schema,
    pub chance: Chance,
    pub chats: Vec<Chat>,
    /// Where each chat leads, and what else its entry says.
    pub routes: Vec<(String, String, String)>,
    pub transcripts: Vec<Transcript>,
    /// Sessions of which something is reported, and left.
    pub reported: BTreeSet<String>,
    /// Sessions in our own books.
    pub used: BTreeSet<String>,
    /// What people said.
    pub told: Vec<String>,
    clock: f64,
    count: u64,
    seed: u64,
}

impl World {
    pub fn healthy(schema: Schema, seed: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let conn = Connection::open(directory.path().join("state.db")).unwrap();
        conn.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; PRAGMA foreign_keys = ON")
            .unwrap();
        match schema {
            Schema::Eleven => conn.execute_batch(include_str!("../store/schema-11.sql")).unwrap(),
            Schema::TwentyTwo => FRESH.iter().for_each(|text| conn.execute_batch(text).unwrap()),
        }
        let mut world = Self {
            directory,
            conn,
            schema,
            chance: Chance::new(seed),
            chats: Vec::new(),
            routes: Vec::new(),
            transcripts: Vec::new(),
            reported: BTreeSet::new(),
            used: BTreeSet::new(),
            told: Vec::new(),
            clock: BEGAN,
            count: 0,
            seed,
        };
        world.conn.execute_batch("BEGIN").unwrap();
        world.populate();
        world.conn.execute_batch("COMMIT").unwrap();
        world.write_routes();
        world
    }

    /// One that was ours for a while.
    pub fn used(schema: Schema, seed: u64) -> Self {
        let mut world = Self::healthy(schema, seed);
        used::by_us(&mut world);
        world
    }

    /// A third of all homes have been ours.
    pub fn any(schema: Schema, seed: u64) -> Self {
        match seed % 3 {
            0 => Self::used(schema, seed),
            _ => Self::healthy(schema, seed),
        }
    }

    fn populate(&mut self) {
        for nth in 0..12 {
            let session = self.begin("telegram", None);
            let key = format!("agent:main:telegram:dm:{nth}");
            self.key(&session, &key);
            let turns = 1 + self.chance.below(4);
            self.talk(&session, turns);
            self.routes.push((key.clone(), session.clone(), String::new()));
            self.chats.push(Chat { key, session });
        }
        // Hermes has handed some over, since no person went on with them; they end when a person writes again.
        for nth in 6..12 {
            if self.chance.one_in(3) {
                let chat = self.chats[nth].clone();
                self.lead(&chat.key, &chat.session, ", \"expiry_finalized\": true");
                if self.schema == Schema::TwentyTwo {
                    let sql = "UPDATE sessions SET expiry_finalized = 1 WHERE id = ?1";
                    self.conn.execute(sql, [&chat.session]).unwrap();
                }
            }
        }
        let ended = self.begin("cli", None);
        self.talk(&ended, 2);
        self.end(&ended, "session_reset");
        let live = self.chats[11].session.clone();
        // A helper works for a session; another one is a branch.
        let helper = self.begin("cli", Some(&live));
        self.talk(&helper, 1);
        if self.schema == Schema::TwentyTwo {
            self.mark(&helper, "{\"_delegate_from\": \"x\"}");
        }
        self.end(&helper, "agent_close");
        let branch = self.begin("cli", Some(&ended));
        self.mark(&branch, "{\"_branched_from\": \"x\"}");
        self.talk(&branch, 1);
    }

    pub fn home(&self) -> Home {
        // Nothing here outlives the process, so no commit waits for the disk.
        let at = Home::at(self.directory.path());
        Home { filesystem: FileSystem::Trusted, durability: Durability::Relaxed, ..at }
    }

    pub fn examine(&self) -> Vec<Finding> {
        let transcripts = &mut self.transcripts.iter().cloned();
        // What was last active the day before has ended by itself, wherever that day was.
        let is_due = &|_: &str, _: &str, active: Time| active < Time(NOW.0 - 6 * 3_600_000_000);
        let outside = Outside { transcripts, is_running: false, is_due };
        self.home().examiner().unwrap().examine(outside, NOW, &mut |_, _, _| {}).unwrap()
    }

    // ---------------------------------------------------------------------------------------- writing

    /// A moment later.
    pub fn tick(&mut self) -> f64 {
        self.clock += 1.0 + self.chance.below(5_000) as f64 / 1_000.0;
        self.clock
    }

    pub fn begin(&mut self, source: &str, parent: Option<&str>) -> String {
        let at = self.tick();
        self.count += 1;
        let id =
            format!("2025111{}_{:06}_{:08x}", 1 + self.seed % 8, self.count, self.chance.number() as u32);
        let sql = "INSERT INTO sessions (id, source, parent_session_id, started_at) VALUES (?1, ?2, ?3, ?4)";
        self.conn.execute(sql, params![id, source, parent, at]).unwrap();
        id
    }

    fn key(&self, session: &str, key: &str) {
        if self.schema == Schema::TwentyTwo {
            let sql = "UPDATE sessions SET session_key = ?2 WHERE id = ?1";
            self.conn.execute(sql, [session, key]).unwrap();
        }
    }

    pub fn same_key(&self, session: &str, key: &str) {
        self.key(session, key);
    }

    fn mark(&self, session: &str, config: &str) {
        self.conn.execute("UPDATE sessions SET model_config = ?2 WHERE id = ?1", [session, config]).unwrap();
    }

    pub fn end(&mut self, session: &str, reason: &str) {
        let at = self.tick();
        let sql = "UPDATE sessions SET ended_at = ?2, end_reason = ?3 WHERE id = ?1";
        self.conn.execute(sql, params![session, at, reason]).unwrap();
    }

    /// A new text, unlike all that was said, which is to stay readable.
    pub fn text(&mut self, what: &str) -> String {
        self.count += 1;
        let text = format!("word{}x{} {what}", self.count, self.seed);
        self.told.push(text.clone());
        text
    }

    pub fn row(&mut self, session: &str, role: &str, text: &str) -> i64 {
        let at = self.tick();
        self.row_at(session, role, text, at)
    }

    pub fn row_at(&self, session: &str, role: &str, text: &str, at: f64) -> i64 {
        let sql = "INSERT INTO messages (session_id, role, content, timestamp) VALUES (?1, ?2, ?3, ?4)";
        self.conn.execute(sql, params![session, role, text, at]).unwrap();
        let row = self.conn.last_insert_rowid();
        let sql = "UPDATE sessions SET message_count = message_count + 1 WHERE id = ?1";
        self.conn.execute(sql, [session]).unwrap();
        row
    }

    /// So many turns, some with a tool.
    pub fn talk(&mut self, session: &str, turns: u64) {
        for _ in 0..turns {
            let asked = self.text("is asked");
            self.row(session, "user", &asked);
            if self.chance.one_in(3) {
                self.count += 1;
                self.call(session, self.count, true);
            }
            let answered = self.text("is answered");
            self.row(session, "assistant", &answered);
        }
    }

    /// A tool group; without its result if it is to be broken.
    pub fn call(&mut self, session: &str, number: u64, closed: bool) {
        let at = self.tick();
        let calls = format!(
            "[{{\"id\": \"call_{number}\", \"type\": \"function\", \"function\": {{\"name\": \"terminal\", \"arguments\": \"{{}}\"}}}}]"
        );
        let sql = "INSERT INTO messages (session_id, role, content, tool_calls, timestamp) VALUES (?1, 'assistant', NULL, ?2, ?3)";
        self.conn.execute(sql, params![session, calls, at]).unwrap();
        if closed {
            let sql = "INSERT INTO messages (session_id, role, content, tool_call_id, tool_name, timestamp)
                       VALUES (?1, 'tool', ?2, ?3, 'terminal', ?4)";
            let at = self.tick();
            let values = params![session, format!("result {number}"), format!("call_{number}"), at];
            self.conn.execute(sql, values).unwrap();
        }
    }

    /// What is live in a session: role and text.
    pub fn view(&self, session: &str) -> Vec<(String, String)> {
        let live = if self.schema == Schema::TwentyTwo { "AND active = 1" } else { "" };
        let sql = format!(
            "SELECT role, content FROM messages WHERE session_id = ?1 AND content IS NOT NULL AND role <> 'tool' {live} ORDER BY id"
        );
        let mut statement = self.conn.prepare(&sql).unwrap();
        let rows = statement.query_map([session], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        rows.map(Result::unwrap).collect()
    }

    pub fn lead(&mut self, chat: &str, session: &str, more: &str) {
        let route = self.routes.iter_mut().find(|route| route.0 == chat).unwrap();
        (route.1, route.2) = (session.to_owned(), more.to_owned());
    }

    /// A second chat, of other people.
    pub fn lead_another(&mut self, nth: usize, session: &str) -> String {
        let chat = format!("agent:main:telegram:group:{nth}");
        self.routes.retain(|route| route.0 != chat);
        self.routes.push((chat.clone(), session.to_owned(), String::new()));
        chat
    }

    /// Where chats lead by the file, and by the table where there is one: they must agree.
    pub fn led(&self) -> BTreeMap<String, String> {
        let text = fs::read_to_string(self.path("sessions/sessions.json")).unwrap();
        let entries: BTreeMap<String, serde_json::Value> = serde_json::from_str(&text).unwrap();
        let led = entries.into_iter().filter(|(chat, _)| !chat.starts_with('_'));
        let led = led.map(|(chat, entry)| (chat, entry["session_id"].as_str().unwrap().to_owned()));
        let led: BTreeMap<String, String> = led.collect();
        if self.schema == Schema::TwentyTwo {
            let sql = "SELECT session_key, json_extract(entry_json, '$.session_id') FROM gateway_routing";
            let mut statement = self.conn.prepare(sql).unwrap();
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
            assert_eq!(rows.map(Result::unwrap).collect::<BTreeMap<String, String>>(), led);
        }
        led
    }

    /// As Hermes keeps them: in a file, and in a table where there is one.
    pub fn write_routes(&self) {
        let sessions = self.directory.path().join("sessions");
        fs::create_dir_all(&sessions).unwrap();
        let entry = |(key, session, more): &(String, String, String)| {
            format!(
                "{{\"session_key\": \"{key}\", \"session_id\": \"{session}\", \"created_at\": \"2025-11-14T21:17:00\", \
                 \"updated_at\": \"2025-11-14T21:18:03.120456\", \"platform\": \"telegram\", \"chat_type\": \"dm\"{more}}}"
            )
        };
        let members: Vec<_> =
            self.routes.iter().map(|route| format!("\"{}\": {}", route.0, entry(route))).collect();
        fs::write(sessions.join("sessions.json"), format!("{{{}}}", members.join(", "))).unwrap();
        if self.schema == Schema::TwentyTwo {
            let scope = self.home().scope;
            for route in &self.routes {
                let sql = "INSERT OR REPLACE INTO gateway_routing VALUES (?1, ?2, ?3, 1763230000.0)";
                self.conn.execute(sql, [&scope, &route.0, &entry(route)]).unwrap();
            }
        }
    }

    // ---------------------------------------------------------------------------------------- reading

    pub fn rows(&self) -> Vec<(String, String)> {
        let mut statement = self.conn.prepare("SELECT role, COALESCE(content, '') FROM messages").unwrap();
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect()
    }

    pub fn sessions(&self) -> Vec<String> {
        let mut statement = self.conn.prepare("SELECT id FROM sessions ORDER BY id").unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The files of the home, but for the log's index, which every reader keeps.
    pub fn bytes(&self) -> Vec<Vec<u8>> {
        let names = ["state.db", "state.db-wal", "sessions/sessions.json"];
        names.iter().map(|name| fs::read(self.path(name)).unwrap_or_default()).collect()
    }

    /// Everything in every table that is not an index's own, and the file of routes. When something was written
    /// in our own records of events does not count.
    pub fn dump(&self) -> String {
        let mut text = fs::read_to_string(self.path("sessions/sessions.json")).unwrap();
        let sql =
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '%\\_fts%' ESCAPE '\\'
                   AND name NOT IN ('sqlite_sequence', 'tl_event', 'tl_count') ORDER BY name";
        let mut statement = self.conn.prepare(sql).unwrap();
        let tables: Vec<String> =
            statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        for table in tables {
            let mut statement = self.conn.prepare(&format!("SELECT * FROM {table}")).unwrap();
            let columns = statement.column_count();
            let mut rows = statement.query([]).unwrap();
            let mut lines = Vec::new();
            while let Some(row) = rows.next().unwrap() {
                let line: Vec<String> = (0..columns).map(|nth| shown(row.get_ref(nth).unwrap())).collect();
                lines.push(line.join("|"));
            }
            lines.sort();
            writeln!(text, "{table}\n{}", lines.join("\n")).unwrap();
        }
        text.replace(&self.directory.path().display().to_string(), "HOME")
    }
}

fn shown(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
        other => format!("{other:?}"),
    }
}
