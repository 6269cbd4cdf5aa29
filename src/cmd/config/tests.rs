use super::*;
use std::fs;

fn check(config: &str, dotenv: &str) -> (String, ExitCode) {
    check_all(config, dotenv, false)
}

fn check_all(config: &str, dotenv: &str, all: bool) -> (String, ExitCode) {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("config.yaml"), config).unwrap();
    fs::write(directory.path().join(".env"), dotenv).unwrap();
    let managed = directory.path().join("none").display().to_string();
    let environment = Environment::from([("HERMES_MANAGED_DIR", managed.as_str())]);
    let mut out = Vec::new();
    let code = Check { all }.run(&[directory.path().to_owned()], &environment, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    (text.replace(directory.path().to_str().unwrap(), "HOME"), code)
}

#[test]
fn check_prints_each_value_and_where_it_came_from() {
    let (text, code) =
        check("model: {default: some/model}\nagnet: {max_turns: 7}\n", "OPENROUTER_API_KEY=sk-or-0123456789");
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("home ") && lines[0].ends_with("  command line"), "{text}");
    assert!(lines[1].starts_with("model.default ") && lines[1].ends_with("  config.yaml:1"), "{text}");
    assert!(text.contains("set, 16 characters (OPENROUTER_API_KEY)"), "{text}");
    let starts: Vec<_> =
        lines[1..].iter().take_while(|line| !line.is_empty()).map(|line| line.find("  ").unwrap()).collect();
    assert!(starts.len() > 15, "{text}");
    assert!(
        text.ends_with(
            "\nwarning: HOME/config.yaml:2:1: `agnet` is not a key of Hermes; did you mean `agent`?\n"
        ),
        "{text}"
    );
    assert!(!text.contains("sk-or"), "{text}");
    assert_eq!(code, ExitCode::SUCCESS);
}

#[test]
fn columns_are_aligned() {
    let (text, _) = check("", "");
    let table: Vec<_> = text.lines().collect();
    let column = table[0].find("HOME").unwrap();
    for line in table {
        assert!(line[..column].ends_with("  "), "{line}");
        assert!(!line[column..].starts_with(' '), "{line}");
    }
}

#[test]
fn errors_give_exit_code_2_and_the_place() {
    for (config, expected) in [
        ("a: [1\n", "error: HOME/config.yaml:1:4: unclosed bracket '['\n  1 | a: [1\n    |    ^\n"),
        ("throughline: {x: 1}\n", "error: HOME/config.yaml:1:15: `throughline.x` does not exist"),
        ("model: a/b\n", "error: HOME/config.yaml:1: the model `a/b` is named, and there is no key for it"),
    ] {
        let (text, code) = check(config, "");
        assert!(text.contains(expected), "{config}: {text}");
        assert_eq!(code, ExitCode::from(WITH_ERRORS), "{config}");
    }
}

#[test]
fn check_lists_plugins_and_what_of_them_is_off() {
    let (text, code) = check(
        "throughline:\n  plugins:\n    notes: {command: [notes, --fast]}\n    old: {command: old, enabled: false}\n\
         memory: {provider: 'hermes:holographic'}\n",
        "",
    );
    let line =
        |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{text}"));
    assert!(
        line("plugin notes").contains("notes --fast") && line("plugin notes").ends_with("config.yaml:3"),
        "{text}"
    );
    assert!(line("plugin old").contains("off: `enabled` is false"), "{text}");
    assert!(line("off: memory provider holographic").contains("Hermes' Python was not found"), "{text}");
    assert_eq!(code, ExitCode::SUCCESS);
}

#[test]
fn check_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let environment = Environment::from([("HOME", "/nowhere"), ("HERMES_MANAGED_DIR", "/nowhere")]);
    let mut out = Vec::new();
    Check { all: false }.run(&[directory.path().to_owned()], &environment, &mut out).unwrap();
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "an empty home stays empty");
    let absent = directory.path().join("absent");
    let error = Check { all: false }.run(std::slice::from_ref(&absent), &environment, &mut out).unwrap_err();
    assert!(error.to_string().contains("there is no home at"), "{error}");
    assert!(!absent.exists());
}

/// A reader that hangs up, as `head` does.
struct Closed;

impl Write for Closed {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_closed_pipe_is_an_error_and_no_panic() {
    let directory = tempfile::tempdir().unwrap();
    let environment = Environment::from([("HOME", "/nowhere")]);
    let error =
        Check { all: false }.run(&[directory.path().to_owned()], &environment, &mut Closed).unwrap_err();
    assert_eq!(error.downcast_ref::<io::Error>().map(io::Error::kind), Some(io::ErrorKind::BrokenPipe));
}

#[test]
fn check_says_what_becomes_of_each_key_that_is_set() {
    let config = "model: rehearsal\nstt: {local: {model: large}}\nkanban: {failure_limit: 2}\nprivacy: {redact_pii: true}\n\
                  proxy: {enabled: true}\ndisplay: {skin: mono}\nbrowser: {headed: true}\nagent: {max_turns: 3}\n";
    let (text, code) = check(config, "SIGNAL_HTTP_URL=http://127.0.0.1:1\nSIGNAL_ACCOUNT=+1\n");
    for part in [
        "stt.local.model     line 2: not honoured: what is spoken is not written down",
        "privacy.redact_pii  line 4: honoured differently: ",
        "proxy.enabled       line 5: refused, these tools are off: terminal, code_execution: ",
        "display.skin        line 6: not honoured, harmless: ",
        "browser.headed      line 7: honoured by Hermes' Python: ",
        "agent.max_turns     line 8: honoured\n",
        "\nnot carried: Signal, stt\n",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(!text.contains("kanban"), "a default asks for nothing: {text}");
    assert_eq!(code, ExitCode::SUCCESS);
    let (text, _) = check_all("", "", true);
    assert!(text.contains("\nkanban.failure_limit  not honoured\n") && text.lines().count() > 900, "{text}");
}
