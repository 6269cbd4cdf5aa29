//! A skill, used by its name: what the model is asked then, and what of it a person wrote.
//!
//! The model gets all of it. What is remembered of the turn, and recalled for it, is what the person wrote behind
//! the name: the skill itself lies in its file.

const OPENS: &str = "I want you to follow the skill \"";
const SHOWS: &str = "\" for this. Here is all of it:\n\n";
const WANTS: &str = "\n\nAnd this is what I want done with it:\n\n";

/// What the model is asked when a user types a skill's name, and behind it what they want.
pub fn invoked(name: &str, content: &str, wanted: &str) -> String {
    let (content, wanted) = (content.trim(), wanted.trim());
    match wanted.is_empty() {
        true => format!("{OPENS}{name}{SHOWS}{content}"),
        false => format!("{OPENS}{name}{SHOWS}{content}{WANTS}{wanted}"),
    }
}

/// What a person wrote of this: all of it, or what stands behind a skill. Empty: they only named the skill.
pub fn written(text: &str) -> &str {
    match text.strip_prefix(OPENS).and_then(|rest| rest.split_once(SHOWS)) {
        None => text,
        Some((_, shown)) => shown.rsplit_once(WANTS).map_or("", |(_, wanted)| wanted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_skill_only_what_a_person_wrote_behind_it_is_theirs() {
        assert_eq!(written(&invoked("tea", "Boil water.", " for two ")), "for two");
        assert_eq!(written(&invoked("tea", "Boil water.", "")), "");
        assert_eq!(written("Boil water."), "Boil water.");
        assert_eq!(
            written("I want you to follow the skill \"tea\"!"),
            "I want you to follow the skill \"tea\"!"
        );
    }
}
