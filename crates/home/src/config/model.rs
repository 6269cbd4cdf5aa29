//! Which model answers.
//!
//! - nothing configured and no key: the rehearsal, which works offline and says so
//! - a model that is named and cannot be used is an error that says what to set, never another model
//! - a key is sent to its own vendor, or to the address that was written beside it
//! - servers on this machine or its network may do without a key

use super::{Origin, Report, Sourced, Written};
use std::net::IpAddr;
use throughline_hermes::config::provider::{self, Known, Reach, Wire};
use throughline_hermes::config::{At, Auxiliary, ModelSettings, NamedProvider, Secret};

/// What the gateway asks.
#[derive(Clone, Debug)]
pub enum ModelChoice {
    Rehearsal,
    /// Any server that speaks OpenAI's chat completions.
    OpenAi(Endpoint),
    /// Any server that speaks Anthropic's messages.
    Anthropic(Endpoint),
}

#[derive(Clone, Debug)]
pub struct Endpoint {
    pub provider: Sourced<String>,
    pub model: Sourced<String>,
    /// Without a slash at its end.
    pub base_url: Sourced<String>,
    pub key: Option<Sourced<Secret>>,
    /// What the user would change to give another key: `OPENAI_API_KEY`, `model.api_key`.
    pub key_name: String,
    pub headers: Vec<(String, Secret)>,
    pub context_length: Option<Sourced<u64>>,
    pub max_tokens: Option<Sourced<u64>>,
    pub timeouts: ModelTimeouts,
}

/// How long to wait for a model, where the user has said so, in seconds.
#[derive(Clone, Debug, Default)]
pub struct ModelTimeouts {
    /// For all of an answer.
    pub request: Option<Sourced<f64>>,
    /// For its first piece, and for each one after it.
    pub stale: Option<Sourced<f64>>,
}

/// The name that chooses the offline model by hand.
const REHEARSAL: &str = "rehearsal";

/// What is asked for if a key is all that we have: modest ones, since a default must not surprise
/// a user with a bill.
const MODELS: [(&str, &str); 3] = [
    ("openrouter", "z-ai/glm-5.2"),
    ("openai-api", "gpt-5.4-mini"),
    ("anthropic", "claude-haiku-4-5-20251001"),
];

/// Words that say: this server wants no key.
const NO_KEY: [&str; 3] = ["no-key-required", "no-key", "none"];

/// Why a model cannot be used.
struct Unusable {
    origin: Origin,
    text: String,
}

fn unusable<T>(origin: &Origin, text: impl Into<String>) -> Result<T, Unusable> {
    Err(Unusable { origin: origin.clone(), text: text.into() })
}

/// An endpoint on its way: where it is, and what is known about its key and model.
struct Draft {
    provider: Sourced<String>,
    base_url: Sourced<String>,
    wire: Sourced<Wire>,
    key: Option<(Sourced<Secret>, String)>,
    /// What to set if there is no key.
    key_name: String,
    /// The endpoint's own model, where the user named none.
    model: Option<Sourced<String>>,
    entry: Option<NamedProvider>,
}

impl Written {
    pub(super) fn model(&self, report: &mut Report) -> Option<ModelChoice> {
        let flag = self.overrides.model.as_ref();
        match (Chooser { written: self, model: &self.config.settings.model, flag }).choose(report) {
            Ok(choice) => Some(choice),
            Err(Unusable { origin, text }) => {
                report.refuse(&origin, text);
                None
            }
        }
    }

    /// The model that writes summaries, where the user names another one than that which answers. One
    /// that cannot be used is not a reason to stop: the model that answers writes them then.
    pub(super) fn summariser(&self, report: &mut Report) -> Option<ModelChoice> {
        let auxiliary = &self.config.settings.compression.auxiliary;
        self.auxiliary(auxiliary, "compression", "writes summaries", report)
    }

    /// Likewise the model that looks back at conversations.
    pub(super) fn reviewer(&self, report: &mut Report) -> Option<ModelChoice> {
        let auxiliary = &self.config.settings.review.auxiliary;
        self.auxiliary(auxiliary, "background_review", "reviews conversations", report)
    }

    fn auxiliary(
        &self,
        auxiliary: &Auxiliary,
        task: &str,
        does: &str,
        report: &mut Report,
    ) -> Option<ModelChoice> {
        let provider =
            auxiliary.provider.as_ref().filter(|name| !["", "auto", "main"].contains(&name.value.trim()));
        let given = auxiliary.model.as_ref().or(provider).or(auxiliary.base_url.as_ref())?;
        let main = &self.config.settings.model;
        let elsewhere = provider.is_some() || auxiliary.base_url.is_some();
        let own = |value: Option<At<Secret>>| value.filter(|_| !elsewhere);
        let model = ModelSettings {
            default: auxiliary.model.clone().or_else(|| main.default.clone().filter(|_| !elsewhere)),
            provider: match (provider, &auxiliary.base_url) {
                (Some(provider), _) => Some(provider.clone()),
                (None, Some(base_url)) => Some(At { value: "custom".to_owned(), place: base_url.place }),
                (None, None) => main.provider.clone(),
            },
            base_url: auxiliary.base_url.clone().or_else(|| main.base_url.clone().filter(|_| !elsewhere)),
            api_key: auxiliary.api_key.clone().or_else(|| own(main.api_key.clone())),
            api_mode: main.api_mode.clone().filter(|_| !elsewhere),
            context_length: auxiliary.context_length,
            max_tokens: None,
            headers: if elsewhere { Vec::new() } else { main.headers.clone() },
        };
        let mut apart = Report::default();
        match (Chooser { written: self, model: &model, flag: None }).choose(&mut apart) {
            Ok(ModelChoice::Rehearsal) => None,
            Ok(choice) => Some(choice),
            Err(Unusable { text, .. }) => {
                let origin = Origin::Config { line: given.place.line };
                report.warn(&origin, format!("the model of `auxiliary.{task}` cannot be used, so the one that answers {does}: {text}"));
                None
            }
        }
    }
}

/// What is chosen by: all that is written about the home, and the lines about this one model.
struct Chooser<'a> {
    written: &'a Written,
    model: &'a ModelSettings,
    flag: Option<&'a String>,
}

impl std::ops::Deref for Chooser<'_> {
    type Target = Written;

    fn deref(&self) -> &Written {
        self.written
    }
}

impl Chooser<'_> {
    fn choose(&self, report: &mut Report) -> Result<ModelChoice, Unusable> {
        let name = self.model_name();
        let provider = self.provider_name();
        let by_hand = provider.as_ref().or(name.as_ref()).filter(|word| word.value == REHEARSAL);
        if let Some(word) = by_hand {
            return Ok(rehearsal(&word.origin, report));
        }
        let draft = match provider {
            Some(provider) => Some(self.named(provider, report)?),
            None => self.automatic(name.as_ref(), report)?,
        };
        match draft {
            Some(draft) => self.finish(draft, name, report),
            None => Ok(rehearsal(&Origin::Because("no key and no model is configured".to_owned()), report)),
        }
    }

    fn model_name(&self) -> Option<Sourced<String>> {
        let flag = self.flag.map(|name| Sourced::new(name.clone(), Origin::CommandLine));
        flag.or_else(|| self.model.default.clone().map(Sourced::from))
    }

    /// None: the user leaves it to us.
    fn provider_name(&self) -> Option<Sourced<String>> {
        let config = self.model.provider.clone().map(Sourced::from);
        let variable = || {
            self.variable("HERMES_INFERENCE_PROVIDER").map(|name| name.map(|name| name.expose().to_owned()))
        };
        let name = config.or_else(variable)?.map(|name| name.trim().to_lowercase());
        (name.value != "auto" && !name.value.is_empty()).then_some(name)
    }

    /// The provider that the user names: one of their own, or one that Hermes knows.
    fn named(&self, name: Sourced<String>, report: &mut Report) -> Result<Draft, Unusable> {
        let known = provider::known(&name.value);
        let built_in = known.is_some_and(|known| known.name == name.value && known.reach != Reach::Custom);
        // An entry for a provider that Hermes knows may say nothing but how long to wait for it.
        let is_endpoint = |entry: &&NamedProvider| !built_in && (known.is_none() || entry.base_url.is_some());
        if let Some(entry) = self.entry(&name.value).filter(is_endpoint) {
            return self.own_endpoint(name, entry);
        }
        match known {
            Some(known) => match &known.reach {
                Reach::Key { .. } => self.vendor(known, name, report),
                Reach::Custom => self.custom(name),
                Reach::Login => unusable(
                    &name.origin,
                    format!(
                        "the provider `{}` is one that Hermes logs in to, and Throughline cannot; choose one with an API \
                         key, or name an OpenAI-compatible server with `provider: custom` and `base_url`",
                        name.value
                    ),
                ),
            },
            None => unusable(&name.origin, unknown(&name.value, &self.config.settings.providers)),
        }
    }

    /// Among the user's own, by key or name; `custom:` may stand before it.
    fn entry(&self, name: &str) -> Option<&NamedProvider> {
        let plain = |name: &str| name.trim().to_lowercase().replace(' ', "-");
        let wanted = plain(name.strip_prefix("custom:").unwrap_or(name));
        let entries = self.config.settings.providers.iter();
        let mut matching = entries.filter(|entry| {
            plain(&entry.name) == wanted || entry.title.as_deref().map(plain) == Some(wanted.clone())
        });
        matching.next()
    }

    fn own_endpoint(&self, name: Sourced<String>, entry: &NamedProvider) -> Result<Draft, Unusable> {
        switched_on(entry)?;
        let Some(base_url) = entry.base_url.clone() else {
            let here = Origin::Config { line: entry.place.line };
            return unusable(&here, format!("the provider `{}` has no `base_url`", entry.name));
        };
        let base_url = Sourced::from(base_url);
        let title = format!("providers.{}", entry.name);
        let key_name = entry.key_variable.as_ref().map_or(format!("{title}.api_key"), |at| at.value.clone());
        Ok(Draft {
            wire: wire(entry.api_mode.as_ref(), provider::wire_of(&base_url.value))?,
            key: self.entry_key(entry, &title).or_else(|| self.key_by_host(&base_url.value)),
            key_name,
            model: entry.model.clone().map(Sourced::from),
            entry: Some(entry.clone()),
            provider: name,
            base_url,
        })
    }

    /// The user's own server, described in `model:` itself.
    fn custom(&self, name: Sourced<String>) -> Result<Draft, Unusable> {
        let written = self.model;
        let config = written.base_url.clone().map(Sourced::from);
        let variable =
            || self.variable("CUSTOM_BASE_URL").map(|url| url.map(|url| url.expose().trim().to_owned()));
        let Some(base_url) = config.or_else(variable) else {
            return unusable(
                &name.origin,
                format!("the provider `{}` needs an address; set `model.base_url`", name.value),
            );
        };
        Ok(Draft {
            wire: wire(written.api_mode.as_ref(), provider::wire_of(&base_url.value))?,
            key: self.model_key().or_else(|| self.key_by_host(&base_url.value)),
            key_name: "model.api_key".to_owned(),
            model: None,
            entry: None,
            provider: name,
            base_url,
        })
    }

    /// A provider that Hermes knows.
    fn vendor(
        &self,
        known: &'static Known,
        name: Sourced<String>,
        report: &mut Report,
    ) -> Result<Draft, Unusable> {
        let Reach::Key { wire: usual, base_url, key_variables, base_url_variable } = &known.reach else {
            return unusable(&name.origin, unknown(&name.value, &self.config.settings.providers));
        };
        let written = self.model;
        let entry = self.entry(known.name);
        entry.map_or(Ok(()), switched_on)?;
        let own = entry.and_then(|entry| entry.base_url.clone());
        let config = self.base_url_for(known, report).or(own).map(Sourced::from);
        let variable = base_url_variable.and_then(|variable| self.variable(variable));
        let variable = variable.map(|url| url.map(|url| url.expose().trim().to_owned()));
        let usual_address =
            Some(Sourced::new((*base_url).to_owned(), Origin::Default)).filter(|_| !base_url.is_empty());
        let Some(address) = config.or(variable).or(usual_address) else {
            let text = format!("the provider `{}` needs an address; set `model.base_url`", name.value);
            return unusable(&name.origin, text);
        };
        let guessed = match (usual, &address.origin) {
            (Wire::Chat, Origin::Config { .. }) => provider::wire_of(&address.value),
            _ => *usual,
        };
        let title = format!("providers.{}", known.name);
        let key = self.model_key().or_else(|| entry.and_then(|entry| self.entry_key(entry, &title)));
        Ok(Draft {
            wire: wire(written.api_mode.as_ref(), guessed)?,
            key: key.or_else(|| key_variables.iter().find_map(|variable| self.key_in(variable))),
            key_name: key_variables.first().map_or("model.api_key", |variable| variable).to_owned(),
            model: entry.and_then(|entry| entry.model.clone()).map(Sourced::from),
            entry: entry.cloned(),
            provider: name.map(|_| known.name.to_owned()),
            base_url: address,
        })
    }

    /// `model.base_url`, unless it is left over from another vendor: no key goes there.
    fn base_url_for(&self, known: &Known, report: &mut Report) -> Option<At<String>> {
        let written = self.model.base_url.clone()?;
        let host = provider::host(&written.value)?;
        let lives_there = |other: &&Known| match &other.reach {
            Reach::Key { base_url, .. } => provider::host(base_url).as_ref() == Some(&host),
            _ => false,
        };
        let owners: Vec<_> = provider::PROVIDERS.iter().filter(lives_there).collect();
        if owners.is_empty() || owners.iter().any(|owner| owner.name == known.name) {
            return Some(written);
        }
        let text = format!(
            "`model.base_url` is the address of `{}`, and is not used for `{}`",
            owners[0].name, known.name
        );
        report.warn(&Origin::Config { line: written.place.line }, text);
        None
    }

    /// No provider is named: an address decides, then the name of the model, then whichever key is
    /// there. None: nothing is configured.
    fn automatic(
        &self,
        model: Option<&Sourced<String>>,
        report: &mut Report,
    ) -> Result<Option<Draft>, Unusable> {
        let because = |reason: &str| Origin::Because(reason.to_owned());
        if let Some(base_url) = &self.model.base_url {
            let host = provider::host(&base_url.value).unwrap_or_default();
            let domains = [
                ("openrouter.ai", "openrouter"),
                ("anthropic.com", "anthropic"),
                ("openai.com", "openai-api"),
            ];
            let vendor = domains.iter().find(|(domain, _)| provider::host_within(&host, domain));
            let name = vendor.map_or("custom", |(_, name)| name);
            return self
                .named(Sourced::new(name.to_owned(), because("by `model.base_url`")), report)
                .map(Some);
        }
        if let Some((known, reason)) = self.vendor_by_key(model) {
            return self
                .vendor(known, Sourced::new(known.name.to_owned(), because(&reason)), report)
                .map(Some);
        }
        match model {
            None => Ok(None),
            Some(model) => unusable(
                &model.origin,
                format!(
                    "the model `{}` is named, and there is no key for it; set OPENROUTER_API_KEY, OPENAI_API_KEY or \
                     ANTHROPIC_API_KEY in .env, or `model.base_url` for a server of your own",
                    model.value
                ),
            ),
        }
    }

    /// The vendor whose key is there, and why it is that one. Without a model to ask for, only those
    /// that have a default count: many a shell has a key that was not meant for us.
    fn vendor_by_key(&self, model: Option<&Sourced<String>>) -> Option<(&'static Known, String)> {
        let by_key = |known: &'static Known| {
            let Reach::Key { key_variables, .. } = &known.reach else { return None };
            let variable = key_variables.iter().find(|variable| self.key_in(variable).is_some())?;
            Some((known, format!("{variable} is set")))
        };
        let hint = model.and_then(|model| vendor_by_name(&model.value)).and_then(provider::known);
        let by_name = || {
            let with_key = self.model.api_key.as_ref().and(hint);
            hint.and_then(by_key).or_else(|| Some((with_key?, "by the name of the model".to_owned())))
        };
        let by_address = || {
            self.variable("OPENAI_BASE_URL")?;
            Some((provider::known("openai-api")?, "OPENAI_BASE_URL is set".to_owned()))
        };
        let has_default = |known: &&Known| MODELS.iter().any(|(name, _)| *name == known.name);
        let candidates = provider::PROVIDERS.iter().filter(|known| model.is_some() || has_default(known));
        by_name().or_else(by_address).or_else(|| candidates.into_iter().find_map(by_key))
    }

    fn finish(
        &self,
        draft: Draft,
        name: Option<Sourced<String>>,
        report: &mut Report,
    ) -> Result<ModelChoice, Unusable> {
        let host = usable_host(&draft.base_url)?;
        let is_near = is_near(&host);
        let no_key = draft.key.as_ref().is_some_and(|(key, _)| NO_KEY.contains(&key.value.expose()));
        let (key, key_name) = match draft.key {
            Some((key, name)) => (Some(key).filter(|_| !no_key), name),
            None => (None, draft.key_name),
        };
        if key.is_none() && !is_near && !no_key {
            return unusable(
                &name.as_ref().map_or(draft.provider.origin.clone(), |name| name.origin.clone()),
                format!("there is no key for {host}; set {key_name}{}", where_to(&key_name)),
            );
        }
        if key.is_some() && !is_near && draft.base_url.value.starts_with("http://") {
            report
                .warn(&draft.base_url.origin, format!("the key travels to {host} unencrypted; use https://"));
        }
        let written = self.model;
        let entry = draft.entry.as_ref();
        let model = match name.or(draft.model) {
            Some(model) => model,
            None => default_model(&draft.provider, &draft.base_url, report)?,
        };
        let context_length = written.context_length.or_else(|| entry.and_then(|entry| entry.context_length));
        let max_tokens = written.max_tokens.or_else(|| entry.and_then(|entry| entry.max_tokens));
        let mut headers = written.headers.clone();
        headers.extend(entry.into_iter().flat_map(|entry| entry.headers.clone()));
        let timeouts = self.timeouts(&draft.provider.value, &model.value, is_near);
        let endpoint = Endpoint {
            timeouts,
            model,
            base_url: draft.base_url.map(|url| url.trim_end_matches('/').to_owned()),
            key,
            key_name,
            headers,
            context_length: context_length.map(Sourced::from),
            max_tokens: max_tokens.map(Sourced::from),
            provider: draft.provider,
        };
        rows(&endpoint, &draft.wire, report);
        Ok(match draft.wire.value {
            Wire::Chat => ModelChoice::OpenAi(endpoint),
            Wire::Messages => ModelChoice::Anthropic(endpoint),
        })
    }

    /// By Hermes' names, in its order: of the model, of its provider, of the environment.
    fn timeouts(&self, provider: &str, model: &str, is_near: bool) -> ModelTimeouts {
        let entry = self.entry(provider);
        let of_model = entry.and_then(|entry| entry.timeouts_of.iter().find(|(name, _)| name == model));
        let of_model = of_model.map(|(_, timeouts)| timeouts);
        let of_provider = entry.map(|entry| &entry.timeouts);
        let written = [of_model, of_provider];
        let request = written.iter().find_map(|timeouts| timeouts.and_then(|timeouts| timeouts.request));
        let stale = written.iter().find_map(|timeouts| timeouts.and_then(|timeouts| timeouts.stale));
        let variable = |name: &str| {
            let seconds = self.variable(name)?.map(|text| text.expose().trim().parse::<f64>().unwrap_or(0.0));
            Some(seconds).filter(|seconds| seconds.value > 0.0 && seconds.value.is_finite())
        };
        // A server on this machine may read a long prompt for minutes before it says a word.
        let near = || {
            let written = self.config.settings.agent.local_stream_stale_timeout.map(Sourced::from);
            variable("HERMES_LOCAL_STREAM_STALE_TIMEOUT").or(written).filter(|_| is_near)
        };
        ModelTimeouts {
            request: request.map(Sourced::from).or_else(|| variable("HERMES_API_TIMEOUT")),
            stale: stale.map(Sourced::from).or_else(|| variable("HERMES_STREAM_STALE_TIMEOUT")).or_else(near),
        }
    }

    // ------------------------------------------------------------------------------------------ keys

    fn model_key(&self) -> Option<(Sourced<Secret>, String)> {
        let key = self.model.api_key.clone()?;
        Some((key.into(), "model.api_key".to_owned()))
    }

    fn entry_key(&self, entry: &NamedProvider, title: &str) -> Option<(Sourced<Secret>, String)> {
        let variable = entry.key_variable.as_ref().and_then(|variable| self.key_in(&variable.value));
        variable.or_else(|| Some((entry.api_key.clone()?.into(), format!("{title}.api_key"))))
    }

    fn key_by_host(&self, base_url: &str) -> Option<(Sourced<Secret>, String)> {
        self.key_in(&provider::key_variable_of(base_url)?)
    }

    fn key_in(&self, variable: &str) -> Option<(Sourced<Secret>, String)> {
        let key = self.variable(variable)?;
        let key = key.map(|key| Secret::new(key.expose().trim()));
        provider::is_usable_secret(key.value.expose(), 4).then(|| (key, variable.to_owned()))
    }
}

fn switched_on(entry: &NamedProvider) -> Result<(), Unusable> {
    match entry.enabled {
        true => Ok(()),
        false => unusable(
            &Origin::Config { line: entry.place.line },
            format!("the provider `{}` is switched off (`enabled: false`)", entry.name),
        ),
    }
}

/// The wire format that was written, else the usual one. Of `codex_responses` Hermes keeps leftovers
/// that it does not believe itself, and every server that speaks it takes chat completions, too.
fn wire(mode: Option<&At<String>>, usual: Wire) -> Result<Sourced<Wire>, Unusable> {
    let Some(mode) = mode else { return Ok(Sourced::new(usual, Origin::Default)) };
    let origin = Origin::Config { line: mode.place.line };
    match mode.value.to_lowercase().as_str() {
        "chat_completions" => Ok(Sourced::new(Wire::Chat, origin)),
        "anthropic_messages" => Ok(Sourced::new(Wire::Messages, origin)),
        "codex_responses" => {
            Ok(Sourced::new(usual, Origin::Because("`codex_responses` is not spoken here".to_owned())))
        }
        other => unusable(
            &origin,
            format!(
                "Throughline does not speak `{other}`; `api_mode` is `chat_completions` or `anthropic_messages`"
            ),
        ),
    }
}

fn usable_host(base_url: &Sourced<String>) -> Result<String, Unusable> {
    let is_web = base_url.value.starts_with("http://") || base_url.value.starts_with("https://");
    let whole = !base_url.value.contains(['{', '}']) && !base_url.value.contains(char::is_whitespace);
    match provider::host(&base_url.value).filter(|_| is_web && whole) {
        Some(host) => Ok(host),
        None => unusable(
            &base_url.origin,
            "an address of a model begins with http:// or https:// and names a host",
        ),
    }
}

/// On this machine or its own network, by the look of it: such servers often want no key.
fn is_near(host: &str) -> bool {
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => {
            let [first, second, ..] = address.octets();
            let shared = first == 100 && (64..128).contains(&second); // overlay networks
            address.is_loopback()
                || address.is_private()
                || address.is_link_local()
                || address.is_unspecified()
                || shared
        }
        Ok(IpAddr::V6(address)) => {
            let unique_local = (address.segments()[0] & 0xfe00) == 0xfc00;
            address.is_loopback()
                || address.is_unspecified()
                || unique_local
                || address.is_unicast_link_local()
        }
        Err(_) => {
            let endings = [".localhost", ".local", ".lan", ".internal", ".home.arpa"];
            !host.contains('.') || endings.iter().any(|ending| host.ends_with(ending))
        }
    }
}

/// Whose model that must be, by the look of its name.
fn vendor_by_name(model: &str) -> Option<&'static str> {
    let starts = |beginnings: &[&str]| beginnings.iter().any(|beginning| model.starts_with(beginning));
    match model {
        name if name.contains('/') => Some("openrouter"),
        _ if starts(&["claude"]) => Some("anthropic"),
        _ if starts(&["gpt-", "o1", "o3", "o4"]) => Some("openai-api"),
        _ => None,
    }
}

fn where_to(key_name: &str) -> &'static str {
    match key_name.contains('.') {
        true => " in config.yaml",
        false => " in .env or in the environment",
    }
}

fn default_model(
    provider: &Sourced<String>,
    base_url: &Sourced<String>,
    report: &mut Report,
) -> Result<Sourced<String>, Unusable> {
    let known = MODELS.iter().find(|(name, _)| *name == provider.value && base_url.origin == Origin::Default);
    match known {
        Some((_, model)) => {
            let text = format!(
                "no model is named, so `{model}` is asked; choose with `model.default` in config.yaml"
            );
            report.warn(&Origin::Default, text);
            Ok(Sourced::new((*model).to_owned(), Origin::Default))
        }
        None => unusable(
            &base_url.origin,
            format!("no model is named for {}; set `model.default` in config.yaml", base_url.value),
        ),
    }
}

fn unknown(name: &str, own: &[NamedProvider]) -> String {
    let own: Vec<_> = own.iter().map(|entry| format!("`{}`", entry.name)).collect();
    let yours = match own.is_empty() {
        true => String::new(),
        false => format!(" Under `providers` there are {}.", own.join(", ")),
    };
    format!(
        "the provider `{name}` is not known. For a server of your own write `provider: custom` and `base_url`; others \
         are `openrouter`, `openai`, `anthropic`, `deepseek`, `gemini` and more of Hermes' names.{yours}"
    )
}

fn rehearsal(origin: &Origin, report: &mut Report) -> ModelChoice {
    report.row("model", "rehearsal, the built-in offline model", origin);
    ModelChoice::Rehearsal
}

fn rows(endpoint: &Endpoint, wire: &Sourced<Wire>, report: &mut Report) {
    let word = match wire.value {
        Wire::Chat => "chat_completions",
        Wire::Messages => "anthropic_messages",
    };
    report.sourced("model.default", &endpoint.model);
    report.sourced("model.provider", &endpoint.provider);
    report.sourced("model.base_url", &endpoint.base_url);
    report.row("model.api_mode", word, &wire.origin);
    match &endpoint.key {
        Some(key) => {
            report.row("model.api_key", format_args!("{} ({})", key.value, endpoint.key_name), &key.origin)
        }
        None => report.row("model.api_key", "none", &Origin::Default),
    }
    if let Some(length) = &endpoint.context_length {
        report.sourced("model.context_length", length);
    }
    if let Some(tokens) = &endpoint.max_tokens {
        report.sourced("model.max_tokens", tokens);
    }
    if let Some(seconds) = &endpoint.timeouts.request {
        report.sourced("request_timeout_seconds", seconds);
    }
    if let Some(seconds) = &endpoint.timeouts.stale {
        report.sourced("stale_timeout_seconds", seconds);
    }
}
