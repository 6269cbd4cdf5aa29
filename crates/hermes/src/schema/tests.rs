use super::*;
use crate::peer::python;
use sha2::{Digest as _, Sha256};

/// What Python's own SQLite makes of [`FRESH`]: every text of `sqlite_master` that is not SQLite's
/// doing, then the columns of every table, then the rows.
fn fresh() -> Vec<Vec<String>> {
    let script = "import json,sqlite3,sys\n\
        c = sqlite3.connect(':memory:')\n\
        for s in json.load(sys.stdin): c.execute(s)\n\
        hidden = {n + '_' + s for n in ('messages_fts', 'messages_fts_trigram')\n\
                  for s in ('data', 'idx', 'content', 'docsize', 'config')} | {'sqlite_sequence'}\n\
        m = [r for r in c.execute('select name, sql, type from sqlite_master order by rowid') if r[1] and r[0] not in hidden]\n\
        print(json.dumps([r[1] for r in m]))\n\
        print(json.dumps([r[0] + '.' + k[1] for r in m if r[2] == 'table' for k in c.execute('pragma table_info(%s)' % r[0])]))\n\
        print(json.dumps([str(r[0]) for r in c.execute('select version from schema_version')]))\n\
        c.execute(\"insert into sessions (id, source, started_at) values ('s', 'cli', 0)\")\n\
        c.execute(\"insert into messages (session_id, role, content, tool_name, tool_calls, timestamp) values ('s', 'user', 'needle', 'tool', '[]', 0)\")\n\
        print(json.dumps([r[0] for t in ('messages_fts', 'messages_fts_trigram') for r in c.execute(\"select content from %s where %s match 'needle'\" % (t, t))]))\n";
    let statements: Vec<&str> = FRESH.to_vec();
    let answers = python(script, &serde_json::to_string(&statements).unwrap());
    answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn p15_a_fresh_home_has_the_text_that_hermes_would_have_written() {
    let [texts, _, rows, indexed] = fresh().try_into().unwrap();
    assert_eq!(texts, FRESH[..FRESH.len() - 1]);
    assert_eq!(rows, [VERSION.to_string()]);
    assert_eq!(indexed, ["needle tool []"; 2]);
}

#[test]
fn a_fresh_home_can_do_everything() {
    let [_, columns, _, _] = fresh().try_into().unwrap();
    let columns = columns.iter().map(|column| column.split_once('.').unwrap());
    assert_eq!(missing(columns.clone()), None);
    let all = Capabilities::of(columns.clone());
    let without = |table: &'static str, name: &'static str| {
        Capabilities::of(columns.clone().filter(move |column| *column != (table, name)))
    };
    assert_eq!(without("messages", "compacted"), Capabilities { has_compacted: false, ..all });
    assert_eq!(without("gateway_routing", "entry_json"), Capabilities { has_gateway_routing: false, ..all });
    assert_eq!(format!("{all:?}").matches("false").count(), 0);
    assert_eq!(
        missing(columns.filter(|column| *column != ("messages", "role"))).as_deref(),
        Some("messages.role")
    );
}

#[test]
fn the_statements_are_those_read_from_hermes_0_19() {
    let digest = Sha256::digest(FRESH[..FRESH.len() - 1].join("\n"));
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(digest, "cf0ec148654f8cd51321ab4ae12a4da8bcca02426785c69e7142e08aa4b9790f");
}

#[test]
fn what_hermes_0_14_has_is_enough_and_no_more() {
    let columns = REQUIRED.iter().flat_map(|(table, names)| names.iter().map(|name| (*table, *name)));
    let columns = columns.chain([("messages_fts", "content"), ("messages_fts_trigram", "content")]);
    assert_eq!(missing(columns.clone()), None);
    let searchable =
        Capabilities { has_word_index: true, has_trigram_index: true, ..Capabilities::default() };
    assert_eq!(Capabilities::of(columns), searchable);
}

#[test]
fn p15_schemas_11_to_22_open_and_no_others() {
    for version in -1..40 {
        let expected = match version {
            11..=22 => Verdict::Open,
            23.. => Verdict::ReadOnly(version),
            _ => Verdict::TooOld(version),
        };
        assert_eq!(verdict(version), expected);
    }
    assert!(verdict(10).to_string().contains("schema 10"));
    assert!(verdict(30).to_string().contains("schema 30"));
}
