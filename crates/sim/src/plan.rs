//! What will happen in one world, drawn from its seed before anything runs.

use crate::model::ERRAND;
use crate::seed::Seed;
use std::ops::RangeInclusive;
use std::time::Duration;
use throughline_core::chain;
use throughline_core::guard::Limits;
use throughline_core::input::INLINE_BYTES_MAX;
use throughline_core::session::BusyInput;

/// The tools there are. The last three are the gateway's own.
pub const TOOLS: [&str; 11] = [
    "count",
    "look",
    "permit",
    "post",
    "hang",
    "kill",
    "fall",
    "nothing",
    "clarify",
    "delegate_task",
    "send_message",
];

/// How many lines come in while one summary is written.
pub const BURST: usize = 50;

#[derive(Clone, Debug)]
pub struct Plan {
    pub busy: BusyInput,
    pub limits: Limits,
    pub chats: Vec<ChatPlan>,
    pub clients: Vec<ClientPlan>,
    pub people: PeoplePlan,
    pub model: ModelPlan,
    /// The operator silences everyone at these times, for so long.
    pub halts: Vec<(Duration, Duration)>,
    /// How many agents there are, each with a home of its own, in the same process. Each writes to the
    /// next, and the last to the first.
    pub agents: usize,
    /// None: contexts never grow too large.
    pub compression: Option<CompressionPlan>,
    /// People take back, ask again, copy and go back: what was said once may be said again.
    pub past: bool,
    /// When conversations end by themselves, and who hears of ends.
    pub lifecycle: LifecyclePlan,
    /// None: there are no reviews.
    pub reviews: Option<ReviewPlan>,
    pub disk: DiskPlan,
    pub platforms: PlatformPlan,
    pub crashes: Vec<Crash>,
    /// None: no provider remembers what is said.
    pub remembering: Option<RememberPlan>,
    pub clock: ClockPlan,
    /// None: nothing is forgotten.
    pub forgetting: Option<ForgettingPlan>,
    /// The person of this chat owns the agent, and clients have no person who could answer what tools ask. None: the agent
    /// has no owner, and clients have one.
    pub owner: Option<usize>,
}

/// Once all is said and the gateway has stopped, its operator has something forgotten; then it goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgettingPlan {
    pub what: Forgotten,
    /// Power fails in the middle of the n-th operation on the disk, of the command and then of what follows it.
    pub strikes: Vec<u64>,
    /// What is said afterwards: in which chat.
    pub later: Vec<(usize, Line)>,
    /// How lives of the process end before their time afterwards.
    pub crashes: Vec<Crash>,
}

/// What is forgotten. The person who alone writes in the first chat writes every second line of the second, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forgotten {
    Person,
    /// The first chat.
    Chat,
    /// The first conversation in it.
    Session,
}

impl Forgotten {
    pub const ALL: [Self; 3] = [Self::Person, Self::Chat, Self::Session];
}

/// What becomes of the clock on the wall. The time that passes is another one, and always goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClockPlan {
    /// So long after the beginning of the world it is set forward or back by so many microseconds.
    pub steps: Vec<(Duration, i64)>,
    /// After each start of the process the date is wrong by so many microseconds, for so long.
    pub at_start: Option<(i64, Duration)>,
}

impl ClockPlan {
    pub fn is_true(&self) -> bool {
        *self == Self::default()
    }

    /// It is never set back: what is later has a later date.
    pub fn only_rises(&self) -> bool {
        self.at_start.is_none() && self.steps.iter().all(|(_, by)| *by >= 0)
    }

    /// Between two moments more time seems to pass than did: a gateway measuring by dates finds that something is over. A
    /// wrong date at the start may also be corrected in that time.
    pub fn may_jump_forward(&self, from: Duration, to: Duration) -> bool {
        let between = |at: &Duration| from <= *at + Duration::from_secs(2) && *at <= to;
        let stepped = self.steps.iter().any(|(at, by)| *by > 0 && between(at));
        stepped || self.at_start.is_some()
    }

    /// How far it is off at a moment of the world, and of a life of the process.
    pub fn off_by(&self, now: Duration, lived: Duration) -> i64 {
        let steps = self.steps.iter().filter(|(at, _)| *at <= now).map(|(_, by)| by).sum::<i64>();
        steps + self.at_start.filter(|(_, long)| lived < *long).map_or(0, |(by, _)| by)
    }
}

/// A memory outside, and how it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RememberPlan {
    /// So many turns of a session are handed over together.
    pub every: u64,
    /// There is one document for all conversations.
    pub shared: bool,
    pub latency_max: Duration,
    /// A reminder takes so long. A turn waits for no more than [`RECALL_PATIENCE`].
    pub recall_max: Duration,
    /// Of a hundred times it is asked for something, how often it fails; and how often at all.
    pub failing_percent: u64,
    pub failures_max: u32,
}

pub const RECALL_PATIENCE: Duration = Duration::from_millis(300);

/// How replies are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlatformPlan {
    /// What has been said so far is shown before the reply.
    pub streams: bool,
    /// What is longer leaves in pieces.
    pub piece_chars: Option<usize>,
    /// What becomes of the first attempts to send, one after the other. Later ones have their luck.
    pub troubles: Vec<Trouble>,
}

/// How an attempt to send comes to nothing, or seems to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The platform wants it later, and has shown nothing.
    Later,
    /// It is shown, but the platform does not say so.
    Unknown,
    /// A person has taken away the preview that was to become it.
    Gone,
}

/// One chat on a platform: what people write there.
#[derive(Clone, Debug)]
pub struct ChatPlan {
    /// Whom they write to.
    pub agent: usize,
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
    /// It is a picture of an album, or a piece of a text that was cut: the rest comes within a moment.
    pub is_part: bool,
}

/// One client of the API and its requests, one after the other.
#[derive(Clone, Debug)]
pub struct ClientPlan {
    pub requests: Vec<Line>,
    pub manner: Manner,
    /// It has a tool of its own, which it runs itself.
    pub runs_tools: bool,
}

impl ClientPlan {
    /// It goes on without bringing what its tool returned for this request.
    pub fn walks_away(&self, number: usize) -> bool {
        number % 3 == 1 && number + 1 < self.requests.len()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Names its session.
    Named,
    /// Sends its history along and names nothing.
    Threaded,
}

/// What people do about questions.
#[derive(Clone, Debug)]
pub struct PeoplePlan {
    /// Of a hundred questions, how many get a yes, and how many a no. The others get nothing.
    pub yes_percent: u64,
    pub no_percent: u64,
    /// How long an answer takes at most; how long a question waits.
    pub reaction_max: Duration,
    pub patience: Duration,
    /// Every third line is the first of several that were meant as one.
    pub gathers: bool,
}

#[derive(Clone, Debug)]
pub struct ModelPlan {
    pub latency_max: Duration,
    /// Of a hundred questions, how many fail in passing, call tools, or interleave both.
    pub failing_percent: u64,
    pub calling_percent: u64,
    /// How many calls one answer has at most.
    pub parallel_max: u64,
    /// What is called by chance, as often as it stands here.
    pub tools: Vec<&'static str>,
    /// What is always called first when a person says this, or something that begins so.
    pub script: Vec<(&'static str, Vec<&'static str>)>,
    /// How many calls may end the process: whenever they are run, and once.
    pub kills: usize,
    pub falls: usize,
    /// All that another agent says gets an answer.
    pub talkative: bool,
    /// Looks again and again at what it has seen.
    pub stubborn: bool,
}

/// When contexts are compressed, and how that goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompressionPlan {
    /// From so many tokens on it is wanted; a request of so many waits for it.
    pub soft: u64,
    pub hard: u64,
    /// So many rows at the end stay.
    pub keep_last: usize,
    /// How long a summary takes.
    pub latency_min: Duration,
    pub latency_max: Duration,
    /// Of a hundred summaries, how many come to nothing.
    pub failing_percent: u64,
    pub patience: Duration,
    /// The engine knows no wishes.
    pub plain: bool,
    /// None: no provider remembers anything beyond a conversation.
    pub memory: Option<MemoryPlan>,
}

/// A memory provider, and how it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryPlan {
    pub latency_max: Duration,
    /// Of a hundred times it is told something, how often it fails.
    pub failing_percent: u64,
}

/// When conversations end by themselves, and who hears of ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LifecyclePlan {
    /// After so long without a word. None: not for that.
    pub idle: Option<Duration>,
    /// And whenever so much time has passed since the beginning of the world, again and again: its days.
    pub day: Option<Duration>,
    pub hooks: usize,
    pub latency_max: Duration,
    /// Of a hundred runs of a hook, how many fail, and how many hang until they are out of time. None
    /// does so more than three times in a row.
    pub failing_percent: u64,
    pub hanging_percent: u64,
}

/// When an agent reviews a conversation, and how that goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewPlan {
    /// After so many turns, or steps with calls.
    pub turns: u32,
    pub steps: u32,
    /// How long each of its questions takes.
    pub latency_min: Duration,
    pub latency_max: Duration,
    /// Of a hundred questions, how many come to nothing.
    pub failing_percent: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskPlan {
    /// The disk is full for this long, from this moment on.
    pub full: Option<(Duration, Duration)>,
    /// In the first life, at this moment, the operator puts a copy of the files in their place, as a backup is restored, and
    /// starts the process again when it says that it cannot write.
    pub replaced: Option<Duration>,
}

/// When a life of the process ends before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// After the n-th transaction since the last planned crash, before anyone hears of it.
    AfterCommit(u64),
    /// In the middle of the n-th operation on the disk.
    AtOperation(u64),
    /// At this time, wherever things stand.
    At(Duration),
}

/// What a line says to the model, if anything.
pub fn words(line: &str) -> Option<&str> {
    let argument = |order| line.strip_prefix(order).map(str::trim).filter(|text| !text.is_empty());
    match line.starts_with('/') {
        false => Some(line),
        true => argument("/steer ").or_else(|| argument("/queue ")),
    }
}

impl Plan {
    pub fn draw(seed: &mut Seed) -> Self {
        let busy = [BusyInput::Queue, BusyInput::Interrupt, BusyInput::Steer][pick(seed, 3)];
        let chats = (0..seed.below(4)).map(|chat| ChatPlan::draw(seed, chat)).collect::<Vec<_>>();
        let least = u64::from(chats.is_empty());
        let clients =
            (0..least + seed.below(3)).map(|client| ClientPlan::draw(seed, client)).collect::<Vec<_>>();
        let peer = !chats.is_empty() && seed.chance(1, 4);
        let model = ModelPlan::draw(seed, peer);
        let mut limits = short_chains(6, 3);
        if seed.chance(1, 4) {
            limits.steps_max = 1 + u32::try_from(seed.below(4)).expect("a small number");
        }
        let mut people = PeoplePlan {
            yes_percent: [60, 90, 20][pick(seed, 3)],
            no_percent: 10,
            reaction_max: Duration::from_millis(1 + seed.below(12_000)),
            patience: Duration::from_millis(2_000 + seed.below(15_000)),
            gathers: false,
        };
        people.gathers = people.patience.as_millis().is_multiple_of(4); // without a draw of its own: no other world changes
        let halts = match seed.below(5) {
            0 => vec![(millis(seed, 9000), millis(seed, 9000))],
            _ => Vec::new(),
        };
        let mut compression = seed.chance(1, 2).then(|| CompressionPlan::draw(seed));
        let full = seed.chance(1, 10).then(|| (millis(seed, 8000), millis(seed, 8000)));
        let crashes = (0..seed.below(5)).map(|_| Crash::draw(seed)).collect();
        if let Some(plan) = &mut compression {
            plan.memory = seed.chance(1, 2).then(|| MemoryPlan::draw(seed));
        }
        let lifecycle = LifecyclePlan::draw(seed);
        let platforms = PlatformPlan {
            streams: seed.chance(1, 2),
            piece_chars: seed.chance(1, 3).then(|| 30 + pick(seed, 20)),
            troubles: Vec::new(),
        };
        Self {
            busy,
            limits,
            chats,
            clients,
            people,
            model,
            halts,
            agents: 1 + usize::from(peer),
            compression,
            past: false,
            lifecycle,
            reviews: None,
            disk: DiskPlan { full, replaced: None },
            platforms,
            crashes,
            remembering: None,
            clock: ClockPlan::default(),
            forgetting: None,
            owner: None,
        }
        .sometimes_of_the_past(seed)
        .sometimes_remembered(seed)
        .sometimes_reviewed(seed)
        .sometimes_with_client_tools(seed)
        .sometimes_in_albums(seed)
        .sometimes_with_a_wrong_clock(seed)
        .sometimes_at_length()
    }

    /// In one world in four a client has a tool of its own. Such a client names its session. Not where an operator may end
    /// the turn that its results began: it would have to begin anew. Nor where turns are reviewed: a review does not
    /// list the tools of a client, as its turn did.
    fn sometimes_with_client_tools(mut self, seed: &mut Seed) -> Self {
        let wanted = seed.chance(1, 4) && !self.past && self.halts.is_empty() && self.reviews.is_none();
        if let Some(client) = self.clients.first_mut().filter(|_| wanted) {
            client.runs_tools = true;
            client.manner = Manner::Named;
            self.model.tools.extend([ERRAND; 6]);
        }
        self
    }

    /// In one world in three one line of each chat is an album: the rest of it follows within a moment.
    fn sometimes_in_albums(mut self, seed: &mut Seed) -> Self {
        if !seed.chance(1, 3) || self.past {
            return self;
        }
        for chat in &mut self.chats {
            let (place, parts) = (pick(seed, chat.lines.len() as u64), 1 + seed.below(3));
            let after = Duration::from_millis(1 + seed.below(120));
            if !chat.lines[place].text.starts_with('/') {
                chat.gather(place, parts, after);
            }
        }
        self
    }

    /// In one world in four the operator sets the clock, or each start of the process begins with a wrong date.
    fn sometimes_with_a_wrong_clock(mut self, seed: &mut Seed) -> Self {
        if !seed.chance(1, 4) {
            return self;
        }
        const SECOND: i64 = 1_000_000;
        const DAY: i64 = 86_400 * SECOND;
        let by = |seed: &mut Seed| {
            let by = [SECOND / 3, 2 * SECOND, 95 * SECOND, 3600 * SECOND, 400 * DAY, 14 * 365 * DAY]
                [pick(seed, 6)];
            if seed.chance(1, 2) { by } else { -by }
        };
        for _ in 0..seed.below(4) {
            let at = millis(seed, 12_000);
            self.clock.steps.push((at, by(seed)));
        }
        if seed.chance(1, 3) {
            self.clock.at_start = Some((by(seed), millis(seed, 6_000)));
        }
        self
    }

    /// In some worlds people write long lines. Without a draw of its own: no other world changes. Not where a line would
    /// fill up a context alone, be shown in pieces, or be recognised by how it is quoted.
    fn sometimes_at_length(mut self) -> Self {
        let fits = self.compression.is_none() && self.platforms.piece_chars.is_none() && !self.past;
        if fits && !self.people.patience.as_millis().is_multiple_of(3) {
            self.chats.iter_mut().for_each(ChatPlan::lengthen);
        }
        self
    }

    /// In one world in three a provider remembers what is said.
    fn sometimes_remembered(self, seed: &mut Seed) -> Self {
        Self { remembering: seed.chance(1, 3).then(|| RememberPlan::draw(seed)), ..self }
    }

    /// In one world in three turns are reviewed, but for those about the past: what was said may be said
    /// again there, and the judge could not tell what a review is about.
    fn sometimes_reviewed(self, seed: &mut Seed) -> Self {
        let reviews = ReviewPlan {
            turns: 1 + u32::try_from(seed.below(3)).expect("a small number"),
            steps: u32::try_from(seed.below(4)).expect("a small number"),
            latency_min: Duration::ZERO,
            latency_max: millis(seed, 20_000),
            failing_percent: [0, 10, 60][pick(seed, 3)],
        };
        let wanted = seed.chance(1, 3) && !self.past;
        Self { reviews: wanted.then_some(reviews), ..self }
    }

    /// One world in six is about what people do to the past.
    fn sometimes_of_the_past(self, seed: &mut Seed) -> Self {
        if !seed.chance(1, 6) {
            return self;
        }
        let chats = (0..1 + seed.below(2)).map(|chat| ChatPlan::of_the_past(seed, chat)).collect();
        let past = Self::past();
        let compression = self.compression.filter(|_| seed.chance(1, 2));
        Self {
            busy: self.busy,
            chats,
            compression,
            disk: self.disk,
            crashes: self.crashes,
            model: ModelPlan {
                failing_percent: 0,
                latency_max: self.model.latency_max,
                ..past.model.clone()
            },
            ..past
        }
    }

    /// How a compression goes, if only because a person orders it.
    pub fn compressing(&self) -> CompressionPlan {
        self.compression.clone().unwrap_or_else(|| Plan::squeeze().compression.expect("it has one"))
    }

    /// Every fixed plan, by its name.
    pub fn fixed() -> [(&'static str, Plan); 20] {
        [
            ("script", Plan::script()),
            ("orders", Plan::orders()),
            ("client_tools", Plan::client_tools()),
            ("interview", Plan::interview()),
            ("silence", Plan::silence()),
            ("voice", Plan::voice()),
            ("chatter", Plan::chatter()),
            ("squeeze", Plan::squeeze()),
            ("past", Plan::past()),
            ("seasons", Plan::seasons()),
            ("trouble", Plan::trouble()),
            ("remembered", Plan::remembered()),
            ("harvest", Plan::harvest()),
            ("retrospect", Plan::retrospect()),
            ("replaced", Plan::replaced()),
            ("backlog", Plan::backlog()),
            ("albums", Plan::albums()),
            ("clock", Plan::clock()),
            ("forgetting", Plan::forgetting(Forgotten::Person)),
            ("owner", Plan::owned()),
        ]
    }

    /// The same script for every crash: two chats and two clients that do everything once. One turn
    /// makes three calls that count and one that ends the process, side by side; another needs a yes.
    pub fn script() -> Self {
        Self {
            busy: BusyInput::Queue,
            limits: Limits::default(),
            chats: vec![
                chat(true, &[("c0.1", 0), ("c0.2", 50), ("c0.3", 10), ("/new", 10), ("c0.4", 10)]),
                chat(false, &[("c1.1", 5), ("/status", 5), ("c1.2", 3000)]),
            ],
            clients: vec![
                client(Manner::Named, &[("a0.1", 0), ("a0.2", 10)]),
                client(Manner::Threaded, &[("a1.1", 0), ("a1.2", 10)]),
            ],
            people: PeoplePlan {
                yes_percent: 100,
                no_percent: 0,
                reaction_max: Duration::from_millis(500),
                patience: Duration::from_secs(60),
                gathers: false,
            },
            model: ModelPlan {
                latency_max: Duration::from_millis(200),
                failing_percent: 0,
                calling_percent: 25,
                parallel_max: 2,
                tools: vec!["count", "look"],
                script: vec![
                    ("c0.1", vec!["count", "count", "count", "fall"]),
                    ("c1.1", vec!["permit", "look", "post"]),
                    ("a0.1", vec!["delegate_task"]),
                ],
                kills: 0,
                falls: 1,
                talkative: false,
                stubborn: false,
            },
            halts: Vec::new(),
            agents: 1,
            compression: None,
            past: false,
            lifecycle: LifecyclePlan::default(),
            reviews: None,
            disk: DiskPlan { full: None, replaced: None },
            platforms: PlatformPlan { streams: true, piece_chars: None, troubles: Vec::new() },
            crashes: Vec::new(),
            remembering: None,
            clock: ClockPlan::default(),
            forgetting: None,
            owner: None,
        }
    }

    /// The same, and after a second and a half the database is another file.
    pub fn replaced() -> Self {
        let disk = DiskPlan { full: None, replaced: Some(Duration::from_millis(1500)) };
        Self { disk, ..Self::script() }
    }

    /// A model that takes its time, and people who go on writing meanwhile, long lines among short ones: what waits leaves
    /// its texts on disk. Some of it waits for the next session, some joins a running turn.
    pub fn backlog() -> Self {
        let script = Self::script();
        let lines = [
            ("c0.1", 0),
            ("c0.2", 30),
            ("c0.3", 10),
            ("/queue c0.4", 10),
            ("c0.5", 10),
            ("/new", 10),
            ("c0.6", 10),
            ("c0.7", 10),
            ("/queue c0.8", 10),
            ("c0.9", 6000),
        ];
        let others =
            [("c1.1", 5), ("c1.2", 20), ("/steer c1.3", 20), ("c1.4", 20), ("c1.5", 20), ("c1.6", 20)];
        let mut chats = vec![chat(true, &lines), chat(false, &others)];
        chats.iter_mut().for_each(ChatPlan::lengthen);
        Self {
            chats,
            clients: Vec::new(),
            model: ModelPlan {
                latency_max: Duration::from_secs(4),
                calling_percent: 0,
                script: vec![("c1.1", vec!["count", "look"])],
                falls: 0,
                ..script.model.clone()
            },
            ..script
        }
    }

    /// Albums, of which each picture is a message, to an agent that is reminded of something meanwhile: one begins a turn,
    /// one comes while another message is being answered.
    pub fn albums() -> Self {
        let script = Self::script();
        let mut first =
            chat(true, &[("c0.1", 0), ("c0.2", 9000), ("c0.3", 100), ("c0.4", 9000), ("c0.5", 1500)]);
        first.gather(2, 2, Duration::from_millis(80));
        first.gather(0, 3, Duration::from_millis(150));
        let mut second = chat(false, &[("c1.1", 5), ("c1.2", 2500), ("c1.3", 2500)]);
        second.gather(1, 2, Duration::from_millis(60));
        Self {
            chats: vec![first, second],
            clients: Vec::new(),
            model: ModelPlan {
                latency_max: Duration::from_secs(3),
                calling_percent: 0,
                script: vec![("c1.1", vec!["count", "look"])],
                falls: 0,
                ..script.model.clone()
            },
            remembering: Some(RememberPlan {
                every: 1,
                shared: false,
                latency_max: Duration::from_millis(50),
                recall_max: Duration::from_millis(600),
                failing_percent: 0,
                failures_max: 0,
            }),
            ..script
        }
    }

    /// A clock that is set forward and back while conversations wait to end, questions for an answer, and replies for
    /// their time. Each start begins twenty years too late, until the time service has answered.
    pub fn clock() -> Self {
        let script = Self::script();
        let day = 86_400_000_000;
        let lines = [("c0.1", 0), ("c0.2", 900), ("c0.3", 3000), ("c0.4", 2_400_000), ("c0.5", 2_400_000)];
        Self {
            chats: vec![chat(false, &lines), chat(true, &[("c1.1", 0), ("c1.2", 2000), ("c1.3", 900_000)])],
            clients: vec![client(Manner::Named, &[("a0.1", 0), ("a0.2", 3000)])],
            people: PeoplePlan {
                yes_percent: 30,
                patience: Duration::from_secs(20),
                ..script.people.clone()
            },
            model: ModelPlan {
                calling_percent: 0,
                script: vec![("c0.1", vec!["permit", "count"]), ("c1.2", vec!["permit"])],
                falls: 0,
                ..script.model.clone()
            },
            lifecycle: LifecyclePlan {
                idle: Some(Duration::from_secs(120)),
                hooks: 1,
                failing_percent: 40,
                ..LifecyclePlan::default()
            },
            clock: ClockPlan {
                steps: vec![
                    (Duration::from_secs(2), 40_000_000),
                    (Duration::from_secs(4), -400 * day),
                    (Duration::from_secs(9), 3 * day),
                    (Duration::from_secs(14), -3 * day),
                ],
                at_start: Some((20 * 365 * day, Duration::from_millis(1500))),
            },
            ..script
        }
    }

    /// People who take back what they said, ask again, go on in a copy, and back, and name what they have.
    pub fn past() -> Self {
        let script = Self::script();
        let lines = [
            ("c0.1", 0),
            ("/title first", 100),
            ("c0.2", 400),
            ("/retry", 10),
            ("c0.3", 10),
            ("/undo", 10),
            ("/branch", 10),
            ("c0.4", 10),
            ("/reasoning high", 300),
            ("/resume 1", 10),
            ("c0.5", 10),
            ("/undo 2", 300),
            ("/new second", 10),
            ("c0.6", 10),
            ("/background c0.7", 10),
            ("/resume first", 500),
            ("c0.8", 10),
            ("/sessions", 10),
        ];
        Self {
            chats: vec![chat(true, &lines), chat(false, &[("c1.1", 0), ("/retry", 50), ("/undo", 3000)])],
            clients: Vec::new(),
            model: ModelPlan { calling_percent: 20, script: Vec::new(), falls: 0, ..script.model.clone() },
            past: true,
            ..script
        }
    }

    /// Conversations that end by themselves, or because a person says so, and hooks that hear of it and
    /// have their troubles. A line comes just before an end, another long after.
    pub fn seasons() -> Self {
        let script = Self::script();
        let lines = [
            ("c0.1", 0),
            ("c0.2", 1500),
            ("c0.3", 90_000),
            ("c0.4", 1500),
            ("/new", 10),
            ("c0.5", 10),
            ("c0.6", 120_000),
            ("c0.7", 800),
        ];
        Self {
            chats: vec![
                chat(true, &lines),
                chat(
                    false,
                    &[("c1.1", 5), ("/new", 30_000), ("c1.2", 5_000), ("c1.3", 70_000), ("c1.4", 2_000)],
                ),
            ],
            clients: vec![client(Manner::Named, &[("a0.1", 0)])],
            model: ModelPlan { calling_percent: 0, script: Vec::new(), falls: 0, ..script.model.clone() },
            lifecycle: LifecyclePlan {
                idle: Some(Duration::from_secs(20)),
                day: Some(Duration::from_secs(150)),
                hooks: 2,
                latency_max: Duration::from_millis(300),
                failing_percent: 30,
                hanging_percent: 10,
            },
            ..script
        }
    }

    /// The agent reviews every second turn, slowly, while the conversation goes on, is compressed
    /// and ends.
    pub fn retrospect() -> Self {
        let script = Self::script();
        let reviews = ReviewPlan {
            turns: 2,
            steps: 3,
            latency_min: Duration::from_secs(20),
            latency_max: Duration::from_secs(40),
            failing_percent: 15,
        };
        Self {
            chats: vec![
                chat(
                    true,
                    &[("c0.1", 0), ("c0.2", 50), ("c0.3", 3000), ("c0.4", 900), ("/new", 10), ("c0.5", 10)],
                ),
                chat(false, &[("c1.1", 5), ("c1.2", 2000), ("c1.3", 90_000)]),
            ],
            clients: vec![client(Manner::Named, &[("a0.1", 0), ("a0.2", 10), ("a0.3", 10)])],
            model: ModelPlan {
                calling_percent: 0,
                script: vec![("c1.1", vec!["count", "look"]), ("c1.2", vec!["look"])],
                falls: 0,
                ..script.model.clone()
            },
            reviews: Some(reviews),
            ..script
        }
    }

    /// A client with a tool of its own, beside calls of the agent's. Once it goes on without bringing what it was asked for.
    pub fn client_tools() -> Self {
        let script = Self::script();
        let lines = [("a0.1", 0), ("a0.2", 10), ("a0.3", 10), ("a0.4", 10)];
        Self {
            chats: vec![chat(true, &[("c0.1", 0), ("c0.2", 50)])],
            clients: vec![ClientPlan { runs_tools: true, ..client(Manner::Named, &lines) }],
            model: ModelPlan {
                calling_percent: 0,
                script: vec![
                    ("a0.1", vec!["errand"]),
                    ("a0.2", vec!["errand", "count", "errand"]),
                    ("a0.4", vec!["count", "errand"]),
                ],
                falls: 0,
                ..script.model.clone()
            },
            ..script
        }
    }

    /// People who stop what hangs and answer what is asked, and a call that ends the process as often
    /// as it is run.
    pub fn orders() -> Self {
        let script = Self::script();
        Self {
            chats: vec![
                chat(true, &[("c0.1", 0), ("c0.2", 100), ("/steer c0.3", 100), ("c0.4", 25_000)]),
                chat(false, &[("c1.1", 0), ("c1.2", 9000), ("c1.3", 500)]),
            ],
            clients: vec![client(Manner::Named, &[("a0.1", 0)])],
            people: PeoplePlan {
                reaction_max: Duration::from_secs(3),
                patience: Duration::from_secs(5),
                ..script.people.clone()
            },
            model: ModelPlan {
                calling_percent: 0,
                script: vec![
                    ("c0.1", vec!["delegate_task", "count"]),
                    ("task-", vec!["hang", "count"]),
                    ("c1.1", vec!["clarify", "permit", "count"]),
                    ("c1.2", vec!["kill", "look", "count"]),
                    ("a0.1", vec!["post", "permit"]),
                ],
                kills: 1,
                falls: 0,
                ..script.model.clone()
            },
            ..script
        }
    }

    /// The operator silences two agents in the middle of everything, and lets them go on.
    pub fn silence() -> Self {
        let script = Self::script();
        Self {
            chats: vec![
                chat(true, &[("c0.1", 0), ("c0.2", 200), ("/new", 200), ("c0.3", 200), ("c0.4", 9000)]),
                chat(false, &[("c1.1", 0), ("c1.2", 4000)]),
            ],
            clients: vec![client(Manner::Named, &[("a0.1", 0), ("a0.2", 10)])],
            limits: short_chains(6, 8),
            model: ModelPlan {
                calling_percent: 0,
                script: vec![
                    ("c0.1", vec!["hang", "delegate_task"]),
                    ("c1.1", vec!["send_message", "count"]),
                    ("a0.1", vec!["count", "post"]),
                ],
                falls: 0,
                talkative: true,
                ..script.model.clone()
            },
            halts: vec![(Duration::from_secs(1), Duration::from_secs(4))],
            agents: 2,
            ..script
        }
    }

    /// Silence from the first moment, and one person who says one thing into it: no later turn answers
    /// what an earlier one left.
    pub fn voice() -> Self {
        let script = Self::script();
        Self {
            chats: vec![chat(true, &[("c0.1", 400)])],
            clients: Vec::new(),
            model: ModelPlan { calling_percent: 0, script: Vec::new(), falls: 0, ..script.model.clone() },
            halts: vec![(Duration::ZERO, Duration::from_secs(30))],
            ..script
        }
    }

    /// Two agents that answer each other every time, and a person who began it.
    pub fn chatter() -> Self {
        let script = Self::script();
        Self {
            chats: vec![chat(true, &[("c0.1", 0), ("c0.2", 30_000)])],
            clients: Vec::new(),
            limits: short_chains(6, 8),
            model: ModelPlan {
                calling_percent: 0,
                script: vec![("c0.1", vec!["send_message", "send_message"])],
                falls: 0,
                talkative: true,
                ..script.model.clone()
            },
            agents: 2,
            ..script
        }
    }

    /// Contexts that fill up all the time: summaries beside turns, turns that wait for one, orders.
    pub fn squeeze() -> Self {
        let script = Self::script();
        let lines = [
            ("c0.1", 0),
            ("c0.2", 400),
            ("c0.3", 10),
            ("/compress", 10),
            ("c0.4", 500),
            ("c0.5", 10),
            ("/compress here 1", 900),
            ("c0.6", 10),
            ("c0.7", 600),
            ("/compress the move", 10),
            ("/new", 300),
            ("c0.8", 10),
        ];
        Self {
            chats: vec![chat(true, &lines)],
            clients: vec![client(Manner::Named, &[("a0.1", 0), ("a0.2", 10), ("a0.3", 10), ("a0.4", 10)])],
            model: ModelPlan {
                calling_percent: 0,
                script: vec![("c0.2", vec!["count", "look"]), ("a0.2", vec!["count"])],
                falls: 0,
                ..script.model.clone()
            },
            compression: Some(CompressionPlan {
                soft: 30,
                hard: 60,
                keep_last: 2,
                latency_min: Duration::ZERO,
                latency_max: Duration::from_millis(700),
                failing_percent: 20,
                patience: Duration::from_secs(5),
                plain: false,
                memory: Some(MemoryPlan { latency_max: Duration::from_millis(300), failing_percent: 20 }),
            }),
            ..script
        }
    }

    /// What is said is remembered by a provider that is slow, forgets to answer, and is away at times, through a
    /// compression, a new conversation and a crash.
    pub fn remembered() -> Self {
        Self {
            remembering: Some(RememberPlan {
                every: 2,
                shared: true,
                latency_max: Duration::from_millis(400),
                recall_max: Duration::from_millis(350),
                failing_percent: 30,
                failures_max: 6,
            }),
            ..Self::squeeze()
        }
    }

    /// Two people who write alone, and a chat that the first of them shares with a third. Each line has a word that no
    /// other has. Then something is forgotten, and all of them go on.
    pub fn forgetting(what: Forgotten) -> Self {
        let remembered = Self::remembered();
        let said = |chat: usize, number: usize, after: u64| Line {
            text: format!("c{chat}.{number}-{}", secret(chat, number)),
            after: Duration::from_millis(after),
            redelivered: 1,
            is_part: false,
        };
        let order = |text: &str| Line { text: text.into(), ..said(0, 0, 9000) };
        let chat = |chat: usize, lines: usize| ChatPlan {
            agent: 0,
            keyed: true,
            lines: (1..=lines).map(|number| said(chat, number, 9000)).collect(),
        };
        let mut chats = vec![chat(0, 7), chat(1, 4), chat(2, 4)];
        chats[0].lines.insert(4, order("/new"));
        let later =
            vec![(0, said(0, 90, 500)), (1, said(1, 90, 500)), (1, said(1, 91, 9000)), (2, said(2, 90, 500))];
        Self {
            chats,
            clients: Vec::new(),
            remembering: remembered
                .remembering
                .clone()
                .map(|plan| RememberPlan { shared: what != Forgotten::Chat, ..plan }),
            model: ModelPlan { script: vec![("c0.2", vec!["count", "look"])], ..remembered.model.clone() },
            forgetting: Some(ForgettingPlan { what, strikes: Vec::new(), later, crashes: Vec::new() }),
            ..remembered
        }
    }

    /// What is planned for the time after something was forgotten.
    pub fn after_forgetting(&self) -> Self {
        let Some(forgetting) = &self.forgetting else { return self.clone() };
        let mut chats = self.chats.clone();
        forgetting.later.iter().for_each(|(chat, line)| chats[*chat].lines.push(line.clone()));
        Self { chats, crashes: forgetting.crashes.clone(), ..self.clone() }
    }

    /// Seasons of which nothing is handed over before a conversation ends: by `/new`, because no message comes, or
    /// because the day is over.
    pub fn harvest() -> Self {
        let remembering = Self::remembered().remembering.map(|plan| RememberPlan { every: 1000, ..plan });
        Self { remembering, ..Self::seasons() }
    }

    /// One reply that was shown without the gateway hearing of it, that is then to come later, and whose preview is gone
    /// by then.
    pub fn trouble() -> Self {
        let script = Self::script();
        let troubles = vec![Trouble::Unknown, Trouble::Later, Trouble::Gone];
        Self {
            chats: vec![chat(false, &[("c0.1", 0)])],
            clients: Vec::new(),
            model: ModelPlan { calling_percent: 0, script: Vec::new(), falls: 0, ..script.model.clone() },
            platforms: PlatformPlan { troubles, ..script.platforms.clone() },
            ..script
        }
    }

    /// Five chats at once, each of which fills up its context several times.
    pub fn crowd() -> Self {
        let squeeze = Self::squeeze();
        Self {
            chats: (0..5).map(|chat| steady_chat(0, chat, 1..=9, 700)).collect(),
            clients: Vec::new(),
            model: ModelPlan { calling_percent: 20, script: Vec::new(), ..squeeze.model.clone() },
            ..squeeze
        }
    }

    /// A context that is full after two lines, a summary that takes half a minute, a line that waits for
    /// it, and more than [`BURST`] that come in meanwhile.
    pub fn burst() -> Self {
        let squeeze = Self::squeeze();
        let mut chat = steady_chat(0, 0, 1..=12 + BURST, 400);
        chat.lines[..4].iter_mut().for_each(|line| line.after = Duration::from_secs(2));
        chat.lines[..2].iter_mut().for_each(|line| line.text.push_str(&"-long".repeat(200)));
        Self {
            chats: vec![chat],
            clients: Vec::new(),
            model: ModelPlan { script: Vec::new(), ..squeeze.model.clone() },
            compression: Some(CompressionPlan {
                soft: 800,
                hard: 800,
                keep_last: 1,
                latency_min: Duration::from_secs(30),
                latency_max: Duration::from_secs(30),
                failing_percent: 0,
                patience: Duration::from_secs(60),
                memory: None,
                ..squeeze.compression.clone().expect("it has one")
            }),
            ..squeeze
        }
    }

    /// Thirteen agents in one process, each with people of its own, that fill up their contexts at the
    /// same time and write to each other meanwhile.
    pub fn host() -> Self {
        let squeeze = Self::squeeze();
        let agents = 13;
        Self {
            chats: (0..agents).map(|agent| steady_chat(agent, agent, 1..=7, 2000)).collect(),
            clients: Vec::new(),
            limits: short_chains(4, 6),
            model: ModelPlan {
                calling_percent: 30,
                parallel_max: 1,
                tools: vec!["send_message", "send_message", "count"],
                script: Vec::new(),
                talkative: true,
                ..squeeze.model.clone()
            },
            agents,
            compression: Some(CompressionPlan {
                soft: 50,
                hard: 90,
                latency_max: Duration::from_secs(5),
                patience: Duration::from_secs(20),
                ..squeeze.compression.clone().expect("it has one")
            }),
            ..squeeze
        }
    }

    /// The same thirteen for a good hour. Their people write every minute or two, and say every ninth time that
    /// they begin anew; the process ends again and again, in every way it can.
    pub fn hour() -> Self {
        let host = Self::host();
        let said = |chat: usize, number: usize| match (number + chat).is_multiple_of(9) {
            true => "/new".to_owned(),
            false => format!("c{chat}.{number}"),
        };
        let line = |chat, number| Line {
            text: said(chat, number),
            after: Duration::from_secs(190),
            redelivered: 1,
            is_part: false,
        };
        let chat = |agent: usize| ChatPlan {
            agent,
            keyed: agent.is_multiple_of(2),
            lines: (1..=45).map(|number| line(agent, number)).collect(),
        };
        let at = |seconds| Crash::At(Duration::from_secs(seconds));
        Self {
            chats: (0..host.agents).map(chat).collect(),
            model: ModelPlan { calling_percent: 10, ..host.model.clone() },
            crashes: vec![
                at(400),
                Crash::AfterCommit(500),
                at(700),
                Crash::AtOperation(400),
                at(300),
                Crash::AfterCommit(77),
                at(900),
            ],
            ..host
        }
    }

    /// Summaries that take a minute, of a provider that never answers in time, far below the hard limit:
    /// people do not notice.
    pub fn aside() -> Self {
        let squeeze = Self::squeeze();
        let requests = (1..=70).map(|number| Line {
            text: format!("a0.{number}"),
            after: Duration::from_secs(1),
            redelivered: 1,
            is_part: false,
        });
        Self {
            chats: vec![steady_chat(0, 0, 1..=60, 2000)],
            clients: vec![ClientPlan {
                manner: Manner::Named,
                requests: requests.collect(),
                runs_tools: false,
            }],
            model: ModelPlan { script: Vec::new(), ..squeeze.model.clone() },
            compression: Some(CompressionPlan {
                soft: 50,
                hard: u64::MAX,
                latency_min: Duration::from_secs(10),
                latency_max: Duration::from_secs(20),
                failing_percent: 0,
                patience: Duration::from_secs(60),
                memory: Some(MemoryPlan { latency_max: Duration::from_secs(3600), failing_percent: 20 }),
                ..squeeze.compression.clone().expect("it has one")
            }),
            ..squeeze
        }
    }
}

/// A word that begins like no other: an index that leaves out what a word shares with the one before it has the rest.
fn secret(chat: usize, number: usize) -> String {
    let mut seed = Seed::new((chat * 1000 + number) as u64);
    (0..12).map(|_| char::from(b'a' + u8::try_from(seed.below(26)).expect("a letter"))).collect()
}

/// Every line comes up to `after` milliseconds after the one before, and is delivered twice.
fn steady_chat(agent: usize, chat: usize, lines: RangeInclusive<usize>, after: u64) -> ChatPlan {
    let line = |number| Line {
        text: format!("c{chat}.{number}"),
        after: Duration::from_millis(after),
        redelivered: 1,
        is_part: false,
    };
    ChatPlan { agent, keyed: chat.is_multiple_of(2), lines: lines.map(line).collect() }
}

pub fn chat(keyed: bool, lines: &[(&str, u64)]) -> ChatPlan {
    ChatPlan { agent: 0, keyed, lines: lines.iter().map(Line::of).collect() }
}

pub fn client(manner: Manner, lines: &[(&str, u64)]) -> ClientPlan {
    ClientPlan { manner, requests: lines.iter().map(Line::of).collect(), runs_tools: false }
}

impl Line {
    /// A line of a script, which comes up to so many milliseconds after the one before.
    fn of((text, after): &(&str, u64)) -> Self {
        Self { text: (*text).into(), after: Duration::from_millis(*after), redelivered: 1, is_part: false }
    }
}

impl ChatPlan {
    /// This line is the first of an album, and so many follow, each within so long.
    fn gather(&mut self, place: usize, more: u64, after: Duration) {
        let first = &mut self.lines[place];
        first.is_part = true;
        let text = first.text.clone();
        let part =
            |number| Line { text: format!("{text}-part{number}"), after, redelivered: 0, is_part: true };
        let parts: Vec<_> = (1..=more).map(part).collect();
        self.lines.splice(place + 1..place + 1, parts);
    }

    /// Of three lines that say something to the model, two are longer than what waits in memory.
    fn lengthen(&mut self) {
        let said = self.lines.iter_mut().filter(|line| words(&line.text).is_some());
        for (number, line) in said.enumerate().filter(|(number, _)| !number.is_multiple_of(3)) {
            line.text.push_str(&format!("-{number}").repeat(INLINE_BYTES_MAX));
        }
    }
}

impl ChatPlan {
    fn draw(seed: &mut Seed, chat: u64) -> Self {
        let lines = (1..=1 + seed.below(6)).map(|n| {
            let text = match seed.below(24) {
                0 | 1 => "/new".to_owned(),
                2 => "/status".to_owned(),
                3 => "/stop".to_owned(),
                4 => format!("/steer c{chat}.{n}"),
                5 => format!("/queue c{chat}.{n}"),
                6 => "/approve".to_owned(),
                7 => "/deny".to_owned(),
                8 => ["/compress", "/compress here", "/compress the move", "/compress --preview"]
                    [pick(seed, 4)]
                .to_owned(),
                _ => format!("c{chat}.{n}"),
            };
            Line { text, after: millis(seed, 2500), redelivered: seed.below(3), is_part: false }
        });
        Self { agent: 0, lines: lines.collect(), keyed: seed.chance(1, 2) }
    }
}

impl ChatPlan {
    fn of_the_past(seed: &mut Seed, chat: u64) -> Self {
        let lines = (1..=3 + seed.below(9)).map(|n| {
            let text = match seed.below(20) {
                0 | 1 => "/undo".to_owned(),
                2 => "/undo 2".to_owned(),
                3 | 4 => "/retry".to_owned(),
                5 => "/branch".to_owned(),
                6 => format!("/title chat {chat}"),
                7 | 8 => "/resume 1".to_owned(),
                9 => format!("/resume chat {chat}"),
                10 => format!("/new line {n} of chat {chat}"),
                11 => "/sessions".to_owned(),
                _ => format!("c{chat}.{n}"),
            };
            Line { text, after: millis(seed, 2500), redelivered: seed.below(3), is_part: false }
        });
        Self { agent: 0, lines: lines.collect(), keyed: seed.chance(1, 2) }
    }
}

impl ClientPlan {
    fn draw(seed: &mut Seed, client: u64) -> Self {
        let requests = (1..=1 + seed.below(4)).map(|n| Line {
            text: format!("a{client}.{n}"),
            after: millis(seed, 1500),
            redelivered: seed.below(3),
            is_part: false,
        });
        let requests = requests.collect();
        let manner = if seed.chance(1, 2) { Manner::Named } else { Manner::Threaded };
        Self { requests, manner, runs_tools: false }
    }
}

impl CompressionPlan {
    fn draw(seed: &mut Seed) -> Self {
        let soft = 20 + seed.below(120);
        Self {
            soft,
            hard: soft + soft / 3 + seed.below(60),
            keep_last: pick(seed, 5),
            latency_min: Duration::ZERO,
            latency_max: Duration::from_millis(1 + seed.below(4000)),
            failing_percent: [0, 10, 50][pick(seed, 3)],
            patience: Duration::from_millis(1000 + seed.below(9000)),
            plain: seed.chance(1, 3),
            memory: None,
        }
    }
}

impl LifecyclePlan {
    fn draw(seed: &mut Seed) -> Self {
        let ends = seed.chance(1, 3);
        let tells = seed.chance(1, 3);
        Self {
            idle: (ends && seed.chance(3, 4)).then(|| Duration::from_millis(200 + seed.below(3000))),
            day: (ends && seed.chance(1, 3)).then(|| Duration::from_millis(2000 + seed.below(9000))),
            hooks: if tells { 1 + pick(seed, 3) } else { 0 },
            latency_max: Duration::from_millis(1 + seed.below(2000)),
            failing_percent: [0, 30, 60][pick(seed, 3)],
            hanging_percent: [0, 20][pick(seed, 2)],
        }
    }
}

impl RememberPlan {
    fn draw(seed: &mut Seed) -> Self {
        let every = 1 + seed.below(3);
        Self {
            every,
            shared: every == 3, // without a draw of its own: no other world changes
            latency_max: [Duration::from_millis(50), Duration::from_secs(3)][pick(seed, 2)],
            recall_max: [Duration::from_millis(50), Duration::from_millis(600)][pick(seed, 2)],
            failing_percent: [0, 20, 60][pick(seed, 3)],
            failures_max: 6,
        }
    }
}

impl MemoryPlan {
    fn draw(seed: &mut Seed) -> Self {
        Self {
            // No turn waits for it longer than five seconds.
            latency_max: [Duration::from_millis(100), Duration::from_secs(4), Duration::from_secs(12)]
                [pick(seed, 3)],
            failing_percent: [0, 20][pick(seed, 2)],
        }
    }
}

impl ModelPlan {
    fn draw(seed: &mut Seed, peer: bool) -> Self {
        let mut tools = vec!["count", "count", "count", "count", "look", "look"];
        tools.extend(TOOLS);
        let favourite = TOOLS[pick(seed, TOOLS.len() as u64)];
        tools.extend([favourite; 8]);
        Self {
            latency_max: Duration::from_millis(1 + seed.below(3000)),
            failing_percent: [0, 0, 10, 30][pick(seed, 4)],
            calling_percent: [0, 25, 50, 80][pick(seed, 4)],
            parallel_max: 1 + seed.below(4),
            tools,
            script: Vec::new(),
            kills: usize::from(seed.chance(1, 4)),
            falls: pick(seed, 3),
            talkative: peer && seed.chance(1, 2),
            stubborn: seed.chance(1, 16),
        }
    }
}

impl Crash {
    fn draw(seed: &mut Seed) -> Self {
        match seed.below(4) {
            0 => Crash::AfterCommit(1 + seed.below(25)),
            1 => Crash::At(millis(seed, 8000)),
            _ => Crash::AtOperation(1 + seed.below(200)),
        }
    }
}

fn millis(seed: &mut Seed, below: u64) -> Duration {
    Duration::from_millis(seed.below(below))
}

fn pick(seed: &mut Seed, from: u64) -> usize {
    usize::try_from(seed.below(from)).expect("a small number")
}

/// Agents that talk to each other are cut soon.
fn short_chains(hops_max: u32, turns_max: u32) -> Limits {
    let chain = chain::Limits { hops_max, turns_max, calls_max: 4 * turns_max, ..chain::Limits::default() };
    Limits { chain, ..Limits::default() }
}
