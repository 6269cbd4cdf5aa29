-- What has followed from each human message, of all agents of a user. `opened`: how often a person opened it again.
CREATE TABLE IF NOT EXISTS origin (
    name TEXT PRIMARY KEY,
    turns INTEGER NOT NULL,
    calls INTEGER NOT NULL,
    opened INTEGER NOT NULL,
    root_home TEXT,
    root_session TEXT,
    used INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS origin_used ON origin(used);
-- Chains that were cut, one row for each time. `told`: the people who began it have been.
CREATE TABLE IF NOT EXISTS cut (
    origin TEXT NOT NULL,
    number INTEGER NOT NULL,
    why TEXT NOT NULL,
    root_home TEXT,
    root_session TEXT,
    at INTEGER NOT NULL,
    told INTEGER NOT NULL,
    PRIMARY KEY (origin, number)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS cut_root ON cut(root_home, told);
-- Who announces a cut in a chat that several agents hear.
CREATE TABLE IF NOT EXISTS announcement (
    origin TEXT NOT NULL,
    number INTEGER NOT NULL,
    place TEXT NOT NULL,
    home TEXT NOT NULL,
    session TEXT NOT NULL,
    PRIMARY KEY (origin, number, place)
) WITHOUT ROWID;
-- Messages of our agents in chats, by which other agents recognise what they follow from.
CREATE TABLE IF NOT EXISTS post (
    platform TEXT NOT NULL,
    chat TEXT NOT NULL,
    message TEXT NOT NULL,
    author TEXT NOT NULL,
    origin TEXT NOT NULL,
    root_home TEXT,
    root_session TEXT,
    hops INTEGER NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (platform, chat, message)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS post_author ON post(platform, author);
CREATE INDEX IF NOT EXISTS post_at ON post(at);
-- The bots that our agents speak through.
CREATE TABLE IF NOT EXISTS bot (
    platform TEXT NOT NULL,
    account TEXT NOT NULL,
    PRIMARY KEY (platform, account)
) WITHOUT ROWID;
-- Orders to every gateway of the user: silence, and its end. AUTOINCREMENT, so that a number is never used twice.
CREATE TABLE IF NOT EXISTS silence (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    at INTEGER NOT NULL
);
-- The homes whose gateway runs, and the last of these orders that each has carried out. A process is known by its
-- number and the time of its start (`started`, which files of earlier versions get later).
CREATE TABLE IF NOT EXISTS gateway (
    home TEXT PRIMARY KEY,
    pid INTEGER NOT NULL,
    started INTEGER,
    seen INTEGER NOT NULL,
    report TEXT,
    at INTEGER NOT NULL
) WITHOUT ROWID;
