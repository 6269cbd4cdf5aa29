PRAGMA journal_mode = WAL;
BEGIN;
CREATE TABLE schema_version (
    version INTEGER NOT NULL
);
CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    source TEXT NOT NULL,
    user_id TEXT,
    session_key TEXT,
    chat_id TEXT,
    chat_type TEXT,
    thread_id TEXT,
    display_name TEXT,
    origin_json TEXT,
    expiry_finalized INTEGER DEFAULT 0,
    model TEXT,
    model_config TEXT,
    system_prompt TEXT,
    parent_session_id TEXT,
    started_at REAL NOT NULL,
    ended_at REAL,
    end_reason TEXT,
    message_count INTEGER DEFAULT 0,
    tool_call_count INTEGER DEFAULT 0,
    input_tokens INTEGER DEFAULT 0,
    output_tokens INTEGER DEFAULT 0,
    cache_read_tokens INTEGER DEFAULT 0,
    cache_write_tokens INTEGER DEFAULT 0,
    reasoning_tokens INTEGER DEFAULT 0,
    cwd TEXT,
    git_branch TEXT,
    git_repo_root TEXT,
    billing_provider TEXT,
    billing_base_url TEXT,
    billing_mode TEXT,
    estimated_cost_usd REAL,
    actual_cost_usd REAL,
    cost_status TEXT,
    cost_source TEXT,
    pricing_version TEXT,
    title TEXT,
    api_call_count INTEGER DEFAULT 0,
    handoff_state TEXT,
    handoff_platform TEXT,
    handoff_error TEXT,
    compression_failure_cooldown_until REAL,
    compression_failure_error TEXT,
    compression_fallback_streak INTEGER NOT NULL DEFAULT 0,
    profile_name TEXT,
    rewind_count INTEGER NOT NULL DEFAULT 0,
    archived INTEGER NOT NULL DEFAULT 0,
    FOREIGN KEY (parent_session_id) REFERENCES sessions(id)
);
CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id TEXT NOT NULL REFERENCES sessions(id),
    role TEXT NOT NULL,
    content TEXT,
    tool_call_id TEXT,
    tool_calls TEXT,
    tool_name TEXT,
    effect_disposition TEXT,
    timestamp REAL NOT NULL,
    token_count INTEGER,
    finish_reason TEXT,
    reasoning TEXT,
    reasoning_content TEXT,
    reasoning_details TEXT,
    codex_reasoning_items TEXT,
    codex_message_items TEXT,
    platform_message_id TEXT,
    observed INTEGER DEFAULT 0,
    active INTEGER NOT NULL DEFAULT 1,
    compacted INTEGER NOT NULL DEFAULT 0,
    api_content TEXT
);
CREATE TABLE session_model_usage (
    session_id TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
    model TEXT NOT NULL,
    billing_provider TEXT NOT NULL DEFAULT '',
    billing_base_url TEXT NOT NULL DEFAULT '',
    billing_mode TEXT NOT NULL DEFAULT '',
    task TEXT NOT NULL DEFAULT '',
    api_call_count INTEGER NOT NULL DEFAULT 0,
    input_tokens INTEGER NOT NULL DEFAULT 0,
    output_tokens INTEGER NOT NULL DEFAULT 0,
    cache_read_tokens INTEGER NOT NULL DEFAULT 0,
    cache_write_tokens INTEGER NOT NULL DEFAULT 0,
    reasoning_tokens INTEGER NOT NULL DEFAULT 0,
    estimated_cost_usd REAL NOT NULL DEFAULT 0,
    actual_cost_usd REAL NOT NULL DEFAULT 0,
    cost_status TEXT,
    cost_source TEXT,
    first_seen REAL,
    last_seen REAL,
    PRIMARY KEY (session_id, model, billing_provider, billing_base_url, billing_mode, task)
);
CREATE TABLE state_meta (
    key TEXT PRIMARY KEY,
    value TEXT
);
CREATE TABLE gateway_routing (
    scope TEXT NOT NULL DEFAULT '',
    session_key TEXT NOT NULL,
    entry_json TEXT NOT NULL,
    updated_at REAL NOT NULL,
    PRIMARY KEY (scope, session_key)
);
CREATE TABLE compression_locks (
    session_id TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    acquired_at REAL NOT NULL,
    expires_at REAL NOT NULL
);
CREATE TABLE async_delegations (
    delegation_id TEXT PRIMARY KEY,
    origin_session TEXT NOT NULL,
    origin_ui_session_id TEXT NOT NULL DEFAULT '',
    parent_session_id TEXT,
    state TEXT NOT NULL,
    dispatched_at REAL NOT NULL,
    completed_at REAL,
    updated_at REAL NOT NULL,
    event_json TEXT,
    result_json TEXT,
    delivery_state TEXT NOT NULL DEFAULT 'pending',
    delivery_attempts INTEGER NOT NULL DEFAULT 0,
    delivered_at REAL,
    owner_pid INTEGER,
    owner_started_at INTEGER,
    task_json TEXT,
    delivery_claim TEXT,
    delivery_claimed_at REAL
);
CREATE INDEX idx_sessions_source ON sessions(source);
CREATE INDEX idx_sessions_source_id ON sessions(source, id);
CREATE INDEX idx_sessions_parent ON sessions(parent_session_id);
CREATE INDEX idx_sessions_started ON sessions(started_at DESC);
CREATE INDEX idx_messages_session ON messages(session_id, timestamp);
CREATE INDEX idx_compression_locks_expires ON compression_locks(expires_at);
CREATE INDEX idx_session_model_usage_session ON session_model_usage(session_id);
CREATE INDEX idx_session_model_usage_model ON session_model_usage(model);
CREATE INDEX idx_async_delegations_delivery
    ON async_delegations(delivery_state, completed_at);
CREATE INDEX idx_messages_platform_msg_id ON messages(session_id, platform_message_id) WHERE platform_message_id IS NOT NULL;
CREATE INDEX idx_messages_session_active
    ON messages(session_id, active, timestamp);
CREATE INDEX idx_messages_active_null
    ON messages(active) WHERE active IS NULL;
CREATE INDEX idx_sessions_session_key
    ON sessions(session_key, started_at DESC);
CREATE INDEX idx_sessions_gateway_peer
    ON sessions(source, user_id, chat_id, chat_type, thread_id, started_at DESC);
CREATE INDEX idx_sessions_handoff_state
    ON sessions(handoff_state, started_at);
CREATE UNIQUE INDEX idx_sessions_title_unique ON sessions(title) WHERE title IS NOT NULL;
CREATE VIRTUAL TABLE messages_fts USING fts5(
    content
);
CREATE TRIGGER messages_fts_insert AFTER INSERT ON messages BEGIN
    INSERT INTO messages_fts(rowid, content) VALUES (
        new.id,
        COALESCE(new.content, '') || ' ' || COALESCE(new.tool_name, '') || ' ' || COALESCE(new.tool_calls, '')
    );
END;
CREATE TRIGGER messages_fts_delete AFTER DELETE ON messages BEGIN
    DELETE FROM messages_fts WHERE rowid = old.id;
END;
CREATE TRIGGER messages_fts_update AFTER UPDATE ON messages BEGIN
    DELETE FROM messages_fts WHERE rowid = old.id;
    INSERT INTO messages_fts(rowid, content) VALUES (
        new.id,
        COALESCE(new.content, '') || ' ' || COALESCE(new.tool_name, '') || ' ' || COALESCE(new.tool_calls, '')
    );
END;
CREATE VIRTUAL TABLE messages_fts_trigram USING fts5(
    content,
    tokenize='trigram'
);
CREATE TRIGGER messages_fts_trigram_insert AFTER INSERT ON messages BEGIN
    INSERT INTO messages_fts_trigram(rowid, content) VALUES (
        new.id,
        COALESCE(new.content, '') || ' ' || COALESCE(new.tool_name, '') || ' ' || COALESCE(new.tool_calls, '')
    );
END;
CREATE TRIGGER messages_fts_trigram_delete AFTER DELETE ON messages BEGIN
    DELETE FROM messages_fts_trigram WHERE rowid = old.id;
END;
CREATE TRIGGER messages_fts_trigram_update AFTER UPDATE ON messages BEGIN
    DELETE FROM messages_fts_trigram WHERE rowid = old.id;
    INSERT INTO messages_fts_trigram(rowid, content) VALUES (
        new.id,
        COALESCE(new.content, '') || ' ' || COALESCE(new.tool_name, '') || ' ' || COALESCE(new.tool_calls, '')
    );
END;
CREATE TABLE tl_meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;
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
, halted INTEGER NOT NULL DEFAULT 0, parent TEXT, rest TEXT, upkeep TEXT, active INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;
CREATE INDEX tl_session_unfinished ON tl_session(touched) WHERE unfinished = 1;
CREATE INDEX tl_session_principal ON tl_session(principal) WHERE principal IS NOT NULL;
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
    envelope TEXT NOT NULL, answers INTEGER, joined INTEGER,
    PRIMARY KEY (session, seq)
) WITHOUT ROWID;
CREATE INDEX tl_inbox_implicit ON tl_inbox(implicit) WHERE implicit IS NOT NULL;
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
    open TEXT, head_model INTEGER NOT NULL DEFAULT 0, head_tools INTEGER NOT NULL DEFAULT 0, head_system INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (session, number)
) WITHOUT ROWID;
CREATE TABLE tl_call (
    session TEXT NOT NULL,
    step INTEGER NOT NULL,
    position INTEGER NOT NULL,
    at INTEGER NOT NULL,
    detail TEXT NOT NULL, state INTEGER NOT NULL DEFAULT 2,
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
, trace TEXT);
CREATE INDEX tl_outbox_undelivered ON tl_outbox(number) WHERE state < 2;
CREATE TABLE tl_route (
    chat TEXT PRIMARY KEY,
    session TEXT NOT NULL,
    entry TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX tl_route_session ON tl_route(session);
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
    at INTEGER NOT NULL, successor TEXT, not_before INTEGER NOT NULL DEFAULT 0, parked TEXT,
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
    summary TEXT, cause INTEGER NOT NULL DEFAULT 0, focus TEXT, began INTEGER NOT NULL DEFAULT 0, messages INTEGER NOT NULL DEFAULT 0, tokens INTEGER NOT NULL DEFAULT 0, reach INTEGER NOT NULL DEFAULT 0, orders TEXT, reason TEXT,
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
CREATE TABLE tl_unindexed (
    id INTEGER PRIMARY KEY
);
CREATE INDEX tl_session_halted ON tl_session(touched) WHERE halted = 1;
CREATE INDEX tl_session_parent ON tl_session(parent) WHERE parent IS NOT NULL;
CREATE INDEX tl_call_asking ON tl_call(at) WHERE state = 1;
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
CREATE TABLE tl_place (
    id INTEGER PRIMARY KEY,
    session TEXT NOT NULL,
    place INTEGER NOT NULL
);
CREATE TABLE tl_draft (
    key TEXT PRIMARY KEY,
    session TEXT NOT NULL,
    destination TEXT NOT NULL,
    platform_id TEXT,                -- NULL: about to be posted, and perhaps there
    at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX tl_finalisation_parked ON tl_finalisation(at) WHERE parked IS NOT NULL;
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
CREATE TABLE tl_reset (
    chat TEXT PRIMARY KEY,
    session TEXT NOT NULL,
    reason TEXT NOT NULL,
    at INTEGER NOT NULL,
    had_activity INTEGER NOT NULL
) WITHOUT ROWID;
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
, erases INTEGER NOT NULL DEFAULT 0);
CREATE INDEX tl_retention_open ON tl_retention(document, number) WHERE state IN (0, 1);
CREATE INDEX tl_retention_session ON tl_retention(session, state);
CREATE INDEX tl_retention_refused ON tl_retention(number) WHERE state = 3;
CREATE TABLE tl_document (
    provider TEXT NOT NULL,
    subject TEXT NOT NULL,               -- the chat, or the session where there is none
    name TEXT NOT NULL,
    own INTEGER NOT NULL,                -- nobody else may have it
    at INTEGER NOT NULL,
    PRIMARY KEY (provider, subject)
) WITHOUT ROWID;
CREATE INDEX tl_document_name ON tl_document(provider, name);
CREATE TABLE tl_review (
    session TEXT NOT NULL,
    number INTEGER NOT NULL,         -- from one, in each session
    subject TEXT NOT NULL,           -- memory, skills, combined
    state INTEGER NOT NULL,          -- 0 due, 1 done, 2 set aside
    turn INTEGER NOT NULL,
    step INTEGER NOT NULL,           -- the number of the step whose answer it follows
    view INTEGER NOT NULL,
    last_row INTEGER NOT NULL,       -- what was said last when it fell due
    rows TEXT,                       -- what the view showed then, in order; gone when it is over
    prompt TEXT,                     -- the system prompt then; likewise
    due INTEGER NOT NULL,
    destination TEXT,
    model TEXT,                      -- what a person had chosen
    tries INTEGER NOT NULL,
    lost INTEGER NOT NULL,
    not_before INTEGER NOT NULL,
    settled INTEGER,
    outcome TEXT,                    -- what it changed, or why it was set aside
    asked INTEGER NOT NULL DEFAULT 0,
    answered_by TEXT,
    input INTEGER NOT NULL DEFAULT 0,
    output INTEGER NOT NULL DEFAULT 0,
    cache_read INTEGER NOT NULL DEFAULT 0,
    cache_write INTEGER NOT NULL DEFAULT 0,
    reasoning INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (session, number)
) WITHOUT ROWID;
CREATE INDEX tl_review_open ON tl_review(due) WHERE state <> 1;
CREATE INDEX tl_retention_due ON tl_retention(provider, number) WHERE state = 1;
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
INSERT INTO "schema_version" VALUES(22);
INSERT INTO "sessions" VALUES('calls','telegram','u','agent:main:telegram:dm:72','72','dm',NULL,'Ada','{"platform": "telegram", "chat_id": "72", "chat_name": "Ada", "chat_type": "dm"}',0,'model-1',NULL,NULL,NULL,1763240000.0,NULL,NULL,1,0,100,10,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL,0,NULL,0,0);
INSERT INTO "sessions" VALUES('kept','telegram','u','agent:main:telegram:dm:75','75','dm',NULL,'Ada','{"platform": "telegram", "chat_id": "75", "chat_name": "Ada", "chat_type": "dm"}',0,'model-1',NULL,'You are a test.',NULL,1763240000.0,NULL,NULL,2,0,100,10,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL,0,NULL,0,0);
INSERT INTO "sessions" VALUES('kinds','telegram','u','agent:main:telegram:dm:70','70','dm',NULL,'Ada','{"platform": "telegram", "chat_id": "70", "chat_name": "Ada", "chat_type": "dm"}',0,NULL,NULL,NULL,NULL,1763240000.0,NULL,NULL,0,0,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,0,NULL,0,0);
INSERT INTO "sessions" VALUES('outcomes','telegram','u','agent:main:telegram:dm:71','71','dm',NULL,'Ada','{"platform": "telegram", "chat_id": "71", "chat_name": "Ada", "chat_type": "dm"}',0,NULL,'{"_stateless": true}',NULL,NULL,1763240000.0,NULL,NULL,13,0,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,0,NULL,0,0);
INSERT INTO "sessions" VALUES('preparing','telegram','u','agent:main:telegram:dm:74','74','dm',NULL,'Ada','{"platform": "telegram", "chat_id": "74", "chat_name": "Ada", "chat_type": "dm"}',0,NULL,NULL,NULL,NULL,1763240000.0,NULL,NULL,3,0,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,0,NULL,0,0);
INSERT INTO "sessions" VALUES('ready','telegram','u','agent:main:telegram:dm:73','73','dm',NULL,'Ada','{"platform": "telegram", "chat_id": "73", "chat_name": "Ada", "chat_type": "dm"}',0,NULL,NULL,NULL,NULL,1763240000.0,NULL,NULL,3,0,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,0,NULL,0,0);
INSERT INTO "sessions" VALUES('s0','test','u','agent:main:test:dm:0','0','dm',NULL,'Chat 0','{"platform": "test", "chat_id": "0", "user_id": "u"}',0,'model',NULL,'You are a test.',NULL,1700000000.027027,NULL,NULL,7,0,320,21,9,6,3,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'a title 0',3,NULL,NULL,NULL,NULL,NULL,0,NULL,0,0);
INSERT INTO "sessions" VALUES('s1','test','u','agent:main:test:dm:1','1','dm',NULL,'Chat 1','{"platform": "test", "chat_id": "1", "user_id": "u"}',0,'model',NULL,'You are a test.',NULL,1700000000.057057,NULL,NULL,1,0,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,0,NULL,0,0);
INSERT INTO "sessions" VALUES('s2','api_server','u',NULL,NULL,NULL,NULL,NULL,NULL,0,'model',NULL,'You are a test.',NULL,1700000000.029029,NULL,NULL,1,0,10,7,3,2,1,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,NULL,NULL,0,NULL,0,0);
INSERT INTO "sessions" VALUES('s3','api_server','u',NULL,NULL,NULL,NULL,NULL,NULL,0,'model',NULL,'You are a test.',NULL,1700000000.014014,NULL,NULL,3,0,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,0,NULL,0,0);
INSERT INTO "sessions" VALUES('s4','subagent',NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'model','{"_delegate_from": "s2"}','You are a test.','s2',1700000000.04004,NULL,NULL,1,0,0,0,0,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,0,NULL,0,0);
INSERT INTO "messages" VALUES(2,'s3','user','from long ago',NULL,NULL,NULL,NULL,1600000000.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1,0,NULL);
INSERT INTO "messages" VALUES(4,'s3','user','nï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
ünï
漢',NULL,NULL,NULL,NULL,1700000000.014014,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1,0,NULL);
INSERT INTO "messages" VALUES(6,'s2','user','..',NULL,NULL,NULL,NULL,1700000000.029029,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1,0,NULL);
INSERT INTO "messages" VALUES(8,'s4','user','..',NULL,NULL,NULL,NULL,1700000000.041041,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1,0,NULL);
INSERT INTO "messages" VALUES(10,'s1','user','ünï — 漢字',NULL,NULL,NULL,NULL,1700000000.057057,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'13',0,1,0,NULL);
INSERT INTO "messages" VALUES(12,'s3','user','hi',NULL,NULL,NULL,NULL,1700000000.038038,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1,0,NULL);
INSERT INTO "messages" VALUES(14,'s0','user','hi',NULL,NULL,NULL,NULL,1700000000.077077,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'23',0,1,0,NULL);
INSERT INTO "messages" VALUES(16,'s0','assistant','ho',NULL,NULL,NULL,NULL,1700000000.079079,NULL,'stop',NULL,NULL,NULL,NULL,NULL,NULL,0,1,0,NULL);
INSERT INTO "messages" VALUES(18,'s0','user','hi',NULL,NULL,NULL,NULL,1700000000.082082,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'26',0,1,0,NULL);
INSERT INTO "messages" VALUES(19,'s0','user','[SUMMARY 1 summary, part 0 — ünï]',NULL,NULL,NULL,NULL,1700000000.082082,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,1,NULL);
INSERT INTO "messages" VALUES(20,'s0','assistant','ho',NULL,NULL,NULL,NULL,1700000000.091091,NULL,'stop',NULL,NULL,NULL,NULL,NULL,NULL,0,1,0,NULL);
INSERT INTO "messages" VALUES(22,'s0','user','hi',NULL,NULL,NULL,NULL,1700000000.089089,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'27',0,1,0,NULL);
INSERT INTO "messages" VALUES(24,'s0','user','hi',NULL,NULL,NULL,NULL,1700000000.092092,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'29',0,1,0,NULL);
INSERT INTO "messages" VALUES(26,'s0','assistant','ho',NULL,NULL,NULL,NULL,1700000000.11011,NULL,'stop',NULL,NULL,NULL,NULL,NULL,NULL,0,1,0,NULL);
INSERT INTO "messages" VALUES(28,'outcomes','user','words 1',NULL,NULL,NULL,NULL,1763240000.000001,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1,0,NULL);
INSERT INTO "messages" VALUES(30,'outcomes','user','words 2',NULL,NULL,NULL,NULL,1763240000.000002,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'p2',0,1,0,NULL);
INSERT INTO "messages" VALUES(32,'outcomes','user','words 3',NULL,NULL,NULL,NULL,1763240000.000003,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1,0,NULL);
INSERT INTO "messages" VALUES(34,'outcomes','user','words 4',NULL,NULL,NULL,NULL,1763240000.000004,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'p4',0,1,0,NULL);
INSERT INTO "messages" VALUES(36,'outcomes','user','words 5',NULL,NULL,NULL,NULL,1763240000.000005,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1,0,NULL);
INSERT INTO "messages" VALUES(38,'outcomes','user','words 6',NULL,NULL,NULL,NULL,1763240000.000006,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'p6',0,1,0,NULL);
INSERT INTO "messages" VALUES(40,'outcomes','user','words 7',NULL,NULL,NULL,NULL,1763240000.000007,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1,0,NULL);
INSERT INTO "messages" VALUES(42,'outcomes','user','words 8',NULL,NULL,NULL,NULL,1763240000.000008,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'p8',0,1,0,NULL);
INSERT INTO "messages" VALUES(44,'outcomes','user','words 9',NULL,NULL,NULL,NULL,1763240000.000009,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1,0,NULL);
INSERT INTO "messages" VALUES(46,'outcomes','user','words 10',NULL,NULL,NULL,NULL,1763240000.00001,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'p10',0,1,0,NULL);
INSERT INTO "messages" VALUES(48,'outcomes','user','words 11',NULL,NULL,NULL,NULL,1763240000.000011,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1,0,NULL);
INSERT INTO "messages" VALUES(50,'outcomes','user','words 12',NULL,NULL,NULL,NULL,1763240000.000012,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'p12',0,1,0,NULL);
INSERT INTO "messages" VALUES(52,'outcomes','user','words 13',NULL,NULL,NULL,NULL,1763240000.000013,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1,0,NULL);
INSERT INTO "messages" VALUES(54,'calls','user','do it',NULL,NULL,NULL,NULL,1763240000.000001,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1,0,NULL);
INSERT INTO "messages" VALUES(56,'ready','user','words 1',NULL,NULL,NULL,NULL,1763240000.000001,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1,0,NULL);
INSERT INTO "messages" VALUES(58,'ready','user','words 2',NULL,NULL,NULL,NULL,1763240000.000002,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'p2',0,1,0,NULL);
INSERT INTO "messages" VALUES(60,'ready','user','words 3',NULL,NULL,NULL,NULL,1763240000.000003,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1,0,NULL);
INSERT INTO "messages" VALUES(62,'preparing','user','words 1',NULL,NULL,NULL,NULL,1763240000.000001,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1,0,NULL);
INSERT INTO "messages" VALUES(64,'preparing','user','words 2',NULL,NULL,NULL,NULL,1763240000.000002,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'p2',0,1,0,NULL);
INSERT INTO "messages" VALUES(66,'preparing','user','words 3',NULL,NULL,NULL,NULL,1763240000.000003,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1,0,NULL);
INSERT INTO "messages" VALUES(68,'kept','user','remember',NULL,NULL,NULL,NULL,1763240000.000001,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1,0,NULL);
INSERT INTO "messages" VALUES(70,'kept','assistant','noted',NULL,NULL,NULL,NULL,1763240000.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,1,0,NULL);
INSERT INTO "session_model_usage" VALUES('calls','model-1','','','','',1,100,10,0,0,0,0.0,0.0,NULL,NULL,1763240000.0,1763240000.0);
INSERT INTO "session_model_usage" VALUES('kept','model-1','','','','',1,100,10,0,0,0,0.0,0.0,NULL,NULL,1763240000.0,1763240000.0);
INSERT INTO "session_model_usage" VALUES('s0','model-1','','','','',3,320,21,9,6,3,0.0,0.0,NULL,NULL,1700000000.079079,1700000000.111111);
INSERT INTO "session_model_usage" VALUES('s2','model-1','','','','',1,10,7,3,2,1,0.0,0.0,NULL,NULL,1700000000.062062,1700000000.062062);
INSERT INTO "gateway_routing" VALUES('/tmp/fx/sessions','agent:main:telegram:dm:70','{"session_key": "agent:main:telegram:dm:70", "session_id": "kinds", "created_at": "2025-11-15T20:53:20", "updated_at": "2025-11-15T20:53:20", "display_name": "Ada", "platform": "telegram", "chat_type": "dm", "input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 0, "cache_write_tokens": 0, "total_tokens": 0, "last_prompt_tokens": 0, "estimated_cost_usd": 0.0, "cost_status": "unknown", "expiry_finalized": false, "suspended": false, "resume_pending": false, "resume_reason": null, "last_resume_marked_at": null, "is_fresh_reset": false, "was_auto_reset": false, "auto_reset_reason": null, "reset_had_activity": false, "origin": {"platform": "telegram", "chat_id": "70", "chat_name": "Ada", "chat_type": "dm", "user_id": null, "user_name": null, "thread_id": null, "chat_topic": null}}',1763240000.0);
INSERT INTO "gateway_routing" VALUES('/tmp/fx/sessions','agent:main:telegram:dm:71','{"session_key": "agent:main:telegram:dm:71", "session_id": "outcomes", "created_at": "2025-11-15T20:53:20", "updated_at": "2025-11-15T20:53:20", "display_name": "Ada", "platform": "telegram", "chat_type": "dm", "input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 0, "cache_write_tokens": 0, "total_tokens": 0, "last_prompt_tokens": 0, "estimated_cost_usd": 0.0, "cost_status": "unknown", "expiry_finalized": false, "suspended": false, "resume_pending": false, "resume_reason": null, "last_resume_marked_at": null, "is_fresh_reset": false, "was_auto_reset": false, "auto_reset_reason": null, "reset_had_activity": false, "origin": {"platform": "telegram", "chat_id": "71", "chat_name": "Ada", "chat_type": "dm", "user_id": null, "user_name": null, "thread_id": null, "chat_topic": null}}',1763240000.0);
INSERT INTO "gateway_routing" VALUES('/tmp/fx/sessions','agent:main:telegram:dm:72','{"session_key": "agent:main:telegram:dm:72", "session_id": "calls", "created_at": "2025-11-15T20:53:20", "updated_at": "2025-11-15T20:53:20", "display_name": "Ada", "platform": "telegram", "chat_type": "dm", "input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 0, "cache_write_tokens": 0, "total_tokens": 0, "last_prompt_tokens": 0, "estimated_cost_usd": 0.0, "cost_status": "unknown", "expiry_finalized": false, "suspended": false, "resume_pending": false, "resume_reason": null, "last_resume_marked_at": null, "is_fresh_reset": false, "was_auto_reset": false, "auto_reset_reason": null, "reset_had_activity": false, "origin": {"platform": "telegram", "chat_id": "72", "chat_name": "Ada", "chat_type": "dm", "user_id": null, "user_name": null, "thread_id": null, "chat_topic": null}}',1763240000.0);
INSERT INTO "gateway_routing" VALUES('/tmp/fx/sessions','agent:main:telegram:dm:73','{"session_key": "agent:main:telegram:dm:73", "session_id": "ready", "created_at": "2025-11-15T20:53:20", "updated_at": "2025-11-15T20:53:20", "display_name": "Ada", "platform": "telegram", "chat_type": "dm", "input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 0, "cache_write_tokens": 0, "total_tokens": 0, "last_prompt_tokens": 0, "estimated_cost_usd": 0.0, "cost_status": "unknown", "expiry_finalized": false, "suspended": false, "resume_pending": false, "resume_reason": null, "last_resume_marked_at": null, "is_fresh_reset": false, "was_auto_reset": false, "auto_reset_reason": null, "reset_had_activity": false, "origin": {"platform": "telegram", "chat_id": "73", "chat_name": "Ada", "chat_type": "dm", "user_id": null, "user_name": null, "thread_id": null, "chat_topic": null}}',1763240000.0);
INSERT INTO "gateway_routing" VALUES('/tmp/fx/sessions','agent:main:telegram:dm:74','{"session_key": "agent:main:telegram:dm:74", "session_id": "preparing", "created_at": "2025-11-15T20:53:20", "updated_at": "2025-11-15T20:53:20", "display_name": "Ada", "platform": "telegram", "chat_type": "dm", "input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 0, "cache_write_tokens": 0, "total_tokens": 0, "last_prompt_tokens": 0, "estimated_cost_usd": 0.0, "cost_status": "unknown", "expiry_finalized": false, "suspended": false, "resume_pending": false, "resume_reason": null, "last_resume_marked_at": null, "is_fresh_reset": false, "was_auto_reset": false, "auto_reset_reason": null, "reset_had_activity": false, "origin": {"platform": "telegram", "chat_id": "74", "chat_name": "Ada", "chat_type": "dm", "user_id": null, "user_name": null, "thread_id": null, "chat_topic": null}}',1763240000.0);
INSERT INTO "gateway_routing" VALUES('/tmp/fx/sessions','agent:main:telegram:dm:75','{"session_key": "agent:main:telegram:dm:75", "session_id": "kept", "created_at": "2025-11-15T20:53:20", "updated_at": "2025-11-15T20:53:20", "display_name": "Ada", "platform": "telegram", "chat_type": "dm", "input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 0, "cache_write_tokens": 0, "total_tokens": 0, "last_prompt_tokens": 100, "estimated_cost_usd": 0.0, "cost_status": "unknown", "expiry_finalized": false, "suspended": false, "resume_pending": false, "resume_reason": null, "last_resume_marked_at": null, "is_fresh_reset": false, "was_auto_reset": false, "auto_reset_reason": null, "reset_had_activity": false, "origin": {"platform": "telegram", "chat_id": "75", "chat_name": "Ada", "chat_type": "dm", "user_id": null, "user_name": null, "thread_id": null, "chat_topic": null}}',1763240000.0);
INSERT INTO "gateway_routing" VALUES('/tmp/fx/sessions','agent:main:test:dm:0','{"session_key": "agent:main:test:dm:0", "session_id": "s0", "created_at": "2023-11-14T22:13:20.027027", "updated_at": "2023-11-14T22:13:20.111111", "display_name": "Chat 0", "platform": "test", "chat_type": "dm", "input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 0, "cache_write_tokens": 0, "total_tokens": 0, "last_prompt_tokens": 15, "estimated_cost_usd": 0.0, "cost_status": "unknown", "expiry_finalized": false, "suspended": false, "resume_pending": false, "resume_reason": null, "last_resume_marked_at": null, "is_fresh_reset": false, "was_auto_reset": false, "auto_reset_reason": null, "reset_had_activity": false, "origin": {"platform": "test", "chat_id": "0", "chat_name": null, "chat_type": "dm", "user_id": "u", "user_name": null, "thread_id": null, "chat_topic": null}}',1700000000.111111);
INSERT INTO "gateway_routing" VALUES('/tmp/fx/sessions','agent:main:test:dm:1','{"session_key": "agent:main:test:dm:1", "session_id": "s1", "created_at": "2023-11-14T22:13:20.057057", "updated_at": "2023-11-14T22:13:20.057057", "display_name": "Chat 1", "platform": "test", "chat_type": "dm", "input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 0, "cache_write_tokens": 0, "total_tokens": 0, "last_prompt_tokens": 0, "estimated_cost_usd": 0.0, "cost_status": "unknown", "expiry_finalized": false, "suspended": false, "resume_pending": false, "resume_reason": null, "last_resume_marked_at": null, "is_fresh_reset": false, "was_auto_reset": false, "auto_reset_reason": null, "reset_had_activity": false, "origin": {"platform": "test", "chat_id": "1", "chat_name": null, "chat_type": "dm", "user_id": "u", "user_name": null, "thread_id": null, "chat_topic": null}}',1700000000.057057);
INSERT INTO "tl_meta" VALUES('baseline','1763240000000000');
INSERT INTO "tl_meta" VALUES('boot','5');
INSERT INTO "tl_meta" VALUES('schema','9');
INSERT INTO "tl_meta" VALUES('sessions.json','61e9cd708f2ac2bc8852338045ea16d99df65e06b64e57c1adf9f1776c2154cc be5cec0eb57e4931fd747ca6d752da656908f51eb36c95d67a3e03e52bf0b0ba');
INSERT INTO "tl_session" VALUES('calls',0,1,1,1,0,1,1,1763240000000000,1,0,NULL,NULL,NULL,1,1,54,0,1763240000000000,NULL,NULL,NULL,0,NULL,'{"first_step":1,"spent":110,"exhausted":true,"repeated":["eca8daf67b07b6ecd9f8150603b0dbb308f0026ffe0167af99f6db7a7250cac5","25ad539354c12e5dea4f3d24b04a163e9bddbe097911719271ef2ab684141cf2",3],"said":"On the \"way\".","held":true,"refused":true,"promotions":2}','{"context":0}',0);
INSERT INTO "tl_session" VALUES('kept',0,1,1,1,1,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,1,70,0,1763240000000000,NULL,NULL,x'c1d464e97eebc398d208285dd1b83bdf305aed804e718f261d6ef509772edf15',0,NULL,'{"reviews":[0,0,1]}','{"context":0}',0);
INSERT INTO "tl_session" VALUES('kinds',0,1,1,39,0,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,0,0,1763240000000000,NULL,NULL,NULL,1,NULL,'{"allowed":["recursive delete","ünï"],"place":{"platform":"telegram","account":"bot","chat":"-100 \"ünï\"","thread":"7","reply_to":"99"},"foreign":["m7",2,3,-5],"untold":["You were cut."],"announced":["k1","k2"],"reviews":[4,5,0],"preferences":{"model":"m/1","reasoning":"high","personality":["pirate","Say \"arr\"."],"yolo":true,"tools":"new"}}','{"context":146000,"wanted":true,"operations":3,"failures":2,"unworthy":9,"not_before":5,"snapshot":1779960910000000,"recent":[1,2]}',0);
INSERT INTO "tl_session" VALUES('outcomes',0,1,1,13,13,0,NULL,NULL,NULL,NULL,NULL,1,NULL,0,0,52,0,1763240000000000,NULL,NULL,NULL,0,NULL,'{"finalised":true,"stateless":true,"failed_step":2}','{"context":0}',0);
INSERT INTO "tl_session" VALUES('preparing',1,1,1,4,3,0,NULL,NULL,NULL,NULL,NULL,NULL,1,1,0,66,0,1763240000000000,NULL,NULL,NULL,0,NULL,NULL,'{"context":0,"operations":1}',0);
INSERT INTO "tl_session" VALUES('ready',1,1,1,4,3,0,NULL,NULL,NULL,NULL,NULL,NULL,1,0,0,60,0,1763240000000000,NULL,NULL,NULL,0,NULL,NULL,'{"context":0,"operations":1}',0);
INSERT INTO "tl_session" VALUES('s0',2,1,3,12,6,0,NULL,NULL,NULL,NULL,NULL,NULL,2,1,3,26,0,1700000000129129,NULL,NULL,x'c1d464e97eebc398d208285dd1b83bdf305aed804e718f261d6ef509772edf15',0,NULL,'{"place":{"platform":"test","account":"bot","chat":"chat0","reply_to":"39"},"reviews":[0,0,2]}','{"context":0,"operations":2,"snapshot":1700000000114114,"recent":[1700000000128128]}',1700000000127127);
INSERT INTO "tl_session" VALUES('s1',0,1,1,3,0,1,1,1700000000057057,0,0,NULL,NULL,NULL,1,0,10,0,1700000000069069,NULL,NULL,x'c1d464e97eebc398d208285dd1b83bdf305aed804e718f261d6ef509772edf15',0,NULL,'{"place":{"platform":"test","account":"bot","chat":"chat1","reply_to":"20"},"reviews":[1,0,0]}','{"context":8}',1700000000064064);
INSERT INTO "tl_session" VALUES('s2',0,1,1,5,0,1,1,1700000000030030,0,0,NULL,NULL,NULL,1,1,6,0,1700000000118118,'p',NULL,x'c1d464e97eebc398d208285dd1b83bdf305aed804e718f261d6ef509772edf15',0,NULL,'{"spent":22}','{"context":22}',1700000000117117);
INSERT INTO "tl_session" VALUES('s3',2,1,1,3,1,1,2,1700000000076076,0,0,NULL,NULL,NULL,1,0,12,0,1700000000113113,'p',NULL,x'c1d464e97eebc398d208285dd1b83bdf305aed804e718f261d6ef509772edf15',0,NULL,'{"reviews":[2,0,0],"promotions":2}','{"context":310,"operations":1,"unworthy":342}',1700000000112112);
INSERT INTO "tl_session" VALUES('s4',0,1,1,5,0,1,2,1700000000042042,0,0,NULL,NULL,NULL,1,0,8,0,1700000000061061,'p',NULL,x'c1d464e97eebc398d208285dd1b83bdf305aed804e718f261d6ef509772edf15',0,'s2',NULL,'{"context":5}',1700000000061061);
INSERT INTO "tl_seen" VALUES('00f70e2eac98f28f5f7c7098907da55dfc870795fff805192965b67d5edac600','s0',7,NULL);
INSERT INTO "tl_seen" VALUES('0124e86b09cac84fa0539b4a739c42f56b05d596bb2481d923cf7fbe55260547','outcomes',1,NULL);
INSERT INTO "tl_seen" VALUES('0494d5a48fd1935ac3c47604e972865cf25d9342bb481175882ae87ef20900b3','kinds',38,NULL);
INSERT INTO "tl_seen" VALUES('0b27e3a4177af97552d7ca43870e22a08e719e478d678b60942bb9f71c6dd923','s1',2,NULL);
INSERT INTO "tl_seen" VALUES('0d90263eb7cc14f172e6c669a1004f0d08d7fd10c27e0ee1699b805cd1529e48','s4',1,NULL);
INSERT INTO "tl_seen" VALUES('12ed0759ff33239d0f0f8cb378b1db83fa260d5aa6c4daea69ff0400c18992b8','s0',3,NULL);
INSERT INTO "tl_seen" VALUES('169e43268ef22ed9749811236eb97c650b9ffdb4e00301e428778813786f7dfb','kinds',33,NULL);
INSERT INTO "tl_seen" VALUES('189e8d85254a15fe6b8e42d7f2ad568c8633d233bf95a5be617d24813eb26dd7','kinds',17,NULL);
INSERT INTO "tl_seen" VALUES('1a296db09cadd96dc58c16de346cd0817268b1166a7f81711628740062412802','kinds',25,NULL);
INSERT INTO "tl_seen" VALUES('1c6ab9a6a6b833b6024ac3735c87e2f9891cabb222c4f0c7c0acd4aabeb983a9','ready',2,NULL);
INSERT INTO "tl_seen" VALUES('1ee3b95d11456a81663dcaa1c9c058df30ad88f8fd818e665e83b63d90cde910','s4',3,NULL);
INSERT INTO "tl_seen" VALUES('25b9435e4c66256dad5af7d6a022a158078b2fcb574e6254c163aa8f8dc6900b','s2',3,NULL);
INSERT INTO "tl_seen" VALUES('263265d1794cd48e8441325afa67e3c7da549fb2e86f206e672aa37c943b582d','kinds',5,NULL);
INSERT INTO "tl_seen" VALUES('28c9c940c916139e128e68879965c7db33161fad72c4024fa45bb013719ddb77','kinds',29,NULL);
INSERT INTO "tl_seen" VALUES('292f09509eb75014d207afb3c51c04e65cb78752cd14bf14ba5413f578a25e5c','outcomes',10,NULL);
INSERT INTO "tl_seen" VALUES('2ba0b7f2e0098c3c150be3526caf444dfa8e6fb6ac5447517915e11421360deb','kinds',14,NULL);
INSERT INTO "tl_seen" VALUES('2c27edf54f252eeb086597f09b579f2299938f792c508fb07ebe583ea91cdf9c','s2',2,NULL);
INSERT INTO "tl_seen" VALUES('2c86e19416ca8017ce9ae875df98f902f5600941a29944bb1ee063924be90372','kinds',13,NULL);
INSERT INTO "tl_seen" VALUES('2cd763e612cf97e3a09b7d30a7c96e5ecc193079120ef1345b62670617bd051e','kinds',3,NULL);
INSERT INTO "tl_seen" VALUES('3196f937cd27df511b27cc3547cdad7007f708484719736632abe9f28216a412','kinds',24,NULL);
INSERT INTO "tl_seen" VALUES('369e6eeac592d53fef026015c1ab90bc70cb9697eae6d592fff89007e0d85ab3','s3',1,x'3d7721488f92e7d0b9400ce7a575793bee5723f7820bffe0a94f46983081dcdf');
INSERT INTO "tl_seen" VALUES('38ebfbc75c5adea0c01fbf82e2e193b5f8d745af1e77e594cbc83f3c607366fa','preparing',1,NULL);
INSERT INTO "tl_seen" VALUES('3a73c58a7b7a1f8f96e0f6ead4d4473a319908033f26f1d56c82d0917b9abd7c','s1',3,NULL);
INSERT INTO "tl_seen" VALUES('3a9db6205b9fe056b1446528c05bfd99ada3bb7f0e1bd5eea7ca1f82a53a6d44','kinds',8,NULL);
INSERT INTO "tl_seen" VALUES('3ac6425b9e084e8749c52957763b535072611e0c482dd353ffa5278d71168269','outcomes',13,NULL);
INSERT INTO "tl_seen" VALUES('3b2af6e38a48b77c25f1370ff8e7005c185f10398a076d0a85913aac989feb55','calls',1,NULL);
INSERT INTO "tl_seen" VALUES('417eae761f4401ee23530060356f26fd1f137de46dfc21bf94ba75371e9cf8d5','preparing',3,NULL);
INSERT INTO "tl_seen" VALUES('4659499aa59d8fc47cd038074ea1b800d604383559b20dea88af16d5c6ebd783','kinds',2,NULL);
INSERT INTO "tl_seen" VALUES('4cfc9c77980dfa9c670c77cbe65a9df7f01dc4c340ea89849ed0659ded4b83c5','kinds',10,NULL);
INSERT INTO "tl_seen" VALUES('4eb9560fea63fd5b2f7c2d8cb867d4e054c3b747fe903e1467aa104a283a4f5c','s0',11,NULL);
INSERT INTO "tl_seen" VALUES('4eefb44c8ec2874c62dd7c5c09057df817c81fb8a8a93aa87937ed16a76a56a8','s4',2,NULL);
INSERT INTO "tl_seen" VALUES('5092b732e3738c76a2db6483fd159c51f0cc32d254c836ed0f2a5a5e76858081','s0',2,NULL);
INSERT INTO "tl_seen" VALUES('5148fb549ff0cd37313382eec17c684ee24e69db607ebf8dd38aa28115b0c442','preparing',4,NULL);
INSERT INTO "tl_seen" VALUES('515118c1429fcc11ae78ece40c30f58d72141b755c223c4141caff7b186ca1bc','kinds',6,x'0fdb9441c0d2a00b0e701bbe3656447421d3ceaf523d90c5f6c64faa9ff8b402');
INSERT INTO "tl_seen" VALUES('5285f6ac909eb5bc7df6aa1f947441d94c09f6d4f4ccf3fec911457ed0a6247f','kinds',12,NULL);
INSERT INTO "tl_seen" VALUES('53adcd951ccccdfa173f4276d69ddf7542456668b91e674375ea479bdd59bc87','kinds',36,NULL);
INSERT INTO "tl_seen" VALUES('5422606037d6168f4ce4ef8812dc6fd7e11d75a96cec35f676e9066953882fcb','kinds',21,NULL);
INSERT INTO "tl_seen" VALUES('57ec31afabd3edcdbfe8129fc29e0ed62453ae4fecb2b6c4e30e86399869221f','kinds',9,NULL);
INSERT INTO "tl_seen" VALUES('59e9e1342068f1d9bec0a3adc0498bb5a005dd0252481b2d616eabfd3cdf62f4','outcomes',7,NULL);
INSERT INTO "tl_seen" VALUES('5c40149b05feff5d6325cf7912539f58affa5ec9664ffbf01d2b8b30f2ca1547','s0',5,NULL);
INSERT INTO "tl_seen" VALUES('5d2f5e5b56934047ea612390bd10cd62205a20d1c07176067ebf54159e78fac6','kinds',31,NULL);
INSERT INTO "tl_seen" VALUES('6290bf78a21176aebc962504dfcdc1e36ef1e5b61804296e6973109b1f0afdaa','kinds',32,NULL);
INSERT INTO "tl_seen" VALUES('62d0cf98de6e63399929aed6a392fe9bc83d0555a6952cf00274ccc34883c251','kinds',34,NULL);
INSERT INTO "tl_seen" VALUES('65362bc9636e5ca990c12c73a622f6d3507c346236a406a36eca7694128acade','ready',1,NULL);
INSERT INTO "tl_seen" VALUES('65a2b325e4c1a67115548800c8a65028ae11b16a03c559cc7ecabc18f9f277f1','outcomes',3,NULL);
INSERT INTO "tl_seen" VALUES('6613dd5e26a82d9b6883799c21fafc166c5cf015dca9b2d75b28156b92c0ba93','kinds',27,NULL);
INSERT INTO "tl_seen" VALUES('6724ed6b1aea854227cecca2d454df4e375ba36ffa7614d32240702ffe6df5cf','s1',1,NULL);
INSERT INTO "tl_seen" VALUES('6e34435a18e32046f323ef61326ba525771f18b019d1f6e099bbabff0c89dcfb','s0',12,NULL);
INSERT INTO "tl_seen" VALUES('6f05b1298e7561a74025adc4f280e00bdfedd72e14f68445103b1ac726e83f0a','s0',10,NULL);
INSERT INTO "tl_seen" VALUES('78daca92e582e65a4abce6aaede53c0035cf6b42d14c57b1e773fe71120ae8a5','outcomes',5,NULL);
INSERT INTO "tl_seen" VALUES('7aa87cab9a1056d19396760832844d4e846d15706bdd4187abf3e8628ddcacec','kinds',19,NULL);
INSERT INTO "tl_seen" VALUES('7d9b6f5c7987d879a22abce03084bf146e0198c6c5915ac79cae533b14bf5c5f','kinds',23,NULL);
INSERT INTO "tl_seen" VALUES('7ed72093eaa7f7e57170189fcc769b782a0cff848f5a20a05ab50df224c9df8b','kinds',35,NULL);
INSERT INTO "tl_seen" VALUES('8663ed7ea6385e8117ab3e0e789302ebc7e43d0116a2521af917c15ee3538668','kinds',11,NULL);
INSERT INTO "tl_seen" VALUES('8c04be76004af79e13861772a0f4ccb5bedac50de97bfe95785cde5a4e594e8e','s0',8,NULL);
INSERT INTO "tl_seen" VALUES('8c0865ecc40ab144899c3e155373b191eea3c38cb03cd8175f7666eeda7bdc6c','kept',1,NULL);
INSERT INTO "tl_seen" VALUES('8efc6b28315f483f119d6fd52c8e17b00bac473b1c8c646c5405c89618bc407b','s3',2,x'ea3157669b71381037d848d081f57ddf3de78a3266a0c54321ef9df27413c7c7');
INSERT INTO "tl_seen" VALUES('93fe4e66c23d8b5bd964c5999ae46b9cee1dadc5f1cf67c8a152c74eb77d21b4','kinds',39,NULL);
INSERT INTO "tl_seen" VALUES('999ff561e36ed60685979f390e2ae7230c0975f48d6b64b58ec1188316d41144','ready',4,NULL);
INSERT INTO "tl_seen" VALUES('9ac365aaf6e44ede8839ee0a6ce64734a3417ab67c6d4d2aeb96067069377ce0','kinds',16,NULL);
INSERT INTO "tl_seen" VALUES('a379947f20e1dd66763cbd2d0a7a1a4d76fea805755f2ab4bc516d2233e9622b','kinds',15,NULL);
INSERT INTO "tl_seen" VALUES('a3b53064bb6dc69f6217f4c21783a583c00fc58fba8b8d5b3de695dcd27b7636','kinds',30,NULL);
INSERT INTO "tl_seen" VALUES('a565862e6c47de685e3f95129466f4a8b94205abe58f45733495bf53037ac221','s0',6,NULL);
INSERT INTO "tl_seen" VALUES('a8edb76c1711abc0d6e89011a9c35434e3511a877242fa1b6f23aacc0d2db3b5','outcomes',9,NULL);
INSERT INTO "tl_seen" VALUES('aa556f62ed223ec3511c73c2149f052821d809cfd024983986e3129e52705106','kinds',7,NULL);
INSERT INTO "tl_seen" VALUES('aa6417a1ae5ea05ff0f35dcb009579955bb9e934555c9aceed8478e1d311a9bd','kinds',20,NULL);
INSERT INTO "tl_seen" VALUES('b26fa7d3f6c06a7356d3ecc851430f099f9d4795ed0aa259868c13ea52f036af','kinds',4,NULL);
INSERT INTO "tl_seen" VALUES('b5cab4536702a9845d465fa0a999e347f9e71b1d0620ffc1add3deabd2ffb875','kinds',18,NULL);
INSERT INTO "tl_seen" VALUES('b72249bbc5e9c406a84ec4532d80625d2399a6089bf4ba67300beee07dd47713','s4',4,x'af5570f5a1810b7af78caf4bc70a660f0df51e42baf91d4de5b2328de0e83dfc');
INSERT INTO "tl_seen" VALUES('b740344aea6a3756c58cb40b56960aee80c6c8ba54e0f85777a03a54bfb0aa5a','outcomes',12,NULL);
INSERT INTO "tl_seen" VALUES('b89b5eeadf8605f84ceef11ce14af6dfd0bd0f4d03927825b7d1757df7ffabc6','kinds',1,NULL);
INSERT INTO "tl_seen" VALUES('b9719e12d67439db8bbf61cbb10f7cb13d6bc192954a5b24cf49282cec081760','ready',3,NULL);
INSERT INTO "tl_seen" VALUES('bd3e36e01a6225864e98ab0df242d710dcae5826e7f41736ea3acd0f27a2c798','s3',3,NULL);
INSERT INTO "tl_seen" VALUES('c1bddd755fd2efe1996981da2bb52f242a53edfb85e82ba9ca02b6fdfc98e226','kinds',22,NULL);
INSERT INTO "tl_seen" VALUES('c426360132c64bc5a5ad7385a15980cd6ec4918abfad294132dc90cf74844c42','s0',1,NULL);
INSERT INTO "tl_seen" VALUES('c6497019453ef4c68b978569b8548864eee270efbf190fcb86e8120ae32b9952','outcomes',2,NULL);
INSERT INTO "tl_seen" VALUES('c76f71274ec136ed25873effed94b65205e90710cfaccf29db832e1c73e8f10d','preparing',2,NULL);
INSERT INTO "tl_seen" VALUES('c7bc5b61292c20a4018923937eadef267fa954a7e0f735fba18df0190179c646','s2',1,NULL);
INSERT INTO "tl_seen" VALUES('c8067187c5fa1a8f041b4879c3af7e2323901af82fff5c01bb7b7ae0130e40af','outcomes',6,NULL);
INSERT INTO "tl_seen" VALUES('cf5a260fd8b9fe4a28a60243a4823c32d3e8c378e44c8c1bf0dad3f1477e1d1a','kinds',28,NULL);
INSERT INTO "tl_seen" VALUES('cfd85e9b88330da72a49e159a503579ebcb88e9ae4e7e6c7a59ea348c3362efb','s4',5,NULL);
INSERT INTO "tl_seen" VALUES('d67ce5c8888922c4073abfb77ef57df218f1e80ddaee3ee6921be0083c6ae766','outcomes',11,NULL);
INSERT INTO "tl_seen" VALUES('dd8c8158272126c93e32b7ad226af7d07c7dbbcbcdc5965b4a4a14fa1422eab2','s2',5,x'ea3157669b71381037d848d081f57ddf3de78a3266a0c54321ef9df27413c7c7');
INSERT INTO "tl_seen" VALUES('df33dabd7c56dac35d518b207e014ea1dc713b17eaa5e8c6c3cf42de54efc05b','outcomes',8,NULL);
INSERT INTO "tl_seen" VALUES('e425e816f16197dfc6df611f290ee057c9d323d20f8781e1ccc665cf06585693','s0',9,NULL);
INSERT INTO "tl_seen" VALUES('e555c5be7684aab931c9d1f43b9e8bd61389e42372eabda74a93e97abe880d5c','kinds',26,NULL);
INSERT INTO "tl_seen" VALUES('e7dde3231b3a7de2b450df636a4f1ff541eb6e9e6c4fd9f2ca35bca2ea1eb2c2','s0',4,NULL);
INSERT INTO "tl_seen" VALUES('ecd2c00a4ac9c23a761420e8a938a3ebaef16ede2eb72d4bcd609d83ac187173','outcomes',4,NULL);
INSERT INTO "tl_seen" VALUES('f2a7a5b081630e3c83ca069b91d0e929677f43268ed4ddf76b0ec5a369cacb40','s2',4,NULL);
INSERT INTO "tl_seen" VALUES('fe4e726a0d8372208316fa08f78b7bd633df58de32d418ae9ae2b7c5dcd57cd0','kinds',37,NULL);
INSERT INTO "tl_inbox" VALUES('calls',1,1763240000000001,1,1,1763240000000000,54,NULL,NULL,NULL,NULL,0,'{"key":"fixture|calls|1|a\\|b","chat":"do it","reply_to":{"platform":"telegram","account":"bot","chat":"-100 \"ünï\"","thread":"7","reply_to":"99"},"sender":["u\"1",null],"trace":{"origin":"tg|1","hops":1}}',NULL,0);
INSERT INTO "tl_inbox" VALUES('kept',1,1763240000000001,2,1,1763240000000000,68,1,1763240000000000,'{"answered":1}',NULL,0,'{"key":"fixture|kept|1|a\\|b","chat":"remember","reply_to":{"platform":"telegram","account":"bot","chat":"-100 \"ünï\"","thread":"7","reply_to":"99"},"sender":["u\"1",null],"trace":{"origin":"tg|1","hops":1}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('kinds',1,1763240000000001,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"fixture|kinds|1|a\\|b","chat":null,"reply_to":{"platform":"telegram","account":"bot","chat":"-100 \"ünï\"","thread":"7","reply_to":"99"},"sender":["u\"1",null],"trace":{"origin":"tg|1","hops":1}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('kinds',2,1763240000000002,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"fixture|kinds|2|a\\|b","chat":"hello — ünï 漢字\u0000\u001f","reply_to":{"platform":"discord","account":"b@agent","chat":"1"},"sender":["u2","Ü"],"platform_id":"p2","trace":{"origin":"tg|\"2\"","root":["/home/a/.hermes","root_1"],"hops":3}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('kinds',3,1763240000000003,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"fixture|kinds|3|a\\|b","chat":["look\nat \"this\"",{"image":"data:image/png;base64,AA=="},{"image":"https://x.test/a.png","detail":"low"},{"opaque":"{\"type\": \"audio\", \"n\": 1.50}"}],"sender":["u2","Ü"],"trace":{"origin":"","hops":1,"foreign":"m\"7"}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('kinds',4,1763240000000004,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"fixture|kinds|4|a\\|b","chat":{"opaque":"{\"x\": 1.50}"},"reply_to":{"platform":"telegram","account":"bot","chat":"-100 \"ünï\"","thread":"7","reply_to":"99"},"platform_id":"p4","trace":{"origin":"","hops":1,"foreign":""}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('kinds',5,1763240000000005,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"fixture|kinds|5|a\\|b","request":{"content":"hi"},"reply_to":{"platform":"discord","account":"b@agent","chat":"1"},"sender":["u\"1",null]}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('kinds',6,1763240000000006,0,NULL,NULL,NULL,NULL,NULL,NULL,x'dc50c29287882a6e4edb999ba11ea289d74850a0672f118f2576f82eed7b0535',0,'{"key":"fixture|kinds|6|a\\|b","request":{"content":["look\nat \"this\"",{"image":"data:image/png;base64,AA=="},{"image":"https://x.test/a.png","detail":"low"},{"opaque":"{\"type\": \"audio\", \"n\": 1.50}"}],"body":"0fdb9441c0d2a00b0e701bbe3656447421d3ceaf523d90c5f6c64faa9ff8b402","thread":"3c26439a5dc99e2cd73b58b79c7e51750607d0d50a3eb94d2991e32a7490b4e5","implicit_key":"dc50c29287882a6e4edb999ba11ea289d74850a0672f118f2576f82eed7b0535","system":"Be \"brief\".","sampling":"{\"temperature\": 0.50}","task":{"parent":"kinds","source":"telegram","depth":2,"steps_max":30,"tokens_max":18446744073709551615,"toolsets":["files","ünï"]},"tools":["[{\"name\": \"a\"}]",["a","b"]],"results":[{"call_id":"c1","content":"found"},{"call_id":"c2","name":"look","content":["look\nat \"this\"",{"image":"data:image/png;base64,AA=="},{"image":"https://x.test/a.png","detail":"low"},{"opaque":"{\"type\": \"audio\", \"n\": 1.50}"}]},{"call_id":"c3","content":null}],"stateless":true},"sender":["u2","Ü"],"platform_id":"p6","trace":{"origin":"tg|1","hops":1}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('kinds',7,1763240000000007,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"fixture|kinds|7|a\\|b","request":{"content":null,"task":{"parent":"kinds","source":"cli","depth":1,"steps_max":3}},"reply_to":{"platform":"telegram","account":"bot","chat":"-100 \"ünï\"","thread":"7","reply_to":"99"},"sender":["u2","Ü"],"trace":{"origin":"tg|\"2\"","root":["/home/a/.hermes","root_1"],"hops":3}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('kinds',8,1763240000000008,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"fixture|kinds|8|a\\|b","command":{"errand":"new","session":"next_1","text":"A \"title\""},"reply_to":{"platform":"discord","account":"b@agent","chat":"1"},"platform_id":"p8","trace":{"origin":"","hops":1,"foreign":"m\"7"}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('kinds',9,1763240000000009,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"fixture|kinds|9|a\\|b","command":{"errand":"undo","number":3},"sender":["u\"1",null],"trace":{"origin":"","hops":1,"foreign":""}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('kinds',10,1763240000000010,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"fixture|kinds|10|a\\|b","command":{"errand":"retry"},"reply_to":{"platform":"telegram","account":"bot","chat":"-100 \"ünï\"","thread":"7","reply_to":"99"},"sender":["u2","Ü"],"platform_id":"p10"}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('kinds',11,1763240000000011,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"fixture|kinds|11|a\\|b","command":{"errand":"branch","session":"branch_1"},"reply_to":{"platform":"discord","account":"b@agent","chat":"1"},"sender":["u2","Ü"],"trace":{"origin":"tg|1","hops":1}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('kinds',12,1763240000000012,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"fixture|kinds|12|a\\|b","command":{"errand":"branch","session":"branch_2","text":"b"},"platform_id":"p12","trace":{"origin":"tg|\"2\"","root":["/home/a/.hermes","root_1"],"hops":3}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('kinds',13,1763240000000013,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"fixture|kinds|13|a\\|b","command":{"errand":"resume","all":true},"reply_to":{"platform":"telegram","account":"bot","chat":"-100 \"ünï\"","thread":"7","reply_to":"99"},"sender":["u\"1",null],"trace":{"origin":"","hops":1,"foreign":"m\"7"}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('kinds',14,1763240000000014,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"fixture|kinds|14|a\\|b","command":{"errand":"resume","text":"that","all":false},"reply_to":{"platform":"discord","account":"b@agent","chat":"1"},"sender":["u2","Ü"],"platform_id":"p14","trace":{"origin":"","hops":1,"foreign":""}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('kinds',15,1763240000000015,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"fixture|kinds|15|a\\|b","command":{"errand":"title"},"sender":["u2","Ü"]}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('kinds',16,1763240000000016,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"fixture|kinds|16|a\\|b","command":{"errand":"title","text":"t"},"reply_to":{"platform":"telegram","account":"bot","chat":"-100 \"ünï\"","thread":"7","reply_to":"99"},"platform_id":"p16","trace":{"origin":"tg|1","hops":1}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('kinds',17,1763240000000017,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"fixture|kinds|17|a\\|b","command":{"errand":"background","session":"aside_1","text":"do it"},"reply_to":{"platform":"discord","account":"b@agent","chat":"1"},"sender":["u\"1",null],"trace":{"origin":"tg|\"2\"","root":["/home/a/.hermes","root_1"],"hops":3}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('kinds',18,1763240000000018,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"fixture|kinds|18|a\\|b","command":{"errand":"model","argument":""},"sender":["u2","Ü"],"platform_id":"p18","trace":{"origin":"","hops":1,"foreign":"m\"7"}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('kinds',19,1763240000000019,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"fixture|kinds|19|a\\|b","command":{"errand":"usage","argument":"all"},"reply_to":{"platform":"telegram","account":"bot","chat":"-100 \"ünï\"","thread":"7","reply_to":"99"},"sender":["u2","Ü"],"trace":{"origin":"","hops":1,"foreign":""}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('kinds',20,1763240000000020,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"fixture|kinds|20|a\\|b","command":{"new":"next_2"},"reply_to":{"platform":"discord","account":"b@agent","chat":"1"},"platform_id":"p20"}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('kinds',21,1763240000000021,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"fixture|kinds|21|a\\|b","command":"stop","sender":["u\"1",null],"trace":{"origin":"tg|1","hops":1}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('kinds',22,1763240000000022,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"fixture|kinds|22|a\\|b","command":{"steer":"left"},"reply_to":{"platform":"telegram","account":"bot","chat":"-100 \"ünï\"","thread":"7","reply_to":"99"},"sender":["u2","Ü"],"platform_id":"p22","trace":{"origin":"tg|\"2\"","root":["/home/a/.hermes","root_1"],"hops":3}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('kinds',23,1763240000000023,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"fixture|kinds|23|a\\|b","command":{"queue":"right"},"reply_to":{"platform":"discord","account":"b@agent","chat":"1"},"sender":["u2","Ü"],"trace":{"origin":"","hops":1,"foreign":"m\"7"}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('kinds',24,1763240000000024,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"fixture|kinds|24|a\\|b","command":{"approve":"once","all":false},"platform_id":"p24","trace":{"origin":"","hops":1,"foreign":""}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('kinds',25,1763240000000025,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"fixture|kinds|25|a\\|b","command":{"approve":"session","all":true},"reply_to":{"platform":"telegram","account":"bot","chat":"-100 \"ünï\"","thread":"7","reply_to":"99"},"sender":["u\"1",null]}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('kinds',26,1763240000000026,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"fixture|kinds|26|a\\|b","command":{"approve":"always","all":false},"reply_to":{"platform":"discord","account":"b@agent","chat":"1"},"sender":["u2","Ü"],"platform_id":"p26","trace":{"origin":"tg|1","hops":1}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('kinds',27,1763240000000027,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"fixture|kinds|27|a\\|b","command":{"deny":null,"all":true},"sender":["u2","Ü"],"trace":{"origin":"tg|\"2\"","root":["/home/a/.hermes","root_1"],"hops":3}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('kinds',28,1763240000000028,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"fixture|kinds|28|a\\|b","command":{"deny":"no","all":false},"reply_to":{"platform":"telegram","account":"bot","chat":"-100 \"ünï\"","thread":"7","reply_to":"99"},"platform_id":"p28","trace":{"origin":"","hops":1,"foreign":"m\"7"}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('kinds',29,1763240000000029,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"fixture|kinds|29|a\\|b","command":{"compress":null,"keep":null,"preview":false},"reply_to":{"platform":"discord","account":"b@agent","chat":"1"},"sender":["u\"1",null],"trace":{"origin":"","hops":1,"foreign":""}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('kinds',30,1763240000000030,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"fixture|kinds|30|a\\|b","command":{"compress":"ünï","keep":2,"preview":true},"sender":["u2","Ü"],"platform_id":"p30"}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('kinds',31,1763240000000031,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"fixture|kinds|31|a\\|b","command":"continue","reply_to":{"platform":"telegram","account":"bot","chat":"-100 \"ünï\"","thread":"7","reply_to":"99"},"sender":["u2","Ü"],"trace":{"origin":"tg|1","hops":1}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('kinds',32,1763240000000032,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"fixture|kinds|32|a\\|b","command":"status","reply_to":{"platform":"discord","account":"b@agent","chat":"1"},"platform_id":"p32","trace":{"origin":"tg|\"2\"","root":["/home/a/.hermes","root_1"],"hops":3}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('kinds',33,1763240000000033,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"fixture|kinds|33|a\\|b","command":"help","sender":["u\"1",null],"trace":{"origin":"","hops":1,"foreign":"m\"7"}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('kinds',34,1763240000000034,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"fixture|kinds|34|a\\|b","command":"yolo","reply_to":{"platform":"telegram","account":"bot","chat":"-100 \"ünï\"","thread":"7","reply_to":"99"},"sender":["u2","Ü"],"platform_id":"p34","trace":{"origin":"","hops":1,"foreign":""}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('kinds',35,1763240000000035,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"fixture|kinds|35|a\\|b","command":{"verbose":null},"reply_to":{"platform":"discord","account":"b@agent","chat":"1"},"sender":["u2","Ü"]}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('kinds',36,1763240000000036,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"fixture|kinds|36|a\\|b","command":{"verbose":"verbose"},"platform_id":"p36","trace":{"origin":"tg|1","hops":1}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('kinds',37,1763240000000037,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"fixture|kinds|37|a\\|b","command":{"notice":"read"},"reply_to":{"platform":"telegram","account":"bot","chat":"-100 \"ünï\"","thread":"7","reply_to":"99"},"sender":["u\"1",null],"trace":{"origin":"tg|\"2\"","root":["/home/a/.hermes","root_1"],"hops":3}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('kinds',38,1763240000000038,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"fixture|kinds|38|a\\|b","command":{"absent":"voice"},"reply_to":{"platform":"discord","account":"b@agent","chat":"1"},"sender":["u2","Ü"],"platform_id":"p38","trace":{"origin":"","hops":1,"foreign":"m\"7"}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('kinds',39,1763240000000039,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"fixture|kinds|39|a\\|b","command":{"unknown":"huh"},"sender":["u2","Ü"],"trace":{"origin":"","hops":1,"foreign":""}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('outcomes',1,1763240000000001,2,1,1763240000000000,28,NULL,1763240000000000,'{"failed":1,"kind":"wait","message":"it did \"not\" work","after_seconds":3}',NULL,0,'{"key":"fixture|outcomes|1|a\\|b","chat":"words 1","reply_to":{"platform":"telegram","account":"bot","chat":"-100 \"ünï\"","thread":"7","reply_to":"99"},"sender":["u\"1",null],"trace":{"origin":"tg|1","hops":1}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('outcomes',2,1763240000000002,2,1,1763240000000000,30,NULL,1763240000000000,'{"failed":1,"kind":"wait","message":"it did \"not\" work"}',NULL,0,'{"key":"fixture|outcomes|2|a\\|b","chat":"words 2","reply_to":{"platform":"discord","account":"b@agent","chat":"1"},"sender":["u2","Ü"],"platform_id":"p2","trace":{"origin":"tg|\"2\"","root":["/home/a/.hermes","root_1"],"hops":3}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('outcomes',3,1763240000000003,2,1,1763240000000000,32,NULL,1763240000000000,'{"failed":1,"kind":"wait","message":"it did \"not\" work","unreachable":true}',NULL,0,'{"key":"fixture|outcomes|3|a\\|b","chat":"words 3","sender":["u2","Ü"],"trace":{"origin":"","hops":1,"foreign":"m\"7"}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('outcomes',4,1763240000000004,2,1,1763240000000000,34,NULL,1763240000000000,'{"failed":1,"kind":"too_long","message":"it did \"not\" work"}',NULL,0,'{"key":"fixture|outcomes|4|a\\|b","chat":"words 4","reply_to":{"platform":"telegram","account":"bot","chat":"-100 \"ünï\"","thread":"7","reply_to":"99"},"platform_id":"p4","trace":{"origin":"","hops":1,"foreign":""}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('outcomes',5,1763240000000005,2,1,1763240000000000,36,NULL,1763240000000000,'{"failed":1,"kind":"credentials","message":"it did \"not\" work"}',NULL,0,'{"key":"fixture|outcomes|5|a\\|b","chat":"words 5","reply_to":{"platform":"discord","account":"b@agent","chat":"1"},"sender":["u\"1",null]}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('outcomes',6,1763240000000006,2,1,1763240000000000,38,NULL,1763240000000000,'{"failed":1,"kind":"refused","message":"it did \"not\" work"}',NULL,0,'{"key":"fixture|outcomes|6|a\\|b","chat":"words 6","sender":["u2","Ü"],"platform_id":"p6","trace":{"origin":"tg|1","hops":1}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('outcomes',7,1763240000000007,2,1,1763240000000000,40,NULL,1763240000000000,'{"failed":1,"kind":"broken","message":"it did \"not\" work"}',NULL,0,'{"key":"fixture|outcomes|7|a\\|b","chat":"words 7","reply_to":{"platform":"telegram","account":"bot","chat":"-100 \"ünï\"","thread":"7","reply_to":"99"},"sender":["u2","Ü"],"trace":{"origin":"tg|\"2\"","root":["/home/a/.hermes","root_1"],"hops":3}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('outcomes',8,1763240000000008,2,1,1763240000000000,42,NULL,1763240000000000,'{"failed":1,"kind":"parked","message":"it did \"not\" work"}',NULL,0,'{"key":"fixture|outcomes|8|a\\|b","chat":"words 8","reply_to":{"platform":"discord","account":"b@agent","chat":"1"},"platform_id":"p8","trace":{"origin":"","hops":1,"foreign":"m\"7"}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('outcomes',9,1763240000000009,2,1,1763240000000000,44,NULL,1763240000000000,'{"failed":1,"kind":"exhausted","message":"it did \"not\" work"}',NULL,0,'{"key":"fixture|outcomes|9|a\\|b","chat":"words 9","sender":["u\"1",null],"trace":{"origin":"","hops":1,"foreign":""}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('outcomes',10,1763240000000010,2,1,1763240000000000,46,NULL,1763240000000000,'{"failed":1,"kind":"stopped","message":"it did \"not\" work"}',NULL,0,'{"key":"fixture|outcomes|10|a\\|b","chat":"words 10","reply_to":{"platform":"telegram","account":"bot","chat":"-100 \"ünï\"","thread":"7","reply_to":"99"},"sender":["u2","Ü"],"platform_id":"p10"}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('outcomes',11,1763240000000011,2,1,1763240000000000,48,NULL,1763240000000000,'{"said":"Done.\n\"so\""}',NULL,0,'{"key":"fixture|outcomes|11|a\\|b","chat":"words 11","reply_to":{"platform":"discord","account":"b@agent","chat":"1"},"sender":["u2","Ü"],"trace":{"origin":"tg|1","hops":1}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('outcomes',12,1763240000000012,2,1,1763240000000000,50,NULL,1763240000000000,'{"said":"","successor":"next_1"}',NULL,0,'{"key":"fixture|outcomes|12|a\\|b","chat":"words 12","platform_id":"p12","trace":{"origin":"tg|\"2\"","root":["/home/a/.hermes","root_1"],"hops":3}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('outcomes',13,1763240000000013,2,1,1763240000000000,52,NULL,1763240000000000,'{"moved":"kinds","seq":2}',NULL,0,'{"key":"fixture|outcomes|13|a\\|b","chat":"words 13","reply_to":{"platform":"telegram","account":"bot","chat":"-100 \"ünï\"","thread":"7","reply_to":"99"},"sender":["u\"1",null],"trace":{"origin":"","hops":1,"foreign":"m\"7"}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('preparing',1,1763240000000001,2,1,1763240000000000,62,NULL,1763240000000000,'{"failed":1,"kind":"broken","message":"x"}',NULL,0,'{"key":"fixture|preparing|1|a\\|b","chat":"words 1","reply_to":{"platform":"telegram","account":"bot","chat":"-100 \"ünï\"","thread":"7","reply_to":"99"},"sender":["u\"1",null],"trace":{"origin":"tg|1","hops":1}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('preparing',2,1763240000000002,2,2,1763240000000000,64,NULL,1763240000000000,'{"failed":2,"kind":"broken","message":"x"}',NULL,0,'{"key":"fixture|preparing|2|a\\|b","chat":"words 2","reply_to":{"platform":"discord","account":"b@agent","chat":"1"},"sender":["u2","Ü"],"platform_id":"p2","trace":{"origin":"tg|\"2\"","root":["/home/a/.hermes","root_1"],"hops":3}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('preparing',3,1763240000000003,2,3,1763240000000000,66,NULL,1763240000000000,'{"failed":3,"kind":"broken","message":"x"}',NULL,0,'{"key":"fixture|preparing|3|a\\|b","chat":"words 3","sender":["u2","Ü"],"trace":{"origin":"","hops":1,"foreign":"m\"7"}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('preparing',4,1763240000000004,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"fixture|preparing|4|a\\|b","command":{"compress":"f","keep":null,"preview":false},"reply_to":{"platform":"telegram","account":"bot","chat":"-100 \"ünï\"","thread":"7","reply_to":"99"},"platform_id":"p4","trace":{"origin":"","hops":1,"foreign":""}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('ready',1,1763240000000001,2,1,1763240000000000,56,NULL,1763240000000000,'{"failed":1,"kind":"broken","message":"x"}',NULL,0,'{"key":"fixture|ready|1|a\\|b","chat":"words 1","reply_to":{"platform":"telegram","account":"bot","chat":"-100 \"ünï\"","thread":"7","reply_to":"99"},"sender":["u\"1",null],"trace":{"origin":"tg|1","hops":1}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('ready',2,1763240000000002,2,2,1763240000000000,58,NULL,1763240000000000,'{"failed":2,"kind":"broken","message":"x"}',NULL,0,'{"key":"fixture|ready|2|a\\|b","chat":"words 2","reply_to":{"platform":"discord","account":"b@agent","chat":"1"},"sender":["u2","Ü"],"platform_id":"p2","trace":{"origin":"tg|\"2\"","root":["/home/a/.hermes","root_1"],"hops":3}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('ready',3,1763240000000003,2,3,1763240000000000,60,NULL,1763240000000000,'{"failed":3,"kind":"broken","message":"x"}',NULL,0,'{"key":"fixture|ready|3|a\\|b","chat":"words 3","sender":["u2","Ü"],"trace":{"origin":"","hops":1,"foreign":"m\"7"}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('ready',4,1763240000000004,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"fixture|ready|4|a\\|b","command":{"compress":"f","keep":null,"preview":false},"reply_to":{"platform":"telegram","account":"bot","chat":"-100 \"ünï\"","thread":"7","reply_to":"99"},"platform_id":"p4","trace":{"origin":"","hops":1,"foreign":""}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('s0',1,1700000000027027,2,NULL,NULL,NULL,NULL,1700000000027027,'{"said":"Session s0\nidle; 0 waiting; 1 received"}',NULL,0,'{"key":"test|chat0|5","command":"status","reply_to":{"platform":"test","account":"bot","chat":"chat0","reply_to":"5"},"sender":["u","Ü"],"platform_id":"5"}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('s0',2,1700000000077077,2,2,1700000000077077,14,1,1700000000079079,'{"answered":2}',NULL,0,'{"key":"test|chat0|23","chat":"hi","reply_to":{"platform":"test","account":"bot","chat":"chat0","reply_to":"23"},"sender":["u","Ü"],"platform_id":"23"}',NULL,0);
INSERT INTO "tl_inbox" VALUES('s0',3,1700000000078078,2,NULL,NULL,NULL,NULL,1700000000108108,'{"said":"Compressed: 5 messages are 5 now, about 2,000 tokens are 10. What was there before is kept as s0.snapshot.20231114T221320091091Z."}',NULL,0,'{"key":"test|chat0|24","command":{"compress":"the \"ünï\"","keep":null,"preview":false},"reply_to":{"platform":"test","account":"bot","chat":"chat0","reply_to":"24"},"sender":["u","Ü"],"platform_id":"24"}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('s0',4,1700000000082082,2,4,1700000000082082,18,2,1700000000091091,'{"answered":4}',NULL,0,'{"key":"test|chat0|26","chat":"hi","reply_to":{"platform":"test","account":"bot","chat":"chat0","reply_to":"26"},"sender":["u","Ü"],"platform_id":"26"}',NULL,0);
INSERT INTO "tl_inbox" VALUES('s0',5,1700000000089089,2,5,1700000000091091,22,NULL,1700000000101101,'{"failed":5,"kind":"stopped","message":"Stopped."}',NULL,0,'{"key":"test|chat0|27","chat":"hi","reply_to":{"platform":"test","account":"bot","chat":"chat0","reply_to":"27"},"sender":["u","Ü"],"platform_id":"27"}',NULL,0);
INSERT INTO "tl_inbox" VALUES('s0',6,1700000000092092,2,6,1700000000101101,24,3,1700000000111111,'{"answered":6}',NULL,0,'{"key":"test|chat0|29","chat":"hi","reply_to":{"platform":"test","account":"bot","chat":"chat0","reply_to":"29"},"sender":["u","Ü"],"platform_id":"29"}',NULL,0);
INSERT INTO "tl_inbox" VALUES('s0',7,1700000000099099,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"test|chat0|30","command":{"errand":"undo","number":1},"reply_to":{"platform":"test","account":"bot","chat":"chat0","reply_to":"30"},"sender":["u","Ü"],"platform_id":"30"}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('s0',8,1700000000100100,2,NULL,NULL,NULL,NULL,1700000000101101,'{"said":"Stopped message 5 at step 1. The 2 messages that wait are next."}',NULL,0,'{"key":"test|chat0|31","command":"stop","reply_to":{"platform":"test","account":"bot","chat":"chat0","reply_to":"31"},"sender":["u","Ü"],"platform_id":"31"}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('s0',9,1700000000113113,2,NULL,NULL,NULL,NULL,1700000000117117,'{"said":"This conversation is called \"a title 0\" now."}',NULL,0,'{"key":"test|chat0|34","command":{"errand":"title","text":" a  title​ 0 "},"reply_to":{"platform":"test","account":"bot","chat":"chat0","reply_to":"34"},"sender":["u","Ü"],"platform_id":"34"}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('s0',10,1700000000125125,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"test|chat0|37","command":{"compress":null,"keep":null,"preview":false},"reply_to":{"platform":"test","account":"bot","chat":"chat0","reply_to":"37"},"sender":["u","Ü"],"platform_id":"37"}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('s0',11,1700000000126126,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"test|chat0|38","command":{"compress":null,"keep":2,"preview":false},"reply_to":{"platform":"test","account":"bot","chat":"chat0","reply_to":"38"},"sender":["u","Ü"],"platform_id":"38"}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('s0',12,1700000000127127,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"test|chat0|39","command":{"compress":null,"keep":2,"preview":false},"reply_to":{"platform":"test","account":"bot","chat":"chat0","reply_to":"39"},"sender":["u","Ü"],"platform_id":"39"}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('s1',1,1700000000057057,1,1,1700000000057057,10,NULL,NULL,NULL,NULL,0,'{"key":"test|chat1|13","chat":"ünï — 漢字","reply_to":{"platform":"test","account":"bot","chat":"chat1","reply_to":"13"},"sender":["u","Ü"],"platform_id":"13"}',NULL,0);
INSERT INTO "tl_inbox" VALUES('s1',2,1700000000064064,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"test|chat1|19","command":{"compress":null,"keep":2,"preview":false},"reply_to":{"platform":"test","account":"bot","chat":"chat1","reply_to":"19"},"sender":["u","Ü"],"platform_id":"19"}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('s1',3,1700000000069069,2,NULL,NULL,NULL,NULL,1700000000069069,'{"said":"read this"}',NULL,0,'{"key":"test|chat1|20","command":{"notice":"read this"},"reply_to":{"platform":"test","account":"bot","chat":"chat1","reply_to":"20"},"sender":["u","Ü"],"platform_id":"20"}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('s2',1,1700000000029029,1,1,1700000000030030,6,NULL,NULL,NULL,NULL,0,'{"key":"test|chat2|6","request":{"content":".."},"trace":{"origin":"human|0","hops":3}}',NULL,0);
INSERT INTO "tl_inbox" VALUES('s2',2,1700000000036036,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"test|chat2|7","request":{"content":".."},"trace":{"origin":"human|1","root":["me","s2"],"hops":2}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('s2',3,1700000000058058,2,NULL,NULL,NULL,NULL,1700000000058058,'{"said":"Nothing waits for an answer."}',NULL,0,'{"key":"test|chat2|14","command":{"approve":"session","all":true}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('s2',4,1700000000101101,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"test|chat2|32","command":{"errand":"undo","number":1}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('s2',5,1700000000117117,0,NULL,NULL,NULL,NULL,NULL,NULL,x'1523fe290dc6dbaae41853722087c4215725ba1e458323453fc49ac6696b04ae',0,'{"key":"test|chat2|35","request":{"content":"hi","body":"ea3157669b71381037d848d081f57ddf3de78a3266a0c54321ef9df27413c7c7","thread":"e69fe691fcc2da6773ed418b0f258b285502ae9862b2a6c89644d73db5d735b3","implicit_key":"1523fe290dc6dbaae41853722087c4215725ba1e458323453fc49ac6696b04ae","system":"Be brief.","sampling":"{\"temperature\": 0.50}"}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('s3',1,1700000000014014,2,1,1700000000014014,4,NULL,1700000000076076,'{"failed":1,"kind":"stopped","message":"Stopped."}',x'c9cdbb7d5a5aca645067786ade1010b472bc2b45a9e4111928e6a05b53b6ce5d',0,'{"key":"test|chat3|3","request":{"content":"nï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\nünï\n漢","body":"3d7721488f92e7d0b9400ce7a575793bee5723f7820bffe0a94f46983081dcdf","thread":"58357ef747042495ce6a219ca444cf25cd8f38d6c09ab917744f3464ac0440ed","implicit_key":"c9cdbb7d5a5aca645067786ade1010b472bc2b45a9e4111928e6a05b53b6ce5d","system":"Be brief.","sampling":"{\"temperature\": 0.50}"}}',NULL,0);
INSERT INTO "tl_inbox" VALUES('s3',2,1700000000038038,1,2,1700000000076076,12,NULL,NULL,NULL,x'1523fe290dc6dbaae41853722087c4215725ba1e458323453fc49ac6696b04ae',0,'{"key":"test|chat3|8","request":{"content":"hi","body":"ea3157669b71381037d848d081f57ddf3de78a3266a0c54321ef9df27413c7c7","thread":"e69fe691fcc2da6773ed418b0f258b285502ae9862b2a6c89644d73db5d735b3","implicit_key":"1523fe290dc6dbaae41853722087c4215725ba1e458323453fc49ac6696b04ae","system":"Be brief.","sampling":"{\"temperature\": 0.50}"}}',NULL,0);
INSERT INTO "tl_inbox" VALUES('s3',3,1700000000076076,2,NULL,NULL,NULL,NULL,1700000000076076,'{"said":"Stopped message 1 at step 1. The message that waits is next."}',NULL,0,'{"key":"test|chat3|22","command":"stop"}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('s4',1,1700000000040040,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"test|chat4|9","command":{"compress":null,"keep":null,"preview":false}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('s4',2,1700000000041041,1,2,1700000000042042,8,NULL,NULL,NULL,NULL,0,'{"key":"test|chat4|10","request":{"content":".."},"trace":{"origin":"human|5","root":["other","elsewhere"],"hops":3}}',NULL,0);
INSERT INTO "tl_inbox" VALUES('s4',3,1700000000045045,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"test|chat4|11","command":{"queue":"and then right"}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('s4',4,1700000000054054,0,NULL,NULL,NULL,NULL,NULL,NULL,x'b44b35186544bd99910ad223363ad6c45ef75b885337a2878d32af02c746b281',0,'{"key":"test|chat4|12","request":{"content":"","body":"af5570f5a1810b7af78caf4bc70a660f0df51e42baf91d4de5b2328de0e83dfc","thread":"050529899608a2be66ca242df4d2738014d073b208b0060af82708515d53345c","implicit_key":"b44b35186544bd99910ad223363ad6c45ef75b885337a2878d32af02c746b281","system":"Be brief.","sampling":"{\"temperature\": 0.50}","task":{"parent":"s2","source":"cli","depth":1,"steps_max":3,"toolsets":["files"]}}}',NULL,NULL);
INSERT INTO "tl_inbox" VALUES('s4',5,1700000000061061,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,'{"key":"test|chat4|16","command":{"errand":"undo","number":1}}',NULL,NULL);
INSERT INTO "tl_step" VALUES('calls',1,1,1,1763240000000000,'model-1',100,10,0,0,0,x'3db9d79bf43f73f8a9fe94fd9c0612bea0266ef20936f74cbeb3458c71098a6b',1,9,NULL,'{"content":"I look. ünï","calls":[{"id":"c0","name":"look","arguments":"{\"a\": 1.0","extra":"{\"n\": 1e2}"},{"id":"c1","name":"look","arguments":"{\"a\": 1.0"},{"id":"c2","name":"look","arguments":"{\"a\": 1.0"},{"id":"c3","name":"look","arguments":"{\"a\": 1.0"},{"id":"c4","name":"look","arguments":"{\"a\": 1.0"},{"id":"c5","name":"look","arguments":"{\"a\": 1.0"},{"id":"c6","name":"look","arguments":"{\"a\": 1.0"},{"id":"c7","name":"look","arguments":"{\"a\": 1.0"},{"id":"c8","name":"look","arguments":"{\"a\": 1.0"}],"finish":"tool_calls","reasoning":"thinking","reasoning_content":"","reasoning_details":"[{\"t\": 1.0}]","codex_reasoning_items":"[1, 2]","codex_message_items":"[ ]"}',1,2,-1);
INSERT INTO "tl_step" VALUES('kept',1,1,0,1763240000000000,'model-1',100,10,0,0,0,x'fb0d0f7fbdc5733d3974304ac1950a305d236cb607e8982e6770c62a2be8cf31',2,0,70,NULL,1,2,-1);
INSERT INTO "tl_step" VALUES('s0',1,2,0,1700000000079079,'model-1',10,7,3,2,1,x'df34db62b66e935ded8d120772049ff406bd3a4dd3a0a7812fa37fb1b1e3d132',3,0,16,NULL,-1,25,-9223372036854775808);
INSERT INTO "tl_step" VALUES('s0',2,4,0,1700000000091091,'model-1',300,7,3,2,1,x'ef056cb9f30ff27e6a139d97a1573f26da7fa20a5e5f334c4dab362113bc192c',3,0,20,NULL,-1,28,-9223372036854775808);
INSERT INTO "tl_step" VALUES('s0',3,6,0,1700000000110110,'model-1',10,7,3,2,1,x'68d954382dbfa538368acee3f6551ab710fda6b06278c30aaafab490f2c9e4dd',3,0,26,NULL,-1,33,-9223372036854775808);
INSERT INTO "tl_step" VALUES('s2',1,1,0,1700000000062062,'model-1',10,7,3,2,1,x'86e147e039f040bae322d6e5fcd1724e24a97fdbc7f4fe18db36bfb6606431b8',3,2,NULL,'{"content":null,"calls":[{"id":"call_17_0","name":"look","arguments":"{\"at\": \"it\"}"},{"id":"call_17_1","name":"look","arguments":"{\"at\": \"it\"}"}],"finish":"tool_calls"}',-1,18,-9223372036854775808);
INSERT INTO "tl_call" VALUES('calls',1,1,1763240000000000,'{"approval":{"what":"rm \"x\"","why":"it deletes","patterns":["rm"]},"asked":1763240000000000,"until":1763240300000000}',1);
INSERT INTO "tl_call" VALUES('calls',1,2,1763240000000000,'{"clarify":{"question":"Which?","choices":["a","b"]},"asked":1763240000000000,"until":1763240300000000}',1);
INSERT INTO "tl_call" VALUES('calls',1,3,1763240000000000,'{"elicitation":{"server":"files","question":"Path?","choices":[],"number":2},"asked":1763240000000000,"until":1763240300000000}',1);
INSERT INTO "tl_call" VALUES('calls',1,4,1763240000000000,'once',0);
INSERT INTO "tl_call" VALUES('calls',1,5,1763240000000000,'session',0);
INSERT INTO "tl_call" VALUES('calls',1,6,1763240000000000,'always',0);
INSERT INTO "tl_call" VALUES('calls',1,7,1763240000000000,'{"call_id":"c7","name":"look","content":["look\nat \"this\"",{"image":"data:image/png;base64,AA=="},{"image":"https://x.test/a.png","detail":"low"},{"opaque":"{\"type\": \"audio\", \"n\": 1.50}"}]}',2);
INSERT INTO "tl_call" VALUES('calls',1,8,1763240000000000,'',3);
INSERT INTO "tl_call" VALUES('s2',1,1,1700000000067067,'{"call_id":"call_17_1","name":"look","content":"found"}',2);
INSERT INTO "tl_outbox" VALUES(1,'s0/1/done','s0',0,0,NULL,0,1700000000027027,1700000000027027,1700000000027027,NULL,NULL,'{"platform":"test","account":"bot","chat":"chat0","reply_to":"5"}','Session s0
idle; 0 waiting; 1 received','{"origin":"","hops":1}');
INSERT INTO "tl_outbox" VALUES(2,'s1/3/done','s1',0,0,NULL,0,1700000000069069,1700000000069069,1700000000069069,NULL,NULL,'{"platform":"test","account":"bot","chat":"chat1","reply_to":"20"}','read this','{"origin":"","hops":1}');
INSERT INTO "tl_outbox" VALUES(3,'s0/2','s0',0,0,NULL,0,1700000000079079,1700000000079079,1700000000079079,NULL,NULL,'{"platform":"test","account":"bot","chat":"chat0","reply_to":"23"}','ho','{"origin":"","hops":1}');
INSERT INTO "tl_outbox" VALUES(4,'s0/4','s0',0,0,NULL,0,1700000000091091,1700000000091091,1700000000091091,NULL,NULL,'{"platform":"test","account":"bot","chat":"chat0","reply_to":"26"}','ho','{"origin":"","hops":1}');
INSERT INTO "tl_outbox" VALUES(5,'s0/7/waits','s0',0,0,NULL,0,1700000000100100,1700000000100100,1700000000100100,NULL,NULL,'{"platform":"test","account":"bot","chat":"chat0","reply_to":"30"}','/undo waits for the running turn; /stop ends that.','{"origin":"","hops":1}');
INSERT INTO "tl_outbox" VALUES(6,'s0/8/done','s0',0,0,NULL,0,1700000000101101,1700000000101101,1700000000101101,NULL,NULL,'{"platform":"test","account":"bot","chat":"chat0","reply_to":"31"}','Stopped message 5 at step 1. The 2 messages that wait are next.','{"origin":"","hops":1}');
INSERT INTO "tl_outbox" VALUES(7,'s0/3/done','s0',0,0,NULL,0,1700000000108108,1700000000108108,1700000000108108,NULL,NULL,'{"platform":"test","account":"bot","chat":"chat0","reply_to":"24"}','Compressed: 5 messages are 5 now, about 2,000 tokens are 10. What was there before is kept as s0.snapshot.20231114T221320091091Z.','{"origin":"","hops":1}');
INSERT INTO "tl_outbox" VALUES(8,'s0/review-1','s0',0,0,NULL,0,1700000000109109,1700000000109109,1700000000109109,NULL,NULL,'{"platform":"test","account":"bot","chat":"chat0","reply_to":"26"}','💾 Self-improvement review: Memory "ünï" 0',NULL);
INSERT INTO "tl_outbox" VALUES(9,'s0/6','s0',0,0,NULL,0,1700000000111111,1700000000111111,1700000000111111,NULL,NULL,'{"platform":"test","account":"bot","chat":"chat0","reply_to":"29"}','ho','{"origin":"","hops":1}');
INSERT INTO "tl_outbox" VALUES(10,'s0/9/done','s0',0,0,NULL,0,1700000000117117,1700000000117117,1700000000117117,NULL,NULL,'{"platform":"test","account":"bot","chat":"chat0","reply_to":"34"}','This conversation is called "a title 0" now.','{"origin":"","hops":1}');
INSERT INTO "tl_outbox" VALUES(11,'outcomes/reply/0','outcomes',0,0,NULL,0,1763240000000000,1763240000000000,1763240000000000,NULL,NULL,'{"platform":"telegram","account":"bot","chat":"-100 \"ünï\"","thread":"7","reply_to":"99"}','reply 0',NULL);
INSERT INTO "tl_outbox" VALUES(12,'outcomes/reply/1','outcomes',0,0,NULL,0,1763240000000000,1763240000000000,1763240000000000,NULL,NULL,'{"platform":"discord","account":"b@agent","chat":"1"}','reply 1','{"origin":"tg|1","hops":1}');
INSERT INTO "tl_outbox" VALUES(13,'outcomes/reply/2','outcomes',0,0,NULL,0,1763240000000000,1763240000000000,1763240000000000,NULL,NULL,'{"platform":"telegram","account":"bot","chat":"-100 \"ünï\"","thread":"7","reply_to":"99"}','reply 2','{"origin":"tg|\"2\"","root":["/home/a/.hermes","root_1"],"hops":3}');
INSERT INTO "tl_outbox" VALUES(14,'outcomes/reply/3','outcomes',0,0,NULL,0,1763240000000000,1763240000000000,1763240000000000,NULL,NULL,'{"platform":"discord","account":"b@agent","chat":"1"}','reply 3','{"origin":"","hops":1,"foreign":"m\"7"}');
INSERT INTO "tl_outbox" VALUES(15,'outcomes/reply/4','outcomes',0,0,NULL,0,1763240000000000,1763240000000000,1763240000000000,NULL,NULL,'{"platform":"telegram","account":"bot","chat":"-100 \"ünï\"","thread":"7","reply_to":"99"}','reply 4','{"origin":"","hops":1,"foreign":""}');
INSERT INTO "tl_route" VALUES('agent:main:telegram:dm:70','kinds','{"session_key": "agent:main:telegram:dm:70", "session_id": "kinds", "created_at": "2025-11-15T20:53:20", "updated_at": "2025-11-15T20:53:20", "display_name": "Ada", "platform": "telegram", "chat_type": "dm", "input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 0, "cache_write_tokens": 0, "total_tokens": 0, "last_prompt_tokens": 0, "estimated_cost_usd": 0.0, "cost_status": "unknown", "expiry_finalized": false, "suspended": false, "resume_pending": false, "resume_reason": null, "last_resume_marked_at": null, "is_fresh_reset": false, "was_auto_reset": false, "auto_reset_reason": null, "reset_had_activity": false, "origin": {"platform": "telegram", "chat_id": "70", "chat_name": "Ada", "chat_type": "dm", "user_id": null, "user_name": null, "thread_id": null, "chat_topic": null}}');
INSERT INTO "tl_route" VALUES('agent:main:telegram:dm:71','outcomes','{"session_key": "agent:main:telegram:dm:71", "session_id": "outcomes", "created_at": "2025-11-15T20:53:20", "updated_at": "2025-11-15T20:53:20", "display_name": "Ada", "platform": "telegram", "chat_type": "dm", "input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 0, "cache_write_tokens": 0, "total_tokens": 0, "last_prompt_tokens": 0, "estimated_cost_usd": 0.0, "cost_status": "unknown", "expiry_finalized": false, "suspended": false, "resume_pending": false, "resume_reason": null, "last_resume_marked_at": null, "is_fresh_reset": false, "was_auto_reset": false, "auto_reset_reason": null, "reset_had_activity": false, "origin": {"platform": "telegram", "chat_id": "71", "chat_name": "Ada", "chat_type": "dm", "user_id": null, "user_name": null, "thread_id": null, "chat_topic": null}}');
INSERT INTO "tl_route" VALUES('agent:main:telegram:dm:72','calls','{"session_key": "agent:main:telegram:dm:72", "session_id": "calls", "created_at": "2025-11-15T20:53:20", "updated_at": "2025-11-15T20:53:20", "display_name": "Ada", "platform": "telegram", "chat_type": "dm", "input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 0, "cache_write_tokens": 0, "total_tokens": 0, "last_prompt_tokens": 0, "estimated_cost_usd": 0.0, "cost_status": "unknown", "expiry_finalized": false, "suspended": false, "resume_pending": false, "resume_reason": null, "last_resume_marked_at": null, "is_fresh_reset": false, "was_auto_reset": false, "auto_reset_reason": null, "reset_had_activity": false, "origin": {"platform": "telegram", "chat_id": "72", "chat_name": "Ada", "chat_type": "dm", "user_id": null, "user_name": null, "thread_id": null, "chat_topic": null}}');
INSERT INTO "tl_route" VALUES('agent:main:telegram:dm:73','ready','{"session_key": "agent:main:telegram:dm:73", "session_id": "ready", "created_at": "2025-11-15T20:53:20", "updated_at": "2025-11-15T20:53:20", "display_name": "Ada", "platform": "telegram", "chat_type": "dm", "input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 0, "cache_write_tokens": 0, "total_tokens": 0, "last_prompt_tokens": 0, "estimated_cost_usd": 0.0, "cost_status": "unknown", "expiry_finalized": false, "suspended": false, "resume_pending": false, "resume_reason": null, "last_resume_marked_at": null, "is_fresh_reset": false, "was_auto_reset": false, "auto_reset_reason": null, "reset_had_activity": false, "origin": {"platform": "telegram", "chat_id": "73", "chat_name": "Ada", "chat_type": "dm", "user_id": null, "user_name": null, "thread_id": null, "chat_topic": null}}');
INSERT INTO "tl_route" VALUES('agent:main:telegram:dm:74','preparing','{"session_key": "agent:main:telegram:dm:74", "session_id": "preparing", "created_at": "2025-11-15T20:53:20", "updated_at": "2025-11-15T20:53:20", "display_name": "Ada", "platform": "telegram", "chat_type": "dm", "input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 0, "cache_write_tokens": 0, "total_tokens": 0, "last_prompt_tokens": 0, "estimated_cost_usd": 0.0, "cost_status": "unknown", "expiry_finalized": false, "suspended": false, "resume_pending": false, "resume_reason": null, "last_resume_marked_at": null, "is_fresh_reset": false, "was_auto_reset": false, "auto_reset_reason": null, "reset_had_activity": false, "origin": {"platform": "telegram", "chat_id": "74", "chat_name": "Ada", "chat_type": "dm", "user_id": null, "user_name": null, "thread_id": null, "chat_topic": null}}');
INSERT INTO "tl_route" VALUES('agent:main:telegram:dm:75','kept','{"session_key": "agent:main:telegram:dm:75", "session_id": "kept", "created_at": "2025-11-15T20:53:20", "updated_at": "2025-11-15T20:53:20", "display_name": "Ada", "platform": "telegram", "chat_type": "dm", "input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 0, "cache_write_tokens": 0, "total_tokens": 0, "last_prompt_tokens": 100, "estimated_cost_usd": 0.0, "cost_status": "unknown", "expiry_finalized": false, "suspended": false, "resume_pending": false, "resume_reason": null, "last_resume_marked_at": null, "is_fresh_reset": false, "was_auto_reset": false, "auto_reset_reason": null, "reset_had_activity": false, "origin": {"platform": "telegram", "chat_id": "75", "chat_name": "Ada", "chat_type": "dm", "user_id": null, "user_name": null, "thread_id": null, "chat_topic": null}}');
INSERT INTO "tl_route" VALUES('agent:main:test:dm:0','s0','{"session_key": "agent:main:test:dm:0", "session_id": "s0", "created_at": "2023-11-14T22:13:20.027027", "updated_at": "2023-11-14T22:13:20.111111", "display_name": "Chat 0", "platform": "test", "chat_type": "dm", "input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 0, "cache_write_tokens": 0, "total_tokens": 0, "last_prompt_tokens": 15, "estimated_cost_usd": 0.0, "cost_status": "unknown", "expiry_finalized": false, "suspended": false, "resume_pending": false, "resume_reason": null, "last_resume_marked_at": null, "is_fresh_reset": false, "was_auto_reset": false, "auto_reset_reason": null, "reset_had_activity": false, "origin": {"platform": "test", "chat_id": "0", "chat_name": null, "chat_type": "dm", "user_id": "u", "user_name": null, "thread_id": null, "chat_topic": null}}');
INSERT INTO "tl_route" VALUES('agent:main:test:dm:1','s1','{"session_key": "agent:main:test:dm:1", "session_id": "s1", "created_at": "2023-11-14T22:13:20.057057", "updated_at": "2023-11-14T22:13:20.057057", "display_name": "Chat 1", "platform": "test", "chat_type": "dm", "input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 0, "cache_write_tokens": 0, "total_tokens": 0, "last_prompt_tokens": 0, "estimated_cost_usd": 0.0, "cost_status": "unknown", "expiry_finalized": false, "suspended": false, "resume_pending": false, "resume_reason": null, "last_resume_marked_at": null, "is_fresh_reset": false, "was_auto_reset": false, "auto_reset_reason": null, "reset_had_activity": false, "origin": {"platform": "test", "chat_id": "1", "chat_name": null, "chat_type": "dm", "user_id": "u", "user_name": null, "thread_id": null, "chat_topic": null}}');
INSERT INTO "tl_compression" VALUES('preparing',1,1,0,64,0,1,1763240000000000,NULL,2,'ünï',1763240000000000,3,1000,2,'[4]',NULL);
INSERT INTO "tl_compression" VALUES('ready',1,1,0,58,1,1,1763240000000000,'{"after":56,"cut":58,"replaced":1,"rows":[{"at":7,"system":"s"},{"at":7,"user":["look\nat \"this\"",{"image":"data:image/png;base64,AA=="},{"image":"https://x.test/a.png","detail":"low"},{"opaque":"{\"type\": \"audio\", \"n\": 1.50}"}]},{"at":7,"assistant":{"content":"I look. ünï","calls":[{"id":"c0","name":"look","arguments":"{\"a\": 1.0","extra":"{\"n\": 1e2}"}],"finish":"tool_calls","reasoning":"thinking","reasoning_content":"","reasoning_details":"[{\"t\": 1.0}]","codex_reasoning_items":"[1, 2]","codex_message_items":"[ ]"}},{"at":7,"result":{"call_id":"c0","name":"look","content":"ünï"}},{"at":7,"other":["session_meta",{"opaque":"{\"x\": 1.50}"}]},{"at":-8,"user":"","platform_id":"77","sent_as":"as sent","observed":true}],"kind":"digest","before":18446744073709551615,"after_tokens":12,"model":"summariser","remark":"Without \"focus\"."}',1,'ünï',1763240000000000,3,1000,2,'[4]',NULL);
INSERT INTO "tl_compression" VALUES('s0',1,1,1,18,2,2,1700000000091091,NULL,2,'the "ünï"',1700000000084084,3,1000,3,'[3]',NULL);
INSERT INTO "tl_compression" VALUES('s0',2,2,3,26,0,1,1700000000129129,NULL,2,NULL,1700000000128128,7,1000,7,'[10]',NULL);
INSERT INTO "tl_event" VALUES(1,1700000000027027,'s0','route_bound','agent:main:test:dm:0');
INSERT INTO "tl_event" VALUES(2,1700000000057057,'s1','route_bound','agent:main:test:dm:1');
INSERT INTO "tl_event" VALUES(3,1700000000076076,'s3','turn_stopped','turn 1');
INSERT INTO "tl_event" VALUES(4,1700000000091091,'s0','compression_promoted','operation 1: s0.snapshot.20231114T221320091091Z');
INSERT INTO "tl_event" VALUES(5,1700000000101101,'s0','turn_stopped','turn 5');
INSERT INTO "tl_event" VALUES(6,1700000000105105,'s0','late_result_dropped','summary 1');
INSERT INTO "tl_event" VALUES(7,1700000000112112,'s0','review_failed','review 2: no answer.');
INSERT INTO "tl_event" VALUES(8,1700000000113113,'s3','compression_skipped','operation 1: there is nothing to compress');
INSERT INTO "tl_event" VALUES(9,1700000000113113,'s3','context_over_limit','turn 2');
INSERT INTO "tl_event" VALUES(10,1700000000115115,'s0','snapshot_restored','s0.snapshot.20231114T221320091091Z, kept as s0.snapshot.20231114T221320114114Z');
INSERT INTO "tl_event" VALUES(11,1700000000117117,'s0','titled','a title 0');
INSERT INTO "tl_event" VALUES(12,1763240000000000,'kinds','route_bound','agent:main:telegram:dm:70');
INSERT INTO "tl_event" VALUES(13,1763240000000000,'outcomes','route_bound','agent:main:telegram:dm:71');
INSERT INTO "tl_event" VALUES(14,1763240000000000,'calls','route_bound','agent:main:telegram:dm:72');
INSERT INTO "tl_event" VALUES(15,1763240000000000,'calls','call_asked','call 1/1/1: rm "x"');
INSERT INTO "tl_event" VALUES(16,1763240000000000,'calls','call_asked','call 1/1/2: Which?');
INSERT INTO "tl_event" VALUES(17,1763240000000000,'calls','call_asked','call 1/1/3: Path?');
INSERT INTO "tl_event" VALUES(18,1763240000000000,'calls','call_granted','call 1/1/4: once');
INSERT INTO "tl_event" VALUES(19,1763240000000000,'calls','call_granted','call 1/1/5: session');
INSERT INTO "tl_event" VALUES(20,1763240000000000,'calls','call_granted','call 1/1/6: always');
INSERT INTO "tl_event" VALUES(21,1763240000000000,'ready','route_bound','agent:main:telegram:dm:73');
INSERT INTO "tl_event" VALUES(22,1763240000000000,'preparing','route_bound','agent:main:telegram:dm:74');
INSERT INTO "tl_event" VALUES(23,1763240000000000,'kept','route_bound','agent:main:telegram:dm:75');
INSERT INTO "tl_count" VALUES('call_asked',3);
INSERT INTO "tl_count" VALUES('call_granted',3);
INSERT INTO "tl_count" VALUES('compression_promoted',1);
INSERT INTO "tl_count" VALUES('compression_skipped',1);
INSERT INTO "tl_count" VALUES('context_over_limit',1);
INSERT INTO "tl_count" VALUES('late_result_dropped',1);
INSERT INTO "tl_count" VALUES('review_failed',1);
INSERT INTO "tl_count" VALUES('route_bound',8);
INSERT INTO "tl_count" VALUES('snapshot_restored',1);
INSERT INTO "tl_count" VALUES('titled',1);
INSERT INTO "tl_count" VALUES('turn_stopped',2);
INSERT INTO "tl_snapshot" VALUES('s0.snapshot.20231114T221320091091Z','s0',1,1,1700000000091091,16,18,19,'[14,16,18]','[19]','summary',5,5,2000,10,NULL);
INSERT INTO "tl_snapshot" VALUES('s0.snapshot.20231114T221320114114Z','s0',2,NULL,1700000000115115,0,26,26,'[14,16,19,20,22,24,26]','[]','restored',7,7,12,3,'The view is that of s0.snapshot.20231114T221320091091Z again.');
INSERT INTO "tl_draft" VALUES('outcomes/reply/1','outcomes','{"platform":"discord","account":"b@agent","chat":"1"}',NULL,1763240000000000);
INSERT INTO "tl_retention" VALUES(1,'s0/2','elsewhere','document 1','s0',1,2,1,0,0,0,1700000000079079,1700000000091091,NULL,'{"agent":"me","session":"s0","generation":0,"platform":"telegram","user":"42","user_name":"Ann \"quoted\"","chat_id":"42","chat_type":"dm"}','["hi"]','ho',0);
INSERT INTO "tl_retention" VALUES(2,'s0/4','elsewhere','document 1','s0',2,4,1,0,0,0,1700000000091091,1700000000091091,NULL,'{"agent":"me","session":"s0","generation":0,"platform":"telegram","user":"42","user_name":"Ann \"quoted\"","chat_id":"42","chat_type":"dm"}','["hi"]','ho',0);
INSERT INTO "tl_retention" VALUES(3,'s0/6','elsewhere','document 1','s0',3,7,1,0,0,0,1700000000111111,1700000000115115,NULL,'{"agent":"me","session":"s0","generation":0,"platform":"telegram","user":"42","user_name":"Ann \"quoted\"","chat_id":"42","chat_type":"dm"}','["hi"]','ho',0);
INSERT INTO "tl_retention" VALUES(4,'kept/1','elsewhere','main','kept',1,2,1,0,0,0,1763240000000000,1763240000000000,NULL,'{"agent":"","session":"kept","generation":0,"platform":""}','["remember","ünï \"x\""]','noted',0);
INSERT INTO "tl_retention" VALUES(5,'kept/2','elsewhere','main-2','kept',2,2,1,0,0,0,1763240000000000,1763240000000000,NULL,'{"agent":"main","chat":"agent:main:telegram:dm:75","session":"kept","generation":3,"parent":"kinds","platform":"telegram","user":"u","user_name":"Ü \"x\"","chat_id":"75","chat_name":"Ada","chat_type":"group","thread":"7","title":"A title","document":"doc"}','["remember","ünï \"x\""]','noted',0);
INSERT INTO "tl_document" VALUES('elsewhere','agent:main:telegram:dm:75','main-2',1,1763240000000000);
INSERT INTO "tl_document" VALUES('elsewhere','session:kept','main',1,1763240000000000);
INSERT INTO "tl_document" VALUES('elsewhere','session:s0','document 1',0,1700000000079079);
INSERT INTO "tl_review" VALUES('kept',1,'memory',0,1,1,0,70,'[68,70]','You are a test.',1763240000000000,'{"platform":"telegram","account":"bot","chat":"-100 \"ünï\"","thread":"7","reply_to":"99"}','m/1',1,2,9,NULL,NULL,0,NULL,0,0,0,0,0);
INSERT INTO "tl_review" VALUES('s0',1,'memory',1,4,2,1,20,NULL,NULL,1700000000091091,'{"platform":"test","account":"bot","chat":"chat0","reply_to":"26"}',NULL,0,0,1700000000091091,1700000000109109,'Memory "ünï" 0',2,'m',0,0,0,0,0);
INSERT INTO "tl_review" VALUES('s0',2,'memory',0,6,3,2,26,'[14,16,19,20,22,24,26]','You are a test.',1700000000110110,'{"platform":"test","account":"bot","chat":"chat0","reply_to":"29"}',NULL,1,0,1700000030111111,NULL,NULL,0,NULL,0,0,0,0,0);
UPDATE sqlite_sequence SET seq=70 WHERE name='messages';
COMMIT;
PRAGMA user_version = 0;
