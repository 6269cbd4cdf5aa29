//! The tool `todo`: a task list for each session.
//!
//! Hermes keeps it in memory and finds it again in the transcript. Here each session has a small file
//! that is replaced whole, so the list survives a restart, and a compression that cuts the transcript
//! away, without a look into the history.
//!
//! The list is exactly what the last call wrote, so running one call twice leaves the same list: the
//! tool is safe to repeat.

use crate::arguments;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use throughline_core::id::SessionId;
use throughline_core::message::JsonText;
use throughline_core::port::Promise;
use throughline_core::tool::{Call, Kit, Returned, Spec};
use throughline_hermes::json as python;
use throughline_private_files as private_files;

/// Hermes' bounds: the list rides through every compression, so it must stay small.
const ITEMS_MAX: usize = 256;
const CONTENT_CHARS_MAX: usize = 4000;
const CUT: &str = "… [truncated]";

/// No list of ours is larger; a file that is was not written here.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Sessions whose lock is remembered: above this, those that no call holds are forgotten.
const TURNS_MAX: usize = 1024;

const STATUSES: [&str; 4] = ["pending", "in_progress", "completed", "cancelled"];

const DESCRIPTION: &str = "\
The task list of this session. Keep one when the work has three or more steps or the user asks for several \
things. Without arguments it returns the list.

To write, pass 'todos':
- merge=false (default): they become the whole list
- merge=true: items with a known id are updated, the others are added at the end

An item is {id: string, content: string, status: pending|in_progress|completed|cancelled}. The order is the \
priority. Only ONE item is in_progress at a time. Mark an item completed as soon as it is done; if it fails, \
cancel it and add a better one. The answer is always the full list.";

/// The tool `todo`, with one file per session in a directory.
pub struct Todo {
    lists: Arc<TodoLists>,
}

struct TodoLists {
    directory: PathBuf,
    /// Calls of one session may run side by side; each reads, changes and replaces the file.
    turns: Mutex<HashMap<SessionId, Arc<Mutex<()>>>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct TodoItem {
    id: String,
    content: String,
    status: String,
}

impl Todo {
    /// `directory` is made when the first list is written.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { lists: Arc::new(TodoLists { directory: directory.into(), turns: Mutex::default() }) }
    }

    /// Where a home keeps its lists.
    pub fn of_home(home: &Path) -> Self {
        Self::new(home.join("throughline").join("todo"))
    }

    /// What is open, as Hermes puts it behind a summary. None if nothing is.
    pub fn reminder(&self, session: &SessionId) -> Option<String> {
        let items = self.lists.load(session).ok()?;
        let open: Vec<String> = items
            .iter()
            .filter_map(|item| {
                let mark = match item.status.as_str() {
                    "in_progress" => "[>]",
                    "pending" => "[ ]",
                    _ => return None,
                };
                Some(format!("- {mark} {}. {} ({})", item.id, item.content, item.status))
            })
            .collect();
        if open.is_empty() {
            return None;
        }
        Some(format!("[Your active task list was preserved across context compression]\n{}", open.join("\n")))
    }

    /// Where the list of a session lies, if it has one.
    pub fn file_of(&self, session: &SessionId) -> PathBuf {
        self.lists.path(session)
    }

    /// The session is gone for good, and its list with it.
    pub fn remove(&self, session: &SessionId) -> io::Result<()> {
        match fs::remove_file(self.lists.path(session)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

impl Kit for Todo {
    fn specs(&self) -> Vec<Spec> {
        vec![Spec {
            name: "todo".to_owned(),
            toolset: "todo".to_owned(),
            description: DESCRIPTION.to_owned(),
            parameters: JsonText::from_valid(python::dumps_unicode(&schema())),
            repeatable: true,
        }]
    }

    fn call<'a>(&'a self, call: &'a Call) -> Promise<'a, Returned> {
        Box::pin(async move {
            let lists = Arc::clone(&self.lists);
            let (session, arguments) = (call.caller.session.clone(), call.arguments.clone());
            let work = tokio::task::spawn_blocking(move || lists.run(&session, &arguments));
            let text = work.await.unwrap_or_else(|_| arguments::refusal("The task list could not be used."));
            Returned::text(text)
        })
    }

    fn forget(&self, session: &SessionId) {
        self.lists.turns.lock().unwrap_or_else(PoisonError::into_inner).remove(session);
    }
}

impl TodoLists {
    fn run(&self, session: &SessionId, arguments: &str) -> String {
        match self.answer(session, arguments) {
            Ok(items) => told(&items),
            Err(error) => error,
        }
    }

    fn answer(&self, session: &SessionId, arguments: &str) -> Result<Vec<TodoItem>, String> {
        let given = arguments::read(arguments, &schema())?;
        let turn = self.turn(session);
        let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        let items = self.load(session).map_err(|error| failed("read", &error))?;
        let Some(todos) = given.get("todos").and_then(Value::as_array) else { return Ok(items) };
        let merge = given.get("merge").and_then(Value::as_bool).unwrap_or(false);
        let items = if merge { merged(items, todos) } else { replaced(todos) };
        self.save(session, &items).map_err(|error| failed("saved", &error))?;
        Ok(items)
    }

    fn turn(&self, session: &SessionId) -> Arc<Mutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        if turns.len() >= TURNS_MAX {
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        }
        Arc::clone(turns.entry(session.clone()).or_default())
    }

    fn path(&self, session: &SessionId) -> PathBuf {
        self.directory.join(file_name(session))
    }

    fn load(&self, session: &SessionId) -> io::Result<Vec<TodoItem>> {
        let path = self.path(session);
        let length = match fs::symlink_metadata(&path) {
            Ok(facts) if facts.is_file() => facts.len(),
            Ok(_) => return Err(io::Error::other("it is no regular file")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        if length > FILE_BYTES_MAX {
            return Err(io::Error::other("its file is too large"));
        }
        let text = fs::read(&path)?;
        // A list that cannot be read is an empty list: the model can write it anew, and must be able to.
        let items: Vec<TodoItem> = serde_json::from_slice(&text).unwrap_or_else(|error| {
            tracing::warn!(%error, path = %path.display(), "a task list could not be read and is taken as empty");
            Vec::new()
        });
        Ok(bounded(items))
    }

    fn save(&self, session: &SessionId, items: &[TodoItem]) -> io::Result<()> {
        private_files::create_directory(&self.directory)?;
        let mut file = tempfile::Builder::new().prefix(".todo-").tempfile_in(&self.directory)?;
        file.write_all(&serde_json::to_vec(items)?)?;
        file.as_file().sync_all()?;
        file.persist(self.path(session)).map_err(|error| error.error)?;
        private_files::sync_directory(&self.directory)
    }
}

fn failed(what: &str, error: &io::Error) -> String {
    arguments::refusal(format!("The task list of this session could not be {what}: {error}."))
}

/// Ids of sessions are printable, but may hold what a file name must not.
fn file_name(session: &SessionId) -> String {
    let mut name = String::with_capacity(session.as_str().len() + 5);
    for byte in session.as_str().bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' => name.push(char::from(byte)),
            _ => name.push_str(&format!("%{byte:02x}")),
        }
    }
    // Longer names than a file system takes are told apart by their digest.
    if name.len() > 200 {
        use sha2::Digest as _;
        let digest = sha2::Sha256::digest(session.as_str().as_bytes());
        name = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    }
    name + ".json"
}

fn replaced(todos: &[Value]) -> Vec<TodoItem> {
    bounded(last_of_each(todos).into_iter().map(item).collect())
}

fn merged(mut items: Vec<TodoItem>, todos: &[Value]) -> Vec<TodoItem> {
    for todo in last_of_each(todos) {
        let Some(fields) = todo.as_object() else { continue };
        let id = text(fields, "id");
        if id.is_empty() {
            continue; // nothing says which one is meant
        }
        match items.iter_mut().find(|item| item.id == id) {
            None => items.push(item(todo)),
            Some(known) => {
                let (content, status) = (text(fields, "content"), text(fields, "status").to_lowercase());
                if !content.is_empty() {
                    known.content = capped(content);
                }
                if STATUSES.contains(&status.as_str()) {
                    known.status = status;
                }
            }
        }
    }
    bounded(items)
}

/// Of several items with one id only the last counts, where it stands.
fn last_of_each(todos: &[Value]) -> Vec<&Value> {
    let mut last: HashMap<String, usize> = HashMap::new();
    for (nth, todo) in todos.iter().enumerate() {
        let key = match todo.as_object() {
            Some(fields) => {
                Some(text(fields, "id")).filter(|id| !id.is_empty()).unwrap_or_else(|| "?".to_owned())
            }
            None => format!("__invalid_{nth}"),
        };
        last.insert(key, nth);
    }
    let mut kept: Vec<usize> = last.into_values().collect();
    kept.sort_unstable();
    kept.into_iter().map(|nth| &todos[nth]).collect()
}

fn item(todo: &Value) -> TodoItem {
    let Some(fields) = todo.as_object() else {
        return TodoItem {
            id: "?".to_owned(),
            content: "(invalid item)".to_owned(),
            status: "pending".to_owned(),
        };
    };
    let or = |text: String, other: &str| if text.is_empty() { other.to_owned() } else { text };
    let status = text(fields, "status").to_lowercase();
    let known = STATUSES.contains(&status.as_str());
    TodoItem {
        id: or(text(fields, "id"), "?"),
        content: capped(or(text(fields, "content"), "(no description)")),
        status: if known { status } else { "pending".to_owned() },
    }
}

fn text(fields: &Map<String, Value>, name: &str) -> String {
    match fields.get(name) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.trim().to_owned(),
        Some(other) => other.to_string(),
    }
}

fn capped(content: String) -> String {
    if content.chars().count() <= CONTENT_CHARS_MAX {
        return content;
    }
    let kept: String = content.chars().take(CONTENT_CHARS_MAX - CUT.chars().count()).collect();
    kept + CUT
}

/// The head is what matters most.
fn bounded(mut items: Vec<TodoItem>) -> Vec<TodoItem> {
    items.truncate(ITEMS_MAX);
    items
}

fn told(items: &[TodoItem]) -> String {
    let count = |status: &str| items.iter().filter(|item| item.status == status).count();
    let todos: Vec<Value> = items
        .iter()
        .map(|item| json!({"id": item.id, "content": item.content, "status": item.status}))
        .collect();
    python::dumps_unicode(&json!({
        "todos": todos,
        "summary": {
            "total": items.len(),
            "pending": count("pending"),
            "in_progress": count("in_progress"),
            "completed": count("completed"),
            "cancelled": count("cancelled"),
        },
    }))
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "todos": {
                "type": "array",
                "description": "The items to write. Leave it out to read the list.",
                "items": {
                    "type": "object",
                    "properties": {
                        "id": {"type": "string", "description": "Names the item within the list"},
                        "content": {"type": "string", "description": "What is to be done"},
                        "status": {"type": "string", "enum": STATUSES, "description": "Where it stands"},
                    },
                    "required": ["id", "content", "status"],
                },
            },
            "merge": {
                "type": "boolean",
                "description": "true: update items by id and add new ones. false (default): replace the list.",
                "default": false,
            },
        },
        "required": [],
    })
}

#[cfg(test)]
mod tests;
