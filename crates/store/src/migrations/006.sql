-- What is remembered outside: each turn as it was when it ended, until its provider has it.

CREATE TABLE tl_retention (
    number INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,            -- session/turn
    provider TEXT NOT NULL,
    document TEXT NOT NULL,              -- in order within one, and never two at once
    session TEXT NOT NULL,
    place INTEGER NOT NULL,              -- the how-manieth turn of its session that is kept
    messages INTEGER NOT NULL,
    state INTEGER NOT NULL,              -- 0 waits for more of its kind, 1 due, 2 kept, 3 refused
    attempts INTEGER NOT NULL DEFAULT 0,
    tried INTEGER NOT NULL DEFAULT 0,    -- an attempt may have arrived
    not_before INTEGER NOT NULL DEFAULT 0,
    created INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    error TEXT,
    scope TEXT NOT NULL,
    said TEXT,                           -- NULL once it is kept: its provider has it
    replied TEXT
);
CREATE INDEX tl_retention_open ON tl_retention(document, number) WHERE state IN (0, 1);
CREATE INDEX tl_retention_session ON tl_retention(session, state);
CREATE INDEX tl_retention_refused ON tl_retention(number) WHERE state = 3;

-- What a provider calls the place for a conversation, once something lies there. It stays so.
CREATE TABLE tl_document (
    provider TEXT NOT NULL,
    subject TEXT NOT NULL,               -- the chat, or the session where there is none
    name TEXT NOT NULL,
    own INTEGER NOT NULL,                -- nobody else may have it
    at INTEGER NOT NULL,
    PRIMARY KEY (provider, subject)
) WITHOUT ROWID;
CREATE INDEX tl_document_name ON tl_document(provider, name);
