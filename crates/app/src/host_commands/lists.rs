//! Commands that only show, list or save something, under the names and with the words that people know.
//!
//! - what was said is read from the store, of the conversation that the command came in and no other
//! - of settings, only what `throughline config check` shows: of a secret, its length
//! - nothing is uploaded
//!
//! Deliberately absent: who may order what about the machine; the gateway asks that first.

use super::{HostCommandRunner, OUTPUT_CHARS_MAX, cut};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::io::Write as _;
use throughline_core::message::{Body, Message};
use throughline_core::port::{Assignment, Read, StoreError};
use throughline_core::prompt::Digest;
use throughline_core::session::BusyInput;
use throughline_home::config::{Row, Settings};
use throughline_home::home::{private_directory, private_file, sync_directory};
use throughline_home::text::one_line;

/// As much of a message as Hermes shows in a list.
const PREVIEW_CHARS: usize = 400;
/// A terminal scrolls; a chat does not take more than [`OUTPUT_CHARS_MAX`].
const TERMINAL_CHARS_MAX: usize = 100_000;
/// Where Hermes saves conversations, within a home.
const SAVED: &str = "sessions/saved";

impl HostCommandRunner {
    /// None: it is none of these.
    pub(super) async fn listed(&self, asked: &Assignment) -> Option<String> {
        Some(match asked.name.as_str() {
            "history" => self.history(asked).await,
            "copy" => self.copied(asked).await,
            "save" => self.saved(asked).await,
            "snapshot" => self.snapshots(asked).await,
            "skills" => {
                let skills = self.skills(asked).await;
                let lines = skills.iter().map(|(name, does)| format!("  /{}: {does}", super::slug(name)));
                listing("Skills", "No skills are installed.", lines, asked)
            }
            "tools" => self.tools_for(asked),
            "toolsets" => self.toolsets(asked),
            "plugins" => self.plugins_listed(asked),
            "config" => self.configuration(asked),
            "busy" => self.busy(),
            "debug" => self.debug(),
            "version" => format!("Throughline {}", env!("CARGO_PKG_VERSION")),
            _ => return None,
        })
    }

    // --------------------------------------------------------------------------- what was said

    /// The rows of the conversation that this was ordered in.
    async fn rows(&self, asked: &Assignment) -> Result<Vec<Message>, String> {
        let Some(session) = asked.session.clone() else { return Ok(Vec::new()) };
        self.read(move |store| Ok(store.history(&session)?.into_iter().map(|(_, message)| message).collect()))
            .await
    }

    async fn read<T: Send + 'static>(
        &self,
        look: impl FnOnce(&dyn Read) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, String> {
        let home = throughline_store::Home::at(self.home.path());
        let reading = tokio::task::spawn_blocking(move || {
            let store = home.reader().map_err(|error| error.to_string())?;
            look(&store).map_err(|error| error.to_string())
        });
        let read = reading.await.unwrap_or_else(|_| Err("reading it failed inside the gateway".into()));
        read.map_err(|why| format!("The conversation cannot be read: {why}. Try again later."))
    }

    async fn history(&self, asked: &Assignment) -> String {
        match self.rows(asked).await {
            Err(why) => why,
            Ok(rows) => history(&rows, &self.name, room(asked)),
        }
    }

    async fn copied(&self, asked: &Assignment) -> String {
        match self.rows(asked).await {
            Err(why) => why,
            Ok(rows) => copied(&rows, asked.argument.trim()),
        }
    }

    async fn saved(&self, asked: &Assignment) -> String {
        let (rows, session) = match (self.rows(asked).await, &asked.session) {
            (Err(why), _) => return why,
            (Ok(rows), Some(session)) if !rows.is_empty() => (rows, session),
            (Ok(_), _) => return "No conversation to save.".into(),
        };
        let model = asked.preferences.model.clone();
        let document = json!({
            "model": model,
            "session_id": session.as_str(),
            "messages": rows.iter().filter_map(exported).collect::<Vec<_>>(),
        });
        let directory = self.home.path().join(SAVED);
        // By the order's own key: one that a crash cut short writes the same file again.
        let name = &Digest::of(&[asked.key.as_bytes()]).to_hex()[..12];
        let path = directory.join(format!("hermes_conversation_{name}.json"));
        let text = serde_json::to_string_pretty(&document).unwrap_or_default();
        let written = private_directory().create(&directory).and_then(|()| {
            let mut file = private_file().write(true).create(true).truncate(true).open(&path)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            sync_directory(&directory)
        });
        match written {
            Ok(()) => format!(
                "Conversation snapshot saved to: {}\nResume the live session with: throughline chat -c {session}",
                path.display()
            ),
            Err(error) => format!("Failed to save: {error}. {} was not written.", path.display()),
        }
    }

    async fn snapshots(&self, asked: &Assignment) -> String {
        let Some(session) = asked.session.clone() else { return "No snapshots yet.".into() };
        match self.read(move |store| store.snapshots(&session)).await {
            Err(why) => why,
            Ok(found) if found.is_empty() => {
                "No snapshots yet. A summary of this conversation leaves one behind; `throughline backup` copies the whole home."
                    .into()
            }
            Ok(found) => {
                let lines = found.iter().map(|it| format!("  {} ({} messages)", it.name, it.messages));
                let head = "Snapshots of this conversation, oldest first";
                let list = listing(head, "", lines, asked);
                format!("{list}\nOn the machine itself `throughline sessions restore` brings one back.")
            }
        }
    }

    // ----------------------------------------------------------------------------- what there is

    fn tools_for(&self, asked: &Assignment) -> String {
        let offer = self.tools.offer(&super::caller(asked));
        let tools: Vec<Json> =
            offer.and_then(|offer| serde_json::from_str(offer.list.as_str()).ok()).unwrap_or_default();
        let mut lines: Vec<String> = tools.iter().filter_map(tool_line).collect();
        lines.sort();
        let total = lines.len();
        match total {
            0 => "No tools available".into(),
            _ => {
                let list = listing("Available Tools", "", lines.into_iter(), asked);
                format!("{list}\nTotal: {total} tools")
            }
        }
    }

    fn toolsets(&self, asked: &Assignment) -> String {
        let offer = self.tools.offer(&super::caller(asked));
        let tools = offer.map(|offer| offer.names.clone()).unwrap_or_default();
        let toolset_of = |tool: &String| self.servers.as_ref().and_then(|mcp| mcp.toolset_of(tool));
        listing(
            "Available Toolsets\n  (*) = currently enabled",
            "No toolset is enabled here.",
            toolset_lines(tools.iter().filter_map(toolset_of)).into_iter(),
            asked,
        )
    }

    fn plugins_listed(&self, asked: &Assignment) -> String {
        let status = self.plugins.as_ref().map(|(plugins, _)| plugins.status()).unwrap_or_default();
        let lines = status.as_array().cloned().unwrap_or_default().into_iter().map(|plugin| {
            let text = |name: &str| plugin[name].as_str().unwrap_or_default().to_owned();
            let why = plugin["why"].as_str().or(plugin["last_error"].as_str());
            let why = why.map(|why| format!(": {}", one_line(why))).unwrap_or_default();
            format!("  {} ({}){why}", text("name"), text("state"))
        });
        listing(
            "Plugins",
            "No user plugins installed. `throughline plugin list` shows what could be enabled.",
            lines,
            asked,
        )
    }

    /// What the files say now, with the options of the start, and as a table.
    fn settings(&self) -> Result<(Settings, Vec<Row>), String> {
        let report = self.home.report(&self.environment, self.overrides.clone());
        let mut report = report.map_err(|error| format!("The configuration cannot be read: {error:#}."))?;
        let rows = std::mem::take(&mut report.rows);
        let (settings, _) = report
            .into_settings()
            .map_err(|error| format!("The configuration cannot be used: {error:#}."))?;
        Ok((settings, rows))
    }

    fn configuration(&self, asked: &Assignment) -> String {
        match self.settings() {
            Err(why) => why,
            Ok((_, rows)) => {
                let lines =
                    rows.iter().map(|row| format!("  {} = {}  ({})", row.name, row.value, row.origin));
                listing("Configuration", "Nothing is configured.", lines, asked)
            }
        }
    }

    fn busy(&self) -> String {
        let mode = match self.settings() {
            Ok((settings, _)) => settings.busy_input.value,
            Err(why) => return why,
        };
        let (word, behaviour) = match mode {
            BusyInput::Queue => ("queue", "queues for next turn"),
            BusyInput::Steer => ("steer", "steers into current run (after next tool call)"),
            BusyInput::Interrupt => ("interrupt", "interrupts current run"),
        };
        format!(
            "Busy input mode: {word}\nA message while busy: {behaviour}\nSet display.busy_input_mode in config.yaml (queue, \
             steer or interrupt) and /restart to change it; /queue and /steer choose for one message."
        )
    }

    fn debug(&self) -> String {
        let home = self.home.path();
        let settings = match self.settings() {
            Ok((_, rows)) => debugged(&rows),
            Err(why) => why,
        };
        // Where it really is: a port of 0 takes one that is free, and profiles share a listener.
        let api = self
            .home
            .address()
            .map_or("does not listen yet".to_owned(), |address| format!("http://{address}"));
        format!(
            "Debug report (nothing was uploaded)\n  Throughline {} on {} {}, pid {}\n  Home: {}\n  API: {api}\n  {settings}\n  \
             Logs: {}\n\
             `throughline status --json`, `throughline doctor` and `throughline audit` say more.",
            env!("CARGO_PKG_VERSION"),
            std::env::consts::OS,
            std::env::consts::ARCH,
            std::process::id(),
            home.display(),
            home.join("logs").display(),
        )
    }
}

/// How many of the agent's tools each toolset has, as Hermes lists them.
fn toolset_lines(toolsets: impl Iterator<Item = String>) -> Vec<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    toolsets.for_each(|name| *counts.entry(name).or_default() += 1);
    counts.iter().map(|(name, count)| format!("  (*) {name:<18} [{count:>2} tools]")).collect()
}

/// The rows that say which model answers and where the API listens, each with where it came from.
fn debugged(rows: &[Row]) -> String {
    let shown = rows.iter().filter(|row| {
        row.name.starts_with("model") || matches!(row.name.as_str(), "api_server.host" | "api_server.port")
    });
    let shown = shown.map(|row| format!("{} = {} ({})", row.name, row.value, row.origin));
    shown.collect::<Vec<_>>().join(", ")
}

/// How much may be said there.
fn room(asked: &Assignment) -> usize {
    if asked.source == "cli" { TERMINAL_CHARS_MAX } else { OUTPUT_CHARS_MAX }
}

fn listing(head: &str, nothing: &str, lines: impl Iterator<Item = String>, asked: &Assignment) -> String {
    let lines: Vec<String> = lines.collect();
    match lines.is_empty() {
        true => nothing.to_owned(),
        false => cut(&format!("{head}\n{}", lines.join("\n")), room(asked)),
    }
}

/// A tool's name, and the first sentence of what it says of itself.
fn tool_line(tool: &Json) -> Option<String> {
    let function = if tool["function"].is_object() { &tool["function"] } else { tool };
    let name = function["name"].as_str()?;
    let does = function["description"].as_str().unwrap_or_default();
    let does = does.lines().next().unwrap_or_default();
    let does = does.find(". ").map_or(does, |end| &does[..=end]);
    Some(format!("  * {name} - {does}"))
}

/// As Hermes shows it, the latest at the end. What does not fit is left out at the beginning.
fn history(rows: &[Message], agent: &str, chars_max: usize) -> String {
    let preview = |text: String| match text.char_indices().nth(PREVIEW_CHARS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    };
    let mut entries: Vec<String> = Vec::new();
    let (mut number, mut tools) = (0, 0);
    let flush = |tools: &mut usize, entries: &mut Vec<String>| {
        if *tools > 0 {
            let noun = if *tools == 1 { "message" } else { "messages" };
            entries.push(format!("  [Tools]\n    ({tools} tool {noun} hidden)"));
            *tools = 0;
        }
    };
    for message in rows {
        let (who, text) = match &message.body {
            Body::Result(_) => {
                tools += 1;
                continue;
            }
            Body::User(content) => ("You", content.plain()),
            Body::Assistant(said) => {
                let text = match (said.content.plain(), said.calls.len()) {
                    (text, _) if !text.trim().is_empty() => text,
                    (_, 0) => "(no text response)".to_owned(),
                    (_, 1) => "(requested 1 tool call)".to_owned(),
                    (_, calls) => format!("(requested {calls} tool calls)"),
                };
                (agent, text)
            }
            Body::System(_) | Body::Other { .. } => continue,
        };
        flush(&mut tools, &mut entries);
        number += 1;
        entries.push(format!("  [{who} #{number}]\n    {}", preview(text)));
    }
    flush(&mut tools, &mut entries);
    if entries.is_empty() {
        return "No conversation history yet.".into();
    }
    let mut fits = 0;
    let mut first = entries.len();
    while first > 0 && fits + entries[first - 1].chars().count() + 2 <= chars_max {
        first -= 1;
        fits += entries[first].chars().count() + 2;
    }
    let left_out = match first {
        0 => String::new(),
        count => format!("\n\n  ({count} earlier entries; `throughline sessions show` has all)"),
    };
    format!("Conversation History{left_out}\n\n{}", entries[first..].join("\n\n"))
}

fn copied(rows: &[Message], argument: &str) -> String {
    let said: Vec<String> = rows
        .iter()
        .filter_map(|message| match &message.body {
            Body::Assistant(said) => Some(said.content.plain()),
            _ => None,
        })
        .collect();
    if said.is_empty() {
        return "Nothing to copy yet.".into();
    }
    let number = match argument {
        "" => match said.iter().rposition(|text| !text.trim().is_empty()) {
            Some(last) => last + 1,
            None => return "Nothing to copy in assistant responses yet.".into(),
        },
        argument => match argument.parse::<usize>() {
            Err(_) => return "Usage: /copy [number]".into(),
            Ok(number) if (1..=said.len()).contains(&number) => number,
            Ok(_) => return format!("Invalid response number. Use 1-{}.", said.len()),
        },
    };
    match said[number - 1].trim() {
        "" => "Nothing to copy in that assistant response.".into(),
        text => format!("{COPY}{number}:\n\n{text}"),
    }
}

/// How an answer to `/copy` begins that has something to copy.
pub const COPY: &str = "Assistant response #";

/// A row as OpenAI's API would have it. None: no model sees it.
fn exported(message: &Message) -> Option<Json> {
    Some(match &message.body {
        Body::System(content) => json!({"role": "system", "content": content.plain()}),
        Body::User(content) => json!({"role": "user", "content": content.plain()}),
        Body::Result(result) => json!({
            "role": "tool", "content": result.content.plain(), "tool_call_id": result.call_id, "name": result.name,
        }),
        Body::Assistant(said) => {
            let mut row = json!({"role": "assistant", "content": said.content.plain()});
            if !said.calls.is_empty() {
                let calls = said.calls.iter().map(|call| {
                    json!({"id": call.id, "type": "function",
                           "function": {"name": call.name, "arguments": call.arguments}})
                });
                row["tool_calls"] = calls.collect();
            }
            row
        }
        Body::Other { .. } => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_core::message::Assistant;
    use throughline_core::{Content, Time};

    fn talk() -> Vec<Message> {
        let user = |text: &str| Message::user(Time(0), Content::text(text));
        let agent = |text: &str| {
            let said = Assistant { content: Content::text(text), ..Assistant::default() };
            Message::new(Time(0), Body::Assistant(said))
        };
        vec![user("Where is the tea?"), agent("In the tin."), user("Which?"), agent("The red one.")]
    }

    #[test]
    fn history_is_numbered_and_the_latest_is_shown_if_not_all_fits() {
        let all = history(&talk(), "ada", 1_000);
        assert_eq!(
            all,
            "Conversation History\n\n  [You #1]\n    Where is the tea?\n\n  [ada #2]\n    In the tin.\n\n  [You #3]\n    \
             Which?\n\n  [ada #4]\n    The red one."
        );
        let some = history(&talk(), "ada", 60);
        assert!(some.contains("2 earlier entries") && some.ends_with("The red one."), "{some}");
        assert!(!some.contains("In the tin"), "{some}");
        assert_eq!(history(&[], "ada", 1_000), "No conversation history yet.");
    }

    #[test]
    fn copy_takes_the_latest_or_the_one_with_a_number() {
        for (argument, expected) in [
            ("", "Assistant response #2:\n\nThe red one."),
            ("1", "Assistant response #1:\n\nIn the tin."),
            ("3", "Invalid response number. Use 1-2."),
            ("0", "Invalid response number. Use 1-2."),
            ("x", "Usage: /copy [number]"),
        ] {
            assert_eq!(copied(&talk(), argument), expected, "{argument:?}");
        }
        assert_eq!(copied(&[], ""), "Nothing to copy yet.");
    }

    #[test]
    fn what_is_saved_has_roles_and_words() {
        let saved: Vec<Json> = talk().iter().filter_map(exported).collect();
        assert_eq!(saved[1], json!({"role": "assistant", "content": "In the tin."}));
    }

    #[test]
    fn a_tool_is_shown_by_its_first_sentence() {
        let tool = json!({"type": "function", "function": {"name": "brew", "description": "Makes tea. Slowly.\nMore."}});
        assert_eq!(tool_line(&tool).unwrap(), "  * brew - Makes tea.");
    }
}
