//! Copies of databases that others write to.

use rusqlite::Connection;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use throughline_store::copy;

fn filled(path: &Path, rows: u32) -> Connection {
    let database = Connection::open(path).unwrap();
    database
        .execute_batch(
            "PRAGMA journal_mode = WAL; CREATE TABLE said (id INTEGER PRIMARY KEY, twin INTEGER, text TEXT)",
        )
        .unwrap();
    for _ in 0..rows {
        database.execute("INSERT INTO said (twin, text) VALUES (0, ?1)", ["x".repeat(2_000)]).unwrap();
    }
    database
}

#[test]
fn a_copy_is_of_one_moment_while_another_writes_and_keeps_nobody_waiting() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.db");
    drop(filled(&path, 3_000));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let database = Connection::open(&path).unwrap();
            let (mut written, mut slowest) = (0u32, Duration::ZERO);
            while !is_over.load(Ordering::Relaxed) {
                let began = std::time::Instant::now();
                // Two rows that belong together.
                database
                    .execute_batch(
                        "BEGIN; INSERT INTO said (twin, text) VALUES (1, 'one');
                         INSERT INTO said (twin, text) VALUES (2, 'other'); COMMIT",
                    )
                    .unwrap();
                slowest = slowest.max(began.elapsed());
                written += 1;
            }
            (written, slowest)
        });
        for nth in 0..5 {
            let to = directory.path().join(format!("copy{nth}.db"));
            let mut heard = Vec::new();
            let copied = copy(&path, &to, &mut |done, total| heard.push((done, total))).unwrap();
            assert_eq!(copied.damage, [] as [String; 0]);
            let (done, total) = *heard.last().unwrap();
            assert!(done == total && total >= 6_000_000, "{heard:?}");
            let database = Connection::open(&to).unwrap();
            let sql = "SELECT count(*) FILTER (WHERE twin = 1) - count(*) FILTER (WHERE twin = 2) FROM said";
            assert_eq!(database.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
        }
        is_over.store(true, Ordering::Relaxed);
        let (written, slowest) = writer.join().unwrap();
        assert!(written > 5 && slowest < Duration::from_secs(4), "{written} {slowest:?}");
    });
}

#[test]
fn damage_is_copied_and_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.db");
    let database = filled(&path, 50);
    database.execute_batch("CREATE INDEX said_text ON said(text); PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    database
        .execute_batch(
            "PRAGMA writable_schema = ON;
             UPDATE sqlite_master SET sql = 'CREATE INDEX said_text ON said(twin)' WHERE name = 'said_text'",
        )
        .unwrap();
    drop(database);
    let copied = copy(&path, &directory.path().join("copy.db"), &mut |_, _| ()).unwrap();
    assert!(!copied.damage.is_empty() && copied.rows["said"] == 50, "{copied:?}");
}

#[cfg(unix)]
#[test]
fn p31_no_link_is_followed_to_what_is_copied() {
    let directory = tempfile::tempdir().unwrap();
    let top = directory.path().canonicalize().unwrap();
    std::fs::create_dir(top.join("real")).unwrap();
    drop(filled(&top.join("real/state.db"), 3));
    std::os::unix::fs::symlink(top.join("real"), top.join("way")).unwrap();
    std::os::unix::fs::symlink(top.join("real/state.db"), top.join("link.db")).unwrap();
    for (nth, path) in ["way/state.db", "link.db"].iter().enumerate() {
        let to = top.join(format!("copy{nth}.db"));
        assert!(copy(&top.join(path), &to, &mut |_, _| {}).is_err(), "{path}");
        assert!(!to.exists(), "{path}");
    }
    assert_eq!(
        copy(&top.join("real/state.db"), &top.join("copy.db"), &mut |_, _| {}).unwrap().rows["said"],
        3
    );
}
