//! What a person has chosen for one conversation. It outlives the process, and ends with the conversation:
//! the next one begins as configured.

use super::{Act, SessionState};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preferences {
    /// Which model answers. None: the configured one.
    pub model: Option<String>,
    /// How long it thinks, in the words of its provider. None: as configured.
    pub reasoning: Option<String>,
    pub personality: Option<Personality>,
    /// Dangerous commands are not asked about.
    pub yolo: bool,
    /// None: as configured.
    pub tools: Option<ToolProgress>,
}

/// How the agent speaks: a part of its system prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Personality {
    pub name: String,
    pub prompt: String,
}

/// How much of its tools people are shown while a turn runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolProgress {
    Off,
    /// A tool, when another one than the last is used.
    New,
    All,
    /// With arguments.
    Verbose,
}

impl ToolProgress {
    const ALL: [Self; 4] = [Self::Off, Self::New, Self::All, Self::Verbose];

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str().eq_ignore_ascii_case(name.trim()))
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::New => "new",
            Self::All => "all",
            Self::Verbose => "verbose",
        }
    }

    fn next(self) -> Self {
        match self {
            Self::Off => Self::New,
            Self::New => Self::All,
            Self::All => Self::Verbose,
            Self::Verbose => Self::Off,
        }
    }
}

impl Preferences {
    /// What a copy of the conversation begins with. That nothing is asked about was said for this one only.
    #[must_use]
    pub fn inherited(&self) -> Self {
        Self { yolo: false, ..self.clone() }
    }
}

impl SessionState {
    pub(super) fn toggle_yolo(&mut self, acts: &mut Vec<Act>) -> String {
        self.preferences.yolo = !self.preferences.yolo;
        let (detail, said) = match self.preferences.yolo {
            true => (
                "on",
                "Dangerous commands are no longer asked about in this conversation. /yolo asks again. \
                 What can never run still does not.",
            ),
            false => ("off", "Dangerous commands are asked about again."),
        };
        acts.push(Act::Note { name: "yolo", detail: detail.into() });
        said.into()
    }

    pub(super) fn show_tools(&mut self, level: Option<ToolProgress>) -> String {
        let level = level.unwrap_or_else(|| self.preferences.tools.unwrap_or(ToolProgress::All).next());
        self.preferences.tools = Some(level);
        let shown = match level {
            ToolProgress::Off => "Tools are not shown",
            ToolProgress::New => "A tool is shown when another one is used",
            ToolProgress::All => "Every use of a tool is shown",
            ToolProgress::Verbose => "Every use of a tool is shown with its arguments",
        };
        format!("{shown} in this conversation ({}).", level.as_str())
    }
}
