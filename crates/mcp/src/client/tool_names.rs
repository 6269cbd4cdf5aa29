//! Under which names the tools of servers are offered.
//!
//! A name is `mcp__<server>__<tool>`, as in Hermes, of characters that every provider takes. Providers take 64 of
//! them. A longer name is cut and ends with a digest of the server's and the tool's own names; so does a name that
//! another tool has already. The digest depends on these two names only: a tool keeps its name while others come
//! and go, unless it is the other one that has the plain name.

use std::collections::BTreeSet;
use throughline_core::prompt::Digest;

/// OpenAI and most that follow it refuse a request that has a tool with a longer name.
pub const LENGTH_MAX: usize = 64;
/// Hexadecimal characters of a digest: two names of one home do not meet by chance.
const DIGEST_LENGTH: usize = 8;

/// What all names of one server begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// As the user wrote it.
    server: String,
    text: String,
}

impl Prefix {
    pub fn new(server: &str) -> Self {
        Self { server: server.to_owned(), text: format!("mcp__{}__", sanitised(server)) }
    }

    /// One for each server, in order, no two alike. Where two names are written alike, the first in the order has
    /// the plain one.
    pub fn distinct<'a>(servers: impl IntoIterator<Item = &'a str>) -> Vec<Self> {
        let mut taken = BTreeSet::new();
        let mut prefixes = Vec::new();
        for server in servers {
            let mut prefix = Self::new(server);
            if !taken.insert(prefix.text.clone()) {
                prefix.text = format!("mcp__{}_{}__", sanitised(server), digest(&[server]));
                taken.insert(prefix.text.clone());
            }
            prefixes.push(prefix);
        }
        prefixes
    }

    /// Whether another server has the plain one.
    pub fn is_changed(&self) -> bool {
        *self != Self::new(&self.server)
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// The name of a tool, cut if it has to be.
    pub fn name(&self, tool: &str) -> String {
        if self.cuts(tool) { self.marked(tool) } else { format!("{}{}", self.text, sanitised(tool)) }
    }

    /// Whether the name of a tool has to be cut.
    pub fn cuts(&self, tool: &str) -> bool {
        self.text.len() + sanitised(tool).len() > LENGTH_MAX
    }

    /// Another name of the same tool, for when the plain one is taken.
    pub fn marked(&self, tool: &str) -> String {
        let mut name = format!("{}{}", self.text, sanitised(tool));
        name.truncate(LENGTH_MAX - DIGEST_LENGTH - 1); // all of it is ASCII
        format!("{name}_{}", digest(&[&self.server, tool]))
    }
}

pub fn sanitised(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect()
}

pub fn digest(names: &[&str]) -> String {
    let fields: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
    let mut hex = Digest::of(&fields).to_hex();
    hex.truncate(DIGEST_LENGTH);
    hex
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_name_that_is_short_enough_is_hermes_own() {
        assert_eq!(Prefix::new("my-server.x").name("read-file"), "mcp__my_server_x__read_file");
    }

    #[test]
    fn two_servers_that_are_written_alike_have_two_prefixes() {
        let prefixes = Prefix::distinct(["a-b", "a.b", "c", "a_b"]);
        assert_eq!((prefixes[0].text(), prefixes[2].text()), ("mcp__a_b__", "mcp__c__"));
        let changed: Vec<bool> = prefixes.iter().map(Prefix::is_changed).collect();
        assert_eq!(changed, [false, true, false, true]);
        assert_ne!(prefixes[1].text(), prefixes[3].text());
    }

    proptest! {
        #[test]
        fn no_name_is_longer_than_providers_take(server in ".{0,120}", tool in ".{0,120}") {
            let prefix = Prefix::new(&server);
            for name in [prefix.name(&tool), prefix.marked(&tool)] {
                prop_assert!(name.len() <= LENGTH_MAX, "{name}");
                prop_assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'));
            }
        }

        #[test]
        fn long_names_that_differ_at_their_end_stay_apart(end in "[a-z]{1,9}", other in "[a-z]{1,9}") {
            prop_assume!(end != other);
            let prefix = Prefix::new("server");
            let long = "x".repeat(80);
            prop_assert_ne!(prefix.name(&format!("{long}{end}")), prefix.name(&format!("{long}{other}")));
        }
    }
}
