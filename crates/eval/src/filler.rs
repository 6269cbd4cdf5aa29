//! What fills a conversation between the things that matter: an agent at work with its tools.
//!
//! Always the same for the same place in the same case. It is shaped like what tools print, and says
//! nothing that a question asks about.

/// Steps of an agent's work, one after the other.
pub struct Filler {
    state: u64,
    topic: FillerTopic,
    phrases: &'static Phrases,
}

#[derive(Clone, Copy)]
enum FillerTopic {
    Code,
    Ops,
    Data,
    Web,
}

struct Phrases {
    /// What a person says to keep it going.
    nudges: &'static [&'static str],
    /// What the agent says along with a call.
    remarks: &'static [&'static str],
}

const ENGLISH: Phrases = Phrases {
    nudges: &[
        "Go on.",
        "Okay, next one.",
        "And the rest?",
        "Please continue.",
        "Fine. Keep going.",
        "Anything odd there?",
    ],
    remarks: &[
        "Looking at the next one.",
        "That one is unremarkable; moving on.",
        "Nothing surprising there.",
        "Let me compare that with its neighbour.",
        "Same shape as the last one.",
        "I will check the remaining ones as well.",
        "No change needed here.",
        "Reading on.",
    ],
};
const GERMAN: Phrases = Phrases {
    nudges: &["Mach weiter.", "Gut, das nächste.", "Und der Rest?", "Bitte weiter.", "Passt. Weiter so."],
    remarks: &[
        "Ich sehe mir das nächste an.",
        "Unauffällig, ich gehe weiter.",
        "Nichts Überraschendes dabei.",
        "Ich vergleiche das mit dem vorigen.",
        "Hier ist nichts zu ändern.",
        "Ich lese weiter.",
    ],
};
const SPANISH: Phrases = Phrases {
    nudges: &["Sigue.", "Bien, el siguiente.", "¿Y lo demás?", "Continúa, por favor."],
    remarks: &[
        "Miro el siguiente.",
        "Nada raro aquí, sigo.",
        "Igual que el anterior.",
        "Lo comparo con el de al lado.",
        "Aquí no hay que cambiar nada.",
    ],
};
const JAPANESE: Phrases = Phrases {
    nudges: &["続けてください。", "次をお願いします。", "残りはどうですか。", "その調子で。"],
    remarks: &[
        "次を確認します。",
        "特に問題はありません。",
        "前のものと同じ形です。",
        "ここは変更不要です。",
        "続けて読みます。",
    ],
};

const NOUNS: [&str; 32] = [
    "ledger", "cursor", "bucket", "anchor", "beacon", "harbor", "lattice", "marker", "needle", "orchid",
    "pebble", "quarry", "ribbon", "saddle", "timber", "umbrella", "valley", "walnut", "yonder", "zephyr",
    "canvas", "dynamo", "ember", "falcon", "garnet", "hollow", "island", "jigsaw", "kettle", "lantern",
    "meadow", "nectar",
];
const VERBS: [&str; 12] =
    ["load", "merge", "split", "flush", "trace", "fold", "scan", "pack", "probe", "align", "trim", "drain"];

impl Filler {
    /// For the place in this case; an error names what there is no filler for.
    pub fn new(case: &str, place: usize, topic: &str, language: &str) -> Result<Self, String> {
        let topic = match topic {
            "code" => FillerTopic::Code,
            "ops" => FillerTopic::Ops,
            "data" => FillerTopic::Data,
            "web" => FillerTopic::Web,
            topic => return Err(format!("there is no filler about {topic:?}")),
        };
        let phrases = match language {
            "" | "en" => &ENGLISH,
            "de" => &GERMAN,
            "es" => &SPANISH,
            "ja" => &JAPANESE,
            language => return Err(format!("there is no filler in {language:?}")),
        };
        let seed = case.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Ok(Self {
            state: seed.wrapping_add((place as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            topic,
            phrases,
        })
    }

    pub fn nudge(&mut self) -> String {
        let nudges = self.phrases.nudges;
        nudges[self.below(nudges.len())].to_owned()
    }

    pub fn remark(&mut self) -> String {
        let remarks = self.phrases.remarks;
        remarks[self.below(remarks.len())].to_owned()
    }

    /// A tool, its arguments and what it returned.
    pub fn step(&mut self) -> (&'static str, String, String) {
        match (self.topic, self.below(3)) {
            (FillerTopic::Code, 0) => self.source(),
            (FillerTopic::Code, 1) => self.tests(),
            (FillerTopic::Code, _) | (FillerTopic::Data, 2) => self.search(),
            (FillerTopic::Ops, 0) => self.listing(),
            (FillerTopic::Ops, _) => self.log(),
            (FillerTopic::Data, 0) | (FillerTopic::Web, 0) => self.records(),
            (FillerTopic::Data, _) => self.table(),
            (FillerTopic::Web, _) => self.article(),
        }
    }

    /// A splitmix step: any sequence does, as long as it is always the same.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn noun(&mut self) -> &'static str {
        NOUNS[self.below(NOUNS.len())]
    }

    fn verb(&mut self) -> &'static str {
        VERBS[self.below(VERBS.len())]
    }

    fn lines(&mut self, least: usize, more: usize, line: impl Fn(&mut Self, usize) -> String) -> String {
        let count = least + self.below(more);
        (0..count).map(|number| line(self, number)).collect::<Vec<_>>().join("\n")
    }

    fn tests(&mut self) -> (&'static str, String, String) {
        let module = self.noun();
        let lines = self.lines(20, 14, |this, _| {
            format!("test {module}::{}_{}_{} ... ok", this.verb(), this.noun(), this.noun())
        });
        let output = format!("running tests of {module}\n{lines}\n\ntest result: ok. 0 failed");
        let output = serde_json::json!({"output": output, "exit_code": 0}).to_string();
        ("terminal", format!("{{\"command\": \"cargo test {module}\"}}"), output)
    }

    fn log(&mut self) -> (&'static str, String, String) {
        let service = self.noun();
        let lines = self.lines(18, 12, |this, number| {
            let (verb, noun, took) = (this.verb(), this.noun(), this.below(90) + 3);
            format!(
                "11:{:02}:{:02} INFO {service}: {verb} {noun} finished in {took}ms",
                number % 60,
                took % 60
            )
        });
        let output = serde_json::json!({"output": lines, "exit_code": 0}).to_string();
        ("terminal", format!("{{\"command\": \"journalctl -u {service} -n 40\"}}"), output)
    }

    fn listing(&mut self) -> (&'static str, String, String) {
        let directory = self.noun();
        let lines = self.lines(20, 12, |this, _| {
            format!("-rw-r--r-- 1 agent agent {:>6} {}-{}.conf", this.below(90_000), this.noun(), this.noun())
        });
        let output = serde_json::json!({"output": lines, "exit_code": 0}).to_string();
        ("terminal", format!("{{\"command\": \"ls -l etc/{directory}\"}}"), output)
    }

    fn source(&mut self) -> (&'static str, String, String) {
        let (file, kind) = (self.noun(), self.noun());
        let lines = self.lines(10, 7, |this, _| {
            let (verb, noun, other) = (this.verb(), this.noun(), this.noun());
            format!("    fn {verb}_{noun}(&mut self, {other}: &str) {{\n        self.{noun}.{verb}({other});\n    }}\n")
        });
        ("read_file", format!("{{\"path\": \"lib/{file}.rs\"}}"), format!("impl {kind} {{\n{lines}}}\n"))
    }

    fn search(&mut self) -> (&'static str, String, String) {
        let word = self.noun();
        let lines = self.lines(20, 12, |this, _| {
            let (file, line) = (this.noun(), this.below(900) + 1);
            format!("lib/{file}.rs:{line}: {}({word}, {})", this.verb(), this.noun())
        });
        ("search_files", format!("{{\"pattern\": \"{word}\", \"path\": \"lib\"}}"), lines)
    }

    fn records(&mut self) -> (&'static str, String, String) {
        let resource = self.noun();
        let lines = self.lines(13, 8, |this, _| {
            let (name, size) = (this.noun(), this.below(500));
            format!(
                "  {{\"kind\": \"{resource}\", \"name\": \"{name}\", \"size\": {size}, \"state\": \"idle\"}},"
            )
        });
        ("http_get", format!("{{\"resource\": \"{resource}\"}}"), format!("[\n{lines}\n]"))
    }

    fn table(&mut self) -> (&'static str, String, String) {
        let table = self.noun();
        let lines = self.lines(28, 14, |this, _| {
            format!("{:<10} | {:<10} | {:>6}", this.noun(), this.noun(), this.below(4000))
        });
        let heading = "name       | owner      |  count\n-----------+------------+-------";
        (
            "query",
            format!("{{\"sql\": \"select name, owner, count from {table}\"}}"),
            format!("{heading}\n{lines}"),
        )
    }

    fn article(&mut self) -> (&'static str, String, String) {
        let subject = self.noun();
        let lines = self.lines(9, 6, |this, _| {
            let (a, b, c, verb) = (this.noun(), this.noun(), this.noun(), this.verb());
            format!("A {a} is often said to {verb} a {b}. In practice the {c} matters more, and the {subject} least.")
        });
        ("web_extract", format!("{{\"urls\": [\"https://{subject}.example/guide\"]}}"), lines)
    }
}
