//! That the disk forgets what it may and keeps what it must, judged by the real SQLite above it.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::*;

const DATABASE: &str = "/home/state.db";
const ROWS_PER_BATCH: i64 = 3;

/// How a connection is set up.
#[derive(Clone, Copy, Debug)]
struct Mode {
    journal: &'static str,
    synchronous: &'static str,
}

const WAL_FULL: Mode = Mode { journal: "WAL", synchronous: "FULL" };
const WAL_NORMAL: Mode = Mode { journal: "WAL", synchronous: "NORMAL" };
const WAL_OFF: Mode = Mode { journal: "WAL", synchronous: "OFF" };
const DELETE_EXTRA: Mode = Mode { journal: "DELETE", synchronous: "EXTRA" };
const DELETE_FULL: Mode = Mode { journal: "DELETE", synchronous: "FULL" };

fn open(disk: &Disk, mode: Mode) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags_and_vfs(DATABASE, OpenFlags::default(), disk.vfs_name())?;
    let Mode { journal, synchronous } = mode;
    // An exclusive connection would overwrite its rollback journal instead of deleting it.
    let locking = if journal == "WAL" { "EXCLUSIVE" } else { "NORMAL" };
    connection.execute_batch(&format!(
        "PRAGMA locking_mode={locking}; PRAGMA journal_mode={journal}; PRAGMA synchronous={synchronous};
         PRAGMA wal_autocheckpoint=8;
         CREATE TABLE IF NOT EXISTS message(id INTEGER PRIMARY KEY, batch INTEGER, body TEXT);
         CREATE INDEX IF NOT EXISTS message_batch ON message(batch, body);",
    ))?;
    Ok(connection)
}

fn template(mode: Mode) -> Image {
    let disk = Disk::new(0);
    open(&disk, mode).unwrap();
    disk.settle();
    disk.image()
}

/// Commits one batch of rows that fill about a page, and drops an old body now and then, so that pages
/// become free and are used again.
fn write_batch(connection: &Connection, batch: i64) -> rusqlite::Result<()> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    for row in 0..ROWS_PER_BATCH {
        let body = format!("{batch}/{row} ").repeat(200);
        connection.execute("INSERT INTO message(batch, body) VALUES (?1, ?2)", (batch, body))?;
    }
    connection.execute("UPDATE message SET body = '' WHERE batch = ?1 - 4", [batch])?;
    connection.execute_batch("COMMIT")
}

fn rows(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("SELECT count(*) FROM message", [], |row| row.get(0))
}

/// One disk through several lives, and what its user was told.
struct Run {
    disk: Disk,
    mode: Mode,
    attempted: i64,
    acknowledged: Vec<i64>,
}

#[derive(Debug, Default, PartialEq)]
struct Verdict {
    lost: usize,
    halved: usize,
    corrupt: usize,
}

impl Run {
    fn new(image: &Image, mode: Mode, seed: u64) -> Self {
        Self { disk: Disk::from_image(image, seed), mode, attempted: 0, acknowledged: Vec::new() }
    }

    /// Opens, writes and closes until done or struck, then loses power.
    fn live(&mut self, batches: i64) -> rusqlite::Result<()> {
        let outcome = self.write(batches);
        self.disk.crash();
        outcome
    }

    fn write(&mut self, batches: i64) -> rusqlite::Result<()> {
        let connection = open(&self.disk, self.mode)?;
        for _ in 0..batches {
            self.attempted += 1;
            write_batch(&connection, self.attempted)?;
            self.acknowledged.push(self.attempted);
        }
        Ok(())
    }

    fn judge(&self) -> Verdict {
        let mut verdict = Verdict::default();
        if self.inspect(&mut verdict).is_err() {
            verdict.corrupt += 1;
        }
        verdict
    }

    fn inspect(&self, verdict: &mut Verdict) -> rusqlite::Result<()> {
        let connection = open(&self.disk, self.mode)?;
        let integrity: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
        verdict.corrupt += usize::from(integrity != "ok");
        let mut query = connection.prepare("SELECT count(*) FROM message WHERE batch = ?1")?;
        for batch in 1..=self.attempted {
            let found: i64 = query.query_row([batch], |row| row.get(0))?;
            verdict.lost += usize::from(found == 0 && self.acknowledged.contains(&batch));
            verdict.halved += usize::from(found != 0 && found != ROWS_PER_BATCH);
        }
        Ok(())
    }
}

/// Strikes at the first operation, the second, and so on until the script ends before its strike; then
/// again while the next life recovers. Returns the sum of all verdicts.
fn strike_everywhere(image: &Image, mode: Mode) -> Verdict {
    let mut sum = Verdict::default();
    for nth in 1.. {
        let mut has_struck = false;
        for seed in 0..4 {
            let mut run = Run::new(image, mode, nth * 1_000 + seed);
            run.disk.strike_at(nth);
            let _ = run.write(8);
            has_struck |= run.disk.has_struck();
            run.disk.crash();
            run.disk.strike_at(1 + nth % 23);
            let _ = run.live(2);
            let verdict = run.judge();
            sum.lost += verdict.lost;
            sum.halved += verdict.halved;
            sum.corrupt += verdict.corrupt;
        }
        if !has_struck {
            assert!(nth > 60, "the script is too short to prove anything: {nth} operations");
            break;
        }
    }
    sum
}

#[test]
fn a_wal_with_full_sync_never_loses_what_it_committed() {
    assert_eq!(strike_everywhere(&template(WAL_FULL), WAL_FULL), Verdict::default());
}

#[test]
fn a_wal_with_normal_sync_loses_commits_and_nothing_else() {
    let verdict = strike_everywhere(&template(WAL_NORMAL), WAL_NORMAL);
    assert!(verdict.lost > 50, "the disk does not forget: {verdict:?}");
    assert_eq!(Verdict { lost: 0, ..verdict }, Verdict::default());
}

#[test]
fn a_wal_without_sync_is_torn_apart() {
    let verdict = strike_everywhere(&template(WAL_OFF), WAL_OFF);
    assert!(verdict.corrupt > 10, "the disk keeps order it does not owe: {verdict:?}");
}

#[test]
fn a_rollback_journal_whose_deletion_is_synced_never_loses_what_it_committed() {
    assert_eq!(strike_everywhere(&template(DELETE_EXTRA), DELETE_EXTRA), Verdict::default());
}

#[test]
fn a_rollback_journal_whose_deletion_is_not_synced_returns_and_takes_a_commit_back() {
    let verdict = strike_everywhere(&template(DELETE_FULL), DELETE_FULL);
    assert!(verdict.lost > 10, "deletions are durable at once: {verdict:?}");
    assert_eq!(Verdict { lost: 0, ..verdict }, Verdict::default());
}

#[test]
fn a_database_survives_its_own_birth() {
    let nothing = Disk::new(0).image();
    for mode in [WAL_FULL, DELETE_EXTRA] {
        assert_eq!(strike_everywhere(&nothing, mode), Verdict::default(), "{mode:?}");
    }
}

#[test]
fn after_a_strike_everything_fails_until_power_returns() {
    let disk = Disk::from_image(&template(WAL_FULL), 1);
    let connection = open(&disk, WAL_FULL).unwrap();
    write_batch(&connection, 1).unwrap();
    disk.strike_at(2);
    assert_eq!(
        write_batch(&connection, 2).unwrap_err().sqlite_error_code(),
        Some(ErrorCode::SystemIoFailure)
    );
    assert!(disk.has_struck());
    let operations = disk.operations();
    assert!(write_batch(&connection, 3).is_err());
    drop(connection);
    assert_eq!(open(&disk, WAL_FULL).unwrap_err().sqlite_error_code(), Some(ErrorCode::SystemIoFailure));
    assert_eq!(disk.operations(), operations, "an operation took place without power");

    disk.crash();
    assert!(!disk.has_struck());
    assert!(rows(&open(&disk, WAL_FULL).unwrap()).unwrap() >= ROWS_PER_BATCH);
}

#[test]
fn a_connection_that_outlives_the_power_changes_nothing() {
    for mode in [WAL_FULL, DELETE_FULL] {
        for fall in [Disk::crash, Disk::kill_process] {
            let disk = Disk::from_image(&template(mode), 1);
            let dead = open(&disk, mode).unwrap();
            write_batch(&dead, 1).unwrap();
            dead.execute_batch("BEGIN IMMEDIATE; INSERT INTO message(batch) VALUES (9)").unwrap();
            fall(&disk);
            let fingerprint = disk.fingerprint();
            assert!(dead.execute_batch("COMMIT").is_err(), "{mode:?}");
            assert!(write_batch(&dead, 2).is_err(), "{mode:?}");
            drop(dead); // a living connection would checkpoint or roll back here
            assert_eq!(disk.fingerprint(), fingerprint, "{mode:?}");
            assert_eq!(disk.open_files(), 0);
        }
    }
}

#[test]
fn a_dead_connection_does_not_stand_in_the_way_of_the_next() {
    let disk = Disk::from_image(&template(WAL_FULL), 1);
    let dead = open(&disk, WAL_FULL).unwrap();
    write_batch(&dead, 1).unwrap();
    disk.crash();
    let next = open(&disk, WAL_FULL).unwrap();
    write_batch(&next, 2).unwrap();
    drop(dead);
    write_batch(&next, 3).unwrap();
    assert_eq!(rows(&next).unwrap(), 3 * ROWS_PER_BATCH);
}

#[test]
fn a_second_connection_to_an_open_database_is_refused() {
    let disk = Disk::from_image(&template(WAL_FULL), 1);
    let first = open(&disk, WAL_FULL).unwrap();
    assert_eq!(open(&disk, WAL_FULL).unwrap_err().sqlite_error_code(), Some(ErrorCode::DatabaseBusy));
    drop(first);
    open(&disk, WAL_FULL).unwrap();
}

#[test]
fn killing_the_process_loses_nothing_and_syncs_nothing() {
    let image = template(WAL_NORMAL);
    let lost = (0..20).filter(|seed| {
        let disk = Disk::from_image(&image, *seed);
        let connection = open(&disk, WAL_NORMAL).unwrap();
        write_batch(&connection, 1).unwrap();
        disk.kill_process();
        drop(connection);
        let connection = open(&disk, WAL_NORMAL).unwrap();
        assert_eq!(rows(&connection).unwrap(), ROWS_PER_BATCH);
        disk.crash();
        drop(connection);
        rows(&open(&disk, WAL_NORMAL).unwrap()).unwrap() == 0
    });
    assert!(lost.count() > 5);
}

#[test]
fn the_same_seed_and_the_same_calls_give_the_same_bytes() {
    let image = template(WAL_NORMAL);
    let play = |seed, nth| {
        let mut run = Run::new(&image, WAL_NORMAL, seed);
        let mut prints = vec![run.disk.fingerprint()];
        for life in 0..4 {
            run.disk.strike_at(nth + life);
            let _ = run.write(6);
            prints.push(run.disk.fingerprint());
            run.disk.crash();
            prints.push(run.disk.fingerprint());
        }
        (prints, run.disk.operations(), run.acknowledged)
    };
    let mut different = 0;
    for seed in 0..40 {
        let nth = 5 + seed * 2;
        assert_eq!(play(seed, nth), play(seed, nth), "seed {seed}");
        different += usize::from(play(seed, nth) != play(seed + 1_000, nth));
    }
    assert!(different > 35, "the seed decides nothing: {different}");
}

#[test]
fn the_fingerprint_sees_one_letter_wherever_it_lies_and_no_salt() {
    let image = template(WAL_FULL);
    let print = |body: &str, moment: fn(&Disk, Connection) -> u64| {
        let disk = Disk::from_image(&image, 1);
        let connection = open(&disk, WAL_FULL).unwrap();
        connection.execute("INSERT INTO message(body) VALUES ('')", []).unwrap();
        connection.execute_batch("PRAGMA synchronous=OFF").unwrap();
        connection.execute("INSERT INTO message(body) VALUES (?1)", [body]).unwrap();
        moment(&disk, connection)
    };
    let pending: fn(&Disk, Connection) -> u64 = |disk, _open| disk.fingerprint();
    let in_the_wal: fn(&Disk, Connection) -> u64 = |disk, _open| {
        disk.settle();
        disk.fingerprint()
    };
    let in_the_database: fn(&Disk, Connection) -> u64 = |disk, open| {
        drop(open);
        disk.settle();
        disk.fingerprint()
    };
    for moment in [pending, in_the_wal, in_the_database] {
        assert_eq!(print("same", moment), print("same", moment), "every WAL has a salt of its own");
        assert_ne!(print("some", moment), print("same", moment));
    }
}

#[test]
fn a_full_disk_refuses_to_grow_and_recovers() {
    for mode in [WAL_FULL, DELETE_EXTRA] {
        let disk = Disk::from_image(&template(mode), 1);
        let connection = open(&disk, mode).unwrap();
        write_batch(&connection, 1).unwrap();
        disk.fill();
        let full = write_batch(&connection, 2).unwrap_err();
        assert_eq!(full.sqlite_error_code(), Some(ErrorCode::DiskFull), "{mode:?}");
        if !connection.is_autocommit() {
            connection.execute_batch("ROLLBACK").unwrap();
        }
        assert_eq!(rows(&connection).unwrap(), ROWS_PER_BATCH, "reading needs no space");
        disk.free_space();
        write_batch(&connection, 3).unwrap();
        assert_eq!(rows(&connection).unwrap(), 2 * ROWS_PER_BATCH);
        let integrity: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(integrity, "ok");
    }
}

#[test]
fn a_read_fails_once() {
    let disk = Disk::from_image(&template(WAL_FULL), 1);
    let connection = open(&disk, WAL_FULL).unwrap();
    write_batch(&connection, 1).unwrap();
    drop(connection);
    let connection = open(&disk, WAL_FULL).unwrap();
    disk.fail_reads_at(1);
    let failure = rows(&connection).unwrap_err();
    assert_eq!(failure.sqlite_error().unwrap().extended_code, ffi::SQLITE_IOERR_READ);
    assert_eq!(rows(&connection).unwrap(), ROWS_PER_BATCH);
}

#[test]
fn an_image_holds_what_was_durable_and_never_changes() {
    let disk = Disk::from_image(&template(WAL_FULL), 1);
    let connection = open(&disk, WAL_FULL).unwrap();
    write_batch(&connection, 1).unwrap();
    let image = disk.image();
    connection.execute_batch("PRAGMA synchronous=OFF").unwrap();
    write_batch(&connection, 2).unwrap();
    let unsynced = disk.image();
    disk.settle();
    let settled = disk.image();
    let count = |image, seed| rows(&open(&Disk::from_image(image, seed), WAL_FULL).unwrap()).unwrap();
    for seed in 0..3 {
        assert_eq!(count(&image, seed), ROWS_PER_BATCH);
        assert_eq!(count(&unsynced, seed), ROWS_PER_BATCH);
        assert_eq!(count(&settled, seed), 2 * ROWS_PER_BATCH);
    }
    let again = Disk::from_image(&image, 7).image();
    let bytes = |image: &Image| {
        image.files.iter().map(|(name, content)| (name.clone(), content.to_vec())).collect::<Vec<_>>()
    };
    assert_eq!(bytes(&image), bytes(&again));
}

#[test]
fn the_clock_stands_where_it_was_set() {
    let disk = Disk::new(0);
    let connection = open(&disk, WAL_FULL).unwrap();
    let now = || -> String { connection.query_row("SELECT datetime('now')", [], |row| row.get(0)).unwrap() };
    assert_eq!(now(), "2026-01-01 00:00:00");
    disk.set_time(Duration::from_secs(86_400));
    assert_eq!(now(), "1970-01-02 00:00:00");
}

#[test]
fn temporary_files_work_and_leave_nothing() {
    let disk = Disk::from_image(&template(WAL_FULL), 1);
    let connection = open(&disk, WAL_FULL).unwrap();
    connection
        .execute_batch("PRAGMA temp_store=FILE; PRAGMA cache_size=4; CREATE TEMP TABLE scratch(body TEXT)")
        .unwrap();
    for batch in 1..=40 {
        write_batch(&connection, batch).unwrap();
    }
    connection.execute_batch("INSERT INTO scratch SELECT body FROM message; VACUUM").unwrap();
    let scratch: i64 = connection.query_row("SELECT count(*) FROM scratch", [], |row| row.get(0)).unwrap();
    assert_eq!(scratch, 40 * ROWS_PER_BATCH);
    drop(connection);
    assert_eq!(disk.open_files(), 0);
    disk.settle();
    assert_eq!(disk.image().files.keys().collect::<Vec<_>>(), [DATABASE]);
    assert_eq!(disk.shared.state().files.len(), 1);
}

#[test]
fn a_disk_is_shared_between_threads() {
    fn is_shared<T: Clone + Send + Sync>() {}
    is_shared::<Disk>();
    is_shared::<Image>();
}

#[test]
fn nothing_of_a_disk_is_left_when_it_goes() {
    let image = template(WAL_FULL);
    let registered = vfs::registered();
    for seed in 0..500 {
        let disk = Disk::from_image(&image, seed);
        let connection = open(&disk, WAL_FULL).unwrap();
        write_batch(&connection, 1).unwrap();
        let id = disk.shared.state().names["/home/state.db-wal"];
        let page = disk.shared.state().files[&id].live.a_page();
        let shared = Arc::downgrade(&disk.shared);
        assert!(page.strong_count() > 0 && disk.open_files() > 0);
        if seed % 2 == 0 {
            disk.crash();
        }
        match seed % 3 {
            0 => (drop(disk), drop(connection)).0,
            _ => (drop(connection), drop(disk)).0,
        }
        assert_eq!((shared.strong_count(), page.strong_count()), (0, 0), "seed {seed}");
    }
    assert!(vfs::registered() - registered < 100, "every disk registers a VFS of its own");
}

mod power_loss {
    use super::*;

    fn after_loss(seed: u64, durable: &[u8], pending: Vec<Change>) -> Vec<u8> {
        let mut content = Content::default();
        content.write(0, durable);
        let mut file = File::new(Kind::Database, content);
        pending.into_iter().for_each(|change| file.change(change));
        file.lose_some(&mut Seed::new(seed));
        assert!(file.pending.is_empty());
        assert_eq!(file.live.to_vec(), file.durable.to_vec());
        file.durable.to_vec()
    }

    fn write(offset: u64, byte: u8, len: usize) -> Change {
        Change::Write { offset, bytes: vec![byte; len].into() }
    }

    #[test]
    fn every_sector_holds_one_of_its_versions() {
        let mut seen = BTreeSet::new();
        for seed in 0..2_000 {
            let bytes = after_loss(seed, &[b'-'; 1536], vec![write(100, b'a', 1336), write(512, b'b', 200)]);
            assert_eq!(bytes.len(), 1536);
            assert!(bytes[..100].iter().chain(&bytes[1436..]).all(|byte| *byte == b'-'), "damage beside");
            for range in [100..512, 512..712, 712..1024, 1024..1436] {
                assert!(
                    bytes[range.clone()].iter().all(|byte| *byte == bytes[range.start]),
                    "torn in a sector"
                );
            }
            seen.insert(String::from_utf8(vec![bytes[100], bytes[512], bytes[712], bytes[1024]]).unwrap());
        }
        // The second sector, of which `b` covers a part: as it was, with `a`, or with both; never `b` alone.
        let expected = ["-", "a"].iter().flat_map(|first| {
            ["--", "aa", "ba"]
                .iter()
                .flat_map(move |second| ["-", "a"].iter().map(move |third| format!("{first}{second}{third}")))
        });
        assert_eq!(seen, expected.collect());
    }

    #[test]
    fn a_file_grows_by_bytes_zeros_or_junk_or_not_at_all() {
        let mut seen = BTreeSet::new();
        for seed in 0..2_000 {
            let bytes = after_loss(seed, &[b'-'; 512], vec![write(512, b'a', 512), write(1024, b'b', 512)]);
            assert!(bytes.starts_with(&[b'-'; 512]));
            let name = |sector: &[u8]| match sector.first() {
                Some(byte @ (b'a' | b'b' | 0)) if sector.iter().all(|other| other == byte) => *byte,
                _ => b'?',
            };
            seen.insert(bytes[512..].chunks(512).map(name).collect::<Vec<_>>());
        }
        for expected in [&b""[..], b"a", b"ab", b"\0b", b"?b", b"\0"] {
            assert!(seen.contains(expected), "{expected:?} not in {seen:?}");
        }
    }

    #[test]
    fn a_struck_write_is_cut_at_a_sector() {
        let mut seen = BTreeSet::new();
        for seed in 0..200 {
            let disk = Disk::new(seed);
            let mut state = disk.shared.state();
            let id = state.open(Some("file"), ffi::SQLITE_OPEN_CREATE).unwrap();
            state.strike = Some(1);
            assert_eq!(state.write(id, 100, &[1; 1200]), Err(ffi::SQLITE_IOERR));
            seen.insert(state.size(id));
        }
        assert_eq!(seen, BTreeSet::from([0, 512, 1024, 1300]));
    }

    #[test]
    fn a_struck_sync_keeps_a_part() {
        let mut seen = BTreeSet::new();
        for seed in 0..500 {
            let disk = Disk::new(seed);
            let mut state = disk.shared.state();
            let id = state.open(Some("file"), ffi::SQLITE_OPEN_CREATE).unwrap();
            state.write(id, 0, &[1; 512]).unwrap();
            state.write(id, 512, &[2; 512]).unwrap();
            state.strike = Some(3);
            assert_eq!(state.sync(id), Err(ffi::SQLITE_IOERR));
            let file = &state.files[&id];
            seen.insert((state.durable_names.len(), file.pending.len(), file.durable.len()));
        }
        // Names kept, writes not yet decided, bytes kept.
        let part = [0, 1].iter().flat_map(|names| [0, 512, 1024].map(|len| (*names, 0, len)));
        assert_eq!(seen, part.chain([(0, 2, 0), (1, 0, 1024)]).collect());
    }

    #[test]
    fn nobody_without_a_database_opens_or_deletes_its_journals() {
        let disk = Disk::new(0);
        let mut state = disk.shared.state();
        let journal = ffi::SQLITE_OPEN_CREATE | ffi::SQLITE_OPEN_MAIN_JOURNAL;
        state.open(Some("file"), ffi::SQLITE_OPEN_CREATE | ffi::SQLITE_OPEN_MAIN_DB).unwrap();
        state.open(Some("file-journal"), journal).unwrap();
        state.end_lifetime();
        assert_eq!(state.open(Some("file-journal"), journal), Err(ffi::SQLITE_IOERR));
        assert_eq!(state.delete("file-journal", Directory::Waits), Err(ffi::SQLITE_IOERR));
        state.open(Some("file"), ffi::SQLITE_OPEN_MAIN_DB).unwrap();
        state.open(Some("file-journal"), journal).unwrap();
        state.delete("file-journal", Directory::Waits).unwrap();
    }

    #[test]
    fn a_truncation_is_kept_or_lost() {
        let lens = |seed| after_loss(seed, &[b'-'; 2000], vec![Change::Truncate(700)]).len();
        assert_eq!((0..100).map(lens).collect::<BTreeSet<_>>(), BTreeSet::from([700, 2000]));
    }

    #[test]
    fn names_are_as_mortal_as_bytes() {
        let file = || Disk::with_files(BTreeMap::from([("a/old".to_owned(), Content::default())]), 0);
        let flags = ffi::SQLITE_OPEN_CREATE | ffi::SQLITE_OPEN_MAIN_DB;
        let mut seen = BTreeSet::new();
        for seed in 0..200 {
            let disk = file();
            let mut state = disk.shared.state();
            state.fate = Seed::new(seed);
            state.open(Some("b/other"), flags).unwrap();
            let synced = state.open(Some("a/synced"), flags).unwrap();
            state.sync(synced).unwrap();
            state.open(Some("a/new"), flags).unwrap();
            state.delete("a/old", Directory::Waits).unwrap();
            state.crash();
            seen.insert(state.names.keys().cloned().collect::<Vec<_>>().join(" "));
        }
        let mut expected = BTreeSet::new();
        for new in ["a/new ", ""] {
            for old in ["a/old ", ""] {
                for other in [" b/other", ""] {
                    expected.insert(format!("{new}{old}a/synced{other}"));
                }
            }
        }
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_directory_sync_settles_every_name_in_it_and_in_no_other() {
        let flags = ffi::SQLITE_OPEN_CREATE | ffi::SQLITE_OPEN_MAIN_DB;
        let mut seen = BTreeSet::new();
        for seed in 0..100 {
            let disk = Disk::new(seed);
            let mut state = disk.shared.state();
            for name in ["a/kept", "a/gone", "b/other"] {
                state.open(Some(name), flags).unwrap();
            }
            state.delete("a/gone", Directory::Syncs).unwrap();
            state.crash();
            seen.insert(state.names.keys().cloned().collect::<Vec<_>>().join(" "));
        }
        assert_eq!(seen, BTreeSet::from(["a/kept".to_owned(), "a/kept b/other".to_owned()]));
    }
}
