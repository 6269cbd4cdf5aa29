//! The tool `process`: list, poll, log, wait, kill, write and close.

use super::super::output::{first_chars, last_chars, strip_ansi};
use super::super::process_group;
use super::super::request::{InvalidRequest, integer, object, positive};
use super::process::{ProcessEnd, ProcessState};
use super::{BackgroundProcess, NO_INPUT, ProcessRegistry};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;
use throughline_core::id::SessionId;
use throughline_core::tool::Caller;

impl ProcessRegistry {
    pub async fn call(self: &Arc<Self>, caller: &Caller, arguments: &str) -> Value {
        match self.answer(caller, arguments).await {
            Ok(value) => value,
            Err(wrong) => json!({"error": wrong.sentence()}),
        }
    }

    async fn answer(self: &Arc<Self>, caller: &Caller, arguments: &str) -> Result<Value, InvalidRequest> {
        let arguments = object(arguments)?;
        let action = word(&arguments, "action");
        if action == "list" {
            return Ok(json!({"processes": self.list(&caller.session)}));
        }
        if !["poll", "log", "wait", "kill", "write", "submit", "close"].contains(&action.as_str()) {
            let known = "list, poll, log, wait, kill, write, submit, close";
            return Ok(json!({"error": format!("Unknown process action: {action}. Use: {known}")}));
        }
        let id = word(&arguments, "session_id");
        if id.is_empty() {
            return Ok(json!({"error": format!("session_id is required for {action}")}));
        }
        let Some(process) = self.find(&caller.session, &id) else {
            return Ok(json!({"status": "not_found", "error": format!("No process with ID {id}")}));
        };
        let data = word(&arguments, "data");
        Ok(match action.as_str() {
            "poll" => self.poll(&process),
            "log" => {
                let limit = positive(&arguments, "limit")?.unwrap_or(200);
                self.log(&process, integer(&arguments, "offset")?.unwrap_or(0), limit)
            }
            "wait" => self.wait(&process, positive(&arguments, "timeout")?).await,
            "kill" => self.kill(&process, "process.kill").await,
            "write" => write(&process, &data).await,
            "submit" => write(&process, &(data + "\n")).await,
            _ => close(&process).await,
        })
    }

    fn list(&self, session: &SessionId) -> Vec<Value> {
        let mine = self.all().into_iter().filter(|process| process.session == *session).collect::<Vec<_>>();
        let (ended, running): (Vec<_>, Vec<_>) = mine.into_iter().partition(|process| process.is_over());
        running.iter().chain(&ended).map(|process| self.entry(process)).collect()
    }

    fn entry(&self, process: &BackgroundProcess) -> Value {
        let life = process.life();
        let mut entry = json!({
            "session_id": process.id,
            "command": self.clean(first_chars(&process.command, 200)),
            "cwd": process.cwd,
            "pid": process.identity.pid,
            "started_at": local_time(process.started_at),
            "uptime_seconds": process.age().as_secs(),
            "status": life.status(),
            "output_preview": self.clean(&life.tail(200)),
        });
        if life.watch.is_on() {
            entry["watch_patterns"] = json!(life.watch.patterns);
            entry["watch_hit"] = json!(life.watch.hits > 0);
        }
        if life.notify_on_complete {
            entry["notify_on_complete"] = json!(true);
        }
        if let Some(ending) = life.ending {
            entry["exit_code"] = json!(ending.code);
        }
        if process.is_detached {
            entry["detached"] = json!(true);
        }
        entry
    }

    fn poll(&self, process: &BackgroundProcess) -> Value {
        let life = process.life();
        let mut result = json!({
            "session_id": process.id,
            "command": self.clean(&process.command),
            "status": life.status(),
            "pid": process.identity.pid,
            "uptime_seconds": process.age().as_secs(),
            "output_preview": self.clean(&life.tail(1000)),
        });
        if let Some(ending) = life.ending {
            ending.tell(&mut result);
        }
        if process.is_detached {
            result["detached"] = json!(true);
            result["note"] = json!("Process recovered after restart -- output history unavailable");
        }
        result
    }

    fn log(&self, process: &BackgroundProcess, offset: i64, limit: u64) -> Value {
        let mut life = process.life();
        let text = strip_ansi(life.text()).into_owned();
        let lines = lines(&text);
        let total = lines.len();
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let (from, to) = match offset {
            0 => (total.saturating_sub(limit), total),
            _ => {
                let back = usize::try_from(offset.unsigned_abs()).unwrap_or(usize::MAX);
                let from = if offset < 0 { total.saturating_sub(back) } else { back.min(total) };
                (from, from.saturating_add(limit).min(total))
            }
        };
        let shown = &lines[from..to];
        if life.ending.is_some() && (total == 0 || (!shown.is_empty() && to == total)) {
            life.is_consumed = true; // the end has been read: it is no news
        }
        json!({
            "session_id": process.id,
            "command": self.clean(&process.command),
            "status": life.status(),
            "output": self.clean(&shown.join("\n")),
            "total_lines": total,
            "showing": format!("{} lines", shown.len()),
        })
    }

    async fn wait(&self, process: &Arc<BackgroundProcess>, asked: Option<u64>) -> Value {
        let longest = self.wait_max.as_secs().max(1);
        let seconds = asked.unwrap_or(longest).min(longest);
        let clamped = asked
            .filter(|asked| *asked > longest)
            .map(|asked| format!("Requested wait of {asked}s was clamped to configured limit of {longest}s"));
        let waiting = ProcessWait::begin(self, process);
        let mut ended = process.ended.subscribe();
        let is_over =
            tokio::time::timeout(Duration::from_secs(seconds), ended.wait_for(|ended| *ended)).await.is_ok();
        let mut result = waiting.done(is_over);
        let note = clamped.or((!is_over).then(|| format!("Waited {seconds}s, process still running")));
        if let Some(note) = note {
            result["timeout_note"] = json!(note);
        }
        result
    }

    /// Free at once, however the process takes it: what ends it runs on without us.
    pub(super) async fn kill(
        self: &Arc<Self>,
        process: &Arc<BackgroundProcess>,
        source: &'static str,
    ) -> Value {
        let is_asked_for = source == "process.kill";
        let over = process.life().ending;
        if let Some(ending) = over {
            let mut life = process.life();
            life.is_consumed |= is_asked_for;
            let mut result = json!({"status": "already_exited", "command": self.clean(&process.command)});
            ending.tell(&mut result);
            result["output"] = json!(self.clean(&life.tail(2000)));
            return result;
        }
        let (identity, grace, abort) = (process.identity, self.term_grace, (self.aborts)(&process.id));
        {
            let mut life = process.life();
            life.killed_by = Some(source); // the task that sees it end first knows why
            life.is_consumed |= is_asked_for;
        }
        let ending = tokio::task::spawn_blocking(move || {
            let elsewhere = abort.map(std::thread::spawn);
            process_group::end(identity, grace);
            elsewhere.map(|thread| thread.join())
        });
        let _ = ending.await;
        let output = self.clean(&process.life().tail(2000));
        let ending = ProcessEnd { code: Some(-15), reason: "killed", source };
        if self.settle(process, ending) {
            self.write_checkpoint().await;
        }
        json!({
            "status": "killed",
            "session_id": process.id,
            "completion_reason": "killed",
            "termination_source": source,
            "output": output,
        })
    }
}

/// A call waits for the end: the end is in its result and nowhere else. Given up, the end is news again.
struct ProcessWait<'a> {
    registry: &'a ProcessRegistry,
    process: &'a BackgroundProcess,
    is_done: bool,
}

impl<'a> ProcessWait<'a> {
    fn begin(registry: &'a ProcessRegistry, process: &'a BackgroundProcess) -> Self {
        process.life().waiting += 1;
        Self { registry, process, is_done: false }
    }

    fn done(mut self, is_over: bool) -> Value {
        let mut life = self.process.life();
        let command = self.registry.clean(&self.process.command);
        let ending = life.ending.filter(|_| is_over);
        let result = match ending {
            Some(ending) => {
                life.is_consumed = true;
                let mut result = json!({"status": "exited", "command": command});
                ending.tell(&mut result);
                result["output"] = json!(self.registry.clean(&life.tail(2000)));
                result
            }
            None => {
                json!({"status": "timeout", "command": command, "output": self.registry.clean(&life.tail(1000))})
            }
        };
        life.waiting -= 1;
        let is_late_news = life.ending.is_some() && life.takes_notice();
        drop(life);
        self.is_done = true;
        if is_late_news {
            self.registry.tell_end(self.process); // it ended just as the time was up
        }
        result
    }
}

impl Drop for ProcessWait<'_> {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let is_news = {
            let mut life = self.process.life();
            life.waiting -= 1;
            life.ending.is_some() && life.takes_notice()
        };
        if is_news {
            self.registry.tell_end(self.process);
        }
    }
}

async fn write(process: &BackgroundProcess, data: &str) -> Value {
    if process.is_over() {
        return json!({"status": "already_exited", "error": "Process has already finished"});
    }
    let Some(input) = &process.input else { return json!({"status": "error", "error": NO_INPUT}) };
    match input.write(data.as_bytes()).await {
        Ok(()) => json!({"status": "ok", "bytes_written": data.chars().count()}),
        Err(error) => json!({"status": "error", "error": error.to_string()}),
    }
}

async fn close(process: &BackgroundProcess) -> Value {
    if process.is_over() {
        return json!({"status": "already_exited", "error": "Process has already finished"});
    }
    let Some(input) = &process.input else { return json!({"status": "error", "error": NO_INPUT}) };
    match input.write(b"\x04").await {
        Ok(()) => json!({"status": "ok", "message": "EOF sent"}),
        Err(error) => json!({"status": "error", "error": error.to_string()}),
    }
}

/// Models write ids as numbers now and then.
fn word(arguments: &Map<String, Value>, name: &str) -> String {
    match arguments.get(name) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// As Python splits lines: a bar that redraws itself is many.
pub(super) fn lines(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['\n', '\r']) {
        lines.push(&rest[..at]);
        rest = &rest[at + if rest[at..].starts_with("\r\n") { 2 } else { 1 }..];
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}

fn local_time(seconds: f64) -> String {
    let at = jiff::Timestamp::from_microsecond((seconds * 1e6) as i64).unwrap_or_default();
    at.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%dT%H:%M:%S").to_string()
}

impl ProcessState {
    /// The last characters, without escapes.
    pub(super) fn tail(&self, chars: usize) -> String {
        strip_ansi(last_chars(self.text(), chars)).into_owned()
    }
}
