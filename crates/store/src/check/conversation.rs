//! Invariants of routes, inboxes, turns, calls and replies.

use super::{InvariantCheck, always};

pub(super) const CONVERSATIONS: &[InvariantCheck] = &[
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
];
