//! HTTP/1.1 as far as a Bot API needs it, by hand: a server that is to hang up in the middle of an
//! answer has to hold the connection itself.

use bytes::BytesMut;
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Larger than anything a bot may upload.
const BODY_MAX: usize = 64 << 20;
const HEAD_MAX: usize = 64 << 10;

pub(super) struct Request {
    pub path: String,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Request {
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }
}

/// None: the other side has hung up.
pub(super) async fn receive(stream: &mut TcpStream, held: &mut BytesMut) -> io::Result<Option<Request>> {
    let end = loop {
        if let Some(end) = held.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if held.len() > HEAD_MAX || stream.read_buf(held).await? == 0 {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&held.split_to(end + 4)).into_owned();
    let mut lines = head.lines();
    let path = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap_or("/").to_owned();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length: usize = length.and_then(|(_, value)| value.parse().ok()).unwrap_or(0).min(BODY_MAX);
    while held.len() < length {
        if stream.read_buf(held).await? == 0 {
            return Ok(None);
        }
    }
    Ok(Some(Request { path, headers, body: held.split_to(length).to_vec() }))
}

pub(super) async fn answer(stream: &mut TcpStream, status: u16, kind: &str, body: &[u8]) -> io::Result<()> {
    let head =
        format!("HTTP/1.1 {status} Status\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body).await?;
    stream.flush().await
}

/// Posts JSON to an `http://host:port/path`. Returns the status.
pub(super) async fn post(url: &str, header: (&str, &str), body: &[u8]) -> io::Result<u16> {
    let rest = url.strip_prefix("http://").ok_or_else(|| io::Error::other("only http is spoken here"))?;
    let (host, path) = rest.find('/').map_or((rest, "/"), |place| rest.split_at(place));
    let mut stream = TcpStream::connect(host).await?;
    let (name, value) = header;
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {host}\r\n{name}: {value}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body).await?;
    let mut said = Vec::new();
    stream.read_to_end(&mut said).await?;
    let line = String::from_utf8_lossy(&said);
    line.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(|| io::Error::other("no status"))
}

/// The fields of a form, and its files.
pub(super) fn form(kind: &str, body: &[u8]) -> Vec<Field> {
    let Some((_, boundary)) = kind.split_once("boundary=") else { return Vec::new() };
    let boundary = format!("--{}", boundary.trim_matches('"'));
    let mut fields = Vec::new();
    let mut rest = body;
    while let Some(place) = find(rest, boundary.as_bytes()) {
        rest = &rest[place + boundary.len()..];
        let Some(end) = find(rest, boundary.as_bytes()) else { break };
        let part = &rest[..end];
        let Some(gap) = find(part, b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&part[..gap]).into_owned();
        let value = |name: &str| {
            let start = head.find(&format!("{name}=\""))? + name.len() + 2;
            Some(head[start..].split('"').next()?.to_owned())
        };
        let content = &part[gap + 4..];
        let content = content.strip_suffix(b"\r\n").unwrap_or(content).to_vec();
        let file = value("filename");
        // `filename="x"` holds `name="x"`, too; the field's own name stands first.
        fields.push(Field {
            name: value(" name").or_else(|| value("name")).unwrap_or_default(),
            file,
            content,
        });
    }
    fields
}

pub(super) struct Field {
    pub name: String,
    pub file: Option<String>,
    pub content: Vec<u8>,
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}
