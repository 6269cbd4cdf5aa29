//! Whether a message among others is meant for the agent.

use crate::incoming::Incoming;
use regex::{Regex, RegexBuilder};
use throughline_hermes::config::platforms::Mentions;

/// What is said in no topic of a group that has topics.
const GENERAL_TOPIC: &str = "1";

pub(super) struct Meant {
    rules: Mentions,
    patterns: Vec<Regex>,
}

impl Meant {
    /// A pattern that is none is left out, and named.
    pub fn of(rules: &Mentions) -> Self {
        let patterns = rules.patterns.iter().filter_map(|pattern| {
            let compiled = RegexBuilder::new(pattern).case_insensitive(true).size_limit(1 << 20).build();
            if let Err(error) = &compiled {
                tracing::warn!(pattern, %error, "a mention pattern cannot be read, and has no effect");
            }
            compiled.ok()
        });
        Self { patterns: patterns.collect(), rules: rules.clone() }
    }

    /// Who writes to the agent alone means it.
    pub fn is_for_us(&self, incoming: &Incoming) -> bool {
        let source = &incoming.source;
        if source.chat_type == "dm" {
            return true;
        }
        let rules = &self.rules;
        let thread = source.thread_id.as_deref();
        // A thread is in the channel around it, and is a place of its own.
        let places = [Some(source.chat_id.as_str()), thread, source.parent_chat_id.as_deref()];
        let is_in = |list: &[String]| {
            list.iter().any(|entry| entry == "*" || places.iter().flatten().any(|place| place == entry))
        };
        let topic = thread.unwrap_or(GENERAL_TOPIC);
        let elsewhere =
            !rules.allowed_topics.is_empty() && !rules.allowed_topics.iter().any(|known| known == topic);
        let ignored = thread.is_some_and(|thread| rules.ignored_threads.iter().any(|known| known == thread));
        if elsewhere || ignored || is_in(&rules.ignored) {
            return false;
        }
        if !rules.allowed.is_empty() && !is_in(&rules.allowed) {
            return rules.guests && incoming.mentioned;
        }
        let topic = format!("{}:{topic}", source.chat_id);
        let free = !rules.required || is_in(&rules.free) || rules.free_topics.contains(&topic);
        let strict = rules.strict || (rules.required_in_threads && thread.is_some());
        free || incoming.mentioned || (incoming.addressed && !strict) || self.names_us(&incoming.text)
    }

    fn names_us(&self, text: &str) -> bool {
        self.patterns.iter().any(|pattern| pattern.is_match(text))
    }
}
