//! The user's own programs: those that may run, and why the others do not.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use throughline_core::port::{Happening, Hooks, Occasion, Promise};
use throughline_hermes::config::hooks::{Allowlist, Hook};
use throughline_home::config::Settings;
use throughline_plugins::PluginHooks;
use throughline_tools::hooks::{HookSurroundings, ShellHooks};

/// Where runs that outlive the gateway are kept.
const RUNS: &str = "throughline.hooks";

/// Hermes' consent holds here as well: a hook without consent is named, and does not run.
pub fn hooks(home: &Path, workspace: &Path, settings: &Settings, off: &mut Vec<String>) -> Arc<ShellHooks> {
    let user_home = settings.environment.get("HOME").map(std::path::PathBuf::from);
    let list = &settings.hooks.list;
    let running: Vec<Hook> = match is_on(settings, "HERMES_SAFE_MODE") {
        true => {
            off.extend(list.iter().map(|hook| named(hook, "HERMES_SAFE_MODE is set")));
            Vec::new()
        }
        false => {
            let text = fs::read_to_string(home.join(Allowlist::FILE)).unwrap_or_default();
            let allowlist = Allowlist::parse(&text);
            let all = settings.hooks.auto_accept || is_on(settings, "HERMES_ACCEPT_HOOKS");
            let refusal = |hook: &Hook| match (hook.has_its_occasion(), all || allowlist.allows(hook)) {
                (false, _) => Some("nothing of that kind happens in this version"),
                (true, false) => Some(
                    "no user has agreed to it; run `hermes hooks` or set `hooks_auto_accept: true`, then start again",
                ),
                (true, true) => None,
            };
            off.extend(list.iter().filter_map(|hook| Some(named(hook, refusal(hook)?))));
            let agreed = list.iter().filter(|hook| refusal(hook).is_none());
            match cfg!(unix) {
                true => agreed.cloned().collect(),
                false => {
                    off.extend(agreed.clone().map(|hook| named(hook, not_here(hook))));
                    agreed.filter(|hook| hook.is_before_a_call()).cloned().collect()
                }
            }
        }
    };
    let named = settings.environment.names();
    let process = named.filter_map(|name| Some((name.to_owned(), settings.environment.get(name)?)));
    let dotenv = settings.secrets.iter().map(|(name, secret)| (name.clone(), secret.expose().to_owned()));
    let surroundings = HookSurroundings::as_hermes_has_it(workspace.to_owned(), home, process, dotenv);
    Arc::new(ShellHooks::new(running, surroundings, home.join(RUNS), user_home.as_deref()))
}

/// Why what was agreed to does not run elsewhere than on Unix. One that may forbid a call is not left
/// out: it cannot be asked there, and so forbids it.
fn not_here(hook: &Hook) -> &'static str {
    match hook.is_before_a_call() {
        true => {
            "hooks are run on Linux and macOS only; it cannot be asked here, so the tools it decides about are refused"
        }
        false => "hooks are run on Linux and macOS only",
    }
}

fn is_on(settings: &Settings, variable: &str) -> bool {
    let value = settings.environment.get(variable).unwrap_or_default();
    ["1", "true", "yes", "on"].contains(&value.trim().to_lowercase().as_str())
}

fn named(hook: &Hook, why: &str) -> String {
    format!("hook {} `{}`: {why}", hook.event, hook.command)
}

/// Shell hooks and those of plugins, as one.
pub struct AgentHooks(Vec<Arc<dyn Hooks>>);

impl AgentHooks {
    pub fn new(shell: Arc<ShellHooks>, plugins: Vec<Arc<PluginHooks>>) -> Self {
        let plugins = plugins.into_iter().map(|hooks| hooks as Arc<dyn Hooks>);
        Self([shell as Arc<dyn Hooks>].into_iter().chain(plugins).collect())
    }

    /// Whose it is.
    fn of(&self, name: &str, occasion: Occasion) -> Option<&Arc<dyn Hooks>> {
        self.0.iter().find(|hooks| hooks.names(occasion).iter().any(|known| known == name))
    }
}

impl Hooks for AgentHooks {
    fn names(&self, occasion: Occasion) -> Vec<String> {
        self.0.iter().flat_map(|hooks| hooks.names(occasion)).collect()
    }

    fn run<'a>(&'a self, name: &'a str, happening: &'a Happening) -> Promise<'a, Result<(), String>> {
        match self.of(name, happening.occasion) {
            Some(hooks) => hooks.run(name, happening),
            None => Box::pin(async { Ok(()) }), // no hook waits for it
        }
    }

    fn forget(&self, name: &str, happening: &Happening) {
        self.0.iter().for_each(|hooks| hooks.forget(name, happening));
    }

    fn tell(&self, happening: Happening) {
        self.0.iter().for_each(|hooks| hooks.tell(happening.clone()));
    }
}
