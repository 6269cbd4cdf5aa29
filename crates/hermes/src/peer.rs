//! Python, which Hermes runs on and these formats come from: the tests compare with it.

use std::io::{Seek as _, Write as _};
use std::process::{Command, Stdio};

/// What `python3` prints when it runs `script` on `input`.
pub fn python(script: &str, input: &str) -> String {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(input.as_bytes()).unwrap();
    file.rewind().unwrap();
    let output = Command::new("python3")
        .args(["-c", script])
        .env("PYTHONIOENCODING", "utf-8")
        .stdin(Stdio::from(file))
        .output()
        .expect("these tests compare with Python: install python3 and put it on the PATH");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
