-- Calls that ask, what a session has allowed and spent, who works for whom, and what a reply follows
-- from. A call that was open when this was applied keeps its results: they are done.

ALTER TABLE tl_session ADD COLUMN halted INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tl_session ADD COLUMN parent TEXT;   -- the session it works for
ALTER TABLE tl_session ADD COLUMN rest TEXT;     -- parts of the state that are mostly as at first; NULL if all are
CREATE INDEX tl_session_halted ON tl_session(touched) WHERE halted = 1;
CREATE INDEX tl_session_parent ON tl_session(parent) WHERE parent IS NOT NULL;

-- The row of tl_step whose call these words answered: they became its result, and no row of their own.
ALTER TABLE tl_inbox ADD COLUMN answers INTEGER;
-- Its place among the inputs of its turn: what steers a turn passes what waits. NULL: that of its number.
ALTER TABLE tl_inbox ADD COLUMN joined INTEGER;

-- In short, what stood before the messages of the request. 0, 0, 0: written before it was kept.
ALTER TABLE tl_step ADD COLUMN head_model INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tl_step ADD COLUMN head_tools INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tl_step ADD COLUMN head_system INTEGER NOT NULL DEFAULT 0;

-- How each call of an open group stands. One that simply runs, or is to be run, has no row.
ALTER TABLE tl_call RENAME COLUMN result TO detail;  -- the grant, the question or the result
ALTER TABLE tl_call ADD COLUMN state INTEGER NOT NULL DEFAULT 2;  -- 0 granted, 1 asking, 2 done
CREATE INDEX tl_call_asking ON tl_call(at) WHERE state = 1;

ALTER TABLE tl_outbox ADD COLUMN trace TEXT;     -- what a reply follows from; NULL if nobody asked
