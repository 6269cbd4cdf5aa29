//! P16, P31: a person who writes in one chat never finds themselves in what was said in another.

use crate::damage::{Damage, WENT_ON, rotate};
use crate::repair;
use crate::world::{NOW, Schema, World};
use std::fs;
use throughline_core::SessionId;
use throughline_core::port::Store;
use throughline_store::doctor::FindingKind;

#[test]
fn p16_each_chat_that_led_to_an_ended_session_is_led_on_by_itself() {
    for schema in [Schema::Eleven, Schema::TwentyTwo] {
        let mut world = World::healthy(schema, 7);
        let chat = world.chats[0].clone();
        Damage::SharedRouteToEnded.done_to(&mut world, 0);
        world.write_routes();
        repair(&world, usize::MAX);
        let led = world.led();
        assert_eq!(led.get("agent:main:telegram:group:0"), None, "the group begins afresh");
        assert_ne!(led.get(&chat.key), Some(&chat.session));
        assert_eq!(led.contains_key(&chat.key), schema == Schema::TwentyTwo, "its own session goes on");
    }
}

#[test]
fn p31_a_fork_that_two_chats_lead_into_is_reported_and_left() {
    for schema in [Schema::Eleven, Schema::TwentyTwo] {
        let mut world = World::healthy(schema, 8);
        Damage::ForkOfTwoChats.done_to(&mut world, 0);
        world.write_routes();
        let before = world.led();
        let found = world.examine();
        assert_eq!(
            found.iter().map(|finding| finding.kind).collect::<Vec<_>>(),
            [FindingKind::ForkedSiblings]
        );
        assert!(!found[0].is_repairable(), "{found:?}");
        repair(&world, usize::MAX);
        assert_eq!(world.led(), before);
    }
}

#[test]
fn p16_an_earlier_part_of_a_conversation_that_goes_on_is_not_pruned() {
    for schema in [Schema::Eleven, Schema::TwentyTwo] {
        let mut world = World::healthy(schema, 9);
        let (chat, old) = (world.chats[0].clone(), world.chats[1].clone());
        let middle = rotate(&mut world, &chat.session, 1);
        let tip = rotate(&mut world, &middle, 1);
        world.lead(&chat.key, &tip, "");
        let over = rotate(&mut world, &old.session, 1); // a chain that is over as a whole
        world.end(&over, "session_reset");
        world.routes.retain(|route| route.0 != old.key);
        world.conn.execute_batch("DELETE FROM gateway_routing").ok();
        world.write_routes();
        let mut writer = world.home().writer(NOW).unwrap();
        let (may_go, _) = world.home().reader().unwrap().prunable(NOW).unwrap();
        let going: Vec<&str> = may_go.iter().map(|found| found.session.as_str()).collect();
        assert!(going.contains(&old.session.as_str()) && going.contains(&over.as_str()), "{going:?}");
        for part in [&chat.session, &middle, &tip] {
            assert!(!going.contains(&part.as_str()), "{part} of {going:?}");
        }
        let root: SessionId = chat.session.parse().unwrap();
        assert!(!writer.prune(&root, NOW).unwrap(), "asked again when it would go");
        writer.close(NOW).unwrap();
    }
}

/// As after a power loss between the transaction and the file.
#[test]
fn p16_a_repair_that_was_cut_short_before_the_file_of_routes_is_finished_by_whoever_opens_the_home() {
    for schema in [Schema::Eleven, Schema::TwentyTwo] {
        let mut world = World::healthy(schema, 10);
        let chat = world.chats[0].clone();
        Damage::Rotated.done_to(&mut world, 0);
        world.write_routes();
        let before = world.bytes()[2].clone();
        let in_the_way = world.path("sessions/.sessions_throughline.tmp");
        fs::create_dir(&in_the_way).unwrap();
        repair(&world, usize::MAX);
        assert_eq!(world.bytes()[2], before, "it could not be written");
        fs::remove_dir(&in_the_way).unwrap();
        drop(world.home().surgeon(NOW).unwrap());
        assert_eq!(world.led().get(&chat.key), Some(&chat.session));
        assert_eq!(world.examine(), []);
    }
}

#[test]
fn p16_what_hermes_wrote_into_the_file_of_routes_since_stays() {
    let mut world = World::healthy(Schema::Eleven, 11);
    Damage::Rotated.done_to(&mut world, 0);
    world.write_routes();
    let in_the_way = world.path("sessions/.sessions_throughline.tmp");
    fs::create_dir(&in_the_way).unwrap();
    repair(&world, usize::MAX);
    fs::remove_dir(&in_the_way).unwrap();
    fs::write(world.path("sessions/sessions.json"), "{}").unwrap();
    drop(world.home().surgeon(NOW).unwrap());
    assert_eq!(fs::read_to_string(world.path("sessions/sessions.json")).unwrap(), "{}");
}

#[test]
fn p20_a_session_that_was_handed_over_and_went_on_is_handed_over_again_when_it_ends() {
    for schema in [Schema::Eleven, Schema::TwentyTwo] {
        for mark in ["expiry_finalized", "memory_flushed"] {
            let mut world = World::healthy(schema, 12);
            let chat = world.chats[0].clone();
            world.lead(&chat.key, &chat.session, &format!(", \"{mark}\": true{WENT_ON}"));
            if schema == Schema::TwentyTwo {
                let sql = "UPDATE sessions SET expiry_finalized = 1 WHERE id = ?1";
                world.conn.execute(sql, [&chat.session]).unwrap();
            }
            world.write_routes();
            let found = world.examine();
            let kinds: Vec<_> = found.iter().map(|finding| (finding.kind, finding.subject())).collect();
            assert_eq!(kinds, [(FindingKind::FinalisedAlive, chat.session.as_str())], "{schema:?}, {mark}");
            repair(&world, usize::MAX);
            assert_eq!(world.examine(), [], "{schema:?}, {mark}");
            let text = fs::read_to_string(world.path("sessions/sessions.json")).unwrap();
            let entries: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_ne!(entries[&chat.key][mark], true, "{text}");
            // A start of ours takes it for what it is.
            let mut store = world.home().writer(NOW).unwrap();
            let sql = "SELECT json_extract(entry, '$.expiry_finalized') IS 1 FROM tl_route WHERE chat = ?1";
            let is_marked: bool = world.conn.query_row(sql, [&chat.key], |row| row.get(0)).unwrap();
            assert!(!is_marked, "{schema:?}, {mark}");
            store.close(NOW).unwrap();
        }
    }
}

/// Source document 0: what is handed over once must not be handed over twice. A mark on what has ended is no damage, and
/// to take it off would do just that.
#[test]
fn p20_what_was_handed_over_and_waits_for_the_next_message_is_left_alone() {
    for schema in [Schema::Eleven, Schema::TwentyTwo] {
        let mut world = World::healthy(schema, 16);
        let chat = world.chats[0].clone();
        world.lead(&chat.key, &chat.session, ", \"expiry_finalized\": true");
        if schema == Schema::TwentyTwo {
            world.conn.execute("UPDATE sessions SET expiry_finalized = 1", []).unwrap();
            world.routes.retain(|route| route.0 == chat.key); // no chat leads to the others
            world.conn.execute("DELETE FROM gateway_routing", []).unwrap();
        }
        world.write_routes();
        assert_eq!(world.examine(), [], "{schema:?}");
    }
}

#[test]
fn p31_a_file_of_routes_that_cannot_be_read_is_a_finding() {
    for schema in [Schema::Eleven, Schema::TwentyTwo] {
        for bytes in [&b"{\"agent:main:tele"[..], b"[]", b"\xff\xfe"] {
            let world = World::healthy(schema, 13);
            fs::write(world.path("sessions/sessions.json"), bytes).unwrap();
            let found = world.examine();
            assert_eq!(
                found.iter().map(|finding| finding.kind).collect::<Vec<_>>(),
                [FindingKind::UnreadableRoutes]
            );
            assert!(found[0].evidence[0].contains("cannot be read"), "{found:?}");
        }
    }
}

#[test]
fn what_only_we_write_and_is_wrong_is_a_defect_of_ours_and_left() {
    for schema in [Schema::Eleven, Schema::TwentyTwo] {
        let world = World::used(schema, 17);
        world.conn.execute("UPDATE tl_outbox SET state = 9", []).unwrap();
        let before = world.dump();
        let found = world.examine();
        assert_eq!(
            found.iter().map(|finding| finding.kind).collect::<Vec<_>>(),
            [FindingKind::BrokenInvariant]
        );
        assert!(
            !found[0].is_repairable() && found[0].evidence[0].contains("it should hold that"),
            "{found:?}"
        );
        repair(&world, usize::MAX);
        assert_eq!(world.dump(), before);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn p16_a_compression_lock_whose_holder_lives_is_not_stale() {
    let world = World::healthy(Schema::TwentyTwo, 14);
    let lock = |session: &str, pid: u32| {
        let holder = format!("pid={pid}:tid=2:agent=3:nonce=4");
        let sql = "INSERT INTO compression_locks VALUES (?1, ?2, 1763239990.0, 1763240290.0)";
        world.conn.execute(sql, [session, &holder]).unwrap();
    };
    lock(&world.chats[0].session, std::process::id());
    lock(&world.chats[1].session, u32::MAX);
    let found = world.examine();
    assert_eq!(
        found.iter().map(|finding| finding.kind).collect::<Vec<_>>(),
        [FindingKind::StaleCompressionLock]
    );
    assert_eq!(found[0].sessions, [world.chats[1].session.as_str()]);
}

/// P24: a row of what is to be remembered names the session that it was said in, by its key and its scope.
#[test]
fn p24_what_is_remembered_of_a_part_goes_along_or_is_waited_for() {
    for (state, is_repaired) in [(2, true), (1, false)] {
        let mut world = World::healthy(Schema::TwentyTwo, 15);
        let chat = world.chats[0].clone();
        let tip = rotate(&mut world, &chat.session, 1);
        world.lead(&chat.key, &tip, "");
        world.write_routes();
        drop(world.home().surgeon(NOW).unwrap()); // our tables
        let sql = "INSERT INTO tl_retention (key, provider, document, session, place, messages, state, created, updated, scope)
                   VALUES (?1 || '/1', 'p', 'd', ?1, 1, 2, ?2, 0, 0, json_object('session', ?1))";
        world.conn.execute(sql, rusqlite::params![tip, state]).unwrap();
        assert_eq!(world.examine()[0].is_repairable(), is_repaired);
        repair(&world, usize::MAX);
        let sql = "SELECT key, json_extract(scope, '$.session') FROM tl_retention";
        let named = world.conn.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        let id = if is_repaired { &chat.session } else { &tip };
        assert_eq!(named, (format!("{id}/1"), id.clone()));
    }
}
