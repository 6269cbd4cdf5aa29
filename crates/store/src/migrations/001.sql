-- What outlives the process beside Hermes' own tables. Never edited once released: a change is the
-- next file. Times are microseconds since 1970 in UTC. No table refers to one of Hermes' by foreign
-- key, so that Hermes may delete a session without knowing of us.

CREATE TABLE tl_meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

-- One row per session that we have owned: its state, but for what the inbox holds.
CREATE TABLE tl_session (
    id TEXT PRIMARY KEY,
    generation INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    view INTEGER NOT NULL,
    received INTEGER NOT NULL,
    answered INTEGER NOT NULL,
    phase INTEGER NOT NULL,          -- 0 idle, 1 in a turn, 2 closed
    turn INTEGER,                    -- the running turn, and where it stands
    began INTEGER,
    step INTEGER,
    resumes INTEGER,
    stage INTEGER,                   -- of a closed session's hand-over: 0 claimed to 4 done
    failed INTEGER,                  -- the turn that may be tried again
    compression INTEGER,             -- the operation that is preparing or ready
    unfinished INTEGER NOT NULL,     -- something runs or waits: a start takes it up
    steps INTEGER NOT NULL,          -- the number of its last row in tl_step
    last_row INTEGER NOT NULL,       -- rows of the transcript above this one are foreign
    adopted INTEGER NOT NULL,        -- how many rows of its transcript are not ours
    touched INTEGER NOT NULL,
    principal TEXT,
    predecessor TEXT,
    layer BLOB
) WITHOUT ROWID;
CREATE INDEX tl_session_unfinished ON tl_session(touched) WHERE unfinished = 1;
CREATE INDEX tl_session_principal ON tl_session(principal) WHERE principal IS NOT NULL;

-- Every key ever accepted. Rows stay for ever; seq 0 means that Hermes deleted the session.
CREATE TABLE tl_seen (
    key TEXT PRIMARY KEY,
    session TEXT NOT NULL,
    seq INTEGER NOT NULL,
    body BLOB
) WITHOUT ROWID;

CREATE TABLE tl_inbox (
    session TEXT NOT NULL,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    state INTEGER NOT NULL,          -- 0 waits, 1 in a turn, 2 settled
    turn INTEGER,
    began INTEGER,                   -- when that turn began
    message INTEGER,                 -- the row of the transcript it became
    step INTEGER,                    -- the row of tl_step that answered it
    settled INTEGER,
    outcome TEXT,
    implicit BLOB,
    written INTEGER NOT NULL,
    envelope TEXT NOT NULL,
    PRIMARY KEY (session, seq)
) WITHOUT ROWID;
CREATE INDEX tl_inbox_implicit ON tl_inbox(implicit) WHERE implicit IS NOT NULL;

-- One row per answer of a model. `open` holds the answer while its calls run; afterwards the
-- transcript has it, at `message`.
CREATE TABLE tl_step (
    session TEXT NOT NULL,
    number INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    step INTEGER NOT NULL,
    at INTEGER NOT NULL,
    model TEXT NOT NULL,
    input INTEGER NOT NULL,
    output INTEGER NOT NULL,
    cache_read INTEGER NOT NULL,
    cache_write INTEGER NOT NULL,
    reasoning INTEGER NOT NULL,
    chain BLOB NOT NULL,
    messages INTEGER NOT NULL,
    calls INTEGER NOT NULL,
    message INTEGER,
    open TEXT,
    PRIMARY KEY (session, number)
) WITHOUT ROWID;

-- Results of calls whose group is still open.
CREATE TABLE tl_call (
    session TEXT NOT NULL,
    step INTEGER NOT NULL,
    position INTEGER NOT NULL,
    at INTEGER NOT NULL,
    result TEXT NOT NULL,
    PRIMARY KEY (session, step, position)
) WITHOUT ROWID;

CREATE TABLE tl_outbox (
    number INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    session TEXT NOT NULL,
    state INTEGER NOT NULL,          -- 0 pending, 1 attempting, 2 delivered, 3 refused
    attempts INTEGER NOT NULL,
    boot INTEGER,                    -- the start in which it is being attempted
    marked INTEGER NOT NULL,
    not_before INTEGER NOT NULL,
    created INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    platform_id TEXT,
    error TEXT,
    destination TEXT NOT NULL,
    text TEXT NOT NULL
);
CREATE INDEX tl_outbox_undelivered ON tl_outbox(number) WHERE state < 2;

-- Where each chat leads, and the entry as it was last written where Hermes reads it.
CREATE TABLE tl_route (
    chat TEXT PRIMARY KEY,
    session TEXT NOT NULL,
    entry TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX tl_route_session ON tl_route(session);

-- The turns after which a client's own view of a conversation had this digest.
CREATE TABLE tl_thread (
    digest BLOB NOT NULL,
    session TEXT NOT NULL,
    turn INTEGER NOT NULL,
    message INTEGER NOT NULL,
    PRIMARY KEY (digest, session, turn)
) WITHOUT ROWID;

CREATE TABLE tl_finalisation (
    session TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    stage INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    reason TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (session, epoch)
) WITHOUT ROWID;

CREATE TABLE tl_compression (
    session TEXT NOT NULL,
    operation INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    base_view INTEGER NOT NULL,
    cut INTEGER NOT NULL,
    state INTEGER NOT NULL,          -- 0 preparing, 1 ready, 2 promoted, 3 dropped
    attempts INTEGER NOT NULL,
    at INTEGER NOT NULL,
    summary TEXT,
    PRIMARY KEY (session, operation)
) WITHOUT ROWID;
CREATE UNIQUE INDEX tl_compression_live ON tl_compression(session) WHERE state < 2;

CREATE TABLE tl_event (
    id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    session TEXT,
    name TEXT NOT NULL,
    detail TEXT NOT NULL
);

CREATE TABLE tl_count (
    name TEXT PRIMARY KEY,
    n INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE tl_cursor (
    platform TEXT NOT NULL,
    account TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (platform, account)
) WITHOUT ROWID;

-- Rows of the transcript that the search index has yet to take in.
CREATE TABLE tl_unindexed (
    id INTEGER PRIMARY KEY
);
