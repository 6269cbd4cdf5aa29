//! The invariants, as queries. Each has a name and a sentence, and finds what breaks it.
//!
//! What only we write must always hold. Where Hermes may have written, too (rows it added, sessions
//! it deleted or ended), a query looks away from what Hermes can do by itself.

use crate::call;
use crate::column_variants::ColumnVariants;
use crate::envelope;
use crate::fault::{StoreFault, While};
use crate::read::{StoreReader, session_id};
use rusqlite::{Connection, ErrorCode, OptionalExtension};
use throughline_core::history;
use throughline_core::port::StoreError;
use throughline_core::session::Session;
use throughline_core::time::Time;
use throughline_hermes::schema::Capabilities;

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The promise that it breaks.
    pub promise: &'static str,
    pub name: &'static str,
    /// What should hold.
    pub says: &'static str,
    /// For what it does not: messages as `session/number` or `row 7`, sessions, chats.
    pub found: Vec<String>,
}

impl Breach {
    fn new(name: &'static str, says: &'static str, found: Vec<String>) -> Option<Self> {
        (!found.is_empty()).then(|| Self { promise: promise(name), name, says, found })
    }

    pub(crate) fn in_words(&self) -> String {
        let Self { name, says, found, .. } = self;
        let first = found.first().map_or("", String::as_str);
        let more = match found.len() {
            0 | 1 => String::new(),
            many => format!(" and {} more", many - 1),
        };
        format!("{name}: it should hold that {says}; it does not for {first}{more}")
    }
}

/// What the contract calls it.
fn promise(name: &str) -> &'static str {
    match name {
        "route_live" | "route_one_id" | "one_live_session_per_chat" | "compression_ends_nothing" => "P1",
        "compression_fenced" | "generations_rise" => "P3",
        "seen_and_kept" | "inbox_owned" => "P7",
        "positions"
        | "inbox_numbered"
        | "settled_prefix"
        | "turn_inputs"
        | "outcome_iff_settled"
        | "answer_kept"
        | "said_once"
        | "said_in_order"
        | "unfinished" => "P8",
        "open_calls" | "asked_in_a_turn" | "results_kept" | "groups_closed" => "P9",
        "outbox" | "drafts" => "P10",
        "snapshot_of_promotion"
        | "snapshot_named"
        | "snapshot_whole"
        | "snapshot_unrouted"
        | "replaced_not_live"
        | "archived_kept"
        | "moved_kept"
        | "live_in_place"
        | "taken_back_kept"
        | "taken_back_hidden"
        | "stride" => "P11",
        "one_compression" | "orders_wait" | "snapshot_of_its_own" => "P12",
        "finalised_once"
        | "hooks_in_a_hand_over"
        | "parked_at_a_step"
        | "reset_remembered"
        | "closed_ended" => "P20",
        "reviews_counted" => "P22",
        "nothing_kept_back" | "kept_in_order" | "kept_as_its_own" | "kept_once" => "P24",
        _ => "P15",
    }
}

struct InvariantCheck {
    name: &'static str,
    /// What holds.
    says: &'static str,
    /// One column of text per breach.
    sql: &'static str,
    applies: fn(&Capabilities) -> bool,
}

fn always(_: &Capabilities) -> bool {
    true
}

/// Sessions of which every row is ours: Hermes has had no hand in them.
macro_rules! only_ours {
    () => {
        "(SELECT t.id FROM tl_session t JOIN sessions s ON s.id = t.id WHERE t.adopted = 0 AND NOT EXISTS
          (SELECT 1 FROM messages m WHERE m.session_id = t.id AND m.id > t.last_row))"
    };
}

/// As a condition on `m`: in the transcript of this session, or in one of its snapshots.
macro_rules! in_session {
    ($session:literal) => {
        concat!(
            "(m.session_id = ",
            $session,
            " OR m.session_id IN (SELECT n.name FROM tl_snapshot n WHERE n.session = ",
            $session,
            "))"
        )
    };
}

const CHECKS: &[InvariantCheck] = &[
    InvariantCheck {
        name: "route_live",
        says: "a chat leads to a session that has not ended",
        sql: "SELECT r.chat || ' leads to ' || r.session FROM tl_route r JOIN sessions s ON s.id = r.session
              LEFT JOIN tl_session t ON t.id = r.session
              WHERE t.phase = 2 OR (s.ended_at IS NOT NULL
                    AND COALESCE(s.end_reason, '') NOT IN ('agent_close', 'ws_orphan_reap'))",
        applies: always,
    },
    InvariantCheck {
        name: "route_one_id",
        says: "the route, its entry and the last event of a chat name one session",
        sql: "SELECT r.chat || ': route ' || r.session || ', entry ' || json_extract(r.entry, '$.session_id')
                     || ', event ' || COALESCE(e.session, r.session)
              FROM tl_route r LEFT JOIN
                   (SELECT detail, session, max(id) FROM tl_event WHERE name = 'route_bound' GROUP BY detail) e
                   ON e.detail = r.chat
              WHERE json_extract(r.entry, '$.session_id') <> r.session OR COALESCE(e.session, r.session) <> r.session",
        applies: always,
    },
    InvariantCheck {
        name: "route_mirrored",
        says: "the routing table that Hermes reads says what ours says, or what Hermes has written there since",
        // What Hermes wrote is no older than ours, and taken over when we start.
        sql: "SELECT r.chat FROM tl_route r WHERE EXISTS (SELECT 1 FROM gateway_routing g WHERE g.session_key = r.chat)
              AND NOT EXISTS (SELECT 1 FROM gateway_routing g WHERE g.session_key = r.chat AND (g.entry_json = r.entry
                  OR CASE WHEN json_valid(g.entry_json) AND json_valid(r.entry) THEN
                         json_extract(g.entry_json, '$.updated_at') >= json_extract(r.entry, '$.updated_at') END))",
        applies: |can| can.has_gateway_routing,
    },
    InvariantCheck {
        name: "one_live_session_per_chat",
        says: "of the sessions that were begun in a chat, only the one it leads to is live",
        sql: "SELECT s.session_key || ': ' || s.id FROM sessions s JOIN tl_session t ON t.id = s.id
              JOIN tl_route r ON r.chat = s.session_key
              WHERE s.ended_at IS NULL AND t.adopted = 0 AND r.session <> s.id
                AND NOT EXISTS (SELECT 1 FROM tl_route o WHERE o.session = s.id)",
        applies: |can| can.has_session_key,
    },
    InvariantCheck {
        name: "nothing_kept_back",
        says: "what is to be remembered of a conversation that is over waits for no more of it",
        sql: "SELECT k.key FROM tl_retention k JOIN tl_session t ON t.id = k.session WHERE k.state = 0 AND t.phase = 2",
        applies: always,
    },
    InvariantCheck {
        name: "positions",
        says: "no more is answered than was received",
        sql: "SELECT id || ': ' || answered || ' of ' || received FROM tl_session WHERE answered > received",
        applies: always,
    },
    InvariantCheck {
        name: "inbox_numbered",
        says: "a session's inbox is numbered from one to what it received, without gaps",
        sql: "SELECT t.id || ': received ' || t.received FROM tl_session t LEFT JOIN
                  (SELECT session, count(*) AS n, max(seq) AS last, min(seq) AS first FROM tl_inbox GROUP BY session) i
                  ON i.session = t.id
              WHERE t.received <> COALESCE(i.last, 0) OR t.received <> COALESCE(i.n, 0)
                 OR COALESCE(i.first, 1) <> 1",
        applies: always,
    },
    InvariantCheck {
        name: "inbox_owned",
        says: "every inbox row belongs to a session with a state",
        sql: "SELECT DISTINCT session FROM tl_inbox WHERE session NOT IN (SELECT id FROM tl_session)",
        applies: always,
    },
    InvariantCheck {
        name: "settled_prefix",
        says: "everything up to the answered position is settled, but for a turn that is tried again",
        sql: "SELECT i.session || '/' || i.seq FROM tl_inbox i JOIN tl_session t ON t.id = i.session
              WHERE i.seq <= t.answered AND i.state < 2 AND NOT (i.state = 1 AND t.phase = 1 AND i.turn = t.turn)",
        applies: always,
    },
    InvariantCheck {
        name: "turn_inputs",
        says: "what is in a turn is in the turn that its session runs, and a running turn has something to answer",
        sql: "SELECT i.session || '/' || i.seq FROM tl_inbox i JOIN tl_session t ON t.id = i.session
              WHERE i.state = 1 AND (t.phase <> 1 OR i.turn IS NOT t.turn)
              UNION ALL
              SELECT t.id FROM tl_session t WHERE t.phase = 1 AND NOT EXISTS
                  (SELECT 1 FROM tl_inbox i WHERE i.session = t.id AND i.state = 1 AND i.turn = t.turn)",
        applies: always,
    },
    InvariantCheck {
        name: "outcome_iff_settled",
        says: "a settled input says how it ended, and no other does",
        sql: "SELECT session || '/' || seq FROM tl_inbox WHERE (state = 2) <> (outcome IS NOT NULL)",
        applies: always,
    },
    InvariantCheck {
        name: "answer_kept",
        says: "an answered input has its turn's answer in the transcript",
        sql: concat!(
            "SELECT i.session || '/' || i.seq FROM tl_inbox i
             LEFT JOIN tl_step p ON p.session = i.session AND p.number = i.step
             LEFT JOIN messages m ON m.id = p.message AND m.role = 'assistant' AND ",
            in_session!("i.session"),
            " WHERE i.outcome GLOB '{\"answered\":*' AND m.id IS NULL AND p.open IS NULL AND i.session IN ",
            only_ours!()
        ),
        applies: always,
    },
    InvariantCheck {
        name: "said_once",
        says: "words that entered a turn stand in the transcript, each input as one row of its own, or answered a call",
        sql: concat!(
            "SELECT i.session || '/' || i.seq FROM tl_inbox i
             LEFT JOIN messages m ON m.id = i.message AND m.role = 'user' AND ",
            in_session!("i.session"),
            " WHERE i.turn IS NOT NULL AND i.answers IS NULL AND m.id IS NULL
                AND json_type(i.envelope, '$.request.results') IS NULL AND i.session IN ",
            only_ours!(),
            " UNION ALL SELECT session || ': row ' || message FROM tl_inbox WHERE message IS NOT NULL
              GROUP BY session, message HAVING count(*) > 1
              UNION ALL SELECT i.session || '/' || i.seq FROM tl_inbox i
              LEFT JOIN tl_step p ON p.session = i.session AND p.number = i.answers
              WHERE i.answers IS NOT NULL AND (p.calls = 0 OR i.message IS NOT NULL OR (p.turn IS NOT i.turn
                    AND json_type(i.envelope, '$.request.results') IS NULL))"
        ),
        applies: always,
    },
    InvariantCheck {
        name: "said_in_order",
        says: "inputs enter the transcript in the order of the inbox, but for those that steer a turn",
        sql: "SELECT session || '/' || seq FROM
                  (SELECT i.session, i.seq, COALESCE(p.place, i.message) AS place, lag(COALESCE(p.place, i.message)) OVER
                          (PARTITION BY i.session, json_type(i.envelope, '$.command.steer') ORDER BY i.seq) AS before
                   FROM tl_inbox i LEFT JOIN tl_place p ON p.id = i.message WHERE i.message IS NOT NULL)
              WHERE place <= before",
        applies: always,
    },
    InvariantCheck {
        name: "stride",
        says: "below each row of ours an id is free, where a summary can stand",
        sql: "SELECT 'row ' || m.id FROM messages m WHERE m.id + 1 IN
                  (SELECT message FROM tl_inbox UNION ALL SELECT message FROM tl_step)
              AND m.id NOT IN (SELECT o.value FROM tl_snapshot n, json_each(n.summary) o)",
        applies: always,
    },
    InvariantCheck {
        name: "seen_and_kept",
        says: "every key that was seen leads to its input, and every input that was not moved to its key",
        sql: "SELECT k.session || '/' || k.seq FROM tl_seen k
              LEFT JOIN tl_inbox i ON i.session = k.session AND i.seq = k.seq
              WHERE k.seq > 0 AND (i.seq IS NULL OR tl_digest(json_extract(i.envelope, '$.key')) <> k.key)
              UNION ALL
              SELECT i.session || '/' || i.seq FROM tl_inbox i
              LEFT JOIN tl_seen k ON k.key = tl_digest(json_extract(i.envelope, '$.key'))
              WHERE COALESCE(i.outcome, '') NOT GLOB '{\"moved\":*'
                AND (k.key IS NULL OR k.session <> i.session OR k.seq <> i.seq)",
        applies: always,
    },
    InvariantCheck {
        name: "open_calls",
        says: "only the last step has open calls, while its turn runs or its client does, and only open steps have results of their own",
        sql: "SELECT p.session || ', step ' || p.number FROM tl_step p JOIN tl_session t ON t.id = p.session
              WHERE p.open IS NOT NULL AND (p.number <> t.steps OR t.phase = 2 OR (t.phase = 0 AND NOT EXISTS
                    (SELECT 1 FROM tl_call c WHERE c.session = p.session AND c.step = p.number AND c.state = 3)))
              UNION ALL
              SELECT c.session || ', step ' || c.step FROM tl_call c
              LEFT JOIN tl_step p ON p.session = c.session AND p.number = c.step
              WHERE p.open IS NULL OR c.position >= p.calls OR c.position < 0 OR c.state NOT IN (0, 1, 2, 3)",
        applies: always,
    },
    InvariantCheck {
        name: "asked_in_a_turn",
        says: "a call asks only while its turn runs",
        sql: "SELECT c.session || ', step ' || c.step FROM tl_call c LEFT JOIN tl_session t ON t.id = c.session
              WHERE c.state = 1 AND t.phase IS NOT 1",
        applies: always,
    },
    InvariantCheck {
        name: "results_kept",
        says: "a group that was closed has a result for each of its calls, right behind them",
        sql: concat!(
            "SELECT p.session || ', step ' || p.number FROM tl_step p
             LEFT JOIN tl_place a ON a.id = p.message
             WHERE p.calls > 0 AND p.message IS NOT NULL AND p.session IN ",
            only_ours!(),
            " AND p.calls > (SELECT count(*) FROM messages m LEFT JOIN tl_place b ON b.id = m.id
                             WHERE m.role = 'tool' AND ",
            in_session!("p.session"),
            " AND COALESCE(b.place, m.id) > COALESCE(a.place, p.message)
              AND COALESCE(b.place, m.id) <= COALESCE(a.place, p.message) + 2 * p.calls)"
        ),
        applies: always,
    },
    InvariantCheck {
        name: "parents",
        says: "a session that works for another one has it, in our books and in Hermes'",
        sql: "SELECT t.id || ' for ' || t.parent FROM tl_session t
              WHERE t.parent IS NOT NULL AND t.parent NOT IN (SELECT id FROM tl_session)
              UNION ALL
              SELECT t.id || ' for ' || t.parent FROM tl_session t JOIN sessions s ON s.id = t.id
              WHERE COALESCE(s.parent_session_id, t.parent) <> t.parent
                 OR (t.parent IS NOT NULL AND t.adopted = 0 AND COALESCE(s.model_config, '') NOT LIKE '%\"_delegate_from\"%')",
        applies: always,
    },
    InvariantCheck {
        name: "helpers_unrouted",
        says: "no chat leads to a session that works for another one",
        sql: "SELECT r.chat FROM tl_route r JOIN tl_session t ON t.id = r.session WHERE t.parent IS NOT NULL",
        applies: always,
    },
    InvariantCheck {
        name: "outbox",
        says: "a reply is being attempted by some start, or by none",
        sql: "SELECT key FROM tl_outbox WHERE (state = 1) <> (boot IS NOT NULL) OR state NOT IN (0, 1, 2, 3)",
        applies: always,
    },
    InvariantCheck {
        name: "drafts",
        says: "a reply that was delivered or refused has no preview left",
        sql: "SELECT d.key FROM tl_draft d JOIN tl_outbox o ON o.key = d.key WHERE o.state >= 2",
        applies: always,
    },
    InvariantCheck {
        name: "one_compression",
        says: "a session has at most one compression under way, and its state knows which",
        sql: "SELECT session FROM tl_compression WHERE state < 2 GROUP BY session HAVING count(*) > 1
              UNION ALL
              SELECT t.id FROM tl_session t LEFT JOIN tl_compression c ON c.session = t.id AND c.state < 2
              WHERE t.compression IS NOT c.operation AND NOT EXISTS
                  (SELECT 1 FROM tl_compression d WHERE d.session = t.id AND d.operation = t.compression
                   AND d.state = 2 AND d.orders IS NOT NULL)",
        applies: always,
    },
    InvariantCheck {
        name: "compression_fenced",
        says: "a compression under way belongs to the owner of its session, and to its view",
        sql: "SELECT t.id || ', operation ' || c.operation FROM tl_session t
              JOIN tl_compression c ON c.session = t.id AND c.state < 2
              WHERE c.generation <> t.generation OR c.base_view > t.view OR (c.state = 1) <> (c.summary IS NOT NULL)",
        applies: always,
    },
    InvariantCheck {
        name: "orders_wait",
        says: "an order of a compression that is not over still waits to hear of it",
        sql: "SELECT c.session || ', operation ' || c.operation FROM tl_compression c
              JOIN tl_session t ON t.id = c.session AND t.compression = c.operation, json_each(c.orders) o
              LEFT JOIN tl_inbox i ON i.session = c.session AND i.seq = o.value
              WHERE i.state IS NOT 0",
        applies: always,
    },
    InvariantCheck {
        name: "snapshot_of_promotion",
        says: "every compression that took effect has left its snapshot, and no other has",
        sql: "SELECT c.session || ', operation ' || c.operation FROM tl_compression c
              LEFT JOIN tl_snapshot n ON n.session = c.session AND n.operation = c.operation
              WHERE (c.state = 2) <> (n.name IS NOT NULL)
              UNION ALL
              SELECT n.name FROM tl_snapshot n WHERE n.operation IS NOT NULL AND NOT EXISTS
                  (SELECT 1 FROM tl_compression c WHERE c.session = n.session AND c.operation = n.operation)",
        applies: always,
    },
    InvariantCheck {
        name: "summary_of_what_was_there",
        says: "a summary stands for nothing that was said after it had been begun",
        sql: "SELECT n.name || ', row ' || n.cut FROM tl_snapshot n
              JOIN tl_compression c ON c.session = n.session AND c.operation = n.operation
              WHERE n.cut > c.cut",
        applies: always,
    },
    InvariantCheck {
        name: "snapshot_named",
        says: "a snapshot has its session's name and a time, later ones show later views",
        sql: "SELECT name FROM (SELECT name, session, view, lag(view) OVER (PARTITION BY session ORDER BY name) AS before
                                FROM tl_snapshot)
              WHERE view < before OR substr(name, 1, length(session) + 10) <> session || '.snapshot.'",
        applies: always,
    },
    InvariantCheck {
        name: "snapshot_whole",
        says: "every row of a snapshot is there, in the order in which it was said",
        sql: concat!(
            "SELECT name || ', row ' || row FROM
                 (SELECT n.name, o.value AS row, m.id AS there, COALESCE(p.place, m.id) AS place,
                         lag(COALESCE(p.place, m.id)) OVER (PARTITION BY n.name ORDER BY o.key) AS before
                  FROM tl_snapshot n, json_each(n.rows) o
                  LEFT JOIN messages m ON m.id = o.value LEFT JOIN tl_place p ON p.id = m.id
                  WHERE n.session IN ",
            only_ours!(),
            ") WHERE there IS NULL OR place <= before"
        ),
        applies: always,
    },
    InvariantCheck {
        name: "snapshot_unrouted",
        says: "no chat leads to a snapshot, and no process owns one",
        sql: "SELECT chat FROM tl_route WHERE instr(session, '.snapshot.') > 0
              UNION ALL SELECT id FROM tl_session WHERE instr(id, '.snapshot.') > 0",
        applies: always,
    },
    InvariantCheck {
        name: "replaced_not_live",
        says: "while a summary is live, nothing that it stands for is",
        sql: "SELECT n.name || ', row ' || m.id FROM tl_snapshot n, json_each(n.rows) r
              JOIN messages m ON m.id = r.value AND m.session_id = n.session AND m.active IS NOT 0
              WHERE m.id > n.after AND m.id <= n.cut
                AND EXISTS (SELECT 1 FROM json_each(n.summary) o JOIN messages s ON s.id = o.value
                            WHERE s.session_id = n.session AND s.active IS NOT 0)",
        applies: |can| can.has_compacted,
    },
    InvariantCheck {
        name: "replaced_not_live",
        says: "while a summary is in the view, nothing that it stands for is",
        sql: "SELECT n.name || ', row ' || m.id FROM tl_snapshot n, json_each(n.rows) r
              JOIN messages m ON m.id = r.value AND m.session_id = n.session
              WHERE m.id > n.after AND m.id <= n.cut
                AND EXISTS (SELECT 1 FROM json_each(n.summary) o JOIN messages s ON s.id = o.value
                            WHERE s.session_id = n.session)",
        applies: |can| !can.has_compacted,
    },
    InvariantCheck {
        name: "archived_kept",
        says: "what a summary stands for is in a snapshot, where every row is ours",
        sql: concat!(
            "SELECT 'row ' || m.id FROM messages m WHERE m.active = 0 AND m.compacted = 1
             AND m.id NOT IN (SELECT o.value FROM tl_snapshot n, json_each(n.rows) o WHERE n.session = m.session_id)
             AND m.session_id IN ",
            only_ours!()
        ),
        applies: |can| can.has_compacted,
    },
    InvariantCheck {
        name: "moved_kept",
        says: "what lies under a snapshot's name is listed in a snapshot of its session",
        sql: "SELECT 'row ' || m.id FROM messages m JOIN tl_snapshot n ON n.name = m.session_id
              WHERE m.id NOT IN (SELECT o.value FROM tl_snapshot l, json_each(l.rows) o WHERE l.session = n.session)
              UNION ALL
              SELECT id FROM sessions WHERE instr(id, '.snapshot.') > 0 AND source = 'tool'
              AND (ended_at IS NULL OR title IS NOT NULL) AND id IN (SELECT name FROM tl_snapshot)",
        applies: |can| !can.has_compacted,
    },
    InvariantCheck {
        name: "live_in_place",
        says: "a row that had to make room is not live",
        sql: "SELECT 'row ' || p.id FROM tl_place p LEFT JOIN messages m ON m.id = p.id
              WHERE m.session_id = p.session AND m.active IS NOT 0",
        applies: |can| can.has_compacted,
    },
    InvariantCheck {
        name: "live_in_place",
        says: "a row that had to make room is not in the view",
        sql: "SELECT 'row ' || p.id FROM tl_place p JOIN messages m ON m.id = p.id WHERE m.session_id = p.session",
        applies: |can| !can.has_compacted,
    },
    InvariantCheck {
        name: "compression_ends_nothing",
        says: "no session that is ours alone was ended by a compression",
        sql: concat!("SELECT s.id FROM sessions s WHERE s.end_reason = 'compression' AND s.id IN ", only_ours!()),
        applies: always,
    },
    InvariantCheck {
        name: "generations_rise",
        says: "no compression was begun by a later owner than its session has had",
        sql: "SELECT c.session || ', operation ' || c.operation FROM tl_compression c JOIN tl_session t ON t.id = c.session
              WHERE c.generation > t.generation",
        applies: always,
    },
    InvariantCheck {
        name: "snapshot_of_its_own",
        says: "a snapshot holds rows of its own session and of no other",
        sql: "SELECT n.name || ', row ' || m.id FROM tl_snapshot n, json_each(n.rows) r
              JOIN messages m ON m.id = r.value
              WHERE m.session_id <> n.session
                AND substr(m.session_id, 1, length(n.session) + 10) <> n.session || '.snapshot.'",
        applies: always,
    },
    InvariantCheck {
        name: "kept_in_order",
        says: "what is to be remembered in one document is remembered in order",
        sql: "SELECT l.key || ' before ' || e.key FROM tl_retention e
              JOIN tl_retention l ON l.provider = e.provider AND l.document = e.document AND l.number > e.number
              WHERE e.state = 1 AND l.state = 2 AND l.updated > e.updated",
        applies: always,
    },
    InvariantCheck {
        name: "kept_as_its_own",
        says: "what is to be remembered names the session that it was said in",
        sql: "SELECT key FROM tl_retention WHERE substr(key, 1, length(session) + 1) <> session || '/'
                 OR json_extract(scope, '$.session') <> session",
        applies: always,
    },
    InvariantCheck {
        name: "kept_once",
        says: "a turn is to be remembered once",
        sql: "SELECT session || ', turn ' || place || ' of what is remembered' FROM tl_retention
              GROUP BY provider, session, place HAVING count(*) > 1",
        applies: always,
    },
    InvariantCheck {
        name: "finalised_once",
        says: "a closed session has one record of its hand-over in this life, at the stage its state says",
        sql: "SELECT t.id FROM tl_session t LEFT JOIN tl_finalisation f ON f.session = t.id AND f.epoch = t.epoch
              WHERE t.phase = 2 AND (f.stage IS NULL OR f.stage < t.stage)
              UNION ALL
              SELECT f.session FROM tl_finalisation f JOIN tl_session t ON t.id = f.session
              WHERE f.epoch > t.epoch OR (f.epoch = t.epoch AND t.phase <> 2)",
        applies: always,
    },
    InvariantCheck {
        name: "hooks_in_a_hand_over",
        says: "a hook runs only in the hand-over of an ended session, one at a time, and all are over when it is past them",
        sql: "SELECT h.session || ': ' || h.hook FROM tl_hook h
              LEFT JOIN tl_finalisation f ON f.session = h.session AND f.epoch = h.epoch
              WHERE f.stage IS NULL OR f.stage < 1 OR h.state NOT IN (0, 1, 2) OR h.attempts < 1
              UNION ALL
              SELECT h.session || ': ' || h.hook FROM tl_hook h
              JOIN tl_session t ON t.id = h.session AND t.epoch = h.epoch
              WHERE t.phase <> 2 OR (h.state = 0 AND t.stage <> 1)
              UNION ALL
              SELECT session FROM tl_hook WHERE state = 0 GROUP BY session, epoch HAVING count(*) > 1",
        applies: always,
    },
    InvariantCheck {
        name: "parked_at_a_step",
        says: "a hand-over that was set aside is not done, and names its step",
        sql: "SELECT session FROM tl_finalisation WHERE parked IS NOT NULL AND (stage = 4 OR parked NOT LIKE '%: %')",
        applies: always,
    },
    InvariantCheck {
        name: "reset_remembered",
        says: "a chat whose conversation ended by itself leads nowhere, and that conversation has ended",
        sql: "SELECT x.chat FROM tl_reset x LEFT JOIN tl_session t ON t.id = x.session
              WHERE t.phase IS NOT 2 OR x.chat IN (SELECT chat FROM tl_route) OR x.reason NOT IN ('idle', 'daily')",
        applies: always,
    },
    InvariantCheck {
        name: "reviews_counted",
        says: "a review is one of those its session has counted, and lists the rows it is about as long as it is due",
        sql: "SELECT r.session || ', review ' || r.number FROM tl_review r LEFT JOIN tl_session t ON t.id = r.session
              WHERE r.number NOT BETWEEN 1 AND COALESCE(json_extract(t.rest, '$.reviews[2]'), 0)
                 OR (r.state = 0) <> (r.rows IS NOT NULL) OR (r.state = 0) <> (r.settled IS NULL)",
        applies: always,
    },
    InvariantCheck {
        name: "closed_ended",
        says: "a session that we closed has ended for Hermes, too",
        sql: "SELECT t.id FROM tl_session t JOIN sessions s ON s.id = t.id
              WHERE t.phase = 2 AND s.ended_at IS NULL AND t.adopted = 0",
        applies: always,
    },
    InvariantCheck {
        name: "unfinished",
        says: "a start finds exactly the sessions in which something runs, or waits and is not silenced",
        sql: "SELECT t.id FROM tl_session t LEFT JOIN tl_compression c ON c.session = t.id AND c.operation = t.compression
              LEFT JOIN tl_finalisation f ON f.session = t.id AND f.epoch = t.epoch
              WHERE t.unfinished <>
                  ((t.phase = 1 AND COALESCE(json_extract(t.rest, '$.held'), 0) = 0) OR (t.phase = 2 AND t.stage < 4 AND f.parked IS NULL)
                   OR (t.halted = 0 AND EXISTS
                       (SELECT 1 FROM tl_inbox i WHERE i.session = t.id AND i.seq > t.answered AND i.state = 0
                        AND i.seq NOT IN (SELECT o.value FROM json_each(COALESCE(c.orders, '[]')) o)))
                   OR COALESCE(c.state IN (0, 2), 0)
                   OR (t.halted = 0 AND EXISTS (SELECT 1 FROM tl_review r WHERE r.session = t.id AND r.state = 0))
                   OR (c.state IS NULL AND t.phase <> 2 AND t.halted = 0
                       AND (COALESCE(json_extract(t.rest, '$.held'), 0) OR COALESCE(json_extract(t.upkeep, '$.wanted'), 0))))",
        applies: always,
    },
    InvariantCheck {
        name: "counted",
        says: "Hermes' count of messages is the number of rows, where every row is ours",
        sql: concat!(
            "SELECT s.id || ': ' || s.message_count FROM sessions s WHERE s.id IN ",
            only_ours!(),
            " AND s.message_count <> (SELECT count(*) FROM messages m WHERE m.session_id = s.id)"
        ),
        applies: |can| !can.has_active,
    },
    InvariantCheck {
        name: "counted",
        says: "Hermes' count of messages is the number of live rows, with or without what was taken back",
        sql: concat!(
            "SELECT s.id || ': ' || s.message_count FROM sessions s WHERE s.id IN ",
            only_ours!(),
            " AND s.message_count NOT BETWEEN
                  (SELECT count(*) FROM messages m WHERE m.session_id = s.id AND m.active IS NOT 0)
                  AND (SELECT count(*) FROM messages m WHERE m.session_id = s.id)"
        ),
        applies: |can| can.has_active && !can.has_compacted,
    },
    InvariantCheck {
        name: "counted",
        says: "Hermes' count of messages is the number of live rows, with or without what was taken back",
        sql: concat!(
            "SELECT s.id || ': ' || s.message_count FROM sessions s WHERE s.id IN ",
            only_ours!(),
            " AND s.message_count NOT BETWEEN
                  (SELECT count(*) FROM messages m WHERE m.session_id = s.id AND m.active IS NOT 0)
                  AND (SELECT count(*) FROM messages m WHERE m.session_id = s.id AND m.compacted IS NOT 1)"
        ),
        applies: |can| can.has_compacted,
    },
    InvariantCheck {
        name: "taken_back_kept",
        says: "what was taken back is in a snapshot, where every row is ours and was taken back by us",
        sql: concat!(
            "SELECT 'row ' || m.id FROM messages m JOIN sessions s ON s.id = m.session_id
             WHERE m.active = 0 AND m.compacted IS NOT 1
             AND m.id NOT IN (SELECT o.value FROM tl_snapshot n, json_each(n.rows) o WHERE n.session = m.session_id)
             AND s.rewind_count <= (SELECT count(*) FROM tl_snapshot n WHERE n.session = s.id AND n.kind = 'undone')
             AND m.session_id IN ",
            only_ours!()
        ),
        applies: |can| can.has_compacted && can.has_rewind_count,
    },
    InvariantCheck {
        name: "taken_back_hidden",
        says: "what was taken back is not in the view, unless a snapshot was restored since",
        sql: "SELECT n.name || ', row ' || m.id FROM tl_snapshot n, json_each(n.rows) r
              JOIN messages m ON m.id = r.value AND m.session_id = n.session
              WHERE n.kind = 'undone' AND m.id > n.after AND m.active IS NOT 0
                AND NOT EXISTS (SELECT 1 FROM tl_snapshot l WHERE l.session = n.session AND l.kind = 'restored'
                                AND l.name > n.name)",
        applies: |can| can.has_compacted,
    },
    InvariantCheck {
        name: "branches_linked",
        says: "a copy of a conversation leads back to it",
        sql: "SELECT s.id FROM sessions s JOIN tl_session t ON t.id = s.id
              WHERE COALESCE(s.model_config, '') LIKE '%\"_branched_from\"%' AND t.predecessor IS NOT NULL
                AND s.parent_session_id IS NOT NULL AND s.parent_session_id <> t.predecessor",
        applies: always,
    },
    InvariantCheck {
        name: "tokens_counted",
        says: "Hermes' count of tokens is the sum over our steps, where every row is ours",
        sql: concat!(
            "SELECT s.id FROM sessions s JOIN
                 (SELECT session, sum(input) AS input, sum(output) AS output, count(*) AS asked
                  FROM tl_step GROUP BY session) p ON p.session = s.id
             WHERE (s.input_tokens <> p.input OR s.output_tokens <> p.output OR s.api_call_count <> p.asked)
               AND s.id IN ",
            only_ours!()
        ),
        applies: always,
    },
    InvariantCheck {
        name: "unindexed_exist",
        says: "what waits to be indexed is there",
        sql: "SELECT 'row ' || id FROM tl_unindexed WHERE id NOT IN (SELECT id FROM messages)",
        applies: always,
    },
    InvariantCheck {
        name: "findable",
        says: "every row of ours is in the search index, or waits to be",
        sql: "SELECT 'row ' || m.id FROM messages m WHERE m.id IN
                  (SELECT message FROM tl_inbox UNION ALL SELECT message FROM tl_step)
              AND m.id NOT IN (SELECT id FROM tl_unindexed)
              AND m.id NOT IN (SELECT id FROM messages_fts_docsize)",
        applies: |can| can.has_word_index,
    },
];

const FOREIGN_KEYS: InvariantCheck = InvariantCheck {
    name: "foreign_keys",
    says: "every reference between tables leads somewhere",
    sql: "SELECT \"table\" || ' refers to ' || parent FROM pragma_foreign_key_check",
    applies: always,
};

/// Every invariant that does not hold, in words. Where the file is too damaged for a question, that
/// is the finding.
pub(crate) fn violations(conn: &Connection, variants: &ColumnVariants) -> Result<Vec<Breach>, StoreFault> {
    let (mut found, unreadable) = broken(conn, variants, CHECKS.iter().chain([&FOREIGN_KEYS]))?;
    let damage = match damage(conn, variants) {
        Ok(damage) if damage.is_empty() => unreadable,
        Ok(damage) => damage,
        Err(fault) => vec![as_damage(fault)?],
    };
    found.extend(Breach::new("integrity", "the file is whole", damage));
    Ok(found)
}

/// Of the invariants of what only we write, those that do not hold, but for these; and what was too damaged
/// to be asked.
pub(crate) fn of_ours(
    conn: &Connection,
    variants: &ColumnVariants,
    but: &[&str],
) -> Result<(Vec<String>, Vec<String>), StoreFault> {
    let (found, unreadable) =
        broken(conn, variants, CHECKS.iter().filter(|check| !but.contains(&check.name)))?;
    Ok((found.iter().map(Breach::in_words).collect(), unreadable))
}

fn broken<'a>(
    conn: &Connection,
    variants: &ColumnVariants,
    checks: impl Iterator<Item = &'a InvariantCheck>,
) -> Result<(Vec<Breach>, Vec<String>), StoreFault> {
    let mut found = Vec::new();
    let mut unreadable = Vec::new();
    for check in checks.filter(|check| (check.applies)(&variants.can)) {
        match texts(conn, check.sql) {
            Ok(breaches) => found.extend(Breach::new(check.name, check.says, breaches)),
            Err(fault) => unreadable.push(as_damage(fault)?),
        }
    }
    Ok((found, unreadable))
}

/// What SQLite says about the damage it met, if that is what it met.
pub(crate) fn as_damage(fault: StoreFault) -> Result<String, StoreFault> {
    match &fault {
        StoreFault::Sql(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => {
            Ok(error.to_string())
        }
        _ => Err(fault),
    }
}

/// SQLite's own findings. Its older releases, which Hermes may run on, cut a text short at a NUL when
/// they index its trigrams; newer ones call the index malformed for that. No word is lost by it.
pub(crate) fn damage(conn: &Connection, variants: &ColumnVariants) -> Result<Vec<String>, StoreFault> {
    for index in variants.indexes() {
        // Its own check goes by what this connection last saw of the index, unless it is asked something first.
        texts(conn, &format!("SELECT rowid FROM {index} LIMIT 1"))?;
    }
    let mut faults = texts(conn, "PRAGMA integrity_check(10)")?;
    faults.retain(|fault| fault != "ok");
    let of_trigrams = |fault: &String| fault.contains("messages_fts_trigram");
    if faults.iter().any(of_trigrams) {
        let sql = "SELECT 1 FROM messages WHERE instr(CAST(content AS BLOB), x'00') > 0 LIMIT 1";
        if conn.prepare(sql)?.exists([])? {
            faults.retain(|fault| !of_trigrams(fault));
        }
    }
    Ok(faults)
}

impl StoreReader {
    /// Every invariant that does not hold, with everything that it does not hold for. With a time, only for what is
    /// not known to be older.
    pub fn breaches(&self, since: Option<Time>) -> Result<Vec<Breach>, StoreError> {
        let look = || -> Result<Vec<Breach>, StoreFault> {
            let mut breaches = self.broken()?;
            if let Some(since) = since {
                for breach in &mut breaches {
                    let mut recent = Vec::new();
                    for found in std::mem::take(&mut breach.found) {
                        if self.time_of(&found)?.is_none_or(|at| at >= since) {
                            recent.push(found);
                        }
                    }
                    breach.found = recent;
                }
                breaches.retain(|breach| !breach.found.is_empty());
            }
            Ok(breaches)
        };
        self.at_once(look).while_doing("check the store")
    }

    /// How often a compression of Hermes gave a conversation another id, since then. None of our promises is broken by
    /// it, and a store does not tell whose they were: what became of those conversations is the doctor's.
    pub fn rotations(&self, since: Option<Time>) -> Result<u64, StoreError> {
        let sql = format!(
            "SELECT count(*) FROM sessions p WHERE p.end_reason = 'compression' AND instr(p.id, '.snapshot.') = 0
               AND COALESCE(p.ended_at, 0) >= ?1
               AND EXISTS (SELECT 1 FROM sessions c WHERE c.parent_session_id = p.id AND c.id <> p.id AND {})",
            crate::doctor::UNMARKED
        );
        let since = since.map_or(f64::MIN, Time::as_seconds);
        let count = || -> Result<u64, StoreFault> {
            Ok(self.conn.prepare_cached(&sql)?.query_row([since], |row| row.get::<_, i64>(0))? as u64)
        };
        count().while_doing("look for split conversations")
    }

    pub(crate) fn broken(&self) -> Result<Vec<Breach>, StoreFault> {
        let mut found = violations(&self.conn, &self.variants)?;
        found.extend(self.open_groups()?);
        found.extend(self.unreadable()?);
        Ok(found)
    }

    /// When a message came that is named `… row 7` or `session/number`.
    fn time_of(&self, found: &str) -> Result<Option<Time>, StoreFault> {
        if let Some(row) = found.rsplit_once("row ").and_then(|(_, row)| row.parse::<i64>().ok()) {
            let sql = "SELECT timestamp FROM messages WHERE id = ?1";
            let at: Option<f64> =
                self.conn.prepare_cached(sql)?.query_row([row], |row| row.get(0)).optional()?;
            return Ok(at.map(Time::from_seconds));
        }
        let Some((session, number)) = found.rsplit_once('/') else { return Ok(None) };
        let Ok(number) = number.parse::<i64>() else { return Ok(None) };
        let sql = "SELECT at FROM tl_inbox WHERE session = ?1 AND seq = ?2";
        let at: Option<i64> = self
            .conn
            .prepare_cached(sql)?
            .query_row(rusqlite::params![session, number], |row| row.get(0))
            .optional()?;
        Ok(at.map(Time))
    }

    /// Groups in the transcript are closed: what we wrote, any provider accepts.
    pub(crate) fn open_groups(&self) -> Result<Vec<Breach>, StoreFault> {
        // What is too damaged to be read has been found by then.
        self.readable_open_groups().or_else(|fault| as_damage(fault).map(|_| Vec::new()))
    }

    fn readable_open_groups(&self) -> Result<Vec<Breach>, StoreFault> {
        let sql = concat!(
            "SELECT DISTINCT session FROM tl_step WHERE calls > 0 AND message IS NOT NULL AND session IN ",
            only_ours!()
        );
        let mut open = Vec::new();
        for session in texts(&self.conn, sql)? {
            let rows = self.live_rows(&session_id(&session)?)?;
            let broken = history::violations(rows.iter().map(|(_, message)| message));
            open.extend(broken.iter().map(|violation| format!("{session}: {violation:?}")));
        }
        let says = "every tool call in the transcript is followed by its result";
        Ok(Breach::new("groups_closed", says, open).into_iter().collect())
    }
}

impl StoreReader {
    /// Our own columns of JSON read as what they hold.
    pub(crate) fn unreadable(&self) -> Result<Vec<Breach>, StoreFault> {
        self.readable_columns().or_else(|fault| as_damage(fault).map(|_| Vec::new()))
    }

    fn readable_columns(&self) -> Result<Vec<Breach>, StoreFault> {
        let traces = "SELECT key, trace FROM tl_outbox WHERE trace IS NOT NULL";
        let rests = "SELECT id, rest FROM tl_session WHERE rest IS NOT NULL";
        let upkeeps = "SELECT id, upkeep FROM tl_session WHERE upkeep IS NOT NULL";
        let summaries =
            "SELECT session || ': a summary', summary FROM tl_compression WHERE summary IS NOT NULL";
        let mut state = Session::new(session_id("none")?);
        let mut broken = self.misread(traces, |text| envelope::trace(Some(text)).is_ok())?;
        broken.extend(self.misread(rests, |text| envelope::restore_rest(&mut state, text).is_ok())?);
        broken.extend(self.misread(upkeeps, |text| envelope::upkeep(text).is_ok())?);
        broken.extend(self.misread(summaries, |text| envelope::replacement(text).is_ok())?);
        for (number, what) in [(0, "a grant"), (1, "a question"), (2, "a result")] {
            let calls = format!("SELECT session || ': {what}', detail FROM tl_call WHERE state = {number}");
            broken.extend(self.misread(&calls, |text| call::slot(number, text).is_ok())?);
        }
        Ok(Breach::new("readable", "what we wrote as JSON can be read back", broken).into_iter().collect())
    }

    /// The names of rows whose text does not read.
    fn misread(&self, sql: &str, mut reads: impl FnMut(&str) -> bool) -> Result<Vec<String>, StoreFault> {
        let mut statement = self.conn.prepare(sql)?;
        let mut rows = statement.query([])?;
        let mut broken = Vec::new();
        while let Some(row) = rows.next()? {
            let text = crate::read::text(row, 1)?.unwrap_or_default();
            if !reads(&text) {
                broken.push(row.get(0)?);
            }
        }
        Ok(broken)
    }
}

fn texts(conn: &Connection, sql: &str) -> Result<Vec<String>, StoreFault> {
    let mut statement = conn.prepare(sql)?;
    let rows = statement.query_map([], |row| Ok(crate::read::text(row, 0)?.unwrap_or_default()))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}
