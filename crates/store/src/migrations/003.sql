-- Compression: what a session remembers between two of them, what is under way, and what they left
-- behind. Operations that an older program recorded never came to anything, and are forgotten.

ALTER TABLE tl_session ADD COLUMN upkeep TEXT;   -- what it remembers; NULL: nobody has looked yet

UPDATE tl_session SET unfinished = 0
WHERE compression IS NOT NULL AND phase = 0 AND NOT EXISTS
    (SELECT 1 FROM tl_inbox WHERE session = tl_session.id AND seq > tl_session.answered AND state = 0);
UPDATE tl_session SET compression = NULL;        -- from here on also one that is in place, until it was reported
DELETE FROM tl_compression;

-- `state` from here on: 0 preparing, 1 ready, 2 promoted, 3 stale, 4 skipped, 5 failed. `summary` holds
-- what is to take effect, while it is ready; afterwards the transcript has it.
ALTER TABLE tl_compression ADD COLUMN cause INTEGER NOT NULL DEFAULT 0;     -- 0 ahead of time, 1 of need, 2 on order
ALTER TABLE tl_compression ADD COLUMN focus TEXT;
ALTER TABLE tl_compression ADD COLUMN began INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tl_compression ADD COLUMN messages INTEGER NOT NULL DEFAULT 0;  -- of the view when it began
ALTER TABLE tl_compression ADD COLUMN tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tl_compression ADD COLUMN reach INTEGER NOT NULL DEFAULT 0;     -- live rows up to the cut when it began
ALTER TABLE tl_compression ADD COLUMN orders TEXT;                          -- inputs that wait to hear of it
ALTER TABLE tl_compression ADD COLUMN reason TEXT;                          -- why it ended without a change

-- A view that was: rows in order, all that a restore needs. Names begin with their session's, and rise.
CREATE TABLE tl_snapshot (
    name TEXT PRIMARY KEY,
    session TEXT NOT NULL,
    view INTEGER NOT NULL,
    operation INTEGER,               -- NULL: left by a restore
    at INTEGER NOT NULL,
    after INTEGER NOT NULL,          -- rows up to this place stayed in the view; 0: none did
    cut INTEGER NOT NULL,            -- and so did those above this one
    upto INTEGER NOT NULL,           -- the last row of the view that it shows
    rows TEXT NOT NULL,              -- up to there, those that stayed included
    summary TEXT NOT NULL,           -- the rows that took their place
    kind TEXT NOT NULL,
    messages_before INTEGER NOT NULL,
    messages_after INTEGER NOT NULL,
    tokens_before INTEGER NOT NULL,
    tokens_after INTEGER NOT NULL,
    remark TEXT
) WITHOUT ROWID;

-- Rows that had to make room, and the id that is theirs. They are never live: whoever becomes live
-- again gets its place back.
CREATE TABLE tl_place (
    id INTEGER PRIMARY KEY,
    session TEXT NOT NULL,
    place INTEGER NOT NULL
);
