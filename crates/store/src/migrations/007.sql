-- Reviews: each was written with the answer it fell due with, and names the view it is about.
-- What turns and tasks cost is counted elsewhere; what a review costs stands here.
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
