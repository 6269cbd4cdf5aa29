//! Ctrl-C in the middle of long work.
//!
//! It ends at once, as by a kill, which all such work is made for; and the person who pressed it reads what is there now and how
//! to go on. Nothing is unwound or tidied up here: one way to end is enough to get right.

use crate::signal::Stop;
use std::io::{self, IsTerminal, Write};
use std::process;
use std::sync::{Mutex, Once};

/// What a shell makes of a program that Ctrl-C ended.
const INTERRUPTED: i32 = 130;

static HOW_TO_GO_ON: Mutex<String> = Mutex::new(String::new());
static WATCH: Once = Once::new();

/// From now on this is what Ctrl-C says before the program ends: how things stand, and what to do next.
pub fn explain(how_to_go_on: impl Into<String>) {
    if let Ok(mut text) = HOW_TO_GO_ON.lock() {
        *text = how_to_go_on.into();
    }
    // Without the thread, or where signals cannot be heard, Ctrl-C ends the program without a word.
    WATCH.call_once(|| drop(std::thread::Builder::new().name("interrupt".into()).spawn(watch)));
}

fn watch() {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    let is_asked = runtime.block_on(async {
        let Ok(mut stop) = Stop::listen() else { return false };
        stop.asked().await;
        true
    });
    if is_asked {
        let text = HOW_TO_GO_ON.lock().map(|text| text.clone()).unwrap_or_default();
        let mut terminal = io::stderr().lock();
        if terminal.is_terminal() {
            let _ = write!(terminal, "\r\x1b[2K"); // the line of progress
        }
        let _ = writeln!(terminal, "throughline: interrupted. {text}");
        process::exit(INTERRUPTED);
    }
}
