//! What will happen in one world, drawn from its seed before anything runs.

use crate::seed::Seed;
use std::time::Duration;
use throughline_core::session::BusyInput;

#[derive(Clone, Debug)]
pub struct Plan {
    pub busy: BusyInput,
    pub chats: Vec<ChatPlan>,
    pub clients: Vec<ClientPlan>,
    pub model: ModelPlan,
    pub disk: DiskPlan,
    pub crashes: Vec<Crash>,
}

/// One chat on a platform: what people write there.
#[derive(Clone, Debug)]
pub struct ChatPlan {
    pub lines: Vec<Line>,
    /// Whether the platform honours keys, or may show a reply twice.
    pub keyed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub text: String,
    pub after: Duration,
    /// How often the platform delivers it although it was acknowledged.
    pub redelivered: u64,
}

/// One client of the API and its requests, one after the other.
#[derive(Clone, Debug)]
pub struct ClientPlan {
    pub requests: Vec<Line>,
    pub manner: Manner,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Names its session.
    Named,
    /// Sends its history along and names nothing.
    Threaded,
}

#[derive(Clone, Debug)]
pub struct ModelPlan {
    pub latency_max: Duration,
    /// Of a hundred questions, how many fail in passing, call tools, or interleave both.
    pub failing_percent: u64,
    pub calling_percent: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskPlan {
    /// The disk is full for this long, from this moment on.
    pub full: Option<(Duration, Duration)>,
}

/// When a life of the process ends before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// After the n-th transaction of this life, before anyone hears of it.
    AfterCommit(u64),
    /// In the middle of the n-th operation on the disk.
    AtOperation(u64),
    /// At this time, wherever things stand.
    At(Duration),
}

impl Plan {
    pub fn draw(seed: &mut Seed) -> Self {
        let busy = [BusyInput::Queue, BusyInput::Interrupt, BusyInput::Steer][pick(seed, 3)];
        let chats = (0..seed.below(4)).map(|chat| ChatPlan::draw(seed, chat)).collect::<Vec<_>>();
        let least = u64::from(chats.is_empty());
        let clients = (0..least + seed.below(3)).map(|client| ClientPlan::draw(seed, client)).collect();
        let model = ModelPlan {
            latency_max: Duration::from_millis(1 + seed.below(3000)),
            failing_percent: [0, 0, 10, 30][pick(seed, 4)],
            calling_percent: [0, 20, 50][pick(seed, 3)],
        };
        let full = seed.chance(1, 10).then(|| (millis(seed, 8000), millis(seed, 8000)));
        let crashes = (0..seed.below(5)).map(|_| Crash::draw(seed)).collect();
        Self { busy, chats, clients, model, disk: DiskPlan { full }, crashes }
    }

    /// The same script for every crash: three chats and two clients that do everything once.
    pub fn script() -> Self {
        let line = |text: &str, millis| Line {
            text: text.into(),
            after: Duration::from_millis(millis),
            redelivered: 1,
        };
        let chat = |keyed, lines: &[(&str, u64)]| ChatPlan {
            keyed,
            lines: lines.iter().map(|(text, after)| line(text, *after)).collect(),
        };
        let client = |manner, lines: &[(&str, u64)]| ClientPlan {
            manner,
            requests: lines.iter().map(|(text, after)| line(text, *after)).collect(),
        };
        Self {
            busy: BusyInput::Queue,
            chats: vec![
                chat(true, &[("c0.1", 0), ("c0.2", 50), ("c0.3", 10), ("/new", 10), ("c0.4", 10)]),
                chat(false, &[("c1.1", 5), ("/status", 5), ("c1.2", 3000)]),
            ],
            clients: vec![
                client(Manner::Named, &[("a0.1", 0), ("a0.2", 10)]),
                client(Manner::Threaded, &[("a1.1", 0), ("a1.2", 10)]),
            ],
            model: ModelPlan {
                latency_max: Duration::from_millis(200),
                failing_percent: 0,
                calling_percent: 40,
            },
            disk: DiskPlan { full: None },
            crashes: Vec::new(),
        }
    }
}

impl ChatPlan {
    fn draw(seed: &mut Seed, chat: u64) -> Self {
        let lines = (1..=1 + seed.below(6)).map(|n| {
            let text = match seed.below(12) {
                0 => "/new".to_owned(),
                1 => "/status".to_owned(),
                _ => format!("c{chat}.{n}"),
            };
            Line { text, after: millis(seed, 2500), redelivered: seed.below(3) }
        });
        Self { lines: lines.collect(), keyed: seed.chance(1, 2) }
    }
}

impl ClientPlan {
    fn draw(seed: &mut Seed, client: u64) -> Self {
        let requests = (1..=1 + seed.below(4)).map(|n| Line {
            text: format!("a{client}.{n}"),
            after: millis(seed, 1500),
            redelivered: seed.below(3),
        });
        let requests = requests.collect();
        let manner = if seed.chance(1, 2) { Manner::Named } else { Manner::Threaded };
        Self { requests, manner }
    }
}

impl Crash {
    fn draw(seed: &mut Seed) -> Self {
        match seed.below(4) {
            0 => Crash::AfterCommit(1 + seed.below(12)),
            1 => Crash::At(millis(seed, 5000)),
            _ => Crash::AtOperation(1 + seed.below(120)),
        }
    }
}

fn millis(seed: &mut Seed, below: u64) -> Duration {
    Duration::from_millis(seed.below(below))
}

fn pick(seed: &mut Seed, from: u64) -> usize {
    usize::try_from(seed.below(from)).expect("a small number")
}
