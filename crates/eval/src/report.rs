//! Scores, as a table for people and JSON for programs, alone or side by side.

use crate::case::Category;
use crate::run::CaseOutcome;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;

/// What one engine made of all cases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EngineReport {
    pub engine: String,
    pub summariser: String,
    /// `view`: answers were looked up; `model`: one was asked.
    pub judge: String,
    pub total: ScoreTally,
    pub categories: BTreeMap<String, ScoreTally>,
    pub cases: Vec<CaseReport>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScoreTally {
    pub passed: usize,
    pub asked: usize,
}

/// One case; the sum of all runs if there were several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CaseReport {
    pub case: String,
    pub session: String,
    pub score: ScoreTally,
    pub messages_before: usize,
    pub messages_after: usize,
    pub tokens_before: u64,
    pub tokens_after: u64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failure: Option<String>,
    pub missed: Vec<MissedQuestion>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissedQuestion {
    pub category: String,
    pub question: String,
    pub because: String,
}

impl ScoreTally {
    fn count(&mut self, passed: bool) {
        self.asked += 1;
        self.passed += usize::from(passed);
    }

    /// Rounded to a tenth of a percent.
    pub fn percent(self) -> f64 {
        match self.asked {
            0 => 100.0,
            asked => (self.passed as f64 * 1000.0 / asked as f64).round() / 10.0,
        }
    }
}

impl EngineReport {
    pub fn new(engine: &str, summariser: &str, judge: &str, outcomes: &[CaseOutcome]) -> Self {
        let mut total = ScoreTally::default();
        let mut categories: BTreeMap<String, ScoreTally> = BTreeMap::new();
        for verdict in outcomes.iter().flat_map(|outcome| &outcome.verdicts) {
            total.count(verdict.passed);
            categories.entry(verdict.question.category.to_string()).or_default().count(verdict.passed);
        }
        Self {
            engine: engine.to_owned(),
            summariser: summariser.to_owned(),
            judge: judge.to_owned(),
            total,
            categories,
            cases: CaseReport::of_all(outcomes),
        }
    }

    pub fn category(&self, category: Category) -> ScoreTally {
        self.categories.get(category.name()).copied().unwrap_or_default()
    }

    /// Categories, and the whole, in which this one scores lower than `other`.
    pub fn lower_than(&self, other: &EngineReport) -> Vec<String> {
        let mut lower: Vec<String> = Category::ALL
            .into_iter()
            .filter(|category| self.category(*category).percent() < other.category(*category).percent())
            .map(|category| category.to_string())
            .collect();
        if self.total.percent() < other.total.percent() {
            lower.push("all".to_owned());
        }
        lower
    }

    fn tokens(&self) -> (u64, u64) {
        let sum = |of: fn(&CaseReport) -> u64| self.cases.iter().map(of).sum();
        (sum(|case| case.tokens_before), sum(|case| case.tokens_after))
    }

    pub fn table(&self) -> String {
        self.beside(None)
    }

    /// This report, and another one in a column of its own.
    pub fn beside(&self, other: Option<&EngineReport>) -> String {
        let mut text = String::new();
        let reports: Vec<&EngineReport> = std::iter::once(self).chain(other).collect();
        let width = reports.iter().map(|report| report.title().chars().count()).max().unwrap_or(0).max(18);
        let mut line = |name: &str, cells: &dyn Fn(&EngineReport) -> String| {
            let _ = write!(text, "{name:<22}");
            for report in &reports {
                let _ = write!(text, "  {:>width$}", cells(report));
            }
            text.push('\n');
        };
        line("", &EngineReport::title);
        for category in Category::ALL {
            line(category.name(), &|report| shown(report.category(category)));
        }
        line("all", &|report| shown(report.total));
        line("tokens", &|report| {
            let (before, after) = report.tokens();
            format!("{before} -> {after}")
        });
        line("", &|_| String::new());
        for case in &self.cases {
            line(&case.case, &|report| {
                let found = report.cases.iter().find(|other| other.case == case.case);
                found.map_or_else(|| "-".to_owned(), CaseReport::shown)
            });
        }
        text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n") + "\n"
    }

    /// Every question without an answer.
    pub fn missed(&self) -> String {
        let mut text = String::new();
        for case in &self.cases {
            for missed in &case.missed {
                let _ = writeln!(
                    text,
                    "{}: {}: {} ({})",
                    case.case, missed.category, missed.question, missed.because
                );
            }
        }
        text
    }

    fn title(&self) -> String {
        format!("{}/{}", self.engine, self.summariser)
    }
}

fn shown(tally: ScoreTally) -> String {
    match tally.asked {
        0 => "-".to_owned(),
        _ => format!("{}/{} {:>5.1}%", tally.passed, tally.asked, tally.percent()),
    }
}

impl CaseReport {
    /// A case that was run more than once is one line.
    fn of_all(outcomes: &[CaseOutcome]) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for report in outcomes.iter().map(Self::of) {
            match all.iter_mut().find(|known| known.case == report.case) {
                Some(known) => known.add(report),
                None => all.push(report),
            }
        }
        all
    }

    fn add(&mut self, other: Self) {
        self.score.passed += other.score.passed;
        self.score.asked += other.score.asked;
        self.messages_before += other.messages_before;
        self.messages_after += other.messages_after;
        self.tokens_before += other.tokens_before;
        self.tokens_after += other.tokens_after;
        self.failure = self.failure.take().or(other.failure);
        self.missed.extend(other.missed);
    }

    fn of(outcome: &CaseOutcome) -> Self {
        let mut score = ScoreTally::default();
        let mut missed = Vec::new();
        for verdict in &outcome.verdicts {
            score.count(verdict.passed);
            if let Some(because) = &verdict.because {
                missed.push(MissedQuestion {
                    category: verdict.question.category.to_string(),
                    question: verdict.question.text.clone(),
                    because: because.clone(),
                });
            }
        }
        Self {
            case: outcome.case.clone(),
            session: outcome.session.to_string(),
            score,
            messages_before: outcome.messages_before,
            messages_after: outcome.messages.len(),
            tokens_before: outcome.tokens_before,
            tokens_after: outcome.tokens_after,
            failure: outcome.failure.clone(),
            missed,
        }
    }

    fn shown(&self) -> String {
        let left = self.tokens_after * 100 / self.tokens_before.max(1);
        format!("{} {left:>3}% left", shown(self.score))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(engine: &str, passed: usize) -> EngineReport {
        let tally = ScoreTally { passed, asked: 3 };
        let case = CaseReport {
            case: "tea".into(),
            session: "eval_tea".into(),
            score: tally,
            messages_before: 90,
            messages_after: 12,
            tokens_before: 16_000,
            tokens_after: 4_000,
            failure: None,
            missed: vec![],
        };
        let categories = BTreeMap::from([("fact".to_owned(), tally)]);
        let (summariser, judge) = ("scripted".into(), "view".into());
        EngineReport { engine: engine.into(), summariser, judge, total: tally, categories, cases: vec![case] }
    }

    #[test]
    fn two_reports_stand_side_by_side_and_in_json() {
        let (ours, theirs) = (report("ours", 3), report("theirs", 2));
        let table = ours.beside(Some(&theirs));
        let row = table.lines().find(|line| line.starts_with("fact")).unwrap();
        assert_eq!(row, "fact                            3/3 100.0%          2/3  66.7%");
        assert!(table.contains("25% left") && table.contains("16000 -> 4000"), "{table}");
        assert_eq!(theirs.lower_than(&ours), ["fact", "all"]);
        assert!(ours.lower_than(&theirs).is_empty());
        let json = serde_json::to_string(&ours).unwrap();
        assert_eq!(serde_json::from_str::<EngineReport>(&json).unwrap(), ours);
    }
}
