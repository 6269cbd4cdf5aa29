//! What a review must not write down: that messages are missing, that the agent has forgotten, that
//! there are several of it.
//!
//! A model that looks back at a conversation sees summaries, gaps and its own absence, and takes them
//! for facts worth remembering; every later conversation then acts on them. The check is on words, by
//! sentence, and knows English only: what slips through can be seen and removed by a person, and what
//! is refused wrongly can be said in other words. A sentence is about the agent or its conversations,
//! or it is left alone: that a user's queue loses messages is a fact like any other.

/// Why this text must not be kept. None: it may.
pub fn false_claim(text: &str) -> Option<&'static str> {
    let lower = text.to_lowercase().replace('’', "'");
    let sentences = lower.split(['.', '!', '?', ';', '\n']);
    sentences.map(words).find_map(|words| claims(&words))
}

const MISSING: &str = "it claims that messages or context are missing; what is not visible here is no fact";
const AMNESIA: &str =
    "it claims that you have forgotten something; that would outlive its cause in every later conversation";
const SELVES: &str = "it claims that there are other instances of you; nothing here can show that";

fn claims(words: &[&str]) -> Option<&'static str> {
    let has = |list: &[&str]| words.iter().any(|word| list.contains(word));
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| contains(words, phrase));
    let is_of_self = has(&SELF);
    if says(&OTHER_SELVES) || (is_of_self && says(&INSTANCES)) {
        return Some(SELVES);
    }
    if has(&["amnesia", "amnesiac"]) || (is_of_self && (has(&FORGETS) || says(&FORGETTING))) {
        return Some(AMNESIA);
    }
    // What was said here, rather than somewhere in the user's world.
    let is_of_conversation = says(&CONVERSATION) || (is_of_self && has(&SAID));
    match is_of_conversation && (has(&LOST) || says(&LOSING)) {
        true => Some(MISSING),
        false => None,
    }
}

const SELF: [&str; 16] = [
    "i",
    "i'm",
    "i've",
    "me",
    "my",
    "myself",
    "mine",
    "agent",
    "agent's",
    "assistant",
    "assistant's",
    "ai",
    "bot",
    "bot's",
    "itself",
    "agents",
];

const SAID: [&str; 10] = [
    "message",
    "messages",
    "context",
    "history",
    "turns",
    "transcript",
    "conversation",
    "conversations",
    "session",
    "sessions",
];

const CONVERSATION: [&str; 22] = [
    "this conversation",
    "the conversation",
    "conversation history",
    "this session",
    "this chat",
    "chat history",
    "message history",
    "earlier messages",
    "previous messages",
    "prior messages",
    "past messages",
    "older messages",
    "some messages",
    "earlier context",
    "previous context",
    "prior context",
    "the context",
    "context was",
    "context is",
    "context window",
    "earlier turns",
    "previous turns",
];

const LOST: [&str; 19] = [
    "missing",
    "lost",
    "loses",
    "losing",
    "gone",
    "dropped",
    "drops",
    "truncated",
    "disappeared",
    "vanished",
    "wiped",
    "erased",
    "incomplete",
    "gap",
    "gaps",
    "skipped",
    "unavailable",
    "deleted",
    "swallowed",
];

const LOSING: [&str; 7] = [
    "cut off",
    "not visible",
    "never arrived",
    "not received",
    "never received",
    "did not arrive",
    "was reset",
];

const FORGETS: [&str; 4] = ["forgot", "forgets", "forgotten", "forgetful"];

const FORGETTING: [&str; 18] = [
    "no memory of",
    "no recollection",
    "not remember",
    "don't remember",
    "doesn't remember",
    "can't remember",
    "cannot remember",
    "cannot recall",
    "can't recall",
    "not recall",
    "don't recall",
    "memory loss",
    "memory was wiped",
    "memory was reset",
    "memory was lost",
    "memory was erased",
    "lost memory",
    "memory gaps",
];

const INSTANCES: [&str; 18] = [
    "another instance",
    "other instance",
    "other instances",
    "multiple instances",
    "several instances",
    "parallel instance",
    "parallel instances",
    "parallel session",
    "parallel sessions",
    "parallel conversation",
    "parallel conversations",
    "another copy",
    "other copies",
    "several copies",
    "multiple copies",
    "second instance",
    "two instances",
    "different instance",
];

const OTHER_SELVES: [&str; 15] = [
    "parallel self",
    "parallel selves",
    "other self",
    "other selves",
    "another me",
    "second me",
    "copy of me",
    "copies of me",
    "copy of myself",
    "copies of myself",
    "clone of me",
    "clones of me",
    "instance of me",
    "instances of me",
    "instances of myself",
];

fn contains(words: &[&str], phrase: &str) -> bool {
    let phrase: Vec<&str> = phrase.split(' ').collect();
    words.windows(phrase.len()).any(|window| window == phrase)
}

/// Letters, digits and apostrophes make a word.
fn words(sentence: &str) -> Vec<&str> {
    let is_inside = |c: char| c.is_alphanumeric() || c == '\'';
    sentence
        .split(|c| !is_inside(c))
        .map(|word| word.trim_matches('\''))
        .filter(|word| !word.is_empty())
        .collect()
}
