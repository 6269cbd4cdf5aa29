//! Invariants of what is remembered, handed over, reviewed, counted and indexed.

use super::{InvariantCheck, always};

pub(super) const RECORDS: &[InvariantCheck] = &[
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
