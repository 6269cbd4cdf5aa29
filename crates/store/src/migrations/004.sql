-- Previews of replies: messages that show what has been said so far, until the reply takes their place.
-- The key is that of the reply. A row goes when its reply is settled.
CREATE TABLE tl_draft (
    key TEXT PRIMARY KEY,
    session TEXT NOT NULL,
    destination TEXT NOT NULL,
    platform_id TEXT,                -- NULL: about to be posted, and perhaps there
    at INTEGER NOT NULL
) WITHOUT ROWID;
