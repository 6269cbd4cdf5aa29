-- Forgetting. Keys that were seen stay for ever, so from here on only as digests: they still recognise a message that
-- comes again, and tell nothing of it. (tl_digest is a function of ours: seen.rs.)
UPDATE tl_seen SET key = tl_digest(key);

-- The provider is to delete what it has of the session; `said` lists the turns, or none if all go.
ALTER TABLE tl_retention ADD COLUMN erases INTEGER NOT NULL DEFAULT 0;

-- What was forgotten: a receipt without content, and what is still to be done outside of the database.
CREATE TABLE tl_forgetting (
    number INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,              -- person, chat, session
    subject TEXT NOT NULL,           -- its digest
    state INTEGER NOT NULL,          -- 0 rows are gone, 1 so are files, 2 so are free pages: done
    done INTEGER,
    counts TEXT NOT NULL,            -- how many of what
    work TEXT                        -- what is to be done outside; NULL once it is
);
