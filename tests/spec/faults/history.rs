//! A conversation with a very long past: a start, a turn and the memory they take depend on what is in the context, not
//! on what is behind it.

use super::cpu_time;
use crate::gateway::{Gateway, Place};
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use serde_json::json;
use std::fs;
use std::time::{Duration, Instant};

/// In the normal run. `./test long` says a million (`THROUGHLINE_HISTORY`).
const MESSAGES: u32 = 50_000;
/// What is in the context, of every conversation here.
const LIVE: u32 = 10;

/// What a gateway took for one home.
#[derive(Debug)]
struct Taken {
    start: Duration,
    /// The first turn takes over what Hermes wrote.
    first_turn: Duration,
    turn: Duration,
    most_memory_kib: u64,
}

/// As Hermes leaves a conversation that it has compressed, again and again.
fn with_a_past(messages: u32) -> Place {
    let place = Place::new();
    assert!(place.launch().start().stop().success());
    let store = Connection::open(place.file("home/state.db")).unwrap();
    store.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap(); // the index is not what is measured
    store.execute_batch("PRAGMA synchronous = OFF; BEGIN").unwrap();
    store
        .execute("INSERT INTO sessions (id, source, started_at) VALUES ('long', 'api_server', 1.7e9)", [])
        .unwrap();
    let sql = "INSERT INTO messages (session_id, role, content, timestamp, active, compacted)
        WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?1 + ?2)
        SELECT 'long', CASE n % 2 WHEN 1 THEN 'user' ELSE 'assistant' END,
               'message ' || n || ' of a long past, about as long as what people and agents say to each other in a chat, '
               || 'which is two lines on a screen or so, and now and then a little more than that', 1.7e9 + n, n > ?1, n <= ?1
        FROM numbers";
    store.execute(sql, [messages, LIVE]).unwrap();
    store.execute_batch("COMMIT; PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    place
}

fn most_memory_kib(gateway: &Gateway) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", gateway.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn taken(messages: u32) -> Taken {
    let place = with_a_past(messages);
    let launch = place.rehearsing(&json!({}));
    let began = Instant::now();
    let gateway = launch.start();
    let start = began.elapsed();
    let turn = |words: &str| {
        let before = cpu_time(&gateway);
        assert!(gateway.client.say("long", words).said().ends_with(&format!("“{words}”")));
        cpu_time(&gateway) - before
    };
    let first_turn = turn("the first");
    // Several, because a turn is less than the kernel counts.
    let turns: Duration = (0..10).map(|nth| turn(&format!("number {nth}"))).sum();
    let requests = place.asked();
    let seen = requests.last().unwrap()["messages"].as_array().unwrap().len();
    assert!(
        seen < 60
            && requests.last().unwrap().to_string().contains(&format!("message {} of", messages + LIVE))
    );
    let taken = Taken { start, first_turn, turn: turns / 10, most_memory_kib: most_memory_kib(&gateway) };
    assert!(gateway.stop().success());
    taken
}

#[test]
fn p14_a_past_that_is_not_in_the_context_costs_a_start_a_turn_and_their_memory_nothing() {
    let messages = std::env::var("THROUGHLINE_HISTORY").ok().map_or(MESSAGES, |text| text.parse().unwrap());
    let (short, long) = (taken(1_000), taken(messages));
    println!("1000 messages: {short:?}\n{messages} messages: {long:?}");
    let slack = Duration::from_millis(60);
    assert!(long.turn <= short.turn * 2 + slack, "{short:?}\n{long:?}");
    // Taking a conversation up counts its rows: less than a second for a million.
    assert!(long.first_turn <= short.first_turn * 2 + Duration::from_secs(1), "{short:?}\n{long:?}");
    assert!(long.start <= short.start * 2 + Duration::from_secs(3), "{short:?}\n{long:?}");
    assert!(long.most_memory_kib <= short.most_memory_kib + 32 * 1024, "{short:?}\n{long:?}");
}
