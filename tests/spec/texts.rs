//! The texts that people read, compared with files in `snapshots/`: help, errors and tables. To accept a change, write the
//! files anew with `INSTA_UPDATE=always cargo nextest run --cargo-profile ci texts::` and read the difference.

use crate::gateway::{Launch, Place};
use insta::{assert_snapshot, with_settings};
use serde_json::{Value, json};
use std::fs;

/// Compares with `snapshots/NAME.snap`.
fn compare(name: &str, text: &str) {
    with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
        assert_snapshot!(name, text);
    });
}

/// What the program prints for these words, without the names of this test's directories.
fn printed(place: &Place, launch: &Launch, words: &str) -> String {
    let launch = words.split(' ').fold(launch.clone(), |launch, word| launch.arg(word));
    let launch = launch.env("COLUMNS", "100").env("API_SERVER_PORT", "8642");
    let ended = launch.run();
    let text =
        format!("{}{}", ended.stdout, ended.stderr).replace(place.path().to_str().unwrap(), "DIRECTORY");
    let is_log = |line: &&str| line.contains(" throughline started version=");
    let text: String = text.split_inclusive('\n').filter(|line| !is_log(line)).collect();
    format!("$ throughline {words}\n{text}[exit code {}]\n", ended.status.code().unwrap())
}

/// The help of a command and of all commands below it.
fn help(place: &Place, words: &str) -> String {
    let mut text = printed(place, &Launch::on(place, &[]), format!("{words} --help").trim());
    let list = text.split_once("\nCommands:\n").map(|(_, rest)| rest.to_owned()).unwrap_or_default();
    for line in list.lines().take_while(|line| !line.is_empty()) {
        let name = line.strip_prefix("  ").and_then(|line| line.split(' ').next()).unwrap_or_default();
        if !["", "help"].contains(&name) && !words.is_empty() {
            text.push_str(&format!("\n{}", help(place, &format!("{words} {name}"))));
        }
    }
    text
}

#[test]
fn the_help_of_each_command() {
    let place = Place::new();
    let all = help(&place, "");
    let (_, list) = all.split_once("\nCommands:\n").unwrap();
    let names = list.lines().take_while(|line| !line.is_empty());
    let names: Vec<&str> = names.filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).collect();
    compare("help", &all);
    for name in names.into_iter().filter(|name| !["", "help"].contains(name)) {
        compare(&format!("help-{name}"), &help(&place, name));
    }
}

#[test]
fn the_errors_that_people_meet_first() {
    let place = Place::new();
    fs::create_dir_all(place.home()).unwrap();
    let mut text = String::new();
    for words in ["chat -q hello", "nothing"] {
        let nowhere = Launch::on(&place, &[&place.file("nowhere")]);
        text.push_str(&format!("{}\n", printed(&place, &nowhere, words)));
    }
    for words in
        ["status", "why hello", "sessions show 20260528_093510_66bfaec7", "forget person ada", "mcp test x"]
    {
        text.push_str(&format!("{}\n", printed(&place, &place.launch(), words)));
    }
    for (file, content) in [
        ("home/config.yaml", "model: {default: gpt-5.2\n"),
        ("home/config.yaml", "model: {default: gpt-5.2}\n"),
        ("home/config.yaml", "model: {default: gpt-5.2, provider: acme}\n"),
        ("home/config.yaml", "throughline: {hops_max: many}\n"),
        ("home/state.db", "this is no database"),
    ] {
        fs::remove_file(place.file("home/config.yaml")).ok();
        place.write(file, content);
        text.push_str(&format!("{file}: {content}\n{}\n", printed(&place, &place.launch(), "run")));
    }
    compare("errors", &text);
}

#[test]
fn the_table_of_settings() {
    let place = Place::new();
    place.write(
        "home/config.yaml",
        "model: {default: gpt-5.2}\nstt: {enabled: true}\nmemory: {nudge_intervall: 3}\n",
    );
    place.write("home/.env", "OPENAI_API_KEY=key-of-the-table\n");
    let mut table = printed(&place, &place.launch(), "config check");
    while table.contains("     ") {
        table = table.replace("     ", "    "); // how wide a column is depends on the directory's name
    }
    compare("settings", &table);
}

#[test]
fn the_tools_that_a_model_is_offered() {
    let place = Place::new();
    place.write("home/config.yaml", "platform_toolsets: {api_server: [hermes-cli]}\n");
    let gateway = place.rehearsing(&json!({})).start();
    gateway.client.say("s", "hello");
    assert!(gateway.stop().success());
    let asked = place.asked();
    let tools = asked[0]["tools"].as_array().unwrap().iter().map(|tool| &tool["function"]);
    let line = |tool: &Value| {
        let properties =
            tool["parameters"]["properties"].as_object().map(|map| map.keys().cloned().collect::<Vec<_>>());
        let described = tool["description"].as_str().unwrap().lines().next().unwrap_or_default();
        format!(
            "{}({})\n    {described}\n",
            tool["name"].as_str().unwrap(),
            properties.unwrap_or_default().join(", ")
        )
    };
    let table: String = tools.map(line).collect();
    compare("tools", &table.replace(place.path().to_str().unwrap(), "DIRECTORY"));
}
