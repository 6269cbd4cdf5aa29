//! Where a reply goes.

use super::{Readable, StoredText, borrowed, owned, parsed, written};
use serde::{Deserialize, Serialize};
use throughline_core::input::Destination;

#[derive(PartialEq, Serialize, Deserialize)]
pub(super) struct StoredDestination<'a> {
    platform: StoredText<'a>,
    account: StoredText<'a>,
    chat: StoredText<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread: Option<StoredText<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_to: Option<StoredText<'a>>,
}

pub(crate) fn destination_text(destination: &Destination) -> String {
    written(&StoredDestination::from(destination))
}

pub(crate) fn destination(text: &str) -> Readable<Destination> {
    parsed::<StoredDestination<'_>>(text).map(Destination::from)
}

impl<'a> From<&'a Destination> for StoredDestination<'a> {
    fn from(destination: &'a Destination) -> Self {
        let Destination { platform, account, chat, thread, reply_to } = destination;
        Self {
            platform: platform.into(),
            account: account.into(),
            chat: chat.into(),
            thread: borrowed(thread),
            reply_to: borrowed(reply_to),
        }
    }
}

impl From<StoredDestination<'_>> for Destination {
    fn from(stored: StoredDestination<'_>) -> Self {
        Self {
            platform: stored.platform.into_owned(),
            account: stored.account.into_owned(),
            chat: stored.chat.into_owned(),
            thread: owned(stored.thread),
            reply_to: owned(stored.reply_to),
        }
    }
}
