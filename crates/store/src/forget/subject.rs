//! Who or what is to be forgotten, found by the name that a person gave.

use crate::fault::StoreFault;
use crate::read::{StoreReader, text};
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use throughline_core::id::SessionId;
use throughline_core::port::StoreError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubjectKind {
    Person,
    Chat,
    Session,
}

impl SubjectKind {
    pub fn name(self) -> &'static str {
        match self {
            SubjectKind::Person => "person",
            SubjectKind::Chat => "chat",
            SubjectKind::Session => "session",
        }
    }
}

/// Who or what is to be forgotten. It is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForgetSubject {
    Person {
        platform: String,
        user: String,
    },
    /// Its keys, and where it is in the platform's own terms.
    Chat {
        keys: BTreeSet<String>,
        place: Option<(String, String)>,
    },
    Session(SessionId),
}

impl ForgetSubject {
    pub fn kind(&self) -> SubjectKind {
        match self {
            ForgetSubject::Person { .. } => SubjectKind::Person,
            ForgetSubject::Chat { .. } => SubjectKind::Chat,
            ForgetSubject::Session(_) => SubjectKind::Session,
        }
    }

    /// Names it in a receipt, and does not tell who it was.
    pub(super) fn digest(&self) -> String {
        let digest = Sha256::digest(format!("{} {self}", self.kind().name()).as_bytes());
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Display for ForgetSubject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ForgetSubject::Person { platform, user } => write!(formatter, "{platform}:{user}"),
            ForgetSubject::Chat { place: Some((platform, chat)), .. } => {
                write!(formatter, "{platform}:{chat}")
            }
            ForgetSubject::Chat { keys, .. } => formatter.write_str(keys.first().map_or("", String::as_str)),
            ForgetSubject::Session(session) => write!(formatter, "{session}"),
        }
    }
}

/// Why nothing can be forgotten.
#[derive(Debug)]
pub enum NotFound {
    /// There is no such thing. What there is.
    Unknown(Vec<String>),
    /// It may be any of these.
    Ambiguous(Vec<String>),
    Store(StoreError),
}

impl StoreReader {
    /// Who or what is meant.
    pub fn subject(&self, kind: SubjectKind, name: &str) -> Result<ForgetSubject, NotFound> {
        let found = match kind {
            SubjectKind::Person => self.person(name),
            SubjectKind::Chat => self.chat(name),
            SubjectKind::Session => self.session_named(name),
        };
        match found {
            Ok(found) => found,
            Err(fault) => Err(NotFound::Store(fault.while_doing("look for what is meant"))),
        }
    }

    fn person(&self, name: &str) -> Result<Result<ForgetSubject, NotFound>, StoreFault> {
        let mut people: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
        let mut add = |sql: &str| -> Result<(), StoreFault> {
            let mut statement = self.conn.prepare(sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                if let (Some(platform), Some(user)) = (text(row, 0)?, text(row, 1)?) {
                    let names = people.entry((platform, user)).or_default();
                    names.extend(text(row, 2)?.filter(|name| !name.is_empty()));
                }
            }
            Ok(())
        };
        add("SELECT DISTINCT source, user_id, NULL FROM sessions WHERE COALESCE(user_id, '') <> ''")?;
        if self.variants.can.has_origin_json {
            add("SELECT DISTINCT source, user_id, json_extract(origin_json, '$.user_name') FROM sessions
                 WHERE COALESCE(user_id, '') <> '' AND json_valid(origin_json)
                   AND json_extract(origin_json, '$.user_id') = user_id")?;
        }
        add("SELECT DISTINCT COALESCE(json_extract(i.envelope, '$.reply_to.platform'), s.source),
                    json_extract(i.envelope, '$.sender[0]'), json_extract(i.envelope, '$.sender[1]')
             FROM tl_inbox i JOIN sessions s ON s.id = i.session
             WHERE json_extract(i.envelope, '$.sender[0]') IS NOT NULL")?;
        let full = |(platform, user): &(String, String)| format!("{platform}:{user}");
        let lower = name.to_lowercase();
        let exact: Vec<_> = people.keys().filter(|person| full(person) == name).cloned().collect();
        let by_id = || people.keys().filter(|(_, user)| user == name).cloned().collect::<Vec<_>>();
        let is_called = |names: &BTreeSet<String>| names.iter().any(|known| known.to_lowercase() == lower);
        let by_name = || {
            let called = people.iter().filter(|(_, names)| is_called(names));
            called.map(|(person, _)| person.clone()).collect::<Vec<_>>()
        };
        let found = [exact, by_id(), by_name()].into_iter().find(|found| !found.is_empty());
        Ok(match found.unwrap_or_default().as_slice() {
            [(platform, user)] => {
                Ok(ForgetSubject::Person { platform: platform.clone(), user: user.clone() })
            }
            [] => Err(NotFound::Unknown(people.keys().map(full).collect())),
            several => Err(NotFound::Ambiguous(several.iter().map(full).collect())),
        })
    }

    fn chat(&self, name: &str) -> Result<Result<ForgetSubject, NotFound>, StoreFault> {
        let mut known: BTreeSet<String> = BTreeSet::new();
        let mut places: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
        let mut keys = vec!["SELECT chat FROM tl_route"];
        if self.variants.can.has_gateway_routing {
            keys.push("SELECT session_key FROM gateway_routing");
        }
        if self.variants.can.has_session_key {
            keys.push("SELECT DISTINCT session_key FROM sessions WHERE COALESCE(session_key, '') <> ''");
        }
        for sql in keys {
            let mut statement = self.conn.prepare(sql)?;
            let found = statement.query_map([], |row| row.get::<_, String>(0))?;
            known.extend(found.collect::<rusqlite::Result<Vec<_>>>()?);
        }
        if self.variants.can.has_session_key && self.variants.can.has_chat_id {
            let sql = "SELECT DISTINCT source, chat_id, session_key FROM sessions WHERE COALESCE(chat_id, '') <> ''";
            let mut statement = self.conn.prepare(sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let place = (row.get(0)?, row.get(1)?);
                places.entry(place).or_default().extend(text(row, 2)?);
            }
        }
        let full = |(platform, chat): &(String, String)| format!("{platform}:{chat}");
        if known.contains(name) {
            let keys = BTreeSet::from([name.to_owned()]);
            return Ok(Ok(ForgetSubject::Chat { keys, place: None }));
        }
        let mut found: Vec<_> = places.iter().filter(|(place, _)| full(place) == name).collect();
        if found.is_empty() {
            found = places.iter().filter(|((_, chat), _)| chat == name).collect();
        }
        Ok(match found.as_slice() {
            [(place, keys)] => {
                Ok(ForgetSubject::Chat { keys: (*keys).clone(), place: Some((*place).clone()) })
            }
            [] => Err(NotFound::Unknown(places.keys().map(full).chain(known).collect())),
            several => Err(NotFound::Ambiguous(several.iter().map(|(place, _)| full(place)).collect())),
        })
    }

    fn session_named(&self, name: &str) -> Result<Result<ForgetSubject, NotFound>, StoreFault> {
        let there = self.conn.prepare("SELECT 1 FROM sessions WHERE id = ?1")?.exists([name])?;
        if let (true, Ok(id)) = (there, name.parse()) {
            return Ok(Ok(ForgetSubject::Session(id)));
        }
        let mut statement = self.conn.prepare("SELECT id FROM sessions ORDER BY started_at DESC")?;
        let ids = statement.query_map([], |row| row.get::<_, String>(0))?;
        let ids = ids.collect::<rusqlite::Result<Vec<_>>>()?;
        let real: Vec<String> = ids.into_iter().filter(|id| id.parse::<SessionId>().is_ok()).collect();
        let begun: Vec<String> = real.iter().filter(|id| id.starts_with(name)).cloned().collect();
        Ok(Err(match begun.len() {
            0 => NotFound::Unknown(real),
            _ => NotFound::Ambiguous(begun),
        }))
    }
}
