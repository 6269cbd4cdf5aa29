-- The life of sessions: when somebody last wrote, how the hand-over of an ended one goes, and how a
-- chat's last conversation ended by itself. When the home was first taken over stands in tl_meta.

ALTER TABLE tl_session ADD COLUMN active INTEGER NOT NULL DEFAULT 0;      -- 0: nobody wrote in our time

ALTER TABLE tl_finalisation ADD COLUMN successor TEXT;
ALTER TABLE tl_finalisation ADD COLUMN not_before INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tl_finalisation ADD COLUMN parked TEXT;                       -- which step was set aside, and why
CREATE INDEX tl_finalisation_parked ON tl_finalisation(at) WHERE parked IS NOT NULL;

-- One row per hook and life of a session: begun before it runs, done after.
CREATE TABLE tl_hook (
    session TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    hook TEXT NOT NULL,
    state INTEGER NOT NULL,          -- 0 begun, 1 done, 2 failed
    attempts INTEGER NOT NULL,
    at INTEGER NOT NULL,
    detail TEXT,
    PRIMARY KEY (session, epoch, hook)
) WITHOUT ROWID;

-- Chats whose conversation ended by itself, until another begins there.
CREATE TABLE tl_reset (
    chat TEXT PRIMARY KEY,
    session TEXT NOT NULL,
    reason TEXT NOT NULL,
    at INTEGER NOT NULL,
    had_activity INTEGER NOT NULL
) WITHOUT ROWID;
