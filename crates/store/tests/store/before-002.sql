-- What the first release left behind: a chat that is idle, and two whose calls were running when it
-- stopped, one of them with a result. Written by that release; rows of the search index follow by themselves.
INSERT INTO sessions (id, source, user_id, session_key, chat_type, model, started_at, message_count, input_tokens, output_tokens, api_call_count)
VALUES ('plain', 'telegram', 'u', 'agent:main:telegram:dm:plain', 'dm', 'm', 1763240000.0, 4, 20, 4, 2);
INSERT INTO sessions (id, source, user_id, session_key, chat_type, model, started_at, message_count, input_tokens, output_tokens, api_call_count)
VALUES ('open', 'telegram', 'u', 'agent:main:telegram:dm:open', 'dm', 'm', 1763240000.0, 3, 20, 4, 2);
INSERT INTO sessions (id, source, user_id, session_key, chat_type, model, started_at, message_count, input_tokens, output_tokens, api_call_count)
VALUES ('again', 'telegram', 'u', 'agent:main:telegram:dm:again', 'dm', 'm', 1763240000.0, 3, 20, 4, 2);
INSERT INTO messages (id, session_id, role, content, timestamp, platform_message_id, active)
VALUES (2, 'plain', 'user', 'hello', 1763240000.0, '77', 1);
INSERT INTO messages (id, session_id, role, content, timestamp, active)
VALUES (4, 'plain', 'assistant', 'hi', 1763240000.0, 1);
INSERT INTO messages (id, session_id, role, content, timestamp, platform_message_id, active)
VALUES (6, 'plain', 'user', 'hello', 1763240000.0, '77', 1);
INSERT INTO messages (id, session_id, role, content, timestamp, active)
VALUES (8, 'plain', 'assistant', 'hi', 1763240000.0, 1);
INSERT INTO messages (id, session_id, role, content, timestamp, platform_message_id, active)
VALUES (10, 'open', 'user', 'hello', 1763240000.0, '77', 1);
INSERT INTO messages (id, session_id, role, content, timestamp, active)
VALUES (12, 'open', 'assistant', 'hi', 1763240000.0, 1);
INSERT INTO messages (id, session_id, role, content, timestamp, platform_message_id, active)
VALUES (14, 'open', 'user', 'hello', 1763240000.0, '77', 1);
INSERT INTO messages (id, session_id, role, content, timestamp, platform_message_id, active)
VALUES (16, 'again', 'user', 'hello', 1763240000.0, '77', 1);
INSERT INTO messages (id, session_id, role, content, timestamp, active)
VALUES (18, 'again', 'assistant', 'hi', 1763240000.0, 1);
INSERT INTO messages (id, session_id, role, content, timestamp, platform_message_id, active)
VALUES (20, 'again', 'user', 'hello', 1763240000.0, '77', 1);
INSERT INTO tl_meta (key, value)
VALUES ('schema', '1');
INSERT INTO tl_session (id, generation, epoch, view, received, answered, phase, turn, began, step, resumes, unfinished, steps, last_row, adopted, touched)
VALUES ('again', 1, 1, 1, 2, 1, 1, 2, 1763240000000000, 0, 0, 1, 2, 20, 0, 1763240000000000);
INSERT INTO tl_session (id, generation, epoch, view, received, answered, phase, turn, began, step, resumes, unfinished, steps, last_row, adopted, touched)
VALUES ('open', 1, 1, 1, 2, 1, 1, 2, 1763240000000000, 0, 0, 1, 2, 14, 0, 1763240000000000);
INSERT INTO tl_session (id, generation, epoch, view, received, answered, phase, unfinished, steps, last_row, adopted, touched)
VALUES ('plain', 1, 1, 1, 2, 2, 0, 0, 2, 8, 0, 1763240000000000);
INSERT INTO tl_seen (key, session, seq)
VALUES ('t|again|1', 'again', 1);
INSERT INTO tl_seen (key, session, seq)
VALUES ('t|again|2', 'again', 2);
INSERT INTO tl_seen (key, session, seq)
VALUES ('t|open|1', 'open', 1);
INSERT INTO tl_seen (key, session, seq)
VALUES ('t|open|2', 'open', 2);
INSERT INTO tl_seen (key, session, seq)
VALUES ('t|plain|1', 'plain', 1);
INSERT INTO tl_seen (key, session, seq)
VALUES ('t|plain|2', 'plain', 2);
INSERT INTO tl_inbox (session, seq, at, state, turn, began, message, step, settled, outcome, written, envelope)
VALUES ('again', 1, 1763240000000000, 2, 1, 1763240000000000, 16, 1, 1763240000000000, '{"answered":1}', 0, '{"key":"t|again|1","chat":"hello","reply_to":{"platform":"telegram","account":"bot","chat":"1"},"platform_id":"77"}');
INSERT INTO tl_inbox (session, seq, at, state, turn, began, message, written, envelope)
VALUES ('again', 2, 1763240000000000, 1, 2, 1763240000000000, 20, 0, '{"key":"t|again|2","chat":"hello","reply_to":{"platform":"telegram","account":"bot","chat":"1"},"platform_id":"77"}');
INSERT INTO tl_inbox (session, seq, at, state, turn, began, message, step, settled, outcome, written, envelope)
VALUES ('open', 1, 1763240000000000, 2, 1, 1763240000000000, 10, 1, 1763240000000000, '{"answered":1}', 0, '{"key":"t|open|1","chat":"hello","reply_to":{"platform":"telegram","account":"bot","chat":"1"},"platform_id":"77"}');
INSERT INTO tl_inbox (session, seq, at, state, turn, began, message, written, envelope)
VALUES ('open', 2, 1763240000000000, 1, 2, 1763240000000000, 14, 0, '{"key":"t|open|2","chat":"hello","reply_to":{"platform":"telegram","account":"bot","chat":"1"},"platform_id":"77"}');
INSERT INTO tl_inbox (session, seq, at, state, turn, began, message, step, settled, outcome, written, envelope)
VALUES ('plain', 1, 1763240000000000, 2, 1, 1763240000000000, 2, 1, 1763240000000000, '{"answered":1}', 0, '{"key":"t|plain|1","chat":"hello","reply_to":{"platform":"telegram","account":"bot","chat":"1"},"platform_id":"77"}');
INSERT INTO tl_inbox (session, seq, at, state, turn, began, message, step, settled, outcome, written, envelope)
VALUES ('plain', 2, 1763240000000000, 2, 2, 1763240000000000, 6, 2, 1763240000000000, '{"answered":2}', 0, '{"key":"t|plain|2","chat":"hello","reply_to":{"platform":"telegram","account":"bot","chat":"1"},"platform_id":"77"}');
INSERT INTO tl_step (session, number, turn, step, at, model, input, output, cache_read, cache_write, reasoning, chain, messages, calls, message)
VALUES ('again', 1, 1, 0, 1763240000000000, 'm', 10, 2, 0, 0, 0, x'f91b14e7bbea4c5bfa0e1a704017716659f4910e557b869f226a69652d2a6f12', 1, 0, 18);
INSERT INTO tl_step (session, number, turn, step, at, model, input, output, cache_read, cache_write, reasoning, chain, messages, calls, open)
VALUES ('again', 2, 2, 0, 1763240000000000, 'm', 10, 2, 0, 0, 0, x'f91b14e7bbea4c5bfa0e1a704017716659f4910e557b869f226a69652d2a6f12', 1, 1, '{"content":"hi","calls":[{"id":"c0","name":"look","arguments":"{}"}]}');
INSERT INTO tl_step (session, number, turn, step, at, model, input, output, cache_read, cache_write, reasoning, chain, messages, calls, message)
VALUES ('open', 1, 1, 0, 1763240000000000, 'm', 10, 2, 0, 0, 0, x'f91b14e7bbea4c5bfa0e1a704017716659f4910e557b869f226a69652d2a6f12', 1, 0, 12);
INSERT INTO tl_step (session, number, turn, step, at, model, input, output, cache_read, cache_write, reasoning, chain, messages, calls, open)
VALUES ('open', 2, 2, 0, 1763240000000000, 'm', 10, 2, 0, 0, 0, x'f91b14e7bbea4c5bfa0e1a704017716659f4910e557b869f226a69652d2a6f12', 1, 3, '{"content":"hi","calls":[{"id":"c0","name":"look","arguments":"{}"},{"id":"c1","name":"look","arguments":"{}"},{"id":"c2","name":"look","arguments":"{}"}]}');
INSERT INTO tl_step (session, number, turn, step, at, model, input, output, cache_read, cache_write, reasoning, chain, messages, calls, message)
VALUES ('plain', 1, 1, 0, 1763240000000000, 'm', 10, 2, 0, 0, 0, x'f91b14e7bbea4c5bfa0e1a704017716659f4910e557b869f226a69652d2a6f12', 1, 0, 4);
INSERT INTO tl_step (session, number, turn, step, at, model, input, output, cache_read, cache_write, reasoning, chain, messages, calls, message)
VALUES ('plain', 2, 2, 0, 1763240000000000, 'm', 10, 2, 0, 0, 0, x'f91b14e7bbea4c5bfa0e1a704017716659f4910e557b869f226a69652d2a6f12', 1, 0, 8);
INSERT INTO tl_call (session, step, position, at, result)
VALUES ('open', 2, 1, 1763240000000000, '{"call_id":"c1","name":"look","content":"found"}');
INSERT INTO tl_outbox (number, key, session, state, attempts, marked, not_before, created, updated, destination, text)
VALUES (1, 'plain/1', 'plain', 0, 0, 0, 1763240000000000, 1763240000000000, 1763240000000000, '{"platform":"telegram","account":"bot","chat":"1"}', 'hi');
INSERT INTO tl_outbox (number, key, session, state, attempts, marked, not_before, created, updated, destination, text)
VALUES (2, 'plain/2', 'plain', 0, 0, 0, 1763240000000000, 1763240000000000, 1763240000000000, '{"platform":"telegram","account":"bot","chat":"1"}', 'hi');
INSERT INTO tl_outbox (number, key, session, state, attempts, marked, not_before, created, updated, destination, text)
VALUES (3, 'open/1', 'open', 0, 0, 0, 1763240000000000, 1763240000000000, 1763240000000000, '{"platform":"telegram","account":"bot","chat":"1"}', 'hi');
INSERT INTO tl_outbox (number, key, session, state, attempts, marked, not_before, created, updated, destination, text)
VALUES (4, 'again/1', 'again', 0, 0, 0, 1763240000000000, 1763240000000000, 1763240000000000, '{"platform":"telegram","account":"bot","chat":"1"}', 'hi');
INSERT INTO tl_route (chat, session, entry)
VALUES ('agent:main:telegram:dm:again', 'again', '{"session_key": "agent:main:telegram:dm:again", "session_id": "again", "created_at": "2025-11-15T20:53:20", "updated_at": "2025-11-15T20:53:20", "display_name": null, "platform": "telegram", "chat_type": "dm", "input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 0, "cache_write_tokens": 0, "total_tokens": 0, "last_prompt_tokens": 10, "estimated_cost_usd": 0.0, "cost_status": "unknown", "expiry_finalized": false, "suspended": false, "resume_pending": false, "resume_reason": null, "last_resume_marked_at": null, "is_fresh_reset": false, "was_auto_reset": false, "auto_reset_reason": null, "reset_had_activity": false}');
INSERT INTO tl_route (chat, session, entry)
VALUES ('agent:main:telegram:dm:open', 'open', '{"session_key": "agent:main:telegram:dm:open", "session_id": "open", "created_at": "2025-11-15T20:53:20", "updated_at": "2025-11-15T20:53:20", "display_name": null, "platform": "telegram", "chat_type": "dm", "input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 0, "cache_write_tokens": 0, "total_tokens": 0, "last_prompt_tokens": 10, "estimated_cost_usd": 0.0, "cost_status": "unknown", "expiry_finalized": false, "suspended": false, "resume_pending": false, "resume_reason": null, "last_resume_marked_at": null, "is_fresh_reset": false, "was_auto_reset": false, "auto_reset_reason": null, "reset_had_activity": false}');
INSERT INTO tl_route (chat, session, entry)
VALUES ('agent:main:telegram:dm:plain', 'plain', '{"session_key": "agent:main:telegram:dm:plain", "session_id": "plain", "created_at": "2025-11-15T20:53:20", "updated_at": "2025-11-15T20:53:20", "display_name": null, "platform": "telegram", "chat_type": "dm", "input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 0, "cache_write_tokens": 0, "total_tokens": 0, "last_prompt_tokens": 10, "estimated_cost_usd": 0.0, "cost_status": "unknown", "expiry_finalized": false, "suspended": false, "resume_pending": false, "resume_reason": null, "last_resume_marked_at": null, "is_fresh_reset": false, "was_auto_reset": false, "auto_reset_reason": null, "reset_had_activity": false}');
INSERT INTO tl_event (id, at, session, name, detail)
VALUES (1, 1763240000000000, 'plain', 'route_bound', 'agent:main:telegram:dm:plain');
INSERT INTO tl_event (id, at, session, name, detail)
VALUES (2, 1763240000000000, 'open', 'route_bound', 'agent:main:telegram:dm:open');
INSERT INTO tl_event (id, at, session, name, detail)
VALUES (3, 1763240000000000, 'again', 'route_bound', 'agent:main:telegram:dm:again');
INSERT INTO tl_count (name, n)
VALUES ('route_bound', 3);
