//! Invariants of compressions, snapshots and the place of each row.

use super::{InvariantCheck, always};

pub(super) const VIEWS: &[InvariantCheck] = &[
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
];
