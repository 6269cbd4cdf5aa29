//! The account of what follows from human messages: one file for every agent of a user of the machine, outside
//! every home, because each process has a store of its own. The rules are in [`throughline_core::chain`].
//!
//! - a share that was granted is on disk
//! - several processes write it; each write is a transaction that waits for its turn
//! - a file that was deleted or replaced is noticed before the next write, and opened anew
//! - what was not used for a month is forgotten
//!
//! Deliberately absent: anything that was said.

use crate::fault::{StoreFault, While};
use rusqlite::{Connection, ErrorCode, OptionalExtension, Transaction, TransactionBehavior, params};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use throughline_core::Time;
use throughline_core::chain::{Cut, Exceeded, Share, Shared, Spent};
use throughline_core::input::{Root, Trace};
use throughline_core::port::{CutChain, Post, StoreError};

/// How long a writer waits for another process.
const BUSY_MAX: Duration = Duration::from_secs(5);
/// An origin that was not used for so long is over, and what was posted is not answered any more.
const KEPT_FOR: Duration = Duration::from_secs(30 * 24 * 3600);
/// `status` names so many chains.
const CUTS_SHOWN_MAX: usize = 20;

/// One process' way to the ledger. Synchronous: the caller that opens it owns it.
pub struct LedgerFile {
    path: PathBuf,
    open: Option<Opened>,
}

struct Opened {
    connection: Connection,
    file: Option<LedgerFileId>,
}

/// Device and inode. Never by opening the file: closing it would drop SQLite's locks of this process.
type LedgerFileId = (u64, u64);

#[cfg(unix)]
fn file_id(path: &Path) -> Option<LedgerFileId> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

/// No process can take an open file away here.
#[cfg(not(unix))]
fn file_id(path: &Path) -> Option<LedgerFileId> {
    path.exists().then_some((0, 0))
}

/// An order to every gateway of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silence {
    pub number: i64,
    pub kind: SilenceKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SilenceKind {
    /// Nothing is begun or sent until a person writes.
    Stop,
    Resume,
}

impl SilenceKind {
    fn as_str(self) -> &'static str {
        match self {
            SilenceKind::Stop => "stop",
            SilenceKind::Resume => "resume",
        }
    }
}

/// A process. Numbers are used again; together with the time of its start, one is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessId {
    pub pid: u32,
    /// As the system counts it. None: it does not tell.
    pub started: Option<i64>,
}

/// What a gateway says of an order. None: nothing yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayReport {
    pub home: String,
    pub process: ProcessId,
    pub report: Option<String>,
}

impl LedgerFile {
    /// The file is made by the first write; its directory must be there.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), open: None }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Everything that `work` does is one transaction, and on disk when this returns.
    pub fn write<T>(
        &mut self,
        now: Time,
        work: impl FnOnce(&LedgerPage<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.transact(now, "FULL", work)
    }

    /// The same for what may be lost when the power fails. It costs no fsync.
    pub fn note<T>(
        &mut self,
        now: Time,
        work: impl FnOnce(&LedgerPage<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.transact(now, "NORMAL", work)
    }

    fn transact<T>(
        &mut self,
        now: Time,
        synchronous: &str,
        work: impl FnOnce(&LedgerPage<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let connection = self.connection()?;
        connection
            .pragma_update(None, "synchronous", synchronous)
            .while_doing("write the ledger of chains")?;
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .while_doing("write the ledger of chains")?;
        let done = work(&LedgerPage { transaction: &transaction, now })?;
        transaction.commit().while_doing("write the ledger of chains")?;
        Ok(done)
    }

    pub fn read<T>(
        &mut self,
        now: Time,
        work: impl FnOnce(&LedgerPage<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let connection = self.connection()?;
        let transaction = connection.transaction().while_doing("read the ledger of chains")?;
        work(&LedgerPage { transaction: &transaction, now })
    }

    /// Changes when another process has written.
    pub fn version(&mut self) -> Result<i64, StoreError> {
        let connection = self.connection()?;
        connection
            .query_row("PRAGMA data_version", [], |row| row.get(0))
            .while_doing("read the ledger of chains")
    }

    fn connection(&mut self) -> Result<&mut Connection, StoreError> {
        let is_there = |opened: &Opened| opened.file.is_some() && file_id(&self.path) == opened.file;
        if !self.open.as_ref().is_some_and(is_there) {
            self.open = Some(Opened::new(&self.path)?);
        }
        Ok(&mut self.open.as_mut().expect("it was opened above").connection)
    }
}

impl Opened {
    fn new(path: &Path) -> Result<Self, StoreError> {
        let connection = || -> Result<Connection, StoreFault> {
            let mut connection = Connection::open(path)?;
            connection.busy_timeout(BUSY_MAX)?;
            match connection.pragma_update(None, "journal_mode", "WAL") {
                // It stays as it is once it is set: another process is at it.
                Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {}
                set => set?,
            }
            connection.pragma_update(None, "synchronous", "FULL")?;
            // Several gateways may start at once: each waits for its turn, instead of losing what it wanted to enter.
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            transaction.execute_batch(include_str!("ledger/schema.sql"))?;
            let lacks_start = transaction.prepare("SELECT started FROM gateway").is_err();
            if lacks_start {
                transaction.execute("ALTER TABLE gateway ADD COLUMN started INTEGER", [])?;
            }
            transaction.commit()?;
            Ok(connection)
        };
        let connection = connection().while_doing("open the ledger of chains")?;
        Ok(Self { connection, file: file_id(path) })
    }
}

/// The ledger within one transaction.
pub struct LedgerPage<'a> {
    transaction: &'a Transaction<'a>,
    now: Time,
}

impl LedgerPage<'_> {
    pub fn take(&self, share: &Share) -> Result<Shared, StoreError> {
        self.taken(share).while_doing("take a share from the ledger of chains")
    }

    fn taken(&self, share: &Share) -> Result<Shared, StoreFault> {
        let spent = self.spent(&share.origin)?;
        match share.of(spent) {
            Ok(after) => {
                self.transaction
                    .prepare_cached(
                        "INSERT INTO origin(name, turns, calls, opened, root_home, root_session, used)
                         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
                         ON CONFLICT(name) DO UPDATE SET turns = ?2, calls = ?3, used = ?7",
                    )?
                    .execute(params![
                        &*share.origin,
                        after.turns,
                        after.calls,
                        after.opened,
                        share.root.as_ref().map(|root| &*root.home),
                        share.root.as_ref().map(|root| root.session.as_str()),
                        self.now.0
                    ])?;
                Ok(Shared::Granted)
            }
            Err(why) => self.cut(share, spent.opened, why).map(Shared::Refused),
        }
    }

    pub fn would_grant(&self, share: &Share) -> Result<bool, StoreError> {
        let spent = self.spent(&share.origin).while_doing("read the ledger of chains")?;
        Ok(share.of(spent).is_ok())
    }

    fn spent(&self, origin: &str) -> Result<Spent, StoreFault> {
        let found = self
            .transaction
            .prepare_cached("SELECT turns, calls, opened FROM origin WHERE name = ?1")?
            .query_row([origin], |row| {
                Ok(Spent { turns: row.get(0)?, calls: row.get(1)?, opened: row.get(2)? })
            })
            .optional()?;
        Ok(found.unwrap_or_default())
    }

    fn cut(&self, share: &Share, number: u32, why: Exceeded) -> Result<Cut, StoreFault> {
        let (home, session) = match &share.root {
            Some(root) => (Some(&*root.home), Some(root.session.as_str())),
            None => (None, None),
        };
        self.transaction
            .prepare_cached(
                "INSERT OR IGNORE INTO cut(origin, number, why, root_home, root_session, at, told)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0)",
            )?
            .execute(params![&*share.origin, number, why.name(), home, session, self.now.0])?;
        let announce = match &share.place {
            Some(place) => self.is_announced_by(&share.asker, &share.origin, number, place)?,
            None => false,
        };
        Ok(Cut { number, why, announce })
    }

    /// Whether the session that began the chain announces its cut in this place.
    pub fn announces(&self, cut: &CutChain, place: &str) -> Result<bool, StoreError> {
        self.is_announced_by(&cut.root, &cut.origin, cut.number, place)
            .while_doing("write the ledger of chains")
    }

    /// The session that asks first announces it, also if it asks again.
    fn is_announced_by(
        &self,
        asker: &Root,
        origin: &str,
        number: u32,
        place: &str,
    ) -> Result<bool, StoreFault> {
        let Root { home, session } = asker;
        self.transaction
            .prepare_cached(
                "INSERT OR IGNORE INTO announcement(origin, number, place, home, session) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![origin, number, place, &**home, session.as_str()])?;
        let by: (String, String) = self
            .transaction
            .prepare_cached(
                "SELECT home, session FROM announcement WHERE origin = ?1 AND number = ?2 AND place = ?3",
            )?
            .query_row(params![origin, number, place], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(by == (home.to_string(), session.to_string()))
    }

    /// A person opens the chains again that began in this session, or were cut in it.
    pub fn reopen(&self, session: &Root) -> Result<(), StoreError> {
        let Root { home, session } = session;
        self.transaction
            .execute(
                "UPDATE origin SET turns = 0, calls = 0, opened = opened + 1, used = ?3
                 WHERE name IN (SELECT cut.origin FROM cut
                                WHERE cut.number = origin.opened AND cut.root_home = ?1 AND cut.root_session = ?2
                                UNION
                                SELECT announcement.origin FROM announcement
                                WHERE announcement.number = origin.opened AND announcement.home = ?1
                                      AND announcement.session = ?2)",
                params![&**home, session.as_str(), self.now.0],
            )
            .map(|_| ())
            .while_doing("open a chain again in the ledger")
    }

    /// Those whose people have not been told, oldest first.
    pub fn untold(&self, home: &str) -> Result<Vec<CutChain>, StoreError> {
        let sql = "SELECT origin, number, root_home, root_session, why, at FROM cut
                   WHERE root_home = ?1 AND told = 0 ORDER BY at, origin LIMIT 64";
        self.cut_chains(sql, home).while_doing("read the ledger of chains")
    }

    /// Those that are not open again, newest first.
    pub fn cuts(&self, home: &str) -> Result<Vec<CutChain>, StoreError> {
        let sql = "SELECT cut.origin, number, cut.root_home, cut.root_session, why, at FROM cut
                   LEFT JOIN origin ON origin.name = cut.origin
                   WHERE cut.root_home = ?1 AND cut.number = COALESCE(origin.opened, 0)
                   ORDER BY at DESC, origin";
        let mut cuts = self.cut_chains(sql, home).while_doing("read the ledger of chains")?;
        cuts.truncate(CUTS_SHOWN_MAX);
        Ok(cuts)
    }

    fn cut_chains(&self, sql: &str, home: &str) -> Result<Vec<CutChain>, StoreFault> {
        let mut statement = self.transaction.prepare_cached(sql)?;
        let mut rows = statement.query([home])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let Some(root) = root(row.get(2)?, row.get(3)?) else { continue };
            let why: String = row.get(4)?;
            let why = match why.as_str() {
                "hops" => Exceeded::Hops,
                "calls" => Exceeded::Calls,
                _ => Exceeded::Turns,
            };
            let origin: String = row.get(0)?;
            found.push(CutChain {
                origin: origin.into(),
                number: row.get(1)?,
                root,
                why,
                at: Time(row.get(5)?),
            });
        }
        Ok(found)
    }

    pub fn told(&self, cut: &CutChain) -> Result<(), StoreError> {
        self.transaction
            .execute(
                "UPDATE cut SET told = 1 WHERE origin = ?1 AND number = ?2",
                params![&*cut.origin, cut.number],
            )
            .map(|_| ())
            .while_doing("write the ledger of chains")
    }

    pub fn posted(&self, post: &Post, trace: &Trace) -> Result<(), StoreError> {
        let Post { platform, chat, message, author } = post;
        let put = || -> Result<(), StoreFault> {
            self.transaction
                .prepare_cached(
                    "INSERT OR REPLACE INTO post(platform, chat, message, author, origin, root_home, root_session, hops, at)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                )?
                .execute(params![
                    platform,
                    chat,
                    message,
                    author,
                    &*trace.origin,
                    trace.root.as_ref().map(|root| &*root.home),
                    trace.root.as_ref().map(|root| root.session.as_str()),
                    trace.hops,
                    self.now.0
                ])?;
            Ok(())
        };
        put().while_doing("write the ledger of chains")
    }

    pub fn post(&self, post: &Post) -> Result<Option<Trace>, StoreError> {
        let find = || -> Result<Option<Trace>, StoreFault> {
            let found = self
                .transaction
                .prepare_cached(
                    "SELECT origin, root_home, root_session, hops FROM post
                     WHERE platform = ?1 AND chat = ?2 AND message = ?3",
                )?
                .query_row(params![post.platform, post.chat, post.message], |row| {
                    let origin: String = row.get(0)?;
                    let root = root(row.get(1)?, row.get(2)?);
                    // What was posted in answer to a person has come one hop at least.
                    let hops: u32 = row.get(3)?;
                    Ok(Trace { origin: origin.into(), root, hops: hops.max(1), foreign: None })
                })
                .optional()?;
            Ok(found)
        };
        find().while_doing("read the ledger of chains")
    }

    /// One of our agents speaks through this bot.
    pub fn introduce(&self, platform: &str, account: &str) -> Result<(), StoreError> {
        self.transaction
            .execute(
                "INSERT OR IGNORE INTO bot(platform, account) VALUES (?1, ?2)",
                params![platform, account],
            )
            .map(|_| ())
            .while_doing("enter a bot in the ledger")
    }

    /// Whether one of our agents speaks, or has spoken, through this bot.
    pub fn is_ours(&self, platform: &str, author: &str) -> Result<bool, StoreError> {
        let find = || -> Result<bool, StoreFault> {
            let mut statement = self.transaction.prepare_cached(
                "SELECT 1 FROM bot WHERE platform = ?1 AND account = ?2
                 UNION ALL SELECT 1 FROM post WHERE platform = ?1 AND author = ?2 LIMIT 1",
            )?;
            Ok(statement.exists(params![platform, author])?)
        };
        find().while_doing("read the ledger of chains")
    }

    /// Forgets what was not used for a month.
    pub fn forget_old(&self) -> Result<(), StoreError> {
        let forget = || -> Result<(), StoreFault> {
            let before = self.now.0.saturating_sub(i64::try_from(KEPT_FOR.as_micros()).unwrap_or(i64::MAX));
            self.transaction.execute("DELETE FROM origin WHERE used < ?1", [before])?;
            self.transaction.execute("DELETE FROM post WHERE at < ?1", [before])?;
            self.transaction.execute("DELETE FROM cut WHERE at < ?1 AND told = 1", [before])?;
            self.transaction.execute(
                "DELETE FROM announcement WHERE NOT EXISTS
                     (SELECT 1 FROM cut WHERE cut.origin = announcement.origin AND cut.number = announcement.number)",
                [],
            )?;
            Ok(())
        };
        forget().while_doing("tidy the ledger of chains")
    }

    // ------------------------------------------------------------------------------------- silence

    /// Every gateway of the user carries it out as soon as it looks.
    pub fn order(&self, kind: SilenceKind) -> Result<Silence, StoreError> {
        let put = || -> Result<Silence, StoreFault> {
            self.transaction.execute(
                "INSERT INTO silence(kind, at) VALUES (?1, ?2)",
                params![kind.as_str(), self.now.0],
            )?;
            let number = self.transaction.last_insert_rowid();
            self.transaction.execute("DELETE FROM silence WHERE number < ?1", [number])?;
            Ok(Silence { number, kind })
        };
        put().while_doing("order silence in the ledger")
    }

    /// A gateway runs on this home. What was ordered before its first start is not for it.
    pub fn join(&self, home: &str, process: ProcessId) -> Result<(), StoreError> {
        let ProcessId { pid, started } = process;
        self.transaction
            .execute(
                "INSERT INTO gateway(home, pid, started, seen, at)
                 VALUES (?1, ?2, ?3, (SELECT COALESCE(MAX(number), 0) FROM silence), ?4)
                 ON CONFLICT(home) DO UPDATE SET pid = ?2, started = ?3, at = ?4",
                params![home, pid, started, self.now.0],
            )
            .map(|_| ())
            .while_doing("enter a gateway in the ledger")
    }

    /// It stops by itself, or a start finds that it is gone.
    pub fn leave(&self, home: &str, pid: u32) -> Result<(), StoreError> {
        self.transaction
            .execute("UPDATE gateway SET pid = 0 WHERE home = ?1 AND pid = ?2", params![home, pid])
            .map(|_| ())
            .while_doing("take a gateway out of the ledger")
    }

    /// The order that this home has not carried out yet.
    pub fn pending(&self, home: &str) -> Result<Option<Silence>, StoreError> {
        let find = || -> Result<Option<Silence>, StoreFault> {
            let found = self
                .transaction
                .prepare_cached(
                    "SELECT number, kind FROM silence
                     WHERE number > COALESCE((SELECT seen FROM gateway WHERE home = ?1), 0)
                     ORDER BY number DESC LIMIT 1",
                )?
                .query_row([home], |row| {
                    let kind: String = row.get(1)?;
                    let kind = if kind == "resume" { SilenceKind::Resume } else { SilenceKind::Stop };
                    Ok(Silence { number: row.get(0)?, kind })
                })
                .optional()?;
            Ok(found)
        };
        find().while_doing("read the ledger of chains")
    }

    /// It has, and this is what came of it.
    pub fn carried_out(&self, home: &str, order: Silence, report: &str) -> Result<(), StoreError> {
        self.transaction
            .execute(
                "UPDATE gateway SET seen = ?2, report = ?3, at = ?4 WHERE home = ?1",
                params![home, order.number, report, self.now.0],
            )
            .map(|_| ())
            .while_doing("write the ledger of chains")
    }

    /// Each home that a gateway has joined and not left, and its report on this order, once there is one. A gateway
    /// that was killed has not left.
    pub fn reports(&self, order: Silence) -> Result<Vec<GatewayReport>, StoreError> {
        let find = || -> Result<Vec<GatewayReport>, StoreFault> {
            let mut statement = self.transaction.prepare_cached(
                "SELECT home, pid, started, CASE WHEN seen >= ?1 THEN COALESCE(report, '') END FROM gateway
                 WHERE pid > 0 ORDER BY home",
            )?;
            let rows = statement.query_map([order.number], |row| {
                let process = ProcessId { pid: row.get(1)?, started: row.get(2)? };
                Ok(GatewayReport { home: row.get(0)?, process, report: row.get(3)? })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        };
        find().while_doing("read the ledger of chains")
    }
}

fn root(home: Option<String>, session: Option<String>) -> Option<Root> {
    let home: Arc<str> = home?.into();
    Some(Root { home, session: session?.parse().ok()? })
}

#[cfg(test)]
mod tests;
