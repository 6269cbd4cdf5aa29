//! The form that a server wants filled in: its fields, how each is put to a person, and what an answer means.
//!
//! It is the protocol's restricted schema: text, numbers, yes or no, one of several, some of several. All texts are the server's:
//! they are cut, and shown as plain text.
//!
//! Deliberately absent: asking.

use rmcp::model::ElicitationSchema;
use serde_json::{Number, Value};

/// More fields are not a question any more.
const FIELDS_MAX: usize = 16;
const CHOICES_MAX: usize = 50;
/// Of each text, in characters.
pub const MESSAGE_MAX: usize = 1_500;
const NAME_MAX: usize = 100;
const DESCRIPTION_MAX: usize = 400;
const CHOICE_MAX: usize = 80;
/// The longest answer that is passed on.
const ANSWER_MAX: usize = 8_000;

/// Names of what a person should not type into a chat, without anything but letters and digits.
const SECRETS: [&str; 9] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "apikey",
    "accesskey",
    "privatekey",
    "credential",
    "creditcard",
];

#[derive(Clone, Debug, PartialEq)]
pub struct FormField {
    pub name: String,
    title: String,
    description: String,
    kind: FieldKind,
    required: bool,
    default: Option<Value>,
}

#[derive(Clone, Debug, PartialEq)]
enum FieldKind {
    Text { length_min: u64, length_max: Option<u64>, format: Option<String> },
    Number { min: Option<f64>, max: Option<f64> },
    Integer { min: Option<i64>, max: Option<i64> },
    Boolean,
    One(Vec<FieldChoice>),
    Some { choices: Vec<FieldChoice>, count_min: usize, count_max: usize },
}

#[derive(Clone, Debug, PartialEq)]
struct FieldChoice {
    value: String,
    /// As it is shown: never a mere number, which would be the place of another one.
    label: String,
}

/// What an answer comes to.
#[derive(Clone, Debug, PartialEq)]
pub enum FilledForm {
    With(Value),
    LeftOut,
    /// What to say to the person.
    Unclear(String),
}

/// The fields in the order in which the server lists them. The error says why they are not asked for.
pub fn fields(schema: &ElicitationSchema) -> Result<Vec<FormField>, String> {
    if schema.properties.len() > FIELDS_MAX {
        return Err(format!("its form has {} fields; {FIELDS_MAX} are taken", schema.properties.len()));
    }
    let listed: Vec<&String> = match &schema.property_order {
        Some(order) => order.iter().collect(),
        None => schema.properties.keys().collect(),
    };
    let required = schema.required.as_deref().unwrap_or_default();
    let mut fields = Vec::new();
    for name in listed {
        let Some(property) = schema.properties.get(name) else { continue };
        let property = serde_json::to_value(property).map_err(|error| error.to_string())?;
        let field = FormField::of(name, &property, required.contains(name))?;
        if is_secret(name) || is_secret(&field.title) {
            return Err(format!("its form asks for a secret ({:?})", plain(name, NAME_MAX)));
        }
        fields.push(field);
    }
    Ok(fields)
}

fn is_secret(name: &str) -> bool {
    let letters: String = name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    let is_token = letters.ends_with("token"); // `max_tokens` is a number of something else
    is_token || SECRETS.iter().any(|secret| letters.contains(secret))
}

impl FormField {
    fn of(name: &str, property: &Value, required: bool) -> Result<Self, String> {
        let text = |key: &str| property[key].as_str().unwrap_or_default();
        let titled = |list: &Value| {
            let choices = list.as_array().into_iter().flatten();
            choices
                .filter_map(|it| Some(FieldChoice::of(it["const"].as_str()?, it["title"].as_str())))
                .collect::<Vec<_>>()
        };
        let untitled = |list: &Value, names: &Value| {
            let values = list.as_array().into_iter().flatten().enumerate();
            values
                .filter_map(|(place, it)| Some(FieldChoice::of(it.as_str()?, names[place].as_str())))
                .collect::<Vec<_>>()
        };
        let kind = match text("type") {
            "string" if property["oneOf"].is_array() => FieldKind::One(titled(&property["oneOf"])),
            "string" if property["enum"].is_array() => {
                FieldKind::One(untitled(&property["enum"], &property["enumNames"]))
            }
            "string" => FieldKind::Text {
                length_min: property["minLength"].as_u64().unwrap_or(0),
                length_max: property["maxLength"].as_u64(),
                format: property["format"].as_str().map(str::to_owned),
            },
            "number" => {
                FieldKind::Number { min: property["minimum"].as_f64(), max: property["maximum"].as_f64() }
            }
            "integer" => {
                FieldKind::Integer { min: property["minimum"].as_i64(), max: property["maximum"].as_i64() }
            }
            "boolean" => FieldKind::Boolean,
            "array" => {
                let items = &property["items"];
                let choices = match items["anyOf"].is_array() {
                    true => titled(&items["anyOf"]),
                    false => untitled(&items["enum"], &Value::Null),
                };
                let count = |key: &str| property[key].as_u64().and_then(|it| usize::try_from(it).ok());
                let (count_min, count_max) =
                    (count("minItems").unwrap_or(0), count("maxItems").unwrap_or(choices.len()));
                FieldKind::Some { choices, count_min, count_max }
            }
            other => return Err(format!("its form has a field of the unknown type {:?}", plain(other, 20))),
        };
        let choices = match &kind {
            FieldKind::One(choices) | FieldKind::Some { choices, .. } => choices.as_slice(),
            _ => &[],
        };
        if choices.len() > CHOICES_MAX || matches!(&kind, FieldKind::One(choices) if choices.is_empty()) {
            return Err(format!("a field of its form has {} choices", choices.len()));
        }
        let title = if text("title").is_empty() { name } else { text("title") };
        let mut field = Self {
            name: name.to_owned(),
            title: plain(title, NAME_MAX),
            description: plain(text("description"), DESCRIPTION_MAX),
            kind,
            required,
            default: None,
        };
        let default = &property["default"];
        field.default = (!default.is_null() && field.takes(default)).then(|| default.clone());
        Ok(field)
    }

    /// Whether a value that was not typed, such as a default, is one for this field.
    fn takes(&self, value: &Value) -> bool {
        match (&self.kind, value) {
            (FieldKind::Text { .. } | FieldKind::One(_), Value::String(text)) => {
                matches!(&self.kind, FieldKind::One(choices) if choices.iter().any(|it| it.value == *text))
                    || matches!(&self.kind, FieldKind::Text { .. } if self.checked_text(text).is_ok())
            }
            (FieldKind::Number { .. }, Value::Number(_)) | (FieldKind::Integer { .. }, Value::Number(_)) => {
                matches!(self.read_value(&value.to_string()), FilledForm::With(_))
            }
            (FieldKind::Boolean, Value::Bool(_)) => true,
            (FieldKind::Some { choices, .. }, Value::Array(chosen)) => chosen
                .iter()
                .all(|it| choices.iter().any(|choice| Some(choice.value.as_str()) == it.as_str())),
            _ => false,
        }
    }

    /// What is shown of it.
    pub fn question(&self) -> String {
        let mut text = format!("{}:", self.title);
        if !self.description.is_empty() {
            text.push_str(&format!(" {}", self.description));
        }
        text.push_str(&format!("\n({}", self.wanted()));
        if let Some(default) = &self.default {
            text.push_str(&format!("; write default for {}", self.shown(default)));
        }
        if !self.required {
            text.push_str("; write skip to leave it out");
        }
        text.push(')');
        text
    }

    /// What can be picked by its number.
    pub fn choices(&self) -> Vec<String> {
        match &self.kind {
            FieldKind::One(choices) | FieldKind::Some { choices, .. } => {
                choices.iter().map(|choice| choice.label.clone()).collect()
            }
            FieldKind::Boolean => vec!["yes".to_owned(), "no".to_owned()],
            _ => Vec::new(),
        }
    }

    /// A value in a person's words.
    pub fn shown(&self, value: &Value) -> String {
        let label = |value: &str| match &self.kind {
            FieldKind::One(choices) | FieldKind::Some { choices, .. } => {
                choices.iter().find(|choice| choice.value == value).map(|choice| choice.label.clone())
            }
            _ => None,
        };
        match value {
            Value::String(text) => label(text).unwrap_or_else(|| format!("{:?}", plain(text, NAME_MAX))),
            Value::Bool(true) => "yes".to_owned(),
            Value::Bool(false) => "no".to_owned(),
            Value::Array(chosen) if chosen.is_empty() => "none".to_owned(),
            Value::Array(chosen) => {
                let labels = chosen.iter().filter_map(|it| label(it.as_str()?));
                labels.collect::<Vec<_>>().join(", ")
            }
            other => other.to_string(),
        }
    }

    pub fn title(&self) -> &str {
        &self.title
    }

    fn wanted(&self) -> String {
        let between = |what: &str, min: Option<String>, max: Option<String>| match (min, max) {
            (Some(min), Some(max)) => format!("{what} from {min} to {max}"),
            (Some(min), None) => format!("{what}, at least {min}"),
            (None, Some(max)) => format!("{what}, at most {max}"),
            (None, None) => what.to_owned(),
        };
        match &self.kind {
            FieldKind::Text { length_min, length_max, format } => {
                let what = match format.as_deref() {
                    Some("email") => "an e-mail address",
                    Some("uri") => "an address with its scheme, such as https://example.org",
                    Some("date") => "a date, such as 2026-05-28",
                    Some("date-time") => "a date and a time, such as 2026-05-28T09:30:00Z",
                    _ => "text",
                };
                let length = |it: u64| format!("{it} characters");
                between(what, (*length_min > 0).then(|| length(*length_min)), length_max.map(length))
            }
            FieldKind::Number { min, max } => {
                between("a number", min.map(|it| it.to_string()), max.map(|it| it.to_string()))
            }
            FieldKind::Integer { min, max } => {
                between("a whole number", min.map(|it| it.to_string()), max.map(|it| it.to_string()))
            }
            FieldKind::Boolean => "yes or no".to_owned(),
            FieldKind::One(_) => "one of these, or its number".to_owned(),
            FieldKind::Some { choices, count_min, count_max } => {
                let (min, max) = (*count_min > 0, *count_max < choices.len());
                let numbers = "some of these by their numbers, with commas between them, or none";
                between(numbers, min.then(|| count_min.to_string()), max.then(|| count_max.to_string()))
            }
        }
    }

    /// One of the choices is called so: then the word is an answer, and no order.
    pub fn names(&self, word: &str) -> bool {
        match &self.kind {
            FieldKind::One(choices) | FieldKind::Some { choices, .. } => {
                choices.iter().any(|choice| choice.is(word))
            }
            _ => false,
        }
    }

    /// What a person's answer is as a value of this field.
    pub fn read(&self, said: &str) -> FilledForm {
        let said = said.trim();
        if said.chars().nth(ANSWER_MAX).is_some() {
            return FilledForm::Unclear(format!("That is longer than {ANSWER_MAX} characters."));
        }
        let is = |word: &str| said.eq_ignore_ascii_case(word) && !self.names(said);
        if let (true, Some(default)) = (said.is_empty() || is("default"), &self.default) {
            return FilledForm::With(default.clone());
        }
        if !self.required && (said.is_empty() || is("skip")) {
            return FilledForm::LeftOut;
        }
        self.read_value(said)
    }

    fn read_value(&self, said: &str) -> FilledForm {
        let unclear = || FilledForm::Unclear(format!("That is not what is asked for: {}.", self.wanted()));
        match &self.kind {
            FieldKind::Text { .. } => match self.checked_text(said) {
                Ok(()) => FilledForm::With(Value::from(said)),
                Err(()) => unclear(),
            },
            FieldKind::Number { min, max } => match said.parse::<f64>().ok().filter(|it| it.is_finite()) {
                Some(number)
                    if min.is_none_or(|min| number >= min) && max.is_none_or(|max| number <= max) =>
                {
                    Number::from_f64(number).map_or_else(unclear, |it| FilledForm::With(Value::Number(it)))
                }
                _ => unclear(),
            },
            FieldKind::Integer { min, max } => match said.parse::<i64>() {
                Ok(number) if min.is_none_or(|min| number >= min) && max.is_none_or(|max| number <= max) => {
                    FilledForm::With(Value::from(number))
                }
                _ => unclear(),
            },
            FieldKind::Boolean => match said.to_lowercase().as_str() {
                "yes" | "y" | "true" | "1" => FilledForm::With(Value::Bool(true)),
                "no" | "n" | "false" | "2" => FilledForm::With(Value::Bool(false)),
                _ => unclear(),
            },
            FieldKind::One(choices) => match chosen(choices, said) {
                Some(choice) => FilledForm::With(Value::from(choice.value.as_str())),
                None => unclear(),
            },
            FieldKind::Some { choices, count_min, count_max } => {
                let names: Vec<&str> = match said.eq_ignore_ascii_case("none") && !self.names(said) {
                    true => Vec::new(),
                    false => said.split(',').map(str::trim).filter(|it| !it.is_empty()).collect(),
                };
                // More names than choices are no answer: each can be named once.
                let taken: Option<Vec<&FieldChoice>> = (names.len() <= choices.len())
                    .then(|| names.iter().map(|name| chosen(choices, name)).collect())
                    .flatten();
                let Some(mut taken) = taken else { return unclear() };
                taken.dedup_by(|one, other| one.value == other.value);
                match (*count_min..=*count_max).contains(&taken.len()) {
                    true => FilledForm::With(taken.iter().map(|it| Value::from(it.value.as_str())).collect()),
                    false => unclear(),
                }
            }
        }
    }

    fn checked_text(&self, text: &str) -> Result<(), ()> {
        let FieldKind::Text { length_min, length_max, format } = &self.kind else { return Err(()) };
        let length = text.chars().count() as u64;
        let fits = length >= *length_min && length_max.is_none_or(|max| length <= max);
        let is_right = match format.as_deref() {
            Some("email") => is_email(text),
            Some("uri") => reqwest::Url::parse(text).is_ok() && !text.contains(char::is_whitespace),
            Some("date") => is_date(text),
            Some("date-time") => is_date_time(text),
            _ => true,
        };
        if fits && is_right { Ok(()) } else { Err(()) }
    }
}

impl FieldChoice {
    fn of(value: &str, title: Option<&str>) -> Self {
        let label = plain(title.unwrap_or(value), CHOICE_MAX).replace('\n', " ");
        let is_number = label.parse::<u64>().is_ok();
        Self { value: value.to_owned(), label: if is_number { format!("{label:?}") } else { label } }
    }

    fn is(&self, said: &str) -> bool {
        self.label.to_lowercase() == said.to_lowercase()
            || (self.value == said && said.parse::<u64>().is_err())
    }
}

fn chosen<'a>(choices: &'a [FieldChoice], said: &str) -> Option<&'a FieldChoice> {
    let place = said.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    place.and_then(|place| choices.get(place)).or_else(|| choices.iter().find(|choice| choice.is(said)))
}

/// Good enough to notice that something else was typed; whether it exists is the server's to find out.
fn is_email(text: &str) -> bool {
    let plain = !text.contains(|c: char| c.is_whitespace() || c.is_control());
    let parts = text.rsplit_once('@');
    plain && parts.is_some_and(|(name, host)| !name.is_empty() && !name.contains('@') && is_host(host))
}

fn is_host(host: &str) -> bool {
    !host.is_empty() && host.split('.').all(|label| !label.is_empty() && !label.starts_with('-'))
}

/// `2026-05-28`, a day that there is.
fn is_date(text: &str) -> bool {
    let digits = text.len() == 10
        && text.bytes().enumerate().all(|(place, byte)| match place {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    if !digits {
        return false;
    }
    let number = |from: usize, to: usize| text[from..to].parse::<u32>().unwrap_or(0);
    let (year, month, day) = (number(0, 4), number(5, 7), number(8, 10));
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    (1..=days).contains(&day)
}

/// RFC 3339: a date, a time, and how far it is from Greenwich.
fn is_date_time(text: &str) -> bool {
    let Some((date, rest)) = text.split_at_checked(10) else { return false };
    let Some(rest) = rest.strip_prefix(['T', 't', ' ']) else { return false };
    let Some((time, rest)) = rest.split_at_checked(8) else { return false };
    let fraction = rest.strip_prefix('.').map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    let has_digits = fraction.is_none_or(|after| after.len() + 1 < rest.len());
    let zone = fraction.unwrap_or(rest);
    let zone = match zone {
        "Z" | "z" => Some("00:00"),
        zone => zone.strip_prefix(['+', '-']),
    };
    let seconds = |text: &str| {
        is_clock(text) || text.strip_suffix(":60").is_some_and(|it| is_clock(&format!("{it}:59")))
    };
    is_date(date) && seconds(time) && has_digits && zone.is_some_and(|zone| is_clock(&format!("{zone}:00")))
}

/// `23:59:59`
fn is_clock(text: &str) -> bool {
    let parts: Vec<&str> = text.split(':').collect();
    let part = |place: usize, below: u32| {
        let text = parts.get(place).copied().unwrap_or_default();
        let is_number = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number && text.parse::<u32>().is_ok_and(|number| number < below)
    };
    parts.len() == 3 && part(0, 24) && part(1, 60) && part(2, 60)
}

/// A server's words as plain text: cut, without what hides or turns characters, and without links under another name.
pub fn plain(text: &str, length: usize) -> String {
    let mut shown = String::new();
    let mut taken = 0;
    for c in text.trim().chars() {
        if taken >= length {
            shown.push('…');
            break;
        }
        let hides = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{ad}');
        match c {
            '\n' => shown.push('\n'),
            _ if hides => continue,
            c if c.is_control() => shown.push(' '),
            '(' if shown.ends_with(']') => shown.push_str(" ("),
            c => shown.push(c),
        }
        taken += 1;
    }
    shown
}

#[cfg(test)]
#[path = "form/tests.rs"]
mod tests;
