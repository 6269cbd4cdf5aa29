//! The settings of a Slack app, by Hermes' names.

use super::BASE;
use crate::media;
use std::collections::BTreeSet;
use std::time::Duration;
use throughline_core::redact::Secret;

/// One app in one workspace.
#[derive(Clone, Debug)]
pub struct SlackSettings {
    /// `xoxb-…`
    pub bot_token: Secret,
    /// `xapp-…`, with the scope `connections:write`.
    pub app_token: Secret,
    /// Where the Web API is. The websocket's address comes with its answers.
    pub base: String,
    pub options: SlackOptions,
    pub media: media::MediaRules,
    /// How long one call may take.
    pub patience: Duration,
    /// A connection that has been silent for this long is dead: Slack answers pings.
    pub silence: Duration,
    /// Before the second try; every further one waits twice as long, up to a minute.
    pub pace: Duration,
}

impl SlackSettings {
    pub fn new(bot_token: impl Into<String>, app_token: impl Into<String>) -> Self {
        Self {
            bot_token: Secret::new(bot_token),
            app_token: Secret::new(app_token),
            base: BASE.to_owned(),
            options: SlackOptions::default(),
            media: media::MediaRules::default(),
            patience: Duration::from_secs(30),
            silence: Duration::from_secs(40),
            pace: Duration::from_secs(1),
        }
    }
}

/// What Hermes' `platforms.slack.extra` says about shape, by its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlackOptions {
    /// Answers to a channel's message open a thread, and each such thread is a session.
    pub reply_in_thread: bool,
    /// An answer in a thread is shown in the channel, too.
    pub reply_broadcast: bool,
    /// Outside direct messages only a mention counts, not an answer to something we said.
    pub strict_mention: bool,
    /// Each direct message that answers nothing opens a thread and a session.
    pub dm_top_level_threads_as_sessions: bool,
    /// What is shown beside the name while a turn runs.
    pub typing_status_text: String,
    /// Commands, without their slash: Slack knows none inside threads, so `!stop` stands for `/stop`.
    pub commands: BTreeSet<String>,
}

impl Default for SlackOptions {
    fn default() -> Self {
        Self {
            reply_in_thread: true,
            reply_broadcast: false,
            strict_mention: false,
            dm_top_level_threads_as_sessions: true,
            typing_status_text: "is thinking...".to_owned(),
            commands: BTreeSet::new(),
        }
    }
}
