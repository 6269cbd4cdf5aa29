use super::*;
use proptest::prelude::*;

const BODY: &str = "Zk3vQ9xT7bLm2NcR5wYp8HsD1fGj4KaU6eXo";

#[test]
fn p31_keys_are_cut_and_words_are_not() {
    for (text, expected) in [
        ("key sk-proj-abcdefghijklmnop failed", "key sk-… failed"),
        ("Authorization: Bearer abcdefghijklmnop", "Authorization: Bearer …"),
        ("a task-oriented-description here", "a task-oriented-description here"),
        ("sk-short", "sk-short"),
        ("two sk-aaaaaaaaaaaaaaaa xoxb-bbbbbbbbbbbbbbbb", "two sk-… xoxb-…"),
        ("_ghp_Zk3vQ9xT7bLm2NcR5wYp_", "_ghp_…_"),
        ("SG.Zk3vQ9xT7bLm2.NcR5wYp8HsD1fGj4KaU6.", "SG.…."),
        ("npm_config_registry=x", "npm_config_registry=x"),
        ("AKIAIOSFODNN7EXAMPLE", "AKIA…"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dozjgNryP4J3jVmNHl0w", "eyJ…"),
        ("bot12345678:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw", "bot12345678:…"),
        ("call +4915112345678 now", "call +491****5678 now"),
        ("x+1234567", "x+1234567"),
    ] {
        assert_eq!(redacted(text), expected, "{text}");
    }
}

#[test]
fn p31_a_name_or_a_place_gives_a_secret_away() {
    for (text, expected) in [
        ("SERVICE_API_KEY=hunter2", "SERVICE_API_KEY=…"),
        ("export DB_PASSWORD='a b c' next", "export DB_PASSWORD='…' next"),
        ("FOO_SECRET = bar", "FOO_SECRET = …"),
        ("spring.datasource.password=hunter2", "spring.datasource.password=…"),
        ("  token=abc&x=1", "  token=…&x=1"),
        ("mysql --password=hunter2 db", "mysql --password=… db"),
        ("{\"apiKey\": \"hunter2\"}", "{\"apiKey\": \"…\"}"),
        ("{'token': 'hunter2'}", "{'token': '…'}"),
        (r#"{\"password\":\"hun\\ter2\"}"#, r#"{\"password\":\"…\"}"#),
        ("password: hunter2", "password: …"),
        ("password: \"hunter2\"", "password: \"…\""),
        ("- api_key: hunter2", "- api_key: …"),
        ("use password=hunter2 for staging.", "use password=… for staging."),
        ("log in with the token: ab12cd34, then go on", "log in with the token: …, then go on"),
        ("it is db_password='Kj7-velvet-Trout' (old)", "it is db_password='…' (old)"),
        ("Das Passwort (password: Kj7-velvet-Trout) gilt", "Das Passwort (password: …) gilt"),
        ("Proxy-Authorization: Basic dXNlcjpwYXNz", "Proxy-Authorization: Basic …"),
        ("curl -H \"Authorization: token abc\" x", "curl -H \"Authorization: token …\" x"),
        ("{\"Authorization\": \"Bearer abc\"}", "{\"Authorization\": \"…\"}"),
        ("curl -H 'X-Api-Key: local-backend' x", "curl -H 'X-Api-Key: …' x"),
        ("postgres://u:pa/ss@host/db", "postgres://u:…@host/db"),
        ("https://u:pass@host/x", "https://u:…@host/x"),
        ("mysql://u:pa$$wo{rd@host", "mysql://u:…@host"),
        ("git clone https://ghtokenvalue@github.com/x", "git clone https://…@github.com/x"),
        ("https://h/cb?code=abc&state=x#access_token=q", "https://h/cb?code=…&state=x#access_token=…"),
        ("GET /hook?pass%77ord=x HTTP/1.1", "GET /hook?pass%77ord=… HTTP/1.1"),
        ("user=me&password=hunter2&x=1", "user=me&password=…&x=1"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY----- after",
            "[REDACTED PRIVATE KEY] after",
        ),
        (
            "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nMIIEvQIBADANBgkqhkiG9w==\nthen more",
            "[REDACTED PRIVATE KEY]\nthen more",
        ),
    ] {
        assert_eq!(redacted(text), expected, "{text}");
    }
}

#[test]
fn prose_code_and_digests_survive() {
    for text in [
        "The token bucket holds the secret of the password manager; the author agrees.",
        "commit 3f786850e387550fdab836ed7e6dc881de23001b",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "let token = parser.next_token()?;",
        "    token: Secret,",
        "    password: str = None",
        "fn token(&self) -> &str { &self.token }",
        "if token == expected {",
        "MAX_TOKENS=4096",
        "max_tokens: 4096",
        "AUTHOR=jane",
        "API_KEY=$API_KEY",
        "api_key: os.getenv('KEY')",
        "const KEY = process.env.API_KEY;",
        "https://example.com/a/b?page=2#top",
        "git@github.com:owner/repo.git",
        "mail jane@example.com or see http://h/?q=a@b",
        "Authorization: the user must log in first",
        "2026-05-28T09:35:10+02:00",
        "550e8400-e29b-41d4-a716-446655440000",
        "src/main.rs:12:5: error[E0308]: mismatched types",
        "+1 -1 @@ -1,7 +1,9 @@",
        "password: must be at least eight characters",
        "The password: must be at least 8 characters",
        "connect(user=u, password=get_password2(), token=token)",
        "the next token: identifier, and the one after it is at 1234567",
        "Use max_tokens=4096 and the tokens: 12000 of them",
        "what is in secret=config.secrets.db and why",
        "Bearer authentication is used",
        "a / b * c & d | e; x = y + 1234567",
        "日本語のテキスト — “quoted” …",
    ] {
        assert_eq!(redacted(text), text);
    }
}

#[test]
fn what_the_model_reads_keeps_its_names_and_loses_its_keys() {
    let text = "MAX_TOKEN=abc\n\"apiKey\": \"test\"\npostgresql://{user}:{pass}@{host}\nhttps://h/cb?code=abc\n+1234567890";
    assert_eq!(redacted_for(Purpose::Output, text), text);
    let key = format!("KEY=ghp_{BODY}");
    assert_eq!(redacted_for(Purpose::Output, &key), "KEY=ghp_…");
    assert_eq!(redacted_for(Purpose::File, &key), "KEY=«redacted:ghp_…»");
    assert_eq!(redacted_for(Purpose::Environment, "MY_TOKEN=abc"), "MY_TOKEN=…");
    for (command, expected) in
        [("env | sort", true), ("ls; printenv", true), ("export", true), ("cat env", false), ("", false)]
    {
        assert_eq!(lists_environment(command), expected, "{command}");
    }
}

/// Secrets in the forms in which they leave, with the part that must not.
fn carrier() -> impl Strategy<Value = (String, String)> {
    let body = "[A-Za-z0-9]{24,40}";
    let form = prop_oneof![
        Just("sk-{}"),
        Just("ghp_{}"),
        Just("xoxb-{}"),
        Just("hf_{}"),
        Just("Authorization: Bearer {}"),
        Just("authorization: token {}"),
        Just("x-api-key: {}"),
        Just("SERVICE_TOKEN={}"),
        Just("DB_PASSWORD='{}'"),
        Just("\"password\": \"{}\""),
        Just("\"client_secret\":\"{}\""),
        Just("postgres://user:{}@host/db"),
        Just("https://user:{}@host/x"),
        Just("https://h/x?access_token={}&y=1"),
        Just("app.api.key={}"),
        Just("\nsecret: {}\n"),
        Just("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----"),
        Just("12345678901:{}AbCdEf_-"),
    ];
    (form, body).prop_map(|(form, body)| (form.replace("{}", &body), body))
}

/// Were each name followed to the end of the chain, this would take minutes.
#[test]
fn a_long_chain_of_names_is_one_look_each() {
    for link in ["token=a,", "token: a,", "password='", "(secret=\"", " api_key: '"] {
        let chain = link.repeat(60_000);
        assert!(!redacted(&chain).is_empty());
    }
    let long = format!("use token=ab12{} here", "c3".repeat(400));
    assert_eq!(redacted(&long), "use token=… here");
}

proptest! {
    #[test]
    fn p31_no_secret_survives_in_any_surroundings(
        before in "\\PC{0,60}", after in "\\PC{0,60}", (text, secret) in carrier(),
    ) {
        // Glued to a letter a key is part of a word; a blank or a line end sets it apart.
        let text = format!("{before}\n{text} {after}");
        let out = redacted(&text);
        prop_assert!(!out.contains(&secret), "{out}");
        prop_assert!(!out.contains(&secret[6..]), "a part of it: {out}");
    }

    #[test]
    fn redacting_twice_is_redacting_once(
        before in "\\PC{0,40}", after in "\\PC{0,40}", (text, _) in carrier(),
        noise in "[-=:&?;#@/\"'\\\\ \\nA-Za-c0-3_.+…]{0,80}",
        word in "(TOKEN|password|Authorization|Bearer|eyJ|sk-|://|\"token\"|x-api-key|-----BEGIN PRIVATE KEY-----)",
    ) {
        for text in [format!("{before} {text}{after}"), format!("{noise}{word}{noise}{word}{after}")] {
            for purpose in [Purpose::Log, Purpose::Output, Purpose::Environment, Purpose::File] {
                let once = redacted_for(purpose, &text);
                prop_assert_eq!(redacted_for(purpose, &once), once.clone(), "{:?} of {:?}", purpose, text);
            }
        }
    }

    #[test]
    fn p31_no_rule_is_left_out_that_would_have_cut_something(
        before in "\\PC{0,40}", after in "\\PC{0,40}", (text, _) in carrier(),
        noise in "[-=:&?;#@/\"'\\\\ \\nA-Za-c0-3_.+…]{0,80}",
        word in "(TOKEN|password|Authorization|Bearer|eyJ|sk-|://|\"token\"|x-api-key|-----BEGIN PRIVATE KEY-----|[+]491511234567)",
    ) {
        for text in [format!("{before} {text}{after}"), format!("{noise}{word}{noise}{word}{after}")] {
            for purpose in [Purpose::Log, Purpose::Output, Purpose::Environment, Purpose::File] {
                let mut slowly = text.clone();
                for _ in 0..ROUNDS_MAX {
                    slowly = applied(purpose, &slowly, &Signs::EVERY).into_owned();
                }
                prop_assert_eq!(redacted_for(purpose, &text), slowly, "{:?} of {:?}", purpose, text);
            }
        }
    }

    #[test]
    fn sentences_are_left_alone(words in proptest::collection::vec("[a-z]{1,12}", 1..30)) {
        let text = format!("The {}.", words.join(" "));
        prop_assert_eq!(redacted(&text), text);
    }

    #[test]
    fn digests_are_left_alone(digest in "[0-9a-f]{40}|[0-9a-f]{64}") {
        let text = format!("commit {digest} in tree {digest}: fix");
        prop_assert_eq!(redacted(&text), text);
    }
}

/// Were the rest of the run looked at for each of its words, this would take minutes.
#[test]
fn a_long_run_of_words_is_looked_over_once() {
    let text = "abc-".repeat(500_000);
    assert_eq!(redacted(&text), text);
}
