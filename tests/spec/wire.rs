//! HTTP as the stand-ins of this specification speak it: one request after the other on a connection.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

pub struct Request {
    /// `POST /v1/…`
    pub line: String,
    pub body: Vec<u8>,
}

pub struct Answer {
    pub status: u16,
    pub kind: &'static str,
    pub content: String,
}

/// Answers on a port of its own for as long as the test goes on.
pub fn serve(answers: impl Fn(&Request) -> Option<Answer> + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answers = Arc::new(answers);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answers = answers.clone();
            thread::spawn(move || {
                while read(&stream).and_then(|request| answers(&request)).and_then(|it| write(&stream, &it))
                    == Some(())
                {}
            });
        }
    });
    address
}

fn read(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let (mut length, mut first) = (0, String::new());
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim();
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.is_empty() {
            break;
        }
        if first.is_empty() {
            first = line.trim_end_matches(" HTTP/1.1").to_owned();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { line: first, body })
}

fn write(mut stream: &TcpStream, answer: &Answer) -> Option<()> {
    let Answer { status, kind, content } = answer;
    let head =
        format!("HTTP/1.1 {status} -\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", content.len());
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(content.as_bytes()).ok()
}
