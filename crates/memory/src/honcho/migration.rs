//! An owner's memory files, brought to Honcho once.
//!
//! `MEMORY.md` and `USER.md` become words of the owner's peer, `SOUL.md` of the agent's. They go where
//! only the owner talks: another person's session never gets them, and a group's does not either, since
//! everyone in it reads along. A session for every run would get them with every run, so under that
//! strategy they stay where they are, whether the chat has a key or not.
//!
//! Each goes once to its peer, before the first turn that this home hands over there, and never later: what a file
//! says afterwards was said in turns. That it did is in the `MigrationLedger`. A file is looked for before it
//! is sent, by the marks that Hermes leaves on it, too.

use super::peer::SessionPeers;
use super::settings::{HonchoSettings, SessionStrategy};
use throughline_core::memory::Scope;

/// What is brought: the file, whose words it becomes, and what it is.
pub const FILES: [(&str, UploadSpeaker, &str); 3] = [
    ("MEMORY.md", UploadSpeaker::Owner, "notes that the agent took over many conversations"),
    ("USER.md", UploadSpeaker::Owner, "what the agent noted about the user"),
    ("SOUL.md", UploadSpeaker::Agent, "who the agent is meant to be"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UploadSpeaker {
    Owner,
    Agent,
}

impl UploadSpeaker {
    fn of(self, peers: &SessionPeers) -> &str {
        match self {
            Self::Owner => &peers.user,
            Self::Agent => &peers.agent,
        }
    }
}

/// Who the person in a conversation is to this agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The files are about them.
    Owner,
    Guest,
}

/// One file as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileUpload {
    pub file: String,
    pub peer: String,
    /// `user` or `ai`, as Hermes marks it.
    pub target: &'static str,
    pub content: String,
}

/// Which files are to be brought from a conversation, by name. Empty: none, and there is nothing to read.
pub fn migration(settings: &HonchoSettings, scope: &Scope, role: Role) -> Vec<&'static str> {
    let is_private = scope.place.kind.as_deref().is_none_or(|kind| matches!(kind, "dm" | "private" | "im"));
    match settings.save_messages
        && settings.strategy != SessionStrategy::PerSession
        && role == Role::Owner
        && is_private
    {
        true => FILES.iter().map(|(name, ..)| *name).collect(),
        false => Vec::new(),
    }
}

/// Of these files, whose words each becomes. Others are left alone.
pub(super) fn destinations<'a>(
    peers: &'a SessionPeers,
    wanted: &'a [&str],
) -> impl Iterator<Item = (&'static str, &'a str)> + 'a {
    let known = FILES.iter().filter(|(name, ..)| wanted.contains(name));
    known.map(|(name, speaker, _)| (*name, speaker.of(peers)))
}

/// What is sent of a file. An empty one says nothing.
pub(super) fn upload(peers: &SessionPeers, file: &str, text: &str) -> Option<FileUpload> {
    let (name, speaker, what) = FILES.iter().find(|(name, ..)| *name == file)?;
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    let target = match speaker {
        UploadSpeaker::Owner => "user",
        UploadSpeaker::Agent => "ai",
    };
    let content = format!(
        "<prior_memory_file>\n<context>\n{name}: {what}, written before this conversation was kept here.\n</context>\n\n{text}\n</prior_memory_file>"
    );
    Some(FileUpload { file: (*name).to_owned(), peer: speaker.of(peers).to_owned(), target, content })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::honcho::session_name::tests::scope;
    use crate::honcho::settings::tests::settings;
    use throughline_core::memory::Place;

    #[test]
    fn p29_files_go_to_their_owner_where_only_the_owner_talks() {
        let kind = |kind: &str| Place { kind: Some(kind.into()), ..Place::default() };
        let keyed = |place: Place| Scope {
            chat: Some("agent:main:telegram:dm:1".parse().unwrap()),
            place,
            ..scope()
        };
        for (strategy, scope, role, files) in [
            ("per-directory", scope(), Role::Owner, 3),
            ("per-repo", scope(), Role::Owner, 3),
            ("global", scope(), Role::Owner, 3),
            ("per-session", scope(), Role::Owner, 0),
            ("per-session", keyed(kind("dm")), Role::Owner, 0),
            ("per-directory", keyed(kind("dm")), Role::Owner, 3),
            ("per-directory", keyed(kind("dm")), Role::Guest, 0),
            ("per-directory", keyed(kind("group")), Role::Owner, 0),
            ("per-directory", scope(), Role::Guest, 0),
        ] {
            let settings = settings(&format!(r#"{{"sessionStrategy": "{strategy}"}}"#));
            assert_eq!(migration(&settings, &scope, role).len(), files, "{strategy} {role:?}");
        }
        assert!(migration(&settings(r#"{"saveMessages": false}"#), &scope(), Role::Owner).is_empty());
    }

    #[test]
    fn p29_each_file_is_its_peers_and_empty_or_unknown_ones_are_left() {
        let peers = SessionPeers { user: "ann".into(), agent: "hermes".into() };
        let wanted = ["SOUL.md", "NOTES.md", "MEMORY.md"];
        let seen: Vec<_> = destinations(&peers, &wanted).collect();
        assert_eq!(seen, [("MEMORY.md", "ann"), ("SOUL.md", "hermes")]);
        assert_eq!(upload(&peers, "USER.md", " \n"), None);
        assert_eq!(upload(&peers, "NOTES.md", "x"), None);
        let uploads = [("MEMORY.md", "tea"), ("SOUL.md", "kind")];
        let uploads = uploads.map(|(file, text)| upload(&peers, file, text).unwrap());
        assert_eq!(
            uploads.each_ref().map(|upload| (upload.peer.as_str(), upload.target)),
            [("ann", "user"), ("hermes", "ai")]
        );
        assert!(uploads[0].content.contains("tea"));
    }
}
