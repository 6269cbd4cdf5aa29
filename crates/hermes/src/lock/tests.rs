use super::*;

const HERMES: &str = "/usr/bin/python3 /usr/local/bin/hermes gateway run";

fn living(start_time: i64, command_line: &str) -> Process {
    Process { start_time: Some(start_time), command_line: Some(command_line.to_owned()), is_stopped: false }
}

/// Each row was given to Hermes 0.19.0 as well, with three thousand random lines of the same words.
#[test]
fn a_gateway_is_known_by_its_command_line_as_hermes_knows_it() {
    for (command_line, expected) in [
        (HERMES, true),
        ("hermes gateway", true),
        ("python -m hermes_cli.main gateway run --replace", true),
        ("python -m hermes_cli.main gateway status", false),
        ("python /x/hermes_cli/main.py gateway restart", true),
        ("python -m tui_gateway", false),
        ("hermes -p gateway gateway run", true),
        ("hermes -p gateway chat", false),
        ("hermes --profile=x gateway stop", false),
        ("'C:\\Program Files\\hermes-gateway.exe' x", true),
        ("python /a/b/gateway/run.py", true),
        ("vim gateway/run.py.bak", false),
        ("/home/u/.hermes/bin/x gateway run", false),
        ("HERMES GATEWAY RUN", true),
        ("it's hermes gateway run", true),
        ("'it is hermes gateway run", true),
        ("throughline --home /x", false),
        ("", false),
    ] {
        assert_eq!(is_gateway(command_line), expected, "{command_line}");
    }
    assert!(is_gateway(&format!("{TITLE} --home /x")), "or Hermes takes our home for its own");
}

#[test]
fn p15_a_record_is_written_as_hermes_writes_it() {
    let record = Record {
        pid: 4321,
        kind: Some(KIND.to_owned()),
        argv: vec!["/usr/local/bin/hermes".into(), "gateway".into(), "run".into()],
        start_time: Some(987_654),
        throughline: None,
        gateway_state: None,
    };
    let text = r#"{"pid": 4321, "kind": "hermes-gateway", "argv": ["/usr/local/bin/hermes", "gateway", "run"], "start_time": 987654}"#;
    assert_eq!(record.emit(), text);
    assert_eq!(Record::parse(text), Some(record));

    let own = Record::own(7, vec![TITLE.to_owned()], Some(5), "0.1.0");
    assert_eq!(
        own.emit(),
        r#"{"pid": 7, "kind": "hermes-gateway", "argv": ["throughline/hermes-gateway"], "start_time": 5, "throughline": "0.1.0"}"#
    );
    assert_eq!(Record::parse(&own.emit()), Some(own));
}

#[test]
fn old_and_broken_records_are_read_as_far_as_they_go() {
    for (text, pid) in [
        ("4321", Some(4321)),
        (" 4321\n", Some(4321)),
        (r#"{"pid": "4321"}"#, Some(4321)),
        (r#"{"pid": 4321, "start_time": null, "argv": null}"#, Some(4321)),
        (r#"{"pid": 0}"#, None),
        (r#"{"pid": -3}"#, None),
        (r#"{"kind": "hermes-gateway"}"#, None),
        ("{\"pid\": 43", None),
        ("[1]", None),
        ("", None),
        ("\0\0\0", None),
    ] {
        assert_eq!(Record::parse(text).map(|record| record.pid), pid, "{text:?}");
    }
}

#[test]
fn p3_a_record_counts_only_while_its_own_process_lives() {
    let record = Record::parse(
        r#"{"pid": 9, "kind": "hermes-gateway", "argv": ["hermes", "gateway"], "start_time": 100}"#,
    )
    .unwrap();
    let unseen = Process { start_time: Some(100), ..Process::default() };
    let halted = Process { is_stopped: true, ..living(100, HERMES) };
    for (process, runs, holds_token) in [
        (None, false, false),
        (Some(living(100, HERMES)), true, true),
        (Some(living(101, HERMES)), false, false), // the number was used again
        (Some(living(100, "/sbin/cron -f")), false, false),
        (Some(unseen), true, true),
        (Some(halted), true, false),
    ] {
        assert_eq!(record.is_running(process.as_ref()), runs, "{process:?}");
        assert_eq!(record.holds_token(process.as_ref()), holds_token, "{process:?}");
    }
    // A bare number says nothing about when it started; the command line decides.
    let bare = Record::parse("9").unwrap();
    assert!(bare.is_running(Some(&living(1, HERMES))));
    assert!(!bare.is_running(Some(&Process::default())));
}

#[test]
fn a_state_file_says_itself_when_its_gateway_ended() {
    let process = living(1, HERMES);
    for (state, runs) in [
        ("\"running\"", true),
        ("\"draining\"", true),
        ("\"stopped\"", false),
        ("\"startup_failed\"", false),
        ("null", false),
    ] {
        let record =
            Record::parse(&format!(r#"{{"pid": 9, "start_time": 1, "gateway_state": {state}}}"#)).unwrap();
        assert_eq!(record.is_running_by_its_state(Some(&process)), runs, "{state}");
    }
}

#[test]
fn p31_a_tokens_lock_is_hermes_file_and_does_not_show_the_token() {
    let token = Token { scope: "telegram-bot-token", identity: "123:abc" };
    assert_eq!(token.file_name(), "telegram-bot-token-f221311c7ec8b6e8.lock");
    let owner = Record::own(7, vec!["x".into()], Some(5), "0.1.0");
    let text = token_lock(&owner, token, "telegram", "2026-11-15T21:00:00.000000+00:00");
    assert_eq!(
        text,
        "{\"pid\": 7, \"kind\": \"hermes-gateway\", \"argv\": [\"x\"], \"start_time\": 5, \"throughline\": \"0.1.0\", \
         \"scope\": \"telegram-bot-token\", \"identity_hash\": \"f221311c7ec8b6e8\", \
         \"metadata\": {\"platform\": \"telegram\"}, \"updated_at\": \"2026-11-15T21:00:00.000000+00:00\"}"
    );
    assert_eq!(Record::parse(&text).map(|record| record.pid), Some(7));
    assert!(!text.contains("abc"));
}
