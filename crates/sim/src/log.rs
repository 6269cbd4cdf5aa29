//! What the gateway logs about compressions, and what an auditor makes of it.

use crate::world::Outside;
use std::io::{self, Write};
use std::sync::Arc;
use throughline_core::audit::{Audit, Entry, Finding, Kind, News, Place};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

/// Runs a world with its log going to its records.
pub fn kept<T>(outside: &Arc<Outside>, world: impl FnOnce() -> T) -> T {
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::INFO)
        .with_ansi(false)
        .with_timer(Watch(outside.clone()))
        .with_writer(Pages(outside.clone()))
        .finish();
    tracing::subscriber::with_default(subscriber, world)
}

/// What an auditor finds wrong in the log of a world. Contexts of a few words jump up and down as they please, so
/// discontinuities mean nothing here.
pub fn audited(lines: &[String]) -> Vec<String> {
    let mut audit = Audit::default();
    let mut findings: Vec<Finding> = Vec::new();
    for (line, number) in lines.iter().zip(1..) {
        let place = Place { file: 0, line: number };
        let read = match line.as_str() {
            BEGAN => Some((None, News::Began)),
            line => throughline_hermes::log::read(line).map(|(at, news)| (Some(at), news)),
        };
        if let Some((at, news)) = read {
            findings.extend(audit.read(&Entry { place, at, news }));
        }
    }
    findings.extend(audit.finish().0);
    let meant = findings.into_iter().filter(|finding| finding.kind != Kind::Discontinuity);
    meant.map(|finding| format!("audit: {}", finding.says)).collect()
}

/// Stands in the log where a life begins.
pub const BEGAN: &str = "a life begins";

struct Watch(Arc<Outside>);

impl FormatTime for Watch {
    fn format_time(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        let text = self.0.wall().compact();
        // As clocks on the wall write it: 2026-01-01T00:00:00.000000Z.
        let (date, time) = text.split_at(9);
        let date = format!("{}-{}-{}", &date[..4], &date[4..6], &date[6..8]);
        write!(writer, "{date}T{}:{}:{}.{}", &time[..2], &time[2..4], &time[4..6], &time[6..])
    }
}

struct Pages(Arc<Outside>);

impl<'a> MakeWriter<'a> for Pages {
    type Writer = Page<'a>;

    fn make_writer(&'a self) -> Page<'a> {
        Page(&self.0)
    }
}

struct Page<'a>(&'a Outside);

impl Write for Page<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        // The records may be open where something else is logged; a compression is not logged there.
        if text.contains("] context compression ") && !self.0.is_dead() {
            self.0.write(|records| {
                let text = match self.0.mutant {
                    Some(mutant) => mutant.misreport(text.trim_end(), &records.log),
                    None => text.trim_end().to_owned(),
                };
                records.log.push(text);
            });
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
